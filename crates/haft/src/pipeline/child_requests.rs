//! Requests of the children of a running call: hosts that they want to reach, and protected files whose
//! change was undone.
//!
//! A request for a host is judged like a call of the same tool that only reaches these hosts, as step 5
//! decides on calls. Rules for commands say nothing about such a call, and rules for hosts, the mode,
//! permission hooks, the classifier and the user do. Hosts of a group are asked about together, except for
//! those that need no question and those that are denied.
//!
//! A changed file may be the user's own work, so only the user decides on it, in modes that ask.
//!
//! Where a call leaves a background task behind, its requests are answered until that has ended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use serde_json::{Value, json};

use super::authorize::{AuthorizationOutcome, authorize_host, decide_host};
use super::{CallAttempt, DecodedInput, OpenedCall};
use crate::content::ToolOutput;
use crate::context::Context;
use crate::decision::{DecisionReason, DecisionSource, Verdict};
use crate::effects::Effects;
use crate::engine::EngineCore;
use crate::error::ToolError;
use crate::future::{BoxFuture, GuardedFuture, catch_panic};
use crate::limits;
use crate::ports::{
    AnswerChoice, ChildRequest, ChildRequestQueue, ChildRequests, HostAnswer, RequestDecision, UndoneAnswer,
    UndoneChange, UndoneChanges, UserQuestion, WantedHost,
};
use crate::registry::RegisteredTool;
use crate::tool::erased::ToolInvocation;
use crate::view::{CallStage, CallView, visible_line};

/// Whether calls of a tool have children that are confined, and so make requests.
pub(super) fn may_come(shared: &EngineCore, entry: &RegisteredTool) -> bool {
    shared.surroundings.confined && entry.tool().spec().runs_in_child()
}

/// Runs a call, and answers what its children ask meanwhile.
pub(super) async fn answer_during(
    work: impl Future<Output = Result<ToolOutput, ToolError>>,
    shared: &Arc<EngineCore>,
    opened: &OpenedCall,
    cx: &Context,
) -> Result<ToolOutput, ToolError> {
    let (requests, queue) = ChildRequests::channel();
    let has_user = shared.host.ports.available_asker().is_some();
    cx.running().takes_child_requests(requests.with_user(has_user));
    let ends_turn = Arc::<AtomicBool>::default();
    let decider = RequestDecider {
        shared: shared.clone(),
        id: opened.id.clone(),
        entry: opened.entry.clone(),
        input: opened.attempt.input.clone(),
        cx: cx.clone(),
        queue,
        host_questions: AtomicUsize::new(0),
        ends_turn: ends_turn.clone(),
    };
    let mut answering = Box::pin(decider.answer_requests());
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        () = &mut answering => unreachable!("requests are answered until the work is done"),
    };
    answer_in_background(answering, shared, cx);
    outcome.map_err(|error| if ends_turn.load(Ordering::Relaxed) { error.ending_turn() } else { error })
}

/// Goes on with the answers if the call has left a background task behind, until that has ended.
fn answer_in_background(
    answering: impl Future<Output = ()> + Send + 'static,
    shared: &Arc<EngineCore>,
    cx: &Context,
) {
    let (Some(task), Some(tasks)) = (cx.running().own_task(), shared.host.ports.tasks.clone()) else {
        return;
    };
    // Without a runtime there is no background either.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        tokio::select! {
            biased;
            () = tasks.ended(task) => {}
            _ = GuardedFuture::new(move || Box::pin(answering)) => {}
        }
    });
}

/// Decides on what the children of one call ask.
struct RequestDecider {
    shared: Arc<EngineCore>,
    id: Arc<str>,
    entry: Arc<RegisteredTool>,
    input: Arc<Value>,
    cx: Context,
    queue: ChildRequestQueue,
    /// How often the user was asked about hosts.
    host_questions: AtomicUsize,
    /// The user ended the turn by an answer.
    ends_turn: Arc<AtomicBool>,
}

impl RequestDecider {
    async fn answer_requests(mut self) {
        while let Some(request) = self.queue.next().await {
            match request {
                ChildRequest::Host(mut request) => {
                    let wanted = request.content().clone();
                    let decided = tokio::select! {
                        biased;
                        () = request.withdrawn() => None,
                        decided = self.decide_on_host(&wanted) => Some(decided),
                    };
                    let Some((answer, ends_turn)) = decided else { continue };
                    self.ends_turn.fetch_or(ends_turn, Ordering::Relaxed);
                    request.answer(answer);
                }
                ChildRequest::Undone(mut request) => {
                    let undone = request.content().clone();
                    let answer = tokio::select! {
                        biased;
                        () = request.withdrawn() => None,
                        answer = self.decide_on_undone(&undone) => answer,
                    };
                    if let Some(answer) = answer {
                        request.answer(answer);
                    }
                }
            }
        }
        std::future::pending().await
    }

    /// What the user says of changes that were undone; `None` where no user is asked.
    async fn decide_on_undone(&self, undone: &UndoneChanges) -> Option<UndoneAnswer> {
        let ports = self.cx.ports();
        if !ports.mode().is_none_or(|mode| mode.current().allows_own_questions()) {
            return None;
        }
        let asker = ports.asker()?;
        let question = question_about(undone, &self.running_title());
        let _open = self.queue.begin_question();
        let answer = GuardedFuture::new(|| asker.question(&question)).await.ok()?;
        // Put away, declined or answered with other words: it stays safe.
        let chosen = answer.and_then(|answers| ANSWERS.into_iter().find(|(label, ..)| answers == [*label]));
        let (label, _, answer) = chosen.unwrap_or(ANSWERS[0]);
        let paths: Vec<String> =
            undone.changes.iter().map(|change| change.path.to_string_lossy().into_owned()).collect();
        self.record(&paths, label, DecisionSource::User);
        Some(answer)
    }

    /// What is running, on one line.
    fn running_title(&self) -> String {
        let (input, tool) = (&*self.input, self.entry.tool());
        let view =
            catch_panic(|| tool.view(&CallStage::Use { input, complete: true })).map(|view| view.harmless());
        view.map_or_else(|_| tool.name().to_string(), |view| view.title)
    }

    /// The answer, and whether it ends the turn.
    async fn decide_on_host(&self, wanted: &WantedHost) -> (HostAnswer, bool) {
        let alone = self.call_to(wanted, std::slice::from_ref(&wanted.host));
        let decision = decide_host(&self.shared, &alone, &self.cx, wanted);
        let mut hosts = vec![wanted.host.clone()];
        if decision.verdict == Verdict::Ask {
            if self.host_questions.load(Ordering::Relaxed) >= limits::HOST_QUESTIONS_MAX {
                let text = format!(
                    "no rule allows `{}`, and the user was asked about hosts {} times during this call, which is as often \
                     as a call may ask; ask for what is missing in another call",
                    wanted.host,
                    limits::HOST_QUESTIONS_MAX
                );
                return (HostAnswer::Refused(text), false);
            }
            if decision.reason().is_some_and(DecisionReason::is_weak_ask) {
                hosts.extend(self.others_of_group(wanted));
            }
        }
        // Open from the moment in which the user is asked until there is a decision.
        let open = Mutex::new(None);
        let asking = || {
            self.host_questions.fetch_add(1, Ordering::Relaxed);
            *lock(&open) = Some(self.queue.begin_question());
        };
        let call = if hosts.len() > 1 { self.call_to(wanted, &hosts) } else { alone };
        let authorization = authorize_host(&self.shared, &call, &self.cx, wanted, &asking).await;
        let names: Vec<String> = hosts.iter().map(|host| format!("{host}:{}", wanted.port)).collect();
        match authorization {
            AuthorizationOutcome::Allowed(decision) => {
                self.record(&names, "allowed", decision.source);
                (HostAnswer::Granted(hosts), false)
            }
            AuthorizationOutcome::Edited(..) => {
                let text = format!("the user wanted something else than `{}`", wanted.host);
                self.record(&names, &text, DecisionSource::User);
                (HostAnswer::Refused(text), false)
            }
            AuthorizationOutcome::Refused(error) | AuthorizationOutcome::RefusedByHook(error) => {
                let text = error.message().replace('\n', "; ");
                let source = error.decision().map_or(DecisionSource::Failure, |decision| decision.source);
                self.record(&names, &text, source);
                (HostAnswer::Refused(text), error.ends_turn())
            }
        }
    }

    /// Notes in the journal what was decided.
    fn record(&self, wanted: &[String], outcome: &str, source: DecisionSource) {
        let Some(recorder) = self.cx.ports().recorder() else { return };
        let (agent, turn, call_id) = (self.cx.call().agent_id(), self.cx.call().turn(), &*self.id);
        let decision = RequestDecision { agent, turn, call_id, wanted, outcome, source };
        let _ = catch_panic(|| recorder.request_decided(&decision));
    }

    /// The hosts of the group that would need the same question.
    fn others_of_group(&self, wanted: &WantedHost) -> Vec<String> {
        let group = wanted.group.iter().flat_map(|group| &group.hosts);
        let needs_question = |host: &&String| {
            let call = self.call_to(wanted, std::slice::from_ref(*host));
            let decision = decide_host(&self.shared, &call, &self.cx, wanted);
            **host != wanted.host && decision.reason().is_some_and(DecisionReason::is_weak_ask)
        };
        group.filter(needs_question).cloned().collect()
    }

    /// The call of the same tool that reaches these hosts and does nothing else.
    fn call_to(&self, wanted: &WantedHost, hosts: &[String]) -> OpenedCall {
        let effects = hosts.iter().map(Effects::changes).fold(Effects::none(), Effects::and);
        let access = HostAccess::new(&self.running_title(), wanted, hosts.len());
        OpenedCall {
            id: self.id.clone(),
            entry: self.entry.clone(),
            attempt: CallAttempt {
                input: Arc::new(json!({"host": wanted.host, "port": wanted.port})),
                invocation: DecodedInput::new(Box::new(access)),
                effects: Arc::new(effects),
            },
            deferred: false,
            hook_reason: None,
            author: None,
            prepared: None,
        }
    }
}

/// What the user can say of changes that were undone: label, explanation, answer.
const ANSWERS: [(&str, &str, UndoneAnswer); 3] = [
    (
        "leave it undone",
        "nothing executes it, and it can be looked at where it is kept",
        UndoneAnswer::StayUndone,
    ),
    ("it is mine", "put it back", UndoneAnswer::Redo),
    ("stop the command", "leave it undone, and end the command", UndoneAnswer::StopChild),
];

fn question_about(undone: &UndoneChanges, running: &str) -> UserQuestion {
    let describe = |change: &UndoneChange| {
        let path = visible_line(&change.path.to_string_lossy());
        format!(
            "- `{path}` (executed by another program: {}): {}",
            change.executed,
            visible_line(&change.done)
        )
    };
    let (shown, rest) = undone.changes.split_at(undone.changes.len().min(limits::UNDONE_SHOWN_MAX));
    let mut lines: Vec<String> = shown.iter().map(describe).collect();
    lines.extend((!rest.is_empty()).then(|| format!("- and {} more", rest.len())));
    let state = match (undone.is_running, undone.is_paused) {
        (true, true) => "was paused, because these files appeared or changed",
        (true, false) => "is running, and these files appeared or changed",
        (false, _) => "has ended, and these files appeared or changed while it ran",
    };
    let text = format!("`{running}` {state}:\n{}\nDid you do that?", lines.join("\n"));
    let offered =
        ANSWERS.iter().filter(|(.., answer)| undone.is_running || *answer != UndoneAnswer::StopChild);
    let choice = |(label, words, _): &(&str, &str, UndoneAnswer)| AnswerChoice {
        label: (*label).to_owned(),
        description: Some((*words).to_owned()),
    };
    UserQuestion { text, choices: offered.map(choice).collect(), several: false }
}

/// What the user is shown of a request.
struct HostAccess {
    title: String,
    description: String,
}

impl HostAccess {
    fn new(running: &str, wanted: &WantedHost, hosts: usize) -> HostAccess {
        let WantedHost { host, port, group, .. } = wanted;
        let waits = format!("`{running}` is running and waits for `{host}`, port {port}");
        match group.as_ref().filter(|_| hosts > 1) {
            Some(group) => HostAccess {
                title: format!("reach {hosts} {}", group.name),
                description: format!("{waits}, one of the {}; {}", group.name, group.note),
            },
            None => HostAccess { title: format!("reach {host}"), description: waits },
        }
    }
}

impl ToolInvocation for HostAccess {
    fn effects(&self) -> Effects {
        Effects::unknown()
    }

    fn check<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Result<(), ToolError>> {
        Box::pin(async { Ok(()) })
    }

    fn permission<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Option<DecisionReason>> {
        Box::pin(async { None })
    }

    fn describe(&self) -> Option<String> {
        Some(self.description.clone())
    }

    fn preview<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Option<CallView>> {
        Box::pin(async { Some(CallView::titled(&self.title)) })
    }

    fn call(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async { Err(ToolError::new("a request for a host is decided on and never called")) })
    }
}
