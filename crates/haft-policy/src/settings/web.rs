//! Settings of the web: what searches it, which pages need no question, which model answers questions about pages.

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{SettingValue, TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::run::Provider;
use super::table::{own, settings_section};

/// How many hosts may be fetched from without a question.
pub const PREAPPROVED_MAX: usize = 256;

settings_section! {
    /// What searches the web, and whose pages need no question. Not from a workspace.
    own "it says where searches and keys go"
    pub struct WebSettings {
        settings {
            /// Hosts whose pages `WebFetch` gets without a question, beside the usual ones: `docs.example.com`, `*.example.com`.
            pub preapproved: Vec<SettingValue<String>> = "preapproved", own().concat().check(check_preapproved);
            /// The small model that answers the `prompt` of `WebFetch`. Default: none, and the page is returned.
            pub answers: Option<Answers> = "answers", own().check(check_answers);
            /// The key for Brave's search. The environment is the better place for it.
            pub brave_api_key: Option<String> = "braveApiKey", own().secret();
            /// What searches for `WebSearch`. Default: the first of SearXNG, Brave and Tavily that there is an address or a
            /// key for.
            pub search: Option<Search> = "search", own();
            /// The address of a SearXNG, such as `http://localhost:8888`.
            pub searxng_url: Option<String> = "searxngUrl", own();
            /// The key for Tavily's search. The environment is the better place for it.
            pub tavily_api_key: Option<String> = "tavilyApiKey", own().secret();
            /// Whether the usual hosts (documents of languages and tools) need no question. Default: true.
            pub usual_preapproved: Option<bool> = "usualPreapproved", own();
        }
    }
}

/// What searches the web.
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
    /// Nothing.
    None,
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

read_by_serde!(Search, Answers);

fn check_preapproved(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    match reader.read::<Vec<String>>()?.len() > PREAPPROVED_MAX {
        true => Err(SettingsFault::new(
            reader.node.at,
            format!("`preapproved` takes at most {PREAPPROVED_MAX} hosts"),
        )),
        false => Ok(()),
    }
}

fn check_answers(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    match reader.read::<Answers>()?.model.trim().is_empty() {
        true => Err(SettingsFault::new(reader.node.at, "`answers.model` is empty")),
        false => Ok(()),
    }
}
