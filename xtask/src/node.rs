//! The Node packages that tests use: MCP servers that other people wrote, in a folder under the target folder.
//!
//! Tests find them by the variable [`VARIABLE`] and, where it isn't set, say that they were skipped. Versions are pinned in
//! `PACKAGES` and its lock file; a change of either installs anew. No script of a package is run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{Call, root, target_dir};

/// Names the folder of packages for tests.
pub(crate) const VARIABLE: &str = "HAFT_TEST_NODE_MODULES";
const PACKAGES: &str = "examples/node";
const FILES: [&str; 2] = ["package.json", "package-lock.json"];

/// The folder of packages, which is made or brought up to date first.
pub(crate) fn modules() -> Result<PathBuf, String> {
    let place = target_dir()?.join("node");
    let wanted = root()?.join(PACKAGES);
    let read = |name: &str| {
        fs::read_to_string(wanted.join(name)).map_err(|error| format!("`{PACKAGES}/{name}`: {error}"))
    };
    let pinned = FILES.iter().map(|name| read(name)).collect::<Result<Vec<_>, _>>()?;
    if !is_current(&place, &pinned) {
        let failed = |error: std::io::Error| format!("`{}`: {error}", place.display());
        fs::create_dir_all(&place).map_err(failed)?;
        for (name, text) in FILES.iter().zip(&pinned) {
            fs::write(place.join(name), text).map_err(failed)?;
        }
        install(&place)?;
        fs::write(stamp(&place), pinned.concat()).map_err(failed)?;
    }
    Ok(place.join("node_modules"))
}

/// The file that says what is installed, written last: a folder without it is not finished.
fn stamp(place: &Path) -> PathBuf {
    place.join("installed.txt")
}

fn is_current(place: &Path, pinned: &[String]) -> bool {
    fs::read_to_string(stamp(place)).is_ok_and(|installed| installed == pinned.concat())
}

fn install(place: &Path) -> Result<(), String> {
    let place = place.to_string_lossy();
    let args =
        ["ci", "--prefix", &*place, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"];
    Call::new("npm".into(), "npm", args).quiet().run().map_err(|error| {
        format!("{error}\ntests with MCP servers need Node 20 or newer with npm (Debian: nodejs npm)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_current_if_it_was_finished_with_these_versions() {
        let place = std::env::temp_dir().join(format!("haft-xtask-node-{}", std::process::id()));
        fs::create_dir_all(&place).expect("the temporary folder can be written");
        let pinned = |version: &str| vec![format!("a {version}"), "lock".to_owned()];
        assert!(!is_current(&place, &pinned("1")));
        fs::write(stamp(&place), pinned("1").concat()).expect("the folder was just made");
        assert!(is_current(&place, &pinned("1")));
        assert!(!is_current(&place, &pinned("2")));
        fs::remove_dir_all(&place).expect("the folder is ours");
    }
}
