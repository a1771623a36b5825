//! `Sleep`: waits, and nothing else.
//!
//! For what has no better sign of being done: a server that comes up, a limit of requests that passes. It
//! holds no lock, runs beside others, and an interrupt ends it at once.

use std::time::Duration;

use haft::effects::table::ConcurrencyClass;
use haft::tool::Interrupt;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, Tool, ToolError, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// The longest wait, in seconds.
const SECONDS_MAX: f64 = 300.0;
/// How often watchers are told how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Waits for a number of seconds, then returns.
///
/// Use it only where nothing tells you that something is done, for example before you ask a server again that
/// is just starting. To wait for a command use TaskOutput or Monitor, which return as soon as there is
/// something. A user can interrupt it at any time. For a longer wait than 300 seconds call it again.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SleepInput {
    /// How long to wait, in seconds; fractions are allowed.
    #[schemars(range(min = 0.0, max = 300.0))]
    pub seconds: f64,
}

/// The tool `Sleep`.
pub struct Sleep;

impl Tool for Sleep {
    type Input = SleepInput;
    type Output = String;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Sleep")
            .alias("sleep")
            .group("session")
            .feature("files")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(200))
            .timeout(Duration::from_secs_f64(SECONDS_MAX) + Duration::from_secs(30))
            .interrupt(Interrupt::Cancel)
            .search_hint("wait pause delay for some seconds")
    }

    fn effects(&self, _: &SleepInput) -> Effects {
        Effects::none()
    }

    async fn check(&self, input: &SleepInput, _: &Context) -> Result<(), ToolError> {
        match input.seconds {
            seconds if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(()),
            seconds => Err(ToolError::invalid_input(format!(
                "`seconds` must be between 0 and {SECONDS_MAX}, got {seconds}; for a longer wait call Sleep again"
            ))),
        }
    }

    async fn call(&self, input: SleepInput, cx: &Context) -> Result<String, ToolError> {
        let whole = Duration::from_secs_f64(input.seconds.clamp(0.0, SECONDS_MAX));
        let mut left = whole;
        while !left.is_zero() {
            let step = left.min(TOLD_EVERY);
            tokio::time::sleep(step).await;
            left -= step;
            if !left.is_zero() {
                let fraction = 1.0 - left.as_secs_f64() / whole.as_secs_f64();
                cx.progress(fraction, format!("{} s left", left.as_secs_f64().ceil()));
            }
        }
        Ok(format!("waited {} s", input.seconds))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let seconds = stage.input().get("seconds")?.as_f64()?;
        let view = CallView::titled(format!("{seconds} s"));
        Some(match stage {
            CallStage::Result { .. } => view.summary("done"),
            CallStage::Progress { progress, .. } => {
                view.summary(progress.message.clone().unwrap_or_default())
            }
            _ => view.why(stage),
        })
    }
}
