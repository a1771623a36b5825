//! What a schema accepts, in a few words.
//!
//! The model that made a mistake reads this instead of the schema: "an integer between 1 and
//! 2000", "an array of strings", "an object with `path`, `edits`". Short beats complete; whatever
//! has no short form is left out.

use serde_json::{Map, Value};

use super::show::{resolve_reference, shorten_text, shorten_value};
use crate::limits::VALUE_CHARS_MAX;

/// How many choices, fields or alternatives are named before the rest is counted.
const NAMED_MAX: usize = 12;
/// How far into nested schemas the words go.
const DEPTH_MAX: usize = 4;

#[derive(Clone, Copy, PartialEq)]
enum GrammaticalNumber {
    One,
    Many,
}

/// Returns what `schema` accepts as a noun: "a string", "an integer ≥ 0", "one of …".
pub(super) fn describe_accepted(root: &Value, schema: &Value) -> String {
    shorten_text(&describe_type(root, schema, GrammaticalNumber::One, DEPTH_MAX), 240)
}

/// Joins the first few of `words`; counts the rest.
pub(super) fn join_words(words: &[String], last: &str) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., end] if words.len() <= NAMED_MAX => format!("{}{last}{end}", init.join(", ")),
        _ => format!("{}, … ({} in all)", words[..NAMED_MAX].join(", "), words.len()),
    }
}

fn describe_type(root: &Value, schema: &Value, number: GrammaticalNumber, depth: usize) -> String {
    let (one, many) = match schema {
        Value::Bool(false) => ("nothing", "nothing"),
        Value::Object(object) if !object.is_empty() && depth > 0 => {
            return noun_of_object(root, object, number, depth - 1);
        }
        _ => ("anything", "values"),
    };
    if number == GrammaticalNumber::One { one } else { many }.to_owned()
}

fn noun_of_object(
    root: &Value,
    schema: &Map<String, Value>,
    number: GrammaticalNumber,
    depth: usize,
) -> String {
    if let Some(constants) = enum_constants(schema) {
        return match constants.as_slice() {
            [only] => shorten_value(only),
            all => {
                format!(
                    "one of {}",
                    join_words(&all.iter().map(|value| shorten_value(value)).collect::<Vec<_>>(), ", ")
                )
            }
        };
    }
    if let Some(target) =
        schema.get("$ref").and_then(Value::as_str).and_then(|reference| resolve_reference(root, reference))
    {
        return describe_type(root, target, number, depth);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(keyword).and_then(Value::as_array)
            && !schema.contains_key("properties")
        {
            return join_alternatives(
                branches.iter().map(|branch| describe_type(root, branch, number, depth)),
            );
        }
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if schema.contains_key("properties") => vec!["object"],
        _ if schema.contains_key("items") => vec!["array"],
        _ => match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([first, ..]) => return describe_type(root, first, number, depth),
            _ => return describe_type(root, &Value::Bool(true), number, depth),
        },
    };
    join_alternatives(names.iter().map(|name| noun_of_type(root, schema, name, number, depth)))
}

/// The values of `const`, of `enum`, or of alternatives that are all constants.
fn enum_constants(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    if let Some(value) = schema.get("const") {
        return Some(vec![value]);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let named: Vec<&Value> = values.iter().filter(|value| !value.is_null()).collect();
        return Some(if named.is_empty() { values.iter().collect() } else { named });
    }
    let branches = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    let mut all = Vec::new();
    for branch in branches {
        all.extend(enum_constants(branch.as_object()?).filter(|_| branch.get("properties").is_none())?);
    }
    (!all.is_empty()).then_some(all)
}

/// Joins alternatives by "or". `null` goes without saying: leaving an optional field out is better.
fn join_alternatives(nouns: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = Vec::new();
    for noun in nouns {
        if !words.contains(&noun) {
            words.push(noun);
        }
    }
    if words.len() > 1 {
        words.retain(|word| word != "null");
    }
    join_words(&words, " or ")
}

fn noun_of_type(
    root: &Value,
    schema: &Map<String, Value>,
    name: &str,
    number: GrammaticalNumber,
    depth: usize,
) -> String {
    let (one, many) = match name {
        "string" => ("a string", "strings"),
        "integer" => ("an integer", "integers"),
        "number" => ("a number", "numbers"),
        "boolean" => ("a boolean", "booleans"),
        "array" => ("an array", "arrays"),
        "object" => ("an object", "objects"),
        _ => return "null".to_owned(),
    };
    let word = if number == GrammaticalNumber::One { one } else { many };
    let detail = match name {
        "string" => string_detail(schema),
        "integer" | "number" => number_detail(schema),
        "array" => array_detail(root, schema, depth),
        "object" => object_detail(schema),
        _ => String::new(),
    };
    format!("{word}{detail}")
}

fn string_detail(schema: &Map<String, Value>) -> String {
    let mut detail = match describe_count(schema, "minLength", "maxLength") {
        Some(count) => format!(
            " of {count} {}",
            if count.ends_with(" 1") || count == "1" { "character" } else { "characters" }
        ),
        None => String::new(),
    };
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        detail.push_str(&format!(" that matches `{}`", shorten_text(pattern, VALUE_CHARS_MAX)));
    } else if let Some(format) = schema.get("format").and_then(Value::as_str) {
        detail.push_str(&format!(" in the format {}", shorten_text(format, VALUE_CHARS_MAX)));
    }
    detail
}

fn describe_count(schema: &Map<String, Value>, least: &str, most: &str) -> Option<String> {
    let least = schema.get(least).and_then(Value::as_u64).filter(|least| *least > 0);
    let most = schema.get(most).and_then(Value::as_u64);
    Some(match (least, most) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("up to {most}"),
        (None, None) => return None,
    })
}

fn number_detail(schema: &Map<String, Value>) -> String {
    // The limits of 64 bits are nobody's wish and would only take room.
    let wanted =
        |key: &str| schema.get(key).filter(|bound| bound.as_f64().is_some_and(|bound| bound.abs() < 9.2e18));
    let mut detail = match (wanted("minimum"), wanted("maximum")) {
        (Some(least), Some(most)) => format!(" between {least} and {most}"),
        (Some(least), None) => format!(" ≥ {least}"),
        (None, Some(most)) => format!(" ≤ {most}"),
        (None, None) => String::new(),
    };
    if let Some(bound) = wanted("exclusiveMinimum") {
        detail.push_str(&format!(" > {bound}"));
    }
    if let Some(bound) = wanted("exclusiveMaximum") {
        detail.push_str(&format!(" < {bound}"));
    }
    if let Some(step) = schema.get("multipleOf") {
        detail.push_str(&format!(" that is a multiple of {step}"));
    }
    detail
}

fn array_detail(root: &Value, schema: &Map<String, Value>, depth: usize) -> String {
    let items = match schema.get("items") {
        Some(items @ Value::Object(_)) => describe_type(root, items, GrammaticalNumber::Many, depth),
        _ => "values".to_owned(),
    };
    match describe_count(schema, "minItems", "maxItems") {
        Some(count) => format!(" of {count} {items}"),
        None if items == "values" => String::new(),
        None => format!(" of {items}"),
    }
}

fn object_detail(schema: &Map<String, Value>) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let mut names: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        names = properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    }
    let words: Vec<String> = names
        .iter()
        .map(|name| {
            let constant = properties.and_then(|properties| properties.get(*name)?.get("const"));
            let name = shorten_text(name, VALUE_CHARS_MAX);
            constant.map_or_else(|| format!("`{name}`"), |value| format!("`{name}` {}", shorten_value(value)))
        })
        .collect();
    if words.is_empty() { String::new() } else { format!(" with {}", join_words(&words, ", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, expected: &str) {
        let root = json!({"$defs": {"a": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}});
        assert_eq!(describe_accepted(&root, &schema), expected, "{schema}");
    }

    #[test]
    fn types() {
        check(json!({"type": "string"}), "a string");
        check(json!({"type": "boolean"}), "a boolean");
        check(json!({"type": "null"}), "null");
        check(json!({"type": ["string", "null"]}), "a string");
        check(json!({"type": ["string", "integer"]}), "a string or an integer");
        check(json!(true), "anything");
        check(json!({}), "anything");
        check(json!(false), "nothing");
    }

    #[test]
    fn numbers() {
        check(json!({"type": "integer", "minimum": 0}), "an integer ≥ 0");
        check(json!({"type": "integer", "minimum": 1, "maximum": 2000}), "an integer between 1 and 2000");
        check(json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}), "an integer ≥ 0");
        check(json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX}), "an integer");
        check(json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1.5}), "a number ≤ 1.5 > 0");
        check(json!({"type": "integer", "multipleOf": 5}), "an integer that is a multiple of 5");
    }

    #[test]
    fn strings() {
        check(json!({"type": "string", "minLength": 1}), "a string of 1 or more characters");
        check(json!({"type": "string", "minLength": 2, "maxLength": 3}), "a string of 2 to 3 characters");
        check(json!({"type": "string", "pattern": "^a"}), "a string that matches `^a`");
        check(json!({"type": "string", "format": "date"}), "a string in the format date");
    }

    #[test]
    fn collections() {
        check(json!({"type": "array", "items": {"type": "string"}}), "an array of strings");
        check(
            json!({"type": "array", "items": {"type": "integer", "minimum": 0}}),
            "an array of integers ≥ 0",
        );
        check(
            json!({"type": "array", "minItems": 1, "items": {"type": "string"}}),
            "an array of 1 or more strings",
        );
        check(json!({"type": "array", "minItems": 2, "maxItems": 2}), "an array of 2 values");
        check(json!({"type": "array"}), "an array");
        check(json!({"type": "object", "properties": {"x": {}, "y": {}}}), "an object with `x`, `y`");
        check(json!({"properties": {"x": {}, "y": {}}, "required": ["x"]}), "an object with `x`");
        check(json!({"type": "object"}), "an object");
    }

    #[test]
    fn choices() {
        check(json!({"enum": ["a", "b", null]}), r#"one of "a", "b""#);
        check(json!({"const": 1}), "1");
        check(
            json!({"oneOf": [{"const": "a"}, {"type": "string", "enum": ["b", "c"]}]}),
            r#"one of "a", "b", "c""#,
        );
        check(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "a string");
        check(
            json!({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "array", "items": {"type": "string"}}]}),
            "a string or an array of strings",
        );
        check(
            json!({"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "x": {}}, "required": ["kind", "x"]},
                {"type": "object", "properties": {"B": {}}, "required": ["B"]},
            ]}),
            "an object with `kind` \"a\", `x` or an object with `B`",
        );
        let many: Vec<_> = (0..30).collect();
        check(json!({"enum": many}), "one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (30 in all)");
        check(json!({"$ref": "#/$defs/loop"}), "anything");
    }
}
