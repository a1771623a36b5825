//! From flags and environment to an engine that is ready for calls.

mod base;
#[cfg(feature = "browser")]
mod browser;
mod confine;
mod kit;
mod pool;
mod said;
mod search;
mod servers;
mod tools;
#[cfg(feature = "web")]
mod web;
mod workspace;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haft::env::Lookup;
use haft::ports::Asker;
use haft::{CallLog, Engine, Gates, Registry, TaskTable, Workspace};
use haft_policy::gate::{Findings, Policy, ShellAnalyzer};
use haft_policy::hooks::Hooks;
use haft_tools::cron::CronTable;
use haft_tools::{Plans, Seen};

use self::tools::{core, warn_of_clashes};
use crate::Usage;
use crate::args::Common;
use crate::given::Given;
use crate::hooks;
use crate::output;
use crate::processes::Starter;
use crate::terminal::Terminal;

pub(crate) use self::base::{Base, Ground, Joining, Member};
pub(crate) use self::kit::skills_of;
pub(crate) use self::pool::{Lent, Links, Pool, Said};
pub(crate) use self::said::{Warnings, report_tasks};
pub(crate) use self::servers::{NotUsed, Planned, PlannedServer};

/// How long results that were too long for the model are kept.
pub(crate) const RESULTS_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The children of this program, of which nothing may be left when it ends.
static PROCESSES: Mutex<Vec<Arc<Starter>>> = Mutex::new(Vec::new());

/// Ends what was started. To be called before the program ends.
pub(crate) fn close() {
    let processes = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    processes.iter().for_each(|processes| processes.shutdown());
}

/// An engine, the rules that it asks, and where they come from.
pub(crate) struct Session {
    /// No other session of this machine has it.
    pub(crate) id: String,
    pub(crate) workspace: Workspace,
    pub(crate) engine: Engine,
    pub(crate) policy: Policy,
    pub(crate) given: Given,
    /// The hooks of the settings, which the engine has.
    pub(crate) hooks: Hooks,
    /// What runs in the background, and ends with the session.
    pub(crate) tasks: Arc<TaskTable>,
    /// The calls that ran.
    pub(crate) calls: CallLog,
    /// Prompts that are planned for later.
    pub(crate) crons: Arc<CronTable>,
    /// What was read of files.
    pub(crate) seen: Seen,
    /// Whether children can do no more than they are granted.
    pub(crate) confined: bool,
    /// What was said about settings, rules and trust.
    pub(crate) warnings: Vec<String>,
    /// What servers are started with, should they be.
    pub(crate) links: Links,
}

/// Puts a session together, and says what is doubtful about it. Looks at the disk, starts nothing.
pub(crate) fn open(common: &Common) -> Result<Session, Usage> {
    open_with(common, &|name| std::env::var_os(name))
}

/// The same for the calls of one command line, which have no memory of others.
pub(crate) fn open_once(common: &Common) -> Result<Session, Usage> {
    said(make(common, &|name| std::env::var_os(name), Purpose::Once, None)?)
}

/// The same with another environment than that of this process.
pub(crate) fn open_with(common: &Common, lookup: Lookup<'_>) -> Result<Session, Usage> {
    said(make(common, lookup, Purpose::Run, None)?)
}

/// The same in a copy of a workspace, with another environment than that of this process. Its children change nothing outside
/// and reach nobody, whatever settings and rules allow.
pub(crate) fn open_shut(common: &Common, lookup: Lookup<'_>) -> Result<Session, Usage> {
    said(make(common, lookup, Purpose::Replay, None)?)
}

/// The same for a session that goes on under its id.
pub(crate) fn open_again(common: &Common, id: &str) -> Result<Session, Usage> {
    said(make(common, &|name| std::env::var_os(name), Purpose::Run, Some(id))?)
}

impl Session {
    /// Whether it is one that is continued, and that planned when it ended.
    pub(crate) fn plans_on(&self, lookup: Lookup<'_>) -> bool {
        Plans::kept_in(&kit::shelf(lookup, Purpose::Run)).is_planning(&self.id)
    }
}

/// The same for who only looks: no sandbox is made, whatever the mode.
pub(crate) fn look(common: &Common) -> Result<Session, Usage> {
    said(inspect(common)?)
}

/// Puts a session together for who only looks, and keeps what is doubtful about it for who asks.
pub(crate) fn inspect(common: &Common) -> Result<Session, Usage> {
    make(common, &|name| std::env::var_os(name), Purpose::Look, None)
}

/// What all sessions of a server stand on.
pub(crate) fn ground(common: &Common) -> Result<Ground, Usage> {
    let lookup: Lookup<'_> = &|name| std::env::var_os(name);
    let tools = |given: &_, analyzer: &_| {
        core(given, common, lookup, Purpose::Run, (None, &Seen::default()), analyzer)
    };
    Ground::read(tools, common, lookup)
}

/// Walls for some of its sessions; says, in the form that `tell` gives it, what is doubtful about their rules.
pub(crate) fn base(ground: Ground, tell: impl Fn(String) -> String) -> Result<Base, Usage> {
    let (base, _, findings) = Base::new(ground, Purpose::Run, &hooks::session_id())?;
    let lints = findings.lints.iter().map(ToString::to_string);
    let words = base.ground.given.warnings().into_iter().chain(lints).chain(findings.notices);
    words.for_each(|words| output::warning(&output::one_line(&tell(words))));
    Ok(base)
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To run calls, as long as somebody has some.
    Run,
    /// To run the calls of one command line.
    Once,
    /// To run calls again in a copy of their workspace, which nothing leaves.
    Replay,
    /// To say what would become of them: nothing is made for it.
    Look,
}

fn said(session: Session) -> Result<Session, Usage> {
    session.warnings.iter().for_each(|words| output::warning(&output::one_line(words)));
    warn_of_clashes(&session.engine.snapshot());
    Ok(session)
}

fn make(common: &Common, lookup: Lookup<'_>, purpose: Purpose, id: Option<&str>) -> Result<Session, Usage> {
    let own = id.map_or_else(hooks::session_id, str::to_owned);
    let seen = Seen::default();
    let tools = |given: &_, analyzer: &_| core(given, common, lookup, purpose, (id, &seen), analyzer);
    let session = assemble(tools, common, lookup, (purpose, own))?;
    Ok(Session { seen, ..session })
}

fn assemble(
    tools: impl FnOnce(&Given, &ShellAnalyzer) -> Result<Registry, Usage>,
    common: &Common,
    lookup: Lookup<'_>,
    (purpose, id): (Purpose, String),
) -> Result<Session, Usage> {
    let ground = Ground::read(tools, common, lookup)?;
    let asker = if common.non_interactive { None } else { Terminal::open(ground.workspace.cwd()) };
    let asker = asker.map(|asker| Arc::new(asker) as Arc<dyn Asker>);
    let (base, policy, findings) = Base::new(ground, purpose, &id)?;
    let search = base.ground.settings().tool_search.as_ref().map(|at| at.value.clone()).unwrap_or_default();
    let mut gates = Gates::default();
    gates.groups_off = base.ground.groups_off()?;
    if let Some(above) = search.above {
        gates.defer_above = usize::try_from(above).unwrap_or(usize::MAX);
    }
    if let Some(percent) = search.percent.and_then(|percent| u8::try_from(percent).ok()) {
        gates.defer_above_percent = percent;
    }
    let joining = Joining {
        id: id.clone(),
        policy: policy.clone(),
        asker: asker.clone(),
        events: Warnings,
        gates,
        results: base.ground.results().zip(base.ground.results()),
    };
    let Member { engine, bare, hooks, tasks, calls, servers } = base.join(joining)?;
    let crons = kit::crons(base.ground.state.as_deref(), base.ground.workspace.cwd());
    let engine = engine.ports(|ports| {
        ports.crons = Some(crons.clone());
        // What a skill lets run ends when the user speaks again, which only a run hears; all others end at once.
        ports.grants = Some(Arc::new(policy.clone()));
    });
    let links = base.links(&policy, asker, bare, search.enabled != Some(false), &servers);
    let confined = base.processes.confines();
    let warnings = warnings(&base.ground.given, findings, &hooks);
    let Ground { workspace, given, .. } = base.ground;
    let seen = Seen::default();
    Ok(Session {
        id,
        workspace,
        engine,
        policy,
        given,
        hooks,
        tasks,
        calls,
        crons,
        seen,
        confined,
        warnings,
        links,
    })
}

/// What is doubtful about settings, rules, trust and hooks, in words.
fn warnings(given: &Given, findings: Findings, hooks: &Hooks) -> Vec<String> {
    let lints = findings.lints.iter().map(ToString::to_string);
    let of_hooks = hooks.warnings().iter().map(ToString::to_string);
    given.warnings().into_iter().chain(lints).chain(findings.notices).chain(of_hooks).collect()
}

/// Remembers who starts children, so that none is left when this program ends.
fn started_by(starter: Starter) -> Arc<Starter> {
    let starter = Arc::new(starter);
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner).push(starter.clone());
    starter
}

#[cfg(test)]
mod tests;
