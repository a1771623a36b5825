//! Signing in: what goes well, what is refused, and that nothing of it is ever seen where it should not be.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use haft::future::BoxFuture;
use haft_mcp::{
    FileTokens, HostServices, PageOpener, RemoteTransport, Secret, ServerConfig, ServerStatus,
    ServerTransport, SignInPage, TokenGrant, TokenStore, limits,
};
use serde_json::{Value, json};

use crate::web::{Town, User, Web, get, location, reply};
use crate::{Room, host, until};

fn at(town: &Town) -> ServerConfig {
    ServerConfig::new("s", ServerTransport::http(format!("{}/mcp", town.server.url)))
}

fn with_user(host: HostServices) -> (HostServices, Arc<User>) {
    let user = Arc::new(User::default());
    (host.with_browser(user.clone()), user)
}

fn needs_sign_in(room: &Room) -> String {
    match room.server().status() {
        ServerStatus::NeedsSignIn { reason } => reason,
        other => panic!("{other:?}"),
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn only_file(folder: &Path, ending: &str) -> std::path::PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.extension().is_some_and(|found| found == ending));
    let file = files.next().unwrap();
    assert!(files.next().is_none());
    file
}

#[tokio::test]
async fn somebody_signs_in_once_and_it_is_kept_for_them_alone() {
    let (town, place) = (Town::start().await, tempfile::tempdir().unwrap());
    let folder = place.path().join("tokens");
    let (host, user) = with_user(host().with_tokens(Arc::new(FileTokens::new(&folder))));
    let room = Room::settled([at(&town)], host.clone()).await;

    let reason = needs_sign_in(&room);
    assert!(reason.contains("`haft mcp login s`") && reason.contains("401"), "{reason}");
    assert!(user.pages.lock().unwrap().is_empty(), "nobody is asked in the background");
    assert!(town.issuer.seen.lock().unwrap().is_empty(), "nothing is looked for in the background");
    assert_eq!(room.server().wants_sign_in(), Some(reason));
    assert_eq!(room.server().signed_in(), None);

    let signed_in = room.server().sign_in().await.unwrap();
    assert_eq!(
        (&*signed_in.issuer, &*signed_in.scopes, signed_in.renews),
        (&*town.issuer.url, &["read".to_owned()][..], true)
    );
    assert_eq!(room.revision(), "2025-11-25");
    room.refresh();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
    let page = user.pages.lock().unwrap()[0].clone();
    assert!(page.url.starts_with(&format!("{}/authorize?", town.issuer.url)), "{}", page.url);
    assert_eq!((&*page.server, &*page.host), ("s", "127.0.0.1"));
    let (asked, exchanged) = (&town.issuer.at("/authorize")[0].query, &town.issuer.at("/token")[0].form());
    assert_eq!(asked["resource"], format!("{}/mcp", town.server.url));
    assert_eq!(exchanged["resource"], asked["resource"]);
    assert_eq!(exchanged["redirect_uri"], asked["redirect_uri"]);

    let file = only_file(&folder, "json");
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    assert!(std::fs::read_to_string(&file).unwrap().contains("s3cret-access-1"));
    let shown = format!(
        "{:?} {:?} {} {:?} {:?}",
        room.server().status(),
        room.server().config(),
        room.server().log(),
        room.server().signed_in(),
        page
    );
    assert!(!shown.contains("s3cret"), "{shown}");

    // Another process finds it.
    let other = Room::settled([at(&town)], host.clone()).await;
    assert_eq!(other.revision(), "2025-11-25");
    assert_eq!(town.book().given, 1);

    assert!(room.server().sign_out().await.unwrap());
    assert_eq!(town.issuer.at("/revoke")[0].form()["token"], "s3cret-refresh-1");
    assert!(!file.exists());
    until("it is known", || matches!(room.server().status(), ServerStatus::NeedsSignIn { .. })).await;
    assert!(!room.server().sign_out().await.unwrap(), "there is nothing any more");
}

#[tokio::test]
async fn an_address_can_be_brought_back_by_hand() {
    let town = Town::start().await;
    let user = Arc::new(User { by_hand: true, ..User::default() });
    let room = Room::settled([at(&town)], host().with_browser(user)).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
}

/// A sign-in that must not succeed, and what it says.
async fn refused(town: &Town) -> String {
    let (host, _) = with_user(host());
    let room = Room::settled([at(town)], host).await;
    let words = room.server().sign_in().await.unwrap_err();
    assert!(matches!(room.server().status(), ServerStatus::NeedsSignIn { .. }));
    assert!(!words.contains("s3cret"), "{words}");
    words
}

#[tokio::test]
async fn what_an_issuer_says_of_itself_is_not_believed_blindly() {
    let huge = "x".repeat(limits::SIGN_IN_BYTES_MAX);
    let cases = [
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "only https"),
        (json!({"authorization_endpoint": "file:///etc/passwd"}), "only https"),
        (json!({"authorization_endpoint": "http://as.example/authorize"}), "http on this machine"),
        (json!({"token_endpoint": "http://as.example/token"}), "http on this machine"),
        (json!({"token_endpoint": "https://169.254.169.254/token"}), "no business"),
        (json!({"token_endpoint": "https://me:pw@as.example/"}), "a password"),
        (json!({"token_endpoint": null}), "names no `token_endpoint`"),
        (json!({"registration_endpoint": 7}), "is no address"),
        (json!({"registration_endpoint": null}), "`clientId`"),
        (json!({"issuer": "https://other.example"}), "says to be another"),
        (json!({"issuer": null}), "says to be another"),
        (json!({"code_challenge_methods_supported": ["plain"]}), "PKCE"),
        (json!({"code_challenge_methods_supported": null}), "PKCE"),
        (json!({"huge": huge}), "more than"),
    ];
    for (metadata, sign) in cases {
        let town = Town::start().await;
        town.book().metadata = metadata.clone();
        let words = refused(&town).await;
        assert!(words.contains(sign), "{metadata:.80}: {words}");
        assert!(
            town.issuer.at("/authorize").is_empty() && town.issuer.at("/token").is_empty(),
            "{metadata:.80}"
        );
    }
}

#[tokio::test]
async fn what_a_server_says_of_itself_is_not_believed_blindly() {
    let cases = [
        (json!({"resource": "https://other.example/mcp"}), "another server"),
        (json!({"resource": null}), "another server"),
        (json!({"authorization_servers": ["file:///etc"]}), "only https"),
        (json!({"authorization_servers": ["http://as.example"]}), "http on this machine"),
        (json!({"authorization_servers": ["https://169.254.169.254"]}), "no business"),
    ];
    for (resource, sign) in cases {
        let town = Town::start().await;
        town.book().resource = resource.clone();
        let words = refused(&town).await;
        assert!(words.contains(sign), "{resource}: {words}");
        assert!(town.issuer.seen.lock().unwrap().is_empty(), "{resource}");
    }
}

#[tokio::test]
async fn an_answer_to_something_else_gives_no_token() {
    let cases = [
        (json!({"iss": "https://other.example"}), "is from `https://other.example`"),
        (json!({"iss": null}), "doesn't say whose"),
        (json!({"code": null}), "no code"),
        (json!({"code": null, "error": "access_denied"}), "access_denied"),
    ];
    for (answer, sign) in cases {
        let town = Town::start().await;
        town.book().answer = answer.clone();
        let words = refused(&town).await;
        assert!(words.contains(sign), "{answer}: {words}");
        assert!(town.issuer.at("/token").is_empty(), "{answer}");
    }
}

/// A browser in which much else goes on.
struct Busy {
    statuses: Mutex<Vec<u16>>,
}

impl PageOpener for Busy {
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let back = location(&get(&page.url, None, "GET").await.1);
            let wrong = back.replace("state=", "state=x");
            // A connection on which nothing comes.
            let port = url::Url::parse(&back).unwrap().port().unwrap();
            let _silent = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            for (url, host, method) in [
                (page.redirect.replace("/callback", "/favicon.ico"), None, "GET"),
                (page.redirect.clone(), None, "GET"),
                (wrong, None, "GET"),
                (back.clone(), Some("evil.example"), "GET"),
                (back.clone(), None, "POST"),
                (back.clone(), None, "GET"),
            ] {
                let (status, body) = get(&url, host, method).await;
                assert!(!body.contains("s3cret"), "{body}");
                self.statuses.lock().unwrap().push(status);
            }
            None
        })
    }
}

#[tokio::test]
async fn the_port_of_a_sign_in_waits_past_everything_but_the_answer() {
    let town = Town::start().await;
    let busy = Arc::new(Busy { statuses: Mutex::default() });
    let room = Room::settled([at(&town)], host().with_browser(busy.clone())).await;
    room.server().sign_in().await.unwrap();
    // The last may be cut off by the sign-in being over, which is what it is for.
    assert_eq!(busy.statuses.lock().unwrap()[..5], [404, 400, 400, 404, 404]);
    assert_eq!(town.issuer.at("/token").len(), 1);
    let redirect = town.book().redirects[0].clone();
    assert!(get_fails(&redirect).await, "the port is closed");
}

async fn get_fails(url: &str) -> bool {
    let port = url::Url::parse(url).unwrap().port().unwrap();
    tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err()
}

type Change = fn(&str) -> String;

/// Brings some other address back.
struct Wrong(Change);

impl PageOpener for Wrong {
    fn open<'a>(&'a self, page: &'a SignInPage) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { Some((self.0)(&location(&get(&page.url, None, "GET").await.1))) })
    }
}

#[tokio::test]
async fn a_wrong_address_brought_by_hand_is_refused() {
    let cases: [(Change, &str); 3] = [
        (|back| back.replace("state=", "state=x"), "`state`"),
        (|back| back.replace("/callback", "/other"), "begins with"),
        (|_| "s3cret-code".to_owned(), "begins with"),
    ];
    for (change, sign) in cases {
        let town = Town::start().await;
        let room = Room::settled([at(&town)], host().with_browser(Arc::new(Wrong(change)))).await;
        let words = room.server().sign_in().await.unwrap_err();
        assert!(words.contains(sign) && !words.contains("s3cret"), "{words}");
        assert!(town.issuer.at("/token").is_empty());
    }
}

#[tokio::test]
async fn a_redirect_gets_neither_a_code_nor_a_token() {
    let elsewhere = Web::start(|_, _| Some(reply("200 OK", "{}"))).await;
    let town = Town::start().await;
    town.book().token_reply =
        Some((format!("307 Temporary Redirect\r\nlocation: {}/token", elsewhere.url), String::new()));
    let words = refused(&town).await;
    assert!(words.contains("not followed"), "{words}");
    for odd in
        ["", "[]", r#"{"access_token": "a"}"#, r#"{"access_token": "s3cret\nx", "token_type": "Bearer"}"#]
    {
        town.book().token_reply = Some(("200 OK".to_owned(), odd.to_owned()));
        refused(&town).await;
    }
    // A refusal that repeats what it was sent.
    town.book().token_reply = None;
    town.book().answer = json!({"code": "s3cret-other-code"});
    let words = refused(&town).await;
    assert!(words.contains("invalid_grant"), "{words}");
    assert!(elsewhere.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_server_that_sends_us_on_keeps_the_token_to_itself() {
    let (town, elsewhere) = (Town::start().await, Web::start(|_, _| Some(reply("200 OK", "{}"))).await);
    let (issued_by, target) = (town.issuer.url.clone(), elsewhere.url.clone());
    let moved = Web::start(move |url, seen| {
        Some(match (seen.path.as_str(), seen.token()) {
            ("/.well-known/oauth-protected-resource/mcp", _) => crate::web::ok(
                &json!({"resource": format!("{url}/mcp"), "authorization_servers": [issued_by]}),
            ),
            ("/mcp", None) => reply("401 Unauthorized", ""),
            ("/mcp", Some(_)) => reply(&format!("307 Temporary Redirect\r\nlocation: {target}/mcp"), ""),
            _ => reply("404 Not Found", ""),
        })
    })
    .await;
    let (host, _) = with_user(host());
    let room =
        Room::settled([ServerConfig::new("m", ServerTransport::http(format!("{}/mcp", moved.url)))], host)
            .await;
    room.server().sign_in().await.unwrap();
    let ServerStatus::Failed { reason, .. } = room.server().status() else {
        panic!("{:?}", room.server().status())
    };
    assert!(reason.contains("a redirect to"), "{reason}");
    assert!(moved.at("/mcp").iter().any(|seen| seen.token() == Some("s3cret-access-1")));
    assert!(elsewhere.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_token_that_ends_in_the_middle_is_renewed_and_the_call_made_once() {
    let town = Town::start().await;
    let (host, _) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    town.expire();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
    assert_eq!(town.fake.heard("tools/call").len(), 1, "what was refused was not done");
    assert_eq!(town.counts(), (2, 1));
    // The refresh token was good for one use; the next one is used next.
    town.expire();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
    assert_eq!(town.counts(), (3, 2));
    assert_eq!(town.issuer.at("/authorize").len(), 1, "nobody was asked");
}

#[tokio::test]
async fn a_newer_token_that_is_refused_too_is_not_tried_for_ever() {
    let town = Town::start().await;
    let (host, _) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    town.expire();
    let given =
        json!({"access_token": "s3cret-useless", "token_type": "Bearer", "refresh_token": "s3cret-next"});
    town.book().token_reply = Some(("200 OK".to_owned(), given.to_string()));
    let before = town.server.at("/mcp").len();
    let words = room.failure("mcp__s__read", json!({})).await;
    assert!(words.contains("did not carry out the call") && words.contains("`haft mcp login s`"), "{words}");
    assert!(!words.contains("s3cret"), "{words}");
    let calls = |seen: &&crate::web::Seen| seen.body.contains("tools/call");
    assert_eq!(town.server.at("/mcp")[before..].iter().filter(calls).count(), 2);
    assert!(town.fake.heard("tools/call").is_empty());
    until("it is known", || matches!(room.server().status(), ServerStatus::NeedsSignIn { .. })).await;
    assert!(!room.server().log().contains("s3cret"), "{}", room.server().log());
}

#[tokio::test]
async fn a_sign_in_that_has_ended_says_so_and_can_be_done_again() {
    let town = Town::start().await;
    let (host, user) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    town.expire();
    town.book().refresh = None;
    let words = room.failure("mcp__s__read", json!({})).await;
    assert!(words.contains("`haft mcp login s`"), "{words}");
    until("it is known", || matches!(room.server().status(), ServerStatus::NeedsSignIn { .. })).await;
    for _ in 0..8 {
        let words = room.failure("mcp__s__read", json!({})).await;
        assert!(words.contains("it wants a sign-in"), "{words}");
    }
    assert_eq!(user.pages.lock().unwrap().len(), 1);
    assert_eq!(town.book().renewed, 1, "what has ended is not tried again");
    let log = room.server().log();
    assert!(log.contains("the sign-in has ended") && !log.contains("s3cret"), "{log}");
    room.server().sign_in().await.unwrap();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
    assert_eq!(town.issuer.at("/register").len(), 1, "the name is still good");
}

#[tokio::test]
async fn a_name_that_is_not_known_any_more_is_not_used_for_ever() {
    let town = Town::start().await;
    let (host, _) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    town.book().answer = json!({"code": null, "error": "unauthorized_client"});
    room.server().sign_in().await.unwrap_err();
    assert_eq!(town.issuer.at("/register").len(), 1);
    town.book().answer = Value::Null;
    room.server().sign_in().await.unwrap();
    assert_eq!(town.issuer.at("/register").len(), 2);
}

#[tokio::test]
async fn without_a_user_a_token_is_got_before_the_handshake_and_renewed_by_asking_again() {
    let town = Town::start().await;
    let mut remote = RemoteTransport::new(format!("{}/mcp", town.server.url));
    remote.oauth.client_id = Some("robot".to_owned());
    remote.oauth.client_secret = Some(Secret::new("s3cret-of-robot"));
    remote.oauth.grant = TokenGrant::Client(None);
    town.book().metadata = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    let (host, user) = with_user(host());
    let config = || ServerConfig::new("s", ServerTransport::Http(remote.clone()));
    let room = Room::settled([config()], host.clone()).await;
    assert_eq!(room.revision(), "2025-11-25");
    room.refresh();
    let asked = town.issuer.at("/token")[0].form();
    assert_eq!((&*asked["client_secret"], &*asked["scope"]), ("s3cret-of-robot", "read"));
    town.expire();
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
    assert_eq!(room.text("mcp__s__write", json!({})).await, "done", "more is asked for without anybody");
    assert_eq!(town.issuer.at("/token")[2].form()["scope"], "read write");
    assert_eq!(town.fake.heard("tools/call").len(), 2);

    town.book().token_reply = Some((
        "400 Bad Request".to_owned(),
        json!({"error": "invalid_client", "error_description": "s3cret-of-robot"}).to_string(),
    ));
    let before = town.issuer.at("/token").len();
    let refused = Room::settled([config()], host).await;
    let ServerStatus::Failed { reason, retries } = refused.server().status() else {
        panic!("{:?}", refused.server().status())
    };
    assert!(reason.contains("invalid_client") && !retries && !reason.contains("s3cret"), "{reason}");
    assert_eq!(town.issuer.at("/token").len(), before + 1, "once is enough");
    assert!(user.pages.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_issuer_that_is_away_costs_nobody_their_sign_in() {
    let town = Town::start().await;
    let (host, _) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    town.expire();
    town.book().token_reply = Some(("503 Service Unavailable".to_owned(), String::new()));
    let words = room.failure("mcp__s__read", json!({})).await;
    assert!(words.contains("could not be renewed") && words.contains("503"), "{words}");
    assert!(room.server().signed_in().is_some());
    town.book().token_reply = None;
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done");
}

#[tokio::test]
async fn two_processes_spend_a_refresh_token_once() {
    let (town, place) = (Town::start().await, tempfile::tempdir().unwrap());
    let host = || host().with_tokens(Arc::new(FileTokens::new(place.path())));
    let (first_host, _) = with_user(host());
    let first = Room::settled([at(&town)], first_host).await;
    first.server().sign_in().await.unwrap();
    first.refresh();
    let second = Room::settled([at(&town)], host()).await;
    for round in 1..=3 {
        town.expire();
        let calls = |room: &Room| {
            let calls = (0..4).map(|number| haft::ToolCall::new(number.to_string(), "mcp__s__read", "{}"));
            room.engine.turn().run(calls.collect::<Vec<_>>())
        };
        let (one, other) = tokio::join!(calls(&first), calls(&second));
        for result in one.iter().chain(&other) {
            assert!(result.error().is_none(), "{:?}", result.error());
        }
        assert_eq!(town.book().renewed, round);
    }
}

#[tokio::test]
async fn more_than_was_given_needs_another_sign_in_and_nothing_else_does() {
    let town = Town::start().await;
    let (host, user) = with_user(host());
    let room = Room::settled([at(&town)], host).await;
    room.server().sign_in().await.unwrap();
    room.refresh();
    let words = room.failure("mcp__s__write", json!({})).await;
    assert!(words.contains("a further sign-in (HTTP 403), for `write`"), "{words}");
    assert_eq!(room.text("mcp__s__read", json!({})).await, "done", "the rest goes on");
    assert_eq!(user.pages.lock().unwrap().len(), 1);
    assert!(room.server().wants_sign_in().is_some());

    let signed_in = room.server().sign_in().await.unwrap();
    assert_eq!(signed_in.scopes, ["read", "write"], "what was given before is asked for again");
    assert_eq!(room.server().wants_sign_in(), None);
    assert_eq!(room.text("mcp__s__write", json!({})).await, "done");

    // What was asked for and is not given is not asked for again.
    town.book().good.values_mut().for_each(|scope| *scope = "read".to_owned());
    let words = room.failure("mcp__s__write", json!({})).await;
    assert!(words.contains("is not given to you"), "{words}");
    assert_eq!(room.server().wants_sign_in(), None);
}

#[tokio::test]
async fn a_token_goes_to_its_own_server_and_to_no_other() {
    let (town, other, place) = (Town::start().await, Town::start().await, tempfile::tempdir().unwrap());
    let (host, _) = with_user(host().with_tokens(Arc::new(FileTokens::new(place.path()))));
    let room = Room::settled([at(&town)], host.clone()).await;
    room.server().sign_in().await.unwrap();
    // The same name at another address; and somebody has put the one file in place of the other.
    let kept = std::fs::read_to_string(only_file(place.path(), "json")).unwrap();
    struct Swapped(String);
    impl TokenStore for Swapped {
        fn load(&self, _: &str) -> Result<Option<Secret>, String> {
            Ok(Some(Secret::new(&*self.0)))
        }
        fn save(&self, _: &str, _: &Secret) -> Result<(), String> {
            Err("it is full".to_owned())
        }
        fn forget(&self, _: &str) -> Result<(), String> {
            Ok(())
        }
        fn lock<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Box<dyn Send>, String>> {
            Box::pin(async { Ok(Box::new(()) as Box<dyn Send>) })
        }
    }
    for host in [host.clone(), host.with_tokens(Arc::new(Swapped(kept)))] {
        let room = Room::settled([at(&other)], host).await;
        needs_sign_in(&room);
        assert!(other.server.seen.lock().unwrap().iter().all(|seen| seen.token().is_none()));
    }
}

#[tokio::test]
async fn nobody_signs_in_for_what_can_not_be_kept() {
    let (town, place) = (Town::start().await, tempfile::tempdir().unwrap());
    let blocked = place.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let (host, user) = with_user(host().with_tokens(Arc::new(FileTokens::new(&blocked))));
    let room = Room::settled([at(&town)], host).await;
    let words = room.server().sign_in().await.unwrap_err();
    assert!(words.contains("can't be used for tokens"), "{words}");
    assert!(user.pages.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_header_that_says_who_we_are_is_not_replaced() {
    let town = Town::start().await;
    let mut remote = RemoteTransport::new(format!("{}/mcp", town.server.url));
    remote.headers.insert("Authorization".into(), "Bearer mine".into());
    let (host, user) = with_user(host());
    let room = Room::settled([ServerConfig::new("s", ServerTransport::Http(remote))], host).await;
    let ServerStatus::Failed { reason, retries } = room.server().status() else {
        panic!("{:?}", room.server().status())
    };
    assert!(reason.contains("HTTP 401") && !retries, "{reason}");
    assert!(user.pages.lock().unwrap().is_empty());
    assert_eq!(town.server.at("/mcp")[0].token(), Some("mine"));
}

#[tokio::test]
async fn nobody_and_nothing_to_sign_in_with_is_said() {
    let town = Town::start().await;
    let room = Room::settled([at(&town)], host()).await;
    assert_eq!(room.server().sign_in().await.unwrap_err(), "there is nobody who could open a page");
    let local = Room::new([ServerConfig::new("l", ServerTransport::stdio("true", [""; 0]))], host());
    assert_eq!(local.server().sign_in().await.unwrap_err(), "only servers over HTTP can be signed in to");
    assert!(local.server().sign_out().await.is_err());
}

#[tokio::test]
async fn the_older_form_of_http_signs_in_as_well() {
    let town = Town::start().await;
    let (issued_by, book) = (town.issuer.url.clone(), town.book.clone());
    let older = Web::start(move |url, seen| {
        Some(match seen.path.as_str() {
            "/.well-known/oauth-protected-resource" => {
                crate::web::ok(&json!({"resource": url, "authorization_servers": [issued_by]}))
            }
            "/sse" if seen.token().is_some_and(|token| book.lock().unwrap().good.contains_key(token)) => {
                reply("200 OK\r\ncontent-type: text/html", "")
            }
            "/sse" => reply("401 Unauthorized", ""),
            _ => reply("404 Not Found", ""),
        })
    })
    .await;
    let (host, _) = with_user(host());
    let config = ServerConfig::new("o", ServerTransport::sse(format!("{}/sse", older.url)));
    let room = Room::settled([config], host).await;
    assert!(needs_sign_in(&room).contains("`haft mcp login o`"));
    room.server().sign_in().await.unwrap();
    let ServerStatus::Failed { reason, .. } = room.server().status() else {
        panic!("{:?}", room.server().status())
    };
    assert_eq!(reason, "it answered with `text/html` in place of events", "it got past the door");
}
