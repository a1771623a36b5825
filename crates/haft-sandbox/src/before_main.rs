//! Becomes the sandbox helper before `main` runs.
//!
//! The helper is this program again, and the kernel lets only a process with one thread enter a user namespace.
//! `#[tokio::main]` and libtest start threads before the first line that a developer writes, so the check can't be there.
#![expect(unsafe_code, reason = "a function in `.init_array`, and the disposition of a signal")]

use std::sync::atomic::{AtomicBool, Ordering};

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Whether this program becomes the helper when it is started as one.
pub(crate) fn is_entered() -> bool {
    ENTERED.load(Ordering::Relaxed)
}

// SAFETY: the dynamic loader calls every function in `.init_array` once, before `main`, with one thread. The function
// takes no arguments, which the C calling convention allows, and needs nothing that `main` sets up: the standard library
// has stored the command line in an earlier entry.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER: extern "C" fn() = enter;

extern "C" fn enter() {
    ENTERED.store(true, Ordering::Relaxed);
    crate::entry::become_helper(|| {
        // As `main` of a Rust program has it: a reader that is gone is an error, not a signal.
        // SAFETY: no other thread runs, and `SIG_IGN` is a valid disposition.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    });
}
