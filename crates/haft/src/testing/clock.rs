//! A clock that stands still until the test moves it.

use std::time::Duration;

/// How often [`let_tasks_run`] gives way. Each time every task that is ready is polled once.
const ROUNDS: usize = 200;

/// Tokio's clock, paused.
///
/// A thin wrapper: [`tokio::time::pause`] when it is made, [`tokio::time::advance`] and then
/// [`let_tasks_run`] when it is moved. It needs a current-thread runtime, and everything on that runtime sees
/// it.
///
/// Tokio moves a paused clock by itself to the next timer when *nothing* else can run, which is what makes
/// `turn.results().await` of a call with a time limit return at once. A test that wants to look at the moment
/// before a limit does its looking between two [`advance`](ManualClock::advance)s and awaits nothing else.
///
/// Timers go off on whole milliseconds of the runtime, so leave a few of them to both sides of a limit.
///
/// Time on other threads is real: blocking tools and the watchdog don't know this clock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::testing::{TestCaller, ManualClock, scripted_tool};
/// use haft::{Effects, ErrorKind};
/// use serde_json::json;
/// use std::time::Duration;
///
/// let clock = ManualClock::pause();
/// let (slow, handle) =
///     scripted_tool("slow").effects(|_| Effects::none()).with(|tool| tool.timeout_ms(5_000)).build();
/// let turn = TestCaller::new().tool(slow).start([("1", "slow", json!({}))]);
/// let call = handle.started().await;
///
/// clock.advance(Duration::from_millis(4_990)).await;
/// assert!(!call.is_dropped());
/// clock.advance(Duration::from_millis(20)).await;
/// assert!(call.is_dropped());
/// assert_eq!(turn.results().await[0].error_kind(), Some(ErrorKind::TimedOut));
/// # }
/// ```
#[derive(Debug)]
pub struct ManualClock(());

impl ManualClock {
    /// Stops the clock of this runtime.
    ///
    /// # Panics
    /// Outside of a current-thread runtime, or where the clock stands still already.
    pub fn pause() -> ManualClock {
        tokio::time::pause();
        ManualClock(())
    }

    /// Moves the clock and lets everything run that this woke.
    pub async fn advance(&self, by: Duration) {
        // Timers that were only just wished for have to be known before the clock moves past them.
        let_tasks_run().await;
        tokio::time::advance(by).await;
        let_tasks_run().await;
    }

    /// Lets the clock run again.
    pub fn resume(self) {
        tokio::time::resume();
    }
}

/// Gives way until other tasks of a current-thread runtime had every chance to get as far as they can.
///
/// For assertions that something did *not* happen. It waits for no other thread and moves no clock.
pub async fn let_tasks_run() {
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
    }
}
