//! Which servers a fetch reaches: addresses, names, redirects, this machine.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use haft_net::fetch::{FetchResult, FetchTarget, Fetcher};

use crate::fake_network::{FakeNetwork, PUBLIC, body, fetcher_for, fixed_server, get, page, server};

#[tokio::test]
async fn a_page_comes_from_the_address_that_was_checked() {
    let (fetcher, world) = fetcher_for(fixed_server(page("content-type: text/plain\r\n", b"hello")));
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "hello");
    assert_eq!((world.dialed_addresses(), world.lookups()), (vec![format!("{PUBLIC}:80")], 1));
}

#[tokio::test]
async fn what_is_not_public_is_never_dialled() {
    for inner in [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "0.0.0.0",
        "fe80::1",
    ] {
        let (fetcher, world) = fetcher_for(fixed_server(page("", b"secret")));
        world.name("a.example", &[&[inner]]);
        let message = body(&fetcher, "http://a.example/").await.unwrap_err();
        assert!(message.contains("leads to no public address"), "{inner}: {message}");
        assert_eq!(world.dialed_addresses(), Vec::<String>::new(), "{inner}");
    }
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:7f00:1]/",
        "http://localhost/",
        "http://a.localhost/",
        "http://0/",
        "http://10.1.2.3/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "http://[64:ff9b::a00:1]/",
    ] {
        let (fetcher, world) = fetcher_for(fixed_server(page("", b"secret")));
        assert!(get(&fetcher, url).await.is_err(), "{url}");
        assert_eq!(world.dialed_addresses(), Vec::<String>::new(), "{url}");
    }
}

#[tokio::test]
async fn of_several_addresses_only_those_that_passed_are_dialled() {
    let (fetcher, world) = fetcher_for(fixed_server(page("", b"hello")));
    world.name("a.example", &[&["127.0.0.1", "10.0.0.1", PUBLIC]]);
    assert_eq!(body(&fetcher, "http://a.example/").await.unwrap(), "hello");
    assert_eq!(world.dialed_addresses(), [format!("{PUBLIC}:80")]);
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_checked_again_at_the_redirect() {
    let (fetcher, world) =
        fetcher_for(fixed_server("HTTP/1.1 302 Found\r\nlocation: /secret\r\ncontent-length: 0\r\n\r\n"));
    world.name("a.example", &[&[PUBLIC], &["127.0.0.1"]]);
    let message = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert!(
        message.contains("leads to no public address: `127.0.0.1` is an address of this machine"),
        "{message}"
    );
    assert_eq!(world.dialed_addresses(), [format!("{PUBLIC}:80")]);
}

#[tokio::test]
async fn redirects_stay_on_the_host_or_are_told() {
    let moved =
        |to: &str| fixed_server(format!("HTTP/1.1 301 Moved\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"));
    for to in [
        "https://b.example/x",
        "http://www.a.example/",
        "http://a.example.evil.example/",
        "//b.example/",
        "http://a.example:8080/",
    ] {
        let (fetcher, world) = fetcher_for(moved(to));
        let FetchResult::OtherOrigin { from, to: told, status } =
            get(&fetcher, "http://a.example/").await.unwrap()
        else {
            panic!("{to} was followed")
        };
        assert_eq!((from.as_str(), status), ("http://a.example/", 301));
        assert!(told.as_str().contains("example"), "{told}");
        assert_eq!(world.dialed_addresses().len(), 1, "{to}");
    }
    for (to, part) in [
        ("file:///etc/passwd", "`file:` is not fetched"),
        ("http://u:p@a.example/", "a user or a password"),
        ("gopher://a.example/", "`gopher:`"),
        ("http://a.example:25/", "port 25"),
    ] {
        let message = body(&fetcher_for(moved(to)).0, "http://a.example/").await.unwrap_err();
        assert!(message.contains(part), "{to}: {message}");
    }
    // A redirect to this machine is reported and not requested.
    let (fetcher, world) = fetcher_for(moved("http://127.0.0.1:8099/"));
    assert!(matches!(get(&fetcher, "http://a.example/").await, Ok(FetchResult::OtherOrigin { .. })));
    assert_eq!(world.dialed_addresses().len(), 1);
}

#[tokio::test]
async fn redirects_on_the_host_are_followed_and_have_an_end() {
    let (fetcher, _) = fetcher_for(server(|head, stream| {
        let answer = match head.split(' ').nth(1).unwrap() {
            "/end" => page("", b"there"),
            _ => b"HTTP/1.1 307 Go\r\nlocation: end\r\ncontent-length: 0\r\n\r\n".to_vec(),
        };
        stream.write_all(&answer).unwrap();
    }));
    assert_eq!(body(&fetcher, "http://a.example/start#part").await.unwrap(), "there");

    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let (fetcher, _) = fetcher_for(server(move |_, stream| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        write!(stream, "HTTP/1.1 302 Go\r\nlocation: /{n}\r\ncontent-length: 0\r\n\r\n").unwrap();
    }));
    let message = body(&fetcher, "http://a.example/").await.unwrap_err();
    assert_eq!((message.as_str(), asked.load(Ordering::SeqCst)), ("it redirects more than 5 times", 6));
}

#[tokio::test]
async fn this_machine_is_open_by_a_rule_with_its_port() {
    let (one, other) = (fixed_server(page("", b"mine")), fixed_server(page("", b"not this")));
    let rule = |text: &str| Fetcher::new().with_opened([text.parse().unwrap()]);
    let open = rule(&format!("localhost:{}", one.port()));
    for host in ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"] {
        assert_eq!(body(&open, &format!("http://{host}:{}/", one.port())).await.unwrap(), "mine", "{host}");
    }
    let message = body(&open, &format!("http://localhost:{}/", other.port())).await.unwrap_err();
    assert!(
        message.contains(&format!("`localhost:{}` among `sandbox.network.allowedDomains`", other.port())),
        "{message}"
    );
    for closed in ["localhost", "*", "127.0.0.1"] {
        assert!(body(&rule(closed), &format!("http://localhost:{}/", one.port())).await.is_err(), "{closed}");
    }
    let denied = open.with_denied(["localhost".parse().unwrap()]);
    assert!(
        body(&denied, &format!("http://localhost:{}/", one.port())).await.unwrap_err().contains("denies")
    );
}

#[tokio::test]
async fn a_private_address_is_open_by_its_own_rule() {
    let world = Arc::new(FakeNetwork::default());
    world.route("10.0.0.7:80", fixed_server(page("", b"inner")));
    world.name("in.example", &[&["10.0.0.7"]]);
    let fetcher = Fetcher::new().with_network(world.clone());
    let open = fetcher.clone().with_opened(["10.0.0.7".parse().unwrap()]);
    assert_eq!(body(&open, "http://10.0.0.7/").await.unwrap(), "inner");
    assert!(body(&open, "http://in.example/").await.is_err(), "the rule is for the address");
    assert!(body(&fetcher.clone().with_opened(["*".parse().unwrap()]), "http://10.0.0.7/").await.is_err());
    assert_eq!(body(&fetcher.with_private_addresses(true), "http://in.example/").await.unwrap(), "inner");
}

#[test]
fn pages_are_asked_for_by_https_but_at_home() {
    let fetcher =
        Fetcher::new().with_opened(["localhost:8080".parse().unwrap(), "10.0.0.7".parse().unwrap()]);
    for (url, asked) in [
        ("http://a.example/", "https://a.example/"),
        ("https://a.example/", "https://a.example/"),
        ("http://93.184.216.34/", "https://93.184.216.34/"),
        ("http://localhost:8080/", "http://localhost:8080/"),
        ("http://10.0.0.7/", "http://10.0.0.7/"),
        ("http://10.0.0.8/", "https://10.0.0.8/"),
    ] {
        assert_eq!(fetcher.prefer_https(&FetchTarget::parse(url).unwrap()).to_string(), asked);
    }
}

#[tokio::test]
async fn requests_carry_nothing_of_the_user() {
    let (fetcher, _) =
        fetcher_for(server(|head, stream| stream.write_all(&page("", head.as_bytes())).unwrap()));
    let head = body(&fetcher, "http://a.example/a%20b?c=d").await.unwrap().to_lowercase();
    let mut lines: Vec<&str> = head.lines().filter(|line| !line.is_empty()).collect();
    lines.sort_unstable();
    let agent = format!("user-agent: haft/{}", env!("CARGO_PKG_VERSION"));
    let wanted = [
        "accept-encoding: gzip",
        "accept: text/html",
        "connection: close",
        "get /a%20b?c=d http/1.1",
        "host: a.example",
        &agent,
    ];
    assert_eq!(lines, wanted);
}
