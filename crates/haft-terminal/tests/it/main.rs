//! The screen in a real terminal: tmux runs the example, presses keys and looks at what stands there.

mod stage;
mod terminal;
