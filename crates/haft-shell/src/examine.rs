//! Examines one command by the entry of its program and returns everything that its words mean as one list
//! of findings.
//!
//! Every question about a command (what it reads, writes, reaches and starts, whether it is read-only,
//! which rules allow it) is a filter on this list; see [`super::questions`]. What an entry doesn't cover
//! counts as unknown, never as harmless.

mod coverage;
mod files;
mod meanings;
mod starts;
mod texts;

use files::{below_base, is_pipe, is_stream, path_below};
pub(crate) use files::{is_place, names_below, pattern_folder};
pub(crate) use meanings::fits_any;

use haft::effects::AccessKind;

use super::model::*;
use super::words::{
    GivenOption, WordReading, at_home, is_certain, is_plus, plain_words, read_words, replace_mark,
    without_front,
};
use super::{DynamicWord, StartMethod, Word, address, base_name, languages, marks, parse, programs, streams};

/// Something that a command does or may do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Finding {
    Read {
        word: Word,
        extent: PathExtent,
    },
    /// `loose`: if the path is unknown, it is left to the effects.
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
        access: AccessKind,
    },
    UnknownHost(String),
    Layer(LayerFinding),
    Held(HeldFinding),
    /// Standard input contains unknown commands.
    CommandsIn(&'static str),
    /// Starts something unknown.
    Undetermined,
    ShellState,
    ExactOnly(&'static str),
    Variable {
        name: String,
        value: Option<String>,
    },
    /// Writes the repository around a folder, up to this level.
    Repository {
        level: RepositoryLevel,
        folder: Word,
    },
    ChangeDirectory(Option<Word>),
    LosesDirectory,
    /// Reads the repository around a folder.
    LooksAt(Word),
    /// Prints file names that match a pattern of this shape.
    PrintsPaths(Word),
    /// Prints only numbers.
    PrintsNumbers,
    /// Destroys something that is not a file in its words.
    Destroys(&'static str),
    /// The reason why it may change something.
    Changes(String),
    Exclusive,
    /// It may touch more than was found.
    Open,
}

/// A command that another one starts with its last words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerFinding {
    pub(crate) argv: Vec<Word>,
    /// The index of its first word, if its words are the last ones as written.
    pub(crate) from: Option<usize>,
    pub(crate) started: StartMethod,
    pub(crate) location: RunLocation,
    pub(crate) quiet: bool,
    /// According to the most likely reading.
    pub(crate) likely: bool,
}

/// A command in an argument of another one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldFinding {
    pub(crate) command: HeldCommand,
    /// It runs in an unknown folder.
    pub(crate) elsewhere: bool,
    /// Nothing happens besides the effects of the command itself.
    pub(crate) quiet: bool,
    pub(crate) shell: HeldShell,
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeldCommand {
    Words(Vec<Word>),
    Text(String),
}

/// The shell that runs a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldShell {
    Another,
    This,
    /// This shell, at a later time.
    Later,
}

/// The input of a command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CommandInput<'a> {
    /// The text of a here-document.
    pub(crate) text: Option<&'a str>,
    /// A pattern that matches all names arriving through a pipe.
    pub(crate) names: Option<&'a Word>,
}

/// The maximum number of re-readings: options in a variable, an alias.
const SPLICES_MAX: usize = 4;
const TAKES_COMMANDS: &str = "takes commands from elsewhere";

/// Returns everything that the words of a command mean.
pub(crate) fn examine_command(argv: &[Word], incoming: CommandInput<'_>) -> Vec<Finding> {
    examine_nested(argv, incoming, 0)
}

fn examine_nested(argv: &[Word], incoming: CommandInput<'_>, depth: usize) -> Vec<Finding> {
    let program = argv.first().and_then(Word::literal);
    let shown = program.unwrap_or("it");
    let unknown = || vec![Finding::Open, not_known(shown)];
    let Some(name) = program.map(base_name) else { return unknown() };
    let Some(known) = programs::find(name) else { return unknown() };
    if let Some(subcommand) = known.subcommand {
        let mut words = vec![literal_word(known.entry.names), literal_word(subcommand)];
        words.extend_from_slice(&argv[1..]);
        let layer = LayerFinding {
            argv: words,
            from: None,
            started: StartMethod::Launched,
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
            && entry.coverage != EntryCoverage::Total
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
        sed_parts: Vec::new(),
    };
    examiner.examine_entry(entry, 1);
    examiner.guard_words(entry);
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

pub(crate) fn literal_word(text: &str) -> Word {
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
    /// Parts of a sed script, which are read as one. `None` for a part that is unknown.
    sed_parts: Vec<Option<String>>,
}

/// The position of a value.
#[derive(Clone, Copy)]
struct ValuePlace<'r> {
    entry: &'static ProgramEntry,
    reading: &'r WordReading<'r>,
    /// The index of the first word in all words.
    start: usize,
    /// The index of the value in the argument list, if it is a separate word.
    from: Option<usize>,
    attached: bool,
    /// The base of relative names.
    base: Option<&'r Word>,
    head: Option<&'r Word>,
    mark: Option<&'r Word>,
    /// The reason why only an exact rule allows the command that is run.
    reason: &'static str,
}

impl CommandExaminer<'_> {
    pub(crate) fn push(&mut self, finding: Finding) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn add_exact_only(&mut self, reason: &'static str) {
        self.push(Finding::ExactOnly(reason));
    }

    fn add_undetermined(&mut self, reason: &'static str) {
        self.add_exact_only(reason);
        self.push(Finding::Undetermined);
    }

    fn examine_entry(&mut self, entry: &'static ProgramEntry, start: usize) {
        let words = &self.argv[start.min(self.argv.len())..];
        let readings = read_words(entry, words);
        let sure = readings.len() == 1;
        let likely = self.likely;
        for (number, reading) in readings.iter().enumerate() {
            self.likely = likely && number == 0;
            self.examine_reading(entry, start, reading, sure);
        }
        self.likely = likely;
    }

    fn examine_reading(
        &mut self,
        entry: &'static ProgramEntry,
        start: usize,
        reading: &WordReading<'_>,
        sure: bool,
    ) {
        let words = &self.argv[start.min(self.argv.len())..];
        let valued = |kind: fn(&MeaningKind) -> bool| {
            let has =
                |given: &&GivenOption<'_>| given.spec.meanings.iter().any(|meaning| kind(&meaning.kind));
            reading.options.iter().rev().find(has).and_then(|given| given.values.first())
        };
        let base = valued(|kind| matches!(kind, MeaningKind::Folder));
        let operand_base = valued(|kind| matches!(kind, MeaningKind::OperandFolder)).or(base);
        let head = valued(|kind| matches!(kind, MeaningKind::Head));
        let mark = valued(|kind| matches!(kind, MeaningKind::Mark));
        let (from, attached, reason) = (None, false, TELLS);
        let place = ValuePlace { entry, reading, start, from, attached, base, head, mark, reason };
        for given in &reading.options {
            self.examine_option(given, &place);
        }
        if reading.unfinished {
            self.add_undetermined(RUNS_GIVEN);
        }
        self.examine_unlisted(entry, words, reading);
        self.add_repository(entry.level);
        let subcommand = reading.operands.first().and_then(|at| {
            let found = entry.subcommand(words[*at].literal()?)?;
            Some((found, start + at + 1))
        });
        if let Some((found, below)) = subcommand {
            self.examine_below(found, below, base);
            return self.judge_coverage(entry, found, words, reading, sure);
        }
        let place = ValuePlace { base: operand_base, ..place };
        self.examine_operands(&place, words);
        self.apply_all(entry.input, &[], &place);
        self.evaluate_sed(&place);
        self.judge_coverage(entry, entry, words, reading, sure);
    }

    /// Examines an option with its values.
    fn examine_option(&mut self, given: &GivenOption<'_>, place: &ValuePlace<'_>) {
        let meanings = match place.entry.syntax.plus {
            PlusWords::Value(meanings) if is_plus(given.spec) => meanings,
            _ => given.spec.meanings,
        };
        let runs = |meaning: &ValueMeaning| {
            matches!(meaning.kind, MeaningKind::Program | MeaningKind::Text(TextLanguage::Shell))
        };
        if given.shortened && meanings.iter().any(runs) {
            self.add_undetermined(TELLS);
        }
        let from = (!given.attached).then_some(place.start + given.at);
        self.apply_all(meanings, &given.values, &ValuePlace { from, attached: given.attached, ..*place });
        let hidden = given.values.iter().any(|word| matches!(word, Word::Dynamic(open) if open.splits));
        if hidden && !given.attached && place.entry.unknown == UnknownOption::Doubt {
            self.add_undetermined(TELLS);
        }
    }

    /// Examines a sub-command. Its names are relative to the folder that an option of the program gave.
    fn examine_below(&mut self, entry: &'static ProgramEntry, start: usize, base: Option<&Word>) {
        let before = self.findings.len();
        self.examine_entry(entry, start);
        let Some(base) = base else { return };
        for finding in &mut self.findings[before..] {
            if let Finding::Read { word, .. }
            | Finding::Write { word, .. }
            | Finding::Delete { word, .. }
            | Finding::Repository { folder: word, .. }
            | Finding::LooksAt(word) = finding
            {
                *word = path_below(base, word);
            }
        }
    }

    /// Adds a write of the repository of the folder that the command runs in.
    pub(crate) fn add_repository(&mut self, level: RepositoryLevel) {
        if level > RepositoryLevel::None {
            self.push(Finding::Repository { level, folder: literal_word(".") });
        }
    }

    /// Examines options that aren't listed.
    fn examine_unlisted(&mut self, entry: &ProgramEntry, words: &[Word], reading: &WordReading<'_>) {
        for at in &reading.unknown {
            match entry.unknown {
                UnknownOption::Doubt => self.add_undetermined(TELLS),
                UnknownOption::LongFlag if !words[*at].prefix().starts_with("--") => {
                    self.add_undetermined(TELLS)
                }
                UnknownOption::ShellState => self.add_shell_state(TAKES_COMMANDS),
                _ => {}
            }
            let text = words[*at].prefix();
            // The value of an option with `file` or `from` in its name is a file.
            if entry.coverage == EntryCoverage::Total
                && let Some((name, _)) = text.strip_prefix("--").and_then(|long| long.split_once('='))
                && (name.contains("file") || name.contains("from"))
            {
                self.add_read(&without_front(&words[*at], name.len() + 3), PathExtent::File);
            }
            if entry.traits.has(ProgramTraits::CHANGES_FILES)
                && let Some((name, _)) = text.split_once('=')
            {
                let word = without_front(&words[*at], name.len() + 1);
                self.push(Finding::Read { word: word.clone(), extent: PathExtent::Tree });
                self.push(Finding::Write { word, extent: PathExtent::Tree, loose: true });
            }
        }
    }

    fn examine_operands(&mut self, place: &ValuePlace<'_>, words: &[Word]) {
        let (entry, reading) = (place.entry, place.reading);
        if entry.traits.has(ProgramTraits::STRICT_WORDS) && splits_into_options(entry, reading, words) {
            match entry.unknown {
                UnknownOption::ShellState => self.add_shell_state(TAKES_COMMANDS),
                _ => self.add_undetermined(RUNS_GIVEN),
            }
        }
        if entry.traits.has(ProgramTraits::CHANGES_FILES) && self.change_roughly(place, words) {
            return;
        }
        let (count, dashes) = (reading.operands.len(), reading.dashes);
        for spec in entry.operands {
            let range = match spec.position {
                OperandPosition::Nth(number) => number..(number + 1).min(count),
                OperandPosition::From(number) => number..count,
                OperandPosition::Last => count.saturating_sub(1)..count,
                OperandPosition::ButLast => 0..count.saturating_sub(1),
                OperandPosition::AfterDashes => dashes.unwrap_or(count)..count,
                OperandPosition::BeforeDashes => 0..dashes.unwrap_or(count),
                OperandPosition::Missing(number) if count > number => continue,
                OperandPosition::Argument if words.is_empty() => continue,
                OperandPosition::Missing(_) | OperandPosition::Argument | OperandPosition::Always => {
                    self.apply_all(spec.meanings, &[], place);
                    continue;
                }
            };
            for meaning in spec.meanings {
                // These meanings take several words together.
                let step = if meaning.kind.takes_all() { range.len() } else { 1 };
                for first in range.clone().step_by(step.max(1)) {
                    let at = &reading.operands[first..(first + step).min(range.end)];
                    let place = ValuePlace { from: Some(place.start + at[0]), ..*place };
                    match at {
                        [at] => self.apply_meaning(meaning, &words[*at..=*at], &place),
                        _ => {
                            let values: Vec<Word> = at.iter().map(|at| words[*at].clone()).collect();
                            self.apply_meaning(meaning, &values, &place);
                        }
                    }
                }
            }
        }
    }
}

/// Returns whether a word that is known only at run time may become an option or a part of an expression.
fn splits_into_options(entry: &ProgramEntry, reading: &WordReading<'_>, words: &[Word]) -> bool {
    let splits = |word: &Word| match word {
        Word::Literal(_) => false,
        Word::Dynamic(open) => (open.splits && word.prefix().is_empty()) || word.prefix().starts_with('-'),
    };
    let front = reading.operands.iter().take(reading.options_end);
    (entry.syntax.stop == StopRule::Expression && words.iter().any(splits))
        || front.into_iter().any(|at| splits(&words[*at]))
}
