//! A call as the rules see it: its name, its input, and what it would do, as plain data.
//!
//! Whoever builds one has resolved the paths and taken commands apart. Nothing is looked up from here on.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use haft::effects::RootExtent;
use haft::files::PlannedChange;
use serde_json::Value;

/// A call as the rules see it.
#[derive(Debug, Clone)]
pub struct RuleSubject<'a> {
    /// The name under which the tool is offered.
    pub tool: &'a str,
    /// Its other names. Deny and ask rules know them; allow rules don't, since a tool chooses them itself.
    pub aliases: Vec<&'a str>,
    /// The MCP server that a tool of ours sends the call to, if it is such a tool: rules about all of the server speak of it.
    pub server: Option<&'a str>,
    /// The MCP server whose tool it is, where that is known. If not, its name has to do.
    pub of_server: Option<&'a str>,
    /// The input as the model sent it.
    pub input: &'a Value,
    /// Nothing but the declared effects can happen, because the engine sees to it.
    pub enforced: bool,
    /// It reaches hosts and touches nothing else.
    pub hosts_only: bool,
    /// The tool leaves out, from a folder that it reads, whatever [`RuleSet::stops`](super::RuleSet::stops) names. Then
    /// a rule for something in the folder doesn't stop the call.
    pub leaves_out: bool,
    /// Anything may happen; what is declared is only a hint.
    pub open: bool,
    /// What is touched, apart from what commands touch: for a shell call its redirections.
    pub touches: SubjectEffects<'a>,
    /// Every command that would be run.
    pub commands: Vec<SubjectCommand<'a>>,
    /// Command lines within the command line, as `sh -c` is given one. For rules that speak of more than one command.
    pub scripts: Vec<Cow<'a, str>>,
    /// Only a part of the line is meant, so that rules for more than one command don't speak of it.
    pub part: bool,
    /// A sandbox holds its commands, or the engine its files: a rule for a command covers no place and no host but those
    /// that are open or lie in the working directories.
    pub walled: bool,
    /// Of the hosts that it reaches those that are open without a rule.
    pub open_hosts: Vec<String>,
}

/// What is touched.
#[derive(Debug, Clone, Default)]
pub struct SubjectEffects<'a> {
    /// What is read.
    pub reads: Vec<SubjectPath<'a>>,
    /// What is created or changed.
    pub writes: Vec<SubjectPath<'a>>,
    /// What is removed.
    pub deletes: Vec<SubjectPath<'a>>,
    /// Hosts that are reached, without scheme and port.
    pub hosts: Vec<Cow<'a, str>>,
}

/// A file or folder, by both of its paths.
#[derive(Debug, Clone)]
pub struct SubjectPath<'a> {
    /// As given, absolute.
    pub given: Cow<'a, Path>,
    /// Where that really is.
    pub real: Cow<'a, Path>,
    /// Only this, or everything below it.
    pub extent: RootExtent,
    /// It may be touched without a grant, because the sandbox shows it to every command.
    pub open: bool,
    /// Which files below it are meant is known only when the command runs.
    pub partial: bool,
}

/// One command that would be run.
#[derive(Debug, Clone, Default)]
pub struct SubjectCommand<'a> {
    /// The texts of which one has to be allowed.
    pub for_allow: Vec<Cow<'a, str>>,
    /// The texts of which none may be denied or asked for.
    pub for_deny: Vec<Cow<'a, str>>,
    /// What it does is known from its text. If not, only a rule for every use of the tool lets it through.
    pub understood: bool,
    /// It changes nothing. The rules don't read this; it is here for whoever judges what they leave uncovered.
    pub read_only: bool,
    /// A rule with a wildcard doesn't let it through.
    pub exact_only: bool,
    /// What it touches, as far as its text says.
    pub touches: SubjectEffects<'a>,
    /// Texts that are known only when it runs: what is known of each, in pieces, with nothing or a blank and anything
    /// between two of them. For [`RuleSet::may_run`](super::RuleSet::may_run).
    pub open: Vec<Vec<String>>,
}

impl<'a> RuleSubject<'a> {
    /// A call that touches nothing.
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

    /// The MCP server that it is about.
    pub(super) fn about_server(&self) -> Option<&'a str> {
        let named = || Some(self.tool.strip_prefix("mcp__")?.split_once("__")?.0);
        self.server.or(self.of_server).or_else(named)
    }

    /// The name by which rules about all of its server speak of the call. No tool has it.
    pub(super) fn at_server(&self) -> Option<String> {
        self.about_server().map(|server| format!("mcp__{server}__"))
    }

    /// What a command touches, or the call itself.
    fn touches_of(&self, command: Option<usize>) -> Option<&SubjectEffects<'a>> {
        match command {
            Some(command) => self.commands.get(command).map(|command| &command.touches),
            None => Some(&self.touches),
        }
    }

    /// The place of an effect that has one.
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

    /// The host of an effect that has one.
    pub fn host(&self, effect: EffectRef) -> Option<&str> {
        let touches = self.touches_of(effect.command).filter(|_| effect.touch == EffectKind::Reaches)?;
        touches.hosts.get(effect.index).map(|host| &**host)
    }

    /// Whether a host is open without a rule.
    pub fn is_open_host(&self, host: &str) -> bool {
        self.open_hosts.iter().any(|open| open == host)
    }

    /// Only the declared effects can happen.
    #[must_use]
    pub fn enforced(mut self) -> RuleSubject<'a> {
        self.enforced = true;
        self
    }

    /// Reads a file whose path leads where it says.
    #[must_use]
    pub fn reading(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.reads.push(SubjectPath::at(path));
        self
    }

    /// Writes a file whose path leads where it says.
    #[must_use]
    pub fn writing(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.writes.push(SubjectPath::at(path));
        self
    }

    /// Removes a file whose path leads where it says.
    #[must_use]
    pub fn deleting(mut self, path: &'a (impl AsRef<Path> + ?Sized)) -> RuleSubject<'a> {
        self.touches.deletes.push(SubjectPath::at(path));
        self
    }

    /// Reaches a host.
    #[must_use]
    pub fn reaching(mut self, host: impl Into<Cow<'a, str>>) -> RuleSubject<'a> {
        self.touches.hosts.push(host.into());
        self
    }

    /// Runs a command.
    #[must_use]
    pub fn running(mut self, command: SubjectCommand<'a>) -> RuleSubject<'a> {
        self.commands.push(command);
        self
    }

    /// An effect of this call in words.
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
    /// Whether nothing is touched.
    pub fn is_empty(&self) -> bool {
        let SubjectEffects { reads, writes, deletes, hosts } = self;
        reads.is_empty() && writes.is_empty() && deletes.is_empty() && hosts.is_empty()
    }
}

impl<'a> SubjectPath<'a> {
    /// One file whose path leads where it says.
    pub fn at(path: &'a (impl AsRef<Path> + ?Sized)) -> SubjectPath<'a> {
        SubjectPath::linked(path, path)
    }

    /// One file whose path leads elsewhere.
    pub fn linked(
        given: &'a (impl AsRef<Path> + ?Sized),
        real: &'a (impl AsRef<Path> + ?Sized),
    ) -> SubjectPath<'a> {
        let (given, real) = (Cow::Borrowed(given.as_ref()), Cow::Borrowed(real.as_ref()));
        SubjectPath { given, real, extent: RootExtent::File, open: false, partial: false }
    }

    /// What would have to be kept before it is changed.
    pub(crate) fn planned_change(&self) -> PlannedChange<'_> {
        PlannedChange { path: &self.real, extent: self.extent, partial: self.partial }
    }

    /// The folder and everything below it.
    #[must_use]
    pub fn and_below(mut self) -> SubjectPath<'a> {
        self.extent = RootExtent::Subtree;
        self
    }
}

impl<'a> SubjectCommand<'a> {
    /// A command that is what its text says.
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

/// One thing that a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EffectRef {
    /// What is done.
    pub touch: EffectKind,
    /// The command that does it, by its place in [`RuleSubject::commands`].
    pub command: Option<usize>,
    /// The place in the list of what is touched so.
    pub index: usize,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectKind {
    /// The tool is used; the only effect of a call that touches nothing.
    Call,
    /// Anything may happen.
    Anything,
    /// A command is run.
    Runs,
    /// A file or folder is read.
    Reads,
    /// It is created or changed.
    Writes,
    /// It is removed.
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
