//! Servers of `.mcp.json`, as data. Nothing is expanded and no server is started here.
//!
//! A file that can't be parsed is an error, as for any settings file. A single invalid server is left out
//! with a warning instead: a missing server loosens nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::de;
use super::jsonc::{self, JsonNode, NO_SPOT, SettingsFault, TextPosition};
use crate::source::{SettingsSource, SourceScope};

/// The maximum number of servers in one file.
pub const SERVERS_MAX: usize = 200;
/// The shortest accepted timeout of a server's calls, in milliseconds.
pub const SERVER_TIMEOUT_MS_MIN: u64 = 1_000;

/// Names that a server can't have, because they are reserved.
const RESERVED: [&str; 5] =
    ["workspace", "claude-in-chrome", "computer-use", "Claude Preview", "Claude Browser"];

/// A server that a file names. `${NAME}` and `${NAME:-default}` are kept as written.
#[derive(Debug, Clone, PartialEq)]
pub struct McpServer {
    /// The name.
    pub name: String,
    /// The transport.
    pub transport: McpTransport,
    /// The timeout of one call, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Whether the model always receives its complete tool definitions.
    pub always_load: Option<bool>,
    /// Whether the server comes from the files of the workspace, and so needs its trust.
    pub of_workspace: bool,
    /// Where it stands.
    pub source: SettingsSource,
}

/// The transport of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum McpTransport {
    /// A process, over its standard input and output.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
    },
    /// A remote address.
    Remote {
        /// The protocol.
        kind: RemoteProtocol,
        /// The address.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
        /// A command that prints additional headers.
        headers_helper: Option<String>,
        /// The OAuth configuration, as written.
        oauth: Option<Map<String, Value>>,
    },
}

/// The protocols of remote servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RemoteProtocol {
    /// Streamable HTTP.
    Http,
    /// HTTP with server-sent events, the older form.
    Sse,
    /// WebSocket.
    Ws,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
struct RawServer {
    r#type: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    url: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    headers_helper: Option<String>,
    oauth: Option<Map<String, Value>>,
    timeout: Option<u64>,
    always_load: Option<bool>,
}

/// The valid servers, and the problems of the others, by location.
type ParsedServers = (Vec<McpServer>, Vec<(TextPosition, String)>);

/// Reads the servers of a text.
pub(crate) fn parse_servers(
    text: &str,
    scope: SourceScope,
    file: &Arc<Path>,
    anchor: &Arc<Path>,
) -> Result<ParsedServers, SettingsFault> {
    let root = jsonc::parse_jsonc(text)?;
    // Servers are read one by one, so that an invalid one is left out alone. Only their table has to be an
    // object.
    let unknown = de::expect_object(&root)?.iter().filter(|(key, _)| key.name != "mcpServers");
    let mut warnings: Vec<(TextPosition, String)> = unknown
        .map(|(key, _)| (key.at, format!("`{}` is not known here; `mcpServers` is", key.name)))
        .collect();
    let mut servers = Vec::new();
    let Some(entries) = root.get("mcpServers") else { return Ok((servers, warnings)) };
    for (key, node) in de::expect_object(entries).map_err(|fault| fault.inside("mcpServers"))? {
        if servers.len() == SERVERS_MAX {
            warnings.push((key.at, format!("more than {SERVERS_MAX} servers; the rest is left out")));
            break;
        }
        let source = SettingsSource {
            scope,
            file: Some(file.clone()),
            line: Some(key.at.line),
            anchor: anchor.clone(),
        };
        match parse_server(&key.name, node, source) {
            Ok((server, notes)) => {
                servers.push(server);
                warnings.extend(notes);
            }
            Err((at, words)) => {
                warnings.push((at, format!("the server `{}` is left out: {words}", key.name)));
            }
        }
    }
    Ok((servers, warnings))
}

/// Checks whether an entry is a valid server of this name, and returns warnings about it.
///
/// ```
/// use haft_policy::settings::check_server;
/// use serde_json::json;
///
/// assert_eq!(check_server("time", &json!({"command": "uvx"})), Ok(vec![]));
/// assert_eq!(check_server("time", &json!({})), Err("the key `command` is missing".to_owned()));
/// ```
///
/// # Errors
/// Returns the reason why the entry is not a server.
pub fn check_server(name: &str, entry: &Value) -> Result<Vec<String>, String> {
    if super::user_servers::depth_exceeds(entry, jsonc::SETTINGS_DEPTH_MAX) {
        return Err(format!("it nests deeper than {}", jsonc::SETTINGS_DEPTH_MAX));
    }
    let node = JsonNode::from_value(entry.clone(), NO_SPOT, 0);
    let understood =
        parse_server(name, &node, SettingsSource::new(SourceScope::User, "/")).map_err(|(_, words)| words)?;
    Ok(understood.1.into_iter().map(|(_, words)| words).collect())
}

/// A server with warnings about it, or the reason and the location why the entry is invalid.
pub(crate) type ServerResult = Result<(McpServer, Vec<(TextPosition, String)>), (TextPosition, String)>;

/// Reads one server.
pub(crate) fn parse_server(name: &str, node: &JsonNode, source: SettingsSource) -> ServerResult {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let refuse = |words: String| Err((node.at, words));
    if RESERVED.contains(&name) {
        return refuse("this name is reserved".to_owned());
    }
    if name.is_empty() || name.len() > haft::limits::NAME_CHARS_MAX || !name.chars().all(plain) {
        return refuse("a name is made of letters, digits, `_` and `-`".to_owned());
    }
    let (raw, unknown) =
        de::from_node::<RawServer>(node).map_err(|fault| (fault.at.unwrap_or(node.at), fault.to_string()))?;
    let notes =
        unknown.iter().map(|unknown| (unknown.at, format!("`{}` is not a key of a server", unknown.key)));
    let mut notes: Vec<_> = notes.collect();
    let kind = match (raw.r#type.as_deref(), &raw.url) {
        (None, Some(_)) => return refuse("`url` needs a `type`: \"http\", \"sse\" or \"ws\"".to_owned()),
        (None | Some("stdio"), None) => None,
        (Some("stdio"), Some(_)) => {
            return refuse("a server of type `stdio` has a `command`, not a `url`".to_owned());
        }
        (Some("http" | "streamable-http"), _) => Some(RemoteProtocol::Http),
        (Some("sse"), _) => Some(RemoteProtocol::Sse),
        (Some("ws"), _) => Some(RemoteProtocol::Ws),
        (Some(other), _) => {
            return refuse(format!(
                "the type {other:?} is not accepted; \"stdio\", \"http\", \"sse\" or \"ws\" is"
            ));
        }
    };
    let transport = match (kind, raw.command, raw.url) {
        (None, Some(command), _) if !command.trim().is_empty() => McpTransport::Stdio {
            command,
            args: raw.args.unwrap_or_default(),
            env: raw.env.unwrap_or_default(),
        },
        (None, _, _) => return refuse("the key `command` is missing".to_owned()),
        (Some(kind), _, Some(url)) => McpTransport::Remote {
            kind,
            url,
            headers: raw.headers.unwrap_or_default(),
            headers_helper: raw.headers_helper,
            oauth: raw.oauth,
        },
        (Some(_), _, None) => return refuse("the key `url` is missing".to_owned()),
    };
    let timeout_ms = raw.timeout.filter(|limit| *limit >= SERVER_TIMEOUT_MS_MIN);
    if raw.timeout.is_some() && timeout_ms.is_none() {
        notes.push((node.at, format!("a `timeout` below {SERVER_TIMEOUT_MS_MIN} ms doesn't count")));
    }
    let of_workspace = source.scope == SourceScope::Project;
    let server = McpServer {
        name: name.to_owned(),
        transport,
        timeout_ms,
        always_load: raw.always_load,
        of_workspace,
        source,
    };
    Ok((server, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> (Vec<McpServer>, Vec<String>) {
        let path: Arc<Path> = Path::new("/w/.mcp.json").into();
        let (servers, warnings) =
            parse_servers(text, SourceScope::Project, &path, &Path::new("/w").into()).unwrap();
        (servers, warnings.into_iter().map(|(at, words)| format!("{}: {words}", at.line)).collect())
    }

    #[test]
    fn both_kinds_are_read_and_nothing_is_expanded() {
        let (servers, warnings) = check(
            r#"{"mcpServers": {
                "fs": {"command": "${BIN:-npx}", "args": ["-y", "x"], "env": {"A": "${B}"}},
                "hub": {"type": "http", "url": "https://x.example/mcp", "headersHelper": "./h.sh", "timeout": 5000}
            }}"#,
        );
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(servers[0].source.to_string(), "/w/.mcp.json:2");
        let env = BTreeMap::from([("A".to_owned(), "${B}".to_owned())]);
        let args = vec!["-y".to_owned(), "x".to_owned()];
        assert_eq!(servers[0].transport, McpTransport::Stdio { command: "${BIN:-npx}".into(), args, env });
        assert_eq!((servers[1].name.as_str(), servers[1].timeout_ms), ("hub", Some(5000)));
        let McpTransport::Remote { kind, headers_helper, .. } = &servers[1].transport else { panic!() };
        assert_eq!((*kind, headers_helper.as_deref()), (RemoteProtocol::Http, Some("./h.sh")));
    }

    #[test]
    fn a_server_that_makes_no_sense_is_left_out_alone() {
        let one = |server: &str| {
            let (servers, warnings) = check(&format!(
                "{{\"mcpServers\": {{\"good\": {{\"command\": \"x\"}},\n\"bad\": {server}}}}}"
            ));
            assert_eq!(servers.len(), 1, "{server}");
            warnings.join("; ")
        };
        assert!(one(r#"{"url": "https://x"}"#).contains("needs a `type`"));
        assert!(one(r#"{"type": "http"}"#).contains("`url` is missing"));
        assert!(one("{}").contains("2: the server `bad` is left out: the key `command` is missing"));
        assert!(one(r#"{"type": "carrier-pigeon", "url": "x"}"#).contains("carrier-pigeon"));
        assert!(one(r#"{"command": ["x"]}"#).contains("a list is not accepted"));
        assert!(one("3").contains("an object is"));
        let (servers, warnings) =
            check(r#"{"mcpServers": {"a b": {"command": "x"}, "workspace": {"command": "x"}}}"#);
        assert!(servers.is_empty() && warnings.len() == 2, "{warnings:?}");
    }

    #[test]
    fn oddities_are_told() {
        let (servers, warnings) =
            check(r#"{"mcpServers": {"a": {"command": "x", "timeout": 5, "colour": "red"}}, "x": 1}"#);
        assert_eq!(servers[0].timeout_ms, None);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(check("{}").0.is_empty());
    }
}
