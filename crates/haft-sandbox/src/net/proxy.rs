//! One connection to the proxy: a head, a token, a verdict, and then a tunnel or one request.
//!
//! A host that isn't granted is asked about, where the call can ask; the connection waits for the answer.
//!
//! One connection carries one request. Clients lose a round trip for each further `http://` request, and nobody has to
//! agree with a stranger's server on where a request ends. TLS goes through as it is; only the name in its first
//! message is compared with the name that the tunnel was opened for.

use std::io::{self, Cursor};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::head::{self, Bad, Body, Request, Wish};
use super::hello::{self, Hello};
use super::host::Host;
use super::outside::{self, Unreached};
use super::policy::Refused;
use super::relay::{self, Activity};
use super::session::{Call, Session};
use super::{body, limits};

const NO_TOKEN: &str = "the request came without the token of a running call; use the proxy as `HTTPS_PROXY` names it, \
                        with its user and password";
const TOO_MANY: &str = "this call has too many connections open at once; close some";

/// Serves one connection to its end.
pub(super) async fn connection(session: Arc<Session>, stream: TcpStream) {
    // Small messages go at once; where that can't be set they go a little later.
    let _ = stream.set_nodelay(true);
    let (mut read, mut write) = stream.into_split();
    let (request, rest) = match timeout(session.times.head, request(&mut read)).await {
        Ok(Ok(Some(read))) => read,
        Ok(Ok(None)) => return,
        Ok(Err(Bad { status, why })) => return answer(&session, read, write, status, &why).await,
        Err(_) => return answer(&session, read, write, 408, "the head of the request came too slowly").await,
    };
    let call = request.authorization.as_deref().and_then(|token| session.call(token));
    let Some(call) = call else {
        session.refuse_stranger(&request.host, request.port, NO_TOKEN);
        return answer(&session, read, write, 407, NO_TOKEN).await;
    };
    session.came_back(&request.host, request.port);
    let Some(_connection) = call.connection() else {
        call.refuse(&request.host, request.port, &Refused::for_good(TOO_MANY));
        return answer(&session, read, write, 503, TOO_MANY).await;
    };
    let served = async {
        serve(&session, &call, request, Cursor::new(rest).chain(&mut read), &mut write).await;
        linger(&session, &mut read, &mut write).await;
    };
    tokio::select! {
        biased;
        () = call.ended() => {}
        () = served => {}
    }
}

/// The head, and what came behind it; nothing if the client went away.
async fn request(read: &mut OwnedReadHalf) -> Result<Option<(Request, Vec<u8>)>, Bad> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = head::end(&bytes) {
            let rest = bytes.split_off(end);
            return head::read(&bytes).map(|request| Some((request, rest)));
        }
        if bytes.len() >= limits::HEAD_BYTES_MAX {
            let why = format!("the head is longer than {} bytes", limits::HEAD_BYTES_MAX);
            return Err(Bad { status: 431, why });
        }
        let room = (limits::HEAD_BYTES_MAX - bytes.len()) as u64;
        match read.take(room).read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(_) => {}
        }
    }
}

/// Does what a request of a running call wants.
async fn serve(
    session: &Arc<Session>,
    call: &Arc<Call>,
    request: Request,
    from: impl AsyncRead + Unpin,
    to: &mut OwnedWriteHalf,
) {
    let Request { host, port, wish, .. } = request;
    let pass = match call.judge(session, &host, port).await {
        Ok(pass) => pass,
        Err(refused) => return refuse(to, 403, &refused.why).await,
    };
    let server = match outside::reach(session, &host, port, pass).await {
        Ok(server) => server.into_split(),
        Err(Unreached::Refused(why)) => {
            call.refuse(&host, port, &Refused::for_good(&*why));
            return refuse(to, 403, &why).await;
        }
        Err(Unreached::Failed(status, why)) => {
            call.failed(&host, port, &why);
            return refuse(to, status, &why).await;
        }
    };
    match wish {
        Wish::Tunnel => tunnel(session, call, (&host, port), (from, to), server).await,
        Wish::Forward { head, body } => forward(session, head, body, (from, to), server).await,
    }
}

async fn tunnel(
    session: &Session,
    call: &Call,
    (host, port): (&Host, u16),
    (mut from, to): (impl AsyncRead + Unpin, &mut OwnedWriteHalf),
    (server_in, mut server_out): (OwnedReadHalf, OwnedWriteHalf),
) {
    if to.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.is_err() {
        return;
    }
    let first = timeout(session.times.hello, first_bytes(&mut from, &server_in, port)).await;
    let Ok(Ok((bytes, hello))) = first else { return };
    if let Some(why) = contradiction(&hello, host, port, |name| call.may(session, name, port).is_ok()) {
        return call.refuse(host, port, &Refused::for_good(why));
    }
    if server_out.write_all(&bytes).await.is_ok() {
        drop(bytes);
        relay::both((from, to), (server_in, server_out), session.times.idle).await;
    }
}

/// Reads until it is known what the client speaks; nothing of it was passed on then. Beyond port 443 the server may
/// speak first, and then it isn't TLS.
async fn first_bytes(
    from: &mut (impl AsyncRead + Unpin),
    server: &OwnedReadHalf,
    port: u16,
) -> io::Result<(Vec<u8>, Hello)> {
    let mut bytes = Vec::with_capacity(4096);
    loop {
        let count = tokio::select! {
            count = from.read_buf(&mut bytes) => count?,
            _ = server.readable(), if port != 443 && bytes.is_empty() => return Ok((bytes, Hello::NotTls)),
        };
        match hello::read(&bytes) {
            // The client is done before it said anything that could be judged.
            Hello::Unfinished if count == 0 => return Ok((bytes, Hello::NotTls)),
            Hello::Unfinished => {}
            hello => return Ok((bytes, hello)),
        }
    }
}

/// Why a tunnel for a host may not be used for what was said first.
pub(super) fn contradiction(
    hello: &Hello,
    host: &Host,
    port: u16,
    may: impl Fn(&Host) -> bool,
) -> Option<String> {
    match (hello, host) {
        (Hello::For(Some(name)), host) if name == host => None,
        (Hello::For(Some(name)), Host::Address(_)) if may(name) => None,
        (Hello::For(Some(name)), host) => Some(format!(
            "the connection was opened for `{host}`, and TLS then asked for `{name}`; open one for `{name}`"
        )),
        (Hello::For(None), Host::Address(_)) => None,
        (Hello::For(None), Host::Name(_)) => Some(format!(
            "the connection to `{host}` names no host in TLS (no SNI), so it can't be told whom it is for"
        )),
        (Hello::Malformed | Hello::Unfinished, _) => {
            Some(format!("the connection to `{host}` began with TLS that can't be understood"))
        }
        (Hello::NotTls, _) if port == 443 => {
            Some(format!("the connection to port 443 of `{host}` didn't begin with TLS"))
        }
        (Hello::NotTls, _) => None,
    }
}

async fn forward(
    session: &Session,
    head: Vec<u8>,
    what: Body,
    (from, to): (impl AsyncRead + Unpin, &mut OwnedWriteHalf),
    (mut server_in, mut server_out): (OwnedReadHalf, OwnedWriteHalf),
) {
    let activity = Activity::new();
    let mut from = BufReader::with_capacity(limits::COPY_BYTES, from);
    let request = async {
        server_out.write_all(&head).await?;
        body::forward(what, &mut from, &mut server_out, &activity).await?;
        // The answer ends the connection; the request doesn't, and isn't followed by another.
        std::future::pending::<io::Result<()>>().await
    };
    tokio::select! {
        // What went wrong is seen by both as the end of the connection.
        _ = request => {}
        _ = relay::copy(&mut server_in, to, &activity) => {}
        () = activity.idle(session.times.idle) => {}
    }
}

/// Connects a listener inside with a port of this machine that a rule opens. There is no token: it is the session's.
pub(super) async fn host_port(session: Arc<Session>, port: u16, stream: TcpStream) {
    let host = Host::Name("localhost".into());
    let Ok(pass) = session.policy.judge(&[], &host, port) else { return };
    if let Ok(server) = outside::reach(&session, &host, port, pass).await {
        relay::both(stream.into_split(), server.into_split(), session.times.idle).await;
    }
}

/// Answers in place of the host, and sees to it that the client gets to read it.
async fn answer(
    session: &Session,
    mut read: OwnedReadHalf,
    mut write: OwnedWriteHalf,
    status: u16,
    why: &str,
) {
    refuse(&mut write, status, why).await;
    linger(session, &mut read, &mut write).await;
}

async fn refuse(to: &mut OwnedWriteHalf, status: u16, why: &str) {
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

/// Ends the sending side and reads on for a moment: a connection that is closed with something unread is reset, and
/// the client loses the answer.
async fn linger(session: &Session, read: &mut OwnedReadHalf, write: &mut OwnedWriteHalf) {
    let drain = async {
        write.shutdown().await?;
        let mut rest = read.take(limits::LINGER_BYTES_MAX as u64);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    let _ = timeout(session.times.linger, drain).await;
}
