//! From options, settings and environment to an engine that is ready for calls.

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

use std::sync::Arc;
use std::time::Duration;

use haft::env::Lookup;
use haft::ports::Asker;
use haft::{CallLog, Engine, Gates, Registry, TaskTable, Workspace};
use haft_policy::gate::{Findings, Policy, ShellAnalyzer};
use haft_policy::hooks::Hooks;
use haft_tools::cron::CronTable;
use haft_tools::{Plans, Seen};

use self::tools::{core, warn_of_clashes};
use crate::hooks;
use crate::loaded_settings::LoadedSettings;
use crate::processes::Starter;
use crate::text::one_line;
use crate::{NoticeSink, SessionChannels, SessionError, SessionOptions, SessionPurpose};

pub use self::base::{Base, Ground, Joining, Member};
pub use self::kit::skills_of;
pub use self::pool::{Lent, Links, Pool, Said};
pub use self::said::{Warnings, report_tasks};
pub use self::servers::{NotUsed, Planned, PlannedServer};

/// How long results that were too long for the model are kept.
pub const RESULTS_KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// An engine, the rules that it asks, and where they come from.
pub struct SessionParts {
    /// No other session of this machine has it.
    pub id: String,
    pub workspace: Workspace,
    pub engine: Engine,
    pub policy: Policy,
    pub given: LoadedSettings,
    /// The hooks of the settings, which the engine has.
    pub hooks: Hooks,
    /// What runs in the background, and ends with the session.
    pub tasks: Arc<TaskTable>,
    /// The calls that ran.
    pub calls: CallLog,
    /// Prompts that are planned for later.
    pub crons: Arc<CronTable>,
    /// What was read of files.
    pub seen: Seen,
    /// Whether children can do no more than they are granted.
    pub confined: bool,
    /// What was said about settings, rules and trust.
    pub warnings: Vec<String>,
    /// What servers are started with, should they be.
    pub links: Links,
    /// Events and prompts, where front ends come and go.
    pub channels: Option<SessionChannels>,
    /// Receives warnings and messages.
    pub notices: NoticeSink,
    /// Ends the processes of the session.
    pub process_guard: ProcessGuard,
}

impl SessionParts {
    /// Builds a session. Reads the disk, starts nothing.
    ///
    /// # Errors
    /// Settings, directories, rules or tools that can't be used.
    pub fn open(options: &SessionOptions, purpose: SessionPurpose) -> Result<SessionParts, SessionError> {
        let lookup: Lookup<'_> = &|name| options.environment.get(name);
        let id = options.resume.clone().unwrap_or_else(hooks::session_id);
        let seen = Seen::default();
        let tools = |given: &_, analyzer: &_| {
            core(given, options, lookup, purpose, (options.resume.as_deref(), &seen), analyzer)
        };
        let session = assemble(tools, options, lookup, (purpose, id))?;
        Ok(SessionParts { seen, ..session })
    }

    /// Reports what is doubtful about settings, rules and tools.
    pub fn report_warnings(&self) {
        self.warnings.iter().for_each(|text| self.notices.warn(one_line(text)));
        warn_of_clashes(&self.engine.snapshot(), &self.notices);
    }

    /// Whether this continues a session that was in plan mode when it ended.
    pub fn was_planning(&self, options: &SessionOptions) -> bool {
        let lookup: Lookup<'_> = &|name| options.environment.get(name);
        Plans::kept_in(&kit::shelf(lookup, SessionPurpose::Run)).is_planning(&self.id)
    }
}

impl Ground {
    /// Reads what all sessions of a server share: settings, directories and tools. Starts nothing.
    ///
    /// # Errors
    /// Settings, directories or tools that can't be used.
    pub fn load(options: &SessionOptions) -> Result<Ground, SessionError> {
        let lookup: Lookup<'_> = &|name| options.environment.get(name);
        let seen = Seen::default();
        let tools = |given: &_, analyzer: &_| {
            core(given, options, lookup, SessionPurpose::Run, (None, &seen), analyzer)
        };
        Ground::read(tools, options, lookup)
    }
}

impl Base {
    /// Rules and sandbox for some sessions of a server. `describe` words each warning about their rules.
    ///
    /// # Errors
    /// Rules or sandbox settings that can't be used.
    pub fn open(ground: Ground, describe: impl Fn(String) -> String) -> Result<Base, SessionError> {
        let (base, _, findings) = Base::new(ground, SessionPurpose::Run, &hooks::session_id())?;
        let lints = findings.lints.iter().map(ToString::to_string);
        let warnings = base.ground.given.warnings().into_iter().chain(lints).chain(findings.notices);
        warnings.for_each(|text| base.ground.common.notices.warn(one_line(&describe(text))));
        Ok(base)
    }

    /// Ends the processes of these sessions when the last guard is dropped.
    pub fn process_guard(&self) -> ProcessGuard {
        ProcessGuard(Arc::new(SharedProcesses(self.starter.clone())))
    }
}

/// Ends every process of a session when it and all that it is [shared](ProcessGuard::share) with are dropped.
pub struct ProcessGuard(Arc<SharedProcesses>);

struct SharedProcesses(Arc<Starter>);

impl ProcessGuard {
    /// Another guard of the same processes, for whoever ends them when the program is interrupted.
    #[must_use]
    pub fn share(&self) -> ProcessGuard {
        ProcessGuard(self.0.clone())
    }

    /// Ends the processes now; no others can start.
    pub fn shut_down(&self) {
        self.0.0.shutdown();
    }
}

impl Drop for SharedProcesses {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

fn assemble(
    tools: impl FnOnce(&LoadedSettings, &ShellAnalyzer) -> Result<Registry, SessionError>,
    common: &SessionOptions,
    lookup: Lookup<'_>,
    (purpose, id): (SessionPurpose, String),
) -> Result<SessionParts, SessionError> {
    let ground = Ground::read(tools, common, lookup)?;
    let asker: Option<Arc<dyn Asker>> = match &common.channels {
        _ if common.non_interactive => None,
        Some(channels) => Some(channels.prompts.clone()),
        None => common.asker.as_ref().and_then(|source| source.open(ground.workspace.cwd())),
    };
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
        events: Warnings(common.notices.clone()),
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
    let process_guard = base.process_guard();
    let notices = common.notices.clone();
    let warnings = warnings(&base.ground.given, findings, &hooks);
    let Ground { workspace, given, .. } = base.ground;
    let seen = Seen::default();
    Ok(SessionParts {
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
        channels: common.channels.clone(),
        notices,
        process_guard,
    })
}

/// What is doubtful about settings, rules, trust and hooks, in words.
fn warnings(given: &LoadedSettings, findings: Findings, hooks: &Hooks) -> Vec<String> {
    let lints = findings.lints.iter().map(ToString::to_string);
    let of_hooks = hooks.warnings().iter().map(ToString::to_string);
    given.warnings().into_iter().chain(lints).chain(findings.notices).chain(of_hooks).collect()
}

#[cfg(test)]
mod tests;
