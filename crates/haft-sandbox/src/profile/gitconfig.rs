//! Configuration of git: what of it a child may see, and which changes of it may stay.
//!
//! A configuration names programs that git runs (`core.fsmonitor`, `core.sshCommand`, filters, hooks), so who may write
//! one runs what they like at the user's next `git status`. Two readers: the user's own file, of which a child gets a
//! copy without secrets and without what leads elsewhere; and a repository's, which some commands have to write, after
//! which only the harmless keys stay.
//!
//! What can't be read as git reads it is an error, and its caller then takes the strict way.

use std::fmt::Write as _;

/// One line of a configuration, `section.sub.key = value`. Section and key are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: String,
    pub(super) sub: Option<String>,
    pub(super) key: String,
    /// None where the line has no `=`, which means true.
    pub(super) value: Option<String>,
}

impl Entry {
    /// As `git config --list` names it.
    pub(super) fn name(&self) -> String {
        match &self.sub {
            Some(sub) => format!("{}.{sub}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it isn't UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    if text.contains('\0') {
        return Err("it holds a NUL".into());
    }
    let mut entries = Vec::new();
    let mut section: Option<(String, Option<String>)> = None;
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        match c {
            c if c.is_whitespace() => drop(chars.next()),
            '#' | ';' => while chars.next().is_some_and(|c| c != '\n') {},
            '[' => {
                chars.next();
                section = Some(header(&mut chars)?);
            }
            c if c.is_ascii_alphabetic() => {
                let Some((section, sub)) = &section else { return Err("a key before any section".into()) };
                let (key, value) = assignment(&mut chars)?;
                entries.push(Entry { section: section.clone(), sub: sub.clone(), key, value });
            }
            c => return Err(format!("`{c}` where a section or a key should begin")),
        }
    }
    Ok(entries)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// What stands between `[` and `]`.
fn header(chars: &mut Chars<'_>) -> Result<(String, Option<String>), String> {
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

fn quoted_section(chars: &mut Chars<'_>) -> Result<String, String> {
    let unfinished = || "a section that doesn't end".to_owned();
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

fn assignment(chars: &mut Chars<'_>) -> Result<(String, Option<String>), String> {
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
        Some(c) => return Err(format!("`{c}` after the key `{key}`")),
    }
    let (mut value, mut quoted, mut end) = (String::new(), false, 0);
    loop {
        match chars.next() {
            None | Some('\n') if quoted => return Err(format!("the value of `{key}` doesn't end")),
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
                    _ => return Err(format!("an escape in the value of `{key}` that git doesn't know")),
                }
                end = value.len();
            }
            Some('#' | ';') if !quoted => {
                while chars.next().is_some_and(|c| c != '\n') {}
                break;
            }
            Some(c) if c.is_whitespace() && !quoted => {
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

/// The entries as a file.
pub(super) fn write<'e>(entries: impl IntoIterator<Item = &'e Entry>) -> Vec<u8> {
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
            Some(value) => writeln!(text, "\t{} = \"{}\"", entry.key, escaped(value)),
            None => writeln!(text, "\t{}", entry.key),
        };
    }
    text.into_bytes()
}

/// Whether a child may see an entry of the user's own configuration.
///
/// Left out: secrets, what leads to files that aren't there, signing (the keys are hidden, every commit would fail), and
/// aliases that are shell commands.
pub(super) fn is_shown(entry: &Entry) -> bool {
    const SECTIONS: [&str; 6] = ["credential", "include", "includeif", "gpg", "sendemail", "imap"];
    const NAMES: [&str; 14] = [
        "core.sshcommand",
        "core.askpass",
        "core.fsmonitor",
        "core.hookspath",
        "core.gitproxy",
        "core.worktree",
        "commit.gpgsign",
        "tag.gpgsign",
        "tag.forcesignannotated",
        "push.gpgsign",
        "user.signingkey",
        "http.extraheader",
        "http.cookiefile",
        "http.proxy",
    ];
    const SECRET: [&str; 8] =
        ["token", "password", "passwd", "secret", "apikey", "extraheader", "sslkey", "proxy"];
    let plain = format!("{}.{}", entry.section, entry.key);
    let value = entry.value.as_deref().unwrap_or_default();
    let shell = entry.section == "alias" && value.trim_start().starts_with('!');
    let with_user = |text: &str| has_user(text);
    !SECTIONS.contains(&entry.section.as_str())
        && !NAMES.contains(&plain.as_str())
        && !SECRET.iter().any(|part| entry.key.contains(part))
        && !shell
        && !with_user(value)
        && !entry.sub.as_deref().is_some_and(with_user)
}

/// Whether a text holds an address with a user, and perhaps a password, in it.
pub(super) fn has_user(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let scheme = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next();
        let host = text[at + 3..].split(['/', ' ', '"', '\'']).next().unwrap_or_default();
        host.contains('@') && !scheme.is_some_and(|scheme| scheme.ends_with("ssh"))
    })
}

/// Whether a command may change this entry of a repository's configuration.
pub(super) fn may_change(entry: &Entry) -> bool {
    let value = entry.value.as_deref().unwrap_or_default();
    match (entry.section.as_str(), &entry.sub, entry.key.as_str()) {
        ("branch", Some(_), _) => true,
        // `helper::address` has git run a program.
        ("remote", Some(_), "url") => !value.starts_with('-') && !value.contains("::"),
        ("remote", Some(_), "fetch") => true,
        // Not `update`, which may name a program.
        ("submodule", Some(_), "active") => true,
        ("submodule", Some(_), "url") => may_change(&remote_url(entry)),
        _ => false,
    }
}

/// Whether this entry may be in the configuration of a repository that a command has made.
pub(super) fn may_be_new(entry: &Entry) -> bool {
    const CORE: [&str; 7] = [
        "repositoryformatversion",
        "filemode",
        "bare",
        "logallrefupdates",
        "ignorecase",
        "precomposeunicode",
        "symlinks",
    ];
    const EXTENSIONS: [&str; 4] = ["objectformat", "compatobjectformat", "refstorage", "partialclone"];
    match (entry.section.as_str(), entry.sub.as_deref(), entry.key.as_str()) {
        ("core", None, key) => CORE.contains(&key),
        ("extensions", None, key) => EXTENSIONS.contains(&key),
        ("user", None, key) => key == "name" || key == "email",
        ("submodule", None, "active") => true,
        ("remote", Some(_), "promisor" | "partialclonefilter" | "tagopt") => true,
        _ => may_change(entry),
    }
}

fn remote_url(entry: &Entry) -> Entry {
    Entry { section: "remote".into(), sub: Some(String::new()), key: "url".into(), ..entry.clone() }
}

/// What becomes of a configuration that a command was let write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Merged {
    /// It stays as it is.
    Stays,
    /// It is to be written like this, because these keys were changed that may not be.
    Undone(Vec<u8>, Vec<String>),
}

/// Takes back every change but those that [`may_change`] lets through.
pub(super) fn merge(old: &[u8], new: &[u8]) -> Merged {
    if old == new {
        return Merged::Stays;
    }
    let Ok(before) = parse(old) else {
        return Merged::Undone(old.to_owned(), vec!["all of it, because it can't be read".into()]);
    };
    let Ok(after) = parse(new) else {
        return Merged::Undone(old.to_owned(), vec!["all of it, because it can't be read any more".into()]);
    };
    let fixed = |entries: &[Entry]| -> Vec<Entry> {
        entries.iter().filter(|entry| !may_change(entry)).cloned().collect()
    };
    let (kept, found) = (fixed(&before), fixed(&after));
    if kept == found {
        return Merged::Stays;
    }
    let differs = |entry: &&Entry| {
        let count = |entries: &[Entry]| entries.iter().filter(|other| other == entry).count();
        count(&kept) != count(&found)
    };
    let mut names: Vec<String> = kept.iter().chain(&found).filter(differs).map(Entry::name).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        names.push("the order of entries".into());
    }
    let free = |entries: &[Entry]| -> Vec<Entry> {
        entries.iter().filter(|entry| may_change(entry)).cloned().collect()
    };
    let wanted = free(&after);
    let bytes = match free(&before) == wanted {
        true => old.to_owned(),
        false => write(kept.iter().chain(&wanted)),
    };
    Merged::Undone(bytes, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> String {
        let entries = parse(text.as_bytes()).unwrap();
        let line = |entry: &Entry| format!("{}={}", entry.name(), entry.value.as_deref().unwrap_or("-"));
        entries.iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn it_is_read_as_git_reads_it() {
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
    fn what_is_written_reads_the_same() {
        let text = "[core]\nbare = false\nignorecase\n[remote \"a b\\\\\"]\nurl = \"x\\ty \\\"z\\\" \\\\\"\n";
        let entries = parse(text.as_bytes()).unwrap();
        assert_eq!(parse(&write(&entries)).unwrap(), entries);
    }

    #[test]
    fn a_child_sees_no_secrets_of_the_user() {
        let text = "[user]\nname = Me\nsigningkey = 1\n[credential]\nhelper = store\n[credential \"https://x\"]\nusername = me\n\
                    [include]\npath = ~/more\n[includeIf \"gitdir:~/w/\"]\npath = x\n[alias]\nst = status\nhi = !echo hi\n\
                    [url \"https://me:pw@host/\"]\ninsteadOf = gh:\n[url \"ssh://git@host/\"]\ninsteadOf = g:\n\
                    [http \"https://x\"]\nextraHeader = Authorization: t\n[commit]\ngpgsign = true\n[github]\ntoken = t\n[core]\npager = less\n";
        let entries = parse(text.as_bytes()).unwrap();
        let shown: Vec<String> = entries.iter().filter(|entry| is_shown(entry)).map(Entry::name).collect();
        assert_eq!(shown, ["user.name", "alias.st", "url.ssh://git@host/.insteadof", "core.pager"]);
    }

    #[test]
    fn only_harmless_changes_stay() {
        let old = "# mine\n[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://a/b\n";
        let stays = |new: &str| merge(old.as_bytes(), new.as_bytes()) == Merged::Stays;
        assert!(stays(&format!("{old}[branch \"x\"]\nremote = origin\nmerge = refs/heads/x\n")));
        assert!(stays(&format!("{old}[remote \"two\"]\nurl = git@host:a\nfetch = +refs/*:refs/*\n")));
        assert!(stays("[core]\nbare = false\n"), "a remote may be taken away");
        let undone = |added: &str| match merge(old.as_bytes(), format!("{old}{added}").as_bytes()) {
            Merged::Undone(bytes, names) => (String::from_utf8(bytes).unwrap(), names.join(" ")),
            Merged::Stays => panic!("{added} stays"),
        };
        assert_eq!(undone("[core]\nfsmonitor = evil\n"), (old.into(), "core.fsmonitor".into()));
        assert_eq!(undone("[remote \"x\"]\nurl = ext::sh -c evil\n"), (old.into(), "remote.x.url".into()));
        let (text, names) = undone("[branch \"b\"]\nremote = o\n[include]\npath = evil\n");
        assert_eq!(names, "include.path");
        assert_eq!(listed(&text), "core.bare=false; remote.origin.url=https://a/b; branch.b.remote=o");
        assert_eq!(undone("[broken").0, old);
    }
}
