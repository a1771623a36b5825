//! Worktrees: real git, real files, and nothing lost.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::room::{Ran, Room};
use crate::run::{object, play, with_script};

/// Runs git in a folder of the room.
fn git(dir: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=x", "-c", "user.email=x@x.io"]).args(args).current_dir(dir);
    let output = git.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A room whose `work` is a repository with one commit, and a script.
fn repository(script: &Value) -> Room {
    let room = with_script(&script.to_string());
    let work = room.path("work");
    git(&work, &["init", "-q", "-b", "trunk"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    room
}

fn call(name: &str, input: Value) -> Value {
    json!({"tool_calls": [{"name": name, "input": input}]})
}

fn bash(command: &str) -> Value {
    call("Bash", json!({"command": command}))
}

fn main(turns: &[Value]) -> Value {
    let turns: Vec<Value> = turns.iter().cloned().chain([json!({"text": "Done."})]).collect();
    json!({"turns": turns})
}

const COMMIT: &str = "git -c user.name=x -c user.email=x@x.io commit -q -m second";
const ALLOWED: [&str; 9] =
    ["go", "--output", "json", "--allow", "EnterWorktree", "--allow", "Write", "--allow", "Bash"];

fn results(ran: &Ran) -> Vec<String> {
    let found = object(ran);
    let result = |call: &Value| {
        let words = call["error"]["message"].as_str().map(|words| format!("error: {words}"));
        words.unwrap_or_else(|| call["result"].as_str().unwrap_or_default().to_owned())
    };
    found["calls"].as_array().unwrap().iter().map(result).collect()
}

#[test]
fn files_and_commands_move_into_a_worktree_and_back() {
    let room = repository(&main(&[
        bash("echo before > before.txt; pwd"),
        call("EnterWorktree", json!({"name": "try"})),
        call("Write", json!({"file_path": "new.txt", "content": "x"})),
        bash("pwd; echo y > by-command.txt; git branch --show-current; git status --short"),
        call("Read", json!({"file_path": "notes.txt"})),
        call("Write", json!({"file_path": "../../../out.txt", "content": "x"})),
        call("EnterWorktree", json!({"name": "other"})),
        call("ExitWorktree", json!({})),
        bash("pwd; ls"),
    ]));
    // Edits run by the mode, so that its scope decides and no rule.
    let more = "go --output json --allow EnterWorktree --allow Bash --permission-mode acceptEdits";
    let more: Vec<&str> = more.split(' ').collect();
    let found = results(&play(&room, &more));
    let at = room.path("work/.haft/worktrees/try");
    assert!(
        found[1].starts_with("working directory: ROOM/work/.haft/worktrees/try\nbranch: haft/try"),
        "{found:#?}"
    );
    assert!(at.join("new.txt").exists() && at.join("by-command.txt").exists(), "{found:#?}");
    assert!(found[3].starts_with("ROOM/work/.haft/worktrees/try\nhaft/try"), "{found:#?}");
    assert!(found[4].contains("three"), "{found:#?}");
    assert!(found[5].contains("outside of the working directories"), "{found:#?}");
    assert!(!room.path("work/out.txt").exists());
    assert!(found[6].contains("you are in the worktree"), "{found:#?}");
    assert!(
        found[7].contains("stays in `ROOM/work/.haft/worktrees/try`, on the branch `haft/try`"),
        "{found:#?}"
    );
    assert!(found[8].starts_with("ROOM/work\n") && !found[8].contains("new.txt"), "{found:#?}");
    // What is left is found by git, and not in the way of the checkout.
    let work = room.path("work");
    assert!(git(&work, &["worktree", "list"]).contains(".haft/worktrees/try"));
    assert_eq!(git(&work, &["status", "--short"]), "?? before.txt");
}

#[test]
fn nothing_is_removed_that_would_be_lost() {
    let remove = call("ExitWorktree", json!({"action": "remove"}));
    let discard = call("ExitWorktree", json!({"action": "remove", "discard_changes": true}));
    let room = repository(&main(&[
        call("EnterWorktree", json!({"name": "try"})),
        call("Write", json!({"file_path": "new.txt", "content": "x"})),
        remove.clone(),
        bash(&format!("git add . && {COMMIT}")),
        remove.clone(),
        discard,
        // Merged elsewhere, it may go.
        bash("git branch kept"),
        remove,
        bash("pwd"),
    ]));
    // Nobody can be asked, and in no mode is anything lost without a question.
    let mut args = ALLOWED.to_vec();
    args.extend(["--permission-mode", "bypassPermissions"]);
    let found = results(&play(&room, &args));
    assert!(found[2].contains("was not removed: it has 1 changed file\n  ?? new.txt"), "{found:#?}");
    assert!(found[4].contains("it has 1 commit that no other branch has"), "{found:#?}");
    assert!(found[5].contains("it removes 1 commit that no other branch has"), "{found:#?}");
    assert!(found[5].contains("nobody can be asked"), "{found:#?}");
    assert!(found[7].contains("the worktree `try` and its branch `haft/try` were removed"), "{found:#?}");
    assert!(found[8].starts_with("ROOM/work"), "{found:#?}");
    let work = room.path("work");
    assert!(!room.path("work/.haft/worktrees/try").exists());
    assert_eq!(git(&work, &["branch", "--format=%(refname:short)"]), "kept\ntrunk");
    assert_eq!(git(&work, &["log", "-1", "--format=%s", "kept"]), "second");
}

#[test]
fn a_worktree_that_was_left_can_be_entered_again() {
    let room = repository(&main(&[
        call("EnterWorktree", json!({"name": "try"})),
        call("Write", json!({"file_path": "new.txt", "content": "x"})),
    ]));
    play(&room, &ALLOWED);
    let again = main(&[call("EnterWorktree", json!({"name": "try"})), bash("ls")]);
    room.write("script.json", &again.to_string());
    let found = results(&play(&room, &ALLOWED));
    assert!(found[0].contains("went on in the worktree"), "{found:#?}");
    assert!(found[1].contains("new.txt"), "{found:#?}");
}

#[test]
fn where_there_can_be_none_it_is_said() {
    let enter = |name: &str| call("EnterWorktree", json!({"name": name}));
    let script = main(&[enter("a/b"), enter("--force"), enter("fine"), call("ExitWorktree", json!({}))]);
    let room = with_script(&script.to_string());
    let found = results(&play(&room, &ALLOWED));
    assert!(found[0].contains("`name` must begin with") && found[1].contains("`name` must"), "{found:#?}");
    assert!(found[2].contains("is not the top of a git repository"), "{found:#?}");
    assert!(found[3].contains("you are in no worktree"), "{found:#?}");
    let room = with_script(&script.to_string());
    git(&room.path("work"), &["init", "-q"]);
    let found = results(&play(&room, &ALLOWED));
    assert!(found[2].contains("has no commit yet"), "{found:#?}");
    assert!(!room.path("work/.haft/worktrees/fine").exists());
}

/// A rule for the checkout's files holds for the same files in a worktree: moving lifts no rule.
#[test]
fn rules_of_the_checkout_hold_in_a_worktree() {
    let room = repository(&main(&[
        call("EnterWorktree", json!({"name": "try"})),
        call("Write", json!({"file_path": "src/main.rs", "content": "x"})),
        bash("echo x > src/main.rs"),
        call("Read", json!({"file_path": "notes.txt"})),
        call("Grep", json!({"pattern": "three", "output_mode": "content"})),
        call("Write", json!({"file_path": "src/other.rs", "content": "x"})),
    ]));
    let mut args = ALLOWED.to_vec();
    args.extend(["--deny", "Edit(/src/main.rs)", "--deny", "Read(/notes.txt)"]);
    let found = results(&play(&room, &args));
    assert!(found[0].starts_with("working directory"), "{found:#?}");
    for at in [1, 2, 3] {
        assert!(found[at].contains("denied by rule"), "{at}: {found:#?}");
    }
    assert!(!found[4].contains("notes.txt"), "{found:#?}");
    assert!(!found[5].starts_with("error"), "{found:#?}");
    let file = room.path("work/.haft/worktrees/try/src/main.rs");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "fn main() {}\n");
}

#[test]
fn an_agent_can_work_in_a_worktree_of_its_own() {
    let task = |prompt: &str| json!({"name": "Agent", "input": {"description": "a task", "prompt": prompt, "isolation": "worktree"}});
    let write = call("Write", json!({"file_path": "new.txt", "content": "x"}));
    let script = json!({
        "turns": [{"tool_calls": [task("CHANGE"), task("LOOK")]}, {"text": "Done."}],
        "agents": [
            {"when": {"contains": "CHANGE"}, "turns": [write, {"text": "Changed."}]},
            {"when": {"contains": "LOOK"}, "turns": [call("Read", json!({"file_path": "notes.txt"})), {"text": "Looked."}]},
        ],
    });
    let room = repository(&script);
    let mut args = ALLOWED.to_vec();
    args.extend(["--allow", "Agent"]);
    let found = results(&play(&room, &args));
    assert!(found[0].starts_with("Changed.\n\n[its worktree `ROOM/work/.haft/worktrees/"), "{found:#?}");
    assert!(found[0].contains("was kept: it has 1 changed file"), "{found:#?}");
    assert_eq!(found[1], "Looked.\n\n[its worktree was removed: nothing was changed in it]");
    assert!(!room.path("work/new.txt").exists());
    let work = room.path("work");
    let kept: Vec<_> = std::fs::read_dir(work.join(".haft/worktrees"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].join("new.txt").exists());
    assert_eq!(git(&work, &["branch", "--list", "haft/*"]).lines().count(), 1);
}

fn apart(prompt: &str) -> Value {
    call("Agent", json!({"description": "a task", "prompt": prompt, "isolation": "worktree"}))
}

/// With one agent, which does nothing.
fn with_agent(turns: &[Value]) -> Value {
    let mut script = main(turns);
    script["agents"] = json!([{"when": {"contains": "LOOK"}, "turns": [{"text": "Looked."}]}]);
    script
}

/// What a repository names is started by nothing of ours: not by a checkout, not by a look, not by removing.
#[test]
fn no_program_of_the_repository_is_started() {
    let room = repository(&with_agent(&[
        call("EnterWorktree", json!({"name": "try"})),
        call("ExitWorktree", json!({})),
        call("EnterWorktree", json!({"name": "try"})),
        call("Read", json!({"file_path": "notes.txt"})),
        call("Write", json!({"file_path": "notes.txt", "content": "x"})),
        call("ExitWorktree", json!({"action": "remove"})),
        call("ExitWorktree", json!({})),
        apart("LOOK"),
    ]));
    let work = room.path("work");
    let names = ["plain", "a=b", "Two.parts", "process", "there"];
    let attributes: String = names.iter().map(|name| format!("{name}.f filter={name}\n")).collect();
    room.write("work/.gitattributes", &format!("{attributes}notes.txt filter=plain\n"));
    for name in names {
        room.write(&format!("work/{name}.f"), "as it is\n");
    }
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "second"]);
    // Only then, so that nothing of the above starts one.
    let ran = |name: &str| room.path(&format!("ran-{name}"));
    let touch = |name: &str| format!("touch '{}'; cat", ran(name).display());
    for name in ["plain", "a=b", "Two.parts"] {
        git(&work, &["config", &format!("filter.{name}.smudge"), &touch(name)]);
        git(&work, &["config", &format!("filter.{name}.clean"), &touch(name)]);
        git(&work, &["config", &format!("filter.{name}.required"), "true"]);
    }
    git(&work, &["config", "filter.process.process", &touch("process")]);
    // One that is there only in a worktree.
    let more = room.path("more.config");
    git(&work, &["config", "--file", more.to_str().unwrap(), "filter.there.smudge", &touch("there")]);
    git(&work, &["config", "--file", more.to_str().unwrap(), "filter.there.clean", &touch("there")]);
    git(&work, &["config", "includeIf.gitdir:**/worktrees/**.path", more.to_str().unwrap()]);
    let more = ["--allow", "ExitWorktree", "--allow", "Agent"];
    for sandbox in [&[][..], &["--no-sandbox"]] {
        let args: Vec<&str> = ALLOWED.iter().chain(&more).chain(sandbox).copied().collect();
        let found = results(&play(&room, &args));
        for name in names {
            assert!(!ran(name).exists(), "{name} {sandbox:?}: {found:#?}");
        }
        assert!(found[0].starts_with("working directory"), "{found:#?}");
        assert!(found[5].contains("it has 1 changed file\n   M notes.txt"), "{found:#?}");
        assert_eq!(
            found[7], "Looked.\n\n[its worktree was removed: nothing was changed in it]",
            "{found:#?}"
        );
        if sandbox.is_empty() {
            let said = "filters, which were not run; files that need one are as they were committed: `Two.parts`, \
                        `a=b`, `plain`, `process`, `there`";
            assert!(found[0].contains(said), "{found:#?}");
            let file =
                |name: &str| std::fs::read_to_string(work.join(".haft/worktrees/try").join(name)).unwrap();
            assert!(names.iter().all(|name| file(&format!("{name}.f")) == "as it is\n"));
        }
    }
}

/// A remote names programs too, and a repository can lack what it says the remote has.
#[test]
fn nothing_is_fetched_for_a_worktree() {
    let room = repository(&with_agent(&[call("EnterWorktree", json!({"name": "try"})), apart("LOOK")]));
    let work = room.path("work");
    let blob = git(&work, &["rev-parse", "HEAD:notes.txt"]);
    git(&work, &["clone", "-q", "--bare", ".", room.path("remote").to_str().unwrap()]);
    std::fs::remove_file(work.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let ran = room.path("ran");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", room.path("remote").to_str().unwrap()),
        ("remote.origin.uploadpack", &format!("touch '{}'; git-upload-pack", ran.display())),
        ("protocol.allow", "always"),
    ] {
        git(&work, &["config", key, value]);
    }
    let args: Vec<&str> = ALLOWED.iter().chain(&["--allow", "Agent"]).copied().collect();
    let found = results(&play(&room, &args));
    assert!(found[0].contains("git refused") && found[1].contains("git refused"), "{found:#?}");
    assert!(!ran.exists(), "{found:#?}");
    // What was begun is gone again.
    assert_eq!(git(&work, &["branch", "--list", "haft/*"]), "");
    assert!(!work.join(".haft/worktrees/try").exists());
}

/// A link that the repository has would lead git out of the working directory.
#[test]
fn no_link_leads_to_a_worktree() {
    let links = [(".haft", "../victim"), (".haft/worktrees", "../../victim"), (".haft/worktrees", "../src")];
    for (link, target) in links {
        let room = repository(&with_agent(&[call("EnterWorktree", json!({"name": "try"})), apart("LOOK")]));
        let work = room.path("work");
        room.write("victim/kept", "");
        let link = work.join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        let args: Vec<&str> = ALLOWED.iter().chain(&["--allow", "Agent"]).copied().collect();
        let found = results(&play(&room, &args));
        assert!(found[0].starts_with("error: "), "{target}: {found:#?}");
        assert!(found[1].contains("there can be no worktree in `ROOM/work/.haft/worktrees/"), "{found:#?}");
        assert_eq!(std::fs::read_dir(room.path("victim")).unwrap().count(), 1, "{target}: {found:#?}");
        assert_eq!(std::fs::read_dir(work.join("src")).unwrap().count(), 1, "{target}: {found:#?}");
        assert_eq!(git(&work, &["branch", "--list", "haft/*"]), "", "{target}");
    }
    // Nor is one followed that hides the folder.
    let room = repository(&with_agent(&[call("EnterWorktree", json!({"name": "try"}))]));
    std::fs::create_dir_all(room.path("work/.haft/worktrees")).unwrap();
    std::os::unix::fs::symlink("../../../planted", room.path("work/.haft/worktrees/.gitignore")).unwrap();
    let found = results(&play(&room, &ALLOWED));
    assert!(found[0].starts_with("working directory") && !room.path("planted").exists(), "{found:#?}");
}

/// What outlives the session waits for the plan, whatever rules allow.
#[test]
fn a_plan_makes_no_worktree_and_keeps_no_prompt() {
    let cron = |durable: bool| json!({"cron": "0 9 * * *", "prompt": "x", "durable": durable});
    let room = repository(&with_agent(&[
        apart("LOOK"),
        call("CronCreate", cron(true)),
        call("CronCreate", cron(false)),
        call("Agent", json!({"description": "a task", "prompt": "LOOK"})),
    ]));
    let more = ["--allow", "Agent", "--allow", "CronCreate", "--permission-mode", "plan"];
    let args: Vec<&str> = ALLOWED.iter().chain(&more).copied().collect();
    let found = results(&play(&room, &args));
    assert!(
        found[0]
            .contains("it changes the worktrees of the repository, and nothing is changed before the plan"),
        "{found:#?}"
    );
    assert!(
        found[1].contains(
            "it changes what is planned for later sessions, and nothing is changed before the plan"
        ),
        "{found:#?}"
    );
    assert!(found[2].starts_with("planned") && found[3] == "Looked.", "{found:#?}");
    assert!(!room.path("work/.haft").exists());
}
