//! Settings of `haft run`: which model, where it is, what it may cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::{TreeReader, read_by_serde};
use super::jsonc::SettingsFault;
use super::table::{own, settings_section};

settings_section! {
    /// How `haft run` reaches a model. Not from a workspace.
    own "whoever sets an address gets the key"
    pub struct RunSettings {
        settings {
            /// Which provider is asked where no flag names one. Default: the first that there is a key for.
            pub provider: Option<Provider> = "provider", own();
        }
        sections {
            /// Anthropic.
            anthropic: ProviderSettings = "anthropic";
            /// OpenAI by its Responses API.
            openai: ProviderSettings = "openai";
            /// OpenAI by Chat Completions, which many other servers speak.
            openai_chat: ProviderSettings = "openai-chat";
            /// Gemini.
            gemini: ProviderSettings = "gemini";
        }
        settings {
            /// What a million tokens cost, by model.
            pub prices: BTreeMap<String, Prices> = "prices", own().by_name(1).check(check_prices);
            /// How often the model may be asked.
            pub max_turns: Option<u64> = "maxTurns", own().at_least(1);
            /// How many tokens a run may cost.
            pub max_tokens: Option<u64> = "maxTokens", own().at_least(1);
            /// How long a run may take, in seconds.
            pub max_seconds: Option<u64> = "maxSeconds", own().at_least(1);
            /// How much money a run may cost, where the model's price is known.
            pub max_cost: Option<f64> = "maxCost", own().at_least(0);
        }
    }
}

settings_section! {
    /// A provider: its model, its address, and the key for it.
    pub struct ProviderSettings {
        settings {
            /// The model.
            pub model: Option<String> = "model", own();
            /// The base URL, as the vendor's own SDK takes it.
            pub base_url: Option<String> = "baseUrl", own();
            /// The key. The environment is the better place for it.
            pub api_key: Option<String> = "apiKey", own().secret();
            /// How many tokens fit into the model's window.
            pub window_tokens: Option<u64> = "windowTokens", own().at_least(1);
        }
    }
}

/// A provider that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// Anthropic.
    Anthropic,
    /// OpenAI by its Responses API.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI by Chat Completions.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// Gemini.
    Gemini,
}

impl Provider {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Provider::Anthropic => "anthropic",
            Provider::OpenAi => "openai",
            Provider::OpenAiChat => "openai-chat",
            Provider::Gemini => "gemini",
        }
    }
}

/// What a million tokens of a model cost, in whatever money.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", expecting = "an object")]
#[schemars(rename = "RunPrices", extend("additionalProperties" = false))]
pub struct Prices {
    /// Input that was not in the cache.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Input that was read from the cache. Default: that of input.
    #[schemars(range(min = 0))]
    pub cache_read: Option<f64>,
    /// Input that was written into the cache. Default: that of input.
    #[schemars(range(min = 0))]
    pub cache_write: Option<f64>,
}

read_by_serde!(Provider, Prices);

fn check_prices(reader: TreeReader<'_>) -> Result<(), SettingsFault> {
    let negative = |prices: &Prices| {
        let all = [Some(prices.input), Some(prices.output), prices.cache_read, prices.cache_write];
        all.into_iter().flatten().any(|money| money < 0.0)
    };
    match reader.read::<BTreeMap<String, Prices>>()?.values().any(negative) {
        true => Err(SettingsFault::new(reader.node.at, "nothing costs less than 0")),
        false => Ok(()),
    }
}

impl RunSettings {
    /// What is set for a provider.
    pub fn for_provider(&self, provider: Provider) -> &ProviderSettings {
        match provider {
            Provider::Anthropic => &self.anthropic,
            Provider::OpenAi => &self.openai,
            Provider::OpenAiChat => &self.openai_chat,
            Provider::Gemini => &self.gemini,
        }
    }
}
