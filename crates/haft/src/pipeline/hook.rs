//! Steps 4 and 7: guards and hooks before a call, hooks after it; hooks on a denial and after a whole
//! message.
//!
//! Before: fail closed, in order. After: whatever happens, the result stays.

use haft_scheduler::Cancel;
use serde_json::Value;

use super::{CallOutcome, OpenedCall, send_event};
use crate::context::Context;
use crate::decision::{DecisionReason, DecisionSource, Verdict};
use crate::engine::EngineCore;
use crate::error::{ErrorKind, ToolError};
use crate::event::EventKind;
use crate::future::{BoxFuture, GuardedFuture, catch_panic, with_timeout};
use crate::hooks::{
    HookBatch, HookCall, HookError, InputRewrite, OnFailure, PostHookResponse, PreHookResponse,
    RegisteredHook,
};
use crate::limits;
use crate::ports::HookOutcome;
use crate::result::{ResultParts, ToolResult};
use crate::text::truncate_in_place;
use crate::tool::AnyTool;

/// What guards and hooks made of a call.
pub(super) enum HookedInput {
    /// The input stays; perhaps somebody decided.
    Same(Option<DecisionReason>),
    /// Back to step 2 with this.
    Rewritten(Value, Option<Box<InputAuthor>>),
    /// The call is not made, for this reason.
    Stopped(ToolError, DecisionReason),
}

/// A hook before the call refuses it, or failed.
fn stopped_by_hook(error: ToolError) -> HookedInput {
    let source = match error.kind() {
        ErrorKind::HookFailed => DecisionSource::Failure,
        _ => DecisionSource::Hook,
    };
    let reason = DecisionReason::new(source, Verdict::Deny, error.message().to_owned());
    HookedInput::Stopped(error, reason)
}

/// The reason of a guard that refuses a call.
pub(super) fn guard_reason(refusal: &str) -> DecisionReason {
    DecisionReason::new(DecisionSource::Tool, Verdict::Deny, format!("it is blocked{refusal}"))
}

/// The hook whose work the input is.
pub(crate) struct InputAuthor {
    step: HookStep,
    /// Its place among the hooks of that step.
    hook: usize,
    rewrote: InputRewrite,
}

/// Which hooks are meant.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum HookStep {
    Before,
    /// Asked for this reason.
    Permission(String),
}

impl InputAuthor {
    /// Boxed: it is rare, and the future of a call stays small.
    pub(super) fn new(step: HookStep, hook: usize, rewrote: InputRewrite) -> Box<InputAuthor> {
        Box::new(InputAuthor { step, hook, rewrote })
    }

    /// A refusal of an input that a hook made, which the model should not take for its own mistake.
    pub(super) fn refused(author: Option<&InputAuthor>, refused: ToolResult) -> ToolResult {
        let Some(author) = author else { return refused };
        let by = author.rewrote.by.as_ref().map_or_else(|| "a hook".to_owned(), |by| format!("hook `{by}`"));
        let words =
            format!("this is not the input that was given: {by} rewrote it; this is a fault of the hook");
        refused.with(|parts| parts.notes.push(words))
    }

    /// What this hook said when it made the input, if it did.
    pub(super) fn previous_rewrite<'a>(
        author: Option<&'a InputAuthor>,
        step: &HookStep,
        hook: usize,
    ) -> Option<&'a InputRewrite> {
        author.filter(|author| author.step == *step && author.hook == hook).map(|author| &author.rewrote)
    }
}

/// Whether step 4 has anything to do.
pub(super) fn any_before(shared: &EngineCore, opened: &OpenedCall) -> bool {
    !shared.hooks.pre.is_empty() || !opened.entry.tool().spec().guards.is_empty()
}

/// Passes an input through the guards of its tool, for step 4 and for a call that is only checked. The input
/// may come out changed.
///
/// # Errors
/// Why a guard refuses the call: ` by one of its guards: …`, behind a verb.
pub(super) async fn pass_guards(tool: &AnyTool, input: &Value, cx: &Context) -> Result<Value, String> {
    let mut input = input.clone();
    for guard in &tool.spec().guards {
        match with_timeout(
            limits::CHECK_TIMEOUT,
            GuardedFuture::new(|| guard.pass(input.clone(), cx.clone())),
        )
        .await
        {
            Some(Ok(Ok(passed))) => input = passed,
            Some(Ok(Err(denied))) => return Err(format!(" by one of its guards: {}", denied.0)),
            Some(Err(_)) => return Err(": one of its guards panicked".to_owned()),
            None => return Err(": one of its guards took too long".to_owned()),
        }
    }
    Ok(input)
}

/// Step 4.
pub(super) async fn run_pre_hooks(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    notes: &mut Vec<String>,
) -> HookedInput {
    let tool: &str = opened.entry.name();
    let mut input = match pass_guards(opened.entry.tool(), &opened.attempt.input, cx).await {
        Ok(input) => input,
        Err(refusal) => {
            let text = format!("{tool} was blocked{refusal}");
            return HookedInput::Stopped(
                ToolError::with_kind(ErrorKind::Blocked, text),
                guard_reason(&refusal),
            );
        }
    };
    // What a guard has changed is nobody's work but the guard's.
    let made = opened.author.as_deref().filter(|_| input == *opened.attempt.input);
    let (mut decision, mut author) = (None, None);
    let mut said = Vec::new();
    for (place, hook) in shared.hooks.pre.iter().enumerate() {
        let rewrote =
            InputAuthor::previous_rewrite(made, &HookStep::Before, place).filter(|_| author.is_none());
        let call = hook_call(opened, &input, cx, cx.cancel(), rewrote);
        let mut outcome = match run_hook(hook, |hook| hook.before(&call)).await {
            Ok(outcome) => outcome,
            Err(error) if hook.on_failure == OnFailure::Continue => {
                let name = hook_name(hook, error.by.as_deref());
                trace_hook(cx, "before", name, &format!("failed, and the call goes on: {error}"));
                send_event(cx, || {
                    EventKind::Warning(format!("hook `{name}` failed, and the call goes on: {error}"))
                });
                continue;
            }
            Err(error) => {
                trace_hook(cx, "before", hook_name(hook, error.by.as_deref()), &format!("failed: {error}"));
                let words = format!(
                    "{tool} was not run: hook `{}` failed ({error}); this is a fault of the hook, not a denial",
                    hook_name(hook, error.by.as_deref())
                );
                return stopped_by_hook(ToolError::with_kind(ErrorKind::HookFailed, words));
            }
        };
        send_messages(cx, std::mem::take(&mut outcome.messages));
        let name = hook_name(hook, outcome.by.as_deref());
        note_before(cx, "before", name, &outcome, &input);
        if let Some(reason) = outcome.stop {
            let words = format!("{tool} was not run: hook `{name}` ended the turn: {reason}");
            return stopped_by_hook(ToolError::with_kind(ErrorKind::Blocked, words).ending_turn_by_hook());
        }
        if let Some(reason) = outcome.blocked {
            let words = format!("{tool} was blocked by hook `{name}`: {reason}");
            return stopped_by_hook(ToolError::with_kind(ErrorKind::Blocked, words));
        }
        if let Some(reason) = outcome.denial() {
            let words = format!("denied by hook `{name}`: {reason}");
            return stopped_by_hook(ToolError::with_kind(ErrorKind::Denied, words));
        }
        if let Some(rewritten) = outcome.input.filter(|rewritten| *rewritten != input) {
            let (by, decision, context) =
                (outcome.by, outcome.decision.clone(), limit_context(outcome.context.clone()));
            author = Some(InputAuthor::new(HookStep::Before, place, InputRewrite { by, decision, context }));
            input = rewritten;
        }
        decision = stricter_reason(decision, outcome.decision);
        said.extend(outcome.context);
    }
    if input != *opened.attempt.input {
        return HookedInput::Rewritten(input, author);
    }
    // Kept only from the round that settles: hooks say it again for each version of the input.
    *notes = limit_context(said);
    HookedInput::Same(decision.map(|reason| reason.with_source(DecisionSource::Hook)))
}

/// Tells the recorder, if there is one, what a hook did. One that did nothing isn't told of.
pub(super) fn trace_hook(cx: &Context, when: &'static str, hook: &str, outcome: &str) {
    if let Some(recorder) = cx.ports().recorder() {
        let (agent, turn, call_id) = (cx.call().agent_id(), cx.call().turn(), Some(cx.call().id()));
        let _ = catch_panic(|| recorder.hooked(&HookOutcome { agent, turn, call_id, when, hook, outcome }));
    }
}

/// The same of one that may decide.
pub(super) fn note_before(
    cx: &Context,
    when: &'static str,
    hook: &str,
    done: &PreHookResponse,
    input: &Value,
) {
    if cx.ports().recorder().is_none() {
        return;
    }
    let mut words: Vec<String> = Vec::new();
    words.extend(done.decision.as_ref().map(|reason| match reason.verdict {
        Verdict::Allow => "allowed".to_owned(),
        Verdict::Ask => format!("wants the user asked: {}", reason.text),
        Verdict::Deny => format!("denied: {}", reason.text),
    }));
    words.extend(done.blocked.as_ref().map(|reason| format!("blocked: {reason}")));
    if done.input.as_ref().is_some_and(|made| made != input) {
        words.push("rewrote the input".to_owned());
    }
    words.extend((!done.context.is_empty()).then(|| "told the model something".to_owned()));
    words.extend(done.stop.as_ref().map(|reason| format!("ended the turn: {reason}")));
    if !words.is_empty() {
        trace_hook(cx, when, hook, &words.join("; "));
    }
}

/// The same of one that looks afterwards.
fn note_after(cx: &Context, when: &'static str, hook: &str, done: &PostHookResponse) {
    let mut words: Vec<String> = Vec::new();
    words.extend(done.output.as_ref().map(|_| "replaced the output".to_owned()));
    words.extend((!done.context.is_empty()).then(|| "told the model something".to_owned()));
    words.extend(done.stop.as_ref().map(|reason| format!("ended the turn: {reason}")));
    if !words.is_empty() {
        trace_hook(cx, when, hook, &words.join("; "));
    }
}

/// A call as hooks see it.
pub(super) fn hook_call<'a>(
    opened: &'a OpenedCall,
    input: &'a Value,
    context: &'a Context,
    cancel: &'a Cancel,
    rewrote: Option<&'a InputRewrite>,
) -> HookCall<'a> {
    let (tool, origin) = (opened.entry.name(), opened.entry.origin());
    HookCall { tool, origin, input, context, cancel, rewrote }
}

/// The name of a hook, or of the one that it stands for.
pub(super) fn hook_name<'a, H: ?Sized>(hook: &'a RegisteredHook<H>, by: Option<&'a str>) -> &'a str {
    by.unwrap_or(&hook.name)
}

/// Words of hooks for the user.
pub(super) fn send_messages(cx: &Context, messages: Vec<String>) {
    for message in limit_context(messages) {
        send_event(cx, || EventKind::Message(message));
    }
}

fn limit_context(mut said: Vec<String>) -> Vec<String> {
    said.truncate(limits::NOTES_MAX);
    said.iter_mut().for_each(|words| truncate_in_place(words, limits::NOTE_CHARS_MAX));
    said
}

/// The stricter of two reasons, the first if they are equal.
fn stricter_reason(a: Option<DecisionReason>, b: Option<DecisionReason>) -> Option<DecisionReason> {
    let verdict = |reason: &Option<DecisionReason>| reason.as_ref().map(|reason| reason.verdict);
    if verdict(&b) > verdict(&a) { b } else { a }
}

/// Step 7. Notes and a new output come in order; a hook that fails is reported and changes nothing.
pub(super) async fn run_post_hooks(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    done: &mut CallOutcome,
) {
    let tool: &str = opened.entry.name();
    // A call that was too late is cancelled; what looks at it afterwards is not.
    let cancel = if cx.cancel().is_cancelled() { shared.cancel.child() } else { cx.cancel().clone() };
    for hook in &shared.hooks.post {
        let call = hook_call(opened, &opened.attempt.input, cx, &cancel, None);
        let seen = opened.seen(done);
        match run_hook(hook, |hook| hook.after(&call, &seen)).await {
            Ok(after) => {
                note_after(cx, "after", &hook.name, &after);
                send_messages(cx, after.messages);
                let room = limits::NOTES_MAX.saturating_sub(done.notes.len());
                done.notes.extend(limit_context(after.context).into_iter().take(room));
                if let (Some(output), Ok(_)) = (after.output, &done.outcome) {
                    done.outcome = Ok(output);
                }
                done.stop = done.stop.take().or(after.stop.map(Box::new));
            }
            Err(error) => {
                let name = hook_name(hook, error.by.as_deref());
                trace_hook(cx, "after", name, &format!("failed: {error}"));
                send_event(cx, || EventKind::Warning(format!("hook `{name}` failed after {tool}: {error}")));
            }
        }
    }
}

/// Hooks on a call that was denied. The denial stays.
pub(super) async fn run_denied_hooks(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    reason: &str,
    notes: &mut Vec<String>,
) -> Option<String> {
    let (tool, mut stop) = (opened.entry.name(), None);
    for hook in &shared.hooks.denied {
        let call = hook_call(opened, &opened.attempt.input, cx, cx.cancel(), None);
        match run_hook(hook, |hook| hook.denied(&call, reason)).await {
            Ok(after) => {
                note_after(cx, "denied", &hook.name, &after);
                send_messages(cx, after.messages);
                let room = limits::NOTES_MAX.saturating_sub(notes.len());
                notes.extend(limit_context(after.context).into_iter().take(room));
                stop = stop.or(after.stop);
            }
            Err(error) => {
                let name = hook_name(hook, error.by.as_deref());
                trace_hook(cx, "denied", name, &format!("failed: {error}"));
                send_event(cx, || {
                    EventKind::Warning(format!("hook `{name}` failed after {tool} was denied: {error}"))
                });
            }
        }
    }
    stop
}

/// Hooks after all calls of a message: their words go with the last result, which also says that the turn
/// ends.
pub(crate) async fn run_batch_hooks(
    shared: &EngineCore,
    turn: u64,
    mut results: Vec<ToolResult>,
) -> Vec<ToolResult> {
    let cancel = shared.cancel.child();
    let host = &shared.host;
    let (mut notes, mut stop) = (Vec::new(), None);
    let note = |hook: &str, outcome: &str| {
        if let Some(recorder) = &host.ports.recorder {
            let (agent, call_id, when) = (&*host.agent, None, "batch");
            let _ =
                catch_panic(|| recorder.hooked(&HookOutcome { agent, turn, call_id, when, hook, outcome }));
        }
    };
    for hook in &shared.hooks.batch {
        let batch = HookBatch {
            results: &results,
            session: &host.session,
            agent: &host.agent,
            cwd: host.workspace.cwd(),
            mode: host.ports.mode.as_deref(),
            results_in: &shared.store,
            cancel: &cancel,
        };
        match run_hook(hook, |hook| hook.after_batch(&batch)).await {
            Ok(PostHookResponse { context, stop: stops, messages, .. }) => {
                match (&stops, context.is_empty()) {
                    (Some(reason), _) => note(&hook.name, &format!("ended the turn: {reason}")),
                    (None, false) => note(&hook.name, "told the model something"),
                    (None, true) => {}
                }
                for message in limit_context(messages) {
                    host.tell(turn, None, || EventKind::Message(message));
                }
                notes.extend(context);
                stop = stop.or(stops);
            }
            Err(error) => {
                let name = hook_name(hook, error.by.as_deref());
                note(name, &format!("failed: {error}"));
                host.tell(turn, None, || {
                    EventKind::Warning(format!("hook `{name}` failed after the calls of a message: {error}"))
                });
            }
        }
    }
    if let Some(last) = results.pop() {
        let with = |parts: &mut ResultParts| {
            let room = limits::NOTES_MAX.saturating_sub(parts.notes.len());
            parts.notes.extend(limit_context(notes).into_iter().take(room));
            parts.stop = parts.stop.take().or(stop.map(Into::into));
        };
        results.push(last.with(with));
    }
    results
}

/// Runs a hook: a panic or too long a time is its failure.
pub(super) async fn run_hook<'a, H: ?Sized, T: 'a>(
    known: &'a RegisteredHook<H>,
    work: impl FnOnce(&'a H) -> BoxFuture<'a, Result<T, HookError>>,
) -> Result<T, HookError> {
    if known.broken {
        return Err(HookError::new("it panicked when it was added"));
    }
    match with_timeout(known.timeout, GuardedFuture::new(|| work(&known.hook))).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(HookError::new("it panicked")),
        None => Err(HookError::new(format!("it took longer than {} s", known.timeout.as_secs_f64()))),
    }
}
