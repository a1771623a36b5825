//! One server, as others see it. How it lives is `connection_loop.rs`, what it offers `offered_tools.rs`,
//! what is asked of it `calls.rs`.
//!
//! A task of its own connects, listens for changes and connects again; nobody waits for it but who needs it.
//! What it found last stays when it is gone: its tools are still offered, and the next call brings it back. A
//! call that was under way when it went is an error, once, and never made again by itself: nobody knows what
//! it did.

mod calls;
mod connection_loop;
mod offered_tools;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use haft::sync::lock;
use haft::tool::AnyTool;
use haft::{Cancel, Cause};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

pub use self::offered_tools::LeftOut;
pub(crate) use self::offered_tools::OfferedTools;
use super::breaker::ServerBreakers;
use super::session::{ClientSession, ServerFacts};
use super::watched_resources::WatchedResources;
use crate::approval::{ApprovalSubject, KnownApproval, WithheldItem};
use crate::config::{ServerConfig, ServerTransport, ServerTrust};
use crate::host::HostServices;
use crate::sign_in::account::{ServerAccount, SignedIn};
use crate::transport::ServerLog;
use crate::transport::guard::DropCause;

/// A server of a session. Clones are the same server.
#[derive(Clone)]
pub struct ServerHandle(Arc<ServerInner>);

/// A server that may be gone.
#[derive(Clone)]
pub(crate) struct WeakServer(Weak<ServerInner>);

impl WeakServer {
    pub(crate) fn upgrade(&self) -> Option<ServerHandle> {
        self.0.upgrade().map(ServerHandle)
    }
}

struct ServerInner {
    config: ServerConfig,
    host: HostServices,
    state: watch::Sender<ServerState>,
    /// Rung by a call that needs it.
    wanted: Notify,
    stop: Cancel,
    log: ServerLog,
    slots: Semaphore,
    breakers: Mutex<ServerBreakers>,
    offered: Mutex<Arc<OfferedTools>>,
    watched: WatchedResources,
    /// What we are to it, where it can be signed in to.
    account: Option<Arc<ServerAccount>>,
    /// Counts what changes for the registry, over all servers.
    version: watch::Sender<u64>,
}

#[derive(Clone)]
struct ServerState {
    status: ServerStatus,
    session: Option<Arc<ClientSession>>,
    /// How many attempts to connect have ended.
    attempts: u64,
    /// Why the last attempt failed, if it did.
    failure: Option<String>,
}

impl ServerState {
    fn is_settled(&self) -> bool {
        !matches!(self.status, ServerStatus::Connecting) || self.attempts > 0
    }
}

/// How a server is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ServerStatus {
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
    Unapproved(WithheldItem),
    /// It wants somebody to sign in: [`ServerHandle::sign_in`].
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
pub struct DroppedMessages {
    /// They made no sense.
    pub invalid: u64,
    /// They answered nothing.
    pub unknown: u64,
    /// Notifications over the rate.
    pub floods: u64,
    /// Requests over the number that may be open.
    pub refused: u64,
}

impl ServerHandle {
    /// A server that connects from now on. Needs a runtime.
    pub(crate) fn start(
        config: ServerConfig,
        host: HostServices,
        version: watch::Sender<u64>,
    ) -> (ServerHandle, tokio::task::JoinHandle<()>) {
        let first =
            ServerState { status: ServerStatus::Connecting, session: None, attempts: 0, failure: None };
        let log = ServerLog::told_to(&config.name, host.on_log.clone());
        let account = match &config.transport {
            ServerTransport::Http(remote) | ServerTransport::Sse(remote) => {
                ServerAccount::new(&config.name, remote, &host, log.clone()).map(Arc::new)
            }
            _ => None,
        };
        let inner = Arc::new(ServerInner {
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
            watched: WatchedResources::default(),
            version,
        });
        let server = ServerHandle(inner);
        let task = tokio::spawn(server.clone().live());
        (server, task)
    }

    /// Its configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.0.config
    }

    /// How it is.
    pub fn status(&self) -> ServerStatus {
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
    pub fn withheld(&self) -> Vec<WithheldItem> {
        self.offered().withheld.clone()
    }

    /// What it says about how to use it, if a model may be told: of a server that came with a workspace only
    /// what was approved.
    pub fn instructions(&self) -> Option<String> {
        let ServerStatus::Ready { facts, .. } = self.status() else { return None };
        facts.instructions.filter(|words| self.withheld_words(words).is_none())
    }

    /// What it says about how to use it, if that needs an approval.
    pub fn withheld_instructions(&self) -> Option<WithheldItem> {
        let ServerStatus::Ready { facts, .. } = self.status() else { return None };
        self.withheld_words(&facts.instructions?)
    }

    fn withheld_words(&self, words: &str) -> Option<WithheldItem> {
        let ServerInner { config, host, .. } = &*self.0;
        if config.trust != ServerTrust::Approvals {
            return None;
        }
        let subject = ApprovalSubject::instructions(&config.name, words);
        match host.approvals.known(&subject) {
            KnownApproval::Approved => None,
            KnownApproval::New => Some(WithheldItem::new(subject, None)),
            KnownApproval::Changed(before) => Some(WithheldItem::new(subject, Some(before))),
        }
    }

    /// What it listed and can't be offered.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.offered().left_out.clone()
    }

    /// What was dropped of what it sent.
    pub fn dropped(&self) -> DroppedMessages {
        let state = self.0.state.borrow();
        let Some(session) = &state.session else { return DroppedMessages::default() };
        let counted = |what| session.watch().counted(what);
        DroppedMessages {
            invalid: counted(DropCause::Invalid),
            unknown: counted(DropCause::Unknown),
            floods: counted(DropCause::Floods),
            refused: counted(DropCause::Refused),
        }
    }

    /// Approves something that was withheld, and takes it in: the server is started, or the tool offered from
    /// the next turn on.
    ///
    /// # Errors
    /// The approval can't be kept, in words.
    pub fn approve(&self, subject: &ApprovalSubject) -> Result<(), String> {
        self.0.host.approvals.approve(subject)?;
        self.reconsider();
        Ok(())
    }

    /// Takes in what was approved by other ways than [`approve`](ServerHandle::approve).
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

    /// Signs in to it, with the host's [`Browser`](crate::PageOpener), and connects again if it wasn't
    /// connected. What is given is kept in the host's [`TokenStore`](crate::TokenStore).
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
        if matches!(self.status(), ServerStatus::Unapproved(_)) {
            return Err("it has not been approved; the user can do that with `haft mcp approve`".to_owned());
        }
        let signed_in = account.sign_in(self.0.host.browser.as_deref()).await?;
        let mut state = self.0.state.subscribe();
        let before = state.borrow_and_update().clone();
        if before.session.as_ref().is_none_or(|session| session.watch().is_over()) {
            self.0.wanted.notify_one();
            let known = |state: &ServerState| {
                state.attempts > before.attempts || matches!(state.status, ServerStatus::Stopped)
            };
            // Whether it is there then is for its status to say.
            let _ = timeout(self.0.config.connect_timeout, state.wait_for(known)).await;
        }
        Ok(signed_in)
    }

    /// Gives back what was given at a sign-in, forgets it, and ends the connection; whether there was
    /// anything.
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

    /// Why somebody should sign in, in words: nothing goes without it, or some call wanted more than what was
    /// given.
    pub fn wants_sign_in(&self) -> Option<String> {
        self.0.account.as_ref()?.needed().map(|needed| needed.words)
    }

    fn account(&self) -> Result<&ServerAccount, String> {
        self.0.account.as_deref().ok_or_else(|| "only servers over HTTP can be signed in to".to_owned())
    }

    /// Completes when it is known whether it can be used.
    pub async fn settled(&self) {
        let _ = self.0.state.subscribe().wait_for(ServerState::is_settled).await;
    }

    /// Whether it is known whether it can be used.
    pub fn is_settled(&self) -> bool {
        self.0.state.borrow().is_settled()
    }

    /// Completes when it is no longer as it was.
    pub async fn changed_from(&self, status: &ServerStatus) {
        let _ = self.0.state.subscribe().wait_for(|state| state.status != *status).await;
    }

    pub(crate) fn offered(&self) -> Arc<OfferedTools> {
        lock(&self.0.offered).clone()
    }

    pub(crate) fn downgrade(&self) -> WeakServer {
        WeakServer(Arc::downgrade(&self.0))
    }

    pub(crate) fn stop(&self) {
        self.0.stop.cancel(Cause::Shutdown);
    }

    fn set(&self, status: ServerStatus, session: Option<Arc<ClientSession>>) {
        self.0.state.send_modify(|state| {
            state.attempts += u64::from(!matches!(status, ServerStatus::Connecting));
            match &status {
                ServerStatus::Failed { reason, .. } => state.failure = Some(reason.clone()),
                ServerStatus::Connecting => {}
                _ => state.failure = None,
            }
            (state.status, state.session) = (status, session);
        });
    }
}
