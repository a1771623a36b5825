//! `--run`: the calls are made again, in a copy of the workspace, and their results compared with the recorded ones.
//!
//! What is outside of the copy is out of reach, whatever rules and settings allow: a call that would write there, reach another
//! machine, or run without the sandbox is not made ([`Inside`]), the sandbox opens nothing beside the copy, and no server is
//! started. What would ask is made if it ran then. Paths of the recorded workspace are those of the copy in inputs, and the
//! other way round in results.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::files::Hidden;
use haft::ports::{Answer, Approval, Asker, Authorizer, Request, UserQuestion};
use haft::{AnyTool, BoxFuture, Effects, OffloadStore, ToolResult};
use haft_policy::gate::Policy;
use serde_json::Value;

use super::compare::{first_difference, moved, normal};
use super::copy::Copy;
use super::dry::Judge;
use super::fed::{Silent, call, shown, turns};
use super::recording::{Outcome, Past, Recording};
use super::report::Row;
use super::verdict::Today;
use crate::args::Common;
use crate::interrupt::Interrupts;
use crate::session::{self, Environment, SessionOptions, SessionParts, SessionPurpose};
use crate::{Usage, output, turn};

pub(super) fn rows(recording: &Recording, common: &Common) -> Result<Vec<Row>, Usage> {
    let interrupts =
        Interrupts::listen().map_err(|error| Usage(format!("signals can't be heard: {error}")))?;
    if common.no_sandbox {
        return Err(Usage(
            "--run makes calls again and needs the sandbox; leave --no-sandbox out".to_owned(),
        ));
    }
    let here = session::inspect(&common.options(), SessionPurpose::Inspect)?;
    let original = here.workspace.cwd().to_owned();
    let copy = Copy::of(&original).map_err(Usage)?;
    let session = in_copy(&copy, &here, common)?;
    let work = session.workspace.cwd().to_owned();
    let then = recording.cwd.clone().unwrap_or_else(|| original.clone());
    if then != original {
        output::warning(&format!(
            "this was recorded in {}, and is replayed in a copy of {}",
            output::one_line(&then.display().to_string()),
            output::one_line(&original.display().to_string())
        ));
    }
    let ran: Vec<bool> =
        recording.calls.iter().map(|past| !matches!(past.outcome, Outcome::Refused(_))).collect();
    let engine = session
        .engine
        .clone()
        .hooks(haft::Hooks::new())
        .events(Silent)
        .result_store(OffloadStore::temporary())
        .permissions(Inside {
            policy: session.policy.clone(),
            root: work.clone(),
            confined: session.confined,
        })
        .asker(IfItRan(ran))
        .build();
    let judge = Judge::of(&session)?;
    let runtime = turn::runtime(4)?;
    let mut rows = Vec::with_capacity(recording.calls.len());
    for calls in turns(&recording.calls) {
        if interrupts.any() {
            // Nothing may work in the copy while it is removed.
            engine.shutdown(haft::Cause::Shutdown);
            session::close();
            return Err(Usage("interrupted; the copy is removed".to_owned()));
        }
        let made = calls.iter().filter_map(|(at, past)| {
            let input = moved(past.input.as_deref()?, &then, &work);
            Some(call(*at, past, input))
        });
        let made: Vec<_> = made.collect();
        let results = runtime.block_on(async {
            let turn = engine.turn();
            interrupts.tell(Some(turn.handle()));
            let results = turn.run(made).await;
            interrupts.tell(None);
            results
        });
        let mut results = results.into_iter();
        for (at, past) in &calls {
            let result = past.input.is_some().then(|| results.next()).flatten();
            rows.push(match result {
                None => judge.row(*at, past),
                Some(result) => row(*at, past, &result, (&work, &then)),
            });
        }
    }
    engine.shutdown(haft::Cause::Shutdown);
    runtime.shutdown_background();
    session::close();
    rows.sort_by_key(|row| row.n);
    Ok(rows)
}

/// A session of the copy, with the user's settings, the trust of the workspace, and a state of its own.
fn in_copy(copy: &Copy, here: &SessionParts, common: &Common) -> Result<SessionParts, Usage> {
    let loaded = &here.given.loaded;
    let trust_hash = loaded.judgement.is_trusted().then(|| loaded.inventory.hash().to_string());
    let common = Common {
        cwd: Some(copy.work()),
        add_dir: Vec::new(),
        non_interactive: false,
        trust_hash,
        ..common.clone()
    };
    let state: OsString = copy.state().into();
    let environment = Environment::new(move |name| match name {
        haft::env::HAFT_STATE_DIR => Some(state.clone()),
        name => std::env::var_os(name),
    });
    let options = SessionOptions { environment, ..common.options() };
    let session = session::open(&options, SessionPurpose::Replay)?;
    let sandbox = &session.given.loaded.settings.sandbox;
    if !session.confined {
        let words = "--run makes calls again and needs the sandbox, which there is none of here; `haft doctor` says why";
        return Err(Usage(words.to_owned()));
    }
    if let Some(command) = sandbox.excluded_commands.first() {
        return Err(Usage(format!(
            "{}: `{}` runs without the sandbox, so --run can't keep it in a copy; leave `excludedCommands` out",
            command.source, command.value
        )));
    }
    if let Some(other) = session.workspace.dirs().find(|dir| *dir != session.workspace.cwd()) {
        return Err(Usage(format!(
            "settings add the directory `{}`, and --run works in a copy of one; leave `additionalDirectories` out",
            other.display()
        )));
    }
    Ok(session)
}

fn row(at: usize, past: &Past, result: &ToolResult, (work, then): (&Path, &Path)) -> Row {
    let tool = result.tool_name().to_owned();
    let row = |today: &str, why: String, differs| Row::of(at, past, tool.clone(), today, why, differs);
    let now = moved(&shown(result), work, then);
    if let Some(error) = result.error().filter(|error| !error.kind().began()) {
        let today = match error.kind() {
            haft::ErrorKind::UnknownTool => Today::Unknown,
            haft::ErrorKind::InvalidInput => Today::Invalid,
            _ => Today::Deny,
        };
        if now.contains(OUT_OF_REACH) {
            return row("not made", now, false);
        }
        return row(today.word(), now, today.contradicts(past));
    }
    let Some(recorded) = &past.text else {
        return row("made", "the recording has no result to compare with".to_owned(), false);
    };
    match (&past.outcome, result.is_error()) {
        (Outcome::Ran, true) => return row("failed", now, true),
        (Outcome::Failed, false) => return row("ran", "it failed then".to_owned(), true),
        (Outcome::Refused(_), _) => return row("ran", "it was refused then".to_owned(), true),
        _ => {}
    }
    let (a, b) = (normal(recorded), normal(&now));
    match a == b {
        true => row("same", String::new(), false),
        false => row("other result", first_difference(&a, &b), true),
    }
}

/// Marks what a replay never does.
const OUT_OF_REACH: &str = "a replay stays in its copy";

/// Rules of the session, and nothing outside of the copy.
struct Inside {
    policy: Policy,
    root: PathBuf,
    confined: bool,
}

impl Inside {
    /// Why a call would leave the copy, if it would.
    fn leaves(&self, request: &Request<'_>) -> Option<String> {
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
        // The sandbox keeps children to the copy, but opens for a call what that declares and was allowed: a command that says
        // where it writes is kept from it here.
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

impl Authorizer for Inside {
    fn reasons(&self, request: &Request<'_>) -> Vec<DecisionReason> {
        let Some(why) = self.leaves(request) else { return self.policy.reasons(request) };
        let denial = DecisionReason::new(DecisionSource::Protected, Verdict::Deny, OUT_OF_REACH);
        vec![denial.with_message(why)]
    }

    fn may_ask(&self) -> bool {
        self.policy.may_ask()
    }

    fn may_prompt(&self) -> bool {
        self.policy.may_prompt()
    }

    fn effects(&self, name: &str, tool: &AnyTool, input: &Value) -> Option<Effects> {
        self.policy.effects(name, tool, input)
    }

    fn hides(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        self.policy.hides(name, tool)
    }

    fn hidden(&self, request: &Request<'_>) -> Option<Hidden> {
        self.policy.hidden(request)
    }
}

/// Says yes to what ran then.
struct IfItRan(Vec<bool>);

impl Asker for IfItRan {
    fn approve<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let at = approval.call_id.strip_prefix('r').and_then(|at| at.parse::<usize>().ok());
        let ran = at.and_then(|at| self.0.get(at)).copied().unwrap_or(false);
        let answer = if ran { Answer::Once } else { Answer::NoBecause("it was refused then".to_owned()) };
        Box::pin(std::future::ready(answer))
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(std::future::ready(None))
    }
}
