//! Events of a session, which whoever runs the conversation fires: each with its own outcome.

use haft::Cancel;
use haft::sync::lock;
use serde_json::{Value, json};

use super::event::HookEvent;
use super::input::{self, EventContext};
use super::reply::SessionStartReply;
use super::run::{FiredEvent, HookRun};
use super::{Hooks, limits};

/// The main agent among those that stop.
const MAIN: &str = "";

/// What hooks made of an event, whatever it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionOutcome {
    /// Words for the model.
    pub context: Vec<String>,
    /// Words for the user.
    pub messages: Vec<String>,
    /// The session should stop, for this reason.
    pub stop: Option<String>,
    /// Hooks that failed, in words for a person.
    pub warnings: Vec<String>,
}

/// A hook said no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookBlock {
    /// The hook.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What hooks made of what the user said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptOutcome {
    /// The words must not reach the model; the user is told why.
    pub blocked: Option<HookBlock>,
    /// The rest.
    pub outcome: SessionOutcome,
}

/// What hooks made of the beginning of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartOutcome {
    /// What the user is taken to have said first.
    pub initial_user_message: Option<String>,
    /// Files to watch.
    pub watch_paths: Vec<String>,
    /// A name for the session.
    pub session_title: Option<String>,
    /// Skills should be read again.
    pub reload_skills: bool,
    /// The rest.
    pub outcome: SessionOutcome,
}

/// An agent that would stop.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StopInput {
    /// Whether it goes on only because a hook kept it from stopping.
    pub stop_hook_active: bool,
    /// What it said last.
    pub last_assistant_message: Option<String>,
    /// Tasks that go on in the background, as hooks are shown them.
    pub background_tasks: Vec<Value>,
}

impl StopInput {
    /// An agent that said this last.
    pub fn new(last_assistant_message: impl Into<String>) -> StopInput {
        StopInput { last_assistant_message: Some(last_assistant_message.into()), ..StopInput::default() }
    }

    /// It goes on only because a hook kept it from stopping.
    #[must_use]
    pub fn kept_going(mut self) -> StopInput {
        self.stop_hook_active = true;
        self
    }
}

/// What hooks made of an agent that would stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StopOutcome {
    /// It should go on; the reason is for the model.
    pub go_on: Option<HookBlock>,
    /// The rest.
    pub outcome: SessionOutcome,
}

/// What hooks made of a conversation that would be made shorter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactOutcome {
    /// It should not.
    pub blocked: Option<HookBlock>,
    /// The rest.
    pub outcome: SessionOutcome,
}

/// What hooks made of a notification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotificationOutcome {
    /// Everything.
    pub outcome: SessionOutcome,
}

/// What came of an event, before it is given its own type.
#[derive(Default)]
struct EventResult {
    blocked: Option<HookBlock>,
    start: SessionStartReply,
    outcome: SessionOutcome,
}

impl Hooks {
    /// The user said something. To be asked before it reaches the model.
    pub async fn user_prompt_submit(&self, prompt: &str) -> PromptOutcome {
        lock(&self.0.stops).remove(MAIN);
        let fired = self.fire(HookEvent::UserPromptSubmit, None, json!({"prompt": prompt})).await;
        PromptOutcome { blocked: fired.blocked, outcome: fired.outcome }
    }

    /// A session begins: `startup`, `resume`, `clear`, `compact` or `fork`.
    pub async fn session_start(&self, source: &str, model: Option<&str>) -> StartOutcome {
        let mut more = json!({"source": source});
        if let Some(model) = model {
            more["model"] = model.into();
        }
        let EventResult { start, outcome, .. } = self.fire(HookEvent::SessionStart, Some(source), more).await;
        let SessionStartReply { initial_user_message, watch_paths, session_title, reload_skills } = start;
        StartOutcome { initial_user_message, watch_paths, session_title, reload_skills, outcome }
    }

    /// A session ends: `clear`, `logout`, `prompt_input_exit`, `other`.
    pub async fn session_end(&self, reason: &str) -> SessionOutcome {
        self.fire(HookEvent::SessionEnd, Some(reason), json!({"reason": reason})).await.outcome
    }

    /// Whether anybody hears that an agent would stop: a long answer need not be copied for nobody.
    pub fn hears_stop(&self) -> bool {
        !self.0.matching(HookEvent::Stop, None, |_| true).is_empty()
    }

    /// The agent would stop. Hooks may keep it going, [`limits::STOP_BLOCKS_MAX`] times in a row.
    pub async fn stop(&self, input: &StopInput) -> StopOutcome {
        let fired = self.fire(HookEvent::Stop, None, stop_object(input)).await;
        self.kept_going(MAIN, fired)
    }

    /// Whether an agent goes on: a hook wants it to, and it hasn't been kept from stopping too often.
    fn kept_going(&self, agent: &str, fired: EventResult) -> StopOutcome {
        let EventResult { blocked, mut outcome, .. } = fired;
        let mut stops = lock(&self.0.stops);
        // `continue: false` beats a block.
        let Some(blocked) = blocked.filter(|_| outcome.stop.is_none()) else {
            stops.remove(agent);
            return StopOutcome { go_on: None, outcome };
        };
        let known = stops.get(agent).copied().unwrap_or(0);
        // An agent that ended in another way is never heard of again; such ones must not add up.
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

    /// A sub-agent would stop. Hooks may keep it going as often as the main one, each for itself.
    pub async fn subagent_stop(&self, agent_id: &str, agent_type: &str, input: &StopInput) -> StopOutcome {
        let mut more = stop_object(input);
        more["agent_id"] = agent_id.into();
        more["agent_type"] = agent_type.into();
        let fired = self.fire(HookEvent::SubagentStop, Some(agent_type), more).await;
        self.kept_going(agent_id, fired)
    }

    /// The user is told something, of this kind: `permission_prompt`, `idle_prompt`, ….
    pub async fn notification(&self, kind: &str, title: Option<&str>, message: &str) -> NotificationOutcome {
        let mut more = json!({"notification_type": kind, "message": message});
        if let Some(title) = title {
            more["title"] = title.into();
        }
        let fired = self.fire(HookEvent::Notification, Some(kind), more).await;
        NotificationOutcome { outcome: fired.outcome }
    }

    /// A conversation would be made shorter: `manual` or `auto`.
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
                    // Nothing is left to block: the user is told.
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
