//! A queue that a test waits on.

use std::collections::VecDeque;
use std::sync::Mutex;

use haft_scheduler::sync::lock;
use tokio::sync::Notify;

/// What happened and was not looked at yet.
pub(super) struct WaitQueue<T> {
    waiting: Mutex<VecDeque<T>>,
    pushed: Notify,
}

impl<T> Default for WaitQueue<T> {
    fn default() -> WaitQueue<T> {
        WaitQueue { waiting: Mutex::default(), pushed: Notify::new() }
    }
}

impl<T> WaitQueue<T> {
    pub(super) fn push(&self, item: T) {
        lock(&self.waiting).push_back(item);
        self.pushed.notify_one();
    }

    pub(super) fn try_pop(&self) -> Option<T> {
        lock(&self.waiting).pop_front()
    }

    /// The oldest, as soon as there is one.
    pub(super) async fn pop(&self) -> T {
        loop {
            let pushed = self.pushed.notified();
            if let Some(item) = self.try_pop() {
                return item;
            }
            pushed.await;
        }
    }
}
