//! What the profile of a session leaves open to every command, told without making a sandbox.
//!
//! A policy has to know it before a call runs, and `haft check` without any. So the same parts are put
//! together as for a child, and nothing is made, held or walked: what rules deny is asked of the rules
//! themselves. What differs from the view of a child differs to the safe side.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use haft::files::RootExtent;
use haft::ports::{PathUse, SandboxView};
use haft_net::host::Host;

use super::caches::{OTHER, USUAL};
use super::mount_map::MountMap;
use super::toolchains::ToolChains;
use super::{
    HIDDEN_IN_HOME, PRIVATE_TEMP, ProfileConfig, etc, furnish_session, home, put_own, subfolder, system,
};
use crate::net::NetworkPolicy;
use crate::sandbox::SandboxConfig;

/// What every command of a session may touch without a grant.
pub struct ProfileView {
    config: ProfileConfig,
    network: NetworkPolicy,
    /// Caches, of which every workspace has a copy.
    caches: Vec<PathBuf>,
    /// What is never shown.
    hidden: Vec<PathBuf>,
    /// Made when it is first needed: it looks at the disk.
    places: OnceLock<MountMap>,
}

impl ProfileView {
    /// The view of a sandbox that is made from this.
    pub fn new(config: &SandboxConfig) -> ProfileView {
        let (mut profile, network) = (config.profile.clone(), config.network().clone());
        profile.home =
            profile.home.and_then(|home| home.canonicalize().ok()).filter(|home| home != Path::new("/"));
        for path in profile.own.iter_mut().chain(&mut profile.tools).chain(&mut profile.results) {
            *path = path.canonicalize().unwrap_or_else(|_| path.clone());
        }
        for path in &mut profile.allow_write {
            *path = path.canonicalize().unwrap_or_else(|_| path.clone());
        }
        let chains = ToolChains::from_variables(&profile.variables);
        let names = USUAL.iter().map(|name| (*name, true)).chain(OTHER.iter().map(|name| (*name, false)));
        let caches = names.filter_map(|(name, is_made)| {
            let at = chains.cache(name, &profile)?;
            (is_made || at.is_dir()).then_some(at)
        });
        let caches = caches.collect();
        let in_home = profile.home.iter().flat_map(|home| HIDDEN_IN_HOME.iter().map(|name| home.join(name)));
        let hidden = in_home.chain(chains.hidden()).chain(system::hidden_paths()).collect();
        ProfileView { config: profile, network, caches, hidden, places: OnceLock::new() }
    }

    fn places(&self) -> &MountMap {
        self.places.get_or_init(|| {
            let mut places = system::system_mounts();
            // The folder that the helper would need is never used.
            etc::show_etc(&mut places, self.config.caches.clone());
            if let Some(home) = &self.config.home {
                furnish_session(&mut places, home, None, &[], &mut Vec::new());
            }
            subfolder::top_folders(&self.config).iter().for_each(|top| places.bind(top, false));
            put_own(&mut places, &self.config, &[], true);
            let chains = ToolChains::from_variables(&self.config.variables);
            chains.show(&mut [&mut places], &self.config);
            home::put_settings(&mut places, home::moved_settings(&chains));
            places
        })
    }

    fn is_in_cache(&self, path: &Path) -> bool {
        self.caches.iter().any(|cache| path.starts_with(cache))
    }

    /// Whether a path in `/var/tmp`, which is empty for each command, is what a command finds there: nothing
    /// on the way to it is the host's. A path in `/tmp` of the host is never: the session's lies elsewhere.
    fn is_in_temp(&self, path: &Path) -> bool {
        let folder = Path::new(PRIVATE_TEMP);
        let is_missing = |way: &Path| way.symlink_metadata().is_err();
        self.places().decided_at(path) == Some(folder)
            && path.ancestors().take_while(|way| *way != folder).all(is_missing)
    }

    /// What is hidden from every command, or is denied by rules.
    fn is_hidden(&self, path: &Path) -> bool {
        let (config, rules) = (&self.config, &self.config.rules);
        let within = |folder: &PathBuf| path.starts_with(folder);
        let shown = config.results.iter().chain(&config.tools).any(within);
        self.hidden.iter().any(within)
            || (config.own.iter().any(within) && !shown)
            || rules.unreadable_paths.iter().any(within)
            || rules.unreadable.as_ref().is_some_and(|hidden| hidden.covers(path))
    }

    /// Whether something that is hidden from every command lies in a folder.
    fn hides_in(&self, folder: &Path) -> bool {
        let (config, rules) = (&self.config, &self.config.rules);
        let within = |path: &PathBuf| path.starts_with(folder);
        self.hidden.iter().chain(&config.own).any(within)
            || rules.unreadable_paths.iter().any(within)
            || !self.places().inside(folder).is_empty()
    }

    fn is_readable(&self, path: &Path) -> bool {
        if path == Path::new("/") || path.starts_with("/proc") || path.starts_with("/dev") {
            // Every command has its own, and no grant shows more.
            return true;
        }
        let copied = self.places().copies().any(|copy| copy == path);
        (self.is_shown(path) || copied || self.is_in_temp(path)) && !self.is_hidden(path)
    }

    /// Whether a command sees the host's file.
    fn is_shown(&self, path: &Path) -> bool {
        let places = self.places();
        let is_in_session_temp = path.starts_with(&self.config.temp);
        let shown = is_in_session_temp
            || places.shows(path)
            || places.aliases(path).iter().any(|alias| places.shows(alias));
        (shown || places.is_linked(path) || self.is_in_cache(path)) && !self.is_hidden(path)
    }

    fn is_writable(&self, path: &Path) -> bool {
        let rules = &self.config.rules;
        let denied =
            rules.unwritable_paths.iter().any(|denied| path.starts_with(denied) || denied.starts_with(path))
                || rules.unwritable.as_ref().is_some_and(|denied| denied.covers(path));
        let writable = path.starts_with("/dev")
            || self.is_in_cache(path)
            || path.starts_with(&self.config.temp)
            || self.places().writable_root(path).is_some()
            || self.is_in_temp(path) && path != Path::new(PRIVATE_TEMP);
        writable && !denied && !self.is_hidden(path)
    }
}

impl SandboxView for ProfileView {
    fn is_path_open(&self, path: &Path, extent: RootExtent, path_use: PathUse) -> bool {
        match path_use {
            PathUse::CommandRead => self.is_readable(path),
            PathUse::CommandWrite => self.is_writable(path),
            PathUse::ToolRead => {
                let whole = extent == RootExtent::File || !self.hides_in(path);
                self.is_shown(path) && !self.places().is_excerpt(path) && whole
            }
        }
    }

    fn is_host_open(&self, host: &str) -> bool {
        let host = Host::parse(host);
        let opens =
            |host: &Host| [443, 80].into_iter().any(|port| self.network.judge(&[], host, port).is_ok());
        host.is_ok_and(|host| !host.is_local() && opens(&host))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use haft::PermissionRules;
    use haft::ports::{ConfinementLevel, ProcessRequest, SandboxRules};

    use super::super::SandboxProfile;
    use super::*;
    use crate::mount_plan::{MountEntry, place_of};

    const USES: [PathUse; 3] = [PathUse::CommandRead, PathUse::CommandWrite, PathUse::ToolRead];

    /// A machine in a folder: a home, a working directory, the session's own folders.
    fn machine() -> (tempfile::TempDir, ProfileConfig) {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = dir.path().canonicalize().unwrap();
        let files = [
            "home/.ssh/id_rsa",
            "home/.cargo/registry/src/lib.rs",
            "home/.cache/gh/token",
            "home/.cargo/bin/tool",
            "home/.gitconfig",
            "work/a",
            "state/results/1",
            "out/x",
        ];
        for file in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "[user]\n\tname = x\n").unwrap();
        }
        let rules = SandboxRules::from_authorizer(&PermissionRules::new());
        let mut config =
            ProfileConfig::new(root.join("work"), root.join("temp"), root.join("state/caches"), rules);
        config.home = Some(root.join("home"));
        config.own.push(root.join("state"));
        config.results = Some(root.join("state/results"));
        (dir, config)
    }

    #[test]
    fn what_every_command_sees_is_open() {
        let (dir, config) = machine();
        let view = ProfileView::new(&SandboxConfig::new(config).unwrap());
        let root = dir.path().canonicalize().unwrap();
        let nowhere = "/tmp/haft-test-of-a-view-that-is-nowhere";
        let alone = tempfile::tempdir_in("/tmp").unwrap();
        let alone = alone.path().to_str().unwrap();
        // Which of reading, writing and reading by a tool is open.
        for (path, expected) in [
            ("/usr/bin", "r-t"),
            ("/etc", "r--"),
            ("/etc/passwd", "r-t"),
            ("/", "r--"),
            ("/proc/1/environ", "r--"),
            ("/dev/null", "rw-"),
            ("/etc/shadow", "---"),
            ("/run/secret", "---"),
            (nowhere, "---"),
            ("/var/tmp/haft-test-of-a-view-that-is-nowhere", "rw-"),
            ("@/temp/x", "rwt"),
            (alone, "---"),
            ("@/home", "---"),
            ("@/home/.ssh/id_rsa", "---"),
            ("@/home/.cargo/bin/tool", "r-t"),
            ("@/home/.cargo/registry/src/lib.rs", "rwt"),
            ("@/home/.cache/gh/token", "---"),
            ("@/home/.gitconfig", "r--"),
            ("@/home/new", "---"),
            ("@/state/results/1", "r-t"),
            ("@/state/trust.json", "---"),
            ("@/out/x", "---"),
        ] {
            if path == "/etc/shadow" && !Path::new(path).exists() {
                continue;
            }
            let path = path.replace("@/", &format!("{}/", root.display()));
            let open = |path_use| view.is_path_open(Path::new(&path), RootExtent::File, path_use);
            let found: String = USES
                .iter()
                .zip("rwt".chars())
                .map(|(one, sign)| if open(*one) { sign } else { '-' })
                .collect();
            assert_eq!(found, expected, "{path}");
        }
        let whole = |path: &str| view.is_path_open(Path::new(path), RootExtent::Subtree, PathUse::ToolRead);
        assert!(whole("/usr/bin") && !whole(root.join("home/.cache").to_str().unwrap()));
        assert!(!view.is_host_open("example.com") && !view.is_host_open("localhost"));
    }

    /// The view is never wider than what a child is shown.
    #[test]
    fn what_is_open_is_shown_to_a_child() {
        let (dir, config) = machine();
        let view = ProfileView::new(&SandboxConfig::new(config.clone()).unwrap());
        let (profile, _) = SandboxProfile::new(config).unwrap();
        let request = ProcessRequest::new(["true"], dir.path().join("work"));
        let scene = profile.scene(&request.with_confinement(ConfinementLevel::Session)).unwrap();
        let mut seen = 0;
        for part in &scene.parts {
            let path = place_of(part);
            for path_use in [PathUse::CommandRead, PathUse::ToolRead] {
                if view.is_path_open(path, RootExtent::File, path_use) {
                    seen += 1;
                    let own = matches!(path.to_str(), Some("/" | "/var/tmp" | "/proc" | "/dev"));
                    let copied = matches!(part, MountEntry::File { .. } | MountEntry::Excerpt { .. })
                        || profile.session.is_linked(path);
                    assert!(profile.session.shows(path) || own || copied, "{}", path.display());
                }
            }
            if view.is_path_open(path, RootExtent::File, PathUse::CommandWrite) && path != Path::new("/dev") {
                let written = profile.session.writable_root(path).is_some() || view.is_in_cache(path);
                assert!(written, "{}", path.display());
            }
        }
        assert!(seen > 5, "{seen}");
    }
}
