//! What a server has beside tools, as it sends it: for hosts that pass it on to a client of their own.
//!
//! Who only wants to use it has the tools in `tools/`. Words that people read are made visible and bounded
//! here as well; everything else is as it came.

use haft::{Effects, ToolError};
use serde_json::{Map, Value};

use super::catalogue;
use super::server::{ServerHandle, ServerStatus};
use crate::limits::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, URI_CHARS_MAX, WORDS_CHARS_MAX};
use crate::text;

impl ServerHandle {
    /// Its prompts, each with at least a `name`; none if it has none or isn't there.
    ///
    /// # Errors
    /// It has prompts and doesn't list them, in words.
    pub async fn prompts(&self) -> Result<Vec<Value>, ToolError> {
        match self.status() {
            ServerStatus::Ready { facts, .. } if facts.has_prompts => {
                Ok(clean_entries(self.list("prompts").await?, "name", NAME_CHARS_MAX))
            }
            _ => Ok(Vec::new()),
        }
    }

    /// A prompt with its arguments put in: the result of `prompts/get`.
    ///
    /// # Errors
    /// In words for the model.
    pub async fn prompt(&self, name: &str, arguments: &Map<String, Value>) -> Result<Value, ToolError> {
        self.get_prompt(name, arguments.clone()).await
    }

    /// Its resources, each with at least a `uri`; none if it has none or isn't there.
    ///
    /// # Errors
    /// It has resources and doesn't list them, in words.
    pub async fn resources(&self) -> Result<Vec<Value>, ToolError> {
        if self.has_resources() {
            Ok(clean_entries(self.list("resources").await?, "uri", URI_CHARS_MAX))
        } else {
            Ok(Vec::new())
        }
    }

    /// Its templates of resources, each with at least a `uriTemplate`. Older servers have none and say so
    /// with an error, so an error is none here.
    pub async fn resource_templates(&self) -> Vec<Value> {
        if self.has_resources() {
            let listed = self.list("resourceTemplates").await;
            clean_entries(listed.unwrap_or_default(), "uriTemplate", URI_CHARS_MAX)
        } else {
            Vec::new()
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
        matches!(self.status(), ServerStatus::Ready { facts, .. } if facts.has_resources)
    }
}

/// The entries that have a name under this key, with words that can be shown. What a client sends back stays
/// as it came: an entry where that can't be seen for what it is is left out.
fn clean_entries(entries: Vec<Value>, key: &str, chars_max: usize) -> Vec<Value> {
    let plain = |value: &Value, chars_max: usize| {
        value.as_str().is_some_and(|name| !name.is_empty() && name.chars().count() <= chars_max)
    };
    let argument_fits = |argument: &Value| {
        let name = &argument["name"];
        plain(name, NAME_CHARS_MAX) && name.as_str().is_some_and(is_visible)
    };
    let fits = |entry: &Value| {
        let is_address = key != "name";
        plain(&entry[key], chars_max)
            && (!is_address || entry[key].as_str().is_some_and(is_visible))
            && entry["arguments"].as_array().into_iter().flatten().all(argument_fits)
    };
    let mut entries: Vec<Value> = entries.into_iter().filter(fits).collect();
    for entry in &mut entries {
        clean_fields(entry, key);
    }
    entries
}

fn is_visible(name: &str) -> bool {
    text::display_line(name, usize::MAX) == name
}

/// Makes all words of an entry visible, but for the one under this key.
fn clean_fields(entry: &mut Value, kept: &str) {
    let Value::Object(fields) = entry else { return };
    for (key, value) in fields.iter_mut().filter(|(key, _)| *key != kept) {
        match (key.as_str(), value) {
            ("description", Value::String(words)) => {
                *words = text::display_text(words, DESCRIPTION_CHARS_MAX)
            }
            (_, Value::String(words)) => *words = text::display_line(words, WORDS_CHARS_MAX),
            (_, Value::Array(items)) => items.iter_mut().for_each(clean_any),
            (_, value) => clean_any(value),
        }
    }
}

fn clean_any(value: &mut Value) {
    match value {
        Value::String(words) => *words = text::display_line(words, WORDS_CHARS_MAX),
        Value::Array(items) => items.iter_mut().for_each(clean_any),
        Value::Object(_) => clean_fields(value, ""),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_name_is_left_out_and_words_are_visible() {
        let entries = vec![
            json!({"name": "a", "description": "x\u{202e}y", "arguments": [{"name": "n", "description": "\u{200b}"}]}),
            json!({"name": "b", "arguments": [{"name": "n\u{202e}"}]}),
            json!({"title": "nameless"}),
            json!({"name": ""}),
            json!(7),
        ];
        let kept = clean_entries(entries, "name", 10);
        assert_eq!(
            kept,
            [
                json!({"name": "a", "description": "x\\u{202e}y", "arguments": [{"name": "n", "description": "\\u{200b}"}]})
            ]
        );
    }

    /// A name is shown, an address is sent back.
    #[test]
    fn resources_show_nothing_that_is_hidden() {
        let entries = vec![
            json!({"uri": "x://1", "name": "n\u{202e}\u{1b}[31m\nm", "title": "t\u{200b}", "mimeType": "a\u{7}",
                "annotations": {"audience": ["us\u{200b}er"]}, "size": 3}),
            json!({"uri": "x://\u{1b}[31m", "name": "n"}),
            json!({"uri": "x://a\u{202e}b", "name": "n"}),
        ];
        assert_eq!(
            clean_entries(entries, "uri", 100),
            [
                json!({"uri": "x://1", "name": "n\\u{202e}\\u{1b}[31m m", "title": "t\\u{200b}", "mimeType": "a\\u{7}",
                    "annotations": {"audience": ["us\\u{200b}er"]}, "size": 3})
            ]
        );
    }
}
