//! The search over tools: as a tool of a session, and over the definitions of real servers.

use std::collections::HashMap;
use std::path::Path;

use haft::registry::{ToolGates, ToolListing};
use haft::search::{SearchIndex, SearchableTool, ToolSearch};
use haft::{Effects, Engine, Registry, ToolCall, dynamic_tool};
use serde_json::{Value, json};

/// A tool of a real server, under the name that it would have.
struct Real {
    name: String,
    description: String,
    schema: Value,
}

/// All definitions beside the repository; nothing, and said, where they are absent.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn real() -> Option<Vec<Real>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mcp-tools");
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: ../shared/data/mcp-tools is not here");
        return None;
    };
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let mut tools = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let server = file.file_stem().unwrap().to_string_lossy().into_owned();
        let listed: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        for tool in listed {
            let arguments = tool["arguments"].as_array().into_iter().flatten();
            let properties =
                arguments.filter_map(|argument| Some((argument["name"].as_str()?.to_owned(), json!({}))));
            let properties: serde_json::Map<String, Value> = properties.collect();
            tools.push(Real {
                name: format!("mcp__{server}__{}", tool["name"].as_str().unwrap()),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                schema: json!({"type": "object", "properties": properties}),
            });
        }
    }
    assert!(tools.len() > 100, "only {} definitions", tools.len());
    Some(tools)
}

fn index(tools: &[Real]) -> SearchIndex {
    SearchIndex::new(tools.iter().map(|tool| SearchableTool {
        name: &tool.name,
        hint: "",
        description: &tool.description,
        input_schema: &tool.schema,
    }))
}

/// Words as a person would take them from a description.
fn words(text: &str) -> Vec<String> {
    let split = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
    split.map(str::to_lowercase).collect()
}

#[test]
fn every_real_tool_is_found_first_by_its_name() {
    let Some(tools) = real() else { return };
    let index = index(&tools);
    for (at, tool) in tools.iter().enumerate() {
        let found = index.find(&tool.name, 5);
        assert_eq!(tools[found[0]].name, tool.name, "{at}");
    }
}

#[test]
fn every_real_tool_is_found_by_the_rarest_words_of_its_description() {
    let Some(tools) = real() else { return };
    let index = index(&tools);
    let mut used: HashMap<String, usize> = HashMap::new();
    for tool in &tools {
        let mut own = words(&tool.description);
        own.sort();
        own.dedup();
        own.into_iter().for_each(|word| *used.entry(word).or_default() += 1);
    }
    let mut missed = Vec::new();
    for tool in &tools {
        let mut rarest = words(&tool.description);
        rarest.sort_by_key(|word| (used[word], word.clone()));
        rarest.dedup();
        rarest.truncate(4);
        if rarest.is_empty() {
            continue;
        }
        let query = rarest.join(" ");
        // Tools that say the same can't be told apart by it.
        let says_it = |at: &usize| tools[*at].name == tool.name || tools[*at].description == tool.description;
        if !index.find(&query, 5).iter().any(says_it) {
            missed.push(format!("{}: {query}", tool.name));
        }
    }
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), tools.len(), missed.join("\n"));
}

fn registry() -> Registry {
    let tools: Vec<_> = (0..30)
        .map(|number| {
            let (name, description) =
                (format!("tool_{number}"), format!("Does the thing number {number} with a sprocket."));
            let schema =
                json!({"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]});
            dynamic_tool(name, description, schema, |_, _| async { Ok("done") })
                .effects(|_| Effects::none())
                .build()
                .unwrap()
        })
        .collect();
    Registry::new().with(ToolSearch).unwrap().with_external("many", tools).unwrap()
}

fn engine(registry: &Registry) -> Engine {
    let mut gates = ToolGates::default();
    gates.defer_above = 10;
    Engine::builder(registry.clone()).gates(gates).build()
}

async fn search(engine: &Engine, input: Value) -> Result<Vec<String>, String> {
    let results = engine.turn().run([ToolCall::new("1", "ToolSearch", input.to_string())]).await;
    match results[0].error() {
        Some(error) => Err(error.message().to_owned()),
        None => {
            let output = results[0].to_json().output;
            let found = output.as_array().unwrap();
            assert!(found.iter().all(|found| found["input_schema"]["properties"]["size"].is_object()));
            Ok(found.iter().map(|found| found["name"].as_str().unwrap().to_owned()).collect())
        }
    }
}

#[tokio::test]
async fn what_was_found_is_shown_from_the_next_turn_on() {
    let engine = engine(&registry());
    assert_eq!(engine.snapshot().definitions().count(), 1, "only the search itself");
    assert_eq!(search(&engine, json!({"query": "tool_7"})).await.unwrap()[0], "tool_7");
    assert_eq!(search(&engine, json!({"query": "sprocket"})).await.unwrap().len(), 5);
    assert_eq!(search(&engine, json!({"query": "sprocket", "max_results": 2})).await.unwrap().len(), 2);
    let chosen = search(&engine, json!({"query": "select: tool_3, nothing,tool_29"})).await.unwrap();
    assert_eq!(chosen, ["tool_3", "tool_29"]);
    let none = search(&engine, json!({"query": "+giraffe sprocket"})).await.unwrap_err();
    assert_eq!(none, "no tool fits `+giraffe sprocket`; try other words for what it should do, or fewer `+`");
    assert!(engine.snapshot().find("tool_7").unwrap().is_deferred(), "until the next turn");
    engine.refresh();
    assert_eq!(engine.snapshot().find("tool_7").unwrap().listing(), ToolListing::Found);
    let shown: Vec<String> = engine.snapshot().definitions().map(|offer| offer.name().to_owned()).collect();
    assert!(shown.contains(&"tool_3".to_owned()) && !shown.contains(&"tool_28".to_owned()), "{shown:?}");
}

/// What is new is found too, and what was found stays so.
#[tokio::test]
async fn tools_that_came_later_are_found() {
    let registry = registry();
    let engine = engine(&registry);
    assert_eq!(search(&engine, json!({"query": "tool_7"})).await.unwrap()[0], "tool_7");
    let later = dynamic_tool(
        "later",
        "Plays the bassoon.",
        json!({"type": "object", "properties": {"size": {}}}),
        |_, _| async { Ok("") },
    );
    engine.refresh_with(registry.with_external("music", later).unwrap());
    assert_eq!(search(&engine, json!({"query": "bassoon"})).await.unwrap(), ["later"]);
    engine.refresh();
    let found =
        engine.snapshot().offers().iter().filter(|offer| offer.listing() == ToolListing::Found).count();
    assert!(found >= 2, "{found}");
    // A sub-agent with fewer tools finds no others.
    let elsewhere = Engine::new(registry.only(|entry| entry.tool().name() != "tool_7"));
    assert_eq!(elsewhere.snapshot().deferred().count(), 0, "so few are shown");
}

#[tokio::test]
async fn with_deferral_on_every_tool_can_be_reached() {
    let engine = engine(&registry());
    let names: Vec<String> = engine.snapshot().deferred().map(|offer| offer.name().to_owned()).collect();
    assert_eq!(names.len(), 30);
    for name in names {
        assert_eq!(search(&engine, json!({"query": name})).await.unwrap()[0], name);
        engine.refresh();
        assert!(!engine.snapshot().find(&name).unwrap().is_deferred());
    }
}
