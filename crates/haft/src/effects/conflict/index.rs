//! Footprints found by what they touch, so that a call need not be compared with every other.
//!
//! For each place, file, resource and host it is known which calls read it and which change it, and for each folder
//! which of them do so anywhere beneath. The nearest earlier call that conflicts is then a few lookups away, however
//! many calls there are: as many as the paths of the call have parts.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use super::{Name, Spot, Touch};
use crate::effects::Access;
use crate::files::FileId;

/// The footprints of the unfinished calls of a turn.
#[derive(Default)]
pub(crate) struct Index {
    /// Calls that conflict with all others.
    everything: BTreeSet<u32>,
    /// The others, by the tool that synchronises them: within one such group nothing conflicts.
    groups: HashMap<Option<u64>, Group>,
}

#[derive(Default)]
struct Group {
    paths: HashMap<PathBuf, Place>,
    files: HashMap<FileId, Users>,
    named: HashMap<Name, Users>,
}

#[derive(Default)]
struct Place {
    here: Users,
    /// Here and anywhere below.
    beneath: Users,
}

#[derive(Default)]
struct Users {
    readers: BTreeSet<u32>,
    changers: BTreeSet<u32>,
}

#[derive(Clone, Copy)]
enum Change {
    Insert(u32),
    Remove(u32),
}

impl Index {
    pub(crate) fn insert(&mut self, call: u32, touch: Option<&Touch>) {
        self.apply(Change::Insert(call), touch);
    }

    /// Takes a call out, with the footprint that it was put in with.
    pub(crate) fn remove(&mut self, call: u32, touch: Option<&Touch>) {
        self.apply(Change::Remove(call), touch);
    }

    /// The nearest call before this one that conflicts, and how many lookups that took. Nothing known means everything,
    /// and that conflicts with whoever is nearest: the caller knows who.
    pub(crate) fn before(&self, call: u32, touch: &Touch) -> (Option<u32>, usize) {
        let mut search = Search { call, nearest: nearest(&self.everything, call), lookups: 1 };
        for (by, group) in &self.groups {
            if by.is_none() || *by != touch.synchronised_by {
                group.search(touch, &mut search);
            }
        }
        (search.nearest, search.lookups)
    }

    fn apply(&mut self, change: Change, touch: Option<&Touch>) {
        let Some(touch) = touch.filter(|touch| !touch.everything) else {
            return change.to(&mut self.everything);
        };
        let group = self.groups.entry(touch.synchronised_by).or_default();
        let spots = [(&touch.reads, Access::Observe), (&touch.changes, Access::Change)];
        for (spot, access) in
            spots.into_iter().flat_map(|(spots, access)| spots.iter().map(move |s| (s, access)))
        {
            group.apply_spot(change, spot, access);
        }
        for (name, access) in &touch.named {
            group.named.entry(name.clone()).or_default().apply(change, *access);
        }
        if matches!(change, Change::Remove(_)) {
            touch.named.iter().for_each(|(name, _)| forget(&mut group.named, name, Users::is_empty));
        }
    }
}

impl Group {
    fn apply_spot(&mut self, change: Change, spot: &Spot, access: Access) {
        if let Some(file) = spot.file {
            self.files.entry(file).or_default().apply(change, access);
            forget(&mut self.files, &file, Users::is_empty);
        }
        for name in &spot.names {
            for (height, folder) in name.ancestors().enumerate() {
                if !self.paths.contains_key(folder) {
                    self.paths.insert(folder.to_path_buf(), Place::default());
                }
                let Some(place) = self.paths.get_mut(folder) else { continue };
                if height == 0 {
                    place.here.apply(change, access);
                }
                place.beneath.apply(change, access);
                if place.beneath.is_empty() {
                    self.paths.remove(folder);
                }
            }
        }
    }

    fn search(&self, touch: &Touch, search: &mut Search) {
        for (spots, access) in [(&touch.reads, Access::Observe), (&touch.changes, Access::Change)] {
            for spot in spots {
                search.look(spot.file.and_then(|file| self.files.get(&file)), access);
                for name in &spot.names {
                    for (height, folder) in name.ancestors().enumerate() {
                        let place = self.paths.get(folder);
                        let users =
                            |place| if height == 0 { Place::beneath(place) } else { Place::here(place) };
                        search.look(place.map(users), access);
                    }
                }
            }
        }
        for (name, access) in &touch.named {
            search.look(self.named.get(name), *access);
        }
    }
}

impl Place {
    fn here(&self) -> &Users {
        &self.here
    }

    fn beneath(&self) -> &Users {
        &self.beneath
    }
}

impl Users {
    fn apply(&mut self, change: Change, access: Access) {
        change.to(if access == Access::Change { &mut self.changers } else { &mut self.readers });
    }

    fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.changers.is_empty()
    }
}

impl Change {
    fn to(self, calls: &mut BTreeSet<u32>) {
        match self {
            Change::Insert(call) => calls.insert(call),
            Change::Remove(call) => calls.remove(&call),
        };
    }
}

/// Who was found so far.
struct Search {
    call: u32,
    nearest: Option<u32>,
    lookups: usize,
}

impl Search {
    fn look(&mut self, users: Option<&Users>, access: Access) {
        self.lookups += 1;
        let Some(users) = users else { return };
        self.nearest = self.nearest.max(nearest(&users.changers, self.call));
        if access == Access::Change {
            self.nearest = self.nearest.max(nearest(&users.readers, self.call));
        }
    }
}

fn nearest(calls: &BTreeSet<u32>, before: u32) -> Option<u32> {
    calls.range(..before).next_back().copied()
}

/// Drops a key that nobody uses any more.
fn forget<K: std::hash::Hash + Eq, V>(map: &mut HashMap<K, V>, key: &K, unused: impl Fn(&V) -> bool) {
    if map.get(key).is_some_and(unused) {
        map.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::effects::Effects;
    use crate::effects::resolved::Resolved;

    /// A deterministic scatter of footprints over names, links and files that meet each other.
    fn touches(dir: &std::path::Path) -> Vec<Touch> {
        let paths = ["f", "g", "d", "d/f", "d/s/x", "ld", "ld/f", "ld/s", "hard", "n/x", "n", "."];
        let mut seed = 7_u32;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) as usize % below
        };
        let mut touches = Vec::new();
        for _ in 0..400 {
            let mut effects = Effects::none();
            for _ in 0..=random(2) {
                let path = paths[random(paths.len())];
                effects = effects.and(match random(8) {
                    0 => Effects::reads_state(["s", "t"][random(2)]),
                    1 => Effects::writes_state(["s", "t"][random(2)]),
                    2 => Effects::observes("h.io"),
                    3 => Effects::deletes(path),
                    4 | 5 => Effects::writes(path),
                    _ => Effects::reads(path),
                });
            }
            let effects = match random(12) {
                0 => Effects::unknown(),
                1 | 2 => effects.synchronised(),
                _ => effects,
            };
            let resolved = Resolved::resolve(Arc::new(effects), dir);
            touches.push(Touch::of(&resolved, random(2) as u64, false));
        }
        touches
    }

    #[test]
    fn finds_whom_comparing_with_all_would_find() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("d/s")).unwrap();
        std::fs::write(dir.path().join("g"), "").unwrap();
        std::fs::hard_link(dir.path().join("g"), dir.path().join("hard")).unwrap();
        std::os::unix::fs::symlink("d", dir.path().join("ld")).unwrap();
        let touches = touches(dir.path());
        let mut index = Index::default();
        let (mut there, mut found) = (BTreeSet::new(), 0);
        for (call, touch) in touches.iter().enumerate() {
            if !touch.everything {
                let earlier = there.iter().rev().copied();
                let expected =
                    earlier.map(|other| other as u32).find(|other| touches[*other as usize].conflicts(touch));
                assert_eq!(index.before(call as u32, touch).0, expected, "{touch:?}");
                found += usize::from(expected.is_some());
            }
            index.insert(call as u32, Some(touch));
            there.insert(call);
            // Each third call ends another one.
            if call % 3 == 0
                && let Some(ended) = there.iter().nth(call * 7 % there.len()).copied()
            {
                index.remove(ended as u32, Some(&touches[ended]));
                there.remove(&ended);
            }
        }
        assert!(found > 100, "{found}");
        for call in there {
            index.remove(call as u32, Some(&touches[call]));
        }
        let empty =
            |group: &Group| group.paths.is_empty() && group.files.is_empty() && group.named.is_empty();
        assert!(index.everything.is_empty() && index.groups.values().all(empty), "nothing is left behind");
    }
}
