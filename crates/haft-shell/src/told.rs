//! Programs that are told to run another by an option, a script or a setting: `tar --to-command=x`, `git -c alias.y='!x'`.
//!
//! What they are told to run is found as a command of its own, so that a rule which denies it does; where that can't be
//! read there is a doubt. And only an exact rule allows the command that tells: `Bash(tar *)` is meant for archives. A
//! program can have more ways to run another than are listed here; the list holds those that are known to be used.

use super::wrap::{plain_words, stands_for_others};
use super::{Word, base_name, code, git_starts, marks, script, scripted};

/// What a command is told to run.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What was found.
    pub(super) held: Vec<Held>,
    /// Whether there is something that wasn't.
    pub(super) unknown: bool,
    /// Why only an exact rule allows it, if so.
    pub(super) exact: Option<&'static str>,
}

/// A command in an option or a script of another.
#[derive(Debug)]
pub(super) enum Held {
    /// Words.
    Words(Vec<Word>),
    /// A text for a shell.
    Text(String),
}

const TELLS: &str = "can be told to run another command";

impl Told {
    /// A text for a shell.
    pub(super) fn text(&mut self, text: &str) {
        self.exact = Some(TELLS);
        self.held.push(Held::Text(text.to_owned()));
    }

    /// A program, to which more arguments are added.
    pub(super) fn program(&mut self, text: &str) {
        self.exact = Some(TELLS);
        match plain_words(text) {
            Some(mut words) => {
                words.push(Word::anything());
                self.held.push(Held::Words(words));
            }
            None => self.held.push(Held::Text(text.to_owned())),
        }
    }

    pub(super) fn words(&mut self, words: Vec<Word>) {
        self.exact = Some(TELLS);
        match words.first().and_then(Word::literal) {
            Some(_) => self.held.push(Held::Words(words)),
            None => self.unknown = true,
        }
    }

    pub(super) fn unknown(&mut self) {
        self.exact = Some(TELLS);
        self.unknown = true;
    }

    /// A program, a text, or what can't be known.
    pub(super) fn value(&mut self, word: Option<&Word>, shell: bool) {
        match word.map(Word::literal) {
            Some(Some(text)) if shell => self.text(text),
            Some(Some(text)) => self.program(text),
            Some(None) => self.unknown(),
            // Without its value the program refuses to run.
            None => self.exact = Some(TELLS),
        }
    }
}

/// Options of one program that name another.
struct Tells {
    name: &'static str,
    /// All single letters with a value, so that a cluster is read as the program does.
    valued: &'static str,
    /// Those of which the value is a program.
    letters: &'static str,
    /// Long options; any beginning of one counts.
    long: &'static [&'static str],
    /// Long options with one dash.
    dashed: &'static [&'static str],
    /// Whether a shell reads the value.
    shell: bool,
    /// Whether the value of a long option with one dash may follow at once.
    attached: bool,
}

const fn tells(
    name: &'static str,
    valued: &'static str,
    letters: &'static str,
    long: &'static [&'static str],
    dashed: &'static [&'static str],
    shell: bool,
) -> Tells {
    Tells { name, valued, letters, long, dashed, shell, attached: matches!(name.as_bytes(), b"zip") }
}

const TAR: &[&str] = &[
    "to-command",
    "checkpoint-action",
    "use-compress-program",
    "rsh-command",
    "rmt-command",
    "info-script",
    "new-volume-script",
];
const CC: &[&str] = &["-wrapper"];
const YT: &[&str] = &["exec", "exec-before-download", "downloader", "external-downloader"];

const TABLE: &[Tells] = &[
    tells("ack", "ABCfgmx", "", &["pager"], &[], true),
    tells("ag", "ABCGgmpW", "", &["pager"], &[], true),
    tells("ansible", "aBDefiIlmMPtTuv", "a", &["args"], &[], true),
    tells(
        "aria2c",
        "",
        "",
        &[
            "on-bt-download-complete",
            "on-download-complete",
            "on-download-error",
            "on-download-pause",
            "on-download-start",
            "on-download-stop",
        ],
        &[],
        false,
    ),
    tells("asciinema", "ceIitq", "c", &["command"], &[], true),
    tells("bat", "lrHm", "", &["pager"], &[], false),
    tells("bazel", "", "", &["run_under"], &[], true),
    tells("bpftrace", "BcdefIlop", "c", &[], &[], false),
    tells("bsdtar", "bCfgHIKLNTVXFs", "", &["use-compress-program"], &[], false),
    tells("chokidar", "cdtpi", "c", &["command"], &[], true),
    tells("cpio", "CDEFHIMORW", "", &["rsh-command"], &[], false),
    tells("ctest", "", "", &["test-command", "build-makeprogram"], &[], false),
    tells("delta", "", "", &["pager"], &[], true),
    tells("diff3", "L", "", &["diff-program"], &[], false),
    tells("dpkg", "D", "", &["pre-invoke", "post-invoke", "status-logger"], &[], true),
    tells("execlineb", "cs", "c", &[], &[], true),
    tells("fzf", "", "", &["preview"], &[], true),
    tells("gcc", "", "", &[], CC, false),
    tells("go", "", "", &[], &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool"], false),
    tells("gpg", "", "", &["photo-viewer", "agent-program", "dirmngr-program", "keyboxd-program"], &[], true),
    tells("gsort", "kStTo", "", &["compress-program"], &[], false),
    tells("gtar", "bCfgHIKLNTVXF", "IF", TAR, &[], true),
    tells("install", "gmotS", "", &["strip-program"], &[], false),
    tells("java", "", "", &[], &["-XX:OnError", "-XX:OnOutOfMemoryError"], true),
    tells("man", "CLMPRSersHTX", "PH", &["pager", "html"], &[], true),
    tells("mt", "f", "", &["rsh-command"], &[], false),
    tells("nano", "CJQTXYors", "s", &["speller"], &[], false),
    tells("nc", "cegGiIkmMoOpPqsTVwWxX", "ec", &[], &[], true),
    tells("ncat", "ceEdgGiopstwxm", "ec", &["exec", "sh-exec", "lua-exec"], &[], true),
    tells("netcat", "cegGiIkmMoOpPqsTVwWxX", "ec", &[], &[], true),
    tells("nodemon", "ewxCdI", "x", &["exec"], &[], true),
    tells("pandoc", "FfotrwDMVHBALTc", "FL", &["filter", "lua-filter", "pdf-engine"], &[], false),
    tells("rclone", "", "", &["password-command"], &[], true),
    tells("restic", "prof", "", &["password-command"], &[], true),
    tells("rg", "ABCEMTdefgjmrt", "", &["pre", "hostname-bin"], &[], false),
    tells("rpm", "DEr", "", &["pipe"], &[], true),
    tells("rsync", "BMTef@", "e", &["rsh", "rsync-path"], &[], false),
    tells("sbatch", "AaBbcCdDeFGiJkLmMnNopqStwx", "", &["wrap"], &[], true),
    tells("scp", "DFJPSXciloS", "S", &[], &[], false),
    tells("scriptlive", "BcdEIOmoTt", "c", &["command"], &[], true),
    tells("sdiff", "IWo", "", &["diff-program"], &[], false),
    tells("sftp", "BDFJPRSXbcilosS", "SD", &[], &[], true),
    tells("sort", "kStTo", "", &["compress-program"], &[], false),
    tells("split", "abCln", "", &["filter"], &[], true),
    tells("tar", "bCfgHIKLNTVXF", "IF", TAR, &[], true),
    tells("tcpdump", "BcCEFGijmMQrsTVwWyz", "z", &[], &[], false),
    tells("termtosvg", "cDgmMst", "c", &["command"], &[], true),
    tells("ttyrec", "e", "e", &[], &[], true),
    tells("vagrant", "cp", "c", &["command"], &[], true),
    tells("watchman-make", "pst", "", &["make", "run"], &[], true),
    tells("wget", "aABDeGiIlloOPQRtTUwX", "", &["use-askpass"], &[], false),
    tells("xterm", "", "", &[], &[], true),
    tells("youtube-dl", "aforpu", "", YT, &[], true),
    tells("yt-dlp", "aforpuP", "", YT, &[], true),
    tells("zip", "", "", &["unzip-command"], &["-TT"], true),
];

fn entry(name: &str) -> Option<&'static Tells> {
    let name = compiler(name).unwrap_or(name);
    TABLE.binary_search_by(|tells| tells.name.cmp(name)).ok().map(|at| &TABLE[at])
}

/// The usual name of a compiler that is named with its version or for another machine: `gcc-12`, `x86_64-linux-gnu-g++`.
fn compiler(name: &str) -> Option<&'static str> {
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-');
    let last = if plain.contains("-linux-") { plain.rsplit('-').next().unwrap_or(plain) } else { plain };
    matches!(last, "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++").then_some("gcc")
}

/// What a command is told to run by its words, and by what comes in from a here-document.
pub(super) fn by(argv: &[Word], input: Option<&str>) -> Told {
    let mut told = Told::default();
    let Some(name) = argv.first().and_then(Word::literal).map(base_name) else { return told };
    let arguments = &argv[1..];
    match name {
        "git" => git_starts::by(argv, &mut told),
        "sed" | "gsed" => script::told(arguments, input, &mut told),
        "find" | "gfind" => {
            if arguments.iter().any(|word| word.literal() == Some("-delete")) {
                told.exact = Some("removes what it finds");
            }
        }
        "fd" | "fdfind" => fd(arguments, &mut told),
        "ssh" | "scp" | "sftp" | "autossh" => ssh(arguments, &mut told),
        "make" | "gmake" => make(arguments, &mut told),
        "vim" | "vi" | "nvim" | "view" | "ex" | "gvim" | "vimdiff" => vim(arguments, &mut told),
        "less" | "more" => less(arguments, &mut told),
        "emacs" | "emacsclient" => flagged(
            arguments,
            &["-eval", "--eval", "-e", "-f", "--funcall", "-l", "--load", "-script", "--script"],
            &mut told,
        ),
        "gdb" | "lldb" => debugger(arguments, &mut told),
        "hyperfine" => hyperfine(arguments, &mut told),
        "cargo" => {
            flagged(arguments, &["--config"], &mut told);
            if arguments.first().and_then(Word::literal) == Some("watch") {
                flagged(arguments, &["-s", "--shell", "-x", "--exec"], &mut told);
            }
        }
        "apt" | "apt-get" => flagged(arguments, &["-o", "--option", "-c", "--config-file"], &mut told),
        "socat" => socat(arguments, &mut told),
        "bpftrace" => flagged(arguments, &["--unsafe"], &mut told),
        "concurrently" => texts(arguments, &mut told),
        "tmux" | "screen" => terminal(name, argv, &mut told),
        _ if TERMINALS.contains(&name) => terminal(name, argv, &mut told),
        "npm" | "pnpm" | "yarn" => {
            flagged(arguments, &["--script-shell", "--node-options", "--git"], &mut told)
        }
        "fzf" => flagged(arguments, &["--bind"], &mut told),
        "wget" => flagged(arguments, &["-e", "--execute", "--config"], &mut told),
        "curl" => flagged(arguments, &["-K", "--config"], &mut told),
        "rpm" | "rpmbuild" => flagged(arguments, &["-D", "-E", "--define", "--eval"], &mut told),
        "ghc" => flagged(arguments, &["-F"], &mut told),
        "rustc" => linker(arguments, &mut told),
        "pdflatex" | "latex" | "xelatex" | "lualatex" | "tex" | "pdftex" => {
            flagged(arguments, &["-shell-escape", "--shell-escape", "-enable-write18"], &mut told)
        }
        _ => code::told(name, arguments, input, &mut told),
    }
    scripted::told(name, arguments, input, &mut told);
    if let Some(entry) = entry(name) {
        by_options(entry, arguments, &mut told);
        if name == "tar" {
            old_tar(arguments, &mut told);
        }
    }
    let any =
        |test: fn(&str, &[Word], usize) -> bool| (0..arguments.len()).any(|at| test(name, arguments, at));
    if told.exact.is_none() && OFTEN_TOLD.contains(&name) && any(may_be_option) {
        told.exact = Some(TELLS);
    }
    if told.exact.is_none() && can_be_told(name) && any(pattern_may_be_option) {
        told.exact = Some("has a pattern that may become an option, unlike `./*`");
    }
    told
}

/// Programs of which an argument that isn't known counts as an option that tells.
const OFTEN_TOLD: &[&str] = &[
    "bsdtar", "cpio", "fd", "fdfind", "find", "git", "man", "rg", "rsync", "scp", "sftp", "sort", "split",
    "tar", "zip",
];

/// Whether a program can be told by an option to run another or to write somewhere.
fn can_be_told(name: &str) -> bool {
    entry(name).is_some()
        || super::writes::is_known(name)
        || matches!(
            name,
            "git"
                | "sed"
                | "find"
                | "fd"
                | "fdfind"
                | "ssh"
                | "vim"
                | "vi"
                | "less"
                | "chown"
                | "chgrp"
                | "chmod"
                | "perl"
                | "gdb"
        )
}

fn by_options(entry: &Tells, arguments: &[Word], told: &mut Told) {
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        let text = word.prefix();
        let dynamic = word.literal().is_none();
        if text == "--" && !dynamic {
            return;
        }
        if let Some((option, rest)) =
            entry.dashed.iter().find_map(|option| Some((*option, text.strip_prefix(option)?)))
        {
            match rest.strip_prefix('=').or((!rest.is_empty() && entry.attached).then_some(rest)) {
                _ if dynamic => told.unknown(),
                Some(value) => action(option, Some(value), entry.shell, told),
                None if rest.is_empty() => {
                    match arguments.get(at) {
                        Some(Word::Literal(value)) => action(option, Some(value), entry.shell, told),
                        other => told.value(other, entry.shell),
                    }
                    at += 1;
                }
                None => {}
            }
            continue;
        }
        if let Some(long) = text.strip_prefix("--") {
            let (name, inline) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            // An option of its own isn't the beginning of another.
            let begins = |long: &&&str| !name.is_empty() && name != "checkpoint" && long.starts_with(name);
            let Some(found) = entry.long.iter().find(begins) else { continue };
            match inline {
                _ if dynamic => told.unknown(),
                Some(value) => action(found, Some(value), entry.shell, told),
                None => {
                    match arguments.get(at) {
                        Some(Word::Literal(value)) => action(found, Some(value), entry.shell, told),
                        Some(_) => told.unknown(),
                        None => action(found, None, entry.shell, told),
                    }
                    at += 1;
                }
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-') else { continue };
        let Some(first) = letters.find(|c| entry.valued.contains(c)) else { continue };
        let letter = &letters[first..=first];
        let rest = &letters[first + 1..];
        let tells = entry.letters.contains(letter);
        // Of `man` it has a value only in the same word.
        if rest.is_empty() && entry.name == "man" && letter == "H" {
            told.exact = Some(TELLS);
            continue;
        }
        match (rest.is_empty(), dynamic) {
            (_, true) if tells => told.unknown(),
            (false, _) if tells => action("", Some(rest), entry.shell, told),
            (true, false) => {
                if tells {
                    following(entry, arguments.get(at), told);
                }
                at += 1;
            }
            _ => {}
        }
    }
}

/// The value of an option that names a program, as the word after it.
fn following(entry: &Tells, word: Option<&Word>, told: &mut Told) {
    match word {
        Some(Word::Literal(value)) => action("", Some(value), entry.shell, told),
        other => told.value(other, entry.shell),
    }
}

/// The value of an option that names a program.
fn action(option: &str, value: Option<&str>, shell: bool, told: &mut Told) {
    let Some(value) = value else { return told.value(None, shell) };
    match option {
        // Its words are told apart by commas.
        "-wrapper" => told.program(&value.replace(',', " ")),
        // Of the actions at a checkpoint one runs.
        "checkpoint-action" => match value.strip_prefix("exec=") {
            Some(text) => told.text(text),
            None => told.exact = Some(TELLS),
        },
        _ if shell && plain_words(value).is_none() => told.text(value),
        _ => told.program(value),
    }
}

/// `tar xfI a ./prog`: letters without a dash, whose values follow in order.
fn old_tar(arguments: &[Word], told: &mut Told) {
    let Some(letters) = arguments.first().and_then(Word::literal).filter(|text| !text.starts_with('-'))
    else {
        return;
    };
    let mut at = 1;
    for letter in letters.chars() {
        if matches!(letter, 'I' | 'F') {
            told.value(arguments.get(at), true);
        }
        at += usize::from("bCfgHIKLNTVXF".contains(letter));
    }
}

/// Options of which each makes a program run something, in a way that isn't read.
fn flagged(arguments: &[Word], options: &[&str], told: &mut Told) {
    let tells = |word: &Word| {
        let text = word.prefix();
        options.iter().any(|option| {
            text == *option
                || (option.starts_with("--")
                    && text.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
                || (option.len() == 2 && text.starts_with(option))
        })
    };
    if arguments.iter().any(tells) {
        told.unknown();
    }
}

/// `rustc -C linker=x`.
fn linker(arguments: &[Word], told: &mut Told) {
    for word in arguments {
        let text = word.prefix();
        let setting =
            ["-C", "--codegen="].iter().find_map(|option| text.strip_prefix(option)).unwrap_or(text);
        if let Some(value) = setting.strip_prefix("linker=") {
            match word.literal() {
                Some(_) => told.program(value),
                None => told.unknown(),
            }
        }
    }
}

/// `fd … -x command {} ;`.
fn fd(arguments: &[Word], told: &mut Told) {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.prefix();
        let short = text.starts_with('-') && !text.starts_with("--") && text.contains(['x', 'X']);
        let long = text.starts_with("--exec");
        if !short && !long {
            continue;
        }
        if word.literal().is_none() {
            return told.unknown();
        }
        let inline = text.split_once('=').map(|(_, value)| Word::Literal(value.to_owned()));
        let attached =
            text.find(['x', 'X']).map(|at| &text[at + 1..]).filter(|rest| short && !rest.is_empty());
        let mut argv: Vec<Word> =
            inline.into_iter().chain(attached.map(|rest| Word::Literal(rest.to_owned()))).collect();
        for word in words.by_ref() {
            if word.literal() == Some(";") {
                break;
            }
            argv.push(stands_for_others(word, "{"));
        }
        argv.push(Word::anything());
        told.words(argv);
    }
}

/// Settings of `ssh` that run nothing.
const SSH_HARMLESS: &[&str] = &[
    "addkeystoagent",
    "batchmode",
    "checkhostip",
    "ciphers",
    "clearallforwardings",
    "compression",
    "connectionattempts",
    "connecttimeout",
    "controlmaster",
    "controlpath",
    "controlpersist",
    "forwardagent",
    "hostkeyalgorithms",
    "hostname",
    "identitiesonly",
    "identityfile",
    "kexalgorithms",
    "loglevel",
    "numberofpasswordprompts",
    "passwordauthentication",
    "port",
    "preferredauthentications",
    "proxyjump",
    "pubkeyacceptedalgorithms",
    "pubkeyauthentication",
    "requesttty",
    "serveralivecountmax",
    "serveraliveinterval",
    "stricthostkeychecking",
    "tcpkeepalive",
    "user",
    "userknownhostsfile",
];

fn ssh(arguments: &[Word], told: &mut Told) {
    for (at, word) in arguments.iter().enumerate() {
        let text = word.prefix();
        let is = |letter: &str| text.strip_prefix('-').and_then(|rest| rest.strip_prefix(letter));
        if is("F").is_some() {
            told.unknown();
        }
        let Some(rest) = is("o") else { continue };
        let value = if rest.is_empty() { arguments.get(at + 1) } else { Some(word) };
        let Some(value) = value else { continue };
        let setting = if rest.is_empty() { value.prefix() } else { rest };
        let (key, command) = setting.split_once(['=', ' ']).unwrap_or((setting, ""));
        let key = key.trim().to_ascii_lowercase();
        match &*key {
            _ if SSH_HARMLESS.contains(&&*key) => {}
            "proxycommand" | "localcommand" | "knownhostscommand" if value.literal().is_some() => {
                told.text(command.trim())
            }
            "permitlocalcommand" | "remotecommand" => told.exact = Some(TELLS),
            _ => told.unknown(),
        }
    }
}

fn make(arguments: &[Word], told: &mut Told) {
    for word in arguments {
        let text = word.prefix();
        if text.starts_with("--eval") || text.starts_with("-E") {
            told.unknown();
        }
        let Some((name, value)) = text.split_once('=') else { continue };
        let name = name.trim_end_matches([':', '+', '?', '!']);
        let runs =
            value.contains("$(shell") || value.contains('`') || value.contains("!=") || text.contains("!=");
        if matches!(name, "SHELL" | ".SHELLFLAGS" | "MAKEFLAGS" | "MAKEFILES" | "MAKE") {
            match (name, word.literal()) {
                ("SHELL" | "MAKE", Some(_)) => told.program(value),
                _ => told.unknown(),
            }
        } else if runs {
            told.unknown();
        }
    }
}

/// Commands of an editor that change nothing but what it shows, or end it.
fn is_plain_edit(command: &str) -> bool {
    let command = command.trim_start_matches(':');
    command.is_empty()
        || command.bytes().all(|b| b.is_ascii_digit())
        || command.starts_with('/')
        || matches!(
            command,
            "q" | "q!" | "qa" | "qa!" | "wq" | "wqa" | "x" | "xa" | "w" | "wa" | "noswapfile"
        )
        || (command.starts_with("set ") && !command.contains(['|', '!', '&']))
}

fn vim(arguments: &[Word], told: &mut Told) {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.prefix();
        let command = match text {
            "-c" | "--cmd" => words.next(),
            "-S" | "-s" | "-u" | "-U" | "-W" | "-w" => return told.unknown(),
            _ if text.starts_with('+') => Some(word),
            _ => continue,
        };
        let Some(command) = command else { return };
        let Some(command) = command.literal() else { return told.unknown() };
        let command = command.strip_prefix('+').unwrap_or(command);
        match command.trim_start_matches([':', ' ']).strip_prefix('!') {
            Some(shell) => told.text(shell),
            None if is_plain_edit(command) => {}
            None => told.unknown(),
        }
    }
}

fn less(arguments: &[Word], told: &mut Told) {
    for word in arguments {
        let text = word.prefix();
        let Some(command) = text.strip_prefix('+') else { continue };
        match command.trim_start_matches('+').strip_prefix('!') {
            Some(shell) if word.literal().is_some() => told.text(shell),
            None if !command.contains(['!', '|']) && word.literal().is_some() => {}
            _ => told.unknown(),
        }
    }
}

fn debugger(arguments: &[Word], told: &mut Told) {
    for (at, word) in arguments.iter().enumerate() {
        let text = word.prefix();
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        match name.trim_start_matches('-') {
            "ex" | "eval-command" | "iex" | "init-eval-command" | "o" | "one-line" | "O" | "k"
                if name.starts_with('-') =>
            {
                let value = inline.or_else(|| arguments.get(at + 1).and_then(Word::literal));
                let Some(value) = value else { return told.unknown() };
                let shell = ["shell ", "!", "platform shell "]
                    .iter()
                    .find_map(|start| value.trim().strip_prefix(start));
                let runs = [
                    "python", "py ", "pi ", "source", "pipe", "|", "guile", "script", "make", "eval",
                    "compile", "define",
                ];
                match shell {
                    Some(shell) => told.text(shell.trim()),
                    None if runs.iter().any(|start| value.trim().starts_with(start)) => told.unknown(),
                    None => told.exact = Some(TELLS),
                }
            }
            "x" | "command" | "ix" | "init-command" | "s" | "source" if name.starts_with('-') => {
                told.unknown()
            }
            "args" if name == "--args" || name == "-args" => {
                return told.words(arguments[at + 1..].to_vec());
            }
            _ => {}
        }
    }
}

/// Every operand, and what prepares and cleans up, is a text for a shell.
fn hyperfine(arguments: &[Word], told: &mut Told) {
    const OTHER: &[&str] = &[
        "-w",
        "--warmup",
        "-m",
        "--min-runs",
        "-M",
        "--max-runs",
        "-r",
        "--runs",
        "-u",
        "--time-unit",
        "-P",
        "--parameter-scan",
        "-L",
        "--parameter-list",
        "-D",
        "--style",
        "--sort",
        "--input",
        "--output",
        "--export-json",
        "--export-csv",
        "--export-markdown",
        "--export-asciidoc",
        "-n",
        "--command-name",
        "--min-benchmarking-time",
    ];
    const TEXTS: &[&str] =
        &["-p", "--prepare", "-s", "--setup", "-c", "--cleanup", "-C", "--conclude", "--reference"];
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.prefix();
        let (name, inline) = match text.split_once('=').filter(|_| text.starts_with("--")) {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        if TEXTS.contains(&name) {
            match inline {
                Some(value) if word.literal().is_some() => told.text(value),
                Some(_) => told.unknown(),
                None => told.value(words.next(), true),
            }
        } else if OTHER.contains(&name) {
            // `{name}` in a text stands for the values of a parameter.
            if inline.is_none() {
                words.next();
            }
        } else if name == "--shell" || name == "-S" {
            told.unknown();
        } else if !text.starts_with('-') {
            told.value(Some(word), true);
        }
    }
}

fn socat(arguments: &[Word], told: &mut Told) {
    for word in arguments {
        let text = word.prefix();
        let upper = text.to_ascii_uppercase();
        let Some(kind) = ["EXEC:", "SYSTEM:", "SHELL:"].into_iter().find(|kind| upper.starts_with(kind))
        else {
            if upper.contains("EXEC:") || upper.contains("SYSTEM:") {
                told.unknown();
            }
            continue;
        };
        match word.literal() {
            // Options follow a comma.
            Some(text) => told.text(text[kind.len()..].split(',').next().unwrap_or_default()),
            None => told.unknown(),
        }
    }
}

/// Terminals and multiplexers: what they start stands anywhere.
/// Terminals that start a command after `-e`, `--` or their options.
#[rustfmt::skip]
const TERMINALS: &[&str] = &[
    "alacritty", "foot", "gnome-terminal", "kgx", "kitty", "konsole", "lxterminal", "mate-terminal", "ptyxis", "rxvt", "st",
    "terminator", "tilix", "urxvt", "wezterm", "x-terminal-emulator", "xfce4-terminal", "xterm",
];

/// Every word that isn't an option is a text for a shell.
fn texts(arguments: &[Word], told: &mut Told) {
    for word in arguments.iter().filter(|word| !word.prefix().starts_with('-')) {
        told.value(Some(word), true);
    }
}

fn terminal(name: &str, argv: &[Word], told: &mut Told) {
    if name == "tmux" {
        let verb = super::globals::verb(argv, 1).and_then(|at| argv[at].literal());
        let looks =
            ["ls", "list-", "has", "show", "display", "kill-", "capture-pane", "info", "select-", "rename-"];
        match verb {
            None if argv.len() == 1 => told.exact = Some(TELLS),
            Some(verb)
                if looks.iter().any(|start| verb.starts_with(start))
                    && !argv.iter().any(|word| word.plain() == ";") => {}
            _ => {
                // What is sent or started: each literal word may be a text for a shell.
                let last = argv.iter().skip(2).filter_map(Word::literal).rfind(|text| text.contains(' '));
                if let Some(text) = last {
                    told.text(text);
                }
                told.unknown();
            }
        }
    } else if argv.len() > 1 {
        let begins = |word: &Word| matches!(word.literal(), Some("-e" | "-x" | "--"));
        let from = argv.iter().position(begins).map(|at| at + 1);
        let from = from.or_else(|| (1..argv.len()).find(|at| !argv[*at].prefix().starts_with('-')));
        if let Some(words) = from.and_then(|at| argv.get(at..)).filter(|words| !words.is_empty()) {
            told.words(words.to_vec());
        }
        if !matches!(argv[1].literal(), Some("-ls" | "-list" | "-v")) {
            told.unknown();
        }
    }
}

/// Whether an argument that is known only when it runs may be an option then, or bring one along. What is quoted after
/// an option is its value, as in `git commit -m "$x"`; a pattern is judged apart.
fn may_be_option(name: &str, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    let expands = open.shape.contains(marks::EXPANSION);
    let listed = open.shape.contains(marks::BRACE) && open.shape.starts_with('{');
    // The name of the option is known, and what is expanded is its value.
    let named =
        arguments[at].prefix().starts_with("--") && arguments[at].prefix().contains('=') && !open.splits;
    if named {
        return false;
    }
    if listed || open.shape.starts_with('-') || (expands && open.splits) {
        return true;
    }
    let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with('-'));
    let ended = name != "find" && arguments[..at].iter().any(|word| word.literal() == Some("--"));
    // The options of git itself come first, and most have no value.
    let value = at > 0 && is_option(&arguments[at - 1]) && (name != "git" || !is_option(&arguments[0]));
    open.shape.starts_with(marks::EXPANSION) && !ended && !value
}

/// Sub-commands of git of which no option runs or writes anything that the sub-command doesn't.
const GIT_PLAIN: &[&str] = &[
    "add",
    "rm",
    "mv",
    "checkout",
    "restore",
    "reset",
    "commit",
    "stash",
    "ls-files",
    "check-ignore",
    "blame",
    "stage",
];

/// Whether a pattern may expand to a file that is named like an option. Whoever made the files chose their names.
fn pattern_may_be_option(name: &str, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    if !open.shape.starts_with(marks::GLOB) {
        return false;
    }
    // These only take the words as files, or their options do nothing that they don't do anyway.
    if matches!(name, "rm" | "cp" | "mv" | "ln" | "tee" | "touch" | "mkdir" | "truncate") {
        return false;
    }
    if name == "git"
        && super::globals::verb(&[&[Word::Literal("git".to_owned())], arguments].concat(), 1)
            .is_some_and(|verb| arguments[verb - 1].literal().is_some_and(|verb| GIT_PLAIN.contains(&verb)))
    {
        return false;
    }
    name == "find" || !arguments[..at].iter().any(|word| word.literal() == Some("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TABLE.is_sorted_by(|a, b| a.name < b.name));
    }
}
