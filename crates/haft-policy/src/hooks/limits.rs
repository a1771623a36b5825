//! The bounds of hooks.

use std::time::Duration;

/// How many handlers settings may configure in all.
pub const HOOKS_MAX: usize = 1_000;
/// How many handlers one event may have; those that match run at once.
pub const EVENT_HOOKS_MAX: usize = 128;
/// The longest matcher, in characters.
pub const MATCHER_CHARS_MAX: usize = 2_000;
/// How many steps one match of a matcher may go back; a matcher that needs more counts as matching.
pub const MATCHER_STEPS_MAX: usize = 100_000;
/// How long a command or a request may take, unless it says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(600);
/// The same for hooks on a prompt, which the user waits for.
pub const TIMEOUT_PROMPT: Duration = Duration::from_secs(30);
/// The same for hooks at the end of a session.
pub const TIMEOUT_SESSION_END: Duration = Duration::from_millis(1_500);
/// What is added to the longest limit of an event before the engine gives up all of its hooks: time to end them.
pub const TIMEOUT_GRACE: Duration = Duration::from_secs(10);
/// Bytes of each stream of a hook, or of the answer to a request, that are read.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// The longest text of a hook that is passed on; a longer one goes to a file, and its beginning and end are shown.
pub const TEXT_CHARS_MAX: usize = 10_000;
/// The longest JSON of a tool's output that a hook is given; of a longer one it gets a preview and a path.
pub const RESPONSE_BYTES_MAX: usize = 1024 * 1024;
/// The longest error of a tool that a hook is given, in characters; of a longer one the middle is left out.
pub const ERROR_CHARS_MAX: usize = 10_000;
/// How many characters of what a failed hook said are shown.
pub const FAILURE_CHARS_MAX: usize = 400;
/// How many characters of a command stand for its hook.
pub const LABEL_CHARS_MAX: usize = 80;
/// How many hooks may run in the background at once; further ones are not started, and that is reported.
pub const BACKGROUND_MAX: usize = 32;
/// How many reports of hooks in the background are kept until somebody takes them.
pub const REPORTS_MAX: usize = 64;
/// How often in a row hooks may keep an agent from stopping.
pub const STOP_BLOCKS_MAX: u32 = 8;
/// How many agents that were kept from stopping are counted at once.
pub const STOPPING_AGENTS_MAX: usize = 1_000;
/// How much of a hook's first output is looked at for the words that send it to the background.
pub const ASYNC_REPLY_BYTES_MAX: usize = 4 * 1024;
/// How many changes of permissions one hook may ask for.
pub const UPDATES_MAX: usize = 64;
