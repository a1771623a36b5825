//! What a request says about where the conversation is: how often the model has spoken, which results came since, what
//! the user said last.
//!
//! A request with a history that the real provider would refuse is refused here too: calls without a result, results
//! without a call. Whoever tests an agent wants to know.

use haft::search::TOOL_SEARCH;
use serde_json::{Map, Value};

use crate::Wire;

/// What a request says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// How often the model has spoken.
    pub(super) turn: usize,
    /// The results since it spoke last.
    pub(super) results: Vec<SeenResult>,
    /// The user's first words.
    pub(super) first: String,
    /// The user's last words.
    pub(super) prompt: String,
    pub(super) offers_tools: bool,
    /// Whether searches for tools have a form of their own.
    pub(super) searches: bool,
    /// The first thing that a provider who doesn't know of deferred tools would refuse.
    pub(super) defers: Option<&'static str>,
    pub(super) stream: bool,
    pub(super) model: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct SeenResult {
    id: String,
    /// The tool, where the call is in the history.
    pub(super) tool: String,
    pub(super) text: String,
    /// The result as a value, where it came as one.
    pub(super) value: Option<Value>,
    pub(super) is_error: bool,
}

/// What is collected on the way.
#[derive(Default)]
struct Reading {
    seen: Seen,
    /// The calls that have no result yet: id and tool.
    open: Vec<(String, String)>,
    model_spoke_last: bool,
}

impl Seen {
    /// Reads a request's body.
    ///
    /// # Errors
    /// In words: what the provider would not accept.
    pub(super) fn read(wire: Wire, body: &Value) -> Result<Seen, String> {
        let Some(fields) = body.as_object() else { return Err("the request's body is no object".to_owned()) };
        let mut reading = Reading::default();
        reading.seen.model = text(fields.get("model"));
        reading.seen.stream = fields.get("stream") == Some(&Value::Bool(true));
        reading.seen.offers_tools =
            fields.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
        let tools = fields.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        reading.seen.searches = tools.iter().any(|tool| tool["type"] == "tool_search");
        reading.seen.defers = match () {
            () if reading.seen.searches => Some("tool_search"),
            () if tools.iter().any(is_deferred) => Some("defer_loading"),
            () => None,
        };
        match wire {
            Wire::Anthropic => reading.anthropic(fields, tools)?,
            Wire::OpenAi => reading.openai(fields)?,
            Wire::OpenAiChat => reading.openai_chat(fields)?,
            Wire::Gemini => reading.gemini(fields)?,
        }
        if let Some((id, tool)) = reading.open.first() {
            return Err(format!("the call `{id}` of `{tool}` has no result; every call needs one"));
        }
        Ok(reading.seen)
    }
}

impl Reading {
    /// The model speaks, in a message of its own: one that was paused is followed by another.
    fn message(&mut self) {
        self.model_spoke_last = false;
        self.model();
    }

    /// The model speaks, perhaps in several items.
    fn model(&mut self) {
        if !std::mem::replace(&mut self.model_spoke_last, true) {
            self.seen.turn += 1;
            self.seen.results.clear();
        }
    }

    fn call(&mut self, id: String, tool: String) {
        self.open.push((id, tool));
    }

    fn result(
        &mut self,
        id: String,
        text: String,
        value: Option<Value>,
        is_error: bool,
    ) -> Result<(), String> {
        self.model_spoke_last = false;
        let Some(at) = self.open.iter().position(|(open, _)| *open == id) else {
            return Err(format!("the result for `{id}` answers no call, or one that is answered already"));
        };
        let (id, tool) = self.open.remove(at);
        self.seen.results.push(SeenResult { id, tool, text, value, is_error });
        Ok(())
    }

    fn user(&mut self, text: String) -> Result<(), String> {
        self.model_spoke_last = false;
        if !text.is_empty() {
            if self.seen.first.is_empty() {
                self.seen.first.clone_from(&text);
            }
            self.seen.prompt = text;
        }
        Ok(())
    }

    fn anthropic(&mut self, fields: &Map<String, Value>, tools: &[Value]) -> Result<(), String> {
        check_deferred(tools)?;
        for message in list(fields, "messages")? {
            let content = &message["content"];
            match message["role"].as_str() {
                Some("assistant") => {
                    self.message();
                    for block in content.as_array().into_iter().flatten() {
                        match block["type"].as_str() {
                            Some("tool_use") => self.call(text(block.get("id")), text(block.get("name"))),
                            Some("text") if text(block.get("text")).trim().is_empty() => {
                                return Err("a text block is empty; text blocks must have text".to_owned());
                            }
                            _ => {}
                        }
                    }
                }
                Some("user") => {
                    let mut said = text(Some(content));
                    for block in content.as_array().into_iter().flatten() {
                        match block["type"].as_str() {
                            Some("tool_result") => {
                                let is_error = block["is_error"] == Value::Bool(true);
                                let said = match expanded(&block["content"], tools)? {
                                    Some(definitions) => {
                                        self.seen.defers = self.seen.defers.or(Some("tool_reference"));
                                        definitions
                                    }
                                    None => parts(&block["content"]),
                                };
                                self.result(text(block.get("tool_use_id")), said, None, is_error)?;
                            }
                            _ => push(&mut said, &text(block.get("text"))),
                        }
                    }
                    if let Some((id, tool)) = self.open.first() {
                        return Err(format!(
                            "the call `{id}` of `{tool}` has no result in the message after it; every call needs one"
                        ));
                    }
                    self.user(said)?;
                }
                Some("system") => {}
                _ => return Err("a message has no role, or one that is not known".to_owned()),
            }
        }
        Ok(())
    }

    fn openai(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        if let Some(Value::String(input)) = fields.get("input") {
            return self.user(input.clone());
        }
        for item in list(fields, "input")? {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("message") | None, Some("user")) => self.user(parts(&item["content"]))?,
                (Some("message") | None, Some("system" | "developer")) => self.model_spoke_last = false,
                (Some("function_call" | "custom_tool_call"), _) => {
                    self.model();
                    self.call(text(item.get("call_id")), text(item.get("name")));
                }
                (Some("function_call_output" | "custom_tool_call_output"), _) => {
                    let said = parts(&item["output"]);
                    let is_error = said.starts_with("error: ");
                    self.result(text(item.get("call_id")), said, None, is_error)?;
                }
                (Some("tool_search_call"), _) if item["execution"] == "client" => {
                    self.model();
                    self.call(text(item.get("call_id")), TOOL_SEARCH.to_owned());
                    self.seen.defers = Some("tool_search_call");
                }
                (Some("tool_search_output"), _) if item["execution"] == "client" => {
                    let said = item["tools"].to_string();
                    self.result(text(item.get("call_id")), said, Some(item["tools"].clone()), false)?;
                }
                (Some(kind), _) if kind.ends_with("_output") => self.model_spoke_last = false,
                _ => self.model(),
            }
        }
        Ok(())
    }

    fn openai_chat(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        for message in list(fields, "messages")? {
            match message["role"].as_str() {
                Some("assistant") => {
                    self.message();
                    for call in message["tool_calls"].as_array().into_iter().flatten() {
                        let function =
                            if call["type"] == "custom" { &call["custom"] } else { &call["function"] };
                        self.call(text(call.get("id")), text(function.get("name")));
                    }
                }
                Some("tool") => {
                    let said = parts(&message["content"]);
                    let is_error = said.starts_with("error: ");
                    self.result(text(message.get("tool_call_id")), said, None, is_error)?;
                }
                Some("user") => {
                    if let Some((id, tool)) = self.open.first() {
                        return Err(format!(
                            "the call `{id}` of `{tool}` has no result before the user speaks"
                        ));
                    }
                    self.user(parts(&message["content"]))?;
                }
                Some("system" | "developer") => {}
                _ => return Err("a message has no role, or one that is not known".to_owned()),
            }
        }
        Ok(())
    }

    fn gemini(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        for content in list(fields, "contents")? {
            let all = content["parts"].as_array().into_iter().flatten();
            if content["role"] == "model" {
                self.message();
                for call in all.filter_map(|part| part.get("functionCall")) {
                    // Calls have an id or are answered by name.
                    let id = text(call.get("id"));
                    let name = text(call.get("name"));
                    self.call(if id.is_empty() { name.clone() } else { id }, name);
                }
                continue;
            }
            let mut said = String::new();
            for part in all {
                let Some(response) = part.get("functionResponse") else {
                    push(&mut said, &text(part.get("text")));
                    continue;
                };
                let id = text(response.get("id"));
                let id = if id.is_empty() { text(response.get("name")) } else { id };
                let (value, is_error) =
                    match (response["response"].get("output"), response["response"].get("error")) {
                        (Some(output), _) => (output.clone(), false),
                        (None, Some(error)) => (error.clone(), true),
                        (None, None) => (response["response"].clone(), false),
                    };
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                self.result(id, shown, Some(value).filter(|value| !value.is_string()), is_error)?;
            }
            self.user(said)?;
        }
        Ok(())
    }
}

fn list<'v>(fields: &'v Map<String, Value>, key: &str) -> Result<&'v Vec<Value>, String> {
    fields
        .get(key)
        .and_then(Value::as_array)
        .ok_or_else(|| format!("the request has no `{key}`; an array is required"))
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn is_deferred(tool: &Value) -> bool {
    tool["defer_loading"] == Value::Bool(true)
}

/// What Anthropic refuses of deferred tools.
fn check_deferred(tools: &[Value]) -> Result<(), String> {
    if !tools.is_empty() && tools.iter().all(is_deferred) {
        return Err("all tools have defer_loading set; at least one must not".to_owned());
    }
    match tools.iter().find(|tool| is_deferred(tool) && tool.get("cache_control").is_some()) {
        Some(tool) => Err(format!("tool {} can't have both defer_loading and cache_control", tool["name"])),
        None => Ok(()),
    }
}

/// References as the provider expands them: the definitions that they name. None for another content.
fn expanded(content: &Value, tools: &[Value]) -> Result<Option<String>, String> {
    let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
    let is_reference = |block: &Value| block["type"] == "tool_reference";
    if !blocks.iter().any(is_reference) {
        return Ok(None);
    }
    if !blocks.iter().all(is_reference) {
        return Err("a result has a tool_reference beside other content".to_owned());
    }
    let mut definitions = Vec::new();
    for block in blocks {
        let Some(tool) = tools.iter().find(|tool| tool["name"] == block["tool_name"]) else {
            return Err(format!("tool_reference {} is not found in the available tools", block["tool_name"]));
        };
        definitions.push(tool.clone());
    }
    Ok(Some(Value::Array(definitions).to_string()))
}

/// A content's text: it is one, or in parts.
fn parts(content: &Value) -> String {
    let mut all = text(Some(content));
    for part in content.as_array().into_iter().flatten() {
        push(&mut all, part["text"].as_str().unwrap_or_default());
    }
    all
}

fn push(all: &mut String, text: &str) {
    if !all.is_empty() && !text.is_empty() {
        all.push('\n');
    }
    all.push_str(text);
}
