//! The crate from outside, one module for each subject.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it means here")]

mod rules;
