//! All servers of a session, and the registry with their tools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use haft::Registry;
use haft::limits::NAME_CHARS_MAX;
use haft::registry::RegistryError;
use haft::sync::lock;
use haft::tool::AnyTool;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::catalogue;
use super::server::ServerHandle;
use super::tools;
use crate::config::ServerConfig;
use crate::host::HostServices;
use crate::limits::CLOSE_GRACE;
use crate::names::wire_name;

/// The servers of a session. They connect side by side, in the background; dropping this ends them.
///
/// ```no_run
/// # async fn session(configs: Vec<haft_mcp::ServerConfig>, base: haft::Registry) -> Result<(), Box<dyn std::error::Error>> {
/// use haft::Engine;
/// use haft_mcp::{HostServices, ServerSet};
///
/// let servers = ServerSet::start(configs, HostServices::new("/home/me/project"))?;      // at once; nobody waits for a server
/// let engine = Engine::new(base.clone());
/// let mut seen = 0;
/// loop {
///     if servers.version() != seen {                                           // before each turn
///         seen = servers.version();
///         engine.refresh_with(servers.registry(&base)?);
///     }
///     let turn = engine.turn();
///     // …
/// #   let _ = turn; break;
/// }
/// servers.close().await;
/// # Ok(()) }
/// ```
pub struct ServerSet {
    servers: BTreeMap<String, ServerHandle>,
    version: watch::Sender<u64>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl ServerSet {
    /// Starts them all. Needs a tokio runtime.
    ///
    /// # Errors
    /// A name that no server can have, or two with one name.
    pub fn start(
        configs: impl IntoIterator<Item = ServerConfig>,
        host: HostServices,
    ) -> Result<ServerSet, BadServer> {
        let configs: Vec<ServerConfig> = configs.into_iter().collect();
        let mut names = std::collections::HashSet::new();
        for config in &configs {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let name = &config.name;
            if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(plain) {
                let words = "a name is made of letters, digits, `_` and `-`";
                return Err(BadServer { name: name.clone(), words });
            }
            if !names.insert(name.clone()) {
                return Err(BadServer { name: name.clone(), words: "another server has this name" });
            }
        }
        let version = watch::Sender::new(0);
        let (mut servers, mut tasks) = (BTreeMap::new(), Vec::new());
        for config in configs {
            let name = config.name.clone();
            let (server, task) = ServerHandle::start(config, host.clone(), version.clone());
            servers.insert(name, server);
            tasks.push(task);
        }
        Ok(ServerSet { servers, version, tasks: Mutex::new(tasks) })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ServerHandle> {
        self.servers.values()
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&ServerHandle> {
        self.servers.get(name)
    }

    /// Grows with everything that changes what [`registry`](ServerSet::registry) gives.
    pub fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Completes when the version is no longer this one.
    pub async fn changed_since(&self, version: u64) {
        let _ = self.version.subscribe().wait_for(|now| *now != version).await;
    }

    /// Completes when of each server it is known whether it can be used, or after this time.
    pub async fn settled(&self, at_most: Duration) {
        let all = async {
            for server in self.servers.values() {
                server.settled().await;
            }
        };
        let _ = timeout(at_most, all).await;
    }

    /// The registry with the tools that the servers offer now, as tools from outside: none of them shadows
    /// another.
    ///
    /// # Errors
    /// Two tools of one server with one name, which can't be.
    pub fn registry(&self, base: &Registry) -> Result<Registry, RegistryError> {
        let mut registry = base.clone();
        for (name, server) in &self.servers {
            let tools: Vec<AnyTool> = server.offered().tools.clone();
            if !tools.is_empty() {
                registry = registry.with_external(name.as_str(), tools)?;
            }
        }
        Ok(registry)
    }

    /// Which tool of which server is offered under a name.
    pub fn origin_of(&self, wire: &str) -> Option<(String, String)> {
        self.servers.iter().find_map(|(server, handle)| {
            let offered = handle.offered();
            let tool = offered.names.iter().find(|tool| wire_name(server, tool) == wire)?;
            Some((server.clone(), tool.clone()))
        })
    }

    /// The tools for resources and prompts: `ListMcpResources`, `ReadMcpResource`, `ListMcpPrompts`,
    /// `GetMcpPrompt`; and, as long as one is being connected, `WaitForMcpServers`. They belong among the
    /// built-in ones of a session that has servers.
    pub fn tools(&self) -> Vec<AnyTool> {
        tools::build_tools(&catalogue::ServerCatalogue::new(self.servers.values().cloned().collect()))
    }

    /// Begins to end all connections, and waits for none.
    pub fn stop(&self) {
        self.servers.values().for_each(ServerHandle::stop);
    }

    /// Ends all connections politely, and waits for that for a bounded time.
    pub async fn close(&self) {
        self.stop();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        let all = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        let _ = timeout(CLOSE_GRACE * 8, all).await;
    }
}

impl Drop for ServerSet {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A server that can't be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadServer {
    /// Its name.
    pub name: String,
    words: &'static str,
}

impl fmt::Display for BadServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server `{}`: {}", self.name, self.words)
    }
}

impl std::error::Error for BadServer {}
