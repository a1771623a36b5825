//! Configures the sandbox and the child processes of a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::Workspace;
use haft::files::PathTable;
use haft_policy::rule::NamedPath;
use haft_policy::settings::{SandboxSettings, SettingsPlaces};
use haft_policy::trust::{ResolvedSettings, TrustInventory, TrustJudgement};

use super::session_config::SessionConfig;
use super::tools::PROJECT_TOOLS;
use super::workspace::real_path;
use crate::guarded_processes::GuardedProcesses;
use crate::loaded_settings::LoadedSettings;
use crate::processes::{self, SessionProcesses};
use crate::temp_folder::{TempFolder, is_below_temp};
use crate::{SessionOptions, SessionPurpose};

/// Returns the paths of a session that its sandbox needs.
pub(super) fn sandbox_surroundings<'a>(
    common: &SessionOptions,
    given: &'a LoadedSettings,
    workspace: &Workspace,
    state: &'a Option<PathBuf>,
    temp: &'a TempFolder,
    named: &'a [NamedPath],
) -> processes::SandboxSurroundings<'a> {
    let places = &given.places;
    let users = places.config_dir.iter().map(|config| config.join("tools"));
    let tools =
        users.chain(common.tools_dir.iter().map(|dir| places.cwd.join(dir))).map(|dir| real_path(&dir));
    processes::SandboxSurroundings {
        workspace: workspace.dirs().map(Path::to_owned).collect(),
        home: places.home.as_deref(),
        own: own_folders(places),
        state: state.as_deref(),
        tools: tools.filter(|dir| dir.is_dir()).collect(),
        scripts: script_paths(&given.loaded.inventory),
        temp,
        named,
    }
}

/// Returns the folders of the user's settings and state, at their current and default locations.
fn own_folders(places: &SettingsPlaces) -> Vec<PathBuf> {
    let own = [&places.config_dir, &places.state_dir, &places.claude_dir, &places.claude_json];
    own.into_iter().flatten().chain(&places.usual).map(|dir| real_path(dir)).collect()
}

/// Returns the path mapping of a session with a sandbox. Paths that it shares with the host are the host's,
/// even below `/tmp`.
pub(super) fn path_table(
    config: &SessionConfig,
    purpose: SessionPurpose,
    temp: &TempFolder,
    named: &[NamedPath],
) -> PathTable {
    let SessionConfig { options, given, workspace, .. } = config;
    let (places, files) = (&given.places, &config.settings().sandbox.files);
    let home = places.home.as_deref();
    let settings = |list| SandboxSettings::absolute_paths(list, home, workspace.cwd());
    let tools = options.tools_dir.iter().map(|dir| places.cwd.join(dir));
    let shared = workspace.dirs().map(Path::to_owned).chain(own_folders(places));
    let shared = shared.chain(home.map(real_path)).chain(tools.map(|dir| real_path(&dir)));
    let shared = shared.chain(settings(&files.allow_read)).chain(settings(&files.allow_write));
    // The folder around the copy of a working directory replaces the folder around that directory.
    let beside = workspace.cwd().parent().filter(|_| purpose == SessionPurpose::Replay);
    let shared: Vec<PathBuf> = shared.chain(beside.map(Path::to_owned)).collect();
    // A rule with a wildcard in the first name below `/tmp` names no path of the host.
    let rules = named.iter().map(|named| named.path.clone()).filter(|path| is_below_temp(path));
    temp.path_table(shared.into_iter().chain(rules))
}

/// Returns files of or in the workspace that run by themselves, and their targets if they are symlinks.
fn script_paths(inventory: &TrustInventory) -> Vec<PathBuf> {
    let named = inventory.files().chain(inventory.users_files());
    let both = named.flat_map(|path| [Some(path.to_owned()), path.canonicalize().ok()]);
    let mut scripts: Vec<PathBuf> = both.flatten().collect();
    scripts.sort();
    scripts.dedup();
    scripts
}

/// Returns child processes with the environment of the settings, which start a tool of the workspace only
/// as it was trusted.
pub(super) fn guarded_processes(
    processes: &Arc<SessionProcesses>,
    given: &LoadedSettings,
) -> GuardedProcesses<SessionProcesses> {
    let ResolvedSettings { settings, inventory, judgement, .. } = &given.loaded;
    let env = settings.env.iter().map(|(name, at)| (name.into(), at.value.0.clone().into()));
    let children = GuardedProcesses::new(processes.clone(), env);
    match judgement {
        TrustJudgement::Trusted => {
            children.with_trusted(given.places.cwd.join(PROJECT_TOOLS), inventory.clone())
        }
        _ => children,
    }
}
