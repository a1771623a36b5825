//! Strict framing of HTTP requests: lines end with `\r\n`, and a body has one length.
//!
//! hyper accepts a bare line feed as a line end. A proxy in front of the server may not, and then both see
//! different headers in the same bytes (request smuggling). This reader follows heads and bodies, and
//! replaces the first invalid byte and everything after it by zeros. hyper answers that with 400 and closes
//! the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::limits::{HEAD_BYTES_MAX, READ_STALL};

/// A connection with strict framing, which fails when the client reads nothing for a while.
pub(crate) struct HttpStream<S> {
    stream: S,
    framing: RequestFraming,
    /// Set while a write is pending.
    write_timeout: Option<Pin<Box<Sleep>>>,
}

impl<S> HttpStream<S> {
    pub(crate) fn new(stream: S) -> HttpStream<S> {
        HttpStream { stream, framing: RequestFraming::default(), write_timeout: None }
    }

    fn limit<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_timeout = None;
            return written;
        }
        let timeout = self.write_timeout.get_or_insert_with(|| Box::pin(tokio::time::sleep(READ_STALL)));
        timeout.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The part of a request that the next byte belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum RequestPart {
    /// Before the first line, where empty lines are skipped.
    #[default]
    Start,
    Head,
    /// The remaining bytes of a body.
    Body(u64),
    ChunkSize,
    /// The remaining bytes of a chunk.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// Something was invalid.
    Broken,
}

/// Follows requests of one connection.
#[derive(Debug, Default)]
struct RequestFraming {
    part: RequestPart,
    line: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
}

/// An invalid line.
struct InvalidLine;

impl RequestFraming {
    /// Replaces invalid bytes by zeros.
    fn check(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.part {
                RequestPart::Broken => {
                    bytes[at..].fill(0);
                    return;
                }
                RequestPart::Body(remaining) | RequestPart::Chunk(remaining) => {
                    let count = (bytes.len() - at).min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                    *remaining -= count as u64;
                    at += count;
                    self.end_body();
                }
                _ => {
                    if self.push_byte(bytes[at]).is_err() {
                        self.part = RequestPart::Broken;
                    } else {
                        at += 1;
                    }
                }
            }
        }
    }

    fn end_body(&mut self) {
        match self.part {
            RequestPart::Body(0) => self.part = RequestPart::Start,
            RequestPart::Chunk(0) => self.part = RequestPart::ChunkEnd,
            _ => {}
        }
    }

    /// Appends a byte to the current line.
    fn push_byte(&mut self, byte: u8) -> Result<(), InvalidLine> {
        match (byte, self.line.last()) {
            (b'\n', Some(b'\r')) => {
                let line = std::mem::take(&mut self.line);
                self.end_line(&line[..line.len() - 1])
            }
            // A bare line feed, or something after a bare carriage return.
            (b'\n', _) | (_, Some(b'\r')) => Err(InvalidLine),
            _ if self.line.len() >= HEAD_BYTES_MAX => Err(InvalidLine),
            _ => {
                self.line.push(byte);
                Ok(())
            }
        }
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), InvalidLine> {
        self.part = match (self.part, line) {
            (RequestPart::Start, []) => RequestPart::Start,
            (RequestPart::Start, _) => RequestPart::Head,
            (RequestPart::Head, []) => self.end_head()?,
            (RequestPart::Head, header) => {
                self.read_header(header)?;
                RequestPart::Head
            }
            (RequestPart::ChunkSize, size) => match chunk_size(size)? {
                0 => RequestPart::Trailers,
                size => RequestPart::Chunk(size),
            },
            (RequestPart::ChunkEnd, []) => RequestPart::ChunkSize,
            (RequestPart::Trailers, []) => RequestPart::Start,
            (RequestPart::Trailers, _) => RequestPart::Trailers,
            _ => return Err(InvalidLine),
        };
        Ok(())
    }

    /// Reads a header about the length of the body.
    fn read_header(&mut self, header: &[u8]) -> Result<(), InvalidLine> {
        let colon = header.iter().position(|byte| *byte == b':').ok_or(InvalidLine)?;
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_first = self.length.replace(parse_number(value, 10)?).is_none();
            return if is_first { Ok(()) } else { Err(InvalidLine) };
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_first = !std::mem::replace(&mut self.is_chunked, true);
            return if is_first && value.eq_ignore_ascii_case(b"chunked") {
                Ok(())
            } else {
                Err(InvalidLine)
            };
        }
        Ok(())
    }

    fn end_head(&mut self) -> Result<RequestPart, InvalidLine> {
        match (self.length.take(), std::mem::take(&mut self.is_chunked)) {
            (Some(_), true) => Err(InvalidLine),
            (None, true) => Ok(RequestPart::ChunkSize),
            (None | Some(0), false) => Ok(RequestPart::Start),
            (Some(length), false) => Ok(RequestPart::Body(length)),
        }
    }
}

/// The size in the line before a chunk, without its extensions.
fn chunk_size(line: &[u8]) -> Result<u64, InvalidLine> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    parse_number(digits.trim_ascii(), 16)
}

fn parse_number(digits: &[u8], radix: u32) -> Result<u64, InvalidLine> {
    let is_plain = digits.iter().all(|byte| char::from(*byte).is_digit(radix));
    let digits = str::from_utf8(digits).ok().filter(|_| is_plain).ok_or(InvalidLine)?;
    u64::from_str_radix(digits, radix).map_err(|_| InvalidLine)
}

impl<S: AsyncRead + Unpin> AsyncRead for HttpStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.framing.check(&mut buffer.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HttpStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.limit(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.limit(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(cx);
        self.limit(cx, written)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.limit(cx, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output with zeros as `!`: at once, and byte by byte.
    #[track_caller]
    fn check(sent: &str, expected: &str) {
        let shown = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace('\0', "!");
        let mut whole = sent.as_bytes().to_vec();
        RequestFraming::default().check(&mut whole);
        assert_eq!(shown(whole), expected);
        let (mut requests, mut pieces) = (RequestFraming::default(), sent.as_bytes().to_vec());
        pieces.iter_mut().for_each(|byte| requests.check(std::slice::from_mut(byte)));
        assert_eq!(shown(pieces), expected, "byte by byte");
    }

    #[track_caller]
    fn passes(sent: &str) {
        check(sent, sent);
    }

    #[test]
    fn valid_requests_pass() {
        passes("GET / HTTP/1.1\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        passes("\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n{\n\r}\nGET / HTTP/1.1\r\n\r\n");
        passes(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\na\nb\r\n0\r\nt: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        );
        passes("POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn bare_line_feeds_are_invalid() {
        check("GET / HTTP/1.1\na: b\r\n\r\n", "GET / HTTP/1.1!!!!!!!!!");
        check("GET / HTTP/1.1\r\na: b\nc: d\r\n\r\n", "GET / HTTP/1.1\r\na: b!!!!!!!!!");
        check("GET / HTTP/1.1\r\n\n", "GET / HTTP/1.1\r\n!");
        check("GET / HTTP/1.1\r\na: b\rc: d\r\n", "GET / HTTP/1.1\r\na: b\r!!!!!!");
        check(
            "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n\nG\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\n\r\n\nG!",
        );
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{chunked}1\nx"), &format!("{chunked}1!!"));
        check(&format!("{chunked}1\r\nx\n"), &format!("{chunked}1\r\nx!"));
        check(&format!("{chunked}0\r\na: b\n"), &format!("{chunked}0\r\na: b!"));
    }

    #[test]
    fn a_body_has_one_length() {
        let refused = |headers: &str| {
            let mut bytes = format!("POST / HTTP/1.1\r\n{headers}\r\n").into_bytes();
            RequestFraming::default().check(&mut bytes);
            assert!(bytes.contains(&0), "{headers}");
        };
        refused("content-length: 1\r\ncontent-length: 1\r\n");
        refused("content-length: 1\r\ntransfer-encoding: chunked\r\n");
        refused("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n");
        refused("transfer-encoding: gzip, chunked\r\n");
        for length in ["", "+1", "-1", "1, 1", "0x1", "99999999999999999999"] {
            refused(&format!("content-length: {length}\r\n"));
        }
        refused("no colon\r\n");
    }
}
