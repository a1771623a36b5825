//! Plans: what `EnterPlanMode`, `ExitPlanMode` and `VerifyPlan` share of a session.
//!
//! That nothing is changed while a plan is made is the permission mode's work, for all agents of a session
//! and whatever tool tries: nothing here blocks anything. What is remembered is the mode from before, and the
//! plan that was approved.

pub(crate) mod steps;
pub(crate) mod verify_steps;

#[cfg(test)]
mod tests;

use haft::ports::PermissionMode;
use haft::{Context, ToolError};

use serde::{Deserialize, Serialize};

use crate::per_session::PerSession;
use crate::session_folders::SessionFolders;

/// The longest plan, in characters.
pub const PLAN_CHARS_MAX: usize = 50_000;
/// The state that the mode of a session is.
pub const STATE: &str = "session:mode";
/// The agent of a session that nobody started.
const MAIN: &str = "main";

/// The plans of sessions. Clones share them.
#[derive(Clone)]
pub struct SessionPlans(PerSession<PlanState>);

impl Default for SessionPlans {
    fn default() -> SessionPlans {
        SessionPlans::kept_in(&SessionFolders::default())
    }
}

/// What is known of one session.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PlanState {
    /// The mode from before, if a call began the planning. Not kept: a session that is continued may have
    /// been given less.
    #[serde(skip)]
    pub(crate) before: Option<PermissionMode>,
    /// Whether a call began the planning and no plan was approved since.
    #[serde(default)]
    pub(crate) plans: bool,
    /// The plan that was approved last.
    pub(crate) approved: Option<ApprovedPlan>,
}

/// A plan that was approved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ApprovedPlan {
    pub(crate) text: String,
    /// The number of the last call before it was.
    #[serde(default)]
    pub(crate) after: u64,
}

impl SessionPlans {
    /// Plans that are kept in the folders of their sessions.
    pub fn kept_in(shelf: &SessionFolders) -> SessionPlans {
        SessionPlans(PerSession::new(shelf, "plan.json"))
    }

    /// Whether a session planned when it was last kept: a call had begun that, and no plan was approved
    /// since.
    ///
    /// A host that continues it sets the mode `plan` again, so that nothing is changed that nobody has
    /// approved.
    pub fn is_planning(&self, session: &str) -> bool {
        self.0.kept(session).is_some_and(|planned| planned.plans)
    }

    pub(crate) fn with<R>(&self, cx: &Context, look: impl FnOnce(&mut PlanState) -> R) -> R {
        self.0.with(cx, look)
    }
}

/// Only the session's own agent changes the mode: a sub-agent would take it from under its parent's hands.
pub(crate) fn own_agent(cx: &Context, instead: &str) -> Result<(), ToolError> {
    match cx.call().agent_id() {
        MAIN => Ok(()),
        agent => Err(ToolError::invalid_input(format!(
            "`{agent}` is a sub-agent and can't change the mode of the session; {instead}"
        ))),
    }
}

pub(crate) fn permission_mode(cx: &Context) -> Result<&dyn haft::ports::ModeControl, ToolError> {
    cx.ports().mode().ok_or_else(|| ToolError::new("this host has no permission modes; go on without"))
}
