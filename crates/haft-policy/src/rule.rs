//! Permission rules: what people write in `allow`, `ask` and `deny`, and what it says of a call.
//!
//! [`Rule::parse`] understands one rule, [`RuleSet::compile`] puts many into one set, and the set answers for a
//! [`RuleSubject`]: [`evaluate`](RuleSet::decide) quickly, [`explain`](RuleSet::explain) with every rule that had something to
//! say. Both are one walk, so that they can't disagree.
//!
//! Rules reach what a call *does* and not only what it is called: `Edit(/secrets/**)` in `deny` stops every tool that
//! declares a write there. Letting through is narrower: a path rule lets through only where the effect is
//! [enforced](RuleSubject::enforced), and a call is let through only if every effect is covered.
//!
//! Nothing here looks at the disk, parses a shell command or knows a mode: a subject comes with paths resolved and
//! commands taken apart, and [`RuleMatches`] without a verdict leave the rest to the mode.
//!
//! ```
//! use haft::decision::Verdict;
//! use haft_policy::rule::{RuleAnchors, Rule, RuleSet, RuleSubject};
//! use haft_policy::source::{RuleList, SourceScope, SettingsSource, UnparsedRule};
//! use serde_json::json;
//!
//! let source = SettingsSource::new(SourceScope::Project, "/w");
//! let rule = |text: &str, list| Rule::parse(UnparsedRule::plain(text, list, source.clone()));
//! let rules = vec![rule("Edit(/secrets/**)", RuleList::Deny)?, rule("mcp__notes", RuleList::Allow)?];
//! let (set, lints) = RuleSet::compile(rules, &RuleAnchors::new("/home/me", "/w"));
//! assert!(lints.is_empty());
//!
//! let input = json!({"file": "secrets/key"});
//! let call = RuleSubject::new("mcp__notes__save", &input).writing("/w/secrets/key");
//! let decision = set.decide(&call);
//! assert_eq!(decision.verdict, Some(Verdict::Deny));
//! assert_eq!(set.rule(decision.by.unwrap()).to_string(), "Edit(/secrets/**)");
//! # Ok::<(), haft_policy::rule::InvalidRule>(())
//! ```

mod argument;
mod command_line;
mod evaluate;
mod examples;
mod fold_names;
mod host;
mod known_tools;
mod lint;
mod parse;
mod path;
mod path_tree;
mod pattern;
mod pattern_index;
mod propose;
mod rule_set;
mod spelling;
mod subject;

use std::fmt;
use std::sync::Arc;

pub(crate) use evaluate::BLANKS;
pub use evaluate::{NotDecidingReason, RuleMatches};
pub use examples::BuildSubject;
pub use lint::{LintKind, RuleLint};
pub use path::SEGMENTS_MAX;
pub use propose::PROPOSALS_MAX;
pub use rule_set::{NamedPath, RuleAnchors, RuleSet};
pub use subject::{EffectKind, EffectRef, RuleSubject, SubjectCommand, SubjectEffects, SubjectPath};

use haft::decision::{DecisionReason, DecisionSource, RuleRef, Verdict};
use haft::text::truncate_with_ellipsis;

use crate::source::{RuleList, SettingsSource, UnparsedRule};
use pattern::WildcardPattern;

/// The longest rule that is accepted, in bytes.
pub const RULE_BYTES_MAX: usize = 16 * 1024;

/// A rule that was understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    written: UnparsedRule,
    /// The name as written, in the spelling that is current.
    tool: String,
    names: ToolPattern,
    spec: RuleSpecifier,
    reference: Arc<RuleRef>,
}

/// Which tools a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolPattern {
    /// One tool.
    One,
    /// Every tool of a server: `mcp__server`.
    Server,
    /// Every tool whose whole name matches.
    Matching(WildcardPattern),
}

/// What stands between the parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleSpecifier {
    /// Nothing, or `*`: every use.
    Every,
    Command(CommandSpec),
    Path(path::PathSpec),
    Host(host::HostSpec),
    /// The agent or skill that is called.
    Called(CommandSpec),
    Argument(argument::ArgumentSpec),
    /// Accepted, and never looked at.
    Never(IneffectiveReason),
}

/// A command or a name, with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CommandSpec {
    /// One text and nothing else.
    exact: bool,
    /// Of which one has to match: `ls *` is `ls` and `ls ` with anything after it.
    patterns: Vec<WildcardPattern>,
}

/// Why a rule is never looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IneffectiveReason {
    /// A path for a tool whose files `Read` or `Edit` rules speak of.
    PathOf(&'static str),
    /// In `allow`, a path that can match nothing.
    Path(path::InvalidPathSpec),
    /// An argument rule on the field that decides what the call does.
    Primary { field: &'static str, write: &'static str },
    /// This tool knows no such specifier.
    NoSpecifier,
}

impl Rule {
    /// Understands a rule.
    ///
    /// # Errors
    /// What is wrong, where, and what is accepted.
    pub fn parse(written: UnparsedRule) -> Result<Rule, InvalidRule> {
        parse::parse_rule(written)
    }

    /// The list that it stands in.
    pub fn list(&self) -> RuleList {
        self.written.list
    }

    /// Where it stands.
    pub fn source(&self) -> &SettingsSource {
        &self.written.source
    }

    /// The rule as the one that decided: its text, where it stands, and its message.
    pub fn reason(&self, verdict: Verdict) -> DecisionReason {
        let RuleRef { text, source, message, .. } = &*self.reference;
        let reason = DecisionReason::new(DecisionSource::Rule, verdict, format!("rule `{text}` ({source})"))
            .with_rule(self.reference.clone());
        match message {
            Some(message) => reason.with_message(message.clone()),
            None => reason,
        }
    }

    /// The rule as decisions name it.
    pub fn reference(&self) -> &Arc<RuleRef> {
        &self.reference
    }

    /// As it was written.
    pub fn written(&self) -> &UnparsedRule {
        &self.written
    }

    /// The tool that it names, or the pattern for names.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The hosts of a rule `WebFetch(domain:…)`, as written. A bare rule is about the tool.
    pub fn host(&self) -> Option<&str> {
        let RuleSpecifier::Host(_) = &self.spec else { return None };
        let (_, inside) = self.written.rule.split_once('(')?;
        let (_, host) = inside.trim_end().strip_suffix(')')?.split_once(':')?;
        Some(host.trim())
    }

    /// Whether it stands there for nothing.
    pub(crate) fn is_never_looked_at(&self) -> bool {
        matches!(self.spec, RuleSpecifier::Never(_))
    }

    /// Whether it is about every use of the tools that it names.
    pub fn is_bare(&self) -> bool {
        self.spec == RuleSpecifier::Every
    }
}

/// As written, without blanks around it.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written.rule.trim())
    }
}

/// A rule in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u32);

impl RuleId {
    /// Its place among the rules that the set was compiled from.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A rule that can't be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule {
    /// As it was written.
    pub rule: String,
    /// Where.
    pub source: SettingsSource,
    /// What is wrong with it, and what is accepted.
    pub what: String,
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidRule { rule, source, what } = self;
        // A pasted page is no help to anybody.
        write!(f, "{source}: bad rule `{}`: {what}", truncate_with_ellipsis(rule, 200))
    }
}

impl std::error::Error for InvalidRule {}
