//! `BrowserSnapshot`: what is on the page, as text.

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{RESULT_CHARS, check_named, render_stage};
use crate::browser::page_actions::FOREIGN;
use crate::browser::{Browser, RESOURCE, browser_tool_spec};

/// Shows what is on the open page as text: roles, names, values and states, one line each.
///
/// Lines of things that can be acted on end with a ref, such as `[ref=e12]`; BrowserClick, BrowserType and
/// BrowserSelect take it. Refs stay the same as long as the page does. Use it before acting and after;
/// BrowserScreenshot only where the look itself matters.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserSnapshotInput {
    /// Only the part of the page that has this ref, for example `e12`.
    #[serde(default, rename = "ref")]
    pub part: Option<String>,
}

/// The tool `BrowserSnapshot`.
pub struct BrowserSnapshot(pub(in crate::browser) Browser);

impl Tool for BrowserSnapshot {
    type Input = BrowserSnapshotInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserSnapshot")
            .alias("browser_snapshot")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(std::time::Duration::from_secs(120))
            .search_hint("see read the page in the browser accessibility tree elements refs")
    }

    fn effects(&self, _: &BrowserSnapshotInput) -> Effects {
        Effects::reads_state(RESOURCE)
    }

    async fn check(&self, input: &BrowserSnapshotInput, _: &Context) -> Result<(), ToolError> {
        input.part.as_deref().map_or(Ok(()), |part| check_named(Some(part), None))
    }

    async fn call(&self, input: BrowserSnapshotInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.open(cx).await?;
        let part = input.part.as_deref().map(|part| turn.element(part)).transpose()?;
        let seen = turn.snapshot(&on, part.as_ref()).await?;
        Ok(ResultBlock::text(format!("{}\n\n{FOREIGN}\n{seen}", turn.told(""))).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("ref").unwrap_or("page")))
    }
}
