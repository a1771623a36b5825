//! HTTP requests to `haft serve` from whoever isn't meant to reach it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::json;

use super::{Scene, Tally, User};

/// A request: what replaces the lines of an honest one. `{address}` and `{port}` are those of the server.
const REQUESTS: [(&str, &str); 26] = [
    ("host: {address}", "host: evil.example"),
    ("host: {address}", "host: evil.example:{port}"),
    ("host: {address}", "host: localhost"),
    ("host: {address}", "host: localhost:1"),
    ("host: {address}", "host: 127.0.0.1"),
    ("host: {address}", "host: localhost.evil.example:{port}"),
    ("host: {address}", "host: 127.0.0.1.evil.example:{port}"),
    ("host: {address}", "host: evil@localhost:{port}"),
    ("host: {address}", "host: localhost:{port}@evil.example"),
    ("host: {address}", "host: 0.0.0.0:{port}"),
    ("host: {address}", "host: {address}\r\nhost: evil.example"),
    ("host: {address}", "x: y"),
    ("host: {address}", "x: y\nhost: {address}"),
    ("host: {address}", "host: {address}\nx: y"),
    ("host: {address}", "host: {address}\r\norigin: https://evil.example"),
    ("host: {address}", "host: {address}\r\norigin: null"),
    ("host: {address}", "host: {address}\r\norigin: http://localhost:3000"),
    ("host: {address}", "host: {address}\r\norigin: http://127.0.0.1"),
    ("host: {address}", "host: {address}\r\norigin: http://{address}.evil.example"),
    ("POST /mcp", "POST http://evil.example/mcp"),
    ("POST /mcp", "POST http://localhost:1/mcp"),
    ("authorization: Bearer TOKEN\r\n", ""),
    ("Bearer TOKEN", "Bearer wrong"),
    ("Bearer TOKEN", "Bearer"),
    ("Bearer TOKEN", "Basic TOKEN"),
    ("content-length:", "transfer-encoding: chunked\r\ncontent-length:"),
];

struct Served {
    child: Child,
    address: String,
    token: String,
}

impl Served {
    fn start(scene: &Scene) -> Served {
        let mut command = scene.haft();
        command.args(["serve", "--http", "127.0.0.1:0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut after = |start: &str| {
            lines
                .find_map(|line| line.strip_prefix(start).map(str::to_owned))
                .expect("it says where it listens")
        };
        let url = after("listening on ");
        let token = after("token, shown only now: ");
        let address = url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Served { child, address, token }
    }

    /// Whether a request is answered with the list of tools.
    fn is_let_in(&self, change: Option<(&str, &str)>) -> bool {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
        let body =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
        let mut request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {{address}}\r\nauthorization: Bearer TOKEN\r\nmcp-method: tools/list\r\nmcp-protocol-version: \
             2026-07-28\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nconnection: \
             close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if let Some((from, to)) = change {
            assert!(request.contains(from), "{from}");
            request = request.replacen(from, to, 1);
        }
        let port = self.address.rsplit(':').next().unwrap();
        let request =
            request.replace("{address}", &self.address).replace("{port}", port).replace("TOKEN", &self.token)
                + &body;
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"tools\"")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes all requests; the honest one is their control, after each.
pub(super) fn attack() -> Vec<((&'static str, User), Tally)> {
    let by = |user: User| {
        let scene = Scene::new(user);
        scene.hand_over();
        let served = Served::start(&scene);
        let mut tally = Tally::default();
        for (from, to) in REQUESTS {
            let is_let_in = served.is_let_in(Some((from, to)));
            if is_let_in {
                println!("let in: {from} → {to:?}");
            }
            tally.attempts += 1;
            tally.successes += usize::from(is_let_in);
            tally.controls += 1;
            tally.controls_succeeded += usize::from(served.is_let_in(None));
        }
        (("requests", user), tally)
    };
    User::all().into_iter().map(by).collect()
}
