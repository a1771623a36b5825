//! One message of a model: its calls go in, one result for each comes out, in order.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use super::board::{Begin, Board};
use super::scheduler::{ConflictRule, Footprint};
use crate::call::ToolCall;
use crate::cancel::{Cancel, Cause};
use crate::context::Context;
use crate::effects::Effects;
use crate::effects::conflict::Touch;
use crate::effects::resolved::Resolved;
use crate::effects::table::Facts;
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, What};
use crate::pipeline::execute::{Running, execute, stopped, timed_out, until_cancelled};
use crate::pipeline::{self, Opened, Prepared};
use crate::ports::TaskId;
use crate::registry::{Offer, Snapshot};
use crate::result::ToolResult;
use crate::results::{Fit, Settled, fit};
use crate::supervise::Watched;
use crate::sync::lock;
use crate::tool::{Interrupt, SiblingPolicy, Timeout};

/// The calls of one message.
///
/// Made by [`Engine::turn`](crate::Engine::turn), which pins the tools: what is sent to the model is what can be
/// called. While the message is still arriving, [`push`](Turn::push) each call as it is complete: those that change
/// nothing start at once, the rest wait for [`finish`](Turn::finish), which says that the message ended well.
///
/// Dropping a turn cancels everything in it.
pub struct Turn {
    shared: Arc<TurnShared>,
    finished: bool,
}

/// What the calls of a turn share.
pub(crate) struct TurnShared {
    engine: Arc<Shared>,
    snapshot: Snapshot,
    number: u64,
    board: Board<Job, ToolResult>,
    /// The calls that run, for moving them to the background.
    live: Mutex<Vec<Weak<Live>>>,
}

/// What a call needs to begin.
enum Job {
    Opened(Box<Start>),
    /// It never can: this is its result. It still takes its place in the order.
    Refused(ToolResult),
}

struct Start {
    opened: Opened,
    safe: bool,
    touch: Option<Box<Touch>>,
}

/// A call that is being worked on.
struct Live {
    turn: Arc<TurnShared>,
    call: CallRef,
    entry: Arc<crate::registry::Entry>,
    cancel: Cancel,
    running: Running,
    /// Set when the call moved to the background.
    task: OnceLock<TaskId>,
}

impl Turn {
    pub(crate) fn new(engine: Arc<Shared>, snapshot: Snapshot, number: u64) -> Turn {
        let board = Board::new(engine.rule, engine.cap);
        Turn {
            shared: Arc::new(TurnShared { engine, snapshot, number, board, live: Mutex::default() }),
            finished: false,
        }
    }

    /// The tools of this turn.
    pub fn snapshot(&self) -> &Snapshot {
        &self.shared.snapshot
    }

    /// The tools that the model is shown with their schemas, in a fixed order.
    pub fn definitions(&self) -> impl Iterator<Item = &Offer> {
        self.shared.snapshot.definitions()
    }

    /// The number of the turn, from 1.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// Takes a call; returns its place. Must be called inside a Tokio runtime.
    pub fn push(&mut self, call: ToolCall) -> usize {
        let at = self.shared.take(call);
        self.shared.go();
        at
    }

    /// Says that the message is complete, runs what is left, and gives one result for each call, in call order.
    ///
    /// # Cancel safety
    /// Dropping the future drops the turn and cancels everything in it.
    pub async fn finish(mut self) -> Vec<ToolResult> {
        self.shared.board.complete();
        self.shared.go();
        let results = self.shared.board.results().await;
        self.finished = true;
        self.shared.engine.within_budget(results)
    }

    /// Runs the calls of a whole message. See [`finish`](Turn::finish).
    pub async fn run(self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolResult> {
        let calls = calls.into_iter();
        self.shared.board.reserve(calls.size_hint().0);
        for call in calls {
            self.shared.take(call);
        }
        self.finish().await
    }

    /// A handle for whoever may interrupt.
    pub fn handle(&self) -> TurnHandle {
        TurnHandle { turn: Arc::downgrade(&self.shared) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.stop(Cause::Shutdown, true);
        }
    }
}

/// Interrupts a turn from elsewhere. Does nothing once the turn is over.
#[derive(Clone)]
pub struct TurnHandle {
    turn: Weak<TurnShared>,
}

impl TurnHandle {
    /// The user interrupts, or sends a message while tools run: calls that have not begun are dropped, running ones
    /// that may be cancelled are, the others finish. Returns the tools that still run to their end.
    pub fn interrupt(&self) -> Vec<String> {
        let Some(turn) = self.turn.upgrade() else { return Vec::new() };
        turn.stop(Cause::User, false);
        turn.live()
            .into_iter()
            .filter(|live| !live.cancel.is_cancelled())
            .map(|live| live.call.tool.to_string())
            .collect()
    }

    /// Cancels everything, also what would rather finish.
    pub fn cancel(&self, cause: Cause) {
        if let Some(turn) = self.turn.upgrade() {
            turn.stop(cause, true);
        }
    }

    /// Moves a running call to the background: it gets a result with a task's id now, its slot and its locks are
    /// free, and its real result is kept by the [`Tasks`](crate::ports::Tasks) port.
    ///
    /// # Errors
    /// In words: there is no such port, no room, or the call doesn't run.
    pub fn detach(&self, call: usize) -> Result<Detached, String> {
        let live =
            self.turn.upgrade().and_then(|turn| turn.live().into_iter().find(|live| live.call.index == call));
        live.ok_or_else(|| format!("call {call} of this turn doesn't run")).and_then(|live| live.detach())
    }
}

/// A call that moved to the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detached {
    /// Its number among the background tasks.
    pub task: TaskId,
}

impl TurnShared {
    /// Steps 1 and 2 of the pipeline, and a place in the order.
    fn take(&self, call: ToolCall) -> usize {
        match pipeline::open(&self.engine, &self.snapshot, call) {
            Ok(opened) => {
                let entry = opened.entry.clone();
                let spec = entry.tool().spec();
                let footprint = self.footprint(&opened.attempt.effects, &entry, None);
                let (safe, touch) = (footprint.safe, footprint.touch.clone());
                let job = Job::Opened(Box::new(Start { opened, safe, touch }));
                self.board.push(job, footprint, entry.number(), spec.concurrency, spec.interrupt)
            }
            // What can't be read is not safe, as the order of the calls has it.
            Err(result) => {
                let footprint = Footprint { safe: false, touch: None };
                self.board.push(Job::Refused(result), footprint, 0, None, Interrupt::Cancel)
            }
        }
    }

    /// What the scheduler knows of a call: resolved already, or from what was declared.
    fn footprint(
        &self,
        effects: &Arc<Effects>,
        entry: &crate::registry::Entry,
        resolved: Option<&Resolved>,
    ) -> Footprint {
        let confined = self.engine.surroundings.confined;
        let safe = effects.judge(&Facts { confined, ..Facts::unresolved() }).concurrency_safe;
        let touch =
            |resolved: &Resolved| Some(Box::new(Touch::of(resolved, u64::from(entry.number()), confined)));
        let cwd: &Path = self.engine.host.workspace.cwd();
        let touch = match (self.engine.rule, resolved) {
            (ConflictRule::Classes, _) => None,
            (ConflictRule::Effects, Some(resolved)) => touch(resolved),
            (ConflictRule::Effects, None) => touch(&Resolved::resolve(effects.clone(), cwd)),
        };
        Footprint { safe, touch }
    }

    /// Lets everybody go who may.
    fn go(self: &Arc<TurnShared>) {
        loop {
            let mut refused = false;
            for (Begin { call, job }, cancel) in self.board.pump(|| self.engine.cancel.child()) {
                match job {
                    Job::Opened(start) => drop(tokio::spawn(drive(self.clone(), call, *start, cancel))),
                    Job::Refused(result) => {
                        refused = true;
                        let _ = self.end(call, result);
                    }
                }
            }
            if !refused {
                return;
            }
        }
    }

    /// Gives a call its result; gives it back if it has one.
    fn end(&self, call: usize, result: ToolResult) -> Result<(), ToolResult> {
        let told = self.engine.host.events.is_some().then(|| result.clone());
        let with_concurrency = |result: ToolResult, was_concurrent: bool| {
            if was_concurrent { result.with(|parts| parts.was_concurrent = true) } else { result }
        };
        self.board.finish(call, result, with_concurrency)?;
        if let Some(result) = told {
            let parts = result.parts();
            let call = CallRef { index: call, id: parts.call_id.clone(), tool: parts.tool_name.clone() };
            self.engine.host.tell(self.number, Some(&call), || What::Finished(result));
        }
        Ok(())
    }

    fn stop(self: &Arc<TurnShared>, cause: Cause, force: bool) {
        self.board.stop(cause, force, |job| match job {
            Job::Opened(start) => start.opened.refused(unstarted(&start.opened, cause)),
            Job::Refused(result) => result,
        });
    }

    fn live(&self) -> Vec<Arc<Live>> {
        lock(&self.live).iter().filter_map(Weak::upgrade).collect()
    }
}

/// The way of one call, in a task of its own.
async fn drive(turn: Arc<TurnShared>, call: usize, start: Start, cancel: Cancel) {
    let owed =
        Owed { turn: &turn, call, id: start.opened.id.clone(), tool: start.opened.entry.name().clone() };
    let on_error = start.opened.entry.tool().spec().on_error.unwrap_or(turn.engine.siblings);
    let result = lead(&turn, call, start, &cancel).await;
    let stops_siblings =
        on_error == SiblingPolicy::OnError && result.error_kind().is_some_and(ErrorKind::began);
    let ends_turn = result.error().is_some_and(ToolError::ends_turn);
    owed.pay(result);
    if stops_siblings {
        turn.board.stop_siblings(call);
    }
    if ends_turn {
        turn.stop(Cause::User, false);
    }
    turn.go();
}

/// Prepares and runs a call; always comes to a result.
async fn lead(turn: &Arc<TurnShared>, call: usize, start: Start, cancel: &Cancel) -> ToolResult {
    let Start { opened, mut safe, mut touch } = start;
    let engine = &turn.engine;
    let entry = opened.entry.clone();
    let reference = CallRef { index: call, id: opened.id.clone(), tool: entry.name().clone() };
    let cx = Context::new(engine.host.clone(), turn.number, reference.clone(), cancel.clone());
    let asking = || {
        turn.board.asking(call);
        turn.go();
    };
    let cancelled =
        |id: Arc<str>, cause: Cause| ToolResult::refused(id, entry.name().clone(), stopped(&entry, cause));

    let mut prepared: Prepared =
        match until_cancelled(cancel, pipeline::prepare(engine, opened, &cx, &asking)).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(result)) => return result,
            Err(cause) => return cancelled(reference.id, cause),
        };
    // What was found out since the call was pushed may make it conflict with others: then it waits, and is judged
    // again when it goes on.
    loop {
        let now = turn.footprint(&prepared.opened.attempt.effects, &entry, Some(&prepared.resolved));
        let same = now.safe == safe
            && match (&now.touch, &touch) {
                (Some(now), Some(before)) => !now.wider_than(before),
                _ => true,
            };
        if same {
            break;
        }
        (safe, touch) = (now.safe, now.touch.clone());
        if turn.board.reconsider(call, now) {
            break;
        }
        turn.go();
        let again = async {
            turn.board.wait(call).await;
            pipeline::prepare_again(engine, prepared, &cx, &asking).await
        };
        prepared = match until_cancelled(cancel, again).await {
            Ok(Ok(prepared)) => prepared,
            Ok(Err(result)) => return result,
            Err(cause) => return cancelled(reference.id, cause),
        };
    }
    if !turn.board.authorized(call) {
        turn.go();
        if let Err(cause) = until_cancelled(cancel, turn.board.wait(call)).await {
            return cancelled(reference.id, cause);
        }
    }
    run(turn, reference, prepared, cancel).await
}

/// Runs a prepared call under the eyes of the supervisor.
async fn run(turn: &Arc<TurnShared>, call: CallRef, prepared: Prepared, cancel: &Cancel) -> ToolResult {
    let entry = prepared.opened.entry.clone();
    let limit: Option<Duration> = match entry.tool().spec().timeout {
        Timeout::After(limit) => Some(limit),
        Timeout::Never => None,
    };
    let task = OnceLock::new();
    let running = Running::default();
    let live = Arc::new(Live { turn: turn.clone(), call, entry, cancel: cancel.clone(), running, task });
    {
        let mut all = lock(&turn.live);
        all.retain(|live| live.strong_count() > 0);
        all.push(Arc::downgrade(&live));
    }
    let watched: Weak<dyn Watched> = Arc::downgrade(&(live.clone() as Arc<dyn Watched>));
    let watching = turn.engine.supervisor.watch(limit, cancel.clone(), watched);
    let result = execute(&turn.engine, prepared, &live.running).await;
    drop(watching);
    if let Some(task) = live.task.get() {
        live.came_back(*task, result.clone());
    }
    result
}

impl Live {
    fn detach(&self) -> Result<Detached, String> {
        let engine = &self.turn.engine;
        let tool = &*self.call.tool;
        let tasks = engine.host.ports.tasks.as_deref().ok_or("this host has no background tasks")?;
        if self.turn.board.is_done(self.call.index) || self.task.get().is_some() {
            return Err(format!("{tool} is done already"));
        }
        let about = self.running.about();
        let task = tasks.adopt(tool, &about, self.cancel.clone()).map_err(|full| full.to_string())?;
        let words = format!("{tool} goes on in the background as {task}; its result is kept there");
        let output = crate::content::Output::new(vec![crate::content::Content::text(words)]);
        let done = pipeline::Outcome { outcome: Ok(output), notes: Vec::new(), duration: Duration::ZERO };
        let input = self.running.input();
        let result = pipeline::settled(engine, self.call.id.clone(), &self.entry, input, done);
        // From here on the call's own result belongs to the task; the order of these two lines closes the race with a
        // call that ends right now: one of the two results is the board's, the other the task's.
        let _ = self.task.set(task);
        if let Err(late) = self.turn.end(self.call.index, result) {
            tasks.finish(task, late);
            return Err(format!("{tool} is done already"));
        }
        self.running.let_go();
        engine.background.add(
            task,
            self.call.tool.clone(),
            self.running.touch(&self.entry, engine.surroundings.confined),
        );
        self.turn.go();
        Ok(Detached { task })
    }

    /// The real result of a call that went on in the background.
    fn came_back(&self, task: TaskId, result: ToolResult) {
        let engine = &self.turn.engine;
        engine.background.remove(task);
        if let Some(tasks) = engine.host.ports.tasks.as_deref() {
            tasks.finish(task, result.clone());
        }
        engine.host.tell(self.turn.number, Some(&self.call), || What::BackgroundFinished(result));
    }
}

impl Watched for Live {
    fn abandon(&self) {
        let result =
            ToolResult::refused(self.call.id.clone(), self.call.tool.clone(), timed_out(&self.entry));
        if self.turn.end(self.call.index, result).is_ok() {
            self.running.let_go();
            self.turn.go();
        }
    }

    fn blocks_thread(&self, since: Duration) {
        self.turn.engine.host.tell(self.turn.number, Some(&self.call), || What::BlocksThread { since });
    }

    fn mark(&self) -> &crate::supervise::Mark {
        &self.running.mark
    }
}

/// A result that is owed: if the task ends without one, by a panic of ours or because the runtime goes down, the
/// call still gets one.
struct Owed<'a> {
    turn: &'a Arc<TurnShared>,
    call: usize,
    id: Arc<str>,
    tool: Arc<str>,
}

impl Owed<'_> {
    fn pay(self, result: ToolResult) {
        // A call that was answered before keeps that answer.
        let _ = self.turn.end(self.call, result);
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if self.turn.board.is_done(self.call) {
            return;
        }
        let error =
            ToolError::cancelled(Cause::Shutdown, &format!("{} was {}", self.tool, Cause::Shutdown.words()));
        let _ = self.turn.end(self.call, ToolResult::refused(self.id.clone(), self.tool.clone(), error));
    }
}

/// The error of a call that never began.
fn unstarted(opened: &Opened, cause: Cause) -> ToolError {
    let words = format!("{} was not run; {}", opened.entry.name(), cause.words());
    ToolError::cancelled(cause, &words)
}

impl Shared {
    /// The turn's budget over all its results.
    fn within_budget(&self, mut results: Vec<ToolResult>) -> Vec<ToolResult> {
        let size = |result: &ToolResult| {
            let parts = result.parts();
            let notes: usize = parts.notes.iter().map(String::len).sum();
            notes + parts.outcome.as_ref().map_or_else(|error| error.message().len(), crate::results::bytes)
        };
        if results.iter().map(size).sum::<usize>() <= self.budget_chars {
            return results;
        }
        let settled = |result: &ToolResult| {
            let parts = result.parts();
            match &parts.outcome {
                Ok(output) => Settled {
                    output: output.clone(),
                    offloaded_to: parts.offloaded_to.clone(),
                    cut: parts.cut.clone(),
                },
                Err(error) => {
                    Settled::whole(crate::content::Output::new(vec![crate::content::Content::text(
                        error.message(),
                    )]))
                }
            }
        };
        let mut all: Vec<Settled> = results.iter().map(settled).collect();
        let names: Vec<Arc<str>> = results.iter().map(|result| result.parts().tool_name.clone()).collect();
        let limits: Vec<_> = results.iter().map(|result| result.parts().limit).collect();
        let mut fits: Vec<Fit<'_>> = all
            .iter_mut()
            .zip(&names)
            .zip(&limits)
            .map(|((settled, name), limit)| Fit::new(name, settled, *limit))
            .collect();
        fit(&mut fits, self.budget_chars, &self.store);
        let changed: Vec<bool> = fits.iter().map(|fit| fit.changed).collect();
        for ((result, settled), _) in results.iter_mut().zip(all).zip(changed).filter(|(_, changed)| *changed)
        {
            *result = result.clone().with(|parts| match &mut parts.outcome {
                Ok(output) => {
                    *output = settled.output;
                    parts.offloaded_to = settled.offloaded_to;
                    parts.cut = settled.cut;
                }
                Err(error) => *error = error.clone().saying(settled.output.to_text()),
            });
        }
        results
    }
}
