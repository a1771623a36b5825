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
pub(crate) struct Nothing<T>(std::marker::PhantomData<fn() -> T>);

impl<T> Nothing<T> {
    pub(crate) fn new() -> Nothing<T> {
        Nothing(std::marker::PhantomData)
    }
}

impl<T: Default> Future for Nothing<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        Poll::Ready(T::default())
    }
}

/// The work within a limit. The timer is only set once the work has to wait, so what is ready at once costs nothing.
pub(crate) async fn within<T>(limit: Duration, mut work: impl Future<Output = T> + Unpin) -> Option<T> {
    let at_once = poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    });
    match at_once.await {
        Some(value) => Some(value),
        None => Box::pin(tokio::time::timeout(limit, work)).await.ok(),
    }
}

/// Waits for a future on a thread that may block: not one of the runtime's own, which may be the one that has to go on.
#[cfg(test)]
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
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
pub(crate) struct Caught;

impl Caught {
    fn new(payload: Box<dyn Any + Send>) -> Caught {
        // A payload may itself panic when dropped; the two usual kinds can't.
        if !(payload.is::<&'static str>() || payload.is::<String>()) {
            std::mem::forget(payload);
        }
        Caught
    }
}

/// Runs foreign code; a panic in it is a value.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Caught> {
    catch_unwind(AssertUnwindSafe(work)).map_err(Caught::new)
}

/// A foreign future whose panics, in `poll` as in `Drop`, become a value.
///
/// The future is dropped as soon as it is done, or when this is dropped, both inside the guard.
pub(crate) struct Guarded<'a, T> {
    future: Option<BoxFuture<'a, T>>,
}

impl<'a, T> Guarded<'a, T> {
    /// Wraps what `make` gives; a panic in `make` itself shows at the first poll.
    pub(crate) fn new(make: impl FnOnce() -> BoxFuture<'a, T>) -> Guarded<'a, T> {
        Guarded { future: guarded(make).ok() }
    }

    /// Drops the future now.
    fn end(&mut self) -> Result<(), Caught> {
        let future = self.future.take();
        guarded(|| drop(future))
    }
}

impl<T> Future for Guarded<'_, T> {
    type Output = Result<T, Caught>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Ready(Err(Caught)) };
        match guarded(|| future.as_mut().poll(cx)) {
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

impl<T> Drop for Guarded<'_, T> {
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
        assert_eq!(Guarded::new(|| Box::pin(async { 1 })).await, Ok(1));
        assert_eq!(Guarded::<()>::new(|| panic!("in make")).await, Err(Caught));
        assert_eq!(Guarded::<()>::new(|| Box::pin(async { panic!("in poll") })).await, Err(Caught));
        let in_drop = Guarded::new(|| {
            let bomb = Bomb;
            Box::pin(std::future::poll_fn(move |_| {
                let _keep = &bomb;
                Poll::Ready(())
            }))
        });
        assert_eq!(in_drop.await, Err(Caught));
        assert_eq!(Guarded::<()>::new(|| Box::pin(async { std::panic::panic_any(Bomb) })).await, Err(Caught));
    }
}
