//! One connection to the proxy: a head, a token, a verdict, and then a tunnel or one request.
//!
//! A host that isn't granted is asked about, where the call can ask; the connection waits for the answer.
//!
//! One connection carries one request. Clients lose a round trip for each further `http://` request, and
//! nobody has to agree with a stranger's server on where a request ends. TLS goes through as it is; only the
//! name in its first message is compared with the name that the tunnel was opened for.

use std::io::{self, Cursor};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::client_hello::{self, ClientHello};
use super::host::Host;
use super::outbound::{self, ConnectError};
use super::policy::HostRefusal;
use super::relay::{self, ConnectionActivity};
use super::request_head::{self, BodyLength, ProxyRequest, RejectedRequest, RequestAction};
use super::session::{CallAccess, NetworkSession};
use super::{body, limits};

const NO_TOKEN: &str = "the request came without the token of a running call; use the proxy as `HTTPS_PROXY` names it, \
                        with its user and password";
const TOO_MANY: &str = "this call has too many connections open at once; close some";

/// Serves one connection to its end.
pub(super) async fn serve_connection(session: Arc<NetworkSession>, stream: TcpStream) {
    // Small messages go at once; where that can't be set they go a little later.
    let _ = stream.set_nodelay(true);
    let (mut read, mut write) = stream.into_split();
    let (request, rest) = match timeout(session.times.head, read_request(&mut read)).await {
        Ok(Ok(Some(read))) => read,
        Ok(Ok(None)) => return,
        Ok(Err(RejectedRequest { status, why })) => {
            return send_answer(&session, read, write, status, &why).await;
        }
        Err(_) => {
            return send_answer(&session, read, write, 408, "the head of the request came too slowly").await;
        }
    };
    let call = request.authorization.as_deref().and_then(|token| session.call(token));
    let Some(call) = call else {
        session.refuse_stranger(&request.host, request.port, NO_TOKEN);
        return send_answer(&session, read, write, 407, NO_TOKEN).await;
    };
    session.came_back(&request.host, request.port);
    let Some(_connection) = call.connection() else {
        call.refuse(&request.host, request.port, &HostRefusal::for_good(TOO_MANY));
        return send_answer(&session, read, write, 503, TOO_MANY).await;
    };
    let served = async {
        serve_request(&session, &call, request, Cursor::new(rest).chain(&mut read), &mut write).await;
        linger_close(&session, &mut read, &mut write).await;
    };
    tokio::select! {
        biased;
        () = call.ended() => {}
        () = served => {}
    }
}

/// The head, and what came behind it; nothing if the client went away.
async fn read_request(read: &mut OwnedReadHalf) -> Result<Option<(ProxyRequest, Vec<u8>)>, RejectedRequest> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = request_head::head_end(&bytes) {
            let rest = bytes.split_off(end);
            return request_head::parse_head(&bytes).map(|request| Some((request, rest)));
        }
        if bytes.len() >= limits::HEAD_BYTES_MAX {
            let why = format!("the head is longer than {} bytes", limits::HEAD_BYTES_MAX);
            return Err(RejectedRequest { status: 431, why });
        }
        let room = (limits::HEAD_BYTES_MAX - bytes.len()) as u64;
        match read.take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

/// Does what a request of a running call wants.
async fn serve_request(
    session: &Arc<NetworkSession>,
    call: &Arc<CallAccess>,
    request: ProxyRequest,
    from: impl AsyncRead + Unpin,
    to: &mut OwnedWriteHalf,
) {
    let ProxyRequest { host, port, wish, .. } = request;
    let pass = match call.judge(session, &host, port).await {
        Ok(pass) => pass,
        Err(refused) => return send_refusal(to, 403, &refused.why).await,
    };
    let server = match outbound::connect_host(session, &host, port, pass).await {
        Ok(server) => server.into_split(),
        Err(ConnectError::Refused(why)) => {
            call.refuse(&host, port, &HostRefusal::for_good(&*why));
            return send_refusal(to, 403, &why).await;
        }
        Err(ConnectError::Failed(status, why)) => {
            call.failed(&host, port, &why);
            return send_refusal(to, status, &why).await;
        }
    };
    match wish {
        RequestAction::Tunnel => open_tunnel(session, call, (&host, port), (from, to), server).await,
        RequestAction::Forward { head, body } => {
            forward_request(session, head, body, (from, to), server).await
        }
    }
}

async fn open_tunnel(
    session: &NetworkSession,
    call: &CallAccess,
    (host, port): (&Host, u16),
    (mut from, to): (impl AsyncRead + Unpin, &mut OwnedWriteHalf),
    (server_in, mut server_out): (OwnedReadHalf, OwnedWriteHalf),
) {
    if to.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_err() {
        return;
    }
    let first = timeout(session.times.hello, first_bytes(&mut from, &server_in, port)).await;
    let Ok(Ok((bytes, hello))) = first else { return };
    if let Some(why) = hello_contradiction(&hello, host, port, |name| call.may(session, name, port).is_ok()) {
        return call.refuse(host, port, &HostRefusal::for_good(why));
    }
    if server_out.write_all(&bytes).await.is_ok() {
        drop(bytes);
        relay::relay_both((from, to), (server_in, server_out), session.times.idle).await;
    }
}

/// Reads until it is known what the client speaks; nothing of it was passed on then. Beyond port 443 the
/// server may speak first, and then it isn't TLS.
async fn first_bytes(
    from: &mut (impl AsyncRead + Unpin),
    server: &OwnedReadHalf,
    port: u16,
) -> io::Result<(Vec<u8>, ClientHello)> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        let count = tokio::select! {
            count = from.read_buf(&mut bytes) => count?,
            _ = server.readable(), if port != 443 && bytes.is_empty() => return Ok((bytes, ClientHello::NotTls)),
        };
        match client_hello::parse_hello(&bytes) {
            // The client is done before it said anything that could be judged.
            ClientHello::Unfinished if count == 0 => return Ok((bytes, ClientHello::NotTls)),
            ClientHello::Unfinished => {}
            hello => return Ok((bytes, hello)),
        }
    }
}

/// Why a tunnel for a host may not be used for what was said first.
pub(super) fn hello_contradiction(
    hello: &ClientHello,
    host: &Host,
    port: u16,
    may: impl Fn(&Host) -> bool,
) -> Option<String> {
    match (hello, host) {
        (ClientHello::For(Some(name)), host) if name == host => None,
        (ClientHello::For(Some(name)), Host::Address(_)) if may(name) => None,
        (ClientHello::For(Some(name)), host) => Some(format!(
            "the connection was opened for `{host}`, and TLS then asked for `{name}`; open one for `{name}`"
        )),
        (ClientHello::For(None), Host::Address(_)) => None,
        (ClientHello::For(None), Host::Name(_)) => Some(format!(
            "the connection to `{host}` names no host in TLS (no SNI), so it can't be told whom it is for"
        )),
        (ClientHello::Malformed | ClientHello::Unfinished, _) => {
            Some(format!("the connection to `{host}` began with TLS that can't be understood"))
        }
        (ClientHello::NotTls, _) if port == 443 => {
            Some(format!("the connection to port 443 of `{host}` didn't begin with TLS"))
        }
        (ClientHello::NotTls, _) => None,
    }
}

async fn forward_request(
    session: &NetworkSession,
    head: Vec<u8>,
    what: BodyLength,
    (from, to): (impl AsyncRead + Unpin, &mut OwnedWriteHalf),
    (mut server_in, mut server_out): (OwnedReadHalf, OwnedWriteHalf),
) {
    let activity = ConnectionActivity::new();
    let mut from = BufReader::with_capacity(limits::COPY_BYTES, from);
    let request = async {
        server_out.write_all(&head).await?;
        body::forward_body(what, &mut from, &mut server_out, &activity).await?;
        // The answer ends the connection; the request doesn't, and isn't followed by another.
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        // What went wrong is seen by both as the end of the connection.
        _ = request => {}
        _ = relay::copy_until_idle(&mut server_in, to, &activity) => {}
        () = activity.idle(session.times.idle) => {}
    }
}

/// Connects a listener inside with a port of this machine that a rule opens. There is no token: it is the
/// session's.
pub(super) async fn host_port(session: Arc<NetworkSession>, port: u16, stream: TcpStream) {
    let host = Host::Name("localhost".into());
    let Ok(pass) = session.policy.judge(&[], &host, port) else { return };
    if let Ok(server) = outbound::connect_host(&session, &host, port, pass).await {
        relay::relay_both(stream.into_split(), server.into_split(), session.times.idle).await;
    }
}

/// Answers in place of the host, and sees to it that the client gets to read it.
async fn send_answer(
    session: &NetworkSession,
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
    status: u16,
    why: &str,
) {
    send_refusal(&mut write, status, why).await;
    linger_close(session, &mut read, &mut write).await;
}

async fn send_refusal(to: &mut OwnedWriteHalf, status: u16, why: &str) {
    let reason = match status {
        400 => "Bad Request",
        403 => "Not allowed by the network rules of haft",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Error",
    };
    let token = if status == 407 { "Proxy-Authenticate: Basic realm=\"haft\"\r\n" } else { "" };
    let text = format!("haft: {why}\n");
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status} {reason}\r\n{token}Content-Type: text/plain; charset=utf-8\r\nContent-Length: \
         {length}\r\nConnection: close\r\n\r\n{text}"
    );
    // A client that is gone can't be told.
    let _ = to.write_all(answer.as_bytes()).await;
}

/// Ends the sending side and reads on for a moment: a connection that is closed with something unread is
/// reset, and the client loses the answer.
async fn linger_close(session: &NetworkSession, read: &mut OwnedReadHalf, write: &mut OwnedWriteHalf) {
    let drain = async {
        write.shutdown().await?;
        let mut rest = read.take(limits::LINGER_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(session.times.linger, drain).await;
}
