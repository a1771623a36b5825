//! Definitions, calls and results by each wire, as a host uses them.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail and speak as tests do")]

mod corpus;
mod decode;
mod deferral;
mod definitions;
mod encode;
mod held;
#[cfg(feature = "http")]
mod http;
mod kept;
mod loops;
mod requests;
mod scripts;
mod sdk;
mod shared;
mod streams;
mod streams_made;
mod transcripts;
