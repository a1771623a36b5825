//! What is under way outside of connections: a server that ends waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// What is under way outside of connections.
#[derive(Default)]
pub(crate) struct Busy {
    count: AtomicUsize,
    changed: Notify,
}

/// Something that is under way.
pub(crate) struct Work(Arc<Busy>);

impl Busy {
    pub(crate) fn begin(self: &Arc<Busy>) -> Work {
        self.count.fetch_add(1, Ordering::AcqRel);
        Work(self.clone())
    }

    pub(crate) async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}
