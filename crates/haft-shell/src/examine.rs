//! Examines one command by the entry of its program: everything that its words say, as one list of findings.
//!
//! Every question about a command (what it reads, writes, reaches and starts, whether it only looks, which rules allow it)
//! is a filter on this list; see [`super::questions`]. What an entry doesn't know is open, never harmless.

mod meanings;

use haft::effects::Access;

use super::model::*;
use super::words::{
    GivenOption, WordReading, at_home, is_certain, is_plus, plain_words, read_words, replace_mark, without,
};
use super::{Open, Started, Word, address, base_name, languages, marks, parse, programs, streams};

/// Something that a command does, or may do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    Read {
        word: Word,
        extent: PathExtent,
    },
    /// `loose`: a place that isn't known is left to the effects.
    Write {
        word: Word,
        extent: PathExtent,
        loose: bool,
    },
    /// `recursive`: with everything below; `matches`: only what is found there.
    Delete {
        word: Word,
        extent: PathExtent,
        recursive: bool,
        matches: bool,
    },
    Connect {
        host: String,
        access: Access,
    },
    UnknownHost(String),
    Layer(LayerFinding),
    Held(HeldFinding),
    /// Standard input holds commands that aren't known.
    CommandsIn(&'static str),
    /// Starts something that isn't known.
    Undetermined,
    ShellState,
    ExactOnly(&'static str),
    Variable {
        name: String,
        value: Option<String>,
    },
    Repository(RepositoryLevel),
    ChangeDirectory(Option<Word>),
    LosesDirectory,
    /// Works on the repository of the folder that it runs in.
    OfRepository,
    /// Prints names of files that a pattern of this shape fits.
    PrintsPaths(Word),
    /// Why it may change something.
    Changes(String),
    Exclusive,
    /// It may touch more than is found.
    Open,
}

/// A command that another starts with its last words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerFinding {
    pub(crate) argv: Vec<Word>,
    /// Where it begins, if its words are the last ones as written.
    pub(crate) from: Option<usize>,
    pub(crate) started: Started,
    pub(crate) location: RunLocation,
    pub(crate) quiet: bool,
    /// By the likeliest reading.
    pub(crate) likely: bool,
}

/// A command in an argument of another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldFinding {
    pub(crate) command: HeldCommand,
    /// It runs in a folder that isn't known.
    pub(crate) elsewhere: bool,
    /// Nothing happens beside what it does.
    pub(crate) quiet: bool,
    pub(crate) shell: HeldShell,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeldCommand {
    Words(Vec<Word>),
    Text(String),
}

/// Which shell runs a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldShell {
    Another,
    This,
    /// This one, later.
    Later,
}

/// What comes in to a command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommandInput<'a> {
    /// The text of a here-document.
    pub(crate) text: Option<&'a str>,
    /// A pattern that all names fit which come in by a pipe.
    pub(crate) names: Option<&'a Word>,
}

/// How often words are read again: options in a variable, an alias.
const SPLICES_MAX: usize = 4;
const CODE_HIDDEN: &str = "has code that is known only when it runs";
const SCRIPT_HIDDEN: &str = "has a script that is known only when it runs";

/// Everything that the words of a command say.
pub(crate) fn examine(argv: &[Word], incoming: CommandInput<'_>) -> Vec<Finding> {
    examine_nested(argv, incoming, 0)
}

fn examine_nested(argv: &[Word], incoming: CommandInput<'_>, depth: usize) -> Vec<Finding> {
    let program = argv.first().and_then(Word::literal);
    let shown = program.unwrap_or("it");
    let unknown = || vec![Finding::Open, not_known(shown)];
    let Some(name) = program.map(base_name) else { return unknown() };
    let Some(known) = programs::find(name) else { return unknown() };
    if let Some(subcommand) = known.subcommand {
        let mut words = vec![literal(known.entry.names), literal(subcommand)];
        words.extend_from_slice(&argv[1..]);
        let layer = LayerFinding {
            argv: words,
            from: None,
            started: Started::Launched,
            location: RunLocation::Here,
            quiet: false,
            likely: true,
        };
        return vec![Finding::Layer(layer), Finding::Open];
    }
    let entry = known.entry;
    if let [_, Word::Literal(only)] = argv {
        if program == Some(name)
            && !entry.version.is_empty()
            && entry.version.split(' ').any(|form| form == only)
        {
            return Vec::new();
        }
        let listed =
            |name: &str| entry.all_options().any(|spec| spec.names.split(' ').any(|known| known == name));
        if matches!(&**only, "--version" | "--help")
            && entry.coverage != Coverage::Total
            && !listed(&only[2..])
        {
            return unknown();
        }
    }
    let mut examiner = CommandExaminer {
        argv,
        incoming,
        findings: Vec::new(),
        likely: true,
        renamed: known.renamed,
        depth,
        shown: shown.to_owned(),
    };
    examiner.entry(entry, 1);
    examiner.guard(entry);
    let usual = program.is_some_and(|program| programs::is_usual(program, name));
    if known.renamed || !usual {
        examiner.push(Finding::Open);
        examiner.push(not_known(shown));
    }
    examiner.findings
}

fn not_known(shown: &str) -> Finding {
    Finding::Changes(format!("`{shown}` isn't known to change nothing"))
}

pub(crate) fn literal(text: &str) -> Word {
    Word::Literal(text.to_owned())
}

struct CommandExaminer<'a> {
    argv: &'a [Word],
    incoming: CommandInput<'a>,
    findings: Vec<Finding>,
    likely: bool,
    renamed: bool,
    depth: usize,
    shown: String,
}

/// Where a value stands.
#[derive(Clone, Copy)]
struct ValuePlace<'r> {
    entry: &'static ProgramEntry,
    reading: &'r WordReading,
    /// The number of the first word in all words.
    start: usize,
    /// The index of the value in the argument list, if it is a word of its own.
    from: Option<usize>,
    attached: bool,
    /// What relative names count from.
    base: Option<&'r Word>,
    head: Option<&'r Word>,
    mark: Option<&'r Word>,
}

impl CommandExaminer<'_> {
    pub(crate) fn push(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn exact_only(&mut self, reason: &'static str) {
        self.push(Finding::ExactOnly(reason));
    }

    fn undetermined(&mut self, reason: &'static str) {
        self.exact_only(reason);
        self.push(Finding::Undetermined);
    }

    fn entry(&mut self, entry: &'static ProgramEntry, start: usize) {
        let words = &self.argv[start.min(self.argv.len())..];
        let readings = read_words(entry, words);
        let sure = readings.len() == 1;
        let likely = self.likely;
        for (number, reading) in readings.iter().enumerate() {
            self.likely = likely && number == 0;
            self.reading(entry, start, reading, sure);
        }
        self.likely = likely;
    }

    fn reading(&mut self, entry: &'static ProgramEntry, start: usize, reading: &WordReading, sure: bool) {
        let words = &self.argv[start.min(self.argv.len())..];
        let valued = |kind: fn(&MeaningKind) -> bool| {
            let has = |given: &&GivenOption| given.spec.meanings.iter().any(|meaning| kind(&meaning.kind));
            reading.options.iter().rev().find(has).and_then(|given| given.values.first())
        };
        let base = valued(|kind| matches!(kind, MeaningKind::Folder));
        let operand_base = valued(|kind| matches!(kind, MeaningKind::OperandFolder)).or(base);
        let head = valued(|kind| matches!(kind, MeaningKind::Head));
        let mark = valued(|kind| matches!(kind, MeaningKind::Mark));
        let place = ValuePlace { entry, reading, start, from: None, attached: false, base, head, mark };
        let mut sed = Vec::new();
        for given in &reading.options {
            let meanings = match entry.syntax.plus {
                PlusWords::Value(meanings) if is_plus(given.spec) => meanings,
                _ => given.spec.meanings,
            };
            let runs = |meaning: &ValueMeaning| {
                matches!(meaning.kind, MeaningKind::Program | MeaningKind::Text(TextLanguage::Shell))
            };
            if given.shortened && meanings.iter().any(runs) {
                self.undetermined(TELLS);
            }
            let from = (!given.attached).then_some(start + given.at);
            let place = ValuePlace { from, attached: given.attached, ..place };
            for meaning in meanings {
                self.meaning(meaning, &given.values, &place, &mut sed);
            }
            let hidden = given.values.iter().any(|word| matches!(word, Word::Dynamic(open) if open.splits));
            if hidden && !given.attached && entry.unknown == UnknownOption::Doubt {
                self.undetermined(TELLS);
            }
        }
        if reading.unfinished {
            self.undetermined(RUNS_GIVEN);
        }
        self.unlisted(entry, words, reading);
        let subcommand = reading.operands.first().filter(|_| !entry.subcommands.is_empty());
        if let Some(at) = subcommand
            && let Some(name) = words[*at].literal()
            && let Some(found) =
                entry.subcommands.iter().find(|one| one.all_names().any(|known| known == name))
        {
            self.entry_below(found, start + at + 1, base);
            return self.covers(entry, found, words, reading, sure);
        }
        let place = ValuePlace { base: operand_base, ..place };
        self.operands(&place, words, &mut sed);
        for meaning in entry.input {
            self.meaning(meaning, &[], &place, &mut sed);
        }
        self.sed(&sed, &place);
        self.covers(entry, entry, words, reading, sure);
    }

    /// A sub-command, whose names count from the folder that an option of the program gave.
    fn entry_below(&mut self, entry: &'static ProgramEntry, start: usize, base: Option<&Word>) {
        let before = self.findings.len();
        self.entry(entry, start);
        let Some(base) = base else { return };
        for finding in &mut self.findings[before..] {
            if let Finding::Read { word, .. } | Finding::Write { word, .. } | Finding::Delete { word, .. } =
                finding
            {
                *word = below(base, word);
            }
        }
    }

    /// What options that aren't listed mean.
    fn unlisted(&mut self, entry: &ProgramEntry, words: &[Word], reading: &WordReading) {
        for at in &reading.unknown {
            match entry.unknown {
                UnknownOption::Doubt => self.undetermined(TELLS),
                UnknownOption::LongFlag if !words[*at].prefix().starts_with("--") => self.undetermined(TELLS),
                UnknownOption::ShellState => self.meaning_of_state(),
                _ => {}
            }
            let text = words[*at].prefix();
            // A name that speaks of a file has one.
            if entry.coverage == Coverage::Total
                && let Some((name, _)) = text.strip_prefix("--").and_then(|long| long.split_once('='))
                && (name.contains("file") || name.contains("from"))
            {
                self.file(&without(&words[*at], name.len() + 3), PathExtent::File);
            }
            if entry.traits.has(ProgramTraits::CHANGES_FILES)
                && let Some((name, _)) = text.split_once('=')
            {
                let word = without(&words[*at], name.len() + 1);
                self.push(Finding::Read { word: word.clone(), extent: PathExtent::Tree });
                self.push(Finding::Write { word, extent: PathExtent::Tree, loose: true });
            }
        }
    }

    fn meaning_of_state(&mut self) {
        self.exact_only("takes commands from elsewhere");
        self.push(Finding::ShellState);
    }

    fn operands(&mut self, place: &ValuePlace<'_>, words: &[Word], sed: &mut Vec<Option<String>>) {
        let (entry, reading) = (place.entry, place.reading);
        let strict = entry.traits.has(ProgramTraits::STRICT_WORDS);
        for (number, at) in reading.operands.iter().enumerate().filter(|_| strict) {
            let splits = matches!(&words[*at], Word::Dynamic(open) if (open.splits && words[*at].prefix().is_empty()) || words[*at].prefix().starts_with('-'));
            if splits && number < reading.options_end {
                match entry.unknown {
                    UnknownOption::ShellState => self.meaning_of_state(),
                    _ => self.undetermined(RUNS_GIVEN),
                }
            }
        }
        if entry.syntax.stop == StopRule::Expression && strict {
            let splits = |word: &Word| match word {
                Word::Literal(_) => false,
                Word::Dynamic(open) => {
                    (open.splits && word.prefix().is_empty()) || word.prefix().starts_with('-')
                }
            };
            if words.iter().any(splits) {
                self.undetermined(RUNS_GIVEN);
            }
        }
        if entry.traits.has(ProgramTraits::CHANGES_FILES) && self.changes_roughly(place, words) {
            return;
        }
        let count = reading.operands.len();
        for spec in entry.operands {
            let range = match spec.position {
                OperandPosition::Nth(number) => number..(number + 1).min(count),
                OperandPosition::From(number) => number..count,
                OperandPosition::Last => count.saturating_sub(1)..count,
                OperandPosition::ButLast => 0..count.saturating_sub(1),
                OperandPosition::AfterDashes => match reading.dashes {
                    Some(before) => before..count,
                    None => continue,
                },
                OperandPosition::Missing(number) if count <= number => 0..0,
                OperandPosition::Argument if !words.is_empty() => 0..0,
                OperandPosition::Always => 0..0,
                _ => continue,
            };
            let alone = matches!(
                spec.position,
                OperandPosition::Missing(_) | OperandPosition::Argument | OperandPosition::Always
            );
            if !alone && range.is_empty() {
                continue;
            }
            for meaning in spec.meanings {
                let whole = matches!(
                    meaning.kind,
                    MeaningKind::Command(_)
                        | MeaningKind::Joined(_)
                        | MeaningKind::Prepend(_)
                        | MeaningKind::Template
                        | MeaningKind::PackageOf(_)
                        | MeaningKind::KeyPair(_)
                        | MeaningKind::Derived(DerivedPath::IntoTarget(_))
                );
                if alone {
                    self.meaning(meaning, &[], place, sed);
                } else if whole {
                    let from = Some(place.start + reading.operands[range.start]);
                    let values: Vec<Word> =
                        reading.operands[range.clone()].iter().map(|at| words[*at].clone()).collect();
                    self.meaning(meaning, &values, &ValuePlace { from, ..*place }, sed);
                } else {
                    for at in &reading.operands[range.clone()] {
                        let from = Some(place.start + at);
                        let value = std::slice::from_ref(&words[*at]);
                        self.meaning(meaning, value, &ValuePlace { from, ..*place }, sed);
                    }
                }
            }
        }
    }

    /// What a program that changes files does if an option or an operand isn't known: each word that may be a file counts,
    /// with all that is below it.
    fn changes_roughly(&mut self, place: &ValuePlace<'_>, words: &[Word]) -> bool {
        let (entry, reading) = (place.entry, place.reading);
        let operands = || reading.operands.iter().map(|at| &words[*at]);
        if reading.unknown.is_empty() && operands().chain(place.head).all(is_place) {
            return false;
        }
        self.push(Finding::Open);
        let kinds = || entry.operands.iter().flat_map(|spec| spec.meanings).map(|meaning| meaning.kind);
        let deletes = kinds().any(|kind| matches!(kind, MeaningKind::Delete(_)));
        // A list in braces may hold an option.
        let brace = |word: &Word| matches!(word, Word::Dynamic(open) if open.shape.contains(marks::BRACE) && open.shape.contains('-'));
        let recursive = operands().any(brace) || self.deletes_below(place);
        let copies = kinds().any(|kind| matches!(kind, MeaningKind::Derived(_)));
        for word in operands().chain(place.head).cloned() {
            let extent = PathExtent::Tree;
            if deletes && !copies {
                self.push(Finding::Delete { word, extent, recursive, matches: false });
                continue;
            }
            if copies && is_place(&word) {
                self.push(Finding::Read { word: word.clone(), extent });
            }
            if is_place(&word) {
                self.push(Finding::Write { word, extent, loose: true });
            }
        }
        true
    }

    /// Whether options make a program delete what is below its operands.
    fn deletes_below(&self, place: &ValuePlace<'_>) -> bool {
        let modes = place.reading.modes;
        let applies =
            |meaning: &&ValueMeaning| modes & meaning.when == meaning.when && modes & meaning.unless == 0;
        let mut meanings = place.entry.operands.iter().flat_map(|spec| spec.meanings).filter(applies);
        meanings.any(|meaning| matches!(meaning.kind, MeaningKind::Delete(PathExtent::Tree)))
    }

    /// Whether more may be touched than is found, and whether something may be changed.
    fn covers(
        &mut self,
        entry: &ProgramEntry,
        below: &ProgramEntry,
        words: &[Word],
        reading: &WordReading,
        sure: bool,
    ) {
        if reading.modes & OPEN_ENDED != 0 {
            self.push(Finding::Open);
        }
        let name = entry.all_names().next().unwrap_or_default();
        // A sub-command says itself what it covers; options in front of it make it another.
        if !std::ptr::eq(entry, below) {
            if reading.modes & ANY_OPTION != 0 {
                self.push(Finding::Open);
                self.push(Finding::Changes(format!("`{name}` with an option before its sub-command")));
            }
            return;
        }
        if entry.traits.has(ProgramTraits::OF_REPOSITORY) {
            self.push(Finding::OfRepository);
        }
        match entry.coverage {
            Coverage::Partial => {
                self.push(Finding::Open);
                let shown = self.shown.clone();
                self.push(not_known(&shown));
            }
            Coverage::Listed => {
                let changes =
                    |found: &Finding| matches!(found, Finding::Write { .. } | Finding::Delete { .. });
                let complete = entry.traits.has(ProgramTraits::COMPLETE)
                    || entry.traits.has(ProgramTraits::CHANGES_FILES);
                if !complete && self.findings.iter().any(changes) {
                    self.push(Finding::Open);
                }
                if let Some(at) = reading.unknown.first() {
                    self.push(Finding::Open);
                    self.push(Finding::Changes(format!("`{name}` with `{}`", words[*at].plain())));
                } else if reading.loose || !sure {
                    self.push(Finding::Changes(format!(
                        "`{name}` with options that versions read differently"
                    )));
                    if !sure {
                        self.push(Finding::Open);
                    }
                }
                self.hidden_words(entry, words, reading);
            }
            Coverage::Total => self.hidden_words(entry, words, reading),
        }
    }

    /// Words that are known only when they run.
    fn hidden_words(&mut self, entry: &ProgramEntry, words: &[Word], reading: &WordReading) {
        let name = entry.all_names().next().unwrap_or_default();
        for (at, word) in words.iter().enumerate() {
            let Word::Dynamic(open) = word else { continue };
            let number = reading.operands.iter().position(|operand| *operand == at);
            let names_file = entry.operands.iter().any(|spec| !spec.meanings.is_empty());
            let hidden = (open.splits && pattern_folder(word).is_none())
                || word.prefix().starts_with('-')
                || (open.shape.starts_with(marks::EXPANSION) && number.is_some());
            if hidden && names_file {
                self.push(Finding::Open);
            }
            // What may be an option may be any of them; what an option takes as its value is none.
            let ended = number.is_some_and(|number| number >= reading.options_end)
                || (reading.values.contains(&at) && !open.splits);
            let counts = |spec: &OperandSpec| {
                let later = matches!(spec.position, OperandPosition::Nth(1..) | OperandPosition::From(1..));
                let reads = |meaning: &ValueMeaning| matches!(meaning.kind, MeaningKind::Read(_));
                later && !spec.meanings.iter().all(reads)
            };
            let files = word.prefix().contains('/')
                && pattern_folder(word).is_some()
                && !entry.operands.iter().any(counts);
            if entry.coverage == Coverage::Listed && !ended && !files {
                let home =
                    open.shape.starts_with(marks::HOME) && entry.traits.has(ProgramTraits::CHANGES_FILES);
                if !home {
                    self.push(Finding::Open);
                }
                self.push(Finding::Changes(format!("`{name}` with an argument that isn't known")));
            }
        }
    }

    /// Words and patterns that may become an option which runs or writes something.
    fn guard(&mut self, entry: &ProgramEntry) {
        let arguments = &self.argv[1..];
        let named = arguments.iter().find_map(|word| {
            let name = word.literal()?;
            entry.subcommands.iter().find(|one| one.all_names().any(|known| known == name))
        });
        let told =
            self.findings.iter().any(|found| matches!(found, Finding::ExactOnly(_) | Finding::Held(_)));
        let files = named.is_some_and(|one| one.traits.has(ProgramTraits::PATTERNS_ARE_FILES));
        let positions = || 0..arguments.len();
        if entry.traits.has(ProgramTraits::GUARDS_WORDS)
            && !told
            && positions().any(|at| may_be_option(entry, arguments, at))
        {
            self.exact_only(TELLS);
        } else if entry.traits.has(ProgramTraits::GUARDS_PATTERNS)
            && !told
            && !files
            && positions().any(|at| pattern_may_be_option(entry, arguments, at))
        {
            self.exact_only("has a pattern that may become an option, unlike `./*`");
        }
    }

    fn file(&mut self, word: &Word, extent: PathExtent) {
        if is_stream(word) {
            return;
        }
        self.push(Finding::Read { word: word.clone(), extent });
    }
}

impl WordReading {
    /// The first word after the option that holds a value.
    fn next_after(&self, place: &ValuePlace<'_>) -> usize {
        match place.from {
            Some(from) => from - place.start + 1,
            None => self.options.iter().find(|given| given.attached).map_or(0, |given| given.at + 1),
        }
    }
}

/// Where a script comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptSource {
    File,
    Input,
    /// Another descriptor, or what another command prints.
    Unknown,
}

fn script_source(word: &Word) -> ScriptSource {
    match word {
        Word::Literal(text) if text == "-" => ScriptSource::Input,
        Word::Literal(text) => match streams::descriptor(text) {
            Some(0) => ScriptSource::Input,
            Some(_) => ScriptSource::Unknown,
            None => ScriptSource::File,
        },
        Word::Dynamic(open) if open.written.starts_with("<(") => ScriptSource::Unknown,
        Word::Dynamic(_) => ScriptSource::File,
    }
}

fn is_one_of(names: &str, text: &str) -> bool {
    names.split(' ').any(|name| name == text || (name == "''" && text.is_empty()))
}

/// Whether a key fits a pattern in which `*` stands for anything.
fn fits_key(pattern: &str, key: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == key,
        Some((front, rest)) => key.strip_prefix(front).is_some_and(|tail| {
            rest.is_empty()
                || (0..tail.len()).any(|at| tail.is_char_boundary(at) && fits_key(rest, &tail[at..]))
        }),
    }
}

fn shape(word: &Word) -> String {
    match word {
        Word::Literal(text) => text.clone(),
        Word::Dynamic(open) => open.shape.clone(),
    }
}

/// Standard input and output, and what isn't a file.
fn is_stream(word: &Word) -> bool {
    word.literal().is_some_and(|text| matches!(text, "-" | "") || streams::is_stream(text))
}

/// Whether a word says where it leads.
pub(crate) fn is_place(word: &Word) -> bool {
    match word {
        Word::Literal(_) => true,
        Word::Dynamic(open) => open.shape.starts_with(marks::HOME),
    }
}

fn below_base(place: &ValuePlace<'_>, word: &Word) -> Word {
    place.base.map_or_else(|| word.clone(), |base| below(base, word))
}

/// A word that counts from a folder.
fn below(base: &Word, word: &Word) -> Word {
    match (base, word) {
        _ if base == word => word.clone(),
        (_, Word::Literal(text)) if text.starts_with('/') => word.clone(),
        (Word::Literal(base), Word::Literal(text)) => {
            literal(&format!("{}/{text}", base.trim_end_matches('/')))
        }
        (Word::Dynamic(open), Word::Literal(text)) if open.shape.starts_with(marks::HOME) => {
            at_home(&format!("{}/{text}", open.shape[1..].trim_end_matches('/')))
        }
        (_, Word::Dynamic(open)) if open.shape.starts_with(marks::HOME) => word.clone(),
        _ => Word::anything(),
    }
}

/// The program of a package: without scope and version.
fn package_program(text: &str) -> Option<&str> {
    let name = match text.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/')?.1,
        None => text,
    };
    let name = name.split(['@', '=', '[']).next()?;
    (!name.is_empty() && name != text).then_some(name)
}

/// The folder below which everything lies that a pattern matches: `.` for `*.rs`, `src` for `src/*/mod.rs`. Only for a
/// relative one without anything else to expand that can't lead up again: `.*` may be `..`.
pub(crate) fn pattern_folder(word: &Word) -> Option<std::path::PathBuf> {
    let Word::Dynamic(open) = word else { return None };
    let shape = open.shape.as_str();
    let is_pattern = |part: &str| part.contains(marks::GLOB);
    let plain = |part: &str| {
        part.chars().all(|c| c >= marks::GLOB) && part != ".." && !(is_pattern(part) && part.starts_with('.'))
    };
    if shape.starts_with(['/', '-']) || !is_pattern(shape) || !shape.split('/').all(plain) {
        return None;
    }
    let folder: std::path::PathBuf = shape.split('/').take_while(|part| !is_pattern(part)).collect();
    Some(if folder.as_os_str().is_empty() { ".".into() } else { folder })
}

/// A word that stands for names below a folder.
pub(crate) fn names_below(folder: &str) -> Word {
    let folder = folder.trim_end_matches('/');
    Word::Dynamic(Open {
        written: "…".to_owned(),
        // Not all that is in the folder.
        shape: format!("{folder}/{}_", marks::GLOB),
        splits: true,
    })
}

/// Whether an argument that is known only when it runs may be an option then, or bring one along. What is quoted after
/// an option is its value, as in `git commit -m "$x"`; a pattern is judged apart.
fn may_be_option(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    let expands = open.shape.contains(marks::EXPANSION);
    let listed = open.shape.contains(marks::BRACE) && open.shape.starts_with('{');
    // The name of the option is known, and what is expanded is its value.
    let prefix = arguments[at].prefix();
    if prefix.starts_with("--") && prefix.contains('=') && !open.splits {
        return false;
    }
    if listed || open.shape.starts_with('-') || (expands && open.splits) {
        return true;
    }
    let is_option = |word: &Word| word.literal().is_some_and(|text| text.starts_with('-'));
    // Options before a sub-command mostly have no value.
    let front = !entry.subcommands.is_empty() && is_option(&arguments[0]);
    let value = at > 0 && is_option(&arguments[at - 1]) && !front;
    open.shape.starts_with(marks::EXPANSION) && !is_ended(entry, arguments, at) && !value
}

/// Whether a pattern may expand to a file that is named like an option. Whoever made the files chose their names.
fn pattern_may_be_option(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    let Word::Dynamic(open) = &arguments[at] else { return false };
    open.shape.starts_with(marks::GLOB) && !is_ended(entry, arguments, at)
}

fn is_ended(entry: &ProgramEntry, arguments: &[Word], at: usize) -> bool {
    entry.syntax.stop != StopRule::Expression
        && arguments[..at].iter().any(|word| word.literal() == Some("--"))
}
