//! Sessions that are kept: `haft sessions`, `haft log` and `haft stats`.

pub(crate) mod args;
pub(crate) mod log;
pub(crate) mod manage;
pub(crate) mod stats;

pub(crate) use haft_session::session_journal::{ResumedSession, leftovers};
