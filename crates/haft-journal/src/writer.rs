//! The thread that writes: everything that waits goes to the disk in one piece, with one sync for all who need it.
//!
//! Whoever notes something hands over a value that is cheap to clone; looking at files, hashing, JSON and the disk are
//! this thread's work. A write that failed is undone by cutting the file to the last whole line, and may be tried again: a
//! full disk can have room later. A *sync* that failed can't: the kernel may have dropped what it couldn't write, so
//! nothing that follows could be trusted, and the journal takes no more.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::ToolResult;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::disk::{self, Disk};
use crate::limits::{LINE_BYTES_MAX, LOOKED_FILES_MAX, QUEUE_BYTES_MAX};
use crate::line;
use crate::record::{IntentRecord, OutcomeRecord, Record, Stamped};
use crate::redact::Redactor;

/// Something to write.
pub(crate) enum Job {
    Record(Record),
    /// A record that is large, as JSON without its number and time: `"is":…}`.
    Json(Vec<u8>),
    /// An intent, and the files that are looked at first.
    Intent(Box<IntentRecord>, Vec<std::path::PathBuf>),
    Outcome {
        agent: String,
        turn: u64,
        /// In microseconds since 1970.
        ended: u64,
        with_result: bool,
        result: ToolResult,
    },
}

/// When something counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Until {
    /// It is in the queue.
    Queued,
    /// The system has it; it survives this process.
    Written,
    /// The disk has it; it survives a power failure.
    Synced,
}

struct Waiting {
    job: Job,
    bytes: usize,
    until: Until,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Waiting>,
    bytes: usize,
    closed: bool,
    /// What is wrong, if the last write failed.
    trouble: Option<String>,
}

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The lock guards plain values; a panic between two of them leaves nothing half done.
        self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The writing thread, and the way to it.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts to write at the end of this file, which has `length` bytes and `next` whole lines.
    pub(crate) fn start(
        disk: Box<dyn Disk>,
        length: u64,
        next: u64,
        redactor: Redactor,
    ) -> std::io::Result<Writer> {
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new() });
        let pen =
            Pen { shared: shared.clone(), disk, length, next, redactor, lost: None, unwritten: Vec::new() };
        let thread =
            std::thread::Builder::new().name("haft-journal".to_owned()).spawn(move || pen.write())?;
        Ok(Writer { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Queues a job; what is returned tells when it is as safe as was asked for.
    pub(crate) fn put(
        &self,
        job: Job,
        until: Until,
    ) -> Result<Option<oneshot::Receiver<Result<(), String>>>, String> {
        let bytes = size(&job);
        let (done, receiver) = match until {
            Until::Queued => (None, None),
            _ => {
                let (done, receiver) = oneshot::channel();
                (Some(done), Some(receiver))
            }
        };
        let mut queue = self.shared.queue();
        if queue.closed {
            return Err("the journal is closed".to_owned());
        }
        if queue.bytes + bytes > QUEUE_BYTES_MAX {
            return Err(format!("the disk doesn't keep up: {} bytes wait for it", queue.bytes));
        }
        if until == Until::Queued
            && let Some(trouble) = &queue.trouble
        {
            return Err(trouble.clone());
        }
        queue.bytes += bytes;
        queue.jobs.push_back(Waiting { job, bytes, until, done });
        drop(queue);
        self.shared.wake.notify_one();
        Ok(receiver)
    }

    /// Writes what waits, and ends.
    pub(crate) fn close(&self) -> Result<(), String> {
        self.shared.queue().closed = true;
        self.shared.wake.notify_one();
        let thread = self.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            return Err("the journal's thread panicked".to_owned());
        }
        self.shared.queue().trouble.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// What the thread has.
struct Pen {
    shared: Arc<Shared>,
    disk: Box<dyn Disk>,
    /// Up to here there are whole lines.
    length: u64,
    /// The number of the next line.
    next: u64,
    redactor: Redactor,
    /// Why nothing can be written any more.
    lost: Option<String>,
    /// What could not be written and still has to be; whether nobody waits for it, which is so for all of them.
    unwritten: Vec<(bool, Entry)>,
}

impl Pen {
    fn write(mut self) {
        loop {
            let (jobs, closed) = {
                let mut queue = self.shared.queue();
                while queue.jobs.is_empty() && !queue.closed {
                    queue = self.shared.wake.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner);
                }
                (std::mem::take(&mut queue.jobs), queue.closed)
            };
            if jobs.is_empty() && closed && self.unwritten.is_empty() {
                return;
            }
            let last = jobs.is_empty();
            let bytes: usize = jobs.iter().map(|waiting| waiting.bytes).sum();
            let sync = closed || jobs.iter().any(|waiting| waiting.until == Until::Synced);
            let mut done = Vec::with_capacity(jobs.len());
            let written = self.all(jobs, sync, &mut done);
            {
                let mut queue = self.shared.queue();
                queue.bytes -= bytes;
                queue.trouble = written.clone().err();
            }
            for done in done {
                // Nobody may be waiting any more.
                let _ = done.send(written.clone());
            }
            if last {
                // It was tried once more, and that was all.
                return;
            }
        }
    }

    /// Writes all or nothing of it. What nobody waits for is kept and written first the next time; whoever waits is told,
    /// and what they wanted to do is not done.
    fn all(
        &mut self,
        jobs: VecDeque<Waiting>,
        sync: bool,
        done: &mut Vec<oneshot::Sender<Result<(), String>>>,
    ) -> Result<(), String> {
        let mut entries = std::mem::take(&mut self.unwritten);
        for waiting in jobs {
            let keeps = waiting.done.is_none();
            done.extend(waiting.done);
            entries.push((keeps, Entry::of(waiting.job, &self.redactor)));
        }
        let written = self.append(&entries, sync);
        if written.is_err() {
            self.unwritten = entries.into_iter().filter(|(keeps, _)| *keeps).collect();
            let bytes: usize = self.unwritten.iter().map(|(_, entry)| entry.size()).sum();
            if bytes > QUEUE_BYTES_MAX {
                self.lost =
                    Some("the journal could not be written for too long; it takes no more".to_owned());
                self.unwritten.clear();
            }
        }
        written
    }

    fn append(&mut self, entries: &[(bool, Entry)], sync: bool) -> Result<(), String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let mut next = self.next;
        let mut length = 0;
        let mut lines = Vec::new();
        let mut appended = Ok(());
        for (_, entry) in entries {
            match entry {
                Entry::Json(rest) => {
                    // As it is, without another copy.
                    let head = format!("{{\"n\":{next},\"at\":{},", now());
                    lines.extend_from_slice(&line::sum_of(head.as_bytes(), rest));
                    lines.extend_from_slice(head.as_bytes());
                    length += lines.len() + rest.len();
                    appended = self.disk.append(&lines).and_then(|()| self.disk.append(rest));
                    lines.clear();
                    lines.push(b'\n');
                }
                Entry::Record(record) => {
                    let stamped = Line { n: next, at: now(), record };
                    let json = serde_json::to_vec(&stamped).expect("records have text keys");
                    if json.len() > LINE_BYTES_MAX {
                        let note =
                            Record::note(format!("a record of {} bytes was too long to keep", json.len()));
                        let stamped = Stamped { n: next, at: now(), record: note };
                        line::put(&mut lines, &serde_json::to_vec(&stamped).expect("records have text keys"));
                    } else {
                        line::put(&mut lines, &json);
                    }
                }
            }
            next += 1;
            if appended.is_err() {
                break;
            }
        }
        length += lines.len();
        if let Err(error) = appended.and_then(|()| self.disk.append(&lines)) {
            if let Err(worse) = self.disk.cut(self.length) {
                self.lost = Some(format!("the journal could not be written ({error}) nor mended ({worse})"));
            }
            return Err(format!("the journal could not be written: {error}"));
        }
        self.length += length as u64;
        self.next = next;
        if sync && let Err(error) = self.disk.sync() {
            let words =
                format!("the journal's disk failed: {error}; what it has is in doubt, so it takes no more");
            self.lost = Some(words.clone());
            return Err(words);
        }
        Ok(())
    }
}

/// What becomes a line.
enum Entry {
    /// Without its number and time: `"is":…}`.
    Json(Vec<u8>),
    Record(Value),
}

/// A line with its record as JSON.
#[derive(serde::Serialize)]
struct Line<'a> {
    n: u64,
    at: u64,
    #[serde(flatten)]
    record: &'a Value,
}

impl Entry {
    fn of(job: Job, redactor: &Redactor) -> Entry {
        if let Job::Json(json) = job {
            return Entry::Json(json);
        }
        let mut value = serde_json::to_value(record(job)).expect("records have text keys");
        redactor.clean(&mut value);
        Entry::Record(value)
    }

    fn size(&self) -> usize {
        match self {
            Entry::Json(json) => json.len(),
            Entry::Record(value) => weight(value),
        }
    }
}

/// The record of a job, with what has to be looked at for it.
fn record(job: Job) -> Record {
    match job {
        Job::Record(record) => record,
        Job::Json(_) => unreachable!("it is written as it is"),
        Job::Intent(mut intent, paths) => {
            intent.digest = disk::sha256(&serde_json::to_vec(&intent.input).unwrap_or_default());
            intent.files = paths.iter().take(LOOKED_FILES_MAX).map(|path| disk::look(path)).collect();
            Record::Intent(intent)
        }
        Job::Outcome { agent, turn, ended, with_result, result } => {
            Record::Outcome(Box::new(OutcomeRecord::of(agent, turn, (ended, with_result), &result)))
        }
    }
}

/// About what a job takes while it waits.
fn size(job: &Job) -> usize {
    const REST: usize = 512;
    REST + match job {
        Job::Record(Record::Items { items, .. } | Record::Reply { items, .. }) => {
            items.iter().map(weight).sum()
        }
        Job::Json(json) => json.len(),
        Job::Record(_) => 0,
        Job::Outcome { result, .. } => result.for_model().iter().map(size_of_block).sum(),
        Job::Intent(intent, _) => weight(&intent.input),
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

pub(crate) fn weight(value: &serde_json::Value) -> usize {
    use serde_json::Value;
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
