//! What waits for the screen: bounded, and never in the way of those who send.
//!
//! The screen takes everything that came since its last frame at once. What a later event makes worthless is merged on
//! the way in: text with the text before it, progress with the progress of the same call. What still doesn't fit,
//! because the terminal takes nothing for a while, is left out by a stated rule and counted: text beyond a few megabytes,
//! progress from half of the queue on, everything else when the queue is full. The end of a run is always taken.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::Mutex;

use haft::event::{Event, What};
use haft::ports::{Answer, Approval, UserQuestion};
use haft::sync::lock;
use haft_agent::{ReplyDelta, RunEvent};
use tokio::sync::oneshot;

use crate::limits::{WAITING_EVENTS_MAX, WAITING_TEXT_BYTES_MAX};
use crate::screen::ScreenChange;

/// How far back an event looks for one that it replaces.
const LOOKED_BACK: usize = 32;

/// Something for the screen.
pub(crate) enum ScreenNote {
    Event(RunEvent),
    OpenPrompt(OpenPrompt),
    /// A question is no longer asked.
    Withdrawn(u64),
    /// The host changes what is shown.
    ScreenChange(ScreenChange),
}

/// A question and where its answer goes.
pub(crate) struct OpenPrompt {
    pub(crate) id: u64,
    pub(crate) what: PromptRequest,
}

pub(crate) enum PromptRequest {
    Approval(Box<Approval>, oneshot::Sender<Answer>),
    Question(UserQuestion, oneshot::Sender<Option<Vec<String>>>),
}

/// What came since the last frame.
#[derive(Default)]
pub(crate) struct InboxBatch {
    pub(crate) notes: VecDeque<ScreenNote>,
    /// Bytes of text that were left out.
    pub(crate) lost_bytes: u64,
    /// Other events that were left out.
    pub(crate) lost_events: u64,
}

/// The queue, and the pipe that wakes the screen.
pub(crate) struct ScreenInbox {
    queue: Mutex<InboxQueue>,
    wake: std::io::PipeWriter,
}

#[derive(Default)]
struct InboxQueue {
    taken: InboxBatch,
    text_bytes: usize,
    /// The screen was woken and hasn't looked yet.
    woken: bool,
    closed: bool,
}

impl ScreenInbox {
    pub(crate) fn new(wake: std::io::PipeWriter) -> ScreenInbox {
        ScreenInbox { queue: Mutex::default(), wake }
    }

    /// Takes an event, or leaves it out.
    pub(crate) fn event(&self, event: RunEvent) {
        self.push(|queue| queue.event(event));
    }

    /// Takes a question or a change; false once the screen is closed.
    pub(crate) fn note(&self, note: ScreenNote) -> bool {
        let mut open = true;
        self.push(|queue| {
            open = !queue.closed;
            if open {
                queue.taken.notes.push_back(note);
            }
        });
        open
    }

    /// Everything that came.
    pub(crate) fn take(&self) -> InboxBatch {
        let mut queue = lock(&self.queue);
        queue.woken = false;
        queue.text_bytes = 0;
        std::mem::take(&mut queue.taken)
    }

    /// Takes nothing more. What waits is dropped, and with it the ways back to those who asked.
    pub(crate) fn close(&self) {
        let mut queue = lock(&self.queue);
        queue.closed = true;
        let dropped = std::mem::take(&mut queue.taken);
        drop(queue);
        drop(dropped);
    }

    fn push(&self, change: impl FnOnce(&mut InboxQueue)) {
        let mut queue = lock(&self.queue);
        change(&mut queue);
        let wake = !std::mem::replace(&mut queue.woken, true);
        drop(queue);
        if wake {
            // One byte at most is in the pipe, so this never waits.
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
            // Of other agents only the calls are shown, and those carry their names.
            RunEvent::Agent { event, .. } => match *event {
                RunEvent::Tool(event) => RunEvent::Tool(event),
                _ => return,
            },
            event => event,
        };
        let passing = matches!(
            &event,
            RunEvent::Model(ReplyDelta::Thinking(_) | ReplyDelta::Usage(_))
                | RunEvent::Tool(Event { what: What::Progress(_) | What::Partial(_), .. })
        );
        if passing && let Some(old) = self.replaced(&event) {
            *old = ScreenNote::Event(event);
            return;
        }
        let most = if passing { WAITING_EVENTS_MAX / 2 } else { WAITING_EVENTS_MAX };
        if self.taken.notes.len() >= most && !matches!(event, RunEvent::Ended { .. }) {
            self.taken.lost_events += 1;
            return;
        }
        self.taken.notes.push_back(ScreenNote::Event(event));
    }

    /// Text of the answer, or of a call's input: joins what came before it.
    fn text(&mut self, text: String, call: Option<usize>) {
        if self.text_bytes + text.len() > WAITING_TEXT_BYTES_MAX {
            self.taken.lost_bytes += text.len() as u64;
            return;
        }
        self.text_bytes += text.len();
        match (self.taken.notes.back_mut(), call) {
            (Some(ScreenNote::Event(RunEvent::Model(ReplyDelta::Text(before)))), None) => {
                before.push_str(&text)
            }
            (Some(ScreenNote::Event(RunEvent::Model(ReplyDelta::CallInput { call, json }))), Some(same))
                if *call == same =>
            {
                json.push_str(&text);
            }
            (_, None) => {
                self.taken.notes.push_back(ScreenNote::Event(RunEvent::Model(ReplyDelta::Text(text))))
            }
            (_, Some(call)) => {
                let delta = ReplyDelta::CallInput { call, json: text };
                self.taken.notes.push_back(ScreenNote::Event(RunEvent::Model(delta)));
            }
        }
    }

    /// The event that this one makes worthless.
    fn replaced(&mut self, event: &RunEvent) -> Option<&mut ScreenNote> {
        let RunEvent::Tool(event) = event else { return None };
        let same = |note: &&mut ScreenNote| match note {
            ScreenNote::Event(RunEvent::Tool(old)) => {
                old.call == event.call
                    && old.agent == event.agent
                    && std::mem::discriminant(&old.what) == std::mem::discriminant(&event.what)
            }
            _ => false,
        };
        self.taken.notes.iter_mut().rev().take(LOOKED_BACK).find(same)
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
        let taken = inbox.take();
        assert_eq!(taken.notes.len(), 1);
        let large = "x".repeat(1024 * 1024);
        for _ in 0..6 {
            inbox.event(text(&large));
        }
        let taken = inbox.take();
        assert_eq!(taken.lost_bytes, 2 * 1024 * 1024);
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
        let taken = inbox.take();
        assert_eq!(taken.notes.len(), WAITING_EVENTS_MAX + 1);
        assert_eq!(taken.lost_events, 20_000 - WAITING_EVENTS_MAX as u64);
        assert!(matches!(taken.notes.back(), Some(ScreenNote::Event(RunEvent::Ended { .. }))));
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
