//! What configuration of git names, whoever has written it.

use crate::attack::attack;
use crate::profile::{User, git};

/// Included files, and what they name.
#[tokio::test]
async fn what_a_configuration_includes_is_made_and_changed_by_no_command() {
    attack(
        r#"
        then: git status; git commit -q --allow-empty -m x
        include
          user: git config include.path ../.gitlocal
          data: poison > .gitlocal
          data: poison > .gitlocal
        what an included file names
          user: printf '[core]\nfsmonitor = tools/fsm\n' > .gitlocal; git config include.path ../.gitlocal
          data: mkdir -p .githooks tools deep/er; hook tools/fsm
          data: mkdir -p .githooks tools deep/er; hook tools/fsm
        "#,
    )
    .await;
}

/// Whether the folder is there when the session begins or not, and whoever names it.
#[tokio::test]
async fn hooks_that_a_configuration_names_are_made_and_changed_by_no_command() {
    attack(
        r#"
        then: git status; git commit -q --allow-empty -m x
        hooks
          user: git config core.hooksPath .githooks
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
        hooks in a folder that isn't there
          user: git config core.hooksPath deep/er/hk
          data: mkdir -p deep/er/hk; hook deep/er/hk/pre-commit
          data: mkdir -p deep/er/hk; hook deep/er/hk/pre-commit
        the user's own, not there
          user: printf '[core]\nhooksPath = .githooks\n' > $ROOT/home/.gitconfig
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
        the user's own, there
          user: mkdir -p .githooks $ROOT/home/.config/git; printf '[core]\nhooksPath = .githooks\n' > $ROOT/home/.config/git/config
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
          data: mkdir -p .githooks tools deep/er; hook .githooks/pre-commit
        "#,
    )
    .await;
}

/// Whether the program is there when the session begins or not, in whatever word.
#[tokio::test]
async fn programs_that_a_configuration_names_are_made_and_changed_by_no_command() {
    attack(
        r#"
        then: git status; git commit -q --allow-empty -m x
        a later word
          user: mkdir tools; echo pass > tools/f.py; git config core.fsmonitor 'python3 tools/f.py'
          data: mkdir -p tools; printf 'open("%s", "w")' $RAN > tools/f.py
          data: mkdir -p tools; printf 'open("%s", "w")' $RAN > tools/f.py
        a later word that isn't there
          user: git config core.fsmonitor 'python3 tools/f.py'
          data: mkdir -p tools; printf 'open("%s", "w")' $RAN > tools/f.py
          data: mkdir -p tools; printf 'open("%s", "w")' $RAN > tools/f.py
        a program
          user: mkdir tools; git config core.fsmonitor tools/fsm
          data: mkdir -p .githooks tools deep/er; hook tools/fsm
          data: mkdir -p .githooks tools deep/er; hook tools/fsm
        a link that leads there
          user: git config core.fsmonitor late/fsm
          data: mkdir other; hook other/fsm; ln -s other late
          data: mkdir other; hook other/fsm; ln -s other late
        "#,
    )
    .await;
}

/// What is put aside is told, and nothing is left of what stood in.
#[tokio::test]
async fn what_was_made_is_put_aside_and_told() {
    let user = User::new();
    git(&user.at("work"), &["config", "include.path", "../.gitlocal"]);
    git(&user.at("work"), &["config", "core.hooksPath", ".githooks"]);
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
