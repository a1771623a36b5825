//! The limits of a request. They are fields of [`FetchLimits`], so that tests need not send
//! gigabytes or wait for minutes.

use std::time::Duration;

/// The maximum length of an address, in bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// The maximum size of a response head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of response headers.
pub const HEADERS_MAX: usize = 128;
/// How many addresses of a host are tried.
pub const ADDRESSES_MAX: usize = 4;
/// How many names one fetcher resolves at once; further lookups wait.
pub const RESOLVING_MAX: usize = 8;
/// The compression ratio is not checked for bodies up to this size, because small pages compress
/// well.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// How much a server may send, and the timeout of each step.
#[derive(Debug, Clone, Copy)]
pub struct FetchLimits {
    /// The maximum size of a body before decompression, in bytes. The rest is not read.
    pub encoded_bytes: usize,
    /// The maximum size of a body after decompression, in bytes. The rest is dropped.
    pub decoded_bytes: usize,
    /// The maximum ratio of decompressed to compressed size.
    pub ratio: u64,
    /// How many redirects are followed.
    pub redirects: usize,
    /// The timeout for resolving a name.
    pub resolve: Duration,
    /// The timeout for connecting to one address.
    pub dial: Duration,
    /// The timeout of the TLS handshake.
    pub handshake: Duration,
    /// The timeout from the request to the end of the response head.
    pub head: Duration,
    /// The timeout between two parts of the body.
    pub idle: Duration,
    /// The timeout of the whole fetch, redirects included.
    pub total: Duration,
}

impl Default for FetchLimits {
    fn default() -> FetchLimits {
        FetchLimits {
            encoded_bytes: 10 * 1024 * 1024,
            decoded_bytes: 20 * 1024 * 1024,
            ratio: 100,
            redirects: 5,
            resolve: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(15),
            total: Duration::from_secs(60),
        }
    }
}
