//! The events that fire.
//!
//! Settings accept all names ([`EVENTS`](crate::settings::EVENTS)). This file lists those that the engine
//! fires, or that a loop can fire through [`Hooks`](super::Hooks). Hooks for other events are listed and
//! never run.

use std::fmt;

/// An event that fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a valid call is authorized.
    PreToolUse,
    /// After a call succeeded.
    PostToolUse,
    /// After a call failed.
    PostToolUseFailure,
    /// After all calls of a message.
    PostToolBatch,
    /// When a call would ask the user.
    PermissionRequest,
    /// When a call was denied.
    PermissionDenied,
    /// When the user is notified.
    Notification,
    /// When the user sends a message.
    UserPromptSubmit,
    /// When a session begins.
    SessionStart,
    /// When a session ends.
    SessionEnd,
    /// When the main agent is about to stop.
    Stop,
    /// When a sub-agent is about to stop.
    SubagentStop,
    /// Before a conversation is compacted.
    PreCompact,
}

impl HookEvent {
    /// All events.
    pub const ALL: [HookEvent; 13] = [
        HookEvent::PreToolUse,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::PostToolBatch,
        HookEvent::PermissionRequest,
        HookEvent::PermissionDenied,
        HookEvent::Notification,
        HookEvent::UserPromptSubmit,
        HookEvent::SessionStart,
        HookEvent::SessionEnd,
        HookEvent::Stop,
        HookEvent::SubagentStop,
        HookEvent::PreCompact,
    ];

    /// Returns the name in settings.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::PreToolUse => "PreToolUse",
            HookEvent::PostToolUse => "PostToolUse",
            HookEvent::PostToolUseFailure => "PostToolUseFailure",
            HookEvent::PostToolBatch => "PostToolBatch",
            HookEvent::PermissionRequest => "PermissionRequest",
            HookEvent::PermissionDenied => "PermissionDenied",
            HookEvent::Notification => "Notification",
            HookEvent::UserPromptSubmit => "UserPromptSubmit",
            HookEvent::SessionStart => "SessionStart",
            HookEvent::SessionEnd => "SessionEnd",
            HookEvent::Stop => "Stop",
            HookEvent::SubagentStop => "SubagentStop",
            HookEvent::PreCompact => "PreCompact",
        }
    }

    /// Returns the event of this name, if it fires.
    pub fn from_name(name: &str) -> Option<HookEvent> {
        HookEvent::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Returns whether a failing hook blocks by default, because the event guards a call that has not run
    /// yet.
    pub fn is_gate(self) -> bool {
        matches!(self, HookEvent::PreToolUse | HookEvent::PermissionRequest)
    }

    /// Returns whether the event is about one call: then `if` applies, and a matcher matches the tool.
    pub fn is_of_call(self) -> bool {
        matches!(
            self,
            HookEvent::PreToolUse
                | HookEvent::PostToolUse
                | HookEvent::PostToolUseFailure
                | HookEvent::PermissionRequest
                | HookEvent::PermissionDenied
        )
    }

    /// Returns whether a matcher applies. Otherwise all hooks of the event run.
    pub(super) fn has_matcher(self) -> bool {
        !matches!(self, HookEvent::PostToolBatch | HookEvent::UserPromptSubmit | HookEvent::Stop)
    }

    /// Returns whether output that is not JSON goes to the model.
    pub(super) fn takes_text(self) -> bool {
        matches!(self, HookEvent::SessionStart | HookEvent::UserPromptSubmit)
    }

    /// Returns whether `onFailure: "block"` has an effect beyond the gates.
    pub(super) fn may_block_on_failure(self) -> bool {
        !matches!(self, HookEvent::Stop | HookEvent::SubagentStop | HookEvent::Notification)
            && !matches!(self, HookEvent::SessionStart | HookEvent::SessionEnd | HookEvent::PermissionDenied)
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EVENTS;

    #[test]
    fn settings_and_hooks_agree_on_what_fires() {
        let fires: Vec<&str> = EVENTS.iter().filter(|(_, fires)| *fires).map(|(name, _)| *name).collect();
        let mut here: Vec<&str> = HookEvent::ALL.iter().map(|event| event.name()).collect();
        assert_eq!(here.len(), fires.len());
        here.retain(|name| !fires.contains(name));
        assert_eq!(here, [""; 0]);
        assert_eq!(EVENTS.len(), 33);
        assert!(EVENTS.iter().all(|(name, fires)| HookEvent::from_name(name).is_some() == *fires));
    }
}
