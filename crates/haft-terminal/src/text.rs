//! Sanitizes text for the terminal, and measures its width.
//!
//! All text for the terminal passes [`sanitize`]: control characters, bidirectional and invisible
//! characters, and excessive combining marks are escaped as `\u{…}`. A joiner stays where it is
//! meaningful: between two parts of an emoji, and between letters of scripts that need it.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::limits::MARKS_MAX;

/// The distance of tab stops.
const TAB_COLUMNS: usize = 4;

/// Returns the text on one line with control characters and invisible characters escaped. Tabs
/// become spaces.
pub(crate) fn sanitize(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut before = None;
    let mut mark_count = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let is_visible = match c {
            ' '..='~' => true,
            '\t' => {
                let blanks = TAB_COLUMNS - width(&shown) % TAB_COLUMNS;
                shown.extend(std::iter::repeat_n(' ', blanks));
                before = Some(' ');
                continue;
            }
            '\u{200c}' | '\u{200d}' => is_valid_joiner(before, c, chars.peek().copied()),
            '\u{fe0f}' | '\u{fe0e}' => before.is_some_and(|before| !is_joiner(before)),
            c => !is_hidden(c),
        };
        mark_count = if is_combining_mark(c) { mark_count + 1 } else { 0 };
        if is_visible
            && mark_count <= MARKS_MAX
            && !(is_combining_mark(c) && before.is_none_or(|before| before == ' '))
        {
            shown.push(c);
            before = Some(c);
        } else if c == '\n' {
            shown.push_str("\\n");
            before = Some('n');
        } else {
            shown.extend(c.escape_unicode());
            before = Some('}');
        }
    }
    Cow::Owned(shown)
}

/// Iterates over the lines without their line ends.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_terminator('\n').map(|line| line.strip_suffix('\r').unwrap_or(line))
}

/// Returns whether a character is hidden or ends a line. Joiners count by what they join.
fn is_hidden(c: char) -> bool {
    c == '\n' || (!is_joiner(c) && haft::text::is_hidden(c, None))
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
}

/// Returns whether a character is a combining mark.
fn is_combining_mark(c: char) -> bool {
    c >= '\u{300}' && !is_joiner(c) && unicode_width::UnicodeWidthChar::width(c) == Some(0)
}

fn is_valid_joiner(before: Option<char>, joiner: char, after: Option<char>) -> bool {
    let picture =
        |c: char| matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}' | '\u{fe0f}' | '\u{fe0e}');
    let letter = |c: char| matches!(c, '\u{600}'..='\u{fff}');
    let both = |is: &dyn Fn(char) -> bool| before.is_some_and(is) && after.is_some_and(is);
    (joiner == '\u{200d}' && both(&picture)) || both(&letter)
}

/// Returns the width of a sanitized text in columns.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(cluster_width).sum() }
}

/// Returns the width of one grapheme cluster in columns.
pub(crate) fn cluster_width(cluster: &str) -> usize {
    cluster.width().min(2)
}

/// Iterates over the grapheme clusters of a sanitized text with their widths.
pub(crate) fn clusters(text: &str) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).map(|cluster| (cluster, cluster_width(cluster)))
}

/// Returns the longest prefix of a sanitized text that fits, and its width.
pub(crate) fn truncate_to_width(text: &str, columns: usize) -> (&str, usize) {
    if text.is_ascii() {
        let end = text.len().min(columns);
        return (&text[..end], end);
    }
    let (mut end, mut used) = (0, 0);
    for (cluster, wide) in clusters(text) {
        if used + wide > columns {
            break;
        }
        end += cluster.len();
        used += wide;
    }
    (&text[..end], used)
}

/// Formats a number with a comma at each thousand.
///
/// ```
/// let formatted = [0, 999, 1_000, 1_234_567].map(haft_terminal::thousands);
/// assert_eq!(formatted, ["0", "999", "1,000", "1,234,567"]);
/// ```
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, shown: &str, columns: usize) {
        let text_out = sanitize(text);
        assert_eq!((&*text_out, width(&text_out)), (shown, columns), "{text:?}");
    }

    #[test]
    fn what_a_terminal_obeys_is_written_out() {
        check("plain", "plain", 5);
        check("\x1b[31mred", "\\u{1b}[31mred", 13);
        check("a\x07\r\x7f\u{9b}1m", "a\\u{7}\\u{d}\\u{7f}\\u{9b}1m", 25);
        check("two\nlines", "two\\nlines", 10);
        check("a\tb", "a   b", 5);
    }

    #[test]
    fn what_reorders_or_hides_is_written_out() {
        check("\u{202e}evil", "\\u{202e}evil", 12);
        check("a\u{200b}b\u{2066}c", "a\\u{200b}b\\u{2066}c", 19);
        check("\u{e0041}x", "\\u{e0041}x", 10);
        check("a\u{200d}b", "a\\u{200d}b", 10);
        check("\u{301}x", "\\u{301}x", 8);
    }

    #[test]
    fn wide_joined_and_marked_characters_keep_their_width() {
        check("日本", "日本", 4);
        check("e\u{301}", "e\u{301}", 1);
        check("👩\u{200d}👩\u{200d}👧", "👩\u{200d}👩\u{200d}👧", 2);
        check("👍🏽 ❤️", "👍🏽 ❤️", 5);
        check("می\u{200c}خواهم", "می\u{200c}خواهم", 7);
    }

    #[test]
    fn marks_do_not_pile_up() {
        let text = format!("a{}", "\u{301}".repeat(100));
        let shown = sanitize(&text);
        assert_eq!(shown.matches('\u{301}').count(), MARKS_MAX, "{shown}");
    }

    #[test]
    fn fitting_never_splits_a_character() {
        assert_eq!(truncate_to_width("日本", 3), ("日", 2));
        assert_eq!(truncate_to_width("ae\u{301}b", 2), ("ae\u{301}", 2));
        assert_eq!(truncate_to_width("abc", 9), ("abc", 3));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_unsafe_comes_out(text in any::<String>()) {
            let shown = sanitize(&text);
            prop_assert!(!shown.chars().any(is_hidden), "{shown:?}");
            prop_assert_eq!(&sanitize(&shown), &shown, "what is safe stays as it is");
        }

        #[test]
        fn fitting_fits(text in any::<String>(), columns in 0usize..40) {
            let shown = sanitize(&text);
            let (part, used) = truncate_to_width(&shown, columns);
            prop_assert!(used <= columns && shown.starts_with(part));
            prop_assert_eq!(width(part), used);
        }
    }
}
