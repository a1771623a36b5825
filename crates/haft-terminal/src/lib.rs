//! The screen on which a person watches a run, approves calls, types and interrupts.
//!
//! ```text
//! RunEvent ──▶ inbox ──▶ story ──▶ finished lines ──▶ scrollback      keys ──▶ input line ──▶ Typed ──▶ host
//!  (bounded, merged)       └─────▶ what is open ────▶ live part           └──▶ question ───▶ Answer ──▶ engine
//! ```
//!
//! **No second screen.** What is finished is printed as lines and belongs to the terminal: it can be scrolled, searched,
//! copied, and is still there afterwards. Only a part at the bottom is live and redrawn: open calls, a question, the input
//! line. A full-screen program would have to bring its own scrolling, search and selection, keep everything that was ever
//! said in memory, and leave nothing behind. The price is that a finished line can't change: results are folded for good
//! (Ctrl-O prints them again, whole), and lines keep the width that they had.
//!
//! **No terminal library.** What is needed is a renderer of a few lines, a decoder of keys, and termios, which the binary
//! has already. A library for full screens would be most of the build and do the lesser part of it.
//!
//! **Nothing that others wrote reaches the terminal as it is.** Lines can only be made of safe text; see [`Line`].
//! What is shown of a call is its tool's view, and no tool is known here by name.
//!
//! Starts no process, reads no environment and no settings: a host gives what is needed.

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
pub use screen::{OutsideEditor, Remote, Screen, ScreenAsker, ScreenOptions, ScreenSink, show};
pub use style::{ColorMode, Line, Style};
pub use text::thousands;
pub use user_input::{SlashCommand, UserInput};
