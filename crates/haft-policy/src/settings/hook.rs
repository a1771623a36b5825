//! Hooks in settings: events, groups with a matcher, and handlers.
//!
//! This file runs no hook; the hooks module does. It checks that a matcher and an `if` can be parsed and
//! that each handler has the keys that its type needs. Otherwise a broken hook would be noticed only when
//! it should have denied a call.

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
            /// Hooks by event, the weakest file's first, so that the strongest file's rewrite is the last.
            /// The same handler for the same event and matcher runs once.
            pub(crate) by_event: HookGroups = "hooks", trusted(TrustItemKind::Hook).merged(MergeRule::Hooks).by_name(1).check(check_hooks);
            /// `true` disables hooks: in your own file all but managed ones, in a workspace's file those of
            /// the workspace.
            pub disabled: Option<SettingValue<bool>> = "disableAllHooks", own_silently().merged(MergeRule::Any);
            /// Managed settings only: `true` disables all hooks but managed ones.
            pub managed_only: Option<SettingValue<bool>> = "allowManagedHooksOnly", managed();
            /// Addresses that `http` hooks may use, with `*` for any run of characters. An empty list
            /// allows none. Default: any.
            pub allowed_urls: Option<Vec<SettingValue<String>>> = "allowedHttpHookUrls", trusted(TrustItemKind::HookReach).concat();
            /// Environment variables that headers of `http` hooks may use. Default: those that the hook
            /// lists.
            pub allowed_env_vars: Option<Vec<SettingValue<String>>> = "httpHookAllowedEnvVars", trusted(TrustItemKind::HookReach).concat();
        }
        derived {
            /// All groups, the weakest layer's first: the last rewrite counts.
            groups: Vec<HookGroup>;
        }
    }
}

/// The key that disables hooks.
pub(crate) const DISABLE: &str = "disableAllHooks";
/// The key that disables all hooks but managed ones.
pub(crate) const MANAGED_HOOKS: &str = "allowManagedHooksOnly";

/// All events, with whether haft fires them.
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

/// Returns whether there is an event of this name.
pub(crate) fn is_event(name: &str) -> bool {
    EVENTS.iter().any(|(known, _)| *known == name)
}

/// The longest timeout of a hook, in seconds: a day.
pub const HOOK_TIMEOUT_S_MAX: f64 = 86_400.0;

/// A group of handlers with a matcher.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "HookGroup", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used; `HookGroup` reads it")]
struct GroupObject {
    /// Names of tools (`Edit|Write`) or a regular expression. Empty, `*` or missing matches all.
    matcher: Option<String>,
    /// The handlers.
    hooks: Vec<HandlerObject>,
}

/// A handler that runs when an event fires.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "HookHandler", extend("additionalProperties" = false), transform = needs_of_types)]
struct HandlerObject {
    /// The type of the handler.
    r#type: HandlerType,
    /// One permission rule. The hook runs only for calls that it matches.
    r#if: Option<String>,
    /// The timeout, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = HOOK_TIMEOUT_S_MAX))]
    timeout: Option<f64>,
    /// What the user is shown while it runs.
    status_message: Option<String>,
    /// Runs once per session.
    once: Option<bool>,
    /// The effect of a failure of the hook itself: `block` (default for hooks that can deny) or `continue`.
    on_failure: Option<OnFailure>,
    /// `command`: the program if `args` is given, otherwise a command line for the shell.
    command: Option<String>,
    /// `command`: the arguments of the program, which then runs without a shell.
    args: Option<Vec<String>>,
    /// `command`: the shell.
    shell: Option<Shell>,
    /// `command`: runs in the background. Its outcome has no effect.
    r#async: Option<bool>,
    /// `command`: like `async`, and exit code 2 wakes the model.
    async_rewake: Option<bool>,
    /// `http`: the address to which the event is sent.
    url: Option<String>,
    /// `http`: the headers. `$NAME` is replaced by an allowed environment variable.
    headers: Option<BTreeMap<String, String>>,
    /// `http`: environment variables that headers may use.
    allowed_env_vars: Option<Vec<String>>,
    /// `mcp_tool`: the server.
    server: Option<String>,
    /// `mcp_tool`: the tool.
    tool: Option<String>,
    /// `mcp_tool`: the tool's input, with placeholders such as `${tool_input.x}`.
    input: Option<Map<String, Value>>,
    /// `prompt`, `agent`: the question to the model. `$ARGUMENTS` is replaced by the event.
    prompt: Option<String>,
    /// `prompt`, `agent`: the model.
    model: Option<String>,
    /// `prompt`, `agent`: continues even if the answer was no.
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

/// The required keys of each type.
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

/// The effect of a failure of the hook itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// The action continues.
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

/// The hooks for one event and matcher.
#[derive(Debug, Clone, PartialEq)]
pub struct HookGroup {
    /// The event, one of [`EVENTS`].
    pub event: String,
    /// The matcher as written; `None` matches all.
    pub matcher: Option<String>,
    /// The handlers, in the order of the file.
    pub handlers: Vec<HookHandler>,
}

/// A handler that runs when an event fires.
#[derive(Debug, Clone, PartialEq)]
pub struct HookHandler {
    /// The action.
    pub action: HookAction,
    /// A permission rule that restricts the handler, as written.
    pub condition: Option<String>,
    /// The timeout, if the handler sets one.
    pub timeout: Option<Duration>,
    /// What the user is shown while it runs.
    pub status_message: Option<String>,
    /// Runs once per session.
    pub once: bool,
    /// The effect of a failure of the handler itself, if it is set.
    pub on_failure: Option<OnFailure>,
    /// The origin.
    pub source: SettingsSource,
}

impl HookHandler {
    /// Returns whether both do the same, so that one of them is enough.
    pub fn same_as(&self, other: &HookHandler) -> bool {
        let without_place =
            |handler: &HookHandler| HookHandler { source: self.source.clone(), ..handler.clone() };
        without_place(self) == without_place(other)
    }
}

/// The action of a handler.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAction {
    /// Adds a command.
    Command {
        /// The program if there are arguments, otherwise a command line for the shell.
        command: String,
        /// The arguments. With `None` a shell runs the command line.
        args: Option<Vec<String>>,
        /// The shell, if one is named.
        shell: Option<Shell>,
        /// How the command runs in the background, if it does.
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
        /// The server's name.
        server: String,
        /// The tool's name.
        tool: String,
        /// Its input, as written.
        input: Map<String, Value>,
    },
    /// Asks a model.
    Prompt {
        /// The question, as written.
        prompt: String,
        /// The model, if one is named.
        model: Option<String>,
        /// Continues even if the answer was no.
        continue_on_block: bool,
    },
    /// Asks an agent with tools.
    Agent {
        /// The question, as written.
        prompt: String,
        /// The model, if one is named.
        model: Option<String>,
        /// Continues even if the answer was no.
        continue_on_block: bool,
    },
}

/// How a command runs in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackgroundMode {
    /// Its outcome has no effect.
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

/// Unknown events are reported, and nothing below them is read.
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
    /// Returns the handler's action.
    ///
    /// # Errors
    /// Returns a fault if a required key is missing.
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

    /// Returns the rule that restricts the handler.
    ///
    /// # Errors
    /// Returns a fault if the rule is invalid.
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
