//! Steps 6 to 8: run the call, look at what came of it, and bring it within its limit.
//!
//! The call runs in the task of its own that the dispatcher gave it. It holds a slot already; what it takes
//! here is the tool's own limit and the locks on the files it changes. The supervisor watches its time from
//! outside, so that a tool which never yields is still answered.

use std::sync::Arc;
use std::time::Duration;

use haft_scheduler::{Cause, until_cancelled};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    CallOutcome, OpenedCall, OwnWrites, PreparedCall, child_requests, finish_result, hook, panic_error,
    send_event,
};
use crate::content::ToolOutput;
use crate::context::{Context, DirectoryChange};
use crate::decision::{CallEffects, CallGrants};
use crate::dispatch::background::BackgroundCalls;
use crate::effects::resolved::{ResolvedEffects, ResolvedPath};
use crate::effects::table::ConcurrencyClass;
use crate::engine::EngineCore;
use crate::error::{ErrorKind, ToolError};
use crate::event::EventKind;
use crate::files::PinnedPaths;
use crate::future::{BoxFuture, GuardedFuture, catch_panic, with_timeout};
use crate::limits;
use crate::ports::{CallIntent, RecordError, Recorder};
use crate::registry::RegisteredTool;
use crate::result::ToolResult;
use crate::tool::erased::ToolInvocation;
use crate::view::CallStage;

/// Runs a prepared call, which has a slot. `watch` is told when the tool itself starts; what it gives is
/// dropped when the tool is done.
///
/// What is rare is boxed, so that the future of a call that needs none of it stays small.
pub(crate) async fn execute_call<Watching>(
    shared: &Arc<EngineCore>,
    opened: &mut OpenedCall,
    cx: &Context,
    watch: impl FnOnce(Instant) -> Watching,
) -> ToolResult {
    let notes =
        opened.prepared.as_mut().map(|prepared| std::mem::take(&mut prepared.notes)).unwrap_or_default();
    let Some(PreparedCall { decision, granted, .. }) = &opened.prepared else {
        return opened.refused(panic_error(opened.entry.name()));
    };
    let CallEffects { resolved, class, .. } = &decision.effects;
    let (cx, entry) = (granted.as_ref().unwrap_or(cx), &*opened.entry);
    if let Some(circuit) = &entry.circuit
        && let Err(error) = circuit.ask(entry.name(), Instant::now())
    {
        return opened.refused(error);
    }

    let is_rerunnable = class.rerunnable;
    // What may be waited for before anything happens: the tool's limit, the locks, the journal.
    let holds = entry.gate.is_some() || !resolved.writes.is_empty() || !resolved.deletes.is_empty();
    if holds {
        let waited = Box::pin(until_cancelled(cx.cancel(), async {
            // A worker uses the place that the call it works for has already.
            let has_place = shared.ancestors.iter().any(|ancestor| ancestor.tool == Some(entry.number()));
            let room = match &entry.gate {
                Some(gate) if !has_place => gate.clone().acquire_owned().await.ok(),
                _ => None,
            };
            (room, shared.locks.take(resolved, entry, &shared.ancestors).await)
        }));
        match waited.await {
            Ok((room, locks)) => cx.running().hold(room, locks),
            Err(cause) => return opened.refused(not_run(entry.name(), cause)),
        }
    }
    let mut recorded = false;
    if let Some(recorder) = cx.ports().recorder() {
        match Box::pin(until_cancelled(cx.cancel(), record_intent(recorder, opened, cx))).await {
            Ok(Ok(taken)) => recorded = taken,
            Ok(Err(error)) => return opened.refused(error),
            Err(cause) => return opened.refused(not_run(entry.name(), cause)),
        }
    }

    // 6 execute
    send_event(cx, || {
        let input = opened.attempt.input.clone();
        EventKind::Started {
            view: entry.tool().view(&CallStage::Use { input: &input, complete: true }),
            input,
        }
    });
    let own_writes = OwnWrites::begin(shared, entry, resolved).map(Box::new);
    let mut met = Vec::new();
    shared.background.add_conflicts(resolved, entry, &shared.host, None, &mut met);
    let started = Instant::now();
    cx.running().begin(&opened.attempt.input, &resolved.declared, started);
    let watching = watch(started);
    let first = opened.attempt.invocation.take();
    let mut outcome = if child_requests::may_come(shared, entry) {
        Box::pin(child_requests::answer_during(run_attempt(shared, entry, first, cx), shared, opened, cx))
            .await
    } else {
        run_attempt(shared, entry, first, cx).await
    };
    if is_rerunnable && entry.tool().spec().retry.attempts > 1 {
        outcome = Box::pin(retry_failures(shared, entry, &opened.attempt.input, cx, outcome)).await;
    }
    if let Some(circuit) = &entry.circuit {
        outcome = circuit.noted(outcome, Instant::now());
    }
    let duration = started.elapsed();
    drop((watching, own_writes));
    if holds {
        cx.running().let_go();
    }

    // 7 observe
    let mut done = CallOutcome { outcome, notes, stop: None, duration };
    shared.background.add_conflicts(resolved, entry, &shared.host, cx.running().own_task(), &mut met);
    done.notes.extend(BackgroundCalls::note(met));
    if !shared.hooks.post.is_empty() {
        Box::pin(hook::run_post_hooks(shared, opened, cx, &mut done)).await;
    }

    // 8 settle
    let result = finish_result(shared, opened, done);
    if let (true, Some(recorder)) = (recorded, &shared.host.ports.recorder) {
        let failure = match Box::pin(recorded_after(&**recorder, opened, cx, &result)).await {
            Some(Ok(Ok(()))) => return result,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => "the recorder panicked".to_owned(),
            None => "the recorder took too long".to_owned(),
        };
        send_event(cx, || EventKind::Warning(format!("the result could not be recorded: {failure}")));
    }
    result
}

/// The context of a call with what was granted to it; none for a call that only reads inside.
pub(super) fn grant_access(cx: &Context, effects: &ResolvedEffects, grants: &CallGrants) -> Option<Context> {
    let workspace = cx.location().workspace();
    let (reads, writes, deletes) = (grants.reads(effects), grants.writes(effects), grants.deletes(effects));
    let beyond = |path: &ResolvedPath| !workspace.is_readable(&path.at);
    let changes = effects.declared.unknown || !writes.is_empty() || !deletes.is_empty();
    let more = grants.hidden.is_some() || !grants.hosts.is_empty();
    if !changes && !more && !reads.iter().any(beyond) {
        return None;
    }
    let mut access = grants.access(effects, workspace);
    let all = reads.iter().chain(writes).chain(deletes);
    access.held = PinnedPaths::hold(all.filter(|path| beyond(path)).map(|path| &path.at));
    Some(cx.granted(Arc::new(access)))
}

/// What the recorder is told of a call that is ready.
fn call_intent<'a>(
    opened: &'a OpenedCall,
    prepared: &'a PreparedCall,
    cx: &'a Context,
    moved: &'a DirectoryChange,
) -> CallIntent<'a> {
    let effects = &prepared.decision.effects;
    CallIntent {
        agent: cx.call().agent_id(),
        turn: cx.call().turn(),
        call_id: cx.call().id(),
        tool: opened.entry.name(),
        input: &opened.attempt.input,
        effects: &effects.resolved,
        side_effects: effects.class.class != ConcurrencyClass::ReadOnly,
        rerunnable: effects.class.rerunnable,
        decision: &prepared.decision,
        moved,
    }
}

/// Tells the recorder what came of a call.
async fn recorded_after(
    recorder: &dyn Recorder,
    opened: &OpenedCall,
    cx: &Context,
    result: &ToolResult,
) -> Option<Result<Result<(), RecordError>, String>> {
    let moved = cx.location().moved();
    let intent = call_intent(opened, opened.prepared.as_ref()?, cx, &moved);
    let unclaimed = UnclaimedResult(Some(result));
    let noted =
        with_timeout(limits::RECORD_TIMEOUT, GuardedFuture::new(|| recorder.after(&intent, result))).await;
    unclaimed.claim();
    noted.map(|noted| noted.map_err(|_| String::new()))
}

/// A result that nobody has yet. Should it be dropped while it waits to be recorded, its file goes with it:
/// nobody will be told where it is.
struct UnclaimedResult<'a>(Option<&'a ToolResult>);

impl UnclaimedResult<'_> {
    fn claim(mut self) {
        self.0 = None;
    }
}

impl Drop for UnclaimedResult<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0.and_then(ToolResult::offloaded_to) {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Tells the recorder; whether it took the intent. Without that nothing is changed.
async fn record_intent(
    recorder: &dyn Recorder,
    opened: &OpenedCall,
    cx: &Context,
) -> Result<bool, ToolError> {
    let Some(prepared) = &opened.prepared else { return Ok(false) };
    let moved = cx.location().moved();
    let intent = call_intent(opened, prepared, cx, &moved);
    let failure =
        match with_timeout(limits::RECORD_TIMEOUT, GuardedFuture::new(|| recorder.before(&intent))).await {
            Some(Ok(Ok(()))) => return Ok(true),
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => "the recorder panicked".to_owned(),
            None => "the recorder took too long".to_owned(),
        };
    let tool = intent.tool;
    if intent.side_effects {
        let words = format!(
            "{tool} was not run: it could not be recorded ({failure}), and unrecorded changes are not made"
        );
        return Err(ToolError::with_kind(ErrorKind::NotRecorded, words));
    }
    send_event(cx, || EventKind::Warning(format!("{tool} runs unrecorded: {failure}")));
    Ok(false)
}

/// Runs the tool again where its error says that this helps; its effects say that it can't hurt.
async fn retry_failures(
    shared: &EngineCore,
    entry: &RegisteredTool,
    input: &Value,
    cx: &Context,
    mut outcome: Result<ToolOutput, ToolError>,
) -> Result<ToolOutput, ToolError> {
    let policy = entry.tool().spec().retry;
    let mut pause = policy.pause;
    for number in 1..policy.attempts.min(limits::ATTEMPTS_MAX) {
        match &outcome {
            Err(error) if error.is_retryable() && error.kind() == ErrorKind::Failed => {}
            _ => break,
        }
        cx.progress(None, format!("attempt {number} failed, trying again"));
        if let Err(cause) = until_cancelled(cx.cancel(), tokio::time::sleep(pause)).await {
            return Err(interrupted_error(entry, cause));
        }
        pause = (pause * 2).min(limits::RETRY_PAUSE_MAX);
        // Decoded afresh: the first attempt used its input up.
        let again = catch_panic(|| entry.tool().invoke(input));
        let Ok(Ok(again)) = again else { return Err(panic_error(entry.name())) };
        outcome = run_attempt(shared, entry, again, cx).await;
    }
    outcome
}

/// Runs the tool once.
async fn run_attempt(
    shared: &EngineCore,
    entry: &RegisteredTool,
    invocation: Box<dyn ToolInvocation>,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let call_cx = cx.clone();
    let work = if entry.tool().spec().blocking {
        let (name, threads) = (entry.name().clone(), shared.threads.clone());
        GuardedFuture::new(|| -> BoxFuture<'static, _> {
            threads.run(name, move || invocation.call(call_cx))
        })
    } else {
        GuardedFuture::new(|| invocation.call(call_cx))
    };
    match until_cancelled(cx.cancel(), cx.running().mark.watch(work)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(panic_error(entry.name())),
        Err(cause) => Err(interrupted_error(entry, cause)),
    }
}

/// The error of a call that was cancelled before its tool was called: nothing happened.
pub(crate) fn not_run(tool: &str, cause: Cause) -> ToolError {
    ToolError::cancelled(cause, &format!("{tool} was not run; {}", cause.words()))
}

/// The error of a call that was cancelled while its tool ran.
fn cancelled_error(tool: &str, cause: Cause) -> ToolError {
    ToolError::cancelled(cause, &format!("{tool} was {}", cause.words()))
}

/// The error of a call that ended because of `cause` while it ran.
fn interrupted_error(entry: &RegisteredTool, cause: Cause) -> ToolError {
    match cause {
        Cause::Timeout => timed_out(entry.name(), entry.tool().spec().timeout.limit()),
        cause => cancelled_error(entry.name(), cause),
    }
}

/// The error of a call that was cancelled, never noticed, and was answered in its place.
pub(crate) fn left_behind(tool: &str, cause: Cause) -> ToolError {
    let words = format!(
        "{tool} was {}; it did not stop and was left behind, so it may still do something",
        cause.words()
    );
    ToolError::cancelled(cause, &words)
}

/// The error of a call that took too long.
pub(crate) fn timed_out(tool: &str, limit: Option<Duration>) -> ToolError {
    let limit =
        limit.map_or_else(|| "its time limit".to_owned(), |limit| format!("{} s", limit.as_secs_f64()));
    let words = format!(
        "{tool} was stopped: it did not finish within {limit}; the user did not interrupt. Ask for less at once"
    );
    ToolError::with_kind(ErrorKind::TimedOut, words)
}
