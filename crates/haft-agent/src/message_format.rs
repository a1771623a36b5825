//! How a provider stores a conversation: everything that depends on the form of its messages, behind one
//! trait.
//!
//! The loop never looks into the items of a conversation. It passes them to the format, which belongs to the
//! provider, and back. Items stay in the provider's form because what a model sent has to come back
//! unchanged: signatures, encrypted reasoning, blocks that are unknown here.

use std::collections::HashSet;
use std::fmt;

use haft::content::BinaryContent;
use haft::{ToolCall, ToolResult};
use serde_json::Value;

use crate::reply::ModelFailure;
use crate::tool_definitions::{ToolDefiner, ToolDefinitions};

/// The form of a provider's messages. Formats are static and compared by name.
///
/// The loop calls it from the task of a run. No method may block or fail in any other way than its type says:
/// items that a method does not understand are left alone.
pub trait MessageFormat: Send + Sync + 'static {
    /// Returns the name under which a journal stores conversations of this format.
    fn name(&self) -> &'static str;

    /// Appends what the user says. Right after results it goes into the same item, where the format has
    /// results there. `parts` without content still append something, since no provider takes an empty
    /// message.
    fn push_user(&self, items: &mut Vec<Value>, parts: &[UserPart]);

    /// Makes the items that answer the calls of one message, one answer for each call, in order.
    fn answer_calls(&self, answers: &CallAnswers<'_>) -> Vec<Value>;

    /// Reads the calls out of a message of the model that was stored.
    ///
    /// # Errors
    /// The items are no message of this format.
    fn requested_calls(&self, items: &[Value]) -> Result<Vec<RequestedCall>, UnreadableMessage>;

    /// Replaces the content of old results by a note, in place, and returns how many were replaced. The
    /// newest `keep` results stay, and so do those that would not get shorter.
    fn clear_results(&self, items: &mut [Value], keep: usize, note: &dyn Fn(&str) -> String) -> usize;

    /// Returns whether [`clear_results`](MessageFormat::clear_results) would replace anything.
    fn has_clearable_results(&self, items: &[Value], keep: usize, note: &dyn Fn(&str) -> String) -> bool;

    /// Estimates how many tokens the items have.
    fn estimate_tokens(&self, items: &[Value]) -> u64;

    /// Returns the names of the tools whose definitions are in the items because the model searched for them.
    fn loaded_tools(&self, items: &[Value]) -> HashSet<String>;

    /// Returns whether the items end with something that the model has not answered.
    fn awaits_reply(&self, items: &[Value]) -> bool;

    /// Returns whether the first item is a message of the user. True for no items at all.
    fn starts_with_user(&self, items: &[Value]) -> bool;

    /// Returns the end of what the items say, for a person: texts and the names of called tools, at most so
    /// many lines. Results are left out.
    fn excerpt(&self, items: &[Value], lines_max: usize) -> Vec<ExcerptLine>;

    /// Returns whether the provider rejected a request because it doesn't know natively deferred tools.
    fn is_deferral_rejection(&self, failure: &ModelFailure) -> bool;

    /// Creates what defines tools in the form of this provider.
    fn tool_definer(&self) -> Box<dyn ToolDefiner>;
}

impl fmt::Debug for dyn MessageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageFormat({})", self.name())
    }
}

impl PartialEq for dyn MessageFormat {
    fn eq(&self, other: &dyn MessageFormat) -> bool {
        self.name() == other.name()
    }
}

/// A part of what the user says.
#[derive(Debug, Clone, PartialEq)]
pub enum UserPart {
    /// Words.
    Text(String),
    /// A picture: PNG, JPEG, GIF or WebP.
    Image(BinaryContent),
}

/// A call in a message of the model. It waits for an answer, whether or not it can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestedCall {
    /// The call.
    pub call: ToolCall,
    /// What form of answer the provider expects.
    pub kind: CallKind,
    /// Why the call can't be run, for the model. None: it is to be run.
    pub refusal: Option<String>,
}

impl RequestedCall {
    /// Creates a call that is to be run.
    pub fn new(call: ToolCall, kind: CallKind) -> RequestedCall {
        RequestedCall { call, kind, refusal: None }
    }

    /// Creates a call that can't be run: its answer is the refusal.
    pub fn refused(call: ToolCall, kind: CallKind, refusal: impl Into<String>) -> RequestedCall {
        RequestedCall { call, kind, refusal: Some(refusal.into()) }
    }
}

/// What a call is to its provider, where it has several kinds with an answer of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// The call of a function.
    Function,
    /// One with text and not JSON for an input.
    FreeForm,
    /// The provider's own form of a search for tools.
    ToolSearch,
}

/// What the answer to the calls of one message is made from.
#[derive(Clone, Copy)]
pub struct CallAnswers<'a> {
    /// The calls of the message.
    pub requested: &'a [RequestedCall],
    /// The results of the calls that were run, in order.
    pub results: &'a [ToolResult],
    /// The tools of the request that the message answered, where they are known.
    pub tools: Option<&'a ToolDefinitions>,
    /// A text in place of a result: for calls that were not run for a reason that the engine doesn't know.
    pub replacement: &'a dyn Fn(&ToolResult) -> Option<String>,
}

/// A line of a conversation for a person who comes back to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExcerptLine {
    /// Text of the user.
    User(String),
    /// Text of the model.
    Model(String),
    /// The name of a tool that the model called.
    Call(String),
}

/// Stored items that are no message of their format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableMessage(pub String);

impl fmt::Display for UnreadableMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnreadableMessage {}
