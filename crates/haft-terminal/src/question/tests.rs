//! What an approval shows, and what its keys do.

use haft::decision::CallWarning;
use haft::ports::AnswerChoice;
use haft::view::{CallView, DiffLine, LineChange, ViewPart};
use serde_json::json;
use tokio::sync::oneshot;

use super::*;

const CONTEXT: KeyContext = KeyContext { has_editor: false, line_is_empty: true, in_text: false };

/// An approval from the engine, because the type has no public constructor.
fn approval(change: impl FnOnce(&mut ApprovalRequest)) -> ApprovalRequest {
    use std::sync::{Arc, Mutex};

    struct Catch(Arc<Mutex<Option<ApprovalRequest>>>);
    impl haft::ports::Asker for Catch {
        fn approve<'a>(
            &'a self,
            approval: &'a ApprovalRequest,
        ) -> haft::future::BoxFuture<'a, ApprovalAnswer> {
            *self.0.lock().unwrap() = Some(approval.clone());
            Box::pin(async { ApprovalAnswer::No })
        }
        fn question<'a>(&'a self, _: &'a UserQuestion) -> haft::future::BoxFuture<'a, Option<Vec<String>>> {
            Box::pin(async { None })
        }
    }

    let caught: Arc<Mutex<Option<ApprovalRequest>>> = Arc::default();
    let asks = haft::tool("Bash", "Asks.", |_: haft::NoInput, _| async { Ok(()) });
    let registry = haft::Registry::new().with(asks).unwrap();
    let engine = haft::Engine::builder(registry).asker(Catch(caught.clone())).build();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { engine.turn().run([haft::ToolCall::new("c", "Bash", json!({}))]).await });
    let mut approval = caught.lock().unwrap().take().expect("it asks");
    approval.lasting_rules = vec!["Bash(npm test)".into()];
    approval.decision.effects.class.destructive = false;
    approval.decision.warnings.clear();
    approval.unconfined = false;
    approval.effects = Effects::runs("npm test && curl x.io");
    because(&mut approval, "no rule allows `curl x.io`");
    approval.input = json!({"command": "npm test && curl x.io", "timeout": 5});
    approval.view = CallView::titled("npm test && curl x.io");
    change(&mut approval);
    approval
}

/// Sets the only reason of the approval.
fn because(approval: &mut ApprovalRequest, reason: &str) {
    approval.decision.reasons.clear();
    let reason = haft::decision::DecisionReason::ask(reason.to_owned());
    approval.decision = approval.decision.clone().with_reason(reason);
}

fn panel(change: impl FnOnce(&mut ApprovalRequest)) -> (PromptPanel, oneshot::Receiver<ApprovalAnswer>) {
    let (send, answer) = oneshot::channel();
    (
        PromptPanel::new(OpenPrompt {
            id: 1,
            what: PromptRequest::Approval(Box::new(approval(change)), send),
        }),
        answer,
    )
}

fn shown(panel: &PromptPanel, columns: usize, most: usize) -> Vec<String> {
    let (lines, _) = panel.lines(columns, most, AnswerKeys::Digits, Path::new("/w"));
    assert!(lines.len() <= most.max(2), "{} of {most}", lines.len());
    assert!(lines.iter().all(|line| line.width() <= columns));
    lines.iter().map(|line| line.text().trim_end().to_owned()).collect()
}

fn press(panel: &mut PromptPanel, text: &str) -> PanelAction {
    let mut act = PanelAction::Stay;
    for c in text.chars() {
        act = panel.key(&if c == '\r' { TerminalKey::Enter } else { TerminalKey::Char(c) }, CONTEXT);
    }
    act
}

#[test]
fn it_shows_what_the_answer_is_about() {
    let (panel, _answer) = panel(|_| {});
    assert_eq!(
        shown(&panel, 103, 20),
        [
            "  ? Bash   npm test && curl x.io",
            "    timeout   5",
            "    effects   runs npm test && curl x.io",
            "    why       no rule allows `curl x.io`",
            "    always    Bash(npm test)",
            "  allow this call?   1 once   2 for this session   3 always (Bash(npm test))   4 no   5 no, because …",
            "  6 edit   7 show all   (or ↑↓ enter)",
        ]
    );
    let head = &approval_lines(&approval(|_| {}), 100, 20, Path::new("/w"))[0];
    let mut styled = String::new();
    head.write(crate::style::ColorMode::Styled, &mut styled);
    assert!(styled.contains("\x1b[0;1;33mcurl x.io\x1b[0m"), "the part that it is about is marked: {styled}");
}

#[test]
fn each_number_is_one_answer() {
    for (keys, expected) in [
        ("1", ApprovalAnswer::Once),
        ("2", ApprovalAnswer::Session),
        ("3", ApprovalAnswer::Always),
        ("4", ApprovalAnswer::No),
        ("5too far\r", ApprovalAnswer::NoBecause("too far".into())),
        ("5\r", ApprovalAnswer::No),
    ] {
        let (mut panel, mut answer) = panel(|_| {});
        let PanelAction::Answer(reply) = press(&mut panel, keys) else { panic!("{keys} is no answer") };
        assert!(panel.answer(reply, Path::new("/w")).is_some());
        assert_eq!(answer.try_recv().unwrap(), expected, "{keys}");
    }
}

/// Presses keys as the screen thread does; keys for the input line are collected.
fn type_line(panel: &mut PromptPanel, keys: &[TerminalKey]) -> (Vec<PanelAction>, String) {
    let (mut acts, mut line) = (Vec::new(), String::new());
    for key in keys {
        let context = KeyContext { line_is_empty: line.is_empty(), ..CONTEXT };
        match (panel.key(key, context), key) {
            (PanelAction::InputLine, TerminalKey::Char(c)) => line.push(*c),
            (PanelAction::InputLine, TerminalKey::Paste(text)) => line.push_str(text),
            (PanelAction::InputLine, TerminalKey::Enter) => line.push('\r'),
            (act, _) => acts.push(act),
        }
    }
    (acts, line)
}

fn typed(text: &str) -> Vec<TerminalKey> {
    text.chars().map(|c| if c == '\r' { TerminalKey::Enter } else { TerminalKey::Char(c) }).collect()
}

#[test]
fn text_approves_nothing() {
    for text in ["stop", "and please…", "yes", "stop 1\r", "A", "N", "y", " 1", "no, see 1 and 2\r", "-1\r"]
    {
        let (mut panel, mut answer) = panel(|_| {});
        panel.pending = PendingPrompts { asked: 2, coming: 1 };
        let (acts, line) = type_line(&mut panel, &typed(text));
        assert_eq!((acts, line), (Vec::new(), text.to_owned()));
        assert!(answer.try_recv().is_err());
    }
    let (mut panel, _answer) = panel(|_| {});
    let paste = [TerminalKey::Down, TerminalKey::Paste("y\n1\n".into()), TerminalKey::Enter];
    let (acts, line) = type_line(&mut panel, &paste);
    assert_eq!(
        (&acts[..], &*line),
        (&[PanelAction::Stay][..], "y\n1\n\r"),
        "a paste takes the focus from the list"
    );
}

#[test]
fn the_list_answers_where_it_has_the_focus() {
    let pressed = |keys: &[TerminalKey]| {
        let (mut panel, _answer) = panel(|approval| approval.lasting_rules.clear());
        let (mut acts, line) = type_line(&mut panel, keys);
        (acts.pop(), line)
    };
    let answer = |answer| Some(PanelAction::Answer(PanelReply::Approval(answer)));
    assert_eq!(
        pressed(&[TerminalKey::Enter]).0,
        Some(PanelAction::Stay),
        "enter alone is what people press without looking"
    );
    assert_eq!(
        pressed(&[TerminalKey::Down, TerminalKey::Enter]),
        (answer(ApprovalAnswer::Once), String::new())
    );
    assert_eq!(
        pressed(&[TerminalKey::Down, TerminalKey::Down, TerminalKey::Enter]).0,
        answer(ApprovalAnswer::No)
    );
    let keys = [typed("x"), vec![TerminalKey::Down, TerminalKey::Enter]].concat();
    assert_eq!(pressed(&keys), (answer(ApprovalAnswer::Once), "x".to_owned()), "the text in the line stays");
    assert_eq!(
        pressed(&[TerminalKey::Down, TerminalKey::Escape, TerminalKey::Enter]).0,
        Some(PanelAction::Stay)
    );
    // An answer that isn't offered keeps its number, which has no other meaning.
    let (mut panel, _answer) = panel(|approval| approval.lasting_rules.clear());
    assert_eq!(press(&mut panel, "2"), PanelAction::Stay);
    assert!(shown(&panel, 80, 20).last().unwrap().contains("there is no such choice"));
    assert_eq!(press(&mut panel, "4"), PanelAction::Answer(PanelReply::Approval(ApprovalAnswer::No)));
}

#[test]
fn what_destroys_says_so_and_is_answered_by_itself() {
    let (panel, _answer) = panel(|approval| {
        approval.decision.warnings = vec![CallWarning::Destroys { what: "`a`".into() }];
        approval.effects = Effects::deletes("/w/a");
    });
    let lines = shown(&panel, 90, 20);
    assert!(
        lines.iter().any(|line| line == "    CAREFUL   it destroys `a`, and no copy is kept"),
        "{lines:?}"
    );
    assert!(!panel.is_harmless_approval());
}

#[test]
fn an_input_is_edited_as_json() {
    let (mut panel, mut answer) = panel(|approval| approval.input = json!({"n": 1}));
    press(&mut panel, "6");
    assert!(shown(&panel, 80, 20).iter().any(|line| line.contains("\"n\": 1")));
    assert_eq!(press(&mut panel, "x\r"), PanelAction::Stay);
    assert!(shown(&panel, 80, 20).last().unwrap().contains("not JSON"));
    panel.key(&TerminalKey::Backspace, CONTEXT);
    let PanelAction::Answer(reply) = press(&mut panel, "\r") else { panic!("it is JSON again") };
    panel.answer(reply, Path::new("/w"));
    assert_eq!(answer.try_recv().unwrap(), ApprovalAnswer::Edit(json!({"n": 1})));
    let (mut panel, _answer) = self::panel(|_| {});
    assert!(
        matches!(panel.key(&TerminalKey::Char('6'), KeyContext { has_editor: true, ..CONTEXT }), PanelAction::OpenEditor(text) if text.contains("npm test"))
    );
}

#[test]
fn a_long_change_leaves_room_for_the_keys() {
    let line = |number| DiffLine { change: LineChange::Added, number, text: format!("line {number}") };
    let (panel, _answer) = panel(|approval| {
        let lines = (1..500).map(line).collect();
        approval.view = CallView::titled("/w/a.rs").with(ViewPart::Diff { path: "a".into(), lines });
    });
    let lines = shown(&panel, 80, 16);
    assert_eq!(lines[0], "  ? Bash   a.rs");
    assert!(lines.iter().any(|line| line.contains("more lines (v shows all)")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("1 once")), "{lines:#?}");
    assert!(panel.all_lines(80, Path::new("/w")).len() > 499);
    // On a low terminal, the question and the answers are still visible.
    let small = shown(&panel, 30, 8);
    assert!(small[0].contains("Bash") && small.concat().contains("1 once"), "{small:?}");
}

#[test]
fn questions_of_tools_are_chosen_or_typed() {
    let choice = |label: &str| AnswerChoice { label: label.into(), description: None };
    let ask = |choices: Vec<AnswerChoice>, several| {
        let (send, answer) = oneshot::channel();
        let question = UserQuestion { text: "Which?".into(), choices, several };
        (PromptPanel::new(OpenPrompt { id: 1, what: PromptRequest::Question(question, send) }), answer)
    };
    let chosen = |texts: &[&str]| {
        PanelAction::Answer(PanelReply::Chosen(Some(texts.iter().map(|text| (*text).to_owned()).collect())))
    };
    let (mut panel, _answer) = ask(vec![choice("a"), choice("b")], false);
    assert_eq!(panel.key(&TerminalKey::Down, CONTEXT), PanelAction::Stay);
    assert_eq!(panel.key(&TerminalKey::Down, CONTEXT), PanelAction::Stay);
    assert_eq!(panel.key(&TerminalKey::Enter, CONTEXT), chosen(&["b"]));
    assert_eq!(press(&mut panel, "1"), chosen(&["a"]));
    assert_eq!(press(&mut panel, "9"), PanelAction::Stay);
    let (mut panel, _answer) = ask(vec![choice("a"), choice("b")], false);
    assert_eq!(
        type_line(&mut panel, &typed("stop\r")),
        (Vec::new(), "stop\r".to_owned()),
        "no choice is made"
    );
    assert_eq!(press(&mut panel, "\r"), PanelAction::Stay, "nothing has the focus");
    let (mut panel, _answer) = ask(vec![choice("a"), choice("b"), choice("c")], true);
    assert_eq!(press(&mut panel, "\r"), PanelAction::Stay, "nothing is chosen");
    assert_eq!(press(&mut panel, "31\r"), chosen(&["a", "c"]));
    let (mut panel, _answer) = ask(Vec::new(), false);
    assert_eq!(press(&mut panel, "free text\r"), chosen(&["free text"]));
    assert_eq!(panel.key(&TerminalKey::Escape, CONTEXT), PanelAction::Answer(PanelReply::Chosen(None)));
}

#[test]
fn an_answered_question_leaves_one_colon() {
    for (text, line) in
        [("Which?", "  ? Which?: a"), ("Your name:", "  ? Your name: a"), ("Name: \nmore", "  ? Name: a")]
    {
        let (send, _answer) = oneshot::channel();
        let question = UserQuestion { text: text.into(), choices: Vec::new(), several: false };
        let panel = PromptPanel::new(OpenPrompt { id: 1, what: PromptRequest::Question(question, send) });
        let left = panel.answer(PanelReply::Chosen(Some(vec!["a".into()])), Path::new("/")).unwrap();
        assert_eq!(left.text(), line);
    }
}

#[test]
fn all_of_the_choice_under_the_cursor_is_shown() {
    let choice =
        |label: &str| AnswerChoice { label: label.into(), description: Some("many words ".repeat(10)) };
    let (send, _answer) = oneshot::channel();
    let question =
        UserQuestion { text: "Which?".into(), choices: vec![choice("a"), choice("b")], several: false };
    let mut panel = PromptPanel::new(OpenPrompt { id: 1, what: PromptRequest::Question(question, send) });
    let words = |panel: &PromptPanel| {
        shown(panel, 40, 20).iter().map(|line| line.matches("many").count()).collect::<Vec<_>>()
    };
    let first = words(&panel);
    assert_eq!(first.iter().sum::<usize>(), 10 + first[first.len() - 2], "all of the first: {first:?}");
    panel.key(&TerminalKey::Down, CONTEXT);
    panel.key(&TerminalKey::Down, CONTEXT);
    let second = words(&panel);
    assert!(second.iter().sum::<usize>() > 10 && second[1] < 10, "{second:?}");
    assert!(
        shown(&panel, 40, 4).iter().any(|line| line.contains("▸ 2 b")),
        "what would be chosen is always seen"
    );
}

#[test]
fn what_is_hidden_is_counted_once() {
    let content: String = (1..=60).map(|n| format!("line {n}\n")).collect();
    let (panel, _answer) = panel(|approval| {
        approval.view = CallView::titled("/w/a.rs").summary("60 lines");
        approval.input = json!({"content": content});
    });
    for most in [9, 12, 16, 30] {
        let lines = shown(&panel, 80, most);
        let seen = lines.iter().filter(|line| line.contains("line ")).count();
        let folds: Vec<&String> =
            lines.iter().filter(|line| line.contains("…") && line.contains("more")).collect();
        assert_eq!(folds.len(), 1, "{lines:#?}");
        assert!(folds[0].contains(&format!("… {} more lines (v shows all)", 60 - seen)), "{lines:#?}");
    }
    let all_lines = panel.all_lines(80, Path::new("/w"));
    assert!(all_lines.iter().any(|line| line.text().contains("line 60")));
}

#[test]
fn all_is_an_answer_only_where_it_is_offered() {
    let (mut panel, _answer) = panel(|_| {});
    assert_eq!(press(&mut panel, "8"), PanelAction::Stay);
    assert_eq!(press(&mut panel, "9"), PanelAction::Stay);
    panel.pending = PendingPrompts { asked: 0, coming: 2 };
    assert!(shown(&panel, 80, 20).concat().contains("8 all alike in this message"));
    assert_eq!(press(&mut panel, "9"), PanelAction::Stay);
    assert_eq!(press(&mut panel, "8"), PanelAction::All(BulkAnswer::BulkAnswer));
    panel.pending = PendingPrompts { asked: 1, coming: 0 };
    assert!(shown(&panel, 80, 20).concat().contains("8 all 2 once"));
    assert_eq!(press(&mut panel, "9"), PanelAction::All(BulkAnswer::No));
}

#[test]
fn questions_are_alike_by_tool_and_reason() {
    let kind = |path: &str, change: fn(&mut ApprovalRequest)| {
        let (panel, _answer) = panel(|approval| {
            approval.view = CallView::titled(path);
            approval.effects = Effects::writes(path.to_owned());
            because(approval, &format!("it writes {path}"));
            change(approval);
        });
        panel.kind()
    };
    assert!(kind("a", |_| {}).is_some());
    assert_eq!(kind("a", |_| {}), kind("src/b", |_| {}));
    assert_ne!(kind("a", |_| {}), kind("a", |approval| because(approval, "a rule asks")));
    assert_ne!(kind("a", |_| {}), kind("a", |approval| approval.tool = "Other".into()));
    let warned = |approval: &mut ApprovalRequest| {
        approval.decision.warnings = vec![CallWarning::ReadsCredentials { path: "`/etc/shadow`".into() }];
    };
    assert_eq!(kind("a", warned), None);
    assert_eq!(kind("a", |approval| approval.decision.effects.class.destructive = true), None);
    assert_eq!(kind("a", |approval| approval.again = true), None);
    assert_eq!(kind("a", |approval| approval.unconfined = true), None);
}
