//! Folders of git, and what leads to what is held: attempts to plant what the user's next git would run.
//!
//! Each attempt has its control: outside of the sandbox it works.

use std::fs;
use std::path::Path;
use std::process::Command;

use haft::ports::{Exit, Processes as _};

use crate::profile::{GIT_TEMPLATE, User, configuration, git};
use crate::until;

/// What a script of the user or of a command may use: `git` that knows who it is, and what poisons a configuration.
fn with_words(user: &User, script: &str) -> String {
    let (ran, root) = (user.at("ran"), user.root.display().to_string());
    let poison = format!("fsmonitor = touch {}; false", ran.display());
    script
        .replace("POISON", &format!("printf '[core]\\n\\t{poison}\\n'"))
        .replace("HOOK", &format!("printf '#!/bin/sh\\ntouch {}\\n'", ran.display()))
        .replace("RAN", &ran.display().to_string())
        .replace("ROOT", &root)
}

fn outside(user: &User, script: &str) {
    let mut command = Command::new("bash");
    let script = with_words(user, script);
    for (name, value) in [("GIT_AUTHOR", "a"), ("GIT_COMMITTER", "a")] {
        command.env(format!("{name}_NAME"), value).env(format!("{name}_EMAIL"), "a@b");
    }
    command.args(["-c", &script]).env("HOME", user.at("home")).current_dir(user.at("work"));
    command.env("GIT_TEMPLATE_DIR", GIT_TEMPLATE);
    let _ = command.output().unwrap();
}

/// What each session's commands do, one after the other.
type Sessions<'a> = &'a [&'a [&'a str]];

/// The user prepares, commands attack, the user goes on. Says whether that ran something, and what was said.
async fn ran(prepare: &str, attack: Sessions<'_>, then: &str, sandbox: bool) -> (bool, String) {
    let user = if sandbox { User::new() } else { User::unconfined() };
    outside(&user, prepare);
    let _ = fs::remove_file(user.at("ran"));
    let mut said = String::new();
    for commands in attack {
        let session = sandbox.then(|| user.session());
        for script in *commands {
            match &session {
                Some(session) => {
                    let request =
                        session.request(&with_words(&user, script)).with_protection(configuration());
                    let (_, printed, refused) = session.run(request).await;
                    said.push_str(&format!("{printed}{refused:?}"));
                }
                None => outside(&user, script),
            }
        }
    }
    assert!(!sandbox || !user.at("ran").exists());
    outside(&user, then);
    (user.at("ran").exists(), said)
}

async fn attempt(what: &str, prepare: &str, attack: Sessions<'_>, then: &str) -> String {
    assert!(ran(prepare, attack, then, false).await.0, "{what}: the attack doesn't even work outside");
    let (ran, said) = ran(prepare, attack, then, true).await;
    assert!(!ran, "{what}: {said}");
    said
}

#[tokio::test]
async fn no_link_on_the_way_to_a_held_name_gets_another_end() {
    let hooks = "mkdir -p ev/hooks; HOOK > ev/hooks/pre-commit; chmod +x ev/hooks/pre-commit";
    let include = "mkdir ev; POISON > ev/inc";
    let program = "mkdir ev; HOOK > ev/fm; chmod +x ev/fm";
    let evil = "cp -r realgit ev; POISON > ev/config";
    for (what, prepare, attack) in [
        (
            "hooks",
            "mkdir -p t/hooks; ln -s t hk; git config core.hooksPath hk/hooks",
            format!("{hooks}; ln -sfn ev hk"),
        ),
        (
            "hooks, two links",
            "mkdir -p t/hooks; ln -s t l2; ln -s l2 hk; git config core.hooksPath hk/hooks",
            format!("{hooks}; ln -sfn ev l2"),
        ),
        (
            "an included file",
            "mkdir c0; echo > c0/inc; ln -s c0 c1; ln -s c1 cfg; git config include.path ../cfg/inc",
            format!("{include}; ln -sfn ev c1"),
        ),
        (
            "a folder that is left again",
            "mkdir -p d/e; echo > inc; git config include.path ../d/e/../../inc",
            "mkdir -p q/r/e; POISON > q/inc; rm -r d; ln -s q/r d".to_owned(),
        ),
        (
            "a program",
            "mkdir t; HOOK > t/fm; echo > t/fm; chmod +x t/fm; ln -s t b2; ln -s b2 bin; git config core.fsmonitor ./bin/fm",
            format!("{program}; ln -sfn ev b2"),
        ),
        (
            "`.git` itself",
            "mv .git realgit; ln -s realgit lnk; ln -s lnk .git",
            format!("{evil}; ln -sfn ev lnk"),
        ),
        (
            "a hook that is a link",
            "mkdir -p s .git/hooks; echo > s/h; chmod +x s/h; ln -s ../../s/h .git/hooks/pre-commit",
            "HOOK > s/h".to_owned(),
        ),
        (
            "a link to what isn't there",
            "ln -s nowhere hk; git config core.hooksPath hk/hooks",
            "mkdir -p nowhere/hooks; HOOK > nowhere/hooks/pre-commit; chmod +x nowhere/hooks/pre-commit"
                .to_owned(),
        ),
    ] {
        attempt(what, prepare, &[&[&attack]], "git status; git commit --allow-empty -m x").await;
    }
}

/// Names that other programs obey: their content counts.
#[tokio::test]
async fn protected_names_may_be_links() {
    for (what, prepare, attack, name) in [
        (
            "a folder",
            "mkdir v; ln -s v l; ln -s l .vscode; echo > v/t",
            "mkdir e; echo evil > e/t; ln -sfn e l",
            ".vscode/t",
        ),
        (
            "a file",
            "mkdir v; echo > v/rc; ln -s v l; ln -s l/rc .envrc",
            "mkdir e; echo evil > e/rc; ln -sfn e l",
            ".envrc",
        ),
        ("not there", "ln -s v/rc .envrc", "mkdir v; echo evil > v/rc", ".envrc"),
        (
            "a file in a folder",
            "mkdir v .vscode; echo > v/t; ln -s ../v/t .vscode/t",
            "echo evil > v/t",
            ".vscode/t",
        ),
    ] {
        for sandbox in [false, true] {
            let user = if sandbox { User::new() } else { User::unconfined() };
            outside(&user, prepare);
            if sandbox {
                let session = user.session();
                session.run(session.request(attack)).await;
                session.run(session.request("true")).await;
            } else {
                outside(&user, attack);
            }
            let content = fs::read_to_string(user.at("work").join(name)).unwrap_or_default();
            assert_eq!(content.contains("evil"), !sandbox, "{what}");
        }
    }
}

const LIB: &str = "git init -q ROOT/lib; git -C ROOT/lib commit -qm i --allow-empty; git config protocol.file.allow always; \
                   git config --global protocol.file.allow always; git submodule -q add ROOT/lib p/lib; git commit -qm s";
const STATUS: &str = "git status; git -C p/lib status; git -C p/lib checkout -q -b zz";

/// What is tried, what the user prepares, what commands do, and what the user does then.
type Attempt<'a> = (&'a str, String, Sessions<'a>, &'a str);

async fn attempt_all(attempts: impl IntoIterator<Item = Attempt<'_>>) {
    for (what, prepare, attack, then) in attempts {
        attempt(what, &prepare, attack, then).await;
    }
}

fn with_lib(more: &str) -> String {
    format!("{LIB}; {more}")
}

const POISON_LIB: &str = "POISON >> .git/modules/p/lib/config";
const UPDATE_LIB: &str = "git submodule update --init; git -C p/lib status";

#[tokio::test]
async fn a_module_that_is_not_checked_out_is_held() {
    let evil = "cp -r .git/modules/p/lib evil; POISON > evil/config; echo ROOT/work/evil > .git/modules/p/lib/commondir";
    attempt_all([
        (
            "a module that isn't checked out",
            with_lib("git submodule -q deinit -f p/lib"),
            &[&[evil][..]][..],
            UPDATE_LIB,
        ),
        (
            "one without a head, not checked out",
            with_lib("git submodule -q deinit -f p/lib"),
            &[
                &["mv .git/modules/p/lib/HEAD .git/modules/p/lib/zz"],
                &[POISON_LIB, "cd .git/modules/p/lib; mv zz* HEAD"],
            ],
            UPDATE_LIB,
        ),
        (
            "a module that isn't there yet",
            with_lib("git submodule -q deinit -f p/lib; rm -rf .git/modules"),
            &[&[
                "git init -q t; git -C t commit -qm i --allow-empty; mkdir -p .git/modules/p; mv t/.git .git/modules/p/lib; git config -f .git/modules/p/lib/config remote.origin.url ROOT/lib; git config -f .git/modules/p/lib/config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'; POISON >> .git/modules/p/lib/config",
            ]],
            UPDATE_LIB,
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_module_that_hardly_looks_like_one_is_held() {
    attempt_all([
        (
            "one that an earlier session took its objects from",
            with_lib("true"),
            &[
                &["mv .git/modules/p/lib/objects .git/modules/p/lib/zz"][..],
                &[POISON_LIB, "cd .git/modules/p/lib; mv zz* objects"],
            ][..],
            STATUS,
        ),
        (
            "a folder of modules that is made to look like one",
            with_lib("true"),
            &[&["touch .git/modules/p/HEAD", POISON_LIB]],
            STATUS,
        ),
        (
            "a repository without a configuration",
            "git init -q s; git -C s commit -qm i --allow-empty; rm s/.git/config".into(),
            &[&["POISON > s/.git/config"]],
            "git -C s status",
        ),
    ])
    .await;
}

#[tokio::test]
async fn worktrees_and_their_modules_are_held() {
    let worktree = "git worktree add -q ../wt; git -C ../wt submodule -q update --init";
    attempt_all([
        (
            "a module of a worktree outside",
            with_lib(worktree),
            &[&["POISON >> .git/worktrees/wt/modules/p/lib/config"][..]][..],
            "git -C ../wt/p/lib status",
        ),
        (
            "a hook of it",
            with_lib(worktree),
            &[&["h=.git/worktrees/wt/modules/p/lib/hooks/post-checkout; HOOK > $h; chmod +x $h"]],
            "git -C ../wt/p/lib checkout -q -b zz",
        ),
        (
            "a worktree that a command made",
            String::new(),
            &[&[
                "git worktree add -q wt",
                "cp -r .git ev; rm -rf ev/worktrees; POISON > ev/config; echo ROOT/work/ev > .git/worktrees/wt/commondir",
            ]],
            "git -C wt status",
        ),
    ])
    .await;
}

// What is there to protect isn't hidden behind what a command makes: more than `GIT_FOLDERS_MAX`, `GIT_NAMES_MAX` and
// `REPOSITORIES_MAX` of each kind.

#[tokio::test]
async fn many_worktrees_hide_nothing() {
    let prepare = "mkdir .hk; echo > .hk/pre-commit; chmod +x .hk/pre-commit; git config core.hooksPath .hk; echo > inc; git config include.path ../inc";
    let worktrees = "mkdir -p .git/worktrees/j{1..210}; for w in .git/worktrees/j*; do echo /none/.git > $w/gitdir; echo ../.. > $w/commondir; done";
    let evil = "HOOK > .hk/pre-commit; POISON > inc";
    let said = attempt(
        "many worktrees",
        prepare,
        &[&[worktrees], &[evil, "touch .git/worktrees/x"]],
        "git status; git commit --allow-empty -m x",
    )
    .await;
    assert!(said.contains(".git/worktrees/x': Read-only file system"), "{said}");
}

#[tokio::test]
async fn many_modules_hide_nothing() {
    let many = "cd .git/modules; mkdir -p a{1..210}/objects; for a in a*; do echo ref: refs/heads/main > $a/HEAD; done";
    attempt("many modules", LIB, &[&[many], &[POISON_LIB]], STATUS).await;
}

#[tokio::test]
async fn many_other_names_hide_nothing() {
    let many = "for i in {1..110}; do : > .git/x$i; done; cp -r .git ../work/ev; POISON > ev/config; echo ROOT/work/ev > .git/commondir";
    attempt("many other names", "", &[&[many]], "git status").await;
}

#[tokio::test]
async fn many_repositories_hide_nothing() {
    let many = "mkdir -p a{1..70}/.git/{objects,refs}; for a in a*; do echo ref: refs/heads/main > $a/.git/HEAD; done; git init -q z/y/x; git -C z/y/x commit -qm i --allow-empty";
    let said =
        attempt("many repositories", many, &[&["POISON >> z/y/x/.git/config"]], "git -C z/y/x status").await;
    assert!(said.contains("Read-only file system"), "{said}");
}

#[tokio::test]
async fn git_goes_on_with_nothing_that_a_command_wrote() {
    let rebase = "h=$(git rev-parse HEAD); mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main > head-name; echo $h > onto; echo $h > orig-head; : > interactive; : > done; echo 1 > msgnum; echo 1 > end";
    let exec = format!("{rebase}; echo 'exec touch RAN' > git-rebase-todo");
    let said = attempt("a list", "", &[&[&exec]], "git rebase --continue").await;
    assert!(said.contains("were taken out"), "{said}");
    let link = format!("{rebase}; echo 'exec touch RAN' > ../../list; ln -s ../../list git-rebase-todo");
    attempt("a link to one", "", &[&[&link]], "git rebase --continue").await;
    let folder = "mkdir s; cp -r .git/rebase-merge s/; mv .git/rebase-merge .git/x; ln -s ../s/rebase-merge .git/; echo 'exec touch RAN' > s/rebase-merge/git-rebase-todo";
    let stopped = "for i in 1 2; do echo $i > f; git add f; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1";
    attempt("a link to such a folder", stopped, &[&[folder]], "git rebase --continue").await;
    let strategy = "mkdir git-merge-x; HOOK > git-merge-x/y; chmod +x git-merge-x/y; echo x/y > .git/rebase-merge/strategy";
    attempt(
        "a strategy",
        stopped,
        &[&[strategy]],
        "git commit -q --amend --allow-empty -m y; git rebase --continue",
    )
    .await;
    // What the user wants to run stays, and goes on also in a command.
    let user = User::new();
    outside(
        &user,
        "for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i -x 'touch RAN' HEAD~2",
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
        assert_eq!(outcome.unwrap().exit, Exit::Code(0));
        let make = "git init -q FOLDER; cd FOLDER; git commit -qm i --allow-empty; POISON >> .git/config; HOOK > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout";
        let make = with_words(&user, &make.replace("FOLDER", folder));
        let (exit, said, refused) = session.run(session.request(&make)).await;
        assert_eq!(exit, Exit::Code(0), "{said}");
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
    assert_eq!((exit, refused.len()), (Exit::Code(0), 3), "{refused:?}");
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
        assert_eq!((exit, refused), (Exit::Code(0), vec![]), "{script}: {said}");
    }
    git(&user.at("work"), &["status"]);
    git(&user.at("work/mod"), &["log"]);
}

/// Where nobody looks in a module, nothing is taken for one.
#[tokio::test]
async fn no_administration_hides_in_a_free_folder_of_another() {
    let made = "git init -q t; git -C t commit -q --allow-empty -m z; mkdir -p AT W; cp -r t/.git/. AT/; \
                git config -f AT/config core.worktree ROOT/work/W; echo gitdir: ROOT/work/AT > W/.git; rm -rf t; \
                POISON >> AT/config; cp .git/HEAD TOP/HEAD";
    for (top, at) in [
        (".git/modules/a", ".git/modules/a/objects/x"),
        (".git/worktrees/w/modules/a", ".git/worktrees/w/modules/a/info/x"),
        (".git/modules/a", ".git/modules/a/y.undone-1/x"),
    ] {
        let made = made.replace("AT", at).replace("TOP", top);
        attempt(at, "true", &[&[&made, "true"]], "cd W && git status").await;
    }
}

/// git writes where a link leads.
#[tokio::test]
async fn links_in_folders_of_git_lead_nobody_astray() {
    let commit = "echo q > q; git add q; git commit -qm 'touch RAN'; bash ROOT/victim; bash ../../victim";
    for (link, then) in [
        ("COMMIT_EDITMSG", commit),
        (
            "logs/HEAD",
            "GIT_COMMITTER_NAME='x $(touch RAN)' git commit -q --allow-empty -m x; bash ROOT/victim",
        ),
        (
            "logs/refs/heads/main",
            "GIT_COMMITTER_NAME='x $(touch RAN)' git commit -q --allow-empty -m x; bash ROOT/victim",
        ),
    ] {
        let attack = format!("ln -sfn ROOT/victim .git/{link}");
        let said = attempt(link, "echo true > ROOT/victim", &[&[&attack, "true"]], then).await;
        assert!(said.contains("became a link"), "{said}");
    }
    // Of a worktree, and one that leads to what is held.
    attempt(
        "a worktree",
        "echo true > ROOT/victim; git worktree add -q ROOT/wt",
        &[&["ln -sfn ROOT/victim .git/worktrees/wt/COMMIT_EDITMSG"]],
        "cd ROOT/wt; echo q > q; git add q; git commit -qm 'touch RAN'; bash ROOT/victim",
    )
    .await;
    // What the user has there stays.
    let user = User::new();
    outside(&user, "mv .git/logs ../logs; ln -s ROOT/logs .git/logs; ln -sfn refs/heads/main .git/HEAD");
    let session = user.session();
    session.good("ls; git status").await;
    assert!(user.at("work/.git/logs").is_symlink() && user.at("work/.git/HEAD").is_symlink());
}

/// Where `.git` is no repository, git takes the working directory for one.
#[tokio::test]
async fn a_repository_stays_one() {
    let bare = "git init -q --bare b; mv b/HEAD b/objects b/refs .; printf '[core]\n\trepositoryformatversion=0\n\tbare=false\n\tworktree=ROOT/work\n' > config; POISON >> config";
    for harm in [
        "rm .git/HEAD",
        "echo junk > .git/HEAD",
        "mv .git/objects .git/info/objects",
        "mv .git/refs .git/info/refs",
        "rm -rf .git/refs; echo x > .git/refs",
        "ln -sfn ../README .git/HEAD",
    ] {
        let said = attempt(harm, "true", &[&[&format!("{bare}; {harm}")]], "git status").await;
        assert!(said.contains("stopped being a repository"), "{harm}: {said}");
    }
}

/// Of who keeps their own configuration in a repository.
#[tokio::test]
async fn configuration_of_the_user_that_lies_in_the_work_is_held() {
    let hook = "HOOK > HERE; chmod +x HERE";
    for (what, prepare, attack, then) in [
        (
            "a link to it",
            "mv ROOT/home/.gitconfig gitconfig; ln -s ROOT/work/gitconfig ROOT/home/.gitconfig",
            "POISON >> gitconfig".to_owned(),
            "git status",
        ),
        (
            "a link to its folder",
            "mkdir -p cg ROOT/home/.config; touch cg/config; ln -s ROOT/work/cg ROOT/home/.config/git",
            "POISON >> cg/config".to_owned(),
            "git status",
        ),
        (
            "a template",
            "mkdir -p tpl/hooks; git config --global init.templateDir ROOT/work/tpl",
            hook.replace("HERE", "tpl/hooks/pre-commit"),
            "unset GIT_TEMPLATE_DIR; git init -q ROOT/new; cd ROOT/new; git commit -q --allow-empty -m x",
        ),
        (
            "a program in another folder",
            "mkdir tools; printf '#!/bin/sh\nfalse\n' > tools/f.sh; chmod +x tools/f.sh; git config core.fsmonitor 'cd tools && ./f.sh'",
            hook.replace("HERE", "tools/f.sh"),
            "git status",
        ),
    ] {
        attempt(what, prepare, &[&[&attack]], then).await;
    }
}

/// A link leads to it from the working directory, where somebody could follow it.
#[tokio::test]
async fn a_repository_in_the_temporary_folder_runs_nothing() {
    // A command sees that folder at `/tmp` alone, and may guess what it is called on the host.
    let r = "r=/tmp/r; [ \"$TMPDIR\" = /tmp ] || { r=ROOT/state/tmp/r; mkdir -p ROOT/state/tmp; };";
    let made = "git init -q $r; POISON >> $r/.git/config; ln -s ROOT/state/tmp/r sub; \
                git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub";
    let (made, again) = (format!("{r} {made}"), format!("{r} POISON >> $r/.git/config"));
    for attack in [&[&*made][..], &[&made, &again]] {
        let said = attempt("a link to it", "true", &[attack], "cd sub && git status").await;
        assert_eq!(said.matches("core.fsmonitor").count(), attack.len(), "{said}");
    }
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

/// What a session needs to undo is written down before a command starts; whoever comes after a killed one finds it.
#[tokio::test]
async fn what_a_killed_session_left_in_folders_of_git_is_put_aside() {
    let user = User::new();
    outside(&user, &format!("{LIB}; mkdir .git/tool; echo mine > .git/tool/x; git worktree add -q ../wt"));
    let session = user.session();
    session.good("ls").await;
    let records = user.at("state/caches/git-configs");
    let left: Vec<(String, Vec<u8>)> = fs::read_dir(&records)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name() != "lock")
        .map(|entry| {
            (format!("left-{}", entry.file_name().to_string_lossy()), fs::read(entry.path()).unwrap())
        })
        .collect();
    drop(session);
    for (name, record) in left {
        fs::write(records.join(name), record).unwrap();
    }
    let before = fs::read(user.at("work/.git/modules/p/lib/config")).unwrap();
    outside(
        &user,
        "cd .git; echo /none > modules/p/lib/commondir; POISON > worktrees/wt/config.worktree; echo x > new; \
         mkdir rebase-merge; printf 'pick 1\\nexec touch RAN\\n' > rebase-merge/git-rebase-todo; \
         mkdir modules/n; cp -r modules/p/lib/HEAD modules/p/lib/objects modules/n; POISON > modules/n/config; \
         mkdir worktrees/n; echo /none > worktrees/n/commondir; echo /none > worktrees/n/gitdir",
    );
    let session = user.session();
    let notes = session.sandbox.notes().join("\n");
    let git = |path: &str| user.at("work/.git").join(path);
    for gone in ["modules/p/lib/commondir", "worktrees/wt/config.worktree", "new", "worktrees/n/commondir"] {
        assert!(!git(gone).exists(), "{gone}: {notes}");
        assert!(notes.contains(gone), "{gone}: {notes}");
    }
    assert_eq!(fs::read_to_string(git("rebase-merge/git-rebase-todo")).unwrap(), "pick 1\n");
    assert!(!fs::read_to_string(git("modules/n/config")).unwrap_or_default().contains("fsmonitor"));
    // Nothing of the user's.
    assert_eq!(fs::read(git("modules/p/lib/config")).unwrap(), before);
    assert_eq!(fs::read_to_string(git("tool/x")).unwrap(), "mine\n");
    assert!(git("config").is_file() && git("worktrees/wt/commondir").is_file());
}
