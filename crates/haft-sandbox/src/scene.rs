//! What one child sees: the plan that `profile` makes and the helper carries out.
//!
//! A scene is data and says nothing of how. It starts from an empty root; whatever no [`Part`] puts there isn't there.
//! Parts are carried out in order, so a later one lies over an earlier one.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Everything that is made for one child before its program starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scene {
    /// What there is, in the order in which it is made.
    pub(crate) parts: Vec<Part>,
    /// Which network.
    pub(crate) network: Network,
    /// Bounds that the kernel holds it to.
    pub(crate) rlimits: Vec<Rlimit>,
}

/// One thing in the file system of a child. Paths are absolute, as the child sees them.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// A folder or file of the host, with what is mounted below it.
    Bind { from: Source, at: PathBuf, writable: bool },
    /// An empty folder in memory.
    Tmpfs { at: PathBuf, bytes_max: u64, mode: u32 },
    /// A folder of the host that children can change without changing it: changes go to `upper`. It is mounted once, and
    /// all children see the same; `work` belongs to it alone.
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
    /// A fresh `/proc` of the child's own processes, with what reaches the machine read-only.
    Proc,
    /// `/dev` with `null zero full random urandom tty`, `shm`, `pts` and the links to descriptors.
    Dev,
}

/// Where a bind comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A path, opened by the helper without following a link in its last name.
    Path(PathBuf),
    /// What this descriptor has held since the call was authorized.
    Held(Arc<OwnedFd>),
}

/// Which network a child has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Network {
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
pub(crate) struct Rlimit {
    /// `RLIMIT_…`.
    pub(crate) resource: u32,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}
