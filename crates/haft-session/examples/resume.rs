//! Listing and resuming sessions.
//!
//! `cargo run -p haft-session --example resume DIR`. A script plays the model, so that it needs no key.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_session::{ResumeFrom, Session, SessionStore};

const SCRIPT: &str = r#"{"turns": [
    {"tool_calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
    {"text": "I have read the notes."},
    {"text": "The notes, as I said."}]}"#;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let model = ScriptedModel::new(ModelScript::parse(SCRIPT)?, Wire::Anthropic);
    let session = Session::builder(&dir).build().await?;
    let mut agent = session.agent_with(model.clone()).await?;
    println!("first: {}", agent.run("Read the notes.").await.text);
    session.close().await;

    for entry in SessionStore::from_env()?.list() {
        println!("kept: {entry}");
    }

    let session = Session::builder(&dir).resume(ResumeFrom::Latest).build().await?;
    let mut agent = session.agent_with(model).await?;
    println!("resumed: {}", agent.run("What did you read?").await.text);
    session.close().await;
    Ok(())
}
