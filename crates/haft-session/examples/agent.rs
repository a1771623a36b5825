//! A complete agent: the user's settings, rules, sandboxed commands, the journal, a model, prompts and
//! events.
//!
//! `cargo run -p haft-session --example agent DIR`. A script plays the model, so that it needs no key.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use haft_agent::RunEvent;
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_session::{Session, SessionEventKind, UserAnswer};

const SCRIPT: &str = r#"{"turns": [
    {"tool_calls": [{"name": "Bash", "input": {"command": "cat notes.txt; python3 -c \"print(open('secrets/key.txt').read())\""}}]},
    {"text": "I can read the notes, and not the key."}]}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let session = Session::builder(dir)
        .deny("Read(./secrets/**)") // binds the file tools and every command in the sandbox
        .on_prompt(|prompt| async move {
            println!("asked: {prompt}"); // the call, what it touches, why it asks
            UserAnswer::allow_once()
        })
        .on_event(|event| {
            if let SessionEventKind::Run(RunEvent::Answered { results, .. }) = &event.kind {
                results.iter().for_each(|result| println!("result: {}", result.text()));
            }
        })
        .build()
        .await?;
    let model = ScriptedModel::new(ModelScript::parse(SCRIPT)?, Wire::Anthropic);
    let mut agent = session.agent_with(model).await?; // `session.agent()` takes the model of the settings
    println!("answer: {}", agent.run("What can you read here?").await.text);
    session.close().await; // journal: ended
    Ok(())
}
