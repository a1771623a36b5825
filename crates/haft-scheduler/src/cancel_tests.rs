//! The tree of cancellations, one thread at a time; the races are in `tests/model`.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::{Cancel, Cause};

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_first_cause_reaches_everything_below_and_stays() {
    let root = Cancel::new();
    let (turn, other) = (root.child(), root.child());
    let call = turn.child();
    turn.cancel(Cause::User);
    root.cancel(Cause::Shutdown);
    assert_eq!(call.cause(), Some(Cause::User));
    assert_eq!(turn.cause(), Some(Cause::User));
    assert_eq!(other.cause(), Some(Cause::Shutdown));
    assert_eq!(turn.child().cause(), Some(Cause::User), "born cancelled");
}

#[test]
fn dropped_children_leave_no_trace() {
    let root = Cancel::new();
    for _ in 0..1000 {
        drop(root.child());
    }
    assert_eq!(root.child_capacity(), 1);
    let kept: Vec<_> = (0..3).map(|_| root.child()).collect();
    root.cancel(Cause::Timeout);
    assert!(kept.iter().all(Cancel::is_cancelled));
}

#[test]
fn waiting_ends_with_the_cause() {
    let root = Cancel::new();
    let call = root.child();
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(flag.clone());
    let mut waiting = pin!(call.cancelled());
    assert_eq!(waiting.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
    root.cancel(Cause::Sibling);
    assert!(flag.0.load(Ordering::Relaxed), "the waker is called");
    assert_eq!(waiting.poll(&mut Context::from_waker(&waker)), Poll::Ready(Cause::Sibling));
}
