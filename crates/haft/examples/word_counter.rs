//! A tool in Rust: a typed input, what it touches, and what it does.
//!
//!     cargo run --package haft --example word_counter [FILE]
//!
//! Without a file it counts the words of its own source.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::path::PathBuf;

use haft::schemars::JsonSchema;
use haft::serde::Deserialize;
use haft::serde_json::json;
use haft::{Chars, Context, Effects, Engine, Registry, Tool, ToolCall, ToolError, ToolSpec};

/// Counts the words in a text file.
///
/// Use it when only the number matters; `Read` shows the text itself.
#[derive(Deserialize, JsonSchema)]
#[serde(crate = "haft::serde")]
#[schemars(crate = "haft::schemars")]
struct CountWords {
    /// Absolute path of the file.
    path: PathBuf,
}

struct WordCounter;

impl Tool for WordCounter {
    type Input = CountWords;
    type Output = usize;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("count_words").result_limit(Chars(100))
    }

    /// Read-only, side by side with others, unasked inside the working directory: all follow from this line.
    /// Leave it out and the tool still works: alone, and only after asking.
    fn effects(&self, input: &CountWords) -> Effects {
        Effects::reads(&input.path)
    }

    /// The context opens only what was granted to this call.
    async fn call(&self, input: CountWords, cx: &Context) -> Result<usize, ToolError> {
        let text = cx.files().read_to_string(&input.path).await?;
        Ok(text.split_whitespace().count())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let own_source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/word_counter.rs");
    let file = std::path::absolute(std::env::args_os().nth(1).unwrap_or(own_source.into()))?;
    let dir = file.parent().ok_or("a file has a folder")?;

    let engine =
        Engine::builder(Registry::new().with(WordCounter)?).workspace(haft::Workspace::new(dir)?).build();
    let turn = engine.turn();
    for offer in turn.definitions() {
        println!("The model is told of `{}`: {}\n", offer.name(), offer.tool().description());
        println!("{:#}\n", offer.tool().input_schema());
    }
    let results = turn.run([ToolCall::new("call-1", "count_words", json!({"path": file}))]).await;

    let result = &results[0];
    match result.outcome() {
        Ok(output) => println!("{} has {} words", file.display(), output.to_text()),
        Err(error) => println!("{error}"),
    }
    println!("{}", serde_json::to_string(&result.to_json())?);
    Ok(())
}
