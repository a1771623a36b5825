//! In-process hooks: before a call, when it would ask, and after it ran.
//!
//! Hooks run in the order in which they were given; each sees what the ones before it made of the input. Before a
//! call they fail closed: an error, a panic or too long a time stops the call, and the model is told that a hook
//! failed and not that it was denied. After a call they can't lose the result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::content::Output;
use crate::context::Context;
use crate::future::BoxFuture;
use crate::limits;
use crate::result::ToolResult;

/// Runs before a call: may inspect, inject words for the model, rewrite the input, block, or decide.
pub trait PreHook: Send + Sync + 'static {
    /// A name to report failures under.
    fn name(&self) -> &str;

    /// Looks at a call whose input is valid.
    fn before<'a>(&'a self, call: &'a HookCall<'a>) -> BoxFuture<'a, Result<Before, HookError>>;

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

    /// Answers, or leaves it to the user.
    fn decide<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<Option<Decision>, HookError>>;

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
    ) -> BoxFuture<'a, Result<After, HookError>>;

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
    /// The input as it stands.
    pub input: &'a Value,
    /// Session, working directory, ids.
    pub context: &'a Context,
}

/// What a hook makes of a call before it runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Before {
    /// Another input. It is checked and judged like the first.
    pub input: Option<Value>,
    /// Words for the model, given with the result.
    pub context: Option<String>,
    /// What the hook decides.
    pub decision: Option<Decision>,
}

/// A decision of a hook. Allowing never lifts a rule that denies or asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// May run.
    Allow,
    /// The user should see it, for this reason.
    Ask(String),
    /// Must not run; the model is told why.
    Deny(String),
    /// Stopped without being judged; the model is told why.
    Block(String),
}

impl Before {
    /// Goes on unchanged.
    pub fn go_on() -> Before {
        Before::default()
    }

    /// Stops the call.
    pub fn block(reason: impl Into<String>) -> Before {
        Before { decision: Some(Decision::Block(reason.into())), ..Before::default() }
    }

    /// Puts another input in place.
    pub fn rewrite(input: Value) -> Before {
        Before { input: Some(input), ..Before::default() }
    }

    /// Tells the model something beside the result.
    pub fn inject(context: impl Into<String>) -> Before {
        Before { context: Some(context.into()), ..Before::default() }
    }

    /// Decides.
    pub fn decide(decision: Decision) -> Before {
        Before { decision: Some(decision), ..Before::default() }
    }
}

/// What a hook makes of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct After {
    /// Words for the model, given with the result.
    pub context: Option<String>,
    /// Another output in place of a successful one.
    pub output: Option<Output>,
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
pub struct HookError(pub String);

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HookError {}

/// All hooks of a session.
#[derive(Clone, Default)]
pub struct Hooks {
    pub(crate) pre: Vec<Known<dyn PreHook>>,
    pub(crate) permission: Vec<Known<dyn PermissionHook>>,
    pub(crate) post: Vec<Known<dyn PostHook>>,
}

/// A hook and what it said of itself when it was added.
pub(crate) struct Known<H: ?Sized> {
    pub(crate) hook: Arc<H>,
    pub(crate) name: Arc<str>,
    pub(crate) timeout: Duration,
    pub(crate) on_failure: OnFailure,
    /// It panicked when it was asked: such a hook has failed before it began.
    pub(crate) broken: bool,
}

impl<H: ?Sized> Clone for Known<H> {
    fn clone(&self) -> Known<H> {
        let Known { hook, name, timeout, on_failure, broken } = self;
        let (hook, name) = (hook.clone(), name.clone());
        Known { hook, name, timeout: *timeout, on_failure: *on_failure, broken: *broken }
    }
}

impl<H: ?Sized> Known<H> {
    fn ask(hook: Arc<H>, facts: impl FnOnce(&H) -> (String, Duration, OnFailure)) -> Known<H> {
        match crate::future::guarded(|| facts(&hook)) {
            Ok((name, timeout, on_failure)) => {
                Known { hook, name: name.into(), timeout, on_failure, broken: false }
            }
            Err(_) => {
                let (name, timeout) = ("without a name".into(), limits::HOOK_TIMEOUT);
                Known { hook, name, timeout, on_failure: OnFailure::Block, broken: true }
            }
        }
    }
}

impl Hooks {
    /// None.
    pub fn new() -> Hooks {
        Hooks::default()
    }

    /// Adds a hook before calls.
    #[must_use]
    pub fn before(mut self, hook: impl PreHook) -> Hooks {
        let facts = |hook: &dyn PreHook| (hook.name().to_owned(), hook.timeout(), hook.on_failure());
        self.pre.push(Known::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook for calls that would ask.
    #[must_use]
    pub fn permission(mut self, hook: impl PermissionHook) -> Hooks {
        let facts = |hook: &dyn PermissionHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Block);
        self.permission.push(Known::ask(Arc::new(hook), facts));
        self
    }

    /// Adds a hook after calls.
    #[must_use]
    pub fn after(mut self, hook: impl PostHook) -> Hooks {
        let facts = |hook: &dyn PostHook| (hook.name().to_owned(), hook.timeout(), OnFailure::Continue);
        self.post.push(Known::ask(Arc::new(hook), facts));
        self
    }
}
