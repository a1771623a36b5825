//! The root of a tool's schema: one object, as every provider wants it.
//!
//! Alternatives at the root are put together into one object: all their properties, of which those are
//! required that every alternative requires. Which properties belong together is said in the description. A
//! property that only one alternative names is described as that one does, although an alternative that is
//! open would take anything under that name: nobody who writes alternatives means that.

use std::borrow::Cow;

use serde_json::Value;

use super::json_types::JsonTypes;
use super::schema_node::SchemaNode;
use super::{SchemaRefusal, merge};
use crate::limits::ALTERNATIVE_WORDS_CHARS_MAX;

/// The objects that a node accepts, without alternatives at the root.
pub(super) fn root_object<'a>(mut node: SchemaNode<'a>) -> Result<SchemaNode<'a>, SchemaRefusal> {
    let branches = std::mem::take(&mut node.any_of);
    let one_form = branches.is_empty();
    let alternatives: Vec<SchemaNode<'a>> =
        branches.into_iter().filter_map(|branch| root_object(branch).ok()).collect();
    let is_object = !node.never && node.known_types().is_none_or(|types| types.has(JsonTypes::OBJECT));
    if !is_object || (alternatives.is_empty() && !one_form) {
        return Err(SchemaRefusal(
            "its schema accepts no object, and the arguments of a call are one".to_owned(),
        ));
    }
    node.types = Some(JsonTypes::OBJECT);
    node.values = None;
    node.items = None;
    node.prefix = Vec::new();
    node.has_properties = true;
    if !alternatives.is_empty() {
        node = one_of(node, alternatives);
    }
    Ok(node)
}

fn names_it(node: &SchemaNode<'_>, name: &str) -> bool {
    node.properties.binary_search_by_key(&name, |(own, _)| *own).is_ok()
}

fn one_of<'a>(mut node: SchemaNode<'a>, alternatives: Vec<SchemaNode<'a>>) -> SchemaNode<'a> {
    let words = describe_alternatives(&alternatives);
    let mut names: Vec<&'a str> =
        alternatives.iter().flat_map(|branch| branch.properties.iter().map(|(name, _)| *name)).collect();
    names.sort_unstable();
    names.dedup();

    let mut union = SchemaNode { has_properties: true, ..SchemaNode::default() };
    for name in names {
        let mut variants = Vec::new();
        for branch in &alternatives {
            if let Ok(at) = branch.properties.binary_search_by_key(&name, |(name, _)| *name) {
                variants.push(branch.properties[at].1.clone());
            } else if !branch.patterns.is_empty() {
                variants.push(SchemaNode::default());
            } else {
                match branch.additional.as_deref() {
                    // Said, not only left open: the name may come here as well.
                    Some(rest) if !rest.never => variants.push(rest.clone()),
                    // What the base names belongs to every alternative that doesn't exclude it, and
                    // everything belongs to one that names nothing.
                    None if branch.properties.is_empty() || names_it(&node, name) => {
                        variants.push(SchemaNode::default())
                    }
                    _ => {}
                }
            }
        }
        let mut part = merge::union_nodes(variants);
        if part.any_of.iter().any(SchemaNode::accepts_all) {
            part = SchemaNode { description: part.description, ..SchemaNode::default() };
        }
        union.properties.push((name, part));
    }
    let mut required = alternatives[0].required.clone();
    required.retain(|name| alternatives.iter().all(|branch| branch.requires(name)));
    union.required = required;
    union.cut = alternatives.iter().any(|branch| branch.cut);
    let closed = alternatives.iter().all(|branch| !branch.is_open() && branch.patterns.is_empty());
    let said_open = |branch: &SchemaNode<'_>| {
        !branch.patterns.is_empty() || (branch.additional.is_some() && branch.is_open())
    };
    if closed {
        union.additional = Some(Box::new(SchemaNode::never()));
    } else if alternatives.iter().any(said_open) {
        union.additional = Some(Box::new(SchemaNode::default()));
    }
    // The base says nothing of names that only alternatives have, unless it is closed to them.
    let described = node.description.take();
    node = merge::intersect_nodes(node, union);
    if node.never {
        // Both can't hold together as one object; the base alone accepts more.
        node = SchemaNode { types: Some(JsonTypes::OBJECT), has_properties: true, ..SchemaNode::default() };
    }
    let text = match (described, words) {
        (Some(described), Some(words)) => Some(Cow::Owned(format!("{described}\n{words}"))),
        (described, words) => described.or(words.map(Cow::Owned)),
    };
    node.description = text;
    node.mixed = true;
    node
}

/// The alternatives, one a line: constants that tell it, what it requires, what it may have.
fn describe_alternatives(alternatives: &[SchemaNode<'_>]) -> Option<String> {
    if alternatives.len() < 2 {
        return None;
    }
    let mut text = "Use one of these forms:".to_owned();
    for branch in alternatives {
        let mut required = Vec::new();
        let mut optional = Vec::new();
        let mut names: Vec<&str> = branch.properties.iter().map(|(name, _)| *name).collect();
        names.extend(
            branch.required.iter().filter(|name| !branch.properties.iter().any(|(own, _)| own == *name)),
        );
        for name in names {
            let part = branch.properties.iter().find(|(own, _)| *own == name).map(|(_, part)| part);
            let constant = part.and_then(|part| part.values.as_deref()).and_then(|values| match values {
                [value] => Some(*value),
                _ => None,
            });
            let shown = match constant {
                Some(Value::Null) | None => name.to_owned(),
                Some(value) => format!("{name} = {}", haft::canonical::to_string(value)),
            };
            if branch.requires(name) { required.push(shown) } else { optional.push(shown) }
        }
        let mut line = if required.is_empty() { "nothing required".to_owned() } else { required.join(", ") };
        if !optional.is_empty() {
            line.push_str(&format!("; optional: {}", optional.join(", ")));
        }
        if let Some(what) = branch.description.as_deref().or(branch.title) {
            line.push_str(&format!(" ({})", what.lines().next().unwrap_or_default()));
        }
        if text.len() + line.len() > ALTERNATIVE_WORDS_CHARS_MAX {
            text.push_str("\n- and others");
            break;
        }
        text.push_str(&format!("\n- {line}"));
    }
    Some(text)
}
