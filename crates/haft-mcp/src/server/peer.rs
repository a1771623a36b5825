//! The client of one request, as a handler sees it: progress, log messages and questions.
//!
//! A question is a request of this server where the revision has them, and a result that asks for input where
//! it has not (`suspended_calls.rs`). In both cases the handler's future waits where it is and continues with
//! the answer.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use haft::Cancel;
use haft::sync::lock;
use rmcp::model::{ErrorCode, ErrorData, TASKS_EXTENSION_ID};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value, json};

use super::client_info::ClientInfo;
use super::json_rpc::write_call;
use super::session::{MessageSink, ServerSession};
use super::suspended_calls::SignalSender;

/// The client of one request. Clones are the same.
#[derive(Clone)]
pub struct ClientPeer {
    client: Arc<ClientInfo>,
    link: Option<Arc<RequestLink>>,
}

/// How a request reaches its client.
pub(crate) struct RequestLink {
    /// Replaced when the client sends a suspended call again.
    route: Mutex<ResponseRoute>,
    asking: AskMethod,
}

/// The request that is being answered.
#[derive(Clone)]
pub(crate) struct ResponseRoute {
    pub(crate) sink: Arc<dyn MessageSink>,
    pub(crate) progress_token: Option<Value>,
    /// The lowest [`LogLevel`] that the client wants.
    pub(crate) log_level: Arc<AtomicU8>,
}

/// How the client can be asked.
pub(crate) enum AskMethod {
    /// By requests of this server, until the request is cancelled.
    Requests(Arc<ServerSession>, Cancel),
    /// By the result of its request.
    Results(SignalSender),
    Unavailable,
}

impl RequestLink {
    pub(crate) fn new(route: ResponseRoute, asking: AskMethod) -> Arc<RequestLink> {
        Arc::new(RequestLink { route: Mutex::new(route), asking })
    }

    pub(crate) fn set_route(&self, route: ResponseRoute) {
        *self.route() = route;
    }

    fn route(&self) -> MutexGuard<'_, ResponseRoute> {
        lock(&self.route)
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        let sink = self.route().sink.clone();
        let mut message = Vec::with_capacity(160);
        write_call(&mut message, None, method, params);
        sink.notify(message);
    }
}

impl ClientPeer {
    pub(crate) fn new(client: Arc<ClientInfo>, link: Arc<RequestLink>) -> ClientPeer {
        ClientPeer { client, link: Some(link) }
    }

    /// A client without a connection, for tests of a handler.
    pub fn disconnected(client: ClientInfo) -> ClientPeer {
        ClientPeer { client: Arc::new(client), link: None }
    }

    /// The client.
    pub fn client(&self) -> &ClientInfo {
        &self.client
    }

    /// Whether it asked for progress; if not, [`ClientPeer::progress`] costs nothing.
    pub fn wants_progress(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.route().progress_token.is_some())
    }

    /// Reports progress. `progress` has to grow. Never waits; notifications that a slow client can't take are
    /// dropped.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(serde::Serialize)]
        struct ProgressParams<'a> {
            #[serde(rename = "progressToken")]
            token: Value,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let Some(link) = self.link.as_ref().filter(|_| progress.is_finite()) else { return };
        let token = link.route().progress_token.clone();
        if let Some(token) = token {
            let total = total.filter(|total| total.is_finite());
            link.notify("notifications/progress", &ProgressParams { token, progress, total, message });
        }
    }

    /// Sends a log message if the client wants this level. Never waits.
    pub fn log(&self, level: LogLevel, logger: Option<&str>, data: &Value) {
        let Some(link) = &self.link else { return };
        if (level as u8) < link.route().log_level.load(Ordering::Relaxed) {
            return;
        }
        let mut params = json!({"level": level.name(), "data": data});
        if let Some(logger) = logger {
            params["logger"] = logger.into();
        }
        link.notify("notifications/message", &params);
    }

    /// Closes the client's response stream while this takes long, if the client can resume it: over HTTP in
    /// revision 2025-11-25.
    pub fn close_stream(&self) {
        if let Some(link) = &self.link {
            let sink = link.route().sink.clone();
            sink.close_stream();
        }
    }

    /// Makes the call a task: its request is answered, and the client asks for the result later. Questions
    /// from now on are the task's. The call goes on as before where there are too many tasks, or if it is
    /// done before anything is sent. A handler whose [`ServerFeatures`](super::ServerFeatures) lack tasks
    /// doesn't call this.
    ///
    /// # Errors
    /// The client doesn't know tasks; nothing changes.
    pub fn start_task(&self) -> Result<(), InputError> {
        let unsupported = InputError::Unsupported(NeededCapability::Tasks);
        match self.link.as_ref().map(|link| &link.asking) {
            Some(AskMethod::Results(signals)) if NeededCapability::Tasks.is_declared(&self.client) => {
                signals.start_task()
            }
            _ => Err(unsupported),
        }
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// The client lacks the capability, refused, or is gone.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the question where the revision allows it.
    pub async fn ask(&self, request: InputRequest) -> Result<Value, InputError> {
        let mut answers = self.ask_all(vec![request]).await?;
        answers.pop().ok_or(InputError::Disconnected)
    }

    /// Asks for several things at once, in the stateless revision in one round. One answer for each, in
    /// order.
    ///
    /// # Errors
    /// As [`ClientPeer::ask`], for the first without an answer.
    pub async fn ask_all(&self, requests: Vec<InputRequest>) -> Result<Vec<Value>, InputError> {
        for request in &requests {
            if !request.needs.is_declared(&self.client) {
                return Err(InputError::Unsupported(request.needs));
            }
        }
        match self.link.as_ref().map(|link| (&link.asking, link)) {
            Some((AskMethod::Requests(session, cancel), link)) => {
                let sink = link.route().sink.clone();
                session.ask(&requests, &*sink, cancel).await
            }
            Some((AskMethod::Results(questions), _)) => questions.ask(requests).await,
            Some((AskMethod::Unavailable, _)) | None => Err(InputError::Disconnected),
        }
    }

    /// Shows a form to the user.
    ///
    /// # Errors
    /// As [`ClientPeer::ask`]. A user's no is an answer.
    pub async fn elicit(&self, message: &str, schema: Value) -> Result<ElicitationAnswer, InputError> {
        ElicitationAnswer::from_value(self.ask(InputRequest::form(message, schema)).await?)
    }

    /// Shows a URL to the user. The answer says only whether the user agreed to open it.
    ///
    /// # Errors
    /// As [`ClientPeer::ask`].
    pub async fn elicit_url(
        &self,
        message: &str,
        url: &str,
        id: &str,
    ) -> Result<ElicitationAnswer, InputError> {
        ElicitationAnswer::from_value(self.ask(InputRequest::url(message, url, id)).await?)
    }
}

impl fmt::Debug for ClientPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientPeer").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Something that a client is asked for.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InputRequest {
    /// A stable name. In the stateless revision an answer that came with the request under this name counts
    /// without asking.
    ///
    /// So only a question that always means the same has a name. A question about one thing, such as an
    /// approval, has none: it can't be answered before it was asked.
    pub key: Option<String>,
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) needs: NeededCapability,
    /// The order of a form's fields.
    field_order: Vec<String>,
}

/// The capability that a question needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NeededCapability {
    /// Forms.
    Form,
    /// URLs.
    Url,
    /// A model.
    Sampling,
    /// A model with tools.
    SamplingTools,
    /// Folders.
    Roots,
    /// Tasks.
    Tasks,
}

impl NeededCapability {
    pub(crate) fn is_declared(self, client: &ClientInfo) -> bool {
        let declared = client.capabilities;
        match self {
            NeededCapability::Form => declared.form,
            NeededCapability::Url => declared.url,
            NeededCapability::Sampling => declared.sampling,
            NeededCapability::SamplingTools => declared.sampling_tools,
            NeededCapability::Roots => declared.roots,
            NeededCapability::Tasks => declared.tasks,
        }
    }

    /// As a client declares it.
    fn declaration(self) -> Value {
        match self {
            NeededCapability::Form => json!({"elicitation": {"form": {}}}),
            NeededCapability::Url => json!({"elicitation": {"url": {}}}),
            NeededCapability::Sampling => json!({"sampling": {}}),
            NeededCapability::SamplingTools => json!({"sampling": {"tools": {}}}),
            NeededCapability::Roots => json!({"roots": {}}),
            NeededCapability::Tasks => json!({"extensions": {TASKS_EXTENSION_ID: {}}}),
        }
    }
}

impl InputRequest {
    fn new(method: &'static str, params: Value, needs: NeededCapability) -> InputRequest {
        InputRequest { key: None, method, params, needs, field_order: Vec::new() }
    }

    /// A form: a flat object schema, as the protocol allows it.
    pub fn form(message: &str, schema: Value) -> InputRequest {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        InputRequest::new("elicitation/create", params, NeededCapability::Form)
    }

    /// A URL for the user. The id distinguishes it from others.
    pub fn url(message: &str, url: &str, id: &str) -> InputRequest {
        let params = json!({"mode": "url", "message": message, "url": url, "elicitationId": id});
        InputRequest::new("elicitation/create", params, NeededCapability::Url)
    }

    /// A message of the client's model: the parameters of `sampling/createMessage`.
    pub fn sampling(params: Value) -> InputRequest {
        let needs = match params.get("tools") {
            Some(_) => NeededCapability::SamplingTools,
            None => NeededCapability::Sampling,
        };
        InputRequest::new("sampling/createMessage", params, needs)
    }

    /// The client's folders.
    pub fn roots() -> InputRequest {
        InputRequest::new("roots/list", json!({}), NeededCapability::Roots)
    }

    /// The same with the form's fields in this order; other fields follow by name. Most clients show a form
    /// as it is sent.
    #[must_use]
    pub fn with_field_order(mut self, names: Vec<String>) -> InputRequest {
        self.field_order = names;
        self
    }

    /// The same under a stable name.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> InputRequest {
        self.key = Some(key.into());
        self
    }

    /// The parameters as they are sent; `mode` only where the revision has it.
    pub(crate) fn wire_params(&self, with_mode: bool) -> InputParams<'_> {
        InputParams { request: self, with_mode }
    }
}

/// The parameters of a question. JSON objects are sorted here, so a form's fields are put into their order
/// while it is written.
pub(crate) struct InputParams<'a> {
    request: &'a InputRequest,
    with_mode: bool,
}

impl Serialize for InputParams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InputRequest { method, params, field_order, .. } = self.request;
        let Value::Object(params) = params else { return params.serialize(serializer) };
        let omits_mode = !self.with_mode && *method == "elicitation/create";
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in params.iter().filter(|(key, _)| !(omits_mode && *key == "mode")) {
            match value {
                Value::Object(schema) if key == "requestedSchema" => {
                    map.serialize_entry(key, &FormSchema(schema, field_order))?;
                }
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct FormSchema<'a>(&'a Map<String, Value>, &'a [String]);

impl Serialize for FormSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0 {
            match value {
                Value::Object(fields) if key == "properties" => {
                    map.serialize_entry(key, &FormFields(fields, self.1))?;
                }
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct FormFields<'a>(&'a Map<String, Value>, &'a [String]);

impl Serialize for FormFields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FormFields(fields, order) = *self;
        let first = order.iter().enumerate().filter(|(index, name)| !order[..*index].contains(name));
        let first = first.filter_map(|(_, name)| fields.get_key_value(name));
        serializer.collect_map(first.chain(fields.iter().filter(|(name, _)| !order.contains(name))))
    }
}

/// The user's answer to a form or URL.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the three actions of the protocol")]
pub enum ElicitationAnswer {
    /// Yes, with the form's fields. They are not validated: a client may send anything.
    Accepted(Map<String, Value>),
    /// No.
    Declined,
    /// The question was dismissed.
    Dismissed,
}

impl ElicitationAnswer {
    /// From the client's result.
    ///
    /// # Errors
    /// It is none of the three answers.
    pub fn from_value(mut answer: Value) -> Result<ElicitationAnswer, InputError> {
        match answer["action"].as_str() {
            Some("accept") => Ok(ElicitationAnswer::Accepted(match answer["content"].take() {
                Value::Object(content) => content,
                Value::Null => Map::new(),
                _ => return Err(InputError::InvalidAnswer),
            })),
            Some("decline") => Ok(ElicitationAnswer::Declined),
            Some("cancel") => Ok(ElicitationAnswer::Dismissed),
            _ => Err(InputError::InvalidAnswer),
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum InputError {
    /// The client didn't declare the capability; nothing was sent.
    Unsupported(NeededCapability),
    /// The client answered with this error message.
    Refused(String),
    /// The answer doesn't conform to the protocol.
    InvalidAnswer,
    /// Too many questions are open, or too many rounds were asked.
    TooMany,
    /// The client is gone, or the request was cancelled.
    Disconnected,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InputError::Unsupported(NeededCapability::Form) => "the client can't show forms to its user",
            InputError::Unsupported(NeededCapability::Url) => "the client can't show URLs to its user",
            InputError::Unsupported(NeededCapability::Sampling) => "the client lends no model",
            InputError::Unsupported(NeededCapability::SamplingTools) => {
                "the client lends no model with tools"
            }
            InputError::Unsupported(NeededCapability::Roots) => "the client names no folders",
            InputError::Unsupported(NeededCapability::Tasks) => "the client doesn't know tasks",
            InputError::Refused(message) => return write!(f, "the client refused: {message}"),
            InputError::InvalidAnswer => "the client's answer is invalid",
            InputError::TooMany => "the client is asked too much at once",
            InputError::Disconnected => "the client is gone",
        })
    }
}

impl std::error::Error for InputError {}

impl From<InputError> for ErrorData {
    fn from(error: InputError) -> ErrorData {
        match error {
            InputError::Unsupported(needs) => ErrorData::new(
                ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
                error.to_string(),
                Some(json!({"requiredCapabilities": needs.declaration()})),
            ),
            error => ErrorData::internal_error(error.to_string(), None),
        }
    }
}

/// Severity of a log message, as in syslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, clippy::exhaustive_enums, reason = "the names of syslog")]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const NAMES: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    /// Its name.
    pub fn name(self) -> &'static str {
        LogLevel::NAMES[self as usize]
    }

    /// The position of a name in the order of severity.
    pub(crate) fn severity_of(name: &str) -> Option<u8> {
        LogLevel::NAMES.iter().position(|known| *known == name).and_then(|severity| severity.try_into().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::client_info::{ClientCapabilities, ProtocolRevision, TransportKind};

    #[tokio::test]
    async fn undeclared_capabilities_are_not_asked_for() {
        let mut client = ClientInfo::new(TransportKind::Stdio, ProtocolRevision::V2026_07_28);
        client.capabilities = ClientCapabilities::from_value(&json!({"elicitation": {}}));
        let peer = ClientPeer::disconnected(client);
        let unsupported = |needs| Err(InputError::Unsupported(needs));
        assert_eq!(peer.ask(InputRequest::roots()).await, unsupported(NeededCapability::Roots));
        let url = InputRequest::url("m", "https://x.example", "1");
        assert_eq!(peer.ask(url).await, unsupported(NeededCapability::Url));
        let sampling = InputRequest::sampling(json!({"tools": []}));
        assert_eq!(peer.ask(sampling).await, unsupported(NeededCapability::SamplingTools));
        assert_eq!(peer.elicit("m", json!({})).await, Err(InputError::Disconnected));
        let error = ErrorData::from(InputError::Unsupported(NeededCapability::Sampling));
        assert_eq!(error.code.0, -32021);
        assert_eq!(error.data, Some(json!({"requiredCapabilities": {"sampling": {}}})));
    }

    #[test]
    fn elicitation_answers_have_three_actions() {
        let answer = ElicitationAnswer::from_value;
        assert_eq!(answer(json!({"action": "accept"})), Ok(ElicitationAnswer::Accepted(Map::new())));
        assert_eq!(answer(json!({"action": "decline", "content": 3})), Ok(ElicitationAnswer::Declined));
        assert_eq!(answer(json!({"action": "cancel"})), Ok(ElicitationAnswer::Dismissed));
        for odd in [json!({"action": "accept", "content": 3}), json!({}), json!(3), json!({"action": "yes"})]
        {
            assert_eq!(answer(odd), Err(InputError::InvalidAnswer));
        }
    }

    #[test]
    fn form_fields_keep_their_order() {
        let schema = json!({"type": "object", "properties": {"a": 1, "b": 2, "c": 3}});
        let form = InputRequest::form("?", schema)
            .with_field_order(["c", "x", "c", "a"].map(str::to_owned).to_vec());
        let text = |with_mode| serde_json::to_string(&form.wire_params(with_mode)).unwrap();
        let written = r#""requestedSchema":{"properties":{"c":3,"a":1,"b":2},"type":"object"}"#;
        assert_eq!(text(true), format!(r#"{{"message":"?","mode":"form",{written}}}"#));
        assert_eq!(text(false), format!(r#"{{"message":"?",{written}}}"#));
        assert_eq!(serde_json::to_string(&InputRequest::roots().wire_params(false)).unwrap(), "{}");
    }

    #[test]
    fn log_levels_are_ordered_by_severity() {
        assert!(LogLevel::severity_of("warning") > LogLevel::severity_of("info"));
        assert_eq!(LogLevel::severity_of("loud"), None);
        assert_eq!(LogLevel::Emergency.name(), "emergency");
    }
}
