//! The strict modes of providers: who may use them, and what they want.
//!
//! Strict means that the provider makes sure by grammar that a call fits the schema. A schema is made strict
//! only where nothing that the tool means gets lost: every value has a type, every object names all its
//! properties. An object that says nothing of further properties is closed, as every SDK does; one that says
//! that it takes more is not. Bounds that the mode doesn't know become words in the description, and the tool
//! checks them anyway.
//!
//! For OpenAI all properties are required, and one that isn't takes `null` instead. The engine drops such a
//! `null` where the tool doesn't accept it.

use super::json_types::JsonTypes;
use super::merge::or_null;
use super::schema_node::SchemaNode;
use crate::limits::{
    OPENAI_STRICT_CHARS_MAX, OPENAI_STRICT_DEPTH_MAX, OPENAI_STRICT_ENUM_MAX, OPENAI_STRICT_PROPERTIES_MAX,
};

/// What one strict schema takes of what a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StrictDemands {
    /// Properties that need not be given.
    pub(crate) optional: usize,
    /// Values of several types.
    pub(crate) unions: usize,
}

#[derive(Default)]
struct StrictTally {
    demands: StrictDemands,
    properties: usize,
    values: usize,
    chars: usize,
    /// Whether an optional property will take null, which the engine has to drop again.
    null_for_optional: bool,
}

/// Makes a schema legal for OpenAI's strict mode, or leaves it as it is.
pub(super) fn make_openai_strict(node: &mut SchemaNode<'_>) -> Option<StrictDemands> {
    let mut tally = StrictTally { null_for_optional: true, ..StrictTally::default() };
    if !fits_strict(node, &mut tally)
        || tally.properties > OPENAI_STRICT_PROPERTIES_MAX
        || tally.values > OPENAI_STRICT_ENUM_MAX
        || tally.chars > OPENAI_STRICT_CHARS_MAX
        || nesting_depth(node) > OPENAI_STRICT_DEPTH_MAX
    {
        return None;
    }
    close_objects(node, true);
    Some(tally.demands)
}

/// Makes a schema legal for Anthropic's strict mode, or leaves it as it is.
pub(super) fn make_anthropic_strict(node: &mut SchemaNode<'_>) -> Option<StrictDemands> {
    let mut tally = StrictTally::default();
    if !fits_strict(node, &mut tally) {
        return None;
    }
    close_objects(node, false);
    Some(tally.demands)
}

/// Whether everything has a type and every object names what it takes.
fn fits_strict(node: &SchemaNode<'_>, tally: &mut StrictTally) -> bool {
    if node.never || node.cut || node.mixed {
        return false;
    }
    if let Some(values) = &node.values {
        tally.values += values.len();
        tally.chars += values.iter().filter_map(|value| value.as_str()).map(str::len).sum::<usize>();
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            return false;
        }
    }
    if !node.any_of.is_empty() {
        let alone =
            node.types.is_none() && node.values.is_none() && !node.has_properties && node.items.is_none();
        tally.demands.unions += 1;
        return alone
            && node.additional.is_none()
            && (!tally.null_for_optional || told_apart(&node.any_of))
            && node.any_of.iter().all(|branch| fits_strict(branch, tally));
    }
    let Some(types) = node.known_types() else { return false };
    if !types.single() {
        tally.demands.unions += 1;
    }
    if types.has(JsonTypes::ARRAY) {
        let items = node.items.as_ref().is_some_and(|items| fits_strict(items, tally));
        if !items || !node.prefix.is_empty() {
            return false;
        }
    }
    if types.has(JsonTypes::OBJECT) {
        let named = node.required.iter().all(|name| node.properties.iter().any(|(own, _)| own == name));
        let closed = node.additional.is_none() || !node.is_open();
        if !node.has_properties || !named || !closed || !node.patterns.is_empty() {
            return false;
        }
        tally.properties += node.properties.len();
        for (name, part) in &node.properties {
            tally.chars += name.len();
            if !node.requires(name) {
                tally.demands.optional += 1;
            }
            if !fits_strict(part, tally) {
                return false;
            }
        }
    }
    true
}

/// Whether a null for an optional property belongs to one alternative only: at most one of them is an object,
/// none has optional properties, or a required property has other values in each.
fn told_apart(branches: &[SchemaNode<'_>]) -> bool {
    let is_object =
        |node: &&SchemaNode<'_>| node.known_types().is_none_or(|types| types.has(JsonTypes::OBJECT));
    let objects: Vec<&SchemaNode<'_>> = branches.iter().filter(is_object).collect();
    let all_required = |node: &&SchemaNode<'_>| node.properties.iter().all(|(name, _)| node.requires(name));
    if objects.len() < 2 || objects.iter().all(all_required) {
        return true;
    }
    have_distinct_tag(&objects)
}

/// Whether a property that all of these require has other values in each.
pub(super) fn have_distinct_tag(objects: &[&SchemaNode<'_>]) -> bool {
    let Some(first) = objects.first() else { return true };
    first.properties.iter().any(|(name, _)| {
        let mut seen = Vec::new();
        objects.iter().all(|node| {
            let part = node.properties.iter().find(|(own, _)| own == name).map(|(_, part)| part);
            let values = part.filter(|_| node.requires(name)).and_then(|part| part.values.as_deref());
            let distinct = values.is_some_and(|values| values.iter().all(|value| !seen.contains(value)));
            seen.extend(values.unwrap_or_default());
            distinct
        })
    })
}

/// How many objects and arrays are one inside the other.
fn nesting_depth(node: &SchemaNode<'_>) -> usize {
    let parts = node.properties.iter().map(|(_, part)| part).chain(node.items.as_deref());
    let inside = parts.map(|part| 1 + nesting_depth(part)).max().unwrap_or(0);
    inside.max(node.any_of.iter().map(nesting_depth).max().unwrap_or(0))
}

/// Closes every object; with `all_required`, every property is required and an optional one takes null.
fn close_objects(node: &mut SchemaNode<'_>, all_required: bool) {
    if node.known_types().is_some_and(|types| types.has(JsonTypes::OBJECT)) {
        node.additional = Some(Box::new(SchemaNode::never()));
        if all_required {
            let required = std::mem::take(&mut node.required);
            for (name, part) in &mut node.properties {
                if required.binary_search(name).is_err() {
                    or_null(part);
                }
            }
            node.required = node.properties.iter().map(|(name, _)| *name).collect();
        }
    } else {
        // Said of a value that can't be an object.
        node.additional = None;
        node.required.clear();
        node.properties.clear();
        node.patterns.clear();
    }
    node.each_part(&mut |part| {
        if !part.never {
            close_objects(part, all_required);
        }
    });
}
