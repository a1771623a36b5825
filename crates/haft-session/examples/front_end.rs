//! A custom front end: it prints events and answers prompts, next to another one that is attached later.
//!
//! `cargo run -p haft-session --example front_end DIR`.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use haft::ToolCall;
use haft::future::BoxFuture;
use haft_session::{FrontEnd, PromptKind, Session, SessionEvent, UserAnswer, UserPrompt};
use serde_json::json;

/// Prints every event, and allows each call once.
struct LineFrontEnd(&'static str);

impl FrontEnd for LineFrontEnd {
    fn name(&self) -> &str {
        self.0
    }

    fn show(&self, event: &SessionEvent) {
        println!("{} {}: {event}", self.0, event.seq);
    }

    fn can_ask(&self, kind: PromptKind) -> bool {
        kind == PromptKind::Permission
    }

    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        println!("{} asks: {prompt}", self.0);
        Box::pin(std::future::ready(Some(UserAnswer::allow_once())))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let session = Session::builder(dir).front_end(LineFrontEnd("first")).build().await?;
    let second = session.handle().attach(LineFrontEnd("second"));
    let write = ToolCall::new("1", "Write", json!({"file_path": "new.txt", "content": "x"}));
    println!("result: {}", session.submit(write).await.text());
    drop(second); // detached
    session.close().await;
    Ok(())
}
