//! The child's side of one call.
//!
//! The process hears of its call over the pipe, builds the tool by its name, gives it a context of stand-ins and sends
//! what comes of it. Tool and pipe are polled by one future, so when the host is gone the tool is dropped with it.
//! What the tool does on other tasks finds every port closed once the result is sent.

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use haft_scheduler::{Cancel, Cause};
use serde_json::Value;

use super::frames::{Fault, Frame, TooLarge, Wire, encode};
use super::link::{Answer, Events, Link};
use super::proxy::{RemoteAsker, RemoteFiles};
use super::wire::{Call, Packer, ToChild, ToParent, Unpacker};
use super::{Isolated, Pipe};
use crate::content::Output;
use crate::context::{Context, Host};
use crate::effects::resolved::Workspace;
use crate::error::{ErrorKind, ToolError};
use crate::event::{CallRef, EventSink};
use crate::files::{Access, Root};
use crate::future::{BoxFuture, Guarded, guarded};
use crate::pipeline::panicked;
use crate::ports::Ports;
use crate::schema::problems;
use crate::supervise::Threads;
use crate::tool::AnyTool;

/// Runs the one call that the host at the other end of the pipe sends, and returns when it is over.
///
/// This is what the child process is for: its `main` gives over its end of the pipe and the same list of tools that
/// the host has registered, then exits. Everything that can be said about the call is said over the pipe, so there is
/// nothing to return: a tool that fails or panics is a result, and a host that is gone wants none. The call then ends
/// as if it were cancelled, and so it does when the host says so.
///
/// It needs a tokio runtime and runs the tool on the calling task; one that [blocks](crate::ToolSpec::blocking) has a
/// thread of its own.
///
/// # Cancel safety
/// Dropping the future drops the tool and closes the pipe; the host takes that for the death of the process.
pub async fn run_child(pipe: impl Pipe, tools: &[Isolated]) {
    let mut wire = Wire::new(Box::pin(pipe));
    let Some((call, tail)) = first(&mut wire).await else { return };
    let link = Arc::<Link>::default();
    let cancel = Cancel::new();
    // Also when this future is dropped: what the tool left on other tasks must not wait for answers.
    let _close = Close(&link);
    let name = call.tool.clone();
    let mut work = Some(Guarded::new(|| begin(tools, call, &tail, &link, &cancel)));
    drop(tail);

    let ended = poll_fn(|task| {
        let finished = work.as_mut().map_or(Poll::Pending, |work| Pin::new(work).poll(task));
        if let Poll::Ready(outcome) = finished {
            work = None;
            return Poll::Ready(Some(outcome.unwrap_or_else(|_| Err(panicked(&name)))));
        }
        let Some(cause) = exchange(&mut wire, &link, task) else { return Poll::Pending };
        cancel.cancel(cause);
        // Once more, so that it can see the cause; then it is dropped, as the engine does.
        let _ = work.as_mut().map(|work| Pin::new(work).poll(task));
        work = None;
        Poll::Ready(None)
    })
    .await;
    let Some(outcome) = ended else { return };

    // What was said before the result arrives before it; requests that nobody waited for are not made.
    while let Some(frame) = link.next_note() {
        wire.send(frame);
    }
    link.close();
    wire.send(result_frame(&name, &outcome));
    poll_fn(|task| {
        let over = wire.poll_send(task).is_ready() || exchange(&mut wire, &link, task).is_some();
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Closes the link when the call is over, however that came.
struct Close<'a>(&'a Link);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The call. Without one there is nothing to answer: the host sees the greeting, and then the end.
async fn first(wire: &mut Wire) -> Option<(Call, Vec<u8>)> {
    let frame = poll_fn(|task| {
        let sent = wire.poll_send(task);
        match wire.poll_frame(task) {
            Poll::Ready(frame) => Poll::Ready(Some(frame)),
            Poll::Pending if matches!(sent, Poll::Ready(Err(_))) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await?;
    let opened = frame.and_then(Frame::open::<ToChild>);
    // The host of another version should see ours, so that it can say what is wrong.
    let _ = poll_fn(|task| wire.poll_send(task)).await;
    match opened {
        Ok((ToChild::Call(call), tail)) => Some((call, tail)),
        _ => None,
    }
}

/// Sends what waits and takes what came; a cause if the call is over.
fn exchange(wire: &mut Wire, link: &Link, task: &mut Task<'_>) -> Option<Cause> {
    loop {
        match wire.poll_send(task) {
            Poll::Ready(Err(_)) => return Some(Cause::Shutdown),
            Poll::Ready(Ok(())) => {
                if let Some(frame) = link.next(task.waker()) {
                    wire.send(frame);
                    continue;
                }
            }
            Poll::Pending => {}
        }
        let Poll::Ready(frame) = wire.poll_frame(task) else { return None };
        match frame.and_then(Frame::open::<ToChild>) {
            Ok((ToChild::Reply { id, reply }, tail)) => link.answer(id, Answer { reply, tail }),
            Ok((ToChild::Cancel(cause), _)) => return Some(cause),
            Ok((ToChild::Call(_), _)) | Err(_) => return Some(Cause::Shutdown),
        }
    }
}

/// Builds the tool and its context, and begins the call.
fn begin(
    tools: &[Isolated],
    call: Call,
    tail: &[u8],
    link: &Arc<Link>,
    cancel: &Cancel,
) -> BoxFuture<'static, Result<Output, ToolError>> {
    let refused = |error: ToolError| -> BoxFuture<'static, _> { Box::pin(std::future::ready(Err(error))) };
    let name = call.tool.clone();
    let tool = match find(tools, &name) {
        Ok(tool) => tool,
        Err(error) => return refused(error),
    };
    let Ok((cx, input)) = context(call, tail, link, cancel) else {
        return refused(ToolError::new(format!("{name} was not run: its call is not understood")));
    };
    let invocation = match tool.invoke(&input) {
        Ok(invocation) => invocation,
        Err(violation) => {
            return refused(ToolError::of(ErrorKind::InvalidInput, problems(&name, &[violation])));
        }
    };
    if tool.spec().blocking {
        return Arc::new(Threads::default()).run(name.into(), move || invocation.call(cx));
    }
    invocation.call(cx)
}

/// Builds the tool of that name, and keeps none of the others.
fn find(tools: &[Isolated], name: &str) -> Result<AnyTool, ToolError> {
    let named = |tool: &&Isolated| guarded(|| tool.name() == name).unwrap_or(false);
    let tool = tools.iter().find(named).ok_or_else(|| {
        let words = format!("{name} was not run: its process knows no tool of that name");
        ToolError::of(ErrorKind::UnknownTool, words)
    })?;
    tool.rebuild().map_err(|bad| ToolError::new(format!("{name} was not run: {bad}")))
}

fn context(call: Call, tail: &[u8], link: &Arc<Link>, cancel: &Cancel) -> Result<(Context, Value), Fault> {
    // In the order of the tail.
    let mut tail = Unpacker::new(tail);
    let cwd = tail.path(call.cwd)?;
    let dirs: Result<Vec<_>, _> = call.dirs.iter().map(|dir| tail.path(*dir)).collect();
    let readable = tail.places(&call.readable)?;
    let access = tail.access(&call.read, &call.write)?;
    let input = tail.json(call.input)?;

    let mut ports = Ports { files: Arc::new(RemoteFiles(link.clone())), ..Ports::default() };
    if call.asker {
        ports.asker = Some(Arc::new(RemoteAsker(link.clone())));
    }
    let events = call.watched.then(|| Arc::new(Events(link.clone())) as Arc<dyn EventSink>);
    let host = Host {
        session: call.session.into(),
        agent: call.agent.into(),
        workspace: workspace(&cwd, &dirs?, &readable),
        base_access: Arc::new(Access { read: readable, ..Access::default() }),
        ports,
        events,
        results: None,
        background: Arc::default(),
        confined: false,
        place: std::sync::Mutex::default(),
    };
    let reference = CallRef { index: call.index, id: call.id.into(), tool: call.called.into() };
    let cx = Context::proxied(Arc::new(host), call.turn, reference, cancel.clone(), access, &cwd);
    Ok((cx, input))
}

/// The host's workspace, as far as it can be seen from here. What can't be counts as readable and not as inside.
fn workspace(cwd: &Path, dirs: &[PathBuf], readable: &[Root]) -> Workspace {
    let seen = Workspace::new(cwd).ok().filter(|seen| seen.cwd() == cwd).map(|seen| {
        let others = dirs.iter().filter(|dir| *dir != cwd);
        others.fold(seen, |seen, dir| seen.clone().with_dir(dir).unwrap_or(seen))
    });
    let seen = seen.unwrap_or_else(Workspace::nowhere);
    readable.iter().fold(seen, |seen, root| seen.with_readable(&root.path))
}

fn result_frame(name: &str, outcome: &Result<Output, ToolError>) -> Vec<u8> {
    let done = |outcome: &Result<Output, ToolError>| {
        let mut packer = Packer::default();
        let outcome = match outcome {
            Ok(output) => packer.output(output)?,
            Err(error) => packer.error(error),
        };
        encode(&ToParent::Done(outcome), packer)
    };
    done(outcome).unwrap_or_else(|TooLarge(bytes)| {
        let words = format!(
            "{name} ran, but its result is lost: {bytes} bytes are more than its process can hand over; ask for less \
             at once"
        );
        done(&Err(ToolError::new(words))).expect("an error is small")
    })
}
