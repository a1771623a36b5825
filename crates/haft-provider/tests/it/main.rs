//! Definitions, calls and results by each wire, as a host uses them.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod corpus;
mod decode;
mod definitions;
mod encode;
mod shared;
