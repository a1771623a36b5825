//! The fixed facts of a tool.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::Interrupt;
use serde_json::Value;

use super::breaker::BreakerOptions;
use crate::context::Context;
use crate::effects::table::ConcurrencyClass;
use crate::future::BoxFuture;
use crate::limits;
use crate::ports::PortName;
use crate::results::ResultLimit;

/// What is true of a tool whatever its input. Built once, when the tool is registered.
///
/// ```
/// use haft::tool::Interrupt;
/// use haft::{Chars, ToolSpec};
/// use std::time::Duration;
///
/// let spec = ToolSpec::new("fetch_page")
///     .alias("get_page")
///     .result_limit(Chars(20_000))
///     .timeout(Duration::from_secs(30))
///     .interrupt(Interrupt::Cancel)
///     .concurrency(4);
/// ```
#[derive(Clone)]
#[must_use]
pub struct ToolSpec {
    pub(crate) name: Cow<'static, str>,
    pub(crate) description: Option<String>,
    pub(crate) aliases: Vec<String>,
    pub(crate) result_limit: ResultLimit,
    pub(crate) exposure: ToolExposure,
    pub(crate) search_hint: Option<String>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) timeout: CallTimeout,
    pub(crate) retry: RetryPolicy,
    pub(crate) breaker: Option<BreakerOptions>,
    pub(crate) interrupt: Interrupt,
    pub(crate) on_error: Option<SiblingPolicy>,
    pub(crate) needs_user: bool,
    pub(crate) needs: Vec<PortName>,
    pub(crate) blocking: bool,
    pub(crate) in_child: bool,
    pub(crate) finds_tools: bool,
    pub(crate) granted_files_only: bool,
    pub(crate) hosts_only: bool,
    pub(crate) configured_hosts: bool,
    pub(crate) session_only: bool,
    pub(crate) group: Cow<'static, str>,
    pub(crate) listed_class: ListedClass,
    pub(crate) feature: Option<Cow<'static, str>>,
    pub(crate) guards: Vec<InputGuard>,
}

impl ToolSpec {
    /// The facts of a tool with this name and safe answers to everything else.
    pub fn new(name: impl Into<Cow<'static, str>>) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: None,
            aliases: Vec::new(),
            result_limit: ResultLimit::default(),
            exposure: ToolExposure::Normal,
            search_hint: None,
            concurrency: None,
            timeout: CallTimeout::After(limits::CALL_TIMEOUT),
            retry: RetryPolicy::NEVER,
            breaker: None,
            interrupt: Interrupt::Block,
            on_error: None,
            needs_user: false,
            needs: Vec::new(),
            blocking: false,
            in_child: false,
            finds_tools: false,
            granted_files_only: false,
            hosts_only: false,
            configured_hosts: false,
            session_only: false,
            group: Cow::Borrowed("other"),
            listed_class: ListedClass::default(),
            feature: None,
            guards: Vec::new(),
        }
    }

    /// What the model is told. Typed tools take it from the doc comment of their input.
    pub fn description(mut self, description: impl Into<String>) -> ToolSpec {
        self.description = Some(description.into());
        self
    }

    /// Another name that finds this tool, for old transcripts.
    pub fn alias(mut self, alias: impl Into<String>) -> ToolSpec {
        self.aliases.push(alias.into());
        self
    }

    /// How much of a result the model sees at once. Over it, the whole goes to a file. Default: 100,000
    /// characters.
    pub fn result_limit(mut self, limit: impl Into<ResultLimit>) -> ToolSpec {
        self.result_limit = limit.into();
        self
    }

    /// Whether the model sees the schema from the start. Default: [`ToolExposure::Normal`].
    pub fn exposure(mut self, exposure: ToolExposure) -> ToolSpec {
        self.exposure = exposure;
        self
    }

    /// Words by which a deferred tool is found.
    pub fn search_hint(mut self, hint: impl Into<String>) -> ToolSpec {
        self.search_hint = Some(hint.into());
        self
    }

    /// How many calls of this tool may run at once, over all agents that share it. Default: no limit of its
    /// own.
    pub fn concurrency(mut self, calls: usize) -> ToolSpec {
        self.concurrency = Some(calls.max(1));
        self
    }

    /// How long one call may run. Default: ten minutes.
    pub fn timeout(mut self, timeout: impl Into<CallTimeout>) -> ToolSpec {
        self.timeout = timeout.into();
        self
    }

    /// Whether the engine tries again by itself. Default: never.
    ///
    /// Only errors that say so are retried, and only calls whose effects allow to be run again.
    pub fn retry(mut self, retry: RetryPolicy) -> ToolSpec {
        self.retry = retry;
        self
    }

    /// Whether the tool is left alone for a while after it failed again and again. Default: it is not.
    ///
    /// Errors count that say that the same call may succeed later, time-outs and panics. Calls that come
    /// meanwhile are answered without being run.
    pub fn breaker(mut self, breaker: BreakerOptions) -> ToolSpec {
        self.breaker = Some(breaker);
        self
    }

    /// What an interrupt by the user does to a running call. Default: [`Interrupt::Block`].
    pub fn interrupt(mut self, interrupt: Interrupt) -> ToolSpec {
        self.interrupt = interrupt;
        self
    }

    /// What a failure of this tool does to calls that run beside it. Default: what the session says.
    pub fn on_error(mut self, policy: SiblingPolicy) -> ToolSpec {
        self.on_error = Some(policy);
        self
    }

    /// The tool talks to the user; without one its calls are errors and it isn't offered.
    pub fn needs_user(mut self) -> ToolSpec {
        self.needs_user = true;
        self
    }

    /// The tool can't work without this port; where it is absent the tool isn't offered.
    pub fn needs(mut self, port: PortName) -> ToolSpec {
        self.needs.push(port);
        self
    }

    /// The tool blocks its thread, so each call gets a thread of its own.
    ///
    /// A call that doesn't end in time is answered, and its thread abandoned and counted: nothing can stop a
    /// thread.
    pub fn blocking(mut self) -> ToolSpec {
        self.blocking = true;
        self
    }

    /// Each call runs a program in a child process, through [`Processes`](crate::ports::Processes): the tool
    /// can't work without that port, and where the host can't confine the child nobody holds it to what the
    /// call declares.
    ///
    /// The declared effects still say what runs beside what. But where they are only believed, every call
    /// asks unless a rule, a mode or the user allows it, however harmless it claims to be.
    pub fn in_child(mut self) -> ToolSpec {
        self.in_child = true;
        self.needs(PortName::Processes)
    }

    /// Whether the tool needs this port.
    pub fn needs_port(&self, port: PortName) -> bool {
        self.needs.contains(&port)
    }

    /// Whether the tool belongs to this feature.
    pub fn has_feature(&self, feature: &str) -> bool {
        self.feature.as_deref() == Some(feature)
    }

    /// Whether each call runs a program in a child process; see [`in_child`](ToolSpec::in_child).
    pub fn runs_in_child(&self) -> bool {
        self.in_child
    }

    /// The tool searches for tools that were deferred. Deferral is on only where such a tool is offered.
    pub fn finds_tools(mut self) -> ToolSpec {
        self.finds_tools = true;
        self
    }

    /// Calls open files through their [`Context`] alone, by what each was granted. So rules about files are
    /// enforced by that, and a denied file is left out of a folder that is searched. Of tools from outside it
    /// isn't believed.
    pub fn granted_files_only(mut self) -> ToolSpec {
        self.granted_files_only = true;
        self
    }

    /// Whether calls open nothing but what they were granted; see
    /// [`granted_files_only`](ToolSpec::granted_files_only).
    pub fn is_granted_files_only(&self) -> bool {
        self.granted_files_only
    }

    /// Calls reach hosts and touch nothing else, so rules for hosts are enough to allow one; a call that
    /// can't say which host it reaches is allowed by no rule. Of tools from outside it isn't believed.
    pub fn hosts_only(mut self) -> ToolSpec {
        self.hosts_only = true;
        self
    }

    /// Whether calls reach hosts and touch nothing else; see [`hosts_only`](ToolSpec::hosts_only).
    pub fn is_hosts_only(&self) -> bool {
        self.hosts_only
    }

    /// Settings choose the hosts that calls reach, so no rule has to allow them. Of tools from outside it
    /// isn't believed.
    pub fn configured_hosts(mut self) -> ToolSpec {
        self.configured_hosts = true;
        self
    }

    /// Whether settings choose the hosts that calls reach; see
    /// [`configured_hosts`](ToolSpec::configured_hosts).
    pub fn has_configured_hosts(&self) -> bool {
        self.configured_hosts
    }

    /// What calls change is the session's own, such as messages between its agents. Agents that may only look
    /// have the tool too.
    pub fn session_only(mut self) -> ToolSpec {
        self.session_only = true;
        self
    }

    /// Whether calls change nothing outside of the session; see [`session_only`](ToolSpec::session_only).
    pub fn is_session_only(&self) -> bool {
        self.session_only
    }

    /// The group under which the tool is listed and can be switched off.
    pub fn group(mut self, group: impl Into<Cow<'static, str>>) -> ToolSpec {
        self.group = group.into();
        self
    }

    /// The class under which the tool is listed where there is no call to judge. Default: unsafe.
    ///
    /// For people who look at a list. Calls are judged by their effects and by nothing else.
    pub fn listed_class(mut self, class: impl Into<ListedClass>) -> ToolSpec {
        self.listed_class = class.into();
        self
    }

    /// The build feature that brought the tool in.
    pub fn feature(mut self, feature: impl Into<Cow<'static, str>>) -> ToolSpec {
        self.feature = Some(feature.into());
        self
    }

    /// Adds a guard at the end of the chain.
    pub fn guard<F, Fut>(mut self, guard: F) -> ToolSpec
    where
        F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, GuardDenied>> + Send + 'static,
    {
        self.guards.push(InputGuard::new(guard));
        self
    }
}

/// The class that a list shows for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListedClass {
    /// Every call of the tool has this class, or a safer one.
    Always(ConcurrencyClass),
    /// It depends on the call.
    Depends,
}

/// Nothing was said, so anything may happen.
impl Default for ListedClass {
    fn default() -> ListedClass {
        ListedClass::Always(ConcurrencyClass::Unsafe)
    }
}

impl From<ConcurrencyClass> for ListedClass {
    fn from(class: ConcurrencyClass) -> ListedClass {
        ListedClass::Always(class)
    }
}

/// Whether a model sees a tool's schema from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolExposure {
    /// Yes, unless it comes from outside and there are too many tools.
    #[default]
    Normal,
    /// Only after it was searched for, once there are too many tools.
    Deferred,
    /// Always.
    AlwaysLoaded,
}

/// How long a call may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallTimeout {
    /// This long.
    After(Duration),
    /// As long as it takes; for tools that are bounded by what they start.
    Never,
}

impl CallTimeout {
    /// The limit, if there is one.
    pub fn limit(self) -> Option<Duration> {
        match self {
            CallTimeout::After(limit) => Some(limit),
            CallTimeout::Never => None,
        }
    }
}

impl From<Duration> for CallTimeout {
    fn from(after: Duration) -> CallTimeout {
        CallTimeout::After(after)
    }
}

/// Whether the engine repeats a failed call by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often the tool is tried in all; bounded by [`limits::ATTEMPTS_MAX`].
    pub attempts: u32,
    /// The pause before the second attempt; each further one is twice as long.
    pub pause: Duration,
}

impl RetryPolicy {
    /// One attempt, no repetition.
    pub const NEVER: RetryPolicy = RetryPolicy { attempts: 1, pause: Duration::ZERO };

    /// At most this many attempts, with growing pauses from 200 ms on.
    pub fn up_to(attempts: u32) -> RetryPolicy {
        RetryPolicy { attempts: attempts.clamp(1, limits::ATTEMPTS_MAX), pause: Duration::from_millis(200) }
    }
}

/// What a failing call does to the calls that run beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SiblingPolicy {
    /// Nothing.
    #[default]
    Never,
    /// It stops them.
    OnError,
}

type GuardFn = dyn Fn(Value, Context) -> BoxFuture<'static, Result<Value, GuardDenied>> + Send + Sync;

/// A check of a tool over its JSON input that may rewrite it or deny the call. A guard that panics denies.
#[derive(Clone)]
pub struct InputGuard(Arc<GuardFn>);

impl InputGuard {
    /// A guard from a function.
    pub fn new<F, Fut>(guard: F) -> InputGuard
    where
        F: Fn(Value, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Value, GuardDenied>> + Send + 'static,
    {
        InputGuard(Arc::new(move |input, cx| Box::pin(guard(input, cx))))
    }

    pub(crate) fn pass(&self, input: Value, cx: Context) -> BoxFuture<'static, Result<Value, GuardDenied>> {
        (self.0)(input, cx)
    }
}

impl fmt::Debug for InputGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// A guard's no, with the reason for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuardDenied(pub String);
