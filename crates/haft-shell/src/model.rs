//! The format of program entries: the meaning of a program's words, as data.
//!
//! An entry says how a program parses its words, which options take a value, and what each value and
//! operand is: a file that is read, a host that is reached, a command that is started, text of another
//! language. [`super::words`] parses the words of a command by an entry, [`super::examine`] turns the
//! result into findings, and the entries themselves are in [`super::programs`]. No other part of this crate
//! knows a program by its name.

mod entry;

pub(crate) use entry::*;

use haft::effects::AccessKind;
pub(crate) use haft_git::RepositoryLevel;

/// The meaning of a value or an operand, if the modes match.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValueMeaning {
    pub(crate) kind: MeaningKind,
    /// All of these modes have to be set.
    pub(crate) when: ModeBits,
    /// None of these modes may be set.
    pub(crate) unless: ModeBits,
    /// The reason why only an exact rule allows the command that is run.
    pub(crate) reason: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathExtent {
    File,
    Tree,
    /// Some of the paths below.
    Part,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum MeaningKind {
    Read(PathExtent),
    /// A write. For `Loose` writes to an unknown path, the effects become unknown instead.
    Write(PathExtent),
    WriteLoose(PathExtent),
    /// A write into a folder, unless it is the folder that the command runs in.
    WriteInto,
    Delete(PathExtent),
    /// The path is moved, or some of the paths below it are deleted.
    DeleteMatches(PathExtent),
    /// The same for a path that the entry names.
    At(&'static str, &'static [ValueMeaning]),
    /// The base of all relative names.
    Folder,
    /// The base of operands.
    OperandFolder,
    Derived(DerivedPath),
    Connect(AddressForm, AccessKind),
    UnknownHost(&'static str),
    /// Text of another language.
    Text(TextLanguage),
    /// The word and all following ones, joined with spaces.
    Joined(TextLanguage),
    /// A file with text of another language, or standard input.
    Script(TextLanguage),
    /// Standard input is text of another language. With `true`, unknown input makes the command uncertain.
    Input(TextLanguage, bool),
    /// A program with arguments, to which more are appended.
    Program,
    /// The word and all following ones are a command.
    Command(CommandForm),
    /// All words up to `:::` are a command in which `{}` is replaced.
    Template,
    /// Words that precede the operands of the command.
    Head,
    /// The placeholder for an argument.
    Mark,
    /// Text that is split into words of the same program.
    Splice,
    /// The word and all following ones, preceded by these words, are a command.
    Prepend(&'static str),
    /// The word and all following ones are a program that is loaded as a module.
    Module,
    /// `NAME=value`, `NAME`, or an option that changes the shell.
    Variable,
    /// The name of a variable that is read. A subscript is evaluated.
    VariableName,
    KeyValue(&'static KeyTable),
    /// Two operands: a key and its value.
    KeyPair(&'static KeyTable),
    /// A key whose value is elsewhere.
    HiddenKey(&'static KeyTable),
    /// The meanings of the text after a prefix, and of a text without it. Both apply if the word is known
    /// only at run time.
    Prefixed(&'static str, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// The meanings if a test is true, and if it is false. Both apply if the word is known only at run
    /// time.
    If(WordTest, &'static [ValueMeaning], &'static [ValueMeaning]),
    /// A part of the word.
    Part(WordPart, &'static [ValueMeaning]),
    /// An address that may be a command: `ext::x`.
    Transport,
    /// The word is a sub-command, and all following ones are its words.
    Subcommand(&'static [ProgramEntry]),
    /// More may be touched than is listed.
    Opens,
    /// A write to any place.
    WritesAnywhere,
    /// Writes the repository that the command works on, up to this level.
    Repository(RepositoryLevel),
    /// Prints names of files below what it reads.
    PrintsPaths,
    /// Prints only numbers.
    PrintsNumbers,
    /// Changes the working directory of the shell to this word, or to the home directory.
    ChangeDirectory,
    /// Changes the working directory to an unknown one.
    LosesDirectory,
    /// Takes commands from elsewhere, or changes later ones.
    ShellState,
    /// Starts something unknown.
    Undetermined,
    /// Only an exact rule allows it.
    ExactOnly,
    /// Destroys something that is not a file in its words; described for the user.
    Destroys(&'static str),
    /// Changes something that isn't listed.
    Changes,
    /// Changes only what is listed.
    ChangesListed,
    /// The option has no value.
    NoValue(&'static [ValueMeaning]),
    /// No other call may run in parallel.
    Exclusive,
}

impl MeaningKind {
    /// Returns whether all operands at its position are examined together.
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

/// A test of a word.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WordTest {
    /// It matches one of these patterns, with `*` for anything and `''` for the empty word.
    Fits(&'static str),
    /// Its known part contains one of these, ignoring case.
    Holds(&'static str),
    /// It is known only at run time.
    Hidden,
    /// It may lead out of the working directory.
    Outside,
    /// It names another machine: `host:path`, or an address.
    Remote,
    /// It refers to an open descriptor.
    Descriptor,
    /// It isn't exactly one plain word, or it is empty.
    SeveralWords,
}

/// A part of a word, or of several.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WordPart {
    /// The text after the first of these signs, if there is one.
    After(&'static str),
    /// The part before a sign, or the whole word.
    Before(char),
    /// Each part between signs.
    Each(char),
    /// The whole word with spaces in place of a sign.
    Spaced(char),
    /// The second of two values.
    Second,
}

/// Paths that are derived from other words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DerivedPath {
    /// A file named like the last part of an address.
    UrlFileName,
    /// A folder named like the last part of an address, without this suffix.
    LastName(&'static str),
    /// Adds sources and a target, which is a file or a folder.
    IntoTarget(PathExtent),
    /// The first of several files with this prefix and this suffix.
    PiecePrefix(&'static str),
    /// The base name, in the folder that the command runs in.
    BaseName,
}

/// The form of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressForm {
    /// An address or a host.
    Address,
    /// A host, or `host:path`.
    Host,
    /// `host:path` or an address; anything else is a file.
    Copy,
    /// An address with a scheme, or `host=x`; anything else is not an address.
    Url,
    /// A folder unless it has a scheme.
    UrlOrFolder,
    /// A remote of a repository: an address, a folder or a name. With `false` a name is a folder.
    Remote(bool),
    /// A container image, from this registry if it names none.
    Image(&'static str),
    /// `name:port:address`, or with `true` `name:port:host:port`.
    Mapping(bool),
    /// `TCP:host:port` and similar forms.
    Socket,
}

/// The languages of evaluated texts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextLanguage {
    Shell,
    /// In the same shell.
    ThisShell,
    /// In the same shell, at a later time.
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

/// A language of command lines, some of which run a shell.
#[derive(Debug)]
pub(crate) struct CommandEscapes {
    /// The prefixes of a text for a shell.
    pub(crate) shell: &'static [&'static str],
    /// A sign before a text for a shell, anywhere in a line.
    pub(crate) anywhere: Option<&'static str>,
    /// The prefixes of lines whose commands are unknown.
    pub(crate) unread: &'static [&'static str],
    /// Texts that no line may contain.
    pub(crate) signs: &'static [&'static str],
    /// Lines that run nothing. If there are any, all others are unknown.
    pub(crate) plain: &'static str,
    /// Whether only an exact rule allows the others.
    pub(crate) exact: bool,
    /// Whether command names may be abbreviated.
    pub(crate) abbreviated: bool,
    /// The prefixes of lines in which `|` starts a command.
    pub(crate) pipes: Option<&'static str>,
}

/// Keys and the meanings of their values.
#[derive(Debug)]
pub(crate) struct KeyTable {
    /// The signs between key and value.
    pub(crate) separators: &'static [char],
    pub(crate) fold_case: bool,
    /// The value of a key without one.
    pub(crate) alone: &'static str,
    pub(crate) keys: &'static [KeySpec],
    pub(crate) other: &'static [ValueMeaning],
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct KeySpec {
    /// Names, with `*` for anything.
    pub(crate) keys: &'static str,
    /// The meanings; `None` if they are those of an unknown key.
    pub(crate) meanings: Option<&'static [ValueMeaning]>,
}

/// How a command is started by another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CommandForm {
    pub(crate) fill: ArgvFill,
    pub(crate) scope: AllowScope,
    pub(crate) location: RunLocation,
    /// Nothing happens besides the effects of the command itself.
    pub(crate) quiet: bool,
}

/// How the words are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgvFill {
    Plain,
    /// Arguments are appended.
    Append,
    /// A placeholder is replaced: the one that an option sets, otherwise this one.
    Mark(&'static str),
    /// Names of found files are inserted.
    Matches,
    /// `{…}` is replaced, and arguments are appended.
    Braces,
    /// The name of a package, without scope and version.
    Package,
}

/// What allow rules match. Deny and ask rules match everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowScope {
    /// The command, ignoring the program.
    Past,
    /// The program.
    OwnName,
    /// Only an exact rule allows it.
    Exact,
    /// It is a separate command, in an argument.
    Held,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunLocation {
    Here,
    /// In an unknown folder.
    UnknownFolder,
    /// With other files.
    OtherMachine,
}

pub(crate) const fn key(keys: &'static str, meanings: &'static [ValueMeaning]) -> KeySpec {
    KeySpec { keys, meanings: Some(meanings) }
}

/// Known keys with unknown effects.
pub(crate) const fn unknown_key(keys: &'static str) -> KeySpec {
    KeySpec { keys, meanings: None }
}

/// Why only an exact rule allows a program whose options run other programs.
pub(crate) const TELLS: &str = "can be told to run another command";
/// The reason for shells and similar programs.
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

    /// Returns whether this meaning, or one that follows from it, is of a kind.
    pub(crate) fn has(&self, wanted: fn(&MeaningKind) -> bool) -> bool {
        let mut found = false;
        self.each(&mut |kind| found |= wanted(kind));
        found
    }

    /// Calls `look` for this kind and those of the meanings that follow from it.
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

    /// Returns whether it applies if these modes are set.
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
/// Shell text in an option.
pub(crate) const SHELL: ValueMeaning = text(TextLanguage::Shell);
/// Shell text that is the purpose of the program.
pub(crate) const COMMANDS: ValueMeaning = text(TextLanguage::Shell).reason(RUNS_GIVEN);
/// All words, joined for a shell.
pub(crate) const JOINED: ValueMeaning = meaning(MeaningKind::Joined(TextLanguage::Shell)).reason(RUNS_GIVEN);
/// Commands from standard input.
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
/// What is destroyed irrecoverably, besides named files.
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

/// Standard input, if it is known.
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

/// The meanings of a word if it matches one of the patterns, and otherwise.
pub(crate) const fn one_of(
    patterns: &'static str,
    listed: &'static [ValueMeaning],
    other: &'static [ValueMeaning],
) -> ValueMeaning {
    when(WordTest::Fits(patterns), listed, other)
}

/// The meanings of a word if a test is true, and otherwise.
pub(crate) const fn when(
    test: WordTest,
    then: &'static [ValueMeaning],
    otherwise: &'static [ValueMeaning],
) -> ValueMeaning {
    meaning(MeaningKind::If(test, then, otherwise))
}

/// The meanings of a word that is known only at run time.
pub(crate) const fn hidden(then: &'static [ValueMeaning]) -> ValueMeaning {
    when(WordTest::Hidden, then, &[])
}

pub(crate) const fn part(part: WordPart, meanings: &'static [ValueMeaning]) -> ValueMeaning {
    meaning(MeaningKind::Part(part, meanings))
}

const fn command(fill: ArgvFill, scope: AllowScope, location: RunLocation, quiet: bool) -> ValueMeaning {
    meaning(MeaningKind::Command(CommandForm { fill, scope, location, quiet }))
}

/// A command that is started in a special way.
pub(crate) const COMMAND: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Exact, RunLocation::Here, false);
/// The same, in another folder or root.
pub(crate) const COMMAND_ELSEWHERE: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Exact, RunLocation::UnknownFolder, false);
/// A command whose time, priority or buffers are changed.
pub(crate) const COMMAND_PAST: ValueMeaning =
    command(ArgvFill::Plain, AllowScope::Past, RunLocation::Here, true);
/// The same, if something else is written.
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

/// A separate command in an argument.
pub(crate) const fn held(fill: ArgvFill, location: RunLocation, quiet: bool) -> ValueMeaning {
    command(fill, AllowScope::Held, location, quiet).reason(RUNS_GIVEN)
}
