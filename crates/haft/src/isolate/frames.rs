//! The pipe: frames with a bound, in both directions.
//!
//! A [`Wire`] is polled by its one owner, which does everything else in the same future. So there is no task that could
//! be left behind, no lock, and a frame that is half read or half written stays where it is when the owner looks at
//! something else meanwhile.
//!
//! Each side begins with eight bytes that name the protocol and its version, and never change. Then come frames: the
//! length of the rest, the length of the head (both four bytes, little end first), the head as JSON, and a tail of
//! bytes that the head says how to cut. A length is only believed as far as bytes follow it: memory grows with what
//! has arrived.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::ReadBuf;

use super::Pipe;
use super::wire::Packer;
use crate::limits;

/// The version of the messages. Any change of them is a new one: both ends are the same binary, unless it was replaced
/// while the host ran.
pub(super) const VERSION: u16 = 1;

const MAGIC: &[u8; 6] = b"haft/i";
const GREETING_BYTES: usize = MAGIC.len() + 2;
const LENGTH_BYTES: usize = 4;
/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// The first bytes of each side.
pub(super) fn greeting(version: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// The other side is gone.
    Ended(Option<io::Error>),
    /// What came is not what this protocol allows; the words are for the log.
    Garbage(String),
    /// The other side wants to send more at once than it may.
    TooLarge(usize),
    /// The other side speaks another version.
    Version(u16),
}

impl Fault {
    pub(super) fn garbage(words: impl Into<String>) -> Fault {
        Fault::Garbage(words.into())
    }
}

/// A message that has more bytes than one frame may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLarge(pub(super) usize);

/// Writes a message as a frame.
pub(super) fn encode(head: &impl Serialize, packer: Packer) -> Result<Vec<u8>, TooLarge> {
    let tail = packer.into_tail();
    let mut frame = vec![0; 2 * LENGTH_BYTES];
    serde_json::to_writer(&mut frame, head).expect("heads have text keys and plain values only");
    let head_bytes = frame.len() - 2 * LENGTH_BYTES;
    let bytes = LENGTH_BYTES + head_bytes + tail.len();
    if head_bytes > limits::ISOLATE_HEAD_BYTES_MAX || bytes > limits::ISOLATE_FRAME_BYTES_MAX {
        return Err(TooLarge(bytes));
    }
    let length = |bytes: usize| u32::try_from(bytes).expect("the bound fits").to_le_bytes();
    frame[..LENGTH_BYTES].copy_from_slice(&length(bytes));
    frame[LENGTH_BYTES..2 * LENGTH_BYTES].copy_from_slice(&length(head_bytes));
    frame.extend_from_slice(&tail);
    Ok(frame)
}

/// A frame that has arrived.
pub(super) struct Frame {
    bytes: Vec<u8>,
    head_bytes: usize,
}

impl Frame {
    /// How much memory it takes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Reads the head and gives the tail.
    pub(super) fn open<H: DeserializeOwned>(mut self) -> Result<(H, Vec<u8>), Fault> {
        let tail = self.bytes.split_off(self.head_bytes);
        let head = serde_json::from_slice(&self.bytes).map_err(|error| Fault::Garbage(error.to_string()))?;
        Ok((head, tail))
    }
}

/// One end of the pipe.
pub(super) struct Wire {
    pipe: Pin<Box<dyn Pipe>>,
    greeted: bool,
    /// What has arrived, from `start` on not yet taken.
    arrived: Vec<u8>,
    start: usize,
    chunk: Box<[u8]>,
    /// What is to be sent, of the first one `sent` bytes have been.
    leaving: VecDeque<Vec<u8>>,
    sent: usize,
    unflushed: bool,
}

impl Wire {
    /// A wire that will greet first.
    pub(super) fn new(pipe: Pin<Box<dyn Pipe>>) -> Wire {
        Wire {
            pipe,
            greeted: false,
            arrived: Vec::new(),
            start: 0,
            chunk: vec![0; CHUNK_BYTES].into(),
            leaving: VecDeque::from([greeting(VERSION)]),
            sent: 0,
            unflushed: false,
        }
    }

    /// Puts a frame at the end of those to be sent. The owner bounds how many.
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        self.leaving.push_back(frame);
    }

    /// How many frames wait to be sent.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// Forgets what waits to be sent, because nobody takes it.
    pub(super) fn stop_sending(&mut self) {
        self.leaving.clear();
        (self.sent, self.unflushed) = (0, false);
    }

    /// Sends as much as the pipe takes; ready when nothing is left.
    pub(super) fn poll_send(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(frame) = self.leaving.front() {
            let written = ready!(self.pipe.as_mut().poll_write(task, &frame[self.sent..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unflushed = true;
            self.sent += written;
            if self.sent == frame.len() {
                self.leaving.pop_front();
                self.sent = 0;
            }
        }
        if self.unflushed {
            ready!(self.pipe.as_mut().poll_flush(task))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// The next frame.
    pub(super) fn poll_frame(&mut self, task: &mut Context<'_>) -> Poll<Result<Frame, Fault>> {
        loop {
            if let Some(frame) = self.take()? {
                return Poll::Ready(Ok(frame));
            }
            // What is left is the beginning of one frame; everything before it makes room.
            self.arrived.drain(..std::mem::take(&mut self.start));
            if self.arrived.is_empty() && self.arrived.capacity() > 16 * CHUNK_BYTES {
                self.arrived = Vec::new();
            }
            let mut buffer = ReadBuf::new(&mut self.chunk);
            match ready!(self.pipe.as_mut().poll_read(task, &mut buffer)) {
                Err(error) => return Poll::Ready(Err(Fault::Ended(Some(error)))),
                Ok(()) if buffer.filled().is_empty() => return Poll::Ready(Err(Fault::Ended(None))),
                Ok(()) => self.arrived.extend_from_slice(buffer.filled()),
            }
        }
    }

    /// Takes a whole frame out of what has arrived, if there is one.
    fn take(&mut self) -> Result<Option<Frame>, Fault> {
        if !self.greeted {
            let known = self.arrived.len().min(MAGIC.len());
            if self.arrived[..known] != MAGIC[..known] {
                return Err(Fault::garbage("no greeting"));
            }
            let Some(version) = self.arrived.get(MAGIC.len()..GREETING_BYTES) else { return Ok(None) };
            let version = u16::from_le_bytes([version[0], version[1]]);
            if version != VERSION {
                return Err(Fault::Version(version));
            }
            (self.greeted, self.start) = (true, GREETING_BYTES);
        }
        let rest = &self.arrived[self.start..];
        let Some(bytes) = length(rest) else { return Ok(None) };
        if bytes > limits::ISOLATE_FRAME_BYTES_MAX {
            return Err(Fault::TooLarge(bytes));
        }
        let Some(head_bytes) = rest.get(LENGTH_BYTES..).and_then(length) else { return Ok(None) };
        if head_bytes > limits::ISOLATE_HEAD_BYTES_MAX {
            return Err(Fault::TooLarge(head_bytes));
        }
        if bytes < LENGTH_BYTES + head_bytes {
            return Err(Fault::garbage("a head that is longer than its frame"));
        }
        let Some(body) = rest.get(2 * LENGTH_BYTES..LENGTH_BYTES + bytes) else { return Ok(None) };
        let frame = Frame { bytes: body.to_vec(), head_bytes };
        self.start += LENGTH_BYTES + bytes;
        Ok(Some(frame))
    }
}

fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|bytes: &[u8; LENGTH_BYTES]| u32::from_le_bytes(*bytes) as usize)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn read(bytes: Vec<u8>) -> Result<Vec<(String, Vec<u8>)>, Fault> {
        let (ours, mut theirs) = tokio::io::duplex(7);
        let feed = tokio::spawn(async move {
            let _ = theirs.write_all(&bytes).await;
        });
        let mut wire = Wire::new(Box::pin(ours));
        let mut frames = Vec::new();
        let ended = loop {
            match poll_fn(|task| wire.poll_frame(task)).await.and_then(Frame::open::<String>) {
                Ok(frame) => frames.push(frame),
                Err(Fault::Ended(_)) => break Ok(frames),
                Err(fault) => break Err(fault),
            }
        };
        drop(wire);
        let _ = feed.await;
        ended
    }

    fn frame(head: &str, tail: &[u8]) -> Vec<u8> {
        let mut packer = Packer::default();
        packer.put(tail);
        encode(&head, packer).unwrap()
    }

    #[tokio::test]
    async fn frames_come_through_a_narrow_pipe_whole_and_in_order() {
        let bytes =
            [greeting(VERSION), frame("a", b""), frame("b", b"\0\xff"), frame("", &[7; 300])].concat();
        let expected: Vec<_> = [("a", vec![]), ("b", vec![0, 255]), ("", vec![7; 300])]
            .map(|(head, tail)| (head.to_owned(), tail))
            .into();
        assert_eq!(read(bytes).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn what_is_not_the_protocol_is_told_apart() {
        let greeted = |rest: &[u8]| [&greeting(VERSION), rest].concat();
        assert!(matches!(read(b"HTTP/1.1".to_vec()).await, Err(Fault::Garbage(_))));
        assert!(matches!(read(b"haxx".to_vec()).await, Err(Fault::Garbage(_))), "before all of it is there");
        assert!(matches!(read(greeting(VERSION + 1)).await, Err(Fault::Version(2))));
        assert!(matches!(read(greeted(&[255; 8])).await, Err(Fault::TooLarge(_))));
        assert!(matches!(read(greeted(&[6, 0, 0, 0, 3, 0, 0, 0, b'"', b'"'])).await, Err(Fault::Garbage(_))));
        assert!(
            matches!(read(greeted(&[0; 8])).await, Err(Fault::Garbage(_))),
            "shorter than its own length"
        );
        let whole = (limits::ISOLATE_FRAME_BYTES_MAX as u32).to_le_bytes();
        let more = (limits::ISOLATE_FRAME_BYTES_MAX as u32 + 1).to_le_bytes();
        assert!(matches!(read(greeted(&more)).await, Err(Fault::TooLarge(_))), "before any of it is there");
        assert_eq!(read(greeted(&whole)).await.unwrap(), []);
        let head = (limits::ISOLATE_HEAD_BYTES_MAX as u32 + 1).to_le_bytes();
        assert!(matches!(read(greeted(&[whole, head].concat())).await, Err(Fault::TooLarge(_))));
        assert_eq!(read(greeted(&frame("cut", b"tail")[..9])).await.unwrap(), []);
    }

    #[test]
    fn a_frame_has_a_largest_size() {
        let full = limits::ISOLATE_FRAME_BYTES_MAX - LENGTH_BYTES - 2;
        assert_eq!(frame("", &vec![0; full]).len(), limits::ISOLATE_FRAME_BYTES_MAX + LENGTH_BYTES);
        let mut packer = Packer::default();
        packer.put(&vec![0; full + 1]);
        assert_eq!(encode(&"", packer), Err(TooLarge(limits::ISOLATE_FRAME_BYTES_MAX + 1)));
    }
}
