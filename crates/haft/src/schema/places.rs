//! Which subschemas speak about a value, and which types they let through.
//!
//! A compiled validator answers yes or no; to repair or to explain an input one has to ask the
//! schema itself. This reading is approximate on purpose: what it does not understand (`not`, `if`,
//! anchors) it takes to accept everything, and every caller lets the validator decide in the end.

use serde_json::Value;

use super::bounds::IN_PLACE_LISTS;
use super::show::resolve_reference;

/// How many subschemas in a row are followed for one value.
const HOPS_MAX: usize = 32;
/// How many subschemas are looked at to find the types of one value.
const TYPES_MAX: usize = 256;

/// A set of JSON types. `integer` is a type of its own here, as in JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    pub(super) const NONE: TypeSet = TypeSet(0);
    pub(super) const ALL: TypeSet = TypeSet(0x7f);
    pub(super) const INTEGER: TypeSet = TypeSet(1);
    pub(super) const STRING: TypeSet = TypeSet(1 << 1);
    pub(super) const ARRAY: TypeSet = TypeSet(1 << 2);
    pub(super) const OBJECT: TypeSet = TypeSet(1 << 3);
    /// Numbers with a fraction.
    const FRACTION: TypeSet = TypeSet(1 << 4);
    const BOOLEAN: TypeSet = TypeSet(1 << 5);
    pub(super) const NULL: TypeSet = TypeSet(1 << 6);

    pub(super) fn for_value(value: &Value) -> TypeSet {
        match value {
            Value::Null => TypeSet::NULL,
            Value::Bool(_) => TypeSet::BOOLEAN,
            Value::Number(number) if number.is_f64() && number.as_f64().is_some_and(|n| n.fract() != 0.0) => {
                TypeSet::FRACTION
            }
            Value::Number(_) => TypeSet::INTEGER,
            Value::String(_) => TypeSet::STRING,
            Value::Array(_) => TypeSet::ARRAY,
            Value::Object(_) => TypeSet::OBJECT,
        }
    }

    fn named(name: &str) -> TypeSet {
        match name {
            "null" => TypeSet::NULL,
            "boolean" => TypeSet::BOOLEAN,
            "integer" => TypeSet::INTEGER,
            "number" => TypeSet::INTEGER.or(TypeSet::FRACTION),
            "string" => TypeSet::STRING,
            "array" => TypeSet::ARRAY,
            "object" => TypeSet::OBJECT,
            _ => TypeSet::NONE,
        }
    }

    pub(super) fn or(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    pub(super) fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & other.0)
    }

    pub(super) fn meets(self, other: TypeSet) -> bool {
        self.and(other) != TypeSet::NONE
    }
}

/// Returns the types that a schema may accept. Never leaves out a type that it does accept.
pub(super) fn accepted_types(root: &Value, schema: &Value) -> TypeSet {
    types_within(root, schema, HOPS_MAX, &mut { TYPES_MAX })
}

fn types_within(root: &Value, schema: &Value, hops: usize, room: &mut usize) -> TypeSet {
    let object = match schema {
        Value::Bool(false) => return TypeSet::NONE,
        Value::Object(object) if hops > 0 && *room > 0 => object,
        _ => return TypeSet::ALL,
    };
    *room -= 1;
    let mut types = match object.get("type") {
        Some(Value::String(name)) => TypeSet::named(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(TypeSet::NONE, |types, name| types.or(TypeSet::named(name))),
        _ => TypeSet::ALL,
    };
    if let Some(value) = object.get("const") {
        types = types.and(TypeSet::for_value(value));
    }
    if let Some(values) = object.get("enum").and_then(Value::as_array) {
        types =
            types.and(values.iter().fold(TypeSet::NONE, |types, value| types.or(TypeSet::for_value(value))));
    }
    if let Some(reference) = object.get("$ref").and_then(Value::as_str)
        && let Some(target) = resolve_reference(root, reference)
    {
        types = types.and(types_within(root, target, hops - 1, room));
    }
    for branch in object.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        types = types.and(types_within(root, branch, hops - 1, room));
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(branches) = object.get(keyword).and_then(Value::as_array) {
            types = types.and(branches.iter().fold(TypeSet::NONE, |types, branch| {
                if types == TypeSet::ALL {
                    types
                } else {
                    types.or(types_within(root, branch, hops - 1, room))
                }
            }));
        }
    }
    types
}

/// Collects `schema` and the subschemas that may apply to the same value: targets of `$ref`,
/// members of `allOf`, and those branches of `anyOf`/`oneOf` that are not ruled out by the value.
/// Gives up (and returns `false`) when there are more than `room` of them.
pub(super) fn relevant_subschemas<'s>(
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
        match resolve_reference(root, reference) {
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
    accepted_types(root, branch).meets(TypeSet::OBJECT)
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
        fn check(schema: Value, expected: TypeSet) {
            let root = json!({"$defs": {"s": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}});
            assert_eq!(accepted_types(&root, &schema), expected, "{schema}");
        }
        check(json!({}), TypeSet::ALL);
        check(json!(true), TypeSet::ALL);
        check(json!(false), TypeSet::NONE);
        check(json!({"type": ["string", "array"]}), TypeSet::STRING.or(TypeSet::ARRAY));
        check(json!({"enum": ["a", 1]}), TypeSet::STRING.or(TypeSet::INTEGER));
        check(json!({"$ref": "#/$defs/s"}), TypeSet::STRING);
        check(json!({"$ref": "#/$defs/loop"}), TypeSet::ALL);
        check(json!({"$ref": "#/nowhere"}), TypeSet::ALL);
        check(json!({"anyOf": [{"type": "object"}, {"type": "null"}]}), TypeSet::OBJECT.or(TypeSet::NULL));
        check(json!({"allOf": [{"type": ["object", "string"]}, {"type": "object"}]}), TypeSet::OBJECT);
        check(json!({"type": "number"}), TypeSet::INTEGER.or(TypeSet::FRACTION));
        check(json!({"oneOf": [{"type": "array"}, {}]}), TypeSet::ALL);
    }
}
