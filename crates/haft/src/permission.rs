//! The simple rules: allow, ask and deny by tool name, and a mode.
//!
//! The whole rule language lives in a crate of its own behind the same port. What this one says holds there too:
//! deny before ask before allow, and no allow lifts a deny.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::effects::resolved::ResolvedPath;
use crate::ports::{Answer, Authorizer, Because, Mode, PermissionMode, Request, Ruling};
use crate::sync::lock;
use crate::tool::AnyTool;

/// Rules by tool name, and a mode. Clones share mode and remembered answers.
///
/// ```
/// use haft::{PermissionMode, Permissions};
///
/// let rules = Permissions::new().deny("Bash")?.allow("Write")?.mode(PermissionMode::DontAsk);
/// # Ok::<(), haft::BadRule>(())
/// ```
#[derive(Clone, Default)]
pub struct Permissions {
    allow: BTreeSet<String>,
    ask: BTreeSet<String>,
    deny: BTreeSet<String>,
    live: Arc<Live>,
}

#[derive(Default)]
struct Live {
    /// The place of the mode in [`PermissionMode::ALL`].
    mode: AtomicUsize,
    /// Whether anything was remembered; nearly always not, and every call asks.
    remembers: AtomicBool,
    /// Tools that the user allowed for the session.
    session: Mutex<BTreeSet<String>>,
}

impl Live {
    fn mode(&self) -> PermissionMode {
        PermissionMode::ALL[self.mode.load(Ordering::Acquire)].1
    }

    fn set_mode(&self, mode: PermissionMode) {
        let place = PermissionMode::ALL.iter().position(|(_, known)| *known == mode).unwrap_or_default();
        self.mode.store(place, Ordering::Release);
    }

    fn remembers(&self, name: &str) -> bool {
        self.remembers.load(Ordering::Acquire) && lock(&self.session).contains(name)
    }
}

impl Permissions {
    /// No rules, mode `default`.
    pub fn new() -> Permissions {
        Permissions::default()
    }

    /// Allows a tool.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn allow(mut self, name: impl Into<String>) -> Result<Permissions, BadRule> {
        self.allow.insert(bare(name.into())?);
        Ok(self)
    }

    /// Always asks for a tool.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn ask(mut self, name: impl Into<String>) -> Result<Permissions, BadRule> {
        self.ask.insert(bare(name.into())?);
        Ok(self)
    }

    /// Denies a tool; the model isn't shown it.
    ///
    /// # Errors
    /// Something that isn't the name of a tool.
    pub fn deny(mut self, name: impl Into<String>) -> Result<Permissions, BadRule> {
        self.deny.insert(bare(name.into())?);
        Ok(self)
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(self, mode: PermissionMode) -> Permissions {
        self.live.set_mode(mode);
        self
    }

    /// The names that rules speak of, for a host that wants to warn of unknown ones.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.allow.iter().chain(&self.ask).chain(&self.deny).map(String::as_str)
    }
}

fn bare(rule: String) -> Result<String, BadRule> {
    let plain = rule.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if plain && !rule.is_empty() { Ok(rule) } else { Err(BadRule(rule)) }
}

/// A rule that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRule(String);

impl std::fmt::Display for BadRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a rule; the name of a tool is accepted, for example `Read`", self.0)?;
        if self.0.contains('(') {
            f.write_str(" (rules on arguments, as in `Bash(git log:*)`, are not accepted yet)")?;
        }
        Ok(())
    }
}

impl std::error::Error for BadRule {}

impl Authorizer for Permissions {
    fn judge(&self, request: &Request<'_>) -> Ruling {
        let name = request.tool.name();
        let rule = |list: &BTreeSet<String>, kind: &str| {
            list.contains(name).then(|| Because::by(format!("rule `{name}` (--{kind})")))
        };
        if let Some(because) = rule(&self.deny, "deny") {
            return Ruling::Deny(because);
        }
        if let Some(because) = rule(&self.ask, "ask") {
            return Ruling::Ask(because);
        }
        let mode = self.live.mode();
        if mode == PermissionMode::BypassPermissions {
            return Ruling::Allow(Because::by("mode `bypassPermissions`"));
        }
        // A name covers what lies inside; a path outside wants a yes of its own.
        if request.outside().is_none() {
            if let Some(because) = rule(&self.allow, "allow") {
                return Ruling::Allow(because);
            }
            if self.live.remembers(name) {
                return Ruling::Allow(Because::by("your answer earlier in this session"));
            }
        }
        if mode == PermissionMode::DontAsk { Ruling::SilentDontAsk } else { Ruling::Silent }
    }

    fn hides(&self, tool: &AnyTool) -> Option<Because> {
        self.deny.contains(tool.name()).then(|| Because::by(format!("rule `{}` (--deny)", tool.name())))
    }

    fn remember(&self, request: &Request<'_>, answer: &Answer) {
        if matches!(answer, Answer::Session | Answer::Always) {
            lock(&self.live.session).insert(request.tool.name().to_owned());
            self.live.remembers.store(true, Ordering::Release);
        }
    }

    fn propose(&self, request: &Request<'_>) -> Option<String> {
        match request.outside() {
            Some(path) => Some(format!("--add-dir {}", path.parent().unwrap_or(path).display())),
            None => Some(format!("--allow {}", request.tool.name())),
        }
    }
}

impl Mode for Permissions {
    fn current(&self) -> PermissionMode {
        self.live.mode()
    }

    fn set(&self, mode: PermissionMode) {
        self.live.set_mode(mode);
    }
}

impl Request<'_> {
    /// A path that this call touches outside of the working directories, if there is one.
    pub fn outside(&self) -> Option<&Path> {
        let effects = self.effects;
        let outside = |path: &&ResolvedPath| !self.workspace.contains(&path.at);
        let reads = effects.reads.iter().find(|path| !self.workspace.is_readable(&path.at));
        let changes = effects.writes.iter().chain(&effects.deletes).find(outside);
        reads.or(changes).map(|path| path.at.real.as_path())
    }
}
