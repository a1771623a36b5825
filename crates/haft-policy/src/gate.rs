//! The gate: rules, mode, settings and answers put together into the one that the engine asks.
//!
//! A call becomes a [`Subject`](crate::rule::RuleSubject) (`case`), the rules speak (`rule`), then the mode
//! of what they leave open (`mode`), and what would run is held against what isn't known of it (`unknown`).
//! That is one reason for the engine, which decides. [`Policy::check`] reports the engine's decision. Asking,
//! hooks and running are the engine's.
//!
//! Rules that the user makes by answering count from the next call on: the set is compiled anew and swapped.
//! Nothing that waits for anybody is done here, but for the [classifier](crate::classifier), which has a
//! place of its own.

mod auto_allow;
mod call_analysis;
mod configured_effects;
mod explain;
mod grants;
mod hard_links;
mod mode;
mod mode_override;
mod repetition;
mod repository;
mod rule_filter;
mod sandbox_rules;
mod session_rules;
mod unknown_effects;
mod verdict;
mod warnings;
mod worktree_rules;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use haft::decision::{CallGrants, CallWarning, Decision, DecisionReason, DecisionSource, Verdict};
use haft::effects::RootExtent;
use haft::files::HiddenPaths;
use haft::future::BoxFuture;
use haft::ports::{
    ApprovalAnswer, AuthorizationRequest, Authorizer, ModeControl, PermissionMode, Processes, RuleSetId,
    SandboxView,
};
use haft::tool::AnyTool;
use haft::{Effects, Engine, Workspace};
pub use haft_shell::ShellAnalyzer;
use serde_json::Value;

use crate::classifier::{
    CallClassifier, CautiousClassifier, ClassifierInput, ProgramClassifier, UnavailableClassifier,
};
use crate::rule::{EffectKind, InvalidRule, NamedPath, Rule, RuleAnchors, RuleLint, SubjectPath};
use crate::settings::{ProtectedPaths, SettingsPlaces};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use crate::trust::{RememberedRules, ResolvedSettings};
pub use auto_allow::IsFullSandbox;
use auto_allow::SandboxAutoAllow;
pub(crate) use call_analysis::CallAnalysis;
use call_analysis::SessionContext;
pub use explain::{
    CheckedCall, CommandPart, DecisionReport, EffectsView, InvalidCall, OtherRule, PartKind, RuleWording,
    SuggestedChange,
};
use hard_links::DeniedFileIndex;
pub use mode_override::ModeOverride;
pub use rule_filter::RuleFilter;
use sandbox_rules::SandboxDenials;
use session_rules::SessionRules;
pub use verdict::{CoverageGap, SandboxCoverage};
use worktree_rules::CheckoutCall;

/// The maximum number of rules that a session remembers.
pub const SESSION_RULES_MAX: usize = 1_000;

/// What a policy needs besides the settings.
pub struct PolicyContext<'a> {
    /// Where settings and answers are stored.
    pub places: &'a SettingsPlaces,
    /// The working directories of the session.
    pub workspace: &'a Workspace,
    /// The user disabled the sandbox: only rules and mode decide.
    pub no_sandbox: bool,
    /// Child processes are confined to their grants.
    pub confined: bool,
    /// Returns whether the sandbox is complete. If it is, commands may run without asking where mode or
    /// settings permit it.
    pub full_sandbox: Option<IsFullSandbox>,
    /// Reports which of the files that rules restrict the sandbox may leave accessible to commands.
    pub coverage: SandboxCoverage,
    /// What the sandbox opens without a grant. Without a view only the working directories are open.
    /// Without a view and without confinement, nothing is restricted.
    pub view: Option<Arc<dyn SandboxView>>,
    /// No user is available to answer prompts.
    pub non_interactive: bool,
    /// The names of the existing tools, for lints about rules.
    pub tools: Vec<String>,
    /// The analyzer for shell commands. It is shared with the session's shell tools, so that each command
    /// is analyzed once. Without it the policy creates its own.
    pub analyzer: Option<ShellAnalyzer>,
    /// Runs the external classifier of the settings. Without it that classifier asks about everything.
    pub processes: Option<Arc<dyn Processes>>,
    /// A classifier that replaces the one of the settings.
    pub classifier: Option<Arc<dyn CallClassifier>>,
    /// How denials name the rules that would allow a call.
    pub wording: RuleWording,
    /// Identifies the rules for child processes. Policies made from the same settings for one sandbox share
    /// it.
    pub rule_set: RuleSetId,
}

impl<'a> PolicyContext<'a> {
    /// Creates a setup for an interactive session without a sandbox and without further information.
    pub fn new(places: &'a SettingsPlaces, workspace: &'a Workspace) -> PolicyContext<'a> {
        PolicyContext {
            places,
            workspace,
            no_sandbox: false,
            confined: false,
            full_sandbox: None,
            coverage: SandboxCoverage::unknown(),
            view: None,
            non_interactive: false,
            tools: Vec::new(),
            analyzer: None,
            processes: None,
            classifier: None,
            wording: explain::name_rules,
            rule_set: RuleSetId::new(),
        }
    }
}

/// Returns the analyzer for a session with this workspace.
pub fn shell_analyzer(workspace: &Workspace, home: Option<&Path>) -> ShellAnalyzer {
    let (cwd, home) = (workspace.cwd().to_owned(), home.map(Path::to_owned));
    let added = workspace.dirs().skip(1).map(Path::to_owned).collect();
    ShellAnalyzer::new(haft_shell::ShellDirectories { cwd, home, added })
}

/// Returns the paths that the rules of these settings name. Invalid rules are skipped.
pub fn named_paths(loaded: &ResolvedSettings, places: &SettingsPlaces) -> Vec<NamedPath> {
    let home = places.home.clone().unwrap_or_else(|| "/nonexistent".into());
    let anchors = RuleAnchors::new(home, &places.cwd);
    let written = loaded.settings.permissions.rules.iter().chain(&loaded.remembered);
    let rules = written.filter_map(|rule| Rule::parse(rule.clone()).ok());
    rules.filter_map(|rule| rule.named_path(&anchors)).collect()
}

/// Rules, mode and answers of a session. Clones share their state.
#[derive(Clone)]
pub struct Policy(Arc<PolicyInner>);

struct PolicyInner {
    live: SessionRules,
    surroundings: SessionContext,
    protected: ProtectedPaths,
    blocks: mode::DirectoryBlocks,
    effects: configured_effects::ConfiguredEffects,
    guard: repetition::RepetitionTracker,
    unasked: SandboxAutoAllow,
    coverage: SandboxCoverage,
    sandbox: SandboxDenials,
    /// The files that rules deny reading, by device and inode.
    denied_files: DeniedFileIndex,
    classifier: Option<Arc<dyn CallClassifier>>,
    wording: RuleWording,
    rule_set: RuleSetId,
    remembered: Option<RememberedRules>,
    deny_instead_of_prompting: Option<SettingsSource>,
    non_interactive: bool,
    /// Answers don't become rules if only managed settings may allow.
    answers_count: bool,
    forbidden: Vec<PermissionMode>,
}

/// Warnings about a new policy, for the user.
#[derive(Debug, Clone, Default)]
pub struct PolicyFindings {
    /// Lints about rules.
    pub lints: Vec<RuleLint>,
    /// Other warnings, as text.
    pub notices: Vec<String>,
}

/// The error for invalid rules. No call may run with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidPolicy {
    /// The invalid rules, at least one.
    pub rules: Vec<InvalidRule>,
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.rules.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for InvalidPolicy {}

impl Policy {
    /// Returns the rule that denies a whole MCP server, if there is one. Then its resources and prompts are
    /// denied like its tools.
    pub fn denies_server(&self, server: &str) -> Option<DecisionReason> {
        let rules = &self.0.live.sets().rules;
        // No tool has this name, so only a rule for the whole server matches.
        let by = rules.tool_denial(&format!("mcp__{server}__"))?;
        Some(rules.rule(by).reason(Verdict::Deny))
    }

    /// Returns the rule that denies every call of this tool, if there is one. A host checks it before it
    /// lets another component do what the tool does.
    pub fn denies_tool(&self, tool: &str) -> Option<DecisionReason> {
        let rules = &self.0.live.sets().rules;
        Some(rules.rule(rules.tool_denial(tool)?).reason(Verdict::Deny))
    }

    /// Creates a policy and returns warnings about it.
    ///
    /// # Errors
    /// Returns [`InvalidPolicy`] if rules are invalid.
    pub fn new(
        loaded: &ResolvedSettings,
        setup: PolicyContext<'_>,
    ) -> Result<(Policy, PolicyFindings), InvalidPolicy> {
        let permissions = &loaded.settings.permissions;
        let mode = permissions.default_mode.as_ref().map_or(PermissionMode::Default, |at| at.value);
        let modes = PermissionMode::ALL.into_iter().map(|(_, mode)| mode);
        let forbidden = modes.filter(|mode| permissions.forbids(*mode).is_some());
        let mut findings = PolicyFindings::default();
        let rules = parse_rules(&permissions.rules).map_err(|rules| InvalidPolicy { rules })?;
        let remembered = loaded.remembered.iter().filter_map(|written| {
            let understood = Rule::parse(written.clone());
            understood.map_err(|bad| findings.notices.push(format!("{bad}; this answer doesn't count"))).ok()
        });
        let rules: Vec<Rule> = rules.into_iter().chain(remembered).collect();
        let surroundings = SessionContext::new(&setup);
        let (live, lints) = SessionRules::new(rules, mode, &surroundings);
        findings.lints = lints;
        findings.lints.extend(live.sets().rules.unknown_tools(setup.tools.iter().map(String::as_str)));
        let (effects, notices) = configured_effects::ConfiguredEffects::read(&loaded.settings.effects);
        findings.notices.extend(notices);
        let classifier = setup.classifier.clone().or_else(|| {
            let given = &loaded.settings.classifier.as_ref()?.value;
            Some(match &setup.processes {
                Some(processes) => {
                    Arc::new(ProgramClassifier::new(given, processes.clone(), setup.workspace.cwd()))
                        as Arc<dyn CallClassifier>
                }
                None => Arc::new(UnavailableClassifier::new(given)),
            })
        });
        let sandbox = SandboxDenials::new(&loaded.settings.sandbox, &setup);
        let by_settings = loaded.settings.sandbox.auto_allow_bash.as_ref().filter(|at| at.value);
        let state_dir = setup.places.state_dir.as_deref();
        let inner = PolicyInner {
            live,
            surroundings,
            protected: ProtectedPaths::new(setup.places, loaded.inventory.files().map(Path::to_owned)),
            blocks: mode::DirectoryBlocks::new(permissions),
            effects,
            guard: repetition::RepetitionTracker::new(
                loaded.settings.repetition_guard.as_ref().map(|at| at.value),
            ),
            unasked: SandboxAutoAllow::new(by_settings.map(|at| at.source.clone()), setup.full_sandbox),
            coverage: setup.coverage,
            sandbox,
            denied_files: DeniedFileIndex::default(),
            classifier,
            wording: setup.wording,
            rule_set: setup.rule_set,
            remembered: state_dir.map(|state| RememberedRules::open(state, &setup.places.cwd)),
            deny_instead_of_prompting: permissions
                .deny_instead_of_prompting
                .as_ref()
                .map(|at| at.source.clone()),
            non_interactive: setup.non_interactive,
            answers_count: permissions.managed_rules_only.is_none(),
            forbidden: forbidden.collect(),
        };
        Ok((Policy(Arc::new(inner)), findings))
    }

    /// Reports the decision for a call, with this engine's tools or the conventional ones. Runs nothing,
    /// writes nothing and doesn't ask the user. The engine has to use this policy.
    ///
    /// # Errors
    /// Returns [`InvalidCall`] if the tool is unknown or the input is invalid.
    pub async fn check(&self, engine: &Engine, call: CheckedCall<'_>) -> Result<DecisionReport, InvalidCall> {
        explain::check_call(self, engine, call).await
    }

    /// Returns only the decision, without its explanation, and the tool's own name.
    ///
    /// # Errors
    /// As [`Policy::check`].
    pub async fn decide(
        &self,
        engine: &Engine,
        call: CheckedCall<'_>,
    ) -> Result<(String, Decision), InvalidCall> {
        explain::decide_call(self, engine, call).await
    }

    /// Returns the reason of a decision as text for the user.
    pub fn explanation(&self, decision: &Decision) -> String {
        self.0.explanation(decision)
    }

    /// Adds rules as an answer of the user does. They apply from the next call on and, if `lasting`, in
    /// later sessions of this workspace too. Either all rules are added or none.
    ///
    /// # Errors
    /// Returns a message if a rule is invalid, if there are too many, if only managed settings may allow,
    /// or if the rules can't be stored. In the last case they still apply in this session.
    pub fn add_rules(&self, rules: &[String], list: RuleList, lasting: bool) -> Result<(), String> {
        let inner = &*self.0;
        if list == RuleList::Allow && !inner.answers_count {
            return Err("only the machine's owner may allow anything here".to_owned());
        }
        let source = SettingsSource::new(SourceScope::Session, &inner.surroundings.anchors.cwd);
        for rule in rules {
            let written = UnparsedRule::plain(rule, list, source.clone());
            Rule::parse(written).map_err(|bad| bad.to_string())?;
        }
        if !inner.live.add(rules, list, &inner.surroundings) {
            return Err(format!("a session remembers at most {SESSION_RULES_MAX} rules"));
        }
        if lasting { inner.keep(rules, list) } else { Ok(()) }
    }

    /// Returns the paths that a call omits from the folders that it walks.
    fn left_out(
        &self,
        request: &AuthorizationRequest<'_>,
        sets: Arc<session_rules::CompiledRules>,
    ) -> Option<HiddenPaths> {
        if !request.effects.reads.iter().any(|path| path.extent == RootExtent::Subtree) {
            return None;
        }
        let surroundings = &self.0.surroundings;
        // All rules are used: deny and ask rules don't depend on the mode.
        let leaves_out = |request: &AuthorizationRequest<'_>| {
            sets.rules.decide(&CallAnalysis::for_request(request, surroundings).subject).leaves_out
        };
        let twin = CheckoutCall::for_request(&surroundings.anchors.cwd, request);
        if !leaves_out(request) && !twin.as_ref().is_some_and(|twin| leaves_out(&twin.request(request))) {
            return None;
        }
        let (tool, move_out) = (request.name.to_owned(), twin.map(|twin| twin.move_out().clone()));
        Some(HiddenPaths::new(move |path| {
            let stops =
                |path: &Path| sets.rules.stops(&tool, EffectKind::Reads, &SubjectPath::at(path)).is_some();
            stops(path) || move_out.as_ref().is_some_and(|move_out| stops(&move_out.path(path)))
        }))
    }

    /// Returns the rules that were added during the session and those stored from answers, each with the
    /// name of its list.
    pub fn session_rules(&self) -> Vec<(&'static str, String)> {
        let sets = self.0.live.sets();
        let list = |rule: &Rule| match rule.list() {
            RuleList::Deny => "deny",
            RuleList::Ask => "ask",
            RuleList::Allow => "allow",
        };
        let added = sets.rules.rules().filter(|(_, rule)| rule.source().scope == SourceScope::Session);
        added.map(|(_, rule)| (list(rule), rule.to_string())).collect()
    }

    /// Adds allow rules until the user speaks again: all of them or none. What denies and what asks still
    /// does.
    ///
    /// # Errors
    /// In words: a rule that can't be understood, or one that may not be made here.
    pub fn allow_for_turn(&self, rules: &[String]) -> Result<(), String> {
        let inner = &*self.0;
        if !inner.answers_count {
            return Err("only the machine's owner may allow anything here".to_owned());
        }
        let source = SettingsSource::new(SourceScope::Session, &inner.surroundings.anchors.cwd);
        for rule in rules {
            let written = UnparsedRule::plain(rule, RuleList::Allow, source.clone());
            Rule::parse(written).map_err(|bad| bad.to_string())?;
        }
        if inner.live.allow_for_turn(rules, &inner.surroundings) {
            Ok(())
        } else {
            Err(format!("a session remembers at most {SESSION_RULES_MAX} rules"))
        }
    }

    /// Ends what was [allowed for a turn](Policy::allow_for_turn): to be called when the user speaks again.
    pub fn end_turn(&self) {
        self.0.live.end_turn(&self.0.surroundings);
    }

    /// Returns the rules that would allow a call, one for each part that needs one. Empty if no such rules
    /// exist.
    pub fn proposals(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        let case = CallAnalysis::for_request(request, &self.0.surroundings);
        self.0.proposals(&case)
    }
}

fn parse_rules(written: &[UnparsedRule]) -> Result<Vec<Rule>, Vec<InvalidRule>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for rule in written {
        match Rule::parse(rule.clone()) {
            Ok(rule) => good.push(rule),
            Err(error) => bad.push(error),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

impl PolicyInner {
    /// Evaluates rules and mode for a call in a given mode.
    fn reason(&self, request: &AuthorizationRequest<'_>, mode: PermissionMode) -> DecisionReason {
        let sets = self.live.sets();
        let reason = verdict::judge_call(
            self,
            &sets,
            mode,
            &CallAnalysis::for_request(request, &self.surroundings),
            false,
        )
        .reason;
        let Some(twin) = CheckoutCall::for_request(&self.surroundings.anchors.cwd, request) else {
            return reason;
        };
        let request = twin.request(request);
        let rules = sets.for_mode(mode);
        let matches = rules.decide(&CallAnalysis::for_request(&request, &self.surroundings).subject);
        let stricter = match (matches.verdict, reason.verdict) {
            (_, Verdict::Deny) => None,
            (Some(Verdict::Deny), _) => Some(Verdict::Deny),
            (Some(Verdict::Ask), Verdict::Allow) => Some(Verdict::Ask),
            (Some(Verdict::Ask), _) if reason.is_weak_ask() => Some(Verdict::Ask),
            _ => None,
        };
        let by = |verdict| match matches.by {
            Some(id) => rules.rule(id).reason(verdict),
            None => DecisionReason::new(DecisionSource::Rule, verdict, "the rules"),
        };
        stricter.map_or(reason, by)
    }

    /// Returns why an ask of this source becomes a denial, if it does.
    fn denies_asks(&self, source: DecisionSource) -> Option<String> {
        match (&self.deny_instead_of_prompting, self.live.mode()) {
            (_, mode @ PermissionMode::DontAsk) => Some(format!("mode `{mode}` doesn't ask")),
            (_, mode) if !mode::may_ask(mode, source) => {
                Some(format!("mode `{mode}` doesn't ask for paths and hosts"))
            }
            (Some(source), _) => {
                Some(format!("`denyInsteadOfPrompting` ({source}) turns questions into denials"))
            }
            _ if self.non_interactive => Some("nobody can be asked here".to_owned()),
            _ => None,
        }
    }

    /// Stores rules for later sessions in this workspace.
    fn keep(&self, rules: &[String], list: RuleList) -> Result<(), String> {
        let store = self.remembered.as_ref().ok_or("there is no folder to keep answers in")?;
        rules.iter().try_for_each(|rule| {
            store.add(rule, list).map_err(|error| format!("`{rule}` can't be kept: {error}"))
        })
    }

    fn proposals(&self, case: &CallAnalysis<'_>) -> Vec<String> {
        let sets = self.live.sets();
        let mode = self.live.mode();
        let judged = verdict::judge_call(self, &sets, mode, case, false);
        if !(judged.reason.is_weak_ask() && self.answers_count) {
            return Vec::new();
        }
        let rules = sets.for_mode(mode);
        let unclear = judged.unknown.is_some() || !case.doubts().is_empty();
        let all = rules.explain(&case.subject).uncovered;
        let ungranted: Vec<_> = all.into_iter().filter(|effect| case.needs_grant(*effect)).collect();
        let grants = rules.propose_grants(&case.subject, &ungranted);
        let more = if unclear {
            let exact = case.line().and_then(|_| rules.exactly(&case.subject));
            exact.map(|exact| std::iter::once(exact).chain(grants.clone()).collect()).unwrap_or_default()
        } else {
            rules.propose(&case.subject)
        };
        // Rules for the missing grants may suffice. Conversely, a call that the rules would cover may still
        // have an unknown effect.
        let is_enough = |rules: &Vec<String>| {
            let sets = self.live.with(rules, &self.surroundings);
            verdict::judge_call(self, &sets, mode, case, false).reason.verdict == Verdict::Allow
        };
        [grants, more].into_iter().find(|rules| !rules.is_empty() && is_enough(rules)).unwrap_or_default()
    }
}

impl Authorizer for Policy {
    fn reasons(&self, request: &AuthorizationRequest<'_>) -> Vec<DecisionReason> {
        let inner = &*self.0;
        let mode = inner.live.mode();
        let reason = inner.reason(request, mode);
        let guarded = reason.verdict == Verdict::Allow && mode != PermissionMode::BypassPermissions;
        let repeated = if guarded { inner.guard.see(request) } else { None };
        vec![repeated.unwrap_or(reason)]
    }

    fn rule_set(&self) -> Option<RuleSetId> {
        Some(self.0.rule_set)
    }

    fn may_ask(&self, source: DecisionSource) -> bool {
        mode::may_ask(self.0.live.mode(), source)
    }

    fn grants(&self, request: &AuthorizationRequest<'_>, approved: bool) -> CallGrants {
        grants::call_grants(&self.0, request, approved)
    }

    fn may_prompt(&self) -> bool {
        self.0.deny_instead_of_prompting.is_none() && !self.0.non_interactive
    }

    fn effects(&self, name: &str, _: &AnyTool, input: &Value) -> Option<Effects> {
        self.0.effects.find(name, input)
    }

    fn classify<'a>(
        &'a self,
        request: &'a AuthorizationRequest<'a>,
        reason: &'a str,
    ) -> BoxFuture<'a, Option<DecisionReason>> {
        let inner = &*self.0;
        let mode = inner.live.mode();
        let Some(classifier) = inner.classifier.as_ref().filter(|_| mode != PermissionMode::Plan) else {
            return Box::pin(std::future::ready(self.classify_statically(request, reason)));
        };
        let case = CallAnalysis::for_request(request, &inner.surroundings);
        let considered = ClassifierInput::for_request(request, &case, mode, reason, &inner.protected);
        Box::pin(async move { classifier.classify(&considered).await })
    }

    fn classify_statically(
        &self,
        request: &AuthorizationRequest<'_>,
        reason: &str,
    ) -> Option<DecisionReason> {
        let inner = &*self.0;
        let mode = inner.live.mode();
        // Only the user may answer an ask of the plan mode.
        if mode != PermissionMode::Auto || inner.classifier.is_some() {
            return None;
        }
        let case = CallAnalysis::for_request(request, &inner.surroundings);
        CautiousClassifier::reason(&ClassifierInput::for_request(
            request,
            &case,
            mode,
            reason,
            &inner.protected,
        ))
    }

    fn tool_denial(&self, name: &str, tool: &AnyTool) -> Option<DecisionReason> {
        let rules = &self.0.live.sets().rules;
        let names = std::iter::once(name).chain(tool.aliases().iter().map(String::as_str));
        let by = names.filter_map(|name| rules.tool_denial(name)).min()?;
        Some(rules.rule(by).reason(Verdict::Deny))
    }

    fn hidden(&self, request: &AuthorizationRequest<'_>) -> Option<HiddenPaths> {
        let sets = self.0.live.sets();
        sets.rules.may_stop(EffectKind::Reads, false)?;
        let left_out = self.left_out(request, sets.clone()).unwrap_or_else(|| HiddenPaths::new(|_| false));
        let policy = self.clone();
        Some(left_out.with_hard_links(move |file| policy.0.denied_files.refuse(&sets, file)))
    }

    fn remember(&self, request: &AuthorizationRequest<'_>, answer: &ApprovalAnswer) -> Result<(), String> {
        let inner = &*self.0;
        inner.guard.forget(request);
        if !matches!(answer, ApprovalAnswer::Session | ApprovalAnswer::Always) {
            return Ok(());
        }
        let case = CallAnalysis::for_request(request, &inner.surroundings);
        let rules = inner.proposals(&case);
        // Rules that can't be stored still apply in this session.
        inner.live.add(&rules, RuleList::Allow, &inner.surroundings);
        if *answer != ApprovalAnswer::Always {
            return Ok(());
        }
        inner.keep(&rules, RuleList::Allow)
    }

    fn lasting_rules(&self, request: &AuthorizationRequest<'_>) -> Vec<String> {
        self.proposals(request)
    }

    fn warnings(&self, request: &AuthorizationRequest<'_>) -> Vec<CallWarning> {
        let surroundings = &self.0.surroundings;
        warnings::find_warnings(
            request,
            &CallAnalysis::for_request(request, surroundings),
            &surroundings.anchors.home,
        )
    }

    fn propose(&self, request: &AuthorizationRequest<'_>) -> Option<String> {
        let case = CallAnalysis::for_request(request, &self.0.surroundings);
        explain::to_allow(&self.0, &case).map(|change| change.to_text(self.0.wording))
    }
}

/// The error for a permission mode that settings forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeForbidden(pub PermissionMode);

impl fmt::Display for ModeForbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "settings forbid the mode {}", self.0)
    }
}

impl std::error::Error for ModeForbidden {}

impl Policy {
    /// Changes the permission mode.
    ///
    /// # Errors
    /// Returns [`ModeForbidden`] if settings forbid the mode. The mode doesn't change.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), ModeForbidden> {
        if self.0.forbidden.contains(&mode) {
            return Err(ModeForbidden(mode));
        }
        self.0.live.set_mode(mode);
        Ok(())
    }
}

impl ModeControl for Policy {
    fn current(&self) -> PermissionMode {
        self.0.live.mode()
    }

    /// Ignores a mode that settings forbid; [`set_mode`](Policy::set_mode) reports it.
    fn set(&self, mode: PermissionMode) {
        let _ = self.set_mode(mode);
    }
}
