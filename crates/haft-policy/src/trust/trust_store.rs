//! The store of the user's approvals: one file for each workspace, in the state folder, outside of all
//! workspaces.
//!
//! With separate files, two processes never write the same file for different workspaces. For one workspace
//! the last approval counts. A damaged file, or one that another user could have written, is not an
//! approval.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::atomic_write;
use super::digest::Digest;
use super::inventory::{StoredItem, TrustChange, TrustInventory, hex, printable_text};
use crate::settings::read_file::{self, UnreadableFile};

/// The maximum size of a file in the store, in bytes.
pub const STORE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The number of changes that a notice names; the rest is only counted.
const CHANGES_SHOWN_MAX: usize = 3;
const VERSION: u32 = 1;

/// The store of trusted workspaces.
#[derive(Debug, Clone)]
pub struct TrustStore {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct TrustRecord {
    version: u32,
    /// For users who look at the file. The file's name is what counts.
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
    /// The workspace names nothing that needs trust.
    Nothing,
    /// The user approved exactly this inventory.
    Trusted,
    /// The workspace is not trusted.
    Untrusted(DistrustReason),
}

/// Why a workspace isn't trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DistrustReason {
    /// The user never approved it.
    Never,
    /// The user approved another state; these are the differences.
    Changed(Vec<TrustChange>),
    /// `--trust-hash` has another hash.
    OtherHash,
    /// The workspace can't be trusted because of these obstacles.
    Obstacles(Vec<String>),
    /// The stored approval can't be read, for this reason.
    Damaged(String),
}

impl TrustJudgement {
    /// Returns whether the workspace may run and loosen what it names.
    pub fn is_trusted(&self) -> bool {
        !matches!(self, TrustJudgement::Untrusted(_))
    }

    /// Returns one line about what doesn't apply and what to do. `None` if everything applies.
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
    /// Opens the store in a state folder. Nothing is created before the first approval.
    pub fn open(state_dir: &Path) -> TrustStore {
        TrustStore { folder: state_dir.join("trust") }
    }

    /// Returns whether the user approved exactly this inventory.
    pub fn is_trusted(&self, workspace: &Path, inventory: &TrustInventory) -> bool {
        self.judge(workspace, inventory).is_trusted()
    }

    /// Returns whether the workspace is trusted, or why not.
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

    /// Returns the differences from the approved state, or `None` without an approval.
    pub fn changed_since(&self, workspace: &Path, inventory: &TrustInventory) -> Option<Vec<TrustChange>> {
        let record = self.record(workspace).ok()??;
        Some(inventory.changes_from(&record.items))
    }

    /// Stores the user's approval of exactly this inventory.
    ///
    /// # Errors
    /// Returns an error if a file can't be hashed, or if the approval can't be written.
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

    /// Revokes the approval. Returns whether there was one.
    ///
    /// # Errors
    /// Returns the I/O error of the removal.
    pub fn forget(&self, workspace: &Path) -> io::Result<bool> {
        // The approval of a deleted workspace can be revoked too, by its former path.
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
