//! Names that weren't there when a command began and must not come to be, and links that must lead where they
//! did.

use std::fs;
use std::path::PathBuf;

use haft::ports::ConfinementRefusal;

use super::RepositoryGuard;
use crate::profile::{display_path, undo};

impl RepositoryGuard {
    /// Files that configuration or a link names and that weren't there.
    pub(super) fn put_missing_aside(&self, said: &mut Vec<ConfinementRefusal>) {
        let state = self.state();
        for path in self.missing_names(&state).into_iter().filter(|path| undo::is_there(path)) {
            if let Some(workspace) = self.workspaces.iter().find(|workspace| path.starts_with(workspace)) {
                let done = undo::put_aside(&path, workspace);
                said.push(ConfinementRefusal::Protected { path, done });
            }
        }
        // What lies behind a link has another name, and may be the user's.
        let straight = |path: &&PathBuf| {
            path.parent().is_some_and(|at| crate::profile::open_path(&at.join(".")).is_ok())
        };
        for path in state.unheld.iter().filter(straight).filter(|path| undo::is_there(path)) {
            let done = match undo::rename_aside(path) {
                Ok(aside) => format!(
                    "a rule denies writing it, and a command made it; it was renamed to `{}`",
                    display_path(&aside)
                ),
                Err(error) => {
                    format!("a rule denies writing it, and a command made it; it can't be renamed: {error}")
                }
            };
            said.push(ConfinementRefusal::Protected { path: path.clone(), done });
        }
    }

    pub(super) fn put_links_back(&self, said: &mut Vec<ConfinementRefusal>) {
        for (path, to) in &self.state().links {
            if fs::read_link(path).is_ok_and(|now| now == *to) {
                continue;
            }
            let aside = if path.symlink_metadata().is_ok() { undo::take_away(path) } else { String::new() };
            let done = match undo::make_symlink(path, to) {
                Ok(()) => format!("the link to `{}` was put back", display_path(&to)),
                Err(error) => {
                    format!("the link to `{}` can't be put back: {error}; {aside}", display_path(&to))
                }
            };
            said.push(ConfinementRefusal::Protected { path: path.clone(), done });
        }
    }
}
