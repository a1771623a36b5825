//! One client: an engine of its own, and what it is offered of it.
//!
//! Each call is a turn, and many may be under way. Clients share the servers and, within a view, the walls around
//! children; what was read, what was answered, what runs in the background and what was kept are each client's own.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use haft::env::Lookup;
use haft::{BoxFuture, Cancel, Content, Engine, Gates, NotFound, Origin, Registry, ToolCall, ToolResult};
use haft_journal::Began;
use haft_mcp::server::{
    About, Block, Call, Change, Changes, Features, GetPrompt, Listing, Offer, Peer, PromptReply, Read,
    ReadReply, Refusal, RefusalKind, Reply, Revision,
};
use haft_mcp::{Server, server};
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::time::Instant;

use super::asking::OfClient;
use super::calls::{Calls, Told};
use super::listing;
use super::pass::{self, Passed};
use super::results::Results;
use super::views::View;
use crate::kept::{Keeping, Lazy};
use crate::session::{Base, Ground, Joining, Member, Pool};
use crate::{Usage, hooks};

/// How many characters of a connected server's own instructions are passed on.
const INSTRUCTIONS_CHARS_MAX: usize = 2_000;

/// How long a server that is being connected is waited for beyond its own time.
const SETTLE_MORE: Duration = Duration::from_millis(500);

/// What clients have in common.
pub(super) struct Common {
    pub(super) calls: Calls,
    pub(super) pool: Option<Arc<Pool>>,
    pub(super) passed: Option<Arc<Passed>>,
    /// Until then a list waits for servers that are still being connected: some clients ask once and never again.
    pub(super) lists_wait_until: Instant,
}

/// A client. With it everything ends that it began, also what runs in the background.
pub(super) struct Client {
    /// By which its calls are told from those of others.
    number: u64,
    id: String,
    view: Arc<View>,
    member: Member,
    common: Arc<Common>,
    results: Results,
    listed: Mutex<(Listing, String)>,
    changes: Changes,
    /// The engine by which resources and prompts of servers are passed on.
    passing: OnceLock<Option<Engine>>,
    /// Written to its end when the client goes.
    _journal: Arc<Lazy>,
}

/// The journal of a client, which begins with its first call.
fn journal(base: &Base, id: &str) -> Arc<Lazy> {
    let Ground { given, workspace, .. } = &base.ground;
    let (settings, state) = (given.loaded.settings.journal.clone(), given.places.state_dir.clone());
    let (id, cwd) = (id.to_owned(), workspace.cwd().to_owned());
    Lazy::new(move || {
        let began = Began { command: "serve".to_owned(), ..Began::in_folder(&cwd) };
        let lookup: Lookup<'_> = &|name| std::env::var_os(name);
        // A new id is nobody else's.
        Keeping::open(state.as_deref(), &settings, (&id, began), None, lookup).unwrap_or_default()
    })
}

impl Client {
    /// A client of this view; its user is asked through it, if that can be.
    pub(super) fn new(common: Arc<Common>, view: Arc<View>, can_ask: bool) -> Result<Client, Usage> {
        let base = &view.base;
        let number = common.calls.number();
        let (policy, _) = base.policy(!can_ask)?;
        let asker = can_ask.then(|| {
            let cwd = base.ground.workspace.cwd().to_owned();
            Arc::new(OfClient { calls: common.calls.clone(), client: number, cwd })
                as Arc<dyn haft::ports::Asker>
        });
        let id = hooks::session_id();
        let store = base.ground.own_store();
        let of_hooks = base.ground.store(store.dir());
        // Whoever has the tools from here decides itself what its model is shown.
        let mut gates = Gates::default();
        gates.defer_above = usize::MAX;
        gates.groups_off = base.ground.groups_off()?;
        let mut member = base.join(Joining {
            id: id.clone(),
            policy,
            asker,
            events: Told(common.calls.clone()),
            gates,
            results: Some((store, of_hooks)),
        })?;
        let journal = journal(base, &id);
        let recorder = journal.clone();
        member.engine = member.engine.ports(|ports| ports.recorder = Some(recorder));
        if let Some(pool) = &common.pool {
            let _ = member.servers.set(pool.servers().clone());
        }
        let client = Client {
            number,
            id,
            view,
            member,
            common,
            results: Results::default(),
            listed: Mutex::default(),
            changes: Changes::new(),
            passing: OnceLock::new(),
            _journal: journal,
        };
        let registry = client.common.pool.as_ref().and_then(|pool| pool.registry());
        client.bring(&registry.unwrap_or_else(|| client.view.base.ground.registry().clone()));
        Ok(client)
    }

    /// Makes these its tools, as far as they are in its view. Whether that changed what it is offered.
    fn bring(&self, registry: &Registry) -> bool {
        let registry = self.view.filtered(registry);
        self.member.bare.refresh_with(registry.clone());
        self.member.engine.refresh_with(registry);
        let listed = listing::of(&self.member.engine.snapshot());
        let mut before = self.listed();
        let changed = before.1 != listed.1;
        *before = listed;
        changed
    }

    /// Servers came, went or changed.
    pub(super) fn refresh(&self, registry: &Registry) {
        if self.bring(registry) {
            self.changes.tell(Change::Tools);
        }
        self.changes.tell(Change::Prompts);
        self.changes.tell(Change::Resources);
    }

    /// Waits, for the while that lists may, until of each server it is known whether it can be used.
    async fn servers_known(&self) {
        let Some(pool) = &self.common.pool else { return };
        let left = self.common.lists_wait_until.saturating_duration_since(Instant::now());
        if left.is_zero() || pool.servers().iter().all(Server::is_settled) {
            return;
        }
        pool.servers().settled(left).await;
        // The list that is asked for says it; others are told.
        if let Some(registry) = pool.registry() {
            self.bring(&registry);
        }
    }

    /// Waits for the servers that a name may belong to and that are still being connected, as long as each may take; whether
    /// there were any.
    async fn server_of(&self, name: &str, cancel: &Cancel) -> bool {
        let Some(pool) = &self.common.pool else { return false };
        let mut waited = false;
        for server in pool.servers().iter() {
            let config = server.config();
            if server.is_settled() || !name.starts_with(&format!("mcp__{}__", config.name)) {
                continue;
            }
            waited = true;
            tokio::select! {
                () = server.settled() => {}
                // A moment more, so that it says itself that its time was over.
                () = tokio::time::sleep(config.connect_timeout + SETTLE_MORE) => {}
                _ = cancel.cancelled() => {}
            }
        }
        if waited && let Some(registry) = pool.registry() {
            self.refresh(&registry);
        }
        waited
    }

    fn listed(&self) -> MutexGuard<'_, (Listing, String)> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one call as a turn of its own.
    async fn run(
        &self,
        engine: &Engine,
        name: &str,
        input: impl Into<haft::CallInput>,
        by_server: bool,
        peer: &Peer,
        cancel: &Cancel,
    ) -> Option<ToolResult> {
        let running = self.common.calls.begin(self.number, peer.clone(), by_server);
        let turn = engine.turn();
        let handle = turn.handle();
        let call = ToolCall::new(running.id(), name, input);
        let mut results = std::pin::pin!(turn.run([call]));
        let mut results = tokio::select! {
            results = &mut results => results,
            cause = cancel.cancelled() => {
                handle.cancel(cause);
                results.await
            }
        };
        hooks::report(&self.member.hooks);
        results.pop()
    }

    async fn call_tool(&self, call: Call) -> Result<Reply, Refusal> {
        let engine = &self.member.engine;
        let is_unknown = matches!(engine.snapshot().find(&call.name), Err(NotFound::Unknown(_)));
        if is_unknown {
            self.server_of(&call.name, &call.cancel).await;
        }
        let (by_server, promises) = match engine.snapshot().find(&call.name) {
            Ok(offer) => (*offer.origin() != Origin::BuiltIn, offer.tool().output_schema().is_some()),
            Err(NotFound::Unknown(closest)) => return Err(unknown(&call.name, &closest)),
            // It is there and not offered: its result says why.
            Err(_) => (false, false),
        };
        let arguments = call.arguments.get().to_owned();
        let result = self.run(engine, &call.name, arguments, by_server, &call.peer, &call.cancel).await;
        let result = result.ok_or_else(|| Refusal::internal("the call has no result"))?;
        Ok(self.reply(&result, promises, call.peer.client().revision))
    }

    /// A result as it goes out. `promises`: the tool says what form its results have.
    fn reply(&self, result: &ToolResult, promises: bool, revision: Revision) -> Reply {
        let mut reply = Reply::from(result);
        if let Some(error) = result.error() {
            reply = reply
                .with_meta("haft/error", json!({"kind": error.kind(), "retryable": error.is_retryable()}));
        }
        let Some(path) = result.offloaded_to() else { return reply };
        if promises && !reply.is_error && reply.structured.is_none() {
            reply.structured = Results::structured(path);
            if reply.structured.is_none() {
                // A result without what was promised would be refused by the client, and nobody would read it.
                reply.is_error = true;
                reply.content.insert(
                    0,
                    Block::text("The call succeeded; its result is too large to be sent as a value."),
                );
            }
        }
        reply.content.extend(self.results.keep(path, result.tool_name(), revision >= Revision::V2025_06_18));
        reply
    }

    /// The engine that passes on, and what it passes on.
    fn passing(&self, tool: &str) -> Option<(&Engine, &Passed)> {
        let passed = self.common.passed.as_deref().filter(|_| self.view.has(tool))?;
        let make = || passed.engine(&self.member.engine, &self.id).ok();
        Some((self.passing.get_or_init(make).as_ref()?, passed))
    }

    /// What a server sent, through the pipeline.
    async fn pass(
        &self,
        engine: &Engine,
        tool: &str,
        input: Value,
        peer: &Peer,
        cancel: &Cancel,
    ) -> Result<Value, Refusal> {
        let result = self.run(engine, tool, input, true, peer, cancel).await;
        let result = result.ok_or_else(|| Refusal::internal("the call has no result"))?;
        match result.outcome() {
            Ok(output) => match output.blocks() {
                [Content::Structured(value), ..] => Ok(value.clone()),
                _ => Err(Refusal::internal("the server's answer was lost")),
            },
            Err(error) => Err(Refusal::new(RefusalKind::Internal, error.message())),
        }
    }

    async fn read_resource(&self, read: Read) -> Result<ReadReply, Refusal> {
        if Results::has_form(&read.uri) {
            return self.results.read(&read.uri);
        }
        let (engine, passed) =
            self.passing(pass::READ).ok_or_else(|| Refusal::unknown_resource(&read.uri))?;
        self.servers_known().await;
        let input = passed.resource(&read.uri).await?;
        let value = self.pass(engine, pass::READ, input, &read.peer, &read.cancel).await?;
        Ok(ReadReply::passed(&value))
    }

    async fn get_prompt(&self, get: GetPrompt) -> Result<PromptReply, Refusal> {
        let (engine, passed) = self.passing(pass::GET).ok_or_else(|| Refusal::unknown_prompt(&get.name))?;
        self.servers_known().await;
        let input = passed.prompt(&get.name, get.arguments).await?;
        let value = self.pass(engine, pass::GET, input, &get.peer, &get.cancel).await?;
        Ok(PromptReply::passed(&value))
    }

    fn instructions(&self) -> String {
        let cwd = self.view.base.ground.workspace.cwd().display().to_string();
        let mut words = format!(
            "These tools work in `{cwd}`; relative paths start there. Every call is judged by the user's rules: one that is \
             denied says why, and what to do instead. A result that is too long comes with its beginning, its end and a \
             link to all of it."
        );
        for server in self.common.pool.iter().flat_map(|pool| pool.servers().iter()) {
            if let Some(own) = server.instructions() {
                let own = haft_mcp::text::shown(&own, INSTRUCTIONS_CHARS_MAX);
                words.push_str(&format!(
                    "\n\nThe server `{}` says how to use its tools: {own}",
                    server.config().name
                ));
            }
        }
        words
    }
}

fn unknown(name: &str, closest: &[String]) -> Refusal {
    let mut refusal = Refusal::unknown_tool(name);
    if !closest.is_empty() {
        refusal.message.push_str(&format!("; closest: {}", closest.join(", ")));
    }
    refusal
}

impl Offer for Client {
    fn about(&self) -> About {
        About::new("haft", env!("CARGO_PKG_VERSION"))
            .with_title("haft")
            .with_instructions(self.instructions())
    }

    fn features(&self) -> Features {
        let features = Features::default().with_tools().with_resources().with_changes();
        if self.common.passed.is_some() { features.with_prompts() } else { features }
    }

    fn tools(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        Box::pin(async move {
            self.servers_known().await;
            Ok(self.listed().0.clone())
        })
    }

    fn tools_now(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        let listed = self.listed().0.clone();
        Box::pin(std::future::ready(Ok(listed)))
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Reply, Refusal>> {
        Box::pin(self.call_tool(call))
    }

    fn resources(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        Box::pin(async move {
            let mut listed = self.results.definitions();
            if let Some((_, passed)) = self.passing(pass::READ) {
                self.servers_known().await;
                listed.extend(passed.resources().await);
            }
            Ok(Listing::new(listed))
        })
    }

    fn resource_templates(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        Box::pin(async move {
            self.servers_known().await;
            match self.passing(pass::READ) {
                Some((_, passed)) => Ok(Listing::new(passed.templates().await)),
                None => Ok(Listing::default()),
            }
        })
    }

    fn read(&self, read: Read) -> BoxFuture<'_, Result<ReadReply, Refusal>> {
        Box::pin(self.read_resource(read))
    }

    fn prompts(&self) -> BoxFuture<'_, Result<Listing, Refusal>> {
        Box::pin(async move {
            self.servers_known().await;
            match self.passing(pass::GET) {
                Some((_, passed)) => Ok(Listing::new(passed.prompts().await)),
                None => Ok(Listing::default()),
            }
        })
    }

    fn prompt(&self, get: GetPrompt) -> BoxFuture<'_, Result<PromptReply, Refusal>> {
        Box::pin(self.get_prompt(get))
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.changes.listen())
    }
}

/// Whether a client can be asked at all.
pub(super) fn can_ask(client: &server::Client, non_interactive: bool) -> bool {
    client.can.form && !non_interactive
}
