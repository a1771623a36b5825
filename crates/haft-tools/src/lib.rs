//! The built-in tools, one file each, on the same public API that a stranger's tool would use.
//!
//! A tool here uses what its [`Context`](haft::Context) hands it and its own libraries. It looks up no other
//! tool, reads no environment variable, and opens no path that the context did not grant. Groups of tools are
//! features of this crate and folders of it, so that a host takes only what it wants; which of them a session
//! offers is the host's decision, made with rules and gates.
//!
//! ```
//! # fn main() -> Result<(), haft::registry::RegistryError> {
//! let registry = haft::Registry::new().with(haft_tools::core())?;
//! # #[cfg(feature = "files")]
//! assert!(registry.entries().any(|entry| entry.tool().name() == "Read"));
//! # Ok(()) }
//! ```
#![warn(missing_docs)]

#[cfg(feature = "agents")]
mod agents;
#[cfg(any(feature = "files", feature = "web"))]
mod blocking;
#[cfg(feature = "browser")]
pub mod browser;
mod built_ins;
#[cfg(feature = "cron")]
pub mod cron;
#[cfg(feature = "files")]
mod files;
#[cfg(any(feature = "agents", feature = "skills"))]
pub mod front_matter;
#[cfg(any(feature = "planning", feature = "tasks"))]
mod per_session;
#[cfg(feature = "planning")]
mod planning;
#[cfg(feature = "scripts")]
pub mod scripts;
#[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
pub mod session_folders;
#[cfg(feature = "shell")]
mod shell;
#[cfg(feature = "skills")]
pub mod skill;
#[cfg(feature = "files")]
pub mod sleep;
#[cfg(feature = "tasks")]
pub mod tasks;
#[cfg(feature = "web")]
pub mod web;
#[cfg(feature = "worktrees")]
pub mod worktrees;

use haft::Tool;
use haft::tool::{AnyTool, InvalidTool};

#[cfg(feature = "agents")]
pub use agents::*;
#[cfg(feature = "browser")]
pub use browser::Browser;
pub use built_ins::{BuiltIns, SessionArguments, SessionTools};
#[cfg(feature = "cron")]
pub use cron::{CronCreate, CronDelete, CronList};
#[cfg(feature = "files")]
pub use files::*;
#[cfg(feature = "planning")]
pub use planning::*;
#[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
pub use session_folders::SessionFolders;
#[cfg(feature = "shell")]
pub use shell::*;
#[cfg(feature = "skills")]
pub use skill::Skill;
#[cfg(feature = "files")]
pub use sleep::Sleep;
#[cfg(feature = "tasks")]
pub use tasks::{TaskCreate, TaskGet, TaskList, TaskLists, TaskUpdate, TodoWrite};
#[cfg(feature = "web")]
pub use web::{WebFetch, WebSearch, web_fetch, web_search};
#[cfg(feature = "worktrees")]
pub use worktrees::{EnterWorktree, ExitWorktree};

/// The tools that every agent wants: all of those that this build has.
///
/// [`BuiltIns`] is for hosts that want some of them otherwise.
pub fn core() -> Vec<AnyTool> {
    BuiltIns::new().tools()
}

/// A tool of ours can always be registered; a test holds it.
#[allow(dead_code, reason = "there are no tools in a build without features")]
fn built_in(tool: impl Tool) -> AnyTool {
    AnyTool::typed(tool).unwrap_or_else(|InvalidTool { name, reason }| panic!("the tool `{name}` {reason}"))
}

#[cfg(test)]
extern crate self as haft_tools;

/// Shared with the integration tests, for unit tests that also look inside.
#[cfg(all(test, feature = "files"))]
#[path = "../tests/it/room.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "unit tests use a part of it, and helpers of tests may fail"
)]
mod room;
