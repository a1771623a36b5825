//! Settings of MCP servers and of tool search: which servers are approved, their options, and when tool
//! search is used.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use super::de::{FromTree, SettingValue, TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::layer::SettingsLayers;
use super::mcp_servers::McpServer;
use super::merge::TrustStatus;
use super::table::{anyone, own, settings_section, true_loosens, trusted};
use crate::source::SettingsSource;
use crate::trust::TrustItemKind;

/// The longest timeout, in milliseconds: a day.
const MS_MAX: u64 = 24 * 60 * 60 * 1_000;

settings_section! {
    /// MCP servers.
    pub struct McpSettings {
        settings {}
        sections {
            /// Options of servers.
            options: McpOptions = "mcp";
        }
        settings {
            /// `true` approves every server of the workspace's `.mcp.json`.
            pub enable_all_project: Option<SettingValue<bool>> = "enableAllProjectMcpServers", trusted(TrustItemKind::ServerApproval).loosens(true_loosens);
            /// Approved servers of `.mcp.json`, by name.
            pub enabled: Vec<SettingValue<String>> = "enabledMcpjsonServers", trusted(TrustItemKind::ServerApproval).concat();
            /// Servers of `.mcp.json` that are not started, by name.
            pub disabled: Vec<SettingValue<String>> = "disabledMcpjsonServers", anyone().concat();
            /// The only servers that may be used. Default: any.
            pub allowed: Option<Vec<SettingValue<ServerMatch>>> = "allowedMcpServers", trusted(TrustItemKind::ServerApproval).concat();
            /// Servers that are never used. Overrides `allowedMcpServers`.
            pub denied: Vec<SettingValue<ServerMatch>> = "deniedMcpServers", anyone().concat();
        }
        derived {
            /// Servers that may be started, the strongest scope first, with unique names.
            servers: Vec<McpServer>;
            /// Servers that may not be started, with the reason.
            withheld: Vec<(McpServer, WithheldReason)>;
        }
    }
}

settings_section! {
    /// Options of MCP servers. Not from a workspace, which would set them for its own servers.
    own "it says what servers may"
    pub struct McpOptions {
        settings {
            /// The time after which a call continues in the background, in milliseconds; 0 keeps it in the
            /// foreground. Default: 120000.
            pub background_after_ms: Option<u64> = "backgroundAfterMs", own().between(0, MS_MAX);
            /// The timeout until a server's tools are known, in milliseconds. Default: 30000.
            pub connect_timeout_ms: Option<u64> = "connectTimeoutMs", own().between(1, MS_MAX);
            /// Options of single servers, by name.
            pub servers: BTreeMap<String, ServerOptions> = "servers", own().by_name(2).check(check_servers);
        }
    }
}

/// Options of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "McpServerOptions", extend("additionalProperties" = false))]
pub struct ServerOptions {
    /// Whether the server's process runs in the sandbox. Default: only for servers of the workspace.
    pub sandbox: Option<bool>,
    /// Whether the server may request answers of the model, each time with your approval. Default: no.
    pub sampling: Option<bool>,
    /// Whether its tools' claims to be read-only are trusted: such calls run in parallel. Default: no.
    pub read_only_hints: Option<bool>,
    /// The maximum number of concurrent calls. Default: 16.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: Option<u64>,
    /// The longest time without a message from the server during a call, in milliseconds. Default: five
    /// minutes over the network, otherwise thirty.
    #[schemars(range(min = 1))]
    pub idle_timeout_ms: Option<u64>,
}

/// When the model receives only the names of tools and finds the rest with `ToolSearch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "ToolSearch", extend("additionalProperties" = false))]
pub struct ToolSearchSettings {
    /// Whether tool search may be used. Default: yes.
    pub enabled: Option<bool>,
    /// The number of tools above which it is used. Default: 60.
    pub above: Option<u64>,
    /// The share of the model's context window, in percent, above which tool definitions are deferred.
    /// Default: 10.
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u64>,
    /// Whether the provider's own tool search is used. Default: only at the provider's own address.
    pub native: Option<bool>,
}

read_by_serde!(ServerOptions, ToolSearchSettings);

fn check_servers(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    for options in reader.read::<BTreeMap<String, ServerOptions>>()?.values() {
        if options.idle_timeout_ms.is_some_and(|limit| limit == 0 || limit > MS_MAX) {
            return Err(SettingsFault::new(
                reader.node.at,
                format!("`idleTimeoutMs` is between 1 and {MS_MAX}"),
            ));
        }
        if options.concurrency.is_some_and(|calls| calls == 0 || calls > 1_000) {
            return Err(SettingsFault::new(reader.node.at, "`concurrency` is between 1 and 1000"));
        }
    }
    Ok(())
}

impl ToolSearchSettings {
    /// Checks what the types don't.
    pub(crate) fn check(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
        match reader.read::<ToolSearchSettings>()?.percent {
            Some(percent) if !(1..=100).contains(&percent) => {
                Err(SettingsFault::new(reader.node.at, "`percent` is between 1 and 100"))
            }
            _ => Ok(()),
        }
    }
}

/// Selects servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMatch {
    /// By name.
    Name(String),
    /// By the whole command.
    Command(Vec<String>),
    /// By address, with `*`.
    Url(String),
}

/// Selects servers by exactly one of the keys.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "ServerMatch", extend("additionalProperties" = false, "minProperties" = 1, "maxProperties" = 1))]
struct ServerMatchObject {
    /// The server's name.
    server_name: Option<String>,
    /// The command that starts it, with all arguments.
    #[schemars(extend("minItems" = 1))]
    server_command: Option<Vec<String>>,
    /// The server's address, with `*` for any run of characters.
    server_url: Option<String>,
}

impl FromTree for ServerMatch {
    fn from_tree(reader: TreeReader<'_>) -> Result<ServerMatch, SettingsFault> {
        let ServerMatchObject { server_name, server_command, server_url } = Deserialize::deserialize(reader)?;
        match (server_name, server_command, server_url) {
            (Some(name), None, None) => Ok(ServerMatch::Name(name)),
            (None, Some(command), None) if !command.is_empty() => Ok(ServerMatch::Command(command)),
            (None, None, Some(url)) => Ok(ServerMatch::Url(url)),
            _ => Err(SettingsFault::new(
                reader.node.at,
                "exactly one of `serverName`, `serverCommand` and `serverUrl` is accepted, and not an empty one",
            )),
        }
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<ServerMatchObject>()
    }
}

/// Why the lists of servers exclude one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// An entry of `deniedMcpServers` matches it.
    Denied(SettingsSource),
    /// There is a list `allowedMcpServers`, and no entry matches it.
    NotAllowed,
}

/// Why a server may not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithheldReason {
    /// The workspace that names it isn't trusted.
    Untrusted,
    /// Settings disable it.
    Disabled(SettingsSource),
    /// A stronger file names a server with the same name.
    Hidden(SettingsSource),
}

impl McpSettings {
    /// Returns whether the user or the trusted workspace approves a server of `.mcp.json` by its name.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.enable_all_project.as_ref().is_some_and(|all| all.value)
            || self.enabled.iter().any(|enabled| enabled.value == name)
    }

    /// Divides the servers that files name into those that may be started and those that may not.
    pub(crate) fn complete(&mut self, layers: &SettingsLayers, standing: TrustStatus) {
        for server in &layers.servers {
            let is_off = |name: &&SettingValue<String>| server.of_workspace && name.value == server.name;
            let stronger = self.servers.iter().find(|known| known.name == server.name);
            let why = match (self.disabled.iter().find(is_off), stronger) {
                (Some(off), _) => WithheldReason::Disabled(off.source.clone()),
                (None, _) if server.of_workspace && standing == TrustStatus::Untrusted => {
                    WithheldReason::Untrusted
                }
                (None, Some(stronger)) => WithheldReason::Hidden(stronger.source.clone()),
                (None, None) => {
                    self.servers.push(server.clone());
                    continue;
                }
            };
            self.withheld.push((server.clone(), why));
        }
    }

    /// Returns whether the lists exclude a server with this name, and with this command and arguments or
    /// this address. A deny entry overrides every allow entry. If the allow-list has commands, a process
    /// has to match one of them; its name alone is not enough. The same holds for addresses.
    pub fn refuses(
        &self,
        name: &str,
        command: Option<&[String]>,
        url: Option<&str>,
    ) -> Option<RefusalReason> {
        let means = |which: &ServerMatch| match which {
            ServerMatch::Name(known) => known == name,
            ServerMatch::Command(known) => command.is_some_and(|command| command == known.as_slice()),
            ServerMatch::Url(pattern) => url.is_some_and(|url| matches_pattern(pattern, url)),
        };
        if let Some(denied) = self.denied.iter().find(|denied| means(&denied.value)) {
            return Some(RefusalReason::Denied(denied.source.clone()));
        }
        let allowed = self.allowed.as_ref()?;
        let by_command = allowed.iter().any(|at| matches!(at.value, ServerMatch::Command(_)));
        let by_url = allowed.iter().any(|at| matches!(at.value, ServerMatch::Url(_)));
        let needs_more = (command.is_some() && by_command) || (url.is_some() && by_url);
        let enough = |which: &ServerMatch| !needs_more || !matches!(which, ServerMatch::Name(_));
        let fits = allowed.iter().any(|at| enough(&at.value) && means(&at.value));
        (!fits).then_some(RefusalReason::NotAllowed)
    }
}

/// Returns whether a pattern, with `*` for any run of characters, matches a whole text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut rest = rest;
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceScope;

    #[test]
    fn a_star_is_any_run_of_characters_and_the_pattern_is_the_whole() {
        let check = |pattern: &str, url: &str, fits: bool| {
            assert_eq!(matches_pattern(pattern, url), fits, "{pattern} {url}")
        };
        check("https://a.example/mcp", "https://a.example/mcp", true);
        check("https://a.example/mcp", "https://a.example/mcp2", false);
        check("https://*.example/*", "https://a.b.example/x/y", true);
        check("https://*.example/*", "https://example/x", false);
        check("*", "anything", true);
        check("*a*a", "aa", true);
        check("*a*a", "a", false);
        check("a*a", "a", false);
        check("", "", true);
        check("", "x", false);
    }

    #[test]
    fn denied_is_denied_and_a_name_is_not_enough_beside_commands() {
        let at =
            |value: ServerMatch| SettingValue { value, source: SettingsSource::new(SourceScope::User, "/") };
        let command = vec!["npx".to_owned(), "x".to_owned()];
        let mut mcp = McpSettings::default();
        assert_eq!(mcp.refuses("a", Some(&command), None), None);
        mcp.allowed = Some(Vec::new());
        assert_eq!(mcp.refuses("a", Some(&command), None), Some(RefusalReason::NotAllowed));
        mcp.allowed = Some(vec![at(ServerMatch::Name("a".to_owned()))]);
        assert_eq!(mcp.refuses("a", Some(&command), None), None);
        mcp.allowed.as_mut().unwrap().push(at(ServerMatch::Command(vec!["npx".to_owned()])));
        assert_eq!(
            mcp.refuses("a", Some(&command), None),
            Some(RefusalReason::NotAllowed),
            "not the whole command"
        );
        assert_eq!(mcp.refuses("a", None, Some("https://x")), None, "no address is asked for");
        mcp.denied = vec![at(ServerMatch::Url("https://*".to_owned()))];
        assert!(matches!(mcp.refuses("a", None, Some("https://x")), Some(RefusalReason::Denied(_))));
    }
}
