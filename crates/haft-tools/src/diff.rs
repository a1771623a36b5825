//! A change as lines, for a person.

use std::time::Duration;

use haft::view::{Change, DiffLine, Part};
use similar::{ChangeTag, TextDiff};

/// Lines that stayed, around those that changed.
const CONTEXT_LINES: usize = 3;
/// The largest text that is compared, in bytes; a larger change is only counted.
const COMPARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long to look for a small difference before a larger one will do.
const TIME_MAX: Duration = Duration::from_millis(500);

/// What changed between two texts.
#[derive(Default, Debug)]
pub(crate) struct Diff {
    pub(crate) added: usize,
    pub(crate) removed: usize,
    lines: Vec<DiffLine>,
}

impl Diff {
    /// Compares two texts; line ends are part of what is compared and not of what is shown.
    pub(crate) fn of(old: &[u8], new: &[u8]) -> Diff {
        if old.len().max(new.len()) > COMPARED_BYTES_MAX {
            let lines = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').count();
            return Diff { added: lines(new), removed: lines(old), lines: Vec::new() };
        }
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(&*old, &*new);
        let mut found = Diff::default();
        for op in diff.grouped_ops(CONTEXT_LINES).iter().flatten() {
            for change in diff.iter_changes(op) {
                let (change_is, number) = match change.tag() {
                    ChangeTag::Equal => (Change::Same, change.new_index()),
                    ChangeTag::Insert => (Change::Added, change.new_index()),
                    ChangeTag::Delete => (Change::Removed, change.old_index()),
                };
                found.added += usize::from(change_is == Change::Added);
                found.removed += usize::from(change_is == Change::Removed);
                if found.lines.len() < haft::limits::VIEW_LINES_MAX {
                    let text = change.value().trim_end_matches(['\n', '\r']).to_owned();
                    let number = number.map_or(0, |index| index + 1);
                    found.lines.push(DiffLine { change: change_is, number, text });
                }
            }
        }
        found
    }

    /// `+2 −1`.
    pub(crate) fn counts(&self) -> String {
        format!("+{} −{}", self.added, self.removed)
    }

    pub(crate) fn into_part(self, path: &str) -> Part {
        Part::Diff { path: path.to_owned(), lines: self.lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let diff = Diff::of(old.as_bytes(), new.as_bytes());
        let shown: Vec<String> = diff
            .lines
            .iter()
            .map(|line| format!("{}{}{}", line.number, line.change.sign(), line.text))
            .collect();
        assert_eq!(format!("{} {}", diff.counts(), shown.join("|")), expected);
    }

    #[test]
    fn changes_are_lines_with_their_numbers() {
        check("a\nb\nc\n", "a\nB\nc\n", "+1 −1 1 a|2-b|2+B|3 c");
        check("", "a\nb\n", "+2 −0 1+a|2+b");
        check("a\n", "", "+0 −1 1-a");
        check("a", "a\n", "+1 −1 1-a|1+a");
        check("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\n9\n", "+1 −1 5 5|6 6|7 7|8-8|8+9");
        check("same\n", "same\n", "+0 −0 ");
    }
}
