//! Whom a bearer token stands for.
//!
//! Tokens that the configuration knows are compared in constant time. Tokens of an authorization server are asked about there
//! (introspection, RFC 7662): that works with tokens of every form, needs no keys here, and a token that was taken back stops
//! working within [`TOKEN_BELIEVED`]. Who would rather check signatures implements [`TokenCheck`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::future::BoxFuture;
use haft::sync::lock;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::who::Principal;
use crate::limits::{TOKEN_ANSWER_BYTES_MAX, TOKEN_BELIEVED, TOKEN_CHECK_TIMEOUT, TOKENS_REMEMBERED};

/// A text that nobody can guess, of so many random bytes; nothing where the system has no random numbers. Good as a token from
/// 32 bytes on.
pub fn secret(bytes: usize) -> Option<String> {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(random))
}

/// Says whom a token stands for. Called with each request, from many tasks.
pub trait TokenCheck: Send + Sync + 'static {
    /// The principal, or nothing for a token that isn't good.
    ///
    /// # Errors
    /// It can't be said now, in words for a log; the request is refused.
    fn check<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>>;
}

/// Tokens that are known, each with its principal.
pub struct Tokens {
    key: Option<hmac::Key>,
    known: Vec<(hmac::Tag, Principal)>,
}

impl Default for Tokens {
    fn default() -> Tokens {
        Tokens::new()
    }
}

impl Tokens {
    /// None.
    pub fn new() -> Tokens {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        Tokens { key, known: Vec::new() }
    }

    /// And this one. Of two that are the same the first counts.
    #[must_use]
    pub fn with(self, token: &str, principal: Principal) -> Tokens {
        self.with_digest(Sha256::digest(token).into(), principal)
    }

    /// And the one that has this SHA-256.
    #[must_use]
    pub fn with_digest(mut self, digest: [u8; 32], principal: Principal) -> Tokens {
        // Without random numbers there is no key, and then no token is good.
        if let Some(key) = &self.key {
            self.known.push((hmac::sign(key, &digest), principal));
        }
        self
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn find(&self, token: &str) -> Option<&Principal> {
        let key = self.key.as_ref()?;
        let digest = Sha256::digest(token);
        // All are looked at, each in a time that says nothing of how much was right.
        let mut found = None;
        for (tag, principal) in &self.known {
            if hmac::verify(key, &digest, tag.as_ref()).is_ok() {
                found = found.or(Some(principal));
            }
        }
        found
    }
}

impl TokenCheck for Tokens {
    fn check<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>> {
        Box::pin(std::future::ready(Ok(self.find(token).cloned())))
    }
}

/// What was said of tokens, by their digests, and until when it counts.
type Remembered = HashMap<[u8; 32], (Instant, Option<Principal>)>;

/// Asks an authorization server about each token.
pub struct Introspection {
    client: reqwest::Client,
    endpoint: url::Url,
    credentials: (String, String),
    /// What a token has to be for.
    audience: String,
    scopes: Vec<String>,
    remembered: Mutex<Remembered>,
}

impl Introspection {
    /// Asks this endpoint, with this name and secret of ours. A token has to be meant for `audience`, the address of this server
    /// as it stands in its metadata.
    ///
    /// # Errors
    /// No client can be made, in words.
    pub fn new(
        endpoint: url::Url,
        client_id: impl Into<String>,
        client_secret: impl Into<String>,
        audience: impl Into<String>,
    ) -> Result<Introspection, String> {
        Ok(Introspection {
            client: crate::transport::http::client(None)?,
            endpoint,
            credentials: (client_id.into(), client_secret.into()),
            audience: audience.into(),
            scopes: Vec::new(),
            remembered: Mutex::default(),
        })
    }

    /// Tokens have to be good for all of these as well.
    #[must_use]
    pub fn with_required_scopes(mut self, scopes: impl IntoIterator<Item = String>) -> Introspection {
        self.scopes = scopes.into_iter().collect();
        self
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        lock(&self.remembered)
    }

    async fn ask(&self, token: &str) -> Result<Option<Principal>, String> {
        let (id, secret) = &self.credentials;
        let asked = self
            .client
            .post(self.endpoint.clone())
            .basic_auth(id, Some(secret))
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(url::form_urlencoded::Serializer::new(String::new()).append_pair("token", token).finish())
            .timeout(TOKEN_CHECK_TIMEOUT)
            .send();
        let failed = |error: reqwest::Error| {
            format!(
                "the authorization server can't be asked: {}",
                crate::transport::chain(&error.without_url())
            )
        };
        let mut answer = asked.await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(format!("the authorization server answered {}", answer.status().as_u16()));
        }
        let mut text = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            text.extend_from_slice(&chunk);
            if text.len() > TOKEN_ANSWER_BYTES_MAX {
                return Err("the authorization server answered too much".to_owned());
            }
        }
        let said: Value = serde_json::from_slice(&text)
            .map_err(|_| "the authorization server answered no JSON".to_owned())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
        Ok(self.judge(&said, now))
    }

    /// Whom the answer speaks of, if the token is good for this server at this time.
    fn judge(&self, said: &Value, now: u64) -> Option<Principal> {
        let is_active = said["active"] == true;
        let is_in_time = said.get("exp").is_none_or(|end| end.as_u64().is_some_and(|end| end > now))
            && said.get("nbf").is_none_or(|begin| begin.as_u64().is_some_and(|begin| begin <= now));
        let is_for_us = match &said["aud"] {
            Value::String(one) => *one == self.audience,
            Value::Array(all) => all.iter().any(|one| *one == self.audience.as_str()),
            _ => false,
        };
        let scopes: Vec<String> =
            said["scope"].as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let is_enough = self.scopes.iter().all(|scope| scopes.contains(scope));
        let name = ["sub", "username", "client_id"].iter().find_map(|key| said[key].as_str())?;
        (is_active && is_in_time && is_for_us && is_enough).then(|| Principal::new(name).with_scopes(scopes))
    }
}

impl TokenCheck for Introspection {
    fn check<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>> {
        Box::pin(async move {
            // The token itself is not kept.
            let digest: [u8; 32] = Sha256::digest(token).into();
            let known = self.remembered().get(&digest).cloned();
            if let Some((until, principal)) = known
                && until > Instant::now()
            {
                return Ok(principal);
            }
            let principal = self.ask(token).await?;
            let mut remembered = self.remembered();
            let now = Instant::now();
            if remembered.len() >= TOKENS_REMEMBERED {
                remembered.retain(|_, (until, _)| *until > now);
            }
            if remembered.len() < TOKENS_REMEMBERED {
                remembered.insert(digest, (now + TOKEN_BELIEVED, principal.clone()));
            }
            Ok(principal)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_stands_for_its_principal_alone() {
        let tokens = Tokens::new().with("aaa", Principal::new("a")).with("bbb", Principal::new("b"));
        assert_eq!(tokens.find("bbb").unwrap().name, "b".into());
        for wrong in ["", "aa", "aaaa", "AAA", "ccc"] {
            assert_eq!(tokens.find(wrong), None, "{wrong}");
        }
        let hashed = Tokens::new().with_digest(Sha256::digest("ccc").into(), Principal::new("c"));
        assert_eq!(hashed.find("ccc").unwrap().name, "c".into());
        assert!(!hashed.is_empty() && Tokens::new().is_empty());
        assert_ne!(secret(32), secret(32));
    }

    #[test]
    fn a_token_of_an_authorization_server_has_to_be_for_us_and_in_time() {
        let endpoint = url::Url::parse("https://auth.example/introspect").unwrap();
        let check = Introspection::new(endpoint, "id", "secret", "https://haft.example/mcp")
            .unwrap()
            .with_required_scopes(["tools".to_owned()]);
        let good = json!({"active": true, "aud": ["x", "https://haft.example/mcp"], "sub": "me", "exp": 200, "scope": "tools more"});
        let with = |key: &str, value: Value| {
            let mut said = good.clone();
            said[key] = value;
            said
        };
        assert_eq!(check.judge(&good, 100).unwrap().name, "me".into());
        assert_eq!(&*check.judge(&good, 100).unwrap().scopes, ["tools", "more"]);
        for bad in [
            with("active", json!(false)),
            with("active", json!("true")),
            with("aud", json!("https://other.example/mcp")),
            with("aud", Value::Null),
            with("exp", json!(100)),
            with("exp", json!("soon")),
            with("nbf", json!(101)),
            with("scope", json!("more")),
            with("sub", Value::Null),
        ] {
            assert_eq!(check.judge(&bad, 100), None, "{bad}");
        }
    }
}
