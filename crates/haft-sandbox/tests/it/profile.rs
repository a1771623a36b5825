//! Children in the profile of a session: what they can't do, beside honest work that they can.
//!
//! Each attack has its positive control, mostly the same command where it is allowed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use haft::files::{GrantedAccess, GrantedRoot, HiddenPaths};
use haft::ports::{
    ConfinementLevel, ConfinementRefusal, ProcessExit, ProcessOutcome, ProcessRequest, Processes as _,
    ProtectionLevel,
};
use haft::testing::with_restrictions;
use haft_git::RepositoryLevel;
use haft_sandbox::testing::maker;
use haft_sandbox::{LocalProcesses, ProfileConfig, Sandbox, SandboxConfig};
use haft_shell::{ShellDirectories, analyse_command};

use crate::confined::HELPER;
use crate::skipped;

/// A template for repositories with one sample of a hook instead of git's thirteen.
pub(crate) const GIT_TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/git-template");

const SHM: &str = "/dev/shm";

/// Whether files can be made and executed in a folder.
fn runs_programs(folder: &str) -> bool {
    let script =
        "f=$(mktemp -p \"$0\") && echo exit > $f && chmod +x $f && $f; code=$?; rm -f \"$f\"; exit $code";
    Command::new("sh").args(["-c", script, folder]).output().is_ok_and(|done| done.status.success())
}

/// The level of a command that writes the configuration of the repository that it runs in.
pub(crate) fn configuration() -> ProtectionLevel {
    level(RepositoryLevel::Configuration)
}

/// A level for the folder that a command runs in.
pub(crate) fn level(level: RepositoryLevel) -> ProtectionLevel {
    ProtectionLevel { number: level.number(), folders: Vec::new() }
}

/// A user with a home folder and a repository to work in.
pub(crate) struct User {
    _dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) config: ProfileConfig,
}

impl User {
    pub(crate) fn new() -> User {
        User::in_folder("/var/tmp")
    }

    /// A user for controls, whose commands no sandbox confines: in memory where that is possible, since
    /// making files costs most of the time of these tests.
    pub(crate) fn unconfined() -> User {
        static FOLDER: LazyLock<&str> = LazyLock::new(|| if runs_programs(SHM) { SHM } else { "/var/tmp" });
        User::in_folder(&FOLDER)
    }

    fn in_folder(folder: &str) -> User {
        let dir = tempfile::tempdir_in(folder).unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (path, content) in [
            ("home/.ssh/id_ed25519", "SECRET"),
            ("home/.netrc", "SECRET"),
            ("home/.npm/_cacache/cached", "cached"),
            ("home/.local/bin/greet", "#!/bin/sh\necho hello\n"),
            ("home/.gitconfig", "[user]\nname = Me\nemail = me@example.org\n[credential]\nhelper = SECRET\n"),
            ("other/file", "other"),
            ("state/trust", "SECRET"),
            ("state/results/1.txt", "result"),
            ("work/README", "read me"),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let work = root.join("work");
        git(&work, &["init", "-q", "-b", "main"]);
        git(&work, &["add", "-A"]);
        git(&work, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"]);
        let mut config = ProfileConfig::new(
            &work,
            root.join("state/tmp"),
            root.join("state/caches"),
            haft::ports::SandboxRules::from_authorizer(&haft::PermissionRules::new()),
        );
        config.home = Some(root.join("home"));
        config.own.push(root.join("state"));
        config.results = Some(root.join("state/results"));
        User { _dir: dir, root, config }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    pub(crate) fn session(&self) -> Session<'_> {
        self.session_with(HELPER)
    }

    pub(crate) fn session_with(&self, helper: impl Into<PathBuf>) -> Session<'_> {
        let mut config =
            SandboxConfig::new(self.config.clone()).unwrap().with_helper(helper).with_maker(maker());
        config.full_only = true;
        let config = config.with_variables(std::env::vars_os().chain(self.config.variables.clone()));
        let sandbox = Sandbox::start(config).unwrap();
        Session { user: self, sandbox }
    }
}

pub(crate) struct Session<'u> {
    user: &'u User,
    pub(crate) sandbox: Sandbox,
}

impl Session<'_> {
    pub(crate) fn request(&self, script: &str) -> ProcessRequest {
        let request = ProcessRequest::new(["bash", "-c", script], self.user.at("work"));
        let home = self.user.config.home.clone().unwrap_or_else(|| "/".into());
        // Whoever runs these tests may have it point elsewhere, which a child can't write.
        let request = request.with_env("CARGO_TARGET_DIR", "target");
        let request = request.with_env("HOME", home).with_protection(level(RepositoryLevel::Data));
        request.with_merged_output().with_timeout(Duration::from_secs(60))
    }

    /// A request at the level that the analysis gives the line.
    pub(crate) fn analysed(&self, line: &str) -> ProcessRequest {
        let used = analyse_command(line, &ShellDirectories::new(self.user.at("work"))).repository_use();
        self.request(line)
            .with_protection(ProtectionLevel { number: used.level.number(), folders: used.folders })
    }

    pub(crate) async fn run(
        &self,
        request: ProcessRequest,
    ) -> (ProcessExit, String, Vec<ConfinementRefusal>) {
        let ProcessOutcome { exit, stdout, refused, .. } = self.sandbox.run(request).await.unwrap();
        (exit, String::from_utf8_lossy(&stdout.head).into_owned(), refused)
    }

    /// What it printed; it must end well.
    pub(crate) async fn good(&self, script: &str) -> String {
        let (exit, said, refused) = self.run(self.request(script)).await;
        assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "`{script}` said: {said}");
        said
    }

    /// What it printed; it must fail.
    pub(crate) async fn bad(&self, script: &str) -> String {
        let (exit, said, _) = self.run(self.request(script)).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{script}` ended with {exit:?}: {said}"
        );
        assert!(!said.contains("SECRET"), "`{script}` said: {said}");
        said
    }
}

/// The control of an attempt: with no sandbox around it, in a place of the same kind, it works.
async fn works_outside(script: &str, prepare: impl Fn(&User)) {
    let user = User::unconfined();
    prepare(&user);
    let request = ProcessRequest::new(["bash", "-c", script], user.at("work")).with_merged_output();
    let request = request.with_env("GIT_TEMPLATE_DIR", GIT_TEMPLATE);
    let outcome = LocalProcesses::new(std::env::vars_os()).run(request).await.unwrap();
    let said = String::from_utf8_lossy(&outcome.stdout.head);
    assert_eq!(outcome.exit, ProcessExit::Code(0), "`{script}` doesn't even work outside: {said}");
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    let done =
        git.env("GIT_TEMPLATE_DIR", GIT_TEMPLATE).arg("-C").arg(folder).args(arguments).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn secrets_of_the_user_are_not_there() {
    let user = User::new();
    let session = user.session();
    assert_eq!(session.sandbox.notes(), [] as [&str; 0]);
    for secret in ["~/.ssh/id_ed25519", "~/.netrc", "../state/trust", "../other/file", "/etc/shadow"] {
        session.bad(&format!("cat {secret}")).await;
    }
    let said = session
        .good(
            "ls -A ~; greet=~/.local/bin/greet; test -r $greet; cat ~/.gitconfig; cat ../state/results/1.txt",
        )
        .await;
    assert!(!said.contains(".ssh") && !said.contains("SECRET") && said.contains("name = Me"), "{said}");
    assert!(said.ends_with("result"), "{said}");
    let root = user.root.display();
    session.bad(&format!("ls {root}/other")).await;
}

#[tokio::test]
async fn the_workspace_is_written_and_nothing_else() {
    let user = User::new();
    let session = user.session();
    session.good("echo new > file && mkdir -p a/b && mv file a/b/ && ln a/b/file hard && rm -r a hard").await;
    for attempt in [
        "echo x > ../other/file",
        "echo x > /etc/new",
        "echo x > /usr/new",
        "echo x > ../state/results/1.txt",
    ] {
        session.bad(attempt).await;
    }
    assert_eq!(fs::read_to_string(user.at("other/file")).unwrap(), "other");
    // The home folder is the child's own, and gone with it.
    session.good("echo x > ~/.bashrc").await;
    assert!(!user.at("home/.bashrc").exists());
    session.bad("cat ~/.bashrc").await;
}

#[tokio::test]
async fn protected_names_stay_as_they_are() {
    let user = User::new();
    let prepare = |user: &User| {
        for name in [".vscode", ".haft", ".idea"] {
            fs::create_dir(user.at("work").join(name)).unwrap();
        }
        for name in [".envrc", ".mcp.json"] {
            fs::write(user.at("work").join(name), "mine").unwrap();
        }
    };
    prepare(&user);
    let session = user.session();
    for attempt in [
        "echo evil > .git/hooks/pre-commit",
        "rm -f .git/hooks/pre-commit.sample",
        "git config core.fsmonitor evil",
        "echo evil >> .git/config",
        "mv .git .git2",
        "mkdir x && mv .git x/",
        "rm -rf .git/config",
        "ln .git/config hard",
        "unshare -rm mount --bind . .git/hooks",
    ] {
        session.bad(attempt).await;
        works_outside(attempt, prepare).await;
    }
    // Names that exist, from a command that doesn't write the repository.
    for attempt in [
        "echo evil > .haft/settings.json",
        "echo evil > .x && python3 -c 'import os; os.rename(\".x\", \".envrc\")'",
        "rmdir .idea && ln -s README .idea",
        "echo evil > .mcp.json",
        "rm .mcp.json",
        "echo evil > .vscode/tasks.json",
        "mv .vscode other && mkdir .vscode",
        "ln .mcp.json hard && echo evil > hard",
    ] {
        let request = session.request(attempt).with_protection(level(RepositoryLevel::None));
        let (exit, said, _) = session.run(request).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{attempt}` ended with {exit:?}: {said}"
        );
        works_outside(attempt, prepare).await;
    }
    let config = fs::read_to_string(user.at("work/.git/config")).unwrap();
    assert!(!config.contains("evil"), "{config}");
    // Beside them git works.
    session.good("rm -rf x .x; echo 1 > new && git add -A && git commit -qm two && git status --short && git switch -qc other").await;
    let said = session.good("git log --format=%an%s").await;
    assert_eq!(said, "Metwo\naone\n");
    drop(session);
    let left = Command::new("git")
        .arg("-C")
        .arg(user.at("work"))
        .args(["status", "--short", "--ignored"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    assert_eq!(fs::read_to_string(user.at("work/.mcp.json")).unwrap(), "mine");
}

#[tokio::test]
async fn nested_repositories_are_protected_too() {
    let user = User::new();
    let prepare = |user: &User| {
        fs::create_dir_all(user.at("work/vendor/lib")).unwrap();
        git(&user.at("work/vendor/lib"), &["init", "-q"]);
    };
    prepare(&user);
    let session = user.session();
    for attempt in [
        "echo evil > vendor/lib/.git/hooks/post-checkout",
        "git -C vendor/lib config core.pager evil",
        // Not `mv`, which copies and removes where it can't rename.
        "python3 -c 'import os; os.rename(\"vendor\", \"gone\")'",
        "python3 -c 'import os; os.rename(\"vendor/lib\", \"vendor/gone\")'",
        "python3 -c 'import os; os.rename(\"vendor/lib/.git\", \"vendor/lib/gone\")'",
    ] {
        session.bad(attempt).await;
        works_outside(attempt, prepare).await;
    }
    session
        .good("echo 1 > vendor/lib/file && git -C vendor/lib add -A && git -C vendor/lib commit -qm one")
        .await;
}

#[tokio::test]
async fn git_that_has_to_write_its_configuration_may() {
    let user = User::new();
    let session = user.session();
    session.bad("git remote add origin https://example.org/r").await;
    let (exit, said, refused) = session
        .run(session.request("git remote add origin https://example.org/r").with_protection(configuration()))
        .await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    assert_eq!(session.good("git remote").await, "origin\n");
    let script =
        "git config core.fsmonitor evil; git config branch.main.remote origin; echo ../evil > .git/commondir";
    let (_, _, refused) = session.run(session.request(script).with_protection(configuration())).await;
    let said: Vec<(PathBuf, String)> = refused
        .into_iter()
        .map(|refused| match refused {
            ConfinementRefusal::Protected { path, done } => (path, done),
            other => panic!("{other:?}"),
        })
        .collect();
    let kept =
        said[0].1.strip_prefix("while a command ran `core.fsmonitor` was changed, and that was undone; ");
    let kept = kept.and_then(|kept| kept.split('`').nth(1)).unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("evil"));
    let commondir =
        (user.at("work/.git/commondir"), "it was made while a command ran, and it was removed".into());
    assert_eq!((&said[0].0, &said[1..]), (&user.at("work/.git/config"), &[commondir][..]));
    assert_eq!(
        session.good("git config branch.main.remote; git config core.fsmonitor || echo none").await,
        "origin\nnone\n"
    );
}

#[tokio::test]
async fn who_only_looks_changes_nothing() {
    let user = User::new();
    let session = user.session();
    let look = |script: &str| session.request(script).with_confinement(ConfinementLevel::ReadOnly);
    session.good("echo left > /tmp/left").await;
    let script = "cat README /tmp/left && git status --short && git log --oneline | wc -l && cat ~/.npm/_cacache/cached && sort <<< b && mktemp";
    let (exit, said, refused) = session.run(look(script)).await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    for attempt in [
        "echo x > new",
        "echo x > /tmp/new",
        "rm README",
        "echo x > ~/.npm/_cacache/new",
        "git commit --allow-empty -m x",
        "echo > /dev/tcp/127.0.0.1/3128",
    ] {
        let (exit, said, _) = session.run(look(attempt)).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{attempt}` ended with {exit:?}: {said}"
        );
    }
    assert!(!user.at("work/new").exists() && !user.at("home/.npm/_cacache/new").exists());
}

/// Root isn't bound by the limit of a user: its namespace has one, and a control group where the kernel lets
/// one be made.
#[tokio::test]
async fn processes_are_bounded_for_root_too() {
    let user = User::new();
    let session = user.session();
    let said = haft_sandbox::describe_process_limits();
    if said.starts_with("a command has at most 4096 processes") {
        assert_eq!(session.good("cat /proc/sys/kernel/pid_max").await, "4096\n");
    }
    // bubblewrap shows a command its own control group as the root of all.
    let shows_group = std::env::var_os(haft_sandbox::testing::MAKER).is_none();
    if shows_group && rustix::process::geteuid().is_root() && !said.contains("no control group") {
        let groups = session.good("cat /proc/self/cgroup").await;
        assert!(groups.contains(&format!("/haft-{}-", std::process::id())), "{said}: {groups}");
    }
    assert!(said.contains("processes"), "{said}");
}

/// What commands of any workspace have downloaded, and what was kept of git's configuration, is nobody else's
/// business.
#[tokio::test]
async fn folders_of_the_state_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = User::new();
    let caches = user.at("state/caches");
    let check = |when: &str| {
        let mut folders = vec![caches.clone()];
        folders.extend(fs::read_dir(&caches).unwrap().map(|entry| entry.unwrap().path()));
        assert!(folders.len() > 3, "{when}: {folders:?}");
        for folder in folders.iter().filter(|folder| folder.is_dir()) {
            let mode = fs::metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{when}: {}", folder.display());
        }
    };
    user.session().good("true").await;
    check("made");
    for entry in fs::read_dir(&caches).unwrap().map(|entry| entry.unwrap().path()).chain([caches.clone()]) {
        fs::set_permissions(entry, fs::Permissions::from_mode(0o755)).unwrap();
    }
    user.session().good("true").await;
    check("made by an earlier version");
}

#[tokio::test]
async fn caches_keep_what_commands_add_and_the_users_stay_as_they_are() {
    let user = User::new();
    let session = user.session();
    session.good("cat ~/.npm/_cacache/cached && echo new > ~/.npm/_cacache/new && echo changed > ~/.npm/_cacache/cached && echo 1 > ~/.ccache/x").await;
    assert_eq!(
        session.good("cat ~/.npm/_cacache/new ~/.npm/_cacache/cached ~/.ccache/x").await,
        "new\nchanged\n1\n"
    );
    let (_, said, _) = session
        .run(session.request("cat ~/.npm/_cacache/cached").with_confinement(ConfinementLevel::ReadOnly))
        .await;
    assert_eq!(said, "changed\n");
    drop(session);
    assert_eq!(user.session().good("cat ~/.npm/_cacache/new").await, "new\n");
    assert_eq!(fs::read_to_string(user.at("home/.npm/_cacache/cached")).unwrap(), "cached");
    assert!(!user.at("home/.npm/_cacache/new").exists() && !user.at("home/.ccache").exists());
}

#[tokio::test]
async fn denied_files_cannot_be_read() {
    let mut user = User::new();
    fs::create_dir(user.at("work/sub")).unwrap();
    fs::write(user.at("work/sub/.env"), "SECRET").unwrap();
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.unreadable = Some(HiddenPaths::new(|path| path.ends_with(".env")))
    });
    let session = user.session();
    for attempt in [
        "cat sub/.env",
        "mv sub sub2 && cat sub2/.env",
        "cp -r sub /tmp/copy",
        "ln sub/.env hard && cat hard",
    ] {
        session.bad(attempt).await;
    }
    session.good("grep -r read README").await;
    // Nor by another name in a later command: what hides it lies over its path.
    fs::create_dir_all(user.at("work/deep/er")).unwrap();
    fs::write(user.at("work/deep/er/.env"), "SECRET").unwrap();
    let session = user.session();
    for (renames, reads) in [("mv sub sub2", "cat sub2/.env"), ("mv deep deep2", "cat deep2/er/.env")] {
        session.bad(renames).await;
        session.bad(reads).await;
    }
    session.good("touch deep/er/new sub/new && rm deep/er/new sub/new").await;
}

/// What rules deny to write is held where it can be foretold, also what isn't there yet; the rest is told.
#[tokio::test]
async fn what_rules_deny_is_not_made_either() {
    let mut user = User::new();
    fs::create_dir_all(user.at("work/sub/db/in")).unwrap();
    fs::write(user.at("work/sub/db/old"), "old").unwrap();
    let below = |path: &Path| path.ancestors().skip(1).any(|above| above.ends_with("db"));
    user.config.rules = with_restrictions(&user.config.rules, |rules| {
        rules.unwritable = Some(HiddenPaths::new(move |path| {
            below(path) || path.extension().is_some_and(|end| end == "key")
        }))
    });
    // As a rule names it.
    user.config.rules =
        with_restrictions(&user.config.rules, |rules| rules.unwritable_paths.push(user.at("work/db")));
    let session = user.session();
    for attempt in ["echo n > sub/db/new", "echo n > sub/db/in/new", "rm sub/db/old", "mv sub other"] {
        session.bad(attempt).await;
    }
    let (_, said, refused) = session.run(session.request("mkdir db")).await;
    assert!(format!("{refused:?}").contains("work/db") && !user.at("work/db").exists(), "{said} {refused:?}");
    let (exit, said, refused) = session.run(session.request("echo n > a.key; echo n > plain")).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert!(
        matches!(&*refused, [ConfinementRefusal::Protected { path, done }] if path.ends_with("a.key") && done.contains("rule")),
        "{refused:?}"
    );
    // Once, and not what the user makes.
    fs::write(user.at("work/b.key"), "mine").unwrap();
    session.good("echo n > plain").await;
}

/// The folder of a working directory that was added in another one can't be renamed: its names would be
/// others.
#[tokio::test]
async fn a_working_directory_in_another_stays_where_it_is() {
    let mut user = User::new();
    fs::create_dir_all(user.at("work/deep/inner")).unwrap();
    user.config.workspace.push(user.at("work/deep/inner"));
    let session = user.session();
    session.bad("mv deep deep2").await;
    session.good("touch deep/inner/new").await;
}

#[tokio::test]
async fn a_grant_reaches_what_it_names() {
    let user = User::new();
    let session = user.session();
    let grant = |script: &str, access: GrantedAccess| session.request(script).with_access(access, Vec::new());
    let read =
        || GrantedAccess { read: vec![GrantedRoot::subtree(user.at("other"))], ..GrantedAccess::default() };
    let (exit, said, _) = session.run(grant("cat ../other/file", read())).await;
    assert_eq!((exit, said.as_str()), (ProcessExit::Code(0), "other"));
    let (exit, ..) = session.run(grant("echo x > ../other/file", read())).await;
    assert_eq!(exit, ProcessExit::Code(1));
    let write =
        GrantedAccess { write: vec![GrantedRoot::file(user.at("other/new"))], ..GrantedAccess::default() };
    let (exit, said, _) = session.run(grant("echo new > ../other/new", write)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert_eq!(fs::read_to_string(user.at("other/new")).unwrap(), "new\n");
    session.bad("cat ../other/new").await;
}

#[tokio::test]
async fn a_worktree_commits_to_its_repository() {
    let mut user = User::new();
    git(&user.at("work"), &["worktree", "add", "-q", "../tree"]);
    user.config.workspace = vec![user.at("tree")];
    let session = user.session();
    let at = |script: &str| {
        let mut request = session.request(script);
        request.cwd = user.at("tree");
        request
    };
    let (exit, said, _) =
        session.run(at("echo 1 > new && git add -A && git commit -qm tree && git status --short")).await;
    assert_eq!((exit, said.as_str()), (ProcessExit::Code(0), ""));
    for attempt in [
        "git config core.pager evil",
        "echo evil > ../work/.git/hooks/pre-commit",
        "echo 'gitdir: /x' > .git",
        "cat ../work/README",
    ] {
        let (exit, said, _) = session.run(at(attempt)).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{attempt}` ended with {exit:?}: {said}"
        );
    }
}

#[tokio::test]
async fn a_workspace_in_the_temporary_folder_of_the_host_works() {
    let user = User::in_folder("/tmp");
    let session = user.session();
    session.good("echo 1 > new && git add -A && git commit -qm two && echo 2 > /tmp/mine").await;
    assert_eq!(session.good("cat /tmp/mine $TMPDIR/mine").await, "2\n2\n");
    assert!(user.at("work/new").exists() && user.at("state/tmp/mine").exists());
    let top = user.root.display();
    session.bad(&format!("mv {top} /tmp/elsewhere")).await;
    session.good("cat README").await;
}

#[tokio::test]
async fn working_in_the_home_folder_reads_it_and_hides_its_secrets() {
    let mut user = User::new();
    user.config.workspace = vec![user.at("home")];
    let session = user.session();
    assert_eq!(session.sandbox.notes().len(), 1, "{:?}", session.sandbox.notes());
    let at = |script: &str| {
        let mut request = session.request(script);
        request.cwd = user.at("home");
        request
    };
    let (exit, said, _) =
        session.run(at("~/.local/bin/greet || sh ~/.local/bin/greet; git config user.name")).await;
    assert!(exit == ProcessExit::Code(0) && said.ends_with("hello\nMe\n"), "{exit:?} {said}");
    for attempt in
        ["cat .ssh/id_ed25519", "cat .netrc", "grep helper .gitconfig", "echo evil > .bashrc", "mkdir .haft"]
    {
        let (exit, said, _) = session.run(at(attempt)).await;
        assert!(
            matches!(exit, ProcessExit::Code(code) if code != 0),
            "`{attempt}` ended with {exit:?}: {said}"
        );
        assert!(!said.contains("SECRET"), "{said}");
    }
    assert!(!user.at("home/.bashrc").exists());
}

/// The tool chains of whoever runs the tests, in a workspace of their own.
fn real_user() -> User {
    let mut user = User::new();
    user.config.home = std::env::home_dir();
    user
}

/// What works outside works in the sandbox; what doesn't work outside can't be asked for inside.
async fn assert_works_as_outside(script: &str) {
    let user = real_user();
    let session = user.session();
    let script = format!("export npm_config_update_notifier=false CARGO_TARGET_DIR=target; {script}");
    let outside = user.at("outside");
    fs::create_dir(&outside).unwrap();
    let done = Command::new("bash").args(["-c", &script]).current_dir(&outside).output().unwrap();
    if !done.status.success() {
        return skipped(&format!("it doesn't work here: {}", String::from_utf8_lossy(&done.stderr)));
    }
    session.good(&script).await;
}

#[tokio::test]
async fn tool_chain_of_c_works_as_outside() {
    assert_works_as_outside(
        "printf '#include <stdio.h>\\nint main(void) { puts(\"hi\"); }' > a.c && cc -O1 a.c -o a && ./a",
    )
    .await;
}

#[tokio::test]
async fn tool_chain_of_rust_works_as_outside() {
    assert_works_as_outside(
        "cargo init -q --vcs none --name one one && cd one && cargo build -q --offline && target/debug/one",
    )
    .await;
}

#[tokio::test]
async fn tool_chain_of_rust_with_a_dependency_works_as_outside() {
    assert_works_as_outside(
        "cargo init -q --vcs none --name two two && cd two && cargo add -q --offline itoa && cargo build -q --offline",
    )
    .await;
}

#[tokio::test]
async fn tool_chain_of_python_works_as_outside() {
    assert_works_as_outside(
        "python3 -m venv --without-pip .venv && .venv/bin/python -c 'import json, ssl, sqlite3'",
    )
    .await;
}

#[tokio::test]
async fn tool_chain_of_node_works_as_outside() {
    assert_works_as_outside(
        "npm --version && echo '{\"scripts\": {\"test\": \"node -p 6*7\"}}' > package.json && npm test",
    )
    .await;
}

#[tokio::test]
async fn git_works_as_outside() {
    assert_works_as_outside(
        "git init -q r && cd r && git commit -q --allow-empty -m one && git gc -q && git log --format=%s",
    )
    .await;
}

#[tokio::test]
async fn commands_side_by_side_share_a_cache() {
    let user = User::new();
    let session = user.session();
    // Each waits for what the other writes, so they do run at once.
    let script = |mine: &str, other: &str| {
        let wait = format!("until test -e {other}; do :; done");
        session.request(&format!(
            "cat ~/.npm/_cacache/cached && echo 1 > ~/.npm/_cacache/{mine} && touch {mine} && {wait} && ls ~/.npm/_cacache"
        ))
    };
    let (one, two) = tokio::join!(session.run(script("one", "two")), session.run(script("two", "one")));
    assert_eq!((one.0, two.0), (ProcessExit::Code(0), ProcessExit::Code(0)), "{} {}", one.1, two.1);
    // One after the other too, however often: no sandbox that was made ahead of time gets in the way.
    for number in 0..5 {
        session.good(&format!("echo 1 > ~/.npm/_cacache/{number}")).await;
    }
    assert_eq!(session.good("ls ~/.npm/_cacache").await, "0\n1\n2\n3\n4\ncached\none\ntwo\n");
}
