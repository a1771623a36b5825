//! Limits of the journal.

/// The maximum length of a line, in bytes. A longer record is replaced by a note.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A record of this length is written without copying it into the line buffer, in bytes.
pub const COPIED_BYTES_MAX: usize = 256 * 1024;
/// How many bytes may wait for the disk before new records are rejected.
pub const QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The largest file that is hashed before a call that may change it, in bytes. For larger files,
/// size and time are recorded.
pub const HASHED_BYTES_MAX: u64 = 1024 * 1024;
/// How many of a call's declared files are recorded before it runs.
pub const FILES_PER_CALL_MAX: usize = 64;
/// How many calls outside of the conversation the model is told about after a resume; the newest
/// count.
pub const STRAY_CALLS_MAX: usize = 100;
/// The maximum length of one text in a record, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The shortest value that is redacted. Shorter values would match ordinary text.
pub const SECRET_CHARS_MIN: usize = 6;
/// How many sessions a listing shows and a cleanup examines.
pub const SESSIONS_MAX: usize = 100_000;
/// The default retention of sessions, in days.
pub const KEPT_DAYS: u64 = 30;
/// The default limit for all sessions together, in bytes.
pub const KEPT_BYTES: u64 = 1024 * 1024 * 1024;
