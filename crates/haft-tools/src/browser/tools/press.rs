//! `BrowserPress`: presses a key.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{DialogGuard, RESULT_CHARS, describe_after, render_stage};
use crate::browser::keys::KeyPress;
use crate::browser::running_browser::LOAD_LIMIT;
use crate::browser::{Browser, browser_tool_spec};

/// How often a key may be pressed in one call.
const TIMES_MAX: u32 = 100;

/// Presses a key in the open page, where its cursor is: in the field that was clicked or typed into last.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserPressInput {
    /// The key: one character, or a name such as `Enter`, `Tab`, `Escape`, `ArrowDown`, `PageDown`, `F5`;
    /// with what is held before it, as in `Control+A` or `Shift+Tab`.
    pub key: String,
    /// How often, from 1 to 100: 1 unless said.
    #[serde(default)]
    pub times: Option<u32>,
    /// Accepts questions of the page (`confirm`, `prompt`) that the key leads to; else they are dismissed.
    #[serde(default)]
    pub accept_dialogs: Option<bool>,
}

/// The tool `BrowserPress`.
pub struct BrowserPress(pub(in crate::browser) Browser);

impl Tool for BrowserPress {
    type Input = BrowserPressInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserPress")
            .alias("browser_press_key")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(LOAD_LIMIT + Duration::from_secs(90))
            .search_hint("press a key keyboard shortcut enter tab in the browser")
    }

    fn effects(&self, input: &BrowserPressInput) -> Effects {
        self.0.acts(input)
    }

    async fn check(&self, input: &BrowserPressInput, _: &Context) -> Result<(), ToolError> {
        if !(1..=TIMES_MAX).contains(&input.times.unwrap_or(1)) {
            let came = input.times.unwrap_or_default();
            return Err(ToolError::invalid_input(format!("`times` is {came}; 1 to {TIMES_MAX} is accepted")));
        }
        KeyPress::parse(&input.key)
            .map(drop)
            .map_err(|words| ToolError::invalid_input(format!("`key`: {words}")))
    }

    fn describe(&self, input: &BrowserPressInput) -> Option<String> {
        Some(format!("press {}", input.key))
    }

    async fn call(&self, input: BrowserPressInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let press = KeyPress::parse(&input.key).map_err(ToolError::invalid_input)?;
        let (turn, on) = self.0.acting(&input, cx).await?;
        turn.downloads(false).await?;
        let _answering = DialogGuard::new(&turn, input.accept_dialogs, None);
        for _ in 0..input.times.unwrap_or(1) {
            turn.press(&on.session, &press).await?;
        }
        Ok(ResultBlock::text(describe_after(&turn, &on, &format!("pressed {}", input.key)).await).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, stage.text("key")?))
    }
}
