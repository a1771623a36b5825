//! `Agent`: gives a task to another agent, in a loop of its own.
//!
//! The tool knows no loop and no model: it says what is to be done, and the port [`SubAgents`] does it. What
//! the agent does is written into a log, so that an agent in the background is looked at with `TaskOutput`,
//! waited for with `Monitor` and ended with `TaskStop` like any other task. Its calls are judged one by one,
//! so giving a task asks nobody; only the worktree that one may be given is something by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft::effects::WORKTREES;
use haft::effects::table::ConcurrencyClass;
use haft::ports::{AgentIsolation, AgentRequest, PortName, SubAgents};
use haft::schema::InputSchema;
use haft::tool::{CallTimeout, GuardDenied, Interrupt};
use haft::view::CallStage;
use haft::{CallView, Chars, Context, Effects, ResultBlock, Tool, ToolError, ToolOutput, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::bash::output_log::OutputLog;

/// Characters of an answer that the model sees; the whole of a longer one is kept in a file.
pub const RESULT_CHARS: usize = 32_000;
/// The longest task, in characters.
pub const PROMPT_CHARS_MAX: usize = 200_000;
/// The longest name of an agent, in characters.
pub const NAME_CHARS_MAX: usize = 64;
/// How many characters of what it is about are shown.
const ABOUT_CHARS: usize = 200;
/// The kind of agent that is meant where none is named.
pub const USUAL_KIND: &str = "general";

/// Gives a task to another agent, which works on it by itself, with tools of its own, and comes back with one
/// answer.
///
/// Use it for work that takes many calls and of which you need only the outcome: a search through much, an
/// independent part of a change, a second opinion. Don't use it to read a file you know or for one search;
/// Read and Grep are quicker. The agent knows nothing of this conversation: write into `prompt` everything
/// that it needs, and what it should answer. Its answer is shown to you and not to the user. Several calls in
/// one message run side by side.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AgentInput {
    /// What it is about, in three to five words, for the person who watches.
    pub description: String,
    /// The task: what to do, what is known already, what to answer.
    pub prompt: String,
    /// Which kind of agent, by name; `general` unless said.
    #[serde(default)]
    pub subagent_type: Option<String>,
    /// The model that it asks, where it shouldn't be yours.
    #[serde(default)]
    pub model: Option<String>,
    /// Answers at once with the id of a task that goes on in the background; TaskOutput shows what it does
    /// and its answer.
    #[serde(default)]
    pub run_in_background: Option<bool>,
    /// `worktree` lets it work in a git worktree and on a branch of its own, so that it can't get into your
    /// way.
    #[serde(default)]
    pub isolation: Option<IsolationInput>,
    /// A name for it, to send it messages with SendMessage.
    #[serde(default)]
    pub name: Option<String>,
}

/// Where the agent works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationInput {
    /// In a git worktree of its own.
    Worktree,
}

/// A kind of agent, as the model is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentKind {
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
}

/// The tool `Agent`.
#[derive(Debug, Clone)]
pub struct Agent {
    kinds: Arc<[AgentKind]>,
    /// How many were given a task, for their names.
    count: Arc<AtomicU64>,
}

impl Default for Agent {
    fn default() -> Agent {
        Agent::new(built_in_kinds())
    }
}

/// The kinds that are always there.
pub fn built_in_kinds() -> Vec<AgentKind> {
    let kind =
        |name: &str, description: &str| AgentKind { name: name.into(), description: description.into() };
    vec![
        kind(USUAL_KIND, "has all tools; for any task"),
        kind("explore", "only looks: finds files, code and facts, and says where they are"),
        kind("plan", "only looks: works out how something should be done, step by step"),
    ]
}

impl Agent {
    /// The tool with these kinds of agents.
    pub fn new(kinds: impl IntoIterator<Item = AgentKind>) -> Agent {
        Agent { kinds: kinds.into_iter().collect(), count: Arc::default() }
    }

    fn request(&self, input: &AgentInput) -> AgentRequest {
        let mut request = AgentRequest::new(short_description(&input.description), input.prompt.clone());
        request.kind = Some(input.subagent_type.clone().unwrap_or_else(|| USUAL_KIND.to_owned()));
        request.name.clone_from(&input.name);
        request.model.clone_from(&input.model);
        request.isolation = match input.isolation {
            Some(IsolationInput::Worktree) => AgentIsolation::Worktree,
            None => AgentIsolation::None,
        };
        request
    }

    /// A name for one that was given none.
    fn next_name(&self, input: &AgentInput) -> String {
        let kind = input.subagent_type.as_deref().unwrap_or(USUAL_KIND);
        let kind: String = kind.chars().map(|c| if is_plain(c) { c } else { '-' }).take(40).collect();
        format!("{kind}-{}", self.count.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Tool for Agent {
    type Input = AgentInput;
    type Output = ToolOutput;

    fn spec(&self) -> ToolSpec {
        let schema = InputSchema::derive::<AgentInput>().ok();
        let mut words = schema.and_then(|schema| schema.description().map(str::to_owned)).unwrap_or_default();
        words.push_str("\n\nKinds of agents:");
        for kind in &*self.kinds {
            words.push_str(&format!("\n- {}: {}", kind.name, kind.description));
        }
        let kinds = self.kinds.clone();
        ToolSpec::new("Agent")
            .alias("agent")
            .alias("Task")
            .description(words)
            .group("agent")
            .feature("agents")
            .listed_class(ConcurrencyClass::Delegating)
            .result_limit(Chars(RESULT_CHARS))
            // Its calls have their limits, and it has its turns.
            .timeout(CallTimeout::Never)
            .interrupt(Interrupt::Cancel)
            .needs(PortName::SubAgents)
            .search_hint("delegate a task to a sub-agent subagent worker parallel research")
            .guard(move |input, _| {
                let known = known_kind(input, &kinds);
                async { Ok::<Value, GuardDenied>(known) }
            })
    }

    fn effects(&self, input: &AgentInput) -> Effects {
        match input.isolation {
            None => Effects::delegates(),
            Some(IsolationInput::Worktree) => {
                Effects::delegates().and(Effects::writes_state(WORKTREES)).synchronised()
            }
        }
    }

    async fn check(&self, input: &AgentInput, cx: &Context) -> Result<(), ToolError> {
        let wrong = |words: String| Err(ToolError::invalid_input(words));
        if input.prompt.trim().is_empty() {
            return wrong("`prompt` is empty; say what the agent is to do".to_owned());
        }
        let chars = input.prompt.chars().count();
        if chars > PROMPT_CHARS_MAX {
            return wrong(format!(
                "`prompt` has {chars} characters and may have {PROMPT_CHARS_MAX}; put the material into a file and name it"
            ));
        }
        if let Some(name) = &input.name {
            name_fits(name)?;
        }
        if input.run_in_background == Some(true) && cx.ports().tasks().is_none() {
            return wrong(
                "`run_in_background` is not possible here: this host has no background tasks; run it without"
                    .to_owned(),
            );
        }
        sub_agents(cx)?.check(&self.request(input), cx)
    }

    fn describe(&self, input: &AgentInput) -> Option<String> {
        Some(short_description(&input.description)).filter(|words| !words.is_empty())
    }

    async fn call(&self, input: AgentInput, cx: &Context) -> Result<ToolOutput, ToolError> {
        let mut request = self.request(&input);
        let name = request.name.get_or_insert_with(|| self.next_name(&input)).clone();
        let log = Arc::new(OutputLog::new(cx.ports().result_store().cloned()));
        cx.background().set_log(log.clone());
        let (lines, told) = (log.clone(), cx.clone());
        request.on_line = Some(Arc::new(move |line: &str| {
            lines.add(format!("{line}\n").as_bytes());
            told.progress(None, line);
        }));
        if input.run_in_background != Some(true) {
            return sub_agents(cx)?.run(request, cx).await;
        }
        log.to_background();
        let about = format!("{name}: {}", short_description(&input.description));
        let (cancel, inner) = (cx.cancel().child(), cx.clone());
        let stop = cancel.clone();
        let work = async move {
            tokio::select! {
                biased;
                cause = stop.cancelled() => {
                    Err(ToolError::cancelled(cause, &format!("the agent was {}", cause.words())))
                }
                answer = async { sub_agents(&inner)?.run(request, &inner).await } => answer,
            }
        };
        let task = cx
            .background()
            .spawn(about, cancel, work)
            .map_err(|(_, why)| ToolError::new(format!("it was not started: {why}")))?;
        let words = format!("runs in the background as {task}");
        let text = format!(
            "the agent `{name}` {words}\nTaskOutput {{\"task_id\": \"{task}\"}} shows what it does and its answer, with \
             `block` it waits; SendMessage {{\"to\": \"{name}\"}} tells it something, TaskStop ends it"
        );
        let view = CallView::titled(call_title(&name, &input.description)).summary(words);
        Ok(ToolOutput::from(ResultBlock::text(text)).with_view(view))
    }

    fn view(&self, stage: &CallStage<'_>) -> Option<CallView> {
        let kind = stage.text("name").or(stage.text("subagent_type")).unwrap_or(USUAL_KIND);
        let view = CallView::titled(call_title(kind, stage.text("description")?));
        Some(match stage {
            CallStage::Progress { progress, .. } => CallView { summary: progress.message.clone(), ..view },
            CallStage::Error { error, .. } => {
                view.summary(error.message().lines().next().unwrap_or_default())
            }
            _ => view.why(stage),
        })
    }
}

fn sub_agents(cx: &Context) -> Result<&dyn SubAgents, ToolError> {
    cx.ports().sub_agents().ok_or_else(|| ToolError::new("this host has no sub-agents"))
}

/// Names kinds as they are listed, so that rules see one name for each, whatever the model writes.
fn known_kind(mut input: Value, kinds: &[AgentKind]) -> Value {
    let Some(given) = input.get("subagent_type").and_then(Value::as_str) else { return input };
    let other = match given {
        "general-purpose" => USUAL_KIND,
        other => other,
    };
    let exact = kinds.iter().find(|kind| kind.name == given);
    let alike = || kinds.iter().find(|kind| kind.name.eq_ignore_ascii_case(other));
    if let Some(kind) = exact.or_else(alike) {
        input["subagent_type"] = kind.name.as_str().into();
    }
    input
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Whether something can be the name of an agent.
fn name_fits(name: &str) -> Result<(), ToolError> {
    let fits = !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_plain);
    if fits && !matches!(name, "main" | "parent") {
        Ok(())
    } else {
        Err(ToolError::invalid_input(format!(
            "`name` must have 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`, and not be `main` or `parent`"
        )))
    }
}

fn short_description(description: &str) -> String {
    description.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(ABOUT_CHARS).collect()
}

fn call_title(name: &str, description: &str) -> String {
    format!("{name}: {}", short_description(description))
}
