//! Connections of which nobody knows yet whose they are.
//!
//! Opening a connection needs no token, so anybody who reaches the port can open many and say nothing. They have a number of
//! their own, apart from that of connections whose first request was let in: when it is full, the oldest of them has to go, and
//! not whoever comes next. So a client that has something to say always gets in.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use haft::{Cancel, Cause};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections of one listener.
pub(crate) struct Connections {
    /// Those that were let in.
    places: Arc<Semaphore>,
    newcomers: Mutex<Newcomers>,
    newcomers_max: usize,
}

#[derive(Default)]
struct Newcomers {
    next: u64,
    /// Who has to go first stands first.
    waiting: BTreeMap<u64, Cancel>,
}

/// A connection. It has its place as long as this is there.
pub(crate) struct Connection {
    all: Arc<Connections>,
    number: u64,
    has_to_go: Cancel,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    /// Room for so many that are known, and so many that are not.
    pub(crate) fn new(most: usize, newcomers_max: usize) -> Arc<Connections> {
        Arc::new(Connections {
            places: Arc::new(Semaphore::new(most)),
            newcomers: Mutex::default(),
            newcomers_max: newcomers_max.max(1),
        })
    }

    /// Somebody comes. There is always room, if need be that of whoever came first and said nothing since.
    pub(crate) fn come(self: &Arc<Connections>) -> Arc<Connection> {
        let mut newcomers = lock(&self.newcomers);
        while newcomers.waiting.len() >= self.newcomers_max
            && let Some((_, oldest)) = newcomers.waiting.pop_first()
        {
            oldest.cancel(Cause::Timeout);
        }
        let (number, has_to_go) = (newcomers.next, Cancel::new());
        newcomers.next += 1;
        newcomers.waiting.insert(number, has_to_go.clone());
        Arc::new(Connection { all: self.clone(), number, has_to_go, place: Mutex::default() })
    }
}

impl Connection {
    /// A request of it was let in: from now on it is known. Whether there is room for that.
    pub(crate) fn settle(&self) -> bool {
        let mut place = lock(&self.place);
        if place.is_none() {
            *place = self.all.places.clone().try_acquire_owned().ok();
            if place.is_some() {
                lock(&self.all.newcomers).waiting.remove(&self.number);
            }
        }
        place.is_some()
    }

    /// Completes when it has to make room.
    pub(crate) async fn has_to_go(&self) {
        self.has_to_go.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.newcomers).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_who_said_nothing_goes_first() {
        let all = Connections::new(2, 2);
        let known = all.come();
        assert!(known.settle() && known.settle());
        let silent = [all.come(), all.come()];
        let third = all.come();
        let has_to_go = |connection: &Connection| connection.has_to_go.is_cancelled();
        assert_eq!(
            [&known, &silent[0], &silent[1], &third].map(|it| has_to_go(it)),
            [false, true, false, false]
        );
        assert!(third.settle(), "who is known makes no room for others");
        assert!(!silent[1].settle(), "all places are taken");
        drop(known);
        assert!(silent[1].settle());
    }
}
