//! What a running call holds, and what others may see of it.
//!
//! The supervisor looks whether it is being polled, a screen may move it to the background, a worker that it
//! starts has what it holds. All of that goes through its context, so it outlives no call.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use haft_scheduler::ConflictKeys;
use haft_scheduler::sync::lock;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::authorize::resolve_effects;
use crate::context::Context;
use crate::dispatch::locks::{AncestorCall, HeldLocks};
use crate::dispatch::turn::TurnShared;
use crate::effects::Effects;
use crate::effects::conflict::conflict_keys;
use crate::ports::{BackgroundFlag, ChildRequests, TaskId, TaskLog};
use crate::registry::RegisteredTool;
use crate::supervise::PollMark;

/// What a running call holds and shows to those who watch it.
#[derive(Default)]
pub(crate) struct RunningCall {
    /// How the supervisor sees that it is being polled.
    pub(crate) mark: PollMark,
    holds: Mutex<HeldResources>,
    /// The input, and what the tool says it touches.
    call: OnceLock<(Arc<Value>, Arc<Effects>, Instant)>,
    /// Set when the call moved to the background.
    task: OnceLock<TaskId>,
    /// The task that goes on when the call has its answer.
    started: OnceLock<TaskId>,
    /// For what it starts: whether it is in the background. Made when it is asked for.
    background: OnceLock<BackgroundFlag>,
    /// What it prints while it runs.
    log: OnceLock<Arc<dyn TaskLog>>,
    /// The turn of the call, unless the call is only checked or runs in a child.
    turn: Option<Weak<TurnShared>>,
    /// It touches more than the tool said.
    wider: AtomicBool,
    /// Where its children make requests.
    child_requests: OnceLock<ChildRequests>,
}

#[derive(Default)]
struct HeldResources {
    room: Option<OwnedSemaphorePermit>,
    locks: Option<HeldLocks>,
    /// The call was answered by others: it may hold nothing any more.
    let_go: bool,
}

impl RunningCall {
    /// Creates the state of a call of this turn.
    pub(crate) fn of_turn(turn: Weak<TurnShared>) -> RunningCall {
        RunningCall { turn: Some(turn), ..RunningCall::default() }
    }

    /// Frees what the call holds, now and from now on.
    pub(crate) fn let_go(&self) {
        let mut holds = lock(&self.holds);
        let held = std::mem::replace(&mut *holds, HeldResources { let_go: true, ..HeldResources::default() });
        drop(holds);
        drop(held);
    }

    /// What the call waited for and holds now.
    pub(super) fn hold(&self, room: Option<OwnedSemaphorePermit>, locks: Option<HeldLocks>) {
        if room.is_none() && locks.is_none() {
            return;
        }
        let mut holds = lock(&self.holds);
        if !holds.let_go {
            (holds.room, holds.locks) = (room, locks);
        }
    }

    /// The tool is about to be called with this.
    pub(super) fn begin(&self, input: &Arc<Value>, effects: &Arc<Effects>, started: Instant) {
        let _ = self.call.set((input.clone(), effects.clone(), started));
    }

    /// The input, and for how long the tool has run.
    pub(crate) fn so_far(&self) -> (Option<Arc<Value>>, Duration) {
        match self.call.get() {
            Some((input, _, started)) => (Some(input.clone()), started.elapsed()),
            None => (None, Duration::ZERO),
        }
    }

    /// What the call holds, for a worker that it starts.
    pub(crate) fn ancestor(&self, entry: &RegisteredTool) -> AncestorCall {
        let holds = lock(&self.holds);
        AncestorCall {
            ticket: holds.locks.as_ref().map(HeldLocks::ticket),
            tool: holds.room.as_ref().map(|_| entry.number()),
        }
    }

    /// The background task that the call became, if it did.
    pub(crate) fn task(&self) -> Option<TaskId> {
        self.task.get().copied()
    }

    /// The call moves to the background; false if it does already.
    pub(crate) fn move_to_background(&self, task: TaskId) -> bool {
        let moves = self.task.set(task).is_ok();
        self.background().begin();
        moves
    }

    /// The call leaves this task behind.
    pub(crate) fn leaves(&self, task: TaskId) {
        let _ = self.started.set(task);
        self.background().begin();
    }

    /// Whether the call is in the background, and what it starts with it.
    pub(crate) fn background(&self) -> &BackgroundFlag {
        self.background.get_or_init(BackgroundFlag::default)
    }

    /// The background task that the call became or leaves behind: what it doesn't meet.
    pub(crate) fn own_task(&self) -> Option<TaskId> {
        self.task().or_else(|| self.started.get().copied())
    }

    /// The call shows what it prints here.
    pub(crate) fn prints_to(&self, log: Arc<dyn TaskLog>) {
        let _ = self.log.set(log);
    }

    /// What the call prints, if it shows that.
    pub(crate) fn log(&self) -> Option<Arc<dyn TaskLog>> {
        self.log.get().cloned()
    }

    /// The input of the call.
    pub(crate) fn input(&self) -> Arc<Value> {
        self.call.get().map_or_else(|| Arc::new(Value::Null), |(input, ..)| input.clone())
    }

    /// What the call declared.
    pub(crate) fn effects(&self) -> Arc<Effects> {
        self.call.get().map_or_else(|| Arc::new(Effects::unknown()), |(_, effects, _)| effects.clone())
    }

    /// What the call is about, on one line.
    pub(crate) fn about(&self) -> String {
        self.call.get().map_or_else(String::new, |(_, effects, _)| effects.to_string())
    }

    /// The children of the call make requests here.
    pub(super) fn takes_child_requests(&self, requests: ChildRequests) {
        let _ = self.child_requests.set(requests);
    }

    /// Where the children of the call make requests, if they can.
    pub(crate) fn child_requests(&self) -> Option<ChildRequests> {
        self.child_requests.get().cloned()
    }

    /// The call touches anything from now on. The message whose other calls must not run meanwhile, if there
    /// is one.
    pub(crate) fn widen(&self) -> Option<Arc<TurnShared>> {
        self.wider.store(true, Ordering::Release);
        self.turn.as_ref()?.upgrade()
    }

    /// What the call touches, as it is now.
    pub(crate) fn conflict_keys(&self, entry: &RegisteredTool, cx: &Context, confined: bool) -> ConflictKeys {
        if self.wider.load(Ordering::Acquire) {
            return ConflictKeys::exclusive();
        }
        let Some((_, effects, _)) = self.call.get() else { return ConflictKeys::exclusive() };
        conflict_keys(&resolve_effects(effects, cx), u64::from(entry.number()), confined)
    }
}
