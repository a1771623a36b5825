//! Integration tests of the crate, one module for each subject.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it means here")]

mod documents;
mod gate;
mod hooks;
mod remembered;
mod room;
mod rules;
mod schema;
mod settings;
mod settings_files;
mod trust;
mod trust_advisories;
