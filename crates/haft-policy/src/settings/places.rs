//! The locations of settings, trust and answers. All are given by the caller: nothing here reads the
//! environment by itself.
//!
//! The root of a git repository is found by reading files and never by running git, whose configuration
//! comes from the repository itself. A `.git` file can contain any path: it counts only if that location
//! refers back to it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use haft::env::VariableLookup;
use haft_git::layout::{common_folder, gitdir_in};

use super::read_file;

/// Where Claude Code keeps the user's settings. Default: `~/.claude`.
pub const CLAUDE_CONFIG_DIR: &str = "CLAUDE_CONFIG_DIR";

/// The managed settings of the machine's owner.
pub const MANAGED_SETTINGS: &str = "/etc/haft/settings.json";

/// The folder of Claude Code's managed settings: `managed-settings.json`, and a folder of fragments.
pub const CLAUDE_MANAGED_DIR: &str = "/etc/claude-code";

/// The maximum size of a `.git` file, or of a file that it names, in bytes.
const GIT_FILE_BYTES_MAX: u64 = 8 * 1024;

/// All locations that settings are read from or written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsPlaces {
    /// The managed settings file.
    pub managed: Option<PathBuf>,
    /// The folder of Claude Code's managed settings.
    pub claude_managed_dir: Option<PathBuf>,
    /// The user's settings folder.
    pub config_dir: Option<PathBuf>,
    /// The user's settings folder of Claude Code.
    pub claude_dir: Option<PathBuf>,
    /// The file in which Claude Code keeps the servers that the user added.
    pub claude_json: Option<PathBuf>,
    /// The folder for trust and stored answers.
    pub state_dir: Option<PathBuf>,
    /// The default locations of these folders. A later session without overrides reads them.
    pub usual: Vec<PathBuf>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// The working directory, absolute and with symlinks resolved: the workspace.
    pub cwd: PathBuf,
    /// The root of the surrounding repository. For a worktree it is the root of the main checkout.
    pub git_root: Option<PathBuf>,
}

/// The error for a location that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSettingsPlace(String);

impl fmt::Display for InvalidSettingsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSettingsPlace {}

impl SettingsPlaces {
    /// Returns the default locations for a workspace.
    ///
    /// # Errors
    /// Returns an error if the working directory doesn't exist, or if a folder in the environment is
    /// relative. A relative folder would be a different one in every workspace, under the workspace's
    /// control.
    pub fn from_env(cwd: &Path, lookup: VariableLookup<'_>) -> Result<SettingsPlaces, InvalidSettingsPlace> {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let movers = [haft::env::HAFT_CONFIG_DIR, haft::env::HAFT_STATE_DIR, CLAUDE_CONFIG_DIR];
        for name in movers {
            if let Some(dir) = set(name).filter(|dir| !dir.is_absolute()) {
                let dir = dir.display();
                return Err(InvalidSettingsPlace(format!(
                    "the environment variable `{name}`: `{dir}` is relative and would lead into the workspace; give an absolute path"
                )));
            }
        }
        let home = set("HOME").filter(|home| home.is_absolute());
        let usual_claude = home.as_ref().map(|home| home.join(".claude"));
        let unmoved = |name: &str| lookup(name).filter(|_| !movers.contains(&name));
        let usual = [haft::env::config_dir(&unmoved), haft::env::state_dir(&unmoved), usual_claude.clone()];
        let usual_json = home.as_ref().map(|home| home.join(".claude.json"));
        let claude_json = set(CLAUDE_CONFIG_DIR).map(|dir| dir.join(".claude.json"));
        let claude_dir = set(CLAUDE_CONFIG_DIR).or(usual_claude);
        let real = cwd.canonicalize();
        let cwd = real
            .map_err(|error| InvalidSettingsPlace(format!("the directory `{}`: {error}", cwd.display())))?;
        Ok(SettingsPlaces {
            managed: Some(MANAGED_SETTINGS.into()),
            config_dir: haft::env::config_dir(lookup),
            claude_managed_dir: Some(CLAUDE_MANAGED_DIR.into()),
            claude_dir,
            claude_json: claude_json.or(usual_json),
            state_dir: haft::env::state_dir(lookup),
            usual: usual.into_iter().flatten().collect(),
            home,
            git_root: git_root(&cwd),
            cwd,
        })
    }

    /// Returns haft's file with the servers that the user added, for one workspace or for all.
    pub fn own_servers(&self) -> Option<PathBuf> {
        self.config_dir.as_ref().map(|dir| dir.join("mcp.json"))
    }

    /// Returns a path for display: relative to the workspace or to the home directory.
    pub fn show(&self, path: &Path) -> String {
        if let Ok(inside) = path.strip_prefix(&self.cwd) {
            return inside.display().to_string();
        }
        let in_home = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        in_home.map_or_else(|| path.display().to_string(), |path| format!("~/{}", path.display()))
    }
}

/// Returns the root of the repository around a directory. For a worktree it is the root of the main
/// checkout.
pub fn git_root(cwd: &Path) -> Option<PathBuf> {
    for dir in cwd.ancestors() {
        let git = dir.join(".git");
        let Ok(found) = git.symlink_metadata() else { continue };
        if found.is_dir() {
            return Some(dir.to_owned());
        }
        if found.is_file() {
            return Some(main_checkout(dir, &git).unwrap_or_else(|| dir.to_owned()));
        }
        // Git doesn't create a symlink or another special file here. It is no root and hides none.
    }
    None
}

/// Returns the main checkout of a worktree, if the repository knows this worktree: `.git` names
/// `MAIN/.git/worktrees/NAME`, and the file `gitdir` there names this `.git`.
fn main_checkout(dir: &Path, git: &Path) -> Option<PathBuf> {
    let text = read_file::read_text(git, GIT_FILE_BYTES_MAX).ok()??;
    let entry = dir.join(gitdir_in(text.as_bytes())?).canonicalize().ok()?;
    let common = common_folder(&entry).filter(|common| common.ends_with(".git"))?;
    let back = read_file::read_text(&entry.join("gitdir"), GIT_FILE_BYTES_MAX).ok()??;
    let back = entry.join(back.trim());
    (back.canonicalize().ok()? == git.canonicalize().ok()?).then(|| common.parent().map(Path::to_owned))?
}

/// Removes `.` and `..` from a path without accessing the file system.
pub(crate) fn normalize_path(base: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;

    use super::*;

    fn dir() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        (dir, real)
    }

    fn file(path: PathBuf, text: impl AsRef<str>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.as_ref()).unwrap();
    }

    #[test]
    fn the_root_is_found_from_below() {
        let (_keep, at) = dir();
        fs::create_dir_all(at.join("repo/.git")).unwrap();
        fs::create_dir_all(at.join("repo/a/b")).unwrap();
        assert_eq!(git_root(&at.join("repo/a/b")), Some(at.join("repo")));
        assert_eq!(git_root(&at.join("repo")), Some(at.join("repo")));
        let outside = git_root(&at);
        assert!(outside.is_none_or(|root| at.starts_with(root)));
    }

    #[test]
    fn a_worktree_leads_to_the_main_checkout() {
        let (_keep, at) = dir();
        file(at.join("main/.git/worktrees/w/gitdir"), format!("{}\n", at.join("w/.git").display()));
        file(at.join("w/.git"), format!("gitdir: {}\n", at.join("main/.git/worktrees/w").display()));
        fs::create_dir_all(at.join("w/src")).unwrap();
        assert_eq!(git_root(&at.join("w/src")), Some(at.join("main")));
    }

    /// codex #39616: a `.git` file that names another repository's worktree takes nothing from it.
    #[test]
    fn a_forged_git_file_leads_nowhere_else() {
        let (_keep, at) = dir();
        file(at.join("trusted/.git/worktrees/w/gitdir"), format!("{}\n", at.join("w/.git").display()));
        let forge = |text: String| {
            file(at.join("evil/.git"), text);
            assert_eq!(git_root(&at.join("evil")), Some(at.join("evil")));
        };
        forge(format!("gitdir: {}\n", at.join("trusted/.git/worktrees/w").display()));
        forge(format!("gitdir: {}\n", at.join("trusted/.git").display()));
        forge("gitdir: ../trusted/.git/worktrees/w\n".to_owned());
        forge("gitdir: /\n".to_owned());
        forge("nonsense".repeat(10_000));
        fs::remove_file(at.join("evil/.git")).unwrap();
        std::os::unix::fs::symlink(at.join("trusted/.git"), at.join("evil/.git")).unwrap();
        assert_ne!(git_root(&at.join("evil")), Some(at.join("trusted")));
    }

    #[test]
    fn relative_folders_are_refused() {
        let (_keep, at) = dir();
        let places = |name: &'static str, value: &'static str| {
            SettingsPlaces::from_env(&at, &move |asked| match asked {
                "HOME" => Some(OsString::from("/home/me")),
                asked => (asked == name).then(|| value.into()),
            })
        };
        // CVE-2025-61260: a relative folder lets each workspace bring its own.
        for name in [haft::env::HAFT_CONFIG_DIR, haft::env::HAFT_STATE_DIR, CLAUDE_CONFIG_DIR] {
            let error = places(name, "./.haft").unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("absolute"), "{error}");
        }
        let usual = places("-", "").unwrap();
        assert_eq!(usual.config_dir, Some("/home/me/.config/haft".into()));
        assert_eq!(usual.claude_json, Some("/home/me/.claude.json".into()));
        let moved = places(CLAUDE_CONFIG_DIR, "/moved").unwrap();
        assert_eq!(moved.claude_dir, Some("/moved".into()));
        assert_eq!(moved.claude_json, Some("/moved/.claude.json".into()), "it moves with the folder");
        assert_eq!(usual.claude_dir, Some("/home/me/.claude".into()));
        let home = ["/home/me/.config/haft", "/home/me/.local/state/haft", "/home/me/.claude"];
        for name in [haft::env::HAFT_CONFIG_DIR, haft::env::HAFT_STATE_DIR, CLAUDE_CONFIG_DIR] {
            assert_eq!(places(name, "/moved").unwrap().usual, home.map(PathBuf::from), "{name}");
        }
        assert_eq!(places("XDG_CONFIG_HOME", "/x").unwrap().usual[0], Path::new("/x/haft"));
        assert_eq!(places(CLAUDE_CONFIG_DIR, "/c").unwrap().claude_dir, Some("/c".into()));
        assert_eq!(places(haft::env::HAFT_STATE_DIR, "/s").unwrap().state_dir, Some("/s".into()));
        assert_eq!(usual.show(&at.join("a/b")), "a/b");
        assert_eq!(usual.show(Path::new("/home/me/x")), "~/x");
    }
}
