//! The plan that a seed determines: the model's script, the session's settings, and the faults.

use std::time::Duration;

use haft_journal::Durability;
use haft_provider::Wire;
use haft_provider::scripted::ModelScript;
use serde_json::{Value, json};

use crate::faulty_disk::{DiskFault, ProcessDeath};
use crate::seeded_dice::SeededDice;

/// A bug that is planted on purpose. The invariant checks must find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlantedBug {
    /// Calls start without an intent record.
    IntentNotWritten,
    /// The outcome of a call is reported as recorded and isn't.
    OutcomeDropped,
    /// fsync reports success without effect.
    SyncLies,
    /// A call that finished before the crash runs again.
    FinishedRunAgain,
    /// A call with unknown outcome runs again without notice.
    UnknownRunAgain,
    /// The results of a message are recorded twice.
    AnsweredTwice,
    /// A failure of the rules allows the call.
    RulesFailOpen,
    /// A failed hook or a hook timeout lets the call continue.
    HooksFailOpen,
    /// A call that the user rejected runs.
    NoMeansYes,
    /// A task of a tool outlives the session.
    TaskLeft,
    /// A file remains in the results directory.
    FileLeft,
    /// A panic message reaches the model.
    PanicText,
    /// A result has no size limit.
    Unbounded,
    /// A tool writes outside of the session's directory.
    WritesOutside,
}

impl PlantedBug {
    /// All planted bugs.
    pub const ALL: [PlantedBug; 14] = [
        PlantedBug::IntentNotWritten,
        PlantedBug::OutcomeDropped,
        PlantedBug::SyncLies,
        PlantedBug::FinishedRunAgain,
        PlantedBug::UnknownRunAgain,
        PlantedBug::AnsweredTwice,
        PlantedBug::RulesFailOpen,
        PlantedBug::HooksFailOpen,
        PlantedBug::NoMeansYes,
        PlantedBug::TaskLeft,
        PlantedBug::FileLeft,
        PlantedBug::PanicText,
        PlantedBug::Unbounded,
        PlantedBug::WritesOutside,
    ];
}

/// The tools that a scripted model may call, with weights.
pub(crate) const TOOLS: [(u64, &str); 11] = [
    (24, "look"),
    (18, "write"),
    (8, "shared"),
    (8, "state"),
    (6, "anything"),
    (6, "remote"),
    (7, "asks"),
    (4, "forbidden"),
    (5, "delegate"),
    (4, "outside"),
    (2, "nothing_like_this"),
];

/// The plan of a seed.
#[derive(Debug)]
pub(crate) struct SimulationPlan {
    pub(crate) wire: Wire,
    pub(crate) durability: Durability,
    pub(crate) script: ModelScript,
    pub(crate) effects_rule: bool,
    pub(crate) stop_siblings: bool,
    pub(crate) max_concurrency: usize,
    pub(crate) budget_chars: usize,
    /// One plan per process; every process but the last dies.
    pub(crate) processes: Vec<ProcessPlan>,
}

/// The faults and external events of one process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessPlan {
    /// The process dies at this journal operation, before it (`true`) or after it.
    pub(crate) death_operation: Option<(u64, bool, ProcessDeath)>,
    /// The process dies at this time if it still runs.
    pub(crate) death_time: Option<Duration>,
    /// The time of the user's interrupt, and the delay until the second one.
    pub(crate) interrupt_delays: Option<(Duration, Duration)>,
    /// The time of a user message during the run.
    pub(crate) user_message_at: Option<Duration>,
    /// The first journal operation with a disk fault, the number of such operations, and the fault.
    pub(crate) disk_fault: Option<(u64, u64, DiskFault)>,
    /// The results directory can't be written.
    pub(crate) offload_fails: bool,
    /// The time when the server's tools disappear.
    pub(crate) server_gone_at: Option<Duration>,
}

impl SimulationPlan {
    pub(crate) fn from_seed(seed: u64) -> SimulationPlan {
        let mut dice = SeededDice::for_decision(seed, &["plan"]);
        let wire = dice.pick(&Wire::ALL);
        let durability =
            dice.pick_weighted(&[(6, Durability::Batch), (2, Durability::Call), (2, Durability::Off)]);
        let deaths = dice.pick_weighted(&[(4, 0_usize), (5, 1), (2, 2), (1, 3)]);
        let processes =
            (0..=deaths).map(|at| ProcessPlan::from_seed(seed, at, at < deaths, durability)).collect();
        SimulationPlan {
            wire,
            durability,
            script: build_script(seed),
            effects_rule: dice.chance(50),
            stop_siblings: dice.chance(25),
            max_concurrency: usize::try_from(dice.roll(6) + 1).unwrap_or(1),
            budget_chars: dice.pick(&[4_000, 20_000, 400_000]),
            processes,
        }
    }
}

impl ProcessPlan {
    fn from_seed(seed: u64, at: usize, dies: bool, durability: Durability) -> ProcessPlan {
        let mut dice = SeededDice::for_decision(seed, &["life", &at.to_string()]);
        // Without any fsync, a power failure may lose everything.
        let death = match durability {
            Durability::Off => ProcessDeath::Killed,
            _ => dice.pick(&[ProcessDeath::Killed, ProcessDeath::PowerCut]),
        };
        let by_operation = dice.chance(70);
        let operation = dice.roll(if at == 0 { 60 } else { 25 }) + 1;
        let before = dice.chance(50);
        let time = |dice: &mut SeededDice, most: u64| Duration::from_millis(dice.roll(most));
        let death_time = time(&mut dice, 30_000);
        ProcessPlan {
            death_operation: (dies && by_operation).then_some((operation, before, death)),
            death_time: (dies && !by_operation).then_some(death_time),
            interrupt_delays: dice.chance(25).then(|| (time(&mut dice, 20_000), time(&mut dice, 3_000))),
            user_message_at: dice.chance(20).then(|| time(&mut dice, 20_000)),
            disk_fault: dice.chance(30).then(|| {
                let trouble = dice.pick_weighted(&[
                    (5, DiskFault::Full),
                    (2, DiskFault::Broken),
                    (2, DiskFault::NoSync),
                ]);
                (dice.roll(40) + 1, dice.roll(12) + 1, trouble)
            }),
            offload_fails: dice.chance(12),
            server_gone_at: dice.chance(20).then(|| time(&mut dice, 10_000)),
        }
    }
}

/// Returns the mark of a call, which identifies its turn and position.
pub(crate) fn call_mark(turn: usize, call: usize) -> String {
    format!("m{turn}c{call}z")
}

fn build_script(seed: u64) -> ModelScript {
    let mut dice = SeededDice::for_decision(seed, &["script"]);
    let turns = dice.roll(5) + 1;
    let mut turns_json: Vec<Value> =
        (0..usize::try_from(turns).unwrap_or(1)).map(|at| scripted_turn(seed, at)).collect();
    // User messages and interrupts cause additional turns; the script has enough replies for them.
    turns_json.extend((0..12).map(|_| json!({"text": "That is all."})));
    let text = json!({ "turns": turns_json }).to_string();
    ModelScript::parse(&text)
        .unwrap_or_else(|error| panic!("the simulator made a bad script: {error}\n{text}"))
}

fn scripted_turn(seed: u64, at: usize) -> Value {
    let mut dice = SeededDice::for_decision(seed, &["turn", &at.to_string()]);
    let calls = dice.pick_weighted(&[(1, 0_usize), (4, 1), (4, 2), (4, 3), (3, 5), (1, 9)]);
    let mut turn = json!({});
    if dice.chance(50) || calls == 0 {
        turn["text"] = "I look at it.".into();
    }
    let calls: Vec<Value> = (0..calls).map(|call| scripted_call(seed, at, call)).collect();
    if !calls.is_empty() {
        turn["tool_calls"] = calls.into();
    }
    turn["stream"] = json!({"chunk_chars": dice.roll(30) + 1, "chunk_delay_ms": dice.pick(&[0, 0, 20, 400])});
    if dice.chance(15) {
        turn["delay_ms"] = dice.roll(4_000).into();
    }
    if dice.chance(20) {
        let times = dice.roll(3) + 1;
        turn["error"] = match dice.roll(3) {
            0 => json!({"disconnect": true, "after_events": dice.roll(12) + 1, "times": times}),
            1 => json!({"status": 529, "type": "overloaded_error", "times": times}),
            _ => json!({"disconnect": true, "times": times}),
        };
    } else if dice.chance(8) {
        turn["stop"] = dice.pick(&["max_tokens", "pause_turn", "tool_calls"]).into();
    }
    turn
}

fn scripted_call(seed: u64, turn: usize, call: usize) -> Value {
    let mark = call_mark(turn, call);
    let mut dice = SeededDice::for_decision(seed, &["call", &mark]);
    let name = dice.pick_weighted(&TOOLS);
    match dice.roll(30) {
        0 => json!({"name": name, "id": mark, "raw_input": "{\"t\": "}),
        1 => json!({"name": name, "id": mark, "input": {"t": 7}}),
        _ => json!({"name": name, "id": mark, "input": {"t": mark, "v": dice.roll(3)}}),
    }
}
