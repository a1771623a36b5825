//! What changes while a session runs: the mode, and the rules that answers make.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use haft::ports::PermissionMode;

use super::SESSION_RULES_MAX;
use super::case::Surroundings;
use crate::rule::{Examine, Lint, Rule, RuleSet};
use crate::source::{List, Scope, Source, WrittenRule};

/// All rules, compiled, in two versions.
pub(super) struct Sets {
    pub(super) rules: RuleSet,
    /// Without allow rules for any command, for the mode in which a classifier stands in for the user. None if there is
    /// no such rule.
    narrow: Option<RuleSet>,
    /// Some rule denies or asks for some commands.
    pub(super) stop_commands: bool,
}

impl Sets {
    fn compile(rules: Vec<Rule>, surroundings: &Surroundings) -> (Sets, Vec<Lint>) {
        let anchors = &surroundings.anchors;
        let examine: Box<Examine<'_>> = Box::new(|tool, input| surroundings.example(tool, input));
        let narrow: Vec<Rule> = rules.iter().filter(|rule| !is_broad(rule)).cloned().collect();
        let narrow =
            (narrow.len() < rules.len()).then(|| RuleSet::compile_with(narrow, anchors, &*examine).0);
        let stops =
            |rule: &Rule| rule.list() != List::Allow && super::is_shell(rule.tool()) && !rule.is_bare();
        let stop_commands = rules.iter().any(stops);
        let (rules, lints) = RuleSet::compile_with(rules, anchors, &*examine);
        (Sets { rules, narrow, stop_commands }, lints)
    }

    /// The rules that hold in a mode.
    pub(super) fn of(&self, mode: PermissionMode) -> &RuleSet {
        match &self.narrow {
            Some(narrow) if mode == PermissionMode::Auto => narrow,
            _ => &self.rules,
        }
    }
}

/// Programs that run whatever they are given, so that a wildcard behind one allows everything.
const INTERPRETERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "bunx",
    "cmd",
    "dash",
    "deno",
    "doas",
    "docker",
    "env",
    "eval",
    "exec",
    "fish",
    "gawk",
    "ksh",
    "lua",
    "node",
    "nodejs",
    "npx",
    "osascript",
    "perl",
    "php",
    "pnpx",
    "podman",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "sh",
    "ssh",
    "su",
    "sudo",
    "tclsh",
    "ts-node",
    "tsx",
    "uvx",
    "xargs",
    "zsh",
];

/// Whether an allow rule lets any program run: every use of a shell, or a wildcard behind an interpreter.
fn is_broad(rule: &Rule) -> bool {
    if rule.list() != List::Allow || !super::is_shell(rule.tool()) {
        return false;
    }
    if rule.is_bare() {
        return true;
    }
    let text = rule.to_string();
    let inner = text.split_once('(').map_or("", |(_, inner)| inner).trim_end_matches(')').trim();
    let Some(star) = inner.find('*').filter(|at| !inner[..*at].ends_with('\\')) else { return false };
    let before = inner[..star].trim_end_matches(':');
    let first = before.split_whitespace().next().unwrap_or("");
    let program = first.rsplit('/').next().unwrap_or(first);
    // `py*` is for `python` too.
    let whole = before.contains(char::is_whitespace) || inner[..star].ends_with(':');
    INTERPRETERS.iter().any(|known| if whole { *known == program } else { known.starts_with(program) })
}

pub(super) struct Live {
    /// The place of the mode in [`PermissionMode::ALL`].
    mode: AtomicUsize,
    sets: RwLock<Arc<Sets>>,
}

impl Live {
    pub(super) fn new(
        rules: Vec<Rule>,
        mode: PermissionMode,
        surroundings: &Surroundings,
    ) -> (Live, Vec<Lint>) {
        let (sets, lints) = Sets::compile(rules, surroundings);
        let live = Live { mode: AtomicUsize::new(0), sets: RwLock::new(Arc::new(sets)) };
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

    pub(super) fn sets(&self) -> Arc<Sets> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds rules to a list, from the next call on, and says whether there is room for them; else none is added.
    pub(super) fn add(&self, rules: &[String], list: List, surroundings: &Surroundings) -> bool {
        let source = Source::of(Scope::Session, &surroundings.anchors.cwd);
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<&Rule> = sets.rules.rules().map(|(_, rule)| rule).collect();
        let answers = known.iter().filter(|rule| rule.source().scope == Scope::Session).count();
        let is_new =
            |text: &&String| !known.iter().any(|rule| rule.list() == list && rule.to_string() == **text);
        let written =
            |text: &String| Rule::parse(WrittenRule::plain(text.clone(), list, source.clone())).ok();
        let new: Vec<Rule> = rules.iter().filter(is_new).filter_map(written).collect();
        if new.len() > SESSION_RULES_MAX.saturating_sub(answers) {
            return false;
        }
        if new.is_empty() {
            return true;
        }
        let all = known.into_iter().cloned().chain(new).collect();
        *sets = Arc::new(Sets::compile(all, surroundings).0);
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
                &Rule::parse(WrittenRule::plain(text, List::Allow, Source::of(Scope::User, "/w"))).unwrap(),
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
        ] {
            assert!(!broad(rule), "{rule}");
        }
    }
}
