//! From flags and environment to an engine that is ready for calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::env::Lookup;
use haft::event::What;
use haft::files::resolve;
use haft::ports::{Processes, TaskState, Tasks as _};
use haft::results::Readers;
use haft::view::Progress;
use haft::{Cause, Engine, Event, EventSink, OffloadStore, Registry, Snapshot, TaskTable, Workspace};
use haft_policy::gate::{Findings, IsFull, Policy, Setup};
use haft_policy::hooks::Hooks;
use haft_policy::settings::At;
use haft_policy::trust::{Judgement, Loaded};
use haft_tools::{Bash, scripts};

use crate::Usage;
use crate::args::Common;
use crate::children::Children;
use crate::given::{self, Given};
use crate::hooks;
use crate::output;
use crate::processes::{self, Starter};
use crate::terminal::Terminal;

/// Script tools of a workspace.
const PROJECT_TOOLS: &str = ".haft/tools";

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
}

/// Says what still ran in the background when the session ended, and where its output is.
pub(crate) fn report_tasks(tasks: &TaskTable) {
    let by_session = |task: &TaskState| {
        let cause = tasks.result(task.id).and_then(|result| result.error()?.cause());
        task.running || cause == Some(Cause::Shutdown)
    };
    for task in tasks.list().into_iter().filter(by_session) {
        let kept = tasks.log(task.id).and_then(|log| log.keep().ok()?);
        let kept = kept.map(|file| format!("; what it printed is in {}", file.display()));
        let about = output::one_line(&task.about);
        output::warning(&format!("{} ended with the session: {about}{}", task.id, kept.unwrap_or_default()));
    }
}

/// Puts a session together, and says what is doubtful about it. Looks at the disk, starts nothing.
pub(crate) fn open(common: &Common) -> Result<Session, Usage> {
    said(make(common, Purpose::Run)?)
}

/// The same for who only looks: no sandbox is made, whatever the mode.
pub(crate) fn look(common: &Common) -> Result<Session, Usage> {
    said(inspect(common)?)
}

/// Puts a session together for who only looks, and keeps what is doubtful about it for who asks.
pub(crate) fn inspect(common: &Common) -> Result<Session, Usage> {
    make(common, Purpose::Look)
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

fn make(common: &Common, purpose: Purpose) -> Result<Session, Usage> {
    let lookup: Lookup<'_> = &|name| std::env::var_os(name);
    let tools = |given: &Given| {
        let tools = haft_tools::core_with(&bash(lookup, given)?);
        Registry::new().with(tools).map_err(|error| Usage(error.to_string()))
    };
    assemble(tools, common, lookup, purpose)
}

/// The shell with the limits of the environment, and what settings let run without the sandbox.
fn bash(lookup: Lookup<'_>, given: &Given) -> Result<Bash, Usage> {
    let (usual, max) = haft::env::bash_timeouts(lookup).map_err(|error| Usage(error.to_string()))?;
    let max = max.unwrap_or(haft_tools::bash::TIMEOUT_MAX);
    let home = lookup("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let sandbox = &given.loaded.settings.sandbox;
    let bash = Bash::new()
        .allow_unsandboxed(sandbox.allow_unsandboxed.as_ref().is_some_and(|at| at.value))
        .excluded(sandbox.excluded_commands.iter().map(|command| command.value.clone()));
    Ok(bash.home(home).timeouts(usual.unwrap_or(haft_tools::bash::TIMEOUT), max))
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
    let (full, misses): (IsFull, IsFull) = match purpose {
        Purpose::Run => {
            let (full, misses) = (starter.clone(), starter.clone());
            (Arc::new(move || full.is_full()), Arc::new(move || misses.misses()))
        }
        Purpose::Look => (Arc::new(haft_sandbox::is_possible), Arc::new(|| false)),
    };
    let (policy, findings) = policy(common, &given, &workspace, &registry, [full, misses], &processes)?;
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
    let mut engine = Engine::new(registry).workspace(workspace).permissions(policy.clone()).events(Warnings);
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
    if let Some(asker) = asker {
        engine = engine.ask(asker);
    }
    let confined = processes.confines();
    let hooks = hooks::read(&given, &engine, &id, &policy, processes, results())?;
    let engine = engine.hooks(hooks.add_to(haft::Hooks::new()));

    let lints = findings.lints.iter().map(ToString::to_string);
    let of_hooks = hooks.warnings().iter().map(ToString::to_string);
    let warnings = given.warnings().into_iter().chain(lints).chain(findings.notices).chain(of_hooks);
    let warnings = warnings.collect();
    Ok(Session { engine, policy, given, hooks, tasks, confined, warnings })
}

/// What a sandbox has to know of a session.
fn surroundings<'a>(
    common: &Common,
    given: &'a Given,
    workspace: &Workspace,
    state: &'a Option<PathBuf>,
    session: &'a str,
) -> processes::Surroundings<'a> {
    let places = &given.places;
    let own = [&places.config_dir, &places.state_dir, &places.claude_dir, &places.claude_json];
    let own = own.into_iter().flatten().chain(&places.usual).map(|dir| real(dir)).collect();
    let users = places.config_dir.iter().map(|config| config.join("tools"));
    let tools = users.chain(common.tools_dir.iter().map(|dir| places.cwd.join(dir))).map(|dir| real(&dir));
    processes::Surroundings {
        workspace: workspace.dirs().map(Path::to_owned).collect(),
        home: places.home.as_deref(),
        own,
        state: state.as_deref(),
        tools: tools.filter(|dir| dir.is_dir()).collect(),
        scripts: given.loaded.inventory.files().map(Path::to_owned).collect(),
        session,
    }
}

/// Child processes with the environment of the settings, which start no tool of the workspace but as it was trusted.
fn children(processes: &Arc<Starter>, given: &Given) -> Children<Starter> {
    let Loaded { settings, inventory, judgement, .. } = &given.loaded;
    let env = settings.env.iter().map(|(name, at)| (name.into(), at.value.clone().into()));
    let children = Children::new(processes.clone(), env);
    match judgement {
        Judgement::Trusted => children.with_trusted(given.places.cwd.join(PROJECT_TOOLS), inventory.clone()),
        _ => children,
    }
}

/// Files that say what the machine is and hold nothing of anybody's: read unasked, unless a rule says otherwise.
const PUBLIC_FACTS: [&str; 9] = [
    "/etc/debian_version",
    "/etc/lsb-release",
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
];

fn workspace(common: &Common) -> Result<Workspace, Usage> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let refused = |flag: &str, dir: &Path, why: &str| {
        let dir = output::one_line(&dir.display().to_string());
        Usage(format!("{flag} `{dir}`: {why}; give a directory that exists"))
    };
    let mut workspace = Workspace::new(cwd).map_err(|error| match &common.cwd {
        Some(dir) => refused("--cwd", dir, &reason(&error)),
        None => Usage(format!("the current directory can't be used: {}; give --cwd", reason(&error))),
    })?;
    for dir in &common.add_dir {
        if workspace.cwd().join(dir).is_file() {
            return Err(refused("--add-dir", dir, "not a directory"));
        }
        workspace = workspace.with_dir(dir).map_err(|error| refused("--add-dir", dir, &reason(&error)))?;
    }
    Ok(PUBLIC_FACTS.iter().fold(workspace, Workspace::with_readable))
}

/// Adds the directories of settings. One that isn't there is no reason to do nothing: others use the file as well.
fn with_directories(mut workspace: Workspace, given: &Given) -> Workspace {
    let dirs = &given.loaded.settings.permissions.additional_directories;
    // Those of flags are there already.
    for At { value, source } in dirs.iter().filter(|dir| dir.source.file.is_some()) {
        match workspace.clone().with_dir(value) {
            Ok(with) => workspace = with,
            Err(error) => {
                let dir = output::one_line(&value.display().to_string());
                output::warning(&format!(
                    "{source}: the directory `{dir}` can't be used: {}",
                    reason(&error)
                ));
            }
        }
    }
    workspace
}

/// Why a directory can't be used, without the number of the system's error.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "its permissions don't allow it".to_owned(),
        other => other.to_string(),
    }
}

/// These tools and script tools: the user's, those of a workspace that is trusted, and of the folders that flags name.
///
/// Sources have labels and no paths: a label decides between two tools of one name and is in the name of the second, and a
/// model is to be told the same on every machine. Folders of flags go before the user's, in the order given.
fn with_scripts(
    mut registry: Registry,
    common: &Common,
    config: Option<&Path>,
    given: &Given,
) -> Result<Registry, Usage> {
    let cwd = &given.places.cwd;
    let users = config.map(|config| (config.join("tools"), "script:user"));
    let trusted = given.loaded.judgement.is_trusted();
    let projects = trusted.then(|| (cwd.join(PROJECT_TOOLS), "script:project"));
    let mut seen: Vec<PathBuf> = Vec::new();
    for (dir, source) in users.into_iter().chain(projects).filter(|(dir, _)| dir.exists()) {
        match scripts::load(&dir) {
            Ok(loaded) => registry = add(&registry, source, loaded),
            // Not said by the user just now, so no reason to do nothing.
            Err(error) => output::warning(&format!("`{}` can't be read: {}", dir.display(), reason(&error))),
        }
        seen.push(real(&dir));
    }
    for (at, named) in common.tools_dir.iter().enumerate() {
        let dir = real(&cwd.join(named));
        if seen.contains(&dir) {
            continue;
        }
        let loaded = scripts::load(&dir).map_err(|error| {
            let named = output::one_line(&named.display().to_string());
            Usage(format!("--tools-dir `{named}`: {}; give a directory that exists", reason(&error)))
        })?;
        if loaded.tools.is_empty() && loaded.problems.is_empty() {
            let named = output::one_line(&named.display().to_string());
            output::warning(&format!(
                "--tools-dir `{named}` has no tool; a tool is a folder in it with a `tool.json`"
            ));
        }
        registry = add(&registry, format!("script:tools-dir-{:03}", at + 1), loaded);
        seen.push(dir);
    }
    Ok(registry)
}

/// The tools that could be loaded; of the others, why not.
fn add(registry: &Registry, source: impl Into<Arc<str>>, loaded: scripts::Loaded) -> Registry {
    let (registry, problems) = loaded.register(registry, source);
    for problem in &problems {
        output::warning(&format!("script tool left out: {problem}"));
    }
    registry
}

/// Says which tools are not called what they call themselves.
fn warn_of_clashes(snapshot: &Snapshot) {
    for offer in snapshot.offers().iter().filter(|offer| offer.name() != offer.tool().name()) {
        let (own, name) = (offer.tool().name(), offer.name());
        let holder = snapshot.find(own).map(|first| format!(", which {} has", first.origin()));
        let holder = holder.unwrap_or_default();
        output::warning(&format!(
            "two tools are called `{own}`{holder}; the one of {} is called `{name}`",
            offer.origin()
        ));
    }
}

/// Rules, mode and answers, and what is doubtful about them.
fn policy(
    common: &Common,
    given: &Given,
    workspace: &Workspace,
    registry: &Registry,
    [full, misses]: [IsFull; 2],
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

/// The tools that a preview may advise: those that there are.
fn readers(registry: &Registry) -> Readers {
    let all = Readers::default();
    let there = |name: &std::sync::Arc<str>| registry.entries().any(|entry| entry.tool().name() == &**name);
    Readers { read: all.read.filter(there), search: all.search.filter(there) }
}

/// A folder as it really is, also where it doesn't exist yet: what is protected is compared by real paths.
fn real(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    resolve(Path::new("/"), &absolute).map_or(absolute, |found| found.real)
}

/// Says warnings of the engine, and how far a call is.
struct Warnings;

impl EventSink for Warnings {
    fn send(&self, event: Event) {
        let tool = event.call.map(|call| format!("{}: ", call.tool)).unwrap_or_default();
        match event.what {
            What::Warning(words) => output::warning(&format!("{tool}{words}")),
            What::Message(words) => output::say(&format!("{tool}{words}")),
            What::BlocksThread { since } => {
                output::warning(&format!("{tool}keeps a thread busy since {} ms", since.as_millis()));
            }
            What::Progress(Progress { fraction, message }) => {
                let percent = fraction.map(|fraction| format!("{:.0} % ", fraction * 100.0));
                output::progress(&format!(
                    "{tool}{}{}",
                    percent.unwrap_or_default(),
                    message.unwrap_or_default()
                ));
            }
            What::Finished(_) => output::end_progress(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
