//! How much of which repository a command line writes.

use std::path::PathBuf;

use haft_git::{RepositoryLevel, RepositoryUse};
use haft_shell::{Place, analyse};

fn used(line: &str) -> RepositoryUse {
    analyse(line, &Place::new("/repo").with_home("/home/me")).repository_use()
}

fn check(level: RepositoryLevel, lines: &[&str]) {
    for line in lines {
        assert_eq!(used(line).level, level, "{line}");
    }
}

#[test]
fn each_sub_command_has_a_level() {
    check(
        RepositoryLevel::None,
        &[
            "git status",
            "git log -p | head",
            "git diff --stat && git blame a",
            "git -C sub describe",
            "git branch",
            "git branch --list 'x*'",
            "git tag -l",
            "git stash list",
            "git reflog",
            "git remote -v",
            "git remote get-url origin",
            "git worktree list",
            "git config --get user.name",
            "git config -l",
            "git --version",
            "make",
            "cargo build",
            "npm ci",
            "sh t.sh",
            "docker run x git commit",
        ],
    );
    check(
        RepositoryLevel::Data,
        &[
            "git add -A && git commit -m x",
            "git push origin main",
            "git fetch",
            "git pull",
            "git merge x",
            "git rebase -i main",
            "git tag v1",
            "git tag -d v1",
            "git stash",
            "git stash pop",
            "git reflog expire --all",
            "git worktree remove w",
            "git notes add -m x",
            "git st",
            "git \"$@\"",
            "git-commit -m x",
            "sudo git commit -m x",
            "ls | xargs git add",
            "sh -c 'git commit -am x'",
            "find . -name x -exec git rm {} +",
            "gh pr create",
            "jj new",
            "pre-commit run",
            "npm version patch",
            "cargo release patch",
            "lazygit",
            "if x; then git commit; fi",
        ],
    );
    check(
        RepositoryLevel::Configuration,
        &[
            "git config user.name x",
            "git remote add o https://h/r",
            "git fetch && git push -u origin main",
            "git switch -c x",
            "git switch x",
            "git checkout -b x",
            "git branch x",
            "git branch -d x",
            "git submodule update --init",
            "git worktree add ../w",
            "git sparse-checkout set a",
            "gh pr checkout 1",
        ],
    );
}

#[test]
fn folders_are_those_that_git_works_in() {
    let folders = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    for (line, expected) in [
        ("git commit", &["/repo"][..]),
        ("cd sub && git commit", &["/repo/sub"]),
        ("git -C sub commit", &["/repo/sub"]),
        ("cd a && git -C b commit", &["/repo/a/b"]),
        ("git -C /x commit; git remote add o u", &["/x", "/repo"]),
        ("git -C ~/x commit", &["/home/me/x"]),
        ("git -C x status; git commit", &["/repo"]),
        // Not known.
        ("git -C \"$x\" commit", &[]),
        ("cd \"$x\"; git commit", &[]),
        ("git commit; git -C \"$x\" commit", &[]),
        ("make", &[]),
    ] {
        assert_eq!(used(line).folders, folders(expected), "{line}");
    }
}
