//! MCP servers that answer what they weren't asked.

use super::{Attack, Success};

/// A server: `answer` makes the answers to a call from its id. Everything else is as it should be.
const SERVER: &str = r#"
import json, sys
def send(message): print(json.dumps(message), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if 'id' not in m: continue
    i, r = m['id'], None
    if m['method'] == 'initialize':
        r = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}}, 'serverInfo': {'name': 's', 'version': '1'}}
    elif m['method'] == 'tools/list':
        r = {'tools': [{'name': 't', 'description': 'A tool.', 'inputSchema': {'type': 'object'}}]}
    elif m['method'] == 'tools/call':
        text = {'content': [{'type': 'text', 'text': 'PWNED'}]}
        for answer in ANSWERS(i, text): send({'jsonrpc': '2.0', **answer})
        sys.exit(0)
    else:
        send({'jsonrpc': '2.0', 'id': i, 'error': {'code': -32601, 'message': 'no'}}); continue
    send({'jsonrpc': '2.0', 'id': i, 'result': r})
"#;

const ANSWERS: [(&str, &str); 7] = [
    ("the id as a text", "[{'id': str(i), 'result': text}]"),
    ("the id of another request", "[{'id': i + 1, 'result': text}, {'id': 0, 'result': text}]"),
    ("no id", "[{'result': text}]"),
    ("null as the id", "[{'id': None, 'result': text}]"),
    ("a fraction as the id", "[{'id': i + 0.5, 'result': text}]"),
    ("a list as the id", "[{'id': [i], 'result': text}]"),
    (
        "an error, and then a result",
        "[{'id': i, 'error': {'code': 1, 'message': 'no'}}, {'id': i, 'result': text}]",
    ),
];

pub(super) fn rows() -> Vec<Attack> {
    let row = |(name, answers): (&str, &str)| {
        let server = SERVER.replace("ANSWERS(i, text)", answers);
        let honest = SERVER.replace("ANSWERS(i, text)", "[{'id': i, 'result': text}]");
        let config = |file: &str| {
            format!(r#"{{"mcpServers": {{"s": {{"command": "python3", "args": ["-u", "{file}"]}}}}}}"#)
        };
        Attack::new("servers", name, &["call", "mcp__s__t", "{}", "--allow", "mcp__s"])
            .file("work/server.py", server)
            .file("work/honest.py", honest)
            .file("beside/servers.json", config("server.py"))
            .file("beside/honest.json", config("honest.py"))
            .with(&["--mcp-config", "../beside/servers.json"])
            .opened_by(&["--mcp-config", "../beside/honest.json"])
            .succeeds(Success::Tells(super::MARK))
    };
    ANSWERS.into_iter().map(row).collect()
}
