//! Recorded streams through the reader: whole, in every split, cut off at every byte.

use std::collections::{BTreeSet, HashSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::LazyLock;

use haft::ToolCall;
use haft::call::CallInput;
use haft_agent::{Conversation, ModelReply, ModelRequest, ReplyDelta, StopReason, ToolDefinitions};
use haft_provider::endpoint::ProviderEndpoint;
use haft_provider::scripted::{ModelScript, serve_script};
use haft_provider::stream::{MessageReader, read_response};
use haft_provider::{RequestOptions, Wire};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::shared::{data, fits, request_schema};

/// One recorded message: its name, its wire, its bytes as they would come.
pub(crate) struct Recorded {
    pub(crate) name: String,
    pub(crate) wire: Wire,
    pub(crate) bytes: Vec<u8>,
}

/// A message with everything in it by every wire, as the scripted server says it: recordings lack some wires.
pub(crate) fn made() -> Vec<Recorded> {
    let calls = json!([{"name": "t", "input": {"a": "é\"\n", "b": [1, {"c": null}]}}, {"name": "ToolSearch", "input": {"query": "é"}}, {"name": "u"}]);
    let script = json!({"stream": {"chunk_chars": 5}, "turns": [{"thinking": "I think.", "text": "Só, I look.", "tool_calls": calls}]});
    let script = ModelScript::parse(&script.to_string()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(serve_script(script, "127.0.0.1:0".parse().unwrap())).unwrap();
    let said = |wire: Wire| {
        let mut conversation = Conversation::new(wire);
        conversation.say("go");
        let prompt =
            ModelRequest { system: &[], conversation: &conversation, tools: &ToolDefinitions::none() };
        let options = match wire {
            // Its searches have a form of their own.
            Wire::OpenAi => RequestOptions::new("m")
                .with("tools", json!([{"type": "tool_search", "execution": "client", "parameters": {}}])),
            _ => RequestOptions::new("m"),
        };
        let body = options.body(wire, &prompt);
        let url = ProviderEndpoint::new(wire).base_url(server.base_url(wire)).url("m", true).unwrap();
        let path = url.splitn(4, '/').last().unwrap();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let length = body.len();
        write!(
            stream,
            "POST /{path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, mut chunks) = answer.split_once("\r\n\r\n").unwrap();
        let mut bytes = Vec::new();
        while let Some((size, rest)) = chunks.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap();
            bytes.extend_from_slice(&rest.as_bytes()[..size]);
            chunks = &rest[size + 2..];
        }
        Recorded { name: format!("made {wire}"), wire, bytes }
    };
    Wire::ALL.into_iter().map(said).collect()
}

/// Every recorded message. A file may hold several, one after the other.
pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for folder in ["anthropic-sdk", "vercel-ai-anthropic", "vercel-ai-openai"] {
        let Some(path) = data(&format!("llm-streams/{folder}")) else { return Vec::new() };
        let mut files: Vec<_> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files {
            messages(&file, folder, &mut all);
        }
    }
    all
}

/// The same, read once for all cases of a property.
static RECORDED: LazyLock<Vec<Recorded>> = LazyLock::new(recorded);

fn messages(file: &Path, folder: &str, all: &mut Vec<Recorded>) {
    let name = file.file_name().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(file).unwrap();
    let wire = match (folder, name.starts_with("chat-")) {
        ("vercel-ai-openai", true) => Wire::OpenAiChat,
        ("vercel-ai-openai", false) => Wire::OpenAi,
        _ => Wire::Anthropic,
    };
    if !name.ends_with(".chunks.txt") {
        all.push(Recorded { name, wire, bytes: text.into_bytes() });
        return;
    }
    let mut bytes = String::new();
    let mut number = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        bytes.push_str(&format!("data: {line}\n\n"));
        let event: Value = serde_json::from_str(line).unwrap();
        if matches!(event["type"].as_str(), Some("message_stop" | "response.completed" | "response.failed")) {
            number += 1;
            let bytes = std::mem::take(&mut bytes).into_bytes();
            all.push(Recorded { name: format!("{name}#{number}"), wire, bytes });
        }
    }
    if !bytes.is_empty() {
        bytes.push_str("data: [DONE]\n\n");
        all.push(Recorded { name, wire, bytes: bytes.into_bytes() });
    }
}

fn read<'b>(wire: Wire, chunks: impl IntoIterator<Item = &'b [u8]>) -> (Vec<ReplyDelta>, ModelReply) {
    let (mut reader, mut deltas) = (MessageReader::new(wire), Vec::new());
    for chunk in chunks {
        reader.feed(chunk, &mut deltas);
    }
    let reply = reader.finish(&mut deltas);
    (deltas, reply)
}

fn ready(deltas: &[ReplyDelta]) -> Vec<ToolCall> {
    let call = |delta: &ReplyDelta| match delta {
        ReplyDelta::CallReady { ready, .. } => Some(ready.clone()),
        _ => None,
    };
    deltas.iter().filter_map(call).collect()
}

/// The calls that a message has, found by looking at its events alone.
fn expected_calls(bytes: &[u8]) -> BTreeSet<(String, String)> {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut calls = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let event: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        let (block, item) = (&event["content_block"], &event["item"]);
        for block in event["message"]["content"].as_array().into_iter().flatten().chain([block]) {
            if block["type"] == "tool_use" {
                calls.insert((block["id"].to_string(), block["name"].to_string()));
            }
        }
        if event["type"] == "response.output_item.done" && item["type"] == "function_call" {
            calls.insert((item["call_id"].to_string(), item["name"].to_string()));
        }
    }
    calls
}

#[test]
fn recorded_messages_are_read_whole() {
    let mut kinds = BTreeSet::new();
    for Recorded { name, wire, bytes } in recorded() {
        let (deltas, reply) = read(wire, [&bytes[..]]);
        assert_eq!(ready(&deltas), reply.calls(), "{name}");
        kinds.insert(reply.stop().word().to_owned());
        if matches!(reply.stop(), StopReason::Failed(_)) {
            assert!(name.contains("openai-error"), "{name}: {}", reply.stop());
            continue;
        }
        let found: BTreeSet<_> = reply
            .calls()
            .iter()
            .map(|call| (json!(&*call.id).to_string(), json!(&*call.name).to_string()))
            .collect();
        if !name.starts_with("spliced") && !name.starts_with("incomplete") {
            assert_eq!(found, expected_calls(&bytes), "{name}");
        }
        let text: String = deltas
            .iter()
            .filter_map(|delta| match delta {
                ReplyDelta::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, reply.text(), "{name}");
        // Messages of a few of these recordings have nothing in them.
        let empty =
            !deltas.iter().any(|delta| matches!(delta, ReplyDelta::Text(_) | ReplyDelta::CallReady { .. }));
        assert!(empty || !reply.items().is_empty(), "{name}");
        assert!(reply.usage().total_tokens() > 0 || name.contains("programmatic"), "{name}");
    }
    if !kinds.is_empty() {
        let kinds: Vec<_> = kinds.iter().map(String::as_str).collect();
        assert_eq!(kinds, ["calls", "end", "failed", "max_tokens", "refused"]);
    }
}

/// OpenAI sends the whole response at the end: read as one, it is the same as its stream.
#[test]
fn a_stream_and_its_whole_response_are_one() {
    let mut compared = 0;
    for Recorded { name, wire, bytes } in recorded().into_iter().filter(|one| one.wire == Wire::OpenAi) {
        let text = std::str::from_utf8(&bytes).unwrap();
        let completed = text.lines().find_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            (event["type"] == "response.completed").then(|| event["response"].clone())
        });
        let Some(completed) = completed else { continue };
        // One recording has other ids there than in its events, one lost most of its deltas, another has no
        // output.
        if name.contains("id-rotation")
            || name.contains("phase")
            || completed["output"].as_array().is_none_or(Vec::is_empty)
        {
            continue;
        }
        let (_, streamed) = read(wire, [&bytes[..]]);
        let at_once = read_response(wire, &completed.to_string()).unwrap();
        assert_eq!(streamed.calls(), at_once.calls(), "{name}");
        let rest = |reply: &ModelReply| format!("{:?} {:?} {}", reply.stop(), reply.usage(), reply.text());
        assert_eq!(rest(&streamed), rest(&at_once), "{name}");
        // What is encrypted is encrypted anew each time it is said.
        let items = |reply: &ModelReply| {
            let mut items = reply.items().to_vec();
            for item in items.iter_mut().filter_map(Value::as_object_mut) {
                item.remove("encrypted_content");
                item.remove("status");
            }
            items
        };
        // Programs have another fingerprint there.
        assert!(items(&streamed) == items(&at_once) || name.contains("programmatic"), "{name}");
        compared += 1;
    }
    assert!(compared > 10 || data("llm-streams").is_none(), "{compared}");
}

/// Streams in two halves, split at any byte: the same message and the same deltas, in the same order. Shown
/// event by event: after each, a reader that got it in two halves is where one is that got it whole, so all
/// that follows is the same. Returns at how many bytes.
fn check_splits(Recorded { name, wire, bytes }: &Recorded, at_all: bool) -> usize {
    let (mut reader, mut begin, mut tried) = (MessageReader::new(*wire), 0, 0);
    while begin < bytes.len() {
        let ends = bytes[begin..].windows(2).position(|two| two == b"\n\n");
        let end = ends.map_or(bytes.len(), |ends| begin + ends + 2);
        let (mut whole, mut deltas) = (reader.clone(), Vec::new());
        whole.feed(&bytes[begin..end], &mut deltas);
        // Of long recordings every so many bytes, and the ends of lines.
        let is_tried =
            |at: &usize| at_all || bytes.len() <= 2_000 || at.is_multiple_of(127) || bytes[*at] == b'\n';
        for at in (begin..end).filter(is_tried) {
            let (mut halves, mut told) = (reader.clone(), Vec::new());
            halves.feed(&bytes[begin..at], &mut told);
            halves.feed(&bytes[at..end], &mut told);
            assert!(told == deltas && halves == whole, "{name}, split at {at}");
            tried += 1;
        }
        (reader, begin) = (whole, end);
    }
    assert_eq!(reader.finish(&mut Vec::new()), read(*wire, [&bytes[..]]).1, "{name}");
    tried
}

#[test]
fn splits_change_nothing() {
    for one in recorded().into_iter().chain(made()) {
        assert_eq!(
            read(one.wire, one.bytes.chunks(1)),
            read(one.wire, [&one.bytes[..]]),
            "{}, byte by byte",
            one.name
        );
        check_splits(&one, false);
    }
}

/// Every byte of every recording: split there, and cut off there.
#[test]
#[ignore = "prove"]
fn prove_every_byte_of_every_recording() {
    let Some(schemas) = Schemas::read() else { return };
    let (mut splits, mut cuts) = (0, 0);
    let all: Vec<Recorded> = recorded().into_iter().chain(made()).collect();
    for one in &all {
        splits += check_splits(one, true);
        cuts += check_cuts(one, true, |history| schemas.check(one.wire, &history));
    }
    println!(
        "proof: {} messages of all four wires, split at {splits} bytes and cut off at {cuts}: no panic, no call of a cut input, \
         every history fits its provider's schema with one answer for each call",
        all.len()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_chunks_change_nothing(which in any::<prop::sample::Index>(), sizes in prop::collection::vec(0_usize..700, 1..60)) {
        if !RECORDED.is_empty() {
            let Recorded { name, wire, bytes } = which.get(&RECORDED);
            let expected = read(*wire, [&bytes[..]]);
            let (mut rest, mut chunks) = (&bytes[..], Vec::new());
            for size in sizes.iter().cycle().take(10_000) {
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk);
                rest = after;
            }
            chunks.push(rest);
            prop_assert_eq!(read(*wire, chunks), expected, "{}", name);
        }
    }

    #[test]
    fn rubbish_is_no_panic(wire in prop::sample::select(Wire::ALL.to_vec()), bytes in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        if !RECORDED.is_empty() {
            // Rubbish in the middle of something real, read as any wire's.
            let real = &at.get(&RECORDED).bytes;
            let middle = at.index(real.len());
            read(wire, [&real[..middle], &bytes[..], &real[middle..]]);
        }
        read(wire, [&bytes[..]]);
    }
}

/// The schemas of the providers' requests.
struct Schemas {
    anthropic: jsonschema::Validator,
    openai: jsonschema::Validator,
}

impl Schemas {
    fn read() -> Option<Schemas> {
        Some(Schemas { anthropic: request_schema("anthropic-beta")?, openai: request_schema("openai")? })
    }

    /// What there is no schema for is held against the SDK's types, in `sdk`.
    fn check(&self, wire: Wire, history: &Value) {
        match wire {
            Wire::Anthropic => {
                fits(&self.anthropic, &json!({"model": "m", "max_tokens": 1, "messages": history}));
            }
            Wire::OpenAi if !is_foreign(history) => {
                fits(&self.openai, &json!({"model": "m", "input": history}))
            }
            _ => {}
        }
    }
}

/// A stream that ends at any byte: no call that the whole message doesn't have, none with another input, and
/// a history with an answer to each of its calls, which `check` looks at. Returns at how many bytes.
pub(crate) fn check_cuts(
    Recorded { name, wire, bytes }: &Recorded,
    at_all: bool,
    mut check: impl FnMut(Value),
) -> usize {
    let (_, full) = read(*wire, [&bytes[..]]);
    let all = full.calls();
    let (mut reader, mut deltas) = (MessageReader::new(*wire), Vec::new());
    let mut so_far = Vec::new();
    let mut shapes = HashSet::new();
    let mut last: Option<Vec<Value>> = None;
    let mut tried = 0;
    for at in 0..=bytes.len() {
        if at > 0 {
            reader.feed(&bytes[at - 1..at], &mut deltas);
            so_far.extend(ready(&deltas));
            deltas.clear();
        }
        // Of large recordings every byte at which something can change, and every so many others.
        let may_change = at == 0 || matches!(bytes[at - 1], b'\n' | b'\r' | b'}' | b']' | b' ');
        if !at_all && bytes.len() > 5_000 && !may_change && at % 61 != 0 {
            continue;
        }
        tried += 1;
        let mut tail = Vec::new();
        let reply = reader.clone().finish(&mut tail);
        let calls = reply.calls();
        let told: Vec<ToolCall> = so_far.iter().cloned().chain(ready(&tail)).collect();
        assert_eq!(calls, told, "{name}, cut at {at}");
        if !name.starts_with("spliced") {
            assert_eq!(calls, all[..calls.len()], "{name}, cut at {at}");
        }
        for call in &calls {
            let CallInput::Text(text) = &call.input else { panic!("{name}: an input that is no text") };
            assert!(serde_json::from_str::<Value>(text).is_ok(), "{name}, cut at {at}: {text}");
        }
        if last.as_deref() == Some(reply.items()) {
            continue;
        }
        last = Some(reply.items().to_vec());
        check_pairs(&reply, &format!("{name}, cut at {at}"));
        let history = history(&reply);
        if shapes.insert(shape(&history).to_string()) {
            check(history);
        }
    }
    tried
}

#[test]
fn cuts_leave_a_history_that_is_taken_again() {
    let Some(schemas) = Schemas::read() else { return };
    for one in recorded().into_iter().chain(made()) {
        check_cuts(&one, false, |history| schemas.check(one.wire, &history));
    }
}

/// Items of hosted tools that the request schema spells in another way than the response does.
fn is_foreign(history: &Value) -> bool {
    let kinds =
        ["web_search_call", "file_search_call", "mcp_list_tools", "mcp_call", "program", "program_output"];
    history.as_array().unwrap().iter().any(|item| kinds.iter().any(|kind| item["type"] == *kind))
}

fn history(reply: &ModelReply) -> Value {
    let mut items = match reply.format().name().parse().unwrap() {
        Wire::Gemini => vec![json!({"role": "user", "parts": [{"text": "go"}]})],
        _ => vec![json!({"role": "user", "content": "go"})],
    };
    items.extend(reply.items().iter().cloned());
    if reply.requests_calls() {
        items.extend(reply.answer(&[]));
    }
    items.into()
}

/// Every call in the items has an answer, and every answer a call.
pub(crate) fn check_pairs(reply: &ModelReply, place: &str) {
    fn ids(value: &Value, kinds: &[(&str, &str)], found: &mut Vec<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| ids(item, kinds, found)),
            Value::Object(fields) => {
                for (kind, key) in kinds {
                    if fields.get("type").is_some_and(|found| found == kind)
                        || (*kind == "role" && fields.get("role").is_some_and(|role| role == "tool"))
                    {
                        found.push(fields[*key].to_string());
                    }
                }
                for key in ["content", "tool_calls"] {
                    fields.get(key).into_iter().for_each(|inner| ids(inner, kinds, found));
                }
            }
            _ => {}
        }
    }
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let calls = [
        ("tool_use", "id"),
        ("function_call", "call_id"),
        ("custom_tool_call", "call_id"),
        ("tool_search_call", "call_id"),
        ("function", "id"),
        ("custom", "id"),
    ];
    ids(&json!(reply.items()), &calls, &mut asked);
    let answers = [
        ("tool_result", "tool_use_id"),
        ("function_call_output", "call_id"),
        ("custom_tool_call_output", "call_id"),
        ("tool_search_output", "call_id"),
        ("role", "tool_call_id"),
    ];
    ids(&json!(reply.answer(&[])), &answers, &mut answered);
    for parts in reply.items().iter().filter_map(|item| item["parts"].as_array()) {
        asked.extend(
            parts.iter().filter_map(|part| part.get("functionCall")).map(|call| call["id"].to_string()),
        );
    }
    for part in reply.answer(&[]).iter().filter_map(|item| item["parts"].as_array()).flatten() {
        answered.push(part["functionResponse"]["id"].to_string());
    }
    // Items of OpenAI may be done in another order than they stand in.
    asked.sort();
    answered.sort();
    assert_eq!(asked, answered, "{place}");
}

/// A value without what is in its texts.
fn shape(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| {
                let fixed = matches!(key.as_str(), "type" | "role" | "status");
                (key.clone(), if fixed { value.clone() } else { shape(value) })
            })
            .collect(),
        Value::String(text) => json!(if text.is_empty() { "" } else { "x" }),
        other => other.clone(),
    }
}

/// The end of a long message of OpenAI's says again what came. It is kept once, and as the end has it where
/// that differs.
#[test]
fn a_long_message_is_kept_once_and_as_its_end_has_it() {
    let event = |value: Value| format!("data: {value}\n\n");
    let read = |pieces: &[&str], done: &str| {
        let part =
            json!({"type": "output_text", "text": done, "annotations": [{"type": "x"}], "logprobs": []});
        let item = json!({"type": "message", "id": "m1", "role": "assistant", "status": "completed", "phase": "final", "content": [part]});
        let mut bytes = String::new();
        for piece in pieces {
            bytes += &event(json!({"type": "response.output_text.delta", "output_index": 0, "delta": piece}));
        }
        bytes += &event(json!({"type": "response.output_text.done", "output_index": 0, "text": done}));
        bytes += &event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        bytes += &event(
            json!({"type": "response.completed", "response": {"status": "completed", "output": [item]}}),
        );
        let mut reader = MessageReader::new(Wire::OpenAi);
        reader.feed(bytes.as_bytes(), &mut Vec::new());
        let reply = reader.finish(&mut Vec::new());
        assert_eq!(*reply.stop(), StopReason::End);
        assert_eq!(reply.items(), [item]);
        reply.text().to_owned()
    };
    let long = "é \"quoted\" \\ and\nmore \u{1} ".repeat(10_000);
    let (head, tail) = long.split_at(long.len() / 2);
    assert_eq!(read(&[head, tail], &long), long);
    // The end has more than came in pieces.
    assert_eq!(read(&[head], &long), head);
    assert_eq!(read(&["short"], "short"), "short");
}
