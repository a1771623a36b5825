//! `cargo xtask deny`: licences, bans and sources of everything in the lock file, by the rules of
//! `deny.toml`.
//!
//! The checks run without the network, so that they say the same everywhere. Advisories change from day to
//! day and need a database that is fetched, so they run only when asked for: a commit that passed yesterday
//! passes today.

use crate::cargo::{Call, cargo};
use crate::{Done, tools};

pub(crate) fn run(with_advisories: bool) -> Done {
    fetch()?;
    call(&["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])?.run()?;
    if with_advisories { call(&["check", "advisories"])?.run() } else { Ok(()) }
}

/// The same without advisories, for a step in the background.
pub(crate) fn run_quietly() -> Done {
    call(&["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])?.quiet().run()
}

/// Downloads the crates of every platform, since licences are checked for all of them and a build needs only
/// its own.
pub(crate) fn fetch() -> Done {
    cargo(["fetch", "--locked", "--quiet"]).run()
}

/// cargo-deny in the version that the rules are written for; not optimised, since the check takes a second
/// either way.
fn call(args: &[&str]) -> Result<Call, String> {
    Ok(Call::new(tools::installed("cargo-deny", "cargo-deny", "0.20.2", &["--debug"])?, args))
}
