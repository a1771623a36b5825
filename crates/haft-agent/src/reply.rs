//! The reply to one request: its message, why it ended, what it cost; or why there is none.

use std::fmt;
use std::time::Duration;

use haft::text::truncate_with_ellipsis;
use haft::{ErrorKind, ToolCall, ToolError, ToolResult};
use serde::Serialize;
use serde_json::Value;

use crate::limits::FAILURE_CHARS_MAX;
use crate::message_format::{CallAnswers, MessageFormat, RequestedCall};

/// A model's reply: what to send back in the next request, and the calls to answer there.
///
/// It is the same for a message that was streamed, one that came whole, and one that was cut off:
/// [`items`](ModelReply::items) is always something that the provider takes again, with
/// [`answer`](ModelReply::answer) right after it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelReply {
    pub(crate) format: &'static dyn MessageFormat,
    pub(crate) items: Vec<Value>,
    pub(crate) requested: Vec<RequestedCall>,
    pub(crate) stop: StopReason,
    pub(crate) usage: TokenUsage,
    pub(crate) text: String,
    pub(crate) model: Option<String>,
}

impl ModelReply {
    /// Creates a reply without content.
    pub fn empty(format: impl Into<&'static dyn MessageFormat>, stop: StopReason) -> ModelReply {
        ModelReply {
            format: format.into(),
            items: Vec::new(),
            requested: Vec::new(),
            stop,
            usage: TokenUsage::default(),
            text: String::new(),
            model: None,
        }
    }

    /// Sets the message as the conversation stores it. It must be something that the provider takes again.
    #[must_use]
    pub fn with_items(mut self, items: Vec<Value>) -> ModelReply {
        self.items = items;
        self
    }

    /// Sets the calls that wait for an answer, in order, also those that can't be run.
    #[must_use]
    pub fn with_requested(mut self, requested: Vec<RequestedCall>) -> ModelReply {
        self.requested = requested;
        self
    }

    /// Sets the text of the answer, without thinking.
    #[must_use]
    pub fn with_text(mut self, text: String) -> ModelReply {
        self.text = text;
        self
    }

    /// Sets what the message cost.
    #[must_use]
    pub fn with_usage(mut self, usage: TokenUsage) -> ModelReply {
        self.usage = usage;
        self
    }

    /// Sets the model that wrote the message.
    #[must_use]
    pub fn with_model(mut self, model: Option<String>) -> ModelReply {
        self.model = model;
        self
    }

    /// Replaces the reason why the message ended.
    #[must_use]
    pub fn with_stop(mut self, stop: StopReason) -> ModelReply {
        self.stop = stop;
        self
    }

    /// Returns the format of the items.
    pub fn format(&self) -> &'static dyn MessageFormat {
        self.format
    }

    /// Returns the message as the conversation stores it. Empty where nothing came that could be sent back.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Returns the calls to run, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        let runnable = self.requested.iter().filter(|requested| requested.refusal.is_none());
        runnable.map(|requested| requested.call.clone()).collect()
    }

    /// Returns whether anything waits for an answer, also where it can't be run.
    pub fn requests_calls(&self) -> bool {
        !self.requested.is_empty()
    }

    /// Returns the items that answer the calls: one result for each, in order. `results` are those of
    /// [`calls`](ModelReply::calls), in the same order.
    pub fn answer(&self, results: &[ToolResult]) -> Vec<Value> {
        let replacement = |_: &ToolResult| None;
        self.format.answer_calls(&CallAnswers {
            requested: &self.requested,
            results,
            tools: None,
            replacement: &replacement,
        })
    }

    /// Returns why the message ended.
    pub fn stop(&self) -> &StopReason {
        &self.stop
    }

    /// Returns what the message cost.
    pub fn usage(&self) -> &TokenUsage {
        &self.usage
    }

    /// Returns the text of the answer, without thinking.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the model that wrote the message, where the provider reports it.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Returns all calls with their results, in order: those that ran as they are given, the others with
    /// their refusal.
    pub(crate) fn with_refused(
        &self,
        ran: impl IntoIterator<Item = (ToolCall, ToolResult)>,
    ) -> Vec<(ToolCall, ToolResult)> {
        let mut ran = ran.into_iter();
        let mut all = Vec::with_capacity(self.requested.len());
        for requested in &self.requested {
            match &requested.refusal {
                None => all.extend(ran.next()),
                Some(refusal) => {
                    let error = ToolError::with_kind(ErrorKind::InvalidInput, refusal.as_str());
                    let result = ToolResult::not_taken(&requested.call, error);
                    all.push((requested.call.clone(), result));
                }
            }
        }
        all.extend(ran);
        all
    }
}

/// Why a message ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model has said what it had to say.
    End,
    /// The model waits for the results of its calls.
    Calls,
    /// A stop sequence was reached.
    Sequence,
    /// The provider paused a long turn; asked again with the same history, it goes on.
    Paused,
    /// The most tokens that the message may have were reached.
    MaxTokens {
        /// In the middle of a call, which is not run.
        in_call: bool,
    },
    /// The conversation doesn't fit into the model's window.
    ContextFull,
    /// The model, or a filter, refused.
    Refused {
        /// Why, where the provider reports it.
        why: Option<String>,
    },
    /// A reason that is not known here, by the provider's word.
    Other(String),
    /// The stream ended before the message did.
    Cut,
    /// The user, or whoever runs the loop, ended it.
    Interrupted,
    /// There is no message, or it broke off, for this reason.
    Failed(ModelFailure),
}

impl StopReason {
    /// Whether the message may have ended in the middle of something.
    pub fn cuts(&self) -> bool {
        matches!(
            self,
            StopReason::MaxTokens { .. }
                | StopReason::ContextFull
                | StopReason::Cut
                | StopReason::Interrupted
                | StopReason::Failed(_)
        )
    }

    /// One word for it: `end`, `calls`, `max_tokens` …
    pub fn word(&self) -> &str {
        match self {
            StopReason::End => "end",
            StopReason::Calls => "calls",
            StopReason::Sequence => "stop_sequence",
            StopReason::Paused => "paused",
            StopReason::MaxTokens { .. } => "max_tokens",
            StopReason::ContextFull => "context_full",
            StopReason::Refused { .. } => "refused",
            StopReason::Other(_) => "other",
            StopReason::Cut => "cut",
            StopReason::Interrupted => "interrupted",
            StopReason::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StopReason::End => f.write_str("the model has finished"),
            StopReason::Calls => f.write_str("the model waits for results"),
            StopReason::Sequence => f.write_str("a stop sequence was reached"),
            StopReason::Paused => f.write_str("the provider paused the turn"),
            StopReason::MaxTokens { in_call: true } => {
                f.write_str("the most tokens of one message were reached in the middle of a call")
            }
            StopReason::MaxTokens { in_call: false } => {
                f.write_str("the most tokens of one message were reached")
            }
            StopReason::ContextFull => f.write_str("the conversation doesn't fit into the model's window"),
            StopReason::Refused { why: Some(why) } => write!(f, "the model refused: {why}"),
            StopReason::Refused { why: None } => f.write_str("the model refused"),
            StopReason::Other(word) => write!(f, "the provider stopped with `{word}`"),
            StopReason::Cut => f.write_str("the connection was lost before the message was complete"),
            StopReason::Interrupted => f.write_str("interrupted"),
            StopReason::Failed(failure) => failure.fmt(f),
        }
    }
}

/// What a message cost, in tokens. Counts mean the same for every provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TokenUsage {
    /// Everything that was sent, whether or not it was in the prompt cache.
    pub input_tokens: u64,
    /// Everything that the model wrote, thinking among it.
    pub output_tokens: u64,
    /// How much of the input was read from the prompt cache.
    pub cache_read_tokens: u64,
    /// How much of the input was written into the prompt cache.
    pub cache_write_tokens: u64,
    /// How much of the output was thinking, where the provider reports it.
    pub thinking_tokens: u64,
}

impl TokenUsage {
    /// Adds another message's.
    pub fn add(&mut self, other: &TokenUsage) {
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut self.input_tokens, other.input_tokens);
        sum(&mut self.output_tokens, other.output_tokens);
        sum(&mut self.cache_read_tokens, other.cache_read_tokens);
        sum(&mut self.cache_write_tokens, other.cache_write_tokens);
        sum(&mut self.thinking_tokens, other.thinking_tokens);
    }

    /// Input and output together.
    pub fn total_tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// Why a request got no message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ModelFailure {
    /// For code.
    pub kind: FailureKind,
    /// The HTTP status, where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The words, bounded.
    pub message: String,
    /// How long the provider wants to be left alone.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

/// The kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FailureKind {
    /// Too many requests or tokens a minute.
    RateLimited,
    /// The provider has more to do than it can.
    Overloaded,
    /// Something broke on the other side.
    Server,
    /// No connection, or it was lost.
    Disconnected,
    /// Nothing came for too long.
    TimedOut,
    /// The key is missing or not accepted.
    Unauthorized,
    /// There is no money or quota left.
    Quota,
    /// The request is not accepted as it is.
    BadRequest,
    /// The conversation doesn't fit into the model's window.
    ContextFull,
    /// There is no such model or address.
    NotFound,
    /// What came can't be read.
    Malformed,
    /// What came is longer than is taken.
    TooLarge,
    /// The endpoint failed so often that it is left alone for a while.
    Resting,
}

impl ModelFailure {
    /// Creates a failure; a long message is truncated.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> ModelFailure {
        let message = truncate_with_ellipsis(&message.into(), FAILURE_CHARS_MAX);
        ModelFailure { kind, status: None, message, retry_after: None }
    }

    /// Adds the HTTP status.
    #[must_use]
    pub fn with_status(mut self, status: Option<u16>) -> ModelFailure {
        self.status = status;
        self
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self.kind,
            FailureKind::RateLimited
                | FailureKind::Overloaded
                | FailureKind::Server
                | FailureKind::Disconnected
                | FailureKind::TimedOut
        )
    }
}

impl fmt::Display for ModelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            FailureKind::RateLimited => "the provider's rate limit was reached",
            FailureKind::Overloaded => "the provider is overloaded",
            FailureKind::Server => "the provider failed",
            FailureKind::Disconnected => "the connection failed",
            FailureKind::TimedOut => "the provider took too long",
            FailureKind::Unauthorized => "the provider doesn't accept the key",
            FailureKind::Quota => "the account has no quota left",
            FailureKind::BadRequest => "the provider refused the request",
            FailureKind::ContextFull => "the conversation doesn't fit into the model's window",
            FailureKind::NotFound => "the provider doesn't know the model or the address",
            FailureKind::Malformed => "the answer can't be read",
            FailureKind::TooLarge => "the answer is too long",
            FailureKind::Resting => "the endpoint is left alone for a while",
        };
        match self.status {
            Some(status) => write!(f, "{what} ({status}): {}", self.message),
            None => write!(f, "{what}: {}", self.message),
        }
    }
}

impl std::error::Error for ModelFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_failures_are_truncated() {
        let long = "x".repeat(FAILURE_CHARS_MAX + 10);
        assert_eq!(
            ModelFailure::new(FailureKind::Server, long).message.chars().count(),
            FAILURE_CHARS_MAX + 1
        );
    }
}
