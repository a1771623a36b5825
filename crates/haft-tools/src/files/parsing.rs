//! Libraries that parse what strangers wrote: with room, within a time, and never with a panic.
//!
//! The work runs on a thread of its own with a large stack, so that deep nesting is an error of the library's and not the end
//! of the process. Nothing can stop a thread: one that takes too long is answered for and goes on until it next looks at
//! the flag that it was given. As many as [`RUNNING_MAX`] run at once; more are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use haft::ToolError;

/// How long a file may take.
const TIME_MAX: Duration = Duration::from_secs(60);
/// The stack of the thread; memory is only used as far as it is needed.
const STACK_BYTES: usize = 64 * 1024 * 1024;
/// Files that are parsed at once.
const RUNNING_MAX: usize = 32;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

struct Running;

impl Running {
    fn begin() -> Option<Running> {
        let more = |running: usize| (running < RUNNING_MAX).then_some(running + 1);
        RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Tells the work to stop when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on `what`, which names the file in errors.
///
/// # Cancel safety
/// Dropping the future sets the flag that the work was given.
pub(crate) async fn parsing<T: Send + 'static>(
    what: &str,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let Some(running) = Running::begin() else {
        let words = format!("{what} can't be read now: {RUNNING_MAX} others are being read; try again");
        return Err(ToolError::new(words).retryable());
    };
    let stop = StopOnDrop(Arc::default());
    let flag = stop.0.clone();
    let (done, result) = tokio::sync::oneshot::channel();
    let thread = std::thread::Builder::new().name("haft-parse".into()).stack_size(STACK_BYTES);
    let spawned = thread.spawn(move || {
        let _running = running;
        let _ = done.send(catch_unwind(AssertUnwindSafe(|| work(&flag))));
    });
    if let Err(error) = spawned {
        return Err(
            ToolError::new(format!("{what} can't be read now: no thread can be started")).with_source(error)
        );
    }
    match tokio::time::timeout(TIME_MAX, result).await {
        Ok(Ok(Ok(done))) => done,
        Ok(Ok(Err(_)) | Err(_)) => Err(ToolError::new(format!(
            "{what} is damaged, or has something that can't be read; its reader gave up"
        ))),
        Err(_) => Err(ToolError::new(format!("{what} was not read within {} s", TIME_MAX.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_so_is_deep_nesting_not_the_end() {
        let said = parsing("`f`", |_| -> Result<(), ToolError> { panic!("inside of a library") }).await;
        assert_eq!(
            said.unwrap_err().message(),
            "`f` is damaged, or has something that can't be read; its reader gave up"
        );
        fn deep(levels: u64) -> u64 {
            let room = std::hint::black_box([levels; 64]);
            if levels == 0 { 0 } else { deep(levels - 1) + room[3] - levels + 1 }
        }
        assert_eq!(parsing("`f`", |_| Ok(deep(20_000))).await.unwrap(), 20_000);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_answered_for_and_told_to_stop() {
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let said = parsing("`f`", move |stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ended.send(()).expect("the test waits");
            Ok(())
        });
        assert_eq!(said.await.unwrap_err().message(), "`f` was not read within 60 s");
        has_ended.await.unwrap();
    }
}
