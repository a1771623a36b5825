//! Where a provider is reached, and the names by which people configure it.
//!
//! Nothing here looks at the environment: a host reads these names, or its own flags and settings, and hands
//! over the values. Never take them from files of a project: whoever sets the base URL gets the key and the
//! conversation.

use std::fmt;

use crate::Wire;
use haft_agent::ToolDeferral;

/// The name of the variable that holds a wire's key.
pub fn key_variable(wire: Wire) -> &'static str {
    wire.format().key_variable
}

/// The name of the variable that holds a wire's base URL.
pub fn base_url_variable(wire: Wire) -> &'static str {
    wire.format().base_url_variable
}

/// The base URL of a wire's own vendor.
pub fn default_base_url(wire: Wire) -> &'static str {
    wire.format().base_url
}

/// Where and as whom a provider is asked.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProviderEndpoint {
    /// The wire that is spoken there.
    pub wire: Wire,
    /// The base URL, as the vendor's own SDK takes it.
    pub base_url: String,
    /// The key; none for servers that want none.
    pub key: Option<String>,
    /// More headers of each request.
    pub headers: Vec<(String, String)>,
    /// The proxy that requests go through, as a URL.
    pub proxy: Option<String>,
    /// How tools are told of that the model has to search for. None: as
    /// [`default_deferral`](crate::default_deferral) says.
    pub deferral: Option<ToolDeferral>,
}

impl ProviderEndpoint {
    /// The vendor's own, without a key.
    pub fn new(wire: Wire) -> ProviderEndpoint {
        let base_url = default_base_url(wire).to_owned();
        ProviderEndpoint { wire, base_url, key: None, headers: Vec::new(), proxy: None, deferral: None }
    }

    /// Another base URL.
    #[must_use]
    pub fn base_url(mut self, url: impl Into<String>) -> ProviderEndpoint {
        self.base_url = url.into();
        self
    }

    /// The key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> ProviderEndpoint {
        self.key = Some(key.into()).filter(|key| !key.is_empty());
        self
    }

    /// One more header, such as `anthropic-beta`.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> ProviderEndpoint {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How tools are told of that the model has to search for, where it isn't to be guessed from the address.
    #[must_use]
    pub fn deferral(mut self, deferral: ToolDeferral) -> ProviderEndpoint {
        self.deferral = Some(deferral);
        self
    }

    /// The address of a request to this model.
    ///
    /// # Errors
    /// In words: what can't be used.
    pub fn url(&self, model: &str, stream: bool) -> Result<String, String> {
        let base = self.base_url.trim().trim_end_matches('/');
        let Some((scheme, rest)) = base.split_once("://") else {
            return Err(format!("the base URL `{base}` has no scheme; `https://…` is accepted"));
        };
        if !matches!(scheme, "http" | "https") {
            return Err(format!("the base URL begins with `{scheme}:`; `https:` and `http:` are accepted"));
        }
        if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
            return Err("the base URL has a user name in it; give the key instead".to_owned());
        }
        if rest.contains(['?', '#']) {
            return Err("the base URL has a query or a fragment; leave it out".to_owned());
        }
        (self.wire.format().request_url)(base, model, stream)
    }

    /// The headers of each request but those of the content, the secret ones marked.
    pub fn headers(&self) -> Vec<(String, String)> {
        let headers = (self.wire.format().request_headers)(self.key.as_deref());
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value));
        headers.chain(self.headers.iter().cloned()).collect()
    }
}

/// Without the key.
impl fmt::Debug for ProviderEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Endpoint");
        shown.field("wire", &self.wire).field("base_url", &self.base_url);
        shown.field("has_key", &self.key.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(wire: Wire, base: &str, expected: &str) {
        let url = ProviderEndpoint::new(wire).base_url(base).url("m-1.5", true);
        assert_eq!(url.unwrap_or_else(|words| words), expected);
    }

    #[test]
    fn base_urls_are_those_of_each_vendors_sdk() {
        check(Wire::Anthropic, "https://a.example/", "https://a.example/v1/messages");
        check(Wire::OpenAi, "https://a.example/v1", "https://a.example/v1/responses");
        check(Wire::OpenAiChat, "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions");
        check(
            Wire::Gemini,
            "https://a.example",
            "https://a.example/v1beta/models/m-1.5:streamGenerateContent?alt=sse",
        );
        check(Wire::OpenAi, "a.example", "the base URL `a.example` has no scheme; `https://…` is accepted");
        check(
            Wire::OpenAi,
            "file:///x",
            "the base URL begins with `file:`; `https:` and `http:` are accepted",
        );
        check(Wire::OpenAi, "https://me:pw@a/v1", "the base URL has a user name in it; give the key instead");
        check(Wire::OpenAi, "https://a/v1?x=1", "the base URL has a query or a fragment; leave it out");
        let tuned = ProviderEndpoint::new(Wire::Gemini).url("tunedModels/x", false).unwrap();
        assert!(tuned.ends_with("/v1beta/tunedModels/x:generateContent"), "{tuned}");
        assert!(ProviderEndpoint::new(Wire::Gemini).url("../x?y", false).is_err());
    }

    #[test]
    fn a_key_is_not_shown() {
        let endpoint = ProviderEndpoint::new(Wire::Anthropic).key("sk-secret");
        assert!(!format!("{endpoint:?}").contains("secret"));
        assert!(endpoint.headers().contains(&("x-api-key".to_owned(), "sk-secret".to_owned())));
        assert!(ProviderEndpoint::new(Wire::OpenAi).key("").headers().is_empty());
    }
}
