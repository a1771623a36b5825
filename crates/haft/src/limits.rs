//! Every bound of the engine, in one place: what grows has a limit, and the limit has a name.

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
