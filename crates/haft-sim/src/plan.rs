//! What a seed means: the model's script, how the session is set up, and which faults come when.

use std::time::Duration;

use haft_journal::Durability;
use haft_provider::Wire;
use haft_provider::scripted::Script;
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::disk::{Death, Trouble};

/// A bug that is put in on purpose: the checks have to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bug {
    /// Calls start though nothing was noted of them.
    IntentNotWritten,
    /// A result is said to be noted, and isn't.
    OutcomeDropped,
    /// The disk says that something is safe, and it isn't.
    SyncLies,
    /// A call that finished before the crash is run again after it.
    FinishedRunAgain,
    /// A call of unknown outcome is run again after a crash, without a word.
    UnknownRunAgain,
    /// The results of a message are kept twice.
    AnsweredTwice,
    /// Rules that fail allow.
    RulesFailOpen,
    /// A hook that fails, or takes too long, lets the call go on.
    HooksFailOpen,
    /// What the user said no to is run.
    NoMeansYes,
    /// A tool's work goes on when everything has ended.
    TaskLeft,
    /// A file is left where results are kept.
    FileLeft,
    /// The words of a panic get to the model.
    PanicText,
    /// A result as long as it likes.
    Unbounded,
    /// Something is written outside of the session's folder.
    WritesOutside,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 14] = [
        Bug::IntentNotWritten,
        Bug::OutcomeDropped,
        Bug::SyncLies,
        Bug::FinishedRunAgain,
        Bug::UnknownRunAgain,
        Bug::AnsweredTwice,
        Bug::RulesFailOpen,
        Bug::HooksFailOpen,
        Bug::NoMeansYes,
        Bug::TaskLeft,
        Bug::FileLeft,
        Bug::PanicText,
        Bug::Unbounded,
        Bug::WritesOutside,
    ];
}

/// The tools that a scripted model may call.
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

/// What a seed means.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) wire: Wire,
    pub(crate) durability: Durability,
    pub(crate) script: Script,
    pub(crate) effects_rule: bool,
    pub(crate) stop_siblings: bool,
    pub(crate) cap: usize,
    pub(crate) budget_chars: usize,
    /// One for each process but the last, which lives.
    pub(crate) lives: Vec<Life>,
}

/// What happens to one process of the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// It dies with this operation of the journal, before or after it was done.
    pub(crate) dies: Option<(u64, bool, Death)>,
    /// It dies at this time, if it still runs.
    pub(crate) dies_at: Option<Duration>,
    /// The user interrupts, and again.
    pub(crate) interrupts: Option<(Duration, Duration)>,
    /// The user says something meanwhile.
    pub(crate) says: Option<Duration>,
    /// The disk is in trouble from this operation of the journal on, for so many.
    pub(crate) disk: Option<(u64, u64, Trouble)>,
    /// Nothing can be kept in the folder of results.
    pub(crate) no_results: bool,
    /// The server's tools go away at this time.
    pub(crate) server_gone: Option<Duration>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut dice = Dice::of(seed, &["plan"]);
        let wire = dice.pick(&Wire::ALL);
        let durability =
            dice.weighted(&[(6, Durability::Batch), (2, Durability::Call), (2, Durability::Off)]);
        let deaths = dice.weighted(&[(4, 0_usize), (5, 1), (2, 2), (1, 3)]);
        let lives = (0..=deaths).map(|at| Life::of(seed, at, at < deaths, durability)).collect();
        Plan {
            wire,
            durability,
            script: script(seed),
            effects_rule: dice.chance(50),
            stop_siblings: dice.chance(25),
            cap: usize::try_from(dice.roll(6) + 1).unwrap_or(1),
            budget_chars: dice.pick(&[4_000, 20_000, 400_000]),
            lives,
        }
    }
}

impl Life {
    fn of(seed: u64, at: usize, dies: bool, durability: Durability) -> Life {
        let mut dice = Dice::of(seed, &["life", &at.to_string()]);
        // Where nothing is ever synced, a power failure may take anything.
        let death = match durability {
            Durability::Off => Death::Killed,
            _ => dice.pick(&[Death::Killed, Death::PowerCut]),
        };
        let by_operation = dice.chance(70);
        let operation = dice.roll(if at == 0 { 60 } else { 25 }) + 1;
        let before = dice.chance(50);
        let time = |dice: &mut Dice, most: u64| Duration::from_millis(dice.roll(most));
        let dies_at = time(&mut dice, 30_000);
        Life {
            dies: (dies && by_operation).then_some((operation, before, death)),
            dies_at: (dies && !by_operation).then_some(dies_at),
            interrupts: dice.chance(25).then(|| (time(&mut dice, 20_000), time(&mut dice, 3_000))),
            says: dice.chance(20).then(|| time(&mut dice, 20_000)),
            disk: dice.chance(30).then(|| {
                let trouble =
                    dice.weighted(&[(5, Trouble::Full), (2, Trouble::Broken), (2, Trouble::NoSync)]);
                (dice.roll(40) + 1, dice.roll(12) + 1, trouble)
            }),
            no_results: dice.chance(12),
            server_gone: dice.chance(20).then(|| time(&mut dice, 10_000)),
        }
    }
}

/// The mark of a call: where it stands. Every call has another.
pub(crate) fn mark(turn: usize, call: usize) -> String {
    format!("m{turn}c{call}z")
}

fn script(seed: u64) -> Script {
    let mut dice = Dice::of(seed, &["script"]);
    let turns = dice.roll(5) + 1;
    let mut said: Vec<Value> = (0..usize::try_from(turns).unwrap_or(1)).map(|at| turn(seed, at)).collect();
    // Whatever happens there is something left to say: words of the user and interrupts make more turns.
    said.extend((0..12).map(|_| json!({"text": "That is all."})));
    let text = json!({ "turns": said }).to_string();
    Script::parse(&text).unwrap_or_else(|error| panic!("the simulator made a bad script: {error}\n{text}"))
}

fn turn(seed: u64, at: usize) -> Value {
    let mut dice = Dice::of(seed, &["turn", &at.to_string()]);
    let calls = dice.weighted(&[(1, 0_usize), (4, 1), (4, 2), (4, 3), (3, 5), (1, 9)]);
    let mut turn = json!({});
    if dice.chance(50) || calls == 0 {
        turn["text"] = "I look at it.".into();
    }
    let calls: Vec<Value> = (0..calls).map(|call| made(seed, at, call)).collect();
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

fn made(seed: u64, turn: usize, call: usize) -> Value {
    let mark = mark(turn, call);
    let mut dice = Dice::of(seed, &["call", &mark]);
    let name = dice.weighted(&TOOLS);
    match dice.roll(30) {
        0 => json!({"name": name, "id": mark, "raw_input": "{\"t\": "}),
        1 => json!({"name": name, "id": mark, "input": {"t": 7}}),
        _ => json!({"name": name, "id": mark, "input": {"t": mark, "v": dice.roll(3)}}),
    }
}
