//! The built-in tools, one file each, on the same public API that a stranger's tool would use.
//!
//! A tool here uses what its [`Context`](haft::Context) hands it and its own libraries. It looks up no other tool,
//! reads no environment variable, and opens no path that the context did not grant. Groups of tools are features of
//! this crate, so that a host takes only what it wants; which of them a session offers is the host's decision, made
//! with rules and gates.
//!
//! ```
//! # fn main() -> Result<(), haft::RegistryError> {
//! let registry = haft::Registry::new().with(haft_tools::core())?;
//! # #[cfg(feature = "files")]
//! assert!(registry.entries().any(|entry| entry.tool().name() == "Read"));
//! # Ok(()) }
//! ```
#![warn(missing_docs)]

#[cfg(feature = "agents")]
pub mod agent;
#[cfg(feature = "files")]
pub mod apply_patch;
#[cfg(feature = "planning")]
pub mod ask_user_question;
#[cfg(feature = "shell")]
pub mod bash;
#[cfg(any(feature = "files", feature = "web"))]
mod blocking;
#[cfg(feature = "browser")]
pub mod browser;
#[cfg(any(feature = "planning", feature = "tasks"))]
mod by_session;
#[cfg(feature = "files")]
mod changes;
#[cfg(feature = "files")]
mod charset;
#[cfg(feature = "files")]
mod checkpoints;
#[cfg(feature = "files")]
pub mod compare;
#[cfg(feature = "planning")]
pub mod config;
#[cfg(feature = "cron")]
pub mod cron;
#[cfg(feature = "cron")]
pub mod cron_create;
#[cfg(feature = "cron")]
pub mod cron_delete;
#[cfg(feature = "cron")]
pub mod cron_list;
#[cfg(feature = "files")]
mod diff;
#[cfg(feature = "files")]
pub mod edit;
#[cfg(feature = "planning")]
pub mod enter_plan_mode;
#[cfg(feature = "worktrees")]
pub mod enter_worktree;
#[cfg(feature = "planning")]
pub mod exit_plan_mode;
#[cfg(feature = "worktrees")]
pub mod exit_worktree;
#[cfg(any(feature = "agents", feature = "skills"))]
pub mod front_matter;
#[cfg(feature = "worktrees")]
mod git;
#[cfg(feature = "files")]
pub mod glob;
#[cfg(feature = "files")]
pub mod grep;
#[cfg(feature = "files")]
mod ignores;
#[cfg(feature = "files")]
pub mod ls;
#[cfg(feature = "shell")]
pub mod monitor;
#[cfg(feature = "files")]
pub mod multi_edit;
#[cfg(feature = "files")]
mod near;
#[cfg(feature = "notebooks")]
mod notebook;
#[cfg(feature = "notebooks")]
pub mod notebook_edit;
#[cfg(any(feature = "images", feature = "notebooks"))]
mod parsing;
#[cfg(feature = "files")]
mod paths;
#[cfg(feature = "pdf")]
mod pdf;
#[cfg(feature = "images")]
mod pictures;
#[cfg(feature = "planning")]
pub mod plan;
#[cfg(feature = "files")]
pub mod read;
#[cfg(feature = "files")]
pub mod rewind;
#[cfg(feature = "scripts")]
pub mod scripts;
#[cfg(feature = "files")]
mod seen;
#[cfg(feature = "agents")]
pub mod send_message;
mod set;
#[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
pub mod shelf;
#[cfg(feature = "skills")]
pub mod skill;
#[cfg(feature = "files")]
pub mod sleep;
#[cfg(feature = "tasks")]
pub mod task_create;
#[cfg(feature = "tasks")]
pub mod task_get;
#[cfg(feature = "tasks")]
pub mod task_list;
#[cfg(feature = "shell")]
pub mod task_output;
#[cfg(feature = "shell")]
pub mod task_stop;
#[cfg(feature = "tasks")]
pub mod task_update;
#[cfg(feature = "tasks")]
pub mod tasks;
#[cfg(feature = "tasks")]
pub mod todo_write;
#[cfg(feature = "planning")]
pub mod verify_plan;
#[cfg(feature = "files")]
mod walk;
#[cfg(feature = "web")]
pub mod web;
#[cfg(feature = "web")]
pub mod web_fetch;
#[cfg(feature = "web")]
pub mod web_search;
#[cfg(feature = "worktrees")]
pub mod worktrees;
#[cfg(feature = "files")]
pub mod write;

use haft::{AnyTool, BadTool, Tool};

#[cfg(feature = "agents")]
pub use agent::{Agent, AgentKind};
#[cfg(feature = "files")]
pub use apply_patch::ApplyPatch;
#[cfg(feature = "planning")]
pub use ask_user_question::AskUserQuestion;
#[cfg(feature = "shell")]
pub use bash::Bash;
#[cfg(feature = "browser")]
pub use browser::Browser;
#[cfg(feature = "files")]
pub use compare::Diff;
#[cfg(feature = "planning")]
pub use config::Config;
#[cfg(feature = "cron")]
pub use cron_create::CronCreate;
#[cfg(feature = "cron")]
pub use cron_delete::CronDelete;
#[cfg(feature = "cron")]
pub use cron_list::CronList;
#[cfg(feature = "files")]
pub use edit::Edit;
#[cfg(feature = "planning")]
pub use enter_plan_mode::EnterPlanMode;
#[cfg(feature = "worktrees")]
pub use enter_worktree::EnterWorktree;
#[cfg(feature = "planning")]
pub use exit_plan_mode::ExitPlanMode;
#[cfg(feature = "worktrees")]
pub use exit_worktree::ExitWorktree;
#[cfg(feature = "files")]
pub use glob::Glob;
#[cfg(feature = "files")]
pub use grep::Grep;
#[cfg(feature = "files")]
pub use ls::Ls;
#[cfg(feature = "shell")]
pub use monitor::Monitor;
#[cfg(feature = "files")]
pub use multi_edit::MultiEdit;
#[cfg(feature = "notebooks")]
pub use notebook_edit::NotebookEdit;
#[cfg(feature = "planning")]
pub use plan::Plans;
#[cfg(feature = "files")]
pub use read::Read;
#[cfg(feature = "files")]
pub use rewind::Rewind;
#[cfg(feature = "files")]
pub use seen::Seen;
#[cfg(feature = "agents")]
pub use send_message::SendMessage;
pub use set::BuiltIns;
#[cfg(any(feature = "files", feature = "planning", feature = "tasks"))]
pub use shelf::Shelf;
#[cfg(feature = "skills")]
pub use skill::Skill;
#[cfg(feature = "files")]
pub use sleep::Sleep;
#[cfg(feature = "tasks")]
pub use task_create::TaskCreate;
#[cfg(feature = "tasks")]
pub use task_get::TaskGet;
#[cfg(feature = "tasks")]
pub use task_list::TaskList;
#[cfg(feature = "shell")]
pub use task_output::TaskOutput;
#[cfg(feature = "shell")]
pub use task_stop::TaskStop;
#[cfg(feature = "tasks")]
pub use task_update::TaskUpdate;
#[cfg(feature = "tasks")]
pub use tasks::TaskLists;
#[cfg(feature = "tasks")]
pub use todo_write::TodoWrite;
#[cfg(feature = "planning")]
pub use verify_plan::VerifyPlan;
#[cfg(feature = "web")]
pub use web_fetch::WebFetch;
#[cfg(feature = "web")]
pub use web_search::WebSearch;
#[cfg(feature = "files")]
pub use write::Write;

/// The tools that every agent wants: all of those that this build has.
///
/// [`BuiltIns`] is for hosts that want some of them otherwise.
pub fn core() -> Vec<AnyTool> {
    BuiltIns::new().tools()
}

/// A tool of ours can always be registered; a test holds it.
#[allow(dead_code, reason = "there are no tools in a build without features")]
fn built_in(tool: impl Tool) -> AnyTool {
    AnyTool::typed(tool).unwrap_or_else(|BadTool { name, reason }| panic!("the tool `{name}` {reason}"))
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "files")]
    mod concurrent;
    #[cfg(feature = "files")]
    mod racer;
    #[cfg(feature = "files")]
    pub(crate) mod room;
    #[cfg(feature = "files")]
    mod strings;

    use super::*;

    #[test]
    fn the_list_is_sorted_and_registers() {
        let names: Vec<String> = core().iter().map(|tool| tool.name().to_owned()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let registry = haft::Registry::new().with(core()).unwrap();
        assert_eq!(registry.len(), names.len());
    }

    #[test]
    fn every_tool_has_a_name_in_snake_case_too() {
        let is_snake = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        for tool in core() {
            assert!(tool.aliases().iter().any(|alias| is_snake(alias)), "{}", tool.name());
        }
    }

    #[test]
    fn every_tool_says_its_group_feature_and_limit() {
        for tool in core() {
            assert_ne!(tool.group(), "other", "{}", tool.name());
            assert!(tool.description().len() > 80, "{}: too short for a model", tool.name());
        }
    }
}
