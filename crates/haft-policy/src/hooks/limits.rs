//! Limits of hooks.

use std::time::Duration;

/// The maximum number of handlers in settings.
pub const HOOKS_MAX: usize = 1_000;
/// The maximum number of handlers for one event. All matching handlers run at once.
pub const EVENT_HOOKS_MAX: usize = 128;
/// The maximum length of a matcher, in characters.
pub const MATCHER_CHARS_MAX: usize = 2_000;
/// The maximum number of backtracking steps of a matcher. A matcher that needs more counts as matching.
pub const MATCHER_STEPS_MAX: usize = 100_000;
/// The default timeout of a command or a request.
pub const TIMEOUT: Duration = Duration::from_secs(600);
/// The default timeout of hooks on a prompt, which the user waits for.
pub const TIMEOUT_PROMPT: Duration = Duration::from_secs(30);
/// The default timeout of hooks at the end of a session.
pub const TIMEOUT_SESSION_END: Duration = Duration::from_millis(1_500);
/// Added to the longest timeout of an event before the engine gives up all of its hooks, so that they can
/// be ended.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);
/// The maximum number of bytes that are read from each stream of a hook, or from a response.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum length of a hook's text that is passed on. A longer one goes to a file, and its beginning
/// and end are shown.
pub const TEXT_CHARS_MAX: usize = 10_000;
/// The maximum size of a tool's output as JSON that a hook receives. Of a longer one it gets a preview and
/// a path.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// The maximum length of a tool's error that a hook receives, in characters. The middle of a longer one is
/// omitted.
pub const ERROR_CHARS_MAX: usize = 10_000;
/// The maximum number of characters shown of a failed hook's output.
pub const FAILURE_CHARS_MAX: usize = 400;
/// The maximum number of characters of a command in its hook's name.
pub const LABEL_CHARS_MAX: usize = 80;
/// The maximum number of concurrent background hooks. Further ones are not started, and that is reported.
pub const BACKGROUND_MAX: usize = 32;
/// The maximum number of background reports that are kept until they are taken.
pub const REPORTS_MAX: usize = 64;
/// The maximum number of times in a row that hooks may keep an agent from stopping.
pub const STOP_BLOCKS_MAX: u32 = 8;
/// The maximum number of agents whose prevented stops are counted.
pub const STOPPING_AGENTS_MAX: usize = 1_000;
/// The number of bytes of a hook's first output in which a request to continue in the background is
/// recognized.
pub const ASYNC_REPLY_BYTES_MAX: usize = 4 * 1024;
/// The maximum number of permission changes that one hook may request.
pub const UPDATES_MAX: usize = 64;
