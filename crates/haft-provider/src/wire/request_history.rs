//! What a request to the scripted model says about its conversation: how often the model has spoken, which
//! results came since, what the user said last.
//!
//! A request with a history that the real provider would reject is rejected here too: calls without a result,
//! results without a call. A test of an agent has to notice.

use serde_json::{Map, Value};

use crate::Wire;

/// The state of the conversation in a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RequestHistory {
    /// How often the model has spoken.
    pub(crate) turn: usize,
    /// The results since it spoke last.
    pub(crate) results: Vec<SentResult>,
    /// The user's first text.
    pub(crate) first_prompt: String,
    /// The user's last text.
    pub(crate) prompt: String,
    pub(crate) has_tools: bool,
    /// Whether searches for tools have a form of their own.
    pub(crate) has_native_search: bool,
    /// The first thing that a provider without deferred tools would reject.
    pub(crate) deferral_feature: Option<&'static str>,
    pub(crate) stream: bool,
    pub(crate) model: String,
    /// The calls that have no result yet: id and tool.
    open_calls: Vec<(String, String)>,
    model_spoke_last: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SentResult {
    /// The tool, where the call is in the history.
    pub(crate) tool: String,
    pub(crate) text: String,
    /// The result as a value, where it came as one.
    pub(crate) value: Option<Value>,
    pub(crate) is_error: bool,
}

impl RequestHistory {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// As a message: what the provider would reject.
    pub(crate) fn read(wire: Wire, body: &Value) -> Result<RequestHistory, String> {
        let Some(fields) = body.as_object() else { return Err("the request's body is no object".to_owned()) };
        let tools = sent_tools(fields);
        let has_native_search = tools.iter().any(|tool| tool["type"] == "tool_search");
        let has_deferred = tools.iter().any(|tool| tool["defer_loading"] == true);
        let mut history = RequestHistory {
            model: value_text(fields.get("model")),
            stream: fields.get("stream") == Some(&Value::Bool(true)),
            has_tools: !tools.is_empty(),
            has_native_search,
            deferral_feature: if has_native_search {
                Some("tool_search")
            } else {
                has_deferred.then_some("defer_loading")
            },
            ..RequestHistory::default()
        };
        (wire.format().script.read_history)(fields, &mut history)?;
        history.check_answered(|id, tool| {
            format!("the call `{id}` of `{tool}` has no result; every call needs one")
        })?;
        Ok(history)
    }

    /// Rejects a call that has no result.
    pub(crate) fn check_answered(&self, message: impl Fn(&str, &str) -> String) -> Result<(), String> {
        self.open_calls.first().map_or(Ok(()), |(id, tool)| Err(message(id, tool)))
    }

    /// The model speaks, in a message of its own: one that was paused is followed by another.
    pub(crate) fn begin_message(&mut self) {
        self.model_spoke_last = false;
        self.continue_message();
    }

    /// The model speaks, perhaps in several items.
    pub(crate) fn continue_message(&mut self) {
        if !std::mem::replace(&mut self.model_spoke_last, true) {
            self.turn += 1;
            self.results.clear();
        }
    }

    /// The model's message is over.
    pub(crate) fn end_message(&mut self) {
        self.model_spoke_last = false;
    }

    pub(crate) fn push_call(&mut self, id: String, tool: String) {
        self.open_calls.push((id, tool));
    }

    pub(crate) fn push_result(
        &mut self,
        id: &str,
        text: String,
        value: Option<Value>,
        is_error: bool,
    ) -> Result<(), String> {
        self.model_spoke_last = false;
        let Some(at) = self.open_calls.iter().position(|(open, _)| open == id) else {
            return Err(format!("the result for `{id}` answers no call, or one that is answered already"));
        };
        let (_, tool) = self.open_calls.remove(at);
        self.results.push(SentResult { tool, text, value, is_error });
        Ok(())
    }

    pub(crate) fn push_user(&mut self, text: String) {
        self.model_spoke_last = false;
        if !text.is_empty() {
            if self.first_prompt.is_empty() {
                self.first_prompt.clone_from(&text);
            }
            self.prompt = text;
        }
    }
}

/// Returns the tools of a request.
pub(crate) fn sent_tools(body: &Map<String, Value>) -> &[Value] {
    body.get("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns a list that a request must have.
pub(crate) fn required_list<'v>(body: &'v Map<String, Value>, key: &str) -> Result<&'v Vec<Value>, String> {
    let list = body.get(key).and_then(Value::as_array);
    list.ok_or_else(|| format!("the request has no `{key}`; an array is required"))
}

pub(crate) fn value_text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Joins the text of a content, which is one or is in parts.
pub(crate) fn joined_text(content: &Value) -> String {
    let mut joined = value_text(Some(content));
    for part in content.as_array().into_iter().flatten() {
        push_line(&mut joined, part["text"].as_str().unwrap_or_default());
    }
    joined
}

pub(crate) fn push_line(joined: &mut String, text: &str) {
    if !joined.is_empty() && !text.is_empty() {
        joined.push('\n');
    }
    joined.push_str(text);
}
