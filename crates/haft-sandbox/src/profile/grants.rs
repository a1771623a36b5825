//! What one call was granted beyond the session's profile.
//!
//! A grant is shown from the descriptors that have held it since the call was authorized; of one that nobody
//! held, what is there now is opened without following links. A grant never reaches what the session hides,
//! and no grant makes a folder writable as a whole that is too wide for a working directory.
//!
//! A folder that exists is bound. A file is not enough by itself: who replaces, removes or makes it changes
//! the folder that it lies in, which wasn't granted. So a private folder stands in for that one, with the
//! file in it, and afterwards `stand_in` carries out what became of the granted names. Where the folder is
//! shown already this can't be, since it would be hidden: there the file is bound alone, made before if it
//! isn't there, and can be written but not replaced.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use haft::files::pinned_paths::{PinState, PinnedPath};
use haft::files::{GrantedRoot, RootExtent};
use haft::ports::{ConfinementLevel, ProcessRequest};
use rustix::fs::{FileType, fstat};

use super::mount_map::MountMap;
use super::stand_in::RequestedName;
use super::{SandboxProfile, display_path, is_too_wide, open_path, workspace_scan};
use crate::mount_plan::{BindSource, MountEntry, place_of};

impl SandboxProfile {
    /// Whether the request was granted a name that is protected for commands in general.
    pub(super) fn is_by_name(&self, request: &ProcessRequest) -> bool {
        let wide = |path: &PathBuf| self.config.workspace.contains(path);
        request.access.write.iter().any(|root| !wide(&root.path) && self.guard.is_within(&root.path))
    }

    /// Adds what the request was granted, without what must be hidden in it. Whether that is anything new.
    pub(super) fn widen(&self, places: &mut MountMap, request: &ProcessRequest) -> Result<bool, String> {
        let access = &request.access;
        let mut masks = None;
        let mut writes: Vec<&GrantedRoot> = access.write.iter().collect();
        writes.sort_by(|one, other| one.path.cmp(&other.path));
        // Writing includes reading. Of the others folders come first: nothing may stand in for what is to be
        // seen.
        let reads = access.read.iter().filter(|read| !writes.iter().any(|root| root.path == read.path));
        let reads = reads.map(|root| (root, false));
        let (folders, files): (Vec<_>, Vec<_>) =
            reads.partition(|(root, _)| root.extent == RootExtent::Subtree);
        let writes = writes.iter().map(|root| (*root, true));
        for (root, write) in folders.into_iter().chain(writes).chain(files) {
            let Some(shown) = self.show(places, request, root, write)? else { continue };
            let masks = masks.get_or_insert_with(Vec::new);
            // The working directories were searched for what the rules hide when the session began.
            let is_known = access.hidden.is_none()
                && self.config.workspace.iter().any(|workspace| root.path.starts_with(workspace));
            if let GrantMount::Folder(_) = shown
                && !is_known
            {
                let hidden = match (access.hidden.clone(), self.config.rules.unreadable.clone()) {
                    (Some(hidden), Some(unreadable)) => Some(hidden.or(unreadable)),
                    (hidden, unreadable) => hidden.or(unreadable),
                };
                let found =
                    workspace_scan::scan_workspaces(std::slice::from_ref(&root.path), hidden.as_ref(), None);
                masks.extend(found.unreadable.into_iter().chain(found.sockets));
            }
            if let GrantMount::Folder(part) | GrantMount::File(part) = shown {
                self.put_granted(places, part);
            }
        }
        let Some(masks) = masks else { return Ok(false) };
        for part in self.stand_ins.parts(request) {
            self.put_granted(places, part);
        }
        self.hide_always(places);
        self.hide(places, &masks);
        Ok(true)
    }

    /// Puts what was granted there: what lies in the session's temporary folder, in `/tmp`.
    fn put_granted(&self, places: &mut MountMap, part: MountEntry) {
        let at = self.path_in_child(place_of(&part)).into_owned();
        places.put(match part {
            MountEntry::Bind { from, writable, .. } => MountEntry::Bind { from, at, writable },
            MountEntry::StandIn { from, .. } => MountEntry::StandIn { from, at },
            part => part,
        });
    }

    /// Whether a child has something in the session's temporary folder without a grant. One that sees only
    /// what it declared has nothing of it.
    fn has_in_temp(&self, request: &ProcessRequest, path: &Path, write: bool) -> bool {
        let has_folder = match request.confinement {
            ConfinementLevel::Session => true,
            ConfinementLevel::ReadOnly => !write,
            ConfinementLevel::Declared | ConfinementLevel::Outside => false,
        };
        has_folder && path.starts_with(&self.config.temp)
    }

    /// How a grant is to be shown; not at all if the child has it already, or may not.
    fn show(
        &self,
        places: &mut MountMap,
        request: &ProcessRequest,
        root: &GrantedRoot,
        write: bool,
    ) -> Result<Option<GrantMount>, String> {
        let path = &root.path;
        let tidy = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let special = ["/proc", "/dev"].iter().any(|special| path.starts_with(special));
        if !tidy || special || path == Path::new("/") || self.is_hidden(request, path) {
            return Ok(None);
        }
        let write = write && self.may_write(request, path);
        // What isn't shown at all, as in the home folder, nothing has to hold.
        let by_name = write && places.shows(path) && self.guard.is_within(path);
        let partial = places.is_partial(path);
        let enough = if write {
            places.shows(path) && places.writable_root(path).is_some()
        } else {
            places.shows(path) && !partial || self.stand_ins.holds(request, path)
        };
        if !by_name && (enough || self.has_in_temp(request, path, write) || places.masks(path)) {
            return Ok(None);
        }
        let opened;
        let place = match request.access.held.place(path) {
            PinState::Is(place) => place,
            PinState::Changed => {
                return Err(format!(
                    "`{}` is no longer what it was when this call was allowed; look at it, and try again",
                    display_path(&path)
                ));
            }
            PinState::Unknown => match PinnedPath::open(path) {
                Ok(place) => {
                    opened = place;
                    &opened
                }
                Err(_) => return Ok(None),
            },
        };
        let taken = !by_name && !partial && places.has(&self.path_in_child(path));
        let kind = place.itself().and_then(|itself| fstat(itself).ok());
        let kind = kind.map(|found| FileType::from_raw_mode(found.st_mode));
        let bind = |held: OwnedFd, writable| MountEntry::Bind {
            from: BindSource::Held(Arc::new(held)),
            at: path.clone(),
            writable,
        };
        let held = |itself: BorrowedFd<'_>| itself.try_clone_to_owned().ok();
        match kind {
            Some(FileType::Directory) => {
                let writable = write && root.extent == RootExtent::Subtree;
                let held = place.itself().and_then(held).filter(|_| !taken);
                Ok(held.map(|held| GrantMount::Folder(bind(held, writable))))
            }
            Some(FileType::RegularFile | FileType::Symlink) | None if write => {
                if !by_name && self.stand_in(places, request, root, place) {
                    return Ok(Some(GrantMount::InStandIn));
                }
                let held = match kind {
                    Some(FileType::Symlink) => None,
                    Some(_) => place.itself().and_then(held),
                    None if root.extent == RootExtent::File => self.make(path),
                    None => None,
                };
                Ok(held.filter(|_| !taken).map(|held| GrantMount::File(bind(held, true))))
            }
            Some(FileType::RegularFile) => {
                let held = place.itself().and_then(held).filter(|_| !taken);
                Ok(held.map(|held| GrantMount::File(bind(held, false))))
            }
            // A socket would lead out of the sandbox.
            _ => Ok(None),
        }
    }

    /// Lets a private folder stand in for the one that this name lies in, or is to lie in.
    fn stand_in(
        &self,
        places: &mut MountMap,
        request: &ProcessRequest,
        root: &GrantedRoot,
        place: &PinnedPath,
    ) -> bool {
        let missing = place.rest().components().count();
        let Some(folder) = root.path.ancestors().nth(missing) else { return false };
        if folder == Path::new("/") || places.shows(folder) || places.masks(folder) {
            return false;
        }
        // What is made there must not bring along what no call may write.
        let config = &self.config;
        let mut never =
            request.access.never_written.iter().chain(&config.rules.unwritable_paths).chain(&config.own);
        if root.extent == RootExtent::Subtree && never.any(|never| never.starts_with(&root.path)) {
            return false;
        }
        let temp = places.is_stand_in(folder).then_some(self.config.temp.as_path());
        let wanted = RequestedName {
            folder,
            place,
            extent: root.extent,
            temp,
            in_memory: places.is_in_memory(folder),
        };
        let done = self.stand_ins.add(request, &wanted);
        if done {
            places.take_loose(&root.path);
        }
        done
    }

    /// An empty file that goes again if it stays so.
    fn make(&self, path: &Path) -> Option<OwnedFd> {
        make_empty(path).ok()?;
        self.guard.made_empty(path);
        open_path(path).ok()
    }

    fn is_hidden(&self, request: &ProcessRequest, path: &Path) -> bool {
        let config = &self.config;
        let shown = config.results.iter().chain([&config.temp]).chain(&config.workspace);
        let own = config.own.iter().any(|own| path.starts_with(own))
            && !shown.into_iter().any(|shown| path.starts_with(shown));
        let rules = [&request.access.hidden, &config.rules.unreadable];
        own || config.rules.unreadable_paths.iter().any(|denied| path.starts_with(denied))
            || rules.into_iter().flatten().any(|rule| rule.covers(path))
    }

    fn may_write(&self, request: &ProcessRequest, path: &Path) -> bool {
        let config = &self.config;
        let never =
            request.access.never_written.iter().chain(&config.rules.unwritable_paths).chain(&config.own);
        let denied = config.rules.unwritable.as_ref().is_some_and(|rule| rule.covers(path));
        !denied
            && !never.into_iter().any(|never| path.starts_with(never))
            && is_too_wide(path, config.home.as_deref()).is_none()
    }
}

/// How a grant is shown.
enum GrantMount {
    Folder(MountEntry),
    File(MountEntry),
    /// In a folder that stands in for its own.
    InStandIn,
}

fn make_empty(path: &Path) -> io::Result<()> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC).bits();
    OpenOptions::new().write(true).create_new(true).mode(0o666).custom_flags(flags as i32).open(path)?;
    Ok(())
}
