//! Unknown effects of a call, and the rules that could match them.
//!
//! A deny rule for `.env` doesn't match `cat $X`. If an effect of some kind (read, write, host or command)
//! is unknown and a rule restricts anything of that kind, the effect could be the restricted one. Then a
//! call that would be allowed asks, in every mode. Without such a rule nothing changes.
//!
//! Unknown are: words of a command that the shell expands at run time, redirection targets determined at
//! run time, commands that can't be parsed, arguments that `effects` in the settings need and a call omits,
//! paths that can't be resolved, and addresses without a host. The effects of a program without an entry
//! (`make`, a server's tool) don't count as unknown. There the rules match the name, and for a command its
//! words, none of which may name something restricted. A rule for exactly this command allows it, since its
//! author has seen the command. Nothing lifts a block of the working directories.

use std::path::{Path, PathBuf};

use haft::effects::template::EffectList;
use haft_shell::{ArgumentUses, FileAccess, SubCommand};

use super::PolicyInner;
use super::call_analysis::CallAnalysis;
use super::configured_effects::ConfiguredEffects;
use super::mode::DirectoryBlocks;
use crate::rule::{EffectKind, RuleId, RuleSet, SubjectPath};
use crate::settings::{PathProtection, ProtectedPaths, normalize_path};
use crate::source::{RuleList, SettingsSource};

/// An unknown effect, and the rule or block that could match it.
pub(super) struct UnknownEffect {
    /// The unknown effect and the rule or block that could match it, as text.
    pub(super) text: String,
    /// The rule that could match; `None` for a block of the working directories.
    pub(super) rule: Option<RuleId>,
}

/// Returns whether the kernel enforces deny rules for a child process, so that an unknown effect needs no
/// ask. Denied files don't exist for the process, and hosts are reachable only through the proxy, which
/// knows the rules. The kernel doesn't restrict which programs it starts. Ask rules always ask.
fn is_kept(touch: EffectKind, confined: bool) -> bool {
    match touch {
        EffectKind::Reads | EffectKind::Writes | EffectKind::Deletes | EffectKind::Reaches => confined,
        EffectKind::Call | EffectKind::Anything | EffectKind::Runs => false,
    }
}

/// Returns the first unknown effect that a rule or block could match. With `misses` the sandbox doesn't
/// enforce all deny rules. Then a program without an entry asks too, unless a rule names it or `bypass`
/// allows everything: `--allow Bash` alone must not silently rely on an incomplete sandbox.
pub(super) fn find_unknown(
    inner: &PolicyInner,
    rules: &RuleSet,
    case: &CallAnalysis<'_>,
    misses: bool,
    bypass: bool,
) -> Option<UnknownEffect> {
    // In a sandbox, protected files can't be written.
    let protected = Some(&inner.protected).filter(|_| case.child && !case.caged);
    let blocks = Some(&inner.blocks);
    let caged = case.caged && !misses;
    let blind = misses && !bypass;
    UnknownSearch { blocks, protected, given: &inner.effects, rules, case, caged, blind }.run()
}

/// Returns whether a rule of a set could match an unknown effect of a call, regardless of confinement.
pub(super) fn may_mean(inner: &PolicyInner, rules: &RuleSet, case: &CallAnalysis<'_>) -> bool {
    let (caged, blind) = (false, false);
    UnknownSearch { blocks: None, protected: None, given: &inner.effects, rules, case, caged, blind }
        .run()
        .is_some()
}

struct UnknownSearch<'s, 'a> {
    blocks: Option<&'s DirectoryBlocks>,
    protected: Option<&'s ProtectedPaths>,
    given: &'s ConfiguredEffects,
    rules: &'s RuleSet,
    case: &'s CallAnalysis<'a>,
    caged: bool,
    blind: bool,
}

impl UnknownSearch<'_, '_> {
    fn run(&self) -> Option<UnknownEffect> {
        if !self.has_any() {
            return None;
        }
        let tool = self.case.subject.tool;
        let exact = self.case.line().is_some_and(|line| self.rules.allows_exactly(tool, line));
        self.line(exact).or_else(|| self.commands(exact)).or_else(|| self.others())
    }

    fn block_of(&self, touch: EffectKind) -> Option<(&'static str, &SettingsSource)> {
        self.blocks.and_then(|blocks| blocks.find(touch))
    }

    /// Returns whether anything could match an unknown effect.
    fn has_any(&self) -> bool {
        let kinds = [EffectKind::Reads, EffectKind::Writes, EffectKind::Reaches, EffectKind::Runs];
        let blocks = self.block_of(EffectKind::Reads).or(self.block_of(EffectKind::Writes));
        blocks.is_some()
            || self.protected.is_some()
            || kinds.iter().any(|touch| self.rules.may_stop(*touch, false).is_some())
    }

    /// Returns the rule or block that could match an effect of this kind; with `exact` a rule names exactly
    /// this call.
    fn find_rule(&self, touch: EffectKind, exact: bool, why: &dyn Fn() -> String) -> Option<UnknownEffect> {
        let kept = is_kept(touch, self.caged);
        // Files outside of the working directories are readable, so the kernel doesn't prevent it.
        if let Some((key, source)) = self.block_of(touch).filter(|_| !kept || touch == EffectKind::Reads) {
            return Some(self.block(key, source, why()));
        }
        let rule = self.rules.may_stop(touch, kept).filter(|_| !exact)?;
        Some(self.rule(rule, why()))
    }

    fn rule(&self, id: RuleId, why: String) -> UnknownEffect {
        let rule = self.rules.rule(id);
        let verb = if rule.list() == RuleList::Deny { "denies" } else { "asks for" };
        let words = format!("{why}, and it could be what `{rule}` ({}) {verb}", rule.source());
        UnknownEffect { text: words, rule: Some(id) }
    }

    fn block(&self, key: &str, source: &SettingsSource, why: String) -> UnknownEffect {
        let words = format!("{why}, and it could lie outside of the working directories (`{key}`, {source})");
        UnknownEffect { text: words, rule: None }
    }

    /// Checks the unparsed parts of a command line, and redirection targets that are known only at run
    /// time.
    fn line(&self, exact: bool) -> Option<UnknownEffect> {
        let case = self.case;
        if let Some(doubt) = case.unread.as_deref() {
            let why = || format!("the command is not understood: {doubt}");
            let kinds = [EffectKind::Runs, EffectKind::Reads, EffectKind::Writes, EffectKind::Reaches];
            return kinds.into_iter().find_map(|touch| self.find_rule(touch, exact, &why));
        }
        case.targets.iter().find_map(|(access, target)| {
            let touch = match access {
                FileAccess::Read => EffectKind::Reads,
                FileAccess::Write => EffectKind::Writes,
            };
            let why = || format!("which file `{}` is, is known only when it runs", quote_text(target));
            // Bash treats some absolute paths as hosts, but no relative one.
            let may_reach = target.trim_start_matches('"').starts_with(['$', '`', '/']);
            self.find_rule(touch, exact, &why)
                .or_else(|| may_reach.then(|| self.find_rule(EffectKind::Reaches, exact, &why)).flatten())
                // As for everything that isn't understood.
                .or_else(|| self.find_rule(EffectKind::Runs, exact, &why))
        })
    }

    /// Checks words that are known only at run time.
    fn commands(&self, exact: bool) -> Option<UnknownEffect> {
        let (case, tool) = (self.case, self.case.subject.tool);
        for (command, subject) in case.commands.iter().zip(&case.subject.commands) {
            let known = command.effects.as_ref().is_some_and(|effects| !effects.unknown);
            let open = !subject.open.is_empty();
            let exact = exact || subject.for_allow.iter().any(|text| self.rules.allows_exactly(tool, text));
            // A git remote or a host alias, which some configuration resolves.
            let reached = || {
                self.find_rule(EffectKind::Reaches, exact, &|| command.reaches_unknown().unwrap_or_default())
            };
            if let Some(found) = command.reaches_unknown().and_then(|_| reached()) {
                return Some(found);
            }
            if known && !open {
                continue;
            }
            let text = quote_text(&command.text);
            if let Some(rule) = self.rules.may_run(tool, subject).filter(|_| !exact) {
                let why = format!("what the words of `{text}` are is known only when it runs");
                return Some(self.rule(rule, why));
            }
            let by_name = || subject.for_allow.iter().any(|text| self.rules.allows_by_name(tool, text));
            if self.blind && !known && !exact && command.read_only.is_err() && !by_name() {
                let why = || {
                    format!(
                        "the sandbox doesn't hide all that rules deny, and nobody knows what `{text}` touches"
                    )
                };
                let found = [EffectKind::Reads, EffectKind::Writes]
                    .into_iter()
                    .find_map(|touch| self.find_rule(touch, exact, &why));
                if found.is_some() {
                    return found;
                }
            }
            let named = if known { None } else { self.named(command, exact) };
            if named.is_some() {
                return named;
            }
            for touch in possible_effects(command).filter(|_| open && !known) {
                let verb = match touch {
                    EffectKind::Reads => "reads",
                    EffectKind::Reaches => "reaches",
                    _ => "changes",
                };
                let found = self.find_rule(touch, exact, &|| format!("what `{text}` {verb} isn't known"));
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Checks the words of a program without an entry: the program may do with them what a rule restricts.
    fn named(&self, command: &SubCommand, exact: bool) -> Option<UnknownEffect> {
        let words = command.layers.iter().flat_map(|layer| layer.argv.iter().skip(1));
        let words = words.filter_map(|word| word.literal()).take(WORDS_MAX);
        let names = words.flat_map(inner_names);
        let why = |name: &str| {
            format!("nobody knows what `{}` does with `{}`", quote_text(&command.text), quote_text(name))
        };
        for name in names {
            let found = self.stops_name(name).filter(|_| !exact).map(|rule| self.rule(rule, why(name)));
            if found.is_some() {
                return found;
            }
            if let Some(root) = self.protected(name) {
                let words = format!("{}, and no tool may write `{}`", why(name), root.display());
                return Some(UnknownEffect { text: words, rule: None });
            }
            // The path itself shows that it leaves the working directory.
            let outer = name.starts_with('/') || name.split('/').any(|part| part == "..");
            let block = [EffectKind::Reads, EffectKind::Writes].into_iter().find_map(|touch| {
                let block = self.block_of(touch).filter(|_| outer)?;
                let path = normalize_path(self.case.workspace.cwd(), Path::new(name));
                (!self.case.is_inside(touch, &SubjectPath::at(&path))).then_some(block)
            });
            if let Some((key, source)) = block {
                return Some(self.block(key, source, why(name)));
            }
        }
        None
    }

    /// Returns the protected path, if this name is in one.
    fn protected(&self, name: &str) -> Option<PathBuf> {
        let given = normalize_path(self.case.workspace.cwd(), Path::new(name));
        let real = given.canonicalize().unwrap_or_else(|_| given.clone());
        [given, real].iter().find_map(|path| match self.protected?.judge(path) {
            Some(PathProtection::Never(root)) if path.starts_with(&root) => Some(root),
            _ => None,
        })
    }

    /// Returns the rule that restricts a file or host of this name.
    fn stops_name(&self, name: &str) -> Option<RuleId> {
        let (rules, tool) = (self.rules, self.case.subject.tool);
        let counts = |touch: EffectKind| {
            let kept = is_kept(touch, self.caged);
            move |rule: &RuleId| !(kept && rules.rule(*rule).list() == RuleList::Deny)
        };
        let has_paths = [EffectKind::Reads, EffectKind::Writes]
            .iter()
            .any(|touch| rules.may_stop(*touch, false).is_some());
        if has_paths {
            let given = normalize_path(self.case.workspace.cwd(), Path::new(name));
            // Only an existing path can be a symlink.
            let real = given.canonicalize().unwrap_or_else(|_| given.clone());
            // The path may be a folder and then includes its contents.
            let place = SubjectPath::linked(&given, &real).and_below();
            let stops = |touch: EffectKind| rules.stops(tool, touch, &place).filter(counts(touch));
            let found = stops(EffectKind::Reads).or_else(|| stops(EffectKind::Writes));
            if found.is_some() {
                return found;
            }
        }
        let may_be_host = rules.may_stop(EffectKind::Reaches, false).is_some() && name.contains(['.', ':']);
        // `go get evil.io/x` names a host without a scheme.
        let front = || name.split_once('/').and_then(|(front, _)| rules.stops_host(front));
        let found = may_be_host.then(|| rules.stops_host(name).or_else(front)).flatten();
        found.filter(counts(EffectKind::Reaches))
    }

    /// Checks the unknown effects that are not from commands.
    fn others(&self) -> Option<UnknownEffect> {
        let case = self.case;
        if let Some((path, why)) = &case.failed {
            let why = || format!("nobody can say what `{}` is: {why}", path.display());
            let found = [EffectKind::Reads, EffectKind::Writes]
                .into_iter()
                .find_map(|touch| self.find_rule(touch, false, &why));
            if found.is_some() {
                return found;
            }
        }
        if !case.subject.open {
            return None;
        }
        if case.subject.hosts_only {
            return self.find_rule(EffectKind::Reaches, false, &|| {
                "which host the address leads to isn't known".to_owned()
            });
        }
        let told = self.given.told(case.subject.tool, case.subject.input)?;
        told.open.iter().find_map(|(kind, violation)| {
            let (touch, verb) = match kind {
                EffectList::Reads => (EffectKind::Reads, "reads"),
                EffectList::Writes => (EffectKind::Writes, "changes"),
                EffectList::Deletes => (EffectKind::Writes, "removes"),
                EffectList::Runs => (EffectKind::Runs, "runs"),
                EffectList::Reaches => (EffectKind::Reaches, "reaches"),
            };
            self.find_rule(touch, false, &|| format!("what it {verb} isn't known ({violation})"))
        })
    }
}

/// The maximum number of a command's words that are checked against rules.
const WORDS_MAX: usize = 64;

/// Returns a word, and the names that it may contain: `if=name`, `@name`, `-fname`, `me@host`, `host:name`.
fn inner_names(word: &str) -> impl Iterator<Item = &str> {
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let short = short.and_then(|rest| rest.get(1..));
    let plain = (!word.starts_with('-')).then_some(word);
    let after = |sign: char| word.split_once(sign).map(|(_, after)| after);
    let before = word.split_once(':').map(|(before, _)| before.rsplit('@').next().unwrap_or(before));
    let all = [plain, short, after('='), after('@'), after(':'), before];
    all.into_iter().flatten().filter(|name| !name.is_empty())
}

/// Returns the kinds of effects that a command's unknown words may have.
fn possible_effects(command: &SubCommand) -> impl Iterator<Item = EffectKind> {
    // A wrapper before the program may have effects of its own.
    let alone = command.layers.len() == 1;
    let mut uses =
        command.program().filter(|_| alone).map_or(ArgumentUses::ANYTHING, haft_shell::argument_uses);
    if command.read_only.is_ok() {
        uses = ArgumentUses { reads: true, ..ArgumentUses::default() };
    }
    let ArgumentUses { reads, changes, reaches } = uses;
    let kinds = [(EffectKind::Reads, reads), (EffectKind::Writes, changes), (EffectKind::Reaches, reaches)];
    kinds.into_iter().filter_map(|(touch, counts)| counts.then_some(touch))
}

/// Returns whether only reads are unknown.
pub(super) fn only_reads(case: &CallAnalysis<'_>) -> bool {
    let reads = |command: &SubCommand| {
        command.read_only.is_ok()
            || (command.effects.is_some()
                && possible_effects(command).all(|touch| touch == EffectKind::Reads))
    };
    case.doubts().is_empty() && !case.commands.is_empty() && case.commands.iter().all(reads)
}

/// The number of characters of a command that are shown.
const SHOWN_CHARS: usize = 200;

fn quote_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_CHARS).collect()
}
