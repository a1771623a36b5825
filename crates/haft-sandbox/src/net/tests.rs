//! The network of a session with real sockets, all on the loopback: a proxy as the helper would bind it, an
//! outside that is scripted, and servers that stand in for the internet.

mod clients;
mod dns;
mod faults;
mod names;
mod namespace;
mod proxy;
mod questions;
mod requests;
mod tls;
mod verdicts;

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use haft::future::BoxFuture;
use haft::ports::{ChildRequests, ConfinementRefusal, HostGrants};

use super::host::HostRule;
use super::limits::NetworkTimeouts;
use super::{NetworkListeners, NetworkPolicy, NetworkTicket, SessionProxy};
use haft_net::network_access::NetworkAccess;

/// A public address for `example.com` of the tests.
const PUBLIC: &str = "93.184.216.34";

/// The internet of a test: names, and the machines behind addresses.
#[derive(Default)]
struct World {
    /// What a name leads to, look after look; the last answer stays.
    names: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    machines: Mutex<HashMap<SocketAddr, SocketAddr>>,
    dialled: Mutex<Vec<SocketAddr>>,
    /// The names that were looked up.
    resolved: Mutex<Vec<String>>,
    /// Lookups wait for this, if it is there.
    hold: Mutex<Option<mpsc::Receiver<()>>>,
}

impl World {
    fn name(&self, name: &str, looks: &[&[&str]]) {
        let parse = |look: &&[&str]| look.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), looks.iter().map(parse).collect());
    }

    /// A name with one public address, behind whose port is this server.
    fn machine(&self, name: &str, port: u16, server: SocketAddr) {
        self.name(name, &[&[PUBLIC]]);
        self.at(&format!("{PUBLIC}:{port}"), server);
    }

    fn at(&self, address: &str, server: SocketAddr) {
        self.machines.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }
}

impl NetworkAccess for World {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.resolved.lock().unwrap().push(name.to_owned());
        if let Some(hold) = &*self.hold.lock().unwrap() {
            let _ = hold.recv();
        }
        let mut names = self.names.lock().unwrap();
        let looks = names.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if looks.len() > 1 { looks.pop_front().unwrap() } else { looks[0].clone() })
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<tokio::net::TcpStream>> {
        self.dialled.lock().unwrap().push(address);
        let machine = self.machines.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            let real = machine.or(address.ip().is_loopback().then_some(address));
            tokio::net::TcpStream::connect(real.ok_or_else(|| io::Error::other("nobody there"))?).await
        })
    }
}

/// A network and where to reach it.
struct Net {
    network: SessionProxy,
    world: Arc<World>,
    proxy: SocketAddr,
    dns: SocketAddr,
    dns_tcp: SocketAddr,
}

impl Net {
    fn admit(&self, hosts: &[&str]) -> NetworkTicket {
        let rules: Vec<HostRule> = hosts.iter().map(|host| host.parse().unwrap()).collect();
        self.network.admit(&rules, None, None).unwrap()
    }

    /// A call that is granted more while it runs.
    fn admit_with(&self, live: &HostGrants) -> NetworkTicket {
        self.network.admit(&[], Some(live.clone()), None).unwrap()
    }

    /// A call that asks about hosts that it isn't granted.
    fn admit_asking(&self, requests: ChildRequests) -> NetworkTicket {
        self.network.admit(&[], None, Some(requests)).unwrap()
    }

    /// A connection to the proxy.
    fn connect(&self) -> TcpStream {
        connect(self.proxy)
    }

    /// Sends a request with the call's token and reads the answer to its end.
    fn ask(&self, ticket: &NetworkTicket, first: &str, rest: &str) -> String {
        ask(self.proxy, format!("{first}\r\n{}{rest}", header(ticket)).as_bytes())
    }

    /// A tunnel that was opened.
    fn tunnel(&self, ticket: &NetworkTicket, to: &str) -> TcpStream {
        let (stream, answer) = self.try_tunnel(ticket, to);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        stream
    }

    /// A tunnel and the head of what the proxy said about it.
    fn try_tunnel(&self, ticket: &NetworkTicket, to: &str) -> (TcpStream, String) {
        let mut stream = self.connect();
        write!(stream, "CONNECT {to} HTTP/1.1\r\n{}\r\n", header(ticket)).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        (stream, String::from_utf8(answer).unwrap())
    }
}

fn net(policy: NetworkPolicy, world: World) -> Net {
    net_with(policy, world, NetworkTimeouts::default())
}

fn net_with(policy: NetworkPolicy, world: World, times: NetworkTimeouts) -> Net {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let (at, dns, dns_tcp) =
        (proxy.local_addr().unwrap(), udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let world = Arc::new(world);
    let listeners = NetworkListeners { proxy, dns: Some((udp, tcp)), host_ports: Vec::new() };
    let network = SessionProxy::start_with(listeners, policy, world.clone(), times).unwrap();
    Net { network, world, proxy: at, dns, dns_tcp }
}

fn allowing(rules: &[&str]) -> NetworkPolicy {
    NetworkPolicy::new().with_allowed(rules.iter().map(|rule| rule.parse().unwrap()))
}

/// What a client says to be let through, with its line break.
fn header(ticket: &NetworkTicket) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", ticket.authorization())
}

/// Long enough for anything that happens; a test that waits for it fails.
fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

fn ask(to: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(to);
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whether the other side has ended the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

/// A server that does this with each connection, on a thread for each.
fn server(each: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let each = Arc::new(each);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let each = each.clone();
            std::thread::spawn(move || each(stream));
        }
    });
    address
}

/// A server that says everything back.
fn echo() -> SocketAddr {
    server(|mut stream| {
        let _ = io::copy(&mut stream.try_clone().unwrap(), &mut stream);
        let _ = stream.shutdown(Shutdown::Write);
    })
}

/// A server that answers `hello` and tells everything that it was sent until then, connection by connection.
fn web() -> (SocketAddr, mpsc::Receiver<String>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let address = server(move |mut stream| {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(count) => seen.extend_from_slice(&buffer[..count]),
            }
            if whole(&seen) {
                let _ = stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
                let _ = stream.shutdown(Shutdown::Write);
                // Whatever else comes was smuggled.
                let _ = stream.read_to_end(&mut seen);
                break;
            }
        }
        let _ = tell.lock().unwrap().send(String::from_utf8_lossy(&seen).into_owned());
    });
    (address, told)
}

/// Whether a request is all there, by its own words.
fn whole(seen: &[u8]) -> bool {
    let text = String::from_utf8_lossy(seen);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    match length {
        Some(length) => body.len() >= length.parse().unwrap(),
        None if head.contains("Transfer-Encoding: chunked") => body.ends_with("0\r\n\r\n"),
        None => true,
    }
}

/// The host, the port and the words of each refusal.
fn hosts(refusals: &[ConfinementRefusal]) -> Vec<(String, Option<u16>, String)> {
    let host = |refusal: &ConfinementRefusal| match refusal {
        ConfinementRefusal::Host { host, port, why, .. } => (host.clone(), *port, why.clone()),
        other => panic!("{other:?}"),
    };
    refusals.iter().map(host).collect()
}
