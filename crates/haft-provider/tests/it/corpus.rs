//! The tools of real MCP servers: each is defined for every wire, or refused with a reason.

use haft::Engine;
use haft_provider::{DefinitionCache, DefinitionForm, Wire};
use serde_json::{Map, Value, json};

use crate::shared::{anthropic_request, data, fits, json, openai_request, registry, request_schema};

/// All tools of the corpus as (name, description, schema). Some list `arguments` instead of a schema.
fn tools() -> Option<Vec<(String, String, Value)>> {
    let folder = data("mcp-tools")?;
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut tools = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let server = file.file_stem().unwrap().to_str().unwrap().replace('-', "_");
        for tool in json(file).as_array().unwrap() {
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| {
                let arguments = tool["arguments"].as_array().into_iter().flatten();
                let properties: Map<String, Value> = arguments
                    .map(|one| {
                        (
                            one["name"].as_str().unwrap().to_owned(),
                            json!({"type": one["type"], "description": one["desc"]}),
                        )
                    })
                    .collect();
                json!({"type": "object", "properties": properties})
            });
            let name: String = format!("mcp__{server}__{}", text("name")).chars().take(64).collect();
            tools.push((name, text("description"), schema));
        }
    }
    Some(tools)
}

#[test]
fn every_tool_goes_through_or_says_why_not() {
    let Some(tools) = tools() else { return };
    let (registry, refused) = registry(&tools);
    let snapshot = Engine::new(registry.clone()).snapshot();
    assert!(tools.len() > 200, "{}", tools.len());
    assert!(refused.len() < 5, "{refused:?}");
    let forms = Wire::ALL.map(DefinitionForm::Wire).into_iter().chain([DefinitionForm::Mcp]);
    for form in forms {
        for strict in [false, true] {
            let made = DefinitionCache::new(form).strict(strict).define(&snapshot);
            for left_out in made.left_out() {
                assert!(!left_out.reason.is_empty());
            }
            let value = made.to_value();
            let list = if form == Wire::Gemini.into() { &value[0]["functionDeclarations"] } else { &value };
            assert_eq!(list.as_array().unwrap().len() + made.left_out().len(), registry.len(), "{form:?}");
            for tool in list.as_array().unwrap() {
                let of = |keys: &[&str]| {
                    keys.iter().find_map(|key| tool.get(*key).or_else(|| tool["function"].get(*key)))
                };
                let schema = of(&["input_schema", "parameters", "parametersJsonSchema", "inputSchema"]);
                if let Some(schema) = schema {
                    assert!(jsonschema::draft202012::meta::is_valid(schema), "{schema}");
                    assert!(!schema.to_string().contains("$ref"));
                }
            }
            match form {
                DefinitionForm::Wire(Wire::Anthropic) => {
                    let message = json!({"role": "user", "content": "hi"});
                    for name in ["anthropic", "anthropic-beta"] {
                        let Some(schema) = request_schema(name) else { return };
                        fits(&schema, &anthropic_request(value.clone(), message.clone()));
                    }
                    let strict_tools =
                        value.as_array().unwrap().iter().filter(|tool| tool["strict"] == true).count();
                    assert!(
                        if strict { (1..=20).contains(&strict_tools) } else { strict_tools == 0 },
                        "{strict_tools}"
                    );
                }
                DefinitionForm::Wire(Wire::OpenAi) => {
                    let Some(schema) = request_schema("openai") else { return };
                    fits(&schema, &openai_request(value.clone(), json!("hi")));
                    let strict_tools =
                        value.as_array().unwrap().iter().filter(|tool| tool["strict"] == true).count();
                    assert!(if strict { strict_tools > 100 } else { strict_tools == 0 }, "{strict_tools}");
                }
                _ => {}
            }
        }
    }
}
