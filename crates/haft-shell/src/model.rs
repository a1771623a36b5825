//! The format of program entries: what a program's words mean, as data.
//!
//! An entry says how a program reads its words, which options take a value, and what each value and operand is: a file
//! that is read, a host that is reached, a command that is started, text of another language. [`super::words`] reads the
//! words of a command by an entry, [`super::examine`] turns what was read into findings, and the entries themselves are
//! in [`super::programs`]. Nothing else in this crate knows a program by its name.

use haft::effects::Access;

/// Bits that options set and meanings ask for. An entry numbers its own from [`mode_bit`]; the high bits belong to the
/// parser.
pub(crate) type Modes = u32;

/// Some option was given.
pub(crate) const ANY_OPTION: Modes = 1 << 31;
/// The program was started without arguments.
pub(crate) const NO_ARGUMENT: Modes = 1 << 30;
/// There are at least two operands.
pub(crate) const TWO_OPERANDS: Modes = 1 << 29;
/// An option was given after which the program may touch more than its entry lists.
pub(crate) const OPEN_ENDED: Modes = 1 << 28;
/// `--` was given.
pub(crate) const DASHES: Modes = 1 << 27;
/// There is no operand.
pub(crate) const NO_OPERAND: Modes = 1 << 26;

/// One program, or one sub-command of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramEntry {
    /// Every name, one blank between them.
    pub(crate) names: &'static str,
    pub(crate) family: NameFamily,
    pub(crate) syntax: WordSyntax,
    pub(crate) coverage: Coverage,
    pub(crate) unknown: UnknownOption,
    pub(crate) options: &'static [&'static [OptionSpec]],
    pub(crate) operands: &'static [OperandSpec],
    pub(crate) subcommands: &'static [ProgramEntry],
    /// What standard input is, if it is known (a here-document).
    pub(crate) input: &'static [ValueMeaning],
    /// Arguments that only print the version, if one of them is the only argument.
    pub(crate) version: &'static str,
    pub(crate) traits: ProgramTraits,
}

/// Which other names mean the same program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameFamily {
    Exact,
    /// A `g` in front, as GNU programs have on other systems: `gtimeout`.
    Gnu,
    /// A version at the end: `python3.12`.
    Versioned,
    /// A version at the end and a machine in front: `x86_64-linux-gnu-gcc-12`.
    Cross,
    /// Everything that begins with the name.
    Prefix,
    /// A sub-command as a program of its own: `git-push`.
    Dashed,
}

/// How much an entry knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// No option makes the program write or run anything, whatever it is: `cat`.
    Total,
    /// Everything that the listed options do is listed; others may do anything: `sort`.
    Listed,
    /// The program may do more than its words say: `make`.
    Partial,
}

/// What an option that isn't listed may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownOption {
    /// A flag, or one that takes the next word: both readings count.
    Either,
    /// The same, and what the program starts is uncertain then.
    Doubt,
    /// A flag for a single letter, and else one that takes the next word; the other reading counts too.
    Value,
    /// A flag.
    Flag,
    /// A flag if it is a long name, and else uncertain.
    LongFlag,
    /// Something that changes how the shell reads later commands.
    ShellState,
}

/// How a program reads its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WordSyntax {
    /// Several single letters in one word.
    pub(crate) clusters: bool,
    /// Long names begin with one dash, or two.
    pub(crate) one_dash: bool,
    /// Any beginning of a long name is that name.
    pub(crate) abbreviations: bool,
    /// The first word may be letters without a dash: `tar xf`.
    pub(crate) first_word_letters: bool,
    /// `-5` is an option.
    pub(crate) digits: bool,
    pub(crate) plus: PlusWords,
    pub(crate) stop: StopRule,
}

/// What a word that begins with `+` is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PlusWords {
    Operand,
    /// Letters, as after `-`.
    Options,
    /// Something of its own.
    Value(&'static [ValueMeaning]),
}

/// Where options end, beside at `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopRule {
    Never,
    /// At the first operand.
    AtOperand,
    /// After so many operands: `ssh host -p 1 command`.
    AfterOperands(usize),
    /// Not even at `--`: the words are an expression.
    Expression,
}

/// Options that mean the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionSpec {
    /// Words that begin with `-` hold single letters, one that begins with `=` is a name with one dash, and others are
    /// long names: `"-vx verbose =TT"`.
    pub(crate) names: &'static str,
    pub(crate) arity: ValueArity,
    pub(crate) sets: Modes,
    /// Values with which nothing is set.
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
    /// The next word, also in the middle of a cluster: `set -eo pipefail`.
    Next,
    Two,
    /// Everything that follows.
    Rest,
    /// Everything up to `;`, or up to `+` after `{}`.
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
    /// This one and all after it.
    From(usize),
    Last,
    ButLast,
    /// There is none at this place.
    Missing(usize),
    /// What follows `--`.
    AfterDashes,
    /// There is some argument.
    Argument,
    /// Whatever the arguments are.
    Always,
}

/// What a value or an operand is, if the modes fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueMeaning {
    pub(crate) kind: MeaningKind,
    /// All of these are set.
    pub(crate) when: Modes,
    /// None of these is.
    pub(crate) unless: Modes,
    /// Why only an exact rule allows it, for what is run.
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathExtent {
    File,
    Tree,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum MeaningKind {
    Read(PathExtent),
    /// A write; `Loose` ones of which the place isn't known are left to the effects, which are unknown then.
    Write(PathExtent),
    WriteLoose(PathExtent),
    /// A folder that is written into, unless it is where the command runs.
    WriteInto,
    Delete(PathExtent),
    /// What is found below is deleted.
    DeleteMatches,
    /// The same for a path that the entry names.
    At(&'static str, &'static [ValueMeaning]),
    /// The folder that all relative names count from.
    Folder,
    /// The folder that operands count from.
    OperandFolder,
    Derived(DerivedPath),
    Connect(AddressForm, Access),
    UnknownHost(&'static str),
    /// Text of another language.
    Text(TextLanguage),
    /// The word and all after it, joined with blanks.
    Joined(TextLanguage),
    /// A file with text of another language, or standard input.
    Script(TextLanguage),
    /// Standard input is text of another language; with `true` it is uncertain what is run where that isn't known.
    Input(TextLanguage, bool),
    /// A program with arguments, to which more are added.
    Program,
    /// The same with another sign than a blank between the words.
    ProgramList(char),
    /// The word and all after it are a command.
    Command(CommandForm),
    /// All words up to `:::` are a command in which `{}` stands for others.
    Template,
    /// Words that stand before the operands of the command.
    Head,
    /// What stands for an argument.
    Mark,
    /// Text that is split into words of the same program.
    Splice,
    /// The word and all after it, with these words in front, are a command.
    Prepend(&'static str),
    /// The word and all after it are a program that is loaded as a module.
    Module,
    /// `NAME=value`, `NAME`, or what changes the shell.
    Variable,
    /// The name of a variable that is looked at; a subscript is evaluated.
    VariableName,
    KeyValue(&'static KeyTable),
    /// Two operands: a key and its value.
    KeyPair(&'static KeyTable),
    Prefixed(&'static str, &'static [ValueMeaning], &'static [ValueMeaning]),
    Contains(char, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// What is only known when it runs, and what is known.
    IfHidden(&'static [ValueMeaning], &'static [ValueMeaning]),
    /// A relative path of a script that sets up the environment of a project, and anything else.
    Activates(&'static [ValueMeaning], &'static [ValueMeaning]),
    NotContaining(char, &'static [ValueMeaning]),
    /// One of these is somewhere in the text.
    Mentions(&'static str, &'static [ValueMeaning]),
    /// With this prefix, and without.
    Starts(&'static str, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// What follows a prefix, in whichever case it is written.
    PrefixedFold(&'static str, &'static [ValueMeaning]),
    /// The part before a sign.
    Until(char, &'static [ValueMeaning]),
    IfContains(char, &'static [ValueMeaning]),
    /// More or less than one plain word.
    SeveralWords(&'static [ValueMeaning]),
    /// Not on another machine.
    Local(&'static [ValueMeaning]),
    /// A path out of the working directory.
    LeadsElsewhere(&'static [ValueMeaning]),
    /// An operand before `--`.
    BeforeDashes(&'static [ValueMeaning]),
    /// A descriptor, from which a program comes that isn't known.
    Descriptor,
    /// An address that may be a command: `ext::x`.
    Transport,
    /// A key whose value is elsewhere.
    HiddenKey(&'static KeyTable),
    /// The word is a sub-command, and all after it its words.
    Subcommand(&'static [ProgramEntry]),
    /// The word is a package of one of these programs, perhaps with a version.
    PackageOf(&'static str),
    /// Something is sent to a terminal unless a word begins like one of these.
    Multiplexes(&'static str),
    /// The second of two values.
    Second(&'static [ValueMeaning]),
    /// More may be touched than is listed.
    Opens,
    /// A write to any place.
    WritesAnywhere,
    /// What follows the sign, if there is one.
    After(&'static str, &'static [ValueMeaning]),
    List(char, &'static [ValueMeaning]),
    OneOf(&'static str, &'static [ValueMeaning], &'static [ValueMeaning]),
    Repository(RepositoryLevel),
    /// Prints names of files below what it reads.
    PrintsPaths,
    /// Changes the directory of the shell: to this word, or home.
    ChangeDirectory,
    /// To one that isn't known.
    LosesDirectory,
    /// Takes commands from elsewhere or changes later ones.
    ShellState,
    /// Starts something that isn't known.
    Undetermined,
    /// Only an exact rule allows it.
    ExactOnly,
    /// Changes something that isn't listed.
    Changes,
    /// Changes what is listed, and nothing else.
    ChangesListed,
    /// The option has no value.
    NoValue(&'static [ValueMeaning]),
    /// No other call may run beside it.
    Exclusive,
}

/// Paths that follow from other words by a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DerivedPath {
    /// A file named like the last part of an address.
    UrlFileName,
    /// A folder named like a repository.
    RepositoryName,
    /// Sources and a target, which is a file or a folder.
    IntoTarget(PathExtent),
    /// The first of several files with this prefix, and this end.
    PiecePrefix(&'static str),
    /// The base name, where the command runs.
    BaseName,
}

/// How an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// An address or a host.
    Address,
    /// A host, or `host:path`.
    Host,
    /// `host:path` or an address; anything else is a file.
    Copy,
    /// An address with a scheme, or `host=x`; anything else is none.
    Url,
    /// A folder unless it has a scheme.
    UrlOrFolder,
    /// A remote of a repository: an address, a folder or a name; with `false` a name is a folder.
    Remote(bool),
    /// A container image.
    Image,
    /// `name:port:address`, or with `true` `name:port:host:port`.
    Mapping(bool),
    /// `TCP:host:port` and the like.
    Socket,
}

/// What a repository's files may change by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RepositoryLevel {
    Configuration,
}

/// Languages of which text is evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextLanguage {
    Shell,
    /// In the same shell.
    ThisShell,
    /// In the same shell, later.
    Deferred,
    /// Words that a shell expands.
    ShellWords,
    Sed,
    Awk,
    Code(&'static [&'static str]),
    Commands(&'static CommandEscapes),
    Makefile,
    Macros,
}

/// A language of command lines of which some run a shell.
#[derive(Debug)]
pub(crate) struct CommandEscapes {
    /// What stands before a text for a shell.
    pub(crate) shell: &'static [&'static str],
    /// A sign before a text for a shell, wherever it stands in a line.
    pub(crate) anywhere: Option<&'static str>,
    /// How lines begin of which isn't known what they run.
    pub(crate) unread: &'static [&'static str],
    /// What no line may hold.
    pub(crate) signs: &'static [&'static str],
    /// Lines that run nothing; if there are some, all others aren't known.
    pub(crate) plain: &'static str,
    /// Whether only an exact rule allows the others.
    pub(crate) exact: bool,
    /// Whether the names of commands may be shortened.
    pub(crate) abbreviated: bool,
    /// How lines begin in which `|` starts something.
    pub(crate) pipes: Option<&'static str>,
}

/// Keys and what their values are.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// The signs between key and value.
    pub(crate) separators: &'static [char],
    pub(crate) fold_case: bool,
    /// What counts for a key without a value.
    pub(crate) alone: &'static str,
    pub(crate) keys: &'static [KeySpec],
    pub(crate) other: &'static [ValueMeaning],
}

#[derive(Debug)]
pub(crate) struct KeySpec {
    /// Names, with `*` for anything.
    pub(crate) keys: &'static str,
    pub(crate) meanings: &'static [ValueMeaning],
}

/// How a command is started by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandForm {
    pub(crate) fill: ArgvFill,
    pub(crate) scope: AllowScope,
    pub(crate) location: RunLocation,
    /// Nothing happens but what the command does.
    pub(crate) quiet: bool,
}

/// What becomes of the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgvFill {
    Plain,
    /// Arguments are appended.
    Append,
    /// What a mark stands for is put in: one that an option sets, or else this one.
    Mark(&'static str),
    /// Names of found files are put in.
    Matches,
    /// `{…}` is replaced, and arguments are appended.
    Braces,
    /// The name of a package: without scope and version.
    Package,
}

/// What rules that allow look at. Rules that deny or ask look at everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowScope {
    /// Past the program, at the command.
    Past,
    /// At the program.
    OwnName,
    /// Only an exact rule allows it.
    Exact,
    /// It is a command of its own, in an argument.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLocation {
    Here,
    /// In a folder that isn't known.
    UnknownFolder,
    /// With other files.
    OtherMachine,
}

/// What else is to know of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProgramTraits(u32);

impl ProgramTraits {
    pub(crate) const NONE: ProgramTraits = ProgramTraits(0);
    /// A word that is known only when it runs may be an option that runs or writes something.
    pub(crate) const GUARDS_WORDS: ProgramTraits = ProgramTraits(1);
    /// A pattern may expand to such an option.
    pub(crate) const GUARDS_PATTERNS: ProgramTraits = ProgramTraits(2);
    /// What options name runs in a folder that isn't known.
    pub(crate) const RUNS_ELSEWHERE: ProgramTraits = ProgramTraits(4);
    /// A function of this name would change what is found.
    pub(crate) const SPECIAL: ProgramTraits = ProgramTraits(16);
    /// Works on the repository of the folder that it runs in.
    pub(crate) const OF_REPOSITORY: ProgramTraits = ProgramTraits(32);
    /// What is expanded may be a part of the expression.
    pub(crate) const STRICT_WORDS: ProgramTraits = ProgramTraits(64);
    /// Runs what it finds in the folder that it is started in.
    pub(crate) const RUNS_WORKSPACE: ProgramTraits = ProgramTraits(128);
    /// The first plain argument is a script.
    pub(crate) const RUNS_SCRIPT: ProgramTraits = ProgramTraits(256);
    /// Nothing happens but what the commands do that it is given.
    pub(crate) const QUIET: ProgramTraits = ProgramTraits(512);
    /// `NAME=value` may stand before the command.
    pub(crate) const TAKES_VARIABLES: ProgramTraits = ProgramTraits(1024);
    /// What begins like a pattern is a file for it, whatever the pattern expands to.
    pub(crate) const PATTERNS_ARE_FILES: ProgramTraits = ProgramTraits(2048);
    /// The first operand is a sub-command, and options may stand before it.
    pub(crate) const SUBCOMMANDS: ProgramTraits = ProgramTraits(8192);
    /// Loads modules from the folder that it is started in.
    pub(crate) const IMPORTS_MODULES: ProgramTraits = ProgramTraits(65536);
    /// Nothing is touched but what is listed, also where something is changed.
    pub(crate) const COMPLETE: ProgramTraits = ProgramTraits(16384);
    /// The commands that it is given run in a folder that isn't known.
    pub(crate) const COMMANDS_ELSEWHERE: ProgramTraits = ProgramTraits(32768);
    /// What of its words isn't known is still written or deleted, with all that is below.
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
/// Words of an expression, as of `find`.
pub(crate) const EXPRESSION: WordSyntax = WordSyntax { stop: StopRule::Expression, ..ONE_DASH };

pub(crate) const fn mode_bit(number: u32) -> Modes {
    1 << number
}

pub(crate) const fn program(names: &'static str, syntax: WordSyntax) -> ProgramEntry {
    ProgramEntry {
        names,
        family: NameFamily::Exact,
        syntax,
        coverage: Coverage::Partial,
        unknown: UnknownOption::Either,
        options: &[],
        operands: &[],
        subcommands: &[],
        input: &[],
        version: "",
        traits: ProgramTraits::NONE,
    }
}

impl ProgramEntry {
    pub(crate) const fn family(mut self, family: NameFamily) -> Self {
        self.family = family;
        self
    }

    pub(crate) const fn syntax(mut self, syntax: WordSyntax) -> Self {
        self.syntax = syntax;
        self
    }

    pub(crate) const fn total(mut self) -> Self {
        self.coverage = Coverage::Total;
        self
    }

    pub(crate) const fn listed(mut self) -> Self {
        self.coverage = Coverage::Listed;
        self
    }

    pub(crate) const fn unknown(mut self, unknown: UnknownOption) -> Self {
        self.unknown = unknown;
        self
    }

    pub(crate) const fn options(mut self, options: &'static [&'static [OptionSpec]]) -> Self {
        self.options = options;
        self
    }

    pub(crate) const fn operands(mut self, operands: &'static [OperandSpec]) -> Self {
        self.operands = operands;
        self
    }

    pub(crate) const fn subcommands(mut self, subcommands: &'static [ProgramEntry]) -> Self {
        self.subcommands = subcommands;
        self
    }

    pub(crate) const fn input(mut self, input: &'static [ValueMeaning]) -> Self {
        self.input = input;
        self
    }

    pub(crate) const fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    pub(crate) const fn traits(mut self, traits: ProgramTraits) -> Self {
        self.traits = self.traits.and(traits);
        self
    }

    /// Options may stand before the sub-command.
    pub(crate) const fn has_subcommands(self) -> Self {
        self.traits(ProgramTraits::SUBCOMMANDS)
    }

    /// Words and patterns that may become options are guarded against.
    pub(crate) const fn guarded(self) -> Self {
        self.traits(ProgramTraits::GUARDS_WORDS).traits(ProgramTraits::GUARDS_PATTERNS)
    }

    /// Patterns that may become options are guarded against.
    pub(crate) const fn guards_patterns(self) -> Self {
        self.traits(ProgramTraits::GUARDS_PATTERNS)
    }

    /// Every name of the entry.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.split(' ')
    }

    /// Every option of the entry.
    pub(crate) fn all_options(&self) -> impl Iterator<Item = &'static OptionSpec> + use<> {
        self.options.iter().flat_map(|group| group.iter())
    }
}

const fn option(
    names: &'static str,
    arity: ValueArity,
    sets: Modes,
    meanings: &'static [ValueMeaning],
) -> OptionSpec {
    OptionSpec { names, arity, sets, except: "", meanings }
}

/// Options without a value that change nothing of what is listed.
pub(crate) const fn flags(names: &'static str) -> OptionSpec {
    option(names, ValueArity::None, 0, &[])
}

/// Options without a value that set modes.
pub(crate) const fn mode(names: &'static str, sets: Modes) -> OptionSpec {
    option(names, ValueArity::None, sets, &[])
}

/// Options without a value that mean something.
pub(crate) const fn act(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    option(names, ValueArity::None, 0, meanings)
}

/// Options with a value that means nothing here.
pub(crate) const fn values(names: &'static str) -> OptionSpec {
    option(names, ValueArity::One, 0, &[])
}

/// Options with a value.
pub(crate) const fn value(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    option(names, ValueArity::One, 0, meanings)
}

/// Options with a value in the same word, or none.
pub(crate) const fn attached(names: &'static str, meanings: &'static [ValueMeaning]) -> OptionSpec {
    option(names, ValueArity::Attached, 0, meanings)
}

pub(crate) const fn with_arity(
    names: &'static str,
    arity: ValueArity,
    meanings: &'static [ValueMeaning],
) -> OptionSpec {
    option(names, arity, 0, meanings)
}

impl OptionSpec {
    pub(crate) const fn sets(mut self, modes: Modes) -> Self {
        self.sets = modes;
        self
    }

    pub(crate) const fn except(mut self, values: &'static str) -> Self {
        self.except = values;
        self
    }
}

pub(crate) const fn at(position: OperandPosition, meanings: &'static [ValueMeaning]) -> OperandSpec {
    OperandSpec { position, meanings }
}

pub(crate) const fn key(keys: &'static str, meanings: &'static [ValueMeaning]) -> KeySpec {
    KeySpec { keys, meanings }
}

/// Why only an exact rule allows a program whose options run other programs.
pub(crate) const TELLS: &str = "can be told to run another command";
/// What shells and the like do.
pub(crate) const RUNS_GIVEN: &str = "runs what it is given";

pub(crate) const fn meaning(kind: MeaningKind) -> ValueMeaning {
    ValueMeaning { kind, when: 0, unless: 0, reason: TELLS }
}

impl ValueMeaning {
    pub(crate) const fn when(mut self, modes: Modes) -> Self {
        self.when |= modes;
        self
    }

    pub(crate) const fn unless(mut self, modes: Modes) -> Self {
        self.unless |= modes;
        self
    }

    pub(crate) const fn reason(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }
}

pub(crate) const READ: ValueMeaning = meaning(MeaningKind::Read(PathExtent::File));
pub(crate) const READ_TREE: ValueMeaning = meaning(MeaningKind::Read(PathExtent::Tree));
pub(crate) const WRITE: ValueMeaning = meaning(MeaningKind::Write(PathExtent::File));
pub(crate) const WRITE_TREE: ValueMeaning = meaning(MeaningKind::Write(PathExtent::Tree));
pub(crate) const WRITE_LOOSE: ValueMeaning = meaning(MeaningKind::WriteLoose(PathExtent::File));
pub(crate) const WRITE_INTO: ValueMeaning = meaning(MeaningKind::WriteInto);
pub(crate) const DELETE: ValueMeaning = meaning(MeaningKind::Delete(PathExtent::File));
pub(crate) const DELETE_TREE: ValueMeaning = meaning(MeaningKind::Delete(PathExtent::Tree));
pub(crate) const FOLDER: ValueMeaning = meaning(MeaningKind::Folder);
pub(crate) const HERE: ValueMeaning = meaning(MeaningKind::At(".", &[READ]));
pub(crate) const HERE_TREE: ValueMeaning = meaning(MeaningKind::At(".", &[READ_TREE]));
pub(crate) const PROGRAM: ValueMeaning = meaning(MeaningKind::Program);
/// Text for a shell that an option gives.
pub(crate) const SHELL: ValueMeaning = text(TextLanguage::Shell);
/// Text for a shell that is the purpose of the program.
pub(crate) const COMMANDS: ValueMeaning = text(TextLanguage::Shell).reason(RUNS_GIVEN);
/// All words, joined for a shell.
pub(crate) const JOINED: ValueMeaning = meaning(MeaningKind::Joined(TextLanguage::Shell)).reason(RUNS_GIVEN);
/// Commands come in.
pub(crate) const COMMANDS_IN: ValueMeaning =
    meaning(MeaningKind::Input(TextLanguage::Shell, true)).reason(RUNS_GIVEN);
pub(crate) const MODULE: ValueMeaning = meaning(MeaningKind::Module);
pub(crate) const MARK: ValueMeaning = meaning(MeaningKind::Mark);
pub(crate) const VARIABLE: ValueMeaning = meaning(MeaningKind::Variable);
pub(crate) const SHELL_STATE: ValueMeaning =
    meaning(MeaningKind::ShellState).reason("takes commands from elsewhere");
pub(crate) const UNDETERMINED: ValueMeaning = meaning(MeaningKind::Undetermined);
pub(crate) const EXACT_ONLY: ValueMeaning = meaning(MeaningKind::ExactOnly);
pub(crate) const CHANGES: ValueMeaning = meaning(MeaningKind::Changes);
pub(crate) const CHANGES_LISTED: ValueMeaning = meaning(MeaningKind::ChangesListed);
pub(crate) const EXCLUSIVE: ValueMeaning = meaning(MeaningKind::Exclusive);
pub(crate) const CONFIGURATION: ValueMeaning =
    meaning(MeaningKind::Repository(RepositoryLevel::Configuration));

pub(crate) const fn text(language: TextLanguage) -> ValueMeaning {
    meaning(MeaningKind::Text(language))
}

pub(crate) const fn script(language: TextLanguage) -> ValueMeaning {
    meaning(MeaningKind::Script(language))
}

/// Standard input, where it is known.
pub(crate) const fn input(language: TextLanguage) -> ValueMeaning {
    meaning(MeaningKind::Input(language, false))
}

/// Standard input, whether it is known or not.
pub(crate) const fn needs_input(language: TextLanguage) -> ValueMeaning {
    meaning(MeaningKind::Input(language, true))
}

pub(crate) const fn connect(form: AddressForm, access: Access) -> ValueMeaning {
    meaning(MeaningKind::Connect(form, access))
}

pub(crate) const fn unknown_host(why: &'static str) -> ValueMeaning {
    meaning(MeaningKind::UnknownHost(why))
}

pub(crate) const fn derived(path: DerivedPath) -> ValueMeaning {
    meaning(MeaningKind::Derived(path))
}

pub(crate) const fn keys(table: &'static KeyTable) -> ValueMeaning {
    meaning(MeaningKind::KeyValue(table))
}

pub(crate) const fn prefixed(
    prefix: &'static str,
    rest: &'static [ValueMeaning],
    other: &'static [ValueMeaning],
) -> ValueMeaning {
    meaning(MeaningKind::Prefixed(prefix, rest, other))
}

pub(crate) const fn one_of(
    names: &'static str,
    listed: &'static [ValueMeaning],
    other: &'static [ValueMeaning],
) -> ValueMeaning {
    meaning(MeaningKind::OneOf(names, listed, other))
}

const fn command(fill: ArgvFill, scope: AllowScope, location: RunLocation, quiet: bool) -> ValueMeaning {
    meaning(MeaningKind::Command(CommandForm { fill, scope, location, quiet }))
}

/// A command that is started in a way of its own.
pub(crate) const COMMAND: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Exact, RunLocation::Here, false);
/// The same, in another folder or root.
pub(crate) const COMMAND_ELSEWHERE: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Exact, RunLocation::UnknownFolder, false);
/// A command of which only time, priority or buffers are changed.
pub(crate) const COMMAND_PAST: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Past, RunLocation::Here, true);
/// The same, where something is written beside.
pub(crate) const COMMAND_LOGGED: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Past, RunLocation::Here, false);
/// A command that a runner starts.
pub(crate) const LAUNCH: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::OwnName, RunLocation::UnknownFolder, false);
/// A package that a runner starts.
pub(crate) const LAUNCH_PACKAGE: ValueMeaning =
    command(ArgvFill::Package, AllowScope::OwnName, RunLocation::Here, false);
/// A command in a container or on another machine.
pub(crate) const LAUNCH_CONTAINED: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::OwnName, RunLocation::OtherMachine, false);

pub(crate) const fn filled(fill: ArgvFill, scope: AllowScope, quiet: bool) -> ValueMeaning {
    command(fill, scope, RunLocation::Here, quiet)
}

/// A command in an argument, of its own.
pub(crate) const fn held(fill: ArgvFill, location: RunLocation, quiet: bool) -> ValueMeaning {
    command(fill, AllowScope::Held, location, quiet).reason(RUNS_GIVEN)
}
