//! What settings say about `haft run`: which model, where it is, what it may cost.
//!
//! A workspace has no say in any of it, however much it is trusted: whoever sets the address gets the key and everything
//! that is said. Where several files of the user or the machine's owner speak, the strongest counts, key by key.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::de::Table;
use super::jsonc::Fault;
use super::merge::At;
use crate::source::Source;

/// How `haft run` reaches a model. Not from a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Run", extend("additionalProperties" = false))]
pub(crate) struct RawRun {
    /// Which provider is asked where no flag says. Default: the first that there is a key for.
    provider: Option<Provider>,
    /// Anthropic.
    anthropic: Option<RawProvider>,
    /// OpenAI by its Responses API.
    openai: Option<RawProvider>,
    /// OpenAI by Chat Completions, which many other servers speak.
    #[serde(rename = "openai-chat")]
    openai_chat: Option<RawProvider>,
    /// Gemini.
    gemini: Option<RawProvider>,
    /// What a million tokens cost, by model.
    prices: Option<Table<Prices>>,
    /// How often the model may be asked.
    #[schemars(range(min = 1))]
    max_turns: Option<u64>,
    /// How many tokens a run may cost.
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    /// How long a run may take, in seconds.
    #[schemars(range(min = 1))]
    max_seconds: Option<u64>,
    /// How much money a run may cost, where the model's price is known.
    #[schemars(range(min = 0))]
    max_cost: Option<f64>,
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
    /// All of them.
    pub const ALL: [Provider; 4] =
        [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiChat, Provider::Gemini];

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

/// A provider, its model, and the key for it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "RunProvider", extend("additionalProperties" = false))]
struct RawProvider {
    /// The model.
    model: Option<String>,
    /// The base URL, as the vendor's own SDK takes it.
    base_url: Option<String>,
    /// The key. The environment is the better place for it.
    api_key: Option<String>,
    /// How many tokens fit into the model's window.
    #[schemars(range(min = 1))]
    window_tokens: Option<u64>,
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

impl RawRun {
    /// What types alone don't say.
    pub(crate) fn check(&self, at: super::jsonc::Spot) -> Result<(), Fault> {
        let counts =
            [("maxTurns", self.max_turns), ("maxTokens", self.max_tokens), ("maxSeconds", self.max_seconds)];
        let windows = Provider::ALL.into_iter().filter_map(|provider| self.of(provider)?.window_tokens);
        let windows = windows.map(|tokens| ("windowTokens", Some(tokens)));
        if let Some((key, _)) = counts.into_iter().chain(windows).find(|(_, given)| *given == Some(0)) {
            return Err(Fault::new(at, format!("`{key}` is at least 1")));
        }
        let prices = self.prices.iter().flat_map(|table| &table.0).flat_map(|(_, prices)| {
            [Some(prices.input), Some(prices.output), prices.cache_read, prices.cache_write]
        });
        match prices.chain([self.max_cost]).flatten().any(|money| money < 0.0) {
            true => Err(Fault::new(at, "nothing costs less than 0")),
            false => Ok(()),
        }
    }

    fn of(&self, provider: Provider) -> Option<&RawProvider> {
        match provider {
            Provider::Anthropic => self.anthropic.as_ref(),
            Provider::OpenAi => self.openai.as_ref(),
            Provider::OpenAiChat => self.openai_chat.as_ref(),
            Provider::Gemini => self.gemini.as_ref(),
        }
    }
}

/// What all files that count say about `haft run`.
#[derive(Debug, Clone, Default)]
pub struct RunSettings {
    /// Strongest first.
    layers: Vec<(RawRun, Source)>,
}

impl RunSettings {
    pub(crate) fn add(&mut self, raw: RawRun, source: Source) {
        self.layers.push((raw, source));
    }

    /// The provider to ask.
    pub fn provider(&self) -> Option<Provider> {
        self.first(|run| run.provider)
    }

    /// The model of a provider.
    pub fn model(&self, of: Provider) -> Option<String> {
        self.first(|run| run.of(of)?.model.clone())
    }

    /// The base URL of a provider.
    pub fn base_url(&self, of: Provider) -> Option<String> {
        self.first(|run| run.of(of)?.base_url.clone())
    }

    /// The key for a provider.
    pub fn api_key(&self, of: Provider) -> Option<String> {
        self.first(|run| run.of(of)?.api_key.clone())
    }

    /// How many tokens fit into the window of a provider's model.
    pub fn window_tokens(&self, of: Provider) -> Option<u64> {
        self.first(|run| run.of(of)?.window_tokens)
    }

    /// What a model costs.
    pub fn prices(&self, model: &str) -> Option<Prices> {
        self.first(|run| {
            let found = run.prices.as_ref()?.0.iter().find(|(name, _)| name.value == model);
            found.map(|(_, prices)| *prices)
        })
    }

    /// How often the model may be asked.
    pub fn max_turns(&self) -> Option<u64> {
        self.first(|run| run.max_turns)
    }

    /// How many tokens a run may cost.
    pub fn max_tokens(&self) -> Option<u64> {
        self.first(|run| run.max_tokens)
    }

    /// How long a run may take, in seconds.
    pub fn max_seconds(&self) -> Option<u64> {
        self.first(|run| run.max_seconds)
    }

    /// How much money a run may cost.
    pub fn max_cost(&self) -> Option<f64> {
        self.first(|run| run.max_cost)
    }

    /// Every value that counts, under the key by which it is written; keys are not shown.
    pub fn each(&self) -> Vec<(String, At<Value>)> {
        let mut shown: Vec<(String, At<Value>)> = Vec::new();
        for (run, source) in &self.layers {
            for (key, value) in run.each() {
                if !shown.iter().any(|(known, _)| *known == key) {
                    shown.push((key, At { value, source: source.clone() }));
                }
            }
        }
        shown.sort_by(|(a, _), (b, _)| a.cmp(b));
        shown
    }

    fn first<T>(&self, get: impl Fn(&RawRun) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(run, _)| get(run))
    }
}

impl RawRun {
    fn each(&self) -> Vec<(String, Value)> {
        let mut shown = Map::new();
        let mut put = |key: String, value: Option<Value>| {
            value.map(|value| shown.insert(key, value));
        };
        put("run.provider".to_owned(), self.provider.map(|provider| json!(provider.word())));
        for provider in Provider::ALL {
            let Some(given) = self.of(provider) else { continue };
            let key = |name: &str| format!("run.{}.{name}", provider.word());
            put(key("model"), given.model.as_ref().map(|model| json!(model)));
            put(key("baseUrl"), given.base_url.as_ref().map(|url| json!(url)));
            put(key("apiKey"), given.api_key.as_ref().map(|_| json!("(hidden)")));
            put(key("windowTokens"), given.window_tokens.map(|tokens| json!(tokens)));
        }
        for (model, prices) in self.prices.iter().flat_map(|table| &table.0) {
            let mut value = json!({"input": prices.input, "output": prices.output});
            for (key, given) in [("cacheRead", prices.cache_read), ("cacheWrite", prices.cache_write)] {
                if let Some(given) = given {
                    value[key] = json!(given);
                }
            }
            put(format!("run.prices.{}", model.value), Some(value));
        }
        put("run.maxTurns".to_owned(), self.max_turns.map(|most| json!(most)));
        put("run.maxTokens".to_owned(), self.max_tokens.map(|most| json!(most)));
        put("run.maxSeconds".to_owned(), self.max_seconds.map(|most| json!(most)));
        put("run.maxCost".to_owned(), self.max_cost.map(|most| json!(most)));
        shown.into_iter().collect()
    }
}
