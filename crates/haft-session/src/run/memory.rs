//! Memory files: instructions for agents in `AGENTS.md` and `CLAUDE.md`.
//!
//! The user's own files always apply. Those of a project apply once the user trusts the workspace, since
//! they instruct a model. They are not part of the trust hash: they run nothing and lift no rule, and
//! people change them every day. A file may be a symlink, as long as its target is inside of the project.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use haft_policy::settings::SettingsPlaces;
use haft_policy::trust::{TrustInventory, TrustJudgement, TrustStore};

use super::prompt::relative_path;
use crate::SessionOptions;
use crate::loaded_settings::LoadedSettings;
use crate::text::one_line;

/// The maximum size of one file, in bytes. Longer files are truncated with a note.
pub const MEMORY_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of files that are read.
pub const MEMORY_FILES_MAX: usize = 32;

const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Returns the memory of a run as a part of the system prompt. Reports skipped files.
pub fn read_memory(given: &LoadedSettings, common: &SessionOptions) -> Option<String> {
    let places = &given.places;
    let projects = of_project(places);
    let trusted = is_trusted(places, common, &given.loaded.judgement, &given.loaded.inventory);
    if !trusted && !projects.is_empty() {
        let names: Vec<String> = projects.iter().map(|file| one_line(&places.show(file))).collect();
        common.notices.warn(format!(
            "left out: {}; this workspace is not trusted, `haft trust` shows it",
            names.join(", ")
        ));
    }
    let files = of_user(places).into_iter().chain(if trusted { projects } else { Vec::new() });
    let mut parts = Vec::new();
    for file in files.take(MEMORY_FILES_MAX) {
        let Some((text, cut)) = read_text(&file) else {
            common.notices.warn(format!("`{}` can't be read and is left out", one_line(&places.show(&file))));
            continue;
        };
        if cut {
            let name = one_line(&places.show(&file));
            common
                .notices
                .warn(format!("`{name}` is longer than {MEMORY_BYTES_MAX} bytes; the rest is left out"));
        }
        if !text.trim().is_empty() {
            parts.push(format!("From {}:\n\n{}", relative_path(&file, &places.cwd).display(), text.trim()));
        }
    }
    let introduced =
        "What was written down for whoever works here. Where two disagree, the later one counts.";
    (!parts.is_empty()).then(|| format!("{introduced}\n\n{}", parts.join("\n\n")))
}

/// Returns the files of the user.
fn of_user(places: &SettingsPlaces) -> Vec<PathBuf> {
    let own = places.config_dir.iter().map(|dir| dir.join(NAMES[0]));
    let claudes = places.claude_dir.iter().map(|dir| dir.join(NAMES[1]));
    own.chain(claudes).filter(|file| file.is_file()).collect()
}

/// Returns the files of a project, from the root of the repository down to the working directory. Each file
/// is returned once, whatever names it has.
pub fn of_project(places: &SettingsPlaces) -> Vec<PathBuf> {
    // The root of a worktree is its own, and not that of the main checkout.
    let root = places.git_root.as_deref().filter(|root| places.cwd.starts_with(root)).unwrap_or(&places.cwd);
    let mut dirs: Vec<&Path> = places.cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect();
    dirs.reverse();
    let users: Vec<PathBuf> = of_user(places).iter().filter_map(|file| file.canonicalize().ok()).collect();
    let mut real: Vec<PathBuf> = Vec::new();
    let mut files = Vec::new();
    for file in dirs.iter().flat_map(|dir| NAMES.map(|name| dir.join(name))) {
        let Ok(found) = file.canonicalize() else { continue };
        if found.is_file() && found.starts_with(root) && !users.contains(&found) && !real.contains(&found) {
            real.push(found);
            files.push(file);
        }
    }
    files
}

/// Returns whether the user trusts the workspace: what it runs and loosens or, if that is nothing, the
/// workspace itself.
pub fn is_trusted(
    places: &SettingsPlaces,
    common: &SessionOptions,
    judgement: &TrustJudgement,
    inventory: &TrustInventory,
) -> bool {
    match judgement {
        TrustJudgement::Trusted => true,
        TrustJudgement::Untrusted(_) => false,
        TrustJudgement::Nothing => match (&common.trust_hash, &places.state_dir) {
            (Some(given), _) => *given == inventory.hash().to_string(),
            (None, Some(state)) => TrustStore::open(state).changed_since(&places.cwd, inventory).is_some(),
            (None, None) => false,
        },
    }
}

/// Returns a file's text, and whether it was truncated.
fn read_text(file: &Path) -> Option<(String, bool)> {
    let mut bytes = Vec::new();
    File::open(file).ok()?.take(MEMORY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    let cut = bytes.len() > MEMORY_BYTES_MAX;
    bytes.truncate(MEMORY_BYTES_MAX);
    Some((String::from_utf8_lossy(&bytes).into_owned(), cut))
}
