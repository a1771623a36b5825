//! Turns resolved effects into the conflict keys of the scheduler.
//!
//! Unknown effects conflict with everything. A path is listed under each of its names: as given, as resolved,
//! and the symlinks in between, so that two spellings of one place meet.

use haft_scheduler::{ConflictKeys, FileKey, KeySet, PathKey};

use super::resolved::{ResolvedEffects, ResolvedPath};
use super::table::{ConcurrencyClass, EffectFacts};
use super::{AccessKind, Effects, RootExtent};
use crate::files::resolve::has_parent;

/// Returns the conflict keys of a call. `tool` is the number of its tool, for writes that the tool
/// synchronizes itself.
pub(crate) fn conflict_keys(resolved: &ResolvedEffects, tool: u64, confined: bool) -> ConflictKeys {
    let effects = &resolved.declared;
    let judgement = effects.judge(&EffectFacts { confined, ..EffectFacts::unresolved() });
    if judgement.class == ConcurrencyClass::Unsafe || resolved.failed.is_some() {
        return ConflictKeys::exclusive();
    }
    let mut reads = KeySet { paths: path_keys(&resolved.reads), ..KeySet::default() };
    let mut changes = KeySet { paths: path_keys(&resolved.writes), ..KeySet::default() };
    changes.paths.extend(path_keys(&resolved.deletes));
    add_resources(effects, &mut reads, &mut changes);
    let is_synchronized = effects.claims.concurrency_safe == Some(true);
    ConflictKeys {
        exclusive: effects.claims.concurrency_safe == Some(false)
            || has_ambiguous_path(resolved)
            || may_write_hard_links(resolved),
        reads,
        changes,
        synchronized_by: is_synchronized.then_some(tool),
    }
}

/// Returns whether a path goes through a symlink and has a `..`: it leads where the symlink points, and to a
/// place that has none of these names once the symlink is gone.
fn has_ambiguous_path(resolved: &ResolvedEffects) -> bool {
    let mut paths = resolved.reads.iter().chain(&resolved.writes).chain(&resolved.deletes);
    names_parent(&resolved.declared) && paths.any(|path| !path.at.links_on_the_way.is_empty())
}

/// Returns whether the call may change a file under a name that it doesn't list: a hard-linked file also has
/// names in other directories, and a subtree may contain such files.
fn may_write_hard_links(resolved: &ResolvedEffects) -> bool {
    let is_hard_linked = |path: &ResolvedPath| !path.at.is_dir && path.at.links > 1;
    resolved.writes.iter().any(|path| is_hard_linked(path) || path.extent == RootExtent::Subtree)
}

/// Returns whether a declared path has a `..` in it.
fn names_parent(effects: &Effects) -> bool {
    let mut inner = effects.runs.iter().filter_map(|command| command.effects.as_deref());
    let mut paths = effects.reads.iter().chain(&effects.writes).chain(&effects.deletes);
    paths.any(|set| has_parent(&set.path)) || inner.any(names_parent)
}

/// Adds the named resources of a declaration and of the commands in it.
fn add_resources(effects: &Effects, reads: &mut KeySet, changes: &mut KeySet) {
    let mut add = |access: AccessKind, name: String| match access {
        AccessKind::Observe => reads.resources.push(name),
        AccessKind::Change => changes.resources.push(name),
    };
    for state in &effects.state {
        add(state.access, format!("state:{}", state.resource));
    }
    for reach in &effects.reaches {
        add(reach.access, format!("host:{}", reach.host.to_ascii_lowercase()));
    }
    if effects.asks_user {
        add(AccessKind::Change, "user".to_owned());
    }
    for inner in effects.runs.iter().filter_map(|command| command.effects.as_deref()) {
        add_resources(inner, reads, changes);
    }
}

fn path_keys(paths: &[ResolvedPath]) -> Vec<PathKey> {
    paths.iter().map(path_key).collect()
}

fn path_key(path: &ResolvedPath) -> PathKey {
    let at = &path.at;
    let mut names = at.links_on_the_way.clone();
    if at.given != at.real {
        names.push(at.given.clone());
    }
    names.push(at.real.clone());
    // Only files have hard links; the identity of a directory adds nothing to its path.
    let is_shared = at.exists && !at.is_dir && at.links > 1;
    PathKey { names, file: is_shared.then_some(FileKey(at.anchor.device, at.anchor.inode)) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::files::PathTable;

    fn keys(dir: &Path, effects: Effects) -> ConflictKeys {
        conflict_keys(&ResolvedEffects::resolve(Arc::new(effects), dir, &PathTable::default()), 1, false)
    }

    #[test]
    fn conflicts_by_what_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        std::fs::create_dir(dir.join("d")).unwrap();
        std::fs::write(dir.join("d/f"), "").unwrap();
        std::fs::write(dir.join("d/p"), "").unwrap();
        std::fs::hard_link(dir.join("d/f"), dir.join("hard")).unwrap();
        std::os::unix::fs::symlink("d", dir.join("link")).unwrap();
        std::os::unix::fs::symlink("link", dir.join("far")).unwrap();
        let check = |a: Effects, b: Effects, expected: bool| {
            let words = format!("{a} | {b}");
            let (a, b) = (keys(dir, a), keys(dir, b));
            assert_eq!(a.conflicts_with(&b), expected, "{words}");
            assert_eq!(b.conflicts_with(&a), expected, "{words}, the other way");
        };
        check(Effects::reads("d/f"), Effects::reads("d/f"), false);
        check(Effects::reads("d/f"), Effects::writes("d/f"), true);
        check(Effects::writes("d/p"), Effects::writes("d/g"), false);
        check(Effects::writes("d"), Effects::reads("d/f"), true);
        check(Effects::reads_tree("d"), Effects::writes("d/new/deep"), true);
        check(Effects::writes("link/f"), Effects::reads("d/f"), true);
        check(Effects::deletes("link"), Effects::reads("link/f"), true);
        check(Effects::deletes("link"), Effects::reads("far/f"), true);
        check(Effects::writes("hard"), Effects::reads("d/f"), true);
        check(Effects::writes("hard"), Effects::reads_tree("d"), true);
        check(Effects::reads("hard"), Effects::writes_tree("d"), true);
        check(Effects::reads("hard"), Effects::reads_tree("d"), false);
        check(Effects::writes("dd"), Effects::reads("d/f"), false);
        check(Effects::writes("d/../x"), Effects::reads("y"), false);
        check(Effects::writes("link/../x"), Effects::reads("y"), true);
        check(Effects::unknown(), Effects::none(), true);
        check(Effects::runs("make"), Effects::none(), true);
        check(Effects::writes_state("a"), Effects::reads_state("a"), true);
        check(Effects::reads_state("a"), Effects::reads_state("a"), false);
        check(Effects::writes_state("a"), Effects::writes_state("b"), false);
        check(Effects::changes("H.io"), Effects::observes("h.io"), true);
        check(Effects::asks_user(), Effects::asks_user(), true);
        check(Effects::delegates(), Effects::writes("d/p"), false);
        check(Effects::writes("d/p").synchronised(), Effects::writes("d/p").synchronised(), false);
        check(Effects::writes("d/p").synchronised(), Effects::reads("d/p"), true);
        check(Effects::reads("d/f").exclusive(), Effects::none(), true);
    }
}
