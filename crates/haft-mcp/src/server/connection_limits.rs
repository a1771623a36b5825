//! Connection limits: one for connections that have not yet authenticated, one for authenticated ones, and one for each
//! principal.
//!
//! Opening a connection needs no token, so unauthenticated connections have their own limit. When it is reached, the oldest
//! one is closed instead of refusing the new one, so a client with a valid token can always get in. A connection counts for
//! the principal that authenticated on it first.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft::sync::lock;
use haft::{Cancel, Cause};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The connections of one listener.
pub(crate) struct ConnectionLimits {
    /// Permits of authenticated connections.
    slots: Arc<Semaphore>,
    unauthenticated: Mutex<UnauthenticatedConnections>,
    unauthenticated_max: usize,
    /// The number of connections of each principal.
    per_principal: Mutex<HashMap<Box<str>, usize>>,
    per_principal_max: usize,
}

#[derive(Default)]
struct UnauthenticatedConnections {
    next_id: u64,
    by_age: BTreeMap<u64, Cancel>,
}

/// An open connection, counted until it is dropped.
pub(crate) struct OpenConnection {
    limits: Arc<ConnectionLimits>,
    id: u64,
    eviction: Cancel,
    slot: Mutex<Option<AuthenticatedSlot>>,
}

struct AuthenticatedSlot {
    _permit: OwnedSemaphorePermit,
    principal: Option<Box<str>>,
}

/// The limit that refuses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Total,
    PerPrincipal,
}

impl ConnectionLimits {
    pub(crate) fn new(
        total: usize,
        per_principal_max: usize,
        unauthenticated_max: usize,
    ) -> Arc<ConnectionLimits> {
        Arc::new(ConnectionLimits {
            slots: Arc::new(Semaphore::new(total)),
            unauthenticated: Mutex::default(),
            unauthenticated_max: unauthenticated_max.max(1),
            per_principal: Mutex::default(),
            per_principal_max,
        })
    }

    /// Adds a connection; evicts the oldest unauthenticated one if there are too many.
    pub(crate) fn open(self: &Arc<ConnectionLimits>) -> Arc<OpenConnection> {
        let mut unauthenticated = lock(&self.unauthenticated);
        while unauthenticated.by_age.len() >= self.unauthenticated_max
            && let Some((_, oldest)) = unauthenticated.by_age.pop_first()
        {
            oldest.cancel(Cause::Timeout);
        }
        let (id, eviction) = (unauthenticated.next_id, Cancel::new());
        unauthenticated.next_id += 1;
        unauthenticated.by_age.insert(id, eviction.clone());
        Arc::new(OpenConnection { limits: self.clone(), id, eviction, slot: Mutex::default() })
    }
}

impl OpenConnection {
    /// Counts the connection as authenticated, once. Without tokens there are no principals, and no limit for each.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn authenticate(&self, principal: Option<&str>) -> Result<(), LimitReached> {
        let mut slot = lock(&self.slot);
        if slot.is_none() {
            let permit = self.limits.slots.clone().try_acquire_owned().map_err(|_| LimitReached::Total)?;
            if let Some(principal) = principal {
                let mut counts = lock(&self.limits.per_principal);
                let count = counts.entry(principal.into()).or_default();
                if *count >= self.limits.per_principal_max {
                    return Err(LimitReached::PerPrincipal);
                }
                *count += 1;
            }
            *slot = Some(AuthenticatedSlot { _permit: permit, principal: principal.map(Into::into) });
            lock(&self.limits.unauthenticated).by_age.remove(&self.id);
        }
        Ok(())
    }

    /// Completes when the connection has to be closed.
    pub(crate) async fn evicted(&self) {
        self.eviction.cancelled().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.limits.unauthenticated).by_age.remove(&self.id);
        let Some(principal) = lock(&self.slot).take().and_then(|slot| slot.principal) else { return };
        let mut counts = lock(&self.limits.per_principal);
        if let Some(count) = counts.get_mut(&principal) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&principal);
            }
        }
    }
}

/// Counts tasks that a shutdown waits for.
#[derive(Default)]
pub(crate) struct TaskCounter {
    count: AtomicUsize,
    changed: Notify,
}

/// A counted task.
pub(crate) struct CountedTask(Arc<TaskCounter>);

impl TaskCounter {
    pub(crate) fn begin(self: &Arc<TaskCounter>) -> CountedTask {
        self.count.fetch_add(1, Ordering::AcqRel);
        CountedTask(self.clone())
    }

    /// Waits until there are no tasks.
    pub(crate) async fn all_done(&self) {
        loop {
            let changed = self.changed.notified();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for CountedTask {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unauthenticated_connection_is_evicted() {
        let limits = ConnectionLimits::new(2, 2, 2);
        let known = limits.open();
        assert_eq!((known.authenticate(None), known.authenticate(None)), (Ok(()), Ok(())));
        let silent = [limits.open(), limits.open()];
        let third = limits.open();
        let evicted = [&known, &silent[0], &silent[1], &third].map(|it| it.eviction.is_cancelled());
        assert_eq!(evicted, [false, true, false, false]);
        assert_eq!(third.authenticate(None), Ok(()), "authenticated connections are never evicted");
        assert_eq!(silent[1].authenticate(None), Err(LimitReached::Total));
        drop(known);
        assert_eq!(silent[1].authenticate(None), Ok(()));
    }

    #[test]
    fn principals_have_a_limit_each() {
        let limits = ConnectionLimits::new(3, 2, 8);
        let [one, two, three, other] = [limits.open(), limits.open(), limits.open(), limits.open()];
        assert_eq!([&one, &two].map(|it| it.authenticate(Some("a"))), [Ok(()), Ok(())]);
        assert_eq!(three.authenticate(Some("a")), Err(LimitReached::PerPrincipal));
        assert_eq!(one.authenticate(Some("b")), Ok(()), "it is counted already");
        assert_eq!(other.authenticate(Some("b")), Ok(()), "a refused connection takes no slot");
        drop(two);
        assert_eq!(three.authenticate(Some("a")), Ok(()));
        drop((one, three, other));
        assert!(lock(&limits.per_principal).is_empty());
    }
}
