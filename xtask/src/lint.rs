//! `cargo xtask lint`: the quick part of `test`, for the moment before a commit.

use crate::cargo::cargo;
use crate::steps::Steps;
use crate::{Done, repository};

pub(crate) fn run() -> Done {
    let mut steps = Steps::new();
    steps.run("fmt", fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("clippy", clippy)?;
    steps.finish();
    Ok(())
}

pub(crate) fn fmt() -> Done {
    cargo(["fmt", "--all", "--check"]).run()
}

pub(crate) fn clippy() -> Done {
    cargo(["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"]).run()
}
