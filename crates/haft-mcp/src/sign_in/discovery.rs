//! Who gives tokens for a server, and how they are asked.
//!
//! The server's own description (RFC 9728) names an issuer, and the issuer's (RFC 8414, or OpenID Connect's)
//! the addresses. Both are believed only as far as they speak of themselves: a description has to be about
//! the server that was asked, and an issuer about itself. A server of the first revision has neither; then
//! its own origin is the issuer.

use serde_json::Value;
use url::Url;

use super::challenge::{self, AuthChallenge};
use super::net::{SignInClient, display_url};
use super::settings::OAuth;
use crate::limits::SCOPES_MAX;
use crate::text;

/// Who gives tokens for a server.
#[derive(Debug, Clone)]
pub(crate) struct TokenIssuer {
    /// Its name, to the letter.
    pub(crate) name: String,
    /// What the tokens are for, to the letter as the server says it.
    pub(crate) resource: Option<String>,
    /// What the server says can be asked for.
    pub(crate) resource_scopes: Option<Vec<String>>,
    /// Where a user signs in.
    pub(crate) authorization: Option<Url>,
    pub(crate) token: Url,
    pub(crate) registration: Option<Url>,
    pub(crate) revocation: Option<Url>,
    /// How clients may say who they are; nothing if it doesn't say.
    pub(crate) methods: Option<Vec<String>>,
    /// What the issuer says can be asked for.
    pub(crate) scopes: Vec<String>,
    /// Whether its answers name it.
    pub(crate) names_itself: bool,
    /// Whether the address of a document can be the name of a client.
    pub(crate) reads_documents: bool,
    /// Whether tokens come with a key that has to be proved.
    pub(crate) wants_proof: bool,
}

/// Finds out who gives tokens for the server at this address.
///
/// # Errors
/// Nobody does, or what is said of it can't be believed, in words.
pub(crate) async fn discover_issuer(
    net: &SignInClient,
    server: &Url,
    challenge: &AuthChallenge,
    settings: &OAuth,
) -> Result<TokenIssuer, String> {
    if let Some(address) = &settings.metadata_url {
        let url = net.places.check(address, "the address `authServerMetadataUrl`")?;
        let found =
            net.document(&url).await?.ok_or_else(|| format!("`{}` is not there", display_url(&url)))?;
        let name = found["issuer"].as_str().unwrap_or_default().to_owned();
        let id = Some(resource_identifier(server));
        let resource =
            ResourceMetadata { id, wants_proof: challenge.wants_proof, ..ResourceMetadata::default() };
        return require_issuer(parse_issuer(net, &name, &found, resource)?, settings);
    }
    let (resource, name) = match fetch_resource_metadata(net, server, challenge).await? {
        Some(found) => {
            let mut resource = ResourceMetadata::read(server, &found)?;
            resource.wants_proof |= challenge.wants_proof;
            let name = resource.choose_issuer(settings)?;
            (resource, name)
        }
        None => (ResourceMetadata::default(), None),
    };
    let Some(name) = name else { return first_revision(net, server, resource, settings).await };
    let base = net.places.check(&name, "the issuer")?;
    let Some(found) = fetch_issuer_metadata(net, &base).await? else {
        return Err(format!(
            "`{}` gives tokens for it and doesn't describe how; put `authServerMetadataUrl` into `oauth`, or a token \
             into `headers`",
            text::display_line(&name, 200)
        ));
    };
    require_issuer(parse_issuer(net, &name, &found, resource)?, settings)
}

/// What a server says of itself.
#[derive(Default)]
struct ResourceMetadata {
    id: Option<String>,
    issuers: Vec<String>,
    scopes: Option<Vec<String>>,
    wants_proof: bool,
}

impl ResourceMetadata {
    fn read(server: &Url, found: &Value) -> Result<ResourceMetadata, String> {
        let id = found["resource"].as_str().unwrap_or_default();
        if !is_about(server, id) {
            return Err(format!(
                "its description is about `{}`, which is another server; no token is asked for",
                text::display_line(id, 200)
            ));
        }
        let wants_proof = found["dpop_bound_access_tokens_required"] == true
            || found["dpop_signing_alg_values_supported"].is_array();
        let scopes = found.get("scopes_supported").map(string_list);
        Ok(ResourceMetadata {
            id: Some(id.to_owned()),
            issuers: string_list(&found["authorization_servers"]),
            scopes,
            wants_proof,
        })
    }

    fn choose_issuer(&self, settings: &OAuth) -> Result<Option<String>, String> {
        match &settings.issuer {
            None => Ok(self.issuers.first().cloned()),
            Some(wanted) if self.issuers.is_empty() || self.issuers.contains(wanted) => {
                Ok(Some(wanted.clone()))
            }
            Some(wanted) => Err(format!(
                "tokens for it are given by {}, and `oauth.issuer` is `{}`",
                text::display_line(&format!("{:?}", self.issuers), 300),
                text::display_line(wanted, 200)
            )),
        }
    }
}

/// The server's description, if it has one.
async fn fetch_resource_metadata(
    net: &SignInClient,
    server: &Url,
    challenge: &AuthChallenge,
) -> Result<Option<Value>, String> {
    if let Some(address) = &challenge.resource_metadata {
        let url = net.places.check(address, "the server's description")?;
        let found = net.document(&url).await?;
        return found
            .map(Some)
            .ok_or_else(|| format!("its description `{}` is not there", display_url(&url)));
    }
    let path = server.path().trim_end_matches('/');
    let root = "/.well-known/oauth-protected-resource";
    for path in
        [Some(format!("{root}{path}")).filter(|_| !path.is_empty()), Some(root.to_owned())].iter().flatten()
    {
        if let Some(found) = net.document(&with_path(server, path)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// What an issuer says of itself, if it does.
async fn fetch_issuer_metadata(net: &SignInClient, issuer: &Url) -> Result<Option<Value>, String> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for path in &places {
        if let Some(found) = net.document(&with_path(issuer, path)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The issuer of a server that says nothing of one: itself, with addresses that are what the first revision
/// says they are.
async fn first_revision(
    net: &SignInClient,
    server: &Url,
    resource: ResourceMetadata,
    settings: &OAuth,
) -> Result<TokenIssuer, String> {
    let base = with_path(server, "/");
    net.places.check(base.as_str(), "the server")?;
    let name = server.origin().ascii_serialization();
    if let Some(found) = fetch_issuer_metadata(net, &base).await? {
        return require_issuer(parse_issuer(net, &name, &found, resource)?, settings);
    }
    require_issuer(
        TokenIssuer {
            name,
            resource: resource.id,
            resource_scopes: resource.scopes,
            authorization: Some(with_path(server, "/authorize")),
            token: with_path(server, "/token"),
            registration: Some(with_path(server, "/register")),
            revocation: None,
            methods: None,
            scopes: Vec::new(),
            names_itself: false,
            reads_documents: false,
            wants_proof: false,
        },
        settings,
    )
}

/// Reads what an issuer says of itself.
fn parse_issuer(
    net: &SignInClient,
    name: &str,
    found: &Value,
    resource: ResourceMetadata,
) -> Result<TokenIssuer, String> {
    let said = found["issuer"].as_str().unwrap_or_default();
    // Whether the name ends in a slash makes no other address of it, and many get it wrong.
    if said.is_empty() || said.trim_end_matches('/') != name.trim_end_matches('/') {
        return Err(format!(
            "`{}` describes itself as `{}`; somebody who says to be another gets nothing",
            text::display_line(name, 200),
            text::display_line(said, 200)
        ));
    }
    let address = |key: &str| match &found[key] {
        Value::Null => Ok(None),
        Value::String(address) => net.places.check(address, &format!("its `{key}`")).map(Some),
        _ => Err(format!("its `{key}` is no address")),
    };
    let challenges = found.get("code_challenge_methods_supported").map(string_list);
    let authorization = address("authorization_endpoint")?;
    if authorization.is_some() && !challenges.is_some_and(|known| known.iter().any(|known| known == "S256")) {
        return Err(format!(
            "`{}` doesn't say that it knows PKCE with S256, without which a code can be stolen",
            text::display_line(name, 200)
        ));
    }
    let proofs = string_list(&found["dpop_signing_alg_values_supported"]);
    Ok(TokenIssuer {
        name: said.to_owned(),
        resource: resource.id,
        resource_scopes: resource.scopes,
        authorization,
        token: address("token_endpoint")?.ok_or("it names no `token_endpoint`")?,
        registration: address("registration_endpoint")?,
        revocation: address("revocation_endpoint")?,
        methods: found.get("token_endpoint_auth_methods_supported").map(string_list),
        scopes: string_list(&found["scopes_supported"]),
        names_itself: found["authorization_response_iss_parameter_supported"] == true,
        reads_documents: found["client_id_metadata_document_supported"] == true,
        wants_proof: resource.wants_proof && proofs.iter().any(|proof| proof == "ES256"),
    })
}

/// The issuer, if it is the one that the settings want.
fn require_issuer(issuer: TokenIssuer, settings: &OAuth) -> Result<TokenIssuer, String> {
    match &settings.issuer {
        Some(wanted) if wanted.trim_end_matches('/') != issuer.name.trim_end_matches('/') => Err(format!(
            "tokens for it are given by `{}`, and `oauth.issuer` is `{}`",
            text::display_line(&issuer.name, 200),
            text::display_line(wanted, 200)
        )),
        _ => Ok(issuer),
    }
}

fn string_list(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    all.take(SCOPES_MAX).map(str::to_owned).collect()
}

/// The same host with another path.
fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// How a server is named where it doesn't say so itself.
pub(crate) fn resource_identifier(server: &Url) -> String {
    with_path(server, server.path()).as_str().trim_end_matches('/').to_owned()
}

/// Whether a description speaks of the server at this address: the same origin, and its path or one above it.
fn is_about(server: &Url, resource: &str) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (of, path) = (resource.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    let within = path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin() && within && resource.fragment().is_none()
}

/// What to ask for: what the settings say, else what the refusal does, else what the server says of itself.
/// Where more is wanted than was given, all that was asked for before goes with it. A token that can be
/// renewed is asked for only where the issuer knows such a thing.
pub(crate) fn scopes_to_ask(
    issuer: &TokenIssuer,
    challenge: &AuthChallenge,
    settings: &OAuth,
    before: &[String],
) -> Vec<String> {
    let for_more = challenge.error.as_deref() == Some("insufficient_scope");
    let mut all: Vec<String> = if for_more { before.to_vec() } else { Vec::new() };
    all.extend(match (&challenge.scopes, &issuer.resource_scopes) {
        _ if !settings.scopes.is_empty() => settings.scopes.clone(),
        (Some(scopes), _) | (None, Some(scopes)) => scopes.clone(),
        (None, None) => Vec::new(),
    });
    // What was refused for want of it is needed whatever the settings say.
    all.extend(challenge.scopes.iter().flatten().filter(|_| for_more).cloned());
    let offline = "offline_access";
    if !settings.grant.is_alone() && issuer.scopes.iter().any(|scope| scope == offline) {
        all.push(offline.to_owned());
    }
    challenge::split_scopes(&all.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_is_wanted() {
        let url = Url::parse("https://as.example/token").unwrap();
        let mut issuer = TokenIssuer {
            name: "https://as.example".into(),
            resource: None,
            resource_scopes: Some(vec!["r".into()]),
            authorization: None,
            token: url,
            registration: None,
            revocation: None,
            methods: None,
            scopes: vec!["r".into(), "offline_access".into()],
            names_itself: false,
            reads_documents: false,
            wants_proof: false,
        };
        let refused = |error: Option<&str>| AuthChallenge {
            scopes: Some(vec!["w".into()]),
            error: error.map(str::to_owned),
            ..AuthChallenge::default()
        };
        let before = ["b".to_owned()];
        let (mut settings, nothing) = (OAuth::default(), AuthChallenge::default());
        let ask = |issuer: &TokenIssuer, challenge: &AuthChallenge, settings: &OAuth| {
            scopes_to_ask(issuer, challenge, settings, &before).join(" ")
        };
        assert_eq!(ask(&issuer, &nothing, &settings), "r offline_access");
        assert_eq!(ask(&issuer, &refused(None), &settings), "w offline_access");
        assert_eq!(ask(&issuer, &refused(Some("insufficient_scope")), &settings), "b w offline_access");
        settings.scopes = vec!["mine".into()];
        assert_eq!(ask(&issuer, &refused(None), &settings), "mine offline_access");
        assert_eq!(ask(&issuer, &refused(Some("insufficient_scope")), &settings), "b mine w offline_access");
        (issuer.scopes, issuer.resource_scopes) = (Vec::new(), None);
        assert_eq!(ask(&issuer, &nothing, &OAuth::default()), "");
    }

    #[test]
    fn a_description_is_about_its_own_server() {
        let server = Url::parse("https://x.example/team/mcp").unwrap();
        for (resource, about) in [
            ("https://x.example/team/mcp", true),
            ("https://x.example/team/mcp/", true),
            ("https://x.example/team", true),
            ("https://x.example", true),
            ("https://X.example:443/", true),
            ("https://x.example/tea", false),
            ("https://x.example/team/mcp/more", false),
            ("https://x.example/other", false),
            ("https://x.example.evil/team/mcp", false),
            ("https://evil.example/team/mcp", false),
            ("http://x.example/team/mcp", false),
            ("https://x.example/team/mcp#a", false),
            ("", false),
        ] {
            assert_eq!(is_about(&server, resource), about, "{resource}");
        }
    }
}
