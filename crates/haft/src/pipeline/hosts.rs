//! Hosts that a child of a running call wants to reach: decided in the task of the call, as step 5 decides on calls.
//!
//! A request is judged like a call of the same tool that only reaches these hosts. Rules for commands say nothing about
//! such a call, and rules for hosts, the mode, permission hooks, the classifier and the user do. Hosts of a group are
//! asked about together, except for those that need no question and those that are denied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use serde_json::json;

use super::authorize::{Authorization, authorize_host, decide_host};
use super::{Attempt, Decoded, Opened};
use crate::content::Output;
use crate::context::Context;
use crate::decision::{DecisionReason, Verdict};
use crate::effects::Effects;
use crate::engine::Shared;
use crate::error::ToolError;
use crate::future::{BoxFuture, guarded};
use crate::limits;
use crate::ports::{HostAnswer, HostRequestQueue, HostRequests, WantedHost};
use crate::registry::Entry;
use crate::tool::erased::Invocation;
use crate::view::{Stage, View};

/// Whether calls of a tool have children that are confined, and so ask for hosts.
pub(super) fn may_be_wanted(shared: &Shared, entry: &Entry) -> bool {
    shared.surroundings.confined && entry.tool().spec().runs_in_child()
}

/// Runs a call, and decides meanwhile on the hosts that its children want.
pub(super) async fn decide_during(
    work: impl Future<Output = Result<Output, ToolError>>,
    shared: &Shared,
    opened: &Opened,
    cx: &Context,
) -> Result<Output, ToolError> {
    let (requests, queue) = HostRequests::channel();
    let has_user = shared.host.ports.available_asker().is_some();
    cx.running().takes_host_requests(requests.with_user(has_user));
    let questions = AtomicUsize::new(0);
    let mut decisions = HostDecisions { shared, opened, cx, queue, questions, ends_turn: false };
    let outcome = tokio::select! {
        biased;
        outcome = work => outcome,
        () = decisions.answer_requests() => unreachable!("requests are answered until the work is done"),
    };
    outcome.map_err(|error| if decisions.ends_turn { error.ending_turn() } else { error })
}

/// Decides on the hosts that the children of one call want.
struct HostDecisions<'a> {
    shared: &'a Shared,
    opened: &'a Opened,
    cx: &'a Context,
    queue: HostRequestQueue,
    /// How often the user was asked.
    questions: AtomicUsize,
    /// The user ended the turn by an answer.
    ends_turn: bool,
}

impl HostDecisions<'_> {
    async fn answer_requests(&mut self) {
        while let Some(mut request) = self.queue.next().await {
            let wanted = request.wanted().clone();
            let decided = tokio::select! {
                biased;
                () = request.withdrawn() => None,
                decided = self.decide(&wanted) => Some(decided),
            };
            let Some((answer, ends_turn)) = decided else { continue };
            self.ends_turn |= ends_turn;
            request.answer(answer);
        }
        std::future::pending().await
    }

    /// The answer, and whether it ends the turn.
    async fn decide(&self, wanted: &WantedHost) -> (HostAnswer, bool) {
        let alone = self.call_to(wanted, std::slice::from_ref(&wanted.host));
        let decision = decide_host(self.shared, &alone, self.cx, wanted);
        let mut hosts = vec![wanted.host.clone()];
        if decision.verdict == Verdict::Ask {
            if self.questions.load(Ordering::Relaxed) >= limits::HOST_QUESTIONS_MAX {
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
            self.questions.fetch_add(1, Ordering::Relaxed);
            *lock(&open) = Some(self.queue.begin_question());
        };
        let call = if hosts.len() > 1 { self.call_to(wanted, &hosts) } else { alone };
        match authorize_host(self.shared, &call, self.cx, wanted, &asking).await {
            Authorization::Allowed(_) => (HostAnswer::Granted(hosts), false),
            Authorization::Edited(..) => {
                let text = format!("the user wanted something else than `{}`", wanted.host);
                (HostAnswer::Refused(text), false)
            }
            Authorization::Refused(error) | Authorization::RefusedByHook(error) => {
                (HostAnswer::Refused(error.message().replace('\n', "; ")), error.ends_turn())
            }
        }
    }

    /// The hosts of the group that would need the same question.
    fn others_of_group(&self, wanted: &WantedHost) -> Vec<String> {
        let group = wanted.group.iter().flat_map(|group| &group.hosts);
        let needs_question = |host: &&String| {
            let call = self.call_to(wanted, std::slice::from_ref(*host));
            let decision = decide_host(self.shared, &call, self.cx, wanted);
            **host != wanted.host && decision.reason().is_some_and(DecisionReason::is_weak_ask)
        };
        group.filter(needs_question).cloned().collect()
    }

    /// The call of the same tool that reaches these hosts and does nothing else.
    fn call_to(&self, wanted: &WantedHost, hosts: &[String]) -> Opened {
        let effects = hosts.iter().map(Effects::changes).fold(Effects::none(), Effects::and);
        let access = HostAccess::new(self.opened, wanted, hosts.len());
        Opened {
            id: self.opened.id.clone(),
            entry: self.opened.entry.clone(),
            attempt: Attempt {
                input: Arc::new(json!({"host": wanted.host, "port": wanted.port})),
                invocation: Decoded::new(Box::new(access)),
                effects: Arc::new(effects),
            },
            deferred: false,
            hook_reason: None,
            author: None,
            prepared: None,
        }
    }
}

/// What the user is shown of a request.
struct HostAccess {
    title: String,
    description: String,
}

impl HostAccess {
    fn new(opened: &Opened, wanted: &WantedHost, hosts: usize) -> HostAccess {
        let (input, tool) = (&*opened.attempt.input, opened.entry.tool());
        let view = guarded(|| tool.view(&Stage::Use { input, complete: true })).map(|view| view.harmless());
        let running = view.map_or_else(|_| tool.name().to_string(), |view| view.title);
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

impl Invocation for HostAccess {
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

    fn preview<'a>(&'a self, _: &'a Context) -> BoxFuture<'a, Option<View>> {
        Box::pin(async { Some(View::titled(&self.title)) })
    }

    fn call(self: Box<Self>, _: Context) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async { Err(ToolError::new("a request for a host is decided on and never called")) })
    }
}
