//! Scenes as text, for machines that are built in temporary folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use haft::files::{GrantedAccess, GrantedRoot, HiddenPaths};
use haft::ports::{ConfinementLevel, ConfinementRefusal, DeniedRead, ProcessRequest, ProtectionLevel};
use haft::testing::with_restrictions;
use haft_git::RepositoryLevel;

use super::*;
use crate::mount_plan::place_of;

/// The level of a command that writes the configuration of the repository that it runs in.
fn configuration() -> ProtectionLevel {
    ProtectionLevel { number: RepositoryLevel::Configuration.number(), folders: Vec::new() }
}

/// A machine: a home folder, a working directory, and folders of a session.
struct Machine {
    _dir: tempfile::TempDir,
    root: PathBuf,
    config: ProfileConfig,
}

impl Machine {
    fn new() -> Machine {
        Machine::in_folder("/var/tmp")
    }

    fn in_folder(folder: &str) -> Machine {
        let dir = tempfile::tempdir_in(folder).unwrap();
        let root = dir.path().canonicalize().unwrap();
        for folder in ["home", "work", "state/results"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let mut config = ProfileConfig::new(
            root.join("work"),
            root.join("state/tmp"),
            root.join("state/caches"),
            haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
        );
        config.home = Some(root.join("home"));
        config.own.push(root.join("state"));
        config.results = Some(root.join("state/results"));
        Machine { _dir: dir, root, config }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn file(&self, path: &str, content: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn folder(&self, path: &str) {
        fs::create_dir_all(self.at(path)).unwrap();
    }

    /// A repository as `git init` leaves it, as far as it matters.
    fn repository(&self, path: &str) {
        self.file(&format!("{path}/.git/HEAD"), "ref: refs/heads/main\n");
        self.file(&format!("{path}/.git/config"), "[core]\n\tbare = false\n");
        self.file(&format!("{path}/.git/hooks/pre-commit.sample"), "#!/bin/sh\n");
        self.folder(&format!("{path}/.git/objects"));
    }

    fn profile(&self) -> SandboxProfile {
        self.profile_and_notes().0
    }

    fn profile_and_notes(&self) -> (SandboxProfile, String) {
        let (profile, notes) = SandboxProfile::new(self.config.clone()).unwrap();
        (profile, self.short(&notes.join("\n")))
    }

    fn short(&self, text: &str) -> String {
        text.replace(self.root.to_str().unwrap(), "~")
    }

    fn request(&self, confinement: ConfinementLevel) -> ProcessRequest {
        let level = ProtectionLevel { number: RepositoryLevel::Data.number(), folders: Vec::new() };
        ProcessRequest::new(["true"], self.at("work")).with_confinement(confinement).with_protection(level)
    }

    /// The parts beneath this machine's folders, one line each.
    fn listing(&self, profile: &SandboxProfile, request: &ProcessRequest) -> String {
        let mut scene = profile.scene(request).unwrap();
        let more = std::mem::take(&mut scene.more);
        scene.add(more);
        let ours = |part: &&MountEntry| place_of(part).starts_with(&self.root);
        let lines: Vec<String> = scene.parts.iter().filter(ours).map(line).collect();
        self.short(&lines.join("\n"))
    }

    fn session(&self) -> String {
        self.listing(&self.profile(), &self.request(ConfinementLevel::Session))
    }

    fn refused(&self, profile: &SandboxProfile, request: &ProcessRequest) -> String {
        let words = |refusal: ConfinementRefusal| match refusal {
            ConfinementRefusal::Protected { path, done } | ConfinementRefusal::Changed { path, done } => {
                format!("{}: {done}", path.display())
            }
            other => format!("{other:?}"),
        };
        let words: Vec<String> = profile.finished(request).into_iter().map(words).collect();
        self.short(&words.join("\n"))
    }
}

fn line(part: &MountEntry) -> String {
    match part {
        MountEntry::Bind { from, at, writable } => {
            let how = if *writable { "write" } else { "read" };
            match from {
                BindSource::Path(from) if from != at => {
                    format!("{how} {} from {}", at.display(), from.display())
                }
                _ => format!("{how} {}", at.display()),
            }
        }
        MountEntry::StandIn { at, .. } => format!("instead of {}", at.display()),
        MountEntry::Tmpfs { at, .. } => format!("empty {}", at.display()),
        MountEntry::Overlay { at, writable, .. } => {
            format!("overlay {}{}", at.display(), if *writable { "" } else { " read-only" })
        }
        MountEntry::Mask { at } => format!("mask {}", at.display()),
        MountEntry::Protect { at } => format!("protect {}", at.display()),
        MountEntry::Pin { at } => format!("pin {}", at.display()),
        MountEntry::Link { at, to } => format!("link {} to {}", at.display(), to.display()),
        MountEntry::File { at, content } => {
            format!("file {} {:?}", at.display(), String::from_utf8_lossy(content))
        }
        MountEntry::Excerpt { at, .. } => format!("some of {}", at.display()),
        MountEntry::Proc => "proc".into(),
        MountEntry::Dev => "dev".into(),
    }
}

/// Whether a line is about one of the caches that this machine doesn't have.
fn without_empty_caches(listing: &str) -> String {
    let lines = listing.lines().filter(|line| !line.contains(" from ~/state/caches/"));
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(found: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(without_empty_caches(found), expected.join("\n"));
}

#[test]
fn a_home_shows_tool_chains_and_caches_and_no_secrets() {
    let machine = Machine::new();
    for secret in
        [".ssh/id_ed25519", ".aws/credentials", ".netrc", ".bash_history", ".cargo/credentials.toml"]
    {
        machine.file(&format!("home/{secret}"), "secret");
    }
    machine.file("home/.cargo/bin/cargo", "");
    machine.folder("home/.cargo/registry");
    machine.file("home/.npm/_cacache/x", "");
    machine.file("home/.m2/settings.xml", "<password>");
    machine.file("home/.npmrc", "registry=https://r/\n//r/:_authToken=t\n");
    machine.file("home/.gitconfig", "[user]\nname = Me\n[credential]\nhelper = store\n");
    machine.folder("home/.rustup");
    check(
        &machine.session(),
        r#"
        empty ~/home
        read ~/home/.cargo/bin
        overlay ~/home/.cargo/registry
        file ~/home/.gitconfig "[user]\n\tname = Me\n"
        overlay ~/home/.npm/_cacache
        file ~/home/.npmrc "registry=https://r/\n"
        read ~/home/.rustup
        read ~/state/results
        write ~/work
        "#,
    );
}

#[test]
fn who_only_looks_can_write_nothing_and_leaves_nothing_on_the_host() {
    let machine = Machine::new();
    machine.repository("work");
    machine.folder("home/.npm/_cacache");
    let profile = machine.profile();
    let request = machine.request(ConfinementLevel::ReadOnly);
    check(
        &machine.listing(&profile, &request),
        "empty ~/home
         overlay ~/home/.npm/_cacache read-only
         read ~/state/results
         read ~/work",
    );
    let scene = profile.scene(&request).unwrap();
    let writable = |part: &&MountEntry| {
        matches!(part, MountEntry::Bind { writable: true, .. } | MountEntry::Overlay { writable: true, .. })
    };
    assert_eq!(scene.parts.iter().find(writable).map(line), None);
    assert_eq!(scene.network, NetworkAccessKind::Empty);
    let variables = [("TMPDIR", "/var/tmp"), ("GIT_OPTIONAL_LOCKS", "0")];
    assert_eq!(profile.environment(&request), variables.map(|(name, value)| (name.into(), value.into())));
}

/// A sandbox that was made ahead of time fits the next call only if that is to see the same.
#[test]
fn calls_without_a_grant_see_the_same_whatever_others_have_done() {
    let machine = Machine::new();
    machine.repository("work");
    machine.folder("home/.npm/_cacache");
    let profile = machine.profile();
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let request = machine.request(confinement);
        let written = || crate::wire::write_plan(&profile.scene(&request).unwrap());
        let first = written();
        assert_eq!(first, written(), "while another runs");
        let scene = profile.scene(&machine.request(ConfinementLevel::Session)).unwrap();
        let upper = scene.parts.iter().find_map(|part| match part {
            MountEntry::Overlay { upper, .. } => Some(upper.clone()),
            _ => None,
        });
        fs::write(upper.unwrap().join(format!("{confinement:?}")), "").unwrap();
        fs::write(machine.at(&format!("work/{confinement:?}")), "").unwrap();
        assert_eq!(profile.finished(&request), []);
        assert_eq!(first, written(), "after one that wrote");
    }
}

#[test]
fn the_system_is_readable_but_for_its_secrets() {
    let machine = Machine::new();
    let scene = machine.profile().scene(&machine.request(ConfinementLevel::Session)).unwrap();
    let lines: Vec<String> = scene.parts.iter().map(line).collect();
    for expected in ["read /usr", "some of /etc", "proc", "dev", "empty /run", "empty /var/tmp"] {
        let there = expected
            .split(' ')
            .next_back()
            .is_none_or(|path| !path.starts_with('/') || Path::new(path).exists());
        assert!(!there || lines.iter().any(|line| line == expected), "{expected} in {lines:#?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("write /tmp from ")), "{lines:#?}");
    let position = |wanted: &str| lines.iter().position(|line| line.starts_with(wanted));
    assert!(position("write /tmp ") < position(&format!("write {}", machine.at("work").display())));
    assert_eq!(scene.network, NetworkAccessKind::Session);
    assert!(scene.rlimits.contains(&ResourceLimit { resource: libc::RLIMIT_CORE, soft: 0, hard: 0 }));
}

#[test]
fn repositories_keep_their_hooks_and_configuration_and_nothing_above_can_be_renamed() {
    let mut machine = Machine::new();
    machine.repository("work");
    machine.repository("work/vendor/lib");
    fs::remove_dir_all(machine.at("work/vendor/lib/.git/hooks")).unwrap();
    machine.file("work/.git/config", "[core]\nhooksPath = tools/git\n[include]\npath = ../git.conf\n");
    machine.file("work/tools/git/pre-commit", "");
    machine.file("work/git.conf", "");
    machine.file("work/.git/worktrees/n/commondir", "../..");
    machine.file("work/.git/modules/sub/HEAD", "");
    machine.file("work/.git/modules/sub/config", "");
    machine.folder("work/.git/modules/sub/objects");
    machine.file("work/scripts/hook.sh", "");
    machine.config.scripts.push(machine.at("work/scripts/hook.sh"));
    let listing = machine.session();
    let work: Vec<&str> = listing.lines().filter(|line| line.contains("~/work")).collect();
    check(
        &work.join("\n"),
        "write ~/work
           pin ~/work/.git
         protect ~/work/.git/config
         protect ~/work/.git/hooks
         pin ~/work/.git/modules
         pin ~/work/.git/modules/sub
         protect ~/work/.git/modules/sub/config
         pin ~/work/.git/worktrees
         pin ~/work/.git/worktrees/n
         protect ~/work/.git/worktrees/n/commondir
              protect ~/work/git.conf
         pin ~/work/scripts
         protect ~/work/scripts/hook.sh
         pin ~/work/tools
         protect ~/work/tools/git
         pin ~/work/vendor
         pin ~/work/vendor/lib
         pin ~/work/vendor/lib/.git
         protect ~/work/vendor/lib/.git/config",
    );
}

#[test]
fn a_worktree_brings_its_repository_only_if_that_leads_back() {
    let machine = Machine::new();
    machine.repository("main");
    machine.file("work/.git", &format!("gitdir: {}\n", machine.at("main/.git/worktrees/work").display()));
    machine.file("main/.git/worktrees/work/commondir", "../..\n");
    machine.file("main/.git/worktrees/work/gitdir", &format!("{}\n", machine.at("work/.git").display()));
    let listing = machine.session();
    let main: Vec<&str> =
        listing.lines().filter(|line| line.contains("main") || line.contains("work/.git")).collect();
    check(
        &main.join("\n"),
        "write ~/main/.git
         protect ~/main/.git/config
         protect ~/main/.git/hooks
         pin ~/main/.git/worktrees
         pin ~/main/.git/worktrees/work
         protect ~/main/.git/worktrees/work/commondir
         protect ~/main/.git/worktrees/work/gitdir
         protect ~/work/.git",
    );
    machine.file("other/.git", "");
    machine.file("main/.git/worktrees/work/gitdir", &format!("{}\n", machine.at("other/.git").display()));
    let (profile, notes) = machine.profile_and_notes();
    let listing = machine.listing(&profile, &machine.request(ConfinementLevel::Session));
    assert!(!listing.contains("main"), "{listing}");
    assert!(listing.ends_with("protect ~/work/.git"), "{listing}");
    assert_eq!(
        notes,
        "`~/work/.git` leads to `~/main/.git/worktrees/work`, which doesn't lead back; commands don't see that repository"
    );
}

#[test]
fn a_home_as_working_directory_is_read_and_not_written() {
    let mut machine = Machine::new();
    machine.config.workspace = vec![machine.at("home")];
    machine.file("home/.ssh/id", "secret");
    machine.file("home/.gitconfig", "[user]\nname = Me\n");
    machine.file("home/notes.txt", "");
    machine.folder("home/.npm/_cacache");
    let (profile, notes) = machine.profile_and_notes();
    check(
        &machine.listing(&profile, &machine.request(ConfinementLevel::Session)),
        r#"
        read ~/home
        file ~/home/.gitconfig "[user]\n\tname = Me\n"
        overlay ~/home/.npm/_cacache
        mask ~/home/.ssh
        read ~/state/results
        "#,
    );
    let words = "commands can't write `~/home`: it is your home folder, of which they see what isn't secret; start in a folder of one project";
    assert_eq!(notes, words);
    // What a call was granted in it is written all the same, but not the whole.
    let write =
        vec![GrantedRoot::subtree(machine.at("home")), GrantedRoot::file(machine.at("home/notes.txt"))];
    let request = machine.request(ConfinementLevel::Session);
    let request = request.with_access(GrantedAccess { write, ..GrantedAccess::default() }, Vec::new());
    let listing = machine.listing(&profile, &request);
    assert!(listing.contains("write ~/home/notes.txt") && !listing.contains("write ~/home\n"), "{listing}");
}

#[test]
fn a_working_directory_above_the_home_shows_no_home() {
    let mut machine = Machine::new();
    machine.config.workspace = vec![machine.root.clone()];
    machine.file("home/.ssh/id", "secret");
    let (profile, notes) = machine.profile_and_notes();
    check(
        &machine.listing(&profile, &machine.request(ConfinementLevel::Session)),
        "read ~
         empty ~/home
         empty ~/state
         read ~/state/results",
    );
    assert!(notes.starts_with("commands can't write `~`: your home folder lies in it"), "{notes}");
    machine.config.workspace = vec!["/".into()];
    let (profile, notes) = machine.profile_and_notes();
    let scene = profile.scene(&machine.request(ConfinementLevel::Session)).unwrap();
    assert!(!scene.parts.iter().any(|part| place_of(part) == Path::new("/")));
    assert!(notes.starts_with("commands can't write `/`: it is the root of the file system"), "{notes}");
}

#[test]
fn what_lies_in_the_temporary_folder_of_the_host_stays_in_sight() {
    let machine = Machine::in_folder("/tmp");
    let profile = machine.profile();
    let listing = machine.listing(&profile, &machine.request(ConfinementLevel::Session));
    let lines: Vec<&str> =
        listing.lines().filter(|line| !line.contains("/home") && !line.contains("work/.")).collect();
    check(
        &lines.join("\n"),
        "pin ~
         pin ~/state
         read ~/state/results
         write ~/work",
    );
    // The places are there, in the folder that stands at `/tmp`.
    let room = machine.at("state/tmp").join(machine.root.strip_prefix("/tmp").unwrap());
    assert!(room.join("work").is_dir() && room.join("home").is_dir() && !room.join("work/.haft").exists());
    // A child that had it replaced gets no folder made elsewhere.
    fs::remove_dir_all(&room).unwrap();
    symlink(machine.at("home"), &room).unwrap();
    let error = profile.scene(&machine.request(ConfinementLevel::Session)).err().unwrap();
    assert!(error.starts_with("there is no room for `/tmp/"), "{error}");
    assert!(!machine.at("home/work").exists());
}

#[test]
fn denied_files_and_sockets_are_masked() {
    let mut machine = Machine::new();
    machine.file("work/.env", "");
    machine.file("work/sub/.env", "");
    machine.file("work/secrets/a", "");
    machine.file("work/plain/target", "");
    machine.folder("work/linked");
    symlink("../plain/target", machine.at("work/linked/.env")).unwrap();
    machine.folder("work/odd");
    symlink("/usr", machine.at("work/odd/.env")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(machine.at("work/agent.sock")).unwrap();
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.unreadable = Some(HiddenPaths::new(|path| path.ends_with(".env") || path.ends_with("secrets")))
    });
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.unreadable_paths = vec![machine.at("work/later"), machine.at("work")]
    });
    let (profile, notes) = machine.profile_and_notes();
    assert_eq!((notes.as_str(), profile.is_incomplete()), ("", false));
    let request = machine.request(ConfinementLevel::ReadOnly);
    let masks = || {
        let listing = machine.listing(&profile, &request);
        listing.lines().filter(|line| line.contains("mask")).collect::<Vec<_>>().join("\n")
    };
    check(
        &masks(),
        "mask ~/work/.env
         mask ~/work/agent.sock
         mask ~/work/plain/target
         mask ~/work/secrets
         mask ~/work/sub/.env",
    );
    machine.file("work/later", "");
    fs::remove_file(machine.at("work/.env")).unwrap();
    check(
        &masks(),
        "mask ~/work/agent.sock
         mask ~/work/later
         mask ~/work/plain/target
         mask ~/work/secrets
         mask ~/work/sub/.env",
    );
}

/// A rule that denies what this says, from where it begins.
fn denied(path: PathBuf, covers: impl Fn(&Path) -> bool + Send + Sync + 'static) -> DeniedRead {
    DeniedRead::new("Read(x)", path, HiddenPaths::new(covers))
}

fn masks(listing: &str) -> Vec<&str> {
    listing.lines().filter_map(|line| line.strip_prefix("mask ")).collect()
}

#[test]
fn what_rules_deny_is_masked_wherever_it_is_shown() {
    let mut machine = Machine::new();
    for file in ["home/.cache/pip/x/tok", "home/.local/lib/x/tok", "home/.cargo/bin/tok", "home/.ssh/tok"] {
        machine.file(file, "secret");
    }
    machine.file("home/.gitconfig", "[user]\n\tname = n\n");
    machine.file("open/key.pem", "secret");
    machine.file("open/.env", "secret");
    machine.file("written/sub/.env", "secret");
    machine.config.allow_read.push(machine.at("open"));
    machine.config.allow_write.push(machine.at("written"));

    // By name, without a walk, and from the moment in which it is there.
    let names =
        ["home/.cache/pip/x/tok", "home/.local/lib/x", "home/.gitconfig", "home/.ssh/tok", "open/key.pem"];
    let later = machine.at("written/later");
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = names
            .iter()
            .map(|name| machine.at(name))
            .chain([later.clone()])
            .map(|path| denied(path.clone(), move |other| other.starts_with(&path)))
            .collect()
    });
    let profile = machine.profile();
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let listing = machine.listing(&profile, &machine.request(confinement));
        assert_eq!(masks(&listing), ["~/home/.cache/pip/x/tok", "~/home/.local/lib/x", "~/open/key.pem"]);
        assert!(!listing.contains(".gitconfig"), "{listing}");
    }
    fs::write(&later, "secret").unwrap();
    let listing = machine.listing(&profile, &machine.request(ConfinementLevel::Session));
    assert!(masks(&listing).contains(&"~/written/later"), "{listing}");

    // By a pattern, from where it begins.
    let named = |name: &'static str| move |path: &Path| path.ends_with(name);
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = vec![
            denied(machine.at("home"), named("tok")).with_pattern(),
            denied(machine.root.clone(), named(".env")).with_pattern(),
        ]
    });
    let (profile, notes) = machine.profile_and_notes();
    let listing = machine.listing(&profile, &machine.request(ConfinementLevel::Session));
    let all = [
        "~/home/.cache/pip/x/tok",
        "~/home/.cargo/bin/tok",
        "~/home/.local/lib/x/tok",
        "~/open/.env",
        "~/written/sub/.env",
    ];
    assert_eq!(masks(&listing), all, "{listing}");
    assert_eq!((notes.as_str(), profile.misses_elsewhere()), ("", false));

    // A wider rule leaves what settings open; one for the very folder doesn't.
    let home = machine.at("home");
    machine.config.allow_read = vec![machine.at("home/.cargo/bin")];
    let all = move |path: &Path| path.starts_with(&home);
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = vec![denied(machine.at("home"), all)]
    });
    let listing = machine.session();
    assert!(masks(&listing).contains(&"~/home/.local/lib"), "{listing}");
    assert!(!listing.contains("mask ~/home/.cargo"), "{listing}");
    machine.config.allow_read = vec![machine.at("open")];
    let open = machine.at("open");
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = vec![denied(open.clone(), move |path| path.starts_with(&open))]
    });
    assert_eq!(masks(&machine.session()), ["~/open"]);
}

#[test]
fn a_rule_that_denies_what_every_command_needs_is_refused() {
    for path in ["/usr", "/", "/bin/bash", "/usr/bin/BASH"] {
        let mut machine = Machine::new();
        machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
            rules.denied_reads = vec![denied(path.into(), |_| true)]
        });
        let refused = SandboxProfile::new(machine.config.clone()).err().unwrap_or_default();
        assert!(
            refused.contains("`Read(x)`") && refused.contains("every command needs"),
            "{path}: {refused}"
        );
    }
    let mut machine = Machine::new();
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = vec![denied("/usr/bin".into(), |path| path.ends_with("bash")).with_pattern()]
    });
    assert!(SandboxProfile::new(machine.config.clone()).is_err());
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.denied_reads = vec![denied("/etc/hosts".into(), |path| path.ends_with("hosts"))]
    });
    assert!(SandboxProfile::new(machine.config.clone()).is_ok());
}

#[test]
fn too_many_denied_files_are_said() {
    let mut machine = Machine::new();
    for number in 0..=limits::MASKS_MAX {
        machine.file(&format!("work/{number}.env"), "");
    }
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.unreadable = Some(HiddenPaths::new(|path| path.extension().is_some_and(|end| end == "env")))
    });
    let (profile, notes) = machine.profile_and_notes();
    assert!(profile.is_incomplete());
    assert!(notes.contains("rules deny reading more than 200 files in them; so commands ask"), "{notes}");
}

#[test]
fn a_grant_shows_what_it_names_and_nothing_hidden() {
    let mut machine = Machine::new();
    machine.file("other/data/a", "");
    machine.file("other/data/.env", "");
    machine.file("other/out.txt", "");
    machine.file("home/.ssh/config", "");
    machine.file("state/trust", "");
    symlink(machine.at("home"), machine.at("other/link")).unwrap();
    machine.config.rules = with_restrictions(&machine.config.rules, |rules| {
        rules.unreadable = Some(HiddenPaths::new(|path| path.ends_with(".env")))
    });
    let profile = machine.profile();
    let grant = |read: &[&str], write: &[&str], confinement| {
        let root =
            |path: &&str| GrantedRoot { path: machine.at(path), extent: haft::files::RootExtent::Subtree };
        let file = |path: &&str| GrantedRoot::file(machine.at(path));
        let access = GrantedAccess {
            read: read.iter().map(root).collect(),
            write: write.iter().map(file).collect(),
            ..GrantedAccess::default()
        };
        let request = machine.request(confinement).with_access(access, Vec::new());
        let listing = machine.listing(&profile, &request);
        let new = |line: &&str| line.contains("other") || line.contains(".ssh") || line.contains("trust");
        let lines: Vec<String> = listing.lines().filter(new).map(ToOwned::to_owned).collect();
        (lines.join("\n"), request)
    };
    let reads = ["other/data", "home/.ssh/config", "state/trust", "other/link/.ssh", "work"];
    let expected = "read ~/home/.ssh/config\nread ~/other/data\nmask ~/other/data/.env";
    assert_eq!(grant(&reads, &[], ConfinementLevel::Session).0, expected);
    // A file is written, replaced and made in a folder that stands in for its own; a folder isn't written by
    // a grant for one file. What isn't made isn't there.
    let (lines, request) =
        grant(&[], &["other/out.txt", "other/new.txt", "other/data"], ConfinementLevel::Session);
    let expected = "instead of ~/other\nread ~/other/data\nmask ~/other/data/.env";
    assert_eq!(lines, expected);
    assert_eq!(profile.finished(&request), []);
    assert!(!machine.at("other/new.txt").exists() && machine.at("other/out.txt").exists());
    // One that may only look otherwise can write what it was granted.
    assert_eq!(grant(&[], &["other/out.txt"], ConfinementLevel::ReadOnly).0, "instead of ~/other");
    // What is shown can't be stood in for: there a file is made before, and goes again if it stays empty.
    let (lines, request) = grant(&["other"], &["other/out.txt", "other/new.txt"], ConfinementLevel::Session);
    let expected = "read ~/other\nmask ~/other/data/.env\nwrite ~/other/new.txt\nwrite ~/other/out.txt";
    assert_eq!(lines, expected);
    assert!(machine.at("other/new.txt").exists());
    assert_eq!(profile.finished(&request), []);
    assert!(!machine.at("other/new.txt").exists() && machine.at("other/out.txt").exists());
}

#[test]
fn a_protected_name_is_written_only_by_its_own_name() {
    let machine = Machine::new();
    machine.file("work/.vscode/settings.json", "{}");
    let profile = machine.profile();
    let request = |root: GrantedRoot, never: Vec<PathBuf>| {
        let access = GrantedAccess { write: vec![root], never_written: never, ..GrantedAccess::default() };
        machine.request(ConfinementLevel::Session).with_access(access, Vec::new())
    };
    let file = machine.at("work/.vscode/settings.json");
    let all = request(GrantedRoot::subtree(machine.at("work")), Vec::new());
    assert!(!machine.listing(&profile, &all).contains("settings.json"));
    let named = request(GrantedRoot::file(&file), Vec::new());
    let expected = "protect ~/work/.vscode\nwrite ~/work/.vscode/settings.json";
    let listing = machine.listing(&profile, &named);
    assert!(listing.contains(expected), "{listing}");
    let never = request(GrantedRoot::file(&file), vec![machine.at("work/.vscode")]);
    assert!(!machine.listing(&profile, &never).contains("settings.json"));
}

#[test]
fn what_changes_although_it_was_held_is_said_and_left_alone() {
    let machine = Machine::new();
    machine.repository("work");
    machine.file("work/.envrc", "export A=1");
    let profile = machine.profile();
    let none = ProtectionLevel { number: RepositoryLevel::None.number(), folders: Vec::new() };
    let request = machine.request(ConfinementLevel::Session).with_protection(none);
    assert!(machine.listing(&profile, &request).contains("protect ~/work/.envrc"));
    assert_eq!(machine.refused(&profile, &request), "");
    profile.scene(&request).unwrap();
    machine.file("work/.envrc", "export A=2");
    machine.file("work/.git/hooks/pre-commit", "mine");
    let words = "no command can write it, so you or another program did that; look at it if you didn't";
    let expected = format!("~/work/.envrc: {words}\n~/work/.git/hooks/pre-commit: {words}");
    assert_eq!(machine.refused(&profile, &request), expected);
    assert_eq!(machine.refused(&profile, &request), "", "it is said once");
    assert!(machine.at("work/.git/hooks/pre-commit").exists());
    machine.file("work/.envrc", "export A=3");
    profile.scene(&request).unwrap();
    assert_eq!(machine.refused(&profile, &request), "", "between commands the user may do as they like");
}

#[test]
fn what_cannot_be_held_is_put_back() {
    let machine = Machine::new();
    machine.repository("work");
    machine.folder("work/real");
    symlink("real", machine.at("work/.claude")).unwrap();
    let profile = machine.profile();
    let request = machine.request(ConfinementLevel::Session);
    let listing = machine.listing(&profile, &request);
    assert!(
        listing.contains("protect ~/work/real") && listing.contains("protect ~/work/.claude"),
        "{listing}"
    );
    machine.file("work/.git/commondir", "../evil");
    fs::remove_file(machine.at("work/.claude")).unwrap();
    machine.file("work/.claude/settings.json", "evil");
    let expected = "~/work/.claude: the link to `real` was put back\n\
                    ~/work/.git/commondir: it was made while a command ran, and it was removed";
    let refused = machine.refused(&profile, &request);
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(fs::read_link(machine.at("work/.claude")).unwrap(), Path::new("real"));
}

#[test]
fn git_may_write_its_configuration_where_it_has_to() {
    let machine = Machine::new();
    machine.repository("work");
    let profile = machine.profile();
    let request = machine.request(ConfinementLevel::Session).with_protection(configuration());
    let listing = machine.listing(&profile, &request);
    assert!(listing.contains("pin ~/work/.git\nprotect ~/work/.git/hooks"), "{listing}");
    let config = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://h/r\n";
    machine.file("work/.git/config", config);
    assert_eq!(machine.refused(&profile, &request), "");
    assert_eq!(fs::read_to_string(machine.at("work/.git/config")).unwrap(), config);

    profile.scene(&request).unwrap();
    machine.file("work/.git/config", &format!("{config}[core]\n\tfsmonitor = ./evil\n"));
    let expected = "~/work/.git/config: while a command ran `core.fsmonitor` was changed, and that was undone; it is kept";
    let refused = machine.refused(&profile, &request);
    assert!(refused.starts_with(expected), "{refused}");
    assert_eq!(fs::read_to_string(machine.at("work/.git/config")).unwrap(), config);

    // Not a link to where the next command can write, nor a second name for such a file.
    profile.scene(&request).unwrap();
    machine.file("work/evil", config);
    fs::remove_file(machine.at("work/.git/config")).unwrap();
    symlink("../evil", machine.at("work/.git/config")).unwrap();
    let expected = "~/work/.git/config: while a command ran all of it (it was no file any more) was changed, and that was undone";
    assert_eq!(machine.refused(&profile, &request), expected);
    profile.scene(&request).unwrap();
    fs::remove_file(machine.at("work/.git/config")).unwrap();
    fs::hard_link(machine.at("work/evil"), machine.at("work/.git/config")).unwrap();
    assert_eq!(machine.refused(&profile, &request), "");
    machine.file("work/evil", "evil");
    assert_eq!(fs::read_to_string(machine.at("work/.git/config")).unwrap(), config);
}

#[test]
fn a_repository_that_a_command_made_keeps_what_git_writes() {
    let machine = Machine::new();
    let profile = machine.profile();
    let request = machine.request(ConfinementLevel::Session);
    profile.scene(&request).unwrap();
    machine.repository("work");
    machine.file("work/.git/config", "[core]\n\tbare = false\n\tfsmonitor = evil\n");
    machine.file("work/.git/hooks/post-checkout", "evil");
    let expected = "~/work/.git/config: while a command ran `core.fsmonitor` was changed, and that was undone\n\
                    ~/work/.git/hooks/post-checkout: it was made while a command ran, and it was removed";
    assert_eq!(machine.refused(&profile, &request), expected);
    assert!(machine.at("work/.git/hooks/pre-commit.sample").exists());
    let listing = machine.listing(&profile, &request);
    assert!(listing.contains("protect ~/work/.git/config\nprotect ~/work/.git/hooks"), "{listing}");
    assert_eq!(machine.refused(&profile, &request), "");
}

#[test]
fn nothing_is_left_in_the_working_directory() {
    let machine = Machine::new();
    machine.folder("work/.claude/worktrees/one");
    let profile = machine.profile();
    let listing = machine.listing(&profile, &machine.request(ConfinementLevel::Session));
    assert!(listing.contains("protect ~/work/.claude\nwrite ~/work/.claude/worktrees"), "{listing}");
    let left: Vec<_> =
        fs::read_dir(machine.at("work")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".claude"]);
}

#[test]
fn the_folders_of_the_session_are_its_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut machine = Machine::new();
    machine.folder("state/tmp");
    fs::set_permissions(machine.at("state/tmp"), fs::Permissions::from_mode(0o777)).unwrap();
    machine.profile();
    assert_eq!(machine.at("state/tmp").metadata().unwrap().permissions().mode() & 0o777, 0o700);
    symlink(machine.at("home"), machine.at("link")).unwrap();
    machine.config.temp = machine.at("link");
    let error = SandboxProfile::new(machine.config.clone()).err().unwrap();
    assert_eq!(
        machine.short(&error),
        "the folder `~/link` of this session can't be made: what is there isn't a folder of this user"
    );
}

#[test]
fn a_working_directory_that_is_gone_is_an_error() {
    let mut machine = Machine::new();
    machine.config.workspace.push(machine.at("gone"));
    let error = SandboxProfile::new(machine.config.clone()).err().unwrap();
    assert!(
        machine.short(&error).starts_with("the working directory `~/gone` can't be opened: No such file"),
        "{error}"
    );
}

/// Nothing above a folder is pinned, where it can't be moved and isn't even shown.
#[test]
fn a_folder_that_is_allowed_and_denied_is_hidden() {
    let mut machine = Machine::new();
    machine.folder("out/pub");
    machine.config.allow_write.push(machine.at("out/pub"));
    machine.config.rules =
        with_restrictions(&machine.config.rules, |rules| rules.unreadable_paths.push(machine.at("out/pub")));
    let profile = machine.profile();
    for confinement in [ConfinementLevel::Session, ConfinementLevel::ReadOnly] {
        let scene = profile.scene(&machine.request(confinement)).unwrap();
        let hidden = machine.at("out/pub");
        let pinned: Vec<_> =
            scene.parts.iter().filter(|part| matches!(part, MountEntry::Pin { .. })).collect();
        let above = pinned.iter().filter(|part| hidden.starts_with(place_of(part))).count();
        assert_eq!(above, 0, "{pinned:?}");
        assert!(scene.parts.iter().any(|part| matches!(part, MountEntry::Mask { at } if *at == hidden)));
    }
}
