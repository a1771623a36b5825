//! The fuzz targets in `fuzz/`, as proofs: each runs a fixed number of inputs from the seeds beside it.
//!
//! cargo-fuzz compiles for coverage with the ordinary compiler (`--sanitizer none`); it is installed once under the
//! target folder. What a target finds interesting is kept there too, so that the next run goes on from it. The number
//! of inputs is fixed and not the time: the page of proofs then says the same on every machine. `cargo xtask fuzz` is the
//! other way round: it runs for a time, and says on a page of its own how many inputs that were.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Done;
use crate::cargo::{Call, cargo, metadata, root};

/// The version that the flags below are written for.
const VERSION: &str = "0.13.2";
/// Where the crate of the targets lies.
pub(crate) const FOLDER: &str = "fuzz";
/// How many inputs each target is given.
const RUNS: u32 = 100_000;
/// The longest input, in bytes.
const INPUT_BYTES_MAX: u32 = 4_096;
/// How long one input may take, and all of them, in seconds.
const INPUT_SECONDS_MAX: u32 = 10;
const SECONDS_MAX: u32 = 1_800;

/// How long each target runs where nobody says otherwise.
pub(crate) const MINUTES: u32 = 5;
/// The page of runs by time.
const PAGE: &str = "docs/proof/fuzz.md";

/// How much a target runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Extent {
    Inputs(u32),
    Minutes(u32),
}

/// Runs every target, or one, for a time, and records what came of it.
pub(crate) fn run(minutes: u32, only: Option<&str>) -> Done {
    let all = targets()?;
    let wanted: Vec<&Target> =
        all.iter().filter(|target| only.is_none_or(|only| target.target == only)).collect();
    if wanted.is_empty() {
        let known: Vec<&str> = all.iter().map(|target| target.target.as_str()).collect();
        return Err(format!("no target `{}`; there are: {}", only.unwrap_or_default(), known.join(", ")));
    }
    let root = root()?;
    let mut rows = rows(&std::fs::read_to_string(root.join(PAGE)).unwrap_or_default());
    for target in wanted {
        println!("\n=== {}", target.name);
        let (seeds, inputs) = target.fuzz(Extent::Minutes(minutes))?;
        let row = format!("| `{}` | {minutes} | {inputs} | {seeds} | nothing |", target.target);
        rows.insert(target.target.clone(), row);
        crate::source::write(&root, PAGE, &page(&rows))?;
    }
    Ok(())
}

/// The rows of the page, by target.
fn rows(page: &str) -> BTreeMap<String, String> {
    let row = |line: &str| Some((line.strip_prefix("| `")?.split_once('`')?.0.to_owned(), line.to_owned()));
    page.lines().filter_map(row).collect()
}

fn page(rows: &BTreeMap<String, String>) -> String {
    let rows: Vec<&str> = rows.values().map(String::as_str).collect();
    format!(
        "# Fuzzing\n\nWhat `cargo xtask fuzz` ran last, or a target's own binary with the same flags, each target by itself; what a \
         target asserts is said in [its folder](../../fuzz/README.md). A finding ends the run and is no row here: it becomes a test.\n\n\
         | target | minutes | inputs | seeds | found |\n|---|---|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

/// One fuzz target.
pub(crate) struct Target {
    /// For example `fuzz/rule`.
    pub(crate) name: String,
    target: String,
}

/// All targets: those that have a file.
pub(crate) fn targets() -> Result<Vec<Target>, String> {
    let folder = root()?.join(FOLDER).join("fuzz_targets");
    let failed = |error| format!("`{}` can't be listed: {error}", folder.display());
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        targets.extend(target(&entry.map_err(failed)?.path()));
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(targets)
}

fn target(path: &Path) -> Option<Target> {
    let target = path.file_stem().filter(|_| path.extension().is_some_and(|end| end == "rs"))?;
    let target = target.to_string_lossy().into_owned();
    Some(Target { name: format!("{FOLDER}/{target}"), target })
}

impl Target {
    /// Runs it and returns what it found.
    pub(crate) fn run(&self) -> (Vec<String>, Done) {
        match self.fuzz(Extent::Inputs(RUNS)) {
            Ok((seeds, _)) => {
                let found = format!(
                    "{RUNS} inputs of up to {INPUT_BYTES_MAX} bytes, guided by coverage from {seeds} seeds: none broke what the target asserts, panicked or took {INPUT_SECONDS_MAX} s"
                );
                (vec![found], Ok(()))
            }
            Err(error) => (Vec::new(), Err(error)),
        }
    }

    /// Runs it; says how many seeds it has and how many inputs it was given.
    fn fuzz(&self, extent: Extent) -> Result<(usize, u64), String> {
        let (runs, seconds) = match extent {
            Extent::Inputs(runs) => (i64::from(runs), SECONDS_MAX),
            Extent::Minutes(minutes) => (-1, 60 * minutes),
        };
        let target = metadata()?["target_directory"].as_str().map(PathBuf::from);
        let target = target.ok_or("`cargo metadata` names no target directory")?;
        let program = installed(&target)?;
        let seeds = root()?.join(FOLDER).join("seeds").join(&self.target);
        let count =
            std::fs::read_dir(&seeds).map_err(|error| format!("`{}`: {error}", seeds.display()))?.count();
        let build = target.join(FOLDER);
        let (corpus, artifacts) =
            (build.join("corpus").join(&self.target), build.join("artifacts").join(&self.target));
        for folder in [&corpus, &artifacts] {
            std::fs::create_dir_all(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let args: Vec<String> = vec![
            "run".into(),
            "--sanitizer".into(),
            "none".into(),
            "--target-dir".into(),
            text(&build),
            self.target.clone(),
            text(&corpus),
            text(&seeds),
            "--".into(),
            format!("-runs={runs}"),
            format!("-max_total_time={seconds}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-artifact_prefix={}/", text(&artifacts)),
            "-verbosity=0".into(),
            "-print_final_stats=1".into(),
        ];
        let mut ran = None;
        Call::new(program, "cargo-fuzz", args).with_errors().run_lines(|line| {
            println!("{line}");
            ran = ran.or_else(|| executed(line));
        })?;
        match ran {
            Some(ran) if i64::try_from(ran).is_ok_and(|ran| ran >= runs) => Ok((count, ran)),
            Some(ran) => Err(format!("`{}` came to {ran} of {runs} inputs in {seconds} s", self.name)),
            None => Err(format!("`{}` did not say how many inputs it ran", self.name)),
        }
    }
}

/// How many inputs were run, in a line of the final statistics.
fn executed(line: &str) -> Option<u64> {
    line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok()
}

/// cargo-fuzz: one of our own, installed once.
fn installed(target: &Path) -> Result<PathBuf, String> {
    let tools = target.join("tools");
    let own = tools.join("bin/cargo-fuzz");
    let said = Call::new(own.clone(), "cargo-fuzz", ["--version"]).read();
    if said.is_ok_and(|said| said.split_whitespace().last() == Some(VERSION)) {
        return Ok(own);
    }
    println!("cargo-fuzz is not installed; building it takes a minute, once");
    let (root, build) = (tools.to_string_lossy().into_owned(), tools.join("build"));
    let build = build.to_string_lossy().into_owned();
    let install = ["install", "--locked", "--quiet", "--force", "cargo-fuzz", "--version", VERSION];
    let install = install.into_iter().chain(["--root", &*root, "--target-dir", &*build]);
    cargo(install).run().map_err(|error| {
        format!("{error}\ncargo-fuzz {VERSION} could not be installed; it comes from the crate registry, so this step needs the network once")
    })?;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_files_of_code() {
        let name = |path: &str| target(Path::new(path)).map(|target| target.name);
        assert_eq!(name("/x/fuzz_targets/rule.rs").as_deref(), Some("fuzz/rule"));
        assert_eq!(name("/x/fuzz_targets/rule.txt"), None);
        assert_eq!(name("/x/fuzz_targets/folder"), None);
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let row = |name: &str| (name.to_string(), format!("| `{name}` | 5 | 7 | 1 | nothing |"));
        let all: BTreeMap<String, String> = [row("url"), row("rule")].into();
        assert_eq!(rows(&page(&all)), all);
    }

    #[test]
    fn the_number_of_inputs_is_read() {
        assert_eq!(executed("stat::number_of_executed_units: 236806"), Some(236_806));
        assert_eq!(executed("stat::average_exec_per_sec:     11276"), None);
    }
}
