//! Servers that the user added with `haft mcp add`, or with Claude Code, which stores them in
//! `~/.claude.json`. Both files have the same form: servers for all workspaces, and servers by workspace.
//!
//! Nothing else in such a file is used. Most of it is skipped without being kept, since the file grows with
//! every project that was ever opened. So its servers know their file but not their line.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::jsonc::{JsonNode, JsonValue, NO_SPOT, SETTINGS_DEPTH_MAX, TextPosition};
use super::mcp_servers::{self, McpServer, SERVERS_MAX};
use super::read_file::{self, UnreadableFile};
use crate::source::{SettingsSource, SourceScope};

/// The maximum size of the file, in bytes.
const ADDED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The servers that the user added.
#[derive(Debug, Default)]
pub(super) struct UserServers {
    /// Servers for this workspace.
    pub(super) local: Vec<McpServer>,
    /// Servers for all workspaces.
    pub(super) user: Vec<McpServer>,
    /// Problems of invalid servers, as text.
    pub(super) odd: Vec<String>,
}

/// Reads the servers for a workspace, which is identified by its folder or by the root of its repository.
pub(super) fn read_user_servers(
    path: &Path,
    roots: &[&Path],
    source: &dyn Fn(SourceScope) -> SettingsSource,
) -> Result<UserServers, String> {
    let text = match read_file::read_text(path, ADDED_BYTES_MAX) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(UserServers::default()),
        Err(UnreadableFile { why, at: Some(TextPosition { line, column }) }) => {
            return Err(format!("can't be read: {why} (line {line}, column {column})"));
        }
        Err(UnreadableFile { why, at: None }) => return Err(format!("can't be read: {why}")),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let read = || {
        let file: RawObject<'_> = serde_json::from_str(text)?;
        let projects: RawObject<'_> = read_member(&file, "projects")?;
        // The folder itself takes precedence over the root of the repository.
        let local =
            roots.iter().filter_map(|root| projects.iter().find(|(path, _)| Path::new(path) == *root));
        let local =
            local.map(|(_, project)| read_member(&serde_json::from_str(project.get())?, "mcpServers"));
        Ok((local.collect::<Result<Vec<Value>, _>>()?, read_member(&file, "mcpServers")?))
    };
    let read = read().map_err(|error: serde_json::Error| format!("can't be read: {error}"));
    let (local, user) = read?;
    let mut added = UserServers::default();
    for servers in local {
        added.local.extend(servers_of(servers, source(SourceScope::Local), &mut added.odd));
    }
    added.user = servers_of(user, source(SourceScope::User), &mut added.odd);
    Ok(added)
}

/// An object whose members are not parsed yet.
type RawObject<'a> = BTreeMap<String, &'a RawValue>;

/// Returns a member of an object, or the default if it is missing.
fn read_member<'a, T: Deserialize<'a> + Default>(
    object: &RawObject<'a>,
    name: &str,
) -> serde_json::Result<T> {
    object.get(name).map_or_else(|| Ok(T::default()), |text| serde_json::from_str(text.get()))
}

fn servers_of(servers: Value, source: SettingsSource, odd: &mut Vec<String>) -> Vec<McpServer> {
    if depth_exceeds(&servers, SETTINGS_DEPTH_MAX) {
        odd.push(format!("`mcpServers` nests deeper than {SETTINGS_DEPTH_MAX}; it is left out"));
        return Vec::new();
    }
    let entries = match JsonNode::from_value(servers, NO_SPOT, 0).json {
        JsonValue::Object(entries) => entries,
        JsonValue::Null => return Vec::new(),
        _ => {
            odd.push("`mcpServers` is no object; it is left out".to_owned());
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (key, node) in entries.iter().take(SERVERS_MAX) {
        match mcp_servers::parse_server(&key.name, node, source.clone()) {
            Ok((server, notes)) => {
                found.push(server);
                odd.extend(notes.into_iter().map(|(_, words)| format!("the server `{}`: {words}", key.name)));
            }
            Err((_, words)) => odd.push(format!("the server `{}` is left out: {words}", key.name)),
        }
    }
    if entries.len() > SERVERS_MAX {
        odd.push(format!("more than {SERVERS_MAX} servers; the rest is left out"));
    }
    found
}

pub(super) fn depth_exceeds(value: &Value, left: usize) -> bool {
    match value {
        Value::Array(items) => left == 0 || items.iter().any(|item| depth_exceeds(item, left - 1)),
        Value::Object(fields) => left == 0 || fields.values().any(|item| depth_exceeds(item, left - 1)),
        _ => false,
    }
}
