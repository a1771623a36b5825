//! Requests of a running child for hosts that its call wasn't granted.
//!
//! The implementation of [`Processes`](super::Processes) that confines the child holds the connection back and asks
//! here. The engine decides in the task of the call, by the same rules, hooks and questions as on the call itself.

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
    /// The rule that would open it, with its port, where a rule for the host alone doesn't: other ports than those of
    /// the web, addresses, this machine. An approval is for this call alone then.
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

/// Where requests go. Clones share it.
///
/// ```
/// use haft::ports::{HostAnswer, HostRequests, WantedHost};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (requests, mut queue) = HostRequests::channel();
/// let wanted = WantedHost { host: "example.com".into(), port: 443, port_rule: None, group: None };
/// let answered = async {
///     let request = queue.next().await.unwrap();
///     let host = request.wanted().host.clone();
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
pub struct HostRequests {
    sender: mpsc::Sender<HostRequest>,
    clock: Arc<QuestionClock>,
    has_user: bool,
}

/// The other end: requests in the order in which they came.
#[derive(Debug)]
pub struct HostRequestQueue {
    receiver: mpsc::Receiver<HostRequest>,
    clock: Arc<QuestionClock>,
}

/// A request that waits for its answer. Dropping it refuses it.
#[derive(Debug)]
pub struct HostRequest {
    wanted: WantedHost,
    sender: oneshot::Sender<HostAnswer>,
}

impl HostRequests {
    /// Both ends.
    pub fn channel() -> (HostRequests, HostRequestQueue) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let clock = Arc::<QuestionClock>::default();
        let requests = HostRequests { sender, clock: clock.clone(), has_user: false };
        (requests, HostRequestQueue { receiver, clock })
    }

    /// Sets whether a user can be asked, so that an answer may take as long as a person takes.
    #[must_use]
    pub fn with_user(mut self, has_user: bool) -> HostRequests {
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
        let (sender, answer) = oneshot::channel();
        let refused = || {
            HostAnswer::Refused(format!(
                "no rule allows `{}`, and a command in the background can't ask; run it in the foreground, or allow the \
                 host before",
                wanted.host
            ))
        };
        if self.sender.send(HostRequest { wanted: wanted.clone(), sender }).await.is_err() {
            return refused();
        }
        answer.await.unwrap_or_else(|_| refused())
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

impl HostRequestQueue {
    /// The next request; `None` once all senders are gone.
    pub async fn next(&mut self) -> Option<HostRequest> {
        self.receiver.recv().await
    }

    /// A question to the user is open until the returned value is dropped.
    pub fn begin_question(&self) -> OpenQuestion {
        lock(&self.clock.0).since = Some(Instant::now());
        OpenQuestion(self.clock.clone())
    }
}

impl HostRequest {
    /// The host.
    pub fn wanted(&self) -> &WantedHost {
        &self.wanted
    }

    /// Answers it. Does nothing where it was withdrawn.
    pub fn answer(self, answer: HostAnswer) {
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
