//! Repositories that commands make or change so that the user's next `git status` would run something.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use haft::ports::{ConfinementRefusal, ProcessExit};

use crate::attack::{attack, with_words};
use crate::profile::{User, configuration, git};

/// A configuration is undone whatever else the command does to prevent it, in the user's repository and in
/// new ones.
async fn assert_configuration_is_undone(block: &str) {
    attack(&format!(
        "the user's repository
           run: poison >> .git/config; {block}
           then: enter .
           says: `core.fsmonitor` was changed, and that was undone
         a new one
           in: sub deep/er/sub
           run: make FOLDER && cd FOLDER && poison >> .git/config && {block}
           then: enter FOLDER"
    ))
    .await;
}

#[tokio::test]
async fn a_configuration_is_undone_where_the_temporary_name_is_taken() {
    assert_configuration_is_undone(&format!("mkdir .git/.config-{}", std::process::id())).await;
}

#[tokio::test]
async fn a_configuration_is_undone_in_a_folder_that_can_not_be_written() {
    assert_configuration_is_undone("chmod 555 .git").await;
}

#[tokio::test]
async fn a_configuration_is_undone_in_a_folder_that_can_not_be_read() {
    assert_configuration_is_undone("chmod 311 .git").await;
}

#[tokio::test]
async fn a_configuration_with_another_name_is_undone() {
    assert_configuration_is_undone("ln .git/config .git/other").await;
}

/// Hooks of a new repository are taken away, whatever else the command does to its folder of hooks.
async fn assert_hooks_are_taken_away(block: &str) {
    attack(&format!(
        "hooks
           in: sub deep/er/sub
           run: make FOLDER && cd FOLDER && rm -rf .git/hooks && mkdir .git/hooks && hook .git/hooks/post-checkout && {block}
           run: true
           then: enter FOLDER
           says: hooks
           silent: another program"
    ))
    .await;
}

#[tokio::test]
async fn hooks_in_a_folder_that_can_not_be_written_are_taken_away() {
    assert_hooks_are_taken_away("chmod 555 .git/hooks").await;
}

#[tokio::test]
async fn hooks_in_a_folder_that_can_not_be_read_are_taken_away() {
    assert_hooks_are_taken_away("chmod 311 .git/hooks").await;
}

/// More than `WATCHED_ENTRIES_MAX`.
#[tokio::test]
async fn hooks_too_many_to_count_are_taken_away() {
    assert_hooks_are_taken_away("touch .git/hooks/x{1..2100}.sample").await;
}

/// A folder that its owner can't look into is no place to hide; root looks into every one.
#[tokio::test]
async fn nothing_hides_in_a_folder_that_is_closed() {
    attack(
        r#"
        then: enter p/q/r
        p/q
          run: make p/q/r && poison >> p/q/r/.git/config && chmod 000 p/q
          run: true
          user: chmod 755 p; chmod 755 p/q; chmod 755 p/q/r; chmod 755 p/q/r/.git
        p/q p
          run: make p/q/r && poison >> p/q/r/.git/config && chmod 000 p/q p
          run: true
          user: chmod 755 p; chmod 755 p/q; chmod 755 p/q/r; chmod 755 p/q/r/.git
        p/q/r/.git
          run: make p/q/r && poison >> p/q/r/.git/config && chmod 000 p/q/r/.git
          run: true
          user: chmod 755 p; chmod 755 p/q; chmod 755 p/q/r; chmod 755 p/q/r/.git
        p/q/r
          run: make p/q/r && poison >> p/q/r/.git/config && chmod 000 p/q/r
          run: true
          user: chmod 755 p; chmod 755 p/q; chmod 755 p/q/r; chmod 755 p/q/r/.git
        "#,
    )
    .await;
}

/// What commands can write and nobody holds vouches for nothing, wherever it lies.
#[tokio::test]
async fn a_git_file_leads_only_to_what_is_held() {
    attack(
        r#"
        then: enter FOLDER
        to a folder that may be written
          in: sub deep/er/sub
          writable: other
          run: make FOLDER && mv FOLDER/.git $ROOT/other/ev && printf '[core]\n\tworktree = %s\n' $ROOT/work/FOLDER >> $ROOT/other/ev/config && poison >> $ROOT/other/ev/config && echo "gitdir: $ROOT/other/ev" > FOLDER/.git
        to a repository that is no folder's
          in: sub deep/er/sub
          run: make t && git clone -q --bare t e && git -C e worktree add -q ../FOLDER && rm -rf t && poison >> e/config
        "#,
    )
    .await;
}

/// A blank more, and git reads another name than a careless reader.
#[tokio::test]
async fn a_git_file_leads_to_no_name_with_a_blank() {
    attack(
        r#"
        a blank at the end
          in: sub deep/er/sub
          run: make FOLDER && mkdir -p .git/modules && cp -r FOLDER/.git '.git/modules/m' && mv FOLDER/.git '.git/modules/m ' && for m in 'm' 'm '; do printf '[core]\n\tworktree = %s\n' $ROOT/work/FOLDER >> ".git/modules/$m/config"; done && poison >> '.git/modules/m /config' && echo "gitdir: $PWD/.git/modules/m " > FOLDER/.git
          then: enter FOLDER
        "#,
    )
    .await;
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
        assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{script}: {said}");
    }
    for folder in ["inner", "mod", "of-copy", "a/b/d"] {
        git(&user.at("tree").join(folder), &["status"]);
    }
}

#[tokio::test]
async fn another_name_of_a_file_that_git_obeys_is_another_file() {
    attack(
        r#"
        a configuration
          in: sub deep/er/sub
          run: make FOLDER && ln FOLDER/.git/config x
          run: poison >> x
          then: enter FOLDER
        what a worktree says of its repository
          run: git worktree add -q wt && ln .git/worktrees/wt/commondir .git/x
          run: git init -q --bare ev && printf '[core]\n\tbare=false\n\tworktree=%s\n' $PWD/wt > ev/config && poison >> ev/config && cp -r .git/refs .git/objects .git/index ev/ && echo $PWD/ev > .git/x
          then: enter wt
        what a worktree says of its folder
          run: git worktree add -q wt && ln wt/.git x
          run: git init -q --bare ev && printf '[core]\n\tbare=false\n\tworktree=%s\n' $PWD/wt > ev/config && poison >> ev/config && cp -r .git/refs .git/objects .git/index ev/ && echo "gitdir: $PWD/ev" > x
          then: enter wt
        a configuration of the user, and an included one
          in: .git/config .gitlocal
          user: git config include.path ../.gitlocal; echo '[core]' > .gitlocal; ln FOLDER x
          run: poison >> x
          then: enter .
        "#,
    )
    .await;
}

/// git fetches by itself what is missing, if a configuration says from where.
#[tokio::test]
async fn no_new_repository_names_a_host_that_git_asks_by_itself() {
    let user = User::new();
    let session = user.session();
    let script = with_words(
        &user,
        "make a/b && cd a/b && git config core.repositoryFormatVersion 1 && git config extensions.partialClone o && git config remote.o.promisor true && git config remote.o.partialclonefilter blob:none && git config extensions.refStorage files && git config remote.o.url https://example.org/r && git config extensions.objectFormat sha1",
    );
    let (exit, said, refused) = session.run(session.request(&script)).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    let config = fs::read_to_string(user.at("work/a/b/.git/config")).unwrap().to_lowercase();
    assert!(!config.contains("promisor") && !config.contains("partialclone"), "{config}");
    assert!(config.contains("example.org") && config.contains("objectformat"), "{config}");
    assert!(format!("{refused:?}").contains("promisor"), "{refused:?}");
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
    assert_eq!((exit, refused.len()), (ProcessExit::Code(0), 2), "{said}");
    for refusal in &refused {
        let ConfinementRefusal::Protected { done, .. } = refusal else { panic!("{refusal:?}") };
        assert!(!done.contains(|c: char| c.is_control()), "{done:?}");
    }
    assert!(Path::new(&user.at("work/l")).symlink_metadata().is_ok());
}

/// Folders that lie deep hide nothing that lies elsewhere.
#[tokio::test]
async fn deep_folders_keep_nobody_from_looking() {
    attack(
        &r#"
        beside and below deep folders
          in: p/q/r DEEP/r
          user: mkdir -p DEEP
          run: make FOLDER && poison >> FOLDER/.git/config
          then: enter FOLDER
        "#
        .replace("DEEP", &vec!["z"; 60].join("/")),
    )
    .await;
}
