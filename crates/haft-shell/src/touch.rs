//! What a command touches, for the programs whose arguments are known to name it.
//!
//! Programs that aren't here may touch anything. Reads may be named too many (the value of an option that looks like a
//! file), never too few. Hosts are named where a URL is literal; as such programs have more ways to write and reach
//! than are read here, their effects stay unknown and the host is a hint for rules and display.

use std::path::{Path, PathBuf};

use haft::Effects;
use haft::effects::{Command, PathSet};

use super::options::{Found, Options};
use super::readers::{Reads, Rule};
use super::walk::Here;
use super::{Analysis, FileAccess, Place, Word, base_name, marks, programs};

/// What a command with these words touches, if its program is known. What isn't known of its arguments makes the effects
/// unknown, beside those that are.
pub(super) fn command(argv: &[Word], here: &Here, place: &Place, only_looks: bool) -> Option<Effects> {
    let at = At { here, place };
    let name = base_name(argv.first()?.literal()?);
    let arguments = &argv[1..];
    if only_looks {
        return Some(at.looks(name, argv));
    }
    let known = match name {
        "rm" | "rmdir" => at.removes(arguments),
        "mkdir" => at.makes(
            arguments,
            &Options { flags: "pv", valued: "m", long: &["parents", "verbose"], long_valued: &["mode"] },
        ),
        "touch" => at.makes(
            arguments,
            &Options { flags: "acmfh", valued: "dt", long: &["no-create"], long_valued: &["date", "time"] },
        ),
        "tee" => {
            at.makes(arguments, &Options { flags: "aip", valued: "", long: &["append"], long_valued: &[] })
        }
        "cp" => at.copies(arguments),
        "mv" => at.moves(arguments),
        "ln" => at.links(arguments),
        "sed" => at.edits(arguments),
        "curl" => at.fetches(arguments),
        "wget" => Some(hint(arguments)),
        "git" if arguments.first().and_then(Word::literal) == Some("clone") => Some(hint(&arguments[1..])),
        _ => None,
    };
    known.or_else(|| at.roughly(name, argv))
}

/// The path of `~/…` where the home is known.
pub(super) fn below_home(word: &Word, place: &Place) -> Option<PathBuf> {
    let Word::Dynamic(open) = word else { return None };
    let rest = open.shape.strip_prefix(marks::HOME)?;
    let plain = !rest.contains(|c| c <= marks::GLOB) && (rest.is_empty() || rest.starts_with('/'));
    place.home.as_ref().filter(|_| plain).map(|home| home.join(rest.trim_start_matches('/')))
}

struct At<'a> {
    here: &'a Here,
    place: &'a Place,
}

fn add(sets: &mut Vec<PathSet>, paths: Vec<PathBuf>, below: bool) {
    sets.extend(
        paths.into_iter().map(|path| if below { PathSet::subtree(path) } else { PathSet::file(path) }),
    );
}

/// Operands, and single letters or names of the options, if all are known.
fn split<'w>(arguments: &'w [Word], options: &Options) -> Option<(Vec<&'w Word>, Vec<&'w str>)> {
    let (mut operands, mut given) = (Vec::new(), Vec::new());
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word.literal() == Some("--") {
            operands.extend(words.by_ref());
            break;
        }
        if word.prefix().len() < 2 || !word.prefix().starts_with('-') {
            // What is expanded may be an option.
            if word.prefix().is_empty()
                && word.literal().is_none()
                && !matches!(word, Word::Dynamic(open) if open.shape.starts_with(marks::HOME))
            {
                return None;
            }
            operands.push(word);
            continue;
        }
        for found in options.read(word.literal()?) {
            match found {
                Found::Unknown => return None,
                Found::Flag(name) | Found::Valued(name, Some(_)) => given.push(name),
                Found::Valued(name, None) => {
                    words.next()?.literal()?;
                    given.push(name);
                }
            }
        }
    }
    Some((operands, given))
}

impl At<'_> {
    /// Where a word may lead, if that is known.
    fn paths(&self, word: &Word) -> Option<Vec<PathBuf>> {
        match word {
            Word::Literal(text) => self.here.join(Path::new(text)),
            Word::Dynamic(_) => below_home(word, self.place).map(|path| vec![path]),
        }
    }

    fn looks(&self, name: &str, argv: &[Word]) -> Effects {
        let mut effects = Effects::none();
        let Some(reader) = programs::reader(argv) else { return effects };
        let arguments = &argv[1..];
        let has = |letters: &[char], names: &[&str]| {
            arguments.iter().any(|word| match word.prefix().strip_prefix("--") {
                Some(long) => names.iter().any(|name| long.starts_with(name)),
                None => word.prefix().starts_with('-') && word.prefix().contains(letters),
            })
        };
        if matches!(reader.rule, Rule::Git) {
            self.read(&mut effects, self.here.join(Path::new(".")), true);
        }
        if reader.reads == Reads::Nothing {
            return effects;
        }
        for word in arguments {
            if let Some((option, value)) =
                word.prefix().strip_prefix("--").and_then(|long| long.split_once('='))
                && (option.contains("file") || option.contains("from"))
            {
                self.read(&mut effects, self.here.join(Path::new(value)), false);
            }
        }
        // What is expanded may be several words, or an option that names a file.
        let hidden = |word: &Word| match word {
            Word::Literal(_) => false,
            Word::Dynamic(open) => {
                (open.splits && !stays(word))
                    || word.prefix().starts_with('-')
                    || (open.shape.starts_with(marks::EXPANSION) && !self.is_value(name, arguments, word))
            }
        };
        effects.unknown |= arguments.iter().any(hidden);
        let mut operands = file_operands(name, arguments);
        let mut below = reader.reads == Reads::Trees;
        let searches = matches!(name, "grep" | "egrep" | "fgrep" | "rg");
        if searches {
            let pattern_given = has(&['e', 'f'], &["regexp", "file"]);
            if !pattern_given && !operands.is_empty() {
                operands.remove(0);
            }
            below =
                name == "rg" || has(&['r', 'R', 'd'], &["recursive", "dereference-recursive", "directories"]);
        }
        if name == "sed" && !has(&['e'], &["expression"]) && !operands.is_empty() {
            operands.remove(0);
        }
        if name == "ls" {
            below = has(&['R'], &["recursive"]);
        }
        if operands.is_empty() && (below || name == "ls") {
            self.read(&mut effects, self.here.join(Path::new(".")), below);
        }
        for word in operands {
            if word.literal() == Some("-") || (matches!(reader.rule, Rule::Git) && !leads_elsewhere(word)) {
                continue;
            }
            if stays(word) {
                self.read(&mut effects, self.here.join(Path::new(".")), true);
            } else {
                self.read(&mut effects, self.paths(word), below);
            }
        }
        effects
    }

    fn read(&self, effects: &mut Effects, paths: Option<Vec<PathBuf>>, below: bool) {
        match paths {
            Some(paths) => add(&mut effects.reads, paths, below),
            None => effects.unknown = true,
        }
    }

    /// Whether a word is the value of an option before it.
    fn is_value(&self, name: &str, arguments: &[Word], word: &Word) -> bool {
        !file_operands(name, arguments).iter().any(|operand| std::ptr::eq(*operand, word))
    }

    /// What is known of a command of which something isn't: each word that may be a file, with all that is below it.
    fn roughly(&self, name: &str, argv: &[Word]) -> Option<Effects> {
        let mut effects = match name {
            "rm" | "rmdir" | "mkdir" | "touch" | "tee" | "cp" | "mv" | "ln" => Effects::unknown(),
            _ => {
                let reader = programs::reader(argv).filter(|reader| !matches!(reader.rule, Rule::Git))?;
                let mut effects = self.looks(reader.name, argv);
                if reader.name == "sed" {
                    effects.writes.clone_from(&effects.reads);
                }
                effects.unknown = true;
                return Some(effects);
            }
        };
        for word in &argv[1..] {
            let value =
                word.literal().filter(|text| text.starts_with("--")).and_then(|text| text.split_once('='));
            let paths = match value {
                Some((_, value)) => self.here.join(Path::new(value)),
                None if word.prefix().starts_with('-') => None,
                None => self.paths(word),
            };
            let paths = paths.unwrap_or_default();
            if matches!(name, "cp" | "mv" | "ln") {
                add(&mut effects.reads, paths.clone(), true);
            }
            let changed = if name.starts_with("rm") { &mut effects.deletes } else { &mut effects.writes };
            add(changed, paths, true);
        }
        Some(effects)
    }

    fn removes(&self, arguments: &[Word]) -> Option<Effects> {
        const RM: Options = Options {
            flags: "rRfivdIp",
            valued: "",
            long: &[
                "recursive",
                "force",
                "verbose",
                "interactive",
                "dir",
                "one-file-system",
                "no-preserve-root",
                "preserve-root",
            ],
            long_valued: &[],
        };
        let (operands, given) = split(arguments, &RM)?;
        let below = given.iter().any(|option| matches!(*option, "r" | "R" | "recursive"));
        let mut effects = Effects::none();
        for word in operands {
            add(&mut effects.deletes, self.paths(word)?, below);
        }
        Some(if below { effects.exclusive() } else { effects })
    }

    fn makes(&self, arguments: &[Word], options: &Options) -> Option<Effects> {
        let (operands, _) = split(arguments, options)?;
        let mut effects = Effects::none();
        for word in operands {
            add(&mut effects.writes, self.paths(word)?, false);
        }
        Some(effects)
    }

    /// Source and target of `cp`, `mv` and `ln`. A target that is a folder gets a file of the source's name.
    fn pairs(&self, operands: &[&Word], below: bool, effects: &mut Effects) -> Option<Vec<PathBuf>> {
        let (target, sources) = operands.split_last()?;
        if sources.is_empty() {
            return None;
        }
        let mut from = Vec::new();
        for target in self.paths(target)? {
            for source in sources {
                for source in self.paths(source)? {
                    add(&mut effects.writes, vec![target.join(source.file_name()?)], below);
                    from.push(source);
                }
            }
            add(&mut effects.writes, vec![target], below);
        }
        Some(from)
    }

    fn copies(&self, arguments: &[Word]) -> Option<Effects> {
        const CP: Options = Options {
            flags: "aRrfinvudpPHLlsxT",
            valued: "",
            long: &[
                "archive",
                "recursive",
                "force",
                "interactive",
                "no-clobber",
                "verbose",
                "update",
                "link",
                "symbolic-link",
            ],
            long_valued: &[],
        };
        let (operands, given) = split(arguments, &CP)?;
        let below = given.iter().any(|option| matches!(*option, "a" | "R" | "r" | "archive" | "recursive"));
        let links = given.iter().any(|option| {
            matches!(*option, "l" | "s" | "link" | "symbolic-link" | "d" | "a" | "archive" | "P")
        });
        let mut effects = Effects::none();
        let from = self.pairs(&operands, below, &mut effects)?;
        add(&mut effects.reads, from, below);
        Some(if links || below { effects.exclusive() } else { effects })
    }

    fn moves(&self, arguments: &[Word]) -> Option<Effects> {
        let long = &["force", "interactive", "no-clobber", "verbose", "update"];
        let (operands, _) =
            split(arguments, &Options { flags: "finvuT", valued: "", long, long_valued: &[] })?;
        let mut effects = Effects::none();
        let from = self.pairs(&operands, true, &mut effects)?;
        add(&mut effects.reads, from.clone(), true);
        add(&mut effects.deletes, from, true);
        Some(effects.exclusive())
    }

    fn links(&self, arguments: &[Word]) -> Option<Effects> {
        let long = &["symbolic", "force", "no-dereference", "verbose", "relative"];
        let (operands, _) =
            split(arguments, &Options { flags: "sfnvrihT", valued: "", long, long_valued: &[] })?;
        let mut effects = Effects::none();
        if let [only] = operands[..] {
            let name = PathBuf::from(only.literal()?).file_name()?.to_owned();
            add(&mut effects.writes, self.here.join(Path::new(&name))?, false);
            add(&mut effects.reads, self.paths(only)?, true);
        } else {
            let from = self.pairs(&operands, false, &mut effects)?;
            add(&mut effects.reads, from, true);
        }
        Some(effects.exclusive())
    }

    /// `sed -i` with a script that only prints otherwise.
    fn edits(&self, arguments: &[Word]) -> Option<Effects> {
        let place = arguments.iter().position(|word| matches!(word.literal(), Some("-i" | "--in-place")))?;
        let others: Vec<Word> = [&arguments[..place], &arguments[place + 1..]].concat();
        let argv = [&[Word::Literal("sed".to_owned())], &others[..]].concat();
        programs::only_looks(&argv, false).ok()?;
        let mut effects = self.looks("sed", &argv);
        effects.writes.clone_from(&effects.reads);
        Some(effects)
    }

    fn fetches(&self, arguments: &[Word]) -> Option<Effects> {
        const CURL: Options = Options {
            flags: "sSfvIigk46",
            valued: "HAemo",
            long: &[
                "silent",
                "show-error",
                "fail",
                "verbose",
                "head",
                "include",
                "insecure",
                "compressed",
                "http2",
            ],
            long_valued: &["header", "user-agent", "max-time", "connect-timeout", "retry", "output"],
        };
        let open = hint(arguments);
        let Some((operands, given)) = split(arguments, &CURL) else { return Some(open) };
        let writes = given.iter().any(|option| matches!(*option, "o" | "output"));
        let reads_files = arguments.iter().any(|word| word.prefix().contains('@'));
        if writes || reads_files || open.reaches.len() != operands.len() || operands.is_empty() {
            return Some(open);
        }
        let mut known = open;
        known.unknown = false;
        Some(known)
    }
}

/// Programs of which some options take the next word, which then isn't a file.
const VALUED: &[(&str, &str)] = &[
    ("head", "nc"),
    ("tail", "nc"),
    ("grep", "ABCme"),
    ("egrep", "ABCme"),
    ("fgrep", "ABCme"),
    ("rg", "ABCegmtTMjErd"),
    ("cut", "dfbc"),
    ("fold", "w"),
    ("paste", "d"),
    ("od", "AjNtw"),
    ("du", "d"),
    ("sort", "ktS"),
    ("sed", "e"),
    ("uniq", "fsw"),
    ("diff", "CUxW"),
    ("git", "nSGLU"),
    ("tree", "LPI"),
    ("jq", ""),
];

/// The words that may be files.
fn file_operands<'w>(name: &str, arguments: &'w [Word]) -> Vec<&'w Word> {
    if name == "find" {
        let starts = |word: &&Word| !word.prefix().starts_with(['-', '(', '!', ',']);
        let options = |word: &&Word| matches!(word.literal(), Some("-H" | "-L" | "-P"));
        return arguments.iter().skip_while(options).take_while(starts).collect();
    }
    let letters = VALUED.iter().find(|(program, _)| *program == name).map_or("", |(_, letters)| letters);
    let mut operands: Vec<&Word> = Vec::new();
    let mut value = false;
    let mut ended = false;
    for word in arguments {
        let text = word.prefix();
        if std::mem::take(&mut value) {
            continue;
        }
        if !ended && text == "--" {
            ended = true;
        } else if !ended && text.len() > 1 && text.starts_with('-') {
            let at = text.find(|c| letters.contains(c));
            value = !text.starts_with("--") && at.is_some_and(|at| at + 1 == text.len());
        } else {
            operands.push(word);
        }
    }
    operands
}

/// Whether a word is a pattern that matches only in the working directory.
fn stays(word: &Word) -> bool {
    let Word::Dynamic(open) = word else { return false };
    let plain = |c: char| c == marks::GLOB || (c > marks::GLOB && c != '/');
    open.shape.contains(marks::GLOB) && open.shape.chars().all(plain) && !open.shape.starts_with(['.', '-'])
}

/// Whether an operand of git is a path out of the working directory.
fn leads_elsewhere(word: &Word) -> bool {
    word.literal().is_none_or(|text| text.starts_with('/') || text.starts_with("../") || text == "..")
}

/// Unknown effects with the hosts of the URLs that are literal.
fn hint(arguments: &[Word]) -> Effects {
    let hosts = programs::operands(arguments).filter_map(|word| host(word.literal()?));
    hosts.fold(Effects::unknown(), |effects, host| effects.and(Effects::observes(host)))
}

/// The host of a URL, if it is plain.
fn host(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    if !matches!(&*scheme.to_ascii_lowercase(), "http" | "https" | "ssh" | "git" | "ftp") {
        return None;
    }
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(authority, |(host, _)| host);
    let plain =
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    plain.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

/// What everything that was found touches together.
pub(super) fn whole(found: &Analysis) -> Effects {
    let mut effects = Effects::none();
    for command in found.commands.iter().filter(|command| !command.layers.is_empty()) {
        let inner = command.effects.clone();
        if inner.as_ref().is_some_and(|inner| inner.claims.concurrency_safe == Some(false)) {
            effects = effects.exclusive();
        }
        effects.runs.push(Command { text: command.text.clone(), effects: inner.map(Box::new) });
    }
    for command in found.commands.iter().filter(|command| command.layers.is_empty()) {
        effects.unknown |= command.read_only.is_err();
    }
    for redirect in &found.redirects {
        let Some(paths) = &redirect.paths else {
            effects.unknown = true;
            continue;
        };
        if let Some(host) = redirect.host() {
            effects = effects.and(Effects::changes(host));
            continue;
        }
        for path in paths {
            if redirect.access == FileAccess::Read {
                effects.reads.push(PathSet::file(path));
            } else {
                effects.writes.push(PathSet::file(path));
            }
        }
    }
    effects.unknown |= !found.doubts.is_empty();
    effects
}
