//! Every bound of this crate: what grows has a limit, and the limit has a name.

/// The longest words of a provider's error that are passed on, in characters.
pub const FAILURE_CHARS_MAX: usize = 2_000;
/// How often in a row a model may be asked again because its turn was paused.
pub const PAUSES_MAX: u32 = 50;
/// How often in a row a message may end in the middle of a call before the loop gives up.
pub const CUT_CALLS_MAX: u32 = 3;
/// How often in a row a message may break off before the loop gives up.
pub const BROKEN_MAX: u32 = 3;
/// How often in a row the host's hook may make the model continue.
pub const CONTINUES_MAX: u32 = 20;
/// How long calls that can't be cancelled may go on after the time of a run is over, in seconds. Then they
/// are stopped.
pub const OVERTIME_SECONDS_MAX: u64 = 10;
/// How many messages of the user wait while something runs; more are refused.
pub const WAITING_MESSAGES_MAX: usize = 64;
/// How many of the newest results keep their content when room is made, by default.
pub const KEPT_RESULTS: usize = 5;
/// How full the model's window may be before room is made, in percent.
pub const WINDOW_PERCENT_MAX: u64 = 80;
/// The longest summary that is kept, in characters.
pub const SUMMARY_CHARS_MAX: usize = 100_000;
/// How many characters the names of tools may take that the model has to search for. Of more it is told by
/// their sources.
pub const DEFERRED_NAMES_CHARS_MAX: usize = 20_000;
