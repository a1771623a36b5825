//! Hooks that settings configure: programs and addresses that are told what happens, and may say no.
//!
//! ```text
//! Settings ── Hooks::from_settings ── Hooks ── add_to ── haft::hooks::HookSet       calls: fired by the engine
//!                                        └── user_prompt_submit, stop, …   sessions: fired by the loop
//! ```
//!
//! - `event` what fires, `matcher` for what, `input` what a hook reads, `reply` what it says.
//! - `run` starts the hooks of one event, all at once, and waits for them; `http` sends requests, `tool_use`
//!   calls tools of servers.
//! - `calls` is what they mean for a call, `session` for everything else.
//!
//! Every hook that matches runs on the same input, beside the others; identical ones run once. What they say
//! is put together in the order of the configuration, never in the order in which they end: of several
//! rewrites the last counts, and a no counts more than a yes. A gate (`PreToolUse`, `PermissionRequest`)
//! fails closed: a hook that can't be started, takes too long, is killed or can't be understood blocks the
//! call, and says that the hook failed.
//!
//! A rewritten call is checked and judged again, hooks included, so that no rewrite escapes a gate. The hook
//! that wrote it is not asked again about its own work: hooks written for elsewhere expect to be asked once,
//! and one that adds a word to every command would never be done. The others are, and may still say no; those
//! that stand later may rewrite once more, those that stand earlier had their turn. So it always comes to an
//! end, and the order decides.

mod calls;
mod event;
#[cfg(feature = "http-hooks")]
mod http;
mod input;
pub mod limits;
mod matcher;
mod reply;
mod run;
mod session;
mod tool_use;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::Cancel;
use haft::hooks::HookCall;
use haft::ports::Processes;
use haft::results::OffloadStore;
use haft::text::truncate_chars;

use crate::settings::{HookAction, HookHandler, OnFailure, Settings, SettingsWarning};
use crate::source::SettingsSource;

pub use event::HookEvent;
pub use reply::{PermissionUpdate, RuleUpdate};
pub use run::BackgroundReport;
pub use session::{
    CompactOutcome, HookBlock, NotificationOutcome, PromptOutcome, SessionOutcome, StartOutcome, StopInput,
    StopOutcome,
};
pub use tool_use::{CallTool, HookToolUse};

use calls::EventHooks;
use matcher::HookMatcher;

/// Decides whether the rule in a hook's `if` matches a call.
pub trait HookCondition: Send + Sync {
    /// Returns whether the rule matches. If that can't be determined it returns true, so that the hook
    /// runs.
    fn matches(&self, call: &HookCall<'_>) -> bool;
}

/// Parses the rule of an `if`, once, when hooks are created.
pub type ParseCondition =
    Arc<dyn Fn(&str, &SettingsSource) -> Result<Arc<dyn HookCondition>, String> + Send + Sync>;

/// Verifies a hook before it starts. An error is a failure of the hook. For trust: the script may have
/// changed.
pub type VerifyHandler = Arc<dyn Fn(&HookHandler) -> Result<(), String> + Send + Sync>;

/// Returns whether a user's hook is confined like a command, because it may run a file that a command can
/// write.
pub type IsHandlerConfined = Arc<dyn Fn(&HookHandler) -> bool + Send + Sync>;

/// Applies permission changes that a permission hook requests.
pub type OnPermissions = Arc<dyn Fn(&[PermissionUpdate]) -> Result<(), String> + Send + Sync>;

/// The session facts that hooks receive, and the services that they use.
#[derive(Clone)]
pub struct HookSession {
    id: Arc<str>,
    cwd: PathBuf,
    project_dir: PathBuf,
    transcript_path: Option<PathBuf>,
    mode: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    environment: Arc<[(OsString, OsString)]>,
    results: Option<Arc<OffloadStore>>,
    env_file: Option<PathBuf>,
    condition: Option<ParseCondition>,
    verify: Option<VerifyHandler>,
    confined: Option<IsHandlerConfined>,
    on_permissions: Option<OnPermissions>,
    call_tool: Option<CallTool>,
}

impl HookSession {
    /// Creates a session with this id in this folder, which is also the project folder.
    pub fn new(id: impl Into<Arc<str>>, cwd: impl Into<PathBuf>) -> HookSession {
        let cwd = cwd.into();
        HookSession {
            id: id.into(),
            project_dir: cwd.clone(),
            cwd,
            transcript_path: None,
            mode: None,
            environment: Arc::new([]),
            results: None,
            env_file: None,
            condition: None,
            verify: None,
            confined: None,
            on_permissions: None,
            call_tool: None,
        }
    }

    /// Sets the project folder, `CLAUDE_PROJECT_DIR`. Default: the working directory.
    #[must_use]
    pub fn with_project_dir(mut self, dir: impl Into<PathBuf>) -> HookSession {
        self.project_dir = dir.into();
        self
    }

    /// Sets the file of the conversation so far.
    #[must_use]
    pub fn with_transcript(mut self, path: impl Into<PathBuf>) -> HookSession {
        self.transcript_path = Some(path.into());
        self
    }

    /// Sets the function that returns the current permission mode. Default: the engine's mode, otherwise
    /// `default`.
    #[must_use]
    pub fn with_mode(mut self, mode: impl Fn() -> String + Send + Sync + 'static) -> HookSession {
        self.mode = Some(Arc::new(mode));
        self
    }

    /// Sets additional environment variables for hooks. Headers of requests use them too. Hooks are the
    /// user's own programs, so this is usually all of [`std::env::vars_os`].
    #[must_use]
    pub fn with_environment(
        mut self,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> HookSession {
        self.environment = variables.into_iter().collect();
        self
    }

    /// Sets the store for long hook texts outside of a turn. Default: none, and their middle is omitted.
    #[must_use]
    pub fn with_results(mut self, results: Arc<OffloadStore>) -> HookSession {
        self.results = Some(results);
        self
    }

    /// Sets the file to which session start hooks write variables: `CLAUDE_ENV_FILE`.
    #[must_use]
    pub fn with_env_file(mut self, path: impl Into<PathBuf>) -> HookSession {
        self.env_file = Some(path.into());
        self
    }

    /// Sets the parser for `if`. Default: none, and hooks with an `if` run for every call that their
    /// matcher matches.
    #[must_use]
    pub fn with_conditions(mut self, read: ParseCondition) -> HookSession {
        self.condition = Some(read);
        self
    }

    /// Sets the function that verifies a hook before it starts. Default: none.
    #[must_use]
    pub fn with_verify(mut self, verify: VerifyHandler) -> HookSession {
        self.verify = Some(verify);
        self
    }

    /// Sets which hooks of the user are confined like commands. Default: none. Hooks of the workspace
    /// always are.
    #[must_use]
    pub fn with_confined(mut self, confined: IsHandlerConfined) -> HookSession {
        self.confined = Some(confined);
        self
    }

    /// Sets the handler of permission changes. Default: none, and a requested change is reported.
    #[must_use]
    pub fn with_on_permissions(mut self, take: OnPermissions) -> HookSession {
        self.on_permissions = Some(take);
        self
    }

    /// Sets the function that calls tools of servers for hooks. Default: none, and such a hook fails.
    #[must_use]
    pub fn with_call_tool(mut self, call: CallTool) -> HookSession {
        self.call_tool = Some(call);
        self
    }

    fn mode_or(&self, port: impl FnOnce() -> Option<String>) -> String {
        match &self.mode {
            Some(mode) => mode(),
            None => port().unwrap_or_else(|| "default".into()),
        }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().rev().find(|(known, _)| known == name);
        found.and_then(|(_, value)| value.to_str())
    }
}

/// Checks whether a matcher can be parsed.
pub(crate) fn check_matcher(written: &str) -> Result<(), String> {
    HookMatcher::parse(Some(written)).map(|_| ())
}

/// A configured handler with its parsed matcher and condition.
struct ConfiguredHook {
    event: HookEvent,
    matcher: HookMatcher,
    handler: HookHandler,
    /// The name in messages: its command or address, and its origin. Unique within an event.
    label: String,
    /// The position in configuration order.
    place: usize,
    /// The position of the first identical hook.
    same: usize,
    condition: Option<Arc<dyn HookCondition>>,
    timeout: Duration,
    on_failure: OnFailure,
    /// Whether the hook has run, for `once`.
    ran: AtomicBool,
}

/// A hook, for display in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookListing {
    /// The event.
    pub event: String,
    /// The matcher as written.
    pub matcher: Option<String>,
    /// The type: `command`, `http`, `mcp_tool`, `prompt`, `agent`.
    pub kind: &'static str,
    /// The command, the address, or another description of the action.
    pub what: String,
    /// The origin of the hook.
    pub source: SettingsSource,
    /// Whether the hook can run: something fires its event, and its type is supported.
    pub runs: bool,
}

/// The error for invalid hooks, with the origin and the problem of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidHooks(pub Vec<(SettingsSource, String)>);

impl fmt::Display for InvalidHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (source, words)) in self.0.iter().enumerate() {
            let separator = if place == 0 { "" } else { "\n" };
            write!(f, "{separator}{source}: {words}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidHooks {}

/// The hooks of a session.
///
/// Clones are the same hooks. What they started in the background ends when the last of them is gone.
///
/// ```
/// use std::sync::Arc;
/// use haft_policy::hooks::{Hooks, HookSession};
/// use haft_policy::settings::Settings;
/// use haft_sandbox::LocalProcesses;
///
/// let processes = Arc::new(LocalProcesses::new(std::env::vars_os()));
/// let hooks = Hooks::from_settings(&Settings::default(), processes, HookSession::new("s-1", "/project"))?;
/// let for_the_engine: haft::hooks::HookSet = hooks.add_to(haft::hooks::HookSet::new());
/// assert!(hooks.listed().is_empty() && hooks.warnings().is_empty());
/// # Ok::<(), haft_policy::hooks::InvalidHooks>(())
/// ```
#[derive(Clone)]
pub struct Hooks(Arc<HooksInner>);

struct HooksInner {
    hooks: BTreeMap<HookEvent, Vec<Arc<ConfiguredHook>>>,
    session: HookSession,
    /// Environment variables that settings add to every command.
    env: Vec<(OsString, OsString)>,
    processes: Arc<dyn Processes>,
    bash: bool,
    #[cfg(feature = "http-hooks")]
    web: http::HookHttpClient,
    background: Arc<run::BackgroundHooks>,
    /// How many times in a row hooks kept an agent from stopping, by agent id. The main agent's id is
    /// empty.
    stops: Mutex<BTreeMap<String, u32>>,
    listed: Vec<HookListing>,
    warnings: Vec<SettingsWarning>,
}

impl Drop for HooksInner {
    fn drop(&mut self) {
        self.background.cancel.cancel(haft::Cause::Shutdown);
    }
}

impl Hooks {
    /// Creates the hooks of settings.
    ///
    /// # Errors
    /// Returns [`InvalidHooks`] with every problem if a matcher or an `if` is invalid, or if there are too
    /// many hooks. A hook that acts as a gate must not be left out.
    pub fn from_settings(
        settings: &Settings,
        processes: Arc<dyn Processes>,
        session: HookSession,
    ) -> Result<Hooks, InvalidHooks> {
        let mut read = HookLoader { session: &session, problems: Vec::new(), warnings: Vec::new() };
        let (mut hooks, mut listed) = (BTreeMap::<HookEvent, Vec<Arc<ConfiguredHook>>>::new(), Vec::new());
        for group in settings.hooks.groups.iter() {
            let event = HookEvent::from_name(&group.event);
            let matcher = HookMatcher::parse(group.matcher.as_deref());
            for handler in &group.handlers {
                listed.push(HookListing {
                    event: group.event.clone(),
                    matcher: group.matcher.clone(),
                    kind: action_kind(&handler.action),
                    what: describe_action(&handler.action),
                    source: handler.source.clone(),
                    runs: event.is_some() && is_run(&handler.action, &session),
                });
                let Some(event) = event else {
                    read.warn(
                        handler,
                        format!("nothing fires the event `{}`; this hook never runs", group.event),
                    );
                    continue;
                };
                match &matcher {
                    Ok(matcher) => {
                        let known = hooks.entry(event).or_default();
                        known.extend(read.hook(event, matcher, handler, known));
                    }
                    Err(words) => read.problems.push((handler.source.clone(), words.clone())),
                }
            }
        }
        for (event, hooks) in &hooks {
            if let Some(one_more) = hooks.get(limits::EVENT_HOOKS_MAX) {
                let words = format!("`{event}` has more than {} hooks", limits::EVENT_HOOKS_MAX);
                read.problems.push((one_more.handler.source.clone(), words));
            }
        }
        if let Some(one_more) = listed.get(limits::HOOKS_MAX) {
            let words = format!("there are more than {} hooks", limits::HOOKS_MAX);
            read.problems.push((one_more.source.clone(), words));
        }
        let HookLoader { problems, warnings, .. } = read;
        if !problems.is_empty() {
            return Err(InvalidHooks(problems));
        }
        let env = settings.env.iter().map(|(name, at)| (name.into(), at.value.0.clone().into())).collect();
        let bash = has_bash(&session);
        Ok(Hooks(Arc::new(HooksInner {
            hooks,
            env,
            processes,
            bash,
            #[cfg(feature = "http-hooks")]
            web: http::HookHttpClient::new(&settings.hooks),
            background: Arc::new(run::BackgroundHooks {
                cancel: Cancel::new(),
                running: Default::default(),
                reports: Mutex::new(Vec::new()),
            }),
            stops: Mutex::new(BTreeMap::new()),
            session,
            listed,
            warnings,
        })))
    }

    /// Adds these hooks to those of an engine, after the existing ones.
    #[must_use]
    pub fn add_to(&self, mut hooks: haft::hooks::HookSet) -> haft::hooks::HookSet {
        let entry = |event: HookEvent| {
            let longest = self.0.hooks.get(&event)?.iter().map(|hook| hook.timeout).max()?;
            let timeout = longest.saturating_add(limits::TIMEOUT_GRACE);
            Some(EventHooks { hooks: self.clone(), event, timeout })
        };
        if let Some(pre) = entry(HookEvent::PreToolUse) {
            hooks = hooks.before(pre);
        }
        if let Some(permission) = entry(HookEvent::PermissionRequest) {
            hooks = hooks.permission(permission);
        }
        if let Some(denied) = entry(HookEvent::PermissionDenied) {
            hooks = hooks.denied(denied);
        }
        // One entry for both events: which of the two fires is known only after the call.
        let both = [entry(HookEvent::PostToolUse), entry(HookEvent::PostToolUseFailure)];
        if let Some(post) = both.into_iter().flatten().max_by_key(|entry| entry.timeout) {
            hooks = hooks.after(post);
        }
        if let Some(batch) = entry(HookEvent::PostToolBatch) {
            hooks = hooks.after_batch(batch);
        }
        hooks
    }

    /// Returns all hooks of the settings, in order.
    pub fn listed(&self) -> &[HookListing] {
        &self.0.listed
    }

    /// Returns warnings about the hooks, for the user.
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.0.warnings
    }

    /// Returns and clears the reports of background hooks: failures, and messages that wake the model.
    pub fn take_reports(&self) -> Vec<BackgroundReport> {
        self.0.background.take()
    }
}

/// The state while hooks are created.
struct HookLoader<'a> {
    session: &'a HookSession,
    problems: Vec<(SettingsSource, String)>,
    warnings: Vec<SettingsWarning>,
}

impl HookLoader<'_> {
    fn warn(&mut self, handler: &HookHandler, message: impl Into<String>) {
        self.warnings.push(SettingsWarning { source: handler.source.clone(), message: message.into() });
    }

    fn hook(
        &mut self,
        event: HookEvent,
        matcher: &HookMatcher,
        handler: &HookHandler,
        known: &[Arc<ConfiguredHook>],
    ) -> Option<Arc<ConfiguredHook>> {
        let mut condition = None;
        if let Some(rule) = &handler.condition {
            if !event.is_of_call() {
                let words = format!("`if` is about calls, and `{event}` is not; this hook never runs");
                self.warn(handler, words);
                return None;
            }
            match self.session.condition.as_ref().map(|read| read(rule, &handler.source)) {
                Some(Ok(read)) => condition = Some(read),
                Some(Err(words)) => {
                    self.problems.push((handler.source.clone(), format!("`if`: {words}")));
                    return None;
                }
                None => self.warn(handler, "nothing understands `if` here; the hook runs for every call"),
            }
        }
        if !is_run(&handler.action, self.session) {
            let kind = action_kind(&handler.action);
            let fails = if event.is_gate() && handler.on_failure != Some(OnFailure::Continue) {
                "it blocks what it should look at"
            } else {
                "it is reported instead"
            };
            self.warn(handler, format!("hooks of the type `{kind}` are not run here; {fails}"));
        }
        let default = if event.is_gate() { OnFailure::Block } else { OnFailure::Continue };
        let on_failure = match handler.on_failure {
            Some(OnFailure::Block) if !event.may_block_on_failure() => OnFailure::Continue,
            given => given.unwrap_or(default),
        };
        let limit = match event {
            HookEvent::UserPromptSubmit => limits::TIMEOUT_PROMPT,
            HookEvent::SessionEnd => limits::TIMEOUT_SESSION_END,
            _ => limits::TIMEOUT,
        };
        let matcher = if event.has_matcher() { matcher.clone() } else { HookMatcher::All };
        Some(Arc::new(ConfiguredHook {
            event,
            matcher,
            label: hook_label(handler, known),
            place: known.len(),
            same: known
                .iter()
                .find(|hook| hook.handler.same_as(handler))
                .map_or(known.len(), |hook| hook.place),
            condition,
            timeout: handler.timeout.unwrap_or(limit),
            on_failure,
            ran: AtomicBool::new(false),
            handler: handler.clone(),
        }))
    }
}

fn action_kind(action: &HookAction) -> &'static str {
    match action {
        HookAction::Command { .. } => "command",
        HookAction::Http { .. } => "http",
        HookAction::McpTool { .. } => "mcp_tool",
        HookAction::Prompt { .. } => "prompt",
        HookAction::Agent { .. } => "agent",
    }
}

fn is_run(action: &HookAction, session: &HookSession) -> bool {
    match action {
        HookAction::Command { .. } => true,
        HookAction::Http { .. } => cfg!(feature = "http-hooks"),
        HookAction::McpTool { .. } => session.call_tool.is_some(),
        HookAction::Prompt { .. } | HookAction::Agent { .. } => false,
    }
}

/// Describes what a handler does.
fn describe_action(action: &HookAction) -> String {
    match action {
        HookAction::Command { command, args, .. } => {
            let args = args.iter().flatten().map(|arg| format!(" {arg}"));
            std::iter::once(command.clone()).chain(args).collect()
        }
        HookAction::Http { url, .. } => url.clone(),
        HookAction::McpTool { server, tool, .. } => format!("{server} {tool}"),
        HookAction::Prompt { prompt, .. } | HookAction::Agent { prompt, .. } => prompt.clone(),
    }
}

/// Returns the one-line name of a hook in messages.
fn hook_label(handler: &HookHandler, known: &[Arc<ConfiguredHook>]) -> String {
    // The model reads the name, and the query of an address may contain a secret.
    let what = match &handler.action {
        HookAction::Http { url, .. } => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
        other => describe_action(other),
    };
    let line = what.lines().next().unwrap_or_default();
    let cut = truncate_chars(line, limits::LABEL_CHARS_MAX);
    let more = if cut.len() < what.len() { "…" } else { "" };
    let label = format!("{cut}{more} ({})", handler.source);
    // A file may contain several hooks with the same beginning on one line.
    let alike = |label: &str| known.iter().any(|hook| hook.label == label);
    let numbered = (2..).map(|number| format!("{label} #{number}"));
    std::iter::once(label.clone()).chain(numbered).find(|label| !alike(label)).unwrap_or(label)
}

/// Returns whether bash is available; otherwise command lines go to `sh`.
fn has_bash(session: &HookSession) -> bool {
    let path = session.variable("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    path.split(':').any(|dir| Path::new(dir).join("bash").is_file())
}
