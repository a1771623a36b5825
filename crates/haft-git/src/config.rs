//! Git configuration as text: parsed as git parses it, and edited without touching other entries.
//!
//! A change that a command may not make is removed from the text. The rest stays byte for byte: comments,
//! order and spelling are the user's. A text that git couldn't read is an error, and the caller then takes
//! the strict path. The meaning of keys is in [`keys`](crate::keys).

use std::error::Error;
use std::fmt::{self, Write as _};
use std::ops::Range;

use crate::keys::may_set;

/// Why a configuration can't be parsed as git parses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Error for ConfigError {}

impl From<&str> for ConfigError {
    fn from(text: &str) -> ConfigError {
        ConfigError(text.to_owned())
    }
}

impl From<String> for ConfigError {
    fn from(text: String) -> ConfigError {
        ConfigError(text)
    }
}

/// One entry of a configuration, `section.sub.key = value`. Section and key are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The section, in lower case.
    pub section: String,
    /// The subsection, as written.
    pub sub: Option<String>,
    /// The key, in lower case.
    pub key: String,
    /// The value; `None` if the line has no `=`, which means true.
    pub value: Option<String>,
}

impl ConfigEntry {
    /// Returns the name that `git config --list` prints.
    pub fn name(&self) -> String {
        match &self.sub {
            Some(sub) => format!("{}.{sub}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

/// Parses a configuration.
///
/// # Errors
/// Returns [`ConfigError`] if git couldn't parse it either.
pub fn parse(bytes: &[u8]) -> Result<Vec<ConfigEntry>, ConfigError> {
    Ok(parse_spans(bytes)?.into_iter().map(|(entry, _)| entry).collect())
}

/// Parses the entries with their ranges in the text, including the last line's newline.
fn parse_spans(bytes: &[u8]) -> Result<Vec<(ConfigEntry, Range<usize>)>, ConfigError> {
    let whole = str::from_utf8(bytes).map_err(|_| ConfigError::from("it isn't UTF-8"))?;
    if whole.contains('\0') {
        return Err("it holds a NUL".into());
    }
    let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut chars = Chars { text, at: 0 };
    while let Some(c) = chars.peek() {
        match c {
            c if is_space(c) => drop(chars.next()),
            '#' | ';' => while chars.next().is_some_and(|c| c != '\n') {},
            '[' => {
                chars.next();
                section = Some(header(&mut chars)?);
            }
            c if c.is_ascii_alphabetic() => {
                let Some((section, sub)) = &section else { return Err("a key before any section".into()) };
                let begin = chars.at;
                let (key, value) = assignment(&mut chars)?;
                let before = whole.len() - text.len();
                let span = begin + before..chars.at + before;
                entries.push((ConfigEntry { section: section.clone(), sub: sub.clone(), key, value }, span));
            }
            c => return Err(format!("`{c}` where a section or a key should begin").into()),
        }
    }
    Ok(entries)
}

/// Returns whether git treats a character as white space.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The text and the current position. A line may end with CR LF, which counts as LF.
struct Chars<'a> {
    text: &'a str,
    at: usize,
}

impl Chars<'_> {
    fn peek(&self) -> Option<char> {
        let rest = &self.text[self.at..];
        if rest.starts_with("\r\n") { Some('\n') } else { rest.chars().next() }
    }

    fn next_if(&mut self, wanted: impl Fn(&char) -> bool) -> Option<char> {
        self.peek().filter(wanted)?;
        self.next()
    }
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += if self.text[self.at..].starts_with("\r\n") { 2 } else { c.len_utf8() };
        Some(c)
    }
}

/// Parses the text between `[` and `]`.
fn header(chars: &mut Chars<'_>) -> Result<(String, Option<String>), ConfigError> {
    let mut name = String::new();
    loop {
        match chars.next() {
            Some(']') => break,
            Some(c) if c.is_ascii_alphanumeric() || c == '-' || c == '.' => name.push(c.to_ascii_lowercase()),
            Some(' ' | '\t') => return Ok((name, Some(quoted_section(chars)?))),
            _ => return Err("a section that doesn't end".into()),
        }
    }
    // The old form: `[section.sub]`.
    Ok(match name.split_once('.') {
        Some((section, sub)) => (section.to_owned(), Some(sub.to_owned())),
        None => (name, None),
    })
}

fn quoted_section(chars: &mut Chars<'_>) -> Result<String, ConfigError> {
    let unfinished = || ConfigError::from("a section that doesn't end");
    while matches!(chars.peek(), Some(' ' | '\t')) {
        chars.next();
    }
    if chars.next() != Some('"') {
        return Err(unfinished());
    }
    let mut sub = String::new();
    loop {
        match chars.next() {
            Some('"') => break,
            Some('\\') => sub.push(chars.next().filter(|c| *c != '\n').ok_or_else(unfinished)?),
            Some('\n') | None => return Err(unfinished()),
            Some(c) => sub.push(c),
        }
    }
    if chars.next() == Some(']') { Ok(sub) } else { Err(unfinished()) }
}

fn assignment(chars: &mut Chars<'_>) -> Result<(String, Option<String>), ConfigError> {
    let mut key = String::new();
    while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '-') {
        key.push(c.to_ascii_lowercase());
    }
    while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
    match chars.next() {
        None | Some('\n') => return Ok((key, None)),
        Some('#' | ';') => {
            while chars.next().is_some_and(|c| c != '\n') {}
            return Ok((key, None));
        }
        Some('=') => {}
        Some(c) => return Err(format!("`{c}` after the key `{key}`").into()),
    }
    let (mut value, mut quoted, mut end) = (String::new(), false, 0);
    loop {
        match chars.next() {
            None | Some('\n') if quoted => return Err(format!("the value of `{key}` doesn't end").into()),
            None | Some('\n') => break,
            Some('"') => {
                quoted = !quoted;
                end = value.len();
            }
            Some('\\') => {
                match chars.next() {
                    Some('\n') => continue,
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('b') => value.push('\u{8}'),
                    Some(c @ ('"' | '\\')) => value.push(c),
                    _ => {
                        return Err(format!("an escape in the value of `{key}` that git doesn't know").into());
                    }
                }
                end = value.len();
            }
            Some('#' | ';') if !quoted => {
                while chars.next().is_some_and(|c| c != '\n') {}
                break;
            }
            Some(c) if is_space(c) && !quoted => {
                if !value.is_empty() {
                    value.push(c);
                }
            }
            Some(c) => {
                value.push(c);
                end = value.len();
            }
        }
    }
    value.truncate(end);
    Ok((key, Some(value)))
}

/// Renders entries as a file.
pub fn render<'e>(entries: impl IntoIterator<Item = &'e ConfigEntry>) -> Vec<u8> {
    let escaped = |text: &str| {
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
            .replace('\t', "\\t")
            .replace('\u{8}', "\\b")
    };
    let mut text = String::new();
    let mut section: Option<(&str, Option<&str>)> = None;
    for entry in entries {
        let this = (entry.section.as_str(), entry.sub.as_deref());
        if section != Some(this) {
            let _ = match this.1 {
                Some(sub) => {
                    let sub = sub.replace('\\', "\\\\").replace('"', "\\\"");
                    writeln!(text, "[{} \"{sub}\"]", this.0)
                }
                None => writeln!(text, "[{}]", this.0),
            };
            section = Some(this);
        }
        let _ = match &entry.value {
            Some(value) => {
                if needs_quotes(value) {
                    writeln!(text, "\t{} = \"{}\"", entry.key, escaped(value))
                } else {
                    writeln!(text, "\t{} = {}", entry.key, escaped(value))
                }
            }
            None => writeln!(text, "\t{}", entry.key),
        };
    }
    text.into_bytes()
}

/// Returns whether git itself would quote a value.
fn needs_quotes(value: &str) -> bool {
    value.trim() != value || value.contains([';', '#', '\r'])
}

/// The result of merging a configuration that a command could write.
#[derive(Debug, PartialEq, Eq)]
pub enum ConfigMerge {
    /// The new text is kept.
    Stays,
    /// The text to write instead, and the keys whose changes are reverted.
    Undone(Vec<u8>, Vec<String>),
}

/// Reverts every change that [`may_set`] doesn't permit.
///
/// Existing entries keep their spelling. New entries that are permitted follow them, as git would write
/// them.
pub fn merge(old: &[u8], new: &[u8]) -> ConfigMerge {
    if old == new {
        return ConfigMerge::Stays;
    }
    let Ok(before) = parse_spans(old) else {
        return ConfigMerge::Undone(
            old.to_owned(),
            vec!["all of it (what was there before can't be read)".into()],
        );
    };
    let Ok(after) = parse(new) else {
        return ConfigMerge::Undone(old.to_owned(), vec!["all of it (it can't be read any more)".into()]);
    };
    let (free, kept): (Vec<_>, Vec<_>) = before.into_iter().partition(|(entry, _)| may_set(entry));
    let kept: Vec<ConfigEntry> = kept.into_iter().map(|(entry, _)| entry).collect();
    let (wanted, found): (Vec<ConfigEntry>, Vec<ConfigEntry>) = after.into_iter().partition(may_set);
    if kept == found {
        return ConfigMerge::Stays;
    }
    let differs = |entry: &&ConfigEntry| {
        let count = |entries: &[ConfigEntry]| entries.iter().filter(|other| other == entry).count();
        count(&kept) != count(&found)
    };
    let mut names: Vec<String> = kept.iter().chain(&found).filter(differs).map(ConfigEntry::name).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        names.push("the order of entries".into());
    }
    // Each wanted entry either exists in the old text or is added to it.
    let mut added = wanted.clone();
    let gone = free.iter().filter(|(entry, _)| match added.iter().position(|other| other == entry) {
        Some(at) => {
            added.remove(at);
            false
        }
        None => true,
    });
    let mut bytes = without(old, gone.map(|(_, span)| span.clone()));
    if !added.is_empty() {
        if bytes.last().is_some_and(|last| *last != b'\n') {
            bytes.push(b'\n');
        }
        bytes.extend(render(&added));
    }
    if says(&bytes, &kept, &wanted) {
        ConfigMerge::Undone(bytes, names)
    } else {
        // The values of one key are in a different order: then none of them stays.
        names.push("the order of others".into());
        ConfigMerge::Undone(old.to_owned(), names)
    }
}

/// Removes the entries that may not stay, and returns the text with their names. `None` if all may stay or
/// if the text can't be parsed.
pub fn remove_entries(bytes: &[u8], may: impl Fn(&ConfigEntry) -> bool) -> Option<(Vec<u8>, Vec<String>)> {
    let entries = parse_spans(bytes).ok()?;
    let out: Vec<&(ConfigEntry, Range<usize>)> = entries.iter().filter(|(entry, _)| !may(entry)).collect();
    let names: Vec<String> = out.iter().map(|(entry, _)| entry.name()).collect();
    (!names.is_empty()).then(|| (without(bytes, out.iter().map(|(_, span)| span.clone())), names))
}

/// Removes entries from the text. A line with nothing else on it is removed with its newline.
fn without(text: &[u8], spans: impl Iterator<Item = Range<usize>>) -> Vec<u8> {
    let (mut rest, mut from) = (Vec::new(), 0);
    for span in spans {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let indent = text[..span.start].iter().rev().take_while(|byte| blank(byte)).count();
        let begin = span.start - indent;
        let alone = begin == 0 || text[begin - 1] == b'\n';
        rest.extend(&text[from..begin.max(from)]);
        // The text before the entry on its line keeps the newline.
        if !alone && text[..span.end].ends_with(b"\n") {
            rest.push(b'\n');
        }
        from = span.end;
    }
    rest.extend(&text[from..]);
    rest
}

/// Returns whether a text contains the fixed entries in this order, and the other entries in the same order
/// for each key.
fn says(bytes: &[u8], fixed: &[ConfigEntry], free: &[ConfigEntry]) -> bool {
    let Ok(entries) = parse(bytes) else { return false };
    let (mut found_free, found_fixed): (Vec<ConfigEntry>, Vec<ConfigEntry>) =
        entries.into_iter().partition(may_set);
    let mut free = free.to_vec();
    // The sort is stable, so entries with the same name keep their order.
    found_free.sort_by_key(ConfigEntry::name);
    free.sort_by_key(ConfigEntry::name);
    found_fixed == fixed && found_free == free
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> String {
        let entries = parse(text.as_bytes()).unwrap();
        let line =
            |entry: &ConfigEntry| format!("{}={}", entry.name(), entry.value.as_deref().unwrap_or("-"));
        entries.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn reads_what_git_reads() {
        let text = "\u{feff}[Core] bare = false ; said\n\tEditor = \"a;b\" c  # x\n[remote \"o\\\"r\"]\r\n  url=a\\\nb\n\tpush\n[a.B]\nk = \"x\\n\"";
        assert_eq!(
            listed(text),
            "core.bare=false; core.editor=a;b c; remote.o\"r.url=ab; remote.o\"r.push=-; a.b.k=x\n"
        );
        for broken in ["k = v", "[a", "[a]\nk = \"x", "[a]\n= v", "[a]\nk = \\q", "[a]\nk v", "[a \"b]"] {
            assert!(parse(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn rendered_entries_parse_to_themselves() {
        let text = "[core]\nbare = false\nignorecase\n[remote \"a b\\\\\"]\nurl = \"x\\ty \\\"z\\\" \\\\\"\n";
        let entries = parse(text.as_bytes()).unwrap();
        assert_eq!(parse(&render(&entries)).unwrap(), entries);
    }

    #[test]
    fn only_harmless_changes_stay() {
        let old = "# mine\n[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a/b\n";
        let stays = |new: &str| merge(old.as_bytes(), new.as_bytes()) == ConfigMerge::Stays;
        assert!(stays(&format!("{old}[branch \"x\"]\nremote = origin\nmerge = refs/heads/x\n")));
        assert!(stays(&format!("{old}[remote \"two\"]\nurl = git@host:a\nfetch = +refs/*:refs/*\n")));
        assert!(stays("[core]\nbare = false\n"), "a remote may be taken away");
        let undone = |added: &str| match merge(old.as_bytes(), format!("{old}{added}").as_bytes()) {
            ConfigMerge::Undone(bytes, names) => (String::from_utf8(bytes).unwrap(), names.join(" ")),
            ConfigMerge::Stays => panic!("{added} stays"),
        };
        assert_eq!(undone("[core]\nfsmonitor = evil\n"), (old.into(), "core.fsmonitor".into()));
        assert_eq!(undone("[remote \"x\"]\nurl = ext::sh -c evil\n"), (old.into(), "remote.x.url".into()));
        let (text, names) = undone("[branch \"b\"]\nremote = o\n[include]\npath = evil\n");
        assert_eq!(names, "include.path");
        assert_eq!(text, format!("{old}[branch \"b\"]\n\tremote = o\n"));
        assert_eq!(undone("[broken").0, old);
        assert!(stays(&format!("{old}[user]\nname = x\n[color \"diff\"]\n")), "keys that run nothing");
        assert_eq!(undone("[branch \"b\"]\nremote = ext::sh -c evil\n").1, "branch.b.remote");
        assert_eq!(undone("[color \"x\"]\npager = evil\n").1, "color.x.pager");
    }

    /// The user's text stays as written, whatever is removed next to it.
    #[test]
    fn what_was_there_stays_byte_for_byte() {
        let old = "\u{feff}# mine\r\n[core]  bare = false ; so\r\n\tEditor = \"a b\"\n[remote \"o\"] url = https://a/b\n\
                   \tfetch = \\\n  +refs\n\n[user]\n    name = Me  # mine\n    email = m@e";
        let new = "[core]\nbare = false\neditor = evil\n[remote \"two\"]\nurl = \"c;d\"\n[user]\nname = You\nemail = m@e\n";
        let ConfigMerge::Undone(bytes, names) = merge(old.as_bytes(), new.as_bytes()) else {
            panic!("it stays")
        };
        assert_eq!(names, ["core.editor"]);
        let kept = "\u{feff}# mine\r\n[core]  bare = false ; so\r\n\tEditor = \"a b\"\n[remote \"o\"]\n\n[user]\n    email = m@e\n";
        let added = "[remote \"two\"]\n\turl = \"c;d\"\n[user]\n\tname = You\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), format!("{kept}{added}"));
        // One key several times: the order counts, and values that aren't permitted are removed.
        let (old, new) =
            ("[remote \"o\"]\nurl = 1\nurl = 2\n", "[remote \"o\"]\nurl = 2\nurl = 1\n[x]\ny = z\n");
        let ConfigMerge::Undone(bytes, _) = merge(old.as_bytes(), new.as_bytes()) else { panic!("it stays") };
        assert_eq!(bytes, old.as_bytes());
    }
}
