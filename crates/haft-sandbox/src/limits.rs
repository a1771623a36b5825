//! The bounds of child processes.

use std::time::Duration;

/// How many children there may be at once.
pub const CHILDREN_MAX: usize = 600;
/// The stack of the thread that watches a child, in bytes; listeners of output run on it.
pub const THREAD_STACK_BYTES: usize = 512 * 1024;
/// How long a child that was told to end (TERM) may take before it is killed.
pub const GRACE: Duration = Duration::from_secs(2);
/// The same where nobody waits for its answer.
pub const GRACE_ABANDONED: Duration = Duration::from_millis(500);
/// How long a killed child may take to be gone before it is given up; only one that hangs inside the kernel does.
pub const KILL_WAIT: Duration = Duration::from_secs(2);
/// How long output is still read after the child itself has ended, while something that it left behind keeps a pipe open.
pub const DRAIN: Duration = Duration::from_millis(200);
/// How many bytes are read from a pipe at once.
pub const READ_BYTES: usize = 64 * 1024;
/// The longest line on descriptor 3, in bytes; a longer one is left out.
pub const LINE_BYTES_MAX: usize = 8 * 1024;
/// How many lines on descriptor 3 are passed on; further ones are read and dropped.
pub const LINES_MAX: usize = 10_000;
/// How often a program that is just being written (`ETXTBSY`) is tried again, after 10, 20, 30 … ms.
pub const BUSY_TRIES_MAX: u32 = 6;
/// How many descriptors are closed one by one where the kernel can't close them all at once.
pub const DESCRIPTORS_MAX: i32 = 65_536;
