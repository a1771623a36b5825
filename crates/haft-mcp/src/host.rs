//! What the host lends to connections: processes, the user, a model, the folders it works in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::BoxFuture;
use haft::ports::{Asker, Processes};
use serde_json::Value;

use crate::approval::{Approvals, MemoryApprovals};
use crate::sign_in::page::Browser;
use crate::sign_in::store::{MemoryTokens, TokenStore};

/// What servers are started with and may ask for. Cheap to clone.
///
/// ```
/// use haft_mcp::Host;
///
/// let host = Host::new("/home/me/project");
/// assert!(host.asker.is_none(), "nobody is asked unless the host says who");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Host {
    /// The session's folder: where processes run.
    pub cwd: PathBuf,
    /// The folders that servers are told of when they ask for roots.
    pub roots: Vec<PathBuf>,
    /// Starts processes; without it no local server can be.
    pub processes: Option<Arc<dyn Processes>>,
    /// The user, for servers that want to know something.
    pub asker: Option<Arc<dyn Asker>>,
    /// A model, for servers that may ask one.
    pub sampler: Option<Arc<dyn Sampler>>,
    /// What was approved.
    pub approvals: Arc<dyn Approvals>,
    /// Who opens pages to sign in on; asked by [`Server::sign_in`](crate::Server::sign_in) alone.
    pub browser: Option<Arc<dyn Browser>>,
    /// Where tokens are kept.
    pub tokens: Arc<dyn TokenStore>,
    /// A proxy for requests over HTTP.
    pub proxy: Option<String>,
    /// Told of what servers complain about, as it comes.
    pub on_log: Option<OnLog>,
}

/// Told the name of a server and what it complained about. Called from whichever thread reads it; must not take long.
pub type OnLog = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

impl Host {
    /// A host that works in this folder, lends nothing and has approved nothing.
    pub fn new(cwd: impl Into<PathBuf>) -> Host {
        let cwd = cwd.into();
        Host {
            roots: vec![cwd.clone()],
            cwd,
            processes: None,
            asker: None,
            sampler: None,
            approvals: Arc::new(MemoryApprovals::default()),
            browser: None,
            tokens: Arc::new(MemoryTokens::default()),
            proxy: None,
            on_log: None,
        }
    }

    /// Who starts processes.
    #[must_use]
    pub fn with_processes(mut self, processes: Arc<dyn Processes>) -> Host {
        self.processes = Some(processes);
        self
    }

    /// Who is asked.
    #[must_use]
    pub fn with_asker(mut self, asker: Arc<dyn Asker>) -> Host {
        self.asker = Some(asker);
        self
    }

    /// Who answers for the model.
    #[must_use]
    pub fn with_sampler(mut self, sampler: Arc<dyn Sampler>) -> Host {
        self.sampler = Some(sampler);
        self
    }

    /// What was approved.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Arc<dyn Approvals>) -> Host {
        self.approvals = approvals;
        self
    }

    /// Who is told of what servers complain about.
    #[must_use]
    pub fn with_on_log(mut self, on_log: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> Host {
        self.on_log = Some(Arc::new(on_log));
        self
    }

    /// Who opens pages to sign in on.
    #[must_use]
    pub fn with_browser(mut self, browser: Arc<dyn Browser>) -> Host {
        self.browser = Some(browser);
        self
    }

    /// Where tokens are kept; else nowhere but in this process.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenStore>) -> Host {
        self.tokens = tokens;
        self
    }

    /// The folders that servers are told of, in place of the session's.
    #[must_use]
    pub fn with_roots<P: AsRef<Path>>(mut self, roots: impl IntoIterator<Item = P>) -> Host {
        self.roots = roots.into_iter().map(|root| root.as_ref().to_path_buf()).collect();
        self
    }
}

/// Asks a model on behalf of a server.
///
/// Called only for a server that [may](crate::ServerConfig::may_sample), from a task of its connection. An implementation
/// shows the user what is asked, bounds what it costs, and gives the model no tools that the server didn't bring.
pub trait Sampler: Send + Sync + 'static {
    /// Answers `sampling/createMessage`: the parameters in, the result out, both as the protocol has them.
    ///
    /// # Errors
    /// In words for the server.
    fn sample<'a>(&'a self, server: &'a str, params: Value) -> BoxFuture<'a, Result<Value, String>>;
}
