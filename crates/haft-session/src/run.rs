//! The parts of an agent run besides the session: the model, the system prompt, the user's hooks, the
//! journal.

pub mod memory;
pub mod plan;
pub mod prepared;
pub mod prompt;
pub mod provider;
pub mod proxy;
pub mod run_hooks;
pub mod run_journal;
pub(crate) mod running_session;
pub mod scheduled_prompts;
mod single_call;
pub(crate) mod single_reply;

pub use prompt::describe_workspace;
