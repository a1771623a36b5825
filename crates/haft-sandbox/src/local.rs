//! Processes that can do what their user can do.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use haft::future::BoxFuture;
use haft::ports::{EnforcedRules, ProcessError, ProcessOutcome, ProcessRequest, Processes};

use crate::child_pool::ChildPool;
use crate::confined::{HelperHandle, HelperProgram};
use crate::init::IsolationLevel;
use crate::mount_plan::MountPlan;
use crate::wire::ChildJob;
use crate::{environment, program, start, watch};

/// Processes of this machine, not confined.
///
/// Dropping the future of a call ends its child as cancelling does; dropping this waits, for a bounded time,
/// until the last child is gone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::{ProcessExit, Processes, ProcessRequest};
/// use haft_sandbox::LocalProcesses;
///
/// let processes = LocalProcesses::new(std::env::vars_os());
/// let outcome = processes.run(ProcessRequest::new(["tr", "a-z", "A-Z"], "/").with_stdin("hello")).await.unwrap();
/// assert_eq!((outcome.exit, outcome.stdout.whole()), (ProcessExit::Code(0), Some(&b"HELLO"[..])));
/// # }
/// ```
pub struct LocalProcesses {
    environment: Arc<[(OsString, OsString)]>,
    // Before the keeper: children end before it does.
    pool: ChildPool,
    keeper: Option<Arc<ProcessKeeper>>,
}

/// Keeps together what programs start that stay: each has a process above it that becomes the parent of
/// whatever leaves it, and ends all of it with it, or when the host is gone.
struct ProcessKeeper {
    program: HelperProgram,
    /// None where it can't be had; then a program and its group have to do.
    helper: OnceLock<Option<HelperHandle>>,
}

impl ProcessKeeper {
    fn helper(&self) -> Option<&HelperHandle> {
        self.helper
            .get_or_init(|| HelperHandle::start(&self.program, IsolationLevel::Open, &[]).ok())
            .as_ref()
    }
}

impl LocalProcesses {
    /// Processes that get of these variables what [`environment`] lets through, usually of
    /// [`std::env::vars_os`].
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> LocalProcesses {
        LocalProcesses {
            environment: variables.into_iter().collect(),
            pool: ChildPool::default(),
            keeper: None,
        }
    }

    /// The same where nothing that a child with [pipes](ProcessRequest::with_pipes) started outlives it,
    /// whatever that did to get away: such children stay, and what they leave behind would too. The helper is
    /// this program, or the one given.
    #[must_use]
    pub fn keeping_families(mut self, helper: Option<PathBuf>) -> LocalProcesses {
        let program = helper.map_or(HelperProgram::ThisProgram, HelperProgram::At);
        self.keeper = Some(Arc::new(ProcessKeeper { program, helper: OnceLock::new() }));
        self
    }

    /// How many children there are, those included that are about to end.
    pub fn running(&self) -> usize {
        self.pool.running()
    }

    /// Ends every child and starts no more. Waits until they are gone, for at most a few seconds; to be
    /// called before the program ends, which would end the threads that do this.
    pub fn shutdown(&self) {
        self.pool.shutdown();
    }
}

impl Processes for LocalProcesses {
    fn confines(&self) -> bool {
        false
    }

    fn enforced_rules(&self) -> EnforcedRules {
        EnforcedRules::None
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let variables = self.environment.clone();
        let keeper = self.keeper.clone().filter(|_| request.on_pipes.is_some());
        Box::pin(self.pool.run(request, move |request, orders| {
            watch::run_child(request, orders, &mut watch::NoKeeper, |descriptors: &[BorrowedFd<'_>]| {
                match keeper.as_ref().and_then(|keeper| keeper.helper()) {
                    Some(helper) => begin_kept(request, &variables, descriptors, helper),
                    None => start_local(request, &variables, descriptors),
                }
            })
        }))
    }
}

/// Starts the child; this thread lives as long as it does.
fn start_local(
    request: &ProcessRequest,
    variables: &[(OsString, OsString)],
    descriptors: &[BorrowedFd<'_>],
) -> Result<Box<dyn watch::ChildProcess>, String> {
    let environment = environment::child_environment(request, variables);
    let opened = program::this_program(request)?;
    let plan = program::start_plan(&request.argv, &request.cwd, &environment, opened)?;
    match start::start_patiently(&plan, descriptors) {
        Ok(child) => Ok(Box::new(child)),
        Err((step, errno)) => Err(program::explain_failure(&plan, step, errno)),
    }
}

/// Starts the child below a process that keeps it together with all that it starts.
fn begin_kept(
    request: &ProcessRequest,
    variables: &[(OsString, OsString)],
    descriptors: &[BorrowedFd<'_>],
    helper: &HelperHandle,
) -> Result<Box<dyn watch::ChildProcess>, String> {
    let environment = environment::child_environment(request, variables);
    let job =
        ChildJob { argv: request.argv.clone(), environment, cwd: request.cwd.clone(), ..ChildJob::default() };
    Ok(Box::new(helper.begin(&MountPlan::default(), job, descriptors, None)?))
}
