//! Reads a schema into a [`SchemaNode`]: references replaced by what they point to, `allOf` merged, cycles
//! cut.
//!
//! Work is bounded by a budget of nodes, whatever the references do. When a plan needs more than the budget
//! the next one goes less deep, so that even a schema that unrolls to billions of parts comes out, with its
//! depths left open. Everything is visited in the order of bytes: what is reached before a budget ends must
//! not depend on a map.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::ptr;

use haft::text::truncate_chars;
use serde_json::{Map, Value};

use super::json_types::JsonTypes;
use super::merge;
use super::schema_node::{FACTS, SchemaNode};
use crate::limits::{HOPS_MAX, RECURSION_MAX, WIRE_SCHEMA_DEPTH_MAX, WIRE_SCHEMA_NODES_MAX, WORDS_CHARS_MAX};

/// How deep to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlattenLimits {
    /// How often a type is shown inside itself.
    recursion: usize,
    /// How many levels of objects and arrays are described.
    depth: usize,
}

/// From the most detail to the least.
pub(super) const PLANS: [FlattenLimits; 9] = [
    FlattenLimits { recursion: RECURSION_MAX, depth: WIRE_SCHEMA_DEPTH_MAX },
    FlattenLimits { recursion: 1, depth: WIRE_SCHEMA_DEPTH_MAX },
    FlattenLimits { recursion: 0, depth: WIRE_SCHEMA_DEPTH_MAX },
    FlattenLimits { recursion: 0, depth: 8 },
    FlattenLimits { recursion: 0, depth: 5 },
    FlattenLimits { recursion: 0, depth: 4 },
    FlattenLimits { recursion: 0, depth: 3 },
    FlattenLimits { recursion: 0, depth: 2 },
    FlattenLimits { recursion: 0, depth: 1 },
];

/// Why reading ended early.
#[derive(Debug, PartialEq)]
pub(super) enum FlattenError {
    /// There are more parts than the budget has room for.
    TooMany,
    /// The schema can't be sent, and why.
    Refused(String),
}

/// A schema and what its references can name.
pub(super) struct SchemaDocument<'a> {
    root: &'a Value,
    id: Option<&'a str>,
    anchors: OnceCell<HashMap<&'a str, &'a Value>>,
    /// Whether a reference was followed that is no plain pointer.
    far: Cell<bool>,
    /// Up to draft 7 a `$ref` made everything beside it void, and `items` could be a list.
    old: bool,
}

impl<'a> SchemaDocument<'a> {
    pub(super) fn new(root: &'a Value) -> SchemaDocument<'a> {
        let text = |key: &str| root.get(key).and_then(Value::as_str);
        let old = ["draft-03", "draft-04", "draft-06", "draft-07"];
        SchemaDocument {
            root,
            id: text("$id").map(|id| id.trim_end_matches('#')).filter(|id| !id.is_empty()),
            anchors: OnceCell::new(),
            far: Cell::new(false),
            old: text("$schema").is_some_and(|uri| old.iter().any(|draft| uri.contains(draft))),
        }
    }

    /// Whether a reference was followed that is no plain pointer into the document. The engine doesn't look
    /// behind those when it repairs an input, so nothing may depend on such a repair.
    pub(super) fn is_far(&self) -> bool {
        self.far.get()
    }

    /// What a reference points to.
    fn target(&self, reference: &str) -> Result<&'a Value, FlattenError> {
        let local = match self.id {
            Some(id) => reference.strip_prefix(id).unwrap_or(reference),
            None => reference,
        };
        let shown = truncate_chars(reference, 80);
        let Some(fragment) = local.strip_prefix('#').or(local.is_empty().then_some("")) else {
            return Err(FlattenError::Refused(format!(
                "its schema refers to `{shown}`, which is outside of it and not followed; put the definition under `$defs`"
            )));
        };
        self.far.set(self.far.get() || !(reference == "#" || reference.starts_with("#/")));
        let found = if fragment.is_empty() {
            Some(self.root)
        } else if fragment.starts_with('/') {
            self.root.pointer(&percent_decode(fragment))
        } else {
            let anchors = self.anchors.get_or_init(|| {
                let mut found = HashMap::new();
                note_anchors(self.root, 0, &mut found);
                found
            });
            anchors.get(fragment).copied()
        };
        found.ok_or_else(|| {
            FlattenError::Refused(format!("its schema refers to `{shown}`, which is not there"))
        })
    }
}

/// Finds anchors wherever they are. Of two with one name the first by bytes of its place counts.
fn note_anchors<'a>(value: &'a Value, depth: usize, found: &mut HashMap<&'a str, &'a Value>) {
    if depth > 2 * HOPS_MAX {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| note_anchors(item, depth + 1, found)),
        Value::Object(map) => {
            let fields = SchemaFields::from_map(map);
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(anchor) = fields.get(keyword).and_then(Value::as_str) {
                    found.entry(anchor).or_insert(value);
                }
            }
            fields.iter().for_each(|(_, field)| note_anchors(field, depth + 1, found));
        }
        _ => {}
    }
}

/// A fragment without its percent signs; one that doesn't decode is left as it is.
fn percent_decode(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return fragment.into();
    }
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high).zip(digit(low)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => bytes.push(*first),
        }
    }
    String::from_utf8(bytes).map_or(fragment.into(), Cow::Owned)
}

/// The keywords or properties of a schema, as a list ordered by the bytes of their names.
///
/// Everything that reads a schema reads this list, and only [`from_map`](SchemaFields::from_map) reads a map.
/// So what is sent can't depend on the order in which maps keep their keys, which a dependency may change for
/// the whole program.
struct SchemaFields<'a>(Vec<(&'a str, &'a Value)>);

impl<'a> SchemaFields<'a> {
    fn from_map(map: &'a Map<String, Value>) -> SchemaFields<'a> {
        SchemaFields::from_entries(map.iter().map(|(name, value)| (name.as_str(), value)).collect())
    }

    fn from_entries(mut entries: Vec<(&'a str, &'a Value)>) -> SchemaFields<'a> {
        if !entries.is_sorted_by_key(|(name, _)| *name) {
            entries.sort_unstable_by_key(|(name, _)| *name);
        }
        SchemaFields(entries)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let place = self.0.binary_search_by_key(&name, |(name, _)| name).ok()?;
        Some(self.0[place].1)
    }

    fn iter(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().copied()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Reads the whole schema.
pub(super) fn flatten_schema<'a>(
    document: &SchemaDocument<'a>,
    plan: FlattenLimits,
) -> Result<SchemaNode<'a>, FlattenError> {
    let mut reader =
        SchemaFlattener { document, plan, room: WIRE_SCHEMA_NODES_MAX, open: Vec::new(), hops: 0 };
    reader.node(document.root, 0)
}

struct SchemaFlattener<'d, 'a> {
    document: &'d SchemaDocument<'a>,
    plan: FlattenLimits,
    room: usize,
    /// The targets of the references that are being followed.
    open: Vec<*const Value>,
    /// How many schemas are being read one inside the other for the same value.
    hops: usize,
}

impl<'a> SchemaFlattener<'_, 'a> {
    fn node(&mut self, schema: &'a Value, depth: usize) -> Result<SchemaNode<'a>, FlattenError> {
        self.room = self.room.checked_sub(1).ok_or(FlattenError::TooMany)?;
        let fields = match schema {
            Value::Bool(false) => return Ok(SchemaNode::never()),
            Value::Object(map) => SchemaFields::from_map(map),
            _ => return Ok(SchemaNode::default()),
        };
        self.hops += 1;
        let node =
            if self.hops > HOPS_MAX { Ok(truncated_node(&fields)) } else { self.fields(&fields, depth) };
        self.hops -= 1;
        node
    }

    /// A part that describes another value than the schema that it is in.
    fn inner(&mut self, schema: &'a Value, depth: usize) -> Result<SchemaNode<'a>, FlattenError> {
        let hops = std::mem::take(&mut self.hops);
        let node = self.node(schema, depth + 1);
        self.hops = hops;
        node
    }

    fn fields(&mut self, fields: &SchemaFields<'a>, depth: usize) -> Result<SchemaNode<'a>, FlattenError> {
        let reference = fields.get("$ref").and_then(Value::as_str);
        let mut node = if reference.is_some() && self.document.old {
            read_annotations(fields)
        } else {
            let mut node = self.own(fields, depth)?;
            for branch in keyword_list(fields, "allOf") {
                node = merge::intersect_nodes(node, self.node(branch, depth)?);
            }
            for keyword in ["anyOf", "oneOf"] {
                if fields.get(keyword).is_some_and(Value::is_array) {
                    let branches =
                        keyword_list(fields, keyword).iter().map(|branch| self.node(branch, depth));
                    let branches = branches.collect::<Result<Vec<_>, FlattenError>>()?;
                    // Sent as `anyOf`, which is the same only where no value fits two of them.
                    let overlap = keyword == "oneOf" && !merge::are_exclusive(&branches);
                    node = merge::intersect_nodes(node, merge::union_nodes(branches));
                    node.mixed |= overlap;
                }
            }
            node
        };
        if let Some(reference) = reference {
            let target = self.document.target(reference)?;
            let times = self.open.iter().filter(|open| ptr::eq(**open, target)).count();
            let found = if times > self.plan.recursion {
                let mut found = target
                    .as_object()
                    .map(|map| truncated_node(&SchemaFields::from_map(map)))
                    .unwrap_or_default();
                found.words = vec!["nested further in the same way".to_owned()];
                found
            } else {
                self.open.push(target);
                let found = self.node(target, depth);
                self.open.pop();
                found?
            };
            node = merge::intersect_nodes(node, found);
        }
        Ok(node)
    }

    /// What the keywords of one schema say by themselves.
    fn own(&mut self, fields: &SchemaFields<'a>, depth: usize) -> Result<SchemaNode<'a>, FlattenError> {
        let mut node = read_annotations(fields);
        let descend = depth < self.plan.depth;
        let mut additional_items = None;
        for (keyword, value) in fields.iter() {
            match keyword {
                "type" => node.types = JsonTypes::read(value),
                "enum" => {
                    if let Value::Array(values) = value {
                        node.values = Some(distinct_values(values.iter()));
                    }
                }
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "required"
                | "items"
                | "prefixItems"
                | "additionalItems"
                    if !descend =>
                {
                    node.cut |= !matches!(value, Value::Bool(_));
                }
                "properties" => {
                    node.has_properties = true;
                    node.properties = self.map(value, depth)?;
                }
                "patternProperties" => node.patterns = self.map(value, depth)?,
                "additionalProperties" => node.additional = Some(Box::new(self.inner(value, depth)?)),
                "required" => {
                    let names = value.as_array().map_or(&[][..], Vec::as_slice);
                    node.required = names.iter().filter_map(Value::as_str).collect();
                    node.required.sort_unstable();
                    node.required.dedup();
                }
                "items" => match value {
                    Value::Array(_) => node.prefix = self.list(value, depth)?,
                    _ => node.items = Some(Box::new(self.inner(value, depth)?)),
                },
                "prefixItems" => node.prefix = self.list(value, depth)?,
                "additionalItems" => additional_items = Some(value),
                // Says nothing: what is left out is nothing.
                "default" if value.is_null() => {}
                // An old draft's boolean beside `minimum`; without it the bound is looser by one value.
                "exclusiveMinimum" | "exclusiveMaximum" if value.is_boolean() => {}
                _ => {
                    if let Some(fact) = FACTS.iter().position(|fact| *fact == keyword) {
                        node.set_fact(fact, value);
                    }
                }
            }
        }
        // `const` is an enumeration of one; both together mean both.
        if let Some(constant) = fields.get("const") {
            let constant = SchemaNode { values: Some(vec![constant]), ..SchemaNode::default() };
            node = merge::intersect_nodes(node, constant);
        }
        if let Some(value) = additional_items
            && !node.prefix.is_empty()
        {
            node.items = Some(Box::new(self.inner(value, depth)?));
        }
        if node.cut {
            node.words.push("what is inside is left out here".to_owned());
        }
        // Nothing can be here, and what nothing accepts needs no name.
        let never: Vec<&str> =
            node.properties.iter().filter(|(_, part)| part.never).map(|(name, _)| *name).collect();
        if !never.is_empty() {
            node.properties.retain(|(_, part)| !part.never);
            node.required.retain(|name| !never.contains(name));
        }
        if node.items.as_ref().is_some_and(|items| items.never) {
            node.items = None;
        }
        node.prefix.iter_mut().filter(|part| part.never).for_each(|part| *part = SchemaNode::default());
        node.mixed |= node.patterns.iter().any(|(_, part)| part.never);
        node.patterns.retain(|(_, part)| !part.never);
        Ok(node.settle())
    }

    fn map(
        &mut self,
        value: &'a Value,
        depth: usize,
    ) -> Result<Vec<(&'a str, SchemaNode<'a>)>, FlattenError> {
        let Value::Object(map) = value else { return Ok(Vec::new()) };
        let fields = SchemaFields::from_map(map);
        fields.iter().map(|(name, schema)| Ok((name, self.inner(schema, depth)?))).collect()
    }

    fn list(&mut self, value: &'a Value, depth: usize) -> Result<Vec<SchemaNode<'a>>, FlattenError> {
        let Value::Array(schemas) = value else { return Ok(Vec::new()) };
        schemas.iter().map(|schema| self.inner(schema, depth)).collect()
    }
}

/// The title, the description, and in words what the arithmetic of schemas can't loosen.
fn read_annotations<'a>(fields: &SchemaFields<'a>) -> SchemaNode<'a> {
    let text =
        |key: &str| fields.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let mut node = SchemaNode {
        title: text("title"),
        description: text("description").map(Cow::Borrowed),
        ..SchemaNode::default()
    };
    const SAID: [&str; 11] = [
        "contains",
        "dependencies",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
    ];
    if fields.len() > 1 {
        for keyword in SAID {
            if let Some(value) = fields.get(keyword) {
                node.mixed = true;
                let value = haft::canonical::to_string(value);
                if value.len() <= WORDS_CHARS_MAX && !value.contains("$ref") {
                    node.words.push(format!("{keyword} {value}"));
                }
            }
        }
    }
    node
}

/// What remains of a schema that is not read any further: what kind of value it is, and what it is called.
fn truncated_node<'a>(fields: &SchemaFields<'a>) -> SchemaNode<'a> {
    let mut node = read_annotations(fields);
    node.words.clear();
    node.types = fields.get("type").and_then(JsonTypes::read);
    node.cut = true;
    node
}

fn keyword_list<'a>(fields: &SchemaFields<'a>, keyword: &str) -> &'a [Value] {
    fields.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Each value once, in the order given.
pub(super) fn distinct_values<'a>(values: impl Iterator<Item = &'a Value> + Clone) -> Vec<&'a Value> {
    if values.clone().all(Value::is_string) {
        let mut seen = HashSet::new();
        return values.filter(|value| seen.insert(value.as_str())).collect();
    }
    let mut seen = HashSet::new();
    values.filter(|value| seen.insert(haft::canonical::to_string(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps keep their keys sorted, or in the order of insertion if a dependency turns that on.
    #[test]
    fn the_order_of_a_map_does_not_matter() {
        let (one, two, three) = (Value::from(1), Value::from(2), Value::from(3));
        let sorted = [("a", &one), ("b", &two), ("c", &three)];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let fields = SchemaFields::from_entries(order.map(|place| sorted[place]).to_vec());
            assert!(fields.iter().eq(sorted), "{order:?}");
            assert_eq!((fields.get("b"), fields.get("d")), (Some(&two), None));
        }
    }
}
