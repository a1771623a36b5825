//! The way of one call, from what the model asked to what it is told: eight steps, in this order, for every call.
//!
//! | step | does | file |
//! |---|---|---|
//! | 1 find | the tool of that name in the turn's snapshot | here |
//! | 2 parse | JSON, schema, typed input, every violation with its path | `parse` |
//! | 3 check | the tool's own sense check | here |
//! | 4 prepare | guards, then hooks: inspect, inject, rewrite, block, decide | `hook` |
//! | 5 authorize | rules, the tool's opinion, mode, hooks, the classifier, the user | `authorize` |
//! | 6 execute | the call itself: limits, locks, time, cancellation, panics | `execute` |
//! | 7 observe | hooks after it, whenever 6 began | `hook` |
//! | 8 settle | the result limit; later the turn's budget | here |
//!
//! `open` does 1 and 2, which need no waiting; the scheduler reads what it finds. `prepare` does 3 to 5 and holds
//! nothing while it waits. `execute::execute` does 6 to 8. None of them fails: failure is an answer for the model.
//!
//! A rewrite in 4, or an edit by the user in 5, goes back to 2 with the new input, a bounded number of times. So what
//! was checked and authorized is what runs, always.

pub(crate) mod authorize;
mod child_requests;
pub(crate) mod digest;
pub(crate) mod execute;
pub(crate) mod hook;
pub(crate) mod parse;
pub(crate) mod running;

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;

use crate::call::ToolCall;
use crate::content::Output;
use crate::context::Context;
use crate::decision::{Decision, DecisionReason, DecisionSource, NEEDS_USER, Verdict};
use crate::effects::Effects;
use crate::effects::resolved::Resolved;
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError};
use crate::event::What;
use crate::future::{Guarded, guarded, within};
use crate::limits;
use crate::ports::Processes;
use crate::registry::{Entry, NotFound, Snapshot, Withheld};
use crate::result::{Parts, ToolResult};
use crate::results::settle;
use crate::tool::erased::Invocation;
use authorize::{Authorization, resolve_effects};
use hook::{Author, Hooked};

/// A call after steps 1 and 2.
pub(crate) struct Opened {
    pub(crate) id: Arc<str>,
    pub(crate) entry: Arc<Entry>,
    pub(crate) attempt: Attempt,
    /// The model had not been shown the schema.
    pub(crate) deferred: bool,
    /// What hooks before the call decided.
    pub(crate) hook_reason: Option<Box<DecisionReason>>,
    /// The hook whose work the input is, if it is one's.
    pub(crate) author: Option<Box<Author>>,
    /// What steps 3 to 5 added. Kept here, behind one pointer, and not in the futures that lead the call.
    pub(crate) prepared: Option<Prepared>,
}

/// One version of a call's input, with all that follows from it.
pub(crate) struct Attempt {
    /// The JSON that is kept: views, hooks, retries and digests read it.
    pub(crate) input: Arc<Value>,
    /// The same, decoded once.
    pub(crate) invocation: Decoded,
    pub(crate) effects: Arc<Effects>,
}

/// A decoded input; used up by running.
pub(crate) struct Decoded(Option<Box<dyn Invocation>>);

impl Decoded {
    pub(crate) fn new(invocation: Box<dyn Invocation>) -> Decoded {
        Decoded(Some(invocation))
    }

    fn take(&mut self) -> Box<dyn Invocation> {
        self.0.take().expect("a call runs once; a retry decodes its input again")
    }
}

/// Dropping an input runs the tool's code, which may panic like any other.
impl Drop for Decoded {
    fn drop(&mut self) {
        let invocation = self.0.take();
        let _ = guarded(|| drop(invocation));
    }
}

impl std::ops::Deref for Decoded {
    type Target = dyn Invocation;

    fn deref(&self) -> &(dyn Invocation + 'static) {
        self.0.as_deref().expect("nothing looks at the decoded input once the call runs")
    }
}

/// What steps 3 to 5 add: the call may run.
pub(crate) struct Prepared {
    pub(crate) decision: Box<Decision>,
    /// The context of this call with what was granted to it beyond what every call may touch.
    pub(crate) granted: Option<Context>,
    /// Words for the model from hooks.
    pub(crate) notes: Vec<String>,
}

/// The paths that a tool writes by itself, of which children that run meanwhile are told.
struct OwnWrites<'a> {
    processes: &'a dyn Processes,
    paths: Vec<PathBuf>,
}

impl<'a> OwnWrites<'a> {
    /// None for a tool that writes nothing, or whose children do.
    fn begin(shared: &'a Shared, entry: &Entry, resolved: &Resolved) -> Option<OwnWrites<'a>> {
        let processes = shared.host.ports.processes.as_deref()?;
        let changed = resolved.writes.iter().chain(&resolved.deletes);
        let paths: Vec<PathBuf> = changed.map(|path| path.at.real.clone()).collect();
        let by_children = entry.tool().spec().runs_in_child() || !resolved.declared.runs.is_empty();
        if paths.is_empty() || by_children {
            return None;
        }
        let _ = guarded(|| processes.begin_writes(&paths));
        Some(OwnWrites { processes, paths })
    }
}

impl Drop for OwnWrites<'_> {
    fn drop(&mut self) {
        let _ = guarded(|| self.processes.end_writes(&self.paths));
    }
}

/// Steps 1 and 2: find the tool and read its input. Never waits.
pub(crate) fn open(shared: &Shared, snapshot: &Snapshot, call: ToolCall) -> Result<Opened, ToolResult> {
    let ToolCall { id, name, input } = call;
    let offer = match snapshot.find(&name) {
        Ok(offer) => offer,
        Err(missing) => return Err(ToolResult::refused(id, name.clone(), not_found(&name, missing))),
    };
    let entry = &offer.entry;
    if entry.tool().spec().needs_user && shared.host.ports.available_asker().is_none() {
        let text =
            format!("{} needs a user to answer, and this session has none; go on without it", entry.name());
        return Err(ToolResult::refused(id, entry.name().clone(), without_user(text)));
    }
    let read = parse::read(entry, input, offer.is_deferred()).map(|mut attempt| {
        attempt.declare(&*shared.authorizer, entry.name(), entry.tool());
        attempt
    });
    match read {
        Ok(attempt) => Ok(Opened {
            id,
            entry: entry.clone(),
            attempt,
            deferred: offer.is_deferred(),
            hook_reason: None,
            author: None,
            prepared: None,
        }),
        Err(error) => Err(ToolResult::refused(id, entry.name().clone(), error)),
    }
}

/// Steps 3 to 5: sense, hooks, permission. Holds no slot and no lock; `asking` is told before a user is asked.
///
/// What is rare is boxed, so that the future of a call that needs none of it stays small.
pub(crate) async fn prepare(
    shared: &Shared,
    opened: &mut Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<(), ToolResult> {
    let mut notes = Vec::new();
    for _ in 0..=limits::REWRITES_MAX {
        opened.attempt.declare(&*shared.authorizer, opened.entry.name(), opened.entry.tool());
        // 3 check
        match within(limits::CHECK_TIMEOUT, Guarded::new(|| opened.attempt.invocation.check(cx))).await {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                let refused = opened.refused(senseless(opened.entry.name(), error));
                return Err(Author::refused(opened.author.as_deref(), refused));
            }
            Some(Err(_)) => return Err(opened.refused(panicked(opened.entry.name()))),
            None => {
                let words = format!("{} was not run: checking its input took too long", opened.entry.name());
                return Err(opened.refused(ToolError::of(ErrorKind::TimedOut, words)));
            }
        }
        // 4 prepare
        if hook::any_before(shared, opened) {
            match Box::pin(hook::before(shared, opened, cx, &mut notes)).await {
                Hooked::Same(decided) => opened.hook_reason = decided.map(Box::new),
                Hooked::Rewritten(input, author) => {
                    opened.reread(input).map_err(|refused| Author::refused(author.as_deref(), refused))?;
                    opened.author = author;
                    continue;
                }
                Hooked::Stopped(error, reason) => {
                    let decision = authorize::decide_stopped(shared, opened, cx, reason);
                    return Err(opened.refused(error.with_decision(decision)));
                }
            }
        }
        // 5 authorize
        let error = match authorize::authorize(shared, opened, cx, asking).await {
            Authorization::Allowed(decision) => {
                opened.prepared = Some(decision.prepared(cx, notes));
                return Ok(());
            }
            Authorization::Edited(input, author) => {
                opened.reread(input).map_err(|refused| Author::refused(author.as_deref(), refused))?;
                opened.author = author;
                continue;
            }
            Authorization::RefusedByHook(error) => {
                return Err(opened.refused(error).with(|parts| parts.notes = notes));
            }
            Authorization::Refused(error) => error,
        };
        // What hooks had to say is said although the call is not made.
        return Err(Box::pin(refused(shared, opened, cx, error, notes)).await);
    }
    let words = format!(
        "the input of {} was rewritten {} times and is still not settled; this call was stopped",
        opened.entry.name(),
        limits::REWRITES_MAX
    );
    let reason = DecisionReason::new(DecisionSource::Failure, Verdict::Deny, words.clone());
    let decision = authorize::decide_stopped(shared, opened, cx, reason);
    Err(opened.refused(ToolError::of(ErrorKind::Blocked, words).with_decision(decision)))
}

/// Step 5 again, for a call that had to wait: what it touches may have changed meanwhile.
pub(crate) async fn prepare_again(
    shared: &Shared,
    opened: &mut Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<(), ToolResult> {
    let resolved = resolve_effects(&opened.attempt.effects, cx);
    let Some(before) = opened.prepared.take() else { return Ok(()) };
    if resolved == before.decision.effects.resolved {
        opened.prepared = Some(before);
        return Ok(());
    }
    let error = match authorize::authorize(shared, opened, cx, asking).await {
        Authorization::Allowed(decision) => {
            opened.prepared = Some(decision.prepared(cx, before.notes));
            return Ok(());
        }
        Authorization::Edited(..) => {
            let words = "its input was changed after it had been prepared; ask for it again";
            let reason = DecisionReason::new(DecisionSource::Failure, Verdict::Deny, words);
            let decision = before.decision.with_reason(reason);
            return Err(opened.refused(ToolError::of(ErrorKind::Denied, words).with_decision(decision)));
        }
        Authorization::RefusedByHook(error) => return Err(opened.refused(error)),
        Authorization::Refused(error) => error,
    };
    Err(Box::pin(refused(shared, opened, cx, error, before.notes)).await)
}

/// The result of a call that step 5 refused.
async fn refused(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    error: ToolError,
    mut notes: Vec<String>,
) -> ToolResult {
    let mut stop = None;
    if error.kind() == ErrorKind::Denied && !shared.hooks.denied.is_empty() {
        let hooks = hook::denied(shared, opened, cx, error.message(), &mut notes);
        stop = Box::pin(hooks).await.map(Into::into);
    }
    opened.refused(error).with(|parts| (parts.notes, parts.stop) = (notes, stop))
}

/// What a call came to, on its way through step 8.
pub(crate) struct Outcome {
    pub(crate) outcome: Result<Output, ToolError>,
    pub(crate) notes: Vec<String>,
    /// A hook ends the turn, for this reason. Rare, so it takes little room.
    #[expect(clippy::box_collection, reason = "one word where a string takes three")]
    pub(crate) stop: Option<Box<String>>,
    pub(crate) duration: Duration,
}

/// Step 8: within the tool's limit, the whole in a file if it is longer.
pub(crate) fn settled(shared: &Shared, opened: &Opened, done: Outcome) -> ToolResult {
    let limit = opened.entry.tool().spec().result_limit;
    let settle = |output| settle(output, opened.entry.name(), limit, &shared.store);
    let Outcome { outcome, notes, stop, duration } = done;
    let (outcome, stop) = (outcome.map(Output::with_bounded_links), stop.map(|stop| (*stop).into()));
    let (outcome, offloaded_to, cut) = match outcome.map(settle) {
        Ok(settled) => (Ok(settled.output), settled.offloaded_to, settled.cut),
        Err(error) => (Err(error), None, None),
    };
    ToolResult::of(Parts { outcome, offloaded_to, cut, notes, stop, duration, ..opened.parts() })
}

impl Opened {
    /// Back to step 2 with another input.
    fn reread(&mut self, input: Value) -> Result<(), ToolResult> {
        match parse::read(&self.entry, input.into(), self.deferred) {
            Ok(attempt) => {
                self.attempt = attempt;
                Ok(())
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The result of a call that was not made.
    pub(crate) fn refused(&self, error: ToolError) -> ToolResult {
        ToolResult::of(Parts { outcome: Err(error), ..self.parts() })
    }

    /// A result of this call as hooks see it, before it is settled.
    fn seen(&self, done: &Outcome) -> ToolResult {
        let Outcome { outcome, notes, duration, .. } = done;
        let (outcome, notes) = (outcome.clone(), notes.clone());
        ToolResult::of(Parts { outcome, notes, duration: *duration, ..self.parts() })
    }

    /// What every result of this call says.
    fn parts(&self) -> Parts {
        Parts {
            call_id: self.id.clone(),
            tool_name: self.entry.name().clone(),
            tool: Some(self.entry.tool().clone()),
            input: Some(self.attempt.input.clone()),
            outcome: Ok(Output::default()),
            notes: Vec::new(),
            stop: None,
            duration: Duration::ZERO,
            was_concurrent: false,
            offloaded_to: None,
            cut: None,
            limit: self.entry.tool().spec().result_limit,
        }
    }
}

/// What the tool says this call will touch; unknown if it can't say.
pub(crate) fn effects_of(invocation: &dyn Invocation) -> Arc<Effects> {
    static NONE: LazyLock<Arc<Effects>> = LazyLock::new(|| Arc::new(Effects::none()));
    match guarded(|| invocation.effects()) {
        Ok(effects) if effects.is_none() => NONE.clone(),
        Ok(effects) if effects.consistent().is_ok() => Arc::new(effects),
        _ => Arc::new(Effects::unknown()),
    }
}

/// The error of a call that finds no tool that it may use. A tool that a rule denies, or that needs a user where there is none,
/// was decided on without its input.
fn not_found(name: &str, missing: NotFound) -> ToolError {
    let unknown = |text: String| ToolError::of(ErrorKind::UnknownTool, text);
    match missing {
        NotFound::Unknown(near) if near.is_empty() => unknown(format!("no tool named `{name}`")),
        NotFound::Unknown(near) => unknown(format!("no tool named `{name}`; closest: {}", near.join(", "))),
        NotFound::Withheld(tool, Withheld::Denied(reason)) => {
            let text = format!("{tool} is denied by {reason}\ndo not try another tool for the same purpose");
            ToolError::of(ErrorKind::Denied, text).with_decision(Decision::deny_unread(reason))
        }
        NotFound::Withheld(tool, why @ Withheld::NeedsUser) => {
            without_user(format!("{tool} can't be used: {why}"))
        }
        NotFound::Withheld(tool, why) => unknown(format!("{tool} is not offered: {why}")),
    }
}

/// The error of a call that only a user could answer, in a session without one.
fn without_user(text: String) -> ToolError {
    let reason = DecisionReason::new(DecisionSource::NoUser, Verdict::Deny, NEEDS_USER);
    ToolError::of(ErrorKind::NotInteractive, text).with_decision(Decision::deny_unread(reason))
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
    cx.host().tell(cx.call().turn(), Some(cx.call_ref()), what);
}
