//! What the tool asks of its port, and what it says of bad input.

use std::sync::Arc;

use haft::dispatch::TaskTable;
use haft::ports::AgentIsolation;
use haft::testing::ScriptedSubAgents;
use haft::{Engine, Registry, ToolCall, ToolError, ToolResult};
use serde_json::{Value, json};

use haft_tools::agent::*;

fn engine(agents: &ScriptedSubAgents) -> Engine {
    let tools = [AgentKind { name: "reviewer".into(), description: "reviews".into() }];
    let tool = Agent::new(built_in_kinds().into_iter().chain(tools));
    let registry = Registry::new().with(haft::tool::AnyTool::typed(tool).unwrap()).unwrap();
    let registry = registry.with(haft::tool::AnyTool::typed(haft_tools::SendMessage).unwrap()).unwrap();
    Engine::builder(registry)
        .ports(|ports| {
            ports.sub_agents = Some(Arc::new(agents.clone()));
            ports.tasks = Some(Arc::new(TaskTable::new()));
        })
        .build()
}

async fn call(engine: &Engine, tool: &str, input: Value) -> ToolResult {
    engine.turn().run([ToolCall::new("1", tool, input)]).await.remove(0)
}

fn text(result: &ToolResult) -> String {
    match result.outcome() {
        Ok(output) => output.to_text().to_string(),
        Err(error) => format!("{:?}: {}", error.kind(), error.message()),
    }
}

#[tokio::test]
async fn the_model_is_told_of_kinds_and_the_port_what_is_wanted() {
    let agents =
        ScriptedSubAgents::new().then("found").then_fail(ToolError::new("it got lost")).then("again");
    let engine = engine(&agents);
    let description = engine.snapshot().find("Task").unwrap().tool().description().to_owned();
    assert!(description.starts_with("Gives a task to another agent"), "{description}");
    assert!(description.contains("\n- explore: only looks") && description.contains("\n- reviewer: reviews"));
    let task = |more: Value| {
        let mut input = json!({"description": "find\nit", "prompt": "Find it."});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    let more = json!({"subagent_type": "Reviewer", "isolation": "worktree", "model": "m", "name": "n"});
    assert!(
        text(&call(&engine, "Agent", task(more)).await).contains("the worktrees of the repository"),
        "a worktree asks"
    );
    let plain = json!({"subagent_type": "general-purpose"});
    assert_eq!(text(&call(&engine, "Agent", task(plain)).await), "found");
    assert_eq!(text(&call(&engine, "Task", task(json!({}))).await), "Failed: it got lost");
    call(&engine, "Agent", task(json!({"name": "n"}))).await;
    let asked = agents.requests();
    let seen: Vec<_> =
        asked.iter().map(|request| (request.kind.as_deref(), request.name.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (Some("general"), Some("general-1")),
            (Some("general"), Some("general-2")),
            (Some("general"), Some("n"))
        ]
    );
    assert_eq!((&*asked[0].description, asked[0].isolation), ("find it", AgentIsolation::None));
}

#[tokio::test]
async fn what_makes_no_sense_is_said() {
    let engine = engine(&ScriptedSubAgents::new());
    for (tool, input, part) in [
        ("Agent", json!({"description": "d", "prompt": " "}), "`prompt` is empty"),
        ("Agent", json!({"description": "d", "prompt": "x".repeat(PROMPT_CHARS_MAX + 1)}), "may have 200000"),
        ("Agent", json!({"description": "d", "prompt": "p", "name": "a b"}), "`name` must have"),
        ("Agent", json!({"description": "d", "prompt": "p", "name": "main"}), "`name` must have"),
        ("Agent", json!({"description": "d", "prompt": "p", "isolation": "vm"}), "/isolation"),
        ("SendMessage", json!({"to": "a", "message": ""}), "`message` is empty"),
    ] {
        let said = text(&call(&engine, tool, input).await);
        assert!(said.starts_with("InvalidInput") && said.contains(part), "{said}");
    }
}

#[tokio::test]
async fn messages_go_to_the_port_unasked() {
    let agents = ScriptedSubAgents::new();
    let engine = engine(&agents);
    let sent = text(&call(&engine, "SendMessage", json!({"to": " n ", "message": "hello"})).await);
    assert_eq!(sent, "sent to `n`; it reads it before its next turn");
    assert_eq!(agents.sent(), [("n".to_owned(), "hello".to_owned())]);
}

#[tokio::test]
async fn in_the_background_it_is_a_task() {
    let agents = ScriptedSubAgents::new().then("found");
    let engine = engine(&agents);
    let input = json!({"description": "find it", "prompt": "Find it.", "run_in_background": true});
    let said = text(&call(&engine, "Agent", input).await);
    assert!(said.starts_with("the agent `general-1` runs in the background as task-1"), "{said}");
}
