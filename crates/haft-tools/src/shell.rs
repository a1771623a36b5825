//! Tools that run commands, and look after those that run in the background.

pub mod bash;
pub mod monitor;
pub mod task_output;
pub mod task_stop;

pub use bash::Bash;
pub use monitor::Monitor;
pub use task_output::TaskOutput;
pub use task_stop::TaskStop;
