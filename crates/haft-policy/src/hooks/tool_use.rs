//! Hooks that call tools of MCP servers: the tool's input, and the function that calls it.
//!
//! The tool's output is read like the output of a command. The host owns the connections to servers and
//! makes the call. This file only builds the input from the configured template and the event.

use std::sync::Arc;

use haft::future::BoxFuture;
use serde_json::{Map, Value};

use crate::source::SettingsSource;

/// A hook's call of a server's tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookToolUse {
    /// The server's name.
    pub server: String,
    /// The tool's name on the server.
    pub tool: String,
    /// The input, with the event's values filled in.
    pub input: Value,
    /// The origin of the hook that makes the call.
    pub source: SettingsSource,
}

/// Calls a tool for a hook. Returns the text of its result, or the reason why there is none.
pub type CallTool = Arc<dyn Fn(HookToolUse) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Fills `${tool_input.x}` and similar placeholders of an input with values of the event.
pub(super) fn put_in(written: &Map<String, Value>, happened: &Map<String, Value>) -> Value {
    let fields = written.iter().map(|(name, value)| (name.clone(), put_into(value, happened)));
    Value::Object(fields.collect())
}

fn put_into(written: &Value, happened: &Map<String, Value>) -> Value {
    match written {
        Value::String(text) => put_into_text(text, happened),
        Value::Array(items) => items.iter().map(|item| put_into(item, happened)).collect(),
        Value::Object(fields) => put_in(fields, happened),
        other => other.clone(),
    }
}

/// Replaces a text that is a single placeholder by its value of any type. Otherwise the result is a text.
fn put_into_text(text: &str, happened: &Map<String, Value>) -> Value {
    let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = whole.filter(|name| !name.contains('}')) {
        return find_field(name, happened).cloned().unwrap_or_default();
    }
    let (mut put, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        put.push_str(before);
        match find_field(name, happened) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => put.push_str(text),
            Some(other) => put.push_str(&other.to_string()),
        }
        rest = after;
    }
    put.push_str(rest);
    Value::String(put)
}

/// Returns the value of a dotted name.
fn find_field<'v>(name: &str, happened: &'v Map<String, Value>) -> Option<&'v Value> {
    let mut parts = name.split('.');
    let first = happened.get(parts.next()?)?;
    parts.try_fold(first, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happened_is_put_in() {
        let happened = json!({"tool_name": "Write", "tool_input": {"file_path": "a", "lines": [1, 2], "deep": {"x": true}}});
        let put = |written: Value| put_in(written.as_object().unwrap(), happened.as_object().unwrap());
        for (written, expected) in [
            (json!({"p": "${tool_input.file_path}"}), json!({"p": "a"})),
            (json!({"p": "${tool_input.lines}"}), json!({"p": [1, 2]})),
            (json!({"p": "${tool_input.lines.1}"}), json!({"p": 2})),
            (json!({"p": ["x ${tool_name}: ${tool_input.deep.x}!", 3]}), json!({"p": ["x Write: true!", 3]})),
            (json!({"p": {"q": "${tool_input.none}"}}), json!({"p": {"q": null}})),
            (json!({"p": "a${tool_input.none}b ${open"}), json!({"p": "ab ${open"})),
            (json!({"p": "$x {y}"}), json!({"p": "$x {y}"})),
        ] {
            assert_eq!(put(written), expected);
        }
    }
}
