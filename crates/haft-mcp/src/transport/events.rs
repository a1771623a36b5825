//! Server-sent events of a server, queued until they are taken.

use std::borrow::Cow;
use std::collections::VecDeque;

use haft::sse::{self, EventReader, EventTooLarge};

use crate::limits::MESSAGE_BYTES_MAX;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct StreamEvent {
    pub(crate) kind: Option<String>,
    pub(crate) data: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
}

/// Events on their way in.
pub(crate) struct EventQueue {
    reader: EventReader,
    bytes_max: usize,
    ready: VecDeque<StreamEvent>,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue::with_limit(MESSAGE_BYTES_MAX)
    }
}

impl EventQueue {
    fn with_limit(bytes_max: usize) -> EventQueue {
        EventQueue { reader: EventReader::new(bytes_max), bytes_max, ready: VecDeque::new() }
    }

    /// Reads what came.
    ///
    /// # Errors
    /// An event is too large, as a message.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        let EventQueue { reader, bytes_max, ready } = self;
        reader
            .feed(bytes, |event| ready.push_back(event.into()))
            .map_err(|EventTooLarge| format!("it sent an event of more than {bytes_max} bytes"))
    }

    /// The next event that is complete.
    pub(crate) fn next(&mut self) -> Option<StreamEvent> {
        self.ready.pop_front()
    }
}

impl From<sse::ServerSentEvent<'_>> for StreamEvent {
    fn from(event: sse::ServerSentEvent<'_>) -> StreamEvent {
        StreamEvent {
            kind: event.kind.map(str::to_owned),
            data: event.data.map(Cow::into_owned),
            id: event.id.map(str::to_owned),
            retry_ms: event.retry_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, piece: usize) -> Vec<StreamEvent> {
        let mut events = EventQueue::default();
        for piece in text.as_bytes().chunks(piece) {
            events.feed(piece).unwrap();
        }
        std::iter::from_fn(|| events.next()).collect()
    }

    fn event(kind: Option<&str>, data: Option<&str>, id: Option<&str>) -> StreamEvent {
        let text = |text: Option<&str>| text.map(str::to_owned);
        StreamEvent { kind: text(kind), data: text(data), id: text(id), retry_ms: None }
    }

    #[test]
    fn events_are_the_same_in_pieces_of_any_size() {
        let text = "\u{feff}data: a\r\ndata:b\r\n\r\nevent: endpoint\rdata: /x\r\r: comment\n\nid: 7\ndata\n\nretry: 5\n\ndata: cut";
        let expected = [
            event(None, Some("a\nb"), None),
            event(Some("endpoint"), Some("/x"), None),
            event(None, Some(""), Some("7")),
            StreamEvent { retry_ms: Some(5), ..StreamEvent::default() },
        ];
        for piece in 1..text.len() {
            assert_eq!(all(text, piece), expected, "{piece}");
        }
    }

    #[test]
    fn an_event_is_bounded_and_many_small_ones_are_not() {
        let mut events = EventQueue::with_limit(12);
        for _ in 0..100 {
            events.feed(b"data: 123\n\n").unwrap();
        }
        assert!(events.feed(b"data: 1234567").is_err());
        let mut events = EventQueue::with_limit(12);
        assert!(events.feed(b"data: 1\ndata: 2\ndata: 3\n").unwrap_err().contains("12 bytes"));
    }
}
