//! Changes of protected names that were undone while a child runs: the user is asked about them.
//!
//! They may be the user's own work, which nothing can tell from what the child does. So a child in the foreground is
//! paused, and the user decides. Where no user can be asked, a child that does it again is killed.
//!
//! The thread of a child waits for several things at once, so a question is polled, and wakes the thread when there is an
//! answer.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use haft::future::BoxFuture;
use haft::ports::{ChildRequests, ProcessRequest, Refusal, UndoneAnswer, UndoneChange, UndoneChanges};
use rustix::process::Signal;

use super::{Orders, Stop, UndoneNotice, Watched};
use crate::limits;

/// Changes of protected names that were undone while a child runs.
#[derive(Default)]
pub(super) struct UndoneState {
    /// Those that no question is about yet.
    waiting: Vec<UndoneChange>,
    /// When they are asked about: more may come in the moment in which the child is paused.
    pub(super) ask_at: Option<Instant>,
    question: Option<UndoneQuestion>,
    /// How often the user was asked.
    questions: usize,
    /// The child did it again, so it is killed if no user can be asked.
    is_again: bool,
    /// The child is paused.
    pub(super) is_paused: bool,
}

impl Watched<'_> {
    /// Looks at what was undone: the user is asked, or a child that does it again is killed.
    pub(super) fn note_undone(&mut self) {
        let notices = self.orders.take_undone();
        if self.ended.is_some() || self.stop.is_some() || self.killed {
            return;
        }
        for UndoneNotice { change, is_again } in notices {
            self.undone.is_again |= is_again;
            match change.filter(|_| requests_of(self.request).is_some()) {
                Some(change) => self.undone.waiting.push(change),
                None => self.stop_if_again(),
            }
        }
        if let Some(question) = &mut self.undone.question
            && let Poll::Ready(answer) = question.poll()
        {
            self.take_answer(answer);
        }
        let UndoneState { waiting, ask_at, question, questions, .. } = &self.undone;
        if waiting.is_empty() || ask_at.is_some() || question.is_some() {
            return;
        }
        if *questions >= limits::UNDONE_QUESTIONS_MAX {
            self.undone.waiting.clear();
            self.stop_if_again();
            self.resume();
        } else {
            self.pause();
            self.undone.ask_at = Instant::now().checked_add(limits::UNDONE_GATHER);
        }
    }

    pub(super) fn ask_about_undone(&mut self) {
        self.undone.ask_at = None;
        let Some(requests) = requests_of(self.request) else { return };
        let changes = std::mem::take(&mut self.undone.waiting);
        let undone = UndoneChanges { changes, is_running: true, is_paused: self.undone.is_paused };
        self.undone.question = Some(UndoneQuestion::ask(requests, undone, self.orders));
        self.undone.questions += 1;
        self.note_undone();
    }

    fn take_answer(&mut self, answer: Option<UndoneAnswer>) {
        let Some(question) = self.undone.question.take() else { return };
        let Some(answer) = answer else {
            self.stop_if_again();
            return self.resume();
        };
        self.undone.is_again = false;
        let paths = question.into_paths();
        let said = self.keeper.answered(&paths, answer == UndoneAnswer::Redo);
        self.said.extend(said);
        if answer == UndoneAnswer::StopChild {
            let stopped =
                |path| Refusal::Changed { path, done: "the user stopped the command because of it".into() };
            self.said.extend(paths.into_iter().next().map(stopped));
            self.stop(Stop::Planted);
        }
        self.resume();
    }

    /// Pauses a child in the foreground. In the background it may well be the user's work, and nothing waits for the child.
    fn pause(&mut self) {
        if !self.undone.is_paused && !self.request.background.has_begun() {
            self.child.signal(Signal::STOP);
            self.undone.is_paused = true;
        }
    }

    /// Continues, unless there is something else to ask first.
    fn resume(&mut self) {
        if self.undone.is_paused && self.undone.waiting.is_empty() {
            self.child.signal(Signal::CONT);
            self.undone.is_paused = false;
        }
    }

    /// Kills a child in the foreground that has changed protected names again. In the background that may be the user.
    fn stop_if_again(&mut self) {
        if self.undone.is_again && !self.request.background.has_begun() {
            self.stop(Stop::Planted);
        }
    }
}

/// A question that is open.
struct UndoneQuestion {
    paths: Vec<PathBuf>,
    answer: BoxFuture<'static, Option<UndoneAnswer>>,
    waker: Waker,
}

impl UndoneQuestion {
    /// Asks about these. The thread of `orders` is woken by the answer.
    fn ask(requests: &ChildRequests, undone: UndoneChanges, orders: &Orders) -> UndoneQuestion {
        let paths = undone.changes.iter().map(|change| change.path.clone()).collect();
        let requests = requests.clone();
        let answer = Box::pin(async move { requests.ask_about_undone(undone).await });
        UndoneQuestion { paths, answer, waker: Waker::from(Arc::clone(orders.waker())) }
    }

    /// The files that it is about.
    fn into_paths(self) -> Vec<PathBuf> {
        self.paths
    }

    /// The answer, once there is one: none in it where no user could be asked.
    fn poll(&mut self) -> Poll<Option<UndoneAnswer>> {
        self.answer.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

/// Where a child's undone changes can be asked about.
fn requests_of(request: &ProcessRequest) -> Option<&ChildRequests> {
    request.child_requests.as_ref().filter(|requests| requests.has_user())
}

/// Asks about changes that were found when a child had ended, and waits for the answer unless the call is cancelled. The
/// files that are the user's.
pub(crate) fn ask_at_end(
    request: &ProcessRequest,
    orders: &Orders,
    changes: Vec<UndoneChange>,
) -> Vec<PathBuf> {
    let Some(requests) = requests_of(request).filter(|_| !changes.is_empty()) else { return Vec::new() };
    let undone = UndoneChanges { changes, is_running: false, is_paused: false };
    let mut question = UndoneQuestion::ask(requests, undone, orders);
    while !orders.is_over() {
        match question.poll() {
            Poll::Ready(Some(UndoneAnswer::Redo)) => return question.into_paths(),
            Poll::Ready(_) => break,
            Poll::Pending => orders.wait(),
        }
    }
    Vec::new()
}
