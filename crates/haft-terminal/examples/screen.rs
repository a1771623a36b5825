//! A conversation with a scripted model on a live screen. To run it:
//! `cargo run -p haft-terminal --example screen -- SCRIPT [WORDS]`
//!
//! The script format is described in `docs/scripted-model.md`. Beside the file tools, there are
//! tools for what a screen must handle: tools that wait, that can or can't be interrupted, that are
//! destructive, that fail. Without a terminal, the example prints plain lines.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haft::effects::resolved::Workspace;
use haft::ports::{ModeControl as _, PermissionMode};
use haft::tool::{AnyTool, Interrupt};
use haft::{Effects, Engine, EngineBuilder, NoInput, PermissionRules, Registry, ToolError, tool};
use haft_agent::{AgentLoop, Conversation, RunEvent, RunHandle, RunSink, ToolEventSink};
use haft_provider::Wire;
use haft_provider::scripted::{ModelScript, ScriptedModel};
use haft_terminal::{ColorMode, Line, OutputMode, PlainLines, Screen, ScreenOptions, UserInput};
use schemars::JsonSchema;
use serde::Deserialize;

type Failed = Box<dyn std::error::Error>;

#[derive(Deserialize, JsonSchema)]
struct Until {
    /// Waits until this file is there.
    file: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
struct Words {
    /// Any words.
    words: String,
}

#[derive(Deserialize, JsonSchema)]
struct Gone {
    /// The file that is removed.
    path: PathBuf,
}

async fn wait(until: Until, cx: haft::Context) -> Result<&'static str, ToolError> {
    let file = cx.cwd().join(until.file);
    for step in 0_u32.. {
        if file.exists() {
            break;
        }
        cx.progress((f64::from(step) / 100.0).min(1.0), format!("look {step}"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok("it is there")
}

fn tools() -> Result<Vec<AnyTool>, haft::tool::InvalidTool> {
    let mut tools = haft_tools::core();
    tools.push(
        tool("wait", "Waits for a file; can be interrupted.", wait)
            .effects(|_: &Until| Effects::none())
            .interrupt(Interrupt::Cancel)
            .build()?,
    );
    tools.push(
        tool("hold", "Waits for a file; rather finishes.", wait)
            .effects(|_: &Until| Effects::none())
            .build()?,
    );
    let shout = |input: Words, _| async move { Ok::<_, ToolError>(input.words.to_uppercase()) };
    tools.push(tool("shout", "Says it louder.", shout).effects(|_: &Words| Effects::none()).build()?);
    let run = |input: Words, _| async move { Ok::<_, ToolError>(format!("ran {}", input.words)) };
    tools.push(
        tool("execute", "Asks first.", run).effects(|input: &Words| Effects::runs(&input.words)).build()?,
    );
    // Several calls may ask at the same time.
    let question = |input: Words, _| async move { Ok::<_, ToolError>(input.words) };
    tools.push(
        tool("question", "Asks first.", question).effects(|_: &Words| Effects::observes("x.io")).build()?,
    );
    let remove = |input: Gone, cx: haft::Context| async move {
        let path = cx.cwd().join(input.path);
        std::fs::remove_file(&path).map_err(|error| ToolError::new(error.to_string()))?;
        Ok("removed")
    };
    tools.push(
        tool("remove", "Removes a file.", remove)
            .effects(|gone: &Gone| Effects::deletes(&gone.path))
            .build()?,
    );
    let boom = |_: NoInput, _| async move {
        if std::hint::black_box(true) {
            panic!("a tool that breaks");
        }
        Ok::<_, ToolError>(())
    };
    tools.push(tool("boom", "Breaks.", boom).effects(|_| Effects::none()).build()?);
    Ok(tools)
}

fn engine(permissions: &PermissionRules) -> Result<EngineBuilder, Failed> {
    let workspace = Workspace::new(std::env::current_dir()?)?;
    Ok(Engine::builder(Registry::new().with(tools()?)?).workspace(workspace).permissions(permissions.clone()))
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let script = arguments.next().ok_or("usage: screen SCRIPT [WORDS]")?;
    let words: Vec<String> = arguments.collect();
    let model = ScriptedModel::new(ModelScript::parse(&std::fs::read_to_string(script)?)?, Wire::Anthropic);
    let terminal = [
        std::io::IsTerminal::is_terminal(&std::io::stdin()),
        std::io::IsTerminal::is_terminal(&std::io::stdout()),
    ];
    let fit = OutputMode::for_environment(|name| std::env::var(name).ok(), terminal == [true, true]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    match fit {
        OutputMode::Live(look) => runtime.block_on(live(model, look, &words.join(" "))),
        OutputMode::Plain => runtime.block_on(plain(model, &words.join(" "))),
    }
}

/// Writes lines to standard output.
struct Printed(Mutex<PlainLines>);

impl RunSink for Printed {
    fn send(&self, event: RunEvent) {
        let lines = self.0.lock().expect("nothing panics here").event(event);
        let mut shown = String::new();
        lines.iter().for_each(|line: &Line| {
            line.write(ColorMode::Plain, &mut shown);
            shown.push('\n');
        });
        let _ = std::io::stdout().write_all(shown.as_bytes());
    }
}

async fn plain(model: ScriptedModel, words: &str) -> Result<(), Failed> {
    let sink = Arc::new(Printed(Mutex::new(PlainLines::new(100, std::env::current_dir()?))));
    let engine = engine(&PermissionRules::new())?.events(ToolEventSink::new(sink.clone())).build();
    let agent = AgentLoop::new(engine, model).events(sink);
    agent.run(&mut Conversation::new(Wire::Anthropic), words).await;
    Ok(())
}

async fn live(model: ScriptedModel, look: ColorMode, first: &str) -> Result<(), Failed> {
    let mut options = ScreenOptions::new(std::env::current_dir()?).color_mode(look);
    if let Ok(file) = std::env::var("SCREEN_HISTORY") {
        options = options.history(file);
    }
    let mut screen = Screen::open(options)?;
    let remote = screen.remote();
    let permissions = PermissionRules::new();
    let sink = Arc::new(screen.sink());
    let engine = engine(&permissions)?.asker(screen.asker()).events(ToolEventSink::new(sink.clone())).build();
    screen.show_views_of(&engine);
    remote.mode(permissions.current().to_string());
    remote.footer("scripted");

    let next_mode = || {
        let place =
            PermissionMode::ALL.iter().position(|(_, mode)| *mode == permissions.current()).unwrap_or(0);
        let (name, mode) = PermissionMode::ALL[(place + 1) % PermissionMode::ALL.len()];
        permissions.set(mode);
        remote.mode(name);
    };
    let agent = |handle: &RunHandle| {
        AgentLoop::new(engine.clone(), model.clone()).events(sink.clone()).handle(handle.clone())
    };
    let mut conversation = Conversation::new(Wire::Anthropic);
    let mut next = (!first.is_empty()).then(|| UserInput::Words(first.to_owned()));
    loop {
        let typed = match next.take() {
            Some(typed) => typed,
            None => screen.next().await.unwrap_or(UserInput::Leave),
        };
        match typed {
            UserInput::Words(words) => {
                let handle = RunHandle::new();
                let agent = agent(&handle);
                let mut left = false;
                let other = |typed: UserInput| match typed {
                    UserInput::NextMode => next_mode(),
                    UserInput::Leave | UserInput::Interrupt(_) => left = true,
                    _ => {}
                };
                let outcome = screen.during(&handle, agent.run(&mut conversation, &words), other).await;
                if left {
                    break;
                }
                remote.footer(format!("scripted · {}", outcome.ended.word()));
            }
            UserInput::Command { name, .. } if name == "tools" => {
                let names: Vec<String> =
                    engine.snapshot().offers().iter().map(|offer| offer.name().to_owned()).collect();
                remote.say(&format!("  {}", names.join(" ")));
            }
            UserInput::Command { name, .. } if name == "clear" => {
                conversation = Conversation::new(Wire::Anthropic);
                remote.clear();
            }
            UserInput::Command { name, rest } => {
                remote.say(&format!("  /{name} {rest}: not in this example"));
            }
            UserInput::NextMode => next_mode(),
            UserInput::Leave => break,
            _ => {}
        }
    }
    screen.close();
    let _ = std::io::stdout().write_all(b"left\n");
    Ok(())
}
