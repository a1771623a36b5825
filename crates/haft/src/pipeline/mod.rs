//! The way of one call, from what the model asked to what it is told: eight steps, in this order, for every
//! call.
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
//! `open_call` does 1 and 2, which need no waiting; the scheduler reads what it finds. `prepare_call` does 3
//! to 5 and holds nothing while it waits. `execute::execute_call` does 6 to 8. None of them fails: failure is
//! an answer for the model.
//!
//! A rewrite in 4, or an edit by the user in 5, goes back to 2 with the new input, a bounded number of times.
//! So what was checked and authorized is what runs, always.

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
use crate::content::ToolOutput;
use crate::context::Context;
use crate::decision::{Decision, DecisionReason, DecisionSource, NEEDS_USER, Verdict};
use crate::effects::Effects;
use crate::effects::resolved::ResolvedEffects;
use crate::engine::EngineCore;
use crate::error::{ErrorKind, ToolError};
use crate::event::EventKind;
use crate::future::{GuardedFuture, catch_panic, with_timeout};
use crate::limits;
use crate::ports::Processes;
use crate::registry::{RegisteredTool, Snapshot, ToolNotFound, WithheldReason};
use crate::result::{ResultParts, ToolResult};
use crate::results::limit_output;
use crate::tool::erased::ToolInvocation;
use authorize::{AuthorizationOutcome, resolve_effects};
use hook::{HookedInput, InputAuthor};

/// A call after steps 1 and 2.
pub(crate) struct OpenedCall {
    pub(crate) id: Arc<str>,
    pub(crate) entry: Arc<RegisteredTool>,
    pub(crate) attempt: CallAttempt,
    /// The model had not been shown the schema.
    pub(crate) deferred: bool,
    /// What hooks before the call decided.
    pub(crate) hook_reason: Option<Box<DecisionReason>>,
    /// The hook whose work the input is, if it is one's.
    pub(crate) author: Option<Box<InputAuthor>>,
    /// What steps 3 to 5 added. Kept here, behind one pointer, and not in the futures that lead the call.
    pub(crate) prepared: Option<PreparedCall>,
}

/// One version of a call's input, with all that follows from it.
pub(crate) struct CallAttempt {
    /// The JSON that is kept: views, hooks, retries and digests read it.
    pub(crate) input: Arc<Value>,
    /// The same, decoded once.
    pub(crate) invocation: DecodedInput,
    pub(crate) effects: Arc<Effects>,
}

/// A decoded input; used up by running.
pub(crate) struct DecodedInput(Option<Box<dyn ToolInvocation>>);

impl DecodedInput {
    pub(crate) fn new(invocation: Box<dyn ToolInvocation>) -> DecodedInput {
        DecodedInput(Some(invocation))
    }

    fn take(&mut self) -> Box<dyn ToolInvocation> {
        self.0.take().expect("a call runs once; a retry decodes its input again")
    }
}

/// Dropping an input runs the tool's code, which may panic like any other.
impl Drop for DecodedInput {
    fn drop(&mut self) {
        let invocation = self.0.take();
        let _ = catch_panic(|| drop(invocation));
    }
}

impl std::ops::Deref for DecodedInput {
    type Target = dyn ToolInvocation;

    fn deref(&self) -> &(dyn ToolInvocation + 'static) {
        self.0.as_deref().expect("nothing looks at the decoded input once the call runs")
    }
}

/// What steps 3 to 5 add: the call may run.
pub(crate) struct PreparedCall {
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
    fn begin(
        shared: &'a EngineCore,
        entry: &RegisteredTool,
        resolved: &ResolvedEffects,
    ) -> Option<OwnWrites<'a>> {
        let processes = shared.host.ports.processes.as_deref()?;
        let changed = resolved.writes.iter().chain(&resolved.deletes);
        let paths: Vec<PathBuf> = changed.map(|path| path.at.real.clone()).collect();
        let by_children = entry.tool().spec().runs_in_child() || !resolved.declared.runs.is_empty();
        if paths.is_empty() || by_children {
            return None;
        }
        let _ = catch_panic(|| processes.begin_writes(&paths));
        Some(OwnWrites { processes, paths })
    }
}

impl Drop for OwnWrites<'_> {
    fn drop(&mut self) {
        let _ = catch_panic(|| self.processes.end_writes(&self.paths));
    }
}

/// Steps 1 and 2: find the tool and read its input. Never waits.
pub(crate) fn open_call(
    shared: &EngineCore,
    snapshot: &Snapshot,
    call: ToolCall,
) -> Result<OpenedCall, ToolResult> {
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
    let read = parse::parse_input(entry, input, offer.is_deferred()).map(|mut attempt| {
        attempt.take_rule_effects(&*shared.authorizer, entry.name(), entry.tool());
        attempt
    });
    match read {
        Ok(attempt) => Ok(OpenedCall {
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

/// Steps 3 to 5: sense, hooks, permission. Holds no slot and no lock; `asking` is told before a user is
/// asked.
///
/// What is rare is boxed, so that the future of a call that needs none of it stays small.
pub(crate) async fn prepare_call(
    shared: &EngineCore,
    opened: &mut OpenedCall,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<(), ToolResult> {
    let mut notes = Vec::new();
    for _ in 0..=limits::REWRITES_MAX {
        opened.attempt.take_rule_effects(&*shared.authorizer, opened.entry.name(), opened.entry.tool());
        // 3 check
        match with_timeout(limits::CHECK_TIMEOUT, GuardedFuture::new(|| opened.attempt.invocation.check(cx)))
            .await
        {
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                let refused = opened.refused(invalid_input_error(opened.entry.name(), error));
                return Err(InputAuthor::refused(opened.author.as_deref(), refused));
            }
            Some(Err(_)) => return Err(opened.refused(panic_error(opened.entry.name()))),
            None => {
                let words = format!("{} was not run: checking its input took too long", opened.entry.name());
                return Err(opened.refused(ToolError::with_kind(ErrorKind::TimedOut, words)));
            }
        }
        // 4 prepare
        if hook::any_before(shared, opened) {
            match Box::pin(hook::run_pre_hooks(shared, opened, cx, &mut notes)).await {
                HookedInput::Same(decided) => opened.hook_reason = decided.map(Box::new),
                HookedInput::Rewritten(input, author) => {
                    opened
                        .replace_input(input)
                        .map_err(|refused| InputAuthor::refused(author.as_deref(), refused))?;
                    opened.author = author;
                    continue;
                }
                HookedInput::Stopped(error, reason) => {
                    let decision = authorize::decide_stopped(shared, opened, cx, reason);
                    return Err(opened.refused(error.with_decision(decision)));
                }
            }
        }
        // 5 authorize
        let error = match authorize::authorize_call(shared, opened, cx, asking).await {
            AuthorizationOutcome::Allowed(decision) => {
                opened.prepared = Some(decision.prepared(cx, notes));
                return Ok(());
            }
            AuthorizationOutcome::Edited(input, author) => {
                opened
                    .replace_input(input)
                    .map_err(|refused| InputAuthor::refused(author.as_deref(), refused))?;
                opened.author = author;
                continue;
            }
            AuthorizationOutcome::RefusedByHook(error) => {
                return Err(opened.refused(error).with(|parts| parts.notes = notes));
            }
            AuthorizationOutcome::Refused(error) => error,
        };
        // What hooks had to say is said although the call is not made.
        return Err(Box::pin(deny_call(shared, opened, cx, error, notes)).await);
    }
    let words = format!(
        "the input of {} was rewritten {} times and is still not settled; this call was stopped",
        opened.entry.name(),
        limits::REWRITES_MAX
    );
    let reason = DecisionReason::new(DecisionSource::Failure, Verdict::Deny, words.clone());
    let decision = authorize::decide_stopped(shared, opened, cx, reason);
    Err(opened.refused(ToolError::with_kind(ErrorKind::Blocked, words).with_decision(decision)))
}

/// Step 5 again, for a call that had to wait: what it touches may have changed meanwhile.
pub(crate) async fn prepare_again(
    shared: &EngineCore,
    opened: &mut OpenedCall,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Result<(), ToolResult> {
    let resolved = resolve_effects(&opened.attempt.effects, cx);
    let Some(before) = opened.prepared.take() else { return Ok(()) };
    if resolved == before.decision.effects.resolved {
        opened.prepared = Some(before);
        return Ok(());
    }
    let error = match authorize::authorize_call(shared, opened, cx, asking).await {
        AuthorizationOutcome::Allowed(decision) => {
            opened.prepared = Some(decision.prepared(cx, before.notes));
            return Ok(());
        }
        AuthorizationOutcome::Edited(..) => {
            let words = "its input was changed after it had been prepared; ask for it again";
            let reason = DecisionReason::new(DecisionSource::Failure, Verdict::Deny, words);
            let decision = before.decision.with_reason(reason);
            return Err(
                opened.refused(ToolError::with_kind(ErrorKind::Denied, words).with_decision(decision))
            );
        }
        AuthorizationOutcome::RefusedByHook(error) => return Err(opened.refused(error)),
        AuthorizationOutcome::Refused(error) => error,
    };
    Err(Box::pin(deny_call(shared, opened, cx, error, before.notes)).await)
}

/// The result of a call that step 5 refused.
async fn deny_call(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    error: ToolError,
    mut notes: Vec<String>,
) -> ToolResult {
    let mut stop = None;
    if error.kind() == ErrorKind::Denied && !shared.hooks.denied.is_empty() {
        let hooks = hook::run_denied_hooks(shared, opened, cx, error.message(), &mut notes);
        stop = Box::pin(hooks).await.map(Into::into);
    }
    opened.refused(error).with(|parts| (parts.notes, parts.stop) = (notes, stop))
}

/// What a call came to, on its way through step 8.
pub(crate) struct CallOutcome {
    pub(crate) outcome: Result<ToolOutput, ToolError>,
    pub(crate) notes: Vec<String>,
    /// A hook ends the turn, for this reason. Rare, so it takes little room.
    #[expect(clippy::box_collection, reason = "one word where a string takes three")]
    pub(crate) stop: Option<Box<String>>,
    pub(crate) duration: Duration,
}

/// Step 8: within the tool's limit, the whole in a file if it is longer.
pub(crate) fn finish_result(shared: &EngineCore, opened: &OpenedCall, done: CallOutcome) -> ToolResult {
    let limit = opened.entry.tool().spec().result_limit;
    let settle = |output| limit_output(output, opened.entry.name(), limit, &shared.store);
    let CallOutcome { outcome, notes, stop, duration } = done;
    let (outcome, stop) = (outcome.map(ToolOutput::with_bounded_links), stop.map(|stop| (*stop).into()));
    let (outcome, offloaded_to, cut) = match outcome.map(settle) {
        Ok(settled) => (Ok(settled.output), settled.offloaded_to, settled.cut),
        Err(error) => (Err(error), None, None),
    };
    ToolResult::from_parts(ResultParts {
        outcome,
        offloaded_to,
        cut,
        notes,
        stop,
        duration,
        ..opened.parts()
    })
}

impl OpenedCall {
    /// Back to step 2 with another input.
    fn replace_input(&mut self, input: Value) -> Result<(), ToolResult> {
        match parse::parse_input(&self.entry, input.into(), self.deferred) {
            Ok(attempt) => {
                self.attempt = attempt;
                Ok(())
            }
            Err(error) => Err(self.refused(error)),
        }
    }

    /// The result of a call that was not made.
    pub(crate) fn refused(&self, error: ToolError) -> ToolResult {
        ToolResult::from_parts(ResultParts { outcome: Err(error), ..self.parts() })
    }

    /// A result of this call as hooks see it, before it is settled.
    fn seen(&self, done: &CallOutcome) -> ToolResult {
        let CallOutcome { outcome, notes, duration, .. } = done;
        let (outcome, notes) = (outcome.clone(), notes.clone());
        ToolResult::from_parts(ResultParts { outcome, notes, duration: *duration, ..self.parts() })
    }

    /// What every result of this call says.
    fn parts(&self) -> ResultParts {
        ResultParts {
            call_id: self.id.clone(),
            tool_name: self.entry.name().clone(),
            tool: Some(self.entry.tool().clone()),
            input: Some(self.attempt.input.clone()),
            outcome: Ok(ToolOutput::default()),
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
pub(crate) fn effects_of(invocation: &dyn ToolInvocation) -> Arc<Effects> {
    static NONE: LazyLock<Arc<Effects>> = LazyLock::new(|| Arc::new(Effects::none()));
    match catch_panic(|| invocation.effects()) {
        Ok(effects) if effects.is_none() => NONE.clone(),
        Ok(effects) if effects.consistent().is_ok() => Arc::new(effects),
        _ => Arc::new(Effects::unknown()),
    }
}

/// The error of a call that finds no tool that it may use. A tool that a rule denies, or that needs a user
/// where there is none, was decided on without its input.
fn not_found(name: &str, missing: ToolNotFound) -> ToolError {
    let unknown = |text: String| ToolError::with_kind(ErrorKind::UnknownTool, text);
    match missing {
        ToolNotFound::Unknown(near) if near.is_empty() => unknown(format!("no tool named `{name}`")),
        ToolNotFound::Unknown(near) => {
            unknown(format!("no tool named `{name}`; closest: {}", near.join(", ")))
        }
        ToolNotFound::Withheld(tool, WithheldReason::Denied(reason)) => {
            let text = format!("{tool} is denied by {reason}\ndo not try another tool for the same purpose");
            ToolError::with_kind(ErrorKind::Denied, text).with_decision(Decision::deny_unread(reason))
        }
        ToolNotFound::Withheld(tool, why @ WithheldReason::NeedsUser) => {
            without_user(format!("{tool} can't be used: {why}"))
        }
        ToolNotFound::Withheld(tool, why) => unknown(format!("{tool} is not offered: {why}")),
    }
}

/// The error of a call that only a user could answer, in a session without one.
fn without_user(text: String) -> ToolError {
    let reason = DecisionReason::new(DecisionSource::NoUser, Verdict::Deny, NEEDS_USER);
    ToolError::with_kind(ErrorKind::NotInteractive, text).with_decision(Decision::deny_unread(reason))
}

/// The words of a sense check, said to be that.
fn invalid_input_error(tool: &str, error: ToolError) -> ToolError {
    if error.kind() == ErrorKind::InvalidInput && error.is_semantic() {
        return error;
    }
    ToolError::invalid_input(format!("{tool} can't do that: {}", error.message()))
}

pub(crate) fn panic_error(tool: &str) -> ToolError {
    let words =
        format!("{tool} panicked: this is a fault of the tool, not of your input; its result is lost");
    ToolError::with_kind(ErrorKind::Panicked, words)
}

/// Tells the watchers, if there are any.
pub(crate) fn send_event(cx: &Context, what: impl FnOnce() -> EventKind) {
    cx.host().tell(cx.call().turn(), Some(cx.call_ref()), what);
}
