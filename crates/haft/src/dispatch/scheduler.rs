//! Which call may go next: a pure state machine, fed with what happened, answering with what to do.
//!
//! ```text
//! pushed → clear → authorizing → ready → running → done
//! ```
//!
//! *Clear* means that no earlier unfinished call conflicts. An *authorizing* call holds no slot: a question that
//! waits forever starves nobody. Slots go to ready calls in call order. It knows numbers and footprints, nothing of
//! tools, tasks or time; that is what makes it checkable.
//!
//! Two conflict rules. `classes`: two concurrency-safe calls don't conflict, anything else does, which is exactly
//! partition-then-gather, found by two pointers. `effects`: calls conflict if what they touch overlaps. A waiting
//! call remembers only the *nearest* earlier call that it conflicts with and looks again when that one is done, so a
//! long chain of conflicts costs as much as a short one for each call. Whom it conflicts with is found by what it
//! touches, in an [`Index`], so many calls that have nothing to do with each other cost no more either.
//!
//! What a call touches is what its paths meant when somebody last looked. A call that runs alone because nobody knows
//! what it touches may have moved links, so when it is done every call behind it is *doubtful*: it counts as touching
//! everything until it was prepared, which looks again. A tool that makes or moves links, or moves folders, therefore
//! has to be one that runs alone; every other change leaves paths leading where they led.

use std::collections::{BTreeMap, BTreeSet};

use crate::effects::conflict::{Index, Touch};
use crate::limits;

/// When two calls may not run at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConflictRule {
    /// Unless both are concurrency-safe.
    #[default]
    Classes,
    /// If what they touch overlaps.
    Effects,
}

/// What the scheduler knows of a call.
#[derive(Debug, Clone)]
pub(crate) struct Footprint {
    /// May run beside other such calls.
    pub(crate) safe: bool,
    /// What it touches; only for [`ConflictRule::Effects`]. Nothing there means everything.
    pub(crate) touch: Option<Box<Touch>>,
}

impl Footprint {
    /// Whether a call that was pushed with these is another now.
    pub(crate) fn differs(&self, safe: bool, touch: Option<&Touch>) -> bool {
        let wider = match (&self.touch, touch) {
            (Some(now), Some(before)) => now.wider_than(before),
            _ => false,
        };
        self.safe != safe || wider
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Begin to prepare this call.
    Prepare(usize),
    /// This call has a slot: run it.
    Run(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pushed,
    Authorizing,
    Asking,
    Ready,
    Running,
    Done,
}

impl State {
    fn begun(self) -> bool {
        !matches!(self, State::Pushed | State::Done)
    }
}

struct Entry {
    state: State,
    safe: bool,
    was_concurrent: bool,
    tool: u32,
    touch: Option<Box<Touch>>,
    /// Calls that wait for this one; only for the rule `effects`.
    waiting: Vec<u32>,
    /// The nearest earlier call that isn't done; only for the rule `effects`.
    before: Option<u32>,
    after: Option<u32>,
    /// How many calls that touch anything had ended when `touch` was found out.
    seen: u32,
    /// Its footprint changed after it had begun, so later calls that have begun may be in its way.
    reconsidered: bool,
}

/// The calls of a tool that may not run as often as it likes.
struct Limited {
    limit: usize,
    running: usize,
    /// Those that only wait for a slot.
    ready: BTreeSet<usize>,
}

/// The machine. One for each turn.
pub(crate) struct Scheduler {
    rule: ConflictRule,
    cap: usize,
    calls: Vec<Entry>,
    /// The message is complete: calls that aren't safe may start.
    complete: bool,
    /// The first call that isn't done.
    first: usize,
    /// The first call that is neither done nor safe; for the rule `classes`.
    first_unsafe: usize,
    /// The first call that nobody has looked at.
    next: usize,
    /// Calls before `next` that have to begin once more; for the rule `classes`.
    again: BTreeSet<usize>,
    /// The last call that isn't done; for the rule `effects`.
    last: Option<u32>,
    /// Calls that nothing stands in the way of; for the rule `effects`.
    clear: BTreeSet<usize>,
    /// Calls that nothing stands in the way of but the end of the message; for the rule `effects`.
    clear_then: BTreeSet<usize>,
    /// How many calls that touch anything ran and ended; for the rule `effects`.
    ended_alone: u32,
    /// The first call that is neither done nor known to touch what it touched; for the rule `effects`.
    first_doubtful: usize,
    /// What the calls that aren't done touch; for the rule `effects`.
    index: Index,
    preparing: usize,
    asking: usize,
    running: Vec<usize>,
    /// Calls that only wait for a slot, but for those of tools with a limit.
    ready: BTreeSet<usize>,
    limited: BTreeMap<u32, Limited>,
    /// How often two calls were compared, or one was looked at.
    #[cfg(test)]
    work: u64,
}

impl Scheduler {
    pub(crate) fn new(rule: ConflictRule, cap: usize) -> Scheduler {
        Scheduler {
            rule,
            cap: cap.max(1),
            calls: Vec::new(),
            complete: false,
            first: 0,
            first_unsafe: 0,
            next: 0,
            again: BTreeSet::new(),
            last: None,
            clear: BTreeSet::new(),
            clear_then: BTreeSet::new(),
            ended_alone: 0,
            first_doubtful: 0,
            index: Index::default(),
            preparing: 0,
            asking: 0,
            running: Vec::new(),
            ready: BTreeSet::new(),
            limited: BTreeMap::new(),
            #[cfg(test)]
            work: 0,
        }
    }

    /// Makes room for this many calls more.
    pub(crate) fn reserve(&mut self, calls: usize) {
        self.calls.reserve(calls);
    }

    /// A call arrives. `limit` is how many of this tool may run at once.
    pub(crate) fn push(&mut self, footprint: Footprint, tool: u32, limit: Option<usize>) -> usize {
        if let Some(limit) = limit {
            let limited = Limited { limit: limit.max(1), running: 0, ready: BTreeSet::new() };
            self.limited.entry(tool).or_insert(limited);
        }
        let call = self.calls.len();
        if self.rule == ConflictRule::Effects {
            self.index.insert(call as u32, footprint.touch.as_deref());
        }
        if let Some(last) = self.last {
            self.calls[last as usize].after = Some(call as u32);
        }
        self.calls.push(Entry {
            state: State::Pushed,
            safe: footprint.safe,
            was_concurrent: false,
            tool,
            touch: footprint.touch,
            waiting: Vec::new(),
            before: self.last,
            after: None,
            seen: self.ended_alone,
            reconsidered: false,
        });
        self.last = Some(call as u32);
        call
    }

    /// The message ended well: everything may start.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
        self.clear.append(&mut self.clear_then);
    }

    /// The next thing to do, until there is nothing.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if let Some(call) = self.next_ready() {
            self.leave(call);
            self.start(call);
            return Some(Step::Run(call));
        }
        if self.preparing >= limits::PREPARING_MAX {
            return None;
        }
        let call = match self.rule {
            ConflictRule::Classes => self.next_by_class()?,
            ConflictRule::Effects => self.next_by_effects()?,
        };
        self.calls[call].state = State::Authorizing;
        self.preparing += 1;
        Some(Step::Prepare(call))
    }

    /// The call asks the user: it no longer counts as being prepared, so it holds nobody back but its conflicts.
    pub(crate) fn asking(&mut self, call: usize) {
        if self.calls[call].state == State::Authorizing {
            self.leave(call);
            self.calls[call].state = State::Asking;
            self.asking += 1;
            self.looked_at(call);
        }
    }

    /// What the call touches turned out otherwise than at first: by a rewrite, or because a link moved. Returns
    /// whether it may go on; if not, it is told to prepare again when it may.
    pub(crate) fn reconsider(&mut self, call: usize, footprint: Footprint) -> bool {
        if self.calls[call].state == State::Done {
            return true;
        }
        self.leave(call);
        let entry = &mut self.calls[call];
        if self.rule == ConflictRule::Effects {
            self.index.remove(call as u32, entry.touch.as_deref());
            self.index.insert(call as u32, footprint.touch.as_deref());
        }
        entry.state = State::Pushed;
        (entry.safe, entry.touch, entry.seen) = (footprint.safe, footprint.touch, self.ended_alone);
        entry.reconsidered = true;
        let clear = match self.rule {
            ConflictRule::Classes => {
                if !footprint.safe {
                    self.first_unsafe = self.first_unsafe.min(call);
                }
                self.again.insert(call);
                self.is_clear_by_class(call)
            }
            ConflictRule::Effects => {
                // Calls that were found clear of what it touched before have to look again, and so have those that
                // waited for it: it may touch less now, and it no longer stands in the way of earlier ones.
                let mut others = std::mem::take(&mut self.clear);
                others.append(&mut self.clear_then);
                others.extend(
                    std::mem::take(&mut self.calls[call].waiting).into_iter().map(|call| call as usize),
                );
                others.remove(&call);
                let free = self.wait_for_blocker(call);
                others.into_iter().for_each(|other| self.look(other));
                if free && !(footprint.safe || self.complete) {
                    self.clear_then.insert(call);
                }
                free && (footprint.safe || self.complete)
            }
        };
        if clear {
            self.again.remove(&call);
            self.calls[call].state = State::Authorizing;
            self.preparing += 1;
        }
        clear
    }

    /// The call may run; true if it has a slot at once, else [`Step::Run`] comes later. A call that is done never
    /// gets one.
    pub(crate) fn authorized(&mut self, call: usize) -> bool {
        if self.calls[call].state == State::Done {
            return false;
        }
        self.leave(call);
        self.looked_at(call);
        let first = self.next_ready().is_none_or(|ready| call < ready);
        if first && self.running.len() < self.cap && self.tool_has_room(call) {
            self.start(call);
            return true;
        }
        self.calls[call].state = State::Ready;
        match self.limited.get_mut(&self.calls[call].tool) {
            Some(limited) => limited.ready.insert(call),
            None => self.ready.insert(call),
        };
        false
    }

    /// The call is over, in whatever state it was. Saying so twice changes nothing.
    pub(crate) fn finished(&mut self, call: usize) {
        if self.calls[call].state == State::Done {
            return;
        }
        self.leave(call);
        let entry = &mut self.calls[call];
        let ran = entry.state == State::Running;
        entry.state = State::Done;
        let touch = entry.touch.take();
        if self.rule == ConflictRule::Classes {
            self.again.remove(&call);
            return;
        }
        self.index.remove(call as u32, touch.as_deref());
        if ran && touch.is_none_or(|touch| touch.is_everything()) {
            self.ended_alone += 1;
            self.first_doubtful = self.first_doubtful.min(call);
        }
        self.clear.remove(&call);
        self.clear_then.remove(&call);
        let (before, after, waiting) = (entry.before, entry.after, std::mem::take(&mut entry.waiting));
        if let Some(before) = before {
            self.calls[before as usize].after = after;
        }
        match after {
            Some(after) => self.calls[after as usize].before = before,
            None => self.last = before,
        }
        // Those that waited for this one look further back.
        waiting.into_iter().for_each(|waiting| self.look(waiting as usize));
    }

    /// Whether the call ran beside another.
    pub(crate) fn was_concurrent(&self, call: usize) -> bool {
        self.calls[call].was_concurrent
    }

    /// Whether nothing earlier stands in this call's way: it belongs to the batch that runs now.
    pub(crate) fn is_active(&self, call: usize) -> bool {
        self.calls[call].state.begun()
    }

    /// Whether every call has begun and none waits for a slot: there is nothing to look for until one ends.
    pub(crate) fn is_exhausted(&self) -> bool {
        let unclear = self.again.is_empty() && self.clear.is_empty();
        self.next >= self.calls.len() && unclear && self.waiting_for_slots() == 0
    }

    fn waiting_for_slots(&self) -> usize {
        self.ready.len() + self.limited.values().map(|limited| limited.ready.len()).sum::<usize>()
    }

    /// Takes a call out of whatever it counts in.
    fn leave(&mut self, call: usize) {
        match self.calls[call].state {
            State::Authorizing => self.preparing -= 1,
            State::Asking => self.asking -= 1,
            State::Ready => {
                match self.limited.get_mut(&self.calls[call].tool) {
                    Some(limited) => limited.ready.remove(&call),
                    None => self.ready.remove(&call),
                };
            }
            State::Running => {
                self.running.retain(|running| *running != call);
                if let Some(limited) = self.limited.get_mut(&self.calls[call].tool) {
                    limited.running -= 1;
                }
            }
            State::Pushed | State::Done => {}
        }
    }

    fn start(&mut self, call: usize) {
        self.calls[call].state = State::Running;
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

    fn next_ready(&mut self) -> Option<usize> {
        if self.running.len() >= self.cap {
            return None;
        }
        self.count(1 + self.limited.len());
        let with_room = self.limited.values().filter(|limited| limited.running < limited.limit);
        let limited = with_room.filter_map(|limited| limited.ready.first()).min();
        [self.ready.first(), limited].into_iter().flatten().min().copied()
    }

    fn next_by_class(&mut self) -> Option<usize> {
        while self.calls.get(self.next).is_some_and(|entry| entry.state != State::Pushed) {
            self.count(1);
            self.next += 1;
        }
        // If the first one isn't clear, then no later one is.
        let call = self.again.first().copied().unwrap_or(self.next);
        let clear = call < self.calls.len() && self.is_clear_by_class(call);
        if clear {
            self.again.remove(&call);
            self.next = self.next.max(call + 1);
        }
        clear.then_some(call)
    }

    fn is_clear_by_class(&mut self, call: usize) -> bool {
        if self.calls[call].safe {
            self.first_unsafe() >= call
        } else {
            // Later calls can only have begun if this one was taken for safe at first.
            let others = self.running.len() + self.waiting_for_slots() + self.preparing + self.asking;
            self.complete && self.first() == call && others == 0
        }
    }

    fn next_by_effects(&mut self) -> Option<usize> {
        while self.clear.is_empty() && self.next < self.calls.len() {
            self.next += 1;
            self.look(self.next - 1);
        }
        self.clear.pop_first()
    }

    /// Finds out whether a call that has not begun is clear.
    fn look(&mut self, call: usize) {
        if self.calls[call].state == State::Pushed && self.wait_for_blocker(call) {
            let now = self.calls[call].safe || self.complete;
            if now {
                self.clear.insert(call)
            } else {
                self.clear_then.insert(call)
            };
        }
    }

    /// What the call touches was found out anew just now, and it is the same: those that waited because it was
    /// doubtful need not any more.
    fn looked_at(&mut self, call: usize) {
        let doubtful = self.is_doubtful(&self.calls[call]);
        self.calls[call].seen = self.ended_alone;
        if doubtful {
            let waiting = std::mem::take(&mut self.calls[call].waiting);
            waiting.into_iter().for_each(|waiting| self.look(waiting as usize));
        }
    }

    fn is_doubtful(&self, entry: &Entry) -> bool {
        entry.seen < self.ended_alone
    }

    /// The nearest earlier call of which nobody knows what it touches now.
    fn nearest_doubtful(&mut self, call: usize) -> Option<u32> {
        let passed = |entry: &Entry, ended: u32| entry.state == State::Done || entry.seen == ended;
        while self.calls.get(self.first_doubtful).is_some_and(|entry| passed(entry, self.ended_alone)) {
            self.count(1);
            self.first_doubtful += 1;
        }
        let mut earlier = self.calls[call].before.filter(|_| self.first_doubtful < call);
        while let Some(other) = earlier.filter(|other| !self.is_doubtful(&self.calls[*other as usize])) {
            self.count(1);
            earlier = self.calls[other as usize].before;
        }
        earlier
    }

    /// Finds the nearest earlier unfinished call that conflicts, and waits for it. A later call that has begun counts
    /// too if this one was reconsidered. Returns true if there is none.
    fn wait_for_blocker(&mut self, call: usize) -> bool {
        let doubtful = self.nearest_doubtful(call);
        let entry = &self.calls[call];
        let touch = entry.touch.as_deref().filter(|touch| !touch.is_everything());
        let (conflicting, lookups) =
            touch.map_or((entry.before, 1), |touch| self.index.before(call as u32, touch));
        self.count(lookups);
        let blocker = doubtful.max(conflicting).or_else(|| self.begun_later(call));
        if let Some(blocker) = blocker {
            self.calls[blocker as usize].waiting.push(call as u32);
        }
        blocker.is_none()
    }

    /// A later call that has begun and conflicts with this one, which was reconsidered.
    fn begun_later(&mut self, call: usize) -> Option<u32> {
        let entry = &self.calls[call];
        let conflicts = |other: &Entry| match (&entry.touch, &other.touch) {
            (Some(mine), Some(theirs)) => mine.conflicts(theirs),
            _ => true,
        };
        let mut compared = 0;
        let mut later = entry.after.filter(|_| entry.reconsidered);
        let blocker = loop {
            let Some(other) = later.filter(|other| (*other as usize) < self.next) else { break None };
            let other_entry = &self.calls[other as usize];
            compared += 1;
            if other_entry.state.begun() && conflicts(other_entry) {
                break Some(other);
            }
            later = other_entry.after;
        };
        self.count(compared);
        blocker
    }

    fn first(&mut self) -> usize {
        while self.calls.get(self.first).is_some_and(|entry| entry.state == State::Done) {
            self.count(1);
            self.first += 1;
        }
        self.first
    }

    fn first_unsafe(&mut self) -> usize {
        let passed = |entry: &Entry| entry.safe || entry.state == State::Done;
        while self.calls.get(self.first_unsafe).is_some_and(passed) {
            self.count(1);
            self.first_unsafe += 1;
        }
        self.first_unsafe
    }

    /// Counts work, for the tests that hold it to be bounded.
    fn count(&mut self, work: usize) {
        #[cfg(test)]
        {
            self.work += work as u64;
        }
        let _ = work;
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
