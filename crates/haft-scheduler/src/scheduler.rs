//! Decides which call goes next: a pure state machine that takes events and answers with steps.
//!
//! ```text
//! pushed → clear → authorizing → ready → running → done
//! ```
//!
//! A call is *clear* if no earlier unfinished call conflicts with it. An *authorizing* call holds no slot, so a
//! question that waits forever starves no other call. Ready calls get slots in call order.
//!
//! There are two conflict rules. Under `classes` two concurrency-safe calls don't conflict and all others do, which is
//! partition-then-gather and needs two pointers. Under `effects` calls conflict if their keys overlap. A waiting call
//! remembers only the *nearest* earlier call that it conflicts with and looks again when that one is done, so a long
//! chain of conflicts costs no more per call than a short one. The [`ConflictIndex`] finds that call by its keys, so
//! many calls that have nothing to do with each other cost no more either.
//!
//! Keys are what the paths of a call meant when they were last resolved. An exclusive call may have moved symlinks, so
//! when it ends every later call is *doubtful*: it counts as exclusive until it is prepared, which resolves its paths
//! again. A tool that makes or moves symlinks, or moves directories, therefore has to be exclusive.

use std::collections::{BTreeMap, BTreeSet};

use crate::conflict::ConflictKeys;
use crate::conflict_index::ConflictIndex;

/// When two calls must not run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConflictRule {
    /// Unless both are concurrency-safe.
    #[default]
    Classes,
    /// If their conflict keys overlap.
    Effects,
}

/// What an interrupt by the user does to a running call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interrupt {
    /// The call runs to its end, and the user's message waits.
    #[default]
    Block,
    /// The call is stopped and its result dropped.
    Cancel,
}

/// How many calls of a turn may be in one state at the same time.
#[derive(Debug, Clone, Copy)]
pub struct SchedulerLimits {
    /// Running calls; at least one is always allowed.
    pub running: usize,
    /// Calls that are being prepared. Calls that wait for the user don't count.
    pub preparing: usize,
}

/// What the scheduler knows of a call.
#[derive(Debug, Clone)]
pub struct Footprint {
    /// The call may run in parallel with other safe calls.
    pub safe: bool,
    /// What the call touches; only for [`ConflictRule::Effects`]. `None` conflicts with everything.
    pub keys: Option<Box<ConflictKeys>>,
}

impl Footprint {
    /// Returns whether a call that was pushed with these values has to be scheduled again.
    pub fn differs_from(&self, safe: bool, keys: Option<&ConflictKeys>) -> bool {
        let is_wider = match (&self.keys, keys) {
            (Some(now), Some(earlier)) => now.is_wider_than(earlier),
            _ => false,
        };
        self.safe != safe || is_wider
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulerStep {
    /// Begin to prepare this call.
    Prepare(usize),
    /// This call has a slot: run it.
    Run(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    Pushed,
    Authorizing,
    Asking,
    Ready,
    Running,
    Done,
}

impl CallState {
    fn has_begun(self) -> bool {
        !matches!(self, CallState::Pushed | CallState::Done)
    }
}

struct CallEntry {
    state: CallState,
    safe: bool,
    was_concurrent: bool,
    tool: u32,
    keys: Option<Box<ConflictKeys>>,
    /// Calls that wait for this one; only for the rule `effects`.
    waiting: Vec<u32>,
    /// The nearest earlier call that isn't done; only for the rule `effects`.
    before: Option<u32>,
    after: Option<u32>,
    /// How many exclusive calls had ended when `keys` was determined.
    resolved_at: u32,
    /// The footprint changed after the call had begun, so later calls that have begun may block it.
    reconsidered: bool,
}

/// The calls of a tool that limits how many of them run at the same time.
pub(crate) struct ToolLimit {
    limit: usize,
    pub(crate) running: usize,
    /// Calls that only wait for a slot.
    pub(crate) ready: BTreeSet<usize>,
}

/// The state machine of one turn.
pub struct Scheduler {
    rule: ConflictRule,
    limits: SchedulerLimits,
    calls: Vec<CallEntry>,
    /// The message is complete: calls that aren't safe may start.
    complete: bool,
    /// The first call that isn't done.
    first: usize,
    /// The first call that is neither done nor safe; for the rule `classes`.
    first_unsafe: usize,
    /// The first call that was not yet checked for conflicts.
    next: usize,
    /// Calls before `next` that have to begin once more; for the rule `classes`.
    to_begin_again: BTreeSet<usize>,
    /// The last call that isn't done; for the rule `effects`.
    last: Option<u32>,
    /// Calls without a conflict; for the rule `effects`.
    clear: BTreeSet<usize>,
    /// Calls without a conflict that wait for the end of the message; for the rule `effects`.
    clear_when_complete: BTreeSet<usize>,
    /// How many exclusive calls ran and ended; for the rule `effects`.
    exclusive_ended: u32,
    /// The first call that is doubtful; for the rule `effects`.
    first_doubtful: usize,
    /// The keys of unfinished calls; for the rule `effects`.
    index: ConflictIndex,
    pub(crate) preparing: usize,
    pub(crate) asking: usize,
    pub(crate) running: Vec<usize>,
    /// Calls that only wait for a slot, except those of tools with a limit.
    pub(crate) ready: BTreeSet<usize>,
    pub(crate) limited: BTreeMap<u32, ToolLimit>,
    /// How many calls were looked at or compared.
    #[cfg(test)]
    pub(crate) work: u64,
}

impl Scheduler {
    /// Creates a scheduler without calls.
    pub fn new(rule: ConflictRule, limits: SchedulerLimits) -> Scheduler {
        let limits = SchedulerLimits { running: limits.running.max(1), ..limits };
        Scheduler {
            rule,
            limits,
            calls: Vec::new(),
            complete: false,
            first: 0,
            first_unsafe: 0,
            next: 0,
            to_begin_again: BTreeSet::new(),
            last: None,
            clear: BTreeSet::new(),
            clear_when_complete: BTreeSet::new(),
            exclusive_ended: 0,
            first_doubtful: 0,
            index: ConflictIndex::default(),
            preparing: 0,
            asking: 0,
            running: Vec::new(),
            ready: BTreeSet::new(),
            limited: BTreeMap::new(),
            #[cfg(test)]
            work: 0,
        }
    }

    /// Reserves space for this many more calls.
    pub fn reserve(&mut self, calls: usize) {
        self.calls.reserve(calls);
    }

    /// Adds a call and returns its number. `limit` is how many calls of this tool may run at the same time.
    pub fn push(&mut self, footprint: Footprint, tool: u32, limit: Option<usize>) -> usize {
        if let Some(limit) = limit {
            let limited = ToolLimit { limit: limit.max(1), running: 0, ready: BTreeSet::new() };
            self.limited.entry(tool).or_insert(limited);
        }
        let call = self.calls.len();
        if self.rule == ConflictRule::Effects {
            self.index.insert(call as u32, footprint.keys.as_deref());
        }
        if let Some(last) = self.last {
            self.calls[last as usize].after = Some(call as u32);
        }
        self.calls.push(CallEntry {
            state: CallState::Pushed,
            safe: footprint.safe,
            was_concurrent: false,
            tool,
            keys: footprint.keys,
            waiting: Vec::new(),
            before: self.last,
            after: None,
            resolved_at: self.exclusive_ended,
            reconsidered: false,
        });
        self.last = Some(call as u32);
        call
    }

    /// Marks the message as complete: calls that aren't safe may start.
    pub fn complete(&mut self) {
        self.complete = true;
        self.clear.append(&mut self.clear_when_complete);
    }

    /// Returns the next step, or `None` until another event happens.
    pub fn step(&mut self) -> Option<SchedulerStep> {
        if let Some(call) = self.first_ready() {
            self.leave_state(call);
            self.start(call);
            return Some(SchedulerStep::Run(call));
        }
        if self.preparing >= self.limits.preparing {
            return None;
        }
        let call = match self.rule {
            ConflictRule::Classes => self.next_by_class()?,
            ConflictRule::Effects => self.next_by_effects()?,
        };
        self.calls[call].state = CallState::Authorizing;
        self.preparing += 1;
        Some(SchedulerStep::Prepare(call))
    }

    /// Marks the call as waiting for the user. It no longer counts as being prepared, so it holds back only calls that
    /// conflict with it.
    pub fn begin_asking(&mut self, call: usize) {
        if self.calls[call].state == CallState::Authorizing {
            self.leave_state(call);
            self.calls[call].state = CallState::Asking;
            self.asking += 1;
            self.mark_resolved(call);
        }
    }

    /// Replaces the footprint of a call whose input was rewritten or whose symlinks moved.
    ///
    /// Returns whether the call may continue; if not, a later step tells it to prepare again.
    pub fn reconsider(&mut self, call: usize, footprint: Footprint) -> bool {
        if self.calls[call].state == CallState::Done {
            return true;
        }
        self.leave_state(call);
        let entry = &mut self.calls[call];
        if self.rule == ConflictRule::Effects {
            self.index.remove(call as u32, entry.keys.as_deref());
            self.index.insert(call as u32, footprint.keys.as_deref());
        }
        entry.state = CallState::Pushed;
        (entry.safe, entry.keys, entry.resolved_at) = (footprint.safe, footprint.keys, self.exclusive_ended);
        entry.reconsidered = true;
        let clear = match self.rule {
            ConflictRule::Classes => {
                if !footprint.safe {
                    self.first_unsafe = self.first_unsafe.min(call);
                }
                self.to_begin_again.insert(call);
                self.is_clear_by_class(call)
            }
            ConflictRule::Effects => {
                // Clear calls have to look again because this one may touch more now, and calls that waited for it
                // because it may touch less.
                let mut others = std::mem::take(&mut self.clear);
                others.append(&mut self.clear_when_complete);
                others.extend(
                    std::mem::take(&mut self.calls[call].waiting).into_iter().map(|call| call as usize),
                );
                others.remove(&call);
                let free = self.wait_for_blocker(call);
                others.into_iter().for_each(|other| self.check_clear(other));
                if free && !(footprint.safe || self.complete) {
                    self.clear_when_complete.insert(call);
                }
                free && (footprint.safe || self.complete)
            }
        };
        if clear {
            self.to_begin_again.remove(&call);
            self.calls[call].state = CallState::Authorizing;
            self.preparing += 1;
        }
        clear
    }

    /// Asks for a slot. Returns true if the call has one at once; otherwise [`SchedulerStep::Run`] comes later.
    ///
    /// A call that is done never gets a slot.
    pub fn authorize(&mut self, call: usize) -> bool {
        if self.calls[call].state == CallState::Done {
            return false;
        }
        self.leave_state(call);
        self.mark_resolved(call);
        let first = self.first_ready().is_none_or(|ready| call < ready);
        if first && self.running.len() < self.limits.running && self.tool_has_room(call) {
            self.start(call);
            return true;
        }
        self.calls[call].state = CallState::Ready;
        match self.limited.get_mut(&self.calls[call].tool) {
            Some(limited) => limited.ready.insert(call),
            None => self.ready.insert(call),
        };
        false
    }

    /// Ends the call, whatever its state. Ending it twice changes nothing.
    pub fn finish(&mut self, call: usize) {
        if self.calls[call].state == CallState::Done {
            return;
        }
        self.leave_state(call);
        let entry = &mut self.calls[call];
        let ran = entry.state == CallState::Running;
        entry.state = CallState::Done;
        let keys = entry.keys.take();
        if self.rule == ConflictRule::Classes {
            self.to_begin_again.remove(&call);
            return;
        }
        self.index.remove(call as u32, keys.as_deref());
        if ran && keys.is_none_or(|keys| keys.exclusive) {
            self.exclusive_ended += 1;
            self.first_doubtful = self.first_doubtful.min(call);
        }
        self.clear.remove(&call);
        self.clear_when_complete.remove(&call);
        let (before, after, waiting) = (entry.before, entry.after, std::mem::take(&mut entry.waiting));
        if let Some(before) = before {
            self.calls[before as usize].after = after;
        }
        match after {
            Some(after) => self.calls[after as usize].before = before,
            None => self.last = before,
        }
        // Calls that waited for this one look for an earlier blocker.
        waiting.into_iter().for_each(|waiting| self.check_clear(waiting as usize));
    }

    /// Returns whether the call ran in parallel with another.
    pub fn was_concurrent(&self, call: usize) -> bool {
        self.calls[call].was_concurrent
    }

    /// Returns whether the call has begun and isn't done: it belongs to the batch that runs now.
    pub fn is_active(&self, call: usize) -> bool {
        self.calls[call].state.has_begun()
    }

    /// Returns whether every call has begun and none waits for a slot: no step is possible until one ends.
    pub fn is_exhausted(&self) -> bool {
        let unclear = self.to_begin_again.is_empty() && self.clear.is_empty();
        self.next >= self.calls.len() && unclear && self.waiting_for_slots() == 0
    }

    fn waiting_for_slots(&self) -> usize {
        self.ready.len() + self.limited.values().map(|limited| limited.ready.len()).sum::<usize>()
    }

    /// Removes a call from the counters of its state.
    fn leave_state(&mut self, call: usize) {
        match self.calls[call].state {
            CallState::Authorizing => self.preparing -= 1,
            CallState::Asking => self.asking -= 1,
            CallState::Ready => {
                match self.limited.get_mut(&self.calls[call].tool) {
                    Some(limited) => limited.ready.remove(&call),
                    None => self.ready.remove(&call),
                };
            }
            CallState::Running => {
                self.running.retain(|running| *running != call);
                if let Some(limited) = self.limited.get_mut(&self.calls[call].tool) {
                    limited.running -= 1;
                }
            }
            CallState::Pushed | CallState::Done => {}
        }
    }

    fn start(&mut self, call: usize) {
        self.calls[call].state = CallState::Running;
        if let Some(limited) = self.limited.get_mut(&self.calls[call].tool) {
            limited.running += 1;
        }
        if !self.running.is_empty() {
            self.calls[call].was_concurrent = true;
            for running in &self.running {
                self.calls[*running].was_concurrent = true;
            }
        }
        self.running.push(call);
    }

    fn tool_has_room(&self, call: usize) -> bool {
        self.limited.get(&self.calls[call].tool).is_none_or(|limited| limited.running < limited.limit)
    }

    fn first_ready(&mut self) -> Option<usize> {
        if self.running.len() >= self.limits.running {
            return None;
        }
        self.count_work(1 + self.limited.len());
        let with_room = self.limited.values().filter(|limited| limited.running < limited.limit);
        let limited = with_room.filter_map(|limited| limited.ready.first()).min();
        [self.ready.first(), limited].into_iter().flatten().min().copied()
    }

    fn next_by_class(&mut self) -> Option<usize> {
        while self.calls.get(self.next).is_some_and(|entry| entry.state != CallState::Pushed) {
            self.count_work(1);
            self.next += 1;
        }
        // If the first call isn't clear, no later one is.
        let call = self.to_begin_again.first().copied().unwrap_or(self.next);
        let clear = call < self.calls.len() && self.is_clear_by_class(call);
        if clear {
            self.to_begin_again.remove(&call);
            self.next = self.next.max(call + 1);
        }
        clear.then_some(call)
    }

    fn is_clear_by_class(&mut self, call: usize) -> bool {
        if self.calls[call].safe {
            self.first_unsafe() >= call
        } else {
            // Later calls can only have begun if this one was considered safe at first.
            let others = self.running.len() + self.waiting_for_slots() + self.preparing + self.asking;
            self.complete && self.first_unfinished() == call && others == 0
        }
    }

    fn next_by_effects(&mut self) -> Option<usize> {
        while self.clear.is_empty() && self.next < self.calls.len() {
            self.next += 1;
            self.check_clear(self.next - 1);
        }
        self.clear.pop_first()
    }

    /// Checks whether a call that has not begun is clear.
    fn check_clear(&mut self, call: usize) {
        if self.calls[call].state == CallState::Pushed && self.wait_for_blocker(call) {
            let now = self.calls[call].safe || self.complete;
            if now {
                self.clear.insert(call)
            } else {
                self.clear_when_complete.insert(call)
            };
        }
    }

    /// Records that the paths of the call were resolved again without a change: calls that waited because it was
    /// doubtful check again.
    fn mark_resolved(&mut self, call: usize) {
        let doubtful = self.is_doubtful(&self.calls[call]);
        self.calls[call].resolved_at = self.exclusive_ended;
        if doubtful {
            let waiting = std::mem::take(&mut self.calls[call].waiting);
            waiting.into_iter().for_each(|waiting| self.check_clear(waiting as usize));
        }
    }

    fn is_doubtful(&self, entry: &CallEntry) -> bool {
        entry.resolved_at < self.exclusive_ended
    }

    /// Returns the nearest earlier call that is doubtful.
    fn nearest_doubtful(&mut self, call: usize) -> Option<u32> {
        let passed =
            |entry: &CallEntry, ended: u32| entry.state == CallState::Done || entry.resolved_at == ended;
        while self.calls.get(self.first_doubtful).is_some_and(|entry| passed(entry, self.exclusive_ended)) {
            self.count_work(1);
            self.first_doubtful += 1;
        }
        let mut earlier = self.calls[call].before.filter(|_| self.first_doubtful < call);
        while let Some(other) = earlier.filter(|other| !self.is_doubtful(&self.calls[*other as usize])) {
            self.count_work(1);
            earlier = self.calls[other as usize].before;
        }
        earlier
    }

    /// Finds the nearest earlier unfinished call that conflicts, and registers to wait for it. A later call that has
    /// begun counts too if this one was reconsidered. Returns true if there is none.
    fn wait_for_blocker(&mut self, call: usize) -> bool {
        let doubtful = self.nearest_doubtful(call);
        let entry = &self.calls[call];
        let keys = entry.keys.as_deref().filter(|keys| !keys.exclusive);
        let (conflicting, lookups) =
            keys.map_or((entry.before, 1), |keys| self.index.nearest_conflict(call as u32, keys));
        self.count_work(lookups);
        let blocker = doubtful.max(conflicting).or_else(|| self.blocking_later_call(call));
        if let Some(blocker) = blocker {
            self.calls[blocker as usize].waiting.push(call as u32);
        }
        blocker.is_none()
    }

    /// Returns a later call that has begun and conflicts with this one, if this one was reconsidered.
    fn blocking_later_call(&mut self, call: usize) -> Option<u32> {
        let entry = &self.calls[call];
        let conflicts = |other: &CallEntry| match (&entry.keys, &other.keys) {
            (Some(mine), Some(theirs)) => mine.conflicts_with(theirs),
            _ => true,
        };
        let mut compared = 0;
        let mut later = entry.after.filter(|_| entry.reconsidered);
        let blocker = loop {
            let Some(other) = later.filter(|other| (*other as usize) < self.next) else { break None };
            let other_entry = &self.calls[other as usize];
            compared += 1;
            if other_entry.state.has_begun() && conflicts(other_entry) {
                break Some(other);
            }
            later = other_entry.after;
        };
        self.count_work(compared);
        blocker
    }

    fn first_unfinished(&mut self) -> usize {
        while self.calls.get(self.first).is_some_and(|entry| entry.state == CallState::Done) {
            self.count_work(1);
            self.first += 1;
        }
        self.first
    }

    fn first_unsafe(&mut self) -> usize {
        let passed = |entry: &CallEntry| entry.safe || entry.state == CallState::Done;
        while self.calls.get(self.first_unsafe).is_some_and(passed) {
            self.count_work(1);
            self.first_unsafe += 1;
        }
        self.first_unsafe
    }

    /// Counts work for the tests of its bound.
    fn count_work(&mut self, work: usize) {
        #[cfg(test)]
        {
            self.work += work as u64;
        }
        let _ = work;
    }
}
