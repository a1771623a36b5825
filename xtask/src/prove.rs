//! `cargo xtask prove`: the long proofs, with optimised code, and the page that records what they found.
//!
//! A proof is a test named `prove_*` and marked `#[ignore = "prove"]`; what it prints after `proof: ` is kept. Each
//! runs in a process of its own, one after another: numbers are not disturbed by a neighbour, and a crash is one
//! failed proof. The fuzz targets run after them, as proofs of their own. The page has no date and no machine in it, so that it changes only when a finding does.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::Done;
use crate::cargo::{Call, cargo, metadata, root};
use crate::sections::{self, Sections};
use crate::source::write;
use crate::{features, fuzz};

const PAGE: &str = "docs/proof/latest.md";
const MARK: &str = "proof: ";

/// How the test programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    Optimised,
    Debug,
}

/// The name under which the lints of single features run.
const FEATURES: &str = "features";

pub(crate) fn run(only: Option<&str>, build: Build) -> Done {
    if only.is_none_or(|only| only == FEATURES) {
        println!("\n=== {FEATURES}");
        features::lint_each()?;
        if only.is_some() {
            return Ok(());
        }
    }
    // Who asks for a fuzz target need not wait until all tests are built, nor who asks for one of a package.
    let fuzzed = only.is_some_and(|only| only.starts_with(fuzz::FOLDER));
    let mut proofs: Vec<Proof> = if fuzzed { Vec::new() } else { find(&binaries(only, build)?)? };
    proofs.extend(fuzz::targets()?.into_iter().map(Proof::Fuzzed));
    let wanted: Vec<&Proof> =
        proofs.iter().filter(|proof| only.is_none_or(|only| proof.name().contains(only))).collect();
    if wanted.is_empty() {
        let known: Vec<&str> = proofs.iter().map(Proof::name).collect();
        return Err(match only {
            Some(only) if !known.is_empty() => {
                format!("no proof `{only}`; there are:\n  {}", known.join("\n  "))
            }
            _ => "there are no proofs: no test is named `prove_*` and marked `#[ignore = \"prove\"]`"
                .to_string(),
        });
    }

    let root = root()?;
    // A full run forgets what is gone; a partial run keeps what it did not try.
    let mut sections = match only {
        Some(_) => sections::of(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default()),
        None => Sections::new(),
    };
    let mut failed = Vec::new();
    for proof in &wanted {
        println!("\n=== {}", proof.name());
        let started = Instant::now();
        let (mut found, done) = proof.run();
        if build == Build::Debug {
            found.push("not optimised".to_owned());
        }
        println!(
            "--- {} after {:.1} s",
            if done.is_ok() { "passed" } else { "FAILED" },
            started.elapsed().as_secs_f64()
        );
        if done.is_err() {
            failed.push(proof.name());
        }
        sections.insert(proof.name().to_owned(), section(done.is_ok(), &found));
    }
    write(&root, PAGE, &page(&sections))?;
    println!("\n{} proofs, {} failed", wanted.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(format!("failed proofs:\n  {}", failed.join("\n  "))) }
}

/// A test program that cargo built.
struct Binary {
    /// For example `haft/it`.
    name: String,
    executable: PathBuf,
    /// Where cargo would start it.
    dir: PathBuf,
}

enum Proof {
    Test(Test),
    Fuzzed(fuzz::Target),
}

impl Proof {
    fn name(&self) -> &str {
        match self {
            Proof::Test(test) => &test.name,
            Proof::Fuzzed(target) => &target.name,
        }
    }

    /// Runs it and returns what it found; all that it prints is passed on.
    fn run(&self) -> (Vec<String>, Done) {
        match self {
            Proof::Test(test) => test.run(),
            Proof::Fuzzed(target) => target.run(),
        }
    }
}

/// A test that is a proof.
struct Test {
    /// For example `haft/it::dispatch::prove_order`.
    name: String,
    /// Its name inside the binary.
    test: String,
    executable: PathBuf,
    dir: PathBuf,
}

/// The test programs; where the name of a proof begins with its package, as on the page, those of that package.
fn binaries(only: Option<&str>, build: Build) -> Result<Vec<Binary>, String> {
    let metadata = metadata()?;
    let mut binaries = Vec::new();
    let profile = match build {
        Build::Optimised => "prove",
        Build::Debug => "dev",
    };
    let mut args = vec!["test", "--profile", profile, "--all-features", "--no-run"];
    match only.and_then(|only| only.split_once('/')) {
        Some((package, _)) => args.extend(["--package", package]),
        None => args.push("--workspace"),
    }
    args.extend(["--message-format", "json-render-diagnostics"]);
    cargo(args).run_lines(|line| {
        let message = serde_json::from_str(line).unwrap_or(Value::Null);
        binaries.extend(binary(&message, &metadata));
    })?;
    Ok(binaries)
}

/// The test program in a message of cargo, if the message is about one.
fn binary(message: &Value, metadata: &Value) -> Option<Binary> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let manifest = message["manifest_path"].as_str()?;
    let packages = metadata["packages"].as_array()?;
    let package = packages.iter().find(|package| package["manifest_path"] == manifest)?["name"].as_str()?;
    let target = match message["target"]["kind"][0].as_str()? {
        "lib" => "lib",
        _ => message["target"]["name"].as_str()?,
    };
    Some(Binary {
        name: format!("{package}/{target}"),
        executable: PathBuf::from(message["executable"].as_str()?),
        dir: Path::new(manifest).parent()?.to_path_buf(),
    })
}

fn find(binaries: &[Binary]) -> Result<Vec<Proof>, String> {
    let mut proofs = Vec::new();
    for binary in binaries {
        let call =
            Call::new(binary.executable.clone(), &*binary.name, ["--list", "--ignored", "--format", "terse"]);
        for test in listed(&call.with_dir(&binary.dir).read()?) {
            proofs.push(Test {
                name: format!("{}::{test}", binary.name),
                test: test.to_string(),
                executable: binary.executable.clone(),
                dir: binary.dir.clone(),
            });
        }
    }
    proofs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(proofs.into_iter().map(Proof::Test).collect())
}

/// The proofs in what `--list` prints: lines like `dispatch::prove_order: test`.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.filter(|test| test.rsplit("::").next().is_some_and(|name| name.starts_with("prove_")))
}

impl Test {
    fn run(&self) -> (Vec<String>, Done) {
        let mut found = Vec::new();
        // With one thread the test harness writes `test name ... ` without a line end before the test's own output.
        let args = ["--exact", &self.test, "--ignored", "--nocapture", "--test-threads=2"];
        let call = Call::new(self.executable.clone(), self.binary(), args).with_dir(&self.dir);
        let call = call.with_env("CARGO_MANIFEST_DIR", &self.dir.to_string_lossy());
        let done = call.run_lines(|line| {
            println!("{line}");
            found.extend(line.strip_prefix(MARK).map(|text| text.trim().to_string()));
        });
        (found, done)
    }

    fn binary(&self) -> &str {
        self.name.split("::").next().unwrap_or(&self.name)
    }
}

fn section(passed: bool, found: &[String]) -> String {
    let mut text = format!("{}\n", if passed { "passed" } else { "**failed**" });
    for (index, line) in found.iter().enumerate() {
        text.push_str(&format!("{}- {line}\n", if index == 0 { "\n" } else { "" }));
    }
    text
}

fn page(found: &Sections) -> String {
    let failed = found.values().filter(|text| text.starts_with("**failed**")).count();
    let beginning = format!(
        "# Proofs\n\nWhat `cargo xtask prove` found last. {} proofs, {failed} failed.\n",
        found.len()
    );
    sections::page(&beginning, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_are_found_by_name() {
        let list =
            "dispatch::prove_order: test\nprove_all: test\nslow: test\nimprove_x: test\nprove_b: benchmark\n";
        assert_eq!(listed(list).collect::<Vec<_>>(), ["dispatch::prove_order", "prove_all"]);
    }

    #[test]
    fn test_programs_are_found_in_messages() {
        let metadata =
            serde_json::json!({"packages": [{"name": "haft", "manifest_path": "/x/haft/Cargo.toml"}]});
        let message = |kind: &str, name: &str, test: bool| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/x/haft/Cargo.toml", "executable": "/x/target/it",
                "profile": {"test": test}, "target": {"kind": [kind], "name": name},
            })
        };
        let name = |message: &Value| binary(message, &metadata).map(|binary| binary.name);
        assert_eq!(name(&message("test", "it", true)).as_deref(), Some("haft/it"));
        assert_eq!(name(&message("lib", "haft", true)).as_deref(), Some("haft/lib"));
        assert_eq!(name(&message("bin", "haft", false)), None);
        assert_eq!(name(&Value::Null), None);
    }

    #[test]
    fn a_page_reads_as_a_list() {
        let all =
            Sections::from([("haft/it::prove_x".to_string(), section(true, &["10 calls".to_string()]))]);
        assert_eq!(
            page(&all),
            "# Proofs\n\nWhat `cargo xtask prove` found last. 1 proofs, 0 failed.\n\n\
             ## `haft/it::prove_x`\n\npassed\n\n- 10 calls\n",
        );
    }
}
