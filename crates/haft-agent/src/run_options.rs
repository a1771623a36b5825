//! Limits of a run, and the hooks of its host.

use std::sync::Arc;
use std::time::Duration;

use haft::future::BoxFuture;

use crate::limits::{KEPT_RESULTS, WINDOW_PERCENT_MAX};
use crate::reply::TokenUsage;

/// The limits and the system prompt of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunOptions {
    /// The system prompt, in parts that change seldom first.
    pub system: Vec<Arc<str>>,
    /// How often the model may be asked.
    pub max_turns: Option<u64>,
    /// How many tokens everything may cost together.
    pub max_tokens: Option<u64>,
    /// How long it may take. What runs then is interrupted; what can't be has ten seconds more.
    pub max_time: Option<Duration>,
    /// How much money it may cost, where prices are known.
    pub max_cost: Option<f64>,
    /// What tokens cost.
    pub prices: Option<TokenPrices>,
    /// How many tokens fit into the model's window. Room is made before it is full.
    pub window_tokens: Option<u64>,
    /// How full the window may be before room is made, in percent.
    pub window_percent: u64,
    /// How many of the newest results keep their content when room is made.
    pub kept_results: usize,
    /// Whether the model summarises the conversation where clearing results is not enough.
    pub summarise: bool,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions {
            system: Vec::new(),
            max_turns: None,
            max_tokens: None,
            max_time: None,
            max_cost: None,
            prices: None,
            window_tokens: None,
            window_percent: WINDOW_PERCENT_MAX,
            kept_results: KEPT_RESULTS,
            summarise: true,
        }
    }
}

impl RunOptions {
    /// No limits, no system prompt.
    pub fn new() -> RunOptions {
        RunOptions::default()
    }

    /// Adds a part to the system prompt.
    #[must_use]
    pub fn system(mut self, text: impl Into<Arc<str>>) -> RunOptions {
        self.system.push(text.into());
        self
    }

    /// How often the model may be asked.
    #[must_use]
    pub fn max_turns(mut self, turns: u64) -> RunOptions {
        self.max_turns = Some(turns);
        self
    }

    /// How many tokens everything may cost together.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> RunOptions {
        self.max_tokens = Some(tokens);
        self
    }

    /// How long it may take.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> RunOptions {
        self.max_time = Some(time);
        self
    }

    /// How much money it may cost at these prices.
    #[must_use]
    pub fn max_cost(mut self, cost: f64, prices: TokenPrices) -> RunOptions {
        self.max_cost = Some(cost);
        self.prices = Some(prices);
        self
    }

    /// How many tokens fit into the model's window.
    #[must_use]
    pub fn window_tokens(mut self, tokens: u64) -> RunOptions {
        self.window_tokens = Some(tokens);
        self
    }
}

/// What a million tokens cost, in any currency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenPrices {
    /// Input that was not in the cache.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input that was read from the cache.
    pub cache_read: f64,
    /// Input that was written into the cache.
    pub cache_write: f64,
}

impl TokenPrices {
    /// Returns what this usage costs.
    pub fn cost_of(&self, usage: &TokenUsage) -> f64 {
        let cached = usage.cache_read_tokens.saturating_add(usage.cache_write_tokens);
        let fresh = usage.input_tokens.saturating_sub(cached);
        let cost = fresh as f64 * self.input
            + usage.output_tokens as f64 * self.output
            + usage.cache_read_tokens as f64 * self.cache_read
            + usage.cache_write_tokens as f64 * self.cache_write;
        cost / 1e6
    }
}

/// Hooks of the host into a run. By default they do nothing.
///
/// Called in the run's own task, in order, never two at once. A run waits for each answer; an interrupt, or
/// the end of the run's time, doesn't wait and drops the future. Words whose verdict didn't come don't go in.
pub trait LoopHooks: Send + Sync + 'static {
    /// Called before a message of the user is added: the prompt of a run, and each message that arrives
    /// during it.
    fn before_message<'a>(&'a self, text: &'a str) -> BoxFuture<'a, MessageReview> {
        let _ = text;
        Box::pin(async { MessageReview::default() })
    }

    /// Called when the model has finished. A returned text continues the run, as a message of the user.
    /// `again` is true if this run was continued in this way before.
    fn before_stop<'a>(&'a self, text: &'a str, again: bool) -> BoxFuture<'a, Option<String>> {
        let _ = (text, again);
        Box::pin(async { None })
    }

    /// Called before the conversation is compacted. `tokens` is its approximate size. Returning false keeps
    /// it as it is, as long as it fits into the window.
    fn before_compaction(&self, tokens: u64) -> BoxFuture<'_, bool> {
        let _ = tokens;
        Box::pin(async { true })
    }

    /// Called when all calls of a message have results, before these are returned to the model. A returned
    /// text is added for the model.
    fn after_calls<'a>(&'a self, results: &'a [haft::ToolResult]) -> BoxFuture<'a, Option<String>> {
        let _ = results;
        Box::pin(async { None })
    }
}

/// The hooks of a host that has none.
pub(crate) struct NoHooks;

impl LoopHooks for NoHooks {}

/// What the host decides about a message of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageReview {
    /// Context for the model in addition to the message.
    pub context: Option<String>,
    /// The message is rejected, for this reason.
    pub blocked: Option<String>,
}

impl MessageReview {
    /// Accepts the message and adds context for the model.
    pub fn with(context: impl Into<String>) -> MessageReview {
        MessageReview { context: Some(context.into()), blocked: None }
    }

    /// Rejects the message.
    pub fn block(reason: impl Into<String>) -> MessageReview {
        MessageReview { context: None, blocked: Some(reason.into()) }
    }
}
