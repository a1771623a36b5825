//! The server: what somebody offers, to any client, over every transport.
//!
//! | file | knows |
//! |---|---|
//! | `offer.rs` | the seam: what is offered to one client, and who decides that |
//! | `who.rs` | clients: revision, way, principal, abilities |
//! | `reply.rs` | results and refusals, and how they are written |
//! | `peer.rs` | the client as an offer sees it: told of progress, asked for what only it knows |
//!
//! The protocol is written by hand: what a client sends is read once, arguments and definitions pass through as the text that
//! they are, and every bound is ours. The SDK knows only the client's side here.

pub(crate) mod message;
pub(crate) mod offer;
pub(crate) mod peer;
pub(crate) mod reply;
pub(crate) mod who;

pub use offer::{
    About, Call, Change, Changes, Complete, CompleteOf, Features, GetPrompt, Listing, Offer, Offers, Read,
    ReadReply,
};
pub use peer::{Ask, Elicited, Level, Needs, NotAnswered, Peer};
pub use reply::{
    Block, Body, Completion, Contents, Freshness, PromptReply, Refusal, RefusalKind, Reply, Role,
};
pub use who::{Abilities, Client, Principal, Revision, Way};

use std::sync::Arc;

/// A server for one kind of offers.
#[derive(Clone)]
pub struct Server {
    offers: Arc<dyn Offers>,
}

impl Server {
    /// A server that offers what these say.
    pub fn new(offers: impl Offers) -> Server {
        Server { offers: Arc::new(offers) }
    }

    /// Who decides what is offered.
    pub fn offers(&self) -> &Arc<dyn Offers> {
        &self.offers
    }
}
