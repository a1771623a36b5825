//! Mutexes without poisoning: [`lock`] is the one way to lock in this workspace.
//!
//! A panic under a lock is one failed call, never a dead session, so a poisoned mutex is locked like any
//! other.

pub use haft_scheduler::sync::lock;
