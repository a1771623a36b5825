//! One message of a model: its calls go in, one result for each comes out, in order.

mod call_task;
mod running_call;

use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;

use haft_scheduler::{
    CallBatch, CallBoard, Cancel, Cause, ConflictKeys, ConflictRule, Footprint, Interrupt, NewCall,
    StartedCall,
};
use serde_json::Value;
use tokio::runtime::Handle;

use self::call_task::{ResultGuard, drive_call};
use crate::call::ToolCall;
use crate::context::Context;
use crate::effects::Effects;
use crate::effects::conflict::conflict_keys;
use crate::effects::resolved::ResolvedEffects;
use crate::effects::table::EffectFacts;
use crate::engine::{EngineCore, EngineSession};
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, EventKind};
use crate::future::{BoxFuture, catch_panic};
use crate::limits;
use crate::pipeline::execute::not_run;
use crate::pipeline::{self, OpenedCall};
use crate::ports::{RefusedCall, TaskId};
use crate::registry::{OfferedTool, RegisteredTool, Snapshot};
use crate::result::{ToolResult, within_budget};

/// The calls of one message.
///
/// Made by [`Engine::turn`](crate::Engine::turn), which pins the tools: what is sent to the model is what can
/// be called. While the message is still arriving, [`push`](Turn::push) each call as it is complete: those
/// that change nothing start at once, the rest wait for [`finish`](Turn::finish), which says that the message
/// ended well.
///
/// All calls of an engine are in one order, that of arrival: a call waits for those of earlier turns that it
/// conflicts with, and all of them share the engine's slots. Results, interrupts and siblings are each turn's
/// own.
///
/// Dropping a turn cancels everything in it.
pub struct Turn {
    shared: Arc<TurnShared>,
    /// Keeps the session alive as long as somebody waits for results.
    _session: Arc<EngineSession>,
    finished: bool,
}

/// What the calls of a turn share.
pub(crate) struct TurnShared {
    engine: Arc<EngineCore>,
    snapshot: Snapshot,
    number: u64,
    batch: CallBatch<CallJob, ToolResult>,
    /// The runtime that the calls run on, whoever lets them begin.
    runtime: OnceLock<Handle>,
}

/// The calls of an agent.
pub(crate) type AgentBoard = CallBoard<CallJob, ToolResult>;

/// What a call needs to begin.
pub(crate) struct CallJob {
    turn: Arc<TurnShared>,
    start: JobStart,
}

enum JobStart {
    Opened(Box<CallStart>),
    /// It never can: this is its result. It still takes its place in the order.
    Refused(ToolResult),
}

struct CallStart {
    opened: OpenedCall,
    /// The declaration that the footprint was made from.
    effects: Arc<Effects>,
    /// What the scheduler was told.
    safe: bool,
    keys: Option<Box<ConflictKeys>>,
}

/// A call that runs, as others see it.
#[derive(Clone)]
pub(crate) struct LiveCall {
    turn: Arc<TurnShared>,
    cx: Context,
}

impl Turn {
    pub(crate) fn new(
        session: Arc<EngineSession>,
        engine: Arc<EngineCore>,
        snapshot: Snapshot,
        number: u64,
    ) -> Turn {
        let batch = engine.board.open_batch();
        let shared = Arc::new(TurnShared { engine, snapshot, number, batch, runtime: OnceLock::new() });
        Turn { shared, _session: session, finished: false }
    }

    /// The tools of this turn.
    pub fn snapshot(&self) -> &Snapshot {
        &self.shared.snapshot
    }

    /// The tools that the model is shown with their schemas, in a fixed order.
    pub fn definitions(&self) -> impl Iterator<Item = &OfferedTool> {
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

    /// Says that the message is complete, runs what is left, and gives one result for each call, in call
    /// order.
    ///
    /// # Cancel safety
    /// Dropping the future drops the turn and cancels everything in it.
    pub async fn finish(mut self) -> Vec<ToolResult> {
        self.shared.note_runtime();
        self.shared.batch.complete();
        self.shared.go();
        let results = self.shared.batch.results().await;
        self.finished = true;
        let engine = &self.shared.engine;
        let results = if engine.hooks.batch.is_empty() || results.is_empty() {
            results
        } else {
            Box::pin(pipeline::hook::run_batch_hooks(engine, self.shared.number, results)).await
        };
        within_budget(results, engine.budget_chars, &engine.store)
    }

    /// Runs the calls of a whole message. See [`finish`](Turn::finish).
    pub async fn run(self, calls: impl IntoIterator<Item = ToolCall>) -> Vec<ToolResult> {
        let calls = calls.into_iter();
        if calls.size_hint().0 > 1 {
            self.shared.batch.reserve(calls.size_hint().0);
        }
        for call in calls {
            self.shared.take(call);
        }
        self.finish().await
    }

    /// Takes the only call of this turn, which is complete with it.
    pub(crate) fn submit(self, call: ToolCall) -> PendingCall {
        let handle = self.handle();
        if self.shared.engine.board.unfinished() >= limits::UNFINISHED_CALLS_MAX {
            let result = self.shared.turn_away(call);
            return PendingCall { handle, result: Box::pin(std::future::ready(result)) };
        }
        self.shared.take(call);
        self.shared.batch.complete();
        self.shared.go();
        let result = async move { self.finish().await.pop().expect("one result for each call") };
        PendingCall { handle, result: Box::pin(result) }
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

/// A submitted call: a future of its result.
///
/// Made by [`Engine::submit`](crate::Engine::submit). The call runs whether or not the future is polled.
///
/// # Cancel safety
/// Dropping the future cancels the call.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall {
    handle: TurnHandle,
    result: BoxFuture<'static, ToolResult>,
}

impl PendingCall {
    /// A handle that interrupts, cancels or detaches the call. The call has the index 0.
    pub fn handle(&self) -> TurnHandle {
        self.handle.clone()
    }
}

impl Future for PendingCall {
    type Output = ToolResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<ToolResult> {
        self.result.as_mut().poll(cx)
    }
}

/// Interrupts a turn from elsewhere. Does nothing once the turn is over.
#[derive(Clone)]
pub struct TurnHandle {
    turn: Weak<TurnShared>,
}

impl TurnHandle {
    /// The user interrupts, or sends a message while tools run: calls that have not begun are dropped,
    /// running ones that may be cancelled are, the others finish. Returns the tools that still run to their
    /// end.
    pub fn interrupt(&self) -> Vec<String> {
        self.interrupt_because(Cause::User)
    }

    /// Whether the turn is over and nothing of it is left.
    pub fn is_over(&self) -> bool {
        self.turn.strong_count() == 0
    }

    /// The same where it was not the user: results say what it was.
    pub fn interrupt_because(&self, cause: Cause) -> Vec<String> {
        let Some(turn) = self.turn.upgrade() else { return Vec::new() };
        turn.stop(cause, false);
        // What moved to the background still runs and is no longer waited for.
        let goes_on = |call: &LiveCall| {
            !call.cx.cancel().is_cancelled() && !call.turn.batch.is_done(call.cx.call().index())
        };
        turn.running().filter(goes_on).map(|call| call.cx.call_ref().tool.to_string()).collect()
    }

    /// Cancels everything, also what would rather finish.
    pub fn cancel(&self, cause: Cause) {
        if let Some(turn) = self.turn.upgrade() {
            turn.stop(cause, true);
        }
    }

    /// Moves a running call to the background: it gets a result with a task's id now, its slot and its locks
    /// are free, and its real result is kept by the [`Tasks`](crate::ports::Tasks) port.
    ///
    /// # Errors
    /// In words: there is no such port, no room, or the call doesn't run.
    pub fn detach(&self, call: usize) -> Result<DetachedCall, String> {
        let not_there = || format!("call {call} of this turn doesn't run");
        let turn = self.turn.upgrade().ok_or_else(not_there)?;
        let running =
            turn.running().find(|running| running.cx.call().index() == call).ok_or_else(not_there)?;
        running.detach().map(|task| DetachedCall { task })
    }
}

impl EngineCore {
    /// The turn of this agent with this number, if a call of it runs.
    pub(crate) fn running_turn(self: &Arc<EngineCore>, number: u64) -> Option<TurnHandle> {
        let is_wanted = |call: &LiveCall| Arc::ptr_eq(&call.turn.engine, self) && call.turn.number == number;
        let call = self.supervisor.running().into_iter().find(is_wanted)?;
        Some(TurnHandle { turn: Arc::downgrade(&call.turn) })
    }
}

/// A call that moved to the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DetachedCall {
    /// Its number among the background tasks.
    pub task: TaskId,
}

impl TurnShared {
    /// Steps 1 and 2 of the pipeline, and a place in the order.
    fn take(self: &Arc<TurnShared>, call: ToolCall) -> usize {
        self.note_runtime();
        // Only for who records what was refused.
        let asked = self.engine.host.ports.recorder.is_some().then(|| call.input.clone());
        match pipeline::open_call(&self.engine, &self.snapshot, call) {
            Ok(opened) => {
                let spec = opened.entry.tool().spec();
                let (tool, limit, interrupt) = (opened.entry.number(), spec.concurrency, spec.interrupt);
                let footprint = self.footprint(&opened.attempt.effects, &opened.entry, None);
                let (safe, keys) = (footprint.safe, footprint.keys.clone());
                let effects = opened.attempt.effects.clone();
                let start = JobStart::Opened(Box::new(CallStart { opened, effects, safe, keys }));
                let job = CallJob { turn: self.clone(), start };
                self.batch.push(NewCall { job, footprint, tool, limit, interrupt })
            }
            // What can't be read is not safe, as the order of the calls has it.
            Err(result) => {
                if let Some(input) = asked {
                    self.note_refusal(&result, &input.into_value());
                }
                self.batch.push(NewCall {
                    job: CallJob { turn: self.clone(), start: JobStart::Refused(result) },
                    footprint: Footprint { safe: false, keys: None },
                    tool: 0,
                    limit: None,
                    interrupt: Interrupt::Cancel,
                })
            }
        }
    }

    /// Refuses a call that the board has no room for.
    fn turn_away(&self, call: ToolCall) -> ToolResult {
        let message = format!(
            "{} unfinished calls are the limit; call again when some of them have ended",
            limits::UNFINISHED_CALLS_MAX
        );
        let error = ToolError::with_kind(ErrorKind::Blocked, message).retryable();
        let result = ToolResult::refused(call.id, call.name, error);
        self.note_refusal(&result, &call.input.into_value());
        self.tell_end(0, result.clone());
        result
    }

    /// What the scheduler knows of a call: resolved already, or from what was declared.
    fn footprint(
        &self,
        effects: &Arc<Effects>,
        entry: &RegisteredTool,
        resolved: Option<&ResolvedEffects>,
    ) -> Footprint {
        let confined = self.engine.surroundings.confined;
        let safe = effects.judge(&EffectFacts { confined, ..EffectFacts::unresolved() }).concurrency_safe;
        let keys = |resolved: &ResolvedEffects| {
            Some(Box::new(conflict_keys(resolved, u64::from(entry.number()), confined)))
        };
        let workspace = &self.engine.host.workspace;
        let keys = match (self.engine.rule, resolved) {
            (ConflictRule::Classes, _) => None,
            (ConflictRule::Effects, Some(resolved)) => keys(resolved),
            (ConflictRule::Effects, None) => {
                keys(&ResolvedEffects::resolve(effects.clone(), workspace.cwd(), workspace.paths()))
            }
        };
        Footprint { safe, keys }
    }

    /// Begins every call of the agent that may, also calls of other turns.
    fn go(&self) {
        let next = || self.engine.board.next_call(|| self.engine.cancel.child());
        let mut begin = next();
        while let Some(StartedCall { call, job: CallJob { turn, start }, cancel, more }) = begin {
            match start {
                JobStart::Opened(start) => {
                    turn.spawn(call, start, cancel);
                    if !more {
                        return;
                    }
                }
                JobStart::Refused(result) => {
                    let _ = turn.end(call, result);
                }
            }
            begin = next();
        }
    }

    fn spawn(self: Arc<TurnShared>, call: usize, start: Box<CallStart>, cancel: Cancel) {
        let opened = &start.opened;
        let entry = opened.entry.clone();
        let call = CallRef { index: call, id: opened.id.clone(), tool: entry.name().clone() };
        let called = Some((entry, Arc::downgrade(&self)));
        let cx = Context::new(self.engine.host.clone(), self.number, call, cancel, called);
        let runtime = self.runtime();
        // Made before the task: a call whose task is dropped before it ran gets a result too.
        let mut guard = ResultGuard::new(self, cx);
        match runtime {
            // Boxed: moved once, and not once for each layer of the runtime.
            Some(runtime) => drop(runtime.spawn(Box::pin(drive_call(guard, start)))),
            None => drop(guard.complete(start.opened.refused(no_runtime()))),
        }
    }

    /// Remembers the runtime that we are on, if there is one.
    fn note_runtime(&self) {
        if self.runtime.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            if self.engine.runtime.get().is_none() {
                let _ = self.engine.runtime.set(runtime.clone());
            }
            let _ = self.runtime.set(runtime);
        }
    }

    /// The runtime to run calls on: the one that the turn was on, else the first one that the session was on.
    fn runtime(&self) -> Option<Handle> {
        self.runtime.get().or_else(|| self.engine.runtime.get()).cloned()
    }

    /// Gives a call its result, and says whether others may go now; gives the result back if the call has
    /// one.
    fn end(&self, call: usize, result: ToolResult) -> Result<bool, ToolResult> {
        let with = |result: ToolResult, was_concurrent: bool| {
            if was_concurrent { result.with(|parts| parts.was_concurrent = true) } else { result }
        };
        if self.engine.host.events.is_none() && self.engine.host.ports.recorder.is_none() {
            return self.batch.finish(call, result, with);
        }
        // Who waits for the results has seen all events of the turn by then.
        let Some(was_concurrent) = self.batch.claim(call) else { return Err(result) };
        let result = with(result, was_concurrent);
        self.tell_end(call, result.clone());
        Ok(self.batch.deliver(call, result))
    }

    /// Tells the recorder of a call that was not run.
    fn note_refusal(&self, result: &ToolResult, input: &Value) {
        let (host, parts) = (&self.engine.host, result.parts());
        if let (Some(recorder), Err(error)) = (&host.ports.recorder, &parts.outcome)
            && !error.kind().began()
        {
            let refusal = RefusedCall {
                agent: &host.agent,
                turn: self.number,
                call_id: &parts.call_id,
                tool: &parts.tool_name,
                input,
                kind: error.kind(),
                why: error.message(),
                decision: error.decision(),
            };
            let _ = catch_panic(|| recorder.refused(&refusal));
        }
    }

    fn tell_end(&self, call: usize, result: ToolResult) {
        let parts = result.parts();
        // Those that could not be opened were told of when they came; what has run is recorded with its
        // outcome.
        if let (Some(_), Some(input), true) = (&parts.tool, &parts.input, parts.duration.is_zero()) {
            self.note_refusal(&result, input);
        }
        let call = CallRef { index: call, id: parts.call_id.clone(), tool: parts.tool_name.clone() };
        self.engine.host.tell(self.number, Some(&call), || EventKind::Finished(result));
    }

    fn stop(self: &Arc<TurnShared>, cause: Cause, force: bool) {
        self.batch.stop(cause, force, |call, job| {
            let result = match job.start {
                JobStart::Opened(start) => start.opened.refused(not_run(start.opened.entry.name(), cause)),
                JobStart::Refused(result) => result,
            };
            self.tell_end(call, result.clone());
            result
        });
        // Calls of other turns may have waited for those that were refused.
        self.go();
    }

    /// The calls of this turn that run.
    fn running(self: &Arc<TurnShared>) -> impl Iterator<Item = LiveCall> {
        let turn = self.clone();
        self.engine.supervisor.running().into_iter().filter(move |call| Arc::ptr_eq(&call.turn, &turn))
    }

    /// The call conflicts with others as it is now: it waits until it doesn't, and is judged again when it
    /// goes on.
    async fn reconsider(
        self: &Arc<TurnShared>,
        start: &mut CallStart,
        cx: &Context,
        asking: &(dyn Fn() + Sync),
    ) -> Result<(), ToolResult> {
        while let Some(now) = self.changed(start) {
            (start.safe, start.keys) = (now.safe, now.keys.clone());
            start.effects = start.opened.attempt.effects.clone();
            let goes_on = self.batch.reconsider(cx.call().index(), now);
            // Also if it goes on: it may touch less than before, and no longer be in the way of others.
            self.go();
            if goes_on {
                break;
            }
            self.batch.wait(cx.call().index()).await;
            pipeline::prepare_again(&self.engine, &mut start.opened, cx, asking).await?;
        }
        Ok(())
    }

    /// Lets a call that runs go on when no other does, and no other before it has ended: as if it had said
    /// from the start that it touches anything. At once if somebody has ended it meanwhile.
    pub(crate) async fn alone(self: &Arc<TurnShared>, call: usize) {
        let exclusive = Footprint { safe: false, keys: None };
        let goes_on = self.batch.reconsider(call, exclusive);
        self.go();
        if !goes_on && !self.batch.wait_unless_done(call).await {
            return;
        }
        if !self.batch.authorize(call) {
            self.go();
            self.batch.wait_unless_done(call).await;
        }
    }

    /// What the call is to the scheduler now, if that is not what it was told.
    fn changed(&self, start: &CallStart) -> Option<Footprint> {
        let opened = &start.opened;
        // Without keys the declaration alone decides.
        let is_same = Arc::ptr_eq(&start.effects, &opened.attempt.effects);
        if is_same && self.engine.rule == ConflictRule::Classes {
            return None;
        }
        let resolved = opened.prepared.as_ref().map(|prepared| &prepared.decision.effects.resolved);
        let now = self.footprint(&opened.attempt.effects, &opened.entry, resolved);
        now.differs_from(start.safe, start.keys.as_deref()).then_some(now)
    }
}

fn no_runtime() -> ToolError {
    ToolError::new("this call needs a Tokio runtime, and there is none where it was made")
}
