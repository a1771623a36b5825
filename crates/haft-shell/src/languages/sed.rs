//! Scripts of `sed`: whether a script only prints, and what it writes, reads and runs.
//!
//! `sed` can write (`w`, `s///w`), read (`r`) and run (`e`, `s///e`) with a single letter in its script. So
//! a script counts as printing only if each of its commands is in a short list. A script that can't be
//! parsed to its last character isn't understood.

/// The effects of a script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SedScript<'t> {
    /// A part wasn't understood.
    pub(crate) unread: bool,
    /// It only prints, deletes from the output, and stops.
    pub(crate) prints: bool,
    pub(crate) writes: Vec<&'t str>,
    pub(crate) reads: Vec<&'t str>,
    /// The commands that it runs; an empty one stands for the edited text.
    pub(crate) runs: Vec<&'t str>,
}

/// Parses a script.
pub(crate) fn read_sed(script: &str) -> SedScript<'_> {
    let mut found = SedScript { prints: true, ..SedScript::default() };
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}']);
        if rest.is_empty() {
            return found;
        }
        let Some(after) = parse_command(rest, &mut found) else {
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

/// Returns the text after one command, if the command is known. After `{` the brace is left in front.
fn parse_command<'t>(text: &'t str, found: &mut SedScript<'t>) -> Option<&'t str> {
    let mut rest = parse_address(text)?;
    if let Some(after) = rest.trim_start_matches([' ', '\t']).strip_prefix(',') {
        let after = after.trim_start_matches([' ', '\t']);
        let after = after.strip_prefix(['+', '~']).unwrap_or(after);
        let second = parse_address(after)?;
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
            let mut flags = parse_replacement(parse_delimited(parts, mark)?, mark)?;
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
            parse_delimited(parse_delimited(&after[mark.len_utf8()..], mark)?, mark)
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
            // Text continues after a line that ends in a backslash.
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

/// Returns the text after an address, or the same text if there is none.
fn parse_address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        return Some(parse_delimited(rest, '/')?.trim_start_matches(['I', 'M']));
    }
    if let Some(rest) = text.strip_prefix('\\') {
        let mark = rest.chars().next()?;
        return Some(parse_delimited(&rest[mark.len_utf8()..], mark)?.trim_start_matches(['I', 'M']));
    }
    let digits = |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[digits(text)..];
    match rest.strip_prefix('~') {
        Some(step) if rest.len() < text.len() => Some(&step[digits(step)..]),
        _ => Some(rest),
    }
}

/// Returns the text after the next unescaped delimiter, on the same line.
fn parse_delimited(text: &str, mark: char) -> Option<&str> {
    read_until(text, mark, false)
}

/// Returns the same for a replacement, which may contain escaped newlines.
fn parse_replacement(text: &str, mark: char) -> Option<&str> {
    read_until(text, mark, true)
}

fn read_until(text: &str, mark: char, replacement: bool) -> Option<&str> {
    let mut chars = text.char_indices().peekable();
    let mut bracket = false;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, '\n')) if !replacement => return None,
                _ => {}
            },
            '\n' => return None,
            // Versions of sed differ on whether the delimiter in brackets is a character or the end.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn only_prints(script: &str) -> bool {
        let found = read_sed(script);
        found.prints && !found.unread
    }

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
            let found = read_sed(script);
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
