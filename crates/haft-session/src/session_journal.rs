//! The journal of a session: recording it, and continuing an interrupted one.
//!
//! [`SessionRecorder`] writes during a run. [`ResumedSession`] is the record of an earlier process, and
//! [`leftovers`] are that process's tasks and worktrees.

pub mod leftovers;
mod resumed_session;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use haft::env::VariableLookup;
use haft::future::BoxFuture;
use haft::ports::{CallIntent, HookOutcome, RecordError, Recorder, RefusedCall, RequestDecision};
use haft::sync::lock;
use haft::text::truncate_chars;
use haft::{ToolCall, ToolResult};
use haft_agent::{Conversation, ConversationRecorder, TokenUsage as Cost, ToolDefinitions};
use haft_journal::{
    Durability, Journal, JournalOptions, JournalStore, Record, ResumePoint, SecretRedactor, SessionStart,
    StoreError,
};
use haft_policy::settings::{self, JournalSettings};
use haft_tools::ReadTracker;
use haft_tools::worktrees::{self, GitWorktree};
use serde_json::Value;

pub use self::resumed_session::ResumedSession;
use crate::text::one_line;
use crate::{NoticeSink, SessionError};

/// Environment variables that are always secret, whatever settings say.
const SECRET: [&str; 4] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The command of a session that an embedder opened, until it has a model.
pub(crate) const EMBEDDED: &str = "session";
/// The maximum length of a title, in characters.
const TITLE_CHARS_MAX: usize = 1_000;
const DAY: u64 = 24 * 60 * 60;
/// Advice if the journal can't be opened.
const OPEN_IT: &str =
    "set HAFT_STATE_DIR to a folder that can be written, or `journal.enabled` to false in your settings";

/// Whether a session has a journal.
#[derive(Clone, Default)]
pub enum JournalState {
    /// Settings disable it, or there is no folder for it.
    #[default]
    Off,
    /// The journal is being written.
    In(Arc<SessionRecorder>),
    /// The journal can't be written, for this reason. Calls with side effects don't run then.
    Broken(String),
}

impl JournalState {
    pub fn is_off(&self) -> bool {
        matches!(self, JournalState::Off)
    }

    pub fn recorder(&self) -> Option<&Arc<SessionRecorder>> {
        match self {
            JournalState::In(recorder) => Some(recorder),
            _ => None,
        }
    }
}

/// The journal of a session. The first call or a run opens it, so a session without calls has none.
pub struct LazyJournal {
    open: Box<OpenJournal>,
    opening: Mutex<()>,
    journaled: OnceLock<JournalState>,
}

/// Opens a journal, which begins with a run or, without one, with a call.
type OpenJournal = dyn Fn(Option<SessionStart>) -> Result<JournalState, SessionError> + Send + Sync;

impl LazyJournal {
    pub fn new(
        open: impl Fn(Option<SessionStart>) -> Result<JournalState, SessionError> + Send + Sync + 'static,
    ) -> Arc<LazyJournal> {
        let open = Box::new(open);
        Arc::new(LazyJournal { open, opening: Mutex::default(), journaled: OnceLock::new() })
    }

    /// Returns a journal that records nothing.
    pub fn none() -> Arc<LazyJournal> {
        let none = LazyJournal::new(|_| Ok(JournalState::Off));
        let _ = none.journaled.set(JournalState::Off);
        none
    }

    fn journaled(&self) -> &JournalState {
        if let Some(opened) = self.journaled.get() {
            return opened;
        }
        let _opening = lock(&self.opening);
        self.journaled
            .get_or_init(|| (self.open)(None).unwrap_or_else(|error| JournalState::Broken(error.to_string())))
    }

    /// Opens the journal for a run, or records the run in the journal that calls have opened.
    ///
    /// # Errors
    /// Returns an error if the journal belongs to another process.
    pub fn begin_run(&self, began: SessionStart) -> Result<JournalState, SessionError> {
        let _opening = lock(&self.opening);
        if let Some(opened) = self.journaled.get() {
            if let Some(recorder) = opened.recorder() {
                recorder.note(Record::Began(began));
            }
            return Ok(opened.clone());
        }
        let opened = (self.open)(Some(began))?;
        let _ = self.journaled.set(opened.clone());
        Ok(opened)
    }

    /// Returns the engine's recorder, unless it is known that nothing is recorded.
    pub fn recorder(self: &Arc<Self>) -> Option<Arc<dyn Recorder>> {
        match self.opened() {
            Some(JournalState::Off) => None,
            _ => Some(self.clone()),
        }
    }

    /// Returns the journal, if it was opened.
    pub fn opened(&self) -> Option<&JournalState> {
        self.journaled.get()
    }

    /// Records an entry.
    pub fn note(&self, record: Record) {
        if let Some(recorder) = self.journaled().recorder() {
            recorder.note(record);
        }
    }

    /// Records an entry that may come after the end, when no reader needs it any more.
    pub fn note_if_open(&self, record: Record) {
        if let Some(recorder) = self.opened().and_then(JournalState::recorder) {
            recorder.note_if_open(record);
        }
    }

    /// Records that the session ended, if it has a journal.
    pub fn record_end(&self, why: &str) {
        if let Some(recorder) = self.opened().and_then(JournalState::recorder) {
            recorder.record_end(why);
        }
    }
}

impl Recorder for LazyJournal {
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        match self.journaled() {
            JournalState::Off => Box::pin(async { Ok(()) }),
            JournalState::In(recorder) => recorder.before(intent),
            JournalState::Broken(words) => {
                let broken = BrokenJournal(words.clone());
                Box::pin(async move { broken.before(intent).await })
            }
        }
    }

    fn after<'a>(
        &'a self,
        intent: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        match self.journaled() {
            JournalState::In(recorder) => recorder.after(intent, result),
            _ => Box::pin(async { Ok(()) }),
        }
    }

    fn refused(&self, refused: &RefusedCall<'_>) {
        if let Some(recorder) = self.journaled().recorder() {
            recorder.refused(refused);
        }
    }

    fn hooked(&self, hooked: &HookOutcome<'_>) {
        if let Some(recorder) = self.journaled().recorder() {
            recorder.hooked(hooked);
        }
    }

    fn request_decided(&self, decided: &RequestDecision<'_>) {
        if let Some(recorder) = self.journaled().recorder() {
            recorder.request_decided(decided);
        }
    }
}

impl Drop for LazyJournal {
    fn drop(&mut self) {
        self.record_end("closed");
    }
}

/// A journal that could not be opened.
struct BrokenJournal(String);

impl Recorder for BrokenJournal {
    fn before<'a>(&'a self, _: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        let message = format!("{}; {OPEN_IT}", self.0);
        Box::pin(async move { Err(RecordError { message }) })
    }

    fn after<'a>(
        &'a self,
        _: &'a CallIntent<'a>,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Records a session in its journal.
pub struct SessionRecorder {
    journal: Journal,
    /// The last recorded tools, and their hash.
    tools: Mutex<Option<(Arc<str>, String)>>,
    /// The files that the session has read, if they are recorded.
    seen: OnceLock<ReadTracker>,
    /// Whether a notice has reported that it can't be written.
    has_warned: AtomicBool,
    /// Whether the end was recorded. Later entries aren't kept.
    has_ended: AtomicBool,
    notices: NoticeSink,
}

impl SessionRecorder {
    /// Begins the journal of a session, or continues an earlier one.
    ///
    /// # Errors
    /// Returns an error if the journal belongs to another process or can't be used.
    pub fn open(
        state: Option<&Path>,
        settings: &JournalSettings,
        (id, began): (&str, SessionStart),
        mark: Option<ResumePoint>,
        lookup: VariableLookup<'_>,
        notices: &NoticeSink,
    ) -> Result<JournalState, SessionError> {
        let Some(state) = state.filter(|_| settings.enabled.unwrap_or(true)) else {
            return Ok(JournalState::Off);
        };
        let store = JournalStore::at(state);
        let options = journal_options(settings, lookup);
        let opened = match mark {
            Some(mark) => store.resume(id, mark, began, options),
            None => store.create(id, began, options),
        };
        // After opening, so that a session that continues now is kept, however old it is. Removal of old
        // sessions is retried next time.
        let days = settings.keep_days.unwrap_or(haft_journal::limits::KEPT_DAYS);
        let most = settings.keep_megabytes.map(|megabytes| megabytes.saturating_mul(1024 * 1024));
        store.clean(
            Duration::from_secs(days.saturating_mul(DAY)),
            most.unwrap_or(haft_journal::limits::KEPT_BYTES),
        );
        match opened {
            Err(
                error
                @ (StoreError::Running(_) | StoreError::ReadLocked(_) | StoreError::ChangedMeanwhile(_)),
            ) => Err(SessionError::journal(error.to_string())),
            Ok(journal) => Ok(JournalState::In(Arc::new(SessionRecorder {
                journal,
                tools: Mutex::default(),
                seen: OnceLock::new(),
                has_warned: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
                notices: notices.clone(),
            }))),
            Err(error) => {
                let words = one_line(&error.to_string());
                notices.warn(format!(
                    "this session can't be kept, so nothing is changed in it: {words}; {OPEN_IT}"
                ));
                Ok(JournalState::Broken(words))
            }
        }
    }

    /// Records the files that the session reads from now on.
    pub fn track_files(&self, seen: &ReadTracker) {
        let _ = self.seen.set(seen.clone());
        // Discards the files that were read before.
        seen.news(self.journal.id());
    }

    /// Records a worktree before it is created, so that a crash in between doesn't hide it.
    pub fn record_worktree(&self, worktree: &GitWorktree) {
        let repository = worktree.path.ancestors().nth(3).unwrap_or(&worktree.path).to_owned();
        let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
        self.note(Record::Worktree { path, repository, branch });
    }

    /// Names the session after its first prompt.
    pub fn record_title(&self, prompt: &str) {
        let first = prompt.trim().lines().next().unwrap_or_default();
        let text = truncate_chars(first, TITLE_CHARS_MAX).to_owned();
        self.note(Record::Title { text });
    }

    /// Records the conversation from its beginning.
    pub fn record_conversation(&self, conversation: &Conversation) {
        ConversationRecorder::record_items(self, 0, conversation.items());
    }

    /// Records that the session ended. Only the first end counts.
    pub fn record_end(&self, why: &str) {
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        let noted = self.journal.note(Record::Ended { why: why.to_owned() });
        if let Err(error) = noted.and_then(|()| self.journal.close()) {
            self.report_failure(&error);
        }
    }

    pub fn note(&self, record: Record) {
        if let Err(error) = self.journal.note(record) {
            self.failed(&error);
        }
    }

    /// Records an entry that may come after the end and isn't needed for recovery.
    pub fn note_if_open(&self, record: Record) {
        let _ = self.journal.note(record);
    }

    fn failed(&self, error: &RecordError) {
        if !self.has_ended.load(Ordering::Relaxed) {
            self.report_failure(error);
        }
    }

    fn report_failure(&self, error: &RecordError) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            self.notices.warn(format!("this session can't be continued later: {}", one_line(&error.message)));
        }
    }
}

fn journal_options(settings: &JournalSettings, lookup: VariableLookup<'_>) -> JournalOptions {
    let names = settings.redact.iter().map(String::as_str).chain(SECRET);
    let value = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
    let secrets = names.filter_map(|name| Some((name.to_owned(), value(name)?)));
    let durability = match settings.durability.unwrap_or_default() {
        settings::Durability::Off => Durability::Off,
        settings::Durability::Batch => Durability::Batch,
        settings::Durability::Call => Durability::Call,
    };
    JournalOptions { durability, redactor: SecretRedactor::new(secrets) }
}

impl ConversationRecorder for SessionRecorder {
    fn record_items(&self, from: usize, items: &[Value]) {
        if let Err(error) = self.journal.items(from, items) {
            self.failed(&error);
        }
    }

    fn record_reply(&self, turn: u64, items: &[Value]) {
        if let Err(error) = self.journal.reply(turn, items) {
            self.failed(&error);
        }
    }

    fn record_usage(&self, turn: u64, usage: &Cost) {
        let (input, cached, output) = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens);
        if input + output > 0 {
            self.note(Record::Spent { turn, input, cached, output });
        }
    }

    fn record_tools(&self, _: u64, tools: &ToolDefinitions) {
        let json = tools.shared();
        let mut noted = lock(&self.tools);
        // The same JSON has the same address from turn to turn.
        if noted.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, &json)) {
            return;
        }
        let hash = haft_journal::sha256(json.as_bytes());
        if noted.as_ref().is_none_or(|(_, last)| *last != hash) {
            let names = tools.names().iter().map(|name| name.to_string()).collect();
            self.note(Record::Tools { hash: hash.clone(), names });
        }
        *noted = Some((json, hash));
    }

    fn finish_turn<'a>(&'a self, _: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let files = self.seen.get().map(|seen| seen.news(self.journal.id())).unwrap_or_default();
            if !files.is_empty() {
                self.note(Record::Seen { files });
            }
            if let Err(error) = self.journal.finish_turn().await {
                self.failed(&error);
            }
        })
    }
}

impl Recorder for SessionRecorder {
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        for path in intent.effects.writes.iter().map(|path| &path.at.real) {
            if let Some(folder) = path.parent().filter(|folder| folder.ends_with(worktrees::FOLDER))
                && let Some(name) = path.file_name().and_then(|name| name.to_str())
            {
                self.record_worktree(&GitWorktree::named(folder, name));
            }
        }
        self.journal.before(intent)
    }

    fn after<'a>(
        &'a self,
        intent: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        self.journal.after(intent, result)
    }

    fn refused(&self, refused: &RefusedCall<'_>) {
        self.journal.refused(refused);
    }

    fn hooked(&self, hooked: &HookOutcome<'_>) {
        self.journal.hooked(hooked);
    }

    fn request_decided(&self, decided: &RequestDecision<'_>) {
        self.journal.request_decided(decided);
    }
}
