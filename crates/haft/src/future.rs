//! The one boxed future type, and the guard that turns a panic into a value.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

pub use haft_scheduler::CancelledFuture;

/// A boxed future that may be sent between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future that is ready at once and takes no memory: boxing it allocates nothing.
///
/// Default methods of [`Tool`](crate::Tool) use it, so a tool that leaves them out pays nothing for them.
pub(crate) struct ReadyFuture<T>(std::marker::PhantomData<fn() -> T>);

impl<T> ReadyFuture<T> {
    pub(crate) fn new() -> ReadyFuture<T> {
        ReadyFuture(std::marker::PhantomData)
    }
}

impl<T: Default> Future for ReadyFuture<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(T::default())
    }
}

/// The work within a limit. The timer is only set once the work has to wait, so what is ready at once costs
/// nothing.
pub(crate) async fn with_timeout<T>(limit: Duration, mut work: impl Future<Output = T> + Unpin) -> Option<T> {
    let at_once = poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    });
    match at_once.await {
        Some(value) => Some(value),
        None => Box::pin(tokio::time::timeout(limit, work)).await.ok(),
    }
}

/// Waits for a future on a thread that may block: not one of the runtime's own, which may be the one that has
/// to go on.
#[cfg(test)]
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            return value;
        }
        std::thread::yield_now();
    }
}

/// A panic that was caught. The payload is kept away from the model and from `Drop` of the payload itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaughtPanic;

impl CaughtPanic {
    fn new(payload: Box<dyn Any + Send>) -> CaughtPanic {
        // A payload may itself panic when dropped; the two usual kinds can't.
        if !(payload.is::<&'static str>() || payload.is::<String>()) {
            std::mem::forget(payload);
        }
        CaughtPanic
    }
}

/// Runs foreign code; a panic in it is a value.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, CaughtPanic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(CaughtPanic::new)
}

/// A foreign future whose panics, in `poll` as in `Drop`, become a value.
///
/// The future is dropped as soon as it is done, or when this is dropped, both inside the guard.
pub(crate) struct GuardedFuture<'a, T> {
    future: Option<BoxFuture<'a, T>>,
}

impl<'a, T> GuardedFuture<'a, T> {
    /// Wraps what `make` gives; a panic in `make` itself shows at the first poll.
    pub(crate) fn new(make: impl FnOnce() -> BoxFuture<'a, T>) -> GuardedFuture<'a, T> {
        GuardedFuture { future: catch_panic(make).ok() }
    }

    /// Drops the future now.
    fn end(&mut self) -> Result<(), CaughtPanic> {
        let future = self.future.take();
        catch_panic(|| drop(future))
    }
}

impl<T> Future for GuardedFuture<'_, T> {
    type Output = Result<T, CaughtPanic>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(CaughtPanic)) };
        match catch_panic(|| future.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(self.end().map(|()| value)),
            Err(caught) => {
                // The future is in an unknown state, but dropping it is still its own code's business.
                let _ = self.end();
                Poll::Ready(Err(caught))
            }
        }
    }
}

impl<T> Drop for GuardedFuture<'_, T> {
    fn drop(&mut self) {
        if self.future.is_some() {
            let _ = self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }

    #[tokio::test]
    async fn panics_become_values_wherever_they_happen() {
        assert_eq!(GuardedFuture::new(|| Box::pin(async { 1 })).await, Ok(1));
        assert_eq!(GuardedFuture::<()>::new(|| panic!("in make")).await, Err(CaughtPanic));
        assert_eq!(
            GuardedFuture::<()>::new(|| Box::pin(async { panic!("in poll") })).await,
            Err(CaughtPanic)
        );
        let in_drop = GuardedFuture::new(|| {
            let bomb = Bomb;
            Box::pin(std::future::poll_fn(move |_| {
                let _keep = &bomb;
                Poll::Ready(())
            }))
        });
        assert_eq!(in_drop.await, Err(CaughtPanic));
        assert_eq!(
            GuardedFuture::<()>::new(|| Box::pin(async { std::panic::panic_any(Bomb) })).await,
            Err(CaughtPanic)
        );
    }
}
