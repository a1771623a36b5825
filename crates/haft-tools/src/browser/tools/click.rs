//! `BrowserClick`: clicks an element of the page.

use std::path::PathBuf;
use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    DialogGuard, RESULT_CHARS, check_named, describe_after, describe_element, find_element, render_stage,
};
use crate::browser::page_actions::FOREIGN;
use crate::browser::running_browser::{DOWNLOAD_LIMIT, LOAD_LIMIT};
use crate::browser::{Browser, browser_tool_spec};

/// Clicks an element of the open page and waits for what that leads to.
///
/// The element is scrolled into view first. Says where the page stands afterwards; dialogs, new tabs and
/// refused downloads are told. Call BrowserSnapshot first to know the refs, or set `snapshot` to see the page
/// afterwards.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserClickInput {
    /// The element, by its ref in BrowserSnapshot, for example `e12`.
    #[serde(default, rename = "ref")]
    pub element: Option<String>,
    /// The element, by a CSS selector, where it has no ref. The first that matches counts.
    #[serde(default)]
    pub selector: Option<String>,
    /// The button of the mouse: `left` unless said.
    #[serde(default)]
    pub button: Option<MouseButton>,
    /// Clicks twice.
    #[serde(default)]
    pub double: Option<bool>,
    /// Accepts questions of the page (`confirm`, `prompt`) that the click leads to; else they are dismissed.
    #[serde(default)]
    pub accept_dialogs: Option<bool>,
    /// What to answer to a `prompt`; accepts it.
    #[serde(default)]
    pub prompt_text: Option<String>,
    /// Where to save the file that the click leads to: a path in the workspace.
    #[serde(default)]
    pub download_to: Option<PathBuf>,
    /// Also returns what BrowserSnapshot would, afterwards.
    #[serde(default)]
    pub snapshot: Option<bool>,
}

/// A button of the mouse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MouseButton {
    /// The usual one.
    Left,
    /// The one for menus.
    Right,
    /// The wheel.
    Middle,
}

/// The tool `BrowserClick`.
pub struct BrowserClick(pub(in crate::browser) Browser);

impl Tool for BrowserClick {
    type Input = BrowserClickInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserClick")
            .alias("browser_click")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(LOAD_LIMIT + DOWNLOAD_LIMIT + Duration::from_secs(90))
            .search_hint("click a button or link on the page in the browser")
    }

    fn effects(&self, input: &BrowserClickInput) -> Effects {
        let saved = input.download_to.as_ref().map_or_else(Effects::none, Effects::writes);
        self.0.acts(input).and(saved)
    }

    async fn check(&self, input: &BrowserClickInput, _: &Context) -> Result<(), ToolError> {
        check_named(input.element.as_deref(), input.selector.as_deref())
    }

    fn describe(&self, input: &BrowserClickInput) -> Option<String> {
        Some(format!(
            "click {}",
            describe_element(&self.0, input.element.as_deref(), input.selector.as_deref())
        ))
    }

    async fn call(&self, input: BrowserClickInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.acting(&input, cx).await?;
        let element = find_element(&turn, &on, input.element.as_deref(), input.selector.as_deref()).await?;
        let button = match input.button.unwrap_or(MouseButton::Left) {
            MouseButton::Left => "left",
            MouseButton::Right => "right",
            MouseButton::Middle => "middle",
        };
        let saves = input.download_to.is_some();
        turn.downloads(saves).await?;
        let answering = DialogGuard::new(&turn, input.accept_dialogs, input.prompt_text.clone());
        let clicked = turn.click(&on, &element, button, if input.double == Some(true) { 2 } else { 1 }).await;
        turn.release(&element.session);
        if let Err(error) = clicked {
            turn.downloads(false).await?;
            return Err(error);
        }
        turn.settle(&on.target).await;
        let mut done = format!("clicked {}", element.about);
        if let Some(to) = &input.download_to {
            let kept = turn.keep_download(to, cx).await;
            turn.downloads(false).await?;
            done = format!("{done}\n{}", kept?);
        }
        let mut text = describe_after(&turn, &on, &done).await;
        drop(answering);
        if input.snapshot == Some(true) {
            let on = super::selected_tab(&turn).ok_or_else(|| ToolError::new(text.clone()))?;
            text = format!("{text}\n\n{FOREIGN}\n{}", turn.snapshot(&on, None).await?);
        }
        Ok(ResultBlock::text(text).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, describe_element(&self.0, stage.text("ref"), stage.text("selector"))))
    }
}
