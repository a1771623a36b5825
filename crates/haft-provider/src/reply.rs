//! What came of asking a model once: its message, why it ended, what it cost; or why there is none.

use std::fmt;
use std::time::Duration;

use haft::text::truncate_with_ellipsis;
use haft::{ToolCall, ToolResult};
use serde::Serialize;
use serde_json::Value;

use crate::Wire;
use crate::decode::Message;
use crate::limits::FAILURE_CHARS_MAX;

/// A model's reply: what to send back in the next request, and the calls to answer there.
///
/// It is the same for a message that was streamed, one that came whole, and one that was cut off: [`items`](Reply::items)
/// is always something that the provider takes again, with [`answer`](Reply::answer) right after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    pub(crate) message: Message,
    pub(crate) items: Vec<Value>,
    pub(crate) stop: Stop,
    pub(crate) usage: Usage,
    pub(crate) text: String,
    pub(crate) model: Option<String>,
}

impl Reply {
    /// A reply without anything in it.
    pub(crate) fn nothing(wire: Wire, stop: Stop) -> Reply {
        let (message, usage) = (Message::new(wire), Usage::default());
        Reply { message, items: Vec::new(), stop, usage, text: String::new(), model: None }
    }

    pub(crate) fn with_message(mut self, message: Message) -> Reply {
        self.message = message;
        self
    }

    pub(crate) fn with_stop(mut self, stop: Stop) -> Reply {
        self.stop = stop;
        self
    }

    /// The wire that it came by.
    pub fn wire(&self) -> Wire {
        self.message.wire()
    }

    /// The message as the history has it: one message or content, for OpenAI Responses a list of items. Empty where
    /// nothing came that could be sent back.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// The calls to run, in order.
    pub fn calls(&self) -> Vec<ToolCall> {
        self.message.calls()
    }

    /// Whether anything waits for an answer, also where it can't be run.
    pub fn asks(&self) -> bool {
        self.message.asks()
    }

    /// Kinds of parts that wait for an answer that is not a tool's.
    pub fn passed_over(&self) -> &[String] {
        self.message.passed_over()
    }

    /// The message that answers the calls: see [`Message::answer`].
    pub fn answer(&self, results: &[ToolResult]) -> Value {
        self.message.answer(results)
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    /// Why it ended.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// What it cost.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The text of the answer, without thinking.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The model that wrote it, where it was said.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }
}

/// Why a message ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
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
        /// Why, where it is said.
        why: Option<String>,
    },
    /// A reason that is not known here, by the provider's word.
    Other(String),
    /// The stream ended before the message did.
    Cut,
    /// The user, or whoever runs the loop, ended it.
    Interrupted,
    /// There is no message, or it broke off, for this reason.
    Failed(Failure),
}

impl Stop {
    /// Whether the message may have ended in the middle of something.
    pub(crate) fn cuts(&self) -> bool {
        matches!(
            self,
            Stop::MaxTokens { .. } | Stop::ContextFull | Stop::Cut | Stop::Interrupted | Stop::Failed(_)
        )
    }

    /// One word for it: `end`, `calls`, `max_tokens` …
    pub fn word(&self) -> &str {
        match self {
            Stop::End => "end",
            Stop::Calls => "calls",
            Stop::Sequence => "stop_sequence",
            Stop::Paused => "paused",
            Stop::MaxTokens { .. } => "max_tokens",
            Stop::ContextFull => "context_full",
            Stop::Refused { .. } => "refused",
            Stop::Other(_) => "other",
            Stop::Cut => "cut",
            Stop::Interrupted => "interrupted",
            Stop::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::End => f.write_str("the model has finished"),
            Stop::Calls => f.write_str("the model waits for results"),
            Stop::Sequence => f.write_str("a stop sequence was reached"),
            Stop::Paused => f.write_str("the provider paused the turn"),
            Stop::MaxTokens { in_call: true } => {
                f.write_str("the most tokens of one message were reached in the middle of a call")
            }
            Stop::MaxTokens { in_call: false } => f.write_str("the most tokens of one message were reached"),
            Stop::ContextFull => f.write_str("the conversation doesn't fit into the model's window"),
            Stop::Refused { why: Some(why) } => write!(f, "the model refused: {why}"),
            Stop::Refused { why: None } => f.write_str("the model refused"),
            Stop::Other(word) => write!(f, "the provider stopped with `{word}`"),
            Stop::Cut => f.write_str("the connection was lost before the message was complete"),
            Stop::Interrupted => f.write_str("interrupted"),
            Stop::Failed(failure) => failure.fmt(f),
        }
    }
}

/// What a message cost, in tokens. Counts mean the same for every provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Everything that was sent, whether or not it was in the prompt cache.
    pub input_tokens: u64,
    /// Everything that the model wrote, thinking among it.
    pub output_tokens: u64,
    /// How much of the input was read from the prompt cache.
    pub cache_read_tokens: u64,
    /// How much of the input was written into the prompt cache.
    pub cache_write_tokens: u64,
    /// How much of the output was thinking, where it is said.
    pub thinking_tokens: u64,
}

impl Usage {
    /// Adds another message's.
    pub fn add(&mut self, other: &Usage) {
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
pub struct Failure {
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

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        let message = truncate_with_ellipsis(&message.into(), FAILURE_CHARS_MAX);
        Failure { kind, status: None, message, retry_after: None }
    }

    /// A failure as the provider names it.
    pub(crate) fn said(status: Option<u16>, word: &str, message: &str) -> Failure {
        let kind = kind_of(status, word, message);
        let shown = match (message.trim(), word) {
            ("", "") => match status {
                Some(status) => format!("the provider answered {status} without a word"),
                None => "the provider reported an error without a word".to_owned(),
            },
            ("", word) => format!("the provider reported `{word}`"),
            (message, _) => message.to_owned(),
        };
        Failure { status, ..Failure::new(kind, shown) }
    }

    /// A failure from a provider's error, in whichever of their forms: the words are a `message` or all there is, the
    /// kind is a `code`, a `status` or a `type`, and a `code` that is a number is the HTTP status.
    pub(crate) fn of(status: Option<u16>, error: &Value) -> Failure {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let kind = ["code", "status", "type"].into_iter().map(text).find(|word| !word.is_empty());
        let words = match (text("message"), error.as_str()) {
            ("", Some(words)) => words,
            (words, _) => words,
        };
        Failure::said(status.or(code), kind.unwrap_or_default(), words)
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

fn kind_of(status: Option<u16>, word: &str, message: &str) -> FailureKind {
    let word = word.to_ascii_lowercase();
    let words = message.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    let says = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    // A request that is too large gets smaller in the same way.
    if has(&["context_length_exceeded", "context_window", "exceed_context", "request_too_large"])
        || says(&[
            "prompt is too long",
            "context window",
            "context length",
            "context limit",
            "context size",
            "input token count (",
            "input is too long",
            "reduce the length of the messages",
        ])
    {
        return FailureKind::ContextFull;
    }
    if has(&["insufficient_quota", "billing"]) || says(&["credit balance is too low"]) {
        return FailureKind::Quota;
    }
    if has(&["overloaded", "unavailable"]) {
        return FailureKind::Overloaded;
    }
    if has(&["rate_limit", "resource_exhausted"]) {
        return FailureKind::RateLimited;
    }
    match status {
        Some(400 | 405 | 409 | 413 | 415 | 422) => return FailureKind::BadRequest,
        Some(401 | 403) => return FailureKind::Unauthorized,
        Some(402) => return FailureKind::Quota,
        Some(404) => return FailureKind::NotFound,
        Some(408 | 504) => return FailureKind::TimedOut,
        Some(429) => return FailureKind::RateLimited,
        Some(503 | 529) => return FailureKind::Overloaded,
        Some(status) if status >= 500 => return FailureKind::Server,
        Some(_) => return FailureKind::BadRequest,
        None => {}
    }
    match () {
        () if has(&["authentication", "permission", "invalid_api_key", "unauthenticated"]) => {
            FailureKind::Unauthorized
        }
        () if has(&["not_found"]) => FailureKind::NotFound,
        () if has(&["timeout", "deadline"]) => FailureKind::TimedOut,
        () if has(&["invalid", "bad_request", "too_large"]) => FailureKind::BadRequest,
        () => FailureKind::Server,
    }
}

impl fmt::Display for Failure {
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

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: Option<u16>, word: &str, message: &str, expected: FailureKind) {
        assert_eq!(Failure::said(status, word, message).kind, expected, "{status:?} {word} {message}");
    }

    #[test]
    fn kinds_follow_words_before_numbers() {
        check(None, "overloaded_error", "Overloaded", FailureKind::Overloaded);
        check(Some(529), "", "", FailureKind::Overloaded);
        check(Some(429), "insufficient_quota", "You exceeded your current quota", FailureKind::Quota);
        check(Some(429), "RESOURCE_EXHAUSTED", "Quota exceeded for metric", FailureKind::RateLimited);
        check(
            Some(400),
            "invalid_request_error",
            "prompt is too long: 210000 tokens",
            FailureKind::ContextFull,
        );
        check(Some(400), "context_length_exceeded", "", FailureKind::ContextFull);
        check(Some(401), "authentication_error", "invalid x-api-key", FailureKind::Unauthorized);
        check(Some(502), "", "<html>", FailureKind::Server);
        check(None, "server_error", "", FailureKind::Server);
        check(None, "invalid_request_error", "bad", FailureKind::BadRequest);
    }

    #[test]
    fn a_full_window_in_each_providers_words() {
        for (status, word, message) in [
            // Anthropic
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            (
                400,
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            ),
            (413, "request_too_large", "Request exceeds the maximum size"),
            // OpenAI and Azure
            (400, "context_length_exceeded", "Your input exceeds the context window of this model."),
            (400, "", "This model's maximum context length is 128000 tokens."),
            // Gemini
            (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            // vLLM, llama.cpp, Groq, Bedrock
            (
                400,
                "BadRequestError",
                "This model's maximum context length is 8192 tokens. However, you requested 9000.",
            ),
            (
                400,
                "exceed_context_size_error",
                "the request exceeds the available context size, try increasing it",
            ),
            (400, "invalid_request_error", "Please reduce the length of the messages or completion."),
            (400, "ValidationException", "Input is too long for requested model."),
        ] {
            check(Some(status), word, message, FailureKind::ContextFull);
        }
        let metric = "Quota exceeded for metric: generate_content_free_tier_input_token_count, limit: 250000";
        check(Some(429), "RESOURCE_EXHAUSTED", metric, FailureKind::RateLimited);
        check(Some(400), "invalid_request_error", "max_tokens: 99 > 8192", FailureKind::BadRequest);
    }

    #[test]
    fn words_are_bounded() {
        let long = "x".repeat(FAILURE_CHARS_MAX + 10);
        assert_eq!(Failure::new(FailureKind::Server, long).message.chars().count(), FAILURE_CHARS_MAX + 1);
    }
}
