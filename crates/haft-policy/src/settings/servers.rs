//! What settings say about MCP servers and about finding tools: time limits, what a server may, when tools are searched for.
//!
//! A workspace has no say in what a server may: it would speak for its own servers. How many tools a model is shown at once
//! loosens nothing, so anybody may set that.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::de::{Spanned, Table};
use super::jsonc::{Fault, Spot};
use super::merge::At;
use crate::source::Source;

/// The largest time limit, in milliseconds: a day.
const MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// How MCP servers are treated. Not from a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Mcp", extend("additionalProperties" = false))]
pub(crate) struct RawMcp {
    /// How long a server may take until its tools are known, in milliseconds. Default: 30000.
    #[schemars(range(min = 1))]
    connect_timeout_ms: Option<u64>,
    /// After how long a call goes on in the background, in milliseconds; 0 keeps it in the foreground. Default: 120000.
    background_after_ms: Option<u64>,
    /// What single servers may, by name.
    servers: Option<Table<ServerOptions>>,
}

/// What a server may, and how it is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "McpServerOptions", extend("additionalProperties" = false))]
pub struct ServerOptions {
    /// Whether its process runs in the sandbox. Default: only one that came with the workspace does.
    pub sandbox: Option<bool>,
    /// Whether it may ask the model, each time with your yes. Default: no.
    pub sampling: Option<bool>,
    /// Whether its tools that say they only look really do: such calls run beside others. Default: no.
    pub read_only_hints: Option<bool>,
    /// How many of its calls run at once. Default: 16.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: Option<u64>,
    /// How long a call may go without a sign of life, in milliseconds. Default: five minutes over the network, else thirty.
    #[schemars(range(min = 1))]
    pub idle_timeout_ms: Option<u64>,
}

impl RawMcp {
    /// What types alone don't say.
    pub(crate) fn check(&self, at: Spot) -> Result<(), Fault> {
        let of_servers = self.servers.iter().flat_map(|table| &table.0);
        let limits = [("connectTimeoutMs", self.connect_timeout_ms)];
        let limits =
            limits.into_iter().chain(of_servers.clone().map(|(_, of)| ("idleTimeoutMs", of.idle_timeout_ms)));
        for (key, limit) in limits {
            if limit.is_some_and(|limit| limit == 0 || limit > MS_MAX) {
                return Err(Fault::new(at, format!("`{key}` is between 1 and {MS_MAX}")));
            }
        }
        if self.background_after_ms.is_some_and(|after| after > MS_MAX) {
            return Err(Fault::new(at, format!("`backgroundAfterMs` is at most {MS_MAX}")));
        }
        match of_servers.flat_map(|(_, of)| of.concurrency).any(|calls| calls == 0 || calls > 1_000) {
            true => Err(Fault::new(at, "`concurrency` is between 1 and 1000")),
            false => Ok(()),
        }
    }

    fn each(&self) -> Map<String, Value> {
        let mut shown = Map::new();
        let mut put = |key: String, value: Option<Value>| {
            value.map(|value| shown.insert(key, value));
        };
        put("mcp.connectTimeoutMs".to_owned(), self.connect_timeout_ms.map(|limit| json!(limit)));
        put("mcp.backgroundAfterMs".to_owned(), self.background_after_ms.map(|after| json!(after)));
        for (name, of) in self.servers.iter().flat_map(|table| &table.0) {
            let key = |key: &str| format!("mcp.servers.{}.{key}", name.value);
            put(key("sandbox"), of.sandbox.map(|value| json!(value)));
            put(key("sampling"), of.sampling.map(|value| json!(value)));
            put(key("readOnlyHints"), of.read_only_hints.map(|value| json!(value)));
            put(key("concurrency"), of.concurrency.map(|value| json!(value)));
            put(key("idleTimeoutMs"), of.idle_timeout_ms.map(|value| json!(value)));
        }
        shown
    }
}

/// What all files that count say about how servers are treated.
#[derive(Debug, Clone, Default)]
pub struct McpOptions {
    /// Strongest first.
    layers: Vec<(RawMcp, Source)>,
}

impl McpOptions {
    pub(crate) fn add(&mut self, raw: RawMcp, source: Source) {
        self.layers.push((raw, source));
    }

    /// How long a server may take until its tools are known, in milliseconds.
    pub fn connect_timeout_ms(&self) -> Option<u64> {
        self.layers.iter().find_map(|(raw, _)| raw.connect_timeout_ms)
    }

    /// After how long a call goes on in the background, in milliseconds; 0 for never.
    pub fn background_after_ms(&self) -> Option<u64> {
        self.layers.iter().find_map(|(raw, _)| raw.background_after_ms)
    }

    /// What a server may, key by key.
    pub fn of_server(&self, name: &str) -> ServerOptions {
        let mut all = ServerOptions::default();
        for (raw, _) in &self.layers {
            let found = raw.servers.iter().flat_map(|table| &table.0).find(|(known, _)| known.value == name);
            let Some((_, of)) = found else { continue };
            all.sandbox = all.sandbox.or(of.sandbox);
            all.sampling = all.sampling.or(of.sampling);
            all.read_only_hints = all.read_only_hints.or(of.read_only_hints);
            all.concurrency = all.concurrency.or(of.concurrency);
            all.idle_timeout_ms = all.idle_timeout_ms.or(of.idle_timeout_ms);
        }
        all
    }

    /// Every value that counts, under the key by which it is written.
    pub fn each(&self) -> Vec<(String, At<Value>)> {
        let mut shown: Vec<(String, At<Value>)> = Vec::new();
        for (raw, source) in &self.layers {
            for (key, value) in raw.each() {
                if !shown.iter().any(|(known, _)| *known == key) {
                    shown.push((key, At { value, source: source.clone() }));
                }
            }
        }
        shown.sort_by(|(a, _), (b, _)| a.cmp(b));
        shown
    }
}

/// When a model is given only the names of tools, and finds the rest by `ToolSearch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "ToolSearch", extend("additionalProperties" = false))]
pub struct ToolSearchSettings {
    /// Whether it ever is. Default: yes.
    pub enabled: Option<bool>,
    /// With more tools than this. Default: 60.
    pub above: Option<u64>,
    /// Or where their definitions take more than this share of the model's window, in percent. Default: 10.
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<u64>,
    /// Whether the provider's own form of it is used. Default: where its own address is asked.
    pub native: Option<bool>,
}

impl ToolSearchSettings {
    pub(crate) fn check(given: &Spanned<ToolSearchSettings>) -> Result<(), Fault> {
        match given.value.percent {
            Some(percent) if !(1..=100).contains(&percent) => {
                Err(Fault::new(given.at, "`percent` is between 1 and 100"))
            }
            _ => Ok(()),
        }
    }
}
