//! From flags and environment to an engine that is ready for calls.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use haft::env::Lookup;
use haft::event::What;
use haft::files::resolve;
use haft::results::Readers;
use haft::view::Progress;
use haft::{Engine, Event, EventSink, OffloadStore, Permissions, Registry, Snapshot, Workspace};
use haft_sandbox::LocalProcesses;
use haft_tools::scripts::{self, Loaded};

use crate::Usage;
use crate::args::Common;
use crate::output;
use crate::terminal::Terminal;

/// How long results that were too long for the model are kept.
pub(crate) const RESULTS_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The children of this program, of which nothing may be left when it ends.
static PROCESSES: OnceLock<Arc<LocalProcesses>> = OnceLock::new();

/// Ends what was started. To be called before the program ends.
pub(crate) fn close() {
    if let Some(processes) = PROCESSES.get() {
        processes.shutdown();
    }
}

/// Puts an engine together. Looks at the disk, starts nothing.
pub(crate) fn open(common: &Common) -> Result<Engine, Usage> {
    let registry = Registry::new().with(haft_tools::core()).map_err(|error| Usage(error.to_string()))?;
    assemble(registry, common, &|name| std::env::var_os(name))
}

fn assemble(registry: Registry, common: &Common, lookup: Lookup<'_>) -> Result<Engine, Usage> {
    let from_environment = || haft::env::max_concurrency(lookup).map_err(|error| Usage(error.to_string()));
    let max_concurrency = match common.max_concurrency {
        Some(calls) => Some(calls),
        None => from_environment()?,
    };
    let state = haft::env::state_dir(lookup).map(|dir| real(&dir));
    let config = haft::env::config_dir(lookup).map(|dir| real(&dir));

    let mut workspace = workspace(common)?;
    let registry = with_scripts(registry, common, config.as_deref(), workspace.cwd())?;
    for dir in [&state, &config].into_iter().flatten() {
        workspace = workspace.with_protected(dir);
    }
    let permissions = permissions(common, &registry)?;
    let readers = readers(&registry);
    let asker = if common.non_interactive { None } else { Terminal::open(workspace.cwd()) };

    let mut engine = Engine::new(registry).workspace(workspace).permissions(permissions).events(Warnings);
    // Costs nothing until something is started.
    let processes = PROCESSES.get_or_init(|| Arc::new(LocalProcesses::new(std::env::vars_os())));
    engine = engine.ports(|ports| ports.processes = Some(processes.clone()));
    if let Some(calls) = max_concurrency {
        engine = engine.max_concurrency(calls.get());
    }
    if let Some(schedule) = common.schedule {
        engine = engine.schedule(schedule.into());
    }
    if let Some(state) = state {
        engine = engine.results_in(OffloadStore::at(state.join("results")).with_readers(readers));
    }
    if let Some(asker) = asker {
        engine = engine.ask(asker);
    }
    warn_of_clashes(&engine.snapshot());
    Ok(engine)
}

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
    Ok(workspace)
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

/// These tools and the user's script tools: those of the settings, and of the folders that flags name.
///
/// Sources have labels and no paths: a label decides between two tools of one name and is in the name of the second, and a
/// model is to be told the same on every machine. Folders of flags go before the user's, in the order given.
///
/// Scripts of the project itself are left alone: nothing in it runs before the user says that it may be trusted.
fn with_scripts(
    mut registry: Registry,
    common: &Common,
    config: Option<&Path>,
    cwd: &Path,
) -> Result<Registry, Usage> {
    let mut seen: Vec<PathBuf> = Vec::new();
    if let Some(dir) = config.map(|config| config.join("tools")).filter(|dir| dir.exists()) {
        match scripts::load(&dir) {
            Ok(loaded) => registry = add(&registry, "script:user", loaded),
            // Not said by the user just now, so no reason to do nothing.
            Err(error) => output::warning(&format!("`{}` can't be read: {}", dir.display(), reason(&error))),
        }
        seen.push(real(&dir));
    }
    for (at, given) in common.tools_dir.iter().enumerate() {
        let dir = real(&cwd.join(given));
        if seen.contains(&dir) {
            continue;
        }
        let loaded = scripts::load(&dir).map_err(|error| {
            let given = output::one_line(&given.display().to_string());
            Usage(format!("--tools-dir `{given}`: {}; give a directory that exists", reason(&error)))
        })?;
        if loaded.tools.is_empty() && loaded.problems.is_empty() {
            let given = output::one_line(&given.display().to_string());
            output::warning(&format!(
                "--tools-dir `{given}` has no tool; a tool is a folder in it with a `tool.json`"
            ));
        }
        registry = add(&registry, format!("script:tools-dir-{:03}", at + 1), loaded);
        seen.push(dir);
    }
    Ok(registry)
}

/// The tools that could be loaded; of the others, why not.
fn add(registry: &Registry, source: impl Into<Arc<str>>, loaded: Loaded) -> Registry {
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

fn permissions(common: &Common, registry: &Registry) -> Result<Permissions, Usage> {
    let mut permissions = Permissions::new().mode(common.permission_mode.unwrap_or_default());
    type Add = fn(Permissions, &str) -> Result<Permissions, haft::BadRule>;
    let lists: [(&str, &[String], Add); 3] = [
        ("--allow", &common.allow, |permissions, rule| permissions.allow(rule)),
        ("--ask", &common.ask, |permissions, rule| permissions.ask(rule)),
        ("--deny", &common.deny, |permissions, rule| permissions.deny(rule)),
    ];
    for (flag, rules, add) in lists {
        for rule in rules {
            names_a_tool(flag, rule, registry)?;
            permissions = add(permissions, rule).map_err(|error| Usage(format!("{flag}: {error}")))?;
        }
    }
    Ok(permissions)
}

/// Refuses a rule that would do nothing because it uses another name of a tool, and warns of one for no tool at all,
/// which may be meant for another build.
fn names_a_tool(flag: &str, rule: &str, registry: &Registry) -> Result<(), Usage> {
    for tool in registry.entries().map(haft::Entry::tool) {
        if tool.name() == rule {
            return Ok(());
        }
        if tool.aliases().iter().any(|alias| alias == rule) {
            let name = tool.name();
            return Err(Usage(format!(
                "{flag} {rule}: that is another name of `{name}`; rules take `{name}`"
            )));
        }
    }
    output::warning(&format!("{flag} {rule}: there is no tool of this name"));
    Ok(())
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
