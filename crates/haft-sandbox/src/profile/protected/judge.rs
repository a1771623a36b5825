//! Whether a change of a protected name stays. No disk, no git: what is known comes with the question.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use haft_git::{ConfigEntry, config};

use super::snapshot::LeafContent;

/// A protected path that is not what it was before the command.
#[derive(Clone, Debug)]
pub(super) struct NameChange<'a> {
    pub(super) path: &'a Path,
    pub(super) before: Option<&'a LeafContent>,
    pub(super) now: Option<&'a LeafContent>,
}

/// What is known of contents, each under its path.
#[derive(Debug, Default)]
pub(super) struct KnownContents {
    /// In a commit that was reachable when the session began, or the user's.
    pub(super) accepted: BTreeSet<(PathBuf, LeafContent)>,
    /// Kept by git, so that nothing is lost with the file.
    pub(super) stored: BTreeSet<(PathBuf, LeafContent)>,
}

/// Keys of `.gitmodules` that `git submodule add` writes. They say where a submodule comes from and never
/// what runs.
const MODULE_KEYS: [&str; 7] =
    ["path", "url", "branch", "active", "shallow", "ignore", "fetchrecursesubmodules"];

/// Whether a change stays.
pub(super) fn change_stays(change: &NameChange<'_>, known: &KnownContents) -> bool {
    let is_in = |contents: &BTreeSet<(PathBuf, LeafContent)>, content: &LeafContent| {
        contents.contains(&(change.path.to_owned(), content.clone()))
    };
    match (change.before, change.now) {
        (_, Some(now)) => is_harmless(change.path, now) || is_in(&known.accepted, now),
        (Some(before), None) => is_in(&known.stored, before),
        (None, None) => true,
    }
}

/// Whether content runs nothing, whoever wrote it.
pub(super) fn is_harmless(path: &Path, content: &LeafContent) -> bool {
    let LeafContent::File { bytes, .. } = content else { return false };
    if !path.ends_with(".gitmodules") {
        return false;
    }
    let runs_helper = |url: &str| url.contains("::") || url.starts_with('-');
    let is_plain = |entry: &ConfigEntry| {
        let is_module = entry.section == "submodule" && entry.sub.is_some();
        let value = entry.value.as_deref().unwrap_or_default();
        is_module && MODULE_KEYS.contains(&&*entry.key) && !(entry.key == "url" && runs_helper(value))
    };
    config::parse(bytes).is_ok_and(|entries| entries.iter().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> LeafContent {
        LeafContent::File { bytes: text.as_bytes().into(), executable: false }
    }

    fn known() -> KnownContents {
        let envrc = |content: LeafContent| BTreeSet::from([("/w/.envrc".into(), content)]);
        KnownContents { accepted: envrc(content("known")), stored: envrc(content("stored")) }
    }

    fn check(path: &str, before: Option<&str>, now: Option<&str>) -> bool {
        let (before, now) = (before.map(content), now.map(content));
        change_stays(
            &NameChange { path: Path::new(path), before: before.as_ref(), now: now.as_ref() },
            &known(),
        )
    }

    #[test]
    fn known_content_stays_and_nothing_is_lost() {
        for before in [None, Some("x"), Some("stored")] {
            assert!(check("/w/.envrc", before, Some("known")));
            assert!(!check("/w/.envrc", before, Some("evil")));
        }
        assert!(check("/w/.envrc", Some("stored"), None));
        assert!(!check("/w/.envrc", Some("x"), None));
        assert!(!check("/w/.mcp.json", None, Some("known")), "known under another path");
        let other = NameChange { path: Path::new("/w/.envrc"), before: None, now: Some(&LeafContent::Other) };
        assert!(!change_stays(&other, &known()));
    }

    #[test]
    fn modules_may_come_from_anywhere_and_run_nothing() {
        let module = |more: &str| format!("[submodule \"a.b\"]\n\tpath = lib\n\turl = ../lib\n{more}");
        assert!(check("/w/.gitmodules", None, Some(&module("\tbranch = main\n"))));
        for more in
            ["\tupdate = !evil\n", "\turl = ext::sh -c evil\n", "\turl = -u./evil\n", "[core]\n\tpager = x\n"]
        {
            assert!(!check("/w/.gitmodules", None, Some(&module(more))), "{more}");
        }
        assert!(!check("/w/.envrc", None, Some(&module(""))));
    }
}
