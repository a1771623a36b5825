//! The head of a request to the proxy, read strictly: what two readers could understand in two ways is
//! refused.
//!
//! Nothing is passed on as it came but the values of ordinary headers. The request line and `Host` are
//! written anew from what was judged, what concerns only this connection is left out, and the length of the
//! body is said in one way or not at all. Pure: bytes in, a request or words out.

use super::host::{Host, printable_excerpt};
use super::limits;

/// A request that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProxyRequest {
    pub(super) host: Host,
    pub(super) port: u16,
    /// What followed `Basic` in `Proxy-Authorization`.
    pub(super) authorization: Option<Vec<u8>>,
    pub(super) wish: RequestAction,
}

/// What the client wants with the host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestAction {
    /// A connection, for whatever it is.
    Tunnel,
    /// This one request, its head written anew.
    Forward { head: Vec<u8>, body: BodyLength },
}

/// What follows the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyLength {
    Nothing,
    Bytes(u64),
    Chunks,
}

/// A request that is not passed on: the status, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RejectedRequest {
    pub(super) status: u16,
    pub(super) why: String,
}

fn reject_request<T>(why: impl Into<String>) -> Result<T, RejectedRequest> {
    Err(RejectedRequest { status: 400, why: why.into() })
}

/// Where the head ends, if all of it is there: behind the empty line.
pub(super) fn head_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Reads a whole head, its empty line included.
pub(super) fn parse_head(bytes: &[u8]) -> Result<ProxyRequest, RejectedRequest> {
    let Some(text) = bytes.strip_suffix(b"\r\n\r\n") else { return reject_request("the head has no end") };
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    if lines.iter().any(|line| line.iter().any(|byte| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f)) {
        return reject_request("the head holds a control character or a line that doesn't end with CR LF");
    }
    let [first, headers @ ..] = &*lines else { return reject_request("there is no request line") };
    if headers.len() > limits::HEADERS_MAX {
        return Err(RejectedRequest {
            status: 431,
            why: format!("there are more than {} headers", limits::HEADERS_MAX),
        });
    }
    let Some(first) = std::str::from_utf8(first).ok().filter(|first| first.is_ascii()) else {
        return reject_request("the request line is not ASCII");
    };
    let parts: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = *parts else {
        return reject_request("the request line is not a method, a target and a version");
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return reject_request("the method is not a word");
    }
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Err(RejectedRequest {
            status: 505,
            why: format!("`{}` is not understood; HTTP/1.1 is", printable_excerpt(version)),
        });
    }
    let headers =
        headers.iter().map(|line| parse_header(line)).collect::<Result<Vec<_>, RejectedRequest>>()?;
    let body = body_length(&headers, version)?;
    let authorization = proxy_authorization(&headers)?;

    if method == "CONNECT" {
        if !matches!(body, BodyLength::Nothing | BodyLength::Bytes(0)) {
            return reject_request("a CONNECT has no body");
        }
        let (host, port) = parse_authority(target)?;
        let Some(port) = port else {
            return reject_request("a CONNECT names a host and a port, `example.com:443`");
        };
        return Ok(ProxyRequest { host, port, authorization, wish: RequestAction::Tunnel });
    }
    let Some(rest) = strip_scheme(target) else {
        return reject_request(if target.starts_with('/') {
            "this is a proxy; a request names the whole address, `http://example.com/`"
        } else {
            "only `http://` is passed on as a request; everything else needs a CONNECT"
        });
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(at);
    let (host, port) = parse_authority(host)?;
    let port = port.unwrap_or(80);
    if path.contains('#') {
        return reject_request("the address holds a `#`");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let named = if port == 80 { host.bracketed() } else { format!("{}:{port}", host.bracketed()) };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {named}\r\n").into_bytes();
    let dropped = of_this_connection(&headers);
    for (name, value) in &headers {
        if !dropped.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
    }
    match body {
        BodyLength::Nothing => {}
        BodyLength::Bytes(count) => head.extend_from_slice(format!("Content-Length: {count}\r\n").as_bytes()),
        BodyLength::Chunks => head.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok(ProxyRequest { host, port, authorization, wish: RequestAction::Forward { head, body } })
}

fn strip_scheme(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_at_checked("http://".len())?;
    scheme.eq_ignore_ascii_case("http://").then_some(rest)
}

/// A host and perhaps a port.
fn parse_authority(text: &str) -> Result<(Host, Option<u16>), RejectedRequest> {
    if text.contains('@') {
        return reject_request("the address holds a user; leave out what stands before the `@`");
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let number = digits.then(|| port.parse::<u16>().ok()).flatten().filter(|port| *port != 0);
            let Some(number) = number else {
                return reject_request(format!("`{}` is no port", printable_excerpt(port)));
            };
            (host, Some(number))
        }
        _ => (text, None),
    };
    if host.contains(':') && !host.starts_with('[') {
        return reject_request("an IPv6 address stands in brackets");
    }
    let host = Host::parse(host).or_else(|error| reject_request(error.to_string()))?;
    Ok((host, port))
}

type HeaderLine<'a> = (&'a str, &'a [u8]);

fn parse_header(line: &[u8]) -> Result<HeaderLine<'_>, RejectedRequest> {
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return reject_request("a header has no colon");
    };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    // A space before the colon, or a line that continues the one before it, is read in two ways.
    let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    match name {
        Some(name) => Ok((name, value.trim_ascii())),
        None => reject_request("the name of a header is not a word"),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn header_values<'a>(headers: &'a [HeaderLine<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
}

/// How long the body is, said once and in one way.
fn body_length(headers: &[HeaderLine<'_>], version: &str) -> Result<BodyLength, RejectedRequest> {
    let lengths: Vec<&[u8]> = header_values(headers, "content-length").collect();
    let encodings: Vec<&[u8]> = header_values(headers, "transfer-encoding").collect();
    match (&*lengths, &*encodings) {
        ([], []) => Ok(BodyLength::Nothing),
        ([length], []) => {
            let digits = !length.is_empty() && length.len() <= 18 && length.iter().all(u8::is_ascii_digit);
            let number = digits.then(|| std::str::from_utf8(length).ok()?.parse().ok()).flatten();
            number.map_or_else(
                || reject_request("`Content-Length` is not one number"),
                |number| Ok(BodyLength::Bytes(number)),
            )
        }
        ([], [encoding]) if encoding.eq_ignore_ascii_case(b"chunked") && version == "HTTP/1.1" => {
            Ok(BodyLength::Chunks)
        }
        ([], _) => reject_request("only one `Transfer-Encoding: chunked` of HTTP/1.1 is understood"),
        (_, []) => reject_request("there is more than one `Content-Length`"),
        (_, _) => reject_request("`Content-Length` and `Transfer-Encoding` contradict each other"),
    }
}

fn proxy_authorization(headers: &[HeaderLine<'_>]) -> Result<Option<Vec<u8>>, RejectedRequest> {
    let mut values = header_values(headers, "proxy-authorization");
    let value = values.next();
    if values.next().is_some() {
        return reject_request("there is more than one `Proxy-Authorization`");
    }
    Ok(value.and_then(|value| {
        let (scheme, token) = value.split_at_checked(b"basic ".len())?;
        scheme.eq_ignore_ascii_case(b"basic ").then(|| token.trim_ascii().to_vec())
    }))
}

/// Names of headers that are for this connection only, or that are written anew.
fn of_this_connection<'a>(headers: &'a [HeaderLine<'a>]) -> Vec<&'a str> {
    let mut names = vec![
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
    ];
    let named = header_values(headers, "connection").filter_map(|value| std::str::from_utf8(value).ok());
    names.extend(named.flat_map(|value| value.split(',')).map(str::trim));
    names
}
