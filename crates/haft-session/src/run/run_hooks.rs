//! The hooks of a session, run by the agent loop. Changes of MCP servers take effect at the same points.

use std::sync::{Arc, Mutex};

use haft::ToolResult;
use haft::dispatch::TaskTable;
use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, FormAnswer, UserForm, UserQuestion};
use haft::sync::lock;
use haft_agent::{LoopHooks, MessageReview};
use haft_policy::gate::Policy;
use haft_policy::hooks::{Hooks, SessionOutcome, StopInput};

use crate::NoticeSink;
use crate::agents::background_reports::BackgroundReports;
use crate::assembly::{ReportLevel, ServerPool};
use crate::text::one_line;

/// The hooks of a run.
pub struct RunHooks {
    hooks: Hooks,
    /// The servers of the run, if it has any.
    pool: Option<Arc<ServerPool>>,
    /// Context from hooks, for the next message.
    waiting: Mutex<Vec<String>>,
    /// Background agents, if the model receives their reports.
    background: Option<BackgroundReports>,
    /// The policy whose grants for a turn end with the next message of the user.
    policy: Option<Policy>,
    notices: NoticeSink,
}

impl RunHooks {
    pub fn new(hooks: Hooks, pool: Option<Arc<ServerPool>>, notices: NoticeSink) -> RunHooks {
        RunHooks { hooks, pool, waiting: Mutex::new(Vec::new()), background: None, policy: None, notices }
    }

    /// Ends the grants of skills with the next message of the user.
    pub fn end_grants_of(mut self, policy: &Policy) -> RunHooks {
        self.policy = Some(policy.clone());
        self
    }

    /// Reports background agents that have ended to the model.
    pub fn report(mut self, tasks: &Arc<TaskTable>) -> RunHooks {
        self.background = Some(BackgroundReports::new(tasks, false));
        self
    }

    /// The same, and the run doesn't end while one works, since its answer would be lost.
    pub fn wait_for(mut self, tasks: &Arc<TaskTable>) -> RunHooks {
        self.background = Some(BackgroundReports::new(tasks, true));
        self
    }

    /// Refreshes the tools of servers and reports changes: to the user immediately, to the model with the
    /// next message.
    fn take_news(&self) -> Vec<String> {
        let mut words = self.background.as_ref().map(BackgroundReports::take).unwrap_or_default();
        if let Some(pool) = &self.pool {
            pool.refresh();
            pool.say(ReportLevel::Problems);
            words.extend(pool.notices());
        }
        words
    }

    /// Runs the session start hooks. Returns the first message that a hook gives in the user's place.
    ///
    /// # Errors
    /// Returns the reason of a hook that ends the session here.
    pub async fn start(&self, model: &str) -> Result<Option<String>, String> {
        let start = self.hooks.session_start("startup", Some(model)).await;
        let stop = start.outcome.stop.clone();
        let context = report_outcome(start.outcome, &self.notices);
        lock(&self.waiting).extend(context);
        match stop {
            Some(reason) => Err(reason),
            None => Ok(start.initial_user_message),
        }
    }

    /// Runs the session end hooks.
    pub async fn end(&self) {
        report_outcome(self.hooks.session_end("other").await, &self.notices);
    }
}

impl LoopHooks for RunHooks {
    fn before_message<'a>(&'a self, text: &'a str) -> BoxFuture<'a, MessageReview> {
        Box::pin(async move {
            self.policy.iter().for_each(Policy::end_turn);
            let prompt = self.hooks.user_prompt_submit(text).await;
            let stop = prompt.outcome.stop.clone();
            let context = report_outcome(prompt.outcome, &self.notices);
            if let Some(reason) = prompt.blocked.map(|blocked| blocked.reason).or(stop) {
                return MessageReview::block(reason);
            }
            let mut words = std::mem::take(&mut *lock(&self.waiting));
            words.extend(context);
            words.extend(self.take_news());
            if words.is_empty() { MessageReview::default() } else { MessageReview::with(words.join("\n\n")) }
        })
    }

    fn before_stop<'a>(&'a self, text: &'a str, again: bool) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let ended = match &self.background {
                Some(background) => background.next().await,
                None => None,
            };
            if ended.is_some() {
                return ended;
            }
            if !self.hooks.hears_stop() {
                return None;
            }
            let input = StopInput::new(text);
            let input = if again { input.kept_going() } else { input };
            let stop = self.hooks.stop(&input).await;
            report_outcome(stop.outcome, &self.notices);
            stop.go_on.map(|blocked| blocked.reason)
        })
    }

    fn before_compaction(&self, _tokens: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let compact = self.hooks.pre_compact("auto", "").await;
            report_outcome(compact.outcome, &self.notices);
            match compact.blocked {
                Some(blocked) => {
                    self.notices
                        .warn(format!("the conversation is not made shorter: {}", one_line(&blocked.reason)));
                    false
                }
                None => true,
            }
        })
    }

    /// Background hooks may have messages that wake the model.
    fn after_calls<'a>(&'a self, _results: &'a [ToolResult]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut words = self.take_news();
            for report in self.hooks.take_reports() {
                if report.wakes {
                    words.push(format!("A hook says: {}", report.words))
                } else {
                    self.notices.warn(format!("hook `{}`: {}", report.hook, report.words))
                }
            }
            (!words.is_empty()).then(|| words.join("\n\n"))
        })
    }
}

/// Reports messages and warnings to the user. Returns the context for the model.
fn report_outcome(outcome: SessionOutcome, notices: &NoticeSink) -> Vec<String> {
    outcome.messages.iter().for_each(|words| notices.info(words));
    outcome.warnings.iter().for_each(|words| notices.warn(one_line(words)));
    outcome.context
}

/// Runs the notification hooks before each prompt to the user.
pub struct NotifyingAsker {
    pub asker: Arc<dyn Asker>,
    pub hooks: Hooks,
    pub notices: NoticeSink,
}

impl NotifyingAsker {
    /// Runs in parallel with the prompt, which doesn't wait for the hooks.
    fn notify(&self, message: String) {
        let (hooks, notices) = (self.hooks.clone(), self.notices.clone());
        tokio::spawn(async move {
            report_outcome(hooks.notification("permission_prompt", None, &message).await.outcome, &notices)
        });
    }
}

impl Asker for NotifyingAsker {
    fn is_available(&self) -> bool {
        self.asker.is_available()
    }

    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        self.notify(format!("haft needs your permission to use {}", approval.tool));
        self.asker.approve(approval)
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        self.notify(question.text.clone());
        self.asker.question(question)
    }

    fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, FormAnswer> {
        self.asker.form(form)
    }
}
