//! The requests that are answered with tokens.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::challenge;
use super::client::{ClientAuthMethod, OAuthClient};
use super::jwt::{ProofKey, unix_time};
use super::net::{SignInClient, SignInResponse, display_url};
use super::secret::Secret;
use super::settings::{OAuth, TokenGrant};
use crate::limits::{RENEW_BEFORE, TOKEN_CHARS_MAX};
use crate::text;

/// What a form is.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// A form as it is sent.
pub(crate) fn form_body(form: &[(&str, &str)]) -> String {
    Serializer::new(String::new()).extend_pairs(form).finish()
}

/// What was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenSet {
    pub(crate) access: Secret,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<Secret>,
    /// When it ends, in seconds since 1970; nothing if nobody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u64>,
    /// What it is good for, if that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scopes: Option<Vec<String>>,
    /// Whether each use needs a proof.
    #[serde(default)]
    pub(crate) with_proof: bool,
}

impl TokenSet {
    /// Whether it ends now, or nearly.
    pub(crate) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| until <= unix_time() + RENEW_BEFORE.as_secs())
    }
}

/// Why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTokens {
    /// They were refused: the kind, and words.
    Refused { error: String, words: String },
    /// Nobody knows.
    Failed(String),
}

impl NoTokens {
    pub(crate) fn words(self) -> String {
        match self {
            NoTokens::Refused { words, .. } | NoTokens::Failed(words) => words,
        }
    }
}

impl From<String> for NoTokens {
    fn from(words: String) -> NoTokens {
        NoTokens::Failed(words)
    }
}

/// Where tokens are asked for, and by whom.
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) net: &'a SignInClient,
    pub(crate) url: &'a Url,
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a OAuthClient,
    pub(crate) settings: &'a OAuth,
    pub(crate) proof: Option<&'a ProofKey>,
}

impl TokenEndpoint<'_> {
    /// Asks for tokens. `secrets` are kept out of whatever is said about it.
    pub(crate) async fn ask(&self, form: &[(&str, &str)], secrets: &[&Secret]) -> Result<TokenSet, NoTokens> {
        let mut nonce: Option<String> = None;
        loop {
            let (headers, body) = self.request(form, nonce.as_deref())?;
            let answer = self.net.post(self.url, FORM, headers, body).await?;
            let again = answer.headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
            if let (None, Some(again), Some(_)) = (&nonce, again, self.proof)
                && answer.body["error"] == "use_dpop_nonce"
            {
                nonce = Some(again.to_owned());
                continue;
            }
            let hide = |words: String| secrets.iter().fold(words, |words, secret| secret.hidden_in(&words));
            return parse_tokens(self.url, &answer).map_err(|failure| match failure {
                NoTokens::Refused { error, words } => NoTokens::Refused { error, words: hide(words) },
                NoTokens::Failed(words) => NoTokens::Failed(hide(words)),
            });
        }
    }

    /// Gives a token back (RFC 7009).
    pub(crate) async fn give_back(&self, kind: &str, token: &Secret) -> Result<(), String> {
        let (headers, body) = self.request(&[("token", token.reveal()), ("token_type_hint", kind)], None)?;
        let answer = self.net.post(self.url, FORM, headers, body).await?;
        if answer.status.is_success() {
            Ok(())
        } else {
            Err(token.hidden_in(&token_refusal(self.url, &answer).words()))
        }
    }

    fn request(&self, form: &[(&str, &str)], nonce: Option<&str>) -> Result<(HeaderMap, String), String> {
        let mut headers = HeaderMap::new();
        let mut body = Serializer::new(String::new());
        body.extend_pairs(form);
        let OAuthClient { id, method, .. } = self.client;
        let secret = if self.settings.client_id.as_deref() == Some(id) {
            self.settings.client_secret.as_ref()
        } else {
            self.client.secret.as_ref()
        };
        match (method, secret) {
            (ClientAuthMethod::ClientSecretBasic, Some(secret)) => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(id), encoded(secret.reveal()));
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                headers.insert(AUTHORIZATION, sensitive_header(&value)?);
            }
            (ClientAuthMethod::ClientSecretPost, Some(secret)) => {
                body.append_pair("client_id", id).append_pair("client_secret", secret.reveal());
            }
            (ClientAuthMethod::PrivateKeyJwt, _) => {
                let TokenGrant::Client(Some(key)) = &self.settings.grant else {
                    return Err("the private key of the client is gone".to_owned());
                };
                body.append_pair("client_id", id)
                    .append_pair(
                        "client_assertion_type",
                        "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                    )
                    .append_pair("client_assertion", &key.assertion(id, self.issuer)?);
            }
            _ => {
                body.append_pair("client_id", id);
            }
        }
        if let Some(key) = self.proof {
            headers.insert("dpop", sensitive_header(&key.proof("POST", self.url, nonce, None)?)?);
        }
        Ok((headers, body.finish()))
    }
}

pub(crate) fn sensitive_header(value: &str) -> Result<HeaderValue, String> {
    let mut value =
        HeaderValue::from_str(value).map_err(|_| "a token has characters that can't be sent".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// A refusal, or whatever else is no token, in words.
pub(crate) fn token_refusal(url: &Url, answer: &SignInResponse) -> NoTokens {
    let said = |key: &str| answer.body[key].as_str().unwrap_or_default();
    let words = format!("`{}` answered with HTTP {}", display_url(url), answer.status.as_u16());
    match said("error") {
        "" => NoTokens::Failed(words),
        error => {
            let words = format!("{words}: {error} {}", said("error_description"));
            NoTokens::Refused { error: error.to_owned(), words: text::display_line(words.trim_end(), 500) }
        }
    }
}

fn parse_tokens(url: &Url, answer: &SignInResponse) -> Result<TokenSet, NoTokens> {
    let said = &answer.body;
    if !answer.status.is_success() {
        return Err(token_refusal(url, answer));
    }
    let odd = |what: &str| NoTokens::Failed(format!("`{}` gave {what}", display_url(url)));
    let secret = |key: &str| {
        let fits =
            |text: &str| text.len() <= TOKEN_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        match said[key].as_str().filter(|text| !text.is_empty()) {
            Some(text) if fits(text) => Ok(Some(Secret::new(text))),
            Some(_) => Err(odd("a token that can't be sent")),
            None => Ok(None),
        }
    };
    let with_proof = match said["token_type"].as_str() {
        Some(kind) if kind.eq_ignore_ascii_case("bearer") => false,
        Some(kind) if kind.eq_ignore_ascii_case("dpop") => true,
        _ => return Err(odd("a token of a kind that is not known here")),
    };
    let lasts = match &said["expires_in"] {
        Value::String(text) => text.parse().ok(),
        number => number.as_u64().or_else(|| number.as_f64().map(|number| number.max(0.0) as u64)),
    };
    Ok(TokenSet {
        access: secret("access_token")?.ok_or_else(|| odd("no token"))?,
        refresh: secret("refresh_token")?,
        until: lasts.map(|lasts: u64| unix_time().saturating_add(lasts)),
        scopes: said["scope"].as_str().map(challenge::split_scopes),
        with_proof,
    })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    fn read(status: u16, body: Value) -> Result<TokenSet, NoTokens> {
        let status = StatusCode::from_u16(status).unwrap();
        let url = Url::parse("https://as.example/token?x=1").unwrap();
        parse_tokens(&url, &SignInResponse { status, headers: HeaderMap::new(), body })
    }

    #[test]
    fn tokens_are_read_and_odd_ones_refused() {
        let given = read(
            200,
            json!({"access_token": "a", "token_type": "bearer", "expires_in": "60", "refresh_token": "r", "scope": "x y"}),
        );
        let given = given.unwrap();
        assert!(given.until.unwrap() >= unix_time() + 50 && !given.with_proof);
        assert_eq!(given.scopes.unwrap(), ["x", "y"]);
        assert!(
            read(200, json!({"access_token": "a", "token_type": "Bearer", "expires_in": 1}))
                .unwrap()
                .is_over()
        );
        assert!(!read(200, json!({"access_token": "a", "token_type": "DPoP"})).unwrap().is_over());
        for bad in [
            json!(null),
            json!({"token_type": "Bearer"}),
            json!({"access_token": "a"}),
            json!({"access_token": "a", "token_type": "mac"}),
            json!({"access_token": "a\r\nX: y", "token_type": "Bearer"}),
            json!({"access_token": "a".repeat(TOKEN_CHARS_MAX + 1), "token_type": "Bearer"}),
            json!({"access_token": 7, "token_type": "Bearer"}),
        ] {
            assert!(matches!(read(200, bad.clone()), Err(NoTokens::Failed(_))), "{bad}");
        }
        let refused =
            read(400, json!({"error": "invalid_grant", "error_description": "used\u{202e}"})).unwrap_err();
        assert_eq!(
            refused,
            NoTokens::Refused {
                error: "invalid_grant".into(),
                words: "`https://as.example/token` answered with HTTP 400: invalid_grant used\\u{202e}"
                    .into(),
            }
        );
    }
}
