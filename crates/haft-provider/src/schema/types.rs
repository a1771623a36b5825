//! Sets of JSON types.

use serde_json::Value;

/// A set of JSON types. A number with a fraction is a type of its own here, so that `number` holds `integer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Types = Types(0);
    pub(super) const STRING: Types = Types(1);
    pub(super) const INTEGER: Types = Types(1 << 1);
    const FRACTION: Types = Types(1 << 2);
    pub(super) const NUMBER: Types = Types(1 << 1 | 1 << 2);
    pub(super) const BOOLEAN: Types = Types(1 << 3);
    pub(super) const OBJECT: Types = Types(1 << 4);
    pub(super) const ARRAY: Types = Types(1 << 5);
    pub(super) const NULL: Types = Types(1 << 6);

    pub(super) fn named(name: &str) -> Types {
        match name {
            "string" => Types::STRING,
            "integer" => Types::INTEGER,
            "number" => Types::NUMBER,
            "boolean" => Types::BOOLEAN,
            "object" => Types::OBJECT,
            "array" => Types::ARRAY,
            "null" => Types::NULL,
            _ => Types::NONE,
        }
    }

    /// What the keyword `type` says; `None` if it says nothing that can be understood.
    pub(super) fn read(keyword: &Value) -> Option<Types> {
        let types = match keyword {
            Value::String(name) => Types::named(name),
            Value::Array(names) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Types::NONE, |types, name| types.or(Types::named(name))),
            _ => Types::NONE,
        };
        (types != Types::NONE).then_some(types)
    }

    pub(super) fn of(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() != 0.0) => Types::FRACTION,
            Value::Number(_) => Types::INTEGER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    pub(super) fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub(super) fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    pub(super) fn has(self, other: Types) -> bool {
        self.and(other) != Types::NONE
    }

    /// The names, in the one order in which they are written.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let number = if self.has(Types::FRACTION) { "number" } else { "integer" };
        [
            (Types::STRING, "string"),
            (Types::NUMBER, number),
            (Types::BOOLEAN, "boolean"),
            (Types::OBJECT, "object"),
            (Types::ARRAY, "array"),
            (Types::NULL, "null"),
        ]
        .into_iter()
        .filter_map(move |(types, name)| self.has(types).then_some(name))
    }

    pub(super) fn single(self) -> bool {
        self.names().count() == 1
    }

    /// Each type alone.
    pub(super) fn each(self) -> impl Iterator<Item = Types> {
        self.names().map(Types::named)
    }
}
