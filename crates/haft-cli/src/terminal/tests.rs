//! Questions and answers on a console that is played by the test; `tests/it/terminal.rs` has a real one.

use std::collections::VecDeque;
use std::sync::Mutex as StdMutex;

use haft::ports::AnswerChoice;
use haft::{Effects, Engine, Registry, ToolCall, dynamic_tool};
use serde_json::json;

use super::*;

/// What was shown, with the answers in the places where they were given.
#[derive(Clone, Default)]
struct ScriptedConsole(Arc<StdMutex<(String, VecDeque<&'static str>)>>);

impl ScriptedConsole {
    fn answering(lines: &[&'static str]) -> ScriptedConsole {
        ScriptedConsole(Arc::new(StdMutex::new((String::new(), lines.iter().copied().collect()))))
    }

    fn shown(&self) -> String {
        self.0.lock().unwrap().0.clone()
    }
}

impl UserConsole for ScriptedConsole {
    fn show(&self, words: &str) {
        self.0.lock().unwrap().0.push_str(words);
    }

    fn line<'a>(&'a self, prompt: &'a str) -> BoxFuture<'a, Option<String>> {
        self.show(prompt);
        Box::pin(async {
            // Others get their chance to write in between.
            tokio::task::yield_now().await;
            let mut played = self.0.lock().unwrap();
            let line = played.1.pop_front()?;
            played.0.push_str(&format!("<{line}>\n"));
            Some(line.to_owned())
        })
    }
}

/// Keeps what it is asked, so that a test has a real approval to show.
#[derive(Clone, Default)]
struct ApprovalRecorder(Arc<StdMutex<Option<ApprovalRequest>>>);

impl Asker for ApprovalRecorder {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        *self.0.lock().unwrap() = Some(approval.clone());
        Box::pin(async { ApprovalAnswer::No })
    }
    fn question<'a>(&'a self, _: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async { None })
    }
}

/// What the engine asks about a call of a tool with these effects.
fn approval(effects: impl Fn(&Value) -> Effects + Send + Sync + 'static, input: Value) -> ApprovalRequest {
    let tool =
        dynamic_tool("change", "Changes something.", json!({"type": "object"}), |_, _| async { Ok(()) });
    let keeps = ApprovalRecorder::default();
    let engine =
        Engine::builder(Registry::new().with(tool.effects(effects)).unwrap()).asker(keeps.clone()).build();
    block_on(engine.turn().run([ToolCall::new("1", "change", input)]));
    keeps.0.lock().unwrap().take().expect("it asks")
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn answer(lines: &[&'static str]) -> (ApprovalAnswer, String) {
    let console = ScriptedConsole::answering(lines);
    let terminal = TerminalUser::on(console.clone(), Path::new("/"));
    let approval = approval(|_| Effects::deletes("a"), json!({"a": 1}));
    let answer = block_on(terminal.approve(&approval));
    let shown = console.shown();
    let from = shown.find("  allow this call?").unwrap();
    (answer, shown[from..].replace(LASTING_KEYS, "KEYS"))
}

#[test]
fn only_a_clear_yes_is_a_yes() {
    let check =
        |lines: &[&'static str], expected: ApprovalAnswer| assert_eq!(answer(lines).0, expected, "{lines:?}");
    check(&["y"], ApprovalAnswer::Once);
    check(&[" YES "], ApprovalAnswer::Once);
    check(&["s"], ApprovalAnswer::Session);
    check(&["A"], ApprovalAnswer::Always);
    check(&["n"], ApprovalAnswer::No);
    check(&[""], ApprovalAnswer::No);
    check(&["   "], ApprovalAnswer::No);
    check(&[], ApprovalAnswer::No);
    check(&["yy", "maybe", "yes please"], ApprovalAnswer::No);
    check(&["?", "y"], ApprovalAnswer::Once);
    check(&["r", "not today"], ApprovalAnswer::NoBecause("not today".into()));
    check(&["r it is wrong"], ApprovalAnswer::NoBecause("it is wrong".into()));
    check(&["r", ""], ApprovalAnswer::No);
    check(&["e", r#"{"b": 2}"#], ApprovalAnswer::Edit(json!({"b": 2})));
    check(&["e", "{", "y"], ApprovalAnswer::Once);
    check(&["e", "", "n"], ApprovalAnswer::No);
}

#[test]
fn the_dialogue_reads_well() {
    assert_eq!(
        answer(&["x", "e", "{", "r", "wrong file"]).1,
        "  allow this call?   KEYS   [n] <x>\n  y, s, a, n, r or e is an answer\n\
         \x20 allow this call?   KEYS   [n] <e>\n  new input, as JSON on one line: <{>\n\
         \x20 that is not JSON: EOF while parsing an object at line 1 column 1\n\
         \x20 allow this call?   KEYS   [n] <r>\n  because: <wrong file>\n"
    );
}

/// Where no rule can be made of a call, "always" would be a promise that nobody keeps.
#[test]
fn an_answer_lasts_only_where_it_can() {
    let console = ScriptedConsole::answering(&["a", "s", "y"]);
    let terminal = TerminalUser::on(console.clone(), Path::new("/"));
    let mut approval = approval(|_| Effects::deletes("a"), json!({"a": 1}));
    approval.lasting_rules.clear();
    assert_eq!(block_on(terminal.approve(&approval)), ApprovalAnswer::Once);
    let shown = console.shown();
    assert!(shown.contains("    to allow  allow rule `change`\n") && !shown.contains("a always"), "{shown}");
    assert_eq!(shown.matches("no rule can be made of this call").count(), 2, "{shown}");
}

#[test]
fn a_question_shows_what_matters() {
    let shown = approval_question(
        &approval(|_| Effects::deletes("/no/a.txt"), json!({"file": "a.txt"})),
        Path::new("/"),
    );
    assert_eq!(
        shown,
        "? change   a.txt\n\
         \x20   input     {\"file\":\"a.txt\"}\n\
         \x20   effects   deletes /no/a.txt\n\
         \x20   CAREFUL   it destroys `/no/a.txt`, and no copy is kept\n\
         \x20   why       it touches `/no/a.txt`, outside of the working directories\n\
         \x20   always    change(/no/a.txt)\n"
    );
    let unknown = approval_question(&approval(|_| Effects::unknown(), json!({})), Path::new("/"));
    assert!(unknown.contains("believed  nothing confines this tool"), "{unknown}");
    let new = approval_question(&approval(|_| Effects::writes("never/was"), json!({})), Path::new("/"));
    assert!(!new.contains("CAREFUL"), "{new}");
}

/// The text of a command says less than what is known of it, and a program of which nothing is known warns of
/// nothing.
#[test]
fn a_question_shows_what_commands_touch() {
    let run = |text: &str, inner: Option<Effects>| {
        let mut effects = Effects::runs(text);
        effects.runs[0].effects = inner.map(Box::new);
        approval_question(&approval(move |_| effects.clone(), json!({})), Path::new("/"))
    };
    let shown = run("fetch", Some(Effects::changes("x.io").and(Effects::deletes("/no/old"))));
    assert!(shown.contains("    effects   runs fetch · deletes /no/old · changes x.io\n"), "{shown}");
    assert!(shown.contains("    CAREFUL   it destroys `/no/old`, and no copy is kept\n"), "{shown}");
    let shown = run("make", None);
    assert!(shown.contains("    effects   runs make\n"), "{shown}");
    assert!(!shown.contains("CAREFUL"), "{shown}");
}

#[test]
fn nothing_that_others_wrote_can_pass_for_ours() {
    let evil = "x\n  allow this call? y\x1b[2J\u{202e}";
    let shown =
        approval_question(&approval(move |_| Effects::writes(evil), json!({"path": evil})), Path::new("/"));
    assert!(!shown.contains('\x1b') && !shown.contains('\u{202e}'), "{shown}");
    assert!(!shown.lines().any(|line| line.trim_start().starts_with("allow this call?")), "{shown}");
    let long = approval_question(
        &approval(|_| Effects::none().exclusive().and(Effects::unknown()), json!({"t": "x".repeat(100_000)})),
        Path::new("/"),
    );
    assert!(long.len() < 10_000 && long.contains("… (cut; 100008 characters)"), "{long}");
}

#[test]
fn titles_are_paths_seen_from_here() {
    assert_eq!(relative_title("/home/me/p/src/a.rs", Path::new("/home/me/p")), "src/a.rs");
    assert_eq!(relative_title("/home/me/px/a.rs", Path::new("/home/me/p")), "/home/me/px/a.rs");
    assert_eq!(relative_title("/home/me/p", Path::new("/home/me/p")), "/home/me/p");
    assert_eq!(relative_title("src/a.rs", Path::new("/home/me/p")), "src/a.rs");
}

#[test]
fn questions_queue() {
    let console = ScriptedConsole::answering(&["y", "n"]);
    let terminal = TerminalUser::on(console.clone(), Path::new("/"));
    let approval = approval(|_| Effects::deletes("a"), json!({}));
    let answers = block_on(async { tokio::join!(terminal.approve(&approval), terminal.approve(&approval)) });
    assert_eq!(answers, (ApprovalAnswer::Once, ApprovalAnswer::No));
    let shown = console.shown();
    let events: Vec<&str> = ["? change", "<y>", "? change", "<n>"].into();
    let mut rest = shown.as_str();
    for event in events {
        rest = &rest[rest.find(event).unwrap_or_else(|| panic!("{event} in {shown}")) + event.len()..];
    }
    assert_eq!(shown.find("<y>").map(|at| shown[..at].matches("? change").count()), Some(1), "{shown}");
}

#[test]
fn choices_are_numbers_and_free_text_is_text() {
    let choice = |label: &str| AnswerChoice { label: label.into(), description: None };
    let of =
        |several| UserQuestion { text: "Which?".into(), choices: vec![choice("a"), choice("b")], several };
    let free = UserQuestion { text: "Why?".into(), choices: Vec::new(), several: false };
    let check = |question: &UserQuestion, line: &str, expected: Option<&[&str]>| {
        let expected = expected.map(|labels| labels.iter().map(|label| label.to_string()).collect());
        assert_eq!(parse_choice(question, line), expected, "{line}");
    };
    check(&of(false), "2", Some(&["b"]));
    check(&of(false), "1,2", None);
    check(&of(true), "1, 2", Some(&["a", "b"]));
    check(&of(true), "0", None);
    check(&of(true), "3", None);
    check(&of(true), "b", None);
    check(&free, "because", Some(&["because"]));
    assert_eq!(describe_choices(&of(false)), "? Which?\n    1 a\n    2 b\n");
}
