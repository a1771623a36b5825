//! What isn't known of a call, and the rules that could speak of it.
//!
//! A rule that denies `.env` doesn't see it in `cat $X`. Where something of a kind isn't known (what is read, written,
//! reached or run) and some rule of that kind stops anything, nobody can say that it isn't just that: a call that would be
//! let through asks, in every mode. Where no such rule exists nothing changes.
//!
//! Not known are the words of a command that the shell puts in when it runs, files that a redirection finds then,
//! commands that nobody can read, arguments that the `effects` of settings need and a call doesn't give, paths that can't
//! be resolved, and addresses without a host. What a program does by itself that nobody describes (`make`, a server's tool)
//! isn't meant: there the name is what rules speak of, and for a command its words, of which none may name what a rule
//! stops. A rule for exactly this command lets it through, since whoever wrote it has seen it; a block of the working
//! directories is lifted by nothing.

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

/// Something that isn't known, and what could speak of it.
pub(super) struct UnknownEffect {
    /// What isn't known, and what could speak of it, in words.
    pub(super) text: String,
    /// The rule that could; none for a block of the working directories.
    pub(super) rule: Option<RuleId>,
}

/// Whether the kernel keeps a child from what rules that deny speak of, so that not knowing needs no question: files that
/// may not be touched aren't there for it, and hosts are reached only through the proxy that knows the rules. Which
/// programs it starts nothing keeps it from; and a rule that asks wants to be asked.
fn is_kept(touch: EffectKind, confined: bool) -> bool {
    match touch {
        EffectKind::Reads | EffectKind::Writes | EffectKind::Deletes | EffectKind::Reaches => confined,
        EffectKind::Call | EffectKind::Anything | EffectKind::Runs => false,
    }
}

/// The first thing that isn't known of a call and that a rule or a block could speak of. With `misses` the sandbox keeps
/// children not from all that rules deny; then a program that nobody describes asks too, unless a rule names it or
/// `bypass` says that everything runs: who relies on the sandbox isn't told otherwise by `--allow Bash`.
pub(super) fn find_unknown(
    inner: &PolicyInner,
    rules: &RuleSet,
    case: &CallAnalysis<'_>,
    misses: bool,
    bypass: bool,
) -> Option<UnknownEffect> {
    // In a sandbox nobody writes what is protected.
    let protected = Some(&inner.protected).filter(|_| case.child && !case.caged);
    let blocks = Some(&inner.blocks);
    let caged = case.caged && !misses;
    let blind = misses && !bypass;
    UnknownSearch { blocks, protected, given: &inner.effects, rules, case, caged, blind }.run()
}

/// Whether some rule of a set could speak of something that isn't known of a call, whatever keeps the call from it.
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

    /// Whether anything could speak of something unknown.
    fn has_any(&self) -> bool {
        let kinds = [EffectKind::Reads, EffectKind::Writes, EffectKind::Reaches, EffectKind::Runs];
        let blocks = self.block_of(EffectKind::Reads).or(self.block_of(EffectKind::Writes));
        blocks.is_some()
            || self.protected.is_some()
            || kinds.iter().any(|touch| self.rules.may_stop(*touch, false).is_some())
    }

    /// Who could speak of something of this kind; with `exact` a rule names just this call.
    fn find_rule(&self, touch: EffectKind, exact: bool, why: &dyn Fn() -> String) -> Option<UnknownEffect> {
        let kept = is_kept(touch, self.caged);
        // What lies outside is there to be read, so that no kernel keeps anybody from it.
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

    /// What of a command line can't be read, and files that its redirections find when it runs.
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
            // Some paths are hosts for bash; a relative one isn't.
            let may_reach = target.trim_start_matches('"').starts_with(['$', '`', '/']);
            self.find_rule(touch, exact, &why)
                .or_else(|| may_reach.then(|| self.find_rule(EffectKind::Reaches, exact, &why)).flatten())
                // As with all that isn't understood.
                .or_else(|| self.find_rule(EffectKind::Runs, exact, &why))
        })
    }

    /// Words that are known only when a command runs.
    fn commands(&self, exact: bool) -> Option<UnknownEffect> {
        let (case, tool) = (self.case, self.case.subject.tool);
        for (command, subject) in case.commands.iter().zip(&case.subject.commands) {
            let known = command.effects.as_ref().is_some_and(|effects| !effects.unknown);
            let open = !subject.open.is_empty();
            let exact = exact || subject.for_allow.iter().any(|text| self.rules.allows_exactly(tool, text));
            // A remote, an alias of a host: known to somebody's configuration.
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

    /// Words of a program that nobody describes: it may do with them what a rule stops.
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
            // A path that says itself that it leads out.
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

    /// What no tool may write, if this name is in it.
    fn protected(&self, name: &str) -> Option<PathBuf> {
        let given = normalize_path(self.case.workspace.cwd(), Path::new(name));
        let real = given.canonicalize().unwrap_or_else(|_| given.clone());
        [given, real].iter().find_map(|path| match self.protected?.judge(path) {
            Some(PathProtection::Never(root)) if path.starts_with(&root) => Some(root),
            _ => None,
        })
    }

    /// The rule that stops whatever has this name, a file or a host.
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
            // Only what is there can be a link.
            let real = given.canonicalize().unwrap_or_else(|_| given.clone());
            // It may be a folder, and then stands for what is in it.
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

    /// What isn't known of a call that is no command.
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

/// How many words of a command are held against rules.
const WORDS_MAX: usize = 64;

/// A word, and what it may hold: `if=name`, `@name`, `-fname`, `me@host`, `host:name`.
fn inner_names(word: &str) -> impl Iterator<Item = &str> {
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    let short = short.and_then(|rest| rest.get(1..));
    let plain = (!word.starts_with('-')).then_some(word);
    let after = |sign: char| word.split_once(sign).map(|(_, after)| after);
    let before = word.split_once(':').map(|(before, _)| before.rsplit('@').next().unwrap_or(before));
    let all = [plain, short, after('='), after('@'), after(':'), before];
    all.into_iter().flatten().filter(|name| !name.is_empty())
}

/// What a command may do with words that aren't known.
fn possible_effects(command: &SubCommand) -> impl Iterator<Item = EffectKind> {
    // What stands before a program may do something of its own.
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

/// Whether nothing but what is read isn't known.
pub(super) fn only_reads(case: &CallAnalysis<'_>) -> bool {
    let reads = |command: &SubCommand| {
        command.read_only.is_ok()
            || (command.effects.is_some()
                && possible_effects(command).all(|touch| touch == EffectKind::Reads))
    };
    case.doubts().is_empty() && !case.commands.is_empty() && case.commands.iter().all(reads)
}

/// How much of a command is shown.
const SHOWN_CHARS: usize = 200;

fn quote_text(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_CHARS).collect()
}
