//! What one call was granted beyond the session's profile.
//!
//! A grant is opened here without following links and shown from that descriptor, so what was judged is what is shown.
//! A grant never reaches what the session hides, and no grant makes a folder writable as a whole that is too wide for a
//! working directory. A file that is to be written and isn't there is made, empty, because only what exists can be
//! shown; it goes again if it stays empty.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use haft::files::{Extent, Root};
use haft::ports::ProcessRequest;
use rustix::fs::{FileType, fstat};

use super::places::Places;
use super::{Profile, hold, is_too_wide, walk};
use crate::scene::{Part, Source};

impl Profile {
    /// Adds what the request was granted. If that is anything new, gives what must be hidden in it.
    pub(super) fn grant(&self, places: &mut Places, request: &ProcessRequest) -> Option<Vec<PathBuf>> {
        let access = &request.access;
        let mut masks = None;
        let reads = access.read.iter().map(|root| (root, false));
        let writes = access.write.iter().map(|root| (root, true));
        for (root, write) in reads.chain(writes) {
            if let Some(opened) = self.open(places, request, root, write) {
                let masks = masks.get_or_insert_with(Vec::new);
                if opened.is_folder {
                    let hidden = access.hidden.as_ref().or(self.config.deny_read.as_ref());
                    let found = walk::walk(std::slice::from_ref(&root.path), hidden, None);
                    masks.extend(found.unreadable.into_iter().chain(found.sockets));
                }
                places.put(opened.part);
            }
        }
        masks
    }

    fn open(&self, places: &Places, request: &ProcessRequest, root: &Root, write: bool) -> Option<Opened> {
        let path = &root.path;
        let tidy = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let special = ["/proc", "/dev"].iter().any(|special| path.starts_with(special));
        if !tidy || special || path == Path::new("/") || self.is_hidden(request, path) {
            return None;
        }
        let write = write && self.may_write(request, path);
        // What is protected for commands in general was allowed to this one by its very name.
        let by_name = write && self.guard.is_within(path);
        if !by_name && (places.has(path) || places.masks(path)) {
            return None;
        }
        let enough = match write {
            true => places.shows(path) && places.writable_root(path).is_some(),
            false => places.shows(path),
        };
        if enough && !by_name {
            return None;
        }
        let held = match hold(path) {
            Ok(held) => held,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Directly in `/tmp` the child's own does.
                let stands_in = [Path::new("/tmp"), Path::new(super::PRIVATE_TEMP)];
                let stands_in = path.parent().is_some_and(|parent| stands_in.contains(&parent));
                if !write || root.extent != Extent::File || stands_in {
                    return None;
                }
                make_empty(path).ok()?;
                self.guard.made_empty(path);
                hold(path).ok()?
            }
            Err(_) => return None,
        };
        let is_folder = match FileType::from_raw_mode(fstat(&held).ok()?.st_mode) {
            FileType::Directory => true,
            FileType::RegularFile => false,
            // A socket would lead out of the sandbox.
            _ => return None,
        };
        let writable = write && (!is_folder || root.extent == Extent::Subtree);
        let part = Part::Bind { from: Source::Held(Arc::new(held)), at: path.clone(), writable };
        Some(Opened { part, is_folder })
    }

    fn is_hidden(&self, request: &ProcessRequest, path: &Path) -> bool {
        let config = &self.config;
        let shown = config.results.iter().chain([&config.temp]).chain(&config.workspace);
        let own = config.own.iter().any(|own| path.starts_with(own))
            && !shown.into_iter().any(|shown| path.starts_with(shown));
        let rules = [&request.access.hidden, &config.deny_read];
        own || config.deny_read_paths.iter().any(|denied| path.starts_with(denied))
            || rules.into_iter().flatten().any(|rule| rule.covers(path))
    }

    fn may_write(&self, request: &ProcessRequest, path: &Path) -> bool {
        let config = &self.config;
        let never = request.access.never_written.iter().chain(&config.deny_write_paths).chain(&config.own);
        let denied = config.deny_write.as_ref().is_some_and(|rule| rule.covers(path));
        !denied
            && !never.into_iter().any(|never| path.starts_with(never))
            && is_too_wide(path, config.home.as_deref()).is_none()
    }
}

struct Opened {
    part: Part,
    is_folder: bool,
}

fn make_empty(path: &Path) -> io::Result<()> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC).bits();
    OpenOptions::new().write(true).create_new(true).mode(0o666).custom_flags(flags as i32).open(path)?;
    Ok(())
}
