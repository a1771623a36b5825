//! Line diff of two texts, for views.

use std::time::Duration;

use haft::view::{DiffLine, LineChange, ViewPart};
use similar::{ChangeTag, TextDiff};

use crate::checkpoints::{common_prefix, common_suffix};

/// Lines that stayed, around those that changed.
const CONTEXT_LINES: usize = 3;
/// The largest text that is compared, in bytes; a larger change is only counted.
const COMPARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long to look for a small difference before a larger one will do.
const TIME_MAX: Duration = Duration::from_millis(500);

/// What changed between two texts.
#[derive(Default, Debug)]
pub(crate) struct LineDiff {
    pub(crate) added: usize,
    pub(crate) removed: usize,
    lines: Vec<DiffLine>,
}

impl LineDiff {
    /// Compares two texts; line ends are part of what is compared and not of what is shown.
    pub(crate) fn between(old: &[u8], new: &[u8]) -> LineDiff {
        if old.len().max(new.len()) > COMPARED_BYTES_MAX {
            let lines = |text: &[u8]| text.split_inclusive(|byte| *byte == b'\n').count();
            return LineDiff { added: lines(new), removed: lines(old), lines: Vec::new() };
        }
        // Most changes are small: what both have at the ends, but for some lines around, is not looked at.
        let (head, lines_before, tail) = same_ends(old, new);
        let (old, new) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
        let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
        let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(&*old, &*new);
        let mut found = LineDiff::default();
        for op in diff.grouped_ops(CONTEXT_LINES).iter().flatten() {
            for change in diff.iter_changes(op) {
                let (change_is, number) = match change.tag() {
                    ChangeTag::Equal => (LineChange::Same, change.new_index()),
                    ChangeTag::Insert => (LineChange::Added, change.new_index()),
                    ChangeTag::Delete => (LineChange::Removed, change.old_index()),
                };
                found.added += usize::from(change_is == LineChange::Added);
                found.removed += usize::from(change_is == LineChange::Removed);
                if found.lines.len() < haft::limits::VIEW_LINES_MAX {
                    let text = change.value().trim_end_matches(['\n', '\r']).to_owned();
                    let number = number.map_or(0, |index| lines_before + index + 1);
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

    /// The lines with their numbers and signs, for a text.
    pub(crate) fn to_lines(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|line| format!("{}\t{}{}", line.number, line.change.sign(), line.text))
    }

    pub(crate) fn into_part(self, path: &str) -> ViewPart {
        ViewPart::Diff { path: path.to_owned(), lines: self.lines }
    }
}

/// How many bytes two texts have in common at the beginning, in whole lines but for the last few; how many
/// lines those are; and how many bytes at the end.
fn same_ends(old: &[u8], new: &[u8]) -> (usize, usize, usize) {
    let newline = |byte: &u8| *byte == b'\n';
    let prefix = common_prefix(old, new);
    let suffix = common_suffix(&old[prefix..], &new[prefix..]);
    let mut head = prefix;
    // To the beginning of the line in which they differ, and of those before it.
    for _ in 0..=CONTEXT_LINES {
        head = old[..head.saturating_sub(1)].iter().rposition(newline).map_or(0, |at| at + 1);
    }
    let end = old.len() - suffix;
    let mut kept = end;
    for _ in 0..=CONTEXT_LINES {
        kept += old[kept..].iter().position(newline).map_or(old.len() - kept, |at| at + 1);
    }
    (head, memchr::memchr_iter(b'\n', &old[..head]).count(), old.len() - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same lines whether or not the ends are looked at.
    #[test]
    fn ends_in_common_change_nothing() {
        let words = ["a\n", "b\n", "a", "\n", "c\r\n", "x\ny\n"];
        let text = |mut seed: usize| -> String {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(words[(seed >> 33) % words.len()]);
            }
            text
        };
        for seed in 0..2_000 {
            let (ends, old, new) = (text(seed / 7), text(seed), text(seed + 1));
            let (old, new) = (format!("{ends}{old}{ends}"), format!("{ends}{new}{ends}"));
            let (head, lines, tail) = same_ends(old.as_bytes(), new.as_bytes());
            assert_eq!(old[..head], new[..head]);
            assert_eq!(old[old.len() - tail..], new[new.len() - tail..]);
            assert!(head == 0 || old[..head].ends_with('\n'));
            assert_eq!(old[..head].lines().count(), lines);
            // What is left says how one becomes the other.
            let diff = LineDiff::between(old.as_bytes(), new.as_bytes());
            let lines = |text: &str| text.split_inclusive('\n').count();
            assert_eq!(lines(&old) + diff.added, lines(&new) + diff.removed, "{old:?} {new:?}");
        }
    }

    fn check(old: &str, new: &str, expected: &str) {
        let diff = LineDiff::between(old.as_bytes(), new.as_bytes());
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
