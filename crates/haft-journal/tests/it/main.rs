//! The journal from outside: what is written comes back, whatever happens in between.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod clocks;
mod faults;
mod keeping;
mod recovery;
mod sweep;

/// A folder in memory where that is possible, for tests that would wait for the disk hundreds of times.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
