//! The schema of a Rust type: what `schemars` says, made fit for a model.
//!
//! Three changes. Everything is inlined, because models read `$ref` badly. Objects are closed,
//! because serde silently ignores a misspelt optional field and the model never learns of it.
//! Sized integers get their bounds, because `format: "uint8"` means nothing to a validator.
//!
//! Closing is done here and not by asking for `deny_unknown_fields`: serde cannot combine that
//! attribute with `flatten`. Where flattening leaves `properties` beside alternatives no single
//! branch knows all fields, so that level stays open and serde has the last word.

use std::collections::BTreeSet;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::SchemaError;
use super::bounds::{IN_PLACE_LISTS, each_subschema};

/// Returns the schema of an input type and the description that its doc comment gives.
pub(super) fn input_schema<T: JsonSchema>() -> Result<(Value, Option<String>), SchemaError> {
    let generator = schema_settings().for_deserialize().into_generator();
    let mut root = generator.into_root_schema_for::<T>().to_value();
    let description = strip_root(&mut root);
    bound_integers(&mut root);
    shape_root(&mut root)?;

    let mut open = BTreeSet::new();
    find_open(&root, SchemaScope::Whole, &mut open);
    let level = if open.contains("#") { SchemaScope::Part } else { SchemaScope::Whole };
    close_objects(&mut root, level, &open);
    Ok((root, description))
}

/// Returns the schema of an output type: as it is serialized, open, inlined.
///
/// Open, because a tool may learn to say more without breaking whoever reads it.
pub fn derive_output<T: JsonSchema>() -> Value {
    let generator = schema_settings().for_serialize().into_generator();
    let mut root = generator.into_root_schema_for::<T>().to_value();
    strip_root(&mut root);
    bound_integers(&mut root);
    root
}

fn schema_settings() -> SchemaSettings {
    SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    })
}

fn strip_root(root: &mut Value) -> Option<String> {
    let root = root.as_object_mut()?;
    root.remove("$schema");
    root.remove("title");
    match root.remove("description") {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Makes the root say `type: object`, which providers insist on.
fn shape_root(root: &mut Value) -> Result<(), SchemaError> {
    let refused = |found: String| {
        Err(SchemaError::new(format!(
            "the input type has {found} as its schema; a struct with named fields is accepted"
        )))
    };
    let Some(schema) = root.as_object_mut() else {
        return refused(root.to_string());
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {}
        // A unit struct or `()`: serde reads it from `null`, a model sends `{}`. `decode` bridges them.
        Some("null") => {
            schema.insert("type".to_owned(), json!("object"));
        }
        None if alternatives_are_objects(schema) => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(other) => return refused(format!("`{other}`")),
        None => return refused("no single `type`".to_owned()),
    }
    let bare = ["additionalProperties", "unevaluatedProperties", "patternProperties", "$ref"]
        .iter()
        .chain(&IN_PLACE_LISTS)
        .all(|key| !schema.contains_key(*key));
    if bare && !schema.contains_key("properties") {
        schema.insert("properties".to_owned(), json!({}));
        schema.insert("additionalProperties".to_owned(), json!(false));
    }
    Ok(())
}

fn alternatives_are_objects(schema: &Map<String, Value>) -> bool {
    ["oneOf", "anyOf"]
        .iter()
        .filter_map(|key| schema.get(*key)?.as_array())
        .any(|branches| !branches.is_empty() && branches.iter().all(|branch| branch["type"] == "object"))
}

/// Whether a schema speaks for a whole object or only for some of its fields.
#[derive(Clone, Copy, PartialEq)]
enum SchemaScope {
    Whole,
    Part,
}

/// The level of the subschemas that apply in place beside the other keywords of `schema`.
fn level_of_branches(schema: &Map<String, Value>, level: SchemaScope) -> SchemaScope {
    let lists = IN_PLACE_LISTS.iter().filter(|key| schema.contains_key(**key)).count();
    let shared = has_fields(schema)
        || lists > 1
        || schema.contains_key("additionalProperties")
        || schema.contains_key("unevaluatedProperties")
        || schema.get("allOf").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    if shared { SchemaScope::Part } else { level }
}

fn has_fields(schema: &Map<String, Value>) -> bool {
    schema.get("properties").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty())
}

/// Collects the references whose targets are only a part of some object.
fn find_open(schema: &Value, level: SchemaScope, open: &mut BTreeSet<String>) {
    let Some(object) = schema.as_object() else { return };
    let branches = level_of_branches(object, level);
    if let (Some(reference), SchemaScope::Part) = (object.get("$ref").and_then(Value::as_str), branches) {
        open.insert(reference.to_owned());
    }
    each_subschema(object, |keyword, child| {
        find_open(child, level_of_child(keyword, branches), open);
    });
}

fn level_of_child(keyword: &str, branches: SchemaScope) -> SchemaScope {
    match keyword {
        "oneOf" | "anyOf" | "allOf" => branches,
        "not" | "if" | "then" | "else" | "dependentSchemas" => SchemaScope::Part,
        _ => SchemaScope::Whole,
    }
}

fn close_objects(schema: &mut Value, level: SchemaScope, open: &BTreeSet<String>) {
    let Some(object) = schema.as_object_mut() else { return };
    let branches = level_of_branches(object, level);
    let alone = !object.contains_key("$ref") && IN_PLACE_LISTS.iter().all(|key| !object.contains_key(*key));
    let free = !object.contains_key("additionalProperties") && !object.contains_key("unevaluatedProperties");
    if level == SchemaScope::Whole && has_fields(object) && alone && free {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    each_subschema_mut(object, &mut |keyword, name, child| {
        let part = keyword == "$defs" && open.contains(&format!("#/$defs/{name}"));
        let level = if part { SchemaScope::Part } else { level_of_child(keyword, branches) };
        close_objects(child, level, open);
    });
}

/// Replaces the integer formats of `schemars` by bounds; drops those of floats, which say nothing.
fn bound_integers(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(format) = object.get("format").and_then(Value::as_str) {
        let bounds = match format {
            "int8" => Some((json!(i8::MIN), json!(i8::MAX))),
            "int16" => Some((json!(i16::MIN), json!(i16::MAX))),
            "int32" => Some((json!(i32::MIN), json!(i32::MAX))),
            "int64" | "int" => Some((json!(i64::MIN), json!(i64::MAX))),
            "uint8" => Some((json!(u8::MIN), json!(u8::MAX))),
            "uint16" => Some((json!(u16::MIN), json!(u16::MAX))),
            "uint32" => Some((json!(u32::MIN), json!(u32::MAX))),
            "uint64" | "uint" => Some((json!(u64::MIN), json!(u64::MAX))),
            "int128" | "uint128" | "float" | "double" => None,
            _ => return each_subschema_mut(object, &mut |_, _, child| bound_integers(child)),
        };
        object.remove("format");
        if let Some((least, most)) = bounds {
            tighten_bound(object, "minimum", least, |ours, theirs| ours > theirs);
            tighten_bound(object, "maximum", most, |ours, theirs| ours < theirs);
        }
    }
    each_subschema_mut(object, &mut |_, _, child| bound_integers(child));
}

fn tighten_bound(object: &mut Map<String, Value>, key: &str, bound: Value, tighter: fn(f64, f64) -> bool) {
    let existing = object.get(key).and_then(Value::as_f64);
    let wins = match (bound.as_f64(), existing) {
        (Some(ours), Some(theirs)) => tighter(ours, theirs),
        _ => true,
    };
    if wins {
        object.insert(key.to_owned(), bound);
    }
}

/// [`each_subschema`] for changing them; also gives the name or index under the keyword.
fn each_subschema_mut(object: &mut Map<String, Value>, visit: &mut dyn FnMut(&str, &str, &mut Value)) {
    use super::bounds::{SCHEMA_LISTS, SCHEMA_MAPS, SCHEMA_SINGLES};
    for (keyword, value) in object {
        match value {
            Value::Object(children) if SCHEMA_MAPS.contains(&keyword.as_str()) => {
                for (name, child) in children {
                    visit(keyword, name, child);
                }
            }
            Value::Array(children) if SCHEMA_LISTS.contains(&keyword.as_str()) => {
                for child in children {
                    visit(keyword, "", child);
                }
            }
            Value::Object(_) if SCHEMA_SINGLES.contains(&keyword.as_str()) => visit(keyword, "", value),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "derive_tests.rs"]
mod tests;
