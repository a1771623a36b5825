//! The contract of a tool.
//!
//! There are two ways to make one, with the same result, an immutable, cheaply cloned [`AnyTool`]:
//!
//! * a type that implements [`Tool`], for tools with state, checks and views of their own;
//! * [`tool`] for a closure, and [`dynamic_tool`] for one over JSON whose schema is known only at run time.
//!
//! Everything that a tool leaves out fails closed: unknown effects, permission required, not beside others.

pub(crate) mod breaker;
mod closure;
pub(crate) mod erased;
mod spec;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::content::IntoOutput;
use crate::context::Context;
use crate::decision::DecisionReason;
use crate::effects::Effects;
use crate::error::ToolError;
use crate::future::ReadyFuture;
use crate::view::{CallStage, CallView};

pub use breaker::BreakerOptions;
pub use closure::{DynamicTool, FnTool, dynamic_tool, tool};
pub use erased::{AnyTool, IntoTools, InvalidTool};
pub use haft_scheduler::Interrupt;
pub use spec::{
    CallTimeout, GuardDenied, InputGuard, ListedClass, RetryPolicy, SiblingPolicy, ToolExposure, ToolSpec,
};

/// A tool: a typed function with a contract.
///
/// The engine calls the methods in the order of the pipeline: [`effects`](Tool::effects) when the call is
/// dispatched, [`check`](Tool::check) and [`permission`](Tool::permission) while it is prepared,
/// [`call`](Tool::call) when it runs, [`view`](Tool::view) whenever somebody looks. Any of them may be called
/// from any task, for several calls at once. Each attempt of a call decodes its input afresh from the JSON
/// that was kept.
///
/// * An **error** is one failed result. `?` works on any error.
/// * A **panic**, in any method and also in `Drop`, is one failed result; the turn goes on. (A second panic
///   while the first unwinds ends the process, as everywhere in Rust.)
/// * **Cancellation** drops the future of `call` at its next `await`; a tool that has something to put in
///   order holds it in a value whose `Drop` does so.
///
/// Only [`spec`](Tool::spec) and [`call`](Tool::call) are required:
///
/// ```
/// use haft::{Chars, Context, Effects, Tool, ToolError, ToolSpec};
/// use std::path::PathBuf;
///
/// /// Counts the words in a text file.
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct CountWords {
///     /// Absolute path of the file.
///     path: PathBuf,
/// }
///
/// struct WordCounter;
///
/// impl Tool for WordCounter {
///     type Input = CountWords;
///     type Output = usize;
///
///     fn spec(&self) -> ToolSpec {
///         ToolSpec::new("count_words").result_limit(Chars(100))
///     }
///     fn effects(&self, input: &CountWords) -> Effects {
///         Effects::reads(&input.path)
///     }
///     async fn call(&self, input: CountWords, cx: &Context) -> Result<usize, ToolError> {
///         let text = cx.files().read_to_string(&input.path).await?;
///         Ok(text.split_whitespace().count())
///     }
/// }
/// ```
pub trait Tool: Send + Sync + 'static {
    /// The input. Its doc comment is the tool's description, the doc comments of its fields describe the
    /// arguments.
    type Input: DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// What comes back.
    type Output: IntoOutput;

    /// The facts that never change. Asked once, when the tool is registered.
    fn spec(&self) -> ToolSpec;

    /// What this call will touch.
    ///
    /// The default is unknown: the call runs alone, always asks, and is never repeated. A panic in here means
    /// the same.
    fn effects(&self, input: &Self::Input) -> Effects {
        let _ = input;
        Effects::unknown()
    }

    /// Whether the input makes sense, asked after its shape was found right. Return
    /// [`ToolError::invalid_input`] with what was wrong and what is accepted.
    ///
    /// Files are reached through `cx` and only inside of the working directories: nothing has been granted
    /// yet. The default accepts every input of the right shape.
    fn check(&self, input: &Self::Input, cx: &Context) -> impl Future<Output = Result<(), ToolError>> + Send {
        let _ = (input, cx);
        PassedCheck(ReadyFuture::new())
    }

    /// The tool's own opinion on whether this call should be allowed: [`DecisionReason::allow`], `ask` or
    /// `deny`. Rules that deny or ask come first; an opinion can't lift them. The default has none, so rules,
    /// mode and effects decide.
    fn permission(
        &self,
        input: &Self::Input,
        cx: &Context,
    ) -> impl Future<Output = Option<DecisionReason>> + Send {
        let _ = (input, cx);
        ReadyFuture::new()
    }

    /// Does the work.
    fn call(
        &self,
        input: Self::Input,
        cx: &Context,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;

    /// What this one call will do, in a sentence for the person who is asked. The default names tool and
    /// effects.
    fn describe(&self, input: &Self::Input) -> Option<String> {
        let _ = input;
        None
    }

    /// Why the tool can't be offered now, as a fragment: "no search is configured". Asked when a snapshot is
    /// made. The default is that it can.
    fn unavailable_reason(&self) -> Option<String> {
        None
    }

    /// What the person sees who is asked about this call, where that takes a look at files: the change to a
    /// file that is there. Files are reached as in [`check`](Tool::check). The default is what
    /// [`view`](Tool::view) shows of the input.
    fn preview(&self, input: &Self::Input, cx: &Context) -> impl Future<Output = Option<CallView>> + Send {
        let _ = (input, cx);
        ReadyFuture::new()
    }

    /// What a person sees at a stage of the call: data, not text with escape codes. The input is JSON because
    /// it may still be incomplete. The default shows the arguments and what came of them.
    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let _ = stage;
        None
    }
}

/// The default of [`Tool::check`]: costs nothing.
struct PassedCheck(ReadyFuture<()>);

impl Future for PassedCheck {
    type Output = Result<(), ToolError>;

    fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<Self::Output> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// The input of a tool that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "")]
pub struct NoInput {}
