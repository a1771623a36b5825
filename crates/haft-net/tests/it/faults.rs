//! Servers that do what they should not: too much, too slow, not what they say.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use haft_net::fetch::{Fetched, Limits};

use crate::world::{PUBLIC, body, get, page, saying, server, with};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Waits until the client has gone.
fn hold(stream: &mut std::net::TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

#[tokio::test]
async fn a_packed_page_is_unpacked_and_a_bomb_refused() {
    let (fetcher, _) = with(saying(page("content-encoding: gzip\r\n", &gzip(b"hello hello hello"))));
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "hello hello hello");
    let (fetcher, _) = with(saying(page("content-encoding: gzip\r\n", &gzip(&vec![0; 20 << 20]))));
    let words = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(words.contains("many times its size"), "{words}");
    let (fetcher, _) = with(saying(page("content-encoding: br\r\n", b"xyz")));
    let words = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(words.contains("packed as `br`"), "{words}");
    let (fetcher, _) = with(saying(page("content-encoding: gzip\r\n", b"<html>")));
    assert!(body(&fetcher, "http://a.example/").await.unwrap_err().contains("not packed as it says"));
}

#[tokio::test]
async fn an_endless_page_is_cut() {
    let (fetcher, _) = with(server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    }));
    let fetcher = fetcher.with_limits(Limits { sent_bytes: 100_000, ..Limits::default() });
    let Fetched::Page(answer) = get(&fetcher, "http://a.example/").await.unwrap() else { panic!("a page") };
    assert_eq!((answer.body.len(), answer.cut), (100_000, true));
}

#[tokio::test]
async fn a_length_that_lies_is_an_error() {
    let (fetcher, _) = with(saying("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nshort"));
    let words = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(words.contains("the answer can't be read"), "{words}");
    let (fetcher, _) = with(saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhello"));
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "he");
    for bad in [
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "",
    ] {
        let words = body(&with(saying(bad)).0, "http://a.example/").await.unwrap_err();
        assert!(words.contains("the answer can't be read"), "{bad:?}: {words}");
    }
}

#[tokio::test]
async fn heads_without_an_end_are_not_read_to_it() {
    let (fetcher, _) = with(server(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"x-more: and more and more and more\r\n").is_ok() {}
    }));
    assert!(body(&fetcher, "http://a.example/").await.unwrap_err().contains("the answer can't be read"));
    let many: String = (0..200).map(|n| format!("x-{n}: y\r\n")).collect();
    let (fetcher, _) = with(saying(page(&many, b"hello")));
    assert!(body(&fetcher, "http://a.example/").await.is_err());
}

#[tokio::test]
async fn whoever_is_slow_is_left() {
    let short = Duration::from_millis(100);
    let (never, _) = with(server(|_, stream| hold(stream)));
    let never = never.with_limits(Limits { head: short, ..Limits::default() });
    let words = body(&never, "http://a.example/").await.unwrap_err();
    assert_eq!(words, "the beginning of the answer didn't come within 0.1 s");
    let (half, _) = with(server(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello").unwrap();
        hold(stream);
    }));
    let half = half.with_limits(Limits { idle: short, ..Limits::default() });
    let words = body(&half, "http://a.example/").await.unwrap_err();
    assert_eq!(words, "more of the answer didn't come within 0.1 s");
}

#[tokio::test]
async fn a_byte_now_and_then_does_not_keep_it_open() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let (fetcher, _) = with(server(move |_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n");
        // A byte each time that the wait for the next word ends, which nobody says.
        while stream.write_all(b"x").is_ok() {
            let _ = wait.lock().unwrap().recv_timeout(Duration::from_millis(20));
        }
    }));
    let limits =
        Limits { idle: Duration::from_secs(5), whole: Duration::from_millis(300), ..Limits::default() };
    let words = body(&fetcher.with_limits(limits), "http://a.example/").await.unwrap_err();
    assert_eq!(words, "the whole answer didn't come within 0.3 s");
    drop(go);
}

#[tokio::test]
async fn who_speaks_no_tls_is_told_apart() {
    let (fetcher, world) = with(saying(page("", b"plain")));
    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    world.at(&format!("{PUBLIC}:443"), plain.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        hold(&mut stream);
    });
    let words = body(&fetcher, "https://a.example/").await.unwrap_err();
    assert!(words.contains("no encrypted connection to `a.example:443`"), "{words}");
    let words = body(&fetcher, "http://b.example/").await.unwrap_err();
    assert!(words.contains("the name `b.example` can't be resolved"), "{words}");
    let words = body(&fetcher, "http://a.example:81/").await.unwrap_err();
    assert!(words.contains("`a.example:81` can't be reached: nobody there"), "{words}");
}
