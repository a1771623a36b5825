//! Starting cargo and other programs: every command is printed before it runs, and runs in the root of the
//! workspace.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Done;

/// The root of the workspace: the folder above this crate's.
pub(crate) fn root() -> Result<PathBuf, String> {
    // Read when the program runs, not when it is compiled: two checkouts may share a target folder.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR").ok_or("start this as `cargo xtask`")?;
    let root = Path::new(&xtask).parent().ok_or("the xtask crate has no folder above it")?;
    Ok(root.to_path_buf())
}

/// One invocation of cargo, or of another program.
pub(crate) struct Call {
    program: PathBuf,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    dir: Option<PathBuf>,
    /// Whether lines of standard error are lines like others.
    errors: bool,
    quiet: bool,
}

/// How many of the last lines of output a failure carries.
const TAIL_LINES: usize = 24;

/// `cargo` with these arguments.
pub(crate) fn cargo<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Call {
    Call::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

impl Call {
    /// `program` with these arguments.
    pub(crate) fn new<S: AsRef<str>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = S>) -> Call {
        let args = args.into_iter().map(|arg| arg.as_ref().to_string()).collect();
        Call { program: program.into(), args, envs: Vec::new(), dir: None, errors: false, quiet: false }
    }

    /// Sets a variable for this call.
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Call {
        self.envs.push((name.to_string(), value.to_string()));
        self
    }

    /// Runs it in `dir` instead of the root.
    pub(crate) fn with_dir(mut self, dir: &Path) -> Call {
        self.dir = Some(dir.to_path_buf());
        self
    }

    /// Compiles the crates of the workspace with clippy's lints, warnings as errors.
    ///
    /// `clippy-driver` is the compiler with lints: code that a test needs anyway is compiled once for both.
    /// `cargo clippy` alone would check every crate and every dependency a second time.
    pub(crate) fn with_lints(self) -> Call {
        self.with_env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver").with_env("CLIPPY_ARGS", "-Dwarnings")
    }

    /// Takes what it says on standard error for lines of its output, too.
    pub(crate) fn with_errors(mut self) -> Call {
        self.errors = true;
        self
    }

    /// Prints nothing; a failure still carries the last lines of output. For steps that run beside another
    /// one.
    pub(crate) fn quiet(mut self) -> Call {
        self.quiet = true;
        self
    }

    /// Runs it and prints its output, standard error included.
    ///
    /// # Errors
    /// The command failed; the text has the last lines of its output and the command that repeats it.
    pub(crate) fn run(self) -> Done {
        let (mut tail, call) = (VecDeque::new(), self.with_errors());
        let done = call.run_lines(|line| {
            if !call.quiet {
                println!("{line}");
            }
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(format!("  {line}\n"));
        });
        done.map_err(|error| {
            let tail: String = tail.into_iter().collect();
            format!("{error}; its last lines:\n{tail}repeat with: {}", call.line())
        })
    }

    /// Runs it and gives each line of its standard output to `line` as soon as it is complete.
    pub(crate) fn run_lines(&self, mut line: impl FnMut(&str)) -> Done {
        if !self.quiet {
            println!("$ {}", self.line());
        }
        let failed = |error| format!("`{}` did not run: {error}", self.line());
        let (output, given) = std::io::pipe().map_err(failed)?;
        let mut command = self.command()?;
        if std::io::stdout().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        if self.errors {
            command.stderr(given.try_clone().map_err(failed)?);
        }
        let mut child = command.stdout(given).spawn().map_err(failed)?;
        // It holds the writing end, and the lines end only when no process does.
        drop(command);
        for read in BufReader::new(output).split(b'\n') {
            line(String::from_utf8_lossy(&read.map_err(failed)?).trim_end_matches('\r'));
        }
        let status = child.wait().map_err(failed)?;
        if status.success() { Ok(()) } else { Err(format!("`{}` failed ({status})", self.line())) }
    }

    /// Runs it silently and returns its standard output; not printed, for questions and not for work.
    pub(crate) fn read(&self) -> Result<String, String> {
        let failed = |error| format!("`{}` did not start: {error}", self.line());
        let output = self.command()?.output().map_err(failed)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("`{}` failed ({}): {}", self.line(), output.status, said.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Result<Command, String> {
        let mut command = Command::new(&self.program);
        // `cargo xtask` describes the xtask crate in the environment. A build script that watches such a
        // variable would run again on every change between `cargo xtask test` and `cargo test`.
        for (name, _) in std::env::vars_os() {
            let shown = name.to_string_lossy();
            if shown.starts_with("CARGO_PKG_") || shown.starts_with("CARGO_MANIFEST_") {
                command.env_remove(name);
            }
        }
        // The folder of a CI run is never built in again: what the next build could use would only cost time.
        if is_ci() && std::env::var_os("CARGO_INCREMENTAL").is_none() {
            command.env("CARGO_INCREMENTAL", "0");
        }
        command.args(&self.args).envs(self.envs.iter().map(|(name, value)| (name, value)));
        match &self.dir {
            Some(dir) => command.current_dir(dir),
            None => command.current_dir(root()?),
        };
        Ok(command)
    }

    /// The command line, to be pasted.
    fn line(&self) -> String {
        let quoted = |word: &str| {
            if word.is_empty() || word.contains([' ', '"', '\'']) {
                format!("{word:?}")
            } else {
                word.to_string()
            }
        };
        let envs = self.envs.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let program = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let words: Vec<String> =
            envs.chain([program]).chain(self.args.iter().map(|arg| quoted(arg))).collect();
        words.join(" ")
    }
}

/// Whether this is a run of continuous integration, which sets `CI`.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The folder that cargo builds into.
pub(crate) fn target_dir() -> Result<PathBuf, String> {
    let target = metadata()?["target_directory"].as_str().map(PathBuf::from);
    target.ok_or_else(|| "`cargo metadata` names no target directory".to_owned())
}

/// What `cargo metadata` says of the workspace itself, dependencies left out.
pub(crate) fn metadata() -> Result<Value, String> {
    let text = cargo(["metadata", "--no-deps", "--format-version", "1"]).read()?;
    serde_json::from_str(&text).map_err(|error| format!("`cargo metadata` gave no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last lines are what a reader needs; more would push the command that repeats them off the screen.
    #[test]
    fn a_failure_ends_with_its_last_lines_and_how_to_repeat_it() {
        let script = "seq 1 100; echo oops >&2; exit 3";
        let call = Call::new("sh", ["-c", script]).with_env("A", "b c").with_dir(Path::new("/")).quiet();
        let error = call.run().unwrap_err();
        assert!(error.contains("(exit status: 3); its last lines:\n  78\n"), "{error}");
        let repeat = "  100\n  oops\nrepeat with: A=\"b c\" sh -c \"seq 1 100; echo oops >&2; exit 3\"";
        assert!(error.ends_with(repeat) && error.lines().count() <= 30, "{error}");
    }
}
