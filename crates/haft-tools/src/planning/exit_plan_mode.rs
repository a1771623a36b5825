//! `ExitPlanMode`: the user sees the plan, and approves it or sends it back.
//!
//! The approval is that of any call: the tool wants every call of it asked, in every mode, so the user has
//! the same answers as always (yes, no, no because, another input) wherever they are asked, and no rule and
//! no hook before the call can say yes in their place. Where nobody can be asked the plan isn't approved, and
//! the session goes on planning.

use haft::call_log::CallLog;
use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::ports::{PermissionMode, PortName};
use haft::view::{CallStage, ViewPart};
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::plan::{ApprovedPlan, PLAN_CHARS_MAX, SessionPlans, own_agent, permission_mode};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 60_000;

/// Shows your plan to the user, who approves it or sends it back with a reason. Once it is approved you can
/// begin.
///
/// Call it in plan mode when the plan is whole, and only for work that changes something. If it is sent back,
/// change the plan and call again. Don't ask by other means whether the plan is good.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ExitPlanModeInput {
    /// The plan in Markdown: what is to be reached, then numbered steps, each with the files that it changes
    /// and the commands that it runs, in backticks.
    pub plan: String,
}

/// The tool `ExitPlanMode`.
#[derive(Default)]
pub struct ExitPlanMode {
    plans: SessionPlans,
    calls: Option<CallLog>,
}

impl ExitPlanMode {
    /// The tool with the memory of the others, and the calls that the session has made: `VerifyPlan` looks at
    /// those after the approval.
    pub fn new(plans: &SessionPlans, calls: Option<CallLog>) -> ExitPlanMode {
        ExitPlanMode { plans: plans.clone(), calls }
    }
}

impl Tool for ExitPlanMode {
    type Input = ExitPlanModeInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("ExitPlanMode")
            .alias("exit_plan_mode")
            .group("planning")
            .feature("planning")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .needs(PortName::Mode)
            .needs_user()
            .search_hint("show the plan to the user for approval")
    }

    fn effects(&self, _: &ExitPlanModeInput) -> Effects {
        Effects::asks_user()
    }

    async fn permission(&self, _: &ExitPlanModeInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::ask("the plan needs your approval; a yes ends plan mode"))
    }

    async fn check(&self, input: &ExitPlanModeInput, cx: &Context) -> Result<(), ToolError> {
        own_agent(cx, "give your plan back as your answer")?;
        if permission_mode(cx)?.current() != PermissionMode::Plan {
            return Err(ToolError::invalid_input(
                "this session doesn't plan, so there is nothing to approve; go on with the work, or begin to plan with \
                 EnterPlanMode",
            ));
        }
        if input.plan.trim().is_empty() {
            return Err(ToolError::invalid_input("`plan` is empty; the user approves what it says"));
        }
        match input.plan.chars().count() {
            count if count > PLAN_CHARS_MAX => Err(ToolError::invalid_input(format!(
                "`plan` has {count} characters; at most {PLAN_CHARS_MAX} are accepted, and a user reads no more"
            ))),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: ExitPlanModeInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let mode = permission_mode(cx)?;
        let after = self.calls.as_ref().and_then(|log| log.calls().last().map(|call| call.number));
        let approved = ApprovedPlan { text: input.plan.clone(), after: after.unwrap_or_default() };
        let before = self.plans.with(cx, |planned| {
            (planned.approved, planned.plans) = (Some(approved), false);
            planned.before.take()
        });
        // A user who changed the mode while the question was open meant it.
        if mode.current() == PermissionMode::Plan {
            mode.set(before.unwrap_or_default());
        }
        let text = format!(
            "the user approved this plan; the mode is `{}` now. Begin, step by step, and hold the work against the plan with \
             VerifyPlan at the end. The plan as it was approved:\n\n{}",
            mode.current(),
            input.plan.trim()
        );
        let view = CallView::titled("plan").summary(format!("approved, mode {}", mode.current()));
        Ok(ToolOutput::from(ResultBlock::text(text)).with_view(view))
    }

    fn describe(&self, _: &ExitPlanModeInput) -> Option<String> {
        Some("ends plan mode and lets the model begin with this plan".to_owned())
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled("plan");
        Some(match stage {
            CallStage::Use { .. } => {
                view.with(ViewPart::Text { text: stage.text("plan").unwrap_or_default().to_owned() })
            }
            _ => view.why(stage),
        })
    }
}
