//! Compares two results, apart from differences that are always expected: the path of the copy, and
//! durations.

use std::path::Path;

/// The maximum length of a run of letters and digits that counts as one word.
const WORD_CHARS_MAX: usize = 64;

/// Replaces a path by another one, wherever it is a whole path or the beginning of one.
pub(super) fn replace_paths(text: &str, from: &Path, to: &Path) -> String {
    let (Some(from), Some(to)) = (from.to_str(), to.to_str()) else { return text.to_owned() };
    if from.len() < 2 || from == to {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let before = rest[..at].chars().next_back();
        let after = rest[at + from.len()..].chars().next();
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && !"_-./".contains(c));
        let ends = after.is_none_or(|c| !c.is_alphanumeric() && !"_-.".contains(c));
        out.push_str(&rest[..at]);
        out.push_str(if begins && ends { to } else { from });
        rest = &rest[at + from.len()..];
    }
    out + rest
}

/// Removes times, dates and trailing spaces from a text.
pub(super) fn normalize_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let mut rest = line.trim_end();
        while !rest.is_empty() {
            let is_word = |c: char| c.is_ascii_alphanumeric() || ".:".contains(c);
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, tail) = rest.split_at(end);
            out.push_str(if is_time(word) { "TIME" } else { word });
            let next = tail.chars().next();
            out.extend(next);
            rest = &tail[next.map_or(0, char::len_utf8)..];
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

/// Returns whether a word is a time: `0.03s`, `12ms`, `12:30:05`.
fn is_time(word: &str) -> bool {
    if word.len() > WORD_CHARS_MAX || !word.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let clock: Vec<&str> = word.trim_end_matches(['.', ':']).split(':').collect();
    if clock.len() == 3
        && clock.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    {
        return true;
    }
    let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(unit, "s" | "ms" | "us" | "ns" | "s." | "ms.")
}

/// Returns the first line that differs, recorded and current.
pub(super) fn first_difference(then: &str, now: &str) -> String {
    let (mut a, mut b) = (then.lines(), now.lines());
    for line in 1.. {
        match (a.next(), b.next()) {
            (Some(then), Some(now)) if then == now => {}
            (None, None) => return "they differ in nothing that is shown".to_owned(),
            (then, now) => {
                let shown = |line: Option<&str>| match line {
                    Some(line) => format!("`{}`", haft::text::truncate_with_ellipsis(line, 60)),
                    None => "nothing more".to_owned(),
                };
                return format!("line {line}: {} then, {} now", shown(then), shown(now));
            }
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_moved_whole() {
        let check = |text: &str, expected: &str| {
            assert_eq!(replace_paths(text, Path::new("/w/a"), Path::new("/tmp/c")), expected);
        };
        check("cat /w/a/x; ls /w/a", "cat /tmp/c/x; ls /tmp/c");
        check("/w/ab /x/w/a /w/a.b \"/w/a\"", "/w/ab /x/w/a /w/a.b \"/tmp/c\"");
    }

    #[test]
    fn times_do_not_count() {
        let check = |a: &str, b: &str, same: bool| {
            assert_eq!(normalize_text(a) == normalize_text(b), same, "{a} {b}")
        };
        check("ok. finished in 0.03s", "ok. finished in 1.20s", true);
        check("took 3 apples  ", "took 3 apples\n", true);
        check("at 12:30:05 x", "at 09:01:59 x", true);
        check("3 passed", "4 passed", false);
        check("a.rs:12: x", "a.rs:13: x", false);
    }

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(first_difference("a\nb", "a\nc"), "line 2: `b` then, `c` now");
        assert_eq!(first_difference("a", "a\nc"), "line 2: nothing more then, `c` now");
    }
}
