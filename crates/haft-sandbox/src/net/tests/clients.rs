//! Programs that people use, told of the proxy by nothing but their environment. One that isn't installed is
//! passed over with a word.

use std::ffi::OsStr;
use std::process::{Command, Output};
use std::sync::mpsc;

use super::super::client_hello::{self, ClientHello};
use super::super::host::Host;
use super::{World, allowing, hosts, net, server, web};

/// Runs a program with the environment of a call and nothing else of a proxy.
fn run(ticket: &super::NetworkTicket, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Option<Output> {
    let mut argv = argv.into_iter();
    let program = argv.next().unwrap();
    let mut command = Command::new(&program);
    command
        .args(argv)
        .envs(ticket.env())
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_GLOBAL", "/dev/null");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: `{}` doesn't start: {error}", program.as_ref().display());
            None
        }
    }
}

/// Runs it against an allowed host and against another; what it printed for each.
fn both(argv: &[&str]) -> Option<(Output, Output, Vec<String>)> {
    let (address, seen) = web();
    let world = World::default();
    world.machine("good.example", 80, address);
    world.machine("bad.example", 80, address);
    let net = net(allowing(&["good.example"]), world);
    let ticket = net.admit(&[]);
    let with = |host: &str| run(&ticket, argv.iter().map(|part| part.replace("HOST", host)));
    let (good, bad) = (with("good.example")?, with("bad.example")?);
    let told = hosts(&ticket.refusals());
    assert!(
        told.iter().all(|(host, port, _)| host == "bad.example" && *port == Some(80)) && told.len() == 1,
        "{told:?}"
    );
    assert_eq!(net.network.refusals(), [], "the token came with the first request");
    // A server tells when the connection is gone, which may be after its client.
    let first = seen.recv().unwrap();
    Some((good, bad, std::iter::once(first).chain(seen.try_iter()).collect()))
}

#[test]
fn curl_finds_the_proxy() {
    let Some((good, bad, seen)) = both(&["curl", "-sS", "http://HOST/x"]) else { return };
    assert_eq!(String::from_utf8_lossy(&good.stdout), "hello", "{good:?}");
    assert!(String::from_utf8_lossy(&bad.stdout).contains("`WebFetch(domain:bad.example)` would"), "{bad:?}");
    assert!(seen.len() == 1 && seen[0].starts_with("GET /x HTTP/1.1\r\nHost: good.example\r\n"), "{seen:?}");
    assert!(!seen[0].to_ascii_lowercase().contains("proxy"), "{seen:?}");
}

#[test]
fn python_finds_the_proxy() {
    let script =
        "import sys, urllib.request\nprint(urllib.request.urlopen('http://HOST/x', timeout=30).read())";
    let Some((good, bad, _)) = both(&["python3", "-c", script]) else { return };
    assert_eq!(String::from_utf8_lossy(&good.stdout).trim(), "b'hello'", "{good:?}");
    assert!(
        String::from_utf8_lossy(&bad.stderr).contains("403: Not allowed by the network rules of haft"),
        "{bad:?}"
    );
}

#[test]
fn git_finds_the_proxy() {
    let Some((_, bad, seen)) = both(&["git", "ls-remote", "http://HOST/x.git"]) else { return };
    assert!(seen.iter().all(|seen| seen.starts_with("GET /x.git/")), "{seen:?}");
    assert!(!bad.status.success());
}

#[test]
fn a_real_clients_first_message_is_understood() {
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let world = World::default();
    world.machine(
        "good.example",
        443,
        server(move |mut stream| {
            let mut bytes = Vec::new();
            while client_hello::parse_hello(&bytes) == ClientHello::Unfinished {
                let mut more = [0; 4096];
                let count = std::io::Read::read(&mut stream, &mut more).unwrap();
                bytes.extend_from_slice(&more[..count]);
            }
            tell.lock().unwrap().send(client_hello::parse_hello(&bytes)).unwrap();
        }),
    );
    let net = net(allowing(&["good.example"]), world);
    let ticket = net.admit(&[]);
    // There is no certificate behind it, so the client fails; but it got that far.
    if run(&ticket, ["curl", "-sS", "https://good.example/"]).is_some() {
        assert_eq!(told.recv().unwrap(), ClientHello::For(Some(Host::parse("good.example").unwrap())));
    }
    assert_eq!(ticket.refusals(), []);
}

#[test]
fn own_servers_are_reached_without_the_proxy() {
    let (address, seen) = web();
    let net = net(allowing(&[]), World::default());
    let ticket = net.admit(&[]);
    let url = format!("http://{address}/x");
    if let Some(output) = run(&ticket, ["curl", "-sS", &url]) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{output:?}");
        assert!(seen.recv().unwrap().starts_with("GET /x HTTP/1.1\r\n"));
    }
    assert_eq!(ticket.refusals(), []);
}
