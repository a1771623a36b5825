//! The settings file as it is written: one type for each object in it.
//!
//! The published JSON Schema is made from these types and the loader reads with them, so the two agree. Doc comments
//! here are what an editor shows. What the keys *mean* once several files are put together is in `merge.rs`.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::de::{Spanned, Table};
use super::hook::RawGroup;
use super::journal::RawJournal;
use super::jsonc::Spot;
use super::run::RawRun;
use super::sandbox::RawSandbox;
use super::serve::RawServe;
use super::servers::{RawMcp, ToolSearchSettings};
use super::web::RawWeb;
use haft::ports::PermissionMode;

/// Settings of `haft`: what tools may do, hooks, and what else a workspace, a user or a machine sets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct RawSettings {
    /// The schema of this file, for editors.
    #[serde(rename = "$schema")]
    pub(crate) schema: Option<String>,
    /// Rules about calls, and the mode.
    pub(crate) permissions: Option<RawPermissions>,
    /// Hooks by event.
    pub(crate) hooks: Option<Table<Vec<Spanned<RawGroup>>>>,
    /// `true` turns hooks off. In a workspace it reaches the workspace's own hooks only; never the machine owner's.
    pub(crate) disable_all_hooks: Option<Spanned<bool>>,
    /// Managed settings only: `true` leaves no hooks but managed ones.
    pub(crate) allow_managed_hooks_only: Option<Spanned<bool>>,
    /// Addresses that `http` hooks may use, `*` for any run of characters. Not given: any.
    pub(crate) allowed_http_hook_urls: Option<Vec<Spanned<String>>>,
    /// Environment variables that headers of `http` hooks may use. Not given: those that the hook lists.
    pub(crate) http_hook_allowed_env_vars: Option<Vec<Spanned<String>>>,
    /// Environment variables for the commands that tools run.
    pub(crate) env: Option<Table<EnvValue>>,
    /// What tools touch that don't say so themselves, by name or glob.
    pub(crate) effects: Option<Table<DeclaredEffects>>,
    /// The sandbox of commands.
    pub(crate) sandbox: Option<Spanned<RawSandbox>>,
    /// `true` approves every server of the workspace's `.mcp.json`.
    pub(crate) enable_all_project_mcp_servers: Option<Spanned<bool>>,
    /// Servers of `.mcp.json` that are approved, by name.
    pub(crate) enabled_mcpjson_servers: Option<Vec<Spanned<String>>>,
    /// Servers of `.mcp.json` that are not started, by name.
    pub(crate) disabled_mcpjson_servers: Option<Vec<Spanned<String>>>,
    /// The only servers that may be used. Not given: any.
    pub(crate) allowed_mcp_servers: Option<Vec<Spanned<RawServerMatch>>>,
    /// Servers that are never used.
    pub(crate) denied_mcp_servers: Option<Vec<Spanned<RawServerMatch>>>,
    /// A command that decides on calls before the user is asked: it gets the call as JSON and answers allow, deny or
    /// ask.
    pub(crate) classifier: Option<Spanned<Classifier>>,
    /// In how many turns in a row the same call may come before it asks; `false` never asks. Default: 3.
    pub(crate) repetition_guard: Option<Spanned<RepetitionGuard>>,
    /// The model that `haft run` asks. Not from a workspace.
    pub(crate) run: Option<Spanned<RawRun>>,
    /// How MCP servers are treated. Not from a workspace.
    pub(crate) mcp: Option<Spanned<RawMcp>>,
    /// When a model is given only the names of tools, and finds the rest by `ToolSearch`.
    pub(crate) tool_search: Option<Spanned<ToolSearchSettings>>,
    /// Who may use `haft serve`, and for what. Not from a workspace.
    pub(crate) serve: Option<Spanned<RawServe>>,
    /// Who searches the web, and whose pages need no question. Not from a workspace.
    pub(crate) web: Option<Spanned<RawWeb>>,
    /// How sessions are kept. Not from a workspace.
    pub(crate) journal: Option<Spanned<RawJournal>>,
}

/// Rules about calls, and the mode.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub(crate) struct RawPermissions {
    /// Calls that run unasked.
    pub(crate) allow: Option<Vec<Spanned<RawRule>>>,
    /// Calls that always ask.
    pub(crate) ask: Option<Vec<Spanned<RawRule>>>,
    /// Calls that never run.
    pub(crate) deny: Option<Vec<Spanned<RawRule>>>,
    /// The mode of a session. A workspace can only make it tighter.
    pub(crate) default_mode: Option<Spanned<PermissionMode>>,
    /// Directories beside the working directory.
    pub(crate) additional_directories: Option<Vec<Spanned<String>>>,
    /// `disable` forbids the mode `bypassPermissions`.
    pub(crate) disable_bypass_permissions_mode: Option<Spanned<Disable>>,
    /// `disable` forbids the mode `auto`.
    pub(crate) disable_auto_mode: Option<Spanned<Disable>>,
    /// `true` denies reads outside of the working directories; nothing lifts it.
    pub(crate) block_reads_outside_working_directories: Option<Spanned<bool>>,
    /// `true` denies writes outside of the working directories; nothing lifts it.
    pub(crate) block_writes_outside_working_directories: Option<Spanned<bool>>,
    /// `true` denies what would ask.
    pub(crate) deny_instead_of_prompting: Option<Spanned<bool>>,
    /// Managed settings only: `true` leaves no allow rules but managed ones.
    pub(crate) allow_managed_permission_rules_only: Option<Spanned<bool>>,
}

/// The one word that some keys take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Disable {
    /// Forbids it.
    Disable,
}

/// A rule: its text, or an object with examples and words.
#[derive(Debug, Clone)]
pub(crate) struct RawRule {
    /// Its text, and where that stands; none where the whole rule is its text.
    pub(crate) rule: String,
    pub(crate) at: Option<Spot>,
    pub(crate) matches: Vec<Value>,
    pub(crate) not_matches: Vec<Value>,
    pub(crate) message: Option<String>,
}

/// A rule with examples that are checked when it is loaded, and words for the model.
#[derive(JsonSchema)]
#[schemars(rename = "RuleObject", extend("additionalProperties" = false))]
#[expect(dead_code, reason = "only its schema is used; `RawRule` reads it")]
struct RuleObject {
    /// The rule's text, such as `Bash(npm test)`.
    rule: String,
    /// Inputs that the rule must match: a string stands for the tool's primary field, an object for the whole input.
    #[serde(default)]
    r#match: Option<Vec<Value>>,
    /// Inputs that the rule must not match.
    #[serde(default)]
    not_match: Option<Vec<Value>>,
    /// Words for the model when the rule denies.
    message: Option<String>,
}

impl<'de> Deserialize<'de> for RawRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RawRule, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = RawRule;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rule such as \"Bash(npm test)\", or an object with the key `rule`,")
            }

            fn visit_str<E: serde::de::Error>(self, rule: &str) -> Result<RawRule, E> {
                let (matches, not_matches) = (Vec::new(), Vec::new());
                Ok(RawRule { rule: rule.to_owned(), at: None, matches, not_matches, message: None })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawRule, A::Error> {
                let mut rule: Option<Spanned<String>> = None;
                let (mut matches, mut not_matches, mut message) = (None, None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "rule" => rule = Some(map.next_value()?),
                        "match" => matches = map.next_value()?,
                        "not_match" => not_matches = map.next_value()?,
                        "message" => message = map.next_value()?,
                        _ => _ = map.next_value::<serde::de::IgnoredAny>()?,
                    }
                }
                let rule = rule.ok_or_else(|| A::Error::missing_field("rule"))?;
                let examples = |given: Option<Vec<Value>>| given.unwrap_or_default();
                let (matches, not_matches) = (examples(matches), examples(not_matches));
                let Spanned { value: rule, at } = rule;
                Ok(RawRule { rule, at: Some(at), matches, not_matches, message })
            }
        }
        // Named as a struct so that keys which it doesn't have are noted.
        deserializer.deserialize_struct("RawRule", &["rule", "match", "not_match", "message"], Visit)
    }
}

impl JsonSchema for RawRule {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rule".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RuleObject>();
        json_schema!({
            "description": "A rule such as `Bash(npm test)`, or an object with the rule, its examples and words.",
            "anyOf": [{"type": "string"}, object],
        })
    }
}

/// The value of an environment variable; numbers and booleans are taken as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EnvValue(pub(crate) String);

impl<'de> Deserialize<'de> for EnvValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EnvValue, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = EnvValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, value: &str) -> Result<EnvValue, E> {
                Ok(EnvValue(value.to_owned()))
            }

            fn visit_bool<E>(self, value: bool) -> Result<EnvValue, E> {
                Ok(EnvValue(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<EnvValue, E> {
                Ok(EnvValue(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<EnvValue, E> {
                Ok(EnvValue(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<EnvValue, E> {
                Ok(EnvValue(value.to_string()))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl JsonSchema for EnvValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EnvValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The value of the variable.",
            "type": ["string", "number", "boolean"],
        })
    }
}

/// What a call of a tool touches. `{name}` stands for the argument of that name. Nothing given: it touches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct DeclaredEffects {
    /// Files that it reads.
    pub reads: Vec<String>,
    /// Files that it creates or changes.
    pub writes: Vec<String>,
    /// Files that it removes.
    pub deletes: Vec<String>,
    /// Commands that it runs.
    pub runs: Vec<String>,
    /// Hosts that it reaches.
    pub reaches: Vec<String>,
}

/// Which servers are meant; one of the keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false, "minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct RawServerMatch {
    /// The server's name.
    #[schemars(with = "String")]
    pub(crate) server_name: Option<String>,
    /// The command that starts it, with all arguments.
    #[schemars(with = "Vec<String>", extend("minItems" = 1))]
    pub(crate) server_command: Option<Vec<String>>,
    /// Its address, `*` for any run of characters.
    #[schemars(with = "String")]
    pub(crate) server_url: Option<String>,
}

/// A command that decides on calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct Classifier {
    /// The program and its arguments; no shell.
    #[schemars(extend("minItems" = 1))]
    pub command: Vec<String>,
    /// How long it may take, in milliseconds.
    #[schemars(extend("minimum" = 1))]
    pub timeout_ms: Option<u64>,
}

/// When the same call, turn after turn, asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepetitionGuard {
    /// Never.
    Off,
    /// In this many turns in a row, at least 2.
    After(u32),
}

impl Default for RepetitionGuard {
    fn default() -> RepetitionGuard {
        RepetitionGuard::After(3)
    }
}

impl RepetitionGuard {
    /// Whether it asks at least as soon as the other.
    pub(crate) fn is_within(self, other: RepetitionGuard) -> bool {
        match (self, other) {
            (_, RepetitionGuard::Off) => true,
            (RepetitionGuard::Off, _) => false,
            (RepetitionGuard::After(turns), RepetitionGuard::After(others)) => turns <= others,
        }
    }
}

impl<'de> Deserialize<'de> for RepetitionGuard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RepetitionGuard, D::Error> {
        struct Visit;
        impl Visitor<'_> for Visit {
            type Value = RepetitionGuard;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 2 to 1000, or `false`,")
            }

            fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<RepetitionGuard, E> {
                if value {
                    return Err(E::invalid_value(serde::de::Unexpected::Bool(true), &self));
                }
                Ok(RepetitionGuard::Off)
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<RepetitionGuard, E> {
                match u32::try_from(value) {
                    Ok(turns @ 2..=1000) => Ok(RepetitionGuard::After(turns)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Unsigned(value), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

impl JsonSchema for RepetitionGuard {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RepetitionGuard".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 2, "maximum": 1000}, {"const": false}]})
    }
}
