//! `cargo xtask prove`: the long proofs, with optimised code, and the page that records what they found.
//!
//! A proof is a test named `prove_*` and marked `#[ignore = "prove"]`; what it prints after `proof: ` is
//! kept. Each runs in a process of its own, one after another: numbers are not disturbed by a neighbour, and
//! a crash is one failed proof. The fuzz targets run after them, as proofs of their own. The page has no date
//! and no machine in it, so that it changes only when a finding does.

use std::time::Instant;

use serde_json::Value;

use crate::cargo::{Call, root};
use crate::recorded::run_and_collect;
use crate::sections::{self, Sections};
use crate::source::write;
use crate::{Done, features, fuzz, tools};

const PAGE: &str = "docs/proof/latest.md";

/// The name under which the lints of single features run.
const FEATURES: &str = "features";

/// A proof, for example `haft/it::dispatch::prove_order` or `fuzz/rule`.
struct Proof {
    name: String,
    /// The test that it is; a fuzz target has none.
    test: Option<Call>,
}

pub(crate) fn run(only: Option<&str>, profile: &str) -> Done {
    if only.is_none_or(|only| only == FEATURES) {
        println!("\n=== {FEATURES}");
        features::lint_each()?;
        if only.is_some() {
            return Ok(());
        }
    }
    // Nothing is built for a fuzz target that was asked for, and one package for a proof that names it.
    let is_fuzzed = only.is_some_and(|only| only.starts_with(fuzz::FOLDER));
    let mut proofs = if is_fuzzed { Vec::new() } else { find(only, profile)? };
    let targets = fuzz::targets()?.into_iter();
    proofs.extend(targets.map(|target| Proof { name: format!("{}/{target}", fuzz::FOLDER), test: None }));
    let known: Vec<String> = proofs.iter().map(|proof| proof.name.clone()).collect();
    proofs.retain(|proof| only.is_none_or(|only| proof.name.contains(only)));
    if proofs.is_empty() {
        return Err(format!("no proof `{}`; there are:\n  {}", only.unwrap_or_default(), known.join("\n  ")));
    }

    let root = root()?;
    // A full run forgets what is gone; a partial run keeps what it did not try.
    let page = only.map(|_| std::fs::read_to_string(root.join(PAGE)).unwrap_or_default());
    let mut sections = sections::read(&page.unwrap_or_default());
    let mut failed = Vec::new();
    for proof in &proofs {
        println!("\n=== {}", proof.name);
        let started = Instant::now();
        let (mut found, done) = proof.run();
        if profile == "dev" {
            found.push("not optimised".to_owned());
        }
        let passed = if done.is_ok() { "passed" } else { "FAILED" };
        println!("--- {passed} after {:.1} s", started.elapsed().as_secs_f64());
        if done.is_err() {
            failed.push(proof.name.clone());
        }
        sections.insert(proof.name.clone(), section(done.is_ok(), &found));
    }
    write(&root, PAGE, &self::page(&sections))?;
    println!("\n{} proofs, {} failed", proofs.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed proofs:\n  {}", failed.join("\n  "))) }
}

impl Proof {
    /// Runs it and returns what it found; all that it prints is passed on.
    fn run(&self) -> (Vec<String>, Done) {
        match &self.test {
            Some(test) => run_and_collect(test),
            None => fuzz::prove(self.name.rsplit('/').next().unwrap_or_default()),
        }
    }
}

/// The tests that are proofs, as nextest lists them; where the name of a proof begins with its package, as on
/// the page, those of that package.
fn find(only: Option<&str>, profile: &str) -> Result<Vec<Proof>, String> {
    let nextest = tools::installed("cargo-nextest", "cargo-nextest", "0.9.143", &[])?;
    let mut args = vec!["nextest", "list", "--cargo-profile", profile, "--all-features"];
    match only.and_then(|only| only.split_once('/')) {
        Some((package, _)) => args.extend(["--package", package]),
        None => args.push("--workspace"),
    }
    args.extend(["--run-ignored", "only", "--message-format", "json"]);
    let mut list = Value::Null;
    Call::new(nextest, args).run_lines(|line| list = serde_json::from_str(line).unwrap_or(list.take()))?;
    let suites = list["rust-suites"].as_object().ok_or("nextest lists no tests")?;
    Ok(suites.values().flat_map(proofs).collect())
}

/// The proofs in a test program.
fn proofs(suite: &Value) -> Vec<Proof> {
    let text = |key: &str| suite[key].as_str().unwrap_or_default();
    let target = if text("kind") == "lib" { "lib" } else { text("binary-name") };
    let tests = suite["testcases"].as_object().into_iter().flatten();
    let is_proof = |test: &str| test.rsplit("::").next().is_some_and(|name| name.starts_with("prove_"));
    let proofs = tests.filter(|(test, of_test)| of_test["ignored"] == true && is_proof(test));
    let proof = |(test, _): (&String, &Value)| {
        // With one thread the test harness writes `test name ... ` without a line end before the test's own
        // output.
        let args = ["--exact", test, "--ignored", "--nocapture", "--test-threads=2"];
        let call = Call::new(text("binary-path"), args).with_dir(text("cwd").as_ref());
        let name = format!("{}/{target}::{test}", text("package-name"));
        Proof { name, test: Some(call.with_env("CARGO_MANIFEST_DIR", text("cwd"))) }
    };
    proofs.map(proof).collect()
}

fn section(passed: bool, found: &[String]) -> String {
    let found: String = found.iter().map(|line| format!("- {line}\n")).collect();
    let passed = if passed { "passed\n" } else { "**failed**\n" };
    if found.is_empty() { passed.to_owned() } else { format!("{passed}\n{found}") }
}

fn page(found: &Sections) -> String {
    let failed = found.values().filter(|text| text.starts_with("**failed**")).count();
    let (count, introduction) = (found.len(), "What `cargo xtask prove` found last.");
    sections::page(&format!("# Proofs\n\n{introduction} {count} proofs, {failed} failed.\n"), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_found_in_what_nextest_says() {
        let suite = serde_json::json!({"package-name": "haft", "kind": "test", "binary-name": "it", "cwd": "/x", "binary-path": "/t",
            "testcases": {"a::prove_x": {"ignored": true}, "a::prove_y": {"ignored": false}, "a::slow": {"ignored": true}}});
        let names: Vec<String> = proofs(&suite).into_iter().map(|proof| proof.name).collect();
        assert_eq!(names, ["haft/it::a::prove_x"]);
    }

    #[test]
    fn a_page_can_be_read_back() {
        let all =
            Sections::from([("haft/it::prove_x".to_string(), section(true, &["10 calls".to_string()]))]);
        let page = page(&all);
        let expected = "1 proofs, 0 failed.\n\n## `haft/it::prove_x`\n\npassed\n\n- 10 calls\n";
        assert!(page.ends_with(expected), "{page}");
        assert_eq!(sections::read(&page), all);
    }
}
