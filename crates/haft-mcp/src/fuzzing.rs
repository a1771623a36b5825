//! What the fuzz target of this crate needs of its inside: the way of a server's bytes through lines and
//! guard, without a process and without the SDK. Behind the feature `fuzzing`, and no part of the interface.

use std::pin::Pin;
use std::task::{Context, Poll};

use rmcp::model::{ClientJsonRpcMessage, NumberOrString};
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, ReadBuf};

use crate::transport::guard::{ConnectionWatch, DropCause, TransportGuard};
use crate::transport::lines::{self, BoundedLines};
use crate::transport::{MessageLink, SilentEnd};

/// The numbers of the questions that wait for an answer.
pub const ASKED: [i64; 2] = [1, 2];

/// What came of a server's bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct FuzzOutcome {
    /// What went on to the SDK, in order.
    pub messages: Vec<Value>,
    /// Why the connection ended.
    pub ended: Option<String>,
    /// What was dropped, of each kind.
    pub dropped: [u64; 4],
}

/// Reads all of it, as it comes in pieces of this length.
pub async fn feed_bytes(bytes: &[u8], piece: usize) -> FuzzOutcome {
    let pieces = ChunkedReader { left: bytes.to_vec(), at: 0, piece };
    let outbox = lines::line_outbox(tokio::io::sink());
    let link = MessageLink { source: Box::new(BoundedLines::new(pieces)), outbox, end: Box::new(SilentEnd) };
    let watch = ConnectionWatch::default();
    let mut guard = TransportGuard::over_link(link, watch.clone());
    for number in ASKED {
        let request = serde_json::from_value(json!({"method": "tools/list"}));
        let request = request.expect("a request of the protocol");
        let _ = guard.send(ClientJsonRpcMessage::request(request, NumberOrString::Number(number))).await;
    }
    let mut messages = Vec::new();
    while let Some(message) = guard.receive().await {
        messages.push(serde_json::to_value(message).expect("a message is JSON"));
    }
    let dropped = [DropCause::Invalid, DropCause::Unknown, DropCause::Floods, DropCause::Refused];
    FuzzOutcome { messages, ended: watch.ended(), dropped: dropped.map(|what| watch.counted(what)) }
}

/// Bytes that come in pieces.
struct ChunkedReader {
    left: Vec<u8>,
    at: usize,
    piece: usize,
}

impl AsyncRead for ChunkedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let end = self.left.len().min(self.at + self.piece.min(buffer.remaining()));
        buffer.put_slice(&self.left[self.at..end]);
        self.at = end;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_heard_however_it_is_split() {
        let bytes = b"noise\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[]}}\n";
        let whole = feed_bytes(bytes, 1_000).await;
        assert_eq!(whole.messages, [json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})]);
        assert_eq!(whole.dropped, [1, 0, 0, 0]);
        assert_eq!(feed_bytes(bytes, 1).await, whole);
    }
}
