//! Sessions that are kept: the journal of a run, and going on with one that was cut off.
//!
//! [`Keeping`] writes while a run goes; [`Resumed`] is what an earlier process left of one, and [`left`] what it left beside.

pub mod left;
mod resumed;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use haft::env::Lookup;
use haft::future::BoxFuture;
use haft::ports::{HookOutcome, Intent, RecordError, Recorder, RefusedCall};
use haft::sync::lock;
use haft::{ToolCall, ToolResult};
use haft_agent::{Conversation, ConversationRecorder, TokenUsage as Cost, ToolDefinitions};
use haft_journal::{Began, Durability, Journal, Mark, Options, Record, Redactor, Store, StoreError};
use haft_policy::settings::{self, JournalSettings};
use haft_tools::Seen;
use haft_tools::worktrees::{self, Worktree};
use serde_json::Value;

pub use self::resumed::Resumed;
use crate::text::one_line;
use crate::{NoticeSink, SessionError};

/// Environment variables that are secret whatever settings say.
const SECRET: [&str; 4] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The command of a session that an embedder opened, until it has a model.
pub(crate) const EMBEDDED: &str = "session";
/// The most of a title, in characters.
const TITLE_CHARS_MAX: usize = 1_000;
const DAY: u64 = 24 * 60 * 60;
/// What helps where no journal can be opened.
const OPEN_IT: &str =
    "set HAFT_STATE_DIR to a folder that can be written, or `journal.enabled` to false in your settings";

/// Whether a session is kept.
#[derive(Clone, Default)]
pub enum Journaled {
    /// Nobody wants it, or there is no place for it.
    #[default]
    Not,
    In(Arc<Keeping>),
    /// It should be and can't: what can't be recorded is not done.
    Broken(String),
}

impl Journaled {
    pub fn is_not(&self) -> bool {
        matches!(self, Journaled::Not)
    }

    pub fn keeping(&self) -> Option<&Arc<Keeping>> {
        match self {
            Journaled::In(keeping) => Some(keeping),
            _ => None,
        }
    }
}

/// The journal of a session. It is opened by the first call or by a run: a session that only looks around leaves none.
pub struct Lazy {
    open: Box<OpenJournal>,
    opening: Mutex<()>,
    journaled: OnceLock<Journaled>,
}

/// Opens a journal, which begins with a run or, without one, with a call.
type OpenJournal = dyn Fn(Option<Began>) -> Result<Journaled, SessionError> + Send + Sync;

impl Lazy {
    pub fn new(
        open: impl Fn(Option<Began>) -> Result<Journaled, SessionError> + Send + Sync + 'static,
    ) -> Arc<Lazy> {
        let open = Box::new(open);
        Arc::new(Lazy { open, opening: Mutex::default(), journaled: OnceLock::new() })
    }

    /// No journal.
    pub fn none() -> Arc<Lazy> {
        let none = Lazy::new(|_| Ok(Journaled::Not));
        let _ = none.journaled.set(Journaled::Not);
        none
    }

    fn journaled(&self) -> &Journaled {
        if let Some(opened) = self.journaled.get() {
            return opened;
        }
        let _opening = lock(&self.opening);
        self.journaled
            .get_or_init(|| (self.open)(None).unwrap_or_else(|error| Journaled::Broken(error.to_string())))
    }

    /// Opens the journal for a run, or notes the run in the journal that calls have opened.
    ///
    /// # Errors
    /// The journal belongs to another process.
    pub fn begin_run(&self, began: Began) -> Result<Journaled, SessionError> {
        let _opening = lock(&self.opening);
        if let Some(opened) = self.journaled.get() {
            if let Some(keeping) = opened.keeping() {
                keeping.note(Record::Began(began));
            }
            return Ok(opened.clone());
        }
        let opened = (self.open)(Some(began))?;
        let _ = self.journaled.set(opened.clone());
        Ok(opened)
    }

    /// The engine's recorder, unless it is known that nothing is recorded.
    pub fn recorder(self: &Arc<Self>) -> Option<Arc<dyn Recorder>> {
        match self.opened() {
            Some(Journaled::Not) => None,
            _ => Some(self.clone()),
        }
    }

    /// The journal, if it was opened.
    pub fn opened(&self) -> Option<&Journaled> {
        self.journaled.get()
    }

    /// Notes something.
    pub fn note(&self, record: Record) {
        if let Some(keeping) = self.journaled().keeping() {
            keeping.note(record);
        }
    }

    /// Notes what may come after the end, when no reader needs it any more.
    pub fn note_if_open(&self, record: Record) {
        if let Some(keeping) = self.opened().and_then(Journaled::keeping) {
            keeping.note_if_open(record);
        }
    }

    /// Notes that the session ended, if it has a journal.
    pub fn ended(&self, why: &str) {
        if let Some(keeping) = self.opened().and_then(Journaled::keeping) {
            keeping.ended(why);
        }
    }
}

impl Recorder for Lazy {
    fn before<'a>(&'a self, intent: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        match self.journaled() {
            Journaled::Not => Box::pin(async { Ok(()) }),
            Journaled::In(keeping) => keeping.before(intent),
            Journaled::Broken(words) => {
                let broken = Broken(words.clone());
                Box::pin(async move { broken.before(intent).await })
            }
        }
    }

    fn after<'a>(
        &'a self,
        intent: &'a Intent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        match self.journaled() {
            Journaled::In(keeping) => keeping.after(intent, result),
            _ => Box::pin(async { Ok(()) }),
        }
    }

    fn refused(&self, refused: &RefusedCall<'_>) {
        if let Some(keeping) = self.journaled().keeping() {
            keeping.refused(refused);
        }
    }

    fn hooked(&self, hooked: &HookOutcome<'_>) {
        if let Some(keeping) = self.journaled().keeping() {
            keeping.hooked(hooked);
        }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        self.ended("closed");
    }
}

/// A journal that could not be opened.
struct Broken(String);

impl Recorder for Broken {
    fn before<'a>(&'a self, _: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        let message = format!("{}; {OPEN_IT}", self.0);
        Box::pin(async move { Err(RecordError { message }) })
    }

    fn after<'a>(&'a self, _: &'a Intent<'a>, _: &'a ToolResult) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Keeps a run in its journal.
pub struct Keeping {
    journal: Journal,
    /// The tools that were noted last, and their hash.
    tools: Mutex<Option<(Arc<str>, String)>>,
    /// What the session knows of files, if that is kept.
    seen: OnceLock<Seen>,
    /// Whether the user was told that it can't be written.
    told: AtomicBool,
    /// Whether the end was noted: what comes later isn't kept.
    has_ended: AtomicBool,
    notices: NoticeSink,
}

impl Keeping {
    /// Begins the journal of a session, or goes on with it from where it was read.
    pub fn open(
        state: Option<&Path>,
        settings: &JournalSettings,
        (id, began): (&str, Began),
        mark: Option<Mark>,
        lookup: Lookup<'_>,
        notices: &NoticeSink,
    ) -> Result<Journaled, SessionError> {
        let Some(state) = state.filter(|_| settings.enabled()) else { return Ok(Journaled::Not) };
        let store = Store::at(state);
        let options = options(settings, lookup);
        let opened = match mark {
            Some(mark) => store.go_on(id, mark, began, options),
            None => store.create(id, began, options),
        };
        // Not before: what goes on now is no matter how old. What can't be removed is tried again next time.
        let days = settings.keep_days().unwrap_or(haft_journal::limits::KEPT_DAYS);
        let most = settings.keep_megabytes().map(|megabytes| megabytes.saturating_mul(1024 * 1024));
        store.clean(
            Duration::from_secs(days.saturating_mul(DAY)),
            most.unwrap_or(haft_journal::limits::KEPT_BYTES),
        );
        match opened {
            Err(error @ (StoreError::Running(_) | StoreError::LookedAt(_) | StoreError::GoneOn(_))) => {
                Err(SessionError::journal(error.to_string()))
            }
            Ok(journal) => Ok(Journaled::In(Arc::new(Keeping {
                journal,
                tools: Mutex::default(),
                seen: OnceLock::new(),
                told: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
                notices: notices.clone(),
            }))),
            Err(error) => {
                let words = one_line(&error.to_string());
                notices.warn(format!(
                    "this session can't be kept, so nothing is changed in it: {words}; {OPEN_IT}"
                ));
                Ok(Journaled::Broken(words))
            }
        }
    }

    /// Keeps from now on what the session knows of files.
    pub fn knows(&self, seen: &Seen) {
        let _ = self.seen.set(seen.clone());
        // Only what comes from now on is new.
        seen.news(self.journal.id());
    }

    /// Notes a worktree before it is made: it is found although nobody may live to say so.
    pub fn makes(&self, worktree: &Worktree) {
        let repository = worktree.path.ancestors().nth(3).unwrap_or(&worktree.path).to_owned();
        let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
        self.note(Record::Worktree { path, repository, branch });
    }

    /// A name for people: what was said first.
    pub fn title(&self, words: &str) {
        let first = words.trim().lines().next().unwrap_or_default();
        let text: String = first.chars().take(TITLE_CHARS_MAX).collect();
        self.note(Record::Title { text });
    }

    /// The conversation begins with this, or begins again.
    pub fn begins(&self, conversation: &Conversation) {
        ConversationRecorder::record_items(self, 0, conversation.items());
    }

    /// The session ended by itself. Only the first end counts.
    pub fn ended(&self, why: &str) {
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

    /// Notes what may come after the end, when nobody needs it any more.
    pub fn note_if_open(&self, record: Record) {
        let _ = self.journal.note(record);
    }

    fn failed(&self, error: &RecordError) {
        if !self.has_ended.load(Ordering::Relaxed) {
            self.report_failure(error);
        }
    }

    fn report_failure(&self, error: &RecordError) {
        if !self.told.swap(true, Ordering::Relaxed) {
            self.notices.warn(format!("this session can't be continued later: {}", one_line(&error.message)));
        }
    }
}

fn options(settings: &JournalSettings, lookup: Lookup<'_>) -> Options {
    let named = settings.redact();
    let names = named.iter().map(String::as_str).chain(SECRET);
    let value = |name: &str| lookup(name).and_then(|value| value.into_string().ok());
    let secrets = names.filter_map(|name| Some((name.to_owned(), value(name)?)));
    let durability = match settings.durability() {
        settings::Durability::Off => Durability::Off,
        settings::Durability::Batch => Durability::Batch,
        settings::Durability::Call => Durability::Call,
    };
    Options { durability, redactor: Redactor::new(secrets) }
}

impl ConversationRecorder for Keeping {
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
        let mut noted = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        // The same bytes are at the same place from turn to turn.
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
            if let Err(error) = self.journal.turn_over().await {
                self.failed(&error);
            }
        })
    }
}

impl Recorder for Keeping {
    fn before<'a>(&'a self, intent: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        for path in intent.effects.writes.iter().map(|path| &path.at.real) {
            if let Some(folder) = path.parent().filter(|folder| folder.ends_with(worktrees::FOLDER))
                && let Some(name) = path.file_name().and_then(|name| name.to_str())
            {
                self.makes(&Worktree::named(folder, name));
            }
        }
        self.journal.before(intent)
    }

    fn after<'a>(
        &'a self,
        intent: &'a Intent<'a>,
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
}
