//! Proposes the narrowest rules that would allow a call: the answer "always" stores them, and a denial
//! without a user names them.
//!
//! Each proposal is checked first. Rules that would not cover the call are never proposed, nor rules that
//! could also be read as rules for another call.

use haft::decision::Verdict;

use super::evaluate::BLANKS;
use super::path;
use super::pattern::{IndexedPattern as _, WildcardPattern};
use super::rule_set::RuleSet;
use super::subject::{EffectKind, EffectRef, RuleSubject, SubjectCommand, SubjectPath};
use super::{Rule, RuleSpecifier, host, known_tools};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

/// The maximum number of rules proposed for one call.
pub const PROPOSALS_MAX: usize = 5;
/// The maximum for a call that only reaches hosts: as many as a preset has.
const HOST_PROPOSALS_MAX: usize = 32;

impl RuleSet {
    /// Returns the rules that have to be added to `allow` to cover this call. Empty if it is covered
    /// already, or if no such rules exist, as for a command that isn't understood. Deny and ask rules still
    /// take precedence.
    pub fn propose(&self, subject: &RuleSubject<'_>) -> Vec<String> {
        let uncovered = self.explain(subject).uncovered;
        if uncovered.is_empty() {
            return Vec::new();
        }
        let is_shell = known_tools::specifier_kind(subject.tool) == known_tools::SpecifierKind::Command;
        let effects = self.by_effects(subject, &uncovered);
        let named = by_name(subject).filter(|_| !is_shell);
        // Unknown effects are covered only by a rule for the tool's name.
        let known: Vec<EffectRef> =
            uncovered.iter().copied().filter(|effect| effect.touch != EffectKind::Anything).collect();
        let both = named
            .as_ref()
            .zip(self.by_effects(subject, &known))
            .map(|(name, rules)| [std::slice::from_ref(name), &*rules].concat());
        let whole = self.exactly(subject).filter(|_| is_shell).map(|rule| vec![rule]);
        let tries = [effects, whole, named.map(|rule| vec![rule]), both];
        let fits = |rules: &Vec<String>| {
            let narrow = || rules.iter().all(|rule| self.is_for_one(rule));
            rules.len() <= PROPOSALS_MAX && narrow() && self.would_cover(rules, subject)
        };
        let found = tries.into_iter().flatten().find(fits).unwrap_or_default();
        self.fewest(found, subject)
    }

    /// Returns a rule for each of these paths and hosts. Empty if one of them can't have a rule, or if
    /// there are too many.
    pub fn propose_grants(&self, subject: &RuleSubject<'_>, effects: &[EffectRef]) -> Vec<String> {
        let mut rules: Vec<String> = Vec::new();
        for effect in effects {
            let Some(more) = self.for_effect(subject, *effect) else { return Vec::new() };
            rules.extend(more.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
        }
        // A rule for changing a file also allows reading it.
        let edits =
            |rule: &str| rule.strip_prefix("Read").is_some_and(|rest| rules.contains(&format!("Edit{rest}")));
        let needed: Vec<String> = rules.iter().filter(|rule| !edits(rule)).cloned().collect();
        let only_hosts = effects.iter().all(|effect| effect.touch == EffectKind::Reaches);
        let most = if only_hosts { HOST_PROPOSALS_MAX } else { PROPOSALS_MAX };
        if needed.len() <= most { needed } else { Vec::new() }
    }

    /// Returns the rule for exactly this command line, or `None` if the call is not a command.
    pub fn exactly(&self, subject: &RuleSubject<'_>) -> Option<String> {
        let is_shell = known_tools::specifier_kind(subject.tool) == known_tools::SpecifierKind::Command;
        let text = subject.input.get("command").filter(|_| is_shell)?.as_str()?;
        Some(command_rule(subject.tool, text)).filter(|rule| self.is_for_one(rule))
    }

    /// Returns whether a rule is unambiguous. With a backslash before each parenthesis it may also be the
    /// saved form of the text without backslashes; that is harmless if the other reading is no valid
    /// command.
    fn is_for_one(&self, rule: &str) -> bool {
        let source = SettingsSource::new(SourceScope::Session, &self.anchors.cwd);
        let Ok(rule) = Rule::parse(UnparsedRule::plain(rule, RuleList::Allow, source)) else { return false };
        match &rule.spec {
            RuleSpecifier::Command(spec) => match &*spec.patterns {
                [_] => true,
                [written, ..] => spec.exact && written.exact().is_some_and(is_grouped),
                [] => false,
            },
            RuleSpecifier::Called(spec) => spec.patterns.len() == 1,
            _ => true,
        }
    }

    /// Removes `Read` rules that an `Edit` rule makes redundant.
    fn fewest(&self, mut rules: Vec<String>, subject: &RuleSubject<'_>) -> Vec<String> {
        let mut at = 0;
        while at < rules.len() {
            let mut fewer = rules.clone();
            let needless = fewer.remove(at).starts_with("Read(") && !fewer.is_empty();
            if needless && self.would_cover(&fewer, subject) {
                rules = fewer;
            } else {
                at += 1;
            }
        }
        rules
    }

    /// Returns a narrow rule that would deny this call if it were added to `deny`: for its first effect,
    /// otherwise for the tool's name.
    pub fn propose_deny(&self, subject: &RuleSubject<'_>) -> String {
        let denied = |command: &SubjectCommand<'_>| {
            command.for_deny.first().map(|text| command_rule(subject.tool, text))
        };
        let touches = &subject.touches;
        let own = [
            (EffectKind::Writes, touches.writes.len()),
            (EffectKind::Deletes, touches.deletes.len()),
            (EffectKind::Reads, touches.reads.len()),
            (EffectKind::Reaches, touches.hosts.len()),
        ];
        let touched = || {
            let effects = own.into_iter().filter(|(_, count)| *count > 0);
            effects
                .filter_map(|(touch, _)| {
                    self.for_effect(subject, EffectRef { touch, command: None, index: 0 })?.into_iter().next()
                })
                .next()
        };
        let named = || by_name(subject).unwrap_or_else(|| subject.tool.to_owned());
        let tries = subject.commands.iter().find_map(denied).into_iter().chain(touched()).chain([named()]);
        tries
            .into_iter()
            .find(|rule| self.would_deny(rule, subject))
            .unwrap_or_else(|| subject.tool.to_owned())
    }

    fn would_deny(&self, rule: &str, subject: &RuleSubject<'_>) -> bool {
        let source = SettingsSource::new(SourceScope::Session, &self.anchors.cwd);
        let rule = Rule::parse(UnparsedRule::plain(rule, RuleList::Deny, source));
        let denies = |rule| {
            RuleSet::build(vec![rule], &self.anchors, vec![true]).decide(subject).verdict
                == Some(Verdict::Deny)
        };
        rule.is_ok_and(denies)
    }

    /// Returns one rule for each uncovered effect, or `None` if one of them can't have a rule.
    fn by_effects(&self, subject: &RuleSubject<'_>, uncovered: &[EffectRef]) -> Option<Vec<String>> {
        let mut rules: Vec<String> = Vec::new();
        for effect in uncovered {
            // A rule for a command covers its effects, except those that such a rule doesn't grant.
            let with_command =
                |other: &EffectRef| other.touch == EffectKind::Runs && other.command == effect.command;
            let is_part = effect.touch != EffectKind::Runs && effect.command.is_some();
            if is_part && uncovered.iter().any(with_command) && !self.needs_own_rule(subject, *effect) {
                continue;
            }
            for rule in self.for_effect(subject, *effect)? {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        Some(rules)
    }

    /// Returns whether a path or host needs its own rule, because rules for the command don't cover it.
    fn needs_own_rule(&self, subject: &RuleSubject<'_>, effect: EffectRef) -> bool {
        if !subject.walled || effect.command.is_none() {
            return false;
        }
        match subject.place(effect) {
            Some(place) => {
                let is_working = self.is_working(&place.given) && self.is_working(&place.real);
                !place.open && !is_working
            }
            None => subject.host(effect).is_some_and(|host| !subject.is_open_host(host)),
        }
    }

    fn for_effect(&self, subject: &RuleSubject<'_>, effect: EffectRef) -> Option<Vec<String>> {
        let touches = match effect.command {
            Some(command) => &subject.commands.get(command)?.touches,
            None => &subject.touches,
        };
        let place = |places: &[SubjectPath<'_>], name: &str| {
            let place = places.get(effect.index)?;
            let below = place.extent == haft::effects::RootExtent::Subtree;
            if self.anchors.private.as_ref().is_some_and(|folder| place.real.starts_with(folder)) {
                // The given path would be the host's own path in another session.
                return Some(vec![format!("{name}({})", path::path_rule_text(&place.real, below)?)]);
            }
            let mut ways = vec![path::path_rule_text(&place.given, below)?];
            if place.real != place.given {
                ways.push(path::path_rule_text(&place.real, below)?);
            }
            Some(ways.into_iter().map(|way| format!("{name}({way})")).collect())
        };
        match effect.touch {
            // A rule for a shell's name covers every command, which is more than an empty command line
            // needs.
            EffectKind::Call
                if known_tools::specifier_kind(subject.tool) == known_tools::SpecifierKind::Command =>
            {
                None
            }
            EffectKind::Call => by_name(subject).map(|rule| vec![rule]),
            EffectKind::Anything => None,
            EffectKind::Runs => {
                let command = subject.commands.get(effect.command?)?;
                let text = command.for_allow.first().filter(|_| command.understood)?;
                Some(vec![command_rule(subject.tool, text)])
            }
            EffectKind::Reads => place(&touches.reads, "Read"),
            EffectKind::Writes => place(&touches.writes, "Edit"),
            EffectKind::Deletes => place(&touches.deletes, "Edit"),
            EffectKind::Reaches => {
                // A star is valid in a host name, but would be a wildcard in a rule.
                let host = host::canonical_host(touches.hosts.get(effect.index)?);
                (!host.contains('*')).then(|| vec![format!("WebFetch(domain:{host})")])
            }
        }
    }

    /// Returns whether the set together with these rules would cover the call.
    fn would_cover(&self, rules: &[String], subject: &RuleSubject<'_>) -> bool {
        let source = SettingsSource::new(SourceScope::Session, &self.anchors.cwd);
        let added: Result<Vec<Rule>, _> = rules
            .iter()
            .map(|rule| Rule::parse(UnparsedRule::plain(rule, RuleList::Allow, source.clone())))
            .collect();
        let Ok(added) = added else { return false };
        let counts = |(rule, used): &(&Rule, &bool)| **used && rule.list() == RuleList::Allow;
        let allowing = self.rules.iter().zip(&self.used).filter(counts).map(|(rule, _)| rule.clone());
        let all: Vec<Rule> = allowing.chain(added).collect();
        let used = vec![true; all.len()];
        RuleSet::build(all, &self.anchors, used).decide(subject).verdict == Some(Verdict::Allow)
    }
}

/// Returns whether a command takes plain parentheses as arguments. Without their backslashes it would be
/// invalid.
fn is_grouped(text: &str) -> bool {
    let takes_them = ["find ", "test ", "[ ", "expr "].iter().any(|program| text.starts_with(program));
    let mut letters = text.chars();
    let mut is_plain = || {
        while let Some(c) = letters.next() {
            let plain = match c {
                '\\' => matches!(letters.next(), Some('(' | ')' | '!' | ';')),
                c => c.is_ascii_alphanumeric() || " _./-=:,+@%{}[]".contains(c),
            };
            if !plain {
                return false;
            }
        }
        true
    };
    takes_them && is_plain()
}

/// Returns the narrowest rule for the tool that its name allows.
fn by_name(subject: &RuleSubject<'_>) -> Option<String> {
    let name = known_tools::current_name(subject.tool);
    if let Some(server) = subject.server {
        return Some(format!("{name}(server:{})", WildcardPattern::escape(server)));
    }
    match known_tools::specifier_kind(name) {
        known_tools::SpecifierKind::Called => {
            let (_, called) = known_tools::invocation_texts(name, subject.input)?;
            Some(format!("{name}({})", WildcardPattern::escape(&called)))
        }
        _ => Some(name.to_owned()),
    }
}

fn command_rule(tool: &str, text: &str) -> String {
    let tool = if tool == "PowerShell" { tool } else { "Bash" };
    format!("{tool}({})", WildcardPattern::escape(text.trim_matches(BLANKS)))
}
