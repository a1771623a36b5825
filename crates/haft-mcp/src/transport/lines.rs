//! One message a line, over anything that bytes go through: pipes of a process, or a connection within this
//! one.

use crate::config::BytePipe;
use haft::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};

use super::{MessageLink, MessageSource, SendQueue, SilentEnd};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::line_buffer::LineBuffer;

/// A connection of lines over a connection of bytes.
pub(crate) fn line_link(pipe: Box<dyn BytePipe>) -> MessageLink {
    let (reader, writer) = tokio::io::split(Box::into_pin(pipe));
    MessageLink {
        source: Box::new(BoundedLines::new(reader)),
        outbox: line_outbox(writer),
        end: Box::new(SilentEnd),
    }
}

/// Sends each message as a line.
pub(crate) fn line_outbox<W: AsyncWrite + Send + Unpin + 'static>(writer: W) -> SendQueue {
    // Half a line is no message, so one that failed was none.
    SendQueue::new(writer, true, |writer, mut text| {
        Box::pin(async move {
            text.push('\n');
            let failed = |error: std::io::Error| format!("nothing can be sent: {error}");
            writer.write_all(text.as_bytes()).await.map_err(failed)?;
            writer.flush().await.map_err(failed)
        })
    })
}

/// Lines on their way in, each of a bounded length.
pub(crate) struct BoundedLines<R> {
    reader: R,
    buffer: LineBuffer,
    bytes_max: usize,
}

impl<R: AsyncRead + Send + Unpin> BoundedLines<R> {
    pub(crate) fn new(reader: R) -> BoundedLines<R> {
        BoundedLines { reader, buffer: LineBuffer::default(), bytes_max: MESSAGE_BYTES_MAX }
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(line) = self.buffer.next_line() {
                return Ok(Some(self.buffer.text(line).to_vec()));
            }
            if self.buffer.unfinished() > self.bytes_max {
                return Err(format!("it sent a line of more than {} bytes", self.bytes_max));
            }
            match self.buffer.fill(&mut self.reader).await {
                Ok(true) => {}
                Ok(false) => return Ok(self.buffer.last_message()),
                Err(error) => return Err(format!("nothing can be received: {error}")),
            }
        }
    }
}

impl<R: AsyncRead + Send + Unpin> MessageSource for BoundedLines<R> {
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>> {
        Box::pin(self.line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &'static [u8], bytes_max: usize) -> (Vec<String>, Option<String>) {
        let mut lines = BoundedLines::new(text);
        lines.bytes_max = bytes_max;
        let mut seen = Vec::new();
        loop {
            match lines.line().await {
                Ok(Some(line)) => seen.push(String::from_utf8_lossy(&line).into_owned()),
                Ok(None) => return (seen, None),
                Err(words) => return (seen, Some(words)),
            }
        }
    }

    #[tokio::test]
    async fn lines_end_with_a_break_and_half_a_message_is_none() {
        assert_eq!(all(b"{}\n{\"a\": 1}", 10).await, (vec!["{}".into(), "{\"a\": 1}".into()], None));
        assert_eq!(all(b"{}\n{\"a\": ", 10).await, (vec!["{}".into()], None));
        assert_eq!(all(b"a\nb\r\n\nc", 10).await, (vec!["a".into(), "b".into(), String::new()], None));
        assert_eq!(all(b"", 10).await, (vec![], None));
        let (seen, words) = all(b"ok\n123456789012345", 10).await;
        assert_eq!(seen, ["ok"]);
        assert_eq!(words.unwrap(), "it sent a line of more than 10 bytes");
    }

    #[tokio::test]
    async fn nothing_is_lost_when_a_reader_stops_waiting() {
        let (mut theirs, ours) = tokio::io::duplex(64);
        let mut lines = BoundedLines::new(ours);
        theirs.write_all(b"half").await.unwrap();
        let waited = tokio::time::timeout(std::time::Duration::from_millis(10), lines.line()).await;
        assert!(waited.is_err());
        theirs.write_all(b" and half\nnext\n").await.unwrap();
        assert_eq!(lines.line().await.unwrap().unwrap(), b"half and half");
        assert_eq!(lines.line().await.unwrap().unwrap(), b"next");
    }
}
