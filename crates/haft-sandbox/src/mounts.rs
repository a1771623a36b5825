//! A scene becomes a file system: mounts on an empty root, which then is the only one there is.
//!
//! Run by the first process of a child's namespaces, which may mount there. Every place is found beneath the
//! new root without following links, and mounted on by descriptor: whoever else changes the workspace
//! meanwhile can make this fail but not make it mount elsewhere. Nothing is created in a folder of the host,
//! so a place that isn't there is an error.
//!
//! `/proc` is read-only as a whole: what reaches the machine through it must be, and what else could be
//! written there Landlock refuses anyway.

mod excerpt;

use std::ffi::OsStr;
use std::fmt;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree, unmount,
};

use crate::mount_plan::{BindSource, CoveredName, ExcerptEntry, MountEntry, MountPlan, place_of};
use crate::{limits, sys};

/// What of a scene could not be made, and why.
pub(crate) struct MountError {
    pub(crate) what: String,
    pub(crate) errno: Errno,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let because = std::io::Error::from(self.errno);
        write!(f, "the sandbox could not be set up: {}: {because}", self.what)
    }
}

/// Where the new root is mounted until it is the root: a folder that is there, and of which nothing is bound.
const MEANWHILE: &str = "/proc";

const NOSUID: u64 = MountAttrFlags::MOUNT_ATTR_NOSUID.bits() as u64;
const NODEV: u64 = MountAttrFlags::MOUNT_ATTR_NODEV.bits() as u64;
const RDONLY: u64 = MountAttrFlags::MOUNT_ATTR_RDONLY.bits() as u64;

/// Makes the scene, but for what only one child has, and makes it the root of this process.
///
/// # Errors
/// What could not be made. The process is good for nothing then.
pub(crate) fn set_root(scene: &MountPlan) -> std::result::Result<MountTree, MountError> {
    let mut stage = MountTree::new().map_err(|errno| MountError { what: "an empty root".into(), errno })?;
    stage.processes_max = scene
        .rlimits
        .iter()
        .find(|limit| limit.resource == libc::RLIMIT_NPROC)
        .map_or(limits::PROCESSES_MAX, |limit| limit.hard);
    for part in &scene.parts {
        stage.put(part).map_err(|errno| MountError { what: describe_entry(part), errno })?;
    }
    stage.enter().map_err(|errno| MountError { what: "entering it".into(), errno })?;
    Ok(stage)
}

/// Those that can be changed.
pub(crate) fn writable_paths(parts: &[MountEntry]) -> impl Iterator<Item = &Path> {
    parts.iter().filter_map(|part| match part {
        MountEntry::Bind { at, writable: true, .. }
        | MountEntry::Tmpfs { at, .. }
        | MountEntry::StandIn { at, .. } => Some(at.as_path()),
        _ => None,
    })
}

/// What a sandbox that is made already is given beyond its scene: mounts that lie nowhere yet, one for each
/// descriptor of the parts, in their order.
///
/// # Errors
/// What could not be made.
pub(crate) fn clone_trees(parts: &[MountEntry]) -> std::result::Result<Vec<OwnedFd>, MountError> {
    let made = |part: &MountEntry| -> Result<Option<OwnedFd>> {
        let (held, read_only) = match part {
            MountEntry::Bind { from: BindSource::Held(held), writable, .. } => {
                (held, if *writable { 0 } else { RDONLY })
            }
            MountEntry::StandIn { from, .. } => (from, 0),
            MountEntry::Bind { .. } => return Err(Errno::INVAL),
            _ => return Ok(None),
        };
        let descriptors = open_path(Path::new("/proc/self/fd"), OFlags::empty())?;
        let tree = copy_mount(reopen_held(descriptors.as_fd(), held.as_fd())?.as_fd())?;
        sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | read_only, true)?;
        Ok(Some(tree))
    };
    let one = |part| made(part).map_err(|errno| MountError { what: describe_entry(part), errno }).transpose();
    parts.iter().filter_map(one).collect()
}

fn describe_entry(part: &MountEntry) -> String {
    let show = |what: &str, at: &Path| format!("{what} `{}`", at.display());
    match part {
        MountEntry::Bind { at, .. } => show("binding", at),
        MountEntry::StandIn { at, .. } => show("a folder in place of", at),
        MountEntry::Tmpfs { at, .. } => show("an empty", at),
        MountEntry::Overlay { at, .. } => show("a copy of", at),
        MountEntry::Mask { at } => show("hiding", at),
        MountEntry::Protect { at } => show("protecting", at),
        MountEntry::Pin { at } => show("pinning", at),
        MountEntry::Link { at, .. } => show("the link", at),
        MountEntry::File { at, .. } => show("the file", at),
        MountEntry::Excerpt { at, .. } => show("a part of", at),
        MountEntry::Proc => "`/proc`".into(),
        MountEntry::Dev => "`/dev`".into(),
    }
}

/// A file system that is being made. It is the root of this process after [`set_root`], and can be added to
/// until it is [sealed](MountTree::seal).
pub(crate) struct MountTree {
    /// The mount that becomes the root.
    root: OwnedFd,
    /// The devices in which things may be created: those made here.
    own: Vec<u64>,
    /// Mounts of the host's in which they may be, by number.
    stand_ins: Vec<u64>,
    /// Our own descriptors by number, from before [`MEANWHILE`] was covered.
    descriptors: OwnedFd,
    processes_max: u64,
    /// A folder of the root's own on which `/proc` is mounted, so that nobody gets into it.
    beneath: OwnedFd,
    masks: Option<EmptyMasks>,
    /// Folders of this child's own that can't be changed once this is sealed.
    excerpts: Vec<OwnedFd>,
}

/// An empty folder and an empty file without any permission, to which no way leads.
struct EmptyMasks {
    folder: OwnedFd,
    file: OwnedFd,
}

/// What to look for, or to create, at a place.
#[derive(Clone, Copy, PartialEq)]
enum MountPointKind {
    Folder,
    File,
}

impl MountPointKind {
    fn from_descriptor(descriptor: BorrowedFd<'_>) -> Result<MountPointKind> {
        Ok(MountPointKind::in_mode(rustix::fs::fstat(descriptor)?.st_mode))
    }

    fn in_mode(mode: u32) -> MountPointKind {
        match FileType::from_raw_mode(mode) {
            FileType::Directory => MountPointKind::Folder,
            _ => MountPointKind::File,
        }
    }
}

impl MountTree {
    fn new() -> Result<MountTree> {
        let descriptors = open_path(Path::new("/proc/self/fd"), OFlags::empty())?;
        let root = make_tmpfs(limits::ROOT_BYTES_MAX, 0o755)?;
        move_mount(&root, "", CWD, MEANWHILE, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        let own = vec![device_number(root.as_fd())?];
        let processes_max = limits::PROCESSES_MAX;
        rustix::fs::mkdirat(&root, "proc", Mode::from_raw_mode(0o755))?;
        let beneath = rustix::fs::openat(&root, "proc", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (stand_ins, excerpts) = (Vec::new(), Vec::new());
        Ok(MountTree { root, own, stand_ins, descriptors, processes_max, beneath, masks: None, excerpts })
    }

    fn put(&mut self, part: &MountEntry) -> Result<()> {
        match part {
            MountEntry::Bind { from, at, writable } => self.bind(from, at, *writable),
            MountEntry::StandIn { from, at } => {
                let tree = copy_mount(reopen_held(self.descriptors.as_fd(), from.as_fd())?.as_fd())?;
                sys::mount_setattr(tree.as_fd(), NOSUID | NODEV, true)?;
                self.stand_in(&tree, at)
            }
            MountEntry::Tmpfs { at, bytes_max, mode } => {
                let mount = make_tmpfs(*bytes_max, *mode)?;
                self.own.push(device_number(mount.as_fd())?);
                self.attach(&mount, at, MountPointKind::Folder)
            }
            // What the helper could mount is a bind by now.
            MountEntry::Overlay { lower, at, .. } => self.bind(&BindSource::Path(lower.clone()), at, false),
            MountEntry::Mask { at } => self.mask(at),
            MountEntry::Protect { at } => self.onto_itself(at, RDONLY),
            MountEntry::Pin { at } => self.pin(at),
            MountEntry::Link { at, to } => self.link(at, to.as_os_str()),
            MountEntry::File { at, content } => self.file(at, content),
            MountEntry::Excerpt { at, entries, .. } => {
                let mount = make_tmpfs(limits::ROOT_BYTES_MAX, 0o755)?;
                self.own.push(device_number(mount.as_fd())?);
                self.attach(&mount, at, MountPointKind::Folder)?;
                excerpt::fill_excerpt(mount.as_fd(), at, entries)?;
                self.excerpts.push(mount);
                Ok(())
            }
            MountEntry::Proc => self.mount_proc(),
            MountEntry::Dev => self.mount_dev(),
        }
    }

    fn bind(&self, from: &BindSource, at: &Path, writable: bool) -> Result<()> {
        let source = match from {
            BindSource::Path(path) => match open_path(path, OFlags::NOFOLLOW) {
                // What has gone since the session began can't be read either.
                Err(Errno::NOENT) if !writable => return Ok(()),
                opened => opened?,
            },
            BindSource::Held(held) => reopen_held(self.descriptors.as_fd(), held.as_fd())?,
        };
        let status = rustix::fs::fstat(&source)?;
        if FileType::from_raw_mode(status.st_mode) == FileType::Symlink {
            let to = rustix::fs::readlinkat(&source, "", Vec::new())?;
            return self.link(at, OsStr::from_bytes(to.as_bytes()));
        }
        let tree = copy_mount(source.as_fd())?;
        let read_only = if writable { 0 } else { RDONLY };
        sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | read_only, true)?;
        self.attach(&tree, at, MountPointKind::in_mode(status.st_mode))
    }

    fn stand_in(&mut self, tree: &OwnedFd, at: &Path) -> Result<()> {
        self.stand_ins.push(mount_number(tree.as_fd())?);
        self.attach(tree, at, MountPointKind::Folder)
    }

    /// Holds again what was held when this was [set_root](set_root), where nothing does any more: somebody
    /// has removed it meanwhile and made it anew, and what lay on it went with it.
    ///
    /// # Errors
    /// What could not be made. The process is good for nothing then.
    pub(crate) fn hold_again(&mut self, usual: &[MountEntry]) -> std::result::Result<(), MountError> {
        for part in usual {
            let (MountEntry::Mask { at } | MountEntry::Protect { at } | MountEntry::Pin { at }) = part else {
                continue;
            };
            let is_held = self.find(at).is_ok_and(|found| is_mounted(found.as_fd()) == Ok(true));
            if !is_held {
                self.put(part).map_err(|errno| MountError { what: describe_entry(part), errno })?;
            }
        }
        Ok(())
    }

    /// Adds to what was [set_root](set_root) what only this child has: binds from [`clone_trees`], in their
    /// order. `usual` is what there is.
    ///
    /// # Errors
    /// What could not be made. The process is good for nothing then.
    pub(crate) fn widen(
        &mut self,
        usual: &[MountEntry],
        more: &[MountEntry],
    ) -> std::result::Result<(), MountError> {
        for part in more {
            self.add(usual, part).map_err(|errno| MountError { what: describe_entry(part), errno })?;
        }
        Ok(())
    }

    fn add(&mut self, usual: &[MountEntry], part: &MountEntry) -> Result<()> {
        let at = match part {
            MountEntry::Bind { at, .. } | MountEntry::StandIn { at, .. } => at,
            _ => return self.put(part),
        };
        // What lies there already would be covered: it is mounted again on top.
        let inside: Vec<&MountEntry> =
            usual.iter().filter(|usual| place_of(usual) != at && place_of(usual).starts_with(at)).collect();
        let mut above: Vec<(&Path, OwnedFd, MountPointKind)> = Vec::new();
        for place in inside.iter().filter(|inside| is_mount(inside)).map(|inside| place_of(inside)) {
            if above.iter().any(|(outer, ..)| place.starts_with(outer)) {
                continue;
            }
            let found = match self.find(place) {
                // It wasn't there when this was made.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                found => found?,
            };
            let tree = copy_mount(found.as_fd())?;
            above.push((place, tree, MountPointKind::from_descriptor(found.as_fd())?));
        }
        match part {
            MountEntry::Bind { from: BindSource::Held(tree), .. } => {
                self.attach(tree, at, MountPointKind::from_descriptor(tree.as_fd())?)?
            }
            MountEntry::StandIn { from: tree, .. } => self.stand_in(tree, at)?,
            _ => return Err(Errno::INVAL),
        }
        let loose = inside.iter().filter(|inside| !is_mount(inside));
        for part in loose.filter(|part| !above.iter().any(|(outer, ..)| place_of(part).starts_with(outer))) {
            self.put(part)?;
        }
        for (place, tree, kind) in above {
            self.attach(&tree, place, kind)?;
        }
        Ok(())
    }

    /// Nothing is made any more where it would be the root's own. What comes back can cover again what was
    /// covered.
    ///
    /// # Errors
    /// What the kernel refuses. The process is good for nothing then.
    pub(crate) fn seal(self) -> std::result::Result<SealedTree, MountError> {
        for mount in [&self.root].into_iter().chain(&self.excerpts) {
            let sealed = sys::mount_setattr(mount.as_fd(), RDONLY, false);
            sealed.map_err(|errno| MountError { what: "sealing it".into(), errno })?;
        }
        Ok(SealedTree { root: self.root, masks: self.masks })
    }

    fn mask(&mut self, at: &Path) -> Result<()> {
        // Also where there is nothing to hide yet: once this is sealed nothing can be made.
        if self.masks.is_none() {
            self.masks = Some(self.make_masks()?);
        }
        let target = match self.find(at) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            found => found?,
        };
        self.masks.as_ref().ok_or(Errno::INVAL)?.hide(&target)
    }

    /// They keep their names: what has none can't be mounted, and may have to be again.
    fn make_masks(&self) -> Result<EmptyMasks> {
        let (folder, file) = ("folder", "file");
        rustix::fs::mkdirat(&self.beneath, folder, Mode::empty())?;
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.beneath, file, create, Mode::empty())?;
        let path = OFlags::PATH | OFlags::CLOEXEC;
        Ok(EmptyMasks {
            folder: rustix::fs::openat(&self.beneath, folder, path, Mode::empty())?,
            file: rustix::fs::openat(&self.beneath, file, path, Mode::empty())?,
        })
    }

    /// Makes what is there a mount of itself, so that neither it nor a folder above it can be moved away.
    fn onto_itself(&self, at: &Path, add: u64) -> Result<()> {
        onto_itself(&self.find(at)?, add)
    }

    /// Keeps a folder in its place. Above a working directory, in a folder that stands in for one of the
    /// host's, it has to be made first; what lies in it is made in the mount that it is then.
    fn pin(&mut self, at: &Path) -> Result<()> {
        let target = self.place(at, MountPointKind::Folder)?;
        let is_ours = self.creatable(target.as_fd()).is_ok();
        onto_itself(&target, 0)?;
        if is_ours {
            self.stand_ins.push(mount_number(self.find(at)?.as_fd())?);
        }
        Ok(())
    }

    fn link(&self, at: &Path, to: &OsStr) -> Result<()> {
        let (parent, name) = self.parent(at)?;
        match rustix::fs::symlinkat(to, &parent, name) {
            Err(Errno::EXIST) => {
                let there = rustix::fs::readlinkat(&parent, name, Vec::new())?;
                if there.as_bytes() == to.as_bytes() { Ok(()) } else { Err(Errno::EXIST) }
            }
            done => done,
        }
    }

    /// Puts a file there, or over what is there. A link is followed to where it leads inside.
    fn file(&self, at: &Path, content: &[u8]) -> Result<()> {
        let mut at = at.to_owned();
        for _ in 0..limits::LINKS_MAX {
            let Ok((parent, name)) = self.parent(&at) else { break };
            let Ok(to) = rustix::fs::readlinkat(&parent, name, Vec::new()) else { break };
            let to = Path::new(OsStr::from_bytes(to.as_bytes()));
            at = normalize_path(&at.parent().unwrap_or(Path::new("/")).join(to));
        }
        // In a folder of the host nothing is made; programs get on without a small file of its kind.
        let (parent, name) = match self.parent(&at) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let exists = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        if !exists {
            if self.creatable(parent.as_fd()).is_err() {
                return Ok(());
            }
            let file = rustix::fs::openat(&parent, name, create, mode)?;
            return std::fs::File::from(file).write_all(content).map_err(|_| Errno::NOSPC);
        }
        let hidden = ".content";
        let file = rustix::fs::openat(&self.root, hidden, create, mode)?;
        std::fs::File::from(file).write_all(content).map_err(|_| Errno::NOSPC)?;
        let path = rustix::fs::openat(&self.root, hidden, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let tree = copy_mount(path.as_fd())?;
        sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | RDONLY, false)?;
        self.attach(&tree, &at, MountPointKind::File)?;
        // Only now: what has no name can't be mounted.
        rustix::fs::unlinkat(&self.root, hidden, AtFlags::empty())
    }

    fn mount_proc(&self) -> Result<()> {
        let mount = make_filesystem(
            "proc",
            &[],
            NOSUID | NODEV | u64::from(MountAttrFlags::MOUNT_ATTR_NOEXEC.bits()),
        )?;
        if pid_max_is_ours()
            && let Ok(file) = rustix::fs::openat(
                &mount,
                "sys/kernel/pid_max",
                OFlags::WRONLY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        {
            // A bound that holds for root too, whom RLIMIT_NPROC doesn't bind. The least that the kernel
            // takes is 301.
            let _ = rustix::io::write(&file, self.processes_max.clamp(301, 4_194_304).to_string().as_bytes());
        }
        sys::mount_setattr(mount.as_fd(), RDONLY, true)?;
        self.attach(&mount, Path::new("/proc"), MountPointKind::Folder)
    }

    fn mount_dev(&mut self) -> Result<()> {
        let dev = make_tmpfs(limits::ROOT_BYTES_MAX, 0o755)?;
        self.own.push(device_number(dev.as_fd())?);
        self.attach(&dev, Path::new("/dev"), MountPointKind::Folder)?;
        for name in ["null", "zero", "full", "random", "urandom", "tty"] {
            let path = Path::new("/dev").join(name);
            let Ok(source) = open_path(&path, OFlags::NOFOLLOW) else { continue };
            let tree = copy_mount(source.as_fd())?;
            sys::mount_setattr(tree.as_fd(), NOSUID, true)?;
            self.attach(&tree, &path, MountPointKind::File)?;
        }
        let shm = make_tmpfs(limits::SHM_BYTES_MAX, 0o1777)?;
        self.own.push(device_number(shm.as_fd())?);
        self.attach(&shm, Path::new("/dev/shm"), MountPointKind::Folder)?;
        let pts = make_filesystem("devpts", &[("ptmxmode", "0666"), ("mode", "0620")], NOSUID)?;
        self.attach(&pts, Path::new("/dev/pts"), MountPointKind::Folder)?;
        for (name, to) in [
            ("ptmx", "pts/ptmx"),
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
        ] {
            rustix::fs::symlinkat(to, &dev, name)?;
        }
        sys::mount_setattr(dev.as_fd(), RDONLY, false)
    }

    /// Makes this the root, and lets go of everything else.
    fn enter(&self) -> Result<()> {
        rustix::process::fchdir(&self.root)?;
        rustix::process::pivot_root(".", ".")?;
        // The old root lies on the new one now.
        unmount(".", UnmountFlags::DETACH)?;
        rustix::process::chdir("/")
    }

    fn attach(&self, mount: &OwnedFd, at: &Path, kind: MountPointKind) -> Result<()> {
        mount_on(mount, &self.place(at, kind)?)
    }

    /// What is at a path of the new root. A link on the way is an error.
    fn find(&self, at: &Path) -> Result<OwnedFd> {
        find_mount_point(&self.root, at)
    }

    /// The same, created if it isn't there and lies in what was made here.
    fn place(&self, at: &Path, kind: MountPointKind) -> Result<OwnedFd> {
        match self.find(at) {
            Err(Errno::NOENT) => {}
            done => return done,
        }
        let (parent, name) = self.parent(at)?;
        self.creatable(parent.as_fd())?;
        let made = match kind {
            MountPointKind::Folder => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)),
            MountPointKind::File => {
                let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                rustix::fs::openat(&parent, name, create, Mode::from_raw_mode(0o644)).map(drop)
            }
        };
        match made {
            // In a folder that stands in for another, a sandbox that is made at the same time needs it too.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        self.find(at)
    }

    fn parent<'a>(&self, at: &'a Path) -> Result<(OwnedFd, &'a OsStr)> {
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else { return Err(Errno::INVAL) };
        Ok((self.place(parent, MountPointKind::Folder)?, name))
    }

    fn creatable(&self, folder: BorrowedFd<'_>) -> Result<()> {
        let ours = self.own.contains(&device_number(folder)?)
            || !self.stand_ins.is_empty() && self.stand_ins.contains(&mount_number(folder)?);
        if ours { Ok(()) } else { Err(Errno::NOENT) }
    }
}

impl EmptyMasks {
    fn hide(&self, target: &OwnedFd) -> Result<()> {
        let mask = match MountPointKind::from_descriptor(target.as_fd())? {
            MountPointKind::Folder => &self.folder,
            MountPointKind::File => &self.file,
        };
        let tree = copy_mount(mask.as_fd())?;
        sys::mount_setattr(tree.as_fd(), NOSUID | NODEV | RDONLY, false)?;
        mount_on(&tree, target)
    }
}

/// A file system that is made.
pub(crate) struct SealedTree {
    root: OwnedFd,
    masks: Option<EmptyMasks>,
}

impl SealedTree {
    /// Hides or protects what is at a place, if nothing does any more: somebody outside has given the name to
    /// another file, and so taken away the mount that lay on it.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(crate) fn cover(&self, cover: &CoveredName) -> std::result::Result<(), MountError> {
        let covered = || {
            let target = find_mount_point(&self.root, &cover.at)?;
            match &self.masks {
                _ if is_mounted(target.as_fd())? => Ok(()),
                _ if !cover.hides => onto_itself(&target, RDONLY),
                Some(masks) => masks.hide(&target),
                None => Err(Errno::INVAL),
            }
        };
        let covered = match covered() {
            // There is nothing to cover, or it was replaced once more, and then we are told once more.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) => Ok(()),
            covered => covered,
        };
        covered.map_err(|errno| MountError { what: format!("covering `{}`", cover.at.display()), errno })
    }
}

fn onto_itself(target: &OwnedFd, add: u64) -> Result<()> {
    let is_link = FileType::from_raw_mode(rustix::fs::fstat(target)?.st_mode) == FileType::Symlink;
    let mounted = copy_mount(target.as_fd()).and_then(|tree| {
        sys::mount_setattr(tree.as_fd(), add, true)?;
        mount_on(&tree, target)
    });
    // Not every kernel mounts a link on itself. Who wanted it looks at the link afterwards.
    if is_link { Ok(()) } else { mounted }
}

/// What is at a path of a root. A link on the way is an error.
fn find_mount_point(root: &OwnedFd, at: &Path) -> Result<OwnedFd> {
    let relative = at.strip_prefix("/").unwrap_or(at);
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    loop {
        match rustix::fs::openat2(root, relative, flags, Mode::empty(), resolve) {
            // Something was renamed meanwhile; the kernel can't say whether it matters.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
}

/// Makes a folder of the root that this process has read-only, also for who holds a descriptor of it.
///
/// A mount that can be written can't be made read-only while something in it is open to be written. So
/// another one takes its place, and it is let go: who still has a descriptor of a folder in it is in a place
/// that leads to no root, and there Landlock lets nobody change anything. What is open to be written stays
/// so, and is its caller's matter.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn close_folder(folder: &Path) -> std::result::Result<(), MountError> {
    let closed = || {
        let root = open_path(Path::new("/"), OFlags::DIRECTORY)?;
        let target = match find_mount_point(&root, folder) {
            // There is nothing to close.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            found => found?,
        };
        let tree = copy_mount(target.as_fd())?;
        sys::mount_setattr(tree.as_fd(), RDONLY, true)?;
        if !is_mounted(target.as_fd())? {
            return mount_on(&tree, &target);
        }
        // One that was bound for itself has a rule of its own, so it has to be read-only itself, if nothing
        // hinders that.
        let _ = sys::mount_setattr(target.as_fd(), RDONLY, true);
        let let_go = || {
            let itself = format!("/proc/self/fd/{}", target.as_raw_fd());
            unmount(itself.as_str(), UnmountFlags::DETACH)
        };
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        match move_mount(&tree, "", &target, "", flags | MoveMountFlags::from_bits_retain(BENEATH)) {
            Ok(()) => let_go(),
            // Before Linux 6.5 there is a moment in between.
            Err(_) => {
                let_go()?;
                mount_on(&tree, &find_mount_point(&root, folder)?)
            }
        }
    };
    closed().map_err(|errno| MountError { what: format!("closing `{}`", folder.display()), errno })
}

/// `MOVE_MOUNT_BENEATH`: below what is mounted there.
const BENEATH: u32 = 0x200;

/// Whether something is mounted at the very place that a descriptor stands for.
fn is_mounted(place: BorrowedFd<'_>) -> Result<bool> {
    let found = rustix::fs::statx(place, "", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::BASIC_STATS)?;
    Ok(found.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT))
}

/// A file or folder: where it lies, by which number, and when it was made, if the file system knows that.
/// Numbers alone come again: what is made right after something was removed often gets the number of that.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct InodeIdentity {
    device: (u32, u32),
    number: u64,
    born: Option<(i64, u32)>,
}

impl InodeIdentity {
    fn read_identity(folder: BorrowedFd<'_>, path: &Path) -> Option<InodeIdentity> {
        use rustix::fs::StatxFlags;
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let found = rustix::fs::statx(folder, path, flags, StatxFlags::INO | StatxFlags::BTIME).ok()?;
        let knows = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Some(InodeIdentity {
            device: (found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
            born: knows.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)),
        })
    }
}

/// What a scene was made of; it is good as long as this stays the same.
pub(crate) struct SourceIdentities(Vec<(SourceOrigin, Option<InodeIdentity>)>);

/// Where a part of a scene comes from.
enum SourceOrigin {
    Path(PathBuf),
    /// The next of the descriptors that come with a scene.
    Held,
}

impl SourceIdentities {
    /// As they are now.
    pub(crate) fn for_plan(scene: &MountPlan) -> SourceIdentities {
        let at = |path: &Path| {
            Some((SourceOrigin::Path(path.to_owned()), InodeIdentity::read_identity(CWD, path)))
        };
        let one = |part: &MountEntry| match part {
            MountEntry::Bind { from: BindSource::Path(path), .. } => at(path),
            MountEntry::Bind { from: BindSource::Held(held), .. }
            | MountEntry::StandIn { from: held, .. } => {
                Some((SourceOrigin::Held, InodeIdentity::read_identity(held.as_fd(), Path::new(""))))
            }
            MountEntry::Overlay { lower, .. } => at(lower),
            MountEntry::Mask { at: path }
            | MountEntry::Protect { at: path }
            | MountEntry::Pin { at: path } => at(path),
            _ => None,
        };
        SourceIdentities(scene.parts.iter().filter_map(one).collect())
    }

    /// Whether the same scene, with these descriptors, would be made of the same now.
    pub(crate) fn are_still(&self, held: &[OwnedFd]) -> bool {
        let mut held = held.iter();
        self.0.iter().all(|(origin, made)| match origin {
            SourceOrigin::Path(path) => InodeIdentity::read_identity(CWD, path) == *made,
            SourceOrigin::Held => held
                .next()
                .is_some_and(|held| InodeIdentity::read_identity(held.as_fd(), Path::new("")) == *made),
        })
    }
}

fn open_path(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())
}

fn device_number(descriptor: BorrowedFd<'_>) -> Result<u64> {
    Ok(rustix::fs::fstat(descriptor)?.st_dev)
}

fn inode_identity(descriptor: BorrowedFd<'_>) -> Result<(u64, u64)> {
    let status = rustix::fs::fstat(descriptor)?;
    Ok((status.st_dev, status.st_ino))
}

fn mount_number(descriptor: BorrowedFd<'_>) -> Result<u64> {
    let found = rustix::fs::statx(descriptor, "", AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::MNT_ID)?;
    Ok(found.stx_mnt_id)
}

/// Whether a part is mounted; the others lie in a folder of ours.
fn is_mount(part: &MountEntry) -> bool {
    !matches!(part, MountEntry::Link { .. } | MountEntry::File { .. })
}

/// What a descriptor of the host's stands for, as it is mounted here: found by the path that the kernel knows
/// it by, and compared. Who renames it meanwhile makes us look again, and never at something else.
fn reopen_held(descriptors: BorrowedFd<'_>, held: BorrowedFd<'_>) -> Result<OwnedFd> {
    let number = held.as_raw_fd().to_string();
    let wanted = inode_identity(held)?;
    for _ in 0..limits::REOPEN_TRIES_MAX {
        let path = rustix::fs::readlinkat(descriptors, &number, Vec::new())?;
        match open_path(Path::new(OsStr::from_bytes(path.as_bytes())), OFlags::NOFOLLOW) {
            Ok(found) if inode_identity(found.as_fd())? == wanted => return Ok(found),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::STALE)
}

/// A mount of the same, with what is mounted below it, that lies nowhere yet.
fn copy_mount(of: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(of, "", flags)
}

fn mount_on(mount: &OwnedFd, target: &OwnedFd) -> Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", target, "", flags)
}

fn make_tmpfs(bytes_max: u64, mode: u32) -> Result<OwnedFd> {
    let (size, mode) = (bytes_max.to_string(), format!("{mode:o}"));
    // Each costs memory of the kernel's too.
    let inodes = (bytes_max / 4096).max(1024).to_string();
    make_filesystem("tmpfs", &[("size", &size), ("mode", &mode), ("nr_inodes", &inodes)], NOSUID | NODEV)
}

fn make_filesystem(kind: &str, options: &[(&str, &str)], flags: u64) -> Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (name, value) in options {
        fsconfig_set_string(&context, *name, *value)?;
    }
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::from_bits_retain(u32::try_from(flags).unwrap_or_default());
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// A folder that can be changed without changing it, mounted nowhere yet.
pub(crate) fn make_overlay(lower: &Path, upper: &Path, work: &Path) -> Result<OwnedFd> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // A colon separates lower folders, and a backslash takes a character as it is.
    let escaped: Vec<u8> = lower
        .as_os_str()
        .as_bytes()
        .iter()
        .flat_map(|byte| if b":\\".contains(byte) { vec![b'\\', *byte] } else { vec![*byte] })
        .collect();
    fsconfig_set_string(&context, "lowerdir", escaped)?;
    fsconfig_set_string(&context, "upperdir", upper)?;
    fsconfig_set_string(&context, "workdir", work)?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_create(&context)?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags)
}

/// Mounts a folder with only some of what lies in another on one that nobody else has a use for.
pub(crate) fn mount_excerpt(of: &Path, work: &Path, entries: &[ExcerptEntry]) -> Result<()> {
    let place = open_path(work, OFlags::NOFOLLOW | OFlags::DIRECTORY)?;
    let mount = make_tmpfs(limits::ROOT_BYTES_MAX, 0o755)?;
    mount_on(&mount, &place)?;
    excerpt::fill_excerpt(mount.as_fd(), of, entries)
}

/// Mounts such a folder on its own working folder, which nobody else has a use for.
pub(crate) fn mount_overlay(lower: &Path, upper: &Path, work: &Path) -> Result<()> {
    let place = open_path(work, OFlags::NOFOLLOW | OFlags::DIRECTORY)?;
    mount_on(&make_overlay(lower, upper, work)?, &place)
}

/// Whether `pid_max` belongs to the process namespace. Before Linux 6.14 it was the machine's.
pub(crate) fn pid_max_is_ours() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(14))
}

/// The path without `.` and `..`.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::Normal(name) => normal.push(name),
            _ => {}
        }
    }
    normal
}
