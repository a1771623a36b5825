//! `BrowserWait`: waits until the page shows something.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::text::truncate_with_ellipsis;
use haft::view::CallStage;
use haft::{
    CallView, Chars, Context, Effects, ErrorKind, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::{RESULT_CHARS, render_stage};
use crate::browser::wire::WireError;
use crate::browser::{Browser, RESOURCE, browser_tool_spec};

/// How long a wait takes at most, unless the call says otherwise.
const WAIT: Duration = Duration::from_secs(10);
/// How long it may be told to take.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// How often the page is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// Waits until something is on the open page, or is gone from it.
///
/// Give one of `text`, `text_gone`, `selector` and `url`; without any, it waits until the page has settled.
/// Actions wait by themselves for what they lead to, so this is for what takes longer: a job of the page, a
/// message that comes later.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct BrowserWaitInput {
    /// Text that has to be visible on the page.
    #[serde(default)]
    pub text: Option<String>,
    /// Text that may no longer be visible on the page.
    #[serde(default)]
    pub text_gone: Option<String>,
    /// A CSS selector that an element of the page has to match.
    #[serde(default)]
    pub selector: Option<String>,
    /// Text that the address of the page has to hold.
    #[serde(default)]
    pub url: Option<String>,
    /// How long to wait, in milliseconds: 10000 unless said, at most 120000.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// The tool `BrowserWait`.
pub struct BrowserWait(pub(in crate::browser) Browser);

impl BrowserWaitInput {
    fn limit(&self) -> Duration {
        self.timeout_ms.map_or(WAIT, Duration::from_millis)
    }

    /// What is waited for: in words, and as an expression that says whether it is so.
    fn condition(&self) -> Result<Option<(String, String)>, ToolError> {
        let given = [&self.text, &self.text_gone, &self.selector, &self.url];
        if given.iter().filter(|one| one.is_some()).count() > 1 {
            return Err(ToolError::invalid_input("give one of `text`, `text_gone`, `selector` and `url`"));
        }
        if given.iter().any(|one| one.as_deref().is_some_and(str::is_empty)) {
            return Err(ToolError::invalid_input("what is waited for is empty; give text, or leave it out"));
        }
        let written = |text: &str| Value::from(text).to_string();
        let visible =
            |text: &str| format!("(document.body?document.body.innerText:'').includes({})", written(text));
        Ok(if let Some(text) = &self.text {
            Some((format!("the text {:?}", truncate_with_ellipsis(text, 80)), visible(text)))
        } else if let Some(text) = &self.text_gone {
            Some((
                format!("the text {:?} to be gone", truncate_with_ellipsis(text, 80)),
                format!("!{}", visible(text)),
            ))
        } else if let Some(selector) = &self.selector {
            Some((
                format!("`{}`", truncate_with_ellipsis(selector, 80)),
                format!("!!document.querySelector({})", written(selector)),
            ))
        } else {
            let url = self.url.as_ref();
            url.map(|url| {
                (
                    format!("an address with {:?}", truncate_with_ellipsis(url, 80)),
                    format!("location.href.includes({})", written(url)),
                )
            })
        })
    }
}

impl Tool for BrowserWait {
    type Input = BrowserWaitInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserWait")
            .alias("browser_wait_for")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .timeout(WAIT_MAX + Duration::from_secs(60))
            .search_hint("wait for text or an element on the page in the browser")
    }

    fn effects(&self, _: &BrowserWaitInput) -> Effects {
        Effects::reads_state(RESOURCE)
    }

    async fn check(&self, input: &BrowserWaitInput, _: &Context) -> Result<(), ToolError> {
        if input.limit() > WAIT_MAX || input.limit().is_zero() {
            return Err(ToolError::invalid_input(format!(
                "`timeout_ms` must be between 1 and {}, got {}",
                WAIT_MAX.as_millis(),
                input.limit().as_millis()
            )));
        }
        input.condition().map(drop)
    }

    async fn call(&self, input: BrowserWaitInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let (turn, on) = self.0.open(cx).await?;
        let Some((what, expression)) = input.condition()? else {
            let loading = tokio::time::timeout(input.limit(), turn.settle(&on.target)).await.unwrap_or(true);
            let words = if loading { "the page still loads" } else { "the page has settled" };
            return Ok(ResultBlock::text(turn.told(words)).into());
        };
        let (started, limit) = (Instant::now(), input.limit());
        loop {
            let session = turn.book().tab(&on.target).map(|tab| tab.session.clone());
            let Some(session) = session else {
                return Err(ToolError::new(
                    turn.told("the tab was closed meanwhile; BrowserTabs lists those that are open"),
                ));
            };
            match turn.value(&session, &expression).await {
                Ok(Value::Bool(true)) => break,
                Ok(_) => {}
                Err(WireError::Refused(words)) if words.contains("SyntaxError") => {
                    return Err(ToolError::new(format!("`selector`: {}", super::first_line(&words))));
                }
                // Between two pages there is nobody to ask.
                Err(WireError::Refused(words)) if !words.contains("crashed") => {}
                Err(failure) => return Err(failure.into()),
            }
            if started.elapsed() >= limit {
                let words =
                    turn.told(&format!("waited {} ms for {what}, and it did not come", limit.as_millis()));
                return Err(ToolError::with_kind(ErrorKind::TimedOut, words));
            }
            tokio::time::sleep(PERIOD).await;
        }
        Ok(ResultBlock::text(turn.told(&format!("there after {} ms: {what}", started.elapsed().as_millis())))
            .into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let title = ["text", "text_gone", "selector", "url"].into_iter().find_map(|field| stage.text(field));
        Some(render_stage(stage, title.unwrap_or("until it has settled")))
    }
}
