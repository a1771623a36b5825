//! Hooks: before a call, when it would ask, when it was denied, after it ran, and after all calls of a
//! message.
//!
//! Hooks run in the order in which they were given; each sees what the ones before it made of the input.
//! Before a call they fail closed: an error, a panic or too long a time stops the call, and the model is told
//! that a hook failed and not that it was denied. After a call they can't lose the result.
//!
//! One hook here may stand for many: those that settings configure are programs, run at once by a single
//! hook, which says in `by` whose word it is. So both kinds have one order and one type of outcome.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::Cancel;
use serde_json::Value;

use crate::content::ToolOutput;
use crate::context::Context;
use crate::decision::{DecisionReason, Verdict};
use crate::future::BoxFuture;
use crate::limits;
use crate::ports::ModeControl;
use crate::registry::ToolOrigin;
use crate::result::ToolResult;
use crate::results::OffloadStore;

/// Runs before a call: may inspect, inject words for the model, rewrite the input, block, or decide.
pub trait PreHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Looks at a call whose input is valid.
    fn before<'a>(&'a self, call: &'a HookCall<'a>) -> BoxFuture<'a, Result<PreHookResponse, HookError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        limits::HOOK_TIMEOUT
    }

    /// What its failure means. The default stops the call.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Block
    }
}

/// Runs when a call would ask the user, and may answer instead.
pub trait PermissionHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Answers, or leaves it to the user. An ask is no answer.
    fn decide<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        asked: &'a PermissionRequest<'a>,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        limits::HOOK_TIMEOUT
    }
}

/// Runs after a call, whenever its execution began, also after a failure.
pub trait PostHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Looks at the result.
    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        limits::HOOK_TIMEOUT
    }
}

/// Runs when a call was denied: by a rule, a mode, the tool itself, or because nobody could be asked. Not
/// when the user said no, nor when a hook did.
pub trait DeniedHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Looks at the denial. Only `context`, `messages` and `stop` of what it gives count.
    fn denied<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        limits::HOOK_TIMEOUT
    }
}

/// Runs once all calls of a message have their results, before the turn's budget shortens them.
pub trait BatchHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Looks at the results. Words for the model go with the last one; `output` counts for nothing.
    fn after_batch<'a>(
        &'a self,
        batch: &'a HookBatch<'a>,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>>;

    /// How long it may take.
    fn timeout(&self) -> Duration {
        limits::HOOK_TIMEOUT
    }
}

/// A call as hooks see it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct HookCall<'a> {
    /// The tool's own name.
    pub tool: &'a str,
    /// Where the tool comes from.
    pub origin: &'a ToolOrigin,
    /// The input as it stands.
    pub input: &'a Value,
    /// Session, working directory, ids.
    pub context: &'a Context,
    /// What ends the hook early. After a call that is not the call's own cancellation where that is used up
    /// already.
    pub cancel: &'a Cancel,
    /// Where this very hook made the input: what it said then. It need not judge its own work again.
    pub rewrote: Option<&'a InputRewrite>,
}

/// Why a call would ask.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct PermissionRequest<'a> {
    /// The reason, in words.
    pub reason: &'a str,
    /// What would allow it for good, in words for a person, where there is such a change.
    pub proposed_rule: Option<&'a str>,
    /// The rules that would allow it for good, one for each part that needs one; none if there are no such
    /// rules.
    pub lasting_rules: &'a [String],
}

/// The calls of one message with their results, as hooks see them.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct HookBatch<'a> {
    /// The results, in call order.
    pub results: &'a [ToolResult],
    /// The session's id.
    pub session: &'a str,
    /// The agent within it.
    pub agent: &'a str,
    /// The working directory.
    pub cwd: &'a Path,
    /// The live permission mode, if the host has one.
    pub mode: Option<&'a dyn ModeControl>,
    /// Where whole texts are kept when only a part is shown.
    pub results_in: &'a Arc<OffloadStore>,
    /// What ends the hook early.
    pub cancel: &'a Cancel,
}

/// What a hook makes of a call before it runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PreHookResponse {
    /// Another input. It is checked and judged like the first.
    pub input: Option<Value>,
    /// Words for the model, given with the result.
    pub context: Vec<String>,
    /// What the hook decides. Allowing never lifts a rule that denies or asks.
    pub decision: Option<DecisionReason>,
    /// Stops the call without a decision on it, for this reason.
    pub blocked: Option<String>,
    /// Ends the turn, for this reason; the call is not made, whatever was decided.
    pub stop: Option<String>,
    /// Words for the user.
    pub messages: Vec<String>,
    /// Whose word it is, where one hook stands for several.
    pub by: Option<String>,
}

/// What a hook said when it put another input in place.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InputRewrite {
    /// Whose word it was, where one hook stands for several.
    pub by: Option<String>,
    /// What it decided.
    pub decision: Option<DecisionReason>,
    /// Its words for the model.
    pub context: Vec<String>,
}

impl PreHookResponse {
    /// Goes on unchanged.
    pub fn go_on() -> PreHookResponse {
        PreHookResponse::default()
    }

    /// Stops the call.
    pub fn block(reason: impl Into<String>) -> PreHookResponse {
        PreHookResponse { blocked: Some(reason.into()), ..PreHookResponse::default() }
    }

    /// Puts another input in place.
    pub fn rewrite(input: Value) -> PreHookResponse {
        PreHookResponse { input: Some(input), ..PreHookResponse::default() }
    }

    /// Tells the model something beside the result.
    pub fn with_context(context: impl Into<String>) -> PreHookResponse {
        PreHookResponse { context: vec![context.into()], ..PreHookResponse::default() }
    }

    /// Decides.
    pub fn decide(decision: DecisionReason) -> PreHookResponse {
        PreHookResponse { decision: Some(decision), ..PreHookResponse::default() }
    }

    /// Why the hook denies the call, if it does.
    pub fn denial(&self) -> Option<&str> {
        self.decision.as_ref().filter(|reason| reason.verdict == Verdict::Deny).map(|reason| &*reason.text)
    }
}

/// What a hook makes of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PostHookResponse {
    /// Words for the model, given with the result.
    pub context: Vec<String>,
    /// Another output in place of a successful one.
    pub output: Option<ToolOutput>,
    /// Ends the turn, for this reason; the result stays.
    pub stop: Option<String>,
    /// Words for the user.
    pub messages: Vec<String>,
}

/// What the failure of a hook means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The call is stopped.
    #[default]
    Block,
    /// The call goes on, with a warning.
    Continue,
}

/// A hook that could not do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookError {
    /// Which one it was, where one hook stands for several.
    pub by: Option<String>,
    /// What went wrong.
    pub message: String,
}

impl HookError {
    /// A failure in these words.
    pub fn new(message: impl Into<String>) -> HookError {
        HookError { by: None, message: message.into() }
    }

    /// Says which of several hooks it was.
    #[must_use]
    pub fn by(mut self, hook: impl Into<String>) -> HookError {
        self.by = Some(hook.into());
        self
    }
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HookError {}

/// All hooks of a session.
#[derive(Clone, Default)]
pub struct HookSet {
    pub(crate) pre: Vec<RegisteredHook<dyn PreHook>>,
    pub(crate) permission: Vec<RegisteredHook<dyn PermissionHook>>,
    pub(crate) denied: Vec<RegisteredHook<dyn DeniedHook>>,
    pub(crate) post: Vec<RegisteredHook<dyn PostHook>>,
    pub(crate) batch: Vec<RegisteredHook<dyn BatchHook>>,
}

/// A hook and what it said of itself when it was added.
pub(crate) struct RegisteredHook<H: ?Sized> {
    pub(crate) hook: Arc<H>,
    pub(crate) name: Arc<str>,
    pub(crate) timeout: Duration,
    pub(crate) on_failure: OnFailure,
    /// It panicked when it was asked: such a hook has failed before it began.
    pub(crate) broken: bool,
}

impl<H: ?Sized> Clone for RegisteredHook<H> {
    fn clone(&self) -> RegisteredHook<H> {
        let RegisteredHook { hook, name, timeout, on_failure, broken } = self;
        let (hook, name) = (hook.clone(), name.clone());
        RegisteredHook { hook, name, timeout: *timeout, on_failure: *on_failure, broken: *broken }
    }
}

impl<H: ?Sized> RegisteredHook<H> {
    fn ask(hook: Arc<H>, facts: impl FnOnce(&H) -> (String, Duration, OnFailure)) -> RegisteredHook<H> {
        match crate::future::catch_panic(|| facts(&hook)) {
            Ok((name, timeout, on_failure)) => {
                RegisteredHook { hook, name: name.into(), timeout, on_failure, broken: false }
            }
            Err(_) => {
                let (name, timeout) = ("without a name".into(), limits::HOOK_TIMEOUT);
                RegisteredHook { hook, name, timeout, on_failure: OnFailure::Block, broken: true }
            }
        }
    }
}

impl HookSet {
    /// None.
    pub fn new() -> HookSet {
        HookSet::default()
    }

    /// Adds a hook before calls.
    #[must_use]
    pub fn before(mut self, hook: impl PreHook) -> HookSet {
        let facts = |hook: &dyn PreHook| (hook.name().to_owned(), hook.timeout(), hook.on_failure());
        self.pre.push(RegisteredHook::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook for calls that would ask.
    #[must_use]
    pub fn permission(mut self, hook: impl PermissionHook) -> HookSet {
        let facts = |hook: &dyn PermissionHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Block);
        self.permission.push(RegisteredHook::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook after calls.
    #[must_use]
    pub fn after(mut self, hook: impl PostHook) -> HookSet {
        let facts = |hook: &dyn PostHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Continue);
        self.post.push(RegisteredHook::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook for calls that were denied.
    #[must_use]
    pub fn denied(mut self, hook: impl DeniedHook) -> HookSet {
        let facts = |hook: &dyn DeniedHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Continue);
        self.denied.push(RegisteredHook::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook after all calls of a message.
    #[must_use]
    pub fn after_batch(mut self, hook: impl BatchHook) -> HookSet {
        let facts = |hook: &dyn BatchHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Continue);
        self.batch.push(RegisteredHook::ask(Arc::new(hook), facts));
        self
    }
}
