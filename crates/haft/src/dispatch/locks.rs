//! Locks on the files that calls change, across all agents of a session.
//!
//! Within a turn the scheduler keeps conflicting calls apart; between agents, each with turns of its own, these locks
//! do. A call takes all it needs at once, just before it runs and never while somebody is asked, so there is nothing
//! to deadlock on. Who came first goes first. Child processes are outside of this.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::effects::conflict::Touch;
use crate::effects::resolved::Resolved;
use crate::registry::Entry;
use crate::sync::lock;

/// The locks of a session.
#[derive(Default)]
pub(crate) struct Locks {
    queue: Mutex<Queue>,
    freed: Notify,
}

#[derive(Default)]
struct Queue {
    /// Held and wanted, oldest first.
    claims: Vec<(u64, Touch)>,
    next: u64,
}

impl Locks {
    /// Waits for the files that a call changes; nothing for a call that changes none.
    ///
    /// What an ancestor of the call holds is not in its way: the ancestor waits for this call, not the other way
    /// round. Nor is who waits for that ancestor.
    pub(crate) async fn take(
        self: &Arc<Locks>,
        resolved: &Resolved,
        entry: &Entry,
        ancestors: &[Ancestor],
    ) -> Option<Held> {
        if resolved.writes.is_empty() && resolved.deletes.is_empty() {
            return None;
        }
        let touch = Touch::of(resolved, u64::from(entry.number()), true).only_changes();
        let held = {
            let mut queue = lock(&self.queue);
            queue.next += 1;
            let ticket = queue.next;
            queue.claims.push((ticket, touch));
            // From here on the claim is taken back when the future is dropped.
            Held { locks: self.clone(), ticket }
        };
        loop {
            let freed = self.freed.notified();
            if self.is_first(held.ticket, ancestors) {
                return Some(held);
            }
            freed.await;
        }
    }

    fn is_first(&self, ticket: u64, ancestors: &[Ancestor]) -> bool {
        let queue = lock(&self.queue);
        let Some(at) = queue.claims.iter().position(|(claim, _)| *claim == ticket) else { return true };
        let mine = &queue.claims[at].1;
        let is_ancestor = |claim: u64| ancestors.iter().any(|ancestor| ancestor.ticket == Some(claim));
        queue.claims[..at].iter().enumerate().all(|(place, (claim, earlier))| {
            let waits_for_ancestor = || {
                let before = &queue.claims[..place];
                before.iter().any(|(claim, held)| is_ancestor(*claim) && held.conflicts(earlier))
            };
            !earlier.conflicts(mine) || is_ancestor(*claim) || waits_for_ancestor()
        })
    }
}

/// A call that a worker's calls run on behalf of, and what it held when the worker was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ancestor {
    /// Its claim on files.
    pub(crate) ticket: Option<u64>,
    /// The tool whose place it has, if that tool has a limit.
    pub(crate) tool: Option<u32>,
}

/// Gives the files free when dropped.
pub(crate) struct Held {
    locks: Arc<Locks>,
    ticket: u64,
}

impl Held {
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.locks.queue).claims.retain(|(claim, _)| *claim != self.ticket);
        self.locks.freed.notify_waiters();
    }
}
