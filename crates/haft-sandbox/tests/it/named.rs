//! What configuration of git names, and a configuration that a killed session leaves behind.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::profile::{User, git};

/// What the user's own git runs, with their own settings.
fn outside(user: &User, args: &[&str]) {
    let mut git = Command::new("git");
    git.arg("-C").arg(user.at("work")).args(args).env("HOME", user.at("home"));
    git.env_remove("XDG_CONFIG_HOME").output().unwrap();
}

/// A user whose git is set up, and two commands that put a program wherever it may be looked for; then what git of the
/// user does. Says whether the program ran.
async fn ran(prepare: impl Fn(&User), attack: &str) -> bool {
    let user = User::new();
    prepare(&user);
    let mark = user.at("ran");
    let attack = attack.replace("MARK", mark.to_str().unwrap());
    let session = user.session();
    for _ in 0..2 {
        session.run(session.request(&attack)).await;
    }
    drop(session);
    outside(&user, &["status"]);
    outside(&user, &["commit", "-q", "--allow-empty", "-m", "x"]);
    mark.exists()
}

/// The same, with nothing that holds the command.
fn ran_outside(prepare: impl Fn(&User), attack: &str) -> bool {
    let user = User::unconfined();
    prepare(&user);
    let mark = user.at("ran");
    let attack = attack.replace("MARK", mark.to_str().unwrap());
    assert!(
        Command::new("bash").args(["-c", &attack]).current_dir(user.at("work")).status().unwrap().success()
    );
    outside(&user, &["status"]);
    outside(&user, &["commit", "-q", "--allow-empty", "-m", "x"]);
    mark.exists()
}

fn set(work: &Path, key: &str, value: &str) {
    git(work, &["config", key, value]);
}

const PROGRAM: &str = "printf '#!/bin/sh\\ntouch MARK\\n' > $f && chmod +x $f";
const PYTHON: &str = "mkdir -p tools; echo 'open(\"MARK\", \"w\")' > tools/f.py; true";
const INCLUDED: &str = "printf '[core]\\nfsmonitor = touch MARK; false\\n' > .gitlocal; true";
const LINKED: &str =
    "mkdir other; printf '#!/bin/sh\\ntouch MARK\\n' > other/fsm; chmod +x other/fsm; ln -s other late; true";

/// A command that puts a program at each of these paths.
fn attack(files: &str) -> String {
    format!("mkdir -p .githooks tools deep/er; for f in {files}; do {PROGRAM}; done; true")
}

/// What the configuration names, how the user sets it up, and what the command does.
type Case = (&'static str, fn(&User), String);

async fn assert_nothing_named_runs(cases: impl IntoIterator<Item = Case>) {
    for (what, prepare, attack) in cases {
        assert!(ran_outside(prepare, &attack), "{what}: the attack doesn't even work outside");
        assert!(!ran(prepare, &attack).await, "{what}");
    }
}

/// Included files, and what they name.
#[tokio::test]
async fn what_a_configuration_includes_is_made_and_changed_by_no_command() {
    let cases: [Case; 2] = [
        ("include", |user| set(&user.at("work"), "include.path", "../.gitlocal"), INCLUDED.into()),
        (
            "what an included file names",
            |user| {
                fs::write(user.at("work/.gitlocal"), "[core]\nfsmonitor = tools/fsm\n").unwrap();
                set(&user.at("work"), "include.path", "../.gitlocal");
            },
            attack("tools/fsm"),
        ),
    ];
    assert_nothing_named_runs(cases).await;
}

/// Whether the folder is there when the session begins or not, and whoever names it.
#[tokio::test]
async fn hooks_that_a_configuration_names_are_made_and_changed_by_no_command() {
    let cases: [Case; 4] = [
        (
            "hooks",
            |user| set(&user.at("work"), "core.hooksPath", ".githooks"),
            attack(".githooks/pre-commit"),
        ),
        (
            "hooks in a folder that isn't there",
            |user| set(&user.at("work"), "core.hooksPath", "deep/er/hk"),
            format!("mkdir -p deep/er/hk; {}", attack("deep/er/hk/pre-commit")),
        ),
        (
            "the user's own, not there",
            |user| {
                fs::write(
                    user.at("home/.gitconfig"),
                    "[user]\nname = a\nemail = a@b\n[core]\nhooksPath = .githooks\n",
                )
                .unwrap();
            },
            attack(".githooks/pre-commit"),
        ),
        (
            "the user's own, there",
            |user| {
                fs::create_dir_all(user.at("work/.githooks")).unwrap();
                fs::create_dir_all(user.at("home/.config/git")).unwrap();
                fs::write(user.at("home/.config/git/config"), "[core]\nhooksPath = .githooks\n").unwrap();
            },
            attack(".githooks/pre-commit"),
        ),
    ];
    assert_nothing_named_runs(cases).await;
}

/// Whether the program is there when the session begins or not, in whatever word.
#[tokio::test]
async fn programs_that_a_configuration_names_are_made_and_changed_by_no_command() {
    let cases: [Case; 4] = [
        (
            "a later word",
            |user| {
                fs::create_dir(user.at("work/tools")).unwrap();
                fs::write(user.at("work/tools/f.py"), "pass").unwrap();
                set(&user.at("work"), "core.fsmonitor", "python3 tools/f.py");
            },
            PYTHON.into(),
        ),
        (
            "a later word that isn't there",
            |user| set(&user.at("work"), "core.fsmonitor", "python3 tools/f.py"),
            PYTHON.into(),
        ),
        (
            "a program",
            |user| {
                fs::create_dir(user.at("work/tools")).unwrap();
                set(&user.at("work"), "core.fsmonitor", "tools/fsm");
            },
            attack("tools/fsm"),
        ),
        (
            "a link that leads there",
            |user| set(&user.at("work"), "core.fsmonitor", "late/fsm"),
            LINKED.into(),
        ),
    ];
    assert_nothing_named_runs(cases).await;
}

/// What is put aside is told, and nothing is left of what stood in.
#[tokio::test]
async fn what_was_made_is_put_aside_and_told() {
    let user = User::new();
    set(&user.at("work"), "include.path", "../.gitlocal");
    set(&user.at("work"), "core.hooksPath", ".githooks");
    let session = user.session();
    let (_, said, refused) = session.run(session.request("echo x > .gitlocal; git status --short")).await;
    assert!(said.is_empty() || said.contains(".gitlocal"), "{said}");
    let told = format!("{refused:?}");
    assert!(told.contains(".gitlocal.undone-"), "{told}");
    session.bad("echo x > .githooks/pre-commit").await;
    session.good("git commit -q --allow-empty -m more").await;
    drop(session);
    assert!(!user.at("work/.githooks").exists() && !user.at("work/.gitlocal").exists());
}
