//! What a run is given: where settings lie, what they say together, and whether the workspace is trusted.
//!
//! A file that can't be understood ends the program before anything runs.

use std::path::Path;

use haft::env::Lookup;
use haft_policy::settings::Places;
use haft_policy::trust::{self, Loaded};

use crate::Usage;
use crate::args::Common;

/// Settings, and where they came from.
#[derive(Clone)]
pub(crate) struct Given {
    pub(crate) places: Places,
    pub(crate) loaded: Loaded,
}

/// Reads all settings for a workspace. Runs nothing, writes nothing.
pub(crate) fn load(common: &Common, cwd: &Path, lookup: Lookup<'_>) -> Result<Given, Usage> {
    let places = places(cwd, lookup)?;
    let loaded = trust::load(&places, &common.flags()).map_err(|error| Usage(error.to_string()))?;
    Ok(Given { places, loaded })
}

/// The places of settings for a workspace.
pub(crate) fn places(cwd: &Path, lookup: Lookup<'_>) -> Result<Places, Usage> {
    Places::from_env(cwd, lookup).map_err(|error| Usage(error.to_string()))
}

impl Given {
    /// What the user should know about settings and trust, one line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Loaded { settings, store_warnings, .. } = &self.loaded;
        let warnings = settings.warnings.iter().map(ToString::to_string);
        warnings.chain(store_warnings.iter().cloned()).chain(self.loaded.notice()).collect()
    }
}
