//! Settings of the journal of sessions: how safe it is, how long it is kept, what is not in it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::read_by_serde;
use super::table::{own, settings_section};

settings_section! {
    /// The journal of sessions. Not from a workspace, which could have its own traces deleted.
    own "it says what is remembered of a session"
    pub struct JournalSettings {
        settings {
            /// Whether sessions are kept. Default: true.
            pub enabled: Option<bool> = "enabled", own();
            /// When records are on the disk for good. Default: `batch`.
            pub durability: Option<Durability> = "durability", own();
            /// How many days sessions are kept. Default: 30.
            pub keep_days: Option<u64> = "keepDays", own();
            /// How many megabytes all sessions may take together. Default: 1024.
            pub keep_megabytes: Option<u64> = "keepMegabytes", own();
            /// Environment variables whose values are not written down.
            pub redact: Vec<String> = "redact", own().concat();
        }
    }
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

read_by_serde!(Durability);
