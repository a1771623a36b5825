//! `EnterPlanMode`: from now on nothing is changed until the user has approved a plan.

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::ports::{PermissionMode, PortName};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, NoInput, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};

use crate::plan::{STATE, SessionPlans, own_agent, permission_mode};

/// Characters of a result that the model sees.
const RESULT_CHARS: usize = 2_000;

/// The tool `EnterPlanMode`.
#[derive(Default)]
pub struct EnterPlanMode {
    plans: SessionPlans,
}

impl EnterPlanMode {
    /// The tool with the memory of the others.
    pub fn new(plans: &SessionPlans) -> EnterPlanMode {
        EnterPlanMode { plans: plans.clone() }
    }
}

impl Tool for EnterPlanMode {
    type Input = NoInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("EnterPlanMode")
            .description(
                "Begins to plan: from now on you can look at everything, and nothing is changed, by you or by sub-agents, \
                 until the user has approved your plan.\n\n\
                 Use it before work that is large, can be done in several ways, or is hard to undo. Then look around, ask \
                 with AskUserQuestion what only the user knows, and give the plan with ExitPlanMode. Don't use it for a \
                 small change that is clear, nor where only an answer is wanted.",
            )
            .alias("enter_plan_mode")
            .group("planning")
            .feature("planning")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .needs(PortName::Mode)
            .needs_user()
            .search_hint("plan before changing anything, read-only mode")
    }

    fn effects(&self, _: &NoInput) -> Effects {
        Effects::writes_state(STATE)
    }

    /// It only takes permissions away.
    async fn permission(&self, _: &NoInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, _: &NoInput, cx: &Context) -> Result<(), ToolError> {
        own_agent(cx, "make your plan without it, and give it back as your answer")
    }

    async fn call(&self, _: NoInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let mode = permission_mode(cx)?;
        let now = mode.current();
        let words = match now {
            PermissionMode::Plan => "this session plans already",
            before => {
                mode.set(PermissionMode::Plan);
                if mode.current() != PermissionMode::Plan {
                    return Err(ToolError::new("this session may not plan: settings forbid the mode `plan`"));
                }
                self.plans.with(cx, |planned| (planned.before, planned.plans) = (Some(before), true));
                "the session plans now: whatever changes something is denied"
            }
        };
        let text = format!(
            "{words}. Look around, decide, and give the plan with ExitPlanMode: numbered steps, each with the files that it \
             changes and the commands that it runs, so that VerifyPlan can hold the work against it."
        );
        Ok(ToolOutput::from(ResultBlock::text(text))
            .with_view(CallView::titled("").summary("nothing is changed now")))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled("");
        Some(view.why(stage))
    }
}
