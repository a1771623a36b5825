//! Everyday work with git, each in the sandbox and without: it ends the same way and leaves the same files
//! behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use haft::ports::ProcessExit;

use crate::profile::User;

/// Names and times that don't change.
const ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_AUTHOR_NAME", "Me"),
    ("GIT_AUTHOR_EMAIL", "me@example.org"),
    ("GIT_COMMITTER_NAME", "Me"),
    ("GIT_COMMITTER_EMAIL", "me@example.org"),
    ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
    ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_EDITOR", "true"),
    ("LC_ALL", "C"),
];

/// What there is before each of them: two branches that differ, and a repository beside.
const BEFORE: &str = "git commit -q --amend --reset-author -m one; mkdir a b; echo 1 > a/f; echo 2 > b/f; \
    printf 'x\\n*.tmp\\nlib\\nup.git\\n' > .gitignore; git add -A; git commit -qm two; \
    git switch -qc side; echo side > s; git add s; git commit -qm side; git switch -q main; echo main >> a/f; git commit -qam three; \
    git init -q lib; git -C lib commit -q --allow-empty -m lib; git clone -q --bare . up.git; git remote add up ./up.git";

/// Two branches of which each has its own names that other programs execute, and a repository with one.
pub(crate) const TRACKED: &str = "commit() { git add -A; git -c user.name=a -c user.email=a@b commit -qm x; }
    mkdir .vscode; echo 1 > .vscode/tasks.json; echo 1 > .npmrc; commit; git switch -qc side; echo 2 > .vscode/tasks.json; echo 2 > .npmrc; commit
    git switch -q main; git init -q ../lib; cd ../lib; mkdir .vscode sub; echo 3 > .vscode/tasks.json; echo 3 > sub/file; commit; cd ../work; mv ../lib lib";

fn bash(user: &User, script: &str) -> (Option<i32>, String) {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(user.at("work")).env("HOME", user.at("home")).envs(ENVIRONMENT);
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
}

/// Every file that isn't git's, and what git says of the repository.
fn state(user: &User) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![user.at("work")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(user.at("work")).unwrap().display().to_string();
            match path.symlink_metadata().unwrap() {
                // A clone has what the original no longer needs, and that depends on the time.
                found if found.is_dir() && !name.ends_with(".git") => folders.push(path),
                found if found.is_file() => {
                    drop(all.insert(name, fs::read_to_string(&path).unwrap_or_default()))
                }
                _ => {}
            }
        }
    }
    for question in [
        "git status --porcelain=v1 -b --ignored",
        "git for-each-ref",
        "git config --local --list | sort",
        "git config --worktree --list | sort",
        "git stash list; git worktree list",
        "git submodule status",
        "git ls-files -s -t",
    ] {
        all.insert(question.into(), bash(user, question).1);
    }
    for answer in all.values_mut() {
        *answer = answer.replace(&user.root.display().to_string(), "ROOT");
    }
    all
}

/// Runs a workflow in the sandbox at the level that the analysis gives it, and without; returns what differs.
async fn compare(prepared: &User, workflow: &str) -> Option<String> {
    let (plain, user) = (User::unconfined(), User::new());
    let copy = format!(
        "rm -rf .git && cp -a {}/. . && git status --short --untracked-files=no",
        prepared.at("work").display()
    );
    for user in [&plain, &user] {
        let (exit, output) = bash(user, &copy);
        assert_eq!((exit, output.as_str()), (Some(0), ""));
    }
    let expected = bash(&plain, workflow);
    let session = user.session();
    let mut request = session.analysed(workflow);
    request.env.extend(ENVIRONMENT.map(|(name, value)| (name.into(), value.into())));
    let (exit, said, refused) = session.run(request).await;
    let exit = if let ProcessExit::Code(code) = exit { Some(code) } else { None };
    let (before, now) = (state(&plain), state(&user));
    let differs: Vec<String> = before
        .keys()
        .chain(now.keys())
        .filter(|name| before.get(*name) != now.get(*name))
        .map(|name| format!("{name}: {:?} but {:?}", before.get(name), now.get(name)))
        .collect();
    (exit != expected.0 || !differs.is_empty() || !refused.is_empty())
        .then(|| format!("{workflow}: {expected:?} but {exit:?} {said} {refused:?}\n{}", differs.join("\n")))
}

async fn check(workflows: &[&str]) {
    check_after(BEFORE, workflows).await;
}

async fn check_after(before: &str, workflows: &[&str]) {
    let prepared = User::unconfined();
    let (exit, said) = bash(&prepared, before);
    assert_eq!(exit, Some(0), "{said}");
    let mut differ = Vec::new();
    for workflow in workflows {
        differ.extend(compare(&prepared, workflow).await);
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n\n"));
}

#[tokio::test]
async fn commits_and_branches_end_as_without_a_sandbox() {
    check(&[
        "echo x > new && git add -A && git commit -qm new",
        "echo x >> a/f && git commit -qam x && git commit -q --amend -m y",
        "git switch -qc topic && echo x > t && git add t && git commit -qm t && git switch -q main && git merge -q topic",
        "git merge -q side",
    ])
    .await;
}

#[tokio::test]
async fn moved_commits_end_as_without_a_sandbox() {
    check(&[
        "git rebase -q side",
        "git cherry-pick side",
        "git revert --no-edit HEAD",
        "git format-patch -q -1 side --stdout > p && git am -q p",
        "git checkout -q -b x side && git branch -D side",
        "git tag v1 && git tag -a v2 -m two && git describe",
    ])
    .await;
}

#[tokio::test]
async fn the_working_tree_ends_as_without_a_sandbox() {
    check(&[
        "echo x >> a/f && git stash -q && git stash pop -q",
        "echo x >> a/f && git restore a/f && git rm -q b/f && git reset -q --hard",
        "git mv a/f a/g && git commit -qm mv",
        "git sparse-checkout set a",
        "git sparse-checkout set --no-cone /a/ && git sparse-checkout disable",
    ])
    .await;
}

#[tokio::test]
async fn patches_and_upkeep_end_as_without_a_sandbox() {
    check(&[
        "git diff side > p && git apply -R --index p || git status --short",
        "git bisect start -q HEAD HEAD~1 && git bisect run true; git bisect reset -q",
        "git gc -q && git fsck && git reflog expire --all && git notes add -m n",
    ])
    .await;
}

#[tokio::test]
async fn other_repositories_end_as_without_a_sandbox() {
    check(&[
        "git push -q -u up main",
        "git fetch -q up && git switch -qc tracked up/main",
        "git fetch -q up && git branch -q --set-upstream-to=up/main && git pull -q",
        "git remote add o https://example.org/r && git remote rename o p && git remote remove p",
        "git config user.name 'A B' && git config pull.rebase true",
    ])
    .await;
}

#[tokio::test]
async fn new_repositories_end_as_without_a_sandbox() {
    check(&[
        "git clone -q . copy",
        "git clone -q lib copy && git -C copy log --oneline",
        "git init -q sub && git -C sub commit -q --allow-empty -m x",
        "git init -q --bare r.git && git clone -q r.git c && git -C c commit -q --allow-empty -m x && git -C c push -q origin HEAD",
        "git worktree add -q wt side && git -C wt commit -q --allow-empty -m wt && git worktree remove wt",
        "git -c protocol.file.allow=always submodule --quiet add ./lib mod && git commit -qm mod",
    ])
    .await;
}

#[tokio::test]
async fn branches_with_tracked_names_are_switched_as_without_a_sandbox() {
    check_after(
        TRACKED,
        &[
            "git switch -q side",
            "git switch -q side && git switch -q main && git merge -q side",
            "git checkout -q side -- .vscode",
            "git cherry-pick side",
            "git rebase -q side",
        ],
    )
    .await;
}

#[tokio::test]
async fn tracked_names_come_and_go_as_without_a_sandbox() {
    check_after(
        TRACKED,
        &[
            "git rm -rq .vscode && git commit -qm gone",
            "git stash -u -q && git stash pop -q; git clean -fdxq",
            "git -c protocol.file.allow=always submodule --quiet add ./lib mod && git commit -qm mod",
            "git clone -q lib copy",
            "git worktree add -q wt side && git worktree remove wt",
        ],
    )
    .await;
}

/// A command that isn't known to write a repository sees it, and changes nothing in it.
#[tokio::test]
async fn a_command_that_writes_no_repository_can_not() {
    let user = User::new();
    let script = "git status --short && git log --oneline && git commit -q --allow-empty -m x";
    fs::write(user.at("work/release.sh"), script).unwrap();
    let session = user.session();
    let (exit, said, refused) = session.run(session.analysed("sh release.sh")).await;
    assert_ne!(exit, ProcessExit::Code(0), "{said}");
    assert!(
        said.contains("one") && format!("{refused:?}").contains("`sandbox.gitWriters`"),
        "{said} {refused:?}"
    );
    // The user's yes opens what git writes in ordinary work, and no more.
    let granted = |line: &str| {
        let root = haft::files::GrantedRoot::file(user.at("work/.git/index.lock"));
        let access = haft::files::GrantedAccess {
            write: [root].into_iter().collect(),
            ..haft::files::GrantedAccess::default()
        };
        session.analysed(line).with_access(access, Vec::new())
    };
    let (exit, said, _) = session.run(granted("sh release.sh")).await;
    assert_eq!(exit, ProcessExit::Code(0), "{said}");
    let (_, said, _) = session.run(granted("sh -c 'echo evil >> .git/config'")).await;
    assert!(!config(&user.at("work")).contains("evil"), "{said}");
}

fn config(work: &Path) -> String {
    fs::read_to_string(work.join(".git/config")).unwrap()
}
