//! Decides which call goes next: a pure state machine that takes events and answers with steps.
//!
//! ```text
//! pushed → clear → authorizing → ready → running → done
//! ```
//!
//! Calls belong to batches: the calls of one message of a model, or a call that was submitted alone. All
//! batches of an agent share one scheduler and one order, that of arrival. A batch matters only while its
//! message still arrives: until then its calls that aren't safe don't start. A call that ended is forgotten
//! at once, and its number isn't used again.
//!
//! A call is *clear* if no earlier unfinished call conflicts with it. An *authorizing* call holds no slot, so
//! a question that waits forever starves no other call. Ready calls get slots in call order.
//!
//! There are two conflict rules. Under `classes` two concurrency-safe calls don't conflict and all others do,
//! which is partition-then-gather and needs two pointers. Under `effects` calls conflict if their keys
//! overlap. A waiting call remembers only the *nearest* earlier call that it conflicts with and looks again
//! when that one is done, so a long chain of conflicts costs no more per call than a short one. It is found
//! by comparing with one unfinished call after the other; an index of keys cost more than it saved.
//!
//! Keys are what the paths of a call meant when they were last resolved. An exclusive call may have moved
//! symlinks, so when it ends every later call is *doubtful*: it counts as exclusive until it is prepared,
//! which resolves its paths again. A tool that makes or moves symlinks, or moves directories, therefore has
//! to be exclusive.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use crate::call_map::CallMap;
use crate::conflict::ConflictKeys;

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

/// How many calls of a scheduler may be in one state at the same time.
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

/// The number of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub(crate) usize);

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
}

/// The number of another call, if there is one, in one word.
#[derive(Clone, Copy)]
struct CallLink(Option<NonZeroUsize>);

impl CallLink {
    fn new(call: Option<usize>) -> CallLink {
        CallLink(call.and_then(|call| NonZeroUsize::MIN.checked_add(call)))
    }

    fn call(self) -> Option<usize> {
        self.0.map(|number| number.get() - 1)
    }
}

/// A call that isn't done.
struct CallEntry {
    batch: BatchId,
    state: CallState,
    safe: bool,
    was_concurrent: bool,
    tool: u32,
    keys: Option<Box<ConflictKeys>>,
    /// Calls that wait for this one; only for the rule `effects`.
    #[expect(clippy::box_collection, reason = "most calls have none: one word where a list takes three")]
    waiting: Option<Box<Vec<usize>>>,
    /// The nearest earlier call that isn't done.
    before: CallLink,
    /// The nearest later call that isn't done.
    after: CallLink,
    /// How many exclusive calls had ended when `keys` was determined.
    resolved_at: u64,
    /// The footprint changed after the call had begun, so later calls that have begun may block it.
    reconsidered: bool,
}

impl CallEntry {
    /// Returns whether the two calls conflict by what they touch. A call without keys conflicts with every
    /// other.
    fn conflicts_with(&self, other: &CallEntry) -> bool {
        match (&self.keys, &other.keys) {
            (Some(mine), Some(theirs)) => mine.conflicts_with(theirs),
            _ => true,
        }
    }
}

/// The calls of a tool that limits how many of them run at the same time.
pub(crate) struct ToolLimit {
    limit: usize,
    /// Calls of the tool that aren't done.
    unfinished: usize,
    pub(crate) running: usize,
    /// Calls that only wait for a slot.
    pub(crate) ready: BTreeSet<usize>,
}

/// The state machine of the calls of one agent.
pub struct Scheduler {
    rule: ConflictRule,
    limits: SchedulerLimits,
    /// The calls that aren't done.
    calls: CallMap<CallEntry>,
    next_call: usize,
    next_batch: usize,
    /// Batches whose message isn't complete: their calls that aren't safe don't start.
    incomplete: Vec<BatchId>,
    /// The first call that isn't done.
    first: Option<usize>,
    /// The last call that isn't done.
    last: Option<usize>,
    /// The calls that are neither done nor safe; for the rule `classes`.
    not_safe: BTreeSet<usize>,
    /// The first call that was not yet checked for conflicts.
    next: Option<usize>,
    /// Calls before `next` that have to begin once more; for the rule `classes`.
    to_begin_again: BTreeSet<usize>,
    /// Calls without a conflict; for the rule `effects`.
    clear: BTreeSet<usize>,
    /// Calls without a conflict that wait for the end of their message; for the rule `effects`.
    clear_when_complete: BTreeSet<usize>,
    /// How many exclusive calls ran and ended; for the rule `effects`.
    exclusive_ended: u64,
    /// The first call that may be doubtful; for the rule `effects`.
    first_doubtful: Option<usize>,
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
            calls: CallMap::default(),
            next_call: 0,
            next_batch: 0,
            incomplete: Vec::new(),
            first: None,
            last: None,
            not_safe: BTreeSet::new(),
            next: None,
            to_begin_again: BTreeSet::new(),
            clear: BTreeSet::new(),
            clear_when_complete: BTreeSet::new(),
            exclusive_ended: 0,
            first_doubtful: None,
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

    /// Opens a batch, whose message isn't complete yet.
    pub fn open_batch(&mut self) -> BatchId {
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        self.incomplete.push(batch);
        batch
    }

    /// Adds a call and returns its number. `limit` is how many calls of this tool may run at the same time.
    pub fn push(&mut self, batch: BatchId, footprint: Footprint, tool: u32, limit: Option<usize>) -> usize {
        if let Some(limit) = limit {
            let limited =
                ToolLimit { limit: limit.max(1), unfinished: 0, running: 0, ready: BTreeSet::new() };
            self.limited.entry(tool).or_insert(limited);
        }
        if let Some(limited) = self.limited.get_mut(&tool) {
            limited.unfinished += 1;
        }
        let call = self.next_call;
        self.next_call += 1;
        match self.rule {
            ConflictRule::Effects => {}
            ConflictRule::Classes if footprint.safe => {}
            ConflictRule::Classes => drop(self.not_safe.insert(call)),
        }
        match self.last {
            Some(last) => self.calls[last].after = CallLink::new(Some(call)),
            None => self.first = Some(call),
        }
        self.next = self.next.or(Some(call));
        self.calls.insert(
            call,
            CallEntry {
                batch,
                state: CallState::Pushed,
                safe: footprint.safe,
                was_concurrent: false,
                tool,
                keys: footprint.keys,
                waiting: None,
                before: CallLink::new(self.last),
                after: CallLink::new(None),
                resolved_at: self.exclusive_ended,
                reconsidered: false,
            },
        );
        self.last = Some(call);
        call
    }

    /// Marks the message of a batch as complete, or given up: calls that aren't safe may start.
    pub fn complete(&mut self, batch: BatchId) {
        let Some(index) = self.incomplete.iter().rposition(|incomplete| *incomplete == batch) else { return };
        self.incomplete.swap_remove(index);
        if !self.clear_when_complete.is_empty() {
            let waiting = std::mem::take(&mut self.clear_when_complete);
            let (clear, waiting) = waiting.into_iter().partition(|call| self.calls[*call].batch == batch);
            self.clear_when_complete = waiting;
            self.clear.extend::<BTreeSet<usize>>(clear);
        }
    }

    /// Returns how many calls aren't done.
    pub fn unfinished(&self) -> usize {
        self.calls.len()
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

    /// Marks the call as waiting for the user. It no longer counts as being prepared, so it holds back only
    /// calls that conflict with it.
    pub fn begin_asking(&mut self, call: usize) {
        if self.calls.get(call).is_some_and(|entry| entry.state == CallState::Authorizing) {
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
        if !self.calls.contains(call) {
            return true;
        }
        self.leave_state(call);
        let entry = &mut self.calls[call];
        entry.state = CallState::Pushed;
        (entry.safe, entry.keys, entry.resolved_at) = (footprint.safe, footprint.keys, self.exclusive_ended);
        entry.reconsidered = true;
        let may_start = footprint.safe || !self.incomplete.contains(&entry.batch);
        let clear = match self.rule {
            ConflictRule::Classes => {
                if footprint.safe {
                    self.not_safe.remove(&call);
                } else {
                    self.not_safe.insert(call);
                }
                self.to_begin_again.insert(call);
                self.is_clear_by_class(call)
            }
            ConflictRule::Effects => {
                // Clear calls have to look again because this one may touch more now, and calls that waited
                // for it because it may touch less.
                let mut others = std::mem::take(&mut self.clear);
                others.append(&mut self.clear_when_complete);
                others.extend(self.calls[call].waiting.take().into_iter().flat_map(|waiting| *waiting));
                others.remove(&call);
                let free = self.wait_for_blocker(call);
                others.into_iter().for_each(|other| self.check_clear(other));
                if free && !may_start {
                    self.clear_when_complete.insert(call);
                }
                free && may_start
            }
        };
        if clear {
            self.to_begin_again.remove(&call);
            self.calls[call].state = CallState::Authorizing;
            self.preparing += 1;
        }
        clear
    }

    /// Asks for a slot. Returns true if the call has one at once; otherwise [`SchedulerStep::Run`] comes
    /// later.
    ///
    /// A call that is done never gets a slot.
    pub fn authorize(&mut self, call: usize) -> bool {
        if !self.calls.contains(call) {
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

    /// Ends the call, whatever its state, and forgets it. Ending it twice changes nothing. Returns whether
    /// the call ran in parallel with another.
    pub fn finish(&mut self, call: usize) -> bool {
        if !self.calls.contains(call) {
            return false;
        }
        self.leave_state(call);
        let Some(entry) = self.calls.remove(call) else { return false };
        let was_concurrent = entry.was_concurrent;
        self.unlink(call, &entry);
        if let Some(limited) = self.limited.get_mut(&entry.tool) {
            limited.unfinished -= 1;
            if limited.unfinished == 0 {
                self.limited.remove(&entry.tool);
            }
        }
        if self.rule == ConflictRule::Classes {
            self.not_safe.remove(&call);
            self.to_begin_again.remove(&call);
            return was_concurrent;
        }
        if entry.state == CallState::Running && entry.keys.is_none_or(|keys| keys.exclusive) {
            self.exclusive_ended += 1;
            self.first_doubtful = self.first;
        }
        self.clear.remove(&call);
        self.clear_when_complete.remove(&call);
        // Calls that waited for this one look for an earlier blocker.
        entry.waiting.into_iter().flat_map(|waiting| *waiting).for_each(|waiting| self.check_clear(waiting));
        was_concurrent
    }

    /// Takes an ended call out of the order.
    fn unlink(&mut self, call: usize, entry: &CallEntry) {
        match entry.before.call() {
            Some(before) => self.calls[before].after = entry.after,
            None => self.first = entry.after.call(),
        }
        match entry.after.call() {
            Some(after) => self.calls[after].before = entry.before,
            None => self.last = entry.before.call(),
        }
        for pointer in [&mut self.next, &mut self.first_doubtful] {
            if *pointer == Some(call) {
                *pointer = entry.after.call();
            }
        }
    }

    /// Returns whether the call ran in parallel with another.
    pub fn was_concurrent(&self, call: usize) -> bool {
        self.calls.get(call).is_some_and(|entry| entry.was_concurrent)
    }

    /// Returns whether the call has begun and isn't done: it belongs to the batch that runs now.
    pub fn is_active(&self, call: usize) -> bool {
        self.calls.get(call).is_some_and(|entry| entry.state != CallState::Pushed)
    }

    /// Returns whether every call has begun and none waits for a slot: no step is possible until one ends.
    pub fn is_exhausted(&self) -> bool {
        let unclear = self.to_begin_again.is_empty() && self.clear.is_empty();
        self.next.is_none() && unclear && self.waiting_for_slots() == 0
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
            CallState::Pushed => {}
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
        while let Some(next) = self.next
            && self.calls[next].state != CallState::Pushed
        {
            self.count_work(1);
            self.next = self.calls[next].after.call();
        }
        // If the first call isn't clear, no later one is.
        let call = self.to_begin_again.first().copied().or(self.next)?;
        let clear = self.is_clear_by_class(call);
        if clear {
            self.to_begin_again.remove(&call);
            if self.next == Some(call) {
                self.next = self.calls[call].after.call();
            }
        }
        clear.then_some(call)
    }

    fn is_clear_by_class(&mut self, call: usize) -> bool {
        let entry = &self.calls[call];
        if entry.safe {
            self.not_safe.first().is_none_or(|not_safe| *not_safe >= call)
        } else {
            // Later calls can only have begun if this one was considered safe at first.
            let others = self.running.len() + self.waiting_for_slots() + self.preparing + self.asking;
            !self.incomplete.contains(&entry.batch) && self.first == Some(call) && others == 0
        }
    }

    fn next_by_effects(&mut self) -> Option<usize> {
        while self.clear.is_empty()
            && let Some(next) = self.next
        {
            self.next = self.calls[next].after.call();
            self.check_clear(next);
        }
        self.clear.pop_first()
    }

    /// Checks whether a call that has not begun is clear.
    fn check_clear(&mut self, call: usize) {
        let is_waiting = self.calls.get(call).is_some_and(|entry| entry.state == CallState::Pushed);
        if is_waiting && self.wait_for_blocker(call) {
            let entry = &self.calls[call];
            if entry.safe || !self.incomplete.contains(&entry.batch) {
                self.clear.insert(call)
            } else {
                self.clear_when_complete.insert(call)
            };
        }
    }

    /// Records that the paths of the call were resolved again without a change: calls that waited because it
    /// was doubtful check again.
    fn mark_resolved(&mut self, call: usize) {
        let doubtful = self.is_doubtful(&self.calls[call]);
        self.calls[call].resolved_at = self.exclusive_ended;
        if doubtful {
            let waiting = self.calls[call].waiting.take();
            waiting.into_iter().flat_map(|waiting| *waiting).for_each(|waiting| self.check_clear(waiting));
        }
    }

    fn is_doubtful(&self, entry: &CallEntry) -> bool {
        entry.resolved_at < self.exclusive_ended
    }

    /// Returns the nearest earlier call that is doubtful.
    fn nearest_doubtful(&mut self, call: usize) -> Option<usize> {
        while let Some(first) = self.first_doubtful
            && !self.is_doubtful(&self.calls[first])
        {
            self.count_work(1);
            self.first_doubtful = self.calls[first].after.call();
        }
        let first = self.first_doubtful.filter(|first| *first < call)?;
        let mut earlier = self.calls[call].before.call().filter(|earlier| *earlier >= first);
        while let Some(other) = earlier.filter(|other| !self.is_doubtful(&self.calls[*other])) {
            self.count_work(1);
            earlier = self.calls[other].before.call();
        }
        earlier
    }

    /// Finds the nearest earlier unfinished call that conflicts, and registers to wait for it. A later call
    /// that has begun counts too if this one was reconsidered. Returns true if there is none.
    fn wait_for_blocker(&mut self, call: usize) -> bool {
        let doubtful = self.nearest_doubtful(call);
        let conflicting = self.nearest_conflict(call);
        let blocker = doubtful.max(conflicting).or_else(|| self.blocking_later_call(call));
        if let Some(blocker) = blocker {
            self.calls[blocker].waiting.get_or_insert_default().push(call);
        }
        blocker.is_none()
    }

    /// Returns the nearest earlier unfinished call that conflicts.
    fn nearest_conflict(&mut self, call: usize) -> Option<usize> {
        let entry = &self.calls[call];
        let mut compared = 0;
        let mut earlier = entry.before.call();
        while let Some(other) = earlier {
            let other_entry = &self.calls[other];
            compared += 1;
            if entry.conflicts_with(other_entry) {
                break;
            }
            earlier = other_entry.before.call();
        }
        self.count_work(compared);
        earlier
    }

    /// Returns a later call that has begun and conflicts with this one, if this one was reconsidered.
    fn blocking_later_call(&mut self, call: usize) -> Option<usize> {
        let entry = &self.calls[call];
        let mut compared = 0;
        let mut later = entry.after.call().filter(|_| entry.reconsidered);
        let blocker = loop {
            let is_checked = |other: &usize| self.next.is_none_or(|next| *other < next);
            let Some(other) = later.filter(is_checked) else { break None };
            let other_entry = &self.calls[other];
            compared += 1;
            if other_entry.state != CallState::Pushed && entry.conflicts_with(other_entry) {
                break Some(other);
            }
            later = other_entry.after.call();
        };
        self.count_work(compared);
        blocker
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
