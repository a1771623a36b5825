//! A provider over HTTP.
//!
//! Requests go straight to the address: no redirect, and no proxy but the one that the host names. How
//! requests are made again, and what becomes of broken streams, is the exchange's business.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use haft::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect;

pub use crate::exchange::RetryPolicy;

use crate::endpoint::ProviderEndpoint;
use crate::exchange::{
    ChunkStream, EndpointState, RequestExchange, RequestTransport, ResponseHead, WRONG_ADDRESS, retry_delay,
};
use crate::limits::{CONNECT_SECONDS_MAX, ERROR_BYTES_MAX, MESSAGE_BYTES_MAX, SILENCE_SECONDS_MAX};
use crate::request::RequestOptions;
use crate::tool_deferral::default_deferral;
use haft_agent::{FailureKind, MessageFormat, Model, ModelFailure, ModelRequest, ReplyStream, ToolDeferral};

/// A provider over HTTP. Clones share connections and what is known of the endpoint's health.
///
/// ```no_run
/// use haft_provider::client::ProviderClient;
/// use haft_provider::endpoint::ProviderEndpoint;
/// use haft_provider::{RequestOptions, Wire};
///
/// # fn main() -> Result<(), String> {
/// let endpoint = ProviderEndpoint::new(Wire::Anthropic).key("sk-…");
/// let client = ProviderClient::new(endpoint, RequestOptions::new("claude-sonnet-4-5"))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct ProviderClient {
    line: Arc<EndpointState>,
    endpoint: Arc<ProviderEndpoint>,
    options: Arc<RequestOptions>,
    retry: RetryPolicy,
    silence: Duration,
}

/// The connections to one endpoint.
struct HttpTransport {
    url: String,
    headers: HeaderMap,
    key: Option<String>,
    proxy: Option<String>,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl ProviderClient {
    /// A client of this endpoint. Nothing is sent and no certificate read yet.
    ///
    /// # Errors
    /// In words: an address or a header that can't be used.
    pub fn new(endpoint: ProviderEndpoint, options: RequestOptions) -> Result<ProviderClient, String> {
        let url = endpoint.url(&options.model, options.stream)?;
        let mut headers = HeaderMap::new();
        for (name, value) in endpoint.headers() {
            let bad =
                || format!("the header `{name}` can't be sent; a key must be one line of plain characters");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        let accept = if options.stream { "text/event-stream" } else { "application/json" };
        headers.insert("accept", HeaderValue::from_static(accept));
        let (key, proxy) = (endpoint.key.clone(), endpoint.proxy.clone());
        let http = HttpTransport { url, headers, key, proxy, client: OnceLock::new() };
        let usual = || default_deferral(endpoint.wire, &endpoint.base_url, &options.model);
        let deferral = endpoint.deferral.unwrap_or_else(usual);
        Ok(ProviderClient {
            line: Arc::new(EndpointState::new(endpoint.wire, http, deferral)),
            endpoint: Arc::new(endpoint),
            options: Arc::new(options),
            retry: RetryPolicy::default(),
            silence: Duration::from_secs(SILENCE_SECONDS_MAX),
        })
    }

    /// How requests are made again.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> ProviderClient {
        self.retry = policy;
        self
    }

    /// How long a stream may say nothing. Default: ten minutes.
    #[must_use]
    pub fn silence(mut self, most: Duration) -> ProviderClient {
        self.silence = most;
        self
    }

    /// Makes what the first request needs, which reads the machine's certificates: some milliseconds that can
    /// be spent on another thread while other things are made ready. Need not be called.
    pub fn warm(&self) {
        self.line.transport.warm();
    }

    /// The endpoint that is asked.
    pub fn endpoint(&self) -> &ProviderEndpoint {
        &self.endpoint
    }

    /// Asks with a body that was made already.
    pub fn send(&self, body: impl Into<String>) -> Box<dyn ReplyStream> {
        Box::new(RequestExchange::new(self.line.clone(), body.into(), self.retry, self.silence))
    }
}

impl Model for ProviderClient {
    fn format(&self) -> &'static dyn MessageFormat {
        self.line.wire.into()
    }

    fn name(&self) -> &str {
        &self.options.model
    }

    fn ask(&self, prompt: &ModelRequest<'_>) -> Box<dyn ReplyStream> {
        self.send(self.options.body(self.line.wire, prompt))
    }

    fn deferral(&self) -> ToolDeferral {
        self.line.deferral()
    }

    fn disable_deferral(&self) {
        self.line.set_deferral(ToolDeferral::Fallback);
    }
}

impl HttpTransport {
    /// Made when the first request needs it, because reading the machine's certificates takes a while.
    fn client(&self) -> Result<&reqwest::Client, ModelFailure> {
        let made = self.client.get_or_init(|| {
            // Fails if the host has chosen one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let builder = reqwest::Client::builder()
                .redirect(redirect::Policy::none())
                .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
                .tcp_nodelay(true)
                .user_agent(concat!("haft/", env!("CARGO_PKG_VERSION")));
            // No certificate is read for what needs none.
            let builder = if self.url.starts_with("http://") && self.proxy.is_none() {
                builder.tls_certs_only(std::iter::empty())
            } else {
                builder
            };
            let builder = match &self.proxy {
                Some(proxy) => {
                    let bad = |_| "the proxy's address can't be used".to_owned();
                    builder.proxy(reqwest::Proxy::all(proxy).map_err(bad)?)
                }
                None => builder.no_proxy(),
            };
            builder
                .build()
                .map_err(|error| format!("no request can be sent: {}", describe_error_chain(&error)))
        });
        made.as_ref().map_err(|words| ModelFailure::new(FailureKind::BadRequest, words.clone()))
    }

    async fn exchange(&self, body: Arc<String>) -> Result<ResponseHead, ModelFailure> {
        let request = self
            .client()?
            .post(&self.url)
            .headers(self.headers.clone())
            .body(Bytes::from_owner(SharedBody(body)));
        let response = request.send().await.map_err(|error| {
            let kind = if error.is_builder() { FailureKind::BadRequest } else { FailureKind::Disconnected };
            ModelFailure::new(kind, describe_error_chain(&error))
        })?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        if !response.status().is_success() {
            let again = match header("x-should-retry") {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            };
            let (status, after) = (response.status().as_u16(), retry_delay(header, SystemTime::now()));
            let (mut body, _) = read_body(response, ERROR_BYTES_MAX).await;
            // Words of an error are shown, and some servers repeat what they were sent.
            if let Some(key) = &self.key {
                body = body.replace(key.as_str(), "(the key)");
            }
            return Ok(ResponseHead::Refused { status, body, after, again });
        }
        let kind = header("content-type").unwrap_or_default();
        if kind.contains("json") && !kind.contains("stream") {
            let (body, broke) = read_body(response, MESSAGE_BYTES_MAX).await;
            return match broke {
                Some(failure) => Err(failure),
                None => Ok(ResponseHead::Whole(body)),
            };
        }
        // A page of a proxy, or of a web server at this address. What doesn't say what it is gets a try.
        if !kind.is_empty() && !kind.contains("stream") {
            let words =
                format!("the server's answer is no event stream (content-type {kind}); {WRONG_ADDRESS}");
            return Err(ModelFailure::new(FailureKind::Malformed, words));
        }
        Ok(ResponseHead::Stream(Box::new(ResponseBody(response))))
    }
}

impl RequestTransport for HttpTransport {
    fn send(&self, body: Arc<String>) -> BoxFuture<'_, Result<ResponseHead, ModelFailure>> {
        Box::pin(self.exchange(body))
    }

    fn warm(&self) {
        // What goes wrong is told by the request.
        let _ = self.client();
    }
}

/// The body of a request, which all its attempts share.
struct SharedBody(Arc<String>);

impl AsRef<[u8]> for SharedBody {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The body of an answer that is streamed.
struct ResponseBody(reqwest::Response);

impl ChunkStream for ResponseBody {
    fn next<'a>(
        &'a mut self,
        feed: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<bool, ModelFailure>> {
        Box::pin(async move {
            match self.0.chunk().await {
                Ok(Some(bytes)) => {
                    feed(&bytes);
                    Ok(true)
                }
                Ok(None) => Ok(false),
                Err(error) => Err(ModelFailure::new(FailureKind::Disconnected, describe_error_chain(&error))),
            }
        })
    }
}

/// Reads a body, at most so much; says what broke.
async fn read_body(mut response: reqwest::Response, most: usize) -> (String, Option<ModelFailure>) {
    let mut body = Vec::new();
    let failure = loop {
        match response.chunk().await {
            Ok(Some(bytes)) if body.len() + bytes.len() > most => {
                let words = format!("the answer is longer than {most} bytes");
                break Some(ModelFailure::new(FailureKind::TooLarge, words));
            }
            Ok(Some(bytes)) => body.extend_from_slice(&bytes),
            Ok(None) => break None,
            Err(error) => {
                break Some(ModelFailure::new(FailureKind::Disconnected, describe_error_chain(&error)));
            }
        }
    };
    let body =
        String::from_utf8(body).unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned());
    (body, failure)
}

/// An error with what is behind it, without the address.
fn describe_error_chain(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(error) = next {
        words.push(error.to_string());
        next = error.source();
    }
    match words.is_empty() {
        true if error.is_builder() => "the address or a header can't be used".to_owned(),
        true => "the connection broke".to_owned(),
        false => words.join(": "),
    }
}
