//! What the mode says of a call that no rule denies or asks for, what it denies whatever rules ask for, and
//! what no mode lifts.
//!
//! | mode | runs unasked | else |
//! |---|---|---|
//! | `default` | looks inside the working directories, commands that look | asks |
//! | `acceptEdits` | and edits there, and `mkdir touch rm rmdir mv cp sed` there | asks |
//! | `plan` | as `default` | a change, a command or a tool not known to look, a look outside is denied, the rest asks |
//! | `auto` | as `acceptEdits` | the classifier, then asks |
//! | `dontAsk` | as `default` | is denied |
//! | `bypassPermissions` | everything, with what is [explain_uncovered](super::grants) | is denied |
//!
//! Commands count as looking only where something holds them to it, or where the user goes by rules and mode
//! alone.

use std::borrow::Cow;
use std::path::Path;

use haft::decision::{DecisionReason, DecisionSource, Verdict};
use haft::effects::AccessKind;
use haft::effects::table::ApprovalNeed;
use haft::ports::PermissionMode;

use super::PolicyInner;
use super::call_analysis::CallAnalysis;
use crate::conventions;
use crate::rule::{EffectKind, EffectRef, RuleMatches, SubjectPath};
use crate::settings::{PathProtection, PermissionSettings, SettingValue, repository_write};
use crate::source::SettingsSource;
use haft_shell::SubCommand;

/// Settings that block the working directories. Nothing lifts them.
pub(super) struct DirectoryBlocks {
    reads: Option<SettingsSource>,
    writes: Option<SettingsSource>,
}

impl DirectoryBlocks {
    pub(super) fn new(permissions: &PermissionSettings) -> DirectoryBlocks {
        let source = |block: &Option<SettingValue<bool>>| block.as_ref().map(|at| at.source.clone());
        DirectoryBlocks {
            reads: source(&permissions.block_reads_outside),
            writes: source(&permissions.block_writes_outside),
        }
    }

    /// Returns the key and the origin of the setting that blocks this kind of access.
    pub(super) fn find(&self, touch: EffectKind) -> Option<(&'static str, &SettingsSource)> {
        let (block, key) = match touch {
            EffectKind::Reads => (&self.reads, "blockReadsOutsideWorkingDirectories"),
            EffectKind::Writes | EffectKind::Deletes => {
                (&self.writes, "blockWritesOutsideWorkingDirectories")
            }
            _ => return None,
        };
        block.as_ref().map(|source| (key, source))
    }
}

/// Programs that count as edits in `acceptEdits`.
const EDITORS: &[&str] = &["cp", "mkdir", "mv", "rm", "rmdir", "sed", "touch"];

/// Returns both forms of a path, or one if they are equal.
fn both_paths<'p>(place: &'p SubjectPath<'_>) -> impl Iterator<Item = &'p Path> {
    let real = (place.real != place.given).then_some(&*place.real);
    std::iter::once(&*place.given).chain(real)
}

/// Returns the reason of a denial that rules, mode and user can't lift.
pub(super) fn find_absolute_denial(inner: &PolicyInner, case: &CallAnalysis<'_>) -> Option<DecisionReason> {
    let denied = |text: Cow<'static, str>, message: String| {
        Some(DecisionReason::new(DecisionSource::Protected, Verdict::Deny, text).with_message(message))
    };
    if let Some(url) = conventions::url_with_user(case.subject.tool, case.subject.input) {
        let words = format!("`{url}` has a name or password in it; leave it out of the address");
        return denied("the rule for addresses".into(), words);
    }
    for (effect, place) in case.places() {
        let reading = effect.touch == EffectKind::Reads;
        if !reading {
            for path in both_paths(place) {
                if let Some(PathProtection::Never(root)) = inner.protected.judge(path) {
                    // `rm -rf ~` would remove it too, and asks because of the critical path, which is the
                    // better-known reason.
                    if case.critical.is_some() && root.starts_with(path) {
                        continue;
                    }
                    let words = format!("no tool may write `{}`, in any mode", root.display());
                    return denied("what protects settings and trust".into(), words);
                }
            }
        }
        let block = inner.blocks.find(effect.touch);
        if let Some((key, source)) = block.filter(|_| !case.is_inside(effect.touch, place)) {
            let words = format!("`{}` lies outside of the working directories", place.given.display());
            return denied(format!("`{key}` ({source})").into(), words);
        }
    }
    None
}

/// Returns whether a mode shows an ask of this source to the user.
pub(super) fn may_ask(mode: PermissionMode, source: DecisionSource) -> bool {
    match mode {
        PermissionMode::DontAsk => false,
        PermissionMode::BypassPermissions => source != DecisionSource::Grants,
        _ => true,
    }
}

/// Returns the mode's verdict; `allowed` is the rule that covers the whole call, if one does.
pub(super) fn decide_by_mode(
    inner: &PolicyInner,
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
    matches: &RuleMatches,
    allowed: Option<DecisionReason>,
) -> DecisionReason {
    let uncovered = || if allowed.is_some() { Vec::new() } else { matches.uncovered.clone() };
    if let Some(reason) = mode_denial(mode, case, uncovered) {
        return reason;
    }
    if let Some(path) = &case.critical {
        let text = format!("it removes `{path}`; no rule and no mode allows that unasked");
        return DecisionReason::new(DecisionSource::Protected, Verdict::Ask, text);
    }
    if mode == PermissionMode::BypassPermissions {
        let ungranted = matches.uncovered.iter().find(|effect| case.needs_grant(**effect));
        return match ungranted.filter(|_| allowed.is_none()) {
            Some(effect) => {
                let place = describe_outside(case, *effect);
                let text = place.unwrap_or_else(|| format!("it {}", case.subject.show(*effect)));
                DecisionReason::new(DecisionSource::Grants, Verdict::Ask, text)
            }
            None => DecisionReason::new(DecisionSource::Mode, Verdict::Allow, "mode `bypassPermissions`"),
        };
    }
    let changed = case.places().filter(|(effect, _)| effect.touch == EffectKind::Writes);
    if let Some(folder) = repository_write(changed.flat_map(|(_, place)| both_paths(place))) {
        let text = format!(
            "it makes `{}` a repository or changes what git obeys in it, which decides what runs there; allow rules don't \
             cover that",
            folder.display()
        );
        return DecisionReason::new(DecisionSource::Protected, Verdict::Ask, text);
    }
    if let Some(name) = find_protected(inner, case) {
        let text = format!("it changes `{name}`, which decides what runs; allow rules don't cover that");
        // In `auto` the classifier may answer.
        let auto = mode == PermissionMode::Auto;
        let source = if auto { DecisionSource::Mode } else { DecisionSource::Protected };
        return DecisionReason::new(source, Verdict::Ask, text);
    }
    if let Some((path, why)) = &case.failed {
        let text = format!("nobody can say what `{}` is: {why}", path.display());
        return DecisionReason::new(DecisionSource::Effects, Verdict::Ask, text);
    }
    if let Some(reason) = allowed {
        return reason;
    }
    match explain_uncovered(mode, case, matches) {
        None if matches!(mode, PermissionMode::AcceptEdits | PermissionMode::Auto) => {
            DecisionReason::new(DecisionSource::Mode, Verdict::Allow, format!("mode `{mode}`"))
        }
        None => DecisionReason::new(DecisionSource::Effects, Verdict::Allow, "its effects"),
        Some(text) => inner
            .unasked
            .covers(mode, case, matches)
            .unwrap_or_else(|| DecisionReason::new(DecisionSource::Effects, Verdict::Ask, text)),
    }
}

/// Returns why the mode denies a call even if a rule asks for it; `uncovered` are the effects that no allow
/// rule covers. The caller handles that `dontAsk` denies every ask.
pub(super) fn mode_denial(
    mode: PermissionMode,
    case: &CallAnalysis<'_>,
    uncovered: impl FnOnce() -> Vec<EffectRef>,
) -> Option<DecisionReason> {
    if mode != PermissionMode::Plan {
        return None;
    }
    let outside = || uncovered().into_iter().find_map(|effect| describe_outside(case, effect));
    find_unplanned(case).or_else(outside).map(|message| {
        DecisionReason::new(DecisionSource::Mode, Verdict::Deny, "mode `plan`").with_message(message)
    })
}

/// Describes an effect outside of the working directories.
pub(super) fn describe_outside(case: &CallAnalysis<'_>, effect: EffectRef) -> Option<String> {
    let place = case.place(effect).filter(|place| !case.is_inside(effect.touch, place))?;
    Some(format!("it touches `{}`, outside of the working directories", place.given.display()))
}

/// Returns why an uncovered call doesn't run without asking.
fn explain_uncovered(mode: PermissionMode, case: &CallAnalysis<'_>, matches: &RuleMatches) -> Option<String> {
    if case.subject.open {
        return Some("nothing is known of what it touches".into());
    }
    // If a rule allows a command that isn't understood, the prompt is about the effects that the rule
    // doesn't grant.
    let runs = matches.uncovered.iter().any(|effect| effect.touch == EffectKind::Runs);
    let granted = case.commands.is_empty() || runs || matches.uncovered.is_empty();
    if let Some(doubt) = case.doubts().first().filter(|_| granted) {
        return Some(not_understood(doubt));
    }
    let first = matches.uncovered.iter().find_map(|effect| explain_effect(mode, case, *effect));
    if first.is_some() {
        return first;
    }
    if case.child && !case.held {
        return Some(NOT_CONFINED.into());
    }
    let changed = case.declared.state.iter().find(|state| state.access == AccessKind::Change);
    if let Some(state) = changed {
        return Some(format!("it changes {state}"));
    }
    (case.commands.is_empty() && case.effect_class.asks == ApprovalNeed::Always)
        .then(|| "nothing is known of what it touches".into())
}

fn not_understood(doubt: &str) -> String {
    format!("the command is not understood: {doubt}")
}

const NOT_CONFINED: &str = "what it declares is only believed, as nothing confines the program that it runs";

/// Returns why one uncovered effect doesn't run without asking.
fn explain_effect(mode: PermissionMode, case: &CallAnalysis<'_>, effect: EffectRef) -> Option<String> {
    let edits = matches!(mode, PermissionMode::AcceptEdits | PermissionMode::Auto);
    match effect.touch {
        EffectKind::Call => None,
        EffectKind::Anything => Some("nothing is known of what it touches".into()),
        EffectKind::Runs => {
            let at = effect.command?;
            explain_command(mode, case, at)
                .map(|why| format!("no rule allows `{}`{why}", show_command(case, at)))
        }
        EffectKind::Reaches => Some(format!("it {}", case.subject.show(effect))),
        EffectKind::Reads | EffectKind::Writes | EffectKind::Deletes => {
            case.place(effect)?;
            if let Some(words) = describe_outside(case, effect) {
                return Some(words);
            }
            let is_edit = match effect.command {
                Some(command) => is_editor(mode, case, command),
                // A file tool, or the redirection of a command line.
                None => mode == PermissionMode::AcceptEdits || case.commands.is_empty(),
            };
            match effect.touch {
                EffectKind::Reads => None,
                _ if edits && case.subject.enforced && is_edit => None,
                _ => Some(format!("it {}", case.subject.show(effect))),
            }
        }
    }
}

/// Returns why a command doesn't run without asking; empty text if there is nothing to add.
fn explain_command(mode: PermissionMode, case: &CallAnalysis<'_>, at: usize) -> Option<String> {
    let (command, found) = (&case.subject.commands[at], case.commands.get(at));
    // Whatever a command starts, it needs no rule if everything it does is read-only.
    if let Some(why) = found.and_then(|found| found.exact_only).filter(|_| !command.read_only) {
        return Some(format!(", which {why}; only an exact rule allows it"));
    }
    let alone = command.read_only || is_editor(mode, case, at);
    match (alone, case.held) {
        (true, true) => None,
        (true, false) if command.read_only => Some(", which only looks, but nothing confines it".to_owned()),
        _ => Some(found.and_then(told_by_repository).map_or(String::new(), |why| format!(", which {why}"))),
    }
}

/// Returns why a read-only command may run a program that the configuration of a repository names.
fn told_by_repository(found: &SubCommand) -> Option<&str> {
    found.read_only.as_ref().err().filter(|_| !found.looks_at.is_empty()).map(String::as_str)
}

/// Returns whether a command counts as an edit and all its effects are known. In `auto` the sandbox or the
/// classifier decides about commands.
fn is_editor(mode: PermissionMode, case: &CallAnalysis<'_>, at: usize) -> bool {
    if mode != PermissionMode::AcceptEdits {
        return false;
    }
    case.commands.get(at).is_some_and(|command| {
        let known = command.effects.as_ref().is_some_and(|effects| !effects.unknown);
        // A wrapper doesn't matter here; another way of starting a program may.
        let direct = command.layers.iter().all(|layer| layer.started != haft_shell::StartMethod::Executed);
        known && direct && command.program().is_some_and(|name| EDITORS.contains(&name))
    })
}

fn show_command(case: &CallAnalysis<'_>, at: usize) -> String {
    let text = case.commands.get(at).map_or("", |command| &*command.text);
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
    line
}

/// Prefixes of the names of state that a plan may change: it ends with the session, or with the program
/// that holds it.
const PASSING: &[&str] = &["session:", "mcp:", "browser"];

/// Returns the first effect that the plan mode doesn't permit yet.
fn find_unplanned(case: &CallAnalysis<'_>) -> Option<String> {
    let changed = case.places().find(|(effect, _)| effect.touch != EffectKind::Reads);
    if let Some((effect, _)) = changed {
        let what = case.subject.show(effect);
        return Some(format!("it {what}, and nothing is changed before the plan was approved"));
    }
    let reach = case.declared.reaches.iter().find(|reach| reach.access == AccessKind::Change);
    if let Some(reach) = reach {
        return Some(format!(
            "it changes {}, and nothing is changed before the plan was approved",
            reach.host
        ));
    }
    let lasting = |resource: &str| !PASSING.iter().any(|passing| resource.starts_with(passing));
    let mut changed = case.declared.state.iter().filter(|state| state.access == AccessKind::Change);
    if let Some(state) = changed.find(|state| lasting(&state.resource)) {
        return Some(format!("it changes {state}, and nothing is changed before the plan was approved"));
    }
    if let Some(doubt) = case.doubts().first() {
        return Some(not_understood(doubt));
    }
    if case.subject.open {
        return Some(
            "nobody knows that it only looks, and nothing is changed before the plan was approved \
             (`effects` in the settings can say what it touches)"
                .to_owned(),
        );
    }
    let at = case.subject.commands.iter().position(|command| !command.read_only)?;
    let command = show_command(case, at);
    Some(format!(
        "nobody knows that `{command}` only looks, and nothing is changed before the plan was approved"
    ))
}

/// Returns the name of a changed protected file, one that decides which programs run.
fn find_protected(inner: &PolicyInner, case: &CallAnalysis<'_>) -> Option<String> {
    let changed = case.places().filter(|(effect, _)| effect.touch != EffectKind::Reads);
    for (_, place) in changed {
        for path in both_paths(place) {
            if let Some(PathProtection::Ask(name)) = inner.protected.judge(path) {
                return Some(name);
            }
        }
    }
    None
}
