//! Rules and addresses against tables, requests against servers on the loopback.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests fail and speak as tests do")]

mod addresses;
mod fake_network;
mod faults;
mod fetch;
mod tls;
mod urls;
