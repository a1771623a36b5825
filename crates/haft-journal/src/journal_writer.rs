//! Who writes, and when: everything that waits goes to the disk in one piece, with one sync for all who need it.
//!
//! There is one [`LineAppender`]. Who brings something that has to be there now takes it, if it is free and the disk was quick the
//! last time, and writes in the place: to wake another thread and be woken by it costs as much as a quick disk does. In
//! every other case it is the journal's own thread that writes, and who waits is told: a slow disk holds up nobody else.
//! Behind that, the thread looks after what nobody waits for: what calls that change nothing leave waits for company, a
//! moment at most, so that fifty of them are one write. What left the queue did so under the pen: lines are in the order
//! in which they were noted.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use haft::sync::lock;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::journal_disk::{self, JournalDisk};
use crate::limits::{LOOKED_FILES_MAX, QUEUE_BYTES_MAX};
use crate::line_appender::{LineAppender, PendingLine};
use crate::record_encoding::{self, OutcomeFields};
use crate::secret_redactor::SecretRedactor;

/// How long records that may be lost with the process wait for company, and how long what was settled waits for the next
/// sync before it gets one of its own, if nothing else is noted.
const PAUSE: Duration = Duration::from_millis(10);
/// How long what was settled waits for a sync at most, whatever is noted meanwhile.
const UNSYNCED_MAX: Duration = Duration::from_millis(50);
/// The same while the journal can't be written: what is kept until it can be is tried again so often.
const PAUSE_IN_TROUBLE: Duration = Duration::from_secs(1);
/// How much is written in the place, without another thread, in bytes.
const LIGHT_BYTES_MAX: usize = 128 * 1024;
/// How many files are looked at in the place, and how long the longest of them is.
const LIGHT_FILES_MAX: usize = 4;
const LIGHT_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Something to write.
pub(crate) enum WriteRequest {
    /// A record as JSON, as [`encode`] makes it.
    Json(Vec<u8>),
    /// What the conversation has from a place on.
    Items(usize, Vec<Value>),
    /// An intent without its end, and the files that are looked at first.
    Intent(Vec<u8>, Vec<PathBuf>),
    Outcome(OutcomeFields),
}

/// When something counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WriteCompletion {
    /// It is in the queue, and waits there for what follows, a moment at most: it may be lost with the process. Not taken
    /// while the journal can't be written.
    Idle,
    /// The same, and it is kept until it can be written.
    Queued,
    /// The same; and once it is written the disk has it with the next sync, or after a moment in which nothing else is to
    /// be written.
    Over,
    /// It goes to the system now; if somebody else writes just then, soon.
    Passed,
    /// The system has it; it survives this process.
    Written,
    /// The same; and the disk has it with the next sync, or after a moment in which nothing else is to be written.
    Settled,
    /// The disk has it; it survives a power failure.
    Synced,
}

struct WaitingLines {
    job: WriteRequest,
    /// When it was noted, in milliseconds since 1970.
    at: u64,
    bytes: usize,
    until: WriteCompletion,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Default)]
struct WriteQueue {
    jobs: VecDeque<WaitingLines>,
    bytes: usize,
    /// How many jobs there were, to see that none came for a while.
    count: u64,
    /// Whether something among the jobs doesn't wait for what follows.
    urgent: bool,
    /// Since when something that was settled is not on the disk.
    unsynced: Option<Instant>,
    /// The thread sleeps until it is woken.
    asleep: bool,
    closed: bool,
    /// What is wrong, if the last write failed.
    trouble: Option<String>,
}

impl WriteQueue {
    /// Whether something that was settled has waited long enough for a sync.
    fn is_late(&self) -> bool {
        self.unsynced.is_some_and(|since| since.elapsed() >= UNSYNCED_MAX)
    }
}

struct SharedWriter {
    queue: Mutex<WriteQueue>,
    /// Taken before the queue, never while that is held.
    pen: Mutex<LineAppender>,
    wake: Condvar,
}

impl SharedWriter {
    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        // The lock guards plain values; a panic between two of them leaves nothing half done.
        lock(&self.queue)
    }

    fn pen(&self) -> MutexGuard<'_, LineAppender> {
        self.pen.lock().unwrap_or_else(|poisoned| dropped(poisoned.into_inner()))
    }

    /// The pen, if nobody has it.
    fn free_pen(&self) -> Option<MutexGuard<'_, LineAppender>> {
        match self.pen.try_lock() {
            Ok(pen) => Some(pen),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(poisoned)) => Some(dropped(poisoned.into_inner())),
        }
    }

    /// Writes everything that waits, and last what is brought.
    fn write(
        &self,
        pen: &mut LineAppender,
        brought: Option<WaitingLines>,
        mut syncs: bool,
    ) -> Result<(), String> {
        let mut jobs = {
            let mut queue = self.queue();
            queue.urgent = false;
            std::mem::take(&mut queue.jobs)
        };
        let waited: usize = jobs.iter().map(|waiting| waiting.bytes).sum();
        jobs.extend(brought);
        let settles = jobs
            .iter()
            .any(|waiting| matches!(waiting.until, WriteCompletion::Over | WriteCompletion::Settled));
        syncs |= jobs.iter().any(|waiting| waiting.until == WriteCompletion::Synced);
        let mut done = Vec::new();
        let entries = jobs.into_iter().map(|waiting| {
            done.extend(waiting.done);
            PendingLine {
                json: json(waiting.job),
                at: waiting.at,
                keeps: waiting.until <= WriteCompletion::Passed,
            }
        });
        let written = pen.write(entries, syncs);
        {
            let mut queue = self.queue();
            queue.bytes -= waited;
            let is_over = (syncs && written.is_ok()) || pen.is_lost();
            if settles {
                queue.unsynced.get_or_insert_with(Instant::now);
            }
            queue.unsynced.take_if(|_| is_over);
            queue.trouble = written.clone().err();
        }
        for done in done {
            // Nobody may be waiting any more.
            let _ = done.send(written.clone());
        }
        written
    }

    /// Waits until there is something to do: to write, or to sync what was settled. Says whether it was the last time.
    fn next(&self) -> bool {
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
            let pause = if queue.trouble.is_some() { PAUSE_IN_TROUBLE } else { PAUSE };
            let waited = self.wake.wait_timeout_while(queue, pause, calm);
            let passed;
            (queue, passed) = waited.unwrap_or_else(PoisonError::into_inner);
            let quiet = passed.timed_out() && queue.count == count;
            let is_time = passed.timed_out() && (!queue.jobs.is_empty() || queue.is_late());
            if is_time || (quiet && queue.unsynced.is_some()) {
                return queue.closed;
            }
            queue.asleep = quiet;
        }
    }

    /// Whether what has to be there now may be written in the place: not if much waits before it, or something that was left
    /// to the thread; nor if it is too late.
    fn takes_here(&self, until: WriteCompletion) -> bool {
        let mut queue = self.queue();
        if queue.closed || queue.urgent || queue.bytes > LIGHT_BYTES_MAX {
            return false;
        }
        queue.count += 1;
        // What is settled is synced by the thread.
        if until == WriteCompletion::Settled && std::mem::take(&mut queue.asleep) {
            self.wake.notify_one();
        }
        true
    }

    /// What the thread does.
    fn run(&self) {
        loop {
            let last = self.next();
            let mut pen = self.pen();
            if last {
                pen.end();
            }
            // What can't be written the last time is tried once more, and that is all.
            for _ in 0..1 + usize::from(last) {
                let (empty, unsynced, is_late) = {
                    let queue = self.queue();
                    let empty = queue.jobs.is_empty() && !(last && pen.has_unwritten());
                    (empty, queue.unsynced.is_some(), queue.is_late())
                };
                if !empty || unsynced {
                    // Who waits is told, and all others by the trouble that is noted.
                    let _ = self.write(&mut pen, None, last || empty || is_late);
                }
            }
            if last {
                return;
            }
        }
    }
}

/// The pen of somebody who panicked while they wrote: nobody knows what is in the file.
fn dropped(mut pen: MutexGuard<'_, LineAppender>) -> MutexGuard<'_, LineAppender> {
    pen.lose("the journal was left in the middle of a write; it takes no more");
    pen
}

/// The way to the pen, and the thread that has it when nobody else does.
pub(crate) struct JournalWriter {
    shared: Arc<SharedWriter>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl JournalWriter {
    /// Starts to write at the end of this file, which has `length` bytes and `next` whole lines.
    ///
    /// With `safe`, the place of the file itself is made safe soon.
    pub(crate) fn start(
        disk: Box<dyn JournalDisk>,
        at: (u64, u64),
        redactor: SecretRedactor,
        safe: bool,
    ) -> std::io::Result<JournalWriter> {
        let queue = WriteQueue { unsynced: safe.then(Instant::now), ..WriteQueue::default() };
        let pen = LineAppender::at(disk, at, redactor);
        let shared =
            Arc::new(SharedWriter { queue: Mutex::new(queue), pen: Mutex::new(pen), wake: Condvar::new() });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("haft-journal".to_owned()).spawn(move || own.run())?;
        Ok(JournalWriter { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Takes a job; what is returned tells when it is as safe as was asked for. Nothing is, if it is already.
    pub(crate) fn put(
        &self,
        job: WriteRequest,
        until: WriteCompletion,
    ) -> Result<Option<oneshot::Receiver<Result<(), String>>>, String> {
        let bytes = size(&job);
        let mut waiting = WaitingLines { job, at: now(), bytes, until, done: None };
        let syncs = until == WriteCompletion::Synced;
        let here = until >= WriteCompletion::Passed && bytes <= LIGHT_BYTES_MAX && is_light(&waiting.job);
        if here
            && let Some(mut pen) = self.shared.free_pen()
            && pen.is_quick(syncs)
            && self.shared.takes_here(until)
        {
            return self.shared.write(&mut pen, Some(waiting), false).map(|()| None);
        }
        let mut receiver = None;
        if until > WriteCompletion::Passed {
            let (done, told) = oneshot::channel();
            (waiting.done, receiver) = (Some(done), Some(told));
        }
        let mut queue = self.shared.queue();
        if queue.closed {
            return Err("the journal is closed".to_owned());
        }
        if queue.bytes + bytes > QUEUE_BYTES_MAX {
            return Err(format!("the disk doesn't keep up: {} bytes wait for it", queue.bytes));
        }
        let trouble = queue.trouble.clone().filter(|_| until <= WriteCompletion::Passed);
        if let (WriteCompletion::Idle, Some(trouble)) = (until, &trouble) {
            return Err(trouble.clone());
        }
        queue.bytes += bytes;
        queue.count += 1;
        // Whoever begins to wait wakes the thread, and so does the first after a while; those between cost nothing.
        let wakes = std::mem::take(&mut queue.asleep) || (until >= WriteCompletion::Passed && !queue.urgent);
        queue.urgent |= until >= WriteCompletion::Passed;
        queue.jobs.push_back(waiting);
        drop(queue);
        if wakes {
            self.shared.wake.notify_one();
        }
        // It is tried all the same: the disk may have room by now, and a conversation has no holes.
        trouble.map_or(Ok(receiver), Err)
    }

    /// Writes what waits, and ends.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.shared.queue().closed = true;
        self.shared.wake.notify_one();
        let thread = lock(&self.thread).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            return Err("the journal's thread panicked".to_owned());
        }
        self.shared.pen().release();
        self.shared.queue().trouble.clone().map_or(Ok(()), Err)
    }
}

impl Drop for JournalWriter {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// The JSON of a job, with what has to be looked at for it.
fn json(job: WriteRequest) -> Vec<u8> {
    match job {
        WriteRequest::Json(json) => json,
        WriteRequest::Items(from, items) => record_encoding::items(from, &items),
        WriteRequest::Intent(mut json, paths) => {
            let files: Vec<_> =
                paths.iter().take(LOOKED_FILES_MAX).map(|path| journal_disk::look(path)).collect();
            record_encoding::files(&mut json, &files);
            json
        }
        WriteRequest::Outcome(ended) => record_encoding::outcome(&ended),
    }
}

/// Whether a job's JSON is made in no time: files that are looked at are few and short.
fn is_light(job: &WriteRequest) -> bool {
    let short = |path: &PathBuf| {
        std::fs::symlink_metadata(path)
            .map_or(true, |meta| !meta.is_file() || meta.len() <= LIGHT_FILE_BYTES_MAX)
    };
    match job {
        WriteRequest::Intent(_, paths) => paths.len() <= LIGHT_FILES_MAX && paths.iter().all(short),
        _ => true,
    }
}

/// About what a job takes while it waits.
fn size(job: &WriteRequest) -> usize {
    const REST: usize = 512;
    REST + match job {
        WriteRequest::Json(json) | WriteRequest::Intent(json, _) => json.len(),
        WriteRequest::Items(_, items) => items.iter().map(weight).sum(),
        WriteRequest::Outcome(ended) => ended.result.for_model().iter().map(size_of_block).sum(),
    }
}

fn size_of_block(block: &haft::Content) -> usize {
    match block {
        haft::Content::Text(text) => text.len(),
        haft::Content::Image(blob) | haft::Content::Document(blob) => blob.bytes.len() * 4 / 3,
        haft::Content::Structured(value) => weight(value),
        _ => 0,
    }
}

/// About how long a value is as JSON, in bytes.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + items.len() * 16,
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value) + 32).sum(),
        _ => 16,
    }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
