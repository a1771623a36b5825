//! Requests whose heads end each line with `\r\n`, as HTTP has it, and say in one way how long their body is.
//!
//! The HTTP library also takes a bare line feed for the end of a line. A proxy in front of the server may not, and then
//! both see other headers in the same bytes: what the proxy takes for a part of one value is a header here. So everything
//! that is read goes by this, which follows heads and bodies of one request after the other and makes the first byte
//! that is not as it has to be, and all after it, a zero. The library answers that with 400 and closes the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The longest line of a head, in bytes. The library takes no head that is longer in all.
const LINE_BYTES_MAX: usize = 512 * 1024;

/// A connection from which only such requests come.
pub(crate) struct StrictHeads<S> {
    stream: S,
    requests: Requests,
}

impl<S> StrictHeads<S> {
    pub(crate) fn new(stream: S) -> StrictHeads<S> {
        StrictHeads { stream, requests: Requests::default() }
    }
}

/// Where in a request the next byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    /// Before the first line; empty lines are skipped there.
    #[default]
    Start,
    Head,
    /// So many bytes of a body are to come.
    Body(u64),
    ChunkSize,
    /// So many bytes of a chunk, and its line end.
    Chunk(u64),
    ChunkEnd,
    Trailers,
    /// Something was wrong.
    Broken,
}

/// Follows requests, one after the other.
#[derive(Debug, Default)]
struct Requests {
    place: Place,
    line: Vec<u8>,
    length: Option<u64>,
    is_chunked: bool,
}

/// A line that isn't as it has to be.
struct BadLine;

impl Requests {
    /// Takes what came; what is wrong is a zero afterwards.
    fn check(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.place {
                Place::Broken => {
                    bytes[at..].fill(0);
                    return;
                }
                Place::Body(remaining) | Place::Chunk(remaining) => {
                    let count = (bytes.len() - at).min(usize::try_from(*remaining).unwrap_or(usize::MAX));
                    *remaining -= count as u64;
                    at += count;
                    self.end_body();
                }
                _ => {
                    if self.take(bytes[at]).is_err() {
                        self.place = Place::Broken;
                    } else {
                        at += 1;
                    }
                }
            }
        }
    }

    fn end_body(&mut self) {
        match self.place {
            Place::Body(0) => self.place = Place::Start,
            Place::Chunk(0) => self.place = Place::ChunkEnd,
            _ => {}
        }
    }

    /// Takes one byte of a line.
    fn take(&mut self, byte: u8) -> Result<(), BadLine> {
        match (byte, self.line.last()) {
            (b'\n', Some(b'\r')) => {
                let line = std::mem::take(&mut self.line);
                self.end_line(&line[..line.len() - 1])
            }
            // A bare line feed, or something after a bare carriage return.
            (b'\n', _) | (_, Some(b'\r')) => Err(BadLine),
            _ if self.line.len() >= LINE_BYTES_MAX => Err(BadLine),
            _ => {
                self.line.push(byte);
                Ok(())
            }
        }
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), BadLine> {
        self.place = match (self.place, line) {
            (Place::Start, []) => Place::Start,
            (Place::Start, _) => Place::Head,
            (Place::Head, []) => self.end_head()?,
            (Place::Head, header) => {
                self.note(header)?;
                Place::Head
            }
            (Place::ChunkSize, size) => match chunk_size(size)? {
                0 => Place::Trailers,
                size => Place::Chunk(size),
            },
            (Place::ChunkEnd, []) => Place::ChunkSize,
            (Place::Trailers, []) => Place::Start,
            (Place::Trailers, _) => Place::Trailers,
            _ => return Err(BadLine),
        };
        Ok(())
    }

    /// Notes what a header says about the body.
    fn note(&mut self, header: &[u8]) -> Result<(), BadLine> {
        let colon = header.iter().position(|byte| *byte == b':').ok_or(BadLine)?;
        let (name, value) = (&header[..colon], header[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_first = self.length.replace(number(value, 10)?).is_none();
            return if is_first { Ok(()) } else { Err(BadLine) };
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let is_first = !std::mem::replace(&mut self.is_chunked, true);
            return if is_first && value.eq_ignore_ascii_case(b"chunked") { Ok(()) } else { Err(BadLine) };
        }
        Ok(())
    }

    fn end_head(&mut self) -> Result<Place, BadLine> {
        match (self.length.take(), std::mem::take(&mut self.is_chunked)) {
            (Some(_), true) => Err(BadLine),
            (None, true) => Ok(Place::ChunkSize),
            (None | Some(0), false) => Ok(Place::Start),
            (Some(length), false) => Ok(Place::Body(length)),
        }
    }
}

/// The size in the line before a chunk; what follows a semicolon is passed over.
fn chunk_size(line: &[u8]) -> Result<u64, BadLine> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    number(digits.trim_ascii(), 16)
}

fn number(digits: &[u8], radix: u32) -> Result<u64, BadLine> {
    let is_plain = digits.iter().all(|byte| char::from(*byte).is_digit(radix));
    let digits = str::from_utf8(digits).ok().filter(|_| is_plain).ok_or(BadLine)?;
    u64::from_str_radix(digits, radix).map_err(|_| BadLine)
}

impl<S: AsyncRead + Unpin> AsyncRead for StrictHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.requests.check(&mut buffer.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StrictHeads<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out, with zeros as `!`: at once, and byte by byte.
    #[track_caller]
    fn check(sent: &str, expected: &str) {
        let shown = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace('\0', "!");
        let mut whole = sent.as_bytes().to_vec();
        Requests::default().check(&mut whole);
        assert_eq!(shown(whole), expected);
        let (mut requests, mut pieces) = (Requests::default(), sent.as_bytes().to_vec());
        pieces.iter_mut().for_each(|byte| requests.check(std::slice::from_mut(byte)));
        assert_eq!(shown(pieces), expected, "byte by byte");
    }

    #[track_caller]
    fn passes(sent: &str) {
        check(sent, sent);
    }

    #[test]
    fn requests_pass_one_after_the_other() {
        passes("GET / HTTP/1.1\r\na: b\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        passes("\r\nPOST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n{\n\r}\nGET / HTTP/1.1\r\n\r\n");
        passes(
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\na\nb\r\n0\r\nt: 1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        );
        passes("POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\nGET / HTTP/1.1\r\n\r\n");
    }

    #[test]
    fn line_ends_have_both_characters() {
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
            Requests::default().check(&mut bytes);
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
