//! Hooks as settings describe them: events, groups with a matcher, handlers.
//!
//! Nothing here runs a hook; a hooks module does. What is checked is that a matcher and an `if` can be read and that
//! each handler has what its type needs, because a hook that can't be started would otherwise be noticed when it should have said no.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::de::{FromTree, SettingValue, TreeReader, expect_object};
use super::jsonc::{JsonNode, SettingsFault};
use super::known_names::closest_name;
use super::permissions::shorten_rule;
use super::table::{MergeRule, managed, own_silently, settings_section, trusted};
use crate::hooks;
use crate::rule::Rule;
use crate::source::{RuleList, SettingsSource, UnparsedRule};
use crate::trust::TrustItemKind;

settings_section! {
    /// Hooks.
    pub struct HookSettings {
        settings {
            /// Hooks by event, the weakest file's first: of several rewrites the strongest file's is the last. The same
            /// handler for the same event and matcher runs once.
            pub(crate) by_event: HookGroups = "hooks", trusted(TrustItemKind::Hook).merged(MergeRule::Hooks).by_name(1).check(check_hooks);
            /// `true` turns hooks off: in your own file those of all but the machine's owner, in a workspace's file those of
            /// the workspace.
            pub disabled: Option<SettingValue<bool>> = "disableAllHooks", own_silently().merged(MergeRule::Any);
            /// Managed settings only: `true` leaves no hooks but managed ones.
            pub managed_only: Option<SettingValue<bool>> = "allowManagedHooksOnly", managed();
            /// Addresses that `http` hooks may use, `*` for any run of characters; an empty list allows none. Not given: any.
            pub allowed_urls: Option<Vec<SettingValue<String>>> = "allowedHttpHookUrls", trusted(TrustItemKind::HookReach).concat();
            /// Environment variables that headers of `http` hooks may use. Not given: those that the hook lists.
            pub allowed_env_vars: Option<Vec<SettingValue<String>>> = "httpHookAllowedEnvVars", trusted(TrustItemKind::HookReach).concat();
        }
        derived {
            /// All groups, the weakest layer's first: of several rewrites the last one counts.
            groups: Vec<HookGroup>;
        }
    }
}

/// The key that turns hooks off.
pub(crate) const DISABLE: &str = "disableAllHooks";
/// The key that leaves managed hooks only.
pub(crate) const MANAGED_HOOKS: &str = "allowManagedHooksOnly";

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

/// Whether there is an event of this name.
pub(crate) fn is_event(name: &str) -> bool {
    EVENTS.iter().any(|(known, _)| *known == name)
}

/// The longest time limit of a hook, in seconds: a day.
pub const HOOK_TIMEOUT_S_MAX: f64 = 86_400.0;

/// Handlers, and for what they run.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HookGroup", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used; `HookGroup` reads it")]
struct GroupObject {
    /// Names of tools (`Edit|Write`) or a regular expression; empty, `*` or not given means all.
    matcher: Option<String>,
    /// What runs.
    hooks: Vec<HandlerObject>,
}

/// What runs when an event fires.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "HookHandler", extend("additionalProperties" = false), transform = needs_of_types)]
struct HandlerObject {
    /// The kind of handler.
    r#type: HandlerType,
    /// One permission rule; the hook runs only for calls that it matches.
    r#if: Option<String>,
    /// How long it may take, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = HOOK_TIMEOUT_S_MAX))]
    timeout: Option<f64>,
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
enum HandlerType {
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
            keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
        json!({
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
    pub handlers: Vec<HookHandler>,
}

/// What runs when an event fires.
#[derive(Debug, Clone, PartialEq)]
pub struct HookHandler {
    /// What is done.
    pub action: HookAction,
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
    pub source: SettingsSource,
}

impl HookHandler {
    /// Whether both do the same; then one of them is enough.
    pub fn same_as(&self, other: &HookHandler) -> bool {
        let without_place =
            |handler: &HookHandler| HookHandler { source: self.source.clone(), ..handler.clone() };
        without_place(self) == without_place(other)
    }
}

/// What a handler does.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAction {
    /// Runs a command.
    Command {
        /// The line for the shell, or the program where there are arguments.
        command: String,
        /// The arguments; none means that a shell reads the line.
        args: Option<Vec<String>>,
        /// The shell, where one is named.
        shell: Option<Shell>,
        /// How it runs beside the rest, if so.
        background: Option<BackgroundMode>,
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
pub enum BackgroundMode {
    /// Its outcome counts for nothing.
    Quiet,
    /// Exit code 2 wakes the model.
    Rewake,
}

/// Groups of hooks by event.
#[derive(Debug, Clone, Default)]
pub(crate) struct HookGroups(pub(crate) Vec<HookGroup>);

impl FromTree for HookGroups {
    fn from_tree(reader: TreeReader<'_>) -> Result<HookGroups, SettingsFault> {
        let mut all = Vec::new();
        for (event, node) in expect_object(reader.node)? {
            let groups: Vec<HookGroup> =
                reader.at(node, None).read().map_err(|fault| fault.inside(event.name.as_str()))?;
            all.extend(groups.into_iter().map(|group| HookGroup { event: event.name.clone(), ..group }));
        }
        Ok(HookGroups(all))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let groups = generator.subschema_for::<Vec<GroupObject>>();
        let events: Vec<_> = EVENTS.iter().map(|(event, _)| *event).collect();
        schemars::json_schema!({
            "type": "object", "additionalProperties": groups, "propertyNames": {"enum": events},
        })
    }
}

impl FromTree for HookGroup {
    fn from_tree(reader: TreeReader<'_>) -> Result<HookGroup, SettingsFault> {
        expect_object(reader.node)?;
        reader.note_unknown(&["matcher", "hooks"]);
        let matcher: Option<String> = reader.field("matcher")?;
        let Some(handlers) = reader.node.get("hooks") else { return reader.missing("hooks") };
        let handlers = reader.at(handlers, None).read().map_err(|fault| fault.inside("hooks"))?;
        if let (Some(matcher), Some(node)) = (&matcher, reader.node.get("matcher")) {
            hooks::check_matcher(matcher).map_err(|words| SettingsFault::new(node.at, words))?;
        }
        Ok(HookGroup { event: String::new(), matcher, handlers })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<GroupObject>()
    }
}

/// Events that there aren't are noted, and nothing below them is read.
fn check_hooks(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    for (event, node) in expect_object(reader.node)? {
        if is_event(&event.name) {
            let read = reader.at(node, None).read::<Vec<HookGroup>>();
            read.map_err(|fault| fault.inside(event.name.as_str()))?;
            continue;
        }
        let near = closest_name(&event.name, EVENTS.iter().map(|(known, _)| *known));
        let near = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        let message = format!("there is no event `{}`, so its hooks never run{near}", event.name);
        reader.context.notes.borrow_mut().push((event.at, message));
    }
    Ok(())
}

impl FromTree for HookHandler {
    fn from_tree(reader: TreeReader<'_>) -> Result<HookHandler, SettingsFault> {
        let object = HandlerObject::deserialize(reader)?;
        let place = |key: &str| reader.node.get(key).unwrap_or(reader.node);
        let source = reader.source();
        Ok(HookHandler {
            condition: object.condition(place("if"), &source)?,
            timeout: object.timeout(place("timeout"))?,
            once: object.once == Some(true),
            on_failure: object.on_failure,
            status_message: object.status_message.clone(),
            action: object.action(reader.node)?,
            source,
        })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<HandlerObject>()
    }
}

impl HandlerObject {
    /// What the handler does, or what it lacks.
    fn action(self, node: &JsonNode) -> Result<HookAction, SettingsFault> {
        let (name, _) = NEEDS[self.r#type as usize];
        let need = |key: &str, value: Option<String>| {
            value.ok_or_else(|| {
                SettingsFault::new(node.at, format!("a hook of type `{name}` needs the key `{key}`"))
            })
        };
        let (model, continue_on_block) = (self.model, self.continue_on_block == Some(true));
        Ok(match self.r#type {
            HandlerType::Command => HookAction::Command {
                command: need("command", self.command)?,
                args: self.args,
                shell: self.shell,
                background: match (self.async_rewake, self.r#async) {
                    (Some(true), _) => Some(BackgroundMode::Rewake),
                    (_, Some(true)) => Some(BackgroundMode::Quiet),
                    _ => None,
                },
            },
            HandlerType::Http => HookAction::Http {
                url: need("url", self.url)?,
                headers: self.headers.unwrap_or_default(),
                allowed_env_vars: self.allowed_env_vars.unwrap_or_default(),
            },
            HandlerType::McpTool => HookAction::McpTool {
                server: need("server", self.server)?,
                tool: need("tool", self.tool)?,
                input: self.input.unwrap_or_default(),
            },
            HandlerType::Prompt => {
                HookAction::Prompt { prompt: need("prompt", self.prompt)?, model, continue_on_block }
            }
            HandlerType::Agent => {
                HookAction::Agent { prompt: need("prompt", self.prompt)?, model, continue_on_block }
            }
        })
    }

    /// The rule that narrows it, which has to be one.
    fn condition(&self, node: &JsonNode, source: &SettingsSource) -> Result<Option<String>, SettingsFault> {
        let Some(condition) = &self.r#if else { return Ok(None) };
        let written = UnparsedRule::plain(condition, RuleList::Deny, source.clone());
        match Rule::parse(written) {
            Ok(_) => Ok(Some(condition.clone())),
            Err(bad) => Err(SettingsFault::new(
                node.at,
                format!("`if`: bad rule `{}`: {}", shorten_rule(condition), bad.what),
            )),
        }
    }

    fn timeout(&self, node: &JsonNode) -> Result<Option<Duration>, SettingsFault> {
        let Some(value) = self.timeout else { return Ok(None) };
        let limit = (value > 0.0 && value <= HOOK_TIMEOUT_S_MAX).then(|| Duration::try_from_secs_f64(value));
        limit.and_then(Result::ok).map(Some).ok_or_else(|| {
            let message = format!(
                "the time limit {value} is not accepted; seconds above 0, at most {HOOK_TIMEOUT_S_MAX}, are"
            );
            SettingsFault::new(node.at, message)
        })
    }
}
