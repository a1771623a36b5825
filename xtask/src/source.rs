//! The files of the repository as text, and Rust source without its comments and literals.
//!
//! The walk does not ask git: a source archive has no history, and a fresh machine may have no git.

use std::fs;
use std::path::Path;

use crate::Done;

/// One text file.
pub(crate) struct File {
    /// From the root, with `/` between the parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Every text file of the repository, in order of path; build output is left out.
pub(crate) fn files(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(dir: &Path, prefix: &str, files: &mut Vec<File>) -> Done {
    let failed = |error| format!("`{}` can't be read: {error}", dir.display());
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().map_err(failed)?;
        if name == ".git" || (prefix.is_empty() && name == "target") {
            continue;
        }
        if kind.is_dir() {
            // Cargo marks every target folder so, wherever `CARGO_TARGET_DIR` puts it.
            if !entry.path().join("CACHEDIR.TAG").exists() {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).map_err(|error| format!("`{path}` can't be read: {error}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

/// Writes a file of the repository, and says so only if it changed.
pub(crate) fn write(root: &Path, path: &str, text: &str) -> Done {
    let target = root.join(path);
    if fs::read_to_string(&target).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let failed = |error| format!("`{path}` can't be written: {error}");
    if let Some(dir) = target.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    fs::write(&target, text).map_err(failed)?;
    println!("wrote {path}");
    Ok(())
}

/// Rust source with comments, strings and character literals turned into spaces; lines stay where they were.
///
/// Enough of the lexer to tell code from text: nested comments, escapes, raw strings, and a lifetime from a
/// literal.
pub(crate) fn code_only(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that begins at `at` ends; `at` itself if it is code.
fn skipped(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => find(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => end_of_block_comment(chars, at),
        '"' => end_of_string(chars, at + 1),
        'r' if !is_word(chars, at) || is_string_prefix(chars, at) => {
            end_of_raw_string(chars, at).unwrap_or(at)
        }
        '\'' if next == Some('\\') => (find(chars, at + 3, |c| c == '\'') + 1).min(chars.len()),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

/// Whether the character before `at` belongs to a word that `at` continues.
fn is_word(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_')
}

/// Whether the `r` at `at` follows the `b` or `c` of a raw byte or C string.
fn is_string_prefix(chars: &[char], at: usize) -> bool {
    matches!(chars[at - 1], 'b' | 'c') && !is_word(chars, at - 1)
}

fn find(chars: &[char], from: usize, wanted: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|i| wanted(chars[*i])).unwrap_or(chars.len())
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (1, at + 2);
    while i < chars.len() && depth > 0 {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    i
}

fn end_of_string(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    (i + 1).min(chars.len())
}

/// `None` if the `r` at `at` begins no raw string, as in `r#type` or a name.
fn end_of_raw_string(chars: &[char], at: usize) -> Option<usize> {
    let open = find(chars, at + 1, |c| c != '#');
    let hashes = open - at - 1;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes =
        |i: usize| chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    let close = (open + 1..chars.len()).find(|i| closes(*i)).unwrap_or(chars.len());
    Some((close + 1 + hashes).min(chars.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        assert_eq!(code_only(source).split_whitespace().collect::<Vec<_>>().join(" "), expected);
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn comments_are_not_code() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check("a /* never closed", "a");
        check("/// doc\nfn f() {}", "fn f() {}");
    }

    #[test]
    fn strings_are_not_code() {
        check(r#"f("x \" y") z"#, "f( ) z");
        check(r##"f(r#"x " y"#) z"##, "f( ) z");
        check(r##"f(br#"x " y"#) z"##, "f(b ) z");
        check("f(\"two\nlines\") z", "f( ) z");
        check(r#"f("never closed"#, "f(");
        check(r#"f("ends in escape\"#, "f(");
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        check(r#"f('"') g"#, "f( ) g");
        check(r"f('\'') g", "f( ) g");
        check(r"f('\u{1F600}') g", "f( ) g");
        check("fn f<'a>(x: &'a str) // c", "fn f<'a>(x: &'a str)");
    }

    #[test]
    fn names_with_r_are_code() {
        check(r#"for x in r#type { var("y") }"#, "for x in r#type { var( ) }");
    }
}
