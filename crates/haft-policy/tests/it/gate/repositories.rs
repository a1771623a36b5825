//! Programs that git runs in a repository for a read-only command: such a command asks, and names the
//! program.

use std::process::Command;
use std::sync::Arc;

use haft::decision::Verdict;
use haft_policy::gate::PolicyContext;
use serde_json::json;

use super::with;
use crate::room::Room;

/// Returns the verdict on a command in a workspace that a script has created, with the reason.
fn judge(script: &str, command: &str, mode: &'static str) -> (Verdict, String) {
    let room = Room::new();
    let made = Command::new("bash")
        .args(["-ec", script])
        .current_dir(room.at("work"))
        .env("HOME", room.at("home"))
        .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_AUTHOR_NAME", "x"), ("GIT_AUTHOR_EMAIL", "x@x")])
        .envs([("GIT_COMMITTER_NAME", "x"), ("GIT_COMMITTER_EMAIL", "x@x")])
        .output()
        .unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
    let session = with(json!({})).mode(mode).open_in(room, |setup| PolicyContext {
        confined: true,
        full_sandbox: Some(Arc::new(|| true)),
        no_sandbox: false,
        ..setup
    });
    let report = session.explain("Bash", &json!({"command": command}));
    (report.verdict, report.reason)
}

fn check(script: &str, command: &str, runs: bool) {
    let (verdict, reason) = judge(script, command, "default");
    let expected = if runs { Verdict::Allow } else { Verdict::Ask };
    assert_eq!(verdict, expected, "{script}: {command}: {reason}");
}

/// A repository with one commit.
const PLAIN: &str = "git init -q --template= .; echo 1 > f; git add f; git commit -qm 1;";

#[test]
fn a_repository_that_starts_nothing_is_looked_at_unasked() {
    for more in [
        "",
        "git config user.name me; git config core.pager cat; git config core.fsmonitor true",
        "git config credential.helper store; git config branch.x.vscode-merge-base main",
        "git config filter.lfs.clean 'git-lfs clean -- %f'; git config filter.lfs.process 'git-lfs filter-process'",
        "git config core.hooksPath .husky; mkdir .husky; echo true > .husky/pre-commit",
        "echo '[include] path = more' >> .git/config; echo '[user] name = x' > .git/more",
        "git update-index --split-index",
        "mkdir -p .git/hooks; echo true > .git/hooks/pre-commit",
    ] {
        for command in
            ["git status", "git log -p", "cd src && git status", "git -C src diff", "cat f && git diff"]
        {
            check(&format!("{PLAIN} mkdir src; {more}"), command, true);
        }
    }
    check("mkdir a", "git status", true);
    check("git config --global core.fsmonitor evil", "git status", true);
    check(&format!("mkdir sub; cd sub; {PLAIN}"), "git -C sub status && cd sub && git log", true);
}

#[test]
fn a_repository_that_has_git_run_something_asks() {
    for more in [
        "git config core.fsmonitor ./evil",
        "git config core.pager 'sh -c evil'",
        "git config diff.external ./evil",
        "git config diff.x.textconv ./evil",
        "git config filter.x.clean ./evil",
        "git config filter.lfs.clean 'git-lfs clean -- %f; evil'",
        "git config gpg.program ./evil",
        "git config core.sshCommand ./evil",
        "git config remote.x.url 'ext::sh -c evil'",
        "git config alias.x '!evil'",
        "echo '[include] path = ../more' >> .git/config; echo '[core] fsmonitor = ./evil' > more",
        "echo '[includeIf \"gitdir:**\"] path = more' >> .git/config; echo '[core] fsmonitor = ./evil' > .git/more",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./evil",
        "mkdir -p .git/hooks; echo evil > .git/hooks/post-index-change",
        "git config core.hooksPath h; mkdir h; echo evil > h/post-index-change",
        "echo '[broken' >> .git/config",
        "head -c 2000000 /dev/zero | tr '\\0' '#' >> .git/config",
        "echo broken > .git/index",
        // A repository in the index, with its own configuration.
        "git init -q --template= sub; cd sub; echo 1 > f; git add f; git commit -qm 1; git config core.fsmonitor ./evil; cd ..; \
         git add sub 2> /dev/null",
    ] {
        for command in ["git status", "cd src && git log", "git -C src diff", "cat f && git show"] {
            check(&format!("{PLAIN} mkdir src; {more}"), command, false);
        }
        check(&format!("{PLAIN} {more}"), "git --version; cat f", true);
    }
    // A folder that is a repository, one with an external repository, and one below.
    check(
        "mkdir objects refs; echo x > HEAD; echo '[core] fsmonitor = ./evil' > config",
        "git status",
        false,
    );
    check(&format!("mkdir sub; cd sub; {PLAIN} git config core.fsmonitor evil"), "git -C sub status", false);
    check(
        &format!("mkdir sub; cd sub; {PLAIN} git config core.fsmonitor evil"),
        "cd sub && git status",
        false,
    );
    check(
        &format!(
            "mkdir r; cd r; {PLAIN} git config core.fsmonitor evil; cd ..; echo 'gitdir: r/.git' > .git"
        ),
        "git status",
        false,
    );
    check(
        &format!("{PLAIN} mkdir a; git -C a init -q; git -C a config core.fsmonitor evil"),
        "git -C a -C .. status",
        false,
    );
    check(PLAIN, "git -C \"$x\" status", false);
    check(PLAIN, "cd $x && git status", false);
}

#[test]
fn the_question_names_what_would_run() {
    let (_, reason) = judge(&format!("{PLAIN} git config core.fsmonitor ./evil"), "git status", "default");
    assert!(reason.contains("may run what `core.fsmonitor` in"), "{reason}");
    // In `auto` the sandbox confines it, as it confines `make`.
    let (verdict, _) = judge(&format!("{PLAIN} git config core.fsmonitor ./evil"), "git status", "auto");
    assert_eq!(verdict, Verdict::Allow);
}
