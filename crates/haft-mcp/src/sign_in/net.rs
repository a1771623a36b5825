//! Requests to whoever gives tokens: bounded in size and time, followed nowhere, and only to places that may
//! be asked.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Response};
use serde_json::Value;
use url::Url;

use super::allowed_addresses::AllowedAddresses;
use crate::limits::{SIGN_IN_BYTES_MAX, SIGN_IN_REQUEST_TIMEOUT};
use crate::text;
use crate::transport::error_chain;

/// Makes requests on behalf of one server.
pub(crate) struct SignInClient {
    client: Client,
    pub(crate) places: AllowedAddresses,
}

/// What came back.
pub(crate) struct SignInResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The body, if it is JSON.
    pub(crate) body: Value,
}

/// Gives only addresses that may be asked, and those are dialled.
struct CheckedResolver(AllowedAddresses);

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (places, name) = (self.0, name.as_str().to_owned());
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let found = places.checked(&name, found)?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

impl SignInClient {
    /// Requests on behalf of the server at this address.
    ///
    /// # Errors
    /// They can't be made, in words.
    pub(crate) async fn new(server: &Url, proxy: Option<&str>) -> Result<SignInClient, String> {
        crate::transport::http::choose_tls();
        let places = AllowedAddresses::for_server(server, proxy.is_some()).await;
        let builder = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(SIGN_IN_REQUEST_TIMEOUT)
            .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
        let builder = match proxy {
            Some(proxy) => {
                let proxy =
                    reqwest::Proxy::all(proxy).map_err(|_| "the proxy's address can't be used".to_owned())?;
                builder.proxy(proxy)
            }
            None => builder.no_proxy().dns_resolver(Arc::new(CheckedResolver(places))),
        };
        Ok(SignInClient { client: builder.build().map_err(|error| error_chain(&error))?, places })
    }

    /// A document; nothing if it isn't there.
    ///
    /// # Errors
    /// It can't be had, or is none, in words.
    pub(crate) async fn document(&self, url: &Url) -> Result<Option<Value>, String> {
        let answer =
            self.answer(url, self.client.get(url.clone()).header(ACCEPT, "application/json")).await?;
        match answer.status {
            status if status.is_success() && answer.body.is_object() => Ok(Some(answer.body)),
            status if status.is_success() => Err(format!("`{}` is no JSON object", display_url(url))),
            status if status.is_client_error() => Ok(None),
            status => Err(format!("`{}` was answered with HTTP {}", display_url(url), status.as_u16())),
        }
    }

    /// How the server answers who has no token.
    ///
    /// # Errors
    /// It can't be asked, in words.
    pub(crate) async fn refusal_of(&self, server: &Url) -> Result<(StatusCode, HeaderMap), String> {
        let request = self.client.get(server.clone()).header(ACCEPT, "application/json, text/event-stream");
        let response = request.send().await.map_err(|error| error_chain(&error.without_url()))?;
        Ok((response.status(), response.headers().clone()))
    }

    /// Sends a form, or whatever else.
    ///
    /// # Errors
    /// It can't be sent, or the answer not read, in words without anything that was sent.
    pub(crate) async fn post(
        &self,
        url: &Url,
        kind: &'static str,
        headers: HeaderMap,
        body: String,
    ) -> Result<SignInResponse, String> {
        let request = self.client.post(url.clone()).headers(headers);
        let request = request.header(ACCEPT, "application/json").header(CONTENT_TYPE, kind).body(body);
        self.answer(url, request).await
    }

    async fn answer(&self, url: &Url, request: reqwest::RequestBuilder) -> Result<SignInResponse, String> {
        let failed =
            |error: reqwest::Error| format!("`{}`: {}", display_url(url), error_chain(&error.without_url()));
        let mut response = request.send().await.map_err(failed)?;
        let status = response.status();
        if status.is_redirection() {
            // A redirect would carry a code or a secret to wherever it points.
            return Err(format!(
                "`{}` was answered with HTTP {}, a redirect, which is not followed",
                display_url(url),
                status.as_u16()
            ));
        }
        let headers = std::mem::take(response.headers_mut());
        let body =
            read_body(&mut response).await.map_err(|words| format!("`{}`: {words}", display_url(url)))?;
        Ok(SignInResponse { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() })
    }
}

/// An address as it is shown: without its query, which may be a secret.
pub(crate) fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    text::display_line(url.as_str(), 200)
}

async fn read_body(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|error| error_chain(&error.without_url()))? {
        if body.len() + bytes.len() > SIGN_IN_BYTES_MAX {
            return Err(format!("the answer has more than {SIGN_IN_BYTES_MAX} bytes"));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}
