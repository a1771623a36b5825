//! Configures the sandbox and the child processes of a session.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::Workspace;
use haft_policy::trust::{Inventory, Judgement, Loaded};

use super::tools::PROJECT_TOOLS;
use super::workspace::real;
use crate::SessionOptions;
use crate::guarded_processes::GuardedProcesses;
use crate::loaded_settings::LoadedSettings;
use crate::processes::{self, SessionProcesses};

/// The paths of a session that its sandbox needs.
pub(super) fn surroundings<'a>(
    common: &SessionOptions,
    given: &'a LoadedSettings,
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
        scripts: scripts(&given.loaded.inventory),
        session,
    }
}

/// Files that run by themselves, of the workspace and in it, and what they lead to where they are links.
fn scripts(inventory: &Inventory) -> Vec<PathBuf> {
    let named = inventory.files().chain(inventory.users_files());
    let both = named.flat_map(|path| [Some(path.to_owned()), path.canonicalize().ok()]);
    let mut scripts: Vec<PathBuf> = both.flatten().collect();
    scripts.sort();
    scripts.dedup();
    scripts
}

/// Child processes with the environment of the settings, which start no tool of the workspace but as it was trusted.
pub(super) fn children(
    processes: &Arc<SessionProcesses>,
    given: &LoadedSettings,
) -> GuardedProcesses<SessionProcesses> {
    let Loaded { settings, inventory, judgement, .. } = &given.loaded;
    let env = settings.env.iter().map(|(name, at)| (name.into(), at.value.clone().into()));
    let children = GuardedProcesses::new(processes.clone(), env);
    match judgement {
        Judgement::Trusted => children.with_trusted(given.places.cwd.join(PROJECT_TOOLS), inventory.clone()),
        _ => children,
    }
}
