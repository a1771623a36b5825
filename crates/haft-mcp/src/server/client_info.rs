//! Clients: transport, revision, principal and capabilities.

use std::fmt;
use std::sync::Arc;

use rmcp::model::TASKS_EXTENSION_ID;
use serde_json::Value;

/// A revision of the protocol, ordered by date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolRevision {
    /// The first one.
    V2024_11_05,
    /// With Streamable HTTP and batches.
    V2025_03_26,
    /// With structured results and elicitation, without batches.
    V2025_06_18,
    /// The last one with a handshake.
    V2025_11_25,
    /// Stateless: each request describes its client, and a server asks by its results.
    V2026_07_28,
}

impl ProtocolRevision {
    /// All supported revisions, the newest first.
    pub const ALL: [ProtocolRevision; 5] = [
        ProtocolRevision::V2026_07_28,
        ProtocolRevision::V2025_11_25,
        ProtocolRevision::V2025_06_18,
        ProtocolRevision::V2025_03_26,
        ProtocolRevision::V2024_11_05,
    ];
    /// The newest revision with a handshake.
    pub const LATEST_WITH_HANDSHAKE: ProtocolRevision = ProtocolRevision::V2025_11_25;

    /// The revision of this name.
    pub fn from_name(name: &str) -> Option<ProtocolRevision> {
        ProtocolRevision::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Its name: a date.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolRevision::V2024_11_05 => "2024-11-05",
            ProtocolRevision::V2025_03_26 => "2025-03-26",
            ProtocolRevision::V2025_06_18 => "2025-06-18",
            ProtocolRevision::V2025_11_25 => "2025-11-25",
            ProtocolRevision::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether there is no handshake, no session and no request by the server.
    pub fn is_stateless(self) -> bool {
        self >= ProtocolRevision::V2026_07_28
    }
}

impl fmt::Display for ProtocolRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a client is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportKind {
    /// A connection of lines: the client started this process, or shares it.
    Stdio,
    /// Over the network.
    Http,
    /// Over a Unix socket that only its owner may open.
    Unix,
}

/// The identity that a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Principal {
    /// Its name in the configuration or at the authorization server.
    pub name: Arc<str>,
    /// The token's scopes.
    pub scopes: Arc<[String]>,
}

impl Principal {
    /// A principal without scopes.
    pub fn new(name: impl Into<Arc<str>>) -> Principal {
        Principal { name: name.into(), scopes: Arc::new([]) }
    }

    /// Name and scopes: the same name with other scopes is another identity.
    pub(crate) fn identity(&self) -> Arc<str> {
        match &*self.scopes {
            [] => self.name.clone(),
            scopes => format!("{}\n{}", self.name, scopes.join("\n")).into(),
        }
    }

    /// The same with scopes.
    #[must_use]
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = String>) -> Principal {
        self.scopes = scopes.into_iter().collect();
        self
    }
}

/// A client. Its own statements (name, version, capabilities) are for logs and for choosing what to try;
/// permissions depend on the [principal](ClientInfo::principal) and the [transport](ClientInfo::transport)
/// alone.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// How it is connected.
    pub transport: TransportKind,
    /// The identity of its token. `None` over stdio and where no token is required.
    pub principal: Option<Principal>,
    /// Its name; empty if not stated.
    pub name: String,
    /// Its version; empty if not stated.
    pub version: String,
    /// The capabilities that it declared.
    pub capabilities: ClientCapabilities,
    /// The negotiated revision.
    pub revision: ProtocolRevision,
}

impl ClientInfo {
    /// A client that stated nothing about itself.
    pub fn new(transport: TransportKind, revision: ProtocolRevision) -> ClientInfo {
        ClientInfo {
            transport,
            principal: None,
            name: String::new(),
            version: String::new(),
            capabilities: ClientCapabilities::default(),
            revision,
        }
    }
}

/// What a client can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Forms for its user.
    pub form: bool,
    /// URLs for its user.
    pub url: bool,
    /// Messages of its model.
    pub sampling: bool,
    /// Messages of its model with tools.
    pub sampling_tools: bool,
    /// Its folders.
    pub roots: bool,
    /// Tasks, which it asks for instead of waiting for results.
    pub tasks: bool,
}

impl ClientCapabilities {
    /// As declared in a handshake, or in the `_meta` of a request. Unknown forms are no capability.
    pub fn from_value(declared: &Value) -> ClientCapabilities {
        let elicitation = declared.get("elicitation").and_then(Value::as_object);
        // Before there were two modes, an empty object meant forms.
        let form = elicitation.is_some_and(|modes| {
            modes.is_empty() || modes.contains_key("form") || !modes.contains_key("url")
        });
        let has = |name: &str| declared.get(name).is_some_and(Value::is_object);
        ClientCapabilities {
            form,
            url: elicitation.is_some_and(|modes| modes.contains_key("url")),
            sampling: has("sampling"),
            sampling_tools: declared["sampling"]["tools"].is_object(),
            roots: has("roots"),
            tasks: declared["extensions"][TASKS_EXTENSION_ID].is_object(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revisions_are_found_by_name_and_ordered_by_date() {
        for pair in ProtocolRevision::ALL.windows(2) {
            assert!(pair[0] > pair[1] && pair[0].name() > pair[1].name());
        }
        assert_eq!(ProtocolRevision::from_name("2025-06-18"), Some(ProtocolRevision::V2025_06_18));
        assert_eq!(ProtocolRevision::from_name("2025-06-19"), None);
    }

    #[test]
    fn capabilities_are_read_as_declared() {
        let declared = |value| ClientCapabilities::from_value(&value);
        assert_eq!(declared(json!({})), ClientCapabilities::default());
        assert_eq!(declared(json!("odd")), ClientCapabilities::default());
        let legacy = declared(json!({"elicitation": {}, "roots": {"listChanged": true}}));
        assert!(legacy.form && !legacy.url && legacy.roots && !legacy.sampling);
        let url = declared(json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}}));
        assert!(!url.form && url.url && url.sampling && url.sampling_tools && !url.tasks);
        assert!(declared(json!({"extensions": {TASKS_EXTENSION_ID: {}}})).tasks);
    }
}
