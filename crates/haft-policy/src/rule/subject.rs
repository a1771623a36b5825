//! A call as the rules see it: its name, its input and its effects, as plain data.
//!
//! The caller that builds a subject has resolved the paths and parsed the commands. Nothing is looked up
//! afterwards.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use haft::effects::RootExtent;
use haft::files::PlannedChange;
use serde_json::Value;

/// A call as the rules see it.
#[derive(Debug, Clone)]
pub struct RuleSubject<'a> {
    /// The name under which the model knows the tool.
    pub tool: &'a str,
    /// Other names of the tool. Deny and ask rules match them; allow rules don't, since a tool chooses its
    /// aliases itself.
    pub aliases: Vec<&'a str>,
    /// The MCP server that a built-in tool sends the call to. Rules for the whole server apply to the call.
    pub server: Option<&'a str>,
    /// The MCP server that provides the tool, if known. Otherwise the server is derived from the tool's
    /// name.
    pub of_server: Option<&'a str>,
    /// The input as the model sent it.
    pub input: &'a Value,
    /// The engine confines the call to its declared effects.
    pub enforced: bool,
    /// The call reaches hosts and touches nothing else.
    pub hosts_only: bool,
    /// The tool omits everything in a folder that [`RuleSet::stops`](super::RuleSet::stops) names. Then a
    /// rule for something in the folder doesn't stop the call.
    pub leaves_out: bool,
    /// The call may have any effect; the declared effects are only a hint.
    pub open: bool,
    /// The effects apart from those of commands. For a shell call these are its redirections.
    pub touches: SubjectEffects<'a>,
    /// Every command that the call would run.
    pub commands: Vec<SubjectCommand<'a>>,
    /// Command lines inside the command line, such as the argument of `sh -c`. For rules that span several
    /// commands.
    pub scripts: Vec<Cow<'a, str>>,
    /// The subject is a part of a line, so rules that span several commands don't apply.
    pub part: bool,
    /// The commands run in a sandbox, or the engine confines the tool's file access. Then a rule for a
    /// command covers only paths and hosts that are open or in the working directories.
    pub walled: bool,
    /// The reached hosts that are open without a rule.
    pub open_hosts: Vec<String>,
}

/// Paths and hosts that a call or a command touches.
#[derive(Debug, Clone, Default)]
pub struct SubjectEffects<'a> {
    /// Paths that are read.
    pub reads: Vec<SubjectPath<'a>>,
    /// Paths that are created or changed.
    pub writes: Vec<SubjectPath<'a>>,
    /// Paths that are removed.
    pub deletes: Vec<SubjectPath<'a>>,
    /// Hosts that are reached, without scheme and port.
    pub hosts: Vec<Cow<'a, str>>,
}

/// A file or folder, by its given path and its resolved path.
#[derive(Debug, Clone)]
pub struct SubjectPath<'a> {
    /// The path as given, made absolute.
    pub given: Cow<'a, Path>,
    /// The resolved path.
    pub real: Cow<'a, Path>,
    /// Whether only this path is meant, or everything below it too.
    pub extent: RootExtent,
    /// The path needs no grant, because the sandbox shows it to every command.
    pub open: bool,
    /// The affected files below the path are known only when the command runs.
    pub partial: bool,
}

/// One command that a call would run.
#[derive(Debug, Clone, Default)]
pub struct SubjectCommand<'a> {
    /// Alternative texts of the command. One of them has to be allowed.
    pub for_allow: Vec<Cow<'a, str>>,
    /// Alternative texts of the command. None of them may be denied or asked for.
    pub for_deny: Vec<Cow<'a, str>>,
    /// The command's effects are known from its text. If not, only a rule for every use of the tool allows
    /// it.
    pub understood: bool,
    /// The command changes nothing. Rules don't use this; the permission mode does, for what rules leave
    /// uncovered.
    pub read_only: bool,
    /// No rule with a wildcard allows the command.
    pub exact_only: bool,
    /// The effects of the command, as far as its text shows them.
    pub touches: SubjectEffects<'a>,
    /// The known pieces of texts that are complete only at run time. Between two pieces stands either
    /// nothing, or a space followed by anything. For [`RuleSet::may_run`](super::RuleSet::may_run).
    pub open: Vec<Vec<String>>,
}

impl<'a> RuleSubject<'a> {
    /// Creates a call without effects.
    pub fn new(tool: &'a str, input: &'a Value) -> RuleSubject<'a> {
        RuleSubject {
            tool,
            aliases: Vec::new(),
            server: None,
            of_server: None,
            input,
            enforced: false,
            hosts_only: false,
            leaves_out: false,
            open: false,
            touches: SubjectEffects::default(),
            commands: Vec::new(),
            scripts: Vec::new(),
            part: false,
            walled: false,
            open_hosts: Vec::new(),
        }
    }

    /// Returns the MCP server that the call is about.
    pub(super) fn about_server(&self) -> Option<&'a str> {
        let named = || Some(self.tool.strip_prefix("mcp__")?.split_once("__")?.0);
        self.server.or(self.of_server).or_else(named)
    }

    /// Returns the name that rules for the whole server match. No tool has this name.
    pub(super) fn at_server(&self) -> Option<String> {
        self.about_server().map(|server| format!("mcp__{server}__"))
    }

    /// Returns the effects of a command, or of the call itself.
    fn touches_of(&self, command: Option<usize>) -> Option<&SubjectEffects<'a>> {
        match command {
            Some(command) => self.commands.get(command).map(|command| &command.touches),
            None => Some(&self.touches),
        }
    }

    /// Returns the path of an effect that has one.
    pub fn place(&self, effect: EffectRef) -> Option<&SubjectPath<'a>> {
        let touches = self.touches_of(effect.command)?;
        let places = match effect.touch {
            EffectKind::Reads => &touches.reads,
            EffectKind::Writes => &touches.writes,
            EffectKind::Deletes => &touches.deletes,
            _ => return None,
        };
        places.get(effect.index)
    }

    /// Returns the host of an effect that has one.
    pub fn host(&self, effect: EffectRef) -> Option<&str> {
        let touches = self.touches_of(effect.command).filter(|_| effect.touch == EffectKind::Reaches)?;
        touches.hosts.get(effect.index).map(|host| &**host)
    }

    /// Returns whether a host is open without a rule.
    pub fn is_open_host(&self, host: &str) -> bool {
        self.open_hosts.iter().any(|open| open == host)
    }

    /// Marks the declared effects as enforced.
    #[must_use]
    pub fn enforced(mut self) -> RuleSubject<'a> {
        self.enforced = true;
        self
    }

    /// Adds a read of a path that is not a symlink.
    #[must_use]
    pub fn reading(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.reads.push(SubjectPath::at(path));
        self
    }

    /// Adds a write of a path that is not a symlink.
    #[must_use]
    pub fn writing(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.writes.push(SubjectPath::at(path));
        self
    }

    /// Adds a removal of a path that is not a symlink.
    #[must_use]
    pub fn deleting(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.deletes.push(SubjectPath::at(path));
        self
    }

    /// Adds a host.
    #[must_use]
    pub fn reaching(mut self, host: impl Into<Cow<'a, str>>) -> RuleSubject<'a> {
        self.touches.hosts.push(host.into());
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn running(mut self, command: SubjectCommand<'a>) -> RuleSubject<'a> {
        self.commands.push(command);
        self
    }

    /// Returns an effect of this call as text.
    pub fn show(&self, effect: EffectRef) -> String {
        let touches = self.touches_of(effect.command);
        let path = |places: Option<&Vec<SubjectPath<'_>>>| {
            let place = places.and_then(|places| places.get(effect.index));
            place.map_or_else(String::new, |place| place.given.display().to_string())
        };
        match effect.touch {
            EffectKind::Call => format!("uses {}", self.tool),
            EffectKind::Anything => "may do anything".to_owned(),
            EffectKind::Runs => {
                let command = effect.command.and_then(|command| self.commands.get(command));
                let text = command.and_then(|command| command.for_allow.first().or(command.for_deny.first()));
                format!("runs {}", text.map_or("a command", |text| text))
            }
            EffectKind::Reads => format!("reads {}", path(touches.map(|touches| &touches.reads))),
            EffectKind::Writes => format!("writes {}", path(touches.map(|touches| &touches.writes))),
            EffectKind::Deletes => format!("deletes {}", path(touches.map(|touches| &touches.deletes))),
            EffectKind::Reaches => {
                let host = touches.and_then(|touches| touches.hosts.get(effect.index));
                format!("reaches {}", host.map_or("", |host| host))
            }
        }
    }
}

impl SubjectEffects<'_> {
    /// Returns whether there are no effects.
    pub fn is_empty(&self) -> bool {
        let SubjectEffects { reads, writes, deletes, hosts } = self;
        reads.is_empty() && writes.is_empty() && deletes.is_empty() && hosts.is_empty()
    }
}

impl<'a> SubjectPath<'a> {
    /// Creates a file whose path is not a symlink.
    pub fn at(path: &'a (impl AsRef<Path> + ?Sized)) -> SubjectPath<'a> {
        SubjectPath::linked(path, path)
    }

    /// Creates a file whose path resolves to another one.
    pub fn linked(
        given: &'a (impl AsRef<Path> + ?Sized),
        real: &'a (impl AsRef<Path> + ?Sized),
    ) -> SubjectPath<'a> {
        let (given, real) = (Cow::Borrowed(given.as_ref()), Cow::Borrowed(real.as_ref()));
        SubjectPath { given, real, extent: RootExtent::File, open: false, partial: false }
    }

    /// Returns the change for which a backup copy would be needed.
    pub(crate) fn planned_change(&self) -> PlannedChange<'_> {
        PlannedChange { path: &self.real, extent: self.extent, partial: self.partial }
    }

    /// Extends the path to everything below it.
    #[must_use]
    pub fn and_below(mut self) -> SubjectPath<'a> {
        self.extent = RootExtent::Subtree;
        self
    }
}

impl<'a> SubjectCommand<'a> {
    /// Creates a command whose effects are known from its text.
    pub fn plain(text: impl Into<Cow<'a, str>>) -> SubjectCommand<'a> {
        let text = text.into();
        SubjectCommand {
            for_allow: vec![text.clone()],
            for_deny: vec![text],
            understood: true,
            ..SubjectCommand::default()
        }
    }
}

/// One effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EffectRef {
    /// What is done.
    pub touch: EffectKind,
    /// The command that does it, by its place in [`RuleSubject::commands`].
    pub command: Option<usize>,
    /// The index in the list of [`SubjectEffects`] for this kind.
    pub index: usize,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectKind {
    /// The tool is called. The only effect of a call that touches nothing.
    Call,
    /// Any effect is possible.
    Anything,
    /// A command runs.
    Runs,
    /// A file or folder is read.
    Reads,
    /// A file or folder is created or changed.
    Writes,
    /// A file or folder is removed.
    Deletes,
    /// A host is reached.
    Reaches,
}

impl fmt::Display for EffectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EffectKind::Call => "call",
            EffectKind::Anything => "anything",
            EffectKind::Runs => "run",
            EffectKind::Reads => "read",
            EffectKind::Writes => "write",
            EffectKind::Deletes => "delete",
            EffectKind::Reaches => "reach",
        })
    }
}
