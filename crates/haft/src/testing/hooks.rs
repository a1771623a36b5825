//! Hooks that keep what they saw and do as they are told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft_scheduler::sync::lock;
use serde_json::Value;

use crate::decision::DecisionReason;
use crate::future::BoxFuture;
use crate::hooks::{
    BatchHook, DeniedHook, HookBatch, HookCall, HookError, OnFailure, PermissionHook, PermissionRequest,
    PostHook, PostHookResponse, PreHook, PreHookResponse,
};
use crate::limits;
use crate::result::ToolResult;

/// A hook of all kinds. It keeps what it saw; unless told otherwise it changes nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::Effects;
/// use haft::hooks::{PreHookResponse, HookSet};
/// use haft::testing::{TestCaller, HookInvocation, TestHook, scripted_tool};
/// use serde_json::json;
///
/// let hook = TestHook::new("audit").on_before(|call| match call.input["secret"] == true {
///     true => Ok(PreHookResponse::block("no secrets")),
///     false => Ok(PreHookResponse::go_on()),
/// });
/// let (read, _) = scripted_tool("read").effects(|_| Effects::none()).then("text").build();
/// let hooks = HookSet::new().before(hook.clone()).after(hook.clone());
/// let caller = TestCaller::new().tool(read).engine(|engine| engine.hooks(hooks));
///
/// let calls = [("1", "read", json!({})), ("2", "read", json!({"secret": true}))];
/// caller.turn(calls).await.check(["1 ok: text", "2 Blocked: read was blocked by hook `audit`: no secrets"]);
/// assert_eq!(hook.invocations().len(), 3, "before both and after one");
/// # }
/// ```
#[derive(Clone)]
pub struct TestHook {
    name: Arc<str>,
    timeout: Duration,
    on_failure: OnFailure,
    acts: HookBehavior,
    before: OnBefore,
    permission: OnPermission,
    after: OnAfter,
    denied: OnDenied,
    batch: OnBatch,
    saw: Arc<Mutex<Vec<HookInvocation>>>,
}

type OnBefore = Arc<dyn Fn(&HookCall<'_>) -> Result<PreHookResponse, HookError> + Send + Sync>;
type OnPermission =
    Arc<dyn Fn(&HookCall<'_>, &str) -> Result<Option<DecisionReason>, HookError> + Send + Sync>;
type OnAfter = Arc<dyn Fn(&HookCall<'_>, &ToolResult) -> Result<PostHookResponse, HookError> + Send + Sync>;

type OnDenied = Arc<dyn Fn(&HookCall<'_>, &str) -> Result<PostHookResponse, HookError> + Send + Sync>;
type OnBatch = Arc<dyn Fn(&HookBatch<'_>) -> Result<PostHookResponse, HookError> + Send + Sync>;

#[derive(Clone)]
enum HookBehavior {
    AsTold,
    Fails(String),
    Panics,
    Hangs,
}

/// What a [`TestHook`] saw.
#[derive(Debug, Clone)]
pub enum HookInvocation {
    /// A call that is about to be judged.
    Before {
        /// The tool.
        tool: String,
        /// The input as it stood.
        input: Value,
    },
    /// A call that would ask.
    Permission {
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
        /// Why it would ask.
        reason: String,
    },
    /// A result.
    After {
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
        /// The result as it stood.
        result: ToolResult,
    },
    /// A denial.
    Denied {
        /// The tool.
        tool: String,
        /// The input.
        input: Value,
        /// What the model is told.
        reason: String,
    },
    /// All results of a message.
    Batch {
        /// The results.
        results: Vec<ToolResult>,
    },
}

impl TestHook {
    /// A hook that only looks.
    pub fn new(name: impl Into<Arc<str>>) -> TestHook {
        TestHook {
            name: name.into(),
            timeout: limits::HOOK_TIMEOUT,
            on_failure: OnFailure::Block,
            acts: HookBehavior::AsTold,
            before: Arc::new(|_| Ok(PreHookResponse::go_on())),
            permission: Arc::new(|_, _| Ok(None)),
            after: Arc::new(|_, _| Ok(PostHookResponse::default())),
            denied: Arc::new(|_, _| Ok(PostHookResponse::default())),
            batch: Arc::new(|_| Ok(PostHookResponse::default())),
            saw: Arc::default(),
        }
    }

    /// What it does before a call.
    #[must_use]
    pub fn on_before(
        mut self,
        act: impl Fn(&HookCall<'_>) -> Result<PreHookResponse, HookError> + Send + Sync + 'static,
    ) -> TestHook {
        self.before = Arc::new(act);
        self
    }

    /// What it does when a call would ask; it is given the reason.
    #[must_use]
    pub fn on_permission(
        mut self,
        act: impl Fn(&HookCall<'_>, &str) -> Result<Option<DecisionReason>, HookError> + Send + Sync + 'static,
    ) -> TestHook {
        self.permission = Arc::new(act);
        self
    }

    /// What it does after a call.
    #[must_use]
    pub fn on_after(
        mut self,
        act: impl Fn(&HookCall<'_>, &ToolResult) -> Result<PostHookResponse, HookError> + Send + Sync + 'static,
    ) -> TestHook {
        self.after = Arc::new(act);
        self
    }

    /// What it does when a call was denied; it is given the reason.
    #[must_use]
    pub fn on_denied(
        mut self,
        act: impl Fn(&HookCall<'_>, &str) -> Result<PostHookResponse, HookError> + Send + Sync + 'static,
    ) -> TestHook {
        self.denied = Arc::new(act);
        self
    }

    /// What it does after all calls of a message.
    #[must_use]
    pub fn on_batch(
        mut self,
        act: impl Fn(&HookBatch<'_>) -> Result<PostHookResponse, HookError> + Send + Sync + 'static,
    ) -> TestHook {
        self.batch = Arc::new(act);
        self
    }

    /// Blocks every call.
    #[must_use]
    pub fn blocking(self, reason: &'static str) -> TestHook {
        self.on_before(move |_| Ok(PreHookResponse::block(reason)))
    }

    /// Fails, whatever it is asked.
    #[must_use]
    pub fn failing(self, words: impl Into<String>) -> TestHook {
        TestHook { acts: HookBehavior::Fails(words.into()), ..self }
    }

    /// Panics, whatever it is asked.
    #[must_use]
    pub fn panicking(self) -> TestHook {
        TestHook { acts: HookBehavior::Panics, ..self }
    }

    /// Never answers, whatever it is asked.
    #[must_use]
    pub fn hanging(self) -> TestHook {
        TestHook { acts: HookBehavior::Hangs, ..self }
    }

    /// How long it may take.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> TestHook {
        TestHook { timeout, ..self }
    }

    /// Its failure lets the call go on.
    #[must_use]
    pub fn continuing(self) -> TestHook {
        TestHook { on_failure: OnFailure::Continue, ..self }
    }

    /// Everything it saw, in order. Clones share it.
    pub fn invocations(&self) -> Vec<HookInvocation> {
        lock(&self.saw).clone()
    }

    /// Everything it saw, a line each: `before read`, `permission read`, `after read`.
    pub fn lines(&self) -> Vec<String> {
        let line = |saw: &HookInvocation| match saw {
            HookInvocation::Before { tool, .. } => format!("before {tool}"),
            HookInvocation::Permission { tool, .. } => format!("permission {tool}"),
            HookInvocation::After { tool, .. } => format!("after {tool}"),
            HookInvocation::Denied { tool, .. } => format!("denied {tool}"),
            HookInvocation::Batch { results } => format!("batch of {}", results.len()),
        };
        lock(&self.saw).iter().map(line).collect()
    }

    fn act<'a, T: Send + 'a>(
        &'a self,
        saw: HookInvocation,
        told: impl FnOnce() -> Result<T, HookError> + Send + 'a,
    ) -> BoxFuture<'a, Result<T, HookError>> {
        lock(&self.saw).push(saw);
        Box::pin(async move {
            match &self.acts {
                HookBehavior::AsTold => told(),
                HookBehavior::Fails(words) => Err(HookError::new(words.clone())),
                HookBehavior::Panics => panic!("a test hook was told to panic"),
                HookBehavior::Hangs => std::future::pending().await,
            }
        })
    }
}

impl PreHook for TestHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn before<'a>(&'a self, call: &'a HookCall<'a>) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        let saw = HookInvocation::Before { tool: call.tool.to_owned(), input: call.input.clone() };
        self.act(saw, || (self.before)(call))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn on_failure(&self) -> OnFailure {
        self.on_failure
    }
}

impl PermissionHook for TestHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn decide<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        asked: &'a PermissionRequest<'a>,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        let (tool, input) = (call.tool.to_owned(), call.input.clone());
        self.act(HookInvocation::Permission { tool, input, reason: asked.reason.to_owned() }, move || {
            let decision = (self.permission)(call, asked.reason)?;
            Ok(PreHookResponse { decision, ..PreHookResponse::default() })
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl PostHook for TestHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn after<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        let (tool, input) = (call.tool.to_owned(), call.input.clone());
        self.act(HookInvocation::After { tool, input, result: result.clone() }, move || {
            (self.after)(call, result)
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl DeniedHook for TestHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn denied<'a>(
        &'a self,
        call: &'a HookCall<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        let (tool, input) = (call.tool.to_owned(), call.input.clone());
        self.act(HookInvocation::Denied { tool, input, reason: reason.to_owned() }, move || {
            (self.denied)(call, reason)
        })
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}

impl BatchHook for TestHook {
    fn name(&self) -> &str {
        &self.name
    }

    fn after_batch<'a>(
        &'a self,
        batch: &'a HookBatch<'a>,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        self.act(HookInvocation::Batch { results: batch.results.to_vec() }, move || (self.batch)(batch))
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }
}
