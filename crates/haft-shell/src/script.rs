//! Whether a `sed` script only prints.
//!
//! `sed` can write (`w`, `s///w`), read (`r`) and run (`e`, `s///e`) by a single letter in its script. So a script counts
//! as printing only if each of its commands is one of a few that are read here to the last character.

/// Whether every command of the script is known to print, delete from the output or stop.
pub(super) fn only_prints(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        if rest.is_empty() {
            return true;
        }
        let Some(after) = command(rest) else { return false };
        rest = after.trim_start_matches([' ', '\t']);
        if !(rest.is_empty() || rest.starts_with([';', '\n'])) {
            return false;
        }
    }
}

/// The text after one command, if that is a known one.
fn command(text: &str) -> Option<&str> {
    let mut rest = address(text)?;
    if let Some(after) = rest.strip_prefix(',') {
        let after = after.strip_prefix(['+', '~']).unwrap_or(after);
        let second = address(after)?;
        if second.len() == after.len() {
            return None;
        }
        rest = second;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let letter = rest.chars().next()?;
    match letter {
        'p' | 'P' | 'd' | 'D' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' => Some(&rest[1..]),
        'q' | 'Q' => Some(rest[1..].trim_start_matches(|c: char| c.is_ascii_digit())),
        's' => {
            let mark = rest[1..].chars().next().filter(char::is_ascii_punctuation).filter(|c| *c != '\\')?;
            let flags = delimited(delimited(&rest[2..], mark)?, mark)?;
            Some(flags.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I')))
        }
        _ => None,
    }
}

/// The text after an address, or the same text if there is none.
fn address(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('$') {
        return Some(rest);
    }
    if let Some(rest) = text.strip_prefix('/') {
        return Some(delimited(rest, '/')?.trim_start_matches(['I']));
    }
    let digits = |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let rest = &text[digits(text)..];
    match rest.strip_prefix('~') {
        Some(step) if rest.len() < text.len() => Some(&step[digits(step)..]),
        _ => Some(rest),
    }
}

/// The text after the next unescaped mark.
fn delimited(text: &str, mark: char) -> Option<&str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '\n' => return None,
            c if c == mark => return Some(&text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    None
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
}
