//! The options of a session, in addition to settings files.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft::dispatch::ConflictRule;
use haft::ports::{Asker, PermissionMode, Tracer};
use haft::tool::AnyTool;
use haft_mcp::RequestObserver;
use haft_policy::gate::RuleWording;
use haft_policy::settings::{CLAUDE_CONFIG_DIR, SettingsFlags};

use crate::channels::SessionChannels;
use crate::notice::NoticeSink;

/// The caller's options for a session. The rest comes from settings files and the environment.
#[derive(Clone, Default)]
pub struct SessionOptions {
    /// The working directory. Default: the current one.
    pub cwd: Option<PathBuf>,
    /// Additional working directories.
    pub add_dir: Vec<PathBuf>,
    /// Folders with script tools.
    pub tools_dir: Vec<PathBuf>,
    /// Groups of tools that are omitted.
    pub tools_off: Vec<String>,
    /// The permission mode. Default: that of the settings.
    pub permission_mode: Option<PermissionMode>,
    /// Adds a rule for calls that run without asking, such as `Edit(src/**)`.
    pub allow: Vec<String>,
    /// Adds a rule for calls that always ask.
    pub ask: Vec<String>,
    /// Calls that never run.
    pub deny: Vec<String>,
    /// Settings files, or settings as JSON.
    pub settings: Vec<String>,
    /// Files with MCP servers.
    pub mcp_config: Vec<PathBuf>,
    /// The hash of a trusted workspace.
    pub trust_hash: Option<String>,
    /// Which calls may run in parallel.
    pub schedule: Option<ConflictRule>,
    /// The maximum number of calls that run in parallel.
    pub max_concurrency: Option<NonZeroUsize>,
    /// Whether calls that would ask are denied.
    pub non_interactive: bool,
    /// Whether programs run without the sandbox.
    pub no_sandbox: bool,
    /// Additional tools.
    pub tools: Vec<AnyTool>,
    /// Whether the built-in tools are omitted.
    pub without_built_in_tools: bool,
    /// The session to continue.
    pub resume: Option<String>,
    /// Sets the environment variables that settings, tools and providers are read from.
    pub environment: SessionEnvironment,
    /// How denials name the rules that would allow a call. Default: by list and text.
    pub rule_wording: Option<RuleWording>,
    /// Receives warnings and messages.
    pub notices: NoticeSink,
    /// Opens the asker, which answers prompts.
    pub asker: Option<Arc<dyn AskerSource>>,
    /// Events and prompts, for a session whose front ends attach and detach. Then `asker` isn't used.
    pub channels: Option<SessionChannels>,
    /// Observes calls and servers.
    pub telemetry: Option<Arc<dyn TelemetrySource>>,
}

/// The purpose of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionPurpose {
    /// A conversation, or calls for as long as the owner makes some.
    #[default]
    Run,
    /// The calls of one command, without memory of other ones.
    Once,
    /// Recorded calls, made again in a copy of their workspace. The sandbox is sealed: no writes outside,
    /// no network.
    Replay,
    /// Explanations of what calls would do. No process starts and no sandbox is created.
    Inspect,
}

/// Opens the asker of a session, once its directory is known.
pub trait AskerSource: Send + Sync {
    /// Returns the asker; `None` if no user can answer.
    fn open(&self, cwd: &Path) -> Option<Arc<dyn Asker>>;
}

/// Opens telemetry when a session needs it.
pub trait TelemetrySource: Send + Sync {
    /// Returns the tracer for the calls of a session.
    fn tracer(&self) -> Option<Arc<dyn Tracer>>;
    /// Returns the observer of the MCP servers of a session.
    fn observer(&self, session: &str) -> Option<Arc<dyn RequestObserver>>;
}

/// Environment variables: those of this process, or others.
#[derive(Clone)]
pub struct SessionEnvironment(Arc<VariableLookup>);

type VariableLookup = dyn Fn(&str) -> Option<OsString> + Send + Sync;

impl SessionEnvironment {
    /// Creates an environment from a lookup function.
    pub fn new(lookup: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static) -> SessionEnvironment {
        SessionEnvironment(Arc::new(lookup))
    }

    /// Returns the variables of this process, except that the user's settings and state are in this
    /// directory: in `config`, `state` and `claude`.
    pub fn with_folders_in(dir: impl Into<PathBuf>) -> SessionEnvironment {
        let dir = dir.into();
        SessionEnvironment::new(move |name| {
            let folder = match name {
                haft::env::HAFT_CONFIG_DIR => "config",
                haft::env::HAFT_STATE_DIR => "state",
                CLAUDE_CONFIG_DIR => "claude",
                _ => return std::env::var_os(name),
            };
            Some(dir.join(folder).into_os_string())
        })
    }

    /// Returns the value of a variable.
    pub fn get(&self, name: &str) -> Option<OsString> {
        (self.0)(name)
    }
}

impl Default for SessionEnvironment {
    /// Returns the variables of this process.
    fn default() -> SessionEnvironment {
        SessionEnvironment::new(|name| std::env::var_os(name))
    }
}

impl SessionOptions {
    /// Returns the settings flags of these options.
    pub(crate) fn flags(&self) -> SettingsFlags {
        SettingsFlags {
            settings: self.settings.clone(),
            allow: self.allow.clone(),
            ask: self.ask.clone(),
            deny: self.deny.clone(),
            permission_mode: self.permission_mode,
            add_dirs: self.add_dir.clone(),
            mcp_config: self.mcp_config.clone(),
            trust_hash: self.trust_hash.clone(),
        }
    }
}
