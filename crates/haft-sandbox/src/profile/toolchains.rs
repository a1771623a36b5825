//! Tool chains that the environment names, wherever they lie.
//!
//! `CARGO_HOME=/data/cargo` moves what usually lies in the home folder, `JAVA_HOME` names an installation,
//! and a directory of `PATH` holds programs. Each is shown read-only, and only those parts of it that a tool
//! chain consists of; what a file of a usual name for credentials holds stays hidden. A variable shows
//! nothing that a session hides otherwise, and no folder that is too wide for a working directory.
//!
//! Only the environment of this program counts. Variables of settings reach commands too, but a project's
//! settings must not decide what is shown.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::home::{HIDDEN, TOOLCHAINS};
use super::mount_map::MountMap;
use super::{ProfileConfig, is_of_the_kernel, is_too_wide, limits};
use crate::mount_plan::{BindSource, MountEntry};

/// Variables that move a folder, and where it lies in a home folder otherwise.
const MOVED: [(&str, &str); 10] = [
    ("CARGO_HOME", ".cargo"),
    ("GOCACHE", ".cache/go-build"),
    ("GOMODCACHE", "go/pkg/mod"),
    ("GOPATH", "go"),
    ("NVM_DIR", ".nvm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RUSTUP_HOME", ".rustup"),
    ("UV_CACHE_DIR", ".cache/uv"),
    ("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python"),
    ("UV_TOOL_DIR", ".local/share/uv/tools"),
];

/// Variables that name an installation, and what belongs to it beside [`PARTS`].
const INSTALLATIONS: [(&str, &[&str]); 3] = [
    ("GOROOT", &["VERSION", "api", "go.env", "misc", "pkg", "src", "test"]),
    ("JAVA_HOME", &["conf", "jmods", "jre", "legal", "release"]),
    ("VIRTUAL_ENV", &["pyvenv.cfg"]),
];

/// Variables that name directories of programs.
const PROGRAM_DIRS: [&str; 4] = ["PATH", "UV_INSTALL_DIR", "UV_PYTHON_BIN_DIR", "UV_TOOL_BIN_DIR"];

/// What an installation consists of, as far as programs need it to run.
const PARTS: [&str; 8] = ["bin", "include", "lib", "lib32", "lib64", "libexec", "sbin", "share"];
/// What belongs to a directory of launchers: that which they start.
const BEHIND_SHIMS: [&str; 5] = ["bin", "installs", "libexec", "plugins", "versions"];

/// Files in which tools keep credentials, whatever their folder.
const CREDENTIALS: [&str; 17] = [
    ".env",
    ".git-credentials",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    "_netrc",
    "auth.json",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "gradle.properties",
    "jmxremote.password",
    "pip.conf",
    "settings-security.xml",
    "settings.xml",
    "token",
];

/// What the environment says of tool chains.
#[derive(Debug, Default)]
pub(super) struct ToolChains {
    /// Where something lies that usually lies in the home folder, by its name there; the narrowest first.
    moved: Vec<(&'static str, MovedFolder)>,
    installations: Vec<(PathBuf, &'static [&'static str])>,
    programs: Vec<PathBuf>,
}

/// A folder that a variable moves.
#[derive(Debug)]
struct MovedFolder {
    /// As the variable names it.
    named: PathBuf,
    /// Where it is, or would be.
    real: PathBuf,
}

impl ToolChains {
    pub(super) fn from_variables(variables: &[(OsString, OsString)]) -> ToolChains {
        let value =
            |name: &str| variables.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value);
        let paths = |name: &str| {
            value(name).into_iter().flat_map(std::env::split_paths).filter(|path| path.is_absolute())
        };
        // Of several (`GOPATH`) the first is where things are put.
        let folder = |named: PathBuf| MovedFolder { real: real_path(&named), named };
        let mut moved: Vec<_> =
            MOVED.iter().filter_map(|(name, usual)| Some((*usual, folder(paths(name).next()?)))).collect();
        moved.sort_by_key(|(usual, _)| std::cmp::Reverse(usual.len()));
        let installations =
            INSTALLATIONS.iter().filter_map(|(name, more)| Some((paths(name).next()?, *more)));
        let programs = PROGRAM_DIRS.iter().flat_map(|name| paths(name));
        ToolChains {
            moved,
            installations: installations.collect(),
            programs: programs.take(limits::PATH_DIRS_MAX).collect(),
        }
    }

    /// Where something lies that usually lies in the home folder; nothing if no variable moves it.
    pub(super) fn moved(&self, usual: &str) -> Option<PathBuf> {
        let place = |(of, folder): &(&str, MovedFolder)| {
            let rest = Path::new(usual).strip_prefix(of).ok()?;
            let folder = &folder.real;
            Some(if rest.as_os_str().is_empty() { folder.clone() } else { folder.join(rest) })
        };
        self.moved.iter().find_map(place)
    }

    /// Where a cache lies: where a variable moves it, or in the home folder. Nowhere if it may not be shown
    /// there.
    pub(super) fn cache(&self, usual: &str, config: &ProfileConfig) -> Option<PathBuf> {
        let usual_place = || config.home.as_ref().map(|home| home.join(usual));
        let Some(moved) = self.moved(usual).filter(|moved| Some(moved) != usual_place().as_ref()) else {
            return usual_place();
        };
        let real = real_path(&moved);
        is_showable(config, &real).then_some(real)
    }

    /// What is hidden in folders that a variable moves.
    pub(super) fn hidden(&self) -> impl Iterator<Item = PathBuf> {
        HIDDEN.iter().filter_map(|name| self.moved(name))
    }

    /// Shows them, as far as nothing else does yet.
    pub(super) fn show(&self, views: &mut [&mut MountMap], config: &ProfileConfig) {
        let mut shown = ToolChainView { views, config, hidden: Vec::new() };
        for (usual, folder) in &self.moved {
            shown.moved(usual, folder);
        }
        for (folder, more) in &self.installations {
            if holds_programs(&folder.join("bin")) {
                shown.parts(folder, PARTS.iter().chain(*more));
            }
        }
        for folder in &self.programs {
            shown.show_programs(folder);
        }
        for credentials in shown.hidden {
            for places in views.iter_mut() {
                places.hide(&credentials, &[]);
            }
        }
    }
}

struct ToolChainView<'a, 'v> {
    views: &'a mut [&'v mut MountMap],
    config: &'a ProfileConfig,
    /// Credentials in what is shown.
    hidden: Vec<PathBuf>,
}

impl ToolChainView<'_, '_> {
    /// A folder that usually lies in the home folder.
    fn moved(&mut self, usual: &str, folder: &MovedFolder) {
        if self.config.home.as_ref().is_some_and(|home| home.join(usual) == folder.real) {
            return;
        }
        let Some(real) = self.showable(&folder.real) else { return };
        let parts = TOOLCHAINS.iter().filter_map(|part| Path::new(part).strip_prefix(usual).ok());
        if TOOLCHAINS.iter().any(|whole| Path::new(usual).starts_with(whole)) {
            self.bind(&real);
        } else if parts.clone().next().is_some() {
            // Nothing else of it is seen, and what a tool adds there lasts as long as a command.
            let empty = MountEntry::Tmpfs { at: real.clone(), bytes_max: limits::HOME_BYTES, mode: 0o700 };
            self.put(&empty);
            parts.for_each(|part| self.part(&real.join(part)));
        }
        self.link(&folder.named, &real);
    }

    /// A directory with programs, and what they need beside it.
    fn show_programs(&mut self, folder: &Path) {
        let Some(real) = self.showable(folder).filter(|real| holds_programs(real)) else { return };
        if self.views[0].shows(&real) {
            return self.link(folder, &real);
        }
        let named =
            |names: &[&str]| real.file_name().is_some_and(|name| names.iter().any(|other| name == *other));
        let around = real.parent().filter(|around| self.showable(around).as_deref() == Some(*around));
        // The programs of a checkout are not an installation. pyenv itself is a checkout, so this doesn't
        // hold for shims.
        let is_installation = |around: &Path| !around.ends_with(".local") && !around.join(".git").exists();
        match around {
            Some(around) if named(&["shims"]) => self.parts(around, BEHIND_SHIMS.iter()),
            Some(around) if named(&["bin", "sbin"]) && is_installation(around) => {
                self.parts(around, PARTS.iter());
            }
            _ => {}
        }
        self.bind(&real);
        self.link(folder, &real);
    }

    /// Parts of an installation.
    fn parts<'n>(&mut self, folder: &Path, names: impl Iterator<Item = &'n &'n str>) {
        let Some(real) = self.showable(folder) else { return };
        for name in names {
            self.part(&real.join(name));
        }
        self.link(folder, &real);
    }

    /// One of them. A link is shown where it leads, if that may be shown.
    fn part(&mut self, at: &Path) {
        let Ok(real) = at.canonicalize() else { return };
        if real == at {
            return self.bind(at);
        }
        let folder = if real.is_file() { real.parent() } else { Some(&*real) };
        if !self.views[0].shows(at) && folder.is_some_and(|folder| self.showable(folder).is_some()) {
            self.put(&MountEntry::Bind { from: BindSource::Path(real), at: at.to_owned(), writable: false });
        }
    }

    fn put(&mut self, part: &MountEntry) {
        self.views.iter_mut().for_each(|places| places.put(part.clone()));
    }

    fn bind(&mut self, path: &Path) {
        if self.views[0].shows(path) {
            return;
        }
        self.views.iter_mut().for_each(|places| places.bind(path, false));
        find_credentials(path, &mut self.hidden);
    }

    /// Lets the name that a variable has lead to where the folder really lies.
    fn link(&mut self, named: &Path, real: &Path) {
        let places = &self.views[0];
        // In the temporary folder a link would outlive the command.
        let taken = named == real || places.is_behind_link(named) || places.follow_links(named).is_some();
        if !taken && !named.starts_with("/tmp") && !named.starts_with(&self.config.temp) {
            self.put(&MountEntry::Link { at: named.to_owned(), to: real.to_owned() });
        }
    }

    /// Where a folder really lies, if a variable may show it: it is none that commands see otherwise, that is
    /// too wide, or in which something is that they must not see.
    fn showable(&self, folder: &Path) -> Option<PathBuf> {
        let real = folder.canonicalize().ok().filter(|real| real.is_dir())?;
        (is_showable(self.config, &real) && is_of_the_kernel(&real).is_none()).then_some(real)
    }
}

fn is_showable(config: &ProfileConfig, path: &Path) -> bool {
    let home = config.home.as_deref();
    let in_home = home.iter().flat_map(|home| HIDDEN.iter().map(|name| home.join(name)));
    let mut secret = in_home.chain(config.own.iter().cloned());
    let mut written = config.workspace.iter().chain(&config.allow_write).chain([&config.temp]);
    is_too_wide(path, home).is_none()
        && !secret.any(|hidden| path.starts_with(hidden))
        && !written.any(|root| path.starts_with(root))
}

/// Whether a program lies directly in a folder.
fn holds_programs(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(limits::TOOL_ENTRIES_MAX);
    entries.map(|entry| entry.path()).any(|path| is_program(&path))
}

/// A path without links, as far as it is there.
fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match there.and_then(|(above, real)| Some((real, path.strip_prefix(above).ok()?))) {
        Some((real, rest)) if !rest.as_os_str().is_empty() => real.join(rest),
        Some((real, _)) => real,
        None => path.to_owned(),
    }
}

/// Whether a path is a file that may be started.
pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Looks for credentials in a folder, and in the folders directly in it.
pub(super) fn find_credentials(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut folders = vec![(folder.to_owned(), 0)];
    let mut entries_left = limits::TOOL_ENTRIES_MAX;
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(left) = entries_left.checked_sub(1) else { return };
            entries_left = left;
            let (name, path) = (entry.file_name(), entry.path());
            let Ok(kind) = entry.file_type() else { continue };
            if !kind.is_dir() && CREDENTIALS.iter().any(|credentials| name == *credentials) {
                found.push(path);
            } else if depth == 0 && kind.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
}
