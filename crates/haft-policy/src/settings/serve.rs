//! Settings of `haft serve`: its clients, their tokens, and their permissions.

use haft::ports::PermissionMode;
use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{SettingValue, TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::table::{own, settings_section};

/// The maximum number of clients in settings.
pub const SERVE_CLIENTS_MAX: usize = 256;

settings_section! {
    /// The clients of `haft serve` and their permissions. Not from a workspace.
    own "it says who may use your tools"
    pub struct ServeSettings {
        settings {
            /// Clients, each with its own token and permissions. Of two with the same name, the strongest
            /// file's counts.
            pub clients: Vec<SettingValue<ServeClient>> = "clients", own().concat().check(check_clients);
            /// Tokens of an authorization server.
            pub oauth: Option<SettingValue<ServeOauth>> = "oauth", own().check(check_oauth);
            /// Additional host names by which the server is reached, without ports.
            pub hosts: Vec<SettingValue<String>> = "hosts", own().concat();
            /// Additional origins of web pages that may use the server, such as `https://app.example`.
            pub origins: Vec<SettingValue<String>> = "origins", own().concat();
        }
    }
}

/// A client of `haft serve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false, "required" = ["name"]))]
pub struct ServeClient {
    /// The name, for logs, for `--view`, and for principals of an authorization server (`oauth:SUBJECT`).
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// The SHA-256 of the token, as 64 hexadecimal digits.
    #[schemars(extend("pattern" = "^[0-9a-fA-F]{64}$"))]
    pub token_sha256: Option<String>,
    /// A file with the token on one line. Only its owner may be able to read it.
    pub token_file: Option<String>,
    /// The permission mode of the client's calls. Default: that of the session.
    #[schemars(with = "PermissionMode")]
    pub mode: Option<PermissionMode>,
    /// The tools that the client may use, by name, with `*` for any run of characters. Default: all.
    pub tools: Option<Vec<String>>,
    /// Additional allow rules for the client's calls.
    pub allow: Vec<String>,
    /// Additional ask rules.
    pub ask: Vec<String>,
    /// Additional deny rules.
    pub deny: Vec<String>,
}

/// An authorization server whose tokens are accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false, "required" = ["resource", "introspection", "clientId"]))]
pub struct ServeOauth {
    /// The address of this server as clients know it. A token has to be issued for it.
    pub resource: String,
    /// The authorization servers where clients get tokens.
    pub authorization_servers: Vec<String>,
    /// The token introspection endpoint (RFC 7662).
    pub introspection: String,
    /// The client id of `haft` at the authorization server.
    pub client_id: String,
    /// A file with the client secret of `haft` on one line. Only its owner may be able to read it.
    pub client_secret_file: Option<String>,
    /// The scopes that a token has to have.
    pub scopes: Vec<String>,
}

read_by_serde!(ServeClient, ServeOauth);

fn check_clients(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    let clients = reader.read::<Vec<ServeClient>>()?;
    if clients.len() > SERVE_CLIENTS_MAX {
        return Err(SettingsFault::new(
            reader.node.at,
            format!("at most {SERVE_CLIENTS_MAX} clients are accepted"),
        ));
    }
    for (place, (client, node)) in clients.iter().zip(reader.node.items()).enumerate() {
        let fault = |words: &str| Err(SettingsFault::new(node.at, words));
        if client.name.is_empty() || client.name.len() > 200 || client.name.contains(char::is_control) {
            return fault("`name` is a text of 1 to 200 bytes");
        }
        if clients[..place].iter().any(|other| other.name == client.name) {
            return fault(&format!("two clients are called `{}`", client.name));
        }
        if client.token_sha256.as_deref().is_some_and(|digest| parse_sha256(digest).is_none()) {
            return fault("`tokenSha256` is the SHA-256 of the token, as 64 hexadecimal digits");
        }
        if client.token_sha256.is_some() && client.token_file.is_some() {
            return fault("one of `tokenSha256` and `tokenFile` is accepted");
        }
    }
    Ok(())
}

fn check_oauth(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    let ServeOauth { resource, introspection, client_id, .. } = reader.read()?;
    if [resource, introspection, client_id].iter().any(String::is_empty) {
        Err(SettingsFault::new(reader.node.at, "`resource`, `introspection` and `clientId` are needed"))
    } else {
        Ok(())
    }
}

impl ServeSettings {
    /// Drops the weaker of two clients with the same name.
    pub(crate) fn complete(&mut self) {
        let mut names = std::collections::BTreeSet::new();
        self.clients.retain(|client| names.insert(client.value.name.clone()));
    }
}

impl ServeClient {
    /// Returns the digest of the token, if settings contain it.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.token_sha256.as_deref().and_then(parse_sha256)
    }
}

fn parse_sha256(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_64_digits() {
        let client =
            |digest: &str| ServeClient { token_sha256: Some(digest.into()), ..ServeClient::default() };
        let digest = client(&"0aF1".repeat(16)).digest().unwrap();
        assert_eq!((digest[0], digest[1], digest[31]), (0x0a, 0xf1, 0xf1));
        for wrong in ["", "0a", &"0g".repeat(32), &"0a".repeat(33), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(client(wrong).digest(), None, "{wrong}");
        }
    }
}
