//! The shared state of an agent's calls: which calls may go, which are done, and with what results.
//!
//! Calls run in tasks of their own and advance the scheduler themselves; there is no central loop to wake.
//! The board holds the one lock, never across an `await` and never while foreign code runs: it calls wakers,
//! refuses jobs and spreads cancellations after releasing the lock.
//!
//! A [`CallBatch`] is the calls of one turn, or one submitted call. Batches share the order, the conflicts
//! and the slots of the board; results, interrupts and siblings are each batch's own. The board forgets a
//! call when it ends and a batch when its owner drops it, so it doesn't grow with the number of calls.
//!
//! The first result of a call counts. A later result, of a call that was abandoned or moved to the background
//! meanwhile, is handed back, also after all results were taken. This is what makes "exactly one result" true
//! under every race.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::call_map::CallMap;
use crate::cancel::{Cancel, Cause};
use crate::scheduler::{
    BatchId, ConflictRule, Footprint, Interrupt, Scheduler, SchedulerLimits, SchedulerStep,
};
use crate::sync::{Arc, Mutex, lock};

/// The shared state of an agent's calls. `Job` is what a call needs to begin, `Done` is its result. Clones
/// are the same board.
pub struct CallBoard<Job, Done> {
    state: Arc<Mutex<BoardState<Job, Done>>>,
}

impl<Job, Done> Clone for CallBoard<Job, Done> {
    fn clone(&self) -> CallBoard<Job, Done> {
        CallBoard { state: self.state.clone() }
    }
}

/// Calls of a board whose results belong together. Calls are addressed by their index in the batch.
///
/// Dropping it forgets the batch and its calls. The owner has stopped it or taken its results by then.
pub struct CallBatch<Job, Done> {
    board: CallBoard<Job, Done>,
    id: BatchId,
}

struct BoardState<Job, Done> {
    scheduler: Scheduler,
    /// The calls that aren't done.
    calls: CallMap<CallSlot<Job>>,
    batches: CallMap<BatchState<Done>>,
}

struct BatchState<Done> {
    numbers: CallNumbers,
    /// The results, by index. Present from the end of a call until they are taken.
    results: Vec<Option<Done>>,
    /// Calls without a result.
    unfinished: usize,
    /// Waits for the last result.
    results_waker: Option<Waker>,
    /// The cause if the batch was stopped: calls that arrive and begin later are cancelled at once.
    stopped: Option<Cause>,
}

/// The numbers of the calls of a batch, by index. They are consecutive, unless calls of other batches came in
/// between.
#[derive(Default)]
struct CallNumbers {
    /// The number of the first call.
    first: usize,
    /// Where numbers were left out: the index of the call behind that, and its number.
    gaps: Vec<(usize, usize)>,
}

impl CallNumbers {
    /// Adds the number of the call with the next index.
    fn push(&mut self, index: usize, number: usize) {
        if index == 0 {
            self.first = number;
        } else if self.number(index) != number {
            self.gaps.push((index, number));
        }
    }

    fn number(&self, index: usize) -> usize {
        match self.gaps.partition_point(|(from, _)| *from <= index) {
            0 => self.first + index,
            after => self.gaps[after - 1].1 + index - self.gaps[after - 1].0,
        }
    }
}

/// A call that isn't done.
struct CallSlot<Job> {
    batch: BatchId,
    index: usize,
    /// Present until the call begins.
    job: Option<Job>,
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
    /// The index of the call in its batch.
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
        let state = BoardState { scheduler, calls: CallMap::default(), batches: CallMap::default() };
        CallBoard { state: Arc::new(Mutex::new(state)) }
    }

    /// Opens a batch without calls.
    pub fn open_batch(&self) -> CallBatch<Job, Done> {
        let mut state = lock(&self.state);
        let id = state.scheduler.open_batch();
        let batch = BatchState {
            numbers: CallNumbers::default(),
            results: Vec::new(),
            unfinished: 0,
            results_waker: None,
            stopped: None,
        };
        state.batches.insert(id.0, batch);
        drop(state);
        CallBatch { board: self.clone(), id }
    }

    /// Returns how many calls of all batches aren't done.
    pub fn unfinished(&self) -> usize {
        lock(&self.state).calls.len()
    }

    /// Wakes waiting calls that may continue, and returns the next call that begins, of whichever batch.
    ///
    /// Call it again while the returned call says that there may be more. `cancel` makes the cancellation of
    /// a call.
    pub fn next_call(&self, cancel: impl Fn() -> Cancel) -> Option<StartedCall<Job>> {
        let mut wakers = Vec::new();
        let next = lock(&self.state).next_call(cancel, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        let (started, stopped) = next?;
        if let Some(cause) = stopped {
            started.cancel.cancel(cause);
        }
        Some(started)
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

    /// Returns how many calls and batches the board remembers.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> (usize, usize) {
        let state = lock(&self.state);
        (state.calls.len().max(state.scheduler.unfinished()), state.batches.len())
    }
}

impl<Job, Done> CallBatch<Job, Done> {
    /// Returns the number of a call on the board: its place in the order of all batches.
    #[cfg(test)]
    #[allow(dead_code, reason = "used by the model check alone")]
    pub(crate) fn number(&self, call: usize) -> usize {
        lock(&self.board.state).number(self.id, call)
    }

    /// Returns the board of the batch.
    pub fn board(&self) -> &CallBoard<Job, Done> {
        &self.board
    }

    /// Reserves space for this many more calls.
    pub fn reserve(&self, calls: usize) {
        let mut state = lock(&self.board.state);
        state.calls.reserve(calls);
        state.scheduler.reserve(calls);
        state.batches[self.id.0].results.reserve(calls);
    }

    /// Adds a call and returns its index in the batch.
    pub fn push(&self, call: NewCall<Job>) -> usize {
        let NewCall { job, footprint, tool, limit, interrupt } = call;
        let mut state = lock(&self.board.state);
        let number = state.scheduler.push(self.id, footprint, tool, limit);
        let batch = &mut state.batches[self.id.0];
        let index = batch.results.len();
        batch.numbers.push(index, number);
        batch.results.push(None);
        batch.unfinished += 1;
        state.calls.insert(
            number,
            CallSlot {
                batch: self.id,
                index,
                job: Some(job),
                cancel: None,
                interrupt,
                may_continue: false,
                waker: None,
                running: false,
            },
        );
        index
    }

    /// Marks the message as complete: calls that aren't safe may start.
    pub fn complete(&self) {
        lock(&self.board.state).scheduler.complete(self.id);
    }

    /// Marks the call as waiting for the user.
    pub fn begin_asking(&self, call: usize) {
        let mut state = lock(&self.board.state);
        let number = state.number(self.id, call);
        state.scheduler.begin_asking(number);
    }

    /// Replaces the footprint of a call. Returns false if the call has to [`wait`](CallBatch::wait) until it
    /// may prepare again.
    pub fn reconsider(&self, call: usize, footprint: Footprint) -> bool {
        let mut state = lock(&self.board.state);
        let number = state.number(self.id, call);
        if let Some(slot) = state.calls.get_mut(number) {
            slot.may_continue = false;
        }
        state.scheduler.reconsider(number, footprint)
    }

    /// Asks for a slot. Returns false if the call has to [`wait`](CallBatch::wait) for one.
    pub fn authorize(&self, call: usize) -> bool {
        let mut state = lock(&self.board.state);
        let number = state.number(self.id, call);
        let has_slot = state.scheduler.authorize(number);
        if let Some(slot) = state.calls.get_mut(number) {
            slot.may_continue = has_slot;
        }
        has_slot
    }

    /// Marks that the tool itself starts: from here on an interrupt spares it if its [`Interrupt`] says so.
    ///
    /// Returns the cause if the batch was stopped before; the cancellation may not have reached the call yet.
    pub fn mark_running(&self, call: usize) -> Option<Cause> {
        let mut state = lock(&self.board.state);
        let number = state.number(self.id, call);
        if let Some(slot) = state.calls.get_mut(number) {
            slot.running = true;
        }
        state.batches[self.id.0].stopped
    }

    /// Waits until the call may continue. A call that was ended waits forever: its cancellation ends the
    /// wait.
    pub fn wait(&self, call: usize) -> impl Future<Output = ()> + '_ {
        std::future::poll_fn(move |cx| match self.poll_continue(call, cx) {
            Poll::Ready(true) => Poll::Ready(()),
            Poll::Ready(false) | Poll::Pending => Poll::Pending,
        })
    }

    /// Waits until a running call may continue. Returns false if the call was ended meanwhile.
    pub fn wait_unless_done(&self, call: usize) -> impl Future<Output = bool> + '_ {
        std::future::poll_fn(move |cx| self.poll_continue(call, cx))
    }

    /// Returns whether the call may continue, or false if it was ended.
    fn poll_continue(&self, call: usize, cx: &mut Context<'_>) -> Poll<bool> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = lock(&self.board.state);
            let number = state.number(self.id, call);
            let Some(slot) = state.calls.get_mut(number) else { return Poll::Ready(false) };
            if std::mem::take(&mut slot.may_continue) {
                return Poll::Ready(true);
            }
            slot.waker.replace(waker)
        };
        drop(replaced);
        Poll::Pending
    }

    /// Ends the call with a result. `finish` receives whether the call ran in parallel with another.
    ///
    /// Returns whether unfinished calls are left on the board, which may be able to go now.
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
            let mut state = lock(&self.board.state);
            let number = state.number(self.id, call);
            let Some((ended, was_concurrent)) = state.end(number) else { return Err(done) };
            let results_waker = state.batches[self.id.0].deliver(call, finish(done, was_concurrent));
            (ended, results_waker, !state.calls.is_empty())
        };
        ended.release();
        results_waker.into_iter().for_each(Waker::wake);
        Ok(has_others)
    }

    /// Ends the call before its result is known: the first half of [`finish`](CallBatch::finish), for callers
    /// that report the end before they [deliver](CallBatch::deliver) the result.
    ///
    /// Returns whether the call ran in parallel with another, or `None` if it has ended before.
    pub fn claim(&self, call: usize) -> Option<bool> {
        let (ended, was_concurrent) = {
            let mut state = lock(&self.board.state);
            let number = state.number(self.id, call);
            state.end(number)?
        };
        ended.release();
        Some(was_concurrent)
    }

    /// Delivers the result of a claimed call. Returns whether unfinished calls are left on the board.
    pub fn deliver(&self, call: usize, done: Done) -> bool {
        let (results_waker, has_others) = {
            let mut state = lock(&self.board.state);
            (state.batches[self.id.0].deliver(call, done), !state.calls.is_empty())
        };
        results_waker.into_iter().for_each(Waker::wake);
        has_others
    }

    /// Returns whether the call is over: its result is present, taken, or about to be delivered.
    pub fn is_done(&self, call: usize) -> bool {
        let state = lock(&self.board.state);
        !state.calls.contains(state.number(self.id, call))
    }

    /// Stops the batch.
    ///
    /// Calls that have not begun end with the result of `refuse`. Calls that have begun are cancelled: all of
    /// them if `force`, otherwise those that may be interrupted, which includes calls that are still being
    /// prepared. Calls that arrive later are cancelled as they begin.
    pub fn stop(&self, cause: Cause, force: bool, refuse: impl Fn(usize, Job) -> Done) {
        let (mut unbegun, mut cancels) = (Vec::new(), Vec::new());
        {
            let mut state = lock(&self.board.state);
            let batch = &mut state.batches[self.id.0];
            batch.stopped.get_or_insert(cause);
            if batch.unfinished == 0 {
                return;
            }
            for call in 0..batch.results.len() {
                let number = state.number(self.id, call);
                let Some(slot) = state.calls.get_mut(number) else { continue };
                match slot.job.take() {
                    // The call ends here; `refuse` is foreign code and runs after the lock is released.
                    Some(job) => unbegun.push((call, job, state.end(number))),
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
            let mut state = lock(&self.board.state);
            let batch = &mut state.batches[self.id.0];
            refused.into_iter().filter_map(|(call, done)| batch.deliver(call, done)).last()
        };
        results_waker.into_iter().for_each(Waker::wake);
    }

    /// Cancels the other calls of the batch that run now.
    pub fn stop_siblings(&self, call: usize) {
        let cancels: Vec<Cancel> = {
            let state = lock(&self.board.state);
            let batch = &state.batches[self.id.0];
            let siblings = (0..batch.results.len()).filter(|sibling| *sibling != call);
            let siblings = siblings.map(|sibling| batch.numbers.number(sibling));
            let active = siblings.filter(|sibling| state.scheduler.is_active(*sibling));
            active.filter_map(|sibling| state.calls.get(sibling)?.cancel.clone()).collect()
        };
        cancels.into_iter().for_each(|cancel| cancel.cancel(Cause::Sibling));
    }

    /// Waits for the last result and returns all of them in call order.
    pub fn results(&self) -> CollectResults<'_, Job, Done> {
        CollectResults { batch: self }
    }
}

impl<Job, Done> Drop for CallBatch<Job, Done> {
    fn drop(&mut self) {
        let (batch, slots) = {
            let mut state = lock(&self.board.state);
            let batch = state.batches.remove(self.id.0);
            // Calls with a result are forgotten already.
            let unfinished = batch.iter().filter(|batch| batch.unfinished > 0);
            let numbers =
                unfinished.flat_map(|batch| (0..batch.results.len()).map(|call| batch.numbers.number(call)));
            let slots: Vec<CallSlot<Job>> = numbers.filter_map(|number| state.forget(number)).collect();
            state.scheduler.complete(self.id);
            (batch, slots)
        };
        // Results and jobs are foreign values: dropped after the lock is released.
        drop((batch, slots));
    }
}

impl<Done> BatchState<Done> {
    /// Stores the result of a call that is over. Returns the waker to call if it was the last one.
    #[must_use]
    fn deliver(&mut self, call: usize, done: Done) -> Option<Waker> {
        self.results[call] = Some(done);
        self.unfinished -= 1;
        if self.unfinished == 0 { self.results_waker.take() } else { None }
    }
}

impl<Job, Done> BoardState<Job, Done> {
    /// Returns the number of a call, from its index in a batch.
    fn number(&self, batch: BatchId, call: usize) -> usize {
        self.batches[batch.0].numbers.number(call)
    }

    /// Returns the next call that begins, and the cause if its batch was stopped.
    fn next_call(
        &mut self,
        cancel: impl Fn() -> Cancel,
        wakers: &mut Vec<Waker>,
    ) -> Option<(StartedCall<Job>, Option<Cause>)> {
        while let Some(step) = self.scheduler.step() {
            let (SchedulerStep::Prepare(number) | SchedulerStep::Run(number)) = step;
            let slot = &mut self.calls[number];
            if let Some(job) = slot.job.take() {
                let cancel = cancel();
                slot.cancel = Some(cancel.clone());
                let (call, more) = (slot.index, !self.scheduler.is_exhausted());
                let stopped = self.batches[slot.batch.0].stopped;
                return Some((StartedCall { call, job, cancel, more }, stopped));
            }
            slot.may_continue = true;
            wakers.extend(slot.waker.take());
        }
        None
    }

    /// Ends the call, unless it has ended. The caller releases what it leaves after unlocking. Also returns
    /// whether the call ran in parallel with another.
    #[must_use]
    fn end(&mut self, number: usize) -> Option<(EndedCall, bool)> {
        let CallSlot { cancel, waker, .. } = self.calls.remove(number)?;
        let was_concurrent = self.scheduler.finish(number);
        Some((EndedCall { cancel, waker }, was_concurrent))
    }

    /// Removes the call.
    fn forget(&mut self, number: usize) -> Option<CallSlot<Job>> {
        self.scheduler.finish(number);
        self.calls.remove(number)
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

/// The future of [`CallBatch::results`].
pub struct CollectResults<'a, Job, Done> {
    batch: &'a CallBatch<Job, Done>,
}

impl<Job, Done> Future for CollectResults<'_, Job, Done> {
    type Output = Vec<Done>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<Done>> {
        let waker = cx.waker().clone();
        let replaced = {
            let mut state = lock(&self.batch.board.state);
            let batch = &mut state.batches[self.batch.id.0];
            if batch.unfinished == 0 {
                return Poll::Ready(batch.results.iter_mut().filter_map(Option::take).collect());
            }
            batch.results_waker.replace(waker)
        };
        drop(replaced);
        Poll::Pending
    }
}
