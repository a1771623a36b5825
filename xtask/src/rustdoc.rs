//! The documentation of every library: its examples are run, and it is built without warnings.
//!
//! `cargo doc` would check every dependency again, as it shares no build with tests. `cargo test --doc`
//! starts rustdoc on the libraries that the tests were built with, so xtask takes the place of rustdoc there:
//! it runs the examples with the arguments that cargo gives, and then builds the documentation with the same
//! ones.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use crate::Done;
use crate::cargo::{cargo, target_dir};

/// Set for an xtask that cargo starts as rustdoc: the folder of the documentation.
const OUTPUT_VARIABLE: &str = "XTASK_RUSTDOC_OUTPUT";

pub(crate) fn run() -> Done {
    let own = std::env::current_exe().map_err(|error| format!("xtask can't be found: {error}"))?;
    let output = target_dir()?.join("doc");
    cargo(["test", "--workspace", "--all-features", "--doc", "--quiet"])
        .with_lints()
        .with_env("RUSTDOC", &own.to_string_lossy())
        .with_env(OUTPUT_VARIABLE, &output.to_string_lossy())
        .run()
}

/// Runs as rustdoc if cargo started this process as such.
pub(crate) fn run_as_rustdoc() -> Option<ExitCode> {
    let output = std::env::var_os(OUTPUT_VARIABLE)?;
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if !start_rustdoc(&args) {
        return Some(ExitCode::FAILURE);
    }
    let is_built = match build_args(&args) {
        Some(mut build) => {
            build.extend(["-D".into(), "warnings".into(), "--out-dir".into(), output]);
            start_rustdoc(&build)
        }
        None => true,
    };
    Some(if is_built { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start_rustdoc(args: &[OsString]) -> bool {
    match Command::new("rustdoc").args(args).status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("error: rustdoc can't be started: {error}");
            false
        }
    }
}

/// The arguments that build the documentation whose examples these arguments run; `None` if they run no
/// examples.
fn build_args(args: &[OsString]) -> Option<Vec<OsString>> {
    args.iter().find(|arg| *arg == "--test")?;
    let mut build = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.to_str() {
            Some("--test") => {}
            Some("--test-args" | "--test-run-directory" | "--test-runtool" | "--test-runtool-arg") => {
                rest.next();
            }
            _ => build.push(arg.clone()),
        }
    }
    Some(build)
}
