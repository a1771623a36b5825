//! A port of this machine to which a browser brings the answer of a sign-in.
//!
//! It is open for one sign-in and takes one answer. Anybody on this machine, and any page in the browser, can
//! send something there: what isn't the answer to the question is refused and waited past, so that nobody can
//! end a sign-in from outside.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

use super::page::{AuthorizationCode, PendingSignIn};
use crate::limits::{LISTENER_BYTES_MAX, LISTENER_CONNECTIONS_MAX, LISTENER_READ_TIMEOUT};

/// Where the answer comes to.
const PATH: &str = "/callback";

/// A port that waits for an answer.
pub(crate) struct RedirectListener {
    listener: TcpListener,
    port: u16,
    /// Whether the address says `localhost`, as registered ones with a fixed port do.
    named: bool,
}

impl RedirectListener {
    /// Listens at the port that was registered, or at one that was used before if it is free, or at any.
    ///
    /// # Errors
    /// A registered port is taken, in words.
    pub(crate) async fn open(fixed: Option<u16>, before: Option<u16>) -> Result<RedirectListener, String> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match (fixed, before) {
            (Some(port), _) => bind(port).await.map_err(|error| {
                format!("the port {port} of `oauth.callbackPort` can't be listened at: {error}")
            })?,
            (None, Some(port)) if port > 0 => match bind(port).await {
                Ok(listener) => listener,
                Err(_) => require_listener(bind(0).await)?,
            },
            (None, _) => require_listener(bind(0).await)?,
        };
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        Ok(RedirectListener { listener, port, named: fixed.is_some() })
    }

    /// The address that the browser is sent to.
    pub(crate) fn redirect(&self) -> String {
        let host = if self.named { "localhost" } else { "127.0.0.1" };
        format!("http://{host}:{}{PATH}", self.port)
    }

    /// The answer to a question, once it comes.
    pub(crate) async fn answer(self, question: &PendingSignIn) -> Result<AuthorizationCode, String> {
        let (found, mut queries) = mpsc::channel::<RedirectRequest>(1);
        let slots = Arc::new(Semaphore::new(LISTENER_CONNECTIONS_MAX));
        loop {
            tokio::select! {
                Some(RedirectRequest { query, mut stream }) = queries.recv() => {
                    if question.is_answered_by(&query) {
                        let answered = question.answered(&query);
                        let (status, words) = if answered.is_ok() { ("200 OK", "You are signed in. This page can be closed.") } else { ("400 Bad Request", "The sign-in did not succeed. The program says why.") };
                        send_page(&mut stream, status, words).await;
                        return answered;
                    }
                    send_page(&mut stream, "400 Bad Request", "This is not the answer to a sign-in.").await;
                }
                taken = self.listener.accept() => {
                    // Browsers open connections on which nothing comes, so each is read by itself.
                    let (Ok((stream, _)), Ok(slot)) = (taken, slots.clone().try_acquire_owned()) else { continue };
                    let (found, port) = (found.clone(), self.port);
                    tokio::spawn(async move {
                        let _slot = slot;
                        if let Ok(Some(arrived)) = timeout(LISTENER_READ_TIMEOUT, read_redirect(stream, port)).await {
                            let _ = found.send(arrived).await;
                        }
                    });
                }
            }
        }
    }
}

fn require_listener(bound: std::io::Result<TcpListener>) -> Result<TcpListener, String> {
    bound.map_err(|error| format!("no port of this machine can be listened at: {error}"))
}

/// Something that came to the right address.
struct RedirectRequest {
    query: String,
    stream: TcpStream,
}

/// Reads a request; gives what is asked for, if it may be an answer.
async fn read_redirect(mut stream: TcpStream, port: u16) -> Option<RedirectRequest> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 || head.len() + read > LISTENER_BYTES_MAX {
            return None;
        }
        head.extend_from_slice(&piece[..read]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?, first.next()?);
    // A page under another name that leads here is none of ours.
    let ours = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if method != "GET" || path != PATH || !host.is_some_and(|host| ours.iter().any(|our| our == host)) {
        send_page(&mut stream, "404 Not Found", "There is nothing here.").await;
        return None;
    }
    Some(RedirectRequest { query: query.to_owned(), stream })
}

/// Answers with a page that has nothing in it of what was sent.
async fn send_page(stream: &mut TcpStream, status: &str, words: &str) {
    let body = format!("<!doctype html><meta charset=utf-8><title>haft</title><p>{words}</p>\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = timeout(LISTENER_READ_TIMEOUT, stream.write_all(answer.as_bytes())).await;
    let _ = stream.shutdown().await;
}
