//! More than anybody wants: output without end, tasks without number, and a disk without room, through the
//! whole program.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::room::{PATH, Room};

/// Runs a program and tells the most memory that it had, in KiB, and how it ended.
const WATCH: &str = "import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(pid, 0)
print('peak', used.ru_maxrss, 'code', os.waitstatus_to_exitcode(status), file=sys.stderr)";

/// What a command through `haft` took.
struct Took {
    time: Duration,
    peak_kib: u64,
    said: String,
}

fn watched(room: &Room, command: &str) -> Took {
    let input = json!({"command": command, "timeout": 600_000}).to_string();
    watched_haft(room, &["call", "Bash", &input, "--allow", "Bash"])
}

fn watched_haft(room: &Room, args: &[&str]) -> Took {
    let mut python = Command::new("python3");
    python.args(["-c", WATCH, env!("CARGO_BIN_EXE_haft")]).args(args);
    python.current_dir(room.path("work")).env_clear().env("HOME", room.path("home"));
    python.env(PATH, std::env::var_os(PATH).unwrap()).stdin(Stdio::null());
    let begun = Instant::now();
    let output = python.output().unwrap();
    let time = begun.elapsed();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let peak = told.rsplit("peak ").next().and_then(|rest| rest.split_once(" code 0"));
    let peak_kib = peak.and_then(|(peak, _)| peak.parse().ok()).unwrap_or_else(|| panic!("{told}"));
    Took { time, peak_kib, said: said.into_owned() }
}

/// The same, through a plain pipe to a file.
fn plain(room: &Room, command: &str) -> Duration {
    let file = room.path("plain");
    let begun = Instant::now();
    let script = format!("{command} | cat > '{}'", file.display());
    assert!(Command::new("bash").args(["-c", &script]).status().unwrap().success());
    let time = begun.elapsed();
    std::fs::remove_file(file).unwrap();
    time
}

/// What a command may write without end.
#[derive(Debug, Clone, Copy)]
enum Flood {
    OnlyNuls,
    OneLine,
    Lines,
    InvalidUtf8,
}

impl Flood {
    fn command(self, mib: u64) -> String {
        match self {
            Flood::OnlyNuls => format!("head -c {mib}M /dev/zero"),
            Flood::OneLine => format!("head -c {mib}M /dev/zero | tr '\\0' x"),
            Flood::Lines => format!("yes 'one line of many' | head -c {mib}M"),
            Flood::InvalidUtf8 => format!("head -c {mib}M /dev/zero | tr '\\0' '\\377'"),
        }
    }

    /// What the result says of it.
    fn note(self, mib: u64) -> String {
        match self {
            Flood::OnlyNuls => format!("left out {} NUL bytes", mib << 20),
            _ => "haft kept the first 67108864 of".to_owned(),
        }
    }
}

/// Runs commands that write so much; the speed is measured if there is more than one try.
fn check_floods(floods: &[Flood], mib: u64, tries: usize) {
    let room = Room::new();
    let least = watched(&room, "true").peak_kib;
    for what in floods {
        let (command, expected) = (what.command(mib), what.note(mib));
        let (mut best, mut grown) = (0.0f64, 0);
        for _ in 0..tries {
            let plain = if tries > 1 { plain(&room, &command) } else { Duration::ZERO };
            let took = watched(&room, &command);
            assert!(took.said.contains(&expected), "{what:?}: {}", &took.said[..took.said.len().min(2_000)]);
            let said = took.said.chars().count();
            assert!(said < 60_000, "{said} characters");
            grown = grown.max(took.peak_kib.saturating_sub(least) / 1024);
            best = best.max(plain.as_secs_f64() / took.time.as_secs_f64());
            // Whatever else the machine does makes either slower; more tries only if it did.
            if best >= 0.5 {
                break;
            }
        }
        assert!(grown < 16, "{what:?}: {grown} MiB");
        if tries > 1 {
            println!(
                "proof: {mib} MiB of output through `haft call Bash`, {what:?}: the host grew by {grown} MiB over `true`; \
                 {best:.2} × as fast as a plain pipe to a file"
            );
            assert!(best >= 0.5, "{what:?}: {best}");
        }
    }
}

/// A little more than is kept of an output; nothing is said of speed.
const SMALL_FLOOD_MIB: u64 = 65;

#[test]
fn a_flood_costs_no_memory() {
    check_floods(&[Flood::Lines, Flood::OnlyNuls], SMALL_FLOOD_MIB, 1);
}

#[test]
#[ignore = "prove"]
fn prove_that_a_flood_costs_no_memory_and_half_of_the_speed_at_most() {
    check_floods(&[Flood::OnlyNuls, Flood::OneLine, Flood::Lines, Flood::InvalidUtf8], 4 << 10, 3);
}

/// How long answers of a model are here, in bytes: a short one, which has all that an answer costs whatever
/// its length (threads, and what the allocator keeps for each), and a long one.
///
/// The one is four times the other, so that buffers which double have the same share to spare in both.
const SHORT_ANSWER_BYTES: usize = ANSWER_BYTES / 4;
const ANSWER_BYTES: usize = 10 << 20;
/// How much of it comes at once.
const PIECE_BYTES: usize = 1_000;

/// A stream by this provider with an answer of so many pieces: what comes before, each piece, and what comes
/// after.
fn stream(provider: &str, pieces: usize) -> (String, String, String) {
    let piece = "twenty bytes of text".repeat(PIECE_BYTES / 20);
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    if provider == "anthropic" {
        let message = json!({"type": "message", "role": "assistant", "model": "m", "content": []});
        let begin = event(json!({"type": "message_start", "message": message}))
            + &event(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            );
        let delta = json!({"type": "text_delta", "text": piece});
        let end = event(json!({"type": "content_block_stop", "index": 0}))
            + &event(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}))
            + &event(json!({"type": "message_stop"}));
        return (begin, event(json!({"type": "content_block_delta", "index": 0, "delta": delta})), end);
    }
    // All of it is said four times more when it is over. It is put in last, as making JSON of it four times
    // takes longer than what is tested.
    let text = "WHOLE-ANSWER";
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let item =
        json!({"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]});
    let response = json!({"id": "r", "model": "m", "status": "completed", "output": [item]});
    let begin = event(json!({"type": "response.created", "response": {"model": "m"}}));
    let delta =
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece});
    let end = event(json!({"type": "response.output_text.done", "output_index": 0, "text": text}))
        + &event(json!({"type": "response.content_part.done", "output_index": 0, "part": part}))
        + &event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}))
        + &event(json!({"type": "response.completed", "response": response}));
    (begin, event(delta), end.replace(text, &piece.repeat(pieces)))
}

/// A provider whose answer is long if the user asks for much; its address. It ends with the test.
fn provider(provider: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let (mut asked, mut some) = (Vec::new(), [0; 16 * 1024]);
            let whole = |asked: &[u8]| {
                let text = String::from_utf8_lossy(asked).to_lowercase();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
                let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
                body.len() >= length.parse().unwrap()
            };
            while !whole(&asked) {
                let count = client.read(&mut some).unwrap();
                asked.extend_from_slice(&some[..count]);
            }
            let much = String::from_utf8_lossy(&asked).contains("say much");
            let pieces = if much { ANSWER_BYTES } else { SHORT_ANSWER_BYTES } / PIECE_BYTES;
            let (begin, piece, end) = stream(provider, pieces);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            client.write_all(head.as_bytes()).unwrap();
            client.write_all(begin.as_bytes()).unwrap();
            (0..pieces).for_each(|_| client.write_all(piece.as_bytes()).unwrap());
            client.write_all(end.as_bytes()).unwrap();
        }
    });
    format!("http://{address}")
}

/// The conversation has a long answer, the result has it, the display has it, and the journal while it is
/// written.
fn check_long_answer(name: &'static str, form: &str) {
    let url = provider(name);
    let room = Room::new();
    let run = |words: &str| {
        let args = ["run", words, "--provider", name, "--base-url", &url, "--model", "m", "--output", form];
        watched_haft(&room, &args)
    };
    let (least, most) = (run("say little"), run("say much"));
    assert!(most.said.len() > ANSWER_BYTES - PIECE_BYTES, "{name} {form}: {} bytes", most.said.len());
    let more_bytes = (most.peak_kib.saturating_sub(least.peak_kib) << 10) as f64;
    let copies = more_bytes / (ANSWER_BYTES - SHORT_ANSWER_BYTES) as f64;
    println!("{name} {form}: {copies:.2} × the answer");
    // Buffers that grow have some room to spare, but less than one more copy takes.
    assert!(copies < 5.0, "{name} {form}: {copies:.2} × the answer");
}

mod a_long_answer_is_kept_four_times_at_most {
    #[test]
    fn as_text() {
        super::check_long_answer("anthropic", "text");
    }

    #[test]
    fn as_json() {
        super::check_long_answer("anthropic", "json");
    }

    #[test]
    fn as_stream_json() {
        super::check_long_answer("anthropic", "stream-json");
    }
}

/// This wire repeats the whole answer in its last events.
mod a_long_answer_that_is_repeated_is_kept_four_times_at_most {
    #[test]
    fn as_text() {
        super::check_long_answer("openai", "text");
    }

    #[test]
    fn as_json() {
        super::check_long_answer("openai", "json");
    }

    #[test]
    fn as_stream_json() {
        super::check_long_answer("openai", "stream-json");
    }
}

/// As many as there may be, each in a sandbox of its own, one more that is refused, and all of them gone at
/// the end.
fn tasks() -> usize {
    let room = Room::new();
    let mark = format!("1000.{}", std::process::id());
    let background = |number: usize| {
        let input = json!({"command": format!("exec sleep {mark}"), "run_in_background": true});
        json!({"type": "tool_use", "id": number.to_string(), "name": "Bash", "input": input})
    };
    let most = haft::limits::TASKS_MAX;
    let mut calls: Vec<Value> = (0..=most).map(background).collect();
    let look = json!({"command": format!("echo beside")});
    calls.push(json!({"type": "tool_use", "id": "beside", "name": "Bash", "input": look}));
    calls.push(json!({"type": "tool_use", "id": "list", "name": "TaskOutput", "input": {}}));
    let message = json!({"role": "assistant", "content": calls}).to_string();
    let mut haft = room.haft(["dispatch", "--allow", "Bash"]);
    haft.env(PATH, std::env::var_os(PATH).unwrap());
    let ran = room.run(haft, &message);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let texts: Vec<&str> =
        answer["content"].as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), most + 3);
    assert!(texts[..most].iter().all(|text| text.starts_with("runs in the background as task-")));
    assert!(
        texts[most].contains("500 tasks already run in the background, and no more may"),
        "{}",
        texts[most]
    );
    assert!(texts[most + 1].starts_with("beside"), "{}", texts[most + 1]);
    assert!(texts[most + 2].contains("and 400 more that were started earlier"), "{}", texts[most + 2]);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let mut marked = lines.filter(|line| line.windows(mark.len()).any(|part| part == mark.as_bytes()));
    assert!(marked.next().is_none(), "something is left");
    most
}

#[test]
#[ignore = "prove"]
fn prove_that_five_hundred_tasks_run_and_none_is_left() {
    let most = tasks();
    println!(
        "proof: {most} commands in the background, each in its own sandbox; one more is refused; processes left: 0"
    );
}
