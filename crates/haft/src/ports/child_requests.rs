//! Requests that come up while a child runs: hosts that its call wasn't granted, and changes of protected
//! files that were undone.
//!
//! The implementation of [`Processes`](super::Processes) that confines the child holds the connection back,
//! or pauses the child, and asks here. The engine answers: about hosts by the same rules, hooks and questions
//! as on the call itself, about files by a question to the user.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use haft_scheduler::sync::lock;
use tokio::sync::{mpsc, oneshot};

/// How many requests wait for an answer before the next one has to wait for its turn.
const WAITING_MAX: usize = 16;

/// Hosts that one question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGroup {
    /// What they are, in the plural: "package registries".
    pub name: String,
    /// What the user should know before allowing them.
    pub note: String,
    /// The hosts.
    pub hosts: Vec<String>,
}

/// A host that a running child wants to reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedHost {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The rule that would open it, with its port, where a rule for the host alone doesn't: other ports than
    /// those of the web, addresses, this machine. An approval is for this call alone then.
    pub port_rule: Option<String>,
    /// The hosts that are asked about with it.
    pub group: Option<HostGroup>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAnswer {
    /// The child may reach these hosts, at the port that it asked for.
    Granted(Vec<String>),
    /// It may not: why, and what would allow it, in words for the model.
    Refused(String),
}

/// A change of a protected file that was undone because a child may have made it. It may be the user's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneChange {
    /// The file.
    pub path: PathBuf,
    /// Which program executes what it holds, and when.
    pub executed: String,
    /// What was done about it, as a message for the user.
    pub done: String,
}

/// Changes that one question is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoneChanges {
    /// The changes.
    pub changes: Vec<UndoneChange>,
    /// Whether the child still runs, so that it can be stopped.
    pub is_running: bool,
    /// Whether it is paused until there is an answer.
    pub is_paused: bool,
}

/// The answer to a question about undone changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoneAnswer {
    /// They stay undone, and the child continues.
    StayUndone,
    /// They are the user's: they are made again, and the child continues.
    Redo,
    /// They stay undone, and the child is stopped.
    StopChild,
}

/// Where requests go. Clones share it.
///
/// ```
/// use haft::ports::{ChildRequest, ChildRequests, HostAnswer, WantedHost};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (requests, mut queue) = ChildRequests::channel();
/// let wanted = WantedHost { host: "example.com".into(), port: 443, port_rule: None, group: None };
/// let answered = async {
///     let Some(ChildRequest::Host(request)) = queue.next().await else { panic!() };
///     let host = request.content().host.clone();
///     request.answer(HostAnswer::Granted(vec![host]));
/// };
/// let (answer, ()) = tokio::join!(requests.ask(wanted.clone()), answered);
/// assert_eq!(answer, HostAnswer::Granted(vec!["example.com".into()]));
///
/// drop(queue);
/// assert!(matches!(requests.ask(wanted).await, HostAnswer::Refused(_)));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ChildRequests {
    sender: mpsc::Sender<ChildRequest>,
    clock: Arc<QuestionClock>,
    has_user: bool,
}

/// The other end: requests in the order in which they came.
#[derive(Debug)]
pub struct ChildRequestQueue {
    receiver: mpsc::Receiver<ChildRequest>,
    clock: Arc<QuestionClock>,
}

/// What a running child gives reason to ask.
#[derive(Debug)]
#[non_exhaustive]
pub enum ChildRequest {
    /// Whether it may reach a host.
    Host(PendingRequest<WantedHost, HostAnswer>),
    /// What becomes of changes that were undone.
    Undone(PendingRequest<UndoneChanges, UndoneAnswer>),
}

/// A request that waits for its answer. Dropping it answers that there is none.
#[derive(Debug)]
pub struct PendingRequest<Q, A> {
    content: Q,
    sender: oneshot::Sender<A>,
}

impl ChildRequests {
    /// Both ends.
    pub fn channel() -> (ChildRequests, ChildRequestQueue) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let clock = Arc::<QuestionClock>::default();
        let requests = ChildRequests { sender, clock: clock.clone(), has_user: false };
        (requests, ChildRequestQueue { receiver, clock })
    }

    /// Sets whether a user can be asked, so that an answer may take as long as a person takes.
    #[must_use]
    pub fn with_user(mut self, has_user: bool) -> ChildRequests {
        self.has_user = has_user;
        self
    }

    /// Whether a user can be asked.
    pub fn has_user(&self) -> bool {
        self.has_user
    }

    /// Asks for a host.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, and the question to the user with it.
    pub async fn ask(&self, wanted: WantedHost) -> HostAnswer {
        let refused = || {
            HostAnswer::Refused(format!(
                "no rule allows `{}`, and nobody can be asked any more; allow the host before, or run the command in the \
                 foreground",
                wanted.host
            ))
        };
        self.send(wanted.clone(), ChildRequest::Host).await.unwrap_or_else(refused)
    }

    /// Asks what becomes of changes that were undone. `None` where no user can be asked.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request, and the question to the user with it.
    pub async fn ask_about_undone(&self, undone: UndoneChanges) -> Option<UndoneAnswer> {
        self.send(undone, ChildRequest::Undone).await
    }

    async fn send<Q, A>(
        &self,
        content: Q,
        into_request: impl FnOnce(PendingRequest<Q, A>) -> ChildRequest,
    ) -> Option<A> {
        let (sender, answer) = oneshot::channel();
        self.sender.send(into_request(PendingRequest { content, sender })).await.ok()?;
        answer.await.ok()
    }

    /// For how long questions to the user have been open. Time limits of the child don't count it.
    pub fn time_asking(&self) -> Duration {
        let clock = lock(&self.clock.0);
        clock.closed + clock.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether a question to the user is open.
    pub fn is_asking(&self) -> bool {
        lock(&self.clock.0).since.is_some()
    }
}

impl ChildRequestQueue {
    /// The next request; `None` once all senders are gone.
    pub async fn next(&mut self) -> Option<ChildRequest> {
        self.receiver.recv().await
    }

    /// A question to the user is open until the returned value is dropped.
    pub fn begin_question(&self) -> OpenQuestion {
        lock(&self.clock.0).since = Some(Instant::now());
        OpenQuestion(self.clock.clone())
    }
}

impl<Q, A> PendingRequest<Q, A> {
    /// What is asked.
    pub fn content(&self) -> &Q {
        &self.content
    }

    /// Answers it. Does nothing where it was withdrawn.
    pub fn answer(self, answer: A) {
        let _ = self.sender.send(answer);
    }

    /// Waits until it is withdrawn.
    pub async fn withdrawn(&mut self) {
        self.sender.closed().await;
    }
}

/// Measures for how long questions are open.
#[derive(Debug, Default)]
struct QuestionClock(Mutex<QuestionTime>);

#[derive(Debug, Default)]
struct QuestionTime {
    /// When the open question began.
    since: Option<Instant>,
    /// How long earlier questions took.
    closed: Duration,
}

/// A question that the user has not answered yet.
#[derive(Debug)]
pub struct OpenQuestion(Arc<QuestionClock>);

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut clock = lock(&self.0.0);
        if let Some(since) = clock.since.take() {
            clock.closed += since.elapsed();
        }
    }
}
