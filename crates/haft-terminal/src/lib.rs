//! The screen of a run: shows it live, asks for approvals, reads input and interrupts.
//!
//! ```text
//! RunEvent ─▶ inbox ─▶ transcript ─▶ finished lines ─▶ scrollback   keys ─▶ input line ─▶ UserInput ─▶ host
//!  (bounded, merged)       └───────▶ open calls ─────▶ live region   └────▶ prompt panel ─▶ Answer ─▶ engine
//! ```
//!
//! **No alternate screen.** Finished output is printed as lines and belongs to the terminal: users
//! can scroll, search and copy it, and it stays after the program ends. Only a region at the bottom
//! is live and redrawn: open calls, a question, the input line. A full-screen program would have to
//! implement scrolling, search and selection, keep the whole session in memory, and leave nothing
//! behind. The disadvantage: a finished line can't change. Long results stay folded (Ctrl-O prints
//! them again in full), and lines keep their width when the terminal is resized.
//!
//! **No terminal library.** The crate needs a line renderer, a key decoder and termios, which the
//! binary already contains. A full-screen library would be most of the build and solve the smaller
//! part of the problem.
//!
//! **No untrusted text reaches the terminal unescaped.** Lines are built from sanitized text only;
//! see [`Line`]. A call is shown by its tool's view; this crate knows no tool by name.
//!
//! The crate starts no processes and reads no environment variables or settings: the host passes
//! everything in.

#[doc(hidden)]
pub mod bench;
mod call_row;
mod choice_list;
mod folded_lines;
mod frame_painter;
mod history;
mod inbox;
mod key_decoder;
pub mod limits;
mod line_editor;
mod markdown;
pub mod output_mode;
#[cfg(doctest)]
mod pages;
mod partial_input;
mod plain_lines;
mod plot;
mod question;
mod raw_terminal;
mod screen;
mod screen_thread;
mod style;
mod text;
mod transcript;
mod user_input;

pub use output_mode::OutputMode;
pub use plain_lines::PlainLines;
pub use plot::{bar, spark};
pub use raw_terminal::restore;
pub use screen::{ExternalEditor, Screen, ScreenAsker, ScreenHandle, ScreenOptions, ScreenSink, show};
pub use style::{ColorMode, Line, Style};
pub use text::thousands;
pub use user_input::{SlashCommand, UserInput};
