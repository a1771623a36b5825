//! Sets of JSON types.

use serde_json::Value;

/// A set of JSON types. A number with a fraction is a type of its own here, so that `number` holds `integer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JsonTypes(u8);

impl JsonTypes {
    pub(super) const NONE: JsonTypes = JsonTypes(0);
    pub(super) const STRING: JsonTypes = JsonTypes(1);
    pub(super) const INTEGER: JsonTypes = JsonTypes(1 << 1);
    const FRACTION: JsonTypes = JsonTypes(1 << 2);
    pub(super) const NUMBER: JsonTypes = JsonTypes(1 << 1 | 1 << 2);
    pub(super) const BOOLEAN: JsonTypes = JsonTypes(1 << 3);
    pub(super) const OBJECT: JsonTypes = JsonTypes(1 << 4);
    pub(super) const ARRAY: JsonTypes = JsonTypes(1 << 5);
    pub(super) const NULL: JsonTypes = JsonTypes(1 << 6);

    pub(super) fn named(name: &str) -> JsonTypes {
        match name {
            "string" => JsonTypes::STRING,
            "integer" => JsonTypes::INTEGER,
            "number" => JsonTypes::NUMBER,
            "boolean" => JsonTypes::BOOLEAN,
            "object" => JsonTypes::OBJECT,
            "array" => JsonTypes::ARRAY,
            "null" => JsonTypes::NULL,
            _ => JsonTypes::NONE,
        }
    }

    /// What the keyword `type` says; `None` if it says nothing that can be understood.
    pub(super) fn read(keyword: &Value) -> Option<JsonTypes> {
        let types = match keyword {
            Value::String(name) => JsonTypes::named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(JsonTypes::NONE, |types, name| types.or(JsonTypes::named(name))),
            _ => JsonTypes::NONE,
        };
        (types != JsonTypes::NONE).then_some(types)
    }

    pub(super) fn from_value(value: &Value) -> JsonTypes {
        match value {
            Value::Null => JsonTypes::NULL,
            Value::Bool(_) => JsonTypes::BOOLEAN,
            Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() != 0.0) => JsonTypes::FRACTION,
            Value::Number(_) => JsonTypes::INTEGER,
            Value::String(_) => JsonTypes::STRING,
            Value::Array(_) => JsonTypes::ARRAY,
            Value::Object(_) => JsonTypes::OBJECT,
        }
    }

    pub(super) fn or(self, other: JsonTypes) -> JsonTypes {
        JsonTypes(self.0 | other.0)
    }

    pub(super) fn and(self, other: JsonTypes) -> JsonTypes {
        JsonTypes(self.0 & other.0)
    }

    pub(super) fn has(self, other: JsonTypes) -> bool {
        self.and(other) != JsonTypes::NONE
    }

    /// The names, in the one order in which they are written.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let number = if self.has(JsonTypes::FRACTION) { "number" } else { "integer" };
        [
            (JsonTypes::STRING, "string"),
            (JsonTypes::NUMBER, number),
            (JsonTypes::BOOLEAN, "boolean"),
            (JsonTypes::OBJECT, "object"),
            (JsonTypes::ARRAY, "array"),
            (JsonTypes::NULL, "null"),
        ]
        .into_iter()
        .filter_map(move |(types, name)| self.has(types).then_some(name))
    }

    pub(super) fn single(self) -> bool {
        self.names().count() == 1
    }

    /// Each type alone.
    pub(super) fn each(self) -> impl Iterator<Item = JsonTypes> {
        self.names().map(JsonTypes::named)
    }
}
