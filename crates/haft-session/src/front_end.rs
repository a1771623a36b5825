//! Front ends: [`FrontEnd`] shows a session and answers its prompts.

use std::sync::Arc;

use haft::future::BoxFuture;
use haft::ports::Asker;

use crate::events::SessionEvent;
use crate::prompts::{PromptKind, UserAnswer, UserPrompt, ask_through};

/// Shows a session and answers its prompts: a terminal, a web page, a test.
///
/// An [attached](crate::SessionHandle::attach) front end has its own queue and its own task, so a slow one
/// delays nothing. All front ends that can ask are asked at the same time. The first valid answer counts,
/// and the other futures are dropped.
pub trait FrontEnd: Send + Sync + 'static {
    /// Returns the name, for events that say which front end answered.
    fn name(&self) -> &str;

    /// Receives one event.
    fn show(&self, event: &SessionEvent);

    /// Returns whether this front end currently answers prompts of this kind. The default is false. Without
    /// a front end that does, calls that would ask are denied.
    fn can_ask(&self, kind: PromptKind) -> bool {
        let _ = kind;
        false
    }

    /// Asks the user. `None` leaves the answer to the other front ends.
    ///
    /// # Cancel safety
    /// The future is dropped when another front end answers or the call is cancelled. The prompt should
    /// then disappear.
    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        let _ = prompt;
        Box::pin(std::future::ready(None))
    }
}

/// Answers prompts through an [`Asker`], and shows nothing.
pub(crate) struct AskerFrontEnd {
    pub(crate) name: &'static str,
    pub(crate) asker: Arc<dyn Asker>,
}

impl FrontEnd for AskerFrontEnd {
    fn name(&self) -> &str {
        self.name
    }

    fn show(&self, _: &SessionEvent) {}

    fn can_ask(&self, _: PromptKind) -> bool {
        self.asker.is_available()
    }

    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        ask_through(&*self.asker, prompt)
    }
}

/// Shows events by calling a function.
pub(crate) struct EventFunction(pub(crate) Arc<dyn Fn(&SessionEvent) + Send + Sync>);

impl FrontEnd for EventFunction {
    fn name(&self) -> &str {
        "on_event"
    }

    fn show(&self, event: &SessionEvent) {
        (self.0)(event);
    }
}

pub(crate) type PromptHandler = Arc<dyn Fn(UserPrompt) -> BoxFuture<'static, UserAnswer> + Send + Sync>;

/// Answers prompts by calling a function.
pub(crate) struct PromptFunction(pub(crate) PromptHandler);

impl FrontEnd for PromptFunction {
    fn name(&self) -> &str {
        "on_prompt"
    }

    fn show(&self, _: &SessionEvent) {}

    fn can_ask(&self, _: PromptKind) -> bool {
        true
    }

    fn ask<'a>(&'a self, prompt: &'a UserPrompt) -> BoxFuture<'a, Option<UserAnswer>> {
        let answer = (self.0)(prompt.clone());
        Box::pin(async move { Some(answer.await) })
    }
}
