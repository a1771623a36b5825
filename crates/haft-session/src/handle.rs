//! [`SessionHandle`]: accesses a session from other tasks without keeping it alive.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use haft::dispatch::{DetachedCall, TurnHandle};
use haft::ports::{ModeControl as _, PermissionMode};
use haft::sync::lock;
use haft::{Cause, Engine};
use haft_agent::RunHandle;
use haft_agent::TokenUsage;
use haft_policy::gate::{ModeForbidden, Policy};

use crate::channels::{AttachedFrontEnd, SessionChannels, WeakChannels};
use crate::events::{EventSubscription, SessionEventKind};
use crate::front_end::FrontEnd;
use crate::prompts::{AnswerError, CallDigest, PromptId, UserAnswer, UserPrompt};
use crate::run::running_session::RunningSession;

/// A call of the main agent, by the number of its turn and its index in the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// The number of the turn, counted from 1.
    pub turn: u64,
    /// The index of the call in the turn, counted from 0.
    pub index: usize,
}

/// Accesses a session from other tasks. It doesn't keep the session alive. Once the session is closed,
/// methods have no effect and return an error or `None`, the stream of events has ended, and no prompt is
/// open.
#[derive(Clone)]
pub struct SessionHandle(pub(crate) Weak<SessionShared>);

/// The state that a session shares with its handles and its agent.
pub(crate) struct SessionShared {
    pub(crate) running: Arc<RunningSession>,
    /// The current run of the agent.
    pub(crate) run: Mutex<Option<RunHandle>>,
    /// The turns that were begun without the agent.
    turns: Mutex<Vec<TurnHandle>>,
    pub(crate) usage: Mutex<TokenUsage>,
    is_closed: AtomicBool,
}

impl SessionShared {
    pub(crate) fn new(running: Arc<RunningSession>) -> SessionShared {
        SessionShared {
            running,
            run: Mutex::default(),
            turns: Mutex::default(),
            usage: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.running.engine
    }

    fn channels(&self) -> &SessionChannels {
        &self.running.channels
    }

    fn policy(&self) -> &Policy {
        &self.running.parts.policy
    }

    /// Records a turn for [`interrupt`](SessionHandle::interrupt).
    pub(crate) fn track(&self, turn: TurnHandle) {
        let mut turns = lock(&self.turns);
        turns.retain(|turn| !turn.is_over());
        turns.push(turn);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Begins a run of the agent. If the session is closed, the run is interrupted immediately.
    pub(crate) fn begin_run(&self, handle: &RunHandle) {
        *lock(&self.run) = Some(handle.clone());
        if self.is_closed() {
            handle.force();
        }
    }

    /// Cancels everything that runs. Nothing can begin afterwards. Only the first call has an effect.
    pub(crate) fn shut_down(&self) {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(run) = lock(&self.run).as_ref() {
            run.force();
        }
        self.engine().shutdown(Cause::Shutdown);
        self.channels().prompts.close();
    }

    fn turns(&self) -> Vec<TurnHandle> {
        lock(&self.turns).clone()
    }
}

impl SessionHandle {
    fn shared(&self) -> Option<Arc<SessionShared>> {
        self.0.upgrade().filter(|shared| !shared.is_closed())
    }

    /// Returns a receiver of all events from now on. Its queue is bounded: a slow receiver first loses
    /// progress events.
    pub fn events(&self) -> EventSubscription {
        match self.shared() {
            Some(shared) => shared.channels().events.subscribe(),
            None => SessionChannels::default().events.subscribe(),
        }
    }

    /// Returns the open prompts, oldest first.
    pub fn prompts(&self) -> Vec<UserPrompt> {
        self.shared().map(|shared| shared.channels().prompts.open()).unwrap_or_default()
    }

    /// Answers a prompt. `digest` is that of the prompt that was shown.
    ///
    /// # Errors
    /// Returns an error if there is no such prompt, another answer came first, the prompt asks something
    /// else, or it is closed. Then the answer has no effect.
    pub fn answer(&self, id: PromptId, digest: &CallDigest, answer: UserAnswer) -> Result<(), AnswerError> {
        let shared = self.shared().ok_or(AnswerError::Closed)?;
        shared.channels().prompts.answer(id, digest, answer)
    }

    /// Sends a message to the model while the agent runs. The model receives it with the next results.
    ///
    /// # Errors
    /// Returns an error if the agent doesn't run, or if too many messages are waiting.
    pub fn say(&self, text: impl Into<String>) -> Result<(), NotSaid> {
        let shared = self.shared().ok_or(NotSaid)?;
        let run = lock(&shared.run).clone().ok_or(NotSaid)?;
        run.say(text).map_err(|_| NotSaid)
    }

    /// Interrupts as the user does: calls that may be cancelled are cancelled, the others finish.
    ///
    /// # Errors
    /// Returns an error if the session is closed.
    pub fn interrupt(&self) -> Result<(), SessionClosed> {
        let shared = self.shared().ok_or(SessionClosed)?;
        if let Some(run) = lock(&shared.run).as_ref() {
            run.interrupt();
        }
        for turn in shared.turns() {
            turn.interrupt();
        }
        Ok(())
    }

    /// Cancels everything that runs now, including calls that would rather finish.
    ///
    /// # Errors
    /// Returns an error if the session is closed.
    pub fn force(&self) -> Result<(), SessionClosed> {
        let shared = self.shared().ok_or(SessionClosed)?;
        if let Some(run) = lock(&shared.run).as_ref() {
            run.force();
        }
        for turn in shared.turns() {
            turn.cancel(Cause::User);
        }
        Ok(())
    }

    /// Moves a running call of the main agent to the background.
    ///
    /// # Errors
    /// Returns an error if the call doesn't run, or can't run in the background.
    pub fn detach(&self, call: CallKey) -> Result<DetachedCall, DetachError> {
        let shared = self.shared().ok_or_else(|| DetachError::new(SessionClosed.to_string()))?;
        let turn = shared.engine().running_turn(call.turn);
        let turn = turn.ok_or_else(|| DetachError::new("no call of this turn runs"))?;
        turn.detach(call.index).map_err(DetachError::new)
    }

    /// Returns the model usage of the runs that have ended, or `None` if the session is closed.
    /// [`Session::close`](crate::Session::close) returns the final sum.
    pub fn usage(&self) -> Option<TokenUsage> {
        self.shared().map(|shared| lock(&shared.usage).clone())
    }

    /// Returns the permission mode, or `None` if the session is closed.
    pub fn mode(&self) -> Option<PermissionMode> {
        self.shared().map(|shared| shared.policy().current())
    }

    /// Changes the permission mode. Every front end receives an event.
    ///
    /// # Errors
    /// Returns an error if settings forbid the mode, or if the session is closed. The mode doesn't change.
    pub fn set_mode(&self, mode: PermissionMode) -> Result<(), SetModeError> {
        let shared = self.shared().ok_or(SessionClosed)?;
        shared.policy().set_mode(mode)?;
        shared.channels().events.send(SessionEventKind::ModeChanged(mode));
        Ok(())
    }

    /// Attaches a front end until the guard is dropped. The front end has its own queue and its own task.
    /// Must be called on a Tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the session is closed.
    pub fn attach(&self, front_end: impl FrontEnd) -> Result<FrontEndGuard, SessionClosed> {
        let shared = self.shared().ok_or(SessionClosed)?;
        Ok(shared.channels().attach(Arc::new(front_end)))
    }
}

/// Detaches a front end when it is dropped.
#[must_use = "dropping it detaches the front end"]
pub struct FrontEndGuard {
    channels: WeakChannels,
    /// The ids of the front end in the channels.
    attached: AttachedFrontEnd,
}

impl FrontEndGuard {
    pub(crate) fn new(channels: WeakChannels, attached: AttachedFrontEnd) -> FrontEndGuard {
        FrontEndGuard { channels, attached }
    }
}

impl Drop for FrontEndGuard {
    fn drop(&mut self) {
        self.channels.detach(&self.attached);
    }
}

/// The error for a closed session: it was dropped, or [`Session::close`](crate::Session::close) was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionClosed;

impl fmt::Display for SessionClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the session is closed")
    }
}

impl std::error::Error for SessionClosed {}

/// Why the permission mode can't be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetModeError {
    /// Settings forbid the mode.
    Forbidden(ModeForbidden),
    /// The session is closed.
    Closed,
}

impl From<ModeForbidden> for SetModeError {
    fn from(forbidden: ModeForbidden) -> SetModeError {
        SetModeError::Forbidden(forbidden)
    }
}

impl From<SessionClosed> for SetModeError {
    fn from(_: SessionClosed) -> SetModeError {
        SetModeError::Closed
    }
}

impl fmt::Display for SetModeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetModeError::Forbidden(forbidden) => forbidden.fmt(f),
            SetModeError::Closed => SessionClosed.fmt(f),
        }
    }
}

impl std::error::Error for SetModeError {}

/// The error for a message to an agent that doesn't run, or that has too many waiting messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotSaid;

impl fmt::Display for NotSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the agent doesn't run, or too many messages wait for it")
    }
}

impl std::error::Error for NotSaid {}

/// Why a call can't run in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachError(String);

impl DetachError {
    fn new(message: impl Into<String>) -> DetachError {
        DetachError(message.into())
    }
}

impl fmt::Display for DetachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DetachError {}
