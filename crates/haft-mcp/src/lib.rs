//! MCP for `haft`: the tools of any server, over every transport, as tools like any other.
//!
//! [`ServerSet`] connects to servers in the background and gives a registry with their tools; everything of
//! the pipeline then applies to them. Five transports (a process, Streamable HTTP, its older form with
//! events, WebSocket, in-process) and the revisions 2024-11-05 to 2026-07-28 are spoken; which one is found
//! out in the handshake.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use haft::Registry;
//! use haft_mcp::{HostServices, ServerConfig, ServerSet, ServerStatus, ServerTransport};
//!
//! let nobody = ServerConfig::new("files", ServerTransport::stdio("no-such-program", ["--stdio"]));
//! let servers = ServerSet::start([nobody], HostServices::new("."))?;          // never waits
//! let registry = servers.registry(&Registry::new())?;               // what is there now
//! assert!(registry.is_empty());
//!
//! servers.get("files").unwrap().settled().await;
//! let ServerStatus::Failed { reason, .. } = servers.get("files").unwrap().status() else { panic!() };
//! assert_eq!(reason, "this host starts no processes");
//! # Ok(()) }
//! ```
//!
//! # What is believed
//!
//! Nothing that a server says. Its messages are bounded and checked before anything else reads them; its
//! words are shown with nothing hidden in them; its hints never loosen a rule. A server that came with a
//! workspace, and each definition of its tools, needs an approval that is bound to what was seen
//! ([`ApprovalStore`]).
//!
//! This is the only crate that knows the MCP SDK (`rmcp`), and of its own files only the transports and one
//! more do.
#![warn(missing_docs)]

pub mod expand;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod names;
pub mod server;
pub mod text;

mod approval;
mod client;
mod config;
mod content;
mod host;
mod line_buffer;
mod sign_in;
mod token_bucket;
mod transport;

pub use approval::{
    ApprovalFingerprint, ApprovalStore, ApprovalSubject, KnownApproval, MemoryApprovals, StoredApproval,
    WithheldItem,
};
pub use client::server::{DroppedMessages, LeftOut, ServerHandle, ServerStatus};
pub use client::servers::{BadServer, ServerSet};
pub use client::session::ServerFacts;
pub use config::{
    BytePipe, PipeConnector, RemoteTransport, ServerConfig, ServerTransport, ServerTrust, StdioTransport,
};
pub use host::{CarrierInfo, CompletedRequest, HostServices, OnLog, RequestObserver, SamplingHandler};
pub use sign_in::account::SignedIn;
pub use sign_in::jwt::{SigningAlgorithm, SigningKey};
pub use sign_in::page::{PageOpener, SignInPage};
pub use sign_in::secret::Secret;
pub use sign_in::settings::{ClientAssertion, OAuth, OrganisationGrant, TokenGrant};
pub use sign_in::store::{FileTokens, MemoryTokens, TokenStore};
