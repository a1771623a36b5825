//! A permission mode that anybody may change.

use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::ports::{ModeControl, PermissionMode};

/// A [`ModeControl`] that keeps how it was changed.
///
/// It decides nothing by itself: rules that follow a live mode are [`Permissions`](crate::PermissionRules),
/// which is a `ModeControl` too. This one is for tools that look at the mode or set it.
///
/// ```
/// use haft::ports::{ModeControl, PermissionMode};
/// use haft::testing::LiveMode;
///
/// let mode = LiveMode::new(PermissionMode::Default);
/// mode.set(PermissionMode::DontAsk);
/// assert_eq!(mode.current(), PermissionMode::DontAsk);
/// assert_eq!(mode.changes(), [PermissionMode::DontAsk]);
/// ```
#[derive(Clone)]
pub struct LiveMode {
    first: PermissionMode,
    changes: Arc<Mutex<Vec<PermissionMode>>>,
}

impl LiveMode {
    /// Begins in this mode.
    pub fn new(mode: PermissionMode) -> LiveMode {
        LiveMode { first: mode, changes: Arc::default() }
    }

    /// The modes that were set, in order.
    pub fn changes(&self) -> Vec<PermissionMode> {
        lock(&self.changes).clone()
    }
}

impl ModeControl for LiveMode {
    fn current(&self) -> PermissionMode {
        lock(&self.changes).last().copied().unwrap_or(self.first)
    }

    fn set(&self, mode: PermissionMode) {
        lock(&self.changes).push(mode);
    }
}
