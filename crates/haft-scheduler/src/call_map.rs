//! A map from numbers that are given out in order, with holes where entries were removed.

use std::ops::{Index, IndexMut};

/// The unfinished calls or open batches of a board, by number.
///
/// A number is never used again, so a late caller finds nothing rather than the entry of another call.
/// Entries lie in the order of their numbers. Those that were added since holes were last closed lie where
/// their numbers say, and a binary search finds older ones. Memory follows the number of entries, however
/// many there were before.
pub(crate) struct CallMap<T> {
    /// Sorted by number. `None` where the entry was removed; the last is never `None`.
    entries: Vec<(usize, Option<T>)>,
    /// What the numbers of the newest entries are greater than their indexes by.
    offset: usize,
    len: usize,
}

/// How many holes are kept before they are closed, whatever the number of entries.
const HOLES_KEPT: usize = 32;

impl<T> Default for CallMap<T> {
    fn default() -> CallMap<T> {
        CallMap { entries: Vec::new(), offset: 0, len: 0 }
    }
}

impl<T> CallMap<T> {
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.entries.reserve(entries);
    }

    /// Adds an entry. Its number is greater than all before.
    pub(crate) fn insert(&mut self, number: usize, entry: T) {
        debug_assert!(self.entries.last().is_none_or(|(last, _)| *last < number));
        // Numbers that were given out in between, and to no entry of this map, would leave it without its
        // newest entries.
        if number.wrapping_sub(self.offset) != self.entries.len() {
            self.offset = number.wrapping_sub(self.entries.len());
        }
        self.entries.push((number, Some(entry)));
        self.len += 1;
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        let index = self.index_of(number)?;
        let removed = self.entries[index].1.take()?;
        self.len -= 1;
        while self.entries.last().is_some_and(|(_, entry)| entry.is_none()) {
            self.entries.pop();
        }
        if self.entries.len() > 2 * self.len + HOLES_KEPT {
            self.close_holes();
        }
        Some(removed)
    }

    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.entries[self.index_of(number)?].1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        let index = self.index_of(number)?;
        self.entries[index].1.as_mut()
    }

    #[inline]
    pub(crate) fn contains(&self, number: usize) -> bool {
        self.get(number).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn index_of(&self, number: usize) -> Option<usize> {
        let index = number.wrapping_sub(self.offset);
        match self.entries.get(index) {
            Some((at, _)) if *at == number => Some(index),
            _ => self.search(number),
        }
    }

    #[cold]
    fn search(&self, number: usize) -> Option<usize> {
        self.entries.binary_search_by_key(&number, |(at, _)| *at).ok()
    }

    #[cold]
    fn close_holes(&mut self) {
        self.entries.retain(|(_, entry)| entry.is_some());
        if let Some((last, _)) = self.entries.last() {
            self.offset = last.wrapping_sub(self.entries.len() - 1);
        }
    }
}

impl<T> Index<usize> for CallMap<T> {
    type Output = T;

    #[inline]
    fn index(&self, number: usize) -> &T {
        self.get(number).expect("the caller knows that the entry exists")
    }
}

impl<T> IndexMut<usize> for CallMap<T> {
    #[inline]
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.get_mut(number).expect("the caller knows that the entry exists")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is removed in whatever order, the map has what a map of the standard library has, and
        /// holes stay few.
        #[test]
        fn finds_what_was_inserted_and_not_removed(picks in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..400)) {
            let (mut map, mut model, mut next) = (CallMap::default(), BTreeMap::new(), 0);
            for (inserts, pick) in picks {
                if inserts {
                    map.insert(next, next);
                    model.insert(next, next);
                    next += 1;
                } else if next > 0 {
                    let number = pick.index(next);
                    prop_assert_eq!(map.remove(number), model.remove(&number));
                }
                prop_assert_eq!(map.len(), model.len());
                prop_assert!(map.entries.len() <= 2 * map.len() + HOLES_KEPT);
                for number in 0..next + 1 {
                    prop_assert_eq!(map.get(number), model.get(&number));
                }
            }
        }
    }
}
