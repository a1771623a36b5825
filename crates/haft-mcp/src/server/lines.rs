//! A client on a connection of lines: standard input and output, or any other byte stream.
//!
//! One task reads and writes. A message is parsed in the read buffer; a request that is ready at once is
//! answered at once, any other runs in its own task. Responses that are ready together leave in one write.
//!
//! A client that doesn't read its responses is not read from. When its input ends, requests in flight are
//! still answered for a grace period.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;

use haft::sync::lock;
use haft::{Cancel, Cause};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::batch::MessageBatch;
use super::client_info::{ProtocolRevision, TransportKind};
use super::json_rpc::{
    INVALID_REQUEST, IncomingMessage, InvalidMessage, RequestResult, RpcRequest, is_batch, read_message,
    write_invalid, write_response,
};
use super::request::{McpRequest, RequestSender, SharedParams, read_handshake};
use super::results::ResultStamp;
use super::session::{DUPLICATE_ID, MessageSink, RequestContext, ServerSession, shut_down};
use super::{CancelOnDrop, ServerCore};
use crate::limits::{self, READ_BYTES, UNREAD_BYTES_MAX};
use crate::line_buffer::LineBuffer;

/// Serves one client until it disconnects or the server shuts down.
pub(crate) async fn serve_lines<R, W>(core: Arc<ServerCore>, reader: R, writer: W)
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
{
    let _cancel_on_drop = CancelOnDrop(core.clone());
    let outbox = Arc::new(LineOutbox::default());
    let mut connection = LineConnection {
        core: core.clone(),
        outbox: outbox.clone(),
        cancel: core.cancel.child(),
        ending: core.stopping.child(),
        session: None,
        stateless: None,
        requests: JoinSet::new(),
        invalid_messages: 0,
    };
    let talk = async {
        tokio::select! {
            () = connection.read_from(reader) => {}
            _ = core.stopping.cancelled() => {}
        }
        connection.ending.cancel(Cause::Disconnect);
        connection.finish_requests().await;
        outbox.close();
        let shutdown = async {
            core.stopping.cancelled().await;
            tokio::time::sleep(core.limits.shutdown_grace.max(limits::CUT_WAIT)).await;
        };
        tokio::select! {
            () = outbox.wait_for_stall() => {}
            () = shutdown => {}
        }
    };
    tokio::select! {
        // Ends when the client doesn't read the remaining responses.
        () = talk => {}
        // Ends when the outbox is closed and empty, or can't be written.
        () = outbox.write_to(writer) => {}
    }
    core.cancel_all(Cause::Disconnect);
    connection.clean_up().await;
}

struct LineConnection {
    core: Arc<ServerCore>,
    outbox: Arc<LineOutbox>,
    cancel: Cancel,
    /// Ends subscriptions when the input has ended.
    ending: Cancel,
    /// The session of the handshake.
    session: Option<Arc<ServerSession>>,
    /// The last client of stateless requests.
    stateless: Option<(RequestSender, Arc<ServerSession>)>,
    requests: JoinSet<()>,
    invalid_messages: u64,
}

/// Whether to read on.
type KeepsReading = bool;

/// A refused request, with the revision of its error.
type RefusedRequest = (ErrorData, ProtocolRevision);

impl LineConnection {
    async fn read_from<R: AsyncRead + Unpin>(&mut self, mut reader: R) {
        let mut buffer = LineBuffer::default();
        loop {
            while let Some(line) = buffer.next_line() {
                let is_last = !buffer.has_line();
                let line = buffer.text(line);
                if !line.is_empty() && !self.receive(line, is_last).await {
                    return;
                }
            }
            if buffer.unfinished() > self.core.limits.message_bytes {
                self.report_invalid(&InvalidMessage::invalid_request("the message is too long"));
                return;
            }
            while self.requests.try_join_next().is_some() {}
            self.outbox.wait_for_drain().await;
            match buffer.fill(&mut reader).await {
                Ok(true) => {}
                Ok(false) => {
                    if let Some(message) = buffer.last_message() {
                        self.receive(&message, true).await;
                    }
                    return;
                }
                Err(_) => return,
            }
        }
    }

    async fn receive(&mut self, line: &[u8], is_last: bool) -> KeepsReading {
        if is_batch(line) {
            return self.receive_batch(line);
        }
        match read_message(line) {
            Ok(IncomingMessage::RpcRequest(request)) => self.receive_request(request, is_last).await,
            Ok(other) => self.receive_other(&other),
            Err(invalid) => return self.report_invalid(&invalid),
        }
        true
    }

    fn sessions(&self) -> impl Iterator<Item = &Arc<ServerSession>> {
        self.session.iter().chain(self.stateless.as_ref().map(|(_, session)| session))
    }

    fn receive_other(&self, message: &IncomingMessage<'_>) {
        match message {
            // Both kinds of requests share the ids of a connection.
            IncomingMessage::Notification { method, params } => {
                self.sessions().for_each(|session| session.receive_notification(method, *params));
            }
            IncomingMessage::Response { id, result } => {
                if let Some(session) = &self.session {
                    session.receive_response(id, *result);
                }
            }
            IncomingMessage::RpcRequest(_) => {}
        }
    }

    async fn receive_request(&mut self, request: RpcRequest<'_>, is_last: bool) {
        let RpcRequest { id, method, params } = request;
        if method == "ping" && self.session.is_none() && params.is_none_or(|params| params.get() == "{}") {
            // Allowed before the handshake.
            return self.respond(id, Ok(RequestResult::Empty), &ResultStamp::new(self.revision()));
        }
        if method == "initialize" {
            let result = self.initialize(params).await;
            return self.respond(id, result, &ResultStamp::new(self.revision()));
        }
        let mut work = match self.begin(id, &method, params).await {
            Ok(work) => Box::pin(work),
            // An error with this id would be taken for the response to the first request.
            Err((error, _)) if error.message == DUPLICATE_ID => {
                let invalid = InvalidMessage::invalid_request(DUPLICATE_ID);
                self.outbox.push(|to| write_invalid(to, &invalid));
                return;
            }
            Err((error, revision)) => return self.respond(id, Err(error), &ResultStamp::new(revision)),
        };
        // Only the last request may run on this task: of several, each may use a processor of its own.
        if is_last {
            let first = std::future::poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
            if first.is_ready() {
                return;
            }
        }
        self.requests.spawn(work);
    }

    /// Begins a request; the future sends its response.
    async fn begin(
        &mut self,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<impl Future<Output = ()> + Send + use<>, RefusedRequest> {
        let revision = self.revision();
        let mut shared = SharedParams::read(params).map_err(|error| (error, revision))?;
        let (session, log_level) = if shared.is_stateless() || method == "server/discover" {
            let newest = |error| (error, ProtocolRevision::V2026_07_28);
            let sender = shared.take_sender().map_err(newest)?;
            let log_level = sender.log_level;
            (self.stateless_session(sender).await.map_err(newest)?, Some(log_level))
        } else {
            let message =
                "the first request has to be `initialize`, or each has to describe its client in `_meta`";
            let missing = || (ErrorData::invalid_request(message, None), revision);
            (self.session.clone().ok_or_else(missing)?, None)
        };
        let context =
            RequestContext { sink: self.outbox.clone(), cancel: session.cancel().child(), log_level };
        let refused = |error| (error, session.revision());
        let request = McpRequest::read(method, params, session.revision()).map_err(refused)?;
        let work = session.begin(id, method, request, shared, context).map_err(refused)?;
        let (outbox, id) = (self.outbox.clone(), id.to_owned());
        Ok(async move {
            if let Some(result) = work.await {
                outbox.push(|to| write_response(to, &id, result, session.stamp()));
            }
        })
    }

    fn revision(&self) -> ProtocolRevision {
        self.session.as_ref().map_or(ProtocolRevision::LATEST_WITH_HANDSHAKE, |session| session.revision())
    }

    async fn initialize(&mut self, params: Option<&RawValue>) -> Result<RequestResult, ErrorData> {
        if self.session.is_some() {
            let message = "this connection is initialized already";
            return Err(ErrorData::new(ErrorCode(INVALID_REQUEST), message, None));
        }
        let client = read_handshake(params, TransportKind::Stdio)?;
        let session =
            ServerSession::open(&self.core, client, self.cancel.child(), self.ending.clone()).await?;
        let result = session.initialize_result();
        let (forwarding, outbox) = (session.clone(), self.outbox.clone());
        tokio::spawn(async move { forwarding.forward_changes(&*outbox).await });
        self.session = Some(session);
        Ok(result)
    }

    async fn stateless_session(&mut self, sender: RequestSender) -> Result<Arc<ServerSession>, ErrorData> {
        if let Some((known, session)) = &self.stateless
            && known.is_same_client(&sender)
        {
            return Ok(session.clone());
        }
        let client = sender.client(TransportKind::Stdio);
        let session =
            ServerSession::open(&self.core, client, self.cancel.child(), self.ending.clone()).await?;
        self.stateless = Some((sender, session.clone()));
        Ok(session)
    }

    fn receive_batch(&mut self, line: &[u8]) -> KeepsReading {
        let Some(session) = &self.session else { return self.report_invalid(&MessageBatch::unsupported()) };
        let sink: Arc<dyn MessageSink> = self.outbox.clone();
        let batch = match MessageBatch::begin(session, line, &sink) {
            Ok(batch) => batch,
            Err(invalid) => return self.report_invalid(&invalid),
        };
        let outbox = self.outbox.clone();
        self.requests.spawn(async move {
            if let Some(responses) = batch.responses().await {
                outbox.push(|to| to.extend_from_slice(&responses));
            }
        });
        true
    }

    fn respond(&self, id: &RawValue, result: Result<RequestResult, ErrorData>, stamp: &ResultStamp) {
        self.outbox.push(|to| write_response(to, id, result, stamp));
    }

    fn report_invalid(&mut self, invalid: &InvalidMessage) -> KeepsReading {
        self.outbox.push(|to| write_invalid(to, invalid));
        self.invalid_messages += 1;
        self.invalid_messages < limits::INVALID_MAX
    }

    /// Waits for requests in flight within the grace period, then cancels them.
    async fn finish_requests(&mut self) {
        let grace = self.core.limits.shutdown_grace;
        if !self.wait_for_requests(grace).await {
            self.cancel.cancel(Cause::Shutdown);
            // Most report how far they came. The others are answered here: the parent process may not wait
            // longer.
            if !self.wait_for_requests(limits::CUT_WAIT).await {
                self.answer_unfinished();
            }
            self.clean_up().await;
        }
    }

    fn answer_unfinished(&self) {
        for session in self.sessions() {
            for id in session.abort_requests() {
                if let Ok(id) = RawValue::from_string(id.into()) {
                    self.respond(&id, Err(shut_down()), session.stamp());
                }
            }
        }
    }

    /// Waits while cancelled requests clean up.
    async fn clean_up(&mut self) {
        self.wait_for_requests(limits::CANCEL_GRACE * 2).await;
    }

    /// Whether all requests ended in time.
    async fn wait_for_requests(&mut self, timeout: std::time::Duration) -> bool {
        let all = async { while self.requests.join_next().await.is_some() {} };
        tokio::time::timeout(timeout, all).await.is_ok()
    }
}

/// Messages that wait to be written.
#[derive(Default)]
pub(crate) struct LineOutbox {
    queue: Mutex<OutboxQueue>,
    /// There is something to write, or the outbox was closed.
    filled: Notify,
    /// Something was written.
    emptied: Notify,
}

#[derive(Default)]
struct OutboxQueue {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl LineOutbox {
    fn queue(&self) -> MutexGuard<'_, OutboxQueue> {
        lock(&self.queue)
    }

    /// Adds a message; `false` if the outbox is closed.
    fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        {
            let mut queue = self.queue();
            if queue.is_closed {
                return false;
            }
            write(&mut queue.bytes);
            queue.bytes.push(b'\n');
        }
        self.filled.notify_one();
        true
    }

    fn close(&self) {
        self.queue().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits until a slow client has read something.
    async fn wait_for_drain(&self) {
        while self.queue().bytes.len() > UNREAD_BYTES_MAX {
            self.emptied.notified().await;
        }
    }

    /// Waits until nothing was read for a while.
    async fn wait_for_stall(&self) {
        while tokio::time::timeout(limits::READ_STALL, self.emptied.notified()).await.is_ok() {}
    }

    /// Writes messages until the outbox is closed and empty, or writing fails.
    async fn write_to<W: AsyncWrite + Unpin>(&self, mut writer: W) {
        let mut batch = Vec::new();
        loop {
            let is_closed = {
                let mut queue = self.queue();
                std::mem::swap(&mut queue.bytes, &mut batch);
                queue.is_closed
            };
            if batch.is_empty() {
                if is_closed {
                    return;
                }
                self.filled.notified().await;
                continue;
            }
            if self.write_all(&mut writer, &batch).await.is_err() {
                self.queue().is_closed = true;
                return;
            }
            // One long response must not keep its memory.
            if batch.capacity() > 2 * READ_BYTES {
                batch = Vec::new();
            }
            batch.clear();
        }
    }

    async fn write_all<W: AsyncWrite + Unpin>(
        &self,
        writer: &mut W,
        mut bytes: &[u8],
    ) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match writer.write(bytes).await? {
                0 => return Err(std::io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
            self.emptied.notify_one();
        }
        writer.flush().await
    }
}

impl MessageSink for LineOutbox {
    fn notify(&self, message: Vec<u8>) {
        if self.queue().bytes.len() <= UNREAD_BYTES_MAX {
            self.push(|to| to.extend_from_slice(&message));
        }
    }

    fn send(&self, message: Vec<u8>) -> bool {
        self.push(|to| to.extend_from_slice(&message))
    }
}
