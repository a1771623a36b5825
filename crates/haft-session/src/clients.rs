//! Clients of a server: the tools of each client, its rules and mode, and its authentication.
//!
//! Settings name clients (`serve.clients`), each with its own view. The default view is for connections
//! without a client's token. Each view has its own sandbox, so the kernel enforces the view's deny rules.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use haft::Registry;
use haft_policy::settings::{RepetitionGuard, ServeClient, SettingValue, Settings};
pub use haft_policy::settings::{ServeOauth, ServeSettings};
use haft_policy::source::{RuleList, SettingsSource, SourceScope, UnparsedRule};

use crate::SessionError;
use crate::assembly::SessionAssembler;
use crate::text::one_line;

/// The name of the default view.
pub const DEFAULT_CLIENT: &str = "default";

/// The tools that every server with MCP servers has.
const SERVER_TOOLS: [&str; 5] =
    ["GetMcpPrompt", "ListMcpPrompts", "ListMcpResources", "ReadMcpResource", "WaitForMcpServers"];

/// The tools and rules of a client.
pub struct ClientView {
    assembler: SessionAssembler,
    /// Lists of patterns. A tool is offered if one pattern of each list matches its name.
    tools: Vec<Vec<String>>,
}

impl ClientView {
    /// Returns the assembler for sessions of clients with this view.
    pub fn assembler(&self) -> &SessionAssembler {
        &self.assembler
    }

    /// Returns the tools of a registry that belong to this view.
    pub fn filter_tools(&self, registry: &Registry) -> Registry {
        if self.tools.is_empty() {
            registry.clone()
        } else {
            registry.only(|entry| self.has_tool(entry.tool().name()))
        }
    }

    /// Returns whether the view has a tool of this name.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().all(|patterns| patterns.iter().any(|pattern| matches_pattern(pattern, name)))
    }
}

/// The views of all clients.
pub struct ClientViews {
    default: Arc<ClientView>,
    others: BTreeMap<String, Arc<ClientView>>,
}

/// Why views can't be created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientViewError {
    /// Settings don't name the client of the default view. Contains the clients that they name.
    UnknownClient(Vec<String>),
    /// A pattern of the caller matches no tool.
    UnknownTool(UnknownTool),
    /// Rules or sandbox settings of a view can't be used.
    Session(SessionError),
}

/// A pattern that matches no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownTool {
    /// The pattern.
    pub pattern: String,
    /// Tools with a similar name.
    pub closest: Vec<String>,
}

impl fmt::Display for UnknownTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no tool is called that; ")?;
        if self.closest.is_empty() {
            return f.write_str(
                "names as `haft tools` shows them, with `*` for any run of characters, are accepted",
            );
        }
        let closest: Vec<String> = self.closest.iter().map(|name| format!("`{name}`")).collect();
        write!(f, "closest: {}", closest.join(", "))
    }
}

impl fmt::Display for ClientViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientViewError::UnknownClient(known) if known.is_empty() => {
                f.write_str("no client is called that; the settings name none (`serve.clients`)")
            }
            ClientViewError::UnknownClient(known) => {
                let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "no client is called that; there are {}", known.join(", "))
            }
            ClientViewError::UnknownTool(unknown) => unknown.fmt(f),
            ClientViewError::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ClientViewError {}

impl From<SessionError> for ClientViewError {
    fn from(error: SessionError) -> ClientViewError {
        ClientViewError::Session(error)
    }
}

impl ClientViews {
    /// Creates the views of the settings. The default view is that of the client `default_like`, if it is
    /// given. Views contain only tools that match a pattern in `tools`; an empty list matches all.
    ///
    /// # Errors
    /// Returns an error if a client or tool is unknown, or if the rules of a client can't be used.
    pub fn new(
        assembler: &SessionAssembler,
        default_like: Option<&str>,
        tools: &[String],
    ) -> Result<ClientViews, ClientViewError> {
        let clients = &assembler.settings().serve.clients;
        let find = |name: &str| clients.iter().find(|client| client.value.name == name);
        let default = match default_like {
            Some(name) => Some(find(name).ok_or_else(|| {
                let known = clients.iter().map(|client| client.value.name.clone()).collect();
                ClientViewError::UnknownClient(known)
            })?),
            None => find(DEFAULT_CLIENT),
        };
        for pattern in tools {
            check_pattern(assembler, pattern).map_err(ClientViewError::UnknownTool)?;
        }
        for SettingValue { value, source } in clients {
            for pattern in value.tools.iter().flatten() {
                if let Err(unknown) = check_pattern(assembler, pattern) {
                    let warning = format!("{source}: `tools`, `{pattern}`: {unknown}");
                    assembler.options().notices.warn(one_line(&warning));
                }
            }
        }
        let default = client_view(assembler, default, tools)?;
        let mut others = BTreeMap::new();
        for client in clients.iter().filter(|client| client.value.name != DEFAULT_CLIENT) {
            others.insert(client.value.name.clone(), client_view(assembler, Some(client), tools)?);
        }
        Ok(ClientViews { default, others })
    }

    /// Returns the view of connections without a client's token.
    pub fn default_view(&self) -> &Arc<ClientView> {
        &self.default
    }

    /// Returns the view of a client.
    pub fn view_of(&self, client: Option<&str>) -> &Arc<ClientView> {
        client.and_then(|client| self.others.get(client)).unwrap_or(&self.default)
    }

    /// Returns all views.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ClientView>> {
        std::iter::once(&self.default).chain(self.others.values())
    }
}

impl SessionAssembler {
    /// Returns an assembler with the rules and the mode of a client, and its own sandbox.
    fn for_client(
        &self,
        client: Option<&SettingValue<ServeClient>>,
    ) -> Result<SessionAssembler, SessionError> {
        if let Some(SettingValue { value, source }) = client
            && let Some(mode) = value.mode
            && let Some(by) = self.settings().permissions.forbids(mode)
        {
            return Err(SessionError::settings(format!("{source}: the mode `{mode}` is forbidden by {by}")));
        }
        let describe = |warning: String| match client {
            Some(client) if client.value.name != DEFAULT_CLIENT => {
                format!("{}: {warning}", client.value.name)
            }
            _ => warning,
        };
        self.with_settings(|settings| apply_client(settings, client), describe)
    }

    /// Returns the settings of a server: its clients, hosts and origins.
    pub fn serve_settings(&self) -> &ServeSettings {
        &self.settings().serve
    }

    /// Returns the user's home directory, for paths that begin with `~/`.
    pub fn home(&self) -> Option<&Path> {
        self.loaded().places.home.as_deref()
    }
}

fn client_view(
    assembler: &SessionAssembler,
    client: Option<&SettingValue<ServeClient>>,
    tools: &[String],
) -> Result<Arc<ClientView>, SessionError> {
    let mut lists: Vec<Vec<String>> = Vec::new();
    if !tools.is_empty() {
        lists.push(tools.to_vec());
    }
    lists.extend(client.and_then(|client| client.value.tools.clone()));
    Ok(Arc::new(ClientView { assembler: assembler.for_client(client)?, tools: lists }))
}

/// Applies a client's rules and mode to the settings.
fn apply_client(settings: &mut Settings, client: Option<&SettingValue<ServeClient>>) {
    // Calls arrive one by one, and it is unknown which of them belong to one turn of a model. So a client
    // that polls isn't stuck.
    if settings.repetition_guard.is_none() {
        let source = SettingsSource::new(SourceScope::User, "/");
        settings.repetition_guard = Some(SettingValue { value: RepetitionGuard::Off, source });
    }
    let Some(SettingValue { value: client, source }) = client else { return };
    let permissions = &mut settings.permissions;
    if let Some(mode) = client.mode {
        permissions.default_mode = Some(SettingValue { value: mode, source: source.clone() });
    }
    let may_allow = permissions.managed_rules_only.is_none();
    for (list, rules) in
        [(RuleList::Deny, &client.deny), (RuleList::Ask, &client.ask), (RuleList::Allow, &client.allow)]
    {
        if list != RuleList::Allow || may_allow {
            let written = rules.iter().map(|rule| UnparsedRule::plain(rule, list, source.clone()));
            permissions.rules.extend(written);
        }
    }
}

/// Checks that a pattern matches a tool of the session, or may match one of an MCP server.
fn check_pattern(assembler: &SessionAssembler, pattern: &str) -> Result<(), UnknownTool> {
    let own: Vec<&str> = assembler.registry().entries().map(|entry| entry.tool().name()).collect();
    let servers: Vec<String> = assembler.server_names().map(|server| format!("mcp__{server}__")).collect();
    // The part before the first `*` identifies the server. The server's tools are known only later.
    let prefix = pattern.split('*').next().unwrap_or_default();
    let is_of_server = |server: &String| {
        if pattern.contains('*') {
            prefix.starts_with(server.as_str()) || server.starts_with(prefix)
        } else {
            pattern.starts_with(server.as_str())
        }
    };
    let is_known = own.iter().any(|name| matches_pattern(pattern, name))
        || servers.iter().any(is_of_server)
        || (!servers.is_empty() && SERVER_TOOLS.iter().any(|name| matches_pattern(pattern, name)));
    if is_known {
        return Ok(());
    }
    let letters = |name: &str| name.chars().flat_map(char::to_lowercase).take(64).collect::<Vec<char>>();
    let wanted = letters(pattern);
    let closest = own.iter().filter(|name| haft::spelling::edit_distance(&wanted, &letters(name)) <= 2);
    let closest = closest.take(3).map(|name| (*name).to_owned()).collect();
    Err(UnknownTool { pattern: pattern.to_owned(), closest })
}

/// Returns whether a pattern, with `*` for any run of characters, matches a whole name.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut remaining) = name.strip_prefix(prefix) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match remaining.find(part) {
            Some(at) => remaining = &remaining[at + part.len()..],
            None => return false,
        }
    }
    remaining.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("Read", "Read", true),
            ("Read", "ReadMcpResource", false),
            ("mcp__time__*", "mcp__time__now", true),
            ("mcp__time__*", "mcp__timer__now", false),
            ("*", "anything", true),
            ("mcp__*__get_*", "mcp__a__get_b", true),
            ("mcp__*__get", "mcp__a__get_b", false),
            ("a*a", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
