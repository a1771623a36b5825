//! What a configuration says about signing in: data, nothing done.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::jwt::SigningKey;
use super::secret::Secret;

/// How a sign-in goes. The default is right for most servers: everything is found out, and a user opens a
/// page.
///
/// ```
/// use haft_mcp::OAuth;
/// use serde_json::json;
///
/// let oauth = OAuth::read(&json!({"clientId": "haft-at-work", "callbackPort": 8765})).unwrap();
/// assert_eq!(oauth.client_id.as_deref(), Some("haft-at-work"));
/// assert!(OAuth::read(&json!({"clientId": 5})).is_err());
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OAuth {
    /// The name under which we are known there already. Without it one is found or registered.
    pub client_id: Option<String>,
    /// The secret that goes with the name.
    pub client_secret: Option<Secret>,
    /// The address of a document that describes this client; it is its name where the other side can read it.
    pub client_metadata_url: Option<String>,
    /// The port to which the answer comes, where a fixed one was registered:
    /// `http://localhost:PORT/callback`.
    pub callback_port: Option<u16>,
    /// What to ask for, in place of what the server says.
    pub scopes: Vec<String>,
    /// Who has to give the tokens. A name and a secret are never sent to another one.
    pub issuer: Option<String>,
    /// Where the description of whoever gives the tokens is, in place of what the server says.
    pub metadata_url: Option<String>,
    /// By what tokens are given.
    pub grant: TokenGrant,
}

/// By what tokens are given.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum TokenGrant {
    /// Somebody who signs in on a page.
    #[default]
    User,
    /// The name and secret of this client, or a key in place of the secret.
    Client(Option<SigningKey>),
    /// A statement of somebody who vouches for this program, such as the platform that it runs on.
    Assertion(ClientAssertion),
    /// A statement of the organisation that has signed the user in, exchanged first.
    Organisation(OrganisationGrant),
}

impl TokenGrant {
    /// Whether nobody has to be asked.
    pub(crate) fn is_alone(&self) -> bool {
        !matches!(self, TokenGrant::User)
    }
}

/// A statement that is good for a short time, so it is read whenever it is needed.
#[derive(Clone)]
pub struct ClientAssertion(Arc<dyn Fn() -> Result<Secret, String> + Send + Sync>);

impl ClientAssertion {
    /// Read by this, each time. It should be quick: a file, a variable.
    pub fn read_by(read: impl Fn() -> Result<Secret, String> + Send + Sync + 'static) -> ClientAssertion {
        ClientAssertion(Arc::new(read))
    }

    pub(crate) fn read(&self) -> Result<Secret, String> {
        (self.0)()
    }
}

impl fmt::Debug for ClientAssertion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Assertion(…)")
    }
}

/// An organisation that has signed the user in.
#[derive(Debug, Clone)]
pub struct OrganisationGrant {
    /// Where it exchanges statements.
    pub token_endpoint: String,
    /// Our name there.
    pub client_id: String,
    /// What it said of the user.
    pub id_token: ClientAssertion,
}

impl OAuth {
    /// Reads `oauth` of a server's entry: `clientId`, `clientSecret`, `clientMetadataUrl`, `callbackPort`,
    /// `scopes` (a list, or one text), `issuer`, `authServerMetadataUrl`. What it doesn't know it leaves
    /// alone.
    ///
    /// # Errors
    /// Which of them is of the wrong kind.
    pub fn read(value: &Value) -> Result<OAuth, String> {
        if !value.is_object() {
            return Err("`oauth` has to be an object".to_owned());
        }
        let text = |key: &str| match &value[key] {
            Value::Null => Ok(None),
            Value::String(text) if !text.is_empty() => Ok(Some(text.clone())),
            _ => Err(format!("`oauth.{key}` has to be a text")),
        };
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let scopes = match &value["scopes"] {
            Value::Null => Vec::new(),
            Value::String(all) => words(all),
            Value::Array(all) => {
                let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
                words(&all.ok_or("`oauth.scopes` has to be a list of texts")?.join(" "))
            }
            _ => return Err("`oauth.scopes` has to be a list of texts".to_owned()),
        };
        let callback_port = match &value["callbackPort"] {
            Value::Null => None,
            port => {
                let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
                Some(port.ok_or("`oauth.callbackPort` has to be a port, 1 to 65535")?)
            }
        };
        Ok(OAuth {
            client_id: text("clientId")?,
            client_secret: text("clientSecret")?.map(Secret::new),
            client_metadata_url: text("clientMetadataUrl")?,
            callback_port,
            scopes,
            issuer: text("issuer")?,
            metadata_url: text("authServerMetadataUrl")?,
            grant: TokenGrant::User,
        })
    }

    /// What of it an approval is bound to; nothing where nothing is said.
    pub(crate) fn identity(&self) -> Option<Value> {
        let named = [&self.client_id, &self.issuer, &self.metadata_url, &self.client_metadata_url];
        named.iter().any(|part| part.is_some()).then(|| serde_json::json!(named))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_are_read_and_secrets_are_not_shown() {
        let oauth = OAuth::read(
            &json!({"clientId": "c", "clientSecret": "s3cret", "scopes": "a b", "issuer": "https://as.example"}),
        );
        let oauth = oauth.unwrap();
        assert_eq!(oauth.scopes, ["a", "b"]);
        assert!(!format!("{oauth:?}").contains("s3cret"));
        assert!(!oauth.identity().unwrap().to_string().contains("s3cret"));
        assert_eq!(OAuth::read(&json!({"scopes": ["a", "b c"]})).unwrap().scopes, ["a", "b", "c"]);
        assert_eq!(OAuth::default().identity(), None);
        for bad in [
            json!([]),
            json!({"scopes": 1}),
            json!({"scopes": [1]}),
            json!({"callbackPort": 0}),
            json!({"issuer": ""}),
        ] {
            assert!(OAuth::read(&bad).is_err(), "{bad}");
        }
    }
}
