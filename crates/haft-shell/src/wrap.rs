//! Programs that start other programs: which argument is the inner command, and how it is started.
//!
//! Options are read by a table. An option that isn't in it makes the inner command uncertain, and that is a doubt:
//! `timeout --new-option 5 rm x` may start `5`, or `rm`.

use super::options::{Found, Options};
use super::{Open, Started, Word, base_name, marks};

/// What a command starts in turn.
#[derive(Debug)]
pub(super) enum Inner {
    /// Nothing that can be told from its arguments.
    Nothing,
    /// The words from here on.
    Words { from: usize, started: Started, moved: bool },
    /// The same, with arguments that come from elsewhere or stand for others.
    Given { argv: Vec<Word>, from: usize, started: Started },
    /// A text that is parsed as commands, in this shell or another.
    Text { text: String, here: bool },
    /// Commands that come in from a pipe, a file or a here-document.
    Input,
    /// Commands between other arguments, as for `find`.
    Several(Vec<Vec<Word>>),
    /// Something, and which isn't known.
    Unknown,
    /// Commands from a file, a prompt or an alias.
    Elsewhere,
}

struct Wrapper {
    name: &'static str,
    started: Started,
    options: Options,
    /// How many arguments come before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    started: Started,
    flags: &'static str,
    valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, started, options: Options { flags, valued, long, long_valued }, operands }
}

use Started::{Executed, Wrapped};

const WRAPPERS: &[Wrapper] = &[
    wrapper(
        "timeout",
        Wrapped,
        "vfp",
        "ks",
        &["foreground", "preserve-status", "verbose"],
        &["kill-after", "signal"],
        1,
    ),
    wrapper("time", Wrapped, "pvlq", "f", &["portability", "verbose", "quiet"], &["format"], 0),
    wrapper("nice", Wrapped, "", "n", &[], &["adjustment"], 0),
    wrapper("nohup", Wrapped, "", "", &[], &[], 0),
    wrapper("stdbuf", Wrapped, "", "ioe", &[], &["input", "output", "error"], 0),
    wrapper("command", Wrapped, "p", "", &[], &[], 0),
    wrapper("builtin", Wrapped, "", "", &[], &[], 0),
    wrapper("noglob", Wrapped, "", "", &[], &[], 0),
    wrapper("exec", Executed, "cl", "a", &[], &[], 0),
    wrapper("busybox", Executed, "", "", &[], &[], 0),
    wrapper("toybox", Executed, "", "", &[], &[], 0),
    wrapper("setsid", Executed, "cfw", "", &["ctty", "fork", "wait"], &[], 0),
    wrapper("ionice", Executed, "t", "cn", &["ignore"], &["class", "classdata"], 0),
    wrapper("chrt", Executed, "abfimorRv", "", &[], &[], 1),
    wrapper("taskset", Executed, "ac", "", &["all-tasks", "cpu-list"], &[], 1),
    wrapper("doas", Executed, "ns", "uC", &[], &[], 0),
    wrapper(
        "sudo",
        Executed,
        "AbEHiklnPsSvKV",
        "ughpCrtTU",
        &["askpass", "background", "preserve-env", "set-home", "login", "non-interactive", "stdin", "shell"],
        &["user", "group", "host", "prompt", "close-from", "role", "type", "command-timeout", "other-user"],
        0,
    ),
    wrapper("env", Executed, "i0v", "uC", &["ignore-environment", "null", "debug"], &["unset", "chdir"], 0),
    wrapper(
        "flock",
        Executed,
        "sexnuoFv",
        "wE",
        &["shared", "exclusive", "unlock", "nonblock", "nb", "close", "no-fork", "verbose"],
        &["wait", "timeout", "conflict-exit-code"],
        1,
    ),
    wrapper(
        "watch",
        Executed,
        "bcdegprtwxC",
        "nq",
        &["beep", "color", "differences", "errexit", "chgexit", "precise", "no-title", "no-wrap", "exec"],
        &["interval", "equexit"],
        0,
    ),
    wrapper(
        "xargs",
        Wrapped,
        "0rtpxo",
        "EILnPsda",
        &["null", "no-run-if-empty", "verbose", "interactive", "exit", "open-tty"],
        &["delimiter", "max-args", "max-procs", "max-chars", "max-lines", "arg-file"],
        0,
    ),
    wrapper("ssh", Executed, "46AaCfgKkMNnqsTtVvXxYy", "BbcDEeIiJLlmpRWw", &[], &[], 1),
];

/// Programs that start others in ways that aren't read here.
const UNREAD: &[&str] = &[
    "strace",
    "ltrace",
    "unshare",
    "nsenter",
    "chroot",
    "systemd-run",
    "script",
    "expect",
    "proot",
    "su",
    "runuser",
    "setpriv",
    "parallel",
    "entr",
    "fakeroot",
    "unbuffer",
    "start-stop-daemon",
    "setarch",
    "zsh",
    "fish",
    "csh",
    "tcsh",
    "pwsh",
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "rbash"];

/// Whether a function or alias of this name would change what is found.
pub(super) fn is_special(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.name == name)
        || SHELLS.contains(&name)
        || matches!(
            name,
            "cd" | "pushd" | "popd" | "eval" | "source" | "." | "trap" | "alias" | "find" | "export" | "rm"
        )
}

fn unread(name: &str, arguments: &[Word]) -> Inner {
    let only = match arguments {
        [only] => only.literal(),
        _ => None,
    };
    match only {
        Some("--version" | "--help") => Inner::Nothing,
        None if arguments.is_empty() => match name {
            "su" | "script" | "zsh" | "fish" | "csh" | "tcsh" | "pwsh" => Inner::Input,
            _ => Inner::Nothing,
        },
        _ => Inner::Unknown,
    }
}

/// What the command of these words starts.
pub(super) fn inner(argv: &[Word]) -> Inner {
    let Some(name) = argv.first().and_then(Word::literal) else { return Inner::Unknown };
    let name = base_name(name);
    let arguments = &argv[1..];
    match name {
        "eval" => joined(arguments, true),
        "source" | "." | "fc" | "enable" | "bind" => Inner::Elsewhere,
        "alias" if arguments.iter().any(|word| word.literal().is_none_or(|text| text.contains('='))) => {
            Inner::Elsewhere
        }
        "hash" if !arguments.is_empty() => Inner::Elsewhere,
        "shopt" => shopt(arguments),
        "set" => set(arguments),
        "mapfile" | "readarray" if mentions(arguments, 'C') => Inner::Unknown,
        "compgen" if mentions(arguments, 'C') || mentions(arguments, 'F') => Inner::Unknown,
        "trap" => trap(arguments),
        "find" => find(arguments),
        "command"
            if arguments
                .first()
                .and_then(Word::literal)
                .is_some_and(|text| matches!(text, "-v" | "-V" | "-pv" | "-pV")) =>
        {
            Inner::Nothing
        }
        _ if SHELLS.contains(&name) => shell(arguments),
        _ if UNREAD.contains(&name) => unread(name, arguments),
        _ => match WRAPPERS.iter().find(|wrapper| wrapper.name == name) {
            Some(wrapper) => wrapped(wrapper, argv),
            None => Inner::Nothing,
        },
    }
}

fn wrapped(wrapper: &Wrapper, argv: &[Word]) -> Inner {
    let mut at = 1;
    let mut moved = false;
    let mut started = wrapper.started;
    let mut replace: Option<String> = None;
    let mut text = wrapper.name == "watch";
    while let Some(word) = argv.get(at) {
        let Some(option) = word.literal() else { break };
        if option == "--" {
            at += 1;
            break;
        }
        // `nice -5` and `env -`.
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if wrapper.name == "nice"
            && option.strip_prefix('-').is_some_and(|rest| digits(rest.trim_start_matches(['-', '+'])))
            || wrapper.name == "env" && option == "-"
        {
            at += 1;
            continue;
        }
        if !option.starts_with('-') || option == "-" {
            break;
        }
        if wrapper.name == "xargs" {
            started = Executed;
        }
        let found = wrapper.options.read(option);
        at += 1;
        for found in found {
            match found {
                Found::Unknown => return Inner::Unknown,
                Found::Flag(name) => {
                    text &= !(wrapper.name == "watch" && matches!(name, "x" | "exec"));
                }
                Found::Valued(name, value) => {
                    let value = match value {
                        Some(value) => Some(value.to_owned()),
                        None => {
                            at += 1;
                            match argv.get(at - 1) {
                                None => return Inner::Nothing,
                                Some(Word::Dynamic(open)) if open.splits => return Inner::Unknown,
                                Some(value) => value.literal().map(str::to_owned),
                            }
                        }
                    };
                    match (wrapper.name, name) {
                        ("env", "C" | "chdir") => moved = true,
                        ("xargs", "I") => match value {
                            Some(value) => replace = Some(value),
                            None => return Inner::Unknown,
                        },
                        _ => {}
                    }
                }
            }
        }
    }
    // What is expanded here may vanish, become two words, or be an option.
    let certain = |word: &Word| match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => !open.splits && !word.prefix().is_empty() && !word.prefix().starts_with('-'),
    };
    for _ in 0..wrapper.operands {
        match argv.get(at) {
            None => return Inner::Nothing,
            Some(word) if !certain(word) => return Inner::Unknown,
            Some(_) => at += 1,
        }
    }
    if matches!(wrapper.name, "env" | "sudo" | "doas") {
        while let Some(word) = argv.get(at) {
            let prefix = word.prefix();
            match prefix.split_once('=') {
                Some((name, _)) if super::parse::is_name(name) => {
                    if !certain(word) {
                        return Inner::Unknown;
                    }
                    at += 1;
                }
                _ => break,
            }
        }
    }
    let rest = &argv[at.min(argv.len())..];
    if wrapper.name == "flock" && rest.first().and_then(Word::literal) == Some("-c") {
        return match rest.get(1).and_then(Word::literal) {
            Some(text) => Inner::Text { text: text.to_owned(), here: false },
            None => Inner::Unknown,
        };
    }
    if rest.is_empty() {
        let opens = |option: &Word| matches!(option.literal(), Some("-i" | "-s" | "--login" | "--shell"));
        return match wrapper.name {
            "sudo" | "doas" if argv.iter().any(opens) => Inner::Input,
            "ssh" => Inner::Input,
            _ => Inner::Nothing,
        };
    }
    if text || wrapper.name == "ssh" {
        return joined(rest, false);
    }
    if rest[0].literal().is_none() {
        return Inner::Unknown;
    }
    if wrapper.name == "xargs" {
        let mut argv: Vec<Word> = rest.to_vec();
        match &replace {
            Some(mark) => {
                if mark.is_empty() || rest[0].plain().contains(&**mark) {
                    return Inner::Unknown;
                }
                for word in &mut argv {
                    *word = stands_for_others(word, mark);
                }
            }
            None => argv.push(Word::anything()),
        }
        return Inner::Given { argv, from: at, started };
    }
    Inner::Words { from: at, started, moved }
}

/// A word in which a mark is replaced by something unknown.
fn stands_for_others(word: &Word, mark: &str) -> Word {
    match word {
        Word::Literal(text) if text.contains(mark) => Word::Dynamic(Open {
            written: text.clone(),
            shape: text.replace(mark, &marks::EXPANSION.to_string()),
            splits: false,
        }),
        other => other.clone(),
    }
}

/// Words that are joined with blanks and read as commands.
fn joined(words: &[Word], here: bool) -> Inner {
    let words = words.strip_prefix(&[Word::Literal("--".to_owned())]).unwrap_or(words);
    match words.iter().map(Word::literal).collect::<Option<Vec<_>>>() {
        Some(words) => Inner::Text { text: words.join(" "), here },
        None => Inner::Unknown,
    }
}

fn shell(arguments: &[Word]) -> Inner {
    let mut at = 0;
    let (mut text, mut input) = (false, false);
    while let Some(word) = arguments.get(at) {
        let Some(option) = word.literal() else { return Inner::Unknown };
        at += 1;
        match option {
            "--" | "-" => break,
            "--version" | "--help" => return Inner::Nothing,
            "--norc" | "--noprofile" | "--login" | "--posix" | "--restricted" | "--verbose" => {}
            "--rcfile" | "--init-file" => return Inner::Elsewhere,
            _ if option.starts_with("--") => return Inner::Unknown,
            _ if option.len() > 1 && option.starts_with(['-', '+']) => {
                text |= option.starts_with('-') && option.contains('c');
                input |= option.contains('s');
                // `-o` and `-O` take a name each.
                at += option.bytes().filter(|b| matches!(b, b'o' | b'O')).count();
            }
            _ => {
                at -= 1;
                break;
            }
        }
    }
    match (text, arguments.get(at)) {
        (true, Some(Word::Literal(text))) => Inner::Text { text: text.clone(), here: false },
        (true, _) => Inner::Unknown,
        (false, None) => Inner::Input,
        (false, Some(Word::Dynamic(_))) => Inner::Unknown,
        (false, Some(Word::Literal(file))) if input || matches!(&**file, "/dev/stdin" | "/dev/fd/0") => {
            Inner::Input
        }
        // A file is a program like any other.
        (false, Some(Word::Literal(_))) => Inner::Nothing,
    }
}

fn trap(arguments: &[Word]) -> Inner {
    let words = arguments.strip_prefix(&[Word::Literal("--".to_owned())]).unwrap_or(arguments);
    match words {
        [] | [_] => match words.first() {
            Some(Word::Dynamic(_)) => Inner::Unknown,
            _ => Inner::Nothing,
        },
        [action, ..] => match action.literal() {
            Some("-" | "" | "-p" | "-l") => Inner::Nothing,
            Some(text) => Inner::Text { text: text.to_owned(), here: true },
            None => Inner::Unknown,
        },
    }
}

fn find(arguments: &[Word]) -> Inner {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        if !word.literal().is_some_and(|text| matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        let mut argv = Vec::new();
        loop {
            match arguments.get(at) {
                None => return Inner::Unknown,
                Some(Word::Literal(text)) if text == ";" => break,
                Some(Word::Literal(text))
                    if text == "+"
                        && argv.last() == Some(&stands_for_others(&Word::Literal("{}".into()), "{}")) =>
                {
                    break;
                }
                Some(word) => argv.push(stands_for_others(word, "{}")),
            }
            at += 1;
        }
        if argv.first().and_then(Word::literal).is_none() {
            return Inner::Unknown;
        }
        commands.push(argv);
    }
    // What is expanded may be `-exec` itself.
    let open = arguments.iter().any(|word| match word {
        Word::Literal(_) => false,
        Word::Dynamic(open) => (open.splits && word.prefix().is_empty()) || word.prefix().starts_with('-'),
    });
    match (open, commands.is_empty()) {
        (true, _) => Inner::Unknown,
        (false, true) => Inner::Nothing,
        (false, false) => Inner::Several(commands),
    }
}

/// Options of the shell that change how later lines are read are taken as commands from elsewhere.
fn shopt(arguments: &[Word]) -> Inner {
    let plain = |word: &Word| {
        word.literal().is_some_and(|text| {
            matches!(
                text,
                "-s" | "-u"
                    | "-q"
                    | "-p"
                    | "nullglob"
                    | "globstar"
                    | "dotglob"
                    | "failglob"
                    | "nocaseglob"
                    | "inherit_errexit"
            )
        })
    };
    if arguments.iter().all(plain) { Inner::Nothing } else { Inner::Elsewhere }
}

fn set(arguments: &[Word]) -> Inner {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else { return Inner::Elsewhere };
        if text == "--" || !text.starts_with(['-', '+']) {
            return Inner::Nothing;
        }
        let flags = &text[1..];
        if !flags.bytes().all(|b| b"euxfnvCmo".contains(&b)) {
            return Inner::Elsewhere;
        }
        for _ in flags.bytes().filter(|b| *b == b'o') {
            let known =
                ["pipefail", "errexit", "nounset", "xtrace", "noglob", "noclobber", "errtrace", "functrace"];
            if !words.next().and_then(Word::literal).is_some_and(|name| known.contains(&name)) {
                return Inner::Elsewhere;
            }
        }
    }
    Inner::Nothing
}

/// Whether a short option is among the words, or may be.
fn mentions(words: &[Word], option: char) -> bool {
    words.iter().any(|word| match word {
        Word::Literal(text) => text.starts_with('-') && text.contains(option),
        Word::Dynamic(_) => true,
    })
}
