//! The journal in a simulation: each operation is one step that can be counted, delayed, failed and died in.
//!
//! The real journal writes in the place or in a thread of its own, as the disk is. Here every operation is waited for until that thread has nothing left to
//! do, so that a story doesn't depend on how fast it is; for what the journal only queues, a line that says nothing is
//! written behind it, which the disk doesn't count as synced. What this leaves to the tests of the journal itself is how it
//! puts many lines together.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{Intent, RecordError, Recorder};
use haft::{ToolCall, ToolResult};
use haft_agent::{ConversationRecorder, InterruptedTurn, MessageFormat, ToolDefinitions};
use haft_journal::{CallState, Durability, Journal, Record, RecoveredSession};
use serde_json::Value;
use tokio::time::sleep;

use crate::dice::Dice;
use crate::disk::Trouble;
use crate::plan::{Bug, Life};
use crate::tools::mark_of;
use crate::world::World;

/// Waits for the journal's thread, on ours: the simulated clock stands still meanwhile.
fn wait<T>(work: impl Future<Output = T>) -> T {
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
pub(crate) struct JournalContents {
    pub(crate) world: World,
    pub(crate) journal: Journal,
    pub(crate) life: Life,
}

impl JournalContents {
    /// One operation. Whatever is queued is written when it returns; with it goes whether that worked. Only one that has to
    /// be `syncs`ed counts as safe from then on: what the journal syncs besides may come at any time, or never.
    pub(crate) fn operation<T>(
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
        if let Some((at, before, death)) = life.dies
            && at == number
            && before
        {
            world.dies(death);
        }
        if world.is_dead() {
            return Err(RecordError { message: "the process is dead".to_owned() });
        }
        let trouble = match life.disk {
            Some((from, many, trouble)) if (from..from + many).contains(&number) => trouble,
            _ => Trouble::None,
        };
        let disk = &world.0.disk;
        if disk.trouble() != trouble {
            world.tell(format!("the disk: {trouble:?}"));
        }
        disk.set(trouble);
        disk.pretend(!syncs);
        let mut done = work(&self.journal);
        disk.pretend(true);
        // Also if it failed: what could not be written is tried again, and has been when this returns.
        if let Err(error) = wait(self.journal.settle()) {
            done = Err(error);
        }
        if done.is_err() {
            world.state().tally.journal_failures += 1;
        }
        world.tell(format!("journal {number}: {what}{}", if done.is_ok() { "" } else { " failed" }));
        if let Some((at, false, death)) = life.dies
            && at == number
        {
            world.dies(death);
        }
        done
    }

    /// What was kept can't be kept, and the user would be told: a session goes on without.
    fn note(&self, what: &str, record: Record) {
        let _ = self.operation(what, false, |journal| journal.note(record));
    }

    async fn dawdle(&self, what: &str, mark: &str) {
        let mut dice = Dice::of(self.world.0.seed, &["dawdle", what, mark]);
        match dice.roll(50) {
            0..=9 => sleep(Duration::from_millis(dice.roll(300))).await,
            // Longer than anybody waits.
            10 => sleep(Duration::from_secs(100)).await,
            _ => {}
        }
    }
}

impl Recorder for JournalContents {
    fn before<'a>(&'a self, intent: &'a Intent<'a>) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let mark = mark_of(intent.input);
            self.dawdle("before", mark).await;
            self.world.while_it_lives().await;
            if self.world.has(Bug::IntentNotWritten) {
                return Ok(());
            }
            // What is only queued counts as taken, whether or not the disk has it.
            let mut taken = Ok(());
            let syncs = intent.side_effects || self.world.0.plan.durability == Durability::Call;
            let _ = self.operation(&format!("intent {mark}"), syncs, |journal| {
                taken = wait(journal.before(intent));
                taken.clone()
            });
            self.world.while_it_lives().await;
            self.dawdle("between", mark).await;
            taken
        })
    }

    fn after<'a>(
        &'a self,
        intent: &'a Intent<'a>,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<(), RecordError>> {
        Box::pin(async move {
            let mark = mark_of(intent.input);
            self.dawdle("after", mark).await;
            self.world.while_it_lives().await;
            let mut taken = Ok(());
            let syncs = self.world.0.plan.durability == Durability::Call;
            let written = self.operation(&format!("outcome {mark}"), syncs, |journal| {
                if !self.world.has(Bug::OutcomeDropped) {
                    taken = wait(journal.after(intent, result));
                }
                taken.clone()
            });
            if written.is_ok() && !self.world.is_dead() {
                let length = self.world.0.disk.len();
                self.world.state().noted.insert(mark.to_owned(), length);
            }
            self.world.while_it_lives().await;
            taken
        })
    }
}

impl ConversationRecorder for JournalContents {
    fn record_items(&self, from: usize, items: &[Value]) {
        let mut items = items.to_vec();
        if self.world.has(Bug::AnsweredTwice) && items.len() > 1 {
            items.extend(items.last().cloned());
        }
        let _ = self.operation("items", false, |journal| journal.items(from, &items));
    }

    fn record_reply(&self, turn: u64, items: &[Value]) {
        self.note("reply", Record::Reply { turn, items: items.to_vec() });
    }

    fn record_tools(&self, turn: u64, tools: &ToolDefinitions) {
        if turn == 1 {
            let hash = haft_journal::sha256(tools.shared().as_bytes());
            self.note("tools", Record::Tools { hash, names: Vec::new() });
        }
    }

    fn finish_turn<'a>(&'a self, _: &'a [(ToolCall, ToolResult)]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.world.while_it_lives().await;
            let syncs = self.world.0.plan.durability == Durability::Call;
            let _ = self.operation("settle", syncs, |journal| wait(journal.turn_over()));
            self.world.while_it_lives().await;
        })
    }
}

/// What an earlier process left, as the program takes it up: what is told to the model is the journal's own matter.
pub(crate) struct Resumed {
    pub(crate) recovered: RecoveredSession,
}

impl Resumed {
    /// What is known, without what a planted bug forgets of it.
    pub(crate) fn new(world: &World, mut recovered: RecoveredSession) -> Resumed {
        recovered.calls.retain(|_, state| match state {
            CallState::Finished { .. } => !world.has(Bug::FinishedRunAgain),
            CallState::Unknown(_) => !world.has(Bug::UnknownRunAgain),
            _ => true,
        });
        if world.has(Bug::UnknownRunAgain) {
            recovered.stray.clear();
        }
        Resumed { recovered }
    }

    /// Whether the model has something to answer without new words.
    pub(crate) fn waits(&self, format: &dyn MessageFormat) -> bool {
        self.recovered.reply.is_some() || format.awaits_reply(&self.recovered.items)
    }

    /// The message whose calls were not all answered, with what is known of them.
    pub(crate) fn cut_off(&self, world: &World, format: &dyn MessageFormat) -> Option<InterruptedTurn> {
        let items = self.recovered.reply.clone()?;
        {
            let tally = &mut world.state().tally;
            for state in self.recovered.calls.values() {
                match state {
                    CallState::Finished { .. } => tally.taken += 1,
                    CallState::Unknown(_) => tally.unknown += 1,
                    _ => {}
                }
            }
        }
        let results = self.recovered.results(&InterruptedTurn::calls(format, &items).unwrap_or_default());
        Some(InterruptedTurn { items, results })
    }

    /// What the model has to know beside its calls.
    pub(crate) fn told(&self, world: &World) -> Option<String> {
        let words = self.recovered.told(&[])?;
        world.state().told.push_str(&words);
        Some(words)
    }
}
