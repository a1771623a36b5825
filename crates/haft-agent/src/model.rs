//! What the loop needs of a model.
//!
//! Pulled and not pushed: whoever takes the deltas sets the pace, and interrupting is to stop taking.
//! Whatever came by then is a reply that can be kept.

use std::sync::Arc;

use haft::future::BoxFuture;

use crate::conversation::Conversation;
use crate::message_format::MessageFormat;
use crate::reply::ModelReply;
use crate::reply_delta::ReplyDelta;
use crate::tool_definitions::{ToolDeferral, ToolDefinitions};

/// What a model is asked with.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The system prompt, in parts that change seldom first.
    pub system: &'a [Arc<str>],
    /// What was said so far.
    pub conversation: &'a Conversation,
    /// The tools that may be called, in the form of the model's provider.
    pub tools: &'a ToolDefinitions,
}

/// A model that can be asked.
///
/// [`ask`](Model::ask) is called once for each turn and must not wait: it makes what is sent and gives
/// something that does the rest when it is polled. Asking again later must be safe at any time. Many loops
/// may ask at once.
pub trait Model: Send + Sync + 'static {
    /// Returns the format of its messages; conversations have to be of the same.
    fn format(&self) -> &'static dyn MessageFormat;

    /// Its name, for people.
    fn name(&self) -> &str;

    /// Asks. Nothing is sent before what is returned is polled.
    fn ask(&self, prompt: &ModelRequest<'_>) -> Box<dyn ReplyStream>;

    /// How it learns of tools that it has to search for. Asked before each request.
    fn deferral(&self) -> ToolDeferral {
        ToolDeferral::Fallback
    }

    /// The provider refused a request because it doesn't know of deferred tools: from now on
    /// [`deferral`](Model::deferral) is the fallback, for everybody who asks it.
    fn disable_deferral(&self) {}
}

/// A reply that is on its way.
pub trait ReplyStream: Send {
    /// Waits for more and adds it to `out`. False once there will be no more.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing that came; it may be called again, or
    /// [`finish`](ReplyStream::finish).
    fn more<'a>(&'a mut self, out: &'a mut Vec<ReplyDelta>) -> BoxFuture<'a, bool>;

    /// Takes what came, wherever it is, as a reply that can be sent back. Every call in it was given by a
    /// [`ReplyDelta::CallReady`] before, or can't be run.
    fn finish(self: Box<Self>) -> ModelReply;
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn format(&self) -> &'static dyn MessageFormat {
        (**self).format()
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn ask(&self, prompt: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        (**self).ask(prompt)
    }

    fn deferral(&self) -> ToolDeferral {
        (**self).deferral()
    }

    fn disable_deferral(&self) {
        (**self).disable_deferral();
    }
}
