//! Permission rules: what people write in `allow`, `ask` and `deny`, and what it says of a call.
//!
//! [`Rule::parse`] understands one rule, [`RuleSet::compile`] puts many into one set, and the set answers for
//! a [`RuleSubject`]: [`evaluate`](RuleSet::decide) quickly, [`explain`](RuleSet::explain) with every rule
//! that had something to say. Both are one walk, so that they can't disagree.
//!
//! Rules reach what a call *does* and not only what it is called: `Edit(/secrets/**)` in `deny` stops every
//! tool that declares a write there. Letting through is narrower: a path rule lets through only where the
//! effect is [enforced](RuleSubject::enforced), and a call is let through only if every effect is covered.
//!
//! Nothing here looks at the disk, parses a shell command or knows a mode: a subject comes with paths
//! resolved and commands taken apart, and [`RuleMatches`] without a verdict leave the rest to the mode.
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

/// The maximum length of a rule, in bytes.
pub const RULE_BYTES_MAX: usize = 16 * 1024;

/// A parsed rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    written: UnparsedRule,
    /// The tool name as written, with outdated names replaced by the current ones.
    tool: String,
    names: ToolPattern,
    spec: RuleSpecifier,
    reference: Arc<RuleRef>,
}

/// The tools that a rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ToolPattern {
    /// One tool.
    One,
    /// Every tool of an MCP server: `mcp__server`.
    Server,
    /// Every tool whose whole name matches the pattern.
    Matching(WildcardPattern),
}

/// The specifier between the parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RuleSpecifier {
    /// No specifier, or `*`: every use of the tool.
    Every,
    Command(CommandSpec),
    Path(path::PathSpec),
    Host(host::HostSpec),
    /// The name of the called agent or skill.
    Called(CommandSpec),
    Argument(argument::ArgumentSpec),
    /// Accepted, but without effect.
    Never(IneffectiveReason),
}

/// A command or a name, with wildcards.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CommandSpec {
    /// The text has no wildcard.
    exact: bool,
    /// One of these has to match: `ls *` matches `ls`, and `ls ` followed by anything.
    patterns: Vec<WildcardPattern>,
}

/// The reason why a rule has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
enum IneffectiveReason {
    /// A path for a tool whose files are covered by `Read` or `Edit` rules.
    PathOf(&'static str),
    /// A path in `allow` that can't match anything.
    Path(path::InvalidPathSpec),
    /// An argument rule on the tool's primary field.
    Primary { field: &'static str, write: &'static str },
    /// The tool has no such specifier.
    NoSpecifier,
}

impl Rule {
    /// Parses a rule.
    ///
    /// # Errors
    /// Returns [`InvalidRule`], which says what is wrong, where, and what is accepted.
    pub fn parse(written: UnparsedRule) -> Result<Rule, InvalidRule> {
        parse::parse_rule(written)
    }

    /// Returns the list that contains the rule.
    pub fn list(&self) -> RuleList {
        self.written.list
    }

    /// Returns the origin of the rule.
    pub fn source(&self) -> &SettingsSource {
        &self.written.source
    }

    /// Returns the rule as the reason of a decision: its text, origin and message.
    pub fn reason(&self, verdict: Verdict) -> DecisionReason {
        let RuleRef { text, source, message, .. } = &*self.reference;
        let reason = DecisionReason::new(DecisionSource::Rule, verdict, format!("rule `{text}` ({source})"))
            .with_rule(self.reference.clone());
        match message {
            Some(message) => reason.with_message(message.clone()),
            None => reason,
        }
    }

    /// Returns the reference by which decisions name the rule.
    pub fn reference(&self) -> &Arc<RuleRef> {
        &self.reference
    }

    /// As it was written.
    pub fn written(&self) -> &UnparsedRule {
        &self.written
    }

    /// Returns the tool that the rule names, or the pattern for tool names.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the hosts of a `WebFetch(domain:…)` rule, as written. A bare rule has none.
    pub fn host(&self) -> Option<&str> {
        let RuleSpecifier::Host(_) = &self.spec else { return None };
        let (_, inside) = self.written.rule.split_once('(')?;
        let (_, host) = inside.trim_end().strip_suffix(')')?.split_once(':')?;
        Some(host.trim())
    }

    /// Returns whether the rule is accepted but without effect.
    pub(crate) fn is_never_looked_at(&self) -> bool {
        matches!(self.spec, RuleSpecifier::Never(_))
    }

    /// Returns whether the rule applies to every use of the tools that it names.
    pub fn is_bare(&self) -> bool {
        self.spec == RuleSpecifier::Every
    }
}

/// Formats the rule as written, without surrounding white space.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.written.rule.trim())
    }
}

/// The identifier of a rule within its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(u32);

impl RuleId {
    /// Returns the rule's index among the rules that the set was compiled from.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The error for a rule that can't be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidRule {
    /// As it was written.
    pub rule: String,
    /// The origin of the rule.
    pub source: SettingsSource,
    /// The problem, and what is accepted.
    pub what: String,
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidRule { rule, source, what } = self;
        // Someone may paste a whole page by mistake, so the rule is truncated.
        write!(f, "{source}: bad rule `{}`: {what}", truncate_with_ellipsis(rule, 200))
    }
}

impl std::error::Error for InvalidRule {}
