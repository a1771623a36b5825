//! The simple rules: allow, ask and deny by tool name, and a mode.
//!
//! The whole rule language lives in a crate of its own behind the same port. What this one says holds there
//! too: deny before ask before allow, and no allow lifts a deny.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;

use crate::decision::{DecisionReason, DecisionSource, RuleRef, Verdict};
use crate::effects::AccessKind;
use crate::ports::{
    ApprovalAnswer, AuthorizationRequest, Authorizer, ModeControl, PermissionMode, ProcessRestrictions,
    RestrictProcesses, RuleSetId,
};
use crate::tool::AnyTool;

/// Rules by tool name, and a mode. Clones share mode and remembered answers.
///
/// ```
/// use haft::PermissionRules;
/// use haft::ports::PermissionMode;
///
/// let rules = PermissionRules::new().deny("Bash")?.allow("Write")?.mode(PermissionMode::DontAsk);
/// # Ok::<(), haft::permission::InvalidRule>(())
/// ```
#[derive(Clone, Default)]
pub struct PermissionRules {
    allow: BTreeSet<String>,
    ask: BTreeSet<String>,
    deny: BTreeSet<String>,
    live: Arc<PermissionState>,
}

#[derive(Default)]
struct PermissionState {
    /// The place of the mode in [`PermissionMode::ALL`].
    mode: AtomicUsize,
    /// Whether anything was remembered; nearly always not, and every call asks.
    remembers: AtomicBool,
    /// What the user allowed for the session: a tool inside of the working directories, or a path outside for
    /// it.
    session: Mutex<BTreeSet<(String, Option<PathBuf>)>>,
}

impl PermissionState {
    fn mode(&self) -> PermissionMode {
        PermissionMode::ALL[self.mode.load(Ordering::Acquire)].1
    }

    fn set_mode(&self, mode: PermissionMode) {
        let place = PermissionMode::ALL.iter().position(|(_, known)| *known == mode).unwrap_or_default();
        self.mode.store(place, Ordering::Release);
    }

    fn is_remembered(&self, name: &str, path: Option<&Path>) -> bool {
        let remembered = || lock(&self.session).contains(&(name.to_owned(), path.map(Path::to_owned)));
        self.remembers.load(Ordering::Acquire) && remembered()
    }
}

impl PermissionRules {
    /// No rules, mode `default`.
    pub fn new() -> PermissionRules {
        PermissionRules::default()
    }

    /// Allows a tool.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn allow(mut self, name: impl Into<String>) -> Result<PermissionRules, InvalidRule> {
        self.allow.insert(bare_tool_name(name.into())?);
        Ok(self)
    }

    /// Always asks for a tool.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn ask(mut self, name: impl Into<String>) -> Result<PermissionRules, InvalidRule> {
        self.ask.insert(bare_tool_name(name.into())?);
        Ok(self)
    }

    /// Denies a tool; the model isn't shown it.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn deny(mut self, name: impl Into<String>) -> Result<PermissionRules, InvalidRule> {
        self.deny.insert(bare_tool_name(name.into())?);
        Ok(self)
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(mut self, mode: PermissionMode) -> PermissionRules {
        // Of its own: building one set of rules changes no other.
        self.live = Arc::default();
        self.live.set_mode(mode);
        self
    }

    /// The names that rules speak of, for a host that wants to warn of unknown ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().chain(&self.ask).chain(&self.deny).map(String::as_str)
    }
}

fn bare_tool_name(rule: String) -> Result<String, InvalidRule> {
    let plain = rule.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && !rule.is_empty() { Ok(rule) } else { Err(InvalidRule(rule)) }
}

/// A rule that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule(String);

impl std::fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a rule; the name of a tool is accepted, for example `Read`", self.0)?;
        if self.0.contains('(') {
            f.write_str(" (rules on arguments, as in `Bash(git log:*)`, are not accepted yet)")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidRule {}

impl PermissionRules {
    fn reason(&self, request: &AuthorizationRequest<'_>) -> Option<DecisionReason> {
        let name = request.name;
        for (list, verdict) in [(&self.deny, Verdict::Deny), (&self.ask, Verdict::Ask)] {
            if list.contains(name) {
                return Some(by_rule(name, verdict));
            }
        }
        let mode = self.live.mode();
        if mode == PermissionMode::BypassPermissions && request.wants_host {
            let why = "a command reaches only hosts that were granted to it before";
            return Some(by_mode(Verdict::Deny, "mode `bypassPermissions`").with_message(why));
        }
        if mode == PermissionMode::BypassPermissions {
            return Some(by_mode(Verdict::Allow, "mode `bypassPermissions`"));
        }
        if mode == PermissionMode::Plan
            && let Some(reason) = plan_mode_reason(request)
        {
            return Some(reason);
        }
        // A name covers what lies inside; each path outside wants a yes of its own.
        let earlier = || {
            DecisionReason::new(DecisionSource::Rule, Verdict::Allow, "your answer earlier in this session")
        };
        let mut outside = request.outside().peekable();
        if outside.peek().is_some() {
            return outside.all(|path| self.live.is_remembered(name, Some(path))).then(earlier);
        }
        // A name says nothing about hosts.
        if request.wants_host {
            return None;
        }
        if self.allow.contains(name) {
            return Some(by_rule(name, Verdict::Allow));
        }
        if self.live.is_remembered(name, None) {
            return Some(earlier());
        }
        (mode == PermissionMode::AcceptEdits && only_edits(request))
            .then(|| by_mode(Verdict::Allow, "mode `acceptEdits`"))
    }
}

fn by_rule(name: &str, list: Verdict) -> DecisionReason {
    let source = format!("Permissions::{list}");
    let rule = RuleRef { text: name.to_owned(), list, source, message: None };
    let text = format!("rule `{name}` ({})", rule.source);
    DecisionReason::new(DecisionSource::Rule, list, text).with_rule(Arc::new(rule))
}

fn by_mode(verdict: Verdict, text: &'static str) -> DecisionReason {
    DecisionReason::new(DecisionSource::Mode, verdict, text)
}

impl RestrictProcesses for PermissionRules {
    /// Nothing: its rules name tools.
    fn process_restrictions(&self) -> ProcessRestrictions {
        ProcessRestrictions::none()
    }
}

impl Authorizer for PermissionRules {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        self.reason(request).into_iter().collect()
    }

    /// All have the same rules for child processes: none.
    fn rule_set(&self) -> Option<RuleSetId> {
        Some(RuleSetId::UNRESTRICTED)
    }

    fn may_ask(&self, _: DecisionSource) -> bool {
        self.live.mode() != PermissionMode::DontAsk
    }

    fn tool_denial(&self, name: &str, _: &AnyTool) -> Option<DecisionReason> {
        self.deny.contains(name).then(|| by_rule(name, Verdict::Deny))
    }

    fn remember(&self, request: &AuthorizationRequest<'_>, answer: &ApprovalAnswer) -> Result<(), String> {
        if request.wants_host || !matches!(answer, ApprovalAnswer::Session | ApprovalAnswer::Always) {
            return Ok(());
        }
        let mut session = lock(&self.live.session);
        let outside: Vec<_> = request.outside().map(|path| Some(path.to_owned())).collect();
        let what = if outside.is_empty() { vec![None] } else { outside };
        session.extend(what.into_iter().map(|path| (request.name.to_owned(), path)));
        self.live.remembers.store(true, Ordering::Release);
        Ok(())
    }

    fn lasting_rules(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        let name = request.name;
        if self.ask.contains(name) || request.wants_host {
            return Vec::new();
        }
        let outside: Vec<String> =
            request.outside().map(|path| format!("{name}({})", path.display())).collect();
        if outside.is_empty() { vec![name.to_owned()] } else { outside }
    }

    fn propose(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        if self.ask.contains(request.name) {
            return Some(format!("leave out the ask rule `{}`", request.name));
        }
        if request.wants_host {
            return None;
        }
        match request.outside().next() {
            Some(path) => {
                let dir = folder_to_add(request, path)?;
                // A folder more doesn't make a program harmless that nothing confines.
                let name = request.unconfined_child.then(|| format!(", and allow rule `{}`", request.name));
                Some(format!("working directory `{}`{}", dir.display(), name.unwrap_or_default()))
            }
            None => Some(format!("allow rule `{}`", request.name)),
        }
    }
}

/// What a plan has no place for yet: changes, and looks outside.
fn plan_mode_reason(request: &AuthorizationRequest<'_>) -> Option<DecisionReason> {
    let declared = request.declared();
    let changes = declared.reaches.iter().any(|reach| reach.access == AccessKind::Change);
    let by = by_mode(Verdict::Deny, "mode `plan`");
    if changes || !request.effects.writes.is_empty() || !request.effects.deletes.is_empty() {
        return Some(by.with_message("nothing is changed before the plan was approved"));
    }
    let outside = request.outside().next()?;
    Some(by.with_message(format!("`{}` lies outside of the working directories", outside.display())))
}

/// Whether a call does nothing but read, write and remove files, which the caller has found to lie inside.
fn only_edits(request: &AuthorizationRequest<'_>) -> bool {
    let declared = request.declared();
    let more = declared.unknown || !declared.runs.is_empty() || !declared.reaches.is_empty();
    !more && declared.state.is_empty() && !request.unconfined_child && !request.external
}

/// The folder that would have to be added for a path; nothing if none would help, or if it would be
/// everything.
fn folder_to_add<'a>(request: &AuthorizationRequest<'_>, path: &'a Path) -> Option<&'a Path> {
    let dir = path.ancestors().find(|dir| dir.is_dir())?;
    // What lies there are views of the kernel and devices, which no folder opens.
    let special = dir.starts_with("/proc") || dir.starts_with("/sys") || dir == "/dev";
    let has = request.workspace.dirs().any(|granted| dir.starts_with(granted));
    (dir.parent().is_some() && !special && !has).then_some(dir)
}

impl ModeControl for PermissionRules {
    fn current(&self) -> PermissionMode {
        self.live.mode()
    }

    fn set(&self, mode: PermissionMode) {
        self.live.set_mode(mode);
    }
}

impl AuthorizationRequest<'_> {
    /// The paths that this call touches outside of the working directories, those first that nobody could
    /// resolve.
    pub fn outside(&self) -> impl Iterator<Item = &Path> {
        self.effects.outside(self.workspace)
    }
}
