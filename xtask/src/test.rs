//! `cargo xtask test`: what every commit passes.
//!
//! Cheap steps come first, so that a forgotten `cargo fmt` costs a second. Nothing here takes long; long proofs
//! are `cargo xtask prove`.

use std::path::PathBuf;

use crate::cargo::{cargo, metadata};
use crate::steps::Steps;
use crate::{Done, chromium, deny, docs, features, lint, node, python, repository};

pub(crate) fn run() -> Done {
    let mut steps = Steps::new();
    steps.run("fetch", deny::fetch)?;
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    steps.run("docs", || docs::run(docs::Action::Check))?;
    steps.run("clippy", lint::clippy)?;
    let mut python = PathBuf::new();
    steps.run("python", || python::interpreter().map(|made| python = made))?;
    let mut modules = PathBuf::new();
    steps.run("node", || node::modules().map(|made| modules = made))?;
    let mut browser = PathBuf::new();
    steps.run("chromium", || chromium::browser().map(|found| browser = found))?;
    steps.run("test", || {
        let tests = cargo(["test", "--workspace", "--all-features"]);
        let tests = tests.with_env(python::VARIABLE, &python.to_string_lossy());
        let tests = tests.with_env(chromium::VARIABLE, &browser.to_string_lossy());
        tests.with_env(node::VARIABLE, &modules.to_string_lossy()).run()
    })?;
    steps.run("map order", map_order)?;
    steps.run("model", model_check)?;
    steps.run("features", features::run)?;
    steps.run("rustdoc", rustdoc)?;
    steps.run("deny", || deny::run(deny::Advisories::Skip))?;
    steps.finish();
    Ok(())
}

/// Explores the interleavings of the dispatcher: its own tests, compiled with the locks of shuttle.
///
/// In a target folder of its own, because the flag is one of every crate: sharing a folder would build everything
/// twice, each time.
fn model_check() -> Done {
    let target = metadata()?["target_directory"].as_str().map(|dir| format!("{dir}/shuttle"));
    let target = target.ok_or("`cargo metadata` names no target directory")?;
    cargo([
        "test",
        "--package",
        "haft",
        "--lib",
        "--target-dir",
        &target,
        "shuttle_tests",
        "--",
        "--show-output",
    ])
    .with_env("RUSTFLAGS", "--cfg shuttle")
    .run()
}

/// Definitions again, with maps that keep the order of their keys: what is sent must not depend on it, and a dependency
/// may turn that on for the whole program.
fn map_order() -> Done {
    cargo(["test", "--package", "haft-provider", "--features", "serde_json/preserve_order"]).run()
}

fn rustdoc() -> Done {
    cargo(["doc", "--workspace", "--no-deps", "--all-features"]).with_env("RUSTDOCFLAGS", "-D warnings").run()
}
