//! Explores the interleavings of board, scheduler and cancellation.
//!
//! The sources of the crate are compiled here with the locks of shuttle, which decides at every lock, wake-up
//! and atomic which thread goes next. `sync` is the only module that differs from the crate.
#![allow(dead_code, unreachable_pub, reason = "the sources are those of a library")]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it explored"
)]

#[path = "../../src/board.rs"]
mod board;
#[path = "../../src/call_map.rs"]
mod call_map;
#[path = "../../src/cancel.rs"]
mod cancel;
#[path = "../../src/conflict.rs"]
mod conflict;
#[path = "../../src/scheduler.rs"]
mod scheduler;

mod sync {
    use std::sync::PoisonError;

    pub use shuttle::sync::{Arc, Mutex, MutexGuard, Weak, atomic};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a body under every interleaving, but no more than `limit` of them, and prints how many there
    /// were.
    pub fn explore(what: &str, limit: usize, body: impl Fn() + Send + Sync + 'static) {
        let scheduler = shuttle::scheduler::DfsScheduler::new(Some(limit), false);
        let explored = shuttle::Runner::new(scheduler, shuttle::Config::new()).run(body);
        println!("{what}: {explored} interleavings{}", if explored < limit { ", all there are" } else { "" });
    }
}

#[path = "board.rs"]
mod board_model;
#[path = "cancel.rs"]
mod cancel_model;
