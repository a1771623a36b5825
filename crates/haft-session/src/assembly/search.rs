//! `ToolSearch` in a session with servers: a search without results says which servers are not connected
//! yet.

use std::sync::{Arc, Weak};

use haft::search::{ToolSearch, ToolSearchInput};
use haft::{Context, Effects, Tool, ToolError, ToolSpec};
use haft_mcp::{ServerSet, ServerStatus};
use serde_json::Value;

/// The tool, for the servers of a session. Doesn't keep them alive.
pub(super) struct SessionToolSearch(Weak<ServerSet>);

impl SessionToolSearch {
    pub(super) fn new(servers: &Arc<ServerSet>) -> SessionToolSearch {
        SessionToolSearch(Arc::downgrade(servers))
    }

    /// Returns the servers that are still connecting, as named in a sentence.
    fn connecting_servers(&self) -> Vec<String> {
        let Some(servers) = self.0.upgrade() else { return Vec::new() };
        let coming = servers
            .iter()
            .filter(|server| server.status() == ServerStatus::Connecting && server.failure().is_none());
        coming.map(|server| format!("`{}`", server.config().name)).collect()
    }
}

impl Tool for SessionToolSearch {
    type Input = ToolSearchInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        ToolSearch.spec()
    }

    fn effects(&self, input: &ToolSearchInput) -> Effects {
        ToolSearch.effects(input)
    }

    async fn call(&self, input: ToolSearchInput, cx: &Context) -> Result<Value, ToolError> {
        // A server that connects in the meantime was missing during the search.
        let coming = self.connecting_servers();
        ToolSearch.call(input, cx).await.map_err(|error| if coming.is_empty() { error } else { ToolError::new(format!(
                "{}; these MCP servers are still being connected, and their tools can't be found yet: {}; call \
                 WaitForMcpServers, then search again",
                error.message(),
                coming.join(", ")
            ))
            .retryable() })
    }
}
