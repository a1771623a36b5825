//! Decides when records are written. All queued records are written together, with one fsync
//! for all waiting callers.
//!
//! The journal's own thread writes and notifies callers that wait, so a slow disk blocks no other task.
//! Records of calls without side effects are batched for a short delay, so that fifty of them are
//! one write.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haft::sync::lock;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::journal_disk::{self, JournalDisk};
use crate::limits::{FILES_PER_CALL_MAX, QUEUE_BYTES_MAX};
use crate::line_appender::{LineAppender, PendingLine};
use crate::record_encoding::{self, OutcomeFields};
use crate::secret_redactor::SecretRedactor;

/// How long records that a crash may lose are batched, and how long settled records wait for the
/// next fsync while no other record arrives.
const BATCH_DELAY: Duration = Duration::from_millis(10);
/// The longest time until settled records get an fsync.
const SYNC_DELAY_MAX: Duration = Duration::from_millis(50);
/// The interval of retries while the journal can't be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// A request to write a record.
pub(crate) enum WriteRequest {
    /// An encoded record from [`record_encoding`].
    Json(Vec<u8>),
    /// The items of the conversation from an index on.
    Items(usize, Vec<Value>),
    /// An unfinished intent, and the files to inspect before it is written.
    Intent(Vec<u8>, Vec<PathBuf>),
    Outcome(OutcomeFields),
}

/// When a request counts as complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteCompletion {
    /// Queued and batched for a short delay; a crash may lose it. Rejected while the journal can't
    /// be written.
    Idle,
    /// Like `Idle`, and retried until it is written.
    Queued,
    /// Like `Queued`; after the write, it is synced with the next fsync or after a short idle
    /// delay.
    TurnOver,
    /// Written now, or soon if another thread is writing.
    WriteSoon,
    /// Written: it survives a crash of this process.
    Written,
    /// Like `Written`, and synced with the next fsync or after a short idle delay.
    Settled,
    /// Synced: it survives a power failure.
    Synced,
}

struct QueuedRequest {
    request: WriteRequest,
    /// The time of the request, in milliseconds since 1970.
    at: u64,
    bytes: usize,
    until: WriteCompletion,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Default)]
struct WriteQueue {
    requests: VecDeque<QueuedRequest>,
    bytes: usize,
    /// The number of all requests so far, to detect idle periods.
    count: u64,
    /// Whether a queued request must be written without delay.
    urgent: bool,
    /// Since when settled records are not synced.
    unsynced: Option<Instant>,
    /// Whether the thread sleeps until it is notified.
    asleep: bool,
    closed: bool,
    /// The error of the last write, if it failed.
    last_error: Option<String>,
}

impl WriteQueue {
    /// Returns whether settled records have waited long enough for an fsync.
    fn is_sync_due(&self) -> bool {
        self.unsynced.is_some_and(|since| since.elapsed() >= SYNC_DELAY_MAX)
    }
}

struct SharedWriter {
    queue: Mutex<WriteQueue>,
    /// Locked before the queue, never while the queue is locked.
    appender: Mutex<LineAppender>,
    wake: Condvar,
}

impl SharedWriter {
    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        // A panic can't leave these plain values inconsistent.
        lock(&self.queue)
    }

    fn appender(&self) -> MutexGuard<'_, LineAppender> {
        self.appender.lock().unwrap_or_else(|poisoned| fail_poisoned(poisoned.into_inner()))
    }

    /// Writes all queued requests.
    fn write(&self, appender: &mut LineAppender, mut syncs: bool) -> Result<(), String> {
        let requests = {
            let mut queue = self.queue();
            queue.urgent = false;
            std::mem::take(&mut queue.requests)
        };
        let waited: usize = requests.iter().map(|waiting| waiting.bytes).sum();
        let settles = requests
            .iter()
            .any(|waiting| matches!(waiting.until, WriteCompletion::TurnOver | WriteCompletion::Settled));
        syncs |= requests.iter().any(|waiting| waiting.until == WriteCompletion::Synced);
        let mut done = Vec::new();
        let entries = requests.into_iter().map(|waiting| {
            done.extend(waiting.done);
            PendingLine {
                json: encode_request(waiting.request),
                at: waiting.at,
                retries: waiting.until <= WriteCompletion::WriteSoon,
            }
        });
        let written = appender.write(entries, syncs);
        {
            let mut queue = self.queue();
            queue.bytes -= waited;
            let is_over = (syncs && written.is_ok()) || appender.has_failed();
            if settles {
                queue.unsynced.get_or_insert_with(Instant::now);
            }
            queue.unsynced.take_if(|_| is_over);
            queue.last_error = written.clone().err();
        }
        for done in done {
            // The caller may have stopped waiting.
            let _ = done.send(written.clone());
        }
        written
    }

    /// Waits until records must be written or synced. Returns whether the journal is closing.
    fn wait_for_work(&self) -> bool {
        let mut queue = self.queue();
        loop {
            if queue.closed || queue.urgent {
                return queue.closed;
            }
            if queue.asleep {
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let count = queue.count;
            let calm = |queue: &mut WriteQueue| !queue.urgent && !queue.closed;
            let pause = if queue.last_error.is_some() { RETRY_INTERVAL } else { BATCH_DELAY };
            let waited = self.wake.wait_timeout_while(queue, pause, calm);
            let passed;
            (queue, passed) = waited.unwrap_or_else(PoisonError::into_inner);
            let quiet = passed.timed_out() && queue.count == count;
            let is_time = passed.timed_out() && (!queue.requests.is_empty() || queue.is_sync_due());
            if is_time || (quiet && queue.unsynced.is_some()) {
                return queue.closed;
            }
            queue.asleep = quiet;
        }
    }

    /// Runs the writer thread.
    fn run(&self) {
        loop {
            let last = self.wait_for_work();
            let mut appender = self.appender();
            if last {
                appender.finish();
            }
            // When the journal closes, a failed write is retried once.
            for _ in 0..1 + usize::from(last) {
                let (empty, unsynced, is_sync_due) = {
                    let queue = self.queue();
                    let empty = queue.requests.is_empty() && !(last && appender.has_unwritten());
                    (empty, queue.unsynced.is_some(), queue.is_sync_due())
                };
                if !empty || unsynced {
                    // Waiting callers get the error; later callers get `last_error`.
                    let _ = self.write(&mut appender, last || empty || is_sync_due);
                }
            }
            if last {
                return;
            }
        }
    }
}

/// Fails an appender whose thread panicked during a write: the contents of the file are unknown.
fn fail_poisoned(mut appender: MutexGuard<'_, LineAppender>) -> MutexGuard<'_, LineAppender> {
    appender.fail_permanently("the journal was left in the middle of a write and accepts no more records");
    appender
}

/// Submits records, and owns the thread that writes what callers don't write themselves.
pub(crate) struct JournalWriter {
    shared: Arc<SharedWriter>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl JournalWriter {
    /// Starts writing at the end of a file with `length` bytes and `next` complete lines.
    ///
    /// With `safe`, the directory entry of the file is synced soon.
    pub(crate) fn start(
        disk: Box<dyn JournalDisk>,
        at: (u64, u64),
        redactor: SecretRedactor,
        safe: bool,
    ) -> std::io::Result<JournalWriter> {
        let queue = WriteQueue { unsynced: safe.then(Instant::now), ..WriteQueue::default() };
        let appender = LineAppender::open_at(disk, at, redactor);
        let shared = Arc::new(SharedWriter {
            queue: Mutex::new(queue),
            appender: Mutex::new(appender),
            wake: Condvar::new(),
        });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("haft-journal".to_owned()).spawn(move || own.run())?;
        Ok(JournalWriter { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Submits a request. The returned receiver resolves when the request is complete; `None` means
    /// that it already is or that the caller doesn't wait.
    pub(crate) fn submit(
        &self,
        request: WriteRequest,
        until: WriteCompletion,
    ) -> Result<Option<oneshot::Receiver<Result<(), String>>>, String> {
        let bytes = queued_bytes(&request);
        let mut waiting = QueuedRequest { request, at: unix_millis_now(), bytes, until, done: None };
        let mut receiver = None;
        if until > WriteCompletion::WriteSoon {
            let (done, result) = oneshot::channel();
            (waiting.done, receiver) = (Some(done), Some(result));
        }
        let mut queue = self.shared.queue();
        if queue.closed {
            return Err("the journal is closed".to_owned());
        }
        if queue.bytes + bytes > QUEUE_BYTES_MAX {
            return Err(format!("the disk is too slow: {} bytes are queued", queue.bytes));
        }
        let last_error = queue.last_error.clone().filter(|_| until <= WriteCompletion::WriteSoon);
        if let (WriteCompletion::Idle, Some(last_error)) = (until, &last_error) {
            return Err(last_error.clone());
        }
        queue.bytes += bytes;
        queue.count += 1;
        // An urgent request wakes the thread unless another one did, and so does the first request
        // after an idle period. Requests in between wake nothing.
        let wakes_thread =
            std::mem::take(&mut queue.asleep) || (until >= WriteCompletion::WriteSoon && !queue.urgent);
        queue.urgent |= until >= WriteCompletion::WriteSoon;
        queue.requests.push_back(waiting);
        drop(queue);
        if wakes_thread {
            self.shared.wake.notify_one();
        }
        // The record is queued despite the error: the disk may have space by now, and a
        // conversation must not have gaps.
        last_error.map_or(Ok(receiver), Err)
    }

    /// Writes the queued records and stops the thread.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.shared.queue().closed = true;
        self.shared.wake.notify_one();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            return Err("the journal's thread panicked".to_owned());
        }
        self.shared.appender().unlock();
        self.shared.queue().last_error.clone().map_or(Ok(()), Err)
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// Encodes a request; inspects the files of an intent first.
fn encode_request(request: WriteRequest) -> Vec<u8> {
    match request {
        WriteRequest::Json(json) => json,
        WriteRequest::Items(from, items) => record_encoding::encode_items(from, &items),
        WriteRequest::Intent(mut json, paths) => {
            let files: Vec<_> =
                paths.iter().take(FILES_PER_CALL_MAX).map(|path| journal_disk::snapshot_file(path)).collect();
            record_encoding::append_files(&mut json, &files);
            json
        }
        WriteRequest::Outcome(outcome) => record_encoding::encode_outcome(&outcome),
    }
}

/// Estimates the memory of a queued request.
fn queued_bytes(request: &WriteRequest) -> usize {
    const REST: usize = 512;
    REST + match request {
        WriteRequest::Json(json) | WriteRequest::Intent(json, _) => json.len(),
        WriteRequest::Items(_, items) => items.iter().map(estimate_json_bytes).sum(),
        WriteRequest::Outcome(outcome) => outcome.result.for_model().iter().map(block_bytes).sum(),
    }
}

fn block_bytes(block: &haft::ResultBlock) -> usize {
    match block {
        haft::ResultBlock::Text(text) => text.len(),
        haft::ResultBlock::Image(blob) | haft::ResultBlock::Document(blob) => blob.bytes.len() * 4 / 3,
        haft::ResultBlock::Structured(value) => estimate_json_bytes(value),
        _ => 0,
    }
}

/// Estimates the length of a value as JSON, in bytes.
pub(crate) fn estimate_json_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(estimate_json_bytes).sum::<usize>() + items.len() * 16,
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| name.len() + estimate_json_bytes(value) + 32).sum()
        }
        _ => 16,
    }
}

fn unix_millis_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
