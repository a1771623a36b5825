//! One session's journal, open for writing: the engine's recorder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::ToolResult;
use haft::future::BoxFuture;
use haft::ports::{HookOutcome, Intent, RecordError, Recorder, RefusedCall};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal_disk::JournalDisk;
use crate::journal_writer::{self, JournalWriter, WriteCompletion, WriteRequest};
use crate::limits::COPIED_BYTES_MAX;
use crate::record::{Record, RefusedRecord, word};
use crate::record_encoding::{self, OutcomeFields};
use crate::secret_redactor::SecretRedactor;

/// When records are on the disk for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Durability {
    /// Whenever the system likes: they survive the process, not a power failure.
    Off,
    /// The intent of a call that can change something before it runs; everything else with the next such intent or at the
    /// turn's end.
    #[default]
    Batch,
    /// Each intent before the call runs and each outcome before it counts.
    Call,
}

/// How a journal is kept.
#[derive(Debug, Clone, Default)]
pub struct JournalOptions {
    /// When records are on the disk.
    pub durability: Durability,
    /// What is not to be in it.
    pub redactor: SecretRedactor,
}

/// One session's journal, open for writing.
///
/// Clones share it. When the last one is gone, what waits is written and the file is closed.
#[derive(Clone)]
pub struct Journal(Arc<JournalState>);

struct JournalState {
    writer: JournalWriter,
    durability: Durability,
    path: PathBuf,
    id: String,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("id", &self.0.id).field("path", &self.0.path).finish_non_exhaustive()
    }
}

impl Journal {
    /// Writes on at the end of this file.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn on(
        disk: Box<dyn JournalDisk>,
        (id, path): (&str, &Path),
        (length, next): (u64, u64),
        options: JournalOptions,
    ) -> std::io::Result<Journal> {
        let durability = options.durability;
        let writer =
            JournalWriter::start(disk, (length, next), options.redactor, durability != Durability::Off)?;
        let (path, id) = (path.to_owned(), id.to_owned());
        Ok(Journal(Arc::new(JournalState { writer, durability, path, id })))
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Notes something; returns at once.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub fn note(&self, record: Record) -> Result<(), RecordError> {
        self.queue(WriteRequest::Json(record_encoding::record(&record)))
    }

    /// Notes what the conversation has from the place `from` on; returns at once.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub fn items(&self, from: usize, items: &[Value]) -> Result<(), RecordError> {
        // A copy is made sooner than JSON, which whoever writes can make; but of much there is no third copy.
        let job = match items.iter().map(journal_writer::weight).sum::<usize>() <= COPIED_BYTES_MAX {
            true => WriteRequest::Items(from, items.to_vec()),
            false => WriteRequest::Json(record_encoding::items(from, items)),
        };
        self.queue(job)
    }

    /// Notes that the model's message is whole; returns at once.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub fn reply(&self, turn: u64, items: &[Value]) -> Result<(), RecordError> {
        self.queue(WriteRequest::Json(record_encoding::reply(turn, items)))
    }

    fn queue(&self, job: WriteRequest) -> Result<(), RecordError> {
        self.0.writer.put(job, WriteCompletion::Queued).map(drop).map_err(failed)
    }

    /// Notes that a turn is over: what was noted is written and synced with the next intent, or by itself in a moment.
    /// Nobody waits for that, unless everything is to be on the disk at once.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub async fn turn_over(&self) -> Result<(), RecordError> {
        let until = match self.0.durability {
            Durability::Off => WriteCompletion::Queued,
            Durability::Batch => WriteCompletion::Over,
            Durability::Call => WriteCompletion::Synced,
        };
        self.put(WriteRequest::Json(record_encoding::record(&Record::note("turn"))), until).await
    }

    /// Returns when everything that was noted survives this process. It is on the disk a moment later, with the next intent
    /// or by itself; at once where everything is.
    ///
    /// # Errors
    /// It does not.
    pub async fn settle(&self) -> Result<(), RecordError> {
        let until = match self.0.durability {
            Durability::Off => WriteCompletion::Written,
            Durability::Batch => WriteCompletion::Settled,
            Durability::Call => WriteCompletion::Synced,
        };
        self.put(WriteRequest::Json(record_encoding::record(&Record::note("turn"))), until).await
    }

    /// Writes what waits, and takes no more.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn close(&self) -> Result<(), RecordError> {
        self.0.writer.close().map_err(failed)
    }

    async fn put(&self, job: WriteRequest, until: WriteCompletion) -> Result<(), RecordError> {
        let Some(done) = self.0.writer.put(job, until).map_err(failed)? else { return Ok(()) };
        match done.await {
            Ok(done) => done.map_err(failed),
            Err(_) => Err(failed("the journal's thread is gone".to_owned())),
        }
    }
}

fn failed(message: String) -> RecordError {
    RecordError { message }
}

impl Recorder for Journal {
    fn before<'a>(&'a self, intent: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let effects = intent.effects;
            let touched = effects.writes.iter().chain(&effects.deletes);
            let paths = touched.map(|path| path.at.real.clone()).collect();
            let until = match (intent.side_effects, self.0.durability) {
                (true, Durability::Off) => WriteCompletion::Written,
                (true, _) | (false, Durability::Call) => WriteCompletion::Synced,
                (false, _) => WriteCompletion::Idle,
            };
            self.put(WriteRequest::Intent(record_encoding::intent(intent), paths), until).await
        })
    }

    fn after<'a>(
        &'a self,
        intent: &'a Intent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ended = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Box::pin(async move {
            let until = match (intent.side_effects, self.0.durability) {
                (_, Durability::Call) => WriteCompletion::Synced,
                (true, _) => WriteCompletion::Passed,
                (false, _) => WriteCompletion::Idle,
            };
            let ended = OutcomeFields {
                agent: intent.agent.to_owned(),
                turn: intent.turn,
                at: ended,
                with_result: intent.side_effects,
                moved: intent.moved.clone(),
                result: result.clone(),
            };
            self.put(WriteRequest::Outcome(ended), until).await
        })
    }

    fn refused(&self, refusal: &RefusedCall<'_>) {
        // Whoever settles the turn hears of a journal that can't be written.
        let _ = self.note(Record::Refused(Box::new(RefusedRecord {
            agent: refusal.agent.to_owned(),
            turn: refusal.turn,
            call: refusal.call_id.to_owned(),
            tool: refusal.tool.to_owned(),
            input: refusal.input.clone(),
            kind: word(refusal.kind),
            why: refusal.why.to_owned(),
            source: refusal.decision.map(|decision| decision.source),
            unanswered: refusal.decision.is_some_and(|decision| decision.unanswered().is_some()),
            reasons: refusal.decision.map(|decision| decision.reasons.clone()).unwrap_or_default(),
        })));
    }

    fn hooked(&self, hooked: &HookOutcome<'_>) {
        let _ = self.note(Record::Hook {
            agent: hooked.agent.to_owned(),
            turn: hooked.turn,
            call: hooked.call_id.map(str::to_owned),
            when: hooked.when.to_owned(),
            hook: hooked.hook.to_owned(),
            outcome: hooked.outcome.to_owned(),
        });
    }
}
