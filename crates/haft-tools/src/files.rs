//! Tools that work on files: what is in them, what is changed in them, and what was before.
//!
//! Each tool is one file. What they share is here too: paths, what a session has seen, checkpoints, and the
//! readers of what is no plain text.

pub mod apply_patch;
pub(crate) mod charset;
pub(crate) mod checkpoints;
#[cfg(any(feature = "images", feature = "notebooks"))]
pub(crate) mod decoding;
pub mod diff;
pub mod edit;
pub mod glob;
pub mod grep;
pub(crate) mod ignore_rules;
#[cfg(feature = "images")]
pub(crate) mod images;
pub mod ls;
pub mod multi_edit;
#[cfg(feature = "notebooks")]
pub(crate) mod notebook;
#[cfg(feature = "notebooks")]
pub mod notebook_edit;
pub(crate) mod path_suggestions;
pub(crate) mod paths;
#[cfg(feature = "pdf")]
pub(crate) mod pdf;
pub mod read;
pub(crate) mod read_tracker;
pub mod rewind;
pub(crate) mod text_diff;
pub(crate) mod transaction;
pub(crate) mod walk;
pub mod write;

pub use apply_patch::ApplyPatch;
pub use diff::Diff;
pub use edit::Edit;
pub use glob::Glob;
pub use grep::Grep;
pub use ls::Ls;
pub use multi_edit::MultiEdit;
#[cfg(feature = "notebooks")]
pub use notebook_edit::NotebookEdit;
pub use read::Read;
pub use read_tracker::ReadTracker;
pub use rewind::Rewind;
pub use write::Write;
