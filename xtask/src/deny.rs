//! `cargo xtask deny`: licences, bans and sources of everything in the lock file, by the rules of `deny.toml`.
//!
//! The checks run without the network, so that they say the same everywhere. Advisories change from day to day and
//! need a database that is fetched, so they run only when asked for: a commit that passed yesterday passes today.

use crate::Done;
use crate::cargo::cargo;

/// The version that the rules in `deny.toml` are written for.
const VERSION: &str = "0.20.2";

/// Whether to look for known vulnerabilities, which needs the network.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum Advisories {
    Fetch,
    Skip,
}

pub(crate) fn run(advisories: Advisories) -> Done {
    ensure_installed()?;
    fetch()?;
    cargo(["deny", "--offline", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"]).run()?;
    match advisories {
        Advisories::Fetch => cargo(["deny", "check", "advisories"]).run(),
        Advisories::Skip => Ok(()),
    }
}

/// Downloads the crates of every platform, since licences are checked for all of them and a build needs only its own.
pub(crate) fn fetch() -> Done {
    cargo(["fetch", "--locked", "--quiet"]).run()
}

fn ensure_installed() -> Done {
    let Ok(said) = cargo(["deny", "--version"]).read() else {
        println!("cargo-deny is not installed; building it takes some minutes, once");
        return cargo(["install", "--locked", "--quiet", "cargo-deny", "--version", VERSION]).run().map_err(|error| {
            format!("{error}\ncargo-deny {VERSION} could not be installed; it comes from the crate registry, so this step needs the network once")
        });
    };
    accept(&said)
}

/// Another version is named, not replaced: it is the developer's, and serves their other projects.
fn accept(said: &str) -> Done {
    match said.split_whitespace().last() {
        Some(VERSION) => Ok(()),
        other => Err(format!(
            "cargo-deny {} is installed, the rules are written for {VERSION}\nhint: cargo install --locked cargo-deny --version {VERSION}",
            other.unwrap_or("of unknown version"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_version_is_accepted() {
        assert_eq!(accept(&format!("cargo-deny {VERSION}\n")), Ok(()));
        let refused = accept("cargo-deny 0.1.0\n").unwrap_err();
        assert!(refused.starts_with("cargo-deny 0.1.0 is installed"), "{refused}");
        assert!(accept("").unwrap_err().contains("unknown version"));
    }
}
