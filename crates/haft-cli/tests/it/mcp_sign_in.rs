//! `haft mcp login` and `logout`, with a server that wants a sign-in and whoever gives tokens for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::room::{PATH, Room, crate_path};

/// Ends with the test.
struct Peer(Child, String);

impl Peer {
    fn start() -> Peer {
        let mut command = Command::new("python3");
        command.arg("-u").arg(crate_path("tests/python/signed.py")).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Peer(child, format!("127.0.0.1:{}", port.trim()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Opens an address as a browser would, and returns the head of the answer.
fn open(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

fn sent_to(answer: &str) -> &str {
    let location = |line: &str| line.to_ascii_lowercase().starts_with("location: ");
    answer
        .lines()
        .find(|line| location(line))
        .and_then(|line| line.split_once(' '))
        .expect("a redirect")
        .1
        .trim()
}

#[test]
fn a_sign_in_is_kept_used_and_given_back() {
    let peer = Peer::start();
    let room = Room::new();
    let server = json!({"mcpServers": {"s": {"type": "http", "url": format!("http://{}/mcp", peer.1)}}});
    room.write("servers.json", &server.to_string());
    let with = |args: &[&str]| {
        [args, &["--mcp-config", "../servers.json"]]
            .concat()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let say = |args: &[&str]| {
        let args = with(args);
        room.say(&args.iter().map(String::as_str).collect::<Vec<_>>())
    };

    let call = ["mcp", "call", "s", "who", "{}", "--allow", "mcp__s"];
    let wants = say(&["mcp", "list"]);
    assert!(wants.stdout.starts_with("? s") && wants.stdout.contains("haft mcp login s"), "{wants:?}");
    let refused = say(&call);
    assert!(refused.code == Some(1) && refused.stderr.contains("haft mcp login s"), "{refused:?}");

    let mut login = room.haft(with(&["mcp", "login", "s"]));
    let mut login = login.env(PATH, std::env::var_os(PATH).unwrap()).spawn().unwrap();
    let mut said = BufReader::new(login.stderr.take().unwrap()).lines().map(Result::unwrap);
    let page =
        said.by_ref().find_map(|line| Some(line.strip_prefix("  http")?.to_owned())).expect("an address");
    let back = open(&format!("http{page}"));
    let answer = open(sent_to(&back));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let said: Vec<String> = said.collect();
    assert!(login.wait().unwrap().success(), "{said:?}");
    assert!(said.last().unwrap().starts_with("signed in to `s` by http://127.0.0.1:"), "{said:?}");

    let folder = room.path("home/.local/state/haft/mcp-tokens");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let kept: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(
        mode(&folder) == 0o700 && !kept.is_empty() && kept.iter().all(|file| mode(file) == 0o600),
        "{kept:?}"
    );
    let called = say(&call);
    assert_eq!((called.code, called.stdout.as_str()), (Some(0), "somebody who signed in\n"), "{called:?}");
    let listed = say(&["mcp", "list"]);
    assert!(listed.stdout.starts_with("✓ s"), "{listed:?}");

    let out = say(&["mcp", "logout", "s"]);
    assert!(out.code == Some(0) && out.stderr.ends_with("signed out of `s`\n"), "{out:?}");
    let refused = say(&call);
    assert!(refused.code == Some(1) && refused.stderr.contains("haft mcp login s"), "{refused:?}");
    assert!(say(&["mcp", "logout", "s"]).stderr.ends_with("there was no sign-in to `s`\n"));
}
