//! The thread that writes: everything that waits goes to the disk in one piece, with one sync for all who need it.
//!
//! Looking at files, the JSON of results and the disk are this thread's work. It is woken for what has to be there soon:
//! what calls that change nothing leave waits for that, or for a moment, so that fifty of them are one write. A write that failed is undone by cutting the file to the last whole line, and may be tried again: a
//! full disk can have room later. A *sync* that failed can't: the kernel may have dropped what it couldn't write, so
//! nothing that follows could be trusted, and the journal takes no more.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use crate::disk::{self, Disk};
use crate::encode::{self, Ended};
use crate::limits::{COPIED_BYTES_MAX, LINE_BYTES_MAX, LOOKED_FILES_MAX, QUEUE_BYTES_MAX};
use crate::line;
use crate::record::Record;
use crate::redact::Redactor;

/// How long records that may be lost with the process wait for company.
const IDLE_PAUSE: Duration = Duration::from_millis(10);
/// How long what was settled waits for the next sync before it gets one of its own.
const SETTLE_PAUSE: Duration = Duration::from_millis(25);

/// Something to write.
pub(crate) enum Job {
    /// A record as JSON, as [`encode`] makes it.
    Json(Vec<u8>),
    /// An intent without its end, and the files that are looked at first.
    Intent(Vec<u8>, Vec<PathBuf>),
    Outcome(Ended),
}

/// When something counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Until {
    /// It is in the queue, and waits there for what follows, a moment at most: it may be lost with the process.
    Idle,
    /// It is in the queue, and goes to the system as soon as can be.
    Queued,
    /// The system has it; it survives this process.
    Written,
    /// The same; and the disk has it with the next sync, or after a moment in which nothing else is to be written.
    Settled,
    /// The disk has it; it survives a power failure.
    Synced,
}

struct Waiting {
    job: Job,
    /// When it was noted, in milliseconds since 1970.
    at: u64,
    bytes: usize,
    until: Until,
    done: Option<oneshot::Sender<Result<(), String>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Waiting>,
    bytes: usize,
    /// Whether something among the jobs doesn't wait for what follows.
    urgent: bool,
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
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing thread, and the way to it.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Starts to write at the end of this file, which has `length` bytes and `next` whole lines.
    ///
    /// With `safe`, the place of the file itself is made safe first.
    pub(crate) fn start(
        disk: Box<dyn Disk>,
        (length, next): (u64, u64),
        redactor: Redactor,
        safe: bool,
    ) -> std::io::Result<Writer> {
        let shared = Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new() });
        let pen = Pen {
            shared: shared.clone(),
            disk,
            length,
            next,
            redactor,
            lost: None,
            unwritten: Vec::new(),
            unsynced: safe,
        };
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
            Until::Idle | Until::Queued => (None, None),
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
        let trouble = queue.trouble.clone().filter(|_| until <= Until::Queued);
        if let (Until::Idle, Some(trouble)) = (until, &trouble) {
            return Err(trouble.clone());
        }
        queue.bytes += bytes;
        // Whoever begins to wait wakes the thread, and so does the first who can't; those between cost nothing.
        let wakes = queue.jobs.is_empty() || (until > Until::Idle && !queue.urgent);
        queue.urgent |= until > Until::Idle;
        queue.jobs.push_back(Waiting { job, at: now(), bytes, until, done });
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
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    /// What could not be written and still has to be: nobody waits for it.
    unwritten: Vec<Entry>,
    /// Something that was settled is not on the disk yet.
    unsynced: bool,
}

impl Pen {
    fn write(mut self) {
        loop {
            let (jobs, closed) = self.next_jobs();
            let last = closed && jobs.is_empty();
            if last && self.unwritten.is_empty() && !self.unsynced {
                return;
            }
            let bytes: usize = jobs.iter().map(|waiting| waiting.bytes).sum();
            // Without jobs it is time for what was settled.
            let sync = closed || jobs.is_empty() || jobs.iter().any(|waiting| waiting.until == Until::Synced);
            self.unsynced |= jobs.iter().any(|waiting| waiting.until == Until::Settled);
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

    /// Waits for something to write; nothing if it is time to sync. Says too whether there will be no more.
    fn next_jobs(&self) -> (VecDeque<Waiting>, bool) {
        let woken = |queue: &mut Queue| !queue.urgent && !queue.closed;
        let mut queue = self.shared.queue();
        if self.unsynced {
            let quiet = |queue: &mut Queue| queue.jobs.is_empty() && !queue.closed;
            let waited = self.shared.wake.wait_timeout_while(queue, SETTLE_PAUSE, quiet);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            if queue.jobs.is_empty() {
                return (VecDeque::new(), queue.closed);
            }
        }
        while queue.jobs.is_empty() && !queue.closed {
            queue = self.shared.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        let waited = self.shared.wake.wait_timeout_while(queue, IDLE_PAUSE, woken);
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        queue.urgent = false;
        (std::mem::take(&mut queue.jobs), queue.closed)
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
            let json = self.redactor.clean_json(json(waiting.job));
            entries.push(Entry { json, at: waiting.at, keeps });
        }
        let written = self.append(&entries, sync);
        if written.is_err() {
            self.unwritten = entries.into_iter().filter(|entry| entry.keeps).collect();
            let bytes: usize = self.unwritten.iter().map(|entry| entry.json.len()).sum();
            if bytes > QUEUE_BYTES_MAX && self.lost.is_none() {
                self.lost =
                    Some("the journal could not be written for too long; it takes no more".to_owned());
            }
            if self.lost.is_some() {
                self.unwritten.clear();
            }
        }
        written
    }

    fn append(&mut self, entries: &[Entry], sync: bool) -> Result<(), String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        let mut next = self.next;
        let mut length = 0;
        let mut lines = Vec::new();
        let mut appended = Ok(());
        for entry in entries {
            let stamp = (next, entry.at);
            match entry.json.len() {
                // As it is, without another copy.
                bytes if (COPIED_BYTES_MAX..=LINE_BYTES_MAX).contains(&bytes) => {
                    line::begin(&mut lines, stamp, &entry.json);
                    length += lines.len() + bytes;
                    appended = self.disk.append(&lines).and_then(|()| self.disk.append(&entry.json));
                    lines.clear();
                    lines.push(b'\n');
                }
                bytes if bytes > LINE_BYTES_MAX => {
                    let note = Record::note(format!("a record of {bytes} bytes was too long to keep"));
                    line::put(&mut lines, stamp, &encode::record(&note));
                }
                _ => line::put(&mut lines, stamp, &entry.json),
            }
            next += 1;
            if appended.is_err() {
                break;
            }
        }
        length += lines.len();
        if !lines.is_empty() {
            appended = appended.and_then(|()| self.disk.append(&lines));
        }
        if let Err(error) = appended {
            if let Err(worse) = self.disk.cut(self.length) {
                self.lost = Some(format!("the journal could not be written ({error}) nor mended ({worse})"));
            }
            return Err(format!("the journal could not be written: {error}"));
        }
        self.length += length as u64;
        self.next = next;
        if sync {
            self.unsynced = false;
        }
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
struct Entry {
    json: Vec<u8>,
    at: u64,
    /// Whether nobody waits for it, so that it is kept when it can't be written.
    keeps: bool,
}

/// The JSON of a job, with what has to be looked at for it.
fn json(job: Job) -> Vec<u8> {
    match job {
        Job::Json(json) => json,
        Job::Intent(mut json, paths) => {
            let files: Vec<_> = paths.iter().take(LOOKED_FILES_MAX).map(|path| disk::look(path)).collect();
            encode::files(&mut json, &files);
            json
        }
        Job::Outcome(ended) => encode::outcome(&ended),
    }
}

/// About what a job takes while it waits.
fn size(job: &Job) -> usize {
    const REST: usize = 512;
    REST + match job {
        Job::Json(json) | Job::Intent(json, _) => json.len(),
        Job::Outcome(ended) => ended.result.for_model().iter().map(size_of_block).sum(),
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

fn weight(value: &serde_json::Value) -> usize {
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
