//! Permission settings: rules, the mode, and restrictions beyond the rules.

use std::path::PathBuf;

use haft::ports::PermissionMode;
use haft::text::truncate_with_ellipsis;

use super::de::{SettingValue, TreeReader};
use super::jsonc::{JsonNode, JsonValue, SettingsFault};
use super::layer::SettingsLayers;
use super::places::normalize_path;
use super::table::MergeRule;
use super::table::{SettingRule, anyone, false_loosens, managed, settings_section, tightening, trusted};
use super::values::{DisableKeyword, RuleEntry};
use crate::rule::Rule;
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use crate::trust::TrustItemKind;

/// The maximum number of characters shown of an invalid rule.
const RULE_CHARS_MAX: usize = 200;
/// The key with which managed settings drop all other allow rules.
const MANAGED_RULES: &str = "permissions.allowManagedPermissionRulesOnly";

settings_section! {
    /// Permission rules and the permission mode.
    pub struct PermissionSettings {
        settings {
            /// The permission mode of a session. A workspace can only make it stricter.
            pub default_mode: Option<SettingValue<PermissionMode>> = "defaultMode", tightening(mode_loosens);
            /// Calls that never run.
            pub(crate) deny: Vec<RuleEntry> = "deny", configure_rules(anyone());
            /// Calls that always ask.
            pub(crate) ask: Vec<RuleEntry> = "ask", configure_rules(anyone());
            /// Calls that run without asking.
            pub(crate) allow: Vec<RuleEntry> = "allow", configure_rules(trusted(TrustItemKind::AllowRule)).managed_by(MANAGED_RULES);
            /// Additional working directories; `~/` is your home.
            pub additional_directories: Vec<SettingValue<PathBuf>> = "additionalDirectories", trusted(TrustItemKind::Directory).concat();
            /// `disable` forbids the mode `bypassPermissions`.
            pub bypass_disabled: Option<SettingValue<DisableKeyword>> = "disableBypassPermissionsMode", anyone().merged(MergeRule::Any);
            /// `disable` forbids the mode `auto`.
            pub auto_disabled: Option<SettingValue<DisableKeyword>> = "disableAutoMode", anyone().merged(MergeRule::Any);
            /// `true` denies reads outside of the working directories; nothing lifts it.
            pub block_reads_outside: Option<SettingValue<bool>> = "blockReadsOutsideWorkingDirectories", anyone().merged(MergeRule::Any);
            /// `true` denies writes outside of the working directories; nothing lifts it.
            pub block_writes_outside: Option<SettingValue<bool>> = "blockWritesOutsideWorkingDirectories", anyone().merged(MergeRule::Any);
            /// `true` denies calls that would ask.
            pub deny_instead_of_prompting: Option<SettingValue<bool>> = "denyInsteadOfPrompting", tightening(prompting_loosens);
            /// Managed settings only: `true` ignores all allow rules but managed ones, including your
            /// answers. Deny and ask rules of all files still apply.
            pub managed_rules_only: Option<SettingValue<bool>> = "allowManagedPermissionRulesOnly", managed();
        }
        derived {
            /// All rules, the strongest layer's first. Within a layer deny rules come first, then ask
            /// rules.
            rules: Vec<UnparsedRule>;
        }
    }
}

impl PermissionSettings {
    /// Returns the origin of the setting that forbids a mode, if one does.
    pub fn forbids(&self, mode: PermissionMode) -> Option<&SettingsSource> {
        let disabled = match mode {
            PermissionMode::BypassPermissions => &self.bypass_disabled,
            PermissionMode::Auto => &self.auto_disabled,
            _ => &None,
        };
        disabled.as_ref().map(|at| &at.source)
    }

    /// Computes the values that depend on several keys. Returns a warning with its origin.
    pub(crate) fn complete(&mut self, layers: &SettingsLayers) -> Option<(SettingsSource, String)> {
        // A value that only reverts a weaker file's value isn't a setting of its own.
        self.deny_instead_of_prompting = self.deny_instead_of_prompting.take().filter(|at| at.value);
        let lists = [
            (RuleList::Deny, &mut self.deny),
            (RuleList::Ask, &mut self.ask),
            (RuleList::Allow, &mut self.allow),
        ];
        let mut rules: Vec<RuleEntry> = Vec::new();
        for (list, entries) in lists {
            let entries = std::mem::take(entries).into_iter();
            rules.extend(
                entries.map(|entry| RuleEntry { rule: UnparsedRule { list, ..entry.rule }, ..entry }),
            );
        }
        rules.sort_by_key(|entry| entry.layer);
        self.rules = rules.into_iter().map(|entry| entry.rule).collect();
        let cwd = &layers.places.cwd;
        let added = layers.flags.add_dirs.iter().map(|dir| SettingValue {
            value: normalize_path(cwd, dir),
            source: SettingsSource::new(SourceScope::CommandLine, &**cwd),
        });
        self.additional_directories.splice(0..0, added);
        let SettingValue { value: mode, source } = self.default_mode.as_ref()?;
        let by = self.forbids(*mode)?;
        let warning = format!("the mode `{mode}` is disabled by {by}; the mode is `default`");
        let source = source.clone();
        self.default_mode = None;
        Some((source, warning))
    }
}

const fn configure_rules(rule: SettingRule) -> SettingRule {
    rule.concat().check(check_rules)
}

/// Every rule has to be valid, even if it doesn't apply. All invalid rules are reported.
fn check_rules(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    for RuleEntry { rule, at, .. } in reader.read::<Vec<RuleEntry>>()? {
        if let Err(bad) = Rule::parse(rule) {
            let message = format!("bad rule `{}`: {}", shorten_rule(&bad.rule), bad.what);
            reader.context.faults.borrow_mut().push(SettingsFault::new(at, message));
        }
    }
    Ok(())
}

/// Truncates a rule for a message: a pasted page helps no reader.
pub(crate) fn shorten_rule(rule: &str) -> String {
    truncate_with_ellipsis(rule, RULE_CHARS_MAX)
}

fn mode_loosens(node: &JsonNode, before: Option<&JsonNode>) -> bool {
    let mode = |node: &JsonNode| node.as_str().and_then(|name| name.parse::<PermissionMode>().ok());
    let before = before.and_then(mode).unwrap_or_default();
    mode(node).is_none_or(|mode| !mode.is_within(before))
}

/// Reverting another file's `true` loosens.
fn prompting_loosens(node: &JsonNode, before: Option<&JsonNode>) -> bool {
    false_loosens(node, None) && before.is_some_and(|before| matches!(before.json, JsonValue::Bool(true)))
}
