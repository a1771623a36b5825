//! Parses a rule's text. The tool's name decides how the specifier in parentheses is read.

use std::sync::Arc;

use haft::decision::RuleRef;

use super::argument::ArgumentSpec;
use super::host::HostSpec;
use super::known_tools::{self, SpecifierKind};
use super::path::{InvalidPathSpec, PathSpec};
use super::pattern::{IndexedPattern, WildcardPattern};
use super::{CommandSpec, IneffectiveReason, InvalidRule, RULE_BYTES_MAX, Rule, RuleSpecifier, ToolPattern};
use crate::source::{RuleList, UnparsedRule};

pub(super) fn parse_rule(written: UnparsedRule) -> Result<Rule, InvalidRule> {
    match parse_parts(&written) {
        Ok((tool, names, spec)) => {
            let reference = RuleRef {
                text: written.rule.trim().to_owned(),
                list: written.list.verdict(),
                source: written.source.to_string(),
                message: written.message.clone(),
            };
            Ok(Rule { tool, names, spec, written, reference: Arc::new(reference) })
        }
        Err(what) => Err(InvalidRule { rule: written.rule, source: written.source, what }),
    }
}

fn parse_parts(written: &UnparsedRule) -> Result<(String, ToolPattern, RuleSpecifier), String> {
    let text = written.rule.trim();
    if text.len() > RULE_BYTES_MAX {
        return Err(format!("{} bytes long; at most {RULE_BYTES_MAX} are accepted", text.len()));
    }
    let (name, inside) = split_specifier(text)?;
    let name = known_tools::current_name(name);
    let names = parse_tool_pattern(name);
    let spec = match inside {
        None => RuleSpecifier::Every,
        Some(inside) => parse_specifier(name, inside, written.list)?,
    };
    Ok((name.to_owned(), names, spec))
}

/// Splits a rule into the name and the specifier in parentheses.
fn split_specifier(text: &str) -> Result<(&str, Option<&str>), String> {
    const FORMS: &str = "`Tool` or `Tool(specifier)` is accepted";
    let Some((name, rest)) = text.split_once('(') else {
        return match text {
            "" => Err(format!("empty; {FORMS}")),
            _ if text.contains(')') => Err(format!("`)` without `(`; {FORMS}")),
            _ if text.contains(char::is_control) => Err(format!("a control character in the name; {FORMS}")),
            _ => Ok((text, None)),
        };
    };
    let name = name.trim_end();
    if name.is_empty() {
        return Err(format!("no tool name before `(`; {FORMS}"));
    }
    if name.contains(')') || name.contains(char::is_control) {
        return Err(format!("`{}` is no tool name; {FORMS}", name.escape_debug()));
    }
    let Some(inside) = rest.strip_suffix(')') else {
        let after = rest.rfind(')').map(|at| rest[at + 1..].trim());
        return Err(match after {
            Some(after) => format!("`{after}` after the closing `)`; {FORMS}, one to a rule"),
            None => format!("no closing `)`; {FORMS}"),
        });
    };
    if inside.trim().is_empty() {
        return Err(format!("nothing in the parentheses; write `{name}` for every use"));
    }
    Ok((name, Some(inside)))
}

fn parse_tool_pattern(name: &str) -> ToolPattern {
    if name.contains('*') {
        return ToolPattern::Matching(WildcardPattern::new(name));
    }
    match name.strip_prefix("mcp__") {
        Some(server) if !server.is_empty() && !server.contains("__") => ToolPattern::Server,
        _ => ToolPattern::One,
    }
}

fn parse_specifier(name: &str, inside: &str, list: RuleList) -> Result<RuleSpecifier, String> {
    let text = inside.trim();
    if text == "*" {
        return Ok(RuleSpecifier::Every);
    }
    let kind = known_tools::specifier_kind(name);
    if let Some(argument) =
        ArgumentSpec::parse(text).filter(|found| known_tools::has_argument(name, &found.name))
    {
        // `timeout` and `command` are programs too, and a trailing `:*` is the old prefix syntax.
        let program = kind == SpecifierKind::Command
            && matches!(&*argument.name, "timeout" | "command")
            && argument.value.is_all();
        if !program {
            return Ok(about_argument(name, kind, argument));
        }
    }
    Ok(match kind {
        SpecifierKind::Command => {
            let spec = CommandSpec::parse(text).or_saved(text, list);
            if spec.is_all() {
                RuleSpecifier::Every
            } else {
                RuleSpecifier::Command(spec.folded(name == "PowerShell"))
            }
        }
        SpecifierKind::Called => {
            let spec = CommandSpec::parse(text).or_saved(text, list);
            if spec.is_all() { RuleSpecifier::Every } else { RuleSpecifier::Called(spec) }
        }
        // The path parser handles trailing spaces itself.
        SpecifierKind::Path => match PathSpec::parse(inside.trim_start(), list) {
            Ok(spec) => RuleSpecifier::Path(spec),
            // In Claude Code such a rule is accepted and matches nothing. For an allow rule that is
            // harmless. For a deny or ask rule it is an error.
            Err(bad @ (InvalidPathSpec::GoesUp | InvalidPathSpec::Excepts)) if list == RuleList::Allow => {
                RuleSpecifier::Never(IneffectiveReason::Path(bad))
            }
            Err(bad) => return Err(bad.to_string()),
        },
        SpecifierKind::Host => match text.split_once(':') {
            Some((before, host)) if before.trim() == "domain" => match HostSpec::parse(host)? {
                HostSpec::All => RuleSpecifier::Every,
                some => RuleSpecifier::Host(some),
            },
            _ => return Err(format!("`{text}` is no host; write `{name}(domain:example.com)`")),
        },
        SpecifierKind::PathOf(rules) => RuleSpecifier::Never(IneffectiveReason::PathOf(rules)),
        SpecifierKind::Other => RuleSpecifier::Never(IneffectiveReason::NoSpecifier),
    })
}

/// Builds a rule about an argument, or one without effect if other rules cover that argument.
fn about_argument(name: &str, kind: SpecifierKind, argument: ArgumentSpec) -> RuleSpecifier {
    let write = match kind {
        SpecifierKind::Command => "Bash(command)",
        SpecifierKind::Path | SpecifierKind::PathOf("Read") if name != "Edit" => "Read(path)",
        SpecifierKind::Path | SpecifierKind::PathOf(_) => "Edit(path)",
        SpecifierKind::Host => "WebFetch(domain:host)",
        SpecifierKind::Called | SpecifierKind::Other => return RuleSpecifier::Argument(argument),
    };
    match known_tools::primary_field(name) {
        Some(field) if field == argument.name => {
            RuleSpecifier::Never(IneffectiveReason::Primary { field, write })
        }
        _ => RuleSpecifier::Argument(argument),
    }
}

impl CommandSpec {
    pub(super) fn parse(text: &str) -> CommandSpec {
        let prefix = text.strip_suffix(":*").or_else(|| text.strip_suffix(" *"));
        let patterns = match prefix.map(str::trim_end) {
            Some("") => vec![WildcardPattern::new("*")],
            Some(base) => vec![WildcardPattern::read(base), WildcardPattern::read(&format!("{base} *"))],
            None => vec![WildcardPattern::escaped(text)],
        };
        let exact = matches!(&*patterns, [only] if only.exact().is_some());
        CommandSpec { exact, patterns }
    }

    /// Adds the reading for rules that Claude Code saved from an answer: it puts a backslash before each
    /// parenthesis and each backslash.
    ///
    /// The text doesn't show whether it was saved or written by hand. In `deny` and `ask` both readings
    /// match. In `allow` the second reading matches only if every parenthesis is escaped, which is unlikely
    /// by hand.
    fn or_saved(mut self, text: &str, list: RuleList) -> CommandSpec {
        let (mut plain, mut escaped, mut bare) = (String::with_capacity(text.len()), false, false);
        let mut letters = text.chars().peekable();
        while let Some(c) = letters.next() {
            let next = letters.next_if(|next| c == '\\' && matches!(next, '(' | ')' | '\\'));
            escaped |= matches!(next, Some('(' | ')'));
            bare |= matches!(c, '(' | ')');
            plain.push(next.unwrap_or(c));
        }
        let other = CommandSpec::parse(&plain);
        let counts = list != RuleList::Allow || (escaped && !bare && other.exact == self.exact);
        if plain != text && counts && !other.is_all() {
            self.exact &= other.exact;
            self.patterns.extend(other.patterns);
        }
        self
    }

    fn is_all(&self) -> bool {
        self.patterns.iter().any(WildcardPattern::is_all)
    }

    /// Ignores case if `fold` is set.
    fn folded(mut self, fold: bool) -> CommandSpec {
        if fold {
            self.patterns.iter_mut().for_each(|pattern| *pattern = pattern.map(str::to_lowercase));
        }
        self
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches(text))
    }

    /// Returns whether the pattern spans more than one command or contains a redirection.
    pub(super) fn has_operator(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.contains(['|', '&', ';', '<', '>', '\n']))
    }

    /// Returns whether the pattern begins with a wildcard.
    pub(super) fn is_headless(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern.exact().is_none() && pattern.head().is_empty())
    }
}
