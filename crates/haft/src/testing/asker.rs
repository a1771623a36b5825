//! A user who answers by script.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haft_scheduler::sync::lock;
use tokio::sync::oneshot;

use super::queue::WaitQueue;
use crate::future::BoxFuture;
use crate::ports::{ApprovalAnswer, ApprovalRequest, Asker, UserQuestion};

/// An [`Asker`] that answers from a list and keeps what it was asked.
///
/// When the list is at its end it says no, with a reason, so that the turn goes on and the test sees why.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use haft::ports::ApprovalAnswer;
/// use haft::testing::{TestCaller, ScriptedAsker, scripted_tool};
/// use serde_json::json;
///
/// let asker = ScriptedAsker::waiting();
/// let (unknown, handle) = scripted_tool("unknown").build();
/// let caller = TestCaller::new().tool(unknown).engine(|engine| engine.asker(asker.clone()));
///
/// let turn = caller.start([("1", "unknown", json!({}))]);
/// let asked = asker.asked().await;                       // the call waits for an answer now
/// assert_eq!(asked.approval().reason(), "nothing is known of what it touches");
/// asked.answer(ApprovalAnswer::NoBecause("not today".into()));
/// turn.results().await.check(["1 Rejected: the user said no to unknown: not today"]);
/// # }
/// ```
#[derive(Clone, Default)]
pub struct ScriptedAsker(Arc<AskerState>);

#[derive(Default)]
struct AskerState {
    script: Mutex<VecDeque<ScriptedAnswer>>,
    always_waits: AtomicBool,
    choices: Mutex<VecDeque<Option<Vec<String>>>>,
    approvals: Mutex<Vec<ApprovalRequest>>,
    questions: Mutex<Vec<UserQuestion>>,
    asked: WaitQueue<PendingApproval>,
}

enum ScriptedAnswer {
    Say(ApprovalAnswer),
    Wait,
    Panic,
}

impl ScriptedAsker {
    /// A user with an empty list.
    pub fn new() -> ScriptedAsker {
        ScriptedAsker::default()
    }

    /// A user who answers only when the test does, by [`asked`](ScriptedAsker::asked); for ever, if it
    /// doesn't.
    pub fn waiting() -> ScriptedAsker {
        let asker = ScriptedAsker::default();
        asker.0.always_waits.store(true, Ordering::SeqCst);
        asker
    }

    /// Answers the next approval with this.
    #[must_use]
    pub fn then(self, answer: ApprovalAnswer) -> ScriptedAsker {
        self.push(ScriptedAnswer::Say(answer))
    }

    /// Lets the next approval wait for [`asked`](ScriptedAsker::asked).
    #[must_use]
    pub fn then_wait(self) -> ScriptedAsker {
        self.push(ScriptedAnswer::Wait)
    }

    /// Panics at the next approval.
    #[must_use]
    pub fn then_panic(self) -> ScriptedAsker {
        self.push(ScriptedAnswer::Panic)
    }

    /// Answers the next question of a tool with these texts; nothing means that the user declines.
    #[must_use]
    pub fn then_choose(self, texts: Option<Vec<String>>) -> ScriptedAsker {
        lock(&self.0.choices).push_back(texts);
        self
    }

    fn push(self, then: ScriptedAnswer) -> ScriptedAsker {
        lock(&self.0.script).push_back(then);
        self
    }

    /// Waits for an approval that waits. Each is given once, oldest first.
    pub async fn asked(&self) -> PendingApproval {
        self.0.asked.pop().await
    }

    /// An approval that waits and was not given yet.
    pub fn try_asked(&self) -> Option<PendingApproval> {
        self.0.asked.try_pop()
    }

    /// All approvals that were asked for, in order.
    pub fn approvals(&self) -> Vec<ApprovalRequest> {
        lock(&self.0.approvals).clone()
    }

    /// All questions that tools asked, in order.
    pub fn questions(&self) -> Vec<UserQuestion> {
        lock(&self.0.questions).clone()
    }
}

impl Asker for ScriptedAsker {
    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        lock(&self.0.approvals).push(approval.clone());
        let then = lock(&self.0.script).pop_front();
        let waits = self.0.always_waits.load(Ordering::SeqCst);
        Box::pin(async move {
            match then {
                Some(ScriptedAnswer::Say(answer)) => answer,
                Some(ScriptedAnswer::Panic) => panic!("a scripted asker was told to panic"),
                None if !waits => ApprovalAnswer::NoBecause("the script has no answer to this".into()),
                Some(ScriptedAnswer::Wait) | None => {
                    let (sender, answer) = oneshot::channel();
                    let withdrawn = Arc::new(AtomicBool::new(false));
                    let _here = WithdrawGuard(withdrawn.clone());
                    self.0.asked.push(PendingApproval { approval: approval.clone(), sender, withdrawn });
                    match answer.await {
                        Ok(answer) => answer,
                        // The test let go of the question without a word: then nobody ever answers.
                        Err(_) => std::future::pending().await,
                    }
                }
            }
        })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        lock(&self.0.questions).push(question.clone());
        let texts = lock(&self.0.choices).pop_front().flatten();
        Box::pin(std::future::ready(texts))
    }
}

struct WithdrawGuard(Arc<AtomicBool>);

impl Drop for WithdrawGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// An approval that waits for its answer. Letting go of it leaves it waiting for ever.
pub struct PendingApproval {
    approval: ApprovalRequest,
    sender: oneshot::Sender<ApprovalAnswer>,
    withdrawn: Arc<AtomicBool>,
}

impl PendingApproval {
    /// What was asked.
    pub fn approval(&self) -> &ApprovalRequest {
        &self.approval
    }

    /// Answers it. Does nothing where the call was cancelled meanwhile.
    pub fn answer(self, answer: ApprovalAnswer) {
        let _ = self.sender.send(answer);
    }

    /// Whether the question was taken back: its call was cancelled.
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::SeqCst)
    }
}
