//! The locks of the parts that are model-checked: the standard ones, or shuttle's under `--cfg shuttle`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, Weak, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard, Weak, atomic};

/// Locks, also where a panic left the lock poisoned: foreign code never runs under our locks, so what they guard
/// is whole even then.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
