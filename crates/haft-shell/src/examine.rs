//! Examines one command by the entry of its program: everything that its words say, as one list of findings.
//!
//! Every question about a command (what it reads, writes, reaches and starts, whether it only looks, which rules allow it)
//! is a filter on this list; see [`super::questions`]. What an entry doesn't know is open, never harmless.

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

    /// What a value means.
    fn meaning(
        &mut self,
        meaning: &ValueMeaning,
        values: &[Word],
        place: &ValuePlace<'_>,
        sed: &mut Vec<Option<String>>,
    ) {
        let modes = place.reading.modes;
        if modes & meaning.when != meaning.when || modes & meaning.unless != 0 {
            return;
        }
        let each =
            |examiner: &mut Self, meanings: &[ValueMeaning], word: &Word, sed: &mut Vec<Option<String>>| {
                for meaning in meanings {
                    examiner.meaning(meaning, std::slice::from_ref(word), place, sed);
                }
            };
        let reason = meaning.reason;
        match (meaning.kind, values) {
            // These need no value.
            (MeaningKind::At(path, meanings), _) => {
                let word = match path.strip_prefix('~') {
                    Some(rest) => at_home(rest),
                    None => literal(path),
                };
                each(self, meanings, &word, sed);
            }
            (MeaningKind::UnknownHost(why), _) => self.push(Finding::UnknownHost(why.to_owned())),
            (MeaningKind::Input(language, needed), _) => match self.incoming.text {
                Some(text) => self.language(language, &literal(text), place, reason, sed),
                None if needed && matches!(language, TextLanguage::Shell) => {
                    self.push(Finding::CommandsIn(reason))
                }
                None if needed => self.undetermined(reason),
                None => {}
            },
            (MeaningKind::Repository(level), _) => self.push(Finding::Repository(level)),
            (MeaningKind::ChangeDirectory, _) => self.push(Finding::ChangeDirectory(values.first().cloned())),
            (MeaningKind::LosesDirectory, _) => self.push(Finding::LosesDirectory),
            (MeaningKind::ShellState, _) => {
                self.exact_only(reason);
                self.push(Finding::ShellState);
            }
            (MeaningKind::Undetermined, _) => self.undetermined(reason),
            (MeaningKind::ExactOnly, _) => self.exact_only(reason),
            (MeaningKind::Changes, _) => {
                let changes = format!("`{}` with these arguments may change something", self.shown);
                self.push(Finding::Changes(changes));
                self.push(Finding::Open);
            }
            (MeaningKind::ChangesListed, _) => {
                let changes = format!("`{}` with these arguments may change something", self.shown);
                self.push(Finding::Changes(changes));
            }
            (MeaningKind::NoValue(meanings), []) => {
                for meaning in meanings {
                    self.meaning(meaning, &[], place, sed);
                }
            }
            (MeaningKind::NoValue(_), _) => {}
            (MeaningKind::Opens, _) => self.push(Finding::Open),
            (MeaningKind::WritesAnywhere, _) => {
                self.push(Finding::Write { word: Word::anything(), extent: PathExtent::Tree, loose: false });
            }
            (MeaningKind::Exclusive, _) => self.push(Finding::Exclusive),
            (MeaningKind::PrintsPaths, _) => self.prints_paths(place),
            (MeaningKind::Head | MeaningKind::Mark, _) => {}
            (MeaningKind::Command(form), []) if place.head.is_some() => {
                self.command(form, &[], place, reason)
            }
            (_, []) => {}
            (MeaningKind::Read(extent), [word, ..]) => self.file(&below_base(place, word), extent),
            (MeaningKind::Write(extent) | MeaningKind::WriteLoose(extent), [word, ..]) => {
                let loose = matches!(meaning.kind, MeaningKind::WriteLoose(_));
                if !is_stream(word) && (!loose || is_place(word)) {
                    self.push(Finding::Write { word: below_base(place, word), extent, loose });
                }
            }
            (MeaningKind::WriteInto, [word, ..]) => {
                if !matches!(word.literal(), Some("." | "./" | "")) {
                    let word = below_base(place, word);
                    self.push(Finding::Write { word, extent: PathExtent::Tree, loose: false });
                }
            }
            (MeaningKind::Delete(extent), [word, ..]) => {
                let recursive = extent == PathExtent::Tree;
                self.push(Finding::Delete {
                    word: below_base(place, word),
                    extent,
                    recursive,
                    matches: false,
                });
            }
            (MeaningKind::DeleteMatches, [word, ..]) => {
                let (extent, recursive) = (PathExtent::Tree, true);
                self.push(Finding::Delete {
                    word: below_base(place, word),
                    extent,
                    recursive,
                    matches: true,
                });
            }
            (MeaningKind::Folder | MeaningKind::OperandFolder, [word, ..]) => {
                if matches!(meaning.kind, MeaningKind::Folder) {
                    self.file(word, PathExtent::File);
                }
            }
            (MeaningKind::Derived(rule), values) => self.derived(rule, values, place),
            (MeaningKind::Connect(form, access), [word, ..]) => {
                address::connect(form, word, access, &mut self.findings)
            }
            (MeaningKind::Text(language), [word, ..]) => self.language(language, word, place, reason, sed),
            (MeaningKind::Joined(language), values) => {
                let words = match place.from {
                    Some(from) => &self.argv[from..],
                    None => values,
                };
                let words = words.strip_prefix(&[literal("--")]).unwrap_or(words);
                let before = place.reading.operands.iter().map(|at| place.start + at);
                let mut before = before.filter(|at| place.from.is_some_and(|from| *at < from));
                if before.any(|at| !is_certain(&self.argv[at])) {
                    self.undetermined(reason);
                }
                match words.iter().map(Word::literal).collect::<Option<Vec<_>>>() {
                    Some(words) => {
                        let text = literal(&words.join(" "));
                        self.language(language, &text, place, reason, sed);
                    }
                    None => {
                        self.undetermined(reason);
                        if matches!(language, TextLanguage::ThisShell) {
                            self.push(Finding::LosesDirectory);
                        }
                    }
                }
            }
            (MeaningKind::Script(language), [word, ..]) => match script_source(word) {
                ScriptSource::File => self.file(&below_base(place, word), PathExtent::File),
                ScriptSource::Unknown => self.undetermined(reason),
                ScriptSource::Input => {
                    let input = ValueMeaning { kind: MeaningKind::Input(language, true), ..*meaning };
                    self.meaning(&input, &[], place, sed);
                }
            },
            (MeaningKind::Program, [word, ..]) => match word.literal() {
                Some(text) => self.program(text, place, reason),
                None => self.undetermined(reason),
            },
            (MeaningKind::ProgramList(sign), [word, ..]) => match word.literal() {
                Some(text) => self.program(&text.replace(sign, " "), place, reason),
                None => self.undetermined(reason),
            },
            (MeaningKind::Command(form), values) => self.command(form, values, place, reason),
            (MeaningKind::Template, values) => self.template(values, place),
            (MeaningKind::Splice, [word, ..]) => self.splice(word, place),
            (MeaningKind::Prepend(names), values) => {
                let words = match values {
                    [Word::Literal(text)] => plain_words(text),
                    values => Some(values.to_vec()),
                };
                match words {
                    Some(words) => {
                        let mut argv: Vec<Word> = names.split(' ').map(literal).collect();
                        argv.extend(words);
                        if place.from.is_none() || place.attached {
                            argv.push(Word::anything());
                        }
                        self.held(HeldCommand::Words(argv), place, reason, HeldShell::Another);
                    }
                    None => self.undetermined(reason),
                }
            }
            (MeaningKind::Module, values) => self.module(values),
            (MeaningKind::Variable, [word, ..]) => self.variable(word),
            (MeaningKind::VariableName, [word, ..]) => {
                if word.literal().is_none_or(|name| !parse::is_name(name)) {
                    self.meaning_of_state();
                }
            }
            (MeaningKind::KeyValue(table), [word, ..]) => {
                let text = word.prefix();
                match text.find(table.separators) {
                    Some(end) => {
                        let value = without(word, end + 1);
                        self.key(table, &text[..end], &value, place, sed, table.other);
                    }
                    None if word.literal().is_some() => {
                        self.key(table, text, &literal(table.alone), place, sed, table.other);
                    }
                    None => self.undetermined(reason),
                }
            }
            (MeaningKind::KeyPair(table), [key, value, ..]) => match key.literal() {
                Some(key) => {
                    const OTHER: &[ValueMeaning] = &[EXACT_ONLY.reason("changes how it works")];
                    self.key(table, key, value, place, sed, OTHER);
                }
                None => self.undetermined(reason),
            },
            (MeaningKind::KeyPair(_), _) => {}
            (MeaningKind::Prefixed(prefix, rest, other), [word, ..]) => {
                let text = word.prefix();
                let may_be = word.literal().is_none() && prefix.starts_with(text);
                if text.starts_with(prefix) {
                    each(self, rest, &without(word, prefix.len()), sed);
                } else {
                    each(self, other, word, sed);
                    if may_be {
                        each(self, rest, word, sed);
                    }
                }
            }
            (MeaningKind::Contains(sign, with, other), [word, ..]) => {
                if word.prefix().contains(sign) || word.literal().is_none() {
                    each(self, with, word, sed);
                } else {
                    each(self, other, word, sed);
                }
            }
            (MeaningKind::IfHidden(hidden, known), [word, ..]) => {
                each(self, if word.literal().is_none() { hidden } else { known }, word, sed);
            }
            (MeaningKind::Activates(script, other), [word, ..]) => {
                let inside = |text: &str| !text.starts_with('/') && text.split('/').all(|part| part != "..");
                let activates =
                    word.literal().is_some_and(|text| inside(text) && text.ends_with("/bin/activate"));
                each(self, if activates { script } else { other }, word, sed);
            }
            (MeaningKind::NotContaining(sign, meanings), [word, ..]) => {
                if !word.prefix().contains(sign) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Mentions(names, meanings), [word, ..]) => {
                let text = word.plain().to_ascii_lowercase();
                if names.split(' ').any(|name| text.contains(name)) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Starts(prefix, with, other), [word, ..]) => {
                let fits = word.prefix().starts_with(prefix);
                each(self, if fits { with } else { other }, word, sed);
            }
            (MeaningKind::PrefixedFold(prefix, rest), [word, ..]) => {
                let front = word.prefix().get(..prefix.len());
                if front.is_some_and(|front| front.eq_ignore_ascii_case(prefix)) {
                    each(self, rest, &without(word, prefix.len()), sed);
                }
            }
            (MeaningKind::Until(sign, meanings), [word, ..]) => {
                let part = word.literal().map(|text| literal(text.split(sign).next().unwrap_or_default()));
                each(self, meanings, part.as_ref().unwrap_or(word), sed);
            }
            (MeaningKind::IfContains(sign, meanings), [word, ..]) => {
                if word.prefix().contains(sign) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::SeveralWords(meanings), [word, ..]) => {
                let one = word.literal().is_some_and(|text| {
                    text.is_empty() || plain_words(text).is_some_and(|words| words.len() == 1)
                });
                if !one {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Local(meanings), [word, ..]) => {
                let text = shape(word);
                let first = text.split('/').next().unwrap_or_default();
                if !text.contains("://") && !first.contains(':') {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::LeadsElsewhere(meanings), [word, ..]) => {
                let outside = |text: &str| text.starts_with('/') || text.starts_with("../") || text == "..";
                if word.literal().is_none_or(outside) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::BeforeDashes(meanings), [word, ..]) => {
                let number =
                    place.reading.operands.iter().position(|at| Some(place.start + at) == place.from);
                if place.reading.dashes.is_none_or(|dashes| number.is_some_and(|number| number < dashes)) {
                    each(self, meanings, word, sed);
                }
            }
            (MeaningKind::Descriptor, [word, ..]) => {
                if streams::descriptor(word.plain()).is_some() {
                    self.undetermined(reason);
                }
            }
            (MeaningKind::Transport, [word, ..]) => {
                let text = word.prefix();
                let plain = |helper: &str| helper.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
                match (text.strip_prefix("ext::"), word.literal()) {
                    (Some(command), Some(_)) => {
                        self.held(HeldCommand::Text(command.to_owned()), place, reason, HeldShell::Another);
                    }
                    (Some(_), None) => self.undetermined(reason),
                    (None, _)
                        if text
                            .split_once("::")
                            .is_some_and(|(helper, _)| !helper.is_empty() && plain(helper)) =>
                    {
                        self.undetermined(reason);
                    }
                    _ => {}
                }
            }
            (MeaningKind::HiddenKey(table), [word, ..]) => {
                let name = word.prefix().split('=').next().unwrap_or_default().to_owned();
                self.key(table, &name, &Word::anything(), place, sed, table.other);
            }
            (MeaningKind::Subcommand(entries), [word, ..]) => {
                let named = |entry: &&ProgramEntry| {
                    word.literal().is_some_and(|name| entry.all_names().any(|known| known == name))
                };
                match (entries.iter().find(named), place.from) {
                    (Some(entry), Some(from)) => self.entry(entry, from + 1),
                    _ if word.literal().is_none() => self.undetermined(reason),
                    _ => {}
                }
            }
            (MeaningKind::PackageOf(names), [word, ..]) => {
                let text = word.plain();
                let program = package_program(text).unwrap_or(text);
                match word.literal() {
                    None => self.undetermined(reason),
                    Some(_) if is_one_of(names, program) => {
                        each(self, &[LAUNCH_PACKAGE], word, sed);
                    }
                    Some(_) => {}
                }
            }
            (MeaningKind::Multiplexes(quiet), [word, ..]) => {
                if place.reading.operands.first().map(|at| place.start + at) != place.from {
                    return;
                }
                let looks =
                    word.literal().is_some_and(|verb| quiet.split(' ').any(|start| verb.starts_with(start)));
                if looks && !self.argv.iter().any(|word| word.plain() == ";") {
                    return;
                }
                // What is sent or started: each literal word may be a text for a shell.
                let last =
                    self.argv.iter().skip(2).filter_map(Word::literal).rfind(|text| text.contains(' '));
                if let Some(text) = last.map(str::to_owned) {
                    self.held(HeldCommand::Text(text), place, reason, HeldShell::Another);
                }
                self.undetermined(reason);
            }
            (MeaningKind::Second(meanings), [_, word, ..]) => each(self, meanings, word, sed),
            (MeaningKind::Second(_), _) => {}
            (MeaningKind::After(sign, meanings), [word, ..]) => {
                if let Some(at) = word.prefix().find(sign) {
                    each(self, meanings, &without(word, at + sign.len()), sed);
                }
            }
            (MeaningKind::List(sign, meanings), [word, ..]) => match word.literal() {
                Some(text) => text.split(sign).for_each(|part| each(self, meanings, &literal(part), sed)),
                None => each(self, meanings, word, sed),
            },
            (MeaningKind::OneOf(names, listed, other), [word, ..]) => match word.literal() {
                Some(text) if is_one_of(names, text) => each(self, listed, word, sed),
                Some(_) => each(self, other, word, sed),
                None => {
                    each(self, listed, word, sed);
                    each(self, other, word, sed);
                }
            },
        }
    }

    /// The value of a key.
    fn key(
        &mut self,
        table: &'static KeyTable,
        name: &str,
        value: &Word,
        place: &ValuePlace<'_>,
        sed: &mut Vec<Option<String>>,
        other: &[ValueMeaning],
    ) {
        let name = name.trim();
        let name = if table.fold_case { name.to_ascii_lowercase() } else { name.to_owned() };
        let fits = |spec: &&KeySpec| spec.keys.split(' ').any(|pattern| fits_key(pattern, &name));
        let meanings = table.keys.iter().find(fits).map_or(other, |spec| spec.meanings);
        let place = ValuePlace { from: None, attached: true, ..*place };
        for meaning in meanings {
            self.meaning(meaning, std::slice::from_ref(value), &place, sed);
        }
    }

    fn variable(&mut self, word: &Word) {
        let text = word.prefix();
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name.trim_end_matches('+'), Some(value)),
            None => (text, None),
        };
        let known = word.literal().is_some() || value.is_some();
        if !known || !parse::is_name(name) {
            return self.meaning_of_state();
        }
        let value = word.literal().and(value).map(str::to_owned);
        self.push(Finding::Variable { name: name.to_owned(), value });
    }

    fn held(&mut self, command: HeldCommand, place: &ValuePlace<'_>, reason: &'static str, shell: HeldShell) {
        if let HeldCommand::Words(words) = &command
            && words.first().and_then(Word::literal).is_none()
        {
            return self.undetermined(reason);
        }
        let traits = place.entry.traits;
        let given = traits.has(ProgramTraits::COMMANDS_ELSEWHERE) && reason == RUNS_GIVEN;
        let elsewhere = traits.has(ProgramTraits::RUNS_ELSEWHERE) || given || shell == HeldShell::Later;
        let quiet = traits.has(ProgramTraits::QUIET)
            && self.findings.iter().all(|found| !matches!(found, Finding::Undetermined));
        self.push(Finding::Held(HeldFinding { command, elsewhere, quiet, shell, reason }));
    }

    /// A program, to which more arguments are added.
    fn program(&mut self, text: &str, place: &ValuePlace<'_>, reason: &'static str) {
        let command = match plain_words(text) {
            Some(mut words) => {
                words.push(Word::anything());
                HeldCommand::Words(words)
            }
            None => HeldCommand::Text(text.to_owned()),
        };
        self.held(command, place, reason, HeldShell::Another);
    }

    /// Words up to `:::` that are joined, filled in and read by a shell.
    fn template(&mut self, values: &[Word], place: &ValuePlace<'_>) {
        let ends = |word: &&Word| word.literal().is_some_and(|text| text.starts_with(":::"));
        let words: Vec<&Word> = values.iter().take_while(|word| !ends(word)).collect();
        let texts: Option<Vec<&str>> = words.iter().map(|word| word.literal()).collect();
        // The values are the commands.
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return self.undetermined(TELLS) };
        let plain = |text: &&str| plain_words(&text.replace(['{', '}'], "")).is_some() || *text == "{}";
        if !texts.iter().all(plain) || texts[0].contains('{') {
            self.undetermined(TELLS);
        }
        let text = texts.join(" ");
        let shape = marks::EXPANSION.to_string();
        match plain_words(&text.replace(['{', '}'], "")) {
            Some(_) => {
                let split = text.split(' ').filter(|word| !word.is_empty()).map(literal);
                let mut argv: Vec<Word> = split.map(|word| replace_mark(&word, "{", &shape)).collect();
                argv.push(Word::anything());
                self.held(HeldCommand::Words(argv), place, TELLS, HeldShell::Another);
            }
            None => self.held(HeldCommand::Text(text), place, TELLS, HeldShell::Another),
        }
    }

    /// A module of an interpreter, which may have an entry of its own.
    fn module(&mut self, values: &[Word]) {
        let Some(name) = values.first().and_then(Word::literal) else { return };
        let mut argv = values.to_vec();
        if programs::find(&format!("-m:{name}")).is_some() {
            argv[0] = literal(&format!("-m:{name}"));
        } else if programs::find(name).is_none() {
            return;
        }
        if self.depth < SPLICES_MAX {
            for finding in examine_nested(&argv, self.incoming, self.depth + 1) {
                if !matches!(finding, Finding::Layer(_)) {
                    self.push(finding);
                }
            }
        }
    }

    /// Words of the same program, in one word.
    fn splice(&mut self, word: &Word, place: &ValuePlace<'_>) {
        let words = word.literal().and_then(plain_words);
        let Some(words) = words.filter(|_| self.depth < SPLICES_MAX) else {
            return self.undetermined(TELLS);
        };
        let mut argv = vec![self.argv[0].clone()];
        argv.extend(words);
        let rest = place.start + place.reading.next_after(place);
        argv.extend_from_slice(&self.argv[rest.min(self.argv.len())..]);
        for finding in examine_nested(&argv, self.incoming, self.depth + 1) {
            let finding = match finding {
                Finding::Layer(layer) => Finding::Layer(LayerFinding { from: None, ..layer }),
                other => other,
            };
            self.push(finding);
        }
    }

    fn command(&mut self, form: CommandForm, values: &[Word], place: &ValuePlace<'_>, reason: &'static str) {
        let mut from = place.from;
        let mut words: Vec<Word> = match from {
            Some(from) if form.scope != AllowScope::Held => self.argv[from.min(self.argv.len())..].to_vec(),
            _ => values.to_vec(),
        };
        // What stands before the command must be known to be there.
        let before = place.reading.operands.iter().map(|at| place.start + at);
        let uncertain =
            before.filter(|at| from.is_some_and(|from| *at < from)).any(|at| !is_certain(&self.argv[at]));
        if uncertain {
            return self.undetermined("starts another command");
        }
        if words.first().and_then(Word::literal) == Some("--") {
            words.remove(0);
            from = from.map(|from| from + 1);
        }
        if place.entry.traits.has(ProgramTraits::TAKES_VARIABLES) {
            while let Some((name, _)) = words.first().and_then(|word| word.prefix().split_once('=')) {
                if !is_certain(&words[0]) {
                    return self.undetermined("starts another command");
                }
                let value = words[0].literal().map(|text| text[name.len() + 1..].to_owned());
                let name = name.to_owned();
                self.push(Finding::Variable { name, value });
                words.remove(0);
                from = from.map(|from| from + 1);
                // Options may follow.
                while words.first().is_some_and(|word| word.prefix().starts_with("--")) {
                    words.remove(0);
                    from = from.map(|from| from + 1);
                }
            }
        }
        if let Some(head) = place.head {
            let Some(front) = head.literal().and_then(plain_words) else {
                return self.undetermined("starts another command");
            };
            words.splice(0..0, front);
            from = None;
        }
        let Some(first) = words.first() else { return };
        if first.literal().is_none() {
            return self.undetermined("starts another command");
        }
        match form.fill {
            ArgvFill::Plain => {}
            ArgvFill::Append => words.push(self.incoming.names.cloned().unwrap_or_else(Word::anything)),
            ArgvFill::Mark(usual) => {
                let mark = match place.mark {
                    Some(word) => word.literal().unwrap_or_default(),
                    None => usual,
                };
                if mark.is_empty() || words[0].plain().contains(mark) {
                    return self.undetermined("starts another command");
                }
                let shape = self.incoming.names.map_or(marks::EXPANSION.to_string(), shape);
                words = words.iter().map(|word| replace_mark(word, mark, &shape)).collect();
            }
            ArgvFill::Matches => {
                let shape = self.found_names(place).map_or(marks::EXPANSION.to_string(), |word| shape(&word));
                words = words.iter().map(|word| replace_mark(word, "{}", &shape)).collect();
            }
            ArgvFill::Braces => {
                let shape = marks::EXPANSION.to_string();
                words = words.iter().map(|word| replace_mark(word, "{", &shape)).collect();
                words.push(Word::anything());
            }
            ArgvFill::Package => {
                if let Some(name) = package_program(words[0].plain()) {
                    words[0] = literal(name);
                    from = None;
                }
            }
        }
        let started = match form.scope {
            AllowScope::Held => {
                let elsewhere = form.location != RunLocation::Here;
                let Some(_) = words.first().and_then(Word::literal) else { return self.undetermined(reason) };
                let command = HeldCommand::Words(words);
                let held =
                    HeldFinding { command, elsewhere, quiet: form.quiet, shell: HeldShell::Another, reason };
                return self.push(Finding::Held(held));
            }
            AllowScope::Past if !self.renamed => Started::Wrapped,
            AllowScope::OwnName => Started::Launched,
            AllowScope::Past | AllowScope::Exact => Started::Executed,
        };
        let CommandForm { location, quiet, .. } = form;
        let likely = self.likely;
        self.push(Finding::Layer(LayerFinding { argv: words, from, started, location, quiet, likely }));
    }

    fn derived(&mut self, rule: DerivedPath, values: &[Word], place: &ValuePlace<'_>) {
        let write = |word: Word, extent: PathExtent| Finding::Write { word, extent, loose: false };
        let first = values.first().and_then(Word::literal);
        match rule {
            DerivedPath::UrlFileName => {
                let Some(text) = first else { return };
                let path = text.split_once("://").map_or(text, |(_, rest)| rest);
                let path = path.split(['?', '#']).next().unwrap_or(path);
                let name = path.split('/').skip(1).last().filter(|name| !name.is_empty());
                self.push(write(literal(name.unwrap_or("index.html")), PathExtent::File));
            }
            DerivedPath::RepositoryName => {
                let name = first.map(|text| text.trim_end_matches('/').trim_end_matches(".git"));
                let name =
                    name.and_then(|text| text.rsplit(['/', ':']).next()).filter(|name| !name.is_empty());
                if let Some(name) = name.filter(|name| *name != ".") {
                    self.push(write(literal(name), PathExtent::Tree));
                }
            }
            DerivedPath::PiecePrefix(end) => {
                let word = match first {
                    Some(text) => literal(&format!("{text}{end}")),
                    None => values[0].clone(),
                };
                self.push(write(word, PathExtent::File));
            }
            DerivedPath::BaseName => {
                match first.and_then(|text| text.trim_end_matches('/').rsplit('/').next()) {
                    Some(name) => self.push(write(literal(name), PathExtent::File)),
                    None => self.push(Finding::Open),
                }
            }
            DerivedPath::IntoTarget(extent) => {
                let (target, sources) = match (place.head, values.split_last()) {
                    (Some(target), _) => (target, values),
                    (None, Some((target, sources))) => (target, sources),
                    (None, None) => return,
                };
                if sources.is_empty() && place.head.is_none() {
                    return self.push(Finding::Open);
                }
                for source in sources {
                    let name = source.plain().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                    let plain = !matches!(name, "" | "." | "..") && is_place(source);
                    let joined = below(target, &literal(name));
                    match plain && is_place(target) {
                        true => self.push(Finding::Write { word: joined, extent, loose: true }),
                        false => self.push(Finding::Open),
                    }
                }
                if is_place(target) {
                    self.push(Finding::Write { word: target.clone(), extent, loose: true });
                }
            }
        }
    }

    /// The pattern that names of found files fit: below the operands, if these are plain folders.
    fn found_names(&self, place: &ValuePlace<'_>) -> Option<Word> {
        let operands = place.reading.operands.iter();
        let roots: Option<Vec<&str>> = operands.map(|at| self.argv[place.start + at].literal()).collect();
        let roots = roots?;
        let plain = |root: &&str| {
            !root.is_empty() && !root.starts_with(['/', '-']) && root.split('/').all(|part| part != "..")
        };
        match roots[..] {
            _ if !roots.iter().all(plain) => None,
            [only] => Some(names_below(only)),
            _ => Some(names_below(".")),
        }
    }

    fn prints_paths(&mut self, place: &ValuePlace<'_>) {
        if place.reading.unknown.is_empty()
            && !place.reading.loose
            && let Some(word) = self.found_names(place)
        {
            self.push(Finding::PrintsPaths(word));
        }
    }

    /// Text of another language.
    fn language(
        &mut self,
        language: TextLanguage,
        word: &Word,
        place: &ValuePlace<'_>,
        reason: &'static str,
        sed: &mut Vec<Option<String>>,
    ) {
        let text = word.literal();
        let shell = match language {
            TextLanguage::ThisShell => HeldShell::This,
            TextLanguage::Deferred => HeldShell::Later,
            _ => HeldShell::Another,
        };
        match (language, text) {
            (TextLanguage::Sed, _) => sed.push(text.map(str::to_owned)),
            (TextLanguage::Shell | TextLanguage::ThisShell | TextLanguage::Deferred, Some(text)) => {
                self.held(HeldCommand::Text(text.to_owned()), place, reason, shell);
            }
            (TextLanguage::Awk | TextLanguage::Code(_), None) if !place.attached => {
                self.exact_only(CODE_HIDDEN)
            }
            (TextLanguage::Commands(escapes), None) if escapes.plain.is_empty() && !escapes.exact => {
                // What is known of it is looked at.
                let found = languages::read_commands(escapes, word.prefix());
                self.told(found, place, reason);
            }
            (_, None) => {
                self.undetermined(reason);
                if shell == HeldShell::This {
                    self.push(Finding::LosesDirectory);
                }
            }
            (TextLanguage::ShellWords, Some(text)) => {
                if text.contains(['$', '`', '<', '>']) {
                    self.held(HeldCommand::Text(format!(": {text}")), place, RUNS_GIVEN, shell);
                }
            }
            (TextLanguage::Awk, Some(text)) => {
                let found = languages::read_awk(text);
                if found.writes {
                    self.exact_only("may write files");
                }
                if text.contains("ARG") {
                    let changes = format!("`{}` with a program that isn't known only to print", self.shown);
                    self.push(Finding::Changes(changes));
                }
                self.told(found.told, place, reason);
            }
            (TextLanguage::Code(signs), Some(text)) => {
                self.told(languages::read_code(signs, text), place, reason)
            }
            (TextLanguage::Commands(escapes), Some(text)) => {
                self.told(languages::read_commands(escapes, text), place, reason);
            }
            (TextLanguage::Makefile, Some(text)) => self.told(languages::read_makefile(text), place, reason),
            (TextLanguage::Macros, Some(text)) => self.told(languages::read_macros(text), place, reason),
        }
    }

    /// What a text runs.
    fn told(&mut self, told: languages::TextFindings, place: &ValuePlace<'_>, reason: &'static str) {
        for text in told.commands {
            self.held(HeldCommand::Text(text), place, reason, HeldShell::Another);
        }
        if told.unknown {
            self.undetermined(reason);
        }
        if told.exact {
            self.exact_only(reason);
        }
    }

    /// All parts of a script for `sed`, as one.
    fn sed(&mut self, parts: &[Option<String>], place: &ValuePlace<'_>) {
        if parts.is_empty() {
            return;
        }
        let hidden = parts.iter().any(Option::is_none);
        let text = parts.iter().flatten().map(String::as_str).collect::<Vec<_>>().join("\n");
        let script = languages::read_sed(&text);
        for command in &script.runs {
            match command.is_empty() {
                true => self.undetermined(TELLS),
                false => {
                    self.held(HeldCommand::Text((*command).to_owned()), place, TELLS, HeldShell::Another)
                }
            }
        }
        let is_file = |file: &&&str| !file.is_empty() && !streams::is_stream(file);
        for file in script.reads.iter().filter(is_file) {
            self.file(&literal(file), PathExtent::File);
        }
        for file in script.writes.iter().filter(is_file) {
            self.push(Finding::Write { word: literal(file), extent: PathExtent::File, loose: false });
        }
        if script.unread {
            self.undetermined(TELLS);
        } else if hidden {
            self.exact_only(SCRIPT_HIDDEN);
        }
        if hidden || script.unread || !script.runs.is_empty() {
            self.push(Finding::Open);
        }
        if !script.prints || hidden {
            let changes = format!("`{}` with a script that isn't known only to print", self.shown);
            self.push(Finding::Changes(changes));
        }
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
