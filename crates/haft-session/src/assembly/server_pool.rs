//! The MCP servers of a session: their changing tools, and reports about them.
//!
//! A session without servers has no pool. Servers connect in the background. A single call waits for them
//! ([`ServerPool::settled`]), and a conversation applies their changes before each turn
//! ([`ServerPool::refresh`]). However the session ends, [`ServerPool::close`] ends them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::ports::{Asker, Processes};
use haft::registry::{Snapshot, ToolOrigin};
use haft::sync::lock;
use haft::{Engine, Registry};
use haft_mcp::{
    FileTokens, HostServices, PageOpener, SamplingHandler, ServerHandle, ServerSet, ServerStatus,
};
use tokio::task::JoinHandle;

use super::search::SessionToolSearch;
use super::server_plan::ServerPlan;
use crate::hooks::ServerSlot;
use crate::mcp::approvals::FileApprovals;
use crate::mcp::logs::ServerLogs;
use crate::mcp::prompt;
use crate::text::one_line;
use crate::{NoticeSink, SessionError, TelemetrySource};

/// The number of tools that a line names; the rest is counted.
const NAMED_MAX: usize = 5;
/// The folder in the state folder that contains sign-in tokens.
const TOKENS: &str = "mcp-tokens";

/// Starts the MCP servers of a session.
pub struct ServerStarter {
    pub planned: ServerPlan,
    /// The user, if there is one.
    pub asker: Option<Arc<dyn Asker>>,
    /// The tools without those of servers.
    pub(super) registry: Registry,
    /// The engine that hooks use: it has the tools and the rules, and no hooks.
    pub(super) bare: Engine,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) cwd: PathBuf,
    pub(super) roots: Vec<PathBuf>,
    pub(super) state: Option<PathBuf>,
    /// Whether tools may be listed by name only.
    pub(super) searches: bool,
    /// Where hooks find the servers.
    pub(super) slot: ServerSlot,
    /// Whether a hook calls a tool of a server.
    pub(super) for_hooks: bool,
    pub(super) notices: NoticeSink,
    pub(super) telemetry: Option<Arc<dyn TelemetrySource>>,
}

/// How much is reported about servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportLevel {
    /// Problems that prevent their use.
    Problems,
    /// Also tools that they list and that can't be offered.
    Everything,
}

/// The ports of servers, and the behavior of their calls.
#[derive(Default, Clone)]
pub struct ServerPorts {
    pub asker: Option<Arc<dyn Asker>>,
    pub sampler: Option<Arc<dyn SamplingHandler>>,
    /// Opens the page of a sign-in.
    pub browser: Option<Arc<dyn PageOpener>>,
    /// Calls don't move to the background: long calls are waited for.
    pub one_turn: bool,
}

/// The started MCP servers of a session, and the session's tools including theirs.
pub struct ServerPool {
    /// The session's engine, and the one that its hooks use.
    engines: [Engine; 2],
    base: Registry,
    servers: Arc<ServerSet>,
    approvals: Arc<FileApprovals>,
    searches: bool,
    state: Mutex<PoolState>,
    questions: Mutex<Vec<JoinHandle<()>>>,
    notices: NoticeSink,
}

#[derive(Default)]
struct PoolState {
    /// The version of the servers' tools that was last applied; `None` before the first time.
    version: Option<u64>,
    /// Whether the model searches for tools. Once it does, this stays true.
    searching: bool,
    /// Lines that were reported.
    said: BTreeSet<String>,
    /// Notices that the model has received.
    told: BTreeSet<String>,
}

impl ServerStarter {
    /// Returns whether the set of tools never changes.
    pub fn is_fixed(&self) -> bool {
        self.planned.is_empty() && !(self.searches && has_outside(&self.registry))
    }

    /// Returns whether servers are needed for any call, because hooks call their tools.
    pub fn are_for_hooks(&self) -> bool {
        self.for_hooks && !self.planned.is_empty()
    }

    /// Reports warnings about the servers in settings.
    pub fn warn(&self) {
        self.planned.warnings().iter().for_each(|words| self.notices.warn(one_line(words)));
    }

    /// Returns the approvals of the workspace's servers.
    pub fn approvals(&self) -> FileApprovals {
        let enabled = self.planned.servers.iter().filter(|planned| planned.enabled);
        let enabled = enabled.map(|planned| planned.server.name.clone());
        FileApprovals::new(self.state.as_deref(), &self.cwd, enabled)
    }

    /// Starts the servers in parallel without waiting for them. Needs a runtime.
    ///
    /// # Errors
    /// Returns an error if servers can't be started, or if their tools can't be registered.
    pub fn start(&self, engine: &Engine, ports: ServerPorts) -> Result<ServerPool, SessionError> {
        let approvals = Arc::new(self.approvals());
        let mut host = HostServices::new(&self.cwd)
            .with_roots(&self.roots)
            .with_processes(self.processes.clone())
            .with_approvals(approvals.clone());
        if let Some(state) = &self.state {
            let logs = ServerLogs::new(state, &self.cwd);
            host = host
                .with_on_log(move |server, bytes| logs.add(server, bytes))
                .with_tokens(Arc::new(FileTokens::new(state.join(TOKENS))));
        }
        host.asker = ports.asker;
        host.sampler = ports.sampler;
        host.browser = ports.browser;
        host.observer = self.telemetry.as_ref().and_then(|telemetry| telemetry.observer(engine.session_id()));
        let configs = self.planned.usable().map(|(_, config)| {
            let mut config = config.clone();
            config.background_after = config.background_after.filter(|_| !ports.one_turn);
            config
        });
        let servers = ServerSet::start(configs, host).map_err(|bad| SessionError::tools(bad.to_string()))?;
        let servers = Arc::new(servers);
        let _ = self.slot.set(servers.clone());
        let base = if self.planned.is_empty() {
            Ok(self.registry.clone())
        } else {
            self.registry.with(servers.tools())
        };
        let pool = ServerPool {
            engines: [engine.clone(), self.bare.clone()],
            base: base.map_err(|error| SessionError::tools(error.to_string()))?,
            servers,
            approvals,
            searches: self.searches,
            state: Mutex::default(),
            questions: Mutex::default(),
            notices: self.notices.clone(),
        };
        pool.refresh();
        Ok(pool)
    }
}

fn has_outside(registry: &Registry) -> bool {
    registry.entries().any(|entry| *entry.origin() != ToolOrigin::BuiltIn)
}

impl ServerPool {
    pub fn servers(&self) -> &Arc<ServerSet> {
        &self.servers
    }

    /// Returns the current tools, including those of servers.
    pub fn registry(&self) -> Option<Registry> {
        self.servers.registry(&self.base).ok()
    }

    /// Applies the changes since the last call, from the next turn on.
    pub fn refresh(&self) {
        let version = self.servers.version();
        if self.state().version == Some(version) {
            return;
        }
        // Two tools of a server never have the same name: names are made unique before.
        let Ok(registry) = self.servers.registry(&self.base) else { return };
        let mut state = self.state();
        state.version = Some(version);
        let wanted = self.searches && has_outside(&registry);
        let with_search = wanted.then(|| registry.with(SessionToolSearch::new(&self.servers)).ok()).flatten();
        if let Some(with_search) = with_search {
            self.engines[0].refresh_with(with_search.clone());
            state.searching |= self.engines[0].snapshot().deferred().next().is_some();
            if state.searching {
                self.engines[1].refresh_with(with_search);
                return;
            }
        }
        self.engines.iter().for_each(|engine| engine.refresh_with(registry.clone()));
    }

    /// Waits until each server is connected or has failed, or until `enough` is true, or until the longest
    /// connection timeout expires. Then reports the servers that can't be used.
    pub async fn settled(&self, enough: impl Fn(&Snapshot) -> bool) {
        self.wait(enough).await;
        self.say(ReportLevel::Problems);
    }

    /// Waits for all servers, without a report.
    pub async fn settled_quietly(&self) {
        self.wait(|_| false).await;
    }

    async fn wait(&self, enough: impl Fn(&Snapshot) -> bool) {
        let limit =
            self.servers.iter().map(|server| server.config().connect_timeout).max().unwrap_or_default();
        // A moment more, so that each server reports its own timeout.
        let limit = limit + Duration::from_millis(500);
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            self.refresh();
            let version = self.state().version.unwrap_or_default();
            if enough(&self.engines[0].snapshot()) {
                break;
            }
            tokio::select! {
                () = self.servers.settled(limit) => break,
                () = self.servers.changed_since(version) => {}
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        self.refresh();
        // The offered tools may depend on the state of servers.
        self.engines.iter().for_each(Engine::refresh);
    }

    /// Reports on servers, each message once.
    pub fn say(&self, what: ReportLevel) {
        let mut lines: Vec<String> = Vec::new();
        for server in self.servers.iter() {
            let name = &server.config().name;
            lines.extend(server.failure().map(|reason| match server.tool_count() {
                0 => format!("the MCP server `{name}` can't be used: {reason}"),
                // The server was connected before.
                _ => format!(
                    "the MCP server `{name}` went away: {reason}; the next call of it starts it again"
                ),
            }));
            match server.status() {
                ServerStatus::Unapproved(withheld) => {
                    let why = match withheld.before {
                        None => "you have not approved it",
                        Some(_) => "it is not what you approved",
                    };
                    lines.push(format!(
                        "the MCP server `{name}` is not started: {why}; `haft mcp approve {name}` shows it"
                    ));
                }
                ServerStatus::NeedsSignIn { reason } => {
                    lines.push(format!("the MCP server `{name}` can't be used: {reason}"));
                }
                _ => {}
            }
            lines.extend(withheld_line(server));
            lines.extend(server.withheld_instructions().map(|withheld| {
                let why = match withheld.before {
                    None => "wait for your approval",
                    Some(_) => "have changed since you approved them",
                };
                format!(
                    "the MCP server `{name}`: its instructions for models {why} and are not told; `haft mcp approve {name}` \
                     shows them"
                )
            }));
            let left_out = if what == ReportLevel::Everything { server.left_out() } else { Vec::new() };
            lines.extend(left_out.iter().take(NAMED_MAX).map(|left| {
                format!("the MCP server `{name}`: its tool `{}` is left out: {}", left.name, left.reason)
            }));
        }
        lines.extend(
            self.approvals.damaged().map(|words| format!("{words}; approvals kept there don't count")),
        );
        let mut state = self.state();
        for line in lines {
            let line = one_line(&line);
            if state.said.insert(line.clone()) {
                self.notices.warn(line);
            }
        }
    }

    /// Returns notices for the model before its next request, each once.
    pub fn notices(&self) -> Vec<String> {
        let mut connecting: Vec<String> = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut state = self.state();
        for server in self.servers.iter() {
            let name = &server.config().name;
            match server.status() {
                ServerStatus::Connecting if server.failure().is_none() => {
                    connecting.push(format!("`{name}`"))
                }
                ServerStatus::Ready { .. } => {
                    if let Some(instructions) = server.instructions()
                        && state.told.insert(format!("{name}\n{instructions}"))
                    {
                        words.push(format!("The MCP server `{name}` says how to use it:\n{instructions}"));
                    }
                }
                _ => {}
            }
            for uri in server.take_changed_resources() {
                let uri = one_line(&uri);
                words.push(format!(
                    "The resource `{uri}` of the MCP server `{name}` has changed since you read it."
                ));
            }
        }
        if !connecting.is_empty() && state.told.insert("connecting".to_owned()) {
            words.push(format!(
                "These MCP servers are still being connected, and their tools will be there in one of your next \
                 messages: {}. Call WaitForMcpServers first if you need one of them.",
                connecting.join(", ")
            ));
        }
        words
    }

    /// Asks the user about servers of the workspace, and about their tools, that need an approval, whenever
    /// there are any.
    pub fn ask_for_approvals(&self, planned: &ServerPlan, asker: &Arc<dyn Asker>) {
        for (planned, config) in planned.usable() {
            let Some(server) = self.servers.get(&config.name) else { continue };
            if config.trust != haft_mcp::ServerTrust::Approvals {
                continue;
            }
            let about = prompt::ServerPrompt::new(
                planned,
                server.clone(),
                self.approvals.clone(),
                self.notices.clone(),
            );
            let (servers, asker) = (self.servers.clone(), asker.clone());
            let task = tokio::spawn(async move {
                loop {
                    let version = servers.version();
                    let status = about.server.status();
                    about.ask(&*asker).await;
                    tokio::select! {
                        () = servers.changed_since(version) => {}
                        () = about.server.changed_from(&status) => {}
                    }
                }
            });
            lock(&self.questions).push(task);
        }
    }

    fn stop_asking(&self) {
        let questions = std::mem::take(&mut *lock(&self.questions));
        questions.iter().for_each(JoinHandle::abort);
    }

    /// Begins to end all servers, without waiting for them.
    pub fn stop(&self) {
        self.stop_asking();
        self.servers.stop();
    }

    /// Ends all servers gracefully, with a timeout.
    pub async fn close(&self) {
        self.stop_asking();
        self.servers.close().await;
        if let Err(words) = self.approvals.keep_first_seen() {
            self.notices.warn(format!("what servers offer could not be kept: {}", one_line(&words)));
        }
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        lock(&self.state)
    }
}

impl Drop for ServerPool {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Returns one line about what a server offers and the user has to approve.
fn withheld_line(server: &ServerHandle) -> Option<String> {
    let withheld = server.withheld();
    let name = &server.config().name;
    let mut names: Vec<String> = withheld
        .iter()
        .filter_map(|withheld| withheld.subject.tool.as_ref())
        .take(NAMED_MAX)
        .map(|tool| format!("`{}`", haft_mcp::text::display_line(tool, 60)))
        .collect();
    if withheld.len() > NAMED_MAX {
        names.push(format!("{} more", withheld.len() - NAMED_MAX));
    }
    let changed = withheld.iter().filter(|withheld| withheld.before.is_some()).count();
    let what = match (withheld.len(), changed) {
        (0, _) => return None,
        (1, 0) => "one of its tools waits for your approval".to_owned(),
        (1, _) => "one of its tools has changed since you approved it".to_owned(),
        (all, 0) => format!("{all} of its tools wait for your approval"),
        (all, changed) if all == changed => {
            format!("{all} of its tools have changed since you approved them")
        }
        (all, changed) => {
            format!("{all} of its tools wait for your approval, {changed} because they changed")
        }
    };
    let them = if withheld.len() == 1 { "it" } else { "them" };
    Some(format!(
        "the MCP server `{name}`: {what} ({}); `haft mcp approve {name}` shows {them}",
        names.join(", ")
    ))
}
