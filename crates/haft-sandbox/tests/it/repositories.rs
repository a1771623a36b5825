//! Repositories that commands make, and sessions side by side in one working directory.

use std::fs;

use haft::ports::{ConfinementRefusal, ProcessExit, Processes as _};

use crate::attack::attack;
use crate::profile::{User, configuration, git};

fn names(refused: &[ConfinementRefusal]) -> String {
    format!("{refused:?}")
}

/// A command can't make us remove or write what it can't.
#[tokio::test]
async fn a_link_in_a_new_repository_leads_nowhere() {
    let user = User::new();
    fs::remove_dir_all(user.at("work/.git")).unwrap();
    let session = user.session();
    let other = user.at("other");
    let script = format!("git init -q && rm -r .git/hooks && ln -s {} .git/hooks", other.display());
    let (exit, said, refused) = session.run(session.request(&script)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert_eq!(fs::read_to_string(user.at("other/file")).unwrap(), "other");
    assert!(names(&refused).contains(".git/hooks"), "{refused:?}");
    assert!(user.at("work/.git/hooks").symlink_metadata().is_err());

    // The same with its configuration, which is then written anew.
    let user = User::new();
    fs::remove_dir_all(user.at("work/.git")).unwrap();
    fs::write(user.at("other/config"), "[core]\nfsmonitor = mine\n").unwrap();
    let session = user.session();
    let other = user.at("other/config");
    let script = format!("git init -q && ln -sf {} .git/config", other.display());
    let (exit, said, _) = session.run(session.request(&script)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    assert_eq!(fs::read_to_string(&other).unwrap(), "[core]\nfsmonitor = mine\n");
    assert!(user.at("work/.git/config").symlink_metadata().is_err());
    // The control: an honest repository stays as git made it.
    fs::remove_dir_all(user.at("work/.git")).unwrap();
    let session = user.session();
    session.good("git init -q && git add README && git commit -qm one").await;
    assert!(user.at("work/.git/config").is_file() && user.at("work/.git/hooks").is_dir());
}

/// `git status` starts itself in submodules, and obeys what it finds there. What was found is held.
#[tokio::test]
async fn a_repository_in_a_repository_runs_nothing() {
    attack(
        r#"
        directly and deep
          in: sub deep/er/sub
          run: make FOLDER && cd FOLDER && poison >> .git/config && cd $OLDPWD && git add FOLDER
          then: git status
          says: core.fsmonitor
          bad: cd FOLDER && git config core.fsmonitor evil
          good: cd FOLDER && echo y > g && git add g && git commit -qm y && git status
        "#,
    )
    .await;
}

/// Whatever the index looks like, and where there is none: whoever enters the folder with git obeys it, too.
#[tokio::test]
async fn a_repository_that_no_plain_index_names_runs_nothing() {
    attack(
        r#"
        then: git status; git -C p/q/c status
        says: Protected
        split
          run: git init -q p/q/c && cd p/q/c && echo x > f && git add f && git commit -qm x && poison >> .git/config && cd $OLDPWD && git update-index --add --cacheinfo 160000,$(git -C p/q/c rev-parse HEAD),p/q/c && git update-index --split-index
        a link
          run: git init -q p/q/c && cd p/q/c && echo x > f && git add f && git commit -qm x && poison >> .git/config && cd $OLDPWD && git update-index --add --cacheinfo 160000,$(git -C p/q/c rev-parse HEAD),p/q/c && mv .git/index idx && ln -s ../idx .git/index
        none
          run: git init -q p/q/c && cd p/q/c && echo x > f && git add f && git commit -qm x && poison >> .git/config && cd $OLDPWD && true
        in the temporary folder
          run: git init -q p/q/c && cd p/q/c && echo x > f && git add f && git commit -qm x && poison >> .git/config && cd $OLDPWD && git update-index --add --cacheinfo 160000,$(git -C p/q/c rev-parse HEAD),p/q/c && t=$(mktemp -d) && mv p/q/c/.git $t/git && echo "gitdir: $t/git" > p/q/c/.git && git config -f $t/git/config core.worktree $PWD/p/q/c
        leads elsewhere
          run: git init -q p/q/c && cd p/q/c && echo x > f && git add f && git commit -qm x && poison >> .git/config && cd $OLDPWD && git update-index --add --cacheinfo 160000,$(git -C p/q/c rev-parse HEAD),p/q/c && mv p/q/c/.git/config evil && mkdir e && mv evil e/config && cp -r p/q/c/.git/HEAD p/q/c/.git/objects p/q/c/.git/refs e && git -C e config core.bare false; echo ../../../../e > p/q/c/.git/commondir
        "#,
    )
    .await;
}

/// One that isn't held is looked at again when it has changed, and what the user does to it stays.
#[tokio::test]
async fn a_deep_repository_is_looked_at_again() {
    let user = User::new();
    let session = user.session();
    session.good("git init -q a/b/c").await;
    let (_, said, refused) = session
        .run(session.request("cd a/b/c && git config core.fsmonitor x && echo x > .git/hooks/pre-commit"))
        .await;
    assert!(names(&refused).contains("core.fsmonitor") && names(&refused).contains("pre-commit"), "{said}");
    git(&user.at("work/a/b/c"), &["config", "core.fsmonitor", "mine"]);
    git(&user.at("work"), &["init", "-q", "x/y/users"]);
    git(&user.at("work/x/y/users"), &["config", "core.fsmonitor", "mine"]);
    session.good("echo y > a/b/c/f; echo y > x/y/users/f").await;
    for mine in ["work/a/b/c/.git/config", "work/x/y/users/.git/config"] {
        assert!(fs::read_to_string(user.at(mine)).unwrap().contains("mine"), "{mine}");
    }
    // Nor is it in the way.
    session.good("rm -rf a").await;
}

/// The folder was a submodule before, of which there was no repository yet: the index doesn't change.
#[tokio::test]
async fn a_submodule_that_was_not_there_runs_nothing() {
    attack(
        r#"
        a submodule that wasn't there
          user: git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),a/sub; mkdir -p a/sub
          run: ls
          run: cd a/sub && git init -q && poison >> .git/config && mkdir -p .git/hooks && hook .git/hooks/pre-commit
          then: git status
          says: core.fsmonitor
          says: pre-commit
        "#,
    )
    .await;
}

/// What git itself makes stays: a worktree, a clone, a submodule.
#[tokio::test]
async fn honest_repositories_stay() {
    let user = User::new();
    let session = user.session();
    session
        .good("git worktree add -q wt -b side && cd wt && echo x > f && git add f && git commit -qm side")
        .await;
    assert!(user.at("work/wt/.git").is_file());
    session.good("git clone -q . copy && cd copy && git log --oneline && git status").await;
    assert!(user.at("work/copy/.git/config").is_file());
    let script = "git -c protocol.file.allow=always submodule add -q ./copy mod && git status && git -C mod log --oneline";
    let (exit, said, refused) = session.run(session.request(script).with_protection(configuration())).await;
    assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{said}");
    let config = fs::read_to_string(user.at("work/.git/modules/mod/config")).unwrap();
    assert!(config.contains("worktree"), "{config}");
    session.good("cd mod && echo x > g && git add g && git commit -qm mod").await;
    let script = "cd /tmp && git init -q a && git -C a commit -q --allow-empty -m x && git init -q b && cd b && git -c \
                  protocol.file.allow=always submodule add -q /tmp/a m && git commit -qm s && git worktree add -q ../wt";
    session.good(script).await;
    session.good("cd /tmp && git -C b/m log && git -C wt log && git -C b submodule status").await;
}

/// One that was started before there was a repository isn't kept from writing it; so it is looked at once
/// more.
#[tokio::test]
async fn a_command_that_runs_on_changes_no_new_repository() {
    let user = User::new();
    fs::remove_dir_all(user.at("work/.git")).unwrap();
    let session = user.session();
    let slow = session.request(
        "until [ -e go ]; do sleep 0.01; done; printf '#!/bin/sh\\n' > .git/hooks/pre-commit; git config core.fsmonitor x",
    );
    let slow = session.sandbox.run(slow);
    let rest = async {
        session.good("git init -q").await;
        fs::write(user.at("work/go"), "").unwrap();
    };
    let (outcome, ()) = tokio::join!(slow, rest);
    let refused = names(&outcome.unwrap().refused);
    assert!(refused.contains("pre-commit") && refused.contains("core.fsmonitor"), "{refused}");
    assert!(!user.at("work/.git/hooks/pre-commit").exists());
    assert!(!fs::read_to_string(user.at("work/.git/config")).unwrap().contains("fsmonitor"));
}

#[tokio::test]
async fn everything_that_was_taken_away_is_counted() {
    let user = User::new();
    let session = user.session();
    let script = "git init -q r && mkdir -p r/.git/hooks && cd r/.git/hooks && for i in $(seq 93); do echo x > h$i; done";
    let (exit, said, refused) = session.run(session.request(script)).await;
    assert_eq!((exit, refused.len()), (ProcessExit::Code(0), 93), "{said}");
}
