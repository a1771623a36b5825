//! What a command touches, for the programs whose arguments are known to name it.
//!
//! Programs that aren't here may touch anything. Reads may be named too many (the value of an option that looks like a
//! file), never too few. What options name is read by [`super::writes`], and hosts by [`super::hosts`]: such programs have
//! more ways to write and reach than are read, so their effects stay unknown, and what is named is what rules can stop.

use std::path::{Path, PathBuf};

use haft::Effects;
use haft::effects::{Command, PathSet, Reach};

use super::options::{Found, Options};
use super::readers::{Reads, Rule};
use super::walk::Here;
use super::wrap::Inner;
use super::writes::{self, Named};
use super::{
    Analysis, FileAccess, Layer, Place, Word, base_name, hosts, marks, programs, reader_files, script,
    streams,
};

/// What a command touches.
pub(super) struct Touched {
    /// If anything is known. What isn't known of its arguments makes the effects unknown, beside those that are.
    pub(super) effects: Option<Effects>,
    /// Why only an exact rule allows it: it writes or runs something at a place that isn't known.
    pub(super) open: Option<&'static str>,
}

/// Runners whose commands see other files.
const CONTAINERS: &[&str] = &[
    "docker",
    "docker-compose",
    "podman",
    "nerdctl",
    "kubectl",
    "oc",
    "lxc",
    "incus",
    "multipass",
    "heroku",
    "mosh",
    "toolbox",
    "distrobox",
    "flatpak",
];

/// What the layers of a command touch together.
pub(super) fn layers(
    layers: &[Layer],
    inner: &Inner,
    here: &Here,
    place: &Place,
    only_looks: bool,
) -> Touched {
    let at = At { here, place };
    let mut touched = Touched { effects: None, open: None };
    let (last, wrappers) = layers.split_last().expect("a command has at least one layer");
    let name = |layer: &Layer| layer.argv[0].literal().map(base_name).unwrap_or_default().to_owned();
    let contained = wrappers.iter().any(|layer| CONTAINERS.contains(&&*name(layer)));
    if !contained {
        if matches!(inner, Inner::Nothing | Inner::Several(_)) {
            touched.effects = at.command(&last.argv, only_looks);
        }
        if !only_looks {
            at.beside(&last.argv, &mut touched);
        }
    }
    for (layer, next) in wrappers.iter().zip(&layers[1..]) {
        let own = layer.argv.len().saturating_sub(next.argv.len()).max(1);
        at.named(&writes::by_wrapper(&layer.argv[..own.min(layer.argv.len())]), &mut touched);
    }
    if let Some(effects) = &mut touched.effects {
        effects.reads.retain(|set| !streams::is_stream_path(&set.path));
        effects.writes.retain(|set| !streams::is_stream_path(&set.path));
    }
    touched
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

/// The same, without what is there already.
fn add_new(sets: &mut Vec<PathSet>, paths: Vec<PathBuf>, below: bool) {
    for path in paths {
        let set = if below { PathSet::subtree(path) } else { PathSet::file(path) };
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
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
    /// What a command with these words touches, if its program is known.
    fn command(&self, argv: &[Word], only_looks: bool) -> Option<Effects> {
        let name = base_name(argv.first()?.literal()?);
        let arguments = &argv[1..];
        if only_looks {
            return Some(self.looks(name, argv));
        }
        let known = match name {
            "rm" | "rmdir" => self.removes(arguments),
            "mkdir" => self.makes(
                arguments,
                &Options { flags: "pv", valued: "m", long: &["parents", "verbose"], long_valued: &["mode"] },
            ),
            "touch" => self.makes(
                arguments,
                &Options {
                    flags: "acmfh",
                    valued: "dt",
                    long: &["no-create"],
                    long_valued: &["date", "time"],
                },
            ),
            "tee" => self
                .makes(arguments, &Options { flags: "aip", valued: "", long: &["append"], long_valued: &[] }),
            "cp" => self.copies(&target_last(arguments)),
            "mv" => self.moves(&target_last(arguments)),
            "ln" => self.links(&target_last(arguments)),
            "sed" | "gsed" => return Some(self.sed(arguments)),
            "curl" => return self.fetches(argv),
            _ => None,
        };
        known.or_else(|| self.roughly(name, argv))
    }

    /// What the options of a program name, the hosts it reaches, and the folder it works in if that is another.
    fn beside(&self, argv: &[Word], touched: &mut Touched) {
        self.named(&writes::named(argv), touched);
        let Some(program) = argv.first().and_then(Word::literal) else { return };
        if matches!(base_name(program), "sed" | "gsed")
            && let Some(effects) = &touched.effects
            && effects.unknown
            && script::read(&script::arguments(&argv[1..]).script).writes.len() > effects.writes.len()
        {
            touched.open = Some(OPEN);
        }
        let reached = hosts::reached(argv);
        if reached.known {
            let sure = touched.effects.as_ref().is_some_and(|effects| !effects.unknown);
            let effects = touched.effects.get_or_insert_with(Effects::unknown);
            effects.unknown |= !sure;
            for (host, access) in reached.hosts {
                if !effects.reaches.iter().any(|reach| reach.host == host) {
                    effects.reaches.push(Reach { host, access });
                }
            }
            for file in &reached.files {
                self.read(effects, self.here.join(Path::new(file)), false);
            }
        }
        if !self.here.moved() || touched.effects.as_ref().is_some_and(|effects| !effects.unknown) {
            return;
        }
        let relative = program.contains('/') && !program.starts_with('/');
        let Some(folders) = self.here.folders() else {
            if relative {
                touched.open = touched.open.or(Some("is a program of a folder that isn't known"));
            }
            return;
        };
        // A program that may do anything does it there.
        let folders = folders.iter().filter(|folder| !folder.as_os_str().is_empty()).cloned().collect();
        let effects = touched.effects.get_or_insert_with(Effects::unknown);
        if relative {
            self.read(effects, self.here.join(Path::new(program)), false);
        }
        add(&mut effects.reads, folders, false);
    }

    /// Adds what a program names beside its ordinary arguments.
    fn named(&self, named: &Named, touched: &mut Touched) {
        if named.is_empty() {
            return;
        }
        let sure = touched.effects.as_ref().is_some_and(|effects| !effects.unknown);
        let effects = touched.effects.get_or_insert_with(Effects::unknown);
        effects.unknown |= !sure;
        let paths = |word: &Word| match (&named.base, word) {
            (Some(Word::Literal(base)), Word::Literal(text)) => self.here.join(&Path::new(base).join(text)),
            (Some(_), Word::Literal(text)) if !text.starts_with('/') => None,
            _ => self.paths(word),
        };
        for (word, below) in &named.writes {
            match paths(word) {
                Some(paths) => add_new(&mut effects.writes, paths, *below),
                None => touched.open = touched.open.or(Some(OPEN)),
            }
        }
        for (word, below) in &named.deletes {
            match paths(word) {
                Some(paths) => add_new(&mut effects.deletes, paths, *below),
                None => touched.open = touched.open.or(Some(OPEN)),
            }
        }
        for (word, below) in &named.reads {
            match if named.base.as_ref() == Some(word) { self.paths(word) } else { paths(word) } {
                Some(paths) => add_new(&mut effects.reads, paths, *below),
                None => effects.unknown = true,
            }
        }
        effects.unknown |= touched.open.is_some();
    }

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
                // Any beginning of a name is that name.
                Some(long) => {
                    let long = long.split('=').next().unwrap_or(long);
                    !long.is_empty()
                        && names.iter().any(|name| long.starts_with(name) || name.starts_with(long))
                }
                None => word.prefix().starts_with('-') && word.prefix().contains(letters),
            })
        };
        if matches!(reader.rule, Rule::Git) {
            self.read(&mut effects, self.here.join(Path::new(".")), true);
        }
        for (word, below) in reader_files::named(name, arguments) {
            if word.literal() != Some("-") {
                self.read(&mut effects, self.paths(&word), below);
            }
        }
        effects.unknown |= reader_files::loads(name, arguments);
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
                (open.splits && pattern_folder(word).is_none())
                    || word.prefix().starts_with('-')
                    || (open.shape.starts_with(marks::EXPANSION) && !self.is_value(name, arguments, word))
            }
        };
        effects.unknown |= arguments.iter().any(hidden);
        let mut operands = file_operands(name, arguments);
        let mut below = reader.reads == Reads::Trees;
        let searches = matches!(name, "grep" | "egrep" | "fgrep" | "rg" | "fd" | "fdfind");
        if searches {
            let finds = name.starts_with("fd");
            let pattern_given = !finds && has(&['e', 'f'], &["regexp", "file"]);
            if !pattern_given && !operands.is_empty() {
                operands.remove(0);
            }
            below = finds
                || name == "rg"
                || has(&['r', 'R', 'd'], &["recursive", "dereference-recursive", "directories"]);
        }
        if matches!(reader.rule, Rule::Awk) && !operands.is_empty() {
            operands.remove(0);
            // `name=value` sets a variable, where it isn't a file.
            operands.retain(|word| !word.prefix().contains('='));
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
            match pattern_folder(word) {
                Some(folder) => self.read(&mut effects, self.here.join(&folder), true),
                None => self.read(&mut effects, self.paths(word), below),
            }
        }
        effects
    }

    fn read(&self, effects: &mut Effects, paths: Option<Vec<PathBuf>>, below: bool) {
        match paths {
            Some(paths) => add_new(&mut effects.reads, paths, below),
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

    /// Source and target of `cp`, `mv` and `ln`. A target that is a folder gets a file of the source's name, unless an
    /// option says that it is the target itself; whoever knows the disk drops what would lie in a file.
    fn pairs(
        &self,
        operands: &[&Word],
        given: &[&str],
        below: bool,
        effects: &mut Effects,
    ) -> Option<Vec<PathBuf>> {
        let itself = given.contains(&"T");
        let (target, sources) = operands.split_last()?;
        if sources.is_empty() {
            return None;
        }
        let mut from = Vec::new();
        for target in self.paths(target)? {
            for source in sources {
                for source in self.paths(source)? {
                    if !itself {
                        add(&mut effects.writes, vec![target.join(source.file_name()?)], below);
                    }
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
        let from = self.pairs(&operands, &given, below, &mut effects)?;
        add(&mut effects.reads, from, below);
        Some(if links || below { effects.exclusive() } else { effects })
    }

    fn moves(&self, arguments: &[Word]) -> Option<Effects> {
        let long = &["force", "interactive", "no-clobber", "verbose", "update"];
        let (operands, given) =
            split(arguments, &Options { flags: "finvuT", valued: "", long, long_valued: &[] })?;
        let mut effects = Effects::none();
        let from = self.pairs(&operands, &given, true, &mut effects)?;
        add(&mut effects.reads, from.clone(), true);
        add(&mut effects.deletes, from, true);
        Some(effects.exclusive())
    }

    fn links(&self, arguments: &[Word]) -> Option<Effects> {
        let long = &["symbolic", "force", "no-dereference", "verbose", "relative"];
        let (operands, given) =
            split(arguments, &Options { flags: "sfnvrihT", valued: "", long, long_valued: &[] })?;
        let mut effects = Effects::none();
        if let [only] = operands[..] {
            let name = PathBuf::from(only.literal()?).file_name()?.to_owned();
            add(&mut effects.writes, self.here.join(Path::new(&name))?, false);
            add(&mut effects.reads, self.paths(only)?, true);
        } else {
            let from = self.pairs(&operands, &given, false, &mut effects)?;
            add(&mut effects.reads, from, true);
        }
        Some(effects.exclusive())
    }

    /// `sed` with any script: the files, and what the script names.
    fn sed(&self, words: &[Word]) -> Effects {
        let arguments = script::arguments(words);
        let script = script::read(&arguments.script);
        let mut effects = Effects::none();
        for word in arguments
            .files
            .iter()
            .copied()
            .chain(&arguments.scripts)
            .filter(|word| word.literal() != Some("-"))
        {
            match pattern_folder(word) {
                Some(folder) => self.read(&mut effects, self.here.join(&folder), true),
                None => self.read(&mut effects, self.paths(word), false),
            }
        }
        if arguments.in_place {
            effects.writes.clone_from(&effects.reads);
        }
        let is_file = |file: &&&str| !matches!(**file, "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "");
        for file in script.reads.iter().filter(is_file) {
            self.read(&mut effects, self.here.join(Path::new(file)), false);
        }
        for file in script.writes.iter().filter(is_file) {
            match self.here.join(Path::new(file)) {
                Some(paths) => add(&mut effects.writes, paths, false),
                None => effects.unknown = true,
            }
        }
        effects.unknown |= arguments.unknown || arguments.open || script.unread || !script.runs.is_empty();
        effects
    }

    /// `curl` with nothing but the simplest options, all of whose addresses are known.
    fn fetches(&self, argv: &[Word]) -> Option<Effects> {
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
        let arguments = &argv[1..];
        let (operands, _) = split(arguments, &CURL)?;
        let reached = hosts::reached(argv);
        let reads_files = arguments.iter().any(|word| word.prefix().starts_with('@'));
        let known = reached.unknown.is_none() && !reads_files && !operands.is_empty();
        known.then(Effects::none)
    }
}

const OPEN: &str = "writes a file that is known only when it runs";

/// The arguments of `cp`, `mv` or `ln` with the folder of `-t` as the last operand.
fn target_last(arguments: &[Word]) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::with_capacity(arguments.len());
    let mut target = None;
    let mut ended = false;
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let text = word.literal().unwrap_or("");
        ended |= text == "--";
        if ended || !text.starts_with('-') {
            words.push(word.clone());
            continue;
        }
        let long = text.strip_prefix("--").map(|long| long.split_once('=').unwrap_or((long, "")));
        if let Some((name, value)) = long {
            if name.len() < 2 || !"target-directory".starts_with(name) {
                words.push(word.clone());
            } else if value.is_empty() {
                target = rest.next().cloned();
            } else {
                target = Some(Word::Literal(value.to_owned()));
            }
        } else if let Some((front, value)) = text.split_once('t') {
            if front.len() > 1 {
                words.push(Word::Literal(front.to_owned()));
            }
            target =
                if value.is_empty() { rest.next().cloned() } else { Some(Word::Literal(value.to_owned())) };
        } else {
            words.push(word.clone());
        }
    }
    words.extend(target);
    words
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
    ("sort", "ktSoT"),
    ("sed", "e"),
    ("uniq", "fsw"),
    ("diff", "CUxW"),
    ("git", "nSGLU"),
    ("fd", "dEteScj"),
    ("fdfind", "dEteScj"),
    ("awk", "Fv"),
    ("gawk", "Fv"),
    ("mawk", "Fv"),
    ("base64", "w"),
    ("hexdump", "ensf"),
    ("column", "sotNRHEWcT"),
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

/// The folder below which everything lies that a pattern matches: `.` for `*.rs`, `src` for `src/*/mod.rs`. Only for a
/// relative one without anything else to expand that can't lead up again: `.*` may be `..`.
pub(super) fn pattern_folder(word: &Word) -> Option<PathBuf> {
    let Word::Dynamic(open) = word else { return None };
    let shape = open.shape.as_str();
    let is_pattern = |part: &str| part.contains(marks::GLOB);
    let plain = |part: &str| {
        part.chars().all(|c| c >= marks::GLOB) && part != ".." && !(is_pattern(part) && part.starts_with('.'))
    };
    if shape.starts_with(['/', '-']) || !is_pattern(shape) || !shape.split('/').all(plain) {
        return None;
    }
    let folder: PathBuf = shape.split('/').take_while(|part| !is_pattern(part)).collect();
    Some(if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
}

/// Whether an operand of git is a path out of the working directory.
fn leads_elsewhere(word: &Word) -> bool {
    word.literal().is_none_or(|text| text.starts_with('/') || text.starts_with("../") || text == "..")
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
