//! One client: an engine of its own, and what it is offered of it.
//!
//! Each call is a turn, and many may be under way. Clients share the servers and, within a view, the walls
//! around children; what was read, what was answered, what runs in the background and what was kept are each
//! client's own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::registry::{ToolNotFound, ToolOrigin};
use haft::sync::lock;
use haft::{Cancel, Engine, ResultBlock, ToolCall, ToolResult};
use haft_mcp::ServerHandle;
use haft_mcp::server::{
    CallToolResult, ChangeNotifier, ClientInfo, ClientPeer, ContentBlock, DefinitionList, ErrorData,
    GetPromptResult, Implementation, ListChange, PromptRequest, ProtocolRevision, ReadRequest,
    ReadResourceResult, ServerFeatures, ServerHandler, ToolCallRequest, relay_prompt, relay_resource,
    tool_result, unknown_prompt, unknown_resource, unknown_tool,
};
use haft_session::assembly::{ClientSession, ServerPool};
use haft_session::clients::ClientView;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::active_calls::{ActiveCalls, ProgressNotifier};
use super::client_questions::ClientAsker;
use super::relay::{self, RelayedResources};
use super::stored_results::StoredResults;
use super::tool_listing::ToolDefinitionCache;
use crate::{UsageError, output};

/// How many characters of a connected server's own instructions are passed on.
const INSTRUCTIONS_CHARS_MAX: usize = 2_000;

/// How long a server that is being connected is waited for beyond its own time.
const SETTLE_MORE: Duration = Duration::from_millis(500);

/// When a call becomes a task.
const TASK_AFTER: Duration = Duration::from_secs(10);

/// What clients have in common.
pub(super) struct SharedServices {
    pub(super) calls: ActiveCalls,
    pub(super) pool: Option<Arc<ServerPool>>,
    pub(super) passed: Option<Arc<RelayedResources>>,
    /// Definitions of tools, for all of them.
    pub(super) written: ToolDefinitionCache,
    /// For how long after the first of them lists wait for servers that are still being connected: some
    /// clients ask once and never again.
    pub(super) lists_wait: Duration,
    /// When the first was asked for. What the program did before costs no server its time.
    pub(super) first_list: OnceLock<Instant>,
    /// Whether it was said that a list did not wait long enough.
    pub(super) said_missing: AtomicBool,
}

impl SharedServices {
    /// Says, once, which servers a list went out without.
    fn say_missing(&self, pool: &ServerPool) {
        let slow = pool.servers().iter().filter(|server| !server.is_settled());
        let slow: Vec<String> = slow.map(|server| format!("`{}`", server.config().name)).collect();
        if !slow.is_empty() && !self.said_missing.swap(true, Ordering::Relaxed) {
            output::print_line(&format!(
                "haft: a list was sent without what {} will offer; clients that hear of changes are told, for others \
                 `--server-wait SECONDS` waits longer",
                slow.join(", ")
            ));
        }
    }
}

/// A client. With it everything ends that it began, also what runs in the background.
pub(super) struct ServedClient {
    /// By which its calls are told from those of others.
    number: u64,
    view: Arc<ClientView>,
    session: ClientSession,
    common: Arc<SharedServices>,
    results: StoredResults,
    listed: Mutex<ClientListing>,
    changes: ChangeNotifier,
    /// The engine by which resources and prompts of servers are passed on.
    passing: OnceLock<Option<Engine>>,
}

/// The tools of a client as it is told of them.
#[derive(Default)]
struct ClientListing {
    listing: DefinitionList,
    /// What servers offered when it was made; nothing before the first time.
    version: Option<u64>,
    /// It changed since the client was told, or saw it.
    is_news: bool,
}

impl ServedClient {
    /// A client of this view; its user is asked through it, if that can be.
    pub(super) fn new(
        common: Arc<SharedServices>,
        view: Arc<ClientView>,
        can_ask: bool,
    ) -> Result<ServedClient, UsageError> {
        let assembler = view.assembler();
        let number = common.calls.number();
        let asker = can_ask.then(|| {
            let cwd = assembler.cwd().to_owned();
            Arc::new(ClientAsker { calls: common.calls.clone(), client: number, cwd })
                as Arc<dyn haft::ports::Asker>
        });
        let session = assembler.open_client(asker, ProgressNotifier(common.calls.clone()))?;
        if let Some(pool) = &common.pool {
            session.use_servers(pool);
        }
        let client = ServedClient {
            number,
            view,
            session,
            common,
            results: StoredResults::default(),
            listed: Mutex::default(),
            changes: ChangeNotifier::default(),
            passing: OnceLock::new(),
        };
        client.bring();
        client.listed().is_news = false;
        Ok(client)
    }

    /// Makes what there is now its tools, as far as they are in its view. Whoever brings them first, nobody
    /// brings older ones after that.
    pub(super) fn bring(&self) {
        let mut listed = self.listed();
        let pool = self.common.pool.as_ref();
        let version = pool.map_or(0, |pool| pool.servers().version());
        if listed.version == Some(version) {
            return;
        }
        let registry = pool.and_then(|pool| pool.registry());
        let registry = registry.unwrap_or_else(|| self.view.assembler().registry().clone());
        self.session.set_tools(&self.view.filter_tools(&registry));
        let listing = self.common.written.listing(&self.session.engine().snapshot());
        listed.is_news |= !listed.listing.is_same_as(&listing);
        (listed.listing, listed.version) = (listing, Some(version));
    }

    /// Servers came, went or changed.
    pub(super) fn refresh(&self) {
        self.bring();
        if std::mem::take(&mut self.listed().is_news) {
            self.changes.notify(ListChange::Tools);
        }
        self.changes.notify(ListChange::Prompts);
        self.changes.notify(ListChange::Resources);
    }

    /// Waits, for the while that lists may, until of each server it is known whether it can be used.
    async fn servers_known(&self) {
        let Some(pool) = &self.common.pool else { return };
        let first = *self.common.first_list.get_or_init(Instant::now);
        if !pool.servers().iter().all(ServerHandle::is_settled) {
            let left = (first + self.common.lists_wait).saturating_duration_since(Instant::now());
            if !left.is_zero() {
                pool.servers().settled(left).await;
            }
            self.common.say_missing(pool);
        }
        // Whoever tells clients of changes may not have come to this one yet.
        self.bring();
    }

    /// Waits for the servers that a name may belong to and that are still being connected, as long as each
    /// may take.
    async fn server_of(&self, name: &str, cancel: &Cancel) {
        let Some(pool) = &self.common.pool else { return };
        for server in pool.servers().iter() {
            let config = server.config();
            if server.is_settled() || !name.starts_with(&format!("mcp__{}__", config.name)) {
                continue;
            }
            tokio::select! {
                () = server.settled() => {}
                // A moment more, so that it says itself that its time was over.
                () = tokio::time::sleep(config.connect_timeout + SETTLE_MORE) => {}
                _ = cancel.cancelled() => {}
            }
        }
        self.bring();
    }

    fn listed(&self) -> MutexGuard<'_, ClientListing> {
        lock(&self.listed)
    }

    /// Makes one call, ordered after those that the client made before.
    async fn run(
        &self,
        engine: &Engine,
        name: &str,
        input: impl Into<haft::call::CallInput>,
        by_server: bool,
        peer: &ClientPeer,
        cancel: &Cancel,
    ) -> ToolResult {
        let running = self.common.calls.begin(self.number, peer.clone(), by_server);
        let mut pending = engine.submit(ToolCall::new(running.id(), name, input));
        let result = tokio::select! {
            result = &mut pending => result,
            cause = cancel.cancelled() => {
                pending.handle().cancel(cause);
                pending.await
            }
        };
        self.session.report_hooks();
        result
    }

    async fn call_tool(&self, call: ToolCallRequest) -> Result<CallToolResult, ErrorData> {
        let engine = self.session.engine();
        let is_unknown = matches!(engine.snapshot().find(&call.name), Err(ToolNotFound::Unknown(_)));
        if is_unknown {
            self.server_of(&call.name, &call.cancel).await;
        }
        let (by_server, promises) = match engine.snapshot().find(&call.name) {
            Ok(offer) => (*offer.origin() != ToolOrigin::BuiltIn, offer.tool().output_schema().is_some()),
            Err(ToolNotFound::Unknown(closest)) => return Err(unknown_target(&call.name, &closest)),
            // It is there and not offered: its result says why.
            Err(_) => (false, false),
        };
        let arguments = call.arguments.get().to_owned();
        let running = self.run(engine, &call.name, arguments, by_server, &call.peer, &call.cancel);
        let mut running = std::pin::pin!(running);
        let result = tokio::select! {
            biased;
            result = &mut running => result,
            () = tokio::time::sleep(TASK_AFTER) => {
                // A client that doesn't know tasks waits for the result.
                let _ = call.peer.start_task();
                running.await
            }
        };
        Ok(self.reply(&result, promises, call.peer.client().revision))
    }

    /// A result as it goes out. `promises`: the tool says what form its results have.
    fn reply(&self, result: &ToolResult, promises: bool, revision: ProtocolRevision) -> CallToolResult {
        let mut reply = tool_result(result);
        if let Some(error) = result.error() {
            let about = json!({"kind": error.kind(), "retryable": error.is_retryable()});
            reply.meta.get_or_insert_default().insert("haft/error".to_owned(), about);
        }
        let Some(path) = result.offloaded_to() else { return reply };
        if promises && !result.is_error() && reply.structured_content.is_none() {
            reply.structured_content = StoredResults::structured(path);
            if reply.structured_content.is_none() {
                // A result without what was promised would be refused by the client, and nobody would read
                // it.
                reply.is_error = Some(true);
                reply.content.insert(
                    0,
                    ContentBlock::text("The call succeeded; its result is too large to be sent as a value."),
                );
            }
        }
        reply.content.extend(self.results.keep(
            path,
            result.tool_name(),
            revision >= ProtocolRevision::V2025_06_18,
        ));
        reply
    }

    /// The engine that passes on, and what it passes on; nothing where the tool for it may never be used.
    fn passing(&self, tool: &str) -> Option<(&Engine, &RelayedResources)> {
        let may = || self.view.has_tool(tool) && !self.session.denies_tool(tool);
        let passed = self.common.passed.as_deref().filter(|_| may())?;
        let make = || passed.engine(&self.session).ok();
        Some((self.passing.get_or_init(make).as_ref()?, passed))
    }

    /// What a server sent, through the pipeline.
    async fn pass(
        &self,
        engine: &Engine,
        tool: &str,
        input: Value,
        peer: &ClientPeer,
        cancel: &Cancel,
    ) -> Result<Value, ErrorData> {
        let result = self.run(engine, tool, input, true, peer, cancel).await;

        match result.outcome() {
            Ok(output) => match output.blocks() {
                [ResultBlock::Structured(value), ..] => Ok(value.clone()),
                _ => Err(ErrorData::internal_error("the server's answer was lost", None)),
            },
            Err(error) => Err(ErrorData::internal_error(error.message().to_owned(), None)),
        }
    }

    /// What of these may be listed: not what belongs to a server that rules deny.
    fn reachable(&self, listed: Vec<(String, Value)>) -> impl Iterator<Item = Value> {
        let mut denied: HashMap<String, bool> = HashMap::new();
        listed.into_iter().filter_map(move |(server, entry)| {
            let denies = |server: &String| self.session.denies_server(server);
            let is_denied = *denied.entry(server).or_insert_with_key(denies);
            (!is_denied).then_some(entry)
        })
    }

    async fn read_resource(&self, read: ReadRequest) -> Result<ReadResourceResult, ErrorData> {
        if StoredResults::has_form(&read.uri) {
            let own = self.results.read(&read.uri);
            // One that isn't ours may be that of another `haft` behind this one.
            if own.is_ok() || self.common.passed.is_none() {
                return own;
            }
        }
        let (engine, passed) = self.passing(relay::READ).ok_or_else(|| unknown_resource(&read.uri))?;
        let found = async {
            self.servers_known().await;
            passed.resource(&read.uri).await
        };
        let input = tokio::select! {
            input = found => input?,
            _ = read.cancel.cancelled() => return Err(server_ended()),
        };
        let value = self.pass(engine, relay::READ, input, &read.peer, &read.cancel).await?;
        Ok(relay_resource(&value))
    }

    async fn get_prompt(&self, get: PromptRequest) -> Result<GetPromptResult, ErrorData> {
        let (engine, passed) = self.passing(relay::GET).ok_or_else(|| unknown_prompt(&get.name))?;
        let found = async {
            self.servers_known().await;
            passed.prompt(&get.name, get.arguments).await
        };
        let input = tokio::select! {
            input = found => input?,
            _ = get.cancel.cancelled() => return Err(server_ended()),
        };
        let value = self.pass(engine, relay::GET, input, &get.peer, &get.cancel).await?;
        Ok(relay_prompt(&value))
    }

    fn describe_tools(&self) -> String {
        let cwd = self.view.assembler().cwd().display().to_string();
        let mut words = format!(
            "These tools work in `{cwd}`; relative paths start there. Every call is judged by the user's rules: one that is \
             denied says why, and what to do instead. A result that is too long comes with its beginning, its end and a \
             link to all of it."
        );
        for server in self.common.pool.iter().flat_map(|pool| pool.servers().iter()) {
            if let Some(own) = server.instructions() {
                let own = haft_mcp::text::display_text(&own, INSTRUCTIONS_CHARS_MAX);
                words.push_str(&format!(
                    "\n\nThe server `{}` says how to use its tools: {own}",
                    server.config().name
                ));
            }
        }
        words
    }
}

/// What somebody is told who asked for something that a server was still to be found for.
fn server_ended() -> ErrorData {
    ErrorData::internal_error("the request ended before a server was asked", None)
}

fn unknown_target(name: &str, closest: &[String]) -> ErrorData {
    let mut error = unknown_tool(name);
    if !closest.is_empty() {
        error.message.to_mut().push_str(&format!("; closest: {}", closest.join(", ")));
    }
    error
}

impl ServerHandler for ServedClient {
    fn info(&self) -> Implementation {
        Implementation::new("haft", env!("CARGO_PKG_VERSION")).with_title("haft")
    }

    fn instructions(&self) -> Option<String> {
        Some(self.describe_tools())
    }

    fn features(&self) -> ServerFeatures {
        let prompts = self.common.passed.is_some();
        ServerFeatures {
            tools: true,
            resources: true,
            list_changes: true,
            tasks: true,
            prompts,
            ..ServerFeatures::default()
        }
    }

    fn tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(async move {
            self.servers_known().await;
            let mut listed = self.listed();
            listed.is_news = false;
            Ok(listed.listing.clone())
        })
    }

    fn current_tools(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        let listed = self.listed().listing.clone();
        Box::pin(std::future::ready(Ok(listed)))
    }

    fn call(&self, call: ToolCallRequest) -> BoxFuture<'_, Result<CallToolResult, ErrorData>> {
        Box::pin(self.call_tool(call))
    }

    fn resources(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(async move {
            let mut listed = self.results.definitions();
            if let Some((_, passed)) = self.passing(relay::READ) {
                self.servers_known().await;
                let resources = passed.resources().await;
                listed.extend(self.reachable(resources));
            }
            Ok(DefinitionList::new(listed))
        })
    }

    fn resource_templates(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(async move {
            self.servers_known().await;
            match self.passing(relay::READ) {
                Some((_, passed)) => Ok(DefinitionList::new(self.reachable(passed.templates().await))),
                None => Ok(DefinitionList::default()),
            }
        })
    }

    fn read(&self, read: ReadRequest) -> BoxFuture<'_, Result<ReadResourceResult, ErrorData>> {
        Box::pin(self.read_resource(read))
    }

    fn prompts(&self) -> BoxFuture<'_, Result<DefinitionList, ErrorData>> {
        Box::pin(async move {
            self.servers_known().await;
            match self.passing(relay::GET) {
                Some((_, passed)) => Ok(DefinitionList::new(self.reachable(passed.prompts().await))),
                None => Ok(DefinitionList::default()),
            }
        })
    }

    fn prompt(&self, get: PromptRequest) -> BoxFuture<'_, Result<GetPromptResult, ErrorData>> {
        Box::pin(self.get_prompt(get))
    }

    fn changes(&self) -> Option<broadcast::Receiver<ListChange>> {
        Some(self.changes.subscribe())
    }
}

/// Whether a client can be asked at all.
pub(super) fn can_ask(client: &ClientInfo, non_interactive: bool) -> bool {
    client.capabilities.form && !non_interactive
}
