//! The session of one client of a server, and the MCP servers that its clients share.

use std::sync::Arc;

use haft::env::VariableLookup;
use haft::ports::Asker;
use haft::{Engine, EngineBuilder, Registry};
use haft_journal::SessionStart;
use haft_policy::gate::Policy;
use haft_policy::hooks::Hooks;

use super::assembler::EngineParts;
use super::server_pool::{ServerPool, ServerPorts, ServerStarter};
use super::session_config::SessionConfig;
use crate::hooks::{self, ServerSlot};
use crate::session_journal::{LazyJournal, SessionRecorder};
use crate::{NoticeSink, SessionError};

/// A session of one client of a server: an engine with its own answers, results, background tasks and
/// journal.
///
/// Dropping it ends the journal. Calls end with the engine.
pub struct ClientSession {
    builder: EngineBuilder,
    engine: Engine,
    /// The engine that evaluates the conditions of hooks.
    bare: Engine,
    /// The tools that belong to this session.
    session_tools: Registry,
    id: String,
    policy: Policy,
    hooks: Hooks,
    servers: ServerSlot,
    notices: NoticeSink,
    /// Opened by the first call.
    _journal: Arc<LazyJournal>,
}

impl ClientSession {
    pub(super) fn new(id: String, policy: Policy, parts: EngineParts, config: &SessionConfig) -> Self {
        let EngineParts { engine, bare, session_tools, hooks, servers, .. } = parts;
        let journal = client_journal(config, &id);
        let recorder = journal.clone();
        let builder = engine.ports(|ports| ports.recorder = Some(recorder));
        let engine = builder.clone().build();
        let notices = config.options.notices.clone();
        let _journal = journal;
        ClientSession { builder, engine, bare, session_tools, id, policy, hooks, servers, notices, _journal }
    }

    /// Returns the engine that runs the client's calls.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns an engine with the rules, hooks and journal of this session, only these tools, and no limit
    /// on the results of a turn.
    pub fn engine_with_tools(&self, registry: Registry) -> Engine {
        let engine = self.builder.clone().session_id(self.id.as_str()).turn_budget(usize::MAX).build();
        engine.refresh_with(registry);
        engine
    }

    /// Lets hooks call tools of these servers.
    pub fn use_servers(&self, pool: &ServerPool) {
        let _ = self.servers.set(pool.servers().clone());
    }

    /// Replaces the tools, from the next turn on. Tools that belong to a session become those of this one.
    pub fn set_tools(&self, registry: &Registry) {
        let registry = registry.replace_tools(&self.session_tools);
        self.bare.refresh_with(registry.clone());
        self.engine.refresh_with(registry);
    }

    /// Returns whether a rule denies every call of this tool.
    pub fn denies_tool(&self, tool: &str) -> bool {
        self.policy.denies_tool(tool).is_some()
    }

    /// Returns whether a rule denies everything of this MCP server.
    pub fn denies_server(&self, server: &str) -> bool {
        self.policy.denies_server(server).is_some()
    }

    /// Reports the messages of background hooks so far.
    pub fn report_hooks(&self) {
        hooks::report_hooks(&self.hooks, &self.notices);
    }
}

fn client_journal(config: &SessionConfig, id: &str) -> Arc<LazyJournal> {
    let (settings, state) = (config.settings().journal.clone(), config.given.places.state_dir.clone());
    let (id, cwd) = (id.to_owned(), config.workspace.cwd().to_owned());
    let (environment, notices) = (config.options.environment.clone(), config.options.notices.clone());
    LazyJournal::new(move |_| {
        let began = SessionStart { command: "serve".to_owned(), ..SessionStart::in_folder(&cwd) };
        let lookup: VariableLookup<'_> = &|name| environment.get(name);
        // The id is new, so no other process has this journal.
        SessionRecorder::open(state.as_deref(), &settings, (&id, began), None, lookup, &notices)
    })
}

/// MCP servers that all clients of a server share, before they are started.
pub struct SharedServers {
    pub(super) starter: ServerStarter,
    pub(super) engine: Engine,
    pub(super) asker: Option<Arc<dyn Asker>>,
}

impl SharedServers {
    /// Returns whether there is nothing to start.
    pub fn is_empty(&self) -> bool {
        self.starter.planned.is_empty()
    }

    /// Starts the servers in parallel without waiting for them. Needs a runtime.
    ///
    /// # Errors
    /// Returns an error if servers can't be started.
    pub fn start(&self) -> Result<ServerPool, SessionError> {
        let ports = ServerPorts { asker: self.asker.clone(), ..ServerPorts::default() };
        self.starter.start(&self.engine, ports)
    }
}
