//! Connection limits: one for connections that have not yet authenticated, one for authenticated ones, and
//! one for each principal.
//!
//! Opening a connection needs no token, so unauthenticated connections have their own limit. When it is
//! reached, new connections wait in the backlog of the socket, and one that has sent no valid token for
//! [`SILENT_GRACE`] is closed. A connection counts for the principal that authenticated on it first. A
//! quarter of each limit is kept for requests of sessions, so that new clients don't take it from established
//! ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use haft::sync::lock;
use haft::{Cancel, Cause};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::{DESCRIPTORS_RESERVED, SILENT_GRACE};

/// The connections of one listener.
pub(crate) struct ConnectionLimits {
    maximum: ConnectionMaximum,
    counts: Mutex<ConnectionCounts>,
    /// An unauthenticated connection authenticated or ended.
    room: Notify,
}

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionMaximum {
    /// Authenticated ones.
    pub(crate) total: usize,
    /// Those of one principal.
    pub(crate) per_principal: usize,
    /// Unauthenticated ones.
    pub(crate) unauthenticated: usize,
}

impl ConnectionMaximum {
    /// The same, or as many as a process with this descriptor limit can serve: some descriptors are kept for
    /// everything else.
    pub(crate) fn within_descriptors(self, limit: usize) -> ConnectionMaximum {
        let available = limit - (limit / 2).min(DESCRIPTORS_RESERVED);
        let unauthenticated = self.unauthenticated.min(available / 4).max(1);
        let total = self.total.min(available.saturating_sub(unauthenticated)).max(1);
        ConnectionMaximum { total, per_principal: self.per_principal.min(total), unauthenticated }
    }
}

#[derive(Default)]
struct ConnectionCounts {
    next_id: u64,
    /// Unauthenticated connections by age.
    unauthenticated: BTreeMap<u64, (Instant, Cancel)>,
    authenticated: usize,
    per_principal: HashMap<Box<str>, usize>,
}

/// An open connection, counted until it is dropped.
pub(crate) struct OpenConnection {
    limits: Arc<ConnectionLimits>,
    id: u64,
    eviction: Cancel,
    slot: Mutex<Option<AuthenticatedSlot>>,
}

struct AuthenticatedSlot {
    principal: Option<Box<str>>,
}

/// The limit that refuses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    Total,
    PerPrincipal,
}

/// The sender of the first request on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// A client without a session.
    NewClient,
    /// A client with a session.
    Session,
}

impl RequestOrigin {
    /// How much of a limit it may use.
    fn share(self, limit: usize) -> usize {
        match self {
            RequestOrigin::NewClient => limit - limit / 4,
            RequestOrigin::Session => limit,
        }
    }
}

impl ConnectionLimits {
    pub(crate) fn new(maximum: ConnectionMaximum) -> Arc<ConnectionLimits> {
        Arc::new(ConnectionLimits { maximum, counts: Mutex::default(), room: Notify::new() })
    }

    /// Waits until one more connection may be accepted.
    pub(crate) async fn has_room(&self) {
        loop {
            let (accepted, id) = {
                let counts = lock(&self.counts);
                match counts.unauthenticated.first_key_value() {
                    Some((id, (accepted, _)))
                        if counts.unauthenticated.len() >= self.maximum.unauthenticated =>
                    {
                        (*accepted, *id)
                    }
                    _ => return,
                }
            };
            tokio::select! {
                () = self.room.notified() => {}
                () = tokio::time::sleep_until(accepted + SILENT_GRACE) => {
                    if let Some((_, eviction)) = lock(&self.counts).unauthenticated.remove(&id) {
                        eviction.cancel(Cause::Timeout);
                    }
                }
            }
        }
    }

    /// Adds a connection. There has to be room for it.
    pub(crate) fn open(self: &Arc<ConnectionLimits>) -> Arc<OpenConnection> {
        let mut counts = lock(&self.counts);
        let (id, eviction) = (counts.next_id, Cancel::new());
        counts.next_id += 1;
        counts.unauthenticated.insert(id, (Instant::now(), eviction.clone()));
        Arc::new(OpenConnection { limits: self.clone(), id, eviction, slot: Mutex::default() })
    }
}

impl OpenConnection {
    /// Counts the connection as authenticated, once. Without tokens there are no principals, and no limit for
    /// each.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn authenticate(
        &self,
        principal: Option<&str>,
        origin: RequestOrigin,
    ) -> Result<(), LimitReached> {
        let mut slot = lock(&self.slot);
        if slot.is_some() {
            return Ok(());
        }
        let maximum = self.limits.maximum;
        let mut counts = lock(&self.limits.counts);
        if counts.authenticated >= origin.share(maximum.total) {
            return Err(LimitReached::Total);
        }
        if let Some(principal) = principal {
            let count = counts.per_principal.get(principal).copied().unwrap_or_default();
            if count >= origin.share(maximum.per_principal) {
                return Err(LimitReached::PerPrincipal);
            }
            counts.per_principal.insert(principal.into(), count + 1);
        }
        counts.authenticated += 1;
        counts.unauthenticated.remove(&self.id);
        *slot = Some(AuthenticatedSlot { principal: principal.map(Into::into) });
        self.limits.room.notify_one();
        Ok(())
    }

    /// Completes when the connection has to be closed.
    pub(crate) async fn wait_for_eviction(&self) {
        self.eviction.cancelled().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut counts = lock(&self.limits.counts);
        counts.unauthenticated.remove(&self.id);
        self.limits.room.notify_one();
        let Some(slot) = lock(&self.slot).take() else { return };
        counts.authenticated -= 1;
        let Some(principal) = slot.principal else { return };
        if let Some(count) = counts.per_principal.get_mut(&principal) {
            *count -= 1;
            if *count == 0 {
                counts.per_principal.remove(&principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::RequestOrigin::{NewClient, Session};
    use super::*;

    fn limits(total: usize, per_principal: usize, unauthenticated: usize) -> Arc<ConnectionLimits> {
        ConnectionLimits::new(ConnectionMaximum { total, per_principal, unauthenticated })
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unauthenticated_connection_is_evicted_after_a_while() {
        let limits = limits(2, 2, 2);
        let known = limits.open();
        assert_eq!([known.authenticate(None, Session), known.authenticate(None, Session)], [Ok(()); 2]);
        let silent = limits.open();
        tokio::time::advance(SILENT_GRACE / 2).await;
        let (talking, begin) = (limits.open(), Instant::now());
        assert!(limits.has_room().now_or_never().is_none(), "further connections wait");
        limits.has_room().await;
        assert_eq!(begin.elapsed(), SILENT_GRACE / 2);
        let evicted = [&known, &silent, &talking].map(|it| it.eviction.is_cancelled());
        assert_eq!(evicted, [false, true, false]);
        let third = limits.open();
        assert!(limits.has_room().now_or_never().is_none());
        assert_eq!(talking.authenticate(None, Session), Ok(()));
        assert!(limits.has_room().now_or_never().is_some(), "an authenticated connection makes room");
        assert_eq!(third.authenticate(None, Session), Err(LimitReached::Total));
        drop(known);
        assert_eq!(third.authenticate(None, Session), Ok(()));
    }

    #[test]
    fn principals_have_a_limit_each() {
        let limits = limits(3, 2, 8);
        let [one, two, three, other] = [limits.open(), limits.open(), limits.open(), limits.open()];
        assert_eq!([&one, &two].map(|it| it.authenticate(Some("a"), NewClient)), [Ok(()), Ok(())]);
        assert_eq!(three.authenticate(Some("a"), Session), Err(LimitReached::PerPrincipal));
        assert_eq!(one.authenticate(Some("b"), NewClient), Ok(()), "it is counted already");
        assert_eq!(other.authenticate(Some("b"), NewClient), Ok(()), "a refused connection takes no slot");
        drop(two);
        assert_eq!(three.authenticate(Some("a"), NewClient), Ok(()));
        drop((one, three, other));
        let counts = lock(&limits.counts);
        assert!(counts.per_principal.is_empty() && counts.unauthenticated.is_empty());
        assert_eq!(counts.authenticated, 0);
    }

    #[test]
    fn a_quarter_is_kept_for_sessions() {
        for (limits, reached) in
            [(limits(4, 8, 8), LimitReached::Total), (limits(8, 4, 8), LimitReached::PerPrincipal)]
        {
            let open = [(); 5].map(|()| limits.open());
            let origins = [NewClient, Session, NewClient, NewClient, Session];
            let expected = [Ok(()), Ok(()), Ok(()), Err(reached), Ok(())];
            for ((open, origin), expected) in open.iter().zip(origins).zip(expected) {
                assert_eq!(open.authenticate(Some("a"), origin), expected);
            }
        }
    }

    #[test]
    fn few_descriptors_mean_few_connections() {
        let wanted = ConnectionMaximum { total: 4_096, per_principal: 2_048, unauthenticated: 1_024 };
        for (limit, expected) in [
            (20_000, (4_096, 2_048, 1_024)),
            (4_096, (2_304, 2_048, 768)),
            (1_024, (384, 384, 128)),
            (0, (1, 1, 1)),
        ] {
            let (total, per_principal, unauthenticated) = expected;
            let expected = ConnectionMaximum { total, per_principal, unauthenticated };
            assert_eq!(wanted.within_descriptors(limit), expected, "{limit}");
        }
    }
}
