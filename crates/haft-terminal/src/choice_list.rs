//! The list of answers to a question: its choices, and what keys do in it.
//!
//! Each answer to an approval has one number, whether or not the others are offered, so a number that the user knows
//! never means more than it did.

use haft::ports::Approval;

use crate::keys::Key;
use crate::question::{Accepts, KeyContext, Others};
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

/// What a key does in a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ListKey {
    /// It moved the focus, or does nothing here.
    Moved,
    /// It chooses the focused entry.
    Pick(usize),
    /// It chooses the entry with this number.
    Digit(usize),
    /// It belongs to the input line, which has the focus now.
    Text,
}

/// Applies a key to a list of at least one entry.
pub(crate) fn apply_list_key(
    focus: &mut Option<usize>,
    count: usize,
    key: &Key,
    context: KeyContext,
) -> ListKey {
    let digits = focus.is_some() || (context.line_is_empty && !context.in_text);
    let next = match (key, *focus) {
        (Key::Up, None) => Some(count - 1),
        (Key::Down, None) => Some(0),
        (Key::Up | Key::Left | Key::BackTab | Key::Ctrl('p'), Some(at)) => Some((at + count - 1) % count),
        (Key::Down | Key::Right | Key::Tab | Key::Ctrl('n'), Some(at)) => Some((at + 1) % count),
        (Key::Enter, Some(at)) => return ListKey::Pick(at),
        (Key::Char(digit @ '1'..='9'), _) if digits => {
            return ListKey::Digit(*digit as usize - '0' as usize);
        }
        (Key::Escape, Some(_)) => None,
        (Key::Unknown | Key::BackTab, _) => *focus,
        _ => {
            *focus = None;
            return ListKey::Text;
        }
    };
    *focus = next;
    ListKey::Moved
}

/// The answers that an approval offers.
pub(crate) fn approval_choices(approval: &Approval, others: Others) -> Vec<ApprovalChoice> {
    use ApprovalChoice::*;
    let lasting = !approval.lasting_rules.is_empty();
    [Once, Session, Always, No, NoBecause, Edit, ShowAll, AllOnce, NoneOfThem]
        .into_iter()
        .filter(|choice| match choice {
            Session | Always => lasting,
            AllOnce => others != Others::default(),
            NoneOfThem => others.asked > 0,
            _ => true,
        })
        .collect()
}

/// The answers to an approval, with their numbers.
pub(crate) fn approval_line(
    approval: &Approval,
    accepts: Accepts,
    focus: Option<usize>,
    others: Others,
) -> Line {
    let mut line = Line::of("  allow this call?", Style::ASKS);
    if accepts == Accepts::Nothing {
        return line;
    }
    let number_style = if accepts == Accepts::Digits { Style::BOLD } else { Style::DIM };
    for (at, choice) in approval_choices(approval, others).into_iter().enumerate() {
        let is_focused = focus == Some(at);
        line.push(if is_focused { " ▸ " } else { "   " }, Style::ASKS);
        line.push(&(choice as usize).to_string(), if is_focused { Style::ASKS } else { number_style });
        let label_style = if is_focused { Style::BOLD } else { Style::PLAIN };
        line.push(&format!(" {}", label(choice, approval, others)), label_style);
    }
    line.push(if accepts == Accepts::Digits { "   (or ↑↓ enter)" } else { "   (↑↓ enter)" }, Style::DIM);
    line
}

fn label(choice: ApprovalChoice, approval: &Approval, others: Others) -> String {
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
        ApprovalChoice::AllOnce if others.coming > 0 => "all alike in this message".to_owned(),
        ApprovalChoice::AllOnce => format!("all {} once", others.asked + 1),
        ApprovalChoice::NoneOfThem => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: KeyContext = KeyContext { has_editor: false, line_is_empty: true, in_text: false };

    fn check(keys: &[Key], context: KeyContext, expected: ListKey, expected_focus: Option<usize>) {
        let (mut focus, mut last) = (None, ListKey::Moved);
        for key in keys {
            last = apply_list_key(&mut focus, 3, key, context);
        }
        assert_eq!((last, focus), (expected, expected_focus), "{keys:?} {context:?}");
    }

    #[test]
    fn enter_answers_only_with_the_focus() {
        check(&[Key::Enter], EMPTY, ListKey::Text, None);
        check(&[Key::Down, Key::Enter], EMPTY, ListKey::Pick(0), Some(0));
        check(&[Key::Up, Key::Enter], EMPTY, ListKey::Pick(2), Some(2));
        check(&[Key::Down, Key::Escape, Key::Enter], EMPTY, ListKey::Text, None);
        check(&[Key::Down, Key::Char('x'), Key::Enter], EMPTY, ListKey::Text, None);
        check(&[Key::Down, Key::Paste("\n".into()), Key::Enter], EMPTY, ListKey::Text, None);
        check(&[Key::Tab, Key::Enter], EMPTY, ListKey::Text, None);
    }

    #[test]
    fn digits_of_a_text_are_text() {
        check(&[Key::Char('2')], EMPTY, ListKey::Digit(2), None);
        check(&[Key::Char('0')], EMPTY, ListKey::Text, None);
        let with_text = KeyContext { line_is_empty: false, ..EMPTY };
        check(&[Key::Char('2')], with_text, ListKey::Text, None);
        check(&[Key::Char('2')], KeyContext { in_text: true, ..EMPTY }, ListKey::Text, None);
        check(&[Key::Down, Key::Char('2')], with_text, ListKey::Digit(2), Some(0));
    }

    #[test]
    fn the_focus_goes_around() {
        check(&[Key::Down, Key::Down, Key::Right, Key::Tab], EMPTY, ListKey::Moved, Some(0));
        check(&[Key::Down, Key::Left], EMPTY, ListKey::Moved, Some(2));
        check(&[Key::Left], EMPTY, ListKey::Text, None);
    }
}
