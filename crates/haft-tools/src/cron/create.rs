//! `CronCreate`: a prompt for later, once or again and again.
//!
//! What is planned for this session only asks nobody: it comes back to the model that wrote it, marked as
//! planned. What is kept for later sessions outlives what the user sees now, and asks.

use std::sync::Arc;

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::cron::{
    CronExpression, CronTable, KEPT, NO_TABLE, NewCron, PROMPT_CHARS_MAX, STATE, require_table,
};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 2_000;

/// Plans a prompt: when its time comes it is said to you, as soon as you are idle or between two of your
/// turns.
///
/// Use it to look at something again later, or regularly: a build, a deployment, a page. Times are those of
/// the user's time zone. The session has to be open when the time comes; times that were missed are not made
/// up for, but one that was to come once and is `durable`. Don't plan what a background task with Monitor can
/// wait for.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CronCreateInput {
    /// Five fields: minute, hour, day of the month, month, day of the week. `*/10 * * * *` is every ten
    /// minutes, `30 8 * * 1-5` at half past eight from Monday to Friday. For a single time give all of
    /// minute, hour, day and month.
    pub cron: String,
    /// What is said to you then, with all that you need to know.
    pub prompt: String,
    /// Whether it comes again each time; once if false. True if left out.
    #[serde(default)]
    pub recurring: Option<bool>,
    /// Whether it is kept for later sessions in this workspace; it ends with this one otherwise.
    #[serde(default)]
    pub durable: Option<bool>,
}

/// The tool `CronCreate`.
#[derive(Default)]
pub struct CronCreate {
    crons: Option<Arc<CronTable>>,
}

impl CronCreate {
    /// The tool over the prompts of a session. Without any it is not offered.
    pub fn new(crons: Option<Arc<CronTable>>) -> CronCreate {
        CronCreate { crons }
    }
}

impl Tool for CronCreate {
    type Input = CronCreateInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("CronCreate")
            .alias("cron_create")
            .group("cron")
            .feature("cron")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("schedule a prompt for later, remind, repeat every, at a time")
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.crons.is_none().then(|| NO_TABLE.to_owned())
    }

    fn effects(&self, input: &CronCreateInput) -> Effects {
        if input.durable == Some(true) {
            Effects::writes_state(STATE).and(Effects::writes_state(KEPT))
        } else {
            Effects::writes_state(STATE)
        }
    }

    async fn permission(&self, input: &CronCreateInput, _: &Context) -> Option<DecisionReason> {
        if input.durable == Some(true) { None } else { Some(DecisionReason::allow()) }
    }

    async fn check(&self, input: &CronCreateInput, _: &Context) -> Result<(), ToolError> {
        let bad = |words: String| Err(ToolError::invalid_input(words));
        if let Err(why) = input.cron.parse::<CronExpression>() {
            return bad(format!("`cron` can't be understood: {why}"));
        }
        match input.prompt.chars().count() {
            _ if input.prompt.trim().is_empty() => {
                bad("`prompt` is empty; it is what you are told then".into())
            }
            count if count > PROMPT_CHARS_MAX => {
                bad(format!("`prompt` has {count} characters; at most {PROMPT_CHARS_MAX} are accepted"))
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, input: CronCreateInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let crons = require_table(&self.crons)?;
        let new = NewCron {
            cron: input.cron,
            prompt: input.prompt,
            recurring: input.recurring.unwrap_or(true),
            durable: input.durable.unwrap_or(false),
        };
        let state = crons.create(new).map_err(ToolError::new)?;
        let view = CallView::titled(format!("{}  {}", state.cron, state.prompt))
            .summary(format!("next {}", state.next));
        Ok(ToolOutput::from(ResultBlock::text(format!("planned {state}"))).with_view(view))
    }

    fn describe(&self, input: &CronCreateInput) -> Option<String> {
        let kept = input.durable == Some(true);
        kept.then(|| "plans a prompt that later sessions here are told as well".to_owned())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let prompt = stage.text("prompt").unwrap_or_default();
        let view = CallView::titled(format!("{}  {prompt}", stage.text("cron")?));
        Some(view.why(stage))
    }
}
