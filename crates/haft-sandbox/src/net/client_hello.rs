//! The name in the first message of TLS (`server_name` of the ClientHello), which is sent in the clear. Pure,
//! and nothing is decrypted: it only tells whether a tunnel for one name is used to speak with another.

use super::host::Host;
use super::limits;

/// What the first bytes of a tunnel are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// So far they could be anything of these.
    Unfinished,
    /// Something else than TLS.
    NotTls,
    /// TLS that asks for this name, or for none.
    For(Option<Host>),
    /// TLS that can't be understood, or that names several hosts.
    Malformed,
}

/// Looks at what came so far.
pub(super) fn parse_hello(bytes: &[u8]) -> ClientHello {
    match bytes {
        [] | [0x16] => return ClientHello::Unfinished,
        [0x16, 0x03, ..] => {}
        _ => return ClientHello::NotTls,
    }
    // One message may come in several records; it is put together as the server will.
    let mut message = Vec::new();
    let mut rest = bytes;
    while let [kind, major, _, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if (*kind, *major) != (0x16, 0x03) || length == 0 || length > 1 << 14 {
            return ClientHello::Malformed;
        }
        let here = &after[..length.min(after.len())];
        message.extend_from_slice(here);
        if message.first().is_some_and(|kind| *kind != 1) {
            return ClientHello::Malformed;
        }
        if let [1, a, b, c, hello @ ..] = &*message {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length > limits::HELLO_BYTES_MAX {
                return ClientHello::Malformed;
            }
            if let Some(hello) = hello.get(..length) {
                return server_name(hello).map_or(ClientHello::Malformed, ClientHello::For);
            }
        }
        rest = &after[here.len()..];
    }
    if bytes.len() > limits::HELLO_BYTES_MAX { ClientHello::Malformed } else { ClientHello::Unfinished }
}

/// The name in a whole message. The outer `None` means that it is malformed.
fn server_name(hello: &[u8]) -> Option<Option<Host>> {
    let mut hello = HelloReader(hello);
    hello.take(2 + 32)?;
    hello.vector(1)?;
    hello.vector(2)?;
    hello.vector(1)?;
    if hello.0.is_empty() {
        return Some(None);
    }
    let mut extensions = HelloReader(hello.vector(2)?);
    if !hello.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let content = extensions.vector(2)?;
        if kind != 0 {
            continue;
        }
        let mut outer = HelloReader(content);
        let mut list = HelloReader(outer.vector(2)?);
        let (name_type, text) = (list.number(1)?, list.vector(2)?);
        if name_type != 0 || found.is_some() || !list.0.is_empty() || !outer.0.is_empty() {
            return None;
        }
        found = Some(Host::parse(std::str::from_utf8(text).ok()?).ok()?);
    }
    Some(found)
}

struct HelloReader<'a>(&'a [u8]);

impl<'a> HelloReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Bytes with their number in front of them.
    fn vector(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let count = self.number(bytes)?;
        self.take(count)
    }
}
