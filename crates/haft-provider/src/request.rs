//! The body of a request, from what is the same for the whole session and what changes each turn.
//!
//! Prompt caches depend on the order: tools, system, conversation, each byte for byte as before. So a body is
//! written piece by piece, and tools are written as the text that they are.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::Wire;
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
    pub thinking: Option<ThinkingMode>,
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
pub enum ThinkingMode {
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
    pub fn thinking(mut self, thinking: ThinkingMode) -> RequestOptions {
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
    pub fn body(&self, wire: Wire, request: &ModelRequest<'_>) -> String {
        let mut body = RequestBody { json: String::from("{"), extra: &self.extra };
        (wire.format().write_request)(self, request, &mut body);
        body.finish()
    }

    /// Writes the end of the array of tools, with the provider's own search as its last.
    pub(crate) fn push_tools(&self, json: &mut String, tools: &str, search_tool: Option<&str>) {
        match (search_tool.filter(|_| self.web_search), tools.strip_suffix(']')) {
            (Some(search), Some(open)) => {
                json.push_str(open);
                json.push(',');
                json.push_str(search);
                json.push(']');
            }
            _ => json.push_str(tools),
        }
    }
}

/// A body that is being written. Keys that the host gave are left to the end, where its values go in.
pub(crate) struct RequestBody<'a> {
    json: String,
    extra: &'a Map<String, Value>,
}

impl RequestBody<'_> {
    pub(crate) fn put(&mut self, key: &str, value: &Value) {
        self.raw(key, |json| write_json(json, value));
    }

    pub(crate) fn raw(&mut self, key: &str, value: impl FnOnce(&mut String)) {
        if self.extra.contains_key(key) {
            return;
        }
        self.key(key);
        value(&mut self.json);
    }

    pub(crate) fn list<T>(
        &mut self,
        key: &str,
        items: impl Iterator<Item = T>,
        mut each: impl FnMut(T, &mut String),
    ) {
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

    /// Writes the temperature, where one is given.
    pub(crate) fn put_temperature(&mut self, options: &RequestOptions) {
        if let Some(temperature) = options.temperature {
            self.put("temperature", &json!(temperature));
        }
    }

    /// Asks for a stream, where one is wanted.
    pub(crate) fn put_stream(&mut self, options: &RequestOptions) {
        if options.stream {
            self.put("stream", &json!(true));
        }
    }

    fn key(&mut self, key: &str) {
        if self.json.len() > 1 {
            self.json.push(',');
        }
        write_json(&mut self.json, &json!(key));
        self.json.push(':');
    }

    fn finish(mut self) -> String {
        for (key, value) in self.extra.iter().filter(|(_, value)| !value.is_null()) {
            self.key(key);
            write_json(&mut self.json, value);
        }
        self.json.push('}');
        self.json
    }
}

/// Writes a value in place, without a text of its own: an answer of the model may have many megabytes.
pub(crate) fn write_json(json: &mut String, value: &Value) {
    fmt::write(json, format_args!("{value}")).expect("a text takes everything");
}

/// Returns the tools, if there are any: an empty list is rejected.
pub(crate) fn tools_json<'p>(request: &'p ModelRequest<'_>) -> Option<&'p str> {
    Some(request.tools.json()).filter(|tools| *tools != "[]")
}

/// Returns the parts of the system prompt that are not blank.
pub(crate) fn system_texts<'p>(request: &'p ModelRequest<'_>) -> impl Iterator<Item = &'p str> {
    request.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty())
}

pub(crate) fn joined_system(request: &ModelRequest<'_>) -> Option<String> {
    let all: Vec<&str> = system_texts(request).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}
