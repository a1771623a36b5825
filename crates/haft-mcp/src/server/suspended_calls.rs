//! Calls of the stateless revision that wait for input: the result asks, and the client sends the call again
//! with the answers.
//!
//! A call that asks is not started again, since it may have done something already. Its future waits where it
//! is, and the state that the client returns only identifies it. The state is signed with a key of this
//! process and bound to principal, method, name and arguments: no other client can continue the call, and its
//! arguments can't change.
//!
//! Suspended calls are limited in number and time, and end with the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::future::BoxFuture;
use haft::sync::lock;
use haft::{Cancel, Cause};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::json_rpc::RequestResult;
use super::peer::{InputError, InputRequest, RequestLink, ResponseRoute};
use super::request::McpRequest;
use super::results::invalid_params;
use super::session::{RequestOutcome, shut_down};
use super::tasks::CallTasks;
use super::tokens::random_secret;
use crate::limits;

/// All calls that wait for input.
pub(crate) struct SuspendedCalls {
    key: Option<hmac::Key>,
    random: SystemRandom,
    waiting: Arc<Mutex<HashMap<StateId, SuspendedCall>>>,
    pub(crate) tasks: CallTasks,
}

type StateId = [u8; 16];

/// The client and the request that a state is bound to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CallIdentity {
    pub(super) principal: Option<Arc<str>>,
    method: &'static str,
    target: String,
    arguments: [u8; 32],
}

impl CallIdentity {
    pub(crate) fn new(principal: Option<Arc<str>>, request: &McpRequest) -> CallIdentity {
        let (method, arguments) = match request {
            McpRequest::CallTool { arguments, .. } => ("tools/call", arguments.get().to_owned()),
            McpRequest::GetPrompt { arguments, .. } => {
                ("prompts/get", serde_json::to_string(arguments).unwrap_or_default())
            }
            _ => ("resources/read", String::new()),
        };
        let target = request.target().unwrap_or_default().to_owned();
        CallIdentity { principal, method, target, arguments: Sha256::digest(arguments).into() }
    }
}

/// A call that waits for input.
struct SuspendedCall {
    call: ResumableCall,
    /// Ends it when it has waited for too long.
    expiry: AbortHandle,
}

/// A call that may ask.
pub(crate) struct ResumableCall {
    pub(super) identity: CallIdentity,
    round: u32,
    link: Arc<RequestLink>,
    pub(super) signals: mpsc::Receiver<CallSignal>,
    /// Asked and not answered.
    pub(super) open: Vec<QuestionSet>,
    pub(super) work: CallWork,
    pub(super) cancel: Cancel,
}

/// What a call wants of its client.
pub(super) enum CallSignal {
    /// Answers.
    Questions(QuestionSet),
    /// To be a task.
    Task,
}

pub(super) enum CallWork {
    /// Polled by the request that drives the call.
    Driven(BoxFuture<'static, RequestOutcome>),
    /// A task of its own since the first question.
    Spawned(oneshot::Receiver<RequestOutcome>),
}

impl CallWork {
    pub(super) async fn outcome(&mut self) -> RequestOutcome {
        match self {
            CallWork::Driven(work) => work.await,
            CallWork::Spawned(outcome) => outcome.await.unwrap_or(None),
        }
    }
}

/// Questions that were asked together.
pub(super) struct QuestionSet {
    questions: Vec<(String, InputRequest)>,
    answers: HashMap<String, Value>,
    reply: oneshot::Sender<Result<Vec<Value>, InputError>>,
}

impl ResumableCall {
    /// The work has to end by itself when `cancel` is raised.
    pub(crate) fn new(
        identity: CallIdentity,
        link: Arc<RequestLink>,
        SignalReceiver(signals): SignalReceiver,
        cancel: Cancel,
        work: BoxFuture<'static, RequestOutcome>,
    ) -> ResumableCall {
        let work = CallWork::Driven(work);
        ResumableCall { identity, round: 0, link, signals, open: Vec::new(), work, cancel }
    }
}

impl SuspendedCalls {
    pub(crate) fn new() -> SuspendedCalls {
        let random = SystemRandom::new();
        // Without random numbers there is no key, and no question can be asked.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).ok();
        SuspendedCalls { key, random, waiting: Arc::default(), tasks: CallTasks::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<StateId, SuspendedCall>> {
        lock(&self.waiting)
    }

    /// Runs a call until it is done, asks, becomes a task, or its request is cancelled.
    pub(crate) async fn drive(&self, mut call: ResumableCall, request: &Cancel) -> RequestOutcome {
        loop {
            let first = tokio::select! {
                biased;
                outcome = call.work.outcome() => return outcome,
                Some(signal) = call.signals.recv() => signal,
                cause = request.cancelled() => {
                    call.cancel.cancel(cause);
                    // The work limits its own cleanup.
                    let outcome = match call.work {
                        CallWork::Driven(work) => work.await,
                        CallWork::Spawned(_) => None,
                    };
                    let is_shutdown = cause == Cause::Shutdown;
                    return outcome.or_else(|| is_shutdown.then(|| Err(shut_down())));
                }
            };
            let mut next = Some(first);
            let mut becomes_task = false;
            while let Some(signal) = next {
                match signal {
                    CallSignal::Questions(questions) => call.open.push(questions),
                    CallSignal::Task => becomes_task = true,
                }
                next = call.signals.try_recv().ok();
            }
            if becomes_task {
                match self.tasks.start(call) {
                    Ok(outcome) => return Some(Ok(outcome)),
                    Err(continued) => call = *continued,
                }
            }
            match self.suspend(call) {
                Ok(outcome) => return Some(Ok(outcome)),
                Err(continued) => call = *continued,
            }
        }
    }

    /// Suspends a call until its questions are answered. Returns it if they are withdrawn or there are too
    /// many.
    fn suspend(&self, mut call: ResumableCall) -> Result<RequestResult, Box<ResumableCall>> {
        call.open.retain(|questions| !questions.is_withdrawn());
        if call.open.is_empty() {
            return Err(Box::new(call));
        }
        let mut id: StateId = [0; 16];
        let mut waiting = self.waiting();
        let is_own = |other: &&SuspendedCall| other.call.identity.principal == call.identity.principal;
        let is_full = waiting.len() >= limits::SUSPENDED_MAX
            || waiting.values().filter(is_own).count() >= limits::SUSPENDED_EACH_MAX
            || call.round as usize >= limits::ROUNDS_MAX;
        let state = match &self.key {
            Some(key) if !is_full && self.random.fill(&mut id).is_ok() => {
                call.round += 1;
                sign_state(key, &id, call.round, &call.identity)
            }
            _ => {
                for questions in call.open.drain(..) {
                    let _ = questions.reply.send(Err(InputError::TooMany));
                }
                return Err(Box::new(call));
            }
        };
        let requests = call.open.iter().flat_map(QuestionSet::unanswered).cloned().collect();
        call.work = match call.work {
            CallWork::Driven(work) => {
                let (send, receive) = oneshot::channel();
                tokio::spawn(async move {
                    let _ = send.send(work.await);
                });
                CallWork::Spawned(receive)
            }
            spawned => spawned,
        };
        let table = self.waiting.clone();
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(limits::SUSPENDED_FOR).await;
            let expired = lock(&table).remove(&id);
            if let Some(SuspendedCall { call, .. }) = expired {
                call.cancel.cancel(Cause::Timeout);
            }
        });
        waiting.insert(id, SuspendedCall { call, expiry: expiry.abort_handle() });
        Ok(RequestResult::InputRequired { requests, state })
    }

    /// Continues the call of this state.
    pub(crate) async fn resume(
        &self,
        state: &str,
        identity: &CallIdentity,
        mut responses: Map<String, Value>,
        route: ResponseRoute,
        request: &Cancel,
    ) -> RequestOutcome {
        let Some(mut call) = self.take(state, identity) else {
            return Some(Err(invalid_params(
                "`requestState` is not one of this server for this request, or it waited for too long; make the request \
                 again without it",
            )));
        };
        call.link.set_route(route);
        call.open.retain(|questions| !questions.is_withdrawn());
        let open = std::mem::take(&mut call.open);
        call.open = open.into_iter().filter_map(|questions| questions.answer(&mut responses)).collect();
        if !call.open.is_empty() {
            match self.suspend(call) {
                Ok(outcome) => return Some(Ok(outcome)),
                Err(continued) => call = *continued,
            }
        }
        self.drive(call, request).await
    }

    fn take(&self, state: &str, identity: &CallIdentity) -> Option<ResumableCall> {
        let (id, round) = verify_state(self.key.as_ref()?, state, identity)?;
        let mut waiting = self.waiting();
        if waiting.get(&id)?.call.round != round {
            return None;
        }
        let SuspendedCall { call, expiry } = waiting.remove(&id)?;
        expiry.abort();
        Some(call)
    }

    /// Cancels all suspended calls.
    pub(crate) fn cancel_all(&self, cause: Cause) {
        let waiting = std::mem::take(&mut *self.waiting());
        for SuspendedCall { call, expiry } in waiting.into_values() {
            expiry.abort();
            call.cancel.cancel(cause);
        }
        self.tasks.cancel_all(cause);
    }
}

impl Drop for SuspendedCalls {
    fn drop(&mut self) {
        self.cancel_all(Cause::Shutdown);
    }
}

fn signed_bytes(id: &StateId, round: u32, identity: &CallIdentity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    bytes.extend_from_slice(id);
    bytes.extend_from_slice(&round.to_le_bytes());
    let principal = identity.principal.as_deref();
    bytes.push(u8::from(principal.is_some()));
    for part in [principal.unwrap_or_default(), identity.method, &identity.target] {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes.extend_from_slice(&identity.arguments);
    bytes
}

fn sign_state(key: &hmac::Key, id: &StateId, round: u32, identity: &CallIdentity) -> String {
    let tag = hmac::sign(key, &signed_bytes(id, round, identity));
    BASE64_URL_SAFE_NO_PAD.encode([id.as_slice(), &round.to_le_bytes(), tag.as_ref()].concat())
}

/// The call of a state that was signed here for the same request of the same client.
fn verify_state(key: &hmac::Key, state: &str, identity: &CallIdentity) -> Option<(StateId, u32)> {
    if state.len() > 128 {
        return None;
    }
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(state).ok()?;
    let (id, rest) = bytes.split_first_chunk::<16>()?;
    let (round, tag) = rest.split_first_chunk::<4>()?;
    let round = u32::from_le_bytes(*round);
    hmac::verify(key, &signed_bytes(id, round, identity), tag).ok()?;
    Some((*id, round))
}

impl QuestionSet {
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &(String, InputRequest)> {
        self.questions.iter().filter(|(key, _)| !self.answers.contains_key(key))
    }

    /// Whether nothing waits for the answers any more.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    /// Takes its answers. Returns itself unless all questions are answered.
    pub(super) fn answer(mut self, responses: &mut Map<String, Value>) -> Option<QuestionSet> {
        for (key, request) in &self.questions {
            if !self.answers.contains_key(key)
                && responses.get(key).is_some_and(|answer| is_answer(request, answer))
                && let Some(answer) = responses.remove(key)
            {
                self.answers.insert(key.clone(), answer);
            }
        }
        if self.unanswered().next().is_some() {
            return Some(self);
        }
        let answers = self.questions.iter().filter_map(|(key, _)| self.answers.remove(key)).collect();
        let _ = self.reply.send(Ok(answers));
        None
    }
}

/// Whether a value is an answer to this kind of question.
fn is_answer(request: &InputRequest, answer: &Value) -> bool {
    match request.method {
        "elicitation/create" => matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel")),
        "roots/list" => answer["roots"].is_array(),
        _ => answer["content"].is_object() || answer["content"].is_array(),
    }
}

/// Takes what a call wants.
pub(crate) struct SignalSender {
    signals: mpsc::Sender<CallSignal>,
    /// Answers that came with the request.
    early_answers: Mutex<Map<String, Value>>,
}

/// Receives what a call wants.
pub(crate) struct SignalReceiver(mpsc::Receiver<CallSignal>);

impl SignalSender {
    pub(crate) fn new(early_answers: Map<String, Value>) -> (SignalSender, SignalReceiver) {
        let (signals, receiver) = mpsc::channel(limits::ASKS_OPEN_MAX);
        (SignalSender { signals, early_answers: Mutex::new(early_answers) }, SignalReceiver(receiver))
    }

    pub(crate) fn start_task(&self) -> Result<(), InputError> {
        self.signals.try_send(CallSignal::Task).map_err(|_| InputError::TooMany)
    }

    /// Waits for the answers, in order.
    pub(crate) async fn ask(&self, requests: Vec<InputRequest>) -> Result<Vec<Value>, InputError> {
        let (reply, answers) = oneshot::channel();
        if let Some(questions) = self.open_questions(requests, reply).ok_or(InputError::Disconnected)? {
            let signal = CallSignal::Questions(questions);
            self.signals.try_send(signal).map_err(|_| InputError::TooMany)?;
        }
        answers.await.unwrap_or(Err(InputError::Disconnected))
    }

    /// The questions without an early answer. An early answer counts for a question with a stable name alone:
    /// the others get a random one.
    fn open_questions(
        &self,
        requests: Vec<InputRequest>,
        reply: oneshot::Sender<Result<Vec<Value>, InputError>>,
    ) -> Option<Option<QuestionSet>> {
        let mut early_answers = lock(&self.early_answers);
        let (mut questions, mut answers) = (Vec::with_capacity(requests.len()), Map::new());
        for request in requests {
            let key = match &request.key {
                Some(key) => {
                    answers.extend(early_answers.remove_entry(key));
                    key.clone()
                }
                None => format!("ask-{}", random_secret(12)?),
            };
            questions.push((key, request));
        }
        Some(QuestionSet { questions, answers: HashMap::new(), reply }.answer(&mut answers))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU8;

    use rmcp::model::{ErrorData, TaskStatus};
    use serde_json::json;
    use serde_json::value::RawValue;

    use super::*;
    use crate::server::client_info::{ClientInfo, ProtocolRevision, TransportKind};
    use crate::server::peer::{AskMethod, ClientPeer};
    use crate::server::session::MessageSink;
    use crate::server::tasks::TaskPayload;

    struct NoSink;

    impl MessageSink for NoSink {
        fn notify(&self, _: Vec<u8>) {}

        fn send(&self, _: Vec<u8>) -> bool {
            false
        }
    }

    fn route() -> ResponseRoute {
        ResponseRoute { sink: Arc::new(NoSink), progress_token: None, log_level: Arc::new(AtomicU8::new(0)) }
    }

    fn identity(principal: Option<&str>, tool: &str) -> CallIdentity {
        let arguments = RawValue::NULL.to_owned();
        let request = McpRequest::CallTool { name: tool.to_owned(), arguments };
        CallIdentity::new(principal.map(Into::into), &request)
    }

    /// A call that asks for roots until it gets an empty list.
    fn start(suspended: &SuspendedCalls, principal: &str) -> (Cancel, impl Future<Output = RequestOutcome>) {
        start_as(suspended, principal, false)
    }

    /// The same, as a task if that is possible.
    fn start_as(
        suspended: &SuspendedCalls,
        principal: &str,
        is_task: bool,
    ) -> (Cancel, impl Future<Output = RequestOutcome>) {
        let (sender, questions) = SignalSender::new(Map::new());
        let link = RequestLink::new(route(), AskMethod::Results(sender));
        let mut client = ClientInfo::new(TransportKind::Http, ProtocolRevision::V2026_07_28);
        (client.capabilities.roots, client.capabilities.tasks) = (true, true);
        let peer = ClientPeer::new(Arc::new(client), link.clone());
        let work = async move {
            if is_task {
                peer.start_task().unwrap();
            }
            loop {
                match peer.ask(InputRequest::roots()).await {
                    Ok(answer) if answer["roots"] == json!([]) => return Some(Ok(RequestResult::Empty)),
                    Ok(_) => {}
                    Err(error) => return Some(Err(ErrorData::from(error))),
                }
            }
        };
        let cancel = Cancel::new();
        let identity = identity(Some(principal), "t");
        let call = ResumableCall::new(identity, link, questions, cancel.clone(), Box::pin(work));
        (cancel, async move { suspended.drive(call, &Cancel::new()).await })
    }

    fn asked(outcome: RequestOutcome) -> (String, String) {
        match outcome {
            Some(Ok(RequestResult::InputRequired { requests, state })) => {
                (requests.keys().next().unwrap().clone(), state)
            }
            other => panic!("{other:?}"),
        }
    }

    fn refused(outcome: RequestOutcome) -> String {
        match outcome {
            Some(Err(error)) => error.message.into_owned(),
            other => panic!("{other:?}"),
        }
    }

    async fn resume(
        suspended: &SuspendedCalls,
        identity: &CallIdentity,
        (key, state): (String, String),
        roots: Value,
    ) -> RequestOutcome {
        let responses = Map::from_iter([(key, json!({"roots": roots}))]);
        suspended.resume(&state, identity, responses, route(), &Cancel::new()).await
    }

    #[tokio::test(start_paused = true)]
    async fn suspended_calls_expire() {
        let suspended = SuspendedCalls::new();
        let (cancel, call) = start(&suspended, "a");
        let question = asked(call.await);
        tokio::time::sleep(limits::SUSPENDED_FOR * 2).await;
        assert_eq!((suspended.waiting().len(), cancel.cause()), (0, Some(Cause::Timeout)));
        let late = resume(&suspended, &identity(Some("a"), "t"), question, json!([])).await;
        assert!(refused(late).contains("too long"));
    }

    #[tokio::test]
    async fn a_state_is_bound_to_its_request_and_valid_once() {
        let (suspended, other_server) = (SuspendedCalls::new(), SuspendedCalls::new());
        let question = asked(start(&suspended, "a").1.await);
        for other in [identity(Some("b"), "t"), identity(Some("a"), "u"), identity(None, "t")] {
            refused(resume(&suspended, &other, question.clone(), json!([])).await);
        }
        let own = identity(Some("a"), "t");
        refused(resume(&other_server, &own, question.clone(), json!([])).await);
        let resumed = resume(&suspended, &own, question.clone(), json!([])).await;
        assert!(matches!(resumed, Some(Ok(RequestResult::Empty))));
        refused(resume(&suspended, &own, question, json!([])).await);
        assert_eq!(suspended.waiting().len(), 0);
    }

    #[tokio::test]
    async fn rounds_are_limited() {
        let suspended = SuspendedCalls::new();
        let own = identity(Some("a"), "t");
        let mut question = asked(start(&suspended, "a").1.await);
        for _ in 1..limits::ROUNDS_MAX {
            question = asked(resume(&suspended, &own, question, json!([1])).await);
        }
        let last = resume(&suspended, &own, question, json!([1])).await;
        assert_eq!(refused(last), InputError::TooMany.to_string());
    }

    #[tokio::test]
    async fn suspended_calls_are_limited_per_principal() {
        let suspended = SuspendedCalls::new();
        let mut cancels = Vec::new();
        for _ in 0..limits::SUSPENDED_EACH_MAX {
            let (cancel, call) = start(&suspended, "a");
            asked(call.await);
            cancels.push(cancel);
        }
        assert_eq!(refused(start(&suspended, "a").1.await), InputError::TooMany.to_string());
        asked(start(&suspended, "b").1.await);
        drop(suspended);
        assert!(cancels.iter().all(Cancel::is_cancelled), "they end with the server");
    }

    async fn started_task(suspended: &SuspendedCalls, principal: &str) -> (Cancel, String) {
        let (cancel, call) = start_as(suspended, principal, true);
        match call.await {
            Some(Ok(RequestResult::TaskCreated(task))) => (cancel, task.task_id),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a task has this state. Returns the key of its question.
    async fn until_task(suspended: &SuspendedCalls, id: &str, status: TaskStatus) -> Option<String> {
        loop {
            let Ok(RequestResult::TaskState(state)) = suspended.tasks.get(id, Some("a")) else { panic!() };
            if state.task.status == status {
                return match state.payload {
                    TaskPayload::Questions(questions) => questions.into_keys().next(),
                    _ => None,
                };
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_belongs_to_its_principal_and_is_kept_for_a_while() {
        let suspended = SuspendedCalls::new();
        let (_cancel, id) = started_task(&suspended, "a").await;
        let tasks = &suspended.tasks;
        for other in [None, Some("b")] {
            assert!(tasks.get(&id, other).is_err() && tasks.cancel(&id, other).is_err());
            assert!(tasks.update(&id, other, Map::new()).is_err());
        }
        let first = until_task(&suspended, &id, TaskStatus::InputRequired).await.unwrap();
        let answer = |key: &str, roots: Value| Map::from_iter([(key.to_owned(), json!({"roots": roots}))]);
        tasks.update(&id, Some("a"), answer("other", json!([]))).unwrap();
        assert_eq!(until_task(&suspended, &id, TaskStatus::InputRequired).await.as_ref(), Some(&first));
        tasks.update(&id, Some("a"), answer(&first, json!([1]))).unwrap();
        let second = until_task(&suspended, &id, TaskStatus::InputRequired).await.unwrap();
        assert_ne!(first, second);
        tasks.update(&id, Some("a"), answer(&second, json!([]))).unwrap();
        until_task(&suspended, &id, TaskStatus::Completed).await;
        tokio::time::sleep(limits::TASK_KEPT * 2).await;
        assert!(tasks.get(&id, Some("a")).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_are_cancelled_by_their_client_by_time_and_with_the_server() {
        let suspended = SuspendedCalls::new();
        let (cancelled, id) = started_task(&suspended, "a").await;
        suspended.tasks.cancel(&id, Some("a")).unwrap();
        assert_eq!(cancelled.cause(), Some(Cause::User));
        let (late, _) = started_task(&suspended, "a").await;
        tokio::time::sleep(limits::TASK_KEPT).await;
        tokio::task::yield_now().await;
        assert_eq!(late.cause(), Some(Cause::Timeout));
        let (last, _) = started_task(&suspended, "a").await;
        drop(suspended);
        assert_eq!(last.cause(), Some(Cause::Shutdown));
    }

    #[tokio::test]
    async fn a_call_is_no_task_where_there_are_too_many() {
        let suspended = SuspendedCalls::new();
        for _ in 0..limits::TASKS_EACH_MAX {
            started_task(&suspended, "a").await;
        }
        asked(start_as(&suspended, "a", true).1.await);
        started_task(&suspended, "b").await;
    }
}
