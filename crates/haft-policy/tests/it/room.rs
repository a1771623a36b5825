//! A simulated machine in a folder: managed settings, a home directory, a workspace, a state folder.

use std::fs;
use std::path::{Path, PathBuf};

use haft_policy::settings::{SettingsError, SettingsFlags, SettingsPlaces, git_root};
use haft_policy::source::{RuleList, UnparsedRule};
use haft_policy::trust::{self, ResolvedSettings, TrustInventory, TrustStore};

pub(crate) struct Room {
    _keep: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Room {
    pub(crate) fn new() -> Room {
        let keep = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = keep.path().canonicalize().unwrap();
        for folder in ["home/.claude", "config", "state", "work", "etc"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        Room { _keep: keep, root }
    }

    /// Writes a file below `work/…`, `config/…`, `home/…` or `etc/…`.
    pub(crate) fn with(self, path: &str, text: &str) -> Room {
        self.write(path, text);
        self
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn places_in(&self, cwd: &str) -> SettingsPlaces {
        let cwd = self.at(cwd);
        // The folder above the test's own may be a repository on some machines.
        let git_root = git_root(&cwd).filter(|root| root.starts_with(&self.root));
        SettingsPlaces {
            managed: Some(self.at("etc/settings.json")),
            claude_managed_dir: Some(self.at("etc/claude-code")),
            claude_json: Some(self.at("home/.claude.json")),
            config_dir: Some(self.at("config")),
            claude_dir: Some(self.at("home/.claude")),
            state_dir: Some(self.at("state")),
            usual: Vec::new(),
            home: Some(self.at("home")),
            git_root,
            cwd,
        }
    }

    pub(crate) fn places(&self) -> SettingsPlaces {
        self.places_in("work")
    }

    pub(crate) fn try_load(&self, flags: &SettingsFlags) -> Result<ResolvedSettings, SettingsError> {
        trust::load_settings(&self.places(), flags)
    }

    pub(crate) fn load_with(&self, flags: &SettingsFlags) -> ResolvedSettings {
        self.try_load(flags).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn load(&self) -> ResolvedSettings {
        self.load_with(&SettingsFlags::default())
    }

    pub(crate) fn error(&self) -> String {
        self.try_load(&SettingsFlags::default()).expect_err("this should not load").to_string()
    }

    pub(crate) fn inventory(&self) -> TrustInventory {
        trust::inspect_workspace(&self.places()).unwrap()
    }

    pub(crate) fn store(&self) -> TrustStore {
        TrustStore::open(&self.at("state"))
    }

    /// Stores the user's approval.
    pub(crate) fn trust(&self) {
        self.store().trust(&self.at("work"), &self.inventory()).unwrap();
    }
}

/// Formats rules in a line: `-deny ?ask +allow`.
pub(crate) fn rules(rules: &[UnparsedRule]) -> String {
    let words = rules.iter().map(|rule| {
        let mark = match rule.list {
            RuleList::Deny => '-',
            RuleList::Ask => '?',
            RuleList::Allow => '+',
        };
        format!("{mark}{}", rule.rule)
    });
    words.collect::<Vec<_>>().join(" ")
}

pub(crate) fn json_flag(text: &str) -> SettingsFlags {
    SettingsFlags { settings: vec![text.to_owned()], ..SettingsFlags::default() }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}
