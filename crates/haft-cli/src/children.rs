//! What settings and trust say about every child process: its environment, and that what was trusted is what starts.
//!
//! A port around the port that starts processes. Tools know nothing of settings, and the sandbox nothing of trust; a
//! session may wait for an answer between both, and a file that was trusted then may be another one now.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::BoxFuture;
use haft::ports::{ProcessError, ProcessOutcome, ProcessRequest, Processes};
use haft_policy::trust::{Inventory, Kind};

/// Processes of a session.
pub(crate) struct Children<P> {
    processes: Arc<P>,
    /// Variables of the settings; what a request asks for wins.
    env: Vec<(OsString, OsString)>,
    /// The folder of the workspace's script tools, where they are in use, and what was trusted.
    trusted: Option<(PathBuf, Inventory)>,
}

impl<P: Processes> Children<P> {
    pub(crate) fn new(processes: Arc<P>, env: impl IntoIterator<Item = (OsString, OsString)>) -> Children<P> {
        Children { processes, env: env.into_iter().collect(), trusted: None }
    }

    /// Starts nothing in this folder that isn't as it was trusted.
    pub(crate) fn with_trusted(mut self, folder: PathBuf, inventory: Inventory) -> Children<P> {
        self.trusted = Some((folder, inventory));
        self
    }

    /// What changed of the workspace's tools since they were trusted, if the request is to start one of their files.
    fn changed(&self, request: &ProcessRequest) -> Option<String> {
        let (folder, inventory) = self.trusted.as_ref()?;
        let named: Vec<PathBuf> = request.argv.iter().map(|word| request.cwd.join(word)).collect();
        let is_named = |file: &Path| named.iter().any(|path| path == file);
        if !named.iter().any(|path| path.starts_with(folder)) && !inventory.files().any(is_named) {
            return None;
        }
        let changes = inventory.stale(|item| matches!(item.kind, Kind::ToolFile | Kind::Script));
        changes.first().map(ToString::to_string)
    }
}

impl<P: Processes> Processes for Children<P> {
    fn confines(&self) -> bool {
        self.processes.confines()
    }

    fn run<'a>(&'a self, mut request: ProcessRequest) -> BoxFuture<'a, Result<ProcessOutcome, ProcessError>> {
        if let Some(change) = self.changed(&request) {
            let message = format!(
                "it was not started: this workspace has changed since it was trusted ({change}); the user can look at it with `haft trust`"
            );
            return Box::pin(async { Err(ProcessError { message }) });
        }
        let asked = std::mem::take(&mut request.env);
        request.env = self.env.iter().cloned().chain(asked).collect();
        self.processes.run(request)
    }
}
