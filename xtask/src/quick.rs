//! `cargo xtask test --quick`: what a change since the last commit may have broken, for the inner loop.
//!
//! Crates that changed get lints and all their tests, crates that depend on them lints and unit tests: what
//! is built for a test is linted in the same step. Everything is built with the features of the whole
//! workspace, so that the builds of `test` are used again.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Done;
use crate::cargo::{Call, metadata};
use crate::runner::{self, TestSelection};
use crate::steps::Steps;
use crate::{lint, repository};

pub(crate) fn run(variables: impl FnOnce(&mut Steps) -> Result<Vec<(&'static str, String)>, String>) -> Done {
    let mut steps = Steps::new();
    let plan = QuickPlan::new(&metadata()?, &changed_files()?);
    steps.run("fmt", lint::fmt)?;
    steps.run("repository", repository::run)?;
    if plan.changed.is_empty() && plan.dependents.is_empty() {
        steps.finish();
        println!("no crate changed since the last commit");
        return Ok(());
    }
    println!("\n{}", plan.describe());
    let variables = variables(&mut steps)?;
    steps.run("test", || runner::run(&plan.selection(), &variables))?;
    steps.finish();
    println!("{}", plan.describe_left_out());
    Ok(())
}

/// Files that differ from the last commit, and new ones.
fn changed_files() -> Result<Vec<String>, String> {
    let git = |args: &[&str]| Call::new("git", args).read();
    let changed = git(&["diff", "--name-only", "HEAD"])?;
    let new = git(&["ls-files", "--others", "--exclude-standard"])?;
    Ok(changed.lines().chain(new.lines()).map(str::to_owned).collect())
}

/// The crates that a change concerns.
#[derive(Debug, PartialEq)]
struct QuickPlan {
    changed: BTreeSet<String>,
    dependents: BTreeSet<String>,
    /// Crates whose tests don't run.
    untested: BTreeSet<String>,
    /// Integration test programs of the changed crates.
    test_targets: Vec<String>,
}

impl QuickPlan {
    fn new(metadata: &Value, files: &[String]) -> QuickPlan {
        let packages = || metadata["packages"].as_array().into_iter().flatten();
        let name = |package: &Value| package["name"].as_str().unwrap_or_default().to_owned();
        let all: BTreeSet<String> = packages().map(name).collect();
        let changed: BTreeSet<String> = files.iter().filter_map(|file| crate_of(file)).collect();
        let changed: BTreeSet<String> = changed.intersection(&all).cloned().collect();
        // The manifest and the lock file of the workspace concern every crate.
        let whole = files.iter().any(|file| matches!(file.as_str(), "Cargo.toml" | "Cargo.lock"));
        let mut reached = if whole { all.clone() } else { changed.clone() };
        loop {
            let depends = |package: &&Value| {
                let mut needed = package["dependencies"].as_array().into_iter().flatten();
                needed.any(|needed| needed["name"].as_str().is_some_and(|needed| reached.contains(needed)))
            };
            let next: BTreeSet<String> = packages().filter(depends).map(name).collect();
            if next.is_subset(&reached) {
                break;
            }
            reached.extend(next);
        }
        let tests = |package: &Value| {
            let targets = package["targets"].as_array().into_iter().flatten();
            let tests = targets.filter(|target| target["kind"][0] == "test");
            tests.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let test_targets =
            packages().filter(|package| changed.contains(&name(package))).flat_map(tests).collect();
        QuickPlan {
            dependents: reached.difference(&changed).cloned().collect(),
            untested: all.difference(&reached).cloned().collect(),
            changed,
            test_targets,
        }
    }

    fn selection(&self) -> TestSelection {
        let mut targets = vec!["--lib".to_owned(), "--bins".to_owned()];
        for test in &self.test_targets {
            targets.extend(["--test".to_owned(), test.clone()]);
        }
        let packages = self.changed.iter().chain(&self.dependents);
        let filter: Vec<String> = packages.map(|package| format!("package(={package})")).collect();
        TestSelection { targets, filter: Some(filter.join(" | ")), name: None }
    }

    fn describe(&self) -> String {
        format!(
            "all tests of: {}\nunit tests of what depends on them: {}",
            list(&self.changed),
            list(&self.dependents)
        )
    }

    fn describe_left_out(&self) -> String {
        format!(
            "left out, run by `cargo xtask test`: integration tests of {}, and their lints; all tests of {}; \
             benchmarks, documentation, features, deny",
            list(&self.dependents),
            list(&self.untested)
        )
    }
}

/// The crate that a file belongs to.
fn crate_of(file: &str) -> Option<String> {
    let mut parts = file.split('/');
    match parts.next()? {
        "crates" => parts.next().map(str::to_owned),
        "xtask" => Some("xtask".to_owned()),
        _ => None,
    }
}

fn list(names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: &[&str]) -> (String, String, String, String) {
        let metadata = serde_json::json!({"packages": [
            {"name": "core", "dependencies": [{"name": "serde"}], "targets": [
                {"kind": ["lib"], "name": "core"}, {"kind": ["test"], "name": "it-core"}]},
            {"name": "tools", "dependencies": [{"name": "core"}], "targets": [
                {"kind": ["test"], "name": "it-tools"}]},
            {"name": "cli", "dependencies": [{"name": "tools"}], "targets": [{"kind": ["test"], "name": "it-cli"}]},
            {"name": "otel", "dependencies": [{"name": "core"}], "targets": []},
            {"name": "xtask", "dependencies": [], "targets": []},
        ]});
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let plan = QuickPlan::new(&metadata, &files);
        (list(&plan.changed), list(&plan.dependents), list(&plan.untested), plan.test_targets.join(", "))
    }

    fn check(files: &[&str], changed: &str, dependents: &str, untested: &str, targets: &str) {
        let expected = (changed.to_owned(), dependents.to_owned(), untested.to_owned(), targets.to_owned());
        assert_eq!(plan(files), expected);
    }

    #[test]
    fn changed_crates_and_what_depends_on_them() {
        check(&["crates/cli/src/main.rs"], "cli", "none", "core, otel, tools, xtask", "it-cli");
        check(&["crates/tools/x.rs", "README.md"], "tools", "cli", "core, otel, xtask", "it-tools");
        check(&["crates/core/x.rs"], "core", "cli, otel, tools", "xtask", "it-core");
        check(&["docs/a.md", "crates/gone/x.rs"], "none", "none", "cli, core, otel, tools, xtask", "");
        check(&["Cargo.lock"], "none", "cli, core, otel, tools, xtask", "none", "");
    }
}
