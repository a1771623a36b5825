//! The fuzz targets in `fuzz/`, as proofs: each runs a fixed number of inputs from the seeds beside it.
//!
//! cargo-fuzz compiles for coverage with the ordinary compiler (`--sanitizer none`). What a target finds
//! interesting is kept under the target folder, so that the next run goes on from it. The number of inputs is
//! fixed and not the time: the page of proofs then says the same on every machine. `cargo xtask fuzz` is the
//! other way round: it runs for a time, and says on a page of its own how many inputs that were.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cargo::{Call, root, target_dir};
use crate::source::write;
use crate::{Done, tools};

/// Where the crate of the targets lies.
pub(crate) const FOLDER: &str = "fuzz";
/// How many inputs each target is given.
const RUNS: u32 = 100_000;
/// The longest input, in bytes.
const INPUT_BYTES_MAX: u32 = 4_096;
/// How long one input may take, and all of them, in seconds.
const INPUT_SECONDS_MAX: u32 = 10;
const SECONDS_MAX: u32 = 1_800;

/// How long each target runs by default.
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
    let mut targets = targets()?;
    if let Some(only) = only {
        let known = targets.join(", ");
        targets.retain(|target| target == only);
        if targets.is_empty() {
            return Err(format!("no target `{only}`; there are: {known}"));
        }
    }
    let root = root()?;
    // The rows of the page, by target.
    let row = |line: &str| Some((line.strip_prefix("| `")?.split_once('`')?.0.to_owned(), line.to_owned()));
    let page = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let mut rows: BTreeMap<String, String> = page.lines().filter_map(row).collect();
    for target in targets {
        println!("\n=== {target}");
        let (seeds, inputs) = fuzz(&target, Extent::Minutes(minutes))?;
        rows.insert(target.clone(), format!("| `{target}` | {minutes} | {inputs} | {seeds} | nothing |"));
        let all: Vec<&str> = rows.values().map(String::as_str).collect();
        let page = format!(
            "# Fuzzing\n\nWhat `cargo xtask fuzz` ran last, or a target's own binary with the same flags, each target by itself; what a \
             target asserts is said in [its folder](../../fuzz/README.md). A finding ends the run and is no row here: it becomes a test.\n\n\
             | target | minutes | inputs | seeds | found |\n|---|---|---|---|---|\n{}\n",
            all.join("\n")
        );
        write(&root, PAGE, &page)?;
    }
    Ok(())
}

/// The names of all targets: those that have a file.
pub(crate) fn targets() -> Result<Vec<String>, String> {
    let folder = root()?.join(FOLDER).join("fuzz_targets");
    let failed = |error| format!("`{}` can't be listed: {error}", folder.display());
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        targets.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    targets.sort();
    Ok(targets)
}

/// Runs a target as a proof and returns what it found.
pub(crate) fn prove(target: &str) -> (Vec<String>, Done) {
    match fuzz(target, Extent::Inputs(RUNS)) {
        Ok((seeds, _)) => {
            let found = format!(
                "{RUNS} inputs of up to {INPUT_BYTES_MAX} bytes, guided by coverage from {seeds} seeds: none broke what the target asserts, panicked or took {INPUT_SECONDS_MAX} s"
            );
            (vec![found], Ok(()))
        }
        Err(error) => (Vec::new(), Err(error)),
    }
}

/// Runs a target; says how many seeds it has and how many inputs it was given.
fn fuzz(target: &str, extent: Extent) -> Result<(usize, u64), String> {
    let (runs, seconds) = match extent {
        Extent::Inputs(runs) => (i64::from(runs), SECONDS_MAX),
        Extent::Minutes(minutes) => (-1, 60 * minutes),
    };
    // The version that the flags below are written for.
    let program = tools::installed("cargo-fuzz", "cargo-fuzz", "0.13.2", &[])?;
    let failed = |folder: &Path, error| format!("`{}`: {error}", folder.display());
    let seeds = root()?.join(FOLDER).join("seeds").join(target);
    let count = std::fs::read_dir(&seeds).map_err(|error| failed(&seeds, error))?.count();
    let build = target_dir()?.join(FOLDER);
    let (corpus, artifacts) = (build.join("corpus").join(target), build.join("artifacts").join(target));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    }
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let args = ["run", "--sanitizer", "none", "--target-dir", &text(&build), target, &text(&corpus)];
    let args = args.map(str::to_owned).into_iter().chain([text(&seeds), "--".to_owned()]).chain([
        format!("-runs={runs}"),
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-artifact_prefix={}/", text(&artifacts)),
        "-verbosity=0".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    let mut ran = None;
    Call::new(program, args).with_errors().run_lines(|line| {
        println!("{line}");
        let executed = line.strip_prefix("stat::number_of_executed_units:");
        ran = ran.or_else(|| executed?.trim().parse().ok());
    })?;
    match ran {
        Some(ran) if i64::try_from(ran).is_ok_and(|ran| ran >= runs) => Ok((count, ran)),
        Some(ran) => Err(format!("`{target}` came to {ran} of {runs} inputs in {seconds} s")),
        None => Err(format!("`{target}` did not say how many inputs it ran")),
    }
}
