//! `docs/tools/NAME.md`: one page for each built-in tool, made from what the program says and does.
//!
//! Its facts are those of `haft tools`, its example is played. `cargo xtask docs` writes the pages (it sets
//! `UPDATE_TOOLS`); the test holds that they are current and that no tool is without one.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::room::{Room, crate_path};
use crate::tool_example::{self, Example, Played};

const FOLDER: &str = "../../docs/tools";

#[test]
fn every_built_in_tool_has_a_current_page() {
    let examples = tool_example::all();
    let mut pages = BTreeMap::new();
    let mut rows = Vec::new();
    let made = tool_example::each(|tool, example| {
        let played = example.play(tool, |command, _| command);
        (page(example, &played), played.row)
    });
    for (tool, (page, row)) in made {
        pages.insert(format!("{tool}.md"), page);
        rows.push(row);
    }
    let unexplained: Vec<String> = listed().into_iter().filter(|tool| !examples.contains_key(tool)).collect();
    assert!(unexplained.is_empty(), "tools without docs/tools/examples/NAME.json: {unexplained:?}");
    if rows.len() == examples.len() {
        pages.insert("README.md".to_owned(), index(&rows));
    }
    let write = std::env::var_os("UPDATE_TOOLS").is_some();
    for (name, page) in pages {
        let path = crate_path(FOLDER).join(&name);
        if write {
            std::fs::write(&path, &page).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(committed, page, "docs/tools/{name} is not current; `cargo xtask docs` writes it");
    }
}

#[test]
fn no_page_is_of_a_tool_that_is_gone() {
    let examples = tool_example::all();
    for entry in std::fs::read_dir(crate_path(FOLDER)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(tool) = name.strip_suffix(".md").filter(|name| *name != "README") {
            assert!(examples.contains_key(tool), "docs/tools/{name} has no example");
        }
    }
}

/// The built-in tools of a plain session.
pub(crate) fn listed() -> Vec<String> {
    let room = Room::empty();
    let ran = room.say(&["tools", "--format", "json", "--all"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let built_in = rows.iter().filter(|row| row["origin"] == "built-in");
    built_in.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

fn page(example: &Example, played: &Played) -> String {
    let Played { row, effects, output, .. } = played;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut page = format!("# {}\n\n", text(&row["name"]));
    page.push_str("Made by `cargo xtask docs` from the tool and a played example; change it there.\n\n");
    page.push_str(&format!("{}\n\n", facts(row)));
    page.push_str(&format!("{}\n\n", text(&row["description"])));
    page.push_str("## Input\n\n");
    page.push_str(&inputs(row["input_schema"].as_object().unwrap()));
    page.push_str("\n## Effects\n\n");
    let declared = example.declares.clone().unwrap_or_else(|| text(&effects["summary"]));
    page.push_str(&format!("The example declares: {declared}.\n\n"));
    page.push_str(&format!("## Example\n\n{}\n\n", example.about));
    let input = serde_json::to_string_pretty(&example.input).unwrap();
    page.push_str(&format!("```json\n{input}\n```\n\n"));
    let fence = if output.contains("```") { "````" } else { "```" };
    page.push_str(&format!("{fence}text\n{}\n{fence}\n", output.trim_end()));
    // A reader's folder has a name that reads like one.
    let page = page.replace("ROOM/work", "/home/me/work").replace("ROOM/home", "/home/me");
    page.replace("SITE", "http://localhost:8080")
}

/// `Group files · side by side · other names read_file · at most 100,000 characters inline · 120 s`.
fn facts(row: &Value) -> String {
    let mut facts = vec![format!("Group `{}`", row["group"].as_str().unwrap())];
    facts.push(
        match row["class"].as_str().unwrap() {
            "READ_ONLY" => "only looks: runs beside others",
            "DELEGATING" => "starts calls that are judged one by one: runs beside others",
            "WRITE_EXCLUSIVE" => "changes what it names: alone there",
            "UNSAFE" => "alone",
            _ => "it depends on the call what runs beside it",
        }
        .to_owned(),
    );
    let aliases: Vec<String> = row["aliases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| format!("`{}`", name.as_str().unwrap()))
        .collect();
    if !aliases.is_empty() {
        facts.push(format!("also called {}", aliases.join(", ")));
    }
    facts.push(match row["max_result_chars"].as_u64() {
        Some(chars) => format!("{chars} characters of a result inline"),
        None => "the whole result inline".to_owned(),
    });
    if let Some(seconds) = row["time_limit_s"].as_u64() {
        facts.push(format!("at most {seconds} s"));
    }
    if let Some(calls) = row["calls_at_once"].as_u64() {
        facts.push(format!("at most {calls} at once"));
    }
    facts.join(" · ")
}

/// The fields of an input as a table.
fn inputs(schema: &serde_json::Map<String, Value>) -> String {
    let none = serde_json::Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    if fields.is_empty() {
        return "None.\n".to_owned();
    }
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
    };
    let mut table = "| Field | Type | Meaning |\n|---|---|---|\n".to_owned();
    for (name, field) in fields {
        let meaning = field["description"].as_str().unwrap_or_default().split_whitespace();
        let meaning = meaning.collect::<Vec<_>>().join(" ").replace('|', "\\|");
        let optional = if required(name) { "" } else { ", optional" };
        table.push_str(&format!("| `{name}` | {}{optional} | {meaning} |\n", kind(field)));
    }
    table
}

fn kind(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        return values
            .iter()
            .map(|value| format!("`{}`", value.as_str().unwrap_or("null")))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    match &field["type"] {
        Value::String(kind) if kind == "array" => format!("array of {}", kind_of_items(field)),
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.collect::<Vec<_>>().join(" or ")
        }
        _ if field.get("anyOf").is_some() || field.get("oneOf").is_some() => "one of several".to_owned(),
        _ => "any".to_owned(),
    }
}

fn kind_of_items(field: &Value) -> String {
    match field["items"]["type"].as_str() {
        Some(kind) => kind.to_owned(),
        None => "values".to_owned(),
    }
}

/// All tools by group.
fn index(rows: &[Value]) -> String {
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for row in rows {
        groups.entry(row["group"].as_str().unwrap()).or_default().push(row);
    }
    let mut page = format!(
        "# Built-in tools\n\nMade by `cargo xtask docs`. {} tools, one page each; `haft tools` lists those of a session.\n",
        rows.len()
    );
    for (group, rows) in groups {
        page.push_str(&format!("\n## {group}\n\n"));
        for row in rows {
            let name = row["name"].as_str().unwrap();
            let description = row["description"].as_str().unwrap();
            let first =
                description.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
            page.push_str(&format!("- [{name}]({name}.md): {first}\n"));
        }
    }
    page
}
