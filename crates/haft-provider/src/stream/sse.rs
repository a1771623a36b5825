//! Server-sent events, split by hand: the `data` of each event, whatever chunks the bytes come in.
//!
//! The names of events are not needed: every provider repeats them inside of the data. One buffer holds the line that
//! is not whole yet and one the data of the event, both bounded; a line that lies whole in the bytes is not copied, and
//! one that came in many pieces becomes the data of its event as it is.

/// A line or an event that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bad;

/// Splits a stream of bytes into events.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Splitter {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last line ended with a carriage return; a line feed that follows belongs to it.
    after_return: bool,
    begun: bool,
    max: usize,
}

/// A line of a stream.
enum Line {
    /// An empty one, which ends an event.
    End,
    /// Data, from this byte of the line on.
    Data(usize),
    /// Something that isn't needed.
    Other,
}

impl Splitter {
    pub(super) fn new(max: usize) -> Splitter {
        let (line, data) = (Vec::new(), Vec::new());
        Splitter { line, data, has_data: false, after_return: false, begun: false, max }
    }

    /// Takes bytes and gives the data of each event that ended in them.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut give: impl FnMut(&str)) -> Result<(), Bad> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                if self.line.len() + bytes.len() > self.max {
                    return Err(Bad);
                }
                self.line.extend_from_slice(bytes);
                return Ok(());
            };
            self.after_return = bytes[end] == b'\r';
            if self.line.is_empty() {
                self.take(&bytes[..end], &mut give)?;
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                self.take_line(&mut give)?;
            }
            bytes = &bytes[end + 1..];
        }
        Ok(())
    }

    /// Says that no more bytes come: an event that lacks its last line ends is given as it is.
    pub(super) fn finish(&mut self, mut give: impl FnMut(&str)) {
        if self.take_line(&mut give).is_ok() {
            self.dispatch(&mut give);
        }
    }

    /// Takes the line that is kept.
    fn take_line(&mut self, give: &mut impl FnMut(&str)) -> Result<(), Bad> {
        let mut line = std::mem::take(&mut self.line);
        match self.read(&line) {
            Line::Data(at) if !self.has_data && line.len() < self.max => {
                line.drain(..at);
                (self.data, self.has_data) = (line, true);
                Ok(())
            }
            found => self.add(found, &line, give),
        }
    }

    fn take(&mut self, line: &[u8], give: &mut impl FnMut(&str)) -> Result<(), Bad> {
        let found = self.read(line);
        self.add(found, line, give)
    }

    /// What a line is.
    fn read(&mut self, line: &[u8]) -> Line {
        let whole = line.len();
        let line = match std::mem::replace(&mut self.begun, true) {
            false => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            true => line,
        };
        if line.is_empty() {
            return Line::End;
        }
        let Some(rest) = line.strip_prefix(b"data") else { return Line::Other };
        match rest.strip_prefix(b":") {
            Some(value) => Line::Data(whole - value.strip_prefix(b" ").unwrap_or(value).len()),
            // The field without a value; anything longer is another field.
            None if rest.is_empty() => Line::Data(whole),
            None => Line::Other,
        }
    }

    fn add(&mut self, found: Line, line: &[u8], give: &mut impl FnMut(&str)) -> Result<(), Bad> {
        let value = match found {
            Line::Data(at) => &line[at..],
            Line::End => {
                self.dispatch(give);
                return Ok(());
            }
            Line::Other => return Ok(()),
        };
        if self.data.len() + value.len() >= self.max {
            return Err(Bad);
        }
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch(&mut self, give: &mut impl FnMut(&str)) {
        if std::mem::take(&mut self.has_data) {
            give(&String::from_utf8_lossy(&self.data));
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
            let mut splitter = Splitter::new(1_000);
            let mut found = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                splitter.feed(chunk, |data| found.push(data.to_owned())).unwrap();
            }
            splitter.finish(|data| found.push(data.to_owned()));
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
        let mut splitter = Splitter::new(10);
        assert_eq!(splitter.feed(b"data: 12345678", |_| ()), Err(Bad));
        let mut splitter = Splitter::new(10);
        assert_eq!(splitter.feed(b"data: 1234\ndata: 12345\ndata: 123\n", |_| ()), Err(Bad));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        let mut found = Vec::new();
        Splitter::new(100).feed(b"data: \xff\xc3\n\n", |data| found.push(data.to_owned())).unwrap();
        assert_eq!(found, ["\u{fffd}\u{fffd}"]);
    }
}
