//! Types of settings without a file of their own: rules, variables, effects, the classifier, the repetition
//! guard.

use std::collections::BTreeMap;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;

use super::de::{FromTree, SettingValue, TreeReader, expect_object, read_by_serde};
use super::jsonc::{JsonValue, SettingsFault, TextPosition};
use crate::source::{RuleList, UnparsedRule};

/// The only value that some keys accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Disable")]
pub enum DisableKeyword {
    /// Forbids the mode.
    Disable,
}

/// A rule of a settings file.
#[derive(Debug, Clone)]
pub(crate) struct RuleEntry {
    /// The rule. Its list is set by the reader.
    pub(crate) rule: UnparsedRule,
    /// The location of its text.
    pub(crate) at: TextPosition,
    pub(crate) layer: u16,
}

/// A rule with examples that are checked when it is loaded, and a message for the model.
#[derive(Deserialize, JsonSchema)]
#[serde(expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
struct RuleObject {
    /// The rule's text, such as `Bash(npm test)`.
    rule: String,
    /// Inputs that the rule must match. A string is a value of the tool's primary field, an object is the
    /// whole input.
    r#match: Option<Vec<Value>>,
    /// Inputs that the rule must not match.
    not_match: Option<Vec<Value>>,
    /// The message for the model when the rule denies a call.
    message: Option<String>,
}

impl FromTree for RuleEntry {
    fn from_tree(reader: TreeReader<'_>) -> Result<RuleEntry, SettingsFault> {
        let (node, source) = (reader.node, reader.source());
        let (rule, at) = match &node.json {
            JsonValue::String(text) => (UnparsedRule::plain(text, RuleList::Deny, source), node.at),
            JsonValue::Object(_) => {
                let RuleObject { rule, r#match, not_match, message } = RuleObject::deserialize(reader)?;
                let (matches, not_matches) = (r#match.unwrap_or_default(), not_match.unwrap_or_default());
                let at = node.get("rule").map_or(node.at, |rule| rule.at);
                (UnparsedRule { rule, list: RuleList::Deny, matches, not_matches, message, source }, at)
            }
            _ => {
                return reader.reject("a rule such as \"Bash(npm test)\", or an object with the key `rule`,");
            }
        };
        Ok(RuleEntry { rule, at, layer: node.layer })
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RuleObject>();
        json_schema!({
            "description": "A rule such as `Bash(npm test)`, or an object with the rule, its examples and words.",
            "anyOf": [{"type": "string"}, object],
        })
    }
}

/// The value of an environment variable. Numbers and booleans are used as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvValue(pub String);

impl FromTree for EnvValue {
    fn from_tree(reader: TreeReader<'_>) -> Result<EnvValue, SettingsFault> {
        match &reader.node.json {
            JsonValue::String(text) => Ok(EnvValue(text.clone())),
            JsonValue::Bool(value) => Ok(EnvValue(value.to_string())),
            JsonValue::Number(number) => Ok(EnvValue(match (number.is_f64(), number.as_f64()) {
                (true, Some(number)) => number.to_string(),
                _ => number.to_string(),
            })),
            _ => reader.reject("a string"),
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"description": "The value of the variable.", "type": ["string", "number", "boolean"]})
    }
}

/// The effects of a tool call. `{name}` is replaced by the argument of that name. If all are missing, it
/// has no effects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct DeclaredEffects {
    /// Files that the tool reads.
    pub reads: Vec<String>,
    /// Files that the tool creates or changes.
    pub writes: Vec<String>,
    /// Files that the tool removes.
    pub deletes: Vec<String>,
    /// Commands that the tool runs.
    pub runs: Vec<String>,
    /// Hosts that the tool reaches.
    pub reaches: Vec<String>,
}

/// The effects that the user declares for a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolEffects {
    /// The tool's name, or a glob.
    pub tool: String,
    /// The effects.
    pub effects: DeclaredEffects,
}

/// Effects of tools by name or glob, the strongest file's first.
#[derive(Debug, Clone, Default)]
pub struct DeclaredTools(Vec<SettingValue<ToolEffects>>);

impl Deref for DeclaredTools {
    type Target = [SettingValue<ToolEffects>];

    fn deref(&self) -> &[SettingValue<ToolEffects>] {
        &self.0
    }
}

impl FromTree for DeclaredTools {
    fn from_tree(reader: TreeReader<'_>) -> Result<DeclaredTools, SettingsFault> {
        let each = expect_object(reader.node)?.iter().map(|(tool, node)| {
            let read = reader.at(node, Some(&tool.name)).read::<SettingValue<DeclaredEffects>>();
            let SettingValue { value: effects, source } =
                read.map_err(|fault| fault.inside(tool.name.as_str()))?;
            Ok(SettingValue { value: ToolEffects { tool: tool.name.clone(), effects }, source })
        });
        each.collect::<Result<_, _>>().map(DeclaredTools)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        <BTreeMap<String, DeclaredEffects>>::schema(generator)
    }
}

/// A command that decides on calls.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(extend("additionalProperties" = false))]
pub struct Classifier {
    /// The program and its arguments, without a shell.
    #[schemars(extend("minItems" = 1))]
    pub command: Vec<String>,
    /// The timeout, in milliseconds.
    #[schemars(extend("minimum" = 1))]
    pub timeout_ms: Option<u64>,
}

impl Classifier {
    /// Checks what the types don't.
    pub(crate) fn check(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
        let Classifier { command, timeout_ms } = Classifier::deserialize(reader)?;
        match (command.is_empty(), timeout_ms) {
            (true, _) => Err(SettingsFault::new(reader.node.at, "`command` names a program at least")),
            (_, Some(0)) => Err(SettingsFault::new(reader.node.at, "`timeoutMs` is at least 1")),
            _ => Ok(()),
        }
    }
}

read_by_serde!(DisableKeyword, DeclaredEffects, Classifier);

/// When repetitions of the same call ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepetitionGuard {
    /// The call is denied.
    Off,
    /// After this many consecutive turns, at least 2.
    After(u32),
}

impl Default for RepetitionGuard {
    fn default() -> RepetitionGuard {
        RepetitionGuard::After(3)
    }
}

impl RepetitionGuard {
    /// Returns whether this guard asks at least as early as the other.
    pub(crate) fn is_within(self, other: RepetitionGuard) -> bool {
        match (self, other) {
            (_, RepetitionGuard::Off) => true,
            (RepetitionGuard::Off, _) => false,
            (RepetitionGuard::After(turns), RepetitionGuard::After(others)) => turns <= others,
        }
    }

    pub(crate) fn from_json(json: &JsonValue) -> Option<RepetitionGuard> {
        match json {
            JsonValue::Bool(false) => Some(RepetitionGuard::Off),
            JsonValue::Number(turns) => {
                let turns = u32::try_from(turns.as_u64()?).ok()?;
                (2..=1000).contains(&turns).then_some(RepetitionGuard::After(turns))
            }
            _ => None,
        }
    }
}

impl FromTree for RepetitionGuard {
    fn from_tree(reader: TreeReader<'_>) -> Result<RepetitionGuard, SettingsFault> {
        let read = RepetitionGuard::from_json(&reader.node.json);
        read.map_or_else(|| reader.reject("a whole number from 2 to 1000, or `false`,"), Ok)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"type": "integer", "minimum": 2, "maximum": 1000}, {"const": false}]})
    }
}
