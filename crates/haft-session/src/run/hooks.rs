//! The hooks of a session, fired where the loop lets its host step in; and what servers have changed is brought in there.

use std::sync::{Arc, Mutex, PoisonError};

use haft::ToolResult;
use haft::dispatch::TaskTable;
use haft::future::BoxFuture;
use haft::ports::{Answer, Approval, Asker, Filled, UserForm, UserQuestion};
use haft_agent::{LoopHooks, MessageReview};
use haft_policy::gate::Policy;
use haft_policy::hooks::{Hooks, SessionOutcome, StopInput};

use crate::NoticeSink;
use crate::agents::behind::Behind;
use crate::assembly::{ReportLevel, ServerPool};
use crate::text::one_line;

/// The hooks of a run.
pub struct Fired {
    hooks: Hooks,
    /// The servers of the run, if it has any.
    pool: Option<Arc<ServerPool>>,
    /// Words of hooks that wait for the next words of the user.
    waiting: Mutex<Vec<String>>,
    /// Agents in the background, if somebody is to be told of them.
    behind: Option<Behind>,
    /// Whose permissions of a turn end when the user speaks.
    policy: Option<Policy>,
    notices: NoticeSink,
}

impl Fired {
    pub fn new(hooks: Hooks, pool: Option<Arc<ServerPool>>, notices: NoticeSink) -> Fired {
        Fired { hooks, pool, waiting: Mutex::new(Vec::new()), behind: None, policy: None, notices }
    }

    /// What skills let run ends when the user speaks again.
    pub fn ending_grants_of(mut self, policy: &Policy) -> Fired {
        self.policy = Some(policy.clone());
        self
    }

    /// The model is told of agents in the background that have ended.
    pub fn telling_of(mut self, tasks: &Arc<TaskTable>) -> Fired {
        self.behind = Some(Behind::new(tasks, false));
        self
    }

    /// The same, and the run doesn't end while one works: nobody would hear its answer.
    pub fn waiting_for(mut self, tasks: &Arc<TaskTable>) -> Fired {
        self.behind = Some(Behind::new(tasks, true));
        self
    }

    /// Brings in what servers changed, and says it: to the user at once, to the model with what comes next.
    fn news(&self) -> Vec<String> {
        let mut words = self.behind.as_ref().map(Behind::news).unwrap_or_default();
        if let Some(pool) = &self.pool {
            pool.refresh();
            pool.say(ReportLevel::Problems);
            words.extend(pool.notices());
        }
        words
    }

    /// The session begins. The first words that a hook puts into the user's mouth, or why it ends here.
    pub async fn start(&self, model: &str) -> Result<Option<String>, String> {
        let start = self.hooks.session_start("startup", Some(model)).await;
        let stop = start.outcome.stop.clone();
        let context = said(start.outcome, &self.notices);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).extend(context);
        match stop {
            Some(reason) => Err(reason),
            None => Ok(start.initial_user_message),
        }
    }

    /// The session ends.
    pub async fn end(&self) {
        said(self.hooks.session_end("other").await, &self.notices);
    }
}

impl LoopHooks for Fired {
    fn before_message<'a>(&'a self, text: &'a str) -> BoxFuture<'a, MessageReview> {
        Box::pin(async move {
            self.policy.iter().for_each(Policy::end_turn);
            let prompt = self.hooks.user_prompt_submit(text).await;
            let stop = prompt.outcome.stop.clone();
            let context = said(prompt.outcome, &self.notices);
            if let Some(reason) = prompt.blocked.map(|blocked| blocked.reason).or(stop) {
                return MessageReview::block(reason);
            }
            let mut words = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            words.extend(context);
            words.extend(self.news());
            match words.is_empty() {
                true => MessageReview::default(),
                false => MessageReview::with(words.join("\n\n")),
            }
        })
    }

    fn before_stop<'a>(&'a self, text: &'a str, again: bool) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let ended = match &self.behind {
                Some(behind) => behind.next().await,
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
            said(stop.outcome, &self.notices);
            stop.go_on.map(|blocked| blocked.reason)
        })
    }

    fn before_compaction(&self, _tokens: u64) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let compact = self.hooks.pre_compact("auto", "").await;
            said(compact.outcome, &self.notices);
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

    /// Hooks in the background may have words that wake the model.
    fn after_calls<'a>(&'a self, _results: &'a [ToolResult]) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let mut words = self.news();
            for report in self.hooks.take_reports() {
                match report.wakes {
                    true => words.push(format!("A hook says: {}", report.words)),
                    false => self.notices.warn(format!("hook `{}`: {}", report.hook, report.words)),
                }
            }
            (!words.is_empty()).then(|| words.join("\n\n"))
        })
    }
}

/// Says what is for the user; what is for the model is returned.
fn said(outcome: SessionOutcome, notices: &NoticeSink) -> Vec<String> {
    outcome.messages.iter().for_each(|words| notices.info(words));
    outcome.warnings.iter().for_each(|words| notices.warn(one_line(words)));
    outcome.context
}

/// Whoever asks the user, after hooks were told that the user is asked.
pub struct Notifying {
    pub asker: Arc<dyn Asker>,
    pub hooks: Hooks,
    pub notices: NoticeSink,
}

impl Notifying {
    /// Beside the question, which waits for nobody.
    fn notify(&self, message: String) {
        let (hooks, notices) = (self.hooks.clone(), self.notices.clone());
        tokio::spawn(async move {
            said(hooks.notification("permission_prompt", None, &message).await.outcome, &notices)
        });
    }
}

impl Asker for Notifying {
    fn is_available(&self) -> bool {
        self.asker.is_available()
    }

    fn approve<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        self.notify(format!("haft needs your permission to use {}", approval.tool));
        self.asker.approve(approval)
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        self.notify(question.text.clone());
        self.asker.question(question)
    }

    fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, Filled> {
        self.asker.form(form)
    }
}
