//! Folders that are repositories by the names in them, without any `.git`: git obeys what else is there, in the folder and
//! everywhere below.
//!
//! Each attempt has its control: outside of the sandbox the user's next git there runs the program.

use std::fs;
use std::path::Path;
use std::process::Command;

use haft::ports::{Background, Exit, Processes as _};

use crate::profile::{GIT_TEMPLATE, User, configuration, git};
use crate::until;

/// Makes a repository of the folder `$1` by hand; `$2` is the folder in which the user has files.
const BY_HAND: &str = "by_hand() { mkdir -p $1/refs $1/objects && echo ref: refs/heads/main > $1/HEAD && PROGRAMS > $1/config; }";

/// What the user does: git in a folder and below it, at a terminal and not. Whether that ran something.
fn enter(user: &User, folder: &str) -> bool {
    let folder = user.at(folder);
    fs::create_dir_all(folder.join("below")).unwrap();
    for place in [folder.clone(), folder.join("below")] {
        let pty = "import pty, sys; pty.spawn(['git', 'branch', '-a'])";
        for (program, arguments) in
            [("git", &["status"][..]), ("git", &["st"]), ("git", &["diff"]), ("python3", &["-c", pty])]
        {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&place).env("HOME", user.at("home")).env("TERM", "xterm");
            command.env_remove("GIT_PAGER").env_remove("PAGER").output().unwrap();
            if user.at("ran").exists() {
                return true;
            }
        }
    }
    false
}

fn with_words(user: &User, script: &str) -> String {
    let ran = user.at("ran").display().to_string();
    let programs = format!(
        "printf '[core]\\n\\tpager = touch {ran}; cat\\n\\tfsmonitor = touch {ran}; false\\n[alias]\\n\\tst = !touch {ran}\\n'"
    );
    format!("{BY_HAND}; {script}").replace("PROGRAMS", &programs)
}

fn outside(user: &User, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-ec", &with_words(user, script)]).current_dir(user.at("work"));
    let done = command.env("GIT_TEMPLATE_DIR", GIT_TEMPLATE).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs scripts one after the other; afterwards the user enters a folder. Returns what was reported.
async fn attempt(prepare: &str, scripts: &[&str], folder: &str) -> String {
    let control = User::unconfined();
    outside(&control, prepare);
    for script in scripts {
        outside(&control, &script.replace("/tmp/", &format!("{}/", control.at("work").display())));
    }
    let there = if folder.starts_with("state") { "work/x" } else { folder };
    assert!(enter(&control, there), "{scripts:?}: the attack doesn't even work outside");

    let user = User::new();
    outside(&user, prepare);
    let session = user.session();
    let mut reported = String::new();
    for script in scripts {
        let request = session.request(&with_words(&user, script)).with_protection(configuration());
        let (_, said, refused) = session.run(request).await;
        reported.push_str(&format!("{said} {refused:?}"));
    }
    assert!(!enter(&user, folder), "{scripts:?}: {reported}");
    assert!(
        ["Protected", "Read-only", "busy"].iter().any(|word| reported.contains(word)),
        "{scripts:?}: {reported}"
    );
    reported
}

#[tokio::test]
async fn a_folder_that_a_command_makes_a_repository_by_hand_runs_nothing() {
    for (script, folder) in [
        ("by_hand sub", "work/sub"),
        ("by_hand a/b/c/d/e", "work/a/b/c/d/e"),
        (
            "mkdir sub; cd sub; touch objects refs; chmod +x objects refs; echo ref: refs/heads/x > HEAD; PROGRAMS > config",
            "work/sub",
        ),
        ("by_hand sub; ln -sf refs/heads/none sub/HEAD", "work/sub"),
        ("by_hand sub; mkdir -p sub/objects/in; cd sub/objects; by_hand in", "work/sub/objects/in"),
    ] {
        attempt("", &[script], folder).await;
    }
}

#[tokio::test]
async fn a_repository_whose_configuration_changes_runs_nothing() {
    for (script, folder) in [
        ("by_hand sub; printf '[core]\\n\\tbare = true\\n' >> sub/config", "work/sub"),
        ("git init -q --bare sub.git; PROGRAMS >> sub.git/config", "work/sub.git"),
        ("by_hand sub; chmod 555 sub", "work/sub"),
        ("by_hand sub; mv sub other; mv other sub", "work/sub"),
        ("by_hand sub; cp sub/config keep; rm sub/config; ln keep sub/config", "work/sub"),
        (
            "mkdir -p sub o/refs o/objects; echo ref: refs/heads/x | tee o/HEAD > sub/HEAD; echo ../o > sub/commondir; \
             printf '[core]\\nrepositoryformatversion = 1\\n[extensions]\\nworktreeConfig = true\\n' > o/config; \
             PROGRAMS > sub/config.worktree; printf '[core]\\nbare = false\\nworktree = %s\\n' $PWD/sub >> sub/config.worktree",
            "work/sub",
        ),
    ] {
        attempt("", &[script], folder).await;
    }
}

#[tokio::test]
async fn the_working_directory_becomes_no_repository_that_runs_something() {
    let reported = attempt("rm -rf .git", &["by_hand ."], "work").await;
    assert!(reported.contains("HEAD.undone-"), "it was the user's folder: {reported}");
}

#[tokio::test]
async fn a_repository_in_the_temporary_folder_runs_nothing() {
    attempt("", &["by_hand /tmp/x"], "state/tmp/x").await;
}

#[tokio::test]
async fn one_command_makes_it_and_another_one_fills_it() {
    attempt("", &["git init -q --bare r.git", "PROGRAMS >> r.git/config"], "work/r.git").await;
    attempt(
        "",
        &["mkdir -p r/refs r/objects; PROGRAMS > r/config", "echo ref: refs/heads/x > r/HEAD"],
        "work/r",
    )
    .await;
}

/// The user's folder keeps its files; it only isn't a repository.
#[tokio::test]
async fn a_folder_of_the_user_is_completed_by_no_command() {
    let prepare =
        "mkdir -p data/refs data/objects data/hooks; PROGRAMS > data/config; echo x > data/hooks/update";
    let script = "echo ref: refs/heads/main > data/HEAD";
    attempt(prepare, &[script], "work/data").await;
    let user = User::new();
    outside(&user, prepare);
    let before = fs::read(user.at("work/data/config")).unwrap();
    let session = user.session();
    session.run(session.request(script)).await;
    assert_eq!(fs::read(user.at("work/data/config")).unwrap(), before);
    assert!(user.at("work/data/hooks/update").exists() && !user.at("work/data/HEAD").exists());
}

#[tokio::test]
async fn a_bare_repository_of_the_user_stays_as_it_is() {
    let prepare = "git init -q --bare mine.git; echo mine > mine.git/notes";
    for script in [
        "PROGRAMS >> mine.git/config",
        "PROGRAMS > mine.git/new; mv -f mine.git/new mine.git/config",
        "git -C mine.git config core.pager \"touch $PWD/../ran; cat\"",
    ] {
        attempt(prepare, &[script], "work/mine.git").await;
    }
    let user = User::new();
    outside(&user, prepare);
    let session = user.session();
    let script = "mkdir -p mine.git/hooks; echo exit > mine.git/hooks/update; echo /none > mine.git/commondir; echo x > mine.git/notes";
    let (_, said, refused) = session.run(session.request(script)).await;
    let hook = user.at("work/mine.git/hooks/update");
    assert!(!hook.exists() && !user.at("work/mine.git/commondir").exists(), "{said} {refused:?}");
    assert_eq!(
        fs::read_to_string(user.at("work/mine.git/notes")).unwrap(),
        "x\n",
        "files beside are plain work"
    );
}

/// A hook that a push runs.
#[tokio::test]
async fn a_push_runs_no_hook_of_a_command() {
    let script = "git init -q --bare r.git; printf '#!/bin/sh\\ntouch RAN\\n' > r.git/hooks/update; chmod +x r.git/hooks/update";
    let push = |user: &User| {
        git(&user.at("work"), &["push", "-q", "./r.git", "HEAD:refs/heads/x"]);
        user.at("ran").exists()
    };
    let with_ran = |user: &User| script.replace("RAN", &user.at("ran").display().to_string());
    let control = User::unconfined();
    outside(&control, &with_ran(&control));
    assert!(push(&control), "the attack doesn't even work outside");
    let user = User::new();
    let session = user.session();
    let (exit, said, refused) = session.run(session.request(&with_ran(&user))).await;
    assert_eq!(exit, Exit::Code(0), "{said}");
    assert!(format!("{refused:?}").contains("hooks/update") && !push(&user), "{refused:?}");
}

/// What a command has made is looked at when it moves to the background, and before a program outside is started.
#[tokio::test]
async fn a_command_in_the_background_is_looked_at_too() {
    let user = User::new();
    let session = user.session();
    let script = with_words(
        &user,
        "by_hand one; touch made; until test -e go; do sleep 0.01; done; by_hand two; touch again; \
         until test -e stop; do sleep 0.01; done",
    );
    let background = Background::default();
    let request = session.request(&script).with_background(background.clone());
    let work = user.at("work");
    let is_poisoned = |work: &Path, name: &str| {
        fs::read_to_string(work.join(name).join("config")).is_ok_and(|text| text.contains("pager"))
    };
    let meanwhile = async {
        let at = work.clone();
        let moved = tokio::task::spawn_blocking(move || {
            until("it made one", || at.join("made").exists());
            assert!(is_poisoned(&at, "one"), "the control");
            background.begin();
            until("one is harmless", || !is_poisoned(&at, "one") || !at.join("one/HEAD").exists());
            fs::write(at.join("go"), "").unwrap();
            until("it made another one", || at.join("again").exists());
        });
        moved.await.unwrap();
        let own = haft::ports::ProcessRequest::new(["git", "--version"], &work)
            .with_confinement(haft::ports::Confinement::Outside);
        session.sandbox.run(own).await.unwrap();
        let harmless = !is_poisoned(&work, "two") || !work.join("two/HEAD").exists();
        fs::write(work.join("stop"), "").unwrap();
        harmless
    };
    let (outcome, harmless) = tokio::join!(session.sandbox.run(request), meanwhile);
    assert!(harmless, "{:?}", outcome.unwrap().refused);
}

/// Whoever comes after a killed session finds what it has left.
#[tokio::test]
async fn what_a_killed_session_left_runs_nothing() {
    let user = User::new();
    outside(&user, "git init -q --bare mine.git; PROGRAMS >> mine.git/config");
    let mine = fs::read(user.at("work/mine.git/config")).unwrap();
    let session = user.session();
    session.good("ls").await;
    let records = user.at("state/caches/git-configs");
    let all = fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<_> =
        all.filter(|path| !path.ends_with("lock")).map(|path| fs::read(path).unwrap()).collect();
    drop(session);
    for (number, record) in left.into_iter().enumerate() {
        fs::write(records.join(format!("left-{number}")), record).unwrap();
    }
    outside(&user, "by_hand a/b; git init -q --bare fine.git; echo /none > mine.git/commondir");
    let session = user.session();
    let notes = session.sandbox.notes().join("\n");
    assert!(!user.at("work/a/b/HEAD").exists() && notes.contains("a/b/HEAD"), "{notes}");
    assert!(user.at("work/fine.git/HEAD").exists() && !notes.contains("fine.git"), "{notes}");
    assert!(!user.at("work/mine.git/commondir").exists(), "{notes}");
    assert_eq!(fs::read(user.at("work/mine.git/config")).unwrap(), mine, "the user's own: {notes}");
}

/// The control of all this: what test suites and people do with bare repositories works.
#[tokio::test]
async fn honest_bare_repositories_work() {
    let user = User::new();
    let session = user.session();
    let push = "git init -q --bare remote.git && git push -q ./remote.git HEAD:refs/heads/main && git clone -q --mirror . m.git";
    session.good(push).await;
    session.good("git -C remote.git log --format=%s main && git clone -q remote.git copy").await;
    session.good("git init -q --bare /tmp/r.git && git push -q /tmp/r.git HEAD:refs/heads/x").await;
    session.good("git --git-dir=/tmp/r.git log --format=%s x && rm -rf remote.git m.git /tmp/r.git").await;
    session
        .good("mkdir -p assets/objects assets/refs && touch assets/HEAD assets/config.txt && rm -r assets")
        .await;
    outside(&user, "git init -q --bare mine.git");
    session.good("git push -q ./mine.git HEAD:refs/heads/main && git -C mine.git log --format=%s main").await;
}
