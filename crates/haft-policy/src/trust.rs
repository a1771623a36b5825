//! Trust: what a workspace would run or loosen, shown item by item, and the user's yes to exactly that.
//!
//! A yes is kept outside of the workspace, for a real path and a hash over everything that runs or loosens.
//! One changed byte in it makes the workspace untrusted again. The name of a repository, a `.git` file or a
//! path alone are never enough: whoever can write the workspace chooses them.
//!
//! ```no_run
//! use haft_policy::settings::{SettingsFlags, SettingsPlaces};
//! use haft_policy::trust;
//!
//! let places = SettingsPlaces::from_env(".".as_ref(), &|name| std::env::var_os(name))?;
//! let loaded = trust::load_settings(&places, &SettingsFlags::default())?;
//! if let Some(notice) = loaded.notice() {
//!     // one line for the user: what doesn't count, and how to see it
//! }
//! let rules = &loaded.settings.permissions.rules;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod atomic_write;
mod collect;
mod digest;
mod hash_files;
mod inventory;
mod referenced_files;
mod remembered_rules;
mod state_file;
mod trust_store;

pub use atomic_write::key as workspace_key;
pub use digest::{Digest, InvalidDigest};
pub use hash_files::{FILE_BYTES_MAX, FILES_MAX, FOLDER_DEPTH_MAX};
pub use inventory::{ITEMS_MAX, ScriptReference, TrustChange, TrustInventory, TrustItem, TrustItemKind};
pub use remembered_rules::{REMEMBERED_BYTES_MAX, REMEMBERED_MAX, RememberedRules};
pub use state_file::{StateFile, replace_file};
pub use trust_store::{DistrustReason, STORE_BYTES_MAX, TrustJudgement, TrustStore};

use std::path::PathBuf;

use crate::settings::{Settings, SettingsError, SettingsFlags, SettingsLayers, SettingsPlaces, TrustStatus};
use crate::source::{SourceScope, UnparsedRule};

/// Loaded settings with their origin and trust.
#[derive(Debug, Clone)]
pub struct ResolvedSettings {
    /// The settings merged from all files and flags.
    pub settings: Settings,
    /// The settings files that exist, strongest first.
    pub files: Vec<(PathBuf, SourceScope)>,
    /// What the workspace would run or loosen.
    pub inventory: TrustInventory,
    /// Whether the workspace is trusted.
    pub judgement: TrustJudgement,
    /// Rules from the user's "always" answers in this workspace.
    pub remembered: Vec<UnparsedRule>,
    /// Problems with the stores, as text. None of them loosens anything.
    pub store_warnings: Vec<String>,
}

impl ResolvedSettings {
    /// Returns one line about settings that don't apply because the workspace isn't trusted, if there are
    /// any.
    pub fn notice(&self) -> Option<String> {
        self.judgement.notice(&self.inventory)
    }
}

/// Reads all files once, determines trust and merges the settings. Runs nothing, writes nothing.
///
/// # Errors
/// Returns [`SettingsError`] if a file can't be read or parsed. Then nothing may run.
pub fn load_settings(
    places: &SettingsPlaces,
    flags: &SettingsFlags,
) -> Result<ResolvedSettings, SettingsError> {
    let layers = SettingsLayers::read(places, flags)?;
    let inventory = TrustInventory::from_layers(&layers);
    let mut store_warnings = Vec::new();
    let judgement = judge_workspace(places, flags, &inventory);
    if let TrustJudgement::Untrusted(DistrustReason::Damaged(words)) = &judgement {
        store_warnings.push(words.clone());
    }
    let standing = if judgement.is_trusted() { TrustStatus::Trusted } else { TrustStatus::Untrusted };
    let settings = layers.merge(standing);
    let files = layers.files().map(|(path, scope)| (path.to_owned(), scope)).collect();
    let mut remembered = Vec::new();
    if let Some(state) = &places.state_dir {
        let (rules, warnings) = RememberedRules::open(state, &places.cwd).rules();
        store_warnings.extend(warnings);
        // If only managed settings may allow, the user's answers don't override that.
        let keep = |rule: &UnparsedRule| {
            settings.permissions.managed_rules_only.is_none() || rule.list != crate::source::RuleList::Allow
        };
        remembered = rules.into_iter().filter(keep).collect();
    }
    Ok(ResolvedSettings { settings, files, inventory, judgement, remembered, store_warnings })
}

/// Returns what a workspace would run or loosen, for the user to read before approving it.
///
/// # Errors
/// Returns [`SettingsError`] if a file can't be read or parsed.
pub fn inspect_workspace(places: &SettingsPlaces) -> Result<TrustInventory, SettingsError> {
    SettingsLayers::read(places, &SettingsFlags::default()).map(|layers| TrustInventory::from_layers(&layers))
}

fn judge_workspace(
    places: &SettingsPlaces,
    flags: &SettingsFlags,
    inventory: &TrustInventory,
) -> TrustJudgement {
    if inventory.is_empty() {
        return TrustJudgement::Nothing;
    }
    if let Some(given) = &flags.trust_hash {
        let equal = given.parse::<Digest>().is_ok_and(|given| given == inventory.hash());
        return match inventory.obstacles() {
            [] if equal => TrustJudgement::Trusted,
            [] => TrustJudgement::Untrusted(DistrustReason::OtherHash),
            obstacles => TrustJudgement::Untrusted(DistrustReason::Obstacles(obstacles.to_vec())),
        };
    }
    match &places.state_dir {
        Some(state) => TrustStore::open(state).judge(&places.cwd, inventory),
        None => TrustJudgement::Untrusted(DistrustReason::Never),
    }
}
