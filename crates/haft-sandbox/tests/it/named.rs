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
    let user = User::new();
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

/// Whether it is there when the session begins or not, in whatever word, and whoever names it.
#[tokio::test]
async fn what_a_configuration_names_is_made_and_changed_by_no_command() {
    const PROGRAM: &str = "printf '#!/bin/sh\\ntouch MARK\\n' > $f && chmod +x $f";
    let attack =
        |files: &str| format!("mkdir -p .githooks tools deep/er; for f in {files}; do {PROGRAM}; done; true");
    let python = "mkdir -p tools; echo 'open(\"MARK\", \"w\")' > tools/f.py; true";
    let include = "printf '[core]\\nfsmonitor = touch MARK; false\\n' > .gitlocal; true";
    let linked = "mkdir other; printf '#!/bin/sh\\ntouch MARK\\n' > other/fsm; chmod +x other/fsm; ln -s other late; true";
    type Prepare = fn(&User);
    let cases: [(&str, Prepare, String); 10] = [
        ("include", |user| set(&user.at("work"), "include.path", "../.gitlocal"), include.into()),
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
            "a later word",
            |user| {
                fs::create_dir(user.at("work/tools")).unwrap();
                fs::write(user.at("work/tools/f.py"), "pass").unwrap();
                set(&user.at("work"), "core.fsmonitor", "python3 tools/f.py");
            },
            python.into(),
        ),
        (
            "a later word that isn't there",
            |user| set(&user.at("work"), "core.fsmonitor", "python3 tools/f.py"),
            python.into(),
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
            linked.into(),
        ),
        (
            "what an included file names",
            |user| {
                fs::write(user.at("work/.gitlocal"), "[core]\nfsmonitor = tools/fsm\n").unwrap();
                set(&user.at("work"), "include.path", "../.gitlocal");
            },
            attack("tools/fsm"),
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
    for (what, prepare, attack) in cases {
        assert!(ran_outside(prepare, &attack), "{what}: the attack doesn't even work outside");
        assert!(!ran(prepare, &attack).await, "{what}");
    }
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
