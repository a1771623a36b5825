//! Connections: those of which nobody knows yet whose they are, and those of whom it is known.
//!
//! Opening a connection needs no token, so anybody who reaches the port can open many and say nothing. They have a number of
//! their own, apart from that of connections whose first request was let in: when it is full, the oldest of them has to go, and
//! not whoever comes next. So a client that has something to say always gets in.
//!
//! Nor does one client keep the others out: of those that were let in each principal has a share. A connection counts for whoever
//! came in by it first.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use haft::sync::lock;
use haft::{Cancel, Cause};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections of one listener.
pub(crate) struct Connections {
    /// Those that were let in.
    places: Arc<Semaphore>,
    newcomers: Mutex<Newcomers>,
    newcomers_max: usize,
    /// How many of those that were let in each principal has.
    shares: Mutex<HashMap<Box<str>, usize>>,
    share_max: usize,
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
    place: Mutex<Option<Place>>,
}

/// The place of a connection that was let in, and whose share it is of.
struct Place {
    _permit: OwnedSemaphorePermit,
    whose: Option<Box<str>>,
}

/// Why a connection has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// All places are taken.
    Full,
    /// Whoever asks has its share.
    Share,
}

impl Connections {
    /// Room for so many that are known, for so many of one principal, and for so many that are not known.
    pub(crate) fn new(most: usize, share_max: usize, newcomers_max: usize) -> Arc<Connections> {
        Arc::new(Connections {
            places: Arc::new(Semaphore::new(most)),
            newcomers: Mutex::default(),
            newcomers_max: newcomers_max.max(1),
            shares: Mutex::default(),
            share_max,
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
    /// A request of it was let in: from now on it is known. Without tokens everybody is the same, and there are no shares.
    ///
    /// # Errors
    /// There is no room for that.
    pub(crate) fn settle(&self, whose: Option<&str>) -> Result<(), NoRoom> {
        let mut place = lock(&self.place);
        if place.is_none() {
            let permit = self.all.places.clone().try_acquire_owned().map_err(|_| NoRoom::Full)?;
            if let Some(whose) = whose {
                let mut shares = lock(&self.all.shares);
                let share = shares.entry(whose.into()).or_default();
                if *share >= self.all.share_max {
                    return Err(NoRoom::Share);
                }
                *share += 1;
            }
            *place = Some(Place { _permit: permit, whose: whose.map(Into::into) });
            lock(&self.all.newcomers).waiting.remove(&self.number);
        }
        Ok(())
    }

    /// Completes when it has to make room.
    pub(crate) async fn has_to_go(&self) {
        self.has_to_go.cancelled().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.all.newcomers).waiting.remove(&self.number);
        let Some(whose) = lock(&self.place).take().and_then(|place| place.whose) else { return };
        let mut shares = lock(&self.all.shares);
        if let Some(share) = shares.get_mut(&whose) {
            *share -= 1;
            if *share == 0 {
                shares.remove(&whose);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_those_who_said_nothing_goes_first() {
        let all = Connections::new(2, 2, 2);
        let known = all.come();
        assert_eq!((known.settle(None), known.settle(None)), (Ok(()), Ok(())));
        let silent = [all.come(), all.come()];
        let third = all.come();
        let has_to_go = |connection: &Connection| connection.has_to_go.is_cancelled();
        assert_eq!(
            [&known, &silent[0], &silent[1], &third].map(|it| has_to_go(it)),
            [false, true, false, false]
        );
        assert_eq!(third.settle(None), Ok(()), "who is known makes no room for others");
        assert_eq!(silent[1].settle(None), Err(NoRoom::Full), "all places are taken");
        drop(known);
        assert_eq!(silent[1].settle(None), Ok(()));
    }

    #[test]
    fn nobody_takes_more_than_a_share() {
        let all = Connections::new(3, 2, 8);
        let [one, two, three, other] = [all.come(), all.come(), all.come(), all.come()];
        assert_eq!([&one, &two].map(|it| it.settle(Some("a"))), [Ok(()), Ok(())]);
        assert_eq!(three.settle(Some("a")), Err(NoRoom::Share));
        assert_eq!(one.settle(Some("b")), Ok(()), "it has its place");
        assert_eq!(other.settle(Some("b")), Ok(()), "and what was refused has taken none");
        drop(two);
        assert_eq!(three.settle(Some("a")), Ok(()));
        drop((one, three, other));
        assert!(lock(&all.shares).is_empty());
    }
}
