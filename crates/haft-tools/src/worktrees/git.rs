//! git, run by tools themselves: one way to start it, with nothing in it that runs by itself.
//!
//! What only looks runs where nothing can be written, like any command that looks. What makes or removes a
//! worktree has to write what no command of the model may, so it runs outside of the sandbox; hooks, the file
//! system monitor and questions are switched off for it, and its arguments are ours but for names that were
//! judged before.
//!
//! A repository names programs of its own as well: filters and drivers, which its attributes then call for.
//! Their names are free, so git is asked for them where it is to run, and each is given an empty command. The
//! price is that a filter of the user's (`lfs`) does not run here either: what it finds on its way is
//! configured by the repository too. Nothing is fetched for the same reason: a remote names programs.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use haft::ports::{ConfinementLevel, ProcessExit, ProcessRequest, Processes};
use haft::text::truncate_chars;
use haft::{Context, ToolError};
use haft_git::keys::{self, KeyEffect};

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

/// The sections with programs that attributes call for, as git looks for them.
const DRIVERS: &str = r"^(filter|merge|diff)\.";
/// The most such programs that are switched off; a repository with more is refused.
const DRIVERS_MAX: usize = 400;
/// A variable of git's that is there and empty.
const NOTHING: &str = "HAFT_NOTHING";

/// What git said.
#[derive(Debug)]
pub(crate) struct GitOutput {
    /// What it printed, without the last line break.
    pub(crate) text: String,
    /// Whether that is all of it.
    pub(crate) whole: bool,
}

/// Runs git to look at something.
///
/// # Errors
/// Its complaint, in the inner result; that it could not be run, in the outer.
pub(crate) async fn run_reading<S: AsRef<OsStr>>(
    cx: &Context,
    dir: &Path,
    args: impl IntoIterator<Item = S>,
) -> Result<Result<GitOutput, String>, ToolError> {
    let drivers = AttributeDrivers::for_directories(cx, &[dir], ConfinementLevel::ReadOnly).await?;
    run_git(cx, dir, &drivers, args, ConfinementLevel::ReadOnly).await
}

/// Runs git to change something outside of what commands may change; `also` is a worktree that it looks into
/// beside.
///
/// # Errors
/// Its complaint, or that it could not be run.
pub(crate) async fn run_changing<S: AsRef<OsStr>>(
    cx: &Context,
    dir: &Path,
    also: Option<&Path>,
    args: impl IntoIterator<Item = S>,
) -> Result<GitOutput, ToolError> {
    let dirs: Vec<&Path> = std::iter::once(dir).chain(also).collect();
    let drivers = AttributeDrivers::for_directories(cx, &dirs, ConfinementLevel::Outside).await?;
    let said = run_git(cx, dir, &drivers, args, ConfinementLevel::Outside).await?;
    said.map_err(|complaint| ToolError::new(format!("git refused: {complaint}")))
}

/// The filters that a repository has and that do not run here.
///
/// # Errors
/// git can't be run, or can't say.
pub(crate) async fn configured_filters(cx: &Context, dir: &Path) -> Result<Vec<String>, ToolError> {
    let AttributeDrivers(keys) =
        AttributeDrivers::for_directories(cx, &[dir], ConfinementLevel::Outside).await?;
    let name = |key: &String| Some(key.strip_prefix("filter.")?.rsplit_once('.')?.0.to_owned());
    Ok(keys.iter().filter_map(name).collect::<BTreeSet<String>>().into_iter().collect())
}

/// Settings that name a program which attributes call for.
#[derive(Default)]
struct AttributeDrivers(BTreeSet<String>);

impl AttributeDrivers {
    /// Those that hold in these directories: what is included may differ from one worktree to the next. They
    /// are looked for where git will run, because a sandbox hides files that it would read outside; listing
    /// settings starts nothing.
    async fn for_directories(
        cx: &Context,
        dirs: &[&Path],
        confinement: ConfinementLevel,
    ) -> Result<AttributeDrivers, ToolError> {
        let unsafe_here = |why: &str| {
            ToolError::new(format!(
                "git is not run here: the configuration of the repository names programs, and {why}; `git config --list` \
                 shows them"
            ))
        };
        let mut found = BTreeSet::new();
        for dir in dirs {
            let list = ["config", "--name-only", "-z", "--get-regexp", DRIVERS];
            let said = match run_git(cx, dir, &AttributeDrivers::default(), list, confinement).await? {
                Ok(said) => said,
                // It found none.
                Err(complaint) if complaint.is_empty() => continue,
                Err(complaint) => return Err(ToolError::new(format!("git refused: {complaint}"))),
            };
            let keys = said.text.split('\0').filter(|key| starts_something(key)).map(str::to_owned);
            found.extend(keys);
            if !said.whole || found.len() > DRIVERS_MAX {
                return Err(unsafe_here("they are too many to switch off"));
            }
            if said.text.contains(char::REPLACEMENT_CHARACTER) {
                return Err(unsafe_here("the name of one is not UTF-8, so that it can't be switched off"));
            }
        }
        Ok(AttributeDrivers(found))
    }

    /// Arguments that give each an empty value. Unlike `-c` this takes a name with `=` in it as it is.
    fn off(&self) -> impl Iterator<Item = OsString> + '_ {
        self.0.iter().map(|key| format!("--config-env={key}={NOTHING}").into())
    }
}

/// Whether a setting of the sections for drivers names a program, or says that it has to run.
fn starts_something(key: &str) -> bool {
    let is_required = key.starts_with("filter.") && key.ends_with(".required");
    is_required || matches!(keys::effect(key), KeyEffect::Program | KeyEffect::LikelyProgram)
}

async fn run_git<S: AsRef<OsStr>>(
    cx: &Context,
    dir: &Path,
    drivers: &AttributeDrivers,
    args: impl IntoIterator<Item = S>,
    confinement: ConfinementLevel,
) -> Result<Result<GitOutput, String>, ToolError> {
    let processes = host_processes(cx)?;
    let mut argv: Vec<OsString> = vec!["git".into(), "--no-optional-locks".into()];
    argv.extend(QUIET.iter().map(Into::into));
    argv.extend(drivers.off());
    argv.extend(args.into_iter().map(|word| word.as_ref().to_owned()));
    let request = ProcessRequest::new(argv, dir)
        .with_env("GIT_TERMINAL_PROMPT", "0")
        .with_env("GIT_EDITOR", "true")
        // What is missing stays missing: no way of fetching it is accepted.
        .with_env("GIT_NO_LAZY_FETCH", "1")
        .with_env("GIT_ALLOW_PROTOCOL", "")
        .with_env(NOTHING, "")
        .with_env("LC_ALL", "C")
        .with_confinement(confinement)
        .with_timeout(GIT_TIMEOUT)
        .with_output_bytes_max(OUTPUT_BYTES_MAX)
        .with_cancel(cx.cancel().child());
    let outcome = processes.run(request).await.map_err(|error| {
        let hint = if dir.is_dir() { "; it has to be installed for this" } else { "" };
        ToolError::new(format!("git can't be run: {}{hint}", error.message))
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
    Ok(match outcome.exit {
        ProcessExit::Code(0) => {
            Ok(GitOutput { text: text(&outcome.stdout.head), whole: outcome.stdout.whole().is_some() })
        }
        ProcessExit::Code(_) => {
            let said = text(&outcome.stderr.head);
            let said = said.trim_start_matches("fatal: ").trim_start_matches("error: ");
            Err(truncate_chars(said, COMPLAINT_CHARS_MAX).to_owned())
        }
        other => Err(format!("it ended early ({other:?})")),
    })
}

/// Puts a file that hides a folder from git into that folder, unless there is one.
pub(crate) async fn hide_folder(cx: &Context, folder: &Path) -> Result<(), ToolError> {
    // A link that leads nowhere yet is not followed.
    let script = "set -C; [ -e .gitignore ] || [ -L .gitignore ] || printf '*\\n' > .gitignore";
    let request = ProcessRequest::new(["sh", "-c", script], folder)
        .with_confinement(ConfinementLevel::Outside)
        .with_timeout(GIT_TIMEOUT)
        .with_cancel(cx.cancel().child());
    let ran = host_processes(cx)?.run(request).await;
    ran.map(|_| ()).map_err(|error| ToolError::new(error.message))
}

fn host_processes(cx: &Context) -> Result<&dyn Processes, ToolError> {
    cx.ports().processes().ok_or_else(|| ToolError::new("this host can't run git"))
}
