//! A web server made by a test: a function from each request to an answer; and, made of it, an issuer of
//! tokens and a server that wants them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use haft::future::BoxFuture;
use haft_mcp::{PageOpener, SignInPage};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fake::{Fake, older, result};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn form(&self) -> HashMap<String, String> {
        url::form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.headers.get("authorization")?.strip_prefix("Bearer ")
    }
}

/// An answer: the line behind `HTTP/1.1` with more headers, and the body.
pub(crate) struct Reply(pub(crate) String, pub(crate) String);

pub(crate) fn reply(head: &str, body: impl ToString) -> Reply {
    Reply(head.to_owned(), body.to_string())
}

pub(crate) fn ok(body: &Value) -> Reply {
    reply("200 OK\r\ncontent-type: application/json", body)
}

/// A web server, and everything that it was asked.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) url: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

impl Web {
    /// One that answers by this, which gets its own address. No answer ends the connection.
    pub(crate) async fn start(answer: impl Fn(&str, &Seen) -> Option<Reply> + Send + Sync + 'static) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let web = Web { url, seen: Arc::default() };
        let (served, answer) = (web.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (web, answer) = (served.clone(), answer.clone());
                tokio::spawn(async move {
                    let Some(seen) = request(&mut stream).await else { return };
                    web.seen.lock().unwrap().push(seen.clone());
                    let Some(Reply(head, body)) = answer(&web.url, &seen) else { return };
                    let length = body.len();
                    let all = format!(
                        "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                    );
                    let _ = stream.write_all(all.as_bytes()).await;
                });
            }
        });
        web
    }

    /// What was asked at a path.
    pub(crate) fn at(&self, path: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|seen| seen.path == path).cloned().collect()
    }
}

async fn request(stream: &mut TcpStream) -> Option<Seen> {
    let mut all = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.ok()?;
        if read == 0 {
            return None;
        }
        all.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
        let header =
            |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
        let headers: HashMap<String, String> = lines.filter_map(header).collect();
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        if body.len() < length {
            continue;
        }
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let query = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        return Some(Seen { method, path: path.to_owned(), query, headers, body: body.to_owned() });
    }
}

/// What an issuer gives, and how it misbehaves.
#[derive(Default)]
pub(crate) struct Book {
    /// Put over what it says of itself.
    pub(crate) metadata: Value,
    /// Put over what the server says of itself.
    pub(crate) resource: Value,
    /// Put over the answer to a sign-in.
    pub(crate) answer: Value,
    /// In place of the answer of the token endpoint.
    pub(crate) token_reply: Option<(String, String)>,
    /// Tokens that are good, with what they are good for.
    pub(crate) good: HashMap<String, String>,
    /// The one refresh token that is good.
    pub(crate) refresh: Option<String>,
    challenge: Option<String>,
    scope: String,
    pub(crate) given: usize,
    pub(crate) renewed: usize,
    /// Where pages send the user, in order.
    pub(crate) redirects: Vec<String>,
}

/// An issuer and a server that wants its tokens.
pub(crate) struct Town {
    pub(crate) issuer: Web,
    pub(crate) server: Web,
    pub(crate) book: Arc<Mutex<Book>>,
    pub(crate) fake: Fake,
}

fn over(mut base: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        if value.is_null() {
            _ = base.as_object_mut().unwrap().remove(key)
        } else {
            base[key] = value.clone()
        }
    }
    base
}

fn issue(book: &mut Book) -> Value {
    book.given += 1;
    let (access, refresh) =
        (format!("s3cret-access-{}", book.given), format!("s3cret-refresh-{}", book.given));
    book.good.insert(access.clone(), book.scope.clone());
    book.refresh = Some(refresh.clone());
    json!({"access_token": access, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh, "scope": book.scope})
}

fn issuer_answer(book: &mut Book, url: &str, seen: &Seen) -> Reply {
    match (seen.method.as_str(), seen.path.as_str()) {
        (_, "/.well-known/oauth-authorization-server") => ok(&over(
            json!({
                "issuer": url, "authorization_endpoint": format!("{url}/authorize"), "token_endpoint": format!("{url}/token"),
                "registration_endpoint": format!("{url}/register"), "revocation_endpoint": format!("{url}/revoke"),
                "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": true,
                "token_endpoint_auth_methods_supported": ["none"],
            }),
            &book.metadata,
        )),
        ("POST", "/register") => {
            reply("201 Created\r\ncontent-type: application/json", json!({"client_id": "c1"}))
        }
        ("GET", "/authorize") => {
            book.challenge = seen.query.get("code_challenge").cloned();
            book.scope = seen.query.get("scope").cloned().unwrap_or_default();
            let answer =
                over(json!({"code": "s3cret-code", "state": seen.query["state"], "iss": url}), &book.answer);
            let mut back = url::Url::parse(&seen.query["redirect_uri"]).unwrap();
            for (key, value) in answer.as_object().unwrap() {
                back.query_pairs_mut().append_pair(key, value.as_str().unwrap());
            }
            book.redirects.push(back.to_string());
            reply(&format!("302 Found\r\nlocation: {back}"), "")
        }
        ("POST", "/token") => {
            if let Some((head, body)) = &book.token_reply {
                return reply(head, body);
            }
            let form = seen.form();
            let bad = |error: &str| {
                let said = json!({"error": error, "error_description": format!("bad: {form:?}")});
                reply("400 Bad Request\r\ncontent-type: application/json", said)
            };
            let fits = match form["grant_type"].as_str() {
                "authorization_code" => {
                    let made = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
                    form["code"] == "s3cret-code" && Some(made) == book.challenge
                }
                "refresh_token" => {
                    book.renewed += 1;
                    book.refresh.as_ref() == form.get("refresh_token")
                }
                "client_credentials" => {
                    book.scope = form["scope"].clone();
                    form["client_id"] == "robot"
                }
                _ => false,
            };
            if fits { ok(&issue(book)) } else { bad("invalid_grant") }
        }
        ("POST", "/revoke") => reply("200 OK", ""),
        _ => reply("404 Not Found", ""),
    }
}

impl Town {
    pub(crate) async fn start() -> Town {
        let book = Arc::new(Mutex::new(Book::default()));
        let held = book.clone();
        let issuer =
            Web::start(move |url, seen| Some(issuer_answer(&mut held.lock().unwrap(), url, seen))).await;
        let fake = older("2025-11-25", json!({"tools": {}}), |message| match message["method"].as_str() {
            Some("tools/list") => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                result(message, json!({"tools": [tool("read"), tool("write")]}))
            }
            _ => result(message, json!({"content": [{"type": "text", "text": "done"}]})),
        });
        let (held, served, issued_by) = (book.clone(), fake.clone(), issuer.url.clone());
        let server = Web::start(move |url, seen| {
            let book = held.lock().unwrap();
            Some(match seen.path.as_str() {
                "/.well-known/oauth-protected-resource/mcp" => ok(&over(
                    json!({"resource": format!("{url}/mcp"), "authorization_servers": [issued_by]}),
                    &book.resource,
                )),
                "/mcp" => {
                    let about = format!("resource_metadata=\"{url}/.well-known/oauth-protected-resource/mcp\"");
                    let Some(scope) = seen.token().and_then(|token| book.good.get(token)) else {
                        let said = format!("error=\"invalid_token\", error_description=\"{:?}\"", seen.token());
                        let said = said.replace("Some(\"", "").replace("\")", "");
                        let head = format!("401 Unauthorized\r\nwww-authenticate: Bearer {said}, scope=\"read\", {about}");
                        return Some(reply(&head, ""));
                    };
                    if seen.body.contains("\"name\":\"write\"") && !scope.split(' ').any(|scope| scope == "write") {
                        let head = "403 Forbidden\r\nwww-authenticate: Bearer error=\"insufficient_scope\", scope=\"write\"";
                        return Some(reply(&format!("{head}, {about}"), ""));
                    }
                    let message: Result<Value, _> = serde_json::from_str(&seen.body);
                    match message.map(|message| served.hear(message)).unwrap_or_default().first() {
                        Some(back) => ok(back),
                        None if seen.method == "POST" => reply("202 Accepted", ""),
                        None => reply("405 Method Not Allowed", ""),
                    }
                }
                _ => reply("404 Not Found", ""),
            })
        })
        .await;
        Town { issuer, server, book, fake }
    }

    pub(crate) fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// How many tokens were given, and how often one was to be renewed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let book = self.book();
        (book.given, book.renewed)
    }

    /// No token is good any more; the refresh token is.
    pub(crate) fn expire(&self) {
        self.book().good.clear();
    }
}

/// Gets an address without following anything, and says what came.
pub(crate) async fn get(url: &str, host: Option<&str>, method: &str) -> (u16, String) {
    let url = url::Url::parse(url).unwrap();
    let at = format!("127.0.0.1:{}", url.port().unwrap());
    let mut stream = TcpStream::connect(&at).await.unwrap();
    let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
    let host = host.unwrap_or(&at);
    stream.write_all(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all).await;
    (all.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0), all)
}

/// Where an answer sends a browser.
pub(crate) fn location(answer: &str) -> String {
    let line = answer.lines().find_map(|line| line.strip_prefix("location: "));
    line.unwrap_or_else(|| panic!("no redirect: {answer}")).to_owned()
}

/// A user who says yes, and either lets the browser go on or brings the address back by hand.
#[derive(Default)]
pub(crate) struct User {
    pub(crate) by_hand: bool,
    pub(crate) pages: Mutex<Vec<SignInPage>>,
}

impl PageOpener for User {
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>> {
        self.pages.lock().unwrap().push(page.clone());
        Box::pin(async move {
            let back = location(&get(&page.url, None, "GET").await.1);
            if self.by_hand {
                return Some(back);
            }
            get(&back, None, "GET").await;
            None
        })
    }
}
