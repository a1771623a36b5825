//! What one child sees: the plan that `profile` makes and the helper carries out.
//!
//! A scene is data and says nothing of how. It starts from an empty root; whatever no [`MountEntry`] puts
//! there isn't there. Parts are carried out in order, so a later one lies over an earlier one; a profile has
//! them in the order of paths.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everything that is made for one child before its program starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct MountPlan {
    /// What there is, in the order in which it is made.
    pub(crate) parts: Vec<MountEntry>,
    /// What this child has beyond that, made after it: a sandbox that was made ahead of time can still be
    /// given it. A bind among these is [`BindSource::Held`]; one may cover what `parts` put there, which then
    /// lies over it again.
    pub(crate) more: Vec<MountEntry>,
    /// Which network.
    pub(crate) network: NetworkAccessKind,
    /// It can make no local sockets: what it was granted could be handed to another child by one, and outlive
    /// the call.
    pub(crate) apart: bool,
    /// Bounds that the kernel holds it to.
    pub(crate) rlimits: Vec<ResourceLimit>,
}

impl MountPlan {
    /// Makes what only this child has a part of the whole, each where it isn't covered: for who makes it all
    /// at once.
    pub(crate) fn add(&mut self, more: Vec<MountEntry>) {
        for part in more {
            let at = place_of(&part);
            self.parts.retain(|usual| place_of(usual) != at);
            let before = self.parts.partition_point(|usual| place_of(usual) < at);
            self.parts.insert(before, part);
        }
    }
}

/// A name that is covered, by its own path: hidden, or else protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoveredName {
    pub(crate) at: PathBuf,
    pub(crate) hides: bool,
}

/// Where a part lies.
pub(crate) fn place_of(part: &MountEntry) -> &Path {
    match part {
        MountEntry::Bind { at, .. }
        | MountEntry::StandIn { at, .. }
        | MountEntry::Tmpfs { at, .. }
        | MountEntry::Overlay { at, .. }
        | MountEntry::Mask { at }
        | MountEntry::Protect { at }
        | MountEntry::Pin { at }
        | MountEntry::Link { at, .. }
        | MountEntry::Excerpt { at, .. }
        | MountEntry::File { at, .. } => at,
        MountEntry::Proc => Path::new("/proc"),
        MountEntry::Dev => Path::new("/dev"),
    }
}

/// One thing in the file system of a child. Paths are absolute, as the child sees them.
#[derive(Clone, Debug)]
pub(crate) enum MountEntry {
    /// A folder or file of the host, with what is mounted below it.
    Bind { from: BindSource, at: PathBuf, writable: bool },
    /// A private folder of the host that stands in for another of its folders: as writable as one in memory,
    /// and places are made in it as in one.
    StandIn { from: Arc<OwnedFd>, at: PathBuf },
    /// An empty folder in memory.
    Tmpfs { at: PathBuf, bytes_max: u64, mode: u32 },
    /// A folder of the host that children can change without changing it: changes go to `upper`. It is
    /// mounted once, and all children see the same; `work` belongs to it alone.
    Overlay { lower: PathBuf, upper: PathBuf, work: PathBuf, at: PathBuf, writable: bool },
    /// Nothing to see: an empty file or folder without permissions lies over what is there.
    Mask { at: PathBuf },
    /// What is there stays readable and can't be changed.
    Protect { at: PathBuf },
    /// A folder that can't be renamed or removed, because it is a mount of itself; otherwise as it was.
    Pin { at: PathBuf },
    /// A link.
    Link { at: PathBuf, to: PathBuf },
    /// A small file with this content.
    File { at: PathBuf, content: Vec<u8> },
    /// A folder of the host with only some of what lies in it. It is made once, on the empty folder `work`,
    /// and all children see the same; without `work` a child has one of its own, in which places can be made.
    Excerpt { at: PathBuf, work: Option<PathBuf>, entries: Arc<[ExcerptEntry]> },
    /// A fresh `/proc` of the child's own processes, with what reaches the machine read-only.
    Proc,
    /// `/dev` with `null zero full random urandom tty`, `shm`, `pts` and the links to descriptors.
    Dev,
}

/// What an excerpt shows, by its path in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExcerptEntry {
    /// What the host has there: of a small file or a link a copy.
    Host(PathBuf),
    /// A file with this content.
    Text { name: PathBuf, content: Vec<u8> },
}

impl ExcerptEntry {
    pub(crate) fn name(&self) -> &Path {
        match self {
            ExcerptEntry::Host(name) | ExcerptEntry::Text { name, .. } => name,
        }
    }
}

/// Where a bind comes from.
#[derive(Clone, Debug)]
pub(crate) enum BindSource {
    /// A path, opened by the helper without following a link in its last name.
    Path(PathBuf),
    /// What this descriptor has held since the call was authorized.
    Held(Arc<OwnedFd>),
}

/// Which network a child has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum NetworkAccessKind {
    /// An empty one: not even a loopback that is up.
    #[default]
    Empty,
    /// The session's: loopback, proxy and name server of ours.
    Session,
    /// The host's own.
    Host,
}

/// One bound, as `setrlimit` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResourceLimit {
    /// `RLIMIT_…`.
    pub(crate) resource: u32,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}
