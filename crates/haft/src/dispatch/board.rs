//! The state of one turn, shared by its calls: who may go, who is done, and with what.
//!
//! Calls run in tasks of their own and move the scheduler themselves; there is no central loop to wake. The board
//! holds the one lock of a turn, never across an `await` and never while foreign code runs: wakers are called, jobs
//! refused and cancellations spread after it was given back. The first result of a call counts; whoever comes later,
//! because the call was abandoned or moved to the background meanwhile, gets its result back, also when all results
//! were taken long ago. That is what makes "exactly one" true under every race.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::scheduler::{ConflictRule, Footprint, Scheduler, Step};
use crate::cancel::{Cancel, Cause};
use crate::sync::{Mutex, lock};
use crate::tool::Interrupt;

/// The shared state of a turn. `Job` is what a call needs to begin, `Done` what it ends with.
pub(crate) struct Board<Job, Done> {
    state: Mutex<State<Job, Done>>,
}

struct State<Job, Done> {
    scheduler: Scheduler,
    slots: Vec<Slot<Job, Done>>,
    unfinished: usize,
    /// Who waits for the last result.
    waiter: Option<Waker>,
    /// The turn was stopped: calls that begin later, because they arrived later, are cancelled at once.
    stopped: Option<Cause>,
}

struct Slot<Job, Done> {
    /// Until the call begins.
    job: Option<Job>,
    /// Until the results are taken.
    done: Option<Done>,
    /// It is over, and its result is there, taken, or about to be given.
    ended: bool,
    /// Once it has begun.
    cancel: Option<Cancel>,
    interrupt: Interrupt,
    /// The call was told to go on, and who waits for that.
    go: bool,
    waker: Option<Waker>,
    /// Its tool itself runs: what has a slot may still wait for a file or for its tool's limit.
    running: bool,
}

/// A call that begins now.
pub(crate) struct Begin<Job> {
    pub(crate) call: usize,
    pub(crate) job: Job,
    pub(crate) cancel: Cancel,
    /// Others may be able to begin too.
    pub(crate) more: bool,
}

impl<Job, Done> Board<Job, Done> {
    pub(crate) fn new(rule: ConflictRule, cap: usize) -> Board<Job, Done> {
        let scheduler = Scheduler::new(rule, cap);
        let state = State { scheduler, slots: Vec::new(), unfinished: 0, waiter: None, stopped: None };
        Board { state: Mutex::new(state) }
    }

    pub(crate) fn reserve(&self, calls: usize) {
        let mut state = lock(&self.state);
        state.slots.reserve(calls);
        state.scheduler.reserve(calls);
    }

    /// A call arrives.
    pub(crate) fn push(
        &self,
        job: Job,
        footprint: Footprint,
        tool: u32,
        limit: Option<usize>,
        interrupt: Interrupt,
    ) -> usize {
        let mut state = lock(&self.state);
        state.slots.push(Slot {
            job: Some(job),
            done: None,
            ended: false,
            cancel: None,
            interrupt,
            go: false,
            waker: None,
            running: false,
        });
        state.unfinished += 1;
        state.scheduler.push(footprint, tool, limit)
    }

    /// The message ended well: everything may start.
    pub(crate) fn complete(&self) {
        lock(&self.state).scheduler.complete();
    }

    /// Lets the next one go who may: wakes calls that waited, and returns one that begins. To be asked again while
    /// the one that begins says so. `cancel` makes the cancellation of a call.
    pub(crate) fn next(&self, cancel: impl Fn() -> Cancel) -> Option<Begin<Job>> {
        let mut woken = Vec::new();
        let (begin, stopped) = {
            let mut state = lock(&self.state);
            (state.next(cancel, &mut woken), state.stopped)
        };
        woken.into_iter().for_each(Waker::wake);
        if let (Some(begin), Some(cause)) = (&begin, stopped) {
            begin.cancel.cancel(cause);
        }
        begin
    }

    /// Everybody who may go now.
    #[cfg(test)]
    pub(crate) fn pump(&self, cancel: impl Fn() -> Cancel) -> Vec<(Begin<Job>, Cancel)> {
        let begin = std::iter::from_fn(|| self.next(&cancel));
        begin
            .map(|begin| {
                let cancel = begin.cancel.clone();
                (begin, cancel)
            })
            .collect()
    }

    /// The call asks the user.
    pub(crate) fn asking(&self, call: usize) {
        lock(&self.state).scheduler.asking(call);
    }

    /// What a call touches turned out otherwise. False if it has to [`wait`](Board::wait) until it may prepare again.
    pub(crate) fn reconsider(&self, call: usize, footprint: Footprint) -> bool {
        let mut state = lock(&self.state);
        state.slots[call].go = false;
        state.scheduler.reconsider(call, footprint)
    }

    /// The call may run. False if it has to [`wait`](Board::wait) for a slot.
    pub(crate) fn authorized(&self, call: usize) -> bool {
        let mut state = lock(&self.state);
        let at_once = state.scheduler.authorized(call);
        state.slots[call].go = at_once;
        at_once
    }

    /// The tool itself starts now: an interrupt spares it from here on, if it says so. Returns the cause if the turn was
    /// stopped before, which may be about to reach the call.
    pub(crate) fn runs(&self, call: usize) -> Option<Cause> {
        let mut state = lock(&self.state);
        state.slots[call].running = true;
        state.stopped
    }

    /// Waits until the call is told to go on.
    pub(crate) fn wait(&self, call: usize) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(move |cx| {
            let waker = cx.waker().clone();
            let before = {
                let mut state = lock(&self.state);
                let slot = &mut state.slots[call];
                if std::mem::take(&mut slot.go) {
                    return Poll::Ready(());
                }
                slot.waker.replace(waker)
            };
            drop(before);
            Poll::Pending
        })
    }

    /// The same for a call that runs and waits to go on: false if it was ended meanwhile, so that nobody tells it any more.
    pub(crate) fn wait_unless_done(&self, call: usize) -> impl Future<Output = bool> + '_ {
        std::future::poll_fn(move |cx| {
            let waker = cx.waker().clone();
            let before = {
                let mut state = lock(&self.state);
                let slot = &mut state.slots[call];
                if slot.ended || slot.go {
                    return Poll::Ready(std::mem::take(&mut slot.go) && !slot.ended);
                }
                slot.waker.replace(waker)
            };
            drop(before);
            Poll::Pending
        })
    }

    /// The call ends with this, unless it has ended before: then it is given back. `finish` sees whether the call ran
    /// beside another. Returns whether there are calls left that may go now.
    pub(crate) fn finish(
        &self,
        call: usize,
        done: Done,
        finish: impl FnOnce(Done, bool) -> Done,
    ) -> Result<bool, Done> {
        let (left, waiter, others) = {
            let mut state = lock(&self.state);
            if state.slots[call].ended {
                return Err(done);
            }
            let was_concurrent = state.scheduler.was_concurrent(call);
            let left = state.end(call);
            let waiter = state.give(call, finish(done, was_concurrent));
            (left, waiter, state.unfinished > 0)
        };
        left_by(left);
        waiter.into_iter().for_each(Waker::wake);
        Ok(others)
    }

    /// The first half of [`finish`](Board::finish), for who has something to say before the result is there: the call
    /// is over and nobody else may end it. Returns whether it ran beside another, or nothing if it ended before.
    pub(crate) fn claim(&self, call: usize) -> Option<bool> {
        let (left, was_concurrent) = {
            let mut state = lock(&self.state);
            if state.slots[call].ended {
                return None;
            }
            let was_concurrent = state.scheduler.was_concurrent(call);
            (state.end(call), was_concurrent)
        };
        left_by(left);
        Some(was_concurrent)
    }

    /// The second half: the result of a call that was claimed. Returns whether there are calls left that may go now.
    pub(crate) fn give(&self, call: usize, done: Done) -> bool {
        let (waiter, others) = {
            let mut state = lock(&self.state);
            (state.give(call, done), state.unfinished > 0)
        };
        waiter.into_iter().for_each(Waker::wake);
        others
    }

    /// Whether the call has its result, or somebody is about to give it one that counts.
    pub(crate) fn is_done(&self, call: usize) -> bool {
        lock(&self.state).slots[call].ended
    }

    /// Ends every call that has not begun, with what `refuse` makes of it, and cancels those that have: all of them if
    /// `force`, else those that may be interrupted. Calls that are still being prepared change nothing and always may.
    /// Calls that arrive from now on are cancelled as they begin.
    pub(crate) fn stop(&self, cause: Cause, force: bool, refuse: impl Fn(usize, Job) -> Done) {
        let (mut unbegun, mut cancels) = (Vec::new(), Vec::new());
        {
            let mut state = lock(&self.state);
            state.stopped.get_or_insert(cause);
            for call in 0..state.slots.len() {
                let slot = &mut state.slots[call];
                match slot.job.take() {
                    // It ends here, so that nobody waits for it; its result takes foreign code, so it comes below.
                    Some(job) => unbegun.push((call, job, state.end(call))),
                    None if force || !slot.running || slot.interrupt == Interrupt::Cancel => {
                        cancels.extend(slot.cancel.clone());
                    }
                    None => {}
                }
            }
        }
        cancels.into_iter().for_each(|cancel: Cancel| cancel.cancel(cause));
        let refused: Vec<(usize, Done)> =
            unbegun.into_iter().map(|(call, job, _)| (call, refuse(call, job))).collect();
        let waiter = {
            let mut state = lock(&self.state);
            refused.into_iter().filter_map(|(call, done)| state.give(call, done)).last()
        };
        waiter.into_iter().for_each(Waker::wake);
    }

    /// Stops the calls of the batch that runs now, other than this one.
    pub(crate) fn stop_siblings(&self, of: usize) {
        let cancels: Vec<Cancel> = {
            let state = lock(&self.state);
            let siblings = state.slots.iter().enumerate().filter(|(call, _)| *call != of);
            let active = siblings.filter(|(call, _)| state.scheduler.is_active(*call));
            active.filter_map(|(_, slot)| slot.cancel.clone()).collect()
        };
        cancels.into_iter().for_each(|cancel| cancel.cancel(Cause::Sibling));
    }

    /// All results in call order, once the last one is there.
    pub(crate) fn results(&self) -> Results<'_, Job, Done> {
        Results { board: self }
    }
}

impl<Job, Done> State<Job, Done> {
    fn next(&mut self, cancel: impl Fn() -> Cancel, woken: &mut Vec<Waker>) -> Option<Begin<Job>> {
        while let Some(step) = self.scheduler.step() {
            let (Step::Prepare(call) | Step::Run(call)) = step;
            let slot = &mut self.slots[call];
            if let Some(job) = slot.job.take() {
                let cancel = cancel();
                slot.cancel = Some(cancel.clone());
                let more = !self.scheduler.is_exhausted();
                return Some(Begin { call, job, cancel, more });
            }
            slot.go = true;
            woken.extend(slot.waker.take());
        }
        None
    }

    /// The call is over. What it leaves is to be dropped after the lock was given back.
    #[must_use]
    fn end(&mut self, call: usize) -> (Option<Cancel>, Option<Waker>) {
        let slot = &mut self.slots[call];
        slot.ended = true;
        slot.running = false;
        let left = (slot.cancel.take(), slot.waker.take());
        self.scheduler.finished(call);
        left
    }

    /// The result of a call that is over. Returns who has to be woken, if it was the last one.
    #[must_use]
    fn give(&mut self, call: usize, done: Done) -> Option<Waker> {
        self.slots[call].done = Some(done);
        self.unfinished -= 1;
        if self.unfinished == 0 { self.waiter.take() } else { None }
    }
}

/// What a call leaves that is over. If it was ended by others while it waited, it finds out.
fn left_by((cancel, waker): (Option<Cancel>, Option<Waker>)) {
    drop(cancel);
    waker.into_iter().for_each(Waker::wake);
}

/// The future of [`Board::results`].
pub(crate) struct Results<'a, Job, Done> {
    board: &'a Board<Job, Done>,
}

impl<Job, Done> Future for Results<'_, Job, Done> {
    type Output = Vec<Done>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Done>> {
        let waker = cx.waker().clone();
        let before = {
            let mut state = lock(&self.board.state);
            if state.unfinished == 0 {
                return Poll::Ready(state.slots.iter_mut().filter_map(|slot| slot.done.take()).collect());
            }
            state.waiter.replace(waker)
        };
        drop(before);
        Poll::Pending
    }
}

#[cfg(all(test, not(shuttle)))]
#[path = "board_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(shuttle)]
#[path = "board_shuttle_tests.rs"]
mod shuttle_tests;
