//! What reading a stream costs, against parsing the same events and nothing else; and a turn of the loop.
//!
//! Rounds alternate, so that a busy machine slows both; the ratio is the median over the rounds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use haft::{Effects, Engine, Registry, dynamic_tool};
use haft_agent::{AgentLoop, Conversation};
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_provider::stream::MessageReader;
use serde_json::{Value, json};

const ROUNDS: usize = 7;
const TEXT_BYTES: usize = 20 * 1024 * 1024;
const PIECE: &str = "twenty bytes of text";

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("| what | floor | measured | ratio |");
    println!("|---|---|---|---|");
    for wire in Wire::ALL {
        let (head, piece, tail) = events(wire);
        let pieces = TEXT_BYTES / PIECE.len();
        let bytes = format!("{head}{}{tail}", piece.repeat(pieces)).into_bytes();
        let (mut floors, mut reads) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            floors.push(timed(|| {
                let text = std::str::from_utf8(&bytes).unwrap();
                let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
                lines.filter(|line| serde_json::from_str::<Value>(black_box(line)).is_ok()).count()
            }));
            reads.push(timed(|| {
                let (mut reader, mut deltas, mut seen) = (MessageReader::new(wire), Vec::new(), 0);
                for chunk in bytes.chunks(16 * 1024) {
                    reader.feed(chunk, &mut deltas);
                    seen += deltas.drain(..).count();
                }
                let reply = reader.finish(&mut deltas);
                assert_eq!(reply.text().len(), pieces * PIECE.len());
                seen
            }));
        }
        row(&format!("20 MB of text in pieces of 20 bytes: {wire}"), floors, reads);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for calls in [6, 50] {
        let mut turns = Vec::new();
        for _ in 0..ROUNDS {
            turns.push(runtime.block_on(turn(calls)));
        }
        turns.sort();
        println!("| a run of two turns, {calls} reads of 5.6 KB, in process | | {:?} | |", turns[ROUNDS / 2]);
    }
}

async fn turn(calls: usize) -> Duration {
    let text = "x".repeat(5_600);
    let read = dynamic_tool("read", "Reads.", json!({"type": "object"}), move |_, _| {
        let text = text.clone();
        async move { Ok(text) }
    })
    .effects(|_| Effects::none());
    let engine = Engine::new(Registry::new().with(read).unwrap());
    let script = json!({"turns": [{"tool_calls": vec![json!({"name": "read"}); calls]}, {"text": "done"}]});
    let model = ScriptedModel::new(ModelScript::parse(&script.to_string()).unwrap(), Wire::Anthropic);
    let agent = AgentLoop::new(engine, model);
    let begun = Instant::now();
    let outcome = agent.run(&mut Conversation::new(Wire::Anthropic), "go").await;
    assert_eq!(outcome.calls.len(), calls);
    begun.elapsed()
}

/// The beginning of a stream, an event with a piece of text, the end.
fn events(wire: Wire) -> (String, String, String) {
    let event = |value: Value| format!("event: x\ndata: {value}\n\n");
    match wire {
        Wire::Anthropic => (
            event(json!({"type": "message_start", "message": {"content": []}}))
                + &event(
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ),
            event(
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": PIECE}}),
            ),
            event(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
        ),
        Wire::OpenAi => (
            event(json!({"type": "response.created", "response": {}})),
            event(
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": PIECE}),
            ),
            event(json!({"type": "response.completed", "response": {"status": "completed"}})),
        ),
        Wire::OpenAiChat => (
            String::new(),
            event(
                json!({"id": "x", "choices": [{"index": 0, "delta": {"content": PIECE}, "finish_reason": null}]}),
            ),
            event(json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
        ),
        Wire::Gemini => (
            String::new(),
            event(json!({"candidates": [{"content": {"parts": [{"text": PIECE}]}, "index": 0}]})),
            event(json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})),
        ),
    }
}

fn timed(work: impl FnOnce() -> usize) -> Duration {
    let begun = Instant::now();
    black_box(work());
    begun.elapsed()
}

fn row(what: &str, mut floors: Vec<Duration>, mut measured: Vec<Duration>) {
    floors.sort();
    measured.sort();
    let (floor, found) = (floors[floors.len() / 2], measured[measured.len() / 2]);
    let ratio = found.as_secs_f64() / floor.as_secs_f64();
    println!("| {what} | {floor:.0?} | {found:.0?} | {ratio:.2} |");
}
