//! Session events, fired by the code that runs the conversation. Each has its own outcome type.

use haft::Cancel;
use haft::sync::lock;
use serde_json::{Value, json};

use super::event::HookEvent;
use super::input::{self, EventContext};
use super::reply::SessionStartReply;
use super::run::{FiredEvent, HookRun};
use super::{Hooks, limits};

/// The key of the main agent in the stop counters.
const MAIN: &str = "";

/// The outcome that every session event has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionOutcome {
    /// Messages for the model.
    pub context: Vec<String>,
    /// Messages for the user.
    pub messages: Vec<String>,
    /// The reason why the session should stop, if it should.
    pub stop: Option<String>,
    /// Failures of hooks, as text for the user.
    pub warnings: Vec<String>,
}

/// A hook's denial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookBlock {
    /// The hook's name.
    pub by: String,
    /// The reason.
    pub reason: String,
}

/// The outcome of hooks on a user message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptOutcome {
    /// The message must not reach the model. The user is told why.
    pub blocked: Option<HookBlock>,
    /// The common part.
    pub outcome: SessionOutcome,
}

/// The outcome of hooks on a session start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartOutcome {
    /// A message that is treated as the user's first one.
    pub initial_user_message: Option<String>,
    /// Files to watch.
    pub watch_paths: Vec<String>,
    /// A name for the session.
    pub session_title: Option<String>,
    /// Skills should be reloaded.
    pub reload_skills: bool,
    /// The common part.
    pub outcome: SessionOutcome,
}

/// An agent that is about to stop.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StopInput {
    /// Whether the agent is running only because a hook kept it from stopping.
    pub stop_hook_active: bool,
    /// The agent's last message.
    pub last_assistant_message: Option<String>,
    /// Background tasks that are still running, in the form for hooks.
    pub background_tasks: Vec<Value>,
}

impl StopInput {
    /// Creates the input for an agent with this last message.
    pub fn new(last_assistant_message: impl Into<String>) -> StopInput {
        StopInput { last_assistant_message: Some(last_assistant_message.into()), ..StopInput::default() }
    }

    /// Marks the agent as running only because a hook kept it from stopping.
    #[must_use]
    pub fn kept_going(mut self) -> StopInput {
        self.stop_hook_active = true;
        self
    }
}

/// The outcome of hooks on an agent that is about to stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopOutcome {
    /// The agent should continue; the reason is for the model.
    pub go_on: Option<HookBlock>,
    /// The common part.
    pub outcome: SessionOutcome,
}

/// The outcome of hooks on a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactOutcome {
    /// The compaction should not happen.
    pub blocked: Option<HookBlock>,
    /// The common part.
    pub outcome: SessionOutcome,
}

/// The outcome of hooks on a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationOutcome {
    /// The common part.
    pub outcome: SessionOutcome,
}

/// The outcome of an event, before it is converted to the event's own type.
#[derive(Default)]
struct EventResult {
    blocked: Option<HookBlock>,
    start: SessionStartReply,
    outcome: SessionOutcome,
}

impl Hooks {
    /// Fires when the user sends a message. Call it before the message reaches the model.
    pub async fn user_prompt_submit(&self, prompt: &str) -> PromptOutcome {
        lock(&self.0.stops).remove(MAIN);
        let fired = self.fire(HookEvent::UserPromptSubmit, None, json!({"prompt": prompt})).await;
        PromptOutcome { blocked: fired.blocked, outcome: fired.outcome }
    }

    /// Fires when a session starts: `startup`, `resume`, `clear`, `compact` or `fork`.
    pub async fn session_start(&self, source: &str, model: Option<&str>) -> StartOutcome {
        let mut more = json!({"source": source});
        if let Some(model) = model {
            more["model"] = model.into();
        }
        let EventResult { start, outcome, .. } = self.fire(HookEvent::SessionStart, Some(source), more).await;
        let SessionStartReply { initial_user_message, watch_paths, session_title, reload_skills } = start;
        StartOutcome { initial_user_message, watch_paths, session_title, reload_skills, outcome }
    }

    /// Fires when a session ends: `clear`, `logout`, `prompt_input_exit`, `other`.
    pub async fn session_end(&self, reason: &str) -> SessionOutcome {
        self.fire(HookEvent::SessionEnd, Some(reason), json!({"reason": reason})).await.outcome
    }

    /// Returns whether any hook handles `Stop`. If none does, the caller need not copy a long answer.
    pub fn hears_stop(&self) -> bool {
        !self.0.matching(HookEvent::Stop, None, |_| true).is_empty()
    }

    /// Fires when the agent is about to stop. Hooks may keep it going, [`limits::STOP_BLOCKS_MAX`] times in
    /// a row.
    pub async fn stop(&self, input: &StopInput) -> StopOutcome {
        let fired = self.fire(HookEvent::Stop, None, stop_object(input)).await;
        self.kept_going(MAIN, fired)
    }

    /// Returns the outcome for an agent: it continues if a hook asks for it and the limit isn't reached.
    fn kept_going(&self, agent: &str, fired: EventResult) -> StopOutcome {
        let EventResult { blocked, mut outcome, .. } = fired;
        let mut stops = lock(&self.0.stops);
        // `continue: false` takes precedence over a block.
        let Some(blocked) = blocked.filter(|_| outcome.stop.is_none()) else {
            stops.remove(agent);
            return StopOutcome { go_on: None, outcome };
        };
        let known = stops.get(agent).copied().unwrap_or(0);
        // An agent that ended in another way never reports again, so the number of counters is limited.
        let room = known > 0 || stops.len() < limits::STOPPING_AGENTS_MAX;
        if known >= limits::STOP_BLOCKS_MAX || !room {
            stops.remove(agent);
            if !room {
                stops.clear();
            }
            outcome.warnings.push(format!("hooks kept the agent from stopping {known} times; it stops now"));
            return StopOutcome { go_on: None, outcome };
        }
        stops.insert(agent.to_owned(), known + 1);
        StopOutcome { go_on: Some(blocked), outcome }
    }

    /// Fires when a sub-agent is about to stop. Each sub-agent has its own counter with the same limit as
    /// the main agent.
    pub async fn subagent_stop(&self, agent_id: &str, agent_type: &str, input: &StopInput) -> StopOutcome {
        let mut more = stop_object(input);
        more["agent_id"] = agent_id.into();
        more["agent_type"] = agent_type.into();
        let fired = self.fire(HookEvent::SubagentStop, Some(agent_type), more).await;
        self.kept_going(agent_id, fired)
    }

    /// Fires when the user is notified, with the kind of notification: `permission_prompt`, `idle_prompt`,
    /// ….
    pub async fn notification(&self, kind: &str, title: Option<&str>, message: &str) -> NotificationOutcome {
        let mut more = json!({"notification_type": kind, "message": message});
        if let Some(title) = title {
            more["title"] = title.into();
        }
        let fired = self.fire(HookEvent::Notification, Some(kind), more).await;
        NotificationOutcome { outcome: fired.outcome }
    }

    /// Fires before a conversation is compacted: `manual` or `auto`.
    pub async fn pre_compact(&self, trigger: &str, custom_instructions: &str) -> CompactOutcome {
        let more = json!({"trigger": trigger, "custom_instructions": custom_instructions});
        let fired = self.fire(HookEvent::PreCompact, Some(trigger), more).await;
        CompactOutcome { blocked: fired.blocked, outcome: fired.outcome }
    }

    async fn fire(&self, event: HookEvent, subject: Option<&str>, more: Value) -> EventResult {
        let inner = &self.0;
        let hooks = inner.matching(event, subject, |_| true);
        let mut fired = EventResult::default();
        if hooks.is_empty() {
            return fired;
        }
        let session = &inner.session;
        let mut object = EventContext::for_session(session).object(session, event);
        if let Value::Object(more) = more {
            object.extend(more);
        }
        let cancel = Cancel::new();
        let fire = FiredEvent { object, cwd: &session.cwd, cancel: &cancel };
        let within = |text: String| input::limit_text(text, "hook", session.results.as_ref());
        for ran in inner.run(hooks, fire, |_| {}).await {
            let blocks = ran.blocks();
            let HookRun { hook, outcome } = ran;
            let reply = match outcome {
                Ok(Some(reply)) => reply,
                Ok(None) => continue,
                Err(why) => {
                    fired.outcome.warnings.push(format!("hook `{}` of `{event}` failed: {why}", hook.label));
                    if blocks {
                        let blocked =
                            HookBlock { by: hook.label.clone(), reason: format!("the hook failed: {why}") };
                        fired.blocked.get_or_insert(blocked);
                    }
                    continue;
                }
            };
            if let Some(reason) = reply.denial() {
                let reason = within(reason);
                match event {
                    // Nothing can be blocked any more, so the user is told.
                    HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::Notification => {
                        fired.outcome.messages.push(format!("hook `{}` says: {reason}", hook.label));
                    }
                    _ => {
                        fired.blocked.get_or_insert(HookBlock { by: hook.label.clone(), reason });
                    }
                }
            }
            fired.outcome.context.extend(reply.context.into_iter().map(within));
            fired.outcome.messages.extend(reply.message.map(within));
            if let Some(reason) = reply.stop {
                fired.outcome.stop.get_or_insert(within(reason));
            }
            let SessionStartReply { initial_user_message, watch_paths, session_title, reload_skills } =
                reply.start;
            let start = &mut fired.start;
            start.initial_user_message = initial_user_message.or(start.initial_user_message.take());
            start.session_title = session_title.or(start.session_title.take());
            start.watch_paths.extend(watch_paths);
            start.reload_skills |= reload_skills;
        }
        fired
    }
}

fn stop_object(input: &StopInput) -> Value {
    json!({
        "stop_hook_active": input.stop_hook_active,
        "last_assistant_message": input.last_assistant_message,
        "background_tasks": input.background_tasks,
        "session_crons": [],
    })
}
