//! Settings of the session journal: durability, retention and redaction.

use schemars::JsonSchema;
use serde::Deserialize;

use super::de::read_by_serde;
use super::table::{own, settings_section};

settings_section! {
    /// The journal of sessions. Not from a workspace, which could have its own traces deleted.
    own "it says what is remembered of a session"
    pub struct JournalSettings {
        settings {
            /// Whether sessions are recorded. Default: true.
            pub enabled: Option<bool> = "enabled", own();
            /// When records are synced to disk. Default: `batch`.
            pub durability: Option<Durability> = "durability", own();
            /// The number of days that sessions are kept. Default: 30.
            pub keep_days: Option<u64> = "keepDays", own();
            /// The maximum size of all sessions together, in megabytes. Default: 1024.
            pub keep_megabytes: Option<u64> = "keepMegabytes", own();
            /// Environment variables whose values are redacted.
            pub redact: Vec<String> = "redact", own().concat();
        }
    }
}

/// When records are synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JournalDurability")]
pub enum Durability {
    /// Never explicitly: records survive a crash of the program but not a power failure.
    Off,
    /// Before a call that can change something runs. Other records are synced with the next one or at the
    /// end of the turn.
    #[default]
    Batch,
    /// Each record, before anything continues.
    Call,
}

read_by_serde!(Durability);
