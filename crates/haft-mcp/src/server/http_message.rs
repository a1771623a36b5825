//! HTTP requests and responses: headers and body of a request, and the bodies of responses.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming as IncomingBody;
use rmcp::model::ErrorData;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client_info::Principal;
use super::definitions::HeaderArgument;
use super::event_stream::EventBody;
use super::json_rpc::{InvalidMessage, RequestResult, write_invalid, write_response};
use super::request::{McpRequest, SharedParams};
use super::results::ResultStamp;
use super::session::ServerSession;
use crate::limits;

pub(super) const SESSION_ID: &str = "mcp-session-id";
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";
const METHOD: &str = "mcp-method";
const NAME: &str = "mcp-name";

/// A refused HTTP request.
#[derive(Debug)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> HttpError {
        HttpError { status, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, message)
    }
}

/// The principal and the headers of an HTTP request.
pub(crate) struct HttpRequest {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: HeaderMap,
}

impl HttpRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }

    /// Whether the client accepts this media type.
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let (family, _) = media_type.split_once('/').unwrap_or((media_type, ""));
        let mut accepted =
            self.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        accepted.peek().is_none()
            || accepted.flat_map(|value| value.split(',')).any(|item| {
                let item = item.split(';').next().unwrap_or_default().trim();
                item.eq_ignore_ascii_case(media_type)
                    || item == "*/*"
                    || item.strip_suffix("/*") == Some(family)
            })
    }

    /// # Errors
    /// The body is no JSON, or the client doesn't accept both kinds of response.
    pub(super) fn check_media_types(&self) -> Result<(), HttpError> {
        let is_json = self.header(CONTENT_TYPE.as_str()).is_some_and(|kind| {
            kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            let message = "a body has to be `application/json`";
            return Err(HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
        if !self.accepts("application/json") || !self.accepts("text/event-stream") {
            let message = "a request has to accept `application/json` and `text/event-stream`";
            return Err(HttpError::new(StatusCode::NOT_ACCEPTABLE, message));
        }
        Ok(())
    }

    /// Reads the body, of at most so many bytes.
    ///
    /// # Errors
    /// It is longer, breaks off, or takes too long.
    pub(super) async fn read_body(
        &self,
        body: &mut IncomingBody,
        limit: usize,
    ) -> Result<Vec<u8>, HttpError> {
        let too_long =
            || HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {limit} bytes"));
        let declared = self.header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<usize>().ok());
        if declared.is_some_and(|length| length > limit) {
            return Err(too_long());
        }
        // The declared length reserves no more than one read.
        let mut text = Vec::with_capacity(declared.unwrap_or_default().min(limits::READ_BYTES));
        let all = async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| HttpError::bad_request("the body broke off"))?;
                if let Some(data) = frame.data_ref() {
                    if text.len() + data.len() > limit {
                        return Err(too_long());
                    }
                    text.extend_from_slice(data);
                }
            }
            Ok(text)
        };
        let late = || HttpError::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
        tokio::time::timeout(limits::BODY_TIMEOUT, all).await.map_err(|_| late())?
    }

    /// The value of a header that may be encoded in base64.
    ///
    /// # Errors
    /// It is there twice, or can't be decoded.
    fn single(&self, name: &str) -> Result<Option<String>, ErrorData> {
        let mismatch = |what: &str| ErrorData::header_mismatch(format!("the header `{name}` {what}"), None);
        let mut values = self.headers.get_all(name).iter();
        let Some(value) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(mismatch("is there twice"));
        }
        let value = value.to_str().ok().map(str::trim).and_then(|value| {
            match value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
                Some(encoded) => String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok(),
                None => Some(value.to_owned()),
            }
        });
        value.map(Some).ok_or_else(|| mismatch("can't be read"))
    }

    fn check_header(&self, name: &str, expected: Option<&str>, what: &str) -> Result<(), ErrorData> {
        if self.single(name)?.as_deref() == expected {
            return Ok(());
        }
        Err(ErrorData::header_mismatch(format!("the header `{name}` has to be the same as {what}"), None))
    }

    /// In the stateless revision headers repeat what the body says, for proxies.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn check_headers(
        &self,
        method: &str,
        request: &McpRequest,
        shared: &SharedParams,
    ) -> Result<(), ErrorData> {
        self.check_header(PROTOCOL_VERSION, shared.revision(), "the revision in `_meta`")?;
        self.check_header(METHOD, Some(method), "the method")?;
        match request.target() {
            Some(target) => self.check_header(NAME, Some(target), "the name or URI in the parameters"),
            None => Ok(()),
        }
    }

    /// # Errors
    /// The headers for arguments of a tool differ from its arguments.
    pub(super) async fn check_argument_headers(
        &self,
        session: &ServerSession,
        request: &McpRequest,
    ) -> Result<(), ErrorData> {
        let McpRequest::CallTool { name, arguments } = request else { return Ok(()) };
        let tools = session.handler().current_tools().await?;
        let header_arguments = tools.header_arguments(name);
        if header_arguments.is_empty() {
            return Ok(());
        }
        let Ok(arguments) = serde_json::from_str::<Value>(arguments.get()) else { return Ok(()) };
        for HeaderArgument { header, path } in header_arguments {
            let argument =
                path.iter().try_fold(&arguments, |value, key| value.get(key)).and_then(header_text);
            let what = format!("the argument `{}`", path.join("."));
            self.check_header(
                &format!("mcp-param-{}", header.to_ascii_lowercase()),
                argument.as_deref(),
                &what,
            )?;
        }
        Ok(())
    }
}

/// Reads what is left of a refused body, within limits: closing a connection with unread bytes could lose the
/// response.
pub(super) async fn discard_body(body: &mut IncomingBody) {
    let mut remaining = limits::REFUSED_BODY_BYTES_MAX;
    let rest = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match remaining.checked_sub(length) {
                Some(less) => remaining = less,
                None => return,
            }
        }
    };
    let _ = tokio::time::timeout(limits::REFUSED_BODY_TIMEOUT, rest).await;
}

/// A value as a header repeats it.
fn header_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The HTTP status of a JSON-RPC error in the stateless revision; before, the message alone says it.
pub(super) fn error_status(code: i32) -> StatusCode {
    match code {
        -32601 => StatusCode::NOT_FOUND,
        -32700 | -32600 | -32602 | -32020 | -32021 | -32022 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The HTTP status of a serialized response.
pub(super) fn response_status(response: &[u8]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct ErrorResponse {
        error: Option<ErrorNumber>,
    }
    #[derive(serde::Deserialize)]
    struct ErrorNumber {
        code: i32,
    }
    let error = serde_json::from_slice::<ErrorResponse>(response).ok().and_then(|response| response.error);
    error.map_or(StatusCode::OK, |error| error_status(error.code))
}

/// The response to a JSON-RPC request.
pub(super) fn rpc_response(
    id: &RawValue,
    result: Result<RequestResult, ErrorData>,
    stamp: &ResultStamp,
) -> Response<ResponseBody> {
    let status = match &result {
        Err(error) if stamp.revision.is_stateless() => error_status(stamp.error_code(error.code).0),
        _ => StatusCode::OK,
    };
    let mut text = Vec::with_capacity(256);
    write_response(&mut text, id, result, stamp);
    json_response(status, text)
}

/// The response to a body that is no message.
pub(super) fn invalid_response(status: StatusCode, invalid: &InvalidMessage) -> Response<ResponseBody> {
    let mut text = Vec::new();
    write_invalid(&mut text, invalid);
    json_response(status, text)
}

/// The body of a response: a whole text, or a stream of events.
pub(crate) type ResponseBody = Either<Full<Bytes>, EventBody>;

fn build_response(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

pub(crate) fn empty_response(status: StatusCode) -> Response<ResponseBody> {
    build_response(status, Either::Left(Full::default()))
}

pub(crate) fn json_response(status: StatusCode, text: Vec<u8>) -> Response<ResponseBody> {
    let mut response = build_response(status, Either::Left(Full::from(text)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(crate) fn event_response(body: EventBody) -> Response<ResponseBody> {
    let mut response = build_response(StatusCode::OK, Either::Right(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("cache-control", HeaderValue::from_static("no-cache, no-transform"));
    // Proxies that know this header don't buffer the stream.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
