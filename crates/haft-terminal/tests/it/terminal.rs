use std::fs;
use std::path::Path;

use crate::stage::{Stage, has_tmux};

/// Runs the example with a script, and with a first message if there is one.
fn play(columns: usize, rows: usize, script: &str, words: &str) -> Stage {
    let stage = Stage::open(columns, rows);
    fs::write(stage.beside("script.yaml"), script).unwrap();
    run(&stage, "", words);
    stage
}

fn run(stage: &Stage, environment: &str, words: &str) {
    let this = std::env::current_exe().unwrap();
    let program = this.parent().and_then(Path::parent).unwrap().join("examples/screen");
    assert!(program.exists(), "`cargo test -p haft-terminal` builds the example `screen`");
    let (script, history) = (stage.beside("script.yaml"), stage.beside("history"));
    stage.start(&format!(
        "SCREEN_HISTORY={} {environment} {} {} {words}",
        history.display(),
        program.display(),
        script.display()
    ));
}

/// Asserts that echo, canonical mode and signals are enabled, as a shell needs them.
#[track_caller]
fn check_restored(stage: &Stage) {
    let modes = stage.modes();
    for mode in ["icanon", "echo", "isig", "icrnl", "ixon"] {
        let on = modes.split([' ', '\n', ';']).any(|word| word == mode);
        assert!(on, "`{mode}` is not restored: {modes}");
    }
    assert_eq!(stage.ask("#{cursor_flag} #{wrap_flag}"), "1 1", "the cursor is seen and lines wrap");
}

const TWO: &str = "
turns:
  - text: I'll look at **both** files.
    tool_calls:
      - {name: wait, input: {file: go}}
      - {name: Read, input: {file_path: a.txt}}
      - {name: Read, input: {file_path: b.txt}}
  - text: |
      # Found it
      - the `last` line is dropped
      - 日本 is wide
";

#[test]
fn a_run_is_watched_from_start_to_end() {
    if !has_tmux() {
        return;
    }
    let stage = play(100, 30, TWO, "");
    stage.see("shift-tab changes the mode");
    fs::write(stage.folder().join("a.txt"), "one\ntwo\n").unwrap();
    fs::write(stage.folder().join("b.txt"), "one\n").unwrap();
    stage.type_("why does it drop the last line?");
    stage.key("Enter");
    let running = stage.until("a bar", |screen| screen.contains("look 1") && screen.contains("at once"));
    assert!(running.contains("> why does it drop the last line?"), "{running}");
    assert!(running.contains("● I'll look at both files."), "{running}");
    assert!(running.contains("░"), "a bar: {running}");
    fs::write(stage.folder().join("go"), "").unwrap();
    let done = stage.see("2 turns");
    let lines: Vec<&str> = done.lines().collect();
    let at = lines.iter().position(|line| line.contains("✓ wait")).expect("the outcome is there");
    assert!(lines[at].ends_with('┐'), "{done}");
    assert!(lines[at + 1].contains("✓ Read    a.txt") && lines[at + 1].contains("2 lines"), "{done}");
    assert!(lines[at + 1].contains("│ ") && lines[at + 1].ends_with("at once"), "{done}");
    assert!(lines[at + 2].contains("✓ Read    b.txt") && lines[at + 2].ends_with('┘'), "{done}");
    assert_eq!(
        &lines[at + 3..at + 7],
        ["", "● Found it", "  • the last line is dropped", "  • 日本 is wide"],
        "{done}"
    );
    stage.key("C-d");
    stage.see("left");
    check_restored(&stage);
}

const PROMPT: &str = "
turns:
  - tool_calls:
      - {name: Write, input: {file_path: new.txt, content: \"hello\\n\"}}
      - {name: execute, input: {words: make all}}
      - {name: remove, input: {path: old.txt}}
  - text: Done.
";

#[test]
fn questions_are_answered_one_by_one() {
    if !has_tmux() {
        return;
    }
    let stage = play(100, 30, PROMPT, "go");
    let asked = stage.see("1 once");
    assert!(asked.contains("? Write   new.txt"), "{asked}");
    assert!(asked.contains("writes") && asked.contains("new.txt"), "{asked}");
    assert!(!stage.folder().join("new.txt").exists(), "nothing is written before the answer");
    stage.key("Enter");
    stage.see("is an answer");
    assert!(!stage.folder().join("new.txt").exists(), "enter is no answer");
    stage.type_("1");
    stage.see("allowed once");
    stage.until("the second question", |screen| screen.contains("? execute") && screen.contains("1 once"));
    stage.type_("5");
    stage.see("enter sends it, escape goes back");
    stage.type_("not now");
    stage.key("Enter");
    fs::write(stage.folder().join("old.txt"), "").unwrap();
    let careful =
        stage.until("the third question", |screen| screen.contains("? remove") && screen.contains("1 once"));
    assert!(careful.contains("CAREFUL   it destroys `"), "{careful}");
    stage.type_("4");
    let done = stage.see("turn was ended");
    assert!(done.contains("no, because not now"), "{done}");
    assert_eq!(fs::read_to_string(stage.folder().join("new.txt")).unwrap(), "hello\n");
    assert!(stage.folder().join("old.txt").exists());
}

const BOTH: &str = "
turns:
  - tool_calls:
      - {name: wait, input: {file: go}}
      - {name: execute, input: {words: make all}}
  - text: Done.
";

#[test]
fn keys_that_were_typed_before_a_question_do_not_answer_it() {
    if !has_tmux() {
        return;
    }
    let stage = play(90, 24, BOTH, "go");
    stage.see("look ");
    // The question appears while the user types a message full of y.
    let yes = "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy";
    stage.type_(yes);
    fs::write(stage.folder().join("go"), "").unwrap();
    let asked = stage.see("1 once");
    assert!(asked.contains(&format!("> {yes}")), "they are in the input line: {asked}");
    assert!(!asked.contains("allowed"), "{asked}");
    stage.key("Down");
    stage.see("▸ 1 once");
    stage.key("Enter");
    let done = stage.see("Done.");
    assert!(done.contains("allowed once"), "{done}");
}

#[test]
fn text_that_is_typed_or_pasted_answers_no_question() {
    if !has_tmux() {
        return;
    }
    let stage = play(110, 30, PROMPT, "go");
    stage.see("1 once");
    let unanswered = |what: &str, holds: &dyn Fn(&str) -> bool| {
        let screen = stage.until(what, holds);
        assert!(!screen.contains("allowed") && screen.contains("? Write   new.txt"), "{screen}");
    };
    for text in ["stop", "and please…", "yes, all 3", "N", "y 1 2 3"] {
        stage.type_(text);
        unanswered(text, &|screen| screen.contains(&format!("> {text}")));
        stage.key("C-u");
        unanswered("an empty line", &|screen| screen.lines().any(|line| line.trim_end() == ">"));
    }
    stage.paste("y\n1\n", true);
    unanswered("the paste", &|screen| screen.contains("> y\n  1\n"));
    stage.key("Down");
    stage.see("▸ 1 once");
    assert!(!stage.folder().join("new.txt").exists(), "nothing is written before the answer");
    stage.key("Enter");
    stage.see("allowed once");
    // A message stops what waits, including the question; so do the lines of an unbracketed paste.
    for lines in ["stop\n", "y\n1\n"] {
        let stage = play(110, 30, PROMPT, "go");
        stage.see("1 once");
        stage.paste(lines, false);
        let done = stage.see("2 turns");
        assert!(done.contains("– Write    new.txt") && !done.contains("allowed"), "{done}");
        assert!(!stage.folder().join("new.txt").exists());
    }
}

const HOLDS: &str = "
turns:
  - tool_calls:
      - {name: wait, input: {file: never}}
      - {name: hold, input: {file: go}}
  - text: Went on.
";

#[test]
fn an_interrupt_asks_first_and_then_forces() {
    if !has_tmux() {
        return;
    }
    let stage = play(100, 24, HOLDS, "go");
    stage.until("both calls", |screen| screen.matches("look ").count() == 2);
    stage.key("C-c");
    let stopping = stage.see("still running: hold");
    assert!(stopping.contains("ctrl-c again stops it by force"), "{stopping}");
    stage.key("C-c");
    let done = stage.see("1 turn ·");
    assert!(done.contains("– hold") && done.contains("– wait"), "{done}");
    stage.key("C-c");
    stage.see("ctrl-c again leaves");
    stage.key("C-c");
    stage.see("left");
    check_restored(&stage);
}

#[test]
fn words_that_are_typed_while_calls_run_go_in_with_the_results() {
    if !has_tmux() {
        return;
    }
    let stage = play(100, 24, HOLDS, "go");
    stage.until("both calls", |screen| screen.matches("look ").count() == 2);
    stage.type_("rather look elsewhere");
    stage.key("Enter");
    stage
        .until("the words", |screen| screen.contains("⧗ rather look elsewhere") && screen.contains("– wait"));
    fs::write(stage.folder().join("go"), "").unwrap();
    let done = stage.see("Went on.");
    let position = done.find("> rather look elsewhere").expect("they were said");
    assert!(position < done.find("Went on.").unwrap() && done.find("✓ hold").unwrap() < position, "{done}");
}

#[test]
fn many_questions_can_be_answered_alike() {
    if !has_tmux() {
        return;
    }
    let script = "
turns:
  - tool_calls:
      - {name: question, input: {words: one}}
      - {name: question, input: {words: two}}
      - {name: question, input: {words: three}}
  - text: Done.
";
    let stage = play(100, 24, script, "go");
    stage.until("three questions", |screen| screen.contains("8 all 3 once"));
    stage.type_("8");
    let done = stage.see("Done.");
    assert_eq!(done.matches("allowed once").count(), 3, "{done}");
}

#[test]
fn the_input_line_edits_pastes_and_remembers() {
    if !has_tmux() {
        return;
    }
    let script = "
turns:
  - text: First.
  - text: Second.
";
    let stage = play(60, 24, script, "");
    stage.see("shift-tab");
    stage.type_("/he");
    stage.key("Tab");
    stage.see("> /help");
    stage.key("Enter");
    stage.see("/permissions");
    stage.type_("one 日本");
    stage.key("BSpace");
    stage.key("M-Enter");
    stage.type_("two\\");
    stage.key("Enter");
    stage.type_("three");
    stage.until("three lines", |screen| screen.contains("> one 日\n  two\n  three"));
    stage.key("Enter");
    stage.see("First.");
    stage.until("an empty line", |screen| screen.lines().any(|line| line.trim_end() == ">"));
    stage.key("Up");
    stage.until("the last words", |screen| screen.matches("> one 日\n  two\n  three").count() == 2);
    stage.key("C-c");
    stage.type_("/nope");
    stage.key("Enter");
    stage.see("no command `/nope`");
    stage.key("C-u");
    stage.key("BTab");
    stage.see("mode acceptEdits");
    stage.type_("/exit");
    stage.key("Enter");
    stage.see("left");
    check_restored(&stage);
    // The history outlives the program.
    run(&stage, "", "");
    stage.see("shift-tab");
    stage.key("Up");
    stage.key("Up");
    stage.until("the words of before", |screen| screen.contains("> one 日\n  two\n  three"));
}

const LONG: &str = "
stream: {chunk_chars: 40, chunk_delay_ms: 1}
turns:
  - text: I write a file.
    tool_calls:
      - name: Write
        input: {file_path: long.txt, content: \"CONTENT\"}
  - text: Done.
";

#[test]
fn an_input_streams_into_view_and_not_to_disk() {
    if !has_tmux() {
        return;
    }
    let content: String = (0..1_500).map(|line| format!("line {line} of the file\\n")).collect();
    let stage = play(90, 24, &LONG.replace("CONTENT", &content), "go");
    let writing = stage.until("what is being written", |screen| {
        screen.contains(" Write ") && screen.contains("of the file") && screen.contains("ctrl-c stops")
    });
    assert!(writing.contains("the model writes"), "{writing}");
    assert!(!stage.folder().join("long.txt").exists());
    stage.see("1 once");
    assert!(!stage.folder().join("long.txt").exists());
    stage.type_("1");
    stage.see("Done.");
    assert!(stage.folder().join("long.txt").exists());
}

#[test]
fn another_size_keeps_the_screen_whole() {
    if !has_tmux() {
        return;
    }
    let stage = play(100, 24, PROMPT, "go");
    stage.see("1 once");
    for (columns, rows) in [(50, 20), (120, 30), (40, 16), (100, 24)] {
        stage.resize(columns, rows);
        stage.until("one question and one input line", |screen| {
            let inputs = screen.lines().filter(|line| line.trim_end() == ">").count();
            let fits = screen.lines().all(|line| line.chars().count() <= columns);
            let keys = screen.split_whitespace().collect::<Vec<_>>().join(" ");
            inputs == 1 && fits && screen.matches("? Write").count() == 1 && keys.contains("1 once")
        });
    }
    stage.type_("4");
    stage.see("turn was ended");
}

#[test]
fn signals_and_panics_leave_the_terminal_as_it_was() {
    if !has_tmux() {
        return;
    }
    let script = "
turns:
  - tool_calls:
      - {name: boom, input: {}}
      - {name: wait, input: {file: go}}
  - text: Done.
";
    let stage = play(100, 24, script, "go");
    let running = stage.until("the panic", |screen| {
        screen.contains("panicked: a tool that breaks") && screen.contains("look ")
    });
    assert!(running.contains("boom"), "{running}");
    // Ctrl-Z returns the terminal to the shell, and `fg` takes it back.
    stage.key("C-z");
    stage.until("the shell", |screen| {
        screen.contains("Stopped") || screen.lines().last().is_some_and(|line| line.starts_with('$'))
    });
    check_restored(&stage);
    stage.type_("fg");
    stage.key("Enter");
    stage.until("the screen again", |screen| screen.contains("look ") && screen.contains("/help"));
    // Ending by a signal restores the terminal, too.
    let pid = stage.ask("#{pane_pid}");
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let child = children.split_whitespace().next().expect("the program runs").to_owned();
    let killed = std::process::Command::new("kill").args(["-TERM", &child]).status().unwrap();
    assert!(killed.success());
    stage.until("the shell", |screen| {
        screen.contains("Terminated") || screen.lines().last().is_some_and(|line| line.starts_with('$'))
    });
    check_restored(&stage);
}

#[test]
fn without_colours_and_without_a_terminal() {
    if !has_tmux() {
        return;
    }
    let script = "
turns:
  - text: Some **bold** words.
    tool_calls: [{name: shout, input: {words: hey}}]
  - text: Done.
";
    let stage = play(80, 24, script, "go");
    stage.see("2 turns");
    stage.key("C-d");
    stage.see("left");
    for environment in ["TERM=dumb", "CI=true"] {
        run(&stage, environment, "go");
        let plain = stage.until("lines", |screen| screen.contains("2 turns") && !screen.contains("/help"));
        assert!(plain.contains("● Some bold words.") && plain.contains("✓ shout"), "{plain}");
        stage.until("the shell", |screen| screen.lines().last().is_some_and(|line| line.starts_with('$')));
    }
    run(&stage, "NO_COLOR=1", "go");
    stage.see("2 turns");
    let raw = stage.coloured();
    assert!(!raw.contains("\x1b["), "{raw:?}");
}

#[test]
fn one_yes_answers_all_alike_in_a_message() {
    if !has_tmux() {
        return;
    }
    let script = "
turns:
  - tool_calls:
      - {name: Write, input: {file_path: a.txt, content: \"a\\n\"}}
      - {name: Write, input: {file_path: b.txt, content: \"b\\n\"}}
      - {name: Write, input: {file_path: old.txt, content: \"new\\n\"}}
  - tool_calls:
      - {name: Write, input: {file_path: c.txt, content: \"c\\n\"}}
  - text: Done.
";
    let stage = play(140, 30, script, "go");
    stage.see("1 once");
    fs::write(stage.folder().join("old.txt"), "old\n").unwrap();
    stage.see("8 all alike");
    stage.type_("8");
    // The calls that are complete are asked for, with their diffs.
    let asked = stage.until("the third question", |screen| {
        screen.contains("? Write   old.txt") && screen.contains("1 once")
    });
    assert!(asked.contains("1 - old") && asked.contains("1 + new"), "{asked}");
    assert!(stage.folder().join("b.txt").exists());
    stage.type_("1");
    // The answer doesn't apply to the next message.
    stage.until("the fourth question", |screen| {
        screen.contains("? Write   c.txt") && screen.contains("1 once")
    });
    stage.type_("4");
    stage.see("turn was ended");
    assert!(!stage.folder().join("c.txt").exists());
}
