//! A fake network for tests: names, addresses, and local servers that stand in for remote ones.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use haft_net::fetch::{FetchResult, FetchTarget, Fetcher};
use haft_net::network_access::{ConnectFuture, NetworkAccess};

/// A public address for test names.
pub(crate) const PUBLIC: &str = "93.184.216.34";

#[derive(Default)]
pub(crate) struct FakeNetwork {
    /// The results of successive lookups of a name; the last one repeats.
    names: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    machines: Mutex<HashMap<SocketAddr, SocketAddr>>,
    dialed_addresses: Mutex<Vec<SocketAddr>>,
    lookups: Mutex<usize>,
}

impl FakeNetwork {
    pub(crate) fn name(&self, name: &str, lookups: &[&[&str]]) {
        let parse = |look: &&[&str]| look.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), lookups.iter().map(parse).collect());
    }

    pub(crate) fn route(&self, address: &str, server: SocketAddr) {
        self.machines.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    pub(crate) fn dialed_addresses(&self) -> Vec<String> {
        self.dialed_addresses.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }

    pub(crate) fn lookups(&self) -> usize {
        *self.lookups.lock().unwrap()
    }
}

impl NetworkAccess for FakeNetwork {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        *self.lookups.lock().unwrap() += 1;
        let mut names = self.names.lock().unwrap();
        let lookups = names.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if lookups.len() > 1 { lookups.pop_front().unwrap() } else { lookups[0].clone() })
    }

    fn dial(&self, address: SocketAddr) -> ConnectFuture {
        self.dialed_addresses.lock().unwrap().push(address);
        let machine = self.machines.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            let real = machine.or(address.ip().is_loopback().then_some(address));
            tokio::net::TcpStream::connect(real.ok_or_else(|| io::Error::other("no server there"))?).await
        })
    }
}

/// A server that reads the head of each request and passes it to `answer`.
pub(crate) fn server(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut byte) {
                        Ok(1) => head.push(byte[0]),
                        _ => return,
                    }
                }
                answer(&String::from_utf8_lossy(&head), &mut stream);
            });
        }
    });
    at
}

/// A server that sends the same response to every request.
pub(crate) fn fixed_server(answer: impl AsRef<[u8]>) -> SocketAddr {
    let answer = answer.as_ref().to_vec();
    server(move |_, stream| {
        // The client may have disconnected.
        let _ = stream.write_all(&answer);
    })
}

/// A response with these headers.
pub(crate) fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut page = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    page.extend_from_slice(body);
    page
}

/// A network in which `a.example` is this server, by plain HTTP on port 80.
pub(crate) fn fetcher_for(server: SocketAddr) -> (Fetcher, Arc<FakeNetwork>) {
    let world = FakeNetwork::default();
    world.name("a.example", &[&[PUBLIC]]);
    world.route(&format!("{PUBLIC}:80"), server);
    let world = Arc::new(world);
    (Fetcher::new().with_network(world.clone()), world)
}

pub(crate) async fn get(fetcher: &Fetcher, url: &str) -> Result<FetchResult, String> {
    fetcher.get(&FetchTarget::parse(url).unwrap(), "text/html").await.map_err(|failure| failure.to_string())
}

/// Fetches the body of a page.
pub(crate) async fn body(fetcher: &Fetcher, url: &str) -> Result<String, String> {
    match get(fetcher, url).await? {
        FetchResult::Page(answer) => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
        FetchResult::OtherOrigin { to, .. } => Err(format!("elsewhere: {to}")),
    }
}
