//! What lies where in the view of one child.
//!
//! A map from path to part, carried out in the order of paths: a folder comes before what lies in it, so
//! nothing that is put at `/tmp` can hide a workspace at `/tmp/w`, whoever put it there and when. Of two
//! parts at one path the later call wins. The questions to ask before something is hidden or protected ("is
//! it seen at all?", "could it be written?") are answered from the same map.
//!
//! What is put there after [`MountMap::mark`] is remembered: it can be added to a view that was made without
//! it, as long as nothing of that view had to go.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::limits;
use crate::mount_plan::{BindSource, ExcerptEntry, MountEntry, place_of};

/// The same without links on the way to its last name: nothing can be held behind one.
fn without_parents(path: &Path) -> Cow<'_, Path> {
    let Some((parent, name)) = path.parent().zip(path.file_name()) else { return path.into() };
    // The parent itself may be one too.
    match super::open_path(&parent.join(".")) {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            parent.canonicalize().map_or(path.into(), |real| real.join(name).into())
        }
        _ => path.into(),
    }
}

#[derive(Clone, Default)]
pub(super) struct MountMap(BTreeMap<PathBuf, MountEntry>, Option<MountChanges>);

/// What has happened since the mark.
#[derive(Clone, Default)]
struct MountChanges {
    added: BTreeSet<PathBuf>,
    /// What was there and is covered by something added.
    covered: Vec<MountEntry>,
    /// Something of the view before the mark had to go.
    apart: bool,
}

impl MountMap {
    pub(super) fn put(&mut self, part: MountEntry) {
        let at = place_of(&part).to_owned();
        if !matches!(part, MountEntry::Mask { .. } | MountEntry::Protect { .. } | MountEntry::Pin { .. }) {
            self.take_apart(&at);
        }
        let stands_in = matches!(part, MountEntry::StandIn { .. });
        // Only what the helper is handed can be added later.
        let bound = matches!(part, MountEntry::Bind { from: BindSource::Path(_), .. });
        let can_be_added = !bound && !matches!(part, MountEntry::Overlay { .. } | MountEntry::Excerpt { .. });
        let before = self.0.insert(at.clone(), part);
        let Some(since) = &mut self.1 else { return };
        match before {
            _ if !can_be_added => since.apart = true,
            Some(_) if since.added.contains(&at) => {}
            Some(before @ MountEntry::Tmpfs { .. }) if stands_in => since.covered.push(before),
            Some(_) => since.apart = true,
            None => {}
        }
        since.added.insert(at);
    }

    /// Takes away what is no mount and was put at this very path: something else is to lie there.
    pub(super) fn take_loose(&mut self, path: &Path) {
        if matches!(self.0.get(path), Some(MountEntry::File { .. } | MountEntry::Link { .. })) {
            self.0.remove(path);
            if let Some(since) = &mut self.1 {
                since.apart = true;
            }
        }
    }

    /// From now on what is put is what only one child has.
    pub(super) fn mark(&mut self) {
        self.1 = Some(MountChanges::default());
    }

    pub(super) fn bind(&mut self, path: &Path, writable: bool) {
        let same = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(from), writable: same, .. } => {
                from == path && *same == writable
            }
            _ => false,
        };
        if !self.0.get(path).is_some_and(same) {
            self.put(MountEntry::Bind {
                from: BindSource::Path(path.to_owned()),
                at: path.to_owned(),
                writable,
            });
        }
    }

    /// Whether something was put at this very path.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// Whether something was put at a path, or a link above it, behind which nothing can be put.
    pub(super) fn is_behind_link(&self, path: &Path) -> bool {
        self.has(path)
            || path.ancestors().any(|above| matches!(self.0.get(above), Some(MountEntry::Link { .. })))
    }

    /// Whether a folder is a child's own, in memory, so that nobody expects to find there what it leaves.
    pub(super) fn is_in_memory(&self, path: &Path) -> bool {
        matches!(self.0.get(path), Some(MountEntry::Tmpfs { .. }))
    }

    /// Whether a folder of the session's stands at this very path for one of the host's.
    pub(super) fn is_stand_in(&self, path: &Path) -> bool {
        matches!(self.0.get(path), Some(MountEntry::Bind { from: BindSource::Path(from), at, .. }) if from != at)
    }

    /// Every path at which something was put.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// Everything that lies in a folder, from there.
    pub(super) fn inside(&self, folder: &Path) -> Vec<PathBuf> {
        let inside = self.0.keys().filter_map(|place| place.strip_prefix(folder).ok());
        inside.filter(|place| !place.as_os_str().is_empty()).map(Path::to_owned).collect()
    }

    /// What decides about a path: the part at it or the nearest above it. A pin keeps a folder in its place,
    /// and shows whatever it lies in.
    fn deciding_entry(&self, path: &Path) -> Option<&MountEntry> {
        let mut parts = path.ancestors().filter_map(|above| self.0.get(above));
        parts.find(|part| !matches!(part, MountEntry::Pin { .. }))
    }

    /// Whether every child has something of its own at a path, and nobody what the host has: `/proc`, `/dev`.
    pub(super) fn is_its_own(&self, path: &Path) -> bool {
        matches!(self.deciding_entry(path), Some(MountEntry::Proc | MountEntry::Dev))
    }

    /// Whether a child sees only some of what the host has at a path, and below.
    pub(super) fn is_partial(&self, path: &Path) -> bool {
        match self.deciding_entry(path) {
            Some(MountEntry::Excerpt { at, entries, .. }) => {
                let rest = path.strip_prefix(at).unwrap_or(path);
                !entries.iter().any(|entry| rest.starts_with(entry.name()))
            }
            _ => false,
        }
    }

    /// Lets a folder of which only some is shown be a child's own, if what is to be put there has no place in
    /// it otherwise.
    fn take_apart(&mut self, path: &Path) {
        if let Some(MountEntry::Excerpt { at, work: Some(_), entries }) = self.deciding_entry(path)
            && at != path
            && self.is_partial(path)
        {
            let (at, entries) = (at.clone(), entries.clone());
            self.put(MountEntry::Excerpt { at, work: None, entries });
        }
    }

    /// Whether a child sees what the host has at a path, or some of it.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let shown = |part: &MountEntry| match part {
            MountEntry::Excerpt { at, entries, .. } => {
                let rest = path.strip_prefix(at).unwrap_or(path);
                entries.iter().any(|entry| rest.starts_with(entry.name()) || entry.name().starts_with(rest))
            }
            // The session's temporary folder stands at `/tmp` and isn't that of the host.
            MountEntry::Bind { from: BindSource::Path(from), at, .. } => {
                from == at || at != Path::new("/tmp")
            }
            MountEntry::Bind { .. } | MountEntry::Overlay { .. } | MountEntry::Protect { .. } => true,
            _ => false,
        };
        self.deciding_entry(path).is_some_and(shown)
    }

    /// Whether a child sees only some of a folder, or a copy, of which the host has more.
    pub(super) fn is_excerpt(&self, path: &Path) -> bool {
        let Some(MountEntry::Excerpt { at, entries, .. }) = self.deciding_entry(path) else { return false };
        let rest = path.strip_prefix(at).unwrap_or(path);
        !entries.iter().any(|entry| matches!(entry, ExcerptEntry::Host(name) if rest.starts_with(name)))
    }

    /// Where the part lies that decides about a path.
    pub(super) fn decided_at(&self, path: &Path) -> Option<&Path> {
        self.deciding_entry(path).map(place_of)
    }

    /// Whether a link of the child's lies on the way to a path: what it leads to decides.
    pub(super) fn is_linked(&self, path: &Path) -> bool {
        matches!(self.deciding_entry(path), Some(MountEntry::Link { .. }))
    }

    /// What of the host a child sees beneath a folder that isn't shown itself: where, and where it lies. In a
    /// folder that is shown, what lies elsewhere on the host.
    pub(super) fn shown_beneath(&self, folder: &Path) -> Vec<(PathBuf, PathBuf)> {
        let shown = self.shows(folder);
        let beneath = |at: &PathBuf| at != folder && at.starts_with(folder);
        let real = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(from), .. } => Some(from.clone()),
            MountEntry::Bind { at, .. } | MountEntry::Protect { at } | MountEntry::Excerpt { at, .. } => {
                Some(at.clone())
            }
            MountEntry::Overlay { lower, .. } => Some(lower.clone()),
            _ => None,
        };
        let parts = self.0.iter().filter(|(at, _)| beneath(at) && self.shows(at));
        let parts = parts.filter_map(|(at, part)| Some((at.clone(), real(part)?)));
        parts.filter(|(at, real)| !shown || at != real).collect()
    }

    /// Where a child sees what the host has at one of its paths once every link on the way is followed.
    /// Nothing if nothing is there, and a path of the host if it leads out of what is shown there.
    pub(super) fn follow_links(&self, path: &Path) -> Option<PathBuf> {
        let (at, from) = match self.deciding_entry(path)? {
            MountEntry::Bind { from: BindSource::Path(from), at, .. }
            | MountEntry::Overlay { lower: from, at, .. } => (at, from),
            MountEntry::Bind { at, .. } | MountEntry::Protect { at } | MountEntry::Excerpt { at, .. } => {
                (at, at)
            }
            _ => return None,
        };
        let joined = |folder: &Path, rest: &Path| {
            if rest.as_os_str().is_empty() { folder.to_owned() } else { folder.join(rest) }
        };
        let real = joined(from, path.strip_prefix(at).ok()?).canonicalize().ok()?;
        Some(real.strip_prefix(from).map_or_else(|_| real.clone(), |rest| joined(at, rest)))
    }

    /// What of the host lies beneath a folder and is shown at another path: where, and where it lies.
    pub(super) fn shown_from(&self, folder: &Path) -> Vec<(PathBuf, PathBuf)> {
        let lies = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(from), at, .. }
            | MountEntry::Overlay { lower: from, at, .. }
                if from != at && from.starts_with(folder) =>
            {
                Some((at.clone(), from.clone()))
            }
            _ => None,
        };
        self.0.values().filter_map(lies).filter(|(at, _)| self.shows(at)).collect()
    }

    /// Where else a child sees what lies at a path of the host.
    pub(super) fn aliases(&self, path: &Path) -> Vec<PathBuf> {
        let alias = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(from), at, .. }
            | MountEntry::Overlay { lower: from, at, .. }
                if from != at =>
            {
                let rest = path.strip_prefix(from).ok()?;
                Some(if rest.as_os_str().is_empty() { at.clone() } else { at.join(rest) })
            }
            _ => None,
        };
        self.0.values().filter_map(alias).collect()
    }

    /// Copies that were made of what the host has at their path. That of the name server's is none.
    pub(super) fn copies(&self) -> impl Iterator<Item = &PathBuf> {
        let copies = self.0.iter().filter(|(_, part)| matches!(part, MountEntry::File { .. }));
        copies.map(|(at, _)| at).filter(|at| !at.starts_with("/etc") && !at.starts_with("/run"))
    }

    /// Takes some of them away.
    pub(super) fn take_copies(&mut self, copies: &[PathBuf]) {
        self.0.retain(|at, part| !(matches!(part, MountEntry::File { .. }) && copies.contains(at)));
    }

    /// Whether something is masked above a path, or there.
    pub(super) fn masks(&self, path: &Path) -> bool {
        path.ancestors().any(|above| matches!(self.0.get(above), Some(MountEntry::Mask { .. })))
    }

    /// The folder or file of the host through which a child could change a path.
    pub(super) fn writable_root(&self, path: &Path) -> Option<&Path> {
        for above in path.ancestors() {
            match self.0.get(above) {
                None | Some(MountEntry::Pin { .. }) => {}
                // What stands in for a folder of the host leaves that alone.
                Some(MountEntry::Bind { from: BindSource::Path(from), at, .. }) if from != at => return None,
                Some(MountEntry::Bind { at, writable: true, .. }) => return Some(at),
                Some(_) => return None,
            }
        }
        None
    }

    /// Keeps a name as it is, if a child could change it: read-only, and no folder above it can be renamed.
    ///
    /// What was put at this very path to be written stays so: that was granted for it alone.
    pub(super) fn protect(&mut self, path: &Path) {
        let path = &*without_parents(path);
        let Some(root) = self.writable_root(path).map(Path::to_owned) else { return };
        if root == path {
            self.pin_around(path);
            return;
        }
        self.pin_between(&root, path);
        self.put(MountEntry::Protect { at: path.to_owned() });
    }

    /// The same for a folder that may have been put there to be written, and is to be read only.
    pub(super) fn close(&mut self, path: &Path) {
        match self.0.get(path) {
            Some(MountEntry::Bind { from: BindSource::Path(from), writable: true, .. }) if from == path => {
                self.bind(path, false);
            }
            _ => self.protect(path),
        }
    }

    /// Pins the folders above a name, but leaves the name itself writable.
    pub(super) fn pin_above(&mut self, path: &Path) {
        let path = &*without_parents(path);
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
        for above in path.ancestors().skip(1).take_while(|above| *above != root && above.starts_with(root)) {
            if !self.has(above) {
                self.put(MountEntry::Pin { at: above.to_owned() });
            }
        }
    }

    /// What lies directly in a folder that stands in for one of the host, perhaps some folders further down.
    pub(super) fn in_stand_in(&self, folder: &Path) -> Vec<PathBuf> {
        let stands_in = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(from), at, .. } => from != at && at == folder,
            _ => false,
        };
        let inside = |path: &&PathBuf| {
            let above = || path.parent().and_then(|parent| self.deciding_entry(parent));
            *path != folder && path.starts_with(folder) && above().is_some_and(stands_in)
        };
        self.0.keys().filter(inside).cloned().collect()
    }

    /// Whether what was put at a path is a file.
    pub(super) fn is_file(&self, path: &Path) -> bool {
        match self.0.get(path) {
            Some(MountEntry::File { .. }) => true,
            Some(MountEntry::Bind { .. }) => path.is_file(),
            _ => false,
        }
    }

    /// Pins the folders between one that stands in for another and a path in it.
    pub(super) fn pin_in(&mut self, folder: &Path, path: &Path) {
        if matches!(self.0.get(folder), Some(MountEntry::Bind { writable: true, .. })) {
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
        let stays = |place: &Path| !beneath(place) || kept.iter().any(|kept| place.starts_with(kept));
        if let Some(since) = &mut self.1 {
            since.apart |= self.0.keys().any(|place| !stays(place) && !since.added.contains(place));
        }
        self.0.retain(|place, _| stays(place));
        let at = path.to_owned();
        if holds {
            self.put(MountEntry::Tmpfs { at, bytes_max: limits::SMALL_BYTES, mode: 0o755 })
        } else {
            self.put(MountEntry::Mask { at })
        }
    }

    /// What is the same for many children, and what only this one has.
    pub(super) fn into_parts(self) -> (Vec<MountEntry>, Vec<MountEntry>) {
        let Some(since) = self.1.filter(|since| !since.apart) else {
            return (self.0.into_values().collect(), Vec::new());
        };
        let (mut usual, mut more) = (BTreeMap::new(), Vec::new());
        for (place, part) in self.0 {
            if since.added.contains(&place) { more.push(part) } else { drop(usual.insert(place, part)) }
        }
        usual.extend(since.covered.into_iter().map(|part| (place_of(&part).to_owned(), part)));
        (usual.into_values().collect(), more)
    }
}
