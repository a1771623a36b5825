//! The screen in a real terminal: tmux runs the example, presses keys and looks at what stands there.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod stage;
mod terminal;
