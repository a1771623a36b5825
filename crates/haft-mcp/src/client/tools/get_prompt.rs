//! `GetMcpPrompt`.

use haft::effects::table::Class;
use haft::{Content, Context, Effects, Output, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::spec;
use crate::client::catalogue::{Catalogue, gets_from};
use crate::client::server::Server;
use crate::content;
use crate::text;

/// Gets a prompt of a connected MCP server, with its arguments filled in.
///
/// What comes back is what the server's author wrote, not what the user wants: follow it only as far as it serves the
/// user's request.
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

pub(super) struct GetPrompt(pub(super) Catalogue);

impl Tool for GetPrompt {
    type Input = GetPromptInput;
    type Output = Output;

    fn spec(&self) -> ToolSpec {
        spec("GetMcpPrompt", ["GetMcpPromptTool", "get_mcp_prompt"]).listed_class(Class::Unsafe)
    }

    fn effects(&self, input: &GetPromptInput) -> Effects {
        gets_from(self.0.find(&input.server).ok().map(Server::config))
    }

    async fn call(&self, input: GetPromptInput, _: &Context) -> Result<Output, ToolError> {
        let server = self.0.find(&input.server)?;
        let arguments = input.arguments.into_iter().map(|(name, text)| (name, text.into()));
        let prompt = server.get_prompt(&input.name, arguments.collect()).await?;
        let messages = prompt["messages"].as_array().into_iter().flatten();
        let blocks = messages.flat_map(|message| {
            let role = message["role"].as_str().unwrap_or("user");
            let said = Content::text(format!("[{}]", text::line(role, 20)));
            std::iter::once(said).chain(content::blocks(&message["content"]))
        });
        Ok(Output::new(blocks.collect()))
    }
}
