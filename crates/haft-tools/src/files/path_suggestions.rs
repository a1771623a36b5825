//! What to say of a path that leads nowhere: which part of it is missing, and what is there with a name like
//! it.
//!
//! Only directories that the call may read are looked into, so a suggestion tells nothing that the tool could
//! not have listed.

use std::path::Path;

use haft::files::{FileError, FileErrorKind, FileKind};
use haft::spelling::edit_distance;
use haft::{Context, ToolError};

/// How many names are given.
const NAMES_MAX: usize = 3;
/// How many names of one directory are compared; the rest of a huge one is not looked at.
const COMPARED_MAX: usize = 5_000;
/// How many characters of a name are compared.
const COMPARED_CHARS: usize = 64;

/// Turns "not found" into an error that helps. Any other error stays what it is.
pub(crate) async fn explain_missing(error: FileError, path: &Path, cx: &Context) -> ToolError {
    if error.kind() != FileErrorKind::NotFound {
        return error.into();
    }
    let hint = missing_hint(path, cx).await;
    ToolError::new(format!("{error}{hint}")).with_source(error)
}

/// What to add to "does not exist".
async fn missing_hint(path: &Path, cx: &Context) -> String {
    if path.starts_with("~") {
        return "; `~` is not expanded, give the absolute path".to_owned();
    }
    let whole = cx.cwd().join(path);
    let mut missing = whole.as_path();
    // From the end upwards, to the first directory that is there.
    let (dir, name, entries) = loop {
        let (Some(dir), Some(name)) = (missing.parent(), missing.file_name().and_then(|name| name.to_str()))
        else {
            return String::new();
        };
        match cx.files().list(dir).await {
            Ok(entries) => break (dir, name, entries),
            Err(error) if error.kind() == FileErrorKind::NotFound => missing = dir,
            Err(_) => return String::new(),
        }
    };
    if entries.iter().any(|entry| entry.name == name && entry.kind == FileKind::Link) {
        return "; it is a link to something that does not exist".to_owned();
    }
    let mut hint = String::new();
    if missing != whole {
        hint.push_str(&format!("; there is no directory `{}`", short_path(missing, cx)));
    }
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let near = nearest_names(name, names.filter(|name| !name.contains(char::is_control)));
    if !near.is_empty() {
        let near: Vec<String> =
            near.iter().map(|name| format!("`{}`", short_path(&dir.join(name), cx))).collect();
        hint.push_str(&format!("; did you mean {}?", near.join(" or ")));
    } else if path.is_relative() {
        hint.push_str(&format!("; relative paths are taken from `{}`", cx.cwd().display()));
    }
    hint
}

/// A path as short as it can be given.
fn short_path(path: &Path, cx: &Context) -> String {
    path.strip_prefix(cx.cwd()).unwrap_or(path).display().to_string()
}

/// The names most like `wanted`, nearest first.
fn nearest_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let target = ComparedName::new(wanted);
    let mut near: Vec<(usize, &str)> = names
        .take(COMPARED_MAX)
        .filter_map(|name| target.distance(&ComparedName::new(name)).map(|distance| (distance, name)))
        .collect();
    near.sort_unstable();
    near.into_iter().take(NAMES_MAX).map(|(_, name)| name).collect()
}

/// A name as it is compared: in lower case, in parts.
struct ComparedName {
    whole: Vec<char>,
    stem: usize,
}

impl ComparedName {
    fn new(name: &str) -> ComparedName {
        let whole: Vec<char> = name.chars().flat_map(char::to_lowercase).take(COMPARED_CHARS).collect();
        let stem = whole.iter().rposition(|c| *c == '.').filter(|at| *at > 0).unwrap_or(whole.len());
        ComparedName { whole, stem }
    }

    /// How far apart two names are; nothing if they are not alike.
    fn distance(&self, other: &ComparedName) -> Option<usize> {
        let (a, b) = (&self.whole[..], &other.whole[..]);
        if a == b {
            return Some(0);
        }
        let (stem, other_stem) = (&a[..self.stem], &b[..other.stem]);
        if stem == other_stem {
            return Some(1);
        }
        let most = a.len().max(b.len()) / 3;
        let edited =
            (a.len().abs_diff(b.len()) <= most).then(|| edit_distance(a, b)).filter(|edits| *edits <= most);
        let long = stem.len() > 3 && other_stem.len() > 3;
        let contains = |text: &[char], part: &[char]| text.windows(part.len()).any(|window| window == part);
        let contained = long && (contains(stem, other_stem) || contains(other_stem, stem));
        edited.map(|edits| edits + 1).or(contained.then_some(most + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_alike_are_found_and_others_are_not() {
        let check = |wanted: &str, names: &str, expected: &str| {
            let near = nearest_names(wanted, names.split_whitespace());
            assert_eq!(near.join(" "), expected, "{wanted}");
        };
        check("mian.rs", "lib.rs main.rs tests.rs", "main.rs");
        check("Main.RS", "lib.rs main.rs", "main.rs");
        check("main.ts", "main.rs main.py other.ts", "main.py main.rs");
        check("parser.rs", "parser_tests.rs lexer.rs old_parser.rs", "old_parser.rs parser_tests.rs");
        check("notes", "notes.md", "notes.md");
        check("zebra.txt", "main.rs README.md", "");
        check("a", "b c", "");
        check("lib", "libs lab", "lab libs");
    }
}
