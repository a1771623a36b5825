//! Every bound of this crate: what grows has a limit, and the limit has a name.

/// The longest input schema of one tool as it is sent, in bytes of its JSON. A longer one loses detail until
/// it fits.
pub const WIRE_SCHEMA_BYTES_MAX: usize = 32 * 1024;
/// How many subschemas one tool may have once references are replaced by what they point to.
pub const WIRE_SCHEMA_NODES_MAX: usize = 4_000;
/// How deep objects and arrays of a schema are described; what is inside the last level is left open.
pub const WIRE_SCHEMA_DEPTH_MAX: usize = 16;
/// How often a type is shown inside itself before it is cut.
pub const RECURSION_MAX: usize = 2;
/// How many schemas in a row may apply to one value (`$ref`, `allOf`, …) before the rest is left open.
pub const HOPS_MAX: usize = 64;
/// How many alternatives two lists of alternatives may have when they are multiplied out.
pub const ALTERNATIVES_MAX: usize = 16;
/// How many alternatives are compared with each other to see whether they exclude one another.
pub const COMPARED_MAX: usize = 256;
/// The longest keyword that is said in words where a wire doesn't take it, in characters.
pub const WORDS_CHARS_MAX: usize = 200;
/// The longest list of root alternatives in words, in characters.
pub const ALTERNATIVE_WORDS_CHARS_MAX: usize = 2_000;

/// How deep objects may nest in OpenAI's strict mode. The documentation says ten; five is what every model
/// takes.
pub const OPENAI_STRICT_DEPTH_MAX: usize = 5;
/// How many properties one schema may have in OpenAI's strict mode.
pub const OPENAI_STRICT_PROPERTIES_MAX: usize = 100;
/// How many values of enumerations one schema may have in OpenAI's strict mode.
pub const OPENAI_STRICT_ENUM_MAX: usize = 500;
/// How many characters property names and enumerated values may have together in OpenAI's strict mode.
pub const OPENAI_STRICT_CHARS_MAX: usize = 15_000;

/// How many tools of one request may be strict for Anthropic.
pub const ANTHROPIC_STRICT_TOOLS_MAX: usize = 20;
/// How many optional parameters the strict tools of one request may have together for Anthropic.
pub const ANTHROPIC_STRICT_OPTIONAL_MAX: usize = 24;
/// How many parameters with several types the strict tools of one request may have together for Anthropic.
pub const ANTHROPIC_STRICT_UNIONS_MAX: usize = 16;
/// How many deferred tools one request may have for Anthropic. With more, what was found is added to the
/// tools.
pub const ANTHROPIC_DEFERRED_TOOLS_MAX: usize = 10_000;
/// The longest name of a root property that Anthropic takes.
pub const PROPERTY_CHARS_MAX: usize = 64;

/// The longest file that is read as a transcript, in bytes.
pub const TRANSCRIPT_BYTES_MAX: usize = 512 * 1024 * 1024;
/// How many lines a transcript may have.
pub const TRANSCRIPT_LINES_MAX: usize = 4_000_000;
/// How many calls are read of one transcript.
pub const TRANSCRIPT_CALLS_MAX: usize = 1_000_000;

/// The longest assistant message that is read, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The longest line of a stream, in bytes. The last event of some streams has the whole message in it.
pub const STREAM_LINE_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// How many bytes one stream may have; a few of these bytes are content, the rest is its wrapping.
pub const STREAM_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// How many bytes of a streamed message are kept: text, thinking and inputs together.
pub const REPLY_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// How many parts a streamed message may have: blocks, items, calls.
pub const REPLY_PARTS_MAX: usize = 10_000;
/// How many calls one message may have.
pub const REPLY_CALLS_MAX: usize = 1_000;

/// The longest text of one result for OpenAI, in characters.
pub const OPENAI_OUTPUT_CHARS_MAX: usize = 10_485_760;
/// The largest image that Anthropic takes, in bytes of the image: 5 MiB once it is base64.
pub const ANTHROPIC_IMAGE_BYTES_MAX: usize = 5 * 1024 * 1024 / 4 * 3;
/// The largest document that is put into a result, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 20 * 1024 * 1024;

/// How many tokens an answer may have for Anthropic, who wants a number, where nothing else is said.
pub const ANTHROPIC_MAX_TOKENS: u64 = 32_000;
/// The longest body of an error that is read, in bytes.
pub const ERROR_BYTES_MAX: usize = 64 * 1024;
/// How often a request is made at most, the first time included.
pub const ATTEMPTS_MAX: u32 = 6;
/// The longest time that a provider may ask to be left alone before the request is given up, in seconds.
pub const RETRY_AFTER_SECONDS_MAX: u64 = 300;
/// How many requests in a row may fail before an endpoint is left alone.
pub const BREAKER_FAILURES_MAX: u32 = 10;
/// How long an endpoint is left alone, in seconds.
pub const BREAKER_REST_SECONDS: u64 = 30;
/// How long to wait for a connection, in seconds.
pub const CONNECT_SECONDS_MAX: u64 = 30;
/// How long a stream may say nothing, in seconds. Models that think say nothing for minutes.
pub const SILENCE_SECONDS_MAX: u64 = 600;
/// How long the loop waits for the end of an answer after its message is over, in milliseconds.
pub const DRAIN_MS: u64 = 5;
/// How long the end of an answer is waited for after its message is over, in seconds, so that its connection
/// can be used again.
pub const DRAIN_SECONDS_MAX: u64 = 5;

/// The longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How deep a script may nest.
pub const SCRIPT_DEPTH_MAX: usize = 64;
/// How many turns a script may have.
pub const SCRIPT_TURNS_MAX: usize = 10_000;
/// The longest wait that a script may ask for, in milliseconds.
pub const SCRIPT_DELAY_MS_MAX: u64 = 600_000;
/// How many injected errors are remembered as given, so that the next attempt succeeds.
pub const SCRIPT_ERRORS_MAX: usize = 10_000;
/// The longest head of a request to the scripted server, in bytes.
pub const SERVER_HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many connections the scripted server serves at once.
pub const SERVER_CONNECTIONS_MAX: usize = 256;
/// How long a connection to the scripted server may say nothing, in seconds.
pub const SERVER_SILENCE_SECONDS_MAX: u64 = 120;
