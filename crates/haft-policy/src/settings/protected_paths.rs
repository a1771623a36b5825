//! Files that decide what runs: written only after a question, some never.
//!
//! The names are those of [`haft_protected::TABLE`]; the folders of the user's settings and state come from
//! [`SettingsPlaces`].

use std::path::{Path, PathBuf};

use super::places::{SettingsPlaces, normalize_path};

/// How a path is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathProtection {
    /// Each write needs the user's approval. Contains the name that is protected.
    Ask(String),
    /// No tool writes it in any mode. Contains the folder or file that is protected.
    Never(PathBuf),
}

/// The protected paths of one session.
#[derive(Debug, Clone)]
pub struct ProtectedPaths {
    never: Vec<PathBuf>,
    scripts: Vec<PathBuf>,
}

impl ProtectedPaths {
    /// Creates the set from the names of the table, the user's own folders at their current and default
    /// locations, and files that run for the workspace.
    pub fn new(places: &SettingsPlaces, scripts: impl IntoIterator<Item = PathBuf>) -> ProtectedPaths {
        let folders = [
            &places.config_dir,
            &places.claude_dir,
            &places.claude_json,
            &places.state_dir,
            &places.managed,
            &places.claude_managed_dir,
        ];
        let mut never: Vec<PathBuf> = Vec::new();
        for path in folders.into_iter().flatten().chain(&places.usual) {
            never.extend(path.canonicalize().ok().filter(|real| real != path));
            never.push(path.clone());
        }
        let mut both = Vec::new();
        for path in scripts {
            both.extend(path.canonicalize().ok().filter(|real| *real != path));
            both.push(path);
        }
        ProtectedPaths { never, scripts: both }
    }

    /// Returns how an absolute path is protected. Callers check the given and the resolved path; the
    /// stricter result counts.
    pub fn judge(&self, path: &Path) -> Option<PathProtection> {
        let path = normalize_path(Path::new("/"), path);
        // Replacing a parent folder replaces its contents.
        let meets = |guarded: &&PathBuf| path.starts_with(guarded) || guarded.starts_with(&path);
        if let Some(folder) = self.never.iter().find(meets) {
            return Some(PathProtection::Never(folder.clone()));
        }
        if let Some(script) = self.scripts.iter().find(|script| **script == path) {
            return Some(PathProtection::Ask(script.display().to_string()));
        }
        haft_protected::find(&path).map(|found| PathProtection::Ask(found.row.name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected() -> ProtectedPaths {
        let places = SettingsPlaces {
            managed: Some("/etc/haft/settings.json".into()),
            claude_managed_dir: None,
            claude_json: None,
            config_dir: Some("/home/me/.config/haft".into()),
            claude_dir: Some("/home/me/.claude".into()),
            state_dir: Some("/moved/state".into()),
            usual: vec!["/home/me/.local/state/haft".into()],
            home: Some("/home/me".into()),
            cwd: "/home/me/w".into(),
            git_root: None,
        };
        ProtectedPaths::new(&places, ["/home/me/w/scripts/check.sh".into()])
    }

    #[test]
    fn what_decides_what_runs_asks() {
        for path in [
            ".git/hooks/pre-commit",
            ".git/config",
            "sub/.git/config",
            ".haft/settings.json",
            ".haft/tools/x/run.sh",
            ".claude",
            ".mcp.json",
            "a/.mcp.json",
            ".vscode/tasks.json",
            ".envrc",
            ".husky/pre-push",
            ".GIT/config",
            ".Claude/Settings.json",
            ".mcp\u{200b}.json",
            ".git./config",
            "GIT~1/config",
            ".claude/worktrees",
            "scripts/check.sh",
            "x/../.git/config",
            ".claude/worktrees/a/.git/config",
            ".config/git/config",
            ".bashrc",
            ".github/workflows/ci.yml",
            "sub/.npmrc",
            "a/x.code-workspace",
        ] {
            let judged = protected().judge(&Path::new("/home/me/w").join(path));
            assert!(matches!(judged, Some(PathProtection::Ask(_))), "{path}: {judged:?}");
        }
    }

    #[test]
    fn work_is_work() {
        for path in [
            "src/main.rs",
            ".github/CODEOWNERS",
            "git/config",
            ".gitignore",
            ".claude/worktrees/a/src/lib.rs",
            "scripts/other.sh",
            ".config/other",
            "mcp.json",
            ".gitx/config",
        ] {
            assert_eq!(protected().judge(&Path::new("/home/me/w").join(path)), None, "{path}");
        }
    }

    #[test]
    fn the_users_own_is_never_written() {
        for path in [
            "/home/me/.config/haft/settings.json",
            "/moved/state/trust/x.json",
            "/home/me/.local/state/haft/trust/x.json",
            "/home/me/.claude/settings.json",
            "/etc/haft/settings.json",
            "/etc/haft",
            "/home/me/.config",
            "/home/me/w/../.claude/x",
            "/",
        ] {
            let judged = protected().judge(Path::new(path));
            assert!(matches!(judged, Some(PathProtection::Never(_))), "{path}: {judged:?}");
        }
        assert_eq!(protected().judge(Path::new("/home/me/.config/other/x")), None);
    }
}
