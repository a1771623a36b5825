//! A schema that has been read: no references, no `allOf`, everything in a known place.

use std::borrow::Cow;

use serde_json::Value;

use super::json_types::JsonTypes;

/// Keywords with a plain value, in the order in which they are written.
pub(super) const FACTS: [&str; 17] = [
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "default",
    "examples",
];

pub(super) static NULL: Value = Value::Null;

/// One subschema. Empty, it accepts everything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct SchemaNode<'a> {
    /// Accepts nothing at all.
    pub(super) never: bool,
    pub(super) types: Option<JsonTypes>,
    pub(super) title: Option<&'a str>,
    pub(super) description: Option<Cow<'a, str>>,
    /// The only values that are accepted, from `enum` and `const`.
    pub(super) values: Option<Vec<&'a Value>>,
    /// Whether `properties` was said, even if there are none.
    pub(super) has_properties: bool,
    /// By the bytes of their names.
    pub(super) properties: Vec<(&'a str, SchemaNode<'a>)>,
    /// By bytes, each once.
    pub(super) required: Vec<&'a str>,
    pub(super) patterns: Vec<(&'a str, SchemaNode<'a>)>,
    pub(super) additional: Option<Box<SchemaNode<'a>>>,
    pub(super) items: Option<Box<SchemaNode<'a>>>,
    pub(super) prefix: Vec<SchemaNode<'a>>,
    /// At least one of these as well; empty if there are none.
    pub(super) any_of: Vec<SchemaNode<'a>>,
    /// By the index in [`FACTS`].
    pub(super) facts: Vec<(usize, &'a Value)>,
    /// What can't be said in keywords, in words.
    pub(super) words: Vec<String>,
    /// Something inside was left out.
    pub(super) cut: bool,
    /// Put together from several descriptions of the same value, or only a part of what was said. A strict
    /// form would lose something, and the engine, which reads the descriptions one by one, can't tell what a
    /// null in its place would mean.
    pub(super) mixed: bool,
}

impl<'a> SchemaNode<'a> {
    pub(super) fn never() -> SchemaNode<'a> {
        SchemaNode { never: true, ..SchemaNode::default() }
    }

    pub(super) fn from_types(types: JsonTypes) -> SchemaNode<'a> {
        SchemaNode { types: Some(types), ..SchemaNode::default() }
    }

    /// Whether anything is accepted and nothing said.
    pub(super) fn is_any(&self) -> bool {
        *self == SchemaNode::default()
    }

    /// Whether nothing is said but what the value is called.
    pub(super) fn accepts_all(&self) -> bool {
        !self.never
            && self.types.is_none()
            && self.values.is_none()
            && !self.says_object()
            && self.items.is_none()
            && self.prefix.is_empty()
            && self.any_of.is_empty()
            && self.facts.iter().all(|(fact, _)| matches!(FACTS[*fact], "default" | "examples"))
    }

    fn says_object(&self) -> bool {
        !self.properties.is_empty()
            || !self.required.is_empty()
            || !self.patterns.is_empty()
            || self.additional.is_some()
    }

    /// Whether an object may have more than the named properties.
    pub(super) fn is_open(&self) -> bool {
        !self.additional.as_ref().is_some_and(|node| node.never)
    }

    /// The types that it may accept; `None` if nothing is known.
    pub(super) fn known_types(&self) -> Option<JsonTypes> {
        let of_values = self.values.as_ref().map(|values| {
            values.iter().fold(JsonTypes::NONE, |types, value| types.or(JsonTypes::from_value(value)))
        });
        match (self.types, of_values) {
            (Some(types), Some(values)) => Some(types.and(values)),
            (types, values) => types.or(values),
        }
    }

    /// Drops values of types that aren't accepted anyway; without any left nothing is accepted.
    pub(super) fn settle(mut self) -> SchemaNode<'a> {
        if let (Some(types), Some(values)) = (self.types, &mut self.values) {
            values.retain(|value| types.has(JsonTypes::from_value(value)));
        }
        if self.types == Some(JsonTypes::NONE) || self.values.as_ref().is_some_and(Vec::is_empty) {
            return SchemaNode::never();
        }
        self
    }

    pub(super) fn requires(&self, name: &str) -> bool {
        self.required.binary_search(&name).is_ok()
    }

    pub(super) fn set_fact(&mut self, fact: usize, value: &'a Value) {
        match self.facts.binary_search_by_key(&fact, |(fact, _)| *fact) {
            Ok(at) => self.facts[at].1 = value,
            Err(at) => self.facts.insert(at, (fact, value)),
        }
    }

    /// Calls `visit` with each direct part.
    pub(super) fn each_part(&mut self, visit: &mut dyn FnMut(&mut SchemaNode<'a>)) {
        self.properties.iter_mut().for_each(|(_, node)| visit(node));
        self.patterns.iter_mut().for_each(|(_, node)| visit(node));
        self.additional.iter_mut().for_each(|node| visit(node));
        self.items.iter_mut().for_each(|node| visit(node));
        self.prefix.iter_mut().for_each(&mut *visit);
        self.any_of.iter_mut().for_each(visit);
    }
}
