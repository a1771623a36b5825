//! OpenAI Responses: `function_call`, `custom_tool_call` and `tool_search_call` items in the `output` of a response.

use haft::search::TOOL_SEARCH;
use serde::de::IgnoredAny;

use super::json::Json;
use super::{BadMessage, Message, arguments, list, required};
use haft_agent::CallKind;

/// Items that wait for an answer of another kind.
pub(crate) const OTHERS: [&str; 6] = [
    "apply_patch_call",
    "computer_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
    "tool_search_call",
];

pub(super) fn read(value: Json<'_>, message: &mut Message) -> Result<(), BadMessage> {
    if let Some(items) = value.array() {
        return read_items(&items, "", message);
    }
    let fields = value.required_object("", "a response object or its output array")?;
    match fields.get("output") {
        Some(output) => {
            let items = list(Some(output), "/output", "an array of output items")?;
            read_items(&items, "/output", message)
        }
        // One item of an output.
        None if fields.has("type") => read_item(value, "", message),
        None => Err(BadMessage::at("", "the response has no `output`; an array is required")),
    }
}

fn read_items(items: &[Json<'_>], path: &str, message: &mut Message) -> Result<(), BadMessage> {
    items.iter().enumerate().try_for_each(|(at, item)| read_item(*item, &format!("{path}/{at}"), message))
}

fn read_item(item: Json<'_>, path: &str, message: &mut Message) -> Result<(), BadMessage> {
    let item = item.required_object(path, "an output item")?;
    match &*item.string("type").unwrap_or_default() {
        "function_call" => {
            let id = required(&item, path, "call_id", "the `function_call`")?;
            let name = required(&item, path, "name", "the `function_call`")?;
            message.call(&id, &name, arguments(item.get("arguments")));
            // A call of a program is `in_progress` until it is answered; one that is still written isn't whole.
            let is_whole = || serde_json::from_str::<IgnoredAny>(&arguments(item.get("arguments"))).is_ok();
            if item.is("status", "incomplete") || (item.is("status", "in_progress") && !is_whole()) {
                message.cut_off();
            }
        }
        "custom_tool_call" => {
            let id = required(&item, path, "call_id", "the `custom_tool_call`")?;
            let name = required(&item, path, "name", "the `custom_tool_call`")?;
            message.custom(&id, &name);
        }
        // One that the provider's own search answers has no id of ours.
        "tool_search_call" if !item.is("execution", "server") && item.string("call_id").is_some() => {
            let id = required(&item, path, "call_id", "the `tool_search_call`")?;
            message.call_of(CallKind::ToolSearch, &id, TOOL_SEARCH, arguments(item.get("arguments")));
            if item.is("status", "incomplete") {
                message.cut_off();
            }
        }
        other if OTHERS.contains(&other) && !item.is("execution", "server") => {
            message.passed_over.push(other.to_owned());
        }
        _ => {}
    }
    Ok(())
}
