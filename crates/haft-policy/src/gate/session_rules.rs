//! The state that changes during a session: the mode, and the rules from answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use haft::ports::PermissionMode;
use haft::sync::lock;

use super::SESSION_RULES_MAX;
use super::call_analysis::SessionContext;
use crate::conventions;
use crate::rule::{BuildSubject, Rule, RuleLint, RuleSet};
use crate::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

/// All rules, compiled in two versions.
pub(super) struct CompiledRules {
    pub(super) rules: RuleSet,
    /// Without the allow rules that permit any command, for the mode in which a classifier replaces the
    /// user. `None` if there are no such rules.
    narrow: Option<RuleSet>,
}

impl CompiledRules {
    pub(super) fn compile(rules: Vec<Rule>, surroundings: &SessionContext) -> (CompiledRules, Vec<RuleLint>) {
        let anchors = &surroundings.leading(&rules);
        let examine: Box<BuildSubject<'_>> = Box::new(|tool, input| surroundings.example(tool, input));
        let narrow: Vec<Rule> = rules.iter().filter(|rule| !is_broad(rule)).cloned().collect();
        let narrow =
            (narrow.len() < rules.len()).then(|| RuleSet::compile_with(narrow, anchors, &*examine).0);
        let (rules, lints) = RuleSet::compile_with(rules, anchors, &*examine);
        (CompiledRules { rules, narrow }, lints)
    }

    /// Returns the rules that apply in a mode.
    pub(super) fn for_mode(&self, mode: PermissionMode) -> &RuleSet {
        match &self.narrow {
            Some(narrow) if mode == PermissionMode::Auto => narrow,
            _ => &self.rules,
        }
    }

    /// Returns all rules, if the mode leaves out some that allow any program.
    pub(super) fn suspended_in(&self, mode: PermissionMode) -> Option<&RuleSet> {
        self.narrow.as_ref().filter(|_| mode == PermissionMode::Auto).map(|_| &self.rules)
    }
}

/// Returns whether an allow rule permits any program: every use of a shell, or a wildcard after an
/// interpreter.
fn is_broad(rule: &Rule) -> bool {
    if rule.list() != RuleList::Allow || !conventions::is_shell(rule.tool()) {
        return false;
    }
    if rule.is_bare() {
        return true;
    }
    let text = rule.to_string();
    let inner = text.split_once('(').map_or("", |(_, inner)| inner).trim_end_matches(')').trim();
    let Some(star) = inner.find('*').filter(|at| !inner[..*at].ends_with('\\')) else { return false };
    let before = inner[..star].trim_end_matches(':');
    // Skips what may precede a program: `X=1`, `timeout -k 5 60`.
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_lowercase();
    let mut words = before.split_whitespace().peekable();
    let mut wrapped = false;
    while let Some(word) = words.peek() {
        let number = word.starts_with(|c: char| c.is_ascii_digit());
        let skipped = if wrapped { word.starts_with('-') || number } else { false };
        let wraps = haft_shell::precedes_command(&name(word)) && !is_open_ended(|known| known == name(word));
        if !(skipped || wraps || word.contains('=')) {
            break;
        }
        wrapped |= wraps;
        words.next();
    }
    let Some(first) = words.next() else { return true };
    let program = name(first);
    // `py*` matches `python` too.
    let whole =
        words.next().is_some() || before.ends_with(char::is_whitespace) || inner[..star].ends_with(':');
    let unversioned = program.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    is_open_ended(|known| {
        known == program || known == unversioned || (!whole && known.starts_with(&*program))
    })
}

/// Returns whether a program that runs arbitrary code has such a name in lower case.
fn is_open_ended(is_it: impl Fn(&str) -> bool) -> bool {
    haft_shell::open_ended_programs().any(|known| is_it(&known.to_lowercase()))
}

pub(super) struct SessionRules {
    /// The index of the mode in [`PermissionMode::ALL`].
    mode: AtomicUsize,
    sets: RwLock<Arc<CompiledRules>>,
    /// Allow rules that end with the turn.
    turn: Mutex<Vec<String>>,
}

impl SessionRules {
    pub(super) fn new(
        rules: Vec<Rule>,
        mode: PermissionMode,
        surroundings: &SessionContext,
    ) -> (SessionRules, Vec<RuleLint>) {
        let (sets, lints) = CompiledRules::compile(rules, surroundings);
        let live = SessionRules {
            mode: AtomicUsize::new(0),
            sets: RwLock::new(Arc::new(sets)),
            turn: Mutex::default(),
        };
        live.set_mode(mode);
        (live, lints)
    }

    pub(super) fn mode(&self) -> PermissionMode {
        PermissionMode::ALL[self.mode.load(Ordering::Acquire)].1
    }

    pub(super) fn set_mode(&self, mode: PermissionMode) {
        let place = PermissionMode::ALL.iter().position(|(_, known)| *known == mode).unwrap_or_default();
        self.mode.store(place, Ordering::Release);
    }

    pub(super) fn sets(&self) -> Arc<CompiledRules> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the rules with these added to `allow`, to evaluate a hypothetical change.
    pub(super) fn with(&self, rules: &[String], surroundings: &SessionContext) -> CompiledRules {
        let source = SettingsSource::new(SourceScope::Session, &surroundings.anchors.cwd);
        let written = |text: &String| {
            Rule::parse(UnparsedRule::plain(text.clone(), RuleList::Allow, source.clone())).ok()
        };
        let sets = self.sets();
        let known = sets.rules.rules().map(|(_, rule)| rule.clone());
        CompiledRules::compile(known.chain(rules.iter().filter_map(written)).collect(), surroundings).0
    }

    /// Allows until [`end_turn`](SessionRules::end_turn), and says whether there is room.
    pub(super) fn allow_for_turn(&self, rules: &[String], surroundings: &SessionContext) -> bool {
        let mut turn = lock(&self.turn);
        let known: Vec<String> = {
            let sets = self.sets();
            let allow = sets.rules.rules().filter(|(_, rule)| rule.list() == RuleList::Allow);
            allow.map(|(_, rule)| rule.to_string()).collect()
        };
        // Rules that already apply don't end with the turn.
        let new: Vec<String> = rules.iter().filter(|rule| !known.contains(rule)).cloned().collect();
        let added = self.put(&new, RuleList::Allow, surroundings);
        if added {
            turn.extend(new);
        }
        added
    }

    /// Removes the rules that were allowed for a turn.
    pub(super) fn end_turn(&self, surroundings: &SessionContext) {
        let mut turn = lock(&self.turn);
        if turn.is_empty() {
            return;
        }
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let ends = |rule: &Rule| {
            rule.list() == RuleList::Allow
                && rule.source().scope == SourceScope::Session
                && turn.contains(&rule.to_string())
        };
        let left = sets.rules.rules().map(|(_, rule)| rule).filter(|rule| !ends(rule)).cloned().collect();
        *sets = Arc::new(CompiledRules::compile(left, surroundings).0);
        turn.clear();
    }

    /// Adds rules to a list, from the next call on. Returns false and adds none if there is no room for
    /// them.
    pub(super) fn add(&self, rules: &[String], list: RuleList, surroundings: &SessionContext) -> bool {
        // A rule that the user adds outlasts the turn.
        if list == RuleList::Allow {
            let mut turn = lock(&self.turn);
            turn.retain(|rule| !rules.contains(rule));
        }
        self.put(rules, list, surroundings)
    }

    fn put(&self, rules: &[String], list: RuleList, surroundings: &SessionContext) -> bool {
        let source = SettingsSource::new(SourceScope::Session, &surroundings.anchors.cwd);
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<&Rule> = sets.rules.rules().map(|(_, rule)| rule).collect();
        let answers = known.iter().filter(|rule| rule.source().scope == SourceScope::Session).count();
        let is_new =
            |text: &&String| !known.iter().any(|rule| rule.list() == list && rule.to_string() == **text);
        let written =
            |text: &String| Rule::parse(UnparsedRule::plain(text.clone(), list, source.clone())).ok();
        let new: Vec<Rule> = rules.iter().filter(is_new).filter_map(written).collect();
        if new.len() > SESSION_RULES_MAX.saturating_sub(answers) {
            return false;
        }
        if new.is_empty() {
            return true;
        }
        let all = known.into_iter().cloned().chain(new).collect();
        *sets = Arc::new(CompiledRules::compile(all, surroundings).0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_any_program_are_broad() {
        let broad = |text: &str| {
            is_broad(
                &Rule::parse(UnparsedRule::plain(
                    text,
                    RuleList::Allow,
                    SettingsSource::new(SourceScope::User, "/w"),
                ))
                .unwrap(),
            )
        };
        for rule in [
            "Bash",
            "Bash(*)",
            "Bash(python *)",
            "Bash(python:*)",
            "Bash(* --version)",
            "Bash(py*)",
            "Bash(/usr/bin/node *)",
            "Bash(sudo *)",
            "Bash(npx *)",
            "Bash(python3 *)",
            "Bash(python3.11 *)",
            "Bash(python3.11:*)",
            "Bash(python3.*)",
            "Bash(node20 *)",
            "Bash(ruby3.2 -e *)",
            "Bash(/opt/bin/lua-5.4 *)",
            "Bash(Rscript *)",
            "Bash(X=1 python *)",
            "Bash(timeout *)",
            "Bash(timeout -k 5 60 python *)",
            "Bash(nice bash -c *)",
            "PowerShell",
            "Monitor",
        ] {
            assert!(broad(rule), "{rule}");
        }
        for rule in [
            "Bash(npm test)",
            "Bash(npm run *)",
            "Bash(git log *)",
            "Bash(python a.py)",
            "Read",
            "Edit(src/**)",
            "Bash(pytest *)",
            "Bash(python3.11 a.py)",
            "Bash(pythonic *)",
            "Bash(node_exporter *)",
            "Bash(timeout 60 npm run *)",
            "Bash(shellcheck *)",
            "Bash(X=1 make *)",
        ] {
            assert!(!broad(rule), "{rule}");
        }
    }
}
