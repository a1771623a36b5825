//! From flags and environment to an engine that is ready for calls.

mod confine;
mod pool;
mod said;
mod servers;
mod tools;
mod workspace;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::env::Lookup;
use haft::ports::{Asker, Processes};
use haft::{Engine, Gates, OffloadStore, Registry, TaskTable, Workspace};
use haft_policy::gate::{Findings, IsFull, Misses, Policy, Setup};
use haft_policy::hooks::Hooks;

use self::confine::{children, surroundings};
use self::said::Warnings;
use self::tools::{bash, readers, warn_of_clashes, with_scripts};
use self::workspace::{real, with_directories, workspace};
use crate::Usage;
use crate::args::Common;
use crate::given::{self, Given};
use crate::hooks;
use crate::output;
use crate::processes::{self, Starter};
use crate::terminal::Terminal;

pub(crate) use self::pool::{Lent, Links, Pool, Said};
pub(crate) use self::said::report_tasks;
pub(crate) use self::servers::{NotUsed, Planned, PlannedServer};

/// How long results that were too long for the model are kept.
pub(crate) const RESULTS_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The children of this program, of which nothing may be left when it ends.
static PROCESSES: OnceLock<Arc<Starter>> = OnceLock::new();

/// Ends what was started. To be called before the program ends.
pub(crate) fn close() {
    if let Some(processes) = PROCESSES.get() {
        processes.shutdown();
    }
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

/// The same with another environment than that of this process.
pub(crate) fn open_with(common: &Common, lookup: Lookup<'_>) -> Result<Session, Usage> {
    said(make(common, lookup, Purpose::Run)?)
}

/// The same for who only looks: no sandbox is made, whatever the mode.
pub(crate) fn look(common: &Common) -> Result<Session, Usage> {
    said(inspect(common)?)
}

/// Puts a session together for who only looks, and keeps what is doubtful about it for who asks.
pub(crate) fn inspect(common: &Common) -> Result<Session, Usage> {
    make(common, &|name| std::env::var_os(name), Purpose::Look)
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To run calls.
    Run,
    /// To say what would become of them: nothing is made for it.
    Look,
}

fn said(session: Session) -> Result<Session, Usage> {
    session.warnings.iter().for_each(|words| output::warning(&output::one_line(words)));
    warn_of_clashes(&session.engine.snapshot());
    Ok(session)
}

fn make(common: &Common, lookup: Lookup<'_>, purpose: Purpose) -> Result<Session, Usage> {
    let tools = |given: &Given| {
        let tools = haft_tools::core_with(&bash(lookup, given)?);
        Registry::new().with(tools).map_err(|error| Usage(error.to_string()))
    };
    assemble(tools, common, lookup, purpose)
}

fn assemble(
    tools: impl FnOnce(&Given) -> Result<Registry, Usage>,
    common: &Common,
    lookup: Lookup<'_>,
    purpose: Purpose,
) -> Result<Session, Usage> {
    let from_environment = || haft::env::max_concurrency(lookup).map_err(|error| Usage(error.to_string()));
    let max_concurrency = match common.max_concurrency {
        Some(calls) => Some(calls),
        None => from_environment()?,
    };
    let state = haft::env::state_dir(lookup).map(|dir| real(&dir));
    let config = haft::env::config_dir(lookup).map(|dir| real(&dir));

    let mut workspace = workspace(common)?;
    let given = given::load(common, workspace.cwd(), lookup)?;
    workspace = with_directories(workspace, &given);
    let registry = with_scripts(tools(&given)?, common, config.as_deref(), &given)?;
    let usual = given.places.usual.iter().map(|dir| real(dir));
    for dir in [&state, &config].into_iter().flatten().cloned().chain(usual) {
        workspace = workspace.with_protected(dir);
    }
    // Costs nothing until something is started.
    let wanted = &given.loaded.settings.sandbox;
    let confined = processes::is_wanted(common.no_sandbox, wanted);
    let starter = if confined { Starter::confined() } else { Starter::unconfined() };
    let starter = PROCESSES.get_or_init(|| Arc::new(starter));
    let must =
        wanted.fail_if_unavailable.as_ref().filter(|must| must.value && confined && purpose == Purpose::Run);
    let processes: Arc<dyn Processes> = Arc::new(children(starter, &given));
    let (full, misses): (IsFull, Misses) = match purpose {
        Purpose::Run => {
            let (full, misses) = (starter.clone(), starter.clone());
            (Arc::new(move || full.is_full()), Arc::new(move || misses.misses()))
        }
        Purpose::Look => (Arc::new(processes::can_be_full), Arc::new(processes::may_leave_open)),
    };
    let (policy, findings) = policy(common, &given, &workspace, &registry, (full, misses), &processes)?;
    let readers = readers(&registry);
    let asker = if common.non_interactive { None } else { Terminal::open(workspace.cwd()) };

    let id = hooks::session_id();
    let plan =
        processes::sandbox(wanted, policy.walls(), surroundings(common, &given, &workspace, &state, &id))?;
    starter.plan(plan);
    if let Some(must) = must
        && let Err(words) = starter.sandbox()
    {
        return Err(Usage(format!("{words} (`failIfUnavailable`, {})", must.source)));
    }
    let tasks = Arc::new(TaskTable::new());
    let base = registry.clone();
    let mut engine =
        Engine::new(registry).workspace(workspace.clone()).permissions(policy.clone()).events(Warnings);
    engine = engine.session_id(id.as_str()).ports(|ports| {
        ports.processes = Some(processes.clone());
        ports.mode = Some(Arc::new(policy.clone()));
        ports.tasks = Some(tasks.clone());
    });
    if let Some(calls) = max_concurrency {
        engine = engine.max_concurrency(calls.get());
    }
    if let Some(schedule) = common.schedule {
        engine = engine.schedule(schedule.into());
    }
    let results = || Some(OffloadStore::at(state.as_ref()?.join("results")).with_readers(readers.clone()));
    if let Some(results) = results() {
        engine = engine.results_in(results);
    }
    let asker = asker.map(|asker| Arc::new(asker) as Arc<dyn Asker>);
    if let Some(asker) = asker.clone() {
        engine = engine.ports(|ports| ports.asker = Some(asker));
    }
    let search = given.loaded.settings.tool_search.as_ref().map(|at| at.value.clone()).unwrap_or_default();
    let mut gates = Gates::default();
    if let Some(above) = search.above {
        gates.defer_above = usize::try_from(above).unwrap_or(usize::MAX);
    }
    if let Some(percent) = search.percent.and_then(|percent| u8::try_from(percent).ok()) {
        gates.defer_above_percent = percent;
    }
    engine = engine.gates(gates);
    let confined = processes.confines();
    let links = Links {
        planned: servers::plan(&given.loaded.settings, &given.places, lookup),
        asker,
        registry: base,
        bare: engine.clone(),
        processes: processes.clone(),
        cwd: workspace.cwd().to_owned(),
        roots: workspace.dirs().map(Path::to_owned).collect(),
        state: state.clone(),
        searches: search.enabled != Some(false),
    };
    let hooks = hooks::read(&given, &engine, &id, &policy, processes, results())?;
    let engine = engine.hooks(hooks.add_to(haft::Hooks::new()));

    let lints = findings.lints.iter().map(ToString::to_string);
    let of_hooks = hooks.warnings().iter().map(ToString::to_string);
    let warnings = given.warnings().into_iter().chain(lints).chain(findings.notices).chain(of_hooks);
    let warnings = warnings.collect();
    Ok(Session { id, workspace, engine, policy, given, hooks, tasks, confined, warnings, links })
}

/// Rules, mode and answers, and what is doubtful about them.
fn policy(
    common: &Common,
    given: &Given,
    workspace: &Workspace,
    registry: &Registry,
    (full, misses): (IsFull, Misses),
    processes: &Arc<dyn Processes>,
) -> Result<(Policy, Findings), Usage> {
    let setup = Setup {
        no_sandbox: common.no_sandbox,
        confined: processes.confines(),
        full_sandbox: Some(full),
        sandbox_misses: Some(misses),
        non_interactive: common.non_interactive,
        tools: registry.entries().map(|entry| entry.tool().name().to_owned()).collect(),
        scripts: given.loaded.inventory.files().map(Path::to_owned).collect(),
        processes: Some(processes.clone()),
        ..Setup::new(&given.places, workspace)
    };
    Policy::new(&given.loaded, setup).map_err(|error| Usage(error.to_string()))
}

#[cfg(test)]
mod tests;
