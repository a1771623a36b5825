//! Step 5: may this call run?
//!
//! The order is fixed, and no later voice lifts an earlier no: what is never allowed → deny rules → ask rules → the
//! tool's own opinion → allow rules and mode → permission hooks → the user. Whatever goes wrong on the way decides
//! "no". An approval is bound to a digest of the call: after the user's answer the effects are resolved again; a
//! difference asks once more, a second one denies.

use std::borrow::Cow;
use std::path::Path;

use serde_json::Value;

use super::digest::CallDigest;
use super::{Opened, Prepared, execute, hook, tell};
use crate::context::Context;
use crate::effects::resolved::Resolved;
use crate::effects::table::{Asks, Judgement};
use crate::engine::Shared;
use crate::error::{ErrorKind, ToolError};
use crate::event::What;
use crate::future::{Guarded, guarded, within};
use crate::hooks::{Decision, HookCall};
use crate::limits;
use crate::ports::{Answer, Approval, Because, Request, Ruling};
use crate::registry::Origin;
use crate::tool::Opinion;
use crate::view::Stage;

/// What came of it.
pub(super) enum Decided {
    Allowed(Allowed),
    /// The user wants another input: back to step 2.
    Edited(Value),
    Refused(ToolError),
}

/// A call that may run, and who said so.
pub(super) struct Allowed {
    seen: Seen,
    by: Cow<'static, str>,
}

impl Allowed {
    pub(super) fn prepared(self, cx: &Context, notes: Vec<String>) -> Prepared {
        let Seen { resolved, judgement } = self.seen;
        let granted = execute::grant(cx, &resolved);
        Prepared { resolved, judgement, allowed_by: self.by, granted, notes }
    }
}

/// What the rules, the tool and the hooks say, before anybody is asked.
enum Verdict {
    Allow(Cow<'static, str>),
    Ask(String),
    /// Would ask, and the mode forbids to.
    Unasked(String),
    Deny(ToolError),
}

/// Decides on a call.
pub(super) async fn authorize(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Decided {
    let asked = Guarded::new(|| opened.attempt.invocation.permission(cx));
    let opinion = within(limits::CHECK_TIMEOUT, asked).await.and_then(Result::ok);
    let opinion =
        opinion.unwrap_or_else(|| Opinion::Deny("it could not say whether this call is safe".into()));
    let seen = Seen::look(shared, opened, cx);
    match judge(shared, opened, &seen.request(shared, opened, cx), &opinion) {
        Verdict::Allow(by) => seen.allowed(by),
        Verdict::Deny(error) => Decided::Refused(error),
        Verdict::Unasked(reason) => Decided::Refused(unasked(
            shared,
            &seen.request(shared, opened, cx),
            &reason,
            "this mode doesn't ask",
        )),
        Verdict::Ask(reason) => Box::pin(ask(shared, opened, cx, seen, reason, &opinion, asking)).await,
    }
}

/// What a call touches at one moment, and what follows.
struct Seen {
    resolved: Resolved,
    judgement: Judgement,
}

impl Seen {
    fn look(shared: &Shared, opened: &Opened, cx: &Context) -> Seen {
        let resolved = Resolved::resolve(opened.attempt.effects.clone(), cx.cwd());
        let judgement = resolved.judge(cx.workspace(), shared.surroundings);
        Seen { resolved, judgement }
    }

    fn request<'a>(&'a self, shared: &Shared, opened: &'a Opened, cx: &'a Context) -> Request<'a> {
        Request {
            name: opened.entry.name(),
            tool: opened.entry.tool(),
            external: *opened.entry.origin() != Origin::BuiltIn,
            input: &opened.attempt.input,
            effects: &self.resolved,
            judgement: &self.judgement,
            workspace: cx.workspace(),
            unconfined_child: opened.entry.tool().spec().runs_in_child() && !shared.surroundings.confined,
        }
    }

    fn allowed(self, by: Cow<'static, str>) -> Decided {
        Decided::Allowed(Allowed { seen: self, by })
    }
}

/// Asks: permission hooks first, then the user, once more if what the call touches changed meanwhile.
async fn ask(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    mut seen: Seen,
    mut reason: String,
    opinion: &Opinion,
    asking: &(dyn Fn() + Sync),
) -> Decided {
    for again in [false, true] {
        match ask_hooks(shared, opened, cx, &reason).await {
            Ok(None | Some(Decision::Ask(_))) => {}
            Ok(Some(Decision::Allow)) => return seen.allowed("a permission hook".into()),
            Ok(Some(Decision::Deny(words) | Decision::Block(words))) => {
                let words = format!("denied by a permission hook: {words}");
                return Decided::Refused(ToolError::of(ErrorKind::Denied, words));
            }
            Err(error) => return Decided::Refused(error),
        }
        let request = seen.request(shared, opened, cx);
        let Some(asker) = shared.host.ports.asker.as_deref() else {
            return Decided::Refused(unasked(shared, &request, &reason, "nobody can be asked here"));
        };
        let approval = approval(shared, opened, &request, reason, again);
        let asked_about = CallDigest::of(opened, &seen.resolved, cx);
        asking();
        tell(cx, || What::Asking);
        let failed = || Answer::NoBecause("the question could not be asked: the screen failed".into());
        let answer = Guarded::new(|| asker.approve(&approval)).await.unwrap_or_else(|_| failed());
        match answer {
            Answer::Once | Answer::Session | Answer::Always => {}
            Answer::Edit(input) => return Decided::Edited(input),
            Answer::No => {
                let words = format!(
                    "the user said no to {} and ended the turn; wait for what they say",
                    approval.tool
                );
                return Decided::Refused(ToolError::of(ErrorKind::Rejected, words).ending_turn());
            }
            Answer::NoBecause(because) => {
                let words = format!("the user said no to {}: {because}", approval.tool);
                return Decided::Refused(ToolError::of(ErrorKind::Rejected, words));
            }
        }
        // What the user saw is what runs, or the user sees it again; and rules that changed meanwhile hold.
        let now = Seen::look(shared, opened, cx);
        let same = CallDigest::of(opened, &now.resolved, cx) == asked_about;
        match judge(shared, opened, &now.request(shared, opened, cx), opinion) {
            Verdict::Deny(error) => return Decided::Refused(error),
            Verdict::Unasked(reason) => {
                let request = now.request(shared, opened, cx);
                return Decided::Refused(unasked(shared, &request, &reason, "this mode doesn't ask"));
            }
            Verdict::Allow(by) if !same => return now.allowed(by),
            Verdict::Ask(changed) if !same => reason = changed,
            Verdict::Allow(_) | Verdict::Ask(_) => {
                let _ = guarded(|| shared.authorizer.remember(&now.request(shared, opened, cx), &answer));
                return now.allowed("the user".into());
            }
        }
        seen = now;
    }
    let words = format!(
        "{} was denied: what it touches changed twice while the user was being asked",
        opened.entry.name()
    );
    Decided::Refused(ToolError::of(ErrorKind::Denied, words))
}

/// What is never allowed → deny rules → ask rules → the tool's opinion → allow rules and mode → effects, where they are
/// more than believed.
fn judge(shared: &Shared, opened: &Opened, request: &Request<'_>, opinion: &Opinion) -> Verdict {
    let tool = opened.entry.name();
    if let Some(place) = request.effects.meets_protected(request.workspace) {
        let words = format!("{tool} was denied: no tool may write `{}`, in any mode", place.display());
        return Verdict::Deny(ToolError::of(ErrorKind::Denied, words));
    }
    if request.declared().asks_user && shared.host.ports.asker.is_none() {
        let words = format!("{tool} needs a user to answer, and this session has none; go on without it");
        return Verdict::Deny(ToolError::of(ErrorKind::NotInteractive, words));
    }
    let ruling = guarded(|| shared.authorizer.judge(request))
        .unwrap_or_else(|_| Ruling::Deny(Because::by("the rules, which failed")));
    if let Ruling::Deny(because) = ruling {
        return Verdict::Deny(denied(tool, &because));
    }
    if let Opinion::Deny(reason) = opinion {
        return Verdict::Deny(ToolError::of(
            ErrorKind::Denied,
            format!("{tool} refuses this call: {reason}"),
        ));
    }
    let mode_asks = guarded(|| shared.authorizer.may_ask()).unwrap_or(false);
    let ask = |reason: String| match &request.effects.failed {
        // A path that leads nowhere: no answer makes the call possible, so nobody is asked.
        Some((_, why)) => Verdict::Deny(ToolError::new(why.clone())),
        None if mode_asks => Verdict::Ask(reason),
        None => Verdict::Unasked(reason),
    };
    match (&ruling, opinion, &opened.decision) {
        (Ruling::Ask(because), ..) => return ask(because.to_string()),
        (_, Opinion::Ask(reason), _) | (_, _, Some(Decision::Ask(reason))) => return ask(reason.clone()),
        (Ruling::Allow(because), ..) => return Verdict::Allow(because.by.clone().into()),
        (_, _, Some(Decision::Allow)) => return Verdict::Allow("a hook".into()),
        _ => {}
    }
    // No rule speaks: the effects do. A tool may vouch for what is known and inside, not for the rest.
    let outside = request.outside().next();
    let vouched = *opinion == Opinion::Allow && outside.is_none() && !request.unconfined_child;
    match request.judgement.asks {
        Asks::No => match outside {
            None if request.unconfined_child => ask(NOT_CONFINED.into()),
            None => Verdict::Allow("its effects".into()),
            Some(path) => ask(outside_words(path)),
        },
        Asks::ByTool | Asks::Yes if vouched => Verdict::Allow("the tool itself".into()),
        Asks::Always => ask("nothing is known of what it touches".into()),
        Asks::ByTool | Asks::Yes => ask(match outside {
            Some(path) => outside_words(path),
            None => format!("it {}", request.declared()),
        }),
    }
}

const NOT_CONFINED: &str = "what it declares is only believed, as nothing confines the program that it runs";

async fn ask_hooks(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    reason: &str,
) -> Result<Option<Decision>, ToolError> {
    let call = HookCall { tool: opened.entry.name(), input: &opened.attempt.input, context: cx };
    for asked in &shared.hooks.permission {
        match hook::run(asked, |hook| hook.decide(&call, reason)).await {
            Ok(None) => {}
            Ok(decision) => return Ok(decision),
            Err(error) => {
                let words = format!(
                    "{} was not run: permission hook `{}` failed ({error}); this is a fault of the hook, not a denial",
                    call.tool, asked.name
                );
                return Err(ToolError::of(ErrorKind::HookFailed, words));
            }
        }
    }
    Ok(None)
}

fn denied(tool: &str, because: &Because) -> ToolError {
    let words = format!("{tool} was denied by {because}\ndo not try another tool for the same purpose");
    ToolError::of(ErrorKind::Denied, words)
}

/// A call that would have to ask where nobody can be asked: the message says how to allow it.
fn unasked(shared: &Shared, request: &Request<'_>, reason: &str, why: &str) -> ToolError {
    let rule = guarded(|| shared.authorizer.propose(request)).ok().flatten();
    let how = rule.map(|rule| format!("\nto allow it: {rule}")).unwrap_or_default();
    let words = format!("{} was denied: {reason}, so it needs a yes, and {why}{how}", request.tool.name());
    ToolError::of(ErrorKind::Denied, words)
}

fn outside_words(path: &Path) -> String {
    format!("it touches `{}`, outside of the working directories", path.display())
}

/// Whether the call runs in a process of its own.
fn confined_elsewhere(shared: &Shared, opened: &Opened) -> bool {
    opened.entry.tool().spec().is_isolated() && shared.host.ports.isolator.is_some()
}

fn approval(
    shared: &Shared,
    opened: &Opened,
    request: &Request<'_>,
    reason: String,
    again: bool,
) -> Approval {
    let input = &opened.attempt.input;
    Approval {
        call_id: opened.id.to_string(),
        tool: opened.entry.name().to_string(),
        input: (**input).clone(),
        description: guarded(|| opened.attempt.invocation.describe()).ok().flatten(),
        effects: request.declared().clone(),
        destructive: request.judgement.destructive,
        reason,
        proposed_rule: guarded(|| shared.authorizer.propose(request)).ok().flatten(),
        view: opened.entry.tool().view(&Stage::Use { input, complete: true }),
        unconfined: request.unconfined_child
            || (request.declared().unknown && !confined_elsewhere(shared, opened)),
        again,
    }
}
