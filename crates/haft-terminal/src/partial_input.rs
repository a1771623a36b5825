//! The incomplete JSON input of a call while the model writes it. It is shown and never run.
//!
//! There are two readings of the same text. [`PartialInput::value`] closes everything that is open,
//! so that the tool's view can render it; it reads the start only, because views are recomputed for
//! every frame. [`PartialInput::tail`] is the end of the string that is being written, however long
//! it is. No tool is known by name here.

use haft::text::truncate_bytes;
use serde_json::{Map, Value};

use crate::limits::{VIEWED_BYTES_MAX, WRITING_BYTES_MAX, WRITING_DEPTH_MAX, WRITING_LINES};

/// How much of the end of a string is stored, in bytes.
const TAIL_BYTES_MAX: usize = 8 * 1024;

/// The received part of a call's input.
#[derive(Debug, Default)]
pub(crate) struct PartialInput {
    head: String,
    bytes: usize,
    scan: JsonScan,
}

impl PartialInput {
    pub(crate) fn push(&mut self, json: &str) {
        self.bytes += json.len();
        if self.head.len() + json.len() <= WRITING_BYTES_MAX {
            self.head.push_str(json);
        }
        json.chars().for_each(|c| self.scan.step(c));
    }

    /// Returns the number of received bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Parses the input with everything closed that is open.
    pub(crate) fn value(&self) -> Value {
        LenientReader { rest: truncate_bytes(&self.head, VIEWED_BYTES_MAX) }.value(0).unwrap_or(Value::Null)
    }

    /// Returns the last lines of the current or last string; `None` if it is short.
    pub(crate) fn tail(&self) -> Option<Vec<&str>> {
        let text = self.scan.tail.as_str();
        if !self.scan.cut && !text.contains('\n') {
            return None;
        }
        let lines: Vec<&str> = crate::text::lines(text).collect();
        let from = lines.len().saturating_sub(WRITING_LINES);
        Some(lines[from..].to_vec())
    }
}

/// Scans JSON text and remembers the end of the last string value.
#[derive(Debug, Default)]
struct JsonScan {
    /// The open containers: `true` for an object, `false` for an array.
    open: Vec<bool>,
    /// Whether the next string is a value.
    value_next: bool,
    within: ScanState,
    tail: String,
    /// Whether the tail was truncated.
    cut: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum ScanState {
    #[default]
    Structure,
    /// In a string; `true` if it is a value.
    Text(bool),
    /// After a backslash in a string.
    Escape(bool),
    /// In `\uXXXX`: whether the string is a value, the number of digits, and the code so far.
    Code { value: bool, digits: u8, code: u32 },
}

impl JsonScan {
    fn step(&mut self, c: char) {
        match self.within {
            ScanState::Structure => match c {
                '"' => {
                    let value = self.value_next || self.open.last() == Some(&false);
                    if value {
                        self.tail.clear();
                        self.cut = false;
                    }
                    self.value_next = false;
                    self.within = ScanState::Text(value);
                }
                ':' => self.value_next = true,
                '{' | '[' => {
                    self.value_next = false;
                    if self.open.len() < WRITING_DEPTH_MAX {
                        self.open.push(c == '{');
                    }
                }
                '}' | ']' => {
                    self.open.pop();
                }
                ',' => self.value_next = false,
                _ => {}
            },
            ScanState::Text(value) => match c {
                '"' => self.within = ScanState::Structure,
                '\\' => self.within = ScanState::Escape(value),
                c => self.put(c, value),
            },
            ScanState::Escape(value) => {
                self.within = ScanState::Text(value);
                match c {
                    'n' => self.put('\n', value),
                    't' => self.put('\t', value),
                    'r' => self.put('\r', value),
                    'b' => self.put('\u{8}', value),
                    'f' => self.put('\u{c}', value),
                    'u' => self.within = ScanState::Code { value, digits: 0, code: 0 },
                    c => self.put(c, value),
                }
            }
            ScanState::Code { value, digits, code } => {
                let code = code * 16 + c.to_digit(16).unwrap_or(0);
                if digits < 3 {
                    self.within = ScanState::Code { value, digits: digits + 1, code };
                    return;
                }
                self.within = ScanState::Text(value);
                // One replacement character stands for a surrogate pair; the final view decodes it.
                match code {
                    0xdc00..=0xdfff => {}
                    code => self.put(char::from_u32(code).unwrap_or('\u{fffd}'), value),
                }
            }
        }
    }

    fn put(&mut self, c: char, value: bool) {
        if !value {
            return;
        }
        self.tail.push(c);
        if self.tail.len() > TAIL_BYTES_MAX {
            let from = self.tail.ceil_char_boundary(TAIL_BYTES_MAX / 2);
            let from = self.tail[from..].find('\n').map_or(from, |end| from + end + 1);
            self.tail.drain(..from);
            self.cut = true;
        }
    }
}

/// A JSON parser that accepts truncated input.
struct LenientReader<'a> {
    rest: &'a str,
}

impl LenientReader<'_> {
    /// Parses a value; `None` if no value started, or if a truncated literal is ambiguous.
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_whitespace();
        match self.rest.bytes().next()? {
            b'{' if depth < WRITING_DEPTH_MAX => Some(self.object(depth)),
            b'[' if depth < WRITING_DEPTH_MAX => Some(self.array(depth)),
            b'"' => self.string().map(|(text, _)| Value::String(text)),
            _ => {
                let end = self.rest.find([',', '}', ']', ' ', '\n', '\t', '\r'])?;
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                serde_json::from_str(word).ok()
            }
        }
    }

    fn object(&mut self, depth: usize) -> Value {
        let mut fields = Map::new();
        self.take(1);
        loop {
            self.skip_whitespace();
            match self.rest.bytes().next() {
                Some(b',') => self.take(1),
                Some(b'"') => {
                    let Some((key, true)) = self.string() else { break };
                    self.skip_whitespace();
                    if !self.rest.starts_with(':') {
                        break;
                    }
                    self.take(1);
                    let Some(value) = self.value(depth + 1) else { break };
                    fields.insert(key, value);
                }
                Some(b'}') => {
                    self.take(1);
                    break;
                }
                _ => break,
            }
        }
        Value::Object(fields)
    }

    fn array(&mut self, depth: usize) -> Value {
        let mut items = Vec::new();
        self.take(1);
        loop {
            self.skip_whitespace();
            match self.rest.bytes().next() {
                Some(b',') => self.take(1),
                Some(b']') => {
                    self.take(1);
                    break;
                }
                None => break,
                Some(_) => match self.value(depth + 1) {
                    Some(value) => items.push(value),
                    None => break,
                },
            }
        }
        Value::Array(items)
    }

    /// Parses a string; also returns whether it is closed.
    fn string(&mut self) -> Option<(String, bool)> {
        let bytes = self.rest.as_bytes();
        let mut at = 1;
        while at < bytes.len() && bytes[at] != b'"' {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        if at < bytes.len() {
            let text = serde_json::from_str(&self.rest[..=at]).ok()?;
            self.take(at + 1);
            return Some((text, true));
        }
        // Truncated: drop a partial escape sequence.
        let mut end = self.rest.len();
        for back in 0..12 {
            let at = end.saturating_sub(back);
            if at < 1 || !self.rest.is_char_boundary(at) {
                continue;
            }
            if let Ok(text) = serde_json::from_str(&format!("{}\"", &self.rest[..at])) {
                self.rest = "";
                return Some((text, false));
            }
        }
        end = 1;
        self.take(end);
        None
    }

    fn skip_whitespace(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(json: &str) -> PartialInput {
        let mut writing = PartialInput::default();
        writing.push(json);
        writing
    }

    fn check(json: &str, expected: Value) {
        assert_eq!(written(json).value(), expected, "{json}");
    }

    #[test]
    fn what_is_open_is_closed() {
        check(r#"{"file_path": "a.rs", "content": "fn ma"#, json!({"file_path": "a.rs", "content": "fn ma"}));
        check(r#"{"a": "x\"#, json!({"a": "x"}));
        check(r#"{"a": "x\u00"#, json!({"a": "x"}));
        check(r#"{"a": [1, 2, {"b": tru"#, json!({"a": [1, 2, {}]}));
        check(r#"{"a": 1"#, json!({}));
        check(r#"{"a": 1, "b"#, json!({"a": 1}));
        check("", Value::Null);
    }

    #[test]
    fn the_tail_is_the_end_of_what_is_being_written() {
        let mut writing = written(r#"{"path": "a\nb", "content": "one\ntwo\nth"#);
        assert_eq!(writing.tail(), Some(vec!["one", "two", "th"]));
        for line in 0..10_000 {
            writing.push(&format!("line {line}\\n"));
        }
        let tail = writing.tail().unwrap();
        assert_eq!((tail.len(), tail[tail.len() - 1]), (WRITING_LINES, "line 9999"));
        assert!(writing.scan.tail.len() <= TAIL_BYTES_MAX);
        assert_eq!(written(r#"{"a": "short"#).tail(), None);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whole_json_is_read_as_it_is(value in any_json()) {
            let wrapped = json!({"x": value});
            prop_assert_eq!(written(&wrapped.to_string()).value(), wrapped);
        }

        #[test]
        fn it_may_end_anywhere(value in any_json(), at in 0usize..400) {
            let text = json!({"x": value}).to_string();
            let end = text.char_indices().map(|(at, _)| at).nth(at).unwrap_or(text.len());
            let mut writing = written(&text[..end]);
            let _ = (writing.value(), writing.tail().is_some());
            writing.push(&text[end..]);
            prop_assert_eq!(writing.value(), json!({"x": value}));
        }
    }
}
