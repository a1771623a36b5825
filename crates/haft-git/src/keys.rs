//! The meaning of configuration keys: one table for all callers.
//!
//! Each row answers two questions. *Starts* says what git does with the value: nothing relevant, run it, or
//! treat it as an alias or an address. The shell analysis uses it for `git -c key=value`. *Set* says
//! whether a command may leave the key changed in the configuration of a repository. The sandbox uses it
//! after a command.
//!
//! The columns differ on purpose. A key given with `-c` applies to one command, which the rules have
//! evaluated. A key that stays in a configuration applies to every later git command of the user, outside
//! of the sandbox. So a key that starts nothing may still be held; each such row says why. Conversely, some
//! keys may be set although `-c` asks about them: their *value* is checked (an address), or they matter
//! only once they stay (`remote.*.fetch`).
//!
//! A key without a row counts as starting something unknown, and is held.

use crate::config::ConfigEntry;

/// Returns what git does with the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEffect {
    /// It starts nothing, reads no file that says what runs, and reaches no host.
    Nothing,
    /// It runs the value in a shell. Empty, `true`, `false` and `cat` are harmless.
    Program,
    /// The same, but a boolean value switches a built-in feature on or off.
    Monitor,
    /// It runs the value after a `!`, or starts git again with the value as its first arguments.
    Alias,
    /// It runs the value after a `!`, or a value that is an absolute path. Any other value names one of
    /// git's own programs.
    Helper,
    /// It connects to the value, which may be `helper::address`.
    Address,
    /// Unknown, although the name suggests a program. No decision may rely on it being harmless.
    LikelyProgram,
    /// Unknown.
    Unknown,
}

/// Whether a command may leave a key changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyChange {
    /// Yes.
    Free,
    /// Yes, to an address that starts no program. The caller checks where it leads, since the caller knows
    /// where commands write.
    Address,
    /// Only in a repository that a command has created.
    InNew,
    /// Only in a repository that a command has created, and only to one of these values.
    InNewAs(&'static str),
    /// No.
    Held,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct KeyRule {
    /// Names in lower case, with `*` for anything.
    pub names: &'static str,
    /// What git does with the value.
    pub starts: KeyEffect,
    /// Whether a command may leave the key changed.
    pub set: KeyChange,
    /// Why the two columns differ, if they do.
    pub why: &'static str,
}

use KeyChange::{Free, Held, InNew, InNewAs};
use KeyEffect::{Alias, Helper, LikelyProgram, Monitor, Nothing, Program, Unknown};

const fn row(names: &'static str, starts: KeyEffect, set: KeyChange, why: &'static str) -> KeyRule {
    KeyRule { names, starts, set, why }
}

/// A key that starts nothing and may stay changed.
const fn harmless(names: &'static str) -> KeyRule {
    row(names, Nothing, Free, "")
}

/// A key that starts nothing and is held anyway.
const fn lasting(names: &'static str, why: &'static str) -> KeyRule {
    row(names, Nothing, Held, why)
}

const UNUSUAL: &str =
    "no ordinary command sets it, so nothing is lost by holding what newer versions of git may add to it";
const JUDGED: &str = "the sandbox judges the value, which is known once it is written";

/// The table. The first matching row applies.
pub const KEYS: &[KeyRule] = &[
    // Keys that run programs.
    row(
        "core.pager core.editor core.sshcommand core.askpass core.gitproxy core.alternaterefscommand pager.* \
         sequence.editor diff.external diff.*.command diff.*.textconv difftool.*.cmd difftool.*.path mergetool.*.cmd \
         mergetool.*.path merge.*.driver filter.*.clean filter.*.smudge filter.*.process gpg.program gpg.*.program \
         interactive.difffilter uploadpack.packobjectshook browser.*.cmd browser.*.path man.*.cmd man.*.path guitool.*.cmd \
         trailer.*.command trailer.*.cmd sendemail.tocmd sendemail.cccmd sendemail.headercmd sendemail.sendmailcmd \
         sendemail.*.tocmd sendemail.*.cccmd sendemail.*.headercmd sendemail.*.sendmailcmd remote.*.uploadpack \
         remote.*.receivepack tar.*.command hook.*.command gpg.*.defaultkeycommand gpg.defaultkeycommand",
        Program,
        Held,
        "",
    ),
    row("core.fsmonitor", Monitor, Held, ""),
    row("alias.*", Alias, Held, ""),
    row("credential.helper credential.*.helper submodule.*.update", Helper, Held, ""),
    // Branches and remotes, which ordinary commands set.
    row("branch.*.mergeoptions", Unknown, Held, ""),
    row("branch.*.remote branch.*.pushremote", KeyEffect::Address, KeyChange::Address, ""),
    harmless("branch.*.* branch.autosetupmerge branch.autosetuprebase branch.sort"),
    lasting("branch.*", UNUSUAL),
    row("remote.*.url submodule.*.url", Unknown, KeyChange::Address, JUDGED),
    row(
        "remote.*.fetch submodule.*.active",
        Unknown,
        Free,
        "on the command line it changes what is fetched or entered",
    ),
    row("submodule.active", Unknown, InNew, "`git clone --recurse-submodules` writes it"),
    row("remote.*.tagopt", Unknown, InNewAs("--tags --no-tags"), "`git clone` writes it"),
    row("remote.*.mirror", Unknown, InNewAs("true"), "`git clone --mirror` writes it"),
    // Keys that `git sparse-checkout` writes. They make git read a configuration that is checked like this
    // one.
    row(
        "extensions.worktreeconfig core.sparsecheckout core.sparsecheckoutcone",
        Unknown,
        Free,
        "it changes which files are there",
    ),
    harmless("index.sparse"),
    // Keys that `git init` writes.
    row("core.repositoryformatversion", Unknown, InNew, "`git init` writes it"),
    row(
        "core.bare",
        Nothing,
        InNew,
        "in a repository of the user's it changes where git takes the work tree and hooks from",
    ),
    row(
        "extensions.objectformat extensions.compatobjectformat",
        Unknown,
        InNewAs("sha1 sha256"),
        "`git init` writes it",
    ),
    row(
        "extensions.refstorage",
        Unknown,
        InNewAs("files reftable"),
        "`git init` writes it; newer versions take a place as well",
    ),
    // Keys for the behavior of git.
    lasting("advice.*.* color.*.* column.*.*", UNUSUAL),
    harmless("advice.* color.* column.*"),
    harmless(
        "author.email author.name committer.email committer.name user.email user.name user.useconfigonly",
    ),
    lasting("author.* committer.*", UNUSUAL),
    lasting("user.*", "which key signs is the user's choice"),
    harmless("commit.cleanup commit.status commit.verbose"),
    lasting("commit.gpgsign tag.gpgsign", "whether the user's commits are signed is the user's choice"),
    harmless(
        "core.abbrev core.autocrlf core.bigfilethreshold core.checkstat core.commentchar core.compression core.eol \
         core.filemode core.ignorecase core.logallrefupdates core.longpaths core.loosecompression core.precomposeunicode \
         core.preloadindex core.quotepath core.safecrlf core.symlinks core.trustctime core.untrackedcache core.whitespace",
    ),
    harmless("diff.algorithm diff.colormoved diff.context diff.mnemonicprefix diff.noprefix diff.renames"),
    lasting("diff.renamelimit diff.statgraphwidth diff.submodule diff.wserrorhighlight", UNUSUAL),
    harmless("fetch.prune fetch.prunetags"),
    lasting("fetch.*", "it may add an address or a filter to every later fetch"),
    harmless("gc.auto init.defaultbranch log.abbrevcommit log.date log.decorate"),
    lasting("log.*", UNUSUAL),
    harmless("merge.conflictstyle merge.ff merge.renamelimit merge.renames"),
    lasting("merge.log", UNUSUAL),
    row("pull.octopus pull.twohead", Unknown, Held, ""),
    harmless("pull.ff pull.rebase"),
    lasting("pull.*", "another key of the section names a strategy, which is a program"),
    harmless("push.autosetupremote push.default push.followtags"),
    lasting("push.*", "it may send more, or something else, at every later push"),
    harmless("rebase.autosquash rebase.autostash rebase.updaterefs"),
    lasting("rebase.*", UNUSUAL),
    harmless("rerere.autoupdate rerere.enabled"),
    lasting("rerere.*", UNUSUAL),
    harmless("status.branch status.short status.showuntrackedfiles tag.sort"),
    lasting("status.*", UNUSUAL),
    lasting(
        "submodule.recurse",
        "every later git of the user would enter submodules, whose configuration counts there",
    ),
    lasting(
        "http.extraheader http.lowspeedlimit http.lowspeedtime http.postbuffer http.sslverify http.version",
        "every later connection of the user would use it: `http.sslVerify=false` switches off checks",
    ),
    lasting("protocol.version", UNUSUAL),
    lasting("safe.directory", "it opens repositories of other users; git itself ignores it in a repository"),
    lasting(
        "feature.* index.* pack.*",
        "it changes the format of files that other versions and programs have to read",
    ),
    lasting("apply.* blame.* format.pretty grep.* i18n.* stash.* versionsort.*", UNUSUAL),
    // Names that suggest a program, in any section.
    row(
        "*.alternaterefscommand *.askpass *.clean *.cmd *.command *.difffilter *.driver *.editor *.external *.fsmonitor \
         *.gitproxy *.helper *.packobjectshook *.pager *.path *.process *.program *.receivepack *.receive-pack *.smtpserver \
         *.smudge *.sshcommand *.textconv *.tocmd *.uploadpack *.vcs",
        LikelyProgram,
        Held,
        "",
    ),
];

/// Returns the row for a key, given by its whole name: `remote.origin.url`. Case is ignored.
pub fn find(name: &str) -> Option<&'static KeyRule> {
    let name = name.to_ascii_lowercase();
    KEYS.iter().find(|rule| rule.names.split_ascii_whitespace().any(|pattern| fits_pattern(pattern, &name)))
}

/// Returns what git does with the value of a key.
pub fn effect(name: &str) -> KeyEffect {
    find(name).map_or(Unknown, |rule| rule.starts)
}

/// Returns whether git runs the value of an entry, as far as the key shows.
pub fn starts_program(entry: &ConfigEntry) -> bool {
    let by_shell = entry.value.as_deref().is_some_and(|value| value.trim_start().starts_with('!'));
    by_shell || matches!(effect(&entry.name()), Program | Monitor | Helper | LikelyProgram)
}

/// Returns whether a command may leave this entry changed in the configuration of a repository.
pub fn may_set(entry: &ConfigEntry) -> bool {
    match find(&entry.name()).map(|rule| rule.set) {
        Some(Free) => true,
        Some(KeyChange::Address) => {
            let value = entry.value.as_deref().unwrap_or_default();
            // `helper::address` makes git run a program.
            !value.starts_with('-') && !value.contains("::")
        }
        Some(InNew | InNewAs(_) | Held) | None => false,
    }
}

/// Returns whether this entry may be in the configuration of a repository that a command has created.
///
/// Entries are excluded that name a remote from which git fetches missing objects by itself (`promisor`,
/// `partialclone`): a `git status` would contact it.
pub fn may_be_new(entry: &ConfigEntry) -> bool {
    let value = entry.value.as_deref().unwrap_or_default();
    match find(&entry.name()).map(|rule| rule.set) {
        Some(InNew) => true,
        Some(InNewAs(values)) => values.split(' ').any(|known| known == value),
        _ => may_set(entry),
    }
}

/// Returns whether an entry is exactly one that `git lfs install` writes.
pub fn is_of_lfs(entry: &ConfigEntry) -> bool {
    const ENTRIES: [(&str, &str); 4] = [
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("filter.lfs.smudge", "git-lfs smudge -- %f"),
        ("filter.lfs.process", "git-lfs filter-process"),
        ("filter.lfs.required", "true"),
    ];
    let (name, value) = (entry.name(), entry.value.as_deref().unwrap_or_default());
    ENTRIES.contains(&(name.as_str(), value))
}

/// Returns whether a command may see an entry of the user's own configuration.
///
/// Excluded are secrets, references to files that don't exist in the sandbox, signing (the keys are hidden,
/// so every commit would fail), and aliases that are shell commands.
pub fn is_shown(entry: &ConfigEntry) -> bool {
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
    !SECTIONS.contains(&entry.section.as_str())
        && !NAMES.contains(&plain.as_str())
        && !SECRET.iter().any(|part| entry.key.contains(part))
        && !shell
        && !has_user(value)
        && !entry.sub.as_deref().is_some_and(has_user)
}

/// Returns whether a text contains an address with a user name, and possibly a password.
pub fn has_user(text: &str) -> bool {
    text.match_indices("://").any(|(at, _)| {
        let scheme = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '+').next();
        let host = text[at + 3..].split(['/', ' ', '"', '\'']).next().unwrap_or_default();
        host.contains('@') && !scheme.is_some_and(|scheme| scheme.ends_with("ssh"))
    })
}

/// Returns whether a text matches a pattern in which `*` matches anything.
pub fn fits_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((front, "")) => text.starts_with(front),
        Some((front, rest)) => text.strip_prefix(front).is_some_and(|tail| {
            let mut ends = (0..=tail.len()).filter(|at| tail.is_char_boundary(*at));
            ends.any(|at| fits_pattern(rest, &tail[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn entry(text: &str) -> ConfigEntry {
        parse(text.as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn every_difference_between_the_columns_is_explained() {
        for rule in KEYS {
            let differs = match (rule.starts, rule.set) {
                (Nothing, Free) | (KeyEffect::Address, KeyChange::Address) => false,
                (Nothing, _) | (_, Free | KeyChange::Address | InNew | InNewAs(_)) => true,
                (_, Held) => false,
            };
            assert_eq!(differs, !rule.why.is_empty(), "{}", rule.names);
        }
    }

    /// A row that is hidden by an earlier one would mislead the reader.
    #[test]
    fn every_row_counts() {
        for rule in KEYS {
            for pattern in rule.names.split_ascii_whitespace() {
                let name = pattern.replace('*', "x");
                assert_eq!(find(&name).unwrap().names, rule.names, "{pattern}");
            }
        }
    }

    #[test]
    fn nothing_that_runs_may_be_set() {
        for rule in KEYS {
            let runs = matches!(rule.starts, Program | Monitor | Alias | Helper | LikelyProgram);
            assert!(!runs || rule.set == Held, "{}", rule.names);
        }
        for text in [
            "[core]\nfsmonitor = true",
            "[core]\nhooksPath = x",
            "[include]\npath = x",
            "[url \"x\"]\ninsteadOf = y",
            "[remote \"o\"]\nvcs = x",
            "[remote \"o\"]\npushurl = x",
            "[remote \"o\"]\nurl = ext::x",
            "[remote \"o\"]\nurl = --upload-pack=x",
            "[branch \"b\"]\nremote = x::y",
            "[branch \"b\"]\nmergeOptions = -s x",
            "[submodule \"s\"]\nupdate = checkout",
            "[color \"x\"]\npager = x",
            "[advice \"x\"]\ny = z",
            "[core \"x\"]\nabbrev = 7",
            "[extensions]\npartialClone = o",
            "[unheard]\nof = 1",
        ] {
            assert!(!may_set(&entry(text)) && !may_be_new(&entry(text)), "{text}");
        }
    }

    #[test]
    fn ordinary_changes_may_stay() {
        for text in [
            "[branch \"a.b\"]\nmerge = refs/heads/a",
            "[branch \"a\"]\nremote = origin",
            "[branch \"A\"]\nremote = .",
            "[remote \"o\"]\nurl = git@host:a",
            "[remote \"o\"]\nfetch = +refs/*:refs/*",
            "[submodule \"s\"]\nactive = true",
            "[USER]\nName = x",
            "[color]\nui = auto",
            "[core]\nabbrev = 7",
        ] {
            assert!(may_set(&entry(text)), "{text}");
        }
        for text in [
            "[core]\nbare = true",
            "[core]\nrepositoryFormatVersion = 1",
            "[extensions]\nobjectFormat = sha256",
            "[remote \"o\"]\ntagOpt = --no-tags",
        ] {
            assert!(may_be_new(&entry(text)) && !may_set(&entry(text)), "{text}");
        }
        assert!(!may_be_new(&entry("[extensions]\nrefStorage = reftable://x")));
    }

    #[test]
    fn a_key_is_known_by_its_whole_name() {
        for (text, starts) in [
            ("[core]\npager = less", true),
            ("[filter \"x\"]\nclean = y", true),
            ("[alias]\nst = status", false),
            ("[alias]\nst = !x", true),
            ("[unheard]\ncmd = x", true),
            ("[user]\nname = x", false),
        ] {
            assert_eq!(starts_program(&entry(text)), starts, "{text}");
        }
        assert_eq!(effect("Core.Pager"), Program);
        assert_eq!((effect("remote.o.vcs"), effect("http.proxy")), (LikelyProgram, Unknown));
        assert!(is_of_lfs(&entry("[filter \"lfs\"]\nclean = git-lfs clean -- %f")));
        assert!(!is_of_lfs(&entry("[filter \"lfs\"]\nclean = \"git-lfs clean -- %f; x\"")));
        assert!(!is_of_lfs(&entry("[filter \"LFS\"]\nclean = git-lfs clean -- %f")));
    }

    #[test]
    fn a_command_sees_no_secrets_of_the_user() {
        let text = "[user]\nname = Me\nsigningkey = 1\n[credential]\nhelper = store\n[credential \"https://x\"]\nusername = me\n\
                    [include]\npath = ~/more\n[includeIf \"gitdir:~/w/\"]\npath = x\n[alias]\nst = status\nhi = !echo hi\n\
                    [url \"https://me:pw@host/\"]\ninsteadOf = gh:\n[url \"ssh://git@host/\"]\ninsteadOf = g:\n\
                    [http \"https://x\"]\nextraHeader = Authorization: t\n[commit]\ngpgsign = true\n[github]\ntoken = t\n[core]\npager = less\n";
        let entries = parse(text.as_bytes()).unwrap();
        let shown: Vec<String> =
            entries.iter().filter(|entry| is_shown(entry)).map(ConfigEntry::name).collect();
        assert_eq!(shown, ["user.name", "alias.st", "url.ssh://git@host/.insteadof", "core.pager"]);
    }
}
