//! Who searches: how each is asked, and how its answer is read. Nothing is sent from here.

use std::fmt;

use haft::text::{single_line, truncate_with_ellipsis};
use haft_net::fetch::{FetchRequest, FetchTarget};
use haft_net::host::Host;
use http::header::{ACCEPT, AUTHORIZATION, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;

use super::{HITS_MAX, SNIPPET_CHARS_MAX, SearchQuery};
use crate::web::{html, untrusted_text};

/// Where Brave is asked.
const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";
/// Where Tavily is asked.
const TAVILY: &str = "https://api.tavily.com/search";
/// How many pages are asked for: some may be of domains that are not wanted.
const ASKED_FOR: usize = 2 * HITS_MAX;

/// A key, which is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// This key.
    pub fn new(key: impl Into<String>) -> ApiKey {
        ApiKey(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A search that can be asked.
#[derive(Debug, Clone)]
pub struct SearchBackend {
    kind: BackendKind,
    target: FetchTarget,
    key: Option<ApiKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BackendKind {
    Searxng,
    Brave,
    Tavily,
}

/// Why a search can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidBackend(String);

impl fmt::Display for InvalidBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidBackend {}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SearchHit {
    pub(super) title: String,
    pub(super) url: String,
    pub(super) words: String,
}

impl SearchBackend {
    /// A SearXNG, by the address of its first page. It has to allow the format `json` (`search.formats` in
    /// its settings).
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn searxng(base_url: &str) -> Result<SearchBackend, InvalidBackend> {
        let base = base_url.trim().trim_end_matches('/');
        let target =
            FetchTarget::parse(&format!("{base}/search")).map_err(|bad| InvalidBackend(bad.to_string()))?;
        Ok(SearchBackend { kind: BackendKind::Searxng, target, key: None })
    }

    /// The search of Brave.
    pub fn brave(key: ApiKey) -> SearchBackend {
        SearchBackend::with_key(BackendKind::Brave, BRAVE, key)
    }

    /// The search of Tavily.
    pub fn tavily(key: ApiKey) -> SearchBackend {
        SearchBackend::with_key(BackendKind::Tavily, TAVILY, key)
    }

    fn with_key(kind: BackendKind, url: &str, key: ApiKey) -> SearchBackend {
        SearchBackend { kind, target: FetchTarget::parse(url).expect("a test reads it"), key: Some(key) }
    }

    /// The same at another address: a gateway, or a server of a test.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn at(mut self, url: &str) -> Result<SearchBackend, InvalidBackend> {
        self.target = FetchTarget::parse(url).map_err(|bad| InvalidBackend(bad.to_string()))?;
        Ok(self)
    }

    /// Where it is.
    pub fn target(&self) -> &FetchTarget {
        &self.target
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self.kind {
            BackendKind::Searxng => "SearXNG",
            BackendKind::Brave => "Brave",
            BackendKind::Tavily => "Tavily",
        }
    }

    /// A text without the key.
    pub(super) fn hidden(&self, text: String) -> String {
        match &self.key {
            Some(ApiKey(key)) if !key.is_empty() => text.replace(key.as_str(), "(the key)"),
            _ => text,
        }
    }

    pub(super) fn ask(&self, query: &SearchQuery<'_>) -> FetchRequest {
        let key = || self.key.as_ref().map_or("", |key| key.0.as_str());
        let header = |text: &str| {
            let mut value = HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""));
            value.set_sensitive(true);
            value
        };
        let count = ASKED_FOR.to_string();
        let ask = match self.kind {
            BackendKind::Searxng => {
                FetchRequest::get(self.target.with_query([("q", &*with_sites(query)), ("format", "json")]))
            }
            BackendKind::Brave => {
                let query = with_sites(query);
                let pairs = [("q", &*query), ("count", &*count), ("text_decorations", "false")];
                let name = HeaderName::from_static("x-subscription-token");
                FetchRequest::get(self.target.with_query(pairs)).header(name, header(key()))
            }
            BackendKind::Tavily => {
                let names = |hosts: &[Host]| hosts.iter().map(Host::to_string).collect::<Vec<_>>();
                let body = json!({
                    "query": query.text, "max_results": ASKED_FOR,
                    "include_domains": names(&query.allowed), "exclude_domains": names(&query.blocked),
                });
                let bearer = header(&format!("Bearer {}", key()));
                FetchRequest::post_json(self.target.clone(), body.to_string()).header(AUTHORIZATION, bearer)
            }
        };
        ask.header(ACCEPT, HeaderValue::from_static("application/json"))
    }

    /// What a status means that is not the answer.
    pub(super) fn refused(&self, status: u16) -> String {
        let name = self.name();
        let hint = match (self.kind, status) {
            (BackendKind::Searxng, 403) => {
                "it doesn't give JSON; the user has to add `json` to `search.formats` in its settings"
            }
            (_, 401 | 403) => "its key is not accepted; tell the user",
            (_, 402 | 432 | 433) => "its plan is used up; tell the user",
            (_, 429) => "it was asked too often; wait before trying again",
            (_, 500..=599) => "it has a problem that may pass",
            _ => "its address may be wrong",
        };
        format!("the search by {name} answered {status}: {hint}")
    }

    /// The pages of an answer; nothing if it is none.
    pub(super) fn read(&self, body: &[u8]) -> Option<Vec<SearchHit>> {
        let found: Vec<ResponseHit> = match self.kind {
            BackendKind::Searxng | BackendKind::Tavily => {
                serde_json::from_slice::<ResponseResults>(body).ok()?.results?
            }
            BackendKind::Brave => {
                // Where there are no pages there is no list.
                serde_json::from_slice::<BraveResponse>(body)
                    .ok()?
                    .web
                    .and_then(|web| web.results)
                    .unwrap_or_default()
            }
        };
        let mut hits: Vec<SearchHit> = Vec::new();
        for ResponseHit { title, url, content, description } in found {
            let words = content.or(description).unwrap_or_default();
            let hit = SearchHit {
                title: plain_text(&title.unwrap_or_default()),
                url: untrusted_text::visible_text(&url).into_owned(),
                words: plain_text(&words),
            };
            // An address with something else in it would not stay on its line.
            if !hit.url.contains(char::is_whitespace) && !hits.iter().any(|known| known.url == hit.url) {
                hits.push(hit);
            }
        }
        Some(hits)
    }
}

/// The question with domains as most searches understand them.
fn with_sites(query: &SearchQuery<'_>) -> String {
    let mut text = query.text.to_owned();
    for domain in &query.blocked {
        text.push_str(&format!(" -site:{domain}"));
    }
    let sites: Vec<String> = query.allowed.iter().map(|domain| format!("site:{domain}")).collect();
    match sites.as_slice() {
        [] => text,
        [one] => format!("{text} {one}"),
        all => format!("{text} ({})", all.join(" OR ")),
    }
}

/// Words on one line, without tags.
fn plain_text(text: &str) -> String {
    let text = if text.contains(['<', '&']) {
        html::convert_page(text, None).markdown.replace("**", "")
    } else {
        text.to_owned()
    };
    let text = untrusted_text::visible_text(&text);
    truncate_with_ellipsis(&single_line(&text), SNIPPET_CHARS_MAX)
}

#[derive(Deserialize)]
struct ResponseResults {
    results: Option<Vec<ResponseHit>>,
}

#[derive(Deserialize)]
struct BraveResponse {
    web: Option<ResponseResults>,
}

#[derive(Deserialize)]
struct ResponseHit {
    title: Option<String>,
    url: String,
    content: Option<String>,
    description: Option<String>,
}
