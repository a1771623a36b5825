//! Definitions of tools, resources and prompts, kept as JSON text: one that is unusual costs only itself, and
//! a list is written once and sent many times.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

/// A list of definitions. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct DefinitionList {
    entries: Arc<[ListedDefinition]>,
    /// Arguments that a client repeats in headers, by the name of the tool.
    header_arguments: Arc<HashMap<String, Vec<HeaderArgument>>>,
}

/// One definition as JSON text. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ListedDefinition(Arc<DefinitionText>);

#[derive(Debug)]
struct DefinitionText {
    text: Box<RawValue>,
    /// For revisions with a handshake, where it differs.
    legacy_text: Option<Box<RawValue>>,
    name: String,
    header_arguments: Vec<HeaderArgument>,
}

impl PartialEq for ListedDefinition {
    fn eq(&self, other: &ListedDefinition) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text.get() == other.0.text.get()
    }
}

impl FromIterator<ListedDefinition> for DefinitionList {
    fn from_iter<I: IntoIterator<Item = ListedDefinition>>(definitions: I) -> DefinitionList {
        let entries: Arc<[ListedDefinition]> = definitions.into_iter().collect();
        let with_headers = entries.iter().filter(|entry| !entry.0.header_arguments.is_empty());
        let header_arguments =
            with_headers.map(|entry| (entry.0.name.clone(), entry.0.header_arguments.clone())).collect();
        DefinitionList { entries, header_arguments: Arc::new(header_arguments) }
    }
}

impl DefinitionList {
    /// A list of JSON objects: tools with at least `name` and `inputSchema`, resources with `uri` and `name`,
    /// templates with `uriTemplate` and `name`, prompts with `name`.
    pub fn new(definitions: impl IntoIterator<Item = Value>) -> DefinitionList {
        definitions.into_iter().filter_map(ListedDefinition::new).collect()
    }

    /// Whether a client reads the same in both lists.
    pub fn is_same_as(&self, other: &DefinitionList) -> bool {
        self.entries == other.entries
    }

    /// The number of definitions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn header_arguments(&self, tool: &str) -> &[HeaderArgument] {
        self.header_arguments.get(tool).map_or(&[], Vec::as_slice)
    }

    /// Definitions from an index on, for the stateless revision or for those with a handshake.
    pub(crate) fn page(
        &self,
        from: usize,
        count: usize,
        is_stateless: bool,
    ) -> impl Iterator<Item = &RawValue> {
        self.entries.iter().skip(from).take(count).map(move |ListedDefinition(entry)| {
            match &entry.legacy_text {
                Some(text) if !is_stateless => &**text,
                _ => &*entry.text,
            }
        })
    }
}

/// An argument that a client repeats in a header (revision 2026-07-28): `x-mcp-header` in its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderArgument {
    /// The header's name after `Mcp-Param-`.
    pub(crate) header: String,
    /// Keys that lead to the argument.
    pub(crate) path: Vec<String>,
}

impl HeaderArgument {
    /// How deep schemas are searched.
    const DEPTH_MAX: usize = 8;

    fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<HeaderArgument>) {
        if path.len() > HeaderArgument::DEPTH_MAX {
            return;
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            path.push(name.clone());
            if let Some(header) = property["x-mcp-header"].as_str() {
                found.push(HeaderArgument { header: header.to_owned(), path: path.clone() });
            }
            HeaderArgument::collect(property, path, found);
            path.pop();
        }
    }
}

impl ListedDefinition {
    /// Serializes a definition. `None` for anything but an object.
    pub fn new(mut definition: Value) -> Option<ListedDefinition> {
        let name = definition["name"].as_str().unwrap_or_default().to_owned();
        let mut header_arguments = Vec::new();
        HeaderArgument::collect(&definition["inputSchema"], &mut Vec::new(), &mut header_arguments);
        let text = serde_json::value::to_raw_value(&definition).ok()?;
        let entries = definition.as_object_mut()?;
        // Only the stateless revision has results that are not objects.
        let is_unusual = entries.get("outputSchema").is_some_and(|schema| schema["type"] != "object");
        let legacy_text = if is_unusual {
            entries.remove("outputSchema");
            serde_json::value::to_raw_value(&definition).ok()
        } else {
            None
        };
        Some(ListedDefinition(Arc::new(DefinitionText { text, legacy_text, name, header_arguments })))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn legacy_revisions_see_only_object_output_schemas() {
        let list = DefinitionList::new([
            json!({"name": "a", "outputSchema": {"type": "array"}}),
            json!("odd"),
            json!({"name": "b", "outputSchema": {"type": "object"}}),
        ]);
        let text = |stateless| list.page(0, 9, stateless).map(RawValue::get).collect::<Vec<_>>().join(" ");
        assert_eq!(text(false), r#"{"name":"a"} {"name":"b","outputSchema":{"type":"object"}}"#);
        assert!(text(true).contains("array"));
        assert_eq!(list.page(1, 1, true).count(), 1);
        let other = [json!({"name": "a", "outputSchema": {"type": "array"}}), json!({"name": "b"})];
        assert!(!list.is_same_as(&DefinitionList::new(other)) && list.is_same_as(&list.clone()));
    }
}
