//! The way of one call, from what the model asked to what it is told: eight steps, in this order, for every call.
//!
//! | step | does | file |
//! |---|---|---|
//! | 1 find | the tool of that name in the turn's snapshot | here |
//! | 2 parse | JSON, schema, typed input, every violation with its path | [`parse`] |
//! | 3 check | the tool's own sense check | here |
//! | 4 prepare | guards, then hooks: inspect, inject, rewrite, block, decide | [`hook`] |
//! | 5 authorize | rules, the tool's opinion, mode, hooks, the user | [`authorize`] |
//! | 6 execute | the call itself: limits, locks, time, cancellation, panics | [`execute`] |
//! | 7 observe | hooks after it, whenever 6 began | [`hook`] |
//! | 8 settle | the result limit; later the turn's budget | here |
//!
//! [`open`] does 1 and 2, which need no waiting; the scheduler reads what it finds. [`prepare`] does 3 to 5 and holds
//! nothing while it waits. [`execute::execute`] does 6 to 8. None of them fails: failure is an answer for the model.
//!
//! A rewrite in 4, or an edit by the user in 5, goes back to 2 with the new input, a bounded number of times. So what
//! was checked and authorized is what runs, always.

pub(crate) mod authorize;
pub(crate) mod digest;
pub(crate) mod execute;
pub(crate) mod hook;
pub(crate) mod parse;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::call::ToolCall;
use crate::context::Context;
use crate::effects::Effects;
use crate::effects::resolved::Resolved;
use crate::effects::table::Judgement;
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError};
use crate::event::What;
use crate::future::{Guarded, guarded};
use crate::limits;
use crate::registry::{Entry, NotFound, Snapshot, Withheld};
use crate::result::{Parts, ToolResult};
use crate::results::settle;
use crate::tool::erased::Invocation;
use authorize::{Allowed, Decided};
use hook::Hooked;

/// A call after steps 1 and 2.
pub(crate) struct Opened {
    pub(crate) id: Arc<str>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) attempt: Attempt,
    /// The model had not been shown the schema.
    pub(crate) deferred: bool,
}

/// One version of a call's input, with all that follows from it.
pub(crate) struct Attempt {
    /// The JSON that is kept: views, hooks, retries and digests read it.
    pub(crate) input: Arc<Value>,
    /// The same, decoded once.
    pub(crate) invocation: Box<dyn Invocation>,
    pub(crate) effects: Arc<Effects>,
}

/// A call after steps 3 to 5: it may run.
pub(crate) struct Prepared {
    pub(crate) opened: Opened,
    pub(crate) resolved: Resolved,
    pub(crate) judgement: Judgement,
    pub(crate) allowed: Allowed,
    /// The context of this call with what was granted.
    pub(crate) cx: Context,
    /// Words for the model from hooks.
    pub(crate) notes: Vec<String>,
}

/// Steps 1 and 2: find the tool and read its input. Never waits.
pub(crate) fn open(shared: &Shared, snapshot: &Snapshot, call: ToolCall) -> Result<Opened, ToolResult> {
    let ToolCall { id, name, input } = call;
    let offer = match snapshot.find(&name) {
        Ok(offer) => offer,
        Err(missing) => return Err(ToolResult::refused(id, name.clone(), not_found(&name, missing))),
    };
    let entry = &offer.entry;
    if entry.tool().spec().needs_user && shared.host.ports.asker.is_none() {
        let words =
            format!("{} needs a user to answer, and this session has none; go on without it", entry.name());
        let error = ToolError::of(ErrorKind::NotInteractive, words);
        return Err(ToolResult::refused(id, entry.name().clone(), error));
    }
    match parse::read(entry, input, offer.is_deferred()) {
        Ok(attempt) => Ok(Opened { id, entry: entry.clone(), attempt, deferred: offer.is_deferred() }),
        Err(error) => Err(ToolResult::refused(id, entry.name().clone(), error)),
    }
}

/// Steps 3 to 5: sense, hooks, permission. Holds no slot and no lock; `asking` is told before a user is asked.
pub(crate) async fn prepare(
    shared: &Shared,
    mut opened: Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<Prepared, ToolResult> {
    let mut notes = Vec::new();
    for _ in 0..=limits::REWRITES_MAX {
        // 3 check
        let attempt = &opened.attempt;
        let sense = Guarded::new(|| attempt.invocation.check(cx)).await;
        match sense {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(opened.refused(senseless(opened.entry.name(), error))),
            Err(_) => return Err(opened.refused(panicked(opened.entry.name()))),
        }
        // 4 prepare
        let decision = match hook::before(shared, &opened, cx, &mut notes).await {
            Hooked::Same(decision) => decision,
            Hooked::Rewritten(input) => {
                opened = opened.reread(input)?;
                continue;
            }
            Hooked::Stopped(error) => return Err(opened.refused(error)),
        };
        // 5 authorize
        match authorize::authorize(shared, &opened, cx, decision, asking).await {
            Decided::Allowed { resolved, judgement, allowed } => {
                let cx = execute::grant(cx, &resolved);
                return Ok(Prepared { opened, resolved, judgement, allowed, cx, notes });
            }
            Decided::Edited(input) => opened = opened.reread(input)?,
            Decided::Refused(error) => return Err(opened.refused(error)),
        }
    }
    let words = format!(
        "the input of {} was rewritten {} times and is still not settled; this call was stopped",
        opened.entry.name(),
        limits::REWRITES_MAX
    );
    Err(opened.refused(ToolError::of(ErrorKind::Blocked, words)))
}

/// Step 5 again, for a call that had to wait: what it touches may have changed meanwhile.
pub(crate) async fn prepare_again(
    shared: &Shared,
    prepared: Prepared,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<Prepared, ToolResult> {
    let resolved = Resolved::resolve(prepared.opened.attempt.effects.clone(), cx.cwd());
    if resolved == prepared.resolved {
        return Ok(prepared);
    }
    let Prepared { opened, notes, .. } = prepared;
    match authorize::authorize(shared, &opened, cx, None, asking).await {
        Decided::Allowed { resolved, judgement, allowed } => {
            let cx = execute::grant(cx, &resolved);
            Ok(Prepared { opened, resolved, judgement, allowed, cx, notes })
        }
        Decided::Edited(_) => {
            let words = "its input was changed after it had been prepared; ask for it again";
            Err(opened.refused(ToolError::of(ErrorKind::Denied, words)))
        }
        Decided::Refused(error) => Err(opened.refused(error)),
    }
}

/// What a call came to, on its way through step 8.
pub(crate) struct Outcome {
    pub(crate) outcome: Result<crate::content::Output, ToolError>,
    pub(crate) notes: Vec<String>,
    pub(crate) duration: Duration,
}

/// Step 8: within the tool's limit, the whole in a file if it is longer.
pub(crate) fn settled(
    shared: &Shared,
    id: Arc<str>,
    entry: &Entry,
    input: Arc<Value>,
    done: Outcome,
) -> ToolResult {
    let limit = entry.tool().spec().result_limit;
    let (outcome, offloaded_to, cut) = match done.outcome {
        Ok(output) => {
            let settled = settle(output, entry.name(), limit, &shared.store);
            (Ok(settled.output), settled.offloaded_to, settled.cut)
        }
        Err(error) => (Err(error), None, None),
    };
    ToolResult::of(Parts {
        call_id: id,
        tool_name: entry.name().clone(),
        tool: Some(entry.tool().clone()),
        input: Some(input),
        outcome,
        notes: done.notes,
        duration: done.duration,
        was_concurrent: false,
        offloaded_to,
        cut,
        limit,
    })
}

impl Opened {
    /// Back to step 2 with another input.
    fn reread(self, input: Value) -> Result<Opened, ToolResult> {
        match parse::read(&self.entry, input.into(), self.deferred) {
            Ok(attempt) => Ok(Opened { attempt, ..self }),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The result of a call that was not made.
    pub(crate) fn refused(&self, error: ToolError) -> ToolResult {
        let tool = self.entry.tool().clone();
        ToolResult::refused(self.id.clone(), self.entry.name().clone(), error).with(|parts| {
            parts.tool = Some(tool);
            parts.input = Some(self.attempt.input.clone());
        })
    }
}

/// What the tool says this call will touch; unknown if it can't say.
pub(crate) fn effects_of(invocation: &dyn Invocation) -> Effects {
    match guarded(|| invocation.effects()) {
        Ok(effects) if effects.consistent().is_ok() => effects,
        _ => Effects::unknown(),
    }
}

fn not_found(name: &str, missing: NotFound) -> ToolError {
    let (kind, words) = match missing {
        NotFound::Unknown(near) if near.is_empty() => {
            (ErrorKind::UnknownTool, format!("no tool named `{name}`"))
        }
        NotFound::Unknown(near) => {
            (ErrorKind::UnknownTool, format!("no tool named `{name}`; closest: {}", near.join(", ")))
        }
        NotFound::Withheld(tool, why @ Withheld::Denied(_)) => {
            (ErrorKind::Denied, format!("{tool} is {why}\ndo not try another tool for the same purpose"))
        }
        NotFound::Withheld(tool, why @ Withheld::NeedsUser) => {
            (ErrorKind::NotInteractive, format!("{tool} can't be used: {why}"))
        }
        NotFound::Withheld(tool, why) => (ErrorKind::UnknownTool, format!("{tool} is not offered: {why}")),
    };
    ToolError::of(kind, words)
}

/// The words of a sense check, said to be that.
fn senseless(tool: &str, error: ToolError) -> ToolError {
    if error.kind() == ErrorKind::InvalidInput && error.is_semantic() {
        return error;
    }
    ToolError::senseless(format!("{tool} can't do that: {}", error.message()))
}

pub(crate) fn panicked(tool: &str) -> ToolError {
    let words =
        format!("{tool} panicked: this is a fault of the tool, not of your input; its result is lost");
    ToolError::of(ErrorKind::Panicked, words)
}

/// Tells the watchers, if there are any.
pub(crate) fn tell(cx: &Context, what: impl FnOnce() -> What) {
    cx.host().tell(cx.turn(), Some(cx.call_ref()), what);
}
