//! JSON as text with known boundaries: nothing is parsed before it is needed.
//!
//! `serde_json` validates the whole text once, without recursion. After that a value is a piece of the text,
//! and opening an object or an array finds the boundaries of its members. So what the frame of a message
//! doesn't need is never built, and a call's input goes to the engine as it was written, where the one strict
//! reader judges it (duplicate keys, depth, lone surrogates, numbers). Whatever is wrong in it is the error
//! of that call.
//!
//! `haft::schema::parse_json` does not do this, because a frame must stay readable around an invalid input,
//! and because a message of megabytes is not copied into values.
//!
//! Objects of a whole message are strict: a duplicate key is rejected, because two readers could take
//! different values. In an event of a stream the last value counts, as it does in every other client.

use std::borrow::Cow;
use std::collections::BTreeMap;

use haft::text::truncate_with_ellipsis;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::decode_message::InvalidMessage;
use crate::limits::WORDS_CHARS_MAX;

/// A value: a piece of text that is known to be JSON, without space around it.
#[derive(Clone, Copy)]
pub(crate) struct JsonText<'t> {
    text: &'t str,
    rejects_duplicate_keys: bool,
}

/// The members of an object.
pub(crate) struct JsonObject<'t> {
    json: JsonText<'t>,
    fields: BTreeMap<Cow<'t, str>, JsonText<'t>>,
}

impl<'t> JsonText<'t> {
    /// Takes a text that is one JSON value.
    pub(crate) fn new(text: &'t str) -> Result<JsonText<'t>, serde_json::Error> {
        serde_json::from_str::<IgnoredAny>(text)?;
        let text = text.trim_matches(|char| u8::try_from(char).is_ok_and(is_space));
        Ok(JsonText { text, rejects_duplicate_keys: true })
    }

    /// Takes an event of a stream.
    pub(crate) fn new_event(text: &'t str) -> Result<JsonText<'t>, serde_json::Error> {
        Ok(JsonText { rejects_duplicate_keys: false, ..JsonText::new(text)? })
    }

    /// An error at this place.
    pub(crate) fn error(self, message: impl Into<String>) -> JsonError {
        JsonError { address: self.address(), message: message.into(), wire_helps: false }
    }

    fn address(self) -> usize {
        self.text.as_ptr() as usize
    }

    /// The members of an array or an object with their keys, as they are written.
    fn members(self) -> Vec<(Cow<'t, str>, JsonText<'t>)> {
        if let Some(items) = self.array() {
            return items.into_iter().enumerate().map(|(at, item)| (at.to_string().into(), item)).collect();
        }
        let mut rest = self.text.get(1..).filter(|_| self.is_object()).unwrap_or_default();
        let mut members = Vec::new();
        while let (Some(key), Some(value)) = (self.next(&mut rest), self.next(&mut rest)) {
            members.push((key.string().unwrap_or_default(), value));
        }
        members
    }

    /// A text without content.
    pub(crate) const EMPTY_TEXT: JsonText<'static> = JsonText { text: "\"\"", rejects_duplicate_keys: true };

    /// The value as it was written.
    pub(crate) fn text(self) -> &'t str {
        self.text
    }

    /// What kind of value it is, in words.
    pub(crate) fn shown(self) -> &'static str {
        match self.text.as_bytes().first() {
            Some(b'n') => "null",
            Some(b't' | b'f') => "a boolean",
            Some(b'"') => "a string",
            Some(b'[') => "an array",
            Some(b'{') => "an object",
            _ => "a number",
        }
    }

    pub(crate) fn is_null(self) -> bool {
        self.text == "null"
    }

    pub(crate) fn is_string(self) -> bool {
        self.text.starts_with('"')
    }

    pub(crate) fn is_object(self) -> bool {
        self.text.starts_with('{')
    }

    /// The text of a string. There is none where it has half a surrogate in it.
    pub(crate) fn string(self) -> Option<Cow<'t, str>> {
        let inner = self.text.strip_prefix('"')?.strip_suffix('"')?;
        if !inner.contains('\\') {
            return Some(Cow::Borrowed(inner));
        }
        serde_json::from_str(self.text).ok().map(Cow::Owned)
    }

    /// The items of an array.
    pub(crate) fn array(self) -> Option<Vec<JsonText<'t>>> {
        let mut rest = self.text.strip_prefix('[')?;
        let mut items = Vec::new();
        while let Some(item) = self.next(&mut rest) {
            items.push(item);
        }
        Some(items)
    }

    /// Opens an object; `None` if it is none.
    pub(crate) fn object(self) -> Result<Option<JsonObject<'t>>, JsonError> {
        let Some(mut rest) = self.text.strip_prefix('{') else { return Ok(None) };
        let mut fields = BTreeMap::new();
        while let Some(key) = self.next(&mut rest) {
            let Some(name) = key.string() else {
                return Err(self.error(format!(
                    "the key {} is no text: half a surrogate is in it",
                    shorten_text(key.text)
                )));
            };
            let Some(value) = self.next(&mut rest) else { break };
            if fields.insert(name, value).is_some() && self.rejects_duplicate_keys {
                let key = shorten_text(key.text);
                return Err(value.error(format!("the key {key} appears twice in one object; give it once")));
            }
        }
        Ok(Some(JsonObject { json: self, fields }))
    }

    /// Parses the value. `None`: it has a lone surrogate in it, a number out of range, or too many levels.
    pub(crate) fn to_value(self) -> Option<Value> {
        serde_json::from_str(self.text).ok()
    }

    /// Returns a whole number that is not negative.
    pub(crate) fn number(self) -> Option<u64> {
        self.text.parse().ok()
    }

    pub(crate) fn is_true(self) -> bool {
        self.text == "true"
    }

    /// Takes the next value out of the rest of an array or an object; none at its end. Keys are values here.
    fn next(self, rest: &mut &'t str) -> Option<JsonText<'t>> {
        let bytes = rest.as_bytes();
        let begin = bytes.iter().position(|byte| !is_space(*byte) && !matches!(byte, b',' | b':'))?;
        let end = match bytes[begin] {
            b']' | b'}' => return None,
            b'"' => string_end(bytes, begin),
            b'[' | b'{' => nested_end(bytes, begin),
            _ => {
                let ends = |byte: &u8| is_space(*byte) || matches!(byte, b',' | b']' | b'}');
                begin + bytes[begin..].iter().position(ends).unwrap_or(bytes.len() - begin)
            }
        };
        let value = JsonText { text: &rest[begin..end], ..self };
        *rest = &rest[end..];
        Some(value)
    }

    /// Opens what has to be an object.
    pub(crate) fn required_object(self, what: &str) -> Result<JsonObject<'t>, JsonError> {
        self.object()?.ok_or_else(|| self.error(format!("{} came; {what} is accepted", self.shown())))
    }
}

impl<'t> JsonObject<'t> {
    pub(crate) fn get(&self, key: &str) -> Option<JsonText<'t>> {
        self.fields.get(key).copied()
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    /// What is there and not null.
    pub(crate) fn given(&self, key: &str) -> Option<JsonText<'t>> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// The text of a field that is a string.
    pub(crate) fn string(&self, key: &str) -> Option<Cow<'t, str>> {
        self.get(key)?.string()
    }

    /// The text of a field, empty where there is no string.
    ///
    /// # Errors
    /// A string that has a lone surrogate in it.
    pub(crate) fn text(&self, key: &str) -> Result<Cow<'t, str>, JsonError> {
        match self.get(key) {
            Some(value) if value.is_string() => value
                .string()
                .ok_or_else(|| value.error("a string with half a surrogate in it can't be read")),
            _ => Ok(Cow::Borrowed("")),
        }
    }

    /// A field as a value; null where there is none that can be parsed.
    pub(crate) fn value(&self, key: &str) -> Value {
        self.get(key).and_then(JsonText::to_value).unwrap_or_default()
    }

    /// The items of a field; none where it is no array.
    pub(crate) fn items(&self, key: &str) -> Vec<JsonText<'t>> {
        self.get(key).and_then(JsonText::array).unwrap_or_default()
    }

    /// Opens a field; `None` if it is no object.
    pub(crate) fn object(&self, key: &str) -> Result<Option<JsonObject<'t>>, JsonError> {
        self.get(key).map_or(Ok(None), JsonText::object)
    }

    /// How many bytes it has as it was written.
    pub(crate) fn len(&self) -> usize {
        self.json.text.len()
    }

    /// An error at the place of the object.
    pub(crate) fn error(&self, message: impl Into<String>) -> JsonError {
        self.json.error(message)
    }

    /// Copies the members into a map, all but these.
    ///
    /// # Errors
    /// A value that can't be parsed.
    pub(crate) fn to_map(&self, except: &[&str]) -> Result<Map<String, Value>, JsonError> {
        let members = self.fields.iter().filter(|(key, _)| !except.contains(&&***key));
        let copy = |(key, value): (&Cow<'t, str>, &JsonText<'t>)| match value.to_value() {
            Some(value) => Ok((key.clone().into_owned(), value)),
            None => Err(value.error(format!("the `{key}` can't be read"))),
        };
        members.map(copy).collect()
    }

    /// Whether a field is this text.
    pub(crate) fn is(&self, key: &str, text: &str) -> bool {
        self.string(key).is_some_and(|found| found == text)
    }

    /// The keys in order.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.fields.keys().map(|key| &**key)
    }
}

/// What is wrong with a message or an event, and where.
#[derive(Debug)]
pub(crate) struct JsonError {
    /// The address of the value in memory. Its path is determined from it only when the error is reported.
    address: usize,
    message: String,
    wire_helps: bool,
}

impl JsonError {
    /// The same where naming the wire helps.
    pub(crate) fn name_wire(self) -> JsonError {
        JsonError { wire_helps: true, ..self }
    }

    /// Determines the path in the text that was read.
    pub(crate) fn locate(self, root: &str) -> InvalidMessage {
        let mut path = String::new();
        let mut next = JsonText::new(root).ok().filter(|root| self.address >= root.address());
        while let Some(value) = next.filter(|value| value.address() < self.address) {
            let members = value.members().into_iter();
            next = members.take_while(|(_, member)| member.address() <= self.address).last().map(
                |(key, member)| {
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    member
                },
            );
        }
        InvalidMessage::new(path, self.message, self.wire_helps)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A text for a message, not too long.
pub(crate) fn shorten_text(text: &str) -> String {
    truncate_with_ellipsis(text, WORDS_CHARS_MAX)
}

/// Where the string that begins here has ended.
fn string_end(bytes: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = bytes.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    bytes.len()
}

/// Where the object or array that begins here has ended. The text is JSON, so brackets fit each other.
fn nested_end(bytes: &[u8], begin: usize) -> usize {
    let (mut at, mut depth) = (begin, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Takes a value apart by its seams and puts it together again.
    fn rebuilt(json: JsonText<'_>) -> Value {
        if let Some(items) = json.array() {
            return items.into_iter().map(rebuilt).collect();
        }
        match json.object().unwrap() {
            Some(object) => {
                object.fields.into_iter().map(|(key, value)| (key.into_owned(), rebuilt(value))).collect()
            }
            None => serde_json::from_str(json.text()).unwrap(),
        }
    }

    #[test]
    fn seams_are_where_serde_json_has_them() {
        for text in [
            "null",
            " -1.5e+3\n",
            r#""\"]\\""#,
            "[]",
            "[ ]",
            "{ }",
            r#"[1,"a,b]", [2 ,{"k:\"}":[]}] ,true,"é\u00e9\\"]"#,
            "{\"a\":1 ,\r\n\t\"b\" : {\"c\":[{},[[]],\"}\"]},\"\":\"\",\"\\u0061b\":null}",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(rebuilt(JsonText::new(text).unwrap()), expected, "{text}");
        }
        for text in ["", "[", "{\"a\" 1}", "[1,]", "1 2", "\"\0\"", "\u{a0}1"] {
            assert!(JsonText::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_not_opened_is_not_judged() {
        let deep = format!(r#"{{"a":{}{},"b":"\ud800"}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let object = JsonText::new(&deep).unwrap().object().unwrap().unwrap();
        assert_eq!(object.get("a").unwrap().text().len(), 200_000);
        assert_eq!(object.get("b").unwrap().string(), None);
    }

    #[test]
    fn equal_keys_are_seen_however_they_are_written() {
        let text = r#"[{"a/b":1,"c":{"x":1,"x":1},"a\/b":2}]"#;
        let bad = JsonText::new(text).unwrap().array().unwrap()[0].object().err().unwrap().locate(text);
        assert_eq!(
            bad.to_string(),
            r#"at `/0/a~1b`: the key "a\/b" appears twice in one object; give it once"#
        );
    }
}
