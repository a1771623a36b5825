//! Critical removals, which always need approval: the root and its direct children, the home directory, the
//! working directory and its ancestors, all of a folder that the session works in, and `"$VAR"/*`, which is
//! the root if the variable is empty. The expansions of a recursive removal (a variable, a substitution, a
//! list in braces) may be any of these.

use std::path::{Path, PathBuf};

use super::folders::WorkingFolders;
use super::{ShellDirectories, Word, marks, normalize_path};

/// Returns whether removing what a word names is critical.
pub(super) fn is_critical(
    word: &Word,
    recursive: bool,
    here: &WorkingFolders,
    place: &ShellDirectories,
) -> bool {
    (recursive && (is_open(word) || word.stands_for_names())) || names_critical(word, here, place)
}

/// Returns whether a word may expand to anything. A pattern expands to existing names, and `~` to the home
/// directory.
fn is_open(word: &Word) -> bool {
    matches!(word, Word::Dynamic(open) if open.shape.contains([marks::EXPANSION, marks::BRACE]))
}

fn names_critical(word: &Word, here: &WorkingFolders, place: &ShellDirectories) -> bool {
    if matches!(
        word.plain().trim_matches('"').trim_end_matches('/'),
        "$PWD" | "${PWD}" | "$OLDPWD" | "${OLDPWD}"
    ) {
        return true;
    }
    // A brace makes several words; the text before it belongs to each.
    let shape = word.shape().split(marks::BRACE).next().unwrap_or("");
    // All of a folder: `x/*`, `x/.*`, `*`.
    let trimmed = shape.trim_end_matches('/');
    let all = |name: &str| {
        !name.is_empty() && name.contains(marks::GLOB) && name.chars().all(|c| c == marks::GLOB || c == '.')
    };
    let (folder, everything) = match trimmed.rsplit_once('/') {
        Some((folder, name)) if all(name) => (if folder.is_empty() { "/" } else { folder }, true),
        None if all(trimmed) => (".", true),
        _ => (if trimmed.is_empty() && !shape.is_empty() { "/" } else { trimmed }, false),
    };
    let ends_open = folder.ends_with(marks::EXPANSION);
    if ends_open && folder.chars().all(|c| c == marks::EXPANSION) {
        // `"$X"/*` and `"$X"/` are the root if the variable is empty.
        return everything || shape.ends_with('/');
    }
    let folder = match folder.strip_prefix(marks::HOME) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => match &place.home {
            Some(home) => home.join(rest.trim_start_matches('/')).to_string_lossy().into_owned(),
            None => return rest.trim_matches('/').is_empty(),
        },
        // The home directory of another user.
        Some(_) => return true,
        None => folder.to_owned(),
    };
    if folder.contains(|c| c <= marks::GLOB) {
        // `/*/x` and `/h*`: anything directly below the root.
        let parts = folder.trim_start_matches('/').split('/').count();
        return folder.starts_with('/') && parts <= 1;
    }
    here.join(Path::new(&folder)).map_or_else(
        || everything || folder.starts_with("..") || folder == ".",
        |paths| {
            paths
                .iter()
                .any(|path| holds_critical_path(&normalize_path(&place.cwd.join(path)), everything, place))
        },
    )
}

/// Returns whether the path itself, or everything in it, is critical.
fn holds_critical_path(path: &Path, everything: bool, place: &ShellDirectories) -> bool {
    let direct = path.components().count() <= 2;
    let is = |other: &PathBuf| path == normalize_path(other);
    direct
        || place.home.as_ref().is_some_and(|home| is(home) || home.starts_with(path))
        || place.cwd.starts_with(path)
        || place.added.iter().any(|folder| is(folder) || (everything && folder.starts_with(path)))
}
