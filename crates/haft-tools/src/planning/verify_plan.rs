//! `VerifyPlan`: the work held against the plan, step by step.
//!
//! The plan is the approved one, or one that is given; the work are the calls of the session that succeeded,
//! as the host remembers them. See `plan/compare.rs` for what counts as done.

use haft::call_log::CallLog;
use haft::effects::table::ConcurrencyClass;
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::plan::steps::parse_steps;
use crate::plan::verify_steps::{StepOutcome, judge_step, unplanned_changes};
use crate::plan::{ApprovedPlan, PLAN_CHARS_MAX, SessionPlans};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 30_000;
/// Why the tool is not offered without a record of calls.
const NO_CALLS: &str = "this session keeps no record of its calls";

/// Holds the work of this session against the plan, and says of each step whether it is done, missing or
/// different, with the calls that show it; and what was changed that no step names.
///
/// Use it when you think that the work is finished, before you say so. It looks at which files were changed
/// and which commands succeeded, not at whether the change is right: that is for tests and your own eyes.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct VerifyPlanInput {
    /// A plan to hold the work against, in Markdown; leave it out for the one that the user approved.
    #[serde(default)]
    pub plan: Option<String>,
}

/// The tool `VerifyPlan`.
#[derive(Default)]
pub struct VerifyPlan {
    plans: SessionPlans,
    calls: Option<CallLog>,
}

impl VerifyPlan {
    /// The tool with the memory of the others, and the calls that the session has made. Without these it is
    /// not offered.
    pub fn new(plans: &SessionPlans, calls: Option<CallLog>) -> VerifyPlan {
        VerifyPlan { plans: plans.clone(), calls }
    }
}

impl Tool for VerifyPlan {
    type Input = VerifyPlanInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("VerifyPlan")
            .alias("verify_plan")
            .group("planning")
            .feature("planning")
            .listed_class(ConcurrencyClass::ReadOnly)
            .result_limit(Chars(RESULT_CHARS))
            .search_hint("check the finished work against the plan's steps")
    }

    fn unavailable_reason(&self) -> Option<String> {
        self.calls.is_none().then(|| NO_CALLS.to_owned())
    }

    fn effects(&self, _: &VerifyPlanInput) -> Effects {
        Effects::reads_state("session:calls")
    }

    async fn check(&self, input: &VerifyPlanInput, _: &Context) -> Result<(), ToolError> {
        match input.plan.as_deref().map(|plan| plan.chars().count()) {
            Some(count) if count > PLAN_CHARS_MAX => Err(ToolError::invalid_input(format!(
                "`plan` has {count} characters; at most {PLAN_CHARS_MAX} are accepted"
            ))),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: VerifyPlanInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let log = self.calls.as_ref().ok_or_else(|| ToolError::new(NO_CALLS))?;
        let given = input.plan.filter(|plan| !plan.trim().is_empty());
        let plan = match given {
            Some(text) => ApprovedPlan { text, after: 0 },
            None => self.plans.with(cx, |planned| planned.approved.clone()).ok_or_else(|| {
                ToolError::invalid_input("no plan was approved in this session; give one in `plan`")
            })?,
        };
        let steps = parse_steps(&plan.text);
        if steps.is_empty() {
            return Err(ToolError::invalid_input("the plan has no steps; a numbered list is best"));
        }
        let calls: Vec<_> = log.calls().into_iter().filter(|call| call.number > plan.after).collect();
        let (mut text, mut shown) = (String::new(), Vec::new());
        let mut counts = [0usize; 3];
        for (at, step) in steps.iter().enumerate() {
            let verdict = judge_step(step, &calls);
            counts[match verdict.outcome {
                StepOutcome::Done => 0,
                StepOutcome::Different => 1,
                StepOutcome::Missing => 2,
            }] += 1;
            let word = verdict.outcome.word();
            text.push_str(&format!("{} {word}: {}\n", at + 1, step.title));
            for words in verdict.evidence {
                text.push_str(&format!("    {words}\n"));
            }
            if verdict.outcome != StepOutcome::Done {
                shown.push(format!("{word:9} {} {}", at + 1, step.title));
            }
        }
        let [done, different, missing] = counts;
        let summary = format!("{done} done, {different} different, {missing} missing");
        let more = unplanned_changes(&steps, &calls);
        if !more.is_empty() {
            text.push_str(&format!("\nchanged, and in no step: {}\n", more.join("; ")));
        }
        let forgotten = log.forgotten();
        if forgotten > plan.after {
            text.push_str(&format!(
                "\nthe oldest {forgotten} calls of the session are not remembered; what only they did counts as missing\n"
            ));
        }
        if different + missing > 0 {
            text.push_str(
                "\ndo what is missing, look at what is different, or tell the user why it is not needed",
            );
        }
        let text = format!("{} of {} steps: {summary}\n\n{text}", done, steps.len());
        let view = CallView::titled("plan").summary(summary);
        let view = if shown.is_empty() { view } else { view.with(ViewPart::Text { text: shown.join("\n") }) };
        Ok(ToolOutput::from(ResultBlock::text(text.trim_end().to_owned())).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled("plan");
        Some(view.why(stage))
    }
}
