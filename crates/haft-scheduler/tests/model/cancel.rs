//! The races of the tree of cancellations, every interleaving of the small ones.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use shuttle::{check_random, future::block_on, thread};

use crate::cancel::{Cancel, Cause};
use crate::sync::explore;

/// A node is cancelled while others are made below it and dropped: every one that lives is reached, by one
/// cause, and none is left in the list.
fn children_come_and_go() {
    let root = Cancel::new();
    let makers: Vec<_> = (0..2)
        .map(|_| {
            let root = root.clone();
            thread::spawn(move || {
                let kept = root.child();
                drop(root.child());
                let below = kept.child();
                (kept, below)
            })
        })
        .collect();
    let canceller = {
        let root = root.clone();
        thread::spawn(move || root.cancel(Cause::User))
    };
    let made: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
    canceller.join().unwrap();
    for (kept, below) in &made {
        assert_eq!(kept.cause(), Some(Cause::User));
        assert_eq!(below.cause(), Some(Cause::User));
        assert_eq!(below.child().cause(), Some(Cause::User), "born cancelled");
    }
    drop(made);
    assert_eq!(root.child_count(), 0);
}

#[test]
fn cancelling_reaches_children_that_come_and_go() {
    check_random(children_come_and_go, 5_000);
}

/// Without a cancellation the places of dropped children are used again, whoever drops them when.
#[test]
fn dropped_children_leave_no_trace() {
    let body = || {
        let root = Cancel::new();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let root = root.clone();
                thread::spawn(move || {
                    let first = root.child();
                    let second = first.child();
                    drop(first);
                    drop(second);
                    drop(root.child());
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(root.child_count(), 0);
        assert!(root.child_capacity() <= 2, "as many places as there were at once");
    };
    check_random(body, 3_000);
}

/// Two causes race down the tree: each node has one, the first that came, and it never changes.
#[test]
fn each_node_has_one_cause() {
    let body = || {
        let root = Cancel::new();
        let child = root.child();
        let grandchild = child.child();
        let low = {
            let child = child.clone();
            thread::spawn(move || child.cancel(Cause::Sibling))
        };
        root.cancel(Cause::Shutdown);
        let cause = child.cause();
        low.join().unwrap();
        assert!(matches!(cause, Some(Cause::Sibling | Cause::Shutdown)), "reached when the call returns");
        assert_eq!(child.cause(), cause, "the first counts");
        assert_eq!(grandchild.cause(), cause, "the same all the way down");
        assert_eq!(root.cause(), Some(Cause::Shutdown));
    };
    explore("two causes down a tree", 100_000, body);
}

/// A child is made while its parent is cancelled: it is reached or born cancelled.
#[test]
fn no_child_escapes() {
    let body = || {
        let root = Cancel::new();
        let canceller = {
            let root = root.clone();
            thread::spawn(move || root.cancel(Cause::User))
        };
        let child = root.child();
        canceller.join().unwrap();
        assert_eq!(child.cause(), Some(Cause::User));
        drop(child);
        assert_eq!(root.child_count(), 0);
    };
    explore("a child while its parent is cancelled", 100_000, body);
}

/// No wake-up is lost: whoever waits is woken, also one that waits twice, and one that stops waiting is
/// forgotten.
#[test]
fn waiting_ends() {
    let body = || {
        let root = Cancel::new();
        let node = root.child();
        let waiter = {
            let node = node.clone();
            thread::spawn(move || block_on(node.cancelled()))
        };
        let impatient = {
            let node = node.clone();
            thread::spawn(move || {
                let waker = std::task::Waker::noop();
                let mut cancelled = node.cancelled();
                let mut cx = Context::from_waker(waker);
                let first = Pin::new(&mut cancelled).poll(&mut cx);
                let second = Pin::new(&mut cancelled).poll(&mut cx);
                assert!(first.is_pending() || second == first, "once cancelled, always cancelled");
            })
        };
        root.cancel(Cause::Timeout);
        assert_eq!(waiter.join().unwrap(), Cause::Timeout);
        impatient.join().unwrap();
        assert!(node.waker_count() == 0);
    };
    check_random(body, 3_000);
    let small = || {
        let node = Cancel::new();
        let waiter = {
            let node = node.clone();
            thread::spawn(move || block_on(node.cancelled()))
        };
        node.cancel(Cause::Timeout);
        assert_eq!(waiter.join().unwrap(), Cause::Timeout);
    };
    explore("waiting for a cancellation", 100_000, small);
}
