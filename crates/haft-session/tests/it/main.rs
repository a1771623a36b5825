//! The session as an embedder uses it, in temporary directories.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod embedding;
mod front_end;
mod processes;
mod running;
mod sessions;
