//! The tools of a session: built-in tools and script tools.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::env::VariableLookup;
use haft::results::ReaderTools;
use haft::{EngineBuilder, Registry};
use haft_policy::gate::ShellAnalyzer;
use haft_tools::{Agent, Bash, BuiltIns, EnterWorktree, ReadTracker, SessionTools, Skill, scripts};

#[cfg(feature = "browser")]
use super::browser;
use super::tool_state;
#[cfg(feature = "web")]
use super::web;
use super::workspace::{io_reason, real_path};
use crate::SessionOptions;
use crate::SessionPurpose;
use crate::agents::kinds::AgentKinds;
use crate::loaded_settings::LoadedSettings;
use crate::text::one_line;
use crate::{NoticeSink, SessionError, SessionOption};

/// The folder of a workspace's script tools.
pub(super) const PROJECT_TOOLS: &str = ".haft/tools";

/// Returns the shell tool with the limits of the environment, and the commands that settings exempt from
/// the sandbox.
fn bash_tool(
    lookup: VariableLookup<'_>,
    given: &LoadedSettings,
    analyzer: ShellAnalyzer,
) -> Result<Bash, SessionError> {
    let (usual, max) =
        haft::env::bash_timeouts(lookup).map_err(|error| SessionError::tools(error.to_string()))?;
    let max = max.unwrap_or(haft_tools::bash::TIMEOUT_MAX);
    let sandbox = &given.loaded.settings.sandbox;
    let bash = Bash::new()
        .allow_unsandboxed(sandbox.allow_unsandboxed.as_ref().is_some_and(|at| at.value))
        .excluded(sandbox.excluded_commands.iter().map(|command| command.value.clone()))
        .git_writers(sandbox.git_writers.iter().map(|command| command.value.clone()));
    Ok(bash.analyzer(analyzer).timeouts(usual.unwrap_or(haft_tools::bash::TIMEOUT), max))
}

/// The tools that are built in, and those of them that belong to one session.
pub(super) fn core_tools(
    given: &LoadedSettings,
    common: &SessionOptions,
    lookup: VariableLookup<'_>,
    purpose: SessionPurpose,
    (continues, seen): (Option<&str>, &ReadTracker),
    analyzer: &ShellAnalyzer,
) -> Result<(Registry, Option<SessionTools>), SessionError> {
    let tools = BuiltIns::new()
        .seen(seen)
        .agent(Agent::new(AgentKinds::load(given, common).told()))
        .bash(bash_tool(lookup, given, analyzer.clone())?)
        .reads_first(purpose != SessionPurpose::Once)
        .kept_in(tool_state::open_shelf(lookup, purpose), continues)
        .skill(Skill::new(tool_state::load_skills(given, common)))
        .worktrees(EnterWorktree::new(&given.places.cwd));
    #[cfg(feature = "browser")]
    let tools = tools.browser(browser::build_browser(lookup, given));
    #[cfg(feature = "web")]
    let tools = {
        let (fetch, search) = web::web_tools(given, lookup)?;
        tools.web(fetch, search)
    };
    let session_tools = (!common.without_built_in_tools).then(|| tools.session_tools());
    let registry =
        if common.without_built_in_tools { Ok(Registry::new()) } else { Registry::new().with(tools.tools()) };
    let registry = common.tools.iter().fold(registry, |registry, tool| registry?.with(tool.clone()));
    let registry = registry.map_err(|error| SessionError::tools(error.to_string()))?;
    Ok((registry, session_tools))
}

/// Adds script tools: the user's, those of a trusted workspace, and those of folders that flags name.
///
/// Sources have labels and not paths: a label decides between two tools of one name and is a part of the
/// second one's name, and a model should see the same names on every machine. Folders of flags come before
/// the user's, in the given order.
pub(super) fn with_scripts(
    mut registry: Registry,
    common: &SessionOptions,
    config: Option<&Path>,
    given: &LoadedSettings,
) -> Result<Registry, SessionError> {
    let cwd = &given.places.cwd;
    let users = config.map(|config| (config.join("tools"), "script:user"));
    let trusted = given.loaded.judgement.is_trusted();
    let projects = trusted.then(|| (cwd.join(PROJECT_TOOLS), "script:project"));
    let mut seen: Vec<PathBuf> = Vec::new();
    for (dir, source) in users.into_iter().chain(projects).filter(|(dir, _)| dir.exists()) {
        match scripts::load_scripts(&dir) {
            Ok(loaded) => registry = add_scripts(&registry, source, loaded, &common.notices),
            // The user did not just name the folder, so an error in it doesn't stop the session.
            Err(error) => {
                common.notices.warn(format!("`{}` can't be read: {}", dir.display(), io_reason(&error)));
            }
        }
        seen.push(real_path(&dir));
    }
    for (at, named) in common.tools_dir.iter().enumerate() {
        let dir = real_path(&cwd.join(named));
        if seen.contains(&dir) {
            continue;
        }
        let shown = one_line(&named.display().to_string());
        let loaded = scripts::load_scripts(&dir).map_err(|error| {
            let message =
                format!("the tools directory `{shown}`: {}; give a directory that exists", io_reason(&error));
            SessionError::tools(message).with_option(SessionOption::ToolsDirectory)
        })?;
        if loaded.tools.is_empty() && loaded.problems.is_empty() {
            common.notices.warn(format!(
                "the tools directory `{shown}` has no tool; a tool is a folder in it with a `tool.json`"
            ));
        }
        registry = add_scripts(&registry, format!("script:tools-dir-{:03}", at + 1), loaded, &common.notices);
        seen.push(dir);
    }
    Ok(registry)
}

/// Adds the tools that could be loaded, and reports why others could not.
fn add_scripts(
    registry: &Registry,
    source: impl Into<Arc<str>>,
    loaded: scripts::LoadedScripts,
    notices: &NoticeSink,
) -> Registry {
    let (registry, problems) = loaded.register(registry, source);
    for problem in &problems {
        notices.warn(format!("script tool left out: {problem}"));
    }
    registry
}

/// Reports tools whose offered name differs from their own one.
pub(super) fn warn_of_clashes(engine: &EngineBuilder, notices: &NoticeSink) {
    let mut names = HashSet::new();
    if engine.registry().entries().all(|entry| names.insert(entry.tool().name())) {
        return;
    }
    let snapshot = engine.snapshot();
    for offer in snapshot.offers().iter().filter(|offer| offer.name() != offer.tool().name()) {
        let (own, name) = (offer.tool().name(), offer.name());
        let holder = snapshot.find(own).map(|first| format!(", which {} has", first.origin()));
        let holder = holder.unwrap_or_default();
        notices.warn(format!(
            "two tools are called `{own}`{holder}; the one of {} is called `{name}`",
            offer.origin()
        ));
    }
}

/// Returns the tools that a preview may suggest: those that exist.
pub(super) fn reader_tools(registry: &Registry) -> ReaderTools {
    let all = ReaderTools::default();
    let there = |name: &std::sync::Arc<str>| registry.entries().any(|entry| entry.tool().name() == &**name);
    ReaderTools { read: all.read.filter(there), search: all.search.filter(there) }
}
