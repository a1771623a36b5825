//! Traces and metrics, as a collector gets them: read by OpenTelemetry's own classes.
//!
//! `cargo xtask test` makes the Python that has these; without it the tests that need it say so and pass.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::mcp::faulty;
use crate::room::{PATH, Room, crate_path};

/// A collector that ends with the test.
struct Collector {
    child: Child,
    address: String,
}

impl Collector {
    fn start(room: &Room) -> Option<Collector> {
        let Some(interpreter) = std::env::var_os("HAFT_TEST_PYTHON") else {
            println!("skipped: `cargo xtask test` makes the Python that this test needs");
            return None;
        };
        let mut command = Command::new(interpreter);
        command.arg(crate_path("tests/collector.py")).arg(room.path("collected.jsonl"));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(Collector { child, address: address.trim().to_owned() })
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was collected of a kind, one entry for each of what `parts` leads to.
fn collected(room: &Room, path: &str, parts: [&str; 3]) -> Vec<Value> {
    let text = std::fs::read_to_string(room.path("collected.jsonl")).unwrap_or_default();
    let requests = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut all: Vec<Value> =
        requests.filter(|said| said["path"] == path).map(|said| said["message"].clone()).collect();
    for part in parts {
        all = all.iter().flat_map(|one| one[part].as_array().cloned().unwrap_or_default()).collect();
    }
    all
}

/// Attributes as an object.
fn attributes(of: &Value) -> Value {
    let pairs = of["attributes"].as_array().cloned().unwrap_or_default();
    let value =
        |value: &Value| value.as_object().and_then(|one| one.values().next().cloned()).unwrap_or_default();
    Value::Object(
        pairs.iter().map(|pair| (pair["key"].as_str().unwrap().to_owned(), value(&pair["value"]))).collect(),
    )
}

/// An id as the collector shows it, in hexadecimal digits.
fn hex(id: &Value) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut out) = (0u32, 0, String::new());
    for digit in id.as_str().unwrap_or_default().bytes().filter(|digit| *digit != b'=') {
        bits = bits << 6 | DIGITS.iter().position(|known| *known == digit).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push_str(&format!("{:02x}", bits >> count & 0xff));
        }
    }
    out
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn dispatch(
    room: &Room,
    endpoint: &str,
    calls: &[(&str, Value)],
    more: &[(&str, &str)],
) -> (Vec<String>, String) {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(number, (name, input))| json!({"type": "tool_use", "id": format!("c{number}"), "name": name, "input": input}))
        .collect();
    let message = json!({"role": "assistant", "content": calls}).to_string();
    let mut haft =
        room.haft(["dispatch", "--allow", "Bash", "--allow", "mcp__f", "--mcp-config", "../servers.json"]);
    haft.env(PATH, std::env::var_os(PATH).unwrap()).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    haft.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b").env("OTEL_SERVICE_NAME", "mine");
    haft.envs(more.iter().copied());
    room.write("servers.json", &json!({"mcpServers": {"f": faulty(room, "")}}).to_string());
    let ran = room.run(haft, &message);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let texts =
        answer["content"].as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap().to_owned());
    (texts.collect(), ran.stderr)
}

#[test]
fn a_collector_gets_spans_of_calls_and_servers_that_hang_together() {
    let room = Room::new();
    let Some(collector) = Collector::start(&room) else { return };
    let calls = [
        ("Read", json!({"file_path": "notes.txt"})),
        ("Read", json!({"file_path": "nothing.txt"})),
        ("Bash", json!({"command": "echo $TRACEPARENT"})),
        ("mcp__f__echo", json!({"text": "meta"})),
    ];
    let (said, told) =
        dispatch(&room, &collector.address, &calls, &[("TRACEPARENT", PARENT), ("TRACESTATE", "v=1")]);
    assert!(!told.contains("collector"), "{told}");

    let spans = collected(&room, "/v1/traces", ["resourceSpans", "scopeSpans", "spans"]);
    let of_call = |id: &str| {
        let mut found = spans.iter().filter(|span| attributes(span)["gen_ai.tool.call.id"] == id);
        let span = found.next().unwrap_or_else(|| panic!("no span of {id}: {spans:?}")).clone();
        assert!(found.next().is_none(), "one span for each call");
        span
    };
    let root = spans.iter().find(|span| span["name"] == "invoke_agent haft").unwrap();
    assert_eq!(hex(&root["parentSpanId"]), "b7ad6b7169203331");
    for span in &spans {
        assert_eq!(hex(&span["traceId"]), "0af7651916cd43dd8448eb211c80319c", "{span}");
        assert_eq!(span["traceState"], "v=1");
        let time = |key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") > 0 && time("startTimeUnixNano") <= time("endTimeUnixNano"));
        assert!(span == root || span["parentSpanId"] == root["spanId"], "{span}");
    }
    let read = of_call("c0");
    let session = attributes(root)["gen_ai.conversation.id"].clone();
    assert_eq!((&read["name"], &read["kind"]), (&json!("execute_tool Read"), &json!("SPAN_KIND_INTERNAL")));
    assert_eq!(
        attributes(&read),
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "Read", "gen_ai.tool.call.id": "c0",
            "gen_ai.tool.type": "function", "gen_ai.conversation.id": session, "gen_ai.agent.name": "main"})
    );
    assert!(read.get("status").is_none(), "{read}");
    let failed = of_call("c1");
    assert_eq!(failed["status"]["code"], "STATUS_CODE_ERROR");
    assert!(failed["status"]["message"].as_str().unwrap().contains("nothing.txt"), "{failed}");
    assert_eq!(attributes(&failed)["error.type"], "Failed");

    // A child process and a server go on from the span of their call.
    let place = |id: &str| format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", hex(&of_call(id)["spanId"]));
    assert_eq!(said[2].trim(), place("c2"));
    let meta: Value = serde_json::from_str(&said[3]).unwrap();
    assert_eq!((meta["traceparent"].as_str(), &meta["tracestate"]), (Some(&*place("c3")), &json!("v=1")));
    let of_server = attributes(&of_call("c3"));
    assert_eq!(
        (&of_server["mcp.method.name"], &of_server["network.transport"]),
        (&json!("tools/call"), &json!("pipe"))
    );
    assert_eq!(of_server["gen_ai.tool.type"], "extension");
    let listed = spans.iter().find(|span| span["name"] == "tools/list").unwrap();
    assert_eq!(listed["kind"], "SPAN_KIND_CLIENT");
    assert!(spans.iter().any(|span| span["name"] == "initialize"));
    assert!(
        !spans.iter().any(|span| span["name"].as_str().unwrap().starts_with("tools/call")),
        "the call has the span"
    );

    let metrics = collected(&room, "/v1/metrics", ["resourceMetrics", "scopeMetrics", "metrics"]);
    let points = |name: &str| {
        let last = metrics
            .iter()
            .rfind(|metric| metric["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {metrics:?}"));
        assert_eq!(last["unit"], "s");
        assert_eq!(last["histogram"]["aggregationTemporality"], "AGGREGATION_TEMPORALITY_CUMULATIVE");
        last["histogram"]["dataPoints"].as_array().unwrap().clone()
    };
    let of_tool = points("haft.tool.call.duration");
    let read = of_tool.iter().find(|point| attributes(point) == json!({"gen_ai.tool.name": "Read"})).unwrap();
    assert_eq!(read["count"], "1");
    assert!(read["sum"].as_f64().unwrap() >= 0.0 && read["bucketCounts"].as_array().unwrap().len() == 15);
    assert!(of_tool.iter().any(|point| attributes(point)["error.type"] == "Failed"));
    assert!(
        points("mcp.client.operation.duration")
            .iter()
            .any(|point| attributes(point)["mcp.method.name"] == "tools/call")
    );
    assert_eq!(points("mcp.client.session.duration").len(), 1);

    let text = std::fs::read_to_string(room.path("collected.jsonl")).unwrap();
    assert!(text.contains(r#""key": "a b""#), "headers are sent");
    assert!(text.contains(r#"{"key": "service.name", "value": {"stringValue": "mine"}}"#), "{text}");
    assert!(!text.contains("one\\ntwo"), "inputs and results are not sent unless somebody asks for it");
}

#[test]
fn inputs_and_results_are_sent_where_that_is_asked_for() {
    let room = Room::new();
    let Some(collector) = Collector::start(&room) else { return };
    let more = [
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "12"),
    ];
    dispatch(&room, &collector.address, &[("Read", json!({"file_path": "notes.txt"}))], &more);
    let spans = collected(&room, "/v1/traces", ["resourceSpans", "scopeSpans", "spans"]);
    let read = attributes(spans.iter().find(|span| span["name"] == "execute_tool Read").unwrap());
    assert_eq!(read["gen_ai.tool.call.arguments"], r#"{"file_path""#);
    assert_eq!(read["gen_ai.tool.call.result"], "1\tone\n2\ttwo\n");
}

#[test]
fn secrets_are_not_sent() {
    let room = Room::new();
    let Some(collector) = Collector::start(&room) else { return };
    let token = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5";
    room.write("work/token.txt", &format!("token={token}\n"));
    let more = [("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")];
    let calls = [
        ("Read", json!({"file_path": "token.txt"})),
        ("Read", json!({"file_path": format!("missing-{token}")})),
    ];
    let (said, _) = dispatch(&room, &collector.address, &calls, &more);
    assert!(said[0].contains(token), "the model gets what is in the file: {said:?}");
    let text = std::fs::read_to_string(room.path("collected.jsonl")).unwrap();
    assert!(text.contains("token=[redacted: GitHub token]"), "{text}");
    assert!(!text.contains(token), "{text}");
}

/// Nobody listens: what is called works all the same, and the loss is said once.
#[test]
fn a_collector_that_is_gone_costs_a_word() {
    let room = Room::new();
    let calls: Vec<(&str, Value)> = (0..40).map(|_| ("Read", json!({"file_path": "notes.txt"}))).collect();
    let (said, told) = dispatch(&room, "http://127.0.0.1:9", &calls, &[]);
    assert!(said.len() == 40 && said.iter().all(|text| text.starts_with("1\tone")), "{said:?}");
    let words: Vec<&str> = told.lines().filter(|line| line.contains("collector")).collect();
    assert!(matches!(&words[..], [one] if one.contains("41 spans were not sent to the collector")), "{told}");
}

#[test]
fn what_cannot_be_used_is_said_and_nothing_is_sent() {
    let room = Room::new();
    let more = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    let (said, told) =
        dispatch(&room, "http://127.0.0.1:9", &[("Read", json!({"file_path": "notes.txt"}))], &more);
    assert!(said[0].starts_with("1\tone"), "{said:?}");
    assert!(
        told.contains("nothing is sent to a collector")
            && told.contains("`http/protobuf` is what this program speaks"),
        "{told}"
    );
}
