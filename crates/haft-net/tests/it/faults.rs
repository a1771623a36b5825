//! Misbehaving servers: responses that are too large, too slow or malformed.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use haft_net::fetch::{FetchLimits, FetchResult};

use crate::fake_network::{PUBLIC, body, fetcher_for, fixed_server, get, page, server};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Waits until the client closes the connection.
fn hold(stream: &mut std::net::TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

#[tokio::test]
async fn a_packed_page_is_unpacked_and_a_bomb_refused() {
    let (fetcher, _) =
        fetcher_for(fixed_server(page("content-encoding: gzip\r\n", &gzip(b"hello hello hello"))));
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "hello hello hello");
    let (fetcher, _) =
        fetcher_for(fixed_server(page("content-encoding: gzip\r\n", &gzip(&vec![0; 20 << 20]))));
    let message = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(message.contains("many times its size"), "{message}");
    let (fetcher, _) = fetcher_for(fixed_server(page("content-encoding: br\r\n", b"xyz")));
    let message = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(message.contains("unsupported encoding `br`"), "{message}");
    let (fetcher, _) = fetcher_for(fixed_server(page("content-encoding: gzip\r\n", b"<html>")));
    assert!(
        body(&fetcher, "http://a.example/")
            .await
            .unwrap_err()
            .contains("doesn't match its declared encoding")
    );
}

#[tokio::test]
async fn an_endless_page_is_cut() {
    let (fetcher, _) = fetcher_for(server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    }));
    let fetcher = fetcher.with_limits(FetchLimits { encoded_bytes: 100_000, ..FetchLimits::default() });
    let FetchResult::Page(answer) = get(&fetcher, "http://a.example/").await.unwrap() else {
        panic!("a page")
    };
    assert_eq!((answer.body.len(), answer.is_truncated), (100_000, true));
}

#[tokio::test]
async fn a_length_that_lies_is_an_error() {
    let (fetcher, _) = fetcher_for(fixed_server("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nshort"));
    let message = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(message.contains("failed to read the response"), "{message}");
    let (fetcher, _) = fetcher_for(fixed_server("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhello"));
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "he");
    for bad in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "",
    ] {
        let message = body(&fetcher_for(fixed_server(bad)).0, "http://a.example/").await.unwrap_err();
        assert!(message.contains("failed to read the response"), "{bad:?}: {message}");
    }
}

#[tokio::test]
async fn heads_without_an_end_are_not_read_to_it() {
    let (fetcher, _) = fetcher_for(server(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-more: and more and more and more\r\n").is_ok() {}
    }));
    assert!(body(&fetcher, "http://a.example/").await.unwrap_err().contains("failed to read the response"));
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let (fetcher, _) = fetcher_for(fixed_server(page(&many, b"hello")));
    assert!(body(&fetcher, "http://a.example/").await.is_err());
}

#[tokio::test]
async fn whoever_is_slow_is_left() {
    let short = Duration::from_millis(100);
    let (never, _) = fetcher_for(server(|_, stream| hold(stream)));
    let never = never.with_limits(FetchLimits { head: short, ..FetchLimits::default() });
    let message = body(&never, "http://a.example/").await.unwrap_err();
    assert_eq!(message, "the response head timed out after 0.1 s");
    let (half, _) = fetcher_for(server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").unwrap();
        hold(stream);
    }));
    let half = half.with_limits(FetchLimits { idle: short, ..FetchLimits::default() });
    let message = body(&half, "http://a.example/").await.unwrap_err();
    assert_eq!(message, "the response body timed out after 0.1 s");
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_keep_it_open() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (fetcher, _) = fetcher_for(server(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n");
        // Sends one byte each time the wait times out. The test never sends on the channel.
        while stream.write_all(b"x").is_ok() {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_millis(20));
        }
    }));
    let limits = FetchLimits {
        idle: Duration::from_secs(5),
        total: Duration::from_millis(300),
        ..FetchLimits::default()
    };
    let message = body(&fetcher.with_limits(limits), "http://a.example/").await.unwrap_err();
    assert_eq!(message, "the request timed out after 0.3 s");
    drop(go);
}

#[tokio::test]
async fn who_speaks_no_tls_is_told_apart() {
    let (fetcher, world) = fetcher_for(fixed_server(page("", b"plain")));
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.route(&format!("{PUBLIC}:443"), plain.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        hold(&mut stream);
    });
    let message = body(&fetcher, "https://a.example/").await.unwrap_err();
    assert!(message.contains("the TLS handshake with `a.example:443` failed"), "{message}");
    let message = body(&fetcher, "http://b.example/").await.unwrap_err();
    assert!(message.contains("the name `b.example` can't be resolved"), "{message}");
    let message = body(&fetcher, "http://a.example:81/").await.unwrap_err();
    assert!(message.contains("`a.example:81` can't be reached: no server there"), "{message}");
}
