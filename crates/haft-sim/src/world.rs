//! What the simulated world saw: which work was begun, who allowed it, what was noted. It outlives every process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::sync::lock;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::disk::{Death, FaultyDisk};
use crate::plan::{Bug, Plan};

/// The most lines of a trace: no story is longer, unless something goes round in circles.
const LINES_MAX: usize = 20_000;

/// What came of a seed.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The seed.
    pub seed: u64,
    /// Everything that happened, a line each.
    pub trace: Vec<String>,
    /// The invariants that did not hold, in words.
    pub broken: Vec<String>,
    /// What there was of what.
    pub tally: Tally,
}

impl Story {
    /// The story as text, with what is wrong at its end.
    pub fn text(&self) -> String {
        let mut text = format!("seed {}\n", self.seed);
        for line in &self.trace {
            text.push_str(&format!("  {line}\n"));
        }
        match self.broken.is_empty() {
            true => text.push_str("all invariants hold\n"),
            false => self.broken.iter().for_each(|line| text.push_str(&format!("BROKEN {line}\n"))),
        }
        text
    }
}

/// How much of what happened: a simulator in which nothing goes wrong proves nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Calls with a result in the conversation.
    pub answered: u64,
    /// Tools that began their work.
    pub started: u64,
    /// Of those, which could change something.
    pub changed: u64,
    /// Processes that died.
    pub deaths: u64,
    /// Calls that another process took up as finished.
    pub taken: u64,
    /// Calls whose outcome was unknown to the next process.
    pub unknown: u64,
    /// Operations of the journal that failed.
    pub journal_failures: u64,
    /// Calls that were not run because they could not be recorded.
    pub not_recorded: u64,
    /// Calls that were denied, blocked, or stopped by a hook that failed.
    pub refused: u64,
    /// Tools that panicked.
    pub panics: u64,
    /// Calls that ran into their time limit.
    pub timeouts: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Results of which a part is in a file.
    pub offloaded: u64,
}

impl Tally {
    /// Adds another story's.
    pub fn add(&mut self, other: &Tally) {
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

/// Work that was begun for a call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ran {
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) changes: bool,
    pub(crate) starts: u32,
    /// It came to its own end.
    pub(crate) ended: bool,
    /// The process in which it began last.
    pub(crate) process: u32,
}

/// The world. Clones are the same one.
#[derive(Clone)]
pub(crate) struct World(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) seed: u64,
    pub(crate) bug: Option<Bug>,
    pub(crate) plan: Plan,
    pub(crate) disk: FaultyDisk,
    pub(crate) root: PathBuf,
    /// Somebody has to die now.
    pub(crate) died: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) process: u32,
    pub(crate) trace: Vec<String>,
    pub(crate) broken: Vec<String>,
    pub(crate) tally: Tally,
    began: Option<Instant>,
    /// What was lived before this process.
    before: Duration,
    pub(crate) ran: BTreeMap<String, Ran>,
    /// Tools that work now.
    pub(crate) alive: usize,
    /// Calls that must not begin in this process, and why.
    pub(crate) barred: BTreeMap<String, &'static str>,
    /// What the user said yes to, as it was shown.
    pub(crate) approved: Vec<(String, Value)>,
    /// Operations of the journal in this process.
    pub(crate) operations: u64,
    /// Results that the journal took, and how long the file was then.
    pub(crate) noted: BTreeMap<String, usize>,
    /// Files of results that somebody was told of.
    pub(crate) files: BTreeSet<PathBuf>,
    /// What models were told of work whose outcome nobody knows.
    pub(crate) told: String,
    pub(crate) dead: bool,
    /// The processes that died.
    pub(crate) deaths: BTreeSet<u32>,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>, root: PathBuf) -> World {
        let plan = Plan::of(seed);
        let disk = FaultyDisk::default();
        if bug == Some(Bug::SyncLies) {
            disk.lie();
        }
        World(Arc::new(Inner { seed, bug, plan, disk, root, died: Notify::new(), state: Mutex::default() }))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.0.bug == Some(bug)
    }

    /// Another process begins; time goes on from where it was.
    pub(crate) fn begins(&self) -> u32 {
        let mut state = self.state();
        state.process += 1;
        state.began = Some(Instant::now());
        (state.dead, state.operations) = (false, 0);
        state.barred.clear();
        state.approved.clear();
        state.process
    }

    /// The process is over, one way or another.
    pub(crate) fn ends(&self) {
        let mut state = self.state();
        if let Some(began) = state.began.take() {
            state.before += began.elapsed();
        }
    }

    /// Notes what happens.
    pub(crate) fn tell(&self, what: impl AsRef<str>) {
        let mut state = self.state();
        if state.trace.len() >= LINES_MAX || (state.dead && !what.as_ref().starts_with("dies")) {
            return;
        }
        let time = state.before + state.began.map(|began| began.elapsed()).unwrap_or_default();
        let line = format!("{:>9.3} p{} {}", time.as_secs_f64(), state.process, what.as_ref());
        state.trace.push(line);
    }

    /// Notes that an invariant doesn't hold.
    pub(crate) fn broken(&self, which: &str, what: impl AsRef<str>) {
        let what = format!("{which}: {}", what.as_ref());
        self.tell(format!("!! {what}"));
        let mut state = self.state();
        if state.broken.len() < 20 && !state.broken.contains(&what) {
            state.broken.push(what);
        }
    }

    /// A tool begins to work for a call.
    pub(crate) fn starts(&self, mark: &str, tool: &str, input: &Value, changes: bool) -> Alive {
        let starts = {
            let mut state = self.state();
            state.alive += 1;
            state.tally.started += 1;
            state.tally.changed += u64::from(changes);
            let process = state.process;
            let ran = state.ran.entry(mark.to_owned()).or_default();
            (ran.tool, ran.input, ran.changes) = (tool.to_owned(), input.clone(), changes);
            (ran.starts, ran.process) = (ran.starts + 1, process);
            ran.starts
        };
        self.tell(format!("{tool} {mark} begins"));
        crate::check::begins(self, mark, tool, input, changes, starts);
        Alive { world: self.clone(), mark: mark.to_owned(), ended: false }
    }

    /// The process dies, now: nothing that its code still does counts.
    pub(crate) fn dies(&self, death: Death) {
        let process = {
            let mut state = self.state();
            if std::mem::replace(&mut state.dead, true) {
                return;
            }
            state.tally.deaths += 1;
            let process = state.process;
            state.deaths.insert(process);
            state.process.to_string()
        };
        let part = Dice::of(self.0.seed, &["death", &process]).roll(1_001);
        let mut dice = Dice::of(self.0.seed, &["hole", &process]);
        let hole = if dice.chance(30) { (dice.roll(1_001), dice.roll(1_001)) } else { (0, 0) };
        let kept = self.0.disk.die(death, part, hole);
        self.tell(format!("dies: {death:?}"));
        self.state().noted.retain(|_, length| *length <= kept);
        self.0.died.notify_one();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Never comes back in a process that is dead and not yet gone.
    pub(crate) async fn while_it_lives(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }
}

/// A tool's work; over when it is dropped.
pub(crate) struct Alive {
    world: World,
    mark: String,
    ended: bool,
}

impl Alive {
    /// It came to its own end.
    pub(crate) fn ends(&mut self) {
        if self.world.is_dead() {
            return;
        }
        self.ended = true;
        if let Some(ran) = self.world.state().ran.get_mut(&self.mark) {
            ran.ended = true;
        }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.world.state().alive -= 1;
        self.world.tell(format!("{} {}", self.mark, if self.ended { "has ended" } else { "was dropped" }));
    }
}
