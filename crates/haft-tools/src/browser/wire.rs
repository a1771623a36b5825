//! The connection to Chromium: JSON messages that end with a NUL, over two pipes.
//!
//! A command has a number and waits for the answer with that number, for so long; an event is handed to who
//! hears them, from the task that reads, before anything behind it is looked at. A message that is too long
//! is left out as it comes; if it is an answer, who waits for it is told. Nothing here knows what commands
//! mean.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use haft::sync::lock;
use haft::text::truncate_chars;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

/// The longest message of the browser, in bytes. A screenshot is the longest that is asked for.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long a message may be that is left out; a browser that says more has lost its way.
const LEFT_OUT_BYTES_MAX: usize = 2 * 1024 * 1024 * 1024;
/// The beginning of such a message, which says whose answer it is.
const HEAD_BYTES: usize = 64;
/// Commands that wait to be written. A browser that doesn't read so many is not there any more.
const OUTBOX_MAX: usize = 4_096;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// The longest line before the first message.
const GREETING_BYTES_MAX: usize = 4 * 1024;
/// Characters of an answer that says why a command failed.
const REASON_CHARS_MAX: usize = 500;

/// An event, with the session that it belongs to.
#[derive(Debug)]
pub(super) struct BrowserEvent {
    pub(super) method: String,
    pub(super) session: Option<String>,
    pub(super) params: Value,
}

/// Why a command has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WireError {
    /// The browser is gone.
    Gone,
    /// It did not answer in time.
    TimedOut(Duration),
    /// It said no, in its own words.
    Refused(String),
    /// It said more than anybody reads.
    TooLong,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Gone => f.write_str("the browser has ended; the next BrowserNavigate starts it anew"),
            WireError::TimedOut(limit) => {
                let seconds = limit.as_secs_f64();
                write!(
                    f,
                    "the page did not answer within {seconds} s; it may be busy with a script of its own"
                )
            }
            WireError::Refused(words) => write!(f, "the browser says: {words}"),
            WireError::TooLong => write!(
                f,
                "the page is too large for this: the answer has more than {} MB; look at a part of it with BrowserEvaluate, or at \
                 what is seen of it with BrowserScreenshot",
                MESSAGE_BYTES_MAX / (1024 * 1024)
            ),
        }
    }
}

impl std::error::Error for WireError {}

/// The connection. Dropped, it is closed, which ends the browser.
pub(super) struct BrowserWire {
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, WireError>>>>,
    closed: AtomicBool,
}

/// The connection before its first message.
pub(super) struct WirePipes {
    input: pipe::Sender,
    output: pipe::Receiver,
    read: Vec<u8>,
}

impl WirePipes {
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<WirePipes> {
        let (input, output) = (pipe::Sender::from_owned_fd(input)?, pipe::Receiver::from_owned_fd(output)?);
        Ok(WirePipes { input, output, read: Vec::new() })
    }

    /// A line before the first message, if one comes; nothing if the other side ends first.
    pub(super) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if self.read.len() > GREETING_BYTES_MAX || !read_more(&mut self.output, &mut self.read).await {
                return None;
            }
        }
    }

    /// Begins to talk. `hear` is called for every event, in order, and once more with nothing when it is
    /// over.
    pub(super) fn open(
        self,
        mut hear: impl FnMut(&Arc<BrowserWire>, Option<BrowserEvent>) + Send + 'static,
    ) -> Arc<BrowserWire> {
        let WirePipes { mut input, mut output, mut read } = self;
        let (out, mut outbox) = mpsc::channel::<Vec<u8>>(OUTBOX_MAX);
        let (next, waiting) = (AtomicU64::new(1), Mutex::default());
        let wire = Arc::new(BrowserWire { out, next, waiting, closed: AtomicBool::new(false) });
        tokio::spawn(async move {
            while let Some(message) = outbox.recv().await {
                if input.write_all(&message).await.is_err() {
                    break;
                }
            }
            // Here the input of the browser ends, and then the browser.
        });
        let weak = Arc::downgrade(&wire);
        tokio::spawn(async move {
            let mut from = 0;
            // The beginning of a message that is left out, and how much of it came so far.
            let mut left_out: Option<(Vec<u8>, usize)> = None;
            loop {
                if let Some((head, came)) = &mut left_out {
                    let end = read.iter().position(|byte| *byte == 0);
                    *came += end.unwrap_or(read.len());
                    read.drain(..end.map_or(read.len(), |end| end + 1));
                    from = 0;
                    match end {
                        Some(_) => {
                            let Some(wire) = weak.upgrade() else { return };
                            wire.too_long(head);
                            left_out = None;
                        }
                        None if *came < LEFT_OUT_BYTES_MAX && read_more(&mut output, &mut read).await => {
                            continue;
                        }
                        None => break,
                    }
                }
                // What was looked through before isn't looked through again.
                while let Some(end) = read[from..].iter().position(|byte| *byte == 0).map(|at| from + at) {
                    let message: Vec<u8> = read.drain(..=end).take(end).collect();
                    from = 0;
                    let Some(wire) = weak.upgrade() else { return };
                    wire.take(&message, &mut hear);
                }
                from = read.len();
                if read.len() > MESSAGE_BYTES_MAX {
                    left_out = Some((read[..HEAD_BYTES].to_vec(), 0));
                    read = Vec::new();
                    from = 0;
                }
                if !read_more(&mut output, &mut read).await {
                    break;
                }
            }
            if let Some(wire) = weak.upgrade() {
                wire.close();
                hear(&wire, None);
            }
        });
        wire
    }
}

async fn read_more(output: &mut pipe::Receiver, read: &mut Vec<u8>) -> bool {
    read.reserve(CHUNK_BYTES);
    output.read_buf(read).await.is_ok_and(|count| count > 0)
}

impl BrowserWire {
    /// Whether nothing can be said any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiting().clear();
    }

    /// An answer that begins like this was left out.
    fn too_long(&self, head: &[u8]) {
        let number = head.strip_prefix(b"{\"id\":").unwrap_or_default();
        let digits = number.iter().take_while(|byte| byte.is_ascii_digit());
        let id = digits.fold(0_u64, |id, digit| id.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
        if let Some(waiting) = self.waiting().remove(&id) {
            // Nobody who waits any more needs to know.
            let _ = waiting.send(Err(WireError::TooLong));
        }
    }

    /// Gives a command and waits for its answer.
    ///
    /// # Errors
    /// See [`WireError`].
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
        limit: Duration,
    ) -> Result<Value, WireError> {
        let (id, text) = self.written(session, method, &params);
        let (send, answer) = oneshot::channel();
        self.waiting().insert(id, send);
        let _forget = PendingReply(self, id);
        // Looked at after it is listed: whoever closes clears the list.
        if self.is_closed() {
            return Err(WireError::Gone);
        }
        let said = async {
            self.out.send(text).await.map_err(|_| WireError::Gone)?;
            answer.await.unwrap_or(Err(WireError::Gone))
        };
        tokio::time::timeout(limit, said).await.unwrap_or(Err(WireError::TimedOut(limit)))
    }

    /// Gives a command and doesn't wait.
    pub(super) fn tell(&self, session: Option<&str>, method: &str, params: &Value) {
        let (_, text) = self.written(session, method, params);
        if self.out.try_send(text).is_err() {
            self.close();
        }
    }

    fn written(&self, session: Option<&str>, method: &str, params: &Value) -> (u64, Vec<u8>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut text = message.to_string().into_bytes();
        text.push(0);
        (id, text)
    }

    /// One message: an answer to somebody, or an event.
    fn take(
        self: &Arc<BrowserWire>,
        message: &[u8],
        hear: &mut impl FnMut(&Arc<BrowserWire>, Option<BrowserEvent>),
    ) {
        let Ok(Value::Object(mut message)) = serde_json::from_slice(message) else { return };
        if let Some(id) = message.get("id").and_then(Value::as_u64) {
            let Some(waiting) = self.waiting().remove(&id) else { return };
            let answer = match message.remove("error") {
                Some(error) => {
                    let words = error["message"].as_str().unwrap_or("no reason was given");
                    Err(WireError::Refused(truncate_chars(words, REASON_CHARS_MAX).to_owned()))
                }
                None => Ok(message.remove("result").unwrap_or_default()),
            };
            let _ = waiting.send(answer);
        } else if let Some(Value::String(method)) = message.remove("method") {
            let session = message.remove("sessionId").and_then(|id| id.as_str().map(str::to_owned));
            hear(
                self,
                Some(BrowserEvent { method, session, params: message.remove("params").unwrap_or_default() }),
            );
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Value, WireError>>>> {
        lock(&self.waiting)
    }
}

/// Nobody waits for this answer any more.
struct PendingReply<'a>(&'a BrowserWire, u64);

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        self.0.waiting().remove(&self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Other {
        reads: pipe::Receiver,
        writes: pipe::Sender,
    }

    fn pair() -> (WirePipes, Other) {
        let ((to, from_us), (from, to_us)) = (pipe::pipe().unwrap(), pipe::pipe().unwrap());
        let fd = |fd: io::Result<OwnedFd>| fd.unwrap();
        let pipes = WirePipes::new(fd(to.into_nonblocking_fd()), fd(to_us.into_nonblocking_fd())).unwrap();
        (pipes, Other { reads: from_us, writes: from })
    }

    impl Other {
        async fn hear(&mut self) -> Value {
            let mut message = Vec::new();
            while let byte @ 1.. = self.reads.read_u8().await.unwrap() {
                message.push(byte);
            }
            serde_json::from_slice(&message).unwrap()
        }

        async fn say(&mut self, text: &str) {
            self.writes.write_all(text.as_bytes()).await.unwrap();
        }
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn answers_find_who_asked_whatever_their_order() {
        let (mut pipes, mut other) = pair();
        other.say("http://proxy\n/folder\n{\"method\":\"E\",\"params\":{\"a\":1},\"sessionId\":\"S\"}\0nonsense\0").await;
        assert_eq!(pipes.line().await.as_deref(), Some("http://proxy"));
        assert_eq!(pipes.line().await.as_deref(), Some("/folder"));
        let (told, mut events) = mpsc::unbounded_channel();
        let wire = pipes.open(move |_, event| drop(told.send(event)));
        let event = events.recv().await.unwrap().unwrap();
        assert_eq!(
            (&*event.method, event.session.as_deref(), &event.params["a"]),
            ("E", Some("S"), &json!(1))
        );

        let (one, two) =
            (wire.call(Some("S"), "One", json!({}), LONG), wire.call(None, "Two", json!({"x": 2}), LONG));
        let answers = async {
            let (first, second) = (other.hear().await, other.hear().await);
            assert_eq!(first, json!({"id": 1, "method": "One", "params": {}, "sessionId": "S"}));
            assert_eq!(second, json!({"id": 2, "method": "Two", "params": {"x": 2}}));
            other.say("{\"id\":2,\"error\":{\"message\":\"no such node\"}}\0{\"id\":7}\0{\"id\":").await;
            other.say("1,\"result\":{\"ok\":true}}\0").await;
        };
        let (one, two, ()) = tokio::join!(one, two, answers);
        assert_eq!(one, Ok(json!({"ok": true})));
        assert_eq!(two, Err(WireError::Refused("no such node".into())));
        assert!(wire.waiting().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_told_of_the_end_and_of_too_long() {
        let (pipes, mut other) = pair();
        let (told, mut events) = mpsc::unbounded_channel();
        let wire = pipes.open(move |_, event| {
            let _ = told.send(event.is_none());
        });
        let late = wire.call(None, "Slow", json!({}), Duration::from_secs(5)).await;
        assert_eq!(late, Err(WireError::TimedOut(Duration::from_secs(5))));
        assert_eq!(other.hear().await["method"], "Slow");
        let ended = async {
            other.hear().await;
            drop(other);
        };
        let (gone, ()) = tokio::join!(wire.call(None, "Last", json!({}), LONG), ended);
        assert_eq!(gone, Err(WireError::Gone));
        assert_eq!(events.recv().await, Some(true));
        assert_eq!(wire.call(None, "More", json!({}), LONG).await, Err(WireError::Gone));
    }

    /// Who asked for too much is told, and everything else goes on.
    #[tokio::test]
    async fn a_message_that_is_too_long_is_left_out() {
        let (pipes, mut other) = pair();
        let wire = pipes.open(|_, _| {});
        let (one, two) =
            (wire.call(None, "Much", json!({}), LONG), wire.call(None, "Little", json!({}), LONG));
        let answers = async {
            other.hear().await;
            other.hear().await;
            other.say("{\"id\":1,\"result\":{\"nodes\":\"").await;
            let part = "x".repeat(1024 * 1024);
            for _ in 0..MESSAGE_BYTES_MAX / part.len() + 2 {
                other.say(&part).await;
            }
            other.say("\"}}\0{\"id\":2,\"result\":{\"ok\":true}}\0").await;
        };
        let (one, two, ()) = tokio::join!(one, two, answers);
        assert_eq!(one, Err(WireError::TooLong));
        assert_eq!(two, Ok(json!({"ok": true})));
        assert!(!wire.is_closed());
    }

    #[tokio::test]
    async fn dropping_it_ends_the_input_of_the_other_side() {
        let (pipes, mut other) = pair();
        let wire = pipes.open(|_, _| {});
        wire.tell(None, "A", &json!({}));
        assert_eq!(other.hear().await["method"], "A");
        drop(wire);
        assert!(other.reads.read_u8().await.is_err(), "the pipe is closed");
    }
}
