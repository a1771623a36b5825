//! Settings of the web: the search provider, hosts that are fetched without asking, and the model for
//! questions about pages.

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{SettingValue, TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::run::Provider;
use super::table::{own, settings_section};

/// The maximum number of hosts that are fetched without asking.
pub const PREAPPROVED_MAX: usize = 256;

settings_section! {
    /// Web search, and hosts whose pages are fetched without asking. Not from a workspace.
    own "it says where searches and keys go"
    pub struct WebSettings {
        settings {
            /// Additional hosts whose pages `WebFetch` gets without asking: `docs.example.com`,
            /// `*.example.com`.
            pub preapproved: Vec<SettingValue<String>> = "preapproved", own().concat().check(check_preapproved);
            /// The small model that answers the `prompt` of `WebFetch`. Default: none, and the page is
            /// returned.
            pub answers: Option<Answers> = "answers", own().check(check_answers);
            /// The key for Brave's search. Prefer the environment variable.
            pub brave_api_key: Option<String> = "braveApiKey", own().secret();
            /// The search provider of `WebSearch`. Default: the first of SearXNG, Brave and Tavily that has
            /// an address or a key.
            pub search: Option<Search> = "search", own();
            /// The address of a SearXNG instance, such as `http://localhost:8888`.
            pub searxng_url: Option<String> = "searxngUrl", own();
            /// The key for Tavily's search. Prefer the environment variable.
            pub tavily_api_key: Option<String> = "tavilyApiKey", own().secret();
            /// Whether the default hosts (documentation of languages and tools) are fetched without asking.
            /// Default: true.
            pub usual_preapproved: Option<bool> = "usualPreapproved", own();
        }
    }
}

/// A search provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WebSearchBy")]
pub enum Search {
    /// A SearXNG instance.
    Searxng,
    /// Brave.
    Brave,
    /// Tavily.
    Tavily,
    /// The model's provider, with its own server-side tool.
    Provider,
    /// No search.
    None,
}

/// The small model for questions about pages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "WebAnswers", extend("additionalProperties" = false))]
pub struct Answers {
    /// Its provider. Address and key are those of `run`.
    pub provider: Provider,
    /// The name.
    pub model: String,
}

read_by_serde!(Search, Answers);

fn check_preapproved(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    if reader.read::<Vec<String>>()?.len() > PREAPPROVED_MAX {
        Err(SettingsFault::new(
            reader.node.at,
            format!("`preapproved` takes at most {PREAPPROVED_MAX} hosts"),
        ))
    } else {
        Ok(())
    }
}

fn check_answers(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    if reader.read::<Answers>()?.model.trim().is_empty() {
        Err(SettingsFault::new(reader.node.at, "`answers.model` is empty"))
    } else {
        Ok(())
    }
}
