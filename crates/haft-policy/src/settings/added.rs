//! Servers that the user added, with `haft mcp add` or with Claude Code, which keeps them in a file with much else:
//! `~/.claude.json`. Both files have one form: servers for all workspaces, and by workspace.
//!
//! Nothing else of such a file is used, and most of it is skipped without being kept: it grows with every project that was
//! ever opened. So servers of it know their file and not their line.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::input::{self, Unreadable};
use super::jsonc::{Json, NO_SPOT, Node, SETTINGS_DEPTH_MAX, Spot};
use super::mcp::{self, SERVERS_MAX, Server};
use crate::source::{Scope, Source};

/// The longest file, in bytes.
const ADDED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What the user added.
#[derive(Debug, Default)]
pub(super) struct Added {
    /// For this workspace.
    pub(super) local: Vec<Server>,
    /// For all.
    pub(super) user: Vec<Server>,
    /// What is wrong with others, in words.
    pub(super) odd: Vec<String>,
}

/// Reads the servers for a workspace, which is known by its folder or the root of its repository.
pub(super) fn read(path: &Path, roots: &[&Path], source: &dyn Fn(Scope) -> Source) -> Result<Added, String> {
    let text = match input::text(path, ADDED_BYTES_MAX) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Added::default()),
        Err(Unreadable { why, at: Some(Spot { line, column }) }) => {
            return Err(format!("can't be read: {why} (line {line}, column {column})"));
        }
        Err(Unreadable { why, at: None }) => return Err(format!("can't be read: {why}")),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut json = serde_json::Deserializer::from_str(text);
    let kept = Whole { roots }.deserialize(&mut json).and_then(|kept| json.end().map(|()| kept));
    let kept = kept.map_err(|error| format!("can't be read: {error}"))?;
    let mut added = Added::default();
    // The folder itself before the root of the repository.
    let local =
        roots.iter().filter_map(|root| kept.projects.iter().find(|(path, _)| Path::new(path) == *root));
    let local: Vec<Value> = local.map(|(_, servers)| servers.clone()).collect();
    for servers in local {
        added.local.extend(servers_of(servers, source(Scope::Local), &mut added.odd));
    }
    added.user = servers_of(kept.user, source(Scope::User), &mut added.odd);
    Ok(added)
}

fn servers_of(servers: Value, source: Source, odd: &mut Vec<String>) -> Vec<Server> {
    if depth_exceeds(&servers, SETTINGS_DEPTH_MAX) {
        odd.push(format!("`mcpServers` nests deeper than {SETTINGS_DEPTH_MAX}; it is left out"));
        return Vec::new();
    }
    let entries = match Node::from_value(servers, NO_SPOT, 0).json {
        Json::Object(entries) => entries,
        Json::Null => return Vec::new(),
        _ => {
            odd.push("`mcpServers` is no object; it is left out".to_owned());
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (key, node) in entries.iter().take(SERVERS_MAX) {
        match mcp::server(&key.name, node, source.clone()) {
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

/// The parts of the file that are kept.
#[derive(Debug, Default)]
struct Kept {
    user: Value,
    projects: Vec<(String, Value)>,
}

struct Whole<'a> {
    roots: &'a [&'a Path],
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = Kept;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kept, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = Kept;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kept, A::Error> {
        let mut kept = Kept::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "mcpServers" => kept.user = map.next_value()?,
                "projects" => kept.projects = map.next_value_seed(Projects { roots: self.roots })?,
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(kept)
    }
}

struct Projects<'a> {
    roots: &'a [&'a Path],
}

impl<'de> DeserializeSeed<'de> for Projects<'_> {
    type Value = Vec<(String, Value)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Projects<'_> {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object by path")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(path) = map.next_key::<String>()? {
            if self.roots.iter().any(|root| Path::new(&path) == *root) {
                kept.push((path, map.next_value::<Project>()?.0));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(kept)
    }
}

/// The servers of one project; nothing else of it.
struct Project(Value);

impl<'de> Deserialize<'de> for Project {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Project, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Project;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Project, A::Error> {
                let mut servers = Value::Null;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "mcpServers" => servers = map.next_value()?,
                        _ => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(Project(servers))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}
