//! `WaitForMcpServers`: for a model that was asked before all servers were there.
//!
//! Nobody waits for a server before the first turn. A model that needs one which is still being connected
//! waits by this tool, and has its tools in the next turn.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::tool::{CallTimeout, Interrupt, ToolExposure};
use haft::{Chars, Context, Effects, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::client::server::{ServerHandle, ServerStatus};
use crate::limits::{CONNECT_TIMEOUT, WAIT_MAX};

/// Waits until MCP servers that are still being connected are there. Their tools are yours from your next
/// message on.
///
/// Only call it if you need a server that was said to be still connecting.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct WaitInput {
    /// How long to wait at most, in milliseconds; 30000 if left out.
    timeout: Option<u64>,
}

/// The tool, over the servers of a session. Doesn't end them.
pub(crate) struct WaitForServers(pub(crate) Vec<ServerHandle>);

impl Tool for WaitForServers {
    type Input = WaitInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("WaitForMcpServers")
            .alias("wait_for_mcp_servers")
            .group("mcp")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(10_000))
            .timeout(CallTimeout::Never)
            .interrupt(Interrupt::Cancel)
            .exposure(ToolExposure::AlwaysLoaded)
    }

    /// Offered as long as there is something to wait for.
    fn unavailable_reason(&self) -> Option<String> {
        let is_waiting = self.0.iter().any(is_new);
        (!is_waiting).then(|| "no MCP server is being connected".to_owned())
    }

    fn effects(&self, _: &WaitInput) -> Effects {
        Effects::reads_state("session:tools")
    }

    async fn call(&self, input: WaitInput, cx: &Context) -> Result<String, ToolError> {
        let limit = input.timeout.map_or(CONNECT_TIMEOUT, Duration::from_millis).min(WAIT_MAX);
        let all = async {
            for server in &self.0 {
                server.settled().await;
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(limit, all) => {}
            _ = cx.cancelled() => {}
        }
        Ok(self.0.iter().map(describe_status).collect::<Vec<_>>().join("\n"))
    }
}

/// Whether nobody knows yet if it can be used.
pub(crate) fn is_new(server: &ServerHandle) -> bool {
    matches!(server.status(), ServerStatus::Connecting) && server.failure().is_none()
}

/// How a server is, in a line for the model.
pub(crate) fn describe_status(server: &ServerHandle) -> String {
    let name = &server.config().name;
    match server.status() {
        ServerStatus::Ready { .. } => match server.tool_count() {
            1 => format!("`{name}` is there, with 1 tool"),
            count => format!("`{name}` is there, with {count} tools"),
        },
        ServerStatus::Connecting => match server.failure() {
            Some(reason) => format!("`{name}` can't be used so far: {reason}"),
            None => format!("`{name}` is still being connected"),
        },
        ServerStatus::Failed { reason, .. } | ServerStatus::NeedsSignIn { reason } => {
            format!("`{name}` can't be used: {reason}")
        }
        ServerStatus::Unapproved(_) => {
            format!("`{name}` is not started: the user has to approve it with `haft mcp approve`")
        }
        ServerStatus::Stopped => format!("`{name}` was shut down"),
    }
}
