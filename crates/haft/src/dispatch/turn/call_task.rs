//! The task of one call, and the guarantee that the call gets a result however the task ends.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;

use haft_scheduler::{Cause, until_cancelled};
use tokio::time::Instant;

use super::{CallStart, LiveCall, TurnShared};
use crate::context::Context;
use crate::error::{ErrorKind, ToolError};
use crate::event::CallRef;
use crate::pipeline::execute::{execute_call, not_run};
use crate::pipeline::{self, OpenedCall};
use crate::result::ToolResult;

/// Runs one call: prepares it, waits for conflicting calls and for a slot, executes it, and delivers its
/// result.
pub(super) async fn drive_call(mut guard: ResultGuard, mut start: Box<CallStart>) {
    let (turn, cx) = (&guard.turn, &guard.cx);
    let call = cx.call().index();
    let asking = || {
        turn.batch.begin_asking(call);
        turn.go();
    };
    let mut began = false;
    let result = 'result: {
        let prepared = {
            let preparing = pin!(pipeline::prepare_call(&turn.engine, &mut start.opened, cx, &asking));
            until_cancelled(cx.cancel(), preparing).await
        };
        match prepared {
            Ok(Ok(())) => {}
            Ok(Err(result)) => break 'result result,
            Err(cause) => break 'result guard.cancelled(&start.opened, cause),
        }
        // What was found out since the call was pushed may make it conflict with others.
        if turn.changed(&start).is_some() {
            let waiting = Box::pin(turn.reconsider(&mut start, cx, &asking));
            match until_cancelled(cx.cancel(), waiting).await {
                Ok(Ok(())) => {}
                Ok(Err(result)) => break 'result result,
                Err(cause) => break 'result guard.cancelled(&start.opened, cause),
            }
        }
        if !turn.batch.authorize(call) {
            turn.go();
            if let Err(cause) = until_cancelled(cx.cancel(), turn.batch.wait(call)).await {
                break 'result guard.cancelled(&start.opened, cause);
            }
        }
        began = true;
        let limit = start.opened.entry.tool().spec().timeout.limit();
        let live = LiveCall { turn: turn.clone(), cx: cx.clone() };
        let watch = |started: Instant| {
            // In this order: what an interrupt spares, it finds here.
            let watching = turn.engine.supervisor.watch(started, limit, live);
            if let Some(cause) = turn.batch.mark_running(call) {
                cx.cancel().cancel(cause);
            }
            watching
        };
        execute_call(&turn.engine, &mut start.opened, cx, watch).await
    };
    // One that went to the background, or was answered in its place, has no siblings any more: those that run
    // now are others.
    let failed = began && result.error_kind().is_some_and(ErrorKind::began) && !turn.batch.is_done(call);
    let stops_siblings = failed && turn.stops_siblings(&start.opened.entry);
    let ends_turn = result.ends_turn();
    let by_hook = result.stop_reason().is_some()
        || result.error().is_some_and(|error| error.cause() == Some(Cause::Hook));
    // Before the call has its result: from then on whoever ends beside it may let the next ones go.
    if stops_siblings {
        turn.batch.stop_siblings(call);
    }
    if ends_turn {
        turn.stop(if by_hook { Cause::Hook } else { Cause::User }, false);
    }
    let others = match guard.complete(result) {
        Ok(others) => others,
        Err(late) => {
            if let Some(task) = guard.cx.running().task() {
                guard.turn.came_back(task, &guard.cx, late);
            }
            true
        }
    };
    if others {
        guard.turn.go();
    }
}

/// Guarantees a result: if the task ends without one, by a panic of ours or because the runtime goes down,
/// the call still gets one.
pub(super) struct ResultGuard {
    turn: Arc<TurnShared>,
    cx: Context,
    is_complete: bool,
}

impl ResultGuard {
    pub(super) fn new(turn: Arc<TurnShared>, cx: Context) -> ResultGuard {
        ResultGuard { turn, cx, is_complete: false }
    }

    /// Gives the call its result, or gives it back if somebody else did. Says whether others may go now.
    pub(super) fn complete(&mut self, result: ToolResult) -> Result<bool, ToolResult> {
        self.is_complete = true;
        self.turn.end(self.cx.call().index(), result)
    }

    fn cancelled(&self, opened: &OpenedCall, cause: Cause) -> ToolResult {
        opened.refused(not_run(&self.cx.call_ref().tool, cause))
    }
}

impl Drop for ResultGuard {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let CallRef { index, id, tool } = self.cx.call_ref();
        let error = ToolError::cancelled(Cause::Shutdown, &format!("{tool} was {}", Cause::Shutdown.words()));
        if self.turn.end(*index, ToolResult::refused(id.clone(), tool.clone(), error)).is_err() {
            return;
        }
        // A panic of ours: the others go on. Otherwise the runtime goes down under the turn: it is over.
        let is_over = !std::thread::panicking();
        go_after_loss(&self.turn, is_over);
    }
}

/// The turn of a call whose task was lost, and whether the turn is over.
type LostCall = (Arc<TurnShared>, bool);

thread_local! {
    /// Turns that lost a call while `go_after_loss` runs on this thread.
    static LOSSES: RefCell<Option<Vec<LostCall>>> = const { RefCell::new(None) };
}

/// Lets others go after the task of a call was lost; first ends the turn if `is_over`.
///
/// A call that begins on a runtime that is gone is lost at once, so this would call itself, once for each
/// call that waits. The outermost one does it for all of them.
fn go_after_loss(turn: &Arc<TurnShared>, is_over: bool) {
    let outermost = LOSSES.try_with(|losses| {
        let mut losses = losses.borrow_mut();
        let is_outermost = losses.is_none();
        losses.get_or_insert_default().push((turn.clone(), is_over));
        is_outermost.then(|| LossGuard)
    });
    // A thread that ends has no list any more: then it is one call after the other.
    let Ok(outermost) = outermost else { return settle_loss(turn, is_over) };
    let Some(_guard) = outermost else { return };
    while let Some((turn, is_over)) = LOSSES.with_borrow_mut(|losses| losses.as_mut().and_then(Vec::pop)) {
        settle_loss(&turn, is_over);
    }
}

fn settle_loss(turn: &Arc<TurnShared>, is_over: bool) {
    if is_over {
        turn.stop(Cause::Shutdown, true);
    } else {
        turn.go();
    }
}

/// Ends the list of the outermost `go_after_loss`, also after a panic.
struct LossGuard;

impl Drop for LossGuard {
    fn drop(&mut self) {
        drop(LOSSES.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A task that fits the allocator's small sizes costs half of one that does not.
    #[test]
    fn the_future_of_a_call_is_small() {
        fn size<A, B, F>(_: impl FnOnce(A, B) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(drive_call) <= 848, "{} bytes", size(drive_call));
    }
}
