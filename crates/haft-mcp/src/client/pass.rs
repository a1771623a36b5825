//! What a server has beside tools, as it sends it: for hosts that pass it on to a client of their own.
//!
//! Who only wants to use it has the tools of `catalogue.rs`. Words that people read are made visible and bounded here as well;
//! everything else is as it came.

use haft::{Effects, ToolError};
use serde_json::{Map, Value, json};

use super::catalogue;
use super::server::{Server, Status};
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, URI_CHARS_MAX};
use crate::text;

impl Server {
    /// Its prompts, each with at least a `name`; none if it has none or isn't there.
    ///
    /// # Errors
    /// It has prompts and doesn't list them, in words.
    pub async fn prompts(&self) -> Result<Vec<Value>, ToolError> {
        match self.status() {
            Status::Ready { facts, .. } if facts.has_prompts => {
                Ok(named(self.list("prompts/list", "prompts").await?, "name", NAME_CHARS_MAX))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// A prompt with its arguments put in: the result of `prompts/get`.
    ///
    /// # Errors
    /// In words for the model.
    pub async fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        self.ask("prompts/get", json!({"name": name, "arguments": arguments})).await
    }

    /// Its resources, each with at least a `uri`; none if it has none or isn't there.
    ///
    /// # Errors
    /// It has resources and doesn't list them, in words.
    pub async fn resources(&self) -> Result<Vec<Value>, ToolError> {
        match self.has_resources() {
            true => Ok(named(self.list("resources/list", "resources").await?, "uri", URI_CHARS_MAX)),
            false => Ok(Vec::new()),
        }
    }

    /// Its templates of resources, each with at least a `uriTemplate`. Older servers have none and say so with an error, so an
    /// error is none here.
    pub async fn resource_templates(&self) -> Vec<Value> {
        match self.has_resources() {
            true => {
                let listed = self.list("resources/templates/list", "resourceTemplates").await;
                named(listed.unwrap_or_default(), "uriTemplate", URI_CHARS_MAX)
            }
            false => Vec::new(),
        }
    }

    /// What a resource holds: the result of `resources/read`.
    ///
    /// # Errors
    /// In words for the model.
    pub async fn resource(&self, uri: &str) -> Result<Value, ToolError> {
        self.read_resource(uri).await
    }

    /// What reading this resource of it touches: what the server does for that, and what the address names.
    pub fn effects_of_resource(&self, uri: &str) -> Effects {
        catalogue::reads_at(Some(self.config()), uri)
    }

    /// What getting a prompt of it touches.
    pub fn effects_of_prompt(&self) -> Effects {
        catalogue::gets_from(Some(self.config()))
    }

    fn has_resources(&self) -> bool {
        matches!(self.status(), Status::Ready { facts, .. } if facts.has_resources)
    }
}

/// The entries that have a name under this key, with words that can be shown.
fn named(entries: Vec<Value>, key: &str, chars_max: usize) -> Vec<Value> {
    let fits = |entry: &Value| {
        entry[key].as_str().is_some_and(|name| !name.is_empty() && name.chars().count() <= chars_max)
    };
    let mut entries: Vec<Value> = entries.into_iter().filter(fits).collect();
    for entry in &mut entries {
        clean(entry);
        let arguments = entry.get_mut("arguments").and_then(Value::as_array_mut);
        arguments.into_iter().flatten().for_each(clean);
    }
    entries
}

fn clean(entry: &mut Value) {
    for (key, most) in [("title", NAME_CHARS_MAX), ("description", DESCRIPTION_CHARS_MAX)] {
        if let Some(words) = entry.get_mut(key)
            && let Some(shown) = words.as_str().map(|words| text::shown(words, most))
        {
            *words = shown.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_name_is_left_out_and_words_are_visible() {
        let entries = vec![
            json!({"name": "a", "description": "x\u{202e}y", "arguments": [{"name": "n", "description": "\u{200b}"}]}),
            json!({"title": "nameless"}),
            json!({"name": ""}),
            json!(7),
        ];
        let kept = named(entries, "name", 10);
        assert_eq!(
            kept,
            [
                json!({"name": "a", "description": "x\\u{202e}y", "arguments": [{"name": "n", "description": "\\u{200b}"}]})
            ]
        );
    }
}
