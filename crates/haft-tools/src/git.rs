//! git, run by tools themselves: one way to start it, with nothing in it that runs by itself.
//!
//! What only looks runs where nothing can be written, like any command that looks. What makes or removes a worktree has to
//! write what no command of the model may, so it runs outside of the sandbox; hooks, the file system monitor and questions
//! are switched off for it, and its arguments are ours but for names that were judged before.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use haft::ports::{Confinement, Exit, ProcessRequest, Processes};
use haft::{Context, ToolError};

/// How long one run of git may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes of output that are looked at.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Characters of a complaint that are passed on.
const COMPLAINT_CHARS_MAX: usize = 1_000;

/// Settings that keep git from starting anything but itself.
const QUIET: [&str; 10] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "submodule.recurse=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
];

/// What git said.
#[derive(Debug)]
pub(crate) struct Said {
    /// What it printed, without the last line break.
    pub(crate) text: String,
    /// Whether that is all of it.
    pub(crate) whole: bool,
}

/// Runs git to look at something.
///
/// # Errors
/// Its complaint, in the inner result; that it could not be run, in the outer.
pub(crate) async fn look<S: AsRef<OsStr>>(
    cx: &Context,
    dir: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<Result<Said, String>, ToolError> {
    run(cx, "git", dir, args, Confinement::ReadOnly).await
}

/// Runs git to change something outside of what commands may change.
///
/// # Errors
/// Its complaint, or that it could not be run.
pub(crate) async fn change<S: AsRef<OsStr>>(
    cx: &Context,
    dir: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<Said, ToolError> {
    let said = run(cx, "git", dir, args, Confinement::Outside).await?;
    said.map_err(|complaint| ToolError::new(format!("git refused: {complaint}")))
}

async fn run<S: AsRef<OsStr>>(
    cx: &Context,
    program: &str,
    dir: &Path,
    args: impl IntoIterator<Item = S>,
    confinement: Confinement,
) -> Result<Result<Said, String>, ToolError> {
    let processes = processes(cx)?;
    let mut argv: Vec<std::ffi::OsString> = vec![program.into(), "--no-optional-locks".into()];
    argv.extend(QUIET.iter().map(Into::into));
    argv.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
    let request = ProcessRequest::new(argv, dir)
        .with_env("GIT_TERMINAL_PROMPT", "0")
        .with_env("GIT_EDITOR", "true")
        .with_env("LC_ALL", "C")
        .with_confinement(confinement)
        .with_timeout(GIT_TIMEOUT)
        .with_output_bytes_max(OUTPUT_BYTES_MAX)
        .with_cancel(cx.cancel().child());
    let outcome = processes.run(request).await.map_err(|error| {
        ToolError::new(format!("git can't be run: {}; it has to be installed for this", error.message))
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    Ok(match outcome.exit {
        Exit::Code(0) => {
            Ok(Said { text: text(&outcome.stdout.head), whole: outcome.stdout.whole().is_some() })
        }
        Exit::Code(_) => {
            let said = text(&outcome.stderr.head);
            let said = said.trim_start_matches("fatal: ").trim_start_matches("error: ");
            Err(said.chars().take(COMPLAINT_CHARS_MAX).collect())
        }
        other => Err(format!("it ended early ({other:?})")),
    })
}

/// Puts a file that hides a folder from git into that folder, unless there is one.
pub(crate) async fn hide(cx: &Context, folder: &Path) -> Result<(), ToolError> {
    let script = "[ -e .gitignore ] || printf '*\\n' > .gitignore";
    let request = ProcessRequest::new(["sh", "-c", script], folder)
        .with_confinement(Confinement::Outside)
        .with_timeout(GIT_TIMEOUT)
        .with_cancel(cx.cancel().child());
    let ran = processes(cx)?.run(request).await;
    ran.map(|_| ()).map_err(|error| ToolError::new(error.message))
}

fn processes(cx: &Context) -> Result<&dyn Processes, ToolError> {
    cx.processes().ok_or_else(|| ToolError::new("this host can't run git"))
}
