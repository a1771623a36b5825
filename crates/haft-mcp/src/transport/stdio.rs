//! A server that is a process: its standard input and output are the connection, what it complains about is
//! kept.
//!
//! The process is started through the host's [`Processes`], as every other; nothing here knows how. It ends
//! with the connection: first its input ends, and one that doesn't go by itself within a grace is ended.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{ProcessError, ProcessExit, ProcessOutcome, ProcessRequest, Processes};
use haft::sync::lock;
use haft::{Cancel, Cause};
use tokio::net::unix::pipe;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::lines::{BoundedLines, line_outbox};
use super::{LinkEnd, MessageLink, ServerLog};
use crate::config::StdioTransport;
use crate::limits::{CLOSE_GRACE, INPUT_END_WAIT, LAST_WORDS_WAIT};

/// Starts the process and connects to it.
///
/// # Errors
/// Why it can't be started, in words.
pub(crate) async fn start_server(
    stdio: &StdioTransport,
    processes: Arc<dyn Processes>,
    cwd: &Path,
    log: ServerLog,
) -> Result<MessageLink, String> {
    let (send, pipes) = oneshot::channel::<(OwnedFd, OwnedFd)>();
    let send = Mutex::new(Some(send));
    let cancel = Cancel::new();
    let argv = std::iter::once(&stdio.command).chain(&stdio.args);
    let heard = log.clone();
    let mut request = ProcessRequest::new(argv, stdio.cwd.as_deref().unwrap_or(cwd))
        .with_env("CLAUDE_PROJECT_DIR", cwd)
        .with_env(haft::env::HAFT_MCP_SERVER, "1")
        .with_confinement(stdio.confinement)
        .with_timeout(Duration::MAX)
        .with_output_bytes_max(0)
        .with_cancel(cancel.clone())
        .with_on_output(move |bytes| heard.add(bytes))
        .with_pipes(move |input, output| {
            if let Some(send) = lock(&send).take() {
                let _ = send.send((input, output));
            }
        });
    for (name, value) in &stdio.env {
        request = request.with_env(name, value);
    }
    let task = tokio::spawn(async move { processes.run(request).await });
    let mut process = ServerProcess { cancel, task: Some(task), log, ended: None };
    let Ok((input, output)) = pipes.await else {
        // The request is gone without having been carried out.
        let words = process.last_words().await;
        return Err(words.unwrap_or_else(|| "the process was not started".to_owned()));
    };
    let failed = |error: std::io::Error| format!("the process can't be talked to: {error}");
    let input = pipe::Sender::from_owned_fd(input).map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(output).map_err(failed)?;
    Ok(MessageLink {
        source: Box::new(BoundedLines::new(output)),
        outbox: line_outbox(input),
        end: Box::new(process),
    })
}

/// A process that runs. Dropped, it is told to end.
struct ServerProcess {
    cancel: Cancel,
    task: Option<JoinHandle<Result<ProcessOutcome, ProcessError>>>,
    log: ServerLog,
    ended: Option<String>,
}

impl ServerProcess {
    /// Waits for its end, for so long.
    async fn ended(&mut self, wait: Duration) {
        let Some(task) = &mut self.task else { return };
        let Ok(outcome) = tokio::time::timeout(wait, task).await else { return };
        self.task = None;
        self.ended = Some(match outcome {
            Ok(Ok(outcome)) => {
                let how = match outcome.exit {
                    ProcessExit::Code(code) => format!("its process ended with code {code}"),
                    ProcessExit::Signal(signal) => format!("its process was ended by signal {signal}"),
                    ProcessExit::TimedOut | ProcessExit::Cancelled => "its process was ended".to_owned(),
                    ProcessExit::Killed(reason) => format!("its process was killed: {reason}"),
                };
                match self.log.last_line() {
                    Some(words) => format!("{how}; its last words: {words}"),
                    None => how,
                }
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its process was lost".to_owned(),
        });
    }
}

impl LinkEnd for ServerProcess {
    fn close<'a>(&'a mut self) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.ended(INPUT_END_WAIT).await;
            self.cancel.cancel(Cause::Shutdown);
            self.ended(CLOSE_GRACE).await;
            // Whoever starts processes ends those soon that nobody waits for.
            if let Some(task) = &self.task {
                task.abort();
                self.ended(CLOSE_GRACE).await;
            }
        })
    }

    fn last_words<'a>(&'a mut self) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            self.ended(LAST_WORDS_WAIT).await;
            self.ended.clone()
        })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.cancel.cancel(Cause::Shutdown);
    }
}
