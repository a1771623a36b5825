//! Observations of the simulation: which tools ran, what was allowed, what was recorded. They
//! outlive every process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::sync::lock;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::faulty_disk::{FaultyDisk, ProcessDeath};
use crate::seeded_dice::SeededDice;
use crate::simulation_plan::{PlantedBug, SimulationPlan};

/// The maximum length of a trace. Longer traces indicate an endless loop.
const TRACE_LINES_MAX: usize = 20_000;

/// The result of a simulation.
#[derive(Debug, Clone, Default)]
pub struct SimulationReport {
    /// The seed.
    pub seed: u64,
    /// All events, one line each.
    pub trace: Vec<String>,
    /// The violated invariants.
    pub violations: Vec<String>,
    /// How often each kind of event happened.
    pub counts: EventCounts,
}

impl SimulationReport {
    /// Returns the trace as text, followed by the violations.
    pub fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        for line in &self.trace {
            text.push_str(&format!("  {line}\n"));
        }
        if self.violations.is_empty() {
            text.push_str("all invariants hold\n")
        } else {
            self.violations.iter().for_each(|line| text.push_str(&format!("BROKEN {line}\n")))
        }
        text
    }
}

/// Counts of events. A simulation without faults proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventCounts {
    /// Calls with a result in the conversation.
    pub answered: u64,
    /// Tools that started.
    pub started: u64,
    /// Started tools with side effects.
    pub changed: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Calls whose finished result another process recovered.
    pub taken: u64,
    /// Calls whose outcome was unknown to the next process.
    pub unknown: u64,
    /// Failed operations of the journal.
    pub journal_failures: u64,
    /// Calls that did not run because they could not be recorded.
    pub not_recorded: u64,
    /// Calls that were denied, blocked, or stopped by a failed hook.
    pub refused: u64,
    /// Tools that panicked.
    pub panics: u64,
    /// Calls that timed out.
    pub timeouts: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Results that were partly written to a file.
    pub offloaded: u64,
}

impl EventCounts {
    /// Adds the counts of another simulation.
    pub fn add(&mut self, other: &EventCounts) {
        for (sum, more) in [
            (&mut self.answered, other.answered),
            (&mut self.started, other.started),
            (&mut self.changed, other.changed),
            (&mut self.deaths, other.deaths),
            (&mut self.taken, other.taken),
            (&mut self.unknown, other.unknown),
            (&mut self.journal_failures, other.journal_failures),
            (&mut self.not_recorded, other.not_recorded),
            (&mut self.refused, other.refused),
            (&mut self.panics, other.panics),
            (&mut self.timeouts, other.timeouts),
            (&mut self.cancelled, other.cancelled),
            (&mut self.offloaded, other.offloaded),
        ] {
            *sum += more;
        }
    }
}

/// The tool runs of one call.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolRun {
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) changes: bool,
    pub(crate) starts: u32,
    /// The tool returned by itself.
    pub(crate) completed: bool,
    /// The process of the last start.
    pub(crate) process: u32,
}

/// The simulated world. Clones share one state.
#[derive(Clone)]
pub(crate) struct SimulatedWorld(pub(crate) Arc<WorldInner>);

pub(crate) struct WorldInner {
    pub(crate) seed: u64,
    pub(crate) bug: Option<PlantedBug>,
    pub(crate) plan: SimulationPlan,
    pub(crate) disk: FaultyDisk,
    pub(crate) root: PathBuf,
    /// Signals that the process must die now.
    pub(crate) death_notice: Notify,
    state: Mutex<Observations>,
}

#[derive(Default)]
pub(crate) struct Observations {
    pub(crate) process: u32,
    pub(crate) trace: Vec<String>,
    pub(crate) violations: Vec<String>,
    pub(crate) counts: EventCounts,
    began: Option<Instant>,
    /// The virtual time before this process.
    before: Duration,
    pub(crate) tool_runs: BTreeMap<String, ToolRun>,
    /// The number of tools that run now.
    pub(crate) running_tools: usize,
    /// Calls that must not start in this process, with the reason.
    pub(crate) barred_calls: BTreeMap<String, &'static str>,
    /// Inputs that the user approved, as they were shown.
    pub(crate) approved: Vec<(String, Value)>,
    /// The number of journal operations in this process.
    pub(crate) operations: u64,
    /// Results that the journal accepted, with the length of the file at that time.
    pub(crate) recorded_outcomes: BTreeMap<String, usize>,
    /// Result files that a result referenced.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Notices to models about calls with unknown outcome.
    pub(crate) resume_notes: String,
    pub(crate) dead: bool,
    /// The processes that died.
    pub(crate) deaths: BTreeSet<u32>,
}

impl SimulatedWorld {
    pub(crate) fn new(seed: u64, bug: Option<PlantedBug>, root: PathBuf) -> SimulatedWorld {
        let plan = SimulationPlan::from_seed(seed);
        let disk = FaultyDisk::default();
        if bug == Some(PlantedBug::SyncLies) {
            disk.drop_all_syncs();
        }
        SimulatedWorld(Arc::new(WorldInner {
            seed,
            bug,
            plan,
            disk,
            root,
            death_notice: Notify::new(),
            state: Mutex::default(),
        }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, Observations> {
        lock(&self.0.state)
    }

    pub(crate) fn has_bug(&self, bug: PlantedBug) -> bool {
        self.0.bug == Some(bug)
    }

    /// Starts another process; the virtual time continues.
    pub(crate) fn begin_process(&self) -> u32 {
        let mut state = self.state();
        state.process += 1;
        state.began = Some(Instant::now());
        (state.dead, state.operations) = (false, 0);
        state.barred_calls.clear();
        state.approved.clear();
        state.process
    }

    /// Ends the current process.
    pub(crate) fn end_process(&self) {
        let mut state = self.state();
        if let Some(began) = state.began.take() {
            state.before += began.elapsed();
        }
    }

    /// Appends an event to the trace.
    pub(crate) fn log(&self, what: impl AsRef<str>) {
        let mut state = self.state();
        if state.trace.len() >= TRACE_LINES_MAX || (state.dead && !what.as_ref().starts_with("dies")) {
            return;
        }
        let time = state.before + state.began.map(|began| began.elapsed()).unwrap_or_default();
        let line = format!("{:>9.3} p{} {}", time.as_secs_f64(), state.process, what.as_ref());
        state.trace.push(line);
    }

    /// Records a violated invariant.
    pub(crate) fn report_violation(&self, which: &str, what: impl AsRef<str>) {
        let what = format!("{which}: {}", what.as_ref());
        self.log(format!("!! {what}"));
        let mut state = self.state();
        if state.violations.len() < 20 && !state.violations.contains(&what) {
            state.violations.push(what);
        }
    }

    /// Records that a tool starts for a call.
    pub(crate) fn start_tool(&self, mark: &str, tool: &str, input: &Value, changes: bool) -> RunningTool {
        let starts = {
            let mut state = self.state();
            state.running_tools += 1;
            state.counts.started += 1;
            state.counts.changed += u64::from(changes);
            let process = state.process;
            let run = state.tool_runs.entry(mark.to_owned()).or_default();
            (run.tool, run.input, run.changes) = (tool.to_owned(), input.clone(), changes);
            (run.starts, run.process) = (run.starts + 1, process);
            run.starts
        };
        self.log(format!("{tool} {mark} begins"));
        crate::invariants::check_tool_start(self, mark, tool, input, changes, starts);
        RunningTool { world: self.clone(), mark: mark.to_owned(), completed: false }
    }

    /// Kills the process: whatever its code still does has no effect.
    pub(crate) fn kill_process(&self, death: ProcessDeath) {
        let process = {
            let mut state = self.state();
            if std::mem::replace(&mut state.dead, true) {
                return;
            }
            state.counts.deaths += 1;
            let process = state.process;
            state.deaths.insert(process);
            state.process.to_string()
        };
        let part = SeededDice::for_decision(self.0.seed, &["death", &process]).roll(1_001);
        let mut dice = SeededDice::for_decision(self.0.seed, &["hole", &process]);
        let hole = if dice.chance(30) { (dice.roll(1_001), dice.roll(1_001)) } else { (0, 0) };
        let kept_bytes = self.0.disk.crash(death, part, hole);
        self.log(format!("dies: {death:?}"));
        self.state().recorded_outcomes.retain(|_, length| *length <= kept_bytes);
        self.0.death_notice.notify_one();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Blocks forever if the process is dead but not yet dropped.
    pub(crate) async fn hang_if_dead(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// A running tool; dropping it ends the run.
pub(crate) struct RunningTool {
    world: SimulatedWorld,
    mark: String,
    completed: bool,
}

impl RunningTool {
    /// Marks the run as completed by the tool itself.
    pub(crate) fn complete(&mut self) {
        if self.world.is_dead() {
            return;
        }
        self.completed = true;
        if let Some(run) = self.world.state().tool_runs.get_mut(&self.mark) {
            run.completed = true;
        }
    }
}

impl Drop for RunningTool {
    fn drop(&mut self) {
        self.world.state().running_tools -= 1;
        self.world.log(format!("{} {}", self.mark, if self.completed { "has ended" } else { "was dropped" }));
    }
}
