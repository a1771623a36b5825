//! What two schemas accept together, and what one of several accepts.
//!
//! Where the exact answer can't be said in one schema, the answer here accepts more, never less.

use std::cmp::Ordering;

use serde_json::{Number, Value};

use super::flatten::distinct_values;
use super::json_types::JsonTypes;
use super::schema_node::{FACTS, NULL, SchemaNode};
use super::strict;
use crate::limits::{ALTERNATIVES_MAX, COMPARED_MAX};

/// What both accept. Words of the first win.
pub(super) fn intersect_nodes<'a>(a: SchemaNode<'a>, b: SchemaNode<'a>) -> SchemaNode<'a> {
    if a.never || b.never {
        return SchemaNode::never();
    }
    if b.is_any() {
        return a;
    }
    if a.is_any() {
        return b;
    }
    let mut node = SchemaNode {
        title: a.title.or(b.title),
        description: a.description.or(b.description),
        types: match (a.types, b.types) {
            (Some(a), Some(b)) => Some(a.and(b)),
            (a, b) => a.or(b),
        },
        values: match (a.values, b.values) {
            (Some(a), Some(b)) => {
                Some(a.into_iter().filter(|one| b.iter().any(|other| values_equal(one, other))).collect())
            }
            (a, b) => a.or(b),
        },
        has_properties: a.has_properties || b.has_properties,
        cut: a.cut || b.cut,
        mixed: a.mixed || b.mixed,
        words: a.words,
        facts: a.facts,
        ..SchemaNode::default()
    };
    node = node.settle();
    if node.never {
        return node;
    }
    node.words.extend(b.words);
    node.words.sort_unstable();
    node.words.dedup();
    for (fact, value) in b.facts {
        match node.facts.binary_search_by_key(&fact, |(fact, _)| *fact) {
            Err(at) => node.facts.insert(at, (fact, value)),
            Ok(at) => node.facts[at].1 = tighter_bound(FACTS[fact], node.facts[at].1, value),
        }
    }

    node.required = a.required;
    node.required.extend(b.required);
    node.required.sort_unstable();
    node.required.dedup();
    // Names that a pattern may except from `additionalProperties` are not held to it.
    let rest_of_a = a.additional.as_deref().filter(|_| a.patterns.is_empty());
    let rest_of_b = b.additional.as_deref().filter(|_| b.patterns.is_empty());
    node.properties = merge_entries(a.properties, rest_of_a, b.properties, rest_of_b);
    let never: Vec<&str> =
        node.properties.iter().filter(|(_, part)| part.never).map(|(name, _)| *name).collect();
    if never.iter().any(|name| node.requires(name)) {
        return SchemaNode::never();
    }
    node.properties.retain(|(_, part)| !part.never);
    node.additional = intersect_optional(a.additional, b.additional);
    node.patterns = merge_entries(a.patterns, None, b.patterns, None);
    node.mixed |= node.patterns.iter().any(|(_, part)| part.never);
    node.patterns.retain(|(_, part)| !part.never);

    node.items = intersect_optional(a.items, b.items);
    let (long, short) =
        if a.prefix.len() >= b.prefix.len() { (a.prefix, b.prefix) } else { (b.prefix, a.prefix) };
    node.prefix = long;
    for (part, other) in node.prefix.iter_mut().zip(short) {
        *part = intersect_nodes(std::mem::take(part), other);
    }
    if node.items.as_ref().is_some_and(|items| items.never) {
        node.items = None;
    }

    node.any_of = match (a.any_of, b.any_of) {
        (a, b) if b.is_empty() => a,
        (a, b) if a.is_empty() => b,
        (a, b) if a.len() * b.len() <= ALTERNATIVES_MAX => {
            let product = a.iter().flat_map(|a| b.iter().map(|b| intersect_nodes(a.clone(), b.clone())));
            let mut product: Vec<SchemaNode<'_>> = product.filter(|node| !node.never).collect();
            product.dedup();
            if product.is_empty() {
                return SchemaNode::never();
            }
            product
        }
        // Too many to multiply out: the first list alone accepts more.
        (a, _) => a,
    };
    node
}

fn intersect_optional<'a>(
    a: Option<Box<SchemaNode<'a>>>,
    b: Option<Box<SchemaNode<'a>>>,
) -> Option<Box<SchemaNode<'a>>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Box::new(intersect_nodes(*a, *b))),
        (a, b) => a.or(b),
    }
}

/// The entries of both, by name; what only one has is also held to the rest of the other.
fn merge_entries<'a>(
    a: Vec<(&'a str, SchemaNode<'a>)>,
    rest_of_a: Option<&SchemaNode<'a>>,
    b: Vec<(&'a str, SchemaNode<'a>)>,
    rest_of_b: Option<&SchemaNode<'a>>,
) -> Vec<(&'a str, SchemaNode<'a>)> {
    if b.is_empty() && rest_of_b.is_none() {
        return a;
    }
    let held = |node: SchemaNode<'a>, rest: Option<&SchemaNode<'a>>| match rest {
        Some(rest) => SchemaNode { mixed: true, ..intersect_nodes(node, rest.clone()) },
        None => node,
    };
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let order = match (a.peek(), b.peek()) {
            (None, None) => return all,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.cmp(b),
        };
        let first = if order == Ordering::Greater { None } else { a.next() };
        let second = if order == Ordering::Less { None } else { b.next() };
        all.extend(match (first, second) {
            (Some((name, a)), Some((_, b))) => {
                Some((name, SchemaNode { mixed: true, ..intersect_nodes(a, b) }))
            }
            (Some((name, a)), None) => Some((name, held(a, rest_of_b))),
            (None, Some((name, b))) => Some((name, held(b, rest_of_a))),
            (None, None) => None,
        });
    }
}

/// Of two bounds the one that accepts less; of other facts the first.
fn tighter_bound<'a>(fact: &str, a: &'a Value, b: &'a Value) -> &'a Value {
    let order = match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        _ => return if fact == "uniqueItems" && *b == Value::Bool(true) { b } else { a },
    };
    let second = match fact {
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
            order == Ordering::Less
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
            order == Ordering::Greater
        }
        _ => false,
    };
    if second { b } else { a }
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Whether two values are the same to JSON Schema, to which `1.0` is `1`.
fn values_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| values_equal(a, b)))
        }
        _ => a == b,
    }
}

/// What at least one of these accepts, as simply as it can be said.
pub(super) fn union_nodes<'a>(branches: Vec<SchemaNode<'a>>) -> SchemaNode<'a> {
    let all = branches.len();
    let mut kept: Vec<SchemaNode<'a>> = Vec::with_capacity(all);
    for branch in branches.into_iter().filter(|branch| !branch.never) {
        if !kept.contains(&branch) {
            kept.push(branch);
        }
    }
    if kept.len() < 2 {
        let mut only = kept.pop().unwrap_or_else(SchemaNode::never);
        only.mixed |= all > 1;
        return only;
    }
    if kept.iter().all(is_constant) {
        return merge_enumerations(kept);
    }
    // `anyOf: [X, null]` is how many libraries write an X that may be null.
    if let [first, second] = &mut kept[..] {
        let null = SchemaNode::from_types(JsonTypes::NULL);
        let other = if *second == null {
            Some(first)
        } else if *first == null {
            Some(second)
        } else {
            None
        };
        if let Some(other) = other.filter(|other| other.any_of.is_empty() && other.types.is_some()) {
            let mut other = std::mem::take(other);
            or_null(&mut other);
            return other;
        }
    }
    SchemaNode { any_of: kept, ..SchemaNode::default() }
}

/// Whether no value can fit two of these, as far as types, values and tags tell.
pub(super) fn are_exclusive(branches: &[SchemaNode<'_>]) -> bool {
    let apart = |a: &SchemaNode<'_>, b: &SchemaNode<'_>| {
        if let (Some(a), Some(b)) = (&a.values, &b.values) {
            return !a.iter().any(|one| b.iter().any(|other| values_equal(one, other)));
        }
        match (a.known_types(), b.known_types()) {
            (Some(a_types), Some(b_types)) => match a_types.and(b_types) {
                JsonTypes::NONE => true,
                JsonTypes::OBJECT => strict::have_distinct_tag(&[a, b]),
                _ => false,
            },
            _ => false,
        }
    };
    branches.len() <= COMPARED_MAX
        && branches.iter().enumerate().all(|(at, a)| branches[..at].iter().all(|b| apart(a, b)))
}

/// Whether a branch names values and says nothing else of them.
fn is_constant(node: &SchemaNode<'_>) -> bool {
    let Some(values) = &node.values else { return false };
    let plain = values.iter().all(|value| !value.is_object() && !value.is_array());
    let bare = SchemaNode {
        values: node.values.clone(),
        types: node.types,
        title: node.title,
        description: node.description.clone(),
        ..SchemaNode::default()
    };
    plain && *node == bare && node.known_types() == bare_types(values)
}

fn bare_types(values: &[&Value]) -> Option<JsonTypes> {
    Some(values.iter().fold(JsonTypes::NONE, |types, value| types.or(JsonTypes::from_value(value))))
}

/// Branches that each name values, as one enumeration, and in words what each of them means.
fn merge_enumerations<'a>(branches: Vec<SchemaNode<'a>>) -> SchemaNode<'a> {
    let mut words = Vec::new();
    for branch in &branches {
        let means = branch.description.as_deref().or(branch.title);
        if let (Some([value]), Some(means)) = (branch.values.as_deref(), means) {
            words.push(format!("{}: {means}", haft::canonical::to_string(value)));
        }
    }
    let types = branches.iter().filter_map(|branch| branch.types).fold(JsonTypes::NONE, JsonTypes::or);
    let all_typed = branches.iter().all(|branch| branch.types.is_some());
    let values = branches.iter().flat_map(|branch| branch.values.iter().flatten().copied());
    SchemaNode {
        types: all_typed.then_some(types),
        values: Some(distinct_values(values)),
        words,
        ..SchemaNode::default()
    }
}

/// The same, and null as well.
pub(super) fn or_null(node: &mut SchemaNode<'_>) {
    if node.never {
        *node = SchemaNode::from_types(JsonTypes::NULL);
        return;
    }
    if !node.any_of.is_empty() && !node.any_of.iter().any(accepts_null) {
        node.any_of.push(SchemaNode::from_types(JsonTypes::NULL));
    }
    if let Some(types) = &mut node.types {
        *types = types.or(JsonTypes::NULL);
    }
    if let Some(values) = &mut node.values
        && !values.iter().any(|value| value.is_null())
    {
        values.push(&NULL);
    }
}

fn accepts_null(node: &SchemaNode<'_>) -> bool {
    let itself = node.known_types().is_none_or(|types| types.has(JsonTypes::NULL));
    itself && (node.any_of.is_empty() || node.any_of.iter().any(accepts_null))
}
