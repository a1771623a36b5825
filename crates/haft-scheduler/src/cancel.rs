//! Cancellation: a tree of flags, each with the cause that raised it.
//!
//! A session is the parent of its calls, a call the parent of the sessions of its sub-agents. A turn cancels
//! its calls one by one, because an interrupt spares some of them. Cancelling a node cancels everything below
//! it with the same cause; the first cause wins and never changes. Tools may await [`Cancel::cancelled`] or
//! check [`Cancel::cause`]; they need not, since the engine drops the future of a cancelled call.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Arc, Mutex, Weak, lock};

/// Why a call was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
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
    /// The connection was lost before the message with the call was complete.
    Disconnect = 6,
}

impl Cause {
    fn from_flag(flag: u8) -> Option<Cause> {
        [Cause::User, Cause::Sibling, Cause::Timeout, Cause::Shutdown, Cause::Hook, Cause::Disconnect]
            .into_iter()
            .find(|cause| *cause as u8 == flag)
    }

    /// Returns the message for the model.
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

/// A node of the tree of cancellations. Clones are the same node.
#[derive(Clone)]
pub struct Cancel(Arc<CancelNode>);

struct CancelNode {
    /// 0 until the node is cancelled. Written once, under the lock; read without it.
    cause: AtomicU8,
    links: Mutex<NodeLinks>,
    /// The parent, and the index of this node in its list of children.
    parent: Option<(Cancel, usize)>,
}

#[derive(Default)]
struct NodeLinks {
    children: Vec<Option<Weak<CancelNode>>>,
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
    /// Creates a root.
    pub fn new() -> Cancel {
        Cancel(Arc::new(CancelNode { cause: AtomicU8::new(0), links: Mutex::default(), parent: None }))
    }

    /// Creates a child, which is already cancelled if this node is.
    pub fn child(&self) -> Cancel {
        let mut links = lock(&self.0.links);
        if let Some(cause) = self.cause() {
            let flag = AtomicU8::new(cause as u8);
            return Cancel(Arc::new(CancelNode { cause: flag, links: Mutex::default(), parent: None }));
        }
        let place = links.free.pop().unwrap_or_else(|| {
            links.children.push(None);
            links.children.len() - 1
        });
        let child = Cancel(Arc::new(CancelNode {
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

    /// Returns the cause if the node is cancelled.
    pub fn cause(&self) -> Option<Cause> {
        Cause::from_flag(self.0.cause.load(Ordering::Acquire))
    }

    /// Returns whether the node is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cause().is_some()
    }

    /// Waits for the cancellation and returns its cause.
    ///
    /// # Cancel safety
    /// Dropping the future forgets it; a later one sees the same cause.
    pub fn cancelled(&self) -> CancelledFuture {
        CancelledFuture { node: self.clone(), ticket: None }
    }
}

#[cfg(test)]
impl Cancel {
    /// Returns how many children are alive.
    pub(crate) fn child_count(&self) -> usize {
        lock(&self.0.links).children.iter().flatten().count()
    }

    /// Returns how many places there are for children, used or free.
    pub(crate) fn child_capacity(&self) -> usize {
        lock(&self.0.links).children.len()
    }

    /// Returns how many futures wait for the cancellation.
    #[allow(dead_code, reason = "used by the model check alone")]
    pub(crate) fn waker_count(&self) -> usize {
        lock(&self.0.links).wakers.len()
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancel").field(&self.cause()).finish()
    }
}

impl Drop for CancelNode {
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
pub struct CancelledFuture {
    node: Cancel,
    ticket: Option<u64>,
}

impl Future for CancelledFuture {
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

impl Drop for CancelledFuture {
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

/// Runs `work` until it is done or `cancel` is cancelled.
///
/// The wait for the cancellation costs nothing while `work` is ready at once.
///
/// # Errors
/// The cause, if the cancellation came first.
pub async fn until_cancelled<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Result<T, Cause> {
    if let Some(cause) = cancel.cause() {
        return Err(cause);
    }
    let mut work = pin!(work);
    let mut cancelled = None;
    poll_fn(|cx| {
        if let Poll::Ready(value) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        let cancelled = cancelled.get_or_insert_with(|| cancel.cancelled());
        Pin::new(cancelled).poll(cx).map(Err)
    })
    .await
}
