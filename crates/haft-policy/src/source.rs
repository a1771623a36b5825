//! Where a rule or a setting comes from: the file and line that a person is shown, and what follows from the
//! place.
//!
//! Two things follow: which of two values wins, and where a path that begins with `/` is anchored. Both are
//! decided here once; readers of settings only fill a [`SettingsSource`] in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::decision::Verdict;

/// The scopes that settings come from, weakest first. A later scope overrides an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceScope {
    /// The user's settings, for all workspaces.
    User,
    /// The workspace's settings, shared by everyone who works in it.
    Project,
    /// This user's settings for the workspace.
    Local,
    /// A command-line flag, or a file that a flag names.
    CommandLine,
    /// The user's answers in this session.
    Session,
    /// Managed settings of the machine's owner. Nothing overrides them.
    Managed,
}

/// The location of one rule or setting.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SettingsSource {
    /// The scope.
    pub scope: SourceScope,
    /// The file, if the value comes from one.
    pub file: Option<Arc<Path>>,
    /// The line in that file, counted from 1.
    pub line: Option<u32>,
    /// The directory that paths beginning with `/` are relative to.
    pub anchor: Arc<Path>,
}

impl SettingsSource {
    /// Creates a source without a file, such as a flag or an answer.
    pub fn new(scope: SourceScope, anchor: impl Into<PathBuf>) -> SettingsSource {
        SettingsSource { scope, file: None, line: None, anchor: anchor.into().into() }
    }

    /// Creates a source that points to a line of a file.
    pub fn in_file(
        scope: SourceScope,
        file: impl Into<PathBuf>,
        line: u32,
        anchor: impl Into<PathBuf>,
    ) -> SettingsSource {
        SettingsSource {
            scope,
            file: Some(file.into().into()),
            line: Some(line),
            anchor: anchor.into().into(),
        }
    }
}

impl fmt::Display for SettingsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, "{}:{line}", file.display()),
            (Some(file), None) => write!(f, "{}", file.display()),
            (None, _) => f.write_str(match self.scope {
                SourceScope::User => "user settings",
                SourceScope::Project => "project settings",
                SourceScope::Local => "local settings",
                SourceScope::CommandLine => "command line",
                SourceScope::Session => "this session",
                SourceScope::Managed => "managed settings",
            }),
        }
    }
}

/// The list that a rule belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleList {
    /// The call is denied.
    Deny,
    /// The user is asked.
    Ask,
    /// The call is allowed without asking.
    Allow,
}

impl RuleList {
    /// Returns the verdict of a rule in this list.
    pub fn verdict(self) -> Verdict {
        match self {
            RuleList::Deny => Verdict::Deny,
            RuleList::Ask => Verdict::Ask,
            RuleList::Allow => Verdict::Allow,
        }
    }
}

/// A rule as written, before it is parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnparsedRule {
    /// The rule's text, such as `Bash(npm test)`.
    pub rule: String,
    /// The list that contains the rule.
    pub list: RuleList,
    /// Inputs that the rule must match. A string is a value of the tool's primary field, an object is the
    /// whole input.
    pub matches: Vec<serde_json::Value>,
    /// Inputs that the rule must not match.
    pub not_matches: Vec<serde_json::Value>,
    /// The message for the model when the rule denies a call.
    pub message: Option<String>,
    /// The origin of the rule.
    pub source: SettingsSource,
}

impl UnparsedRule {
    /// Creates a rule without examples and without a message.
    pub fn plain(rule: impl Into<String>, list: RuleList, source: SettingsSource) -> UnparsedRule {
        let (matches, not_matches) = (Vec::new(), Vec::new());
        UnparsedRule { rule: rule.into(), list, matches, not_matches, message: None, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_shown_as_the_place_to_look_at() {
        assert_eq!(
            SettingsSource::in_file(SourceScope::User, "/c/settings.json", 4, "/c").to_string(),
            "/c/settings.json:4"
        );
        assert_eq!(SettingsSource::new(SourceScope::CommandLine, "/w").to_string(), "command line");
    }

    #[test]
    fn the_machines_owner_has_the_last_word() {
        assert!(
            SourceScope::Managed > SourceScope::CommandLine && SourceScope::CommandLine > SourceScope::Local
        );
        assert!(SourceScope::Local > SourceScope::Project && SourceScope::Project > SourceScope::User);
    }
}
