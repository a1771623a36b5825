//! What sessions are made of, in three steps: the ground that all of one program have in common, the walls around the
//! children of those with the same rules, and each with its own memory.
//!
//! Most commands take the three steps once. A server takes the first once, the second for each view that it gives, and the
//! third for each client.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::env::Lookup;
use haft::ports::{Asker, Processes};
use haft::{CallLog, Engine, EventSink, Gates, OffloadStore, Registry, TaskTable, Workspace};
use haft_policy::gate::{Findings, IsFull, Misses, Policy, Setup, ShellAnalyzer};
use haft_policy::hooks::Hooks;
use haft_policy::settings::Settings;

use super::Links;
use super::confine::{children, surroundings};
use super::kit::InForce;
use super::servers::{self, Planned};
use super::tools::{readers, with_scripts};
use super::workspace::{real, with_directories, workspace};
use crate::SessionOptions;
use crate::SessionPurpose;
use crate::hooks::ServerSlot;
use crate::loaded_settings::{self, LoadedSettings};
use crate::processes::{self, Starter};
use crate::text::one_line;
use crate::{SessionError, hooks};

/// Directories, settings and tools: read once, the same for everybody.
#[derive(Clone)]
pub struct Ground {
    pub(super) common: SessionOptions,
    pub given: LoadedSettings,
    pub workspace: Workspace,
    pub(super) registry: Registry,
    /// What shell tools and rules analyse commands with.
    analyzer: ShellAnalyzer,
    pub(super) planned: Planned,
    pub(super) state: Option<PathBuf>,
    max_concurrency: Option<NonZeroUsize>,
}

impl Ground {
    /// The groups of tools that flags leave out.
    pub fn groups_off(&self) -> Result<HashSet<String>, SessionError> {
        let there: BTreeSet<&str> = self.registry.entries().map(|entry| entry.tool().group()).collect();
        for group in &self.common.tools_off {
            if !there.contains(group.as_str()) {
                let there: Vec<&str> = there.into_iter().collect();
                return Err(SessionError::settings(format!(
                    "--tools-off {}: there is no such group of tools; there are {}",
                    one_line(group),
                    there.join(", ")
                )));
            }
        }
        Ok(self.common.tools_off.iter().cloned().collect())
    }

    /// Looks at the disk, starts nothing.
    pub(super) fn read(
        tools: impl FnOnce(&LoadedSettings, &ShellAnalyzer) -> Result<Registry, SessionError>,
        common: &SessionOptions,
        lookup: Lookup<'_>,
    ) -> Result<Ground, SessionError> {
        let from_environment =
            || haft::env::max_concurrency(lookup).map_err(|error| SessionError::settings(error.to_string()));
        let max_concurrency = match common.max_concurrency {
            Some(calls) => Some(calls),
            None => from_environment()?,
        };
        let state = haft::env::state_dir(lookup).map(|dir| real(&dir));
        let config = haft::env::config_dir(lookup).map(|dir| real(&dir));

        let mut workspace = workspace(common)?;
        let given = loaded_settings::load(common, workspace.cwd(), lookup)?;
        workspace = with_directories(workspace, &given, &common.notices);
        let analyzer = haft_policy::gate::analyzer(&workspace, given.places.home.as_deref());
        let registry = with_scripts(tools(&given, &analyzer)?, common, config.as_deref(), &given)?;
        let usual = given.places.usual.iter().map(|dir| real(dir));
        for dir in [&state, &config].into_iter().flatten().cloned().chain(usual) {
            workspace = workspace.with_protected(dir);
        }
        let planned = servers::plan(&given.loaded.settings, &given.places, lookup);
        let common = common.clone();
        Ok(Ground { common, given, workspace, registry, analyzer, planned, state, max_concurrency })
    }

    /// The same with other settings.
    pub fn with_settings(&self, change: impl FnOnce(&mut Settings)) -> Ground {
        let mut ground = self.clone();
        change(&mut ground.given.loaded.settings);
        ground
    }

    pub fn settings(&self) -> &Settings {
        &self.given.loaded.settings
    }

    /// The names of the servers that may be used.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.planned.usable().map(|(_, config)| config.name.as_str())
    }

    /// The tools without those of servers.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where results are kept that are too long for the model.
    pub(super) fn results(&self) -> Option<OffloadStore> {
        Some(self.store(self.state.as_ref()?.join("results")))
    }

    /// A folder for such results, with advice that fits the tools.
    pub fn store(&self, dir: impl Into<PathBuf>) -> OffloadStore {
        OffloadStore::at(dir).with_readers(readers(&self.registry))
    }

    /// The same in a folder of its own, which goes with it.
    pub fn own_store(&self) -> OffloadStore {
        OffloadStore::temporary().with_readers(readers(&self.registry))
    }
}

/// The ground, and the walls around the children of all who stand on it.
pub struct Base {
    pub ground: Ground,
    pub(super) starter: Arc<Starter>,
    pub(super) processes: Arc<dyn Processes>,
    purpose: SessionPurpose,
}

/// What one session has and others have not.
pub struct Joining<S> {
    pub id: String,
    pub policy: Policy,
    pub asker: Option<Arc<dyn Asker>>,
    pub events: S,
    pub gates: Gates,
    /// Where its long results are kept, for the engine and for hooks; none keeps them in a temporary folder.
    pub results: Option<(OffloadStore, OffloadStore)>,
}

/// A session: an engine, and what goes with it.
pub struct Member {
    pub engine: Engine,
    /// The engine that hooks look at: it has the tools and the rules, and no hooks.
    pub bare: Engine,
    pub hooks: Hooks,
    /// What runs in the background, and ends with the session.
    pub tasks: Arc<TaskTable>,
    /// The calls that ran.
    pub calls: CallLog,
    /// The servers, once they are started: for hooks that are tools of one.
    pub servers: ServerSlot,
}

impl Base {
    /// Builds the walls that the rules want, which cost nothing until something is started. The rules come with it.
    pub(super) fn new(
        ground: Ground,
        purpose: SessionPurpose,
        id: &str,
    ) -> Result<(Base, Policy, Findings), SessionError> {
        let wanted = &ground.settings().sandbox;
        let confined = processes::is_wanted(ground.common.no_sandbox, wanted);
        let starter = Arc::new(match confined {
            true => Starter::confined(ground.common.notices.clone()),
            false => Starter::unconfined(ground.common.notices.clone()),
        });
        let must = wanted.fail_if_unavailable.clone();
        let must = must.filter(|must| must.value && confined && purpose != SessionPurpose::Inspect);
        let processes: Arc<dyn Processes> = Arc::new(children(&starter, &ground.given));
        let base = Base { ground, starter, processes, purpose };
        let (policy, findings) = base.policy(base.ground.common.non_interactive)?;
        let Ground { common, given, workspace, state, .. } = &base.ground;
        let around = surroundings(common, given, workspace, state, id);
        let mut sandbox = processes::sandbox(&base.ground.settings().sandbox, &policy, around)?;
        if purpose == SessionPurpose::Replay {
            processes::shut(&mut sandbox);
        }
        #[cfg(feature = "browser")]
        if !confined && purpose != SessionPurpose::Inspect {
            super::browser::asks_by(sandbox.network.clone());
        }
        base.starter.plan(sandbox);
        if let Some(must) = must
            && let Err(words) = base.starter.sandbox()
        {
            return Err(SessionError::sandbox(format!("{words} (`failIfUnavailable`, {})", must.source)));
        }
        Ok((base, policy, findings))
    }

    /// Rules, mode and answers, and what is doubtful about them. Answers are those of whoever gets it.
    pub fn policy(&self, non_interactive: bool) -> Result<(Policy, Findings), SessionError> {
        let (full, misses): (IsFull, Misses) = match self.purpose {
            SessionPurpose::Run | SessionPurpose::Once | SessionPurpose::Replay => {
                let (full, misses) = (self.starter.clone(), self.starter.clone());
                (Arc::new(move || full.is_full()), Arc::new(move || misses.misses()))
            }
            SessionPurpose::Inspect => {
                (Arc::new(processes::can_be_full), Arc::new(processes::may_leave_open))
            }
        };
        let Ground { common, given, workspace, registry, analyzer, .. } = &self.ground;
        let setup = Setup {
            no_sandbox: common.no_sandbox,
            confined: self.processes.confines(),
            full_sandbox: Some(full),
            sandbox_misses: Some(misses),
            non_interactive,
            tools: registry.entries().map(|entry| entry.tool().name().to_owned()).collect(),
            scripts: given.loaded.inventory.files().map(Path::to_owned).collect(),
            analyzer: Some(analyzer.clone()),
            processes: Some(self.processes.clone()),
            ..Setup::new(&given.places, workspace)
        };
        Policy::new(&given.loaded, setup).map_err(|error| SessionError::settings(error.to_string()))
    }

    /// Makes a session.
    pub fn join<S: EventSink>(&self, joining: Joining<S>) -> Result<Member, SessionError> {
        let Joining { id, policy, asker, events, gates, results } = joining;
        let Ground { common, given, workspace, registry, max_concurrency, .. } = &self.ground;
        let tasks = Arc::new(TaskTable::new());
        let calls = CallLog::new();
        let mut engine = Engine::new(registry.clone())
            .workspace(workspace.clone())
            .permissions(policy.clone())
            .events(events)
            .gates(gates);
        engine = engine.session_id(id.as_str()).ports(|ports| {
            ports.processes = Some(self.processes.clone());
            ports.mode = Some(Arc::new(policy.clone()));
            ports.tasks = Some(tasks.clone());
            ports.asker = asker;
            ports.history = Some(Arc::new(calls.clone()));
            ports.tracer = common.telemetry.as_ref().and_then(|telemetry| telemetry.tracer());
            ports.settings = Some(Arc::new(InForce { given: given.clone(), policy: policy.clone() }));
        });
        if let Some(calls) = max_concurrency {
            engine = engine.max_concurrency(calls.get());
        }
        if let Some(schedule) = common.schedule {
            engine = engine.schedule(schedule);
        }
        let (own, of_hooks) = results.unzip();
        if let Some(results) = own {
            engine = engine.results_in(results);
        }
        let bare = engine.clone();
        let servers = ServerSlot::default();
        let hooks = hooks::read(given, &bare, &id, &policy, self.processes.clone(), of_hooks, &servers)?;
        let engine = engine.hooks(hooks.add_to(haft::Hooks::new()).after(calls.clone()));
        Ok(Member { engine, bare, hooks, tasks, calls, servers })
    }

    /// What servers are started with.
    pub fn links(
        &self,
        policy: &Policy,
        asker: Option<Arc<dyn Asker>>,
        bare: Engine,
        searches: bool,
        slot: &ServerSlot,
    ) -> Links {
        let Ground { common, registry, planned, workspace, state, .. } = &self.ground;
        Links {
            notices: common.notices.clone(),
            telemetry: common.telemetry.clone(),
            planned: planned.clone().without_denied(|server| policy.denies_server(server)),
            asker,
            registry: registry.clone(),
            bare,
            processes: self.processes.clone(),
            cwd: workspace.cwd().to_owned(),
            roots: workspace.dirs().map(Path::to_owned).collect(),
            state: state.clone(),
            searches,
            slot: slot.clone(),
            for_hooks: hooks::use_servers(self.ground.settings()),
        }
    }
}
