//! Messages of a session apart from results: the library prints nothing itself.

use std::fmt;
use std::sync::Arc;

/// One message of a session for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionNotice {
    /// A problem to look at: a setting without effect, a server that can't be used.
    Warning(String),
    /// Information: the message of a hook, a session that continues.
    Info(String),
    /// The progress of the running call. Replaces the previous one.
    Progress(String),
    /// The call whose progress was reported has ended.
    ProgressEnded,
}

impl fmt::Display for SessionNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionNotice::Warning(text) => write!(f, "warning: {text}"),
            SessionNotice::Info(text) | SessionNotice::Progress(text) => f.write_str(text),
            SessionNotice::ProgressEnded => Ok(()),
        }
    }
}

/// Receives the notices of a session. The default discards them.
#[derive(Clone)]
pub struct NoticeSink(Arc<dyn Fn(SessionNotice) + Send + Sync>);

impl NoticeSink {
    /// Creates a sink that passes each notice to this function, from any thread.
    pub fn new(receive: impl Fn(SessionNotice) + Send + Sync + 'static) -> NoticeSink {
        NoticeSink(Arc::new(receive))
    }

    pub(crate) fn send(&self, notice: SessionNotice) {
        (self.0)(notice);
    }

    pub(crate) fn warn(&self, text: impl Into<String>) {
        self.send(SessionNotice::Warning(text.into()));
    }

    pub(crate) fn info(&self, text: impl Into<String>) {
        self.send(SessionNotice::Info(text.into()));
    }
}

impl Default for NoticeSink {
    fn default() -> NoticeSink {
        NoticeSink::new(|_| {})
    }
}

impl fmt::Debug for NoticeSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NoticeSink")
    }
}
