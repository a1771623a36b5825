//! Work that waits for the disk, on a thread for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haft::ToolError;
use haft::sync::lock;

/// Bytes that are looked at without another thread.
const HERE_BYTES_MAX: usize = 64 * 1024;

/// Tells the work to stop when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread that may block.
///
/// # Cancel safety
/// Dropping the future sets the flag that the work was given.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let stop = StopOnDrop(Arc::default());
    let flag = stop.0.clone();
    let work = Arc::new(Mutex::new(Some(work)));
    let theirs = work.clone();
    let begin = || tokio::task::spawn_blocking(move || take_work(&theirs).map(|work| work(&flag)));
    // The runtime panics where the machine gives it no thread, which is no fault of the tool. It keeps the
    // work for whoever gets one later, so that is taken back: what was refused must not be done after all.
    let Ok(begun) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(begin)) else {
        let words = match take_work(&work) {
            Some(_) => "no thread can be had for it, too many run already; try again later",
            None => {
                "too many threads run already, and what became of it is unknown; look before you try again"
            }
        };
        return Err(ToolError::new(words).retryable());
    };
    match begun.await {
        Ok(Some(done)) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Ok(None) | Err(_) => Err(ToolError::new("the program is ending")),
    }
}

fn take_work<W>(work: &Mutex<Option<W>>) -> Option<W> {
    lock(work).take()
}

/// Runs work on so many bytes: on a thread for that if they are many, else here, where it ends sooner.
pub(crate) async fn off_thread<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    if bytes <= HERE_BYTES_MAX { Ok(work()) } else { run_blocking(|_| work()).await }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn much_is_worked_on_elsewhere_and_little_here() {
        let here = std::thread::current().id();
        let place = || std::thread::current().id();
        assert_eq!(off_thread(HERE_BYTES_MAX, place).await.unwrap(), here);
        assert_ne!(off_thread(HERE_BYTES_MAX + 1, place).await.unwrap(), here);
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_told_to_stop() {
        assert_eq!(run_blocking(|_| 7).await.unwrap(), 7);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let mut work = Box::pin(run_blocking(move |stop| {
            begun.send(()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
        }));
        tokio::select! {
            _ = &mut work => unreachable!("nobody told it to stop"),
            begun = has_begun => begun.unwrap(),
        }
        drop(work);
        has_ended.await.unwrap();
    }
}
