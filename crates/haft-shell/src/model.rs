//! The format of program entries: what a program's words mean, as data.
//!
//! An entry says how a program reads its words, which options take a value, and what each value and operand is: a file
//! that is read, a host that is reached, a command that is started, text of another language. [`super::words`] reads the
//! words of a command by an entry, [`super::examine`] turns what was read into findings, and the entries themselves are
//! in [`super::programs`]. Nothing else in this crate knows a program by its name.

mod entry;

pub(crate) use entry::*;

use haft::effects::AccessKind;
pub(crate) use haft_git::RepositoryLevel;

/// What a value or an operand is, if the modes fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueMeaning {
    pub(crate) kind: MeaningKind,
    /// All of these are set.
    pub(crate) when: ModeBits,
    /// None of these is.
    pub(crate) unless: ModeBits,
    /// Why only an exact rule allows it, for what is run.
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathExtent {
    File,
    Tree,
    /// Some of what is below.
    Part,
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
    /// It is moved, or some of what is found below is deleted.
    DeleteMatches(PathExtent),
    /// The same for a path that the entry names.
    At(&'static str, &'static [ValueMeaning]),
    /// The folder that all relative names count from.
    Folder,
    /// The folder that operands count from.
    OperandFolder,
    Derived(DerivedPath),
    Connect(AddressForm, AccessKind),
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
    /// A key whose value is elsewhere.
    HiddenKey(&'static KeyTable),
    /// What follows a prefix, and what doesn't begin with it; both where that is known only when it runs.
    Prefixed(&'static str, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// If a test holds, and if not; both where that is known only when it runs.
    If(WordTest, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// A part of the word.
    Part(WordPart, &'static [ValueMeaning]),
    /// An address that may be a command: `ext::x`.
    Transport,
    /// The word is a sub-command, and all after it its words.
    Subcommand(&'static [ProgramEntry]),
    /// More may be touched than is listed.
    Opens,
    /// A write to any place.
    WritesAnywhere,
    /// Writes so much of the repository that the command works on.
    Repository(RepositoryLevel),
    /// Prints names of files below what it reads.
    PrintsPaths,
    /// Prints nothing but numbers.
    PrintsNumbers,
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
    /// Destroys something that is no file of its words, in a person's words.
    Destroys(&'static str),
    /// Changes something that isn't listed.
    Changes,
    /// Changes what is listed, and nothing else.
    ChangesListed,
    /// The option has no value.
    NoValue(&'static [ValueMeaning]),
    /// No other call may run beside it.
    Exclusive,
}

impl MeaningKind {
    /// Whether all operands at its position are looked at together.
    pub(crate) fn takes_all(&self) -> bool {
        matches!(
            self,
            MeaningKind::Command(_)
                | MeaningKind::Joined(_)
                | MeaningKind::Prepend(_)
                | MeaningKind::Template
                | MeaningKind::KeyPair(_)
                | MeaningKind::Derived(DerivedPath::IntoTarget(_))
        )
    }
}

/// A question about a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WordTest {
    /// It fits one of these patterns, with `*` for anything and `''` for nothing.
    Fits(&'static str),
    /// What is known of it holds one of these, in whichever case.
    Holds(&'static str),
    /// It is known only when it runs.
    Hidden,
    /// It may lead out of the working directory.
    Outside,
    /// It names another machine: `host:path`, or an address.
    Remote,
    /// It stands for an open descriptor.
    Descriptor,
    /// It isn't exactly one plain word, or empty.
    SeveralWords,
}

/// A part of a word, or of several.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WordPart {
    /// What follows the first of these signs, if there is one.
    After(&'static str),
    /// The part before a sign, or all of it.
    Before(char),
    /// Each part between signs.
    Each(char),
    /// All of it with blanks in place of a sign.
    Spaced(char),
    /// The second of two values.
    Second,
}

/// Paths that follow from other words by a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DerivedPath {
    /// A file named like the last part of an address.
    UrlFileName,
    /// A folder named like the last part of an address, without this end.
    LastName(&'static str),
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
    /// A container image, from this registry if it names none.
    Image(&'static str),
    /// `name:port:address`, or with `true` `name:port:host:port`.
    Mapping(bool),
    /// `TCP:host:port` and the like.
    Socket,
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

#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpec {
    /// Names, with `*` for anything.
    pub(crate) keys: &'static str,
    /// Nothing where the key means what an unknown one does.
    pub(crate) meanings: Option<&'static [ValueMeaning]>,
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

pub(crate) const fn key(keys: &'static str, meanings: &'static [ValueMeaning]) -> KeySpec {
    KeySpec { keys, meanings: Some(meanings) }
}

/// Keys that are known, but not what they do.
pub(crate) const fn unknown_key(keys: &'static str) -> KeySpec {
    KeySpec { keys, meanings: None }
}

/// Why only an exact rule allows a program whose options run other programs.
pub(crate) const TELLS: &str = "can be told to run another command";
/// What shells and the like do.
pub(crate) const RUNS_GIVEN: &str = "runs what it is given";

pub(crate) const fn meaning(kind: MeaningKind) -> ValueMeaning {
    ValueMeaning { kind, when: 0, unless: 0, reason: TELLS }
}

impl ValueMeaning {
    pub(crate) const fn when(mut self, modes: ModeBits) -> Self {
        self.when |= modes;
        self
    }

    pub(crate) const fn unless(mut self, modes: ModeBits) -> Self {
        self.unless |= modes;
        self
    }

    pub(crate) const fn reason(mut self, reason: &'static str) -> Self {
        self.reason = reason;
        self
    }

    /// Whether this, or what follows from it, is of a kind.
    pub(crate) fn has(&self, wanted: fn(&MeaningKind) -> bool) -> bool {
        let mut found = false;
        self.each(&mut |kind| found |= wanted(kind));
        found
    }

    /// This kind, or those of what follows from it.
    pub(crate) fn each(&self, look: &mut dyn FnMut(&MeaningKind)) {
        match self.kind {
            MeaningKind::If(_, then, otherwise) | MeaningKind::Prefixed(_, then, otherwise) => {
                then.iter().chain(otherwise).for_each(|meaning| meaning.each(look));
            }
            MeaningKind::At(_, meanings)
            | MeaningKind::Part(_, meanings)
            | MeaningKind::NoValue(meanings) => meanings.iter().for_each(|meaning| meaning.each(look)),
            kind => look(&kind),
        }
    }

    /// Whether it counts where these modes are set.
    pub(crate) fn applies(&self, modes: ModeBits) -> bool {
        modes & self.when == self.when && modes & self.unless == 0
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
pub(crate) const DELETE_MATCHES: ValueMeaning = meaning(MeaningKind::DeleteMatches(PathExtent::Part));
pub(crate) const MOVE_AWAY: ValueMeaning = meaning(MeaningKind::DeleteMatches(PathExtent::Tree));
pub(crate) const OPENS: ValueMeaning = meaning(MeaningKind::Opens);
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
/// What can't be brought back afterwards, beside files that are named.
pub(crate) const fn destroys(what: &'static str) -> ValueMeaning {
    meaning(MeaningKind::Destroys(what))
}

pub(crate) const NUMBERS: ValueMeaning = meaning(MeaningKind::PrintsNumbers);
pub(crate) const EXCLUSIVE: ValueMeaning = meaning(MeaningKind::Exclusive);
pub(crate) const REPOSITORY_DATA: ValueMeaning = meaning(MeaningKind::Repository(RepositoryLevel::Data));
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

pub(crate) const fn connect(form: AddressForm, access: AccessKind) -> ValueMeaning {
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

/// What a word is if it fits one of some patterns, and what it is otherwise.
pub(crate) const fn one_of(
    patterns: &'static str,
    listed: &'static [ValueMeaning],
    other: &'static [ValueMeaning],
) -> ValueMeaning {
    when(WordTest::Fits(patterns), listed, other)
}

/// What a word is if a test holds, and what it is otherwise.
pub(crate) const fn when(
    test: WordTest,
    then: &'static [ValueMeaning],
    otherwise: &'static [ValueMeaning],
) -> ValueMeaning {
    meaning(MeaningKind::If(test, then, otherwise))
}

/// What a word is that is known only when it runs.
pub(crate) const fn hidden(then: &'static [ValueMeaning]) -> ValueMeaning {
    when(WordTest::Hidden, then, &[])
}

pub(crate) const fn part(part: WordPart, meanings: &'static [ValueMeaning]) -> ValueMeaning {
    meaning(MeaningKind::Part(part, meanings))
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
