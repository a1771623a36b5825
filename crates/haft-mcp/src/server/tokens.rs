//! Verification of bearer tokens.
//!
//! Configured tokens are compared in constant time. Tokens of an authorization server are verified there
//! (introspection, RFC 7662): that works with tokens of every format, needs no keys here, and a revoked token
//! stops working within [`TOKEN_BELIEVED`].

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

use super::client_info::Principal;
use crate::limits::{TOKEN_ANSWER_BYTES_MAX, TOKEN_BELIEVED, TOKEN_CHECK_TIMEOUT, TOKENS_REMEMBERED};

/// So many random bytes as text; `None` if the system has no random numbers. 32 bytes are enough for a token.
pub fn random_secret(bytes: usize) -> Option<String> {
    let mut random = vec![0; bytes];
    SystemRandom::new().fill(&mut random).ok()?;
    Some(BASE64_URL_SAFE_NO_PAD.encode(random))
}

/// Finds the principal of a token. Called for each request, concurrently.
pub trait TokenVerifier: Send + Sync + 'static {
    /// The principal, or `None` for an invalid token.
    ///
    /// # Errors
    /// The token can't be verified now; the message is for a log.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>>;
}

/// Configured tokens, each with its principal.
pub struct StaticTokens {
    key: Option<hmac::Key>,
    known: Vec<(hmac::Tag, Principal)>,
}

impl Default for StaticTokens {
    fn default() -> StaticTokens {
        StaticTokens::new()
    }
}

impl StaticTokens {
    /// No tokens.
    pub fn new() -> StaticTokens {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        StaticTokens { key, known: Vec::new() }
    }

    /// Adds a token. Of two equal ones the first counts.
    #[must_use]
    pub fn with(self, token: &str, principal: Principal) -> StaticTokens {
        self.with_digest(Sha256::digest(token).into(), principal)
    }

    /// Adds the token with this SHA-256.
    #[must_use]
    pub fn with_digest(mut self, digest: [u8; 32], principal: Principal) -> StaticTokens {
        // Without random numbers there is no key, and no token is valid.
        if let Some(key) = &self.key {
            self.known.push((hmac::sign(key, &digest), principal));
        }
        self
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn find(&self, token: &str) -> Option<&Principal> {
        let key = self.key.as_ref()?;
        let digest = Sha256::digest(token);
        // Compares with all of them, in constant time.
        let mut found = None;
        for (tag, principal) in &self.known {
            if hmac::verify(key, &digest, tag.as_ref()).is_ok() {
                found = found.or(Some(principal));
            }
        }
        found
    }
}

impl TokenVerifier for StaticTokens {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>> {
        Box::pin(std::future::ready(Ok(self.find(token).cloned())))
    }
}

/// Verified tokens by digest, until they expire.
type VerifiedTokens = HashMap<[u8; 32], (Instant, Option<Principal>)>;

/// Verifies tokens at an authorization server.
pub struct TokenIntrospection {
    client: reqwest::Client,
    endpoint: url::Url,
    credentials: (String, String),
    /// The audience that a token needs.
    audience: String,
    scopes: Vec<String>,
    verified: Mutex<VerifiedTokens>,
}

impl TokenIntrospection {
    /// Verifies at this endpoint, with these credentials of this server. A token has to be issued for
    /// `audience`, the server's address in its metadata.
    ///
    /// # Errors
    /// No HTTP client can be created.
    pub fn new(
        endpoint: url::Url,
        client_id: impl Into<String>,
        client_secret: impl Into<String>,
        audience: impl Into<String>,
    ) -> Result<TokenIntrospection, String> {
        Ok(TokenIntrospection {
            client: crate::transport::http::http_client(None)?,
            endpoint,
            credentials: (client_id.into(), client_secret.into()),
            audience: audience.into(),
            scopes: Vec::new(),
            verified: Mutex::default(),
        })
    }

    /// Tokens need all of these scopes as well.
    #[must_use]
    pub fn with_required_scopes(mut self, scopes: impl IntoIterator<Item = String>) -> TokenIntrospection {
        self.scopes = scopes.into_iter().collect();
        self
    }

    fn verified(&self) -> MutexGuard<'_, VerifiedTokens> {
        lock(&self.verified)
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
                crate::transport::error_chain(&error.without_url())
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
        let answer: Value = serde_json::from_slice(&text)
            .map_err(|_| "the authorization server answered no JSON".to_owned())?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
        Ok(self.principal_of(&answer, now))
    }

    /// The principal of an answer, if the token is valid here and now.
    fn principal_of(&self, answer: &Value, now: u64) -> Option<Principal> {
        let is_active = answer["active"] == true;
        let is_in_time = answer.get("exp").is_none_or(|end| end.as_u64().is_some_and(|end| end > now))
            && answer.get("nbf").is_none_or(|begin| begin.as_u64().is_some_and(|begin| begin <= now));
        let is_for_us = match &answer["aud"] {
            Value::String(one) => *one == self.audience,
            Value::Array(all) => all.iter().any(|one| *one == self.audience.as_str()),
            _ => false,
        };
        let scopes: Vec<String> =
            answer["scope"].as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let is_enough = self.scopes.iter().all(|scope| scopes.contains(scope));
        let name = ["sub", "username", "client_id"].iter().find_map(|key| answer[key].as_str())?;
        (is_active && is_in_time && is_for_us && is_enough).then(|| Principal::new(name).with_scopes(scopes))
    }
}

impl TokenVerifier for TokenIntrospection {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<Principal>, String>> {
        Box::pin(async move {
            // The token itself is not kept.
            let digest: [u8; 32] = Sha256::digest(token).into();
            let known = self.verified().get(&digest).cloned();
            if let Some((until, principal)) = known
                && until > Instant::now()
            {
                return Ok(principal);
            }
            let principal = self.ask(token).await?;
            let mut verified = self.verified();
            let now = Instant::now();
            if verified.len() >= TOKENS_REMEMBERED {
                verified.retain(|_, (until, _)| *until > now);
            }
            if verified.len() < TOKENS_REMEMBERED {
                verified.insert(digest, (now + TOKEN_BELIEVED, principal.clone()));
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
    fn static_tokens_are_found_exactly() {
        let tokens = StaticTokens::new().with("aaa", Principal::new("a")).with("bbb", Principal::new("b"));
        assert_eq!(tokens.find("bbb").unwrap().name, "b".into());
        for wrong in ["", "aa", "aaaa", "AAA", "ccc"] {
            assert_eq!(tokens.find(wrong), None, "{wrong}");
        }
        let hashed = StaticTokens::new().with_digest(Sha256::digest("ccc").into(), Principal::new("c"));
        assert_eq!(hashed.find("ccc").unwrap().name, "c".into());
        assert!(!hashed.is_empty() && StaticTokens::new().is_empty());
        assert_ne!(random_secret(32), random_secret(32));
    }

    #[test]
    fn introspected_tokens_need_audience_time_and_scopes() {
        let endpoint = url::Url::parse("https://auth.example/introspect").unwrap();
        let check = TokenIntrospection::new(endpoint, "id", "secret", "https://haft.example/mcp")
            .unwrap()
            .with_required_scopes(["tools".to_owned()]);
        let good = json!({"active": true, "aud": ["x", "https://haft.example/mcp"], "sub": "me", "exp": 200, "scope": "tools more"});
        let with = |key: &str, value: Value| {
            let mut answer = good.clone();
            answer[key] = value;
            answer
        };
        assert_eq!(check.principal_of(&good, 100).unwrap().name, "me".into());
        assert_eq!(&*check.principal_of(&good, 100).unwrap().scopes, ["tools", "more"]);
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
            assert_eq!(check.principal_of(&bad, 100), None, "{bad}");
        }
    }
}
