//! Tasks, plans, skills, settings and planned prompts in real sessions.

use std::fs;

use serde_json::{Value, json};

use crate::room::{Ran, Room};
use crate::run::{object, play, with_script};
use crate::stage::{Stage, has_tmux};

/// What the calls of a run came to: the result's text, or its error.
fn results(ran: &Ran) -> Vec<String> {
    let found = object(ran);
    let of = |call: &Value| match call["error"]["message"].as_str() {
        Some(message) => format!("! {message}"),
        None => call["result"].to_string(),
    };
    found["calls"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn tasks_are_shown_while_they_are_worked_on() {
    let todo = |content: &str, status: &str| json!({"content": content, "status": status});
    let script = json!({"turns": [
        {"tool_calls": [{"name": "TodoWrite", "input": {"todos": [todo("read it", "completed"), todo("write it", "in_progress")]}}]},
        {"tool_calls": [{"name": "TaskCreate", "input": {"subject": "test it", "description": "all of it", "blockedBy": ["2"]}}]},
        {"tool_calls": [{"name": "TaskUpdate", "input": {"taskId": "3", "status": "in_progress"}}]},
        {"tool_calls": [{"name": "TaskList"}]},
        {"text": "Noted.", "expect": [{"result": 0, "contains": "#3 [pending] test it [waits for #2]"}]},
    ]});
    let ran = play(&with_script(&script.to_string()), &["go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Noted.\n"), "{ran:?}");
    assert!(ran.stderr.contains("✓ TodoWrite write it"), "{}", ran.stderr);
    assert!(ran.stderr.contains("| ☑ read it\n      | ▸ write it"), "{}", ran.stderr);
    assert!(ran.stderr.contains("#3 waits for #2, so it can't be in progress yet"), "{}", ran.stderr);
}

#[test]
fn a_single_call_says_that_it_has_no_memory() {
    let room = Room::new();
    let called = room.say(&["call", "TodoWrite", r#"{"todos": [{"content": "a", "status": "pending"}]}"#]);
    assert_eq!(
        (called.code, called.stdout.as_str()),
        (Some(0), "0 of 1 done, 0 in progress\n"),
        "{called:?}"
    );
    assert!(called.stderr.contains("a single call has no memory"), "{called:?}");
    let asked = room.say(&["call", "AskUserQuestion", r#"{"questions": [{"question": "Why?"}]}"#]);
    assert_eq!(asked.code, Some(1), "{asked:?}");
    assert!(asked.stderr.contains("AskUserQuestion can't be used"), "{asked:?}");
    let planned = room.say(&["call", "CronCreate", r#"{"cron": "0 9 * * *", "prompt": "x"}"#]);
    assert!(planned.code == Some(1) && planned.stderr.contains("set `durable`"), "{planned:?}");
}

/// Plan mode holds for the agents that a model starts as well, whatever they ask for.
#[test]
fn nothing_is_changed_while_a_plan_is_made() {
    let write = |path: &str| json!({"name": "Write", "input": {"file_path": path, "content": "x"}});
    let script = json!({"turns": [
        {"tool_calls": [write("mine.txt"), {"name": "Bash", "input": {"command": "touch shell.txt"}},
            {"name": "Agent", "input": {"description": "writes", "prompt": "write it", "subagent_type": "general"}}]},
        {"text": "Nothing."}],
        "agents": [{"when": {"contains": "write it"}, "turns": [{"tool_calls": [write("theirs.txt")]}, {"text": "I could not."}]}],
    });
    let room = with_script(&script.to_string());
    let allowed = ["--allow", "Write", "--allow", "Bash"];
    let mut args = vec!["go", "--output", "json", "--permission-mode", "plan"];
    args.extend(allowed);
    let ran = play(&room, &args);
    let said = results(&ran);
    assert!(said[0].contains("nothing is changed before the plan was approved"), "{said:?}");
    assert!(said[1].contains("mode `plan`"), "{said:?}");
    for file in ["mine.txt", "shell.txt", "theirs.txt"] {
        assert!(!room.path("work").join(file).exists(), "{file}: {said:?}");
    }
}

#[test]
fn work_is_held_against_a_plan() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "Write", "input": {"file_path": "src/a.rs", "content": "fn a() {}\n"}}]},
        {"tool_calls": [{"name": "Bash", "input": {"command": "grep -c fn src/a.rs"}}]},
        {"tool_calls": [{"name": "VerifyPlan", "input": {"plan": "1. Write `src/a.rs`\n2. Run `grep -c fn src/a.rs`\n3. Update `README.md`\n"}}]},
        {"text": "Two of three.", "expect": [{"result": 0, "contains": "2 of 3 steps: 2 done, 0 different, 1 missing"}]},
    ]});
    let ran = play(&with_script(&script.to_string()), &["go", "--allow", "Write", "--allow", "Bash(grep *)"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "Two of three.\n"), "{ran:?}");
    assert!(ran.stderr.contains("| missing   3 Update `README.md`"), "{}", ran.stderr);
}

#[test]
fn settings_say_where_they_come_from_and_hide_secrets() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "Config"}]},
        {"tool_calls": [{"name": "Config", "input": {"setting": "permissions.mode"}}]},
        {"text": "ok"},
    ]});
    let room = with_script(&script.to_string());
    room.write(
        "home/.config/haft/settings.json",
        "{\n\"env\": {\"MY_TOKEN\": \"hunter2\"},\n\"permissions\": {\"deny\": [\"Bash(rm *)\"]}}",
    );
    let ran = play(&room, &["go", "--output", "json", "--permission-mode", "acceptEdits"]);
    let said = results(&ran);
    assert!(said[0].contains("settings.json:3") && said[0].contains("Bash(rm *)"), "{said:?}");
    assert!(said[0].contains("env.MY_TOKEN") && !said[0].contains("hunter2"), "{said:?}");
    assert!(said[1].contains("acceptEdits") && said[1].contains("this session, now"), "{said:?}");
}

const NOTE: &str = "---\nname: note\ndescription: Writes a note down.\nallowed-tools: Bash(touch *)\n---\nTouch $ARGUMENTS.\n";

#[test]
fn a_skill_of_the_user_lets_its_tools_run_until_the_end_of_the_turn() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "Bash", "input": {"command": "touch early.txt"}}]},
        {"tool_calls": [{"name": "Skill", "input": {"name": "note", "arguments": "late.txt"}}]},
        {"tool_calls": [{"name": "Bash", "input": {"command": "touch late.txt"}}, {"name": "Bash", "input": {"command": "mkdir no"}}],
            "expect": [{"result": 0, "contains": "Touch late.txt."}]},
        {"text": "ok"},
    ]});
    let room = with_script(&script.to_string());
    room.write("home/.config/haft/skills/note/SKILL.md", NOTE);
    let ran = play(&room, &["go", "--output", "json", "--allow", "Skill(note *)"]);
    let said = results(&ran);
    assert!(said[0].starts_with("! Bash was denied"), "{said:?}");
    assert!(said[1].contains("run without being asked about: Bash(touch *)"), "{said:?}");
    assert!(!said[2].starts_with('!') && said[3].starts_with("! Bash was denied"), "{said:?}");
    assert!(room.path("work/late.txt").exists() && !room.path("work/early.txt").exists());
    // Without a yes to the skill nothing of it counts.
    fs::remove_file(room.path("work/late.txt")).unwrap();
    let ran = play(&room, &["go", "--output", "json"]);
    assert!(results(&ran)[1].starts_with("! Skill was denied"), "{ran:?}");
    assert!(!room.path("work/late.txt").exists());
}

/// What a skill of the user is made of can be read, and nothing else outside.
#[test]
fn files_beside_a_skill_can_be_read() {
    let read = |path: &std::path::Path| json!({"name": "Read", "input": {"file_path": path}});
    let room = Room::new();
    let (list, other) = (room.path("home/.config/haft/skills/plain/list.md"), room.path("beside/other.txt"));
    room.write("home/.config/haft/skills/plain/SKILL.md", "# Goes by the list\n\nRead list.md.\n");
    room.write("home/.config/haft/skills/plain/list.md", "first, second\n");
    let script = json!({"turns": [
        {"tool_calls": [read(&list)]},
        {"tool_calls": [{"name": "Skill", "input": {"name": "plain"}}]},
        {"tool_calls": [read(&list), read(&other)]},
        {"text": "ok"},
    ]});
    room.write("script.json", &script.to_string());
    let said = results(&play(&room, &["go", "--output", "json"]));
    assert!(said[0].starts_with("! Read was denied") && said[3].starts_with("! Read was denied"), "{said:?}");
    assert!(said[2].contains("first, second"), "{said:?}");
}

#[test]
fn skills_of_a_workspace_count_once_it_is_trusted() {
    let room = Room::new();
    room.write("work/.claude/skills/review/SKILL.md", "# Reviews code\n\nRead it twice.\n");
    let call = |room: &Room| room.say(&["call", "Skill", r#"{"name": "review"}"#]);
    let before = call(&room);
    assert!(
        before.code == Some(1) && before.stderr.contains("left out: .claude/skills/review/SKILL.md"),
        "{before:?}"
    );
    assert!(room.say(&["trust"]).stdout.contains("  .claude/skills/review/SKILL.md"));
    assert_eq!(room.say(&["trust", "--yes"]).code, Some(0));
    let after = call(&room);
    assert!(after.code == Some(0) && after.stdout.ends_with("Read it twice.\n"), "{after:?}");
    assert!(room.say(&["tools"]).stdout.contains("skills "), "it is offered");
}

#[test]
fn what_was_kept_is_told_to_the_next_session_once() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
        {"text": "I looked.", "expect": [{"prompt": true, "contains": "planned for now with CronCreate (kept-1, `0 9 * * *`):\n\nlook at the build"}]},
    ]});
    let room = with_script(&script.to_string());
    let plan = r#"{"cron": "0 9 * * *", "prompt": "look at the build", "recurring": false, "durable": true}"#;
    let asked = room.say(&["call", "CronCreate", plan]);
    assert!(
        asked.code == Some(1) && asked.stderr.contains("it changes what is planned in this session"),
        "{asked:?}"
    );
    let planned = room.say(&["call", "CronCreate", plan, "--allow", "CronCreate"]);
    assert!(
        planned.stdout.starts_with("planned kept-1  `0 9 * * *`  once, kept for later sessions"),
        "{planned:?}"
    );
    let listed = room.say(&["call", "CronList"]);
    assert!(listed.stdout.contains("look at the build"), "{listed:?}");
    // Its time passes while nobody is there.
    let folder = room.path("home/.local/state/haft/cron");
    let json = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "json");
    let file = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(json).unwrap();
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    kept["crons"][0]["next"] = json!(1_700_000_000);
    fs::write(&file, kept.to_string()).unwrap();
    let ran = play(&room, &["go"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "I looked.\n"), "{ran:?}");
    assert_eq!(room.say(&["call", "CronList"]).stdout, "nothing is planned\n");
    let again = play(&room, &["go"]);
    assert_ne!(again.stdout, "I looked.\n", "it was told: {again:?}");
}

#[test]
fn what_is_planned_for_a_session_ends_with_it() {
    let script = json!({"turns": [
        {"tool_calls": [{"name": "CronCreate", "input": {"cron": "0 0 1 1 *", "prompt": "happy new year"}}]},
        {"text": "Planned."},
    ]});
    let ran = play(&with_script(&script.to_string()), &["go"]);
    assert_eq!(ran.stdout, "Planned.\n");
    assert!(ran.stderr.contains("1 planned prompt ended with the session"), "{ran:?}");
}

const SCREEN: &str = r#"
turns:
  - tool_calls:
      - {name: EnterPlanMode}
  - tool_calls:
      - {name: Write, input: {file_path: plan.txt, content: "x"}}
  - tool_calls:
      - {name: AskUserQuestion, input: {questions: [
          {question: "Which colour?", header: Colour, options: [{label: red, description: warm}, {label: blue}]},
          {question: "Which days?", multiSelect: true, options: [{label: Monday}, {label: Tuesday}, {label: Friday}]},
          {question: "Anything else?"}]}}
  - tool_calls:
      - {name: ExitPlanMode, input: {plan: "1. Write `plan.txt` in blue"}}
    expect:
      - {result: 0, contains: "answer: blue"}
      - {result: 0, contains: "answer: Monday, Friday"}
      - {result: 0, contains: "answer: be quick"}
  - tool_calls:
      - {name: ExitPlanMode, input: {plan: "1. Write `plan.txt` in green"}}
    expect:
      - {result: 0, contains: "rather green"}
  - tool_calls:
      - {name: TodoWrite, input: {todos: [{content: write it, status: in_progress, activeForm: Writing it}, {content: test it, status: pending}]}}
  - text: The plan stands.
"#;

#[test]
fn a_plan_is_made_and_approved_on_a_terminal() {
    if !has_tmux() {
        return;
    }
    let stage = Stage::open(100, 40);
    fs::write(stage.beside("script.yaml"), SCREEN).unwrap();
    stage.start(&format!(
        "HAFT_CONFIG_DIR={} HAFT_STATE_DIR={} {} run --script {}",
        stage.beside("config").display(),
        stage.beside("state").display(),
        env!("CARGO_BIN_EXE_haft"),
        stage.beside("script.yaml").display(),
    ));
    stage.see("mode default");
    stage.type_("plan it");
    stage.key("Enter");
    // Keys count once the question was seen, and then it says which.
    let first = stage.see("or a number; escape answers nothing");
    assert!(first.contains("Colour: Which colour?") && first.contains("  1 red   warm"), "{first}");
    assert!(
        first.contains("mode plan") && first.contains("⊘ Write") && first.contains("denied by mode `plan`"),
        "{first}"
    );
    stage.key("Down");
    stage.key("Down");
    stage.see("▸ 2 blue");
    stage.key("Enter");
    let second = stage.see("space choose, enter sends");
    assert!(second.contains("☐ 3 Friday"), "{second}");
    stage.type_("1");
    stage.see("☑ 1");
    stage.type_("3");
    stage.see("☑ 3 Friday");
    stage.key("Enter");
    let third = stage.see("enter sends it, escape answers nothing");
    assert!(third.contains("? Anything else?"), "{third}");
    stage.type_("be quick");
    stage.key("Enter");
    let plan = stage.see("1 once");
    assert!(
        plan.contains("Write `plan.txt` in blue") && plan.contains("the plan needs your approval"),
        "{plan}"
    );
    assert!(!plan.contains("3 always"), "a plan is approved each time: {plan}");
    stage.type_("5");
    stage.see("enter sends it, escape goes back");
    stage.type_("rather green");
    stage.key("Enter");
    let again =
        stage.until("the second plan", |screen| screen.contains("1 once") && screen.contains("in green"));
    assert!(again.contains("mode plan"), "{again}");
    stage.type_("1");
    let done = stage.see("The plan stands.");
    assert!(done.contains("▸ Writing it") && done.contains("☐ test it"), "{done}");
    stage.see("mode default");
    stage.type_("/exit");
    stage.key("Enter");
}

/// A list of tasks, an approved plan and what files were before: all there when the session is continued.
#[test]
fn a_session_that_is_continued_has_its_tasks_and_checkpoints() {
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    let edit = |old: &str, new: &str| {
        call("Edit", json!({"file_path": "notes.txt", "old_string": old, "new_string": new}))
    };
    let first = vec![
        json!({"tool_calls": [call("TaskCreate", json!({"subject": "keep me", "description": "d"})),
            call("TaskCreate", json!({"subject": "and me", "description": "d", "blockedBy": ["1"]})),
            edit("one", "eins"), edit("two", "zwei"), call("Write", json!({"file_path": "made.bin", "content": "\u{0}x"}))]}),
        json!({"text": "Noted."}),
    ];
    let more = vec![
        json!({"tool_calls": [call("TaskList", json!({})), call("Rewind", json!({"action": "list"}))]}),
        json!({"tool_calls": [call("Rewind", json!({"action": "restore", "to": 2}))]}),
        json!({"tool_calls": [call("TaskUpdate", json!({"taskId": "1", "status": "completed"})), call("Rewind", json!({"action": "list"}))]}),
        json!({"text": "Gone back."}),
    ];
    let last = vec![json!({"tool_calls": [call("TaskList", json!({}))]}), json!({"text": "Bye."})];
    let script = |turns: &[&[Value]]| json!({"turns": turns.concat()}).to_string();
    let room = with_script(&script(&[&first]));
    let allowed = ["--output", "json", "--permission-mode", "acceptEdits"];
    let ran = play(&room, &[&["go"][..], &allowed].concat());
    assert!(results(&ran).iter().all(|said| !said.starts_with('!')), "{ran:?}");

    room.write("script.json", &script(&[&first, &more]));
    let ran = play(&room, &[&["--continue", "and now?"][..], &allowed].concat());
    let said = results(&ran);
    assert!(said[0].contains("#1 [pending] keep me") && said[0].contains("[waits for #1]"), "{said:?}");
    assert!(
        said[1].contains("1\\tchanged notes.txt") && said[1].contains("3\\tcreated made.bin"),
        "{said:?}"
    );
    assert!(!said[2].starts_with('!'), "{said:?}");
    assert_eq!(fs::read_to_string(room.path("work/notes.txt")).unwrap(), "eins\ntwo\nthree\n");
    assert!(!room.path("work/made.bin").exists());
    assert!(said[4].contains("4\\t") && said[4].contains("by Rewind"), "numbers go on: {said:?}");

    room.write("script.json", &script(&[&first, &more, &last]));
    let ran = play(&room, &[&["--continue", "the end"][..], &allowed].concat());
    assert!(results(&ran)[0].contains("#1 [completed] keep me"), "{ran:?}");
    // Another session has none of it.
    room.write("script.json", &script(&[&last]));
    let ran = play(&room, &[&["go"][..], &allowed].concat());
    assert!(results(&ran)[0].contains("no tasks"), "{ran:?}");
}

/// What was done before a session was continued counts as done, and what failed as failed.
#[test]
fn a_plan_is_held_against_what_was_done_before_the_session_was_continued() {
    let call = |name: &str, input: Value| json!({"name": name, "input": input});
    let plan =
        "1. Write `src/a.rs`\n2. Edit `notes.txt`\n3. Run `grep -c fn src/a.rs`\n4. Update `README.md`\n";
    let first = vec![
        json!({"tool_calls": [call("Write", json!({"file_path": "src/a.rs", "content": "fn a() {}\n"})),
            call("Edit", json!({"file_path": "notes.txt", "old_string": "nowhere", "new_string": "x"}))]}),
        json!({"text": "Half of it."}),
    ];
    let more = vec![
        json!({"tool_calls": [call("Bash", json!({"command": "grep -c fn src/a.rs"}))]}),
        json!({"tool_calls": [call("VerifyPlan", json!({"plan": plan}))]}),
        json!({"text": "Done."}),
    ];
    let script = |turns: &[&[Value]]| json!({"turns": turns.concat()}).to_string();
    let room = with_script(&script(&[&first]));
    let allowed = ["--output", "json", "--allow", "Write", "--allow", "Edit", "--allow", "Bash(grep *)"];
    play(&room, &[&["go"][..], &allowed].concat());
    room.write("script.json", &script(&[&first, &more]));
    let said = results(&play(&room, &[&["--continue", "go on"][..], &allowed].concat()));
    let verified = &said[1];
    assert!(verified.contains("4 steps: 2 done, 1 different, 1 missing"), "{verified}");
    assert!(verified.contains("`src/a.rs` was changed (call 1, Write)"), "{verified}");
    assert!(verified.contains("`notes.txt` was not changed: call 2, Edit failed"), "{verified}");
    assert!(verified.contains("(call 3, Bash)"), "{verified}");
}
