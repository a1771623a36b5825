//! Step 5: may this call run?
//!
//! Rules, tool and hooks before the call give their reasons, and [`decide`] makes them one decision. If that asks, the
//! permission hooks, the classifier and the user are asked in this order, and each answer is one more reason.
//! Whatever goes wrong on the way decides "no". An approval is bound to a digest of the call: after the user's answer the
//! effects are resolved again; a difference asks once more, a second one denies.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::digest::CallDigest;
use super::hook::{Author, Step};
use super::{Attempt, Opened, Prepared, execute, hook, parse, tell};
use crate::call::CallInput;
use crate::context::Context;
use crate::decision::{
    CallEffects, CallGrants, CallWarning, Decision, DecisionContext, DecisionReason, DecisionSource, Verdict,
    decide,
};
use crate::effects::Effects;
use crate::effects::resolved::Resolved;
use crate::engine::{CheckOptions, MAIN_AGENT, Shared};
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, What};
use crate::future::{Guarded, guarded, within};
use crate::hooks::{Asked, Before, Rewrote};
use crate::limits;
use crate::ports::{Answer, Approval, Request, WantedHost};
use crate::registry::{Entry, Origin};
use crate::tool::AnyTool;
use crate::view::{Stage, View};

/// What step 5 comes to.
pub(super) enum Authorization {
    Allowed(Box<Decision>),
    /// The user, or a hook that answers for the user, wants another input: back to step 2.
    Edited(Value, Option<Box<Author>>),
    Refused(ToolError),
    /// A permission hook refused it, or failed.
    RefusedByHook(ToolError),
}

impl Decision {
    /// The call with what it is granted.
    pub(super) fn prepared(self: Box<Self>, cx: &Context, notes: Vec<String>) -> Prepared {
        let granted = execute::grant(cx, &self.effects.resolved, &self.grants);
        Prepared { decision: self, granted, notes }
    }
}

/// Decides on a call.
pub(super) async fn authorize(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Authorization {
    let authorization = ask_everybody(shared, opened, cx, asking).await;
    let Authorization::Allowed(mut decision) = authorization else { return authorization };
    let subject = Subject::of_call(shared, opened, cx);
    match guarded(|| subject.grants(&decision)) {
        Ok(None) => {}
        Ok(Some(grants)) => decision.grants = grants,
        Err(_) => return subject.refused(decision.with_reason(rules_failed())),
    }
    Authorization::Allowed(decision)
}

async fn ask_everybody(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Authorization {
    let mut reasons = Vec::new();
    reasons.extend(opinion(&opened.attempt, cx).await);
    reasons.extend(opened.hook_reason.as_deref().cloned());
    settle(&Subject::of_call(shared, opened, cx), opened, &reasons, asking).await
}

/// Decides, and asks where the decision says so.
async fn settle(
    subject: &Subject<'_>,
    opened: &Opened,
    reasons: &[DecisionReason],
    asking: &(dyn Fn() + Sync),
) -> Authorization {
    let decision = subject.decide(reasons);
    match decision.verdict {
        Verdict::Allow => Authorization::Allowed(decision.into()),
        Verdict::Deny => subject.refused(decision),
        Verdict::Ask => Box::pin(ask(subject, opened, decision, reasons, asking)).await,
    }
}

/// The decision on a call that was stopped before step 5, for this reason.
pub(super) fn decide_stopped(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    reason: DecisionReason,
) -> Decision {
    Subject::of_call(shared, opened, cx).decide(&[reason])
}

/// Decides on a host that a child of a running call wants to reach; `opened` is the call that only reaches hosts.
pub(super) async fn authorize_host(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    wanted: &WantedHost,
    asking: &(dyn Fn() + Sync),
) -> Authorization {
    let (subject, reasons) = Subject::of_host(shared, opened, cx, wanted);
    settle(&subject, opened, &reasons, asking).await
}

/// The same without asking anybody.
pub(super) fn decide_host(shared: &Shared, opened: &Opened, cx: &Context, wanted: &WantedHost) -> Decision {
    let (subject, reasons) = Subject::of_host(shared, opened, cx, wanted);
    subject.decide(&reasons)
}

/// What the tool itself says of a call.
async fn opinion(attempt: &Attempt, cx: &Context) -> Option<DecisionReason> {
    let asked = Guarded::new(|| attempt.invocation.permission(cx));
    let failed = || Some(DecisionReason::deny("it could not say whether this call is safe"));
    let opinion = within(limits::CHECK_TIMEOUT, asked).await.and_then(Result::ok).unwrap_or_else(failed);
    opinion.map(|reason| reason.with_source(DecisionSource::Tool))
}

fn by_user(verdict: Verdict) -> DecisionReason {
    DecisionReason::new(DecisionSource::User, verdict, "the user")
}

fn rules_failed() -> DecisionReason {
    DecisionReason::new(DecisionSource::Failure, Verdict::Deny, "the rules, which failed")
}

/// A call that is decided on: one that is made, or one that is only looked at.
struct Subject<'a> {
    shared: &'a Shared,
    cx: &'a Context,
    name: &'a str,
    tool: &'a AnyTool,
    origin: &'a Origin,
    attempt: &'a Attempt,
    has_user: bool,
    /// The host that a child of the running call wants to reach, if the decision is about that.
    host: Option<&'a WantedHost>,
}

/// What a call declares, resolved from where it works.
pub(super) fn resolve_effects(declared: &Arc<Effects>, cx: &Context) -> Resolved {
    Resolved::resolve(declared.clone(), cx.cwd(), cx.location().workspace().paths())
}

impl<'a> Subject<'a> {
    /// A host that a child of a running call wants to reach, and the reason to ask that no rule removes.
    fn of_host(
        shared: &'a Shared,
        opened: &'a Opened,
        cx: &'a Context,
        wanted: &'a WantedHost,
    ) -> (Subject<'a>, Vec<DecisionReason>) {
        let reason = |rule: &String| {
            let text = format!("it reaches `{rule}`, which no rule for hosts alone opens");
            DecisionReason::new(DecisionSource::Grants, Verdict::Ask, text)
        };
        let subject = Subject { host: Some(wanted), ..Subject::of_call(shared, opened, cx) };
        (subject, wanted.port_rule.iter().map(reason).collect())
    }

    fn of_call(shared: &'a Shared, opened: &'a Opened, cx: &'a Context) -> Subject<'a> {
        let (entry, attempt): (&Entry, &Attempt) = (&opened.entry, &opened.attempt);
        let has_user = shared.host.ports.available_asker().is_some();
        let (name, tool, origin) = (entry.name(), entry.tool(), entry.origin());
        Subject { shared, cx, name, tool, origin, attempt, has_user, host: None }
    }

    /// What the call touches now.
    fn effects(&self) -> CallEffects {
        let resolved = resolve_effects(&self.attempt.effects, self.cx);
        let surroundings = self.shared.surroundings;
        let class = resolved.judge(self.cx.location().workspace(), surroundings);
        let unconfined_child = self.tool.spec().runs_in_child() && !surroundings.confined;
        CallEffects { resolved, class, unconfined_child }
    }

    fn request<'r>(&'r self, effects: &'r CallEffects) -> Request<'r> {
        Request {
            name: self.name,
            tool: self.tool,
            external: *self.origin != Origin::BuiltIn,
            source: self.origin.source(),
            input: &self.attempt.input,
            effects: &effects.resolved,
            effect_class: &effects.class,
            workspace: self.cx.location().workspace(),
            unconfined_child: effects.unconfined_child,
            agent: self.cx.call().agent_id(),
            // A request of a running call is no call of the turn.
            turn: if self.host.is_some() { 0 } else { self.cx.call().turn() },
            wants_host: self.host.is_some(),
        }
    }

    /// Decides on the call as it is now.
    fn decide(&self, others: &[DecisionReason]) -> Decision {
        let (authorizer, effects) = (&self.shared.authorizer, self.effects());
        let rules = guarded(|| authorizer.reasons(&self.request(&effects)));
        let context = DecisionContext {
            workspace: self.cx.location().workspace(),
            runs_in_child: self.tool.spec().runs_in_child(),
            has_user: self.has_user,
            may_ask: &|source| guarded(|| authorizer.may_ask(source)).unwrap_or(false),
        };
        let mut decision = decide(effects, &context, rules.unwrap_or_else(|_| vec![rules_failed()]), others);
        if decision.verdict == Verdict::Ask {
            decision.warnings = self.warnings(&decision);
        }
        decision
    }

    /// What a person should know before they allow the call.
    fn warnings(&self, decision: &Decision) -> Vec<CallWarning> {
        guarded(|| self.shared.authorizer.warnings(&self.request(&decision.effects))).unwrap_or_default()
    }

    /// What an allowed call may touch, if it touches anything.
    fn grants(&self, decision: &Decision) -> Option<CallGrants> {
        let (authorizer, effects) = (&self.shared.authorizer, &decision.effects);
        let touches = &effects.resolved;
        if touches.reads.is_empty()
            && touches.writes.is_empty()
            && touches.deletes.is_empty()
            && touches.hosts().next().is_none()
        {
            return None;
        }
        let request = self.request(effects);
        let mut grants = authorizer.grants(&request, decision.is_approved());
        if !touches.reads.is_empty() || !touches.writes.is_empty() {
            grants.hidden = authorizer.hidden(&request);
        }
        Some(grants)
    }

    /// The rules that a lasting answer would add.
    fn lasting_rules(&self, request: &Request<'_>) -> Vec<String> {
        if self.port_rule().is_some() {
            return Vec::new();
        }
        guarded(|| self.shared.authorizer.lasting(request)).unwrap_or_default()
    }

    /// What would allow it for good, in words.
    fn proposed_rule(&self, request: &Request<'_>) -> Option<String> {
        match self.port_rule() {
            Some(rule) => Some(format!("`{rule}` among the allowed hosts of the settings")),
            None => guarded(|| self.shared.authorizer.propose(request)).ok().flatten(),
        }
    }

    fn port_rule(&self) -> Option<&'a String> {
        self.host?.port_rule.as_ref()
    }

    fn refused(&self, decision: Decision) -> Authorization {
        Authorization::Refused(self.refusal(&decision).with_decision(decision))
    }

    /// What the model is told of a denial.
    fn refusal(&self, decision: &Decision) -> ToolError {
        let tool = &*self.shown_name();
        let Some(reason) = decision.reason() else { return ToolError::new("the call was denied") };
        if let Some(unanswered) = decision.unanswered() {
            if reason.source == DecisionSource::Failure {
                return ToolError::new(reason.text.clone());
            }
            let rule = self.proposed_rule(&self.request(&decision.effects));
            let how = rule.map(|rule| format!("\nto allow it: {rule}")).unwrap_or_default();
            let ask = decision.question();
            let needs = match (unanswered.source, reason.source) {
                (DecisionSource::Grants, DecisionSource::Mode) => "a rule for that",
                _ => "a yes",
            };
            let text = format!("{tool} was denied: {ask}, so it needs {needs}, and {reason}{how}");
            return ToolError::of(ErrorKind::Denied, text);
        }
        match reason.source {
            DecisionSource::NoUser => {
                let text =
                    format!("{tool} needs a user to answer, and this session has none; go on without it");
                ToolError::of(ErrorKind::NotInteractive, text)
            }
            // The engine's own protection says what is protected; rules say who protects it.
            DecisionSource::Protected if reason.message.is_none() => {
                ToolError::of(ErrorKind::Denied, format!("{tool} was denied: {reason}"))
            }
            DecisionSource::Tool => {
                ToolError::of(ErrorKind::Denied, format!("{tool} refuses this call: {reason}"))
            }
            _ => {
                let text =
                    format!("{tool} was denied by {reason}\ndo not try another tool for the same purpose");
                ToolError::of(ErrorKind::Denied, text)
            }
        }
    }

    /// What is decided on, in messages.
    fn shown_name(&self) -> Cow<'_, str> {
        match self.host {
            Some(wanted) => Cow::Owned(format!("`{}`", wanted.host)),
            None => Cow::Borrowed(self.name),
        }
    }

    fn digest(&self, opened: &Opened, decision: &Decision) -> CallDigest {
        CallDigest::of(opened, &decision.effects.resolved, self.cx)
    }
}

/// Shows a call as step 5 sees it, without making it.
pub(crate) fn consider<T>(
    shared: &Shared,
    tool: &AnyTool,
    origin: &Origin,
    input: CallInput,
    look: impl FnOnce(&Request<'_>) -> T,
) -> Result<T, ToolError> {
    let attempt = read(shared, tool, input)?;
    let cx = looking(shared, tool);
    let subject = Subject {
        shared,
        cx: &cx,
        name: tool.name(),
        tool,
        origin,
        attempt: &attempt,
        has_user: true,
        host: None,
    };
    Ok(look(&subject.request(&subject.effects())))
}

/// Decides on a call as step 5 does, without making it; nobody is asked. The tool's guards belong to the decision, since
/// what they refuse isn't made and what they change is what is decided on.
pub(crate) async fn check<T>(
    shared: &Shared,
    (tool, origin): (&AnyTool, &Origin),
    input: CallInput,
    options: CheckOptions,
    look: impl FnOnce(&Request<'_>, &Decision) -> T,
) -> Result<T, ToolError> {
    let cx = looking(shared, tool);
    let (attempt, refusal) = read_guarded(shared, tool, input, &cx).await?;
    let mut all = Vec::new();
    all.extend(refusal);
    all.extend(opinion(&attempt, &cx).await);
    let CheckOptions { hooks, permission_hooks, has_user } = options;
    all.extend(hooks.into_iter().map(|reason| reason.with_source(DecisionSource::Hook)));
    let (name, attempt) = (tool.name(), &attempt);
    let subject = Subject { shared, cx: &cx, name, tool, origin, attempt, has_user, host: None };
    let mut decision = subject.decide(&all);
    decision.warnings = subject.warnings(&decision);
    if decision.verdict == Verdict::Ask {
        let answer = permission_hooks.into_iter().find(|reason| reason.verdict != Verdict::Ask);
        if let Some(reason) = answer {
            decision = decision.with_reason(reason.with_source(DecisionSource::PermissionHook));
        }
    }
    if decision.verdict == Verdict::Ask {
        decision = subject.classify_statically(decision);
    }
    if decision.verdict == Verdict::Ask {
        decision = subject.unanswered(decision);
    }
    if decision.verdict == Verdict::Allow {
        match guarded(|| subject.grants(&decision)) {
            Ok(None) => {}
            Ok(Some(grants)) => decision.grants = grants,
            Err(_) => decision = decision.with_reason(rules_failed()),
        }
    }
    let request = subject.request(&decision.effects);
    Ok(look(&request, &decision))
}

impl Subject<'_> {
    /// Adds what a classifier says that runs nothing.
    fn classify_statically(&self, decision: Decision) -> Decision {
        if !decision.reason().is_some_and(DecisionReason::is_weak_ask) {
            return decision;
        }
        let request = self.request(&decision.effects);
        let reason = guarded(|| self.shared.authorizer.classify_statically(&request, &decision.question()));
        match reason.ok().flatten() {
            Some(reason) => decision.with_reason(reason.with_source(DecisionSource::Classifier)),
            None => decision,
        }
    }

    /// Denies what nobody can be asked about.
    fn unanswered(&self, decision: Decision) -> Decision {
        if !self.has_user {
            return decision.deny_unanswered(DecisionSource::NoUser, "nobody can be asked here");
        }
        if !guarded(|| self.shared.authorizer.may_prompt()).unwrap_or(false) {
            return decision.deny_unanswered(DecisionSource::NoUser, "settings turn questions into denials");
        }
        decision
    }
}

fn read(shared: &Shared, tool: &AnyTool, input: CallInput) -> Result<Attempt, ToolError> {
    let mut attempt = parse::read_as(tool.name(), tool, input, false)?;
    attempt.declare(&*shared.authorizer, tool.name(), tool);
    Ok(attempt)
}

/// Reads an input and passes it through the guards of its tool, as steps 2 to 4 do it, with the refusal of a guard.
async fn read_guarded(
    shared: &Shared,
    tool: &AnyTool,
    input: CallInput,
    cx: &Context,
) -> Result<(Attempt, Option<DecisionReason>), ToolError> {
    let mut attempt = read(shared, tool, input)?;
    for _ in 0..=limits::REWRITES_MAX {
        match hook::pass_guards(tool, &attempt.input, cx).await {
            Ok(input) if input == *attempt.input => return Ok((attempt, None)),
            Ok(input) => attempt = read(shared, tool, input.into())?,
            Err(refusal) => return Ok((attempt, Some(hook::guard_reason(&refusal)))),
        }
    }
    let text = "its guards rewrite its input again and again";
    Ok((attempt, Some(DecisionReason::new(DecisionSource::Tool, Verdict::Deny, text))))
}

/// The context of a call that is only looked at: turn 0.
fn looking(shared: &Shared, tool: &AnyTool) -> Context {
    let call = CallRef { index: 0, id: "check".into(), tool: tool.name().into() };
    Context::new(shared.host.clone(), 0, call, shared.cancel.child(), None)
}

/// Asks: permission hooks first, then the classifier, then the user, once more if what the call touches changed meanwhile.
async fn ask(
    subject: &Subject<'_>,
    opened: &Opened,
    mut decision: Decision,
    reasons: &[DecisionReason],
    asking: &(dyn Fn() + Sync),
) -> Authorization {
    let (shared, cx) = (subject.shared, subject.cx);
    for again in [false, true] {
        match ask_hooks(subject, opened, &decision).await {
            HookAnswer::None => {}
            HookAnswer::Allow(reason) => {
                return Authorization::Allowed(decision.with_reason(reason).into());
            }
            HookAnswer::Edit(input, author) => return Authorization::Edited(input, Some(author)),
            HookAnswer::Deny(error) => {
                let source = match error.kind() {
                    ErrorKind::HookFailed => DecisionSource::Failure,
                    _ => DecisionSource::PermissionHook,
                };
                let denial = DecisionReason::new(source, Verdict::Deny, error.message().to_owned());
                return Authorization::RefusedByHook(error.with_decision(decision.with_reason(denial)));
            }
        }
        decision = classify(subject, opened, decision, reasons).await;
        if decision.verdict == Verdict::Ask {
            decision = subject.unanswered(decision);
        }
        match decision.verdict {
            Verdict::Allow => return Authorization::Allowed(decision.into()),
            Verdict::Deny => return subject.refused(decision),
            Verdict::Ask => {}
        }
        let Some(asker) = shared.host.ports.available_asker() else { return subject.refused(decision) };
        let preview = Guarded::new(|| opened.attempt.invocation.preview(cx));
        let preview = within(limits::CHECK_TIMEOUT, preview).await.and_then(Result::ok).flatten();
        let approval = subject.approval(opened, &decision, again, preview);
        let asked_about = subject.digest(opened, &decision);
        asking();
        if subject.host.is_none() {
            tell(cx, || What::Asking);
        }
        let failed = || Answer::NoBecause("the question could not be asked: the screen failed".into());
        let answer = Guarded::new(|| asker.approve(&approval)).await.unwrap_or_else(|_| failed());
        match answer {
            Answer::Once | Answer::Session | Answer::Always => {}
            Answer::Edit(input) => return Authorization::Edited(input, None),
            Answer::No => {
                let text = format!(
                    "the user said no to {} and ended the turn; wait for what they say",
                    subject.shown_name()
                );
                let error = ToolError::of(ErrorKind::Rejected, text).ending_turn();
                return Authorization::Refused(
                    error.with_decision(decision.with_reason(by_user(Verdict::Deny))),
                );
            }
            Answer::NoBecause(because) => {
                let text = format!("the user said no to {}: {because}", subject.shown_name());
                let decision = decision.with_reason(by_user(Verdict::Deny).with_message(because));
                let error = ToolError::of(ErrorKind::Rejected, text).with_decision(decision);
                return Authorization::Refused(error);
            }
        }
        // What the user saw is what runs, or the user sees it again; and rules that changed meanwhile hold.
        let now = subject.decide(reasons);
        let same = subject.digest(opened, &now) == asked_about;
        match now.verdict {
            Verdict::Deny => return subject.refused(now),
            Verdict::Allow if !same => return Authorization::Allowed(now.into()),
            Verdict::Ask if !same => decision = now,
            Verdict::Allow | Verdict::Ask => {
                let request = subject.request(&now.effects);
                let answer = if subject.port_rule().is_some() { Answer::Once } else { answer };
                let kept = guarded(|| shared.authorizer.remember(&request, &answer));
                if let Ok(Err(why)) = kept {
                    tell(cx, || What::Warning(format!("your answer holds for this session only: {why}")));
                }
                return Authorization::Allowed(now.with_reason(by_user(Verdict::Allow)).into());
            }
        }
    }
    let why = "what it touches changed twice while the user was being asked";
    let error = ToolError::of(ErrorKind::Denied, format!("{} was denied: {why}", subject.name));
    Authorization::Refused(error.with_decision(decision.deny_unanswered(DecisionSource::Failure, why)))
}

/// Asks the classifier about a call whose ask it may lift.
async fn classify(
    subject: &Subject<'_>,
    opened: &Opened,
    decision: Decision,
    reasons: &[DecisionReason],
) -> Decision {
    if !decision.reason().is_some_and(DecisionReason::is_weak_ask) {
        return decision;
    }
    let classified = {
        let (request, question) = (subject.request(&decision.effects), decision.question());
        Guarded::new(|| subject.shared.authorizer.classify(&request, &question)).await
    };
    let failed = || Some(DecisionReason::ask("the classifier failed"));
    let Some(reason) = classified.unwrap_or_else(|_| failed()) else { return decision };
    let reason = reason.with_source(DecisionSource::Classifier);
    if reason.verdict != Verdict::Allow {
        return decision.with_reason(reason);
    }
    // It took its time: what it saw is what runs, or the user sees it.
    let saw = subject.digest(opened, &decision);
    let now = subject.decide(reasons);
    let weak = now.reason().is_some_and(DecisionReason::is_weak_ask);
    match weak && subject.digest(opened, &now) == saw {
        true => now.with_reason(reason),
        false => now,
    }
}

/// What permission hooks answered.
enum HookAnswer {
    None,
    Allow(DecisionReason),
    /// Yes, but with this input.
    Edit(Value, Box<Author>),
    Deny(ToolError),
}

/// The first hook that answers counts.
async fn ask_hooks(subject: &Subject<'_>, opened: &Opened, decision: &Decision) -> HookAnswer {
    let (shared, cx) = (subject.shared, subject.cx);
    if shared.hooks.permission.is_empty() {
        return HookAnswer::None;
    }
    let (request, reason) = (subject.request(&decision.effects), &*decision.question());
    let proposed = subject.proposed_rule(&request);
    let lasting = subject.lasting_rules(&request);
    let asked = Asked { reason, proposed_rule: proposed.as_deref(), lasting_rules: &lasting };
    let (tool, input) = (opened.entry.name(), &*opened.attempt.input);
    let step = Step::Permission(reason.to_owned());
    for (place, known) in shared.hooks.permission.iter().enumerate() {
        let rewrote = Author::rewrote(opened.author.as_deref(), &step, place);
        let call = hook::call(opened, input, cx, cx.cancel(), rewrote);
        let mut answer = match hook::run(known, |hook| hook.decide(&call, &asked)).await {
            Ok(answer) => answer,
            Err(error) => {
                let name = hook::named(known, error.by.as_deref());
                hook::note(cx, "permission", name, &format!("failed: {error}"));
                let words = format!(
                    "{tool} was not run: permission hook `{}` failed ({error}); this is a fault of the hook, not a denial",
                    hook::named(known, error.by.as_deref())
                );
                return HookAnswer::Deny(ToolError::of(ErrorKind::HookFailed, words));
            }
        };
        hook::messages(cx, std::mem::take(&mut answer.messages));
        let by = hook::named(known, answer.by.as_deref());
        hook::note_before(cx, "permission", by, &answer, input);
        let denied = |words: &str| {
            let by =
                answer.by.as_ref().map_or_else(|| "a permission hook".into(), |by| format!("hook `{by}`"));
            ToolError::of(ErrorKind::Denied, format!("denied by {by}: {words}"))
        };
        let refused = answer.blocked.as_deref().or_else(|| answer.denial());
        match (refused, &answer.stop) {
            (Some(why), Some(_)) => return HookAnswer::Deny(denied(why).ending_turn_by_hook()),
            (None, Some(reason)) => {
                let text = format!("{tool} was not run: hook `{by}` ended the turn: {reason}");
                return HookAnswer::Deny(ToolError::of(ErrorKind::Blocked, text).ending_turn_by_hook());
            }
            (Some(why), None) => return HookAnswer::Deny(denied(why)),
            (None, None) => {}
        }
        let Before { input: edited, by, decision, .. } = answer;
        let Some(allow) = decision.filter(|reason| reason.verdict == Verdict::Allow) else { continue };
        return match edited.filter(|edited| edited != input) {
            None => HookAnswer::Allow(allow.with_source(DecisionSource::PermissionHook)),
            Some(edited) => {
                let rewrote = Rewrote { by, decision: Some(allow), context: Vec::new() };
                HookAnswer::Edit(edited, Author::new(step, place, rewrote))
            }
        };
    }
    HookAnswer::None
}

impl Subject<'_> {
    /// The question for the user.
    fn approval(&self, opened: &Opened, decision: &Decision, again: bool, preview: Option<View>) -> Approval {
        let request = &self.request(&decision.effects);
        let input = &opened.attempt.input;
        let view = || opened.entry.tool().view(&Stage::Use { input, complete: true });
        Approval {
            call_id: opened.id.to_string(),
            agent: (request.agent != MAIN_AGENT).then(|| request.agent.to_owned()),
            tool: opened.entry.name().to_string(),
            input: (**input).clone(),
            description: guarded(|| opened.attempt.invocation.describe()).ok().flatten(),
            effects: request.declared().clone(),
            decision: decision.clone(),
            proposed_rule: self.proposed_rule(request),
            lasting_rules: self.lasting_rules(request),
            view: preview.map_or_else(view, View::harmless),
            unconfined: request.unconfined_child || request.declared().unknown,
            again,
        }
    }
}
