//! The locks of the parts that are model-checked: the standard ones, or shuttle's under `--cfg shuttle`.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, Weak, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Arc, Mutex, Weak, atomic};

/// Locks, also where a panic left the lock poisoned: foreign code never runs under our locks, so what they guard
/// is whole even then.
#[cfg(not(shuttle))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(shuttle)]
pub(crate) use either::lock;

/// Under `--cfg shuttle` there are two kinds of locks in the crate: shuttle's in the parts that are checked, the
/// standard ones elsewhere. `lock` takes both.
#[cfg(shuttle)]
mod either {
    use std::sync::PoisonError;

    pub(crate) trait Lock {
        type Guard<'a>
        where
            Self: 'a;

        fn guard(&self) -> Self::Guard<'_>;
    }

    impl<T> Lock for std::sync::Mutex<T> {
        type Guard<'a>
            = std::sync::MutexGuard<'a, T>
        where
            T: 'a;

        fn guard(&self) -> Self::Guard<'_> {
            self.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> Lock for shuttle::sync::Mutex<T> {
        type Guard<'a>
            = shuttle::sync::MutexGuard<'a, T>
        where
            T: 'a;

        fn guard(&self) -> Self::Guard<'_> {
            self.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<L: Lock> Lock for super::Arc<L> {
        type Guard<'a>
            = L::Guard<'a>
        where
            L: 'a;

        fn guard(&self) -> Self::Guard<'_> {
            (**self).guard()
        }
    }

    pub(crate) fn lock<L: Lock>(mutex: &L) -> L::Guard<'_> {
        mutex.guard()
    }
}

/// Runs a body under every interleaving, but no more than `most` of them, and says how many there were.
#[cfg(test)]
#[cfg(shuttle)]
pub(crate) fn explore(what: &str, most: usize, body: impl Fn() + Send + Sync + 'static) {
    let scheduler = shuttle::scheduler::DfsScheduler::new(Some(most), false);
    let explored = shuttle::Runner::new(scheduler, shuttle::Config::new()).run(body);
    println!("{what}: {explored} interleavings{}", if explored < most { ", all there are" } else { "" });
}
