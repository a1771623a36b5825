//! Under which name we ask for tokens: one that the settings have, one that is a document, or one that is registered.

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discovery::Issuer;
use super::jwt::now;
use super::net::{Net, shown};
use super::secret::Secret;
use super::settings::{Grant, OAuth};
use crate::limits::NAME_CHARS_MAX;
use crate::text;

/// A name, and how it is shown to be ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    /// The secret of a name that was registered. One from the settings stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Secret>,
    pub(crate) method: Method,
    /// Where answers to this name go, if it was registered for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redirect: Option<String>,
    /// When a secret ends, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u64>,
}

/// How a name is shown to be ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl Method {
    fn name(self) -> &'static str {
        match self {
            Method::None => "none",
            Method::ClientSecretBasic => "client_secret_basic",
            Method::ClientSecretPost => "client_secret_post",
            Method::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The best that the issuer takes, for a name with or without a secret. One that says nothing takes a header.
    fn for_name(issuer: &Issuer, has_secret: bool) -> Method {
        let with_secret = [Method::ClientSecretBasic, Method::ClientSecretPost];
        match &issuer.methods {
            _ if !has_secret => Method::None,
            None => Method::ClientSecretBasic,
            Some(known) => {
                let known = |method: &Method| known.iter().any(|known| known == method.name());
                with_secret.into_iter().find(known).unwrap_or(Method::None)
            }
        }
    }

    /// What a name is registered with: nothing to keep secret, where that is taken.
    fn to_register(issuer: &Issuer) -> Method {
        let order = [Method::None, Method::ClientSecretBasic, Method::ClientSecretPost];
        match &issuer.methods {
            None => Method::None,
            Some(known) => {
                let known = |method: &Method| known.iter().any(|known| known == method.name());
                order.into_iter().find(known).unwrap_or(Method::None)
            }
        }
    }
}

impl Client {
    /// The name that the settings have, if they do.
    pub(crate) fn of_settings(settings: &OAuth, issuer: &Issuer) -> Option<Client> {
        let id = settings.client_id.clone()?;
        let method = match &settings.grant {
            Grant::Client(Some(_)) => Method::PrivateKeyJwt,
            _ => Method::for_name(issuer, settings.client_secret.is_some()),
        };
        Some(Client { id, secret: None, method, redirect: None, until: None })
    }

    /// The port that it was registered for, if it can still be used.
    pub(crate) fn registered_port(&self) -> Option<u16> {
        let redirect = url::Url::parse(self.redirect.as_deref()?).ok()?;
        redirect.port().filter(|_| self.until.is_none_or(|until| until > now() + 60))
    }
}

/// The name for a sign-in with this redirect.
///
/// # Errors
/// There is none to be had, in words.
pub(crate) async fn for_sign_in(
    net: &Net,
    issuer: &Issuer,
    settings: &OAuth,
    redirect: &str,
    before: Option<&Client>,
    scopes: &[String],
) -> Result<Client, String> {
    if let Some(client) = Client::of_settings(settings, issuer) {
        return Ok(client);
    }
    if let (true, Some(address)) = (issuer.reads_documents, &settings.client_metadata_url) {
        return Ok(Client {
            id: address.clone(),
            secret: None,
            method: Method::None,
            redirect: None,
            until: None,
        });
    }
    if let Some(before) = before.filter(|before| before.redirect.as_deref() == Some(redirect)) {
        return Ok(before.clone());
    }
    register(net, issuer, redirect, scopes).await
}

async fn register(net: &Net, issuer: &Issuer, redirect: &str, scopes: &[String]) -> Result<Client, String> {
    let Some(url) = &issuer.registration else {
        return Err(format!(
            "`{}` registers nobody by itself; have a client registered there with the redirect \
             `http://localhost:PORT/callback`, and put `clientId` and `callbackPort` into `oauth`",
            text::line(&issuer.name, 200)
        ));
    };
    let wanted = Method::to_register(issuer);
    let mut body = json!({
        "client_name": "haft",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.name(),
        "application_type": "native",
    });
    if !scopes.is_empty() {
        body["scope"] = json!(scopes.join(" "));
    }
    let answer = net.post(url, "application/json", HeaderMap::new(), body.to_string()).await?;
    let said = &answer.body;
    if !answer.status.is_success() {
        let words = ["error", "error_description"].map(|key| said[key].as_str().unwrap_or_default());
        return Err(text::line(
            &format!(
                "`{}` registered nothing: HTTP {} {}",
                shown(url),
                answer.status.as_u16(),
                words.join(" ").trim()
            ),
            500,
        ));
    }
    let id = said["client_id"].as_str().filter(|id| !id.is_empty() && id.len() <= NAME_CHARS_MAX * 8);
    let id = id.ok_or_else(|| format!("`{}` registered a client without a name", shown(url)))?;
    let secret = said["client_secret"].as_str().filter(|secret| !secret.is_empty()).map(Secret::new);
    let told =
        said.get("token_endpoint_auth_method").and_then(|method| serde_json::from_value(method.clone()).ok());
    let method = match told {
        Some(method @ (Method::ClientSecretBasic | Method::ClientSecretPost)) if secret.is_some() => method,
        Some(_) => Method::None,
        None => Method::for_name(issuer, secret.is_some()),
    };
    let until = said["client_secret_expires_at"].as_u64().filter(|until| *until > 0 && secret.is_some());
    Ok(Client { id: id.to_owned(), secret, method, redirect: Some(redirect.to_owned()), until })
}
