//! Why a call did not succeed: a kind for code, words for the model, a source for the log.
//!
//! Like `anyhow::Error`, [`ToolError`] does not implement [`std::error::Error`]: that is what lets `?` work
//! in a tool's body on any error.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use haft_scheduler::Cause;
use serde::Serialize;

use crate::decision::Decision;
use crate::limits;
use crate::text::truncate_in_place;

/// What went wrong, by the step of the pipeline that found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No tool has this name.
    UnknownTool,
    /// The tool needs a user and the session has none.
    NotInteractive,
    /// The input does not fit the schema, or fits and makes no sense.
    InvalidInput,
    /// A guard or a hook stopped the call.
    Blocked,
    /// A hook could not do its work, so the call was not made.
    HookFailed,
    /// A rule, a mode or the tool itself forbids the call.
    Denied,
    /// The user said no.
    Rejected,
    /// The recorder could not note the call, so it was not made.
    NotRecorded,
    /// The tool ran and failed.
    Failed,
    /// The tool ran longer than it may.
    TimedOut,
    /// The call was cancelled, before or while it ran.
    Cancelled,
    /// The tool panicked.
    Panicked,
}

impl ErrorKind {
    /// Whether the tool's own code had begun when this happened.
    pub fn began(self) -> bool {
        matches!(self, ErrorKind::Failed | ErrorKind::TimedOut | ErrorKind::Panicked)
    }
}

/// The error of one call.
#[derive(Clone)]
pub struct ToolError(Box<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    message: String,
    retryable: bool,
    semantic: bool,
    ends_turn: bool,
    cause: Option<Cause>,
    decision: Option<Arc<Decision>>,
    source: Option<ErrorSource>,
}

/// Somebody else's error, whose code may panic when it is dropped.
#[derive(Clone)]
struct ErrorSource(Option<Arc<dyn Error + Send + Sync>>);

impl Drop for ErrorSource {
    fn drop(&mut self) {
        let source = self.0.take();
        let _ = crate::future::catch_panic(|| drop(source));
    }
}

impl ToolError {
    /// A failure of the tool, in words for the model: what went wrong and what to do next.
    pub fn new(message: impl Into<String>) -> ToolError {
        ToolError::with_kind(ErrorKind::Failed, message)
    }

    /// Input of the right shape that makes no sense: what [`Tool::check`](crate::Tool::check) returns.
    pub fn invalid_input(message: impl Into<String>) -> ToolError {
        let mut error = ToolError::with_kind(ErrorKind::InvalidInput, message);
        error.0.semantic = true;
        error
    }

    /// An error of a given kind. Tools want [`ToolError::new`]; this is for ports and hosts.
    pub fn with_kind(kind: ErrorKind, message: impl Into<String>) -> ToolError {
        let mut message = message.into();
        truncate_in_place(&mut message, limits::ERROR_CHARS_MAX);
        let retryable = kind == ErrorKind::TimedOut;
        ToolError(Box::new(ErrorParts {
            kind,
            message,
            retryable,
            semantic: false,
            ends_turn: false,
            cause: None,
            decision: None,
            source: None,
        }))
    }

    /// The call was cancelled for this reason. For a tool that has something to say about it; the engine
    /// answers for the others.
    pub fn cancelled(cause: Cause, words: &str) -> ToolError {
        let mut error = ToolError::with_kind(ErrorKind::Cancelled, words);
        error.0.cause = Some(cause);
        error
    }

    /// Says that the same call may succeed when it is tried again unchanged.
    #[must_use]
    pub fn retryable(mut self) -> ToolError {
        self.0.retryable = true;
        self
    }

    /// Attaches what the log should know and the model should not.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> ToolError {
        self.0.source = Some(ErrorSource(Some(Arc::from(source.into()))));
        self
    }

    /// The same error in other words.
    #[must_use]
    pub(crate) fn saying(mut self, message: String) -> ToolError {
        self.0.message = message;
        self
    }

    /// Ends the turn by the word of a hook.
    #[must_use]
    pub(crate) fn ending_turn_by_hook(self) -> ToolError {
        let mut error = self.ending_turn();
        error.0.cause = Some(Cause::Hook);
        error
    }

    /// Adds the decision that this error tells of.
    #[must_use]
    pub(crate) fn with_decision(mut self, decision: Decision) -> ToolError {
        self.0.decision = Some(Arc::new(decision));
        self
    }

    #[must_use]
    pub(crate) fn ending_turn(mut self) -> ToolError {
        self.0.ends_turn = true;
        self
    }

    /// The kind, for code that branches.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The words for the model.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Whether trying the same call again can help.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// For [`ErrorKind::InvalidInput`]: the shape was right and the sense was not.
    pub fn is_semantic(&self) -> bool {
        self.0.semantic
    }

    /// Whether the user's answer, or a hook, ended the whole turn.
    pub fn ends_turn(&self) -> bool {
        self.0.ends_turn
    }

    /// For [`ErrorKind::Cancelled`]: who or what cancelled; [`Cause::Hook`] where a hook ended the turn.
    pub fn cause(&self) -> Option<Cause> {
        self.0.cause
    }

    /// The decision that refused the call, where there was one: rules, the tool, a hook or the user said no.
    pub fn decision(&self) -> Option<&Decision> {
        self.0.decision.as_deref()
    }

    /// The error underneath, for the log.
    pub fn source(&self) -> Option<&(dyn Error + Send + Sync + 'static)> {
        self.0.source.as_ref()?.0.as_deref()
    }
}

/// Any error, with its own words as the words for the model.
impl<E: Error + Send + Sync + 'static> From<E> for ToolError {
    fn from(error: E) -> ToolError {
        ToolError::new(error.to_string()).with_source(error)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.0.message)?;
        if let Some(source) = self.source() {
            write!(f, " (source: {source})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_a_tool_error_by_question_mark() {
        fn body() -> Result<u8, ToolError> {
            Ok("300".parse::<u8>()?)
        }
        let error = body().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(error.message(), "number too large to fit in target type");
        assert!(error.source().is_some());
    }

    #[test]
    fn messages_are_bounded_on_character_boundaries() {
        let error = ToolError::new("ü".repeat(limits::ERROR_CHARS_MAX + 1));
        assert!(error.message().ends_with("ü… (cut)"));
        assert!(error.message().chars().count() < limits::ERROR_CHARS_MAX + 10);
    }
}
