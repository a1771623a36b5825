//! `haft run` on a terminal: tmux shows it, and presses keys.

use std::fs;

use crate::stage::{Stage, has_tmux};

const SCRIPT: &str = r#"
turns:
  - text: I write it down.
    tool_calls:
      - {name: Write, input: {file_path: note.txt, content: "one\ntwo\n"}}
  - text: "It is **there**."
  - tool_calls:
      - {name: Bash, input: {command: "rm note.txt", description: Removes it}}
  - text: As you like.
"#;

/// A terminal in which `haft run` plays a script.
fn play(arguments: &str) -> Stage {
    let stage = Stage::open(100, 36);
    fs::write(stage.beside("script.yaml"), SCRIPT).unwrap();
    start(&stage, arguments);
    stage
}

fn start(stage: &Stage, arguments: &str) {
    stage.start(&format!(
        "HAFT_CONFIG_DIR={} HAFT_STATE_DIR={} {} run --script {} {arguments}",
        stage.beside("config").display(),
        stage.beside("state").display(),
        env!("CARGO_BIN_EXE_haft"),
        stage.beside("script.yaml").display(),
    ));
}

#[track_caller]
fn shell_is_back(stage: &Stage) -> String {
    // A key that came too late for the program is echoed before the prompt.
    let prompt = |line: &str| line.trim_end().trim_start_matches("^C") == "$";
    stage.until("the shell", |screen| screen.lines().last().is_some_and(prompt))
}

#[test]
fn a_conversation_on_a_terminal() {
    if !has_tmux() {
        return;
    }
    let stage = play("");
    stage.see("mode default");
    stage.type_("/tools");
    stage.key("Enter");
    stage.see("side by side");
    stage.type_("write it down");
    stage.key("Enter");
    let asked = stage.see("1 once");
    assert!(asked.contains("? Write   note.txt") && !stage.folder().join("note.txt").exists(), "{asked}");
    stage.type_("1");
    let done = stage.see("It is there.");
    assert!(done.contains("✓ Write") && done.contains("> write it down"), "{done}");
    assert_eq!(fs::read_to_string(stage.folder().join("note.txt")).unwrap(), "one\ntwo\n");
    stage.key("BTab");
    stage.see("mode acceptEdits");
    stage.type_("/mode plan");
    stage.key("Enter");
    stage.see("mode plan ·");
    stage.type_("/mode default");
    stage.key("Enter");
    stage.see("mode default ·");
    stage.type_("/permissions");
    stage.key("Enter");
    stage.see("trust ");
    stage.until("the end of the run", |screen| !screen.contains("ctrl-c stops"));
    stage.type_("now remove it");
    stage.key("Enter");
    let asked =
        stage.until("a question", |screen| screen.contains("1 once") && screen.contains("rm note.txt"));
    assert!(!asked.contains("CAREFUL"), "a copy is kept: {asked}");
    stage.type_("5");
    stage.see("enter sends it, escape goes back");
    stage.type_("I need it");
    stage.key("Enter");
    stage.see("As you like.");
    assert!(stage.folder().join("note.txt").exists());
    stage.type_("/cost");
    stage.key("Enter");
    stage.see("4 turns");
    stage.type_("/exit");
    stage.key("Enter");
    shell_is_back(&stage);
    let modes = stage.modes();
    assert!(!modes.contains("-icanon") && !modes.contains("-echo ") && !modes.contains("-isig"), "{modes}");
    // What was typed is remembered.
    start(&stage, "");
    stage.see("/help");
    stage.key("Up");
    stage.key("Up");
    stage.see("> /cost");
}

#[test]
fn a_prompt_is_answered_and_that_is_all() {
    if !has_tmux() {
        return;
    }
    let stage = play("--permission-mode acceptEdits 'write it down'; echo ended $?");
    let done = stage.see("ended 0");
    assert!(done.contains("● It is there.") && !done.contains("/help"), "the screen is gone: {done}");
    assert!(stage.folder().join("note.txt").exists());
    // Standard output that is no terminal gets the answer, and lines go to standard error.
    fs::remove_file(stage.folder().join("note.txt")).unwrap();
    start(&stage, "--permission-mode acceptEdits 'write it down' > answer.txt; echo ended $?");
    let lines = stage.see("ended 0");
    assert!(lines.contains("✓ Write") && !lines.contains("It is"), "{lines}");
    assert_eq!(fs::read_to_string(stage.folder().join("answer.txt")).unwrap(), "It is **there**.\n");
}

#[test]
fn an_interrupt_ends_it_with_its_code() {
    if !has_tmux() {
        return;
    }
    let stage = play("'write it down'; echo ended $?");
    stage.see("1 once");
    stage.key("C-c");
    stage.see("ended 130");
    // SIGTERM, too, leaves the terminal as it was.
    start(&stage, "");
    stage.see("/help");
    let shell = stage.ask("#{pane_pid}");
    let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let child = children.split_whitespace().next().expect("it runs").to_owned();
    assert!(std::process::Command::new("kill").args(["-TERM", &child]).status().unwrap().success());
    shell_is_back(&stage);
    let modes = stage.modes();
    assert!(!modes.contains("-icanon") && !modes.contains("-echo ") && !modes.contains("-isig"), "{modes}");
}

/// On the live screen.
#[test]
fn nothing_is_left_of_a_tour_that_is_ended_in_the_middle() {
    check_ended_tour("");
}

#[test]
fn nothing_is_left_of_a_tour_line_by_line_that_is_ended_in_the_middle() {
    check_ended_tour("CI=1");
}

fn check_ended_tour(line_by_line: &str) {
    if !has_tmux() {
        return;
    }
    let stage = Stage::open(100, 36);
    fs::create_dir(stage.beside("tmp")).unwrap();
    let left = || {
        let names = fs::read_dir(stage.beside("tmp")).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("haft-tour-")).collect::<Vec<_>>()
    };
    let keys = "-u ANTHROPIC_API_KEY -u OPENAI_API_KEY -u GEMINI_API_KEY";
    for end in ["C-c", "-QUIT"] {
        let tmp = stage.beside("tmp");
        stage.start(&format!(
            "env {keys} {line_by_line} TMPDIR={} {} run",
            tmp.display(),
            env!("CARGO_BIN_EXE_haft")
        ));
        stage.see(" once   ");
        assert_eq!(left().len(), 1);
        if end == "C-c" {
            (0..3).for_each(|_| stage.key(end));
        } else {
            let shell = stage.ask("#{pane_pid}");
            let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
            let child = children.split_whitespace().next().expect("it runs").to_owned();
            assert!(std::process::Command::new("kill").args([end, &child]).status().unwrap().success());
        }
        shell_is_back(&stage);
        assert!(left().is_empty(), "{end}: {:?}", left());
        let modes = stage.modes();
        assert!(!modes.contains("-icanon") && !modes.contains("-isig"), "{end}: {modes}");
    }
}
