//! Settings and trust from outside: real files in folders of their own, nothing of the machine's.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod documents;
mod remembered;
mod room;
mod schema;
mod settings;
mod trust;
mod trust_advisories;
