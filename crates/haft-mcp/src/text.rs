//! Words of a server, before a person or a model reads them: what can't be seen is made visible, and all of
//! it is bounded.
//!
//! A description can hide instructions in characters that no screen shows, or turn around what is read. They
//! are not removed but written out (`\u{202e}`): whoever approves a tool sees that somebody put them there.

use std::borrow::Cow;

use haft::text::{single_line, truncate_chars};
use serde_json::Value;

use crate::limits::SCHEMA_WORDS_CHARS_MAX;

/// Escapes hidden characters, as [`haft::view::escape_invisible`] does. A carriage return before a line feed
/// is dropped.
///
/// ```
/// use haft_mcp::text::escape_invisible;
///
/// assert_eq!(escape_invisible("plain\ttext\n"), "plain\ttext\n");
/// assert_eq!(escape_invisible("a\u{200b}b\u{202e}c"), "a\\u{200b}b\\u{202e}c");
/// ```
pub fn escape_invisible(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        Cow::Owned(haft::view::escape_invisible(&text.replace("\r\n", "\n")).into_owned())
    } else {
        haft::view::escape_invisible(text)
    }
}

/// At most so many characters of a text, made visible; what is cut is said to be.
pub fn display_text(text: &str, chars_max: usize) -> String {
    // Looking at more than can be shown would let a long text cost time.
    let kept = truncate_chars(text, chars_max);
    let mut shown = escape_invisible(kept).into_owned();
    if kept.len() < text.len() {
        shown.push_str("… (cut)");
    }
    shown
}

/// The same on one line.
pub fn display_line(text: &str, chars_max: usize) -> String {
    let mut line = display_text(text, chars_max);
    if line.contains(['\n', '\t']) {
        line = single_line(&line);
    }
    line
}

/// Makes the words of a schema visible and bounds them. Names and values stay as they are, because calls use
/// them.
pub fn clean_schema(schema: &mut Value) {
    match schema {
        Value::Object(entries) => {
            for (key, value) in entries {
                match value {
                    Value::String(words) if matches!(key.as_str(), "description" | "title" | "$comment") => {
                        *words = display_text(words, SCHEMA_WORDS_CHARS_MAX);
                    }
                    _ => clean_schema(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(clean_schema),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_seen_stays_and_what_is_hidden_is_written_out() {
        for plain in ["", "Grüße, 世界", "⚠️ careful", "a\nb\tc", "naïve — “quoted”"] {
            assert_eq!(escape_invisible(plain), plain);
        }
        for (hidden, shown) in [
            ("a\u{7}b", r"a\u{7}b"),
            ("\u{1b}[31mred", r"\u{1b}[31mred"),
            ("a\r\nb\rc", "a\nb\\u{d}c"),
            ("\u{feff}x", r"\u{feff}x"),
            ("x\u{e0041}\u{e0042}", r"x\u{e0041}\u{e0042}"),
            ("x\u{fe0f}\u{fe0f}\u{fe01}", "x\u{fe0f}\\u{fe0f}\\u{fe01}"),
            ("\u{2066}abc\u{2069}", r"\u{2066}abc\u{2069}"),
            ("a\u{2028}b", r"a\u{2028}b"),
        ] {
            assert_eq!(escape_invisible(hidden), shown);
        }
    }

    #[test]
    fn texts_are_cut_on_characters() {
        assert_eq!(display_text("äöü", 3), "äöü");
        assert_eq!(display_text("äöüß", 3), "äöü… (cut)");
        assert_eq!(display_line("a\n  b\tc", 10), "a b c");
    }

    #[test]
    fn only_the_words_of_a_schema_are_changed() {
        let mut schema = json!({"type": "object", "description": "a\u{200b}b", "properties": {
            "description": {"type": "string", "enum": ["x\u{200b}"], "title": "t\u{202e}"}}});
        clean_schema(&mut schema);
        assert_eq!(
            schema,
            json!({"type": "object", "description": "a\\u{200b}b", "properties": {
                "description": {"type": "string", "enum": ["x\u{200b}"], "title": "t\\u{202e}"}}})
        );
    }
}
