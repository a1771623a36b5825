//! The journal in a simulation: each operation is a step that can be counted, delayed, failed, or
//! interrupted by a death.
//!
//! The real journal writes on the calling thread or on its own, depending on the disk. Here every
//! operation waits until that thread is idle, so that timing doesn't affect a run. After operations
//! that only queue records, the simulated disk ignores fsyncs. How the journal batches lines is
//! tested by its own tests.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{CallIntent, RecordError, Recorder};
use haft::{ToolCall, ToolResult};
use haft_agent::{ConversationRecorder, InterruptedTurn, MessageFormat, ToolDefinitions};
use haft_journal::{CallState, Durability, Journal, Record, RecoveredSession};
use serde_json::Value;
use tokio::time::sleep;

use crate::faulty_disk::DiskFault;
use crate::seeded_dice::SeededDice;
use crate::simulated_tools::mark_of;
use crate::simulated_world::SimulatedWorld;
use crate::simulation_plan::{PlantedBug, ProcessPlan};

/// Blocks this thread until the journal's thread is done; the virtual clock stands still meanwhile.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut work = pin!(work);
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The journal of one process.
#[derive(Clone)]
pub(crate) struct SimulatedJournal {
    pub(crate) world: SimulatedWorld,
    pub(crate) journal: Journal,
    pub(crate) life: ProcessPlan,
}

impl SimulatedJournal {
    /// Performs one operation. When it returns, all queued records are written; the result includes
    /// their errors. Only an operation that `syncs` makes data safe: other fsyncs of the journal
    /// come at unpredictable times.
    pub(crate) fn perform<T>(
        &self,
        what: &str,
        syncs: bool,
        work: impl FnOnce(&Journal) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let (world, life) = (&self.world, self.life);
        let number = {
            let mut state = world.state();
            state.operations += 1;
            state.operations
        };
        if let Some((at, before, death)) = life.death_operation
            && at == number
            && before
        {
            world.kill_process(death);
        }
        if world.is_dead() {
            return Err(RecordError { message: "the process is dead".to_owned() });
        }
        let fault = match life.disk_fault {
            Some((from, many, fault)) if (from..from + many).contains(&number) => fault,
            _ => DiskFault::None,
        };
        let disk = &world.0.disk;
        if disk.fault() != fault {
            world.log(format!("the disk: {fault:?}"));
        }
        disk.set_fault(fault);
        disk.ignore_syncs(!syncs);
        let mut done = work(&self.journal);
        disk.ignore_syncs(true);
        // Also after an error: the journal has retried the failed write when this returns.
        if let Err(error) = block_on(self.journal.settle()) {
            done = Err(error);
        }
        if done.is_err() {
            world.state().counts.journal_failures += 1;
        }
        world.log(format!("journal {number}: {what}{}", if done.is_ok() { "" } else { " failed" }));
        if let Some((at, false, death)) = life.death_operation
            && at == number
        {
            world.kill_process(death);
        }
        done
    }

    /// Records an entry and ignores errors: the product reports them and continues without the
    /// record.
    fn record_note(&self, what: &str, record: Record) {
        let _ = self.perform(what, false, |journal| journal.note(record));
    }

    async fn delay_by_seed(&self, what: &str, mark: &str) {
        let mut dice = SeededDice::for_decision(self.world.0.seed, &["dawdle", what, mark]);
        match dice.roll(50) {
            0..=9 => sleep(Duration::from_millis(dice.roll(300))).await,
            // Longer than any timeout.
            10 => sleep(Duration::from_secs(100)).await,
            _ => {}
        }
    }
}

impl Recorder for SimulatedJournal {
    fn before<'a>(&'a self, intent: &'a CallIntent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let mark = mark_of(intent.input);
            self.delay_by_seed("before", mark).await;
            self.world.hang_if_dead().await;
            if self.world.has_bug(PlantedBug::IntentNotWritten) {
                return Ok(());
            }
            // A queued record counts as accepted, whether or not it is on the disk.
            let mut taken = Ok(());
            let syncs = intent.side_effects || self.world.0.plan.durability == Durability::Call;
            let _ = self.perform(&format!("intent {mark}"), syncs, |journal| {
                taken = block_on(journal.before(intent));
                taken.clone()
            });
            self.world.hang_if_dead().await;
            self.delay_by_seed("between", mark).await;
            taken
        })
    }

    fn after<'a>(
        &'a self,
        intent: &'a CallIntent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let mark = mark_of(intent.input);
            self.delay_by_seed("after", mark).await;
            self.world.hang_if_dead().await;
            let mut taken = Ok(());
            let syncs = self.world.0.plan.durability == Durability::Call;
            let written = self.perform(&format!("outcome {mark}"), syncs, |journal| {
                if !self.world.has_bug(PlantedBug::OutcomeDropped) {
                    taken = block_on(journal.after(intent, result));
                }
                taken.clone()
            });
            if written.is_ok() && !self.world.is_dead() {
                let length = self.world.0.disk.len();
                self.world.state().recorded_outcomes.insert(mark.to_owned(), length);
            }
            self.world.hang_if_dead().await;
            taken
        })
    }
}

impl ConversationRecorder for SimulatedJournal {
    fn record_items(&self, from: usize, items: &[Value]) {
        let mut items = items.to_vec();
        if self.world.has_bug(PlantedBug::AnsweredTwice) && items.len() > 1 {
            items.extend(items.last().cloned());
        }
        let _ = self.perform("items", false, |journal| journal.items(from, &items));
    }

    fn record_reply(&self, turn: u64, items: &[Value]) {
        self.record_note("reply", Record::Reply { turn, items: items.to_vec() });
    }

    fn record_tools(&self, turn: u64, tools: &ToolDefinitions) {
        if turn == 1 {
            let hash = haft_journal::sha256(tools.shared().as_bytes());
            self.record_note("tools", Record::Tools { hash, names: Vec::new() });
        }
    }

    fn finish_turn<'a>(&'a self, _: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.world.hang_if_dead().await;
            let syncs = self.world.0.plan.durability == Durability::Call;
            let _ = self.perform("settle", syncs, |journal| block_on(journal.finish_turn()));
            self.world.hang_if_dead().await;
        })
    }
}

/// The state that an earlier process left.
pub(crate) struct ResumedState {
    pub(crate) recovered: RecoveredSession,
}

impl ResumedState {
    /// Removes what a planted bug forgets from the recovered state.
    pub(crate) fn new(world: &SimulatedWorld, mut recovered: RecoveredSession) -> ResumedState {
        recovered.calls.retain(|_, state| match state {
            CallState::Finished { .. } => !world.has_bug(PlantedBug::FinishedRunAgain),
            CallState::Unknown(_) => !world.has_bug(PlantedBug::UnknownRunAgain),
            _ => true,
        });
        if world.has_bug(PlantedBug::UnknownRunAgain) {
            recovered.stray.clear();
        }
        ResumedState { recovered }
    }

    /// Returns whether the model must reply before a new user message.
    pub(crate) fn awaits_reply(&self, format: &dyn MessageFormat) -> bool {
        self.recovered.reply.is_some() || format.awaits_reply(&self.recovered.items)
    }

    /// Returns the interrupted turn with the known results of its calls.
    pub(crate) fn interrupted_turn(
        &self,
        world: &SimulatedWorld,
        format: &dyn MessageFormat,
    ) -> Option<InterruptedTurn> {
        let items = self.recovered.reply.clone()?;
        {
            let counts = &mut world.state().counts;
            for state in self.recovered.calls.values() {
                match state {
                    CallState::Finished { .. } => counts.taken += 1,
                    CallState::Unknown(_) => counts.unknown += 1,
                    _ => {}
                }
            }
        }
        let results = self.recovered.results(&InterruptedTurn::calls(format, &items).unwrap_or_default());
        Some(InterruptedTurn { items, results })
    }

    /// Returns the notice to the model about calls outside of the conversation.
    pub(crate) fn resume_notes(&self, world: &SimulatedWorld) -> Option<String> {
        let notes = self.recovered.resume_notes(&[])?;
        world.state().resume_notes.push_str(&notes);
        Some(notes)
    }
}
