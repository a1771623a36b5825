//! What rules and settings keep child processes from, as plain data: [`SandboxRules`].
//!
//! It lies between a policy, which knows rules and no processes, and a sandbox, which knows processes and no rules.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;

use super::Authorizer;
use crate::files::Hidden;

/// The rules that a sandbox enforces. Only an [`Authorizer`] that [says what they are](RestrictProcesses) can make them.
///
/// The configuration of a sandbox can't be made without them, so a host that authorizes calls by rules can't run commands
/// that these rules don't bind. [`Permissions`](crate::Permissions) knows no files and hosts and restricts nothing.
///
/// ```compile_fail
/// // What is restricted is no set of rules by itself.
/// let rules = haft::ports::SandboxRules(haft::ports::ProcessRestrictions::none());
/// ```
///
/// ```compile_fail
/// // Nothing can be taken out of it.
/// let mut rules = haft::ports::SandboxRules::from_authorizer(&haft::Permissions::new());
/// rules.unreadable = None;
/// ```
#[derive(Clone, Debug)]
pub struct SandboxRules(ProcessRestrictions);

impl SandboxRules {
    /// What this authorizer restricts, as of now.
    pub fn from_authorizer(authorizer: &(impl Authorizer + RestrictProcesses)) -> SandboxRules {
        SandboxRules(authorizer.process_restrictions())
    }
}

impl Deref for SandboxRules {
    type Target = ProcessRestrictions;

    fn deref(&self) -> &ProcessRestrictions {
        &self.0
    }
}

/// Says what the rules of an authorizer keep child processes from.
pub trait RestrictProcesses {
    /// Returns all restrictions, as of now. One that is missing is not enforced for commands.
    fn process_restrictions(&self) -> ProcessRestrictions;
}

/// What child processes are kept from, and the hosts that they may reach.
#[derive(Clone, Debug)]
pub struct ProcessRestrictions {
    /// Says which files no child may read, if a rule speaks of any. Rules that ask count: a child isn't asked in the
    /// middle of its run.
    pub unreadable: Option<Hidden>,
    /// The rules among these that deny, each by where it begins.
    pub denied_reads: Vec<DeniedRead>,
    /// Paths that no child may read, whether they exist or not.
    pub unreadable_paths: Vec<PathBuf>,
    /// Says which files no child may write, if a rule speaks of any.
    pub unwritable: Option<Hidden>,
    /// Paths that no child may write, whether they exist or not.
    pub unwritable_paths: Vec<PathBuf>,
    /// Hosts that children may reach.
    pub allowed_hosts: Vec<HostPattern>,
    /// Hosts that only an answer opens.
    pub asked_hosts: Vec<HostPattern>,
    /// Hosts that nothing opens.
    pub denied_hosts: Vec<HostPattern>,
    /// Environment variables that no child gets.
    pub hidden_variables: Vec<OsString>,
}

impl ProcessRestrictions {
    /// No restrictions, and no host is allowed.
    pub fn none() -> ProcessRestrictions {
        ProcessRestrictions {
            unreadable: None,
            denied_reads: Vec::new(),
            unreadable_paths: Vec::new(),
            unwritable: None,
            unwritable_paths: Vec::new(),
            allowed_hosts: Vec::new(),
            asked_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            hidden_variables: Vec::new(),
        }
    }
}

/// A rule that denies reading, by where it begins.
///
/// ```
/// use haft::files::Hidden;
/// use haft::ports::DeniedRead;
///
/// let rule = DeniedRead::new("Read(//etc/hosts)", "/etc/hosts", Hidden::new(|path| path.starts_with("/etc/hosts")));
/// assert!(rule.whole);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeniedRead {
    /// The rule as it is written.
    pub rule: String,
    /// What it names before its first wildcard.
    pub path: PathBuf,
    /// It is for all of that, with everything below; otherwise for some of what lies there.
    pub whole: bool,
    /// Says what this rule, by itself, is for.
    pub covers: Hidden,
}

impl DeniedRead {
    /// A rule for a path and everything below it.
    pub fn new(rule: impl Into<String>, path: impl Into<PathBuf>, covers: Hidden) -> DeniedRead {
        DeniedRead { rule: rule.into(), path: path.into(), whole: true, covers }
    }

    /// The same for a pattern that begins there.
    #[must_use]
    pub fn with_pattern(mut self) -> DeniedRead {
        self.whole = false;
        self
    }
}

/// Hosts that a rule or a setting names, such as `*.example.com` or `localhost:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// The hosts, as they are written.
    pub pattern: String,
    /// The rule or the place in a settings file, for messages.
    pub origin: String,
}
