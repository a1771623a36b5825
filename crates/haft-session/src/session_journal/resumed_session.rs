//! A continued session: the record of an earlier process, for the model and for the user.

use std::path::{Path, PathBuf};

use haft::call_log::{CallLog, EarlierCall};
use haft::text::truncate_chars;
use haft::{Engine, Registry};
use haft_agent::{Conversation, ExcerptLine, InterruptedTurn, MessageFormat};
use haft_journal::{CallState, CompletedCall, JournalStore, RecoveredSession, ResumePoint};
use haft_provider::Wire;

use super::leftovers;
use crate::temp_folder::describe_lost;
use crate::text::one_line;
use crate::{NoticeSink, SessionError, SessionOption};

/// The maximum number of lines of a conversation that are shown to a returning user.
const EXCERPT_LINES_MAX: usize = 40;
/// The maximum length of such a line, in characters.
const EXCERPT_LINE_CHARS_MAX: usize = 400;
/// Returns whether an embedder made calls in the session and no model was used.
fn is_agentless(recovered: &RecoveredSession) -> bool {
    recovered.last.command == super::EMBEDDED && recovered.last.wire.is_empty() && recovered.items.is_empty()
}

/// The record of an earlier process.
pub struct ResumedSession {
    pub id: String,
    pub recovered: RecoveredSession,
    /// Where the session continues.
    pub mark: ResumePoint,
    /// Whether the model had something to answer when the conversation was taken.
    awaited_reply: bool,
    state: PathBuf,
    notices: NoticeSink,
}

impl ResumedSession {
    /// Finds a session: this one, or the last one of this folder.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or if it can't continue.
    pub fn find(
        state: Option<&Path>,
        id: Option<&str>,
        cwd: &Path,
        notices: &NoticeSink,
    ) -> Result<ResumedSession, SessionError> {
        ResumedSession::find_where(state, id, cwd, notices, |recovered| !recovered.items.is_empty())
    }

    /// Finds a session for an embedder, which may have made calls without a model.
    pub(crate) fn find_with_calls(
        state: Option<&Path>,
        id: Option<&str>,
        cwd: &Path,
        notices: &NoticeSink,
    ) -> Result<ResumedSession, SessionError> {
        ResumedSession::find_where(state, id, cwd, notices, |recovered| {
            !recovered.items.is_empty() || is_agentless(recovered)
        })
    }

    fn find_where(
        state: Option<&Path>,
        id: Option<&str>,
        cwd: &Path,
        notices: &NoticeSink,
        can_continue: impl Fn(&RecoveredSession) -> bool,
    ) -> Result<ResumedSession, SessionError> {
        let state = state.ok_or_else(|| {
            SessionError::journal(
                "nothing is kept here: there is no state folder; set HAFT_STATE_DIR or HOME".to_owned(),
            )
        })?;
        let store = JournalStore::at(state);
        let said = |error: haft_journal::StoreError| SessionError::journal(error.to_string());
        if let Some(id) = id {
            let session = store.find(id).map_err(said)?;
            let (recovered, mark) = store.recover(&session.id).map_err(said)?;
            return ResumedSession::new(session.id, recovered, mark, state, notices).in_folder(cwd);
        }
        // The first running session may belong to a process that was just killed, so its end is awaited.
        // If it doesn't end, no further session is waited for.
        let mut waits = true;
        for session in store.list() {
            let is_here = store.began(&session.id).is_ok_and(|began| began.is_some_and(|one| one.cwd == cwd));
            if !is_here || session.is_running && store.is_running(&session, std::mem::take(&mut waits)) {
                continue;
            }
            // The session was removed in the meantime.
            let Ok((recovered, mark)) = store.recover(&session.id) else { continue };
            if can_continue(&recovered) {
                return Ok(ResumedSession::new(session.id, recovered, mark, state, notices));
            }
        }
        Err(SessionError::journal(format!(
            "nothing to continue in {}; `haft sessions list` shows all sessions, each of which can be resumed by its id",
            cwd.display()
        ))
        .with_option(SessionOption::Resume))
    }

    fn new(
        id: String,
        recovered: RecoveredSession,
        mark: ResumePoint,
        state: &Path,
        notices: &NoticeSink,
    ) -> ResumedSession {
        if recovered.is_damaged {
            notices.warn(format!(
                "the journal of session {id} is damaged, and something of it is missing; calls of which nothing is known are not run again"
            ));
        }
        let (state, notices) = (state.to_owned(), notices.clone());
        ResumedSession { id, recovered, mark, awaited_reply: false, state, notices }
    }

    /// Checks that a session continues in its directory: its calls name paths relative to it.
    fn in_folder(self, cwd: &Path) -> Result<ResumedSession, SessionError> {
        let was = &self.recovered.began.cwd;
        if was == cwd {
            return Ok(self);
        }
        if was.as_os_str().is_empty() {
            return Err(SessionError::journal(format!(
                "session {} can't go on: its journal doesn't say where it works, since it is empty or its beginning is damaged; begin a new one",
                self.id
            )));
        }
        Err(SessionError::journal(format!(
            "session {} works in {}, and is resumed there",
            self.id,
            was.display()
        ))
        .with_option(SessionOption::WorkingDirectory))
    }

    /// Restores the calls of earlier processes, for tools that query them.
    pub fn restore_call_log(&self, state: Option<&Path>, calls: &CallLog, tools: &Registry) {
        let Some(store) = state.map(JournalStore::at) else { return };
        let (id, mark) = (self.id.clone(), self.mark);
        calls.goes_on(tools.clone(), move || {
            let (count, ran) = store.calls(&id, mark, haft::limits::PAST_CALLS_MAX).unwrap_or_default();
            let earlier = |ran: CompletedCall| EarlierCall {
                agent: ran.agent,
                tool: ran.tool,
                input: ran.input,
                error: ran.error,
            };
            (count, ran.into_iter().map(earlier).collect())
        });
    }

    /// Returns the format of the conversation, if this version knows it.
    fn format(&self) -> Option<&'static dyn MessageFormat> {
        self.recovered.last.wire.parse::<Wire>().ok().map(Into::into)
    }

    /// Checks that the conversation can continue in this format.
    ///
    /// # Errors
    /// Returns an error if the conversation has another format.
    pub fn check_format(&self, format: &dyn MessageFormat) -> Result<(), SessionError> {
        let was = &self.recovered.last.wire;
        if is_agentless(&self.recovered) {
            return Ok(());
        }
        if *was != format.name() {
            return Err(SessionError::journal(format!(
                "session {} was held with `{was}`, and a conversation can't change to `{}`",
                self.id,
                format.name()
            ))
            .with_option(SessionOption::Provider));
        }
        Ok(())
    }

    /// Takes the conversation out of the record, since it may be long.
    ///
    /// # Errors
    /// Returns an error if the conversation can't be continued in this format.
    pub fn conversation(&mut self, format: &'static dyn MessageFormat) -> Result<Conversation, SessionError> {
        self.check_format(format)?;
        self.awaited_reply = self.has_unanswered_items();
        let mut conversation = Conversation::from_items(format, std::mem::take(&mut self.recovered.items));
        if self.recovered.is_damaged {
            conversation.start_with_user("(what was said here is lost)");
        }
        Ok(conversation)
    }

    /// Returns whether the model has unanswered calls, results or messages.
    pub fn awaits_reply(&self) -> bool {
        self.awaited_reply || self.has_unanswered_items()
    }

    fn has_unanswered_items(&self) -> bool {
        self.recovered.reply.is_some()
            || self.format().is_some_and(|format| format.awaits_reply(&self.recovered.items))
    }

    /// Returns the message whose calls were not all answered, with what is known of them.
    pub fn interrupted_turn(&self, format: &dyn MessageFormat) -> Option<InterruptedTurn> {
        let items = self.recovered.reply.clone()?;
        // If the message can't be parsed, none of its calls run anyway.
        let results = self.recovered.results(&InterruptedTurn::calls(format, &items).unwrap_or_default());
        Some(InterruptedTurn { items, results })
    }

    /// Returns what the model has to know in addition to its calls: unreported changes, and what ended with
    /// the old process. Lost temporary files are named once.
    pub fn notes_for_model(&self, lost_directory: Option<&str>) -> Option<String> {
        let lost_files = describe_lost(&self.id, &self.state);
        let more: Vec<&str> = lost_directory.into_iter().chain(lost_files.as_deref()).collect();
        self.recovered.resume_notes(&more)
    }

    /// Reports to the user what is known and what isn't. On a screen it also shows the end of the
    /// conversation.
    pub fn show(&self, on_screen: bool) {
        if on_screen {
            self.excerpt().iter().for_each(|line| self.notices.info(line));
        }
        let unknown = self.recovered.calls.values().filter_map(|state| match state {
            CallState::Unknown(started) => Some(started),
            _ => None,
        });
        let stray = self.recovered.stray.iter().filter(|started| started.ended.is_none());
        for started in unknown.chain(stray) {
            let files = started.files.iter().map(|(path, touched)| format!("; {} {touched}", path.display()));
            self.notices.warn(one_line(&format!(
                "{} was started when the session was cut off, and its outcome is unknown{}",
                started.tool,
                files.collect::<String>()
            )));
        }
        leftovers::describe_leftovers(&self.recovered)
            .iter()
            .for_each(|line| self.notices.info(one_line(line)));
    }

    /// Returns the end of the conversation, one line each.
    fn excerpt(&self) -> Vec<String> {
        let Some(format) = self.format() else { return Vec::new() };
        let cut = |text: &str| truncate_chars(&one_line(text), EXCERPT_LINE_CHARS_MAX).to_owned();
        let lines = format.excerpt(&self.recovered.items, EXCERPT_LINES_MAX);
        let line = |line| match line {
            ExcerptLine::User(text) => cut(&format!("> {text}")),
            ExcerptLine::Model(text) => cut(&text),
            ExcerptLine::Call(tool) => cut(&format!("  ● {tool}")),
        };
        lines.into_iter().map(line).collect()
    }

    /// Moves the agent to its last working directory. If that is impossible, the user and the model are
    /// told.
    pub fn restore_location(&self, engine: &Engine) -> Option<String> {
        let moved = &self.recovered.moved;
        let why = engine.move_to(moved).err()?;
        let from = moved.scope.as_ref().or(moved.cwd.as_ref()).map(|path| path.display().to_string());
        let words = format!(
            "You were in `{}`, and that is not possible any more ({why}): you are in the checkout now.",
            from.unwrap_or_default()
        );
        self.notices.warn(one_line(&format!("the session goes on in its first folder: {why}")));
        Some(words)
    }
}
