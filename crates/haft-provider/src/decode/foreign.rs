//! Calls of one wire in a message that is read as another's.
//!
//! A reader passes over what it doesn't know, so a message that is taken for the wrong provider's would have no calls
//! and an empty answer, and the model would wait for results that nobody made. Here every place where any wire keeps
//! its calls is looked at, and a call that the chosen wire doesn't have makes the message a bad one.

use super::BadMessage;
use super::gemini::call_of;
use super::json::{Json, Object};
use crate::Wire;

/// How many wrappings a message is looked for in: `choices`, `message`, `content`.
const WRAPPINGS_MAX: usize = 3;

/// Refuses a message with a call of another wire.
pub(super) fn check(value: Json<'_>, wire: Wire) -> Result<(), BadMessage> {
    if let Some(items) = value.array() {
        return items
            .iter()
            .enumerate()
            .try_for_each(|(at, item)| check_item(*item, &format!("/{at}"), wire));
    }
    let Some(fields) = value.object("")? else { return Ok(()) };
    refuse(&fields, "", wire)?;
    check_message(&fields, "", wire, WRAPPINGS_MAX)
}

/// A message, or what holds one.
fn check_message(fields: &Object<'_>, path: &str, wire: Wire, wrappings: usize) -> Result<(), BadMessage> {
    // Messages come one by one; of several choices or candidates the first is taken.
    for key in ["choices", "candidates", "message", "content"] {
        let Some(inner) = fields.get(key).filter(|_| wrappings > 0) else { continue };
        let (inner, path) = match inner.array() {
            Some(_) if key == "content" => continue,
            Some(items) => match items.first() {
                Some(first) => (*first, format!("{path}/{key}/0")),
                None => continue,
            },
            None => (inner, format!("{path}/{key}")),
        };
        if let Some(inner) = inner.object(&path)? {
            check_message(&inner, &path, wire, wrappings - 1)?;
        }
    }
    for key in ["content", "output", "tool_calls", "parts"] {
        let items = fields.get(key).and_then(Json::array).unwrap_or_default();
        for (at, item) in items.iter().enumerate() {
            check_item(*item, &format!("{path}/{key}/{at}"), wire)?;
        }
    }
    Ok(())
}

fn check_item(item: Json<'_>, path: &str, wire: Wire) -> Result<(), BadMessage> {
    match item.object(path)? {
        Some(item) => refuse(&item, path, wire),
        None => Ok(()),
    }
}

fn refuse(item: &Object<'_>, path: &str, wire: Wire) -> Result<(), BadMessage> {
    match call(item) {
        Some((whose, kind)) if whose != wire => Err(BadMessage::at(
            path,
            format!(
                "a `{kind}` is a call of `{whose}`, and the message is read as one of `{wire}`; name the provider"
            ),
        )
        .name_wire()),
        _ => Ok(()),
    }
}

/// Whose call an item is, and what it is called there; `None` for what is no call.
fn call(item: &Object<'_>) -> Option<(Wire, &'static str)> {
    let holds = |key: &str| item.get(key).is_some_and(Json::is_object);
    match item.string("type").as_deref() {
        Some("tool_use") => Some((Wire::Anthropic, "tool_use")),
        Some("function_call") => Some((Wire::OpenAi, "function_call")),
        Some("custom_tool_call") => Some((Wire::OpenAi, "custom_tool_call")),
        Some("tool_search_call") => Some((Wire::OpenAi, "tool_search_call")),
        Some("custom") if holds("custom") => Some((Wire::OpenAiChat, "custom")),
        _ if holds("function") => Some((Wire::OpenAiChat, "function")),
        Some(_) => None,
        // The old form of a chat message has one too, with `arguments`; its own reader speaks of it.
        None if item.has("role") => None,
        None => call_of(item).map(|(key, _)| (Wire::Gemini, key)),
    }
}
