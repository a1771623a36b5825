//! Locks of the standard library, without poisoning.
//!
//! The model check replaces this module by one with the locks of shuttle.

pub use std::sync::{Arc, Mutex, MutexGuard, Weak, atomic};

/// Locks a mutex, also after a panic left it poisoned.
///
/// Foreign code never runs under our locks, so the guarded value is consistent even then.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
