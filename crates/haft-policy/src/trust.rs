//! Trust: what a workspace would run or loosen, shown item by item, and the user's yes to exactly that.
//!
//! A yes is kept outside of the workspace, for a real path and a hash over everything that runs or loosens. One changed
//! byte in it makes the workspace untrusted again. The name of a repository, a `.git` file or a path alone are never
//! enough: whoever can write the workspace chooses them.
//!
//! ```no_run
//! use haft_policy::settings::{Flags, Places};
//! use haft_policy::trust;
//!
//! let places = Places::from_env(".".as_ref(), &|name| std::env::var_os(name))?;
//! let loaded = trust::load(&places, &Flags::default())?;
//! if let Some(notice) = loaded.notice() {
//!     // one line for the user: what doesn't count, and how to see it
//! }
//! let rules = &loaded.settings.permissions.rules;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collect;
mod digest;
mod files;
mod inventory;
mod kept;
mod named;
mod remembered;
mod store;
mod write;

pub use digest::{BadDigest, Digest};
pub use files::{FILE_BYTES_MAX, FILES_MAX, FOLDER_DEPTH_MAX};
pub use inventory::{Change, ITEMS_MAX, Inventory, Item, Kind, Named};
pub use kept::{StateFile, replace_file};
pub use remembered::{REMEMBERED_BYTES_MAX, REMEMBERED_MAX, Remembered};
pub use store::{Judgement, STORE_BYTES_MAX, TrustStore, Untrusted};
pub use write::key as workspace_key;

use std::path::PathBuf;

use crate::settings::{Flags, Layers, Places, Settings, SettingsError, Standing};
use crate::source::{Scope, WrittenRule};

/// Settings, and how they came about.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What all files and flags say together.
    pub settings: Settings,
    /// The files of settings that were there, strongest first.
    pub files: Vec<(PathBuf, Scope)>,
    /// What the workspace would run or loosen.
    pub inventory: Inventory,
    /// Whether it may.
    pub judgement: Judgement,
    /// What the user answered with "always" in this workspace.
    pub remembered: Vec<WrittenRule>,
    /// What went wrong with the stores, in words; nothing of it loosens.
    pub store_warnings: Vec<String>,
}

impl Loaded {
    /// One line about what doesn't count because the workspace isn't trusted, if anything.
    pub fn notice(&self) -> Option<String> {
        self.judgement.notice(&self.inventory)
    }
}

/// Reads everything once, judges it and puts it together. Runs nothing, writes nothing.
///
/// # Errors
/// Files that can't be read or understood; then nothing may run.
pub fn load(places: &Places, flags: &Flags) -> Result<Loaded, SettingsError> {
    let layers = Layers::read(places, flags)?;
    let inventory = Inventory::of(&layers);
    let mut store_warnings = Vec::new();
    let judgement = judge(places, flags, &inventory);
    if let Judgement::Untrusted(Untrusted::Damaged(words)) = &judgement {
        store_warnings.push(words.clone());
    }
    let standing = if judgement.is_trusted() { Standing::Trusted } else { Standing::Untrusted };
    let settings = layers.merge(standing);
    let files = layers.files().map(|(path, scope)| (path.to_owned(), scope)).collect();
    let mut remembered = Vec::new();
    if let Some(state) = &places.state_dir {
        let (rules, warnings) = Remembered::at(state, &places.cwd).rules();
        store_warnings.extend(warnings);
        // An owner who alone may allow isn't overruled by an answer.
        let keep = |rule: &WrittenRule| {
            settings.permissions.managed_rules_only.is_none() || rule.list != crate::source::List::Allow
        };
        remembered = rules.into_iter().filter(keep).collect();
    }
    Ok(Loaded { settings, files, inventory, judgement, remembered, store_warnings })
}

/// What a workspace would run or loosen, for a person to read before a yes.
///
/// # Errors
/// Files that can't be read or understood.
pub fn inspect(places: &Places) -> Result<Inventory, SettingsError> {
    Layers::read(places, &Flags::default()).map(|layers| Inventory::of(&layers))
}

fn judge(places: &Places, flags: &Flags, inventory: &Inventory) -> Judgement {
    if inventory.is_empty() {
        return Judgement::Nothing;
    }
    if let Some(given) = &flags.trust_hash {
        let equal = given.parse::<Digest>().is_ok_and(|given| given == inventory.hash());
        return match inventory.obstacles() {
            [] if equal => Judgement::Trusted,
            [] => Judgement::Untrusted(Untrusted::OtherHash),
            obstacles => Judgement::Untrusted(Untrusted::Obstacles(obstacles.to_vec())),
        };
    }
    match &places.state_dir {
        Some(state) => TrustStore::at(state).judge(&places.cwd, inventory),
        None => Judgement::Untrusted(Untrusted::Never),
    }
}
