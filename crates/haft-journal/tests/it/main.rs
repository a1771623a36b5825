//! The journal from outside: what is written comes back, whatever happens in between.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod clocks;
mod faults;
mod keeping;
mod recovery;
mod sweep;
