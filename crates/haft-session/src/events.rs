//! The events of a session: one stream for everything that engine, agent loop and prompts report.
//!
//! The session never waits for a receiver. Each receiver has a bounded queue. When the queue is more than
//! half full, progress and partial output are dropped. When it is full, every event is dropped. Dropped
//! events are counted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft::event::{CallRef, EventKind};
use haft::ports::PermissionMode;
use haft::sync::lock;
use haft_agent::{RunEvent, RunSink};
use tokio::sync::{mpsc, watch};

use crate::front_end::FrontEnd;
use crate::prompts::{PromptId, UserPrompt};

/// The maximum number of queued events for one receiver.
const QUEUE_MAX: usize = 1024;

/// Something that happened in a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionEvent {
    /// The number of the event in its session, counted from 1.
    pub seq: u64,
    /// The time since the session was opened.
    pub at: Duration,
    /// The agent that it is about.
    pub agent: Arc<str>,
    /// The turn of the agent, counted from 1; 0 if the event is not about a turn.
    pub turn: u64,
    /// The call that it is about.
    pub call: Option<CallRef>,
    /// What happened.
    pub kind: SessionEventKind,
}

/// What happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SessionEventKind {
    /// An event of the engine or of the agent loop.
    Run(RunEvent),
    /// A prompt waits for an answer.
    PromptOpened(UserPrompt),
    /// A prompt was answered.
    PromptAnswered {
        /// The prompt.
        id: PromptId,
        /// The name of the front end that answered, or `handle`.
        by: String,
    },
    /// A prompt was closed without an answer: its call was cancelled, or no front end answered.
    PromptClosed {
        /// The prompt.
        id: PromptId,
    },
    /// The permission mode has changed.
    ModeChanged(PermissionMode),
}

impl SessionEventKind {
    /// Returns whether a later event makes this one obsolete.
    fn is_progress(&self) -> bool {
        let SessionEventKind::Run(event) = self else { return false };
        let mut event = event;
        while let RunEvent::Agent { event: inner, .. } = event {
            event = inner;
        }
        matches!(event, RunEvent::Model(_))
            || matches!(event, RunEvent::Tool(event) if matches!(event.what, EventKind::Progress(_) | EventKind::Partial(_)))
    }
}

impl fmt::Display for SessionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] ", self.agent)?;
        match &self.kind {
            SessionEventKind::Run(event) => show_run(event, f),
            SessionEventKind::PromptOpened(prompt) => write!(f, "asks: {prompt}"),
            SessionEventKind::PromptAnswered { id, by } => write!(f, "{by} answered prompt {id}"),
            SessionEventKind::PromptClosed { id } => write!(f, "prompt {id} is closed"),
            SessionEventKind::ModeChanged(mode) => write!(f, "permission mode {mode}"),
        }
    }
}

fn show_run(event: &RunEvent, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match event {
        RunEvent::Asked { turn, .. } => write!(f, "turn {turn}: the model is asked"),
        RunEvent::Replied { turn, .. } => write!(f, "turn {turn}: the model replied"),
        RunEvent::Answered { turn, results } => write!(f, "turn {turn}: {} results", results.len()),
        RunEvent::Ended { .. } => f.write_str("the run is over"),
        RunEvent::Agent { event, .. } => show_run(event, f),
        RunEvent::Tool(event) => {
            let tool = event.call.as_ref().map_or("", |call| &*call.tool);
            match &event.what {
                EventKind::Started { view, .. } => write!(f, "{tool} starts: {}", view.title),
                EventKind::Finished(result) => match result.error() {
                    None => write!(f, "{tool} is done"),
                    Some(error) => write!(f, "{tool} failed: {}", error.message()),
                },
                EventKind::Asking => write!(f, "{tool} asks"),
                EventKind::Warning(text) | EventKind::Message(text) => f.write_str(text),
                _ => write!(f, "{tool} works"),
            }
        }
        _ => f.write_str("the run goes on"),
    }
}

/// Distributes the events of a session to its receivers.
pub(crate) struct EventHub {
    opened: Instant,
    state: Mutex<HubState>,
}

#[derive(Default)]
struct HubState {
    seq: u64,
    /// Receives each event synchronously from the code that reports it.
    direct: Option<Arc<dyn FrontEnd>>,
    queues: Vec<EventQueue>,
    next_queue: u64,
    is_closed: bool,
}

struct EventQueue {
    id: u64,
    sender: mpsc::Sender<Arc<SessionEvent>>,
    dropped: Arc<AtomicU64>,
    /// The number of the last event in the queue.
    last: u64,
    /// The number of the last event that the front end has shown; `None` for other receivers.
    shown: Option<watch::Receiver<u64>>,
}

impl Default for EventHub {
    fn default() -> EventHub {
        EventHub { opened: Instant::now(), state: Mutex::default() }
    }
}

impl EventHub {
    /// Sets the front end that receives events synchronously. It must not block.
    pub(crate) fn set_direct(&self, front_end: Arc<dyn FrontEnd>) {
        lock(&self.state).direct = Some(front_end);
    }

    /// Returns a new receiver of all events from now on.
    pub(crate) fn subscribe(&self) -> EventSubscription {
        self.add_queue(None)
    }

    /// Returns a receiver for a front end, and the channel on which the front end reports the last event
    /// that it has shown.
    pub(crate) fn subscribe_front_end(&self) -> (EventSubscription, watch::Sender<u64>) {
        let (sender, shown) = watch::channel(0);
        (self.add_queue(Some(shown)), sender)
    }

    fn add_queue(&self, shown: Option<watch::Receiver<u64>>) -> EventSubscription {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let dropped = Arc::<AtomicU64>::default();
        let mut state = lock(&self.state);
        state.next_queue += 1;
        let id = state.next_queue;
        if !state.is_closed {
            state.queues.push(EventQueue { id, sender, dropped: dropped.clone(), last: 0, shown });
        }
        EventSubscription { id, receiver, dropped }
    }

    /// Waits until every front end has shown all events so far.
    pub(crate) async fn flush(&self) {
        let waiting: Vec<_> = {
            let state = lock(&self.state);
            state.queues.iter().filter_map(|queue| Some((queue.last, queue.shown.clone()?))).collect()
        };
        for (last, mut shown) in waiting {
            // An error means that the front end is gone.
            let _ = shown.wait_for(|shown| *shown >= last).await;
        }
    }

    /// Ends the stream of one receiver after its queued events.
    pub(crate) fn unsubscribe(&self, id: u64) {
        lock(&self.state).queues.retain(|queue| queue.id != id);
    }

    /// Ends the streams of all receivers after their queued events.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        (state.is_closed, state.direct) = (true, None);
        state.queues.clear();
    }

    /// Reports something to all receivers.
    pub(crate) fn send(&self, kind: SessionEventKind) {
        let (agent, turn, call) = event_subject(&kind);
        let direct = {
            // The lock ensures that every receiver gets the events in the order of their numbers.
            let mut state = lock(&self.state);
            state.seq += 1;
            let event = SessionEvent { seq: state.seq, at: self.opened.elapsed(), agent, turn, call, kind };
            if state.queues.is_empty() {
                state.direct.clone().map(|direct| (direct, Arc::new(event)))
            } else {
                let event = Arc::new(event);
                state.queues.retain_mut(|queue| queue.send(&event));
                state.direct.clone().map(|direct| (direct, event))
            }
        };
        if let Some((direct, event)) = direct {
            direct.show(&event);
        }
    }
}

impl EventQueue {
    /// Returns false if the receiver is gone.
    fn send(&mut self, event: &Arc<SessionEvent>) -> bool {
        if self.sender.is_closed() {
            return false;
        }
        let is_crowded = self.sender.capacity() * 2 < self.sender.max_capacity();
        if (is_crowded && event.kind.is_progress()) || self.sender.try_send(event.clone()).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        } else {
            self.last = event.seq;
        }
        true
    }
}

impl RunSink for EventHub {
    fn send(&self, event: RunEvent) {
        EventHub::send(self, SessionEventKind::Run(event));
    }
}

/// Returns the agent, turn and call of an event.
fn event_subject(kind: &SessionEventKind) -> (Arc<str>, u64, Option<CallRef>) {
    let main = || Arc::from(haft::engine::MAIN_AGENT);
    let SessionEventKind::Run(event) = kind else { return (main(), 0, None) };
    let (mut event, mut of_agent) = (event, None);
    while let RunEvent::Agent { agent, event: inner, .. } = event {
        (of_agent, event) = (Some(agent.clone()), inner);
    }
    let agent = of_agent.unwrap_or_else(main);
    match event {
        RunEvent::Tool(event) => (event.agent.clone(), event.turn, event.call.clone()),
        RunEvent::Asked { turn, .. } | RunEvent::Replied { turn, .. } | RunEvent::Answered { turn, .. } => {
            (agent, *turn, None)
        }
        _ => (agent, 0, None),
    }
}

/// A receiver of events, created by [`SessionHandle::events`](crate::SessionHandle::events).
pub struct EventSubscription {
    pub(crate) id: u64,
    receiver: mpsc::Receiver<Arc<SessionEvent>>,
    dropped: Arc<AtomicU64>,
}

impl EventSubscription {
    /// Waits for the next event. Returns `None` when the session is closed.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Arc<SessionEvent>> {
        self.receiver.recv().await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<SessionEvent>> {
        self.receiver.try_recv().ok()
    }

    /// Returns how many events were dropped because the queue was full, since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}
