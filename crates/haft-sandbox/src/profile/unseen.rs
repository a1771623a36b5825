//! Programs that are on `PATH` and that a child doesn't see.
//!
//! A shell says of them "command not found", as of a program that isn't installed. So this reads what was
//! printed, looks for what it names on `PATH` of this machine, and says which folder hides it. Like `kept` it
//! is good for an explanation and for nothing else: a child can print what it likes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use haft::ports::{ConfinementRefusal, ProcessOutcome, ProcessRequest};

use super::denial_messages::names_in;
use super::toolchains::is_program;
use super::{SandboxProfile, display_path, limits, open_plain};

/// How programs say that another one isn't there.
const WORDS: [&str; 4] = ["not found", "No such file or directory", "bad interpreter", "os error 2"];
/// More than the kernel reads of a `#!` line.
const FIRST_LINE_BYTES: u64 = 256;

impl SandboxProfile {
    /// What the words of a child say that it could not start, although `PATH` has it.
    pub(super) fn unseen_programs(
        &self,
        request: &ProcessRequest,
        outcome: &ProcessOutcome,
    ) -> Vec<ConfinementRefusal> {
        let names = names_in(outcome, &WORDS);
        if names.is_empty() {
            return Vec::new();
        }
        let mut variables = request.env.iter().rev().chain(self.config.variables.iter().rev());
        let path = variables.find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
        let folders: Vec<PathBuf> = std::env::split_paths(path.unwrap_or_default())
            .filter(|folder| folder.is_absolute())
            .take(limits::PATH_DIRS_MAX)
            .collect();
        let mut unseen: Vec<ConfinementRefusal> = Vec::new();
        for name in names {
            let Some(program) = find_program(&name.text, &folders) else { continue };
            let Some(hidden) = self.hides(&program) else { continue };
            let refusal =
                ConfinementRefusal::Unseen { why: explain_hidden(&program, &hidden), folder: hidden };
            if unseen.len() < limits::NAMES_TOLD_MAX && !unseen.contains(&refusal) {
                unseen.push(refusal);
            }
        }
        unseen
    }

    /// The folder that keeps a program from being started: its own, or that of the program which interprets
    /// it.
    fn hides(&self, program: &Path) -> Option<PathBuf> {
        let unseen = |path: PathBuf| {
            let real = path.canonicalize().ok()?;
            let seen = self.session.follow_links(&path).into_iter().chain([real.clone()]);
            let hides = !seen.into_iter().any(|seen| self.session.shows(&seen));
            hides.then(|| real.parent().map(Path::to_owned)).flatten()
        };
        unseen(program.to_owned()).or_else(|| unseen(script_interpreter(program)?))
    }
}

/// The program of a name, as a shell finds it.
fn find_program(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let file = if name.contains('/') {
        Some(PathBuf::from(name)).filter(|path| folders.iter().any(|folder| path.starts_with(folder)))
    } else {
        folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path))
    };
    file.filter(|path| is_program(path))
}

/// What the first line of a script names.
fn script_interpreter(program: &Path) -> Option<PathBuf> {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut line = Vec::new();
    open_plain(&program.canonicalize().ok()?)?.take(FIRST_LINE_BYTES).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
    let name = line.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(name))).filter(|path| path.is_absolute())
}

fn explain_hidden(program: &Path, hidden: &Path) -> String {
    let name = program.file_name().unwrap_or_default();
    format!(
        "`{}` is on your PATH, but the sandbox hides `{hidden}`; allow it with `sandbox.filesystem.allowRead: \
         [\"{hidden}\"]` in your settings",
        display_path(name),
        hidden = display_path(hidden)
    )
}
