//! Events: what happens, told sideways to whoever watches.
//!
//! Nothing depends on an event being seen. The engine never waits for a sink; a sink that can't keep up loses
//! events by a stated rule and counts what it lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::result::ToolResult;
use crate::view::{CallProgress, CallView};

/// Takes events. Called from the engine's tasks, so it must neither block nor panic; a panic is caught and
/// the event lost.
pub trait EventSink: Send + Sync + 'static {
    /// Takes one event.
    fn send(&self, event: Event);
}

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The session.
    pub session: Arc<str>,
    /// The agent within it.
    pub agent: Arc<str>,
    /// The turn.
    pub turn: u64,
    /// The call and its place in the turn, if it is about one.
    pub call: Option<CallRef>,
    /// What happened.
    pub what: EventKind,
}

/// Which call an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRef {
    /// Its place in the turn, from 0.
    pub index: usize,
    /// Its id.
    pub id: Arc<str>,
    /// Its tool.
    pub tool: Arc<str>,
}

/// What happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EventKind {
    /// The call waits for the user's answer.
    Asking,
    /// The call began to run.
    Started {
        /// What to show.
        view: CallView,
        /// Its input.
        input: Arc<Value>,
    },
    /// The call says how far it is.
    Progress(CallProgress),
    /// A part of the output that is still coming.
    Partial(String),
    /// The call has its result.
    Finished(ToolResult),
    /// The call went on in the background; its result says so, and this is the real one.
    BackgroundFinished(ToolResult),
    /// The call keeps a thread busy that is not its own.
    BlocksThread {
        /// For how long already.
        since: Duration,
    },
    /// Something that should be looked at.
    Warning(String),
    /// Words of a hook for the user.
    Message(String),
}

impl EventKind {
    /// Whether a later event of the same kind makes this one worthless.
    fn is_passing(&self) -> bool {
        matches!(self, EventKind::Progress(_) | EventKind::Partial(_))
    }
}

/// A bounded queue of events.
///
/// When it is more than half full, progress and partial output are dropped; when it is full, everything is.
/// What was dropped is counted: [`EventReceiver::take_lost`].
pub fn channel(capacity: usize) -> (EventSender, EventReceiver) {
    let (sender, receiver) = mpsc::channel(capacity.max(2));
    let lost = Arc::new(AtomicU64::new(0));
    (EventSender { sender, lost: lost.clone() }, EventReceiver { receiver, lost })
}

/// The sending half of [`channel`]: an [`EventSink`].
#[derive(Clone)]
pub struct EventSender {
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl EventSink for EventSender {
    fn send(&self, event: Event) {
        let crowded = self.sender.capacity() * 2 < self.sender.max_capacity();
        if (crowded && event.what.is_passing()) || self.sender.try_send(event).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The receiving half of [`channel`].
pub struct EventReceiver {
    receiver: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

impl EventReceiver {
    /// The next event, or nothing once all senders are gone.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }

    /// The next event if there is one already.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }

    /// How many events were dropped since this was last asked.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: EventKind) -> Event {
        Event { session: "s".into(), agent: "a".into(), turn: 1, call: None, what }
    }

    #[test]
    fn progress_is_dropped_before_anything_else() {
        let (sender, mut receiver) = channel(4);
        for _ in 0..3 {
            sender.send(event(EventKind::Asking));
        }
        sender.send(event(EventKind::Partial("x".into())));
        assert_eq!(receiver.take_lost(), 1, "more than half full");
        sender.send(event(EventKind::Asking));
        sender.send(event(EventKind::Asking));
        assert_eq!(receiver.take_lost(), 1, "full");
        let mut seen = 0;
        while let Some(event) = receiver.try_recv() {
            assert!(matches!(event.what, EventKind::Asking));
            seen += 1;
        }
        assert_eq!(seen, 4);
    }
}
