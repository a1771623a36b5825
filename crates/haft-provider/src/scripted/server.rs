//! The scripted model as a server on this machine, by all four wires.
//!
//! A small HTTP/1.1 by hand: a request's head and its body by length or in chunks, an answer by length or in
//! chunks, connections that stay. It is for tests and demonstrations: it listens on loopback addresses alone,
//! asks for no key, and takes the wire from the path. Everything is bounded.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::script_format::ModelScript;
use super::script_player::{ResponseAction, ScriptPlayer, ScriptedResponse};
use crate::Wire;
use crate::limits::{
    MESSAGE_BYTES_MAX, SERVER_CONNECTIONS_MAX, SERVER_HEAD_BYTES_MAX, SERVER_SILENCE_SECONDS_MAX,
};
use crate::wire::script_message::ScriptTarget;

/// A server that plays a script. Dropping it ends it, with its connections.
#[derive(Debug)]
pub struct ScriptServer {
    address: SocketAddr,
    task: AbortHandle,
}

impl ScriptServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for a client of this wire, as the vendor's SDK takes it.
    pub fn base_url(&self, wire: Wire) -> String {
        format!("http://{}{}", self.address, wire.format().script.base_path)
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves a script at a loopback address; port 0 takes a free one. Must be called inside a Tokio runtime with
/// I/O.
///
/// # Errors
/// An address that is not this machine's own, or that can't be listened on.
pub async fn serve_script(script: ModelScript, address: SocketAddr) -> io::Result<ScriptServer> {
    if !address.ip().is_loopback() {
        let words = format!(
            "{} is no loopback address; the scripted model asks for no key, so it serves there alone",
            address.ip()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let player = Arc::new(ScriptPlayer::new(Arc::new(script)));
    let task = tokio::spawn(accept_connections(listener, player)).abort_handle();
    Ok(ScriptServer { address, task })
}

async fn accept_connections(listener: TcpListener, player: Arc<ScriptPlayer>) {
    let room = Arc::new(Semaphore::new(SERVER_CONNECTIONS_MAX));
    // Ends with this task, and every connection with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let player = player.clone();
                connections.spawn(async move {
                    let _permit = permit;
                    // Whoever is gone needs no answer.
                    let _ = handle_connection(stream, &player).await;
                });
            }
            // Out of descriptors, most likely: others have to end first.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn handle_connection(stream: TcpStream, player: &ScriptPlayer) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let silence = Duration::from_secs(SERVER_SILENCE_SECONDS_MAX);
    loop {
        let Ok(request) = timeout(silence, read_request(&mut read, &mut write)).await else { return Ok(()) };
        let request = match request? {
            Some(Ok(request)) => request,
            Some(Err((status, words))) => {
                return write_response(&mut write, status, "text/plain", words.as_bytes(), None, false).await;
            }
            None => return Ok(()),
        };
        if !answer_request(&mut write, &request, player).await? {
            return Ok(());
        }
    }
}

struct HttpRequest {
    method: String,
    path: String,
    body: String,
    keep: bool,
}

type HttpRefusal = (u16, &'static str);

/// Reads one request; none where the connection ended between requests.
async fn read_request(
    read: &mut (impl AsyncBufRead + Unpin),
    write: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Option<Result<HttpRequest, HttpRefusal>>> {
    let mut left = SERVER_HEAD_BYTES_MAX;
    let first = match read_line(read, &mut left).await? {
        Some(first) if !first.is_empty() => first,
        Some(_) => return Ok(Some(Err((400, "the request is too long or has no first line")))),
        None => return Ok(None),
    };
    let mut words = first.split(' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Ok(Some(Err((400, "the first line is no request"))));
    };
    let mut keep = version == "HTTP/1.1";
    let (mut length, mut chunked, mut expects) = (0_usize, false, false);
    loop {
        let Some(header) = read_line(read, &mut left).await? else {
            return Ok(Some(Err((431, "the head is too long, or was cut off"))));
        };
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else {
            return Ok(Some(Err((400, "a header has no colon"))));
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => match value.parse() {
                Ok(given) => length = given,
                Err(_) => return Ok(Some(Err((400, "the length is no number")))),
            },
            "transfer-encoding" => chunked = value.eq_ignore_ascii_case("chunked"),
            "connection" => keep = !value.eq_ignore_ascii_case("close"),
            "expect" => expects = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
    }
    if length > MESSAGE_BYTES_MAX {
        return Ok(Some(Err((413, "the body is too long"))));
    }
    if expects {
        write.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
    }
    let mut body = Vec::new();
    if chunked {
        loop {
            let Some(size) = read_line(read, &mut left).await? else {
                return Ok(Some(Err((400, "the body was cut off"))));
            };
            let size = size.split(';').next().unwrap_or_default().trim();
            let Ok(size) = usize::from_str_radix(size, 16) else {
                return Ok(Some(Err((400, "the size of a chunk is no number"))));
            };
            if size > MESSAGE_BYTES_MAX - body.len() {
                return Ok(Some(Err((413, "the body is too long"))));
            }
            read_bytes(read, size, &mut body).await?;
            // The head was bounded; each chunk may have a line of its own.
            left = SERVER_HEAD_BYTES_MAX;
            if size == 0 {
                while read_line(read, &mut left).await?.is_some_and(|trailer| !trailer.is_empty()) {}
                break;
            }
            read_line(read, &mut left).await?;
        }
    } else {
        read_bytes(read, length, &mut body).await?;
    }
    let (method, path) = (method.to_owned(), path.to_owned());
    Ok(Some(Ok(HttpRequest { method, path, body: String::from_utf8_lossy(&body).into_owned(), keep })))
}

/// Reads so many bytes, growing as they come and not as they were announced.
async fn read_bytes(
    read: &mut (impl AsyncBufRead + Unpin),
    size: usize,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    let before = body.len();
    (&mut *read).take(size as u64).read_to_end(body).await?;
    if body.len() - before == size { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A line without its end; none where there is no more, or no room for it.
async fn read_line(read: &mut (impl AsyncBufRead + Unpin), left: &mut usize) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    (&mut *read).take(*left as u64).read_until(b'\n', &mut bytes).await?;
    *left -= bytes.len();
    if bytes.pop() != Some(b'\n') {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns the wire of a path, and what the path asks for beside it.
fn parse_path(path: &str) -> Option<(Wire, ScriptTarget<'_>)> {
    let path = path.split('?').next().unwrap_or_default().trim_end_matches('/');
    Wire::ALL.into_iter().find_map(|wire| Some((wire, (wire.format().script.parse_path)(path)?)))
}

/// Answers a request. False if the connection ends with it.
async fn answer_request(
    write: &mut (impl AsyncWrite + Unpin),
    request: &HttpRequest,
    player: &ScriptPlayer,
) -> io::Result<bool> {
    const JSON: &str = "application/json";
    let target = parse_path(&request.path).filter(|_| request.method == "POST");
    let Some((wire, ScriptTarget { stream, model })) = target else {
        let words = "this is a scripted model; POST to /v1/messages, /v1/responses, /v1/chat/completions or /v1beta/models/NAME:generateContent";
        let body = (Wire::OpenAi.format().script.write_error)(404, None, words).to_string();
        write_response(write, 404, JSON, body.as_bytes(), None, request.keep).await?;
        return Ok(request.keep);
    };
    let ScriptedResponse { delay, act } = player.play(wire, &request.body, stream, model);
    if !delay.is_zero() {
        sleep(delay).await;
    }
    match act {
        ResponseAction::Refuse { status, body, retry_after } => {
            write_response(write, status, JSON, body.as_bytes(), retry_after, request.keep).await?;
            Ok(request.keep)
        }
        ResponseAction::Whole(body) => {
            write_response(write, 200, JSON, body.as_bytes(), None, request.keep).await?;
            Ok(request.keep)
        }
        ResponseAction::HangUp => Ok(false),
        ResponseAction::Stream { frames, between, cut } => {
            let keep = request.keep && !cut;
            let connection = if keep { "keep-alive" } else { "close" };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\nconnection: {connection}\r\n\r\n"
            );
            write.write_all(head.as_bytes()).await?;
            let mut out = Vec::new();
            for frame in frames {
                out.extend_from_slice(format!("{:x}\r\n{frame}\r\n", frame.len()).as_bytes());
                if !between.is_zero() || out.len() > 16 * 1024 {
                    write.write_all(&out).await?;
                    out.clear();
                    sleep(between).await;
                }
            }
            if !cut {
                out.extend_from_slice(b"0\r\n\r\n");
            }
            write.write_all(&out).await?;
            write.flush().await?;
            Ok(keep)
        }
    }
}

async fn write_response(
    write: &mut (impl AsyncWrite + Unpin),
    status: u16,
    kind: &str,
    body: &[u8],
    retry_after: Option<Duration>,
    keep: bool,
) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        429 => "Too Many Requests",
        500.. => "Server Error",
        _ => "Refused",
    };
    let connection = if keep { "keep-alive" } else { "close" };
    let mut head = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: {connection}\r\n",
        body.len()
    );
    if let Some(after) = retry_after {
        head.push_str(&format!(
            "retry-after: {}\r\nretry-after-ms: {}\r\n",
            after.as_secs_f64().ceil(),
            after.as_millis()
        ));
    }
    head.push_str("\r\n");
    let mut all = head.into_bytes();
    all.extend_from_slice(body);
    write.write_all(&all).await?;
    write.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_say_the_wire() {
        let wire = |path: &str| parse_path(path).map(|(wire, target)| (wire, target.stream));
        assert_eq!(wire("/v1/messages?beta=true"), Some((Wire::Anthropic, None)));
        assert_eq!(wire("/v1/responses"), Some((Wire::OpenAi, None)));
        assert_eq!(wire("/chat/completions/"), Some((Wire::OpenAiChat, None)));
        assert_eq!(
            wire("/v1beta/models/g-2.5:streamGenerateContent?alt=sse"),
            Some((Wire::Gemini, Some(true)))
        );
        assert_eq!(parse_path("/v1beta/models/g-2.5:generateContent").unwrap().1.model, Some("g-2.5"));
        assert_eq!(wire("/v1/models"), None);
    }
}
