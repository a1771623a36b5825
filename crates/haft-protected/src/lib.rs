//! Names of files that another program executes, or that say what it executes.
//!
//! Anyone who can write such a file can run code as the user later: at the next `cd`, commit, build or
//! start of an editor. This table is the only place that lists the names. Rules and file tools ask before
//! one of them is written, wherever it is. The sandbox keeps commands from changing it, according to its
//! [`ProtectionClass`].
//!
//! The crate contains only names, and no file system access, rules or processes. Names are compared with
//! case folded and invisible characters removed, because some file systems do the same.
#![warn(missing_docs)]

use std::path::{Component, Path, PathBuf};

mod table;

pub use table::TABLE;

/// How the sandbox protects a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectionClass {
    /// Executed without a further step of the user: on `cd`, on `git status`, or when an editor or agent
    /// opens the folder. No command can leave it changed, and unknown content is removed as it appears.
    Held,
    /// Executed by a step of the user, such as a build. It is compared after each command. Unknown changes
    /// are reverted and offered for approval.
    Reviewed,
    /// A folder of git, whose contents have their own rules.
    Repository,
}

/// Where the sandbox looks for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameDepth {
    /// Directly in a working directory or at the top of a repository in it.
    Top,
    /// In any folder.
    Any,
}

/// One row of the table.
#[derive(Debug)]
pub struct ProtectedName {
    /// The name of a file or folder; several components, or a suffix after `*`.
    pub name: &'static str,
    /// Where the sandbox looks for it.
    pub depth: NameDepth,
    /// How the sandbox protects it.
    pub class: ProtectionClass,
    /// The program that executes it, and when.
    pub executed: &'static str,
    /// Names inside that are ordinary work for all tools.
    pub plain: &'static [&'static str],
    /// Names inside that are ordinary work for commands, because their program writes them all the time.
    pub plain_for_commands: &'static [&'static str],
}

/// A row that a path matches.
#[derive(Clone, Copy, Debug)]
pub struct NameMatch {
    /// The row.
    pub row: &'static ProtectedName,
    /// The number of path components up to the end of the name.
    pub components: usize,
}

impl NameMatch {
    /// Returns the protected file or folder: the path truncated after the name.
    pub fn top(&self, path: &Path) -> PathBuf {
        path.components().take(self.components).collect()
    }
}

impl ProtectedName {
    /// Returns the number of components of the name.
    fn len(&self) -> usize {
        self.name.split('/').count()
    }

    fn begins(&self, parts: &[String]) -> bool {
        parts.len() >= self.len() && self.agrees(parts)
    }

    /// Whether the path and the name are the same as far as both go.
    fn agrees(&self, parts: &[String]) -> bool {
        self.name.split('/').zip(parts).all(|(name, part)| match name.strip_prefix('*') {
            Some(suffix) => part.len() > suffix.len() && part.ends_with(suffix),
            None => part == name,
        })
    }

    /// Returns whether a path inside is ordinary work; `inside` begins after the name.
    fn is_plain(&self, inside: &[String], plain: &[&str]) -> bool {
        inside.first().is_some_and(|first| plain.contains(&first.as_str()))
    }
}

/// Returns the folders in protected ones in which everything is ordinary work: `.claude/worktrees`.
pub fn plain_folders() -> impl Iterator<Item = String> {
    TABLE.iter().flat_map(|row| row.plain.iter().map(move |plain| format!("{}/{plain}", row.name)))
}

/// Returns the row that protects a path for rules and file tools. The name may begin at any component.
///
/// ```
/// use std::path::Path;
///
/// assert_eq!(haft_protected::find(Path::new("/w/sub/.vscode/tasks.json")).unwrap().row.name, ".vscode");
/// assert!(haft_protected::find(Path::new("/w/src/main.rs")).is_none());
/// ```
pub fn find(path: &Path) -> Option<NameMatch> {
    let parts = parts_of(path);
    let offset = path.components().count() - parts.len();
    (0..parts.len()).find_map(|at| {
        let row = TABLE.iter().find(|row| row.begins(&parts[at..]))?;
        let inside = &parts[at + row.len()..];
        // The plain folder itself is protected; a path in it is matched again from its own beginning.
        let is_plain = inside.len() > 1 && row.is_plain(inside, row.plain);
        (!is_plain).then_some(NameMatch { row, components: offset + at + row.len() })
    })
}

/// Returns the row that protects a path from commands. The path is relative to a working directory or to
/// the top of a repository.
///
/// ```
/// use std::path::Path;
///
/// assert!(haft_protected::find_for_commands(Path::new(".vscode/tasks.json")).is_some());
/// assert!(haft_protected::find_for_commands(Path::new("sub/.vscode/tasks.json")).is_none());
/// assert!(haft_protected::find_for_commands(Path::new("sub/.envrc")).is_some());
/// ```
pub fn find_for_commands(relative: &Path) -> Option<NameMatch> {
    let parts = parts_of(relative);
    let found = |at: usize| {
        let rows = TABLE.iter().filter(|row| row.class != ProtectionClass::Repository);
        let mut rows = rows.filter(|row| at == 0 || row.depth == NameDepth::Any);
        let row = rows.find(|row| row.begins(&parts[at..]))?;
        let inside = &parts[at + row.len()..];
        let is_plain = inside.len() > 1 && row.is_plain(inside, row.plain)
            || row.is_plain(inside, row.plain_for_commands);
        (!is_plain).then_some(NameMatch { row, components: at + row.len() })
    };
    (0..parts.len()).find_map(found)
}

/// Returns whether a name may be the beginning of a name that is protected from commands.
pub fn may_begin(name: &str) -> bool {
    let folded = folded(name);
    TABLE.iter().any(|row| {
        let first = row.name.split('/').next().unwrap_or_default();
        match first.strip_prefix('*') {
            Some(suffix) => folded.len() > suffix.len() && folded.ends_with(suffix),
            None => folded == first,
        }
    })
}

/// Whether a path, relative to a working directory or the top of a repository, is a folder on the way to a
/// protected name.
///
/// ```
/// use std::path::Path;
///
/// assert!(haft_protected::leads_to_name(Path::new(".github")));
/// assert!(haft_protected::leads_to_name(Path::new(".jj/repo")));
/// assert!(!haft_protected::leads_to_name(Path::new(".jj/other")));
/// ```
pub fn leads_to_name(relative: &Path) -> bool {
    let parts = parts_of(relative);
    !parts.is_empty() && TABLE.iter().any(|row| row.len() > parts.len() && row.agrees(&parts))
}

/// Returns whether a name is protected in any folder.
pub fn is_any_depth(name: &str) -> bool {
    // Most names of a large tree are decided here: those of any depth begin with a dot or an `m`.
    if name.is_ascii() && !name.starts_with(['.', 'm', 'M']) && !name.contains('~') {
        return false;
    }
    let rows = TABLE.iter().filter(|row| row.class != ProtectionClass::Repository);
    rows.filter(|row| row.depth == NameDepth::Any).any(|row| row.begins(&[folded(name)]))
}

fn parts_of(path: &Path) -> Vec<String> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(folded(&name.to_string_lossy())),
        _ => None,
    });
    parts.collect()
}

/// Returns a name as a file system may see it that ignores case and invisible characters and drops trailing
/// dots and spaces.
pub fn folded(name: &str) -> String {
    let is_skipped = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let plain: String = name.chars().filter(|c| !is_skipped(*c)).flat_map(char::to_lowercase).collect();
    let plain = plain.replace('ſ', "s").replace('\u{212a}', "k");
    let trimmed = plain.trim_end_matches(['.', ' ']);
    match trimmed {
        "git~1" => ".git".to_owned(),
        "" => plain,
        trimmed => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests;
