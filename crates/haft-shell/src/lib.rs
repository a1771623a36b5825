//! What a shell command would do, found by parsing it.
//!
//! [`analyse_command`] reads a command as bash would and answers with every program that could be started,
//! wherever it hides, every file that is redirected to, and what of it is known to touch what. Nothing is
//! run, and no file is looked at. What can't be read with certainty is a [`Doubt`]: such a command asks, and
//! is denied in a non-interactive session.
//!
//! The analysis serves rules, display and concurrency. It isn't a gate: a program does what it does, and only
//! the sandbox keeps a write out. So a mistake here may ask too often, and must not hide a command.
//!
//! ```
//! use haft_shell::{ShellDirectories, analyse_command};
//!
//! let found = analyse_command("cd src && grep -r TODO . | wc -l", &ShellDirectories::new("/repo"));
//! assert!(found.doubts.is_empty() && found.is_read_only());
//! assert_eq!(found.commands[1].text, "grep -r TODO .");
//!
//! let found = analyse_command("echo $(rm -rf /)", &ShellDirectories::new("/repo"));
//! assert_eq!(found.commands[0].text, "rm -rf /");
//! assert!(found.commands[0].critical.is_some() && !found.is_read_only());
//!
//! assert!(!analyse_command("$TOOL --fast", &ShellDirectories::new("/repo")).doubts.is_empty());
//! ```

mod address;
mod analyzer;
mod bindings;
mod critical;
mod environment;
mod evaluation;
mod examine;
mod folders;
mod languages;
mod model;
mod parse;
mod programs;
mod questions;
mod redirect;
mod show;
mod streams;
mod tokens;
mod tree;
mod walk;
mod word;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use haft::Effects;
use haft_git::RepositoryUse;

pub use analyzer::{CACHED_ANALYSES_MAX, ShellAnalyzer};
pub use show::DisplayLine;
pub use tokens::{Token, TokenKind, precedes_command, tokenize_line};

/// The maximum length of a command, in characters.
pub const CHARS_MAX: usize = 10_000;
/// The maximum nesting depth of commands, substitutions and expansions, over all parsed texts.
pub const DEPTH_MAX: usize = 48;
/// The maximum number of commands in one command line.
pub const COMMANDS_MAX: usize = 200;
/// The maximum number of possible bases of a relative path, after `cd`s that may have failed.
pub const FOLDERS_MAX: usize = 4;

/// The place where a command would run. Used to detect critical paths; nothing is looked up.
#[derive(Debug, Clone, Default)]
pub struct ShellDirectories {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// The home directory, if there is one.
    pub home: Option<PathBuf>,
    /// Additional working directories.
    pub added: Vec<PathBuf>,
}

impl ShellDirectories {
    /// Creates a place without a home directory and without additional folders.
    pub fn new(cwd: impl Into<PathBuf>) -> ShellDirectories {
        ShellDirectories { cwd: cwd.into(), home: None, added: Vec::new() }
    }

    /// Sets the home directory.
    #[must_use]
    pub fn with_home(mut self, home: impl Into<PathBuf>) -> ShellDirectories {
        self.home = Some(home.into());
        self
    }

    /// Adds a folder.
    #[must_use]
    pub fn with_added(mut self, folder: impl Into<PathBuf>) -> ShellDirectories {
        self.added.push(folder.into());
        self
    }
}

/// The result of analyzing a command.
#[derive(Debug, Clone, Default)]
pub struct CommandAnalysis {
    /// Every command that could be started, in the order of the text. Inner commands come before those that
    /// use their output.
    pub commands: Vec<SubCommand>,
    /// Every file that is opened by a redirection.
    pub redirects: Vec<FileRedirect>,
    /// The parts that aren't understood. If there are any, the command asks, whatever else was found.
    pub doubts: Vec<Doubt>,
}

/// One command that could be started. By default nothing is known of it.
#[derive(Debug, Clone)]
pub struct SubCommand {
    /// The words as written, without redirections, separated by single spaces.
    pub text: String,
    /// The assignments before it, or all of it if there are only assignments.
    pub assignments: Vec<Assignment>,
    /// The command and the commands that it starts: `timeout 5 rm x`, then `rm x`. Empty for a bare
    /// assignment.
    pub layers: Vec<CommandLayer>,
    /// The index of the command that contains this one in an argument, as `sh -c '…'`, `find … -exec` and
    /// `tar --to-command=…` do.
    pub within: Option<usize>,
    /// Whether it is read-only, or the reason why it may change something.
    pub read_only: Result<(), String>,
    /// Why a rule with a wildcard doesn't allow it, if that is so.
    pub exact_only: Option<&'static str>,
    /// The path whose removal always needs approval, if there is one.
    pub critical: Option<String>,
    /// What it destroys irrecoverably besides the files that it names: uncommitted changes, a volume.
    pub destroys: Option<&'static str>,
    /// Its effects, if they are known, without redirections.
    pub effects: Option<Effects>,
    /// The repositories that it writes, and to which extent.
    pub repository: RepositoryUse,
    /// The folders whose repositories it reads, as far as its words show. Their configuration may still
    /// make git run a program.
    pub looks_at: Vec<PathBuf>,
}

/// One layer of a command: the command that a wrapper starts, or the command itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLayer {
    /// The words as written, separated by single spaces.
    pub text: String,
    /// The words as the program receives them.
    pub argv: Vec<Word>,
    /// How the previous layer starts it; `Directly` for the first.
    pub started: StartMethod,
}

/// How a layer is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMethod {
    /// As written.
    Directly,
    /// By a wrapper that changes only time, priority or buffers. Rules of every kind ignore the wrapper.
    Wrapped,
    /// By a program that starts others in another way (`env`, `sudo`, `xargs -n1` …). Deny and ask rules
    /// ignore the wrapper. Only an exact rule allows the whole command.
    Executed,
    /// By a runner that is a command in its own right (`npx`, `docker exec`, `mise exec` …). Deny and ask
    /// rules ignore the runner, but rules that allow the runner by its own name apply.
    Launched,
    /// By a command that contains it in an argument, an option or a script (`sh -c '…'`, `tar
    /// --to-command=…`, `git -c alias.x='!…'`); see [`SubCommand::within`]. Replaces
    /// [`StartMethod::Directly`] there.
    Held,
}

/// A variable assignment before a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The name.
    pub name: String,
    /// As written.
    pub text: String,
    /// Whether allow rules ignore it: a setting of language, color or the like.
    pub harmless: bool,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Known text: quotes removed, nothing to expand.
    Literal(String),
    /// Known only at run time.
    Dynamic(DynamicWord),
}

/// A word with an expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DynamicWord {
    /// As written.
    pub written: String,
    /// The text with a mark for each expansion; see [`marks`].
    shape: String,
    /// Whether it may become no word, or several.
    splits: bool,
}

/// Marks for expansions in the shape of a word: characters that no command may contain.
pub(crate) mod marks {
    pub(crate) const EXPANSION: char = '\u{1}';
    pub(crate) const BRACE: char = '\u{2}';
    pub(crate) const HOME: char = '\u{3}';
    pub(crate) const GLOB: char = '\u{4}';
}

/// A file that a redirection opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRedirect {
    /// The kind of access.
    pub access: FileAccess,
    /// The target.
    pub target: Word,
    /// The path, relative to the working directory if not absolute. There are several after a `cd` that may
    /// have failed. `None` if the path is unknown: such a redirection asks.
    pub paths: Option<Vec<PathBuf>>,
}

/// The access of a redirection to its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileAccess {
    /// Reads it.
    Read,
    /// Creates or changes it.
    Write,
}

/// A part that isn't understood.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Doubt {
    /// More than [`CHARS_MAX`] characters.
    TooLong,
    /// Nests deeper than [`DEPTH_MAX`].
    TooDeep,
    /// Holds more than [`COMMANDS_MAX`] commands.
    TooMany,
    /// A character that is invisible, or displayed elsewhere than it is.
    Character(char),
    /// Not in the grammar, or a part of it that shells parse differently.
    Syntax {
        /// What was expected.
        what: &'static str,
        /// The byte offset in the parsed text.
        at: usize,
    },
    /// The program is known only at run time.
    Command(String),
    /// A program starts others that are unknown.
    Starts(String),
    /// Commands come from an unknown source, or change what later ones mean.
    Elsewhere(String),
    /// Sets a variable that changes what programs do.
    Environment(String),
    /// The target of a redirection is known only at run time.
    Target(String),
    /// Text that contains a command is used together with something that evaluates text.
    Evaluates,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::TooLong => write!(f, "longer than {CHARS_MAX} characters"),
            Doubt::TooDeep => write!(f, "nested deeper than {DEPTH_MAX} levels"),
            Doubt::TooMany => write!(f, "more than {COMMANDS_MAX} commands"),
            Doubt::Character(c) => write!(f, "holds the character {}", c.escape_unicode()),
            Doubt::Syntax { what, at } => write!(f, "can't be parsed at byte {at}: expected {what}"),
            Doubt::Command(text) => write!(f, "which program `{text}` starts is known only when it runs"),
            Doubt::Starts(text) => write!(f, "what `{text}` starts isn't known"),
            Doubt::Elsewhere(text) => {
                write!(f, "`{text}` takes commands from elsewhere or changes later ones")
            }
            Doubt::Environment(name) => write!(f, "sets `{name}`, which changes what programs do"),
            Doubt::Target(text) => write!(f, "which file `{text}` is, is known only when it runs"),
            Doubt::Evaluates => f.write_str("holds a command in quotes beside something that evaluates text"),
        }
    }
}

impl std::error::Error for Doubt {}

/// Returns whether a program, given by its name without a folder, runs files of its working directory:
/// `make`, `npm`.
pub fn runs_workspace_code(name: &str) -> bool {
    programs::has_trait(name, model::ProgramTraits::RUNS_WORKSPACE)
}

/// Returns whether a program, given by its name without a folder, loads modules from its working directory:
/// `python3 -c`.
pub fn imports_modules(name: &str) -> bool {
    programs::has_trait(name, model::ProgramTraits::IMPORTS_MODULES)
}

/// Returns whether the first plain argument of a program is a script or a folder with one: `bash`. The name
/// is without a folder.
pub fn runs_script(name: &str) -> bool {
    programs::has_trait(name, model::ProgramTraits::RUNS_SCRIPT)
}

/// Returns the names of programs that run arbitrary code, so that a rule with a wildcard after one allows
/// everything.
pub fn open_ended_programs() -> impl Iterator<Item = &'static str> {
    programs::open_ended().flat_map(|entry| entry.all_names())
}

/// What a program may do with an argument that is known only at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArgumentUses {
    /// It may read the file.
    pub reads: bool,
    /// It may change or remove the file.
    pub changes: bool,
    /// It may reach the host.
    pub reaches: bool,
}

impl ArgumentUses {
    /// Every use.
    pub const ANYTHING: ArgumentUses = ArgumentUses { reads: true, changes: true, reaches: true };
}

/// Returns what a program, given by its name without a folder, may do with an argument that is known only
/// at run time.
///
/// ```
/// use haft_shell::{ArgumentUses, argument_uses};
///
/// let reads = ArgumentUses { reads: true, ..ArgumentUses::default() };
/// assert_eq!(argument_uses("cat"), reads);
/// assert_eq!(argument_uses("rm"), ArgumentUses { changes: true, ..ArgumentUses::default() });
/// assert_eq!(argument_uses("make"), ArgumentUses::ANYTHING);
/// ```
pub fn argument_uses(name: &str) -> ArgumentUses {
    programs::argument_uses(name)
}

/// Returns whether a file name looks like a script.
pub fn is_script_name(name: &str) -> bool {
    programs::is_script_name(name)
}

/// Analyzes a command.
pub fn analyse_command(command: &str, place: &ShellDirectories) -> CommandAnalysis {
    walk::walk_command(command, place)
}

impl CommandAnalysis {
    /// Returns whether everything was understood and is read-only. For display and concurrency, never for
    /// permission.
    pub fn is_read_only(&self) -> bool {
        self.doubts.is_empty()
            && self.commands.iter().all(|command| command.read_only.is_ok())
            && self
                .redirects
                .iter()
                .all(|redirect| redirect.access == FileAccess::Read && redirect.host().is_none())
    }

    /// Returns the effects of the whole command: one entry of `runs` for each command, and the files of
    /// redirections. Unknown if any part was not understood.
    pub fn effects(&self) -> Effects {
        questions::whole_effects(self)
    }

    /// How much of which repositories its commands have to write.
    ///
    /// ```
    /// use haft_git::RepositoryLevel;
    /// use haft_shell::{ShellDirectories, analyse_command};
    ///
    /// let level = |line| analyse_command(line, &ShellDirectories::new("/repo")).repository_use().level;
    /// assert_eq!(level("git log && git diff"), RepositoryLevel::None);
    /// assert_eq!(level("git fetch && git push origin main"), RepositoryLevel::Data);
    /// assert_eq!(level("git fetch && git push -u origin main"), RepositoryLevel::Configuration);
    /// assert_eq!(level("git init"), RepositoryLevel::Configuration);
    /// ```
    pub fn repository_use(&self) -> RepositoryUse {
        let used = self.commands.iter().map(|command| command.repository.clone());
        used.fold(RepositoryUse::default(), RepositoryUse::and)
    }

    /// Returns the first path whose removal always needs approval.
    pub fn critical(&self) -> Option<&str> {
        self.commands.iter().find_map(|command| command.critical.as_deref())
    }
}

impl FileRedirect {
    /// Returns the host that it reaches, for the paths that bash treats as hosts: `/dev/tcp/host/port`.
    pub fn host(&self) -> Option<&str> {
        let text = self.target.literal()?;
        let rest = text.strip_prefix("/dev/tcp/").or(text.strip_prefix("/dev/udp/"))?;
        rest.split('/').next().filter(|host| !host.is_empty())
    }
}

impl Default for SubCommand {
    fn default() -> SubCommand {
        SubCommand {
            text: String::new(),
            assignments: Vec::new(),
            layers: Vec::new(),
            within: None,
            read_only: Err("what it does isn't known".to_owned()),
            exact_only: None,
            critical: None,
            destroys: None,
            effects: None,
            repository: RepositoryUse::default(),
            looks_at: Vec::new(),
        }
    }
}

impl SubCommand {
    /// Returns the alternative texts of which an allow rule has to match one: as written, and without
    /// assignments and wrappers that change nothing. Empty if an assignment changes what the command does.
    pub fn texts_for_allow(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let front = self.assignments.iter().map(|assignment| &*assignment.text).collect::<Vec<_>>().join(" ");
        let Some(first) = self.layers.first() else { return vec![self.text.clone()] };
        if front.is_empty() {
            texts.push(first.text.clone());
        } else {
            texts.push(self.text.clone());
            if self.assignments.iter().all(|assignment| assignment.harmless) {
                texts.push(first.text.clone());
            } else {
                return texts;
            }
        }
        let wrapped = self.layers.iter().skip(1).take_while(|layer| layer.started == StartMethod::Wrapped);
        texts.extend(wrapped.map(|layer| layer.text.clone()));
        texts
    }

    /// The texts that deny and ask rules look at: past every assignment and every wrapper, as written and
    /// with quotes removed, with the program by its path and by its name alone, and without options in front
    /// of a sub-command.
    ///
    /// ```
    /// use haft_shell::{ShellDirectories, analyse_command};
    ///
    /// let found = analyse_command("sudo git -C /x --no-pager push origin", &ShellDirectories::new("/repo"));
    /// assert!(found.commands[0].texts_for_deny().contains(&"git push origin".to_owned()));
    /// assert_eq!(found.commands[0].texts_for_allow(), ["sudo git -C /x --no-pager push origin"]);
    /// ```
    pub fn texts_for_deny(&self) -> Vec<String> {
        let mut texts = vec![self.text.clone()];
        for layer in &self.layers {
            texts.push(layer.text.clone());
            let plain: Vec<&str> = layer.argv.iter().map(Word::plain).collect();
            texts.push(plain.join(" "));
            if let Some((program, rest)) = plain.split_first()
                && let Some((_, name)) = program.rsplit_once('/')
                && !name.is_empty()
            {
                texts.push([&[name], rest].concat().join(" "));
            }
            texts.extend(programs::texts_without_options(&layer.argv));
        }
        texts.sort_unstable();
        texts.dedup();
        texts
    }

    /// Returns the words of the innermost program, without all wrappers.
    pub fn argv(&self) -> &[Word] {
        self.layers.last().map_or(&[], |layer| &layer.argv)
    }

    /// Returns the name of the innermost program, without its folder.
    pub fn program(&self) -> Option<&str> {
        self.argv().first()?.literal().map(base_name)
    }

    /// Why it may reach hosts that its effects don't name, if it is a program that reaches some: an address
    /// that is known only when it runs, or a remote that git knows. Rules about hosts can't be held against
    /// such a command.
    ///
    /// ```
    /// use haft_shell::{ShellDirectories, analyse_command};
    ///
    /// let why = |line| analyse_command(line, &ShellDirectories::new("/repo")).commands[0].reaches_unknown();
    /// assert_eq!(why("git fetch origin").unwrap(), "the configuration names the host of the remote `origin`");
    /// assert!(why("curl $URL").is_some() && why("curl https://x.io/$path").is_none() && why("make").is_none());
    /// ```
    pub fn reaches_unknown(&self) -> Option<String> {
        questions::unknown_host(self.argv())
    }

    /// What an exit code of 1 answers, for a program with which that is no failure.
    ///
    /// ```
    /// use haft_shell::{ShellDirectories, analyse_command};
    ///
    /// let answer = |line| analyse_command(line, &ShellDirectories::new("/repo")).commands[0].exit_one();
    /// assert_eq!(answer("git -C x diff --quiet"), Some("they differ"));
    /// assert_eq!((answer("grep x f"), answer("make")), (Some("nothing matches"), None));
    /// ```
    pub fn exit_one(&self) -> Option<&'static str> {
        programs::exit_one(self.argv())
    }

    /// Returns whether an argument is known only at run time.
    pub fn is_open(&self) -> bool {
        self.argv().iter().any(|word| word.literal().is_none())
    }
}

impl Word {
    /// Returns the text, if it is known.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Word::Literal(text) => Some(text),
            Word::Dynamic(_) => None,
        }
    }

    /// Returns the text, or the word as written if the text is unknown.
    pub fn plain(&self) -> &str {
        match self {
            Word::Literal(text) => text,
            Word::Dynamic(open) => &open.written,
        }
    }

    /// Returns the text, with a mark for each expansion.
    fn shape(&self) -> &str {
        match self {
            Word::Literal(text) => text,
            Word::Dynamic(open) => &open.shape,
        }
    }

    /// Returns the text before the first expansion.
    fn prefix(&self) -> &str {
        match self {
            Word::Literal(text) => text,
            Word::Dynamic(open) => open.shape.split(|c| c <= marks::GLOB).next().unwrap_or(""),
        }
    }

    /// Returns whether the word stands for names from another command or a loop.
    fn stands_for_names(&self) -> bool {
        let names =
            |open: &DynamicWord| open.shape.contains(marks::GLOB) && !open.written.contains(['*', '?', '[']);
        matches!(self, Word::Dynamic(open) if names(open))
    }

    fn is_anything(&self) -> bool {
        let is = |open: &DynamicWord| open.written == "…" && open.shape.chars().eq([marks::EXPANSION]);
        matches!(self, Word::Dynamic(open) if open.splits && is(open))
    }

    /// Returns a word of which nothing is known.
    fn anything() -> Word {
        Word::Dynamic(DynamicWord {
            written: "…".to_owned(),
            shape: marks::EXPANSION.to_string(),
            splits: true,
        })
    }
}

/// Returns the last component of a path.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Removes `.` and `..` from a path without accessing the file system.
fn normalize_path(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
    }
    clean
}

/// Makes rustdoc run the examples of the page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/shell.md")]
struct ReadmeExamples;
