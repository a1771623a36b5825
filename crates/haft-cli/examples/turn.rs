//! Two turns of an agent, with a model that follows a script: no key, no network.
//!
//!     cargo run --example turn
//!
//! The first takes a whole message at once, the second takes calls while the model is still talking.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::time::{Duration, Instant};

use haft::call::CallInput;
use haft::event::{EventKind, channel};
use haft::files::WriteMode;
use haft::registry::{OfferedTool, RegistryError};
use haft::{Chars, Effects, Engine, NoInput, Registry, ToolCall, ToolResult, Workspace, dynamic_tool, tool};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("notes.txt"), "The tide goes out\nand leaves the boats behind.\n")?;

    let (sender, mut events) = channel(256);
    let engine = Engine::builder(registry()?).workspace(Workspace::new(dir.path())?).events(sender).build();
    let mut model = Model;

    println!("1  A whole message\n");
    let turn = engine.turn(); // pins the tools: what is sent is what can be called
    let calls = model.ask("Tidy up, please.", turn.definitions()).await;
    for call in &calls {
        println!("   the model asks   {:11} {}", call.name, shown(call));
    }
    let begin = Instant::now();
    let results = turn.run(calls).await; // one for each call, in order, whatever happens
    println!("\n   {} results after {} ms:\n", results.len(), begin.elapsed().as_millis());
    results.iter().for_each(show);

    println!("2  The same while the model is still talking\n");
    while events.try_recv().is_some() {}
    let begin = Instant::now();
    let mut turn = engine.turn();
    let mut stream = model.stream("And the weather?", turn.definitions()).await;
    while let Some(call) = stream.next_call().await {
        println!(
            "   {:4} ms   the model asks   {:11} {}",
            begin.elapsed().as_millis(),
            call.name,
            shown(&call)
        );
        turn.push(call); // what changes nothing starts at once
        tokio::task::yield_now().await;
        while let Some(event) = events.try_recv() {
            if let (EventKind::Finished(result), Some(call)) = (event.what, event.call) {
                let at = begin.elapsed().as_millis();
                println!("   {at:4} ms   done already     {:11} {}", call.tool, result.view().title);
            }
        }
    }
    println!("   {:4} ms   the message is complete", begin.elapsed().as_millis());
    let results = turn.finish().await; // dropping the turn instead would cancel everything in it
    println!("   {:4} ms   all {} results are there\n", begin.elapsed().as_millis(), results.len());
    results.iter().for_each(show);
    Ok(())
}

/// A model that answers what its script says.
struct Model;

impl Model {
    async fn ask(&mut self, _prompt: &str, tools: impl Iterator<Item = &OfferedTool>) -> Vec<ToolCall> {
        let names: Vec<&str> = tools.map(OfferedTool::name).collect();
        println!("   the model is offered: {}\n", names.join(", "));
        calls(&[
            ("Read", json!({"file_path": "notes.txt"})),
            ("weather", json!({"city": "Oslo"})),
            ("weather", json!({"city": "Lima"})),
            ("read_fil", json!({"file_path": "notes.txt"})),
            ("Read", json!({"file_path": 7, "lines": "all"})),
            ("save_text", json!({"path": "notes.txt", "text": "and comes back"})),
            ("log", json!({})),
        ])
    }

    async fn stream(&mut self, _prompt: &str, _tools: impl Iterator<Item = &OfferedTool>) -> Stream {
        let cities = ["Rome", "Cairo", "Quito"].map(|city| ("weather", json!({"city": city})));
        Stream(calls(&cities).into_iter())
    }
}

/// Calls that arrive one by one.
struct Stream(std::vec::IntoIter<ToolCall>);

impl Stream {
    async fn next_call(&mut self) -> Option<ToolCall> {
        tokio::time::sleep(Duration::from_millis(150)).await;
        self.0.next()
    }
}

fn calls(asked: &[(&str, Value)]) -> Vec<ToolCall> {
    let call = |(at, (name, input)): (usize, &(&str, Value))| {
        ToolCall::new(format!("call-{}", at + 1), *name, input.to_string())
    };
    asked.iter().enumerate().map(call).collect()
}

/// The tools that come with haft, and three of our own. Clashing names would be an error here, not at run
/// time.
fn registry() -> Result<Registry, RegistryError> {
    let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    // Takes its time and changes nothing, so it runs beside others.
    let weather = dynamic_tool("weather", "Tells the weather in a city.", city, |input, _| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Ok(format!("fog in {}", input["city"].as_str().unwrap_or_default()))
    })
    .effects(|_| Effects::none());

    let text = json!({"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path", "text"]});
    // Changes a file, so it runs alone, and only after a yes.
    let save_text = dynamic_tool("save_text", "Writes a text file.", text, |input, cx| async move {
        let (path, text) =
            (input["path"].as_str().unwrap_or_default(), input["text"].as_str().unwrap_or_default());
        cx.files().write(&path, text.as_bytes(), WriteMode::Replace).await?;
        Ok(format!("wrote {path}"))
    })
    .effects(|input| Effects::writes(input["path"].as_str().unwrap_or_default()));

    // Says more than a model should read at once: the whole goes to a file.
    let log = tool("log", "Returns the log of the server.", |_: NoInput, _| async {
        Ok((1..=2_000)
            .map(|line| format!("12:00:{:02} request {line} took {} ms\n", line % 60, line * 7 % 90))
            .collect::<String>())
    })
    .effects(|_| Effects::none())
    .result_limit(Chars(600));

    Registry::new().with(haft_tools::core())?.with(weather)?.with(save_text)?.with(log)
}

fn shown(call: &ToolCall) -> String {
    match &call.input {
        CallInput::Text(text) => text.clone(),
        CallInput::Value(value) => value.to_string(),
    }
}

/// One result: whether it worked, what ran beside it, and what the model is told.
fn show(result: &ToolResult) {
    let mark = if result.is_error() { "✗" } else { "✓" };
    let beside = if result.was_concurrent() { "   beside others" } else { "" };
    let kind = result.error_kind().map(|kind| format!("   {kind:?}")).unwrap_or_default();
    println!("   {mark} {:11} {:3} ms{beside}{kind}", result.tool_name(), result.duration().as_millis());
    for block in result.for_model() {
        for line in block.to_text().lines() {
            println!("       {line}");
        }
    }
    println!();
}
