//! Open prompts: what the user is asked, which front ends may answer, and which answer counts.
//!
//! The session's asker is a table of prompts. A prompt is sent to every front end that can ask, and
//! [`SessionHandle::answer`](crate::SessionHandle::answer) answers from outside. The first valid answer
//! counts. An answer names the digest of the prompt that was shown, so that an answer to something else
//! runs nothing.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use haft::future::BoxFuture;
use haft::ports::{ApprovalAnswer, ApprovalRequest, Asker, FormAnswer, UserForm, UserPage, UserQuestion};
use haft::sync::lock;
use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};

use crate::events::{EventHub, SessionEventKind};
use crate::front_end::FrontEnd;

/// The maximum number of closed prompts that are remembered, so that a late answer gets the reason for its
/// rejection.
const CLOSED_MAX: usize = 256;

/// The number of a prompt in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PromptId(u64);

impl fmt::Display for PromptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A digest of everything that a prompt shows: the call, its input and effects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallDigest(String);

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A prompt for the user.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UserPrompt {
    /// The number of the prompt.
    pub id: PromptId,
    /// The digest of the shown content. An answer names it.
    pub digest: CallDigest,
    /// What is asked.
    pub content: PromptContent,
}

/// What is asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PromptContent {
    /// Whether a call may run.
    Permission(Box<ApprovalRequest>),
    /// A choice that a tool asks for.
    Choice(UserQuestion),
    /// Several fields at once.
    Form(UserForm),
    /// Whether to open a page.
    Page(UserPage),
}

/// The kinds of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PromptKind {
    /// Whether a call may run.
    Permission,
    /// A choice that a tool asks for.
    Choice,
    /// Several fields at once.
    Form,
    /// Whether to open a page.
    Page,
}

impl UserPrompt {
    /// Returns the kind of the prompt.
    pub fn kind(&self) -> PromptKind {
        self.content.kind()
    }
}

impl PromptContent {
    fn kind(&self) -> PromptKind {
        match self {
            PromptContent::Permission(_) => PromptKind::Permission,
            PromptContent::Choice(_) => PromptKind::Choice,
            PromptContent::Form(_) => PromptKind::Form,
            PromptContent::Page(_) => PromptKind::Page,
        }
    }

    fn digest(&self) -> CallDigest {
        let text = match self {
            PromptContent::Permission(approval) => {
                let ApprovalRequest { call_id, agent, tool, input, effects, again, .. } = &**approval;
                let (input, reason) = (input.to_string(), approval.reason());
                format!("{:?}", (call_id, agent, tool, input, effects, approval.warnings(), reason, again))
            }
            other => format!("{other:?}"),
        };
        CallDigest(haft_journal::sha256(text.as_bytes()))
    }
}

impl fmt::Display for UserPrompt {
    /// Formats the prompt for the user: the call, its effects and why it asks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.content {
            PromptContent::Permission(approval) => {
                let input = approval.input.to_string();
                write!(f, "{} {input}\n  touches: {}", approval.tool, approval.effects)?;
                write!(f, "\n  asks because {}", approval.reason())
            }
            PromptContent::Choice(question) => {
                f.write_str(&question.text)?;
                question.choices.iter().try_for_each(|choice| write!(f, "\n  - {}", choice.label))
            }
            PromptContent::Form(form) => f.write_str(&form.text),
            PromptContent::Page(page) => write!(f, "{}: {}", page.text, page.url),
        }
    }
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum UserAnswer {
    /// Whether the call may run, or the page may be opened.
    Permission(ApprovalAnswer),
    /// The chosen or typed texts.
    Choices(Vec<String>),
    /// The fields of a form.
    Fields(Map<String, Value>),
    /// The user declines.
    Decline,
    /// The user dismisses the prompt without an answer.
    Dismiss,
}

impl UserAnswer {
    /// Returns the answer that the call may run this once.
    pub fn allow_once() -> UserAnswer {
        UserAnswer::Permission(ApprovalAnswer::Once)
    }

    /// Returns the answer that the call may run, and similar ones until the session ends.
    pub fn allow_for_session() -> UserAnswer {
        UserAnswer::Permission(ApprovalAnswer::Session)
    }

    /// Returns the answer that the call may not run, for this reason. The model receives the reason and
    /// continues.
    pub fn deny(reason: impl Into<String>) -> UserAnswer {
        UserAnswer::Permission(ApprovalAnswer::NoBecause(reason.into()))
    }

    /// Returns whether it answers prompts of this kind.
    fn fits(&self, kind: PromptKind) -> bool {
        match self {
            UserAnswer::Permission(ApprovalAnswer::Edit(_)) => kind == PromptKind::Permission,
            UserAnswer::Permission(_) => matches!(kind, PromptKind::Permission | PromptKind::Page),
            UserAnswer::Choices(_) => kind == PromptKind::Choice,
            UserAnswer::Fields(_) => kind == PromptKind::Form,
            UserAnswer::Decline | UserAnswer::Dismiss => kind != PromptKind::Permission,
        }
    }
}

/// Why an answer is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerError {
    /// There is no such prompt.
    Unknown,
    /// Another answer came first.
    AlreadyAnswered {
        /// The name of the front end that gave it.
        by: String,
    },
    /// The prompt asks something else than the answer names.
    Changed,
    /// The prompt is closed: its call was cancelled, or the session is closed.
    Closed,
    /// The answer has the wrong type for the prompt.
    WrongKind,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::Unknown => f.write_str("no such prompt"),
            AnswerError::AlreadyAnswered { by } => write!(f, "`{by}` answered first"),
            AnswerError::Changed => f.write_str("the prompt asks something else than what was answered"),
            AnswerError::Closed => f.write_str("the prompt is closed"),
            AnswerError::WrongKind => f.write_str("the answer doesn't fit the prompt"),
        }
    }
}

impl std::error::Error for AnswerError {}

/// The open prompts of a session, and the front ends that receive them.
pub(crate) struct PromptTable {
    hub: Arc<EventHub>,
    state: Mutex<TableState>,
    /// Changes when front ends attach or detach.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct TableState {
    next: u64,
    open: Vec<OpenPrompt>,
    /// Closed prompts, oldest first, each with the name of the front end that answered.
    closed: VecDeque<(PromptId, Option<String>)>,
    front_ends: Vec<(u64, Arc<dyn FrontEnd>)>,
    next_front_end: u64,
    is_closed: bool,
}

struct OpenPrompt {
    prompt: UserPrompt,
    /// Sends an answer from outside.
    sender: oneshot::Sender<UserAnswer>,
}

impl PromptTable {
    pub(crate) fn new(hub: Arc<EventHub>) -> Arc<PromptTable> {
        Arc::new(PromptTable { hub, state: Mutex::default(), changes: watch::Sender::default() })
    }

    /// Sends open and later prompts to this front end too. Returns its id.
    pub(crate) fn attach(&self, front_end: Arc<dyn FrontEnd>) -> u64 {
        let id = {
            let mut state = lock(&self.state);
            state.next_front_end += 1;
            let id = state.next_front_end;
            state.front_ends.push((id, front_end));
            id
        };
        self.changes.send_modify(|changes| *changes += 1);
        id
    }

    pub(crate) fn detach(&self, id: u64) {
        let detached = {
            let mut state = lock(&self.state);
            let place = state.front_ends.iter().position(|(front_end, _)| *front_end == id);
            place.map(|place| state.front_ends.remove(place))
        };
        drop(detached);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Closes all prompts. No later prompt is asked or answered.
    pub(crate) fn close(&self) {
        let closed = {
            let mut state = lock(&self.state);
            state.is_closed = true;
            (std::mem::take(&mut state.open), std::mem::take(&mut state.front_ends))
        };
        drop(closed);
    }

    /// Returns the open prompts, oldest first.
    pub(crate) fn open(&self) -> Vec<UserPrompt> {
        lock(&self.state).open.iter().map(|open| open.prompt.clone()).collect()
    }

    pub(crate) fn answer(
        &self,
        id: PromptId,
        digest: &CallDigest,
        answer: UserAnswer,
    ) -> Result<(), AnswerError> {
        let sender = {
            let mut state = lock(&self.state);
            if state.is_closed {
                return Err(AnswerError::Closed);
            }
            let Some(place) = state.open.iter().position(|open| open.prompt.id == id) else {
                let closed = state.closed.iter().find(|(closed, _)| *closed == id);
                return Err(match closed {
                    None => AnswerError::Unknown,
                    Some((_, None)) => AnswerError::Closed,
                    Some((_, Some(by))) => AnswerError::AlreadyAnswered { by: by.clone() },
                });
            };
            let prompt = &state.open[place].prompt;
            if prompt.digest != *digest {
                return Err(AnswerError::Changed);
            }
            if !answer.fits(prompt.kind()) {
                return Err(AnswerError::WrongKind);
            }
            let open = state.open.remove(place);
            state.remember(id, Some(HANDLE));
            open.sender
        };
        // If the call is cancelled at this moment, nothing runs.
        sender.send(answer).map_err(|_| AnswerError::Closed)?;
        self.hub.send(SessionEventKind::PromptAnswered { id, by: HANDLE.to_owned() });
        Ok(())
    }

    /// Closes a prompt that a front end answered. Returns false if another answer came first.
    fn settle(&self, id: PromptId, by: &str) -> bool {
        let is_first = {
            let mut state = lock(&self.state);
            let place = state.open.iter().position(|open| open.prompt.id == id);
            let is_first = place.map(|place| state.open.remove(place)).is_some();
            if is_first {
                state.remember(id, Some(by));
            }
            is_first
        };
        if is_first {
            self.hub.send(SessionEventKind::PromptAnswered { id, by: by.to_owned() });
        }
        is_first
    }

    /// Asks all front ends that can ask, including those that attach while the prompt is open, and waits
    /// for the first valid answer.
    async fn ask(&self, content: PromptContent) -> Option<UserAnswer> {
        let (sender, mut receiver) = oneshot::channel();
        let prompt = self.open_prompt(content, sender)?;
        let _closing = ClosePrompt { table: self, id: prompt.id };
        // Subscribes before the list of front ends is read, so that none is missed.
        let mut changes = self.changes.subscribe();
        let mut asked = AskedFrontEnds::default();
        self.hub.send(SessionEventKind::PromptOpened(prompt.clone()));
        loop {
            // A front end that can ask but doesn't answer leaves the prompt to the handle only while others
            // wait. Another one may have attached in the meantime.
            asked.update(self.attached(), &prompt);
            if asked.waiting.is_empty() && self.is_open(prompt.id) {
                return None;
            }
            tokio::select! {
                biased;
                answer = &mut receiver => return answer.ok(),
                (name, answer) = asked.next() => match answer {
                    // If it isn't the first one, an answer from outside is about to arrive.
                    Some(answer) if answer.fits(prompt.kind()) && self.settle(prompt.id, &name) => {
                        return Some(answer);
                    }
                    _ => {}
                },
                Ok(()) = changes.changed() => {}
            }
        }
    }

    /// Adds a prompt to the table, unless the table is closed.
    fn open_prompt(&self, content: PromptContent, sender: oneshot::Sender<UserAnswer>) -> Option<UserPrompt> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return None;
        }
        state.next += 1;
        let prompt = UserPrompt { id: PromptId(state.next), digest: content.digest(), content };
        state.open.push(OpenPrompt { prompt: prompt.clone(), sender });
        Some(prompt)
    }

    fn is_open(&self, id: PromptId) -> bool {
        lock(&self.state).is_open(id)
    }

    fn attached(&self) -> Vec<(u64, Arc<dyn FrontEnd>)> {
        lock(&self.state).front_ends.clone()
    }

    /// Returns the front ends that can ask.
    fn capable_front_ends(&self, kind: PromptKind) -> Vec<Arc<dyn FrontEnd>> {
        let front_ends = self.attached().into_iter().map(|(_, front_end)| front_end);
        front_ends.filter(|front_end| front_end.can_ask(kind)).collect()
    }
}

/// The front ends that were asked and have not answered.
#[derive(Default)]
struct AskedFrontEnds {
    waiting: Vec<AskedFrontEnd>,
    /// The highest front end id that was examined.
    last: u64,
}

struct AskedFrontEnd {
    id: u64,
    name: String,
    answer: BoxFuture<'static, Option<UserAnswer>>,
}

impl AskedFrontEnds {
    /// Asks new front ends, and drops the questions to detached ones.
    fn update(&mut self, attached: Vec<(u64, Arc<dyn FrontEnd>)>, prompt: &UserPrompt) {
        self.waiting.retain(|asked| attached.iter().any(|(id, _)| *id == asked.id));
        for (id, front_end) in attached {
            if id > self.last && front_end.can_ask(prompt.kind()) {
                let (name, prompt) = (front_end.name().to_owned(), prompt.clone());
                let answer = Box::pin(async move { front_end.ask(&prompt).await });
                self.waiting.push(AskedFrontEnd { id, name, answer });
            }
            self.last = self.last.max(id);
        }
    }

    /// Waits for the next front end that answers, or that leaves the answer to the others.
    async fn next(&mut self) -> (String, Option<UserAnswer>) {
        poll_fn(|cx| {
            for index in 0..self.waiting.len() {
                if let Poll::Ready(answer) = self.waiting[index].answer.as_mut().poll(cx) {
                    return Poll::Ready((self.waiting.remove(index).name, answer));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// The name under which answers through the handle are reported.
const HANDLE: &str = "handle";

impl TableState {
    fn is_open(&self, id: PromptId) -> bool {
        self.open.iter().any(|open| open.prompt.id == id)
    }

    fn remember(&mut self, id: PromptId, by: Option<&str>) {
        if self.closed.len() == CLOSED_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back((id, by.map(str::to_owned)));
    }
}

/// Closes a prompt that is dropped before it is answered.
struct ClosePrompt<'a> {
    table: &'a PromptTable,
    id: PromptId,
}

impl Drop for ClosePrompt<'_> {
    fn drop(&mut self) {
        let dropped = {
            let mut state = lock(&self.table.state);
            let place = state.open.iter().position(|open| open.prompt.id == self.id);
            let dropped = place.map(|place| state.open.remove(place));
            if dropped.is_some() {
                state.remember(self.id, None);
            }
            dropped
        };
        if dropped.is_some() {
            self.table.hub.send(SessionEventKind::PromptClosed { id: self.id });
        }
    }
}

impl Asker for PromptTable {
    fn is_available(&self) -> bool {
        !self.capable_front_ends(PromptKind::Permission).is_empty()
    }

    fn approve<'a>(&'a self, approval: &'a ApprovalRequest) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            match self.ask(PromptContent::Permission(Box::new(approval.clone()))).await {
                Some(UserAnswer::Permission(answer)) => answer,
                Some(_) => ApprovalAnswer::No,
                None => ApprovalAnswer::NoBecause("nobody answered".to_owned()),
            }
        })
    }

    fn question<'a>(&'a self, question: &'a UserQuestion) -> BoxFuture<'a, Option<Vec<String>>> {
        Box::pin(async move {
            match self.ask(PromptContent::Choice(question.clone())).await {
                Some(UserAnswer::Choices(choices)) => Some(choices),
                _ => None,
            }
        })
    }

    fn form<'a>(&'a self, form: &'a UserForm) -> BoxFuture<'a, FormAnswer> {
        Box::pin(async move {
            if self.capable_front_ends(PromptKind::Form).is_empty() {
                return FormAnswer::OneByOne;
            }
            match self.ask(PromptContent::Form(form.clone())).await {
                Some(UserAnswer::Fields(fields)) => FormAnswer::Values(fields),
                Some(UserAnswer::Dismiss) => FormAnswer::Dismissed,
                Some(_) => FormAnswer::Declined,
                None => FormAnswer::OneByOne,
            }
        })
    }

    fn page<'a>(&'a self, page: &'a UserPage) -> BoxFuture<'a, FormAnswer> {
        Box::pin(async move {
            if self.capable_front_ends(PromptKind::Page).is_empty() {
                return FormAnswer::OneByOne;
            }
            match self.ask(PromptContent::Page(page.clone())).await {
                Some(UserAnswer::Permission(
                    ApprovalAnswer::Once | ApprovalAnswer::Session | ApprovalAnswer::Always,
                )) => FormAnswer::Values(Map::new()),
                Some(UserAnswer::Dismiss) => FormAnswer::Dismissed,
                Some(_) => FormAnswer::Declined,
                None => FormAnswer::OneByOne,
            }
        })
    }
}

/// Sends a prompt to an [`Asker`], for front ends that have one. Returns `None` if it can't show prompts of
/// this kind.
pub fn ask_through<'a>(asker: &'a dyn Asker, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
    Box::pin(async move {
        match &prompt.content {
            PromptContent::Permission(approval) => {
                Some(UserAnswer::Permission(asker.approve(approval).await))
            }
            PromptContent::Choice(question) => {
                Some(asker.question(question).await.map_or(UserAnswer::Decline, UserAnswer::Choices))
            }
            PromptContent::Form(form) => match asker.form(form).await {
                FormAnswer::Values(fields) => Some(UserAnswer::Fields(fields)),
                FormAnswer::Declined => Some(UserAnswer::Decline),
                FormAnswer::Dismissed => Some(UserAnswer::Dismiss),
                _ => None,
            },
            PromptContent::Page(page) => match asker.page(page).await {
                FormAnswer::Values(_) => Some(UserAnswer::allow_once()),
                FormAnswer::Declined => Some(UserAnswer::Decline),
                FormAnswer::Dismissed => Some(UserAnswer::Dismiss),
                _ => None,
            },
        }
    })
}
