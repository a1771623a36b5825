//! Bounds of the journal.

/// The longest line, in bytes. What would be longer is cut in its values, and says so.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A record of this length is written by itself, in bytes; shorter ones are put together first.
pub const COPIED_BYTES_MAX: usize = 256 * 1024;
/// How much may wait for the disk before calls that change something are refused, in bytes.
pub const QUEUE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The largest file whose content is hashed before a call may change it, in bytes. Of larger ones size and time are kept.
pub const HASHED_BYTES_MAX: u64 = 1024 * 1024;
/// How many of the files that a call declares are looked at before it runs.
pub const LOOKED_FILES_MAX: usize = 64;
/// How many calls without a place in the conversation a model is told of when a session goes on, the newest.
pub const STRAY_TOLD_MAX: usize = 100;
/// The most of one text in a record, in bytes.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The shortest value that is taken for a secret: shorter ones would be found everywhere.
pub const SECRET_CHARS_MIN: usize = 6;
/// How many sessions a list shows and a cleaning looks at.
pub const SESSIONS_MAX: usize = 100_000;
/// How long sessions are kept unless settings say something else, in days.
pub const KEPT_DAYS: u64 = 30;
/// How much all sessions together may take unless settings say something else, in bytes.
pub const KEPT_BYTES: u64 = 1024 * 1024 * 1024;
