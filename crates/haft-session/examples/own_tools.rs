//! Custom tools only, and calls without a model: one result for each call, in order.
//!
//! `cargo run -p haft-session --example own_tools DIR`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{Effects, ToolCall, tool};
use haft_session::Session;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct CountInput {
    /// The text whose words are counted.
    text: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let count = tool("count_words", "Counts words.", |input: CountInput, _| async move {
        Ok(input.text.split_whitespace().count())
    })
    .effects(|_| Effects::none());
    let session = Session::builder(dir).without_built_in_tools().tool(count).build().await?;
    let call = |id: &str, text: &str| ToolCall::new(id, "count_words", json!({ "text": text }));
    for result in session.run_turn([call("1", "one two"), call("2", "three")]).await {
        println!("{}: {}", result.call_id(), result.text());
    }
    println!("submitted: {}", session.submit(call("3", "a b c")).await.text());
    session.close().await;
    Ok(())
}
