//! `EnterPlanMode`: from now on nothing is changed until the user has approved a plan.

use haft::decision::DecisionReason;
use haft::effects::table::Class;
use haft::ports::{PermissionMode, Port};
use haft::view::Stage;
use haft::{Chars, Content, Context, Effects, NoInput, Output, Tool, ToolError, ToolSpec, View};

use crate::plan::{SessionPlans, STATE, permission_mode, own_agent};

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
    type Output = Output;

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
            .listed_class(Class::WriteExclusive)
            .result_limit(Chars(RESULT_CHARS))
            .needs(Port::Mode)
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

    async fn call(&self, _: NoInput, cx: &Context) -> Result<Output, ToolError> {
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
        Ok(Output::from(Content::text(text)).with_view(View::titled("").summary("nothing is changed now")))
    }

    fn view(&self, stage: &Stage<'_>) -> Option<View> {
        let view = View::titled("");
        Some(view.why(stage))
    }
}
