//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. Nothing here takes long; long proofs
//! are `cargo xtask prove`.

use crate::cargo::{cargo, root};
use crate::steps::Steps;
use crate::{Done, deny, docs, features, lint, repository};

pub(crate) fn run() -> Done {
    let mut steps = Steps::new();
    steps.run("fetch", deny::fetch)?;
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("docs", || docs::run(docs::Action::Check))?;
    steps.run("clippy", lint::clippy)?;
    steps.run("test", || cargo(["test", "--workspace", "--all-features"]).run())?;
    steps.run("model", model_check)?;
    steps.run("features", features::run)?;
    steps.run("rustdoc", rustdoc)?;
    steps.run("deny", || deny::run(deny::Advisories::Skip))?;
    steps.finish();
    Ok(())
}

/// Explores the interleavings of the scheduler, where the crate brings such a test.
fn model_check() -> Done {
    if !root()?.join("crates/haft/tests/shuttle.rs").exists() {
        println!("nothing to do: there is no crates/haft/tests/shuttle.rs");
        return Ok(());
    }
    cargo(["test", "--package", "haft", "--test", "shuttle", "--features", "testing"]).run()
}

fn rustdoc() -> Done {
    cargo(["doc", "--workspace", "--no-deps", "--all-features"]).with_env("RUSTDOCFLAGS", "-D warnings").run()
}
