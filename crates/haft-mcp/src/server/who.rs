//! Who is served: a client, by what it said of itself and what its token says of it.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// A revision of the protocol. They are ordered by their dates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// The first one.
    V2024_11_05,
    /// With Streamable HTTP and batches.
    V2025_03_26,
    /// With structured results and elicitation, without batches.
    V2025_06_18,
    /// The last one with a handshake.
    V2025_11_25,
    /// Without sessions: each request says who asks, and a server asks by its results.
    V2026_07_28,
}

impl Revision {
    /// All that are spoken, the newest first.
    pub const ALL: [Revision; 5] = [
        Revision::V2026_07_28,
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
        Revision::V2024_11_05,
    ];
    /// The newest that begins with a handshake.
    pub const LATEST_WITH_HANDSHAKE: Revision = Revision::V2025_11_25;

    /// The revision of this name.
    pub fn of(name: &str) -> Option<Revision> {
        Revision::ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Its name: a date.
    pub fn name(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether each request stands alone: no handshake, no session, no requests of the server.
    pub fn is_stateless(self) -> bool {
        self >= Revision::V2026_07_28
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The way by which a client came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Way {
    /// It started this process, or shares it: a connection of lines.
    Stdio,
    /// Over the network.
    Http,
    /// Over a socket in the file system, that only its owner may open.
    Unix,
}

/// Whom a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Principal {
    /// The name that the configuration, or whoever gave the token, has for it.
    pub name: Arc<str>,
    /// What the token is good for, where it says so.
    pub scopes: Arc<[String]>,
}

impl Principal {
    /// A principal without scopes.
    pub fn new(name: impl Into<Arc<str>>) -> Principal {
        Principal { name: name.into(), scopes: Arc::new([]) }
    }

    /// What tells it from others: the same name with other scopes is somebody else.
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

/// One client, as far as it is known.
///
/// What it says of itself (name, version, abilities) is for logs and for what is worth trying, never for what is allowed:
/// that hangs on the [principal](Client::principal) and the [way](Client::way) alone.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Client {
    /// How it came.
    pub way: Way,
    /// Whom its token stands for. None over stdio, and where no token is asked for.
    pub principal: Option<Principal>,
    /// What it calls itself; empty if it didn't say.
    pub name: String,
    /// Its version; empty if it didn't say.
    pub version: String,
    /// What it can do, as it announced it.
    pub can: Abilities,
    /// The revision that is spoken with it.
    pub revision: Revision,
}

impl Client {
    /// A client that came by this way, speaks this revision and said nothing of itself.
    pub fn new(way: Way, revision: Revision) -> Client {
        Client {
            way,
            principal: None,
            name: String::new(),
            version: String::new(),
            can: Abilities::default(),
            revision,
        }
    }

    /// The same with a principal.
    #[must_use]
    pub fn with_principal(mut self, principal: Option<Principal>) -> Client {
        self.principal = principal;
        self
    }

    /// The same with abilities.
    #[must_use]
    pub fn with_abilities(mut self, can: Abilities) -> Client {
        self.can = can;
        self
    }
}

/// What a client can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Abilities {
    /// Shows a form to its user.
    pub form: bool,
    /// Shows an address to its user.
    pub url: bool,
    /// Asks a model.
    pub sampling: bool,
    /// Asks a model that has tools.
    pub sampling_tools: bool,
    /// Knows the folders that it works in.
    pub roots: bool,
}

impl Abilities {
    /// As they stand in `capabilities` of a handshake, or in the `_meta` of a request.
    pub fn of(capabilities: &Value) -> Abilities {
        let elicitation = capabilities.get("elicitation").and_then(Value::as_object);
        // Before there were two modes, an empty object meant forms.
        let form = elicitation.is_some_and(|modes| {
            modes.is_empty() || modes.contains_key("form") || !modes.contains_key("url")
        });
        let has = |name: &str| capabilities.get(name).is_some_and(Value::is_object);
        Abilities {
            form,
            url: elicitation.is_some_and(|modes| modes.contains_key("url")),
            sampling: has("sampling"),
            sampling_tools: capabilities["sampling"]["tools"].is_object(),
            roots: has("roots"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn revisions_are_found_by_name_and_ordered_by_date() {
        for pair in Revision::ALL.windows(2) {
            assert!(pair[0] > pair[1] && pair[0].name() > pair[1].name());
        }
        assert_eq!(Revision::of("2025-06-18"), Some(Revision::V2025_06_18));
        assert_eq!(Revision::of("2025-06-19"), None);
    }

    #[test]
    fn abilities_are_what_was_announced() {
        assert_eq!(Abilities::of(&json!({})), Abilities::default());
        assert_eq!(Abilities::of(&json!("odd")), Abilities::default());
        let older = Abilities::of(&json!({"elicitation": {}, "roots": {"listChanged": true}}));
        assert!(older.form && !older.url && older.roots && !older.sampling);
        let url = Abilities::of(&json!({"elicitation": {"url": {}}, "sampling": {"tools": {}}}));
        assert!(!url.form && url.url && url.sampling && url.sampling_tools);
    }
}
