//! Work that waits for the disk, on a thread for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use haft::ToolError;

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
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> Result<T, ToolError> {
    let stop = StopOnDrop(Arc::default());
    let flag = stop.0.clone();
    match tokio::task::spawn_blocking(move || work(&flag)).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(ToolError::new("the program is ending")),
    }
}
