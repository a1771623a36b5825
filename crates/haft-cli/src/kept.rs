//! Sessions that are kept: the journal of a run, and going on with one that was cut off.
//!
//! [`Keeping`] writes while a run goes; [`Resumed`] is what an earlier process left of one. [`sessions`] and [`log`] show
//! what is there.

pub(crate) mod args;
pub(crate) mod log;
pub(crate) mod sessions;
pub(crate) mod stats;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use haft::env::Lookup;
use haft::ports::{Intent, RecordError, Recorder};
use haft::{BoxFuture, Output, ToolCall, ToolError, ToolResult};
use haft_journal::{
    Began, CallState, Durability, Journal, Options, Record, Recovered, Redactor, Store, StoreError,
};
use haft_policy::settings::{self, JournalSettings};
use haft_provider::run::{CutOff, Keeper};
use haft_provider::{Conversation, Tools, Usage as Cost, Wire};
use serde_json::Value;

use crate::{Usage, output};

/// Environment variables that are secret whatever settings say.
const SECRET: [&str; 4] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"];
/// The most of a title, in characters.
const TITLE_CHARS_MAX: usize = 1_000;
const DAY: u64 = 24 * 60 * 60;

/// Whether a session is kept.
#[derive(Clone, Default)]
pub(crate) enum Journaled {
    /// Nobody wants it, or there is no place for it.
    #[default]
    Not,
    In(Arc<Keeping>),
    /// It should be and can't: what can't be recorded is not done.
    Broken(String),
}

impl Journaled {
    /// The engine's recorder, where there is to be one.
    pub(crate) fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        match self {
            Journaled::Not => None,
            Journaled::In(keeping) => Some(Arc::new(keeping.journal.clone())),
            Journaled::Broken(words) => Some(Arc::new(Broken(words.clone()))),
        }
    }

    pub(crate) fn keeping(&self) -> Option<&Arc<Keeping>> {
        match self {
            Journaled::In(keeping) => Some(keeping),
            _ => None,
        }
    }
}

/// A journal that is opened with the first call: a client that only looks around leaves none.
pub(crate) struct Lazy {
    open: Box<dyn Fn() -> Journaled + Send + Sync>,
    journaled: OnceLock<Journaled>,
}

impl Lazy {
    pub(crate) fn new(open: impl Fn() -> Journaled + Send + Sync + 'static) -> Arc<Lazy> {
        Arc::new(Lazy { open: Box::new(open), journaled: OnceLock::new() })
    }

    fn journaled(&self) -> &Journaled {
        self.journaled.get_or_init(|| (self.open)())
    }

    /// Notes a call that was not run.
    pub(crate) fn refused(&self, call: &ToolCall, result: &ToolResult) {
        let began = result.error().is_none_or(|error| error.kind().began());
        if !began && let Some(keeping) = self.journaled().keeping() {
            let noted = keeping.journal.refused("main", [(call, result)]);
            noted.unwrap_or_else(|error| keeping.failed(&error));
        }
    }
}

impl Recorder for Lazy {
    fn before<'a>(&'a self, intent: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        match self.journaled() {
            Journaled::Not => Box::pin(async { Ok(()) }),
            Journaled::In(keeping) => keeping.journal.before(intent),
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
            Journaled::In(keeping) => keeping.journal.after(intent, result),
            _ => Box::pin(async { Ok(()) }),
        }
    }
}

impl Drop for Lazy {
    fn drop(&mut self) {
        if let Some(keeping) = self.journaled.get().and_then(Journaled::keeping) {
            keeping.ended("closed");
        }
    }
}

/// A journal that could not be opened.
struct Broken(String);

impl Recorder for Broken {
    fn before<'a>(&'a self, _: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        let message = format!(
            "{}; set HAFT_STATE_DIR to a folder that can be written, or `journal.enabled` to false in your settings",
            self.0
        );
        Box::pin(async move { Err(RecordError { message }) })
    }

    fn after<'a>(&'a self, _: &'a Intent<'a>, _: &'a ToolResult) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Keeps a run in its journal.
pub(crate) struct Keeping {
    journal: Journal,
    /// The tools that were noted last, and their hash.
    tools: Mutex<Option<(Arc<str>, String)>>,
    /// Whether the user was told that it can't be written.
    told: AtomicBool,
}

impl Keeping {
    /// Begins, or goes on with, the journal of a session, which has `expected` records then.
    pub(crate) fn open(
        state: Option<&Path>,
        settings: &JournalSettings,
        (id, began): (&str, Began),
        expected: Option<u64>,
        lookup: Lookup<'_>,
    ) -> Result<Journaled, Usage> {
        let Some(state) = state.filter(|_| settings.enabled()) else { return Ok(Journaled::Not) };
        let store = Store::at(state);
        let opened = store.open(id, began, options(settings, lookup));
        // Not before: what goes on now is no matter how old. What can't be removed is tried again next time.
        let days = settings.keep_days().unwrap_or(haft_journal::limits::KEPT_DAYS);
        let most = settings.keep_megabytes().map(|megabytes| megabytes.saturating_mul(1024 * 1024));
        store.clean(
            Duration::from_secs(days.saturating_mul(DAY)),
            most.unwrap_or(haft_journal::limits::KEPT_BYTES),
        );
        match opened {
            Ok((_, kept)) if expected.is_some_and(|expected| expected != kept.next()) => Err(Usage(format!(
                "session {id} has gone on in another process meanwhile; look at `haft sessions show {id}`, then try again"
            ))),
            Err(error @ StoreError::Running(_)) => Err(Usage(error.to_string())),
            Ok((journal, _)) => {
                let (tools, told) = (Mutex::default(), AtomicBool::new(false));
                Ok(Journaled::In(Arc::new(Keeping { journal, tools, told })))
            }
            Err(error) => {
                let words = output::one_line(&error.to_string());
                output::warning(&format!("this session can't be kept, so nothing is changed in it: {words}"));
                Ok(Journaled::Broken(words))
            }
        }
    }

    /// A name for people: what was said first.
    pub(crate) fn title(&self, words: &str) {
        let first = words.trim().lines().next().unwrap_or_default();
        let text: String = first.chars().take(TITLE_CHARS_MAX).collect();
        self.note(Record::Title { text });
    }

    /// The conversation begins with this, or begins again.
    pub(crate) fn begins(&self, conversation: &Conversation) {
        self.note(Record::Items { from: 0, items: conversation.items().to_vec() });
    }

    /// The session ended by itself.
    pub(crate) fn ended(&self, why: &str) {
        self.note(Record::Ended { why: why.to_owned() });
        if let Err(error) = self.journal.close() {
            self.failed(&error);
        }
    }

    fn note(&self, record: Record) {
        if let Err(error) = self.journal.note(record) {
            self.failed(&error);
        }
    }

    fn failed(&self, error: &RecordError) {
        if !self.told.swap(true, Ordering::Relaxed) {
            output::warning(&format!(
                "this session can't be continued later: {}",
                output::one_line(&error.message)
            ));
        }
    }
}

/// The names in a list of definitions, whoever's form it has.
fn names(definitions: &str) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(definitions).unwrap_or_default();
    let declared = list.iter().flat_map(|one| match one["functionDeclarations"].as_array() {
        Some(all) => all.iter().collect(),
        None => vec![one],
    });
    let name = |one: &Value| {
        let name = one["name"].as_str().or_else(|| one["function"]["name"].as_str());
        name.or_else(|| one["type"].as_str()).map(str::to_owned)
    };
    declared.filter_map(name).collect()
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

impl Keeper for Keeping {
    fn items(&self, from: usize, items: &[Value]) {
        if let Err(error) = self.journal.items(from, items) {
            self.failed(&error);
        }
    }

    fn replied(&self, turn: u64, items: &[Value]) {
        self.note(Record::Reply { turn, items: items.to_vec() });
    }

    fn spent(&self, turn: u64, usage: &Cost) {
        let (input, cached, output) = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens);
        if input + output > 0 {
            self.note(Record::Spent { turn, input, cached, output });
        }
    }

    fn asked(&self, _: u64, tools: &Tools) {
        let json = tools.shared();
        let mut noted = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        // The same bytes are at the same place from turn to turn.
        if noted.as_ref().is_some_and(|(last, _)| Arc::ptr_eq(last, &json)) {
            return;
        }
        let hash = haft_journal::sha256(json.as_bytes());
        if noted.as_ref().is_none_or(|(_, last)| *last != hash) {
            self.note(Record::Tools { hash: hash.clone(), names: names(&json) });
        }
        *noted = Some((json, hash));
    }

    fn settled<'a>(&'a self, calls: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let refused = self.journal.refused("main", calls.iter().map(|(call, result)| (call, result)));
            let settled = match refused {
                Ok(()) => self.journal.settle().await,
                Err(error) => Err(error),
            };
            if let Err(error) = settled {
                self.failed(&error);
            }
        })
    }
}

/// What an earlier process left of a session.
pub(crate) struct Resumed {
    pub(crate) id: String,
    pub(crate) recovered: Recovered,
    /// How many records there were.
    pub(crate) next: u64,
}

impl Resumed {
    /// Finds the session: this one, or the last one of this folder.
    pub(crate) fn find(state: Option<&Path>, id: Option<&str>, cwd: &Path) -> Result<Resumed, Usage> {
        let state = state.ok_or_else(|| {
            Usage("nothing is kept here: there is no state folder; set HAFT_STATE_DIR or HOME".to_owned())
        })?;
        let store = Store::at(state);
        let said = |error: haft_journal::StoreError| Usage(error.to_string());
        if let Some(id) = id {
            let session = store.find(id).map_err(said)?;
            let kept = store.read(&session.id).map_err(said)?;
            return Resumed::of(session.id, &kept).in_folder(cwd);
        }
        for session in store.list() {
            let Ok(kept) = store.read(&session.id) else { continue };
            if session.is_running || sessions::folder(&kept).is_none_or(|folder| folder != cwd) {
                continue;
            }
            let resumed = Resumed::of(session.id, &kept);
            if !resumed.recovered.items.is_empty() {
                return Ok(resumed);
            }
        }
        Err(Usage(format!(
            "nothing to continue in {}; `haft sessions list` shows all sessions, `--resume ID` takes one of them",
            cwd.display()
        )))
    }

    fn of(id: String, kept: &haft_journal::Kept) -> Resumed {
        let recovered = Recovered::of(kept);
        if recovered.is_damaged {
            output::warning(&format!(
                "the journal of session {id} is damaged, and something of it is missing; calls of which nothing is known are not run again"
            ));
        }
        Resumed { id, recovered, next: kept.next() }
    }

    /// A session goes on where it was: its calls name paths that begin there.
    fn in_folder(self, cwd: &Path) -> Result<Resumed, Usage> {
        let was = &self.recovered.began.cwd;
        if was == cwd {
            return Ok(self);
        }
        Err(Usage(format!("session {} works in {}; go there, or use --cwd", self.id, was.display())))
    }

    /// The conversation as it was.
    pub(crate) fn conversation(&self, wire: Wire) -> Result<Conversation, Usage> {
        let was = &self.recovered.last.wire;
        if *was != wire.name() {
            return Err(Usage(format!(
                "session {} was held with `{was}`, and a conversation can't change to `{}`; use --provider {was}",
                self.id,
                wire.name()
            )));
        }
        Ok(Conversation::from_items(wire, self.recovered.items.clone()))
    }

    /// Whether the model has something to answer without new words: calls, results or words that it hasn't answered.
    pub(crate) fn waits(&self) -> bool {
        let last = self.recovered.items.last();
        let is_users = last.is_some_and(|last| match last["role"].as_str() {
            Some(role) => matches!(role, "user" | "tool"),
            // OpenAI's results have no role.
            None => last["type"].as_str().is_some_and(|kind| kind.ends_with("_output")),
        });
        self.recovered.reply.is_some() || is_users
    }

    /// The message whose calls were not all answered, with what is known of them.
    pub(crate) fn cut_off(&self, wire: Wire) -> Option<CutOff> {
        let items = self.recovered.reply.clone()?;
        let result = |(id, state): (&String, &CallState)| match state {
            CallState::Finished { tool, error, blocks } => {
                let content: Vec<haft::Content> =
                    blocks.iter().cloned().map(haft_journal::Block::into_content).collect();
                let outcome = match error {
                    None => Ok(Output::new(content)),
                    Some(_) => Err(ToolError::new(text(&content))),
                };
                Some(ToolResult::kept(id.as_str(), tool.as_str(), outcome))
            }
            CallState::Unknown(started) => {
                let error = ToolError::new(started.to_string());
                Some(ToolResult::kept(id.as_str(), started.tool.as_str(), Err(error)))
            }
            _ => None,
        };
        let mut results: Vec<ToolResult> = self.recovered.calls.iter().filter_map(result).collect();
        if self.recovered.is_damaged {
            // What isn't in a damaged journal may have run.
            let text = match wire {
                Wire::OpenAi => Value::from(items.clone()).to_string(),
                _ => items.first().map(ToString::to_string).unwrap_or_default(),
            };
            let calls =
                haft_provider::decode(&text, Some(wire)).map(|message| message.calls()).unwrap_or_default();
            for call in calls {
                if !self.recovered.calls.contains_key(&*call.id) {
                    let error = ToolError::new(format!(
                        "whether {} ran is unknown: the journal of the session is damaged. It was not run again. Look at what \
                         is there before you repeat it.",
                        call.name
                    ));
                    results.push(ToolResult::kept(call.id.clone(), call.name.clone(), Err(error)));
                }
            }
        }
        Some(CutOff { items, results })
    }

    /// What the model has to know beside its calls: changes that nobody has told it of.
    pub(crate) fn told(&self) -> Option<String> {
        let stray = &self.recovered.stray;
        if stray.is_empty() {
            return None;
        }
        let mut words = "This session was cut off and goes on in a new process.".to_owned();
        for started in stray {
            words.push_str(&format!("\n- {started}"));
        }
        Some(words)
    }
}

fn text(content: &[haft::Content]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        haft::Content::Text(text) => Some(text.as_ref()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
