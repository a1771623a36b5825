//! Servers that are really talked to: a misbehaving one, one made by the test, and those of other people.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod changes;
mod fake;
mod faults;
mod lookup;
mod network;
mod peers;
mod revisions;
mod serving;
mod serving_http;
mod serving_load;
mod serving_peers;
mod sign_in;
mod tasks;
mod web;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft::ports::PermissionMode;
use haft::{Engine, EngineBuilder, PermissionRules, Registry, ToolCall, ToolResult};
use haft_mcp::{HostServices, ServerConfig, ServerHandle, ServerSet, ServerStatus, ServerTransport};
use haft_sandbox::LocalProcesses;
use serde_json::Value;

/// A host that starts processes and lends nothing else.
fn host() -> HostServices {
    HostServices::new(std::env::temp_dir()).with_processes(Arc::new(LocalProcesses::new(std::env::vars_os())))
}

/// The misbehaving server, with faults of its connection, and a file that it counts in.
fn faulty(faults: &str, counts: &Path) -> ServerConfig {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/faulty.py");
    let counts = counts.to_str().unwrap();
    ServerConfig::new("f", ServerTransport::stdio("python3", ["-u", script, faults, counts]))
}

/// Servers, and an engine that has their tools and allows everything.
struct Room {
    servers: ServerSet,
    builder: EngineBuilder,
    engine: Engine,
    base: Registry,
}

impl Room {
    fn new(configs: impl IntoIterator<Item = ServerConfig>, host: HostServices) -> Room {
        Room::with(configs, host, Registry::new())
    }

    fn with(configs: impl IntoIterator<Item = ServerConfig>, host: HostServices, base: Registry) -> Room {
        let servers = ServerSet::start(configs, host).unwrap();
        let rules = PermissionRules::new().mode(PermissionMode::BypassPermissions);
        let builder = Engine::builder(base.clone()).permissions(rules);
        Room { servers, engine: builder.clone().build(), builder, base }
    }

    /// One whose servers are known to be there or not.
    async fn settled(configs: impl IntoIterator<Item = ServerConfig>, host: HostServices) -> Room {
        let room = Room::new(configs, host);
        room.servers.settled(Duration::from_secs(60)).await;
        room.refresh();
        room
    }

    fn refresh(&self) {
        self.engine.refresh_with(self.servers.registry(&self.base).unwrap());
    }

    /// An engine of its own with the same tools: calls of another agent, which wait for none of this one's.
    fn other_engine(&self) -> Engine {
        let engine = self.builder.clone().build();
        engine.refresh_with(self.servers.registry(&self.base).unwrap());
        engine
    }

    fn server(&self) -> &ServerHandle {
        self.servers.iter().next().unwrap()
    }

    async fn call(&self, tool: &str, input: Value) -> ToolResult {
        let call = ToolCall::new("1", tool, input.to_string());
        self.engine.turn().run([call]).await.remove(0)
    }

    /// The text of a call that has to succeed.
    async fn text(&self, tool: &str, input: Value) -> String {
        let result = self.call(tool, input).await;
        if let Some(error) = result.error() {
            panic!("{tool}: {error:?}; {:?}; {}", self.server().status(), self.server().log());
        }
        match result.to_json().output {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// The words of a call that has to fail.
    async fn failure(&self, tool: &str, input: Value) -> String {
        let result = self.call(tool, input).await;
        result
            .error()
            .unwrap_or_else(|| panic!("{tool} did not fail: {:?}", result.to_json()))
            .message()
            .to_owned()
    }

    fn revision(&self) -> String {
        match self.server().status() {
            ServerStatus::Ready { facts, .. } => facts.revision,
            other => panic!("{other:?}; {}", self.server().log()),
        }
    }
}

/// Pause between two looks at something that reports no event, so that waiting takes no core from what is
/// waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until something is so.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let all = async {
        while !so() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all)
        .await
        .unwrap_or_else(|_| panic!("not within a minute: {what}"));
}

/// How often a line stands in a file.
fn count(file: &Path, what: &str) -> usize {
    std::fs::read_to_string(file).unwrap_or_default().lines().filter(|line| *line == what).count()
}
