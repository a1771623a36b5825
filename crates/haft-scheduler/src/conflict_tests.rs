//! The index against comparing every call with every other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::{ConflictIndex, ConflictKeys, FileKey, PathKey};

/// A deterministic scatter of keys over paths, symlinks, hard links and resources that overlap.
fn scattered_keys() -> Vec<ConflictKeys> {
    let paths: &[(&[&str], Option<FileKey>)] = &[
        (&["/w/f"], None),
        (&["/w/g"], Some(FileKey(1, 7))),
        (&["/w/d"], None),
        (&["/w/d/f"], None),
        (&["/w/d/s/x"], None),
        (&["/w/ld", "/w/d"], None),
        (&["/w/ld", "/w/ld/f", "/w/d/f"], None),
        (&["/w/ld", "/w/ld/s", "/w/d/s"], None),
        (&["/w/hard"], Some(FileKey(1, 7))),
        (&["/w/n/x"], None),
        (&["/w"], None),
    ];
    let mut seed = 7_u32;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) as usize % below
    };
    let mut scattered = Vec::new();
    for _ in 0..400 {
        let mut keys = ConflictKeys::default();
        for _ in 0..=random(2) {
            let (names, file) = paths[random(paths.len())];
            let path = PathKey { names: names.iter().map(PathBuf::from).collect(), file };
            let resource = ["s", "t"][random(2)].to_owned();
            match random(8) {
                0 => keys.reads.resources.push(resource),
                1 => keys.changes.resources.push(resource),
                2 => keys.reads.resources.push("h.io".to_owned()),
                3..=5 => keys.changes.paths.push(path),
                _ => keys.reads.paths.push(path),
            }
        }
        match random(12) {
            0 => keys.exclusive = true,
            1 | 2 => keys.synchronized_by = Some(random(2) as u64),
            _ => {}
        }
        scattered.push(keys);
    }
    scattered
}

#[test]
fn the_index_finds_what_comparing_with_every_call_finds() {
    let scattered = scattered_keys();
    let mut index = ConflictIndex::default();
    let (mut unfinished, mut conflicts) = (BTreeSet::new(), 0);
    for (call, keys) in scattered.iter().enumerate() {
        if !keys.exclusive {
            let conflicting = |other: &usize| scattered[*other].conflicts_with(keys);
            let expected = unfinished.iter().rev().copied().find(conflicting);
            assert_eq!(index.nearest_conflict(call, keys).0, expected, "{keys:?}");
            conflicts += usize::from(expected.is_some());
        }
        index.insert(call, Some(keys));
        unfinished.insert(call);
        // Each third call ends another one.
        if call % 3 == 0
            && let Some(ended) = unfinished.iter().nth(call * 7 % unfinished.len()).copied()
        {
            index.remove(ended, Some(&scattered[ended]));
            unfinished.remove(&ended);
        }
    }
    assert!(conflicts > 100, "{conflicts}");
    for call in unfinished {
        index.remove(call, Some(&scattered[call]));
    }
    assert!(index.is_empty(), "nothing is left behind");
}
