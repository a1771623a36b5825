//! Event streams: the messages that belong to one request over HTTP, or to none.
//!
//! A stream is read by at most one response body at a time. It keeps the latest events, so that a client can
//! resume it after a lost connection; the oldest events are dropped first. The response is always the last
//! event, so it is never dropped.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use haft::sync::lock;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::session::MessageSink;
use crate::limits::{EVENTS_BYTES_KEPT, EVENTS_KEPT, STREAM_ALIVE, STREAM_RETRY};

/// One stream of events.
pub(crate) struct EventStream {
    /// Its number in its session. Without one it can't be resumed.
    number: Option<u64>,
    /// Whether it begins with an empty event, from which it can be resumed.
    is_primed: bool,
    state: Mutex<StreamState>,
}

#[derive(Default)]
struct StreamState {
    events: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// The number of the last event; the first is 1.
    last: u64,
    is_finished: bool,
    /// The current body ends, and the client reconnects later.
    is_closed: bool,
    /// The current body; earlier ones end.
    reader: u64,
    waker: Option<Waker>,
}

/// The first event of a stream.
pub(crate) enum StreamStart {
    /// The response, and nothing else.
    Response(Vec<u8>),
    /// No event at all.
    Empty,
    /// Another message, or nothing yet.
    Streaming,
}

impl EventStream {
    pub(crate) fn new(number: Option<u64>, is_primed: bool) -> EventStream {
        EventStream { number, is_primed, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        lock(&self.state)
    }

    /// Changes the state and wakes the reader.
    fn update<T>(&self, change: impl FnOnce(&mut StreamState) -> T) -> T {
        let (changed, waker) = {
            let mut state = self.state();
            (change(&mut state), state.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        changed
    }

    fn push(&self, message: Vec<u8>, finishes: bool) -> bool {
        self.update(|state| {
            if state.is_finished {
                return false;
            }
            state.last += 1;
            state.bytes += message.len();
            let number = state.last;
            state.events.push_back((number, message));
            while state.events.len() > 1
                && (state.events.len() > EVENTS_KEPT || state.bytes > EVENTS_BYTES_KEPT)
            {
                state.bytes -= state.events.pop_front().map_or(0, |(_, message)| message.len());
            }
            state.is_finished = finishes;
            true
        })
    }

    /// Sends the response, if there is one, and ends the stream.
    pub(crate) fn finish(&self, response: Option<Vec<u8>>) {
        match response {
            Some(response) => drop(self.push(response, true)),
            None => self.update(|state| state.is_finished = true),
        }
    }

    /// Whether no event was sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().last == 0
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().is_finished
    }

    /// Waits for the first event, for at most this long.
    pub(crate) async fn start(&self, timeout: Duration) -> StreamStart {
        let first = std::future::poll_fn(|cx| {
            let mut state = self.state();
            if state.events.is_empty() && !state.is_finished && !state.is_closed {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if !state.is_finished || state.last > 1 {
                return Poll::Ready(StreamStart::Streaming);
            }
            Poll::Ready(match state.events.pop_front() {
                Some((_, response)) => StreamStart::Response(response),
                None => StreamStart::Empty,
            })
        });
        tokio::time::timeout(timeout, first).await.unwrap_or(StreamStart::Streaming)
    }

    /// A body of all events after this one; zero is before the first. An earlier body ends.
    pub(crate) fn read(self: &Arc<EventStream>, after: u64) -> EventBody {
        let reader = self.update(|state| {
            state.reader += 1;
            state.reader
        });
        EventBody {
            stream: self.clone(),
            reader,
            sent: after,
            needs_priming: self.is_primed && after == 0,
            keep_alive: Box::pin(tokio::time::sleep(STREAM_ALIVE)),
            guard: None,
        }
    }

    /// Whether a body waits for events.
    pub(crate) fn is_read(&self) -> bool {
        self.state().waker.is_some()
    }
}

impl MessageSink for EventStream {
    fn notify(&self, message: Vec<u8>) {
        self.push(message, false);
    }

    fn send(&self, message: Vec<u8>) -> bool {
        self.push(message, false)
    }

    fn close_stream(&self) {
        // Only a primed stream can be resumed before its first event.
        if self.is_primed {
            self.update(|state| state.is_closed = true);
        }
    }
}

/// The events of a stream as a response body.
pub(crate) struct EventBody {
    stream: Arc<EventStream>,
    reader: u64,
    /// The last event that was sent.
    sent: u64,
    needs_priming: bool,
    keep_alive: Pin<Box<Sleep>>,
    /// Dropped with the body.
    guard: Option<Box<dyn Send + Sync>>,
}

impl EventBody {
    /// The same with a value that is dropped with it.
    #[must_use]
    pub(crate) fn with_guard(mut self, guard: impl Send + Sync + 'static) -> EventBody {
        self.guard = Some(Box::new(guard));
        self
    }

    /// All events that can be sent now; `None` at the end.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let number = self.stream.number;
        if std::mem::take(&mut self.needs_priming)
            && let Some(stream) = number
        {
            let retry = STREAM_RETRY.as_millis();
            text.extend_from_slice(format!("id: {stream}-0\nretry: {retry}\ndata: \n\n").as_bytes());
        }
        let mut state = self.stream.state();
        if state.reader != self.reader {
            return Poll::Ready(None);
        }
        let first = state.events.partition_point(|(event, _)| *event <= self.sent);
        for (event, message) in state.events.range(first..) {
            self.sent = *event;
            if let Some(stream) = number {
                text.extend_from_slice(format!("id: {stream}-{event}\n").as_bytes());
            }
            text.extend_from_slice(b"event: message\ndata: ");
            text.extend_from_slice(message);
            text.extend_from_slice(b"\n\n");
        }
        if !text.is_empty() {
            return Poll::Ready(Some(text));
        }
        if state.is_finished || std::mem::take(&mut state.is_closed) {
            return Poll::Ready(None);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = |text: Vec<u8>| Some(Ok(Frame::data(Bytes::from(text))));
        let next = match self.next(cx) {
            Poll::Ready(next) => next.and_then(frame),
            Poll::Pending => match self.keep_alive.as_mut().poll(cx) {
                Poll::Ready(()) => frame(b":\n\n".to_vec()),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.keep_alive.as_mut().reset(Instant::now() + STREAM_ALIVE);
        if self.keep_alive.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(next)
    }
}

impl Drop for EventBody {
    fn drop(&mut self) {
        let mut state = self.stream.state();
        if state.reader == self.reader {
            state.waker = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn text(mut body: EventBody) -> String {
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
        text
    }

    #[tokio::test]
    async fn a_single_response_is_no_stream() {
        let stream = EventStream::new(None, false);
        stream.finish(Some(b"{}".to_vec()));
        assert!(
            matches!(stream.start(Duration::ZERO).await, StreamStart::Response(response) if response == b"{}")
        );
        let stream = EventStream::new(None, false);
        stream.notify(b"1".to_vec());
        assert!(matches!(stream.start(Duration::ZERO).await, StreamStart::Streaming));
        let stream = EventStream::new(None, false);
        stream.finish(None);
        assert!(matches!(stream.start(Duration::ZERO).await, StreamStart::Empty));
    }

    #[tokio::test]
    async fn streams_are_resumed_after_an_event() {
        let stream = Arc::new(EventStream::new(Some(7), true));
        stream.notify(b"a".to_vec());
        stream.notify(b"b".to_vec());
        let lost = stream.read(0);
        let resumed = stream.read(1);
        stream.finish(Some(b"c".to_vec()));
        assert!(!stream.send(b"late".to_vec()), "nothing follows the response");
        assert_eq!(text(lost).await, "", "a newer body reads");
        assert_eq!(
            text(resumed).await,
            "id: 7-2\nevent: message\ndata: b\n\nid: 7-3\nevent: message\ndata: c\n\n"
        );
    }

    #[tokio::test]
    async fn closed_streams_can_be_resumed() {
        let stream = Arc::new(EventStream::new(Some(7), true));
        stream.close_stream();
        assert!(matches!(stream.start(Duration::ZERO).await, StreamStart::Streaming));
        assert_eq!(text(stream.read(0)).await, "id: 7-0\nretry: 1000\ndata: \n\n");
        stream.finish(Some(b"a".to_vec()));
        assert_eq!(text(stream.read(0)).await.lines().last(), Some(""));
    }

    #[tokio::test]
    async fn old_events_are_dropped_but_not_the_response() {
        let stream = Arc::new(EventStream::new(None, false));
        for _ in 0..EVENTS_KEPT * 3 {
            stream.notify(vec![b'x'; 100]);
        }
        stream.finish(Some(vec![b'y'; EVENTS_BYTES_KEPT + 1]));
        assert_eq!(stream.state().events.len(), 1);
        assert!(text(stream.read(0)).await.starts_with("event: message\ndata: yyy"));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_streams_send_keep_alives() {
        let stream = Arc::new(EventStream::new(None, false));
        let mut body = stream.read(0);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), ":\n\n");
    }
}
