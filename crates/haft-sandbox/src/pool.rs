//! The children that there are, whoever starts them: a bound on their number, a thread for each, and their common end.

use std::collections::HashMap;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use haft::ports::{Captured, Exit, ProcessError, ProcessOutcome, ProcessRequest};
use haft::sync::lock;
use tokio::sync::oneshot;

use crate::limits;
use crate::watch::Orders;

/// Children with a thread each. Dropped, it waits for a bounded time until the last is gone.
#[derive(Default)]
pub(crate) struct Pool {
    children: Arc<Children>,
}

impl Pool {
    /// How many children there are, those included that are about to end.
    pub(crate) fn running(&self) -> usize {
        self.children.state().orders.len()
    }

    /// Ends every child and starts no more, and waits until they are gone, for a bounded time.
    pub(crate) fn shutdown(&self) {
        let orders: Vec<Orders> = {
            let mut state = self.children.state();
            state.closed = true;
            state.orders.values().cloned().collect()
        };
        orders.iter().for_each(Orders::abandon);
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }

    /// Leads one child through its life, which is what `life` does on a thread of its own.
    pub(crate) async fn run(
        &self,
        request: ProcessRequest,
        life: impl FnOnce(&ProcessRequest, &Orders) -> Result<ProcessOutcome, ProcessError> + Send + 'static,
    ) -> Result<ProcessOutcome, ProcessError> {
        let cancel = request.cancel.clone();
        if cancel.is_cancelled() {
            let (stdout, stderr) = (Captured::default(), Captured::default());
            let (refused, held) = (Vec::new(), Vec::new());
            return Ok(ProcessOutcome { exit: Exit::Cancelled, stdout, stderr, refused, held });
        }
        let orders = Orders::new().map_err(|error| refused(format!("no process can be started: {error}")))?;
        let place = Place::take(&self.children, &orders)?;
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
            .map_err(|error| refused(format!("no process can be started: no thread for it: {error}")))?;

        let _abandon = Abandon(&orders);
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
        .unwrap_or_else(|_| Err(refused("the process was lost: the thread that watched it failed".into())))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // Nobody waits for an answer any more, so all that are left were told to end.
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }
}

pub(crate) fn refused(message: String) -> ProcessError {
    ProcessError { message }
}

/// Tells the thread of a call that nobody waits for any more to end its child. After the answer it hears nothing.
struct Abandon<'a>(&'a Orders);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The children that there are.
#[derive(Default)]
struct Children {
    state: Mutex<State>,
    fewer: Condvar,
}

#[derive(Default)]
struct State {
    /// How to reach each of them, by number.
    orders: HashMap<u64, Orders>,
    started: u64,
    closed: bool,
}

impl Children {
    fn state(&self) -> MutexGuard<'_, State> {
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
struct Place {
    children: Arc<Children>,
    number: u64,
}

impl Place {
    fn take(children: &Arc<Children>, orders: &Orders) -> Result<Place, ProcessError> {
        let mut state = children.state();
        if state.closed {
            return Err(refused("no process is started any more: this program ends".into()));
        }
        if state.orders.len() >= limits::CHILDREN_MAX {
            let count = limits::CHILDREN_MAX;
            return Err(refused(format!(
                "{count} processes run already, and no more may; wait until one ends"
            )));
        }
        state.started += 1;
        let number = state.started;
        state.orders.insert(number, orders.clone());
        Ok(Place { children: children.clone(), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.children.state().orders.remove(&self.number);
        self.children.fewer.notify_all();
    }
}
