//! The session of one client: dispatches its requests to its handler, and matches its responses to questions.
//!
//! A session knows no transport: each request comes with a [`MessageSink`] for everything that belongs to it.
//! In the stateless revision a session is only what several requests of one client share.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use haft::schema::parse_json;
use haft::sync::lock;
use haft::{Cancel, Cause};
use rmcp::model::{
    CompleteResult, CompletionInfo, DiscoverResult, ErrorCode, ErrorData, InitializeResult,
    PromptsCapability, ProtocolVersion, ResourcesCapability, ServerCapabilities, SubscriptionFilter,
    TASKS_EXTENSION_ID, ToolsCapability,
};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, oneshot};

use super::ServerCore;
use super::client_info::{ClientInfo, Principal, ProtocolRevision};
use super::handler::{
    ListChange, PromptRequest, ReadRequest, ServerFeatures, ServerHandler, ToolCallRequest,
};
use super::json_rpc::{INVALID_REQUEST, RequestResult, SUBSCRIPTION_ID, own_request_number, write_call};
use super::peer::{
    AskMethod, ClientPeer, InputError, InputRequest, LogLevel, NeededCapability, RequestLink, ResponseRoute,
};
use super::request::{McpRequest, SharedParams, stateless_revisions, too_many_subscriptions};
use super::results::{ResultStamp, unknown_method};
use super::suspended_calls::{CallIdentity, ResumableCall, SignalSender};
use super::tasks::CallTasks;
use crate::{limits, text};

/// The result of a request; `None` if it is no longer wanted.
pub(crate) type RequestOutcome = Option<Result<RequestResult, ErrorData>>;

/// Where messages that belong to a request are sent.
pub(crate) trait MessageSink: Send + Sync {
    /// Sends a message that may be dropped if the client is too slow.
    fn notify(&self, message: Vec<u8>);

    /// Sends a message that has to arrive; whether that is possible.
    fn send(&self, message: Vec<u8>) -> bool;

    /// Closes the stream if the client can resume it.
    fn close_stream(&self) {}
}

/// One client while it is connected.
pub(crate) struct ServerSession {
    core: Arc<ServerCore>,
    client: Arc<ClientInfo>,
    handler: Arc<dyn ServerHandler>,
    features: ServerFeatures,
    stamp: ResultStamp,
    /// The parent of all its requests.
    cancel: Cancel,
    /// Ends subscriptions, so that the connection can end.
    ending: Cancel,
    /// Requests in flight, by the text of their ids.
    in_flight: Mutex<HashMap<Box<str>, Cancel>>,
    /// Requests of this server without a response.
    questions: Mutex<HashMap<u64, oneshot::Sender<Result<Value, InputError>>>>,
    next_question: AtomicU64,
    /// The lowest [`LogLevel`] that is sent.
    log_level: Arc<AtomicU8>,
    subscribed: Mutex<HashSet<String>>,
}

/// How a request reaches its client, and how it is cancelled.
pub(crate) struct RequestContext {
    pub(crate) sink: Arc<dyn MessageSink>,
    pub(crate) cancel: Cancel,
    /// The lowest log level, where the request states it.
    pub(crate) log_level: Option<u8>,
}

impl ServerSession {
    /// Asks the factory for the client's handler.
    ///
    /// # Errors
    /// The client has none.
    pub(crate) async fn open(
        core: &Arc<ServerCore>,
        client: ClientInfo,
        cancel: Cancel,
        ending: Cancel,
    ) -> Result<Arc<ServerSession>, ErrorData> {
        let client = Arc::new(client);
        let opening = AssertUnwindSafe(core.handlers.handler(&client)).catch_unwind();
        let handler = opening.await.unwrap_or_else(|_| Err(panic_error()))?;
        let mut stamp = ResultStamp::new(client.revision);
        if client.revision.is_stateless() {
            stamp.server_info = serde_json::to_value(handler.info()).ok();
        }
        Ok(Arc::new(ServerSession {
            core: core.clone(),
            features: handler.features(),
            client,
            handler,
            stamp,
            cancel,
            ending,
            in_flight: Mutex::default(),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            log_level: Arc::new(AtomicU8::new(LogLevel::Info as u8)),
            subscribed: Mutex::default(),
        }))
    }

    pub(crate) fn revision(&self) -> ProtocolRevision {
        self.client.revision
    }

    pub(crate) fn stamp(&self) -> &ResultStamp {
        &self.stamp
    }

    pub(crate) fn handler(&self) -> &dyn ServerHandler {
        &*self.handler
    }

    /// Cancels everything that is done for this client.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Whether no request is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.in_flight).is_empty()
    }

    /// The result of the handshake.
    pub(crate) fn initialize_result(&self) -> RequestResult {
        let mut result = InitializeResult::new(server_capabilities(self.features, self.revision()));
        let revision = serde_json::from_value::<ProtocolVersion>(self.revision().name().into());
        result.protocol_version = revision.unwrap_or_default();
        result.server_info = self.handler.info();
        result.instructions = self.handler.instructions();
        RequestResult::Initialized(Box::new(result))
    }

    fn discover_result(&self) -> RequestResult {
        let versions = serde_json::from_value::<Vec<ProtocolVersion>>(stateless_revisions().into());
        let capabilities = server_capabilities(self.features, self.revision());
        let mut result = DiscoverResult::new(versions.unwrap_or_default(), capabilities);
        result.instructions = self.handler.instructions();
        RequestResult::Discovered(Box::new(result))
    }

    /// Reads a request and begins it, as [`ServerSession::begin`].
    ///
    /// # Errors
    /// It is invalid or refused; nothing was begun.
    pub(crate) fn begin_raw(
        self: &Arc<ServerSession>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        context: RequestContext,
    ) -> Result<impl Future<Output = RequestOutcome> + Send + use<>, ErrorData> {
        let shared = SharedParams::read(params)?;
        let request = McpRequest::read(method, params, self.revision())?;
        self.begin(id, method, request, shared, context)
    }

    /// Begins a request. The future has to be polled to its end, or dropped with the whole connection.
    ///
    /// # Errors
    /// It is refused; nothing was begun.
    pub(crate) fn begin(
        self: &Arc<ServerSession>,
        id: &RawValue,
        method: &str,
        mut request: McpRequest,
        mut shared: SharedParams,
        context: RequestContext,
    ) -> Result<impl Future<Output = RequestOutcome> + Send + use<>, ErrorData> {
        if !self.supports(&request) {
            return Err(unknown_method(method));
        }
        if let McpRequest::UpdateTask { responses, .. } = &mut request {
            *responses = shared.input_responses.take().unwrap_or_default();
        }
        let in_flight = self.enter(id, context.cancel, matches!(request, McpRequest::Ping))?;
        let session = self.clone();
        let id = matches!(request, McpRequest::Listen(_)).then(|| id.to_owned());
        let token = shared.meta.remove("progressToken");
        let route = ResponseRoute {
            sink: context.sink,
            progress_token: token.filter(|token| token.is_string() || token.is_number()),
            log_level: match context.log_level {
                Some(level) => Arc::new(AtomicU8::new(level)),
                None => self.log_level.clone(),
            },
        };
        Ok(async move {
            let cancel = in_flight.cancel.clone();
            let outcome = if session.revision().is_stateless() && request.may_ask() {
                session.run_resumable(request, shared, route, &cancel).await
            } else {
                let sink = route.sink.clone();
                let asking = if session.revision().is_stateless() {
                    AskMethod::Unavailable
                } else {
                    AskMethod::Requests(session.clone(), cancel.clone())
                };
                let peer = ClientPeer::new(session.client.clone(), RequestLink::new(route, asking));
                let work = session.clone().dispatch(request, shared.meta, peer, cancel.clone(), id, sink);
                run_until_cancelled(work, cancel).await
            };
            // A request that was aborted has its response already.
            if in_flight.finish() { outcome } else { None }
        })
    }

    /// Runs a call that may ask by its result, or resumes it.
    async fn run_resumable(
        self: Arc<ServerSession>,
        request: McpRequest,
        shared: SharedParams,
        route: ResponseRoute,
        request_cancel: &Cancel,
    ) -> RequestOutcome {
        let principal = self.client.principal.as_ref().map(Principal::identity);
        let identity = CallIdentity::new(principal, &request);
        let core = self.core.clone();
        let responses = shared.input_responses.unwrap_or_default();
        if let Some(state) = shared.request_state {
            return core.suspended.resume(&state, &identity, responses, route, request_cancel).await;
        }
        let sink = route.sink.clone();
        let (sender, questions) = SignalSender::new(responses);
        let link = RequestLink::new(route, AskMethod::Results(sender));
        let peer = ClientPeer::new(self.client.clone(), link.clone());
        // The call outlives its request while it is suspended.
        let cancel = core.cancel.child();
        let work = self.dispatch(request, shared.meta, peer, cancel.clone(), None, sink);
        let work = Box::pin(run_until_cancelled(work, cancel.clone()));
        core.suspended
            .drive(ResumableCall::new(identity, link, questions, cancel, work), request_cancel)
            .await
    }

    async fn dispatch(
        self: Arc<ServerSession>,
        request: McpRequest,
        meta: Map<String, Value>,
        peer: ClientPeer,
        cancel: Cancel,
        id: Option<Box<RawValue>>,
        sink: Arc<dyn MessageSink>,
    ) -> Result<RequestResult, ErrorData> {
        let handler = &self.handler;
        let page = |key, from, list| RequestResult::Page { key, from, list };
        Ok(match request {
            McpRequest::CallTool { name, arguments } => {
                let arguments = if arguments.get() == "null" { empty_object() } else { arguments };
                let call = ToolCallRequest { name, arguments, meta, peer, cancel };
                RequestResult::Called(Box::new(handler.call(call).await?))
            }
            McpRequest::Ping => RequestResult::Empty,
            McpRequest::ListTools(from) => page("tools", from, or_cancelled(handler.tools(), &cancel).await?),
            McpRequest::ListResources(from) => {
                page("resources", from, or_cancelled(handler.resources(), &cancel).await?)
            }
            McpRequest::ListTemplates(from) => {
                page("resourceTemplates", from, or_cancelled(handler.resource_templates(), &cancel).await?)
            }
            McpRequest::ListPrompts(from) => {
                page("prompts", from, or_cancelled(handler.prompts(), &cancel).await?)
            }
            McpRequest::ReadResource(uri) => {
                RequestResult::Read(handler.read(ReadRequest { uri, peer, cancel }).await?)
            }
            McpRequest::GetPrompt { name, arguments } => {
                RequestResult::Prompt(handler.prompt(PromptRequest { name, arguments, peer, cancel }).await?)
            }
            McpRequest::Complete(params) => {
                let completion = or_cancelled(handler.complete(params), &cancel).await?;
                RequestResult::Completed(CompleteResult::new(limit_completion(completion)))
            }
            McpRequest::SetLogLevel(level) => {
                self.log_level.store(level, Ordering::Relaxed);
                RequestResult::Empty
            }
            McpRequest::Subscribe(uri) => self.subscribe(uri)?,
            McpRequest::Unsubscribe(uri) => {
                if lock(&self.subscribed).remove(&uri) {
                    handler.unsubscribe(&uri);
                }
                RequestResult::Empty
            }
            McpRequest::Discover => self.discover_result(),
            McpRequest::GetTask(id) => {
                let (tasks, principal) = self.tasks()?;
                tasks.get(&id, principal.as_deref())?
            }
            McpRequest::UpdateTask { id, responses } => {
                let (tasks, principal) = self.tasks()?;
                tasks.update(&id, principal.as_deref(), responses)?
            }
            McpRequest::CancelTask(id) => {
                let (tasks, principal) = self.tasks()?;
                tasks.cancel(&id, principal.as_deref())?
            }
            McpRequest::Listen(filter) => {
                let id = id.unwrap_or_else(empty_object);
                self.listen(filter, &id, &*sink, &cancel).await
            }
        })
    }

    /// The tasks, and the principal whose tasks the client may see.
    fn tasks(&self) -> Result<(&CallTasks, Option<Arc<str>>), ErrorData> {
        if !NeededCapability::Tasks.is_declared(&self.client) {
            return Err(InputError::Unsupported(NeededCapability::Tasks).into());
        }
        Ok((&self.core.suspended.tasks, self.client.principal.as_ref().map(Principal::identity)))
    }

    fn supports(&self, request: &McpRequest) -> bool {
        let features = self.features;
        match request {
            McpRequest::Ping | McpRequest::Discover => true,
            McpRequest::ListTools(_) | McpRequest::CallTool { .. } => features.tools,
            McpRequest::ListResources(_) | McpRequest::ListTemplates(_) | McpRequest::ReadResource(_) => {
                features.resources
            }
            McpRequest::Subscribe(_) | McpRequest::Unsubscribe(_) => features.subscriptions,
            McpRequest::ListPrompts(_) | McpRequest::GetPrompt { .. } => features.prompts,
            McpRequest::Complete(_) => features.completions,
            McpRequest::SetLogLevel(_) => features.logging,
            McpRequest::GetTask(_) | McpRequest::UpdateTask { .. } | McpRequest::CancelTask(_) => {
                features.tasks
            }
            McpRequest::Listen(_) => features.list_changes || features.subscriptions,
        }
    }

    /// Takes all requests in flight from their tasks: the caller sends the responses.
    pub(crate) fn abort_requests(&self) -> Vec<Box<str>> {
        lock(&self.in_flight).drain().map(|(id, _)| id).collect()
    }

    /// Registers a request. A ping is answered at any load.
    fn enter(
        self: &Arc<ServerSession>,
        id: &RawValue,
        cancel: Cancel,
        is_ping: bool,
    ) -> Result<InFlightRequest, ErrorData> {
        let mut in_flight = lock(&self.in_flight);
        let count = in_flight.len();
        if count >= self.core.limits.in_flight && !is_ping {
            let message = format!("{count} requests are in flight already; wait for one of them");
            return Err(ErrorData::new(SERVER_ERROR, message, None));
        }
        let id: Box<str> = id.get().into();
        if in_flight.contains_key(&id) {
            return Err(ErrorData::new(ErrorCode(INVALID_REQUEST), DUPLICATE_ID, None));
        }
        in_flight.insert(id.clone(), cancel.clone());
        Ok(InFlightRequest { session: self.clone(), id, cancel })
    }

    /// Takes a notification.
    pub(crate) fn receive_notification(&self, method: &str, params: Option<&RawValue>) {
        #[derive(serde::Deserialize)]
        struct CancelledParams<'a> {
            #[serde(rename = "requestId", borrow)]
            id: &'a RawValue,
        }
        let Some(params) = params.filter(|_| method == "notifications/cancelled") else { return };
        let Ok(CancelledParams { id }) = serde_json::from_str(params.get()) else { return };
        let request = lock(&self.in_flight).get(id.get()).cloned();
        if let Some(request) = request {
            request.cancel(Cause::User);
        }
    }

    /// Takes the response to a question. An unexpected one is dropped.
    pub(crate) fn receive_response(&self, id: &RawValue, result: Result<&RawValue, &RawValue>) {
        let Some(question) = own_request_number(id).and_then(|id| lock(&self.questions).remove(&id)) else {
            return;
        };
        // A duplicate key would hide one of two answers, so it is invalid here.
        let parse = |raw: &RawValue| parse_json(raw.get()).map_err(|_| InputError::InvalidAnswer);
        let answer = match result {
            Ok(result) => parse(result)
                .and_then(|value| if value.is_object() { Ok(value) } else { Err(InputError::InvalidAnswer) }),
            Err(error) => parse(error).and_then(|error| {
                let message = error["message"].as_str().unwrap_or_default();
                Err(InputError::Refused(text::display_line(message, 500)))
            }),
        };
        let _ = question.send(answer);
    }

    /// Asks the client by requests.
    pub(crate) async fn ask(
        &self,
        requests: &[InputRequest],
        sink: &dyn MessageSink,
        cancel: &Cancel,
    ) -> Result<Vec<Value>, InputError> {
        let open: Vec<OpenQuestion<'_>> = requests
            .iter()
            .map(|request| OpenQuestion::send(self, sink, request))
            .collect::<Result<_, _>>()?;
        let mut answers = Vec::with_capacity(open.len());
        for mut question in open {
            let answer = tokio::select! {
                biased;
                answer = &mut question.answer => answer.unwrap_or(Err(InputError::Disconnected)),
                _ = cancel.cancelled() => Err(InputError::Disconnected),
            };
            question.is_answered = answer != Err(InputError::Disconnected);
            answers.push(answer?);
        }
        Ok(answers)
    }

    fn subscribe(&self, uri: String) -> Result<RequestResult, ErrorData> {
        let mut subscribed = lock(&self.subscribed);
        if subscribed.contains(&uri) {
            return Ok(RequestResult::Empty);
        }
        if subscribed.len() >= limits::WATCHES_MAX {
            return Err(too_many_subscriptions());
        }
        self.handler.subscribe(&uri)?;
        subscribed.insert(uri);
        Ok(RequestResult::Empty)
    }

    /// Serves `subscriptions/listen` of the stateless revision.
    async fn listen(
        &self,
        mut filter: SubscriptionFilter,
        id: &RawValue,
        sink: &dyn MessageSink,
        cancel: &Cancel,
    ) -> RequestResult {
        let id: Value = serde_json::from_str(id.get()).unwrap_or_default();
        let mut changes = self.handler.changes();
        let ServerFeatures { tools, prompts, resources, .. } = self.features;
        let accepts = |wanted: Option<bool>, has: bool| {
            (wanted == Some(true) && has && self.features.list_changes).then_some(true)
        };
        filter.tools_list_changed = accepts(filter.tools_list_changed, tools);
        filter.prompts_list_changed = accepts(filter.prompts_list_changed, prompts);
        filter.resources_list_changed = accepts(filter.resources_list_changed, resources);
        let wanted = filter.resource_subscriptions.take().filter(|_| self.features.subscriptions);
        let uris = ResourceSubscriptions::new(&*self.handler, wanted.unwrap_or_default());
        if !uris.uris.is_empty() {
            filter.resource_subscriptions = Some(uris.uris.iter().cloned().collect());
        }
        let meta = json!({SUBSCRIPTION_ID: id});
        let accepted = json!({"notifications": filter, "_meta": meta});
        send_notification(sink, "notifications/subscriptions/acknowledged", &accepted);
        let is_wanted = |change: &ListChange| match change {
            ListChange::Tools => filter.tools_list_changed.is_some(),
            ListChange::Prompts => filter.prompts_list_changed.is_some(),
            ListChange::Resources => filter.resources_list_changed.is_some(),
            ListChange::Resource(uri) => uris.uris.contains(&**uri),
        };
        tokio::select! {
            () = forward_changes(changes.as_mut(), sink, Some(&meta), is_wanted) => {}
            _ = cancel.cancelled() => {}
            _ = self.ending.cancelled() => {}
        }
        RequestResult::SubscriptionEnded
    }

    /// Notifies the client of changes in revisions with a handshake, until the session is cancelled.
    pub(crate) async fn forward_changes(&self, sink: &dyn MessageSink) {
        let mut changes = self.handler.changes();
        let ServerFeatures { list_changes, tools, prompts, resources, .. } = self.features;
        let is_wanted = |change: &ListChange| match change {
            ListChange::Tools => list_changes && tools,
            ListChange::Prompts => list_changes && prompts,
            ListChange::Resources => list_changes && resources,
            ListChange::Resource(uri) => lock(&self.subscribed).contains(&**uri),
        };
        tokio::select! {
            () = forward_changes(changes.as_mut(), sink, None, is_wanted) => {}
            _ = self.cancel.cancelled() => {}
        }
    }
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        for uri in lock(&self.subscribed).drain() {
            self.handler.unsubscribe(&uri);
        }
    }
}

/// The error message for an id that is in use.
pub(crate) const DUPLICATE_ID: &str = "a request with this `id` is still in flight";

/// The first of the numbers that JSON-RPC reserves for servers.
const SERVER_ERROR: ErrorCode = ErrorCode(-32000);

/// A request in flight.
struct InFlightRequest {
    session: Arc<ServerSession>,
    id: Box<str>,
    cancel: Cancel,
}

impl InFlightRequest {
    /// Removes it; whether it was still in flight.
    fn finish(self) -> bool {
        lock(&self.session.in_flight).remove(&self.id).is_some()
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        lock(&self.session.in_flight).remove(&self.id);
    }
}

/// Subscriptions to resources, ended on drop.
struct ResourceSubscriptions<'a> {
    handler: &'a dyn ServerHandler,
    uris: HashSet<String>,
}

impl<'a> ResourceSubscriptions<'a> {
    fn new(handler: &'a dyn ServerHandler, wanted: Vec<String>) -> ResourceSubscriptions<'a> {
        let mut uris = HashSet::new();
        for uri in wanted {
            if !uris.contains(&uri) && handler.subscribe(&uri).is_ok() {
                uris.insert(uri);
            }
        }
        ResourceSubscriptions { handler, uris }
    }
}

impl Drop for ResourceSubscriptions<'_> {
    fn drop(&mut self) {
        for uri in self.uris.drain() {
            self.handler.unsubscribe(&uri);
        }
    }
}

/// A request without side effects: it is dropped when it is cancelled.
async fn or_cancelled<T>(
    work: impl Future<Output = Result<T, ErrorData>>,
    cancel: &Cancel,
) -> Result<T, ErrorData> {
    tokio::select! {
        biased;
        done = work => done,
        _ = cancel.cancelled() => Err(shut_down()),
    }
}

/// Runs a request to its end, or for a grace period after it was cancelled. A panic is an internal error. The
/// result counts only if the client still waits: it does at a shutdown.
async fn run_until_cancelled(
    work: impl Future<Output = Result<RequestResult, ErrorData>> + Send,
    cancel: Cancel,
) -> RequestOutcome {
    let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
    tokio::select! {
        biased;
        done = &mut work => {
            let is_wanted = matches!(cancel.cause(), None | Some(Cause::Shutdown));
            is_wanted.then(|| done.unwrap_or_else(|_| Err(panic_error())))
        }
        cause = cancel.cancelled() => {
            let done = tokio::time::timeout(limits::CANCEL_GRACE, work).await;
            let outcome = || done.unwrap_or_else(|_| Ok(Err(shut_down()))).unwrap_or_else(|_| Err(panic_error()));
            (cause == Cause::Shutdown).then(outcome)
        }
    }
}

/// The error for a request that was not done at a shutdown.
pub(crate) fn shut_down() -> ErrorData {
    let message = "the server ended before this was done; what it did until then is not known";
    ErrorData::new(SERVER_ERROR, message, None)
}

fn panic_error() -> ErrorData {
    ErrorData::internal_error("the server failed at this request; nothing more is known", None)
}

fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).expect("an empty object is JSON")
}

fn server_capabilities(features: ServerFeatures, revision: ProtocolRevision) -> ServerCapabilities {
    let list_changed = features.list_changes.then_some(true);
    let mut capabilities = ServerCapabilities::default();
    if features.tools {
        let mut tools = ToolsCapability::default();
        tools.list_changed = list_changed;
        capabilities.tools = Some(tools);
    }
    if features.resources {
        let mut resources = ResourcesCapability::default();
        resources.list_changed = list_changed;
        resources.subscribe = features.subscriptions.then_some(true);
        capabilities.resources = Some(resources);
    }
    if features.prompts {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = list_changed;
        capabilities.prompts = Some(prompts);
    }
    let has_completions = features.completions && revision >= ProtocolRevision::V2025_03_26;
    capabilities.completions = has_completions.then(Map::new);
    capabilities.logging = features.logging.then(Map::new);
    if features.tasks && revision.is_stateless() {
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), Map::new())].into());
    }
    capabilities
}

/// A completion with at most as many values as the protocol allows.
fn limit_completion(mut completion: CompletionInfo) -> CompletionInfo {
    let count = completion.values.len();
    completion.values.truncate(CompletionInfo::MAX_VALUES);
    let known = completion.total.map_or(count, |total| total as usize);
    completion.has_more = Some(known > completion.values.len());
    completion
}

/// Sends a notification for each wanted change, with this `_meta`. Never ends.
async fn forward_changes(
    mut changes: Option<&mut broadcast::Receiver<ListChange>>,
    sink: &dyn MessageSink,
    meta: Option<&Value>,
    is_wanted: impl Fn(&ListChange) -> bool,
) {
    loop {
        for change in next_changes(changes.as_deref_mut()).await {
            if is_wanted(&change) {
                let (method, mut params) = change_notification(&change);
                if let Some(meta) = meta {
                    params["_meta"] = meta.clone();
                }
                send_notification(sink, method, &params);
            }
        }
    }
}

/// Waits for a change, and takes all that have come, each once.
async fn next_changes(changes: Option<&mut broadcast::Receiver<ListChange>>) -> HashSet<ListChange> {
    use broadcast::error::{RecvError, TryRecvError};
    const ALL: [ListChange; 3] = [ListChange::Tools, ListChange::Prompts, ListChange::Resources];
    let Some(changes) = changes else { return std::future::pending().await };
    let mut batch = HashSet::new();
    match changes.recv().await {
        Ok(change) => batch.extend([change]),
        Err(RecvError::Lagged(_)) => batch.extend(ALL),
        Err(RecvError::Closed) => return std::future::pending().await,
    }
    loop {
        match changes.try_recv() {
            Ok(change) => batch.extend([change]),
            Err(TryRecvError::Lagged(_)) => batch.extend(ALL),
            Err(_) => return batch,
        }
    }
}

fn change_notification(change: &ListChange) -> (&'static str, Value) {
    match change {
        ListChange::Tools => ("notifications/tools/list_changed", json!({})),
        ListChange::Prompts => ("notifications/prompts/list_changed", json!({})),
        ListChange::Resources => ("notifications/resources/list_changed", json!({})),
        ListChange::Resource(uri) => ("notifications/resources/updated", json!({"uri": &**uri})),
    }
}

fn send_notification(sink: &dyn MessageSink, method: &str, params: &impl Serialize) {
    let mut message = Vec::with_capacity(160);
    write_call(&mut message, None, method, params);
    sink.notify(message);
}

/// A request of this server without a response. Dropped before that, it is cancelled at the client.
struct OpenQuestion<'a> {
    session: &'a ServerSession,
    sink: &'a dyn MessageSink,
    id: u64,
    answer: oneshot::Receiver<Result<Value, InputError>>,
    is_answered: bool,
}

impl<'a> OpenQuestion<'a> {
    fn send(
        session: &'a ServerSession,
        sink: &'a dyn MessageSink,
        request: &InputRequest,
    ) -> Result<OpenQuestion<'a>, InputError> {
        let (send, answer) = oneshot::channel();
        let id = session.next_question.fetch_add(1, Ordering::Relaxed);
        {
            let mut questions = lock(&session.questions);
            if questions.len() >= limits::ASKS_OPEN_MAX {
                return Err(InputError::TooMany);
            }
            questions.insert(id, send);
        }
        let open = OpenQuestion { session, sink, id, answer, is_answered: false };
        let mut message = Vec::with_capacity(256);
        let params = request.wire_params(session.revision() >= ProtocolRevision::V2025_11_25);
        write_call(&mut message, Some(id), request.method, &params);
        if sink.send(message) { Ok(open) } else { Err(InputError::Disconnected) }
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        lock(&self.session.questions).remove(&self.id);
        if !self.is_answered {
            let params =
                json!({"requestId": format!("haft-{}", self.id), "reason": "the answer is no longer needed"});
            send_notification(self.sink, "notifications/cancelled", &params);
        }
    }
}
