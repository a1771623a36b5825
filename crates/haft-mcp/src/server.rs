//! The server: what somebody offers, to any client, over every transport.
//!
//! | file | knows |
//! |---|---|
//! | `offer.rs` | the seam: what is offered to one client, and who decides that |
//! | `who.rs` | clients: revision, way, principal, abilities |
//! | `reply.rs` | results and refusals, and how they are written |
//! | `passed.rs` | what another server sent, as a reply of this one |
//! | `peer.rs` | the client as an offer sees it: told of progress, asked for what only it knows |
//! | `message.rs` | JSON-RPC, in and out |
//! | `wish.rs` | methods and their parameters |
//! | `session.rs` | one client: its requests are carried out, its answers find their questions |
//! | `rounds.rs` | questions of the newest revision, which has no requests to clients |
//! | `lines.rs`, `standard.rs` | connections of lines, standard input and output |
//! | `http.rs` | how a server is reached over HTTP, and by whom |
//! | `desk.rs`, `patient.rs`, `busy.rs` | the connections of a listener, and what a request has to have before it is read |
//! | `newcomers.rs` | connections of which nobody knows yet whose they are |
//! | `socket.rs` | a socket in the file system for its owner alone |
//! | `gate.rs`, `tokens.rs` | who may come in: hosts, origins, tokens, rates |
//! | `exchange.rs`, `asker.rs`, `agree.rs`, `answers.rs`, `sent.rs` | what requests over HTTP say, and what they are answered |
//! | `http_session.rs`, `events.rs` | sessions over HTTP; streams and how they are resumed |
//!
//! The protocol is written by hand: what a client sends is read once, arguments and definitions pass through as the text that
//! they are, and every bound is ours. The SDK knows only the client's side here.

pub(crate) mod agree;
pub(crate) mod answers;
pub(crate) mod asker;
pub(crate) mod busy;
pub(crate) mod desk;
pub(crate) mod events;
pub(crate) mod exchange;
pub(crate) mod gate;
pub(crate) mod http;
pub(crate) mod http_session;
pub(crate) mod lines;
pub(crate) mod message;
pub(crate) mod newcomers;
pub(crate) mod offer;
pub(crate) mod passed;
pub(crate) mod patient;
pub(crate) mod peer;
pub(crate) mod reply;
pub(crate) mod rounds;
pub(crate) mod sent;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod standard;
pub(crate) mod strict_heads;
pub(crate) mod tokens;
pub(crate) mod who;
pub(crate) mod wish;

use std::sync::Arc;
use std::time::Duration;

use haft::{Cancel, Cause};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

pub use http::{Http, Resource};
pub use offer::{
    About, Call, Change, Changes, Complete, CompleteOf, Definition, Features, GetPrompt, Listing, Offer,
    Offers, Read, ReadReply,
};
pub use peer::{Ask, Elicited, Level, Needs, NotAnswered, Peer};
pub use reply::{
    Block, Body, Completion, Contents, Freshness, PromptReply, Refusal, RefusalKind, Reply, Role,
};
pub use socket::UnixSocket;
pub use tokens::{Introspection, TokenCheck, Tokens, secret};
pub use url::Url;
pub use who::{Abilities, Client, Principal, Revision, Way};

use crate::limits;

/// A server of offers. Cheap to clone; it can serve by several transports at once.
///
/// Each of the `serve_…` methods ends when it is told to by its [`Cancel`]: nothing new is taken, what is under way has a while
/// to come to its end ([`Limits::shutdown_grace`]), and is cancelled then.
#[derive(Clone)]
pub struct Server {
    offers: Arc<dyn Offers>,
    limits: Limits,
}

/// What one client may do, and how long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message, in bytes.
    pub message_bytes: usize,
    /// How many requests of one client may be under way.
    pub in_flight: usize,
    /// How long what is under way may take once the server has to end.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message_bytes: limits::MESSAGE_BYTES_MAX,
            in_flight: limits::IN_FLIGHT_MAX,
            shutdown_grace: limits::SHUTDOWN_GRACE,
        }
    }
}

/// What everything that serves by one transport shares.
pub(crate) struct Core {
    offers: Arc<dyn Offers>,
    limits: Limits,
    rounds: rounds::Rounds,
    /// Nothing new is taken.
    stopping: Cancel,
    /// Above everything that is done for anybody.
    cancel: Cancel,
}

impl Core {
    /// Ends everything that is done for anybody.
    fn end(&self, cause: Cause) {
        self.cancel.cancel(cause);
        self.rounds.end(cause);
    }
}

/// Ends everything when serving ends, also where it was dropped.
pub(crate) struct Ends(pub(crate) Arc<Core>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end(Cause::Shutdown);
    }
}

impl Server {
    /// A server that offers what these say, to whom they say it.
    pub fn new(offers: impl Offers) -> Server {
        Server { offers: Arc::new(offers), limits: Limits::default() }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Server {
        change(&mut self.limits);
        self
    }

    fn core(&self, stop: &Cancel) -> Arc<Core> {
        Arc::new(Core {
            offers: self.offers.clone(),
            limits: self.limits,
            rounds: rounds::Rounds::new(),
            stopping: stop.clone(),
            cancel: Cancel::new(),
        })
    }

    /// Serves the client that started this process, over standard input and output. Nothing else may read or write there.
    pub async fn serve_stdio(&self, stop: &Cancel) {
        self.serve_lines(standard::input(), standard::output(), stop).await;
    }

    /// Serves one client over a connection that carries one message a line. Ends when the client is gone as well.
    ///
    /// Dropping the future ends the connection at once.
    pub async fn serve_lines<R, W>(&self, reader: R, writer: W, stop: &Cancel)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        // In a task, because whoever waits here may do so on a thread that would have to be woken for each message.
        let mut task = JoinSet::new();
        task.spawn(lines::serve(self.core(stop), reader, writer));
        task.join_next().await;
    }
}
