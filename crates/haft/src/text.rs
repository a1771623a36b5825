//! Truncation of text: the one set of helpers for names, messages and excerpts that must stay short.
//!
//! Limits count characters (`char`s) where people and models read the text, bytes where memory counts. A cut
//! never splits a character. None of these makes a text safe to print; that is
//! [`view::visible`](crate::view::escape_invisible).

/// Returns the first `chars_max` characters of a text.
///
/// ```
/// assert_eq!(haft::text::truncate_chars("grün", 3), "grü");
/// assert_eq!(haft::text::truncate_chars("grün", 9), "grün");
/// ```
pub fn truncate_chars(text: &str, chars_max: usize) -> &str {
    // A character has at least one byte, so most texts need no look at their characters.
    if text.len() <= chars_max {
        return text;
    }
    text.char_indices().nth(chars_max).map_or(text, |(end, _)| &text[..end])
}

/// Returns as many whole characters of a text as `bytes_max` bytes hold.
///
/// ```
/// assert_eq!(haft::text::truncate_bytes("grün", 3), "gr");
/// ```
pub fn truncate_bytes(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// Returns the first `chars_max` characters of a text, followed by `…` if there are more.
///
/// ```
/// assert_eq!(haft::text::truncate_with_ellipsis("grün", 3), "grü…");
/// assert_eq!(haft::text::truncate_with_ellipsis("grün", 4), "grün");
/// ```
pub fn truncate_with_ellipsis(text: &str, chars_max: usize) -> String {
    truncate_with(text, chars_max, "…")
}

/// Returns the first `chars_max` characters of a text, followed by `… (cut)` if there are more.
///
/// ```
/// assert_eq!(haft::text::truncate_with_note("grün", 3), "grü… (cut)");
/// ```
pub fn truncate_with_note(text: &str, chars_max: usize) -> String {
    truncate_with(text, chars_max, CUT_NOTE)
}

/// Truncates a text in place, as [`truncate_with_note`] does.
pub(crate) fn truncate_in_place(text: &mut String, chars_max: usize) {
    let end = truncate_chars(text, chars_max).len();
    if end < text.len() {
        text.truncate(end);
        text.push_str(CUT_NOTE);
    }
}

/// Returns whether a character is not seen, or changes how others are seen, after the character `before`:
/// control characters but line feed and tab, characters without width, those that turn the direction of text,
/// and tags.
///
/// ```
/// use haft::text::is_hidden;
///
/// assert!(is_hidden('\u{202e}', Some('a')) && is_hidden('\u{1b}', None) && !is_hidden('é', None));
/// ```
pub fn is_hidden(character: char, before: Option<char>) -> bool {
    match character {
        ' '..='~' | '\n' | '\t' => false,
        // It makes a picture of the character before it; a second one in a row only carries data.
        '\u{fe0f}' => before.is_none_or(|before| before.is_ascii_whitespace() || is_selector(before)),
        _ => {
            character.is_control()
                || is_selector(character)
                || matches!(character,
                    '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                    | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                    | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        }
    }
}

fn is_selector(character: char) -> bool {
    matches!(character, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Returns a text with every run of whitespace, line breaks included, replaced by one space, and none at its
/// ends.
///
/// ```
/// assert_eq!(haft::text::single_line(" a\n\tb "), "a b");
/// ```
pub fn single_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// What stands behind a text that was truncated.
const CUT_NOTE: &str = "… (cut)";

fn truncate_with(text: &str, chars_max: usize, mark: &str) -> String {
    let kept = truncate_chars(text, chars_max);
    if kept.len() == text.len() { text.to_owned() } else { format!("{kept}{mark}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_between_characters() {
        for (chars_max, expected) in [(0, ""), (1, "é"), (2, "é😀"), (3, "é😀x"), (4, "é😀x")] {
            assert_eq!(truncate_chars("é😀x", chars_max), expected);
        }
        for (bytes_max, expected) in [(0, ""), (1, ""), (2, "é"), (5, "é"), (6, "é😀"), (9, "é😀x")] {
            assert_eq!(truncate_bytes("é😀x", bytes_max), expected);
        }
    }

    #[test]
    fn only_a_cut_is_marked() {
        assert_eq!(truncate_with_ellipsis("", 0), "");
        assert_eq!(truncate_with_ellipsis("ab", 0), "…");
        assert_eq!(truncate_with_note("ab", 2), "ab");
        let mut text = "grün".to_owned();
        truncate_in_place(&mut text, 4);
        assert_eq!(text, "grün");
        truncate_in_place(&mut text, 1);
        assert_eq!(text, "g… (cut)");
    }
}
