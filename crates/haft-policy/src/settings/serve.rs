//! What settings say about `haft serve`: who may come, by which token, and what each may do.
//!
//! A workspace has no say in any of it: it would let others in. Lists of several files are put together; of two clients with
//! one name, and of what there can be only one, the strongest file's counts.

use haft::ports::PermissionMode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::de::Spanned;
use super::jsonc::{Fault, Spot};
use super::merge::At;
use crate::source::Source;

/// How many clients settings may name.
pub const SERVE_CLIENTS_MAX: usize = 256;

/// Who may use `haft serve`, and for what. Not from a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Serve", extend("additionalProperties" = false))]
pub(crate) struct RawServe {
    /// Clients, each with a token of its own and what it may do.
    clients: Option<Vec<Spanned<ServeClient>>>,
    /// Tokens of an authorization server.
    oauth: Option<Spanned<ServeOauth>>,
    /// Names of hosts, beside those of this machine, by which the server is reached. Without ports.
    hosts: Option<Vec<Spanned<String>>>,
    /// Origins of pages, beside those of this machine, that may use the server, such as `https://app.example`.
    origins: Option<Vec<Spanned<String>>>,
}

/// A client of `haft serve`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false, "required" = ["name"]))]
pub struct ServeClient {
    /// Its name, for logs, for `--view`, and for principals of an authorization server (`oauth:SUBJECT`).
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// The SHA-256 of its token, as 64 hexadecimal digits.
    #[schemars(extend("pattern" = "^[0-9a-fA-F]{64}$"))]
    pub token_sha256: Option<String>,
    /// A file with its token on one line; nobody else may be able to read it.
    pub token_file: Option<String>,
    /// The permission mode of its calls. Default: that of the session.
    #[schemars(with = "PermissionMode")]
    pub mode: Option<PermissionMode>,
    /// The tools that it is offered, by name, `*` for any run of characters. Default: all.
    pub tools: Option<Vec<String>>,
    /// More rules for its calls: what runs unasked.
    pub allow: Vec<String>,
    /// What asks.
    pub ask: Vec<String>,
    /// What never runs.
    pub deny: Vec<String>,
}

/// An authorization server whose tokens are taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(extend("additionalProperties" = false, "required" = ["resource", "introspection", "clientId"]))]
pub struct ServeOauth {
    /// The address of this server as clients know it; a token has to be meant for it.
    pub resource: String,
    /// Where clients get tokens.
    pub authorization_servers: Vec<String>,
    /// Where a token is asked about (RFC 7662).
    pub introspection: String,
    /// The name of `haft` there.
    pub client_id: String,
    /// A file with the secret of `haft` there, on one line; nobody else may be able to read it.
    pub client_secret_file: Option<String>,
    /// What a token has to be good for.
    pub scopes: Vec<String>,
}

impl RawServe {
    /// What types alone don't say.
    pub(crate) fn check(&self, at: Spot) -> Result<(), Fault> {
        let clients = self.clients.as_deref().unwrap_or_default();
        if clients.len() > SERVE_CLIENTS_MAX {
            return Err(Fault::new(at, format!("at most {SERVE_CLIENTS_MAX} clients are accepted")));
        }
        for (place, Spanned { value: client, at }) in clients.iter().enumerate() {
            let fault = |words: &str| Err(Fault::new(*at, words));
            if client.name.is_empty() || client.name.len() > 200 || client.name.contains(char::is_control) {
                return fault("`name` is a text of 1 to 200 bytes");
            }
            if clients[..place].iter().any(|other| other.value.name == client.name) {
                return fault(&format!("two clients are called `{}`", client.name));
            }
            if client.token_sha256.as_deref().is_some_and(|digest| sha256(digest).is_none()) {
                return fault("`tokenSha256` is the SHA-256 of the token, as 64 hexadecimal digits");
            }
            if client.token_sha256.is_some() && client.token_file.is_some() {
                return fault("one of `tokenSha256` and `tokenFile` is accepted");
            }
        }
        match &self.oauth {
            Some(Spanned { value, at })
                if [&value.resource, &value.introspection, &value.client_id]
                    .iter()
                    .any(|text| text.is_empty()) =>
            {
                Err(Fault::new(*at, "`resource`, `introspection` and `clientId` are needed"))
            }
            _ => Ok(()),
        }
    }
}

impl ServeClient {
    /// The digest of its token, where settings give it.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.token_sha256.as_deref().and_then(sha256)
    }

    /// As it is shown: a digest is no secret, and nothing else in it is.
    fn shown(&self) -> Value {
        let mut shown = Map::from_iter([("name".to_owned(), json!(self.name))]);
        let mut put = |key: &str, value: Option<Value>| {
            value.map(|value| shown.insert(key.to_owned(), value));
        };
        put("tokenSha256", self.token_sha256.as_ref().map(|digest| json!(digest)));
        put("tokenFile", self.token_file.as_ref().map(|file| json!(file)));
        put("mode", self.mode.map(|mode| json!(mode.to_string())));
        put("tools", self.tools.as_ref().map(|tools| json!(tools)));
        for (key, rules) in [("allow", &self.allow), ("ask", &self.ask), ("deny", &self.deny)] {
            put(key, (!rules.is_empty()).then(|| json!(rules)));
        }
        Value::Object(shown)
    }
}

fn sha256(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    Some(digest)
}

/// What all files that count say about `haft serve`.
#[derive(Debug, Clone, Default)]
pub struct ServeSettings {
    /// The clients; no two have one name.
    pub clients: Vec<At<ServeClient>>,
    /// The authorization server.
    pub oauth: Option<At<ServeOauth>>,
    /// Names of hosts.
    pub hosts: Vec<At<String>>,
    /// Origins of pages.
    pub origins: Vec<At<String>>,
}

impl ServeSettings {
    /// Adds what a file says; the strongest comes first.
    pub(crate) fn add(&mut self, raw: &RawServe, source: impl Fn(Spot) -> Source) {
        for Spanned { value, at } in raw.clients.iter().flatten() {
            if !self.clients.iter().any(|known| known.value.name == value.name) {
                self.clients.push(At { value: value.clone(), source: source(*at) });
            }
        }
        let texts = |given: &Option<Vec<Spanned<String>>>| -> Vec<At<String>> {
            let at = |text: &Spanned<String>| At { value: text.value.clone(), source: source(text.at) };
            given.iter().flatten().map(at).collect()
        };
        self.hosts.extend(texts(&raw.hosts));
        self.origins.extend(texts(&raw.origins));
        let oauth =
            || raw.oauth.as_ref().map(|given| At { value: given.value.clone(), source: source(given.at) });
        self.oauth = self.oauth.take().or_else(oauth);
    }

    /// Every value that counts, under the key by which it is written.
    pub fn each(&self) -> Vec<(&'static str, At<Value>)> {
        let mut shown = Vec::new();
        let mut put = |key, value, source: &Source| shown.push((key, At { value, source: source.clone() }));
        for At { value, source } in &self.clients {
            put("serve.clients", value.shown(), source);
        }
        if let Some(At { value, source }) = &self.oauth {
            let ServeOauth {
                resource,
                authorization_servers,
                introspection,
                client_id,
                client_secret_file,
                scopes,
            } = value;
            let mut shown = json!({"resource": resource, "authorizationServers": authorization_servers,
                "introspection": introspection, "clientId": client_id, "scopes": scopes});
            if let Some(file) = client_secret_file {
                shown["clientSecretFile"] = json!(file);
            }
            put("serve.oauth", shown, source);
        }
        for (key, list) in [("serve.hosts", &self.hosts), ("serve.origins", &self.origins)] {
            list.iter().for_each(|At { value, source }| put(key, json!(value), source));
        }
        shown
    }
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
