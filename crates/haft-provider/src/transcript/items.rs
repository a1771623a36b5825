//! Messages and items of the four wires, alone, in lists and in whole requests and responses.
//!
//! Calls are read by the same code that reads a model's message for running it; here is only which piece of the text is one,
//! and where results are.

use serde_json::Value;

use super::{BadTranscript, Form, PastCall, PastResult, Reading};
use crate::Wire;
use crate::decode::decode;
use crate::decode::json::{Json, Object};

/// How deep lists and wrappings may lie in each other.
const DEPTH_MAX: usize = 8;

/// How the wires without a mark for errors begin one.
const ERROR: &str = "error: ";

impl<'t> Reading<'t> {
    /// Reads whatever this is. Whether it was anything that is known.
    pub(super) fn value(&mut self, value: Json<'t>, depth: usize) -> Result<bool, BadTranscript> {
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
        let bad = |bad: crate::BadMessage| BadTranscript::at(line, bad.to_string());
        let Some(fields) = value.object("").map_err(bad)? else { return Ok(false) };
        if let Some(known) = self.event(&fields, line, depth)? {
            return Ok(known);
        }
        for key in ["messages", "contents", "choices", "candidates", "input"] {
            // The `input` of a call is an object.
            let Some(list) = fields.get(key).filter(|list| list.array().is_some()) else { continue };
            match (key, list.array()) {
                // Of several answers the first was taken.
                ("choices" | "candidates", Some(all)) => {
                    if let Some(first) = all.first() {
                        self.value(*first, depth + 1)?;
                    }
                }
                _ => drop(self.value(list, depth + 1)?),
            }
            if key == "input"
                && let Some(output) = fields.get("output")
            {
                self.value(output, depth + 1)?;
            }
            return Ok(true);
        }
        // A whole response of OpenAI; a result has an id beside its output.
        if let Some(output) = fields.get("output").filter(|_| !fields.has("call_id"))
            && output.array().is_some()
        {
            return self.value(output, depth + 1).map(|_| true);
        }
        if let Some(inner) =
            fields.get("message").or_else(|| fields.get("content")).filter(|inner| inner.is_object())
        {
            return self.value(inner, depth + 1);
        }
        self.item(value, &fields, None)
    }

    /// One message or item.
    pub(super) fn item(
        &mut self,
        value: Json<'t>,
        fields: &Object<'t>,
        agent: Option<&str>,
    ) -> Result<bool, BadTranscript> {
        let kind = fields.string("type").unwrap_or_default();
        match (&*fields.string("role").unwrap_or_default(), &*kind) {
            ("assistant", _) => {
                self.model();
                if fields.given("tool_calls").is_some() {
                    self.calls(Wire::OpenAiChat, value.text(), agent)?;
                } else if let Some(old) = fields.given("function_call") {
                    self.old_call(old, agent)?;
                } else if fields.get("content").is_some_and(|content| content.array().is_some()) {
                    self.calls(Wire::Anthropic, value.text(), agent)?;
                }
            }
            ("model", _) => {
                self.model();
                self.calls(Wire::Gemini, value.text(), agent)?;
            }
            ("tool" | "function", _) => {
                let id = fields.string("tool_call_id").or_else(|| fields.string("name")).unwrap_or_default();
                self.result(agent, &id, said(fields.get("content")));
            }
            ("user", _) => {
                self.model_speaks = false;
                for block in fields.get("content").and_then(Json::array).unwrap_or_default() {
                    self.block(block, agent)?;
                }
                for part in fields.get("parts").and_then(Json::array).unwrap_or_default() {
                    self.response(part, agent);
                }
            }
            ("system" | "developer", _) => {}
            (_, "function_call" | "custom_tool_call" | "tool_search_call") => {
                self.model();
                self.calls(Wire::OpenAi, value.text(), agent)?;
            }
            (_, "tool_use") => {
                self.model();
                self.calls(Wire::Anthropic, &format!("[{}]", value.text()), agent)?;
                // The text that was read is a copy, so its line was not found.
                let line = self.line(value.text());
                if let Some(last) = self.out.calls.last_mut() {
                    last.line = line;
                }
            }
            (_, "tool_result") => self.block(value, agent)?,
            (_, kind) if kind.ends_with("_output") && fields.has("call_id") => {
                let id = fields.string("call_id").unwrap_or_default();
                let result = fields.get("output").or_else(|| fields.get("tools"));
                self.result(agent, &id, said(result));
            }
            (_, kind) if crate::decode::OPENAI_OTHERS.contains(&kind) => {
                self.model();
                self.passed_over(kind);
            }
            (_, "message" | "reasoning" | "text" | "thinking" | "compaction") => self.model(),
            (_, kind) if kind.ends_with("_call") || kind.ends_with("tool_use") => self.model(),
            _ if fields.has("parts") => {
                self.model();
                self.calls(Wire::Gemini, value.text(), agent)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The calls of a message.
    fn calls(&mut self, wire: Wire, text: &str, agent: Option<&str>) -> Result<(), BadTranscript> {
        let begin = self.line(text);
        let message = decode(text, Some(wire)).map_err(|bad| BadTranscript::at(begin, bad.to_string()))?;
        message.passed_over().to_vec().iter().for_each(|kind| self.passed_over(kind));
        let mut from = 0;
        for (id, name, input) in message.into_requested() {
            self.form(Form::Messages(wire));
            // A message may have many lines, each call its own.
            let at = (!id.is_empty())
                .then(|| text[from..].find(&format!("\"{id}\"")))
                .flatten()
                .map_or(from, |at| from + at);
            from = at;
            let line = begin + text[..at].matches('\n').count();
            let id = if id.is_empty() { name.clone() } else { id };
            self.call(PastCall {
                id,
                name,
                input,
                turn: self.turn,
                line,
                agent: agent.map(str::to_owned),
                result: None,
            })?;
        }
        Ok(())
    }

    /// A `function_call` as Chat had it before there were several.
    fn old_call(&mut self, call: Json<'t>, agent: Option<&str>) -> Result<(), BadTranscript> {
        let line = self.line(call.text());
        let bad = |bad: crate::BadMessage| BadTranscript::at(line, bad.to_string());
        let fields =
            call.required_object("/function_call", "an object with `name` and `arguments`").map_err(bad)?;
        let Some(name) = fields.string("name") else {
            return Err(BadTranscript::at(line, "the `function_call` has no `name`; a string is required"));
        };
        self.form(Form::Messages(Wire::OpenAiChat));
        let input =
            fields.get("arguments").map(|given| given.string().unwrap_or_else(|| given.text().into()));
        self.call(PastCall {
            id: name.to_string(),
            name: name.into_owned(),
            input: Some(input.map_or_else(|| "{}".to_owned(), std::borrow::Cow::into_owned)),
            turn: self.turn,
            line,
            agent: agent.map(str::to_owned),
            result: None,
        })?;
        Ok(())
    }

    /// A block of a user's message at Anthropic's.
    fn block(&mut self, block: Json<'t>, agent: Option<&str>) -> Result<(), BadTranscript> {
        let line = self.line(block.text());
        let bad = |bad: crate::BadMessage| BadTranscript::at(line, bad.to_string());
        let Some(fields) = block.object("").map_err(bad)?.filter(|fields| fields.is("type", "tool_result"))
        else {
            return Ok(());
        };
        let Some(id) = fields.string("tool_use_id") else {
            return Err(BadTranscript::at(
                line,
                "the `tool_result` has no `tool_use_id`; a string is required",
            ));
        };
        let is_error = fields.get("is_error").is_some_and(|given| given.text() == "true");
        self.result(agent, &id, PastResult { is_error, ..said(fields.get("content")) });
        Ok(())
    }

    /// A part of a user's content at Gemini's.
    fn response(&mut self, part: Json<'t>, agent: Option<&str>) {
        let Ok(part) = serde_json::from_str::<Value>(part.text()) else { return };
        let Some(response) = part.get("functionResponse").or_else(|| part.get("function_response")) else {
            return;
        };
        let named = response["id"].as_str().or_else(|| response["name"].as_str()).unwrap_or_default();
        let body = &response["response"];
        let (value, is_error) = match (body.get("output"), body.get("error")) {
            (Some(output), _) => (output, false),
            (None, Some(error)) => (error, true),
            (None, None) => (body, false),
        };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let others = response["parts"].as_array().map_or(0, Vec::len);
        self.result(agent, named, PastResult { text, is_error, others, ..PastResult::default() });
    }

    pub(super) fn passed_over(&mut self, kind: &str) {
        if !self.out.passed_over.iter().any(|known| known == kind) {
            self.out.passed_over.push(kind.to_owned());
        }
    }
}

/// What a result's content says: a text, or parts.
pub(super) fn said(content: Option<Json<'_>>) -> PastResult {
    let mut result = PastResult::default();
    let Some(content) = content else { return result };
    let value: Value = match content.string() {
        Some(text) => Value::String(text.into_owned()),
        None => serde_json::from_str(content.text()).unwrap_or_default(),
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
    result.is_error = result.text.starts_with(ERROR);
    result
}
