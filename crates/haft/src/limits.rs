//! Every bound of the engine, in one place: what grows has a limit, and the limit has a name.

/// How many entries one directory listing may have; a larger directory is refused as too large.
pub const LIST_ENTRIES_MAX: usize = 100_000;
/// How many bytes of one file a tool may take into memory at once.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Up to this many bytes a read runs on the calling task: from the page cache it takes microseconds.
pub const INLINE_IO_BYTES: usize = 256 * 1024;
/// How many symbolic links one path may lead through; the kernel's own bound.
pub const LINKS_MAX: usize = 40;
/// How many bytes a path may have; the kernel's bound without the final NUL.
pub const PATH_BYTES_MAX: usize = 4095;
/// How many bytes one name in a path may have.
pub const NAME_BYTES_MAX: usize = 255;
/// How often a path is resolved again because a link appeared between judging and opening.
pub const RESOLVE_TRIES_MAX: usize = 8;
/// How often an opening beneath a root is tried again when the kernel saw a rename go by.
pub const BENEATH_TRIES_MAX: usize = 32;
/// How many random names are tried for a temporary file.
pub const TEMP_NAME_TRIES_MAX: usize = 16;
/// How many roots a refusal lists before it only counts the rest.
pub const ROOTS_SHOWN_MAX: usize = 5;
/// How many characters of a path a message shows.
pub const PATH_CHARS_SHOWN_MAX: usize = 400;
