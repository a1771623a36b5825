//! Inputs that are right but for their dress.
//!
//! Models write `5.0` for `5`, send a nested object as a string that holds its JSON, and give `null`
//! for an argument that they leave out; in some strict modes they have to. All are understood here,
//! and only where nothing else could be meant: a place that also accepts a string keeps its string,
//! one that accepts null keeps its null. Whatever comes out is validated again by the caller, so that
//! a wrong guess costs a message and never changes a meaning.

use serde_json::{Map, Number, Value};

use super::json::parse_json;
use super::places::{TypeSet, accepted_types, relevant_subschemas};
use crate::limits::{COERCE_STEPS_MAX, INPUT_DEPTH_MAX};

/// Floats from here on do not stand for one integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the input with its dress changed, or `None` if nothing had to be.
pub(super) fn coerce_input(root: &Value, input: &Value) -> Option<Value> {
    let mut walk = CoercionWalk { root, steps: COERCE_STEPS_MAX };
    walk.value(input, &[root], 0)
}

struct CoercionWalk<'s> {
    root: &'s Value,
    steps: usize,
}

impl<'s> CoercionWalk<'s> {
    /// Returns the changed value. `schemas` all speak about this place, some perhaps as alternatives.
    fn value(&mut self, value: &Value, schemas: &[&'s Value], depth: usize) -> Option<Value> {
        self.steps = self.steps.checked_sub(1 + schemas.len())?;
        if depth > INPUT_DEPTH_MAX {
            return None;
        }
        match value {
            Value::Number(number) => self.integer(number, schemas),
            Value::String(text) => self.text(text, schemas, depth),
            Value::Array(items) => {
                let views = self.views(value, schemas)?;
                self.items(items, &views, depth)
            }
            Value::Object(fields) => {
                let views = self.views(value, schemas)?;
                self.fields(fields, &views, depth)
            }
            Value::Null | Value::Bool(_) => None,
        }
    }

    fn views(&mut self, value: &Value, schemas: &[&'s Value]) -> Option<Vec<&'s Value>> {
        let mut found = Vec::new();
        let all = schemas
            .iter()
            .all(|schema| relevant_subschemas(self.root, schema, value, self.steps, &mut found));
        self.steps = self.steps.saturating_sub(found.len());
        all.then_some(found)
    }

    fn types(&self, schemas: &[&'s Value]) -> TypeSet {
        schemas.iter().fold(TypeSet::NONE, |all, schema| all.or(accepted_types(self.root, schema)))
    }

    fn integer(&self, number: &Number, schemas: &[&'s Value]) -> Option<Value> {
        let float = number.is_f64().then(|| number.as_f64())??;
        if float.fract() != 0.0 || float.abs() > EXACT_MAX || !self.types(schemas).meets(TypeSet::INTEGER) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "integral and within 2^53")]
        let integer = float as i64;
        Some(Value::from(integer))
    }

    fn text(&mut self, text: &str, schemas: &[&'s Value], depth: usize) -> Option<Value> {
        // Most strings are no JSON at all; this is the cheapest way to know.
        let wanted = match text.trim_start().bytes().next()? {
            b'{' => TypeSet::OBJECT,
            b'[' => TypeSet::ARRAY,
            _ => return None,
        };
        let types = self.types(schemas);
        if types.meets(TypeSet::STRING) || !types.meets(wanted) {
            return None;
        }
        let value = parse_json(text).ok()?;
        Some(self.value(&value, schemas, depth + 1).unwrap_or(value))
    }

    fn items(&mut self, items: &[Value], views: &[&'s Value], depth: usize) -> Option<Value> {
        let mut changed: Option<Vec<Value>> = None;
        for (index, item) in items.iter().enumerate() {
            let schemas: Vec<&Value> = views.iter().filter_map(|view| schema_of_item(view, index)).collect();
            if schemas.is_empty() {
                continue;
            }
            if let Some(item) = self.value(item, &schemas, depth + 1) {
                changed.get_or_insert_with(|| items.to_vec())[index] = item;
            }
        }
        changed.map(Value::Array)
    }

    fn fields(&mut self, fields: &Map<String, Value>, views: &[&'s Value], depth: usize) -> Option<Value> {
        let mut changed: Option<Map<String, Value>> = None;
        for (name, field) in fields {
            let schemas: Vec<&Value> = views.iter().filter_map(|view| schema_of_field(view, name)).collect();
            if schemas.is_empty() {
                continue;
            }
            if field.is_null() {
                if !self.types(&schemas).meets(TypeSet::NULL) && is_optional(views, name) {
                    changed.get_or_insert_with(|| fields.clone()).remove(name);
                }
            } else if let Some(field) = self.value(field, &schemas, depth + 1) {
                changed.get_or_insert_with(|| fields.clone()).insert(name.clone(), field);
            }
        }
        changed.map(Value::Object)
    }
}

fn schema_of_item(view: &Value, index: usize) -> Option<&Value> {
    let prefix = view.get("prefixItems").or_else(|| view.get("items").filter(|items| items.is_array()));
    let prefix = prefix.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    prefix.get(index).or_else(|| view.get("items").filter(|items| items.is_object()))
}

/// Returns what a schema says about a field. `additionalProperties: false` says nothing that could
/// be coerced to, and patterns are left alone: a field may match several.
fn schema_of_field<'s>(view: &'s Value, name: &str) -> Option<&'s Value> {
    if let Some(schema) = view.get("properties").and_then(|properties| properties.get(name)) {
        return Some(schema);
    }
    if view.get("patternProperties").is_some() {
        return None;
    }
    view.get("additionalProperties").filter(|schema| schema.is_object())
}

/// Says whether one of the views knows the field by name and doesn't require it. Of alternatives, one
/// that could do without it is enough: the validator decides which of them is meant.
fn is_optional(views: &[&Value], name: &str) -> bool {
    views.iter().any(|view| {
        let named = view.get("properties").and_then(|properties| properties.get(name)).is_some();
        let required = view.get("required").and_then(Value::as_array);
        named && !required.is_some_and(|required| required.iter().any(|other| other == name))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, input: Value, expected: Option<Value>) {
        assert_eq!(coerce_input(&schema, &input), expected, "{schema}");
    }

    #[test]
    fn integral_floats() {
        let integer = json!({"properties": {"n": {"type": "integer"}}});
        check(integer.clone(), json!({"n": 5.0}), Some(json!({"n": 5})));
        check(integer.clone(), json!({"n": -0.0}), Some(json!({"n": 0})));
        check(integer.clone(), json!({"n": 5.5}), None);
        check(integer.clone(), json!({"n": 1e300}), None);
        check(integer, json!({"n": 5, "m": 5.0}), None);
        check(
            json!({"properties": {"n": {"type": ["integer", "null"]}}}),
            json!({"n": 5.0}),
            Some(json!({"n": 5})),
        );
        check(json!({"items": {"type": "integer"}}), json!([1.0, "x", 2.0]), Some(json!([1, "x", 2])));
        check(
            json!({"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}),
            json!([1.0, 2.0]),
            Some(json!([1, 2.0])),
        );
        check(json!({"additionalProperties": {"type": "integer"}}), json!({"a": 1.0}), Some(json!({"a": 1})));
    }

    #[test]
    fn json_in_strings() {
        let edits = json!({"properties": {"edits": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}}});
        check(edits.clone(), json!({"edits": r#" [{"n": 1}]"#}), Some(json!({"edits": [{"n": 1}]})));
        check(edits.clone(), json!({"edits": r#"["{\"n\": 1.0}"]"#}), Some(json!({"edits": [{"n": 1}]})));
        check(edits.clone(), json!({"edits": r#"[{"n": 1, "n": 2}]"#}), None);
        check(edits.clone(), json!({"edits": r#"{"n": 1}"#}), None);
        check(edits.clone(), json!({"edits": "[1"}), None);
        check(edits.clone(), json!({"edits": ""}), None);
        check(json!({"type": "object"}), json!(r#"{"a": 1}"#), Some(json!({"a": 1})));
    }

    #[test]
    fn strings_stay_where_strings_are_accepted() {
        for schema in [
            json!({"type": ["string", "object"]}),
            json!({}),
            json!(true),
            json!({"anyOf": [{"type": "object"}, {"type": "string"}]}),
            json!({"anyOf": [{"type": "object"}, {"$ref": "#/nowhere"}]}),
            json!({"type": "string"}),
            json!({"type": "integer"}),
        ] {
            check(json!({"properties": {"a": schema}}), json!({"a": "{}"}), None);
        }
        check(
            json!({"properties": {"a": {"type": "object"}}, "anyOf": [{"properties": {"a": {"type": "string"}}}, {}]}),
            json!({"a": "{}"}),
            None,
        );
    }

    #[test]
    fn alternatives_and_references() {
        let object = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        for schema in [
            json!({"anyOf": [object, {"type": "null"}]}),
            json!({"oneOf": [object, {"type": "array"}]}),
            json!({"allOf": [object]}),
            json!({"$ref": "#/$defs/o"}),
        ] {
            let root = json!({"properties": {"a": schema}, "$defs": {"o": object}});
            check(root, json!({"a": r#"{"n": 1.0}"#}), Some(json!({"a": {"n": 1}})));
        }
        let tagged = json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "data": {"type": "object"}}},
            {"type": "object", "properties": {"kind": {"const": "b"}, "data": {"type": "string"}}},
        ]});
        check(tagged.clone(), json!({"kind": "a", "data": "{}"}), Some(json!({"kind": "a", "data": {}})));
        check(tagged, json!({"kind": "b", "data": "{}"}), None);
        let tree =
            json!({"type": "object", "properties": {"n": {"type": "integer"}, "child": {"$ref": "#"}}});
        check(tree, json!({"child": {"child": {"n": 2.0}}}), Some(json!({"child": {"child": {"n": 2}}})));
    }

    #[test]
    fn null_for_what_is_left_out() {
        let schema = json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["string", "null"]},
            "d": {}, "e": {"enum": ["x", null]}, "f": {"anyOf": [{"type": "object"}, {"type": "array"}]}},
            "required": ["a"], "additionalProperties": {"type": "integer"}});
        check(schema.clone(), json!({"a": "x", "b": null}), Some(json!({"a": "x"})));
        check(schema.clone(), json!({"a": "x", "f": null}), Some(json!({"a": "x"})));
        check(schema.clone(), json!({"a": null, "b": 1}), None);
        check(schema.clone(), json!({"a": "x", "c": null, "d": null, "e": null}), None);
        check(schema, json!({"a": "x", "other": null}), None);
        let nested = json!({"properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/o"}}},
            "$defs": {"o": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}}, "n": {"type": "integer"}}});
        check(
            nested,
            json!({"list": [{"n": null}, {"n": 2.0}, null]}),
            Some(json!({"list": [{}, {"n": 2}, null]})),
        );
        let forms = json!({"anyOf": [
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        ]});
        check(forms, json!({"a": "x", "b": null}), Some(json!({"a": "x"})));
        let together = json!({"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"a": {"minLength": 1}}}]});
        check(together, json!({"a": null}), None);
    }

    #[test]
    fn work_is_bounded() {
        let root =
            json!({"items": {"anyOf": [{"items": {"$ref": "#/items"}}, {"items": {"$ref": "#/items"}}]}});
        let mut input = json!(1.0);
        for _ in 0..INPUT_DEPTH_MAX {
            input = json!([input]);
        }
        check(root, input, None);
        check(json!({"$ref": "#"}), json!({"a": "{}"}), None);
    }
}
