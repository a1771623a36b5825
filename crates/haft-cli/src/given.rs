//! What a run is given: where settings lie, what they say together, and whether the workspace is trusted.
//!
//! A file that can't be understood ends the program before anything runs. What a person should know is said once, here,
//! on standard error; whoever asks for the settings only uses them.

use std::path::Path;

use haft::env::Lookup;
use haft_policy::settings::Places;
use haft_policy::trust::{self, Loaded};

use crate::Usage;
use crate::args::Common;
use crate::output::{self, one_line};

/// Settings, and where they came from.
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
    /// Says what the user should know about settings and trust, one line each.
    pub(crate) fn say(&self) {
        let Loaded { settings, store_warnings, .. } = &self.loaded;
        let warnings = settings.warnings.iter().map(ToString::to_string);
        let all = warnings.chain(store_warnings.iter().cloned()).chain(self.loaded.notice());
        all.for_each(|words| output::warning(&one_line(&words)));
    }
}
