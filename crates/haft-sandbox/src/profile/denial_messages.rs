//! What a child was kept from changing, as far as its own words tell.
//!
//! The kernel answers a rename or a removal of what is held with "busy" and a write with "read-only", and
//! programs print that with the name that they used; nobody else sees it. So this reads what was printed, and
//! says what was in the way and what would allow it. A child can hide such words or make them up: it is good
//! for an explanation and for nothing else, and nothing is ever offered because of it.

use std::path::{Path, PathBuf};

use haft::ports::{ConfinementLevel, ConfinementRefusal, ProcessOutcome, ProcessRequest};

use super::symlink_trace::without_dots;
use super::{SandboxProfile, display_path, is_too_wide, limits, runs_beside};

/// How programs say that what they wanted to rename, remove or write is held: in words, as a name, as a
/// number.
const WORDS: [&str; 8] = [
    "resource busy",
    "ead-only file system",
    "EBUSY",
    "EROFS",
    "os error 16",
    "os error 30",
    "Errno 16",
    "Errno 30",
];
/// Marks around names in complaints.
const QUOTES: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’'), ('“', '”')];

/// What stands in the way of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum DenialCause {
    /// The name is protected, or lies in one that is.
    Protected,
    /// Rules or settings deny it.
    Denied,
    /// It holds a name that is protected.
    Holds,
    /// It holds a name that rules or settings deny.
    HoldsDenied,
    /// A working directory that is too wide to be written.
    Wide(PathBuf),
    /// A folder of git, which commands that run beside others can't write.
    Behind,
    /// A folder of git, which only commands write that are known to.
    NoWriter,
    /// No command writes there.
    Outside,
}

/// What one way keeps a child from.
struct DenialGroup {
    way: DenialCause,
    paths: Vec<PathBuf>,
    /// The protected names in them.
    names: Vec<PathBuf>,
}

/// A text that may be the name of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NameCandidate {
    pub(super) text: String,
    /// It stood in quotes, so it is meant as a name.
    quoted: bool,
}

impl SandboxProfile {
    /// What the words of a child that may write say that it was kept from.
    pub(crate) fn kept_from(
        &self,
        request: &ProcessRequest,
        outcome: &ProcessOutcome,
    ) -> Vec<ConfinementRefusal> {
        let unseen = self.unseen_programs(request, outcome);
        if request.confinement != ConfinementLevel::Session {
            return unseen;
        }
        let named = names_in(outcome, &WORDS);
        if named.is_empty() {
            return unseen;
        }
        let mut bases = vec![request.cwd.as_path()];
        bases.extend(self.config.workspace.iter().map(PathBuf::as_path));
        bases.dedup();
        let held = self.guard.names();
        let closed = if self.guard.closes_git(request) { self.guard.folders_of_git() } else { Vec::new() };
        let closed_way = if runs_beside(request) { DenialCause::Behind } else { DenialCause::NoWriter };
        let mut all: Vec<DenialGroup> = Vec::new();
        for name in &named {
            let behind = bases.iter().find_map(|base| {
                let path = without_dots(&base.join(&name.text));
                let closed = closed.iter().find(|closed| path.starts_with(closed))?;
                Some((closed_way.clone(), closed.clone(), None))
            });
            let at = bases
                .iter()
                .find_map(|base| self.in_the_way(&without_dots(&base.join(&name.text)), name, &held));
            let at = behind.or(at);
            let Some((way, path, inner)) = at.or_else(|| self.by_its_end(&request.cwd, name, &held)) else {
                continue;
            };
            let at = all.iter().position(|kept| kept.way == way).unwrap_or_else(|| {
                all.push(DenialGroup { way, paths: Vec::new(), names: Vec::new() });
                all.len() - 1
            });
            let kept = &mut all[at];
            if !kept.paths.contains(&path) && kept.paths.len() < limits::NAMES_TOLD_MAX {
                kept.paths.push(path);
                kept.names.extend(inner);
            }
        }
        let refusal =
            |kept: DenialGroup| ConfinementRefusal::Held { why: self.why(&kept), paths: kept.paths };
        unseen.into_iter().chain(all.into_iter().map(refusal)).collect()
    }

    /// What keeps a child from changing a path, the path that it is about, and a protected name in it.
    fn in_the_way(
        &self,
        path: &Path,
        name: &NameCandidate,
        held: &[PathBuf],
    ) -> Option<(DenialCause, PathBuf, Option<PathBuf>)> {
        if let Some(held) = held.iter().find(|held| path.starts_with(held)) {
            return Some((self.way_of(held), held.clone(), None));
        }
        let writable = self.session.writable_root(path).is_some();
        let mut inside = held.iter().chain(&self.masks);
        let inner = inside.find(|held| held.starts_with(path) && *held != path).filter(|_| writable);
        if let Some(inner) = inner {
            let way = if self.is_denied(inner) { DenialCause::HoldsDenied } else { DenialCause::Holds };
            return Some((way, path.to_owned(), Some(inner.clone())));
        }
        // Every word of a complaint comes here: one that names nothing is none.
        let meant = name.quoted || name.text.contains('/') || path.symlink_metadata().is_ok();
        if writable || !meant || !path.parent().is_some_and(Path::is_dir) {
            return None;
        }
        let wide = self.config.workspace.iter().find(|workspace| {
            path.starts_with(workspace) && is_too_wide(workspace, self.config.home.as_deref()).is_some()
        });
        if let Some(workspace) = wide {
            return Some((DenialCause::Wide(workspace.clone()), path.to_owned(), None));
        }
        // What is in memory can be written, and nobody is given the machine itself.
        let own = ["/proc", "/dev", "/sys", "/run", "/tmp", super::PRIVATE_TEMP];
        let own = own.iter().any(|own| path.starts_with(own));
        (!own && self.session.shows(path)).then(|| (DenialCause::Outside, path.to_owned(), None))
    }

    /// The same for a name that begins somewhere below: who removes a tree folder by folder says only the
    /// last part.
    fn by_its_end(
        &self,
        cwd: &Path,
        name: &NameCandidate,
        held: &[PathBuf],
    ) -> Option<(DenialCause, PathBuf, Option<PathBuf>)> {
        let relative = name.quoted && !name.text.starts_with('/');
        let ends = |held: &&PathBuf| held.starts_with(cwd) && held.ends_with(&name.text);
        let mut ending = held.iter().filter(|_| relative).filter(ends);
        let (held, another) = (ending.next()?, ending.next());
        // Which of several it is, nobody knows.
        let path = if another.is_some() { PathBuf::from(&name.text) } else { held.clone() };
        Some((self.way_of(held), path, None))
    }

    fn way_of(&self, held: &Path) -> DenialCause {
        if self.is_denied(held) { DenialCause::Denied } else { DenialCause::Protected }
    }

    /// Whether rules or settings deny that a name is written.
    fn is_denied(&self, held: &Path) -> bool {
        let config = &self.config;
        config.rules.unwritable_paths.iter().any(|denied| denied == held)
            || config.rules.unwritable.as_ref().is_some_and(|rule| rule.covers(held))
    }

    fn why(&self, kept: &DenialGroup) -> String {
        let names = || {
            let names: Vec<String> =
                kept.names.iter().map(|name| format!("`{}`", display_path(&name))).collect();
            names.join(", ")
        };
        match &kept.way {
            DenialCause::Protected => "it decides what runs, so commands are kept from it; no rule allows that, but one that \
                               names such a file asks, and the user's yes opens the file for that call"
                .into(),
            DenialCause::Denied => "rules or settings (`sandbox.filesystem.denyWrite`) deny it, and nothing that is granted lifts \
                            that"
                .into(),
            DenialCause::HoldsDenied => format!(
                "in it lies what rules or settings (`sandbox.filesystem.denyWrite`) deny ({}), so no command can rename \
                 or remove it",
                names()
            ),
            DenialCause::Holds => {
                format!(
                    "in it lies what decides what runs, or is hidden from commands ({}), so no command in the sandbox can rename or remove it, and \
                     no rule allows that; the user can, and so can a command that their settings let run without the \
                     sandbox (`sandbox.excludedCommands`)",
                    names()
                )
            }
            DenialCause::Wide(workspace) => {
                let why = is_too_wide(workspace, self.config.home.as_deref()).unwrap_or_default();
                format!(
                    "commands can't write `{}`: {why}; a rule for one file (`Edit(FILE)`) lets a command that names it \
                     write it, but not remove or rename it; start in a folder of one project",
                    display_path(&workspace)
                )
            }
            DenialCause::Behind => "a command in the background can't write folders of git, since nobody would look at what it did \
                            there before git is used again; run what has to (`git commit`) in the foreground"
                .into(),
            DenialCause::NoWriter => "this command isn't known to write a repository, so it sees folders of git read-only; run git itself \
                              (`git commit`) as a command of its own; the user's yes to writing there opens what git writes in \
                              ordinary work, and so does the setting `sandbox.gitWriters`, which names commands that write \
                              repositories (`[\"make release\"]`)"
                .into(),
            DenialCause::Outside => "it lies outside of what commands may write; a working directory more or \
                             `sandbox.filesystem.allowWrite` opens a folder"
                .into(),
        }
    }
}

/// What may be names of files in what a child printed, in lines with such words.
pub(super) fn names_in(outcome: &ProcessOutcome, words: &[&str]) -> Vec<NameCandidate> {
    let printed = [&outcome.stdout, &outcome.stderr].map(|from| [&from.head[..], &from.tail[..]]).concat();
    printed.iter().flat_map(|text| named_in(text, words)).take(limits::NAMES_LOOKED_AT_MAX).collect()
}

/// Texts in lines with such words, quoted or between blanks, that may be names of files.
fn named_in(printed: &[u8], words: &[&str]) -> Vec<NameCandidate> {
    let text = String::from_utf8_lossy(printed);
    let complains = |line: &&str| words.iter().any(|words| line.contains(words));
    let mut names: Vec<NameCandidate> = Vec::new();
    for line in text.lines().filter(complains).take(limits::NAMES_LOOKED_AT_MAX) {
        for (open, close) in QUOTES {
            let mut rest = line;
            while let Some((_, after)) = rest.split_once(open) {
                let Some((name, after)) = after.split_once(close) else { break };
                names.push(NameCandidate { text: name.to_owned(), quoted: true });
                rest = after;
            }
        }
        let bare = |word: &str| word.trim_matches(|c: char| "'\"`‘’“”:;,()[]".contains(c)).to_owned();
        names.extend(line.split_whitespace().map(|word| NameCandidate { text: bare(word), quoted: false }));
    }
    names.retain(|name| {
        !matches!(name.text.as_str(), "" | "." | ".." | "/") && !name.text.contains('\u{fffd}')
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_complaints_of_many_kinds() {
        let names = |line: &str| {
            named_in(line.as_bytes(), &WORDS).into_iter().map(|name| name.text).collect::<Vec<_>>()
        };
        for (line, name) in [
            ("mv: cannot move 'sub' to 'sub2': Device or resource busy", "sub"),
            ("mv: cannot move ‘a b’ to ‘c’: Device or resource busy", "a b"),
            ("warning: failed to remove .claude/: Device or resource busy", ".claude/"),
            ("error: could not write config file .git/config: Device or resource busy", ".git/config"),
            ("OSError: [Errno 30] Read-only file system: '.git/hooks/x'", ".git/hooks/x"),
            ("Error: EBUSY: resource busy or locked, rmdir '/w/.git'", "/w/.git"),
            ("bash: line 1: .git/hooks/x: Read-only file system", ".git/hooks/x"),
            ("Error: Os { code: 30 } \"/w/.idea\" (os error 30)", "/w/.idea"),
        ] {
            assert!(names(line).iter().any(|found| found == name), "{line}: {:?}", names(line));
        }
        assert_eq!(names("rm: cannot remove 'x': No such file or directory"), [] as [String; 0]);
        assert_eq!(without_dots(Path::new("/w/a/../b/./c/")), Path::new("/w/b/c"));
    }
}
