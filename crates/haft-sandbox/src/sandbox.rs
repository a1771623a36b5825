//! Processes that can do what their request grants and no more.
//!
//! Puts three things together and decides little: a profile says what a child sees ([`Scenes`]), a gate which hosts it may
//! reach ([`Gate`]), and the helper makes it so. What is to run outside goes the way of [`LocalProcesses`].

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use haft::BoxFuture;
use haft::ports::{Confinement, ProcessError, ProcessOutcome, ProcessRequest, Processes, Refusal};

use crate::bare;
use crate::confined::{Helper, HelperProgram};
use crate::init::Walls;
use crate::local::LocalProcesses;
use crate::pool::Pool;
use crate::scene::Scene;
use crate::wire::Job;
use crate::{environment, watch};

/// What children see, and what is looked at when one has ended.
pub(crate) trait Scenes: Send + Sync {
    /// What this child sees.
    ///
    /// # Errors
    /// Why it can't be run, in words.
    fn scene(&self, request: &ProcessRequest) -> Result<Scene, String>;

    /// What it was kept from, or changed although it may not.
    fn finished(&self, request: &ProcessRequest) -> Vec<Refusal>;
}

/// The way to hosts.
pub(crate) trait Gate: Send + Sync {
    /// Lets this child reach the hosts of its request, until the ticket is dropped.
    fn admit(&self, request: &ProcessRequest) -> Box<dyn Ticket>;
}

/// One child's leave to reach hosts.
pub(crate) trait Ticket: Send {
    /// Variables that show the child the way.
    fn env(&self) -> Vec<(OsString, OsString)>;

    /// Where it wanted to go and may not.
    fn refusals(&self) -> Vec<Refusal>;
}

/// How much of a sandbox this machine can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stack {
    /// Namespaces, mounts, Landlock and a filter of system calls.
    Full,
    /// Landlock and a filter: reads are limited, but no names are protected, no hosts can be granted, and what a killed
    /// host leaves behind may live on.
    Fallback,
    /// None.
    None,
}

/// Why there is no sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What the machine refused, and what can be done.
    pub message: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Unavailable {}

/// Processes in a sandbox.
///
/// One helper process makes a sandbox for each child; see the [crate's](crate) documentation. Dropping this ends
/// everything that still runs.
pub struct Sandbox {
    // In this order: children end before the helper, which would kill them without asking.
    pool: Pool,
    outside: LocalProcesses,
    inner: Arc<Inner>,
}

struct Inner {
    helper: Helper,
    scenes: Arc<dyn Scenes>,
    gate: Option<Arc<dyn Gate>>,
    variables: Arc<[(OsString, OsString)]>,
}

/// A helper that waits for orders, and the sockets of the session's network.
pub(crate) struct Ready {
    pub(crate) helper: Helper,
    /// Proxy, name server by UDP, by TCP, and the ports that were asked for; none in the fallback.
    pub(crate) listeners: VecDeque<OwnedFd>,
}

/// Starts the helper with as many walls as the machine has, but no fewer than `least`.
///
/// # Errors
/// What the machine refuses, and what can be done.
pub(crate) fn ready(program: &HelperProgram, least: Stack, ports: &[u16]) -> Result<Ready, Unavailable> {
    let why_not_full = match Helper::start(program, Walls::Namespaces, ports) {
        Ok(mut helper) => {
            let listeners = helper.take_listeners();
            return Ok(Ready { helper, listeners });
        }
        Err(words) => words,
    };
    if least == Stack::Full {
        return Err(unavailable(&why_not_full));
    }
    if crate::sys::landlock_abi().is_none() {
        return Err(unavailable(&format!("{why_not_full}; and this kernel has no Landlock")));
    }
    match Helper::start(program, Walls::Bare, &[]) {
        Ok(helper) => Ok(Ready { helper, listeners: VecDeque::new() }),
        Err(words) => Err(unavailable(&words)),
    }
}

fn unavailable(why: &str) -> Unavailable {
    let message = format!(
        "no sandbox can be made: {why}; `haft doctor` says what is missing, and `--no-sandbox` runs commands without one"
    );
    Unavailable { message }
}

impl Sandbox {
    pub(crate) fn of(
        helper: Helper,
        scenes: Arc<dyn Scenes>,
        gate: Option<Arc<dyn Gate>>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Sandbox {
        let variables: Arc<[(OsString, OsString)]> = variables.into_iter().collect();
        let outside = LocalProcesses::new(variables.iter().cloned());
        Sandbox { pool: Pool::default(), outside, inner: Arc::new(Inner { helper, scenes, gate, variables }) }
    }

    /// What the sandbox is made of.
    pub fn stack(&self) -> Stack {
        match self.inner.helper.walls() {
            Walls::Namespaces => Stack::Full,
            Walls::Bare => Stack::Fallback,
        }
    }

    /// How many children there are, those included that are about to end.
    pub fn running(&self) -> usize {
        self.pool.running() + self.outside.running()
    }

    /// Ends every child and starts no more. Waits until they are gone, for at most a few seconds; to be called before the
    /// program ends, which would end the threads that do this.
    pub fn shutdown(&self) {
        self.pool.shutdown();
        self.outside.shutdown();
    }
}

impl Processes for Sandbox {
    fn confines(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        if request.confinement == Confinement::Outside {
            return self.outside.run(request);
        }
        let inner = self.inner.clone();
        Box::pin(self.pool.run(request, move |request, orders| {
            let ticket = inner.gate.as_ref().map(|gate| gate.admit(request));
            let begun = |own: &[BorrowedFd<'_>]| inner.begin(request, ticket.as_deref(), own);
            let mut outcome = watch::run(request, orders, begun)?;
            outcome.refused.extend(ticket.iter().flat_map(|ticket| ticket.refusals()));
            outcome.refused.extend(inner.scenes.finished(request));
            Ok(outcome)
        }))
    }
}

impl Inner {
    fn begin(
        &self,
        request: &ProcessRequest,
        ticket: Option<&dyn Ticket>,
        own: &[BorrowedFd<'_>],
    ) -> Result<Box<dyn watch::Child>, String> {
        let scene = self.scenes.scene(request)?;
        let mut environment = environment::of(request, &self.variables);
        environment.extend(ticket.into_iter().flat_map(|ticket| ticket.env()));
        if self.helper.walls() == Walls::Bare {
            environment.extend(bare::temporary(&scene));
        }
        let job = Job { argv: request.argv.clone(), environment, cwd: request.cwd.clone(), ..Job::default() };
        Ok(Box::new(self.helper.begin(&scene, job, own, None)?))
    }
}
