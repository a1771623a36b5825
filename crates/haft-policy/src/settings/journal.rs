//! What settings say about the journal of sessions: how safe it is, how long it is kept, what is not in it.
//!
//! A workspace has no say in it: it could have its own traces forgotten. Where several files of the user or the machine's
//! owner speak, the strongest counts, key by key; secrets are put together.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::jsonc::Spot;
use super::merge::At;
use crate::source::Source;

/// The journal of sessions. Not from a workspace.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, expecting = "an object")]
#[schemars(rename = "Journal", extend("additionalProperties" = false))]
pub(crate) struct RawJournal {
    /// Whether sessions are kept. Default: true.
    enabled: Option<bool>,
    /// When records are on the disk for good. Default: `batch`.
    durability: Option<Durability>,
    /// How many days sessions are kept. Default: 30.
    keep_days: Option<u64>,
    /// How many megabytes all sessions may take together. Default: 1024.
    keep_megabytes: Option<u64>,
    /// Environment variables whose values are not written down.
    redact: Option<Vec<String>>,
}

/// When records are on the disk for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JournalDurability")]
pub enum Durability {
    /// Whenever the system likes: they survive the program, not a power failure.
    Off,
    /// Before a call that can change something runs; the rest with the next one or at the turn's end.
    #[default]
    Batch,
    /// Each record before anything goes on.
    Call,
}

impl Durability {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Durability::Off => "off",
            Durability::Batch => "batch",
            Durability::Call => "call",
        }
    }
}

/// What all files that count say about the journal.
#[derive(Debug, Clone, Default)]
pub struct JournalSettings {
    /// Strongest first.
    layers: Vec<(RawJournal, Source)>,
}

impl JournalSettings {
    pub(crate) fn add(&mut self, raw: &RawJournal, at: Spot, source: impl Fn(Spot) -> Source) {
        self.layers.push((raw.clone(), source(at)));
    }

    /// Whether sessions are kept.
    pub fn enabled(&self) -> bool {
        self.first(|journal| journal.enabled).unwrap_or(true)
    }

    /// When records are on the disk for good.
    pub fn durability(&self) -> Durability {
        self.first(|journal| journal.durability).unwrap_or_default()
    }

    /// How many days sessions are kept, where it is said.
    pub fn keep_days(&self) -> Option<u64> {
        self.first(|journal| journal.keep_days)
    }

    /// How much all sessions may take, where it is said.
    pub fn keep_megabytes(&self) -> Option<u64> {
        self.first(|journal| journal.keep_megabytes)
    }

    /// Variables whose values are not written down.
    pub fn redact(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.layers.iter().flat_map(|(journal, _)| journal.redact.iter().flatten().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Each value in force under its key.
    pub fn each(&self) -> Vec<(String, At<Value>)> {
        let mut each = Vec::new();
        let mut add = |key: &str, read: &dyn Fn(&RawJournal) -> Option<Value>| {
            let found = self.layers.iter().find_map(|(journal, source)| Some((read(journal)?, source)));
            if let Some((value, source)) = found {
                each.push((format!("journal.{key}"), At { value, source: source.clone() }));
            }
        };
        add("enabled", &|journal| journal.enabled.map(|value| json!(value)));
        add("durability", &|journal| journal.durability.map(|value| json!(value.word())));
        add("keepDays", &|journal| journal.keep_days.map(|value| json!(value)));
        add("keepMegabytes", &|journal| journal.keep_megabytes.map(|value| json!(value)));
        for (journal, source) in &self.layers {
            for name in journal.redact.iter().flatten() {
                each.push(("journal.redact".to_owned(), At { value: json!(name), source: source.clone() }));
            }
        }
        each
    }

    fn first<T>(&self, read: impl Fn(&RawJournal) -> Option<T>) -> Option<T> {
        self.layers.iter().find_map(|(journal, _)| read(journal))
    }
}
