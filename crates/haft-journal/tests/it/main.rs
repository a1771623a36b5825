//! The journal's public API: whatever happens in between, what is written is read back.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod clocks;
mod faults;
mod keeping;
mod recovery;
mod sweep;

/// A directory in memory if possible, for tests that would sync hundreds of times.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
