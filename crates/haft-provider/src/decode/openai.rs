//! OpenAI Responses: `function_call` and `custom_tool_call` items in the `output` of a response.

use serde_json::Value;

use super::{BadMessage, Message, arguments, is_object, list, required};

/// Items that wait for an answer of another kind.
const OTHERS: [&str; 6] = [
    "apply_patch_call",
    "computer_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

pub(super) fn read(value: &Value, message: &mut Message) -> Result<(), BadMessage> {
    let (items, path) = match value {
        Value::Array(items) => (items.as_slice(), ""),
        // One item of an output.
        Value::Object(fields) if !fields.contains_key("output") && fields.contains_key("type") => {
            (std::slice::from_ref(value), "")
        }
        Value::Object(fields) if fields.contains_key("output") => {
            (list(fields.get("output"), "/output", "an array of output items")?, "/output")
        }
        Value::Object(_) => {
            return Err(BadMessage::at("", "the response has no `output`; an array is required"));
        }
        other => {
            is_object(other, "", "a response object or its output array")?;
            return Ok(());
        }
    };
    let single = !value.is_array() && path.is_empty();
    for (at, item) in items.iter().enumerate() {
        let path = if single { String::new() } else { format!("{path}/{at}") };
        is_object(item, &path, "an output item")?;
        let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "function_call" => {
                let id = required(item, &path, "call_id", "the `function_call`")?;
                let name = required(item, &path, "name", "the `function_call`")?;
                message.call(id, name, arguments(item.get("arguments")));
                let status = item.get("status").and_then(Value::as_str);
                if matches!(status, Some("incomplete" | "in_progress")) {
                    message.cut_off();
                }
            }
            "custom_tool_call" => {
                let id = required(item, &path, "call_id", "the `custom_tool_call`")?;
                let name = required(item, &path, "name", "the `custom_tool_call`")?;
                message.custom(id, name);
            }
            other if OTHERS.contains(&other) && item["execution"] != "server" => {
                message.passed_over.push(other.to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}
