//! Sub-agents: the model delegates work, and the events of both agents arrive in one stream.
//!
//! `cargo run -p haft-session --example sub_agents DIR`. A script plays the models, so that it needs no key.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_session::Session;

const SCRIPT: &str = r#"{"turns": [
    {"tool_calls": [{"name": "Agent", "input": {"description": "a look", "prompt": "LOOK at the notes", "name": "looker"}}]},
    {"text": "My agent read the notes."}],
  "agents": [{"when": {"contains": "LOOK"}, "turns": [
    {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
    {"text": "They are plain."}]}]}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let session = Session::builder(dir).on_event(|event| println!("{event}")).build().await?;
    let model = ScriptedModel::new(ModelScript::parse(SCRIPT)?, Wire::Anthropic);
    let mut agent = session.agent_with(model).await?;
    let outcome = agent.run("What is in the notes?").await;
    session.close().await; // front ends have shown all events by then
    println!("answer: {}", outcome.text);
    Ok(())
}
