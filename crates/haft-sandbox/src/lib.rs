//! Child processes: the only place that starts one.
//!
//! [`LocalProcesses`] implements the port [`Processes`] on Linux (5.9 or later). A child has a session and a process
//! group of its own and no terminal, an environment made from a list ([`environment`]), no descriptor but its own, and a
//! time limit. Its output is bounded in memory and goes to a file where the request says so. When it ends, is cancelled
//! or takes too long, its whole process group ends with it.
//!
//! **Not confined yet.** A child can do what its user can do. What it starts in *another* session (`setsid`, a daemon)
//! is not reached when it ends, and if the host is killed by force the kernel ends only the child itself and not what it
//! started. Both need a process namespace.
//!
//! - `start` becomes another program: the only unsafe code.
//! - `program` finds the program, and says why it could not be started.
//! - `environment` decides which variables a child gets.
//! - `capture` keeps of its output what there is room for.
//! - `watch` is the life of one child, from its start to its end, on one thread.
//! - [`net`] is the network of a session: what its programs may reach, and how.
//!
//! Each child has a thread of its own, which starts it and lives as long as it does. That is on purpose: the kernel's
//! "die with your parent" means the parent *thread*, a trap with pools that let idle threads go; a thread can write a
//! file or call a slow listener without holding up another child; and no runtime is needed, least of all one that listens
//! to signals. A thread costs a fiftieth of the process that it watches.
#![warn(missing_docs)]

mod capture;
pub mod environment;
pub mod limits;
pub mod net;
mod program;
#[expect(dead_code, reason = "made by the profile, carried out by the helper")]
mod scene;
mod start;
mod watch;

use std::collections::HashMap;
use std::ffi::OsString;
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use haft::BoxFuture;
use haft::ports::{Captured, Exit, ProcessError, ProcessOutcome, ProcessRequest, Processes};
use tokio::sync::oneshot;

use watch::Orders;

/// Processes of this machine, not confined.
///
/// Dropping the future of a call ends its child as cancelling does; dropping this waits, for a bounded time, until the
/// last child is gone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::{Exit, Processes, ProcessRequest};
/// use haft_sandbox::LocalProcesses;
///
/// let processes = LocalProcesses::new(std::env::vars_os());
/// let outcome = processes.run(ProcessRequest::new(["tr", "a-z", "A-Z"], "/").with_stdin("hello")).await.unwrap();
/// assert_eq!((outcome.exit, outcome.stdout.whole()), (Exit::Code(0), Some(&b"HELLO"[..])));
/// # }
/// ```
pub struct LocalProcesses {
    environment: Arc<[(OsString, OsString)]>,
    children: Arc<Children>,
}

impl LocalProcesses {
    /// Processes that get of these variables what [`environment`] lets through, usually of [`std::env::vars_os`].
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> LocalProcesses {
        LocalProcesses { environment: variables.into_iter().collect(), children: Arc::default() }
    }

    /// How many children there are, those included that are about to end.
    pub fn running(&self) -> usize {
        self.children.state().orders.len()
    }

    /// Ends every child and starts no more. Waits until they are gone, for at most a few seconds; to be called before the
    /// program ends, which would end the threads that do this.
    pub fn shutdown(&self) {
        let orders: Vec<Orders> = {
            let mut state = self.children.state();
            state.closed = true;
            state.orders.values().cloned().collect()
        };
        orders.iter().for_each(Orders::abandon);
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }
}

impl Drop for LocalProcesses {
    fn drop(&mut self) {
        // Nobody waits for an answer any more, so all that are left were told to end.
        self.children.wait(limits::GRACE_ABANDONED + limits::KILL_WAIT);
    }
}

impl Processes for LocalProcesses {
    fn confines(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        Box::pin(self.run_one(request))
    }
}

impl LocalProcesses {
    async fn run_one(&self, request: ProcessRequest) -> Result<ProcessOutcome, ProcessError> {
        let cancel = request.cancel.clone();
        if cancel.is_cancelled() {
            let (stdout, stderr) = (Captured::default(), Captured::default());
            return Ok(ProcessOutcome { exit: Exit::Cancelled, stdout, stderr, refused: Vec::new() });
        }
        let orders = Orders::new().map_err(|error| refused(format!("no process can be started: {error}")))?;
        let place = Place::take(&self.children, &orders)?;
        let (send, mut answer) = oneshot::channel();
        let (environment, watched) = (self.environment.clone(), orders.clone());
        let whole_life = move || {
            let outcome = watch::run(&request, &environment, &watched);
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

fn refused(message: String) -> ProcessError {
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
