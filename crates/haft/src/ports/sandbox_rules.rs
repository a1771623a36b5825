//! What rules and settings keep child processes from, as plain data: [`SandboxRules`].
//!
//! It lies between a policy, which knows rules and no processes, and a sandbox, which knows processes and no
//! rules. A [`RuleSetId`] says which rules a sandbox enforces, and an engine starts no process in the sandbox
//! of another authorizer.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Authorizer, ProcessError, ProcessOutcome, ProcessRequest, Processes};
use crate::files::HiddenPaths;
use crate::future::{BoxFuture, catch_panic};

/// Identifies the rules of an authorizer. Copies are equal, and each [new](RuleSetId::new) one differs from
/// all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSetId(Option<NonZeroU64>);

impl RuleSetId {
    /// Rules that restrict no child process.
    pub(crate) const UNRESTRICTED: RuleSetId = RuleSetId(None);

    /// An id that no other rules have.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> RuleSetId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        RuleSetId(NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

/// The rules that a sandbox enforces. Only an [`Authorizer`] that [says what they are](RestrictProcesses) can
/// make them.
///
/// The configuration of a sandbox can't be made without them, so a host that authorizes calls by rules can't
/// run commands that these rules don't bind. [`Permissions`](crate::PermissionRules) knows no files and hosts
/// and restricts nothing.
///
/// ```compile_fail
/// // What is restricted is no set of rules by itself.
/// let rules = haft::ports::SandboxRules(haft::ports::ProcessRestrictions::none());
/// ```
///
/// ```compile_fail
/// // Nothing can be taken out of it.
/// let mut rules = haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new());
/// rules.unreadable = None;
/// ```
#[derive(Clone, Debug)]
pub struct SandboxRules {
    restrictions: ProcessRestrictions,
    rule_set: Option<RuleSetId>,
}

impl SandboxRules {
    /// What this authorizer restricts, as of now. Only an engine with this authorizer, or with one of the
    /// same [rules](Authorizer::rule_set), starts processes in a sandbox with them.
    pub fn from_authorizer(authorizer: &(impl Authorizer + RestrictProcesses)) -> SandboxRules {
        SandboxRules { restrictions: authorizer.process_restrictions(), rule_set: authorizer.rule_set() }
    }

    /// What a sandbox with these rules says in [`Processes::enforced_rules`].
    pub fn enforced(&self) -> EnforcedRules {
        self.rule_set.map_or(EnforcedRules::Unidentified, EnforcedRules::Of)
    }
}

/// Which rules child processes are held to beside what their requests grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnforcedRules {
    /// None: a child can do what its request grants, or anything.
    None,
    /// These.
    Of(RuleSetId),
    /// Those of an authorizer that doesn't [identify](Authorizer::rule_set) its rules. No engine accepts
    /// them.
    Unidentified,
}

/// These processes, or none if they are held to the rules of another authorizer than the one that decides on
/// calls.
pub(crate) fn bind_processes(
    processes: Arc<dyn Processes>,
    authorizer: &dyn Authorizer,
) -> Arc<dyn Processes> {
    let is_bound = catch_panic(|| match processes.enforced_rules() {
        EnforcedRules::None => true,
        EnforcedRules::Of(rules) => authorizer.rule_set() == Some(rules),
        EnforcedRules::Unidentified => false,
    });
    if is_bound.unwrap_or(false) { processes } else { Arc::new(UnboundProcesses) }
}

/// Stands for a sandbox with the rules of another authorizer. Starts nothing.
struct UnboundProcesses;

const UNBOUND: &str = "it was not started: the sandbox enforces the rules of another authorizer than the one that decides on \
                       calls; make its `SandboxRules` from the authorizer of the engine";

impl Processes for UnboundProcesses {
    fn confines(&self) -> bool {
        false
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, _: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        Box::pin(async { Err(ProcessError { message: UNBOUND.to_owned() }) })
    }
}

impl Deref for SandboxRules {
    type Target = ProcessRestrictions;

    fn deref(&self) -> &ProcessRestrictions {
        &self.restrictions
    }
}

/// Says what the rules of an authorizer keep child processes from. The authorizer also
/// [identifies](Authorizer::rule_set) them.
pub trait RestrictProcesses {
    /// Returns all restrictions, as of now. One that is missing is not enforced for commands.
    fn process_restrictions(&self) -> ProcessRestrictions;
}

/// What child processes are kept from, and the hosts that they may reach.
#[derive(Clone, Debug)]
pub struct ProcessRestrictions {
    /// Says which files no child may read, if a rule speaks of any. Rules that ask count: a child isn't asked
    /// in the middle of its run.
    pub unreadable: Option<HiddenPaths>,
    /// The rules among these that deny, each by where it begins.
    pub denied_reads: Vec<DeniedRead>,
    /// Paths that no child may read, whether they exist or not.
    pub unreadable_paths: Vec<PathBuf>,
    /// Says which files no child may write, if a rule speaks of any.
    pub unwritable: Option<HiddenPaths>,
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
/// use haft::files::HiddenPaths;
/// use haft::ports::DeniedRead;
///
/// let rule = DeniedRead::new("Read(//etc/hosts)", "/etc/hosts", HiddenPaths::new(|path| path.starts_with("/etc/hosts")));
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
    pub covers: HiddenPaths,
}

impl DeniedRead {
    /// A rule for a path and everything below it.
    pub fn new(rule: impl Into<String>, path: impl Into<PathBuf>, covers: HiddenPaths) -> DeniedRead {
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
