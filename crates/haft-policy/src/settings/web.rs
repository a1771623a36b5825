//! What settings say about the web: who searches it, whose pages need no question, who answers questions about pages.
//!
//! A workspace has no say in any of it: whoever sets an address gets what is searched for and the key, and a host without a
//! question is a way out. Where several files of the user or the machine's owner speak, the strongest counts, key by key;
//! hosts without a question are put together.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::de::Spanned;
use super::jsonc::{Fault, Spot};
use super::merge::At;
use super::run::Provider;
use crate::source::Source;

/// How many hosts may be fetched from without a question.
pub const PREAPPROVED_MAX: usize = 256;

/// The web. Not from a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Web", extend("additionalProperties" = false))]
pub(crate) struct RawWeb {
    /// Hosts whose pages `WebFetch` gets without a question, beside the usual ones: `docs.example.com`, `*.example.com`.
    preapproved: Option<Vec<Spanned<String>>>,
    /// Whether the usual hosts (documents of languages and tools) need no question. Default: true.
    usual_preapproved: Option<bool>,
    /// Who searches for `WebSearch`. Default: the first of SearXNG, Brave and Tavily that there is an address or a key for.
    search: Option<Search>,
    /// The address of a SearXNG, such as `http://localhost:8888`.
    searxng_url: Option<String>,
    /// The key for Brave's search. The environment is the better place for it.
    brave_api_key: Option<String>,
    /// The key for Tavily's search. The environment is the better place for it.
    tavily_api_key: Option<String>,
    /// The small model that answers the `prompt` of `WebFetch`. Default: none, and the page is returned.
    answers: Option<Answers>,
}

/// Who searches the web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WebSearchBy")]
pub enum Search {
    /// A SearXNG.
    Searxng,
    /// Brave.
    Brave,
    /// Tavily.
    Tavily,
    /// The provider of the model, with a tool of its own that runs there.
    Provider,
    /// Nobody.
    None,
}

impl Search {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Search::Searxng => "searxng",
            Search::Brave => "brave",
            Search::Tavily => "tavily",
            Search::Provider => "provider",
            Search::None => "none",
        }
    }
}

/// A small model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "WebAnswers", extend("additionalProperties" = false))]
pub struct Answers {
    /// Its provider; address and key are those of `run`.
    pub provider: Provider,
    /// Its name.
    pub model: String,
}

impl RawWeb {
    /// What types alone don't say.
    pub(crate) fn check(&self, at: Spot) -> Result<(), Fault> {
        if self.preapproved.as_ref().is_some_and(|hosts| hosts.len() > PREAPPROVED_MAX) {
            return Err(Fault::new(at, format!("`preapproved` takes at most {PREAPPROVED_MAX} hosts")));
        }
        match &self.answers {
            Some(answers) if answers.model.trim().is_empty() => {
                Err(Fault::new(at, "`answers.model` is empty"))
            }
            _ => Ok(()),
        }
    }
}

/// What all files that count say about the web.
#[derive(Debug, Clone, Default)]
pub struct WebSettings {
    /// Strongest first.
    layers: Vec<(RawWeb, Source)>,
    /// Hosts whose pages need no question.
    pub preapproved: Vec<At<String>>,
}

impl WebSettings {
    pub(crate) fn add(&mut self, raw: &RawWeb, at: Spot, source: impl Fn(Spot) -> Source) {
        let hosts = raw.preapproved.iter().flatten();
        self.preapproved.extend(hosts.map(|host| At { value: host.value.clone(), source: source(host.at) }));
        self.layers.push((raw.clone(), source(at)));
    }

    /// Whether the usual hosts need no question.
    pub fn usual_preapproved(&self) -> bool {
        self.first(|web| web.usual_preapproved).unwrap_or(true)
    }

    /// Who searches, where it is said.
    pub fn search(&self) -> Option<Search> {
        self.first(|web| web.search)
    }

    /// The address of a SearXNG.
    pub fn searxng_url(&self) -> Option<String> {
        self.first(|web| web.searxng_url.clone())
    }

    /// The key for Brave.
    pub fn brave_api_key(&self) -> Option<String> {
        self.first(|web| web.brave_api_key.clone())
    }

    /// The key for Tavily.
    pub fn tavily_api_key(&self) -> Option<String> {
        self.first(|web| web.tavily_api_key.clone())
    }

    /// The small model.
    pub fn answers(&self) -> Option<Answers> {
        self.first(|web| web.answers.clone())
    }

    fn first<T>(&self, get: impl Fn(&RawWeb) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(web, _)| get(web))
    }

    /// Every value that counts, under the key by which it is written; keys are not shown.
    pub fn each(&self) -> Vec<(&'static str, At<Value>)> {
        let mut shown: Vec<(&'static str, At<Value>)> = Vec::new();
        for (web, source) in &self.layers {
            let hidden = |key: &Option<String>| key.as_ref().map(|_| json!("(hidden)"));
            let answers =
                |answers: &Answers| json!({"provider": answers.provider.word(), "model": answers.model});
            let values = [
                ("web.answers", web.answers.as_ref().map(answers)),
                ("web.braveApiKey", hidden(&web.brave_api_key)),
                ("web.search", web.search.map(|search| json!(search.word()))),
                ("web.searxngUrl", web.searxng_url.as_ref().map(|url| json!(url))),
                ("web.tavilyApiKey", hidden(&web.tavily_api_key)),
                ("web.usualPreapproved", web.usual_preapproved.map(|usual| json!(usual))),
            ];
            for (key, value) in values {
                if let Some(value) = value.filter(|_| !shown.iter().any(|(known, _)| *known == key)) {
                    shown.push((key, At { value, source: source.clone() }));
                }
            }
        }
        shown.sort_by_key(|(key, _)| *key);
        let hosts = self.preapproved.iter();
        let host = |host: &At<String>| {
            ("web.preapproved", At { value: json!(host.value), source: host.source.clone() })
        };
        hosts.map(host).chain(shown).collect()
    }
}
