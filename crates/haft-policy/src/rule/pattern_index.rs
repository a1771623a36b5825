//! An index that finds the patterns that match a text.
//!
//! A pattern is looked up by its literal prefix, otherwise by its literal suffix. Only patterns with
//! neither are tried one by one. So the cost depends on the number of different prefix lengths and not on
//! the number of rules. The alternative was an automaton over all patterns. It needs a cache that threads
//! share and that grows with the model's requests.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::pattern::IndexedPattern;

/// Patterns, each with a number.
#[derive(Debug, Clone)]
pub(super) struct PatternIndex<P> {
    exact: FastMap<Box<[u8]>, Vec<u32>>,
    heads: TextsByLength,
    tails: TextsByLength,
    /// Patterns that are tried with every text.
    rest: Vec<u32>,
    /// Patterns with a wildcard.
    wild: Vec<(P, u32)>,
}

impl<P> Default for PatternIndex<P> {
    fn default() -> PatternIndex<P> {
        let (exact, heads, tails) = (FastMap::default(), TextsByLength::default(), TextsByLength::default());
        PatternIndex { exact, heads, tails, rest: Vec::new(), wild: Vec::new() }
    }
}

impl<P: IndexedPattern> PatternIndex<P> {
    pub(super) fn insert(&mut self, pattern: P, number: u32) {
        if let Some(text) = pattern.exact() {
            self.exact.entry(text.as_bytes().into()).or_default().push(number);
            return;
        }
        let place = u32::try_from(self.wild.len()).expect("fewer rules than that");
        match (pattern.head(), pattern.tail()) {
            ("", "") => self.rest.push(place),
            ("", tail) => self.tails.insert(tail, place),
            (head, _) => self.heads.insert(head, place),
        }
        self.wild.push((pattern, number));
    }

    /// Calls `found` with the number of each matching pattern.
    pub(super) fn each(&self, text: &str, mut found: impl FnMut(u32)) {
        let bytes = text.as_bytes();
        if !self.exact.is_empty() {
            self.exact.get(bytes).into_iter().flatten().for_each(|number| found(*number));
        }
        let mut test = |place: u32| {
            let (pattern, number) = &self.wild[place as usize];
            if pattern.matches(text) {
                found(*number);
            }
        };
        self.heads.each(bytes.len(), |length| &bytes[..length], &mut test);
        self.tails.each(bytes.len(), |length| &bytes[bytes.len() - length..], &mut test);
        self.rest.iter().copied().for_each(test);
    }

    /// Returns whether the text starts with the literal prefix of a pattern, or equals a pattern.
    pub(super) fn begins(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        let mut found = self.exact.keys().any(|exact| bytes.starts_with(exact));
        self.heads.each(bytes.len(), |length| &bytes[..length], &mut |_| found = true);
        found
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wild.is_empty()
    }
}

/// A map from texts to numbers, with the lengths of its keys.
#[derive(Debug, Clone, Default)]
struct TextsByLength {
    /// Key lengths in ascending order, each with a bit set of the first and last bytes of its keys, so that
    /// few keys are looked up.
    lengths: Vec<(usize, u64)>,
    places: FastMap<Box<[u8]>, Vec<u32>>,
}

impl TextsByLength {
    fn insert(&mut self, key: &str, place: u32) {
        let at = self.lengths.partition_point(|(length, _)| *length < key.len());
        if self.lengths.get(at).is_none_or(|(length, _)| *length != key.len()) {
            self.lengths.insert(at, (key.len(), 0));
        }
        self.lengths[at].1 |= ends_bit(key.as_bytes());
        self.places.entry(key.as_bytes().into()).or_default().push(place);
    }

    /// Calls `test` with the numbers of each matching key of at most this many bytes.
    fn each<'t>(&self, most: usize, key: impl Fn(usize) -> &'t [u8], test: &mut impl FnMut(u32)) {
        for (length, ends) in self.lengths.iter().take_while(|(length, _)| *length <= most) {
            let key = key(*length);
            if ends & ends_bit(key) != 0 {
                self.places.get(key).into_iter().flatten().for_each(|place| test(*place));
            }
        }
    }
}

/// Returns a bit for the first and last byte of a text.
fn ends_bit(text: &[u8]) -> u64 {
    let [first, last] = [text.first(), text.last()].map(|end| end.map_or(0, |byte| usize::from(*byte)));
    1 << ((first + 31 * last) % 64)
}

type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// A fast hash. Keys come only from rules and never from the model, so an attacker can't cause collisions.
#[derive(Debug, Clone, Copy, Default)]
struct FastHasher(u64);

impl FastHasher {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(last));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pattern::{SegmentPattern, WildcardPattern};
    use super::*;

    fn found<P: IndexedPattern>(patterns: Vec<P>, text: &str) -> Vec<u32> {
        let mut index = PatternIndex::default();
        patterns.into_iter().zip(0..).for_each(|(pattern, number)| index.insert(pattern, number));
        let mut found = Vec::new();
        index.each(text, |number| found.push(number));
        found.sort_unstable();
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The index finds exactly the patterns that a linear search would find.
        #[test]
        fn nothing_is_missed_and_nothing_added(
            patterns in prop::collection::vec("[ab*?\\[\\]]{0,5}", 0..20), text in "[ab]{0,6}",
        ) {
            let wilds: Vec<WildcardPattern> = patterns.iter().map(|pattern| WildcardPattern::new(pattern)).collect();
            let expected: Vec<u32> = (0..).zip(&wilds).filter(|(_, p)| p.matches(&text)).map(|(n, _)| n).collect();
            prop_assert_eq!(found(wilds, &text), expected);
            let segments: Vec<SegmentPattern> = patterns.iter().map(|pattern| SegmentPattern::new(pattern)).collect();
            let expected: Vec<u32> = (0..).zip(&segments).filter(|(_, p)| p.matches(&text)).map(|(n, _)| n).collect();
            prop_assert_eq!(found(segments, &text), expected);
        }
    }
}
