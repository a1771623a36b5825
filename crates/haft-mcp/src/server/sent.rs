//! Answers over HTTP: their bodies, and the headers that go with each kind.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};

use super::events::EventBody;
use super::message::{INVALID_REQUEST, NoMessage, write_no_message};

/// The body of an answer.
pub(crate) enum Sent {
    Whole(Option<Bytes>),
    Events(Box<EventBody>),
}

impl Sent {
    pub(crate) fn empty(status: StatusCode) -> Response<Sent> {
        let mut response = Response::new(Sent::Whole(None));
        *response.status_mut() = status;
        response
    }

    pub(crate) fn json(status: StatusCode, text: Vec<u8>) -> Response<Sent> {
        let mut response = Response::new(Sent::Whole(Some(Bytes::from(text))));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    pub(crate) fn events(body: EventBody) -> Response<Sent> {
        let mut response = Response::new(Sent::Events(Box::new(body)));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert("cache-control", HeaderValue::from_static("no-cache, no-transform"));
        // Known to the proxies that would wait for more otherwise.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    /// An error that belongs to no request.
    pub(crate) fn error(status: StatusCode, words: &str) -> Response<Sent> {
        let mut text = Vec::new();
        write_no_message(
            &mut text,
            &NoMessage { code: INVALID_REQUEST, words: words.to_owned().into(), id: None },
        );
        Sent::json(status, text)
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Sent::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Sent::Events(events) => Pin::new(&mut **events).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Sent::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Sent::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Sent::Events(_) => http_body::SizeHint::default(),
        }
    }
}
