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
