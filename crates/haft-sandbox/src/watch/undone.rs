//! Changes of protected names that were undone while a child runs: the user is asked about them.
//!
//! They may be the user's own work, which nothing can tell from what the child does. So a child in the
//! foreground is paused, and the user decides. Where no user can be asked, or none answers in time, a child
//! that does it again is killed.
//!
//! Where several children run in the foreground, any of them may have made the change: the thread of one
//! asks, and the others are paused until there is a decision, however the asking child ends.
//!
//! The thread of a child waits for several things at once, so a question is polled, and wakes the thread when
//! there is an answer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use haft::future::BoxFuture;
use haft::ports::{
    ChildRequests, ConfinementRefusal, KillReason, ProcessRequest, UndoneAnswer, UndoneChange, UndoneChanges,
};
use haft::sync::lock;
use rustix::process::Signal;

use super::{ChildOrders, ChildWatch, StopReason, UndoneNotice};
use crate::limits;

/// Pauses the children that run beside the one that asks. Dropping it resumes them.
#[derive(Default)]
pub(crate) struct PauseHold(Mutex<Vec<ChildOrders>>);

impl Drop for PauseHold {
    fn drop(&mut self) {
        lock(&self.0).iter().for_each(ChildOrders::wake);
    }
}

/// Changes of protected names that were undone while a child runs.
#[derive(Default)]
pub(super) struct UndoneState {
    /// Those that no question is about yet.
    waiting: Vec<UndoneChange>,
    /// When they are asked about: more may come in the moment in which the child is paused.
    pub(super) ask_at: Option<Instant>,
    /// What this child's thread pauses others by until there is a decision.
    holds: Vec<Arc<PauseHold>>,
    /// What the threads of others pause this child by.
    held_by: Vec<Weak<PauseHold>>,
    /// When they did so first, and how long it took before.
    held_since: Option<Instant>,
    pub(super) held_for: Duration,
    question: Option<UndoneQuestion>,
    /// How often the user was asked.
    questions: usize,
    /// The child did it again, so it is killed if no user can be asked.
    is_again: bool,
    /// The child is paused.
    pub(super) is_paused: bool,
}

impl UndoneState {
    /// When there is something to do although nothing was heard.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let closes_at = self.question.as_ref().map(|question| question.closes_at);
        self.ask_at.into_iter().chain(closes_at).min()
    }

    /// Whether the thread of another child holds this one.
    fn is_held(&self) -> bool {
        self.held_by.iter().any(|hold| hold.strong_count() > 0)
    }

    /// Whether this child's thread still has to decide about something.
    fn is_undecided(&self) -> bool {
        !self.waiting.is_empty() || self.question.is_some()
    }
}

impl ChildWatch<'_> {
    /// Looks at what was undone: the user is asked, or a child that does it again is killed.
    pub(super) fn note_undone(&mut self) {
        let notices = self.orders.take_undone();
        if self.ended.is_some() || self.stop.is_some() || self.killed {
            return;
        }
        for notice in notices {
            match notice {
                UndoneNotice::Decide { change, is_again, hold } => {
                    self.undone.is_again |= is_again;
                    match change.filter(|_| requests_of(self.request).is_some()) {
                        Some(change) => {
                            self.undone.waiting.push(change);
                            self.undone.holds.push(hold);
                        }
                        None => self.stop_if_again(),
                    }
                }
                UndoneNotice::Pause(hold) => self.hold(hold),
            }
        }
        self.resume();
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
            self.undone.holds.clear();
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
        if self.undone.waiting.is_empty() {
            self.undone.holds.clear();
        }
        let Some(answer) = answer else {
            self.stop_if_again();
            return self.resume();
        };
        self.undone.is_again = false;
        let paths = question.into_paths();
        let said = self.keeper.answered(&paths, answer == UndoneAnswer::Redo);
        self.said.extend(said);
        if answer == UndoneAnswer::StopChild {
            let stopped = |path| ConfinementRefusal::Changed {
                path,
                done: "the user stopped the command because of it".into(),
            };
            self.said.extend(paths.into_iter().next().map(stopped));
            self.stop(StopReason::Killed(KillReason::StoppedByUser));
        }
        self.resume();
    }

    /// Pauses a child in the foreground. In the background it may well be the user's work, and nothing waits
    /// for the child.
    fn pause(&mut self) {
        if !self.undone.is_paused && !self.request.background.has_begun() {
            self.child.signal(Signal::STOP);
            self.undone.is_paused = true;
        }
    }

    /// Pauses a child in the foreground until the thread of another one has decided.
    fn hold(&mut self, hold: Weak<PauseHold>) {
        let Some(held_by) = hold.upgrade().filter(|_| !self.request.background.has_begun()) else { return };
        lock(&held_by.0).push(self.orders.clone());
        self.pause();
        self.undone.held_since.get_or_insert_with(Instant::now);
        self.undone.held_by.push(hold);
    }

    /// Continues, unless there is something to ask first, here or by the thread of another child.
    fn resume(&mut self) {
        if self.undone.is_held() {
            return;
        }
        self.undone.held_by.clear();
        let held_since = self.undone.held_since.take();
        self.undone.held_for += held_since.map_or(Duration::ZERO, |since| since.elapsed());
        if self.undone.is_paused && !self.undone.is_undecided() {
            self.child.signal(Signal::CONT);
            self.undone.is_paused = false;
        }
    }

    /// Kills a child in the foreground that has changed protected names again. In the background that may be
    /// the user.
    fn stop_if_again(&mut self) {
        if self.undone.is_again && !self.request.background.has_begun() {
            self.stop(StopReason::Killed(KillReason::ProtectedFiles));
        }
    }
}

/// A question that is open.
struct UndoneQuestion {
    paths: Vec<PathBuf>,
    answer: BoxFuture<'static, Option<UndoneAnswer>>,
    waker: Waker,
    /// When it counts as not answered.
    closes_at: Instant,
}

impl UndoneQuestion {
    /// Asks about these. The thread of `orders` is woken by the answer.
    fn ask(requests: &ChildRequests, undone: UndoneChanges, orders: &ChildOrders) -> UndoneQuestion {
        let paths = undone.changes.iter().map(|change| change.path.clone()).collect();
        let requests = requests.clone();
        let answer = Box::pin(async move { requests.ask_about_undone(undone).await });
        let waker = Waker::from(Arc::clone(orders.waker()));
        UndoneQuestion { paths, answer, waker, closes_at: Instant::now() + limits::QUESTION_TIMEOUT }
    }

    /// The files that it is about.
    fn into_paths(self) -> Vec<PathBuf> {
        self.paths
    }

    /// The answer, once there is one: none in it where no user could be asked, or none answered in time.
    fn poll(&mut self) -> Poll<Option<UndoneAnswer>> {
        match self.answer.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            Poll::Pending if Instant::now() >= self.closes_at => Poll::Ready(None),
            answer => answer,
        }
    }
}

/// Where a child's undone changes can be asked about.
fn requests_of(request: &ProcessRequest) -> Option<&ChildRequests> {
    request.child_requests.as_ref().filter(|requests| requests.has_user())
}

/// Asks about changes that were found when a child had ended, and waits for the answer unless the call is
/// cancelled. The files that are the user's.
pub(crate) fn ask_at_end(
    request: &ProcessRequest,
    orders: &ChildOrders,
    changes: Vec<UndoneChange>,
) -> Vec<PathBuf> {
    let Some(requests) = requests_of(request).filter(|_| !changes.is_empty()) else { return Vec::new() };
    let undone = UndoneChanges { changes, is_running: false, is_paused: false };
    let mut question = UndoneQuestion::ask(requests, undone, orders);
    while !orders.is_over() {
        match question.poll() {
            Poll::Ready(Some(UndoneAnswer::Redo)) => return question.into_paths(),
            Poll::Ready(_) => break,
            Poll::Pending => orders.wait_until(question.closes_at),
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_not_answered_in_time_counts_as_withdrawn() {
        let (requests, mut queue) = ChildRequests::channel();
        let orders = ChildOrders::new().unwrap();
        let undone = UndoneChanges { changes: Vec::new(), is_running: true, is_paused: true };
        let mut question = UndoneQuestion::ask(&requests, undone, &orders);
        assert_eq!(question.poll(), Poll::Pending);
        let mut next = Box::pin(queue.next());
        let asked = next.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(asked, Poll::Ready(Some(_))), "{asked:?}");
        question.closes_at = Instant::now();
        assert_eq!(question.poll(), Poll::Ready(None));
    }
}
