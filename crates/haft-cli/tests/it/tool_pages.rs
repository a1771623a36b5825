//! `docs/tools/NAME.md`: one page for each built-in tool, made from what the program says and does.
//!
//! Its facts are those of `haft tools`, its example is played. `cargo xtask docs` writes the pages (it sets
//! `UPDATE_TOOLS`); the tests hold that they are current and that no tool is without one. The same run of an
//! example is traced where there is `strace`: `tool_effects` judges what the tool touched.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::room::{Room, crate_path};
use crate::tool_effects::{self, Traced};
use crate::tool_example::{self, Example, Played};

const FOLDER: &str = "../../docs/tools";

/// Makes one test of each list of tools, and `TOOL_LISTS` of all of them.
macro_rules! tests_of_tools {
    ($($test:ident: [$($tool:literal),*],)*) => {
        const TOOL_LISTS: &[&[&str]] = &[$(&[$($tool),*]),*];

        mod every_built_in_tool_has_a_current_page_and_touches_only_what_it_declares {
            $(
                #[test]
                fn $test() {
                    super::check_tools(&[$($tool),*]);
                }
            )*
        }
    };
}

// Tools whose sessions are the same without their calls are together: that session is played once for all of
// them.
tests_of_tools! {
    agents: ["Agent", "SendMessage", "Skill", "ToolSearch"],
    browser_click: ["BrowserClick", "BrowserConsole"],
    browser_close: ["BrowserClose", "BrowserWait"],
    browser_evaluate: ["BrowserEvaluate", "BrowserScreenshot"],
    browser_press: ["BrowserNavigate", "BrowserPress"],
    browser_select: ["BrowserSelect", "BrowserSnapshot"],
    browser_tabs: ["BrowserTabs", "BrowserType"],
    changes: ["ApplyPatch", "Edit", "MultiEdit", "NotebookEdit", "Rewind", "Write"],
    commands: ["Bash", "Monitor", "TaskOutput", "TaskStop"],
    looks: ["Diff", "Glob", "Grep", "LS", "Read", "Config"],
    mcp_lists: ["ListMcpPrompts", "ListMcpResources", "WaitForMcpServers"],
    mcp_reads: ["GetMcpPrompt", "ReadMcpResource"],
    planning: ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "VerifyPlan", "Sleep"],
    tasks: ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "TodoWrite"],
    times: ["CronCreate", "CronDelete", "CronList"],
    web: ["WebFetch", "WebSearch"],
    worktrees: ["EnterWorktree", "ExitWorktree"],
}

/// Plays the examples of these tools: their pages are current, and what they touch is declared.
fn check_tools(tools: &[&str]) {
    let examples = tool_example::all();
    let traces = tool_effects::has_strace();
    if !traces {
        println!("skipped: what tools touch, as there is no strace");
    }
    let mut without_calls: BTreeMap<String, Traced> = BTreeMap::new();
    for tool in tools {
        let example = &examples[*tool];
        if let Some(missing) = example.missing() {
            println!("skipped: the example of {tool} needs {missing}");
            continue;
        }
        if !traces {
            let played = example.play(tool, |command, _| command);
            check_page(&format!("{tool}.md"), &page(example, &played));
            continue;
        }
        let played = example.play(tool, tool_effects::strace);
        check_page(&format!("{tool}.md"), &page(example, &played));
        let without = without_calls
            .entry(example.session_key())
            .or_insert_with(|| Traced::parse(&example.play_without_the_call(tool, tool_effects::strace)));
        let undeclared =
            tool_effects::undeclared_touches(&Traced::parse(&played.trace), without, &played.effects);
        assert!(undeclared.is_empty(), "{tool} touched what it did not declare: {undeclared:?}");
    }
}

/// Holds a page against the one in the repository; `UPDATE_TOOLS` writes it first.
fn check_page(name: &str, page: &str) {
    let path = crate_path(FOLDER).join(name);
    if std::env::var_os("UPDATE_TOOLS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, page, "docs/tools/{name} is not current; `cargo xtask docs` writes it");
}

/// Every tool has an example, and every example is in exactly one of the tests above.
#[test]
fn every_built_in_tool_is_played_once() {
    let mut played: Vec<&str> = TOOL_LISTS.iter().copied().flatten().copied().collect();
    played.sort_unstable();
    let examples = tool_example::all();
    assert_eq!(played, examples.keys().map(String::as_str).collect::<Vec<_>>());
    let names = plain_rows().into_iter().map(|row| row["name"].as_str().unwrap().to_owned());
    let unexplained: Vec<String> = names.filter(|tool| !examples.contains_key(tool)).collect();
    assert!(unexplained.is_empty(), "tools without docs/tools/examples/NAME.json: {unexplained:?}");
}

#[test]
fn the_index_of_every_built_in_tool_has_a_current_page() {
    let mut rows = plain_rows();
    for (tool, example) in tool_example::all() {
        if !rows.iter().any(|row| row["name"] == tool) {
            rows.push(example.row(&tool));
        }
    }
    rows.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    check_page("README.md", &index(&rows));
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
fn plain_rows() -> Vec<Value> {
    let room = Room::empty();
    let ran = room.say(&["tools", "--format", "json", "--all"]);
    let mut rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    rows.retain(|row| row["origin"] == "built-in");
    rows
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
