//! What a run is given: where settings lie, what they say together, and whether the workspace is trusted.
//!
//! A file that can't be understood ends the program before anything runs.

use std::path::Path;

use haft::env::Lookup;
use haft_policy::settings::Places;
use haft_policy::trust::{self, Loaded};

use crate::SessionError;
use crate::SessionOptions;

/// Settings, and where they came from.
#[derive(Clone)]
pub struct LoadedSettings {
    pub places: Places,
    pub loaded: Loaded,
}

/// Reads all settings for a workspace. Runs nothing, writes nothing.
pub fn load(common: &SessionOptions, cwd: &Path, lookup: Lookup<'_>) -> Result<LoadedSettings, SessionError> {
    let places = places(cwd, lookup)?;
    let loaded =
        trust::load(&places, &common.flags()).map_err(|error| SessionError::settings(error.to_string()))?;
    Ok(LoadedSettings { places, loaded })
}

/// The places of settings for a workspace.
pub fn places(cwd: &Path, lookup: Lookup<'_>) -> Result<Places, SessionError> {
    Places::from_env(cwd, lookup).map_err(|error| SessionError::settings(error.to_string()))
}

impl LoadedSettings {
    /// What the user should know about settings and trust, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let Loaded { settings, store_warnings, .. } = &self.loaded;
        let warnings = settings.warnings.iter().map(ToString::to_string);
        warnings.chain(store_warnings.iter().cloned()).chain(self.loaded.notice()).collect()
    }
}
