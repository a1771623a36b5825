//! Small pieces of text: values shortened to be shown, JSON pointers, near names.
//!
//! Everything here is bounded whatever it is given, because what it is given came from a model.

use std::io::{self, Write};

use serde_json::Value;

use crate::limits::VALUE_CHARS_MAX;
use crate::spelling::edit_distance;
use crate::text::{truncate_chars, truncate_with_ellipsis};

/// Returns the JSON of a value, cut to [`VALUE_CHARS_MAX`] characters.
pub(crate) fn shorten_value(value: &Value) -> String {
    // Cutting after a full `to_string` would copy an input of megabytes for a line of message.
    let mut cut = BoundedWriter { bytes: Vec::new(), room: VALUE_CHARS_MAX * 4 + 4 };
    // The only error is the one of `BoundedWriter`, which means that there is enough to show.
    let _ = serde_json::to_writer(&mut cut, value);
    shorten_text(&String::from_utf8_lossy(&cut.bytes), VALUE_CHARS_MAX)
}

/// A writer that takes so many bytes and then refuses.
struct BoundedWriter {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns `text` cut to `chars_max` characters, the last of which is `…` if something is missing.
pub(crate) fn shorten_text(text: &str, chars_max: usize) -> String {
    if truncate_chars(text, chars_max).len() == text.len() {
        return text.to_owned();
    }
    truncate_with_ellipsis(text, chars_max.saturating_sub(1))
}

/// Returns one step of a JSON pointer, escaped.
pub(crate) fn escape_pointer(step: &str) -> String {
    if step.contains(['~', '/']) { step.replace('~', "~0").replace('/', "~1") } else { step.to_owned() }
}

/// Returns the name in `names` that is nearest to `name`, if one is near enough to be meant.
pub(crate) fn nearest_name<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let wanted: Vec<char> = plain(name).chars().take(64).collect();
    names
        .map(|other| (edit_distance(&wanted, &plain(other).chars().take(64).collect::<Vec<_>>()), other))
        .filter(|(distance, _)| *distance <= (wanted.len() / 3).min(3))
        .min()
        .map(|(_, other)| other)
}

/// Returns what a same-document reference (`#`, `#/…`) points to. Anchors are not looked for.
pub(crate) fn resolve_reference<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = reference.strip_prefix('#')?;
    if fragment.is_empty() {
        return Some(root);
    }
    if !fragment.contains('%') {
        return root.pointer(fragment);
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first == b'%' {
            let [high, low, tail @ ..] = rest else { return None };
            let digit = |byte: u8| char::from(byte).to_digit(16);
            bytes.push(u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    root.pointer(&String::from_utf8(bytes).ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_cut_between_characters() {
        assert_eq!(shorten_value(&json!({"a": [1, null]})), r#"{"a":[1,null]}"#);
        let long = shorten_value(&json!("é".repeat(1_000_000)));
        assert_eq!(long.chars().count(), VALUE_CHARS_MAX);
        assert!(long.ends_with("é…"), "{long}");
        assert_eq!(shorten_text("abc", 3), "abc");
        assert_eq!(shorten_text("ééé", 3), "ééé");
        assert_eq!(shorten_text("éééé", 3), "éé…");
        assert_eq!(shorten_text("ab", 0), "…");
    }

    #[test]
    fn near_names() {
        #[track_caller]
        fn check(name: &str, expected: Option<&str>) {
            assert_eq!(
                nearest_name(name, ["path", "head_limit", "old_string"].into_iter()),
                expected,
                "{name}"
            );
        }
        check("paht", Some("path"));
        check("headLimit", Some("head_limit"));
        check("oldString", Some("old_string"));
        check("pth", Some("path"));
        check("colour", None);
        check("x", None);
        check("", None);
    }

    #[test]
    fn references_of_the_same_document() {
        let root = json!({"$defs": {"a/b": 1, "c d": 2}});
        assert_eq!(resolve_reference(&root, "#"), Some(&root));
        assert_eq!(resolve_reference(&root, "#/$defs/a~1b"), Some(&json!(1)));
        assert_eq!(resolve_reference(&root, "#/%24defs/c%20d"), Some(&json!(2)));
        assert_eq!(resolve_reference(&root, "#/$defs/%"), None);
        assert_eq!(resolve_reference(&root, "#/$defs/%ff"), None);
        assert_eq!(resolve_reference(&root, "http://a/#"), None);
    }
}
