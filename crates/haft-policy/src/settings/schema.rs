//! The published JSON Schema of a settings file.
//!
//! It is generated from the table that the loader uses. A test compares the two over many files: a file
//! that the schema accepts loads without an error and without an unknown key, and vice versa.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::known_names::foreign_keys;
use super::table::{SectionSpec, TableEntry};

/// Returns the JSON Schema of a settings file, draft 2020-12.
pub fn schema() -> Value {
    table_schema(SectionSpec::standard())
}

/// Returns the JSON Schema of the files that a table describes.
pub(crate) fn table_schema(table: &SectionSpec) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = section_schema(table, &mut generator);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Settings of haft");
    for key in foreign_keys() {
        schema["properties"][key] = json!({"description": "Known to Claude Code; means nothing to haft."});
    }
    schema["$defs"] = Value::Object(generator.take_definitions(true));
    without_null(&mut schema);
    schema
}

fn section_schema(section: &SectionSpec, generator: &mut SchemaGenerator) -> Value {
    let properties = section.entries.iter().map(|(key, entry)| {
        let schema = match entry {
            TableEntry::Section(section) => section_schema(section, generator),
            TableEntry::Setting(setting) => setting.schema(generator).to_value(),
        };
        ((*key).to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    json!({
        "description": section.docs, "type": "object", "properties": properties, "additionalProperties": false,
    })
}
/// Removes `null` from every type: an optional value is omitted and never `null`.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(keys) => {
            if let Some(Value::Array(types)) = keys.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = &types[..] {
                    keys["type"] = only.clone();
                }
            }
            if let Some(Value::Array(ways)) = keys.get_mut("anyOf") {
                ways.retain(|way| way != &json!({"type": "null"}));
                if let [Value::Object(only)] = &ways[..] {
                    let only = only.clone();
                    keys.remove("anyOf");
                    keys.extend(only);
                }
            }
            if keys.get("default") == Some(&Value::Null) {
                keys.remove("default");
            }
            keys.values_mut().for_each(without_null);
        }
        _ => {}
    }
}
