//! All limits of the screen.

use std::time::Duration;

/// The shortest time between two frames: about thirty per second.
pub const FRAME: Duration = Duration::from_millis(33);
/// The interval of spinner frames.
pub const SPIN: Duration = Duration::from_millis(100);
/// How long a question must be visible before a key can answer it. Earlier keys were typed for
/// something else and go to the input line.
pub const QUESTION_SEEN: Duration = Duration::from_millis(250);
/// How long the decoder waits for the rest of an escape sequence.
pub const ESCAPE_WAIT: Duration = Duration::from_millis(40);

/// How much text of the model may wait for the screen, in bytes. Further text is dropped and
/// counted.
pub const WAITING_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many events may wait for the screen. Progress and partial output are dropped from half of it
/// on.
pub const WAITING_EVENTS_MAX: usize = 8_192;
/// How many user inputs may wait for the host.
pub const TYPED_MAX: usize = 64;

/// The longest line of an answer that is laid out as one, in bytes; the rest becomes another line.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// How many rows of a table are laid out together.
pub const TABLE_ROWS_MAX: usize = 200;
/// How many columns a table may have; a table with more is shown as its source.
pub const TABLE_COLUMNS_MAX: usize = 24;
/// How deep emphasis may nest.
pub const INLINE_DEPTH_MAX: usize = 6;
/// How many combining marks one character may carry; further marks are escaped.
pub const MARKS_MAX: usize = 8;

/// The maximum width of a call's line.
pub const ROW_COLUMNS_MAX: usize = 110;
/// How many lines of a diff are shown for a finished call.
pub const DIFF_LINES: usize = 16;
/// How many lines of a result are shown for a finished call.
pub const RESULT_LINES: usize = 5;
/// How many lines of an error message are shown.
pub const REASON_LINES: usize = 4;
/// How many lines of an input are shown while the model writes it.
pub const WRITING_LINES: usize = 8;
/// How many lines are shown when everything is requested.
pub const UNFOLDED_LINES_MAX: usize = 5_000;
/// How much of a partial input is stored, in bytes of JSON.
pub const WRITING_BYTES_MAX: usize = 256 * 1024;
/// How much of it is passed to the tool's view, in bytes.
pub const VIEWED_BYTES_MAX: usize = 64 * 1024;
/// How deep a partial input may nest.
pub const WRITING_DEPTH_MAX: usize = 32;

/// The longest text that can be typed or pasted, in bytes.
pub const TYPED_BYTES_MAX: usize = 1024 * 1024;
/// How many lines of the input are visible.
pub const TYPED_LINES: usize = 10;
/// How many entries the history keeps.
pub const HISTORY_MAX: usize = 1_000;
/// The longest entry of the history, in bytes.
pub const HISTORY_TEXT_BYTES_MAX: usize = 16 * 1024;
/// The largest history file that is read, in bytes.
pub const HISTORY_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The longest byte sequence of one key.
pub const KEY_BYTES_MAX: usize = 64;
