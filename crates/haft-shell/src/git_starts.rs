//! What `git` is told to run: by settings on the command line, by options of its sub-commands, and by addresses.
//!
//! A setting is one of three: known to name a program, known not to, or a doubt. The list of those that don't is what
//! people set on a command line; new versions bring new settings that run something, and those are in no list.

use super::told::Told;
use super::wrap::plain_words;
use super::{Word, globals};

/// What a setting does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// Runs nothing.
    Harmless,
    /// Its value is a program or a text for a shell.
    Runs,
    /// Its value is a text for a shell after `!`, and else a sub-command of git.
    Alias,
    /// Its value is a program after `!`, and else nothing that runs.
    Bang,
    /// A program by its path, or something that says whether there is one.
    Monitor,
    Unknown,
}

/// Settings that run nothing: whole sections, and names.
const HARMLESS: &[&str] = &[
    "advice.",
    "apply.",
    "author.",
    "blame.",
    "branch.",
    "color.",
    "column.",
    "commit.cleanup",
    "commit.gpgsign",
    "commit.verbose",
    "committer.",
    "core.abbrev",
    "core.autocrlf",
    "core.bare",
    "core.bigfilethreshold",
    "core.checkstat",
    "core.commentchar",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.quotepath",
    "core.safecrlf",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "diff.statgraphwidth",
    "diff.submodule",
    "diff.wserrorhighlight",
    "feature.",
    "fetch.",
    "format.pretty",
    "gc.auto",
    "grep.",
    "http.extraheader",
    "http.lowspeedlimit",
    "http.lowspeedtime",
    "http.postbuffer",
    "http.sslverify",
    "http.version",
    "i18n.",
    "index.",
    "init.defaultbranch",
    "log.",
    "merge.conflictstyle",
    "merge.ff",
    "merge.log",
    "merge.renamelimit",
    "merge.renames",
    "pack.",
    "protocol.version",
    "pull.",
    "push.",
    "rebase.",
    "rerere.",
    "safe.directory",
    "stash.",
    "status.",
    "submodule.recurse",
    "tag.gpgsign",
    "tag.sort",
    "user.",
    "versionsort.",
];

/// Settings whose value is run: the section and the last part of the name.
const RUNS: &[(&str, &str)] = &[
    ("core", "pager"),
    ("core", "editor"),
    ("core", "sshcommand"),
    ("core", "askpass"),
    ("core", "gitproxy"),
    ("core", "alternaterefscommand"),
    ("pager", ""),
    ("sequence", "editor"),
    ("diff", "external"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("difftool", "cmd"),
    ("difftool", "path"),
    ("mergetool", "cmd"),
    ("mergetool", "path"),
    ("merge", "driver"),
    ("filter", "clean"),
    ("filter", "smudge"),
    ("filter", "process"),
    ("gpg", "program"),
    ("interactive", "difffilter"),
    ("uploadpack", "packobjectshook"),
    ("browser", "cmd"),
    ("browser", "path"),
    ("man", "cmd"),
    ("man", "path"),
    ("guitool", "cmd"),
    ("trailer", "command"),
    ("trailer", "cmd"),
    ("sendemail", "tocmd"),
    ("sendemail", "cccmd"),
    ("sendemail", "headercmd"),
    ("sendemail", "sendmailcmd"),
    ("remote", "uploadpack"),
    ("remote", "receivepack"),
    ("tar", "command"),
    ("hook", "command"),
    ("gpg", "defaultkeycommand"),
];

fn setting(key: &str) -> Setting {
    let key = key.to_ascii_lowercase();
    let section = key.split('.').next().unwrap_or_default();
    let last = key.rsplit('.').next().unwrap_or_default();
    if RUNS.iter().any(|(of, name)| *of == section && (name.is_empty() || *name == last)) {
        return Setting::Runs;
    }
    match (section, last) {
        ("alias", _) => Setting::Alias,
        ("credential", "helper") | ("submodule", "update") => Setting::Bang,
        ("core", "fsmonitor") => Setting::Monitor,
        // A section in which a name runs something is judged by its names.
        _ => {
            let known = |one: &str| if one.ends_with('.') { key.starts_with(one) } else { key == one };
            if HARMLESS.iter().any(|one| known(one)) { Setting::Harmless } else { Setting::Unknown }
        }
    }
}

/// A setting that is given, with its value; nothing if that isn't known.
fn set(key: &str, value: Option<&str>, told: &mut Told) {
    let kind = setting(key);
    if kind == Setting::Harmless {
        return;
    }
    let Some(value) = value else { return told.unknown() };
    match kind {
        Setting::Harmless => {}
        Setting::Runs if matches!(value, "" | "true" | "false" | "cat") => {}
        Setting::Runs => told.program(value),
        Setting::Alias => match value.strip_prefix('!') {
            Some(text) => told.program(text),
            None => match plain_words(value) {
                Some(words) => {
                    let mut argv = vec![Word::Literal("git".to_owned())];
                    argv.extend(words);
                    argv.push(Word::anything());
                    told.words(argv);
                }
                None => told.unknown(),
            },
        },
        Setting::Bang => match value.strip_prefix('!') {
            Some(text) => told.program(text),
            // Of an absolute path, and else one of git's own by name.
            None if value.starts_with('/') => told.program(value),
            None if value.is_empty() || plain_words(value).is_some_and(|words| words.len() == 1) => {}
            None => told.unknown(),
        },
        Setting::Monitor if matches!(value, "" | "true" | "false" | "0" | "1") => {}
        Setting::Monitor => told.program(value),
        Setting::Unknown => told.unknown(),
    }
}

/// A word of the form `key=value`, of which the key at least must be known.
fn pair(text: &str, known: bool, told: &mut Told) {
    match text.split_once('=') {
        Some((key, value)) => set(key, known.then_some(value), told),
        None if known => set(text, Some("true"), told),
        None => told.unknown(),
    }
}

/// The value of an option: attached to it, or the next word.
fn value<'w>(word: &'w Word, option: &str, next: Option<&'w Word>) -> Option<(&'w str, bool)> {
    let known = word.literal().is_some();
    let rest = word.prefix().strip_prefix(option)?;
    if rest.is_empty() && known {
        return next.map(|next| (next.prefix(), next.literal().is_some()));
    }
    match option.starts_with("--") {
        true => rest.strip_prefix('=').map(|rest| (rest, known)),
        false => Some((rest, known)),
    }
}

/// What this `git` is told to run.
pub(super) fn by(argv: &[Word], told: &mut Told) {
    let Some(verb) = globals::verb(argv, 1) else { return front(&argv[1..], told) };
    front(&argv[1..verb], told);
    let Some(name) = argv[verb].literal() else { return };
    let arguments = &argv[verb + 1..];
    let each = |options: &[&str], told: &mut Told, shell: bool| {
        for (at, word) in arguments.iter().enumerate() {
            if word.literal() == Some("--") {
                break;
            }
            if let Some((text, known)) =
                options.iter().find_map(|option| value(word, option, arguments.get(at + 1)))
            {
                match (known, shell) {
                    (false, _) => told.unknown(),
                    (true, true) => told.text(text),
                    (true, false) => told.program(text),
                }
            }
        }
    };
    match name {
        "rebase" => each(&["-x", "--exec"], told, true),
        "bisect" if arguments.first().and_then(Word::literal) == Some("run") => {
            told.words(arguments[1..].to_vec())
        }
        "submodule" | "submodule--helper" => submodule(arguments, told),
        "filter-branch" => {
            let filters = arguments.iter().enumerate().filter(|(_, word)| {
                word.prefix().starts_with("--") && word.prefix().contains("-filter")
                    || word.prefix() == "--setup"
            });
            for (at, word) in filters {
                match (
                    word.literal().and_then(|text| text.split_once('=')),
                    arguments.get(at + 1).and_then(Word::literal),
                ) {
                    (Some((_, text)), _) | (None, Some(text)) => told.text(text),
                    _ => told.unknown(),
                }
            }
            told.exact = Some("runs what it is given");
        }
        "difftool" => each(&["-x", "--extcmd"], told, false),
        "clone" => {
            each(&["-u", "--upload-pack"], told, false);
            settings(arguments, &["-c", "--config"], told);
            templates(arguments, told);
            addresses(arguments, told);
        }
        "init" => templates(arguments, told),
        "fetch" | "pull" | "fetch-pack" | "ls-remote" => {
            each(&["--upload-pack", "--exec"], told, false);
            addresses(arguments, told);
        }
        "push" | "send-pack" => {
            each(&["--receive-pack", "--exec"], told, false);
            addresses(arguments, told);
        }
        "archive" => each(&["--exec"], told, false),
        "daemon" => each(&["--access-hook"], told, false),
        "svn" => each(&["--authors-prog"], told, false),
        "remote" => addresses(arguments, told),
        "grep" => {
            let attached = |word: &Word| {
                word.prefix().strip_prefix("-O").filter(|rest| !rest.is_empty()).map(str::to_owned)
            };
            for word in arguments {
                if let Some(text) = attached(word)
                    .or_else(|| word.literal()?.strip_prefix("--open-files-in-pager=").map(str::to_owned))
                {
                    told.program(&text);
                } else if word.prefix().starts_with("-O") || word.prefix().starts_with("--open") {
                    told.unknown();
                }
            }
        }
        "config" => config(arguments, told),
        "send-email" => {
            each(&["--to-cmd", "--cc-cmd", "--sendmail-cmd", "--header-cmd"], told, false);
            each(&["--smtp-server"], told, false);
        }
        "hook" if arguments.first().and_then(Word::literal) == Some("run") => told.unknown(),
        "for-each-repo" => told.words([&[Word::Literal("git".to_owned())], arguments].concat()),
        "instaweb" => each(&["-d", "--httpd", "-b", "--browser"], told, false),
        "web--browse" => each(&["-b", "--browser", "-t", "--tool"], told, false),
        "credential" | "mergetool" => told.exact = Some("starts another command"),
        // What a remote helper is given it runs.
        "remote-ext" => told.unknown(),
        _ => {}
    }
    short_of_names(name, arguments, told);
}

/// Long options may be shortened: what is a beginning of one that runs counts, read or not.
fn short_of_names(name: &str, arguments: &[Word], told: &mut Told) {
    let long: &[&str] = match name {
        "rebase" => &["exec"],
        "difftool" => &["extcmd"],
        "clone" => &["upload-pack", "config", "template"],
        "fetch" | "pull" | "ls-remote" | "fetch-pack" => &["upload-pack"],
        "push" | "send-pack" => &["receive-pack", "exec"],
        "grep" => &["open-files-in-pager"],
        "archive" => &["exec"],
        _ => return,
    };
    let begins = |word: &Word| {
        let option = word.prefix().strip_prefix("--").map(|text| text.split('=').next().unwrap_or(text));
        option.is_some_and(|option| {
            option.len() > 1 && long.iter().any(|long| long.starts_with(option) && *long != option)
        })
    };
    if arguments.iter().any(begins) {
        told.unknown();
    }
}

/// The options of git itself.
fn front(words: &[Word], told: &mut Told) {
    settings(words, &["-c"], told);
    for (at, word) in words.iter().enumerate() {
        let text = word.prefix();
        if let Some((setting, _)) = value(word, "--config-env", words.get(at + 1)) {
            // The value is in a variable.
            set(setting.split('=').next().unwrap_or(setting), None, told);
        }
        if text.starts_with("--exec-path=") {
            told.unknown();
        }
    }
    if words.iter().any(|word| matches!(word.prefix(), "-c" | "--config-env")) && told.exact.is_none() {
        told.exact = Some("can be told to run another command");
    }
}

fn settings(words: &[Word], options: &[&str], told: &mut Told) {
    for (at, word) in words.iter().enumerate() {
        if let Some((text, known)) = options.iter().find_map(|option| value(word, option, words.get(at + 1)))
        {
            pair(text, known, told);
            told.exact = told.exact.or(Some("can be told to run another command"));
        }
    }
}

fn templates(arguments: &[Word], told: &mut Told) {
    // A template brings hooks along.
    if arguments
        .iter()
        .any(|word| word.prefix().starts_with("--template") && word.literal() != Some("--template="))
    {
        told.unknown();
    }
}

/// Addresses that are commands: `ext::sh -c …`, and helpers by their name.
fn addresses(arguments: &[Word], told: &mut Told) {
    for word in arguments {
        let text = word.prefix();
        if let Some(command) = text.strip_prefix("ext::") {
            match word.literal() {
                Some(_) => told.text(command),
                None => told.unknown(),
            }
        } else if text.split_once("::").is_some_and(|(helper, _)| {
            !helper.is_empty() && helper.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        }) {
            told.unknown();
        }
    }
}

fn submodule(arguments: &[Word], told: &mut Told) {
    let Some(at) = arguments.iter().position(|word| word.literal() == Some("foreach")) else { return };
    let rest = &arguments[at + 1..];
    let from = rest.iter().position(|word| !word.prefix().starts_with('-')).unwrap_or(rest.len());
    match &rest[from..] {
        [] => {}
        [only] => told.value(Some(only), true),
        words => told.words(words.to_vec()),
    }
}

/// `git config key value`: what is set runs later.
fn config(arguments: &[Word], told: &mut Told) {
    let mut operands: Vec<&Word> = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.prefix() {
            "--get" | "--get-all" | "--get-regexp" | "--list" | "-l" | "--unset" | "--unset-all"
            | "--get-urlmatch" | "--remove-section" => return,
            "-f" | "--file" | "--blob" | "--type" | "--default" | "--comment" => {
                words.next();
            }
            "-e" | "--edit" => return told.exact = Some("starts another command"),
            text if text.len() > 1 && text.starts_with('-') => {}
            _ => operands.push(word),
        }
    }
    if operands.first().and_then(|word| word.literal()).is_some_and(|verb| matches!(verb, "set" | "--add")) {
        operands.remove(0);
    }
    if operands.first().and_then(|word| word.literal()).is_some_and(|verb| {
        matches!(verb, "get" | "list" | "unset" | "remove-section" | "rename-section" | "edit")
    }) {
        return;
    }
    match operands[..] {
        [] | [_] => {}
        [key, value, ..] => match key.literal() {
            Some(key) => {
                // What nobody knows can be set, as it was by hand: only an exact rule allows it.
                if setting(key) == Setting::Unknown {
                    told.exact = Some("changes how git works");
                } else {
                    set(key, value.literal(), told);
                }
            }
            None => told.unknown(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_run_and_settings_that_do_not() {
        for key in [
            "core.pager",
            "CORE.Pager",
            "pager.log",
            "diff.x.textconv",
            "filter.lfs.smudge",
            "core.sshCommand",
        ] {
            assert_eq!(setting(key), Setting::Runs, "{key}");
        }
        assert_eq!(setting("alias.x"), Setting::Alias);
        assert_eq!(setting("credential.https://x.io.helper"), Setting::Bang);
        for key in ["user.name", "color.ui", "core.quotePath", "commit.gpgSign", "advice.detachedHead"] {
            assert_eq!(setting(key), Setting::Harmless, "{key}");
        }
        for key in
            ["core.hooksPath", "include.path", "x.y", "url.x.insteadOf", "core.worktree", "init.templateDir"]
        {
            assert_eq!(setting(key), Setting::Unknown, "{key}");
        }
    }
}
