//! What a run of the agent loop needs beside the session: the model, the system prompt, the user's hooks, the journal.

pub mod hooks;
pub mod kept;
pub mod memory;
pub mod plan;
pub mod planned;
pub mod prepared;
pub mod prompt;
pub mod provider;
pub mod proxy;
pub(crate) mod running_session;
mod single_call;

pub use prompt::surroundings;
