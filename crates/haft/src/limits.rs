//! Every bound of the engine, in one place: what grows has a limit, and the limit has a name.

/// The longest JSON text of one input, in bytes.
pub const INPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How deep objects and arrays of an input may nest. Every walk over an input recurses at most this far.
pub const INPUT_DEPTH_MAX: usize = 64;

/// The longest run-time schema, in bytes of its compact JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// How deep the JSON of a run-time schema may nest.
pub const SCHEMA_DEPTH_MAX: usize = 64;
/// How many subschemas a run-time schema may have once its `$ref`s are unrolled; cycles count once.
pub const SCHEMA_NODES_MAX: usize = 100_000;
/// How deep a run-time schema may nest once its `$ref`s are unrolled; cycles count once.
pub const SCHEMA_UNROLLED_DEPTH_MAX: usize = 256;
/// How many subschemas may apply to the same value one inside the other (`allOf`, `$ref`, …).
/// Together with [`INPUT_DEPTH_MAX`] it bounds the stack that validation needs.
pub const SCHEMA_HOPS_MAX: usize = 24;
/// How many regular expressions a run-time schema may hold.
pub const SCHEMA_PATTERNS_MAX: usize = 256;
/// The size of one compiled regular expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;

/// How many problems of one input are shown; the rest is counted.
pub const VIOLATIONS_MAX: usize = 20;
/// The longest message of one problem, in characters.
pub const VIOLATION_CHARS_MAX: usize = 400;
/// The longest path of one problem, in characters.
pub const VIOLATION_PATH_CHARS_MAX: usize = 120;
/// How much of an offending value is shown, in characters.
pub const VALUE_CHARS_MAX: usize = 60;
/// Inputs with more values than this report their first problem only, because all problems of a
/// large input would take far more memory than the input itself.
pub const VIOLATION_NODES_MAX: usize = 20_000;
/// How many explanations one problem may branch into where a schema contains itself through
/// alternatives; inputs so deep that there could be more are told that they do not fit, and no more.
pub const VIOLATION_PATHS_MAX: usize = 100_000;
/// How many nested subschemas the explanation of a problem may go through where a schema contains
/// itself. Explaining takes several times the stack of validating.
pub const VIOLATION_LEVELS_MAX: usize = 256;
/// How many steps one attempt to coerce an input may take.
pub const COERCE_STEPS_MAX: usize = 100_000;

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

/// Characters of one result that the model sees at once, where a tool states no limit of its own.
pub const RESULT_CHARS: usize = 100_000;

/// Characters that every result keeps, however many results share one turn's budget.
pub const RESULT_CHARS_MIN: usize = 200;

/// Characters of all results of one turn together.
pub const TURN_CHARS: usize = 400_000;

/// Characters that a result keeps when the turn's budget turns it into a preview.
pub const PREVIEW_CHARS: usize = 2_000;

/// Bytes of kept results in one offload folder; cleaning removes the oldest beyond it.
pub const OFFLOAD_BYTES_MAX: u64 = 1 << 30;

/// Characters of the tool's name in the name of an offload file.
pub const OFFLOAD_HINT_CHARS: usize = 24;

/// Names tried for one offload file before giving up.
pub const OFFLOAD_NAME_TRIES: usize = 16;

/// Characters of the reason that a preview gives for a result that could not be kept.
pub const OFFLOAD_REASON_CHARS: usize = 120;
