//! The text of a script, JSON or YAML, as a value that knows on which line everything stands.
//!
//! YAML is read as events and put together here: plain scalars by the core schema, no aliases (they can make
//! a small file huge), no tags, one document. JSON is read by `serde_json`, and places are looked up in its
//! text afterwards.

use std::collections::HashMap;
use std::fmt;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

use crate::limits::{SCRIPT_BYTES_MAX, SCRIPT_DEPTH_MAX};
use crate::wire::json_text::JsonText;

/// Why a script can't be used: on which line, where in it, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidScript {
    line: Option<usize>,
    path: String,
    message: String,
}

impl InvalidScript {
    /// The line, from 1, where it is known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The JSON pointer to the place; empty for the whole script.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for InvalidScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "at `{}`: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidScript {}

/// A value, and where its parts stand.
pub(super) struct LocatedValue<'t> {
    pub(super) value: Value,
    lines: LineLocations<'t>,
}

enum LineLocations<'t> {
    Json(&'t str),
    Yaml(HashMap<String, usize>),
}

impl LocatedValue<'_> {
    pub(super) fn read(text: &str) -> Result<LocatedValue<'_>, InvalidScript> {
        let bad = |line, message: String| InvalidScript { line, path: String::new(), message };
        if text.len() > SCRIPT_BYTES_MAX {
            let words =
                format!("the script has {} bytes; at most {SCRIPT_BYTES_MAX} are accepted", text.len());
            return Err(bad(None, words));
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(bad(None, "the script is empty; an object with `turns` is accepted".to_owned()));
        }
        if text.trim_start().starts_with('{') {
            let value = serde_json::from_str(text).map_err(|error| {
                let words = error.to_string();
                let words = words.split(" at line ").next().unwrap_or_default();
                bad(Some(error.line()), format!("this is not JSON: {words}"))
            })?;
            return Ok(LocatedValue { value, lines: LineLocations::Json(text) });
        }
        let (value, lines) = parse_yaml(text).map_err(|(line, words)| bad(Some(line), words))?;
        Ok(LocatedValue { value, lines: LineLocations::Yaml(lines) })
    }

    /// Something that is wrong at a place.
    pub(super) fn bad(&self, path: &str, message: impl Into<String>) -> InvalidScript {
        InvalidScript { line: Some(self.line(path)), path: path.to_owned(), message: message.into() }
    }

    /// The line of a place, or of the nearest thing around it that is there.
    fn line(&self, path: &str) -> usize {
        match &self.lines {
            LineLocations::Yaml(lines) => {
                let mut path = path;
                loop {
                    match (lines.get(path), path.rfind('/')) {
                        (Some(line), _) => return *line,
                        (None, Some(end)) => path = &path[..end],
                        (None, None) => return 1,
                    }
                }
            }
            LineLocations::Json(text) => {
                let mut found = JsonText::new(text).ok();
                let mut at = 0;
                for key in path.split('/').skip(1) {
                    let Some(value) = found else { break };
                    at = value.text().as_ptr() as usize - text.as_ptr() as usize;
                    let key = key.replace("~1", "/").replace("~0", "~");
                    found = match value.array() {
                        Some(items) => key.parse().ok().and_then(|at: usize| items.get(at).copied()),
                        None => value.object().ok().flatten().and_then(|object| object.get(&key)),
                    };
                }
                if let Some(value) = found {
                    at = value.text().as_ptr() as usize - text.as_ptr() as usize;
                }
                text[..at].matches('\n').count() + 1
            }
        }
    }
}

/// A collection that is not closed yet.
enum OpenCollection {
    Sequence(Vec<Value>),
    Mapping(Map<String, Value>, Option<String>),
}

type YamlError = (usize, String);

fn parse_yaml(text: &str) -> Result<(Value, HashMap<String, usize>), YamlError> {
    let mut lines = HashMap::new();
    let mut stack: Vec<(OpenCollection, String)> = Vec::new();
    let mut whole: Option<Value> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| {
            let words = error.to_string();
            let words = words.split(" at ").next().unwrap_or_default().to_owned();
            (error.marker().line(), format!("this is not YAML: {words}"))
        })?;
        let line = span.start.line();
        let refuse = |words: &str| Err((line, words.to_owned()));
        let done = match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => continue,
            Event::DocumentStart(_) if whole.is_some() => {
                return refuse("a second document begins; a script is one");
            }
            Event::DocumentStart(_) => continue,
            Event::Alias(_) => return refuse("aliases (`*name`) are not read here; write it out"),
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return refuse("tags (`!name`) are not read here; leave them out");
            }
            Event::Scalar(text, style, _, None) => {
                if let Some((OpenCollection::Mapping(fields, key @ None), _)) = stack.last_mut() {
                    if fields.contains_key(&*text) {
                        return Err((line, format!("the key `{text}` is there twice; give it once")));
                    }
                    *key = Some(text.into_owned());
                    continue;
                }
                match style {
                    ScalarStyle::Plain => plain_scalar(&text),
                    _ => Value::String(text.into_owned()),
                }
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                if stack.len() == SCRIPT_DEPTH_MAX {
                    return Err((line, format!("this nests deeper than {SCRIPT_DEPTH_MAX}")));
                }
                if let Some((OpenCollection::Mapping(_, None), _)) = stack.last() {
                    return refuse("a key is a list or an object; a text is accepted");
                }
                let path = next_pointer(&stack);
                lines.insert(path.clone(), line);
                let open = match event {
                    Event::SequenceStart(..) => OpenCollection::Sequence(Vec::new()),
                    _ => OpenCollection::Mapping(Map::new(), None),
                };
                stack.push((open, path));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match stack.pop() {
                Some((OpenCollection::Sequence(items), _)) => Value::Array(items),
                Some((OpenCollection::Mapping(fields, _), _)) => Value::Object(fields),
                None => continue,
            },
        };
        lines.entry(next_pointer(&stack)).or_insert(line);
        match stack.last_mut() {
            None => whole = Some(done),
            Some((OpenCollection::Sequence(items), _)) => items.push(done),
            Some((OpenCollection::Mapping(fields, key), _)) => {
                fields.insert(key.take().unwrap_or_default(), done);
            }
        }
    }
    Ok((whole.unwrap_or_default(), lines))
}

/// The pointer to what comes next.
fn next_pointer(stack: &[(OpenCollection, String)]) -> String {
    match stack.last() {
        None => String::new(),
        Some((OpenCollection::Sequence(items), path)) => format!("{path}/{}", items.len()),
        Some((OpenCollection::Mapping(_, key), path)) => {
            let key = key.as_deref().unwrap_or_default();
            format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
        }
    }
}

/// A plain scalar by the core schema.
fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'));
    if is_number {
        if let Ok(number) = text.strip_prefix('+').unwrap_or(text).parse::<i64>() {
            return number.into();
        }
        let digits = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
        if let Some(number) = text.parse::<f64>().ok().filter(|_| digits).and_then(Number::from_f64) {
            return Value::Number(number);
        }
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Value) {
        match LocatedValue::read(text) {
            Ok(placed) => assert_eq!(placed.value, expected, "{text}"),
            Err(bad) => panic!("{text}\n{bad}"),
        }
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let bad = LocatedValue::read(text).err().map(|bad| bad.to_string());
        assert!(bad.as_deref().is_some_and(|bad| bad.starts_with(expected)), "{text}\n{bad:?}");
    }

    #[test]
    fn yaml_and_json_are_one() {
        let value = json!({"turns": [{"text": "a\nb\n", "n": 1, "f": 1.5, "t": true, "z": null}, {"s": "1", "x": "1.2.3", "d": "2026-01-02"}]});
        check(&value.to_string(), value.clone());
        check(
            "# a script\nturns:\n  - text: |\n      a\n      b\n    n: 1\n    f: 1.5\n    t: true\n    z: ~\n  - {s: '1', x: 1.2.3, d: 2026-01-02}\n",
            value,
        );
    }

    #[test]
    fn what_is_not_read() {
        refused("", "the script is empty");
        refused("{\n\"turns\": [\n}", "line 3: this is not JSON: expected value");
        refused("turns:\n  - a: [1\n  - b", "line ");
        refused("a: &x 1\nb: *x", "line 2: aliases");
        refused("a: !!str 1", "line 1: tags");
        refused("a: 1\n---\nb: 2", "line 2: a second document");
        refused("a: 1\nb: 2\na: 3", "line 3: the key `a` is there twice");
        refused(&"- ".repeat(100), "line 1: this nests deeper than 64");
        refused("? [a]\n: b", "line 1: a key is a list");
    }

    #[test]
    fn places_have_lines() {
        for text in ["{\n \"a\": [\n  1,\n  {\"b/c\":\n 2}\n ]}", "# x\na:\n  - 1\n  - b/c: 2\n    d: 3"] {
            let placed = LocatedValue::read(text).unwrap();
            let line = |path: &str| placed.bad(path, "").line().unwrap();
            assert_eq!((line("/a/0"), line("/a/1")), (3, 4), "{text}");
            assert!(line("/a/1/b~1c") >= 4);
            assert_eq!(line("/a/1/none"), 4);
            assert!(line("/nothing") <= 2);
        }
    }
}
