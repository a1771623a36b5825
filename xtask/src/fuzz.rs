//! The fuzz targets in `fuzz/`, as proofs: each runs a fixed number of inputs from the seeds beside it.
//!
//! cargo-fuzz compiles for coverage with the ordinary compiler (`--sanitizer none`); it is installed once under the
//! target folder. What a target finds interesting is kept there too, so that the next run goes on from it. The number
//! of inputs is fixed and not the time: the page of proofs then says the same on every machine.

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
        match self.fuzz() {
            Ok(seeds) => {
                let found = format!(
                    "{RUNS} inputs of up to {INPUT_BYTES_MAX} bytes, guided by coverage from {seeds} seeds: none broke what the target asserts, panicked or took {INPUT_SECONDS_MAX} s"
                );
                (vec![found], Ok(()))
            }
            Err(error) => (Vec::new(), Err(error)),
        }
    }

    fn fuzz(&self) -> Result<usize, String> {
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
            format!("-runs={RUNS}"),
            format!("-max_total_time={SECONDS_MAX}"),
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
            Some(ran) if ran >= u64::from(RUNS) => Ok(count),
            Some(ran) => Err(format!("`{}` came to {ran} of {RUNS} inputs in {SECONDS_MAX} s", self.name)),
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
    fn the_number_of_inputs_is_read() {
        assert_eq!(executed("stat::number_of_executed_units: 236806"), Some(236_806));
        assert_eq!(executed("stat::average_exec_per_sec:     11276"), None);
    }
}
