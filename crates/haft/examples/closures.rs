//! A tool from a closure, and one from a schema that is known only at run time.
//!
//!     cargo run --package haft --example closures
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use haft::{
    Context, Effects, Engine, NoInput, PermissionRules, Registry, ToolCall, ToolError, dynamic_tool, tool,
};
use serde_json::{Value, json};

/// Stands for a client of some service.
struct CustomerService;

impl CustomerService {
    async fn lookup(self: Arc<CustomerService>, args: Value, cx: Context) -> Result<Value, ToolError> {
        cx.progress(0.5, "asking crm.example.com");
        match args["id"].as_str() {
            Some("c-17") => Ok(json!({"id": "c-17", "name": "Ada", "since": 1843})),
            // Words for the model: what went wrong, and what to do next.
            other => {
                Err(ToolError::new(format!("no customer {}; ids look like `c-17`", other.unwrap_or(""))))
            }
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let now = tool("now", "Returns the current time in seconds since 1970, UTC.", |_: NoInput, _| async {
        Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
    })
    .effects(|_| Effects::none());

    let client = Arc::new(CustomerService);
    let schema_json = json!({
        "type": "object",
        "properties": {"id": {"type": "string", "description": "Id of the customer, for example `c-17`."}},
        "required": ["id"],
    });
    let remote = dynamic_tool("lookup", "Looks a customer up.", schema_json, move |args, cx| {
        client.clone().lookup(args, cx)
    })
    .reaches("crm.example.com");

    // `now` touches nothing and runs unasked; `lookup` reaches a host, so it needs a rule or a yes.
    let registry = Registry::new().with(now)?.with(remote)?;
    let calls = || {
        [
            ToolCall::new("1", "now", "{}"),
            ToolCall::new("2", "lookup", r#"{"id": "c-17"}"#),
            ToolCall::new("3", "lookup", r#"{"id": "c-99"}"#),
            ToolCall::new("4", "lookup", "{}"),
        ]
    };
    for (title, rules) in [
        ("without rules", PermissionRules::new()),
        ("with an allow rule", PermissionRules::new().allow("lookup")?),
    ] {
        println!("{title}:");
        let engine = Engine::builder(registry.clone()).permissions(rules).build();
        for result in engine.turn().run(calls()).await {
            let words = match result.outcome() {
                Ok(output) => output.to_text(),
                Err(error) => format!("{:?}: {error}", error.kind()),
            };
            println!("  {:8} {}", result.tool_name(), words.replace('\n', "\n           "));
        }
        println!();
    }
    Ok(())
}
