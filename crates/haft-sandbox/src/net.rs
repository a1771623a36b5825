//! The network of a session: a proxy and a name server that its programs find on their loopback, served from
//! the host.
//!
//! Programs of a session live in a network of their own, in which nothing leads out. The helper that made it
//! binds sockets inside and hands them out; the host accepts on them and dials. So there is no forwarder
//! inside that could be replaced, and no file that could be removed.
//!
//! - [`host`] reads hosts and rules on them; [`host_preset`] names some; [`address`] knows which addresses
//!   are public: all three are `haft-net`'s. `policy` judges with them.
//! - `session` knows which calls are running; `ticket` is what such a call holds.
//! - `proxy` is the life of a connection: `head` and `body` read HTTP, `hello` the first message of TLS,
//!   `outside` resolves, checks and dials, `relay` copies.
//! - `dns` refuses names and notes them.
//!
//! One thread with a runtime of its own does all of it. Copying is the work, and a thousand connections of
//! one session are not worth a thousand threads; a runtime of the host's can't be counted on, and would lend
//! its threads to strangers. Names are resolved by the system's own resolver, which blocks, on a few threads
//! of that runtime.

mod body;
mod check;
mod client_hello;
mod dns;
mod limits;
mod outbound;
mod policy;
mod proxy;
mod relay;
mod request_head;
mod session;
mod ticket;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use haft::ports::{ChildRequests, ConfinementRefusal, HostGrants};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot};

pub use haft_net::{address, host, host_preset};
pub use policy::{InvalidHost, NetworkPolicy};
pub(crate) use ticket::NetworkTicket;

use haft_net::network_access::{NetworkAccess, SystemNetwork};
use host::HostRule;
use limits::NetworkTimeouts;
use session::NetworkSession;

/// Sockets that were bound inside of the session's network.
pub(crate) struct NetworkListeners {
    /// The proxy, `127.0.0.1:3128`.
    pub(crate) proxy: std::net::TcpListener,
    /// The name server, `127.0.0.1:53`, over UDP and TCP.
    pub(crate) dns: Option<(std::net::UdpSocket, std::net::TcpListener)>,
    /// Ports of the machine that rules open, each with a listener on the same port inside.
    pub(crate) host_ports: Vec<(u16, std::net::TcpListener)>,
}

/// The network of one session. Dropping it closes every connection.
pub(crate) struct SessionProxy {
    session: Arc<NetworkSession>,
    proxy: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    stopped: Mutex<mpsc::Receiver<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SessionProxy {
    /// Serves these sockets from a thread of its own.
    ///
    /// # Errors
    /// A socket can't be used, no thread can be had, or no rule opens one of the machine's ports.
    pub(crate) fn start(listeners: NetworkListeners, policy: NetworkPolicy) -> io::Result<SessionProxy> {
        SessionProxy::start_with(listeners, policy, Arc::new(SystemNetwork), NetworkTimeouts::default())
    }

    fn start_with(
        listeners: NetworkListeners,
        policy: NetworkPolicy,
        outside: Arc<dyn NetworkAccess>,
        times: NetworkTimeouts,
    ) -> io::Result<SessionProxy> {
        if let Some((port, _)) = listeners.host_ports.iter().find(|(port, _)| !policy.opens_host_port(*port))
        {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("no rule opens `localhost:{port}` to the session"),
            ));
        }
        let proxy = listeners.proxy.local_addr()?;
        let session = Arc::new(NetworkSession::new(policy, outside, times));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(limits::RESOLVING_MAX)
            .thread_name("haft-resolve")
            .build()?;
        serve_listeners(&runtime, listeners, &session)?;

        let (stop, stopping) = oneshot::channel();
        let (tell, stopped) = mpsc::channel();
        let work = move || {
            // Told to stop, or let go of: both end it.
            let _ = runtime.block_on(stopping);
            runtime.shutdown_timeout(limits::STOP_WAIT / 2);
            // Nobody may be listening any more.
            let _ = tell.send(());
        };
        let thread = std::thread::Builder::new().name("haft-network".into()).spawn(work)?;
        Ok(SessionProxy {
            session,
            proxy,
            stop: Some(stop),
            stopped: Mutex::new(stopped),
            thread: Some(thread),
        })
    }

    /// Lets a call use the network: what the session's rules allow, these hosts, and what is granted while it
    /// runs. `requests` is where it is asked about other hosts.
    ///
    /// # Errors
    /// The system has no random numbers for its token.
    pub(crate) fn admit(
        &self,
        hosts: &[HostRule],
        live: Option<HostGrants>,
        requests: Option<ChildRequests>,
    ) -> io::Result<NetworkTicket> {
        NetworkTicket::new(self.session.clone(), self.proxy, hosts, live, requests)
    }

    /// What came without the token of a running call.
    pub(crate) fn refusals(&self) -> Vec<ConfinementRefusal> {
        self.session.refusals()
    }
}

impl Drop for SessionProxy {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // Already gone is as good.
            let _ = stop.send(());
        }
        let gone =
            self.stopped.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(limits::STOP_WAIT)
                != Err(mpsc::RecvTimeoutError::Timeout);
        if let Some(thread) = self.thread.take()
            && gone
        {
            // A panic of it was told by the panic itself.
            let _ = thread.join();
        }
    }
}

/// Everything that runs for as long as the runtime does.
fn serve_listeners(
    runtime: &Runtime,
    listeners: NetworkListeners,
    session: &Arc<NetworkSession>,
) -> io::Result<()> {
    let _inside = runtime.enter();
    let room = Arc::new(Semaphore::new(limits::SESSION_CONNECTIONS_MAX));
    runtime.spawn(accept_connections(
        tokio_listener(listeners.proxy)?,
        room.clone(),
        session.clone(),
        proxy::serve_connection,
    ));
    for (port, listener) in listeners.host_ports {
        let connect = move |session, stream| proxy::host_port(session, port, stream);
        runtime.spawn(accept_connections(tokio_listener(listener)?, room.clone(), session.clone(), connect));
    }
    if let Some((datagrams, connections)) = listeners.dns {
        datagrams.set_nonblocking(true)?;
        runtime.spawn(dns::serve_datagrams(session.clone(), UdpSocket::from_std(datagrams)?));
        let room = Arc::new(Semaphore::new(limits::DNS_CONNECTIONS_MAX));
        runtime.spawn(accept_connections(
            tokio_listener(connections)?,
            room,
            session.clone(),
            dns::serve_connection,
        ));
    }
    Ok(())
}

fn tokio_listener(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Accepts while there is room, and gives each connection a task of its own.
async fn accept_connections<F>(
    listener: TcpListener,
    room: Arc<Semaphore>,
    session: Arc<NetworkSession>,
    connection: impl Fn(Arc<NetworkSession>, TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = connection(session.clone(), stream);
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            // No descriptors, or a client that is gone already.
            Err(_) => tokio::time::sleep(limits::ACCEPT_PAUSE).await,
        }
    }
}
