//! The built-in tools through an engine, as a host uses them.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail and speak as tests do")]

#[cfg(feature = "agents")]
mod agent;
#[cfg(feature = "files")]
mod apply_patch;
#[cfg(feature = "shell")]
mod bash;
mod built_ins;
#[cfg(feature = "files")]
mod concurrent;
#[cfg(any(feature = "scripts", feature = "shell"))]
mod confined;
#[cfg(feature = "cron")]
mod cron;
#[cfg(feature = "files")]
mod diff;
#[cfg(feature = "files")]
mod edit;
#[cfg(feature = "files")]
mod glob;
#[cfg(feature = "files")]
mod grep;
#[cfg(feature = "files")]
mod ls;
#[cfg(feature = "files")]
mod multi_edit;
#[cfg(feature = "notebooks")]
mod notebook_edit;
#[cfg(feature = "files")]
mod racer;
#[cfg(feature = "files")]
mod rewind;
#[cfg(feature = "files")]
mod room;
#[cfg(feature = "scripts")]
mod scripts;
#[cfg(feature = "files")]
mod sleep;
#[cfg(feature = "files")]
mod strings;
#[cfg(feature = "files")]
mod write;

/// As Jupyter writes it, with details that must survive an edit: order, numbers, metadata.
#[cfg(feature = "files")]
const SAMPLE_NOTEBOOK: &str = include_str!("../data/sample.ipynb");
