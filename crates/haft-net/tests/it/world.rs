//! The internet of a test: names, machines behind addresses, and servers on the loopback that stand in for them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use haft_net::fetch::{Fetched, Fetcher, Target};
use haft_net::outside::{Dialling, Outside};

/// A public address for the names of the tests.
pub(crate) const PUBLIC: &str = "93.184.216.34";

#[derive(Default)]
pub(crate) struct World {
    /// What a name leads to, look after look; the last answer stays.
    names: Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>,
    machines: Mutex<HashMap<SocketAddr, SocketAddr>>,
    dialled: Mutex<Vec<SocketAddr>>,
    looks: Mutex<usize>,
}

impl World {
    pub(crate) fn name(&self, name: &str, looks: &[&[&str]]) {
        let parse = |look: &&[&str]| look.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), looks.iter().map(parse).collect());
    }

    pub(crate) fn at(&self, address: &str, server: SocketAddr) {
        self.machines.lock().unwrap().insert(address.parse().unwrap(), server);
    }

    pub(crate) fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(SocketAddr::to_string).collect()
    }

    pub(crate) fn looks(&self) -> usize {
        *self.looks.lock().unwrap()
    }
}

impl Outside for World {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        *self.looks.lock().unwrap() += 1;
        let mut names = self.names.lock().unwrap();
        let looks = names.get_mut(name).ok_or_else(|| io::Error::other("no such name"))?;
        Ok(if looks.len() > 1 { looks.pop_front().unwrap() } else { looks[0].clone() })
    }

    fn dial(&self, address: SocketAddr) -> Dialling {
        self.dialled.lock().unwrap().push(address);
        let machine = self.machines.lock().unwrap().get(&address).copied();
        Box::pin(async move {
            let real = machine.or(address.ip().is_loopback().then_some(address));
            tokio::net::TcpStream::connect(real.ok_or_else(|| io::Error::other("nobody there"))?).await
        })
    }
}

/// A server that reads the head of each request and does this with it.
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

/// A server that says the same to everybody.
pub(crate) fn saying(answer: impl AsRef<[u8]>) -> SocketAddr {
    let answer = answer.as_ref().to_vec();
    server(move |_, stream| {
        // A client that had enough may be gone.
        let _ = stream.write_all(&answer);
    })
}

/// A page with these headers.
pub(crate) fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let mut page = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    page.extend_from_slice(body);
    page
}

/// A world in which `a.example` is this server, by plain HTTP at port 80.
pub(crate) fn with(server: SocketAddr) -> (Fetcher, Arc<World>) {
    let world = World::default();
    world.name("a.example", &[&[PUBLIC]]);
    world.at(&format!("{PUBLIC}:80"), server);
    let world = Arc::new(world);
    (Fetcher::new().with_outside(world.clone()), world)
}

pub(crate) async fn get(fetcher: &Fetcher, url: &str) -> Result<Fetched, String> {
    fetcher.get(&Target::parse(url).unwrap(), "text/html").await.map_err(|failure| failure.to_string())
}

/// The body of a page that is there.
pub(crate) async fn body(fetcher: &Fetcher, url: &str) -> Result<String, String> {
    match get(fetcher, url).await? {
        Fetched::Page(answer) => Ok(String::from_utf8_lossy(&answer.body).into_owned()),
        Fetched::Elsewhere { to, .. } => Err(format!("elsewhere: {to}")),
    }
}
