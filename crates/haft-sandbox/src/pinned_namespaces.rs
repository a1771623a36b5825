//! What children leave of their views of the file system while others run.
//!
//! A view protects what is in it by mounts, and goes when its last process ends. But a descriptor of one of
//! its folders may have been handed to a child that still runs: through it that child would then see the
//! folder without any of the mounts, with what was hidden and what was protected. So a view is kept, with all
//! mounts in their places, until every child has ended that ran when its own one did.
//!
//! The decision to question: the oldest goes where there are too many. A descriptor of it is worth something
//! again then, to a child that has run while so many others came and went.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use haft::sync::lock;

use crate::limits;

/// The views of one session.
#[derive(Default)]
pub(crate) struct PinnedNamespaces(Mutex<PinState>);

#[derive(Default)]
struct PinState {
    last: u64,
    running: BTreeSet<u64>,
    kept: VecDeque<(OwnedFd, BTreeSet<u64>)>,
}

/// A child that runs, until this is dropped.
pub(crate) struct RunningView<'a> {
    views: &'a PinnedNamespaces,
    number: u64,
}

impl PinnedNamespaces {
    fn state(&self) -> MutexGuard<'_, PinState> {
        lock(&self.0)
    }

    /// A child is about to run.
    pub(crate) fn begin(&self) -> RunningView<'_> {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.running.insert(number);
        RunningView { views: self, number }
    }
}

impl RunningView<'_> {
    /// Whether another child runs.
    pub(crate) fn has_others(&self) -> bool {
        self.views.state().running.iter().any(|number| *number != self.number)
    }

    /// Keeps the view of this child while others run that do now.
    pub(crate) fn keep(&self, view: OwnedFd) {
        let mut state = self.views.state();
        let others: BTreeSet<u64> =
            state.running.iter().copied().filter(|number| *number != self.number).collect();
        if others.is_empty() {
            return;
        }
        if state.kept.len() >= limits::VIEWS_KEPT_MAX {
            state.kept.pop_front();
        }
        state.kept.push_back((view, others));
    }
}

impl Drop for RunningView<'_> {
    fn drop(&mut self) {
        let mut state = self.views.state();
        state.running.remove(&self.number);
        for (_, others) in &mut state.kept {
            others.remove(&self.number);
        }
        state.kept.retain(|(_, others)| !others.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(views: &PinnedNamespaces) -> usize {
        views.state().kept.len()
    }

    #[test]
    fn a_view_is_kept_as_long_as_somebody_could_hold_a_piece_of_it() {
        let view = || OwnedFd::from(std::io::pipe().unwrap().0);
        let views = PinnedNamespaces::default();
        let (behind, first) = (views.begin(), views.begin());
        assert!(first.has_others());
        first.keep(view());
        drop(first);
        // One that began later can't hold a piece of it.
        let second = views.begin();
        assert_eq!(kept(&views), 1);
        drop(behind);
        assert_eq!(kept(&views), 0);
        second.keep(view());
        assert!(!second.has_others());
        assert_eq!(kept(&views), 0);
        let behind = views.begin();
        for _ in 0..limits::VIEWS_KEPT_MAX + 1 {
            second.keep(view());
        }
        assert_eq!(kept(&views), limits::VIEWS_KEPT_MAX);
        drop(behind);
        assert_eq!(kept(&views), 0);
    }
}
