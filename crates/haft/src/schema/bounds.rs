//! What is asked of a schema before it is compiled.
//!
//! A run-time schema comes from a file or from another machine. It may be small and yet unroll to
//! billions of subschemas, point to a file or a network address, or send validation round in
//! circles. All of that is found here by looking, before any compiler sees it.
//!
//! Two measures are taken over the graph that `$ref`s make. *Size* counts subschemas as if each
//! reference were replaced by its target; it bounds time. *Hops* counts subschemas that apply to
//! the same value one inside the other; with the depth of the input it bounds the stack.

use std::collections::{HashMap, HashSet};
use std::ptr;

use serde_json::{Map, Value};

use super::SchemaError;
use super::places::{TypeSet, accepted_types};
use super::show::{escape_pointer, resolve_reference, shorten_text};
use crate::limits::{
    INPUT_DEPTH_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMA_HOPS_MAX, SCHEMA_NODES_MAX,
    SCHEMA_PATTERNS_MAX, SCHEMA_UNROLLED_DEPTH_MAX, VALUE_CHARS_MAX, VIOLATION_LEVELS_MAX,
    VIOLATION_PATHS_MAX,
};

/// Keywords whose value is a list of schemas for the same value.
pub(super) const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose value is a list of schemas. `items` is one in old drafts.
pub(super) const SCHEMA_LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value is an object of schemas.
pub(super) const SCHEMA_MAPS: [&str; 6] =
    ["properties", "patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"];
/// Keywords whose value is one schema.
pub(super) const SCHEMA_SINGLES: [&str; 12] = [
    "not",
    "if",
    "then",
    "else",
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

fn is_in_place(keyword: &str) -> bool {
    IN_PLACE_LISTS.contains(&keyword)
        || ["not", "if", "then", "else", "dependentSchemas", "dependencies"].contains(&keyword)
}

/// Calls `visit` with each direct subschema and the keyword that holds it.
pub(super) fn each_subschema<'s>(object: &'s Map<String, Value>, mut visit: impl FnMut(&'s str, &'s Value)) {
    for (keyword, value) in object {
        match value {
            Value::Object(children) if SCHEMA_MAPS.contains(&keyword.as_str()) => {
                children.values().for_each(|child| visit(keyword, child));
            }
            Value::Array(children) if SCHEMA_LISTS.contains(&keyword.as_str()) => {
                children.iter().for_each(|child| visit(keyword, child));
            }
            Value::Object(_) | Value::Bool(_) if SCHEMA_SINGLES.contains(&keyword.as_str()) => {
                visit(keyword, value)
            }
            _ => {}
        }
    }
}

/// What is known of a schema after it was looked through.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaFacts {
    /// How deep an input may nest for its problems to be explained in full. Where a schema contains
    /// itself, each level of the input adds to the stack, and alternatives multiply the explanations.
    pub(super) explained_depth: usize,
}

/// Checks the size, the depth and the references of a schema.
pub(super) fn check_bounds(root: &Value) -> Result<SchemaFacts, SchemaError> {
    if depth_over(root, SCHEMA_DEPTH_MAX) {
        return Err(SchemaError::new(format!(
            "the schema nests too deep; at most {SCHEMA_DEPTH_MAX} levels are accepted"
        )));
    }
    let bytes = root.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(SchemaError::new(format!(
            "the schema has {bytes} bytes; at most {SCHEMA_BYTES_MAX} bytes are accepted"
        )));
    }
    let mut survey = SchemaSurvey::new(root);
    survey.collect(root, true)?;
    if survey.patterns > SCHEMA_PATTERNS_MAX {
        return Err(SchemaError::new(format!(
            "the schema has {} patterns; at most {SCHEMA_PATTERNS_MAX} are accepted",
            survey.patterns
        )));
    }
    survey.unroll_target(root, 0)?;
    // References can lead to places that are no subschemas by name, so targets join the queue.
    let mut queue = std::mem::take(&mut survey.seen);
    let mut known: HashSet<*const Value> = queue.iter().map(|schema| ptr::from_ref(*schema)).collect();
    while let Some(schema) = queue.pop() {
        let hops = survey.reference_hops(schema, 0)?;
        survey.hops_most = survey.hops_most.max(hops);
        if let Some((_, Some(target))) = survey.reference(schema)
            && known.insert(ptr::from_ref(target))
        {
            survey.collect(target, true)?;
            queue.extend(survey.seen.drain(..).filter(|schema| known.insert(ptr::from_ref(*schema))));
            queue.push(target);
        }
    }
    let mut explained_depth = INPUT_DEPTH_MAX;
    if survey.cyclic {
        explained_depth = explained_depth.min(VIOLATION_LEVELS_MAX / (survey.hops_most + 1));
        if survey.fan_out > 1 {
            explained_depth = explained_depth.min(VIOLATION_PATHS_MAX.ilog(survey.fan_out) as usize);
        }
    }
    Ok(SchemaFacts { explained_depth })
}

/// The first `$ref` that leads nowhere, for the words of a refusal that the compiler has made.
#[cold]
pub(super) fn dangling_reference(root: &Value) -> Option<SchemaError> {
    let mut survey = SchemaSurvey::new(root);
    survey.collect(root, true).ok()?;
    let lost = survey.seen.iter().find(|schema| matches!(survey.reference(schema), Some((_, None))))?;
    let (reference, _) = survey.reference(lost)?;
    let keyword = REFERENCES.iter().find(|keyword| lost.get(**keyword).is_some())?;
    Some(SchemaError::at(
        &format!("{}/{keyword}", pointer_to(root, lost)),
        format!(
            "`{keyword}` to `{}` leads nowhere; a place that the schema has is accepted, such as `#/$defs/…`",
            shorten_text(reference, VALUE_CHARS_MAX)
        ),
    ))
}

/// The JSON pointer to a part of the document. Looked for only where something is wrong with it.
#[cold]
fn pointer_to(root: &Value, part: &Value) -> String {
    fn find(value: &Value, part: &Value, path: &mut Vec<String>) -> bool {
        if ptr::eq(value, part) {
            return true;
        }
        let mut below = |step: String, child: &Value| {
            path.push(step);
            find(child, part, path) || {
                path.pop();
                false
            }
        };
        match value {
            Value::Array(items) => items.iter().enumerate().any(|(at, item)| below(at.to_string(), item)),
            Value::Object(fields) => fields.iter().any(|(key, field)| below(escape_pointer(key), field)),
            _ => false,
        }
    }
    let mut path = Vec::new();
    find(root, part, &mut path);
    path.iter().map(|step| format!("/{step}")).collect()
}

/// Says whether objects and arrays nest deeper than `limit`; stops looking there.
pub(super) fn depth_over(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(|item| depth_over(item, limit - 1)),
        Value::Object(fields) => limit == 0 || fields.values().any(|field| depth_over(field, limit - 1)),
        _ => false,
    }
}

fn too_large() -> SchemaError {
    SchemaError::new(format!(
        "the schema has more than {SCHEMA_NODES_MAX} subschemas once its `$ref`s are followed; fewer are accepted"
    ))
}

#[derive(Clone, Copy)]
struct SubschemaSize {
    size: usize,
    height: usize,
}

struct SchemaSurvey<'s> {
    root: &'s Value,
    id: Option<&'s str>,
    draft_4: bool,
    seen: Vec<&'s Value>,
    anchors: HashMap<&'s str, &'s Value>,
    patterns: usize,
    cyclic: bool,
    /// The most alternatives for one value that may hold further values.
    fan_out: usize,
    hops_most: usize,
    /// Unrolled measures of reference targets; `None` while a target is being measured.
    measures: HashMap<*const Value, Option<SubschemaSize>>,
    /// Hops below reference targets; `None` while they are being counted.
    hop_counts: HashMap<*const Value, Option<usize>>,
}

impl<'s> SchemaSurvey<'s> {
    fn new(root: &'s Value) -> Self {
        SchemaSurvey {
            root,
            id: root.get("$id").and_then(Value::as_str).map(|id| id.trim_end_matches('#')),
            draft_4: root.get("$schema").and_then(Value::as_str).is_some_and(|uri| uri.contains("draft-04")),
            seen: Vec::new(),
            anchors: HashMap::new(),
            patterns: 0,
            cyclic: false,
            fan_out: 0,
            hops_most: 0,
            measures: HashMap::new(),
            hop_counts: HashMap::new(),
        }
    }

    /// Notes every subschema of the document and refuses references that leave it.
    fn collect(&mut self, schema: &'s Value, is_root: bool) -> Result<(), SchemaError> {
        self.seen.push(schema);
        let Some(object) = schema.as_object() else { return Ok(()) };
        for keyword in REFERENCES {
            let Some(reference) = object.get(keyword).and_then(Value::as_str) else { continue };
            if self.local(reference).is_none() {
                return Err(SchemaError::at(
                    &format!("{}/{keyword}", pointer_to(self.root, schema)),
                    format!(
                        "`{keyword}` to `{}` leaves the document and is not followed; `#/$defs/…` is accepted",
                        shorten_text(reference, VALUE_CHARS_MAX)
                    ),
                ));
            }
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = object.get(keyword).and_then(Value::as_str) {
                self.anchors.insert(anchor, schema);
            }
        }
        // `id` was the word of draft 4; later it is no keyword at all.
        let keywords: &[&str] = if self.draft_4 { &["$id", "id"] } else { &["$id"] };
        for keyword in keywords {
            let Some(id) = object.get(*keyword).and_then(Value::as_str) else { continue };
            if let Some(anchor) = id.strip_prefix('#') {
                self.anchors.insert(anchor, schema);
            } else if !is_root {
                // An inner `$id` changes what every `#` below it means.
                return Err(SchemaError::at(
                    &format!("{}/{keyword}", pointer_to(self.root, schema)),
                    format!("`{keyword}` inside the schema; it is accepted at the root only"),
                ));
            }
        }
        for branches in ["anyOf", "oneOf"].iter().filter_map(|keyword| object.get(*keyword)?.as_array()) {
            let holders = TypeSet::OBJECT.or(TypeSet::ARRAY);
            let count =
                branches.iter().filter(|branch| accepted_types(self.root, branch).meets(holders)).count();
            self.fan_out = self.fan_out.max(count);
        }
        self.patterns += usize::from(object.contains_key("pattern"));
        self.patterns += object.get("patternProperties").and_then(Value::as_object).map_or(0, Map::len);
        let mut outcome = Ok(());
        each_subschema(object, |_, child| {
            if outcome.is_ok() {
                outcome = self.collect(child, false);
            }
        });
        outcome
    }

    /// Returns the fragment of a reference into this document.
    fn local<'r>(&self, reference: &'r str) -> Option<&'r str> {
        let rest = match self.id {
            Some(id) => reference.strip_prefix(id).unwrap_or(reference),
            None => reference,
        };
        if rest.is_empty() { Some("#") } else { rest.starts_with('#').then_some(rest) }
    }

    /// Returns the reference of a schema and its target. A target that is missing is left to the
    /// compiler, which says so.
    fn reference(&self, schema: &'s Value) -> Option<(&'s str, Option<&'s Value>)> {
        let object = schema.as_object()?;
        let reference = REFERENCES.iter().find_map(|keyword| object.get(*keyword)?.as_str())?;
        let fragment = self.local(reference)?;
        let anchored = fragment.get(1..).and_then(|anchor| self.anchors.get(anchor).copied());
        Some((reference, resolve_reference(self.root, fragment).or(anchored)))
    }

    /// Measures a schema as if its references were replaced by their targets.
    fn unrolled_size(&mut self, schema: &'s Value, depth: usize) -> Result<SubschemaSize, SchemaError> {
        let mut measure = SubschemaSize { size: 1, height: 0 };
        if let Some((_, Some(target))) = self.reference(schema) {
            let below = self.unroll_target(target, depth)?;
            measure.size = measure.size.saturating_add(below.size);
            measure.height = below.height + 1;
        }
        if let Some(object) = schema.as_object() {
            let mut outcome = Ok(());
            each_subschema(object, |keyword, child| {
                if outcome.is_err() || keyword == "$defs" || keyword == "definitions" {
                    return;
                }
                outcome = self.unrolled_size(child, depth + 1).map(|below| {
                    measure.size = measure.size.saturating_add(below.size);
                    measure.height = measure.height.max(below.height + 1);
                });
            });
            outcome?;
        }
        if measure.size > SCHEMA_NODES_MAX {
            return Err(too_large());
        }
        if depth + measure.height > SCHEMA_UNROLLED_DEPTH_MAX {
            return Err(too_deep());
        }
        Ok(measure)
    }

    fn unroll_target(&mut self, target: &'s Value, depth: usize) -> Result<SubschemaSize, SchemaError> {
        if depth >= SCHEMA_UNROLLED_DEPTH_MAX {
            return Err(too_deep());
        }
        match self.measures.get(&ptr::from_ref(target)) {
            Some(Some(measure)) => Ok(*measure),
            Some(None) => {
                self.cyclic = true;
                Ok(SubschemaSize { size: 1, height: 0 })
            }
            None => {
                self.measures.insert(target, None);
                let measure = self.unrolled_size(target, depth + 1)?;
                self.measures.insert(target, Some(measure));
                Ok(measure)
            }
        }
    }

    /// Counts the longest chain of subschemas that apply to the same value.
    fn reference_hops(&mut self, schema: &'s Value, depth: usize) -> Result<usize, SchemaError> {
        let mut longest = 0;
        if let Some((reference, Some(target))) = self.reference(schema) {
            let below = match self.hop_counts.get(&ptr::from_ref(target)) {
                Some(Some(count)) => *count,
                Some(None) => {
                    return Err(SchemaError::new(format!(
                        "`$ref` to `{}` comes back to itself without going into the value; that is never satisfied",
                        shorten_text(reference, VALUE_CHARS_MAX)
                    )));
                }
                None => {
                    self.hop_counts.insert(target, None);
                    let count = self.hops_checked(target, depth)?;
                    self.hop_counts.insert(target, Some(count));
                    count
                }
            };
            longest = below + 1;
        }
        if let Some(object) = schema.as_object() {
            let mut outcome = Ok(());
            each_subschema(object, |keyword, child| {
                if outcome.is_ok() && is_in_place(keyword) {
                    outcome = self.hops_checked(child, depth).map(|below| longest = longest.max(below + 1));
                }
            });
            outcome?;
        }
        if longest > SCHEMA_HOPS_MAX { Err(too_many_hops()) } else { Ok(longest) }
    }

    fn hops_checked(&mut self, schema: &'s Value, depth: usize) -> Result<usize, SchemaError> {
        if depth >= SCHEMA_HOPS_MAX { Err(too_many_hops()) } else { self.reference_hops(schema, depth + 1) }
    }
}

fn too_deep() -> SchemaError {
    SchemaError::new(format!(
        "the schema nests more than {SCHEMA_UNROLLED_DEPTH_MAX} levels deep once its `$ref`s are followed; fewer are accepted"
    ))
}

fn too_many_hops() -> SchemaError {
    SchemaError::new(format!(
        "more than {SCHEMA_HOPS_MAX} subschemas (`allOf`, `anyOf`, `$ref`, …) apply to one value one inside the other; fewer are accepted"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(schema: &Value, message: &str) {
        let error = check_bounds(schema).expect_err("the schema is refused").to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn ordinary_schemas_pass() {
        for schema in [
            json!(true),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            json!({"$id": "https://example.com/a.json", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
            json!({"$id": "https://example.com/a", "properties": {"a": {"$ref": "https://example.com/a#/$defs/a"}}, "$defs": {"a": {}}}),
            json!({"properties": {"a": {"$ref": "#here"}}, "$defs": {"a": {"$anchor": "here"}}}),
            json!({"properties": {"child": {"$ref": "#"}}}),
            json!({"enum": [{"$ref": "http://not.a.reference"}], "default": {"$ref": "x"}}),
            json!({"properties": {"$ref": {"type": "string"}, "id": {"type": "string"}, "$id": {"type": "string"}}}),
        ] {
            assert!(check_bounds(&schema).is_ok(), "{schema}: {:?}", check_bounds(&schema));
        }
    }

    #[test]
    fn references_stay_in_the_document() {
        for reference in
            ["https://example.com/s.json", "file:///etc/passwd", "other.json#/a", "//host/x", "urn:a:b"]
        {
            refused(&json!({"properties": {"a": {"items": {"$ref": reference}}}}), "leaves the document");
            refused(&json!({"$defs": {"a": {"$dynamicRef": reference}}}), "leaves the document");
        }
        refused(
            &json!({"$ref": "#/x-parts/a", "x-parts": {"a": {"$ref": "http://a.b"}}}),
            "leaves the document",
        );
        refused(&json!({"properties": {"a": {"$id": "http://a.b"}}}), "at the root only");
    }

    #[test]
    fn size_and_depth_are_bounded() {
        refused(&json!({"description": "x".repeat(SCHEMA_BYTES_MAX)}), "at most 262144 bytes");
        let mut deep = json!({});
        for _ in 0..SCHEMA_DEPTH_MAX {
            deep = json!({"not": deep});
        }
        refused(&deep, "nests too deep");
        let patterns: Vec<_> =
            (0..=SCHEMA_PATTERNS_MAX).map(|n| json!({"pattern": format!("a{n}")})).collect();
        refused(&json!({"properties": {"a": {"anyOf": patterns}}}), "257 patterns");
    }

    /// A document of `count` definitions, where each is made from the name of the next.
    fn chain(count: usize, link: impl Fn(&str) -> Value) -> Value {
        let mut defs = Map::new();
        for n in 0..count {
            defs.insert(format!("d{n}"), link(&format!("#/$defs/d{}", n + 1)));
        }
        defs.insert(format!("d{count}"), json!({"type": "string"}));
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    }

    #[test]
    fn laughs_are_refused() {
        refused(
            &chain(
                10,
                |next| json!({"allOf": [{"$ref": next}, {"$ref": next}, {"$ref": next}, {"$ref": next}]}),
            ),
            "subschemas once",
        );
        refused(
            &chain(40, |next| json!({"properties": {"a": {"$ref": next}, "b": {"$ref": next}}})),
            "subschemas once",
        );
        refused(&chain(2000, |next| json!({"properties": {"a": {"$ref": next}}})), "levels deep");
        refused(&chain(40, |next| json!({"allOf": [{"$ref": next}]})), "one inside the other");
        refused(&chain(4000, |next| json!({"$ref": next})), "");
        assert!(check_bounds(&chain(8, |next| json!({"allOf": [{"$ref": next}]}))).is_ok());
    }

    #[test]
    fn circles_that_eat_no_input_are_refused() {
        refused(&json!({"$ref": "#"}), "comes back to itself");
        refused(&json!({"allOf": [{"$ref": "#"}]}), "comes back to itself");
        refused(
            &json!({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
            "comes back to itself",
        );
        refused(&json!({"items": {"$ref": "#/x"}, "x": {"not": {"$ref": "#/x"}}}), "comes back to itself");
        let fine = json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"items": {"$ref": "#/$defs/a"}}, {"type": "null"}]}}});
        assert_eq!(check_bounds(&fine).unwrap().explained_depth, INPUT_DEPTH_MAX);
        let explosive = json!({"items": {"anyOf": [{"$ref": "#"}, {"type": "object"}, {"type": "string"}]}});
        assert_eq!(check_bounds(&explosive).unwrap().explained_depth, 16);
    }
}
