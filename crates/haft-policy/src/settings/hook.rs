//! Hooks as settings describe them: events, groups with a matcher, handlers.
//!
//! Nothing here runs a hook; a hooks module does. What is checked is that a matcher and an `if` can be read and that
//! each handler has what its type needs, because a hook that can't be started would otherwise be noticed when it should have said no.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::de::Spanned;
use super::jsonc::Spot;
use super::layer::cut;
use crate::rule::Rule;
use crate::source::{List, Source, WrittenRule};

/// The events that there are, with whether something fires them here.
pub const EVENTS: [(&str, bool); 33] = [
    ("PreToolUse", true),
    ("PostToolUse", true),
    ("PostToolUseFailure", true),
    ("PostToolBatch", true),
    ("PermissionRequest", true),
    ("PermissionDenied", true),
    ("Notification", true),
    ("UserPromptSubmit", true),
    ("SessionStart", true),
    ("SessionEnd", true),
    ("Stop", true),
    ("SubagentStop", true),
    ("PreCompact", true),
    ("UserPromptExpansion", false),
    ("Setup", false),
    ("StopFailure", false),
    ("SubagentStart", false),
    ("PostCompact", false),
    ("PreModelSwitch", false),
    ("PostModelSwitch", false),
    ("TeammateIdle", false),
    ("TaskCreated", false),
    ("TaskCompleted", false),
    ("Elicitation", false),
    ("ElicitationResult", false),
    ("ConfigChange", false),
    ("WorktreeCreate", false),
    ("WorktreeRemove", false),
    ("InstructionsLoaded", false),
    ("CwdChanged", false),
    ("FileChanged", false),
    ("DirectoryAdded", false),
    ("MessageDisplay", false),
];

/// The longest time limit of a hook, in seconds: a day.
pub const HOOK_TIMEOUT_S_MAX: f64 = 86_400.0;

/// Handlers, and for what they run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "HookGroup", extend("additionalProperties" = false))]
pub(crate) struct RawGroup {
    /// Names of tools (`Edit|Write`) or a regular expression; empty, `*` or not given means all.
    pub(crate) matcher: Option<Spanned<String>>,
    /// What runs.
    pub(crate) hooks: Vec<Spanned<RawHandler>>,
}

/// What runs when an event fires.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "HookHandler", extend("additionalProperties" = false), transform = needs_of_types)]
pub(crate) struct RawHandler {
    /// The kind of handler.
    r#type: RawType,
    /// One permission rule; the hook runs only for calls that it matches.
    r#if: Option<Spanned<String>>,
    /// How long it may take, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = HOOK_TIMEOUT_S_MAX))]
    timeout: Option<Spanned<f64>>,
    /// What the user is shown while it runs.
    status_message: Option<String>,
    /// Runs once a session.
    once: Option<bool>,
    /// What a failure of the hook itself means: `block` (default for hooks that can deny) or `continue`.
    on_failure: Option<OnFailure>,
    /// `command`: the command; with `args` a program, without them a line for the shell.
    command: Option<String>,
    /// `command`: arguments of the program; no shell then.
    args: Option<Vec<String>>,
    /// `command`: the shell.
    shell: Option<Shell>,
    /// `command`: runs beside what goes on; its outcome counts for nothing.
    r#async: Option<bool>,
    /// `command`: like `async`, and exit code 2 wakes the model.
    async_rewake: Option<bool>,
    /// `http`: where the event is sent.
    url: Option<String>,
    /// `http`: headers; `$NAME` stands for an allowed environment variable.
    headers: Option<BTreeMap<String, String>>,
    /// `http`: environment variables that headers may use.
    allowed_env_vars: Option<Vec<String>>,
    /// `mcp_tool`: the server.
    server: Option<String>,
    /// `mcp_tool`: the tool.
    tool: Option<String>,
    /// `mcp_tool`: its input, with `${tool_input.x}`.
    input: Option<Map<String, Value>>,
    /// `prompt`, `agent`: what the model is asked; `$ARGUMENTS` stands for the event.
    prompt: Option<String>,
    /// `prompt`, `agent`: the model.
    model: Option<String>,
    /// `prompt`, `agent`: goes on although the answer was no.
    continue_on_block: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HookType")]
enum RawType {
    Command,
    Http,
    McpTool,
    Prompt,
    Agent,
}

/// What each type needs, as (type, keys).
const NEEDS: [(&str, &[&str]); 5] = [
    ("command", &["command"]),
    ("http", &["url"]),
    ("mcp_tool", &["server", "tool"]),
    ("prompt", &["prompt"]),
    ("agent", &["prompt"]),
];

fn needs_of_types(schema: &mut Schema) {
    let rules = NEEDS.iter().map(|(name, keys)| {
        let given: Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), serde_json::json!({"type": "string"}))).collect();
        serde_json::json!({
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"required": keys, "properties": given},
        })
    });
    schema.insert("allOf".to_owned(), rules.collect::<Vec<_>>().into());
}

/// What a failure of the hook itself means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// The action goes on.
    Continue,
    /// The action is blocked.
    Block,
}

/// The shell of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Shell {
    /// bash.
    Bash,
    /// PowerShell.
    Powershell,
}

/// Hooks for one event, with what they match.
#[derive(Debug, Clone, PartialEq)]
pub struct HookGroup {
    /// The event, one of [`EVENTS`].
    pub event: String,
    /// The matcher as written; none means all.
    pub matcher: Option<String>,
    /// What runs, in the order of the file.
    pub handlers: Vec<Handler>,
}

/// What runs when an event fires.
#[derive(Debug, Clone, PartialEq)]
pub struct Handler {
    /// What is done.
    pub action: Action,
    /// A permission rule that narrows it, as written.
    pub condition: Option<String>,
    /// Its time limit, where it has one of its own.
    pub timeout: Option<Duration>,
    /// What the user is shown while it runs.
    pub status_message: Option<String>,
    /// Runs once a session.
    pub once: bool,
    /// What a failure of the hook itself means, where it says so.
    pub on_failure: Option<OnFailure>,
    /// Where it stands.
    pub source: Source,
}

impl Handler {
    /// Whether both do the same; then one of them is enough.
    pub fn same_as(&self, other: &Handler) -> bool {
        let without_place = |handler: &Handler| Handler { source: self.source.clone(), ..handler.clone() };
        without_place(self) == without_place(other)
    }
}

/// What a handler does.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Runs a command.
    Command {
        /// The line for the shell, or the program where there are arguments.
        command: String,
        /// The arguments; none means that a shell reads the line.
        args: Option<Vec<String>>,
        /// The shell, where one is named.
        shell: Option<Shell>,
        /// How it runs beside the rest, if so.
        background: Option<Background>,
    },
    /// Sends the event to an address.
    Http {
        /// The address.
        url: String,
        /// Headers, as written.
        headers: BTreeMap<String, String>,
        /// Environment variables that headers may use.
        allowed_env_vars: Vec<String>,
    },
    /// Calls a tool of a server.
    McpTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// Its input, as written.
        input: Map<String, Value>,
    },
    /// Asks a model.
    Prompt {
        /// What it is asked, as written.
        prompt: String,
        /// The model, where one is named.
        model: Option<String>,
        /// Goes on although the answer was no.
        continue_on_block: bool,
    },
    /// Asks an agent with tools.
    Agent {
        /// What it is asked, as written.
        prompt: String,
        /// The model, where one is named.
        model: Option<String>,
        /// Goes on although the answer was no.
        continue_on_block: bool,
    },
}

/// How a command runs beside what goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Background {
    /// Its outcome counts for nothing.
    Quiet,
    /// Exit code 2 wakes the model.
    Rewake,
}

impl RawHandler {
    /// The handler, or what it lacks.
    pub(crate) fn understand(&self, at: Spot, source: Source) -> Result<Handler, (Spot, String)> {
        let (name, _) = NEEDS[self.r#type as usize];
        let need = |key: &str, value: &Option<String>| {
            value.clone().ok_or_else(|| (at, format!("a hook of type `{name}` needs the key `{key}`")))
        };
        let action = match self.r#type {
            RawType::Command => Action::Command {
                command: need("command", &self.command)?,
                args: self.args.clone(),
                shell: self.shell,
                background: match (self.async_rewake, self.r#async) {
                    (Some(true), _) => Some(Background::Rewake),
                    (_, Some(true)) => Some(Background::Quiet),
                    _ => None,
                },
            },
            RawType::Http => Action::Http {
                url: need("url", &self.url)?,
                headers: self.headers.clone().unwrap_or_default(),
                allowed_env_vars: self.allowed_env_vars.clone().unwrap_or_default(),
            },
            RawType::McpTool => Action::McpTool {
                server: need("server", &self.server)?,
                tool: need("tool", &self.tool)?,
                input: self.input.clone().unwrap_or_default(),
            },
            RawType::Prompt | RawType::Agent => {
                let prompt = need("prompt", &self.prompt)?;
                let (model, continue_on_block) = (self.model.clone(), self.continue_on_block == Some(true));
                match self.r#type {
                    RawType::Prompt => Action::Prompt { prompt, model, continue_on_block },
                    _ => Action::Agent { prompt, model, continue_on_block },
                }
            }
        };
        Ok(Handler {
            action,
            condition: self.condition(&source)?,
            timeout: self.timeout()?,
            status_message: self.status_message.clone(),
            once: self.once == Some(true),
            on_failure: self.on_failure,
            source,
        })
    }

    /// The rule that narrows it, which has to be one.
    fn condition(&self, source: &Source) -> Result<Option<String>, (Spot, String)> {
        let Some(Spanned { value, at }) = &self.r#if else { return Ok(None) };
        let written = WrittenRule::plain(value, List::Deny, source.clone());
        match Rule::parse(written) {
            Ok(_) => Ok(Some(value.clone())),
            Err(bad) => Err((*at, format!("`if`: bad rule `{}`: {}", cut(value), bad.what))),
        }
    }

    fn timeout(&self) -> Result<Option<Duration>, (Spot, String)> {
        let Some(Spanned { value, at }) = self.timeout else { return Ok(None) };
        let words = || {
            format!(
                "the time limit {value} is not accepted; seconds above 0, at most {HOOK_TIMEOUT_S_MAX}, are"
            )
        };
        if !(value > 0.0 && value <= HOOK_TIMEOUT_S_MAX) {
            return Err((at, words()));
        }
        Duration::try_from_secs_f64(value).map(Some).map_err(|_| (at, words()))
    }
}
