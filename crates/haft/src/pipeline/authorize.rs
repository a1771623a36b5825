//! Step 5: may this call run?
//!
//! Rules, tool and hooks before the call give their reasons, and [`decide`] makes them one decision. If that
//! asks, the permission hooks, the classifier and the user are asked in this order, and each answer is one
//! more reason. Whatever goes wrong on the way decides "no". An approval is bound to a digest of the call:
//! after the user's answer the effects are resolved again; a difference asks once more, a second one denies.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::digest::CallDigest;
use super::hook::{HookStep, InputAuthor};
use super::{CallAttempt, OpenedCall, PreparedCall, execute, hook, parse, send_event};
use crate::call::CallInput;
use crate::context::Context;
use crate::decision::{
    CallEffects, CallGrants, CallWarning, Decision, DecisionContext, DecisionReason, DecisionSource, Verdict,
    decide,
};
use crate::effects::Effects;
use crate::effects::resolved::ResolvedEffects;
use crate::engine::{CheckOptions, EngineCore, MAIN_AGENT};
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, EventKind};
use crate::future::{GuardedFuture, catch_panic, with_timeout};
use crate::hooks::{InputRewrite, PermissionRequest, PreHookResponse};
use crate::limits;
use crate::ports::{ApprovalAnswer, ApprovalRequest, AuthorizationRequest, WantedHost};
use crate::registry::{RegisteredTool, ToolOrigin};
use crate::tool::AnyTool;
use crate::view::{CallStage, CallView};

/// What step 5 comes to.
pub(super) enum AuthorizationOutcome {
    Allowed(Box<Decision>),
    /// The user, or a hook that answers for the user, wants another input: back to step 2.
    Edited(Value, Option<Box<InputAuthor>>),
    Refused(ToolError),
    /// A permission hook refused it, or failed.
    RefusedByHook(ToolError),
}

impl Decision {
    /// The call with what it is granted.
    pub(super) fn prepared(self: Box<Self>, cx: &Context, notes: Vec<String>) -> PreparedCall {
        let granted = execute::grant_access(cx, &self.effects.resolved, &self.grants);
        PreparedCall { decision: self, granted, notes }
    }
}

/// Decides on a call.
pub(super) async fn authorize_call(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> AuthorizationOutcome {
    let authorization = ask_everybody(shared, opened, cx, asking).await;
    let AuthorizationOutcome::Allowed(mut decision) = authorization else { return authorization };
    let subject = DecisionSubject::of_call(shared, opened, cx);
    match catch_panic(|| subject.grants(&decision)) {
        Ok(None) => {}
        Ok(Some(grants)) => decision.grants = grants,
        Err(_) => return subject.refused(decision.with_reason(rules_failed())),
    }
    AuthorizationOutcome::Allowed(decision)
}

async fn ask_everybody(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> AuthorizationOutcome {
    let mut reasons = Vec::new();
    reasons.extend(tool_opinion(&opened.attempt, cx).await);
    reasons.extend(opened.hook_reason.as_deref().cloned());
    settle_decision(&DecisionSubject::of_call(shared, opened, cx), opened, &reasons, asking).await
}

/// Decides, and asks where the decision says so.
async fn settle_decision(
    subject: &DecisionSubject<'_>,
    opened: &OpenedCall,
    reasons: &[DecisionReason],
    asking: &(dyn Fn() + Sync),
) -> AuthorizationOutcome {
    let decision = subject.decide(reasons);
    match decision.verdict {
        Verdict::Allow => AuthorizationOutcome::Allowed(decision.into()),
        Verdict::Deny => subject.refused(decision),
        Verdict::Ask => Box::pin(ask_user(subject, opened, decision, reasons, asking)).await,
    }
}

/// The decision on a call that was stopped before step 5, for this reason.
pub(super) fn decide_stopped(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    reason: DecisionReason,
) -> Decision {
    DecisionSubject::of_call(shared, opened, cx).decide(&[reason])
}

/// Decides on a host that a child of a running call wants to reach; `opened` is the call that only reaches
/// hosts.
pub(super) async fn authorize_host(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    wanted: &WantedHost,
    asking: &(dyn Fn() + Sync),
) -> AuthorizationOutcome {
    let (subject, reasons) = DecisionSubject::of_host(shared, opened, cx, wanted);
    settle_decision(&subject, opened, &reasons, asking).await
}

/// The same without asking anybody.
pub(super) fn decide_host(
    shared: &EngineCore,
    opened: &OpenedCall,
    cx: &Context,
    wanted: &WantedHost,
) -> Decision {
    let (subject, reasons) = DecisionSubject::of_host(shared, opened, cx, wanted);
    subject.decide(&reasons)
}

/// What the tool itself says of a call.
async fn tool_opinion(attempt: &CallAttempt, cx: &Context) -> Option<DecisionReason> {
    let asked = GuardedFuture::new(|| attempt.invocation.permission(cx));
    let failed = || Some(DecisionReason::deny("it could not say whether this call is safe"));
    let opinion =
        with_timeout(limits::CHECK_TIMEOUT, asked).await.and_then(Result::ok).unwrap_or_else(failed);
    opinion.map(|reason| reason.with_source(DecisionSource::Tool))
}

fn by_user(verdict: Verdict) -> DecisionReason {
    DecisionReason::new(DecisionSource::User, verdict, "the user")
}

fn rules_failed() -> DecisionReason {
    DecisionReason::new(DecisionSource::Failure, Verdict::Deny, "the rules, which failed")
}

/// A call that is decided on: one that is made, or one that is only looked at.
struct DecisionSubject<'a> {
    shared: &'a EngineCore,
    cx: &'a Context,
    name: &'a str,
    tool: &'a AnyTool,
    origin: &'a ToolOrigin,
    attempt: &'a CallAttempt,
    has_user: bool,
    /// The host that a child of the running call wants to reach, if the decision is about that.
    host: Option<&'a WantedHost>,
}

/// What a call declares, resolved from where it works.
pub(super) fn resolve_effects(declared: &Arc<Effects>, cx: &Context) -> ResolvedEffects {
    ResolvedEffects::resolve(declared.clone(), cx.cwd(), cx.location().workspace().paths())
}

impl<'a> DecisionSubject<'a> {
    /// A host that a child of a running call wants to reach, and the reason to ask that no rule removes.
    fn of_host(
        shared: &'a EngineCore,
        opened: &'a OpenedCall,
        cx: &'a Context,
        wanted: &'a WantedHost,
    ) -> (DecisionSubject<'a>, Vec<DecisionReason>) {
        let reason = |rule: &String| {
            let text = format!("it reaches `{rule}`, which no rule for hosts alone opens");
            DecisionReason::new(DecisionSource::Grants, Verdict::Ask, text)
        };
        let subject = DecisionSubject { host: Some(wanted), ..DecisionSubject::of_call(shared, opened, cx) };
        (subject, wanted.port_rule.iter().map(reason).collect())
    }

    fn of_call(shared: &'a EngineCore, opened: &'a OpenedCall, cx: &'a Context) -> DecisionSubject<'a> {
        let (entry, attempt): (&RegisteredTool, &CallAttempt) = (&opened.entry, &opened.attempt);
        let has_user = shared.host.ports.available_asker().is_some();
        let (name, tool, origin) = (entry.name(), entry.tool(), entry.origin());
        DecisionSubject { shared, cx, name, tool, origin, attempt, has_user, host: None }
    }

    /// What the call touches now.
    fn effects(&self) -> CallEffects {
        let resolved = resolve_effects(&self.attempt.effects, self.cx);
        let surroundings = self.shared.surroundings;
        let class = resolved.judge(self.cx.location().workspace(), surroundings);
        let unconfined_child = self.tool.spec().runs_in_child() && !surroundings.confined;
        CallEffects { resolved, class, unconfined_child }
    }

    fn request<'r>(&'r self, effects: &'r CallEffects) -> AuthorizationRequest<'r> {
        AuthorizationRequest {
            name: self.name,
            tool: self.tool,
            external: *self.origin != ToolOrigin::BuiltIn,
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
        let rules = catch_panic(|| authorizer.reasons(&self.request(&effects)));
        let context = DecisionContext {
            workspace: self.cx.location().workspace(),
            runs_in_child: self.tool.spec().runs_in_child(),
            has_user: self.has_user,
            may_ask: &|source| catch_panic(|| authorizer.may_ask(source)).unwrap_or(false),
        };
        let mut decision = decide(effects, &context, rules.unwrap_or_else(|_| vec![rules_failed()]), others);
        if decision.verdict == Verdict::Ask {
            decision.warnings = self.warnings(&decision);
        }
        decision
    }

    /// What a person should know before they allow the call.
    fn warnings(&self, decision: &Decision) -> Vec<CallWarning> {
        catch_panic(|| self.shared.authorizer.warnings(&self.request(&decision.effects))).unwrap_or_default()
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
    fn lasting_rules(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        if self.port_rule().is_some() {
            return Vec::new();
        }
        catch_panic(|| self.shared.authorizer.lasting_rules(request)).unwrap_or_default()
    }

    /// What would allow it for good, in words.
    fn proposed_rule(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        match self.port_rule() {
            Some(rule) => Some(format!("`{rule}` among the allowed hosts of the settings")),
            None => catch_panic(|| self.shared.authorizer.propose(request)).ok().flatten(),
        }
    }

    fn port_rule(&self) -> Option<&'a String> {
        self.host?.port_rule.as_ref()
    }

    fn refused(&self, decision: Decision) -> AuthorizationOutcome {
        AuthorizationOutcome::Refused(self.refusal(&decision).with_decision(decision))
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
            return ToolError::with_kind(ErrorKind::Denied, text);
        }
        match reason.source {
            DecisionSource::NoUser => {
                let text =
                    format!("{tool} needs a user to answer, and this session has none; go on without it");
                ToolError::with_kind(ErrorKind::NotInteractive, text)
            }
            // The engine's own protection says what is protected; rules say who protects it.
            DecisionSource::Protected if reason.message.is_none() => {
                ToolError::with_kind(ErrorKind::Denied, format!("{tool} was denied: {reason}"))
            }
            DecisionSource::Tool => {
                ToolError::with_kind(ErrorKind::Denied, format!("{tool} refuses this call: {reason}"))
            }
            _ => {
                let text =
                    format!("{tool} was denied by {reason}\ndo not try another tool for the same purpose");
                ToolError::with_kind(ErrorKind::Denied, text)
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

    fn digest(&self, opened: &OpenedCall, decision: &Decision) -> CallDigest {
        CallDigest::for_call(opened, &decision.effects.resolved, self.cx)
    }
}

/// Shows a call as step 5 sees it, without making it.
pub(crate) fn consider_call<T>(
    shared: &EngineCore,
    tool: &AnyTool,
    origin: &ToolOrigin,
    input: CallInput,
    look: impl FnOnce(&AuthorizationRequest<'_>) -> T,
) -> Result<T, ToolError> {
    let attempt = read_input(shared, tool, input)?;
    let cx = inspection_context(shared, tool);
    let subject = DecisionSubject {
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

/// Decides on a call as step 5 does, without making it; nobody is asked. The tool's guards belong to the
/// decision, since what they refuse isn't made and what they change is what is decided on.
pub(crate) async fn check_call<T>(
    shared: &EngineCore,
    (tool, origin): (&AnyTool, &ToolOrigin),
    input: CallInput,
    options: CheckOptions,
    look: impl FnOnce(&AuthorizationRequest<'_>, &Decision) -> T,
) -> Result<T, ToolError> {
    let cx = inspection_context(shared, tool);
    let (attempt, refusal) = read_guarded(shared, tool, input, &cx).await?;
    let mut all = Vec::new();
    all.extend(refusal);
    all.extend(tool_opinion(&attempt, &cx).await);
    let CheckOptions { hooks, permission_hooks, has_user } = options;
    all.extend(hooks.into_iter().map(|reason| reason.with_source(DecisionSource::Hook)));
    let (name, attempt) = (tool.name(), &attempt);
    let subject = DecisionSubject { shared, cx: &cx, name, tool, origin, attempt, has_user, host: None };
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
        match catch_panic(|| subject.grants(&decision)) {
            Ok(None) => {}
            Ok(Some(grants)) => decision.grants = grants,
            Err(_) => decision = decision.with_reason(rules_failed()),
        }
    }
    let request = subject.request(&decision.effects);
    Ok(look(&request, &decision))
}

impl DecisionSubject<'_> {
    /// Adds what a classifier says that runs nothing.
    fn classify_statically(&self, decision: Decision) -> Decision {
        if !decision.reason().is_some_and(DecisionReason::is_weak_ask) {
            return decision;
        }
        let request = self.request(&decision.effects);
        let reason =
            catch_panic(|| self.shared.authorizer.classify_statically(&request, &decision.question()));
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
        if !catch_panic(|| self.shared.authorizer.may_prompt()).unwrap_or(false) {
            return decision.deny_unanswered(DecisionSource::NoUser, "settings turn questions into denials");
        }
        decision
    }
}

fn read_input(shared: &EngineCore, tool: &AnyTool, input: CallInput) -> Result<CallAttempt, ToolError> {
    let mut attempt = parse::read_as(tool.name(), tool, input, false)?;
    attempt.take_rule_effects(&*shared.authorizer, tool.name(), tool);
    Ok(attempt)
}

/// Reads an input and passes it through the guards of its tool, as steps 2 to 4 do it, with the refusal of a
/// guard.
async fn read_guarded(
    shared: &EngineCore,
    tool: &AnyTool,
    input: CallInput,
    cx: &Context,
) -> Result<(CallAttempt, Option<DecisionReason>), ToolError> {
    let mut attempt = read_input(shared, tool, input)?;
    for _ in 0..=limits::REWRITES_MAX {
        match hook::pass_guards(tool, &attempt.input, cx).await {
            Ok(input) if input == *attempt.input => return Ok((attempt, None)),
            Ok(input) => attempt = read_input(shared, tool, input.into())?,
            Err(refusal) => return Ok((attempt, Some(hook::guard_reason(&refusal)))),
        }
    }
    let text = "its guards rewrite its input again and again";
    Ok((attempt, Some(DecisionReason::new(DecisionSource::Tool, Verdict::Deny, text))))
}

/// The context of a call that is only looked at: turn 0.
fn inspection_context(shared: &EngineCore, tool: &AnyTool) -> Context {
    let call = CallRef { index: 0, id: "check".into(), tool: tool.name().into() };
    Context::new(shared.host.clone(), 0, call, shared.cancel.child(), None)
}

/// Asks: permission hooks first, then the classifier, then the user, once more if what the call touches
/// changed meanwhile.
async fn ask_user(
    subject: &DecisionSubject<'_>,
    opened: &OpenedCall,
    mut decision: Decision,
    reasons: &[DecisionReason],
    asking: &(dyn Fn() + Sync),
) -> AuthorizationOutcome {
    let (shared, cx) = (subject.shared, subject.cx);
    for again in [false, true] {
        match ask_hooks(subject, opened, &decision).await {
            HookAnswer::None => {}
            HookAnswer::Allow(reason) => {
                return AuthorizationOutcome::Allowed(decision.with_reason(reason).into());
            }
            HookAnswer::Edit(input, author) => return AuthorizationOutcome::Edited(input, Some(author)),
            HookAnswer::Deny(error) => {
                let source = match error.kind() {
                    ErrorKind::HookFailed => DecisionSource::Failure,
                    _ => DecisionSource::PermissionHook,
                };
                let denial = DecisionReason::new(source, Verdict::Deny, error.message().to_owned());
                return AuthorizationOutcome::RefusedByHook(
                    error.with_decision(decision.with_reason(denial)),
                );
            }
        }
        decision = classify_call(subject, opened, decision, reasons).await;
        if decision.verdict == Verdict::Ask {
            decision = subject.unanswered(decision);
        }
        match decision.verdict {
            Verdict::Allow => return AuthorizationOutcome::Allowed(decision.into()),
            Verdict::Deny => return subject.refused(decision),
            Verdict::Ask => {}
        }
        let Some(asker) = shared.host.ports.available_asker() else { return subject.refused(decision) };
        let preview = GuardedFuture::new(|| opened.attempt.invocation.preview(cx));
        let preview = with_timeout(limits::CHECK_TIMEOUT, preview).await.and_then(Result::ok).flatten();
        let approval = subject.approval(opened, &decision, again, preview);
        let asked_about = subject.digest(opened, &decision);
        asking();
        if subject.host.is_none() {
            send_event(cx, || EventKind::Asking);
        }
        let failed =
            || ApprovalAnswer::NoBecause("the question could not be asked: the screen failed".into());
        let answer = GuardedFuture::new(|| asker.approve(&approval)).await.unwrap_or_else(|_| failed());
        match answer {
            ApprovalAnswer::Once | ApprovalAnswer::Session | ApprovalAnswer::Always => {}
            ApprovalAnswer::Edit(input) => return AuthorizationOutcome::Edited(input, None),
            ApprovalAnswer::No => {
                let text = format!(
                    "the user said no to {} and ended the turn; wait for what they say",
                    subject.shown_name()
                );
                let error = ToolError::with_kind(ErrorKind::Rejected, text).ending_turn();
                return AuthorizationOutcome::Refused(
                    error.with_decision(decision.with_reason(by_user(Verdict::Deny))),
                );
            }
            ApprovalAnswer::NoBecause(because) => {
                let text = format!("the user said no to {}: {because}", subject.shown_name());
                let decision = decision.with_reason(by_user(Verdict::Deny).with_message(because));
                let error = ToolError::with_kind(ErrorKind::Rejected, text).with_decision(decision);
                return AuthorizationOutcome::Refused(error);
            }
        }
        // What the user saw is what runs, or the user sees it again; and rules that changed meanwhile hold.
        let now = subject.decide(reasons);
        let same = subject.digest(opened, &now) == asked_about;
        match now.verdict {
            Verdict::Deny => return subject.refused(now),
            Verdict::Allow if !same => return AuthorizationOutcome::Allowed(now.into()),
            Verdict::Ask if !same => decision = now,
            Verdict::Allow | Verdict::Ask => {
                let request = subject.request(&now.effects);
                let answer = if subject.port_rule().is_some() { ApprovalAnswer::Once } else { answer };
                let kept = catch_panic(|| shared.authorizer.remember(&request, &answer));
                if let Ok(Err(why)) = kept {
                    send_event(cx, || {
                        EventKind::Warning(format!("your answer holds for this session only: {why}"))
                    });
                }
                return AuthorizationOutcome::Allowed(now.with_reason(by_user(Verdict::Allow)).into());
            }
        }
    }
    let why = "what it touches changed twice while the user was being asked";
    let error = ToolError::with_kind(ErrorKind::Denied, format!("{} was denied: {why}", subject.name));
    AuthorizationOutcome::Refused(error.with_decision(decision.deny_unanswered(DecisionSource::Failure, why)))
}

/// Asks the classifier about a call whose ask it may lift.
async fn classify_call(
    subject: &DecisionSubject<'_>,
    opened: &OpenedCall,
    decision: Decision,
    reasons: &[DecisionReason],
) -> Decision {
    if !decision.reason().is_some_and(DecisionReason::is_weak_ask) {
        return decision;
    }
    let classified = {
        let (request, question) = (subject.request(&decision.effects), decision.question());
        GuardedFuture::new(|| subject.shared.authorizer.classify(&request, &question)).await
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
    if weak && subject.digest(opened, &now) == saw { now.with_reason(reason) } else { now }
}

/// What permission hooks answered.
enum HookAnswer {
    None,
    Allow(DecisionReason),
    /// Yes, but with this input.
    Edit(Value, Box<InputAuthor>),
    Deny(ToolError),
}

/// The first hook that answers counts.
async fn ask_hooks(subject: &DecisionSubject<'_>, opened: &OpenedCall, decision: &Decision) -> HookAnswer {
    let (shared, cx) = (subject.shared, subject.cx);
    if shared.hooks.permission.is_empty() {
        return HookAnswer::None;
    }
    let (request, reason) = (subject.request(&decision.effects), &*decision.question());
    let proposed = subject.proposed_rule(&request);
    let lasting = subject.lasting_rules(&request);
    let asked = PermissionRequest { reason, proposed_rule: proposed.as_deref(), lasting_rules: &lasting };
    let (tool, input) = (opened.entry.name(), &*opened.attempt.input);
    let step = HookStep::Permission(reason.to_owned());
    for (place, known) in shared.hooks.permission.iter().enumerate() {
        let rewrote = InputAuthor::previous_rewrite(opened.author.as_deref(), &step, place);
        let call = hook::hook_call(opened, input, cx, cx.cancel(), rewrote);
        let mut answer = match hook::run_hook(known, |hook| hook.decide(&call, &asked)).await {
            Ok(answer) => answer,
            Err(error) => {
                let name = hook::hook_name(known, error.by.as_deref());
                hook::trace_hook(cx, "permission", name, &format!("failed: {error}"));
                let words = format!(
                    "{tool} was not run: permission hook `{}` failed ({error}); this is a fault of the hook, not a denial",
                    hook::hook_name(known, error.by.as_deref())
                );
                return HookAnswer::Deny(ToolError::with_kind(ErrorKind::HookFailed, words));
            }
        };
        hook::send_messages(cx, std::mem::take(&mut answer.messages));
        let by = hook::hook_name(known, answer.by.as_deref());
        hook::note_before(cx, "permission", by, &answer, input);
        let denied = |words: &str| {
            let by =
                answer.by.as_ref().map_or_else(|| "a permission hook".into(), |by| format!("hook `{by}`"));
            ToolError::with_kind(ErrorKind::Denied, format!("denied by {by}: {words}"))
        };
        let refused = answer.blocked.as_deref().or_else(|| answer.denial());
        match (refused, &answer.stop) {
            (Some(why), Some(_)) => return HookAnswer::Deny(denied(why).ending_turn_by_hook()),
            (None, Some(reason)) => {
                let text = format!("{tool} was not run: hook `{by}` ended the turn: {reason}");
                return HookAnswer::Deny(
                    ToolError::with_kind(ErrorKind::Blocked, text).ending_turn_by_hook(),
                );
            }
            (Some(why), None) => return HookAnswer::Deny(denied(why)),
            (None, None) => {}
        }
        let PreHookResponse { input: edited, by, decision, .. } = answer;
        let Some(allow) = decision.filter(|reason| reason.verdict == Verdict::Allow) else { continue };
        return match edited.filter(|edited| edited != input) {
            None => HookAnswer::Allow(allow.with_source(DecisionSource::PermissionHook)),
            Some(edited) => {
                let rewrote = InputRewrite { by, decision: Some(allow), context: Vec::new() };
                HookAnswer::Edit(edited, InputAuthor::new(step, place, rewrote))
            }
        };
    }
    HookAnswer::None
}

impl DecisionSubject<'_> {
    /// The question for the user.
    fn approval(
        &self,
        opened: &OpenedCall,
        decision: &Decision,
        again: bool,
        preview: Option<CallView>,
    ) -> ApprovalRequest {
        let request = &self.request(&decision.effects);
        let input = &opened.attempt.input;
        let view = || opened.entry.tool().view(&CallStage::Use { input, complete: true });
        ApprovalRequest {
            call_id: opened.id.to_string(),
            agent: (request.agent != MAIN_AGENT).then(|| request.agent.to_owned()),
            tool: opened.entry.name().to_string(),
            input: (**input).clone(),
            description: catch_panic(|| opened.attempt.invocation.describe()).ok().flatten(),
            effects: request.declared().clone(),
            decision: decision.clone(),
            proposed_rule: self.proposed_rule(request),
            lasting_rules: self.lasting_rules(request),
            view: preview.map_or_else(view, CallView::harmless),
            unconfined: request.unconfined_child || request.declared().unknown,
            again,
        }
    }
}
