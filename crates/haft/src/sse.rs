//! Server-sent events, as providers and MCP servers stream them.
//!
//! [`EventReader`] takes bytes in whatever chunks they come and gives whole events. One buffer holds the line
//! that is not complete yet and one the data of the event, both bounded; a line that lies whole in the bytes
//! is not copied, and one that came in many pieces becomes the data of its event as it is.

use std::borrow::Cow;

/// One event; fields that the stream didn't set are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerSentEvent<'a> {
    /// The field `event`.
    pub kind: Option<&'a str>,
    /// The lines of the field `data`. Bytes that are no UTF-8 are replaced.
    pub data: Option<Cow<'a, str>>,
    /// The field `id`.
    pub id: Option<&'a str>,
    /// The field `retry`, in milliseconds.
    pub retry_ms: Option<u64>,
}

/// An event is larger than the reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTooLarge;

/// Splits a stream of bytes into events.
///
/// ```
/// let mut reader = haft::sse::EventReader::new(1_000);
/// let mut data = Vec::new();
/// reader.feed(b"event: x\ndata: a\n\ndata: cut", |event| data.extend(event.data.map(|data| data.into_owned()))).unwrap();
/// assert_eq!(data, ["a"]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EventReader {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    kind: FieldBuffer,
    id: FieldBuffer,
    retry_ms: Option<u64>,
    /// The size of the fields of the event so far.
    event_bytes: usize,
    /// The last line ended with a carriage return; a line feed that follows belongs to it.
    after_return: bool,
    begun: bool,
    event_bytes_max: usize,
}

/// A short field; its buffer is used again for the next event.
#[derive(Debug, Clone, PartialEq, Default)]
struct FieldBuffer {
    text: String,
    is_set: bool,
}

impl FieldBuffer {
    fn set(&mut self, value: &[u8]) {
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(value));
        self.is_set = true;
    }

    fn take(&mut self) -> Option<&str> {
        std::mem::take(&mut self.is_set).then_some(&*self.text)
    }
}

/// A line of a stream; fields have the byte at which their value begins.
enum StreamLine {
    /// An empty one, which ends an event.
    End,
    Data(usize),
    Kind(usize),
    Id(usize),
    Retry(usize),
    /// A comment or an unknown field.
    Other,
}

impl EventReader {
    /// A reader that accepts events of at most `event_bytes_max` bytes.
    pub fn new(event_bytes_max: usize) -> EventReader {
        EventReader {
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            kind: FieldBuffer::default(),
            id: FieldBuffer::default(),
            retry_ms: None,
            event_bytes: 0,
            after_return: false,
            begun: false,
            event_bytes_max,
        }
    }

    /// Takes bytes and gives each event that ended in them.
    ///
    /// # Errors
    /// An event is too large. The stream can't be read on.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut give: impl FnMut(ServerSentEvent<'_>),
    ) -> Result<(), EventTooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                if self.event_bytes + self.line.len() + bytes.len() > self.event_bytes_max {
                    return Err(EventTooLarge);
                }
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.after_return = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&bytes[..end], &mut give)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                self.take_buffered_line(&mut give)?;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Ends the stream: an event whose last line ends are missing is given as it is.
    pub fn finish(&mut self, mut give: impl FnMut(ServerSentEvent<'_>)) {
        if self.take_buffered_line(&mut give).is_ok() {
            self.dispatch(&mut give);
        }
    }

    fn take_buffered_line(
        &mut self,
        give: &mut impl FnMut(ServerSentEvent<'_>),
    ) -> Result<(), EventTooLarge> {
        let mut line = std::mem::take(&mut self.line);
        match self.parse_line(&line) {
            StreamLine::Data(at) if !self.has_data => {
                self.count(line.len())?;
                line.drain(..at);
                (self.data, self.has_data) = (line, true);
                Ok(())
            }
            parsed => self.add(parsed, &line, give),
        }
    }

    fn take_line(
        &mut self,
        line: &[u8],
        give: &mut impl FnMut(ServerSentEvent<'_>),
    ) -> Result<(), EventTooLarge> {
        let parsed = self.parse_line(line);
        self.add(parsed, line, give)
    }

    fn parse_line(&mut self, line: &[u8]) -> StreamLine {
        let length = line.len();
        let line = if std::mem::replace(&mut self.begun, true) {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        if line.is_empty() {
            return StreamLine::End;
        }
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let at = length - value.strip_prefix(b" ").unwrap_or(value).len();
        match name {
            b"data" => StreamLine::Data(at),
            b"event" => StreamLine::Kind(at),
            b"id" => StreamLine::Id(at),
            b"retry" => StreamLine::Retry(at),
            _ => StreamLine::Other,
        }
    }

    fn add(
        &mut self,
        parsed: StreamLine,
        line: &[u8],
        give: &mut impl FnMut(ServerSentEvent<'_>),
    ) -> Result<(), EventTooLarge> {
        match parsed {
            StreamLine::End => {
                self.dispatch(give);
                return Ok(());
            }
            StreamLine::Other => return Ok(()),
            _ => self.count(line.len())?,
        }
        match parsed {
            StreamLine::Data(at) => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(&line[at..]);
            }
            StreamLine::Kind(at) => self.kind.set(&line[at..]),
            StreamLine::Id(at) if !line.contains(&0) => self.id.set(&line[at..]),
            StreamLine::Retry(at) => {
                self.retry_ms = str::from_utf8(&line[at..]).ok().and_then(|value| value.parse().ok());
            }
            StreamLine::Id(_) | StreamLine::End | StreamLine::Other => {}
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), EventTooLarge> {
        self.event_bytes += bytes;
        if self.event_bytes > self.event_bytes_max { Err(EventTooLarge) } else { Ok(()) }
    }

    fn dispatch(&mut self, give: &mut impl FnMut(ServerSentEvent<'_>)) {
        self.event_bytes = 0;
        let has_data = std::mem::take(&mut self.has_data);
        let data = has_data.then(|| String::from_utf8_lossy(&self.data));
        let event = ServerSentEvent {
            kind: self.kind.take(),
            data,
            id: self.id.take(),
            retry_ms: self.retry_ms.take(),
        };
        if event != ServerSentEvent::default() {
            give(event);
        }
        if has_data {
            self.data.clear();
            // One huge event is no reason to keep as much for the rest of the stream.
            self.data.shrink_to(64 * 1024);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        for size in 1..=text.len() {
            let mut reader = EventReader::new(1_000);
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                reader.feed(chunk, |event| found.extend(event.data.map(Cow::into_owned))).unwrap();
            }
            reader.finish(|event| found.extend(event.data.map(Cow::into_owned)));
            assert_eq!(found, expected, "in chunks of {size}");
        }
    }

    #[test]
    fn events_end_with_an_empty_line() {
        check("data: a\n\ndata:b\n\n", &["a", "b"]);
        check("event: x\r\ndata: a\r\n\r\ndata: é\r\rdata: c\r\n\n", &["a", "é", "c"]);
        check("\u{feff}data: a\ndata:  b\ndata\n\n", &["a\n b\n"]);
        check(": comment\nid: 1\nretry: 5\ndatab: x\n\n\n\ndata: a", &["a"]);
        check("", &[]);
    }

    #[test]
    fn what_is_too_long_is_bad() {
        let mut reader = EventReader::new(10);
        assert_eq!(reader.feed(b"data: 12345678", |_| ()), Err(EventTooLarge));
        let mut reader = EventReader::new(10);
        assert_eq!(reader.feed(b"data: 1234\ndata: 12345\ndata: 123\n", |_| ()), Err(EventTooLarge));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut found = Vec::new();
        EventReader::new(100)
            .feed(b"data: \xff\xc3\n\n", |event| found.extend(event.data.map(Cow::into_owned)))
            .unwrap();
        assert_eq!(found, ["\u{fffd}\u{fffd}"]);
    }
}
