//! JSON-RPC messages: reading them, and writing answers and calls. Knows no method.
//!
//! A message is read once; `params` and results stay the text that they were. The envelope borrows from that
//! text, so it is not read by `haft::schema::parse_json`, but a duplicate key makes it invalid here as well:
//! two readers must not see two different messages.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rmcp::model::{
    CacheScope, CallToolResult, CompleteResult, CreateTaskResult, DiscoverResult, ErrorData, GetPromptResult,
    InitializeResult, MetaObject, ReadResourceResult, ResultType, Task,
};
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::definitions::DefinitionList;
use super::peer::InputRequest;
use super::results::ResultStamp;
use super::tasks::{TaskPayload, TaskSnapshot};
use crate::limits;

/// A message of a client.
pub(crate) enum IncomingMessage<'a> {
    RpcRequest(RpcRequest<'a>),
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// The response to a request of this server.
    Response {
        id: &'a RawValue,
        result: Result<&'a RawValue, &'a RawValue>,
    },
}

/// A request that needs a response.
#[derive(Clone)]
pub(crate) struct RpcRequest<'a> {
    pub(crate) id: &'a RawValue,
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
}

/// A text that is no message.
pub(crate) struct InvalidMessage {
    pub(crate) code: i32,
    pub(crate) message: Cow<'static, str>,
    /// The id of the request, where it can be read.
    pub(crate) id: Option<Box<RawValue>>,
}

const PARSE_ERROR: i32 = -32700;
pub(crate) const INVALID_REQUEST: i32 = -32600;

impl InvalidMessage {
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> InvalidMessage {
        InvalidMessage { code: INVALID_REQUEST, message: message.into(), id: None }
    }

    fn no_json() -> InvalidMessage {
        InvalidMessage { code: PARSE_ERROR, message: "this is not JSON".into(), id: None }
    }
}

#[derive(serde::Deserialize)]
struct MessageEnvelope<'a> {
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A key that exists, even with the value `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    Deserialize::deserialize(from).map(Some)
}

/// Whether a text is a batch of messages.
pub(crate) fn is_batch(text: &[u8]) -> bool {
    text.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// The messages of a batch.
pub(crate) fn read_batch(text: &[u8]) -> Result<Vec<&RawValue>, InvalidMessage> {
    match serde_json::from_slice::<Vec<&RawValue>>(text) {
        Ok(all) if all.is_empty() => Err(InvalidMessage::invalid_request("the batch is empty")),
        Ok(all) if all.len() > limits::BATCH_MAX => {
            Err(InvalidMessage::invalid_request("the batch is too long"))
        }
        Ok(all) => Ok(all),
        Err(_) => Err(InvalidMessage::no_json()),
    }
}

/// Reads a message.
pub(crate) fn read_message(text: &[u8]) -> Result<IncomingMessage<'_>, InvalidMessage> {
    let invalid = |message: &'static str, id: Option<&RawValue>| InvalidMessage {
        id: id.filter(|id| is_id(id)).map(RawValue::to_owned),
        ..InvalidMessage::invalid_request(message)
    };
    let envelope: MessageEnvelope<'_> = serde_json::from_slice(text).map_err(|error| {
        if error.is_data() {
            InvalidMessage::invalid_request("this is no message of JSON-RPC")
        } else {
            InvalidMessage::no_json()
        }
    })?;
    let MessageEnvelope { jsonrpc, id, method, params, result, error } = envelope;
    if jsonrpc.as_deref() != Some("2.0") {
        return Err(invalid("`jsonrpc` has to be \"2.0\"", id));
    }
    match (method, id, result, error) {
        (Some(method), Some(id), None, None) if is_id(id) => {
            Ok(IncomingMessage::RpcRequest(RpcRequest { id, method, params }))
        }
        (Some(_), Some(_), None, None) => Err(invalid("`id` has to be a string or an integer", None)),
        (Some(method), None, None, None) => Ok(IncomingMessage::Notification { method, params }),
        (None, Some(id), Some(result), None) => Ok(IncomingMessage::Response { id, result: Ok(result) }),
        (None, Some(id), None, Some(error)) => Ok(IncomingMessage::Response { id, result: Err(error) }),
        (_, id, _, _) => Err(invalid("a message is a request, a notification or a response", id)),
    }
}

/// Strings and integers of limited length.
fn is_id(id: &RawValue) -> bool {
    let text = id.get();
    let is_integer =
        || text.bytes().enumerate().all(|(at, byte)| byte.is_ascii_digit() || (at == 0 && byte == b'-'));
    text.len() <= limits::ID_BYTES_MAX && (text.starts_with('"') || is_integer())
}

/// The result of a request.
#[derive(Debug)]
pub(crate) enum RequestResult {
    Empty,
    Initialized(Box<InitializeResult>),
    Discovered(Box<DiscoverResult>),
    Called(Box<CallToolResult>),
    Read(ReadResourceResult),
    Prompt(GetPromptResult),
    Completed(CompleteResult),
    /// A page of a list, under its key.
    Page {
        key: &'static str,
        list: DefinitionList,
        from: usize,
    },
    /// Questions, each under its name.
    InputRequired {
        requests: BTreeMap<String, InputRequest>,
        state: String,
    },
    SubscriptionEnded,
    TaskCreated(Box<Task>),
    TaskState(Box<TaskSnapshot>),
}

/// The JSON key under which a notification names its subscription.
pub(crate) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Writes the response to a request.
pub(crate) fn write_response(
    to: &mut Vec<u8>,
    id: &RawValue,
    result: Result<RequestResult, ErrorData>,
    stamp: &ResultStamp,
) {
    let start = to.len();
    to.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    to.extend_from_slice(id.get().as_bytes());
    let written = match result {
        Ok(outcome) => {
            to.extend_from_slice(br#","result":"#);
            outcome.write(to, id, stamp)
        }
        Err(error) => {
            to.extend_from_slice(br#","error":"#);
            let code = stamp.error_code(error.code);
            serde_json::to_writer(&mut *to, &ErrorData { code, ..error })
        }
    };
    if let Err(error) = written {
        to.truncate(start);
        let error = ErrorData::internal_error(format!("the result can't be serialized: {error}"), None);
        return write_response(to, id, Err(error), stamp);
    }
    to.push(b'}');
}

impl RequestResult {
    /// Its text, as the result of a task.
    pub(super) fn into_raw(self, stamp: &ResultStamp) -> serde_json::Result<Box<RawValue>> {
        let mut text = Vec::new();
        self.write(&mut text, RawValue::NULL, stamp)?;
        serde_json::from_slice(&text)
    }

    fn write(self, to: &mut Vec<u8>, id: &RawValue, stamp: &ResultStamp) -> serde_json::Result<()> {
        match self {
            RequestResult::Empty => serde_json::to_writer(to, &BareResult::new(stamp, None)),
            RequestResult::Initialized(result) => serde_json::to_writer(to, &result),
            RequestResult::Discovered(mut result) => {
                stamp.identify(&mut result.meta);
                serde_json::to_writer(to, &result)
            }
            RequestResult::Called(mut result) => {
                result.structured_content.take_if(|value| !stamp.accepts_structured(value));
                stamp.apply(&mut result.result_type, &mut result.meta);
                serde_json::to_writer(to, &result)
            }
            RequestResult::Read(mut result) => {
                stamp.apply(&mut result.result_type, &mut result.meta);
                let is_stateless = stamp.revision.is_stateless();
                result.ttl_ms = is_stateless.then(|| result.ttl_ms.unwrap_or_default());
                result.cache_scope = is_stateless.then(|| result.cache_scope.unwrap_or(CacheScope::Private));
                serde_json::to_writer(to, &result)
            }
            RequestResult::Prompt(mut result) => {
                stamp.apply(&mut result.result_type, &mut result.meta);
                serde_json::to_writer(to, &result)
            }
            RequestResult::Completed(mut result) => {
                stamp.apply(&mut result.result_type, &mut result.meta);
                serde_json::to_writer(to, &result)
            }
            RequestResult::Page { key, list, from } => {
                serde_json::to_writer(to, &ListPage { key, list, from, stamp })
            }
            RequestResult::InputRequired { requests, state } => {
                let result = InputRequired { requests: &requests, state: &state, stamp };
                serde_json::to_writer(to, &result)
            }
            RequestResult::TaskCreated(task) => {
                let mut result = CreateTaskResult::new(*task);
                stamp.identify(&mut result.meta);
                serde_json::to_writer(to, &result)
            }
            RequestResult::TaskState(snapshot) => {
                let TaskSnapshot { task, payload } = *snapshot;
                let common = BareResult::new(stamp, None);
                let result = match &payload {
                    TaskPayload::None => TaskStateBody::new(common, task),
                    TaskPayload::Questions(questions) => TaskStateBody {
                        input_requests: Some(wire_questions(questions)),
                        ..TaskStateBody::new(common, task)
                    },
                    TaskPayload::Result(result) => {
                        TaskStateBody { result: Some(result), ..TaskStateBody::new(common, task) }
                    }
                    TaskPayload::Error(error) => {
                        TaskStateBody { error: Some(error), ..TaskStateBody::new(common, task) }
                    }
                };
                serde_json::to_writer(to, &result)
            }
            RequestResult::SubscriptionEnded => {
                let mut meta = MetaObject::new();
                meta.insert(SUBSCRIPTION_ID.to_owned(), serde_json::from_str(id.get())?);
                serde_json::to_writer(to, &BareResult::new(stamp, Some(meta)))
            }
        }
    }
}

/// The fields that all results have.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct BareResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<ResultType>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<MetaObject>,
}

impl BareResult {
    fn new(stamp: &ResultStamp, meta: Option<MetaObject>) -> BareResult {
        let mut result = BareResult { result_type: None, meta };
        stamp.apply(&mut result.result_type, &mut result.meta);
        result
    }
}

struct ListPage<'a> {
    key: &'static str,
    list: DefinitionList,
    from: usize,
    stamp: &'a ResultStamp,
}

impl Serialize for ListPage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ListPage { key, list, from, stamp } = self;
        let BareResult { result_type, meta } = BareResult::new(stamp, None);
        let is_stateless = stamp.revision.is_stateless();
        let mut map = serializer.serialize_map(None)?;
        if let Some(result_type) = result_type {
            map.serialize_entry("resultType", &result_type)?;
            map.serialize_entry("ttlMs", &0)?;
            map.serialize_entry("cacheScope", &CacheScope::Private)?;
        }
        let page: Vec<&RawValue> = list.page(*from, limits::PAGE_ITEMS, is_stateless).collect();
        map.serialize_entry(key, &page)?;
        if from + limits::PAGE_ITEMS < list.len() {
            map.serialize_entry("nextCursor", &(from + limits::PAGE_ITEMS).to_string())?;
        }
        if let Some(meta) = meta {
            map.serialize_entry("_meta", &meta)?;
        }
        map.end()
    }
}

/// A question as a result has it.
struct WireQuestion<'a>(&'a InputRequest);

impl Serialize for WireQuestion<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("method", self.0.method)?;
        map.serialize_entry("params", &self.0.wire_params(true))?;
        map.end()
    }
}

fn wire_questions(requests: &BTreeMap<String, InputRequest>) -> BTreeMap<&String, WireQuestion<'_>> {
    requests.iter().map(|(name, request)| (name, WireQuestion(request))).collect()
}

/// The result of `tasks/get`.
#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskStateBody<'a> {
    #[serde(flatten)]
    common: BareResult,
    #[serde(flatten)]
    task: Task,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_requests: Option<BTreeMap<&'a String, WireQuestion<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorData>,
}

impl TaskStateBody<'_> {
    fn new(common: BareResult, task: Task) -> Self {
        TaskStateBody { common, task, input_requests: None, result: None, error: None }
    }
}

struct InputRequired<'a> {
    requests: &'a BTreeMap<String, InputRequest>,
    state: &'a str,
    stamp: &'a ResultStamp,
}

impl Serialize for InputRequired<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("resultType", &ResultType::INPUT_REQUIRED)?;
        map.serialize_entry("inputRequests", &wire_questions(self.requests))?;
        map.serialize_entry("requestState", self.state)?;
        if let Some(meta) = BareResult::new(self.stamp, None).meta {
            map.serialize_entry("_meta", &meta)?;
        }
        map.end()
    }
}

/// Writes the error for a text that is no message.
pub(crate) fn write_invalid(to: &mut Vec<u8>, invalid: &InvalidMessage) {
    let id = invalid.id.as_deref().map_or("null", RawValue::get);
    let message = Value::from(&*invalid.message);
    let code = invalid.code;
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#);
    to.extend_from_slice(text.as_bytes());
}

/// Writes a notification, or a request of this server. Nothing is written if the parameters can't be
/// serialized.
pub(crate) fn write_call(to: &mut Vec<u8>, id: Option<u64>, method: &str, params: &impl Serialize) {
    let start = to.len();
    to.extend_from_slice(br#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        to.extend_from_slice(format!(r#""id":"haft-{id}","#).as_bytes());
    }
    to.extend_from_slice(format!(r#""method":"{method}","params":"#).as_bytes());
    match serde_json::to_writer(&mut *to, params) {
        Ok(()) => to.push(b'}'),
        Err(_) => to.truncate(start),
    }
}

/// The number of a request of this server, from the id of its response.
pub(crate) fn own_request_number(id: &RawValue) -> Option<u64> {
    id.get().strip_prefix("\"haft-")?.strip_suffix('"')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::server::client_info::ProtocolRevision;
    use crate::server::results::{unknown_resource, unknown_tool};

    fn kind(text: &str) -> String {
        match read_message(text.as_bytes()) {
            Ok(IncomingMessage::RpcRequest(request)) => format!("request {} {}", request.id, request.method),
            Ok(IncomingMessage::Notification { method, .. }) => format!("notification {method}"),
            Ok(IncomingMessage::Response { id, result }) => format!("response {id} {}", result.is_ok()),
            Err(invalid) => {
                format!("{} {}", invalid.code, invalid.id.map_or("-".to_owned(), |id| id.to_string()))
            }
        }
    }

    #[test]
    fn message_kinds_are_distinguished() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"p\u0069ng","params":{}}"#, "request \"a\" ping"),
            (r#"{"jsonrpc":"2.0","method":"n"}"#, "notification n"),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, "response 1 true"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, "response 1 false"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "-32600 -"),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, "-32600 7"),
            (r#"{"id":7,"method":"ping"}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","result":1}"#, "-32600 7"),
            (r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"a"}"#, "-32600 -"),
            (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, "-32600 -"),
            ("[]", "-32600 -"),
            ("3", "-32600 -"),
            ("{\"jsonrpc\":", "-32700 -"),
            ("", "-32700 -"),
            ("{\"jsonrpc\":\"2.0\"} x", "-32700 -"),
            ("\u{feff}{}", "-32700 -"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
        assert_eq!(
            kind(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a"}}"#, "x".repeat(400))),
            "-32600 -"
        );
    }

    #[test]
    fn nested_params_are_not_parsed() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{}1{}}}"#,
            "[".repeat(200_000),
            "]".repeat(200_000)
        );
        assert_eq!(kind(&deep), "request 1 a");
    }

    fn response(result: Result<RequestResult, ErrorData>, revision: ProtocolRevision) -> Value {
        let mut text = Vec::new();
        let id = RawValue::from_string("7".to_owned()).unwrap();
        write_response(&mut text, &id, result, &ResultStamp::new(revision));
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn lists_are_sent_in_pages() {
        let list = DefinitionList::new((0..limits::PAGE_ITEMS + 1).map(|at| json!({"name": at.to_string()})));
        let page = |from| Ok(RequestResult::Page { key: "tools", list: list.clone(), from });
        let first = response(page(0), ProtocolRevision::V2025_11_25);
        assert_eq!(first["result"]["tools"].as_array().unwrap().len(), limits::PAGE_ITEMS);
        assert_eq!(first["result"]["nextCursor"], limits::PAGE_ITEMS.to_string());
        let last = response(page(limits::PAGE_ITEMS), ProtocolRevision::V2026_07_28);
        let name = limits::PAGE_ITEMS.to_string();
        assert_eq!(
            last,
            json!({"jsonrpc": "2.0", "id": 7, "result":
                {"resultType": "complete", "tools": [{"name": name}], "ttlMs": 0, "cacheScope": "private"}})
        );
    }

    #[test]
    fn results_and_errors_depend_on_the_revision() {
        let result = |outcome, revision| response(Ok(outcome), revision)["result"].clone();
        assert_eq!(result(RequestResult::Empty, ProtocolRevision::V2025_11_25), json!({}));
        assert_eq!(
            result(RequestResult::Empty, ProtocolRevision::V2026_07_28),
            json!({"resultType": "complete"})
        );
        let ended = result(RequestResult::SubscriptionEnded, ProtocolRevision::V2026_07_28);
        assert_eq!(ended["_meta"][SUBSCRIPTION_ID], 7);
        let called = |value: Value, revision| {
            let mut called = CallToolResult::default();
            called.structured_content = Some(value);
            result(RequestResult::Called(Box::new(called)), revision)
        };
        let structured = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(called(json!({"a": 1}), ProtocolRevision::V2025_06_18), structured);
        assert_eq!(called(json!({"a": 1}), ProtocolRevision::V2025_03_26), json!({"content": []}));
        assert_eq!(called(json!([1]), ProtocolRevision::V2025_11_25), json!({"content": []}));
        assert_eq!(
            called(json!([1]), ProtocolRevision::V2026_07_28),
            json!({"resultType": "complete", "content": [], "structuredContent": [1]})
        );
        let error = |error, revision| response(Err(error), revision)["error"].clone();
        assert_eq!(
            error(unknown_tool("x"), ProtocolRevision::V2025_11_25),
            json!({"code": -32602, "message": "Unknown tool: x"})
        );
        assert_eq!(error(unknown_resource("x://y"), ProtocolRevision::V2025_11_25)["code"], -32002);
        assert_eq!(error(unknown_resource("x://y"), ProtocolRevision::V2026_07_28)["code"], -32602);
    }
}
