//! Steps 6 to 8: run the call, look at what came of it, and bring it within its limit.
//!
//! The call runs in the task of its own that the dispatcher gave it. It holds a slot already; what it takes here is
//! the tool's own limit and the locks on the files it changes. The supervisor watches its time from outside, so that a
//! tool which never yields is still answered.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::{Opened, Outcome, Prepared, hook, panicked, settled, tell};
use crate::cancel::{Cancel, Cause};
use crate::content::Output;
use crate::context::Context;
use crate::dispatch::locks::Held;
use crate::effects::conflict::Touch;
use crate::effects::resolved::Resolved;
use crate::effects::table::Class;
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError};
use crate::event::What;
use crate::files::Access;
use crate::future::{BoxFuture, Guarded, guarded};
use crate::limits;
use crate::ports::Intent;
use crate::registry::Entry;
use crate::result::ToolResult;
use crate::supervise::Mark;
use crate::sync::lock;
use crate::tool::erased::Invocation;
use crate::view::Stage;

/// What a running call holds and shows to those who watch it.
#[derive(Default)]
pub(crate) struct Running {
    /// How the supervisor sees that it is being polled.
    pub(crate) mark: Mark,
    holds: Mutex<Holds>,
    call: OnceLock<(Arc<Value>, Resolved)>,
}

#[derive(Default)]
struct Holds {
    room: Option<OwnedSemaphorePermit>,
    locks: Option<Held>,
    /// The call was answered by others: it may hold nothing any more.
    let_go: bool,
}

impl Running {
    /// Frees what the call holds, now and from now on.
    pub(crate) fn let_go(&self) {
        let mut holds = lock(&self.holds);
        let held = std::mem::replace(&mut *holds, Holds { let_go: true, ..Holds::default() });
        drop(holds);
        drop(held);
    }

    fn hold(&self, room: Option<OwnedSemaphorePermit>, locks: Option<Held>) {
        if room.is_none() && locks.is_none() {
            return;
        }
        let mut holds = lock(&self.holds);
        if !holds.let_go {
            (holds.room, holds.locks) = (room, locks);
        }
    }

    /// The input of the call.
    pub(crate) fn input(&self) -> Arc<Value> {
        self.call.get().map_or_else(|| Arc::new(Value::Null), |(input, _)| input.clone())
    }

    /// What the call is about, on one line.
    pub(crate) fn about(&self) -> String {
        self.call.get().map_or_else(String::new, |(_, resolved)| resolved.declared.to_string())
    }

    /// What the call touches.
    pub(crate) fn touch(&self, entry: &Entry, confined: bool) -> Touch {
        let touch =
            |(_, resolved): &(Arc<Value>, Resolved)| Touch::of(resolved, u64::from(entry.number()), confined);
        self.call.get().map_or_else(Touch::everything, touch)
    }
}

/// Runs a prepared call, which has a slot.
pub(crate) async fn execute(shared: &Shared, prepared: Prepared, running: &Running) -> ToolResult {
    let Prepared { opened, resolved, judgement, allowed, cx, notes } = prepared;
    let Opened { id, entry, attempt, .. } = opened;
    let input = attempt.input.clone();
    let refused = |error: ToolError| {
        let done = Outcome { outcome: Err(error), notes: Vec::new(), duration: Duration::ZERO };
        settled(shared, id.clone(), &entry, input.clone(), done)
    };
    let side_effects = judgement.class != Class::ReadOnly;

    // What may be waited for before anything happens: the tool's limit, the locks, the journal.
    let ready = until_cancelled(cx.cancel(), async {
        let room = match &entry.gate {
            Some(gate) => gate.clone().acquire_owned().await.ok(),
            None => None,
        };
        let locks = shared.locks.take(&resolved, &entry).await;
        (room, locks)
    });
    match ready.await {
        Ok((room, locks)) => running.hold(room, locks),
        Err(cause) => return refused(stopped(&entry, cause)),
    }
    if let Err(error) =
        record(shared, &cx, &entry, &input, &resolved, side_effects, judgement.rerunnable, &allowed.by).await
    {
        return refused(error);
    }

    // 6 execute
    tell(&cx, || {
        let view = entry.tool().view(&Stage::Use { input: &input, complete: true });
        What::Started { view, input: input.clone() }
    });
    let _ = running.call.set((input.clone(), resolved.clone()));
    let started = Instant::now();
    let outcome =
        attempts(shared, &entry, attempt.invocation, &input, &cx, judgement.rerunnable, &running.mark).await;
    let duration = started.elapsed();
    running.let_go();

    // 7 observe
    let mut done = Outcome { outcome, notes, duration };
    if let Some(words) = shared.background.overlapping(&resolved, &entry, shared.surroundings.confined) {
        done.notes.push(words);
    }
    if !shared.hooks.post.is_empty() {
        let as_result = |done: &Outcome| {
            ToolResult::of(crate::result::Parts {
                call_id: id.clone(),
                tool_name: entry.name().clone(),
                tool: Some(entry.tool().clone()),
                input: Some(input.clone()),
                outcome: done.outcome.clone(),
                notes: done.notes.clone(),
                duration: done.duration,
                was_concurrent: false,
                offloaded_to: None,
                cut: None,
                limit: entry.tool().spec().result_limit,
            })
        };
        done = hook::after(shared, entry.name(), &input, &cx, done, as_result).await;
    }

    // 8 settle
    let result = settled(shared, id.clone(), &entry, input.clone(), done);
    if let Some(recorder) = cx.recorder()
        && let Ok(Err(error)) = Guarded::new(|| recorder.after(&result)).await
    {
        tell(&cx, || What::Warning(format!("the result could not be recorded: {error}")));
    }
    result
}

/// The context of a call with what was granted to it. Calls that stay inside share one value.
pub(super) fn grant(cx: &Context, resolved: &Resolved) -> Context {
    let beyond = |path: &crate::effects::resolved::ResolvedPath| !cx.workspace().is_readable(&path.at);
    if resolved.writes.is_empty() && resolved.deletes.is_empty() && !resolved.reads.iter().any(beyond) {
        return cx.clone();
    }
    let access: Access = resolved.access(cx.workspace());
    cx.granted(Arc::new(access))
}

#[expect(clippy::too_many_arguments, reason = "the parts of one intent, collected in one place")]
async fn record(
    shared: &Shared,
    cx: &Context,
    entry: &Entry,
    input: &Value,
    effects: &Resolved,
    side_effects: bool,
    rerunnable: bool,
    allowed_by: &str,
) -> Result<(), ToolError> {
    let Some(recorder) = shared.host.ports.recorder.as_deref() else { return Ok(()) };
    let (turn, call_id, tool) = (cx.turn(), cx.call_id(), &**entry.name());
    let intent = Intent { turn, call_id, tool, input, effects, side_effects, rerunnable, allowed_by };
    let failure = match Guarded::new(|| recorder.before(&intent)).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the recorder panicked".to_owned(),
    };
    if side_effects {
        let words = format!(
            "{tool} was not run: it could not be recorded ({failure}), and unrecorded changes are not made"
        );
        return Err(ToolError::of(ErrorKind::NotRecorded, words));
    }
    tell(cx, || What::Warning(format!("{tool} runs unrecorded: {failure}")));
    Ok(())
}

/// Runs the tool, again where that helps and can't hurt.
async fn attempts(
    shared: &Shared,
    entry: &Entry,
    first: Box<dyn Invocation>,
    input: &Value,
    cx: &Context,
    rerunnable: bool,
    mark: &Mark,
) -> Result<Output, ToolError> {
    let spec = entry.tool().spec();
    let attempts = if rerunnable { spec.retry.attempts.clamp(1, limits::ATTEMPTS_MAX) } else { 1 };
    let mut pause = spec.retry.pause;
    let mut outcome = attempt(shared, entry, first, cx, mark).await;
    for number in 1..attempts {
        match &outcome {
            Err(error) if error.is_retryable() && error.kind() == ErrorKind::Failed => {}
            _ => break,
        }
        cx.progress(None, format!("attempt {number} failed, trying again"));
        if let Err(cause) = until_cancelled(cx.cancel(), tokio::time::sleep(pause)).await {
            return Err(stopped(entry, cause));
        }
        pause = (pause * 2).min(limits::RETRY_PAUSE_MAX);
        // Decoded afresh: the first attempt used its input up.
        let Ok(Ok(again)) = guarded(|| entry.tool().invoke(input)) else {
            return Err(panicked(entry.name()));
        };
        outcome = attempt(shared, entry, again, cx, mark).await;
    }
    outcome
}

async fn attempt(
    shared: &Shared,
    entry: &Entry,
    invocation: Box<dyn Invocation>,
    cx: &Context,
    mark: &Mark,
) -> Result<Output, ToolError> {
    let call_cx = cx.clone();
    let work = if entry.tool().spec().blocking {
        let name = entry.name().clone();
        let threads = shared.threads.clone();
        Guarded::new(|| -> BoxFuture<'static, _> { threads.run(name, move || invocation.call(call_cx)) })
    } else {
        Guarded::new(|| invocation.call(call_cx))
    };
    match until_cancelled(cx.cancel(), mark.watch(work)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(panicked(entry.name())),
        Err(cause) => Err(stopped(entry, cause)),
    }
}

/// Runs `work` until it is done or the call is cancelled. The wait for the cancellation costs nothing while `work` is
/// ready at once.
pub(crate) async fn until_cancelled<T>(cancel: &Cancel, work: impl Future<Output = T>) -> Result<T, Cause> {
    if let Some(cause) = cancel.cause() {
        return Err(cause);
    }
    let mut work = pin!(work);
    let mut cancelled = None;
    poll_fn(|cx| {
        if let Poll::Ready(value) = work.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        let cancelled = cancelled.get_or_insert_with(|| cancel.cancelled());
        std::pin::Pin::new(cancelled).poll(cx).map(Err)
    })
    .await
}

/// The error of a call that was cancelled or ran out of time while it ran.
pub(crate) fn stopped(entry: &Entry, cause: Cause) -> ToolError {
    if cause == Cause::Timeout {
        return timed_out(entry);
    }
    ToolError::cancelled(cause, &format!("{} was {}", entry.name(), cause.words()))
}

/// The error of a call that took too long.
pub(crate) fn timed_out(entry: &Entry) -> ToolError {
    let limit = match entry.tool().spec().timeout {
        crate::tool::Timeout::After(limit) => format!("{} s", limit.as_secs_f64()),
        crate::tool::Timeout::Never => "its time limit".to_owned(),
    };
    let words = format!(
        "{} was stopped: it did not finish within {limit}; the user did not interrupt. Ask for less at once",
        entry.name()
    );
    ToolError::of(ErrorKind::TimedOut, words)
}
