//! Test data that lies beside the repository, and requests to hold against the schemas in it.

use std::path::{Path, PathBuf};

use haft::registry::Snapshot;
use haft::{Effects, Engine, Registry, dynamic_tool};
use serde_json::{Value, json};

/// A path of the shared data; `None`, and said, where it is absent.
pub(crate) fn data(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data").join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: ../shared/data/{path} is not here");
    None
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The schema of a provider's whole request.
pub(crate) fn request_schema(name: &str) -> Option<jsonschema::Validator> {
    let path = data(&format!("provider-schemas/{name}.schema.json"))?;
    Some(jsonschema::validator_for(&json(&path)).unwrap())
}

#[track_caller]
pub(crate) fn fits(schema: &jsonschema::Validator, request: &Value) {
    let problems: Vec<String> = schema.iter_errors(request).map(|error| error.to_string()).take(3).collect();
    assert!(
        problems.is_empty(),
        "{problems:?}\n{}",
        request.to_string().chars().take(2_000).collect::<String>()
    );
}

/// A registry of tools that are nothing but their schemas. Those that can't be registered are returned.
pub(crate) fn registry(tools: &[(String, String, Value)]) -> (Registry, Vec<String>) {
    let mut registry = Registry::new();
    let mut refused = Vec::new();
    for (name, description, schema) in tools {
        let tool =
            dynamic_tool(name.clone(), description.clone(), schema.clone(), |_, _| async { Ok("done") })
                .effects(|_| Effects::none());
        match registry.with(tool) {
            Ok(more) => registry = more,
            Err(error) => refused.push(error.to_string()),
        }
    }
    (registry, refused)
}

pub(crate) fn snapshot(tools: &[(&str, Value)]) -> Snapshot {
    let tools: Vec<_> = tools
        .iter()
        .map(|(name, schema)| (name.to_string(), format!("Does {name}."), schema.clone()))
        .collect();
    let (registry, refused) = registry(&tools);
    assert_eq!(refused, Vec::<String>::new());
    Engine::new(registry).snapshot()
}

/// A request of one wire with these tools and messages.
pub(crate) fn anthropic_request(tools: Value, message: Value) -> Value {
    json!({"model": "m", "max_tokens": 1, "messages": [message], "tools": tools})
}

pub(crate) fn openai_request(tools: Value, input: Value) -> Value {
    json!({"model": "m", "input": input, "tools": tools})
}
