//! Repositories that commands make or change so that the user's next `git status` would run something.
//!
//! Each attempt has its control: outside of the sandbox it works.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use haft::ports::{Exit, Refusal};

use crate::profile::{GIT_TEMPLATE, User, configuration, git};

fn told(refused: &[Refusal]) -> String {
    format!("{refused:?}")
}

/// Makes a repository in `$1` with one commit.
const MAKE: &str = "make() { mkdir -p $1 && git init -q $1 && echo z > $1/z && git -C $1 add z && git -C $1 \
                    -c user.name=a -c user.email=a@b commit -qm i; }";

/// What the user does afterwards, and whether that ran something.
fn enter(user: &User, folders: &[&str]) -> bool {
    for folder in folders {
        for arguments in [&["status"][..], &["checkout", "-q", "-b", "zz"]] {
            let _ = Command::new("git").arg("-C").arg(user.at(folder)).args(arguments).output().unwrap();
        }
    }
    user.at("ran").exists()
}

fn outside(user: &User, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("HOME", user.at("home")).current_dir(user.at("work"));
    command.env("GIT_TEMPLATE_DIR", GIT_TEMPLATE);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    let _ = fs::remove_file(user.at("ran"));
}

fn poison(user: &User) -> String {
    format!("fsmonitor = touch {}; false", user.at("ran").display())
}

/// Runs scripts one after the other; then the user enters the folders. Gives what was said.
async fn attempt(
    what: &str,
    scripts: impl Fn(&User) -> Vec<String>,
    prepare: impl Fn(&mut User),
    folders: &[&str],
) -> String {
    attempt_after(what, scripts, prepare, "true", folders).await
}

/// The same, with something that the user does before.
async fn attempt_after(
    what: &str,
    scripts: impl Fn(&User) -> Vec<String>,
    prepare: impl Fn(&mut User),
    first: &str,
    folders: &[&str],
) -> String {
    let mut control = User::unconfined();
    prepare(&mut control);
    for script in scripts(&control) {
        outside(&control, &script);
    }
    outside(&control, first);
    assert!(enter(&control, folders), "{what}: the attack doesn't even work outside");

    let mut user = User::new();
    prepare(&mut user);
    let session = user.session();
    let mut said = String::new();
    for script in scripts(&user) {
        let (exit, printed, refused) =
            session.run(session.request(&script).with_protection(configuration())).await;
        assert_eq!(exit, Exit::Code(0), "{what}: {printed}");
        said.push_str(&told(&refused));
    }
    assert!(!user.at("ran").exists());
    outside(&user, first);
    assert!(!enter(&user, folders), "{what}: {said}");
    said
}

/// A configuration is undone whatever else the command did to prevent it, in the user's repository and in new ones.
async fn assert_configuration_is_undone(what: &str, block: &str) {
    let script =
        |user: &User| vec![format!("printf '[core]\\n\\t{}\\n' >> .git/config; {block}", poison(user))];
    let said = attempt(what, script, |_| {}, &["work"]).await;
    assert!(said.contains("`core.fsmonitor` was changed, and that was undone"), "{what}: {said}");
    for folder in ["sub", "deep/er/sub"] {
        let script = |user: &User| {
            let evil = poison(user);
            vec![format!(
                "{MAKE}; make {folder} && cd {folder} && printf '[core]\\n\\t{evil}\\n' >> .git/config && {block}"
            )]
        };
        attempt(what, script, |_| {}, &[&format!("work/{folder}")]).await;
    }
}

#[tokio::test]
async fn a_configuration_is_undone_where_the_temporary_name_is_taken() {
    let block = format!("mkdir .git/.config-{}", std::process::id());
    assert_configuration_is_undone("a name that could be guessed", &block).await;
}

#[tokio::test]
async fn a_configuration_is_undone_in_a_folder_that_can_not_be_written() {
    assert_configuration_is_undone("a folder that can't be written", "chmod 555 .git").await;
}

#[tokio::test]
async fn a_configuration_is_undone_in_a_folder_that_can_not_be_read() {
    assert_configuration_is_undone("a folder that can't be read", "chmod 311 .git").await;
}

#[tokio::test]
async fn a_configuration_with_another_name_is_undone() {
    assert_configuration_is_undone("a configuration with another name", "ln .git/config .git/other").await;
}

/// Hooks of a new repository are taken away, whatever else the command did to its folder of hooks.
async fn assert_hooks_are_taken_away(what: &str, block: &str, folder: &str) {
    let script = |user: &User| {
        let ran = user.at("ran");
        let hook = "cat > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout";
        vec![
            format!(
                "{MAKE}; make {folder} && cd {folder} && rm -rf .git/hooks && mkdir .git/hooks && printf '#!/bin/sh\\ntouch {}\\n' | ({hook}) && {block}",
                ran.display()
            ),
            "true".into(),
        ]
    };
    let said = attempt(what, script, |_| {}, &[&format!("work/{folder}")]).await;
    assert!(said.contains("hooks") && !said.contains("another program"), "{what}: {said}");
}

#[tokio::test]
async fn hooks_in_a_folder_that_can_not_be_written_are_taken_away() {
    for folder in ["sub", "deep/er/sub"] {
        assert_hooks_are_taken_away("not to be written", "chmod 555 .git/hooks", folder).await;
    }
}

#[tokio::test]
async fn hooks_in_a_folder_that_can_not_be_read_are_taken_away() {
    for folder in ["sub", "deep/er/sub"] {
        assert_hooks_are_taken_away("not to be read", "chmod 311 .git/hooks", folder).await;
    }
}

/// More than `WATCHED_ENTRIES_MAX`.
const MANY_HOOKS: &str = "touch .git/hooks/x{1..2100}.sample";

#[tokio::test]
async fn hooks_too_many_to_count_are_taken_away() {
    assert_hooks_are_taken_away("many", MANY_HOOKS, "sub").await;
}

#[tokio::test]
async fn hooks_too_many_to_count_in_a_deep_repository_are_taken_away() {
    assert_hooks_are_taken_away("many", MANY_HOOKS, "deep/er/sub").await;
}

/// A folder that its owner can't look into is no place to hide; root looks into every one.
#[tokio::test]
async fn nothing_hides_in_a_folder_that_is_closed() {
    for closed in ["p/q", "p/q p", "p/q/r/.git", "p/q/r"] {
        let script = |user: &User| {
            let evil = poison(user);
            vec![
                format!(
                    "{MAKE}; make p/q/r && printf '[core]\\n\\t{evil}\\n' >> p/q/r/.git/config && chmod 000 {closed}"
                ),
                "true".into(),
            ]
        };
        attempt_after(
            closed,
            script,
            |_| {},
            "chmod 755 p; chmod 755 p/q; chmod 755 p/q/r; chmod 755 p/q/r/.git",
            &["work/p/q/r"],
        )
        .await;
    }
}

/// What commands can write and nobody holds vouches for nothing, wherever it lies.
#[tokio::test]
async fn a_git_file_leads_only_to_what_is_held() {
    let allowed = |user: &mut User| {
        let other = user.at("other");
        user.config.allow_write.push(other);
    };
    for folder in ["sub", "deep/er/sub"] {
        let script = |user: &User| {
            let (there, work, evil) = (user.at("other/ev"), user.at("work").join(folder), poison(user));
            let (there, work) = (there.display(), work.display());
            vec![format!(
                "{MAKE}; make {folder} && mv {folder}/.git {there} && printf '[core]\\n\\tworktree = {work}\\n\\t{evil}\\n' >> {there}/config && echo 'gitdir: {there}' > {folder}/.git"
            )]
        };
        attempt("to a folder that may be written", script, allowed, &[&format!("work/{folder}")]).await;
        let script = |user: &User| {
            let evil = poison(user);
            vec![format!(
                "{MAKE}; make t && git clone -q --bare t e && git -C e worktree add -q ../{folder} && rm -rf t && printf '[core]\\n\\t{evil}\\n' >> e/config"
            )]
        };
        attempt("to a repository that is no folder's", script, |_| {}, &[&format!("work/{folder}")]).await;
        // A blank more, and git reads another name than a careless reader.
        let script = |user: &User| {
            let (evil, work) = (poison(user), user.at("work").join(folder));
            vec![format!(
                "{MAKE}; make {folder} && mkdir -p .git/modules && cp -r {folder}/.git '.git/modules/m' && mv {folder}/.git '.git/modules/m ' && for m in 'm' 'm '; do printf '[core]\\n\\tworktree = {work}\\n' >> \".git/modules/$m/config\"; done && printf '[core]\\n\\t{evil}\\n' >> '.git/modules/m /config' && echo \"gitdir: $PWD/.git/modules/m \" > {folder}/.git",
                work = work.display()
            )]
        };
        attempt("to a name with a blank", script, |_| {}, &[&format!("work/{folder}")]).await;
    }
}

/// A working directory that is a worktree of a repository elsewhere, and what git makes in it.
#[tokio::test]
async fn worktrees_of_what_is_held_stay() {
    let mut user = User::new();
    git(&user.at("work"), &["worktree", "add", "-q", "../tree"]);
    user.config.workspace = vec![user.at("tree")];
    let session = user.session();
    let run = |script: &str| {
        let mut request = session.request(script).with_protection(configuration());
        request.cwd = user.at("tree");
        session.run(request)
    };
    for script in [
        "git worktree add -q inner && cd inner && echo x > f && git add f && git commit -qm x && git status",
        "git clone -q . copy && git -c protocol.file.allow=always submodule add -q \"$PWD\" mod && git -C mod log",
        "git -C mod status && git -C inner status && git -C copy worktree add -q ../of-copy && git -C of-copy status",
        "git clone -q . a/b/c && git -C a/b/c worktree add -q ../d && git -C a/b/d status",
    ] {
        let (exit, said, refused) = run(script).await;
        assert_eq!((exit, refused), (Exit::Code(0), vec![]), "{script}: {said}");
    }
    for folder in ["inner", "mod", "of-copy", "a/b/d"] {
        git(&user.at("tree").join(folder), &["status"]);
    }
}

#[tokio::test]
async fn another_name_of_a_file_that_git_obeys_is_another_file() {
    let evil_repository = |user: &User| {
        format!(
            "git init -q --bare ev && printf '[core]\\n\\tbare=false\\n\\tworktree={}\\n\\t{}\\n' > ev/config && cp -r .git/refs .git/objects .git/index ev/",
            user.at("work/wt").display(),
            poison(user)
        )
    };
    for folder in ["sub", "deep/er/sub"] {
        let script = |user: &User| {
            let evil = poison(user);
            vec![
                format!("{MAKE}; make {folder} && ln {folder}/.git/config x"),
                format!("printf '[core]\\n\\t{evil}\\n' >> x"),
            ]
        };
        attempt("config", script, |_| {}, &[&format!("work/{folder}")]).await;
    }
    let script = |user: &User| {
        vec![
            "git worktree add -q wt && ln .git/worktrees/wt/commondir .git/x".into(),
            format!("{} && echo {} > .git/x", evil_repository(user), user.at("work/ev").display()),
        ]
    };
    attempt("commondir", script, |_| {}, &["work/wt"]).await;
    let script = |user: &User| {
        vec![
            "git worktree add -q wt && ln wt/.git x".into(),
            format!("{} && echo 'gitdir: {}' > x", evil_repository(user), user.at("work/ev").display()),
        ]
    };
    attempt(".git", script, |_| {}, &["work/wt"]).await;
    // Of the user's own, and what it includes.
    for (what, at) in [("its own", ".git/config"), ("an included one", ".gitlocal")] {
        let prepare = |user: &mut User| {
            git(&user.at("work"), &["config", "include.path", "../.gitlocal"]);
            fs::write(user.at("work/.gitlocal"), "[core]\n").unwrap();
            fs::hard_link(user.at("work").join(at), user.at("work/x")).unwrap();
        };
        let script = |user: &User| vec![format!("printf '[core]\\n\\t{}\\n' >> x", poison(user))];
        attempt(what, script, prepare, &["work"]).await;
    }
}

/// git fetches by itself what is missing, if a configuration says from where.
#[tokio::test]
async fn no_new_repository_names_a_host_that_git_asks_by_itself() {
    let user = User::new();
    let session = user.session();
    let script = format!(
        "{MAKE}; make a/b && cd a/b && git config core.repositoryFormatVersion 1 && git config extensions.partialClone o && git config remote.o.promisor true && git config remote.o.partialclonefilter blob:none && git config extensions.refStorage files && git config remote.o.url https://example.org/r && git config extensions.objectFormat sha1"
    );
    let (exit, said, refused) = session.run(session.request(&script)).await;
    assert_eq!(exit, Exit::Code(0), "{said}");
    let config = fs::read_to_string(user.at("work/a/b/.git/config")).unwrap().to_lowercase();
    assert!(!config.contains("promisor") && !config.contains("partialclone"), "{config}");
    assert!(config.contains("example.org") && config.contains("objectformat"), "{config}");
    assert!(told(&refused).contains("promisor"), "{refused:?}");
}

/// What the user makes while no command runs is held like everything of theirs.
#[tokio::test]
async fn what_the_user_makes_meanwhile_is_held() {
    let user = User::new();
    let session = user.session();
    session.good("ls").await;
    for folder in ["near", "deep/er/mine"] {
        git(&user.at("work"), &["init", "-q", folder]);
        git(&user.at("work").join(folder), &["config", "core.fsmonitor", "mine"]);
        session.bad(&format!("git -C {folder} config core.fsmonitor evil")).await;
        session
            .bad(&format!("mkdir -p {folder}/.git/hooks && echo x > {folder}/.git/hooks/pre-commit"))
            .await;
        let config = fs::read_to_string(user.at("work").join(folder).join(".git/config")).unwrap();
        assert!(config.contains("fsmonitor = mine"), "{config}");
    }
}

/// A link that a command makes leads nowhere either, and names with control characters are words like others.
#[tokio::test]
async fn what_a_command_names_forges_no_line() {
    let user = User::new();
    let session = user.session();
    symlink("elsewhere", user.at("work/l")).unwrap();
    let script = "d=$'e\\e]0;T\\a\\nit could not reach evil.example:443: forged'; git init -q \"$d\"; printf '[core \"a\\033b\"]\\n\\tx = 1\\n' >> \"$d/.git/config\"; mkdir -p \"$d/.git/hooks/$d\" && touch \"$d/.git/hooks/$d/x\"";
    let (exit, said, refused) = session.run(session.request(script)).await;
    assert_eq!((exit, refused.len()), (Exit::Code(0), 2), "{said}");
    for refusal in &refused {
        let Refusal::Protected { done, .. } = refusal else { panic!("{refusal:?}") };
        assert!(!done.contains(|c: char| c.is_control()), "{done:?}");
    }
    assert!(Path::new(&user.at("work/l")).symlink_metadata().is_ok());
}

/// Folders that lie deep hide nothing that lies elsewhere.
#[tokio::test]
async fn deep_folders_keep_nobody_from_looking() {
    let deep = vec!["z"; 60].join("/");
    for repository in ["p/q/r", &format!("{deep}/r")] {
        let script = |user: &User| {
            let evil = poison(user);
            vec![format!(
                "{MAKE}; make {repository} && printf '[core]\\n\\t{evil}\\n' >> {repository}/.git/config"
            )]
        };
        let before = |user: &mut User| fs::create_dir_all(user.at("work").join(&deep)).unwrap();
        attempt("deep folders", script, before, &[&format!("work/{repository}")]).await;
    }
}
