//! The five ways to a server, each reduced to the same thing: messages in, messages out, and an end with a
//! reason.
//!
//! A [`MessageLink`] carries texts, one message each, and knows nothing of what they say; [`guard`] reads
//! them. Streamable HTTP alone is not a link, because a message there belongs to a request: the SDK has its
//! rules, and [`http`] does its I/O.

pub(crate) mod deep_json;
pub(crate) mod events;
pub(crate) mod field_order;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod http;
pub(crate) mod lines;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod web_socket;

use std::fmt;
use std::sync::{Arc, Mutex};

use haft::future::BoxFuture;
use haft::sync::lock;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};

use crate::host::OnLog;
use crate::limits;

/// A connection that carries one message at a time in each direction.
pub(crate) struct MessageLink {
    pub(crate) source: Box<dyn MessageSource>,
    pub(crate) outbox: SendQueue,
    /// What ends with the connection.
    pub(crate) end: Box<dyn LinkEnd>,
}

/// Where messages come from.
pub(crate) trait MessageSource: Send {
    /// The next message; nothing at the end.
    ///
    /// # Errors
    /// Why there is none, in words; the connection is of no use then.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    fn next<'a>(&'a mut self) -> BoxFuture<'a, Result<Option<Vec<u8>>, String>>;
}

/// The other side of a connection.
pub(crate) trait LinkEnd: Send {
    /// Ends it politely, for a bounded time. Dropping ends it at once.
    fn close<'a>(&'a mut self) -> BoxFuture<'a, ()>;

    /// Why it ended, if it says so within a bounded time.
    fn last_words<'a>(&'a mut self) -> BoxFuture<'a, Option<String>>;
}

/// A connection that ends by being dropped, and says nothing.
pub(crate) struct SilentEnd;

impl LinkEnd for SilentEnd {
    fn close<'a>(&'a mut self) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn last_words<'a>(&'a mut self) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(None))
    }
}

/// Where messages go: a queue, and a task that sends them one by one. One that is never sent blocks nobody
/// but the senders.
pub(crate) struct SendQueue {
    letters: Option<mpsc::Sender<QueuedMessage>>,
    task: JoinHandle<()>,
}

struct QueuedMessage {
    text: String,
    sent: oneshot::Sender<Result<(), NotSent>>,
}

/// A message that was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotSent {
    pub(crate) words: String,
    /// It can't have arrived, so it may be sent again elsewhere.
    pub(crate) certain: bool,
    /// The server refused to hear it before somebody signs in.
    pub(crate) wants_sign_in: bool,
}

impl NotSent {
    pub(crate) fn new(words: impl Into<String>, certain: bool) -> NotSent {
        NotSent { words: words.into(), certain, wants_sign_in: false }
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for NotSent {}

impl SendQueue {
    /// An outbox that sends by this. Its first failure ends it; whether what failed can have arrived depends
    /// on the way.
    pub(crate) fn new<S: Send + 'static>(
        mut state: S,
        certain: bool,
        send: impl for<'a> Fn(&'a mut S, String) -> BoxFuture<'a, Result<(), String>> + Send + Sync + 'static,
    ) -> SendQueue {
        let (letters, mut inbox) = mpsc::channel::<QueuedMessage>(limits::OUTBOX_MAX);
        let task = tokio::spawn(async move {
            while let Some(QueuedMessage { text, sent }) = inbox.recv().await {
                let done = send(&mut state, text).await;
                let failed = done.is_err();
                let _ = sent.send(done.map_err(|words| NotSent::new(words, certain)));
                if failed {
                    return;
                }
            }
        });
        SendQueue { letters: Some(letters), task }
    }

    /// Sends a message; done when it is on its way.
    pub(crate) fn post(&self, text: String) -> impl Future<Output = Result<(), NotSent>> + Send + 'static {
        let letters = self.letters.clone();
        async move {
            let gone = |certain| NotSent::new("the connection has ended", certain);
            let (sent, done) = oneshot::channel();
            let letters = letters.ok_or_else(|| gone(true))?;
            letters.send(QueuedMessage { text, sent }).await.map_err(|_| gone(true))?;
            done.await.map_err(|_| gone(false))?
        }
    }

    /// Takes no more; what was taken is still sent.
    pub(crate) fn finish(&mut self) {
        self.letters = None;
    }

    /// Ends it from elsewhere: nothing more is sent, and the other side sees the end of what it reads.
    pub(crate) fn abort_handle(&self) -> AbortHandle {
        self.task.abort_handle()
    }
}

impl Drop for SendQueue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The last of what a server complained about. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ServerLog {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Who else hears it, and whose it is.
    told: Option<(Arc<str>, OnLog)>,
}

impl ServerLog {
    /// One that others hear as well.
    pub(crate) fn told_to(server: &str, on_log: Option<OnLog>) -> ServerLog {
        ServerLog { kept: Arc::default(), told: on_log.map(|on_log| (server.into(), on_log)) }
    }

    pub(crate) fn add(&self, bytes: &[u8]) {
        if let Some((server, on_log)) = &self.told {
            on_log(server, bytes);
        }
        let mut kept = lock(&self.kept);
        let bytes = &bytes[bytes.len().saturating_sub(limits::LOG_BYTES_MAX)..];
        let too_many = (kept.len() + bytes.len()).saturating_sub(limits::LOG_BYTES_MAX);
        kept.drain(..too_many);
        kept.extend_from_slice(bytes);
    }

    /// All that is kept, as text that can be shown.
    pub(crate) fn text(&self) -> String {
        let kept = lock(&self.kept);
        crate::text::escape_invisible(&String::from_utf8_lossy(&kept)).into_owned()
    }

    /// The last line that says something.
    pub(crate) fn last_line(&self) -> Option<String> {
        let text = self.text();
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(crate::text::display_line(line, 300))
    }
}

/// An error with what is behind it.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words = vec![error.to_string()];
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !words.iter().any(|said| said.contains(&more)) {
            words.push(more);
        }
        next = error.source();
    }
    crate::text::display_line(&words.join(": "), 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_its_end() {
        let log = ServerLog::default();
        assert_eq!(log.last_line(), None);
        log.add(b"first\nsecond \x1b[31m\n\n");
        assert_eq!(log.last_line().unwrap(), "second \\u{1b}[31m");
        for _ in 0..100 {
            log.add(&[b'x'; 10_000]);
        }
        log.add(&vec![b'y'; limits::LOG_BYTES_MAX + 5]);
        log.add(b"z");
        let text = log.text();
        assert_eq!(text.len(), limits::LOG_BYTES_MAX);
        assert!(text.starts_with('y') && text.ends_with("yz"));
    }
}
