//! The host's side of one call in another process.
//!
//! It sends the call, serves what the child asks for, and takes the result: one future, which owns the pipe, the files
//! that it opened for the child and the requests that are being served. Dropping it ends all of them; nothing is
//! spawned.
//!
//! The child is not trusted. A path that it names goes through [`Context::files`] like one that a tool in this process
//! names, with the access of this call. What it can make us hold is bounded: requests, files, frames, replies that it
//! doesn't take. Whatever it does, the call has exactly one result; what isn't understood ends it with an error, since
//! a child that says one wrong thing can't be believed about the next.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use haft_scheduler::{CancelledFuture, Cause};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Sleep, sleep};

use super::Pipe;
use super::frames::{Fault, Frame, TooLarge, VERSION, Wire, encode};
use super::wire::{Ask, Call, Packer, Reply, ToChild, ToParent, Unpacker};
use crate::content::Output;
use crate::context::Context;
use crate::error::{ErrorKind, ToolError};
use crate::files::{FileError, FileErrorKind, OpenFile};
use crate::future::{BoxFuture, Guarded};
use crate::limits;
use crate::ports::{Choice, UserQuestion};
use crate::text::truncate_in_place;

/// How many frames are taken before others get their turn on this thread.
const FRAMES_PER_POLL: usize = 32;

/// Runs one call in the process at the other end of the pipe.
///
/// # Cancel safety
/// Dropping the future closes the pipe. When the call is cancelled the child is told first, as far as the pipe takes
/// it at once.
pub(crate) async fn serve_parent(
    pipe: Box<dyn Pipe>,
    tool: &str,
    input: &Value,
    cx: &Context,
) -> Result<Output, ToolError> {
    let call = call_frame(tool, input, cx).map_err(|TooLarge(bytes)| {
        ToolError::new(format!("{tool} was not run: its input has {bytes} bytes, too many for its process"))
    })?;
    let mut server = Server::new(pipe, cx);
    server.wire.send(call);
    match poll_fn(|task| server.poll(task)).await {
        Ending::Outcome(outcome) => outcome,
        Ending::Fault(fault) => Err(lost(tool, fault)),
        Ending::Cancelled(cause) => {
            server.say_goodbye(cause).await;
            Err(ToolError::cancelled(cause, &format!("{tool} was {}", cause.words())))
        }
    }
}

/// The error of a call whose process failed.
fn lost(tool: &str, fault: Fault) -> ToolError {
    let error = |why: &str| {
        let words = format!("{tool} did not finish: {why}; what it changed until then stays changed");
        ToolError::of(ErrorKind::Failed, words)
    };
    match fault {
        Fault::Ended(None) => error("its process ended before it gave a result"),
        Fault::Ended(Some(source)) => error("its process ended before it gave a result").with_source(source),
        Fault::Garbage(words) => {
            error("its process sent something that is not understood").with_source(words)
        }
        Fault::TooLarge(bytes) => error(&format!("its process sent {bytes} bytes at once, more than it may")),
        Fault::Version(theirs) => error(&format!(
            "its process speaks version {theirs} of the protocol between them and this one version {VERSION}, so \
             the program was replaced while it ran and has to be started again"
        )),
    }
}

fn call_frame(tool: &str, input: &Value, cx: &Context) -> Result<Vec<u8>, TooLarge> {
    let host = cx.host();
    let mut packer = Packer::default();
    let text = input.to_string();
    if text.len() > limits::ISOLATE_JSON_BYTES_MAX {
        return Err(TooLarge(text.len()));
    }
    // In the order of the tail.
    let call = Call {
        session: cx.call().session_id().to_owned(),
        agent: cx.call().agent_id().to_owned(),
        turn: cx.call().turn(),
        index: cx.call().index(),
        id: cx.call().id().to_owned(),
        called: cx.call_ref().tool.to_string(),
        tool: tool.to_owned(),
        asker: cx.ports().asker().is_some(),
        watched: host.events.is_some(),
        cwd: packer.path(cx.cwd()),
        dirs: cx.location().workspace().dirs().map(|dir| packer.path(dir)).collect(),
        readable: packer.places(&host.base_access.read),
        read: packer.places(&cx.access().read),
        write: packer.places(&cx.access().write),
        input: packer.put(text.as_bytes()),
    };
    encode(&ToChild::Call(call), packer)
}

/// How serving ends.
enum Ending {
    Outcome(Result<Output, ToolError>),
    Fault(Fault),
    Cancelled(Cause),
}

struct Server<'a> {
    cx: &'a Context,
    wire: Wire,
    cancelled: CancelledFuture,
    serving: Vec<Serving>,
    /// Files that the child has opened, by the id of the request that did.
    files: HashMap<u64, SharedFile>,
    /// The child takes nothing any more; what it has said may still be on its way, until then.
    deaf: Option<Pin<Box<Sleep>>>,
}

/// A read that was forgotten must not take the file with it, so both share it.
type SharedFile = Arc<Mutex<Box<dyn OpenFile>>>;

/// A request that is being served.
struct Serving {
    id: u64,
    /// How much of the child's memory it keeps here.
    held_bytes: usize,
    work: Guarded<'static, Served>,
}

/// What came of a request.
enum Served {
    Reply(Result<Vec<u8>, TooLarge>),
    Opened(Box<dyn OpenFile>),
}

impl<'a> Server<'a> {
    fn new(pipe: Box<dyn Pipe>, cx: &'a Context) -> Server<'a> {
        Server {
            cx,
            wire: Wire::new(Box::into_pin(pipe)),
            cancelled: cx.cancel().cancelled(),
            serving: Vec::new(),
            files: HashMap::new(),
            deaf: None,
        }
    }

    fn poll(&mut self, task: &mut Task<'_>) -> Poll<Ending> {
        if let Poll::Ready(ending) = self.work(task) {
            return Poll::Ready(ending);
        }
        if self.deaf.as_mut().is_some_and(|given_up| given_up.as_mut().poll(task).is_ready()) {
            return Poll::Ready(Ending::Fault(Fault::Ended(None)));
        }
        // Last: a result that is there wins over a cancellation, as it does for a tool in this process.
        Pin::new(&mut self.cancelled).poll(task).map(Ending::Cancelled)
    }

    fn work(&mut self, task: &mut Task<'_>) -> Poll<Ending> {
        for _ in 0..FRAMES_PER_POLL {
            self.poll_serving(task);
            // A child that has sent its result is free to go, so its result may be there although it is not.
            if self.deaf.is_none() && matches!(self.wire.poll_send(task), Poll::Ready(Err(_))) {
                self.deaf = Some(Box::pin(sleep(limits::CANCEL_GRACE)));
            }
            if self.deaf.is_some() {
                self.wire.stop_sending();
            }
            if self.is_full() {
                return Poll::Pending;
            }
            let frame = match self.wire.poll_frame(task) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(frame)) => frame,
                Poll::Ready(Err(fault)) => return Poll::Ready(Ending::Fault(fault)),
            };
            match self.take(frame) {
                Ok(None) => {}
                Ok(Some(outcome)) => return Poll::Ready(Ending::Outcome(outcome)),
                Err(fault) => return Poll::Ready(Ending::Fault(fault)),
            }
        }
        task.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether to read on must wait until the child has taken replies, or what it wrote is on the disk. Both wake us.
    fn is_full(&self) -> bool {
        let held_bytes: usize = self.serving.iter().map(|serving| serving.held_bytes).sum();
        self.wire.leaving() > limits::ISOLATE_REQUESTS_MAX || held_bytes > limits::ISOLATE_FRAME_BYTES_MAX / 2
    }

    fn poll_serving(&mut self, task: &mut Task<'_>) {
        let (wire, files) = (&mut self.wire, &mut self.files);
        self.serving.retain_mut(|Serving { id, work, .. }| {
            let Poll::Ready(served) = Pin::new(work).poll(task) else { return true };
            let frame = match served {
                Ok(Served::Reply(Ok(frame))) => frame,
                Ok(Served::Reply(Err(TooLarge(bytes)))) => {
                    let text = format!("the answer has {bytes} bytes, too many for an isolated tool");
                    failure(*id, FileErrorKind::TooLarge, text)
                }
                Ok(Served::Opened(_)) if files.len() >= limits::ISOLATE_FILES_MAX => {
                    let max = limits::ISOLATE_FILES_MAX;
                    failure(*id, FileErrorKind::Io, format!("{max} files are open already; close some first"))
                }
                Ok(Served::Opened(file)) => {
                    let metadata = file.metadata().into();
                    files.insert(*id, Arc::new(Mutex::new(file)));
                    small(*id, |_| Reply::Opened(metadata))
                }
                Err(_) => failure(*id, FileErrorKind::Io, "the host panicked while it answered".to_owned()),
            };
            wire.send(frame);
            false
        });
    }

    /// Takes what the child said; gives the result if that was it.
    fn take(&mut self, frame: Frame) -> Result<Option<Result<Output, ToolError>>, Fault> {
        let frame_bytes = frame.len();
        let (head, tail) = frame.open::<ToParent>()?;
        let mut tail = Unpacker::new(&tail);
        match head {
            ToParent::Ask { id, ask } => {
                if self.serving.len() >= limits::ISOLATE_REQUESTS_MAX {
                    return Err(Fault::garbage("too many requests at once"));
                }
                if self.files.contains_key(&id) || self.serving.iter().any(|serving| serving.id == id) {
                    return Err(Fault::garbage("an id for the second time"));
                }
                // A question waits for the user, so it must not keep others from being heard.
                let is_question = matches!(ask, Ask::Question { .. });
                if is_question && frame_bytes > limits::ISOLATE_QUESTION_BYTES_MAX {
                    return Err(Fault::TooLarge(frame_bytes));
                }
                let held_bytes = if is_question { 0 } else { frame_bytes };
                let work = self.serve(id, ask, &mut tail)?;
                self.serving.push(Serving { id, held_bytes, work: Guarded::new(|| work) });
            }
            ToParent::Forget(id) => {
                self.serving.retain(|serving| serving.id != id);
                self.files.remove(&id);
            }
            ToParent::Progress { fraction, message } => {
                self.cx.progress(fraction, message.unwrap_or_default());
            }
            ToParent::Partial(text) => self.cx.partial(text),
            ToParent::Warning(mut words) => {
                truncate_in_place(&mut words, limits::NOTE_CHARS_MAX);
                self.cx.warn(words);
            }
            ToParent::Done(outcome) => return tail.outcome(outcome).map(Some),
        }
        Ok(None)
    }

    /// The work that a request asks for. All of it is held against the access of this call, by [`Context::files`].
    fn serve(&self, id: u64, ask: Ask, tail: &mut Unpacker<'_>) -> Result<BoxFuture<'static, Served>, Fault> {
        let cx = self.cx.clone();
        Ok(match ask {
            Ask::Open(path) => {
                let path = tail.path(path)?;
                Box::pin(async move {
                    match cx.files().open(&path).await {
                        Ok(file) => Served::Opened(file),
                        Err(error) => reply(id, |packer| packer.failed(&error)),
                    }
                })
            }
            Ask::Read { file, offset, max } => {
                let file =
                    self.files.get(&file).ok_or_else(|| Fault::garbage("a file that isn't open"))?.clone();
                Box::pin(async move {
                    let mut file = file.lock().await;
                    file.seek(offset);
                    let bytes = file.read(max.min(limits::ISOLATE_READ_BYTES_MAX)).await;
                    answer(id, bytes, |packer, bytes| Reply::Bytes(packer.put(&bytes)))
                })
            }
            Ask::Metadata(path) => {
                let path = tail.path(path)?;
                Box::pin(async move {
                    let found = cx.files().metadata(&path).await;
                    answer(id, found, |_, metadata| Reply::Metadata((&metadata).into()))
                })
            }
            Ask::List(path) => {
                let path = tail.path(path)?;
                Box::pin(async move {
                    answer(id, cx.files().list(&path).await, |packer, entries| packer.entries(&entries))
                })
            }
            Ask::Write { path, bytes, how } => {
                let (path, bytes) = (tail.path(path)?, tail.bytes(bytes)?.to_vec());
                Box::pin(async move {
                    let written = cx.files().write(&path, &bytes, how).await;
                    answer(id, written, |_, written| Reply::Written(written))
                })
            }
            Ask::Swap { path, old, new } => {
                let path = tail.path(path)?;
                let (old, new) = (tail.bytes(old)?.to_vec(), tail.bytes(new)?.to_vec());
                Box::pin(async move {
                    let written = cx.files().swap(&path, old, new).await;
                    answer(id, written, |_, written| Reply::Written(written))
                })
            }
            Ask::Remove { path, old } => {
                let path = tail.path(path)?;
                let old = old.map(|old| tail.bytes(old).map(<[u8]>::to_vec)).transpose()?;
                Box::pin(async move {
                    let removed = match old {
                        Some(old) => cx.files().remove_if(&path, &old).await,
                        None => cx.files().remove(&path).await,
                    };
                    answer(id, removed, done)
                })
            }
            Ask::Rename { from, to } => {
                let (from, to) = (tail.path(from)?, tail.path(to)?);
                Box::pin(async move { answer(id, cx.files().rename(&from, &to).await, done) })
            }
            Ask::CreateDir(path) => {
                let path = tail.path(path)?;
                Box::pin(async move { answer(id, cx.files().create_dir(&path).await, done) })
            }
            Ask::Question { text, choices, several } => {
                let choice = |(label, description)| Choice { label, description };
                let choices = choices.into_iter().map(choice).collect();
                let question = UserQuestion { text, choices, several };
                Box::pin(async move {
                    let chosen = match cx.ports().asker() {
                        Some(asker) => asker.question(&question).await,
                        None => None,
                    };
                    reply(id, |packer| {
                        let cut = |text: &String| packer.put(text.as_bytes());
                        Reply::Chosen(chosen.map(|texts| texts.iter().map(cut).collect()))
                    })
                })
            }
        })
    }

    /// Tells the child that nobody waits for it. The engine drops us at the first chance; others wait a moment.
    async fn say_goodbye(&mut self, cause: Cause) {
        if let Ok(frame) = encode(&ToChild::Cancel(cause), Packer::default()) {
            self.wire.send(frame);
        }
        let sent = poll_fn(|task| self.wire.poll_send(task));
        let _ = tokio::time::timeout(limits::CANCEL_GRACE, sent).await;
        // One pause in any case: whoever raced us against the cancellation has better words for it.
        tokio::task::yield_now().await;
    }
}

fn done(_: &mut Packer, (): ()) -> Reply {
    Reply::Done
}

fn answer<T>(id: u64, outcome: Result<T, FileError>, say: impl FnOnce(&mut Packer, T) -> Reply) -> Served {
    reply(id, |packer| match outcome {
        Ok(value) => say(packer, value),
        Err(error) => packer.failed(&error),
    })
}

fn reply(id: u64, say: impl FnOnce(&mut Packer) -> Reply) -> Served {
    Served::Reply(reply_frame(id, say))
}

fn reply_frame(id: u64, say: impl FnOnce(&mut Packer) -> Reply) -> Result<Vec<u8>, TooLarge> {
    let mut packer = Packer::default();
    let reply = say(&mut packer);
    encode(&ToChild::Reply { id, reply }, packer)
}

fn failure(id: u64, kind: FileErrorKind, text: String) -> Vec<u8> {
    small(id, |packer| packer.failed(&FileError::new(kind, text)))
}

fn small(id: u64, say: impl FnOnce(&mut Packer) -> Reply) -> Vec<u8> {
    reply_frame(id, say).expect("it has no more than a short text")
}
