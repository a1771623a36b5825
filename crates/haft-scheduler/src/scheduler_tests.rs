//! A table of orders, and what the random events of the model do not reach.
//!
//! A [`Machine`] feeds the scheduler and keeps its own books beside it. Before each step it works out, by
//! comparing every call with every other, what the step must be; the scheduler, which never compares that
//! much, has to agree. So each test here checks the whole machine after every event, whatever else it looks
//! at.

use std::collections::BTreeMap;

use crate::{
    BatchId, ConflictKeys, ConflictRule, Footprint, PathKey, Scheduler, SchedulerLimits, SchedulerStep,
};

const PREPARING_MAX: usize = 32;

fn limits(running: usize) -> SchedulerLimits {
    SchedulerLimits { running, preparing: PREPARING_MAX }
}

#[path = "scheduler_model_tests.rs"]
mod model;

/// What a call touches, in a form that conflicts are easily seen in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Foot {
    everything: bool,
    /// Places as `a/b`, below a folder that doesn't exist; true if changed.
    places: Vec<(String, bool)>,
    /// Named state; true if changed.
    state: Vec<(String, bool)>,
}

impl Foot {
    /// `R` touches nothing, `W` everything, `r(a/b)` reads a place, `w(a)` changes it, `rs(x)` and `ws(x)`
    /// the same for named state; `+` joins. `I` stands for a call that could not be read.
    fn parse(words: &str) -> Foot {
        let mut foot = Foot::default();
        for part in words.split('+') {
            let inner = |open: &str| part.strip_prefix(open).and_then(|rest| rest.strip_suffix(')'));
            match part {
                "R" => {}
                "W" | "I" => foot.everything = true,
                _ => {
                    let (list, name, changed) = if let Some(name) = inner("r(") {
                        (&mut foot.places, name, false)
                    } else if let Some(name) = inner("w(") {
                        (&mut foot.places, name, true)
                    } else if let Some(name) = inner("rs(") {
                        (&mut foot.state, name, false)
                    } else {
                        (&mut foot.state, inner("ws(").expect("a footprint"), true)
                    };
                    list.push((name.to_owned(), changed));
                }
            }
        }
        foot
    }

    fn is_safe(&self) -> bool {
        !self.everything && self.places.iter().chain(&self.state).all(|(_, changed)| !changed)
    }

    fn conflicts(&self, other: &Foot) -> bool {
        let meet = |a: &str, b: &str| {
            let (a, b) = (format!("{a}/"), format!("{b}/"));
            a.starts_with(&b) || b.starts_with(&a)
        };
        let clash =
            |mine: &[(String, bool)], theirs: &[(String, bool)], meet: &dyn Fn(&str, &str) -> bool| {
                mine.iter().any(|(mine, changes)| {
                    theirs.iter().any(|(theirs, changed)| (*changes || *changed) && meet(mine, theirs))
                })
            };
        self.everything
            || other.everything
            || clash(&self.places, &other.places, &meet)
            || clash(&self.state, &other.state, &|a, b| a == b)
    }

    /// The same as the scheduler gets it.
    fn footprint(&self, rule: ConflictRule) -> Footprint {
        if rule == ConflictRule::Classes {
            return Footprint { safe: self.is_safe(), keys: None };
        }
        let mut keys = ConflictKeys { exclusive: self.everything, ..ConflictKeys::default() };
        for (place, changed) in &self.places {
            let path = PathKey { names: vec![format!("/{place}").into()], file: None };
            (if *changed { &mut keys.changes } else { &mut keys.reads }).paths.push(path);
        }
        for (name, changed) in &self.state {
            (if *changed { &mut keys.changes } else { &mut keys.reads }).resources.push(name.clone());
        }
        Footprint { safe: self.is_safe(), keys: Some(Box::new(keys)) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Pushed,
    Preparing,
    Asking,
    Ready,
    Running,
    Done,
}

impl At {
    fn begun(self) -> bool {
        !matches!(self, At::Pushed | At::Done)
    }
}

struct Call {
    /// The index of its batch.
    batch: usize,
    at: At,
    foot: Foot,
    tool: u32,
    was_concurrent: bool,
    ran: bool,
    /// A call that touches anything ended since somebody looked at what this one touches.
    doubtful: bool,
}

/// A scheduler and the books beside it.
struct Machine {
    scheduler: Scheduler,
    rule: ConflictRule,
    cap: usize,
    /// The batches, and whether their messages are complete. Calls go to the last one.
    batches: Vec<(BatchId, bool)>,
    calls: Vec<Call>,
    limits: BTreeMap<u32, usize>,
}

impl Machine {
    fn new(rule: ConflictRule, cap: usize) -> Machine {
        let mut scheduler = Scheduler::new(rule, limits(cap));
        let batch = scheduler.open_batch();
        let batches = vec![(batch, false)];
        Machine { scheduler, rule, cap, batches, calls: Vec::new(), limits: BTreeMap::new() }
    }

    /// With these calls, complete.
    fn with(rule: ConflictRule, cap: usize, calls: &str) -> Machine {
        let mut machine = Machine::new(rule, cap);
        machine.push_all(calls);
        machine.complete();
        machine
    }

    fn push_all(&mut self, calls: &str) {
        calls.split_whitespace().for_each(|call| self.push(Foot::parse(call), 1, None));
    }

    fn push(&mut self, foot: Foot, tool: u32, limit: Option<usize>) {
        let batch = self.batches.len() - 1;
        let call = self.scheduler.push(self.batches[batch].0, foot.footprint(self.rule), tool, limit);
        assert_eq!(call, self.calls.len());
        self.calls.push(Call {
            batch,
            at: At::Pushed,
            foot,
            tool,
            was_concurrent: false,
            ran: false,
            doubtful: false,
        });
        if let Some(limit) = limit {
            self.limits.entry(tool).or_insert(limit);
        }
    }

    /// Completes all batches.
    fn complete(&mut self) {
        (0..self.batches.len()).for_each(|batch| self.complete_batch(batch));
    }

    fn complete_batch(&mut self, batch: usize) {
        self.scheduler.complete(self.batches[batch].0);
        self.batches[batch].1 = true;
    }

    /// Opens another batch, for the calls that come from now on.
    fn open_batch(&mut self) {
        self.batches.push((self.scheduler.open_batch(), false));
    }

    fn is_complete(&self, call: usize) -> bool {
        self.batches[self.calls[call].batch].1
    }

    fn all(&self, at: At) -> Vec<usize> {
        (0..self.calls.len()).filter(|call| self.calls[*call].at == at).collect()
    }

    fn conflicts(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.calls[a].foot, &self.calls[b].foot);
        match self.rule {
            ConflictRule::Classes => !(a.is_safe() && b.is_safe()),
            ConflictRule::Effects => a.conflicts(b),
        }
    }

    /// Whether nothing stands in the way of a call: no earlier unfinished one that conflicts or might, and no
    /// later one that has begun, which there is only where a call was reconsidered.
    fn is_clear(&self, call: usize) -> bool {
        (0..self.calls.len()).filter(|other| *other != call).all(|other| {
            let Call { at, doubtful, .. } = self.calls[other];
            if other < call {
                at == At::Done || !(doubtful || self.conflicts(other, call))
            } else {
                !(at.begun() && self.conflicts(other, call))
            }
        })
    }

    fn has_room(&self, call: usize) -> bool {
        let tool = self.calls[call].tool;
        let running =
            self.all(At::Running).into_iter().filter(|other| self.calls[*other].tool == tool).count();
        self.limits.get(&tool).is_none_or(|limit| running < *limit)
    }

    fn may_begin(&self, call: usize) -> bool {
        (self.is_complete(call) || self.calls[call].foot.is_safe()) && self.is_clear(call)
    }

    /// What the next step has to be.
    fn expected(&self) -> Option<SchedulerStep> {
        if self.all(At::Running).len() < self.cap
            && let Some(call) = self.all(At::Ready).into_iter().find(|call| self.has_room(*call))
        {
            return Some(SchedulerStep::Run(call));
        }
        if self.all(At::Preparing).len() >= PREPARING_MAX {
            return None;
        }
        self.all(At::Pushed).into_iter().find(|call| self.may_begin(*call)).map(SchedulerStep::Prepare)
    }

    fn start(&mut self, call: usize) {
        let running = self.all(At::Running);
        assert!(running.len() < self.cap, "more than {} at once", self.cap);
        assert!(self.has_room(call), "more of tool {} than it may", self.calls[call].tool);
        for other in &running {
            assert!(!self.conflicts(*other, call), "{other} and {call} run at once");
            self.calls[*other].was_concurrent = true;
        }
        self.calls[call].was_concurrent |= !running.is_empty();
        self.calls[call].at = At::Running;
        self.calls[call].ran = true;
    }

    /// Takes every step that there is.
    fn pump(&mut self) {
        loop {
            let (expected, step) = (self.expected(), self.scheduler.step());
            assert_eq!(step, expected, "{}", self.shows());
            match step {
                Some(SchedulerStep::Run(call)) => self.start(call),
                Some(SchedulerStep::Prepare(call)) => self.calls[call].at = At::Preparing,
                None => break,
            }
            self.audit();
        }
    }

    fn authorize(&mut self, call: usize) {
        self.calls[call].doubtful = false;
        let earlier = self.all(At::Ready).into_iter().any(|ready| ready < call && self.has_room(ready));
        let at_once = !earlier && self.all(At::Running).len() < self.cap && self.has_room(call);
        assert_eq!(self.scheduler.authorize(call), at_once, "{call} in {}", self.shows());
        if at_once {
            self.start(call);
        } else {
            self.calls[call].at = At::Ready;
        }
        self.audit();
    }

    fn ask(&mut self, call: usize) {
        self.scheduler.begin_asking(call);
        self.calls[call].at = At::Asking;
        self.calls[call].doubtful = false;
        self.audit();
    }

    /// Returns whether the call goes on.
    fn reconsider(&mut self, call: usize, foot: Foot) -> bool {
        self.calls[call].at = At::Pushed;
        self.calls[call].foot = foot.clone();
        self.calls[call].doubtful = false;
        let goes_on = self.may_begin(call);
        assert_eq!(self.scheduler.reconsider(call, foot.footprint(self.rule)), goes_on, "{}", self.shows());
        if goes_on {
            self.calls[call].at = At::Preparing;
        }
        self.audit();
        goes_on
    }

    fn finish(&mut self, call: usize) {
        let was_concurrent = self.calls[call].was_concurrent && self.calls[call].at != At::Done;
        assert_eq!(self.scheduler.was_concurrent(call), was_concurrent, "{call}");
        self.scheduler.finish(call);
        let alone = self.rule == ConflictRule::Effects && self.calls[call].foot.everything;
        if alone && self.calls[call].at == At::Running {
            self.calls.iter_mut().for_each(|call| call.doubtful = true);
        }
        self.calls[call].at = At::Done;
        self.audit();
    }

    /// Authorizes whatever is being prepared until nothing changes any more.
    fn settle(&mut self) {
        loop {
            self.pump();
            let Some(call) = self.all(At::Preparing).first().copied() else { return };
            self.authorize(call);
        }
    }

    /// The scheduler's counters are what the books say.
    fn audit(&self) {
        let count = |at| self.all(at).len();
        let scheduler = &self.scheduler;
        assert_eq!(scheduler.preparing, count(At::Preparing), "{}", self.shows());
        assert_eq!(scheduler.asking, count(At::Asking), "{}", self.shows());
        assert_eq!(scheduler.running.len(), count(At::Running), "{}", self.shows());
        assert_eq!(scheduler.unfinished(), self.calls.len() - count(At::Done), "{}", self.shows());
        for (call, entry) in self.calls.iter().enumerate() {
            assert_eq!(scheduler.is_active(call), entry.at.begun(), "{call} of {}", self.shows());
        }
        let mut ready: Vec<usize> = scheduler.ready.iter().copied().collect();
        for (tool, limited) in &scheduler.limited {
            let here = self.all(At::Running).into_iter().filter(|call| self.calls[*call].tool == *tool);
            assert_eq!(limited.running, here.count(), "tool {tool}");
            ready.extend(&limited.ready);
        }
        ready.sort_unstable();
        assert_eq!(ready, self.all(At::Ready));
    }

    /// One letter a call: `.` waits, `p` is being prepared, `?` asks, `=` waits for a slot, `r` runs, `d` is
    /// done.
    fn shows(&self) -> String {
        let letter = |call: &Call| match call.at {
            At::Pushed => '.',
            At::Preparing => 'p',
            At::Asking => '?',
            At::Ready => '=',
            At::Running => 'r',
            At::Done => 'd',
        };
        self.calls.iter().map(letter).collect()
    }

    /// Runs everything to its end: what runs together is printed as a batch.
    fn batches(&mut self) -> String {
        let mut batches = Vec::new();
        loop {
            self.settle();
            let running = self.all(At::Running);
            if running.is_empty() {
                break;
            }
            let names: Vec<String> = running.iter().map(usize::to_string).collect();
            batches.push(format!("[{}]", names.join(" ")));
            running.into_iter().for_each(|call| self.finish(call));
        }
        assert!(self.calls.iter().all(|call| call.at == At::Done), "stuck: {}", self.shows());
        batches.join(" ")
    }
}

#[track_caller]
fn check(calls: &str, expected: &str) {
    assert_eq!(Machine::with(ConflictRule::Classes, 10, calls).batches(), expected, "{calls}");
}

#[track_caller]
fn check_effects(calls: &str, expected: &str) {
    assert_eq!(Machine::with(ConflictRule::Effects, 10, calls).batches(), expected, "{calls}");
}

#[test]
fn by_class_safe_neighbours_run_together_and_the_rest_alone() {
    check("", "");
    check("R", "[0]");
    check("W", "[0]");
    check("R R W R R", "[0 1] [2] [3 4]");
    check("W R", "[0] [1]");
    check("R W", "[0] [1]");
    check("W W W", "[0] [1] [2]");
    check("R W R W R", "[0] [1] [2] [3] [4]");
    check("R I R", "[0] [1] [2]");
    check("I I", "[0] [1]");
    // What is written doesn't matter here, only that something is.
    check("w(a) w(b) r(c)", "[0] [1] [2]");
}

#[test]
fn by_effects_only_what_overlaps_is_kept_apart() {
    check_effects("w(a) w(b) w(c)", "[0 1 2]");
    check_effects("w(a) w(a) w(a)", "[0] [1] [2]");
    check_effects("w(a) r(a) r(a)", "[0] [1 2]");
    check_effects("r(a) r(a) w(a)", "[0 1] [2]");
    check_effects("w(a) w(a) r(b)", "[0 2] [1]");
    check_effects("w(d) r(d/e/f) r(dd)", "[0 2] [1]");
    check_effects("r(d/e) w(d) w(d/e)", "[0] [1] [2]");
    check_effects("ws(x) rs(x) ws(y)", "[0 2] [1]");
    check_effects("R W R", "[0] [1] [2]");
    check_effects("w(a) I w(b)", "[0] [1] [2]");
    // A waiting write holds back those that conflict with it, and through it those that only conflict with
    // it.
    check_effects("w(a) w(a)+w(b) w(b) w(c)", "[0 3] [1] [2]");
    check_effects("r(a) w(a) r(a)", "[0] [1] [2]");
}

/// `[ln -s e d, write d/f, read e/f]`: the write was taken for one to `d/f`, because `d` wasn't a link when
/// somebody looked, so the read ran beside or before it.
#[test]
fn behind_a_call_that_touches_anything_nothing_is_taken_for_granted() {
    let mut machine = Machine::with(ConflictRule::Effects, 10, "W w(d/f) r(e/f) r(g)");
    machine.settle();
    machine.finish(0);
    machine.pump();
    assert_eq!(machine.shows(), "dp..", "nobody knows what 1 touches now");
    assert!(machine.reconsider(1, Foot::parse("w(d/f)+w(e/f)")));
    machine.settle();
    assert_eq!(machine.shows(), "dr..", "2 has to wait for 1, 3 until somebody looked at 2");
    machine.finish(1);
    assert_eq!(machine.batches(), "[2 3]");

    // Once looked at and found the same, it holds back what it conflicts with and no more.
    let mut machine = Machine::with(ConflictRule::Effects, 10, "W w(a) w(a) r(b)");
    machine.settle();
    machine.finish(0);
    machine.settle();
    assert_eq!(machine.shows(), "dr..");
    assert_eq!(machine.batches(), "[1] [2 3]");

    // A question is asked about what was just looked at.
    let mut machine = Machine::with(ConflictRule::Effects, 10, "W w(a) r(b)");
    machine.settle();
    machine.finish(0);
    machine.pump();
    machine.ask(1);
    machine.settle();
    assert_eq!(machine.shows(), "d?r");
    machine.authorize(1);
    assert_eq!(machine.batches(), "[1 2]");

    // One that never ran changed nothing.
    let mut machine = Machine::with(ConflictRule::Effects, 10, "I w(a) r(b)");
    machine.pump();
    machine.finish(0);
    machine.pump();
    assert_eq!(machine.shows(), "dpp");
    assert_eq!(machine.batches(), "[1 2]");
}

#[test]
fn the_cap_holds_and_slots_go_in_call_order() {
    let check = |rule, cap, calls: &str, expected: &str| {
        assert_eq!(Machine::with(rule, cap, calls).batches(), expected, "{calls} {cap}");
    };
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        check(rule, 2, "R R R R R", "[0 1] [2 3] [4]");
        check(rule, 1, "R R R", "[0] [1] [2]");
        check(rule, 3, "R R R R W R R R R", "[0 1 2] [3] [4] [5 6 7] [8]");
        check(
            rule,
            100,
            &"R ".repeat(100),
            &format!("[{}]", (0..100).map(|i| i.to_string()).collect::<Vec<_>>().join(" ")),
        );
    }
    // A cap of nothing would never finish; it counts as one.
    let mut machine = Machine::new(ConflictRule::Classes, 0);
    machine.cap = 1;
    machine.push_all("R R");
    assert_eq!(machine.batches(), "[0] [1]");
}

#[test]
fn a_limit_of_nothing_counts_as_one() {
    let mut machine = Machine::new(ConflictRule::Classes, 4);
    let batch = machine.batches[0].0;
    machine.scheduler.push(batch, Foot::default().footprint(ConflictRule::Classes), 3, Some(0));
    assert_eq!(machine.scheduler.step(), Some(SchedulerStep::Prepare(0)));
    assert!(machine.scheduler.authorize(0));
}

#[test]
fn not_too_many_are_prepared_at_once() {
    let mut machine = Machine::with(ConflictRule::Classes, 2, &"R ".repeat(PREPARING_MAX + 5));
    machine.pump();
    assert_eq!(machine.all(At::Preparing).len(), PREPARING_MAX);
    machine.ask(3);
    machine.authorize(4);
    machine.pump();
    assert_eq!(machine.all(At::Preparing).len(), PREPARING_MAX, "two more in their places");
    assert_eq!(machine.all(At::Pushed).len(), 3);
}

/// Two calls that both turned out wider waited for each other: the earlier one for the later one, which had
/// begun when it looked, and the later one for the earlier one when it was reconsidered itself.
#[test]
fn two_reconsidered_calls_do_not_wait_for_each_other() {
    let mut machine = Machine::with(ConflictRule::Effects, 10, "w(a) w(b) w(c)");
    machine.pump();
    assert!(!machine.reconsider(0, Foot::parse("w(a)+w(b)")), "1 has begun");
    assert!(!machine.reconsider(1, Foot::parse("w(b)+w(d)")), "0 comes first");
    machine.settle();
    assert_eq!(machine.shows(), "r.r");
    assert_eq!(machine.batches(), "[0 2] [1]");
}

/// One call runs all the time, the others come and go: the scheduler remembers as many as are there.
#[test]
fn ended_calls_are_forgotten() {
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let mut scheduler = Scheduler::new(rule, limits(4));
        let first = scheduler.open_batch();
        scheduler.push(first, Foot::parse("r(a)").footprint(rule), 1, Some(2));
        assert_eq!(scheduler.step(), Some(SchedulerStep::Prepare(0)));
        for call in 1..10_000 {
            let batch = scheduler.open_batch();
            let tool = call as u32 % 7;
            scheduler.push(batch, Foot::parse("r(a)+rs(b)").footprint(rule), tool, Some(3));
            scheduler.complete(batch);
            assert_eq!(scheduler.step(), Some(SchedulerStep::Prepare(call)));
            assert!(scheduler.authorize(call));
            scheduler.finish(call);
            assert_eq!((scheduler.unfinished(), scheduler.limited.len()), (1, 1));
        }
        assert!(scheduler.work < 200_000, "{}", scheduler.work);
    }
}
