//! Settings of `haft run`: the model, its address, and limits of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::table::{own, settings_section};

settings_section! {
    /// The model for `haft run`. Not from a workspace.
    own "whoever sets an address gets the key"
    pub struct RunSettings {
        settings {
            /// The provider if no flag names one. Default: the first that has a key.
            pub provider: Option<Provider> = "provider", own();
        }
        sections {
            /// Anthropic.
            anthropic: ProviderSettings = "anthropic";
            /// OpenAI with its Responses API.
            openai: ProviderSettings = "openai";
            /// OpenAI with its Chat Completions API, which many other servers implement.
            openai_chat: ProviderSettings = "openai-chat";
            /// Gemini.
            gemini: ProviderSettings = "gemini";
        }
        settings {
            /// Prices per million tokens, by model.
            pub prices: BTreeMap<String, Prices> = "prices", own().by_name(1).check(check_prices);
            /// The maximum number of requests to the model.
            pub max_turns: Option<u64> = "maxTurns", own().at_least(1);
            /// The maximum number of tokens of a run.
            pub max_tokens: Option<u64> = "maxTokens", own().at_least(1);
            /// The maximum duration of a run, in seconds.
            pub max_seconds: Option<u64> = "maxSeconds", own().at_least(1);
            /// The maximum cost of a run, if the model's price is known.
            pub max_cost: Option<f64> = "maxCost", own().at_least(0);
        }
    }
}

settings_section! {
    /// A provider: its model, its address, and its key.
    pub struct ProviderSettings {
        settings {
            /// The model.
            pub model: Option<String> = "model", own();
            /// The base URL, in the form that the vendor's own SDK accepts.
            pub base_url: Option<String> = "baseUrl", own();
            /// The key. Prefer the environment variable.
            pub api_key: Option<String> = "apiKey", own().secret();
            /// The size of the model's context window, in tokens.
            pub window_tokens: Option<u64> = "windowTokens", own().at_least(1);
        }
    }
}

/// A supported provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic.
    Anthropic,
    /// OpenAI with its Responses API.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI with its Chat Completions API.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Gemini.
    Gemini,
}

impl Provider {
    /// Returns the name in settings.
    pub fn word(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::OpenAiChat => "openai-chat",
            Provider::Gemini => "gemini",
        }
    }
}

/// The price of a million tokens of a model, in any currency.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "RunPrices", extend("additionalProperties" = false))]
pub struct Prices {
    /// Input tokens that were not in the cache.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output tokens.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Input tokens read from the cache. Default: the price of input.
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    /// Input tokens written to the cache. Default: the price of input.
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

read_by_serde!(Provider, Prices);

fn check_prices(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    let negative = |prices: &Prices| {
        let all = [Some(prices.input), Some(prices.output), prices.cache_read, prices.cache_write];
        all.into_iter().flatten().any(|money| money < 0.0)
    };
    if reader.read::<BTreeMap<String, Prices>>()?.values().any(negative) {
        Err(SettingsFault::new(reader.node.at, "nothing costs less than 0"))
    } else {
        Ok(())
    }
}

impl RunSettings {
    /// Returns the settings of a provider.
    pub fn for_provider(&self, provider: Provider) -> &ProviderSettings {
        match provider {
            Provider::Anthropic => &self.anthropic,
            Provider::OpenAi => &self.openai,
            Provider::OpenAiChat => &self.openai_chat,
            Provider::Gemini => &self.gemini,
        }
    }
}
