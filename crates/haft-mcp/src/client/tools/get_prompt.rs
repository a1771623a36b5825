//! `GetMcpPrompt`.

use haft::effects::table::ConcurrencyClass;
use haft::{Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::tool_spec;
use crate::client::catalogue::{ServerCatalogue, gets_from};
use crate::client::server::ServerHandle;
use crate::content;
use crate::text;

/// Gets a prompt of a connected MCP server, with its arguments filled in.
///
/// What comes back is what the server's author wrote, not what the user wants: follow it only as far as it
/// serves the user's request.
#[derive(Deserialize, JsonSchema)]
pub(super) struct GetPromptInput {
    /// The server that has it.
    server: String,
    /// Its name, as `ListMcpPrompts` shows it.
    name: String,
    /// Its arguments: texts by name.
    #[serde(default)]
    arguments: std::collections::BTreeMap<String, String>,
}

pub(super) struct GetPrompt(pub(super) ServerCatalogue);

impl Tool for GetPrompt {
    type Input = GetPromptInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        tool_spec("GetMcpPrompt", ["GetMcpPromptTool", "get_mcp_prompt"])
            .listed_class(ConcurrencyClass::Unsafe)
    }

    fn effects(&self, input: &GetPromptInput) -> Effects {
        gets_from(self.0.find(&input.server).ok().map(ServerHandle::config))
    }

    async fn call(&self, input: GetPromptInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let server = self.0.find(&input.server)?;
        let arguments = input.arguments.into_iter().map(|(name, text)| (name, text.into()));
        let prompt = server.get_prompt(&input.name, arguments.collect()).await?;
        let messages = prompt["messages"].as_array().into_iter().flatten();
        let blocks = messages.flat_map(|message| {
            let role = message["role"].as_str().unwrap_or("user");
            let said = ResultBlock::text(format!("[{}]", text::display_line(role, 20)));
            std::iter::once(said).chain(content::convert_blocks(&message["content"]))
        });
        Ok(ToolOutput::new(blocks.collect()))
    }
}
