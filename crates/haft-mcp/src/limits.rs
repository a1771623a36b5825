//! The bounds of everything that a server can send, and of how long it may take.

use std::time::Duration;

/// The longest message of a server, in bytes, over every transport. A longer one ends the connection.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many messages one batch may hold (revision 2025-03-26 has them); of the rest only answers are heard.
pub const BATCH_MAX: usize = 100;
/// How many bytes are read at once.
pub const READ_BYTES: usize = 64 * 1024;
/// How many messages wait to be sent; then whoever sends waits.
pub const OUTBOX_MAX: usize = 64;
/// How many messages of a connection may be senseless before it is ended.
pub const INVALID_MAX: u64 = 100;
/// How many notifications a second are heard; further ones are counted and dropped.
pub const NOTIFICATIONS_PER_SECOND: u32 = 100;
/// How many notifications may come at once before the rate counts.
pub const NOTIFICATIONS_BURST: u32 = 1_000;
/// How many requests of a server may be open; further ones are refused.
pub const REQUESTS_OPEN_MAX: usize = 16;
/// How many things one list of a server may have: tools, resources, prompts. The rest is left out, and said
/// to be.
pub const LIST_ITEMS_MAX: usize = 5_000;
/// How many pages one list may have.
pub const LIST_PAGES_MAX: usize = 200;
/// The longest description of a tool, a resource or a prompt, and the longest instructions of a server, in
/// characters.
pub const DESCRIPTION_CHARS_MAX: usize = 2_048;
/// The longest title or description inside of a schema, in characters.
pub const SCHEMA_WORDS_CHARS_MAX: usize = 2_048;
/// The longest name of a tool, a resource or a prompt, in characters.
pub const NAME_CHARS_MAX: usize = 256;
/// The longest other words of a resource or a prompt, in characters: titles, types, and what else is said of
/// one.
pub const WORDS_CHARS_MAX: usize = 2_048;
/// The longest address of a resource, in characters.
pub const URI_CHARS_MAX: usize = 2_048;
/// How much of what a server complains about is kept, in bytes: the last of it.
pub const LOG_BYTES_MAX: usize = 64 * 1024;
/// The longest line of a server's log messages, in characters.
pub const LOG_LINE_CHARS_MAX: usize = 1_000;
/// How many characters of a server's error are passed on.
pub const ERROR_CHARS_MAX: usize = 4_000;
/// The largest `anthropic/maxResultSizeChars` that counts.
pub const RESULT_CHARS_MAX: usize = 500_000;

/// How long a connection may take until its tools are known, unless its configuration says otherwise.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take to answer the first question of the newest revision before it counts as an
/// older one.
pub const DISCOVER_WAIT: Duration = Duration::from_secs(3);
/// How long a list, a resource or a prompt may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a call over the network may go without a sign of life.
pub const IDLE_REMOTE: Duration = Duration::from_secs(300);
/// How long a call of a local process may go without a sign of life.
pub const IDLE_LOCAL: Duration = Duration::from_secs(1_800);
/// How long a call may take in all.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(100_000);
/// How long one message may take to be sent by HTTP.
pub const POST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command that prints headers may take.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process may take to end by itself when its input has ended; then it is told to. Many never do.
pub const INPUT_END_WAIT: Duration = Duration::from_millis(400);
/// How long a server is still told, before its connection ends, what nobody waits for any more.
pub const LAST_WORD_WAIT: Duration = Duration::from_millis(150);
/// How long a connection may take to end, and a process that was told to.
pub const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// How long is waited for the words with which a process ended.
pub const LAST_WORDS_WAIT: Duration = Duration::from_millis(1_500);

/// How many calls of one server run at once, unless its configuration says otherwise.
pub const CONCURRENCY: usize = 16;
/// How often a first connection is tried by itself.
pub const CONNECT_TRIES: u32 = 3;
/// How often a lost connection over the network is made again by itself; afterwards the next call does it.
pub const RECONNECT_TRIES: u32 = 5;
/// The pause before the second try; each further one is twice as long.
pub const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two tries.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How many calls in a row may find no server before calls are refused for a while.
pub const BREAKER_FAILURES: u32 = 5;
/// Of how many callers it is remembered that a server went away under their calls.
pub const BREAKER_CALLERS_MAX: usize = 256;
/// How long they are refused; then one call tries again.
pub const BREAKER_PAUSE: Duration = Duration::from_secs(30);
/// How long a list that changed is let rest before it is read again, so that many changes are one.
pub const CHANGE_REST: Duration = Duration::from_millis(50);
/// How often one call may ask for more input (revision 2026-07-28).
pub const ROUNDS_MAX: usize = 10;
/// How long a call waits, once the user has opened a page that its server wants opened first, for the server
/// to say that the user is done there; then it is made again, and the server may ask again.
pub const PAGE_WAIT: Duration = Duration::from_secs(30);
/// How many fields a form may have.
pub const FORM_FIELDS_MAX: usize = 32;
/// How often a field of a form is asked for again after a wrong answer.
pub const FORM_TRIES_MAX: usize = 3;
/// After how long a call goes on in the background, where a host lets it.
pub const BACKGROUND_AFTER: Duration = Duration::from_secs(120);
/// The longest time that a model may wait for servers.
pub const WAIT_MAX: Duration = Duration::from_secs(600);
/// How many resources of one server are watched for changes.
pub const RESOURCES_WATCHED_MAX: usize = 200;
/// How many redirects within one origin are followed.
pub const REDIRECTS_MAX: usize = 5;

/// How long a request that was cancelled may take to put things in order, when this crate is the server.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);
/// How long what is cut off at the end of a server may take to say how far it came; then it is spoken for.
pub const CUT_WAIT: Duration = Duration::from_millis(250);
/// How many changes of an offer may wait for a client; one that can't follow is told that everything changed.
pub const CHANGES_QUEUED_MAX: usize = 256;
/// How many roots of a client are taken.
pub const ROOTS_MAX: usize = 100;
/// The longest number of a request, in bytes.
pub const ID_BYTES_MAX: usize = 256;
/// How many entries of a list are sent at once.
pub const PAGE_ITEMS: usize = 1_000;
/// How many requests of one client may be under way; further ones are refused.
pub const IN_FLIGHT_MAX: usize = 256;
/// How many requests to one client may wait for an answer.
pub const ASKS_OPEN_MAX: usize = 64;
/// How many resources one client may watch.
pub const WATCHES_MAX: usize = 256;
/// How many calls may wait for input of their clients (revision 2026-07-28), in all.
pub const SUSPENDED_MAX: usize = 256;
/// How many of them one principal may have.
pub const SUSPENDED_EACH_MAX: usize = 64;
/// How long a call waits for input before it is cancelled.
pub const SUSPENDED_FOR: Duration = Duration::from_secs(600);
/// How many calls may be tasks, running or done, in all.
pub const TASKS_MAX: usize = 256;
/// How many of them one principal may have.
pub const TASKS_EACH_MAX: usize = 64;
/// How long a task is kept after it began.
pub const TASK_KEPT: Duration = Duration::from_secs(60 * 60);
/// How often a client should ask for the state of a task.
pub const TASK_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The longest pause before the state of a server's task is asked for again.
pub const TASK_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How many bytes may wait for a client that reads slowly; until it has read them, nothing more is taken from
/// it.
pub const UNREAD_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long calls may go on once a server was told to end.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// How many events of a stream are kept for a client that lost it, or can't follow; the oldest are forgotten.
pub const EVENTS_KEPT: usize = 256;
/// How many bytes of them.
pub const EVENTS_BYTES_KEPT: usize = 4 * 1024 * 1024;
/// How many streams of one session are kept to be resumed; the oldest are forgotten.
pub const STREAMS_KEPT: usize = 64;
/// How long an answer over HTTP may take before it becomes a stream, which can be kept alive and resumed.
pub const STREAM_AFTER: Duration = Duration::from_secs(1);
/// How often a stream that says nothing says that it is still there.
pub const STREAM_ALIVE: Duration = Duration::from_secs(15);
/// After how long a client should try again to resume a stream.
pub const STREAM_RETRY: Duration = Duration::from_secs(1);
/// How many sessions over HTTP there may be. With more, one without a connection is ended, or the new one is
/// refused.
pub const SESSIONS_MAX: usize = 2_000;
/// How many of them one principal may have. With more, one of its own is ended, or the new one is refused.
pub const SESSIONS_EACH_MAX: usize = 1_000;
/// How long a session over HTTP may be idle.
pub const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// How long a session without a connection has to be idle before a new session may replace it.
pub const SESSION_REPLACEABLE: Duration = Duration::from_secs(60);
/// How many authenticated connections there may be. Each client of the SDKs has two. A smaller limit for
/// descriptors lowers it.
pub const CONNECTIONS_MAX: usize = 4_096;
/// How many of them one principal may have, where tokens are needed.
pub const CONNECTIONS_EACH_MAX: usize = 2_048;
/// How many unauthenticated connections there may be beside them; further ones wait in the backlog of the
/// socket.
pub const UNAUTHENTICATED_CONNECTIONS_MAX: usize = 1_024;
/// How many connections wait to be accepted, unless the system's limit (`net.core.somaxconn`) is lower.
pub const BACKLOG: i32 = 4_096;
/// How many descriptors are not used for connections, if the process has at least twice as many.
pub const DESCRIPTORS_RESERVED: usize = 1_024;
/// How long an unauthenticated connection stays open while others wait for its place.
pub const SILENT_GRACE: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many bytes of the body of a refused request are read, so that the connection can be closed without
/// losing the response.
pub const REFUSED_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long that may take.
pub const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request, and between two requests.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to send the body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may take to read anything of what it is sent.
pub const READ_STALL: Duration = Duration::from_secs(60);
/// How many requests a second one principal may make over HTTP.
pub const RATE_PER_SECOND: u32 = 1_000;
/// How many it may make at once before the rate counts: ten for each of 500 clients that start together.
pub const RATE_BURST: u32 = 5_000;
/// For how many principals the rate is remembered.
pub const RATES_MAX: usize = 1_024;
/// How long the word of an authorization server on a token is believed.
pub const TOKEN_BELIEVED: Duration = Duration::from_secs(60);
/// For how many tokens it is remembered.
pub const TOKENS_REMEMBERED: usize = 1_024;
/// How long an authorization server may take to answer.
pub const TOKEN_CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The longest answer of an authorization server, in bytes.
pub const TOKEN_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The longest answer of whoever gives tokens, in bytes.
pub const SIGN_IN_BYTES_MAX: usize = 256 * 1024;
/// How long one request of a sign-in may take.
pub const SIGN_IN_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a user may take to sign in.
pub const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(600);
/// How much of a refusal is read, in characters.
pub const CHALLENGE_CHARS_MAX: usize = 8 * 1024;
/// How many scopes are asked for, and how many issuers or methods are read.
pub const SCOPES_MAX: usize = 200;
/// The longest token, in characters.
pub const TOKEN_CHARS_MAX: usize = 32 * 1024;
/// How often one request is sent again because the server wants another number in its proof.
pub const PROOFS_MAX: usize = 2;
/// How long before its end a token is renewed.
pub const RENEW_BEFORE: Duration = Duration::from_secs(30);
/// How long a signed statement of a client is good.
pub const ASSERTION_LIFE: Duration = Duration::from_secs(300);
/// How much of a request to the port of a sign-in is read, in bytes.
pub const LISTENER_BYTES_MAX: usize = 16 * 1024;
/// How many connections to the port of a sign-in are read at once.
pub const LISTENER_CONNECTIONS_MAX: usize = 16;
/// How long a request to the port of a sign-in may take.
pub const LISTENER_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest address that a user brings back by hand, in characters.
pub const PASTE_CHARS_MAX: usize = 16 * 1024;
/// The largest file of tokens, in bytes.
pub const TOKENS_BYTES_MAX: u64 = 256 * 1024;
/// How long a process waits for another one that renews a token.
pub const TOKENS_LOCK_WAIT: Duration = Duration::from_secs(60);
