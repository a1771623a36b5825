//! Between a connection and the SDK: what a server sends is read here, and only what makes sense goes on.
//!
//! Whatever comes, a call fails or nothing happens: no hang, no panic, no growth. Text that is no message is
//! counted, and too much of it ends the connection. An answer that nobody waits for (a wrong number, a second
//! one, one that comes too late) is dropped. So is one that names its request by a text where the server's
//! first result had a number: only servers that write texts from the start (session-bridging gateways do) are
//! understood so. An answer that is neither result nor error becomes an error of its call. Notifications have
//! a rate, and changes of lists are noted here, so that none is lost to it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::sync::lock;
use haft::{Cancel, Cause};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorCode, ErrorData, GetExtensions as _,
    NumberOrString, RequestId, ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::deep_json;
use super::http::{self, HttpError, HttpTransport};
use super::{MessageLink, NotSent, field_order};
use crate::limits::{
    BATCH_MAX, CONNECT_TIMEOUT, DISCOVER_WAIT, INVALID_MAX, NOTIFICATIONS_BURST, NOTIFICATIONS_PER_SECOND,
    REQUESTS_OPEN_MAX,
};
use crate::token_bucket::{Rate, TokenBucket};

/// What is known of a connection beside its messages. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ConnectionWatch(Arc<ConnectionState>);

#[derive(Default)]
struct ConnectionState {
    counts: [AtomicU64; 4],
    ended: Mutex<Option<String>>,
    over: Cancel,
    /// The first question was answered after it had been given up.
    late: AtomicBool,
    changes: Mutex<ListChanges>,
    changed: Notify,
    /// How many requests of ours are under way that the server may have questions about.
    under_way: AtomicUsize,
    /// How often there were none any more.
    idles: watch::Sender<u64>,
    /// We end it.
    closing: Cancel,
    outbox: Mutex<Option<AbortHandle>>,
    id_form: OnceLock<IdForm>,
}

/// How a server writes the numbers of requests in its answers, as its first result shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IdForm {
    Number,
    Text,
}

/// A request of ours that the server may have questions about, as long as this is there.
pub(crate) struct UnderWay(ConnectionWatch);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.0.idles.send_modify(|idles| *idles += 1);
        }
    }
}

/// When the server asked: how often nothing had been under way until then.
#[derive(Clone, Copy)]
pub(crate) struct IdleEpoch(u64);

/// Lists that changed since somebody looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListChanges {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
}

/// What was dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DropCause {
    Invalid = 0,
    Unknown = 1,
    Floods = 2,
    Refused = 3,
}

impl ConnectionWatch {
    /// The request that an answer names. JSON-RPC wants the id as it was sent, which is always a number; some
    /// gateways write it as a text in all of their answers.
    pub(super) fn request_id(&self, id: &RequestId) -> RequestId {
        let NumberOrString::String(text) = id else { return id.clone() };
        let number = text.parse::<i64>().ok().filter(|number| number.to_string() == **text);
        match number {
            Some(number) if self.0.id_form.get() != Some(&IdForm::Number) => NumberOrString::Number(number),
            _ => id.clone(),
        }
    }

    /// Notes the id of a result. The first one counts.
    fn learn_id_form(&self, id: &RequestId) {
        let form = if matches!(id, NumberOrString::String(_)) { IdForm::Text } else { IdForm::Number };
        let _ = self.0.id_form.set(form);
    }

    fn count(&self, what: DropCause) -> u64 {
        self.0.counts[what as usize].fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn counted(&self, what: DropCause) -> u64 {
        self.0.counts[what as usize].load(Ordering::Relaxed)
    }

    /// Why the connection ended, if it said so.
    pub(crate) fn ended(&self) -> Option<String> {
        lock(&self.0.ended).clone()
    }

    /// Completes when the connection is of no use any more, and says why.
    pub(crate) async fn over(&self) -> String {
        self.0.over.cancelled().await;
        self.ended().unwrap_or_else(|| "the connection ended".to_owned())
    }

    /// Whether the server knows the newest revision after all: it was only slow to say so.
    pub(crate) fn was_late(&self) -> bool {
        self.0.late.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.over.is_cancelled()
    }

    /// Ends it, with a reason if there is none yet.
    pub(crate) fn end(&self, words: Option<String>) {
        if let Some(words) = words {
            lock(&self.0.ended).get_or_insert(words);
        }
        self.0.over.cancel(Cause::Shutdown);
    }

    /// A request begins that the server may have questions about.
    pub(crate) fn begin(&self) -> UnderWay {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        UnderWay(self.clone())
    }

    /// Completes when nobody can want an answer to what the server asked: the connection ends, or everything
    /// has that was under way when it was asked. A server need not say which request its question is about.
    pub(crate) async fn wait_until_unwanted(&self, asked: Option<IdleEpoch>) {
        let idle = async {
            match asked {
                Some(IdleEpoch(before)) => {
                    let _ = self.0.idles.subscribe().wait_for(|idles| *idles != before).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = idle => {}
            _ = self.0.closing.cancelled() => {}
            _ = self.0.over.cancelled() => {}
        }
    }

    /// From now on nobody is asked for anything any more.
    pub(crate) fn close(&self) {
        self.0.closing.cancel(Cause::Shutdown);
    }

    /// Sends nothing more, whatever is half sent: the server may not read at all.
    pub(crate) fn hang_up(&self) {
        if let Some(outbox) = lock(&self.0.outbox).take() {
            outbox.abort();
        }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut ListChanges)) {
        change(&mut lock(&self.0.changes));
        self.0.changed.notify_one();
    }

    /// Completes when something has changed, and says what.
    pub(crate) async fn changes(&self) -> ListChanges {
        loop {
            self.0.changed.notified().await;
            let changes = self.take_changes();
            if changes != ListChanges::default() {
                return changes;
            }
        }
    }

    pub(crate) fn take_changes(&self) -> ListChanges {
        std::mem::take(&mut lock(&self.0.changes))
    }
}

/// The error that we answer with in the place of a server whose answer makes no sense. No code of the
/// protocol.
pub(crate) const UNREADABLE: ErrorCode = ErrorCode(i32::MIN);

/// A connection as the SDK sees it.
pub(crate) struct TransportGuard {
    inner: GuardedTransport,
    watch: ConnectionWatch,
    /// Requests of ours that wait for an answer.
    pending: HashMap<RequestId, AnswerForm>,
    /// The first question, and since when it is waited for an answer. By HTTP that is when the request was
    /// answered: until then it may wait for a token.
    discover: Option<(RequestId, Arc<OnceLock<Instant>>)>,
    /// The same once it was given up.
    given_up: Option<RequestId>,
    /// How long it is waited for.
    discover_wait: Duration,
    /// Requests of the server that wait for ours.
    open: usize,
    waiting: VecDeque<ServerJsonRpcMessage>,
    /// Notifications that may still come now.
    notifications: TokenBucket,
    /// Whether anything came yet.
    heard: bool,
    over: bool,
}

/// In which form an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerForm {
    /// As it came. The SDK guesses types by their fields, and what it doesn't recognise loses some.
    Raw,
    /// As the SDK's own type, for what it handles by itself.
    Typed,
}

enum GuardedTransport {
    Link(MessageLink),
    Http(Box<HttpTransport>),
}

const NOTIFICATIONS: Rate = Rate { per_second: NOTIFICATIONS_PER_SECOND, burst: NOTIFICATIONS_BURST };

impl TransportGuard {
    pub(crate) fn over_link(link: MessageLink, watch: ConnectionWatch) -> TransportGuard {
        *lock(&watch.0.outbox) = Some(link.outbox.abort_handle());
        TransportGuard::new(GuardedTransport::Link(link), watch)
    }

    pub(crate) fn over_http(transport: HttpTransport, watch: ConnectionWatch) -> TransportGuard {
        TransportGuard::new(GuardedTransport::Http(Box::new(transport)), watch)
    }

    /// One that waits for an answer to the first question, as long as anybody does.
    pub(crate) fn patient(mut self) -> TransportGuard {
        self.discover_wait = CONNECT_TIMEOUT;
        self
    }

    fn new(inner: GuardedTransport, watch: ConnectionWatch) -> TransportGuard {
        TransportGuard {
            inner,
            watch,
            pending: HashMap::new(),
            discover: None,
            given_up: None,
            discover_wait: DISCOVER_WAIT,
            open: 0,
            waiting: VecDeque::new(),
            notifications: TokenBucket::full(NOTIFICATIONS, Instant::now()),
            heard: false,
            over: false,
        }
    }

    /// The next message that makes sense; nothing at the end.
    async fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            while let Some(message) = self.waiting.pop_front() {
                if let Some(message) = self.admit(message) {
                    return Some(message);
                }
            }
            if self.over {
                return None;
            }
            let sent = self.discover.as_ref().and_then(|(_, sent)| sent.get());
            let late = sent.map(|sent| *sent + self.discover_wait);
            tokio::select! {
                // An answer that is there is not late.
                biased;
                read = self.inner.read() => match read {
                    Ok(Some(ReceivedMessage::Message(message))) => self.waiting.push_back(*message),
                    Ok(Some(ReceivedMessage::Text(text))) => {
                        self.heard = true;
                        self.understand(&text);
                    }
                    Ok(None) => {
                        let words = self.inner.last_words().await;
                        self.finish(words.unwrap_or_else(|| "it ended the connection".to_owned()));
                    }
                    Err(words) => self.finish(words),
                },
                () = sleep_until(late) => self.give_up_discovering(),
            }
        }
    }

    fn finish(&mut self, words: String) {
        self.watch.end(Some(words));
        self.over = true;
    }

    /// Answers the first question in the server's place: it is of an older revision and doesn't even refuse
    /// it.
    fn give_up_discovering(&mut self) {
        if let Some((id, _)) = self.discover.take() {
            let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer", None);
            self.given_up = Some(id.clone());
            self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
        }
    }

    /// Reads a text: one message, or a batch of them.
    fn understand(&mut self, text: &[u8]) {
        if text.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        // Some write a mark of the byte order before everything.
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let read = serde_json::from_slice::<Value>(text).map(|mut value| {
            field_order::note_field_order(&mut value, text);
            value
        });
        match read {
            Ok(Value::Array(batch)) if !batch.is_empty() => {
                for (number, value) in batch.into_iter().enumerate() {
                    // What is left out of a long one is no answer that somebody waits for.
                    if self.over || (number >= BATCH_MAX && value.get("method").is_some()) {
                        continue;
                    }
                    self.understand_one(value);
                }
            }
            Ok(value) => self.understand_one(value),
            Err(error) => {
                if let Some(list) = deep_json::parse_deep_list(text) {
                    return self.understand_one(list);
                }
                self.invalid();
                // Its number may be readable where the rest isn't: then somebody waits for it.
                if let Some(id) = self.only_call_named_in(text) {
                    let error =
                        ErrorData::new(UNREADABLE, format!("its answer can't be read: {error}"), None);
                    self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
                }
            }
        }
    }

    /// The request that is meant by text that is no JSON: the only one under way whose number stands behind
    /// an `"id":`.
    fn only_call_named_in(&self, text: &[u8]) -> Option<RequestId> {
        let text = String::from_utf8_lossy(text);
        let mut named = text.split("\"id\"").skip(1).filter_map(|rest| {
            let rest = rest.trim_start().strip_prefix(':')?.trim_start();
            let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            let id = NumberOrString::Number(number.parse().ok()?);
            self.pending.contains_key(&id).then_some(id)
        });
        let first = named.next()?;
        named.all(|other| other == first).then_some(first)
    }

    fn understand_one(&mut self, mut value: Value) {
        let named = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
        let id = named.as_ref().map(|named| self.watch.request_id(named));
        let has_method = value.get("method").is_some();
        let wanted = id.as_ref().filter(|_| !has_method).and_then(|id| self.pending.get(id));
        if wanted == Some(&AnswerForm::Raw)
            && value["jsonrpc"] == "2.0"
            && value.get("error").is_none()
            && let (Some(id), Some(named), Some(result)) = (&id, &named, value.get_mut("result"))
        {
            self.watch.learn_id_form(named);
            let result = ServerResult::CustomResult(CustomResult(result.take()));
            self.waiting.push_back(ServerJsonRpcMessage::response(result, id.clone()));
            return;
        }
        match serde_json::from_value::<ServerJsonRpcMessage>(value) {
            Ok(message) => self.waiting.push_back(message),
            // An answer that can't be read is still the answer to something.
            Err(_) if !has_method => {
                self.invalid();
                if let Some(id) = id.filter(|id| self.pending.contains_key(id)) {
                    let words = "its answer is neither a result nor an error";
                    let error = ErrorData::new(UNREADABLE, words, None);
                    self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
                }
            }
            Err(_) => self.invalid(),
        }
    }

    fn invalid(&mut self) {
        if self.watch.count(DropCause::Invalid) > INVALID_MAX {
            self.finish(format!("it sent more than {INVALID_MAX} messages that make no sense"));
        }
    }

    /// The message, if it may go on.
    fn admit(&mut self, mut message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        match &mut message {
            ServerJsonRpcMessage::Response(response) => {
                let is_discover = self.discover.as_ref().is_some_and(|(id, _)| *id == response.id);
                if is_discover && !matches!(response.result, ServerResult::DiscoverResult(_)) {
                    // It answers whatever it is asked, and doesn't know this question.
                    self.pending.insert(response.id.clone(), AnswerForm::Typed);
                    self.give_up_discovering();
                    return None;
                }
                if self.given_up.as_ref() == Some(&response.id) {
                    self.watch.0.late.store(true, Ordering::Relaxed);
                }
                let named = response.id.clone();
                let is_known = self.answered(&mut response.id);
                if is_known {
                    self.watch.learn_id_form(&named);
                }
                is_known.then_some(message)
            }
            ServerJsonRpcMessage::Error(error) => match &mut error.id {
                Some(id) => self.answered(id).then_some(message),
                // Before anything else was asked it can only mean the first question.
                None if self.discover.is_some() => Some(message),
                None => {
                    self.invalid();
                    None
                }
            },
            ServerJsonRpcMessage::Request(request) => {
                if self.open < REQUESTS_OPEN_MAX {
                    self.open += 1;
                    let asked = IdleEpoch(*self.watch.0.idles.borrow());
                    request.request.extensions_mut().insert(asked);
                    return Some(message);
                }
                self.watch.count(DropCause::Refused);
                let error = ErrorData::new(ErrorCode::INTERNAL_ERROR, "too many requests at once", None);
                let refusal = ClientJsonRpcMessage::error(error, Some(request.id.clone()));
                tokio::spawn(self.inner.write(&refusal));
                None
            }
            ServerJsonRpcMessage::Notification(notification) => {
                match &notification.notification {
                    ServerNotification::ToolListChangedNotification(_) => {
                        self.watch.note(|changes| changes.tools = true);
                        return None;
                    }
                    ServerNotification::ResourceListChangedNotification(_) => {
                        self.watch.note(|changes| changes.resources = true);
                        return None;
                    }
                    ServerNotification::PromptListChangedNotification(_) => {
                        self.watch.note(|changes| changes.prompts = true);
                        return None;
                    }
                    _ => {}
                }
                if self.notifications.take(NOTIFICATIONS, 1.0, Instant::now()) {
                    return Some(message);
                }
                self.watch.count(DropCause::Floods);
                None
            }
        }
    }

    /// Whether somebody waits for this answer.
    fn answered(&mut self, id: &mut RequestId) -> bool {
        *id = self.watch.request_id(id);
        if self.discover.as_ref().is_some_and(|(discover, _)| discover == id) {
            self.discover = None;
        }
        let known = self.pending.remove(id).is_some();
        if !known {
            self.watch.count(DropCause::Unknown);
        }
        known
    }

    /// Notes what goes out.
    fn note(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let wanted = match request.request {
                    ClientRequest::DiscoverRequest(_)
                    | ClientRequest::InitializeRequest(_)
                    | ClientRequest::SubscriptionsListenRequest(_) => AnswerForm::Typed,
                    _ => AnswerForm::Raw,
                };
                self.pending.insert(request.id.clone(), wanted);
                if matches!(request.request, ClientRequest::DiscoverRequest(_)) {
                    let sent = Arc::new(OnceLock::new());
                    if let GuardedTransport::Link(_) = self.inner {
                        let _ = sent.set(Instant::now());
                    }
                    self.discover = Some((request.id.clone(), sent));
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                // Nobody waits for the answer to what was cancelled.
                if let rmcp::model::ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {
                self.open = self.open.saturating_sub(1);
            }
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What came: a text, or a message that the SDK has read from an answer.
enum ReceivedMessage {
    Text(Vec<u8>),
    Message(Box<ServerJsonRpcMessage>),
}

impl GuardedTransport {
    async fn read(&mut self) -> Result<Option<ReceivedMessage>, String> {
        match self {
            GuardedTransport::Link(link) => Ok(link.source.next().await?.map(ReceivedMessage::Text)),
            GuardedTransport::Http(transport) => {
                Ok(transport.receive().await.map(|message| ReceivedMessage::Message(Box::new(message))))
            }
        }
    }

    fn write(&mut self, message: &ClientJsonRpcMessage) -> BoxFuture<'static, Result<(), NotSent>> {
        match self {
            GuardedTransport::Link(link) => match serde_json::to_string(message) {
                Ok(text) => Box::pin(link.outbox.post(text)),
                Err(error) => {
                    let unsent = NotSent::new(error.to_string(), true);
                    Box::pin(std::future::ready(Err(unsent)))
                }
            },
            GuardedTransport::Http(transport) => {
                let sent = transport.send(message.clone());
                let unsent = |error: HttpError| NotSent {
                    certain: http::is_unheard(&error),
                    wants_sign_in: http::wants_sign_in(&error),
                    words: http::describe_error(&error),
                };
                Box::pin(async move { sent.await.map_err(unsent) })
            }
        }
    }

    async fn last_words(&mut self) -> Option<String> {
        match self {
            GuardedTransport::Link(link) => link.end.last_words().await,
            GuardedTransport::Http(_) => None,
        }
    }
}

impl Drop for TransportGuard {
    fn drop(&mut self) {
        self.watch.end(None);
    }
}

impl Transport<RoleClient> for TransportGuard {
    type Error = NotSent;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), NotSent>> + Send + 'static {
        self.note(&message);
        let is_discover = matches!(&message, ClientJsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::DiscoverRequest(_)));
        let asked = self.discover.as_ref().filter(|_| is_discover).map(|(_, sent)| sent.clone());
        let (written, heard) = (self.inner.write(&message), self.heard);
        let is_link = matches!(self.inner, GuardedTransport::Link(_));
        async move {
            let written = written.await;
            if let Some(sent) = asked {
                sent.get_or_init(Instant::now);
            }
            match written {
                // Who went away before the first word says why at the other end, which is better than that it
                // can't be told.
                Err(_) if is_link && !heard => Ok(()),
                written => written,
            }
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<ServerJsonRpcMessage>> + Send {
        self.next()
    }

    async fn close(&mut self) -> Result<(), NotSent> {
        match &mut self.inner {
            GuardedTransport::Link(link) => {
                link.outbox.finish();
                link.end.close().await;
            }
            GuardedTransport::Http(transport) => {
                let _ = transport.close().await;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
