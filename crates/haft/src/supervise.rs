//! The time of running calls, watched from outside.
//!
//! A tool that waits is cancelled at its limit and answers for itself. One that never yields can't be: after
//! a short grace its call is answered in its place and the work abandoned. One task for each session does
//! this, for all its calls, with one timer. A thread beside it reports calls that keep a runtime thread busy,
//! and answers those that the task can't: because all threads of the runtime are busy, or because a call that
//! was cancelled doesn't notice.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft_scheduler::sync::lock;
use haft_scheduler::{Cancel, Cause};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::{ErrorKind, ToolError};
use crate::future::BoxFuture;
use crate::limits;

/// Shows whether a call is being polled right now: odd while it is, and different for each poll.
#[derive(Default)]
pub(crate) struct PollMark(AtomicU32);

impl PollMark {
    /// The same work, marked while it is polled.
    pub(crate) async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.0.fetch_add(1, Ordering::Relaxed);
            let polled = work.as_mut().poll(cx);
            self.0.fetch_add(1, Ordering::Relaxed);
            polled
        })
        .await
    }
}

/// A call as the supervisor sees it. Clones are the same call.
pub(crate) trait WatchedCall: Clone + Send + Sync + 'static {
    /// The call did not end although it was cancelled: answer it.
    fn abandon(&self);
    /// The call keeps a thread busy that is not its own.
    fn blocks_thread(&self, since: Duration);
    /// Whether it is being polled.
    fn mark(&self) -> &PollMark;
    /// Its cancellation.
    fn cancel(&self) -> &Cancel;
}

struct CallWatch<C> {
    key: u64,
    deadline: Option<Instant>,
    warned: bool,
    /// When the watchdog answers it if the task could not: its runtime is busy, or gone.
    overdue: Option<std::time::Instant>,
    /// How often the watchdog saw it cancelled and not ended.
    cancelled: u32,
    /// The mark when the watchdog last looked, and for how long it has been the same.
    seen: (u32, Duration),
    reported: bool,
    call: C,
}

/// Watches the running calls of a session.
pub(crate) struct CallSupervisor<C: WatchedCall> {
    watches: Mutex<WatchList<C>>,
    wake: Arc<Notify>,
}

struct WatchList<C> {
    list: Vec<CallWatch<C>>,
    next_key: u64,
    /// The last key when the task last looked.
    last_key: u64,
    /// Until when the timer stays set without a call.
    idle_at: Option<Instant>,
    /// When the timer goes off, if it is set.
    timer: Option<Instant>,
    task: Option<tokio::task::JoinHandle<()>>,
    watchdog: bool,
}

impl<C: WatchedCall> CallSupervisor<C> {
    pub(crate) fn new() -> Arc<CallSupervisor<C>> {
        let watches = WatchList {
            list: Vec::new(),
            next_key: 0,
            last_key: 0,
            idle_at: None,
            timer: None,
            task: None,
            watchdog: false,
        };
        Arc::new(CallSupervisor { watches: Mutex::new(watches), wake: Arc::new(Notify::new()) })
    }

    /// Watches a call that starts now until the guard is dropped.
    pub(crate) fn watch<'a>(
        self: &'a Arc<CallSupervisor<C>>,
        now: Instant,
        limit: Option<Duration>,
        call: C,
    ) -> WatchGuard<'a, C> {
        let deadline = limit.and_then(|limit| now.checked_add(limit));
        let mut watches = lock(&self.watches);
        watches.next_key += 1;
        let key = watches.next_key;
        let seen = (0, Duration::ZERO);
        let overdue = limit.and_then(|limit| now.into_std().checked_add(limit + 2 * limits::CANCEL_GRACE));
        let watch =
            CallWatch { key, deadline, warned: false, overdue, cancelled: 0, seen, reported: false, call };
        watches.list.push(watch);
        if !watches.watchdog {
            watches.watchdog = start_watchdog(Arc::downgrade(self));
        }
        if let Some(deadline) = deadline {
            let asleep = watches.timer.is_none_or(|timer| deadline < timer);
            let gone = watches.task.as_ref().is_none_or(|task| task.is_finished());
            if gone {
                watches.timer = None;
                watches.task = Some(tokio::spawn(run_supervisor(Arc::downgrade(self), self.wake.clone())));
            } else if asleep {
                // Told once is enough, until the task looks.
                watches.timer = Some(deadline);
                self.wake.notify_one();
            }
            if gone || asleep {
                // What a runtime thread wakes waits in a slot of that thread from which no other can take it,
                // and the call may be about to block this one. The next task to come moves it to where others
                // can.
                drop(tokio::spawn(std::future::ready(())));
            }
        }
        WatchGuard { supervisor: self, key }
    }

    /// The calls that run.
    pub(crate) fn running(&self) -> Vec<C> {
        lock(&self.watches).list.iter().map(|watch| watch.call.clone()).collect()
    }

    /// Deals with what is due and says when to look again.
    fn tick(&self) -> Option<Instant> {
        let now = Instant::now();
        let (mut late, mut abandoned) = (Vec::new(), Vec::new());
        let mut watches = lock(&self.watches);
        for watch in &mut watches.list {
            if watch.deadline.is_none_or(|deadline| deadline > now) {
                continue;
            }
            if watch.warned {
                watch.deadline = None;
                abandoned.push(watch.call.clone());
            } else {
                watch.warned = true;
                // From now, not from when it was due: this task may come late itself.
                watch.deadline = now.checked_add(limits::CANCEL_GRACE);
                late.push(watch.call.clone());
            }
        }
        // Between calls the timer stays set for a while: calls come one after the other, and each would have
        // to wake this task again.
        if watches.next_key != watches.last_key {
            watches.last_key = watches.next_key;
            watches.idle_at = Some(now + limits::SUPERVISOR_IDLE);
        }
        let idle = watches.idle_at.filter(|idle| *idle > now);
        watches.timer = watches.list.iter().filter_map(|watch| watch.deadline).min().or(idle);
        let timer = watches.timer;
        drop(watches);
        late.into_iter().for_each(|call| call.cancel().cancel(Cause::Timeout));
        abandoned.into_iter().for_each(|call: C| call.abandon());
        timer
    }

    /// One look of the watchdog: reports calls that keep a thread busy, and answers those that nobody else
    /// can.
    fn look(&self, since_last: Duration) {
        let (mut stuck, mut abandoned) = (Vec::new(), Vec::new());
        let now = std::time::Instant::now();
        for watch in &mut lock(&self.watches).list {
            watch.cancelled += u32::from(watch.call.cancel().is_cancelled());
            let overdue = watch.overdue.is_some_and(|overdue| overdue <= now);
            if overdue || watch.cancelled > 1 {
                (watch.overdue, watch.cancelled) = (None, 0);
                abandoned.push(watch.call.clone());
            }
            let mark = watch.call.mark().0.load(Ordering::Relaxed);
            let polled = mark % 2 == 1;
            let for_how_long =
                if polled && mark == watch.seen.0 { watch.seen.1 + since_last } else { Duration::ZERO };
            watch.seen = (mark, for_how_long);
            if for_how_long >= limits::BLOCKING_REPORTED_AFTER && !watch.reported {
                watch.reported = true;
                stuck.push((watch.call.clone(), for_how_long));
            }
        }
        stuck.into_iter().for_each(|(call, since)| call.blocks_thread(since));
        for call in abandoned {
            // Nothing, if it was cancelled before.
            call.cancel().cancel(Cause::Timeout);
            call.abandon();
        }
    }
}

impl<C: WatchedCall> Drop for CallSupervisor<C> {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.watches).task.take() {
            task.abort();
        }
    }
}

async fn run_supervisor<C: WatchedCall>(supervisor: Weak<CallSupervisor<C>>, wake: Arc<Notify>) {
    loop {
        let Some(timer) = supervisor.upgrade().map(|supervisor| supervisor.tick()) else { return };
        match timer {
            Some(timer) => {
                let _ = tokio::time::timeout_at(timer, wake.notified()).await;
            }
            None => wake.notified().await,
        }
    }
}

/// Starts the thread that looks after what the task can't: it needs no runtime. It ends when its supervisor
/// is gone; where it can't be started, calls that never yield are answered late.
fn start_watchdog<C: WatchedCall>(supervisor: Weak<CallSupervisor<C>>) -> bool {
    let look = move || {
        while let Some(supervisor) = supervisor.upgrade() {
            supervisor.look(limits::WATCHDOG_PERIOD);
            drop(supervisor);
            std::thread::sleep(limits::WATCHDOG_PERIOD);
        }
    };
    std::thread::Builder::new().name("haft-watchdog".into()).stack_size(64 * 1024).spawn(look).is_ok()
}

/// Ends the watch when dropped.
pub(crate) struct WatchGuard<'a, C: WatchedCall> {
    supervisor: &'a CallSupervisor<C>,
    key: u64,
}

impl<C: WatchedCall> Drop for WatchGuard<'_, C> {
    fn drop(&mut self) {
        let mut watches = lock(&self.supervisor.watches);
        if let Some(at) = watches.list.iter().position(|watch| watch.key == self.key) {
            watches.list.swap_remove(at);
        }
    }
}

/// Threads of blocking tools.
///
/// Each call has a thread of its own. One whose call was given up goes on until its code returns: nothing can
/// stop a thread. Those are counted, and too many of them refuse further blocking calls.
#[derive(Default)]
pub(crate) struct BlockingThreads {
    abandoned: AtomicUsize,
}

impl BlockingThreads {
    /// How many threads still run for calls that were given up.
    pub(crate) fn abandoned(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Runs a future to its end on a thread of its own.
    pub(crate) fn run<T: Send + 'static>(
        self: Arc<BlockingThreads>,
        name: Arc<str>,
        make: impl FnOnce() -> BoxFuture<'static, Result<T, ToolError>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, ToolError>> {
        Box::pin(async move {
            if self.abandoned() >= limits::ABANDONED_THREADS_MAX {
                let words = format!(
                    "{name} can't run: {} of its kind never ended and still hold threads",
                    self.abandoned()
                );
                return Err(ToolError::with_kind(ErrorKind::Failed, words));
            }
            let (sender, receiver) = tokio::sync::oneshot::channel();
            let runtime = tokio::runtime::Handle::current();
            let state = Arc::new(ThreadState::default());
            let (thread_state, threads) = (state.clone(), self.clone());
            let body = move || {
                let outcome = crate::future::catch_panic(|| runtime.block_on(make()));
                // In this order: a call that has its answer has not been given up.
                thread_state.ended(&threads);
                let _ = sender.send(outcome);
            };
            std::thread::Builder::new().name(format!("haft-{name}")).spawn(body).map_err(|error| {
                ToolError::new(format!("{name} can't run: no thread could be started"))
                    .with_source(error)
                    .retryable()
            })?;
            let _given_up = AbandonedThread { state, threads: self };
            match receiver.await {
                Ok(Ok(outcome)) => outcome,
                _ => Err(crate::pipeline::panic_error(&name)),
            }
        })
    }
}

/// Who left first: the call or its thread.
#[derive(Default)]
struct ThreadState(AtomicU32);

impl ThreadState {
    const ENDED: u32 = 1;
    const GIVEN_UP: u32 = 2;

    fn ended(&self, threads: &BlockingThreads) {
        if self.0.swap(ThreadState::ENDED, Ordering::AcqRel) == ThreadState::GIVEN_UP {
            threads.abandoned.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct AbandonedThread {
    state: Arc<ThreadState>,
    threads: Arc<BlockingThreads>,
}

impl Drop for AbandonedThread {
    fn drop(&mut self) {
        // Counted before the flag is raised, so that the thread's own subtraction can't come first.
        self.threads.abandoned.fetch_add(1, Ordering::Relaxed);
        let before =
            self.state.0.compare_exchange(0, ThreadState::GIVEN_UP, Ordering::AcqRel, Ordering::Acquire);
        if before.is_err() {
            self.threads.abandoned.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
