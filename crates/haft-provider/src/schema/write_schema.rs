//! The one spelling of a schema.
//!
//! Order of keys: `type`, `title`, `description`, `enum`, `anyOf`, `properties`, `required`,
//! `patternProperties`, `additionalProperties`, `prefixItems`, `items`, then the facts in the order of
//! [`FACTS`]. A reader meets what a value is before how it is bounded. Properties are sorted by the bytes of
//! their names; values (of `enum`, `default`, …) are in canonical JSON. No spaces. Nothing depends on the
//! order in which a map keeps its keys.

use std::io::Write as _;

use serde_json::Value;

use super::json_types::JsonTypes;
use super::schema_node::{FACTS, SchemaNode};
use crate::limits::WORDS_CHARS_MAX;

/// Which keywords a wire takes; others are said in the description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordSupport {
    All,
    Gemini,
    OpenAiStrict,
    AnthropicStrict,
}

/// Formats that strict modes take.
const STRICT_FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// Formats that say how a number is stored and nothing to who writes one.
const STORAGE_FORMATS: [&str; 13] = [
    "double", "float", "int", "int16", "int32", "int64", "int8", "uint", "uint16", "uint32", "uint64",
    "uint8", "uint128",
];

impl KeywordSupport {
    fn takes(self, node: &SchemaNode<'_>, fact: &str, value: &Value) -> bool {
        match self {
            KeywordSupport::All => true,
            KeywordSupport::Gemini => matches!(fact, "minItems" | "maxItems" | "minimum" | "maximum"),
            KeywordSupport::OpenAiStrict => match fact {
                "format" => value.as_str().is_some_and(|format| STRICT_FORMATS.contains(&format)),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
                    node.known_types().is_some_and(|types| types.has(JsonTypes::NUMBER))
                }
                "minItems" | "maxItems" => {
                    node.known_types().is_some_and(|types| types.has(JsonTypes::ARRAY))
                }
                _ => false,
            },
            KeywordSupport::AnthropicStrict => match fact {
                "format" => {
                    value.as_str().is_some_and(|format| STRICT_FORMATS.contains(&format) || format == "uri")
                }
                "minItems" => value.as_u64().is_some_and(|items| items <= 1),
                _ => false,
            },
        }
    }
}

/// Writes a schema.
pub(super) fn write_schema(node: &SchemaNode<'_>, takes: KeywordSupport) -> String {
    let mut writer = SchemaWriter { bytes: Vec::with_capacity(512), takes };
    writer.node(node);
    String::from_utf8(writer.bytes).expect("JSON is text")
}

struct SchemaWriter {
    bytes: Vec<u8>,
    takes: KeywordSupport,
}

impl SchemaWriter {
    fn node(&mut self, node: &SchemaNode<'_>) {
        if node.never {
            self.bytes.extend_from_slice(b"{\"not\":{}}");
            return;
        }
        // Anthropic's strict mode knows one type a schema; several are alternatives.
        if self.takes == KeywordSupport::AnthropicStrict
            && let Some(types) = node.known_types().filter(|types| !types.single() && node.any_of.is_empty())
        {
            return self.split(node, types);
        }
        self.bytes.push(b'{');
        let start = self.bytes.len();
        let of_values = || node.values.as_ref().and_then(|_| node.known_types());
        if let Some(types) = node.types.or_else(of_values) {
            self.key(start, "type");
            self.types(types);
        }
        if let Some(title) =
            node.title.filter(|_| matches!(self.takes, KeywordSupport::All | KeywordSupport::Gemini))
        {
            self.key(start, "title");
            self.text(title);
        }
        self.description(node, start);
        if let Some(values) = &node.values {
            self.key(start, "enum");
            self.list(values.iter(), |writer, value| writer.value(value));
        }
        if !node.any_of.is_empty() {
            self.key(start, "anyOf");
            self.list(node.any_of.iter(), |writer, branch| writer.node(branch));
        }
        if node.has_properties || !node.properties.is_empty() {
            self.key(start, "properties");
            self.map(&node.properties);
        }
        if !node.required.is_empty() {
            self.key(start, "required");
            self.list(node.required.iter(), |writer, name| writer.text(name));
        }
        let patterns = !node.patterns.is_empty();
        if patterns && self.takes != KeywordSupport::Gemini {
            self.key(start, "patternProperties");
            self.map(&node.patterns);
        }
        // Without the patterns, `additionalProperties` would refuse what they accept.
        if let Some(additional) =
            node.additional.as_ref().filter(|_| !patterns || self.takes != KeywordSupport::Gemini)
        {
            self.key(start, "additionalProperties");
            if additional.never {
                self.bytes.extend_from_slice(b"false");
            } else if additional.is_any() {
                self.bytes.extend_from_slice(b"true");
            } else {
                self.node(additional);
            }
        }
        if !node.prefix.is_empty() {
            self.key(start, "prefixItems");
            self.list(node.prefix.iter(), |writer, part| writer.node(part));
        }
        if let Some(items) = &node.items {
            self.key(start, "items");
            self.node(items);
        } else if node.types.is_some_and(|types| types.has(JsonTypes::ARRAY)) {
            // OpenAI and Gemini refuse an array that says nothing of its items.
            self.key(start, "items");
            self.bytes.extend_from_slice(b"{}");
        }
        for (fact, value) in &node.facts {
            let name = FACTS[*fact];
            if self.takes.takes(node, name, value) && !is_storage(name, value) {
                self.key(start, name);
                self.value(value);
            }
        }
        self.bytes.push(b'}');
    }

    /// Several types as alternatives, each with what concerns it.
    fn split(&mut self, node: &SchemaNode<'_>, types: JsonTypes) {
        self.bytes.push(b'{');
        let start = self.bytes.len();
        self.description(node, start);
        self.key(start, "anyOf");
        let each: Vec<SchemaNode<'_>> = types
            .each()
            .map(|one| {
                let mut part = SchemaNode { types: Some(one), ..SchemaNode::default() };
                if let Some(values) = &node.values {
                    let of_type = |value: &&&Value| one.has(JsonTypes::from_value(value));
                    part.values = Some(values.iter().filter(of_type).copied().collect());
                }
                if one == JsonTypes::OBJECT {
                    part.has_properties = node.has_properties;
                    part.properties = node.properties.clone();
                    part.required = node.required.clone();
                    part.additional = node.additional.clone();
                }
                if one == JsonTypes::ARRAY {
                    part.items = node.items.clone();
                }
                part
            })
            .collect();
        self.list(each.iter(), |writer, part| writer.node(part));
        self.bytes.push(b'}');
    }

    /// The description, and after it in brackets what the wire has no keyword for.
    fn description(&mut self, node: &SchemaNode<'_>, start: usize) {
        let untaken = |(fact, value): &&(usize, &Value)| {
            !self.takes.takes(node, FACTS[*fact], value) && !is_storage(FACTS[*fact], value)
        };
        let mut words: Vec<String> = node
            .facts
            .iter()
            .filter(untaken)
            .map(|(fact, value)| format!("{} {}", FACTS[*fact], haft::canonical::to_string(value)))
            .filter(|words| words.len() <= WORDS_CHARS_MAX)
            .collect();
        if self.takes == KeywordSupport::Gemini && !node.patterns.is_empty() {
            let names: Vec<&str> = node.patterns.iter().map(|(pattern, _)| *pattern).collect();
            words.push(format!("further names match {}", names.join(" or ")));
        }
        words.extend(node.words.iter().cloned());
        let text = node.description.as_deref().unwrap_or_default();
        if words.is_empty() {
            if !text.is_empty() {
                self.key(start, "description");
                self.text(text);
            }
            return;
        }
        let space = if text.is_empty() { "" } else { " " };
        self.key(start, "description");
        self.text(&format!("{text}{space}[{}]", words.join("; ")));
    }

    fn types(&mut self, types: JsonTypes) {
        if types.single() {
            for name in types.names() {
                self.text(name);
            }
        } else {
            self.list(types.names(), |writer, name| writer.text(name));
        }
    }

    fn key(&mut self, start: usize, name: &str) {
        if self.bytes.len() > start {
            self.bytes.push(b',');
        }
        let _ = write!(self.bytes, "\"{name}\":");
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.bytes, text).expect("a vector takes everything");
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Array(_) | Value::Object(_) => {
                self.bytes.extend_from_slice(haft::canonical::to_string(value).as_bytes());
            }
            scalar => serde_json::to_writer(&mut self.bytes, scalar).expect("a vector takes everything"),
        }
    }

    fn list<T>(&mut self, items: impl Iterator<Item = T>, mut each: impl FnMut(&mut SchemaWriter, T)) {
        self.bytes.push(b'[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.bytes.push(b',');
            }
            each(self, item);
        }
        self.bytes.push(b']');
    }

    fn map(&mut self, parts: &[(&str, SchemaNode<'_>)]) {
        self.bytes.push(b'{');
        for (at, (name, part)) in parts.iter().enumerate() {
            if at > 0 {
                self.bytes.push(b',');
            }
            self.text(name);
            self.bytes.push(b':');
            self.node(part);
        }
        self.bytes.push(b'}');
    }
}

fn is_storage(fact: &str, value: &Value) -> bool {
    fact == "format" && value.as_str().is_some_and(|format| STORAGE_FORMATS.contains(&format))
}
