//! Programs that start other programs: which argument is the inner command, and how it is started.
//!
//! Options are read by the table in [`super::wrappers`]. An option that isn't in it makes the inner command uncertain:
//! `timeout --new-option 5 rm x` may start `5`, `rm` or `x`. All of these are found, so that a rule which denies one
//! does, and there is a doubt. What a program is told to start by an option or a script is for [`super::told`].

use super::options::Found;
use super::wrappers::{self, BWRAP_PAIRS, Wrapper};
use super::{Open, Started, Word, base_name, marks, runners, streams};

/// What a command starts in turn.
#[derive(Debug)]
pub(super) enum Inner {
    /// Nothing that can be told from its arguments.
    Nothing,
    /// The words from here on.
    Words { from: usize, started: Started, moved: bool },
    /// The words from one of these places on, and which isn't known; the likeliest is the last.
    Perhaps { from: Vec<usize>, started: Started },
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

use Started::Executed;

/// Programs that start others in ways that aren't read here.
#[rustfmt::skip]
const UNREAD: &[&str] = &[
    "csh", "daemon", "envconsul", "expect", "fish", "lxc-attach", "lxc-execute", "machinectl", "minijail0",
    "mispipe", "mpiexec", "mpirun", "orterun", "pee", "poop", "prun", "pwsh", "retry", "run-parts", "salloc", "schroot", "scl",
    "setarch", "srun", "start-stop-daemon", "systemd-nspawn", "tcsh", "torchrun", "watchexec", "watchman-make", "wsl", "zsh",
];

const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "mksh", "rbash"];

/// How many places are named where an inner command may begin.
const PLACES_MAX: usize = 4;

/// Whether a function or alias of this name would change what is found.
pub(super) fn is_special(name: &str) -> bool {
    wrappers::find(name).is_some()
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
        Some("--version" | "--help") => return Inner::Nothing,
        None if arguments.is_empty() => {
            return match name {
                "zsh" | "fish" | "csh" | "tcsh" | "pwsh" => Inner::Input,
                _ => Inner::Nothing,
            };
        }
        _ => {}
    }
    // What stands after the options may be a command: a rule that denies it does.
    let word = |word: &Word| word.literal().is_some_and(|text| !text.is_empty() && !text.starts_with('-'));
    let is_option = |at: usize| arguments[at].prefix().starts_with('-');
    // After an option, or after its value.
    let may_begin = |at: usize| at == 0 || is_option(at - 1) || (at > 1 && is_option(at - 2));
    let mut from: Vec<usize> = (0..arguments.len())
        .filter(|at| word(&arguments[*at]) && may_begin(*at))
        .map(|at| at + 1)
        .take(PLACES_MAX)
        .collect();
    from.reverse();
    if from.is_empty() || SHELL_LIKE.contains(&name) {
        Inner::Unknown
    } else {
        Inner::Perhaps { from, started: Executed }
    }
}

/// Shells with another grammar: their arguments aren't words of a command.
const SHELL_LIKE: &[&str] = &["zsh", "fish", "csh", "tcsh", "pwsh", "expect", "run-parts"];

/// The name that a program is known by: GNU's have a `g` in front on some systems.
fn usual(name: &str) -> (&str, bool) {
    match name {
        "gtimeout" | "gnice" | "gnohup" | "gstdbuf" | "genv" | "gxargs" | "gfind" | "gtime" | "gchroot" => {
            (&name[1..], true)
        }
        _ => (name, false),
    }
}

/// What the command of these words starts.
pub(super) fn inner(argv: &[Word]) -> Inner {
    let Some(name) = argv.first().and_then(Word::literal) else { return Inner::Unknown };
    let (name, renamed) = usual(base_name(name));
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
        "compgen" | "complete" => completions(arguments),
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
        "su" | "runuser" => user(argv),
        "sg" => group(arguments),
        "newgrp" => Inner::Input,
        "script" => recorded(arguments),
        "capsh" => capabilities(arguments),
        "parallel" | "sem" => parallel(name, argv),
        "at" | "batch" => Inner::Input,
        "crontab" => match arguments.iter().find_map(|word| word.literal()) {
            Some("-l" | "-r") => Inner::Nothing,
            Some("-") | None if arguments.len() < 2 => Inner::Input,
            _ => Inner::Elsewhere,
        },
        _ if own_verb(name).is_some() => {
            let mut words = vec![Word::Literal("git".to_owned())];
            words.extend(own_verb(name).map(|verb| Word::Literal(verb.to_owned())));
            words.extend_from_slice(arguments);
            Inner::Given { argv: words, from: 0, started: Started::Launched }
        }
        _ if SHELLS.contains(&name) => shell(arguments),
        _ if UNREAD.contains(&name) => unread(name, arguments),
        _ => match wrappers::find(name) {
            Some(wrapper) => wrapped(wrapper, argv, if renamed { Executed } else { wrapper.started }),
            None => runners::inner(name, argv),
        },
    }
}

/// The sub-command of git that a program of its own is: `git-push`.
fn own_verb(name: &str) -> Option<&str> {
    let verb = name.strip_prefix("git-")?;
    (!verb.is_empty() && verb.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')).then_some(verb)
}

/// What is expanded here may vanish, become two words, or be an option.
pub(super) fn certain(word: &Word) -> bool {
    match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => !open.splits && !word.prefix().is_empty() && !word.prefix().starts_with('-'),
    }
}

fn wrapped(wrapper: &Wrapper, argv: &[Word], mut started: Started) -> Inner {
    if let [_, only] = argv
        && matches!(only.literal(), Some("--version" | "--help"))
    {
        return Inner::Nothing;
    }
    let mut at = 1;
    let mut moved = wrapper.traits.elsewhere;
    let mut replace: Option<String> = None;
    let mut text = wrapper.traits.joined;
    // Where the command may begin if an option that isn't known has no value.
    let mut perhaps: Vec<usize> = Vec::new();
    let mut unsure = false;
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
        if wrapper.name == "env" && is_split_string(option) {
            return split_string(argv, at);
        }
        if wrapper.name == "bwrap" && BWRAP_PAIRS.contains(&option) {
            at += 3;
            continue;
        }
        let found = wrapper.options.read(option);
        at += 1;
        if wrapper.traits.any_long && option.starts_with("--") && !matches!(found[..], [Found::Valued(..)]) {
            continue;
        }
        for found in found {
            match found {
                Found::Unknown => {
                    unsure = true;
                    let value = argv.get(at).is_some_and(|word| !word.prefix().starts_with('-'));
                    if value && !option.contains('=') && perhaps.len() < PLACES_MAX {
                        perhaps.push(at);
                        at += 1;
                    }
                    break;
                }
                Found::Flag(name) => match (wrapper.name, name) {
                    ("watch", "x" | "exec") => text = false,
                    ("entr", "s") => text = true,
                    // Of a process that runs already.
                    ("taskset", "p" | "pid") => return Inner::Nothing,
                    _ => {}
                },
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
                        ("env", "C" | "chdir") | ("sudo", "D" | "chdir" | "R" | "chroot") => moved = true,
                        ("unshare", "R" | "root" | "w" | "wd") => moved = true,
                        // Arguments from a descriptor.
                        ("bwrap", "args") => unsure = true,
                        ("strace" | "ltrace", "o" | "output") => {
                            // `-o '|cmd'` is a pipe.
                            unsure |= value.is_none_or(|value| value.starts_with(['|', '!']));
                        }
                        ("xargs", "I") => match value {
                            Some(value) => replace = Some(value),
                            None => return Inner::Unknown,
                        },
                        ("chrt" | "prlimit" | "ionice", "p" | "P" | "pid" | "pgid") => return Inner::Nothing,
                        _ => {}
                    }
                }
            }
        }
    }
    for _ in 0..wrapper.operands {
        match argv.get(at) {
            None if unsure => break,
            None => return Inner::Nothing,
            Some(word) if !certain(word) => return Inner::Unknown,
            Some(_) => at += 1,
        }
    }
    if wrapper.traits.variables {
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
    if unsure {
        let mut from = vec![at];
        from.extend(perhaps.iter().rev().map(|at| at + wrapper.operands));
        from.retain(|at| {
            argv.get(*at).is_some_and(|word| word.literal().is_some_and(|text| !text.is_empty()))
        });
        from.dedup();
        return if from.is_empty() || text { Inner::Unknown } else { Inner::Perhaps { from, started } };
    }
    let rest = &argv[at.min(argv.len())..];
    if matches!(wrapper.name, "flock" | "firejail") && rest.first().and_then(Word::literal) == Some("-c") {
        return match rest.get(1).and_then(Word::literal) {
            Some(text) => Inner::Text { text: text.to_owned(), here: false },
            None => Inner::Unknown,
        };
    }
    if rest.is_empty() {
        let opens = |option: &Word| matches!(option.literal(), Some("-i" | "-s" | "--login" | "--shell"));
        return match wrapper.name {
            "sudo" | "doas" if argv.iter().any(opens) => Inner::Input,
            "ssh" | "autossh" | "chroot" | "unshare" | "nsenter" | "fakeroot" | "proot" | "firejail" => {
                Inner::Input
            }
            _ => Inner::Nothing,
        };
    }
    if text {
        return joined(rest, false);
    }
    if rest[0].literal().is_none() {
        return Inner::Unknown;
    }
    if matches!(wrapper.name, "xargs" | "entr") {
        let mark = if wrapper.name == "entr" { Some("/_".to_owned()) } else { replace };
        let mut argv: Vec<Word> = rest.to_vec();
        match &mark {
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

fn is_split_string(option: &str) -> bool {
    let long = option.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long));
    match long {
        Some(long) => long.len() > 1 && "split-string".starts_with(long),
        None => option.contains('S'),
    }
}

/// `env -S 'a b' c`: one word that is split into several.
fn split_string(argv: &[Word], at: usize) -> Inner {
    let Some(option) = argv[at].literal() else { return Inner::Unknown };
    let (value, from) = match option.strip_prefix("--") {
        Some(long) => (long.split_once('=').map(|(_, value)| value), at + 1),
        None => (option.split_once('S').map(|(_, value)| value).filter(|value| !value.is_empty()), at + 1),
    };
    let (value, from) = match value {
        Some(value) => (value, from),
        None => match argv.get(at + 1).and_then(Word::literal) {
            Some(value) => (value, from + 1),
            None => return Inner::Unknown,
        },
    };
    let Some(mut words) = plain_words(value) else { return Inner::Unknown };
    words.extend_from_slice(&argv[from.min(argv.len())..]);
    let program =
        words.iter().position(|word| !word.prefix().contains('=') && !word.prefix().starts_with('-'));
    match program {
        // Options and variables of `env` itself aren't read twice.
        Some(0) => Inner::Given { argv: words, from: at, started: Executed },
        _ => Inner::Unknown,
    }
}

/// A text as words, if it holds nothing that a shell or the like would read in another way.
pub(super) fn plain_words(text: &str) -> Option<Vec<Word>> {
    let plain = |c: char| c.is_alphanumeric() || " _-./=:,@%+".contains(c);
    let words: Vec<Word> =
        text.split(' ').filter(|word| !word.is_empty()).map(|word| Word::Literal(word.to_owned())).collect();
    (text.chars().all(plain) && !words.is_empty()).then_some(words)
}

/// `su` and `runuser`: a text for a shell, or with `-u` the words that follow.
fn user(argv: &[Word]) -> Inner {
    let runs = argv[0].literal().map(base_name) == Some("runuser");
    let mut at = 1;
    let mut words = false;
    let mut text: Option<Option<&str>> = None;
    let mut operands = 0;
    while let Some(word) = argv.get(at) {
        let Some(option) = word.literal() else { return Inner::Unknown };
        at += 1;
        let (name, value) = match option.strip_prefix("--") {
            Some("") => break,
            Some("version" | "help") => return Inner::Nothing,
            Some(long) => match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            },
            None if option == "-" || !option.starts_with('-') => {
                operands += usize::from(option != "-");
                if words {
                    at -= 1;
                    break;
                }
                continue;
            }
            None => {
                let letters = &option[1..];
                let end = letters.find(|c| "csugGwTC".contains(c)).unwrap_or(letters.len());
                let rest = letters.get(end + 1..).unwrap_or("");
                if end == letters.len() {
                    continue;
                }
                (&letters[end..=end], (!rest.is_empty()).then_some(rest))
            }
        };
        let flag = matches!(name, "login" | "fast" | "preserve-environment" | "pty" | "no-pty");
        let value = match value {
            Some(value) => Some(value),
            None if flag => None,
            None => {
                at += 1;
                argv.get(at - 1).and_then(Word::literal)
            }
        };
        match name {
            "c" | "command" | "session-command" | "C" => text = Some(value),
            "u" | "user" if runs => words = true,
            _ => {}
        }
    }
    match text {
        Some(Some(text)) => Inner::Text { text: text.to_owned(), here: false },
        Some(None) => Inner::Unknown,
        None if words && at < argv.len() => Inner::Words { from: at, started: Executed, moved: false },
        // What follows the name of the user is for the shell.
        None if operands > 1 || at < argv.len() => Inner::Unknown,
        None => Inner::Input,
    }
}

/// `sg GROUP [-c] TEXT`.
fn group(arguments: &[Word]) -> Inner {
    let words: Vec<&Word> =
        arguments.iter().filter(|word| !matches!(word.literal(), Some("-" | "-c"))).collect();
    match words[..] {
        [] | [_] => Inner::Input,
        [_, text, ..] => match text.literal() {
            Some(text) => Inner::Text { text: text.to_owned(), here: false },
            None => Inner::Unknown,
        },
    }
}

/// `script -c TEXT [FILE]`, or a shell.
fn recorded(arguments: &[Word]) -> Inner {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(option) = word.literal() else { return Inner::Unknown };
        if matches!(option, "--version" | "--help") {
            return Inner::Nothing;
        }
        let value = match option.strip_prefix("--") {
            Some(long) if "command".starts_with(long.split('=').next().unwrap_or(long)) && long.len() > 1 => {
                Some(long.split_once('=').map(|(_, value)| value))
            }
            Some(_) => None,
            None if option.starts_with('-') => {
                option.split_once('c').map(|(_, rest)| (!rest.is_empty()).then_some(rest))
            }
            None => None,
        };
        if let Some(value) = value {
            return match value.or_else(|| words.next().and_then(Word::literal)) {
                Some(text) => Inner::Text { text: text.to_owned(), here: false },
                None => Inner::Unknown,
            };
        }
    }
    // Elsewhere the words after the file are a command.
    let operands = arguments.iter().filter(|word| !word.prefix().starts_with('-')).count();
    if operands > 1 { Inner::Unknown } else { Inner::Input }
}

/// `capsh … -- -c TEXT`: what follows `--` is for bash.
fn capabilities(arguments: &[Word]) -> Inner {
    let dashes = arguments.iter().position(|word| matches!(word.literal(), Some("--" | "==" | "-+" | "=+")));
    match dashes {
        Some(at) => shell(&arguments[at + 1..]),
        None if arguments.iter().all(|word| word.literal().is_some()) => Inner::Nothing,
        None => Inner::Unknown,
    }
}

/// `parallel … command ::: values`: the words are joined, filled in and read by a shell.
fn parallel(name: &str, argv: &[Word]) -> Inner {
    let mut at = 1;
    let mut known = true;
    while let Some(option) = argv.get(at).and_then(Word::literal).filter(|text| text.starts_with('-')) {
        at += 1;
        match option {
            "--version" | "--help" => return Inner::Nothing,
            "--semaphore" | "--fg" | "--bg" | "-k" | "--keep-order" | "-0" | "--null" | "-v" | "--wait"
            | "-m" | "-X" | "-u" | "--ungroup" | "--bar" | "--will-cite" | "--line-buffer"
            | "--no-notice" | "-t" => {}
            "-j" | "--jobs" | "-P" | "-n" | "-N" | "-a" | "--arg-file" | "--id" | "--delay" | "--retries" => {
                at += 1
            }
            _ if option.starts_with("-j") || option.starts_with("--jobs=") => {}
            _ => known = false,
        }
    }
    let end = argv[at.min(argv.len())..]
        .iter()
        .position(|word| word.literal().is_some_and(|text| text.starts_with(":::")))
        .map_or(argv.len(), |length| at + length);
    let words = argv.get(at..end).unwrap_or(&[]);
    if words.is_empty() {
        // The values are the commands.
        return if name == "sem" { Inner::Nothing } else { Inner::Unknown };
    }
    let plain = words.iter().all(|word| {
        word.literal()
            .is_some_and(|text| plain_words(&text.replace(['{', '}'], "")).is_some() || text == "{}")
    });
    if !plain || words[0].plain().contains('{') {
        return Inner::Perhaps { from: vec![at], started: Executed };
    }
    if !known {
        let from = (at..end).take(2).rev().collect();
        return Inner::Perhaps { from, started: Executed };
    }
    let mut argv: Vec<Word> = words.iter().map(|word| stands_for_others(word, "{")).collect();
    if name == "parallel" {
        argv.push(Word::anything());
    }
    Inner::Given { argv, from: at, started: Executed }
}

/// A word in which a mark is replaced by something unknown.
pub(super) fn stands_for_others(word: &Word, mark: &str) -> Word {
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
pub(super) fn joined(words: &[Word], here: bool) -> Inner {
    let words = words.strip_prefix(&[Word::Literal("--".to_owned())]).unwrap_or(words);
    match words.iter().map(Word::literal).collect::<Option<Vec<_>>>() {
        Some(words) => Inner::Text { text: words.join(" "), here },
        None => Inner::Unknown,
    }
}

pub(super) fn shell(arguments: &[Word]) -> Inner {
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
        (false, Some(Word::Literal(file))) if input || streams::descriptor(file).is_some() => {
            match streams::descriptor(file) {
                Some(1..) if !input => Inner::Unknown,
                _ => Inner::Input,
            }
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

/// `compgen -W WORDS` expands its words once more; `-C` and `-F` run something.
fn completions(arguments: &[Word]) -> Inner {
    const VALUED: &str = "oAGWFCXPSV";
    let mut expanded = String::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.literal() else {
            // What is expanded may be an option.
            if matches!(word, Word::Dynamic(open) if open.splits)
                || word.prefix().is_empty()
                || word.prefix().starts_with('-')
            {
                return Inner::Unknown;
            }
            continue;
        };
        if text == "--" {
            break;
        }
        let Some(letters) = text.strip_prefix('-') else { continue };
        let Some(at) = letters.find(|letter| VALUED.contains(letter)) else { continue };
        let rest = &letters[at + 1..];
        let value = if rest.is_empty() { words.next().map(Word::literal) } else { Some(Some(rest)) };
        match (&letters[at..=at], value) {
            ("C" | "F", _) | ("W", Some(None)) => return Inner::Unknown,
            ("W", Some(Some(list))) => {
                expanded.push(' ');
                expanded.push_str(list);
            }
            _ => {}
        }
    }
    match expanded.contains(['$', '`', '<', '>']) {
        true => Inner::Text { text: format!(":{expanded}"), here: false },
        false => Inner::Nothing,
    }
}

/// Whether a short option is among the words, or may be.
fn mentions(words: &[Word], option: char) -> bool {
    words.iter().any(|word| match word {
        Word::Literal(text) => text.starts_with('-') && text.contains(option),
        Word::Dynamic(_) => true,
    })
}
