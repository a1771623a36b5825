//! The journal of one session, open for writing: the engine's recorder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::ToolResult;
use haft::future::BoxFuture;
use haft::ports::{CallIntent, HookOutcome, RecordError, Recorder, RefusedCall, RequestDecision};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal_disk::JournalDisk;
use crate::journal_writer::{self, JournalWriter, WriteCompletion, WriteRequest};
use crate::limits::COPIED_BYTES_MAX;
use crate::record::{Record, RefusedRecord, error_kind_name};
use crate::record_encoding::{self, OutcomeFields};
use crate::secret_redactor::SecretRedactor;

/// When records are synced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Durability {
    /// Never: records survive a crash of the process, not a power failure.
    Off,
    /// The intent of a call with side effects before the call runs; everything else with the next
    /// such intent or at the end of the turn.
    #[default]
    Batch,
    /// Each intent before the call runs, and each outcome before it is returned.
    Call,
}

/// Options for a journal.
#[derive(Debug, Clone, Default)]
pub struct JournalOptions {
    /// When records are synced.
    pub durability: Durability,
    /// The secrets that are removed from records.
    pub redactor: SecretRedactor,
}

/// The journal of one session, open for writing.
///
/// Clones share it. Dropping the last one writes the queued records and closes the file.
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
    /// Creates a journal that appends to a disk with `length` bytes and `next` complete lines.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn with_disk(
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

    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Queues a record without waiting.
    ///
    /// # Errors
    /// The journal is closed, the queue is full, or the last write failed; after a failed write, the
    /// record is queued nevertheless.
    pub fn note(&self, record: Record) -> Result<(), RecordError> {
        self.enqueue(WriteRequest::Json(record_encoding::encode_record(&record)))
    }

    /// Queues the items of the conversation from index `from` on, without waiting.
    ///
    /// # Errors
    /// The journal is closed, the queue is full, or the last write failed; after a failed write, the
    /// record is queued nevertheless.
    pub fn items(&self, from: usize, items: &[Value]) -> Result<(), RecordError> {
        // Copying is faster than encoding, which the writing thread can do. Large items are encoded
        // here to avoid a third copy.
        let request =
            if items.iter().map(journal_writer::estimate_json_bytes).sum::<usize>() <= COPIED_BYTES_MAX {
                WriteRequest::Items(from, items.to_vec())
            } else {
                WriteRequest::Json(record_encoding::encode_items(from, items))
            };
        self.enqueue(request)
    }

    /// Queues the complete message of the model, without waiting.
    ///
    /// # Errors
    /// The journal is closed, the queue is full, or the last write failed; after a failed write, the
    /// record is queued nevertheless.
    pub fn reply(&self, turn: u64, items: &[Value]) -> Result<(), RecordError> {
        self.enqueue(WriteRequest::Json(record_encoding::encode_reply(turn, items)))
    }

    fn enqueue(&self, request: WriteRequest) -> Result<(), RecordError> {
        self.0.writer.submit(request, WriteCompletion::Queued).map(drop).map_err(record_error)
    }

    /// Marks the end of a turn. Its records are written and synced with the next intent, or alone
    /// after a short delay. Only `Durability::Call` waits for the sync.
    ///
    /// # Errors
    /// The journal can't be written.
    pub async fn finish_turn(&self) -> Result<(), RecordError> {
        let until = match self.0.durability {
            Durability::Off => WriteCompletion::Queued,
            Durability::Batch => WriteCompletion::TurnOver,
            Durability::Call => WriteCompletion::Synced,
        };
        self.submit(WriteRequest::Json(record_encoding::encode_record(&Record::note("turn"))), until).await
    }

    /// Waits until all records survive a crash of this process. They are synced with the next
    /// intent or after a short delay; `Durability::Call` waits for the sync.
    ///
    /// # Errors
    /// The journal can't be written.
    pub async fn settle(&self) -> Result<(), RecordError> {
        let until = match self.0.durability {
            Durability::Off => WriteCompletion::Written,
            Durability::Batch => WriteCompletion::Settled,
            Durability::Call => WriteCompletion::Synced,
        };
        self.submit(WriteRequest::Json(record_encoding::encode_record(&Record::note("turn"))), until).await
    }

    /// Writes the queued records and closes the journal.
    ///
    /// # Errors
    /// A record could not be written.
    pub fn close(&self) -> Result<(), RecordError> {
        self.0.writer.close().map_err(record_error)
    }

    async fn submit(&self, request: WriteRequest, until: WriteCompletion) -> Result<(), RecordError> {
        let Some(done) = self.0.writer.submit(request, until).map_err(record_error)? else { return Ok(()) };
        match done.await {
            Ok(done) => done.map_err(record_error),
            Err(_) => Err(record_error("the journal's thread is gone".to_owned())),
        }
    }
}

fn record_error(message: String) -> RecordError {
    RecordError { message }
}

impl Recorder for Journal {
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let effects = intent.effects;
            let changed_paths = effects.writes.iter().chain(&effects.deletes);
            let paths = changed_paths.map(|path| path.at.real.clone()).collect();
            let until = match (intent.side_effects, self.0.durability) {
                (true, Durability::Off) => WriteCompletion::Written,
                (true, _) | (false, Durability::Call) => WriteCompletion::Synced,
                (false, _) => WriteCompletion::Idle,
            };
            self.submit(WriteRequest::Intent(record_encoding::encode_intent(intent), paths), until).await
        })
    }

    fn after<'a>(
        &'a self,
        intent: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ended_at = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Box::pin(async move {
            let until = match (intent.side_effects, self.0.durability) {
                (_, Durability::Call) => WriteCompletion::Synced,
                (true, _) => WriteCompletion::WriteSoon,
                (false, _) => WriteCompletion::Idle,
            };
            let outcome = OutcomeFields {
                agent: intent.agent.to_owned(),
                turn: intent.turn,
                at: ended_at,
                with_result: intent.side_effects,
                moved: intent.moved.clone(),
                result: result.clone(),
            };
            self.submit(WriteRequest::Outcome(outcome), until).await
        })
    }

    fn refused(&self, refusal: &RefusedCall<'_>) {
        // The call that settles the turn reports write errors.
        let _ = self.note(Record::Refused(Box::new(RefusedRecord {
            agent: refusal.agent.to_owned(),
            turn: refusal.turn,
            call: refusal.call_id.to_owned(),
            tool: refusal.tool.to_owned(),
            input: refusal.input.clone(),
            kind: error_kind_name(refusal.kind),
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

    fn request_decided(&self, decided: &RequestDecision<'_>) {
        let _ = self.note(Record::Request {
            agent: decided.agent.to_owned(),
            turn: decided.turn,
            call: decided.call_id.to_owned(),
            wanted: decided.wanted.to_vec(),
            outcome: decided.outcome.to_owned(),
            source: decided.source,
        });
    }
}
