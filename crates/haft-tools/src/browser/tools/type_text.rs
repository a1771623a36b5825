//! `BrowserType`: types into a field of the page.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::text::truncate_with_ellipsis;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    DialogGuard, RESULT_CHARS, check_named, describe_after, describe_element, find_element, render_stage,
};
use crate::browser::keys::KeyPress;
use crate::browser::running_browser::LOAD_LIMIT;
use crate::browser::{Browser, browser_tool_spec};

/// The longest text, in bytes.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Types text into a field of the open page, in place of what is in it.
///
/// Works for text fields, text areas, editable parts of a page, and fields for dates, times, colours and
/// ranges (as `2026-03-01`, `12:30`, `#ff0000`, `5`). Use BrowserSelect for a list of choices and
/// BrowserPress for single keys.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserTypeInput {
    /// The field, by its ref in BrowserSnapshot, for example `e12`.
    #[serde(default, rename = "ref")]
    pub element: Option<String>,
    /// The field, by a CSS selector, where it has no ref.
    #[serde(default)]
    pub selector: Option<String>,
    /// What to type. Empty text empties the field.
    pub text: String,
    /// Types behind what is in the field.
    #[serde(default)]
    pub append: Option<bool>,
    /// Presses Enter afterwards, which sends most forms.
    #[serde(default)]
    pub submit: Option<bool>,
}

/// The tool `BrowserType`.
pub struct BrowserType(pub(in crate::browser) Browser);

impl Tool for BrowserType {
    type Input = BrowserTypeInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserType")
            .alias("browser_type")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(LOAD_LIMIT + Duration::from_secs(90))
            .search_hint("type text fill a form field input in the browser")
    }

    fn effects(&self, input: &BrowserTypeInput) -> Effects {
        self.0.acts(input)
    }

    async fn check(&self, input: &BrowserTypeInput, _: &Context) -> Result<(), ToolError> {
        if input.text.len() > TEXT_BYTES_MAX {
            return Err(ToolError::invalid_input(format!(
                "`text` is longer than {TEXT_BYTES_MAX} bytes; type it in parts with `append`"
            )));
        }
        check_named(input.element.as_deref(), input.selector.as_deref())
    }

    fn describe(&self, input: &BrowserTypeInput) -> Option<String> {
        let field = describe_element(&self.0, input.element.as_deref(), input.selector.as_deref());
        let sends = if input.submit == Some(true) { " and press Enter" } else { "" };
        Some(format!("type {:?} into {field}{sends}", truncate_with_ellipsis(&input.text, 80)))
    }

    async fn call(&self, input: BrowserTypeInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.acting(&input, cx).await?;
        let field = find_element(&turn, &on, input.element.as_deref(), input.selector.as_deref()).await?;
        turn.downloads(false).await?;
        let _answering = DialogGuard::new(&turn, None, None);
        let typed = turn.type_into(&field, &input.text, input.append == Some(true)).await;
        turn.release(&field.session);
        typed?;
        let mut done = format!("typed into {}", field.about);
        if input.submit == Some(true) {
            turn.press(&field.session, &KeyPress::parse("Enter").map_err(ToolError::new)?).await?;
            done += " and pressed Enter";
        }
        Ok(ResultBlock::text(describe_after(&turn, &on, &done).await).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let field = describe_element(&self.0, stage.text("ref"), stage.text("selector"));
        let text = truncate_with_ellipsis(stage.text("text").unwrap_or_default(), 60);
        Some(render_stage(stage, format!("{text:?} into {field}")))
    }
}
