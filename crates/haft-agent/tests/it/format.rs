//! A message format of lists, and a model that plays replies in it.
//!
//! An item is a list whose first element says what it is: `["user", TEXT…]`,
//! `["model", TEXT, [[ID, TOOL, INPUT]…]]` or `["results", [[ID, TEXT]…]]`.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haft::ToolCall;
use haft::future::BoxFuture;
use haft::registry::Snapshot;
use haft_agent::{
    CallAnswers, CallKind, ExcerptLine, FailureKind, MessageFormat, Model, ModelFailure, ModelReply,
    ModelRequest, ReplyDelta, ReplyStream, RequestedCall, StopReason, TokenUsage, ToolDeferral, ToolDefiner,
    ToolDefinitions, UnreadableMessage, UserPart,
};
use serde_json::{Value, json};

/// The format.
pub(crate) struct ListFormat;

impl ListFormat {
    pub(crate) fn shared() -> &'static dyn MessageFormat {
        &ListFormat
    }
}

impl MessageFormat for ListFormat {
    fn name(&self) -> &'static str {
        "lists"
    }

    fn push_user(&self, items: &mut Vec<Value>, parts: &[UserPart]) {
        let texts = parts.iter().filter_map(|part| match part {
            UserPart::Text(text) => Some(Value::from(text.as_str())),
            UserPart::Image(_) => None,
        });
        items.push(std::iter::once("user".into()).chain(texts).collect());
    }

    fn answer_calls(&self, answers: &CallAnswers<'_>) -> Vec<Value> {
        let mut results = answers.results.iter();
        let answer = |requested: &RequestedCall| {
            let text = match &requested.refusal {
                Some(refusal) => refusal.clone(),
                None => {
                    let result = results.next().unwrap();
                    (answers.replacement)(result).unwrap_or_else(|| result.text())
                }
            };
            json!([&*requested.call.id, text])
        };
        vec![json!(["results", answers.requested.iter().map(answer).collect::<Vec<_>>()])]
    }

    fn requested_calls(&self, items: &[Value]) -> Result<Vec<RequestedCall>, UnreadableMessage> {
        match items {
            [item] if item[0] == "model" => Ok(calls(item)),
            _ => Err(UnreadableMessage("no message of the model".to_owned())),
        }
    }

    fn clear_results(&self, items: &mut [Value], keep: usize, note: &dyn Fn(&str) -> String) -> usize {
        let results = items.iter_mut().filter(|item| item[0] == "results");
        let mut results: Vec<&mut Value> = results.flat_map(|item| item[1].as_array_mut().unwrap()).collect();
        let old = results.len().saturating_sub(keep);
        for result in &mut results[..old] {
            result[1] = note(result[0].as_str().unwrap()).into();
        }
        old
    }

    fn has_clearable_results(&self, items: &[Value], keep: usize, _: &dyn Fn(&str) -> String) -> bool {
        items.iter().filter(|item| item[0] == "results").count() > keep
    }

    fn estimate_tokens(&self, items: &[Value]) -> u64 {
        json!(items).to_string().len() as u64
    }

    fn loaded_tools(&self, _: &[Value]) -> HashSet<String> {
        HashSet::new()
    }

    fn awaits_reply(&self, items: &[Value]) -> bool {
        items.last().is_some_and(|last| last[0] != "model")
    }

    fn starts_with_user(&self, items: &[Value]) -> bool {
        items.first().is_none_or(|first| first[0] == "user")
    }

    fn excerpt(&self, _: &[Value], _: usize) -> Vec<ExcerptLine> {
        Vec::new()
    }

    fn is_deferral_rejection(&self, failure: &ModelFailure) -> bool {
        failure.message == "what is a deferred tool?"
    }

    fn tool_definer(&self) -> Box<dyn ToolDefiner> {
        Box::new(NameDefiner)
    }
}

fn calls(item: &Value) -> Vec<RequestedCall> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let call = |call: &Value| ToolCall::new(text(&call[0]), text(&call[1]), call[2].clone());
    item[2].as_array().unwrap().iter().map(|one| RequestedCall::new(call(one), CallKind::Function)).collect()
}

/// Defines tools by their names.
struct NameDefiner;

impl ToolDefiner for NameDefiner {
    fn define_tools(
        &self,
        snapshot: &Snapshot,
        deferral: ToolDeferral,
        _: &HashSet<String>,
    ) -> ToolDefinitions {
        let names: Vec<Arc<str>> = snapshot.offers().iter().map(|offer| offer.name().into()).collect();
        ToolDefinitions::new(json!(names).to_string(), names).with_deferral(deferral, HashSet::new())
    }
}

/// The items and tools of one request.
pub(crate) type SentRequest = (Vec<Value>, String);

/// A model that gives planned replies.
#[derive(Clone)]
pub(crate) struct PlannedModel {
    replies: Arc<Mutex<VecDeque<ModelReply>>>,
    pub(crate) requests: Arc<Mutex<Vec<SentRequest>>>,
    defers: Arc<AtomicBool>,
}

impl PlannedModel {
    pub(crate) fn new(replies: impl IntoIterator<Item = ModelReply>) -> PlannedModel {
        PlannedModel {
            replies: Arc::new(Mutex::new(replies.into_iter().collect())),
            requests: Arc::default(),
            defers: Arc::default(),
        }
    }

    pub(crate) fn deferring(self) -> PlannedModel {
        self.defers.store(true, Ordering::Relaxed);
        self
    }
}

/// A reply with these calls: id, tool and input of each.
pub(crate) fn reply(text: &str, called: Value) -> ModelReply {
    let stop = if called == json!([]) { StopReason::End } else { StopReason::Calls };
    let item = json!(["model", text, called]);
    let usage = TokenUsage { input_tokens: 10, output_tokens: 5, ..TokenUsage::default() };
    let reply = ModelReply::empty(ListFormat::shared(), stop).with_requested(calls(&item));
    reply.with_items(vec![item]).with_text(text.to_owned()).with_usage(usage)
}

pub(crate) fn failure(message: &str) -> ModelReply {
    let failure = ModelFailure::new(FailureKind::BadRequest, message);
    ModelReply::empty(ListFormat::shared(), StopReason::Failed(failure))
}

impl Model for PlannedModel {
    fn format(&self) -> &'static dyn MessageFormat {
        ListFormat::shared()
    }

    fn name(&self) -> &str {
        "planned"
    }

    fn ask(&self, request: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        let asked = (request.conversation.items().to_vec(), request.tools.json().to_owned());
        self.requests.lock().unwrap().push(asked);
        let reply = self.replies.lock().unwrap().pop_front().unwrap();
        Box::new(PlannedReply { reply, is_sent: false })
    }

    fn deferral(&self) -> ToolDeferral {
        if self.defers.load(Ordering::Relaxed) { ToolDeferral::Native } else { ToolDeferral::Fallback }
    }

    fn disable_deferral(&self) {
        self.defers.store(false, Ordering::Relaxed);
    }
}

struct PlannedReply {
    reply: ModelReply,
    is_sent: bool,
}

impl ReplyStream for PlannedReply {
    fn more<'a>(&'a mut self, out: &'a mut Vec<ReplyDelta>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if !std::mem::replace(&mut self.is_sent, true) {
                let calls = self.reply.calls().into_iter().enumerate();
                out.extend(calls.map(|(call, ready)| ReplyDelta::CallReady { call, ready }));
            }
            false
        })
    }

    fn finish(self: Box<Self>) -> ModelReply {
        self.reply
    }
}
