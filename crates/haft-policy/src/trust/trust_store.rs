//! Where the user's yes is kept: one file for each workspace, in the state folder, outside of all of them.
//!
//! One file each means that two processes never write the same file for different workspaces; for one workspace the last
//! yes counts. A file that is damaged, or that somebody else could have written, is no yes.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::atomic_write;
use super::digest::Digest;
use super::inventory::{StoredItem, TrustChange, TrustInventory, hex, printable_text};
use crate::settings::read_file::{self, UnreadableFile};

/// The longest file of the store, in bytes.
pub const STORE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How many changes a notice names before it counts the rest.
const CHANGES_SHOWN_MAX: usize = 3;
const VERSION: u32 = 1;

/// What the user trusts.
#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct TrustRecord {
    version: u32,
    /// For people; the name of the file is what counts.
    workspace: String,
    #[serde(with = "hex")]
    key: Digest,
    #[serde(with = "hex")]
    hash: Digest,
    /// Seconds since 1970.
    trusted_at: u64,
    items: Vec<StoredItem>,
}

/// Whether a workspace may run and loosen what it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustJudgement {
    /// It names nothing.
    Nothing,
    /// The user said yes to exactly this.
    Trusted,
    /// It may not.
    Untrusted(DistrustReason),
}

/// Why a workspace isn't trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DistrustReason {
    /// Nobody said yes.
    Never,
    /// The yes was to something else.
    Changed(Vec<TrustChange>),
    /// `--trust-hash` gives another hash.
    OtherHash,
    /// It can't be, because of these.
    Obstacles(Vec<String>),
    /// The yes can't be read, in words.
    Damaged(String),
}

impl TrustJudgement {
    /// Whether what the workspace names counts.
    pub fn is_trusted(&self) -> bool {
        !matches!(self, TrustJudgement::Untrusted(_))
    }

    /// One line about what doesn't count and what to do; nothing where all counts.
    pub fn notice(&self, inventory: &TrustInventory) -> Option<String> {
        let TrustJudgement::Untrusted(why) = self else { return None };
        let mut line = match why {
            DistrustReason::Never => "this workspace is not trusted".to_owned(),
            DistrustReason::Changed(changes) => {
                format!("this workspace has changed since it was trusted ({})", show_first(changes))
            }
            DistrustReason::OtherHash => {
                format!("the hash that was given is not that of this workspace, {}", inventory.hash())
            }
            DistrustReason::Obstacles(obstacles) => {
                format!("this workspace can't be trusted ({})", show_first(obstacles))
            }
            DistrustReason::Damaged(words) => format!("what was trusted can't be read ({words})"),
        };
        let summary = inventory.summary();
        if !summary.is_empty() {
            let _ = write!(line, "; left out: {summary}; its deny and ask rules hold");
        }
        line += "; `haft trust` shows all of it";
        Some(line)
    }
}

fn show_first<T: ToString>(all: &[T]) -> String {
    let mut words: Vec<String> = all.iter().take(CHANGES_SHOWN_MAX).map(ToString::to_string).collect();
    if all.len() > CHANGES_SHOWN_MAX {
        words.push(format!("{} more", all.len() - CHANGES_SHOWN_MAX));
    }
    words.join(", ")
}

impl TrustStore {
    /// The store in a state folder; nothing is created before a yes.
    pub fn open(state_dir: &Path) -> TrustStore {
        TrustStore { folder: state_dir.join("trust") }
    }

    /// Whether the user said yes to exactly this.
    pub fn is_trusted(&self, workspace: &Path, inventory: &TrustInventory) -> bool {
        self.judge(workspace, inventory).is_trusted()
    }

    /// Whether it may, or why not.
    pub fn judge(&self, workspace: &Path, inventory: &TrustInventory) -> TrustJudgement {
        if inventory.is_empty() {
            return TrustJudgement::Nothing;
        }
        if !inventory.obstacles().is_empty() {
            return TrustJudgement::Untrusted(DistrustReason::Obstacles(inventory.obstacles().to_vec()));
        }
        match self.record(workspace) {
            Err(words) => TrustJudgement::Untrusted(DistrustReason::Damaged(words)),
            Ok(None) => TrustJudgement::Untrusted(DistrustReason::Never),
            Ok(Some(record)) if record.hash == inventory.hash() => TrustJudgement::Trusted,
            Ok(Some(record)) => {
                TrustJudgement::Untrusted(DistrustReason::Changed(inventory.changes_from(&record.items)))
            }
        }
    }

    /// What is different since the user said yes; nothing where nobody did.
    pub fn changed_since(&self, workspace: &Path, inventory: &TrustInventory) -> Option<Vec<TrustChange>> {
        let record = self.record(workspace).ok()??;
        Some(inventory.changes_from(&record.items))
    }

    /// Keeps the user's yes to exactly this.
    ///
    /// # Errors
    /// What can't be hashed can't be trusted; and the disk's.
    pub fn trust(&self, workspace: &Path, inventory: &TrustInventory) -> io::Result<()> {
        if let Some(obstacle) = inventory.obstacles().first() {
            return Err(io::Error::other(obstacle.clone()));
        }
        let workspace = workspace.canonicalize()?;
        let record = TrustRecord {
            version: VERSION,
            workspace: printable_text(&workspace.to_string_lossy()),
            key: atomic_write::key(&workspace),
            hash: inventory.hash(),
            trusted_at: atomic_write::unix_seconds(),
            items: inventory.kept(),
        };
        let bytes = serde_json::to_vec_pretty(&record)?;
        if bytes.len() as u64 > STORE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "what would be kept is longer than {STORE_BYTES_MAX} bytes"
            )));
        }
        atomic_write::replace(&self.file(&workspace), &bytes)
    }

    /// Takes the yes back; says whether there was one.
    ///
    /// # Errors
    /// The disk's.
    pub fn forget(&self, workspace: &Path) -> io::Result<bool> {
        // A workspace that is gone can be forgotten too, by the path that it had.
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        match std::fs::remove_file(self.file(&workspace)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn file(&self, workspace: &Path) -> PathBuf {
        self.folder.join(format!("{}.json", atomic_write::key(workspace)))
    }

    fn record(&self, workspace: &Path) -> Result<Option<TrustRecord>, String> {
        let Ok(workspace) = workspace.canonicalize() else { return Ok(None) };
        let path = self.file(&workspace);
        let say = |words: String| format!("{}: {words}", path.display());
        let bytes =
            read_file::read_bytes(&path, STORE_BYTES_MAX).map_err(|UnreadableFile { why, .. }| say(why))?;
        let Some(bytes) = bytes else { return Ok(None) };
        atomic_write::is_ours(&path).map_err(say)?;
        let record: TrustRecord =
            serde_json::from_slice(&bytes).map_err(|error| say(format!("damaged: {error}")))?;
        if record.version != VERSION || record.key != atomic_write::key(&workspace) {
            return Err(say("it is not about this workspace".to_owned()));
        }
        Ok(Some(record))
    }
}
