//! Every bound of the screen: what grows has a limit, and the limit has a name.

use std::time::Duration;

/// The shortest time between two frames: about thirty in a second.
pub const FRAME: Duration = Duration::from_millis(33);
/// How often a spinner moves.
pub const SPIN: Duration = Duration::from_millis(100);
/// How long a question has to be on the screen before a key can answer it. Keys that come earlier were typed for
/// something else, and go to the input line.
pub const QUESTION_SEEN: Duration = Duration::from_millis(250);
/// How long the rest of a key that began with escape may take.
pub const ESCAPE_WAIT: Duration = Duration::from_millis(40);

/// How much text of the model waits for the screen, in bytes. What comes while so much waits is left out, and said.
pub const WAITING_TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How many events wait for the screen. Progress and partial output are dropped from half of it on.
pub const WAITING_EVENTS_MAX: usize = 8_192;
/// How many things that the user typed wait for the host.
pub const TYPED_MAX: usize = 64;

/// The longest line of an answer that is laid out as one, in bytes; the rest goes on as another.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// How many rows of a table are laid out together.
pub const TABLE_ROWS_MAX: usize = 200;
/// How many columns a table may have; one with more is shown as it was written.
pub const TABLE_COLUMNS_MAX: usize = 24;
/// How deep emphasis may nest.
pub const INLINE_DEPTH_MAX: usize = 6;
/// How many marks one character may carry; more are shown as what they are.
pub const MARKS_MAX: usize = 8;

/// The widest that a call's line gets.
pub const ROW_COLUMNS_MAX: usize = 110;
/// How many lines of a change are shown with a call that has ended.
pub const DIFF_LINES: usize = 16;
/// How many lines of a result are shown with a call that has ended.
pub const RESULT_LINES: usize = 5;
/// How many lines of a reason why a call failed are shown.
pub const REASON_LINES: usize = 4;
/// How many lines of what the model is writing into a call are shown.
pub const WRITING_LINES: usize = 8;
/// How many lines are shown when everything is asked for.
pub const UNFOLDED_LINES_MAX: usize = 5_000;
/// How much of an input that is still being written is kept to be shown, in bytes of JSON.
pub const WRITING_BYTES_MAX: usize = 256 * 1024;
/// How much of it is given to the tool's view.
pub const VIEWED_BYTES_MAX: usize = 64 * 1024;
/// How deep that input may nest.
pub const WRITING_DEPTH_MAX: usize = 32;

/// The longest text that can be typed or pasted, in bytes.
pub const TYPED_BYTES_MAX: usize = 1024 * 1024;
/// How many lines of the text that is typed are shown at once.
pub const TYPED_LINES: usize = 10;
/// How many texts the history keeps.
pub const HISTORY_MAX: usize = 1_000;
/// The longest text that the history keeps, in bytes.
pub const HISTORY_TEXT_BYTES_MAX: usize = 16 * 1024;
/// The largest file of the history that is read, in bytes.
pub const HISTORY_FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The longest sequence of bytes that can be one key.
pub const KEY_BYTES_MAX: usize = 64;
