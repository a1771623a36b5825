//! What a sandbox leaves open to every call of a session: [`SandboxView`].

use std::path::Path;

use crate::files::RootExtent;

/// Says what calls may touch without a grant beside the working directories, because the profile of the
/// session's sandbox shows it to every command.
///
/// A policy asks it before a call runs, a sandbox answers. Paths are absolute and real. What is unknown is
/// not open.
pub trait SandboxView: Send + Sync + 'static {
    /// Whether a path may be used so without a grant.
    fn is_path_open(&self, path: &Path, extent: RootExtent, path_use: PathUse) -> bool;

    /// Whether every command may reach a host by its name.
    fn is_host_open(&self, host: &str) -> bool;
}

/// How a path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathUse {
    /// A command reads it.
    CommandRead,
    /// A command changes, makes or removes it.
    CommandWrite,
    /// A tool reads the host's file by itself: what commands see only a copy of is not open to it.
    ToolRead,
}
