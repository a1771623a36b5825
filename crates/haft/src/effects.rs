//! What a call will touch: the one declaration that dispatcher, rules, sandbox, display and journal read.
//!
//! A tool answers one question about one parsed input with an [`Effects`] value. Everything else is derived,
//! by the one table in [`table`]: whether the call may run beside others, whether it asks, whether it
//! destroys, whether it may be run again after a crash. A tool never answers those by itself; it can only be
//! stricter.
//!
//! [`Effects::default`] is *unknown*, the strictest value; [`Effects::none`] has to be said.

pub mod resolved;
pub mod table;
pub mod template;

pub(crate) mod conflict;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::files::RootExtent;

/// What one call will touch.
///
/// Build it from the constructors and [`Effects::and`]:
///
/// ```
/// use haft::Effects;
///
/// let copy = Effects::reads("a.txt").and(Effects::writes("b.txt"));
/// assert!(!copy.unknown);
/// assert!(Effects::default().unknown, "nothing said is nothing promised");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Effects {
    /// Files and folders that are read.
    pub reads: Vec<PathSet>,
    /// Files and folders that are created or changed.
    pub writes: Vec<PathSet>,
    /// Files and folders that are removed.
    pub deletes: Vec<PathSet>,
    /// Commands that are run.
    pub runs: Vec<CommandEffect>,
    /// Hosts that are reached.
    pub reaches: Vec<HostEffect>,
    /// Named state that is read or changed, for example `session:tasks` or `browser`.
    pub state: Vec<ResourceEffect>,
    /// Starts calls that are judged one by one, as a sub-agent does.
    pub delegates: bool,
    /// Needs an answer from the user.
    pub asks_user: bool,
    /// Running it twice is the same as running it once.
    pub repeatable: bool,
    /// Anything may happen. All other fields are then only hints.
    pub unknown: bool,
    /// What the tool says beyond the table.
    pub claims: EffectClaims,
}

/// A path and how much below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PathSet {
    /// As the tool was given it; relative to the working directory if not absolute.
    pub path: PathBuf,
    /// Only this file, or everything below this folder.
    pub extent: RootExtent,
    /// Which of the files below are meant is known only when it runs: `*.o`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A command that a call runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandEffect {
    /// The command as text.
    pub text: String,
    /// What the command will touch, as far as its text was understood.
    pub effects: Option<Box<Effects>>,
}

/// A host that a call reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostEffect {
    /// Host name or address, without scheme and port.
    pub host: String,
    /// Whether it only looks.
    pub access: AccessKind,
}

/// The [resource](ResourceEffect::resource) that tools change which add or remove worktrees of the
/// repository.
pub const WORKTREES: &str = "git:worktrees";

/// A named resource that a call uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResourceEffect {
    /// For example `session:tasks`.
    pub resource: Cow<'static, str>,
    /// Whether it only looks.
    pub access: AccessKind,
}

/// What it is, for people: resources of sessions in words, others by their names.
impl fmt::Display for ResourceEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match &*self.resource {
            "browser" => "the browser",
            WORKTREES => "the worktrees of the repository",
            "kept:cron" => "what is planned for later sessions",
            "session:agents" => "what an agent is told",
            "session:background" => "background tasks",
            "session:calls" => "the calls of the session",
            "session:cron" => "what is planned in this session",
            "session:grants" => "what runs without being asked about",
            "session:mode" => "the permission mode",
            "session:settings" => "the settings",
            "session:tasks" => "the task list",
            "session:tools" => "the tools of the session",
            "session:workspace" => "where the session works",
            other => {
                return match other.strip_prefix("mcp:") {
                    Some(server) => write!(f, "the MCP server `{server}`"),
                    None => f.write_str(other),
                };
            }
        };
        f.write_str(words)
    }
}

/// Looks, or changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// Leaves everything as it was.
    Observe,
    /// May change something.
    Change,
}

/// What a tool says about a call beyond the table: stricter answers, and concurrency safety for writes that
/// the tool synchronises itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EffectClaims {
    /// Overrides [`EffectClass::read_only`](table::EffectClass::read_only).
    pub read_only: Option<bool>,
    /// True makes [`EffectClass::destructive`](table::EffectClass::destructive) true. False leaves it as it
    /// is, and only takes the mark from the question that a person is asked; see [`Effects::recoverable`].
    pub destructive: Option<bool>,
    /// Overrides [`EffectClass::concurrency_safe`](table::EffectClass::concurrency_safe).
    pub concurrency_safe: Option<bool>,
}

/// Nothing was declared, so anything may happen: alone, only after asking, destructive, never run again.
impl Default for Effects {
    fn default() -> Effects {
        Effects { unknown: true, ..Effects::none() }
    }
}

impl Effects {
    /// Touches nothing, explicitly.
    pub fn none() -> Effects {
        Effects {
            reads: Vec::new(),
            writes: Vec::new(),
            deletes: Vec::new(),
            runs: Vec::new(),
            reaches: Vec::new(),
            state: Vec::new(),
            delegates: false,
            asks_user: false,
            repeatable: false,
            unknown: false,
            claims: EffectClaims::default(),
        }
    }

    /// Anything may happen; the same as [`Effects::default`].
    pub fn unknown() -> Effects {
        Effects::default()
    }

    /// Reads one file.
    pub fn reads(path: impl Into<PathBuf>) -> Effects {
        Effects { reads: vec![PathSet::file(path)], ..Effects::none() }
    }

    /// Reads a folder and everything below it.
    pub fn reads_tree(path: impl Into<PathBuf>) -> Effects {
        Effects { reads: vec![PathSet::subtree(path)], ..Effects::none() }
    }

    /// Creates or changes one file.
    pub fn writes(path: impl Into<PathBuf>) -> Effects {
        Effects { writes: vec![PathSet::file(path)], ..Effects::none() }
    }

    /// Creates or changes anything below a folder.
    pub fn writes_tree(path: impl Into<PathBuf>) -> Effects {
        Effects { writes: vec![PathSet::subtree(path)], ..Effects::none() }
    }

    /// Removes one file.
    pub fn deletes(path: impl Into<PathBuf>) -> Effects {
        Effects { deletes: vec![PathSet::file(path)], ..Effects::none() }
    }

    /// Removes a folder with everything below it.
    pub fn deletes_tree(path: impl Into<PathBuf>) -> Effects {
        Effects { deletes: vec![PathSet::subtree(path)], ..Effects::none() }
    }

    /// Runs a command of which nothing more is known.
    pub fn runs(text: impl Into<String>) -> Effects {
        Effects { runs: vec![CommandEffect { text: text.into(), effects: None }], ..Effects::none() }
    }

    /// Looks something up at a host.
    pub fn observes(host: impl Into<String>) -> Effects {
        Effects {
            reaches: vec![HostEffect { host: host.into(), access: AccessKind::Observe }],
            ..Effects::none()
        }
    }

    /// Changes something at a host.
    pub fn changes(host: impl Into<String>) -> Effects {
        Effects {
            reaches: vec![HostEffect { host: host.into(), access: AccessKind::Change }],
            ..Effects::none()
        }
    }

    /// Reads named state.
    pub fn reads_state(resource: impl Into<Cow<'static, str>>) -> Effects {
        Effects {
            state: vec![ResourceEffect { resource: resource.into(), access: AccessKind::Observe }],
            ..Effects::none()
        }
    }

    /// Changes named state.
    pub fn writes_state(resource: impl Into<Cow<'static, str>>) -> Effects {
        Effects {
            state: vec![ResourceEffect { resource: resource.into(), access: AccessKind::Change }],
            ..Effects::none()
        }
    }

    /// Starts calls that are judged one by one.
    pub fn delegates() -> Effects {
        Effects { delegates: true, ..Effects::none() }
    }

    /// Needs an answer from the user.
    pub fn asks_user() -> Effects {
        Effects { asks_user: true, ..Effects::none() }
    }

    /// Both of these. Unknown stays unknown, and the result is repeatable only if both are.
    #[must_use]
    pub fn and(mut self, other: Effects) -> Effects {
        let nothing = Effects::is_none;
        self.repeatable = (self.repeatable || nothing(&self)) && (other.repeatable || nothing(&other));
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.deletes.extend(other.deletes);
        self.runs.extend(other.runs);
        self.reaches.extend(other.reaches);
        self.state.extend(other.state);
        self.delegates |= other.delegates;
        self.asks_user |= other.asks_user;
        self.unknown |= other.unknown;
        // Of two claims the stricter one holds.
        let either = |mine: Option<bool>, theirs: Option<bool>, strict: bool| {
            if mine == Some(strict) { mine } else { theirs.or(mine) }
        };
        self.claims = EffectClaims {
            read_only: either(self.claims.read_only, other.claims.read_only, false),
            destructive: either(self.claims.destructive, other.claims.destructive, true),
            concurrency_safe: either(self.claims.concurrency_safe, other.claims.concurrency_safe, false),
        };
        self
    }

    /// Running it twice is the same as running it once, so a crash may be answered by running it again.
    #[must_use]
    pub fn repeatable(mut self) -> Effects {
        self.repeatable = true;
        self
    }

    /// Claims that the call destroys something, whatever the table says.
    #[must_use]
    pub fn destructive(mut self) -> Effects {
        self.claims.destructive = Some(true);
        self
    }

    /// Claims that whatever the call overwrites can be brought back from the call itself, as an edit that
    /// names the old text can: a person who is asked isn't warned of it. Rules, modes and the table judge it
    /// as before.
    #[must_use]
    pub fn recoverable(mut self) -> Effects {
        self.claims.destructive = Some(false);
        self
    }

    /// Whether a person should be warned, where something is destroyed.
    pub fn needs_warning(&self) -> bool {
        self.claims.destructive != Some(false) || self.consistent().is_err()
    }

    /// Claims that the call must run alone, whatever the table says.
    #[must_use]
    pub fn exclusive(mut self) -> Effects {
        self.claims.concurrency_safe = Some(false);
        self
    }

    /// Claims that the tool synchronises its own writes, so that its calls may run beside others.
    #[must_use]
    pub fn synchronised(mut self) -> Effects {
        self.claims.concurrency_safe = Some(true);
        self
    }

    /// Refuses claims that contradict what is declared.
    ///
    /// # Errors
    /// Read-only beside a write; not destructive beside a removal; safe beside others although anything may
    /// happen.
    pub fn consistent(&self) -> Result<(), ClaimContradiction> {
        let (changes, removes, anything) =
            (self.changes_something(), self.removes_something(), self.is_open());
        match self.claims {
            EffectClaims { read_only: Some(true), .. } if changes || anything => {
                Err(ClaimContradiction("claims to be read-only and declares a change"))
            }
            EffectClaims { destructive: Some(false), .. } if removes || anything => {
                Err(ClaimContradiction("claims to destroy nothing and declares a removal"))
            }
            EffectClaims { concurrency_safe: Some(true), .. } if anything || self.asks_user => Err(
                ClaimContradiction("claims to be safe beside others and declares that anything may happen"),
            ),
            _ => Ok(()),
        }
    }

    /// These effects, and those of the commands that they run as far as they were understood.
    fn with_commands(&self) -> impl Iterator<Item = &Effects> {
        let mut waiting = vec![self];
        std::iter::from_fn(move || {
            let effects = waiting.pop()?;
            waiting.extend(effects.runs.iter().filter_map(|command| command.effects.as_deref()));
            Some(effects)
        })
    }

    fn changes_something(&self) -> bool {
        self.with_commands().any(|effects| {
            !effects.writes.is_empty() || effects.state.iter().any(|state| state.access == AccessKind::Change)
        }) || self.removes_something()
    }

    fn removes_something(&self) -> bool {
        self.with_commands().any(|effects| {
            !effects.deletes.is_empty()
                || effects.reaches.iter().any(|reach| reach.access == AccessKind::Change)
        })
    }

    /// Whether anything may happen.
    fn is_open(&self) -> bool {
        let open = |effects: &Effects| {
            effects.unknown || effects.runs.iter().any(|command| command.effects.is_none())
        };
        self.with_commands().any(open)
    }

    /// Whether this is [`Effects::none`].
    pub fn is_none(&self) -> bool {
        !self.has_paths()
            && self.runs.is_empty()
            && self.reaches.is_empty()
            && self.state.is_empty()
            && !(self.delegates || self.asks_user || self.repeatable || self.unknown)
            && self.claims == EffectClaims::default()
    }

    /// Whether any path is named, so that resolving is worth a look at the disk.
    pub fn has_paths(&self) -> bool {
        !(self.reads.is_empty() && self.writes.is_empty() && self.deletes.is_empty())
    }

    /// Whether this can change anything at all.
    pub fn has_side_effects(&self) -> bool {
        self.judge(&table::EffectFacts::unresolved()).class != table::ConcurrencyClass::ReadOnly
    }
}

impl PathSet {
    /// Exactly this file.
    pub fn file(path: impl Into<PathBuf>) -> PathSet {
        PathSet { path: path.into(), extent: RootExtent::File, partial: false }
    }

    /// This folder and everything below it.
    pub fn subtree(path: impl Into<PathBuf>) -> PathSet {
        PathSet { path: path.into(), extent: RootExtent::Subtree, partial: false }
    }

    /// Some of what is beneath a folder.
    pub fn part_of(path: impl Into<PathBuf>) -> PathSet {
        PathSet { partial: true, ..PathSet::subtree(path) }
    }
}

/// A claim that its own declaration refutes. Such effects count as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimContradiction(&'static str);

impl fmt::Display for ClaimContradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ClaimContradiction {}

/// What is touched, in a few words for a person: `reads src/lib.rs · reaches example.com`.
impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = |verb: &str, sets: &[PathSet]| {
            (!sets.is_empty()).then(|| {
                let names: Vec<_> = sets.iter().take(4).map(|set| set.path.display().to_string()).collect();
                let more =
                    if sets.len() > 4 { format!(" and {} more", sets.len() - 4) } else { String::new() };
                format!("{verb} {}{more}", names.join(", "))
            })
        };
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.unknown.then(|| "may touch anything".to_owned()));
        parts.extend(paths("reads", &self.reads));
        parts.extend(paths("writes", &self.writes));
        parts.extend(paths("deletes", &self.deletes));
        parts.extend(self.runs.iter().map(|command| format!("runs {}", command.text)));
        parts.extend(self.reaches.iter().take(4).map(|reach| match reach.access {
            AccessKind::Observe => format!("reaches {}", reach.host),
            AccessKind::Change => format!("changes {}", reach.host),
        }));
        if self.reaches.len() > 4 {
            parts.push(format!("reaches {} more hosts", self.reaches.len() - 4));
        }
        parts.extend(self.state.iter().map(|state| match state.access {
            AccessKind::Observe => format!("looks at {state}"),
            AccessKind::Change => format!("changes {state}"),
        }));
        parts.extend(self.delegates.then(|| "starts calls that are judged one by one".to_owned()));
        parts.extend(self.asks_user.then(|| "asks you".to_owned()));
        if parts.is_empty() {
            parts.push("touches nothing".to_owned());
        }
        f.write_str(&parts.join(" · "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_the_default_and_none_is_said() {
        assert!(Effects::default().unknown);
        assert!(!Effects::none().unknown);
        assert!(Effects::none().and(Effects::default()).unknown, "unknown stays");
    }

    #[test]
    fn repeatable_needs_both() {
        assert!(Effects::none().and(Effects::writes("a").repeatable()).repeatable);
        assert!(!Effects::writes("b").and(Effects::writes("a").repeatable()).repeatable);
    }

    #[test]
    fn of_two_claims_the_stricter_holds() {
        let both = |a: Effects, b: Effects| (a.clone().and(b.clone()).claims, b.and(a).claims);
        let (one, other) = both(Effects::writes("a").synchronised(), Effects::reads("b").exclusive());
        assert_eq!((one.concurrency_safe, other.concurrency_safe), (Some(false), Some(false)));
        let (one, other) = both(Effects::writes("a").destructive(), Effects::reads("b"));
        assert_eq!((one.destructive, other.destructive), (Some(true), Some(true)));
    }

    #[test]
    fn contradictions_are_refused_and_stricter_claims_are_not() {
        let mut lie = Effects::writes("a");
        lie.claims.read_only = Some(true);
        assert!(lie.consistent().is_err());
        let mut harmless = Effects::deletes("a");
        harmless.claims.destructive = Some(false);
        assert!(harmless.consistent().is_err());
        assert!(Effects::unknown().synchronised().consistent().is_err());
        assert!(Effects::writes("a").synchronised().consistent().is_ok());
        assert!(Effects::reads("a").exclusive().destructive().consistent().is_ok());
        let hidden = CommandEffect { text: "x".into(), effects: Some(Box::new(Effects::unknown())) };
        let hidden = Effects { runs: vec![hidden], ..Effects::none() };
        assert!(hidden.synchronised().consistent().is_err(), "what a command does counts too");
    }

    #[test]
    fn shown_in_a_few_words() {
        let effects =
            Effects::reads("a").and(Effects::changes("x.io")).and(Effects::writes_state("session:tasks"));
        assert_eq!(effects.to_string(), "reads a · changes x.io · changes the task list");
        assert_eq!(Effects::none().to_string(), "touches nothing");
    }
}
