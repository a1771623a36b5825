//! Settings as rows: each value under its key, in the order of the table of settings.
//!
//! Values that a session may change (rules, the mode, the repetition guard) are shown from the typed
//! settings, all others from the merged files.

use std::collections::BTreeMap;
use std::path::Path;

use haft_policy::settings::{
    McpServer, McpSettings, McpTransport, RemoteProtocol, RepetitionGuard, SettingValue, WithheldReason,
};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};
use haft_tools::config::Setting;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::loaded_settings::LoadedSettings;
use crate::mcp::secrets::{mask_arguments, without_secrets};

const HIDDEN: &str = "(hidden)";

/// One effective value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingRow {
    /// The full key, such as `permissions.allow`.
    pub key: String,
    /// The value; a likely secret is `"(hidden)"`.
    pub value: Value,
    /// The scope.
    pub scope: SettingScope,
    /// The file; null for a flag.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<u32>,
    /// Why the value has no effect; null if it has.
    pub left_out: Option<String>,
}

/// The scopes that settings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingScope {
    /// Managed settings of the machine's owner.
    Managed,
    /// A flag, or a file that a flag names.
    CommandLine,
    /// The workspace's settings for this user.
    Local,
    /// The workspace's settings.
    Project,
    /// The user's settings.
    User,
    /// The user's "always" answers in this workspace.
    Answer,
}

impl From<SourceScope> for SettingScope {
    fn from(scope: SourceScope) -> SettingScope {
        match scope {
            SourceScope::Managed => SettingScope::Managed,
            SourceScope::CommandLine => SettingScope::CommandLine,
            SourceScope::Local => SettingScope::Local,
            SourceScope::Project => SettingScope::Project,
            SourceScope::User => SettingScope::User,
            SourceScope::Session => SettingScope::Answer,
        }
    }
}

impl SettingScope {
    /// Returns the name for display.
    pub fn word(self) -> &'static str {
        match self {
            SettingScope::Managed => "managed",
            SettingScope::CommandLine => "command line",
            SettingScope::Local => "local",
            SettingScope::Project => "project",
            SettingScope::User => "user",
            SettingScope::Answer => "your answer",
        }
    }
}

/// Returns the JSON Schema of a settings file.
pub fn settings_schema() -> Value {
    haft_policy::settings::schema()
}

/// Returns every effective value with its origin, for tools of the session. Secrets are hidden.
pub fn in_force(given: &LoadedSettings) -> Vec<Setting> {
    let place = |row: &SettingRow| match (&row.file, row.line) {
        (Some(file), Some(line)) => format!("{}:{line}", given.places.show(Path::new(file))),
        (Some(file), None) => given.places.show(Path::new(file)),
        (None, _) => row.scope.word().to_owned(),
    };
    let setting = |row: SettingRow| {
        let from = place(&row);
        Setting { key: row.key, value: row.value, from, left_out: row.left_out }
    };
    setting_rows(given).into_iter().map(setting).collect()
}

/// Returns all rows, in the order of the keys in the documentation.
pub fn setting_rows(given: &LoadedSettings) -> Vec<SettingRow> {
    let settings = &given.loaded.settings;
    let permissions = &settings.permissions;
    let mut rows = SettingRows(Vec::new());
    for (key, entries) in settings.tree.entries() {
        let rules = |list: RuleList| {
            permissions.rules.iter().chain(&given.loaded.remembered).filter(move |rule| rule.list == list)
        };
        match key.as_str() {
            "permissions.defaultMode" => {
                rows.set(&key, permissions.default_mode.as_ref(), |mode| json!(mode.to_string()));
            }
            "permissions.deny" => rows.rules(&key, rules(RuleList::Deny)),
            "permissions.ask" => rows.rules(&key, rules(RuleList::Ask)),
            "permissions.allow" => rows.rules(&key, rules(RuleList::Allow)),
            "permissions.additionalDirectories" => {
                let dirs = permissions.additional_directories.iter();
                dirs.for_each(|dir| rows.set(&key, Some(dir), |dir| json!(dir.display().to_string())));
            }
            "repetitionGuard" => rows.set(&key, settings.repetition_guard.as_ref(), |guard| match guard {
                RepetitionGuard::Off => json!(false),
                RepetitionGuard::After(turns) => json!(turns),
            }),
            _ => entries.into_iter().for_each(|entry| {
                let value = without_secret_values(&entry.key, entry.value);
                rows.add(&entry.key, value, &entry.source);
            }),
        }
        if key == "deniedMcpServers" {
            rows.servers(&settings.mcp);
        }
    }
    rows.0
}

/// Hides likely secrets in a value: a variable, a header, a part of an address.
fn without_secret_values(key: &str, mut value: Value) -> Value {
    if key.strip_prefix("env.").is_some_and(is_secret) {
        return json!(HIDDEN);
    }
    if key.starts_with("hooks.") {
        if let Some(url) = value["url"].as_str().map(without_secrets) {
            value["url"] = json!(url);
        }
        if let Some(headers) = value.get_mut("headers").and_then(Value::as_object_mut) {
            for (name, header) in headers {
                if header.as_str().is_some_and(|text| is_secret_setting(name, text)) {
                    *header = json!(HIDDEN);
                }
            }
        }
    }
    value
}

struct SettingRows(Vec<SettingRow>);

impl SettingRows {
    fn add(&mut self, key: &str, value: Value, source: &SettingsSource) {
        self.0.push(SettingRow {
            key: key.to_owned(),
            value,
            scope: source.scope.into(),
            file: source.file.as_ref().map(|file| file.display().to_string()),
            line: source.line,
            left_out: None,
        });
    }

    fn set<T>(&mut self, key: &str, at: Option<&SettingValue<T>>, show: impl Fn(&T) -> Value) {
        if let Some(SettingValue { value, source }) = at {
            self.add(key, show(value), source);
        }
    }

    fn rules<'a>(&mut self, key: &str, rules: impl Iterator<Item = &'a UnparsedRule>) {
        rules.for_each(|rule| self.add(key, rule_value(rule), &rule.source));
    }

    fn servers(&mut self, mcp: &McpSettings) {
        for server in &mcp.servers {
            self.add(&format!("mcpServers.{}", server.name), self::server_value(server), &server.source);
        }
        for (server, why) in &mcp.withheld {
            self.add(&format!("mcpServers.{}", server.name), self::server_value(server), &server.source);
            let why = match why {
                WithheldReason::Untrusted => "the workspace is not trusted".to_owned(),
                WithheldReason::Disabled(by) => format!("turned off by {by}"),
                WithheldReason::Hidden(by) => format!("{by} names one that is called the same"),
            };
            if let Some(row) = self.0.last_mut() {
                row.left_out = Some(why);
            }
        }
    }
}

/// Returns a rule in its written form: its text alone, or an object if there is more.
fn rule_value(rule: &UnparsedRule) -> Value {
    let mut object = Map::new();
    let lists = [("match", &rule.matches), ("not_match", &rule.not_matches)];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        object.insert(key.to_owned(), json!(list));
    }
    if let Some(message) = &rule.message {
        object.insert("message".to_owned(), json!(message));
    }
    if object.is_empty() {
        return json!(rule.rule);
    }
    object.insert("rule".to_owned(), json!(rule.rule));
    Value::Object(object)
}

fn server_value(server: &McpServer) -> Value {
    let mut value = match &server.transport {
        McpTransport::Stdio { command, args, env } => {
            let mut value = json!({"command": command, "args": mask_arguments(args)});
            if !env.is_empty() {
                value["env"] = shown_headers(env);
            }
            value
        }
        McpTransport::Remote { kind, url, headers, headers_helper, oauth } => {
            let kind = match kind {
                RemoteProtocol::Http => "http",
                RemoteProtocol::Sse => "sse",
                RemoteProtocol::Ws => "ws",
            };
            let mut value = json!({"type": kind, "url": without_secrets(url)});
            if !headers.is_empty() {
                value["headers"] = shown_headers(headers);
            }
            if let Some(helper) = headers_helper {
                value["headersHelper"] = json!(helper);
            }
            if oauth.is_some() {
                value["oauth"] = json!(HIDDEN);
            }
            value
        }
    };
    if let Some(limit) = server.timeout_ms {
        value["timeout"] = json!(limit);
    }
    if let Some(always) = server.always_load {
        value["alwaysLoad"] = json!(always);
    }
    value
}

/// Returns values by name, with likely secrets hidden. A value that only names a variable is not a secret.
fn shown_headers(given: &BTreeMap<String, String>) -> Value {
    let shown = given.iter().map(|(name, value)| {
        (name.clone(), json!(if is_secret_setting(name, value) { HIDDEN } else { value }))
    });
    Value::Object(shown.collect())
}

/// Returns whether the value of a name is a secret, and not the name of a variable that contains one.
fn is_secret_setting(name: &str, value: &str) -> bool {
    is_secret(name) && !value.contains('$')
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE"]
        .iter()
        .any(|part| name.contains(part))
}
