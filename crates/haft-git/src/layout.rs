//! How a repository is laid out: which names git writes in ordinary work, which it obeys, and what makes a folder a
//! repository.
//!
//! git obeys more names in its folders than anybody remembers, and learns new ones. So the list says which of them commands
//! may make, change and remove. Every other name is held. The same list counts in every folder that git takes for one of
//! its own: `.git`, `modules/**`, `worktrees/*`, `worktrees/*/modules/**`.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// What a folder is to git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderKind {
    /// The administration of a repository.
    Git,
    /// What a worktree has of its own.
    Worktree,
    /// `modules`, and folders in it that only group others.
    Modules,
    /// `worktrees`.
    Worktrees,
    /// A bare repository: a folder that may hold any other files as well, of which only those that git obeys are held.
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

    /// The letter by which records name it.
    pub fn letter(self) -> u8 {
        FolderKind::LETTERS.iter().find(|(kind, _)| *kind == self).map_or(b'?', |(_, letter)| *letter)
    }

    /// The kind with this letter.
    pub fn from_letter(letter: u8) -> Option<FolderKind> {
        FolderKind::LETTERS.iter().find(|(_, known)| *known == letter).map(|(kind, _)| *kind)
    }
}

/// Names of one administration that commands may make, change and remove.
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
/// The same where it is a repository, and not only a worktree of one.
const FREE_IN_GIT: [&str; 8] =
    ["description", "filter-repo", "lfs", "objects", "packed-refs", "packed-refs.new", "rr-cache", "shallow"];
/// How such names begin and end.
const FREE_BEGINS: [&str; 5] = ["fast_import_crash_", "index.", "next-index-", "sharedindex.", "shallow_"];
const FREE_ENDS: [&str; 4] = [".lock", "_HEAD", "_MSG", "_EDITMSG"];
/// What a name holds that was put aside, and that nothing obeys.
pub const ASIDE: &str = ".undone-";

/// Held names that git obeys wherever they are.
pub const OBEYED: [&str; 5] = ["config", "hooks", "config.worktree", "commondir", "gitdir"];
/// Files by one of which git knows an administration, or a careful reader the rest of one.
pub const MARKS: [&str; 6] = ["HEAD", "config", "commondir", "config.worktree", "packed-refs", "index"];

/// Folders of git whose names are looked at for symlinks, and how deep: git writes where these lead.
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
/// What may be symlinks in a repository that shares these with another one (`git new-workdir`).
const SHARED: [&str; 8] =
    ["info", "lfs", "logs/refs", "objects", "packed-refs", "refs", "reftable", "rr-cache"];

/// Whether commands may make a name in a folder of git and change it.
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

/// Whether git obeys a name in its folders for certain.
pub fn is_obeyed(name: &OsStr) -> bool {
    OBEYED.iter().any(|obeyed| name == *obeyed)
}

/// Whether a symlink is what old versions of git make of `HEAD`.
pub fn is_symbolic_head(path: &Path, target: &Path) -> bool {
    let plain = target.components().all(|part| matches!(part, Component::Normal(_)));
    path.file_name() == Some(OsStr::new("HEAD")) && plain && target.starts_with("refs/heads")
}

/// Whether a name in an administration may be a symlink to that of another one.
pub fn may_be_shared(path: &Path) -> bool {
    SHARED.iter().any(|shared| path.ends_with(shared))
}

/// Whether git takes this for the content of `HEAD`.
pub fn is_head(bytes: &[u8]) -> bool {
    let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if let Some(name) = text.strip_prefix(b"ref:") {
        return name.trim_ascii_start().starts_with(b"refs/");
    }
    let digits = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    digits == 40 || digits == 64
}

/// The names that make a folder a repository: `HEAD` beside `commondir`, or beside `objects` and `refs`.
pub const REPOSITORY_NAMES: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];

/// Whether a folder with these names is a repository, whatever is behind them: `HEAD` may be a symlink that leads nowhere,
/// and `objects` a file. Some version of git takes it for one, or will when one more file is written.
pub fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

/// Whether the folder of a bare repository lies where that of another one keeps submodules and worktrees.
pub fn is_part_of(folder: &Path, other: &Path) -> bool {
    let first = folder.strip_prefix(other).ok().and_then(|rest| rest.iter().next());
    first.is_some_and(|first| first == "modules" || first == "worktrees")
}

/// The path in a file of an administration: everything but the ends of lines behind it. Another reading would look at
/// another place.
pub fn path_in(text: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let path = &text[..=end];
    (!path.contains(&0)).then(|| Path::new(OsStr::from_bytes(path)))
}

/// The path that a `.git` file names.
pub fn gitdir_in(text: &[u8]) -> Option<&Path> {
    path_in(text.strip_prefix(b"gitdir: ")?)
}

/// The common folder of a worktree's folder, by its name: `COMMON/worktrees/NAME`.
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
