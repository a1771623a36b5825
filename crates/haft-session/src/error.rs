//! Why a session can't be built.

use std::fmt;

/// Why a session can't be built: settings, directories, tools, the sandbox, the journal or the model.
///
/// The message names what is wrong and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionError {
    message: String,
}

impl SessionError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> SessionError {
        SessionError { message: message.into() }
    }

    /// The message, without "error:" and without a final line break.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SessionError {}
