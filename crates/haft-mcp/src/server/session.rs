//! One client that is talked to: its requests are carried out here, its answers find their questions here.
//!
//! A session knows what is offered to its client and nothing of how messages travel: each request comes with an [`Outlet`], and
//! what belongs to the request goes out there. In the newest revision, where every request stands alone, a session is only
//! what several requests of the same client share.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use haft::future::BoxFuture;
use haft::schema::parse_json;
use haft::sync::lock;
use haft::{Cancel, Cause};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, oneshot};

use super::Core;
use super::message::{Outcome, SUBSCRIPTION_ID, own_id, write_call};
use super::offer::{Call, Change, Features, GetPrompt, Offer, Read};
use super::peer::{Ask, Level, Line, NotAnswered, Params as Written, Peer};
use super::reply::{Freshness, Refusal, RefusalKind, Stamp};
use super::rounds::{Answer, Binding, Reached, RoundsLine, Run};
use super::who::{Client, Principal, Revision};
use super::wish::{Filter, Params, Wish};
use crate::limits;

/// Where messages to a client go that belong to one request, or to none.
pub(crate) trait Outlet: Send + Sync {
    /// Sends something that may be left out if the client can't take it now.
    fn notify(&self, message: Vec<u8>);

    /// Sends something that has to arrive; whether that is possible at all.
    fn post(&self, message: Vec<u8>) -> bool;

    /// Lets the client go, where it can come back for the rest.
    fn hang_up(&self) {}
}

/// One client, as long as it is there.
pub(crate) struct Session {
    core: Arc<Core>,
    client: Arc<Client>,
    offer: Arc<dyn Offer>,
    features: Features,
    stamp: Stamp,
    /// Above everything that is done for this client.
    cancel: Cancel,
    /// Subscriptions end, so that the connection can.
    ending: Cancel,
    /// Requests under way, by the text of their numbers.
    running: Mutex<HashMap<Box<str>, Cancel>>,
    /// Requests of ours that wait for an answer.
    asks: Mutex<HashMap<u64, oneshot::Sender<Result<Value, NotAnswered>>>>,
    next_ask: AtomicU64,
    /// The least level of lines of the log that go out.
    level: AtomicU8,
    watched: Mutex<HashSet<String>>,
}

impl Session {
    /// Asks what this client is offered.
    ///
    /// # Errors
    /// It is offered nothing.
    pub(crate) async fn open(
        core: &Arc<Core>,
        client: Client,
        cancel: Cancel,
        ending: Cancel,
    ) -> Result<Arc<Session>, Refusal> {
        let client = Arc::new(client);
        let opening = AssertUnwindSafe(core.offers.offer(&client)).catch_unwind();
        let offer = opening.await.unwrap_or_else(|_| Err(broken()))?;
        let mut stamp = Stamp::new(client.revision);
        if client.revision.is_stateless() {
            stamp.server = serde_json::value::to_raw_value(&server_info(&*offer)).ok().map(Arc::from);
        }
        Ok(Arc::new(Session {
            core: core.clone(),
            features: offer.features(),
            client,
            offer,
            stamp,
            cancel,
            ending,
            running: Mutex::default(),
            asks: Mutex::default(),
            next_ask: AtomicU64::new(1),
            level: AtomicU8::new(Level::Info as u8),
            watched: Mutex::default(),
        }))
    }

    pub(crate) fn revision(&self) -> Revision {
        self.client.revision
    }

    pub(crate) fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    pub(crate) fn offer(&self) -> &dyn Offer {
        &*self.offer
    }

    /// What is done for this client ends with this.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// How many requests are under way.
    pub(crate) fn running(&self) -> usize {
        lock(&self.running).len()
    }

    /// The answer to a handshake.
    pub(crate) fn greeting(&self) -> Outcome {
        let mut greeting = self.introduction();
        greeting.insert("protocolVersion".to_owned(), self.revision().name().into());
        greeting.insert("serverInfo".to_owned(), server_info(&*self.offer));
        Outcome::Value(greeting)
    }

    fn introduction(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("capabilities".to_owned(), capabilities(self.features, self.revision()));
        if let Some(instructions) = self.offer.about().instructions {
            map.insert("instructions".to_owned(), instructions.into());
        }
        map
    }

    /// Takes a request. The future gives what it came to, or nothing if nobody waits for it any more; it has to be polled to
    /// its end, or dropped with the whole connection.
    ///
    /// # Errors
    /// It can't be carried out; nothing was begun.
    pub(crate) fn begin(
        self: &Arc<Session>,
        id: &RawValue,
        method: &str,
        mut params: Params,
        reach: Reach,
    ) -> Result<impl Future<Output = Answer> + Send + use<>, Refusal> {
        let wish = Wish::new(method, &mut params, self.revision())?;
        self.has(&wish, method)?;
        // Whether somebody is there is answered at once, however much is under way.
        let most = if matches!(wish, Wish::Ping) { usize::MAX } else { self.core.limits.in_flight };
        let ticket = self.enter(id, reach.cancel, most)?;
        let session = self.clone();
        let id = match wish {
            Wish::Listen(_) => Some(id.to_owned()),
            _ => None,
        };
        Ok(async move {
            let cancel = ticket.cancel.clone();
            let progress =
                params.meta.remove("progressToken").filter(|token| token.is_string() || token.is_number());
            let reached = Reached { outlet: reach.outlet, progress, level: reach.level };
            let answer = if session.revision().is_stateless() && wish.may_ask() {
                session.in_rounds(wish, params, reached, &cancel).await
            } else {
                let line = SimpleLine { session: session.clone(), reached, cancel: cancel.clone() };
                let outlet = line.reached.outlet.clone();
                let peer = Peer::new(session.client.clone(), Arc::new(line));
                let work = session.clone().carry_out(wish, params.meta, peer, cancel.clone(), id, outlet);
                within_reason(work, cancel).await
            };
            // One that was cut has its answer.
            if ticket.leave() { answer } else { None }
        })
    }

    /// A call that may ask by its result.
    async fn in_rounds(
        self: Arc<Session>,
        wish: Wish,
        params: Params,
        reached: Reached,
        request: &Cancel,
    ) -> Answer {
        let principal = self.client.principal.as_ref().map(Principal::identity);
        let binding = match &wish {
            Wish::CallTool { name, arguments } => {
                Binding::new(principal, "tools/call", name, arguments.get())
            }
            Wish::GetPrompt { name, arguments } => {
                let arguments = serde_json::to_string(arguments).unwrap_or_default();
                Binding::new(principal, "prompts/get", name, &arguments)
            }
            Wish::Read(uri) => Binding::new(principal, "resources/read", uri, ""),
            _ => return Some(Err(broken())),
        };
        let core = self.core.clone();
        if let Some(state) = params.state {
            return core
                .rounds
                .resume(&state, &binding, params.given.unwrap_or_default(), reached, request)
                .await;
        }
        let outlet = reached.outlet.clone();
        let line = RoundsLine::new(params.given.unwrap_or_default(), reached);
        let peer = Peer::new(self.client.clone(), line.0.clone());
        // A call outlives the requests that it takes, and nothing above them.
        let cancel = core.cancel.child();
        let run = Run::new(binding, line, cancel.clone());
        let work = self.carry_out(wish, params.meta, peer, cancel.clone(), None, outlet);
        core.rounds.drive(run.with_work(Box::pin(within_reason(work, cancel))), request).await
    }

    async fn carry_out(
        self: Arc<Session>,
        wish: Wish,
        meta: Map<String, Value>,
        peer: Peer,
        cancel: Cancel,
        id: Option<Box<RawValue>>,
        outlet: Arc<dyn Outlet>,
    ) -> Result<Outcome, Refusal> {
        let offer = &self.offer;
        let list = |key, from, listing| Outcome::List { key, from, listing };
        Ok(match wish {
            Wish::CallTool { name, arguments } => {
                let arguments = if arguments.get() == "null" { empty_object() } else { arguments };
                Outcome::Reply(offer.call(Call { name, arguments, meta, peer, cancel }).await?)
            }
            Wish::Ping => Outcome::Done,
            Wish::ListTools(from) => list("tools", from, wanted(offer.tools(), &cancel).await?),
            Wish::ListResources(from) => list("resources", from, wanted(offer.resources(), &cancel).await?),
            Wish::ListTemplates(from) => {
                list("resourceTemplates", from, wanted(offer.resource_templates(), &cancel).await?)
            }
            Wish::ListPrompts(from) => list("prompts", from, wanted(offer.prompts(), &cancel).await?),
            Wish::Read(uri) => Outcome::Read(offer.read(Read { uri, peer, cancel }).await?),
            Wish::GetPrompt { name, arguments } => {
                Outcome::Prompt(offer.prompt(GetPrompt { name, arguments, peer, cancel }).await?)
            }
            Wish::Complete(complete) => Outcome::Completion(wanted(offer.complete(complete), &cancel).await?),
            Wish::SetLevel(level) => {
                self.level.store(level as u8, Ordering::Relaxed);
                Outcome::Done
            }
            Wish::Watch(uri) => self.watch(uri)?,
            Wish::Unwatch(uri) => {
                if lock(&self.watched).remove(&uri) {
                    offer.unwatch(&uri);
                }
                Outcome::Done
            }
            Wish::Discover => self.discovery(),
            Wish::Listen(filter) => {
                let id = id.unwrap_or_else(empty_object);
                self.listen(filter, &id, &*outlet, &cancel).await?
            }
        })
    }

    /// Whether something of this kind is offered.
    fn has(&self, wish: &Wish, method: &str) -> Result<(), Refusal> {
        let has = match wish {
            Wish::Ping | Wish::Discover => true,
            Wish::ListTools(_) | Wish::CallTool { .. } => self.features.tools,
            Wish::ListResources(_) | Wish::ListTemplates(_) | Wish::Read(_) => self.features.resources,
            Wish::Watch(_) | Wish::Unwatch(_) => self.features.watches,
            Wish::ListPrompts(_) | Wish::GetPrompt { .. } => self.features.prompts,
            Wish::Complete(_) => self.features.completions,
            Wish::SetLevel(_) => self.features.logging,
            Wish::Listen(_) => self.features.changes || self.features.watches,
        };
        if has { Ok(()) } else { Err(Refusal::unknown_method(method)) }
    }

    /// Takes all requests that are still under way from those who work on them: whoever has their numbers answers them, and
    /// nobody else does.
    pub(crate) fn cut(&self) -> Vec<Box<str>> {
        lock(&self.running).drain().map(|(id, _)| id).collect()
    }

    fn enter(self: &Arc<Session>, id: &RawValue, cancel: Cancel, most: usize) -> Result<Ticket, Refusal> {
        let mut running = lock(&self.running);
        if running.len() >= most {
            let words = format!("{} requests are under way already; wait for one of them", running.len());
            return Err(Refusal::new(RefusalKind::Code(BUSY), words));
        }
        let id: Box<str> = id.get().into();
        if running.contains_key(&id) {
            return Err(Refusal::new(RefusalKind::Code(super::message::INVALID_REQUEST), DUPLICATE));
        }
        running.insert(id.clone(), cancel.clone());
        Ok(Ticket { session: self.clone(), id, cancel })
    }

    /// Takes a notification.
    pub(crate) fn heard(&self, method: &str, params: Option<&RawValue>) {
        if method == "notifications/cancelled"
            && let Some(id) = cancelled_id(params)
        {
            let running = lock(&self.running).get(id.get()).cloned();
            if let Some(cancel) = running {
                cancel.cancel(Cause::User);
            }
        }
    }

    /// Takes an answer to a request of ours. One that nobody waits for is dropped.
    pub(crate) fn answered(&self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) {
        let Some(waits) = own_id(id).and_then(|id| lock(&self.asks).remove(&id)) else { return };
        // A yes beside a no under the same key is no yes.
        let parsed = |raw: &RawValue| parse_json(raw.get()).map_err(|_| NotAnswered::Senseless);
        let answer = match outcome {
            Ok(result) => parsed(result)
                .and_then(|value| if value.is_object() { Ok(value) } else { Err(NotAnswered::Senseless) }),
            Err(error) => parsed(error).and_then(|error| {
                Err(NotAnswered::Refused {
                    code: error["code"].as_i64().unwrap_or_default(),
                    message: crate::text::line(error["message"].as_str().unwrap_or_default(), 500),
                })
            }),
        };
        let _ = waits.send(answer);
    }

    fn watch(&self, uri: String) -> Result<Outcome, Refusal> {
        let mut watched = lock(&self.watched);
        if watched.contains(&uri) {
            return Ok(Outcome::Done);
        }
        if watched.len() >= limits::WATCHES_MAX {
            return Err(Refusal::invalid(format!(
                "at most {} resources can be watched",
                limits::WATCHES_MAX
            )));
        }
        self.offer.watch(&uri)?;
        watched.insert(uri);
        Ok(Outcome::Done)
    }

    fn discovery(&self) -> Outcome {
        let mut found = self.introduction();
        let alone = Revision::ALL.into_iter().filter(|revision| revision.is_stateless());
        found.insert("supportedVersions".to_owned(), alone.map(Revision::name).collect());
        found.insert("ttlMs".to_owned(), (Freshness::default().ttl.as_millis() as u64).into());
        found.insert("cacheScope".to_owned(), "private".into());
        Outcome::Value(found)
    }

    /// Tells a client of what changes, as a request of the newest revision asks for it.
    async fn listen(
        &self,
        wanted: Filter,
        id: &RawValue,
        outlet: &dyn Outlet,
        cancel: &Cancel,
    ) -> Result<Outcome, Refusal> {
        let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
        let mut changes = self.offer.changes();
        let mut watches = Watches { offer: &*self.offer, uris: HashSet::new() };
        let mut agreed = Map::new();
        if self.features.changes {
            let lists = [
                ("toolsListChanged", wanted.tools && self.features.tools),
                ("promptsListChanged", wanted.prompts && self.features.prompts),
                ("resourcesListChanged", wanted.resources && self.features.resources),
            ];
            for (key, _) in lists.into_iter().filter(|(_, agreed)| *agreed) {
                agreed.insert(key.to_owned(), true.into());
            }
        }
        if self.features.watches {
            for uri in wanted.watches {
                if !watches.uris.contains(&uri) && self.offer.watch(&uri).is_ok() {
                    watches.uris.insert(uri);
                }
            }
            if !watches.uris.is_empty() {
                agreed.insert("resourceSubscriptions".to_owned(), watches.uris.iter().cloned().collect());
            }
        }
        let tagged = |mut params: Value| {
            params["_meta"] = json!({SUBSCRIPTION_ID: id});
            params
        };
        let has = |key: &str| agreed.contains_key(key);
        let (tools, prompts, resources) =
            (has("toolsListChanged"), has("promptsListChanged"), has("resourcesListChanged"));
        let hello = tagged(json!({"notifications": agreed}));
        send(outlet, "notifications/subscriptions/acknowledged", &hello);
        loop {
            let batch = tokio::select! {
                batch = next_changes(changes.as_mut()) => batch,
                _ = cancel.cancelled() => return Ok(Outcome::Listened),
                _ = self.ending.cancelled() => return Ok(Outcome::Listened),
            };
            for change in batch {
                let wanted = match &change {
                    Change::Tools => tools,
                    Change::Prompts => prompts,
                    Change::Resources => resources,
                    Change::Resource(uri) => watches.uris.contains(&**uri),
                };
                if wanted {
                    let (method, params) = told(&change);
                    send(outlet, method, &tagged(params));
                }
            }
        }
    }

    /// Tells a client of a revision with a handshake what changes. Never ends.
    pub(crate) async fn tell_changes(&self, outlet: &dyn Outlet) {
        let mut changes = self.offer.changes();
        loop {
            for change in next_changes(changes.as_mut()).await {
                let wanted = match &change {
                    Change::Tools => self.features.changes && self.features.tools,
                    Change::Prompts => self.features.changes && self.features.prompts,
                    Change::Resources => self.features.changes && self.features.resources,
                    Change::Resource(uri) => lock(&self.watched).contains(&**uri),
                };
                if wanted {
                    let (method, params) = told(&change);
                    send(outlet, method, &params);
                }
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for uri in lock(&self.watched).drain() {
            self.offer.unwatch(&uri);
        }
    }
}

/// By what a request is reached, and how it ends.
pub(crate) struct Reach {
    pub(crate) outlet: Arc<dyn Outlet>,
    /// Raised when nobody waits for its answer any more.
    pub(crate) cancel: Cancel,
    /// The least level of lines of the log, where the request says so.
    pub(crate) level: Option<Level>,
}

/// What a request is told whose number is taken.
pub(crate) const DUPLICATE: &str = "a request with this `id` is still under way";

/// JSON-RPC leaves these numbers to servers.
const BUSY: i32 = -32000;

/// A request that is under way.
struct Ticket {
    session: Arc<Session>,
    id: Box<str>,
    cancel: Cancel,
}

impl Ticket {
    /// Ends it; whether it was still under way.
    fn leave(self) -> bool {
        lock(&self.session.running).remove(&self.id).is_some()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.session.running).remove(&self.id);
    }
}

/// Resources that are watched for one subscription.
struct Watches<'a> {
    offer: &'a dyn Offer,
    uris: HashSet<String>,
}

impl Drop for Watches<'_> {
    fn drop(&mut self) {
        for uri in self.uris.drain() {
            self.offer.unwatch(&uri);
        }
    }
}

/// What changes nothing has nothing to put in order: it ends where it stands once nobody wants it.
async fn wanted<T>(work: impl Future<Output = Result<T, Refusal>>, cancel: &Cancel) -> Result<T, Refusal> {
    tokio::select! {
        biased;
        done = work => done,
        _ = cancel.cancelled() => Err(cut_off()),
    }
}

/// Carries something out until it is done or, for a while, until it was cancelled. A panic is our fault. Who waits when the
/// server ends is told how far it came, or that nobody knows.
async fn within_reason(
    work: impl Future<Output = Result<Outcome, Refusal>> + Send,
    cancel: Cancel,
) -> Answer {
    let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
    tokio::select! {
        biased;
        // One that was cancelled at the same time is heard by nobody.
        done = &mut work => {
            let is_heard = matches!(cancel.cause(), None | Some(Cause::Shutdown));
            is_heard.then(|| done.unwrap_or_else(|_| Err(broken())))
        }
        cause = cancel.cancelled() => {
            // It may have something to put in order; what it says then is heard by nobody who went away.
            let done = tokio::time::timeout(limits::CANCEL_GRACE, work).await;
            let said = || done.unwrap_or_else(|_| Ok(Err(cut_off()))).unwrap_or_else(|_| Err(broken()));
            (cause == Cause::Shutdown).then(said)
        }
    }
}

/// What somebody is told whose request was not done when the server ended.
pub(crate) fn cut_off() -> Refusal {
    let words = "the server ended before this was done; what it did until then is not known";
    Refusal::new(RefusalKind::Code(BUSY), words)
}

fn broken() -> Refusal {
    Refusal::internal("the server failed at this request; nothing more is known")
}

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
}

fn server_info(offer: &dyn Offer) -> Value {
    let about = offer.about();
    let mut info = json!({"name": about.name, "version": about.version});
    if let Some(title) = about.title {
        info["title"] = title.into();
    }
    info
}

fn capabilities(features: Features, revision: Revision) -> Value {
    let mut can = Map::new();
    let list = || if features.changes { json!({"listChanged": true}) } else { json!({}) };
    if features.tools {
        can.insert("tools".to_owned(), list());
    }
    if features.resources {
        let mut resources = list();
        if features.watches {
            resources["subscribe"] = true.into();
        }
        can.insert("resources".to_owned(), resources);
    }
    if features.prompts {
        can.insert("prompts".to_owned(), list());
    }
    if features.completions && revision >= Revision::V2025_03_26 {
        can.insert("completions".to_owned(), json!({}));
    }
    if features.logging {
        can.insert("logging".to_owned(), json!({}));
    }
    Value::Object(can)
}

/// The number in `notifications/cancelled`.
fn cancelled_id(params: Option<&RawValue>) -> Option<Box<RawValue>> {
    #[derive(serde::Deserialize)]
    struct Cancelled {
        #[serde(rename = "requestId")]
        id: Box<RawValue>,
    }
    serde_json::from_str::<Cancelled>(params?.get()).ok().map(|cancelled| cancelled.id)
}

/// What changed since the last time, each once. Waits for the first.
async fn next_changes(changes: Option<&mut broadcast::Receiver<Change>>) -> HashSet<Change> {
    let Some(changes) = changes else { return std::future::pending().await };
    let mut batch = HashSet::new();
    match changes.recv().await {
        Ok(change) => {
            batch.insert(change);
        }
        Err(broadcast::error::RecvError::Lagged(_)) => {
            batch.extend([Change::Tools, Change::Prompts, Change::Resources]);
        }
        Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
    }
    loop {
        match changes.try_recv() {
            Ok(change) => {
                batch.insert(change);
            }
            Err(broadcast::error::TryRecvError::Lagged(_)) => {
                batch.extend([Change::Tools, Change::Prompts, Change::Resources]);
            }
            Err(_) => return batch,
        }
    }
}

fn told(change: &Change) -> (&'static str, Value) {
    match change {
        Change::Tools => ("notifications/tools/list_changed", json!({})),
        Change::Prompts => ("notifications/prompts/list_changed", json!({})),
        Change::Resources => ("notifications/resources/list_changed", json!({})),
        Change::Resource(uri) => ("notifications/resources/updated", json!({"uri": &**uri})),
    }
}

fn send(outlet: &dyn Outlet, method: &str, params: &dyn Written) {
    let mut message = Vec::with_capacity(160);
    write_call(&mut message, None, method, params);
    outlet.notify(message);
}

/// The line of a request that asks by requests of its own, or not at all.
struct SimpleLine {
    session: Arc<Session>,
    reached: Reached,
    cancel: Cancel,
}

impl Line for SimpleLine {
    fn notify(&self, method: &'static str, params: &dyn Written) {
        send(&*self.reached.outlet, method, params);
    }

    fn progress(&self) -> Option<Value> {
        self.reached.progress.clone()
    }

    fn hang_up(&self) {
        self.reached.outlet.hang_up();
    }

    fn wants(&self, level: Level) -> bool {
        if self.session.revision().is_stateless() {
            return self.reached.level.is_some_and(|least| level >= least);
        }
        level as u8 >= self.session.level.load(Ordering::Relaxed)
    }

    fn ask<'a>(&'a self, asks: Vec<Ask>) -> BoxFuture<'a, Result<Vec<Value>, NotAnswered>> {
        Box::pin(async move {
            if self.session.revision().is_stateless() {
                return Err(NotAnswered::Gone);
            }
            let open: Vec<OpenAsk<'_>> =
                asks.iter().map(|ask| OpenAsk::new(self, ask)).collect::<Result<_, _>>()?;
            let mut answers = Vec::with_capacity(open.len());
            for mut ask in open {
                let answer = tokio::select! {
                    biased;
                    answer = &mut ask.answer => answer.unwrap_or(Err(NotAnswered::Gone)),
                    _ = self.cancel.cancelled() => Err(NotAnswered::Gone),
                };
                ask.done = answer != Err(NotAnswered::Gone);
                answers.push(answer?);
            }
            Ok(answers)
        })
    }
}

/// A request of ours that waits. Dropped before its answer, it tells the client.
struct OpenAsk<'a> {
    line: &'a SimpleLine,
    id: u64,
    answer: oneshot::Receiver<Result<Value, NotAnswered>>,
    done: bool,
}

impl<'a> OpenAsk<'a> {
    fn new(line: &'a SimpleLine, ask: &Ask) -> Result<OpenAsk<'a>, NotAnswered> {
        let session = &line.session;
        let (send, answer) = oneshot::channel();
        let id = session.next_ask.fetch_add(1, Ordering::Relaxed);
        {
            let mut asks = lock(&session.asks);
            if asks.len() >= limits::ASKS_OPEN_MAX {
                return Err(NotAnswered::TooMuch);
            }
            asks.insert(id, send);
        }
        let open = OpenAsk { line, id, answer, done: false };
        let mut message = Vec::with_capacity(256);
        let params = ask.written(session.revision() >= Revision::V2025_11_25);
        write_call(&mut message, Some(id), ask.method, &params);
        if line.reached.outlet.post(message) { Ok(open) } else { Err(NotAnswered::Gone) }
    }
}

impl Drop for OpenAsk<'_> {
    fn drop(&mut self) {
        lock(&self.line.session.asks).remove(&self.id);
        if !self.done {
            let params = json!({"requestId": format!("haft-{}", self.id), "reason": "nobody waits for the answer any more"});
            send(&*self.line.reached.outlet, "notifications/cancelled", &params);
        }
    }
}
