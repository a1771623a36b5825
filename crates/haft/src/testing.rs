//! Doubles for tests of tools, hosts and the engine itself: everything in memory, scripted and recorded.
//!
//! Behind the feature `testing`. There is a double for every [port](crate::ports), a [tool](scripted_tool)
//! whose test says when it ends, a [caller](TestCaller) in place of a model, and a [clock](ManualClock) that
//! stands still. None of them sleeps: a test waits for what happened, not for a time in which it should have
//! happened.
//!
//! Clones of a double share what it holds, so a test gives one to the engine and asks the other:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use haft::testing::{TestCaller, ScriptedAsker, scripted_tool};
//! use haft::{Effects, ports::ApprovalAnswer};
//! use serde_json::json;
//!
//! let (write, handle) = scripted_tool("write").effects(|_| Effects::writes("a.txt")).build();
//! let asker = ScriptedAsker::new().then(ApprovalAnswer::Once);
//! let caller = TestCaller::new().tool(write).engine(|engine| engine.asker(asker.clone()));
//!
//! let turn = caller.start([("1", "write", json!({})), ("2", "wrote", json!({}))]);
//! handle.started().await.succeed("written");
//! turn.results().await.check(["1 ok: written", "2 UnknownTool: no tool named `wrote`; closest: `write`"]);
//! assert_eq!(asker.approvals()[0].tool, "write");
//! # }
//! ```
//!
//! Background tasks need no double: [`TaskTable`](crate::dispatch::TaskTable) is in memory as it is. Rules
//! neither: [`Permissions`](crate::PermissionRules) is.

mod asker;
mod caller;
mod clock;
mod events;
mod files;
mod hooks;
mod mode;
mod processes;
mod queue;
mod recorder;
mod restrictions;
mod sub_agents;
mod tool;

pub use asker::{PendingApproval, ScriptedAsker};
pub use caller::{IntoCall, RunningTurn, TestCaller, TurnResults, test_context};
pub use clock::{ManualClock, let_tasks_run};
pub use events::EventLog;
pub use files::MemoryFiles;
pub use hooks::{HookInvocation, TestHook};
pub use mode::LiveMode;
pub use processes::ScriptedProcesses;
pub use recorder::{MemoryRecorder, RecordedNote};
pub use restrictions::with_restrictions;
pub use sub_agents::ScriptedSubAgents;
pub use tool::{ScriptedBody, ScriptedTool, StartedCall, ToolHandle, scripted_tool};
