//! Compares the analysis with tables, limits and a real bash.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it means here")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so, and a long one what it counted")]

mod bash;
mod bounds;
mod table;
