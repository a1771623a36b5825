//! Which subschemas speak about a value, and which types they let through.
//!
//! A compiled validator answers yes or no; to repair or to explain an input one has to ask the
//! schema itself. This reading is approximate on purpose: what it does not understand (`not`, `if`,
//! anchors) it takes to accept everything, and every caller lets the validator decide in the end.

use serde_json::Value;

use super::bounds::IN_PLACE_LISTS;
use super::show::target;

/// How many subschemas in a row are followed for one value.
const HOPS_MAX: usize = 32;
/// How many subschemas are looked at to find the types of one value.
const TYPES_MAX: usize = 256;

/// A set of JSON types. `integer` is a type of its own here, as in JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Types = Types(0);
    pub(super) const ALL: Types = Types(0x7f);
    pub(super) const INTEGER: Types = Types(1);
    pub(super) const STRING: Types = Types(1 << 1);
    pub(super) const ARRAY: Types = Types(1 << 2);
    pub(super) const OBJECT: Types = Types(1 << 3);
    /// Numbers with a fraction.
    const FRACTION: Types = Types(1 << 4);
    const BOOLEAN: Types = Types(1 << 5);
    pub(super) const NULL: Types = Types(1 << 6);

    pub(super) fn of(value: &Value) -> Types {
        match value {
            Value::Null => Types::NULL,
            Value::Bool(_) => Types::BOOLEAN,
            Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|n| n.fract() != 0.0) => {
                Types::FRACTION
            }
            Value::Number(_) => Types::INTEGER,
            Value::String(_) => Types::STRING,
            Value::Array(_) => Types::ARRAY,
            Value::Object(_) => Types::OBJECT,
        }
    }

    fn named(name: &str) -> Types {
        match name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "integer" => Types::INTEGER,
            "number" => Types::INTEGER.or(Types::FRACTION),
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types::NONE,
        }
    }

    pub(super) fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    pub(super) fn and(self, other: Types) -> Types {
        Types(self.0 & other.0)
    }

    pub(super) fn meets(self, other: Types) -> bool {
        self.and(other) != Types::NONE
    }
}

/// Returns the types that a schema may accept. Never leaves out a type that it does accept.
pub(super) fn types(root: &Value, schema: &Value) -> Types {
    types_within(root, schema, HOPS_MAX, &mut { TYPES_MAX })
}

fn types_within(root: &Value, schema: &Value, hops: usize, room: &mut usize) -> Types {
    let object = match schema {
        Value::Bool(false) => return Types::NONE,
        Value::Object(object) if hops > 0 && *room > 0 => object,
        _ => return Types::ALL,
    };
    *room -= 1;
    let mut types = match object.get("type") {
        Some(Value::String(name)) => Types::named(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(Types::NONE, |types, name| types.or(Types::named(name))),
        _ => Types::ALL,
    };
    if let Some(value) = object.get("const") {
        types = types.and(Types::of(value));
    }
    if let Some(values) = object.get("enum").and_then(Value::as_array) {
        types = types.and(values.iter().fold(Types::NONE, |types, value| types.or(Types::of(value))));
    }
    if let Some(reference) = object.get("$ref").and_then(Value::as_str)
        && let Some(target) = target(root, reference)
    {
        types = types.and(types_within(root, target, hops - 1, room));
    }
    for branch in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        types = types.and(types_within(root, branch, hops - 1, room));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = object.get(keyword).and_then(Value::as_array) {
            types = types.and(branches.iter().fold(Types::NONE, |types, branch| {
                if types == Types::ALL { types } else { types.or(types_within(root, branch, hops - 1, room)) }
            }));
        }
    }
    types
}

/// Collects `schema` and the subschemas that may apply to the same value: targets of `$ref`,
/// members of `allOf`, and those branches of `anyOf`/`oneOf` that are not ruled out by the value.
/// Gives up (and returns `false`) when there are more than `room` of them.
pub(super) fn views<'s>(
    root: &'s Value,
    schema: &'s Value,
    value: &Value,
    room: usize,
    found: &mut Vec<&'s Value>,
) -> bool {
    views_within(root, schema, value, room, HOPS_MAX, found)
}

fn views_within<'s>(
    root: &'s Value,
    schema: &'s Value,
    value: &Value,
    room: usize,
    hops: usize,
    found: &mut Vec<&'s Value>,
) -> bool {
    if hops == 0 || found.len() >= room {
        return false;
    }
    found.push(schema);
    let Some(object) = schema.as_object() else { return true };
    if let Some(reference) = object.get("$ref").and_then(Value::as_str) {
        match target(root, reference) {
            Some(target) if views_within(root, target, value, room, hops - 1, found) => {}
            _ => return false,
        }
    }
    IN_PLACE_LISTS.iter().all(|keyword| {
        object.get(*keyword).and_then(Value::as_array).into_iter().flatten().all(|branch| {
            (*keyword != "allOf" && !is_plausible(root, branch, value))
                || views_within(root, branch, value, room, hops - 1, found)
        })
    })
}

/// Says whether a branch may be the one that is meant by `value`: it has an acceptable type and no
/// field with known values differs from all of them.
fn is_plausible(root: &Value, branch: &Value, value: &Value) -> bool {
    let Some(fields) = value.as_object() else { return true };
    types(root, branch).meets(Types::OBJECT)
        && branch.get("properties").and_then(Value::as_object).is_none_or(|properties| {
            properties.iter().all(|(name, schema)| {
                // A null may stand for what was left out, so it rules nothing out.
                let Some(field) = fields.get(name).filter(|field| !field.is_null()) else { return true };
                let values = schema.get("enum").and_then(Value::as_array);
                schema.get("const").is_none_or(|constant| constant == field)
                    && values.is_none_or(|values| values.contains(field))
            })
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_of_schemas() {
        #[track_caller]
        fn check(schema: Value, expected: Types) {
            let root = json!({"$defs": {"s": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}});
            assert_eq!(types(&root, &schema), expected, "{schema}");
        }
        check(json!({}), Types::ALL);
        check(json!(true), Types::ALL);
        check(json!(false), Types::NONE);
        check(json!({"type": ["string", "array"]}), Types::STRING.or(Types::ARRAY));
        check(json!({"enum": ["a", 1]}), Types::STRING.or(Types::INTEGER));
        check(json!({"$ref": "#/$defs/s"}), Types::STRING);
        check(json!({"$ref": "#/$defs/loop"}), Types::ALL);
        check(json!({"$ref": "#/nowhere"}), Types::ALL);
        check(json!({"anyOf": [{"type": "object"}, {"type": "null"}]}), Types::OBJECT.or(Types::NULL));
        check(json!({"allOf": [{"type": ["object", "string"]}, {"type": "object"}]}), Types::OBJECT);
        check(json!({"type": "number"}), Types::INTEGER.or(Types::FRACTION));
        check(json!({"oneOf": [{"type": "array"}, {}]}), Types::ALL);
    }
}
