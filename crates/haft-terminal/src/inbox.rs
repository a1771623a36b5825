//! The queue of events for the screen: bounded, and never blocking the senders.
//!
//! The screen takes all events since its last frame together. An event that supersedes an earlier
//! one is merged with it: text with the text before it, progress with earlier progress of the same
//! call. If the terminal is too slow, events are dropped by fixed rules and counted: text beyond a
//! few megabytes, progress from half of the queue on, everything else when the queue is full. The
//! end of a run is never dropped.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Mutex;

use haft::event::{Event, EventKind};
use haft::ports::{ApprovalAnswer, ApprovalRequest, UserQuestion};
use haft::sync::lock;
use haft_agent::{ReplyDelta, RunEvent};
use tokio::sync::oneshot;

use crate::limits::{WAITING_EVENTS_MAX, WAITING_TEXT_BYTES_MAX};
use crate::screen::ScreenChange;

/// How many events are searched for a superseded one.
const MERGE_SEARCH_MAX: usize = 32;

/// An event, question or change for the screen.
pub(crate) enum ScreenNote {
    Event(RunEvent),
    OpenPrompt(OpenPrompt),
    /// A question was withdrawn.
    Withdrawn(u64),
    /// A change by the host.
    ScreenChange(ScreenChange),
}

/// A question with the channel for its answer.
pub(crate) struct OpenPrompt {
    pub(crate) id: u64,
    pub(crate) what: PromptRequest,
}

pub(crate) enum PromptRequest {
    Approval(Box<ApprovalRequest>, oneshot::Sender<ApprovalAnswer>),
    Question(UserQuestion, oneshot::Sender<Option<Vec<String>>>),
}

/// Everything since the last frame.
#[derive(Default)]
pub(crate) struct InboxBatch {
    pub(crate) notes: VecDeque<ScreenNote>,
    /// Dropped bytes of text.
    pub(crate) lost_bytes: u64,
    /// Other dropped events.
    pub(crate) lost_events: u64,
}

/// The queue, and the pipe that wakes the screen's thread.
pub(crate) struct ScreenInbox {
    queue: Mutex<InboxQueue>,
    wake: std::io::PipeWriter,
}

#[derive(Default)]
struct InboxQueue {
    batch: InboxBatch,
    text_bytes: usize,
    /// Whether the screen was woken and has not taken the batch yet.
    woken: bool,
    closed: bool,
}

impl ScreenInbox {
    pub(crate) fn new(wake: std::io::PipeWriter) -> ScreenInbox {
        ScreenInbox { queue: Mutex::default(), wake }
    }

    /// Queues an event, or drops and counts it.
    pub(crate) fn event(&self, event: RunEvent) {
        self.push(|queue| queue.event(event));
    }

    /// Queues a question or a change; returns `false` if the screen is closed.
    pub(crate) fn note(&self, note: ScreenNote) -> bool {
        let mut open = true;
        self.push(|queue| {
            open = !queue.closed;
            if open {
                queue.batch.notes.push_back(note);
            }
        });
        open
    }

    /// Takes the whole batch.
    pub(crate) fn take(&self) -> InboxBatch {
        let mut queue = lock(&self.queue);
        queue.woken = false;
        queue.text_bytes = 0;
        std::mem::take(&mut queue.batch)
    }

    /// Closes the inbox. Dropping the batch drops the answer channels, which tells the askers.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        let dropped = std::mem::take(&mut queue.batch);
        drop(queue);
        drop(dropped);
    }

    fn push(&self, change: impl FnOnce(&mut InboxQueue)) {
        let mut queue = lock(&self.queue);
        change(&mut queue);
        let wake = !std::mem::replace(&mut queue.woken, true);
        drop(queue);
        if wake {
            // The pipe contains at most one byte, so this never blocks.
            let _ = (&self.wake).write(&[0]);
        }
    }
}

impl InboxQueue {
    fn event(&mut self, event: RunEvent) {
        if self.closed {
            return;
        }
        let event = match event {
            RunEvent::Model(ReplyDelta::Text(text)) => return self.text(text, None),
            RunEvent::Model(ReplyDelta::CallInput { call, json }) => return self.text(json, Some(call)),
            // Only the calls of other agents are shown, with the agents' names.
            RunEvent::Agent { event, .. } => match *event {
                RunEvent::Tool(event) => RunEvent::Tool(event),
                _ => return,
            },
            event => event,
        };
        let is_droppable = matches!(
            &event,
            RunEvent::Model(ReplyDelta::Thinking(_) | ReplyDelta::Usage(_))
                | RunEvent::Tool(Event { what: EventKind::Progress(_) | EventKind::Partial(_), .. })
        );
        if is_droppable && let Some(old) = self.find_superseded(&event) {
            *old = ScreenNote::Event(event);
            return;
        }
        let most = if is_droppable { WAITING_EVENTS_MAX / 2 } else { WAITING_EVENTS_MAX };
        if self.batch.notes.len() >= most && !matches!(event, RunEvent::Ended { .. }) {
            self.batch.lost_events += 1;
            return;
        }
        self.batch.notes.push_back(ScreenNote::Event(event));
    }

    /// Appends text of the answer or of a call's input to the previous text if possible.
    fn text(&mut self, text: String, call: Option<usize>) {
        if self.text_bytes + text.len() > WAITING_TEXT_BYTES_MAX {
            self.batch.lost_bytes += text.len() as u64;
            return;
        }
        self.text_bytes += text.len();
        match (self.batch.notes.back_mut(), call) {
            (Some(ScreenNote::Event(RunEvent::Model(ReplyDelta::Text(before)))), None) => {
                before.push_str(&text)
            }
            (Some(ScreenNote::Event(RunEvent::Model(ReplyDelta::CallInput { call, json }))), Some(same))
                if *call == same =>
            {
                json.push_str(&text);
            }
            (_, None) => {
                self.batch.notes.push_back(ScreenNote::Event(RunEvent::Model(ReplyDelta::Text(text))))
            }
            (_, Some(call)) => {
                let delta = ReplyDelta::CallInput { call, json: text };
                self.batch.notes.push_back(ScreenNote::Event(RunEvent::Model(delta)));
            }
        }
    }

    /// Returns the queued event that this one supersedes.
    fn find_superseded(&mut self, event: &RunEvent) -> Option<&mut ScreenNote> {
        let RunEvent::Tool(event) = event else { return None };
        let same = |note: &&mut ScreenNote| match note {
            ScreenNote::Event(RunEvent::Tool(old)) => {
                old.call == event.call
                    && old.agent == event.agent
                    && std::mem::discriminant(&old.what) == std::mem::discriminant(&event.what)
            }
            _ => false,
        };
        self.batch.notes.iter_mut().rev().take(MERGE_SEARCH_MAX).find(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (ScreenInbox, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        (ScreenInbox::new(writer), reader)
    }

    fn text(text: &str) -> RunEvent {
        RunEvent::Model(ReplyDelta::Text(text.into()))
    }

    #[test]
    fn text_joins_the_text_before_it_up_to_a_bound() {
        let (inbox, _reader) = inbox();
        for _ in 0..10_000 {
            inbox.event(text("word "));
        }
        let batch = inbox.take();
        assert_eq!(batch.notes.len(), 1);
        let large = "x".repeat(1024 * 1024);
        for _ in 0..6 {
            inbox.event(text(&large));
        }
        let batch = inbox.take();
        assert_eq!(batch.lost_bytes, 2 * 1024 * 1024);
        inbox.event(text("after"));
        assert_eq!(inbox.take().lost_bytes, 0);
    }

    #[test]
    fn a_full_queue_still_takes_the_end() {
        let (inbox, _reader) = inbox();
        for turn in 0..20_000 {
            inbox.event(RunEvent::Asked { turn, left_out: Vec::new() });
        }
        let usage = haft_agent::TokenUsage::default();
        inbox.event(RunEvent::Ended { why: haft_agent::RunEnd::Finished, usage });
        let batch = inbox.take();
        assert_eq!(batch.notes.len(), WAITING_EVENTS_MAX + 1);
        assert_eq!(batch.lost_events, 20_000 - WAITING_EVENTS_MAX as u64);
        assert!(matches!(batch.notes.back(), Some(ScreenNote::Event(RunEvent::Ended { .. }))));
    }

    #[test]
    fn a_closed_inbox_drops_the_ways_back() {
        let (inbox, _reader) = inbox();
        let (send, mut answer) = oneshot::channel();
        let question = UserQuestion { text: "?".into(), choices: Vec::new(), several: false };
        assert!(inbox.note(ScreenNote::OpenPrompt(OpenPrompt {
            id: 1,
            what: PromptRequest::Question(question, send)
        })));
        inbox.close();
        assert!(answer.try_recv().is_err());
        assert!(!inbox.note(ScreenNote::Withdrawn(1)));
    }
}
