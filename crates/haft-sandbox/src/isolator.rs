//! Processes for isolated tools: this program again, in the sandbox, with nothing but its pipe.
//!
//! A child sees what a command sees that may only look, and has no network. It is started from the program's own file, so
//! it is the same program even if that was replaced meanwhile. Whatever ends it, a crash, an abort or the want of memory,
//! closes the pipe, and that is an error result.
//!
//! The pipe is watched by a small runtime of ours, because the host's may have been built without one for descriptors.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll};
use std::thread::JoinHandle;

use haft::future::BoxFuture;
use haft::isolate::{Isolated, Isolator, Pipe, run_child};
use haft::ports::{Confinement, ProcessRequest};
use haft::{Context, ToolError};
use rustix::fs::{Mode, OFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::confined::Confined;
use crate::sandbox::{Sandbox, Unavailable};
use crate::{limits, sys};

/// How a program is called that is to run an isolated tool, and the descriptor of its pipe.
pub(crate) const NAME: &str = "haft: isolated tool";
const PIPE: i32 = 3;

/// Whether `main` has called [`serve_isolated_tools`], so that a child of this program would serve.
static SERVES: AtomicBool = AtomicBool::new(false);

/// Runs an isolated tool and ends the process, if this process was started for that; returns at once otherwise.
///
/// The children of [`SandboxIsolator`] are this program again, already inside the sandbox. A program with
/// [isolated](haft::isolated) tools calls this at the beginning of `main`, before anything that has an effect; the first
/// line of an `async` main is early enough. Without this call [`SandboxIsolator::new`] fails. A program without isolated
/// tools needs no such line.
///
/// ```no_run
/// use haft::isolate::Isolated;
///
/// fn tools() -> Vec<Isolated> {
///     Vec::new() // haft::isolated(|| MyTool), …
/// }
///
/// #[tokio::main]
/// async fn main() {
///     haft_sandbox::serve_isolated_tools(tools);
///     // … the program, which registers `tools()` and sets the port `isolator`
/// }
/// ```
pub fn serve_isolated_tools(tools: fn() -> Vec<Isolated>) {
    SERVES.store(true, Ordering::Relaxed);
    if std::env::args_os().next().is_none_or(|name| name != NAME) {
        return;
    }
    // On a thread of its own, since the caller's may be one of a runtime, which can't wait for another.
    let thread = std::thread::Builder::new().stack_size(limits::ISOLATED_STACK_BYTES);
    let served = thread.spawn(move || serve(tools)).ok().and_then(|serving| serving.join().ok()?);
    std::process::exit(i32::from(served.is_none()));
}

/// Serves the pipe until the host closes it.
fn serve(tools: fn() -> Vec<Isolated>) -> Option<()> {
    let socket = Socket::from(sys::inherited(PIPE)?);
    socket.set_nonblocking(true).ok()?;
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async {
        if let Ok(pipe) = UnixStream::from_std(socket) {
            run_child(pipe, &tools()).await;
        }
    });
    Some(())
}

/// Starts isolated tools in a sandbox: the port [`Isolator`].
///
/// `main` has to begin with [`serve_isolated_tools`] and the same tools.
pub struct SandboxIsolator {
    sandbox: Arc<Sandbox>,
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SandboxIsolator {
    /// One that starts its children in this sandbox.
    ///
    /// # Errors
    /// There is no thread for its pipes, or this program doesn't call [`serve_isolated_tools`].
    pub fn new(sandbox: Arc<Sandbox>) -> Result<SandboxIsolator, Unavailable> {
        if sandbox.is_own_helper() && !SERVES.load(Ordering::Relaxed) {
            let message =
                "no tool can be isolated: `main` doesn't begin with `haft_sandbox::serve_isolated_tools`";
            return Err(Unavailable { message: message.to_owned() });
        }
        let failed = |error: io::Error| Unavailable { message: format!("no tool can be isolated: {error}") };
        let runtime = Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("haft-isolated".into())
            .stack_size(limits::THREAD_STACK_BYTES)
            .spawn(move || {
                // Told to stop, or let go of: both end it.
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(SandboxIsolator { sandbox, handle, stop: Some(stop), thread: Some(thread) })
    }

    fn start(&self, request: &ProcessRequest) -> Result<Piped, String> {
        let failed = |error: io::Error| format!("no process can be started: {error}");
        let (ours, theirs) = Socket::pair().map_err(failed)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let null = null.map_err(|errno| failed(errno.into()))?;
        let program: OwnedFd = self.sandbox.own_program().map_err(failed)?;
        let own = [null.as_fd(), null.as_fd(), null.as_fd(), theirs.as_fd()];
        let child = self.sandbox.begin_opened(request, &own, program.as_fd())?;
        ours.set_nonblocking(true).map_err(failed)?;
        let _inside = self.handle.enter();
        Ok(Piped { stream: UnixStream::from_std(ours).map_err(failed)?, _child: Ended(child) })
    }
}

impl Drop for SandboxIsolator {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Isolator for SandboxIsolator {
    fn connect<'a>(
        &'a self,
        tool: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Box<dyn Pipe>, ToolError>> {
        Box::pin(async move {
            let request = ProcessRequest::new([NAME], cx.cwd()).with_confinement(Confinement::ReadOnly);
            // A few milliseconds, of which most are the kernel's.
            let piped = self.start(&request);
            let piped = piped.map_err(|words| ToolError::new(format!("{tool} was not run: {words}")))?;
            Ok(Box::new(piped) as Box<dyn Pipe>)
        })
    }
}

/// The host's end, and the child at the other.
struct Piped {
    stream: UnixStream,
    _child: Ended,
}

/// Kills the child when it is dropped, and doesn't wait for it: it has no say in that.
struct Ended(Confined);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl AsyncRead for Piped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(task, buffer)
    }
}

impl AsyncWrite for Piped {
    fn poll_write(mut self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(task, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
