//! Folders of git, and what leads to what is held: attempts to plant what the user's next git would run.

use std::fs;
use std::path::Path;

use haft::ports::{ProcessExit, Processes as _};

use crate::attack::{attack, kill_session, outside, with_words};
use crate::profile::{User, configuration, git};
use crate::until;

#[tokio::test]
async fn no_link_on_the_way_to_a_held_name_gets_another_end() {
    attack(
        r#"
        hooks
          user: mkdir -p t/hooks; ln -s t hk; git config core.hooksPath hk/hooks
          try: mkdir -p ev/hooks; hook ev/hooks/pre-commit; ln -sfn ev hk
          then: git status; git commit --allow-empty -m x
        hooks, two links
          user: mkdir -p t/hooks; ln -s t l2; ln -s l2 hk; git config core.hooksPath hk/hooks
          try: mkdir -p ev/hooks; hook ev/hooks/pre-commit; ln -sfn ev l2
          then: git status; git commit --allow-empty -m x
        an included file
          user: mkdir c0; echo > c0/inc; ln -s c0 c1; ln -s c1 cfg; git config include.path ../cfg/inc
          try: mkdir ev; poison > ev/inc; ln -sfn ev c1
          then: git status
        a folder that is left again
          user: mkdir -p d/e; echo > inc; git config include.path ../d/e/../../inc
          try: mkdir -p q/r/e; poison > q/inc; rm -r d; ln -s q/r d
          then: git status
        a program
          user: mkdir t; hook t/fm; echo > t/fm; ln -s t b2; ln -s b2 bin; git config core.fsmonitor ./bin/fm
          try: mkdir ev; hook ev/fm; ln -sfn ev b2
          then: git status
        `.git` itself
          user: mv .git realgit; ln -s realgit lnk; ln -s lnk .git
          try: cp -r realgit ev; poison > ev/config; ln -sfn ev lnk
          then: git status
        a hook that is a link
          user: mkdir -p s .git/hooks; echo > s/h; chmod +x s/h; ln -s ../../s/h .git/hooks/pre-commit
          try: hook s/h
          then: git commit --allow-empty -m x
        a link to what isn't there
          user: ln -s nowhere hk; git config core.hooksPath hk/hooks
          try: mkdir -p nowhere/hooks; hook nowhere/hooks/pre-commit
          then: git commit --allow-empty -m x
        "#,
    )
    .await;
}

/// Names that other programs obey: their content counts.
#[tokio::test]
async fn protected_names_may_be_links() {
    attack(
        r#"
        a folder
          user: mkdir v; ln -s v l; ln -s l .vscode; echo > v/t
          data: mkdir e; echo evil > e/t; ln -sfn e l
          data: true
          then: grep evil .vscode/t && touch $RAN
        a file
          user: mkdir v; echo > v/rc; ln -s v l; ln -s l/rc .envrc
          data: mkdir e; echo evil > e/rc; ln -sfn e l
          data: true
          then: grep evil .envrc && touch $RAN
        not there
          user: ln -s v/rc .envrc
          data: mkdir v; echo evil > v/rc
          data: true
          then: grep evil .envrc && touch $RAN
        a file in a folder
          user: mkdir v .vscode; echo > v/t; ln -s ../v/t .vscode/t
          data: echo evil > v/t
          data: true
          then: grep evil .vscode/t && touch $RAN
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_module_that_is_not_checked_out_is_held() {
    attack(
        r#"
        then: git submodule update --init; git -C p/lib status
        a module that isn't checked out
          user: lib; git submodule -q deinit -f p/lib
          try: cp -r .git/modules/p/lib evil; poison > evil/config; echo $ROOT/work/evil > .git/modules/p/lib/commondir
        one without a head, not checked out
          user: lib; git submodule -q deinit -f p/lib
          try: mv .git/modules/p/lib/HEAD .git/modules/p/lib/zz
          session:
          try: poison >> .git/modules/p/lib/config
          try: cd .git/modules/p/lib; mv zz* HEAD
        a module that isn't there yet
          user: lib; git submodule -q deinit -f p/lib; rm -rf .git/modules
          try: git init -q t; git -C t commit -qm i --allow-empty; mkdir -p .git/modules/p; mv t/.git .git/modules/p/lib; git config -f .git/modules/p/lib/config remote.origin.url $ROOT/lib; git config -f .git/modules/p/lib/config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; poison >> .git/modules/p/lib/config
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_module_that_hardly_looks_like_one_is_held() {
    attack(
        r#"
        one that an earlier session took its objects from
          user: lib
          try: mv .git/modules/p/lib/objects .git/modules/p/lib/zz
          session:
          try: poison >> .git/modules/p/lib/config
          try: cd .git/modules/p/lib; mv zz* objects
          then: git status; enter p/lib
        a folder of modules that is made to look like one
          user: lib
          try: touch .git/modules/p/HEAD
          try: poison >> .git/modules/p/lib/config
          then: git status; enter p/lib
        a repository without a configuration
          user: git init -q s; git -C s commit -qm i --allow-empty; rm s/.git/config
          try: poison > s/.git/config
          then: git -C s status
        "#,
    )
    .await;
}

#[tokio::test]
async fn worktrees_and_their_modules_are_held() {
    attack(
        r#"
        a module of a worktree outside
          user: lib; git worktree add -q ../wt; git -C ../wt submodule -q update --init
          try: poison >> .git/worktrees/wt/modules/p/lib/config
          then: git -C ../wt/p/lib status
        a hook of it
          user: lib; git worktree add -q ../wt; git -C ../wt submodule -q update --init
          try: hook .git/worktrees/wt/modules/p/lib/hooks/post-checkout
          then: git -C ../wt/p/lib checkout -q -b zz
        a worktree that a command made
          try: git worktree add -q wt
          try: cp -r .git ev; rm -rf ev/worktrees; poison > ev/config; echo $ROOT/work/ev > .git/worktrees/wt/commondir
          then: git -C wt status
        "#,
    )
    .await;
}

/// What is there to protect isn't hidden behind what a command makes: more than `GIT_FOLDERS_MAX`.
#[tokio::test]
async fn many_worktrees_hide_nothing() {
    attack(
        r#"
        many worktrees
          user: mkdir .hk; echo > .hk/pre-commit; chmod +x .hk/pre-commit; git config core.hooksPath .hk; echo > inc; git config include.path ../inc
          try: mkdir -p .git/worktrees/j{1..210}; for w in .git/worktrees/j*; do echo /none/.git > $w/gitdir; echo ../.. > $w/commondir; done
          session:
          try: hook .hk/pre-commit; poison > inc
          try: touch .git/worktrees/x
          then: git status; git commit --allow-empty -m x
          says: .git/worktrees/x': Read-only file system
        "#,
    )
    .await;
}

#[tokio::test]
async fn many_modules_hide_nothing() {
    attack(
        r#"
        many modules
          user: lib
          try: cd .git/modules; mkdir -p a{1..210}/objects; for a in a*; do echo ref: refs/heads/main > $a/HEAD; done
          session:
          try: poison >> .git/modules/p/lib/config
          then: git status; enter p/lib
        "#,
    )
    .await;
}

/// More than `GIT_NAMES_MAX` and `REPOSITORIES_MAX`.
#[tokio::test]
async fn many_names_and_repositories_hide_nothing() {
    attack(
        r#"
        many other names
          try: for i in {1..110}; do : > .git/x$i; done; cp -r .git ../work/ev; poison > ev/config; echo $ROOT/work/ev > .git/commondir
          then: git status
        many repositories
          user: mkdir -p a{1..70}/.git/{objects,refs}; for a in a*; do echo ref: refs/heads/main > $a/.git/HEAD; done; git init -q z/y/x; git -C z/y/x commit -qm i --allow-empty
          try: poison >> z/y/x/.git/config
          then: git -C z/y/x status
          says: Read-only file system
        "#,
    )
    .await;
}

#[tokio::test]
async fn git_goes_on_with_nothing_that_a_command_wrote() {
    attack(
        r#"
        a list
          try: h=$(git rev-parse HEAD); mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main > head-name; echo $h > onto; echo $h > orig-head; : > interactive; : > done; echo 1 > msgnum; echo 1 > end; echo "exec touch $RAN" > git-rebase-todo
          then: git rebase --continue
          says: were taken out
        a link to one
          try: h=$(git rev-parse HEAD); mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main > head-name; echo $h > onto; echo $h > orig-head; : > interactive; : > done; echo 1 > msgnum; echo 1 > end; echo "exec touch $RAN" > ../../list; ln -s ../../list git-rebase-todo
          then: git rebase --continue
        a link to such a folder
          user: for i in 1 2; do echo $i > f; git add f; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1
          try: mkdir s; cp -r .git/rebase-merge s/; mv .git/rebase-merge .git/x; ln -s ../s/rebase-merge .git/; echo "exec touch $RAN" > s/rebase-merge/git-rebase-todo
          then: git rebase --continue
        a strategy
          user: for i in 1 2; do echo $i > f; git add f; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1
          try: mkdir git-merge-x; hook git-merge-x/y; echo x/y > .git/rebase-merge/strategy
          then: git commit -q --amend --allow-empty -m y; git rebase --continue
        "#,
    )
    .await;
}

/// What the user wants to run stays, and goes on also in a command.
#[tokio::test]
async fn what_the_user_wants_to_run_stays() {
    let user = User::new();
    outside(
        &user,
        "for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -x \"touch $RAN\" HEAD~2",
    );
    assert!(!user.at("ran").exists());
    let session = user.session();
    let list = user.at("work/.git/rebase-merge/git-rebase-todo");
    session.good(&format!("echo '# x' >> {}", list.display())).await;
    assert_eq!(fs::read_to_string(&list).unwrap().matches("exec touch").count(), 2);
    let (_, printed, refused) =
        session.run(session.request(&format!("echo 'exec evil' >> {}", list.display()))).await;
    assert!(format!("{refused:?}").contains("were taken out"), "{printed}");
    assert_eq!(fs::read_to_string(&list).unwrap().matches("exec ").count(), 2);
    outside(&user, "git rebase --continue");
    assert!(user.at("ran").exists() && !list.exists());
}

/// The user removes a repository while a command runs, and a command makes it again.
#[tokio::test]
async fn a_repository_that_is_made_again_is_not_the_users() {
    for folder in ["sub", "p/q/sub", "."] {
        let user = User::new();
        outside(&user, &format!("git init -q {folder}"));
        let session = user.session();
        let wait = session.request("touch here; until [ -e go ]; do sleep 0.01; done");
        let rest = async {
            let here = user.at("work/here");
            tokio::task::spawn_blocking(move || until("it runs", || here.exists())).await.unwrap();
            fs::remove_dir_all(user.at("work").join(folder).join(".git")).unwrap();
            fs::write(user.at("work/go"), "").unwrap();
        };
        let (outcome, ()) = tokio::join!(session.sandbox.run(wait), rest);
        assert_eq!(outcome.unwrap().exit, ProcessExit::Code(0));
        let make = "git init -q FOLDER; cd FOLDER; git commit -qm i --allow-empty; poison >> .git/config; hook .git/hooks/post-checkout";
        let make = with_words(&user, &make.replace("FOLDER", folder));
        let (exit, said, refused) = session.run(session.request(&make)).await;
        assert_eq!(exit, ProcessExit::Code(0), "{said}");
        assert!(format!("{refused:?}").contains("core.fsmonitor"), "{folder}: {refused:?}");
        outside(&user, &format!("cd {folder}; git status; git checkout -q -b zz"));
        assert!(!user.at("ran").exists(), "{folder}");
    }
}

/// What isn't git's own is put aside and not removed, and what is the user's stays and can't be changed.
#[tokio::test]
async fn other_names_are_held_and_put_aside() {
    let user = User::new();
    fs::create_dir(user.at("work/.git/tool")).unwrap();
    fs::write(user.at("work/.git/tool/state"), "mine").unwrap();
    let session = user.session();
    session.bad("echo x > .git/tool/state").await;
    let (exit, _, refused) = session.run(session.request("mv .git/HEAD .git/old && echo x > .git/new")).await;
    assert_eq!((exit, refused.len()), (ProcessExit::Code(0), 3), "{refused:?}");
    let said = |words: &str| format!("{refused:?}").matches(words).count();
    assert_eq!((said(".undone-"), said("`HEAD` was put back as")), (2, 1), "{refused:?}");
    let names: Vec<String> = fs::read_dir(user.at("work/.git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".undone-"))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    session.good("cat .git/tool/state; cmp .git/old.undone-* .git/HEAD; git status").await;
}

/// All that people do with git, one command after the other.
#[tokio::test]
async fn ordinary_work_with_git_goes_on() {
    let user = User::new();
    let session = user.session();
    for script in [
        "git switch -q -c side && echo a > a && git add a && git commit -qm a && git switch -q main",
        "git merge -q --no-ff -m merged side && git branch -d side && git tag -a v1 -m v1",
        "echo b >> README && git stash && git stash pop && git checkout README",
        "for i in 1 2 3; do echo $i > f$i; git add f$i; git commit -qm $i; done; git rebase -q HEAD~2 && git reset -q --hard HEAD~1",
        "git switch -q -c other HEAD~1 && echo x > f2 && git add f2 && git commit -qm x && ! git rebase -q main && git rebase --abort",
        "GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1",
        "git rebase --continue && git switch -q main",
        "! git cherry-pick other && git cherry-pick --abort; git revert --no-edit HEAD",
        "git rebase -q -x 'test -e README' HEAD~1",
        "git format-patch -q -1 --stdout > p && git reset -q --hard HEAD~1 && git am -q p && rm p",
        "git bisect start && git bisect bad && git bisect good HEAD~2 && git bisect reset",
        "git worktree add -q wt && cd wt && echo w > w && git add w && git commit -qm w && ! git merge nothing",
        "cd wt && git stash list && git rebase -q main",
        "git worktree remove wt && test ! -e .git/worktrees && git branch -D wt",
        "git worktree add -q deep/er/wt && git worktree remove deep/er/wt",
        "git clone -q . deep/copy && cd deep/copy && git fetch -q ../.. && git gc -q && git fsck",
        "git -c protocol.file.allow=always submodule add -q \"$PWD\" mod && git commit -qm mod",
        "git -c protocol.file.allow=always submodule update --init && git -C mod log && cd mod && git checkout -q -b z && git commit -qm z --allow-empty",
        "git update-index --split-index && git status && git update-index --no-split-index",
        "git gc -q && git pack-refs --all && git reflog expire --all --expire=now && git prune && git fsck",
        "git notes add -m note && git notes show && git describe && git blame README && git log --stat",
        "git init -q --bare bare.git && git push -q bare.git main && git fetch -q bare.git main && rm -r bare.git",
        "git sparse-checkout list || true; git rerere status; git maintenance run --task=gc --quiet",
    ] {
        let (exit, said, refused) =
            session.run(session.request(script).with_protection(configuration())).await;
        assert_eq!((exit, refused), (ProcessExit::Code(0), vec![]), "{script}: {said}");
    }
    git(&user.at("work"), &["status"]);
    git(&user.at("work/mod"), &["log"]);
}

/// Where nobody looks in a module, nothing is taken for one.
#[tokio::test]
async fn no_administration_hides_in_a_free_folder_of_another() {
    attack(
        r#"
        a free folder of a module
          in: .git/modules/a/objects/x .git/worktrees/w/modules/a/info/x .git/modules/a/y.undone-1/x
          try: git init -q t; git -C t commit -q --allow-empty -m z; mkdir -p FOLDER W; cp -r t/.git/. FOLDER/; git config -f FOLDER/config core.worktree $ROOT/work/W; echo gitdir: $ROOT/work/FOLDER > W/.git; rm -rf t; poison >> FOLDER/config; at=FOLDER; cp .git/HEAD ${at%/a/*}/a/HEAD
          try: true
          then: cd W && git status
        "#,
    )
    .await;
}

/// git writes where a link leads.
#[tokio::test]
async fn links_in_folders_of_git_lead_nobody_astray() {
    attack(
        r#"
        the message of a commit
          user: echo true > $ROOT/victim
          try: ln -sfn $ROOT/victim .git/COMMIT_EDITMSG
          try: true
          then: echo q > q; git add q; git commit -qm "touch $RAN"; bash $ROOT/victim
          says: became a link
        a log
          in: logs/HEAD logs/refs/heads/main
          user: echo true > $ROOT/victim
          try: ln -sfn $ROOT/victim .git/FOLDER
          try: true
          then: GIT_COMMITTER_NAME="x \$(touch $RAN)" git commit -q --allow-empty -m x; bash $ROOT/victim
          says: became a link
        the message of a commit in a worktree
          user: echo true > $ROOT/victim; git worktree add -q $ROOT/wt
          try: ln -sfn $ROOT/victim .git/worktrees/wt/COMMIT_EDITMSG
          then: cd $ROOT/wt; echo q > q; git add q; git commit -qm "touch $RAN"; bash $ROOT/victim
        "#,
    )
    .await;
}

/// What the user has there stays.
#[tokio::test]
async fn links_of_the_user_in_folders_of_git_stay() {
    let user = User::new();
    outside(&user, "mv .git/logs ../logs; ln -s $ROOT/logs .git/logs; ln -sfn refs/heads/main .git/HEAD");
    let session = user.session();
    session.good("ls; git status").await;
    assert!(user.at("work/.git/logs").is_symlink() && user.at("work/.git/HEAD").is_symlink());
}

/// Where `.git` is no repository, git takes the working directory for one.
#[tokio::test]
async fn a_repository_stays_one() {
    attack(
        r#"
        then: git status
        says: stopped being a repository
        rm .git/HEAD
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; rm .git/HEAD
        echo junk > .git/HEAD
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; echo junk > .git/HEAD
        mv .git/objects .git/info/objects
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; mv .git/objects .git/info/objects
        mv .git/refs .git/info/refs
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; mv .git/refs .git/info/refs
        rm -rf .git/refs; echo x > .git/refs
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; rm -rf .git/refs; echo x > .git/refs
        ln -sfn ../README .git/HEAD
          try: git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=%s\n' $ROOT/work > config; poison >> config; ln -sfn ../README .git/HEAD
        "#,
    )
    .await;
}

/// Of who keeps their own configuration in a repository.
#[tokio::test]
async fn configuration_of_the_user_that_lies_in_the_work_is_held() {
    attack(
        r#"
        a link to it
          user: mv $ROOT/home/.gitconfig gitconfig; ln -s $ROOT/work/gitconfig $ROOT/home/.gitconfig
          try: poison >> gitconfig
          then: git status
        a link to its folder
          user: mkdir -p cg $ROOT/home/.config; touch cg/config; ln -s $ROOT/work/cg $ROOT/home/.config/git
          try: poison >> cg/config
          then: git status
        a template
          user: mkdir -p tpl/hooks; git config --global init.templateDir $ROOT/work/tpl
          try: hook tpl/hooks/pre-commit
          then: unset GIT_TEMPLATE_DIR; git init -q $ROOT/new; cd $ROOT/new; git commit -q --allow-empty -m x
        a program in another folder
          user: mkdir tools; printf '#!/bin/sh\nfalse\n' > tools/f.sh; chmod +x tools/f.sh; git config core.fsmonitor 'cd tools && ./f.sh'
          try: hook tools/f.sh
          then: git status
        "#,
    )
    .await;
}

/// A link leads to it from the working directory, where somebody could follow it. A command sees that folder
/// at `/tmp` alone, and may guess what it is called on the host.
#[tokio::test]
async fn a_repository_in_the_temporary_folder_runs_nothing() {
    attack(
        r#"
        then: cd sub && git status
        says: core.fsmonitor
        a link to it
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; git init -q $t/r; poison >> $t/r/.git/config; ln -s $ROOT/state/tmp/r sub; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub
        a `.git` file that leads to it
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; git init -q $t/r; mv $t/r/.git $t/x; echo "gitdir: $ROOT/state/tmp/x" > $t/r/.git; poison >> $t/x/config; ln -s $ROOT/state/tmp/r sub
        again
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; git init -q $t/r; ln -s $ROOT/state/tmp/r sub; git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub
          silent: core.fsmonitor
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; poison >> $t/r/.git/config
        "#,
    )
    .await;
}

/// Nobody looks into a `.git`, so what lies in one vouches for nothing.
#[tokio::test]
async fn a_git_file_in_the_temporary_folder_leads_into_no_git_folder() {
    attack(
        r#"
        a free folder of another repository
          in: $PWD /o
          try: t=/tmp; [ "$TMPDIR" = /tmp ] || { t=$ROOT/state/tmp; mkdir -p $t; }; f=FOLDER; h=FOLDER; [ $f != /o ] || { f=$t/o; h=$ROOT/state/tmp/o; }; git init -q $f; git init -q $t/r; mv $t/r/.git $f/.git/objects/x; echo "gitdir: $h/.git/objects/x" > $t/r/.git; poison >> $f/.git/objects/x/config; ln -s $ROOT/state/tmp/r sub
          then: cd sub && git status
        "#,
    )
    .await;
}

/// `git revert` of several commits that stops goes on, and so does a list with comments of another kind.
#[tokio::test]
async fn lists_of_what_is_to_be_done_stay_whole() {
    let user = User::new();
    outside(
        &user,
        "for i in 1 2 3; do echo $i > README; git commit -qam $i; done; git config core.commentChar ';'",
    );
    let session = user.session();
    let (_, said, refused) = session.run(session.request("git revert --no-edit HEAD~1 HEAD; true")).await;
    assert_eq!(refused, vec![], "{said}");
    let todo = fs::read_to_string(user.at("work/.git/sequencer/todo")).unwrap();
    assert!(todo.lines().filter(|line| line.starts_with("revert")).count() >= 1, "{todo}");
    session.good("git revert --abort; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~2").await;
    // git leaves comments out of the list itself, and not of what it keeps of it.
    let todo = fs::read_to_string(user.at("work/.git/rebase-merge/git-rebase-todo.backup")).unwrap();
    assert!(todo.contains("\n; p, pick <commit>") && todo.contains("\n; x, exec"), "{todo}");
    session.good("git rebase --continue").await;
}

/// What the kernel holds isn't opened by a link that the user moves, nor put back over it.
#[tokio::test]
async fn a_link_is_the_users_to_move() {
    let user = User::new();
    outside(&user, "mkdir v w; ln -s v .vscode");
    let session = user.session();
    session.good("ls").await;
    outside(&user, "ln -sfn w .vscode");
    session.good("ls").await;
    assert_eq!(fs::read_link(user.at("work/.vscode")).unwrap(), Path::new("w"));
    session.bad("echo x > w/t").await;
    fs::remove_file(user.at("work/.vscode")).unwrap();
    session.good("ls").await;
    assert!(!user.at("work/.vscode").is_symlink());
}

/// What a session needs to undo is written down before a command starts; whoever comes after a killed one
/// finds it.
#[tokio::test]
async fn what_a_killed_session_left_in_folders_of_git_is_put_aside() {
    let user = User::new();
    outside(
        &user,
        "lib; mkdir .git/tool; echo mine > .git/tool/x; git worktree add -q ../wt; git config core.hooksPath .githooks",
    );
    kill_session(&user, configuration()).await;
    let before = fs::read(user.at("work/.git/modules/p/lib/config")).unwrap();
    outside(
        &user,
        "cd .git; echo /none > modules/p/lib/commondir; poison > worktrees/wt/config.worktree; echo x > new; \
         mkdir rebase-merge; printf 'pick 1\\nexec touch x\\n' > rebase-merge/git-rebase-todo; \
         mkdir modules/n; cp -r modules/p/lib/HEAD modules/p/lib/objects modules/n; poison > modules/n/config; \
         mkdir worktrees/n; echo /none > worktrees/n/commondir; echo /none > worktrees/n/gitdir; \
         poison >> config; mkdir ../.githooks; hook ../.githooks/pre-commit",
    );
    let session = user.session();
    let notes = session.sandbox.notes().join("\n");
    let git = |path: &str| user.at("work/.git").join(path);
    for gone in ["modules/p/lib/commondir", "worktrees/wt/config.worktree", "new", "worktrees/n/commondir"] {
        assert!(!git(gone).exists(), "{gone}: {notes}");
        assert!(notes.contains(gone), "{gone}: {notes}");
    }
    assert_eq!(fs::read_to_string(git("rebase-merge/git-rebase-todo")).unwrap(), "pick 1\n");
    let config = fs::read_to_string(git("config")).unwrap();
    assert!(!config.contains("fsmonitor") && config.contains("hooksPath"), "{config}: {notes}");
    assert!(notes.contains("`core.fsmonitor` was changed") && !user.at("work/.githooks").exists(), "{notes}");
    assert!(!fs::read_to_string(git("modules/n/config")).unwrap_or_default().contains("fsmonitor"));
    // Nothing of the user's.
    assert_eq!(fs::read(git("modules/p/lib/config")).unwrap(), before);
    assert_eq!(fs::read_to_string(git("tool/x")).unwrap(), "mine\n");
    assert!(git("config").is_file() && git("worktrees/wt/commondir").is_file());
}
