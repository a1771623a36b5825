//! The body of a request, from what is the same for the whole session and what changes each turn.
//!
//! Order is what prompt caches live by: tools, system, conversation, each byte for byte as before, so a body is written
//! piece by piece and tools go in as the text that they are. Where the API has cache markers, there are four: after the
//! tools, after the system prompt, at the end of the conversation, and where the end was a turn ago, since a provider
//! looks only a few blocks back for what it has.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::Wire;
use crate::deferral::history::sent;
use crate::limits::ANTHROPIC_MAX_TOKENS;
use haft_agent::ModelRequest;

/// What a request says beside the conversation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// The model's name.
    pub model: String,
    /// How many tokens an answer may have. Anthropic wants a number and gets 32,000 where none is given.
    pub max_tokens: Option<u64>,
    /// How much the model thinks.
    pub thinking: Option<Thinking>,
    /// The temperature, where a model takes one.
    pub temperature: Option<f64>,
    /// Whether to set cache markers, where the API has them.
    pub cache: bool,
    /// What sorts requests of one session together for the prompt cache, where the API has it.
    pub cache_key: Option<String>,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the provider searches the web by itself when the model wants it, where the API has that
    /// ([`Wire::searches`]). What is searched for never comes by here: rules and hooks don't see it.
    pub web_search: bool,
    /// Fields of the body that are not known here. They win over those that are.
    pub extra: Map<String, Value>,
}

/// How much a model thinks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Thinking {
    /// As much as the provider's word says: `low`, `medium`, `high` …
    Effort(String),
    /// At most so many tokens. OpenAI has no such number and is not told.
    Tokens(u64),
}

impl RequestOptions {
    /// Streamed, cached requests to this model, everything else as the provider has it.
    pub fn new(model: impl Into<String>) -> RequestOptions {
        RequestOptions {
            model: model.into(),
            max_tokens: None,
            thinking: None,
            temperature: None,
            cache: true,
            cache_key: None,
            stream: true,
            web_search: false,
            extra: Map::new(),
        }
    }

    /// How many tokens an answer may have.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> RequestOptions {
        self.max_tokens = Some(tokens);
        self
    }

    /// How much the model thinks.
    #[must_use]
    pub fn thinking(mut self, thinking: Thinking) -> RequestOptions {
        self.thinking = Some(thinking);
        self
    }

    /// What sorts requests of one session together for the prompt cache.
    #[must_use]
    pub fn cache_key(mut self, key: impl Into<String>) -> RequestOptions {
        self.cache_key = Some(key.into());
        self
    }

    /// Whether the answer is streamed.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> RequestOptions {
        self.stream = stream;
        self
    }

    /// Whether the provider searches the web by itself. Only where the model has tools of ours too.
    #[must_use]
    pub fn web_search(mut self, searches: bool) -> RequestOptions {
        self.web_search = searches;
        self
    }

    /// A field of the body that is not known here.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> RequestOptions {
        self.extra.insert(key.into(), value.into());
        self
    }

    /// Writes the body of a request, as JSON. The conversation has to be of this wire.
    pub fn body(&self, wire: Wire, prompt: &ModelRequest<'_>) -> String {
        let mut body = Body { json: String::from("{"), extra: &self.extra };
        match wire {
            Wire::Anthropic => self.anthropic(prompt, &mut body),
            Wire::OpenAi => self.openai(prompt, &mut body),
            Wire::OpenAiChat => self.openai_chat(prompt, &mut body),
            Wire::Gemini => self.gemini(prompt, &mut body),
        }
        body.finish()
    }

    fn anthropic(&self, prompt: &ModelRequest<'_>, body: &mut Body<'_>) {
        body.put("model", &json!(self.model));
        let max_tokens = self.max_tokens.unwrap_or(ANTHROPIC_MAX_TOKENS);
        body.put("max_tokens", &json!(max_tokens));
        if let Some(tools) = tools(prompt) {
            body.raw("tools", |json| match prompt.tools.cacheable().filter(|_| self.cache) {
                Some(end) => {
                    let (before, after) = tools.split_at(end);
                    json.push_str(before);
                    json.push_str(",\"cache_control\":{\"type\":\"ephemeral\"}");
                    self.push_tools(json, after, Wire::Anthropic);
                }
                None => self.push_tools(json, tools, Wire::Anthropic),
            });
        }
        let mut system: Vec<Value> =
            texts(prompt).map(|text| json!({"type": "text", "text": text})).collect();
        if let Some(last) = system.last_mut() {
            if self.cache {
                last["cache_control"] = marker();
            }
            body.put("system", &Value::Array(system));
        }
        match &self.thinking {
            // The budget is part of what the answer may have.
            Some(Thinking::Tokens(tokens)) => {
                let budget = (*tokens).clamp(1_024, max_tokens.saturating_sub(1).max(1_024));
                body.put("thinking", &json!({"type": "enabled", "budget_tokens": budget}));
            }
            Some(Thinking::Effort(effort)) => {
                body.put("thinking", &json!({"type": "adaptive"}));
                body.put("output_config", &json!({"effort": effort}));
            }
            None => {}
        }
        self.temperature(body);
        if self.stream {
            body.put("stream", &json!(true));
        }
        let items = prompt.conversation.items();
        let marked = if self.cache { ends(items) } else { Vec::new() };
        body.list("messages", items.iter().enumerate(), |(at, item), json| {
            let item = sent(Wire::Anthropic, item, prompt.tools);
            match marked.contains(&at).then(|| with_marker(&item)).flatten() {
                Some(item) => write(json, &item),
                None => write(json, &item),
            }
        });
    }

    fn openai(&self, prompt: &ModelRequest<'_>, body: &mut Body<'_>) {
        body.put("model", &json!(self.model));
        if let Some(tools) = tools(prompt) {
            body.raw("tools", |json| self.push_tools(json, tools, Wire::OpenAi));
        }
        if let Some(system) = joined(prompt) {
            body.put("instructions", &json!(system));
        }
        if let Some(tokens) = self.max_tokens {
            body.put("max_output_tokens", &json!(tokens));
        }
        // Nothing is kept there, so what the model thought has to come along, encrypted.
        body.put("store", &json!(false));
        if self.reasons() {
            body.put("include", &json!(["reasoning.encrypted_content"]));
        }
        if let Some(Thinking::Effort(effort)) = &self.thinking {
            body.put("reasoning", &json!({"effort": effort, "summary": "auto"}));
        }
        if let Some(key) = self.cache_key.as_ref().filter(|_| self.cache) {
            body.put("prompt_cache_key", &json!(key));
        }
        self.temperature(body);
        if self.stream {
            body.put("stream", &json!(true));
        }
        let stored = self.extra.get("store") == Some(&Value::Bool(true));
        let is_sent =
            |item: &&Value| stored || item["type"] != "reasoning" || item["encrypted_content"].is_string();
        body.list("input", prompt.conversation.items().iter().filter(is_sent), |item, json| {
            write(json, &sent(Wire::OpenAi, item, prompt.tools));
        });
    }

    /// Whether the model thinks before it answers. Models of old refuse to be asked for what they thought.
    fn reasons(&self) -> bool {
        let old = ["gpt-3", "gpt-4", "chatgpt"];
        self.thinking.is_some() || !old.iter().any(|name| self.model.starts_with(name))
    }

    fn openai_chat(&self, prompt: &ModelRequest<'_>, body: &mut Body<'_>) {
        body.put("model", &json!(self.model));
        if let Some(tools) = tools(prompt) {
            body.raw("tools", |json| json.push_str(tools));
        }
        if let Some(tokens) = self.max_tokens {
            body.put("max_tokens", &json!(tokens));
        }
        if let Some(Thinking::Effort(effort)) = &self.thinking {
            body.put("reasoning_effort", &json!(effort));
        }
        self.temperature(body);
        if self.stream {
            body.put("stream", &json!(true));
            body.put("stream_options", &json!({"include_usage": true}));
        }
        let system = joined(prompt).map(|text| json!({"role": "system", "content": text}));
        body.list("messages", system.iter().chain(prompt.conversation.items()), |item, json| {
            write(json, item)
        });
    }

    fn gemini(&self, prompt: &ModelRequest<'_>, body: &mut Body<'_>) {
        if let Some(tools) = tools(prompt) {
            body.raw("tools", |json| self.push_tools(json, tools, Wire::Gemini));
        }
        let system: Vec<Value> = texts(prompt).map(|text| json!({"text": text})).collect();
        if !system.is_empty() {
            body.put("systemInstruction", &json!({"parts": system}));
        }
        let mut config = Map::new();
        if let Some(tokens) = self.max_tokens {
            config.insert("maxOutputTokens".to_owned(), tokens.into());
        }
        if let Some(temperature) = self.temperature {
            config.insert("temperature".to_owned(), temperature.into());
        }
        let thinking = match &self.thinking {
            Some(Thinking::Effort(effort)) => Some(json!({"includeThoughts": true, "thinkingLevel": effort})),
            Some(Thinking::Tokens(tokens)) => {
                Some(json!({"includeThoughts": true, "thinkingBudget": tokens}))
            }
            None => None,
        };
        config.extend(thinking.map(|thinking| ("thinkingConfig".to_owned(), thinking)));
        if !config.is_empty() {
            body.put("generationConfig", &Value::Object(config));
        }
        body.list("contents", prompt.conversation.items().iter(), |item, json| write(json, item));
    }

    /// The end of the array of tools, with the provider's own search as its last.
    fn push_tools(&self, json: &mut String, tools: &str, wire: Wire) {
        let search = wire.search_tool().filter(|_| self.web_search);
        match (search, tools.strip_suffix(']')) {
            (Some(search), Some(open)) => {
                json.push_str(open);
                json.push(',');
                json.push_str(search);
                json.push(']');
            }
            _ => json.push_str(tools),
        }
    }

    fn temperature(&self, body: &mut Body<'_>) {
        if let Some(temperature) = self.temperature {
            body.put("temperature", &json!(temperature));
        }
    }
}

/// A body that is being written. Keys that the host gave are left to the end, where its values go in.
struct Body<'a> {
    json: String,
    extra: &'a Map<String, Value>,
}

impl Body<'_> {
    fn put(&mut self, key: &str, value: &Value) {
        self.raw(key, |json| write(json, value));
    }

    fn raw(&mut self, key: &str, value: impl FnOnce(&mut String)) {
        if self.extra.contains_key(key) {
            return;
        }
        self.key(key);
        value(&mut self.json);
    }

    fn list<T>(&mut self, key: &str, items: impl Iterator<Item = T>, mut each: impl FnMut(T, &mut String)) {
        self.raw(key, |json| {
            json.push('[');
            for (at, item) in items.enumerate() {
                if at > 0 {
                    json.push(',');
                }
                each(item, json);
            }
            json.push(']');
        });
    }

    fn key(&mut self, key: &str) {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        write(&mut self.json, &json!(key));
        self.json.push(':');
    }

    fn finish(mut self) -> String {
        for (key, value) in self.extra.iter().filter(|(_, value)| !value.is_null()) {
            self.key(key);
            write(&mut self.json, value);
        }
        self.json.push('}');
        self.json
    }
}

/// Writes a value where it belongs, without a text of its own: an answer of the model may have many megabytes.
fn write(json: &mut String, value: &Value) {
    fmt::write(json, format_args!("{value}")).expect("a text takes everything");
}

/// The tools, if there are any: an empty list is refused.
fn tools<'p>(prompt: &'p ModelRequest<'_>) -> Option<&'p str> {
    Some(prompt.tools.json()).filter(|tools| *tools != "[]")
}

/// The parts of the system prompt that say something.
fn texts<'p>(prompt: &'p ModelRequest<'_>) -> impl Iterator<Item = &'p str> {
    prompt.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty())
}

fn joined(prompt: &ModelRequest<'_>) -> Option<String> {
    let all: Vec<&str> = texts(prompt).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

fn marker() -> Value {
    json!({"type": "ephemeral"})
}

/// Where the conversation ends now and where it ended a turn ago: its last two messages of the user.
fn ends(items: &[Value]) -> Vec<usize> {
    let users = items.iter().enumerate().rev().filter(|(_, item)| item["role"] == "user");
    users.map(|(at, _)| at).take(2).collect()
}

/// A message with a marker on its last block.
fn with_marker(item: &Value) -> Option<Value> {
    let mut item = item.clone();
    match &mut item["content"] {
        Value::Array(blocks) => {
            blocks.last_mut()?.as_object_mut()?.insert("cache_control".to_owned(), marker())
        }
        Value::String(text) => {
            let block = json!([{"type": "text", "text": text, "cache_control": marker()}]);
            item["content"] = block;
            None
        }
        _ => return None,
    };
    Some(item)
}
