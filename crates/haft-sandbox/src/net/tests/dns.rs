//! The name server: every question is refused, and its name told to the calls that are running.

use std::io::{Read as _, Write as _};
use std::net::UdpSocket;
use std::time::Duration;

use super::super::dns::answer_query;
use super::super::limits::{DNS_QUERIES_MAX, REFUSALS_MAX};
use super::{World, allowing, connect, hosts, net};

/// A question for an address.
fn query(name: &str) -> Vec<u8> {
    let mut query = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

/// The answer to it: refused, with the question repeated.
fn refused(name: &str) -> Vec<u8> {
    let mut answer = query(name);
    answer[2..4].copy_from_slice(&[0x81, 5]);
    answer
}

#[test]
fn questions_are_refused_and_told() {
    let net = net(allowing(&["allowed.example"]), World::default());
    let before = net.admit(&[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut heard = [0; 512];
    for name in ["Wanted.example", "wanted.EXAMPLE", "allowed.example", "myhost"] {
        socket.send_to(&query(name), net.dns).unwrap();
        let count = socket.recv(&mut heard).unwrap();
        assert_eq!(heard[..count], refused(name));
    }
    let after = net.admit(&[]);
    let mut stream = connect(net.dns_tcp);
    for name in ["over.tcp.example", "again.tcp.example"] {
        let query = query(name);
        let length = u16::try_from(query.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &query].concat()).unwrap();
        let mut heard = vec![0; 2 + query.len()];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!((&heard[..2], &heard[2..]), (&length[..], &*refused(name)));
    }
    let told = hosts(&before.refusals());
    let names: Vec<&str> = told.iter().map(|(host, port, _)| port.map_or(&**host, |_| "a port")).collect();
    assert_eq!(names, ["wanted.example", "allowed.example", "over.tcp.example", "again.tcp.example"]);
    assert!(told[0].2.contains("`WebFetch(domain:wanted.example)`"), "{told:?}");
    assert!(told[1].2.contains("only through the proxy"), "{told:?}");
    assert_eq!(hosts(&after.refusals()).len(), 2, "only what was asked while it ran");
}

#[test]
fn odd_messages_are_survived() {
    let heard = |bytes: &[u8]| answer_query(bytes, |name| assert!(name.len() <= 1024, "{name}"));
    let good = query("a.example");
    assert_eq!(heard(&good), Some(refused("a.example")), "positive control");
    assert_eq!(heard(&[]), None);
    assert_eq!(heard(&good[..11]), None);
    let mut an_answer = good.clone();
    an_answer[2] |= 0x80;
    assert_eq!(heard(&an_answer), None, "answers are not answered");
    for end in 12..good.len() {
        assert_eq!(heard(&good[..end]).unwrap()[3], 1, "a question that is cut off at {end}");
    }
    let with = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        heard(&changed).unwrap()[3]
    };
    assert_eq!(with(12, 0xc0), 1, "a pointer");
    assert_eq!(with(12, 64), 1, "a label that is too long");
    assert_eq!((with(5, 0), with(5, 2), with(2, 0x28)), (5, 5, 5), "no plain question");
    let long = vec!["abcdefgh"; 40].join(".");
    assert_eq!(heard(&query(&long)).unwrap()[3], 1, "a name that is too long");
    let mut name = String::new();
    answer_query(&query("a\0\u{1b}[31mb.x y"), |asked| asked.clone_into(&mut name));
    assert_eq!(name, "a\\000\\027\\09131mb.x\\032y");
}

#[test]
fn questions_of_one_call_do_not_hide_what_another_was_refused() {
    let net = net(allowing(&[]), World::default());
    let (noisy, other) = (net.admit(&[]), net.admit(&[]));
    let mut stream = connect(net.dns_tcp);
    for number in 0..DNS_QUERIES_MAX {
        let query = query(&format!("h{number}.example"));
        let length = u16::try_from(query.len()).unwrap().to_be_bytes();
        stream.write_all(&[&length[..], &query].concat()).unwrap();
        stream.read_exact(&mut vec![0; 2 + query.len()]).unwrap();
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "so many questions and no more");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for number in 0..REFUSALS_MAX {
        socket.send_to(&query(&format!("u{number}.example")), net.dns).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    net.ask(&other, "GET http://wanted.example/ HTTP/1.1", "\r\n");
    assert_eq!(noisy.refusals().len(), REFUSALS_MAX);
    assert_eq!(hosts(&other.refusals())[0].0, "wanted.example");
}
