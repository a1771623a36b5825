//! `ListMcpPrompts`.

use haft::{Context, Effects, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{looks_at, tool_spec};
use crate::client::catalogue::{ServerCatalogue, field_text};
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX};

/// Lists the prompts that connected MCP servers offer: prepared instructions, some with arguments.
///
/// Get one with `GetMcpPrompt`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListPromptsInput {
    /// The server to ask; leave it out to ask all of them.
    server: Option<String>,
}

pub(super) struct ListPrompts(pub(super) ServerCatalogue);

impl Tool for ListPrompts {
    type Input = ListPromptsInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        tool_spec("ListMcpPrompts", ["ListMcpPromptsTool", "list_mcp_prompts"])
    }

    fn effects(&self, input: &ListPromptsInput) -> Effects {
        looks_at(input.server.as_deref())
    }

    async fn call(&self, input: ListPromptsInput, _: &Context) -> Result<Value, ToolError> {
        let listed = self.0.list(input.server.as_deref(), "prompts", |facts| facts.has_prompts).await?;
        let shown = |(server, entry): (String, Value)| {
            let mut shown = Map::from_iter([("server".to_owned(), json!(server))]);
            for (key, most) in
                [("name", NAME_CHARS_MAX), ("description", DESCRIPTION_CHARS_MAX), ("error", 500)]
            {
                shown.extend(field_text(&entry, key, most).map(|text| (key.to_owned(), json!(text))));
            }
            let argument = |argument: &Value| {
                let name = field_text(argument, "name", NAME_CHARS_MAX)?;
                let about = field_text(argument, "description", DESCRIPTION_CHARS_MAX);
                Some(json!({"name": name, "description": about, "required": argument["required"] == true}))
            };
            if let Some(arguments) = entry["arguments"].as_array() {
                shown.insert("arguments".to_owned(), arguments.iter().filter_map(argument).collect());
            }
            Value::Object(shown)
        };
        Ok(listed.into_iter().map(shown).collect())
    }
}
