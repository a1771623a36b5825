//! Builds a session: [`SessionBuilder`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::ports::PermissionMode;
use haft::tool::{AnyTool, IntoTools, InvalidTool};

use crate::assembly::SessionAssembler;
use crate::events::SessionEvent;
use crate::front_end::{EventFunction, FrontEnd, PromptFunction};
use crate::loaded_settings;
use crate::options::SessionEnvironment;
use crate::prompts::{UserAnswer, UserPrompt};
use crate::session::Session;
use crate::session_journal::ResumedSession;
use crate::{
    NoticeSink, RuleWording, SessionError, SessionFactory, SessionNotice, SessionOptions, SessionPurpose,
};

/// Builds a session. Setters never fail; [`build`](SessionBuilder::build) reports errors.
///
/// The defaults are those of `haft run`: the user's settings, the sandbox, the journal. Without a front end
/// that answers prompts, calls that would ask are denied.
#[derive(Clone)]
pub struct SessionBuilder {
    options: SessionOptions,
    front_ends: Vec<Arc<dyn FrontEnd>>,
    resume: Option<ResumeFrom>,
    bad_tool: Option<InvalidTool>,
}

/// The session that a new one continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeFrom {
    /// The last session of this directory.
    Latest,
    /// The session whose id is this text or begins with it.
    Id(String),
}

impl SessionBuilder {
    /// Creates a builder for a session that works in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> SessionBuilder {
        let options = SessionOptions { cwd: Some(dir.into()), ..SessionOptions::default() };
        SessionBuilder { options, front_ends: Vec::new(), resume: None, bad_tool: None }
    }

    /// Adds settings as JSON, or the path of a settings file. They override the files of the user and of
    /// the workspace.
    #[must_use]
    pub fn settings(mut self, settings: impl Into<String>) -> SessionBuilder {
        self.options.settings.push(settings.into());
        self
    }

    /// Sets the environment variables that settings, tools and providers are read from.
    #[must_use]
    pub fn environment(mut self, environment: SessionEnvironment) -> SessionBuilder {
        self.options.environment = environment;
        self
    }

    /// Sets the permission mode.
    #[must_use]
    pub fn mode(mut self, mode: PermissionMode) -> SessionBuilder {
        self.options.permission_mode = Some(mode);
        self
    }

    /// Adds a rule for calls that run without asking, such as `Edit(src/**)`.
    #[must_use]
    pub fn allow(mut self, rule: impl Into<String>) -> SessionBuilder {
        self.options.allow.push(rule.into());
        self
    }

    /// Adds a rule for calls that always ask.
    #[must_use]
    pub fn ask(mut self, rule: impl Into<String>) -> SessionBuilder {
        self.options.ask.push(rule.into());
        self
    }

    /// Adds a rule for calls that never run. A rule about files binds the file tools and every command in
    /// the sandbox.
    #[must_use]
    pub fn deny(mut self, rule: impl Into<String>) -> SessionBuilder {
        self.options.deny.push(rule.into());
        self
    }

    /// Adds a working directory.
    #[must_use]
    pub fn add_dir(mut self, dir: impl Into<PathBuf>) -> SessionBuilder {
        self.options.add_dir.push(dir.into());
        self
    }

    /// Runs commands without the sandbox. They have the user's permissions; only rules and mode restrict
    /// them.
    #[must_use]
    pub fn without_sandbox(mut self) -> SessionBuilder {
        self.options.no_sandbox = true;
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn tool<Kind>(mut self, tool: impl IntoTools<Kind>) -> SessionBuilder {
        match tool.into_tools() {
            Ok(tools) => self.options.tools.extend::<Vec<AnyTool>>(tools),
            Err(bad) => self.bad_tool = Some(bad),
        }
        self
    }

    /// Omits the built-in tools.
    #[must_use]
    pub fn without_built_in_tools(mut self) -> SessionBuilder {
        self.options.without_built_in_tools = true;
        self
    }

    /// Adds a file with MCP servers, in the form of `.mcp.json`.
    #[must_use]
    pub fn mcp_config(mut self, file: impl Into<PathBuf>) -> SessionBuilder {
        self.options.mcp_config.push(file.into());
        self
    }

    /// Continues an earlier session.
    #[must_use]
    pub fn resume(mut self, from: ResumeFrom) -> SessionBuilder {
        self.resume = Some(from);
        self
    }

    /// Adds a front end, which shows the session and may answer its prompts.
    #[must_use]
    pub fn front_end(mut self, front_end: impl FrontEnd) -> SessionBuilder {
        self.front_ends.push(Arc::new(front_end));
        self
    }

    /// Answers prompts with this function.
    #[must_use]
    pub fn on_prompt<F>(self, answer: impl Fn(UserPrompt) -> F + Send + Sync + 'static) -> SessionBuilder
    where
        F: Future<Output = UserAnswer> + Send + 'static,
    {
        self.front_end(PromptFunction(Arc::new(move |prompt| Box::pin(answer(prompt)))))
    }

    /// Receives the events of the session, in order and in a separate task. All events of a run have
    /// arrived when it returns.
    #[must_use]
    pub fn on_event(self, receive: impl Fn(&SessionEvent) + Send + Sync + 'static) -> SessionBuilder {
        self.front_end(EventFunction(Arc::new(receive)))
    }

    /// Sets how messages name the rules that would allow a call, for example as flags of the program.
    #[must_use]
    pub fn rule_wording(mut self, wording: RuleWording) -> SessionBuilder {
        self.options.rule_wording = Some(wording);
        self
    }

    /// Receives warnings and messages. Without it they are discarded.
    #[must_use]
    pub fn on_notice(mut self, receive: impl Fn(SessionNotice) + Send + Sync + 'static) -> SessionBuilder {
        self.options.notices = NoticeSink::new(receive);
        self
    }

    /// Loads settings, tools and rules. Reads files, but starts no thread and no process.
    ///
    /// # Errors
    /// Returns an error if settings, directories or tools can't be used, or if the session to continue
    /// doesn't exist.
    pub fn load(mut self) -> Result<SessionFactory, SessionError> {
        if let Some(bad) = self.bad_tool {
            return Err(SessionError::tools(bad.to_string()));
        }
        let resumed = self.resume.as_ref().map(|from| find_session(from, &self.options)).transpose()?;
        self.options.resume = resumed.as_ref().map(|resumed| resumed.id.clone());
        let assembler = SessionAssembler::load(&self.options, SessionPurpose::Run)?;
        Ok(SessionFactory::new(assembler, self.front_ends, resumed))
    }

    /// Builds the session: [loads](SessionBuilder::load) what it needs, and opens it. MCP servers begin to
    /// connect. The sandbox is created when the first command needs it.
    ///
    /// # Errors
    /// Returns an error if settings, directories, rules or tools can't be used.
    pub async fn build(self) -> Result<Session, SessionError> {
        self.load()?.open().await
    }
}

pub(crate) fn find_session(
    from: &ResumeFrom,
    options: &SessionOptions,
) -> Result<ResumedSession, SessionError> {
    let cwd = options.cwd.as_deref().unwrap_or(Path::new("."));
    let places = loaded_settings::settings_places(cwd, &|name| options.environment.get(name))?;
    let id = match from {
        ResumeFrom::Latest => None,
        ResumeFrom::Id(id) => Some(id.as_str()),
    };
    ResumedSession::find_with_calls(places.state_dir.as_deref(), id, &places.cwd, &options.notices)
}
