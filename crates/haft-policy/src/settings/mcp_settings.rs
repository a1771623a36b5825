//! Settings of MCP servers and of the search for tools: which servers are approved, how they are treated, when tools are
//! searched for.

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

/// The largest time limit, in milliseconds: a day.
const MS_MAX: u64 = 24 * 60 * 60 * 1_000;

settings_section! {
    /// MCP servers.
    pub struct McpSettings {
        settings {}
        sections {
            /// How they are treated.
            options: McpOptions = "mcp";
        }
        settings {
            /// `true` approves every server of the workspace's `.mcp.json`.
            pub enable_all_project: Option<SettingValue<bool>> = "enableAllProjectMcpServers", trusted(TrustItemKind::ServerApproval).loosens(true_loosens);
            /// Servers of `.mcp.json` that are approved, by name.
            pub enabled: Vec<SettingValue<String>> = "enabledMcpjsonServers", trusted(TrustItemKind::ServerApproval).concat();
            /// Servers of `.mcp.json` that are not started, by name.
            pub disabled: Vec<SettingValue<String>> = "disabledMcpjsonServers", anyone().concat();
            /// The only servers that may be used. Not given: any.
            pub allowed: Option<Vec<SettingValue<ServerMatch>>> = "allowedMcpServers", trusted(TrustItemKind::ServerApproval).concat();
            /// Servers that are never used; stronger than `allowedMcpServers`.
            pub denied: Vec<SettingValue<ServerMatch>> = "deniedMcpServers", anyone().concat();
        }
        derived {
            /// Servers that may be started, the strongest scope first; no two have one name.
            servers: Vec<McpServer>;
            /// Servers that may not, and why.
            withheld: Vec<(McpServer, WithheldReason)>;
        }
    }
}

settings_section! {
    /// How MCP servers are treated. Not from a workspace, which would speak for its own servers.
    own "it says what servers may"
    pub struct McpOptions {
        settings {
            /// After how long a call goes on in the background, in milliseconds; 0 keeps it in the foreground. Default: 120000.
            pub background_after_ms: Option<u64> = "backgroundAfterMs", own().between(0, MS_MAX);
            /// How long a server may take until its tools are known, in milliseconds. Default: 30000.
            pub connect_timeout_ms: Option<u64> = "connectTimeoutMs", own().between(1, MS_MAX);
            /// What single servers may, by name.
            pub servers: BTreeMap<String, ServerOptions> = "servers", own().by_name(2).check(check_servers);
        }
    }
}

/// What a server may, and how it is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "McpServerOptions", extend("additionalProperties" = false))]
pub struct ServerOptions {
    /// Whether its process runs in the sandbox. Default: only one that came with the workspace does.
    pub sandbox: Option<bool>,
    /// Whether it may ask the model, each time with your yes. Default: no.
    pub sampling: Option<bool>,
    /// Whether its tools that say they only look really do: such calls run beside others. Default: no.
    pub read_only_hints: Option<bool>,
    /// How many of its calls run at once. Default: 16.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: Option<u64>,
    /// How long a call may go without a sign of life, in milliseconds. Default: five minutes over the network, else thirty.
    #[schemars(range(min = 1))]
    pub idle_timeout_ms: Option<u64>,
}

/// When a model is given only the names of tools, and finds the rest by `ToolSearch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "ToolSearch", extend("additionalProperties" = false))]
pub struct ToolSearchSettings {
    /// Whether it ever is. Default: yes.
    pub enabled: Option<bool>,
    /// With more tools than this. Default: 60.
    pub above: Option<u64>,
    /// Or where their definitions take more than this share of the model's window, in percent. Default: 10.
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u64>,
    /// Whether the provider's own form of it is used. Default: where its own address is asked.
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
    /// What the types alone don't check.
    pub(crate) fn check(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
        match reader.read::<ToolSearchSettings>()?.percent {
            Some(percent) if !(1..=100).contains(&percent) => {
                Err(SettingsFault::new(reader.node.at, "`percent` is between 1 and 100"))
            }
            _ => Ok(()),
        }
    }
}

/// Which servers are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerMatch {
    /// By name.
    Name(String),
    /// By the whole command.
    Command(Vec<String>),
    /// By address, with `*`.
    Url(String),
}

/// Which servers are meant; one of the keys.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "ServerMatch", extend("additionalProperties" = false, "minProperties" = 1, "maxProperties" = 1))]
struct ServerMatchObject {
    /// The server's name.
    server_name: Option<String>,
    /// The command that starts it, with all arguments.
    #[schemars(extend("minItems" = 1))]
    server_command: Option<Vec<String>>,
    /// Its address, `*` for any run of characters.
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

/// Why the lists of servers rule one out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// An entry of `deniedMcpServers` means it.
    Denied(SettingsSource),
    /// There is a list `allowedMcpServers`, and nothing in it means it.
    NotAllowed,
}

/// Why a server may not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithheldReason {
    /// The workspace that names it isn't trusted.
    Untrusted,
    /// Settings turn it off.
    Disabled(SettingsSource),
    /// A stronger file names one that is called the same.
    Hidden(SettingsSource),
}

impl McpSettings {
    /// Whether the user or the trusted workspace approves a server of `.mcp.json` by its name.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.enable_all_project.as_ref().is_some_and(|all| all.value)
            || self.enabled.iter().any(|enabled| enabled.value == name)
    }

    /// Sorts the servers that files name into those that may be started and those that may not.
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

    /// Whether the lists rule a server out that is called so and reached so: by a command with its arguments, or by an
    /// address. What is denied is denied, whatever allows it. Where a list allows commands, a process needs one of them,
    /// and its name alone is not enough; so it is with addresses.
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

/// Whether a pattern, with `*` for any run of characters, is the whole of a text.
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
