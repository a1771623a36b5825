//! The errors of building a session.

use std::fmt;

/// Why a session can't be built.
///
/// The message says what is wrong and what is accepted. The hint says what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionError {
    kind: SessionErrorKind,
    message: String,
    option: Option<SessionOption>,
}

/// An option that fixes the error. A program names its own form of it: a flag, a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionOption {
    /// [`ModelOptions::provider`](crate::run::provider::ModelOptions::provider).
    Provider,
    /// [`ModelOptions::model`](crate::run::provider::ModelOptions::model).
    Model,
    /// [`ModelOptions::base_url`](crate::run::provider::ModelOptions::base_url).
    BaseUrl,
    /// [`ModelOptions::script`](crate::run::provider::ModelOptions::script).
    Script,
    /// [`SessionOptions::tools_off`](crate::SessionOptions::tools_off).
    ToolsOff,
    /// [`SessionOptions::cwd`](crate::SessionOptions::cwd).
    WorkingDirectory,
    /// [`SessionOptions::add_dir`](crate::SessionOptions::add_dir).
    AddedDirectory,
    /// [`SessionOptions::tools_dir`](crate::SessionOptions::tools_dir).
    ToolsDirectory,
    /// [`SessionBuilder::resume`](crate::SessionBuilder::resume).
    Resume,
}

/// Which part of a session can't be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SessionErrorKind {
    /// The settings or rules.
    Settings,
    /// The working directories.
    Workspace,
    /// The tools or MCP servers.
    Tools,
    /// The sandbox.
    Sandbox,
    /// The journal, or the session to continue.
    Journal,
    /// The model.
    Model,
}

impl SessionError {
    fn new(kind: SessionErrorKind, message: impl Into<String>) -> SessionError {
        SessionError { kind, message: message.into(), option: None }
    }

    /// Adds the option that fixes the error.
    pub(crate) fn with_option(mut self, option: SessionOption) -> SessionError {
        self.option = Some(option);
        self
    }

    pub(crate) fn settings(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Settings, message)
    }

    pub(crate) fn workspace(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Workspace, message)
    }

    pub(crate) fn tools(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Tools, message)
    }

    pub(crate) fn sandbox(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Sandbox, message)
    }

    pub(crate) fn journal(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Journal, message)
    }

    pub(crate) fn model(message: impl Into<String>) -> SessionError {
        SessionError::new(SessionErrorKind::Model, message)
    }

    /// Returns which part can't be built.
    pub fn kind(&self) -> SessionErrorKind {
        self.kind
    }

    /// Returns the message, without "error:" and without a trailing newline.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the option that fixes the error, if there is one.
    pub fn option(&self) -> Option<SessionOption> {
        self.option
    }

    /// Returns general advice for this kind of error.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            SessionErrorKind::Settings => "`haft settings` shows all settings and the files they come from",
            SessionErrorKind::Workspace => "name a directory that exists and can be read",
            SessionErrorKind::Tools => "leave out the tool or the server, or correct its definition",
            SessionErrorKind::Sandbox => "`haft doctor` shows what the sandbox needs on this machine",
            SessionErrorKind::Journal => "`haft sessions list` shows the sessions that can be continued",
            SessionErrorKind::Model => "set an API key and a model, or give the agent a model of your own",
        }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SessionError {}
