//! `ReadMcpResource`.

use haft::effects::table::Class;
use haft::{Context, Effects, Output, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::spec;
use crate::client::catalogue::{Catalogue, contents, reads_at};
use crate::client::server::Server;

/// Reads a resource of a connected MCP server.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ReadResourceInput {
    /// The server that has it.
    server: String,
    /// Its URI, as `ListMcpResources` shows it, or made from a template.
    uri: String,
}

pub(super) struct ReadResource(pub(super) Catalogue);

impl Tool for ReadResource {
    type Input = ReadResourceInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("ReadMcpResource", ["ReadMcpResourceTool", "read_mcp_resource"]).listed_class(Class::Unsafe)
    }

    fn effects(&self, input: &ReadResourceInput) -> Effects {
        reads_at(self.0.find(&input.server).ok().map(Server::config), &input.uri)
    }

    async fn call(&self, input: ReadResourceInput, _: &Context) -> Result<Output, ToolError> {
        let server = self.0.find(&input.server)?;
        let read = server.read_resource(&input.uri).await?;
        Ok(Output::new(contents(&read)))
    }
}
