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
//! call remembers only the *nearest* earlier call that it conflicts with and looks further back when that one is
//! done, so a long chain of conflicts costs as much as a short one for each call.

use std::collections::BTreeSet;

use crate::effects::conflict::Touch;
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
}

/// A tool that has a limit of its own; a turn knows few of them.
struct ToolRoom {
    tool: u32,
    running: usize,
    limit: usize,
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
    /// The last call that isn't done; for the rule `effects`.
    last: Option<u32>,
    /// Calls that nothing stands in the way of, but perhaps the end of the message; for the rule `effects`.
    clear: BTreeSet<usize>,
    preparing: usize,
    asking: usize,
    running: Vec<usize>,
    ready: BTreeSet<usize>,
    /// Running calls of each tool that has a limit, with the limit.
    tools: Vec<ToolRoom>,
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
            last: None,
            clear: BTreeSet::new(),
            preparing: 0,
            asking: 0,
            running: Vec::new(),
            ready: BTreeSet::new(),
            tools: Vec::new(),
        }
    }

    /// Makes room for this many calls more.
    pub(crate) fn reserve(&mut self, calls: usize) {
        self.calls.reserve(calls);
    }

    /// A call arrives. `limit` is how many of this tool may run at once.
    pub(crate) fn push(&mut self, footprint: Footprint, tool: u32, limit: Option<usize>) -> usize {
        if let Some(limit) = limit
            && !self.tools.iter().any(|room| room.tool == tool)
        {
            self.tools.push(ToolRoom { tool, running: 0, limit });
        }
        let call = self.calls.len();
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
        });
        self.last = Some(call as u32);
        call
    }

    /// The message ended well: everything may start.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// The next thing to do, until there is nothing.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if let Some(call) = self.next_ready() {
            self.ready.remove(&call);
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
        self.next = self.next.max(call + 1);
        Some(Step::Prepare(call))
    }

    /// The call asks the user: it no longer counts as being prepared, so it holds nobody back but its conflicts.
    pub(crate) fn asking(&mut self, call: usize) {
        if self.calls[call].state == State::Authorizing {
            self.leave(call);
            self.calls[call].state = State::Asking;
            self.asking += 1;
        }
    }

    /// What the call touches turned out otherwise than at first: by a rewrite, or because a link moved. Returns
    /// whether it may go on; if not, it is told to prepare again when it may.
    pub(crate) fn reconsider(&mut self, call: usize, footprint: Footprint) -> bool {
        if self.calls[call].state == State::Done {
            return true;
        }
        self.leave(call);
        self.calls[call].state = State::Pushed;
        self.calls[call].safe = footprint.safe;
        self.calls[call].touch = footprint.touch;
        let clear = match self.rule {
            ConflictRule::Classes => {
                if !footprint.safe {
                    self.first_unsafe = self.first_unsafe.min(call);
                }
                self.next = self.next.min(call);
                self.is_clear_by_class(call)
            }
            ConflictRule::Effects => {
                // Calls that were found clear of what it touched before have to look again.
                let clear = std::mem::take(&mut self.clear);
                clear.into_iter().filter(|other| *other != call).for_each(|other| self.look(other));
                let free = self.wait_for_blocker(call, call as u32);
                if free {
                    self.clear.insert(call);
                }
                free && (footprint.safe || self.complete)
            }
        };
        if clear {
            self.clear.remove(&call);
            self.calls[call].state = State::Authorizing;
            self.preparing += 1;
        }
        clear
    }

    /// The call may run; true if it has a slot at once, else [`Step::Run`] comes later.
    pub(crate) fn authorized(&mut self, call: usize) -> bool {
        if self.calls[call].state == State::Done {
            return true;
        }
        self.leave(call);
        let first = self.ready.is_empty() || self.ready.range(..call).next().is_none();
        if first && self.running.len() < self.cap && self.tool_has_room(call) {
            self.start(call);
            return true;
        }
        self.calls[call].state = State::Ready;
        self.ready.insert(call);
        false
    }

    /// The call is over, in whatever state it was. Saying so twice changes nothing.
    pub(crate) fn finished(&mut self, call: usize) {
        if self.calls[call].state == State::Done {
            return;
        }
        self.leave(call);
        let entry = &mut self.calls[call];
        entry.state = State::Done;
        entry.touch = None;
        if self.rule == ConflictRule::Classes {
            return;
        }
        self.clear.remove(&call);
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

    /// Whether every call has begun, so that there is nothing to look for until one ends.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.next >= self.calls.len() && self.ready.is_empty() && self.clear.is_empty()
    }

    /// Takes a call out of whatever it counts in.
    fn leave(&mut self, call: usize) {
        match self.calls[call].state {
            State::Authorizing => self.preparing -= 1,
            State::Asking => self.asking -= 1,
            State::Ready => {
                self.ready.remove(&call);
            }
            State::Running => {
                self.running.retain(|running| *running != call);
                self.room_of(call).into_iter().for_each(|room| room.running -= 1);
            }
            State::Pushed | State::Done => {}
        }
    }

    fn start(&mut self, call: usize) {
        self.calls[call].state = State::Running;
        self.room_of(call).into_iter().for_each(|room| room.running += 1);
        if !self.running.is_empty() {
            self.calls[call].was_concurrent = true;
            for running in &self.running {
                self.calls[*running].was_concurrent = true;
            }
        }
        self.running.push(call);
    }

    fn room_of(&mut self, call: usize) -> Option<&mut ToolRoom> {
        let tool = self.calls[call].tool;
        self.tools.iter_mut().find(|room| room.tool == tool)
    }

    fn tool_has_room(&self, call: usize) -> bool {
        let tool = self.calls[call].tool;
        self.tools.iter().find(|room| room.tool == tool).is_none_or(|room| room.running < room.limit)
    }

    fn next_ready(&self) -> Option<usize> {
        if self.running.len() >= self.cap {
            return None;
        }
        self.ready.iter().copied().find(|call| self.tool_has_room(*call))
    }

    fn next_by_class(&mut self) -> Option<usize> {
        while self.calls.get(self.next).is_some_and(|entry| entry.state != State::Pushed) {
            self.next += 1;
        }
        let call = self.next;
        (call < self.calls.len() && self.is_clear_by_class(call)).then_some(call)
    }

    fn is_clear_by_class(&mut self, call: usize) -> bool {
        if self.calls[call].safe {
            self.first_unsafe() >= call
        } else {
            // Later calls can only have begun if this one was taken for safe at first.
            let others = self.running.len() + self.ready.len() + self.preparing + self.asking;
            self.complete && self.first() == call && others == 0
        }
    }

    fn next_by_effects(&mut self) -> Option<usize> {
        loop {
            let call = self.clear.iter().copied().find(|call| self.calls[*call].safe || self.complete);
            if let Some(call) = call {
                self.clear.remove(&call);
                return Some(call);
            }
            if self.next >= self.calls.len() {
                return None;
            }
            let call = self.next;
            self.next += 1;
            self.look(call);
        }
    }

    /// Finds out whether a call that has not begun is clear.
    fn look(&mut self, call: usize) {
        if self.calls[call].state == State::Pushed && self.wait_for_blocker(call, call as u32) {
            self.clear.insert(call);
        }
    }

    /// Looks backward from `from` for an unfinished call that conflicts, and waits for the nearest one. A later call
    /// that has begun, because this one was reconsidered, counts too. Returns true if there is none.
    fn wait_for_blocker(&mut self, call: usize, from: u32) -> bool {
        let everything = Touch::everything();
        let mine = self.calls[call].touch.take();
        let touch = mine.as_deref().unwrap_or(&everything);
        let conflicts = |entry: &Entry| touch.conflicts(entry.touch.as_deref().unwrap_or(&everything));
        let mut blocker = None;
        let mut earlier = self.calls[from as usize].before;
        while let Some(other) = earlier {
            let entry = &self.calls[other as usize];
            if conflicts(entry) {
                blocker = Some(other);
                break;
            }
            earlier = entry.before;
        }
        if blocker.is_none() {
            let begun = |other: &u32| self.calls[*other as usize].state.begun();
            let mut later = self.calls[call].after;
            while let Some(other) = later {
                if begun(&other) && conflicts(&self.calls[other as usize]) {
                    blocker = Some(other);
                    break;
                }
                later = if (other as usize) < self.next { self.calls[other as usize].after } else { None };
            }
        }
        self.calls[call].touch = mine;
        if let Some(blocker) = blocker {
            self.calls[blocker as usize].waiting.push(call as u32);
        }
        blocker.is_none()
    }

    fn first(&mut self) -> usize {
        while self.calls.get(self.first).is_some_and(|entry| entry.state == State::Done) {
            self.first += 1;
        }
        self.first
    }

    fn first_unsafe(&mut self) -> usize {
        let passed = |entry: &Entry| entry.safe || entry.state == State::Done;
        while self.calls.get(self.first_unsafe).is_some_and(passed) {
            self.first_unsafe += 1;
        }
        self.first_unsafe
    }
}
