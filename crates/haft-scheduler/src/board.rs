//! The shared state of one turn: which calls may go, which are done, and with what results.
//!
//! Calls run in tasks of their own and advance the scheduler themselves; there is no central loop to wake. The board
//! holds the one lock of a turn, never across an `await` and never while foreign code runs: it calls wakers, refuses
//! jobs and spreads cancellations after releasing the lock.
//!
//! The first result of a call counts. A later result, of a call that was abandoned or moved to the background meanwhile,
//! is handed back, also after all results were taken. This is what makes "exactly one result" true under every race.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::cancel::{Cancel, Cause};
use crate::scheduler::{ConflictRule, Footprint, Interrupt, Scheduler, SchedulerLimits, SchedulerStep};
use crate::sync::{Mutex, lock};

/// The shared state of a turn. `Job` is what a call needs to begin, `Done` is its result.
pub struct CallBoard<Job, Done> {
    state: Mutex<BoardState<Job, Done>>,
}

struct BoardState<Job, Done> {
    scheduler: Scheduler,
    calls: Vec<CallSlot<Job, Done>>,
    unfinished: usize,
    /// Waits for the last result.
    results_waker: Option<Waker>,
    /// The cause if the turn was stopped: calls that arrive and begin later are cancelled at once.
    stopped: Option<Cause>,
}

struct CallSlot<Job, Done> {
    /// Present until the call begins.
    job: Option<Job>,
    /// Present until the results are taken.
    done: Option<Done>,
    /// The call is over, and its result is present, taken, or about to be delivered.
    ended: bool,
    /// Present once the call has begun.
    cancel: Option<Cancel>,
    interrupt: Interrupt,
    /// The call may continue; `waker` waits for that.
    may_continue: bool,
    waker: Option<Waker>,
    /// The tool itself runs. A call with a slot may still wait for a file lock or its tool's limit.
    running: bool,
}

/// A call to add to a board.
pub struct NewCall<Job> {
    /// What the call needs to begin.
    pub job: Job,
    /// What the scheduler knows of the call.
    pub footprint: Footprint,
    /// The number of its tool.
    pub tool: u32,
    /// How many calls of this tool may run at the same time.
    pub limit: Option<usize>,
    /// What an interrupt does to the call while its tool runs.
    pub interrupt: Interrupt,
}

/// A call that begins now.
pub struct StartedCall<Job> {
    /// The number of the call.
    pub call: usize,
    /// What the call needs to begin.
    pub job: Job,
    /// The cancellation of the call.
    pub cancel: Cancel,
    /// Other calls may be able to begin too.
    pub more: bool,
}

impl<Job, Done> CallBoard<Job, Done> {
    /// Creates a board without calls.
    pub fn new(rule: ConflictRule, limits: SchedulerLimits) -> CallBoard<Job, Done> {
        let scheduler = Scheduler::new(rule, limits);
        let state =
            BoardState { scheduler, calls: Vec::new(), unfinished: 0, results_waker: None, stopped: None };
        CallBoard { state: Mutex::new(state) }
    }

    /// Reserves space for this many more calls.
    pub fn reserve(&self, calls: usize) {
        let mut state = lock(&self.state);
        state.calls.reserve(calls);
        state.scheduler.reserve(calls);
    }

    /// Adds a call and returns its number.
    pub fn push(&self, call: NewCall<Job>) -> usize {
        let NewCall { job, footprint, tool, limit, interrupt } = call;
        let mut state = lock(&self.state);
        state.calls.push(CallSlot {
            job: Some(job),
            done: None,
            ended: false,
            cancel: None,
            interrupt,
            may_continue: false,
            waker: None,
            running: false,
        });
        state.unfinished += 1;
        state.scheduler.push(footprint, tool, limit)
    }

    /// Marks the message as complete: calls that aren't safe may start.
    pub fn complete(&self) {
        lock(&self.state).scheduler.complete();
    }

    /// Wakes waiting calls that may continue, and returns the next call that begins.
    ///
    /// Call it again while the returned call says that there may be more. `cancel` makes the cancellation of a call.
    pub fn next_call(&self, cancel: impl Fn() -> Cancel) -> Option<StartedCall<Job>> {
        let mut wakers = Vec::new();
        let (started, stopped) = {
            let mut state = lock(&self.state);
            (state.next_call(cancel, &mut wakers), state.stopped)
        };
        wakers.into_iter().for_each(Waker::wake);
        if let (Some(started), Some(cause)) = (&started, stopped) {
            started.cancel.cancel(cause);
        }
        started
    }

    /// Returns every call that may begin now.
    #[cfg(test)]
    pub(crate) fn start_all(&self, cancel: impl Fn() -> Cancel) -> Vec<(StartedCall<Job>, Cancel)> {
        let begin = std::iter::from_fn(|| self.next_call(&cancel));
        begin
            .map(|begin| {
                let cancel = begin.cancel.clone();
                (begin, cancel)
            })
            .collect()
    }

    /// Marks the call as waiting for the user.
    pub fn begin_asking(&self, call: usize) {
        lock(&self.state).scheduler.begin_asking(call);
    }

    /// Replaces the footprint of a call. Returns false if the call has to [`wait`](CallBoard::wait) until it may
    /// prepare again.
    pub fn reconsider(&self, call: usize, footprint: Footprint) -> bool {
        let mut state = lock(&self.state);
        state.calls[call].may_continue = false;
        state.scheduler.reconsider(call, footprint)
    }

    /// Asks for a slot. Returns false if the call has to [`wait`](CallBoard::wait) for one.
    pub fn authorize(&self, call: usize) -> bool {
        let mut state = lock(&self.state);
        let has_slot = state.scheduler.authorize(call);
        state.calls[call].may_continue = has_slot;
        has_slot
    }

    /// Marks that the tool itself starts: from here on an interrupt spares it if its [`Interrupt`] says so.
    ///
    /// Returns the cause if the turn was stopped before; the cancellation may not have reached the call yet.
    pub fn mark_running(&self, call: usize) -> Option<Cause> {
        let mut state = lock(&self.state);
        state.calls[call].running = true;
        state.stopped
    }

    /// Waits until the call may continue.
    pub fn wait(&self, call: usize) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(move |cx| {
            let waker = cx.waker().clone();
            let replaced = {
                let mut state = lock(&self.state);
                let slot = &mut state.calls[call];
                if std::mem::take(&mut slot.may_continue) {
                    return Poll::Ready(());
                }
                slot.waker.replace(waker)
            };
            drop(replaced);
            Poll::Pending
        })
    }

    /// Waits until a running call may continue. Returns false if the call was ended meanwhile.
    pub fn wait_unless_done(&self, call: usize) -> impl Future<Output = bool> + '_ {
        std::future::poll_fn(move |cx| {
            let waker = cx.waker().clone();
            let replaced = {
                let mut state = lock(&self.state);
                let slot = &mut state.calls[call];
                if slot.ended || slot.may_continue {
                    return Poll::Ready(std::mem::take(&mut slot.may_continue) && !slot.ended);
                }
                slot.waker.replace(waker)
            };
            drop(replaced);
            Poll::Pending
        })
    }

    /// Ends the call with a result. `finish` receives whether the call ran in parallel with another.
    ///
    /// Returns whether unfinished calls are left, which may be able to go now.
    ///
    /// # Errors
    /// The result, handed back, if the call has ended before.
    pub fn finish(
        &self,
        call: usize,
        done: Done,
        finish: impl FnOnce(Done, bool) -> Done,
    ) -> Result<bool, Done> {
        let (ended, results_waker, has_others) = {
            let mut state = lock(&self.state);
            if state.calls[call].ended {
                return Err(done);
            }
            let was_concurrent = state.scheduler.was_concurrent(call);
            let ended = state.end(call);
            let results_waker = state.deliver(call, finish(done, was_concurrent));
            (ended, results_waker, state.unfinished > 0)
        };
        ended.release();
        results_waker.into_iter().for_each(Waker::wake);
        Ok(has_others)
    }

    /// Ends the call before its result is known: the first half of [`finish`](CallBoard::finish), for callers that report
    /// the end before they [deliver](CallBoard::deliver) the result.
    ///
    /// Returns whether the call ran in parallel with another, or `None` if it has ended before.
    pub fn claim(&self, call: usize) -> Option<bool> {
        let (ended, was_concurrent) = {
            let mut state = lock(&self.state);
            if state.calls[call].ended {
                return None;
            }
            let was_concurrent = state.scheduler.was_concurrent(call);
            (state.end(call), was_concurrent)
        };
        ended.release();
        Some(was_concurrent)
    }

    /// Delivers the result of a claimed call. Returns whether unfinished calls are left.
    pub fn deliver(&self, call: usize, done: Done) -> bool {
        let (results_waker, has_others) = {
            let mut state = lock(&self.state);
            (state.deliver(call, done), state.unfinished > 0)
        };
        results_waker.into_iter().for_each(Waker::wake);
        has_others
    }

    /// Returns whether the call is over: its result is present, or about to be delivered.
    pub fn is_done(&self, call: usize) -> bool {
        lock(&self.state).calls[call].ended
    }

    /// Stops the turn.
    ///
    /// Calls that have not begun end with the result of `refuse`. Calls that have begun are cancelled: all of them if
    /// `force`, otherwise those that may be interrupted, which includes calls that are still being prepared. Calls that
    /// arrive later are cancelled as they begin.
    pub fn stop(&self, cause: Cause, force: bool, refuse: impl Fn(usize, Job) -> Done) {
        let (mut unbegun, mut cancels) = (Vec::new(), Vec::new());
        {
            let mut state = lock(&self.state);
            state.stopped.get_or_insert(cause);
            for call in 0..state.calls.len() {
                let slot = &mut state.calls[call];
                match slot.job.take() {
                    // The call ends here; `refuse` is foreign code and runs after the lock is released.
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
        let results_waker = {
            let mut state = lock(&self.state);
            refused.into_iter().filter_map(|(call, done)| state.deliver(call, done)).last()
        };
        results_waker.into_iter().for_each(Waker::wake);
    }

    /// Cancels the other calls of the batch that runs now.
    pub fn stop_siblings(&self, call: usize) {
        let cancels: Vec<Cancel> = {
            let state = lock(&self.state);
            let siblings = state.calls.iter().enumerate().filter(|(sibling, _)| *sibling != call);
            let active = siblings.filter(|(sibling, _)| state.scheduler.is_active(*sibling));
            active.filter_map(|(_, slot)| slot.cancel.clone()).collect()
        };
        cancels.into_iter().for_each(|cancel| cancel.cancel(Cause::Sibling));
    }

    /// Waits for the last result and returns all of them in call order.
    pub fn results(&self) -> CollectResults<'_, Job, Done> {
        CollectResults { board: self }
    }
}

impl<Job, Done> BoardState<Job, Done> {
    fn next_call(
        &mut self,
        cancel: impl Fn() -> Cancel,
        wakers: &mut Vec<Waker>,
    ) -> Option<StartedCall<Job>> {
        while let Some(step) = self.scheduler.step() {
            let (SchedulerStep::Prepare(call) | SchedulerStep::Run(call)) = step;
            let slot = &mut self.calls[call];
            if let Some(job) = slot.job.take() {
                let cancel = cancel();
                slot.cancel = Some(cancel.clone());
                let more = !self.scheduler.is_exhausted();
                return Some(StartedCall { call, job, cancel, more });
            }
            slot.may_continue = true;
            wakers.extend(slot.waker.take());
        }
        None
    }

    /// Ends the call. The caller releases what it leaves after unlocking.
    #[must_use]
    fn end(&mut self, call: usize) -> EndedCall {
        let slot = &mut self.calls[call];
        slot.ended = true;
        slot.running = false;
        let ended = EndedCall { cancel: slot.cancel.take(), waker: slot.waker.take() };
        self.scheduler.finish(call);
        ended
    }

    /// Stores the result of a call that is over. Returns the waker to call if it was the last one.
    #[must_use]
    fn deliver(&mut self, call: usize, done: Done) -> Option<Waker> {
        self.calls[call].done = Some(done);
        self.unfinished -= 1;
        if self.unfinished == 0 { self.results_waker.take() } else { None }
    }
}

/// What an ended call leaves behind, to be released without the lock.
struct EndedCall {
    cancel: Option<Cancel>,
    waker: Option<Waker>,
}

impl EndedCall {
    /// Drops the cancellation and wakes the call if it still waits, so that it learns that it was ended.
    fn release(self) {
        drop(self.cancel);
        self.waker.into_iter().for_each(Waker::wake);
    }
}

/// The future of [`CallBoard::results`].
pub struct CollectResults<'a, Job, Done> {
    board: &'a CallBoard<Job, Done>,
}

impl<Job, Done> Future for CollectResults<'_, Job, Done> {
    type Output = Vec<Done>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Done>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = lock(&self.board.state);
            if state.unfinished == 0 {
                return Poll::Ready(state.calls.iter_mut().filter_map(|slot| slot.done.take()).collect());
            }
            state.results_waker.replace(waker)
        };
        drop(replaced);
        Poll::Pending
    }
}
