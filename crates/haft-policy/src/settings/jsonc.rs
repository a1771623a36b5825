//! Parses a settings file into values that know their location.
//!
//! The grammar is JSON with comments and trailing commas, and nothing laxer: what an editor marks as an
//! error is an error here. A duplicate key is an error, because one of the two values would be lost,
//! possibly the one that denies. `haft::schema::parse_json` is not used, because the grammar has comments
//! and every value needs its line and column.

use std::cell::Cell;
use std::collections::BTreeMap;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::ParseErrorKind;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

/// The maximum nesting depth of objects and lists in a settings file.
pub const SETTINGS_DEPTH_MAX: usize = 64;

/// A location in a text. Lines and columns start at 1. Columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextPosition {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// A problem in a text, with its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettingsFault {
    /// Unknown until a caller that knows the location adds it.
    pub(crate) at: Option<TextPosition>,
    /// The keys that lead to the value, outermost first. `None` if the message names the key itself.
    pub(crate) path: Option<Vec<String>>,
    pub(crate) message: String,
}

impl SettingsFault {
    /// Creates a fault whose message needs no path.
    pub(crate) fn new(at: TextPosition, message: impl Into<String>) -> SettingsFault {
        SettingsFault { at: Some(at), path: None, message: message.into() }
    }

    /// Adds the key of the enclosing object or list to the fault's path.
    pub(crate) fn inside(mut self, key: impl Into<String>) -> SettingsFault {
        if let Some(path) = &mut self.path {
            path.insert(0, key.into());
        }
        self
    }
}

/// A value with its location and its layer.
#[derive(Debug, Clone)]
pub(crate) struct JsonNode {
    pub(crate) at: TextPosition,
    /// The index of the layer; 0 is the strongest.
    pub(crate) layer: u16,
    pub(crate) json: JsonValue,
}

/// The kinds of values. Keys keep the order of the file.
#[derive(Debug, Clone)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<JsonNode>),
    Object(Vec<(JsonKey, JsonNode)>),
}

/// A key of an object with its location.
#[derive(Debug, Clone)]
pub(crate) struct JsonKey {
    pub(crate) at: TextPosition,
    pub(crate) name: String,
}

/// The location of values that have none.
pub(crate) const NO_SPOT: TextPosition = TextPosition { line: 1, column: 1 };

impl Default for JsonNode {
    fn default() -> JsonNode {
        JsonNode { at: NO_SPOT, layer: 0, json: JsonValue::Object(Vec::new()) }
    }
}

impl JsonNode {
    /// Returns the entries of an object; empty for any other value.
    pub(crate) fn fields(&self) -> &[(JsonKey, JsonNode)] {
        if let JsonValue::Object(fields) = &self.json { fields } else { &[] }
    }

    /// Returns the items of a list; empty for any other value.
    pub(crate) fn items(&self) -> &[JsonNode] {
        if let JsonValue::List(items) = &self.json { items } else { &[] }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let JsonValue::String(text) = &self.json { Some(text) } else { None }
    }

    pub(crate) fn is_true(&self) -> bool {
        matches!(self.json, JsonValue::Bool(true))
    }

    /// Returns the value of a key, if this is an object.
    pub(crate) fn get(&self, name: &str) -> Option<&JsonNode> {
        self.fields().iter().find(|(key, _)| key.name == name).map(|(_, value)| value)
    }

    /// Converts a value without locations of its own.
    pub(crate) fn from_value(value: Value, at: TextPosition, layer: u16) -> JsonNode {
        let json = match value {
            Value::Null => JsonValue::Null,
            Value::Bool(value) => JsonValue::Bool(value),
            Value::Number(value) => JsonValue::Number(value),
            Value::String(value) => JsonValue::String(value),
            Value::Array(items) => {
                JsonValue::List(items.into_iter().map(|item| JsonNode::from_value(item, at, layer)).collect())
            }
            Value::Object(fields) => {
                let field = |(name, value)| (JsonKey { at, name }, JsonNode::from_value(value, at, layer));
                JsonValue::Object(fields.into_iter().map(field).collect())
            }
        };
        JsonNode { at, layer, json }
    }

    /// Returns the value without its locations.
    pub(crate) fn to_value(&self) -> Value {
        match &self.json {
            JsonValue::Null => Value::Null,
            JsonValue::Bool(value) => Value::Bool(*value),
            JsonValue::Number(value) => Value::Number(value.clone()),
            JsonValue::String(value) => Value::String(value.clone()),
            JsonValue::List(items) => Value::Array(items.iter().map(JsonNode::to_value).collect()),
            JsonValue::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.name.clone(), value.to_value()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

/// Parses a text that is not a layer of settings. A leading byte order mark is skipped.
pub(crate) fn parse_jsonc(text: &str) -> Result<JsonNode, SettingsFault> {
    parse_layer(text, 0)
}

/// Parses a text into values of a layer.
pub(crate) fn parse_layer(text: &str, layer: u16) -> Result<JsonNode, SettingsFault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = LineIndex::new(text, layer);
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| {
        SettingsFault::new(lines.spot(error.range().start), describe_parse_error(error.kind()))
    })?;
    let root = parsed.value.ok_or_else(|| {
        SettingsFault::new(
            TextPosition { line: 1, column: 1 },
            "there is no value; an object is accepted, at least `{}`",
        )
    })?;
    convert_value(root, &lines, 0)
}

fn convert_value(
    value: ast::Value<'_>,
    lines: &LineIndex<'_>,
    depth: usize,
) -> Result<JsonNode, SettingsFault> {
    let at = lines.spot(value.range().start);
    if depth > SETTINGS_DEPTH_MAX {
        return Err(SettingsFault::new(
            at,
            format!("objects and lists nest deeper than {SETTINGS_DEPTH_MAX}"),
        ));
    }
    let json = match value {
        ast::Value::NullKeyword(_) => JsonValue::Null,
        ast::Value::BooleanLit(literal) => JsonValue::Bool(literal.value),
        ast::Value::StringLit(literal) => JsonValue::String(literal.value.into_owned()),
        ast::Value::NumberLit(literal) => {
            let number = literal.value.parse();
            JsonValue::Number(
                number.map_err(|_| SettingsFault::new(at, format!("{} is not a number", literal.value)))?,
            )
        }
        ast::Value::Array(list) => {
            let items = list.elements.into_iter().map(|item| convert_value(item, lines, depth + 1));
            JsonValue::List(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => JsonValue::Object(convert_fields(object, lines, depth)?),
    };
    Ok(JsonNode { at, layer: lines.layer, json })
}

fn convert_fields(
    object: ast::Object<'_>,
    lines: &LineIndex<'_>,
    depth: usize,
) -> Result<Vec<(JsonKey, JsonNode)>, SettingsFault> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut fields = Vec::with_capacity(object.properties.len());
    for property in object.properties {
        let at = lines.spot(property.range.start);
        let name = property.name.into_string();
        if let Some(line) = seen.insert(name.clone(), at.line) {
            let message = format!("`{name}` is given twice, first on line {line}; keep one of them");
            return Err(SettingsFault::new(at, message));
        }
        fields.push((JsonKey { at, name }, convert_value(property.value, lines, depth + 1)?));
    }
    Ok(fields)
}

/// The beginnings of the lines of a text.
///
/// Locations are requested in the order of the text, so columns are counted from the last location.
/// Otherwise a file with one long line would take quadratic time.
struct LineIndex<'a> {
    text: &'a str,
    layer: u16,
    starts: Vec<usize>,
    /// The last location: byte offset, line (from 0), and preceding characters in the line.
    last: Cell<(usize, usize, usize)>,
}

impl<'a> LineIndex<'a> {
    fn new(text: &'a str, layer: u16) -> LineIndex<'a> {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(after_breaks).collect();
        LineIndex { text, layer, starts, last: Cell::new((0, 0, 0)) }
    }

    fn spot(&self, at: usize) -> TextPosition {
        let line = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
        let (from, before) = match self.last.get() {
            (last, same, column) if same == line && last <= at => (last, column),
            _ => (self.starts[line], 0),
        };
        let column = before + self.text.get(from..at).unwrap_or_default().chars().count();
        self.last.set((at, line, column));
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        TextPosition { line: number(line + 1), column: number(column + 1) }
    }
}

/// Returns the message for a parse error.
fn describe_parse_error(kind: &ParseErrorKind) -> String {
    use ParseErrorKind as K;
    let words = match kind {
        K::ExpectedColonAfterObjectKey => "a `:` is missing after the key",
        K::ExpectedObjectValue => "the value is missing after the `:`",
        K::ExpectedStringObjectProperty | K::UnexpectedTokenInObject => {
            "a key in double quotes, or `}`, is accepted here"
        }
        K::ExpectedComma => "a `,` is missing here",
        K::MultipleRootJsonValues => "something follows the end of the object; a file holds one object",
        K::SingleQuotedStringsNotAllowed => "strings are accepted in double quotes only",
        K::UnexpectedCloseBrace => {
            "no `}` is accepted here; something before it isn't closed, or there is one too many"
        }
        K::UnexpectedCloseBracket => {
            "no `]` is accepted here; something before it isn't closed, or there is one too many"
        }
        K::UnexpectedColon => "this `:` follows no key",
        K::UnexpectedComma => "this `,` follows no value",
        K::UnexpectedWord => "this word is not JSON; strings go in double quotes",
        K::UnterminatedArray => "this list has no `]`",
        K::UnterminatedObject => "this object has no `}`",
        K::UnterminatedCommentBlock => "this comment has no `*/`",
        K::NestingDepthExceeded => {
            return format!("objects and lists nest deeper than {SETTINGS_DEPTH_MAX}");
        }
        other => return format!("not JSON: {}", other.to_string().to_lowercase()),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> (u32, u32, String) {
        let fault = parse_jsonc(text).expect_err(text);
        let at = fault.at.unwrap();
        (at.line, at.column, fault.message)
    }

    #[test]
    fn comments_trailing_commas_marks_and_line_ends_are_accepted() {
        let text = "\u{feff}{\r\n  // why\r\n  \"a\": [1, 2,], /* so */\r\n  \"b\": {\"ü\": null,},\r\n}\r\n";
        let node = parse_jsonc(text).unwrap();
        assert_eq!(node.to_value(), serde_json::json!({"a": [1, 2], "b": {"ü": null}}));
        assert_eq!(node.get("a").unwrap().at, TextPosition { line: 3, column: 8 });
        assert_eq!(node.get("b").unwrap().get("ü").unwrap().at, TextPosition { line: 4, column: 14 });
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let check = |text: &str, line: u32, column: u32, part: &str| {
            let found = fault(text);
            assert!(found.2.contains(part), "{text}: {found:?}");
            assert_eq!((found.0, found.1), (line, column), "{text}: {found:?}");
        };
        check("", 1, 1, "at least `{}`");
        check(" // nothing\n", 1, 1, "at least `{}`");
        check("{\n\"a\": 1\n \"b\": 2}", 2, 7, "`,` is missing");
        check("{\"a\": 1, \n\"a\": 2}", 2, 1, "given twice, first on line 1");
        check("{\"a\": yes}", 1, 7, "not JSON");
        check("{'a': 1}", 1, 2, "double quotes");
        check("{a: 1}", 1, 2, "double quotes");
        check("{\"a\": 1", 1, 1, "no `}`");
        check("{} {}", 1, 4, "one object");
        check("{\"a\": 0x10}", 1, 7, "not JSON");
    }

    #[test]
    fn columns_are_counted_in_any_order() {
        let text = "{\"ä\": 1}\n x ö y";
        let lines = LineIndex::new(text, 0);
        let spot = |at: usize| (lines.spot(at).line, lines.spot(at).column);
        let in_order: Vec<_> = text.char_indices().map(|(at, _)| spot(at)).collect();
        let fresh: Vec<_> =
            text.char_indices().map(|(at, _)| (LineIndex::new(text, 0).spot(at), at)).collect();
        assert!(in_order.iter().zip(&fresh).all(|(a, (b, _))| *a == (b.line, b.column)), "{in_order:?}");
        for (expected, at) in fresh.iter().rev() {
            assert_eq!(lines.spot(*at), *expected);
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse_jsonc(&nested(SETTINGS_DEPTH_MAX)).is_ok());
        assert!(fault(&nested(SETTINGS_DEPTH_MAX + 2)).2.contains("deeper than 64"));
        assert!(fault(&nested(200_000)).2.contains("deeper than 64"));
    }
}
