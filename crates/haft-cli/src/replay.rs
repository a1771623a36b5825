//! `haft replay`: recorded calls again, by today's tools and rules, and what differs from then.
//!
//! What is recorded is read and replayed by `haft-session`; here it is found by its name, and the [`report`]
//! printed.

pub(crate) mod args;
pub(crate) mod report;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use haft_journal::JournalStore;
use haft_session::SessionEnvironment;
use haft_session::TurnHandle;
use haft_session::assembly::ProcessGuard;
use haft_session::loaded_settings::SessionFolders;
use haft_session::replay::{
    CallRecording, ReplayedCall, RerunError, RerunWatcher, check_calls, compare_results, rerun_calls,
};

use self::args::{ReplayArgs, ResultsSource};
use self::report::{ReplayMode, ReplayReport};
use crate::args::{CommonArgs, OutputForm};
use crate::interrupt::InterruptHandler;
use crate::output::{OutputReader, one_line};
use crate::{ExitStatus, UsageError, output, session, threads};

pub(crate) fn run(args: &ReplayArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let recording = open_recording(&args.file, common)?;
    for warning in recording.warnings() {
        output::print_warning(&one_line(warning));
    }
    let (mode, calls) = match (args.run, args.results) {
        (true, _) => (ReplayMode::Run, rerun_recording(&recording, common)?),
        (_, Some(ResultsSource::Recorded)) => (ReplayMode::Recorded, compare_recorded(&recording, common)?),
        _ => (ReplayMode::Dry, check_calls(&recording, &common.options())?),
    };
    let report = ReplayReport::new(mode, &recording, calls, args.all);
    let written = match args.output {
        OutputForm::Text => output::write_result(&report.table(), OutputReader::Sampler),
        OutputForm::Json => {
            let text = serde_json::to_string(&report).expect("a report has text keys");
            output::write_result(&text, OutputReader::Whole)
        }
    };
    Ok(match written {
        Err(exit) => exit,
        Ok(()) if report.differ > 0 => ExitStatus::Failed,
        Ok(()) => ExitStatus::Done,
    })
}

/// Finds what a command line names: standard input, a file, or a session.
fn open_recording(name: &str, common: &CommonArgs) -> Result<CallRecording, UsageError> {
    if name == "-" {
        return Ok(CallRecording::read(io::stdin().lock(), "standard input")?);
    }
    let path = common.cwd.as_deref().unwrap_or(Path::new("")).join(name);
    let path = if path.exists() { path } else { PathBuf::from(name) };
    let path = if path.is_dir() { path.join("journal.log") } else { path };
    let shown = one_line(&path.display().to_string());
    match File::open(&path) {
        Ok(file) => Ok(CallRecording::read(file, &shown)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => open_session(name, common),
        Err(error) => Err(UsageError(format!("`{shown}` can't be read: {error}"))),
    }
}

fn open_session(name: &str, common: &CommonArgs) -> Result<CallRecording, UsageError> {
    let neither = |reason: String| {
        let name = one_line(name);
        UsageError(format!("`{name}` is neither a file nor a session: {reason}"))
    };
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let folders = SessionFolders::find(cwd, &SessionEnvironment::default())?;
    let state = folders.state.ok_or_else(|| neither("there is no state folder".to_owned()))?;
    let store = JournalStore::at(&state);
    let found = store.find(name).map_err(|error| neither(error.to_string()))?;
    CallRecording::read_session(&store, &found.id).map_err(|error| UsageError(error.to_string()))
}

/// `--results recorded`.
fn compare_recorded(recording: &CallRecording, common: &CommonArgs) -> Result<Vec<ReplayedCall>, UsageError> {
    let runtime = threads::runtime_for_calls(1)?;
    let compared = runtime.block_on(compare_results(recording, &common.options()));
    runtime.shutdown_background();
    Ok(compared?)
}

/// `--run`.
fn rerun_recording(recording: &CallRecording, common: &CommonArgs) -> Result<Vec<ReplayedCall>, UsageError> {
    let interrupts =
        InterruptHandler::listen().map_err(|error| UsageError(format!("signals can't be heard: {error}")))?;
    if common.no_sandbox {
        return Err(UsageError(
            "--run makes calls again and needs the sandbox; leave --no-sandbox out".to_owned(),
        ));
    }
    let runtime = threads::runtime_for_calls(4)?;
    let replayed = runtime.block_on(rerun_calls(recording, &common.options(), &interrupts));
    runtime.shutdown_background();
    replayed.map_err(|error| {
        UsageError(match error {
            RerunError::NoSandbox => {
                "--run makes calls again and needs the sandbox, which there is none of here; `haft doctor` says why"
                    .to_owned()
            }
            RerunError::UnsandboxedCommand { command, source } => format!(
                "{source}: `{command}` runs without the sandbox, so --run can't keep it in a copy; leave `excludedCommands` out"
            ),
            RerunError::AddedDirectory(dir) => format!(
                "settings add the directory `{}`, and --run works in a copy of one; leave `additionalDirectories` out",
                dir.display()
            ),
            RerunError::Interrupted => "interrupted; the copy is removed".to_owned(),
            other => other.to_string(),
        })
    })
}

impl RerunWatcher for InterruptHandler {
    fn opened(&self, processes: &ProcessGuard) {
        session::register_guard(processes.share());
    }

    fn turn_changed(&self, turn: Option<TurnHandle>) {
        self.tell(turn);
    }

    fn is_interrupted(&self) -> bool {
        self.any()
    }
}
