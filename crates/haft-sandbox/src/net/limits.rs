//! The bounds of a session's network. Times are values of a [`NetworkTimeouts`], so that tests need not wait
//! for them.

use std::time::Duration;

/// How many connections one call may have open at once; a further one is answered with 503.
pub(crate) const CALL_CONNECTIONS_MAX: usize = 256;
/// How many connections of one call may wait for the answer to a question; a further one is refused.
pub(crate) const CALL_PARKED_MAX: usize = 64;
/// How many connections a session may have open at once; further ones wait to be accepted.
pub(crate) const SESSION_CONNECTIONS_MAX: usize = 1024;
/// The longest head of a request, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How many headers a request may have.
pub(crate) const HEADERS_MAX: usize = 100;
/// The longest line of a chunked body that isn't content, in bytes.
pub(crate) const CHUNK_LINE_BYTES_MAX: usize = 1024;
/// How many lines may follow the last chunk; they are read and dropped.
pub(crate) const TRAILERS_MAX: usize = 32;
/// The longest first message of TLS, in bytes.
pub(crate) const HELLO_BYTES_MAX: usize = 32 * 1024;
/// How many bytes of a connection are on their way at once, in each direction.
pub(crate) const COPY_BYTES: usize = 32 * 1024;
/// How many refusals are kept for a call, and for the session; further ones are not told.
pub(crate) const REFUSALS_MAX: usize = 100;
/// How many names are being resolved at once; further ones wait.
pub(crate) const RESOLVING_MAX: usize = 8;
/// How many addresses of a name are tried.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// The longest question to the name server, in bytes.
pub(crate) const QUERY_BYTES_MAX: usize = 4096;
/// How many connections the name server has at once.
pub(crate) const DNS_CONNECTIONS_MAX: usize = 16;
/// How many questions one of them may ask.
pub(crate) const DNS_QUERIES_MAX: usize = 64;
/// How many bytes of a client that was refused are still read, so that it gets to read why.
pub(crate) const LINGER_BYTES_MAX: usize = 256 * 1024;
/// How long dropping a network waits for its threads; a lookup that hangs in the system's resolver is left
/// behind.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(2);
/// How long nothing is accepted after accepting failed (no descriptors left).
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long each step of a connection may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NetworkTimeouts {
    /// From the connection to the end of the request's head.
    pub(crate) head: Duration,
    /// To find the addresses of a name.
    pub(crate) resolve: Duration,
    /// To reach one address.
    pub(crate) dial: Duration,
    /// From the opened tunnel to the first message of TLS.
    pub(crate) hello: Duration,
    /// Without a byte in either direction.
    pub(crate) idle: Duration,
    /// For a refused client to read why.
    pub(crate) linger: Duration,
    /// For the user to answer a question about a host.
    pub(crate) question: Duration,
}

impl Default for NetworkTimeouts {
    fn default() -> NetworkTimeouts {
        NetworkTimeouts {
            head: Duration::from_secs(15),
            resolve: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            hello: Duration::from_secs(60),
            idle: Duration::from_secs(300),
            linger: Duration::from_secs(1),
            question: crate::limits::QUESTION_TIMEOUT,
        }
    }
}
