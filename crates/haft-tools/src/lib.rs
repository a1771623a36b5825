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

#[cfg(feature = "files")]
pub mod apply_patch;
#[cfg(feature = "shell")]
pub mod bash;
#[cfg(feature = "files")]
mod blocking;
#[cfg(feature = "files")]
mod changes;
#[cfg(feature = "files")]
mod checkpoints;
#[cfg(feature = "files")]
pub mod compare;
#[cfg(feature = "files")]
mod diff;
#[cfg(feature = "files")]
pub mod edit;
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
#[cfg(feature = "files")]
pub mod read;
#[cfg(feature = "files")]
pub mod rewind;
#[cfg(feature = "scripts")]
pub mod scripts;
#[cfg(feature = "files")]
mod seen;
#[cfg(feature = "files")]
pub mod sleep;
#[cfg(feature = "shell")]
pub mod task_output;
#[cfg(feature = "shell")]
pub mod task_stop;
#[cfg(feature = "files")]
mod walk;
#[cfg(feature = "files")]
pub mod write;

use haft::{AnyTool, BadTool, Tool};

#[cfg(feature = "files")]
pub use apply_patch::ApplyPatch;
#[cfg(feature = "shell")]
pub use bash::Bash;
#[cfg(feature = "files")]
pub use compare::Diff;
#[cfg(feature = "files")]
pub use edit::Edit;
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
#[cfg(feature = "files")]
pub use read::Read;
#[cfg(feature = "files")]
pub use rewind::Rewind;
#[cfg(feature = "files")]
pub use seen::Seen;
#[cfg(feature = "files")]
pub use sleep::Sleep;
#[cfg(feature = "shell")]
pub use task_output::TaskOutput;
#[cfg(feature = "shell")]
pub use task_stop::TaskStop;
#[cfg(feature = "files")]
pub use write::Write;

/// The tools that every agent wants: all of those that this build has.
pub fn core() -> Vec<AnyTool> {
    all()
}

/// The same with a shell as the host wants it: the user's home, time limits, whether the sandbox may be left.
#[cfg(feature = "shell")]
pub fn core_with(bash: &Bash) -> Vec<AnyTool> {
    with(bash)
}

/// Every tool of this build, by name.
///
/// The list is written out: a tool that isn't here isn't there. Those of one list share what they have seen of files, by
/// session: `Edit` knows what `Read` has read.
pub fn all() -> Vec<AnyTool> {
    with(
        #[cfg(feature = "shell")]
        &Bash::new(),
    )
}

fn with(#[cfg(feature = "shell")] bash: &Bash) -> Vec<AnyTool> {
    #[cfg(feature = "files")]
    let seen = Seen::default();
    vec![
        #[cfg(feature = "files")]
        built_in(apply_patch::ApplyPatch::new(&seen)),
        #[cfg(feature = "shell")]
        built_in(bash.clone()),
        #[cfg(feature = "files")]
        built_in(compare::Diff),
        #[cfg(feature = "files")]
        built_in(edit::Edit::new(&seen)),
        #[cfg(feature = "files")]
        built_in(glob::Glob),
        #[cfg(feature = "files")]
        built_in(grep::Grep),
        #[cfg(feature = "files")]
        built_in(ls::Ls),
        #[cfg(feature = "shell")]
        built_in(monitor::Monitor::new(bash)),
        #[cfg(feature = "files")]
        built_in(multi_edit::MultiEdit::new(&seen)),
        #[cfg(feature = "notebooks")]
        built_in(notebook_edit::NotebookEdit::new(&seen)),
        #[cfg(feature = "files")]
        built_in(read::Read::new(&seen)),
        #[cfg(feature = "files")]
        built_in(rewind::Rewind::new(&seen)),
        #[cfg(feature = "files")]
        built_in(sleep::Sleep),
        #[cfg(feature = "shell")]
        built_in(task_output::TaskOutput),
        #[cfg(feature = "shell")]
        built_in(task_stop::TaskStop),
        #[cfg(feature = "files")]
        built_in(write::Write::new(&seen)),
    ]
}

/// A tool of ours can always be registered; a test holds it.
#[cfg_attr(
    not(any(feature = "files", feature = "shell")),
    expect(dead_code, reason = "there are no tools in this build")
)]
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
        let names: Vec<String> = all().iter().map(|tool| tool.name().to_owned()).collect();
        assert!(names.is_sorted(), "{names:?}");
        let registry = haft::Registry::new().with(core()).unwrap();
        assert_eq!(registry.len(), names.len());
    }

    #[test]
    fn every_tool_says_its_group_feature_and_limit() {
        for tool in all() {
            assert_ne!(tool.group(), "other", "{}", tool.name());
            assert!(tool.description().len() > 80, "{}: too short for a model", tool.name());
        }
    }
}
