//! Files that decide what runs: written only after a question, some never.
//!
//! Names are compared with case folded and invisible characters taken out, because some disks do the same. The list is
//! for rules; a sandbox keeps the same names read-only for commands.

use std::path::{Component, Path, PathBuf};

use super::places::{Places, lexical};

/// Folders of a workspace whose contents run by themselves or configure what runs.
pub const PROTECTED_FOLDERS: &[&str] = &[
    ".git",
    ".haft",
    ".claude",
    ".vscode",
    ".idea",
    ".husky",
    ".cargo",
    ".devcontainer",
    ".yarn",
    ".mvn",
    ".config/git",
];

/// Folders inside of these that are plain work.
pub const UNPROTECTED_FOLDERS: &[&str] = &[".claude/worktrees", ".haft/worktrees"];

/// Files with the same power, wherever they lie.
pub const PROTECTED_FILES: &[&str] = &[
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".claude.json",
    ".envrc",
    ".gitattributes",
    ".gitconfig",
    ".gitmodules",
    ".inputrc",
    ".mcp.json",
    ".npmrc",
    ".pnp.cjs",
    ".pre-commit-config.yaml",
    ".profile",
    ".pypirc",
    ".ripgreprc",
    ".yarnrc",
    ".yarnrc.yml",
    ".zlogin",
    ".zlogout",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

/// How a path is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// Written only after the user said yes to this write; the name that says so.
    Ask(String),
    /// Written by no tool in any mode; the folder or file that says so.
    Never(PathBuf),
}

/// What is protected in one session.
#[derive(Debug, Clone)]
pub struct Protected {
    never: Vec<PathBuf>,
    scripts: Vec<PathBuf>,
}

impl Protected {
    /// The names above, the user's own folders, also where they usually are, and files that run for the workspace.
    pub fn new(places: &Places, scripts: impl IntoIterator<Item = PathBuf>) -> Protected {
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
        Protected { never, scripts: both }
    }

    /// How an absolute path is protected. Ask for the path as given and for the real one; the stricter answer counts.
    pub fn judge(&self, path: &Path) -> Option<Protection> {
        let path = lexical(Path::new("/"), path);
        // Whoever replaces a folder above replaces what is in it.
        let meets = |guarded: &&PathBuf| path.starts_with(guarded) || guarded.starts_with(&path);
        if let Some(folder) = self.never.iter().find(meets) {
            return Some(Protection::Never(folder.clone()));
        }
        if let Some(script) = self.scripts.iter().find(|script| **script == path) {
            return Some(Protection::Ask(script.display().to_string()));
        }
        protected_name(&path).map(Protection::Ask)
    }
}

/// The name in a path that protects it, if any.
fn protected_name(path: &Path) -> Option<String> {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(folded(&name.to_string_lossy())),
        _ => None,
    });
    let parts: Vec<String> = parts.collect();
    let begins = |at: usize, name: &str| {
        let mut parts = parts[at..].iter();
        name.split('/').all(|name| parts.next().is_some_and(|part| part == name))
    };
    for at in 0..parts.len() {
        if UNPROTECTED_FOLDERS.iter().any(|name| begins(at, name) && parts.len() > at + 2) {
            // What lies in there is looked at again, from its own beginning.
            continue;
        }
        let known = PROTECTED_FOLDERS.iter().chain(PROTECTED_FILES).find(|name| begins(at, name));
        if let Some(name) = known {
            return Some((*name).to_owned());
        }
    }
    None
}

/// A name as a disk may see it that doesn't tell cases apart, skips invisible characters, and drops dots and spaces at
/// the end.
fn folded(name: &str) -> String {
    let skipped = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let plain: String = name.chars().filter(|c| !skipped(*c)).flat_map(char::to_lowercase).collect();
    let plain = plain.replace('ſ', "s").replace('\u{212a}', "k");
    let trimmed = plain.trim_end_matches(['.', ' ']);
    match trimmed {
        "git~1" => ".git".to_owned(),
        "" => plain,
        trimmed => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected() -> Protected {
        let places = Places {
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
        Protected::new(&places, ["/home/me/w/scripts/check.sh".into()])
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
        ] {
            let judged = protected().judge(&Path::new("/home/me/w").join(path));
            assert!(matches!(judged, Some(Protection::Ask(_))), "{path}: {judged:?}");
        }
    }

    #[test]
    fn work_is_work() {
        for path in [
            "src/main.rs",
            ".github/workflows/ci.yml",
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
            assert!(matches!(judged, Some(Protection::Never(_))), "{path}: {judged:?}");
        }
        assert_eq!(protected().judge(Path::new("/home/me/.config/other/x")), None);
    }
}
