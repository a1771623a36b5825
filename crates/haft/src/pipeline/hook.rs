//! Steps 4 and 7: guards and hooks before a call, hooks after it.
//!
//! Before: fail closed, in order. After: whatever happens, the result stays.

use serde_json::Value;

use super::{Opened, Outcome, tell};
use crate::context::Context;
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError, bound};
use crate::event::What;
use crate::future::{BoxFuture, Guarded, within};
use crate::hooks::{Decision, HookCall, HookError, Known, OnFailure};
use crate::limits;

/// What guards and hooks made of a call.
pub(super) enum Hooked {
    /// The input stays; perhaps somebody decided.
    Same(Option<Decision>),
    /// Back to step 2 with this.
    Rewritten(Value),
    /// The call is not made.
    Stopped(ToolError),
}

/// Whether step 4 has anything to do.
pub(super) fn any_before(shared: &Shared, opened: &Opened) -> bool {
    !shared.hooks.pre.is_empty() || !opened.entry.tool().spec().guards.is_empty()
}

/// Step 4.
pub(super) async fn before(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    notes: &mut Vec<String>,
) -> Hooked {
    let guards = &opened.entry.tool().spec().guards;
    let tool: &str = opened.entry.name();
    let mut input: Value = (*opened.attempt.input).clone();
    for guard in guards {
        match within(limits::CHECK_TIMEOUT, Guarded::new(|| guard.pass(input.clone(), cx.clone()))).await {
            Some(Ok(Ok(passed))) => input = passed,
            Some(Ok(Err(denied))) => {
                let words = format!("{tool} was blocked by one of its guards: {}", denied.0);
                return Hooked::Stopped(ToolError::of(ErrorKind::Blocked, words));
            }
            failed => {
                let why = if failed.is_some() { "panicked" } else { "took too long" };
                let words = format!("{tool} was blocked: one of its guards {why}");
                return Hooked::Stopped(ToolError::of(ErrorKind::Blocked, words));
            }
        }
    }
    let mut decision = None;
    let mut said = Vec::new();
    for hook in &shared.hooks.pre {
        let call = HookCall { tool, input: &input, context: cx };
        let outcome = run(hook, |hook| hook.before(&call)).await;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) if hook.on_failure == OnFailure::Continue => {
                tell(cx, || {
                    What::Warning(format!("hook `{}` failed, and the call goes on: {error}", hook.name))
                });
                continue;
            }
            Err(error) => {
                let words = format!(
                    "{tool} was not run: hook `{}` failed ({error}); this is a fault of the hook, not a denial",
                    hook.name
                );
                return Hooked::Stopped(ToolError::of(ErrorKind::HookFailed, words));
            }
        };
        if let Some(Decision::Block(reason)) = outcome.decision {
            let words = format!("{tool} was blocked by hook `{}`: {reason}", hook.name);
            return Hooked::Stopped(ToolError::of(ErrorKind::Blocked, words));
        }
        if let Some(Decision::Deny(reason)) = outcome.decision {
            let words = format!("denied by hook `{}`: {reason}", hook.name);
            return Hooked::Stopped(ToolError::of(ErrorKind::Denied, words));
        }
        decision = stricter(decision, outcome.decision);
        said.extend(outcome.context);
        if let Some(rewritten) = outcome.input {
            input = rewritten;
        }
    }
    if input != *opened.attempt.input {
        return Hooked::Rewritten(input);
    }
    // Kept only from the round that settles: hooks say it again for each version of the input.
    said.iter_mut().for_each(|words| bound(words, limits::NOTE_CHARS_MAX));
    said.truncate(limits::NOTES_MAX);
    *notes = said;
    Hooked::Same(decision)
}

/// The stricter of two decisions.
fn stricter(a: Option<Decision>, b: Option<Decision>) -> Option<Decision> {
    let rank = |decision: &Option<Decision>| match decision {
        None => 0,
        Some(Decision::Allow) => 1,
        Some(Decision::Ask(_)) => 2,
        Some(Decision::Deny(_) | Decision::Block(_)) => 3,
    };
    if rank(&b) > rank(&a) { b } else { a }
}

/// Step 7. Notes and a new output come in order; a hook that fails is reported and changes nothing.
pub(super) async fn after(shared: &Shared, opened: &Opened, cx: &Context, mut done: Outcome) -> Outcome {
    let tool: &str = opened.entry.name();
    for hook in &shared.hooks.post {
        let call = HookCall { tool, input: &opened.attempt.input, context: cx };
        let seen = opened.seen(&done);
        match run(hook, |hook| hook.after(&call, &seen)).await {
            Ok(after) => {
                if let Some(mut words) = after.context {
                    bound(&mut words, limits::NOTE_CHARS_MAX);
                    if done.notes.len() < limits::NOTES_MAX {
                        done.notes.push(words);
                    }
                }
                if let (Some(output), Ok(_)) = (after.output, &done.outcome) {
                    done.outcome = Ok(output);
                }
            }
            Err(error) => {
                tell(cx, || What::Warning(format!("hook `{}` failed after {tool}: {error}", hook.name)));
            }
        }
    }
    done
}

/// Runs a hook: a panic or too long a time is its failure.
pub(super) async fn run<'a, H: ?Sized, T: 'a>(
    known: &'a Known<H>,
    work: impl FnOnce(&'a H) -> BoxFuture<'a, Result<T, HookError>>,
) -> Result<T, HookError> {
    if known.broken {
        return Err(HookError("it panicked when it was added".into()));
    }
    match within(known.timeout, Guarded::new(|| work(&known.hook))).await {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(HookError("it panicked".into())),
        None => Err(HookError(format!("it took longer than {} s", known.timeout.as_secs_f64()))),
    }
}
