//! Runtimes with threads, or a word about why there are none.
//!
//! Where the system gives no more threads, tokio panics in the middle of making a runtime, or waits for ever
//! for those that it has made already. So it is tried before: as many threads as are wanted, all at once, for
//! a moment.

use std::io;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};

use crate::UsageError;

/// The fewest worker threads: one for the calls, one for time limits while a call keeps the first busy.
const WORKERS_MIN: usize = 2;

/// A runtime for so many calls at once.
pub(crate) fn runtime_for_calls(calls: usize) -> Result<Runtime, UsageError> {
    let cores = std::thread::available_parallelism().map_or(WORKERS_MIN, usize::from);
    build_runtime(calls.saturating_add(1).min(cores).max(WORKERS_MIN))
}

/// A runtime on this thread, for what hardly ever waits.
pub(crate) fn single_threaded_runtime() -> Result<Runtime, UsageError> {
    let made = Builder::new_current_thread().enable_all().build();
    made.map_err(|error| UsageError(format!("no runtime can be started: {error}")))
}

/// A runtime with so many threads.
pub(crate) fn build_runtime(workers: usize) -> Result<Runtime, UsageError> {
    let made = room_for(workers)
        .and_then(|()| Builder::new_multi_thread().worker_threads(workers).enable_all().build());
    made.map_err(|error| UsageError(format!("no threads can be started: {error}")))
}

/// Whether so many threads can be there at once.
fn room_for(threads: usize) -> io::Result<()> {
    let mut tried = Vec::with_capacity(threads);
    let mut failed = None;
    for _ in 0..threads {
        let (end, ended) = mpsc::channel::<()>();
        match std::thread::Builder::new().spawn(move || {
            let _ = ended.recv();
        }) {
            Ok(thread) => tried.push((end, thread)),
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    for (end, thread) in tried {
        drop(end);
        // It does nothing that could fail.
        let _ = thread.join();
    }
    failed.map_or(Ok(()), Err)
}
