//! The crate from outside, one module for each subject.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it means here")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so, and a long one what it counted")]

mod documents;
mod gate;
mod hooks;
mod remembered;
mod room;
mod rules;
mod schema;
mod settings;
mod shell;
mod shell_bash;
mod shell_bounds;
mod shell_snippets;
mod shell_touches;
mod trust;
mod trust_advisories;
