//! Events as JSON, one a line, written by a thread of its own.
//!
//! A reader sets the pace: when it is thousands of lines behind, the run waits for it, so that nothing is lost and
//! nothing piles up. A reader who is gone ends the run, since nobody would know what else it does.

use haft::sync::lock;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use haft_agent::{RunEvent, RunHandle, RunSink};
use serde_json::Value;

use super::{line, plain};
use crate::Exit;
use crate::output;

/// How many lines may wait to be written.
const LINES_MAX: usize = 10_000;
/// How many bytes are written at once, if so many wait.
const BATCH_BYTES: usize = 64 * 1024;

/// A stream of events on standard output.
pub(crate) struct Stream {
    writing: Mutex<Option<Writing>>,
    lines: SyncSender<String>,
}

struct Writing {
    last: SyncSender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl Stream {
    /// Begins to write. If the reader goes away, the run is interrupted.
    pub(super) fn start(run: RunHandle) -> Stream {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let write = move || {
            let written = write(&waiting);
            if written.is_err() {
                run.interrupt();
            }
            written
        };
        let thread = std::thread::Builder::new().name("haft-stream".into()).spawn(write);
        let last = lines.clone();
        Stream { writing: Mutex::new(thread.ok().map(|thread| Writing { last, thread })), lines }
    }

    pub(super) fn line(&self, value: Value) {
        // Nobody takes it any more where the reader is gone.
        let _ = self.lines.send(line(value));
    }

    /// Writes the last line and waits until all are written.
    pub(super) fn end(&self, last: Value) -> Result<(), Exit> {
        let writing = lock(&self.writing).take();
        let Some(writing) = writing else {
            output::error("standard output can't be written: no thread can be started");
            return Err(Exit::Failed);
        };
        let _ = writing.last.send(line(last));
        // An empty line is the end: senders live as long as the engine, which may outlive this.
        let _ = writing.last.send(String::new());
        match writing.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let reason = match error.kind() {
                    io::ErrorKind::BrokenPipe => "its reader is gone".to_owned(),
                    _ => error.to_string(),
                };
                output::error(&format!("standard output can't be written: {reason}"));
                Err(Exit::Failed)
            }
            Err(_) => Err(Exit::Failed),
        }
    }
}

impl RunSink for Stream {
    fn send(&self, event: RunEvent) {
        if let RunEvent::Finishing { .. } = event {
            plain::needed(&event);
        }
        if let Some(value) = event.to_json() {
            self.line(value);
        }
    }
}

/// Writes lines until an empty one comes: whatever waits at once, in one go.
fn write(waiting: &Receiver<String>) -> io::Result<()> {
    let mut batch = String::new();
    while let Ok(first) = waiting.recv() {
        let mut next = Some(first);
        while let Some(line) = next {
            if line.is_empty() {
                return flush(&mut batch);
            }
            if line.len() > BATCH_BYTES {
                // A long one goes out as it is.
                flush(&mut batch)?;
                output::bytes(line.as_bytes())?;
            } else {
                batch.push_str(&line);
            }
            batch.push('\n');
            next = if batch.len() < BATCH_BYTES { waiting.try_recv().ok() } else { None };
        }
        flush(&mut batch)?;
    }
    flush(&mut batch)
}

fn flush(batch: &mut String) -> io::Result<()> {
    let written = output::bytes(batch.as_bytes());
    batch.clear();
    written
}
