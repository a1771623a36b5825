//! Settings as rows: each value under the key by which it is written.
//!
//! Named fields are listed one by one on purpose: a value that is added to the settings and forgotten here would be one
//! that works and that nobody can see.

use std::collections::BTreeMap;
use std::path::Path;

use haft::ports::Setting;
use haft_policy::settings::{
    Action, At, Background, Handler, HookSettings, McpSettings, OnFailure, PermissionSettings, Remote,
    RepetitionGuard, Server, ServerMatch, Settings, Shell, Transport, Withheld,
};
use haft_policy::source::{List, Scope, Source, WrittenRule};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::loaded_settings::LoadedSettings;
use crate::mcp::secrets::{masked, without_secrets};

const HIDDEN: &str = "(hidden)";

/// One value that counts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingRow {
    /// The key, with those around it, as in `permissions.allow`.
    pub key: String,
    /// The value; one that looks like a secret is `"(hidden)"`.
    pub value: Value,
    /// The kind of place that it comes from.
    pub scope: SettingScope,
    /// The file that it comes from; null for a flag.
    pub file: Option<String>,
    /// The line in the file.
    pub line: Option<u32>,
    /// Why it doesn't count after all; null if it does.
    pub left_out: Option<String>,
}

/// The kinds of places that settings come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingScope {
    /// The machine's owner.
    Managed,
    /// A flag, or a file that a flag names.
    CommandLine,
    /// The workspace's, for this user.
    Local,
    /// The workspace's.
    Project,
    /// The user's own.
    User,
    /// What the user answered with "always" in this workspace.
    Answer,
}

impl From<Scope> for SettingScope {
    fn from(scope: Scope) -> SettingScope {
        match scope {
            Scope::Managed => SettingScope::Managed,
            Scope::CommandLine => SettingScope::CommandLine,
            Scope::Local => SettingScope::Local,
            Scope::Project => SettingScope::Project,
            Scope::User => SettingScope::User,
            Scope::Session => SettingScope::Answer,
        }
    }
}

impl SettingScope {
    /// The name, as people read it.
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

/// The JSON Schema of a settings file.
pub fn schema() -> Value {
    haft_policy::settings::schema()
}

/// Every value that counts, with its place, for whoever asks in a session. Secrets are hidden.
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
    rows(given).into_iter().map(setting).collect()
}

/// All rows, in the order of the keys in the documents.
pub fn rows(given: &LoadedSettings) -> Vec<SettingRow> {
    let loaded = &given.loaded;
    let Settings {
        permissions,
        hooks,
        env,
        effects,
        sandbox,
        mcp,
        classifier,
        repetition_guard,
        run,
        tool_search,
        serve,
        web,
        journal,
        warnings: _,
    } = &loaded.settings;
    let mut rows = SettingRows(Vec::new());
    rows.permissions(permissions, &loaded.remembered);
    rows.hooks(hooks);
    for (name, At { value, source }) in env {
        let value = if is_secret(name) { HIDDEN } else { value };
        rows.add(&format!("env.{name}"), json!(value), source);
    }
    for At { value, source } in effects {
        let given = [
            ("reads", &value.effects.reads),
            ("writes", &value.effects.writes),
            ("deletes", &value.effects.deletes),
            ("runs", &value.effects.runs),
            ("reaches", &value.effects.reaches),
        ];
        let given = given.into_iter().filter(|(_, list)| !list.is_empty());
        let given: Map<String, Value> = given.map(|(key, list)| (key.to_owned(), json!(list))).collect();
        rows.add(&format!("effects.{}", value.tool), Value::Object(given), source);
    }
    for (key, At { value, source }) in sandbox.each() {
        rows.add(&key, value, &source);
    }
    rows.mcp(mcp);
    if let Some(At { value, source }) = tool_search {
        let given = [
            ("enabled", value.enabled.map(|value| json!(value))),
            ("above", value.above.map(|value| json!(value))),
            ("percent", value.percent.map(|value| json!(value))),
            ("native", value.native.map(|value| json!(value))),
        ];
        let given = given.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        rows.add("toolSearch", Value::Object(given.collect()), source);
    }
    if let Some(At { value, source }) = classifier {
        let mut given = json!({"command": value.command});
        if let Some(limit) = value.timeout_ms {
            given["timeoutMs"] = limit.into();
        }
        rows.add("classifier", given, source);
    }
    if let Some(At { value, source }) = repetition_guard {
        let value = match value {
            RepetitionGuard::Off => json!(false),
            RepetitionGuard::After(turns) => json!(turns),
        };
        rows.add("repetitionGuard", value, source);
    }
    for (key, At { value, source }) in run.each() {
        rows.add(&key, value, &source);
    }
    for (key, At { value, source }) in serve.each() {
        rows.add(key, value, &source);
    }
    for (key, At { value, source }) in journal.each() {
        rows.add(&key, value, &source);
    }
    for (key, At { value, source }) in web.each() {
        rows.add(key, value, &source);
    }
    rows.0
}

struct SettingRows(Vec<SettingRow>);

impl SettingRows {
    fn add(&mut self, key: &str, value: Value, source: &Source) {
        self.0.push(SettingRow {
            key: key.to_owned(),
            value,
            scope: source.scope.into(),
            file: source.file.as_ref().map(|file| file.display().to_string()),
            line: source.line,
            left_out: None,
        });
    }

    /// A key that is as good as `value` wherever it holds.
    fn says(&mut self, key: &str, value: Value, source: &Option<Source>) {
        if let Some(source) = source {
            self.add(key, value, source);
        }
    }

    fn flag(&mut self, key: &str, given: &Option<At<bool>>) {
        if let Some(At { value, source }) = given {
            self.add(key, json!(value), source);
        }
    }

    fn texts(&mut self, key: &str, given: &[At<String>]) {
        given.iter().for_each(|At { value, source }| self.add(key, json!(value), source));
    }

    /// A list that restricts: an empty one allows nothing, which has no place of its own.
    fn restriction(&mut self, key: &str, given: &Option<Vec<At<String>>>) {
        self.texts(key, given.as_deref().unwrap_or_default());
    }

    fn permissions(&mut self, permissions: &PermissionSettings, remembered: &[WrittenRule]) {
        let PermissionSettings {
            rules,
            default_mode,
            additional_directories,
            bypass_disabled,
            auto_disabled,
            block_reads_outside,
            block_writes_outside,
            deny_instead_of_prompting,
            managed_rules_only,
        } = permissions;
        if let Some(At { value, source }) = default_mode {
            self.add("permissions.defaultMode", json!(value.to_string()), source);
        }
        for (list, key) in [(List::Deny, "deny"), (List::Ask, "ask"), (List::Allow, "allow")] {
            let of_list = rules.iter().chain(remembered).filter(|rule| rule.list == list);
            for rule in of_list {
                self.add(&format!("permissions.{key}"), written(rule), &rule.source);
            }
        }
        for At { value, source } in additional_directories {
            self.add("permissions.additionalDirectories", json!(value.display().to_string()), source);
        }
        self.says("permissions.disableBypassPermissionsMode", json!("disable"), bypass_disabled);
        self.says("permissions.disableAutoMode", json!("disable"), auto_disabled);
        self.says("permissions.blockReadsOutsideWorkingDirectories", json!(true), block_reads_outside);
        self.says("permissions.blockWritesOutsideWorkingDirectories", json!(true), block_writes_outside);
        self.says("permissions.denyInsteadOfPrompting", json!(true), deny_instead_of_prompting);
        self.says("permissions.allowManagedPermissionRulesOnly", json!(true), managed_rules_only);
    }

    fn hooks(&mut self, hooks: &HookSettings) {
        let HookSettings { groups, disabled, allowed_urls, allowed_env_vars } = hooks;
        self.says("disableAllHooks", json!(true), disabled);
        for group in groups {
            for handler in &group.handlers {
                let mut value = self::handler(handler);
                if let Some(matcher) = &group.matcher {
                    value["matcher"] = json!(matcher);
                }
                self.add(&format!("hooks.{}", group.event), value, &handler.source);
            }
        }
        self.restriction("allowedHttpHookUrls", allowed_urls);
        self.restriction("httpHookAllowedEnvVars", allowed_env_vars);
    }

    fn mcp(&mut self, mcp: &McpSettings) {
        let McpSettings {
            servers,
            withheld,
            enable_all_project,
            enabled,
            disabled,
            allowed,
            denied,
            options,
        } = mcp;
        for (key, At { value, source }) in options.each() {
            self.add(&key, value, &source);
        }
        self.flag("enableAllProjectMcpServers", enable_all_project);
        self.texts("enabledMcpjsonServers", enabled);
        self.texts("disabledMcpjsonServers", disabled);
        for At { value, source } in allowed.iter().flatten() {
            self.add("allowedMcpServers", which(value), source);
        }
        for At { value, source } in denied {
            self.add("deniedMcpServers", which(value), source);
        }
        for server in servers {
            self.add(&format!("mcpServers.{}", server.name), self::server(server), &server.source);
        }
        for (server, why) in withheld {
            self.add(&format!("mcpServers.{}", server.name), self::server(server), &server.source);
            let why = match why {
                Withheld::Untrusted => "the workspace is not trusted".to_owned(),
                Withheld::Disabled(by) => format!("turned off by {by}"),
                Withheld::Hidden(by) => format!("{by} names one that is called the same"),
            };
            if let Some(row) = self.0.last_mut() {
                row.left_out = Some(why);
            }
        }
    }
}

/// A rule as it would be written: its text alone, or an object where there is more.
fn written(rule: &WrittenRule) -> Value {
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

fn handler(handler: &Handler) -> Value {
    let mut value = match &handler.action {
        Action::Command { command, args, shell, background } => {
            let mut value = json!({"type": "command", "command": command});
            if let Some(args) = args {
                value["args"] = json!(args);
            }
            if let Some(shell) = shell {
                value["shell"] = json!(match shell {
                    Shell::Bash => "bash",
                    Shell::Powershell => "powershell",
                });
            }
            if let Some(background) = background {
                let key = match background {
                    Background::Quiet => "async",
                    Background::Rewake => "asyncRewake",
                };
                value[key] = json!(true);
            }
            value
        }
        Action::Http { url, headers, allowed_env_vars } => {
            let mut value = json!({"type": "http", "url": without_secrets(url)});
            if !headers.is_empty() {
                value["headers"] = shown_headers(headers);
            }
            if !allowed_env_vars.is_empty() {
                value["allowedEnvVars"] = json!(allowed_env_vars);
            }
            value
        }
        Action::McpTool { server, tool, input } => {
            json!({"type": "mcp_tool", "server": server, "tool": tool, "input": input})
        }
        Action::Prompt { prompt, model, continue_on_block } => {
            asked("prompt", prompt, model.as_ref(), *continue_on_block)
        }
        Action::Agent { prompt, model, continue_on_block } => {
            asked("agent", prompt, model.as_ref(), *continue_on_block)
        }
    };
    if let Some(condition) = &handler.condition {
        value["if"] = json!(condition);
    }
    if let Some(limit) = handler.timeout {
        value["timeout"] = json!(limit.as_secs_f64());
    }
    if let Some(words) = &handler.status_message {
        value["statusMessage"] = json!(words);
    }
    if handler.once {
        value["once"] = json!(true);
    }
    if let Some(on_failure) = handler.on_failure {
        value["onFailure"] = json!(match on_failure {
            OnFailure::Continue => "continue",
            OnFailure::Block => "block",
        });
    }
    value
}

fn asked(kind: &str, prompt: &str, model: Option<&String>, continue_on_block: bool) -> Value {
    let mut value = json!({"type": kind, "prompt": prompt});
    if let Some(model) = model {
        value["model"] = json!(model);
    }
    if continue_on_block {
        value["continueOnBlock"] = json!(true);
    }
    value
}

fn server(server: &Server) -> Value {
    let mut value = match &server.transport {
        Transport::Stdio { command, args, env } => {
            let mut value = json!({"command": command, "args": masked(args)});
            if !env.is_empty() {
                value["env"] = shown_headers(env);
            }
            value
        }
        Transport::Remote { kind, url, headers, headers_helper, oauth } => {
            let kind = match kind {
                Remote::Http => "http",
                Remote::Sse => "sse",
                Remote::Ws => "ws",
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

fn which(server: &ServerMatch) -> Value {
    match server {
        ServerMatch::Name(name) => json!({"serverName": name}),
        ServerMatch::Command(command) => json!({"serverCommand": command}),
        ServerMatch::Url(url) => json!({"serverUrl": url}),
    }
}

/// Values by name, those hidden that look like secrets. One that only names a variable is no secret.
fn shown_headers(given: &BTreeMap<String, String>) -> Value {
    let shown = given.iter().map(|(name, value)| {
        let hidden = is_secret(name) && !value.contains('$');
        (name.clone(), json!(if hidden { HIDDEN } else { value }))
    });
    Value::Object(shown.collect())
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE"]
        .iter()
        .any(|part| name.contains(part))
}
