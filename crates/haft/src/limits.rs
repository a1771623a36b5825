//! Every bound of the engine, in one place: what grows has a limit, and the limit has a name.

use std::time::Duration;

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
/// Together with `INPUT_DEPTH_MAX` it bounds the stack that validation needs.
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

/// How many hosts may be granted to a child while it runs.
pub const HOST_GRANTS_MAX: usize = 256;
/// How many questions about hosts the user is asked while one call runs.
pub const HOST_QUESTIONS_MAX: usize = 3;
/// How many undone changes one question to the user names.
pub const UNDONE_SHOWN_MAX: usize = 8;
/// How many refusals of such a child are kept until somebody asks for them.
pub const HOST_REFUSALS_MAX: usize = 100;

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
/// How many places outside of the workspace are held open for a call from its authorization on; further ones
/// are looked up when it starts.
pub const HELD_PLACES_MAX: usize = 64;
/// How long a write waits for other processes that write in the same folder, before it is an error.
pub const FOLDER_LOCK_WAIT: Duration = Duration::from_secs(20);
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

/// Bytes of one stream of a child process that are kept in memory, where a request states no bound of its
/// own; of a longer one the beginning and the end.
pub const PROCESS_OUTPUT_BYTES: usize = 1024 * 1024;

/// Bytes of a child's output that one file takes when it is too long for memory. What comes after is read and
/// dropped.
pub const SPILL_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How many calls of an agent run at once, unless the host says otherwise.
pub const CONCURRENCY: usize = 10;
/// How many calls of an agent are prepared at once. Calls that wait for the user don't count.
pub const PREPARING_MAX: usize = 32;
/// How many calls of an agent may be unfinished when another one is submitted. Calls of turns count and
/// aren't refused.
pub const UNFINISHED_CALLS_MAX: usize = 4096;
/// How often the input of one call may be rewritten by guards, hooks and the user.
pub const REWRITES_MAX: usize = 3;
/// How often one call may be tried.
pub const ATTEMPTS_MAX: u32 = 10;
/// The longest pause between two attempts.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long a call may run, unless its tool says otherwise.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a call that is past its limit has to end before it is answered in its place. One that was
/// cancelled has until the second look of the watchdog.
pub const CANCEL_GRACE: Duration = Duration::from_millis(100);
/// How long the timer of a session stays set after its last call.
pub const SUPERVISOR_IDLE: Duration = Duration::from_secs(1);
/// How long one hook may take, unless it says otherwise.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a tool's own check, opinion or guard may take.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the recorder may take for one note.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the watchdog looks for calls that keep a thread busy.
pub const WATCHDOG_PERIOD: Duration = Duration::from_millis(250);
/// For how long a call may keep a thread busy before that is reported.
pub const BLOCKING_REPORTED_AFTER: Duration = Duration::from_millis(500);
/// How many threads of blocking calls that were given up there may be; then further blocking calls are
/// refused.
pub const ABANDONED_THREADS_MAX: usize = 64;
/// How many calls of a session may run in the background.
pub const TASKS_MAX: usize = 500;
/// Agents that are told only once of a background task that may touch anything; any more are told at each
/// call.
pub const BACKGROUND_AGENTS_TOLD_MAX: usize = 64;
/// How many background tasks are remembered, ended ones included.
pub const TASKS_KEPT_MAX: usize = 1_000;

/// The longest name of a tool; what every provider takes.
pub const NAME_CHARS_MAX: usize = 64;
/// With more tools than this, those that can be are deferred.
pub const DEFER_ABOVE: usize = 60;
/// So they are if all definitions take more than this part of the model's window, in percent.
pub const DEFER_ABOVE_PERCENT: u8 = 10;
/// How many tools a search returns, where nothing is said.
pub const SEARCH_RESULTS: usize = 5;
/// How many tools one search may return or select.
pub const SEARCH_RESULTS_MAX: usize = 20;
/// How much of a query is looked at, in characters.
pub const SEARCH_QUERY_CHARS_MAX: usize = 500;
/// How many words of a query are looked at.
pub const SEARCH_WORDS_MAX: usize = 16;
/// How many close names are given for an unknown one.
pub const CLOSEST_MAX: usize = 3;

/// The longest message of an error.
pub const ERROR_CHARS_MAX: usize = 10_000;
/// The longest words of one hook for the model.
pub const NOTE_CHARS_MAX: usize = 10_000;
/// How many hooks may say something about one call.
pub const NOTES_MAX: usize = 16;
/// The longest link in a result, address and name together.
pub const LINK_BYTES_MAX: usize = 4_096;
/// The longest message of a progress event.
pub const PROGRESS_CHARS_MAX: usize = 500;
/// The longest part of output in one event.
pub const PARTIAL_CHARS_MAX: usize = 16_000;
/// The longest title or summary of a view.
pub const VIEW_TITLE_CHARS_MAX: usize = 500;
/// The longest text in a view.
pub const VIEW_CHARS_MAX: usize = 100_000;
/// How many lines a change in a view may have.
pub const VIEW_LINES_MAX: usize = 5_000;
/// How many parts a view may have.
pub const VIEW_PARTS_MAX: usize = 32;

/// How much address space the process of an isolated tool, and of a decoder of foreign data, may have, in
/// bytes.
pub const ISOLATED_MEMORY_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// The stack of the thread on which isolated code runs, in bytes; memory is only used as far as it is needed.
pub const ISOLATED_STACK_BYTES: usize = 64 * 1024 * 1024;
/// The longest result of isolated code, in bytes of JSON; pictures are in it as base64.
pub const ISOLATED_RESULT_BYTES_MAX: usize = 128 * 1024 * 1024;
/// The margin between the timeout of an isolated tool, which the engine enforces, and that of its process.
pub const ISOLATED_ENDING: Duration = Duration::from_secs(10);

/// How many calls of a session are remembered for tools that compare what was done.
pub const PAST_CALLS_MAX: usize = 1_000;
/// How much text of one remembered call's input is kept, in characters.
pub const PAST_CALL_CHARS_MAX: usize = 4_000;
/// How long one text of a remembered call is at most, in characters.
pub const PAST_CALL_TEXT_CHARS_MAX: usize = 1_000;
