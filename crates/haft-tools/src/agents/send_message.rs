//! `SendMessage`: words for an agent that runs, or for the one that gave this one its task.
//!
//! A message arrives before the other's next turn and stops nothing. It is bound to its sender by the host,
//! so an agent can't speak in another's name. Words change nothing by themselves, so sending asks nobody.

use haft::decision::DecisionReason;
use haft::effects::table::ConcurrencyClass;
use haft::ports::PortName;
use haft::tool::CallTimeout;
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// Characters of a result that the model sees.
pub const RESULT_CHARS: usize = 2_000;
/// The longest message, in characters.
pub const MESSAGE_CHARS_MAX: usize = 20_000;

/// Sends a message to an agent that is at work: one that you or another agent gave a task with Agent.
///
/// It arrives before the agent's next turn; it does not interrupt what the agent does. Use it to correct an
/// agent in the background or to give it news. An agent that has ended can't be reached: give a new task
/// then. `parent` is the agent that gave you your task.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct SendMessageInput {
    /// The name of the agent, for example `explore-1`, or `parent`.
    pub to: String,
    /// What it is told.
    pub message: String,
    /// The message in a few words, for the person who watches.
    #[serde(default)]
    pub summary: Option<String>,
}

/// The tool `SendMessage`.
#[derive(Debug, Default)]
pub struct SendMessage;

impl Tool for SendMessage {
    type Input = SendMessageInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("SendMessage")
            .alias("send_message")
            .group("agent")
            .feature("agents")
            .listed_class(ConcurrencyClass::WriteExclusive)
            .session_only()
            .result_limit(Chars(RESULT_CHARS))
            .timeout(CallTimeout::After(std::time::Duration::from_secs(10)))
            .needs(PortName::SubAgents)
            .search_hint("message tell a running sub-agent or parent agent")
    }

    fn effects(&self, _: &SendMessageInput) -> Effects {
        Effects::writes_state("session:agents")
    }

    async fn permission(&self, _: &SendMessageInput, _: &Context) -> Option<DecisionReason> {
        Some(DecisionReason::allow())
    }

    async fn check(&self, input: &SendMessageInput, _: &Context) -> Result<(), ToolError> {
        if input.message.trim().is_empty() {
            return Err(ToolError::invalid_input("`message` is empty; say what the agent should know"));
        }
        match input.message.chars().count() {
            chars if chars > MESSAGE_CHARS_MAX => Err(ToolError::invalid_input(format!(
                "`message` has {chars} characters and may have {MESSAGE_CHARS_MAX}; put the rest into a file and name it"
            ))),
            _ => Ok(()),
        }
    }

    async fn call(&self, input: SendMessageInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let agents = cx.ports().sub_agents().ok_or_else(|| ToolError::new("this host has no sub-agents"))?;
        let to = input.to.trim();
        agents.send(to, input.message, cx).await?;
        let view = CallView::titled(to).summary(input.summary.unwrap_or_else(|| "sent".to_owned()));
        let words = format!("sent to `{to}`; it reads it before its next turn");
        Ok(ToolOutput::from(haft::ResultBlock::text(words)).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let view = CallView::titled(stage.text("to")?);
        Some(match stage {
            CallStage::Use { .. } => match stage.text("summary") {
                Some(words) => view.summary(words),
                None => view,
            },
            _ => view.why(stage),
        })
    }
}
