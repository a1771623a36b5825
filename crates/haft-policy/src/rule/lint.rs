//! Lints for valid rules: rules that are never evaluated, can't take effect, or match more than they seem
//! to.
//!
//! A lint doesn't change the rule. Two kinds of allow rules are excluded from the set, because they would
//! allow more than intended: tool names with a wildcard that isn't limited to one server, and rules whose
//! own examples fail.

use std::collections::{HashMap, HashSet};
use std::fmt;

use haft::spelling::edit_distance;

use super::known_tools::{self, SpecifierKind};
use super::pattern::{IndexedPattern, SegmentPattern};
use super::{IneffectiveReason, Rule, RuleId, RuleSet, RuleSpecifier, ToolPattern};
use crate::source::{RuleList, SettingsSource};

/// The maximum length of a name that is compared with others.
const NAME_CHARS_MAX: usize = 64;

/// A warning about a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleLint {
    /// The rule.
    pub rule: RuleId,
    /// The rule's text.
    pub text: String,
    /// The origin of the rule.
    pub source: SettingsSource,
    /// The kind of warning.
    pub kind: LintKind,
    /// The problem and how to fix it.
    pub words: String,
}

/// The kinds of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LintKind {
    /// No tool has this name.
    UnknownTool,
    /// The rule is never evaluated.
    NeverConsulted,
    /// The rule is about the tool's primary field, which other rules match. It is never evaluated.
    PrimaryField,
    /// Another rule always takes precedence.
    Unreachable,
    /// An allow rule that matches more tools than one rule may allow. It is excluded from the set.
    TooWide,
    /// A path that is anchored elsewhere than it seems.
    OddPath,
    /// A pattern with characters that are literal here.
    OddPattern,
    /// An allow rule for this machine's own address, which opens nothing to commands.
    OwnMachine,
    /// An allow rule for commands that begins with a wildcard.
    LeadingWildcard,
    /// One of the rule's examples fails.
    FailingExample,
}

impl fmt::Display for RuleLint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuleLint { text, source, words, .. } = self;
        write!(f, "{source}: rule `{text}`: {words}")
    }
}

impl RuleLint {
    pub(super) fn new(id: u32, rule: &Rule, kind: LintKind, words: impl Into<String>) -> RuleLint {
        let (text, source) = (rule.to_string(), rule.source().clone());
        RuleLint { rule: RuleId(id), text, source, kind, words: words.into() }
    }
}

/// Returns whether an allow rule is excluded because it matches too much.
pub(super) fn is_skipped(rule: &Rule) -> bool {
    rule.list() == RuleList::Allow && too_wide(rule).is_some()
}

fn too_wide(rule: &Rule) -> Option<&'static str> {
    let below_a_server = |name: &str| {
        let tail = name.strip_prefix("mcp__")?;
        let (server, _) = tail.split_once("__")?;
        (!server.is_empty() && !server.contains('*')).then_some(())
    };
    if matches!(rule.names, ToolPattern::Matching(_)) && below_a_server(&rule.tool).is_none() {
        return Some("left out: in `allow` a name may have `*` only after `mcp__<server>__`");
    }
    if matches!(rule.spec, RuleSpecifier::Argument(_))
        && known_tools::specifier_kind(&rule.tool) == SpecifierKind::Command
    {
        return Some(
            "left out: it would allow every command with that argument; name the command, `Bash(command)`",
        );
    }
    None
}

/// Returns the lints that need only the rules.
pub(super) fn lint_rules(rules: &[Rule]) -> Vec<RuleLint> {
    let mut lints = Vec::new();
    let stricter = StricterRules::new(rules);
    for (id, rule) in (0..).zip(rules) {
        let mut say = |kind, words: String| lints.push(RuleLint::new(id, rule, kind, words));
        let allows = rule.list() == RuleList::Allow;
        match &rule.spec {
            RuleSpecifier::Never(IneffectiveReason::Path(bad)) => {
                say(LintKind::NeverConsulted, format!("left out: {bad}"));
            }
            RuleSpecifier::Never(IneffectiveReason::PathOf(other)) => say(
                LintKind::NeverConsulted,
                format!("never consulted; paths of {} are judged by `{other}(path)` rules", rule.tool),
            ),
            RuleSpecifier::Never(IneffectiveReason::Primary { field, write }) => say(
                LintKind::PrimaryField,
                format!("never consulted; `{field}` is judged by rules of the form `{write}`"),
            ),
            RuleSpecifier::Never(IneffectiveReason::NoSpecifier) => say(
                LintKind::NeverConsulted,
                format!("never consulted; `{0}` or `{0}(argument:value)` is accepted", rule.tool),
            ),
            RuleSpecifier::Path(_) => {
                if let Some(words) = odd_path(rule) {
                    say(LintKind::OddPath, words);
                }
                if let Some(words) = odd_pattern(rule) {
                    say(LintKind::OddPattern, words);
                }
            }
            RuleSpecifier::Host(_) if allows && rule.host().is_some_and(is_own_machine) => say(
                LintKind::OwnMachine,
                "opens no port of this machine to commands; `localhost:PORT` in `sandbox.network.allowedDomains` does"
                    .to_owned(),
            ),
            RuleSpecifier::Command(spec) if allows && !spec.exact && spec.has_operator() && !has_quoted_operator(rule) => say(
                LintKind::NeverConsulted,
                "never matches: a command line is taken apart; write a rule for each command".to_owned(),
            ),
            RuleSpecifier::Command(spec) if allows && spec.is_headless() => say(
                LintKind::LeadingWildcard,
                "allows any program: it begins with `*`; begin with the program's name".to_owned(),
            ),
            _ => {}
        }
        match too_wide(rule) {
            Some(words) if allows => say(LintKind::TooWide, words.to_owned()),
            _ => {}
        }
        if let Some(first) = stricter.before(rules, rule) {
            let (list, place) = (name_of(first.list()), first.source());
            say(
                LintKind::Unreachable,
                format!("never takes effect; `{first}` in {list} ({place}) goes first"),
            );
        }
    }
    lints
}

/// Returns whether a host name is this machine itself.
fn is_own_machine(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || host.starts_with("127.") || host.contains("::1")
}

/// Returns whether an operator in the rule may be quoted.
fn has_quoted_operator(rule: &Rule) -> bool {
    rule.to_string().contains(['\'', '"', '\\'])
}

/// Returns what in a path pattern doesn't mean what it seems to.
fn odd_pattern(rule: &Rule) -> Option<String> {
    let text = rule.to_string();
    let path = text.split_once('(')?.1.strip_suffix(')')?;
    let plain = unescape_text(path);
    let count = |c: char| plain.chars().filter(|other| *other == c).count();
    if count('(') != count(')') {
        return Some(format!("names a path with a parenthesis in it, `{}`", path.trim()));
    }
    let braces = plain.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    if braces.is_some_and(|(inside, _)| inside.contains(',')) {
        return Some("braces stand for themselves; write a rule for each name".to_owned());
    }
    if plain.split('/').any(|segment| segment.contains('[') && !SegmentPattern::new(segment).has_class()) {
        return Some("`[` is never closed and stands for itself; a class is written `[ab]`".to_owned());
    }
    let stars = plain.split('/').find(|segment| segment.contains("**") && *segment != "**")?;
    Some(format!("`**` crosses folders only as a whole segment; in `{stars}` it is one `*`"))
}

/// Removes the characters that a backslash makes literal.
fn unescape_text(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        if c == '\\' {
            letters.next();
        } else {
            kept.push(c);
        }
    }
    kept
}

/// Returns a hint for a path that was probably meant to be anchored elsewhere.
fn odd_path(rule: &Rule) -> Option<String> {
    let text = rule.to_string();
    let path = text.split_once('(')?.1.strip_suffix(')')?.trim();
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    if path.starts_with('$') {
        return Some(format!("`{}` is not expanded; write `~/` for home, or the path", first(path)));
    }
    if path.starts_with('~') && path != "~" && !path.starts_with("~/") {
        return Some(format!("`{}` is not expanded; only `~/`, your own home, is", first(path)));
    }
    let below = path.strip_prefix('/').filter(|below| !below.starts_with('/'))?;
    let anchor = rule.source().anchor.display();
    let folders = ["etc", "home", "private", "proc", "root", "sys", "usr", "Users"];
    folders.contains(&&*first(below)).then(|| {
        format!("one `/` starts in {anchor}, where the rule stands; for the root of the disk write `/{path}`")
    })
}

fn name_of(list: RuleList) -> &'static str {
    match list {
        RuleList::Deny => "`deny`",
        RuleList::Ask => "`ask`",
        RuleList::Allow => "`allow`",
    }
}

/// Deny and ask rules, to find those that take precedence over others.
struct StricterRules<'a> {
    same: HashMap<(String, RuleList), usize>,
    /// Rules for every use of the tools whose names match a pattern.
    matching: Vec<&'a Rule>,
}

impl<'a> StricterRules<'a> {
    fn new(rules: &'a [Rule]) -> StricterRules<'a> {
        let mut same = HashMap::new();
        for (id, rule) in rules.iter().enumerate() {
            if rule.list() != RuleList::Allow && !matches!(rule.spec, RuleSpecifier::Never(_)) {
                same.entry((rule_key(rule), rule.list())).or_insert(id);
            }
        }
        let wide =
            |rule: &&Rule| rule.list() != RuleList::Allow && rule.is_bare() && rule.names != ToolPattern::One;
        StricterRules { same, matching: rules.iter().filter(wide).collect() }
    }

    /// Returns the first rule of a stricter list that always takes precedence over this one.
    fn before(&self, rules: &'a [Rule], rule: &Rule) -> Option<&'a Rule> {
        let lists: &[RuleList] = match rule.list() {
            RuleList::Deny => return None,
            RuleList::Ask => &[RuleList::Deny],
            RuleList::Allow => &[RuleList::Deny, RuleList::Ask],
        };
        lists.iter().find_map(|list| {
            let same = |text: String| self.same.get(&(text, *list)).map(|id| &rules[*id]);
            // `Edit(src/**)` in `allow` also allows reading, which `Edit` in `deny` doesn't affect.
            let by_tool = !matches!(rule.spec, RuleSpecifier::Path(_)) && rule.names == ToolPattern::One;
            let bare = || if by_tool { same(rule.tool.clone()) } else { None };
            let covers = |other: &&&Rule| other.list() == *list && by_tool && names_tool(other, &rule.tool);
            same(rule_key(rule)).or_else(bare).or_else(|| self.matching.iter().find(covers).copied())
        })
    }
}

/// Rules with the same key are equivalent.
fn rule_key(rule: &Rule) -> String {
    if rule.is_bare() { rule.tool.clone() } else { format!("{}\0{}", rule.source().anchor.display(), rule) }
}

/// Returns whether a rule for every use names this tool.
fn names_tool(rule: &Rule, tool: &str) -> bool {
    match &rule.names {
        ToolPattern::One => rule.tool == tool,
        ToolPattern::Server => tool.strip_prefix(&*rule.tool).is_some_and(|rest| rest.starts_with("__")),
        ToolPattern::Matching(pattern) => pattern.matches(tool),
    }
}

impl RuleSet {
    /// Returns lints for rules that name an unknown tool; `known` are the tools of this session. Names with
    /// `_` or `*` may belong to a server that connects later and are skipped, unless one rule holds several
    /// names, which matches no tool.
    pub fn unknown_tools<'a>(&self, known: impl IntoIterator<Item = &'a str>) -> Vec<RuleLint> {
        let known: HashSet<&str> =
            known.into_iter().chain(known_tools::CONVENTIONAL.iter().copied()).collect();
        let mut lints = Vec::new();
        for (id, rule) in (0..).zip(&self.rules) {
            let name = &*rule.tool;
            let are_several = name.contains([',', ';']) || name.contains(char::is_whitespace);
            if (name.contains(['_', '*']) && !are_several) || known.contains(name) {
                continue;
            }
            let closest = match closest_name(name, &known) {
                _ if are_several => "; a rule names one tool, so write a rule for each".to_owned(),
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            lints.push(RuleLint::new(
                id,
                rule,
                LintKind::UnknownTool,
                format!("no tool named `{name}`{closest}"),
            ));
        }
        lints
    }
}

fn closest_name<'a>(wanted: &str, known: &HashSet<&'a str>) -> Option<&'a str> {
    let plain = |name: &str| -> Vec<char> {
        let letters = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
        letters.take(NAME_CHARS_MAX).collect()
    };
    let target = plain(wanted);
    let near = known.iter().map(|name| (edit_distance(&target, &plain(name)), *name));
    near.filter(|(distance, _)| *distance <= (target.len() / 3).max(1)).min().map(|(_, name)| name)
}
