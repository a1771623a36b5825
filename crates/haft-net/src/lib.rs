//! Network access checks: which hosts and addresses may be reached, and an HTTP client that obeys
//! them.
//!
//! - [`host`] parses hosts and host rules; [`host_preset`] names sets of hosts.
//! - [`address`] tells public addresses from all others.
//! - [`network_access`] resolves a name once, checks every address, and connects only to a checked
//!   one.
//! - `fetch` (feature `fetch`) speaks HTTP over such connections, with limits on everything that a
//!   server can send.
//!
//! This is a crate of its own because sandboxed commands, the web tools and the browser must refuse
//! the same addresses without depending on each other. It knows no settings, tools or permissions:
//! other crates decide which hosts are allowed, and this crate checks the addresses behind them.
#![warn(missing_docs)]

pub mod address;
#[cfg(feature = "fetch")]
pub mod fetch;
pub mod host;
pub mod host_preset;
pub mod network_access;
