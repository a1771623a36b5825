//! Child processes: the only place that starts one, and the sandbox that they run in.
//!
//! [`Sandbox`] implements the port [`Processes`](haft::ports::Processes) on Linux (5.12 or later for the
//! whole of it): a child can do what its request grants and no more. [`LocalProcesses`] implements it without
//! any confinement.
//!
//! Either way a child has a session of its own and no terminal, an environment made from a list
//! ([`environment`]), no descriptor but its own, and a time limit. Its output is bounded in memory and goes
//! to a file where the request says so. When it ends, is cancelled or takes too long, everything that it
//! started ends with it; in the sandbox also what left its session, and also when the host is killed.
//!
//! The helper is this program again: a process that is started as the helper becomes it before `main` runs. A
//! program that uses the sandbox needs no line for that, also with `#[tokio::main]` and in tests. The child
//! that runs [isolated](haft::isolate) code is this program again in the same way.
//!
//! ```text
//!  host ── order: mount_plan, program, descriptors ──► helper            one for a session, this program again
//!   ▲                                               │ clone3        user namespace; knows the session's network
//!   │                                               ▼
//!   └── how it ended ──────────────────────────── first process     namespaces of one child: mounts, then no rights
//!                                                   │ exec
//!                                                   ▼
//!                                                 the program       Landlock, filter of system calls
//! ```
//!
//! | part | is |
//! |---|---|
//! | `pool`, `watch`, `capture` | the children that there are; the life of one, on one thread; what is kept of its output |
//! | `program`, `environment`, `start` | which file is run, with which variables, and becoming it (unsafe) |
//! | `sandbox`, [`net`], `profile` | the whole; what may be reached; what may be seen and changed |
//! | `scene` | the plan for one child, made by the profile and carried out by the helper |
//! | `before_main` | becoming the helper, or the child that runs isolated code |
//! | `helper`, `confined`, `wire` | the helper: being it, using it, talking to it |
//! | `bubblewrap` | who starts the helper where nobody else may make a user namespace |
//! | `init`, `stage`, `loopback` | the first process of a child; its mounts; the session's network |
//! | `landlock`, `seccomp`, `bare` | rules for files; the filter; the same scene without namespaces |
//! | `evidence` | what a command that may only look tried to change |
//! | `probe` | what this machine can do |
//! | `sys` | the system calls that no library has (unsafe) |
//!
//! Each child has a thread of its own in the host, which lives as long as it does. That is on purpose: the
//! kernel's "die with your parent" means the parent *thread*, a trap with pools that let idle threads go; a
//! thread can write a file or call a slow listener without holding up another child; and no runtime is
//! needed, least of all one that listens to signals. A thread costs a fiftieth of the process that it
//! watches.
#![warn(missing_docs)]

mod bare;
mod before_main;
mod bubblewrap;
mod capture;
mod change_attempts;
mod child_pool;
mod confined;
pub mod environment;
mod helper;
mod init;
mod landlock;
mod leftover_processes;
pub mod limits;
mod local;
mod loopback;
mod mount_plan;
mod mounts;
pub mod net;
mod pinned_namespaces;
mod prefork;
mod probe;
mod process_group;
mod profile;
mod program;
mod remount_watch;
mod sandbox;
mod seccomp;
mod start;
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod watch;
mod wire;

pub use local::LocalProcesses;
pub use probe::{ProbeResult, maker_of, probe, stack_of};
pub use process_group::describe_process_limits;
pub use profile::{HIDDEN_IN_HOME, ProfileConfig, ProfileView, TempRoom, approve_content, make_private};
pub use sandbox::{
    Sandbox, SandboxConfig, SandboxStack, SandboxUnavailable, UserNamespaceMaker, is_possible,
};
