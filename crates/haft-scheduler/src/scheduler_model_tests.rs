//! The machine against a model of it, on random calls and random events.
//!
//! The normal run tries a few hundred cases from a fixed seed; the `prove_` tests try many from a fresh one.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::*;

/// Runs a property this often: from a fixed seed, or from a fresh one for a proof.
fn each<S: Strategy>(cases: u32, strategy: S, property: impl Fn(S::Value)) {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    run(TestRunner::new_with_rng(config(cases), rng), strategy, property);
}

fn prove<S: Strategy>(cases: u32, strategy: S, property: impl Fn(S::Value)) {
    run(TestRunner::new(config(cases)), strategy, property);
}

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, ..Config::default() }
}

fn run<S: Strategy>(mut runner: TestRunner, strategy: S, property: impl Fn(S::Value)) {
    let outcome = runner.run(&strategy, |value| {
        property(value);
        Ok::<(), TestCaseError>(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Few places, so that calls meet; `calm` times as many touch nothing.
fn feet(calm: u32) -> impl Strategy<Value = Foot> {
    let one = prop_oneof![
        4 * calm => Just("R".to_owned()),
        1 => Just("W".to_owned()),
        3 => select(vec!["a", "b", "c", "a/x", "a/y", "aa"]).prop_map(|place| format!("r({place})")),
        4 => select(vec!["a", "b", "c", "a/x", "a/y", "aa"]).prop_map(|place| format!("w({place})")),
        1 => select(vec!["s", "t"]).prop_map(|name| format!("rs({name})")),
        1 => select(vec!["s", "t"]).prop_map(|name| format!("ws({name})")),
    ];
    prop_oneof![4 => one.clone(), 1 => (one.clone(), one).prop_map(|(a, b)| format!("{a}+{b}"))]
        .prop_map(|words| Foot::parse(&words))
}

/// The partition of the source document: consecutive safe calls are one batch, everything else is alone.
fn partition(safe: &[bool]) -> Vec<Vec<usize>> {
    let mut batches: Vec<(bool, Vec<usize>)> = Vec::new();
    for (call, is_safe) in safe.iter().copied().enumerate() {
        match batches.last_mut() {
            Some((true, batch)) if is_safe => batch.push(call),
            _ => batches.push((is_safe, vec![call])),
        }
    }
    batches.into_iter().map(|(_, batch)| batch).collect()
}

/// Calls as (safe, readable): what can't be read is never safe.
fn partition_cases() -> impl Strategy<Value = (Vec<(bool, bool)>, usize, Vec<Index>)> {
    let call = (proptest::bool::weighted(0.7), proptest::bool::weighted(0.9));
    (vec(call, 0..40), 1..12_usize, vec(any::<Index>(), 40))
}

fn equals_the_partition((calls, cap, order): (Vec<(bool, bool)>, usize, Vec<Index>)) {
    let safe: Vec<bool> = calls.iter().map(|(safe, readable)| *safe && *readable).collect();
    let words = |(safe, readable): &(bool, bool)| match (safe, readable) {
        (_, false) => "I",
        (true, true) => "R",
        (false, true) => "W",
    };
    let calls: Vec<&str> = calls.iter().map(words).collect();
    let mut machine = Machine::with(ConflictRule::Classes, cap, &calls.join(" "));
    let mut order = order.iter();
    for batch in partition(&safe) {
        let mut left = batch.clone();
        while !left.is_empty() {
            machine.settle();
            let running = machine.all(At::Running);
            // As many as may, of this batch and of no other, the earliest first.
            assert_eq!(running.len(), cap.min(left.len()), "{batch:?}: {}", machine.shows());
            assert!(running.iter().all(|call| left.contains(call)), "{batch:?}: {}", machine.shows());
            let ended = order.next().map_or(running[0], |index| *index.get(&running));
            machine.finish(ended);
            left.retain(|call| *call != ended);
        }
    }
    machine.settle();
    assert!(machine.calls.iter().all(|call| call.at == At::Done && call.ran), "{}", machine.shows());
}

#[test]
fn by_class_it_is_partition_then_gather() {
    each(300, partition_cases(), equals_the_partition);
}

#[test]
#[ignore = "prove"]
fn prove_by_class_it_is_partition_then_gather() {
    let cases = 200_000;
    prove(cases, partition_cases(), equals_the_partition);
    println!(
        "proof: rule `classes` equals partition-then-gather on {cases} random lists of up to 40 calls, random caps and finish orders"
    );
}

fn effect_cases() -> impl Strategy<Value = (Vec<Foot>, usize, Vec<Index>)> {
    (vec(feet(1), 1..24), 1..12_usize, vec(any::<Index>(), 64))
}

/// Each event at random: authorize something, or finish something. The machine compares each step; here the
/// whole history is looked at once more, without it.
fn keeps_conflicts_apart((feet, cap, order): (Vec<Foot>, usize, Vec<Index>)) {
    let mut machine = Machine::new(ConflictRule::Effects, cap);
    feet.iter().for_each(|foot| machine.push(foot.clone(), 1, None));
    machine.complete();
    let (mut started, mut ended) = (vec![usize::MAX; feet.len()], vec![usize::MAX; feet.len()]);
    let mut order = order.iter().cycle();
    for time in 0.. {
        machine.pump();
        for call in machine.all(At::Running) {
            started[call] = started[call].min(time);
        }
        let open: Vec<usize> =
            [At::Preparing, At::Running].into_iter().flat_map(|at| machine.all(at)).collect();
        if open.is_empty() {
            break;
        }
        let call = *order.next().expect("it goes round").get(&open);
        if machine.calls[call].at == At::Preparing {
            machine.authorize(call);
        } else {
            machine.finish(call);
            ended[call] = time;
        }
        // Started by being authorized rather than by a step: at the same moment.
        for call in machine.all(At::Running) {
            started[call] = started[call].min(time);
        }
    }
    for later in 0..feet.len() {
        assert_ne!(ended[later], usize::MAX, "{later} never ended: {}", machine.shows());
        for earlier in 0..later {
            if feet[earlier].conflicts(&feet[later]) {
                assert!(ended[earlier] < started[later], "{earlier} before {later}");
            }
        }
    }
}

#[test]
fn by_effects_conflicts_are_kept_apart_and_nothing_else_is() {
    each(300, effect_cases(), keeps_conflicts_apart);
}

#[test]
#[ignore = "prove"]
fn prove_by_effects_conflicts_are_kept_apart_and_nothing_else_is() {
    let cases = 60_000;
    prove(cases, effect_cases(), keeps_conflicts_apart);
    println!(
        "proof: rule `effects` keeps exactly the conflicting calls apart, in order, on {cases} random lists of up to 24 calls"
    );
}

#[derive(Debug, Clone)]
enum Event {
    Push(Foot, u32),
    /// Of all batches.
    Complete(Index),
    OpenBatch,
    Pump,
    /// Of those that are being prepared or asked about.
    Authorize(Index),
    /// Of those that are being prepared.
    Ask(Index),
    /// Of those that are being prepared or asked about.
    Reconsider(Index, Foot),
    /// Of those that run: it touches anything from now on.
    Widen(Index),
    /// Of those that run.
    Finish(Index),
    /// Of all, in whatever state.
    End(Index),
    /// A word from one that is done.
    Late(Index, u8),
}

fn events(calm: u32) -> impl Strategy<Value = Vec<Event>> {
    let index = any::<Index>;
    let event = prop_oneof![
        6 => (feet(calm), 0..3_u32).prop_map(|(foot, tool)| Event::Push(foot, tool)),
        1 => index().prop_map(Event::Complete),
        1 => Just(Event::OpenBatch),
        6 => Just(Event::Pump),
        6 => index().prop_map(Event::Authorize),
        3 => index().prop_map(Event::Ask),
        4 => (index(), feet(1)).prop_map(|(index, foot)| Event::Reconsider(index, foot)),
        2 => index().prop_map(Event::Widen),
        5 => index().prop_map(Event::Finish),
        2 => index().prop_map(Event::End),
        1 => (index(), 0..4_u8).prop_map(|(index, what)| Event::Late(index, what)),
    ];
    vec(event, 1..80)
}

/// By class most things conflict, so most calls are safe ones there.
fn event_cases() -> impl Strategy<Value = (ConflictRule, usize, Vec<Event>)> {
    prop_oneof![
        (Just(ConflictRule::Classes), 1..6_usize, events(10)),
        (Just(ConflictRule::Effects), 1..6_usize, events(1)),
    ]
}

/// Tool 1 may run twice at once, tool 2 once, tool 0 as often as it likes.
fn limit(tool: u32) -> Option<usize> {
    (tool > 0).then_some(3 - tool as usize)
}

fn survives((rule, cap, events): (ConflictRule, usize, Vec<Event>)) {
    let mut machine = Machine::new(rule, cap);
    let pick = |calls: Vec<usize>, index: Index| (!calls.is_empty()).then(|| *index.get(&calls));
    let both = |machine: &Machine| [machine.all(At::Preparing), machine.all(At::Asking)].concat();
    for event in events {
        match event {
            Event::Push(foot, tool) => machine.push(foot, tool, limit(tool)),
            Event::Complete(index) => machine.complete_batch(index.index(machine.batches.len())),
            Event::OpenBatch => machine.open_batch(),
            Event::Pump => machine.pump(),
            Event::Authorize(index) => {
                pick(both(&machine), index).into_iter().for_each(|call| machine.authorize(call));
            }
            Event::Ask(index) => {
                pick(machine.all(At::Preparing), index).into_iter().for_each(|call| machine.ask(call));
            }
            Event::Reconsider(index, foot) => {
                if let Some(call) = pick(both(&machine), index) {
                    machine.reconsider(call, foot);
                }
            }
            Event::Widen(index) => {
                if let Some(call) = pick(machine.all(At::Running), index) {
                    machine.reconsider(call, Foot { everything: true, ..Foot::default() });
                }
            }
            Event::Finish(index) => {
                pick(machine.all(At::Running), index).into_iter().for_each(|call| machine.finish(call));
            }
            Event::End(index) => {
                let all = (0..machine.calls.len()).collect();
                pick(all, index).into_iter().for_each(|call| machine.finish(call));
            }
            Event::Late(index, what) => {
                if let Some(call) = pick(machine.all(At::Done), index) {
                    match what {
                        0 => assert!(!machine.scheduler.authorize(call)),
                        1 => machine.scheduler.begin_asking(call),
                        2 => assert!(!machine.scheduler.finish(call)),
                        _ => assert!(machine.scheduler.reconsider(call, Foot::default().footprint(rule))),
                    }
                    machine.audit();
                }
            }
        }
    }
    machine.complete();
    machine.pump();
    // Whoever was asked says yes.
    machine.all(At::Asking).into_iter().for_each(|call| machine.authorize(call));
    machine.batches();
}

#[test]
fn the_machine_is_its_model_whatever_happens() {
    each(800, event_cases(), survives);
}

#[test]
#[ignore = "prove"]
fn prove_the_machine_is_its_model_whatever_happens() {
    let cases = 60_000;
    prove(cases, event_cases(), survives);
    println!(
        "proof: after every event of {cases} random sequences of up to 80 (push, authorize, ask, reconsider, finish, late words) the scheduler's next step, counters and slots are those of a model that compares all calls with all"
    );
}

/// What the machine does for many calls, driven to the end by a caller that finishes them in order.
struct Drive {
    scheduler: Scheduler,
    batch: BatchId,
    running: std::collections::VecDeque<usize>,
    asking: Vec<usize>,
}

impl Drive {
    fn new(rule: ConflictRule) -> Drive {
        let mut scheduler = Scheduler::new(rule, limits(10));
        let batch = scheduler.open_batch();
        Drive { scheduler, batch, running: Default::default(), asking: Vec::new() }
    }

    /// Takes all steps; `asks` says which calls ask before they run.
    fn go(&mut self, asks: &dyn Fn(usize) -> bool) {
        while let Some(step) = self.scheduler.step() {
            match step {
                SchedulerStep::Prepare(call) if asks(call) => {
                    self.scheduler.begin_asking(call);
                    self.asking.push(call);
                }
                SchedulerStep::Prepare(call) => {
                    if self.scheduler.authorize(call) {
                        self.running.push_back(call);
                    }
                }
                SchedulerStep::Run(call) => self.running.push_back(call),
            }
        }
    }

    /// Runs to the end; those that ask say yes when nobody else can go on. Returns how many calls ended.
    fn finish(&mut self, asks: &dyn Fn(usize) -> bool) -> usize {
        let mut ended = 0;
        loop {
            self.go(asks);
            if let Some(call) = self.running.pop_front() {
                self.scheduler.finish(call);
                ended += 1;
            } else if let Some(call) = self.asking.pop() {
                if self.scheduler.authorize(call) {
                    self.running.push_back(call);
                }
            } else {
                return ended;
            }
        }
    }
}

type Feet = fn(usize) -> String;
type Asks = fn(usize) -> bool;

/// Many calls of one kind: what each touches, and which of them ask first.
const CROWDS: [(&str, Feet, Asks); 12] = [
    ("all touch anything", |_| "W".into(), |_| false),
    ("all write one thing", |_| "ws(a)".into(), |_| false),
    ("reads and writes of one thing in turn", |call| format!("{}s(a)", ["r", "w"][call % 2]), |_| false),
    ("safe and unsafe in turn", |call| ["R", "W"][call % 2].into(), |_| false),
    ("writes of two things in turn", |call| format!("ws({})", call % 2), |_| false),
    ("all read one thing", |_| "rs(a)".into(), |_| false),
    ("all write different things", |call| format!("ws({call})"), |_| false),
    ("all write different files of one folder", |call| format!("w(d/{call})"), |_| false),
    (
        "all behind one that asks",
        |call| format!("{}s(a)", if call == 0 { "w" } else { "r" }),
        |call| call == 0,
    ),
    (
        "all beneath one that asks",
        |call| if call == 0 { "w(d)".into() } else { format!("w(d/{call})") },
        |call| call == 0,
    ),
    (
        "half behind one that asks, half not",
        |call| if call < 5_000 { "rs(a)+ws(a)".into() } else { format!("ws({call})") },
        |call| call == 0,
    ),
    ("all ask", |_| "R".into(), |_| true),
];

/// How much work each call is, on average.
fn work_per_call(rule: ConflictRule, calls: usize, foot: Feet, asks: Asks) -> f64 {
    let mut drive = Drive::new(rule);
    for call in 0..calls {
        drive.scheduler.push(drive.batch, Foot::parse(&foot(call)).footprint(rule), 1, None);
    }
    drive.scheduler.complete(drive.batch);
    assert_eq!(drive.finish(&asks), calls);
    drive.scheduler.work as f64 / calls as f64
}

#[test]
fn the_work_for_a_call_does_not_grow_with_their_number() {
    for (name, foot, asks) in CROWDS {
        let work = work_per_call(ConflictRule::Classes, 10_000, foot, asks);
        assert!(work < 30.0, "{name}: {work} for each call");
        // Effects are compared with those of each unfinished call, and with each of them once.
        let calls = 1_000;
        let work = work_per_call(ConflictRule::Effects, calls, foot, asks);
        assert!(work < 30.0 + calls as f64, "{name}: {work} for each call");
    }
}

#[test]
fn calls_that_ask_hold_back_no_others() {
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let mut drive = Drive::new(rule);
        for _ in 0..10_000 {
            drive.scheduler.push(drive.batch, Foot::parse("rs(a)").footprint(rule), 1, None);
        }
        drive.go(&|_| true);
        assert_eq!(drive.asking.len(), 10_000);
    }
}

#[test]
fn a_limit_on_a_tool_costs_no_more() {
    let calls = 10_000;
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let mut drive = Drive::new(rule);
        for call in 0..calls {
            // One of two conflicting states at a time, so that footprints cost little here.
            let foot = if rule == ConflictRule::Classes { "R".into() } else { format!("ws({})", call % 2) };
            drive.scheduler.push(
                drive.batch,
                Foot::parse(&foot).footprint(rule),
                1 + call as u32 % 2,
                (call % 2 == 0).then_some(1),
            );
        }
        drive.scheduler.complete(drive.batch);
        assert_eq!(drive.finish(&|_| false), calls);
        let work = drive.scheduler.work as f64 / calls as f64;
        assert!(work < 20.0, "{rule:?}: {work} for each call");
    }
}

#[test]
fn a_long_message_costs_no_more_while_it_streams() {
    let calls = 10_000;
    for rule in [ConflictRule::Classes, ConflictRule::Effects] {
        let mut drive = Drive::new(rule);
        for _ in 0..calls {
            drive.scheduler.push(drive.batch, Foot::parse("ws(a)").footprint(rule), 1, None);
            drive.go(&|_| false);
        }
        assert_eq!(drive.running.len(), 0);
        drive.scheduler.complete(drive.batch);
        assert_eq!(drive.finish(&|_| false), calls);
        let work = drive.scheduler.work as f64 / calls as f64;
        assert!(work < 20.0, "{rule:?}: {work} for each call");
    }
}
