//! Signing in to a server over HTTP: OAuth 2.1, as the protocol wants it.
//!
//! An [`Account`](account::ServerAccount) is what we are to one server: it puts a token on each request,
//! renews it, and knows whether somebody has to sign in. In the background nobody is ever asked for anything;
//! a server that wants a sign-in gets a status that says so, and
//! [`Server::sign_in`](crate::ServerHandle::sign_in) is called by whoever has a user at hand.
//!
//! ```text
//! request ──► 401 ──► renewed by another process, or renewable?  yes ──► the same request once more
//!                                                                no  ──► "needs a sign-in", and nothing else happens
//!
//! sign_in ──► discovery ──► who we are (client id) ──► page for the user ──► code ──► tokens ──► kept
//! ```
//!
//! | file | knows |
//! |---|---|
//! | `account.rs` | one server's tokens: used, renewed, obtained, given back |
//! | `authorized_client.rs` | requests of a transport with a token on them |
//! | `challenge.rs` | what a refusal says |
//! | `discovery.rs` | who gives tokens for a server |
//! | `client.rs` | under which name we ask for them |
//! | `grants.rs` | the requests that are answered with tokens |
//! | `page.rs`, `listener.rs` | the page that a user opens, and the answer that comes back |
//! | `store.rs` | where tokens are kept |
//! | `net.rs`, `allowed_addresses.rs` | requests to addresses that a server named, and which of them are made |
//! | `jwt.rs` | signed statements: assertions of a client, proofs of possession |
//!
//! The MCP SDK has a sign-in as well. It is not used: it brings a second HTTP stack of types, decides by
//! itself where requests go, and has no place for a lock between processes around the one thing that must not
//! happen twice, a renewal.

pub(crate) mod account;
pub(crate) mod allowed_addresses;
pub(crate) mod authorized_client;
pub(crate) mod challenge;
pub(crate) mod client;
pub(crate) mod discovery;
pub(crate) mod grants;
pub(crate) mod jwt;
pub(crate) mod listener;
pub(crate) mod net;
pub(crate) mod page;
pub(crate) mod secret;
pub(crate) mod settings;
pub(crate) mod store;
