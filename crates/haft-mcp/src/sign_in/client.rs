//! Under which name we ask for tokens: one that the settings have, one that is a document, or one that is
//! registered.

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::discovery::TokenIssuer;
use super::jwt::unix_time;
use super::net::{SignInClient, display_url};
use super::secret::Secret;
use super::settings::{OAuth, TokenGrant};
use crate::limits::NAME_CHARS_MAX;
use crate::text;

/// A name, and how it is shown to be ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OAuthClient {
    pub(crate) id: String,
    /// The secret of a name that was registered. One from the settings stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Secret>,
    pub(crate) method: ClientAuthMethod,
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
pub(crate) enum ClientAuthMethod {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    fn name(self) -> &'static str {
        match self {
            ClientAuthMethod::None => "none",
            ClientAuthMethod::ClientSecretBasic => "client_secret_basic",
            ClientAuthMethod::ClientSecretPost => "client_secret_post",
            ClientAuthMethod::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// The best that the issuer takes, for a name with or without a secret. One that says nothing takes a
    /// header.
    fn for_name(issuer: &TokenIssuer, has_secret: bool) -> ClientAuthMethod {
        let with_secret = [ClientAuthMethod::ClientSecretBasic, ClientAuthMethod::ClientSecretPost];
        match &issuer.methods {
            _ if !has_secret => ClientAuthMethod::None,
            None => ClientAuthMethod::ClientSecretBasic,
            Some(known) => {
                let known = |method: &ClientAuthMethod| known.iter().any(|known| known == method.name());
                with_secret.into_iter().find(known).unwrap_or(ClientAuthMethod::None)
            }
        }
    }

    /// What a name is registered with: nothing to keep secret, where that is taken.
    fn to_register(issuer: &TokenIssuer) -> ClientAuthMethod {
        let order =
            [ClientAuthMethod::None, ClientAuthMethod::ClientSecretBasic, ClientAuthMethod::ClientSecretPost];
        match &issuer.methods {
            None => ClientAuthMethod::None,
            Some(known) => {
                let known = |method: &ClientAuthMethod| known.iter().any(|known| known == method.name());
                order.into_iter().find(known).unwrap_or(ClientAuthMethod::None)
            }
        }
    }
}

impl OAuthClient {
    /// The name that the settings have, if they do.
    pub(crate) fn of_settings(settings: &OAuth, issuer: &TokenIssuer) -> Option<OAuthClient> {
        let id = settings.client_id.clone()?;
        let method = match &settings.grant {
            TokenGrant::Client(Some(_)) => ClientAuthMethod::PrivateKeyJwt,
            _ => ClientAuthMethod::for_name(issuer, settings.client_secret.is_some()),
        };
        Some(OAuthClient { id, secret: None, method, redirect: None, until: None })
    }

    /// The port that it was registered for, if it can still be used.
    pub(crate) fn registered_port(&self) -> Option<u16> {
        let redirect = url::Url::parse(self.redirect.as_deref()?).ok()?;
        redirect.port().filter(|_| self.until.is_none_or(|until| until > unix_time() + 60))
    }
}

/// The name for a sign-in with this redirect.
///
/// # Errors
/// There is none to be had, in words.
pub(crate) async fn for_sign_in(
    net: &SignInClient,
    issuer: &TokenIssuer,
    settings: &OAuth,
    redirect: &str,
    before: Option<&OAuthClient>,
    scopes: &[String],
) -> Result<OAuthClient, String> {
    if let Some(client) = OAuthClient::of_settings(settings, issuer) {
        return Ok(client);
    }
    if let (true, Some(address)) = (issuer.reads_documents, &settings.client_metadata_url) {
        return Ok(OAuthClient {
            id: address.clone(),
            secret: None,
            method: ClientAuthMethod::None,
            redirect: None,
            until: None,
        });
    }
    if let Some(before) = before.filter(|before| before.redirect.as_deref() == Some(redirect)) {
        return Ok(before.clone());
    }
    register_client(net, issuer, redirect, scopes).await
}

async fn register_client(
    net: &SignInClient,
    issuer: &TokenIssuer,
    redirect: &str,
    scopes: &[String],
) -> Result<OAuthClient, String> {
    let Some(url) = &issuer.registration else {
        return Err(format!(
            "`{}` registers nobody by itself; have a client registered there with the redirect \
             `http://localhost:PORT/callback`, and put `clientId` and `callbackPort` into `oauth`",
            text::display_line(&issuer.name, 200)
        ));
    };
    let wanted = ClientAuthMethod::to_register(issuer);
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
        return Err(text::display_line(
            &format!(
                "`{}` registered nothing: HTTP {} {}",
                display_url(url),
                answer.status.as_u16(),
                words.join(" ").trim()
            ),
            500,
        ));
    }
    let id = said["client_id"].as_str().filter(|id| !id.is_empty() && id.len() <= NAME_CHARS_MAX * 8);
    let id = id.ok_or_else(|| format!("`{}` registered a client without a name", display_url(url)))?;
    let secret = said["client_secret"].as_str().filter(|secret| !secret.is_empty()).map(Secret::new);
    let told =
        said.get("token_endpoint_auth_method").and_then(|method| serde_json::from_value(method.clone()).ok());
    let method = match told {
        Some(method @ (ClientAuthMethod::ClientSecretBasic | ClientAuthMethod::ClientSecretPost))
            if secret.is_some() =>
        {
            method
        }
        Some(_) => ClientAuthMethod::None,
        None => ClientAuthMethod::for_name(issuer, secret.is_some()),
    };
    let until = said["client_secret_expires_at"].as_u64().filter(|until| *until > 0 && secret.is_some());
    Ok(OAuthClient { id: id.to_owned(), secret, method, redirect: Some(redirect.to_owned()), until })
}
