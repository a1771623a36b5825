//! Rules and addresses against tables, requests against servers on the loopback.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod addresses;
mod faults;
mod fetch;
mod tls;
mod urls;
mod world;
