//! The Chromium that tests drive: the one of the machine, or the package of the system, which is installed where that can be.
//!
//! Tests find it by the variable [`VARIABLE`] and, where it isn't set, look for one and say so if there is none.

use std::path::PathBuf;

use crate::cargo::Call;

/// Names the browser for tests.
pub(crate) const VARIABLE: &str = "HAFT_TEST_CHROMIUM";
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
/// How long a package may take, in seconds.
const INSTALL_SECONDS: &str = "600";

/// The browser, which is installed first if there is none.
pub(crate) fn browser() -> Result<PathBuf, String> {
    if let Some(found) = find() {
        return Ok(found);
    }
    let wanted = "tests of the browser tools need Chromium (Debian: chromium)";
    let apt = |args: &[&str]| {
        let args = ["-k", "30", INSTALL_SECONDS, "apt-get"].iter().chain(args);
        Call::new("timeout".into(), "timeout", args).with_env("DEBIAN_FRONTEND", "noninteractive").run()
    };
    let install = ["install", "--yes", "--no-install-recommends", "--quiet", "chromium"];
    apt(&["update", "--quiet"])
        .and_then(|()| apt(&install))
        .map_err(|error| format!("{error}\n{wanted}; it is installed by root, and else by you"))?;
    find().ok_or_else(|| format!("{wanted}, and the package brought none"))
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).flat_map(|dir| NAMES.map(|name| dir.join(name)));
    found.into_iter().find(|at| at.is_file())
}
