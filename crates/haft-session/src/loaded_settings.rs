//! The settings of a run: their locations, the merged values, and whether the workspace is trusted.
//!
//! An invalid file ends the program before anything runs.

use std::path::{Path, PathBuf};

use haft::env::VariableLookup;
use haft_policy::settings::SettingsPlaces;
use haft_policy::source::SourceScope;
use haft_policy::trust::{self, ResolvedSettings};

use crate::settings_view::SettingScope;
use crate::trust::TrustState;
use crate::{SessionEnvironment, SessionError, SessionOptions};

/// Settings with their locations.
#[derive(Clone)]
pub struct LoadedSettings {
    pub(crate) places: SettingsPlaces,
    pub(crate) loaded: ResolvedSettings,
}

/// Reads all settings for a workspace. Runs nothing, writes nothing.
pub(crate) fn load_settings(
    common: &SessionOptions,
    cwd: &Path,
    lookup: VariableLookup<'_>,
) -> Result<LoadedSettings, SessionError> {
    let places = settings_places(cwd, lookup)?;
    let loaded = trust::load_settings(&places, &common.flags())
        .map_err(|error| SessionError::settings(error.to_string()))?;
    Ok(LoadedSettings { places, loaded })
}

/// Returns the settings locations for a workspace.
pub(crate) fn settings_places(
    cwd: &Path,
    lookup: VariableLookup<'_>,
) -> Result<SettingsPlaces, SessionError> {
    SettingsPlaces::from_env(cwd, lookup).map_err(|error| SessionError::settings(error.to_string()))
}

/// A settings file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// The scope.
    pub scope: SettingScope,
    /// The path.
    pub path: PathBuf,
}

/// The folders that sessions in a workspace use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFolders {
    /// Returns the real path of the workspace.
    pub workspace: PathBuf,
    /// The folder of journals, answers and approvals, where there is one.
    pub state: Option<PathBuf>,
}

impl SessionFolders {
    /// Finds the folders of a session that works in this directory.
    ///
    /// # Errors
    /// Returns an error if the directory can't be used.
    pub fn find(cwd: &Path, environment: &SessionEnvironment) -> Result<SessionFolders, SessionError> {
        let places = settings_places(cwd, &|name| environment.get(name))?;
        Ok(SessionFolders { workspace: places.cwd, state: places.state_dir })
    }
}

impl LoadedSettings {
    /// Returns the real path of the workspace.
    pub fn workspace(&self) -> &Path {
        &self.places.cwd
    }

    /// The folder of journals, answers and approvals, where there is one.
    pub fn state_dir(&self) -> Option<&Path> {
        self.places.state_dir.as_deref()
    }

    /// Returns whether the workspace's files may run and loosen things.
    pub fn trust_state(&self) -> TrustState {
        TrustState::from(&self.loaded.judgement)
    }

    /// Returns the hash of what the workspace's files run or loosen; `None` if they do neither.
    pub fn trust_hash(&self) -> Option<String> {
        (!self.loaded.inventory.is_empty()).then(|| self.loaded.inventory.hash().to_string())
    }

    /// Returns the files that were read, strongest first.
    pub fn files(&self) -> Vec<SettingsFile> {
        let file = |(path, scope): &(PathBuf, SourceScope)| SettingsFile {
            scope: (*scope).into(),
            path: path.clone(),
        };
        self.loaded.files.iter().map(file).collect()
    }

    /// Returns a path for display: relative to the workspace or to the home directory.
    pub fn show_path(&self, path: &Path) -> String {
        self.places.show(path)
    }

    /// Returns warnings about settings and trust, one line each.
    pub fn warnings(&self) -> Vec<String> {
        let ResolvedSettings { settings, store_warnings, .. } = &self.loaded;
        let warnings = settings.warnings.iter().map(ToString::to_string);
        warnings.chain(store_warnings.iter().cloned()).chain(self.loaded.notice()).collect()
    }
}
