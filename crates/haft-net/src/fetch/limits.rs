//! The bounds of a request. They are values of a [`Limits`], so that tests need not send gigabytes or wait for minutes.

use std::time::Duration;

/// The longest address that is asked for, in bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// The longest head of an answer, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// How many headers an answer may have.
pub const HEADERS_MAX: usize = 128;
/// How many addresses of a host are tried.
pub const ADDRESSES_MAX: usize = 4;
/// How many names are being resolved at once by one fetcher; further ones wait.
pub const RESOLVING_MAX: usize = 8;
/// An unpacked body of up to so many bytes isn't measured against what was sent for it: small pages pack well.
pub const RATIO_FREE_BYTES: u64 = 1024 * 1024;

/// How much a server may send, and how long each step may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of a body as it is sent. What comes after them is not read.
    pub sent_bytes: usize,
    /// Bytes of a body once it is unpacked. What comes after them is not unpacked.
    pub unpacked_bytes: usize,
    /// How many times longer than what was sent for it a body may become.
    pub ratio: u64,
    /// How many redirects are followed.
    pub redirects: usize,
    /// To find the addresses of a name.
    pub resolve: Duration,
    /// To reach one address.
    pub dial: Duration,
    /// To agree on encryption.
    pub handshake: Duration,
    /// From the request to the end of the answer's head.
    pub head: Duration,
    /// Without a byte of the body.
    pub idle: Duration,
    /// All of it, redirects included.
    pub whole: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sent_bytes: 10 * 1024 * 1024,
            unpacked_bytes: 20 * 1024 * 1024,
            ratio: 100,
            redirects: 5,
            resolve: Duration::from_secs(10),
            dial: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(15),
            whole: Duration::from_secs(60),
        }
    }
}
