//! Requirements of rules and settings for the sandbox around child processes.
//!
//! Rules for paths and hosts are stronger where the kernel enforces them. [`Policy::sandbox_rules`] returns
//! everything that a sandbox has to know of rules and settings in one value. Another crate builds the
//! sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::files::HiddenPaths;
use haft::ports::{DeniedRead, HostPattern, ProcessRestrictions, RestrictProcesses, SandboxRules};

use super::session_rules::CompiledRules;
use super::{Policy, PolicyContext};
use crate::rule::{EffectKind, Rule, SubjectPath};
use crate::settings::{SandboxSettings, SettingValue, normalize_path};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

/// The paths that sandbox settings deny to child processes, and the hosts that they allow.
pub(super) struct SandboxDenials {
    unreadable: Vec<PathBuf>,
    unwritable: Vec<PathBuf>,
    allowed_hosts: Vec<HostPattern>,
    denied_hosts: Vec<HostPattern>,
    hidden_variables: Vec<OsString>,
    /// The working directories.
    workspace: Vec<PathBuf>,
}

impl SandboxDenials {
    pub(super) fn new(settings: &SandboxSettings, setup: &PolicyContext<'_>) -> SandboxDenials {
        let (home, cwd) = (setup.places.home.as_deref(), setup.workspace.cwd());
        let paths = |list: &[SettingValue<String>]| SandboxSettings::absolute_paths(list, home, cwd);
        let hosts = |list: &[SettingValue<String>]| {
            let host = |at: &SettingValue<String>| HostPattern {
                pattern: at.value.clone(),
                origin: at.source.to_string(),
            };
            list.iter().map(host).collect()
        };
        let mut unreadable = paths(&settings.files.deny_read);
        let hidden = settings.credentials.files.iter().cloned();
        let hidden: Vec<_> =
            hidden.map(|SettingValue { value, source }| SettingValue { value: value.path, source }).collect();
        unreadable.extend(paths(&hidden));
        SandboxDenials {
            unreadable,
            unwritable: paths(&settings.files.deny_write),
            allowed_hosts: hosts(&settings.network.allowed_domains),
            denied_hosts: hosts(&settings.network.denied_domains),
            hidden_variables: settings
                .credentials
                .variables
                .iter()
                .map(|at| at.value.name.clone().into())
                .collect(),
            workspace: setup.workspace.dirs().map(Path::to_owned).collect(),
        }
    }

    /// Returns the paths that are treated like deny rules: with wildcards, ignoring case, including
    /// everything below them and symlink targets. A path above a working directory hides everything around
    /// that directory.
    fn as_rules(&self) -> Vec<PathBuf> {
        let around = |path: &&PathBuf| self.workspace.iter().any(|workspace| workspace.starts_with(path));
        self.unreadable.iter().filter(|path| !around(path)).cloned().collect()
    }
}

impl Policy {
    /// Returns the current requirements of rules and settings for the sandbox around child processes.
    ///
    /// ```no_run
    /// # fn look(policy: &haft_policy::gate::Policy) {
    /// let rules = policy.sandbox_rules();
    /// let may_read = |path: &str| !rules.unreadable.as_ref().is_some_and(|hidden| hidden.covers(path.as_ref()));
    /// # }
    /// ```
    pub fn sandbox_rules(&self) -> SandboxRules {
        SandboxRules::from_authorizer(self)
    }
}

impl RestrictProcesses for Policy {
    fn process_restrictions(&self) -> ProcessRestrictions {
        let sets = self.0.live.sets();
        // A bare `WebFetch` in `allow` stands for every host. In the other lists it is about the tool.
        let hosts = |list: RuleList| {
            let of_list = sets.rules.rules().filter(move |(_, rule)| rule.list() == list);
            of_list.filter_map(|(_, rule)| network_host(rule).map(of_rule)).collect::<Vec<_>>()
        };
        let settings = &self.0.sandbox;
        let of_settings = self.denying(&settings.as_rules());
        let mut denied_reads = denied_reads(&sets);
        if let Some(more) = &of_settings {
            denied_reads.extend(self::denied_reads(more).into_iter().map(of_setting));
        }
        let unreadable = either_hides(
            hidden_by_rules(&sets, EffectKind::Reads),
            of_settings.and_then(|more| hidden_by_rules(&more, EffectKind::Reads)),
        );
        ProcessRestrictions {
            unreadable,
            denied_reads,
            unreadable_paths: settings.unreadable.clone(),
            unwritable: hidden_by_rules(&sets, EffectKind::Writes),
            unwritable_paths: [settings.unwritable.clone(), sets.rules.denied_writes()].concat(),
            allowed_hosts: [hosts(RuleList::Allow), settings.allowed_hosts.clone()].concat(),
            asked_hosts: hosts(RuleList::Ask),
            denied_hosts: [hosts(RuleList::Deny), settings.denied_hosts.clone()].concat(),
            hidden_variables: settings.hidden_variables.clone(),
        }
    }
}

impl Policy {
    /// Returns a set of rules that deny reading these paths, if there are any.
    fn denying(&self, paths: &[PathBuf]) -> Option<Arc<CompiledRules>> {
        let surroundings = &self.0.surroundings;
        let cwd = &surroundings.anchors.cwd;
        let source = SettingsSource::new(SourceScope::User, cwd);
        // A path that can't be expressed as a rule still counts as a path.
        let rule = |path: &PathBuf| {
            let path = normalize_path(Path::new("/"), path);
            let written =
                UnparsedRule::plain(format!("Read(/{})", path.to_str()?), RuleList::Deny, source.clone());
            Rule::parse(written).ok()
        };
        let rules: Vec<Rule> = paths.iter().filter_map(rule).collect();
        (!rules.is_empty()).then(|| Arc::new(CompiledRules::compile(rules, surroundings).0))
    }
}

/// Names the path as the setting does.
fn of_setting(mut denied: DeniedRead) -> DeniedRead {
    let path = denied.rule.strip_prefix("Read(/").and_then(|rest| rest.strip_suffix(')'));
    denied.rule = format!("sandbox.filesystem.denyRead: {}", path.unwrap_or(&denied.rule));
    denied
}

fn of_rule(host: &str) -> HostPattern {
    HostPattern { pattern: host.to_owned(), origin: format!("WebFetch(domain:{host})") }
}

/// Combines two filters: a path is hidden if either covers it.
fn either_hides(one: Option<HiddenPaths>, other: Option<HiddenPaths>) -> Option<HiddenPaths> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.or(other)),
        (one, other) => one.or(other),
    }
}

/// Returns the hosts that a rule opens or closes to child processes.
fn network_host(rule: &Rule) -> Option<&str> {
    let every = || {
        let meant = rule.list() == RuleList::Allow || rule.to_string().contains("domain:");
        (rule.tool() == "WebFetch" && rule.is_bare() && meant).then_some("*")
    };
    rule.host().or_else(every)
}

fn denied_reads(sets: &Arc<CompiledRules>) -> Vec<DeniedRead> {
    let begins = sets.rules.denied_reads().into_iter();
    let with_all = begins.map(|(id, path, whole)| {
        let own = sets.clone();
        let covers = HiddenPaths::new(move |path| own.rules.denies_read(id, path));
        let denied = DeniedRead::new(sets.rules.rule(id).to_string(), path, covers);
        if whole { denied } else { denied.with_pattern() }
    });
    with_all.collect()
}

/// Returns the paths that rules keep a command from accessing, or `None` if there are no such rules.
fn hidden_by_rules(sets: &Arc<CompiledRules>, touch: EffectKind) -> Option<HiddenPaths> {
    sets.rules.may_stop(touch, false)?;
    let sets = sets.clone();
    Some(HiddenPaths::new(move |path| sets.rules.stops("Bash", touch, &SubjectPath::at(path)).is_some()))
}
