//! State files of an interrupted rebase, cherry-pick or patch series, which git continues later.
//!
//! `git rebase --continue` runs every remaining `exec` line, and a merge strategy is a program. Commands
//! have to write these files, since they start and continue such operations themselves. So after a command,
//! lines that would run something are removed unless the user wrote them. Files that are not checked
//! contain nothing that runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::config;

/// Folders of git with such files.
pub const SEQUENCE_FOLDERS: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// Git's built-in strategies.
const STRATEGIES: [&str; 7] = ["ort", "recursive", "resolve", "octopus", "ours", "subtree", "recursive-ours"];
/// Harmless commands at the beginning of a line.
const PLAIN_LINES: [&str; 22] = [
    "pick",
    "p",
    "reword",
    "r",
    "edit",
    "e",
    "squash",
    "s",
    "fixup",
    "f",
    "drop",
    "d",
    "label",
    "l",
    "reset",
    "t",
    "merge",
    "m",
    "update-ref",
    "u",
    "noop",
    "revert",
];
/// Prefixes of harmless `git apply` options for patches.
const APPLY: [&str; 8] = [
    "-C",
    "-p",
    "--whitespace=",
    "--exclude=",
    "--include=",
    "--reject",
    "--ignore-space-change",
    "--ignore-whitespace",
];

/// The files of such a folder that are checked.
pub const JUDGED_FILES: [&str; 7] =
    ["git-rebase-todo", "git-rebase-todo.backup", "todo", "strategy", "opts", "author-script", "apply-opt"];

/// Checks a file. `before` are the user's versions of such files.
pub fn judge(path: &Path, now: &[u8], before: &[&[u8]]) -> JudgedFile {
    if before.contains(&now) {
        return JudgedFile::All;
    }
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let all_or_none = |good: bool| if good { JudgedFile::All } else { JudgedFile::Nothing };
    match name {
        "strategy" => all_or_none(text(now).is_some_and(|text| STRATEGIES.contains(&text.trim()))),
        "opts" => all_or_none(config::parse(now).is_ok_and(|entries| {
            entries.iter().all(|entry| {
                let value = entry.value.as_deref().unwrap_or_default();
                entry.section == "options" && (entry.key != "strategy" || STRATEGIES.contains(&value))
            })
        })),
        "author-script" => all_or_none(text(now).is_some_and(|text| text.lines().all(is_author))),
        "apply-opt" => all_or_none(text(now).is_some_and(|text| {
            let words = text.split_whitespace().map(|word| word.trim_matches('\''));
            words
                .filter(|word| !word.is_empty())
                .all(|word| APPLY.iter().any(|option| word.starts_with(option)))
        })),
        _ => lines(now, before),
    }
}

/// Which part of a file may stay.
#[derive(Debug, PartialEq, Eq)]
pub enum JudgedFile {
    /// All of it.
    All,
    /// This part. Contains the number of removed lines.
    Some(Vec<u8>, usize),
    /// Nothing.
    Nothing,
}

fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Returns whether a line is `GIT_AUTHOR_NAME='…'` as git writes it. Old versions of git let a shell parse
/// it.
fn is_author(line: &str) -> bool {
    let value = ["NAME", "EMAIL", "DATE"]
        .iter()
        .find_map(|key| line.strip_prefix("GIT_AUTHOR_")?.strip_prefix(key)?.strip_prefix('='));
    let Some(value) = value.and_then(|value| value.strip_prefix('\'')?.strip_suffix('\'')) else {
        return line.is_empty();
    };
    !value.replace("'\\''", "").replace("'\\!'", "").contains('\'')
}

/// Removes from a to-do list the lines that run something and that the user didn't write.
fn lines(now: &[u8], before: &[&[u8]]) -> JudgedFile {
    let had =
        |line: &[u8]| before.iter().any(|before| before.split(|byte| *byte == b'\n').any(|had| had == line));
    let (mut kept, mut out) = (Vec::new(), 0);
    for line in now.split_inclusive(|byte| *byte == b'\n') {
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let word = bare.trim_ascii_start().split(|byte| matches!(byte, b' ' | b'\t' | b'\r')).next();
        let word = word.unwrap_or_default();
        // A comment begins with the characters in `core.commentChar`, and every git command begins with a
        // letter.
        let plain = !word.first().is_some_and(u8::is_ascii_alphanumeric)
            || matches!(word, b"break" | b"b")
            || PLAIN_LINES.iter().any(|plain| plain.as_bytes() == word);
        if plain || had(bare) {
            kept.extend(line);
        } else {
            out += 1;
        }
    }
    if out == 0 { JudgedFile::All } else { JudgedFile::Some(kept, out) }
}

/// Returns the checked files in a folder of git, whether or not they exist.
pub fn judged_files(folder: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    JUDGED_FILES.iter().map(move |name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, now: &str) -> JudgedFile {
        judge(Path::new(name), now.as_bytes(), &[b"pick 1\nexec make test\n"])
    }

    #[test]
    fn what_runs_goes_and_the_rest_stays() {
        let todo = "pick 1 # x\n  exec evil\nx evil\n\texec make test\nexec make test\n# exec\n; exec\nrevert 2\nbreak\nfoo\nu refs/x";
        let kept = "pick 1 # x\nexec make test\n# exec\n; exec\nrevert 2\nbreak\nu refs/x";
        for name in ["git-rebase-todo", "todo"] {
            assert_eq!(judged(name, todo), JudgedFile::Some(kept.into(), 4));
        }
        for (name, good, bad) in [
            ("strategy", "ort\n", "x/../../evil"),
            ("opts", "[options]\n\tedit = true\n\tstrategy = ours\n", "[options]\n\tstrategy = x/y\n"),
            (
                "author-script",
                "GIT_AUTHOR_NAME='O'\\''x $(y)'\nGIT_AUTHOR_DATE='@1 +0'\n",
                "GIT_AUTHOR_NAME='a';evil\n",
            ),
            ("apply-opt", " '--whitespace=fix' '-p1'\n", " '--unsafe-paths'\n"),
        ] {
            assert_eq!(judged(name, good), JudgedFile::All, "{name}");
            assert_eq!(judged(name, bad), JudgedFile::Nothing, "{name}");
        }
        assert_eq!(judged("strategy", "pick 1\nexec make test\n"), JudgedFile::All, "as the user had it");
    }
}
