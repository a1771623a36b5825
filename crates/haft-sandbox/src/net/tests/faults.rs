//! Clients and servers that are slow, silent, or say too much. Limits are short here; nothing is measured.

use std::io::{Read as _, Write as _};
use std::sync::mpsc;
use std::time::Duration;

use haft::ports::ConfinementRefusal;

use super::super::limits::{self, NetworkTimeouts};
use super::{PUBLIC, World, allowing, echo, header, is_closed, net, net_with, server};

const SHORT: Duration = Duration::from_millis(100);

#[test]
fn a_head_that_never_ends_is_let_go() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net_with(
        allowing(&["a.example:8080"]),
        world,
        NetworkTimeouts { head: 10 * SHORT, ..NetworkTimeouts::default() },
    );
    let ticket = net.admit(&[]);
    let mut slow: Vec<_> = (0..50).map(|_| net.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"CONNECT a.example:8080 HTTP/1.1\r\nA:").unwrap();
    }
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    assert!(net.try_tunnel(&ticket, "a.example:8080").1.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_head_that_is_too_long_is_refused() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let ticket = net.admit(&[]);
    let head = |filler: usize| {
        let start = format!("CONNECT a.example:8080 HTTP/1.1\r\n{}A: ", header(&ticket));
        let filler = "b".repeat(filler - start.len() - 4);
        format!("{start}{filler}\r\n\r\n")
    };
    let ask = |size| {
        let mut stream = net.connect();
        stream.write_all(head(size).as_bytes()).unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8(status.to_vec()).unwrap()
    };
    assert_eq!(ask(limits::HEAD_BYTES_MAX), "HTTP/1.1 200");
    assert_eq!(ask(limits::HEAD_BYTES_MAX + 1), "HTTP/1.1 431");
    assert_eq!(ask(limits::HEAD_BYTES_MAX + 100_000), "HTTP/1.1 431");
}

#[test]
fn silence_ends_a_tunnel_and_talk_keeps_it() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net_with(
        allowing(&["a.example:8080"]),
        world,
        NetworkTimeouts { idle: 20 * SHORT, ..NetworkTimeouts::default() },
    );
    let ticket = net.admit(&[]);
    let (mut silent, mut talking) =
        (net.tunnel(&ticket, "a.example:8080"), net.tunnel(&ticket, "a.example:8080"));
    silent.write_all(b"x").unwrap();
    silent.read_exact(&mut [0]).unwrap();
    silent.set_nonblocking(true).unwrap();
    // Talks for as long as the other one is there.
    loop {
        talking.write_all(b"x").unwrap();
        talking.read_exact(&mut [0]).unwrap();
        match silent.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(SHORT / 10),
            end => break assert_eq!(end.unwrap(), 0),
        }
    }
    talking.write_all(b"x").unwrap();
    talking.read_exact(&mut [0]).unwrap();
}

#[test]
fn a_tunnel_that_says_nothing_first_is_let_go() {
    let world = World::default();
    world.machine("a.example", 443, echo());
    let net = net_with(
        allowing(&["a.example"]),
        world,
        NetworkTimeouts { hello: SHORT, ..NetworkTimeouts::default() },
    );
    let ticket = net.admit(&[]);
    let mut tunnel = net.tunnel(&ticket, "a.example:443");
    tunnel.write_all(&[0x16, 3]).unwrap();
    assert!(is_closed(&mut tunnel));
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let world = World::default();
    let (_keep, held) = mpsc::channel::<()>();
    let held = std::sync::Mutex::new(held);
    world.machine("a.example", 80, server(move |_stream| held.lock().unwrap().recv().unwrap_or_default()));
    let net = net_with(
        allowing(&["a.example"]),
        world,
        NetworkTimeouts { idle: SHORT, ..NetworkTimeouts::default() },
    );
    let ticket = net.admit(&[]);
    assert_eq!(net.ask(&ticket, "GET http://a.example/ HTTP/1.1", "\r\n"), "");
}

#[test]
fn a_resolver_that_hangs_holds_up_neither_others_nor_the_end() {
    let world = World::default();
    let (release, hold) = mpsc::channel();
    *world.hold.lock().unwrap() = Some(hold);
    world.machine("a.example", 80, echo());
    world.at(&format!("{PUBLIC}:8080"), echo());
    let times = NetworkTimeouts { resolve: SHORT, ..NetworkTimeouts::default() };
    let net = net_with(allowing(&["a.example", &format!("{PUBLIC}:8080")]), world, times);
    let ticket = net.admit(&[]);
    for _ in 0..limits::RESOLVING_MAX + 2 {
        let answer = net.ask(&ticket, "GET http://a.example/ HTTP/1.1", "\r\n");
        assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    }
    net.tunnel(&ticket, &format!("{PUBLIC}:8080"));
    // Comes back although the lookups don't.
    drop(net.network);
    drop(release);
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let ticket = net.admit(&[]);
    for _ in 0..50 {
        drop(net.connect());
        let mut half = net.connect();
        half.write_all(b"CONNECT a.ex").unwrap();
        drop(half);
        drop(net.tunnel(&ticket, "a.example:8080"));
    }
    while ticket.open() > 0 {
        std::thread::sleep(SHORT / 100);
    }
    assert_eq!(ticket.refusals(), []);
}

/// A client shows but the number of the answer, so that the result has to say that this is no matter of
/// rules.
#[test]
fn a_name_without_an_address_is_told_apart_from_a_refusal() {
    let world = World::default();
    let net = net(allowing(&["missing.example"]), world);
    let ticket = net.admit(&[]);
    for (line, port) in
        [("CONNECT missing.example:443 HTTP/1.1", 443), ("GET http://missing.example/ HTTP/1.1", 80)]
    {
        let answer = net.ask(&ticket, line, "\r\n");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
        assert!(answer.contains("the name `missing.example` can't be resolved: "), "{answer}");
        let told = ticket.refusals();
        let found = told.iter().any(|told| {
            matches!(told, ConfinementRefusal::Unreached { host, port: at, why }
                if host == "missing.example" && *at == port && why.contains("rules let it through"))
        });
        assert!(found, "{told:?}");
    }
    // A refusal says that it is one, and no lookup is made for it.
    let answer = net.ask(&ticket, "CONNECT other.example:443 HTTP/1.1", "\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("no rule allows"), "{answer}");
}
