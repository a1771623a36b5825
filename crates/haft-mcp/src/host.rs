//! What the host lends to connections: processes, the user, a model, the folders it works in; and who watches
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{Asker, Processes};
use serde_json::Value;

use crate::approval::{ApprovalStore, MemoryApprovals};
use crate::sign_in::page::PageOpener;
use crate::sign_in::store::{MemoryTokens, TokenStore};

/// What servers are started with and may ask for. Cheap to clone.
///
/// ```
/// use haft_mcp::HostServices;
///
/// let host = HostServices::new("/home/me/project");
/// assert!(host.asker.is_none(), "nobody is asked unless the host says who");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct HostServices {
    /// The session's folder: where processes run.
    pub cwd: PathBuf,
    /// The folders that servers are told of when they ask for roots.
    pub roots: Vec<PathBuf>,
    /// Starts processes; without it no local server can be.
    pub processes: Option<Arc<dyn Processes>>,
    /// The user, for servers that want to know something.
    pub asker: Option<Arc<dyn Asker>>,
    /// A model, for servers that may ask one.
    pub sampler: Option<Arc<dyn SamplingHandler>>,
    /// What was approved.
    pub approvals: Arc<dyn ApprovalStore>,
    /// Who opens pages to sign in on; asked by [`Server::sign_in`](crate::ServerHandle::sign_in) alone.
    pub browser: Option<Arc<dyn PageOpener>>,
    /// Where tokens are kept.
    pub tokens: Arc<dyn TokenStore>,
    /// A proxy for requests over HTTP.
    pub proxy: Option<String>,
    /// Told of what servers complain about, as it comes.
    pub on_log: Option<OnLog>,
    /// Told of requests and how they ended.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

/// Told the name of a server and what it complained about. Called from whichever thread reads it; must not
/// take long.
pub type OnLog = Arc<dyn Fn(&str, &[u8]) + Send + Sync>;

impl HostServices {
    /// A host that works in this folder, lends nothing and has approved nothing.
    pub fn new(cwd: impl Into<PathBuf>) -> HostServices {
        let cwd = cwd.into();
        HostServices {
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
            observer: None,
        }
    }

    /// Who starts processes.
    #[must_use]
    pub fn with_processes(mut self, processes: Arc<dyn Processes>) -> HostServices {
        self.processes = Some(processes);
        self
    }

    /// Who is asked.
    #[must_use]
    pub fn with_asker(mut self, asker: Arc<dyn Asker>) -> HostServices {
        self.asker = Some(asker);
        self
    }

    /// Who answers for the model.
    #[must_use]
    pub fn with_sampler(mut self, sampler: Arc<dyn SamplingHandler>) -> HostServices {
        self.sampler = Some(sampler);
        self
    }

    /// What was approved.
    #[must_use]
    pub fn with_approvals(mut self, approvals: Arc<dyn ApprovalStore>) -> HostServices {
        self.approvals = approvals;
        self
    }

    /// Who is told of what servers complain about.
    #[must_use]
    pub fn with_on_log(mut self, on_log: impl Fn(&str, &[u8]) + Send + Sync + 'static) -> HostServices {
        self.on_log = Some(Arc::new(on_log));
        self
    }

    /// Who is told of requests and how they ended.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn RequestObserver>) -> HostServices {
        self.observer = Some(observer);
        self
    }

    /// Who opens pages to sign in on.
    #[must_use]
    pub fn with_browser(mut self, browser: Arc<dyn PageOpener>) -> HostServices {
        self.browser = Some(browser);
        self
    }

    /// Where tokens are kept; else nowhere but in this process.
    #[must_use]
    pub fn with_tokens(mut self, tokens: Arc<dyn TokenStore>) -> HostServices {
        self.tokens = tokens;
        self
    }

    /// The folders that servers are told of, in place of the session's.
    #[must_use]
    pub fn with_roots<P: AsRef<Path>>(mut self, roots: impl IntoIterator<Item = P>) -> HostServices {
        self.roots = roots.into_iter().map(|root| root.as_ref().to_path_buf()).collect();
        self
    }
}

/// Asks a model on behalf of a server.
///
/// Called only for a server that [may](crate::ServerConfig::may_sample), from a task of its connection. An
/// implementation shows the user what is asked, bounds what it costs, and gives the model no tools that the
/// server didn't bring.
pub trait SamplingHandler: Send + Sync + 'static {
    /// Answers `sampling/createMessage`: the parameters in, the result out, both as the protocol has them.
    ///
    /// # Errors
    /// In words for the server.
    fn sample<'a>(&'a self, server: &'a str, params: Value) -> BoxFuture<'a, Result<Value, String>>;
}

/// Watches requests to servers, for somebody who measures them.
///
/// Called from whichever task made the request; must neither block nor panic.
pub trait RequestObserver: Send + Sync + 'static {
    /// A request has its answer, or none will come any more.
    fn asked(&self, asked: &CompletedRequest<'_>);

    /// A connection ended.
    fn ended(&self, carrier: &CarrierInfo, revision: &str, after: Duration);
}

/// A request that is over.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct CompletedRequest<'a> {
    /// The server's name.
    pub server: &'a str,
    /// The way to it.
    pub carrier: &'a CarrierInfo,
    /// The revision of the protocol that both speak; empty before that is known.
    pub revision: &'a str,
    /// The method.
    pub method: &'a str,
    /// The tool or prompt that it is about, where it is about one.
    pub name: Option<&'a str>,
    /// The resource that it is about, where it is about one.
    pub uri: Option<&'a str>,
    /// How long it took.
    pub took: Duration,
    /// What went wrong, as one word, or the number that the server gave.
    pub error: Option<&'a str>,
}

/// The way to a server, in the words of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarrierInfo {
    /// `network.transport`: `pipe` or `tcp`.
    pub transport: &'static str,
    /// `network.protocol.name`: `http` or `websocket`.
    pub protocol: Option<&'static str>,
    /// `server.address`.
    pub address: Option<String>,
    /// `server.port`.
    pub port: Option<u16>,
}
