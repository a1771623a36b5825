//! The state of one turn, shared by its calls: who may go, who is done, and with what.
//!
//! Calls run in tasks of their own and move the scheduler themselves; there is no central loop to wake. The board
//! holds the one lock of a turn, never across an `await` and never while foreign code runs. The first result of a call
//! counts; whoever comes later, because the call was abandoned or moved to the background meanwhile, gets its result
//! back. That is what makes "exactly one" true under every race.

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
}

struct Slot<Job, Done> {
    /// Until the call begins.
    job: Option<Job>,
    done: Option<Done>,
    /// Once it has begun.
    cancel: Option<Cancel>,
    interrupt: Interrupt,
    /// The call was told to go on, and who waits for that.
    go: bool,
    waker: Option<Waker>,
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
        Board { state: Mutex::new(State { scheduler, slots: Vec::new(), unfinished: 0, waiter: None }) }
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
        let (job, done) = (Some(job), None);
        state.slots.push(Slot { job, done, cancel: None, interrupt, go: false, waker: None, running: false });
        state.unfinished += 1;
        state.scheduler.push(footprint, tool, limit)
    }

    /// The message ended well: everything may start. Then as [`next`](Board::next).
    pub(crate) fn complete(&self, cancel: impl Fn() -> Cancel) -> Option<Begin<Job>> {
        let mut state = lock(&self.state);
        state.scheduler.complete();
        state.next(cancel)
    }

    /// Lets the next one go who may: wakes calls that waited, and returns one that begins. To be asked again while
    /// the one that begins says so. `cancel` makes the cancellation of a call.
    pub(crate) fn next(&self, cancel: impl Fn() -> Cancel) -> Option<Begin<Job>> {
        lock(&self.state).next(cancel)
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
        state.slots[call].running = at_once;
        state.slots[call].go = at_once;
        at_once
    }

    /// Waits until the call is told to go on.
    pub(crate) fn wait(&self, call: usize) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(move |cx| {
            let mut state = lock(&self.state);
            let slot = &mut state.slots[call];
            if std::mem::take(&mut slot.go) {
                return Poll::Ready(());
            }
            slot.waker = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// The call ends with this, unless it has ended before: then it is given back. `finish` sees whether the call ran
    /// beside another.
    ///
    /// Returns whether there are calls left that may go now.
    pub(crate) fn finish(
        &self,
        call: usize,
        done: Done,
        finish: impl FnOnce(Done, bool) -> Done,
    ) -> Result<bool, Done> {
        let mut state = lock(&self.state);
        if state.slots[call].done.is_some() {
            return Err(done);
        }
        let was_concurrent = state.scheduler.was_concurrent(call);
        state.end(call, finish(done, was_concurrent));
        Ok(state.unfinished > 0)
    }

    /// Whether the call has its result.
    pub(crate) fn is_done(&self, call: usize) -> bool {
        lock(&self.state).slots[call].done.is_some()
    }

    /// Ends every call that has not begun, with what `refuse` makes of it, and cancels those that have: all of them if
    /// `force`, else those that may be interrupted. Calls that are still being prepared change nothing and always may.
    pub(crate) fn stop(&self, cause: Cause, force: bool, refuse: impl Fn(Job) -> Done) {
        let mut cancels = Vec::new();
        let mut state = lock(&self.state);
        let state = &mut *state;
        for call in 0..state.slots.len() {
            let slot = &mut state.slots[call];
            if slot.done.is_some() {
                continue;
            }
            match slot.job.take() {
                Some(job) => state.end(call, refuse(job)),
                None if force || !slot.running || slot.interrupt == Interrupt::Cancel => {
                    cancels.extend(slot.cancel.clone());
                }
                None => {}
            }
        }
        cancels.into_iter().for_each(|cancel| cancel.cancel(cause));
    }

    /// Stops the calls of the batch that runs now, other than this one.
    pub(crate) fn stop_siblings(&self, of: usize) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let mut cancels = Vec::new();
        for call in (0..state.slots.len()).filter(|call| *call != of) {
            if state.scheduler.is_active(call) {
                cancels.extend(state.slots[call].cancel.clone());
            }
        }
        cancels.into_iter().for_each(|cancel| cancel.cancel(Cause::Sibling));
    }

    /// All results in call order, once the last one is there.
    pub(crate) fn results(&self) -> Results<'_, Job, Done> {
        Results { board: self }
    }
}

impl<Job, Done> State<Job, Done> {
    fn next(&mut self, cancel: impl Fn() -> Cancel) -> Option<Begin<Job>> {
        while let Some(step) = self.scheduler.step() {
            let (Step::Prepare(call) | Step::Run(call)) = step;
            let slot = &mut self.slots[call];
            if let Some(job) = slot.job.take() {
                let cancel = cancel();
                slot.cancel = Some(cancel.clone());
                let more = !self.scheduler.is_exhausted();
                return Some(Begin { call, job, cancel, more });
            }
            slot.running = matches!(step, Step::Run(_));
            slot.go = true;
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        None
    }

    fn end(&mut self, call: usize, done: Done) {
        let slot = &mut self.slots[call];
        slot.done = Some(done);
        slot.cancel = None;
        slot.running = false;
        slot.waker = None;
        self.scheduler.finished(call);
        self.unfinished -= 1;
        if self.unfinished == 0
            && let Some(waiter) = self.waiter.take()
        {
            waiter.wake();
        }
    }
}

/// The future of [`Board::results`].
pub(crate) struct Results<'a, Job, Done> {
    board: &'a Board<Job, Done>,
}

impl<Job, Done> Future for Results<'_, Job, Done> {
    type Output = Vec<Done>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Done>> {
        let mut state = lock(&self.board.state);
        if state.unfinished > 0 {
            state.waiter = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(state.slots.iter_mut().filter_map(|slot| slot.done.take()).collect())
    }
}
