//! `CronDelete`: a planned prompt is not told any more.

use std::sync::Arc;

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::text::truncate_chars;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::cron::{CronTable, KEPT, NO_TABLE, STATE, require_table};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 2_000;

/// Forgets a prompt that was planned with CronCreate, also one that was kept for later sessions. CronList has
/// the names.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CronDeleteInput {
    /// The name, as in `cron-1` or `kept-2`.
    pub id: String,
}

impl CronDeleteInput {
    /// Whether it names one that was kept for later sessions.
    fn is_kept(&self) -> bool {
        !self.id.trim().starts_with("cron-")
    }
}

/// The tool `CronDelete`.
#[derive(Default)]
pub struct CronDelete {
    crons: Option<Arc<CronTable>>,
}

impl CronDelete {
    /// The tool over the prompts of a session. Without any it is not offered.
    pub fn new(crons: Option<Arc<CronTable>>) -> CronDelete {
        CronDelete { crons }
    }
}

impl Tool for CronDelete {
    type Input = CronDeleteInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("CronDelete")
            .alias("cron_delete")
            .group("cron")
            .feature("cron")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("cancel a scheduled prompt")
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.crons.is_none().then(|| NO_TABLE.to_owned())
    }

    fn effects(&self, input: &CronDeleteInput) -> Effects {
        if input.is_kept() {
            Effects::writes_state(STATE).and(Effects::writes_state(KEPT))
        } else {
            Effects::writes_state(STATE)
        }
    }

    /// What was kept for later sessions is the user's, who said yes to it.
    async fn permission(&self, input: &CronDeleteInput, _: &Context) -> Option<DecisionReason> {
        if input.is_kept() { None } else { Some(DecisionReason::allow()) }
    }

    async fn call(&self, input: CronDeleteInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let crons = require_table(&self.crons)?;
        match crons.delete(&input.id).map_err(ToolError::new)? {
            Some(state) => {
                let view = CallView::titled(&state.id).summary(format!("deleted: {}", state.prompt));
                let words = format!("deleted {}: `{}` {}", state.id, state.cron, state.prompt);
                Ok(ToolOutput::from(ResultBlock::text(words)).with_view(view))
            }
            None => {
                let known: Vec<String> = crons.list().iter().map(|cron| format!("`{}`", cron.id)).collect();
                let known = if known.is_empty() {
                    "nothing is planned".to_owned()
                } else {
                    format!("there are {}", known.join(", "))
                };
                let id = truncate_chars(&input.id, 60);
                Err(ToolError::invalid_input(format!("no planned prompt `{id}`; {known}")))
            }
        }
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("id")?);
        Some(view.why(stage))
    }
}
