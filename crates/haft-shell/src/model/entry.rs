//! How a program parses its words: its names, options, operands and sub-commands.

use super::{RepositoryLevel, ValueMeaning};

/// Bits that options set and meanings require. An entry numbers its own from [`mode_bit`]; the parser uses
/// the high bits.
pub(crate) type ModeBits = u32;

/// An option was given.
pub(crate) const ANY_OPTION: ModeBits = 1 << 31;
/// The program was started without arguments.
pub(crate) const NO_ARGUMENT: ModeBits = 1 << 30;
/// There are at least two operands.
pub(crate) const TWO_OPERANDS: ModeBits = 1 << 29;
/// An option was given with which the program may touch more than its entry lists.
pub(crate) const OPEN_ENDED: ModeBits = 1 << 28;
/// `--` was given.
pub(crate) const DASHES: ModeBits = 1 << 27;
/// An option was given that begins with `+`.
pub(crate) const PLUS_OPTION: ModeBits = 1 << 25;
/// There is no operand.
pub(crate) const NO_OPERAND: ModeBits = 1 << 26;

/// One program, or one sub-command of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramEntry {
    /// All names, separated by spaces.
    pub(crate) names: &'static str,
    pub(crate) filter: NameFilter,
    pub(crate) family: NameFamily,
    pub(crate) syntax: WordSyntax,
    pub(crate) coverage: EntryCoverage,
    pub(crate) unknown: UnknownOption,
    pub(crate) options: &'static [&'static [OptionSpec]],
    pub(crate) operands: &'static [OperandSpec],
    pub(crate) subcommands: &'static [ProgramEntry],
    /// The meaning of standard input, if it is known (a here-document).
    pub(crate) input: &'static [ValueMeaning],
    /// Arguments that only print the version, if one of them is the only argument.
    pub(crate) version: &'static str,
    /// The meaning of exit code 1, if it is not a failure.
    pub(crate) exit_one: Option<&'static str>,
    pub(crate) traits: ProgramTraits,
    /// How much of its repository it may write.
    pub(crate) level: RepositoryLevel,
}

/// Which other names refer to the same program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFamily {
    Exact,
    /// With the prefix `g`, as for GNU programs on other systems: `gtimeout`.
    Gnu,
    /// With a version suffix: `python3.12`.
    Versioned,
    /// With a version suffix and a target prefix: `x86_64-linux-gnu-gcc-12`.
    Cross,
    /// Every name that begins with this one.
    Prefix,
    /// A sub-command as a separate program: `git-push`.
    Dashed,
}

/// How completely an entry describes its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryCoverage {
    /// No option of any kind makes the program write or run anything: `cat`.
    Total,
    /// All effects of the listed options are listed. Other options may do anything: `sort`.
    Listed,
    /// The program may do more than its words show: `make`.
    Partial,
}

/// How an option that isn't listed is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownOption {
    /// A flag, or an option that takes the next word: both readings count.
    Either,
    /// The same, and the commands that the program starts are uncertain then.
    Doubt,
    /// A flag for a single letter, otherwise an option that takes the next word. The other reading counts
    /// too.
    Value,
    /// A flag.
    Flag,
    /// A flag if it is a long name, otherwise uncertain.
    LongFlag,
    /// An option that changes how the shell parses later commands.
    ShellState,
}

/// How a program parses its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordSyntax {
    /// Several single letters may be in one word.
    pub(crate) clusters: bool,
    /// Long names begin with one dash, or with two.
    pub(crate) one_dash: bool,
    /// Long names may be abbreviated.
    pub(crate) abbreviations: bool,
    /// The first word may be letters without a dash: `tar xf`.
    pub(crate) first_word_letters: bool,
    /// `-5` is an option.
    pub(crate) digits: bool,
    pub(crate) plus: PlusWords,
    pub(crate) stop: StopRule,
}

/// The meaning of a word that begins with `+`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlusWords {
    Operand,
    /// Letters, as after `-`.
    Options,
    /// A special value.
    Value(&'static [ValueMeaning]),
}

/// Where options end, other than at `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRule {
    Never,
    /// At the first operand.
    AtOperand,
    /// After this many operands: `ssh host -p 1 command`.
    AfterOperands(usize),
    /// Not even at `--`: the words are an expression.
    Expression,
}

/// Options with the same meaning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionSpec {
    /// A word that begins with `-` contains single letters, one that begins with `=` is a name with one
    /// dash, and others are long names: `"-vx verbose =TT"`.
    pub(crate) names: &'static str,
    pub(crate) filter: NameFilter,
    pub(crate) arity: ValueArity,
    pub(crate) sets: ModeBits,
    /// Values for which the modes are not set.
    pub(crate) except: &'static str,
    pub(crate) meanings: &'static [ValueMeaning],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueArity {
    None,
    /// Attached, or the next word.
    One,
    /// Attached, or the next word unless that begins with `-`.
    Maybe,
    /// Attached, or none.
    Attached,
    /// The next word, even in the middle of a cluster: `set -eo pipefail`.
    Next,
    Two,
    /// All following words.
    Rest,
    /// All words up to `;`, or up to `+` after `{}`.
    Until,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OperandSpec {
    pub(crate) position: OperandPosition,
    pub(crate) meanings: &'static [ValueMeaning],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperandPosition {
    Nth(usize),
    /// This operand and all following ones.
    From(usize),
    Last,
    ButLast,
    /// There is no operand at this position.
    Missing(usize),
    /// Operands after `--`.
    AfterDashes,
    /// Operands before `--`.
    BeforeDashes,
    /// There is at least one argument.
    Argument,
    /// Whatever the arguments are.
    Always,
}

/// Other facts about a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramTraits(u32);

impl ProgramTraits {
    pub(crate) const NONE: ProgramTraits = ProgramTraits(0);
    /// A word that is known only at run time may be an option that runs or writes something.
    pub(crate) const GUARDS_WORDS: ProgramTraits = ProgramTraits(1);
    /// A pattern may expand to such an option.
    pub(crate) const GUARDS_PATTERNS: ProgramTraits = ProgramTraits(2);
    /// Commands from options run in an unknown folder.
    pub(crate) const RUNS_ELSEWHERE: ProgramTraits = ProgramTraits(4);
    /// A function of this name would change the findings.
    pub(crate) const SPECIAL: ProgramTraits = ProgramTraits(16);
    /// Works on the repository of the folder that it runs in.
    pub(crate) const OF_REPOSITORY: ProgramTraits = ProgramTraits(32);
    /// An expansion may be a part of the expression.
    pub(crate) const STRICT_WORDS: ProgramTraits = ProgramTraits(64);
    /// Runs files of its working directory.
    pub(crate) const RUNS_WORKSPACE: ProgramTraits = ProgramTraits(128);
    /// The first plain argument is a script.
    pub(crate) const RUNS_SCRIPT: ProgramTraits = ProgramTraits(256);
    /// Nothing happens besides the effects of the commands that it runs.
    pub(crate) const QUIET: ProgramTraits = ProgramTraits(512);
    /// `NAME=value` may precede the command.
    pub(crate) const TAKES_VARIABLES: ProgramTraits = ProgramTraits(1024);
    /// A word that begins like a pattern is a file for it, whatever the pattern expands to.
    pub(crate) const PATTERNS_ARE_FILES: ProgramTraits = ProgramTraits(2048);
    /// The first operand is a sub-command, and options may precede it.
    pub(crate) const SUBCOMMANDS: ProgramTraits = ProgramTraits(8192);
    /// Loads modules from its working directory.
    pub(crate) const IMPORTS_MODULES: ProgramTraits = ProgramTraits(65536);
    /// Touches only what is listed, even if it changes something.
    pub(crate) const COMPLETE: ProgramTraits = ProgramTraits(16384);
    /// The commands that it runs are in an unknown folder.
    pub(crate) const COMMANDS_ELSEWHERE: ProgramTraits = ProgramTraits(32768);
    /// Its unknown words are still written or deleted, with everything below.
    pub(crate) const CHANGES_FILES: ProgramTraits = ProgramTraits(4096);

    pub(crate) const fn and(self, other: ProgramTraits) -> ProgramTraits {
        ProgramTraits(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: ProgramTraits) -> bool {
        self.0 & other.0 == other.0
    }
}

const PLAIN_SYNTAX: WordSyntax = WordSyntax {
    clusters: true,
    one_dash: false,
    abbreviations: false,
    first_word_letters: false,
    digits: false,
    plus: PlusWords::Operand,
    stop: StopRule::Never,
};
/// `getopt_long`: clusters, abbreviations, options after operands.
pub(crate) const GNU: WordSyntax = WordSyntax { abbreviations: true, ..PLAIN_SYNTAX };
/// The same, up to the first operand.
pub(crate) const WRAPPER: WordSyntax = WordSyntax { stop: StopRule::AtOperand, ..GNU };
/// `getopt`: no abbreviations, up to the first operand.
pub(crate) const POSIX: WordSyntax = WordSyntax { stop: StopRule::AtOperand, ..PLAIN_SYNTAX };
/// Full names only, options anywhere.
pub(crate) const EXACT: WordSyntax = PLAIN_SYNTAX;
/// Long names with one dash.
pub(crate) const ONE_DASH: WordSyntax = WordSyntax { clusters: false, one_dash: true, ..PLAIN_SYNTAX };
/// Words of an expression, such as those of `find`.
pub(crate) const EXPRESSION: WordSyntax = WordSyntax { stop: StopRule::Expression, ..ONE_DASH };

pub(crate) const fn mode_bit(number: u32) -> ModeBits {
    1 << number
}

pub(crate) const fn program(names: &'static str, syntax: WordSyntax) -> ProgramEntry {
    ProgramEntry {
        names,
        filter: NameFilter::new(names),
        family: NameFamily::Exact,
        syntax,
        coverage: EntryCoverage::Partial,
        unknown: UnknownOption::Either,
        options: &[],
        operands: &[],
        subcommands: &[],
        input: &[],
        version: "",
        exit_one: None,
        traits: ProgramTraits::NONE,
        level: RepositoryLevel::None,
    }
}

/// Methods that set a field of an entry or an option.
macro_rules! setters {
    ($type:ty: $($field:ident: $value:ty),+) => {
        impl $type {
            $(pub(crate) const fn $field(mut self, $field: $value) -> Self {
                self.$field = $field;
                self
            })+
        }
    };
}

setters!(ProgramEntry: family: NameFamily, syntax: WordSyntax, unknown: UnknownOption,
    options: &'static [&'static [OptionSpec]], operands: &'static [OperandSpec],
    subcommands: &'static [ProgramEntry], input: &'static [ValueMeaning], version: &'static str,
    level: RepositoryLevel);
setters!(OptionSpec: sets: ModeBits, except: &'static str);

impl ProgramEntry {
    pub(crate) const fn total(mut self) -> Self {
        self.coverage = EntryCoverage::Total;
        self
    }

    pub(crate) const fn listed(mut self) -> Self {
        self.coverage = EntryCoverage::Listed;
        self
    }

    pub(crate) const fn exit_one(mut self, answer: &'static str) -> Self {
        self.exit_one = Some(answer);
        self
    }

    pub(crate) const fn traits(mut self, traits: ProgramTraits) -> Self {
        self.traits = self.traits.and(traits);
        self
    }

    /// Options may precede the sub-command.
    pub(crate) const fn has_subcommands(self) -> Self {
        self.traits(ProgramTraits::SUBCOMMANDS)
    }

    /// Words and patterns that may become options are checked.
    pub(crate) const fn guarded(self) -> Self {
        self.traits(ProgramTraits::GUARDS_WORDS).traits(ProgramTraits::GUARDS_PATTERNS)
    }

    /// Patterns that may become options are checked.
    pub(crate) const fn guards_patterns(self) -> Self {
        self.traits(ProgramTraits::GUARDS_PATTERNS)
    }

    /// Returns every name of the entry.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split(' ')
    }

    /// Returns a sub-command by its name.
    pub(crate) fn subcommand(&self, name: &str) -> Option<&'static ProgramEntry> {
        find_entry(self.subcommands, name)
    }

    /// Returns every option of the entry.
    pub(crate) fn all_options(&self) -> impl Iterator<Item = &'static OptionSpec> + use<> {
        self.options.iter().flat_map(|group| group.iter())
    }
}

/// Finds an entry by one of its names.
pub(crate) fn find_entry(entries: &'static [ProgramEntry], name: &str) -> Option<&'static ProgramEntry> {
    let may_be = |entry: &&ProgramEntry| entry.filter.may_hold(name);
    entries.iter().filter(may_be).find(|entry| entry.all_names().any(|known| known == name))
}

/// A filter for the names in a list, so that most lists needn't be searched. It is computed at compile
/// time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameFilter {
    /// A mix of the first byte and length of each name.
    names: u64,
    /// The single letters: those of words with a dash.
    letters: u64,
    /// A name begins with `=`.
    pub(crate) has_dashed: bool,
}

impl NameFilter {
    const fn new(list: &str) -> NameFilter {
        let (bytes, mut at) = (list.as_bytes(), 0);
        let mut filter = NameFilter { names: 0, letters: 0, has_dashed: false };
        while at < bytes.len() {
            let (first, begin) = (bytes[at], at);
            while at < bytes.len() && bytes[at] != b' ' {
                if first == b'-' {
                    filter.letters |= NameFilter::bit(bytes[at], 1);
                }
                at += 1;
            }
            filter.names |= NameFilter::bit(first, at - begin);
            filter.has_dashed |= first == b'=';
            at += 1;
        }
        filter
    }

    const fn bit(first: u8, length: usize) -> u64 {
        1 << ((first as usize + 7 * length) % 64)
    }

    /// Returns whether a full name may be among the names.
    pub(crate) fn may_hold(self, name: &str) -> bool {
        name.bytes().next().is_none_or(|first| self.names & NameFilter::bit(first, name.len()) != 0)
    }

    pub(crate) fn may_hold_letter(self, letter: u8) -> bool {
        self.letters & NameFilter::bit(letter, 1) != 0
    }
}

/// Options without a value that don't change the listed effects.
pub(crate) const fn flags(names: &'static str) -> OptionSpec {
    with_arity(names, ValueArity::None, &[])
}

/// Options without a value that set modes.
pub(crate) const fn mode(names: &'static str, sets: ModeBits) -> OptionSpec {
    flags(names).sets(sets)
}

/// Options without a value that have a meaning.
pub(crate) const fn act(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    with_arity(names, ValueArity::None, meanings)
}

/// Options with a value that has no meaning here.
pub(crate) const fn values(names: &'static str) -> OptionSpec {
    with_arity(names, ValueArity::One, &[])
}

/// Options with a value.
pub(crate) const fn value(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    with_arity(names, ValueArity::One, meanings)
}

/// Options with a value in the same word, or without one.
pub(crate) const fn attached(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    with_arity(names, ValueArity::Attached, meanings)
}

pub(crate) const fn with_arity(
    names: &'static str,
    arity: ValueArity,
    meanings: &'static [ValueMeaning],
) -> OptionSpec {
    OptionSpec { names, filter: NameFilter::new(names), arity, sets: 0, except: "", meanings }
}

pub(crate) const fn at(position: OperandPosition, meanings: &'static [ValueMeaning]) -> OperandSpec {
    OperandSpec { position, meanings }
}
