//! Heads and bodies of requests: what is passed on, and what is refused because it could be read in two ways.

use std::io::{Read as _, Write as _};

use super::super::request_head::{self, BodyLength, RequestAction};
use super::{World, allowing, header, net, web};

/// A head that is refused, with its status and words.
#[track_caller]
fn bad(head: &str, status: u16, why: &str) {
    let bad = request_head::parse_head(head.as_bytes()).unwrap_err();
    assert_eq!(bad.status, status, "{head:?}: {}", bad.why);
    assert!(bad.why.contains(why), "{head:?}: {}", bad.why);
}

/// A head that is passed on as another.
#[track_caller]
fn good(head: &str, passed: &str, body: BodyLength) {
    let request = request_head::parse_head(head.as_bytes()).unwrap();
    let RequestAction::Forward { head: written, body: found } = request.wish else { panic!("a tunnel") };
    assert_eq!((std::str::from_utf8(&written).unwrap(), found), (passed, body));
}

#[test]
fn a_head_is_written_anew() {
    good(
        "GET http://Example.com:80/a?b=c HTTP/1.1\r\nHost: evil.net\r\nAccept: x\r\nProxy-Authorization: Basic YQ==\r\n\
         Proxy-Connection: keep-alive\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nUpgrade: h2c\r\n\r\n",
        "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nAccept: x\r\nConnection: close\r\n\r\n",
        BodyLength::Nothing,
    );
    good(
        "POST http://[2606:4700::1]:8080 HTTP/1.0\r\nContent-Length: 12\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: [2606:4700::1]:8080\r\nContent-Length: 12\r\nConnection: close\r\n\r\n",
        BodyLength::Bytes(12),
    );
    good(
        "PUT HTTP://a.example?x HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n",
        "PUT /?x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        BodyLength::Chunks,
    );
}

#[test]
fn what_is_read_in_two_ways_is_refused() {
    let get = |headers: &str| format!("GET http://a.example/ HTTP/1.1\r\n{headers}\r\n");
    bad(&get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), 400, "contradict");
    bad(&get("Content-Length: 1\r\nContent-Length: 1\r\n"), 400, "more than one");
    bad(&get("Content-Length: 1, 1\r\n"), 400, "not one number");
    bad(&get("Content-Length: +1\r\n"), 400, "not one number");
    bad(&get("Content-Length: -1\r\n"), 400, "not one number");
    bad(&get("Content-Length: 0x1\r\n"), 400, "not one number");
    bad(&get("Content-Length: 9999999999999999999\r\n"), 400, "not one number");
    bad(&get("Content-Length:\r\n"), 400, "not one number");
    bad(&get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400, "only one");
    bad(&get("Transfer-Encoding: gzip, chunked\r\n"), 400, "only one");
    bad(&get("Transfer-Encoding: identity\r\n"), 400, "only one");
    bad(&get("Transfer-Encoding: \u{b}chunked\r\n"), 400, "control character");
    bad(&get("Transfer-Encoding : chunked\r\n"), 400, "not a word");
    bad("GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.1");
    bad(&get("A: b\r\n c\r\n"), 400, "no colon");
    bad(&get("A: b\r\n c: d\r\n"), 400, "not a word");
    bad(&get("A: b\nHost: evil.net\r\n"), 400, "control character");
    bad(&get("A: b\rHost: evil.net\r\n"), 400, "control character");
    bad(&get("A: b\0c\r\n"), 400, "control character");
    bad(&get(": b\r\n"), 400, "not a word");
    bad(&get("Proxy-Authorization: Basic a\r\nProxy-Authorization: Basic b\r\n"), 400, "more than one");
    bad(&get(&"A: b\r\n".repeat(101)), 431, "more than 100");
    bad("GET  http://a.example/ HTTP/1.1\r\n\r\n", 400, "request line");
    bad("GET http://a.example/ x HTTP/1.1\r\n\r\n", 400, "request line");
    bad("GET\thttp://a.example/\tHTTP/1.1\r\n\r\n", 400, "request line");
    bad("\r\nGET http://a.example/ HTTP/1.1\r\n\r\n", 400, "request line");
    bad("GET http://a.example/ HTTP/2.0\r\n\r\n", 505, "HTTP/1.1");
    bad("G(T http://a.example/ HTTP/1.1\r\n\r\n", 400, "method");
    bad("GET http://b\u{fc}cher.example/ HTTP/1.1\r\n\r\n", 400, "not ASCII");
    bad("GET http://user:pass@a.example/ HTTP/1.1\r\n\r\n", 400, "user");
    bad("GET http://a.example@evil.net/ HTTP/1.1\r\n\r\n", 400, "user");
    bad("GET http://a.example#@evil.net/ HTTP/1.1\r\n\r\n", 400, "user");
    bad("GET http://a.example/#x HTTP/1.1\r\n\r\n", 400, "`#`");
    bad("GET http://a.example%00.evil.net/ HTTP/1.1\r\n\r\n", 400, "no host name");
    bad("GET http://a.example\\.evil.net/ HTTP/1.1\r\n\r\n", 400, "no host name");
    bad("GET http:///etc/passwd HTTP/1.1\r\n\r\n", 400, "no host name");
    bad("GET http://a.example:/ HTTP/1.1\r\n\r\n", 400, "no port");
    bad("GET http://a.example:0/ HTTP/1.1\r\n\r\n", 400, "no port");
    bad("GET http://a.example:65536/ HTTP/1.1\r\n\r\n", 400, "no port");
    bad("GET http://::1/ HTTP/1.1\r\n\r\n", 400, "brackets");
    bad("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", 400, "this is a proxy");
    bad("GET https://a.example/ HTTP/1.1\r\n\r\n", 400, "CONNECT");
    bad("GET file:///etc/passwd HTTP/1.1\r\n\r\n", 400, "CONNECT");
    bad("CONNECT a.example HTTP/1.1\r\n\r\n", 400, "a host and a port");
    bad("CONNECT http://a.example:443 HTTP/1.1\r\n\r\n", 400, "brackets");
    bad("CONNECT a.example:443/x HTTP/1.1\r\n\r\n", 400, "no port");
    bad("CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400, "no body");
    bad("CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "no body");
}

/// What a server sees of these bytes behind a head, and what the client hears.
fn passed(headers: &str, body: &str) -> (String, String) {
    let (address, seen) = web();
    let world = World::default();
    world.machine("a.example", 80, address);
    let net = net(allowing(&["a.example"]), world);
    let ticket = net.admit(&[]);
    let answer = net.ask(&ticket, "POST http://a.example/ HTTP/1.1", &format!("{headers}\r\n{body}"));
    let seen = seen.recv().unwrap();
    (seen.split_once("\r\n\r\n").unwrap().1.to_owned(), answer)
}

const SMUGGLED: &str = "GET http://a.example/admin HTTP/1.1\r\nHost: a.example\r\n\r\n";

#[test]
fn a_body_is_as_long_as_announced() {
    let (seen, answer) = passed("Content-Length: 4\r\n", &format!("body{SMUGGLED}"));
    assert_eq!(seen, "body");
    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(passed("", SMUGGLED).0, "");
}

#[test]
fn chunks_are_written_anew() {
    let (seen, answer) = passed(
        "Transfer-Encoding: chunked\r\n",
        &format!("0003\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n{SMUGGLED}"),
    );
    assert_eq!(seen, "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n");
    assert!(answer.ends_with("hello"), "{answer}");
}

#[test]
fn malformed_chunks_end_the_request() {
    let chunked = "Transfer-Encoding: chunked\r\n";
    let long = format!("{}\r\n", "1".repeat(2000));
    for body in [
        "3;x=y\r\nabc\r\n0\r\n\r\n",
        "3 \r\nabc\r\n0\r\n\r\n",
        "0x3\r\nabc\r\n0\r\n\r\n",
        "-1\r\nabc\r\n0\r\n\r\n",
        "+3\r\nabc\r\n0\r\n\r\n",
        "3\nabc\n0\n\n",
        "3\r\nabcd\r\n0\r\n\r\n",
        "\r\n3\r\nabc\r\n0\r\n\r\n",
        "1111111111111111\r\nabc\r\n",
        &long,
        &format!("0\r\n{}\r\n", "a: b\r\n".repeat(40)),
    ] {
        let (seen, answer) = passed(chunked, body);
        assert!(!seen.contains("0\r\n\r\n") && !answer.contains("hello"), "{body:?}: {seen:?} {answer:?}");
    }
}

#[test]
fn a_body_that_comes_in_pieces_is_passed_on() {
    let (address, seen) = web();
    let world = World::default();
    world.machine("a.example", 80, address);
    let net = net(allowing(&["a.example"]), world);
    let ticket = net.admit(&[]);
    let mut stream = net.connect();
    let request = format!(
        "POST http://a.example/ HTTP/1.1\r\n{}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        header(&ticket)
    );
    for byte in request.bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("hello"), "{answer}");
    assert!(seen.recv().unwrap().ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"));
}

/// Heads put together at random from what has fooled others: whatever is passed on has one meaning.
#[test]
fn no_head_is_passed_on_that_says_two_things() {
    const PARTS: &[&str] = &[
        "GET ",
        "CONNECT ",
        "http://a.example/ ",
        "http://b.example:8080?x ",
        "a.example:443 ",
        "HTTP/1.1",
        "HTTP/1.0",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        "\0",
        " ",
        "\t",
        ":",
        ",",
        "Host: b.example",
        "Content-Length: ",
        "5",
        "+5",
        "content-length: 7",
        "Transfer-Encoding: ",
        "chunked",
        "identity",
        "Connection: ",
        "host",
        "transfer-encoding",
        "Accept: x",
        "X: y",
        "\u{e9}",
        "@",
        "#",
        "/..",
        "[::1]",
        "%0d%0a",
        "Proxy-Authorization: Basic YQ==",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap() % below
    };
    let starts =
        ["GET http://a.example/ HTTP/1.1\r\n", "POST http://a.example:81/x HTTP/1.1\r\nA: b\r\n", ""];
    let mut passed = 0;
    for _ in 0..50_000 {
        let mut head = starts[next(3)].to_owned();
        for _ in 0..next(8) {
            head.push_str(PARTS[next(PARTS.len())]);
        }
        head.push_str("\r\n\r\n");
        let end = request_head::head_end(head.as_bytes()).unwrap();
        let Ok(request) = request_head::parse_head(&head.as_bytes()[..end]) else { continue };
        let RequestAction::Forward { head: written, body } = request.wish else { continue };
        passed += 1;
        // What a server would read, by the loosest rules: any line end, any spelling.
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written.matches(['\r', '\n']).count(), 2 * written.matches("\r\n").count(), "{head:?}");
        assert!(written.find("\r\n\r\n") == Some(written.len() - 4), "{head:?}");
        let of = |name: &str| -> Vec<String> {
            let lines = written.lines().skip(1).map(str::to_ascii_lowercase);
            lines
                .filter_map(|line| {
                    Some(line.split_once(':').filter(|(n, _)| n.trim() == name)?.1.trim().into())
                })
                .collect()
        };
        let port = if request.port == 80 { String::new() } else { format!(":{}", request.port) };
        assert_eq!(of("host"), [format!("{}{port}", request.host.bracketed())], "{head:?}");
        assert_eq!(of("connection"), ["close"], "{head:?}");
        assert_eq!(of("proxy-authorization").len(), 0, "{head:?}");
        let lengths = match body {
            BodyLength::Nothing => (vec![], vec![]),
            BodyLength::Bytes(count) => (vec![count.to_string()], vec![]),
            BodyLength::Chunks => (vec![], vec!["chunked".to_owned()]),
        };
        assert_eq!((of("content-length"), of("transfer-encoding")), lengths, "{head:?}");
    }
    assert!(passed > 2_500, "only {passed} got as far as to be looked at");
}
