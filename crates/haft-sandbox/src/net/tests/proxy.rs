//! Who may use the proxy and for how long: tokens, calls that end, many connections, the end of the session.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use haft::ports::{ConfinementRefusal, HostGrants};

use super::super::limits;
use super::super::{NetworkListeners, NetworkTicket, SessionProxy};
use super::{NetworkPolicy, World, allowing, ask, echo, header, hosts, is_closed, net, web};

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
    let mut back = vec![0; text.len()];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, text.as_bytes());
}

#[test]
fn a_request_reaches_an_allowed_host_and_no_other() {
    let (address, seen) = web();
    let world = World::default();
    world.machine("a.example", 80, address);
    world.machine("b.example", 80, address);
    let net = net(allowing(&["A.example"]), world);
    let ticket = net.admit(&[]);
    let answer = net.ask(&ticket, "GET http://a.example/x HTTP/1.1", "Host: b.example\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"), "{answer}");
    assert_eq!(seen.recv().unwrap(), "GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    assert_eq!(ticket.refusals(), []);

    let why = "no rule allows `b.example`; `WebFetch(domain:b.example)` would";
    let answer = net.ask(&ticket, "GET http://b.example/x HTTP/1.1", "Host: a.example\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with(&format!("haft: {why}\n")), "{answer}");
    assert!(net.try_tunnel(&ticket, "b.example:443").1.starts_with("HTTP/1.1 403 "));
    assert!(net.try_tunnel(&ticket, "b.example:443").1.starts_with("HTTP/1.1 403 "));
    let refused = |port| ("b.example".to_owned(), Some(port), why.to_owned());
    assert_eq!(hosts(&ticket.refusals()), [refused(80), refused(443)]);
    assert_eq!(net.world.dialled().len(), 1, "nobody was dialled for what was refused");
}

#[test]
fn a_token_is_needed_and_it_is_the_calls_own() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&[]), world);
    let (granted, other) = (net.admit(&["a.example:8080"]), net.admit(&[]));
    let connect = "CONNECT a.example:8080 HTTP/1.1\r\n";

    say(&mut net.tunnel(&granted, "a.example:8080"), "positive control");
    assert!(net.try_tunnel(&other, "a.example:8080").1.starts_with("HTTP/1.1 403 "));
    assert_eq!((granted.refusals().len(), other.refusals().len()), (0, 1));
    assert_eq!(net.network.refusals(), []);

    let answer = ask(net.proxy, format!("{connect}\r\n").as_bytes());
    assert!(
        answer.starts_with("HTTP/1.1 407 ") && answer.contains("\r\nProxy-Authenticate: Basic "),
        "{answer}"
    );
    let right = header(&granted);
    let longer = right.replace("\r\n", "A\r\n");
    let shorter = format!("{}\r\n", &right[..right.len() - 4]);
    for wrong in [&right.replace("Basic", "Bearer"), &right.replace("Basic ", "Basic"), &longer, &shorter] {
        let answer = ask(net.proxy, format!("{connect}{wrong}\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 407 "), "{wrong}: {answer}");
    }
}

/// A program that serves several calls: a host is open from the moment in which it is granted, to this
/// program alone, and what is refused is heard at once.
#[test]
fn a_running_call_can_be_granted_more() {
    let (address, seen) = web();
    let world = World::default();
    world.machine("a.example", 80, address);
    let net = net(allowing(&[]).with_denied(["c.example".parse().unwrap()]), world);
    let live = HostGrants::default();
    let (ticket, other) = (net.admit_with(&live), net.admit(&[]));
    let get =
        |ticket: &NetworkTicket| net.ask(ticket, "GET http://a.example/ HTTP/1.1", "Host: a.example\r\n\r\n");
    assert!(get(&ticket).starts_with("HTTP/1.1 403 "));
    let refused = live.take_refused();
    assert!(
        matches!(&refused[..], [ConfinementRefusal::Host { host, grantable: true, .. }] if host == "a.example")
    );
    assert_eq!(live.take_refused(), []);
    assert!(live.grant("a.example") && live.grant("c.example") && live.grant("no host"));
    assert!(get(&ticket).starts_with("HTTP/1.1 200 "));
    seen.recv().unwrap();
    assert!(get(&other).starts_with("HTTP/1.1 403 "), "it was granted to one call");
    assert!(net.try_tunnel(&ticket, "c.example:443").1.starts_with("HTTP/1.1 403 "), "what rules deny stays");
}

#[test]
fn a_client_that_asks_without_a_token_first_was_not_refused() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let ticket = net.admit(&[]);
    for host in ["a.example", "b.example"] {
        let answer = ask(net.proxy, format!("CONNECT {host}:8080 HTTP/1.1\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
    }
    assert_eq!(net.network.refusals().len(), 2);
    say(&mut net.tunnel(&ticket, "a.example:8080"), "x");
    let left = hosts(&net.network.refusals());
    assert_eq!(left.len(), 1);
    assert!(left[0].0 == "b.example" && left[0].2.contains("without the token"), "{left:?}");
    assert_eq!(ticket.refusals(), []);
}

#[test]
fn when_a_call_ends_its_token_is_void_and_its_connections_are_closed() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let (one, other) = (net.admit(&[]), net.admit(&[]));
    let (mut of_one, mut of_other) =
        (net.tunnel(&one, "a.example:8080"), net.tunnel(&other, "a.example:8080"));
    say(&mut of_one, "one");
    say(&mut of_other, "other");
    let header = header(&one);
    drop(one);
    assert!(is_closed(&mut of_one));
    say(&mut of_other, "still there");
    let answer = ask(net.proxy, format!("CONNECT a.example:8080 HTTP/1.1\r\n{header}\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 407 "), "{answer}");
    assert_eq!(net.network.refusals().len(), 1);
}

#[test]
fn dropping_the_network_closes_everything() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let ticket = net.admit(&[]);
    let mut tunnel = net.tunnel(&ticket, "a.example:8080");
    let mut waiting = net.connect();
    say(&mut tunnel, "positive control");
    let proxy = net.proxy;
    drop(net.network);
    assert!(is_closed(&mut tunnel) && is_closed(&mut waiting));
    assert!(TcpStream::connect(proxy).is_err(), "nobody listens any more");
    assert_eq!(ticket.refusals(), []);
}

#[test]
fn a_call_has_hundreds_of_connections_and_not_more() {
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let (ticket, other) = (net.admit(&[]), net.admit(&[]));
    let open = || net.tunnel(&ticket, "a.example:8080");
    let mut tunnels: Vec<TcpStream> =
        std::iter::repeat_with(open).take(limits::CALL_CONNECTIONS_MAX).collect();
    for (number, tunnel) in tunnels.iter_mut().enumerate() {
        write!(tunnel, "{number:08}").unwrap();
    }
    for (number, tunnel) in tunnels.iter_mut().enumerate() {
        let mut back = [0; 8];
        tunnel.read_exact(&mut back).unwrap();
        assert_eq!(back, *format!("{number:08}").as_bytes());
    }
    assert!(net.try_tunnel(&ticket, "a.example:8080").1.starts_with("HTTP/1.1 503 "));
    assert!(ticket.refusals().len() == 1 && other.refusals().is_empty());
    say(&mut net.tunnel(&other, "a.example:8080"), "another call isn't held up");
    drop(tunnels);
    while ticket.open() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    say(&mut net.tunnel(&ticket, "a.example:8080"), "there is room again");
}

#[test]
fn megabytes_go_both_ways_and_each_way_ends_by_itself() {
    const COUNT: usize = 16 << 20;
    let world = World::default();
    world.machine("a.example", 8080, echo());
    let net = net(allowing(&["a.example:8080"]), world);
    let ticket = net.admit(&[]);
    let mut tunnel = net.tunnel(&ticket, "a.example:8080");
    let mut sending = tunnel.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let block: Vec<u8> = (0..1 << 20).map(|at: usize| (at % 251) as u8).collect();
        (0..COUNT >> 20).for_each(|_| sending.write_all(&block).unwrap());
        sending.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut back = Vec::new();
    tunnel.read_to_end(&mut back).unwrap();
    sender.join().unwrap();
    assert_eq!(back.len(), COUNT);
    assert!(back.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % (1 << 20) % 251));
}

#[test]
fn a_port_of_the_machine_needs_a_rule_with_that_port() {
    let (open, shut) = (echo(), echo());
    let net = net(NetworkPolicy::new().with_host_port(open.port()), World::default());
    let ticket = net.admit(&["*", "localhost"]);
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "LOCALHOST."] {
        say(&mut net.tunnel(&ticket, &format!("{host}:{}", open.port())), "positive control");
        let (_, answer) = net.try_tunnel(&ticket, &format!("{host}:{}", shut.port()));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    }
    let why = &hosts(&ticket.refusals())[0].2;
    assert!(why.contains(&format!("`localhost:{}`, opens it", shut.port())), "{why}");
}

#[test]
fn a_listener_inside_leads_to_a_port_of_the_machine() {
    let target = echo();
    let start = |policy| {
        let inside = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = inside.local_addr().unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = NetworkListeners { proxy, dns: None, host_ports: vec![(target.port(), inside)] };
        SessionProxy::start(listeners, policy).map(|network| (network, at))
    };
    let (network, at) = start(NetworkPolicy::new().with_host_port(target.port())).unwrap();
    let mut stream = super::connect(at);
    say(&mut stream, "positive control");
    drop(network);
    assert!(is_closed(&mut stream));
    let error = start(NetworkPolicy::new()).err().unwrap().to_string();
    assert!(error.starts_with("no rule opens `localhost:"), "{error}");
}

#[test]
fn refusals_are_told_once_and_so_many() {
    let net = net(allowing(&[]), World::default());
    let ticket = net.admit(&[]);
    for number in 0..limits::REFUSALS_MAX + 20 {
        net.ask(&ticket, &format!("GET http://h{number}.example/ HTTP/1.1"), "\r\n");
    }
    assert_eq!(ticket.refusals().len(), limits::REFUSALS_MAX);
}
