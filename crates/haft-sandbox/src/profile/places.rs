//! What lies where in the view of one child.
//!
//! A map from path to part, carried out in the order of paths: a folder comes before what lies in it, so nothing that is
//! put at `/tmp` can hide a workspace at `/tmp/w`, whoever put it there and when. Of two parts at one path the later
//! call wins. The questions to ask before something is hidden or protected ("is it seen at all?", "could it be
//! written?") are answered from the same map.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::limits;
use crate::scene::{Part, Source};

#[derive(Clone, Default)]
pub(super) struct Places(BTreeMap<PathBuf, Part>);

impl Places {
    pub(super) fn put(&mut self, part: Part) {
        self.0.insert(at(&part).to_owned(), part);
    }

    pub(super) fn bind(&mut self, path: &Path, writable: bool) {
        self.put(Part::Bind { from: Source::Path(path.to_owned()), at: path.to_owned(), writable });
    }

    /// Whether something was put at this very path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// What decides about a path: the part at it or the nearest above it.
    fn decides(&self, path: &Path) -> Option<&Part> {
        path.ancestors().find_map(|above| self.0.get(above))
    }

    /// Whether a child sees what the host has at a path.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let shown = |part: &Part| match part {
            // The session's temporary folder stands at `/tmp` and isn't that of the host.
            Part::Bind { from: Source::Path(from), at, .. } => from == at || at != Path::new("/tmp"),
            Part::Bind { .. } | Part::Overlay { .. } | Part::Protect { .. } | Part::Pin { .. } => true,
            _ => false,
        };
        self.decides(path).is_some_and(shown)
    }

    /// Whether something is masked above a path, or there.
    pub(super) fn masks(&self, path: &Path) -> bool {
        path.ancestors().any(|above| matches!(self.0.get(above), Some(Part::Mask { .. })))
    }

    /// The folder or file of the host through which a child could change a path.
    pub(super) fn writable_root(&self, path: &Path) -> Option<&Path> {
        for above in path.ancestors() {
            match self.0.get(above) {
                None | Some(Part::Pin { .. }) => {}
                // What stands in for a folder of the host leaves that alone.
                Some(Part::Bind { from: Source::Path(from), at, .. }) if from != at => return None,
                Some(Part::Bind { at, writable: true, .. }) => return Some(at),
                Some(_) => return None,
            }
        }
        None
    }

    /// Keeps a name as it is, if a child could change it: read-only, and no folder above it can be renamed.
    ///
    /// What was put at this very path to be written stays so: that was granted for it alone.
    pub(super) fn protect(&mut self, path: &Path) {
        let Some(root) = self.writable_root(path).map(Path::to_owned) else { return };
        if root == path {
            self.pin_around(path);
            return;
        }
        self.pin_between(&root, path);
        self.put(Part::Protect { at: path.to_owned() });
    }

    /// Pins the folders above a name, but leaves the name itself writable.
    pub(super) fn pin_above(&mut self, path: &Path) {
        let Some(root) = self.writable_root(path).map(Path::to_owned) else { return };
        self.pin_between(&root, path);
    }

    /// The same for a name that is a place of its own already.
    fn pin_around(&mut self, path: &Path) {
        let outer = path.parent().and_then(|parent| self.writable_root(parent)).map(Path::to_owned);
        if let Some(outer) = outer {
            self.pin_between(&outer, path);
        }
    }

    fn pin_between(&mut self, root: &Path, path: &Path) {
        for above in path.ancestors().skip(1).take_while(|above| *above != root) {
            self.0.entry(above.to_owned()).or_insert_with(|| Part::Pin { at: above.to_owned() });
        }
    }

    /// What lies directly in a folder that stands in for one of the host, perhaps some folders further down.
    pub(super) fn in_stand_in(&self, folder: &Path) -> Vec<PathBuf> {
        let stands_in = |part: &Part| match part {
            Part::Bind { from: Source::Path(from), at, .. } => from != at && at == folder,
            _ => false,
        };
        let inside = |path: &&PathBuf| {
            let above = || path.parent().and_then(|parent| self.decides(parent));
            *path != folder && path.starts_with(folder) && above().is_some_and(stands_in)
        };
        self.0.keys().filter(inside).cloned().collect()
    }

    /// Whether what was put at a path is a file.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        match self.0.get(path) {
            Some(Part::File { .. }) => true,
            Some(Part::Bind { .. }) => path.is_file(),
            _ => false,
        }
    }

    /// Pins the folders between one that stands in for another and a path in it.
    pub(super) fn pin_in(&mut self, folder: &Path, path: &Path) {
        if matches!(self.0.get(folder), Some(Part::Bind { writable: true, .. })) {
            self.pin_between(folder, path);
        }
    }

    /// Hides what a child would see, and everything that was put into it but what is to be kept.
    pub(super) fn hide(&mut self, path: &Path, kept: &[PathBuf]) {
        if !self.shows(path) || kept.iter().any(|kept| kept == path) {
            return;
        }
        let beneath = |place: &Path| place != path && place.starts_with(path);
        let holds = kept.iter().any(|kept| beneath(kept));
        self.0.retain(|place, _| !beneath(place) || kept.iter().any(|kept| place.starts_with(kept)));
        let at = path.to_owned();
        match holds {
            true => self.put(Part::Tmpfs { at, bytes_max: limits::SMALL_BYTES, mode: 0o755 }),
            false => self.put(Part::Mask { at }),
        }
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.0.into_values().collect()
    }
}

/// Where a part lies.
pub(super) fn at(part: &Part) -> &Path {
    match part {
        Part::Bind { at, .. }
        | Part::Tmpfs { at, .. }
        | Part::Overlay { at, .. }
        | Part::Mask { at }
        | Part::Protect { at }
        | Part::Pin { at }
        | Part::Link { at, .. }
        | Part::File { at, .. } => at,
        Part::Proc => Path::new("/proc"),
        Part::Dev => Path::new("/dev"),
    }
}
