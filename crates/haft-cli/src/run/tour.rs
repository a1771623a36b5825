//! The tour: what `haft run` does where no model is configured.
//!
//! A script in place of the model, and everything else real: the pipeline, the tools, the files, the sandbox.
//! It plays in a folder of its own, with settings and state of its own, which is gone afterwards: nothing of
//! the user's is read, changed or left behind. Without a terminal the tour answers its own questions, and
//! says so.

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};
use haft::sync::lock;
use haft_agent::Model;
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_session::SessionEnvironment;
use haft_session::hooks::session_id;

use crate::UsageError;
use crate::args::CommonArgs;
use crate::output::{self, one_line};

const SCRIPT: &str = include_str!("tour/script.yaml");
/// The files of the workspace.
const FILES: [(&str, &str); 5] = [
    ("README.md", include_str!("tour/files/README.md")),
    ("src/count.sh", include_str!("tour/files/src/count.sh")),
    ("tests/run.sh", include_str!("tour/files/tests/run.sh")),
    ("data/tides.txt", include_str!("tour/files/data/tides.txt")),
    (".haft/settings.json", include_str!("tour/files/.haft/settings.json")),
];
/// A file that is too long for a model.
const LOG: &str = "log/requests.log";
const LOG_LINES: usize = 2_000;
/// How often the removal of the folder is tried.
const REMOVALS_MAX: usize = 20;
/// What the user is taken to have said.
pub(super) const PROMPT: &str = "Why does src/count.sh count one line too few? Fix it.";

/// The folder of the tour that is played, for who ends the program without going back through it.
static PLAYED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes the folder of the tour, if one is played.
pub(super) fn remove_tour() {
    let mut played = lock(&PLAYED);
    if let Some(dir) = played.take() {
        remove_folder(&dir);
    }
}

/// Removes a folder into which other threads may still write. Callers hold the lock of [`PLAYED`]: the
/// program must not end while another thread removes the folder.
fn remove_folder(dir: &Path) {
    let is_removed = |_| fs::remove_dir_all(dir).is_ok();
    let _ = (0..REMOVALS_MAX).any(is_removed);
}

/// A workspace for the tour. Dropping it removes it.
pub(super) struct TourWorkspace {
    dir: PathBuf,
}

impl TourWorkspace {
    /// Makes the workspace.
    pub(super) fn set_up() -> Result<TourWorkspace, UsageError> {
        let dir = std::env::temp_dir().join(format!("haft-tour-{}", session_id()));
        let tour = TourWorkspace { dir };
        *lock(&PLAYED) = Some(tour.dir.clone());
        tour.write().map_err(|error| {
            UsageError(format!("the tour needs a folder in `{}`: {error}", std::env::temp_dir().display()))
        })?;
        Ok(tour)
    }

    fn write(&self) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        fs::DirBuilder::new().mode(0o700).create(&self.dir)?;
        for dir in ["config", "state", "claude"] {
            fs::create_dir(self.dir.join(dir))?;
        }
        let log: String = (1..=LOG_LINES)
            .map(|n| format!("12:{:02}:{:02} request {n} took {} ms\n", n / 60 % 60, n % 60, n * 7 % 97))
            .collect();
        for (path, text) in FILES.into_iter().chain([(LOG, log.as_str())]) {
            let path = self.work().join(path);
            fs::create_dir_all(path.parent().unwrap_or(&self.dir))?;
            fs::write(path, text)?;
        }
        Ok(())
    }

    fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// The flags of the session: what the user said about how to run, and the tour's own folder.
    pub(super) fn common(&self, given: &CommonArgs) -> CommonArgs {
        CommonArgs {
            cwd: Some(self.work()),
            allow: vec!["Edit(src/**)".to_owned()],
            schedule: given.schedule,
            max_concurrency: given.max_concurrency,
            no_sandbox: given.no_sandbox,
            ..CommonArgs::default()
        }
    }

    /// The environment, but for the variables that lead to the user's settings and state.
    pub(super) fn environment(&self) -> SessionEnvironment {
        SessionEnvironment::with_folders_in(&self.dir)
    }
}

impl Drop for TourWorkspace {
    fn drop(&mut self) {
        let mut played = lock(&PLAYED);
        if played.as_ref() == Some(&self.dir) {
            *played = None;
        }
        remove_folder(&self.dir);
    }
}

/// The model of the tour. It takes its time only where somebody watches.
pub(super) fn tour_model() -> Arc<dyn Model> {
    let mut script = ModelScript::parse(SCRIPT).expect("a test reads it");
    if !io::stderr().is_terminal() {
        script.stream = None;
        for turn in &mut script.turns {
            (turn.stream, turn.delay_ms) = (None, 0);
        }
    }
    Arc::new(ScriptedModel::new(script, Wire::Anthropic))
}

/// Says what comes, and why.
pub(super) fn print_introduction(has_prompt: bool) {
    output::print_line(
        "no key is set (ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY), so there is no model to ask.",
    );
    if has_prompt {
        output::print_line("your prompt is not answered. This is the tour instead:");
    } else {
        output::print_line("This is the tour:");
    }
    output::print_line(
        "the model's words are a script; tools, files, rules and sandbox are real, in a temporary folder.",
    );
    output::print_line(&format!("\n» {PROMPT}"));
}

/// Says what is different where commands are not confined.
pub(super) fn print_unconfined(flag: bool) {
    let why = if flag {
        "--no-sandbox was given"
    } else {
        "this machine can't confine commands (`haft doctor` says why)"
    };
    output::print_line(&format!(
        "{why}: nothing but rules and answers holds the commands below, and more of them ask first."
    ));
}

/// Answers for a user who isn't there.
pub(super) struct TourAnswers {
    pub(super) cwd: PathBuf,
}

impl Asker for TourAnswers {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        let title = haft_session::run::prompt::relative_path(Path::new(&approval.view.title), &self.cwd)
            .display()
            .to_string();
        output::print_line(&format!("  ? {:6} {}", approval.tool, one_line(&title)));
        output::print_line(&format!("      asks because {}", one_line(&approval.reason())));
        output::print_line("      nobody is here to ask: the tour says yes, once");
        Box::pin(async { ApprovalAnswer::Once })
    }

    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_be_read() {
        let script = ModelScript::parse(SCRIPT).unwrap();
        assert!(script.turns.len() > 5);
    }

    #[test]
    fn nothing_is_left_of_it() {
        let tour = TourWorkspace::set_up().unwrap();
        let dir = tour.dir.clone();
        assert!(dir.join("work/src/count.sh").is_file());
        drop(tour);
        assert!(!dir.exists());
    }
}
