//! Reaching out: which hosts and addresses may be reached, and pages from those that may.
//!
//! - [`host`] reads hosts and rules on them; [`preset`] names some.
//! - [`address`] knows which addresses are public.
//! - [`outside`] is the way from a host to a connection: names are resolved once, every address is checked, and the checked
//!   one is dialled.
//! - `fetch` (feature `fetch`) speaks HTTP over such connections, with bounds on all that a server can do to its client.
//!
//! A crate of its own, because commands in a sandbox, tools for the web and a browser have to refuse the same addresses, and
//! none of them should know the others. It knows no settings, no tools and no permissions: who may reach a host is decided
//! elsewhere; here is what that host may turn out to be.
#![warn(missing_docs)]

pub mod address;
#[cfg(feature = "fetch")]
pub mod fetch;
pub mod host;
pub mod outside;
pub mod preset;
