//! Scripts of `sed`: whether one only prints, and what it writes, reads and runs.
//!
//! `sed` can write (`w`, `s///w`), read (`r`) and run (`e`, `s///e`) by a single letter in its script. So a script counts
//! as printing only if each of its commands is one of a few, and a script that can't be read to its last character isn't
//! understood.

use super::told::Told;
use super::{Word, marks, scripted};

/// What a script does.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Script<'t> {
    /// Something wasn't understood.
    pub(super) unread: bool,
    /// Nothing but printing, deleting from the output, and stopping.
    pub(super) prints: bool,
    pub(super) writes: Vec<&'t str>,
    pub(super) reads: Vec<&'t str>,
    /// Commands; an empty one stands for the text that is edited.
    pub(super) runs: Vec<&'t str>,
}

/// Reads a script.
pub(super) fn read(script: &str) -> Script<'_> {
    let mut found = Script { prints: true, ..Script::default() };
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return found;
        }
        let Some(after) = command(rest, &mut found) else {
            found.unread = true;
            found.prints = false;
            return found;
        };
        rest = after.trim_start_matches([' ', '\t']);
        if !(rest.is_empty() || rest.starts_with([';', '\n', '}', '#']) || after.starts_with('{')) {
            found.unread = true;
            found.prints = false;
            return found;
        }
        rest = rest.strip_prefix('{').unwrap_or(rest);
    }
}

/// Whether every command of the script is known to print, delete from the output or stop.
pub(super) fn only_prints(script: &str) -> bool {
    let found = read(script);
    found.prints && !found.unread
}

/// The text after one command, if that is a known one. After `{` the brace is left in front.
fn command<'t>(text: &'t str, found: &mut Script<'t>) -> Option<&'t str> {
    let mut rest = address(text)?;
    if let Some(after) = rest.trim_start_matches([' ', '\t']).strip_prefix(',') {
        let after = after.trim_start_matches([' ', '\t']);
        let after = after.strip_prefix(['+', '~']).unwrap_or(after);
        let second = address(after)?;
        if second.len() == after.len() {
            return None;
        }
        rest = second;
    }
    let rest = rest.trim_start_matches([' ', '\t', '!']);
    let letter = rest.chars().next()?;
    let after = &rest[letter.len_utf8()..];
    let printing = "pPdDnNgGhHx=sqQ".contains(letter);
    found.prints &= printing;
    let line = |text: &'t str| text.split_at(text.find('\n').unwrap_or(text.len()));
    match letter {
        'p' | 'P' | 'd' | 'D' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | 'F' | 'z' => Some(after),
        'q' | 'Q' | 'l' | 'L' => {
            Some(after.trim_start_matches(' ').trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        '{' => Some(rest),
        's' => {
            let mark = after.chars().next().filter(|c| *c != '\\' && *c != '\n')?;
            let parts = &after[mark.len_utf8()..];
            let mut flags = replaced(delimited(parts, mark)?, mark)?;
            loop {
                match flags.chars().next() {
                    Some('g' | 'p' | 'i' | 'I' | '0'..='9') => flags = &flags[1..],
                    Some('m' | 'M') => {
                        found.prints = false;
                        flags = &flags[1..];
                    }
                    Some('e') => {
                        found.prints = false;
                        found.runs.push("");
                        flags = &flags[1..];
                    }
                    Some('w') => {
                        found.prints = false;
                        let (file, after) = line(&flags[1..]);
                        found.writes.push(file.trim());
                        return Some(after);
                    }
                    _ => return Some(flags),
                }
            }
        }
        'y' => {
            let mark = after.chars().next().filter(|c| *c != '\\' && *c != '\n')?;
            delimited(delimited(&after[mark.len_utf8()..], mark)?, mark)
        }
        'w' | 'W' => {
            let (file, after) = line(after);
            found.writes.push(file.trim());
            Some(after)
        }
        'r' | 'R' => {
            let (file, after) = line(after);
            found.reads.push(file.trim());
            Some(after)
        }
        'e' => {
            let (text, after) = line(after);
            found.runs.push(text.trim());
            Some(after)
        }
        'a' | 'i' | 'c' => {
            // Text goes on after a line that ends in a backslash.
            let mut end = 0;
            for part in after.split_inclusive('\n') {
                end += part.len();
                if !part.trim_end_matches('\n').ends_with('\\') {
                    break;
                }
            }
            Some(&after[end..])
                .map(|rest| if after[..end].ends_with('\n') { &after[end - 1..] } else { rest })
        }
        'b' | 't' | 'T' | ':' | 'v' => {
            let end = after.find(['\n', ';', '}']).unwrap_or(after.len());
            Some(&after[end..])
        }
        '#' => Some(line(after).1),
        _ => None,
    }
}

/// The text after an address, or the same text if there is none.
fn address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        return Some(delimited(rest, '/')?.trim_start_matches(['I', 'M']));
    }
    if let Some(rest) = text.strip_prefix('\\') {
        let mark = rest.chars().next()?;
        return Some(delimited(&rest[mark.len_utf8()..], mark)?.trim_start_matches(['I', 'M']));
    }
    let digits = |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[digits(text)..];
    match rest.strip_prefix('~') {
        Some(step) if rest.len() < text.len() => Some(&step[digits(step)..]),
        _ => Some(rest),
    }
}

/// The text after the next unescaped mark, on the same line.
fn delimited(text: &str, mark: char) -> Option<&str> {
    until(text, mark, false)
}

/// The same for a replacement, which may hold escaped new lines.
fn replaced(text: &str, mark: char) -> Option<&str> {
    until(text, mark, true)
}

fn until(text: &str, mark: char, replacement: bool) -> Option<&str> {
    let mut chars = text.char_indices().peekable();
    let mut bracket = false;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, '\n')) if !replacement => return None,
                _ => {}
            },
            '\n' => return None,
            // In brackets the mark is one of the characters for some, and the end for others.
            c if c == mark => return (!bracket).then(|| &text[at + c.len_utf8()..]),
            '[' if !bracket && !replacement => {
                bracket = true;
                chars.next_if(|(_, c)| *c == '^');
                chars.next_if(|(_, c)| *c == ']');
            }
            ']' => bracket = false,
            _ => {}
        }
    }
    None
}

/// The arguments of `sed`.
#[derive(Debug, Default)]
pub(super) struct Arguments<'w> {
    /// The script, its parts joined as `sed` does.
    pub(super) script: String,
    /// Part of it is known only when it runs, or in a file.
    pub(super) open: bool,
    pub(super) files: Vec<&'w Word>,
    pub(super) in_place: bool,
    /// Files with scripts.
    pub(super) scripts: Vec<Word>,
    /// An option isn't known.
    pub(super) unknown: bool,
}

/// Reads the arguments of `sed`.
pub(super) fn arguments(words: &[Word]) -> Arguments<'_> {
    let mut found = Arguments::default();
    let mut parts: Vec<Option<&str>> = Vec::new();
    let mut given = false;
    let mut ended = false;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.prefix();
        if ended || text.len() < 2 || !text.starts_with('-') {
            // What is expanded first may be an option.
            found.unknown |=
                matches!(word, Word::Dynamic(open) if !ended && open.shape.starts_with(marks::EXPANSION));
            found.files.push(word);
            continue;
        }
        if text == "--" {
            ended = true;
            continue;
        }
        if word.literal().is_none() {
            found.unknown = true;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let is = |full: &str| full.starts_with(name);
            if is("expression") {
                given = true;
                parts.push(
                    value
                        .or_else(|| rest.next().and_then(Word::literal))
                        .filter(|_| word.literal().is_some()),
                );
            } else if name.len() > 1 && is("file") {
                given = true;
                found.open = true;
                let value = value.map(|value| if_known(word, value));
                found.scripts.extend(value.or_else(|| rest.next().cloned()));
            } else if is("in-place") {
                found.in_place = true;
            } else if is("line-length") {
                if value.is_none() {
                    rest.next();
                }
            } else if ![
                "quiet",
                "silent",
                "regexp-extended",
                "separate",
                "unbuffered",
                "null-data",
                "zero-terminated",
                "posix",
                "debug",
                "sandbox",
                "follow-symlinks",
                "binary",
            ]
            .iter()
            .any(|full| full.starts_with(name))
            {
                found.unknown = true;
            }
            continue;
        }
        for (at, letter) in text.char_indices().skip(1) {
            let attached = &text[at + letter.len_utf8()..];
            match letter {
                'n' | 'E' | 'r' | 's' | 'u' | 'z' | 'b' => continue,
                'i' => found.in_place = true,
                'e' => {
                    given = true;
                    let value = if attached.is_empty() {
                        rest.next().and_then(Word::literal)
                    } else {
                        word.literal().map(|_| attached)
                    };
                    parts.push(value);
                }
                'f' => {
                    given = true;
                    found.open = true;
                    let value = (!attached.is_empty()).then(|| if_known(word, attached));
                    found.scripts.extend(value.or_else(|| rest.next().cloned()));
                }
                'l' => {
                    if attached.is_empty() {
                        rest.next();
                    }
                }
                _ => found.unknown = true,
            }
            break;
        }
    }
    if !given && !found.files.is_empty() {
        parts.push(found.files.remove(0).literal());
    }
    found.open |= parts.iter().any(Option::is_none);
    found.script = parts.into_iter().flatten().collect::<Vec<_>>().join("\n");
    found
}

/// A part of a word, if all of that is known.
fn if_known(word: &Word, part: &str) -> Word {
    match word {
        Word::Literal(_) => Word::Literal(part.to_owned()),
        Word::Dynamic(_) => Word::anything(),
    }
}

/// What `sed` with these arguments runs, and with what comes in.
pub(super) fn told(words: &[Word], input: Option<&str>, told: &mut Told) {
    let mut arguments = arguments(words);
    for file in &arguments.scripts {
        match scripted::text(file, input) {
            None => {}
            Some(None) => told.unknown(),
            Some(Some(text)) => {
                arguments.script.push('\n');
                arguments.script.push_str(text);
            }
        }
    }
    let script = read(&arguments.script);
    for command in &script.runs {
        if command.is_empty() {
            told.unknown();
        } else {
            told.text(command);
        }
    }
    if script.unread {
        told.unknown();
    } else if arguments.open && arguments.scripts.is_empty() {
        told.exact = told.exact.or(Some("has a script that is known only when it runs"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_scripts() {
        for script in [
            "p",
            "1p",
            "10,20p",
            "$p",
            "/a/,/b/p",
            "/a/!d",
            "1~2p",
            "s/a/b/",
            "s|a|b|gp",
            "5q",
            "1p;2p",
            "s/a\\/w x/b/g",
            "$!N",
            "sabacag",
        ] {
            assert!(only_prints(script), "{script}");
        }
        for script in [
            "w out",
            "1w out",
            "s/a/b/w out",
            "s/a/b/e",
            "1e touch x",
            "e",
            "r /etc/passwd",
            "W x",
            "s/a/b/gw out",
            "{p;w x\n}",
            "a text",
            "i text",
            "c text",
            "y/a/b/",
            "1!w x",
            "s/a/b/ w x",
            "p w x",
            "s/[/]/x/w y",
            "s\\a\\b\\w x",
            "/a/w x",
            ":a",
            "ba",
            "s/a\nb/c/",
            "F",
            "1,w x",
            "v",
            "R x",
            "sabacaw x",
        ] {
            assert!(!only_prints(script), "{script}");
        }
    }

    #[test]
    fn what_scripts_write_read_and_run() {
        let all = |script: &'static str| {
            let found = read(script);
            (found.writes, found.reads, found.runs, found.unread)
        };
        assert_eq!(all("s/a/b/w out"), (vec!["out"], vec![], vec![], false));
        assert_eq!(all("1!w x\np"), (vec!["x"], vec![], vec![], false));
        assert_eq!(all("/a/{p;w x\n}"), (vec!["x"], vec![], vec![], false));
        assert_eq!(all("$!{N;s/a/b/}"), (vec![], vec![], vec![], false));
        assert_eq!(all("r /etc/passwd"), (vec![], vec!["/etc/passwd"], vec![], false));
        assert_eq!(all("1e rm x"), (vec![], vec![], vec!["rm x"], false));
        assert_eq!(all("s/a/b/ge"), (vec![], vec![], vec![""], false));
        assert_eq!(all(":a;N;$!ba;s/\\n/ /g"), (vec![], vec![], vec![], false));
        assert_eq!(all("1i\\\nhello\\\nw x\np"), (vec![], vec![], vec![], false));
        assert_eq!(all("a hello ; w x"), (vec![], vec![], vec![], false));
        assert_eq!(all("a hello\ne rm"), (vec![], vec![], vec!["rm"], false));
        assert_eq!(all("s/a/b/;# w x\ne rm"), (vec![], vec![], vec!["rm"], false));
        assert_eq!(all("\\,a,w x"), (vec!["x"], vec![], vec![], false));
        assert!(all("s/[/]/x/e").3 && all("k").3 && all("s/a/b").3 && all("p p").3);
    }
}
