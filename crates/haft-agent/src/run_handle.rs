//! The remote control of a run: interrupts it, or adds messages while it runs.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use haft::sync::lock;
use haft::{Cancel, Cause};
use tokio::sync::Notify;

use crate::limits::WAITING_MESSAGES_MAX;

/// Controls a run from elsewhere. Clones are the same handle.
#[derive(Clone, Default)]
pub struct RunHandle(Arc<RunControl>);

#[derive(Default)]
struct RunControl {
    stop: Cancel,
    force: Cancel,
    said: Mutex<VecDeque<String>>,
    posted: Mutex<PostedMessages>,
    news: Notify,
}

/// Messages of other agents that wait.
#[derive(Default)]
struct PostedMessages {
    waiting: VecDeque<String>,
    /// The run takes no more.
    closed: bool,
}

/// Why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostError {
    /// Too many messages wait already.
    Full,
    /// The run has ended.
    Ended,
}

impl RunHandle {
    /// Creates a handle for one run.
    pub fn new() -> RunHandle {
        RunHandle::default()
    }

    /// The user interrupts: the model is no longer listened to, calls that may be cancelled are, the others
    /// finish, and every call gets its result. A second time it is forced.
    pub fn interrupt(&self) {
        if self.0.stop.is_cancelled() {
            self.force();
        }
        self.0.stop.cancel(Cause::User);
    }

    /// Ends everything now, also what would rather finish.
    pub fn force(&self) {
        self.0.stop.cancel(Cause::User);
        self.0.force.cancel(Cause::User);
    }

    /// Whether the run was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// The user says something during the run: it goes in with the next results. Calls that may be cancelled
    /// are, since what they were made for may no longer be wanted.
    ///
    /// # Errors
    /// The text back, if too many wait already.
    pub fn say(&self, text: impl Into<String>) -> Result<(), String> {
        let mut said = self.said();
        if said.len() == WAITING_MESSAGES_MAX {
            return Err(text.into());
        }
        said.push_back(text.into());
        drop(said);
        self.0.news.notify_one();
        Ok(())
    }

    /// A message from another source than the user: they go in before the next turn, stop nothing, and keep a
    /// run going that would have ended.
    ///
    /// # Errors
    /// The run has ended, or too many wait already.
    pub fn post(&self, text: impl Into<String>) -> Result<(), PostError> {
        let mut posted = self.posted();
        match () {
            () if posted.closed => Err(PostError::Ended),
            () if posted.waiting.len() >= WAITING_MESSAGES_MAX => Err(PostError::Full),
            () => {
                posted.waiting.push_back(text.into());
                Ok(())
            }
        }
    }

    pub(crate) fn take_posted(&self) -> Vec<String> {
        self.posted().waiting.drain(..).collect()
    }

    /// Takes nothing more that is posted, unless something waits; whether it closed.
    pub(crate) fn close_unless_posted(&self) -> bool {
        let mut posted = self.posted();
        posted.closed |= posted.waiting.is_empty();
        posted.closed
    }

    pub(crate) fn close(&self) {
        self.posted().closed = true;
    }

    fn posted(&self) -> std::sync::MutexGuard<'_, PostedMessages> {
        lock(&self.0.posted)
    }

    /// What was said since this was last asked.
    pub(crate) fn take_said(&self) -> Vec<String> {
        self.said().drain(..).collect()
    }

    pub(crate) fn has_said(&self) -> bool {
        !self.said().is_empty()
    }

    fn said(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        lock(&self.0.said)
    }

    pub(crate) fn stop(&self) -> &Cancel {
        &self.0.stop
    }

    pub(crate) fn forced(&self) -> &Cancel {
        &self.0.force
    }

    /// Completes when a message waits that no turn has taken.
    pub(crate) async fn news(&self) {
        while !self.has_said() {
            self.0.news.notified().await;
        }
    }
}

/// Whichever comes first; the first one where both are there.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

pub(crate) async fn either<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| {
        if let Poll::Ready(value) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::First(value));
        }
        second.as_mut().poll(cx).map(Either::Second)
    })
    .await
}
