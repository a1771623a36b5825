//! One session's journal, open for writing: the engine's recorder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::ports::{Intent, RecordError, Recorder};
use haft::{BoxFuture, CallInput, ToolCall, ToolResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disk::Disk;
use crate::limits::CLONED_BYTES_MAX;
use crate::record::{IntentRecord, Record, RefusedRecord, word};
use crate::redact::Redactor;
use crate::writer::{Job, Until, Writer, weight};

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
pub struct Options {
    /// When records are on the disk.
    pub durability: Durability,
    /// What is not to be in it.
    pub redactor: Redactor,
}

/// One session's journal, open for writing.
///
/// Clones share it. When the last one is gone, what waits is written and the file is closed.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    writer: Writer,
    durability: Durability,
    path: PathBuf,
    id: String,
    redacts: bool,
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
        disk: Box<dyn Disk>,
        (id, path): (&str, &Path),
        (length, next): (u64, u64),
        options: Options,
    ) -> std::io::Result<Journal> {
        let (durability, redacts) = (options.durability, !options.redactor.is_empty());
        let writer = Writer::start(disk, length, next, options.redactor)?;
        let (path, id) = (path.to_owned(), id.to_owned());
        Ok(Journal(Arc::new(Inner { writer, durability, path, id, redacts })))
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
        self.0.writer.put(Job::Record(record), Until::Queued).map(drop).map_err(failed)
    }

    /// Notes what the conversation has from the place `from` on; returns at once.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub fn items(&self, from: usize, items: &[Value]) -> Result<(), RecordError> {
        let is_short = items.iter().map(weight).sum::<usize>() <= CLONED_BYTES_MAX;
        if is_short || self.0.redacts {
            return self.note(Record::Items { from, items: items.to_vec() });
        }
        // A long one exists once more, and not twice.
        let mut json = format!("\"is\":\"items\",\"from\":{from},\"items\":").into_bytes();
        serde_json::to_writer(&mut json, items).map_err(|error| failed(error.to_string()))?;
        json.push(b'}');
        self.0.writer.put(Job::Json(json), Until::Queued).map(drop).map_err(failed)
    }

    /// Notes the calls of a turn that were not run: the recorder is told of the others.
    ///
    /// # Errors
    /// The journal can't be written now.
    pub fn refused<'a>(
        &self,
        agent: &str,
        calls: impl IntoIterator<Item = (&'a ToolCall, &'a ToolResult)>,
    ) -> Result<(), RecordError> {
        for (call, result) in calls {
            let Some(error) = result.error().filter(|error| !error.kind().began()) else { continue };
            self.note(Record::Refused(Box::new(RefusedRecord {
                agent: agent.to_owned(),
                call: call.id.to_string(),
                tool: call.name.to_string(),
                input: match &call.input {
                    CallInput::Value(value) => value.clone(),
                    CallInput::Text(text) => {
                        serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into())
                    }
                },
                kind: word(error.kind()),
                why: error.message().to_owned(),
            })))?;
        }
        Ok(())
    }

    /// Returns when everything that was noted is as safe as this journal makes it: at the end of a turn.
    ///
    /// # Errors
    /// It is not.
    pub async fn settle(&self) -> Result<(), RecordError> {
        let until = if self.0.durability == Durability::Off { Until::Written } else { Until::Synced };
        self.put(Job::Record(Record::note("turn")), until).await
    }

    /// Writes what waits, and takes no more.
    ///
    /// # Errors
    /// Something could not be written.
    pub fn close(&self) -> Result<(), RecordError> {
        self.0.writer.close().map_err(failed)
    }

    async fn put(&self, job: Job, until: Until) -> Result<(), RecordError> {
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
                (true, Durability::Off) => Until::Written,
                (true, _) | (false, Durability::Call) => Until::Synced,
                (false, _) => Until::Queued,
            };
            self.put(Job::Intent(Box::new(IntentRecord::of(intent)), paths), until).await
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
            let until = match self.0.durability {
                Durability::Call => Until::Synced,
                _ => Until::Queued,
            };
            let job = Job::Outcome {
                agent: intent.agent.to_owned(),
                turn: intent.turn,
                ended,
                with_result: intent.side_effects,
                result: result.clone(),
            };
            self.put(job, until).await
        })
    }
}
