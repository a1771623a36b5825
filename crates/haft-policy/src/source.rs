//! Where a rule or a setting comes from: the file and line that a person is shown, and what follows from the place.
//!
//! Two things follow: which of two values wins, and where a path that begins with `/` is anchored. Both are decided
//! here once; readers of settings only fill a [`SettingsSource`] in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::decision::Verdict;

/// The places that settings come from, the weakest first: of two values the later one's wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceScope {
    /// The user's own, for all workspaces.
    User,
    /// The workspace's, shared with everybody who works in it.
    Project,
    /// The workspace's, of this user alone.
    Local,
    /// A flag of this run, or a file that a flag names.
    CommandLine,
    /// What the user answered in this session.
    Session,
    /// The machine's owner's; nobody overrides it.
    Managed,
}

/// Where one rule or setting stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SettingsSource {
    /// The kind of place.
    pub scope: SourceScope,
    /// The file, where there is one.
    pub file: Option<Arc<Path>>,
    /// The line in that file, from 1.
    pub line: Option<u32>,
    /// The directory that a path beginning with `/` starts from.
    pub anchor: Arc<Path>,
}

impl SettingsSource {
    /// A place without a file: a flag, an answer.
    pub fn new(scope: SourceScope, anchor: impl Into<PathBuf>) -> SettingsSource {
        SettingsSource { scope, file: None, line: None, anchor: anchor.into().into() }
    }

    /// A place in a file.
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

/// Which of the three lists a rule stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleList {
    /// Never.
    Deny,
    /// Only after a yes.
    Ask,
    /// Unasked.
    Allow,
}

impl RuleList {
    /// What a rule in this list wants.
    pub fn verdict(self) -> Verdict {
        match self {
            RuleList::Deny => Verdict::Deny,
            RuleList::Ask => Verdict::Ask,
            RuleList::Allow => Verdict::Allow,
        }
    }
}

/// A rule as somebody wrote it, not yet understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnparsedRule {
    /// The rule's text, such as `Bash(npm test)`.
    pub rule: String,
    /// The list that it stands in.
    pub list: RuleList,
    /// Inputs that it must match: a string stands for the tool's primary field, an object for the whole input.
    pub matches: Vec<serde_json::Value>,
    /// Inputs that it must not match.
    pub not_matches: Vec<serde_json::Value>,
    /// Words for the model when it denies.
    pub message: Option<String>,
    /// Where it stands.
    pub source: SettingsSource,
}

impl UnparsedRule {
    /// A rule that is nothing but its text.
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
