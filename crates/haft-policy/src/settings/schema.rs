//! The published JSON Schema of a settings file.
//!
//! It is made from the types that the loader reads with. A test holds the two to each other over a table of files: what
//! the schema takes loads without an error and without an unknown key, and the other way round.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::known::ELSEWHERE;
use super::raw::RawSettings;

/// The JSON Schema of a settings file, draft 2020-12.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = settings.into_generator().into_root_schema_for::<RawSettings>().to_value();
    schema["title"] = json!("Settings of haft");
    for key in ELSEWHERE {
        schema["properties"][key] = json!({"description": "Known to Claude Code; means nothing to haft."});
    }
    let events: Vec<_> = super::hook::EVENTS.iter().map(|(event, _)| *event).collect();
    schema["properties"]["hooks"]["propertyNames"] = json!({"enum": events});
    without_null(&mut schema);
    schema
}

/// Takes `null` out of every type: what need not be given is left out, never empty.
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
