//! `haft sessions`: what is kept, one of it, and away with it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use haft::redact::redact_text;
use haft::text::truncate_chars;
use haft_journal::{JournalStore, RecoveredSession, SessionSummary, StoredSession};
use haft_session::SessionEnvironment;
use haft_session::loaded_settings::SessionFolders;
use serde::Serialize;

use super::args::{SessionListArgs, SessionRemoveArgs, SessionShowArgs, SessionsArgs, SessionsCommand};
use super::{leftovers, log};
use crate::args::{CommonArgs, OutputForm};
use crate::output::{self, OutputReader, one_line};
use crate::{ExitStatus, UsageError};

pub(crate) fn run(args: &SessionsArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    match &args.command {
        SessionsCommand::List(args) => list_sessions(args, common),
        SessionsCommand::Show(args) => show_session(args, common),
        SessionsCommand::Rm(args) => remove_sessions(args, common),
    }
}

/// The sessions of the user.
pub(super) fn session_store(common: &CommonArgs) -> Result<(JournalStore, PathBuf), UsageError> {
    let base = common.cwd.as_deref().unwrap_or(Path::new("."));
    let folders = SessionFolders::find(base, &SessionEnvironment::default())?;
    let state = folders.state.ok_or_else(|| {
        UsageError("nothing is kept here: there is no state folder; set HAFT_STATE_DIR or HOME".to_owned())
    })?;
    Ok((JournalStore::at(&state), folders.workspace))
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionRow {
    /// Its id.
    id: String,
    /// What was said first.
    title: Option<String>,
    /// Where it works.
    cwd: String,
    /// The model, where one was asked.
    model: Option<String>,
    /// How it stands: `running`, `ended`, or `cut off`.
    state: &'static str,
    /// How many calls were started.
    calls: usize,
    /// When something was noted last, in seconds since 1970.
    changed: u64,
    /// How much it takes.
    bytes: u64,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SessionReport {
    #[serde(flatten)]
    row: SessionRow,
    /// What it left beside its journal, a line each: tasks that ended with its process, worktrees.
    left: Vec<String>,
}

impl SessionRow {
    fn from_session(session: &StoredSession, head: SessionSummary) -> SessionRow {
        let since = session.changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        SessionRow {
            id: session.id.clone(),
            title: head.title.map(|title| redact_text(&title).into_owned()),
            cwd: head.began.cwd.display().to_string(),
            model: Some(head.last.model).filter(|model| !model.is_empty()),
            state: match (session.is_running, head.is_ended) {
                (true, _) => "running",
                (false, true) => "ended",
                (false, false) => "cut off",
            },
            calls: head.calls,
            changed: since.as_secs(),
            bytes: session.bytes,
        }
    }
}

fn list_sessions(args: &SessionListArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let (store, cwd) = session_store(common)?;
    let mut rows = Vec::new();
    for session in store.list() {
        // One that is gone meanwhile.
        let Ok(head) = store.summary(&session.id) else { continue };
        if !args.here || head.began.cwd == cwd {
            rows.push(SessionRow::from_session(&session, head));
        }
    }
    let (text, reader) = match args.output {
        OutputForm::Json => (output::format_json(&rows), OutputReader::Whole),
        OutputForm::Text => (render_table(&rows), OutputReader::Sampler),
    };
    Ok(output::write_result(&text, reader).err().unwrap_or(ExitStatus::Done))
}

fn render_table(rows: &[SessionRow]) -> String {
    if rows.is_empty() {
        return "no sessions are kept".to_owned();
    }
    let mut text = String::new();
    for row in rows {
        let title = row.title.as_deref().map(one_line).unwrap_or_default();
        let title = truncate_chars(&title, 80);
        let when = log::day_and_time(row.changed.saturating_mul(1000));
        let calls = if row.calls == 1 { "1 call".to_owned() } else { format!("{} calls", row.calls) };
        let _ = writeln!(
            text,
            "{}  {when}  {:<8} {calls:>10}  {}  {title}",
            row.id,
            row.state,
            one_line(&row.cwd)
        );
    }
    text
}

fn show_session(args: &SessionShowArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let (store, _) = session_store(common)?;
    let said = |error: haft_journal::StoreError| UsageError(error.to_string());
    let session = store.find(&args.id).map_err(said)?;
    let kept = store.read(&session.id).map_err(said)?;
    let row = SessionRow::from_session(&session, store.summary(&session.id).map_err(said)?);
    let left = match row.state {
        "running" => Vec::new(),
        _ => {
            let leftovers = leftovers::describe_leftovers(&RecoveredSession::from_contents(&kept));
            leftovers.iter().map(|line| redact_text(line).into_owned()).collect()
        }
    };
    if args.output == OutputForm::Json {
        let text = output::format_json(&SessionReport { row, left });
        return Ok(output::write_result(&text, OutputReader::Whole).err().unwrap_or(ExitStatus::Done));
    }
    let mut text =
        format!("session    {}\nstate      {}\nworks in   {}\n", row.id, row.state, one_line(&row.cwd));
    if let Some(model) = &row.model {
        let _ = writeln!(text, "model      {}", one_line(model));
    }
    if let Some(title) = &row.title {
        let _ = writeln!(text, "title      {}", one_line(title));
    }
    let _ = writeln!(text, "kept in    {} ({} bytes)", session.folder.display(), row.bytes);
    if !kept.damage.is_empty() {
        let _ = writeln!(text, "damaged    {} lines can't be read", kept.damage.len());
    }
    for line in &left {
        let _ = writeln!(text, "left       {}", one_line(line));
    }
    let _ = writeln!(text);
    text.push_str(&log::render_log(&kept, log::EntryFilter::All));
    if row.state == "cut off" {
        let _ = writeln!(text, "\ngo on with: haft run --resume {}", row.id);
    }
    Ok(output::write_result(&text, OutputReader::Sampler).err().unwrap_or(ExitStatus::Done))
}

fn remove_sessions(args: &SessionRemoveArgs, common: &CommonArgs) -> Result<ExitStatus, UsageError> {
    let (store, _) = session_store(common)?;
    let said = |error: haft_journal::StoreError| UsageError(error.to_string());
    let ids: Vec<String> = if args.all {
        store.list().into_iter().filter(|one| !one.is_running).map(|one| one.id).collect()
    } else {
        let found = args.ids.iter().map(|id| store.find(id).map(|session| session.id));
        found.collect::<Result<_, _>>().map_err(said)?
    };
    for id in &ids {
        let (recovered, _) = store.recover(id).map_err(said)?;
        store.remove(id).map_err(said)?;
        leftovers::remove_worktrees(&recovered, &common.options())
            .iter()
            .for_each(|line| output::print_line(&one_line(line)));
    }
    output::print_line(&match ids.len() {
        1 => "removed 1 session".to_owned(),
        count => format!("removed {count} sessions"),
    });
    Ok(ExitStatus::Done)
}
