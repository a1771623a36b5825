//! The decision on a call: one value, computed by one function.
//!
//! Each source gives [`DecisionReason`]s: rules, mode, effects, the tool itself, hooks, the classifier, the
//! user. [`decide`] folds them into a [`Decision`]. The pipeline acts on that value, and `check` shows the
//! same value without running the call.
//!
//! A deny is final. An ask stands until a source that may lift it allows the call:
//!
//! | the ask comes from | it is lifted by an allow of |
//! |---|---|
//! | protected paths, a rule, the tool, a hook | a permission hook, the user |
//! | mode, sandbox, effects, grants | these, a hook before the call, the classifier; the tool, if the effects are known and inside |
//!
//! What an allowed call may touch is a second value, [`CallGrants`]: of what the call declares, what the
//! working directories, rules for paths and hosts, or an approval open. A mode or a rule for a command opens
//! nothing.
//!
//! Nothing here looks at the disk, calls foreign code or waits.

mod warning;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::effects::Effects;
use crate::effects::resolved::{HostCapabilities, ResolvedEffects, ResolvedPath, Workspace};
use crate::effects::table::{ApprovalNeed, EffectClass};
use crate::files::{GrantedAccess, GrantedRoot, HiddenPaths};
pub use warning::CallWarning;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It asks.
    Ask,
    /// It doesn't run.
    Deny,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 3] = [Verdict::Allow, Verdict::Ask, Verdict::Deny];
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        })
    }
}

/// Who gave a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DecisionSource {
    /// Paths and addresses that settings or haft itself protect in every mode.
    Protected,
    /// A rule.
    Rule,
    /// The permission mode.
    Mode,
    /// The sandbox, or what it can't hide.
    Sandbox,
    /// What the call touches.
    Effects,
    /// A path or host that the call isn't granted.
    Grants,
    /// The tool itself.
    Tool,
    /// A hook before the call.
    Hook,
    /// A hook that answers in the user's place.
    PermissionHook,
    /// The classifier.
    Classifier,
    /// The user.
    User,
    /// The absence of a user.
    NoUser,
    /// Something that failed while the call was decided on.
    Failure,
}

impl DecisionSource {
    /// All of them.
    pub const ALL: [DecisionSource; 13] = [
        DecisionSource::Protected,
        DecisionSource::Rule,
        DecisionSource::Mode,
        DecisionSource::Sandbox,
        DecisionSource::Effects,
        DecisionSource::Grants,
        DecisionSource::Tool,
        DecisionSource::Hook,
        DecisionSource::PermissionHook,
        DecisionSource::Classifier,
        DecisionSource::User,
        DecisionSource::NoUser,
        DecisionSource::Failure,
    ];

    /// Whether an ask of this source may be answered by the tool, a hook before the call or the classifier.
    fn asks_weakly(self) -> bool {
        use DecisionSource as S;
        matches!(self, S::Mode | S::Sandbox | S::Effects | S::Grants)
    }

    /// Whether an allow of this source lifts an ask of that one. `may_vouch` says whether the tool is
    /// believed.
    fn can_lift(self, ask: DecisionSource, may_vouch: bool) -> bool {
        match self {
            DecisionSource::PermissionHook | DecisionSource::User => true,
            DecisionSource::Hook | DecisionSource::Classifier => ask.asks_weakly(),
            DecisionSource::Tool => may_vouch && ask.asks_weakly(),
            _ => false,
        }
    }

    /// Which of several reasons with the same verdict is named: the smallest.
    fn rank(self, verdict: Verdict) -> u8 {
        use DecisionSource as S;
        let order: [S; 13] = match verdict {
            Verdict::Deny => [
                S::Protected,
                S::NoUser,
                S::Failure,
                S::Rule,
                S::Mode,
                S::Sandbox,
                S::Effects,
                S::Grants,
                S::Tool,
                S::Hook,
                S::PermissionHook,
                S::Classifier,
                S::User,
            ],
            // The asks that fewer may lift come first.
            Verdict::Ask => [
                S::Protected,
                S::Rule,
                S::Tool,
                S::Hook,
                S::PermissionHook,
                S::User,
                S::NoUser,
                S::Failure,
                S::Mode,
                S::Sandbox,
                S::Effects,
                S::Grants,
                S::Classifier,
            ],
            Verdict::Allow => [
                S::User,
                S::PermissionHook,
                S::Protected,
                S::Rule,
                S::Mode,
                S::Sandbox,
                S::Effects,
                S::Grants,
                S::Hook,
                S::Tool,
                S::Classifier,
                S::NoUser,
                S::Failure,
            ],
        };
        order.iter().position(|source| *source == self).map_or(u8::MAX, |place| place as u8)
    }
}

/// A rule, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRef {
    /// Its text.
    #[serde(rename = "rule")]
    pub text: String,
    /// The list that it stands in.
    pub list: Verdict,
    /// The file and line, or what else it comes from.
    pub source: String,
    /// Its message for the model.
    pub message: Option<String>,
}

/// What one source says of a call, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionReason {
    /// Who says it. The engine sets it for what tools and hooks return.
    pub source: DecisionSource,
    /// What it wants.
    pub verdict: Verdict,
    /// Why, for example ``rule `Bash` (settings.json:4)``.
    pub text: Cow<'static, str>,
    /// More for the model.
    pub message: Option<String>,
    /// The rule, if it is one's.
    #[serde(with = "shared_rule")]
    pub rule: Option<Arc<RuleRef>>,
}

/// A rule that reasons share, as JSON.
mod shared_rule {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::RuleRef;

    pub(super) fn serialize<S: Serializer>(
        rule: &Option<Arc<RuleRef>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        rule.as_deref().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<RuleRef>>, D::Error> {
        Ok(Option::<RuleRef>::deserialize(deserializer)?.map(Arc::new))
    }
}

impl DecisionReason {
    /// A reason of this source.
    pub fn new(
        source: DecisionSource,
        verdict: Verdict,
        text: impl Into<Cow<'static, str>>,
    ) -> DecisionReason {
        DecisionReason { source, verdict, text: text.into(), message: None, rule: None }
    }

    /// A tool or hook sees nothing against the call.
    pub fn allow() -> DecisionReason {
        DecisionReason::new(DecisionSource::Tool, Verdict::Allow, "")
    }

    /// A tool or hook wants the user to see the call, for this reason.
    pub fn ask(text: impl Into<Cow<'static, str>>) -> DecisionReason {
        DecisionReason::new(DecisionSource::Tool, Verdict::Ask, text)
    }

    /// A tool or hook forbids the call, for this reason.
    pub fn deny(text: impl Into<Cow<'static, str>>) -> DecisionReason {
        DecisionReason::new(DecisionSource::Tool, Verdict::Deny, text)
    }

    /// Adds a message for the model.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> DecisionReason {
        self.message = Some(message.into());
        self
    }

    /// Names the rule.
    #[must_use]
    pub fn with_rule(mut self, rule: Arc<RuleRef>) -> DecisionReason {
        self.rule = Some(rule);
        self
    }

    /// Whether this asks and hooks before the call or a classifier may answer.
    pub fn is_weak_ask(&self) -> bool {
        self.verdict == Verdict::Ask && self.source.asks_weakly()
    }

    /// The same reason with another source, whatever it names itself.
    pub(crate) fn with_source(mut self, source: DecisionSource) -> DecisionReason {
        self.source = source;
        self.rule = None;
        if self.verdict == Verdict::Allow {
            self.text = match source {
                DecisionSource::Tool => "the tool itself".into(),
                DecisionSource::Hook => "a hook".into(),
                DecisionSource::PermissionHook => "a permission hook".into(),
                _ => self.text,
            };
        }
        self
    }
}

impl fmt::Display for DecisionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

/// What a call touches at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEffects {
    /// What it touches, as declared and as resolved.
    pub resolved: ResolvedEffects,
    /// What follows from that.
    pub class: EffectClass,
    /// It runs in a child process that nothing holds to what it declares.
    pub unconfined_child: bool,
}

/// What [`decide`] needs beside the call's effects and the reasons.
#[derive(Clone, Copy)]
pub struct DecisionContext<'a> {
    /// Where the session works.
    pub workspace: &'a Workspace,
    /// The tool runs its work in a child process.
    pub runs_in_child: bool,
    /// A user can be asked in this session.
    pub has_user: bool,
    /// Whether the mode allows asking for a reason of this source.
    pub may_ask: &'a dyn Fn(DecisionSource) -> bool,
}

/// What an allowed call may touch, of what it declared.
#[derive(Debug, Clone, Default)]
pub struct CallGrants {
    /// What it may read.
    pub reads: GrantedPaths,
    /// What it may create or change.
    pub writes: GrantedPaths,
    /// What it may remove.
    pub deletes: GrantedPaths,
    /// The hosts that a child process of it may reach.
    pub hosts: Vec<String>,
    /// What it isn't shown of the folders that it walks.
    pub hidden: Option<HiddenPaths>,
}

/// Which of the paths that a call declared it may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantedPaths {
    /// All that it declared.
    Declared,
    /// These.
    Only(Vec<ResolvedPath>),
}

/// None.
impl Default for GrantedPaths {
    fn default() -> GrantedPaths {
        GrantedPaths::Only(Vec::new())
    }
}

impl GrantedPaths {
    /// The paths; `declared` is what the call declared.
    pub fn of_declared<'a>(&'a self, declared: &'a [ResolvedPath]) -> &'a [ResolvedPath] {
        match self {
            GrantedPaths::Declared => declared,
            GrantedPaths::Only(paths) => paths,
        }
    }

    /// What both grant.
    pub(crate) fn intersect(self, other: GrantedPaths) -> GrantedPaths {
        match (self, other) {
            (GrantedPaths::Declared, paths) | (paths, GrantedPaths::Declared) => paths,
            (GrantedPaths::Only(mut paths), GrantedPaths::Only(others)) => {
                paths.retain(|path| others.contains(path));
                GrantedPaths::Only(paths)
            }
        }
    }
}

impl CallGrants {
    /// Everything that a call declared. Of the hosts that its commands name the names alone: an address, or
    /// the user's own machine, is opened by a rule for it.
    pub fn everything(effects: &ResolvedEffects) -> CallGrants {
        let hosts = effects.hosts().filter(|(host, by_command)| !by_command || is_name(host));
        let mut hosts: Vec<String> = hosts.map(|(host, _)| host.to_owned()).collect();
        hosts.sort();
        hosts.dedup();
        let (reads, writes, deletes) =
            (GrantedPaths::Declared, GrantedPaths::Declared, GrantedPaths::Declared);
        CallGrants { reads, writes, deletes, hosts, hidden: None }
    }

    /// What a call with these grants, which declared these effects, may touch in a workspace. A call of which
    /// nothing is known may change everything that the session may.
    pub(crate) fn access(&self, effects: &ResolvedEffects, workspace: &Workspace) -> GrantedAccess {
        let mut access = workspace.access();
        access.never_written = workspace.protected().to_vec();
        if effects.declared.unknown {
            access.write.extend(workspace.dirs().map(GrantedRoot::subtree));
        }
        let root = |path: &ResolvedPath| GrantedRoot { path: path.at.real.clone(), extent: path.extent };
        let (writes, deletes) = (self.writes(effects), self.deletes(effects));
        access.read.extend(self.reads(effects).iter().map(root));
        access.write.extend(writes.iter().chain(deletes).map(root));
        access.hosts.clone_from(&self.hosts);
        access.hidden.clone_from(&self.hidden);
        access
    }
}

impl CallGrants {
    /// What a call that declared these effects may read.
    pub fn reads<'a>(&'a self, effects: &'a ResolvedEffects) -> &'a [ResolvedPath] {
        self.reads.of_declared(&effects.reads)
    }

    /// What it may create or change.
    pub fn writes<'a>(&'a self, effects: &'a ResolvedEffects) -> &'a [ResolvedPath] {
        self.writes.of_declared(&effects.writes)
    }

    /// What it may remove.
    pub fn deletes<'a>(&'a self, effects: &'a ResolvedEffects) -> &'a [ResolvedPath] {
        self.deletes.of_declared(&effects.deletes)
    }
}

/// Whether a host is a name, and not an address or this machine.
pub fn is_name(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase();
    let local = name == "localhost" || name.ends_with(".localhost") || name.starts_with("127.");
    !local && bare.parse::<std::net::IpAddr>().is_err()
}

/// The decision on a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Decision {
    /// What becomes of the call.
    pub verdict: Verdict,
    /// Who decided.
    pub source: DecisionSource,
    /// All reasons.
    pub reasons: Vec<DecisionReason>,
    /// What the call touches.
    pub effects: CallEffects,
    /// What it is granted when it runs.
    pub grants: CallGrants,
    /// What a person should know before they allow it; computed where it asks or is checked.
    pub warnings: Vec<CallWarning>,
    /// The reason that decided; none if the effects alone allow the call.
    deciding: Option<usize>,
    /// The ask without an answer, where that denies the call.
    unanswered: Option<usize>,
}

/// Decides on a call.
///
/// `rules` are the authorizer's reasons; if it has none, the effects decide whether the call asks. `others`
/// are the reasons of tool, hooks, classifier and user so far. The order of the reasons doesn't matter for
/// the verdict.
pub fn decide(
    effects: CallEffects,
    context: &DecisionContext<'_>,
    rules: Vec<DecisionReason>,
    others: &[DecisionReason],
) -> Decision {
    let mut reasons = rules;
    if reasons.is_empty() {
        reasons.extend(effects.reason(context.workspace, others));
    }
    reasons.extend_from_slice(others);
    if let Some(forbidden) = effects.forbidding_reason(context) {
        reasons.insert(0, forbidden);
    }
    let mut decision = Decision {
        verdict: Verdict::Allow,
        source: DecisionSource::Effects,
        reasons,
        effects,
        grants: CallGrants::default(),
        warnings: Vec::new(),
        deciding: None,
        unanswered: None,
    };
    decision.fold(|effects| effects.may_vouch(context.workspace));
    if decision.verdict == Verdict::Ask {
        if let Some((_, why)) = &decision.effects.resolved.failed {
            // No answer makes such a call possible.
            let why = why.clone();
            return decision.deny_unanswered(DecisionSource::Failure, why);
        }
        if !(context.may_ask)(decision.source) {
            return decision.deny_unanswered(DecisionSource::Mode, "this mode doesn't ask");
        }
    }
    decision
}

impl Decision {
    /// Denies a call whose input was not read, so that its effects are unknown.
    pub(crate) fn deny_unread(reason: DecisionReason) -> Decision {
        let workspace = Workspace::without_dirs();
        let declared = Arc::new(Effects::unknown());
        let resolved = ResolvedEffects::resolve(declared, workspace.cwd(), workspace.paths());
        let class = resolved.judge(&workspace, HostCapabilities::default());
        let (verdict, source) = (Verdict::Deny, reason.source);
        Decision {
            verdict,
            source,
            reasons: vec![DecisionReason { verdict, ..reason }],
            effects: CallEffects { resolved, class, unconfined_child: false },
            grants: CallGrants::default(),
            warnings: Vec::new(),
            deciding: Some(0),
            unanswered: None,
        }
    }

    /// The reason that decided; none if the effects alone allow the call.
    pub fn reason(&self) -> Option<&DecisionReason> {
        self.reasons.get(self.deciding?)
    }

    /// The ask without an answer, where that denies the call.
    pub fn unanswered(&self) -> Option<&DecisionReason> {
        self.reasons.get(self.unanswered?)
    }

    /// Who or what allows the call.
    pub fn allowed_by(&self) -> &str {
        self.reason().map_or(BY_EFFECTS, |reason| &reason.text)
    }

    /// Why the call asks, with what the classifier adds.
    pub fn question(&self) -> String {
        let asking = self.unanswered().or_else(|| self.reason());
        let mut text = asking.map(ToString::to_string).unwrap_or_default();
        let added = |reason: &&DecisionReason| {
            reason.source == DecisionSource::Classifier && reason.verdict == Verdict::Ask
        };
        for reason in self.reasons.iter().filter(added) {
            text.push_str("; ");
            text.push_str(&reason.text);
        }
        text
    }

    /// Why, as a text for people.
    pub fn explanation(&self) -> String {
        match (self.unanswered(), self.reason()) {
            (Some(ask), Some(deny)) => format!("{ask}; it would ask, and {deny}"),
            (_, Some(_)) if self.verdict == Verdict::Ask => self.question(),
            (_, Some(reason)) => reason.to_string(),
            (_, None) => BY_EFFECTS.to_owned(),
        }
    }

    /// Whether the user, a hook or the classifier saw what the call touches and lifted an ask.
    pub fn is_approved(&self) -> bool {
        use DecisionSource as S;
        let approves = |source| matches!(source, S::User | S::PermissionHook | S::Hook | S::Classifier);
        self.verdict == Verdict::Allow
            && approves(self.source)
            && self
                .reasons
                .iter()
                .any(|reason| reason.verdict == Verdict::Ask && self.source.can_lift(reason.source, false))
    }

    /// Adds a reason that was given after the call asked.
    #[must_use]
    pub fn with_reason(mut self, reason: DecisionReason) -> Decision {
        self.reasons.push(reason);
        // These sources lift asks whatever the tool says.
        self.fold(|_| false);
        self
    }

    /// Denies a call that asks and gets no answer.
    #[must_use]
    pub(crate) fn deny_unanswered(
        mut self,
        source: DecisionSource,
        why: impl Into<Cow<'static, str>>,
    ) -> Decision {
        self.unanswered = self.deciding;
        self.deciding = Some(self.reasons.len());
        self.reasons.push(DecisionReason::new(source, Verdict::Deny, why));
        (self.verdict, self.source) = (Verdict::Deny, source);
        self
    }

    fn fold(&mut self, may_vouch: impl FnOnce(&CallEffects) -> bool) {
        if self.reasons.is_empty() {
            return;
        }
        let vouches = |reason: &DecisionReason| {
            (reason.source, reason.verdict) == (DecisionSource::Tool, Verdict::Allow)
        };
        let may_vouch = self.reasons.iter().any(vouches) && may_vouch(&self.effects);
        self.deciding = deciding_reason(&self.reasons, may_vouch);
        let deciding = self.deciding.map(|at| &self.reasons[at]);
        (self.verdict, self.source) = deciding
            .map_or((Verdict::Allow, DecisionSource::Effects), |reason| (reason.verdict, reason.source));
    }
}

const BY_EFFECTS: &str = "its effects";

/// The reason that decides; none if there are no reasons.
fn deciding_reason(reasons: &[DecisionReason], may_vouch: bool) -> Option<usize> {
    let first = |is_candidate: &dyn Fn(&DecisionReason) -> bool| {
        let candidates = reasons.iter().enumerate().filter(|(_, reason)| is_candidate(reason));
        candidates.min_by_key(|(at, reason)| (reason.source.rank(reason.verdict), *at)).map(|(at, _)| at)
    };
    let with = |verdict: Verdict| reasons.iter().filter(move |reason| reason.verdict == verdict);
    let lifts = |allow: &DecisionReason, ask: &DecisionReason| allow.source.can_lift(ask.source, may_vouch);
    let stands = |ask: &DecisionReason| {
        ask.verdict == Verdict::Ask && !with(Verdict::Allow).any(|allow| lifts(allow, ask))
    };
    let helped = |allow: &DecisionReason| {
        allow.verdict == Verdict::Allow && with(Verdict::Ask).any(|ask| lifts(allow, ask))
    };
    first(&|reason| reason.verdict == Verdict::Deny)
        .or_else(|| first(&stands))
        .or_else(|| first(&helped))
        .or_else(|| first(&|reason| reason.verdict == Verdict::Allow))
}

impl CallEffects {
    /// Whether the tool's own allow counts: only for what is known, inside and confined.
    fn may_vouch(&self, workspace: &Workspace) -> bool {
        self.class.asks != ApprovalNeed::Always
            && !self.unconfined_child
            && self.resolved.outside(workspace).next().is_none()
    }

    /// What no source can allow.
    fn forbidding_reason(&self, context: &DecisionContext<'_>) -> Option<DecisionReason> {
        // What a child declares is read from a text that may mean all of a disk: `rm -rf /` is for rules and
        // user.
        let protected = if context.runs_in_child {
            self.resolved.within_protected(context.workspace)
        } else {
            self.resolved.meets_protected(context.workspace)
        };
        if let Some(place) = protected {
            let text = format!("no tool may write `{}`, in any mode", place.display());
            return Some(DecisionReason::new(DecisionSource::Protected, Verdict::Deny, text));
        }
        (self.resolved.declared.asks_user && !context.has_user)
            .then(|| DecisionReason::new(DecisionSource::NoUser, Verdict::Deny, NEEDS_USER))
    }

    /// The reason of the effects, where the rules have none. An allow is left out if there is no other
    /// reason.
    fn reason(&self, workspace: &Workspace, others: &[DecisionReason]) -> Option<DecisionReason> {
        let ask =
            |text: Cow<'static, str>| Some(DecisionReason::new(DecisionSource::Effects, Verdict::Ask, text));
        let outside = || self.resolved.outside(workspace).next();
        match (self.class.asks, outside()) {
            (ApprovalNeed::Always, _) => ask("nothing is known of what it touches".into()),
            (_, Some(path)) => {
                let text = format!("it touches `{}`, outside of the working directories", path.display());
                Some(DecisionReason::new(DecisionSource::Grants, Verdict::Ask, text))
            }
            (ApprovalNeed::ByTool | ApprovalNeed::Yes, None) => {
                ask(format!("it {}", self.resolved.declared).into())
            }
            (ApprovalNeed::No, None) if self.unconfined_child => ask(NOT_CONFINED.into()),
            (ApprovalNeed::No, None) => {
                let by_hook = |reason: &DecisionReason| {
                    (reason.source, reason.verdict) == (DecisionSource::Hook, Verdict::Allow)
                };
                (!others.is_empty() && !others.iter().any(by_hook))
                    .then(|| DecisionReason::new(DecisionSource::Effects, Verdict::Allow, BY_EFFECTS))
            }
        }
    }
}

const NOT_CONFINED: &str = "what it declares is only believed, as nothing confines the program that it runs";
pub(crate) const NEEDS_USER: &str = "it needs a user to answer, and this session has none";

#[cfg(test)]
mod tests;
