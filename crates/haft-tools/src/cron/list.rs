//! `CronList`: what is planned, and when it comes next.

use std::sync::Arc;

use haft::effects::table::ConcurrencyClass;
use haft::text::{single_line, truncate_chars};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, NoInput, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};

use crate::cron::{CronTable, NO_TABLE, STATE, require_table};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 30_000;
/// How many characters of a prompt are shown.
const PROMPT_CHARS: usize = 300;

/// The tool `CronList`.
#[derive(Default)]
pub struct CronList {
    crons: Option<Arc<CronTable>>,
}

impl CronList {
    /// The tool over the prompts of a session. Without any it is not offered.
    pub fn new(crons: Option<Arc<CronTable>>) -> CronList {
        CronList { crons }
    }
}

impl Tool for CronList {
    type Input = NoInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("CronList")
            .description(
                "Lists the prompts that are planned with CronCreate, those kept from earlier sessions too: name, times, \
                 the next time, and what will be said.",
            )
            .alias("cron_list")
            .group("cron")
            .feature("cron")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("list scheduled prompts")
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.crons.is_none().then(|| NO_TABLE.to_owned())
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::reads_state(STATE)
    }

    async fn call(&self, _: NoInput, _: &Context) -> Result<ToolOutput, ToolError> {
        let crons = require_table(&self.crons)?.list();
        let lines: Vec<String> = crons
            .iter()
            .map(|cron| {
                let prompt = truncate_chars(&cron.prompt, PROMPT_CHARS);
                let cut = if prompt.len() < cron.prompt.len() { "…" } else { "" };
                format!("{cron}\n    {}{cut}", single_line(prompt))
            })
            .collect();
        let text = if lines.is_empty() { "nothing is planned".to_owned() } else { lines.join("\n") };
        let summary = match lines.len() {
            0 => "nothing is planned".to_owned(),
            1 => "1 prompt".to_owned(),
            more => format!("{more} prompts"),
        };
        Ok(ToolOutput::from(ResultBlock::text(text)).with_view(CallView::titled("").summary(summary)))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled("");
        Some(view.why(stage))
    }
}
