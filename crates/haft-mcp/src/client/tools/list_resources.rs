//! `ListMcpResources`.

use haft::{Context, Effects, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{looks_at, tool_spec};
use crate::client::catalogue::{ServerCatalogue, field_text};
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, URI_CHARS_MAX};

/// Lists the resources that connected MCP servers offer: files, records and pages, each with a URI.
///
/// Read one with `ReadMcpResource`.
#[derive(Deserialize, JsonSchema)]
pub(super) struct ListResourcesInput {
    /// The server to ask; leave it out to ask all of them.
    server: Option<String>,
}

pub(super) struct ListResources(pub(super) ServerCatalogue);

impl Tool for ListResources {
    type Input = ListResourcesInput;
    type Output = Value;

    fn spec(&self) -> ToolSpec {
        tool_spec("ListMcpResources", ["ListMcpResourcesTool", "list_mcp_resources"])
    }

    fn effects(&self, input: &ListResourcesInput) -> Effects {
        looks_at(input.server.as_deref())
    }

    async fn call(&self, input: ListResourcesInput, _: &Context) -> Result<Value, ToolError> {
        let server = input.server.as_deref();
        let listed = self.0.list(server, "resources", |facts| facts.has_resources).await?;
        let templates = self.0.list(server, "resourceTemplates", |facts| facts.has_resources);
        // Older servers have no templates and say so with an error.
        let templates =
            templates.await.unwrap_or_default().into_iter().filter(|(_, entry)| entry.get("error").is_none());
        let shown = |(server, entry): (String, Value)| {
            let mut shown = Map::from_iter([("server".to_owned(), json!(server))]);
            for (key, most) in [
                ("uri", URI_CHARS_MAX),
                ("uriTemplate", URI_CHARS_MAX),
                ("name", NAME_CHARS_MAX),
                ("description", DESCRIPTION_CHARS_MAX),
                ("mimeType", 100),
                ("error", 500),
            ] {
                shown.extend(field_text(&entry, key, most).map(|text| (key.to_owned(), json!(text))));
            }
            Value::Object(shown)
        };
        Ok(listed.into_iter().chain(templates).map(shown).collect())
    }
}
