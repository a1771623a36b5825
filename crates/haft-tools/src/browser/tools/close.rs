//! `BrowserClose`: ends the browser.

use std::time::Duration;

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, NoInput, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};

use super::render_stage;
use crate::browser::{Browser, RESOURCE, browser_tool_spec};

/// The tool `BrowserClose`.
pub struct BrowserClose(pub(in crate::browser) Browser);

impl Tool for BrowserClose {
    type Input = NoInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        browser_tool_spec("BrowserClose")
            .description(
                "Ends the browser with all of its tabs, and with what was typed and signed in. The next BrowserNavigate starts a new one. It \
                 ends with the session anyway, so this is only needed to begin anew or to save memory.",
            )
            .alias("browser_close")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(1_000))
            .timeout(Duration::from_secs(60))
            .search_hint("close end quit the browser")
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::writes_state(RESOURCE)
    }

    async fn permission(&self, _: &NoInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn call(&self, _: NoInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let words = match self.0.running(cx).await {
            Ok(Some(turn)) => {
                turn.close().await;
                "the browser has ended"
            }
            // It ended by itself, which is what was wanted.
            Ok(None) | Err(_) => "no browser runs",
        };
        Ok(ResultBlock::text(words).into())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        Some(render_stage(stage, "browser"))
    }
}
