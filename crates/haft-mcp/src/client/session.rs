//! One live connection to a server: handshake, requests and results.
//!
//! Requests, notifications and the handshake are the SDK's types. Results and forms are JSON, validated field
//! by field: one invalid tool or block must not cost the others, and the SDK's type of a form rejects what
//! can be shown.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::sync::lock;
use rmcp::RoleClient;
use rmcp::model::{
    ClientConfig, ClientRequest, ClientResult, CustomResult, ErrorCode, ErrorData, InputResponses,
    ProgressToken, ProtocolVersion, Request, ServerNotification, ServerPeerInfo, ServerRequest, ServerResult,
    SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, NotificationContext, Peer, PeerRequestOptions,
    RequestContext, RequestHandle, RunningService, Service, ServiceError,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::pages;
use super::server_task::ServerTask;
use crate::limits;
use crate::text;
use crate::transport::NotSent;
use crate::transport::field_order::ORDER;
use crate::transport::guard::{ConnectionWatch, IdleEpoch, TransportGuard, UNREADABLE};

/// What a server may ask of us, and tell us.
pub(crate) trait ClientSide: Send + Sync + 'static {
    /// What this client can do, as the handshake says it.
    fn capabilities(&self) -> Value;

    /// Answers a request of the server.
    fn answer<'a>(&'a self, method: &'a str, params: Value) -> BoxFuture<'a, Result<Value, ErrorData>>;

    /// Takes a notification of the server; must not take long.
    fn receive(&self, notification: &ServerNotification);

    /// Told of a request of ours that is over.
    fn asked(&self, over: &FinishedRequest<'_>);

    /// Told how long the connection lasted.
    fn ended(&self, revision: &str, after: Duration);
}

/// A request of ours that is over.
pub(crate) struct FinishedRequest<'a> {
    pub(crate) method: &'a str,
    /// The tool or prompt of the request.
    pub(crate) name: Option<&'a str>,
    /// The resource of the request.
    pub(crate) uri: Option<&'a str>,
    pub(crate) revision: &'a str,
    pub(crate) took: Duration,
    /// What went wrong, as one word, or the server's own number.
    pub(crate) error: Option<Cow<'static, str>>,
}

/// The error for a server's request that this client doesn't support.
pub(crate) fn unsupported_method(method: &str) -> ErrorData {
    let message = format!("this client doesn't answer `{}`", text::display_line(method, 60));
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}

/// What a server said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The revision of the protocol that both speak.
    pub revision: String,
    /// What it calls itself, with its version.
    pub implementation: Option<String>,
    /// What it says about how to use it; visible and bounded.
    pub instructions: Option<String>,
    /// Whether it has tools.
    pub has_tools: bool,
    /// Whether it has resources.
    pub has_resources: bool,
    /// Whether it has prompts.
    pub has_prompts: bool,
    /// Whether it says when its lists change.
    pub says_changes: bool,
    /// Whether it says when a resource changes, if it is asked to.
    pub says_updates: bool,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestFailure {
    /// The server refused it; before it is made again, the user has to open these pages.
    Refused { code: i32, words: String, pages: Vec<Value> },
    /// It can't have arrived, and the connection is of no use.
    NotSent(String),
    /// The server refused to hear it before somebody signs in, in words.
    WantsSignIn(String),
    /// It left, and the connection ended before an answer came.
    Gone(String),
    /// No sign of life for so long.
    Idle(Duration),
    /// It took longer than it may.
    TimedOut(Duration),
    /// The answer makes no sense.
    Odd(String),
}

impl RequestFailure {
    /// In a word, for who counts failures.
    fn word(&self) -> Cow<'static, str> {
        match self {
            RequestFailure::Refused { code, .. } => Cow::Owned(code.to_string()),
            RequestFailure::NotSent(_) => Cow::Borrowed("not_sent"),
            RequestFailure::WantsSignIn(_) => Cow::Borrowed("wants_sign_in"),
            RequestFailure::Gone(_) => Cow::Borrowed("connection_lost"),
            RequestFailure::Idle(_) | RequestFailure::TimedOut(_) => Cow::Borrowed("timeout"),
            RequestFailure::Odd(_) => Cow::Borrowed("invalid_answer"),
        }
    }
}

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTimeouts {
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
}

impl RequestTimeouts {
    pub(crate) const REQUEST: RequestTimeouts =
        RequestTimeouts { idle: limits::REQUEST_TIMEOUT, total: limits::REQUEST_TIMEOUT };
}

/// How far a request is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestProgress {
    pub(crate) fraction: Option<f64>,
    pub(crate) words: String,
}

/// A live connection. Dropped, it ends.
pub(crate) struct ClientSession {
    peer: Peer<RoleClient>,
    service: Mutex<Option<RunningService<RoleClient, ClientMessageHandler>>>,
    facts: ServerFacts,
    watch: ConnectionWatch,
    shared: Arc<SessionShared>,
    client: Arc<dyn ClientSide>,
    begun: Instant,
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.client.ended(&self.facts.revision, self.begun.elapsed());
    }
}

/// What the SDK's task and the requests share.
#[derive(Default)]
struct SessionShared {
    progress: Mutex<HashMap<ProgressToken, mpsc::Sender<RequestProgress>>>,
    /// Requests of the server that somebody works on: while the user thinks, a call is not idle.
    busy: AtomicUsize,
    /// Resources that the server was asked to watch.
    subscribed: Mutex<HashSet<String>>,
    /// Pages that the user was asked to open and that requests wait for.
    pages: pages::OpenPages,
    /// What the server is being told of requests that nobody waits for any more.
    cancelling: Mutex<JoinSet<()>>,
}

impl SessionShared {
    fn subscribed(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.subscribed)
    }

    fn cancelling(&self) -> MutexGuard<'_, JoinSet<()>> {
        lock(&self.cancelling)
    }

    fn progress(&self) -> MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<RequestProgress>>> {
        lock(&self.progress)
    }
}

impl ClientSession {
    /// Shakes hands, by the newest revision that both know.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) async fn open(
        guard: TransportGuard,
        watch: ConnectionWatch,
        client: Arc<dyn ClientSide>,
    ) -> Result<ClientSession, String> {
        let begun = Instant::now();
        let opened = ClientSession::shake_hands(guard, watch, client.clone(), begun).await;
        client.asked(&FinishedRequest {
            method: "initialize",
            name: None,
            uri: None,
            revision: opened.as_ref().map_or("", |session| &session.facts.revision),
            took: begun.elapsed(),
            error: opened.as_ref().err().map(|_| Cow::Borrowed("no_handshake")),
        });
        opened
    }

    async fn shake_hands(
        guard: TransportGuard,
        watch: ConnectionWatch,
        client: Arc<dyn ClientSide>,
        begun: Instant,
    ) -> Result<ClientSession, String> {
        let shared = Arc::new(SessionShared::default());
        let config = json!({
            "protocolVersion": ProtocolVersion::LATEST_WITH_INITIALIZE.as_str(),
            "capabilities": client.capabilities(),
            "clientInfo": {"name": "haft", "version": env!("CARGO_PKG_VERSION")},
        });
        let config: ClientConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
        let answers = ClientMessageHandler {
            config,
            client: client.clone(),
            shared: shared.clone(),
            watch: watch.clone(),
        };
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let opened = tokio::select! {
            opened = answers.serve_with_lifecycle(guard, mode) => opened,
            words = watch.over() => return Err(words),
        };
        let service = opened.map_err(|error| {
            watch.ended().unwrap_or_else(|| {
                text::display_line(&format!("no handshake: {}", describe_error(&error)), 500)
            })
        })?;
        let peer = service.peer().clone();
        let facts = peer.peer_info().map(|info| server_facts(&info)).unwrap_or_default();
        if !ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == facts.revision) {
            let known: Vec<&str> =
                ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
            return Err(format!(
                "it speaks revision `{}` of the protocol; known are {}",
                text::display_line(&facts.revision, 60),
                known.join(", ")
            ));
        }
        Ok(ClientSession { peer, service: Mutex::new(Some(service)), facts, watch, shared, client, begun })
    }

    pub(crate) fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    pub(crate) fn watch(&self) -> &ConnectionWatch {
        &self.watch
    }

    /// Sends a request and waits for its answer. Dropping the future tells the server that nobody waits any
    /// more.
    pub(crate) async fn request(
        &self,
        request: &ClientRequest,
        patience: RequestTimeouts,
        on_progress: &(dyn Fn(RequestProgress) + Send + Sync),
    ) -> Result<Value, RequestFailure> {
        // What stands if the future is dropped.
        let error = Some(Cow::Borrowed("cancelled"));
        let mut telling = CompletionReport { session: self, request, begun: Instant::now(), error };
        let answer = self.answered(request, patience, on_progress).await;
        telling.error = answer.as_ref().err().map(RequestFailure::word);
        answer
    }

    async fn answered(
        &self,
        request: &ClientRequest,
        patience: RequestTimeouts,
        on_progress: &(dyn Fn(RequestProgress) + Send + Sync),
    ) -> Result<Value, RequestFailure> {
        let options = PeerRequestOptions::no_options();
        let sent = tokio::select! {
            sent = self.peer.send_cancellable_request(request.clone(), options) => sent,
            words = self.watch.over() => return Err(RequestFailure::NotSent(words)),
        };
        let handle = sent.map_err(|error| RequestFailure::NotSent(self.words(&error)))?;
        let (sender, mut progress) = mpsc::channel(8);
        let token = handle.progress_token.clone();
        self.shared.progress().insert(token.clone(), sender);
        let mut pending = PendingRequest { handle: Some(handle), shared: &self.shared, token };

        let begun = Instant::now();
        let mut sign_of_life = begun;
        let end = begun + patience.total;
        loop {
            let Some(handle) = &mut pending.handle else { return Err(RequestFailure::Gone(String::new())) };
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    pending.done();
                    return match answer {
                        Ok(Ok(ServerResult::CustomResult(CustomResult(result)))) => if result.is_object() { Ok(result) } else { Err(RequestFailure::Odd("its result is no object".to_owned())) },
                        Ok(Ok(result)) => serde_json::to_value(result).map_err(|error| RequestFailure::Odd(error.to_string())),
                        Ok(Err(error)) => Err(self.failure(&error)),
                        Err(_) => Err(RequestFailure::Gone(self.why())),
                    };
                }
                words = self.watch.over() => {
                    pending.done();
                    return Err(RequestFailure::Gone(words));
                }
                Some(far) = progress.recv() => {
                    sign_of_life = Instant::now();
                    on_progress(far);
                }
                () = tokio::time::sleep_until((sign_of_life + patience.idle).min(end)) => {
                    if Instant::now() >= end {
                        return Err(RequestFailure::TimedOut(patience.total));
                    }
                    if self.shared.busy.load(Ordering::Relaxed) == 0 {
                        return Err(RequestFailure::Idle(patience.idle));
                    }
                    sign_of_life = Instant::now();
                }
            }
        }
    }

    /// The same for requests that a server may answer by asking for more input, as often as it may.
    pub(crate) async fn request_in_rounds(
        &self,
        request: &ClientRequest,
        patience: RequestTimeouts,
        on_progress: &(dyn Fn(RequestProgress) + Send + Sync),
    ) -> Result<Value, RequestFailure> {
        // What the server wants to know meanwhile nobody has to answer afterwards.
        let _under_way = self.watch.begin();
        let mut asked = Cow::Borrowed(request);
        for _ in 0..limits::ROUNDS_MAX {
            let answer = match self.request(&asked, patience, on_progress).await {
                Err(RequestFailure::Refused { words, pages, .. }) if !pages.is_empty() => {
                    self.show(&words, pages).await?;
                    asked = Cow::Borrowed(request);
                    continue;
                }
                answer => answer?,
            };
            if answer["resultType"] == "task" {
                let task = ServerTask::new(self, &answer)?;
                return task.follow(patience, on_progress).await;
            }
            if answer["resultType"] != "input_required" {
                return Ok(answer);
            }
            let mut responses = InputResponses::new();
            if let Some(requests) = answer["inputRequests"].as_object() {
                if requests.len() > limits::REQUESTS_OPEN_MAX {
                    return Err(RequestFailure::Odd("it asked for too much at once".to_owned()));
                }
                for (key, request) in requests {
                    responses.insert(key.clone(), self.answer_question(request).await?);
                }
            }
            let state = answer["requestState"].as_str().map(str::to_owned);
            asked = Cow::Owned(with_responses(request.clone(), responses, state));
        }
        Err(RequestFailure::Odd(format!("it asked for more input {} times", limits::ROUNDS_MAX)))
    }

    /// Answers one question of a result.
    pub(super) async fn answer_question(&self, question: &Value) -> Result<Value, RequestFailure> {
        let method = question["method"].as_str().unwrap_or_default();
        let answer = self.client.answer(method, question["params"].clone()).await;
        answer.map_err(|error| RequestFailure::Refused {
            code: error.code.0,
            words: error.message.into_owned(),
            pages: Vec::new(),
        })
    }

    /// Sends a request that nobody waits for, also while the connection is being closed.
    pub(super) fn send_last(&self, request: ClientRequest) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let peer = self.peer.clone();
        let sent = async move {
            let _ = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        };
        let mut cancelling = self.shared.cancelling();
        while cancelling.try_join_next().is_some() {}
        cancelling.spawn_on(sent, &runtime);
    }

    /// Has the user open the pages without which the server refuses, and waits a while until it says that the
    /// user is done.
    async fn show(&self, words: &str, pages: Vec<Value>) -> Result<(), RequestFailure> {
        let waiting = self.shared.pages.wait_for(&pages);
        for mut page in pages {
            let url = text::display_line(page["url"].as_str().unwrap_or("?"), limits::URI_CHARS_MAX);
            let about = page["message"].as_str().unwrap_or_default();
            page["message"] = json!(format!("{about}\nThe call is made again when you are done there."));
            let answer = self.client.answer("elicitation/create", page).await;
            let why = match answer {
                Ok(answer) if answer["action"] == "accept" => continue,
                Ok(_) => "and the user did not".to_owned(),
                Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    "and nobody can be asked here".to_owned()
                }
                Err(error) => format!("and the user was not asked: {}", error.message),
            };
            let words = format!("{words}; the user has to open {url} first, {why}");
            return Err(RequestFailure::Refused { code: pages::NEEDS_PAGES, words, pages: Vec::new() });
        }
        // Not every server says so.
        let _ = tokio::time::timeout(limits::PAGE_WAIT, waiting.done()).await;
        Ok(())
    }

    /// Listens for changes of lists and of these resources, where the revision wants that to be asked for.
    /// Ends with the connection.
    pub(crate) async fn listen(&self, resources: Vec<String>) {
        let mut resources = if self.facts.says_updates { resources } else { Vec::new() };
        if self.facts.revision.as_str() < ProtocolVersion::NO_INITIALIZE.as_str() {
            resources.retain(|uri| !self.shared.subscribed().contains(uri));
            for uri in resources {
                // One that can't be watched was read all the same.
                let request = Request::new(SubscribeRequestParams::new(uri.as_str()));
                let request = ClientRequest::SubscribeRequest(request);
                let _ = self.request(&request, RequestTimeouts::REQUEST, &|_| {}).await;
                self.shared.subscribed().insert(uri);
            }
            return std::future::pending().await;
        }
        if !self.facts.says_changes && resources.is_empty() {
            return std::future::pending().await;
        }
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        filter.resource_subscriptions = (!resources.is_empty()).then_some(resources);
        // What comes is noted before the SDK sees it; here it is only kept flowing.
        if let Ok(mut subscription) = self.peer.listen(filter).await {
            while let Ok(Some(_)) = subscription.next().await {}
        }
        std::future::pending().await
    }

    /// Ends the connection politely, for a bounded time.
    pub(crate) async fn close(&self) {
        self.watch.close();
        // What was cancelled is told before nothing can be told any more, unless nobody listens.
        let mut cancelling = std::mem::take(&mut *self.shared.cancelling());
        let all = async { while cancelling.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(limits::LAST_WORD_WAIT, all).await;
        self.watch.hang_up();
        let service = lock(&self.service).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(limits::CLOSE_GRACE * 6).await;
        }
    }

    fn why(&self) -> String {
        self.watch.ended().unwrap_or_else(|| "the connection ended".to_owned())
    }

    fn words(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::TransportClosed => self.why(),
            ServiceError::TransportSend(error) => crate::transport::error_chain(&*error.error),
            error => text::display_line(&error.to_string(), 500),
        }
    }

    fn failure(&self, error: &ServiceError) -> RequestFailure {
        match error {
            // Ours, not the server's.
            ServiceError::McpError(error) if error.code == UNREADABLE => {
                RequestFailure::Odd(text::display_line(&error.message, limits::ERROR_CHARS_MAX))
            }
            ServiceError::McpError(error) => RequestFailure::Refused {
                code: error.code.0,
                words: text::display_text(&error.message, limits::ERROR_CHARS_MAX),
                pages: pages::named_in(error.code.0, error.data.as_ref()),
            },
            ServiceError::TransportClosed => RequestFailure::Gone(self.why()),
            ServiceError::TransportSend(unsent) => {
                let words = self.words(error);
                match unsent.error.downcast_ref::<NotSent>() {
                    Some(NotSent { certain: true, .. }) => {
                        // Whoever comes next needs another connection.
                        self.watch.end(Some(words.clone()));
                        RequestFailure::NotSent(words)
                    }
                    Some(NotSent { wants_sign_in: true, .. }) => RequestFailure::WantsSignIn(words),
                    // By HTTP the answer comes with the sending, so nobody knows whether it arrived.
                    _ => RequestFailure::Gone(words),
                }
            }
            error => RequestFailure::Odd(self.words(error)),
        }
    }
}

/// Tells of a request when it is over, also where nobody waits any more.
struct CompletionReport<'a> {
    session: &'a ClientSession,
    request: &'a ClientRequest,
    begun: Instant,
    error: Option<Cow<'static, str>>,
}

impl Drop for CompletionReport<'_> {
    fn drop(&mut self) {
        let (name, uri) = match self.request {
            ClientRequest::CallToolRequest(request) => (Some(&*request.params.name), None),
            ClientRequest::GetPromptRequest(request) => (Some(&*request.params.name), None),
            ClientRequest::ReadResourceRequest(request) => (None, Some(&*request.params.uri)),
            ClientRequest::SubscribeRequest(request) => (None, Some(&*request.params.uri)),
            ClientRequest::CustomRequest(request) => {
                (request.params.as_ref().and_then(|params| params["name"].as_str()), None)
            }
            _ => (None, None),
        };
        self.session.client.asked(&FinishedRequest {
            method: self.request.method(),
            name,
            uri,
            revision: &self.session.facts.revision,
            took: self.begun.elapsed(),
            error: self.error.take(),
        });
    }
}

/// A handshake that failed, without the SDK's word for each layer.
fn describe_error(error: &rmcp::service::ClientInitializeError) -> String {
    use rmcp::service::ClientInitializeError as Bad;
    match error {
        Bad::TransportError { error, .. } => crate::transport::error_chain(&*error.error),
        Bad::LegacyFallbackFailed { fallback, .. } => describe_error(fallback),
        Bad::JsonRpcError(error) => format!("{} ({})", error.message, error.code.0),
        Bad::ConnectionClosed(_) => "it ended the connection".to_owned(),
        Bad::ConflictInitResponseId(..) | Bad::UncorrelatedErrorResponse { .. } => {
            "it answered something else".to_owned()
        }
        Bad::ExpectedInitResponse(_) | Bad::ExpectedInitResult(_) => {
            "its first answer makes no sense".to_owned()
        }
        error => error.to_string(),
    }
}

fn server_facts(info: &ServerPeerInfo) -> ServerFacts {
    let can = &info.capabilities;
    let changes = [
        can.tools.as_ref().and_then(|tools| tools.list_changed),
        can.resources.as_ref().and_then(|resources| resources.list_changed),
        can.prompts.as_ref().and_then(|prompts| prompts.list_changed),
    ];
    let implementation = info
        .server_info
        .as_ref()
        .map(|server| text::display_line(format!("{} {}", server.name, server.version).trim(), 120));
    let instructions = info.instructions.as_deref();
    let instructions = instructions.map(|words| text::display_text(words, limits::DESCRIPTION_CHARS_MAX));
    ServerFacts {
        revision: info.protocol_version.as_str().to_owned(),
        implementation,
        instructions: instructions.filter(|words| !words.is_empty()),
        has_tools: can.tools.is_some(),
        has_resources: can.resources.is_some(),
        has_prompts: can.prompts.is_some(),
        says_changes: changes.contains(&Some(true)),
        says_updates: can.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true),
    }
}

/// The request with answers to the questions of its last result.
fn with_responses(
    mut request: ClientRequest,
    responses: InputResponses,
    state: Option<String>,
) -> ClientRequest {
    let (input_responses, request_state) = match &mut request {
        ClientRequest::CallToolRequest(Request { params, .. }) => {
            (&mut params.input_responses, &mut params.request_state)
        }
        ClientRequest::GetPromptRequest(Request { params, .. }) => {
            (&mut params.input_responses, &mut params.request_state)
        }
        ClientRequest::ReadResourceRequest(Request { params, .. }) => {
            (&mut params.input_responses, &mut params.request_state)
        }
        _ => return request,
    };
    (*input_responses, *request_state) = (Some(responses), state);
    request
}

/// A request that waits. Dropped before its answer, it tells the server.
struct PendingRequest<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    shared: &'a SessionShared,
    token: ProgressToken,
}

impl PendingRequest<'_> {
    fn done(&mut self) {
        self.handle = None;
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.shared.progress().remove(&self.token);
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), tokio::runtime::Handle::try_current()) {
            let mut cancelling = self.shared.cancelling();
            while cancelling.try_join_next().is_some() {}
            let told = async move {
                let _ = handle.cancel(Some("nobody waits for the answer any more".to_owned())).await;
            };
            cancelling.spawn_on(told, &runtime);
        }
    }
}

/// What the SDK calls for what comes from the server.
struct ClientMessageHandler {
    config: ClientConfig,
    client: Arc<dyn ClientSide>,
    shared: Arc<SessionShared>,
    watch: ConnectionWatch,
}

/// A request that somebody works on.
struct BusyGuard<'a>(&'a AtomicUsize);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service<RoleClient> for ClientMessageHandler {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        let request = serde_json::to_value(&request).unwrap_or_default();
        let method = request["method"].as_str().unwrap_or_default();
        let empty = || Ok(ClientResult::CustomResult(CustomResult(json!({}))));
        if method == "ping" {
            return empty();
        }
        self.shared.busy.fetch_add(1, Ordering::Relaxed);
        let _busy = BusyGuard(&self.shared.busy);
        let asked = context.extensions.get::<IdleEpoch>().copied();
        let mut params = request["params"].clone();
        // The SDK has taken this out.
        if let (Value::Object(params), Some(names)) = (&mut params, context.meta.get(ORDER)) {
            params.insert("_meta".to_owned(), json!({ORDER: names}));
        }
        let answer = tokio::select! {
            biased;
            answer = self.client.answer(method, params) => answer,
            // Nobody hears the answer.
            () = context.ct.cancelled() => return empty(),
            () = self.watch.wait_until_unwanted(asked) => {
                let message = "withdrawn: the request that this was for has ended";
                Err(ErrorData::internal_error(message, None))
            }
        };
        answer.map(|result| ClientResult::CustomResult(CustomResult(result)))
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if let ServerNotification::ProgressNotification(notification) = &notification {
            let far = &notification.params;
            let fraction = far.total.filter(|total| *total > 0.0).map(|total| far.progress / total);
            let words = far.message.as_deref().unwrap_or_default();
            let progress = RequestProgress {
                fraction: fraction.filter(|fraction| fraction.is_finite()),
                words: text::display_line(words, haft::limits::PROGRESS_CHARS_MAX),
            };
            // One that doesn't fit is replaced by the next.
            if let Some(waits) = self.shared.progress().get(&far.progress_token) {
                let _ = waits.try_send(progress);
            }
            return Ok(());
        }
        if let ServerNotification::CustomNotification(custom) = &notification
            && custom.method == pages::DONE
            && let Some(params) = &custom.params
        {
            self.shared.pages.done(params);
        }
        self.client.receive(&notification);
        Ok(())
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
