//! The list of answers to a question, and its keys.
//!
//! Each answer to an approval has a fixed number, whether or not the other answers are offered, so
//! a number that the user remembers never changes its meaning.

use haft::ports::ApprovalRequest;

use crate::key_decoder::TerminalKey;
use crate::question::{AnswerKeys, KeyContext, PendingPrompts};
use crate::style::{Line, Style};

/// An answer to an approval, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalChoice {
    Once = 1,
    Session,
    Always,
    No,
    NoBecause,
    Edit,
    ShowAll,
    AllOnce,
    NoneOfThem,
}

/// The effect of a key in a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListKey {
    /// It moved the focus or had no effect.
    Moved,
    /// It chose the focused entry.
    Pick(usize),
    /// It chose the entry with this number.
    Digit(usize),
    /// It belongs to the input line, which now has the focus.
    Text,
}

/// Applies a key to a list with at least one entry.
pub(crate) fn apply_list_key(
    focus: &mut Option<usize>,
    count: usize,
    key: &TerminalKey,
    context: KeyContext,
) -> ListKey {
    let digits = focus.is_some() || (context.line_is_empty && !context.in_text);
    let next = match (key, *focus) {
        (TerminalKey::Up, None) => Some(count - 1),
        (TerminalKey::Down, None) => Some(0),
        (TerminalKey::Up | TerminalKey::Left | TerminalKey::BackTab | TerminalKey::Ctrl('p'), Some(at)) => {
            Some((at + count - 1) % count)
        }
        (TerminalKey::Down | TerminalKey::Right | TerminalKey::Tab | TerminalKey::Ctrl('n'), Some(at)) => {
            Some((at + 1) % count)
        }
        (TerminalKey::Enter, Some(at)) => return ListKey::Pick(at),
        (TerminalKey::Char(digit @ '1'..='9'), _) if digits => {
            return ListKey::Digit(*digit as usize - '0' as usize);
        }
        (TerminalKey::Escape, Some(_)) => None,
        (TerminalKey::Unknown | TerminalKey::BackTab, _) => *focus,
        _ => {
            *focus = None;
            return ListKey::Text;
        }
    };
    *focus = next;
    ListKey::Moved
}

/// Returns the answers that an approval offers.
pub(crate) fn approval_choices(approval: &ApprovalRequest, pending: PendingPrompts) -> Vec<ApprovalChoice> {
    use ApprovalChoice::*;
    let lasting = !approval.lasting_rules.is_empty();
    [Once, Session, Always, No, NoBecause, Edit, ShowAll, AllOnce, NoneOfThem]
        .into_iter()
        .filter(|choice| match choice {
            Session | Always => lasting,
            AllOnce => pending != PendingPrompts::default(),
            NoneOfThem => pending.asked > 0,
            _ => true,
        })
        .collect()
}

/// Renders the answers with their numbers.
pub(crate) fn approval_line(
    approval: &ApprovalRequest,
    accepted_keys: AnswerKeys,
    focus: Option<usize>,
    pending: PendingPrompts,
) -> Line {
    let mut line = Line::from_text("  allow this call?", Style::PROMPT);
    if accepted_keys == AnswerKeys::Nothing {
        return line;
    }
    let number_style = if accepted_keys == AnswerKeys::Digits { Style::BOLD } else { Style::DIM };
    for (at, choice) in approval_choices(approval, pending).into_iter().enumerate() {
        let is_focused = focus == Some(at);
        line.push(if is_focused { " ▸ " } else { "   " }, Style::PROMPT);
        line.push(&(choice as usize).to_string(), if is_focused { Style::PROMPT } else { number_style });
        let label_style = if is_focused { Style::BOLD } else { Style::PLAIN };
        line.push(&format!(" {}", label(choice, approval, pending)), label_style);
    }
    line.push(
        if accepted_keys == AnswerKeys::Digits { "   (or ↑↓ enter)" } else { "   (↑↓ enter)" },
        Style::DIM,
    );
    line
}

fn label(choice: ApprovalChoice, approval: &ApprovalRequest, pending: PendingPrompts) -> String {
    match choice {
        ApprovalChoice::Once => "once".to_owned(),
        ApprovalChoice::Session => "for this session".to_owned(),
        ApprovalChoice::Always => match &*approval.lasting_rules {
            [rule] => format!("always ({rule})"),
            [rule, more @ ..] => format!("always ({rule} and {} more)", more.len()),
            [] => "always".to_owned(),
        },
        ApprovalChoice::No => "no".to_owned(),
        ApprovalChoice::NoBecause => "no, because …".to_owned(),
        ApprovalChoice::Edit => "edit".to_owned(),
        ApprovalChoice::ShowAll => "show all".to_owned(),
        ApprovalChoice::AllOnce if pending.coming > 0 => "all alike in this message".to_owned(),
        ApprovalChoice::AllOnce => format!("all {} once", pending.asked + 1),
        ApprovalChoice::NoneOfThem => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: KeyContext = KeyContext { has_editor: false, line_is_empty: true, in_text: false };

    fn check(keys: &[TerminalKey], context: KeyContext, expected: ListKey, expected_focus: Option<usize>) {
        let (mut focus, mut last) = (None, ListKey::Moved);
        for key in keys {
            last = apply_list_key(&mut focus, 3, key, context);
        }
        assert_eq!((last, focus), (expected, expected_focus), "{keys:?} {context:?}");
    }

    #[test]
    fn enter_answers_only_with_the_focus() {
        check(&[TerminalKey::Enter], EMPTY, ListKey::Text, None);
        check(&[TerminalKey::Down, TerminalKey::Enter], EMPTY, ListKey::Pick(0), Some(0));
        check(&[TerminalKey::Up, TerminalKey::Enter], EMPTY, ListKey::Pick(2), Some(2));
        check(&[TerminalKey::Down, TerminalKey::Escape, TerminalKey::Enter], EMPTY, ListKey::Text, None);
        check(&[TerminalKey::Down, TerminalKey::Char('x'), TerminalKey::Enter], EMPTY, ListKey::Text, None);
        check(
            &[TerminalKey::Down, TerminalKey::Paste("\n".into()), TerminalKey::Enter],
            EMPTY,
            ListKey::Text,
            None,
        );
        check(&[TerminalKey::Tab, TerminalKey::Enter], EMPTY, ListKey::Text, None);
    }

    #[test]
    fn digits_of_a_text_are_text() {
        check(&[TerminalKey::Char('2')], EMPTY, ListKey::Digit(2), None);
        check(&[TerminalKey::Char('0')], EMPTY, ListKey::Text, None);
        let with_text = KeyContext { line_is_empty: false, ..EMPTY };
        check(&[TerminalKey::Char('2')], with_text, ListKey::Text, None);
        check(&[TerminalKey::Char('2')], KeyContext { in_text: true, ..EMPTY }, ListKey::Text, None);
        check(&[TerminalKey::Down, TerminalKey::Char('2')], with_text, ListKey::Digit(2), Some(0));
    }

    #[test]
    fn the_focus_goes_around() {
        check(
            &[TerminalKey::Down, TerminalKey::Down, TerminalKey::Right, TerminalKey::Tab],
            EMPTY,
            ListKey::Moved,
            Some(0),
        );
        check(&[TerminalKey::Down, TerminalKey::Left], EMPTY, ListKey::Moved, Some(2));
        check(&[TerminalKey::Left], EMPTY, ListKey::Text, None);
    }
}
