//! Processes that can do what their user can do.

use std::ffi::OsString;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use haft::BoxFuture;
use haft::ports::{ProcessError, ProcessOutcome, ProcessRequest, Processes};

use crate::pool::Pool;
use crate::{environment, program, start, watch};

/// Processes of this machine, not confined.
///
/// Dropping the future of a call ends its child as cancelling does; dropping this waits, for a bounded time, until the
/// last child is gone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::{Exit, Processes, ProcessRequest};
/// use haft_sandbox::LocalProcesses;
///
/// let processes = LocalProcesses::new(std::env::vars_os());
/// let outcome = processes.run(ProcessRequest::new(["tr", "a-z", "A-Z"], "/").with_stdin("hello")).await.unwrap();
/// assert_eq!((outcome.exit, outcome.stdout.whole()), (Exit::Code(0), Some(&b"HELLO"[..])));
/// # }
/// ```
pub struct LocalProcesses {
    environment: Arc<[(OsString, OsString)]>,
    pool: Pool,
}

impl LocalProcesses {
    /// Processes that get of these variables what [`environment`] lets through, usually of [`std::env::vars_os`].
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> LocalProcesses {
        LocalProcesses { environment: variables.into_iter().collect(), pool: Pool::default() }
    }

    /// How many children there are, those included that are about to end.
    pub fn running(&self) -> usize {
        self.pool.running()
    }

    /// Ends every child and starts no more. Waits until they are gone, for at most a few seconds; to be called before the
    /// program ends, which would end the threads that do this.
    pub fn shutdown(&self) {
        self.pool.shutdown();
    }
}

impl Processes for LocalProcesses {
    fn confines(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        let variables = self.environment.clone();
        Box::pin(self.pool.run(request, move |request, orders| {
            let begun = |descriptors: &[BorrowedFd<'_>]| begin(request, &variables, descriptors);
            watch::run(request, orders, &mut watch::NoKeeper, begun)
        }))
    }
}

/// Starts the child; this thread lives as long as it does.
fn begin(
    request: &ProcessRequest,
    variables: &[(OsString, OsString)],
    descriptors: &[BorrowedFd<'_>],
) -> Result<Box<dyn watch::Child>, String> {
    let environment = environment::of(request, variables);
    let plan = program::plan(&request.argv, &request.cwd, &environment, None)?;
    match start::start_patiently(&plan, descriptors) {
        Ok(child) => Ok(Box::new(child)),
        Err((step, errno)) => Err(program::explain(&plan, step, errno)),
    }
}
