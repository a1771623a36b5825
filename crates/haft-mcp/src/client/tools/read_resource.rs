//! `ReadMcpResource`.

use haft::effects::table::ConcurrencyClass;
use haft::{Context, Effects, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::tool_spec;
use crate::client::catalogue::{ServerCatalogue, reads_at, resource_contents};
use crate::client::server::ServerHandle;

/// Reads a resource of a connected MCP server.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadResourceInput {
    /// The server that has it.
    server: String,
    /// Its URI, as `ListMcpResources` shows it, or made from a template.
    uri: String,
}

pub(super) struct ReadResource(pub(super) ServerCatalogue);

impl Tool for ReadResource {
    type Input = ReadResourceInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        tool_spec("ReadMcpResource", ["ReadMcpResourceTool", "read_mcp_resource"])
            .listed_class(ConcurrencyClass::Unsafe)
    }

    fn effects(&self, input: &ReadResourceInput) -> Effects {
        reads_at(self.0.find(&input.server).ok().map(ServerHandle::config), &input.uri)
    }

    async fn call(&self, input: ReadResourceInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let server = self.0.find(&input.server)?;
        let read = server.read_resource(&input.uri).await?;
        Ok(ToolOutput::new(resource_contents(&read)))
    }
}
