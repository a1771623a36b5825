//! The children that there are, whoever starts them: a bound on their number, a thread for each, and their
//! common end.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use haft::ports::{CapturedOutput, ProcessError, ProcessExit, ProcessOutcome, ProcessRequest};
use haft::sync::lock;
use tokio::sync::oneshot;

use crate::limits;
use crate::watch::ChildOrders;

/// Children with a thread each. Dropped, it waits for a bounded time until the last is gone.
#[derive(Default)]
pub(crate) struct ChildPool {
    children: Arc<RunningChildren>,
}

impl ChildPool {
    /// How many children there are, those included that are about to end.
    pub(crate) fn running(&self) -> usize {
        self.children.state().orders.len()
    }

    /// Ends every child and starts no more, and waits until they are gone, for a bounded time.
    pub(crate) fn shutdown(&self) {
        let orders: Vec<ChildOrders> = {
            let mut state = self.children.state();
            state.closed = true;
            state.orders.values().cloned().collect()
        };
        orders.iter().for_each(ChildOrders::abandon);
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }

    /// Leads one child through its life, which is what `life` does on a thread of its own.
    pub(crate) async fn run(
        &self,
        request: ProcessRequest,
        life: impl FnOnce(&ProcessRequest, &ChildOrders) -> Result<ProcessOutcome, ProcessError> + Send + 'static,
    ) -> Result<ProcessOutcome, ProcessError> {
        let cancel = request.cancel.clone();
        if cancel.is_cancelled() {
            let (stdout, stderr) = (CapturedOutput::default(), CapturedOutput::default());
            let (refused, held) = (Vec::new(), Vec::new());
            return Ok(ProcessOutcome { exit: ProcessExit::Cancelled, stdout, stderr, refused, held });
        }
        let orders = ChildOrders::new()
            .map_err(|error| refused_error(format!("no process can be started: {error}")))?;
        let place = ChildSlot::take(&self.children, &orders)?;
        let (send, mut answer) = oneshot::channel();
        let watched = orders.clone();
        let whole_life = move || {
            let outcome = life(&request, &watched);
            // Listeners end with the child, before anybody counts it as gone.
            drop(request);
            if let Err(Ok(unwanted)) = send.send(outcome)
                && let Some(kept) = unwanted.stdout.kept
            {
                kept.discard();
            }
            drop(place);
        };
        std::thread::Builder::new()
            .name("haft-child".into())
            .stack_size(limits::THREAD_STACK_BYTES)
            .spawn(whole_life)
            .map_err(|error| {
                refused_error(format!("no process can be started: no thread for it: {error}"))
            })?;

        let _abandon = AbandonGuard(&orders);
        let mut cancelled = Some(cancel.cancelled());
        poll_fn(|task| {
            if let Poll::Ready(outcome) = Pin::new(&mut answer).poll(task) {
                return Poll::Ready(outcome);
            }
            if let Some(waiting) = &mut cancelled
                && Pin::new(waiting).poll(task).is_ready()
            {
                orders.cancel();
                cancelled = None;
            }
            Poll::Pending
        })
        .await
        .unwrap_or_else(|_| {
            Err(refused_error("the process was lost: the thread that watched it failed".into()))
        })
    }
}

impl Drop for ChildPool {
    fn drop(&mut self) {
        // Nobody waits for an answer any more, so all that are left were told to end.
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }
}

pub(crate) fn refused_error(message: String) -> ProcessError {
    ProcessError { message }
}

/// Tells the thread of a call that nobody waits for any more to end its child. After the answer it hears
/// nothing.
struct AbandonGuard<'a>(&'a ChildOrders);

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The children that there are.
#[derive(Default)]
struct RunningChildren {
    state: Mutex<ChildrenState>,
    fewer: Condvar,
}

#[derive(Default)]
struct ChildrenState {
    /// How to reach each of them, by number.
    orders: HashMap<u64, ChildOrders>,
    started: u64,
    closed: bool,
}

impl RunningChildren {
    fn state(&self) -> MutexGuard<'_, ChildrenState> {
        lock(&self.state)
    }

    /// Waits until there are none, at most this long.
    fn wait(&self, at_most: Duration) {
        let until = Instant::now() + at_most;
        let mut state = self.state();
        while !state.orders.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.fewer.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The place of one child among [`limits::CHILDREN_MAX`].
struct ChildSlot {
    children: Arc<RunningChildren>,
    number: u64,
}

impl ChildSlot {
    fn take(children: &Arc<RunningChildren>, orders: &ChildOrders) -> Result<ChildSlot, ProcessError> {
        let mut state = children.state();
        if state.closed {
            return Err(refused_error("no process is started any more: this program ends".into()));
        }
        if state.orders.len() >= limits::CHILDREN_MAX {
            let count = limits::CHILDREN_MAX;
            return Err(refused_error(format!(
                "{count} processes run already, and no more may; wait until one ends"
            )));
        }
        state.started += 1;
        let number = state.started;
        state.orders.insert(number, orders.clone());
        Ok(ChildSlot { children: children.clone(), number })
    }
}

impl Drop for ChildSlot {
    fn drop(&mut self) {
        self.children.state().orders.remove(&self.number);
        self.children.fewer.notify_all();
    }
}
