//! Trust: what a workspace would run or loosen, shown item by item, and the user's yes to exactly that.
//!
//! A yes is kept outside of the workspace, for a real path and a hash over everything that runs or loosens. One changed
//! byte in it makes the workspace untrusted again. The name of a repository, a `.git` file or a path alone are never
//! enough: whoever can write the workspace chooses them.
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

/// Settings, and how they came about.
#[derive(Debug, Clone)]
pub struct ResolvedSettings {
    /// What all files and flags say together.
    pub settings: Settings,
    /// The files of settings that were there, strongest first.
    pub files: Vec<(PathBuf, SourceScope)>,
    /// What the workspace would run or loosen.
    pub inventory: TrustInventory,
    /// Whether it may.
    pub judgement: TrustJudgement,
    /// What the user answered with "always" in this workspace.
    pub remembered: Vec<UnparsedRule>,
    /// What went wrong with the stores, in words; nothing of it loosens.
    pub store_warnings: Vec<String>,
}

impl ResolvedSettings {
    /// One line about what doesn't count because the workspace isn't trusted, if anything.
    pub fn notice(&self) -> Option<String> {
        self.judgement.notice(&self.inventory)
    }
}

/// Reads everything once, judges it and puts it together. Runs nothing, writes nothing.
///
/// # Errors
/// Files that can't be read or understood; then nothing may run.
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
        // An owner who alone may allow isn't overruled by an answer.
        let keep = |rule: &UnparsedRule| {
            settings.permissions.managed_rules_only.is_none() || rule.list != crate::source::RuleList::Allow
        };
        remembered = rules.into_iter().filter(keep).collect();
    }
    Ok(ResolvedSettings { settings, files, inventory, judgement, remembered, store_warnings })
}

/// What a workspace would run or loosen, for a person to read before a yes.
///
/// # Errors
/// Files that can't be read or understood.
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
