//! Settings, directories and tools of sessions, read once: [`SessionConfig`].

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use haft::env::VariableLookup;
use haft::results::OffloadStore;
use haft::{Registry, Workspace};
use haft_policy::gate::ShellAnalyzer;
use haft_policy::settings::Settings;
use haft_tools::{ReadTracker, SessionArguments, SessionTools};

use super::server_plan::{self, ServerPlan};
use super::tools::{core_tools, reader_tools, with_scripts};
use super::workspace::{open_workspace, real_path, with_directories};
use crate::loaded_settings::{self, LoadedSettings};
use crate::processes;
use crate::text::one_line;
use crate::{SessionError, SessionOption, SessionOptions, SessionPurpose};

/// Settings, directories and tools, read once.
#[derive(Clone)]
pub(super) struct SessionConfig {
    pub(super) options: SessionOptions,
    pub(super) given: LoadedSettings,
    pub(super) workspace: Workspace,
    pub(super) registry: Registry,
    /// The built-in tools that belong to one session, if there are built-in tools.
    session_tools: Option<SessionTools>,
    /// Analyzes shell commands, for tools and rules.
    pub(super) analyzer: ShellAnalyzer,
    pub(super) server_plan: ServerPlan,
    pub(super) state: Option<PathBuf>,
    pub(super) max_concurrency: Option<NonZeroUsize>,
    /// What the file tools have read.
    pub(super) seen: ReadTracker,
}

impl SessionConfig {
    pub(super) fn load(
        options: &SessionOptions,
        purpose: SessionPurpose,
    ) -> Result<SessionConfig, SessionError> {
        let lookup: VariableLookup<'_> = &|name| options.environment.get(name);
        let from_environment =
            || haft::env::max_concurrency(lookup).map_err(|error| SessionError::settings(error.to_string()));
        let max_concurrency = match options.max_concurrency {
            Some(calls) => Some(calls),
            None => from_environment()?,
        };
        let state = haft::env::state_dir(lookup).map(|dir| real_path(&dir));
        let config_dir = haft::env::config_dir(lookup).map(|dir| real_path(&dir));

        let mut workspace = open_workspace(options)?;
        let given = loaded_settings::load_settings(options, workspace.cwd(), lookup)?;
        workspace = with_directories(workspace, &given, &options.notices);
        let analyzer = haft_policy::gate::shell_analyzer(&workspace, given.places.home.as_deref());
        let seen = ReadTracker::default();
        let continues = options.resume.as_deref();
        let (registry, session_tools) =
            core_tools(&given, options, lookup, purpose, (continues, &seen), &analyzer)?;
        let registry = with_scripts(registry, options, config_dir.as_deref(), &given)?;
        let usual = given.places.usual.iter().map(|dir| real_path(dir));
        for dir in [&state, &config_dir].into_iter().flatten().cloned().chain(usual) {
            workspace = workspace.with_protected(dir);
        }
        let server_plan = server_plan::plan_servers(&given.loaded.settings, &given.places, lookup);
        let options = options.clone();
        Ok(SessionConfig {
            options,
            given,
            workspace,
            registry,
            session_tools,
            analyzer,
            server_plan,
            state,
            max_concurrency,
            seen,
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.given.loaded.settings
    }

    pub(super) fn is_confined(&self) -> bool {
        processes::is_wanted(self.options.no_sandbox, &self.settings().sandbox)
    }

    /// The tools that belong to the session with these arguments, for [`Registry::replace_tools`].
    pub(super) fn session_tools(&self, arguments: SessionArguments) -> Registry {
        let tools = self.session_tools.clone().map(|tools| tools.with(arguments).tools());
        Registry::new().with(tools.unwrap_or_default()).expect("the names of built-in tools differ")
    }

    /// Returns the groups of tools that are omitted.
    pub(super) fn groups_off(&self) -> Result<HashSet<String>, SessionError> {
        let known: BTreeSet<&str> = self.registry.entries().map(|entry| entry.tool().group()).collect();
        for group in &self.options.tools_off {
            if !known.contains(group.as_str()) {
                let known: Vec<&str> = known.into_iter().collect();
                return Err(SessionError::settings(format!(
                    "there is no group of tools `{}` to leave out; there are {}",
                    one_line(group),
                    known.join(", ")
                ))
                .with_option(SessionOption::ToolsOff));
            }
        }
        Ok(self.options.tools_off.iter().cloned().collect())
    }

    /// Returns the store for results that are too long for the model.
    pub(super) fn results(&self) -> Option<OffloadStore> {
        Some(self.store(self.state.as_ref()?.join("results")))
    }

    /// Returns a store in a folder, with advice that fits the tools.
    pub(super) fn store(&self, dir: impl Into<PathBuf>) -> OffloadStore {
        OffloadStore::at(dir).with_readers(reader_tools(&self.registry))
    }
}
