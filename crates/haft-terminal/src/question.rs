//! A question on the screen: its content, and the keys that answer it.
//!
//! An approval shows everything that the answer covers: tool and title, effects, the diff or the
//! complete input with the part that the reason names highlighted, the reason, and the rule that
//! "always" would create.
//!
//! The answers are a list. The input line keeps the focus until an arrow key moves it to the list.
//! Enter answers only in the list; a digit answers in the list and while the input line is empty.
//! All other text and every paste go to the input line, so a sentence that is typed while a
//! question appears approves nothing. The screen thread decides from when on keys count for a
//! question, and whether a digit is part of a text.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use haft::Effects;
use haft::ports::{ApprovalAnswer, ApprovalRequest, UserQuestion};
use serde_json::Value;

use crate::choice_list::{self, ApprovalChoice, ListKey, apply_list_key, approval_choices};
use crate::folded_lines::{self, fold_body};
use crate::inbox::{OpenPrompt, PromptRequest};
use crate::key_decoder::TerminalKey;
use crate::limits::UNFOLDED_LINES_MAX;
use crate::line_editor::LineEditor;
use crate::style::{Line, Style};
use crate::text;

/// How many lines of one input field are shown, unless everything is requested.
const FIELD_LINES: usize = 8;
/// The width of the name column.
const FACT_NAME_COLUMNS: usize = 10;

/// A question and the state of its answer.
pub(crate) struct PromptPanel {
    ask: OpenPrompt,
    step: AnswerStep,
    /// Since when it is visible.
    pub(crate) shown_since: Option<Instant>,
    /// The prompts that can be answered together with it, as last drawn.
    pub(crate) pending: PendingPrompts,
    /// The error of the last key.
    note: Option<String>,
}

/// The prompts that wait beside a question.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingPrompts {
    /// Other approvals.
    pub(crate) asked: usize,
    /// Calls of the same tool in the same message that have not asked yet.
    pub(crate) coming: usize,
}

/// The step of the answer. A list has no focus while the input line has it.
enum AnswerStep {
    Approve { focus: Option<usize> },
    Reason(LineEditor),
    Input(LineEditor),
    Choose { focus: Option<usize>, chosen: BTreeSet<usize> },
    Free(LineEditor),
}

/// The context that decides what a key means.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct KeyContext {
    /// Whether an external editor is available.
    pub(crate) has_editor: bool,
    /// Whether the input line is empty.
    pub(crate) line_is_empty: bool,
    /// Whether the key arrived together with other text, or right after it.
    pub(crate) in_text: bool,
}

/// The keys that answer a question now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKeys {
    /// None: it was not visible for long enough.
    Nothing,
    /// Arrow keys and Enter; digits belong to the text in the input line.
    Arrows,
    /// Digits, too.
    Digits,
}

/// The effect of a key.
#[derive(Debug, PartialEq)]
pub(crate) enum PanelAction {
    /// None outside of the panel.
    Stay,
    /// The key belongs to the input line.
    InputLine,
    /// The question is answered.
    Answer(PanelReply),
    /// All questions get the same answer.
    All(BulkAnswer),
    /// Print the complete question.
    Show,
    /// Open the text in the external editor.
    OpenEditor(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BulkAnswer {
    BulkAnswer,
    No,
}

#[derive(Debug, PartialEq)]
pub(crate) enum PanelReply {
    Approval(ApprovalAnswer),
    /// `None` if the user declined.
    Chosen(Option<Vec<String>>),
}

impl PromptPanel {
    pub(crate) fn new(ask: OpenPrompt) -> PromptPanel {
        let step = match &ask.what {
            PromptRequest::Approval(..) => AnswerStep::Approve { focus: None },
            PromptRequest::Question(question, _) if question.choices.is_empty() => {
                AnswerStep::Free(LineEditor::default())
            }
            PromptRequest::Question(..) => AnswerStep::Choose { focus: None, chosen: BTreeSet::new() },
        };
        PromptPanel { ask, step, shown_since: None, pending: PendingPrompts::default(), note: None }
    }

    pub(crate) fn id(&self) -> u64 {
        self.ask.id
    }

    /// Returns the id of the call.
    pub(crate) fn call_id(&self) -> Option<&str> {
        match &self.ask.what {
            PromptRequest::Approval(approval, _) => Some(&approval.call_id),
            PromptRequest::Question(..) => None,
        }
    }

    /// Returns whether one answer may allow it together with others.
    pub(crate) fn is_harmless_approval(&self) -> bool {
        matches!(&self.ask.what, PromptRequest::Approval(approval, _) if approval.is_harmless())
    }

    /// Returns the tool of the call.
    pub(crate) fn tool(&self) -> Option<&str> {
        match &self.ask.what {
            PromptRequest::Approval(approval, _) => Some(&approval.tool),
            PromptRequest::Question(..) => None,
        }
    }

    /// Returns what questions must share to be allowed by one answer: the tool, and the reason
    /// without names. `None` if each question needs its own answer.
    pub(crate) fn kind(&self) -> Option<(String, String)> {
        let PromptRequest::Approval(approval, _) = &self.ask.what else { return None };
        let ApprovalRequest { effects, unconfined, again, .. } = &**approval;
        if !approval.is_harmless() || *unconfined || *again || effects.unknown {
            return None;
        }
        let mut reason = approval.reason().replace(&approval.view.title, "");
        for set in effects.reads.iter().chain(&effects.writes) {
            reason = reason.replace(&*set.path.to_string_lossy(), "");
        }
        Some((approval.tool.clone(), reason))
    }

    pub(crate) fn is_approval(&self) -> bool {
        matches!(&self.ask.what, PromptRequest::Approval(..))
    }

    /// Returns whether a text is being typed into it.
    pub(crate) fn is_typing(&self) -> bool {
        matches!(self.step, AnswerStep::Reason(_) | AnswerStep::Input(_))
    }

    /// Returns whether it shows a list and the input line has the focus.
    pub(crate) fn is_list_unfocused(&self) -> bool {
        matches!(self.step, AnswerStep::Approve { focus: None } | AnswerStep::Choose { focus: None, .. })
    }

    /// Returns to the list.
    pub(crate) fn return_to_list(&mut self) {
        if self.is_typing() {
            self.step = AnswerStep::Approve { focus: None };
            self.note = None;
        }
    }

    /// Sets the text that the external editor returned.
    pub(crate) fn set_edited_input(&mut self, text: Result<String, String>) {
        match text {
            Ok(text) => self.step = AnswerStep::Input(LineEditor::with_text(text)),
            Err(reason) => self.note = Some(format!("the editor could not be used: {reason}")),
        }
    }

    /// Sends the answer; returns a line for the transcript.
    pub(crate) fn answer(self, reply: PanelReply, cwd: &Path) -> Option<Line> {
        match (self.ask.what, reply) {
            (PromptRequest::Approval(approval, send), PanelReply::Approval(answer)) => {
                let answer_text = match &answer {
                    ApprovalAnswer::Once => "allowed once".to_owned(),
                    ApprovalAnswer::Session => {
                        format!("allowed for this session: {}", approval.lasting_rules.join(", "))
                    }
                    ApprovalAnswer::Always => {
                        format!("always allowed: {}", approval.lasting_rules.join(", "))
                    }
                    ApprovalAnswer::NoBecause(reason) => format!("no, because {reason}"),
                    ApprovalAnswer::Edit(_) => "allowed with another input".to_owned(),
                    _ => "no".to_owned(),
                };
                let title = folded_lines::relative_title(&approval.view.title, cwd);
                let line =
                    Line::from_text(&format!("  ? {}   {title}: {answer_text}", approval.tool), Style::DIM);
                send.send(answer).is_ok().then_some(line)
            }
            (PromptRequest::Question(question, send), PanelReply::Chosen(chosen)) => {
                let answer_text =
                    chosen.as_ref().map_or("not answered".to_owned(), |chosen| chosen.join(", "));
                // The other lines explained the answers.
                let asked = question.text.lines().next().unwrap_or_default().trim_end();
                let asked = asked.strip_suffix(':').unwrap_or(asked);
                let line = Line::from_text(&format!("  ? {asked}: {answer_text}"), Style::DIM);
                send.send(chosen).is_ok().then_some(line)
            }
            _ => None,
        }
    }

    pub(crate) fn key(&mut self, key: &TerminalKey, context: KeyContext) -> PanelAction {
        self.note = None;
        match &mut self.step {
            AnswerStep::Approve { .. } => self.approval_key(key, context),
            AnswerStep::Reason(editor) => match key {
                TerminalKey::Enter => match editor.text().trim() {
                    "" => PanelAction::Answer(PanelReply::Approval(ApprovalAnswer::No)),
                    reason => PanelAction::Answer(PanelReply::Approval(ApprovalAnswer::NoBecause(
                        reason.to_owned(),
                    ))),
                },
                TerminalKey::Escape => {
                    self.return_to_list();
                    PanelAction::Stay
                }
                key => {
                    editor.apply(key);
                    PanelAction::Stay
                }
            },
            AnswerStep::Input(editor) => match key {
                TerminalKey::Enter => match serde_json::from_str::<Value>(editor.text()) {
                    Ok(input) => PanelAction::Answer(PanelReply::Approval(ApprovalAnswer::Edit(input))),
                    Err(error) => {
                        self.note = Some(format!("that is not JSON: {error}"));
                        PanelAction::Stay
                    }
                },
                TerminalKey::Escape => {
                    self.return_to_list();
                    PanelAction::Stay
                }
                TerminalKey::Ctrl('g') if context.has_editor => {
                    PanelAction::OpenEditor(editor.text().to_owned())
                }
                key => {
                    editor.apply(key);
                    PanelAction::Stay
                }
            },
            AnswerStep::Free(editor) => match key {
                TerminalKey::Enter if editor.text().trim().is_empty() => PanelAction::Stay,
                TerminalKey::Enter => {
                    PanelAction::Answer(PanelReply::Chosen(Some(vec![editor.text().to_owned()])))
                }
                TerminalKey::Escape => PanelAction::Answer(PanelReply::Chosen(None)),
                key => {
                    editor.apply(key);
                    PanelAction::Stay
                }
            },
            AnswerStep::Choose { .. } => self.choice_key(key, context),
        }
    }

    fn approval_key(&mut self, key: &TerminalKey, context: KeyContext) -> PanelAction {
        let (PromptRequest::Approval(approval, _), AnswerStep::Approve { focus }) =
            (&self.ask.what, &mut self.step)
        else {
            return PanelAction::Stay;
        };
        let choices = approval_choices(approval, self.pending);
        let at = match apply_list_key(focus, choices.len(), key, context) {
            ListKey::Moved => return PanelAction::Stay,
            ListKey::Text => return self.leave_to_input_line(key, context),
            ListKey::Pick(at) => Some(at),
            ListKey::Digit(number) => choices.iter().position(|choice| *choice as usize == number),
        };
        match at.and_then(|at| choices.get(at)) {
            Some(choice) => self.choose(*choice, context),
            None => self.show_note("there is no such choice"),
        }
    }

    fn choose(&mut self, choice: ApprovalChoice, context: KeyContext) -> PanelAction {
        let answer = |answer| PanelAction::Answer(PanelReply::Approval(answer));
        match choice {
            ApprovalChoice::Once => answer(ApprovalAnswer::Once),
            ApprovalChoice::Session => answer(ApprovalAnswer::Session),
            ApprovalChoice::Always => answer(ApprovalAnswer::Always),
            ApprovalChoice::No => answer(ApprovalAnswer::No),
            ApprovalChoice::NoBecause => {
                self.step = AnswerStep::Reason(LineEditor::default());
                PanelAction::Stay
            }
            ApprovalChoice::Edit => self.edit_input(context),
            ApprovalChoice::ShowAll => PanelAction::Show,
            ApprovalChoice::AllOnce => PanelAction::All(BulkAnswer::BulkAnswer),
            ApprovalChoice::NoneOfThem => PanelAction::All(BulkAnswer::No),
        }
    }

    fn edit_input(&mut self, context: KeyContext) -> PanelAction {
        let PromptRequest::Approval(approval, _) = &self.ask.what else { return PanelAction::Stay };
        let pretty = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
        if context.has_editor {
            return PanelAction::OpenEditor(pretty);
        }
        self.step = AnswerStep::Input(LineEditor::with_text(pretty));
        PanelAction::Stay
    }

    /// Enter on an empty line has no effect, so a hint names the keys that answer.
    fn leave_to_input_line(&mut self, key: &TerminalKey, context: KeyContext) -> PanelAction {
        match key {
            TerminalKey::Enter if context.line_is_empty => {
                self.show_note("a number, or ↑↓ and enter, is an answer")
            }
            _ => PanelAction::InputLine,
        }
    }

    fn show_note(&mut self, note: &str) -> PanelAction {
        self.note = Some(note.to_owned());
        PanelAction::Stay
    }

    fn choice_key(&mut self, key: &TerminalKey, context: KeyContext) -> PanelAction {
        let (PromptRequest::Question(question, _), AnswerStep::Choose { focus, chosen }) =
            (&self.ask.what, &mut self.step)
        else {
            return PanelAction::Stay;
        };
        if *key == TerminalKey::Escape {
            return PanelAction::Answer(PanelReply::Chosen(None));
        }
        if let (TerminalKey::Char(' '), true, Some(at)) = (key, question.several, *focus) {
            toggle(chosen, at);
            return PanelAction::Stay;
        }
        let label = |at: &usize| question.choices.get(*at).map(|choice| choice.label.clone());
        match apply_list_key(focus, question.choices.len(), key, context) {
            ListKey::Moved => PanelAction::Stay,
            ListKey::Text => self.leave_to_input_line(key, context),
            ListKey::Digit(number) if number > question.choices.len() => {
                self.show_note("there is no such choice")
            }
            ListKey::Digit(number) if question.several => {
                *focus = Some(number - 1);
                toggle(chosen, number - 1);
                PanelAction::Stay
            }
            ListKey::Digit(number) => {
                PanelAction::Answer(PanelReply::Chosen(label(&(number - 1)).map(|label| vec![label])))
            }
            ListKey::Pick(_) if question.several && chosen.is_empty() => {
                self.show_note("space chooses; escape answers nothing")
            }
            ListKey::Pick(_) if question.several => {
                PanelAction::Answer(PanelReply::Chosen(Some(chosen.iter().filter_map(label).collect())))
            }
            ListKey::Pick(at) => PanelAction::Answer(PanelReply::Chosen(label(&at).map(|label| vec![label]))),
        }
    }

    /// Renders the panel; also returns the cursor's position in it.
    pub(crate) fn lines(
        &self,
        columns: usize,
        most: usize,
        accepted_keys: AnswerKeys,
        cwd: &Path,
    ) -> (Vec<Line>, Option<(usize, usize)>) {
        let (mut tail, cursor) = self.answer_lines(columns, accepted_keys);
        if let Some(note) = &self.note {
            tail.push(Line::from_text(&format!("  {note}"), Style::WARNING).truncate_to(columns));
        }
        let room = most.saturating_sub(tail.len()).max(1);
        let mut lines = match &self.ask.what {
            PromptRequest::Approval(approval, _) => approval_lines(approval, columns, room, cwd),
            PromptRequest::Question(question, _) => self.question_lines(question, columns, room),
        };
        lines.truncate(room);
        let above = lines.len();
        lines.append(&mut tail);
        let lines = lines.into_iter().map(|line| line.truncate_to(columns)).collect();
        (lines, cursor.map(|(row, column)| (row + above, column)))
    }

    /// Renders the complete question for the scrollback.
    pub(crate) fn all_lines(&self, columns: usize, cwd: &Path) -> Vec<Line> {
        match &self.ask.what {
            PromptRequest::Approval(approval, _) => {
                let mut lines = approval_lines(approval, columns, UNFOLDED_LINES_MAX, cwd);
                let pretty = serde_json::to_string_pretty(&approval.input).unwrap_or_default();
                lines.push(Line::from_text("    input", Style::DIM));
                for line in text::lines(&pretty).take(UNFOLDED_LINES_MAX) {
                    lines.extend(folded_lines::indent_line(Line::plain(line), 6, columns));
                }
                lines
            }
            PromptRequest::Question(question, _) => {
                self.question_lines(question, columns, UNFOLDED_LINES_MAX)
            }
        }
    }

    fn question_lines(&self, question: &UserQuestion, columns: usize, most: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        for (at, line) in text::lines(&question.text).enumerate() {
            let mark = if at == 0 { "  ? " } else { "    " };
            lines.extend(Line::from_text(mark, Style::PROMPT).with(line, Style::BOLD).wrap(columns, 4));
        }
        if let AnswerStep::Choose { focus, chosen } = &self.step {
            let at = focus.unwrap_or(0);
            let first = (at + 1).saturating_sub(most.saturating_sub(lines.len()).max(1));
            for (place, choice) in question.choices.iter().enumerate().skip(first) {
                let is_focused = *focus == Some(place);
                let here = if is_focused { "  ▸ " } else { "    " };
                let mut line = Line::from_text(here, Style::PROMPT);
                if question.several {
                    line.push(if chosen.contains(&place) { "☑ " } else { "☐ " }, Style::PLAIN);
                }
                line.push(
                    &format!("{} {}", place + 1, choice.label),
                    if is_focused { Style::BOLD } else { Style::PLAIN },
                );
                if let Some(description) = &choice.description {
                    line.push(&format!("   {description}"), Style::DIM);
                }
                // The choice that Enter would take is not truncated.
                if place == at {
                    lines.extend(line.wrap(columns, 6))
                } else {
                    lines.push(line.truncate_to(columns))
                }
            }
        }
        lines
    }

    /// Renders the lines for the answer.
    fn answer_lines(&self, columns: usize, accepted_keys: AnswerKeys) -> (Vec<Line>, Option<(usize, usize)>) {
        let typed = |label: &str, editor: &LineEditor, hint: &str| {
            let (text, (row, column)) = editor.lay_out(columns.saturating_sub(4));
            let mut lines = vec![
                Line::from_text(&format!("  {label}"), Style::BOLD)
                    .with(&format!("   {hint}"), Style::DIM)
                    .truncate_to(columns),
            ];
            for line in &text {
                let mut shown = Line::plain("    ");
                shown.append(line);
                lines.push(shown);
            }
            (lines, Some((row + 1, column + 4)))
        };
        match &self.step {
            AnswerStep::Reason(editor) => typed("because", editor, "enter sends it, escape goes back"),
            AnswerStep::Input(editor) => typed(
                "new input, as JSON",
                editor,
                "enter runs it after the same checks, alt-enter makes a line, escape goes back",
            ),
            AnswerStep::Free(editor) => typed(
                "answer",
                editor,
                if accepted_keys != AnswerKeys::Nothing {
                    "enter sends it, escape answers nothing"
                } else {
                    ""
                },
            ),
            AnswerStep::Choose { .. } => {
                let several =
                    matches!(&self.ask.what, PromptRequest::Question(question, _) if question.several);
                let hint = match (accepted_keys, several) {
                    (AnswerKeys::Nothing, _) => "",
                    (_, true) => "  ↑↓ and space choose, enter sends, escape answers nothing",
                    (_, false) => "  ↑↓ and enter, or a number; escape answers nothing",
                };
                (vec![Line::from_text(hint, Style::DIM).truncate_to(columns)], None)
            }
            AnswerStep::Approve { focus } => {
                let PromptRequest::Approval(approval, _) = &self.ask.what else { return (Vec::new(), None) };
                let line = choice_list::approval_line(approval, accepted_keys, *focus, self.pending);
                (line.wrap(columns, 2), None)
            }
        }
    }
}

fn toggle(chosen: &mut BTreeSet<usize>, place: usize) {
    if !chosen.remove(&place) {
        chosen.insert(place);
    }
}

/// Renders the subject of an approval.
fn approval_lines(approval: &ApprovalRequest, columns: usize, most: usize, cwd: &Path) -> Vec<Line> {
    let reason = approval.reason();
    let highlighted_parts = backticked_parts(&reason);
    let title = folded_lines::relative_title(&approval.view.title, cwd);
    let mut head = Line::from_text("  ? ", Style::PROMPT).with(&approval.tool, Style::BOLD);
    head.push("   ", Style::PLAIN);
    head.append(&highlight_parts(&title, &highlighted_parts, Style::PLAIN));
    if let Some(summary) = &approval.view.summary {
        head.push(&format!("   {summary}"), Style::DIM);
    }
    let mut lines = head.wrap(columns, 6);
    let mut facts: Vec<Line> = Vec::new();
    let mut fact = |name: &str, content: Line| {
        let mut line = Line::from_text(&format!("    {name:w$}", w = FACT_NAME_COLUMNS), Style::DIM);
        line.append(&content);
        facts.extend(line.wrap(columns, 4 + FACT_NAME_COLUMNS));
    };
    if let Some(agent) = &approval.agent {
        fact("agent", Line::from_text(agent, Style::BOLD));
    }
    if approval.again {
        fact(
            "changed",
            Line::from_text("what it touches is not what it was when you said yes", Style::WARNING),
        );
    }
    if let Some(description) = &approval.description {
        fact("does", Line::plain(description));
    }
    fact("effects", highlight_parts(&describe_effects(&approval.effects), &highlighted_parts, Style::PLAIN));
    for warning in approval.warnings() {
        fact("CAREFUL", Line::from_text(&warning.to_string(), Style::DANGER));
    }
    if approval.unconfined && approval.effects.unknown {
        fact(
            "believed",
            Line::from_text("nothing confines this tool, and it doesn't say what it touches", Style::WARNING),
        );
    } else if approval.unconfined {
        let content = "nothing confines the program that it runs: it can do more than it says";
        fact("believed", Line::from_text(content, Style::WARNING));
    }
    fact("why", Line::plain(&approval.reason()));
    for (at, rules) in approval.lasting_lines().iter().enumerate() {
        fact(if at == 0 { "always" } else { "" }, Line::plain(rules));
    }
    if let (Some(content), []) = (&approval.proposed_rule, &*approval.lasting_rules) {
        fact("to allow", Line::plain(content));
    }
    let room = most.saturating_sub(lines.len() + facts.len());
    let shown = if folded_lines::has_change(&approval.view) {
        fold_body(&approval.view, columns, room.saturating_sub(1).max(1)).with_count(6, " (v shows all)")
    } else {
        let field_lines = if most >= UNFOLDED_LINES_MAX { most } else { FIELD_LINES };
        let visible_texts =
            [Some(&*title), approval.description.as_deref(), approval.view.summary.as_deref()];
        let visible_texts: Vec<&str> = visible_texts.into_iter().flatten().collect();
        let mut pieces =
            input_lines(&approval.input, &visible_texts, &highlighted_parts, columns, field_lines);
        let mut hidden = 0;
        if pieces.len() > room {
            let cut = pieces.split_off(room.saturating_sub(1));
            hidden = cut.iter().map(|piece| piece.stands_for).sum();
        }
        let lines = pieces.into_iter().map(|piece| piece.line).collect();
        folded_lines::FoldedLines { lines, hidden }.with_count(6, " (v shows all)")
    };
    lines.extend(shown);
    lines.append(&mut facts);
    lines
}

/// A line on the screen, and the number of input lines that are hidden without it.
struct InputExcerptLine {
    line: Line,
    stands_for: usize,
}

/// Renders the fields of an input, except those that are visible already.
fn input_lines(
    input: &Value,
    visible_texts: &[&str],
    parts: &[&str],
    columns: usize,
    most: usize,
) -> Vec<InputExcerptLine> {
    let mut lines = Vec::new();
    let single;
    let fields: Vec<(&str, &Value)> = match input {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.as_str(), value)).collect(),
        other => {
            single = other.clone();
            vec![("input", &single)]
        }
    };
    for (name, value) in fields {
        let written;
        let content = match value {
            Value::String(content) => content.as_str(),
            other => {
                written = other.to_string();
                &written
            }
        };
        // A title may start with a sign.
        if visible_texts
            .iter()
            .any(|visible| visible.strip_suffix(content).is_some_and(|sign| sign.len() <= 2))
        {
            continue;
        }
        let count = text::lines(content).count();
        for (at, line) in text::lines(content).take(most).enumerate() {
            let mut shown = Line::from_text(
                &format!("    {:w$}", if at == 0 { name } else { "" }, w = FACT_NAME_COLUMNS),
                Style::DIM,
            );
            if shown.width() > 4 + FACT_NAME_COLUMNS {
                shown.push_spaces(1);
            }
            let indent = shown.width();
            shown.append(&highlight_parts(line, parts, Style::PLAIN));
            // A field's line counts as shown with the last of its wrapped lines.
            let wrapped = shown.wrap(columns, indent.min(columns / 2));
            let last = wrapped.len().saturating_sub(1);
            let piece = |(at, line)| InputExcerptLine { line, stands_for: usize::from(at == last) };
            lines.extend(wrapped.into_iter().enumerate().map(piece));
        }
        if count > most {
            let hidden = count - most;
            let folded = folded_lines::FoldedLines { lines: Vec::new(), hidden }
                .with_count(4 + FACT_NAME_COLUMNS, " (v shows all)");
            lines.extend(folded.into_iter().map(|line| InputExcerptLine { line, stands_for: hidden }));
        }
    }
    lines
}

/// Returns the parts of a reason in backticks.
fn backticked_parts(reason: &str) -> Vec<&str> {
    reason.split('`').skip(1).step_by(2).filter(|part| part.trim().len() > 1).collect()
}

/// Highlights parts of a text.
fn highlight_parts(text: &str, parts: &[&str], style: Style) -> Line {
    let mut line = Line::default();
    let mut rest = text;
    while !rest.is_empty() {
        let first_match = parts.iter().filter_map(|part| rest.find(part).map(|at| (at, part.len()))).min();
        match first_match {
            Some((at, length)) => {
                line.push(&rest[..at], style);
                line.push(&rest[at..at + length], Style::PROMPT);
                rest = &rest[at + length..];
            }
            None => {
                line.push(rest, style);
                break;
            }
        }
    }
    line
}

/// Describes the effects of a call, including those of its commands.
fn describe_effects(effects: &Effects) -> String {
    let shown = effects.to_string();
    let mut known: Vec<String> = Vec::new();
    for inner in commands(effects).filter(|inner| !inner.is_none()) {
        for part in inner.to_string().split(" · ") {
            if !known.iter().any(|known| known == part) {
                known.push(part.to_owned());
            }
        }
    }
    std::iter::once(shown).chain(known).collect::<Vec<_>>().join(" · ")
}

fn commands(effects: &Effects) -> impl Iterator<Item = &Effects> {
    effects.runs.iter().filter_map(|command| command.effects.as_deref())
}

#[cfg(test)]
mod tests;
