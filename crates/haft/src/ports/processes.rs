//! The port to child processes.
//!
//! A request says what to run and what may come of it; whoever implements the port starts it, confines it as
//! far as the host can, and sees to it that nothing is left. Output is bounded twice: so much of it stays in
//! memory, the beginning and the end, and the whole goes to a file of the session's results where the request
//! says so.

use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft_scheduler::Cancel;
use haft_scheduler::sync::lock;

use crate::effects::Effects;
use crate::effects::resolved::ResolvedEffects;
use crate::files::{GrantedAccess, PathTable};
use crate::future::BoxFuture;
use crate::limits;
use crate::ports::{ChildRequests, EnforcedRules};
use crate::results::{OffloadStore, OffloadedFile};

/// Starts child processes, and is the only thing that does.
///
/// A tool calls [`run`](Processes::run) from its own task and awaits the end. When the call is cancelled the
/// future is dropped or the request's `cancel` is raised; either way everything that was started must be gone
/// before the implementation lets go of it.
pub trait Processes: Send + Sync + 'static {
    /// Whether a child can do no more than its request grants. Where it can't be held to that, effects of
    /// commands are not believed, and a tool that [runs in a child](crate::ToolSpec::in_child) asks however
    /// harmless it claims to be.
    fn confines(&self) -> bool;

    /// Which rules children are held to. An engine whose authorizer has others starts nothing here. Called
    /// once, when the engine is built.
    fn enforced_rules(&self) -> EnforcedRules;

    /// Runs one process to its end.
    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>>;

    /// A tool of this process is about to write or remove these paths by itself, as the user or a rule allows
    /// it: what changes there is not the work of a child that runs meanwhile.
    fn begin_writes(&self, paths: &[PathBuf]) {
        let _ = paths;
    }

    /// It no longer does. Called once for each call of [`begin_writes`](Processes::begin_writes), with the
    /// same paths.
    fn end_writes(&self, paths: &[PathBuf]) {
        let _ = paths;
    }

    /// Checks whether a child that nothing confines may reach this host and port, with what `grants` adds to
    /// the session's rules. In a sandbox the session's proxy checks every connection itself. By default no
    /// host may be reached.
    ///
    /// # Errors
    /// The reason, and what would allow it.
    fn check_host<'a>(
        &'a self,
        host: &'a str,
        port: u16,
        grants: &'a [String],
    ) -> BoxFuture<'a, Result<(), String>> {
        let _ = (port, grants);
        let denied = format!("no rule is known that allows `{host}`");
        Box::pin(std::future::ready(Err(denied)))
    }
}

/// Told of output as it comes. Called from a thread of the implementation; a call that blocks holds this
/// child up.
pub type OnOutput = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Told of each line that a child writes to descriptor 3, without its line break.
pub type OnLine = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Given our ends of a child's standard input and output once it has been started: what is written to the
/// first it reads, what it prints comes from the second. Both are pipes that don't block. Dropping the first
/// is the end of its input.
pub type OnPipes = Arc<dyn Fn(OwnedFd, OwnedFd) + Send + Sync>;

/// A process to run.
///
/// ```
/// use haft::ports::ProcessRequest;
/// use std::time::Duration;
///
/// let request = ProcessRequest::new(["sort", "-u"], "/tmp").with_stdin("b\na\n").with_timeout(Duration::from_secs(5));
/// assert_eq!(request.argv, ["sort", "-u"]);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ProcessRequest {
    /// The program and its arguments. A program without a `/` is looked for on the child's `PATH`.
    pub argv: Vec<OsString>,
    /// Whether the program is this one itself, from its open file: `argv[0]` is then only a name.
    pub is_this_program: bool,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it reads; nothing if empty.
    pub stdin: Vec<u8>,
    /// Variables beside those that every child gets.
    pub env: Vec<(OsString, OsString)>,
    /// Names of variables of the host that this child gets as well, whatever they are called.
    pub pass_env: Vec<OsString>,
    /// What it may read and write, and the hosts that it may reach.
    pub access: GrantedAccess,
    /// Hosts that it may be let reach while it runs, for one that outlives the call that started it.
    pub grants: Option<HostGrants>,
    /// Where it is asked whether it may reach a host that it isn't granted. Without it such a host is
    /// refused.
    pub child_requests: Option<ChildRequests>,
    /// How much of the machine it is shown.
    pub confinement: ConfinementLevel,
    /// How much of what is protected it may change all the same.
    pub protection: ProtectionLevel,
    /// Whether its complaints come through the same pipe as its output, in the order in which they were
    /// written.
    pub merged: bool,
    /// How long it may run.
    pub timeout: Duration,
    /// How many bytes of each stream are kept in memory.
    pub output_bytes_max: usize,
    /// Where standard output goes whole, if it is longer.
    pub spill: Option<SpillFile>,
    /// Told of output as it comes.
    pub on_output: Option<OnOutput>,
    /// Told of lines on descriptor 3, which the child has only then.
    pub on_line: Option<OnLine>,
    /// A file that the child has as descriptor 4, for a child that has a descriptor 3.
    pub content: Option<Arc<OwnedFd>>,
    /// Given the child's standard input and output, for a program that is talked to while it runs. Nothing of
    /// its output is kept then, and `on_output` hears only what it complains about.
    pub on_pipes: Option<OnPipes>,
    /// Whether it runs in the background, where others run beside it. It may move there while it runs.
    pub background: BackgroundFlag,
    /// Raised when the call is cancelled.
    pub cancel: Cancel,
}

/// How much of what is protected a child may change all the same.
///
/// The engine carries it and never interprets it: its meaning is agreed between the tool that makes a request
/// and the implementation that confines the child.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectionLevel {
    /// The level. 0 is the strictest one.
    pub number: u8,
    /// The folders that it is for; empty for wherever the child runs.
    pub folders: Vec<PathBuf>,
}

impl ProcessRequest {
    /// This program with these arguments in this folder: nothing to read, nothing granted, ten minutes.
    pub fn new<A: Into<OsString>>(
        argv: impl IntoIterator<Item = A>,
        cwd: impl Into<PathBuf>,
    ) -> ProcessRequest {
        ProcessRequest {
            argv: argv.into_iter().map(Into::into).collect(),
            is_this_program: false,
            cwd: cwd.into(),
            stdin: Vec::new(),
            env: Vec::new(),
            pass_env: Vec::new(),
            access: GrantedAccess::default(),
            grants: None,
            child_requests: None,
            confinement: ConfinementLevel::Session,
            protection: ProtectionLevel::default(),
            merged: false,
            timeout: limits::CALL_TIMEOUT,
            output_bytes_max: limits::PROCESS_OUTPUT_BYTES,
            spill: None,
            on_output: None,
            on_line: None,
            content: None,
            on_pipes: None,
            background: BackgroundFlag::default(),
            cancel: Cancel::new(),
        }
    }

    /// This program again, called by the name `argv[0]`; it is started from its open file, so it is the same
    /// even if the file at its path was replaced.
    pub fn for_this_program<A: Into<OsString>>(
        argv: impl IntoIterator<Item = A>,
        cwd: impl Into<PathBuf>,
    ) -> ProcessRequest {
        ProcessRequest { is_this_program: true, ..ProcessRequest::new(argv, cwd) }
    }

    /// What the child reads.
    #[must_use]
    pub fn with_stdin(mut self, bytes: impl Into<Vec<u8>>) -> ProcessRequest {
        self.stdin = bytes.into();
        self
    }

    /// A variable beside those that every child gets.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> ProcessRequest {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Variables of the host that the child gets as well.
    #[must_use]
    pub fn with_passed_env<N: Into<OsString>>(
        mut self,
        names: impl IntoIterator<Item = N>,
    ) -> ProcessRequest {
        self.pass_env.extend(names.into_iter().map(Into::into));
        self
    }

    /// What the child may read and write, and the hosts that it may reach, with these beside.
    #[must_use]
    pub fn with_access(mut self, access: GrantedAccess, hosts: Vec<String>) -> ProcessRequest {
        self.access = access;
        self.access.hosts.extend(hosts);
        self
    }

    /// Confines the child to the effects that its call declared, as far as they were granted to the call.
    /// `paths` says where the paths of the session lie.
    ///
    /// Effects that aren't known leave it what the session may do. A command that it declares to run may look
    /// around, as commands do.
    #[must_use]
    pub fn with_declared_effects(
        mut self,
        effects: &Effects,
        granted: &GrantedAccess,
        paths: &PathTable,
    ) -> ProcessRequest {
        self.confinement = match effects {
            Effects { unknown: true, .. } => ConfinementLevel::Session,
            Effects { runs, .. } if !runs.is_empty() => ConfinementLevel::ReadOnly,
            _ => ConfinementLevel::Declared,
        };
        self.access = match self.confinement {
            ConfinementLevel::Declared => {
                ResolvedEffects::resolve(Arc::new(effects.clone()), &self.cwd, paths).declared_access(granted)
            }
            _ => granted.clone(),
        };
        self
    }

    /// Who lets the child reach more hosts while it runs, and hears at once what it is refused.
    #[must_use]
    pub fn with_grants(mut self, grants: HostGrants) -> ProcessRequest {
        self.grants = Some(grants);
        self
    }

    /// Where it is asked whether the child may reach a host that it isn't granted: the call's own
    /// ([`ContextPorts::child_requests`](crate::context::ContextPorts::child_requests)).
    #[must_use]
    pub fn with_child_requests(mut self, requests: Option<ChildRequests>) -> ProcessRequest {
        self.child_requests = requests;
        self
    }

    /// How much of the machine the child is shown.
    #[must_use]
    pub fn with_confinement(mut self, confinement: ConfinementLevel) -> ProcessRequest {
        self.confinement = confinement;
        self
    }

    /// How much of what is protected the child may change all the same.
    #[must_use]
    pub fn with_protection(mut self, level: ProtectionLevel) -> ProcessRequest {
        self.protection = level;
        self
    }

    /// Sends what the child complains about down the same pipe as its output: [`ProcessOutcome::stderr`]
    /// stays empty.
    #[must_use]
    pub fn with_merged_output(mut self) -> ProcessRequest {
        self.merged = true;
        self
    }

    /// How long the child may run.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> ProcessRequest {
        self.timeout = timeout;
        self
    }

    /// How many bytes of each stream are kept in memory.
    #[must_use]
    pub fn with_output_bytes_max(mut self, bytes: usize) -> ProcessRequest {
        self.output_bytes_max = bytes;
        self
    }

    /// Where standard output goes whole, if it is longer than what is kept in memory.
    #[must_use]
    pub fn with_spill(mut self, spill: SpillFile) -> ProcessRequest {
        self.spill = Some(spill);
        self
    }

    /// Who is told of output as it comes.
    #[must_use]
    pub fn with_on_output(mut self, on_output: impl Fn(&[u8]) + Send + Sync + 'static) -> ProcessRequest {
        self.on_output = Some(Arc::new(on_output));
        self
    }

    /// Gives the child a descriptor 3, and says who is told of each line on it.
    #[must_use]
    pub fn with_on_line(mut self, on_line: impl Fn(&[u8]) + Send + Sync + 'static) -> ProcessRequest {
        self.on_line = Some(Arc::new(on_line));
        self
    }

    /// Says who talks to the child while it runs, in place of what it would read.
    #[must_use]
    pub fn with_pipes(
        mut self,
        on_pipes: impl Fn(OwnedFd, OwnedFd) + Send + Sync + 'static,
    ) -> ProcessRequest {
        self.on_pipes = Some(Arc::new(on_pipes));
        self
    }

    /// Says whether the child runs in the background, now or later.
    #[must_use]
    pub fn with_background(mut self, background: BackgroundFlag) -> ProcessRequest {
        self.background = background;
        self
    }

    /// What ends the child early.
    #[must_use]
    pub fn with_cancel(mut self, cancel: Cancel) -> ProcessRequest {
        self.cancel = cancel;
        self
    }
}

/// Hosts that a child may reach, to which more are added while it runs, and what it was refused since
/// somebody looked. Clones share it.
///
/// For a program that serves several calls, each with hosts of its own: what one call was granted is there
/// for the program as long as it runs, since nobody can tell which of its requests belongs to which call.
///
/// ```
/// use haft::ports::HostGrants;
///
/// let grants = HostGrants::default();
/// assert!(grants.grant("example.com") && grants.grant("Example.com:8443"));
/// assert_eq!(grants.hosts(), ["example.com", "Example.com:8443"]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct HostGrants(Arc<Mutex<GrantedHosts>>);

#[derive(Debug, Default)]
struct GrantedHosts {
    hosts: Vec<String>,
    refused: Vec<ConfinementRefusal>,
}

impl HostGrants {
    /// Lets the child reach this host too, written as in [`GrantedAccess::hosts`]. False if there are too
    /// many already.
    pub fn grant(&self, host: impl Into<String>) -> bool {
        let (host, mut granted) = (host.into(), self.lock());
        let room = granted.hosts.len() < limits::HOST_GRANTS_MAX;
        if room && !granted.hosts.contains(&host) {
            granted.hosts.push(host);
        }
        room
    }

    /// What was granted.
    pub fn hosts(&self) -> Vec<String> {
        self.lock().hosts.clone()
    }

    /// The child was refused something; said by whoever confines it. Each is kept once, and so many.
    pub fn refused(&self, refusal: ConfinementRefusal) {
        let mut granted = self.lock();
        if granted.refused.len() < limits::HOST_REFUSALS_MAX && !granted.refused.contains(&refusal) {
            granted.refused.push(refusal);
        }
    }

    /// What the child was refused since this was last asked.
    pub fn take_refused(&self) -> Vec<ConfinementRefusal> {
        std::mem::take(&mut self.lock().refused)
    }

    fn lock(&self) -> MutexGuard<'_, GrantedHosts> {
        lock(&self.0)
    }
}

/// Whether a child runs in the background: its call has its answer, and other calls run beside it. Clones
/// share it.
///
/// A child in the background may be held to less, since nobody looks at what it did before others rely on it.
///
/// ```
/// use haft::ports::BackgroundFlag;
///
/// let background = BackgroundFlag::default();
/// assert!(!background.has_begun());
/// background.clone().begin();
/// assert!(background.has_begun());
/// ```
#[derive(Clone, Default)]
pub struct BackgroundFlag(Arc<Mutex<BackgroundState>>);

#[derive(Default)]
struct BackgroundState {
    begun: bool,
    told: Option<Box<dyn FnOnce() + Send>>,
}

impl BackgroundFlag {
    /// From now on it does. Whoever [waits](BackgroundFlag::on_begin) for that is told; a second time is
    /// nothing.
    pub fn begin(&self) {
        let told = {
            let mut moved = self.lock();
            moved.begun = true;
            moved.told.take()
        };
        if let Some(told) = told {
            told();
        }
    }

    /// Whether it does.
    pub fn has_begun(&self) -> bool {
        self.lock().begun
    }

    /// Says who is told once it does, in place of who was to be told before: at once, if it does already.
    pub fn on_begin(&self, told: impl FnOnce() + Send + 'static) {
        let mut moved = self.lock();
        if !moved.begun {
            moved.told = Some(Box::new(told));
            return;
        }
        drop(moved);
        told();
    }

    fn lock(&self) -> MutexGuard<'_, BackgroundState> {
        lock(&self.0)
    }
}

impl fmt::Debug for BackgroundFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background").field("begun", &self.has_begun()).finish()
    }
}

/// How much of the machine a child is shown, where the host can confine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConfinementLevel {
    /// It sees the system, tool chains, and what the request grants; also of the working directories nothing
    /// else. It can change nothing but that and a temporary folder of its own, and reach no host but those
    /// that the request grants: for programs that declare what they touch.
    Declared,
    /// It may look around where the session works. It can change nothing but a temporary folder of its own
    /// and what the request grants, and reach no host but those that it grants: for commands that only look.
    ReadOnly,
    /// What the session may touch, and beyond it what the request grants.
    #[default]
    Session,
    /// Everything that the user can do: for what the user set up for themselves, outside of any workspace.
    Outside,
}

/// A place for output that is too long for memory: a new file among the session's results.
#[derive(Clone)]
pub struct SpillFile {
    /// Where the file is made.
    pub store: Arc<OffloadStore>,
    /// What the file is named after, for example the tool.
    pub name: String,
    /// How many bytes the file may have; what comes after is read and dropped.
    pub bytes_max: u64,
}

impl SpillFile {
    /// A file of this store, of at most [`limits::SPILL_BYTES_MAX`] bytes.
    pub fn new(store: Arc<OffloadStore>, name: impl Into<String>) -> SpillFile {
        SpillFile { store, name: name.into(), bytes_max: limits::SPILL_BYTES_MAX }
    }
}

/// How a process ended, and what it printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessOutcome {
    /// How it ended.
    pub exit: ProcessExit,
    /// What it printed.
    pub stdout: CapturedOutput,
    /// What it complained about.
    pub stderr: CapturedOutput,
    /// What it was kept from, as far as that is known.
    pub refused: Vec<ConfinementRefusal>,
    /// What of it was killed and was still there when it was given up, by its numbers: the kernel holds it,
    /// or it belongs to another user. Nobody waits for that any longer.
    pub held: Vec<u32>,
}

/// Something that a confined child tried and was kept from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConfinementRefusal {
    /// It wanted to reach this host. Known for certain.
    Host {
        /// The name that it asked for.
        host: String,
        /// The port, where it came so far.
        port: Option<u16>,
        /// Why not, in words for the model.
        why: String,
        /// Whether granting it to the call would let it through: not where a rule denies it, or its address
        /// is the reason.
        grantable: bool,
    },
    /// It was let through to this host, and there was no connection: its name has no address, or nobody
    /// answers. Known for certain, and no grant changes it.
    Unreached {
        /// The name that it asked for.
        host: String,
        /// The port.
        port: u16,
        /// Why not, in words for the model.
        why: String,
    },
    /// It seems to have wanted to read or to write here. A child can hide that or make it up.
    Path {
        /// Where.
        path: PathBuf,
        /// Whether it would have changed something.
        write: bool,
    },
    /// Its words say that it could not change these. A child can hide that or make it up, so this is a reason
    /// to explain and to offer nothing.
    Held {
        /// What.
        paths: Vec<PathBuf>,
        /// What is in the way and what would allow it, in words for the model.
        why: String,
    },
    /// Its words say that it could not start a program which is installed in a folder that it doesn't see. A
    /// child can make that up.
    Unseen {
        /// The folder.
        folder: PathBuf,
        /// Which program, and what would allow it, in words for the model.
        why: String,
    },
    /// This changed while it ran, and no command may change it. It isn't known that it was this one.
    Changed {
        /// What.
        path: PathBuf,
        /// Who it may have been and what was done about it, in words for the user.
        done: String,
    },
    /// It changed what it may not change, and that was undone or is to be looked at.
    Protected {
        /// What.
        path: PathBuf,
        /// What was done about it, in words for the user.
        done: String,
    },
}

/// What came through one pipe: all of it, or its beginning and its end.
///
/// ```
/// use haft::ports::CapturedOutput;
///
/// assert_eq!(CapturedOutput::cut(b"hello".to_vec(), 5).whole(), Some(&b"hello"[..]));
/// let cut = CapturedOutput::cut(b"hello world".to_vec(), 6);
/// assert_eq!((cut.whole(), &*cut.head, &*cut.tail, cut.total_bytes), (None, &b"hel"[..], &b"rld"[..], 11));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CapturedOutput {
    /// All of it if it fit, else the beginning.
    pub head: Vec<u8>,
    /// The end of what didn't fit.
    pub tail: Vec<u8>,
    /// How much came in all.
    pub total_bytes: u64,
    /// The file that holds all of it, if it didn't fit and the request wanted one.
    pub kept: Option<OffloadedFile>,
    /// Why there is no such file although one was wanted.
    pub not_kept: Option<String>,
}

impl CapturedOutput {
    /// Of these bytes what fits into `bytes_max`.
    pub fn cut(mut bytes: Vec<u8>, bytes_max: usize) -> CapturedOutput {
        let total_bytes = bytes.len() as u64;
        let mut tail = Vec::new();
        if bytes.len() > bytes_max {
            tail = bytes.split_off(bytes.len() - bytes_max / 2);
            bytes.truncate(bytes_max - bytes_max / 2);
        }
        CapturedOutput { head: bytes, tail, total_bytes, ..CapturedOutput::default() }
    }

    /// All of it, if it fit.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.head.len() as u64 == self.total_bytes).then_some(&self.head)
    }

    /// Beginning and end as text; what is not UTF-8 is replaced, and characters that were cut in two are left
    /// out.
    pub fn to_text(&self) -> (String, String) {
        if self.whole().is_some() {
            return (String::from_utf8_lossy(&self.head).into_owned(), String::new());
        }
        let head = match std::str::from_utf8(&self.head) {
            // An unfinished character at the end, not a wrong one.
            Err(error) if error.error_len().is_none() => &self.head[..error.valid_up_to()],
            _ => &self.head,
        };
        let continues = |byte: &&u8| **byte & 0xC0 == 0x80;
        let unfinished = self.tail.iter().take(3).take_while(continues).count();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(head), text(&self.tail[unfinished..]))
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By us, because its time was over.
    TimedOut,
    /// By us, because the call was cancelled.
    Cancelled,
    /// By us, because of what it did.
    Killed(KillReason),
}

/// Why a process was killed by us.
///
/// ```
/// use haft::ports::KillReason;
///
/// assert_eq!(KillReason::TempTooLarge.to_string(), "the session's `/tmp` became too large");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KillReason {
    /// It changed protected files, and not for the first time.
    ProtectedFiles,
    /// It changed protected files, and the user stopped it.
    StoppedByUser,
    /// The session's temporary folder became too large.
    TempTooLarge,
}

impl fmt::Display for KillReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            KillReason::ProtectedFiles => "it changed protected files again, after that was undone",
            KillReason::StoppedByUser => "the user stopped it because it changed protected files",
            KillReason::TempTooLarge => "the session's `/tmp` became too large",
        })
    }
}

/// The name of a signal that people meet, in parentheses after a space; empty for others.
pub fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL, as when memory runs out)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        _ => "",
    }
}

/// A process that could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessError {
    /// What was wrong, and what can be done.
    pub message: String,
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProcessError {}
