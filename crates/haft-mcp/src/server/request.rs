//! MCP requests: methods with their parameters, and what a request of the stateless revision says about its
//! client.

use std::borrow::Cow;

use haft::schema::parse_json;
use rmcp::model::{CompleteRequestParams, ErrorCode, ErrorData, SubscriptionFilter};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::client_info::{ClientCapabilities, ClientInfo, ProtocolRevision, TransportKind};
use super::json_rpc::present;
use super::peer::LogLevel;
use super::results::{invalid_params, unknown_method};
use crate::{limits, text};

/// Keys that the stateless revision puts into `_meta` of each request.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The severity that no log message reaches.
pub(crate) const NO_LOG: u8 = u8::MAX;

/// Reads the parameters of a method.
fn parse<'a, T: Deserialize<'a>>(params: Option<&'a RawValue>) -> Result<T, ErrorData> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| invalid_params(format!("invalid parameters: {error}")))
}

/// The parameters that all methods have in common.
#[derive(Default)]
pub(crate) struct SharedParams {
    pub(crate) meta: Map<String, Value>,
    /// Answers to the questions of an earlier result.
    pub(crate) input_responses: Option<Map<String, Value>>,
    /// The state of an earlier result.
    pub(crate) request_state: Option<String>,
}

impl SharedParams {
    /// # Errors
    /// They don't conform to the protocol.
    pub(crate) fn read(params: Option<&RawValue>) -> Result<SharedParams, ErrorData> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct RawShared<'a> {
            #[serde(rename = "_meta")]
            meta: Option<Map<String, Value>>,
            #[serde(borrow, default, deserialize_with = "present")]
            input_responses: Option<&'a RawValue>,
            request_state: Option<String>,
        }
        let raw: RawShared<'_> = parse(params)?;
        // A duplicate key would hide one of two answers, so it is invalid here.
        let responses = raw.input_responses.map(|responses| {
            let responses =
                parse_json(responses.get()).ok().and_then(|value| serde_json::from_value(value).ok());
            responses
                .ok_or_else(|| invalid_params("`inputResponses` has to be an object without duplicate keys"))
        });
        Ok(SharedParams {
            meta: raw.meta.unwrap_or_default(),
            input_responses: responses.transpose()?,
            request_state: raw.request_state,
        })
    }

    /// Whether it is a request of the stateless revision.
    pub(crate) fn is_stateless(&self) -> bool {
        self.meta.contains_key(PROTOCOL_VERSION)
    }

    /// The revision as the request names it.
    pub(crate) fn revision(&self) -> Option<&str> {
        self.meta.get(PROTOCOL_VERSION).and_then(Value::as_str)
    }

    /// # Errors
    /// A request of the stateless revision doesn't describe its client.
    pub(crate) fn check_sender(&self) -> Result<(), ErrorData> {
        match [PROTOCOL_VERSION, CLIENT_CAPABILITIES].into_iter().find(|key| !self.meta.contains_key(*key)) {
            Some(key) => {
                Err(invalid_params(format!("`_meta` lacks `{key}`; each request of this revision has it")))
            }
            None => Ok(()),
        }
    }

    /// Takes the description of the client out of a request of the stateless revision.
    ///
    /// # Errors
    /// It is missing, invalid, or names another revision.
    pub(crate) fn take_sender(&mut self) -> Result<RequestSender, ErrorData> {
        self.check_sender()?;
        let revision = self.meta.remove(PROTOCOL_VERSION).unwrap_or_default();
        let capabilities = self.meta.remove(CLIENT_CAPABILITIES).unwrap_or_default();
        if !capabilities.is_object() {
            return Err(invalid_params(format!("`{CLIENT_CAPABILITIES}` has to be an object")));
        }
        let Value::String(revision) = revision else {
            return Err(invalid_params(format!("`{PROTOCOL_VERSION}` has to be a string")));
        };
        if !ProtocolRevision::from_name(&revision).is_some_and(ProtocolRevision::is_stateless) {
            return Err(unsupported_revision(&revision));
        }
        let info = self.meta.remove(CLIENT_INFO).unwrap_or(Value::Null);
        let log_level = self.meta.remove(LOG_LEVEL);
        let log_level = log_level.as_ref().and_then(Value::as_str).and_then(LogLevel::severity_of);
        Ok(RequestSender { capabilities, info, log_level: log_level.unwrap_or(NO_LOG) })
    }
}

/// The names of the revisions without a handshake.
pub(crate) fn stateless_revisions() -> Vec<&'static str> {
    ProtocolRevision::ALL
        .into_iter()
        .filter(|revision| revision.is_stateless())
        .map(ProtocolRevision::name)
        .collect()
}

fn unsupported_revision(requested: &str) -> ErrorData {
    let (requested, supported) = (text::display_line(requested, 60), stateless_revisions());
    let message = format!("revision `{requested}` is not supported; supported are {}", supported.join(", "));
    let data = json!({"supported": supported, "requested": requested});
    ErrorData::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message, Some(data))
}

/// The client as a request of the stateless revision describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestSender {
    capabilities: Value,
    info: Value,
    pub(crate) log_level: u8,
}

impl RequestSender {
    pub(crate) fn is_same_client(&self, other: &RequestSender) -> bool {
        self.capabilities == other.capabilities && self.info == other.info
    }

    pub(crate) fn client(&self, transport: TransportKind) -> ClientInfo {
        described_client(transport, ProtocolRevision::V2026_07_28, &self.info, &self.capabilities)
    }
}

fn described_client(
    transport: TransportKind,
    revision: ProtocolRevision,
    info: &Value,
    capabilities: &Value,
) -> ClientInfo {
    let field =
        |key: &str| text::display_line(info[key].as_str().unwrap_or_default(), limits::NAME_CHARS_MAX);
    let mut client = ClientInfo::new(transport, revision);
    client.capabilities = ClientCapabilities::from_value(capabilities);
    (client.name, client.version) = (field("name"), field("version"));
    client
}

/// The client of an `initialize` request, with the negotiated revision.
///
/// # Errors
/// The parameters are invalid.
pub(crate) fn read_handshake(
    params: Option<&RawValue>,
    transport: TransportKind,
) -> Result<ClientInfo, ErrorData> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct HandshakeParams<'a> {
        #[serde(borrow)]
        protocol_version: Cow<'a, str>,
        #[serde(default)]
        capabilities: Value,
        #[serde(default)]
        client_info: Value,
    }
    let asked: HandshakeParams<'_> = parse(params)?;
    // An unknown revision, or one without a handshake, is answered with the newest that has one.
    let revision =
        ProtocolRevision::from_name(&asked.protocol_version).filter(|revision| !revision.is_stateless());
    let revision = revision.unwrap_or(ProtocolRevision::LATEST_WITH_HANDSHAKE);
    Ok(described_client(transport, revision, &asked.client_info, &asked.capabilities))
}

/// A request with its parameters.
#[derive(Debug)]
pub(crate) enum McpRequest {
    Ping,
    Discover,
    SetLogLevel(u8),
    ListTools(usize),
    CallTool { name: String, arguments: Box<RawValue> },
    ListResources(usize),
    ListTemplates(usize),
    ReadResource(String),
    Subscribe(String),
    Unsubscribe(String),
    ListPrompts(usize),
    GetPrompt { name: String, arguments: Map<String, Value> },
    Complete(CompleteRequestParams),
    Listen(SubscriptionFilter),
    GetTask(String),
    UpdateTask { id: String, responses: Map<String, Value> },
    CancelTask(String),
}

impl McpRequest {
    /// # Errors
    /// The revision has no such method, or the parameters are invalid.
    pub(crate) fn read(
        method: &str,
        params: Option<&RawValue>,
        revision: ProtocolRevision,
    ) -> Result<McpRequest, ErrorData> {
        let is_stateless = revision.is_stateless();
        Ok(match method {
            "tools/call" => {
                let (name, arguments) = read_call(params)?;
                McpRequest::CallTool { name, arguments }
            }
            "tools/list" => McpRequest::ListTools(read_cursor(params)?),
            "resources/list" => McpRequest::ListResources(read_cursor(params)?),
            "resources/templates/list" => McpRequest::ListTemplates(read_cursor(params)?),
            "resources/read" => McpRequest::ReadResource(read_uri(params)?),
            "prompts/list" => McpRequest::ListPrompts(read_cursor(params)?),
            "prompts/get" => {
                let (name, arguments) = read_call(params)?;
                let arguments = serde_json::from_str::<Option<_>>(arguments.get());
                let arguments = arguments.map_err(|_| invalid_params("`arguments` has to be an object"))?;
                McpRequest::GetPrompt { name, arguments: arguments.unwrap_or_default() }
            }
            "completion/complete" => McpRequest::Complete(parse(params)?),
            "ping" if !is_stateless => McpRequest::Ping,
            "logging/setLevel" if !is_stateless => McpRequest::SetLogLevel(read_log_level(params)?),
            "resources/subscribe" if !is_stateless => McpRequest::Subscribe(read_uri(params)?),
            "resources/unsubscribe" if !is_stateless => McpRequest::Unsubscribe(read_uri(params)?),
            "server/discover" if is_stateless => McpRequest::Discover,
            "subscriptions/listen" if is_stateless => McpRequest::Listen(read_filter(params)?),
            "tasks/get" if is_stateless => McpRequest::GetTask(read_task_id(params)?),
            // The answers are among the shared parameters.
            "tasks/update" if is_stateless => {
                McpRequest::UpdateTask { id: read_task_id(params)?, responses: Map::new() }
            }
            "tasks/cancel" if is_stateless => McpRequest::CancelTask(read_task_id(params)?),
            other => return Err(unknown_method(other)),
        })
    }

    /// Whether the client may be asked for input meanwhile.
    pub(crate) fn may_ask(&self) -> bool {
        matches!(
            self,
            McpRequest::CallTool { .. } | McpRequest::ReadResource(_) | McpRequest::GetPrompt { .. }
        )
    }

    /// The name, URI or id that the header `Mcp-Name` repeats.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            McpRequest::CallTool { name, .. } | McpRequest::GetPrompt { name, .. } => Some(name),
            McpRequest::ReadResource(uri) => Some(uri),
            McpRequest::GetTask(id) | McpRequest::UpdateTask { id, .. } | McpRequest::CancelTask(id) => {
                Some(id)
            }
            _ => None,
        }
    }
}

fn read_call(params: Option<&RawValue>) -> Result<(String, Box<RawValue>), ErrorData> {
    #[derive(Deserialize)]
    struct CallParams<'a> {
        name: String,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let CallParams { name, arguments } = parse(params)?;
    Ok((name, arguments.unwrap_or(RawValue::NULL).to_owned()))
}

fn read_uri(params: Option<&RawValue>) -> Result<String, ErrorData> {
    #[derive(Deserialize)]
    struct UriParams {
        uri: String,
    }
    parse::<UriParams>(params).map(|params| params.uri)
}

fn read_task_id(params: Option<&RawValue>) -> Result<String, ErrorData> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TaskParams {
        task_id: String,
    }
    parse::<TaskParams>(params).map(|params| params.task_id)
}

fn read_cursor(params: Option<&RawValue>) -> Result<usize, ErrorData> {
    #[derive(Deserialize)]
    struct CursorParams<'a> {
        #[serde(borrow)]
        cursor: Option<Cow<'a, str>>,
    }
    let Some(cursor) = parse::<CursorParams<'_>>(params)?.cursor else { return Ok(0) };
    let from = cursor.parse::<usize>().ok().filter(|from| from.is_multiple_of(limits::PAGE_ITEMS));
    from.ok_or_else(|| invalid_params("`cursor` is not one of this server"))
}

fn read_log_level(params: Option<&RawValue>) -> Result<u8, ErrorData> {
    #[derive(Deserialize)]
    struct LevelParams {
        level: String,
    }
    let level = LogLevel::severity_of(&parse::<LevelParams>(params)?.level);
    level.ok_or_else(|| {
        invalid_params(
            "`level` has to be one of debug, info, notice, warning, error, critical, alert, emergency",
        )
    })
}

fn read_filter(params: Option<&RawValue>) -> Result<SubscriptionFilter, ErrorData> {
    #[derive(Deserialize)]
    struct ListenParams {
        notifications: SubscriptionFilter,
    }
    let filter = parse::<ListenParams>(params)?.notifications;
    match filter.resource_subscriptions.as_ref().map_or(0, Vec::len) {
        0..=limits::WATCHES_MAX => Ok(filter),
        _ => Err(too_many_subscriptions()),
    }
}

pub(crate) fn too_many_subscriptions() -> ErrorData {
    invalid_params(format!("at most {} resources can be subscribed to", limits::WATCHES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    /// The error of a request, or 0.
    fn code(method: &str, params: &Value, revision: ProtocolRevision) -> i32 {
        let params = raw(params);
        let read = SharedParams::read(Some(&params));
        let read = read.and_then(|_| McpRequest::read(method, Some(&params), revision));
        read.map_or_else(|error| error.code.0, |_| 0)
    }

    #[test]
    fn methods_belong_to_revisions() {
        let code = |method| {
            let params = json!({"level": "info", "uri": "x", "notifications": {}});
            [ProtocolRevision::V2025_11_25, ProtocolRevision::V2026_07_28]
                .map(|revision| code(method, &params, revision))
        };
        for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
            assert_eq!(code(method), [0, -32601], "{method}");
        }
        for method in ["server/discover", "subscriptions/listen"] {
            assert_eq!(code(method), [-32601, 0], "{method}");
        }
        assert_eq!(code("tools/eat"), [-32601; 2]);
    }

    #[test]
    fn duplicate_answers_are_refused() {
        let twice = r#"{"name": "a", "inputResponses": {"k": {"action": "decline", "action": "accept"}}}"#;
        let params = RawValue::from_string(twice.to_owned()).unwrap();
        assert!(SharedParams::read(Some(&params)).is_err());
    }

    #[test]
    fn invalid_parameters_are_refused() {
        for (method, params) in [
            ("tools/call", json!({})),
            ("tools/call", json!({"name": 3})),
            ("tools/call", json!([])),
            ("tools/list", json!({"cursor": "7"})),
            ("tools/list", json!({"cursor": "-1"})),
            ("tools/call", json!({"name": "a", "inputResponses": null})),
            ("tools/call", json!({"name": "a", "inputResponses": [1]})),
            ("prompts/get", json!({"name": "a", "arguments": 3})),
            (
                "completion/complete",
                json!({"ref": {"type": "ref/odd"}, "argument": {"name": "a", "value": ""}}),
            ),
            ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}})),
            ("subscriptions/listen", json!({})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [3]}})),
            ("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": vec!["x"; 999]}})),
        ] {
            assert_eq!(code(method, &params, ProtocolRevision::V2026_07_28), -32602, "{method} {params}");
        }
    }

    #[test]
    fn tool_arguments_keep_their_text() {
        let text = r#"{"name":"t","arguments":{"b": 1,  "a":[1.50, 1e400]}}"#;
        let params: Box<RawValue> = serde_json::from_str(text).unwrap();
        let (_, arguments) = read_call(Some(&params)).unwrap();
        assert_eq!(arguments.get(), r#"{"b": 1,  "a":[1.50, 1e400]}"#);
    }

    #[test]
    fn stateless_requests_describe_their_client() {
        let sender = |meta: Value| {
            let mut params = SharedParams::read(Some(&raw(&json!({"_meta": meta})))).unwrap();
            params.take_sender().map_err(|error| error.code.0)
        };
        let full = json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {"roots": {}}, LOG_LEVEL: "error",
            CLIENT_INFO: {"name": "c\u{202e}", "version": "1"}, "progressToken": 3});
        let known = sender(full).unwrap();
        let client = known.client(TransportKind::Http);
        assert_eq!((client.name.as_str(), client.version.as_str()), ("c\\u{202e}", "1"));
        assert!(client.capabilities.roots && known.log_level == LogLevel::Error as u8);
        assert_eq!(sender(json!({})), Err(-32602));
        assert_eq!(sender(json!({PROTOCOL_VERSION: "2026-07-28"})), Err(-32602));
        assert_eq!(sender(json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: 3})), Err(-32602));
        assert_eq!(sender(json!({PROTOCOL_VERSION: 3, CLIENT_CAPABILITIES: {}})), Err(-32602));
        assert_eq!(sender(json!({PROTOCOL_VERSION: "2025-11-25", CLIENT_CAPABILITIES: {}})), Err(-32022));
    }

    #[test]
    fn handshakes_negotiate_a_revision() {
        let negotiated = |asked: &str| {
            let params = raw(&json!({"protocolVersion": asked}));
            read_handshake(Some(&params), TransportKind::Stdio).unwrap().revision.name()
        };
        for known in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(negotiated(known), known);
        }
        assert_eq!(negotiated("2026-07-28"), "2025-11-25");
        assert_eq!(negotiated("1.0"), "2025-11-25");
        assert!(read_handshake(None, TransportKind::Stdio).is_err());
    }
}
