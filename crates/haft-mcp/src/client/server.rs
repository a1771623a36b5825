//! One server: its life, its lists and its calls.
//!
//! A task of its own connects, listens for changes and connects again; nobody waits for it but who needs it. What it found
//! last stays when it is gone: its tools are still offered, and the next call brings it back. A call that was under way when
//! it went is an error, once, and never made again by itself: nobody knows what it did.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use haft::{AnyTool, Cancel, Cause, Context, ErrorKind, ToolError};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use super::breaker::Breaker;
use super::definition::Definition;
use super::desk::Desk;
use super::session::{Failure, Patience, Progress, ServerFacts, Session};
use super::tool;
use super::watched::Watched;
use crate::approval::{Known, Subject, Withheld};
use crate::config::{Remote, ServerConfig, Transport, Trust};
use crate::host::Host;
use crate::limits;
use crate::sign_in::account::{Account, SignedIn};
use crate::sign_in::requests::Requests;
use crate::text;
use crate::transport::guard::{Count, Guard, Watch};
use crate::transport::{Log, headers, http, lines, sse, stdio, web_socket};

/// A server of a session. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

/// A server that may be gone.
#[derive(Clone)]
pub(crate) struct WeakServer(Weak<Inner>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

struct Inner {
    config: ServerConfig,
    host: Host,
    state: watch::Sender<State>,
    /// Rung by a call that needs it.
    wanted: Notify,
    stop: Cancel,
    log: Log,
    slots: Semaphore,
    breaker: Mutex<Breaker>,
    offered: Mutex<Arc<Offered>>,
    watched: Watched,
    /// What we are to it, where it can be signed in to.
    account: Option<Arc<Account>>,
    /// Counts what changes for the registry, over all servers.
    version: watch::Sender<u64>,
}

#[derive(Clone)]
struct State {
    status: Status,
    session: Option<Arc<Session>>,
    /// How many attempts to connect have ended.
    attempts: u64,
    /// Why the last attempt failed, if it did.
    failure: Option<String>,
}

impl State {
    fn is_settled(&self) -> bool {
        !matches!(self.status, Status::Connecting) || self.attempts > 0
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// It is being connected.
    Connecting,
    /// It can be used.
    Ready {
        /// What it said of itself.
        facts: ServerFacts,
        /// How long it took until its tools were known.
        took: Duration,
    },
    /// It can't be used.
    Failed {
        /// Why, in words.
        reason: String,
        /// Whether it is tried again by itself; else the next call does.
        retries: bool,
    },
    /// It needs an approval before it is started.
    Unapproved(Withheld),
    /// It wants somebody to sign in: [`Server::sign_in`].
    NeedsSignIn {
        /// What it said, and what the user can do, in words.
        reason: String,
    },
    /// The session is over.
    Stopped,
}

/// What a server offers, as it was when last seen.
#[derive(Default)]
pub(crate) struct Offered {
    pub(crate) tools: Vec<AnyTool>,
    /// The server's own name of each tool, in the order of `tools`.
    pub(crate) names: Vec<String>,
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) left_out: Vec<LeftOut>,
    /// What it listed, and whether there was more, for the case that the user approves something of it.
    listed: Arc<(Vec<Value>, bool)>,
}

/// Something that a server listed and that is not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// What.
    pub name: String,
    /// Why, in words.
    pub reason: String,
}

/// Messages of the present connection that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Dropped {
    /// They made no sense.
    pub invalid: u64,
    /// They answered nothing.
    pub unknown: u64,
    /// Notifications over the rate.
    pub floods: u64,
    /// Requests over the number that may be open.
    pub refused: u64,
}

/// A connection that failed.
struct Fault {
    words: String,
    /// It may be better soon.
    passes: bool,
}

impl Server {
    /// A server that connects from now on. Needs a runtime.
    pub(crate) fn start(
        config: ServerConfig,
        host: Host,
        version: watch::Sender<u64>,
    ) -> (Server, tokio::task::JoinHandle<()>) {
        let first = State { status: Status::Connecting, session: None, attempts: 0, failure: None };
        let log = Log::told_to(&config.name, host.on_log.clone());
        let account = match &config.transport {
            Transport::Http(remote) | Transport::Sse(remote) => {
                Account::new(&config.name, remote, &host, log.clone()).map(Arc::new)
            }
            _ => None,
        };
        let inner = Arc::new(Inner {
            slots: Semaphore::new(config.concurrency.max(1)),
            config,
            host,
            state: watch::Sender::new(first),
            wanted: Notify::new(),
            stop: Cancel::new(),
            log,
            account,
            breaker: Mutex::default(),
            offered: Mutex::default(),
            watched: Watched::default(),
            version,
        });
        let server = Server(inner);
        let task = tokio::spawn(server.clone().live());
        (server, task)
    }

    /// Its configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.0.state.borrow().status.clone()
    }

    /// Why it can't be used, as far as that is known: also while it is tried again.
    pub fn failure(&self) -> Option<String> {
        self.0.state.borrow().failure.clone()
    }

    /// The last of what it complained about, and of what it logged; visible and bounded.
    pub fn log(&self) -> String {
        self.0.log.text()
    }

    /// How many tools it offers.
    pub fn tool_count(&self) -> usize {
        self.offered().tools.len()
    }

    /// Its tools as they are offered, each with the server's own name for it.
    pub fn tools(&self) -> Vec<(String, AnyTool)> {
        let offered = self.offered();
        offered.names.iter().cloned().zip(offered.tools.iter().cloned()).collect()
    }

    /// Resources that were read and that the server says have changed since; each is told once.
    pub fn take_changed_resources(&self) -> Vec<String> {
        self.0.watched.take_changed()
    }

    /// Its tools that need an approval.
    pub fn withheld(&self) -> Vec<Withheld> {
        self.offered().withheld.clone()
    }

    /// What it listed and can't be offered.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.offered().left_out.clone()
    }

    /// What was dropped of what it sent.
    pub fn dropped(&self) -> Dropped {
        let state = self.0.state.borrow();
        let Some(session) = &state.session else { return Dropped::default() };
        let counted = |what| session.watch().counted(what);
        Dropped {
            invalid: counted(Count::Invalid),
            unknown: counted(Count::Unknown),
            floods: counted(Count::Floods),
            refused: counted(Count::Refused),
        }
    }

    /// Approves something that was withheld, and takes it in: the server is started, or the tool offered from the next
    /// turn on.
    ///
    /// # Errors
    /// The approval can't be kept, in words.
    pub fn approve(&self, subject: &Subject) -> Result<(), String> {
        self.0.host.approvals.approve(subject)?;
        self.reconsider();
        Ok(())
    }

    /// Takes in what was approved by other ways than [`approve`](Server::approve).
    pub fn reconsider(&self) {
        if self.0.state.borrow().session.is_none() {
            self.0.wanted.notify_one();
        }
        // What is known of its list counts at once; nobody has to be asked for it.
        let listed = self.offered().listed.clone();
        if !listed.0.is_empty() {
            self.take_in(listed);
        }
    }

    /// Signs in to it, with the host's [`Browser`](crate::Browser), and connects again if it wasn't connected. What is given is
    /// kept in the host's [`TokenStore`](crate::TokenStore).
    ///
    /// # Errors
    /// Why not, in words.
    ///
    /// # Cancel safety
    /// Dropped before the user is done, nothing has changed.
    pub async fn sign_in(&self) -> Result<SignedIn, String> {
        let account = self.account()?;
        // Only what it refuses says what it wants.
        self.settled().await;
        if matches!(self.status(), Status::Unapproved(_)) {
            return Err("it has not been approved; the user can do that with `haft mcp approve`".to_owned());
        }
        let signed_in = account.sign_in(self.0.host.browser.as_deref()).await?;
        let mut state = self.0.state.subscribe();
        let before = state.borrow_and_update().clone();
        if before.session.as_ref().is_none_or(|session| session.watch().is_over()) {
            self.0.wanted.notify_one();
            let known =
                |state: &State| state.attempts > before.attempts || matches!(state.status, Status::Stopped);
            // Whether it is there then is for its status to say.
            let _ = timeout(self.0.config.connect_timeout, state.wait_for(known)).await;
        }
        Ok(signed_in)
    }

    /// Gives back what was given at a sign-in, forgets it, and ends the connection; whether there was anything.
    ///
    /// # Errors
    /// It is still kept, in words.
    pub async fn sign_out(&self) -> Result<bool, String> {
        let signed_out = self.account()?.sign_out().await?;
        let session = self.0.state.borrow().session.clone();
        if let Some(session) = session {
            session.watch().end(Some("you signed out".to_owned()));
        }
        Ok(signed_out)
    }

    /// What is known of a sign-in that is kept.
    pub fn signed_in(&self) -> Option<SignedIn> {
        self.0.account.as_ref()?.signed_in()
    }

    /// Why somebody should sign in, in words: nothing goes without it, or some call wanted more than what was given.
    pub fn wants_sign_in(&self) -> Option<String> {
        self.0.account.as_ref()?.needed().map(|needed| needed.words)
    }

    fn account(&self) -> Result<&Account, String> {
        self.0.account.as_deref().ok_or_else(|| "only servers over HTTP can be signed in to".to_owned())
    }

    /// Completes when it is known whether it can be used.
    pub async fn settled(&self) {
        let _ = self.0.state.subscribe().wait_for(State::is_settled).await;
    }

    /// Whether it is known whether it can be used.
    pub fn is_settled(&self) -> bool {
        self.0.state.borrow().is_settled()
    }

    /// Completes when it is no longer as it was.
    pub async fn changed_from(&self, status: &Status) {
        let _ = self.0.state.subscribe().wait_for(|state| state.status != *status).await;
    }

    pub(crate) fn offered(&self) -> Arc<Offered> {
        lock(&self.0.offered).clone()
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }

    pub(crate) fn stop(&self) {
        self.0.stop.cancel(Cause::Shutdown);
    }

    fn set(&self, status: Status, session: Option<Arc<Session>>) {
        self.0.state.send_modify(|state| {
            state.attempts += u64::from(!matches!(status, Status::Connecting));
            match &status {
                Status::Failed { reason, .. } => state.failure = Some(reason.clone()),
                Status::Connecting => {}
                _ => state.failure = None,
            }
            (state.status, state.session) = (status, session);
        });
    }

    /// The whole life of it.
    async fn live(self) {
        let stop = self.0.stop.clone();
        let (mut tries, mut ever) = (0, false);
        loop {
            self.set(Status::Connecting, None);
            let begun = Instant::now();
            let limit = self.0.config.connect_timeout;
            let connected = tokio::select! {
                _ = stop.cancelled() => break,
                connected = timeout(limit, self.connect()) => connected.unwrap_or_else(|_| {
                    Err(Trouble::Fault(Fault { words: format!("it took longer than {} s", limit.as_secs_f64()), passes: false }))
                }),
            };
            let fault = match connected {
                Ok(session) => {
                    (tries, ever) = (0, true);
                    let ready = Status::Ready { facts: session.facts().clone(), took: begun.elapsed() };
                    self.set(ready, Some(session.clone()));
                    let words = tokio::select! {
                        _ = stop.cancelled() => {
                            session.close().await;
                            break;
                        }
                        words = self.attend(&session) => words,
                    };
                    // What is left of the connection ends by itself.
                    tokio::spawn(async move { session.close().await });
                    Fault { words, passes: true }
                }
                Err(Trouble::Fault(fault)) => fault,
                Err(Trouble::User(status)) => {
                    self.set(status, None);
                    tokio::select! {
                        _ = stop.cancelled() => break,
                        () = self.0.wanted.notified() => continue,
                    }
                }
            };
            tries += 1;
            let most = if ever { limits::RECONNECT_TRIES } else { limits::CONNECT_TRIES };
            // A process that ended had a reason to; it is started again when it is needed.
            let retries = fault.passes && !self.0.config.transport.is_local() && tries <= most;
            self.set(Status::Failed { reason: fault.words, retries }, None);
            let pause = limits::RECONNECT_PAUSE
                .saturating_mul(1 << (tries - 1).min(16))
                .min(limits::RECONNECT_PAUSE_MAX);
            tokio::select! {
                _ = stop.cancelled() => break,
                () = self.0.wanted.notified() => {}
                () = sleep(pause), if retries => {}
            }
        }
        self.set(Status::Stopped, None);
    }

    /// Connects and reads the list of tools.
    async fn connect(&self) -> Result<Arc<Session>, Trouble> {
        let Inner { config, host, .. } = &*self.0;
        if config.trust == Trust::Approvals {
            let subject = Subject { server: config.name.clone(), tool: None, value: config.identity() };
            match host.approvals.known(&subject) {
                Known::Approved => {}
                Known::New => {
                    return Err(Trouble::User(Status::Unapproved(Withheld { subject, before: None })));
                }
                Known::Changed(before) => {
                    let withheld = Withheld { subject, before: Some(before) };
                    return Err(Trouble::User(Status::Unapproved(withheld)));
                }
            }
        }
        if let Some(account) = &self.0.account {
            account.begin();
        }
        let connected = self.connect_approved().await;
        let needed = self.0.account.as_ref().and_then(|account| account.needed());
        match needed.filter(|needed| needed.for_all && connected.is_err()) {
            Some(needed) => Err(Trouble::User(Status::NeedsSignIn { reason: needed.words })),
            None => connected.map_err(Trouble::Fault),
        }
    }

    async fn connect_approved(&self) -> Result<Arc<Session>, Fault> {
        let mut watch = Watch::default();
        let guard = self.guard(watch.clone()).await?;
        let mut opened = self.open(guard, &watch).await;
        if opened.is_err() && watch.was_late() {
            // It knows the newest revision and refuses older ones, but took its time to say so: once more, with patience.
            watch = Watch::default();
            let guard = self.guard(watch.clone()).await?;
            opened = self.open(guard.patient(), &watch).await;
        }
        let session = Arc::new(opened.map_err(judged)?);
        if session.facts().has_tools {
            self.read_tools(&session).await.map_err(|words| Fault { words, passes: true })?;
        }
        Ok(session)
    }

    async fn open(&self, guard: Guard, watch: &Watch) -> Result<Session, String> {
        let Inner { config, host, log, watched, .. } = &*self.0;
        let (server, host, log) = (config.name.clone(), host.clone(), log.clone());
        let desk = Desk { server, host, may_sample: config.may_sample, log, watched: watched.clone() };
        Session::open(guard, watch.clone(), Arc::new(desk)).await
    }

    async fn guard(&self, watch: Watch) -> Result<Guard, Fault> {
        let Inner { config, host, log, account, .. } = &*self.0;
        let stays = |words: String| Fault { words, passes: false };
        let passes = |words: String| Fault { words, passes: true };
        let remote_headers = |remote| headers::of(remote, host.processes.as_deref(), &host.cwd);
        let requests = |remote: &Remote, headers| {
            let proxy = remote.proxy.as_deref().or(host.proxy.as_deref());
            let client = http::client(proxy).map_err(stays)?;
            Ok(Requests::new(client, headers, account.clone()))
        };
        let link = match &config.transport {
            Transport::Stdio(process) => {
                let processes = host.processes.clone();
                let processes = processes.ok_or_else(|| stays("this host starts no processes".to_owned()))?;
                stdio::connect(process, processes, &host.cwd, log.clone()).await.map_err(stays)?
            }
            Transport::InProcess(connector) => lines::link(connector.connect().await.map_err(passes)?),
            Transport::Sse(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(judged)?;
                sse::connect(requests, &remote.url).await.map_err(passes)?
            }
            Transport::WebSocket(remote) => {
                let headers = remote_headers(remote).await.map_err(stays)?;
                web_socket::connect(&remote.url, headers).await.map_err(passes)?
            }
            Transport::Http(remote) => {
                let requests = requests(remote, remote_headers(remote).await.map_err(stays)?)?;
                requests.prepare().await.map_err(judged)?;
                let transport = http::transport(requests, &remote.url, config.concurrency);
                return Ok(Guard::over_http(transport, watch));
            }
        };
        Ok(Guard::over_link(link, watch))
    }

    /// Keeps its lists current until the connection ends, and says why it did.
    async fn attend(&self, session: &Arc<Session>) -> String {
        let mut listening = Box::pin(session.listen(self.0.watched.read()));
        loop {
            let changes = tokio::select! {
                words = session.watch().over() => return words,
                () = &mut listening => continue,
                () = self.0.watched.more() => {
                    listening = Box::pin(session.listen(self.0.watched.read()));
                    continue;
                }
                changes = session.watch().changes() => changes,
            };
            sleep(limits::CHANGE_REST).await;
            let more = session.watch().take_changes();
            // One that can't be read again stays as it was.
            if (changes.tools || more.tools)
                && let Err(words) = self.read_tools(session).await
            {
                self.0.log.add(format!("haft: its list of tools can't be read again: {words}\n").as_bytes());
            }
        }
    }

    /// Reads the list of tools and makes them.
    async fn read_tools(&self, session: &Session) -> Result<(), String> {
        let listed = list(session, "tools/list", "tools").await?;
        self.take_in(Arc::new(listed));
        Ok(())
    }

    /// Offers what may be offered of a list, from the next turn on.
    fn take_in(&self, listed: Arc<(Vec<Value>, bool)>) {
        let offered = self.offer(&listed);
        *lock(&self.0.offered) = Arc::new(offered);
        self.0.version.send_modify(|version| *version += 1);
    }

    fn offer(&self, listed: &Arc<(Vec<Value>, bool)>) -> Offered {
        let Inner { config, host, .. } = &*self.0;
        let keeps = config.trust == Trust::Approvals;
        let mut offered =
            Offered { listed: if keeps { listed.clone() } else { Arc::default() }, ..Offered::default() };
        let more = listed.1;
        let mut seen = std::collections::HashSet::new();
        for value in &listed.0 {
            let shown = text::line(value["name"].as_str().unwrap_or("?"), 100);
            let made = Definition::read(value).and_then(|definition| {
                if !seen.insert(definition.name.clone()) {
                    return Err("another one has its name".to_owned());
                }
                let tool = tool::make(self, &definition)?;
                Ok((definition, tool))
            });
            let (definition, tool) = match made {
                Ok(made) => made,
                Err(reason) => {
                    offered.left_out.push(LeftOut { name: shown, reason });
                    continue;
                }
            };
            if config.trust == Trust::Approvals {
                let (server, name) = (config.name.clone(), Some(definition.name.clone()));
                let subject = Subject { server, tool: name, value: definition.approved_as.clone() };
                let before = match host.approvals.known(&subject) {
                    Known::Approved => None,
                    Known::New => Some(None),
                    Known::Changed(before) => Some(Some(before)),
                };
                if let Some(before) = before {
                    offered.withheld.push(Withheld { subject, before });
                    continue;
                }
            }
            offered.names.push(definition.name);
            offered.tools.push(tool);
        }
        if more {
            let reason =
                format!("the list has more than {} entries; the rest is left out", limits::LIST_ITEMS_MAX);
            offered.left_out.push(LeftOut { name: "…".to_owned(), reason });
        }
        offered
    }

    /// Calls a tool of it, and gives the result as it came.
    pub(crate) async fn call(&self, name: &str, input: Value, cx: &Context) -> Result<Value, ToolError> {
        let config = &self.0.config;
        let _slot =
            self.0.slots.acquire().await.map_err(|_| ToolError::new("the MCP server was shut down"))?;
        let patience = Patience { idle: config.idle(), total: config.call_timeout };
        let far = |progress: Progress| cx.progress(progress.fraction, progress.words);
        let params = json!({"name": name, "arguments": input});
        let mut session = self.session().await?;
        let mut answer = session.request_in_rounds("tools/call", params.clone(), patience, &far).await;
        if matches!(answer, Err(Failure::NotSent(_))) {
            // The server had gone before it could hear of the call, which is then nothing but the next one.
            session = self.session().await?;
            answer = session.request_in_rounds("tools/call", params, patience, &far).await;
        }
        if let Err(Failure::WantsSignIn(words)) = &answer
            && self
                .0
                .account
                .as_ref()
                .and_then(|account| account.needed())
                .is_some_and(|needed| needed.for_all)
        {
            // Nothing goes over this connection any more; the next one has the status that says so.
            session.watch().end(Some(words.clone()));
        }
        if matches!(answer, Ok(_) | Err(Failure::Refused { .. } | Failure::WantsSignIn(_))) {
            lock(&self.0.breaker).reached();
        }
        answer.map_err(|failure| self.lost(&session, failure))
    }

    /// Asks something that changes nothing: lists, resources, prompts.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, ToolError> {
        let session = self.session().await?;
        let asked = session.request_in_rounds(method, params, Patience::REQUEST, &|_| {}).await;
        asked.map_err(|failure| self.lost(&session, failure))
    }

    /// Reads a resource, and watches it from then on.
    pub(crate) async fn read_resource(&self, uri: &str) -> Result<Value, ToolError> {
        let read = self.ask("resources/read", json!({"uri": uri})).await?;
        self.0.watched.was_read(uri);
        Ok(read)
    }

    /// All entries of one of its lists.
    pub(crate) async fn list(&self, method: &str, key: &str) -> Result<Vec<Value>, ToolError> {
        let session = self.session().await?;
        let listed = list(&session, method, key).await;
        listed
            .map(|(entries, _)| entries)
            .map_err(|words| ToolError::new(format!("{}: {words}", self.named())))
    }

    /// A connection that can be used, made if need be.
    async fn session(&self) -> Result<Arc<Session>, ToolError> {
        let live = |state: &State| state.session.clone().filter(|session| !session.watch().is_over());
        if let Some(session) = live(&self.0.state.borrow()) {
            return Ok(session);
        }
        lock(&self.0.breaker).admit(Instant::now()).map_err(|seconds| {
            ToolError::new(format!(
                "{} could not be reached {} times in a row and is left alone; try again in {seconds} s, or do without it",
                self.named(),
                limits::BREAKER_FAILURES
            ))
            .retryable()
        })?;
        let trial = Trial(Some(&self.0.breaker));
        let mut state = self.0.state.subscribe();
        let before = state.borrow_and_update().clone();
        if !matches!(before.status, Status::Connecting) {
            self.0.wanted.notify_one();
        }
        // That a connection was lost is not yet the outcome of making it again.
        let enough = before.attempts + if before.session.is_some() { 2 } else { 1 };
        let known = |state: &State| {
            live(state).is_some() || state.attempts >= enough || matches!(state.status, Status::Stopped)
        };
        let limit = self.0.config.connect_timeout + Duration::from_secs(1);
        let reason = match timeout(limit, state.wait_for(known)).await {
            Ok(Ok(state)) => match (live(&state), &state.status) {
                (Some(session), _) => return Ok(session),
                (None, Status::Failed { reason, .. }) => reason.clone(),
                (None, Status::NeedsSignIn { reason }) => {
                    return Err(ToolError::new(format!("{}: {reason}", self.named())));
                }
                (None, Status::Unapproved(_)) => {
                    "it has not been approved; the user can do that with `haft mcp approve`".to_owned()
                }
                (None, _) => "it was shut down".to_owned(),
            },
            _ => "it took too long to connect".to_owned(),
        };
        trial.failed();
        Err(ToolError::new(format!(
            "{} is not there: {reason}; do without it or tell the user",
            self.named()
        )))
    }

    /// A failure over this connection in words for the model.
    fn lost(&self, session: &Arc<Session>, failure: Failure) -> ToolError {
        if matches!(failure, Failure::Gone(_)) {
            lock(&self.0.breaker).lost(session, Instant::now());
        }
        self.error(&failure)
    }

    fn named(&self) -> String {
        format!("the MCP server `{}`", self.0.config.name)
    }

    /// A failure in words for the model.
    fn error(&self, failure: &Failure) -> ToolError {
        let server = self.named();
        match failure {
            Failure::Refused { code, words } => {
                ToolError::new(format!("{server} answered with error {code}: {words}"))
            }
            Failure::NotSent(words) => {
                ToolError::new(format!("{server} was not reached: {words}")).retryable()
            }
            Failure::WantsSignIn(words) => {
                ToolError::new(format!("{server} did not carry out the call: {words}"))
            }
            Failure::Gone(words) => ToolError::new(format!(
                "{server} went away during the call: {words}; what the call did until then is not known; it is \
                 started again for the next call"
            )),
            Failure::Idle(after) => ToolError::of(
                ErrorKind::TimedOut,
                format!("{server} gave no sign of life for {} s; it was told to stop", after.as_secs_f64()),
            ),
            Failure::TimedOut(after) => ToolError::of(
                ErrorKind::TimedOut,
                format!("the call took longer than {} s; {server} was told to stop", after.as_secs_f64()),
            ),
            Failure::Odd(words) => {
                ToolError::new(format!("{server} answered with something senseless: {words}"))
            }
        }
    }
}

/// A failure in words: the same will not be answered otherwise a second later.
fn judged(words: String) -> Fault {
    let passes = !["authoriz", "HTTP 4", "revision"].iter().any(|sign| words.contains(sign));
    Fault { words, passes }
}

/// Why there is no connection.
enum Trouble {
    Fault(Fault),
    /// The user has to do something first: the status says what.
    User(Status),
}

/// A call that finds out whether the server can be reached. Only an answer to a call says that all is well again.
struct Trial<'a>(Option<&'a Mutex<Breaker>>);

impl Trial<'_> {
    fn failed(mut self) {
        if let Some(breaker) = self.0.take() {
            lock(breaker).failed(Instant::now());
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = self.0.take() {
            lock(breaker).gave_up();
        }
    }
}

/// Reads all pages of a list; and whether there were more entries than are read.
async fn list(session: &Session, method: &str, key: &str) -> Result<(Vec<Value>, bool), String> {
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..limits::LIST_PAGES_MAX {
        let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
        let page = session.request(method, params, Patience::REQUEST, &|_| {}).await;
        let mut page = page.map_err(|failure| match failure {
            Failure::Refused { code, words } => format!("`{method}` was answered with error {code}: {words}"),
            Failure::NotSent(words)
            | Failure::WantsSignIn(words)
            | Failure::Gone(words)
            | Failure::Odd(words) => words,
            Failure::Idle(after) | Failure::TimedOut(after) => {
                format!("`{method}` was not answered within {} s", after.as_secs_f64())
            }
        })?;
        let Value::Array(found) = page[key].take() else {
            return Err(format!("its answer to `{method}` has no `{key}`"));
        };
        let room = limits::LIST_ITEMS_MAX - entries.len();
        let too_many = found.len() > room;
        entries.extend(found.into_iter().take(room));
        let next = page["nextCursor"].as_str().filter(|next| !next.is_empty()).map(str::to_owned);
        // A server that names the same page for ever has said all it has to say.
        if too_many || next.is_none() || next == cursor {
            return Ok((entries, too_many));
        }
        cursor = next;
    }
    Ok((entries, true))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
