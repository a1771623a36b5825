//! Explains the decision for a call, for `haft check` and for denied calls.
//!
//! The verdict and its reason are the engine's [`Decision`]. Everything else here explains it.

use std::fmt;

use haft::call::CallInput;
use haft::decision::{CallWarning, Decision, DecisionReason, DecisionSource, RuleRef, Verdict};
use haft::effects::AccessKind;
use haft::engine::CheckOptions;
use haft::ports::{AuthorizationRequest, PermissionMode};
use haft::registry::ToolOrigin;
use haft::view::visible_line;
use haft::{Engine, ToolError};
use schemars::JsonSchema;
use serde::Serialize;

use super::call_analysis::CallAnalysis;
use super::configured_effects::is_hashed;
use super::verdict::{self, PolicyReason};
use super::{Policy, PolicyInner, unknown_effects};
use crate::conventions;
use crate::rule::{EffectKind, NotDecidingReason, Rule, RuleSet};

/// The decision for a call, with its explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DecisionReport {
    /// The tool's name.
    pub tool: String,
    /// The active permission mode.
    pub mode: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, as text.
    pub reason: String,
    /// The rule that decided, if one did.
    pub decided_by: Option<RuleRef>,
    /// Warnings that the user should read before allowing the call.
    pub warnings: Vec<CallWarning>,
    /// Every other rule that matched, and why it did not decide.
    pub other_rules: Vec<OtherRule>,
    /// The effects of the call.
    pub effects: EffectsView,
    /// The parts of a command line: every command, every redirection, and every part that isn't understood.
    pub parts: Vec<CommandPart>,
    /// The smallest change that would allow the call. `None` if it is allowed or can't be.
    pub to_allow: Option<SuggestedChange>,
    /// A small change that would deny the call. `None` if it is denied.
    pub to_deny: Option<SuggestedChange>,
}

/// A rule that matched and did not decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherRule {
    /// The rule.
    #[serde(flatten)]
    pub rule: RuleRef,
    /// Why it did not decide.
    pub why: String,
}

/// The effects of a call, for display.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct EffectsView {
    /// A short summary.
    pub summary: String,
    /// Paths that are read.
    pub reads: Vec<String>,
    /// Paths that are created or changed.
    pub writes: Vec<String>,
    /// Paths that are removed.
    pub deletes: Vec<String>,
    /// Hosts that are reached.
    pub reaches: Vec<String>,
    /// Commands that run.
    pub runs: Vec<String>,
    /// Other effects are possible too.
    pub unknown: bool,
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Part")]
pub struct CommandPart {
    /// The text as written, on one line.
    pub text: String,
    /// The kind of part.
    pub kind: PartKind,
    /// The nesting depth in arguments of other commands.
    pub depth: usize,
    /// The verdict on the part alone.
    pub verdict: Verdict,
    /// The reason of the verdict.
    pub reason: String,
    /// The rule that decides the part, if one does.
    pub rule: Option<RuleRef>,
    /// The part changes nothing.
    pub read_only: bool,
    /// The effects of the part, if known.
    pub touches: Option<String>,
}

/// The kinds of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// A command.
    Command,
    /// The file of a redirection.
    Redirection,
    /// A part that isn't understood.
    Doubt,
}

/// A change of the configuration that would change the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Change")]
pub struct SuggestedChange {
    /// The list to add the rules to.
    pub list: Verdict,
    /// The rules. Empty if something else has to change.
    pub rules: Vec<String>,
    /// What else to know or to do.
    pub words: Option<String>,
}

impl SuggestedChange {
    /// Returns the change as text, with this wording for its rules.
    pub fn to_text(&self, wording: RuleWording) -> String {
        match &self.words {
            Some(words) if self.rules.is_empty() => words.clone(),
            Some(words) => format!("{words}: {}", wording(self.list, &self.rules)),
            None => wording(self.list, &self.rules),
        }
    }
}

impl fmt::Display for SuggestedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(name_rules))
    }
}

/// How messages name the rules to add to a list, at least one. A program may name its flags here.
pub type RuleWording = fn(Verdict, &[String]) -> String;

/// The default wording.
pub(super) fn name_rules(list: Verdict, rules: &[String]) -> String {
    let plural = if rules.len() == 1 { "" } else { "s" };
    format!("{list} rule{plural} `{}`", rules.join("`, `"))
}

/// The error for a call that can't be checked.
#[derive(Debug)]
#[non_exhaustive]
pub enum InvalidCall {
    /// No tool has this name; the list holds the closest names.
    UnknownTool(String, Vec<String>),
    /// The input is invalid.
    Input(ToolError),
}

impl fmt::Display for InvalidCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidCall::UnknownTool(name, near) if near.is_empty() => write!(f, "no tool named `{name}`"),
            InvalidCall::UnknownTool(name, near) => {
                write!(f, "no tool named `{name}`; closest: `{}`", near.join("`, `"))
            }
            InvalidCall::Input(error) => f.write_str(error.message()),
        }
    }
}

impl std::error::Error for InvalidCall {}

/// A call to check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckedCall<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// Its input.
    pub input: CallInput,
    /// MCP servers that are configured but not connected. Only these servers determine which server a tool
    /// belongs to; the tool's name alone doesn't.
    pub servers: &'a [&'a str],
    /// The assumed results of pre-call hooks.
    pub hooks: Vec<DecisionReason>,
    /// The assumed results of permission hooks, if the call asks.
    pub permission_hooks: Vec<DecisionReason>,
}

impl<'a> CheckedCall<'a> {
    /// Creates a check of a tool call.
    pub fn new(tool: &'a str, input: impl Into<CallInput>) -> CheckedCall<'a> {
        CheckedCall {
            tool,
            input: input.into(),
            servers: &[],
            hooks: Vec::new(),
            permission_hooks: Vec::new(),
        }
    }

    /// Sets the configured MCP servers.
    #[must_use]
    pub fn with_servers(mut self, servers: &'a [&'a str]) -> CheckedCall<'a> {
        self.servers = servers;
        self
    }

    /// Sets the assumed results of pre-call hooks.
    #[must_use]
    pub fn with_hooks(mut self, hooks: Vec<DecisionReason>) -> CheckedCall<'a> {
        self.hooks = hooks;
        self
    }

    /// Sets the assumed results of permission hooks.
    #[must_use]
    pub fn with_permission_hooks(mut self, hooks: Vec<DecisionReason>) -> CheckedCall<'a> {
        self.permission_hooks = hooks;
        self
    }
}

pub(super) async fn check_call(
    policy: &Policy,
    engine: &Engine,
    call: CheckedCall<'_>,
) -> Result<DecisionReport, InvalidCall> {
    look_at(policy, engine, call, |request, decision| build_report(&policy.0, request, decision)).await
}

pub(super) async fn decide_call(
    policy: &Policy,
    engine: &Engine,
    call: CheckedCall<'_>,
) -> Result<(String, Decision), InvalidCall> {
    let decided =
        |request: &AuthorizationRequest<'_>, decision: &Decision| (request.name.to_owned(), decision.clone());
    look_at(policy, engine, call, decided).await
}

/// Decides a call as the engine's authorization step does, for an existing or a conventional tool.
async fn look_at<T>(
    policy: &Policy,
    engine: &Engine,
    call: CheckedCall<'_>,
    look: impl FnOnce(&AuthorizationRequest<'_>, &Decision) -> T,
) -> Result<T, InvalidCall> {
    let CheckedCall { tool, input, servers, hooks, permission_hooks } = call;
    let snapshot = engine.snapshot();
    let offered = snapshot.offers().iter().map(|offer| (offer.tool(), offer.origin()));
    let withheld = snapshot.withheld().map(|(entry, _)| (entry.tool(), entry.origin()));
    let all: Vec<_> = offered.chain(withheld).collect();
    let named = all.iter().find(|(known, _)| known.name() == tool);
    let known = named.or_else(|| {
        let alias = |known: &haft::tool::AnyTool| known.aliases().iter().any(|alias| alias == tool);
        all.iter().find(|(known, origin)| **origin == ToolOrigin::BuiltIn && alias(known))
    });
    let options = CheckOptions { hooks, permission_hooks, has_user: !policy.0.non_interactive };
    let checked = match known {
        Some((known, origin)) => engine.check(known, origin, input, options, look).await,
        None => {
            let stand_in = conventions::find_tool(tool).ok_or_else(|| unknown_tool(tool, &all))?;
            let origin = if tool.starts_with("mcp__") {
                ToolOrigin::External(server_of(tool, servers).unwrap_or_default().into())
            } else {
                ToolOrigin::BuiltIn
            };
            engine.check(&stand_in, &origin, input, options, look).await
        }
    };
    checked.map_err(InvalidCall::Input)
}

/// Returns the server of a tool whose server isn't connected: the only configured server whose prefix the
/// tool's name has. If there are several or none, it is the one without `__` in its name, which spans the
/// plain name up to there. A hashed name matches no server.
fn server_of<'a>(tool: &'a str, servers: &[&'a str]) -> Option<&'a str> {
    let of = |server: &&&str| {
        let rest = tool.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(**server));
        rest.is_some_and(|rest| rest.starts_with("__"))
    };
    let mut named = servers.iter().filter(of);
    match (named.next(), named.next()) {
        (Some(only), None) if !only.contains("__") || is_hashed(tool) => Some(only),
        _ if is_hashed(tool) => None,
        _ => Some(tool.strip_prefix("mcp__")?.split_once("__")?.0),
    }
}

fn unknown_tool(tool: &str, all: &[(&haft::tool::AnyTool, &ToolOrigin)]) -> InvalidCall {
    let mut names: Vec<&str> = conventions::tool_names().collect();
    names.extend(all.iter().map(|(known, _)| known.name()));
    let letters = |name: &str| name.chars().flat_map(char::to_lowercase).take(64).collect::<Vec<char>>();
    let wanted = letters(tool);
    let near = names.into_iter().filter(|name| haft::spelling::edit_distance(&wanted, &letters(name)) <= 2);
    let mut near: Vec<String> = near.map(str::to_owned).collect();
    near.sort();
    near.dedup();
    near.truncate(3);
    InvalidCall::UnknownTool(tool.to_owned(), near)
}

fn build_report(
    inner: &PolicyInner,
    request: &AuthorizationRequest<'_>,
    decision: &Decision,
) -> DecisionReport {
    let case = CallAnalysis::for_request(request, &inner.surroundings);
    let (sets, mode) = (inner.live.sets(), inner.live.mode());
    let judged = verdict::judge_call(inner, &sets, mode, &case, true);
    let rules = sets.for_mode(mode);
    let verdict = decision.verdict;
    let by = judged.matches.by.map(|id| rules.rule(id));
    let decided_by = asking_reason(decision).and_then(|reason| reason.rule.as_deref()).cloned();
    let mut others: Vec<OtherRule> =
        judged.matches.others.iter().map(|(id, why)| other_rule(rules.rule(*id), &case, *why)).collect();
    if let Some(rule) = judged.unknown.flatten().map(|id| rules.rule(id)) {
        let why = "could speak of what isn't known".to_owned();
        others.insert(0, OtherRule { why, ..other_rule(rule, &case, NotDecidingReason::SaysTheSame) });
    }
    if let Some(rule) = by.filter(|_| decided_by.is_none()) {
        let text = asking_reason(decision).map_or("its effects", |reason| &*reason.text);
        let why = match verdict {
            Verdict::Allow => format!("goes after this: {text} decided"),
            Verdict::Ask | Verdict::Deny => format!("goes after this: {text}"),
        };
        others.insert(0, OtherRule { why, ..other_rule(rule, &case, NotDecidingReason::SaysTheSame) });
    }
    if let Some(rule) = verdict::find_suspended_rule(&sets, mode, &case) {
        let why = verdict::why_suspended(mode);
        others.insert(0, OtherRule { why, ..other_rule(rule, &case, NotDecidingReason::SaysTheSame) });
    }
    let to_deny = (verdict != Verdict::Deny).then(|| SuggestedChange {
        list: Verdict::Deny,
        rules: vec![rules.propose_deny(&case.subject)],
        words: None,
    });
    let several = case.commands.len() > 1
        && judged.unknown.is_none()
        && verdict == Verdict::Ask
        && decision.reason().is_some_and(DecisionReason::is_weak_ask);
    DecisionReport {
        tool: request.name.to_owned(),
        mode: mode.to_string(),
        verdict,
        reason: if several { "no rule allows every part".to_owned() } else { inner.explanation(decision) },
        decided_by,
        warnings: decision.warnings.clone(),
        other_rules: others,
        effects: describe_effects(&case),
        parts: command_parts(inner, &case),
        to_allow: to_allow_decided(inner, &case, &judged, decision),
        to_deny,
    }
}

/// Returns the reason that decided, or the unanswered ask.
fn asking_reason(decision: &Decision) -> Option<&DecisionReason> {
    decision.unanswered().or_else(|| decision.reason())
}

impl PolicyInner {
    /// Returns the reason of a decision as text for the user.
    pub(super) fn explanation(&self, decision: &Decision) -> String {
        let denied = decision.unanswered().and_then(|ask| Some((ask, self.denies_asks(ask.source)?)));
        match denied.filter(|_| decision.source != DecisionSource::Failure) {
            Some((ask, why)) => format!("{ask}; it would ask, and {why}"),
            None => decision.explanation(),
        }
    }
}

/// Returns the verdict on a part of a call. An ask is a denial if no user is available.
fn shown_verdict(inner: &PolicyInner, reason: &DecisionReason) -> (Verdict, String) {
    match inner.denies_asks(reason.source) {
        Some(why) if reason.verdict == Verdict::Ask => {
            (Verdict::Deny, format!("{reason}; it would ask, and {why}"))
        }
        _ => (reason.verdict, reason.to_string()),
    }
}

fn other_rule(rule: &Rule, case: &CallAnalysis<'_>, why: NotDecidingReason) -> OtherRule {
    let what = match why {
        NotDecidingReason::Covers(effect)
        | NotDecidingReason::CoversOnly(effect)
        | NotDecidingReason::OnePathOnly(effect)
        | NotDecidingReason::NotEnforced(effect)
        | NotDecidingReason::NotUnderstood(effect)
        | NotDecidingReason::NeedsExact(effect)
        | NotDecidingReason::Outside(effect)
        | NotDecidingReason::NotGranted(effect) => format!(" ({})", visible_line(&case.subject.show(effect))),
        _ => String::new(),
    };
    OtherRule { rule: (**rule.reference()).clone(), why: format!("{why}{what}") }
}

/// Returns the change that would allow a call, given the results of tool and hooks.
fn to_allow_decided(
    inner: &PolicyInner,
    case: &CallAnalysis<'_>,
    judged: &PolicyReason,
    decision: &Decision,
) -> Option<SuggestedChange> {
    let reason = asking_reason(decision)?;
    match (reason.source, reason.verdict) {
        _ if decision.verdict == Verdict::Allow => None,
        (DecisionSource::Tool | DecisionSource::Hook, Verdict::Ask) => {
            in_words("nothing but a yes each time".to_owned())
        }
        (DecisionSource::Tool | DecisionSource::Hook | DecisionSource::NoUser, _) => {
            in_words("nothing allows it".to_owned())
        }
        _ => to_allow_judged(inner, case, judged),
    }
}

/// Returns the change that would allow a call. `None` if it is allowed, or if no change helps.
pub(super) fn to_allow(inner: &PolicyInner, case: &CallAnalysis<'_>) -> Option<SuggestedChange> {
    let judged = verdict::judge_call(inner, &inner.live.sets(), inner.live.mode(), case, false);
    to_allow_judged(inner, case, &judged)
}

fn in_words(words: String) -> Option<SuggestedChange> {
    Some(SuggestedChange { list: Verdict::Allow, rules: Vec::new(), words: Some(words) })
}

fn to_allow_judged(
    inner: &PolicyInner,
    case: &CallAnalysis<'_>,
    judged: &PolicyReason,
) -> Option<SuggestedChange> {
    let (reason, unclear) = (&judged.reason, judged.unknown.is_some());
    let bypass = || {
        let more = match inner.live.mode() {
            PermissionMode::BypassPermissions => "",
            _ => ", or mode `bypassPermissions`",
        };
        in_words(format!("nothing but a yes each time{more}"))
    };
    match reason.verdict {
        Verdict::Allow => None,
        _ if reason.rule.is_some() => {
            let RuleRef { text, list, source, .. } = &**reason.rule.as_ref()?;
            in_words(format!("remove the rule `{text}` ({source}) from `{list}`; no allow rule lifts it"))
        }
        Verdict::Deny if inner.live.mode() == PermissionMode::Plan => {
            in_words("leave the mode `plan`".to_owned())
        }
        Verdict::Deny => in_words("nothing allows it".to_owned()),
        Verdict::Ask if !reason.is_weak_ask() => {
            if unclear || case.critical.is_some() {
                in_words("nothing but a yes each time".to_owned())
            } else {
                bypass()
            }
        }
        Verdict::Ask => {
            let rules = inner.proposals(case);
            if rules.is_empty() && unclear {
                return in_words("nothing but a yes each time, or a call of which this is known".to_owned());
            }
            if rules.is_empty() {
                return bypass();
            }
            let whole = case.commands.len() > 1
                && rules.len() == 1
                && case.whole_line().is_some_and(|line| {
                    line.commands[0].for_allow.iter().any(|text| rules[0].contains(&**text))
                });
            let words = (whole || !case.doubts().is_empty())
                .then(|| "nothing narrower than the exact command".to_owned());
            Some(SuggestedChange { list: Verdict::Allow, rules, words })
        }
    }
}

fn describe_effects(case: &CallAnalysis<'_>) -> EffectsView {
    let mut view = EffectsView::default();
    for (effect, place) in case.places() {
        let list = match effect.touch {
            EffectKind::Reads => &mut view.reads,
            EffectKind::Writes => &mut view.writes,
            _ => &mut view.deletes,
        };
        let mut path = place.given.display().to_string();
        if place.real != place.given {
            path = format!("{path} -> {}", place.real.display());
        }
        if !list.contains(&path) {
            list.push(path);
        }
    }
    let subject = &case.subject;
    let hosts =
        subject.touches.hosts.iter().chain(subject.commands.iter().flat_map(|one| &one.touches.hosts));
    for host in hosts {
        if !view.reaches.contains(&host.to_string()) {
            view.reaches.push(host.to_string());
        }
    }
    view.runs = case.commands.iter().map(|command| visible_line(&command.text)).collect();
    let open = |command: &haft_shell::SubCommand| {
        command.read_only.is_err() && command.effects.as_ref().is_none_or(|effects| effects.unknown)
    };
    view.unknown = subject.open || !case.doubts().is_empty() || case.commands.iter().any(open);
    view.summary = summarize_effects(&view, case);
    view
}

fn summarize_effects(view: &EffectsView, case: &CallAnalysis<'_>) -> String {
    let few = |verb: &str, list: &[String]| {
        (!list.is_empty()).then(|| {
            let shown = list.iter().take(4).map(|one| visible_line(one)).collect::<Vec<_>>().join(", ");
            let more = if list.len() > 4 { format!(" and {} more", list.len() - 4) } else { String::new() };
            format!("{verb} {shown}{more}")
        })
    };
    let mut words: Vec<String> = Vec::new();
    match view.runs.len() {
        0 => {}
        1 => words.push("runs 1 command".to_owned()),
        count => words.push(format!("runs {count} commands")),
    }
    words.extend(few("reads", &view.reads));
    words.extend(few("writes", &view.writes));
    words.extend(few("deletes", &view.deletes));
    words.extend(few("reaches", &view.reaches));
    let changed = case.declared.state.iter().map(|state| match state.access {
        AccessKind::Observe => format!("looks at {state}"),
        AccessKind::Change => format!("changes {state}"),
    });
    words.extend(changed);
    words.extend(case.declared.delegates.then(|| "starts calls that are judged one by one".to_owned()));
    words.extend(case.declared.asks_user.then(|| "asks you".to_owned()));
    if view.unknown {
        let what = if unknown_effects::only_reads(case) {
            "reads unknown"
        } else if view.writes.is_empty() && !view.runs.is_empty() {
            "writes unknown"
        } else {
            "may touch anything"
        };
        words.push(what.to_owned());
    }
    if words.is_empty() {
        words.push("touches nothing".to_owned());
    }
    words.join(" · ")
}

fn command_parts(inner: &PolicyInner, case: &CallAnalysis<'_>) -> Vec<CommandPart> {
    let (sets, mode) = (inner.live.sets(), inner.live.mode());
    let mut parts: Vec<CommandPart> = Vec::new();
    for (at, command) in case.commands.iter().enumerate() {
        let part = case.only(at);
        let judged = verdict::judge_call(inner, &sets, mode, &part, false);
        let (verdict, mut reason) = shown_verdict(inner, &judged.reason);
        let rule = part_rule(&judged, sets.for_mode(mode));
        if let Some(rule) = &rule {
            reason.clone_from(&rule.text);
        } else if let (Some(why), true) = (command.exact_only, judged.reason.is_weak_ask()) {
            reason = format!("{why}; only an exact rule allows it");
        } else if judged.reason.is_weak_ask()
            && judged.unknown.is_none()
            && judged.matches.uncovered.iter().any(|effect| effect.touch == EffectKind::Runs)
        {
            reason = "no rule matches".to_owned();
        }
        let depth = command.within.and_then(|outer| parts.get(outer)).map_or(0, |outer| outer.depth + 1);
        let touches = command.effects.as_ref().filter(|effects| !effects.is_none());
        parts.push(CommandPart {
            text: visible_line(&command.text),
            kind: PartKind::Command,
            depth,
            verdict,
            reason,
            rule,
            read_only: command.read_only.is_ok(),
            touches: touches
                .map(|effects| visible_line(&describe_known(effects)))
                .filter(|words| !words.is_empty()),
        });
    }
    if case.commands.is_empty() && case.doubts().is_empty() {
        return parts;
    }
    let redirections = [(EffectKind::Reads, "<"), (EffectKind::Writes, ">")];
    for (touch, sign) in redirections {
        let own = case.places().filter(|(effect, _)| effect.touch == touch && effect.command.is_none());
        for (effect, place) in own {
            let part = case.only_place(effect);
            let judged = verdict::judge_call(inner, &sets, mode, &part, false);
            let (verdict, mut reason) = shown_verdict(inner, &judged.reason);
            let rule = part_rule(&judged, sets.for_mode(mode));
            if let Some(rule) = &rule {
                reason.clone_from(&rule.text);
            }
            parts.push(CommandPart {
                text: visible_line(&format!("{sign} {}", place.given.display())),
                kind: PartKind::Redirection,
                depth: 0,
                verdict,
                reason,
                rule,
                read_only: touch == EffectKind::Reads,
                touches: None,
            });
        }
    }
    for doubt in case.doubts() {
        parts.push(CommandPart {
            text: "not understood".to_owned(),
            kind: PartKind::Doubt,
            depth: 0,
            verdict: shown_verdict(inner, &DecisionReason::new(DecisionSource::Effects, Verdict::Ask, "")).0,
            reason: visible_line(doubt),
            rule: None,
            read_only: false,
            touches: None,
        });
    }
    parts
}

/// Returns the rule that decides a part, if one does.
fn part_rule(judged: &PolicyReason, rules: &RuleSet) -> Option<RuleRef> {
    judged.reason.rule.as_ref()?;
    judged.matches.by.map(|id| (**rules.rule(id).reference()).clone())
}

/// Returns the effects without the marker for unknown ones.
fn describe_known(effects: &haft::Effects) -> String {
    let mut known = effects.clone();
    known.unknown = false;
    if known.is_none() { String::new() } else { known.to_string() }
}

/// Formats the report for the user.
impl fmt::Display for DecisionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, name_rules)
    }
}

impl DecisionReport {
    /// Returns the report as text, with this wording for rules that would change the verdict.
    pub fn to_text(&self, wording: RuleWording) -> String {
        let mut text = String::new();
        self.write(&mut text, wording).expect("a string takes any text");
        text
    }

    fn write(&self, f: &mut dyn fmt::Write, wording: RuleWording) -> fmt::Result {
        let DecisionReport { verdict, reason, decided_by, warnings, other_rules, effects, parts, .. } = self;
        writeln!(f, "{verdict:<5} {}", visible_line(reason))?;
        if !parts.is_empty() {
            writeln!(f)?;
            let width = |of: &dyn Fn(&CommandPart) -> usize, max: usize| {
                parts.iter().map(of).max().unwrap_or(0).min(max)
            };
            let text = width(&|part| part.text.chars().count() + 2 * part.depth, 60);
            let why = width(
                &|part| {
                    if part.rule.is_some() || part.touches.is_some() {
                        part.reason.chars().count()
                    } else {
                        0
                    }
                },
                40,
            );
            for part in parts {
                let shown = format!("{}{}", "  ".repeat(part.depth), part.text);
                let more = match (&part.rule, &part.touches) {
                    (Some(rule), _) => &*rule.source,
                    (None, Some(touches)) => touches,
                    (None, None) => "",
                };
                let line = format!("  {shown:<text$}  {:<5}  {:<why$}  {more}", part.verdict, part.reason);
                writeln!(f, "{}", line.trim_end())?;
            }
        }
        writeln!(f)?;
        if let Some(rule) = decided_by.as_ref().filter(|_| parts.len() != 1) {
            let perhaps = rule.list == Verdict::Deny && *verdict != Verdict::Deny;
            let so = if perhaps { ": what it denies may be touched, so the call asks" } else { "" };
            writeln!(f, "decided   {} {} ({}){so}", rule.list, visible_line(&rule.text), rule.source)?;
        }
        for warning in warnings {
            writeln!(f, "careful   {}", visible_line(&warning.to_string()))?;
        }
        for (at, OtherRule { rule: RuleRef { text, list, source, .. }, why }) in
            other_rules.iter().enumerate()
        {
            let head = if at == 0 { "others" } else { "" };
            writeln!(f, "{head:<9} {list} {} ({source}): {}", visible_line(text), visible_line(why))?;
        }
        write!(f, "effects   {}", effects.summary)?;
        if let Some(change) = &self.to_allow {
            write!(f, "\nto allow  {}", change.to_text(wording))?;
        }
        if let Some(change) = &self.to_deny {
            write!(f, "\nto deny   {}", change.to_text(wording))?;
        }
        Ok(())
    }
}
