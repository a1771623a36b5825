//! Step 5: may this call run?
//!
//! The order is fixed, and no later voice lifts an earlier no: what is never allowed → deny rules → ask rules → the
//! tool's own opinion → allow rules and mode → permission hooks → the classifier → the user. Whatever goes wrong on the way decides
//! "no". An approval is bound to a digest of the call: after the user's answer the effects are resolved again; a
//! difference asks once more, a second one denies.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::digest::CallDigest;
use super::hook::{Author, Step};
use super::{Opened, Prepared, execute, hook, parse, tell};
use crate::call::CallInput;
use crate::context::Context;
use crate::effects::resolved::Resolved;
use crate::effects::table::{Asks, Judgement};
use crate::engine::{MAIN_AGENT, Shared};
use crate::error::{ErrorKind, ToolError};
use crate::event::What;
use crate::files::{Access, Extent, Hidden};
use crate::future::{Guarded, guarded, within};
use crate::hooks::{Asked, Before, Decision, Rewrote};
use crate::limits;
use crate::ports::{Answer, Approval, Because, Classified, Request, Ruling};
use crate::registry::Origin;
use crate::tool::{AnyTool, Opinion};
use crate::view::{Stage, View};

/// What came of it.
pub(super) enum Decided {
    Allowed(Allowed),
    /// The user, or a hook that answers for the user, wants another input: back to step 2.
    Edited(Value, Option<Box<Author>>),
    Refused(ToolError),
    /// A permission hook refused it, or failed.
    ByHook(ToolError),
}

/// A call that may run, and who said so.
pub(super) struct Allowed {
    seen: Seen,
    by: Cow<'static, str>,
    /// What it isn't shown of the folders that it walks.
    hidden: Option<Hidden>,
}

impl Allowed {
    pub(super) fn prepared(self, cx: &Context, notes: Vec<String>) -> Prepared {
        let Seen { resolved, judgement } = self.seen;
        let mut granted = execute::grant(cx, &resolved);
        if self.hidden.is_some() {
            let access = granted.as_ref().unwrap_or(cx).access().clone();
            granted = Some(cx.granted(Arc::new(Access { hidden: self.hidden, ..access })));
        }
        Prepared { resolved, judgement, allowed_by: self.by, granted, notes }
    }
}

/// What the rules, the tool and the hooks say, before anybody is asked.
enum Verdict {
    Allow(Cow<'static, str>),
    Ask(Question),
    /// Would ask, and the mode forbids to.
    Unasked(String),
    Deny(ToolError),
}

/// Why a call asks, and who may answer.
struct Question {
    reason: String,
    /// Whether a classifier may answer in the user's place; not what a rule wants the user to see.
    may_classify: bool,
}

/// Decides on a call.
pub(super) async fn authorize(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    asking: &(dyn Fn() + Sync),
) -> Decided {
    let mut decided = decide(shared, opened, cx, asking).await;
    if let Decided::Allowed(allowed) = &mut decided
        && allowed.seen.resolved.reads.iter().any(|path| path.extent == Extent::Subtree)
    {
        let request = allowed.seen.request(shared, opened, cx);
        match guarded(|| shared.authorizer.hidden(&request)) {
            Ok(hidden) => allowed.hidden = hidden,
            Err(_) => {
                let because = Because::by("the rules, which failed");
                return Decided::Refused(denied(opened.entry.name(), &because));
            }
        }
    }
    decided
}

async fn decide(shared: &Shared, opened: &Opened, cx: &Context, asking: &(dyn Fn() + Sync)) -> Decided {
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
        Verdict::Ask(question) => Box::pin(ask(shared, opened, cx, seen, question, &opinion, asking)).await,
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
            source: opened.entry.origin().source(),
            input: &opened.attempt.input,
            effects: &self.resolved,
            judgement: &self.judgement,
            workspace: cx.workspace(),
            unconfined_child: opened.entry.tool().spec().runs_in_child() && !shared.surroundings.confined,
            agent: cx.agent_id(),
            turn: cx.turn(),
        }
    }

    fn allowed(self, by: Cow<'static, str>) -> Decided {
        Decided::Allowed(Allowed { seen: self, by, hidden: None })
    }
}

/// Looks at a call without making it.
pub(crate) fn consider<T>(
    shared: &Shared,
    tool: &AnyTool,
    origin: &Origin,
    input: CallInput,
    look: impl FnOnce(&Request<'_>) -> T,
) -> Result<T, ToolError> {
    let mut attempt = parse::read_as(tool.name(), tool, input, false)?;
    attempt.declare(&*shared.authorizer, tool.name(), tool);
    let workspace = &shared.host.workspace;
    let resolved = Resolved::resolve(attempt.effects.clone(), workspace.cwd());
    let judgement = resolved.judge(workspace, shared.surroundings);
    Ok(look(&Request {
        name: tool.name(),
        tool,
        external: *origin != Origin::BuiltIn,
        source: origin.source(),
        input: &attempt.input,
        effects: &resolved,
        judgement: &judgement,
        workspace,
        unconfined_child: tool.spec().runs_in_child() && !shared.surroundings.confined,
        agent: &shared.host.agent,
        turn: 0,
    }))
}

/// Asks: permission hooks first, then the classifier, then the user, once more if what the call touches changed meanwhile.
async fn ask(
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
    mut seen: Seen,
    mut question: Question,
    opinion: &Opinion,
    asking: &(dyn Fn() + Sync),
) -> Decided {
    for again in [false, true] {
        let Question { mut reason, may_classify } = question;
        match ask_hooks(shared, opened, cx, &seen, &reason).await {
            Answered::Nobody => {}
            Answered::Allow => return seen.allowed("a permission hook".into()),
            Answered::Edit(input, author) => return Decided::Edited(input, Some(author)),
            Answered::No(error) => return Decided::ByHook(error),
        }
        if may_classify {
            let classified = {
                let request = seen.request(shared, opened, cx);
                Guarded::new(|| shared.authorizer.classify(&request, &reason)).await
            };
            match classified {
                Ok(Classified::Allow(because)) => {
                    // It took its time: what it saw is what runs, or the user sees it.
                    let saw = CallDigest::of(opened, &seen.resolved, cx);
                    seen = Seen::look(shared, opened, cx);
                    let same = CallDigest::of(opened, &seen.resolved, cx) == saw;
                    match judge(shared, opened, &seen.request(shared, opened, cx), opinion) {
                        Verdict::Deny(error) => return Decided::Refused(error),
                        Verdict::Allow(by) => return seen.allowed(by),
                        Verdict::Ask(Question { may_classify: true, .. }) if same => {
                            return seen.allowed(because.by.into());
                        }
                        Verdict::Ask(changed) => reason = changed.reason,
                        Verdict::Unasked(reason) => {
                            let request = seen.request(shared, opened, cx);
                            return Decided::Refused(unasked(
                                shared,
                                &request,
                                &reason,
                                "this mode doesn't ask",
                            ));
                        }
                    }
                }
                Ok(Classified::Deny(because)) => {
                    return Decided::Refused(denied(opened.entry.name(), &because));
                }
                Ok(Classified::Ask(words)) => {
                    reason.extend(words.map(|words| format!("; {words}")));
                }
                Err(_) => reason.push_str("; the classifier failed"),
            }
        }
        let request = seen.request(shared, opened, cx);
        let Some(asker) = shared.host.ports.asker.as_deref() else {
            return Decided::Refused(unasked(shared, &request, &reason, "nobody can be asked here"));
        };
        if !guarded(|| shared.authorizer.may_prompt()).unwrap_or(false) {
            return Decided::Refused(unasked(
                shared,
                &request,
                &reason,
                "settings turn questions into denials",
            ));
        }
        let preview = Guarded::new(|| opened.attempt.invocation.preview(cx));
        let preview = within(limits::CHECK_TIMEOUT, preview).await.and_then(Result::ok).flatten();
        let approval = approval(shared, opened, &request, Told { reason, again, preview });
        let asked_about = CallDigest::of(opened, &seen.resolved, cx);
        asking();
        tell(cx, || What::Asking);
        let failed = || Answer::NoBecause("the question could not be asked: the screen failed".into());
        let answer = Guarded::new(|| asker.approve(&approval)).await.unwrap_or_else(|_| failed());
        match answer {
            Answer::Once | Answer::Session | Answer::Always => {}
            Answer::Edit(input) => return Decided::Edited(input, None),
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
            Verdict::Ask(changed) if !same => question = changed,
            Verdict::Allow(_) | Verdict::Ask(_) => {
                let kept = guarded(|| shared.authorizer.remember(&now.request(shared, opened, cx), &answer));
                if let Ok(Err(why)) = kept {
                    tell(cx, || What::Warning(format!("your answer holds for this session only: {why}")));
                }
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
    // What a child declares is read from a text that may mean all of a disk: `rm -rf /` is for rules and user to judge.
    let protected = match request.tool.spec().runs_in_child() {
        true => request.effects.within_protected(request.workspace),
        false => request.effects.meets_protected(request.workspace),
    };
    if let Some(place) = protected {
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
    let by = |reason: String, may_classify: bool| match &request.effects.failed {
        // A path that leads nowhere: no answer makes the call possible, so nobody is asked.
        Some((_, why)) => Verdict::Deny(ToolError::new(why.clone())),
        None if mode_asks => Verdict::Ask(Question { reason, may_classify }),
        None => Verdict::Unasked(reason),
    };
    let ask = |reason: String| by(reason, true);
    match (&ruling, opinion, &opened.decision) {
        (Ruling::Ask(because), ..) => return by(because.to_string(), false),
        (_, Opinion::Ask(reason), _) | (_, _, Some(Decision::Ask(reason))) => {
            return by(reason.clone(), false);
        }
        (Ruling::Allow(because), ..) => return Verdict::Allow(because.by.clone().into()),
        (_, _, Some(Decision::Allow)) => return Verdict::Allow("a hook".into()),
        _ => {}
    }
    // No rule speaks: the effects do. A tool may vouch for what is known and inside, not for the rest.
    let outside = request.outside().next();
    let vouched = *opinion == Opinion::Allow && outside.is_none() && !request.unconfined_child;
    if let Ruling::Undecided(because) = ruling {
        let vouched = vouched && request.judgement.asks != Asks::Always;
        return if vouched { Verdict::Allow("the tool itself".into()) } else { ask(because.to_string()) };
    }
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

/// What permission hooks answered.
enum Answered {
    Nobody,
    Allow,
    /// Yes, but with this input.
    Edit(Value, Box<Author>),
    No(ToolError),
}

/// The first hook that answers counts.
async fn ask_hooks(shared: &Shared, opened: &Opened, cx: &Context, seen: &Seen, reason: &str) -> Answered {
    if shared.hooks.permission.is_empty() {
        return Answered::Nobody;
    }
    let request = seen.request(shared, opened, cx);
    let proposed = guarded(|| shared.authorizer.propose(&request)).ok().flatten();
    let lasting = guarded(|| shared.authorizer.lasting(&request)).unwrap_or_default();
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
                return Answered::No(ToolError::of(ErrorKind::HookFailed, words));
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
        match (&answer.decision, &answer.stop) {
            (Some(Decision::Deny(words) | Decision::Block(words)), Some(_)) => {
                return Answered::No(denied(words).ending_turn_by_hook());
            }
            (_, Some(reason)) => {
                let words = format!("{tool} was not run: hook `{by}` ended the turn: {reason}");
                return Answered::No(ToolError::of(ErrorKind::Blocked, words).ending_turn_by_hook());
            }
            (Some(Decision::Deny(words) | Decision::Block(words)), None) => {
                return Answered::No(denied(words));
            }
            (Some(Decision::Allow), None) => {
                let Before { input: edited, by, decision, .. } = answer;
                return match edited.filter(|edited| edited != input) {
                    None => Answered::Allow,
                    Some(edited) => {
                        let rewrote = Rewrote { by, decision, context: Vec::new() };
                        Answered::Edit(edited, Author::new(step, place, rewrote))
                    }
                };
            }
            (None | Some(Decision::Ask(_)), None) => {}
        }
    }
    Answered::Nobody
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

/// What a person is told of a call beside what it says itself.
struct Told {
    reason: String,
    again: bool,
    preview: Option<View>,
}

fn approval(shared: &Shared, opened: &Opened, request: &Request<'_>, told: Told) -> Approval {
    let input = &opened.attempt.input;
    let Told { reason, again, preview } = told;
    let view = || opened.entry.tool().view(&Stage::Use { input, complete: true });
    Approval {
        call_id: opened.id.to_string(),
        agent: (request.agent != MAIN_AGENT).then(|| request.agent.to_owned()),
        tool: opened.entry.name().to_string(),
        input: (**input).clone(),
        description: guarded(|| opened.attempt.invocation.describe()).ok().flatten(),
        effects: request.declared().clone(),
        destructive: request.judgement.destructive && request.declared().warns(),
        reason,
        proposed_rule: guarded(|| shared.authorizer.propose(request)).ok().flatten(),
        lasting_rules: guarded(|| shared.authorizer.lasting(request)).unwrap_or_default(),
        view: preview.map_or_else(view, View::harmless),
        unconfined: request.unconfined_child
            || (request.declared().unknown && !confined_elsewhere(shared, opened)),
        again,
    }
}
