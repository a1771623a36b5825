//! Streams of events: what goes out for one request over HTTP, or for none.
//!
//! A stream is filled by whoever carries a request out and read by at most one body at a time. It keeps the last of what was sent,
//! so that a client that lost the connection can go on where it was; what a slow client can't take is forgotten, the oldest
//! first. The answer to the request is always the last event, so it is never what is forgotten.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use haft::sync::lock;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};

use super::session::Outlet;
use crate::limits::{EVENTS_BYTES_KEPT, EVENTS_KEPT, STREAM_ALIVE, STREAM_RETRY};

/// One stream of events.
pub(crate) struct EventStream {
    /// Tells it from others of its session. Without it nothing can be resumed.
    name: Option<u64>,
    /// Whether the first event is an empty one that can be resumed from.
    primed: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// The number of the last event; the first has one.
    last: u64,
    finished: bool,
    /// The one who reads is to come again later.
    hung_up: bool,
    /// Who reads now; earlier readers are done.
    reader: u64,
    waker: Option<Waker>,
}

/// What a stream began with.
pub(crate) enum Opened {
    /// The answer and nothing else.
    Alone(Vec<u8>),
    /// Nothing at all will come.
    Nothing,
    /// Something else, or nothing yet.
    Streaming,
}

impl EventStream {
    /// A stream that can't be resumed.
    pub(crate) fn passing() -> EventStream {
        EventStream { name: None, primed: false, state: Mutex::default() }
    }

    /// One that can, by this name among those of its session.
    pub(crate) fn kept(name: u64, primed: bool) -> EventStream {
        EventStream { name: Some(name), primed, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn push(&self, message: Vec<u8>, finishes: bool) -> bool {
        let waker = {
            let mut state = self.state();
            if state.finished {
                return false;
            }
            state.last += 1;
            state.bytes += message.len();
            let number = state.last;
            state.events.push_back((number, message));
            while state.events.len() > 1
                && (state.events.len() > EVENTS_KEPT || state.bytes > EVENTS_BYTES_KEPT)
            {
                let forgotten = state.events.pop_front().map_or(0, |(_, message)| message.len());
                state.bytes -= forgotten;
            }
            state.finished = finishes;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Sends the answer, if there is one; nothing comes after it.
    pub(crate) fn finish(&self, answer: Option<Vec<u8>>) {
        match answer {
            Some(answer) => drop(self.push(answer, true)),
            None => {
                let waker = {
                    let mut state = self.state();
                    state.finished = true;
                    state.waker.take()
                };
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Whether nothing was sent yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.state().last == 0
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.state().finished
    }

    /// Waits for the first event, for so long.
    pub(crate) async fn opened(&self, wait: Duration) -> Opened {
        let first = std::future::poll_fn(|cx| {
            let mut state = self.state();
            if state.events.is_empty() && !state.finished && !state.hung_up {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if !state.finished || state.last > 1 {
                return Poll::Ready(Opened::Streaming);
            }
            Poll::Ready(match state.events.pop_front() {
                Some((_, answer)) => Opened::Alone(answer),
                None => Opened::Nothing,
            })
        });
        tokio::time::timeout(wait, first).await.unwrap_or(Opened::Streaming)
    }

    /// Reads everything after an event; zero is before the first. Whoever read before is done.
    pub(crate) fn read(self: &Arc<EventStream>, after: u64) -> EventBody {
        let (reader, waker) = {
            let mut state = self.state();
            state.reader += 1;
            (state.reader, state.waker.take())
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        EventBody {
            stream: self.clone(),
            reader,
            sent: after,
            greets: self.primed && after == 0,
            alive: Box::pin(tokio::time::sleep(STREAM_ALIVE)),
            guard: None,
        }
    }

    /// Whether somebody reads it.
    pub(crate) fn is_read(&self) -> bool {
        self.state().waker.is_some()
    }
}

impl Outlet for EventStream {
    fn notify(&self, message: Vec<u8>) {
        self.push(message, false);
    }

    fn post(&self, message: Vec<u8>) -> bool {
        self.push(message, false)
    }

    fn hang_up(&self) {
        // What can't be resumed would be lost.
        if !self.primed {
            return;
        }
        let waker = {
            let mut state = self.state();
            state.hung_up = true;
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The events of a stream as the body of an answer.
pub(crate) struct EventBody {
    stream: Arc<EventStream>,
    reader: u64,
    /// The last event that went out.
    sent: u64,
    greets: bool,
    alive: Pin<Box<Sleep>>,
    /// What ends with the body.
    guard: Option<Box<dyn Send + Sync>>,
}

impl EventBody {
    /// The same, with something that is dropped with it.
    #[must_use]
    pub(crate) fn with_guard(mut self, guard: impl Send + Sync + 'static) -> EventBody {
        self.guard = Some(Box::new(guard));
        self
    }

    /// Everything that can go out now; nothing at the end.
    fn next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut text = Vec::new();
        let name = self.stream.name;
        if std::mem::take(&mut self.greets)
            && let Some(name) = name
        {
            let retry = STREAM_RETRY.as_millis();
            text.extend_from_slice(format!("id: {name}-0\nretry: {retry}\ndata: \n\n").as_bytes());
        }
        let mut state = self.stream.state();
        if state.reader != self.reader {
            return Poll::Ready(None);
        }
        let first = state.events.partition_point(|(number, _)| *number <= self.sent);
        for (number, message) in state.events.range(first..) {
            self.sent = *number;
            if let Some(name) = name {
                text.extend_from_slice(format!("id: {name}-{number}\n").as_bytes());
            }
            text.extend_from_slice(b"event: message\ndata: ");
            text.extend_from_slice(message);
            text.extend_from_slice(b"\n\n");
        }
        if !text.is_empty() {
            return Poll::Ready(Some(text));
        }
        if state.finished || std::mem::take(&mut state.hung_up) {
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
            Poll::Pending => match self.alive.as_mut().poll(cx) {
                Poll::Ready(()) => frame(b":\n\n".to_vec()),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.alive.as_mut().reset(Instant::now() + STREAM_ALIVE);
        if self.alive.as_mut().poll(cx).is_ready() {
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
    async fn an_answer_alone_is_no_stream() {
        let stream = EventStream::passing();
        stream.finish(Some(b"{}".to_vec()));
        assert!(matches!(stream.opened(Duration::ZERO).await, Opened::Alone(answer) if answer == b"{}"));
        let stream = EventStream::passing();
        stream.notify(b"1".to_vec());
        assert!(matches!(stream.opened(Duration::ZERO).await, Opened::Streaming));
        let stream = EventStream::passing();
        stream.finish(None);
        assert!(matches!(stream.opened(Duration::ZERO).await, Opened::Nothing));
    }

    #[tokio::test]
    async fn a_stream_goes_on_where_it_was_lost() {
        let stream = Arc::new(EventStream::kept(7, true));
        stream.notify(b"a".to_vec());
        stream.notify(b"b".to_vec());
        let lost = stream.read(0);
        let resumed = stream.read(1);
        stream.finish(Some(b"c".to_vec()));
        assert!(!stream.post(b"late".to_vec()), "nothing comes after the answer");
        assert_eq!(text(lost).await, "", "another reads now");
        assert_eq!(
            text(resumed).await,
            "id: 7-2\nevent: message\ndata: b\n\nid: 7-3\nevent: message\ndata: c\n\n"
        );
    }

    #[tokio::test]
    async fn a_client_that_was_told_to_come_again_finds_the_rest() {
        let stream = Arc::new(EventStream::kept(7, true));
        stream.hang_up();
        assert!(matches!(stream.opened(Duration::ZERO).await, Opened::Streaming));
        assert_eq!(text(stream.read(0)).await, "id: 7-0\nretry: 1000\ndata: \n\n");
        stream.finish(Some(b"a".to_vec()));
        assert_eq!(text(stream.read(0)).await.lines().last(), Some(""));
    }

    #[tokio::test]
    async fn what_nobody_reads_is_forgotten_but_never_the_answer() {
        let stream = Arc::new(EventStream::passing());
        for _ in 0..EVENTS_KEPT * 3 {
            stream.notify(vec![b'x'; 100]);
        }
        stream.finish(Some(vec![b'y'; EVENTS_BYTES_KEPT + 1]));
        assert_eq!(stream.state().events.len(), 1);
        assert!(text(stream.read(0)).await.starts_with("event: message\ndata: yyy"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_quiet_says_that_it_is_there() {
        let stream = Arc::new(EventStream::passing());
        let mut body = stream.read(0);
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), ":\n\n");
    }
}
