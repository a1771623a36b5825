//! Makes the calls again in a copy of the workspace, and compares their results with the recorded ones.
//!
//! Everything outside of the copy is out of reach, whatever rules and settings allow. A call that would
//! write there, contact another machine, or run without the sandbox is not made ([`CopyRules`]). The
//! sandbox opens nothing but the copy, and no server is started. A call that would ask is made if it ran in
//! the recording. Paths of the recorded workspace are replaced by those of the copy in inputs, and vice
//! versa in results.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use haft::decision::{CallGrants, DecisionReason, DecisionSource, Verdict};
use haft::dispatch::TurnHandle;
use haft::files::HiddenPaths;
use haft::ports::{AuthorizationRequest, Authorizer, RuleSetId};
use haft::tool::AnyTool;
use haft::{Effects, ToolResult};
use haft_policy::gate::Policy;
use serde_json::Value;

use super::check_only::CallChecker;
use super::compare::{first_difference, normalize_text, replace_paths};
use super::current_decision::CurrentDecision;
use super::recorded_results::{RecordedApprovals, group_by_turn, result_text, to_tool_call};
use super::recording::{CallRecording, RecordedCall, RecordedOutcome};
use super::workspace_copy::WorkspaceCopy;
use super::{ReplayedCall, open_session, quiet_engine};
use crate::assembly::{ProcessGuard, SessionAssembler, SessionParts};
use crate::text::one_line;
use crate::{SessionEnvironment, SessionError, SessionOptions, SessionPurpose};

/// Observes calls while they are made again.
pub trait RerunWatcher {
    /// Receives the processes of the session, to end them if the program ends early.
    fn opened(&self, processes: &ProcessGuard);

    /// Receives the turn that begins, and `None` when it has ended.
    fn turn_changed(&self, turn: Option<TurnHandle>);

    /// Returns whether the user interrupted. Called between turns.
    fn is_interrupted(&self) -> bool;
}

/// Why calls were not made again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RerunError {
    /// There is no sandbox that would confine calls to the copy.
    NoSandbox,
    /// Settings let a command run without the sandbox.
    UnsandboxedCommand {
        /// The command.
        command: String,
        /// The origin of the setting.
        source: String,
    },
    /// Settings add a working directory.
    AddedDirectory(PathBuf),
    /// The user interrupted. The copy is removed.
    Interrupted,
    /// The workspace can't be copied, or a session can't be opened.
    Session(SessionError),
}

impl fmt::Display for RerunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RerunError::NoSandbox => f.write_str("calls are made again in a sandbox, which is unavailable"),
            RerunError::UnsandboxedCommand { command, source } => {
                write!(f, "{source}: `{command}` runs without the sandbox")
            }
            RerunError::AddedDirectory(dir) => write!(f, "settings add the directory `{}`", dir.display()),
            RerunError::Interrupted => f.write_str("interrupted"),
            RerunError::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RerunError {}

impl From<SessionError> for RerunError {
    fn from(error: SessionError) -> RerunError {
        RerunError::Session(error)
    }
}

/// Makes recorded calls again in a copy of the workspace, and compares their results.
///
/// # Errors
/// Returns an error if there is no sandbox, settings open more than a copy of one directory, the workspace
/// can't be copied, or the user interrupts.
pub async fn rerun_calls(
    recording: &CallRecording,
    options: &SessionOptions,
    watcher: &dyn RerunWatcher,
) -> Result<Vec<ReplayedCall>, RerunError> {
    let here = SessionAssembler::load(options, SessionPurpose::Inspect)?.open()?;
    let original = here.workspace.cwd().to_owned();
    let copy = WorkspaceCopy::new(&original).map_err(SessionError::tools)?;
    let session = open_in_copy(&copy, &here, options)?;
    watcher.opened(&session.process_guard);
    let work = session.workspace.cwd().to_owned();
    let then = recording.cwd.clone().unwrap_or_else(|| original.clone());
    if then != original {
        session.notices.warn(format!(
            "this was recorded in {}, and is replayed in a copy of {}",
            one_line(&then.display().to_string()),
            one_line(&original.display().to_string())
        ));
    }
    let engine = quiet_engine(&session)
        .permissions(CopyRules {
            policy: session.policy.clone(),
            root: work.clone(),
            confined: session.confined,
        })
        .asker(RecordedApprovals::new(recording))
        .build();
    let checker = CallChecker::new(&session);
    let mut replayed = Vec::with_capacity(recording.calls.len());
    let mut is_interrupted = false;
    for calls in group_by_turn(&recording.calls) {
        is_interrupted = watcher.is_interrupted();
        if is_interrupted {
            break;
        }
        let made = calls.iter().filter_map(|(at, recorded)| {
            let input = replace_paths(recorded.input.as_deref()?, &then, &work);
            Some(to_tool_call(*at, recorded, input))
        });
        let turn = engine.turn();
        watcher.turn_changed(Some(turn.handle()));
        let results = turn.run(made.collect::<Vec<_>>()).await;
        watcher.turn_changed(None);
        let mut results = results.into_iter();
        for (at, recorded) in &calls {
            let result = recorded.input.is_some().then(|| results.next()).flatten();
            replayed.push(match result {
                None => checker.check(*at, recorded).await,
                Some(result) => compare_call(*at, recorded, &result, (&work, &then)),
            });
        }
    }
    // No process may use the copy while it is removed.
    engine.shutdown(haft::Cause::Shutdown);
    session.process_guard.shut_down();
    if is_interrupted {
        return Err(RerunError::Interrupted);
    }
    replayed.sort_by_key(|call| call.n);
    Ok(replayed)
}

/// Opens a session in the copy, with the user's settings, the trust of the workspace, and its own state
/// folder.
fn open_in_copy(
    copy: &WorkspaceCopy,
    here: &SessionParts,
    options: &SessionOptions,
) -> Result<SessionParts, RerunError> {
    let loaded = &here.given.loaded;
    let trust_hash = loaded.judgement.is_trusted().then(|| loaded.inventory.hash().to_string());
    let state: OsString = copy.state().into();
    let outer = options.environment.clone();
    let environment = SessionEnvironment::new(move |name| match name {
        haft::env::HAFT_STATE_DIR => Some(state.clone()),
        name => outer.get(name),
    });
    let options = SessionOptions {
        cwd: Some(copy.work()),
        add_dir: Vec::new(),
        non_interactive: false,
        trust_hash,
        environment,
        ..options.clone()
    };
    let session = open_session(&options, SessionPurpose::Replay)?;
    if !session.confined {
        return Err(RerunError::NoSandbox);
    }
    if let Some(command) = session.given.loaded.settings.sandbox.excluded_commands.first() {
        let (command, source) = (command.value.clone(), command.source.to_string());
        return Err(RerunError::UnsandboxedCommand { command, source });
    }
    if let Some(other) = session.workspace.dirs().find(|dir| *dir != session.workspace.cwd()) {
        return Err(RerunError::AddedDirectory(other.to_owned()));
    }
    Ok(session)
}

fn compare_call(
    at: usize,
    recorded: &RecordedCall,
    result: &ToolResult,
    (work, then): (&Path, &Path),
) -> ReplayedCall {
    let tool = result.tool_name().to_owned();
    let row = |today: &str, why: String, differs| {
        ReplayedCall::new(at, recorded, tool.clone(), today, why, differs)
    };
    let now = replace_paths(&result_text(result), work, then);
    if let Some(error) = result.error().filter(|error| !error.kind().began()) {
        let today = match error.kind() {
            haft::ErrorKind::UnknownTool => CurrentDecision::UnknownTool,
            haft::ErrorKind::InvalidInput => CurrentDecision::InvalidInput,
            _ => CurrentDecision::Decided(Verdict::Deny),
        };
        if now.contains(OUT_OF_REACH) {
            return row("not made", now, false);
        }
        return row(&today.name(), now, today.contradicts(recorded));
    }
    let Some(text) = &recorded.text else {
        return row("made", "the recording has no result to compare with".to_owned(), false);
    };
    match (&recorded.outcome, result.is_error()) {
        (RecordedOutcome::Ran, true) => return row("failed", now, true),
        (RecordedOutcome::Failed, false) => return row("ran", "it failed then".to_owned(), true),
        (RecordedOutcome::Refused(_), _) => return row("ran", "it was refused then".to_owned(), true),
        _ => {}
    }
    let (a, b) = (normalize_text(text), normalize_text(&now));
    if a == b {
        row("same", String::new(), false)
    } else {
        row("other result", first_difference(&a, &b), true)
    }
}

/// The message for calls that a replay never makes.
const OUT_OF_REACH: &str = "a replay stays in its copy";

/// The rules of the session, with everything outside of the copy denied.
struct CopyRules {
    policy: Policy,
    root: PathBuf,
    confined: bool,
}

impl CopyRules {
    /// Returns why a call would leave the copy, if it would.
    fn leaves(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        let runs_in_child = request.tool.spec().runs_in_child();
        if request.external && !runs_in_child {
            return Some("its tool is a server's".to_owned());
        }
        if runs_in_child && !self.confined {
            return Some("nothing confines it".to_owned());
        }
        if request.input.get("dangerouslyDisableSandbox") == Some(&Value::Bool(true)) {
            return Some("it asks to run without the sandbox".to_owned());
        }
        // The sandbox confines child processes to the copy, but grants a call its allowed declared effects.
        // So a command that declares a write outside is denied here.
        let effects = request.effects;
        let mut changed = effects.writes.iter().chain(&effects.deletes);
        if let Some(path) = changed.find(|path| !path.at.real.starts_with(&self.root)) {
            return Some(format!("it changes `{}`", path.at.real.display()));
        }
        if let Some(reach) = request.declared().reaches.first() {
            return Some(format!("it reaches `{}`", reach.host));
        }
        if request.declared().asks_user || request.declared().delegates {
            return Some("it needs a user or a model".to_owned());
        }
        if request.declared().unknown && !runs_in_child {
            return Some("nobody knows what it touches".to_owned());
        }
        None
    }
}

impl Authorizer for CopyRules {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        let Some(why) = self.leaves(request) else { return self.policy.reasons(request) };
        let denial = DecisionReason::new(DecisionSource::Protected, Verdict::Deny, OUT_OF_REACH);
        vec![denial.with_message(why)]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        self.policy.rule_set()
    }

    fn may_ask(&self, source: DecisionSource) -> bool {
        self.policy.may_ask(source)
    }

    fn grants(&self, request: &AuthorizationRequest<'_>, approved: bool) -> CallGrants {
        self.policy.grants(request, approved)
    }

    fn may_prompt(&self) -> bool {
        self.policy.may_prompt()
    }

    fn effects(&self, name: &str, tool: &AnyTool, input: &Value) -> Option<Effects> {
        self.policy.effects(name, tool, input)
    }

    fn tool_denial(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        self.policy.tool_denial(name, tool)
    }

    fn hidden(&self, request: &AuthorizationRequest<'_>) -> Option<HiddenPaths> {
        self.policy.hidden(request)
    }
}
