//! The layout of a repository: which names git writes in ordinary work, which it obeys, and which make a
//! folder a repository.
//!
//! Git obeys many names in its folders, and new versions add more. So the list contains the names that
//! commands may create, change and remove, and every other name is held. The same list applies to every
//! folder that git treats as its own: `.git`, `modules/**`, `worktrees/*`, `worktrees/*/modules/**`.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// The role of a folder for git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// The administrative folder of a repository.
    Git,
    /// The administrative folder of a worktree.
    Worktree,
    /// `modules`, and the folders in it that only group others.
    Modules,
    /// `worktrees`.
    Worktrees,
    /// A bare repository: a folder that may also contain other files. Only the names that git obeys are
    /// held.
    Bare,
}

impl FolderKind {
    const LETTERS: [(FolderKind, u8); 5] = [
        (FolderKind::Git, b'g'),
        (FolderKind::Worktree, b't'),
        (FolderKind::Modules, b'm'),
        (FolderKind::Worktrees, b'l'),
        (FolderKind::Bare, b'b'),
    ];

    /// Returns the letter that stands for the kind in records.
    pub fn letter(self) -> u8 {
        FolderKind::LETTERS.iter().find(|(kind, _)| *kind == self).map_or(b'?', |(_, letter)| *letter)
    }

    /// Returns the kind with this letter.
    pub fn from_letter(letter: u8) -> Option<FolderKind> {
        FolderKind::LETTERS.iter().find(|(_, known)| *known == letter).map(|(kind, _)| *kind)
    }
}

/// Names in an administrative folder that commands may create, change and remove.
const FREE: [&str; 29] = [
    "ADD_EDIT.patch",
    "AUTO_MERGE",
    "BISECT_ANCESTORS_OK",
    "BISECT_EXPECTED_REV",
    "BISECT_FIRST_PARENT",
    "BISECT_LOG",
    "BISECT_NAMES",
    "BISECT_RUN",
    "BISECT_START",
    "BISECT_TERMS",
    "COMMIT_EDITMSG",
    "EDIT_DESCRIPTION",
    "HEAD",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_RR",
    "NOTES_MERGE_PARTIAL",
    "NOTES_MERGE_REF",
    "NOTES_MERGE_WORKTREE",
    "REPLACE_EDITOBJ",
    "addp-hunk-edit.diff",
    "gc.log",
    "gc.pid",
    "index",
    "info",
    "locked",
    "logs",
    "refs",
    "reftable",
];
/// The same for the administrative folder of a repository, but not of a worktree.
const FREE_IN_GIT: [&str; 8] =
    ["description", "filter-repo", "lfs", "objects", "packed-refs", "packed-refs.new", "rr-cache", "shallow"];
/// Prefixes and suffixes of such names.
const FREE_BEGINS: [&str; 5] = ["fast_import_crash_", "index.", "next-index-", "sharedindex.", "shallow_"];
const FREE_ENDS: [&str; 4] = [".lock", "_HEAD", "_MSG", "_EDITMSG"];
/// The marker in the names of files that were moved aside, and that nothing obeys.
pub const ASIDE: &str = ".undone-";

/// Held names that git obeys in any of its folders.
pub const OBEYED: [&str; 5] = ["config", "hooks", "config.worktree", "commondir", "gitdir"];
/// Files by any of which git recognizes an administrative folder, or a careful reader the remains of one.
pub const MARKS: [&str; 6] = ["HEAD", "config", "commondir", "config.worktree", "packed-refs", "index"];

/// Folders of git that are searched for symlinks, and how deep: git writes to the targets of these.
pub const WRITTEN_FOLDERS: [(&str, usize); 11] = [
    ("info", 4),
    ("lfs", 1),
    ("logs", 32),
    ("NOTES_MERGE_WORKTREE", 8),
    ("objects", 2),
    ("rebase-apply", 1),
    ("rebase-merge", 4),
    ("refs", 32),
    ("reftable", 1),
    ("rr-cache", 2),
    ("sequencer", 1),
];
/// Names that may be symlinks in a repository that shares them with another one (`git new-workdir`).
const SHARED: [&str; 8] =
    ["info", "lfs", "logs/refs", "objects", "packed-refs", "refs", "reftable", "rr-cache"];

/// Returns whether commands may create and change a name in a folder of git.
pub fn is_free(kind: FolderKind, name: &str) -> bool {
    if kind == FolderKind::Bare {
        return !OBEYED.contains(&name) && !matches!(name, "modules" | "worktrees");
    }
    FREE.contains(&name)
        || kind == FolderKind::Git && FREE_IN_GIT.contains(&name)
        || FREE_BEGINS.iter().any(|begin| name.starts_with(begin))
        || FREE_ENDS.iter().any(|end| name.ends_with(end))
        || name.contains(ASIDE)
}

/// Returns whether git certainly obeys a name in its folders.
pub fn is_obeyed(name: &OsStr) -> bool {
    OBEYED.iter().any(|obeyed| name == *obeyed)
}

/// Returns whether a symlink is a `HEAD` as old versions of git create it.
pub fn is_symbolic_head(path: &Path, target: &Path) -> bool {
    let plain = target.components().all(|part| matches!(part, Component::Normal(_)));
    path.file_name() == Some(OsStr::new("HEAD")) && plain && target.starts_with("refs/heads")
}

/// Returns whether a name in an administrative folder may be a symlink to that of another one.
pub fn may_be_shared(path: &Path) -> bool {
    SHARED.iter().any(|shared| path.ends_with(shared))
}

/// Returns whether git accepts this as the content of `HEAD`.
pub fn is_head(bytes: &[u8]) -> bool {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if let Some(name) = text.strip_prefix(b"ref:") {
        return name.trim_ascii_start().starts_with(b"refs/");
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits == 40 || digits == 64
}

/// The names that make a folder a repository: `HEAD` next to `commondir`, or next to `objects` and `refs`.
pub const REPOSITORY_NAMES: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];

/// Returns whether a folder with these names is a repository, whatever they are: `HEAD` may be a dangling
/// symlink, and `objects` a file. Some version of git accepts it, or will accept it once one more file is
/// written.
pub fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

/// Returns whether the folder of a bare repository is where another repository keeps submodules and
/// worktrees.
pub fn is_part_of(folder: &Path, other: &Path) -> bool {
    let first = folder.strip_prefix(other).ok().and_then(|rest| rest.iter().next());
    first.is_some_and(|first| first == "modules" || first == "worktrees")
}

/// Returns the path in a file of an administrative folder: everything but the trailing newlines. Any other
/// reading would name another location.
pub fn path_in(text: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let path = &text[..=end];
    (!path.contains(&0)).then(|| Path::new(OsStr::from_bytes(path)))
}

/// Returns the path that a `.git` file names.
pub fn gitdir_in(text: &[u8]) -> Option<&Path> {
    path_in(text.strip_prefix(b"gitdir: ")?)
}

/// Returns the common folder of a worktree's folder, by its name: `COMMON/worktrees/NAME`.
pub fn common_folder(worktree: &Path) -> Option<&Path> {
    let worktrees = worktree.parent()?;
    (worktrees.file_name()? == "worktrees").then(|| worktrees.parent())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_known_by_its_names() {
        for (names, is) in [
            ("HEAD objects refs", true),
            ("HEAD commondir", true),
            ("HEAD objects", false),
            ("HEAD refs config hooks", false),
            ("objects refs commondir", false),
            ("", false),
        ] {
            assert_eq!(is_repository(|name| names.split(' ').any(|known| known == name)), is, "{names}");
        }
    }

    #[test]
    fn names_that_git_obeys_are_never_free() {
        for name in OBEYED.into_iter().chain(["modules", "worktrees", "branches", "remotes", "unheard-of"]) {
            assert!(!is_free(FolderKind::Git, name) && !is_free(FolderKind::Worktree, name), "{name}");
        }
        for name in ["index", "index.lock", "config.lock", "ORIG_HEAD", "MERGE_MSG", "logs", "refs"] {
            assert!(is_free(FolderKind::Git, name) && is_free(FolderKind::Worktree, name), "{name}");
        }
        assert!(is_free(FolderKind::Git, "objects") && !is_free(FolderKind::Worktree, "objects"));
        assert!(
            is_free(FolderKind::Bare, "README") && OBEYED.iter().all(|name| !is_free(FolderKind::Bare, name))
        );
    }

    #[test]
    fn files_of_an_administration_are_read_as_git_reads_them() {
        for (text, is) in
            [("ref: refs/heads/x", true), (&"a".repeat(40), true), ("ref: x", false), ("", false)]
        {
            assert_eq!(is_head(text.as_bytes()), is, "{text}");
        }
        for (text, path) in [
            ("gitdir: ../a b/.git\r\n\n", Some("../a b/.git")),
            ("gitdir: /x\n/y", Some("/x\n/y")),
            ("gitdir:/x", None),
            ("gitdir: \n", None),
            ("gitdir: /x\0\n", None),
        ] {
            assert_eq!(gitdir_in(text.as_bytes()), path.map(Path::new), "{text:?}");
        }
        assert_eq!(common_folder(Path::new("/w/.git/worktrees/a")), Some(Path::new("/w/.git")));
        assert_eq!(common_folder(Path::new("/w/.git/modules/a")), None);
        assert!(is_symbolic_head(Path::new("/w/.git/HEAD"), Path::new("refs/heads/main")));
        for to in ["refs/heads/../../config", "/refs/heads/x", "config"] {
            assert!(!is_symbolic_head(Path::new("/w/.git/HEAD"), Path::new(to)));
        }
        assert!(
            may_be_shared(Path::new("/w/.git/logs/refs")) && !may_be_shared(Path::new("/w/.git/logs/HEAD"))
        );
    }
}
