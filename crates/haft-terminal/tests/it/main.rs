//! The screen in a real terminal: tmux runs the example, presses keys and reads the terminal's
//! contents.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod stage;
mod terminal;
