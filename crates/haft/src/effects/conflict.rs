//! When two calls must not run at once, by what they touch.
//!
//! Two calls conflict if one changes what the other touches: the same path or one above the other (as named or as it
//! really is, or the same file under two names), the same state resource, the same host, the user. Unknown conflicts
//! with everything. The outcome of running only non-conflicting calls at once equals running them in order.

mod index;

use std::path::{Path, PathBuf};

use super::resolved::{Resolved, ResolvedPath};
use super::table::{Class, Facts};
use super::{Access, Effects, Extent};
use crate::files::resolve::has_parent;
use crate::files::{FileId, beneath};

pub(crate) use index::Index;

/// What a call touches, in the form that conflicts are found by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Touch {
    /// Conflicts with everything.
    everything: bool,
    reads: Vec<Spot>,
    changes: Vec<Spot>,
    named: Vec<(Name, Access)>,
    /// Calls of the tool with this number synchronise among themselves.
    synchronised_by: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Spot {
    /// The same place under each of its names: given, real, and the links on the way.
    names: Vec<PathBuf>,
    /// Which file it is, if it exists; two names of one file share it.
    file: Option<FileId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    State(String),
    Host(String),
    User,
}

impl Touch {
    /// `tool` is the number of the tool, for writes that it synchronises itself.
    pub(crate) fn of(resolved: &Resolved, tool: u64, confined: bool) -> Touch {
        let effects = &resolved.declared;
        let facts = Facts { confined, ..Facts::unresolved() };
        let judgement = effects.judge(&facts);
        if judgement.class == Class::Unsafe || resolved.failed.is_some() {
            return Touch { everything: true, ..Touch::default() };
        }
        // A call that must be alone although its effects overlap with nothing. And one that goes back over a link: where
        // it comes out is where the link leads, and when the link is gone it is a place that has none of its names.
        let paths = || resolved.reads.iter().chain(&resolved.writes).chain(&resolved.deletes);
        let goes_back = goes_back(effects) && paths().any(|path| !path.at.links_on_the_way.is_empty());
        // A file with several names lies in folders that nobody named: whoever writes it, or a whole folder, may meet
        // a call that reads the same file by another way.
        let several_names = |path: &ResolvedPath| !path.at.is_dir && path.at.links > 1;
        let anywhere =
            resolved.writes.iter().any(|path| several_names(path) || path.extent == Extent::Subtree);
        let alone = effects.claims.concurrency_safe == Some(false) || goes_back || anywhere;
        let spots = |paths: &[ResolvedPath]| paths.iter().map(Spot::of).collect::<Vec<_>>();
        let mut changes = spots(&resolved.writes);
        changes.extend(spots(&resolved.deletes));
        let mut named = Vec::new();
        collect(effects, &mut named);
        let synchronised = effects.claims.concurrency_safe == Some(true);
        Touch {
            everything: alone,
            reads: spots(&resolved.reads),
            changes,
            named,
            synchronised_by: synchronised.then_some(tool),
        }
    }

    /// Touches anything at all.
    pub(crate) fn everything() -> Touch {
        Touch { everything: true, ..Touch::default() }
    }

    /// Whether it conflicts with all others.
    pub(crate) fn is_everything(&self) -> bool {
        self.everything
    }

    pub(crate) fn conflicts(&self, other: &Touch) -> bool {
        if self.everything || other.everything {
            return true;
        }
        if self.synchronised_by.is_some() && self.synchronised_by == other.synchronised_by {
            return false;
        }
        overlap(&self.changes, &other.changes)
            || overlap(&self.changes, &other.reads)
            || overlap(&self.reads, &other.changes)
            || self.named.iter().any(|(name, access)| {
                other.named.iter().any(|(other, theirs)| {
                    name == other && (*access == Access::Change || *theirs == Access::Change)
                })
            })
    }

    /// Whether this touches more than `before` did.
    pub(crate) fn wider_than(&self, before: &Touch) -> bool {
        self != before && !before.everything
    }

    /// Only what is changed, for the locks that serialise writers across agents.
    pub(crate) fn only_changes(&self) -> Touch {
        Touch { reads: Vec::new(), named: Vec::new(), ..self.clone() }
    }
}

/// Whether a path has a `..` in it.
fn goes_back(effects: &Effects) -> bool {
    let inner = effects.runs.iter().filter_map(|command| command.effects.as_deref());
    let paths = effects.reads.iter().chain(&effects.writes).chain(&effects.deletes);
    paths.into_iter().any(|set| has_parent(&set.path)) || inner.into_iter().any(goes_back)
}

fn collect(effects: &Effects, named: &mut Vec<(Name, Access)>) {
    named.extend(effects.state.iter().map(|state| (Name::State(state.resource.to_string()), state.access)));
    named.extend(
        effects.reaches.iter().map(|reach| (Name::Host(reach.host.to_ascii_lowercase()), reach.access)),
    );
    if effects.asks_user {
        named.push((Name::User, Access::Change));
    }
    for inner in effects.runs.iter().filter_map(|command| command.effects.as_deref()) {
        collect(inner, named);
    }
}

impl Spot {
    fn of(path: &ResolvedPath) -> Spot {
        let at = &path.at;
        let mut names = at.links_on_the_way.clone();
        if at.given != at.real {
            names.push(at.given.clone());
        }
        names.push(at.real.clone());
        // A folder's identity says nothing beyond its path: hard links are for files.
        Spot { names, file: (at.exists && !at.is_dir && at.links > 1).then_some(at.anchor) }
    }

    fn meets(&self, other: &Spot) -> bool {
        if self.file.is_some() && self.file == other.file {
            return true;
        }
        let related = |a: &Path, b: &Path| beneath(a, b) || beneath(b, a);
        self.names.iter().any(|mine| other.names.iter().any(|theirs| related(mine, theirs)))
    }
}

fn overlap(changes: &[Spot], touched: &[Spot]) -> bool {
    changes.iter().any(|change| touched.iter().any(|spot| change.meets(spot)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn touch(dir: &Path, effects: Effects) -> Touch {
        Touch::of(&Resolved::resolve(Arc::new(effects), dir), 1, false)
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
            let (a, b) = (touch(dir, a), touch(dir, b));
            assert_eq!(a.conflicts(&b), expected, "{words}");
            assert_eq!(b.conflicts(&a), expected, "{words}, the other way");
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
