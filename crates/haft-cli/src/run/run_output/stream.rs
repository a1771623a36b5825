//! Events as JSON, one a line, written by a thread of its own.
//!
//! A reader sets the pace: when it is thousands of lines behind, the run waits for it, so that nothing is
//! lost and nothing piles up. A reader who is gone ends the run, since nobody would know what else it does.

use haft::sync::lock;
use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use haft_agent::{RunEvent, RunHandle, RunSink};
use serde_json::Value;

use super::{json_line, plain};
use crate::ExitStatus;
use crate::output;

/// How many lines may wait to be written.
const LINES_MAX: usize = 10_000;
/// How many bytes are written at once, if so many wait.
const BATCH_BYTES: usize = 64 * 1024;

/// A stream of events on standard output.
pub(crate) struct EventStream {
    writing: Mutex<Option<StreamWriter>>,
    lines: SyncSender<String>,
}

struct StreamWriter {
    last: SyncSender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl EventStream {
    /// Begins to write. If the reader goes away, the run is interrupted.
    pub(super) fn start(run: RunHandle) -> EventStream {
        let (lines, waiting) = sync_channel(LINES_MAX);
        let write = move || {
            let written = write_lines(&waiting);
            if written.is_err() {
                run.interrupt();
            }
            written
        };
        let thread = std::thread::Builder::new().name("haft-stream".into()).spawn(write);
        let last = lines.clone();
        EventStream { writing: Mutex::new(thread.ok().map(|thread| StreamWriter { last, thread })), lines }
    }

    pub(super) fn line(&self, value: Value) {
        // Nobody takes it any more where the reader is gone.
        let _ = self.lines.send(json_line(value));
    }

    /// Writes the last line and waits until all are written.
    pub(super) fn end(&self, last: Value) -> Result<(), ExitStatus> {
        let writing = lock(&self.writing).take();
        let Some(writing) = writing else {
            output::print_error("standard output can't be written: no thread can be started");
            return Err(ExitStatus::Failed);
        };
        let _ = writing.last.send(json_line(last));
        // An empty line is the end: senders live as long as the engine, which may outlive this.
        let _ = writing.last.send(String::new());
        match writing.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                let reason = match error.kind() {
                    io::ErrorKind::BrokenPipe => "its reader is gone".to_owned(),
                    _ => error.to_string(),
                };
                output::print_error(&format!("standard output can't be written: {reason}"));
                Err(ExitStatus::Failed)
            }
            Err(_) => Err(ExitStatus::Failed),
        }
    }
}

impl RunSink for EventStream {
    fn send(&self, event: RunEvent) {
        if let RunEvent::Finishing { .. } = event {
            plain::print_notice(&event);
        }
        if let Some(value) = event.to_json() {
            self.line(value);
        }
    }
}

/// Writes lines until an empty one comes: whatever waits at once, in one go.
fn write_lines(waiting: &Receiver<String>) -> io::Result<()> {
    let mut batch = String::new();
    while let Ok(first) = waiting.recv() {
        let mut next = Some(first);
        while let Some(line) = next {
            if line.is_empty() {
                return flush_batch(&mut batch);
            }
            if line.len() > BATCH_BYTES {
                // A long one goes out as it is.
                flush_batch(&mut batch)?;
                output::write_bytes(line.as_bytes())?;
            } else {
                batch.push_str(&line);
            }
            batch.push('\n');
            next = if batch.len() < BATCH_BYTES { waiting.try_recv().ok() } else { None };
        }
        flush_batch(&mut batch)?;
    }
    flush_batch(&mut batch)
}

fn flush_batch(batch: &mut String) -> io::Result<()> {
    let written = output::write_bytes(batch.as_bytes());
    batch.clear();
    written
}
