//! `BrowserConsole`: what the page said on its console, errors of scripts and of requests among it.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{RESULT_CHARS, render_stage};
use crate::browser::browser_state::{CONSOLE_LINES_MAX, ConsoleMessage, MessageLevel};
use crate::browser::page_actions::FOREIGN;
use crate::browser::{Browser, RESOURCE, browser_tool_spec};

/// Shows what the open page said on its console since its tab was opened: messages, errors of scripts,
/// requests that failed.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserConsoleInput {
    /// Only messages that are at least so grave: `info` unless said.
    #[serde(default)]
    pub level: Option<LeastLevel>,
    /// How many, the last ones: 50 unless said, at most 200.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// How grave a message has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LeastLevel {
    /// Everything.
    Debug,
    /// What isn't only for debugging.
    Info,
    /// Warnings and errors.
    Warning,
    /// Errors.
    Error,
}

/// The tool `BrowserConsole`.
pub struct BrowserConsole(pub(in crate::browser) Browser);

impl Tool for BrowserConsole {
    type Input = BrowserConsoleInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserConsole")
            .alias("browser_console_messages")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(Duration::from_secs(60))
            .search_hint("console messages errors of the page in the browser")
    }

    fn effects(&self, _: &BrowserConsoleInput) -> Effects {
        Effects::reads_state(RESOURCE)
    }

    async fn check(&self, input: &BrowserConsoleInput, _: &Context) -> Result<(), ToolError> {
        match input.limit {
            Some(limit) if !(1..=CONSOLE_LINES_MAX).contains(&limit) => {
                Err(ToolError::invalid_input(format!(
                    "`limit` must be between 1 and {CONSOLE_LINES_MAX}, got {limit}; omit it for the last 50"
                )))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, input: BrowserConsoleInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.open(cx).await?;
        let least = match input.level.unwrap_or(LeastLevel::Info) {
            LeastLevel::Debug => MessageLevel::Debug,
            LeastLevel::Info => MessageLevel::Info,
            LeastLevel::Warning => MessageLevel::Warning,
            LeastLevel::Error => MessageLevel::Error,
        };
        let (lines, lost): (Vec<ConsoleMessage>, u64) = {
            let book = turn.book();
            let Some(tab) = book.tab(&on.target) else {
                return Err(ToolError::new(
                    "the tab was closed meanwhile; BrowserTabs lists those that are open",
                ));
            };
            let (lines, lost) = tab.console();
            (lines.filter(|line| line.level >= least).cloned().collect(), lost)
        };
        let limit = input.limit.unwrap_or(50);
        let before = lines.len().saturating_sub(limit);
        let shown = lines[before..].iter().map(|line| {
            let text = haft::view::escape_invisible(&line.text).replace('\n', "\n    ");
            format!("{} {text}", line.level.word())
        });
        let mut text: Vec<String> = vec![turn.told("")];
        if lines.is_empty() {
            text.push("the console is empty".to_owned());
        } else {
            let older = before as u64 + lost;
            text.extend((older > 0).then(|| format!("({older} older messages are not shown)")));
            text.push(format!("\n{FOREIGN}"));
            text.extend(shown);
        }
        Ok(ResultBlock::text(text.join("\n")).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("level").unwrap_or("console")))
    }
}
