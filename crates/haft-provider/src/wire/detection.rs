//! Which wire a message belongs to, by its shape, and calls of one wire in a message that is read as
//! another's.
//!
//! Only marks that one wire alone has are trusted. A message that could be of two is rejected: a guess would
//! answer in a form that the other provider rejects. A decoder passes over what it doesn't know, so a message
//! that is taken for the wrong provider's would have no calls and an empty answer, and the model would wait
//! for results forever. So a call that the chosen wire doesn't have makes the message a bad one.

use haft::text::truncate_chars;

use super::json_text::{JsonError, JsonObject, JsonText};
use super::{PartKind, Wire};

/// What is accepted, for the end of a message.
const ACCEPTED: &str = "accepted are an Anthropic message or its content, an OpenAI response or its output, \
     a chat message with tool_calls, and a Gemini content with parts; name the provider";

/// How many wrappings a message is looked for in: `choices`, `message`, `content`.
const WRAPPINGS_MAX: usize = 3;

/// Detects the wire of a message.
pub(crate) fn detect_wire(value: JsonText<'_>) -> Result<Wire, JsonError> {
    let fields = value.object()?;
    let wire = match (&fields, value.array()) {
        (Some(fields), _) => detect_frame(fields)?,
        (None, Some(items)) => detect_parts(&items)?,
        (None, None) => None,
    };
    wire.ok_or_else(|| {
        let shape = describe_shape(value, fields.as_ref());
        value.error(format!("{shape} doesn't say whose message it is; {ACCEPTED}")).name_wire()
    })
}

fn detect_frame(fields: &JsonObject<'_>) -> Result<Option<Wire>, JsonError> {
    let mut owner = None;
    for wire in Wire::ALL {
        if (wire.format().owns_frame)(fields)? && owner.replace(wire).is_some() {
            return Ok(None);
        }
    }
    match owner {
        Some(_) => Ok(owner),
        None => detect_parts(&fields.items("content")),
    }
}

/// Returns the wire that all known parts of a list agree on.
fn detect_parts(items: &[JsonText<'_>]) -> Result<Option<Wire>, JsonError> {
    let mut owner = None;
    for item in items {
        let Some(fields) = item.object()? else { continue };
        match (owner, classify_part(&fields).map(|(wire, _)| wire)) {
            (Some(before), Some(wire)) if before != wire => return Ok(None),
            (_, None) => {}
            (_, wire) => owner = wire,
        }
    }
    Ok(owner)
}

/// Returns the wire that has such a part, and what it is there.
pub(crate) fn classify_part(part: &JsonObject<'_>) -> Option<(Wire, PartKind)> {
    Wire::ALL.into_iter().find_map(|wire| Some((wire, (wire.format().classify_part)(part)?)))
}

/// Rejects a message with a call of another wire.
pub(crate) fn reject_foreign_calls(value: JsonText<'_>, wire: Wire) -> Result<(), JsonError> {
    if let Some(items) = value.array() {
        return items.into_iter().try_for_each(|item| check_part(item, wire));
    }
    check_part(value, wire)?;
    value.object()?.map_or(Ok(()), |fields| check_message(&fields, wire, WRAPPINGS_MAX))
}

/// Checks a message, or what holds one.
fn check_message(fields: &JsonObject<'_>, wire: Wire, wrappings: usize) -> Result<(), JsonError> {
    // Messages come one by one; of several choices or candidates the first is taken.
    for key in Wire::ALL.iter().flat_map(|wire| wire.format().wrapping_keys) {
        let inner = fields.get(key).filter(|_| wrappings > 0);
        let inner = inner.and_then(|inner| match inner.array() {
            Some(items) => items.first().copied().filter(|_| *key != "content"),
            None => Some(inner),
        });
        if let Some(inner) = inner.map(JsonText::object).transpose()?.flatten() {
            check_message(&inner, wire, wrappings - 1)?;
        }
    }
    let mut keys = Wire::ALL.iter().flat_map(|wire| wire.format().part_keys);
    keys.try_for_each(|key| fields.items(key).into_iter().try_for_each(|item| check_part(item, wire)))
}

fn check_part(part: JsonText<'_>, wire: Wire) -> Result<(), JsonError> {
    let Some(fields) = part.object()? else { return Ok(()) };
    match classify_part(&fields) {
        Some((owner, PartKind::Call(kind))) if owner != wire => Err(part
            .error(format!(
                "a `{kind}` is a call of `{owner}`, and the message is read as one of `{wire}`; name the provider"
            ))
            .name_wire()),
        _ => Ok(()),
    }
}

/// Describes a message in a few words.
fn describe_shape(value: JsonText<'_>, fields: Option<&JsonObject<'_>>) -> String {
    let Some(fields) = fields else {
        return match value.array() {
            Some(items) if items.is_empty() => "an empty array".to_owned(),
            Some(_) => "an array of parts that no one provider has".to_owned(),
            None => value.shown().to_owned(),
        };
    };
    match fields.keys().len() {
        0 => "an object without fields".to_owned(),
        count => {
            let more = if count > 6 { ", …" } else { "" };
            let keys: Vec<String> =
                fields.keys().take(6).map(|key| format!("`{}`", truncate_chars(key, 40))).collect();
            format!("an object with {}{more}", keys.join(", "))
        }
    }
}
