//! Events, prompts and hooks of a working sub-agent.

use std::sync::{Arc, Mutex};

use haft::ToolResult;
use haft::event::EventKind;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, OnAgentLine, UserQuestion};
use haft::sync::lock;
use haft::text::truncate_chars;
use haft_agent::{LoopHooks, ReplyDelta, RunEvent, RunSink};
use haft_policy::hooks::{Hooks, StopInput};

use crate::NoticeSink;
use crate::text::one_line;

/// The maximum length of a line of an agent's text between its calls, in characters.
const LINE_CHARS_MAX: usize = 200;

/// Forwards the events of an agent's run under its name, and counts turns and calls.
pub(super) struct AgentEvents {
    agent: Arc<str>,
    /// The call that the agent works for.
    call: Arc<str>,
    to: Arc<dyn RunSink>,
    on_line: Option<OnAgentLine>,
    state: Mutex<AgentActivity>,
}

#[derive(Default)]
struct AgentActivity {
    turns: u64,
    calls: u64,
    /// Text of the model that no event has reported yet.
    text: String,
    last: Option<String>,
}

impl AgentEvents {
    pub(super) fn new(
        agent: &str,
        call: &str,
        to: Arc<dyn RunSink>,
        on_line: Option<OnAgentLine>,
    ) -> AgentEvents {
        AgentEvents { agent: agent.into(), call: call.into(), to, on_line, state: Mutex::default() }
    }

    /// Returns the progress as text.
    pub(super) fn so_far(&self) -> String {
        let state = lock(&self.state);
        let many =
            |count: u64, one: &str| if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") };
        let last = state.last.as_ref().map(|last| format!(", the last: {last}")).unwrap_or_default();
        format!("it came as far as {}, {}{last}", many(state.turns, "turn"), many(state.calls, "call"))
    }

    /// Returns the line for an event, if it needs one.
    fn line(&self, event: &RunEvent) -> Option<String> {
        let mut state = lock(&self.state);
        match event {
            RunEvent::Asked { .. } => {
                state.turns += 1;
                state.text.clear();
                None
            }
            RunEvent::Model(ReplyDelta::Text(text)) => {
                if state.text.len() < 4 * LINE_CHARS_MAX {
                    state.text.push_str(text);
                }
                None
            }
            RunEvent::Model(ReplyDelta::CallBegun { .. }) => {
                let text = std::mem::take(&mut state.text);
                let line = one_line(text.trim());
                (!line.is_empty()).then(|| format!("● {}", truncate_chars(&line, LINE_CHARS_MAX)))
            }
            RunEvent::Tool(tool) => match &tool.what {
                EventKind::Finished(result) => {
                    state.calls += 1;
                    let line = call_line(result);
                    state.last = Some(line.clone());
                    Some(line)
                }
                _ => None,
            },
            RunEvent::Ended { why, .. } => Some(format!("ended: {}", one_line(&why.to_string()))),
            _ => None,
        }
    }
}

/// Returns a finished call on one line.
fn call_line(result: &ToolResult) -> String {
    let view = result.view();
    let sign = if result.is_error() { '✗' } else { '✓' };
    let summary = view.summary.map(|summary| format!("  {}", one_line(&summary))).unwrap_or_default();
    let line = format!("{sign} {} {}{summary}", result.tool_name(), one_line(&view.title));
    truncate_chars(&line, LINE_CHARS_MAX).to_owned()
}

impl RunSink for AgentEvents {
    fn send(&self, event: RunEvent) {
        if let (Some(line), Some(on_line)) = (self.line(&event), &self.on_line) {
            on_line(&line);
        }
        self.to.send(RunEvent::Agent {
            agent: self.agent.clone(),
            call: self.call.clone(),
            event: Box::new(event),
        });
    }
}

/// Asks the user on behalf of an agent. Approvals name the agent already.
pub(super) struct NamedAsker {
    pub(super) asker: Arc<dyn Asker>,
    pub(super) agent: String,
}

impl Asker for NamedAsker {
    fn is_available(&self) -> bool {
        self.asker.is_available()
    }

    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.asker.approve(approval)
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            let text = format!("The agent {} asks: {}", self.agent, question.text);
            self.asker.question(&UserQuestion { text, ..question.clone() }).await
        })
    }
}

/// The hooks of a session that run when an agent stops or compacts its conversation.
pub(super) struct AgentHooks {
    pub(super) hooks: Hooks,
    pub(super) agent: String,
    pub(super) kind: String,
    pub(super) notices: NoticeSink,
}

impl LoopHooks for AgentHooks {
    fn before_stop<'a>(&'a self, text: &'a str, again: bool) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let input = StopInput::new(text);
            let input = if again { input.kept_going() } else { input };
            let stop = self.hooks.subagent_stop(&self.agent, &self.kind, &input).await;
            stop.outcome.messages.iter().for_each(|words| self.notices.info(words));
            stop.outcome.warnings.iter().for_each(|words| self.notices.warn(one_line(words)));
            stop.go_on.map(|blocked| blocked.reason)
        })
    }

    fn before_compaction(&self, _tokens: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.hooks.pre_compact("auto", "").await.blocked.is_none() })
    }
}
