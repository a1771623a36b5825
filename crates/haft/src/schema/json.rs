//! Text to [`Value`], strictly and in one pass.
//!
//! What a model sends is untrusted text. `serde_json` alone keeps the last of two equal keys, so a check on
//! the one could be followed by an execution of the other; here a duplicate is refused. Depth and size are
//! bounded before anything else walks the value. An integer that 64 bits don't hold would silently become
//! another number, so it is refused like a number that no float holds; a fraction is rounded, as everywhere.
//!
//! Every crate reads untrusted JSON with this reader where it needs a value: inputs of calls, results of
//! scripts and their `tool.json`, replies of hooks, answers of MCP clients. Three readers do other work and
//! say why in their headers: settings (`haft-policy`, `settings/jsonc.rs`), the frames of provider messages
//! (`haft-provider`, `decode/json.rs`), and the envelope of JSON-RPC (`haft-mcp`, `server/message.rs`).
//!
//! The place of a failure costs nothing while all goes well: each level adds its key to the path
//! only when an error comes up through it.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value, error::Category};

use super::InputViolation;
use super::show::{escape_pointer, shorten_text};
use crate::limits::{INPUT_BYTES_MAX, INPUT_DEPTH_MAX, VALUE_CHARS_MAX};

/// Parses one JSON text, refusing duplicate keys, too much depth, too much text and anything after
/// the value.
///
/// # Errors
/// One [`InputViolation`] whose path is the place that was being read.
pub fn parse_json(text: &str) -> Result<Value, InputViolation> {
    if text.len() > INPUT_BYTES_MAX {
        return Err(InputViolation::new(
            "",
            format!("the input has {} bytes; at most {INPUT_BYTES_MAX} bytes are accepted", text.len()),
        ));
    }
    let mut failure = ParseFailure::default();
    let value = parse_value(text, &mut failure)
        .map_err(|error| std::mem::take(&mut failure).into_violation(text, &error))?;
    // The parser makes a float of an integer that is too large; only the text says what it was. Such numbers
    // are rare, so the place is found by a second reading.
    if failure.large
        && let Some(inexact) = first_inexact_integer(text)
    {
        failure = ParseFailure { inexact: Some(inexact), ..ParseFailure::default() };
        parse_value(text, &mut failure).map_err(|error| failure.into_violation(text, &error))?;
    }
    Ok(value)
}

fn parse_value(text: &str, failure: &mut ParseFailure) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = ParsePosition { failure, depth: 0 }.deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// The first integer of a valid JSON text that 64 bits don't hold: how many numbers come before it, and the
/// integer.
fn first_inexact_integer(text: &str) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut numbers) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let rest = &bytes[at..];
                let is_in = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let length = rest.iter().position(|byte| !is_in(byte)).unwrap_or(rest.len());
                let number = &text[at..at + length];
                let integer = !number.contains(['.', 'e', 'E']);
                // `-0` is a float for the parser and the same number.
                if integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some((numbers, number));
                }
                numbers += 1;
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// What went wrong and where; empty as long as nothing did.
#[derive(Default)]
struct ParseFailure<'t> {
    /// Innermost step first.
    steps: Vec<String>,
    reason: Option<String>,
    /// How many numbers were read.
    numbers: usize,
    /// Whether one of them may have been an integer that 64 bits don't hold.
    large: bool,
    /// The number to refuse, by how many come before it.
    inexact: Option<(usize, &'t str)>,
}

impl ParseFailure<'_> {
    /// Counts a number, unless it is the one to refuse.
    #[inline]
    fn number<E: serde::de::Error>(&mut self, number: Number) -> Result<Value, E> {
        match self.inexact {
            Some((at, integer)) if at == self.numbers => {
                self.reason = Some(format!(
                    "the integer {} can't be kept exactly; integers from {} to {} are accepted",
                    shorten_text(integer, VALUE_CHARS_MAX),
                    i64::MIN,
                    u64::MAX
                ));
                Err(E::custom("inexact"))
            }
            _ => {
                self.numbers += 1;
                Ok(Value::Number(number))
            }
        }
    }

    #[cold]
    fn step(&mut self, step: String) {
        self.steps.push(step);
    }

    #[cold]
    fn into_violation(self, text: &str, error: &serde_json::Error) -> InputViolation {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            path.push('/');
            path.push_str(&escape_pointer(step));
        }
        let (line, column) = (error.line(), error.column());
        let message = match (self.reason, error.classify()) {
            (Some(reason), _) => reason,
            (None, _) if text.trim().is_empty() => "the input is empty; a JSON object is accepted".to_owned(),
            (None, Category::Eof) => format!(
                "the JSON text is cut off at line {line} column {column}: {}; send the whole text",
                describe_error(error)
            ),
            (None, _) => format!("not valid JSON at line {line} column {column}: {}", describe_error(error)),
        };
        InputViolation::new(path, message)
    }
}

/// The parser's words without its position, in the terms of someone who wrote the text.
pub(super) fn describe_error(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.split(" at line ").next().unwrap_or_default();
    match words {
        "EOF while parsing a list" => "an array is not closed".to_owned(),
        "EOF while parsing an object" => "an object is not closed".to_owned(),
        "EOF while parsing a string" => "a string is not closed".to_owned(),
        "EOF while parsing a value" => "a value is expected".to_owned(),
        "expected value" => "expected a value".to_owned(),
        "expected ident" => "expected `true`, `false` or `null`".to_owned(),
        "key must be a string" => "expected a key in double quotes".to_owned(),
        "trailing characters" => "expected nothing after the value".to_owned(),
        "trailing comma" => "expected another entry after the comma".to_owned(),
        "invalid number" => "expected a digit".to_owned(),
        "number out of range" => "the number is out of range; it has to fit a 64-bit float".to_owned(),
        "control character (\\u0000-\\u001F) found while parsing a string" => {
            "a control character in a string has to be escaped".to_owned()
        }
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "a \\u escape of a surrogate has to be followed by its second half".to_owned()
        }
        other => other.to_owned(),
    }
}

/// One place in the text that a value is read for.
struct ParsePosition<'f, 't> {
    failure: &'f mut ParseFailure<'t>,
    depth: usize,
}

impl ParsePosition<'_, '_> {
    fn check_depth<E: serde::de::Error>(&mut self) -> Result<(), E> {
        if self.depth < INPUT_DEPTH_MAX {
            return Ok(());
        }
        self.failure.reason = Some(format!(
            "nested too deep; at most {INPUT_DEPTH_MAX} objects and arrays may be inside one another"
        ));
        Err(E::custom("too deep"))
    }
}

impl<'de> DeserializeSeed<'de> for ParsePosition<'_, '_> {
    type Value = Value;

    #[inline]
    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ParsePosition<'_, '_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    #[inline]
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    #[inline]
    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.failure.number(value.into())
    }

    #[inline]
    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        self.failure.number(value.into())
    }

    #[inline]
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // Every integer below this is held by 64 bits, and read as such.
        const LARGE: f64 = 9_223_372_036_854_775_807.0;
        self.failure.large |= value.abs() >= LARGE;
        Number::from_f64(value).map_or(Ok(Value::Null), |number| self.failure.number(number))
    }

    #[inline]
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    #[inline]
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    #[inline]
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut array = Vec::new();
        loop {
            match items.next_element_seed(ParsePosition { failure: self.failure, depth: self.depth + 1 }) {
                Ok(Some(item)) => array.push(item),
                Ok(None) => return Ok(Value::Array(array)),
                Err(error) => {
                    self.failure.step(array.len().to_string());
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.check_depth()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = match entries
                .next_value_seed(ParsePosition { failure: self.failure, depth: self.depth + 1 })
            {
                Ok(value) => value,
                Err(error) => {
                    self.failure.step(key);
                    return Err(error);
                }
            };
            // Found after the value was read: the order costs nothing, and a look-up before would be
            // a second one for every key.
            match object.entry(key) {
                serde_json::map::Entry::Vacant(place) => {
                    place.insert(value);
                }
                serde_json::map::Entry::Occupied(taken) => {
                    let key = taken.key().clone();
                    self.failure.reason = Some(format!(
                        "the key {} appears twice in one object; give it once",
                        shorten_text(&Value::String(key.clone()).to_string(), VALUE_CHARS_MAX)
                    ));
                    self.failure.step(key);
                    return Err(A::Error::custom("duplicate key"));
                }
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, path: &str, message: &str) {
        let violation = parse_json(text).expect_err("the text is refused");
        assert_eq!(violation.path(), path, "{violation}");
        assert!(violation.message().contains(message), "{violation}");
    }

    #[test]
    fn agrees_with_serde_json_on_what_is_fine() {
        for text in [
            "null",
            " true ",
            "false",
            "0",
            "-0",
            "-1",
            "18446744073709551615",
            "-9223372036854775808",
            "1.5",
            "5.0",
            "1e3",
            "1e300",
            "-12345678901234567890123.0",
            "0.1234567890123456789012345",
            r#"{"12345678901234567890123":["\\\"","12345678901234567890123",1e30]}"#,
            r#""""#,
            r#""a\u0000b""#,
            r#""\ud83d\ude00""#,
            r#""é""#,
            "[]",
            "{}",
            r#"[1,[2,[3]],{"a":{"b":null}}]"#,
            r#"{"a":1,"A":2,"":3}"#,
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse_json(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn duplicate_keys_are_refused_with_their_path() {
        refused(r#"{"a":1,"a":2}"#, "/a", r#"the key "a" appears twice"#);
        refused(r#"{"a":1,"b":1,"\u0061":2}"#, "/a", "appears twice");
        refused(r#"{"x":[0,{"y":{"k/~":1,"k/~":1}}]}"#, "/x/1/y/k~1~0", "appears twice");
        assert!(parse_json(r#"{"a":{"a":1},"b":{"a":2}}"#).is_ok());
    }

    #[test]
    fn integers_are_kept_exactly_or_refused() {
        refused(
            "123456789012345678901234567890",
            "",
            "the integer 123456789012345678901234567890 can't be kept exactly",
        );
        refused(
            "18446744073709551616",
            "",
            "integers from -9223372036854775808 to 18446744073709551615 are accepted",
        );
        refused("-9223372036854775809", "", "can't be kept exactly");
        refused(
            r#"{"a":[1,-0,1e30,"9",{"b\"":-12345678901234567890}],"c":1}"#,
            r#"/a/4/b""#,
            "-12345678901234567890",
        );
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_json(&nested(INPUT_DEPTH_MAX)).is_ok());
        let violation = parse_json(&nested(INPUT_DEPTH_MAX + 1)).unwrap_err();
        assert!(violation.message().contains("at most 64"), "{violation}");
        assert!(parse_json(&"[".repeat(1_000_000)).is_err());
        assert!(parse_json(&r#"{"a":"#.repeat(100_000)).is_err());
    }

    #[test]
    fn size_is_bounded() {
        let text = format!("\"{}\"", "a".repeat(INPUT_BYTES_MAX));
        refused(&text, "", "at most 16777216 bytes");
        let text = format!("\"{}\"", "a".repeat(INPUT_BYTES_MAX - 2));
        assert!(parse_json(&text).is_ok());
    }

    #[test]
    fn syntax_errors_say_where_and_what() {
        refused(r#"{"a" 1}"#, "/a", "line 1 column 6: expected `:`");
        refused("[1,\n 2 3]", "/2", "line 2 column 4: expected `,` or `]`");
        refused(r#"{"a":1} x"#, "", "expected nothing after the value");
        refused(r#"{"a":1}{"a":1}"#, "", "expected nothing after the value");
        refused("{a:1}", "", "expected a key in double quotes");
        refused("[tru]", "/0", "expected `true`, `false` or `null`");
        refused(r#"{"a":[1,]}"#, "/a/1", "expected another entry after the comma");
        refused(r#"{"n":1e400}"#, "/n", "out of range");
        refused(r#""\ud800""#, "", "surrogate");
        refused(r#""\ud800x""#, "", "surrogate");
        refused("\"a\0b\"", "", "control character");
        refused("\0", "", "expected a value");
        refused("  ", "", "the input is empty");
        refused("NaN", "", "expected a value");
        refused("01", "", "expected a digit");
    }

    #[test]
    fn text_that_is_cut_says_so() {
        let text = r#"{"a":[1,{"b":"cé"}],"d":true}"#;
        for (end, _) in text.char_indices().skip(1) {
            let violation = parse_json(&text[..end]).unwrap_err();
            assert!(violation.message().contains("cut off at line 1"), "{end}: {violation}");
        }
        refused(r#"{"a":[1,{"b":"c"#, "/a/1/b", "a string is not closed");
    }

    #[test]
    fn a_million_keys() {
        let mut text = String::from("{");
        for key in 0..1_000_000 {
            text.push_str(&format!("\"{key}\":0,"));
        }
        text.push_str("\"7\":1}");
        refused(&text, "/7", "appears twice");
    }
}
