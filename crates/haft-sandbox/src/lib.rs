//! Child processes: the only place that starts one.
//!
//! [`LocalProcesses`] implements the port [`Processes`] on Linux (5.9 or later). A child has a session and a process
//! group of its own and no terminal, an environment made from a list ([`environment`]), no descriptor but its own, and a
//! time limit. Its output is bounded in memory and goes to a file where the request says so. When it ends, is cancelled
//! or takes too long, its whole process group ends with it.
//!
//! **Not confined yet.** A child can do what its user can do. What it starts in *another* session (`setsid`, a daemon)
//! is not reached when it ends, and if the host is killed by force the kernel ends only the child itself and not what it
//! started. Both need a process namespace.
//!
//! - `start` becomes another program: the only unsafe code.
//! - `program` finds the program, and says why it could not be started.
//! - `environment` decides which variables a child gets.
//! - `capture` keeps of its output what there is room for.
//! - `watch` is the life of one child, from its start to its end, on one thread.
//! - [`net`] is the network of a session: what its programs may reach, and how.
//!
//! Each child has a thread of its own, which starts it and lives as long as it does. That is on purpose: the kernel's
//! "die with your parent" means the parent *thread*, a trap with pools that let idle threads go; a thread can write a
//! file or call a slow listener without holding up another child; and no runtime is needed, least of all one that listens
//! to signals. A thread costs a fiftieth of the process that it watches.
#![warn(missing_docs)]

mod bare;
mod capture;
mod confined;
mod entry;
pub mod environment;
mod helper;
mod init;
mod isolator;
mod landlock;
pub mod limits;
mod local;
mod loopback;
pub mod net;
mod pool;
mod probe;
mod profile;
mod program;
mod sandbox;
mod scene;
mod seccomp;
mod stage;
mod start;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;
mod wire;

pub use entry::{entry, entry_with};
pub use isolator::SandboxIsolator;
pub use local::LocalProcesses;
pub use probe::{Finding, probe, stack_of};
pub use profile::{HIDDEN_IN_HOME, PLAIN_WORK, PROTECTED, ProfileConfig};
pub use sandbox::{Sandbox, SandboxConfig, Stack, Unavailable, is_possible};
