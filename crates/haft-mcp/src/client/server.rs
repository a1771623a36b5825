//! One server, as others see it. How it lives is `life.rs`, what it offers `offered.rs`, what is asked of it `calls.rs`.
//!
//! A task of its own connects, listens for changes and connects again; nobody waits for it but who needs it. What it found
//! last stays when it is gone: its tools are still offered, and the next call brings it back. A call that was under way when
//! it went is an error, once, and never made again by itself: nobody knows what it did.

mod calls;
mod life;
mod offered;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft::sync::lock;
use haft::tool::AnyTool;
use haft::{Cancel, Cause};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

pub use self::offered::LeftOut;
pub(crate) use self::offered::Offered;
use super::breaker::Breakers;
use super::session::{ServerFacts, Session};
use super::watched::Watched;
use crate::approval::{Known, Subject, Withheld};
use crate::config::{ServerConfig, Transport, Trust};
use crate::host::Host;
use crate::sign_in::account::{Account, SignedIn};
use crate::transport::Log;
use crate::transport::guard::Count;

/// A server of a session. Clones are the same server.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

/// A server that may be gone.
#[derive(Clone)]
pub(crate) struct WeakServer(Weak<Inner>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<Server> {
        self.0.upgrade().map(Server)
    }
}

struct Inner {
    config: ServerConfig,
    host: Host,
    state: watch::Sender<State>,
    /// Rung by a call that needs it.
    wanted: Notify,
    stop: Cancel,
    log: Log,
    slots: Semaphore,
    breakers: Mutex<Breakers>,
    offered: Mutex<Arc<Offered>>,
    watched: Watched,
    /// What we are to it, where it can be signed in to.
    account: Option<Arc<Account>>,
    /// Counts what changes for the registry, over all servers.
    version: watch::Sender<u64>,
}

#[derive(Clone)]
struct State {
    status: Status,
    session: Option<Arc<Session>>,
    /// How many attempts to connect have ended.
    attempts: u64,
    /// Why the last attempt failed, if it did.
    failure: Option<String>,
}

impl State {
    fn is_settled(&self) -> bool {
        !matches!(self.status, Status::Connecting) || self.attempts > 0
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// It is being connected.
    Connecting,
    /// It can be used.
    Ready {
        /// What it said of itself.
        facts: ServerFacts,
        /// How long it took until its tools were known.
        took: Duration,
    },
    /// It can't be used.
    Failed {
        /// Why, in words.
        reason: String,
        /// Whether it is tried again by itself; else the next call does.
        retries: bool,
    },
    /// It needs an approval before it is started.
    Unapproved(Withheld),
    /// It wants somebody to sign in: [`Server::sign_in`].
    NeedsSignIn {
        /// What it said, and what the user can do, in words.
        reason: String,
    },
    /// The session is over.
    Stopped,
}

/// Messages of the present connection that were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Dropped {
    /// They made no sense.
    pub invalid: u64,
    /// They answered nothing.
    pub unknown: u64,
    /// Notifications over the rate.
    pub floods: u64,
    /// Requests over the number that may be open.
    pub refused: u64,
}

impl Server {
    /// A server that connects from now on. Needs a runtime.
    pub(crate) fn start(
        config: ServerConfig,
        host: Host,
        version: watch::Sender<u64>,
    ) -> (Server, tokio::task::JoinHandle<()>) {
        let first = State { status: Status::Connecting, session: None, attempts: 0, failure: None };
        let log = Log::told_to(&config.name, host.on_log.clone());
        let account = match &config.transport {
            Transport::Http(remote) | Transport::Sse(remote) => {
                Account::new(&config.name, remote, &host, log.clone()).map(Arc::new)
            }
            _ => None,
        };
        let inner = Arc::new(Inner {
            slots: Semaphore::new(config.concurrency.max(1)),
            config,
            host,
            state: watch::Sender::new(first),
            wanted: Notify::new(),
            stop: Cancel::new(),
            log,
            account,
            breakers: Mutex::default(),
            offered: Mutex::default(),
            watched: Watched::default(),
            version,
        });
        let server = Server(inner);
        let task = tokio::spawn(server.clone().live());
        (server, task)
    }

    /// Its configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// How it is.
    pub fn status(&self) -> Status {
        self.0.state.borrow().status.clone()
    }

    /// Why it can't be used, as far as that is known: also while it is tried again.
    pub fn failure(&self) -> Option<String> {
        self.0.state.borrow().failure.clone()
    }

    /// The last of what it complained about, and of what it logged; visible and bounded.
    pub fn log(&self) -> String {
        self.0.log.text()
    }

    /// How many tools it offers.
    pub fn tool_count(&self) -> usize {
        self.offered().tools.len()
    }

    /// Its tools as they are offered, each with the server's own name for it.
    pub fn tools(&self) -> Vec<(String, AnyTool)> {
        let offered = self.offered();
        offered.names.iter().cloned().zip(offered.tools.iter().cloned()).collect()
    }

    /// Resources that were read and that the server says have changed since; each is told once.
    pub fn take_changed_resources(&self) -> Vec<String> {
        self.0.watched.take_changed()
    }

    /// Its tools that need an approval.
    pub fn withheld(&self) -> Vec<Withheld> {
        self.offered().withheld.clone()
    }

    /// What it says about how to use it, if a model may be told: of a server that came with a workspace only what was approved.
    pub fn instructions(&self) -> Option<String> {
        let Status::Ready { facts, .. } = self.status() else { return None };
        facts.instructions.filter(|words| self.withholds(words).is_none())
    }

    /// What it says about how to use it, if that needs an approval.
    pub fn withheld_instructions(&self) -> Option<Withheld> {
        let Status::Ready { facts, .. } = self.status() else { return None };
        self.withholds(&facts.instructions?)
    }

    fn withholds(&self, words: &str) -> Option<Withheld> {
        let Inner { config, host, .. } = &*self.0;
        if config.trust != Trust::Approvals {
            return None;
        }
        let subject = Subject::instructions(&config.name, words);
        match host.approvals.known(&subject) {
            Known::Approved => None,
            Known::New => Some(Withheld::new(subject, None)),
            Known::Changed(before) => Some(Withheld::new(subject, Some(before))),
        }
    }

    /// What it listed and can't be offered.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.offered().left_out.clone()
    }

    /// What was dropped of what it sent.
    pub fn dropped(&self) -> Dropped {
        let state = self.0.state.borrow();
        let Some(session) = &state.session else { return Dropped::default() };
        let counted = |what| session.watch().counted(what);
        Dropped {
            invalid: counted(Count::Invalid),
            unknown: counted(Count::Unknown),
            floods: counted(Count::Floods),
            refused: counted(Count::Refused),
        }
    }

    /// Approves something that was withheld, and takes it in: the server is started, or the tool offered from the next
    /// turn on.
    ///
    /// # Errors
    /// The approval can't be kept, in words.
    pub fn approve(&self, subject: &Subject) -> Result<(), String> {
        self.0.host.approvals.approve(subject)?;
        self.reconsider();
        Ok(())
    }

    /// Takes in what was approved by other ways than [`approve`](Server::approve).
    pub fn reconsider(&self) {
        if self.0.state.borrow().session.is_none() {
            self.0.wanted.notify_one();
        }
        // What is known of its list counts at once; nobody has to be asked for it.
        let listed = self.offered().listed.clone();
        if !listed.0.is_empty() {
            self.take_in(listed);
        }
    }

    /// Signs in to it, with the host's [`Browser`](crate::Browser), and connects again if it wasn't connected. What is given is
    /// kept in the host's [`TokenStore`](crate::TokenStore).
    ///
    /// # Errors
    /// Why not, in words.
    ///
    /// # Cancel safety
    /// Dropped before the user is done, nothing has changed.
    pub async fn sign_in(&self) -> Result<SignedIn, String> {
        let account = self.account()?;
        // Only what it refuses says what it wants.
        self.settled().await;
        if matches!(self.status(), Status::Unapproved(_)) {
            return Err("it has not been approved; the user can do that with `haft mcp approve`".to_owned());
        }
        let signed_in = account.sign_in(self.0.host.browser.as_deref()).await?;
        let mut state = self.0.state.subscribe();
        let before = state.borrow_and_update().clone();
        if before.session.as_ref().is_none_or(|session| session.watch().is_over()) {
            self.0.wanted.notify_one();
            let known =
                |state: &State| state.attempts > before.attempts || matches!(state.status, Status::Stopped);
            // Whether it is there then is for its status to say.
            let _ = timeout(self.0.config.connect_timeout, state.wait_for(known)).await;
        }
        Ok(signed_in)
    }

    /// Gives back what was given at a sign-in, forgets it, and ends the connection; whether there was anything.
    ///
    /// # Errors
    /// It is still kept, in words.
    pub async fn sign_out(&self) -> Result<bool, String> {
        let signed_out = self.account()?.sign_out().await?;
        let session = self.0.state.borrow().session.clone();
        if let Some(session) = session {
            session.watch().end(Some("you signed out".to_owned()));
        }
        Ok(signed_out)
    }

    /// What is known of a sign-in that is kept.
    pub fn signed_in(&self) -> Option<SignedIn> {
        self.0.account.as_ref()?.signed_in()
    }

    /// Why somebody should sign in, in words: nothing goes without it, or some call wanted more than what was given.
    pub fn wants_sign_in(&self) -> Option<String> {
        self.0.account.as_ref()?.needed().map(|needed| needed.words)
    }

    fn account(&self) -> Result<&Account, String> {
        self.0.account.as_deref().ok_or_else(|| "only servers over HTTP can be signed in to".to_owned())
    }

    /// Completes when it is known whether it can be used.
    pub async fn settled(&self) {
        let _ = self.0.state.subscribe().wait_for(State::is_settled).await;
    }

    /// Whether it is known whether it can be used.
    pub fn is_settled(&self) -> bool {
        self.0.state.borrow().is_settled()
    }

    /// Completes when it is no longer as it was.
    pub async fn changed_from(&self, status: &Status) {
        let _ = self.0.state.subscribe().wait_for(|state| state.status != *status).await;
    }

    pub(crate) fn offered(&self) -> Arc<Offered> {
        lock(&self.0.offered).clone()
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }

    pub(crate) fn stop(&self) {
        self.0.stop.cancel(Cause::Shutdown);
    }

    fn set(&self, status: Status, session: Option<Arc<Session>>) {
        self.0.state.send_modify(|state| {
            state.attempts += u64::from(!matches!(status, Status::Connecting));
            match &status {
                Status::Failed { reason, .. } => state.failure = Some(reason.clone()),
                Status::Connecting => {}
                _ => state.failure = None,
            }
            (state.status, state.session) = (status, session);
        });
    }
}
