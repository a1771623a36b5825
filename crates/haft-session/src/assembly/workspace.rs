//! The directories of a session.

use std::path::{Path, PathBuf};

use haft::Workspace;
use haft::files::resolve_path;
use haft_policy::settings::SettingValue;

use crate::SessionOptions;
use crate::loaded_settings::LoadedSettings;
use crate::text::one_line;
use crate::{NoticeSink, SessionError, SessionOption};

/// Files that describe the machine and contain no personal data. They are read without asking, unless a
/// rule denies it.
const PUBLIC_FACTS: [&str; 9] = [
    "/etc/debian_version",
    "/etc/lsb-release",
    "/etc/os-release",
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
];

pub(super) fn open_workspace(common: &SessionOptions) -> Result<Workspace, SessionError> {
    let cwd = common.cwd.as_deref().unwrap_or(Path::new("."));
    let refused = |what: &str, dir: &Path, why: &str| {
        let dir = one_line(&dir.display().to_string());
        SessionError::workspace(format!("{what} directory `{dir}`: {why}; give a directory that exists"))
    };
    let mut workspace = Workspace::new(cwd).map_err(|error| {
        let error = match &common.cwd {
            Some(dir) => refused("the working", dir, &io_reason(&error)),
            None => SessionError::workspace(format!(
                "the current directory can't be used: {}; give another one",
                io_reason(&error)
            )),
        };
        error.with_option(SessionOption::WorkingDirectory)
    })?;
    let refused =
        |dir: &Path, why: &str| refused("the added", dir, why).with_option(SessionOption::AddedDirectory);
    for dir in &common.add_dir {
        if workspace.cwd().join(dir).is_file() {
            return Err(refused(dir, "not a directory"));
        }
        workspace = workspace.with_dir(dir).map_err(|error| refused(dir, &io_reason(&error)))?;
    }
    Ok(PUBLIC_FACTS.iter().fold(workspace, Workspace::with_readable))
}

/// Adds the directories of settings. A missing one doesn't stop the session: other users share the settings
/// file.
pub(super) fn with_directories(
    mut workspace: Workspace,
    given: &LoadedSettings,
    notices: &NoticeSink,
) -> Workspace {
    let dirs = &given.loaded.settings.permissions.additional_directories;
    // The directories of flags were added before.
    for SettingValue { value, source } in dirs.iter().filter(|dir| dir.source.file.is_some()) {
        match workspace.clone().with_dir(value) {
            Ok(with) => workspace = with,
            Err(error) => {
                let dir = one_line(&value.display().to_string());
                notices.warn(format!("{source}: the directory `{dir}` can't be used: {}", io_reason(&error)));
            }
        }
    }
    workspace
}

/// Returns why a directory can't be used, without the number of the system's error.
pub(super) fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "its permissions don't allow it".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the real path of a folder, even if it doesn't exist yet: protected paths are compared by real
/// paths.
pub(super) fn real_path(dir: &Path) -> PathBuf {
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    resolve_path(Path::new("/"), &absolute).map_or(absolute, |found| found.real)
}
