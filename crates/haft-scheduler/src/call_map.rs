//! A map from numbers that are given out in order, with holes where entries were removed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Index, IndexMut};

/// The unfinished calls or open batches of a board, by number.
///
/// A number is never used again, so a late caller finds nothing rather than the entry of another call. Memory follows the
/// number of entries, however many there were before.
pub(crate) struct CallMap<T>(HashMap<usize, T, BuildHasherDefault<NumberHasher>>);

impl<T> Default for CallMap<T> {
    fn default() -> CallMap<T> {
        CallMap(HashMap::default())
    }
}

impl<T> CallMap<T> {
    pub(crate) fn reserve(&mut self, entries: usize) {
        self.0.reserve(entries);
    }

    pub(crate) fn insert(&mut self, number: usize, entry: T) {
        self.0.insert(number, entry);
    }

    pub(crate) fn remove(&mut self, number: usize) -> Option<T> {
        self.0.remove(&number)
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        self.0.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.0.get_mut(&number)
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.0.contains_key(&number)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Index<usize> for CallMap<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        &self.0[&number]
    }
}

impl<T> IndexMut<usize> for CallMap<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.0.get_mut(&number).expect("the caller knows that the entry exists")
    }
}

/// Spreads consecutive numbers. A caller can't choose the numbers, so it can't choose ones that collide.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0 ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
