//! One run of a command: the shell that is started, where it runs, and what came of it.
//!
//! The command is one argument of the shell, as it was given. It is evaluated by a few lines around it whose
//! only purpose is to learn the working directory that it leaves, through a descriptor that is no part of its
//! output; its exit code is what it would be without them. Where there is no bash, `sh` runs it, and the
//! working directory stays.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use haft::ports::{
    ConfinementLevel, ConfinementRefusal, ProcessExit, ProcessRequest, ProtectionLevel, TaskLog,
};
use haft::sync::lock;
use haft::{Cancel, Context, ToolError};
use haft_git::RepositoryUse;

use super::output_log::{CommandOutput, OutputLog};

/// Where bash is looked for.
const PLACES: &[&str] =
    &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/run/current-system/sw/bin/bash"];

/// Runs `$1` and tells descriptor 3 where that ended, and the number of the process that was started last
/// with `&`, if it still runs. (`jobs` would know of all, but names some that have ended.) The descriptor
/// moves to a number that no command uses by itself. `$!` is unset without such a program, so the command's
/// `set -u` ends there. A command may set a trap of its own, replace the shell or be killed: then nothing is
/// told. All on one line, so that the numbers of lines in complaints of the shell are the command's own.
const AROUND: &str = "exec {__haft}>&3 3>&-; __haft_command=$1; shift; \
    trap '{ set +u; pwd -P; [[ ! $! ]] || ! kill -0 $! || echo $!; } >&\"$__haft\" 2>/dev/null || :' EXIT; \
    eval \"$__haft_command\"";

/// The editor of programs that start one by themselves: it leaves everything as it is. `git commit` without a
/// message then says that there is none, and `git rebase -i` goes on, where an editor would wait for keys.
const NO_EDITOR: &str = "true";
/// Bytes of output that the port keeps besides; for one that doesn't tell of output as it comes.
const CAPTURED_BYTES_MAX: usize = 16 * 1024;
/// How often at most somebody is told what is printed.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// A command to run.
#[derive(Clone)]
pub(crate) struct CommandLaunch {
    pub(crate) command: String,
    pub(crate) confinement: ConfinementLevel,
    /// How much of the repository it has to write.
    pub(crate) repository: RepositoryUse,
    /// How long it may run in all.
    pub(crate) timeout: Duration,
}

/// A command that runs, as long as somebody waits for it.
pub(crate) struct RunningCommand {
    pub(crate) log: Arc<OutputLog>,
    /// Ends it, and lets it say how it ended.
    pub(crate) cancel: Cancel,
    pub(crate) work: Pin<Box<dyn Future<Output = Result<CommandEnd, ToolError>> + Send>>,
}

/// A command that ended.
#[derive(Debug, Clone)]
pub(crate) struct CommandEnd {
    pub(crate) exit: ProcessExit,
    pub(crate) printed: CommandOutput,
    /// The working directory that it left, if it told.
    pub(crate) cwd: Option<PathBuf>,
    /// Whether something that it had started with `&` still ran then, if it told.
    pub(crate) left_running: bool,
    pub(crate) refused: Vec<ConfinementRefusal>,
    /// What of it could not be ended.
    pub(crate) held: Vec<u32>,
}

/// What a shell tells when it ends.
#[derive(Default)]
struct ShellExitReport {
    cwd: Option<PathBuf>,
    left_running: bool,
}

impl ShellExitReport {
    /// A path, or the number of a process.
    fn hear(&mut self, line: &[u8]) {
        match line.first() {
            Some(b'/') => self.cwd = Some(PathBuf::from(OsStr::from_bytes(line))),
            Some(b'0'..=b'9') => self.left_running = true,
            _ => {}
        }
    }
}

/// The shell: bash, or what there is.
fn find_shell() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<&'static Path>> = OnceLock::new();
    *FOUND.get_or_init(|| PLACES.iter().map(Path::new).find(|place| place.is_file()))
}

fn shell_argv(command: &str) -> Vec<OsString> {
    let words: Vec<&str> = match find_shell() {
        Some(_) => vec!["--noprofile", "--norc", "-c", AROUND, "bash", command],
        None => vec!["-c", command],
    };
    let shell = find_shell().unwrap_or(Path::new("/bin/sh"));
    std::iter::once(shell.into()).chain(words.into_iter().map(OsString::from)).collect()
}

/// Starts a command when the work is first awaited.
pub(crate) fn start_command(launch: CommandLaunch, cx: &Context) -> RunningCommand {
    let log = Arc::new(OutputLog::new(cx.ports().result_store().cloned()));
    let cancel = cx.cancel().child();
    let told: Arc<Mutex<ShellExitReport>> = Arc::default();
    let request = ProcessRequest::new(shell_argv(&launch.command), cx.cwd())
        .with_access(cx.access().clone(), Vec::new())
        .with_child_requests(cx.ports().child_requests())
        .with_confinement(launch.confinement)
        .with_env("EDITOR", NO_EDITOR)
        .with_env("VISUAL", NO_EDITOR)
        .with_env("GIT_EDITOR", NO_EDITOR)
        .with_protection(ProtectionLevel {
            number: launch.repository.level.number(),
            folders: launch.repository.folders,
        })
        .with_merged_output()
        .with_timeout(launch.timeout)
        .with_output_bytes_max(CAPTURED_BYTES_MAX)
        .with_on_output(output_notifier(&log, cx))
        .with_on_line({
            let told = told.clone();
            move |line| lock(&told).hear(line)
        })
        .with_background(cx.background().state().clone())
        .with_cancel(cancel.clone());
    let (printing, cx) = (log.clone(), cx.clone());
    let work = Box::pin(async move {
        let Some(processes) = cx.ports().processes() else {
            return Err(ToolError::new("Bash can't run: this host starts no processes"));
        };
        let outcome = processes.run(request).await;
        let outcome =
            outcome.map_err(|error| ToolError::new(format!("Bash can't run: {error}")).with_source(error))?;
        // A port that doesn't tell of output as it comes.
        if printing.size().activity == 0 {
            for captured in [&outcome.stdout, &outcome.stderr] {
                printing.add(&captured.head);
                printing.add(&captured.tail);
            }
        }
        let ShellExitReport { cwd, left_running } = std::mem::take(&mut *lock(&told));
        let (exit, refused, held) = (outcome.exit, outcome.refused, outcome.held);
        printing.is_held(&held);
        Ok(CommandEnd { exit, printed: printing.finish(), cwd, left_running, refused, held })
    });
    RunningCommand { log, cancel, work }
}

/// Keeps what is printed, and tells watchers of it now and then.
fn output_notifier(log: &Arc<OutputLog>, cx: &Context) -> impl Fn(&[u8]) + Send + Sync + 'static {
    let (log, cx, last) = (log.clone(), cx.clone(), Mutex::new(None::<Instant>));
    move |bytes| {
        log.add(bytes);
        let mut last = lock(&last);
        if last.is_none_or(|last| last.elapsed() >= PROGRESS_PERIOD)
            && let Some(line) = log.last_line()
        {
            *last = Some(Instant::now());
            cx.progress(None, line);
        }
    }
}

/// Carries the working directory on to the next call, and says where that can't be.
pub(crate) fn carry_directory(cx: &Context, left: Option<&Path>) -> Option<String> {
    let left = left?;
    if left == cx.cwd() {
        return None;
    }
    let why = cx.location().move_to(left).err()?;
    cx.location().move_back();
    Some(format!("the next command runs in the workspace again: {why}"))
}
