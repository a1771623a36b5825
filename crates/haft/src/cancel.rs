//! Cancellation: a tree of flags, each with the cause that raised it.
//!
//! session → call → child session … (a turn cancels its calls one by one, because it spares some). Cancelling a node cancels everything below it with the same cause; the
//! first cause wins and never changes. Tools await [`Cancel::cancelled`] or look at [`Cancel::cause`]; nobody has
//! to: the engine drops the future of a cancelled call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use serde::{Deserialize, Serialize};

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Arc, Mutex, Weak, lock};

/// Who or what ended a call before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The user interrupted, or answered no.
    User = 1,
    /// Another call of the same batch failed and the policy is to stop the rest.
    Sibling = 2,
    /// The time limit was reached.
    Timeout = 3,
    /// The turn or the session is over.
    Shutdown = 4,
    /// A hook ended the turn.
    Hook = 5,
    /// The message that the call stands in broke off: its end never came.
    Disconnect = 6,
}

impl Cause {
    fn of(flag: u8) -> Option<Cause> {
        [Cause::User, Cause::Sibling, Cause::Timeout, Cause::Shutdown, Cause::Hook, Cause::Disconnect]
            .into_iter()
            .find(|cause| *cause as u8 == flag)
    }

    /// The cause in words that a model can't mistake for another.
    pub fn words(self) -> &'static str {
        match self {
            Cause::User => "cancelled: the user interrupted this turn",
            Cause::Sibling => {
                "cancelled: another call of the same message failed, and this session stops the rest then; \
                 the user did not interrupt"
            }
            Cause::Timeout => "cancelled: the time limit was reached; the user did not interrupt",
            Cause::Shutdown => "cancelled: the session is ending; the user did not interrupt this call",
            Cause::Hook => "cancelled: a hook ended this turn; the user did not interrupt",
            Cause::Disconnect => {
                "cancelled: the connection was lost before the message was complete; make the call again if it is \
                 still needed; the user did not interrupt"
            }
        }
    }
}

/// One node of the tree. Clones are the same node.
#[derive(Clone)]
pub struct Cancel(Arc<Node>);

struct Node {
    /// 0 while nothing happened. Written once, under the lock; read without it.
    cause: AtomicU8,
    links: Mutex<Links>,
    /// The parent, and this node's place in its list.
    parent: Option<(Cancel, usize)>,
}

#[derive(Default)]
struct Links {
    children: Vec<Option<Weak<Node>>>,
    free: Vec<usize>,
    wakers: Vec<(u64, Waker)>,
    next_waker: u64,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

impl Cancel {
    /// A new root.
    pub fn new() -> Cancel {
        Cancel(Arc::new(Node { cause: AtomicU8::new(0), links: Mutex::default(), parent: None }))
    }

    /// A node below this one; already cancelled if this one is.
    pub fn child(&self) -> Cancel {
        let mut links = lock(&self.0.links);
        if let Some(cause) = self.cause() {
            let flag = AtomicU8::new(cause as u8);
            return Cancel(Arc::new(Node { cause: flag, links: Mutex::default(), parent: None }));
        }
        let place = links.free.pop().unwrap_or_else(|| {
            links.children.push(None);
            links.children.len() - 1
        });
        let child = Cancel(Arc::new(Node {
            cause: AtomicU8::new(0),
            links: Mutex::default(),
            parent: Some((self.clone(), place)),
        }));
        links.children[place] = Some(Arc::downgrade(&child.0));
        child
    }

    /// Cancels this node and everything below it. Only the first cause counts.
    pub fn cancel(&self, cause: Cause) {
        let mut waiting = vec![self.0.clone()];
        while let Some(node) = waiting.pop() {
            let links = {
                let mut links = lock(&node.links);
                if node.cause.load(Ordering::Relaxed) != 0 {
                    continue;
                }
                node.cause.store(cause as u8, Ordering::Release);
                std::mem::take(&mut *links)
            };
            links.wakers.into_iter().for_each(|(_, waker)| waker.wake());
            waiting.extend(links.children.into_iter().flatten().filter_map(|child| child.upgrade()));
        }
    }

    /// Why this was cancelled, if it was.
    pub fn cause(&self) -> Option<Cause> {
        Cause::of(self.0.cause.load(Ordering::Acquire))
    }

    /// Whether this was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    /// Completes when this is cancelled, with the cause.
    ///
    /// # Cancel safety
    /// Dropping the future forgets it; a later one sees the same cause.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { node: self.clone(), ticket: None }
    }
}

#[cfg(test)]
impl Cancel {
    /// How many nodes below this one it still knows of.
    pub(crate) fn children(&self) -> usize {
        lock(&self.0.links).children.iter().flatten().count()
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancel").field(&self.cause()).finish()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let Some((parent, place)) = &self.parent else { return };
        let mut links = lock(&parent.0.links);
        // A cancelled parent gave its whole list away; then there is nothing to take back.
        if let Some(slot) = links.children.get_mut(*place) {
            *slot = None;
            links.free.push(*place);
        }
    }
}

/// The future of [`Cancel::cancelled`].
pub struct Cancelled {
    node: Cancel,
    ticket: Option<u64>,
}

impl Future for Cancelled {
    type Output = Cause;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Cause> {
        if let Some(cause) = self.node.cause() {
            return Poll::Ready(cause);
        }
        // A waker is foreign code, to clone and to drop as well as to wake: never under the lock.
        let waker = cx.waker().clone();
        let node = self.node.clone();
        let before = {
            let mut links = lock(&node.0.links);
            if let Some(cause) = node.cause() {
                return Poll::Ready(cause);
            }
            let ticket = *self.ticket.get_or_insert_with(|| {
                links.next_waker += 1;
                links.next_waker
            });
            match links.wakers.iter_mut().find(|(owner, _)| *owner == ticket) {
                Some((_, mine)) => Some(std::mem::replace(mine, waker)),
                None => {
                    links.wakers.push((ticket, waker));
                    None
                }
            }
        };
        drop(before);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waker = {
            let mut links = lock(&self.node.0.links);
            let mine = links.wakers.iter().position(|(owner, _)| *owner == ticket);
            mine.map(|place| links.wakers.swap_remove(place))
        };
        drop(waker);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

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
        assert_eq!(lock(&root.0.links).children.len(), 1);
        let kept: Vec<_> = (0..3).map(|_| root.child()).collect();
        root.cancel(Cause::Timeout);
        assert!(kept.iter().all(Cancel::is_cancelled));
    }

    #[tokio::test]
    async fn waiting_ends_with_the_cause() {
        let root = Cancel::new();
        let call = root.child();
        let waiter = tokio::spawn(call.cancelled());
        tokio::task::yield_now().await;
        root.cancel(Cause::Sibling);
        assert_eq!(waiter.await.unwrap(), Cause::Sibling);
    }
}

/// The races of the tree on the real code, every interleaving of the small ones.
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests {
    use shuttle::{check_random, future::block_on, thread};

    use super::*;
    use crate::sync::explore;

    /// A node is cancelled while others are made below it and dropped: every one that lives is reached, by one cause,
    /// and none is left in the list.
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
        assert_eq!(root.children(), 0);
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
            assert_eq!(root.children(), 0);
            assert!(lock(&root.0.links).children.len() <= 2, "as many places as there were at once");
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
            assert_eq!(root.children(), 0);
        };
        explore("a child while its parent is cancelled", 100_000, body);
    }

    /// No wake-up is lost: whoever waits is woken, also one that waits twice, and one that stops waiting is forgotten.
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
            assert!(lock(&node.0.links).wakers.is_empty());
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
}
