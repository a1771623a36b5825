//! Server-sent events, read from bytes as they come, each of a bounded size.

use std::collections::VecDeque;

use crate::limits::MESSAGE_BYTES_MAX;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) kind: Option<String>,
    pub(crate) data: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) retry_ms: Option<u64>,
}

/// Events on their way in.
#[derive(Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it belongs to it.
    after_return: bool,
    begun: bool,
    event: Event,
    /// How large the event is so far.
    bytes: usize,
    ready: VecDeque<Event>,
}

impl Events {
    /// Reads what came.
    ///
    /// # Errors
    /// An event is too large, in words.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.feed_up_to(bytes, MESSAGE_BYTES_MAX)
    }

    fn feed_up_to(&mut self, mut bytes: &[u8], bytes_max: usize) -> Result<(), String> {
        if std::mem::take(&mut self.after_return) && bytes.first() == Some(&b'\n') {
            bytes = &bytes[1..];
        }
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.extend_from_slice(&bytes[..at]);
            let is_return = bytes[at] == b'\r';
            bytes = &bytes[at + 1..];
            if is_return {
                match bytes.first() {
                    Some(b'\n') => bytes = &bytes[1..],
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            self.end_line();
            self.check(bytes_max)?;
        }
        self.line.extend_from_slice(bytes);
        self.check(bytes_max)
    }

    fn check(&self, bytes_max: usize) -> Result<(), String> {
        match self.bytes + self.line.len() > bytes_max {
            true => Err(format!("it sent an event of more than {bytes_max} bytes")),
            false => Ok(()),
        }
    }

    /// The next event that is complete.
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let mut line = String::from_utf8_lossy(&line);
        if !std::mem::replace(&mut self.begun, true)
            && let Some(rest) = line.strip_prefix('\u{feff}')
        {
            line = rest.to_owned().into();
        }
        if line.is_empty() {
            self.bytes = 0;
            let event = std::mem::take(&mut self.event);
            if event != Event::default() {
                self.ready.push_back(event);
            }
            return;
        }
        self.bytes += line.len();
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.event.data = Some(value.to_owned()),
            },
            "event" => self.event.kind = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry_ms = value.parse().ok(),
            // A comment, or a field that nobody knows.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, piece: usize) -> Vec<Event> {
        let mut events = Events::default();
        for piece in text.as_bytes().chunks(piece) {
            events.feed(piece).unwrap();
        }
        std::iter::from_fn(|| events.next()).collect()
    }

    fn event(kind: Option<&str>, data: Option<&str>, id: Option<&str>) -> Event {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Event { kind: text(kind), data: text(data), id: text(id), retry_ms: None }
    }

    #[test]
    fn events_are_the_same_in_pieces_of_any_size() {
        let text = "\u{feff}data: a\r\ndata:b\r\n\r\nevent: endpoint\rdata: /x\r\r: comment\n\nid: 7\ndata\n\nretry: 5\n\ndata: cut";
        let expected = [
            event(None, Some("a\nb"), None),
            event(Some("endpoint"), Some("/x"), None),
            event(None, Some(""), Some("7")),
            Event { retry_ms: Some(5), ..Event::default() },
        ];
        for piece in 1..text.len() {
            assert_eq!(all(text, piece), expected, "{piece}");
        }
    }

    #[test]
    fn an_event_is_bounded_and_many_small_ones_are_not() {
        let mut events = Events::default();
        for _ in 0..100 {
            events.feed_up_to(b"data: 123\n\n", 12).unwrap();
        }
        assert!(events.feed_up_to(b"data: 1234567", 12).is_err());
        let mut events = Events::default();
        assert!(events.feed_up_to(b"data: 1\ndata: 2\ndata: 3\n", 12).unwrap_err().contains("12 bytes"));
    }
}
