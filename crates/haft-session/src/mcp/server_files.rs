//! Changes to the files that name MCP servers. Starts nothing.
//!
//! The file shared by everyone in a workspace is `.mcp.json`. The user's own file has servers for all
//! workspaces and for single ones. Claude Code's own file is read but never written. Everything else in a
//! file is preserved, and a file is replaced atomically.

use std::fmt;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_policy::settings::edit::{with_server, without_server};
use haft_policy::settings::{SETTINGS_BYTES_MAX, SettingsPlaces, check_server, read_text};
use haft_policy::trust::replace_file;
use serde_json::Value;

use crate::text::one_line;
use crate::{SessionEnvironment, SessionError, loaded_settings, processes};

/// Permissions of a new shared file, and of a new file of the user, which may contain secrets.
const SHARED: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// How long a change waits for another one of the same file.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The users of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerScope {
    /// The user, in this workspace.
    Local,
    /// Everyone who works in this workspace: `.mcp.json`.
    Project,
    /// The user, in all workspaces.
    User,
}

/// The files that name MCP servers for one workspace.
pub struct ServerFiles {
    places: SettingsPlaces,
}

/// A server that was added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedServer {
    /// The file, as a path for display.
    pub file: String,
    /// Warnings about the entry.
    pub warnings: Vec<String>,
}

/// Why the server files were not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerFilesError {
    /// A file names a server with the same name.
    AlreadyThere {
        /// The file, as a path for display.
        file: String,
    },
    /// No file of the user or the workspace names the server.
    NotFound {
        /// The file of Claude Code that may name it, as a path for display.
        claude_file: Option<String>,
    },
    /// Several files name the server.
    Ambiguous(Vec<ServerScope>),
    /// The name, the entry or a file can't be used.
    Unusable(SessionError),
}

impl fmt::Display for ServerFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerFilesError::AlreadyThere { file } => {
                write!(f, "{file} names a server of this name already")
            }
            ServerFilesError::NotFound { .. } => {
                f.write_str("no file of the user or the workspace names this server")
            }
            ServerFilesError::Ambiguous(_) => f.write_str("several files name this server"),
            ServerFilesError::Unusable(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServerFilesError {}

impl From<SessionError> for ServerFilesError {
    fn from(error: SessionError) -> ServerFilesError {
        ServerFilesError::Unusable(error)
    }
}

impl ServerFiles {
    /// Returns the files for this directory.
    ///
    /// # Errors
    /// Returns an error if the directory can't be used.
    pub fn new(cwd: &Path, environment: &SessionEnvironment) -> Result<ServerFiles, SessionError> {
        Ok(ServerFiles { places: loaded_settings::settings_places(cwd, &|name| environment.get(name))? })
    }

    /// Adds an entry, in the form of `.mcp.json`, to the file of a scope.
    ///
    /// # Errors
    /// Returns an error if the name or the entry is invalid, or if the file already names the server or
    /// can't be changed.
    pub fn add(
        &self,
        scope: ServerScope,
        name: &str,
        entry: &Value,
    ) -> Result<AddedServer, ServerFilesError> {
        let warnings = check_server(name, entry)
            .map_err(|reason| SessionError::settings(format!("the server `{}`: {reason}", one_line(name))))?;
        if name.contains("__") {
            return Err(ServerFilesError::Unusable(SessionError::settings(format!(
                "the server `{name}`: `__` stands between the names in `mcp__server__tool`, so no rule could be about this \
                 server alone; choose a name without it"
            ))));
        }
        let file = self.file(scope)?;
        let _lock = file.lock()?;
        let text = file.read()?;
        if without_server(&text, file.project.as_deref(), name)
            .map_err(|reason| file.unusable(reason))?
            .is_some()
        {
            return Err(ServerFilesError::AlreadyThere { file: file.shown() });
        }
        let text = with_server(&text, file.project.as_deref(), name, entry)
            .map_err(|reason| file.unusable(reason))?;
        file.replace(&text)?;
        Ok(AddedServer { file: file.shown(), warnings })
    }

    /// Removes the entry of a server from the file of a scope, or from the one file that names it. Returns
    /// the file, as a path for display.
    ///
    /// # Errors
    /// Returns an error if no file or several files name the server, or if a file can't be changed.
    pub fn remove(&self, scope: Option<ServerScope>, name: &str) -> Result<String, ServerFilesError> {
        let scopes = match scope {
            Some(scope) => vec![scope],
            None => vec![ServerScope::Local, ServerScope::Project, ServerScope::User],
        };
        let (mut matches, mut locks) = (Vec::new(), Vec::new());
        for scope in scopes {
            // Without a settings folder there are no servers in it.
            let Ok(file) = self.file(scope) else { continue };
            let folder = file.path.parent().map(Path::to_owned);
            if file.path.exists() && !locks.iter().any(|(locked, _)| *locked == folder) {
                locks.push((folder, file.lock()?));
            }
            let text = file.read()?;
            // A server that was added in a folder of the repository applies there.
            let folder = file.project.as_ref().map(|_| self.places.cwd.display().to_string());
            let keys = [file.project.clone(), folder];
            let mut rest = None;
            for key in if file.project.is_some() { &keys[..] } else { &keys[..1] } {
                rest = without_server(&text, key.as_deref(), name).map_err(|reason| file.unusable(reason))?;
                if rest.is_some() {
                    break;
                }
            }
            if let Some(rest) = rest {
                matches.push((file, rest));
            }
        }
        match &matches[..] {
            [(file, rest)] => {
                file.replace(rest)?;
                Ok(file.shown())
            }
            [] => {
                let claude_json = self.places.claude_json.as_deref().filter(|file| {
                    std::fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("\"{name}\"")))
                });
                let claude_file = claude_json.map(|file| self.places.show(file));
                Err(ServerFilesError::NotFound { claude_file })
            }
            several => Err(ServerFilesError::Ambiguous(several.iter().map(|(file, _)| file.scope).collect())),
        }
    }

    fn file(&self, scope: ServerScope) -> Result<ServerFile<'_>, SessionError> {
        let places = &self.places;
        let own = || {
            places.own_servers().ok_or_else(|| {
                SessionError::settings(
                    "there is no folder for your settings; set HAFT_CONFIG_DIR, or HOME, to an absolute path",
                )
            })
        };
        let (path, project, mode) = match scope {
            ServerScope::User => (own()?, None, PRIVATE),
            ServerScope::Local => {
                let root = places.git_root.as_ref().unwrap_or(&places.cwd);
                (own()?, Some(root.display().to_string()), PRIVATE)
            }
            ServerScope::Project => (places.cwd.join(".mcp.json"), None, SHARED),
        };
        Ok(ServerFile { places, scope, path, project, mode })
    }
}

/// One file that names servers, and the part of it for a scope.
struct ServerFile<'a> {
    places: &'a SettingsPlaces,
    scope: ServerScope,
    path: PathBuf,
    /// The key of the workspace, in a file for many workspaces.
    project: Option<String>,
    mode: u32,
}

impl ServerFile<'_> {
    fn shown(&self) -> String {
        self.places.show(&self.path)
    }

    fn error(&self, reason: impl fmt::Display) -> SessionError {
        SessionError::settings(format!("{}: {reason}", self.shown()))
    }

    fn unusable(&self, reason: String) -> SessionError {
        self.error(format!("{reason}; nothing was changed"))
    }

    /// Locks the folder of the file against other processes until the lock is dropped, since the new
    /// content is derived from the old one. The lock is on the folder, so that no lock file is left in a
    /// workspace.
    fn lock(&self) -> Result<File, SessionError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        if self.mode == PRIVATE {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|error| self.error(error))?;
        }
        let lock = File::open(folder).map_err(|error| self.error(error))?;
        let started = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if started.elapsed() < LOCK_WAIT => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(self.error("another program is changing it; try again"));
                }
                Err(TryLockError::Error(error)) => return Err(self.error(error)),
            }
        }
    }

    fn read(&self) -> Result<String, SessionError> {
        let text = read_text(&self.path, SETTINGS_BYTES_MAX).map_err(|reason| self.error(reason))?;
        Ok(text.unwrap_or_default())
    }

    fn replace(&self, text: &str) -> Result<(), SessionError> {
        // A session of another process may run a command in this folder and would attribute the change to
        // that command.
        if let Some(caches) = self.places.state_dir.as_deref().map(processes::caches_dir) {
            haft_sandbox::approve_content(&caches, &self.path, text.as_bytes())
                .map_err(|error| self.error(error))?;
        }
        replace_file(&self.path, text.as_bytes(), self.mode).map_err(|error| self.error(error))
    }
}
