//! Who makes a request over HTTP: its principal, its headers, and its body, read within bounds.

use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming as Body;

use super::gate::Refused;
use super::who::{Client, Principal};
use crate::limits;

pub(super) const SESSION: &str = "mcp-session-id";
pub(super) const VERSION: &str = "mcp-protocol-version";
pub(super) const METHOD: &str = "mcp-method";
pub(super) const NAME: &str = "mcp-name";

/// Who asks, and with which headers.
pub(crate) struct Asker {
    pub(crate) principal: Option<Principal>,
    pub(crate) headers: HeaderMap,
}

impl Asker {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
    }

    /// Whether an answer of this kind is taken.
    pub(super) fn takes(&self, kind: &str) -> bool {
        let (family, _) = kind.split_once('/').unwrap_or((kind, ""));
        let mut accepted =
            self.headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        accepted.peek().is_none()
            || accepted.flat_map(|value| value.split(',')).any(|item| {
                let item = item.split(';').next().unwrap_or_default().trim();
                item.eq_ignore_ascii_case(kind) || item == "*/*" || item.strip_suffix("/*") == Some(family)
            })
    }

    pub(super) fn client(&self, client: Client) -> Client {
        client.with_principal(self.principal.clone())
    }

    /// Whether what is sent is what a message has to be, and its answer would be taken.
    ///
    /// # Errors
    /// It isn't.
    pub(super) fn check_kinds(&self) -> Result<(), Refused> {
        let is_json = self.header(CONTENT_TYPE.as_str()).is_some_and(|kind| {
            kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
        });
        if !is_json {
            return Err(Refused::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a body has to be `application/json`",
            ));
        }
        if !self.takes("application/json") || !self.takes("text/event-stream") {
            let words = "a request has to accept `application/json` and `text/event-stream`";
            return Err(Refused::new(StatusCode::NOT_ACCEPTABLE, words));
        }
        Ok(())
    }

    /// The whole body, of at most so many bytes.
    ///
    /// # Errors
    /// It is longer, breaks off, or takes too long.
    pub(super) async fn read(&self, mut body: Body, most: usize) -> Result<Vec<u8>, Refused> {
        let too_long =
            || Refused::new(StatusCode::PAYLOAD_TOO_LARGE, format!("a body has at most {most} bytes"));
        let told = self.header(CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<usize>().ok());
        if told.is_some_and(|length| length > most) {
            return Err(too_long());
        }
        // What is told is not believed before it comes.
        let mut text = Vec::with_capacity(told.unwrap_or_default().min(limits::READ_BYTES));
        let all = async {
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|_| bad("the body broke off"))?;
                if let Some(data) = frame.data_ref() {
                    if text.len() + data.len() > most {
                        return Err(too_long());
                    }
                    text.extend_from_slice(data);
                }
            }
            Ok(text)
        };
        let late = || Refused::new(StatusCode::REQUEST_TIMEOUT, "the body took too long");
        tokio::time::timeout(limits::BODY_TIMEOUT, all).await.map_err(|_| late())?
    }
}

/// A request that makes no sense.
pub(super) fn bad(words: impl Into<String>) -> Refused {
    Refused::new(StatusCode::BAD_REQUEST, words)
}
