//! A server made by a test: a function from each message to what comes back, over whatever connection.

use std::sync::{Arc, Mutex};

use haft_mcp::BytePipe;
use haft_mcp::{ServerConfig, ServerTransport};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

type Behaviour = dyn Fn(&Value) -> Vec<Value> + Send + Sync;

/// The server, and everything that it was sent.
#[derive(Clone)]
pub(crate) struct Fake {
    behaviour: Arc<Behaviour>,
    pub(crate) heard: Arc<Mutex<Vec<Value>>>,
}

impl Fake {
    pub(crate) fn new(behaviour: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Fake {
        Fake { behaviour: Arc::new(behaviour), heard: Arc::default() }
    }

    /// What comes back for a message.
    pub(crate) fn hear(&self, message: Value) -> Vec<Value> {
        let back = (self.behaviour)(&message);
        self.heard.lock().unwrap().push(message);
        back
    }

    /// All messages of one method.
    pub(crate) fn heard(&self, method: &str) -> Vec<Value> {
        self.heard.lock().unwrap().iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Its configuration, in this process.
    pub(crate) fn in_process(&self, name: &str) -> ServerConfig {
        let fake = self.clone();
        let connect = move || {
            let fake = fake.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                tokio::spawn(fake.serve_on(theirs));
                Ok(Box::new(ours) as Box<dyn BytePipe>)
            }
        };
        ServerConfig::new(name, ServerTransport::in_process(connect))
    }

    pub(crate) async fn serve_on(self, stream: tokio::io::DuplexStream) {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            for back in self.hear(serde_json::from_str(&line).unwrap()) {
                if writer.write_all(format!("{back}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }
}

pub(crate) fn result(request: &Value, result: Value) -> Vec<Value> {
    vec![json!({"jsonrpc": "2.0", "id": request["id"], "result": result})]
}

pub(crate) fn refusal(request: &Value, code: i32) -> Vec<Value> {
    vec![json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}})]
}

/// The older handshake, at a revision; `rest` answers everything else.
pub(crate) fn older(
    revision: &'static str,
    can: Value,
    rest: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static,
) -> Fake {
    Fake::new(move |message| match message["method"].as_str() {
        Some("server/discover") => refusal(message, -32601),
        Some("initialize") => {
            let info = json!({"name": "fake", "version": "1"});
            result(message, json!({"protocolVersion": revision, "capabilities": can, "serverInfo": info}))
        }
        Some(method) if method.starts_with("notifications/") => Vec::new(),
        _ => rest(message),
    })
}

/// The stateless revision; `rest` answers everything but the first question.
pub(crate) fn newest(can: Value, rest: impl Fn(&Value) -> Vec<Value> + Send + Sync + 'static) -> Fake {
    Fake::new(move |message| match message["method"].as_str() {
        Some("server/discover") => result(
            message,
            json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": can,
                   "instructions": "Ask nicely.", "ttlMs": 0, "cacheScope": "private",
                   "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "2"}}}),
        ),
        _ => rest(message),
    })
}

/// The list of one tool.
pub(crate) fn one_tool(message: &Value, name: &str) -> Vec<Value> {
    let tool = json!({"name": name, "description": "A tool.", "inputSchema": {"type": "object"}});
    result(message, json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]}))
}
