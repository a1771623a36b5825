//! The first message of TLS: read whole and in pieces, and compared with what the tunnel was opened for.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::super::client_hello::{self, ClientHello};
use super::super::host::Host;
use super::{NetworkTicket, PUBLIC, World, allowing, echo, hosts, is_closed, net, server};

/// A ClientHello with these names, one `server_name` extension for each list.
pub(super) fn client_hello(lists: &[&[&str]]) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    // One that is to be passed over, and then those that are to be found.
    let mut extensions = [&[0, 43][..], &sized(&[2, 3, 4])].concat();
    for names in lists {
        let list: Vec<u8> =
            names.iter().flat_map(|name| [&[0][..], &sized(name.as_bytes())].concat()).collect();
        extensions.extend([&[0, 0][..], &sized(&sized(&list))].concat());
    }
    let body = [&[3, 3][..], &[7; 32], &[0], &sized(&[0x13, 1]), &[1, 0], &sized(&extensions)].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[1][..], &length[1..], &body].concat()
}

/// A message in records of so many bytes.
pub(super) fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record =
        |part: &[u8]| [&[0x16, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat();
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn the_name_is_found_however_it_is_cut() {
    let name = ClientHello::For(Some(Host::parse("a.example").unwrap()));
    let message = client_hello(&[&["A.Example"]]);
    for size in [1, 3, 40, 10_000] {
        let bytes = records(&message, size);
        for end in 0..bytes.len() {
            assert_eq!(client_hello::parse_hello(&bytes[..end]), ClientHello::Unfinished, "{end} of {size}");
        }
        assert_eq!(client_hello::parse_hello(&bytes), name);
        assert_eq!(client_hello::parse_hello(&[&bytes[..], b"more"].concat()), name);
    }
    assert_eq!(client_hello::parse_hello(&records(&client_hello(&[]), 10_000)), ClientHello::For(None));
}

#[test]
fn what_is_not_one_hello_is_told() {
    let read = |message: &[u8]| client_hello::parse_hello(&records(message, 10_000));
    assert_eq!(read(&client_hello(&[&["a.example", "b.example"]])), ClientHello::Malformed);
    assert_eq!(read(&client_hello(&[&["a.example"], &["b.example"]])), ClientHello::Malformed);
    assert_eq!(read(&client_hello(&[&["a.example\0.b"]])), ClientHello::Malformed);
    assert_eq!(read(&client_hello(&[&[""]])), ClientHello::Malformed);
    assert_eq!(read(&[2, 0, 0, 0]), ClientHello::Malformed);
    assert_eq!(read(&[1, 0xff, 0xff, 0xff]), ClientHello::Malformed);
    assert_eq!(client_hello::parse_hello(b"GET / HTTP/1.1\r\n"), ClientHello::NotTls);
    assert_eq!(client_hello::parse_hello(b"SSH-2.0-x\r\n"), ClientHello::NotTls);
    // No message is read beyond its end, whatever its bytes say.
    let message = client_hello(&[&["a.example"]]);
    for at in 0..message.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut broken = message.clone();
            broken[at] = value;
            read(&broken);
            let mut broken = records(&message, 10_000);
            broken[at] = value;
            client_hello::parse_hello(&broken);
        }
    }
}

/// Opens a tunnel, says this, and tells whether it was passed on (and said back) or the tunnel closed.
fn passes(net: &super::Net, ticket: &NetworkTicket, to: &str, first: &[u8]) -> bool {
    let mut tunnel = net.tunnel(ticket, to);
    tunnel.write_all(first).unwrap();
    let mut back = vec![0; first.len()];
    match tunnel.read_exact(&mut back) {
        Ok(()) => back == first,
        Err(_) => {
            assert!(is_closed(&mut tunnel));
            false
        }
    }
}

#[test]
fn a_tunnel_speaks_with_the_name_it_was_opened_for() {
    let world = World::default();
    for name in ["a.example", "b.example"] {
        world.machine(name, 443, echo());
        world.machine(name, 8443, echo());
        world.machine(name, 2222, echo());
    }
    let net = net(allowing(&["a.example", "a.example:8443", "a.example:2222", "b.example", PUBLIC]), world);
    let ticket = net.admit(&[]);
    let hello = |name: &str, size| records(&client_hello(&[&[name]]), size);
    let said = |to: &str, first: &[u8]| {
        let before = ticket.refusals().len();
        let passed = passes(&net, &ticket, to, first);
        let refused = hosts(&ticket.refusals()).split_off(before).pop().map(|(_, _, why)| why);
        assert_eq!(passed, refused.is_none(), "{refused:?}");
        refused.unwrap_or_default()
    };
    assert_eq!(said("a.example:443", &hello("a.example", 10_000)), "");
    assert_eq!(said("a.example:443", &hello("A.EXAMPLE", 7)), "");
    let fronted = "the connection was opened for `a.example`, and TLS then asked for `b.example`; open one for `b.example`";
    assert_eq!(said("a.example:443", &hello("b.example", 10_000)), fronted);
    assert_eq!(said("a.example:8443", &hello("b.example", 5)), fronted);
    assert!(said("a.example:443", &records(&client_hello(&[]), 10_000)).contains("no SNI"));
    assert!(said("a.example:443", b"SSH-2.0-x\r\n").contains("didn't begin with TLS"));
    assert_eq!(said("a.example:2222", b"SSH-2.0-x\r\n"), "");
    assert_eq!(said(&format!("{PUBLIC}:443"), &records(&client_hello(&[]), 10_000)), "");
    assert_eq!(said(&format!("{PUBLIC}:443"), &hello("b.example", 10_000)), "");
    assert!(said(&format!("{PUBLIC}:443"), &hello("c.example", 10_000)).contains("asked for `c.example`"));
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let world = World::default();
    world.machine("a.example", 22, server(|mut stream| stream.write_all(b"SSH-2.0-server\r\n").unwrap()));
    let net = net(allowing(&["a.example:22"]), world);
    let ticket = net.admit(&[]);
    let mut tunnel: TcpStream = net.tunnel(&ticket, "a.example:22");
    let mut heard = [0; 16];
    tunnel.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"SSH-2.0-server\r\n");
}
