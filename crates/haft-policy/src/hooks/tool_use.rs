//! Hooks that are tools of MCP servers: what a tool is given, and who calls it.
//!
//! What the tool says is read as the output of a command is. Servers are the host's, so the call is too; here it is only put
//! together from what was written and what happened.

use std::sync::Arc;

use haft::future::BoxFuture;
use serde_json::{Map, Value};

use crate::source::SettingsSource;

/// The use of a server's tool that a hook is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookToolUse {
    /// The server.
    pub server: String,
    /// The tool, as the server calls it.
    pub tool: String,
    /// Its input, with what happened put in.
    pub input: Value,
    /// Where the hook stands: who wants the call.
    pub source: SettingsSource,
}

/// Calls a tool for a hook, and gives the text of its result; or why there is none, in words.
pub type CallTool = Arc<dyn Fn(HookToolUse) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// An input as it was written, with `${tool_input.x}` and the like put in from what happened.
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

/// A text that is one name becomes what the name stands for, whatever that is; else texts are put together.
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

/// What stands under a name with dots between its parts.
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
