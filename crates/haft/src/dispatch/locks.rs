//! Locks on the files that calls change, across all agents of a session.
//!
//! Within a turn the scheduler keeps conflicting calls apart; between agents, each with turns of its own,
//! these locks do. A call takes all it needs at once, just before it runs and never while somebody is asked,
//! so there is nothing to deadlock on. Who came first goes first. Child processes are outside of this.

use std::sync::{Arc, Mutex};

use haft_scheduler::ConflictKeys;
use haft_scheduler::sync::lock;
use tokio::sync::Notify;

use crate::effects::conflict::conflict_keys;
use crate::effects::resolved::ResolvedEffects;
use crate::registry::RegisteredTool;

/// The locks of a session.
#[derive(Default)]
pub(crate) struct FileLocks {
    queue: Mutex<ClaimQueue>,
    freed: Notify,
}

#[derive(Default)]
struct ClaimQueue {
    /// Held and wanted, oldest first.
    claims: Vec<(u64, ConflictKeys)>,
    next: u64,
}

impl FileLocks {
    /// Waits for the files that a call changes; nothing for a call that changes none.
    ///
    /// What an ancestor of the call holds is not in its way: the ancestor waits for this call, not the other
    /// way round. Nor is who waits for that ancestor, or for one who does, and so on.
    pub(crate) async fn take(
        self: &Arc<FileLocks>,
        resolved: &ResolvedEffects,
        entry: &RegisteredTool,
        ancestors: &[AncestorCall],
    ) -> Option<HeldLocks> {
        if resolved.writes.is_empty() && resolved.deletes.is_empty() {
            return None;
        }
        let keys = conflict_keys(resolved, u64::from(entry.number()), true).into_changed_paths();
        let held = {
            let mut queue = lock(&self.queue);
            queue.next += 1;
            let ticket = queue.next;
            queue.claims.push((ticket, keys));
            // From here on the claim is taken back when the future is dropped.
            HeldLocks { locks: self.clone(), ticket }
        };
        loop {
            let freed = self.freed.notified();
            if self.is_first(held.ticket, ancestors) {
                return Some(held);
            }
            freed.await;
        }
    }

    fn is_first(&self, ticket: u64, ancestors: &[AncestorCall]) -> bool {
        let queue = lock(&self.queue);
        let Some(at) = queue.claims.iter().position(|(claim, _)| *claim == ticket) else { return true };
        let mine = &queue.claims[at].1;
        let is_ancestor = |claim: u64| ancestors.iter().any(|ancestor| ancestor.ticket == Some(claim));
        if ancestors.is_empty() {
            return queue.claims[..at].iter().all(|(_, earlier)| !earlier.conflicts_with(mine));
        }
        // Claims that an ancestor has, and all that wait for one of these.
        let mut held_up: Vec<&ConflictKeys> = Vec::new();
        queue.claims[..at].iter().all(|(claim, earlier)| {
            if is_ancestor(*claim) || held_up.iter().any(|held| held.conflicts_with(earlier)) {
                held_up.push(earlier);
                return true;
            }
            !earlier.conflicts_with(mine)
        })
    }
}

/// A call that a worker's calls run on behalf of, and what it held when the worker was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AncestorCall {
    /// Its claim on files.
    pub(crate) ticket: Option<u64>,
    /// The tool whose place it has, if that tool has a limit.
    pub(crate) tool: Option<u32>,
}

/// Gives the files free when dropped.
pub(crate) struct HeldLocks {
    locks: Arc<FileLocks>,
    ticket: u64,
}

impl HeldLocks {
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        lock(&self.locks.queue).claims.retain(|(claim, _)| *claim != self.ticket);
        self.locks.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Effects;
    use crate::files::PathTable;
    use crate::ports::HostPorts;
    use crate::registry::{AssemblyInputs, Registry, ToolGates};
    use crate::{NoInput, tool};

    /// Whether the last of these claims is first in its turn; the first of them is its ancestor's.
    fn is_first(claims: &[&[&str]], with_ancestor: bool) -> bool {
        let tool = tool("t", "d", |_: NoInput, _| async { Ok(()) });
        let registry = Registry::new().with(tool).unwrap();
        let snapshot = registry.snapshot(&AssemblyInputs::new(&ToolGates::default(), &HostPorts::default()));
        let entry = &snapshot.find("t").unwrap().entry;
        let locks = Arc::new(FileLocks::default());
        for (ticket, names) in claims.iter().enumerate() {
            let path = |name: &&str| Effects::writes(format!("/no-such-folder-of-haft/{name}"));
            let effects = names.iter().map(path).fold(Effects::none(), Effects::and);
            let resolved = ResolvedEffects::resolve(Arc::new(effects), "/".as_ref(), &PathTable::default());
            let keys = conflict_keys(&resolved, u64::from(entry.number()), true).into_changed_paths();
            lock(&locks.queue).claims.push((ticket as u64, keys));
        }
        let ancestor = AncestorCall { ticket: Some(0), tool: None };
        let ancestors: &[AncestorCall] = if with_ancestor { &[ancestor] } else { &[] };
        locks.is_first(claims.len() as u64 - 1, ancestors)
    }

    #[test]
    fn who_came_first_goes_first() {
        assert!(is_first(&[&["a"], &["b"]], false));
        assert!(!is_first(&[&["a"], &["a"]], false));
        assert!(!is_first(&[&["a"], &["a", "b"], &["b"]], false), "a claim that waits counts");
    }

    /// A worker waited for a call that waited for a call that waited for the worker's own ancestor: for ever.
    #[test]
    fn what_waits_for_an_ancestor_is_in_no_workers_way() {
        assert!(is_first(&[&["a"], &["a"]], true), "what the ancestor holds");
        assert!(is_first(&[&["a"], &["a", "b"], &["b"]], true), "who waits for it");
        assert!(
            is_first(&[&["a"], &["a", "b"], &["b", "c"], &["c"]], true),
            "who waits for who waits for it"
        );
        assert!(!is_first(&[&["a"], &["b"], &["b"]], true), "who waits for nobody comes first");
    }
}
