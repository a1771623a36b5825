//! What is asked of a server: calls and everything else, over a connection that is made if need be, and what
//! went wrong in words for the model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::{Context, ErrorKind, ToolError};
use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, ReadResourceRequestParams, Request,
    RequestMetaObject,
};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::super::breaker::ServerBreakers;
use super::super::session::{ClientSession, RequestFailure, RequestProgress, RequestTimeouts};
use super::offered_tools::list_tools;
use super::{ServerHandle, ServerState, ServerStatus, lock};
use crate::limits;

/// Who asks for lists, resources and prompts: whoever it is, nothing of theirs is carried out.
const NO_CALLER: &str = "";

impl ServerHandle {
    /// Calls a tool of it, and gives the result as it came.
    pub(crate) async fn call(
        &self,
        name: &str,
        input: Value,
        needs_task: bool,
        cx: &Context,
    ) -> Result<Value, ToolError> {
        let config = &self.0.config;
        let _slot =
            self.0.slots.acquire().await.map_err(|_| ToolError::new("the MCP server was shut down"))?;
        let patience = RequestTimeouts { idle: config.idle(), total: config.call_timeout };
        let far = |progress: RequestProgress| cx.progress(progress.fraction, progress.words);
        let request = call_request(name, input, cx);
        let caller = cx.call().session_id();
        let mut session = self.session(caller).await?;
        self.note(&session, cx);
        let mut answer = session.call_tool(&request, needs_task, patience, &far).await;
        if matches!(answer, Err(RequestFailure::NotSent(_))) {
            // The server had gone before it could hear of the call, which is then nothing but the next one.
            session = self.session(caller).await?;
            answer = session.call_tool(&request, needs_task, patience, &far).await;
        }
        if let Err(RequestFailure::WantsSignIn(words)) = &answer
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
        if matches!(answer, Ok(_) | Err(RequestFailure::Refused { .. } | RequestFailure::WantsSignIn(_))) {
            lock(&self.0.breakers).reached(caller);
        }
        answer.map_err(|failure| self.lost(caller, &session, failure))
    }

    /// Tells whoever traces the call where it goes.
    fn note(&self, session: &ClientSession, cx: &Context) {
        let carrier = self.0.config.transport.carrier();
        cx.tracing().note("mcp.method.name", || json!("tools/call"));
        cx.tracing().note("mcp.protocol.version", || json!(session.facts().revision));
        cx.tracing().note("network.transport", || json!(carrier.transport));
        if let Some(protocol) = carrier.protocol {
            cx.tracing().note("network.protocol.name", || json!(protocol));
        }
        if let Some(address) = &carrier.address {
            cx.tracing().note("server.address", || json!(address));
        }
        if let Some(port) = carrier.port {
            cx.tracing().note("server.port", || json!(port));
        }
    }

    /// Asks something that changes nothing: lists, resources, prompts.
    async fn ask(&self, request: &ClientRequest) -> Result<Value, ToolError> {
        let session = self.session(NO_CALLER).await?;
        let asked = session.request_in_rounds(request, RequestTimeouts::REQUEST, &|_| {}).await;
        if asked.is_ok() {
            lock(&self.0.breakers).reached(NO_CALLER);
        }
        asked.map_err(|failure| self.lost(NO_CALLER, &session, failure))
    }

    /// Gets a prompt with its arguments filled in.
    pub(crate) async fn get_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, ToolError> {
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        self.ask(&ClientRequest::GetPromptRequest(Request::new(params))).await
    }

    /// Reads a resource, and watches it from then on.
    pub(crate) async fn read_resource(&self, uri: &str) -> Result<Value, ToolError> {
        let request = Request::new(ReadResourceRequestParams::new(uri));
        let read = self.ask(&ClientRequest::ReadResourceRequest(request)).await?;
        self.0.watched.was_read(uri);
        Ok(read)
    }

    /// All entries of one of its lists.
    pub(crate) async fn list(&self, key: &str) -> Result<Vec<Value>, ToolError> {
        let session = self.session(NO_CALLER).await?;
        let listed = list_tools(&session, key).await;
        listed
            .map(|(entries, _)| entries)
            .map_err(|words| ToolError::new(format!("{}: {words}", self.named())))
    }

    /// A connection that can be used, made if need be.
    async fn session(&self, caller: &str) -> Result<Arc<ClientSession>, ToolError> {
        let live = |state: &ServerState| state.session.clone().filter(|session| !session.watch().is_over());
        let there = live(&self.0.state.borrow());
        lock(&self.0.breakers).admit(caller, there.is_some(), Instant::now()).map_err(|seconds| {
            ToolError::new(format!(
                "{} could not be reached or went away {} times in a row and is left alone; try again in {seconds} s, or \
                 do without it",
                self.named(),
                limits::BREAKER_FAILURES
            ))
            .retryable()
        })?;
        let trial = BreakerTrial { breakers: Some(&self.0.breakers), caller };
        if let Some(session) = there {
            return Ok(session);
        }
        let mut state = self.0.state.subscribe();
        let before = state.borrow_and_update().clone();
        if !matches!(before.status, ServerStatus::Connecting) {
            self.0.wanted.notify_one();
        }
        // That a connection was lost is not yet the outcome of making it again.
        let enough = before.attempts + if before.session.is_some() { 2 } else { 1 };
        let known = |state: &ServerState| {
            live(state).is_some() || state.attempts >= enough || matches!(state.status, ServerStatus::Stopped)
        };
        let limit = self.0.config.connect_timeout + Duration::from_secs(1);
        let reason = match timeout(limit, state.wait_for(known)).await {
            Ok(Ok(state)) => match (live(&state), &state.status) {
                (Some(session), _) => return Ok(session),
                (None, ServerStatus::Failed { reason, .. }) => reason.clone(),
                (None, ServerStatus::NeedsSignIn { reason }) => {
                    return Err(ToolError::new(format!("{}: {reason}", self.named())));
                }
                (None, ServerStatus::Unapproved(_)) => {
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
    fn lost(&self, caller: &str, session: &Arc<ClientSession>, failure: RequestFailure) -> ToolError {
        if matches!(failure, RequestFailure::Gone(_)) {
            lock(&self.0.breakers).lost(caller, session, Instant::now());
        }
        self.error(&failure)
    }

    fn named(&self) -> String {
        format!("the MCP server `{}`", self.0.config.name)
    }

    /// A failure in words for the model.
    fn error(&self, failure: &RequestFailure) -> ToolError {
        let server = self.named();
        match failure {
            RequestFailure::Refused { code, words, .. } => {
                ToolError::new(format!("{server} answered with error {code}: {words}"))
            }
            RequestFailure::NotSent(words) => {
                ToolError::new(format!("{server} was not reached: {words}")).retryable()
            }
            RequestFailure::WantsSignIn(words) => {
                ToolError::new(format!("{server} did not carry out the call: {words}"))
            }
            RequestFailure::Gone(words) => ToolError::new(format!(
                "{server} went away during the call: {words}; what the call did until then is not known; it is \
                 started again for the next call"
            )),
            RequestFailure::Idle(after) => ToolError::with_kind(
                ErrorKind::TimedOut,
                format!("{server} gave no sign of life for {} s; it was told to stop", after.as_secs_f64()),
            ),
            RequestFailure::TimedOut(after) => ToolError::with_kind(
                ErrorKind::TimedOut,
                format!("the call took longer than {} s; {server} was told to stop", after.as_secs_f64()),
            ),
            RequestFailure::Odd(words) => {
                ToolError::new(format!("{server} answered with something senseless: {words}"))
            }
        }
    }
}

fn call_request(name: &str, input: Value, cx: &Context) -> ClientRequest {
    let mut params = CallToolRequestParams::new(name.to_owned());
    params.arguments = match input {
        Value::Object(arguments) => Some(arguments),
        _ => None,
    };
    if let Some(trace) = cx.tracing().context() {
        let mut meta = Map::new();
        meta.insert("traceparent".to_owned(), json!(trace.traceparent));
        meta.extend(trace.tracestate.map(|state| ("tracestate".to_owned(), json!(state))));
        params.meta = Some(RequestMetaObject::from(meta));
    }
    ClientRequest::CallToolRequest(Request::new(params))
}

/// A call that finds out whether the server can be reached. Only an answer to a call says that all is well
/// again.
struct BreakerTrial<'a> {
    breakers: Option<&'a Mutex<ServerBreakers>>,
    caller: &'a str,
}

impl BreakerTrial<'_> {
    fn failed(mut self) {
        if let Some(breakers) = self.breakers.take() {
            lock(breakers).not_connected(Instant::now());
        }
    }
}

impl Drop for BreakerTrial<'_> {
    fn drop(&mut self) {
        if let Some(breakers) = self.breakers.take() {
            lock(breakers).gave_up(self.caller);
        }
    }
}
