//! The child's end of its requests.
//!
//! The stand-ins for ports may be used from any task and thread that the tool has; the pipe has one owner. Between
//! them is this: what is to be sent, and who waits for an answer.
//!
//! The host answers a fixed number of requests at once. Those beyond it wait here, in order, and not for a permit of a
//! semaphore: a permit could fall to a request that the tool has begun and not polled since, and then all of them
//! would wait for ever. Each that waits belongs to a future that the tool holds, so the queue is as long as the tool
//! makes it; events, which belong to nobody, have a bound and are dropped beyond it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use haft_scheduler::sync::lock;
use tokio::sync::oneshot;

use super::frames::{TooLarge, encode};
use super::wire::{Ask, Packer, Reply, ToParent};
use crate::event::{Event, EventSink, What};
use crate::limits;

/// What the ports of the child share with the owner of its pipe.
#[derive(Default)]
pub(super) struct Link(Mutex<State>);

#[derive(Default)]
struct State {
    /// Events, and what the parent may forget. They go first, so that a request never comes before the room for it.
    notes: VecDeque<Note>,
    events: usize,
    requests: VecDeque<(u64, Vec<u8>)>,
    waiting: HashMap<u64, Waiting>,
    /// How many requests the parent has.
    sent: usize,
    last_id: u64,
    owner: Option<Waker>,
    over: bool,
}

struct Note {
    frame: Vec<u8>,
    is_event: bool,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    is_sent: bool,
}

/// What the parent answered: a head, and the tail that belongs to it.
pub(super) struct Answer {
    pub(super) reply: Reply,
    pub(super) tail: Vec<u8>,
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// The call is over, or the host gone.
    Over,
    /// The request has more bytes than one may.
    TooLarge(usize),
}

impl Link {
    /// Sends a request and waits for its answer.
    ///
    /// # Cancel safety
    /// Dropping the future tells the parent to forget the request.
    pub(super) async fn ask(
        self: &Arc<Link>,
        ask: impl FnOnce(&mut Packer) -> Ask,
    ) -> Result<(Ticket, Answer), Unanswered> {
        let id = {
            let mut state = lock(&self.0);
            state.last_id += 1;
            state.last_id
        };
        let mut packer = Packer::default();
        let ask = ask(&mut packer);
        let is_question = matches!(ask, Ask::Question { .. });
        let frame = encode(&ToParent::Ask { id, ask }, packer)
            .map_err(|TooLarge(bytes)| Unanswered::TooLarge(bytes))?;
        if is_question && frame.len() > limits::ISOLATE_QUESTION_BYTES_MAX {
            return Err(Unanswered::TooLarge(frame.len()));
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = lock(&self.0);
            if state.over {
                return Err(Unanswered::Over);
            }
            state.waiting.insert(id, Waiting { answer: sender, is_sent: false });
            state.requests.push_back((id, frame));
            state.wake();
        }
        let mut ticket = Ticket { link: self.clone(), id, kept: Kept::Request };
        let answer = receiver.await.map_err(|_| Unanswered::Over)?;
        ticket.kept = Kept::Nothing;
        Ok((ticket, answer))
    }

    /// Gives an answer to whoever waits for it; one that nobody waits for crossed a request to forget it.
    pub(super) fn answer(&self, id: u64, answer: Answer) {
        let waiting = {
            let mut state = lock(&self.0);
            let waiting = state.waiting.remove(&id);
            state.sent -= usize::from(waiting.as_ref().is_some_and(|waiting| waiting.is_sent));
            waiting
        };
        if let Some(waiting) = waiting {
            let _ = waiting.answer.send(answer);
        }
    }

    /// The next frame to send; without one, the owner of the pipe is woken when there is.
    pub(super) fn next(&self, owner: &Waker) -> Option<Vec<u8>> {
        let mut state = lock(&self.0);
        if let Some(frame) = state.next_note() {
            return Some(frame);
        }
        if state.sent < limits::ISOLATE_REQUESTS_MAX
            && let Some((id, frame)) = state.requests.pop_front()
        {
            state.sent += 1;
            state.waiting.entry(id).and_modify(|waiting| waiting.is_sent = true);
            return Some(frame);
        }
        match &mut state.owner {
            Some(waker) => waker.clone_from(owner),
            None => state.owner = Some(owner.clone()),
        }
        None
    }

    /// The next frame that wants no answer.
    pub(super) fn next_note(&self) -> Option<Vec<u8>> {
        lock(&self.0).next_note()
    }

    /// Ends everything: nothing is taken any more, and nobody waits.
    pub(super) fn close(&self) {
        let ended = {
            let mut state = lock(&self.0);
            let over = State { over: true, last_id: state.last_id, ..State::default() };
            std::mem::replace(&mut *state, over)
        };
        drop(ended);
    }

    /// Lets go of what the parent has for us.
    fn forget(&self, id: u64, kept: Kept) {
        let mut state = lock(&self.0);
        if state.over {
            return;
        }
        match kept {
            Kept::Nothing => return,
            Kept::File => {}
            Kept::Request => match state.waiting.remove(&id) {
                Some(waiting) if !waiting.is_sent => {
                    state.requests.retain(|(waiting, _)| *waiting != id);
                    return;
                }
                Some(_) => state.sent -= 1,
                // Answered, but the one who asked has not looked; there may be a file.
                None => {}
            },
        }
        if let Ok(frame) = encode(&ToParent::Forget(id), Packer::default()) {
            state.notes.push_back(Note { frame, is_event: false });
            state.wake();
        }
    }
}

impl State {
    fn next_note(&mut self) -> Option<Vec<u8>> {
        let note = self.notes.pop_front()?;
        self.events -= usize::from(note.is_event);
        Some(note.frame)
    }

    fn wake(&mut self) {
        if let Some(owner) = self.owner.take() {
            owner.wake();
        }
    }
}

/// What the parent has for us: a request until it is answered, then the file that it opened, if it did.
pub(super) struct Ticket {
    link: Arc<Link>,
    id: u64,
    kept: Kept,
}

#[derive(Clone, Copy)]
enum Kept {
    Request,
    File,
    Nothing,
}

impl Ticket {
    /// The id of the request.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Keeps the file that the request opened, until this is dropped. The parent says when there are too many.
    pub(super) fn keep(mut self) -> Ticket {
        self.kept = Kept::File;
        self
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.link.forget(self.id, self.kept);
    }
}

/// Sends the events of a call. Those that can't be sent in time are dropped, passing ones first.
pub(super) struct Events(pub(super) Arc<Link>);

impl EventSink for Events {
    fn send(&self, event: Event) {
        let (message, passing) = match event.what {
            What::Progress(progress) => {
                (ToParent::Progress { fraction: progress.fraction, message: progress.message }, true)
            }
            What::Partial(text) => (ToParent::Partial(text), true),
            What::Warning(mut words) => {
                crate::text::truncate_in_place(&mut words, limits::NOTE_CHARS_MAX);
                (ToParent::Warning(words), false)
            }
            // Everything else is told by the engine, which is in the other process.
            _ => return,
        };
        let room = limits::ISOLATE_EVENTS_MAX / if passing { 2 } else { 1 };
        let Ok(frame) = encode(&message, Packer::default()) else { return };
        let mut state = lock(&self.0.0);
        if !state.over && state.events < room {
            state.events += 1;
            state.notes.push_back(Note { frame, is_event: true });
            state.wake();
        }
    }
}
