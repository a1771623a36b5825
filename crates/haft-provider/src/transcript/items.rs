//! Messages and items of every wire, alone, in lists and in whole requests and responses.
//!
//! The wires classify items and parts. Calls are read by the decoder that reads a model's message for running
//! it; here is only which piece of the text is one, and where results are.

use serde_json::Value;

use super::{InvalidTranscript, PastCall, PastResult, TranscriptForm, TranscriptReader};
use crate::Wire;
use crate::decode_message::decode_message;
use crate::wire::json_text::{JsonError, JsonObject, JsonText};
use crate::wire::result_content::ERROR_PREFIX;
use crate::wire::{PartKind, detection};

/// How deep lists and wrappings may lie in each other.
const DEPTH_MAX: usize = 8;

/// The roles of messages.
const ROLES: [&str; 7] = ["assistant", "model", "tool", "function", "user", "system", "developer"];

impl<'t> TranscriptReader<'t> {
    /// Reads any value. Returns whether it was known.
    pub(super) fn value(&mut self, value: JsonText<'t>, depth: usize) -> Result<bool, InvalidTranscript> {
        if depth > DEPTH_MAX {
            return Ok(false);
        }
        if let Some(items) = value.array() {
            let mut any = items.is_empty();
            for item in items {
                any |= self.value(item, depth + 1)?;
            }
            return Ok(any);
        }
        let line = self.line(value.text());
        let Some(fields) = value.object().map_err(at_line(line, value))? else { return Ok(false) };
        if let Some(known) = self.event(&fields, line, depth)? {
            return Ok(known);
        }
        if self.frame(&fields, depth)? {
            return Ok(true);
        }
        if let Some(inner) =
            fields.get("message").or_else(|| fields.get("content")).filter(|inner| inner.is_object())
        {
            return self.value(inner, depth + 1);
        }
        self.item(value, &fields, None)
    }

    /// Reads a whole request or response. Returns whether it was one.
    fn frame(&mut self, fields: &JsonObject<'t>, depth: usize) -> Result<bool, InvalidTranscript> {
        let all = || Wire::ALL.into_iter().map(Wire::format);
        // The `input` of a call is an object.
        let array = |key: &str| fields.get(key).and_then(JsonText::array);
        if let Some(items) = all().find_map(|format| array(format.history_key)) {
            for item in items {
                self.value(item, depth + 2)?;
            }
        } else if let Some(choices) = all().flat_map(|format| format.wrapping_keys).find_map(|key| {
            // A message has its parts in a list, too.
            array(key).filter(|_| *key != "content")
        }) {
            // Of several answers the first was taken.
            if let Some(first) = choices.first() {
                self.value(*first, depth + 1)?;
            }
            return Ok(true);
        } else if array("output").is_none() || fields.has("call_id") {
            return Ok(false);
        }
        // A request and its response together; a result has an id beside its output.
        if let Some(output) = fields.get("output") {
            self.value(output, depth + 1)?;
        }
        Ok(true)
    }

    /// Reads one message or item.
    pub(super) fn item(
        &mut self,
        value: JsonText<'t>,
        fields: &JsonObject<'t>,
        agent: Option<&str>,
    ) -> Result<bool, InvalidTranscript> {
        let role = fields.string("role").filter(|role| ROLES.contains(&&**role)).unwrap_or_default();
        let kind = detection::classify_part(fields);
        match (&*role, kind) {
            ("", None) if part_lists(fields).next().is_some() => self.message(value, fields, agent)?,
            ("", None) => return Ok(false),
            ("assistant" | "model", _) => self.message(value, fields, agent)?,
            (_, Some((wire, PartKind::Result))) => self.past_result(wire, value, agent)?,
            ("user", _) => {
                self.model_speaks = false;
                for part in part_lists(fields).flat_map(|(_, parts)| parts) {
                    if let Ok(Some(fields)) = part.object()
                        && let Some((wire, PartKind::Result)) = detection::classify_part(&fields)
                    {
                        self.past_result(wire, part, agent)?;
                    }
                }
            }
            ("", Some((wire, kind))) => {
                self.model();
                match kind {
                    PartKind::Call(_) => self.calls(wire, value.text(), agent)?,
                    PartKind::HostCall => self.passed_over(&fields.string("type").unwrap_or_default()),
                    PartKind::Result | PartKind::Other => {}
                }
            }
            _ => {}
        }
        Ok(true)
    }

    /// Reads a message of the model.
    fn message(
        &mut self,
        value: JsonText<'t>,
        fields: &JsonObject<'t>,
        agent: Option<&str>,
    ) -> Result<(), InvalidTranscript> {
        self.model();
        // A part that can't be read may be a call.
        let may_be_call = |part: &JsonText<'_>| match part.object() {
            Ok(Some(part)) => matches!(detection::classify_part(&part), Some((_, PartKind::Call(_)))),
            _ => true,
        };
        // A list apart from the content has nothing but calls.
        let has_call_list = |wire: &Wire| {
            let mut keys = wire.format().part_keys.iter().filter(|key| **key != wire.format().content_key);
            keys.any(|key| fields.given(key).is_some())
        };
        let mut lists = part_lists(fields).filter(|(_, parts)| parts.iter().any(may_be_call));
        if let Some(wire) = Wire::ALL.into_iter().find(has_call_list).or_else(|| Some(lists.next()?.0)) {
            return self.calls(wire, value.text(), agent);
        }
        let unnamed = |wire: Wire| Some((wire, (wire.format().unnamed_call)(fields)?));
        match Wire::ALL.into_iter().find_map(unnamed) {
            Some((wire, call)) => self.unnamed_call(wire, call, value, agent),
            None => Ok(()),
        }
    }

    fn past_result(
        &mut self,
        wire: Wire,
        piece: JsonText<'t>,
        agent: Option<&str>,
    ) -> Result<(), InvalidTranscript> {
        let line = self.line(piece.text());
        if let Some(fields) = piece.object().map_err(at_line(line, piece))? {
            let (id, result) = (wire.format().past_result)(&fields).map_err(at_line(line, piece))?;
            self.result(agent, &id, result);
        }
        Ok(())
    }

    /// Reads the calls of a message.
    fn calls(&mut self, wire: Wire, text: &str, agent: Option<&str>) -> Result<(), InvalidTranscript> {
        let begin = self.line(text);
        let message =
            decode_message(text, Some(wire)).map_err(|bad| InvalidTranscript::at(begin, bad.to_string()))?;
        message.passed_over().iter().for_each(|kind| self.passed_over(kind));
        let mut from = 0;
        for (id, name, input) in message.into_requested() {
            // A message may have many lines, each call its own.
            let at = (!id.is_empty())
                .then(|| text[from..].find(&format!("\"{id}\"")))
                .flatten()
                .map_or(from, |at| from + at);
            from = at;
            let line = begin + text[..at].matches('\n').count();
            let id = if id.is_empty() { name.clone() } else { id };
            self.push_call(wire, (id, name, input), line, agent)?;
        }
        Ok(())
    }

    /// Reads a call without an id, which is answered by its name.
    fn unnamed_call(
        &mut self,
        wire: Wire,
        call: JsonText<'t>,
        message: JsonText<'t>,
        agent: Option<&str>,
    ) -> Result<(), InvalidTranscript> {
        let line = self.line(call.text());
        let fields =
            call.required_object("an object with `name` and `arguments`").map_err(at_line(line, message))?;
        let Some(name) = fields.string("name") else {
            return Err(InvalidTranscript::at(
                line,
                "the `function_call` has no `name`; a string is required",
            ));
        };
        let input = fields.get("arguments");
        let input = input.map_or("{}".into(), |input| input.string().unwrap_or_else(|| input.text().into()));
        let call = (name.to_string(), name.into_owned(), Some(input.into_owned()));
        self.push_call(wire, call, line, agent)
    }

    fn push_call(
        &mut self,
        wire: Wire,
        (id, name, input): (String, String, Option<String>),
        line: usize,
        agent: Option<&str>,
    ) -> Result<(), InvalidTranscript> {
        self.form(TranscriptForm::Messages(wire));
        let (turn, agent) = (self.turn, agent.map(str::to_owned));
        self.call(PastCall { id, name, input, turn, line, agent, result: None })?;
        Ok(())
    }

    pub(super) fn passed_over(&mut self, kind: &str) {
        if !self.out.passed_over.iter().any(|known| known == kind) {
            self.out.passed_over.push(kind.to_owned());
        }
    }
}

/// Returns the lists of parts in a message, with the wires that have them.
fn part_lists<'t>(fields: &JsonObject<'t>) -> impl Iterator<Item = (Wire, Vec<JsonText<'t>>)> {
    let keys =
        Wire::ALL.into_iter().flat_map(|wire| wire.format().part_keys.iter().map(move |key| (wire, *key)));
    keys.filter_map(|(wire, key)| Some((wire, fields.get(key)?.array()?)))
}

pub(super) fn at_line(line: usize, root: JsonText<'_>) -> impl Fn(JsonError) -> InvalidTranscript {
    move |error| InvalidTranscript::at(line, error.locate(root.text()).to_string())
}

/// Reads the content of a result: a text, or parts.
pub(crate) fn content_text(content: Option<JsonText<'_>>) -> PastResult {
    let mut result = PastResult::default();
    let Some(content) = content else { return result };
    let value: Value = match content.string() {
        Some(text) => Value::String(text.into_owned()),
        None => content.to_value().unwrap_or_default(),
    };
    match value {
        Value::String(text) => result.text = text,
        Value::Array(parts) if parts.iter().any(|part| part.get("type").is_some()) => {
            for part in &parts {
                match part["text"].as_str() {
                    Some(text) => {
                        if !result.text.is_empty() {
                            result.text.push('\n');
                        }
                        result.text.push_str(text);
                    }
                    None => result.others += 1,
                }
            }
        }
        Value::Null => {}
        other => result.text = other.to_string(),
    }
    result.is_error = result.text.starts_with(ERROR_PREFIX);
    result
}
